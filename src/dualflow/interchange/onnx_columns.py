"""The inputs of an ONNX graph whose pipeline takes named columns: one a column, of the type that it was fitted on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline


def columns_of(model: Any, numbers: Any) -> list[tuple[str, Any]] | None:
    """Return name and type of each column that a model takes by name; None if it takes one matrix.

    ``numbers`` is the tensor type of columns that are no categories.
    """
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    names = getattr(model, "feature_names_in_", None)
    transformer = _first_step(model)
    if names is None or not isinstance(transformer, ColumnTransformer):
        return None
    kinds = dict.fromkeys(names.tolist(), numbers)
    dropped: list[str] = []
    for _, step, columns in transformer.transformers_:
        given = _names_of(columns, names)
        if isinstance(step, str) and step == "drop":
            dropped += given
            continue
        for name, kind in zip(given, _categories(step, len(given)), strict=True):
            if kind in "OUS":
                kinds[name] = StringTensorType
            elif kind in "iub":
                kinds[name] = Int64TensorType
    # skl2onnx counts places among the inputs, so that columns chosen by their place need all inputs.
    by_place = any(_are_places(columns) for _, step, columns in transformer.transformers if not isinstance(step, str))
    return [(name, kind([None, 1])) for name, kind in kinds.items() if by_place or name not in dropped]


def _first_step(model: Any) -> Any:
    """Return the first transformer of a pipeline, or of pipelines within one."""
    while isinstance(model, Pipeline):
        model = model.steps[0][1]
    return model


def _are_places(columns: Any) -> bool:
    """Whether columns are a slice, a mask or numbers, and not names."""
    return isinstance(columns, slice) or np.asarray(columns).dtype.kind in "iub"


def _names_of(columns: Any, names: NDArray) -> list[str]:
    """Return the names that columns stand for: a name, names, places, a mask, or a slice of names or places."""
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice):
        places = {name: k for k, name in enumerate(names.tolist())}
        start, stop = places.get(columns.start, columns.start), columns.stop
        if isinstance(stop, str):  # as in pandas, the last name is in a slice of names
            stop = places[stop] + 1
        columns = slice(start, stop, columns.step)
    elif not _are_places(columns):
        return list(columns)
    found: list[str] = names[columns].tolist()
    return found


def _categories(step: Any, count: int) -> str:
    """Return the kind of dtype of the values of each column, "f" for numbers that are no categories."""
    step = _first_step(step)
    categories = getattr(step, "categories_", None)
    if categories is not None and len(categories) == count:
        return "".join(values.dtype.kind for values in categories)
    statistics = getattr(step, "statistics_", None)  # of a SimpleImputer
    return ("O" if getattr(statistics, "dtype", np.dtype(float)).kind in "OU" else "f") * count
