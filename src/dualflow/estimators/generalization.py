"""Estimate a support vector classifier's error on new data from its training data.

`generalization_report` computes the exact leave-one-out error, its bound by the number of support vectors, and an
estimate by the span rule. `pair_report` does this for one pair of classes, with the norm, margin and radius of its
model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .. import problems
from ..core.certificate import Certificate
from ..core.decision import coefficients
from ..core.problem import DualProblem
from ..driver.solve import time_limited
from ..exceptions import ProblemError
from ._batch import without_round_off
from ._classifier import constants_of
from ._left_out import certified_optimum, left_out_values, response_and_distance
from ._packing import joint_gram
from ._validation import winners
from .nu_svm import NuSVC
from .svc import SVC

#: Up to this many points, the smallest ball is computed. With more, its solve would dominate the report.
MAX_POINTS_BALL = 4096


@dataclass(frozen=True)
class PairReport:
    """Report on one pair of classes with n points and s support vectors.

    Arrays of shape (s,) are in the order of ``support``.

    Attributes
    ----------
    classes : tuple
        The classes of y = −1 and y = +1.
    n, n_margin, n_bounded : int
        Number of points, of support vectors on the margin (0 < αᵢ < Cᵢ: the set S of Cauwenberghs
        and Poggio (2000), below CP), and of support vectors at their
        bound (E).
    support : array of shape (s,)
        Indices of the support vectors in the training data.
    alpha : array of shape (s,)
        Dual variables αᵢ > 0 (squared hinge: aᵢ = μᵢ/(μᵀHμ)).
    squared_norm, alpha_sum, slack_sum : float
        ‖w‖², Σαᵢ and Σαᵢξᵢ, ξᵢ = max(0, 1 − yᵢf(xᵢ)): ‖w‖² = Σαᵢ − Σαᵢξᵢ at the optimum.
    margin : float
        1/‖w‖, in feature space; ∞ if w = 0.
    squared_radius, radius_margin : float or None
        R² of the smallest ball around the points in feature space, and R²‖w‖²/n; None for more than 4096 points.
    gamma : array of shape (s,)
        γ_c, computed by linear response (CP eq. 13); ∞ if there is no other margin vector.
    twice_energy : array of shape (s,)
        2W_c = ‖φ_c − Σ θⱼφⱼ‖², computed as a distance (CP eq. 21).
    first_segment : array of shape (s,)
        y_c f(x_c) − α_cγ_c, the margin of c after its removal if no other vector changes its set.
    loo_margin : array of shape (s,) or None
        y_c f^{∖c}(x_c), the exact margin of c by the model trained without c; −∞ if c is the only point of its class.
    loo_relative_gap : array of shape (s,) or None
        The certified relative gap of each of these models; 0 if c is the only point of its class, which has no model.
    refits : int
        Number of these models that were solved for. The others follow from the model by linear response, and are
        certified by a product from scratch.
    relative_gap : float
        The largest certified relative gap of all models of this report.
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
    loo_relative_gap: NDArray | None
    refits: int
    relative_gap: float

    def __str__(self) -> str:
        ball = (
            "" if self.squared_radius is None else f", R² {self.squared_radius:.6g}, R²‖w‖²/n {self.radius_margin:.4g}"
        )
        finite = np.isfinite(self.gamma)
        difference = float(np.abs(self.gamma[finite] - self.twice_energy[finite]).max(initial=0.0))
        left_out = ""
        if self.loo_relative_gap is not None and len(self.loo_relative_gap):
            worst = f"{self.loo_relative_gap.max():.1e}"
            left_out = f"\n  {len(self.support)} models without one point, each certified to {worst} or better"
        return (
            f"{self.classes[0]} against {self.classes[1]}: {self.n} points, {self.n_margin} on the margin, "
            f"{self.n_bounded} at their bound\n"
            f"  margin 1/‖w‖ {self.margin:.6g}{ball}\n"
            f"  ‖w‖² {self.squared_norm:.10g} = Σα {self.alpha_sum:.10g} − Σαξ {self.slack_sum:.10g} "
            f"(differs by {abs(self.squared_norm - self.alpha_sum + self.slack_sum):.1e})\n"
            f"  γ_c = 2W_c to {difference:.1e}; median γ_c {np.median(self.gamma) if len(self.gamma) else np.nan:.4g}"
            f"{left_out}"
        )


def pair_report(
    problem: DualProblem,
    certificate: Certificate,
    classes: tuple[Any, Any],
    rows: NDArray,
    leave_one_out: bool,
) -> PairReport:
    """Return the report of one problem and its optimum.

    Parameters
    ----------
    problem : DualProblem
    certificate : Certificate
        The certificate of its optimum.
    classes : tuple
        The labels of y = −1 and y = +1.
    rows : int array of shape (n,)
        Indices of the problem's points in the training data.
    leave_one_out : bool
        Whether to compute the exact leave-one-out margins.
    """
    weights = without_round_off(coefficients(problem, certificate))
    alpha = problem.sigma * weights
    support = np.flatnonzero(alpha)
    a, ridge = alpha[support], problem.ridge[support]
    plain = problem.product(alpha, support) - ridge * a  # yᵢ(f(xᵢ) − b), b outside the kernel
    outside = 0.0 if problem.offset else certificate.bias
    margins = plain + problem.sigma[support] * outside
    squared_norm = float(a @ plain)
    bounded = alpha[support] >= problem.upper[support] * (1 - 1e-12)
    gamma, twice_energy = response_and_distance(problem, support, support[~bounded])
    margin_with_ridge = margins + ridge * a
    loo = loo_gap = None
    refits, worst = 0, certificate.relative_gap or 0.0
    if leave_one_out:
        values, loo_gap, refits = left_out_values(problem, certificate, support)
        loo = np.where(np.isnan(values), -np.inf, problem.sigma[support] * values)
        worst = max(worst, float(loo_gap.max(initial=0.0)))
    squared_radius = None
    if problem.gram.n <= MAX_POINTS_BALL:
        # The ridge of the squared hinge adds one dimension a point.
        ball = problems.svdd(problem.gram, sample_weight=problem.upper > 0, ridge=problem.ridge)
        squared_radius = float(certified_optimum(ball, None).radius or 0.0) ** 2
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
        loo_relative_gap=loo_gap,
        refits=refits,
        relative_gap=worst,
    )


@dataclass(frozen=True)
class GeneralizationReport:
    """The result of `generalization_report`; ``print`` shows it as text.

    Attributes
    ----------
    n, n_support : int
        Number of training points of positive weight, and of those that are support vectors of any pair.
    loo_bound : float
        n_support/n, an upper bound on ``loo_error``.
    loo_error : float or None
        The exact leave-one-out error: the share of points that the model trained without them misclassifies.
    first_segment_error : float
        An estimate of the same from each pair's ``first_segment`` margins, without any refit.
    pairs : tuple of PairReport
        One for each pair of classes, in the order of ``solutions_``.
    circuits : tuple of str
        What the model's circuits found (`Solution.raw_summary`). The report itself is about the optimum.

    Examples
    --------
    >>> from dualflow import SVC, generalization_report
    >>> X, y = [[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]
    >>> report = generalization_report(SVC(kernel="linear", C=10).fit(X, y))
    >>> report.loo_bound, report.loo_error  # the bound by the support vectors, and the exact error
    (0.5, 0.0)
    """

    n: int
    n_support: int
    loo_bound: float
    loo_error: float | None
    first_segment_error: float
    pairs: tuple[PairReport, ...]
    circuits: tuple[str, ...] = ()

    def __str__(self) -> str:
        exact = "not computed" if self.loo_error is None else f"{self.loo_error:.4g} (exact)"
        lines = [
            f"leave-one-out error {exact}; first segment {self.first_segment_error:.4g}; "
            f"bound {self.loo_bound:.4g} ({self.n_support} support vectors of {self.n} points)",
            *(str(pair) for pair in self.pairs),
            *(f"This report is about the optimum. The circuits found: {line}" for line in self.circuits),
        ]
        return "\n".join(lines)


def generalization_report(
    model: Any, X: ArrayLike | None = None, y: ArrayLike | None = None, *, leave_one_out: bool = True
) -> GeneralizationReport:
    """Estimate a classifier's error on new data from its training data alone.

    Parameters
    ----------
    model : SVC, or an estimator with its parameters
        A fitted `SVC`, whose ``solutions_`` hold the training points; with X and y, any estimator with its parameters.
    X, y : arrays of shape (n, n_features) and (n,), optional
        Training data for a model that keeps none, or other data. The report is then about an `SVC` with the model's
        parameters that is fitted to X and y without weights; the model itself is not changed.
    leave_one_out : bool, default=True
        Whether to compute the exact leave-one-out error, by unlearning each support vector.

    Returns
    -------
    GeneralizationReport

    Raises
    ------
    ProblemError
        The model is not a support vector classifier, or its kernel is indefinite, so that nothing can be certified.

    Notes
    -----
    **Bound.** Leaving out a point with α = 0 does not change the model, which classifies that point correctly. So the
    leave-one-out error is at most NSV/n, and the expected error of training on n − 1 points at most E[NSV]/n (Vapnik;
    blog section 2).

    **Exact.** The margin of each support vector is computed by the model trained without it, with the same C and
    kernel width. That model is unlearned from the fitted one, along the path of linear responses with its changes of
    the sets (CP section 3), and certified by a product from scratch; a model whose certified relative gap exceeds 1e-9
    is solved for instead. The report holds the gap of each model. The only point of a class counts as an error.
    1000 points take about half a second. Above 4000 points in a pair each model is a warm refit, which takes longer.

    **Geometry.** With the margin vectors S, let β and β₀ minimise, and make stationary, over Δα_S and Δb

        2W_c = Q_cc + 2Σ_S Q_cjβⱼ + Σ_S βᵢQᵢⱼβⱼ + 2β₀(y_c + Σ_S yⱼβⱼ).

    At the minimum y_c + Σ yⱼβⱼ = 0 and Q_jc + Σ Qⱼᵢβᵢ + yⱼβ₀ = 0. Substituting these leaves Q_cc + Σ Q_cjβⱼ + y_cβ₀,
    which is γ_c (CP eq. 13). So γ_c = 2W_c, where W_c is CP's quadratic form at α_c = 1 without its linear term.
    With θⱼ = −y_c yⱼβⱼ it is min ‖φ_c − Σθⱼφⱼ‖² over Σθⱼ = 1 (CP eq. 21): the squared distance from the *affine* hull
    of the margin vectors, or, without intercept, from their linear span. For a margin vector c, S is without c, and
    γ_c = 1/R_cc. For the squared hinge, Q includes 1/(2C) and the bias in the kernel, and every support vector is a
    margin vector.

    While no other vector leaves its set, unlearning c changes its margin from y_c f(x_c) to y_c f(x_c) − α_cγ_c, and
    unlearning a margin vector raises the minimum of the dual f by ½γ_cα_c² (W_c α_c²). This is the first segment of
    CP's path, the span rule of Vapnik and Chapelle. It is an estimate, because the sets do change.

    **Norm.** Every support vector has yᵢf(xᵢ) = 1 − ξᵢ, and Σαᵢyᵢf(xᵢ) = ‖w‖² + bΣyᵢαᵢ with Σyᵢαᵢ = 0. Hence
    ‖w‖² = Σαᵢ − Σαᵢξᵢ. The blog's ‖w‖² = Σα is the separable (hard-margin) case; with slacks it is wrong by
    Σαξ = ΣCξ. The margin is then (Σα)^(−½), not (Σα)^(½). For the squared hinge, the left side is ‖w‖² + b², and
    ξᵢ = aᵢ/(2Cᵢ).

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
    if isinstance(model, NuSVC):
        raise ProblemError(
            "model: the report needs a classifier with a C, which leaving points out does not change; a NuSVC with two "
            "classes has the decision function of SVC(C=1/model.certificate_.level), give that one"
        )
    if X is not None and y is not None:
        known = SVC().get_params(deep=False)
        model = SVC(**{name: value for name, value in model.get_params(deep=False).items() if name in known}).fit(X, y)
    check_is_fitted(model)
    if not isinstance(model, SVC):
        raise ProblemError(
            f"model: {type(model).__name__} is not a support vector classifier that keeps its training data; "
            "give an SVC, or X and y"
        )
    with time_limited(model.time_limit, "all leave-one-out models were found"):
        return _report_fitted(model, leave_one_out)


def _report_fitted(model: SVC, leave_one_out: bool) -> GeneralizationReport:
    """Return the report of a fitted model."""
    solutions, rows = model.solutions_, model._rows
    if any(solution.certificate.gap is None for solution in solutions):
        raise ProblemError("model: its kernel is indefinite, so that nothing of it can be certified")
    gram, points = joint_gram([solution.problem.gram for solution in solutions], rows)
    codes = np.zeros(len(points), dtype=np.intp)
    classes, present = len(model.classes_), model._present
    constants = constants_of(classes, np.arange(classes) if present is None else present)
    first_segment = np.tile(constants, (len(points), 1))
    exact, pairs = first_segment.copy(), []
    for k, (solution, column) in enumerate(zip(solutions, model._columns(), strict=True)):
        high, low = model._sides(k)
        # Votes of several classes take values positive for the first class of a pair; a model of the two classes that
        # alone have weight has y = +1 for the second, so its values change sign.
        sign = -1.0 if classes > 2 and high > low else 1.0
        place = np.searchsorted(points, rows[k])
        problem, certificate = solution.problem, certified_optimum(solution.problem, solution.alpha)
        codes[place] = np.where(problem.sigma > 0, high, low)
        names = model.classes_[low], model.classes_[high]
        pair = pair_report(problem, certificate, names, rows[k], leave_one_out)
        weights = np.zeros(len(points))
        weights[place] = without_round_off(coefficients(problem, certificate))
        values = gram.matvec(weights) + certificate.bias
        support_rows = np.searchsorted(points, pair.support)
        signs = problem.sigma[np.searchsorted(rows[k], pair.support)]
        first_segment[:, column] = exact[:, column] = sign * values
        first_segment[support_rows, column] = sign * signs * pair.first_segment
        if pair.loo_margin is not None:
            exact[support_rows, column] = sign * signs * pair.loo_margin
        pairs.append(pair)
    voting = len(model.classes_), model.break_ties
    n_support = len(np.unique(np.concatenate([pair.support for pair in pairs])))
    return GeneralizationReport(
        n=len(points),
        n_support=n_support,
        loo_bound=n_support / len(points),
        loo_error=float(np.mean(winners(exact, *voting) != codes)) if leave_one_out else None,
        first_segment_error=float(np.mean(winners(first_segment, *voting) != codes)),
        pairs=tuple(pairs),
        circuits=model.raw_summaries_,
    )
