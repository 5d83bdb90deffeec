"""What a scorer is handed for a fold: a model that knows its values on the fold's rows, and is fitted for any other."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from ..estimators.svc import SVC
from ..estimators.svr import SVR

__all__ = ["FoldSVC", "FoldSVR", "unfitted_copy"]

#: Types of parameters that a copy may hold as they are.
PLAIN_TYPES = (str, int, float, bool, type(None), np.generic)


def unfitted_copy(model: Any) -> Any:
    """A clone of an unfitted model. `clone` reads signatures, which takes longer than a small fit, so that models all
    of whose attributes are plain values are copied without it."""
    if not all(isinstance(value, PLAIN_TYPES) for value in vars(model).values()):
        return clone(model)
    copied = object.__new__(type(model))
    copied.__dict__.update(vars(model))
    return copied


class _OfFold:
    """Mixin: values on known rows come from the shared kernel matrix.

    Known is an array by identity, the very object that the search hands to the scorer. Whatever else is asked (other
    rows, support vectors, certificates) is answered by the estimator itself, fitted to the fold when that first
    happens.
    """

    #: The estimator that stands for this class where one is fitted.
    _plain: ClassVar[type]
    _known: list[tuple[Any, NDArray]]
    _training: tuple[Any, ...]
    _fitted: Any

    @classmethod
    def of(cls, model: Any, known: list[tuple[Any, NDArray]], training: tuple[Any, ...], **fitted: Any) -> Any:
        """From an estimator with its parameters, what it would say of known rows, ``(X, y, fit parameters)`` of the
        training rows, and attributes."""
        self = object.__new__(cls)
        self.__dict__.update(copy(model.__dict__), **fitted, _known=known, _training=training, _fitted=None)
        return self

    def __sklearn_clone__(self) -> Any:
        return self._plain(**self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __copy__(self) -> Any:
        return copy(self._real())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy(self._real(), memo)

    def __reduce__(self) -> Any:
        return _same, (self._real(),)  # whoever keeps it wants the model, not the search

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_training" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self._real(), name)

    def _real(self) -> Any:
        if self._fitted is None:
            X, y, fit_params = self._training
            self._fitted = self._plain(**self.get_params(deep=False)).fit(X, y, **fit_params)
        return self._fitted

    def _values(self, X: Any) -> NDArray | None:
        """What is known of these rows."""
        return next((values for rows, values in self._known if rows is X), None)


def _same(model: Any) -> Any:
    return model


class FoldSVC(_OfFold, SVC):
    """An `SVC` of one fold; known are the decision values of the pairs of classes."""

    _plain = SVC

    @staticmethod
    def values_of(model: SVC, X: Any) -> NDArray:
        """What a fitted model says of rows, as it is known here."""
        return model._pair_values(X)

    def _pair_values(self, X: ArrayLike) -> NDArray:
        self._check_parameters("decision_function_shape")
        values = self._values(X)
        found: NDArray = self._real()._pair_values(X) if values is None else values
        return found


class FoldSVR(_OfFold, SVR):
    """An `SVR` of one fold; known are its predictions."""

    _plain = SVR

    @staticmethod
    def values_of(model: SVR, X: Any) -> NDArray:
        """As of `FoldSVC`."""
        return model.predict(X)[:, None]

    def predict(self, X: ArrayLike) -> NDArray:
        values = self._values(X)
        found: NDArray = self._real().predict(X) if values is None else values[:, 0]
        return found
