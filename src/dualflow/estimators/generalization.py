"""What a support vector classifier's own geometry says of its error on new data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .._solve import DEFAULT_SOLVER, solve
from ..core.certificate import Certificate
from ..core.decision import coefficients
from ..core.problem import DualProblem
from ..core.solution import Solution, Status
from ..exceptions import ProblemError
from ..registry import make_solver
from ._base import kept
from ._geometry import response_and_distance
from ._labels import winners
from ._packing import joint_gram
from .svc import SVC

__all__ = ["GeneralizationReport", "PairReport", "generalization_report"]

#: Certified relative gap of every refit.
TOL = 1e-9
#: Most points for which the kernel matrix is kept and the smallest ball is computed: both are quick up to here.
CHEAP = 4096


@dataclass(frozen=True)
class PairReport:
    """One pair of classes: s support vectors of n points, in the order of ``support``.

    Attributes
    ----------
    classes : tuple
        The classes of y = −1 and y = +1.
    n, n_margin, n_bounded : int
        Points, and support vectors on the margin (0 < αᵢ < Cᵢ, CP's set S) and at their bound (E).
    support : array of shape (s,)
        Their indices in the training data.
    alpha : array of shape (s,)
        Dual variables αᵢ > 0 (squared hinge: aᵢ = μᵢ/(μᵀHμ)).
    squared_norm, alpha_sum, slack_sum : float
        ‖w‖², Σαᵢ and Σαᵢξᵢ, ξᵢ = max(0, 1 − yᵢf(xᵢ)): ‖w‖² = Σαᵢ − Σαᵢξᵢ at the optimum.
    margin : float
        1/‖w‖, in feature space; ∞ if w = 0.
    squared_radius, radius_margin : float or None
        R² of the smallest ball around the points in feature space, and R²‖w‖²/n; None for more than 4096 points.
    gamma : array of shape (s,)
        γ_c, by linear response (CP eq. 13); ∞ where no other margin vector is left to respond.
    twice_energy : array of shape (s,)
        2W_c = ‖φ_c − Σ θⱼφⱼ‖², by the distance itself (CP eq. 21).
    first_segment : array of shape (s,)
        y_c f(x_c) − α_cγ_c, the margin of c after its removal if no other vector changes its set.
    loo_margin : array of shape (s,) or None
        y_c f^{∖c}(x_c), exact: by a model trained without c. −∞ where c is its class's last point.
    relative_gap : float
        The largest certified relative gap of the solves behind all this.
    """

    classes: tuple[Any, Any]
    n: int
    n_margin: int
    n_bounded: int
    support: NDArray
    alpha: NDArray
    squared_norm: float
    alpha_sum: float
    slack_sum: float
    margin: float
    squared_radius: float | None
    radius_margin: float | None
    gamma: NDArray
    twice_energy: NDArray
    first_segment: NDArray
    loo_margin: NDArray | None
    relative_gap: float

    def __str__(self) -> str:
        ball = (
            "" if self.squared_radius is None else f", R² {self.squared_radius:.6g}, R²‖w‖²/n {self.radius_margin:.4g}"
        )
        finite = np.isfinite(self.gamma)
        far = float(np.abs(self.gamma[finite] - self.twice_energy[finite]).max(initial=0.0))
        return (
            f"{self.classes[0]} against {self.classes[1]}: {self.n} points, {self.n_margin} on the margin, "
            f"{self.n_bounded} at their bound\n"
            f"  margin 1/‖w‖ {self.margin:.6g}{ball}\n"
            f"  ‖w‖² {self.squared_norm:.10g} = Σα {self.alpha_sum:.10g} − Σαξ {self.slack_sum:.10g} "
            f"(differs by {abs(self.squared_norm - self.alpha_sum + self.slack_sum):.1e})\n"
            f"  γ_c = 2W_c to {far:.1e}; median γ_c {np.median(self.gamma) if len(self.gamma) else np.nan:.4g}"
        )


@dataclass(frozen=True)
class GeneralizationReport:
    """What `generalization_report` returns; ``print`` it.

    Attributes
    ----------
    n, n_support : int
        Training points of positive weight, and those of them that are support vectors of any pair.
    loo_bound : float
        n_support/n, an upper bound on `loo_error`.
    loo_error : float or None
        The part of the points misclassified by the model trained without them: exact.
    first_segment_error : float
        The same from each pair's `first_segment` margins: an estimate, at no refit.
    pairs : tuple of PairReport
        One a pair of classes, in the order of ``solutions_``.
    """

    n: int
    n_support: int
    loo_bound: float
    loo_error: float | None
    first_segment_error: float
    pairs: tuple[PairReport, ...]

    def __str__(self) -> str:
        exact = "not computed" if self.loo_error is None else f"{self.loo_error:.4g} (exact)"
        lines = [
            f"leave-one-out error {exact}; first segment {self.first_segment_error:.4g}; "
            f"bound {self.loo_bound:.4g} ({self.n_support} support vectors of {self.n} points)",
            *(str(pair) for pair in self.pairs),
        ]
        return "\n".join(lines)


def generalization_report(
    model: Any, X: ArrayLike | None = None, y: ArrayLike | None = None, *, leave_one_out: bool = True
) -> GeneralizationReport:
    """Estimates of a classifier's error on new data, from its training data alone.

    Parameters
    ----------
    model : SVC, or an estimator with its parameters
        Fitted; its ``solutions_`` hold the training points.
    X, y : arrays of shape (n, n_features) and (n,), optional
        Training data for a model that keeps none, or other data: the report is then of an `SVC` with the model's
        parameters fitted to them (unweighted). The model itself is left as it is.
    leave_one_out : bool, default=True
        Whether to compute the exact leave-one-out error, one warm refit a support vector.

    Returns
    -------
    GeneralizationReport

    Raises
    ------
    ProblemError
        The model is no support vector classifier, or its kernel is indefinite: then nothing can be certified.

    Notes
    -----
    **Bound.** Taking out a point with α = 0 changes nothing, and it was classified right; so the leave-one-out error
    is at most NSV/n, and the expected error of training on n − 1 points at most E[NSV]/n (Vapnik; blog section 2).

    **Exact.** Each support vector's margin by a model trained without it (same C, same kernel width), solved with
    tol=1e-9; the worst certified gap is in the report. A point that was the last one of its class counts as an error.

    **Geometry.** With the margin vectors S, let β and β₀ minimise, and make stationary, over Δα_S and Δb

        2W_c = Q_cc + 2Σ_S Q_cjβⱼ + Σ_S βᵢQᵢⱼβⱼ + 2β₀(y_c + Σ_S yⱼβⱼ).

    At the minimum y_c + Σ yⱼβⱼ = 0 and Q_jc + Σ Qⱼᵢβᵢ + yⱼβ₀ = 0; put in, what is left is Q_cc + Σ Q_cjβⱼ + y_cβ₀, and
    that is γ_c (CP eq. 13). So γ_c = 2W_c, always, if W_c is CP's quadratic form at α_c = 1 without its linear term.
    With θⱼ = −y_c yⱼβⱼ it is min ‖φ_c − Σθⱼφⱼ‖² over Σθⱼ = 1 (CP eq. 21): the squared distance to the *affine* hull of
    the margin vectors; to their linear span only without intercept. For a margin vector c, S is without c, and
    γ_c = 1/R_cc. Squared hinge: Q with its 1/(2C) and the bias in the kernel, every support vector a margin vector.

    While no other vector leaves its set, unlearning c takes its margin from y_c f(x_c) to y_c f(x_c) − α_cγ_c, and
    unlearning a margin vector raises the minimum of the dual f by ½γ_cα_c² (W_c α_c²): the first segment of CP's path,
    the span rule of Vapnik and Chapelle. The sets do change, so it is an estimate.

    **Norm.** Every support vector has yᵢf(xᵢ) = 1 − ξᵢ, and Σαᵢyᵢf(xᵢ) = ‖w‖² + bΣyᵢαᵢ with Σyᵢαᵢ = 0. Hence
    ‖w‖² = Σαᵢ − Σαᵢξᵢ. The blog's ‖w‖² = Σα is the separable (hard-margin) case; with slacks it fails by Σαξ = ΣCξ. The
    margin is then (Σα)^(−½), not (Σα)^(½). Squared hinge: ‖w‖² + b² on the left, ξᵢ = aᵢ/(2Cᵢ).

    **Radius and margin.** R²‖w‖²/n is Vapnik's criterion; it bounds expectations for hard margins only.

    Examples
    --------
    >>> from dualflow import SVC, generalization_report
    >>> model = SVC(kernel="linear", C=10).fit([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1])
    >>> report = generalization_report(model)
    >>> report.loo_bound, report.loo_error, report.pairs[0].margin
    (0.5, 0.0, 1.0)
    """
    if (X is None) != (y is None):
        raise ProblemError("X and y go together; give both, or neither for the model's own training data")
    if X is not None and y is not None:
        known = SVC().get_params(deep=False)
        model = SVC(**{name: value for name, value in model.get_params(deep=False).items() if name in known}).fit(X, y)
    check_is_fitted(model)
    solutions: Sequence[Solution] = getattr(model, "solutions_", ())
    if not solutions or any(solution.problem.model not in ("hinge", "squared_hinge") for solution in solutions):
        raise ProblemError(
            f"model: {type(model).__name__} is not a support vector classifier that keeps its training data; "
            "give an SVC, or X and y"
        )
    if any(solution.certificate.gap is None for solution in solutions):
        raise ProblemError("model: its kernel is indefinite, so that nothing of it can be certified")
    rows = getattr(model, "_rows", [np.arange(solution.problem.gram.n) for solution in solutions])
    gram, points = joint_gram([solution.problem.gram for solution in solutions], rows)
    classes = [(i, j) for i in range(len(model.classes_)) for j in range(i + 1, len(model.classes_))]
    codes = np.zeros(len(points), dtype=np.intp)
    values = np.zeros((len(points), len(solutions)))
    exact, first, pairs = values.copy(), values, []
    for k, (solution, (i, j)) in enumerate(zip(solutions, classes, strict=True)):
        low, high = (i, j) if len(classes) == 1 else (j, i)
        place = np.searchsorted(points, rows[k])
        problem, certificate = _optimum(solution)
        codes[place] = np.where(problem.sigma > 0, high, low)
        names = model.classes_[low], model.classes_[high]
        pair = _report(problem, certificate, names, rows[k], leave_one_out)
        weights = np.zeros(len(points))
        weights[place] = kept(coefficients(problem, certificate.alpha))
        values = gram.matvec(weights) + certificate.bias
        hit = np.searchsorted(points, pair.support)
        signs = problem.sigma[np.searchsorted(rows[k], pair.support)]
        first[:, k] = exact[:, k] = values
        first[hit, k] = signs * pair.first_segment
        if pair.loo_margin is not None:
            exact[hit, k] = signs * pair.loo_margin
        pairs.append(pair)
    voting = len(model.classes_), getattr(model, "break_ties", False)
    n_support = len(np.unique(np.concatenate([pair.support for pair in pairs])))
    return GeneralizationReport(
        n=len(points),
        n_support=n_support,
        loo_bound=n_support / len(points),
        loo_error=float(np.mean(winners(exact, *voting) != codes)) if leave_one_out else None,
        first_segment_error=float(np.mean(winners(first, *voting) != codes)),
        pairs=tuple(pairs),
    )


def _optimum(solution: Solution) -> tuple[DualProblem, Certificate]:
    """The problem of a solution with a Gram of its own, and the certificate of its optimum."""
    gram = solution.problem.gram.subset(np.arange(solution.problem.gram.n))
    if gram.n <= CHEAP:
        gram.full()  # hundreds of refits look up what they need
    problem = replace(solution.problem, gram=gram)
    return problem, _solved(problem, solution.alpha)


def _solved(problem: DualProblem, start: NDArray) -> Certificate:
    """The certificate of the optimum, from a start nearby."""
    solution = solve(problem, make_solver(DEFAULT_SOLVER).to_be_refined(), refine=True, tol=TOL, warm=start)
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt  # half a report would look like a whole one
    return solution.certificate


def _report(
    problem: DualProblem, certificate: Certificate, classes: tuple[Any, Any], rows: NDArray, leave_one_out: bool
) -> PairReport:
    weights = kept(coefficients(problem, certificate.alpha))
    alpha = problem.sigma * weights
    support = np.flatnonzero(alpha)
    a, ridge = alpha[support], problem.ridge[support]
    plain = problem.block(support, support) @ a - ridge * a  # yᵢ(f(xᵢ) − b), b outside the kernel
    outside = certificate.bias if problem.model == "hinge" else 0.0
    margins = plain + problem.sigma[support] * outside
    squared_norm = float(a @ plain)
    bounded = alpha[support] >= problem.upper[support] * (1 - 1e-12)
    gamma, twice_energy = response_and_distance(problem, support, support[~bounded])
    margin_with_ridge = margins + ridge * a
    loo, worst = None, certificate.relative_gap or 0.0
    if leave_one_out:
        loo = np.empty(len(support))
        for k, c in enumerate(support):
            loo[k], gap = _without(problem, certificate.alpha, int(c))
            worst = max(worst, gap)
    squared_radius = _squared_radius(problem) if problem.gram.n <= CHEAP else None
    with np.errstate(divide="ignore", invalid="ignore"):
        first_segment = np.where(np.isinf(gamma), -np.inf, margin_with_ridge - a * gamma)
        margin = float(1.0 / np.sqrt(np.float64(squared_norm)))
    return PairReport(
        classes=classes,
        n=int((problem.upper > 0).sum()),
        n_margin=int((~bounded).sum()),
        n_bounded=int(bounded.sum()),
        support=rows[support],
        alpha=a,
        squared_norm=squared_norm,
        alpha_sum=float(a.sum()),
        slack_sum=float(a @ np.maximum(0.0, 1.0 - margins)),
        margin=margin,
        squared_radius=squared_radius,
        radius_margin=None if squared_radius is None else squared_radius * squared_norm / problem.gram.n,
        gamma=gamma,
        twice_energy=twice_energy,
        first_segment=first_segment,
        loo_margin=loo,
        relative_gap=worst,
    )


def _without(problem: DualProblem, alpha: NDArray, c: int) -> tuple[float, float]:
    """The margin y_c f(x_c) of point c by the model trained without it, and the relative gap of that."""
    upper = np.where(np.arange(problem.n) == c, 0.0, problem.upper)
    if problem.model == "hinge" and problem.e is not None and not (upper[problem.sigma == problem.sigma[c]] > 0).any():
        return -np.inf, 0.0
    rest = replace(problem, upper=upper)
    certificate = _solved(rest, np.where(upper > 0, alpha, 0.0))
    weights = coefficients(rest, certificate.alpha)
    J = np.flatnonzero(weights)
    value = float(problem.gram.block([c], J)[0] @ weights[J]) + certificate.bias
    return float(problem.sigma[c]) * value, certificate.relative_gap or 0.0


def _squared_radius(problem: DualProblem) -> float:
    """R² of the smallest ball around the points, with the ridge as one more dimension a point (squared hinge)."""
    live = problem.upper > 0
    ball = replace(
        problem,
        p=problem.diag() - problem.offset,
        upper=np.where(live, np.inf, 0.0),
        lower=np.zeros(problem.n),
        e=np.ones(problem.n),
        d=1.0,
        sigma=np.ones(problem.n),
        scale=2.0,
        offset=0.0,
        ridge=2.0 * problem.ridge,
        model="svdd",
    )
    return float(solve(ball, refine=True, tol=TOL).certificate.radius or 0.0) ** 2
