"""The data description that learns and forgets a point at a time, exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin

from ..exceptions import ProblemError
from ..online.remembering import Model, Stream
from ..problems import _check_positive
from ._ids import check_count
from ._incremental import IncrementalMachine

__all__ = ["IncrementalSVDD"]


class IncrementalSVDD(OutlierMixin, IncrementalMachine):
    """Support vector data description that learns and forgets exactly, a point at a time (Howell eq. 21-24, CP).

    Parameters
    ----------
    nu : float in (0, 1] or None, default=0.1
        As in `SVDD`: at most this fraction of the points that are remembered lies outside. None is the hard ball.
    kernel, gamma, degree, coef0, reserve, predict_dtype
        As in `IncrementalSVC`; ``reserve`` counts in units of the squared distance to the sphere.

    Attributes
    ----------
    radius_, offset_, support_vectors_, n_support_, dual_coef_
        As in `SVDD`.
    ids_, next_id_, support_ids_, certificate_, drift_, n_pivots_, n_features_in_, feature_names_in_
        As in `IncrementalSVC`.

    Notes
    -----
    With ν all bounds 1/(νn) shrink when a point comes. Followed is the same problem in α' = νnα: bounds stay at 1, and
    the sum νn grows.

    Examples
    --------
    >>> from dualflow import IncrementalSVDD
    >>> ball = IncrementalSVDD(nu=None, kernel="linear").fit([[0.0, 0.0], [2.0, 0.0], [8.0, 0.0]])
    >>> round(ball.radius_, 9), round(ball.forget([2]).radius_, 9)
    (4.0, 1.0)
    """

    def __init__(
        self,
        nu: float | None = 0.1,
        *,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        reserve: float | None = None,
        predict_dtype: str = "float64",
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.reserve = reserve
        self.predict_dtype = predict_dtype

    def _model(self) -> Model:
        if self.nu is None:
            return Model("svdd", np.inf)
        if not _check_positive(self.nu, "nu") <= 1:
            raise ProblemError(f"nu={self.nu!r} must be a number in (0, 1]")
        return Model("svdd", 1.0, nu=float(self.nu))

    def fit(self, X: ArrayLike, y: Any = None) -> IncrementalSVDD:
        """Forget everything, and learn these points, shape (n, n_features); errors as `partial_fit`."""
        with self._all_or_nothing():
            points = self._check_batch(X)
            self._learn(points, np.ones(len(points)), None, True)
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None, ids: ArrayLike | None = None) -> IncrementalSVDD:
        """Learn more points, shape (k, n_features); ``ids`` and errors as in `IncrementalSVC.partial_fit`."""
        first = not self.__sklearn_is_fitted__()
        with self._all_or_nothing():
            points = self._check_batch(X, reset=first)
            self._learn(points, np.ones(len(points)), ids, first)
        return self

    # --- reading -------------------------------------------------------------------------------

    def _ball(self) -> tuple[Stream, NDArray, float, float]:
        """The stream, α, αᵀKα and R²; no kernel value is needed for them."""
        stream = self._only_stream("a ball")
        engine, alpha = stream.engine, stream.coefficients
        if not alpha.any():
            raise ProblemError("all points are forgotten; there is no ball: learn some")
        diag, J = stream.gram.diag(), np.flatnonzero(alpha)
        # g = 2Kα' − dk + b and α' = dα.
        quadratic = float(alpha[J] @ ((engine.g[J] - engine.b) / engine.d + diag[J])) / 2.0
        if self.nu is None:
            squared = float((quadratic - (engine.g - engine.b) / engine.d).max())
        else:
            squared = quadratic + stream.bias / engine.d
        return stream, alpha, quadratic, max(0.0, squared)

    @property
    def radius_(self) -> float:
        """R, in feature space."""
        return float(np.sqrt(self._ball()[3]))

    @property
    def offset_(self) -> float:
        """−R² (less round-off, so that the sphere counts as inside): decision_function = score_samples − offset_."""
        stream, _, quadratic, squared = self._ball()
        slack = 64 * np.finfo(float).eps * (float(np.abs(stream.gram.diag()).max()) + abs(quadratic))
        return -(squared + slack)

    def score_samples(self, X: ArrayLike) -> NDArray:
        """−‖φ(x) − a‖², shape (n_new,)."""
        points = self._check_new_data(X)
        stream, alpha, quadratic, _ = self._ball()
        with np.errstate(over="ignore"):
            values = 2.0 * self._values(points, stream, alpha) - quadratic - stream.gram.self_kernel(points)
        if not np.isfinite(values).all():
            raise ProblemError(f"X: kernel={self.kernel!r} overflows float64 on it; scale the features")
        return values

    def decision_function(self, X: ArrayLike) -> NDArray:
        """R² − ‖φ(x) − a‖², shape (n_new,): positive inside the ball, negative outside."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray:
        """+1 inside the ball or on it, −1 outside; shape (n_new,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    def suggest(self, X_pool: ArrayLike, k: int = 1) -> NDArray:
        """Rows of the k points of a pool that lie nearest to the sphere, the nearest first; as `IncrementalSVC`'s."""
        values = np.abs(self.decision_function(X_pool))
        return np.argsort(values, kind="stable")[: check_count(k, len(values))]
