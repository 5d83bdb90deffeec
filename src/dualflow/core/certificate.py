"""Certificates: a bound on how far f(α) is from its minimum, computed from the problem and α alone.

For positive semidefinite Q, any scalar ν, h = Qα − p and ρ = h − νe,

    D(ν) = −½ αᵀQα + νd + Σᵢ min(lᵢρᵢ, uᵢρᵢ)  ≤  min f,

so gap = f(α) − max_ν D(ν) ≥ f(α) − f*. D is concave and piecewise linear; its maximum is found exactly among the
breakpoints hᵢ/eᵢ. The bias follows from the maximiser: b = −ν. With a second equality, 1ᵀα = total, the multiplier μ of
that is found too (`bounds.level_of`): ρ = h − νe − μ, and D has one more term, μ·total.

`Certifier` makes the certificates of one problem, from products Qα that `Products` computes and reuses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from .bounds import (
    EPS,
    affine_bound,
    contradiction,
    dual_bound,
    expanded,
    gaps,
    hard_margin_bound,
    kkt_violation,
    level_of,
    primal_error,
    primal_product,
    primal_rounding,
    product_error,
    ridges_apart,
    rounding,
    slack_bound,
    vanishing,
)
from .kernel_cache import KeptGram
from .mixed_precision import Screen
from .places import Places, places_of
from .problem import DualProblem, Kind
from .psd import SpectrumEvidence
from .reading import Interval, multiplier_of
from .runtime import clock
from .runtime.arrays import immutable, packed, unpacked
from .workspace import Workspace

#: If at most this share of the weights has changed, a product is updated from the last one from scratch.
MAX_PART_CHANGED = 0.5
#: The same share if most of a product from scratch would be in float32.
MAX_PART_CHANGED_FLOAT32 = 0.1
#: A product from scratch of up to this many kernel values is not updated: they take half a millisecond.
MIN_VALUES_UPDATED = 1 << 18


class Products:
    """Products Qα of one problem in float64, with reuse of the last one.

    Entries of variables at 0 may be in float32 if a `Screen` shows that the signs of their multipliers are certain.

    Parameters
    ----------
    workspace : Workspace
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.screen = workspace, Screen(workspace)
        self._alpha = self._product = self._base = self._base_product = np.empty(0)

    def of(self, alpha: NDArray) -> NDArray:
        """Return Qα, shape (n,), from scratch or updated from the last one from scratch; cached for this α."""
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
        """Store a product that was computed elsewhere as that of α."""
        self._alpha, self._product = immutable(alpha), product

    def changes_little(self, change: NDArray, alpha: NDArray) -> bool:
        """Whether an update by the product of ``change``, which led to α, is cheaper than a product from scratch.

        Never if entries are in float32: the signs of their multipliers are certain for their own α alone.
        """
        if self.is_screened:
            return False
        moved, weights = (int(np.count_nonzero(v)) for v in (change, alpha))
        part = MAX_PART_CHANGED_FLOAT32 if self.screen.is_worthwhile(weights) else MAX_PART_CHANGED
        return moved <= part * weights and len(alpha) * weights > MIN_VALUES_UPDATED

    def _by_change(self, alpha: NDArray) -> NDArray:
        """Return Qα in float64, updated from the last one from scratch if that is cheaper."""
        if len(self._base):
            change = alpha - self._base
            # A change larger than α would add rounding errors larger than those of Qα.
            if self.changes_little(change, alpha) and np.abs(change).sum() <= np.abs(alpha).sum():
                return np.asarray(self._base_product + self.workspace.product(change))
        self._base_product, self._base = immutable(self.workspace.product(alpha)), immutable(alpha)
        return self._base_product


#: Up to this many variables, the dense Q (8 MB) is formed for certificates at each step of a solver.
MAX_N_DENSE_CERTIFICATE = 1024
#: If a product takes more than this many kernel values, the time of a certificate is estimated. As many are timed for
#: it, which takes some hundredths of a second.
MIN_VALUES_TIMED = 1 << 22
#: The speed is measured again if the number of points with weight has grown by this factor.
REMEASURE_RATIO = 1.5
#: The estimated time is multiplied by this, because the machine may be busier at the certificate than on average.
TIME_MARGIN = 1.25
#: At a certified relative gap up to this, no bound from weights of the features is tried. It costs as much as all the
#: rest.
MIN_GAP_PRIMAL = 1e-12
#: From this relative rounding error of a gap on, the bound of a hard margin is tried, because no α has a small gap.
MIN_ROUNDING_MARGIN = 1e-4
#: The problems with finite bounds for which the bound of a hard margin holds.
_CAN_SEPARATE = (Kind.BOX, Kind.BOX_EQUALITY)
#: Between these relative gaps, rounding error included, only round-off may be left.
MIN_GAP_PLACES, MAX_GAP_PLACES = 1e-10, 1e-5
#: If the relative gap exceeds this, objective and bound are shown beside it. It is at most 2 if they differ in sign.
MIN_GAP_SIDES = 0.1


@dataclass(frozen=True)
class Certificate:
    """Objective, lower bound and multipliers of α, computed in float64 from its projection onto the feasible set.

    Attributes
    ----------
    alpha : array of shape (n,)
        The projection, which all values below are about. For hard margins it is also scaled by the best factor
        t = 1ᵀα/αᵀQα.
    objective : float
        f at the projection, absolute.
    lower_bound : float or None
        Lower bound of f over the feasible set; None without evidence that Q is positive semidefinite.
    gap : float or None
        objective − lower_bound ≥ f(α) − f*, absolute; ∞ if there is no finite bound, None if Q is indefinite or not
        known to be positive semidefinite.
    relative_gap : float or None
        gap / max(|objective|, |lower_bound|); 0 if both are round-off of their terms.
    infeasibility : float
        Largest violation of a bound or the equality by the given α, absolute.
    projection_distance : float
        ‖α − projection‖₂.
    multiplier : float or None
        ν, the multiplier of eᵀα = d, with the sign of ρ = h − νe; None without an equality.
    multiplier_interval : tuple of float or None
        All maximisers of D: more than a point when no support vector is free.
    bias : float
        b of the decision function: −ν for the hinge, Σ yᵢaᵢ for L2 and if K + 1 includes it, 0 without an intercept.
    bias_interval : tuple of float
        The interval of equally good b; ``bias`` is its midpoint (LIBSVM's choice).
    radius : float or None
        Radius R of SVDD.
    quadratic : float
        αᵀQα.
    psd : SpectrumEvidence
        Evidence that Q is positive semidefinite, or that it is not.
    stationarity : float or None
        If there is no gap: the largest violation of a KKT condition, in units of ∇f, with the multiplier that minimises
        it. With 0, no small move lowers f to first order; another stationary point may be far better.
    primal : array of shape (m,) or None
        The weights w of a linear model, if a solver supplied them and they give a better bound than Σσαx:
        gap = f(α) − D(w, ν). Predictions use them then.
    rounding : float or None
        An estimate of the rounding error of `gap` in float64, absolute, for the exactly feasible point next to `alpha`.
        It is no bound: errors of independent terms add up by their squares. None if there is no gap, 0 if
        `relative_gap` is 0 because objective and bound are round-off of their terms.
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
        """Return `rounding` / max(|objective|, |lower_bound|), in the units of `relative_gap`."""
        if self.rounding is None or self.lower_bound is None:
            return None
        size = max(abs(self.objective), abs(self.lower_bound))
        return self.rounding / size if 0 < size < math.inf else (0.0 if self.rounding == 0 else math.inf)

    @property
    def sides(self) -> str:
        """Return " (objective …, bound …)" to print after a relative gap above 0.1, and "" for others.

        If objective and bound differ in sign, the relative gap is at most 2, and does not show how far apart they are.
        """
        if self.lower_bound is None or self.relative_gap is None or self.relative_gap <= MIN_GAP_SIDES:
            return ""
        return f" (objective {self.objective:.3g}, bound {self.lower_bound:.3g})"

    def within(self, tol: float) -> bool:
        """Whether a relative gap of at most ``tol`` is certified, with its rounding error included."""
        return self.reaches(tol) and (self.relative_gap or 0.0) + (self.relative_rounding or 0.0) <= tol

    def reaches(self, tol: float) -> bool:
        """Whether the computed relative gap is at most ``tol``: then a solver in float64 can stop."""
        return self.relative_gap is not None and self.relative_gap <= tol

    def is_near_feasible(self, tol: float) -> bool:
        """Whether the given α is near the feasible set: within √tol of its size, since f is quadratic.

        A flow that meets its equality only at rest must not end because one of its projections is good by chance.
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
    """Return the certificate of any α for a problem, computed from these two alone.

    Parameters
    ----------
    problem : DualProblem
    alpha : array of shape (n,)
        Feasible or not; it is projected first, since an infeasible α can have a small or negative gap.

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


def by_places(places: Places, known: Certificate) -> Certificate:
    """Return the better of a certificate and that of its α with weights of equal points summed exactly."""
    problem, alpha = places.problem, known.alpha
    Qa, exact_error = places.product(alpha)
    bound = dual_bound(problem, alpha, Qa)
    objective = 0.5 * float(alpha @ Qa) - float(problem.p @ alpha)
    rounding_error = rounding(problem, alpha, Qa, objective, bound, exact_error=exact_error)
    found = certificate_of(problem, known.psd, alpha, alpha, alpha, Qa, bound, rounding_error=rounding_error)
    found = replace(found, infeasibility=known.infeasibility, projection_distance=known.projection_distance)
    return found if _largest_gap(found) < _largest_gap(known) else known


def may_be_rounded(certificate: Certificate) -> bool:
    """Whether a gap is so small that round-off may be what is left of it, and not yet below all tolerances."""
    return certificate.within(MAX_GAP_PLACES) and not certificate.within(MIN_GAP_PLACES)


def examined(problem: DualProblem, certificate: Certificate, psd: SpectrumEvidence | None = None) -> Certificate:
    """Return a certificate with evidence that its matrix is positive semidefinite, where that was only presumed.

    If it is not, objective and bias stay, and the gap is withheld. ``psd`` is the evidence, if known.
    """
    if certificate.psd.kind != "presumed":
        return certificate
    psd = problem.psd if psd is None else psd
    if psd.is_psd:
        return replace(certificate, psd=psd)
    alpha, centred = certificate.alpha, problem.centred()
    stationarity = kkt_violation(centred, alpha, centred.gradient(alpha))
    none: dict[str, Any] = dict.fromkeys(("lower_bound", "gap", "relative_gap", "rounding"))
    return replace(certificate, psd=psd, stationarity=stationarity, primal=None, **none)


class _Certified(NamedTuple):
    """A certificate, the α it is about, and its Qα."""

    certificate: Certificate
    point: NDArray
    product: NDArray


class Certifier:
    """Makes certificates of one problem, from kernel values and products Qα that it computes itself.

    Solvers have no access to its workspace. Products are in float64, except entries whose signs float32 determines
    (`Screen`). The last certificate and product are cached.

    Parameters
    ----------
    problem : DualProblem
    presumes : bool, default=False
        Whether the spectrum is screened only (`DualProblem.screened`). Certificates of the kind "presumed" go to a
        `Solution` alone, which makes them `examined`.

    Attributes
    ----------
    problem : DualProblem
        The given problem, `centred`: products and ρ refer to it. Multipliers and biases of certificates are those of
        the given problem.
    workspace : Workspace
        Also used after a solver: for the support set and the refinement.
    products : Products
    """

    def __init__(self, problem: DualProblem, presumes: bool = False) -> None:
        self._begin(problem.centred(), problem)
        self.workspace = Workspace(self.problem, KeptGram(self.problem.gram, self.problem.n))
        if presumes:
            self.workspace.__dict__["_evidence"] = self.workspace.screened()
        self.products = Products(self.workspace)

    @classmethod
    def of(cls, workspace: Workspace) -> Certifier:
        """Return a certifier that shares a solver's workspace, for a refinement within a run.

        Its certificates are no independent evidence.
        """
        certifier = object.__new__(cls)
        certifier._begin(workspace, workspace)
        certifier.workspace, certifier.products = workspace, Products(workspace)
        return certifier

    def _begin(self, problem: DualProblem, given: DualProblem | None) -> None:
        """Set the attributes of an empty cache; ``problem`` is ``given`` itself or its centred form."""
        self.problem, self._moved = problem, problem is not given
        #: The α that was certified last, and what was found.
        self._last: _Certified | None = None
        #: The weights of features that were tried for it, and the better of the two certificates.
        self._last_primal: tuple[NDArray, Certificate] | None = None
        self._Q: NDArray | None = None  # for quick certificates
        self._places: tuple[Places | None] | None = None
        self._shifted: tuple[NDArray, float] | None = None  # the α whose shift was computed last, and the shift
        self._given = np.empty(0)
        self._timed = 0, 0.0  # points with weight when the speed of a product was measured, seconds per kernel value
        self._timer = clock.Timer()

    @property
    def last(self) -> tuple[NDArray, Certificate] | None:
        """Return the α that was certified last, as given, and its certificate; None if there is none."""
        return None if self._last is None else (self._given, self._last.certificate)

    @property
    def psd(self) -> SpectrumEvidence:
        """Return the evidence that Q is positive semidefinite."""
        return self.workspace.psd

    @property
    def places(self) -> Places | None:
        """The places of the problem, None if they are not few."""
        if self._places is None:
            self._places = (places_of(self.problem),)
        return self._places[0]

    def shift(self, alpha: NDArray, primal: NDArray | None = None) -> float:
        """Return the multiplier of the given problem minus that of the centred one, at α or at weights ``primal``."""
        if not self._moved:
            return 0.0
        problem = self.problem
        if primal is not None:
            center = problem.gram.center
            return problem.scale * (float(primal @ center) + 0.5 * problem.d * float(center @ center))
        if self._shifted is None or not np.array_equal(alpha, self._shifted[0]):
            weights = problem.reading.coefficients(problem, alpha, 0.0)
            self._shifted = immutable(alpha), problem.scale * problem.gram.constant(weights, problem.d)
        return self._shifted[1]

    def rho(self, certificate: Certificate) -> NDArray:
        """Return Qα − p − νe of the α that a certificate is about."""
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
        """Return about how many seconds a certificate of α takes: those of Qα from scratch, from the time of a part.

        The part takes some hundredths of a second, in which the process may have had the processor for itself, or may
        have waited for it. So its processor time is measured, and multiplied by the machine's load since the certifier
        was made. A callable kernel may wait for something else, and its wall time counts.
        """
        problem, gram = self.problem, self.problem.gram
        some = np.flatnonzero(alpha)
        weights = len(some) if problem.idx is None else int(np.count_nonzero(np.bincount(problem.idx[some])))
        if self.workspace.gram.has_dense or gram.product_cost(weights) <= MIN_VALUES_TIMED:
            return 0.0
        if weights > REMEASURE_RATIO * self._timed[0]:
            rows = np.linspace(0, problem.n - 1, max(1, MIN_VALUES_TIMED // weights)).astype(np.intp)
            with clock.without_time_limit():
                # By the problem, not the workspace, whose caches, and with them last bits, must not depend on a limit.
                problem.product(alpha, rows[:1])
                timer = clock.Timer()
                problem.product(alpha, rows)
                wall, processor = timer.seconds()
            taken = wall if callable(gram.kernel) else min(wall, processor)  # threads take more than the wall time
            self._timed = weights, taken / gram.product_cost(weights, len(rows))
        load = 1.0 if callable(gram.kernel) else self._timer.load()
        return TIME_MARGIN * load * gram.product_cost(weights) * self._timed[1]

    def compute(self, alpha: NDArray) -> NDArray:
        """Return Qα, shape (n,), from `Products`."""
        return self.products.of(alpha)

    def certify(self, alpha: ArrayLike, quick: bool = False, primal: NDArray | None = None) -> Certificate:
        """Return the certificate of any α, as the function `certify`.

        Parameters
        ----------
        alpha : array of shape (n,)
        quick : bool, default=False
            For many certificates of a small problem: form the dense Q, and use it. The last bits may differ.
        primal : array of shape (m,), optional
            Weights of the features, of any origin, that may give a better bound than α.

        Raises
        ------
        ProblemError
            α has the wrong shape, or NaN or infinite entries.
        """
        problem, given = self.problem, np.array(alpha, dtype=float)
        if given.shape != (problem.n,):
            raise ProblemError(f"alpha has shape {given.shape}, the problem has {problem.n} variables")
        if not np.isfinite(given).all():
            raise ProblemError("alpha contains NaN or infinity")
        if quick and problem.n <= MAX_N_DENSE_CERTIFICATE:
            self._Q = problem.dense() if self._Q is None else self._Q
            projection = problem.project(given)
            return self._by_primal(self._certify(given, projection, self._Q @ projection), given, projection, primal)
        if self._last is None or not np.array_equal(given, self._given):
            projection = immutable(problem.project(given))  # one array for the certificate and for the products
            made = self._certify(given, projection, self.compute(projection))
            self.products.keep(made.point, made.product)
            self._given, self._last = given, made
            self._last_primal = None
        if primal is None:
            return self._last.certificate
        if self._last_primal is None or not np.array_equal(primal, self._last_primal[0]):
            self._last_primal = primal, self._by_primal(self._last, given, problem.project(given), primal)
        return self._last_primal[1]

    def _by_primal(self, made: _Certified, given: NDArray, projection: NDArray, w: NDArray | None) -> Certificate:
        """Return the given certificate, or one with the bound of weights w if its gap plus rounding is smaller."""
        problem, (certificate, point, Qa) = self.problem, made
        fits = w is not None and problem.gram.is_linear and not problem.kind.may_be_unbounded
        if not fits or problem.kind is Kind.AFFINE or certificate.gap is None or certificate.within(MIN_GAP_PRIMAL):
            return certificate
        assert w is not None  # for the type checker
        w = immutable(w)
        # Qα by way of Σσαx: kernel values of such points have lost the digits that f needs.
        v = expanded(problem, point)
        Qa, (product, square) = primal_product(problem, point, v)[0], primal_product(problem, point, w)
        bound, bound_error = dual_bound(problem, point, product, square), None
        if self._has_uneven_slacks:
            error = primal_error(problem, point, w)
            lower, bound_error = slack_bound(problem, point, product, square, error)
            bound = lower, bound[1]
        rounding_error = primal_rounding(problem, point, (v, Qa), (w, product), bound, bound_error)
        shift = self.shift(point, w)
        level = level_of(problem, product)
        made_by_w = certificate_of(problem, self.psd, given, projection, point, Qa, bound, shift, rounding_error, level)
        return replace(made_by_w, primal=w) if _largest_gap(made_by_w) < _largest_gap(certificate) else certificate

    @property
    def _has_uneven_slacks(self) -> bool:
        """Whether `slack_bound` is the bound to try."""
        problem = self.problem
        if problem.kind not in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX) or self._moved or problem.p.any():
            return False
        return ridges_apart(problem.ridge) and bool(np.isinf(problem.upper[problem.upper > 0]).all())

    def _by_slack(self, given: NDArray, projection: NDArray, made: _Certified) -> _Certified:
        """Return what was made, or the certificate of `slack_bound` if its gap plus rounding is smaller."""
        problem, (certificate, point, Qa) = self.problem, made
        if certificate.gap is None or certificate.within(MIN_GAP_PRIMAL) or not self._has_uneven_slacks:
            return made
        error = product_error(problem, point)
        lower, rounding_error = slack_bound(problem, point, Qa, float(point @ Qa), error)
        sum_rounding = 4.0 * (1.0 + problem.n**0.5) * EPS * abs(certificate.objective)
        rounding_error += 0.5 * float(np.abs(point) @ error) + sum_rounding
        bound = lower, certificate.multiplier_interval
        other = certificate_of(problem, self.psd, given, projection, point, Qa, bound, rounding_error=rounding_error)
        return _Certified(other, point, Qa) if _largest_gap(other) < _largest_gap(certificate) else made

    def certify_product(self, alpha: NDArray, Qa: NDArray, problem: DualProblem) -> Certificate:
        """Return the certificate of a feasible α of ``problem``, which is `problem` with other bounds or another p.

        ``Qa`` is Qα from scratch.
        """
        certifier = object.__new__(Certifier)
        certifier._begin(problem, problem)
        certifier.workspace = Workspace(problem, self.workspace.gram, self.psd)
        return certifier._certify(alpha, alpha, Qa).certificate

    def _certify(self, given: NDArray, projection: NDArray, Qa: NDArray) -> _Certified:
        """Return the certificate of the best bound for a projection."""
        point, Qa, bound = self._bound(projection, Qa)
        level, shift = level_of(self.problem, Qa), self.shift(point)
        made = certificate_of(self.problem, self.psd, given, projection, point, Qa, bound, shift, level=level)
        found = self._by_slack(given, projection, self._by_margin(given, projection, _Certified(made, point, Qa)))
        return self._by_places(found)

    def _by_places(self, made: _Certified) -> _Certified:
        """Return what was made, or the certificate `by_places` where round-off leaves a gap, if that is better."""
        known = made.certificate
        if not may_be_rounded(known) or self.places is None:
            return made
        found = by_places(self.places, known)
        return made if found is known else _Certified(found, made.point, self.places.product(made.point)[0])

    def _by_margin(self, given: NDArray, projection: NDArray, made: _Certified) -> _Certified:
        """Return what was made, or the certificate of a hard margin if its gap plus rounding is smaller.

        Where C times the kernel's values is beyond float64, the round-off of a margin, times C, is far above f. If α
        separates the classes and is below its bounds, a slightly larger w has no slack at all, and its bound no C.
        """
        problem, (certificate, point, Qa) = self.problem, made
        if problem.kind not in _CAN_SEPARATE or (certificate.relative_rounding or 0.0) < MIN_ROUNDING_MARGIN:
            return made
        found = hard_margin_bound(problem, point, Qa)
        if found is None:
            return made
        scaling, lower_bound, interval = found  # of the best point on the ray; α itself stays what it is
        bound = lower_bound, None if interval is None else (interval[0] / scaling, interval[1] / scaling)
        rounding_error = rounding(problem, point, Qa, certificate.objective, bound, by_margin=True)
        other = certificate_of(
            problem, self.psd, given, projection, point, Qa, bound, self.shift(point), rounding_error
        )
        return _Certified(other, point, Qa) if _largest_gap(other) < _largest_gap(certificate) else made

    def appraise(self, alpha: NDArray, Qa: NDArray) -> tuple[float, NDArray]:
        """Return the relative gap and ρ = Qα − p − νe of a feasible α, from a product of any origin, also a rough one.

        For a hard margin they are those of the best point on the ray of α.
        """
        problem = self.problem
        point, Qa, (lower_bound, interval) = self._bound(alpha, Qa)
        objective, rho = 0.5 * float(point @ Qa) - float(problem.p @ point), Qa - problem.p
        if problem.e is not None and interval is not None:
            rho -= multiplier_of(interval) * problem.e
        if (level := level_of(problem, Qa)) is not None:
            rho -= level
        return gaps(objective, lower_bound)[1], rho

    def gap(self, alpha: NDArray, Qa: NDArray) -> float:
        """Return the absolute gap of a feasible α, from a product of any origin."""
        point, Qa, (lower_bound, _) = self._bound(alpha, Qa)
        return gaps(0.5 * float(point @ Qa) - float(self.problem.p @ point), lower_bound)[0]

    def _bound(self, point: NDArray, Qa: NDArray) -> tuple[NDArray, NDArray, tuple[float, Interval | None]]:
        """Return the best point on the ray of α (hard margins), its Qα, the best lower bound and its multipliers."""
        problem = self.problem
        if problem.kind.may_be_unbounded and (bound := hard_margin_bound(problem, point, Qa)) is not None:
            return bound[0] * point, bound[0] * Qa, bound[1:]
        if problem.kind is Kind.AFFINE:
            return point, Qa, affine_bound(self.workspace, point, Qa)
        return point, Qa, dual_bound(problem, point, Qa)


def _largest_gap(certificate: Certificate) -> float:
    """Return the gap plus its rounding error, absolute; ∞ if there is no gap."""
    if certificate.gap is None or certificate.rounding is None:
        return math.inf
    return certificate.gap + certificate.rounding


class Answer(NamedTuple):
    """The numbers of a `Certificate` that a model is read from, under the same names."""

    alpha: NDArray
    quadratic: float
    multiplier: float | None
    multiplier_interval: Interval | None
    bias: float
    bias_interval: Interval
    radius: float | None
    level: float | None
    primal: NDArray | None = None


def answer_of(
    problem: DualProblem,
    point: NDArray,
    quadratic: float,
    interval: Interval | None,
    shift: float = 0.0,
    level: float | None = None,
) -> Answer:
    """Return the numbers that a model is read from, for α = ``point`` and αᵀQα; others as in `certificate_of`."""
    nu = None if interval is None else multiplier_of(interval)
    radius = problem.reading.radius(problem, quadratic, nu)
    if nu is not None and interval is not None and shift:
        nu, interval = nu + shift, (interval[0] + shift, interval[1] + shift)
        quadratic += 2 * problem.d * shift
    posed = problem if level is None else problem.at_level(level)
    bias, bias_interval = problem.reading.bias(posed, point, quadratic, interval)
    return Answer(point, quadratic, nu, interval, bias, bias_interval, radius, level)


def certificate_of(
    problem: DualProblem,
    psd: SpectrumEvidence,
    given: NDArray,
    projection: NDArray,
    point: NDArray,
    Qa: NDArray,
    bound: tuple[float, Interval | None],
    shift: float = 0.0,
    rounding_error: float | None = None,
    level: float | None = None,
) -> Certificate:
    """Return the certificate of an α, from its product and bound.

    Parameters
    ----------
    problem : DualProblem
    psd : SpectrumEvidence
    given, projection, point : arrays of shape (n,)
        α as given, its projection onto the feasible set, and the best point on the ray of that.
    Qa : array of shape (n,)
        Q times ``point``.
    bound : tuple
        The lower bound, and the interval of multipliers that give it, or None.
    shift : float, default=0
        As from `Certifier.shift`.
    rounding_error : float, optional
        The rounding error of the gap, if not that of Qα (`bounds.rounding`).
    level : float, optional
        The multiplier of a second equality.
    """
    (lower_bound, interval), quadratic, away = bound, float(point @ Qa), given - projection
    objective = 0.5 * quadratic - float(problem.p @ point)
    gap = relative_gap = None
    if rounding_error is None and psd.is_psd:
        rounding_error = rounding(problem, point, Qa, objective, bound)
    if rounding_error is not None and psd.is_psd:
        gap, relative_gap = gaps(objective, lower_bound, rounding_error, contradiction(problem.gram))
        if max(abs(objective), abs(lower_bound)) <= vanishing(problem, point, quadratic):
            # Both are 0 to round-off: for example the ball around copies of one point.
            relative_gap = rounding_error = 0.0
    answer = answer_of(problem, point, quadratic, interval, shift, level)
    return Certificate(
        alpha=immutable(point),
        objective=objective,
        lower_bound=lower_bound if psd.is_psd else None,
        gap=gap,
        relative_gap=relative_gap,
        infeasibility=problem.infeasibility(given),
        projection_distance=math.sqrt(away @ away),
        multiplier=answer.multiplier,
        multiplier_interval=answer.multiplier_interval,
        bias=answer.bias,
        bias_interval=answer.bias_interval,
        radius=answer.radius,
        quadratic=answer.quadratic,
        psd=psd,
        stationarity=None if psd.is_psd else kkt_violation(problem, point, Qa - problem.p),
        rounding=rounding_error if psd.is_psd else None,
        level=level,
    )
