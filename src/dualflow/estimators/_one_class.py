"""How much of what is new a one-class model rejects, and how strange a new point is: by exact leave-one-out.

What each training point of a one-class model scores by the model without it, and what that says of new points.

What the three data descriptions share: distances to a centre in feature space, and on which side of the sphere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin

from ..core.options import Number, OneOf, Rule
from ..core.problem import DualProblem
from ..core.solution import Solution
from ..driver.solve import limited
from ..exceptions import ProblemError
from ..online.leave_one_out import each_without
from ..problems.checks import SHARE
from ..problems.description import SHARE_OR_NONE
from ._base import KernelMachine, fitted, immutable, refused, set_by_fit
from ._solving import TOL, optimum
from ._verify import stored

__all__ = [
    "NU",
    "NU_OR_NONE",
    "Ball",
    "LeftOutScores",
    "Scores",
    "ShareOfNew",
    "left_out_scores",
    "rank_for",
    "share_of",
    "sphere",
]


_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Scores:
    """Leave-one-out scores of n points, shape (n,), in the order of the problem, and the worst certified relative gap
    of the models behind them. Of a ball they are −‖φ(x) − a‖², of a plane ⟨w, φ(x)⟩ with weights that sum to 1."""

    values: NDArray
    relative_gap: float

    def threshold(self, contamination: float) -> float:
        """The score below which a point is outside: its p-value against these scores is then ≤ ``contamination``."""
        rank = rank_for(contamination, len(self.values))
        return float(np.partition(self.values, rank - 1)[rank - 1])


@dataclass(frozen=True)
class LeftOutScores(Scores):
    """And the models, as far as they differ.

    Attributes
    ----------
    model_of : int array of shape (n,)
        Which of them each point is judged by.
    weights : sparse array of shape (models, n)
    squares : array of shape (models,)
        ‖a‖² of a ball; 0 for planes.
    slack : float
        Round-off of a score: points that differ by less are equal.
    refits : int
        How many took a solve of their own.
    """

    model_of: NDArray
    weights: scipy.sparse.csr_array
    squares: NDArray
    slack: float
    refits: int

    def below(self, scores: NDArray) -> NDArray:
        """How many points, each by the model without it, score no more than new ones of ``scores``, shape (k, models),
        by that same model: shape (k,)."""
        found = np.zeros(len(scores), dtype=np.int64)
        order = np.argsort(self.model_of, kind="stable")
        starts = np.searchsorted(self.model_of[order], np.arange(len(self.squares) + 1))
        for j in range(len(self.squares)):
            own = np.sort(self.values[order[starts[j] : starts[j + 1]]])
            found += np.searchsorted(own, scores[:, j] + self.slack, side="right")
        return found


def rank_for(contamination: float, n: int) -> int:
    """How many of n + 1 points may be outside; ProblemError where that is none."""
    rank = share_of(contamination, n + 1)
    if rank < 1:
        least = int(np.ceil(1.0 / contamination)) - 1
        raise ProblemError(
            f"contamination={contamination!r} needs {least} points or more to tell so small a share; there are {n}"
        )
    return rank


def share_of(contamination: float | None, n: int) -> int:
    """The whole points in a share of n: ⌊cn⌋, to round-off."""
    return int(np.floor((contamination or 0.0) * n * (1 + 4 * _EPS)))


def left_out_scores(problem: DualProblem, alpha: NDArray) -> LeftOutScores:
    """The scores of all points of a description whose bounds 1/(νn) are those of its points, from a start.

    Without a point the bounds of the others are 1/(ν(n − 1)). Points that then have no weight, whoever goes, leave one
    and the same model behind; it is found once, without one of them, and its certificate is good for all.
    """
    n = problem.n
    if n < 2:
        raise ProblemError("leave-one-out needs two points of positive weight or more; there is one")
    certificate = optimum(problem, alpha)
    if certificate.gap is None:
        raise ProblemError(
            "kernel: it is indefinite on these points, so that no model without one of them can be certified; give one "
            "that is positive semidefinite (dualflow.repair mends a matrix)"
        )
    upper, total = problem.upper, float(problem.upper.sum())
    soft = bool(np.isfinite(upper).all())
    stretches = total / (total - upper) if soft else np.ones(n)
    ball = problem.reading.needs_self_kernel
    diag = problem.centred().gram.diag()
    values, model_of, gaps = np.empty(n), np.full(n, -1), np.zeros(n)
    weights: list[scipy.sparse.csr_array] = []
    squares: list[float] = []
    refits = 0

    alike = bool(np.ptp(upper) == 0) if soft else True
    idle = np.flatnonzero(certificate.alpha == 0) if alike else np.empty(0, dtype=np.intp)
    asked = [np.append(np.setdiff1d(np.arange(n), idle), idle[:1])]
    while asked:
        points = asked.pop()
        for left in each_without(problem, certificate.alpha, points, optimum, TOL, stretches[points]):
            c, model = left.point, left.weights()
            square = float(left.certificate.quadratic) / left.problem.scale if ball else 0.0
            model_of[c], gaps[c] = len(weights), left.certificate.relative_gap or 0.0
            values[c] = 2.0 * left.expansion(model) - square - diag[c] if ball else left.expansion(model)
            weights.append(scipy.sparse.csr_array(model[None]))
            squares.append(square)
            refits += left.refitted
            if len(idle) and c == idle[0]:
                # Whoever has no weight in this one, as it is a point that is inside, leaves it behind as well.
                limit = -(float(left.certificate.radius or 0.0) ** 2) if ball else -left.certificate.bias
                same = idle[1:][model[idle[1:]] == 0] if values[c] >= limit else idle[:0]
                (J,) = np.nonzero(model)
                inner = left.gram.block(same, J) @ model[J]
                values[same] = 2.0 * inner - square - diag[same] if ball else inner
                model_of[same], gaps[same] = model_of[c], gaps[c]
                if len(others := idle[model_of[idle] < 0]):
                    asked.append(others)
    slack = 64 * _EPS * (float(np.abs(diag).max()) + max(squares))
    found = scipy.sparse.csr_array(scipy.sparse.vstack(weights))
    return LeftOutScores(values, float(gaps.max()), model_of, found, np.array(squares), slack, refits)


#: What ν may be where the share of new points that is to be rejected may say it.
NU = replace(SHARE, words=("auto",))
NU_OR_NONE = replace(SHARE_OR_NONE, words=("auto",))
#: The share to be rejected, where nobody says it.
DEFAULT = 0.05
#: Scores of new points by models without a point, at a time.
AT_ONCE = 1 << 21

_METHOD = OneOf(words=("jackknife+", "jackknife"))


class ShareOfNew(OutlierMixin, KernelMachine):
    """Base of `SVDD` and `OneClassSVM`: what is said of new points by models without each training point."""

    _rules: ClassVar[dict[str, Rule]] = {"contamination": Number(above=0, at_most=0.5, none=True)}

    #: scikit-learn's word for detectors whose `predict` is about new points, so that a share of the training points
    #: is what `fit_predict` says.
    novelty: ClassVar[bool] = True

    nu: Any
    contamination: Any
    nu_: float | None
    #: The share that set the threshold; None where the model's own surface is it.
    _rejects: float | None = None
    #: Kept once they were asked for; `_models_left` with the models behind them.
    _scores_left: Scores | None = None
    _models_left: LeftOutScores | None = None

    # --- what a fit asks ---------------------------------------------------------------------

    def _settle_share(self, count: int) -> None:
        """Set ``nu_`` and the share that is asked for, of so many points; what was known of others is forgotten."""
        self._scores_left = self._models_left = None
        self._rejects = DEFAULT if self.nu == "auto" and self.contamination is None else self.contamination
        self.nu_ = self._rejects if self.nu == "auto" else self.nu
        if self._rejects is not None:
            rank_for(self._rejects, count)

    def _threshold(self) -> float | None:
        """The leave-one-out score below which points are outside; None where the model's own surface says it."""
        return None if self._rejects is None else self._left_out().threshold(self._rejects)

    def _left_out(self) -> Scores:
        if self._scores_left is None:
            self._scores_left = self._models_left = self._leave_out()
        return self._scores_left

    def _leave_out(self) -> LeftOutScores:
        (solution,) = self.solutions_
        what = f"the models without each of {solution.problem.n} points were found"
        with (
            np.errstate(over="ignore", invalid="ignore"),
            limited(self._time_left(), what, getattr(self, "time_limit", None)),
        ):
            found = left_out_scores(solution.problem, solution.certificate.alpha)
        self._finite(found.values)
        return found

    def fit_predict(self, X: Any, y: Any = None, **more: Any) -> NDArray:
        """Fit, and +1 or −1 for the training points, shape (n,); ``more`` is for `fit`.

        With a ``contamination`` each is judged by the model without it: −1 is the share of them that scores least, by
        their ranks among each other. Without, this is `predict`, by the model of all.
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
        return self._keeps_data or self._models_left is not None  # which `p_values` needs them with

    # --- attributes --------------------------------------------------------------------------

    @fitted
    def loo_scores_(self) -> NDArray:
        """What every training point of positive weight scores by the model without it, exactly, in the order of X,
        shape (n,): `score_samples`, of a plane divided by νn."""
        return self._left_out().values.copy()

    @fitted
    def loo_relative_gap_(self) -> float:
        """The largest certified relative gap of the models behind `loo_scores_`."""
        return self._left_out().relative_gap

    @fitted
    def loo_rejection_rate_(self) -> float:
        """The part of `loo_scores_` that lies outside by ``offset_``: about the part of new points, drawn as those of
        the fit were, that the model rejects."""
        return float(np.mean(self._left_out().values < self._limit()))

    # --- new points --------------------------------------------------------------------------

    def p_values(self, X: ArrayLike, method: str = "jackknife+") -> NDArray:
        """Conformal p-values of new points, shape (n_new,): small where a point is stranger than the training points.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed
        method : {"jackknife+", "jackknife"}
            With n training points and scores sᵢ of each by the model without it (`loo_scores_`), the p-value of z is
            (1 + #{i : sᵢ ≤ s(z)})/(n + 1), where s(z) is said by that same model, for each i by another
            ("jackknife+"), or by the model of all points ("jackknife"). Scores that differ by round-off are equal,
            which raises p.

        Returns
        -------
        array of shape (n_new,)
            In 1/(n + 1), …, 1.

        Raises
        ------
        ProblemError
            X does not fit the model, its kernel is indefinite, or it has one training point only.

        Notes
        -----
        For a new point exchangeable with the training points (drawn as they were), P(p ≤ t) is at most 2t with
        "jackknife+", whatever their law and however few (Barber, Candès, Ramdas and Tibshirani 2021, of whose
        intervals these are the one-sided ranks; for anomaly detection Hennhöfer and Preisach 2024), and near t in
        practice. "jackknife" has no such bound: it is near t where a point more or less hardly moves the model.
        Both are marginal, over training data and new point together: all p-values of one model share its luck with
        the training data, and are positively dependent (Bates, Candès, Lei, Romano and Sesia 2023, who also say how
        to correct for many). They hold for a kernel whose width was not taken from the training data: with
        gamma="scale", and behind a scaler fitted to them, nearly.

        Examples
        --------
        >>> import numpy as np
        >>> from dualflow import SVDD
        >>> model = SVDD(nu=0.1, gamma=0.5).fit(np.random.default_rng(0).normal(size=(99, 2)))
        >>> model.p_values([[9.0, 9.0]])  # nobody is as strange
        array([0.01])
        """
        self._check_fitted()
        _METHOD.check("method", method)
        points = self._check_new_data(X)
        if method == "jackknife":
            known = self._left_out()
            scores = self._finite(self._unit_scores(points))
            below = np.searchsorted(np.sort(known.values), scores + self._round_off(), side="right")
            return (1.0 + below) / (len(known.values) + 1.0)
        models = self._models_left
        if models is None:
            models = self._models_left = self._leave_out()
        (solution,) = self.solutions_
        gram, height = solution.problem.centred().gram, max(1, AT_ONCE // len(models.squares))
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

    def _scored(self, points: Any, values: NDArray, squares: NDArray) -> NDArray:
        """Scores, shape (k, models), of validated points from the models' expansions."""
        raise NotImplementedError

    def _unit_scores(self, points: Any) -> NDArray:
        """Those of the model itself, in the units of `loo_scores_`."""
        raise NotImplementedError

    def _limit(self) -> float:
        """``offset_`` in these units."""
        raise NotImplementedError

    def _round_off(self) -> float:
        """What scores may differ by that are equal."""
        raise NotImplementedError

    # --- files -------------------------------------------------------------------------------

    def _pack_share(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """What a file holds of this: ν, and where a share set the threshold, the scores that say which."""
        facts: dict[str, Any] = {"nu_": None if self.nu_ is None else float(self.nu_)}
        if self._rejects is None:
            return {}, facts
        known = self._left_out()
        facts |= {"rejects": float(self._rejects), "loo_relative_gap": float(known.relative_gap)}
        return {"loo_scores": known.values}, facts

    def _unpack_share(self, arrays: Mapping[str, NDArray], facts: Mapping[str, Any], solution: Solution) -> None:
        self._scores_left = self._models_left = None
        own = _share_of(solution.problem)
        self.nu_ = facts.get("nu_", own)  # older files do not have it
        if (self.nu_ is None) != (own is None) or (own is not None and not abs(self.nu_ - own) <= 1e-9 * own):
            raise ValueError(f"its fact 'nu_' is {self.nu_!r}, and its bounds say {own!r}")
        self._rejects = facts.get("rejects")
        if self._rejects is None:
            return
        self._rules["contamination"].check("rejects", self._rejects)
        values, gap = stored(arrays, "loo_scores", "f", (solution.problem.n,)), facts["loo_relative_gap"]
        if type(gap) is not float or not 0 <= gap < np.inf or not np.isfinite(values).all():
            raise ValueError("its leave-one-out scores are none")
        rank_for(self._rejects, len(values))
        self._scores_left = Scores(values, gap)


def _share_of(problem: DualProblem) -> float | None:
    """ν, from the bounds."""
    total = float(problem.upper.sum())
    return 1.0 / total if np.isfinite(total) else None


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
