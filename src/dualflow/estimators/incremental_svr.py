"""Regression that learns and forgets a point at a time, exactly."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from ..core.kernel_checks import check_number
from ..exceptions import ProblemError
from ..online.remembering import Model
from ..problems import _check_positive
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
    support_ids_, support_vectors_, dual_coef_, intercept_
        dual_coef_ holds α − α*.
    ids_, next_id_, certificate_, drift_, n_pivots_, n_features_in_, feature_names_in_
        As in `IncrementalSVC`.

    Examples
    --------
    >>> from dualflow import IncrementalSVR
    >>> line = IncrementalSVR(C=100, epsilon=0.0, kernel="linear").fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 9.0])
    >>> round(float(line.forget([2]).predict([[2.0]])[0]), 6)
    5.0
    """

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

    def _model(self) -> Model:
        if check_number(self.epsilon, "epsilon") < 0:
            raise ProblemError(f"epsilon={self.epsilon!r} must be ≥ 0")
        return Model("svr", _check_positive(self.C, "C", finite=True), epsilon=float(self.epsilon))

    def fit(self, X: ArrayLike, y: ArrayLike) -> IncrementalSVR:
        """Forget everything, and learn these points; errors as `partial_fit`."""
        with self._all_or_nothing():
            points, values = self._check_batch(X, y, numeric=True)
            self._learn(points, values, None, True)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, ids: ArrayLike | None = None) -> IncrementalSVR:
        """Learn more points; parameters and errors as in `IncrementalSVC.partial_fit`, y being numbers."""
        first = not self.__sklearn_is_fitted__()
        with self._all_or_nothing():
            points, values = self._check_batch(X, y, reset=first, numeric=True)
            self._learn(points, values, ids, first)
        return self

    def predict(self, X: ArrayLike) -> NDArray:
        """Values, shape (n_new,)."""
        points = self._check_new_data(X)
        stream = self._streams[0]
        return self._values(points, stream, stream.coefficients) + stream.bias

    @property
    def intercept_(self) -> NDArray:
        """b, shape (1,)."""
        return np.array([self._only_stream("intercept_").bias])
