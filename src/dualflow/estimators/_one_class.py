"""Base classes of the one-class models: calibration by exact leave-one-out scores, and distances to a ball.

`left_out_scores` computes the score of each training point by the model without it. `ShareOfNew` uses these scores for
thresholds and conformal p-values of `SVDD` and `OneClassSVM`. `Ball` holds what the data descriptions share: squared
distances to the centre in feature space, and the decision by the sphere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from scipy.stats import false_discovery_control
from sklearn.base import OutlierMixin

from ..core.options import Number, OneOf, Rule
from ..core.problem import DualProblem
from ..core.solution import Solution
from ..driver.solve import time_limited
from ..exceptions import ProblemError
from ..online.leave_one_out import each_without
from ..problems.checks import NU_RULE
from ..problems.description import NU_OR_NONE_RULE
from ._base import KernelMachine, fitted, read_only_property, set_by_fit, unavailable
from ._chunks import by_chunks
from ._left_out import LEFT_OUT_TOL, certified_optimum
from ._verify import stored

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Scores:
    """Leave-one-out scores of n points."""

    #: The score of each point by the model without it, in the order of the problem: −‖φ(x) − a‖² for a ball, ⟨w, φ(x)⟩
    #: for a plane whose weights sum to 1; shape (n,).
    values: NDArray
    relative_gap: float  # the largest certified relative gap of the leave-one-out models

    def threshold(self, contamination: float) -> float:
        """Return the score below which a point is outside: the p-value of such a point is ≤ ``contamination``."""
        rank = rank_for(contamination, len(self.values))
        return float(np.partition(self.values, rank - 1)[rank - 1])


@dataclass(frozen=True)
class LeftOutScores(Scores):
    """Leave-one-out scores, with the distinct models behind them."""

    model_of: NDArray  # the model without each point, as a row of ``weights``; int array of shape (n,)
    weights: scipy.sparse.csr_array  # the α of each model; sparse array of shape (models, n)
    squares: NDArray  # ‖a‖² of each ball; 0 for planes; shape (models,)
    slack: float  # round-off of a score: scores that differ by less count as equal
    refits: int  # number of models that were solved for, instead of found along the path of the optimum

    def below(self, scores: NDArray) -> NDArray:
        """Return, for each of k new points, how many training points score no more than it, shape (k,).

        A training point and the new point are compared by the model without the training point; ``scores``, shape
        (k, models), are the new points' scores by each model.
        """
        found = np.zeros(len(scores), dtype=np.int64)
        order = np.argsort(self.model_of, kind="stable")
        starts = np.searchsorted(self.model_of[order], np.arange(len(self.squares) + 1))
        for j in range(len(self.squares)):
            own = np.sort(self.values[order[starts[j] : starts[j + 1]]])
            found += np.searchsorted(own, scores[:, j] + self.slack, side="right")
        return found


def rank_for(contamination: float, n: int) -> int:
    """Return how many of n + 1 points may be outside; `ProblemError` if that is none."""
    rank = share_of(contamination, n + 1)
    if rank < 1:
        least = int(np.ceil(1.0 / contamination)) - 1
        raise ProblemError(
            f"contamination={contamination!r} is below 1/(n + 1), the smallest share that n = {n} points can set a "
            f"threshold for; give {least} points or more"
        )
    return rank


def share_of(contamination: float | None, n: int) -> int:
    """Return ⌊cn⌋, the number of whole points in a share c of n points, robust to round-off."""
    return int(np.floor((contamination or 0.0) * n * (1 + 4 * _EPS)))


def left_out_scores(problem: DualProblem, alpha: NDArray) -> LeftOutScores:
    """Return the leave-one-out scores of all points of a one-class problem, whose optimum is sought from ``alpha``.

    Without one point the bounds of the others are 1/(ν(n − 1)) instead of 1/(νn). All points that have no weight in
    the model of all and in the model without one of them share that model: it is computed and certified once.
    """
    n = problem.n
    if n < 2:
        raise ProblemError("leave-one-out needs two points of positive weight or more; there is one")
    certificate = certified_optimum(problem, alpha)
    if certificate.gap is None:
        raise ProblemError(
            "kernel: it is indefinite on these points, so that no model without one of them can be certified; give one "
            "that is positive semidefinite (dualflow.repair mends a matrix)"
        )
    upper, total = problem.upper, float(problem.upper.sum())
    is_soft = bool(np.isfinite(upper).all())
    stretches = total / (total - upper) if is_soft else np.ones(n)
    ball = problem.reading.needs_self_kernel
    diag = problem.centred().gram.diag()
    values, model_of, gaps = np.empty(n), np.full(n, -1), np.zeros(n)
    weights: list[scipy.sparse.csr_array] = []
    squares: list[float] = []
    refits = 0

    equal_bounds = bool(np.ptp(upper) == 0) if is_soft else True
    idle = np.flatnonzero(certificate.alpha == 0) if equal_bounds else np.empty(0, dtype=np.intp)
    # Each support vector, and one point without weight; the others join below if they do not share its model.
    pending = [np.append(np.setdiff1d(np.arange(n), idle), idle[:1])]
    while pending:
        points = pending.pop()
        for left in each_without(
            problem, certificate.alpha, points, certified_optimum, LEFT_OUT_TOL, stretches[points]
        ):
            c, model = left.point, left.weights()
            square = float(left.certificate.quadratic) / left.problem.scale if ball else 0.0
            model_of[c], gaps[c] = len(weights), left.certificate.relative_gap or 0.0
            values[c] = 2.0 * left.expansion(model) - square - diag[c] if ball else left.expansion(model)
            weights.append(scipy.sparse.csr_array(model[None]))
            squares.append(square)
            refits += left.refitted
            if len(idle) and c == idle[0]:
                # This point is inside, so every idle point without weight in this model leaves the same model behind.
                limit = -(float(left.certificate.radius or 0.0) ** 2) if ball else -left.certificate.bias
                sharing = idle[1:][model[idle[1:]] == 0] if values[c] >= limit else idle[:0]
                (J,) = np.nonzero(model)
                inner = left.gram.block(sharing, J) @ model[J]
                values[sharing] = 2.0 * inner - square - diag[sharing] if ball else inner
                model_of[sharing], gaps[sharing] = model_of[c], gaps[c]
                if len(others := idle[model_of[idle] < 0]):
                    pending.append(others)
    slack = 64 * _EPS * (float(np.abs(diag).max()) + max(squares))
    found = scipy.sparse.csr_array(scipy.sparse.vstack(weights))
    return LeftOutScores(values, float(gaps.max()), model_of, found, np.array(squares), slack, refits)


#: Rule of ``nu`` where "auto" takes it from the share of new points to reject.
NU_RULE = replace(NU_RULE, words=("auto",))
#: The same where ``nu`` may also be None.
NU_RULE_OR_NONE = replace(NU_OR_NONE_RULE, words=("auto",))
#: Share of new points to reject where ``contamination`` is not given: the customary 5 %.
DEFAULT_REJECTED_SHARE = 0.05
#: Scores of new points, one for each leave-one-out model, that are held at a time: 16 MB.
MAX_SCORES_BLOCK = 1 << 21

_METHOD = OneOf(words=("jackknife+", "jackknife"))
_RATE = Number(above=0, below=1)


class ShareOfNew(OutlierMixin, KernelMachine):
    """Base class of `SVDD` and `OneClassSVM`: threshold and p-values by the models without each training point."""

    _rules: ClassVar[dict[str, Rule]] = {"contamination": Number(above=0, at_most=0.5, none=True)}

    #: scikit-learn's flag for detectors whose `predict` judges new points; `fit_predict` judges the training points.
    novelty: ClassVar[bool] = True

    nu: Any
    contamination: Any
    nu_: float | None
    #: The share of new points that the threshold rejects; None where the model's own surface is the threshold.
    _rejects: float | None = None
    #: The leave-one-out scores, once computed.
    _scores_left: Scores | None = None
    #: The same with the models behind them; None for a model from a file, which holds the scores alone.
    _models_left: LeftOutScores | None = None

    # --- threshold ---------------------------------------------------------------------------

    def _set_share(self, count: int) -> None:
        """Set ``nu_`` and the share to reject for a fit of ``count`` points, and drop the scores of an earlier fit."""
        self._scores_left = self._models_left = None
        self._rejects = (
            DEFAULT_REJECTED_SHARE if self.nu == "auto" and self.contamination is None else self.contamination
        )
        self.nu_ = self._rejects if self.nu == "auto" else self.nu
        if self._rejects is not None:
            rank_for(self._rejects, count)

    def _threshold(self) -> float | None:
        """Return the leave-one-out score below which points are outside; None where the model's surface decides."""
        return None if self._rejects is None else self._left_out().threshold(self._rejects)

    def _left_out(self) -> Scores:
        """Return the leave-one-out scores, computed on first use."""
        if self._scores_left is None:
            self._scores_left = self._models_left = self._leave_out()
        return self._scores_left

    def _leave_out(self) -> LeftOutScores:
        """Compute the leave-one-out scores and models, within the time limit."""
        (solution,) = self.solutions_
        what = f"the models without each of {solution.problem.n} points were found"
        with (
            np.errstate(over="ignore", invalid="ignore"),
            time_limited(self._time_left(), what, getattr(self, "time_limit", None)),
        ):
            found = left_out_scores(solution.problem, solution.provisional.alpha)
        self._finite(found.values)
        return found

    def fit_predict(self, X: Any, y: Any = None, **more: Any) -> NDArray:
        """Fit the model, and return +1 (inside) or −1 (outside) for each training point, shape (n,).

        With a ``contamination`` each point is judged by the model without it: that share of the points, those with the
        smallest scores, is outside. Without, this is `predict` of the training points.

        Parameters
        ----------
        X, y
            As for `fit`.
        **more
            Further arguments of `fit`.
        """
        if self.nu != "auto" and self.contamination is None:
            found: NDArray = super().fit_predict(X, y, **more)
            return found
        self.fit(X, **more)
        values, labels = self._left_out().values, self.predict(X)
        ranks = np.searchsorted(np.sort(values), values + self._round_off(), side="right")
        labels[self._rows[0]] = np.where(ranks <= share_of(self._rejects, len(values)), -1, 1)
        return np.asarray(labels)

    @property
    def _pickles_data(self) -> bool:
        return self._keeps_data or self._models_left is not None  # `p_values` needs the models and the data

    # --- attributes --------------------------------------------------------------------------

    @fitted
    def loo_scores_(self) -> NDArray:
        """Exact leave-one-out scores: `score_samples` of each training point by the model without it, shape (n,).

        In the order of X, for points of positive weight; those of a plane are divided by νn.
        """
        return self._left_out().values.copy()

    @fitted
    def loo_relative_gap_(self) -> float:
        """The largest certified relative gap of the leave-one-out models behind `loo_scores_`."""
        return self._left_out().relative_gap

    @fitted
    def loo_rejection_rate_(self) -> float:
        """The share of `loo_scores_` below ``offset_``, which estimates the share of new points that is rejected.

        The estimate is for new points drawn as those of the fit were.
        """
        return float(np.mean(self._left_out().values < self._limit()))

    # --- new points --------------------------------------------------------------------------

    def p_values(self, X: ArrayLike, method: str = "jackknife+", *, calibration: ArrayLike | None = None) -> NDArray:
        """Return conformal p-values of new points: small for a point that is unlike the training points.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed
            The new points.
        method : {"jackknife+", "jackknife"}, default="jackknife+"
            The p-value of z is (1 + #{i : sᵢ ≤ s(z)})/(n + 1), where sᵢ is the score of training point i by the model
            without it (`loo_scores_`). "jackknife+" computes s(z) for each i by that same model, "jackknife" by the
            model of all points. Scores that differ by round-off count as equal, which raises p.
        calibration : array of shape (m, n_features), or (m, n) if the kernel is precomputed, optional
            Points that the fit has not seen, drawn as its points were. With them the p-value is
            (1 + #{i : s(zᵢ) ≤ s(z)})/(m + 1), by the model of all training points (split conformal); ``method`` does
            not matter then.

        Returns
        -------
        array of shape (n_new,)
            Multiples of 1/(n + 1), from 1/(n + 1) to 1; with ``calibration``, of 1/(m + 1).

        Raises
        ------
        ProblemError
            X does not fit the model, its kernel is indefinite, or it has one training point only.

        Notes
        -----
        For a new point that is exchangeable with the training points (drawn as they were), P(p ≤ t) is at most 2t
        with "jackknife+", for every distribution and every n, and near t in practice (Barber, Candès, Ramdas and
        Tibshirani 2021, whose intervals have these one-sided ranks; for anomaly detection Hennhöfer and Preisach
        2024). "jackknife" has no such bound: it is near t where leaving out one point hardly changes the model. With
        ``calibration``, P(p ≤ t) ≤ t.
        These statements are marginal, over training data and new point together. All p-values of one model depend on
        the same training data, and are positively dependent (Bates, Candès, Lei, Romano and Sesia 2023); `novelties`
        allows for many of them. The statements hold for a kernel width that was not computed from the training
        data; with gamma="scale", or behind a scaler fitted to them, they hold approximately.

        Examples
        --------
        >>> import numpy as np
        >>> from dualflow import SVDD
        >>> model = SVDD(nu=0.1, gamma=0.5).fit(np.random.default_rng(0).normal(size=(99, 2)))
        >>> model.p_values([[9.0, 9.0]])  # no training point is as far out
        array([0.01])
        """
        self._check_fitted()
        _METHOD.check("method", method)
        points = self._check_new_data(X)
        if calibration is not None:
            known_scores = self._finite(self._unit_scores(self._check_new_data(calibration)))
            scores = self._finite(self._unit_scores(points)) + self._round_off()
            return (1.0 + np.searchsorted(np.sort(known_scores), scores, side="right")) / (len(known_scores) + 1.0)
        if method == "jackknife":
            known = self._left_out()
            scores = self._finite(self._unit_scores(points))
            below = np.searchsorted(np.sort(known.values), scores + self._round_off(), side="right")
            return (1.0 + below) / (len(known.values) + 1.0)
        models = self._models_left
        if models is None:
            models = self._models_left = self._leave_out()
        (solution,) = self.solutions_
        gram, height = solution.problem.centred().gram, max(1, MAX_SCORES_BLOCK // len(models.squares))
        J = np.unique(models.weights.indices)
        weights = models.weights[:, J].toarray().T
        out = np.empty(points.shape[0])
        for start in range(0, len(out), height):
            part = points[start : start + height]
            if gram.kernel == "precomputed":
                values = part[:, self._rows[0][J]] @ weights
            else:
                with np.errstate(over="ignore", invalid="ignore"):
                    values = gram.expand(part, J, weights)
            scores = self._finite(self._scored(part, values, models.squares))
            out[start : start + height] = models.below(scores)
        return (1.0 + out) / (len(models.values) + 1.0)

    def novelties(
        self,
        X: ArrayLike,
        false_discovery_rate: float = 0.1,
        *,
        method: str = "jackknife+",
        calibration: ArrayLike | None = None,
    ) -> NDArray:
        """Return which of many new points are novel, such that few of those are false alarms.

        The procedure of Benjamini and Hochberg (1995) for `p_values`: the k points with the smallest p are novel, for
        the largest k with p₍ₖ₎ ≤ k·rate/n_new.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed
            The new points, all of them in one call.
        false_discovery_rate : float in (0, 1), default=0.1
            The expected share of points like the training points among those that are said to be novel.
        method, calibration
            As in `p_values`.

        Returns
        -------
        bool array of shape (n_new,)

        Notes
        -----
        With ``calibration`` the expected share of false alarms is at most ``false_discovery_rate`` times the share of
        new points that are like the training points, for every distribution, if the calibration points and those new
        points are independent (Bates, Candès, Lei, Romano and Sesia, Annals of Statistics 51, 2023, Theorem 2 and
        Corollary 1). With p-values from the training points there is no such theorem; benchmarks/classical/conformal.py
        measures the share. No point can be novel unless some p-value is at most rate·k/n_new, and the smallest p-value
        is 1/(n + 1): few training points with many new points find few novelties.

        Examples
        --------
        >>> import numpy as np
        >>> from dualflow import SVDD
        >>> usual = np.random.default_rng(0).normal(size=(300, 2))
        >>> model = SVDD(nu=0.1, gamma=0.5).fit(usual[:100])
        >>> new = np.vstack([usual[290:], [[6.0, 6.0], [-7.0, 5.0]]])
        >>> np.flatnonzero(model.novelties(new, calibration=usual[100:290]))
        array([10, 11])
        """
        _RATE.check("false_discovery_rate", false_discovery_rate)
        p = self.p_values(X, method, calibration=calibration)
        if not len(p):
            return np.zeros(0, dtype=bool)
        novel: NDArray = false_discovery_control(p) <= false_discovery_rate * (1.0 + 4 * _EPS)
        return novel

    def _scored(self, points: Any, values: NDArray, squares: NDArray) -> NDArray:
        """Return the scores of validated points by several models, shape (k, models), from the models' expansions."""
        raise NotImplementedError

    def _unit_scores(self, points: Any) -> NDArray:
        """Return the scores of validated points by this model, in the units of `loo_scores_`."""
        raise NotImplementedError

    def _limit(self) -> float:
        """Return ``offset_`` in the units of `loo_scores_`."""
        raise NotImplementedError

    def _round_off(self) -> float:
        """Return the difference up to which two scores count as equal."""
        raise NotImplementedError

    # --- files -------------------------------------------------------------------------------

    def _pack_share(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Return what a file holds of the calibration: ν, and the leave-one-out scores if they set the threshold."""
        facts: dict[str, Any] = {"nu_": None if self.nu_ is None else float(self.nu_)}
        if self._rejects is None:
            return {}, facts
        known = self._left_out()
        facts |= {"rejects": float(self._rejects), "loo_relative_gap": float(known.relative_gap)}
        return {"loo_scores": known.values}, facts

    def _unpack_share(self, arrays: Mapping[str, NDArray], facts: Mapping[str, Any], solution: Solution) -> None:
        self._scores_left = self._models_left = None
        own = _share_of(solution.problem)
        self.nu_ = facts["nu_"]
        if (self.nu_ is None) != (own is None) or (own is not None and not abs(self.nu_ - own) <= 1e-9 * own):
            raise ValueError(f"its fact 'nu_' is {self.nu_!r}, and its bounds say {own!r}")
        self._rejects = facts.get("rejects")
        if self._rejects is None:
            return
        self._rules["contamination"].check("rejects", self._rejects)
        values, gap = stored(arrays, "loo_scores", "f", (solution.problem.n,)), facts["loo_relative_gap"]
        if type(gap) is not float or not 0 <= gap < np.inf or not np.isfinite(values).all():
            raise ValueError("its leave-one-out scores or their gap are not finite numbers")
        rank_for(self._rejects, len(values))
        self._scores_left = Scores(values, gap)


def _share_of(problem: DualProblem) -> float | None:
    """Return ν, computed from the bounds; None if they are infinite."""
    total = float(problem.upper.sum())
    return 1.0 / total if np.isfinite(total) else None


def sphere(squared_radius: float, diag: NDArray, center_square: float) -> tuple[float, float]:
    """Return `radius_` and `offset_` of a ball; the offset's slack for round-off counts points on it as inside."""
    slack = 64 * _EPS * (float(np.abs(diag).max()) + abs(center_square))
    return float(np.sqrt(max(0.0, squared_radius))), -(squared_radius + slack)


class Ball(OutlierMixin, KernelMachine):
    """Base class of data descriptions, which decide by R² − ‖φ(x) − a‖² with a = Σ αᵢφ(xᵢ) (Howell 23)."""

    _rules = {"nu": NU_OR_NONE_RULE}

    nu: Any

    radius_: float = set_by_fit()
    offset_: float = set_by_fit()
    intercept_: ClassVar[Any] = unavailable("offset_ and radius_")
    #: αᵀKα = ‖a‖².
    _center_square: float
    #: k(x, x) of a precomputed kernel whose diagonal is constant.
    _constant_diag: float | None = None
    #: The training matrix of a precomputed kernel whose diagonal is not constant.
    _training_kernel: NDArray | None = None

    @by_chunks
    def score_samples(self, X: ArrayLike) -> NDArray:
        """Return −‖φ(x) − a‖², shape (n_new,): larger for points more like the training data.

        X and errors are those of `decision_function`.
        """
        points = self._check_new_data(X)
        if not points.shape[0]:  # kernels need a point
            return np.zeros(0)
        return -self._squared_distances(points, self._self_kernel(points))

    @by_chunks
    def decision_function(self, X: ArrayLike) -> NDArray:
        """Return R² − ‖φ(x) − a‖², shape (n_new,): positive inside the ball, negative outside.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed
            New points; sparse X is accepted where `fit` accepts it.

        Raises
        ------
        ProblemError
            The kernel is precomputed with a diagonal that is not constant, and X is not the training matrix:
            k(x, x) of new points is then unknown. (Where the training diagonal is constant, as for every
            normalised kernel, new points are taken to have the same k(x, x).)
        """
        return self.score_samples(X) - self.offset_

    @by_chunks
    def predict(self, X: ArrayLike) -> NDArray:
        """Return +1 for points inside the ball or on it, −1 for points outside, shape (n_new,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    @read_only_property
    def center_(self) -> NDArray:
        """Centre of the ball in input space, shape (n_features,); linear kernel only."""
        if self._as_fitted.kernel != "linear":
            raise AttributeError(f"center_ exists with kernel='linear' only; kernel is {self._as_fitted.kernel!r}")
        self._check_has_points("center_")
        center: NDArray = self._weights[:, 0] @ self.support_vectors_
        return center

    def _check_has_points(self, name: str) -> None:
        """Raise `AttributeError` if a stream has forgotten all points, so that there is no ball."""
        if not len(self.support_):
            raise AttributeError(f"{type(self).__name__} has no {name}: all points are forgotten; learn some")

    def _self_kernel(self, X: Any) -> NDArray:
        """Return k(x, x) for validated X."""
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
        """Return ‖φ(x) − a‖² for validated X with k(x, x) = diag."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._finite(diag - 2.0 * self._expansion(X, -0.5 * diag)[:, 0] + self._center_square)
