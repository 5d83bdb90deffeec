"""The data description that learns and forgets a point at a time, exactly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from ..problems import Growing, GrowingBall
from ._attributes import fitted
from ._ball import Ball, sphere
from ._ids import nearest
from ._incremental import IncrementalMachine

__all__ = ["IncrementalSVDD"]


class IncrementalSVDD(Ball, IncrementalMachine):
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
    support_, solution_, solutions_, certificate_, certificates_
        As in `IncrementalSVC`.
    ids_, next_id_, support_ids_, drift_, n_pivots_, n_features_in_, feature_names_in_
        As in `IncrementalSVC`.

    Notes
    -----
    With ν all bounds 1/(νn) shrink when a point comes. Followed is the same problem in α' = νnα: bounds stay at 1, and
    the sum νn grows. Changed parameters are refused by `partial_fit` as in `IncrementalSVC`.

    Examples
    --------
    >>> from dualflow import IncrementalSVDD
    >>> ball = IncrementalSVDD(nu=None, kernel="linear").fit([[0.0, 0.0], [2.0, 0.0], [8.0, 0.0]])
    >>> round(ball.radius_, 9), round(ball.forget([2]).radius_, 9)
    (4.0, 1.0)
    """

    _kept = (*IncrementalMachine._kept, "nu")

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

    def _model(self) -> Growing:
        return GrowingBall(self._as_fitted.nu)

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Forget everything, and learn these points, shape (n, n_features); errors as `partial_fit`."""
        with self._transaction():
            self._forget_everything()
            self._absorb(X, None)
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None, ids: ArrayLike | None = None) -> Self:
        """Learn more points, shape (k, n_features); ``ids`` and errors as in `IncrementalSVC.partial_fit`."""
        with self._transaction():
            self._absorb(X, ids)
        return self

    def _absorb(self, X: ArrayLike, ids: ArrayLike | None) -> None:
        (points,) = self._check_batch(X)
        self._learn(points, np.ones(len(points)), ids, not self.__sklearn_is_fitted__())

    # --- reading -------------------------------------------------------------------------------

    def _ball(self) -> tuple[float, float]:
        """αᵀKα and R²; no kernel value is needed for them."""
        (stream,) = self._streams
        alpha, engine = stream.coefficients, stream.engine
        if not alpha.any():
            raise ProblemError("all points are forgotten; there is no ball: learn some")
        (J,) = np.nonzero(alpha)
        # g = 2Kα − k + b, in units.
        fields = (engine.g - engine.b) / stream.unit
        quadratic = float(alpha[J] @ (fields[J] + stream.gram.diag()[J])) / 2.0
        squared = (
            float((quadratic - fields).max()) if self._as_fitted.nu is None else quadratic + stream.bias / stream.unit
        )
        return quadratic, max(0.0, squared)

    @property
    def _center_square(self) -> float:  # type: ignore[override]
        return self._ball()[0]

    @fitted
    def radius_(self) -> float:
        """R, in feature space; no attribute once all points are forgotten."""
        self._there_is("radius_")
        return float(np.sqrt(self._ball()[1]))

    @fitted
    def offset_(self) -> float:
        """−R² (less round-off, so that the sphere counts as inside): decision_function = score_samples − offset_."""
        self._there_is("offset_")
        quadratic, squared = self._ball()
        return sphere(squared, self._streams[0].gram.diag(), quadratic)[1]

    def _self_kernel(self, X: NDArray) -> NDArray:
        with np.errstate(over="ignore"):
            return self._streams[0].gram.self_kernel(X)

    def suggest(self, X_pool: ArrayLike, k: int = 1) -> NDArray:
        """Rows of the k points of a pool that lie nearest to the sphere, the nearest first; as `IncrementalSVC`'s."""
        return nearest(np.abs(self.decision_function(X_pool)), k)
