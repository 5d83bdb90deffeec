"""Classifiers that learn from streams, as estimators of river.

river gives one point at a time as a dictionary, and expects an answer before the first point. It is optional:
``pip install river``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.base import clone

from ..estimators import EcoSVC, IncrementalSVC
from ..exceptions import ProblemError, SolverUnavailable

try:
    from river.base import Classifier
except ImportError:
    Classifier = object  # `RiverClassifier` then says what is missing


class RiverClassifier(Classifier):
    """An `IncrementalSVC` or `EcoSVC` that learns a stream of river.

    The features are those of the first point. A later point that lacks one has 0 there, as river's linear models
    assume, and features that the first point lacked are left out. There are no probabilities.

    Parameters
    ----------
    model : IncrementalSVC or EcoSVC
        With its parameters; it is not changed. ``gamma`` must be a number unless the kernel has none: a first point
        alone has no scale.
    classes : tuple
        All labels that the stream will have.

    Attributes
    ----------
    fitted : IncrementalSVC or EcoSVC
        The model of all points learned so far.

    Raises
    ------
    SolverUnavailable
        river is not installed: ``pip install river``.
    ProblemError
        The model is another one; later, as `partial_fit` of the model.

    Examples
    --------
    >>> from dualflow import IncrementalSVC
    >>> from dualflow.interchange.river import RiverClassifier
    >>> from river import datasets, evaluate, metrics
    >>> model = RiverClassifier(IncrementalSVC(gamma=0.5), classes=(False, True))
    >>> evaluate.progressive_val_score(datasets.Phishing().take(200), model, metrics.Accuracy()).get() > 0.8
    True
    """

    def __init__(self, model: IncrementalSVC | EcoSVC, classes: tuple[Any, ...]) -> None:
        if Classifier is object:
            raise SolverUnavailable("RiverClassifier needs river, which is not installed: pip install river")
        if not isinstance(model, (IncrementalSVC, EcoSVC)):
            raise ProblemError(f"model is {type(model).__name__}; give an IncrementalSVC or EcoSVC")
        self.model, self.classes = model, classes
        self.fitted: IncrementalSVC | EcoSVC = clone(model)
        self._features: list[Any] | None = None

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": IncrementalSVC(gamma=0.5), "classes": (False, True)}
        yield {"model": EcoSVC(gamma=0.5), "classes": (False, True)}

    @property
    def _multiclass(self) -> bool:
        return len(self.classes) > 2

    def _row(self, x: dict[Any, Any]) -> list[list[float]]:
        """Return the features of a point as an array of one row."""
        assert self._features is not None
        return [[x.get(name, 0.0) for name in self._features]]

    def learn_one(self, x: dict[Any, Any], y: Any) -> None:
        """Learn one point, a dictionary of numbers, and its label."""
        if self._features is None:
            self._features = list(x)
        self.fitted.partial_fit(self._row(x), [y], classes=list(self.classes))

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the predicted label of a point; None before the first point is learned."""
        if self._features is None:
            return None
        label = np.asarray(self.fitted.predict(self._row(x)))[0]
        return label.item() if isinstance(label, np.generic) else label
