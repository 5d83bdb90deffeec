"""Regression that learns and forgets a point at a time, exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from ..problems import Growing, GrowingTube
from ..problems.classification import FINITE_COST
from ..problems.regression import TUBE
from ._attributes import fitted, refused
from ._incremental import IncrementalMachine

__all__ = ["IncrementalSVR"]


class IncrementalSVR(RegressorMixin, IncrementalMachine):
    """ε-insensitive support vector regression that learns and forgets exactly, a point at a time.

    Parameters
    ----------
    C : float > 0, default=1.0
    epsilon : float ≥ 0, default=0.1
        Half the width of the tube within which no loss is paid.
    kernel, gamma, degree, coef0, reserve, predict_dtype
        As in `IncrementalSVC`.

    Attributes
    ----------
    support_, support_vectors_, n_support_, dual_coef_, intercept_
        As in `IncrementalSVC`; dual_coef_ holds α − α*, in one row.
    solution_, solutions_, certificate_, certificates_
        As in `IncrementalSVC`, of the dual in (α, α*).
    ids_, next_id_, support_ids_, drift_, n_pivots_, n_features_in_, feature_names_in_
        As in `IncrementalSVC`.

    Examples
    --------
    >>> from dualflow import IncrementalSVR
    >>> line = IncrementalSVR(C=100, epsilon=0.0, kernel="linear").fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 9.0])
    >>> round(float(line.forget([2]).predict([[2.0]])[0]), 6)
    5.0
    """

    _rules = {"C": FINITE_COST, "epsilon": TUBE}

    offset_: ClassVar[Any] = refused("intercept_")
    radius_: ClassVar[Any] = refused("intercept_")

    _kept = (*IncrementalMachine._kept, "C", "epsilon")

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.1,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        reserve: float | None = None,
        predict_dtype: str = "float64",
    ) -> None:
        self.C = C
        self.epsilon = epsilon
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.reserve = reserve
        self.predict_dtype = predict_dtype

    def _model(self) -> Growing:
        return GrowingTube(self._as_fitted.C, self._as_fitted.epsilon)

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Forget everything, and learn these points; errors as `partial_fit`."""
        with self._transaction():
            self._forget_everything()
            self._absorb(X, y, None)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, ids: ArrayLike | None = None) -> Self:
        """Learn more points; parameters and errors as in `IncrementalSVC.partial_fit`, y being numbers."""
        with self._transaction():
            self._absorb(X, y, ids)
        return self

    def _absorb(self, X: ArrayLike, y: ArrayLike, ids: ArrayLike | None) -> None:
        points, values = self._check_batch(X, y, numeric=True)
        self._learn(points, values.astype(float), ids, not self.__sklearn_is_fitted__())

    def predict(self, X: ArrayLike) -> NDArray:
        """Values, shape (n_new,)."""
        return self._expanded(X)[:, 0] + self._streams[0].bias

    @fitted
    def intercept_(self) -> NDArray:
        """b, shape (1,)."""
        return np.array([self._streams[0].bias - self._streams[0].moved])
