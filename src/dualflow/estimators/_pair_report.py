"""What the geometry of one pair of classes says of the error on new data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import problems
from ..core.certificate import Certificate
from ..core.decision import coefficients
from ..core.geometry import balances, response_and_distance
from ..core.problem import DualProblem
from ..online.each_without import each_without
from ._batch import kept
from ._optimum import TOL, optimum

__all__ = ["PairReport", "pair_report"]

#: Most points for which the smallest ball is computed: it is quick up to here.
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
    loo_relative_gap : array of shape (s,) or None
        The certified relative gap of each of these models; 0 where there is none, as c is its class's last point.
    refits : int
        How many of them took a solve of their own; the others are what the model's linear response says, certified by
        a product from scratch.
    relative_gap : float
        The largest certified relative gap of all models behind this.
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
        far = float(np.abs(self.gamma[finite] - self.twice_energy[finite]).max(initial=0.0))
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
            f"  γ_c = 2W_c to {far:.1e}; median γ_c {np.median(self.gamma) if len(self.gamma) else np.nan:.4g}"
            f"{left_out}"
        )


def pair_report(
    problem: DualProblem,
    certificate: Certificate,
    classes: tuple[Any, Any],
    rows: NDArray,
    leave_one_out: bool,
) -> PairReport:
    """The report of a problem and its optimum; ``rows`` are its points in the training data."""
    weights = kept(coefficients(problem, certificate))
    alpha = problem.sigma * weights
    support = np.flatnonzero(alpha)
    a, ridge = alpha[support], problem.ridge[support]
    plain = problem.block(support, support) @ a - ridge * a  # yᵢ(f(xᵢ) − b), b outside the kernel
    outside = 0.0 if problem.offset else certificate.bias
    margins = plain + problem.sigma[support] * outside
    squared_norm = float(a @ plain)
    bounded = alpha[support] >= problem.upper[support] * (1 - 1e-12)
    gamma, twice_energy = response_and_distance(problem, support, support[~bounded])
    margin_with_ridge = margins + ridge * a
    loo = loo_gap = None
    refits, worst = 0, certificate.relative_gap or 0.0
    if leave_one_out:
        loo, loo_gap, refits = _left_out(problem, certificate, support)
        worst = max(worst, float(loo_gap.max(initial=0.0)))
    squared_radius = None
    if problem.gram.n <= CHEAP:
        # The ridge is one more dimension a point (squared hinge).
        ball = problems.svdd(problem.gram, sample_weight=problem.upper > 0, ridge=problem.ridge)
        squared_radius = float(optimum(ball, None).radius or 0.0) ** 2
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


def _left_out(problem: DualProblem, certificate: Certificate, support: NDArray) -> tuple[NDArray, NDArray, int]:
    """The margin y_c f(x_c) of each support vector by the model without it, the relative gap of that model, and how
    many took a solve of their own."""
    margins, gaps = np.full(len(support), -np.inf), np.zeros(len(support))
    others = np.ones(len(support), dtype=bool)
    if balances(problem):
        for sign in (-1.0, 1.0):
            (side,) = np.nonzero((problem.sigma == sign) & (problem.upper > 0))
            if len(side) == 1:
                others &= support != side[0]  # its class's last point
    asked, refits = np.flatnonzero(others), 0
    for k, left in zip(asked, each_without(problem, certificate.alpha, support[asked], optimum, TOL), strict=True):
        value = left.expansion(left.weights()) + left.certificate.bias
        margins[k], gaps[k] = problem.sigma[left.point] * value, left.certificate.relative_gap
        refits += left.refitted
    return margins, gaps, refits
