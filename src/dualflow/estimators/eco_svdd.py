"""The data description that learns from a stream by invasion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from ..core.certificate import Certificate
from ..core.problem import DualProblem
from ..exceptions import ProblemError
from ..online.stream import Community
from ._ecology import Ecology
from .svdd import SVDD

__all__ = ["EcoSVDD"]


class EcoSVDD(OutlierMixin, Ecology):
    """Support vector data description of a stream that remembers its survivors (Howell's EcoSVDD, 23-31).

    A newcomer invades if it lies outside the sphere, K₀₀ − K_kk − 2Σαᵢ(K₀ᵢ − K_kᵢ) > 0 with k a free survivor (28; the
    published script lacks the factor 2). Where k(x, x) is constant that is FISVDD's rule, (30).

    Parameters
    ----------
    nu : float in (0, 1] or None, default=0.1
        As in `SVDD`: bounds are 1/(νn) with n the points met so far. None is the hard ball, Howell's.
    kernel, gamma, degree, coef0, reequilibrate, n_init, reserve, tol, predict_dtype
        As in `EcoSVC`; the reserve holds the points farthest from the centre among those inside.

    Attributes
    ----------
    survivors_, reserve_, n_seen_, n_invasions_, n_extinctions_, certificate_
        As in `EcoSVC`.
    radius_, offset_, support_, support_vectors_, n_support_, dual_coef_, n_features_in_, feature_names_in_
        As in `SVDD`; `support_` is `survivors_`.

    Examples
    --------
    >>> from dualflow import EcoSVDD
    >>> ball = EcoSVDD(nu=None, kernel="linear", n_init=2).partial_fit([[0.0], [1.0]]).partial_fit([[2.0], [0.5]])
    >>> round(ball.radius_, 9), ball.survivors_.tolist()
    (1.0, [0, 2])
    """

    def __init__(
        self,
        nu: float | None = 0.1,
        *,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        reequilibrate: str = "working-set",
        n_init: int | None = None,
        reserve: float = 1.0,
        tol: float = 1e-6,
        predict_dtype: str = "float64",
    ) -> None:
        self.nu = nu
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.reequilibrate = reequilibrate
        self.n_init = n_init
        self.reserve = reserve
        self.tol = tol
        self.predict_dtype = predict_dtype

    # Decision values are those of `SVDD`, from the same attributes.
    score_samples = SVDD.score_samples
    decision_function = SVDD.decision_function
    predict = SVDD.predict
    center_ = SVDD.center_
    _self_kernel = SVDD._self_kernel
    _squared_distances = SVDD._squared_distances

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Forget everything and learn X as a stream, in its order; arguments and errors as in `partial_fit`."""
        return self._as_a_whole(lambda: self._learn(X, least=2), afresh=True)

    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn more points, one or many.

        Parameters
        ----------
        X : array of shape (n, n_features)
            n ≥ 1 points.
        y : ignored

        Returns
        -------
        EcoSVDD
            The estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range. Whatever is raised (Ctrl-C included), the model stays as it was.
        """
        return self._as_a_whole(lambda: self._learn(X))

    def certify(self, X: ArrayLike) -> Certificate:
        """How far the ball is from the optimum over all points it has met, given again; as in `EcoSVC`."""
        check_is_fitted(self)
        (points,) = self._check_batch(X)
        return self._certify_all(0, points, np.ones(len(points)), np.ones(len(points)))

    def _learn(self, X: ArrayLike, least: int = 1) -> None:
        nu = self.nu
        if nu is not None and (isinstance(nu, bool) or not isinstance(nu, (int, float, np.number)) or not 0 < nu <= 1):
            raise ProblemError(f"nu={nu!r} must be a number in (0, 1], or None")
        (points,) = self._check_batch(X, least=least)
        self._begin(points, 1)
        ones = np.ones(len(points))
        self._communities = [self._meet(0, points, ones, ones, self.n_seen_ + np.arange(len(points)))]
        self.n_seen_ += len(points)
        self._read()

    def _limits(self, community: Community) -> tuple[NDArray | None, NDArray]:
        bound = np.inf if self.nu is None else 1.0 / (self.nu * community.seen)
        return community.sign, np.full(len(community.X), bound)

    def _pose(self, X: NDArray, sign: NDArray, cap: NDArray, seen: int) -> DualProblem:
        gram = self._kernel_of(X)
        upper = np.inf if self.nu is None else 1.0 / (self.nu * seen)
        return DualProblem(
            gram,
            p=gram.diag(),
            lower=np.zeros(len(X)),
            upper=np.full(len(X), upper),
            e=sign,
            d=1.0,
            scale=2.0,
            model="svdd",
        )

    def _read(self) -> None:
        (community,) = self._communities
        J = community.survivors
        alpha, X = community.alpha[J], community.X[J]
        gram = self._kernel_of(X)
        self._keep_support(X, gram, np.arange(len(J)))
        self.support_ = community.ids[J]
        self.dual_coef_, self.n_support_ = alpha[None], np.array([len(J)])
        self._certificates = None
        self._training_kernel = self._constant_diag = None
        diag = gram.diag()
        # αᵀKα from h = 2Kα − diag K
        self._center_square = 0.5 * float(alpha @ (community.h[J] + diag))
        squared_radius = self._center_square - self._multiplier(community)
        slack = 64 * np.finfo(float).eps * (float(np.abs(diag).max()) + abs(self._center_square))
        self.radius_ = float(np.sqrt(max(0.0, squared_radius)))
        self.offset_ = -(squared_radius + slack)
