"""What the three data descriptions share: distances to a centre in feature space, and on which side of the sphere."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin

from ..exceptions import ProblemError
from ..problems.description import SHARE_OR_NONE
from ._attributes import immutable, refused, set_by_fit
from ._base import KernelMachine

__all__ = ["Ball", "sphere"]

_EPS = float(np.finfo(float).eps)


def sphere(squared_radius: float, diag: NDArray, center_square: float) -> tuple[float, float]:
    """`radius_` and `offset_`: points on the sphere are inside, where without this round-off would decide for each."""
    slack = 64 * _EPS * (float(np.abs(diag).max()) + abs(center_square))
    return float(np.sqrt(max(0.0, squared_radius))), -(squared_radius + slack)


class Ball(OutlierMixin, KernelMachine):
    """Base of data descriptions: R² − ‖φ(x) − a‖² with a = Σ αᵢφ(xᵢ) (Howell 23)."""

    _rules = {"nu": SHARE_OR_NONE}

    nu: Any

    radius_: float = set_by_fit()
    offset_: float = set_by_fit()
    intercept_: ClassVar[Any] = refused("offset_ and radius_")
    #: αᵀKα = ‖a‖².
    _center_square: float
    #: Of a precomputed kernel: k(x, x) if it is the same for all points, else the matrix of the fit.
    _constant_diag: float | None = None
    _training_kernel: NDArray | None = None

    def score_samples(self, X: ArrayLike) -> NDArray:
        """−‖φ(x) − a‖², shape (n_new,): the larger, the more like the training data. Errors as `decision_function`."""
        points = self._check_new_data(X)
        return -self._squared_distances(points, self._self_kernel(points))

    def decision_function(self, X: ArrayLike) -> NDArray:
        """R² − ‖φ(x) − a‖², shape (n_new,): positive inside the ball, negative outside.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed
            Sparse or not, where the training data may be.

        Raises
        ------
        ProblemError
            The kernel is precomputed with a diagonal that is not constant, and X is not the training matrix:
            k(x, x) of new points is then unknown. (Where the training diagonal is constant, as for every
            normalised kernel, new points are taken to have the same k(x, x).)
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray:
        """+1 inside the ball or on it, −1 outside; shape (n_new,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    @immutable
    def center_(self) -> NDArray:
        """Centre of the ball in input space, shape (n_features,); linear kernel only."""
        if self._as_fitted.kernel != "linear":
            raise AttributeError(f"center_ exists with kernel='linear' only; kernel is {self._as_fitted.kernel!r}")
        self._there_is("center_")
        center: NDArray = self._weights[:, 0] @ self.support_vectors_
        return center

    def _there_is(self, name: str) -> None:
        """`AttributeError` where a stream has forgotten all points; then there is no ball."""
        if not len(self.support_):
            raise AttributeError(f"{type(self).__name__} has no {name}: all points are forgotten; learn some")

    def _self_kernel(self, X: Any) -> NDArray:
        """k(x, x) for validated X."""
        if self._support_gram is not None:
            with np.errstate(over="ignore"):
                return self._support_gram.self_kernel(X)
        if self._constant_diag is not None:
            return np.full(len(X), self._constant_diag)
        if self._training_kernel is not None and np.array_equal(X, self._training_kernel):
            return np.diag(X).copy()
        raise ProblemError(
            "kernel='precomputed': k(x, x) of new points is not in the matrix, and the training diagonal is not "
            "constant, so their distance to the centre is unknown; give a callable kernel, or normalise K"
        )

    def _squared_distances(self, X: Any, diag: NDArray) -> NDArray:
        """‖φ(x) − a‖² for validated X with k(x, x) = diag."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._finite(diag - 2.0 * self._expansion(X, -0.5 * diag)[:, 0] + self._center_square)
