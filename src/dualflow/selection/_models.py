"""Models of one fold for scorers: values on the fold's rows are known, and a fit is made if anything else is needed."""

from __future__ import annotations

from copy import copy, deepcopy
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from ..estimators.svc import SVC
from ..estimators.svr import SVR

#: Types of parameters that a copy may hold as they are.
PLAIN_TYPES = (str, int, float, bool, type(None), np.generic)


def unfitted_copy(model: Any) -> Any:
    """Return an unfitted copy of a model.

    `clone` reads signatures, which takes longer than a small fit; a model with plain parameter values is copied
    without it.
    """
    if not all(isinstance(value, PLAIN_TYPES) for value in vars(model).values()):
        return clone(model)
    copied = object.__new__(type(model))
    copied.__dict__.update(vars(model))
    return copied


def with_parameters(model: Any, parameters: dict[str, Any]) -> Any:
    """Return a copy of an unfitted model with other parameters, as `clone` and `set_params` make it."""
    values = vars(model)
    if all(name in values and isinstance(value, PLAIN_TYPES) for name, value in parameters.items()):
        copied = unfitted_copy(model)
        vars(copied).update(parameters)
        return copied
    return clone(model).set_params(**clone(parameters, safe=False))


class _OfFold:
    """Mixin for estimators whose values on known rows come from the shared kernel matrix.

    A known array is recognised by identity; it is the object that the search passes to the scorer. For other rows,
    support vectors or certificates the estimator is fitted to the fold, once.
    """

    #: The estimator class that is fitted.
    _plain: ClassVar[type]
    _known: list[tuple[Any, NDArray]]
    _training: tuple[Any, ...]
    _fitted: Any

    @classmethod
    def of(cls, model: Any, known: list[tuple[Any, NDArray]], training: tuple[Any, ...], **fitted: Any) -> Any:
        """Return a model with the parameters of an estimator.

        ``known`` holds pairs of rows and their values, ``training`` is ``(X, y, fit parameters)`` of the training
        rows, and ``fitted`` are attributes.
        """
        self = object.__new__(cls)
        self.__dict__.update(copy(model.__dict__), **fitted, _known=known, _training=training, _fitted=None)
        return self

    def __sklearn_clone__(self) -> Any:
        return self._plain(**self.get_params(deep=False))

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __copy__(self) -> Any:
        return copy(self._fitted_model())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return deepcopy(self._fitted_model(), memo)

    def __reduce__(self) -> Any:
        return _identity, (self._fitted_model(),)  # a pickle holds the fitted estimator

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_training" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self._fitted_model(), name)

    def _fitted_model(self) -> Any:
        """Return the estimator fitted to the fold, fitting it at the first call."""
        if self._fitted is None:
            X, y, fit_params = self._training
            self._fitted = self._plain(**self.get_params(deep=False)).fit(X, y, **fit_params)
        return self._fitted

    def _values(self, X: Any) -> NDArray | None:
        """Return the known values of these rows, or None."""
        return next((values for rows, values in self._known if rows is X), None)


def _identity(model: Any) -> Any:
    """Return the model; the function that a pickle calls."""
    return model


class FoldSVC(_OfFold, SVC):
    """An `SVC` of one fold with known decision values of the pairs of classes."""

    _plain = SVC

    @staticmethod
    def values_of(model: SVC, X: Any) -> NDArray:
        """Return the values of a fitted model on rows, in the form that is known here."""
        return model._pair_values(X)

    def _pair_values(self, X: ArrayLike) -> NDArray:
        self._check_parameters("decision_function_shape")
        values = self._values(X)
        found: NDArray = self._fitted_model()._pair_values(X) if values is None else values
        return found


class FoldSVR(_OfFold, SVR):
    """An `SVR` of one fold with known predictions."""

    _plain = SVR

    @staticmethod
    def values_of(model: SVR, X: Any) -> NDArray:
        """Return the values of a fitted model on rows, as `FoldSVC.values_of`."""
        return model.predict(X)[:, None]

    def predict(self, X: ArrayLike) -> NDArray:
        values = self._values(X)
        found: NDArray = self._fitted_model().predict(X) if values is None else values[:, 0]
        return found
