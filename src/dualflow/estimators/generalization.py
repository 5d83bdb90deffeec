"""What a support vector classifier's own geometry says of its error on new data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._solve import limited
from ..core.decision import coefficients
from ..exceptions import ProblemError
from ._batch import kept
from ._classifier import constants_of
from ._labels import winners
from ._optimum import optimum
from ._packing import joint_gram
from ._pair_report import PairReport, pair_report
from .nu_svc import NuSVC
from .svc import SVC

__all__ = ["GeneralizationReport", "PairReport", "generalization_report"]


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
    circuits : tuple of str
        What the model's circuits themselves found (`Solution.raw_summary`); the report is of the optimum.

    Examples
    --------
    >>> from dualflow import SVC, generalization_report
    >>> X, y = [[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1]
    >>> report = generalization_report(SVC(kernel="linear", C=10).fit(X, y))
    >>> report.loo_bound, report.loo_error  # what the support vectors say, and the exact one
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
            *(f"of the optimum, which is not what circuits found; {line}" for line in self.circuits),
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
        Whether to compute the exact leave-one-out error, by unlearning each support vector.

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

    **Exact.** Each support vector's margin by the model trained without it (same C, same kernel width). That model is
    unlearned from the one there is, by linear response with its exchanges of sets (CP section 3), and certified by a
    product of its own from scratch; what were not within 1e-9 would be solved for anew. The gap of each is in the
    report. A point that was the last one of its class counts as an error. n = 1000 take about half a second, and
    above 4000 points in a pair each model is a warm refit, which takes its time.

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
    if isinstance(model, NuSVC):
        raise ProblemError(
            "model: the report is of a classifier with a C, which leaving points out does not change; a NuSVC with two "
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
    with limited(model.time_limit, "every model without a support vector was found"):
        return _reported(model, leave_one_out)


def _reported(model: SVC, leave_one_out: bool) -> GeneralizationReport:
    """The report of a fitted model."""
    solutions, rows = model.solutions_, model._rows
    if any(solution.certificate.gap is None for solution in solutions):
        raise ProblemError("model: its kernel is indefinite, so that nothing of it can be certified")
    gram, points = joint_gram([solution.problem.gram for solution in solutions], rows)
    codes = np.zeros(len(points), dtype=np.intp)
    classes, present = len(model.classes_), model._present
    constants = constants_of(classes, np.arange(classes) if present is None else present)
    first = np.tile(constants, (len(points), 1))
    exact, pairs = first.copy(), []
    for k, (solution, column) in enumerate(zip(solutions, model._columns(), strict=True)):
        high, low = model._sides(k)
        # Of several classes a vote is for the first of its pair; two alone have y = +1 for the second.
        turn = -1.0 if classes > 2 and high > low else 1.0
        place = np.searchsorted(points, rows[k])
        problem, certificate = solution.problem, optimum(solution.problem, solution.alpha)
        codes[place] = np.where(problem.sigma > 0, high, low)
        names = model.classes_[low], model.classes_[high]
        pair = pair_report(problem, certificate, names, rows[k], leave_one_out)
        weights = np.zeros(len(points))
        weights[place] = kept(coefficients(problem, certificate))
        values = gram.matvec(weights) + certificate.bias
        hit = np.searchsorted(points, pair.support)
        signs = problem.sigma[np.searchsorted(rows[k], pair.support)]
        first[:, column] = exact[:, column] = turn * values
        first[hit, column] = turn * signs * pair.first_segment
        if pair.loo_margin is not None:
            exact[hit, column] = turn * signs * pair.loo_margin
        pairs.append(pair)
    voting = len(model.classes_), model.break_ties
    n_support = len(np.unique(np.concatenate([pair.support for pair in pairs])))
    return GeneralizationReport(
        n=len(points),
        n_support=n_support,
        loo_bound=n_support / len(points),
        loo_error=float(np.mean(winners(exact, *voting) != codes)) if leave_one_out else None,
        first_segment_error=float(np.mean(winners(first, *voting) != codes)),
        pairs=tuple(pairs),
        circuits=model.raw_summaries_,
    )
