"""`EcoSVDD`, the data description that learns from a stream by invasion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core.certificate import Certificate
from ..core.problem import DualProblem
from ..online.invasion import best_multiplier
from ._ecology import Ecology
from ._one_class import Ball, sphere
from ._verify import agree


class EcoSVDD(Ball, Ecology):
    """Support vector data description of a stream that remembers its survivors (Howell's EcoSVDD, 23-31).

    A new point invades if it lies outside the sphere, K₀₀ − K_kk − 2Σαᵢ(K₀ᵢ − K_kᵢ) > 0 with k a free survivor (28; the
    published script lacks the factor 2). Where k(x, x) is constant that is FISVDD's rule, (30).

    Parameters
    ----------
    nu : float in (0, 1] or None, default=0.1
        As in `SVDD`: the bounds are 1/(νn), where n is the number of points learned so far. None is the hard ball,
        Howell's. If ν is raised above m/n, where m points are remembered, m/n is used until enough points are learned.
    kernel, gamma, degree, coef0, reequilibrate, n_init, reserve, tol, predict_dtype
        As in `EcoSVC`. The reserve holds the points inside the ball that are farthest from its centre.

    Attributes
    ----------
    survivors_, reserve_, n_seen_, n_invasions_, n_extinctions_, solution_, solutions_, certificate_, certificates_
        As in `EcoSVC`.
    radius_, offset_, support_, support_vectors_, n_support_, dual_coef_, n_features_in_, feature_names_in_
        As in `SVDD`; `support_` is `survivors_`.

    Notes
    -----
    Changed parameters count from the next call on, for all points; ``gamma`` from the next `fit`.

    Examples
    --------
    >>> from dualflow import EcoSVDD
    >>> ball = EcoSVDD(nu=None, kernel="linear", n_init=2).partial_fit([[0.0], [1.0]]).partial_fit([[2.0], [0.5]])
    >>> round(ball.radius_, 9), ball.survivors_.tolist()
    (1.0, [0, 2])
    """

    _kept = (*Ecology._kept, "nu")

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
        self._set_parameters(locals())

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Forget all points and learn X as a stream, in its order; arguments and errors are those of `partial_fit`."""
        with self._transaction():
            self._forget_everything()
            self._learn(X, least=2)
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn one or more new points.

        Parameters
        ----------
        X : array of shape (n, n_features)
            n ≥ 1 points.
        y : ignored
            Present for scikit-learn's conventions.

        Returns
        -------
        EcoSVDD
            The estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range. After any error, and after Ctrl-C, the model is as it was.
        """
        with self._transaction():
            self._learn(X)
        return self

    def certify(self, X: ArrayLike) -> Certificate:
        """Return how far the ball is from the optimum over all points it has learned.

        Parameters
        ----------
        X : array of shape (n, n_features)
            All points that were learned, in any order.

        Returns
        -------
        Certificate
            The certificate of the problem of all points.

        Raises
        ------
        ProblemError
            A survivor is not among the rows of X.
        """
        self._check_fitted()
        (points,) = self._check_batch(X)
        return self._certify_all(0, points, np.ones(len(points)), np.ones(len(points)))

    def _learn(self, X: ArrayLike, least: int = 1) -> None:
        """Learn a batch; the first one must have ``least`` points."""
        self._take_parameters()
        (points,) = self._check_batch(X, least=least)
        self._begin(points, 1)
        ones = np.ones(len(points))
        ids = self.n_seen_ + np.arange(len(points))
        self._communities = [self._learn_block(self._communities[0], points, ones, ones, ids)]
        self.n_seen_ += len(points)
        self._read()

    def _pose(self, X: NDArray, sign: NDArray, cap: NDArray, seen: int) -> DualProblem:
        nu = self._as_fitted.nu
        if nu is not None and len(X):  # a ν above the share of remembered points is not feasible yet
            nu = min(nu, float(cap.sum()) / seen)
        return problems.svdd(self._kernel_of(X), nu, sample_weight=cap, points=seen)

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        super()._unpack(arrays, facts)
        (community,) = self._communities
        agree("signs and bounds", np.append(community.sign, community.cap), np.ones(2 * len(community.X)))
        agree("count of points", community.seen, self.n_seen_)

    def _read(self) -> None:
        (c,) = self._communities
        problem, J = self._pose(c.X, c.sign, c.cap, c.seen), c.survivors
        self._keep_support(problem.gram, J)
        self.support_ = c.ids[J]
        self.dual_coef_, self.n_support_ = c.alpha[None, J], np.array([len(J)])
        quadratic = float(c.alpha[J] @ (c.h + problem.p)[J])  # h = Qα − p
        nu = best_multiplier(c.h, c.sign, problem.upper, problem.d)
        self._center_square = quadratic / problem.scale
        radius = problem.reading.radius(problem, quadratic, nu) or 0.0
        self.radius_, self.offset_ = sphere(radius**2, problem.gram.diag(), self._center_square)
