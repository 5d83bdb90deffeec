"""How far from optimal is α? Answered from the problem and α alone, whoever found it.

For positive semidefinite Q, any scalar ν, h = Qα − p and ρ = h − νe,

    D(ν) = −½ αᵀQα + νd + Σᵢ min(lᵢρᵢ, uᵢρᵢ)  ≤  min f,

so gap = f(α) − max_ν D(ν) ≥ f(α) − f*. D is concave and piecewise linear; its maximum is taken over its
breakpoints hᵢ/eᵢ exactly. The bias is read off the maximiser: b = −ν. With a second equality, 1ᵀα = total, its
multiplier μ is found with it (`bounds.level_of`): ρ = h − νe − μ, and D has one more term, μ·total.

Products Qα of one problem, one α after another.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from .bounds import (
    affine_bound,
    contradiction,
    dual_bound,
    expanded,
    gaps,
    hard_margin_bound,
    kkt_violation,
    level_of,
    primal_product,
    primal_rounding,
    rounding,
    vanishing,
)
from .kernel_cache import KeptGram
from .mixed_precision import Screen
from .problem import DualProblem, Kind
from .psd import SpectrumEvidence
from .reading import Interval
from .runtime import clock
from .runtime.arrays import immutable, packed, unpacked
from .workspace import Workspace

__all__ = ["Certificate", "Certifier", "Products", "certificate_of", "certify"]


#: A product is made of the last one from scratch and the change since if that is one of at most this part of the
#: weights, and if another one from scratch takes more kernel values than this (half a millisecond).
CHANGED, AT_HAND = 0.5, 1 << 18
#: `CHANGED` where a product from scratch takes float32 for most of it.
CHANGED_SCREENED = 0.1


class Products:
    """Qα in float64; where a `Screen` shows that they are beyond doubt, entries of variables at 0 are those of float32.

    Parameters
    ----------
    workspace : Workspace
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.screen = workspace, Screen(workspace)
        self._alpha = self._product = self._base = self._base_product = np.empty(0)

    def of(self, alpha: NDArray) -> NDArray:
        """Qα, shape (n,), from scratch, or from the last that was and what changed; kept for exactly this α."""
        if not np.array_equal(alpha, self._alpha):
            product = self.screen.product(alpha)
            if product is None:
                product = self._by_change(alpha)
            elif not self.screen.applies:
                self._base_product, self._base = immutable(product), immutable(alpha)
            self.keep(alpha, immutable(product))
        return self._product

    @property
    def is_screened(self) -> bool:
        """Whether entries may be in float32."""
        return self.screen.is_in_use

    def keep(self, alpha: NDArray, product: NDArray) -> None:
        """Know the product of an α from elsewhere."""
        self._alpha, self._product = immutable(alpha), product

    def changes_little(self, change: NDArray, alpha: NDArray) -> bool:
        """Whether the product of a change that led to α is worth making in the place of one from scratch: not where
        entries are in float32, whose signs are certain for their own α alone."""
        if self.is_screened:
            return False
        moved, weights = (int(np.count_nonzero(v)) for v in (change, alpha))
        part = CHANGED_SCREENED if self.screen.serves(weights) else CHANGED
        return moved <= part * weights and len(alpha) * weights > AT_HAND

    def _by_change(self, alpha: NDArray) -> NDArray:
        if len(self._base):
            change = alpha - self._base
            # More than α itself would leave digits of its own.
            if self.changes_little(change, alpha) and np.abs(change).sum() <= np.abs(alpha).sum():
                return np.asarray(self._base_product + self.workspace.product(change))
        self._base_product, self._base = immutable(self.workspace.product(alpha)), immutable(alpha)
        return self._base_product


#: Variables up to which Q is formed (8 MB) where certificates are made at every step.
WHOLE_UP_TO = 1024
#: Entries of Qα's sum from which a certificate has a price, and of those that it is measured by: some hundredths of a
#: second.
TIMED = 1 << 22
#: How many times as many points must have weight for the speed to be measured anew.
FASTER = 1.5
#: Room in the price for a machine that is busier when the certificate is made.
ROOM = 1.25
#: Relative gap, with what may be rounded away, up to which other weights than α's are not tried: they cost as much as
#: all the rest.
SURE = 1e-12
#: Relative gap beyond which it says little alone: it ends at 2 where objective and bound differ in sign.
WIDE = 0.1


@dataclass(frozen=True)
class Certificate:
    """What α is worth, in float64, of its projection onto the feasible set.

    Attributes
    ----------
    alpha : array of shape (n,)
        The projection; every figure below is about it. For hard margins it is also scaled by the best factor
        t = 1ᵀα/αᵀQα.
    objective : float
        f at the projection, absolute.
    lower_bound : float or None
        A number no feasible α can go below; None without evidence that Q is positive semidefinite.
    gap : float or None
        objective − lower_bound ≥ f(α) − f*, absolute; ∞ where no finite bound exists, None where Q is
        indefinite or unknown.
    relative_gap : float or None
        gap / max(|objective|, |lower_bound|); 0 where both are the round-off of their terms.
    infeasibility : float
        Largest violation of a bound or the equality by the α that was given, absolute.
    projection_distance : float
        ‖α − projection‖₂.
    multiplier : float or None
        ν, the multiplier of eᵀα = d, with the sign of ρ = h − νe; None without an equality.
    multiplier_interval : tuple of float or None
        All maximisers of D: more than a point when no support vector is free.
    bias : float
        b of the decision function: −ν for the hinge, Σ yᵢaᵢ for L2 and where K + 1 holds it, 0 without an intercept.
    bias_interval : tuple of float
        The interval of equally good b; ``bias`` is its midpoint (LIBSVM's choice).
    radius : float or None
        R² ≥ 0 square root for SVDD.
    quadratic : float
        αᵀQα.
    psd : SpectrumEvidence
        Why Q may be taken for positive semidefinite, or not.
    stationarity : float or None
        Where no gap is given: the largest violation of a KKT condition, in units of ∇f, with the multiplier that makes
        it least. 0 says that no small move lowers f to first order; another stationary point may be far better.
    primal : array of shape (m,) or None
        The weights w of a linear model that the bound is made of, where a solver handed them in and they make a better
        one than Σσαx does: gap = f(α) − D(w, ν). They are what predicts then.
    rounding : float or None
        An estimate of what float64 has rounded away of `gap`, absolute, in the same units: the gap in exact arithmetic,
        of the exactly feasible point next to `alpha`, is at most gap + rounding. None where no gap is given, 0 where
        `relative_gap` is 0 because both figures are the round-off of their terms.
    level : float or None
        μ, the multiplier of the second equality 1ᵀα = total: the margin ρ of a ν-SVC, −ε of a ν-SVR. None without it.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> certificate = solve(problem).certificate
    >>> certificate.within(1e-6), round(certificate.objective, 6), round(certificate.bias, 6)
    (True, -2.0, -3.0)
    >>> certificate.lower_bound <= certificate.objective
    True
    """

    alpha: NDArray
    objective: float
    lower_bound: float | None
    gap: float | None
    relative_gap: float | None
    infeasibility: float
    projection_distance: float
    multiplier: float | None
    multiplier_interval: tuple[float, float] | None
    bias: float
    bias_interval: tuple[float, float]
    radius: float | None
    quadratic: float
    psd: SpectrumEvidence
    stationarity: float | None = None
    primal: NDArray | None = None
    rounding: float | None = None
    level: float | None = None

    @property
    def relative_rounding(self) -> float | None:
        """`rounding` in the units of `relative_gap`: over max(|objective|, |lower_bound|)."""
        if self.rounding is None or self.lower_bound is None:
            return None
        size = max(abs(self.objective), abs(self.lower_bound))
        return self.rounding / size if 0 < size < math.inf else (0.0 if self.rounding == 0 else math.inf)

    @property
    def sides(self) -> str:
        """ " (objective …, bound …)", which stands behind a relative gap above 0.1; empty behind others.

        A relative gap is at most 2 where the objective and its bound differ in sign, however far the two are apart.
        """
        if self.lower_bound is None or self.relative_gap is None or self.relative_gap <= WIDE:
            return ""
        return f" (objective {self.objective:.3g}, bound {self.lower_bound:.3g})"

    def within(self, tol: float) -> bool:
        """Whether a relative gap of at most ``tol`` is certified: as computed, and with what may be rounded away."""
        return self.reaches(tol) and (self.relative_gap or 0.0) + (self.relative_rounding or 0.0) <= tol

    def reaches(self, tol: float) -> bool:
        """Whether the relative gap as computed is at most ``tol``: where a solver has no more to do in float64."""
        return self.relative_gap is not None and self.relative_gap <= tol

    def is_near_feasible(self, tol: float) -> bool:
        """Whether the α that was given lies near the feasible set: within √tol of its size, as f is quadratic.

        Without this a flow that meets its equality only at rest would end where its projection is lucky.
        """
        return self.projection_distance <= math.sqrt(tol * float(self.alpha @ self.alpha))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"alpha": packed(self.alpha)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, alpha=unpacked(state["alpha"]))

    def __str__(self) -> str:
        if self.gap is None:
            return (
                f"objective {self.objective:.10g}; {self.psd}; stationary to {self.stationarity:.2g}; "
                f"infeasibility {self.infeasibility:.2g}"
            )
        bound = f"bound {self.lower_bound:.10g}, " if self.sides else ""
        return (
            f"objective {self.objective:.10g}, {bound}gap {self.gap:.3g} (relative {self.relative_gap:.3g}, "
            f"rounding {self.relative_rounding:.2g}), infeasibility {self.infeasibility:.2g}, {self.psd}"
            f"{'' if self.primal is None else ', bound by the weights of the features'}"
        )


def certify(problem: DualProblem, alpha: ArrayLike) -> Certificate:
    """Certify any α for a problem, from these two alone.

    Parameters
    ----------
    problem : DualProblem
    alpha : array of shape (n,)
        Feasible or not; it is projected first, since an infeasible α can show a small or negative gap.

    Returns
    -------
    Certificate

    Raises
    ------
    ProblemError
        α has the wrong shape, or NaN or infinite entries.

    Examples
    --------
    >>> from dualflow import Gram, certify, problems
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> certify(problem, [0.0, 2.0, 2.0, 0.0]).relative_gap  # the optimum, by hand
    0.0
    >>> certify(problem, [1.0, 1.0, 1.0, 1.0]).relative_gap > 0.1  # feasible, and no more than that
    True
    >>> certify(problem, [0.0, 3.0, 0.0, 0.0]).infeasibility  # Σyα = −3
    3.0
    """
    return Certifier(problem).certify(alpha)


class Certifier:
    """Certificates of one problem, by products Qα of its own, of kernel values that it computed itself: in float64, but
    for signs of which float32 leaves no doubt (`Screen`).

    Its workspace no solver sees. Of certificates the last is kept with its product, and the last product from scratch.

    Attributes
    ----------
    problem : DualProblem
        The one given, `centred`: products and ρ are this one's. Multipliers and biases of certificates are those of
        the one given.
    workspace : Workspace
        For what follows a solver: support set, refinement.
    products : Products
        Its own.
    """

    def __init__(self, problem: DualProblem) -> None:
        self._begin(problem.centred(), problem)
        self.workspace = Workspace(self.problem, KeptGram(self.problem.gram))
        self.products = Products(self.workspace)

    @classmethod
    def of(cls, workspace: Workspace) -> Certifier:
        """One that shares a solver's workspace, for a refinement within a run: its certificates are no evidence."""
        judge = object.__new__(cls)
        judge._begin(workspace, workspace)
        judge.workspace, judge.products = workspace, Products(workspace)
        return judge

    def _begin(self, problem: DualProblem, given: DualProblem | None) -> None:
        """Before the first certificate; ``given`` is what this problem is the centred form of, if not itself."""
        self.problem, self._moved = problem, problem is not given
        self._last: tuple[Certificate, NDArray, NDArray] | None = None  # with its point and product
        self._told: tuple[NDArray, Certificate] | None = (
            None  # the weights that were handed in for it, and what they make
        )
        self._Q: NDArray | None = None  # for quick certificates
        self._given = np.empty(0)
        self._timed = 0, 0.0  # points with weight when the speed of a product was measured, seconds an entry

    @property
    def psd(self) -> SpectrumEvidence:
        """Evidence that Q is positive semidefinite."""
        return self.workspace.psd

    def shift(self, alpha: NDArray, primal: NDArray | None = None) -> float:
        """What a multiplier of `problem` is less than that of the problem given, at α, or at weights of features."""
        if not self._moved:
            return 0.0
        problem = self.problem
        if primal is not None:
            center = problem.gram.center
            return problem.scale * (float(primal @ center) + 0.5 * problem.d * float(center @ center))
        return problem.scale * problem.gram.constant(problem.reading.coefficients(problem, alpha, 0.0), problem.d)

    def rho(self, certificate: Certificate) -> NDArray:
        """Qα − p − νe of the α a certificate is about."""
        alpha, w = certificate.alpha, certificate.primal
        rho: NDArray = (
            self.compute(alpha) if w is None else primal_product(self.problem, alpha, w)[0]
        ) - self.problem.p
        if self.problem.e is not None and certificate.multiplier is not None:
            rho -= (certificate.multiplier - self.shift(alpha, w)) * self.problem.e
        if certificate.level is not None:
            rho -= certificate.level
        return rho

    def seconds(self, alpha: NDArray) -> float:
        """About how long a certificate of α takes: that of Qα from scratch, at the speed of some entries of it."""
        problem, gram = self.problem, self.problem.gram
        some = np.flatnonzero(alpha)
        weights = len(some) if problem.idx is None else int(np.count_nonzero(np.bincount(problem.idx[some])))
        if self.workspace.gram.has_whole or gram.work(weights) <= TIMED:
            return 0.0
        if weights > FASTER * self._timed[0]:
            rows = np.linspace(0, problem.n - 1, max(1, TIMED // weights)).astype(np.intp)
            with clock.at_leisure():
                # Of the problem, not of the workspace: what that keeps, and so last bits, must not be up to a limit.
                problem.product(alpha, rows[:1])
                begun = time.monotonic()
                problem.product(alpha, rows)
            self._timed = weights, (time.monotonic() - begun) / gram.work(weights, len(rows))
        return ROOM * gram.work(weights) * self._timed[1]

    def compute(self, alpha: NDArray) -> NDArray:
        """Qα, shape (n,), as `Products` makes it."""
        return self.products.of(alpha)

    def certify(self, alpha: ArrayLike, quick: bool = False, primal: NDArray | None = None) -> Certificate:
        """As the function `certify`; ``quick``, up to last bits, where many are to come: a small Q is formed.
        ``primal`` are weights of the features that may make a better bound than α, of any origin."""
        problem, given = self.problem, np.array(alpha, dtype=float)
        if given.shape != (problem.n,):
            raise ProblemError(f"alpha has shape {given.shape}, the problem has {problem.n} variables")
        if not np.isfinite(given).all():
            raise ProblemError("alpha contains NaN or infinity")
        if quick and problem.n <= WHOLE_UP_TO:
            self._Q = problem.dense() if self._Q is None else self._Q
            projection = problem.project(given)
            return self._by_primal(self._certify(given, projection, self._Q @ projection), given, projection, primal)
        if self._last is None or not np.array_equal(given, self._given):
            projection = immutable(problem.project(given))  # held once, by the certificate and by the products
            made = self._certify(given, projection, self.compute(projection))
            self.products.keep(*made[1:])
            self._given, self._last = given, made
            self._told = None
        if primal is None:
            return self._last[0]
        if self._told is None or not np.array_equal(primal, self._told[0]):
            self._told = primal, self._by_primal(self._last, given, problem.project(given), primal)
        return self._told[1]

    def _by_primal(
        self,
        made: tuple[Certificate, NDArray, NDArray],
        given: NDArray,
        projection: NDArray,
        w: NDArray | None,
    ) -> Certificate:
        """The certificate that is made, or one by weights of the features, if that leaves less of a gap in doubt."""
        problem, (certificate, point, Qa) = self.problem, made
        fits = w is not None and problem.gram.is_linear and not problem.kind.may_be_unbounded
        if not fits or problem.kind is Kind.AFFINE or certificate.gap is None or certificate.within(SURE):
            return certificate
        assert w is not None  # for the type checker
        w = immutable(w)
        # Kernel values of such points have lost the digits that f needs: Qα by way of Σσαx.
        v = expanded(problem, point)
        Qa, (product, square) = primal_product(problem, point, v)[0], primal_product(problem, point, w)
        bound = dual_bound(problem, point, product, square)
        lost = primal_rounding(problem, point, (v, Qa), (w, product), bound)
        shift = self.shift(point, w)
        level = level_of(problem, product)
        made_by_w = certificate_of(problem, self.psd, given, projection, point, Qa, bound, shift, lost, level)
        return replace(made_by_w, primal=w) if _in_doubt(made_by_w) < _in_doubt(certificate) else certificate

    def certify_product(self, alpha: NDArray, Qa: NDArray, problem: DualProblem) -> Certificate:
        """Of an α feasible for `problem` within other bounds (`DualProblem.within`), whose Qα was made from scratch."""
        judge = object.__new__(Certifier)
        judge._begin(problem, problem)
        judge.workspace = Workspace(problem, self.workspace.gram, self.psd)
        return judge._certify(alpha, alpha, Qa)[0]

    def _certify(self, given: NDArray, projection: NDArray, Qa: NDArray) -> tuple[Certificate, NDArray, NDArray]:
        """The certificate, the α it is about, and its Qα."""
        point, Qa, bound = self._bound(projection, Qa)
        level, shift = level_of(self.problem, Qa), self.shift(point)
        made = certificate_of(self.problem, self.psd, given, projection, point, Qa, bound, shift, level=level)
        return made, point, Qa

    def appraise(self, alpha: NDArray, Qa: NDArray) -> tuple[float, NDArray]:
        """What a product from anywhere, a rough one for one, says of a feasible α: relative gap, and ρ = Qα − p − νe;
        of a hard margin's α, of the best point on its ray."""
        problem = self.problem
        point, Qa, (lower_bound, interval) = self._bound(alpha, Qa)
        objective, rho = 0.5 * float(point @ Qa) - float(problem.p @ point), Qa - problem.p
        if problem.e is not None and interval is not None:
            rho -= 0.5 * (interval[0] + interval[1]) * problem.e
        if (level := level_of(problem, Qa)) is not None:
            rho -= level
        return gaps(objective, lower_bound)[1], rho

    def gap(self, alpha: NDArray, Qa: NDArray) -> float:
        """The absolute gap that a product from anywhere says of a feasible α."""
        point, Qa, (lower_bound, _) = self._bound(alpha, Qa)
        return gaps(0.5 * float(point @ Qa) - float(self.problem.p @ point), lower_bound)[0]

    def _bound(self, point: NDArray, Qa: NDArray) -> tuple[NDArray, NDArray, tuple[float, Interval | None]]:
        """The best point on the ray of α (hard margins), its Qα, the best lower bound and its multipliers."""
        problem = self.problem
        if problem.kind.may_be_unbounded and (bound := hard_margin_bound(problem, point, Qa)) is not None:
            return bound[0] * point, bound[0] * Qa, bound[1:]
        if problem.kind is Kind.AFFINE:
            return point, Qa, affine_bound(self.workspace, point, Qa)
        return point, Qa, dual_bound(problem, point, Qa)


def _in_doubt(certificate: Certificate) -> float:
    """The gap and what rounding may hide of it, absolute; ∞ where there is none."""
    return (
        math.inf if certificate.gap is None or certificate.rounding is None else certificate.gap + certificate.rounding
    )


def certificate_of(
    problem: DualProblem,
    psd: SpectrumEvidence,
    given: NDArray,
    projection: NDArray,
    point: NDArray,
    Qa: NDArray,
    bound: tuple[float, Interval | None],
    shift: float = 0.0,
    lost: float | None = None,
    level: float | None = None,
) -> Certificate:
    """What an α is worth, of which ``projection`` is the feasible one and ``point`` the best on its ray, given Qα of
    that, the bound it makes and the multipliers that give it; ``shift`` is as of `Certifier.shift`, ``lost``
    what rounding may hide of the gap, where that is not `rounding` of Qα, and ``level`` the multiplier of a second
    equality."""
    (lower_bound, interval), quadratic, away = bound, float(point @ Qa), given - projection
    objective = 0.5 * quadratic - float(problem.p @ point)
    gap = relative_gap = None
    lost = None if not psd.is_psd else rounding(problem, point, Qa, objective, bound) if lost is None else lost
    if lost is not None:
        gap, relative_gap = gaps(objective, lower_bound, lost, contradiction(problem.gram))
        if max(abs(objective), abs(lower_bound)) <= vanishing(problem, point, quadratic):
            relative_gap = lost = (
                0.0  # both are 0 as far as float64 tells: the ball around copies of one point, for one
            )
    nu = None if interval is None else 0.5 * (interval[0] + interval[1])
    radius = problem.reading.radius(problem, quadratic, nu)
    if nu is not None and interval is not None and shift:
        nu, interval = nu + shift, (interval[0] + shift, interval[1] + shift)
        quadratic += 2 * problem.d * shift
    posed = problem if level is None else problem.at_level(level)
    bias, bias_interval = problem.reading.bias(posed, point, quadratic, interval)
    return Certificate(
        alpha=immutable(point),
        objective=objective,
        lower_bound=lower_bound if psd.is_psd else None,
        gap=gap,
        relative_gap=relative_gap,
        infeasibility=problem.infeasibility(given),
        projection_distance=math.sqrt(away @ away),
        multiplier=nu,
        multiplier_interval=interval,
        bias=bias,
        bias_interval=bias_interval,
        radius=radius,
        quadratic=quadratic,
        psd=psd,
        stationarity=None if psd.is_psd else kkt_violation(problem, point, Qa - problem.p),
        rounding=lost,
        level=level,
    )
