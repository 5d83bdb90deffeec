"""Candidates of a search whose C is "path": for each other setting the C with the best mean accuracy over all folds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split

from ..core.runtime import clock
from ..exceptions import FitError, ProblemError
from ._accuracy import accuracy_steps, best_interval
from ._evaluation import last_name, last_step
from ._folds import Split
from ._models import with_parameters
from .regularization import regularization_path

#: The value of C in a grid that stands for all C of an interval.
PATH = "path"
#: The interval of C, unless the grid gives one.
DEFAULT_SPAN = (1e-2, 1e3)


def candidates_of(
    search: Any, X: Any, y: Any, splits: Sequence[Split], fit_params: Mapping[str, Any], deadline: float | None
) -> list[dict[str, Any]]:
    """Return the candidates of a search's grid; raise `ProblemError` for a path that cannot be followed.

    `FitError` is raised if the deadline, a `time.monotonic` value, is over before all paths are followed.
    """
    grids = [search.param_grid] if isinstance(search.param_grid, Mapping) else search.param_grid
    name, found = f"{last_name(search.estimator)}C", []
    for grid in grids:
        if not (isinstance(grid, Mapping) and _is_path(grid.get(name))):
            found += list(ParameterGrid(grid))
            continue
        if search.scoring not in (None, "accuracy"):
            raise ProblemError(
                f"scoring={search.scoring!r}: along a path C is chosen by accuracy, which is a step function of it; "
                "for other scores give a list of C"
            )
        span = DEFAULT_SPAN if grid[name] == PATH else tuple(grid[name][1:])
        for others in ParameterGrid({key: value for key, value in grid.items() if key != name}):
            model = with_parameters(clone(search.estimator), others)
            search._check_kind(f"param_grid: the estimator of {others}", model)
            try:
                with clock.within(deadline):
                    found.append({name: _best_on_path(model, X, y, splits, fit_params, span), **others})
            except (clock.OutOfTime, FitError) as error:
                if deadline is None or time.monotonic() < deadline:
                    raise
                raise FitError(
                    f"time_limit={search.time_limit!r} was over before the paths along C of all settings and folds "
                    "were followed; raise it, or give a list of C",
                    getattr(error, "solution", None),
                ) from None
    return found


def _is_path(value: Any) -> bool:
    """Whether a value of a grid is "path", or ("path", low, high)."""
    if isinstance(value, str):
        if value == PATH:
            return True
    elif isinstance(value, (tuple, list)) and len(value) == 3 and isinstance(value[0], str) and value[0] == PATH:
        return True
    elif not isinstance(value, (tuple, list)) or PATH not in [each for each in value if isinstance(each, str)]:
        return False
    raise ProblemError(f"C={value!r} in param_grid: give a list of numbers, 'path', or ('path', low, high)")


def _best_on_path(
    model: Any,
    X: Any,
    y: Any,
    splits: Sequence[Split],
    fit_params: Mapping[str, Any],
    span: tuple[float, ...],
) -> float:
    """Return the middle of the widest interval of C with the best mean accuracy of the folds' test rows."""
    name, steps = f"{last_name(model)}sample_weight", []
    if others := fit_params.keys() - {name}:
        raise ProblemError(f"fit: C='path' takes {name}, and no {sorted(others)}; give a list of C")
    weight = fit_params.get(name)
    for train, test in splits:
        (X_train, y_train), (X_test, y_test) = (
            _safe_split(model, X, y, train),
            _safe_split(model, X, y, test, train),
        )
        if isinstance(model, Pipeline):
            transformers = clone(model[:-1])
            X_train, X_test = transformers.fit_transform(X_train, y_train), transformers.transform(X_test)
        own = None if weight is None else np.asarray(weight)[train]
        path = regularization_path(last_step(model), X_train, y_train, C=span, sample_weight=own)  # type: ignore[arg-type]
        steps.append(accuracy_steps(path, X_test, y_test))
    found = best_interval(steps)
    if found is None:
        raise ProblemError(
            f"C={(PATH, *span)!r}: nowhere on this path is the bias unique in all folds; raise the upper end"
        )
    _, low, high = found
    return float(np.sqrt(low) * np.sqrt(high))
