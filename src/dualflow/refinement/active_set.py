"""The refinement: a primal active-set method.

Minimise over the free variables exactly (one Cholesky factor, kept while variables come and go: `FreeSystem`), stop
at the bounds met on the way, then look at every bounded variable and free those whose multiplier has the wrong sign.
f never rises.

One Newton step of the refinement: where it leads, and how far to follow it.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import inseparability_witness
from ..core.certificate import Certifier
from ..core.problem import project_onto
from .linear_systems import ConjugateSystem, FreeSystem, suits

__all__ = ["ActiveSet", "advance", "hold_beyond", "newton_step", "pass_bounds"]


_EPS = float(np.finfo(float).eps)
#: What eᵀs may miss, as a part of Σ|sᵢ|, in a step that is believed of a factor that carries changes.
_MISSED = 1e-10
#: What f may seem to rise by, as a part of the terms of its change, and of what rounding α alone makes of them.
_RISE, _ROUNDED = 64 * _EPS, 4 * _EPS


def newton_step(system: FreeSystem | ConjugateSystem, h: NDArray, missing: float) -> NDArray | None:
    """Minimiser of ½ sᵀQs + hᵀs over the members' steps s, subject to eᵀs = ``missing``; held members stay.

    None where the system has lost the digits to say.

    Parameters
    ----------
    system : FreeSystem or ConjugateSystem
    h : array of shape (members,)
        Qα − p.
    missing : float
        What α lacks of eᵀα = d; not looked at without an equality.
    """
    problem, members = system.problem, system.members
    if isinstance(system, ConjugateSystem):
        step = system.step(h, missing)
        return step if np.isfinite(step).all() else None
    if problem.e is None:
        step = -system.solve(h[:, None])[:, 0]
        return step if np.isfinite(step).all() else None
    # A multiple of e moves the multiplier, not the step: without it the right side falls with the residual, and
    # with it the error of an inexact factor.
    e = problem.e[members]
    solved = system.solve(np.column_stack([_centred(system, h), e]))
    curvature = float(e @ solved[:, 1])  # eᵀQ⁻¹e > 0 of a matrix that is positive definite
    if not (np.isfinite(solved).all() and curvature > 0):
        return None
    nu = (missing + float(e @ solved[:, 0])) / curvature
    step = nu * solved[:, 1] - solved[:, 0]
    if not np.isfinite(step).all():
        return None
    error = abs(float(e @ step) - missing)
    return None if system.changes and error > _MISSED * float(np.abs(step).sum()) else step


def _centred(system: FreeSystem | ConjugateSystem, h: NDArray) -> NDArray:
    """h − νe with the mean multiplier ν of the live members."""
    if system.problem.e is None:
        return h
    e = system.problem.e[system.members]
    return h - float((h * e)[system.live].mean()) * e


def advance(
    system: FreeSystem | ConjugateSystem, here: NDArray, h: NDArray, step: NDArray
) -> tuple[NDArray, NDArray, NDArray] | None:
    """Walk along the step to the first bound, or clip several at once where that lowers f more.

    Returns where that leads, Q times the move, and who is at a bound now, all over the members; None if f would rise.
    Clipping several bounds a step is fast on well-conditioned sets and diverges on ill-conditioned ones, so it is taken
    only when f itself says it is the better of the two.
    """
    problem, live = system.problem, system.live
    low, high = problem.lower[system.members], problem.upper[system.members]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        reach = np.where(step > 0, (high - here) / step, np.where(step < 0, (low - here) / step, np.inf))
    t = min(1.0, max(0.0, float(reach.min())))
    one = np.where(live, np.minimum(np.maximum(here + t * step, low), high), here)
    if t == 1.0:
        ends = [(one, np.zeros(len(here), dtype=bool))]
    else:
        first = reach <= t
        one[first] = np.where(step[first] > 0, high[first], low[first])
        ends = [_clipped(system, here, step, low, high), (one, first & live)]
    # What of eᵀα was missing is made up for at the price of the multiplier, which is no rise.
    slope = _centred(system, h)
    rounded = _ROUNDED * float(np.abs(slope) @ np.abs(here))
    best: tuple[float, NDArray, NDArray, NDArray] | None = None
    for target, blocked in ends:
        move = target - here
        product = system.product(move)
        change = slope * move + 0.5 * move * product
        value = float(change.sum())
        if value <= _RISE * float(np.abs(change).sum()) + rounded and (best is None or value <= best[0]):
            best = value, target, product, blocked
    return None if best is None else best[1:]


def pass_bounds(
    system: FreeSystem, here: NDArray, h: NDArray, step: NDArray
) -> tuple[NDArray, NDArray, NDArray] | None:
    """Walk along the step from one first bound to the next, and hold who meets it: what steps of `advance` that meet
    one bound each come to, but for a solve with one right side in the place of three, and one product at the end.

    What is left of a Newton step after a part of it is the next one, up to its value at who is held now: that is taken
    to 0 along the response to a force there. It ends where the step does, or where a new factor is cheaper. Returns as
    `advance`; where it returns None those it held are live again.
    """
    problem, before, slope = system.problem, system.live.copy(), _centred(system, h)
    low, high = problem.lower[system.members], problem.upper[system.members]
    e = None if problem.e is None else problem.e[system.members]
    unit = None if e is None else system.solve(e[:, None])[:, 0]
    target, step = here.copy(), step.copy()
    while True:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            reach = np.where(step > 0, (high - target) / step, np.where(step < 0, (low - target) / step, np.inf))
        k = int(reach.argmin())
        t = max(0.0, float(reach[k]))
        if t >= 1.0:
            target = np.where(system.live, np.minimum(np.maximum(target + step, low), high), target)
            break
        target = np.where(system.live, np.minimum(np.maximum(target + t * step, low), high), target)
        target[k] = high[k] if step[k] > 0 else low[k]
        if k >= system.base or not system.bears(1):
            system.live[k] = False
            break
        response, step = system.pin(k), (1.0 - t) * step
        if e is not None and unit is not None:
            along = response - unit * (float(e @ response) / float(e @ unit))
            unit -= response * (unit[k] / response[k] if response[k] > 0 else np.nan)
            response = along
        step -= response * (step[k] / response[k] if response[k] > 0 else np.nan)
        if not np.isfinite(step).all():
            break
        step[~system.live] = 0.0
    blocked = before & ~system.live
    move = target - here
    product = system.product(move)
    if not _falls(slope, move, product, here):
        system.live[blocked] = True
        return None
    return target, product, blocked


def hold_beyond(
    system: FreeSystem, here: NDArray, h: NDArray, step: NDArray, missing: float
) -> tuple[NDArray, NDArray, NDArray] | None:
    """Hold all that the step takes beyond their bounds, solve for the others, and again until it takes nobody there.

    However many bounds there are to meet, that takes a few solves. Who was held too soon is for the caller to let go.
    Returns as `advance`; None, with those it held live again, if a factor would have to carry too many or f would
    rise.
    """
    problem, before = system.problem, system.live.copy()
    low, high = problem.lower[system.members], problem.upper[system.members]
    e = None if problem.e is None else problem.e[system.members]
    target, move, held = here.copy(), step, np.zeros(len(here), dtype=bool)
    while True:
        wish = here + move
        below, above = system.live & (wish < low), system.live & (wish > high)
        if not (below | above).any():
            product, slope = system.product(move), _centred(system, h)
            if _falls(slope, move, product, here):
                return np.where(held, target, wish), product, held
            break
        target[below], target[above] = low[below], high[above]
        held |= below | above
        if not system.hold_together(np.flatnonzero(below | above)):
            break
        fixed = np.where(held, target - here, 0.0)
        rest = newton_step(system, h + system.product(fixed), missing - (0.0 if e is None else float(e @ fixed)))
        if rest is None:
            break
        move = rest + fixed
    system.live[:] = before
    return None


def _falls(slope: NDArray, move: NDArray, product: NDArray, here: NDArray) -> bool:
    """Whether a move from here does not raise f, by more than round-off makes of it."""
    change = slope * move + 0.5 * move * product
    most = _RISE * float(np.abs(change).sum()) + _ROUNDED * float(np.abs(slope) @ np.abs(here))
    return float(change.sum()) <= most


def _clipped(
    system: FreeSystem | ConjugateSystem, here: NDArray, step: NDArray, low: NDArray, high: NDArray
) -> tuple[NDArray, NDArray]:
    """The whole step, projected onto the bounds and the equality: where that leads, and who is at a bound then."""
    live, wish = system.live, here + step
    e = None if system.problem.e is None else system.problem.e[system.members]
    total = 0.0 if e is None else float(e @ here)
    several = project_onto(wish, np.where(live, low, here), np.where(live, high, here), e, total)
    # Round-off in the equality's root can leave those it clips just inside their bounds, where they would stop
    # every further step and never be held.
    near = 4 * _EPS * float(np.abs(several).sum())
    several = np.where(live & (wish <= low) & (several <= low + near), low, several)
    several = np.where(live & (wish >= high) & (several >= high - near), high, several)
    return several, live & ((several <= low) | (several >= high))


#: Solves for what a solve has left, at most unless each leaves a third of it or less: a float32 factor needs a few.
_POLISH = 6
#: How often those who were held are let go again before all others are looked at.
_ROUNDS = 10
#: The part of the first residual that is small enough while others than the free variables are still to be looked at.
_ROUGH = 1e-3

#: The part of the variables looked at between two looks at all of them, how often at most, and from which size on.
_NEAR_PART, _NEAR_ROUNDS, _NEAR_FROM = 8, 50, 4000

#: Violators that are set free together, where fewer are free.
_MANY = 32

#: Free variables beyond which no factor is made: it takes 4.3 GB there, with what it is made of.
_FACTORED = 16_384
#: What the gradient a search starts from may be wrong by, as a part of its size: it comes from float32.
_ROUGH_ERROR = 1e-6


class ActiveSet:
    """The running state of one refinement: α, the free set with its linear system, and the gradient h = Qα − p.

    Parameters
    ----------
    certifier : Certifier
        Whose products from scratch decide that nobody invades: the last is that of the answer's certificate.
    alpha : array of shape (n,)
        The start, feasible.
    near, gradient : arrays of shape (n,)
        A point near it, and about Qα − p there.
    tol : float, default=0
        Relative gap that is enough; 0 asks for the end.
    patient : int
        Variables up to which it goes on to the end all the same, where that is near.
    """

    def __init__(
        self,
        certifier: Certifier,
        alpha: NDArray,
        near: NDArray,
        gradient: NDArray,
        max_solves: int,
        deadline: float | None,
        tol: float = 0.0,
        patient: int = 0,
    ) -> None:
        self.patient = patient
        self.certifier, self.problem = certifier, certifier.workspace
        self.max_solves, self.deadline, self.tol = max_solves, deadline, tol
        self.alpha, self.h = alpha.copy(), gradient.copy()
        self.diag_max = float(self.problem.diag().max()) or 1.0
        self.kernel_max = float((self.problem.diag() - self.problem.ridge).max())
        self.p_max = float(np.abs(self.problem.p).max())
        self.free = np.flatnonzero((alpha > self.problem.lower) & (alpha < self.problem.upper))
        self.h[self.free] = self.problem.product(alpha, self.free) - self.problem.p[self.free]
        # Where all were last looked at, the gradient found there, and what it may be wrong by, as a part of its size.
        self.seen, self.found, self.error = near, gradient, _ROUGH_ERROR
        self.system: FreeSystem | ConjugateSystem | None = None
        self.factorise = False  # whatever a factor takes
        self.solves = 0
        self.converged = False

    def out_of_budget(self) -> bool:
        late = self.deadline is not None and time.monotonic() > self.deadline
        # Another way on is the solver's: see `Descent.hands_over`.
        heavy = len(self.free) > _FACTORED and not suits(self.problem, self.free)
        return late or heavy or self.solves >= self.max_solves

    def look(self, from_scratch: bool = False) -> bool:
        """The gradient of all: from scratch, or by what changed since the last look; whether it was from scratch."""
        alpha, free = self.alpha, self.free
        change = alpha - self.seen
        if not from_scratch and change.any() and self.certifier.products.changes_little(change, alpha):
            exact = self.h[free]
            self.h = self.found + self.problem.product(change)
            self.h[free] = exact
            return False
        self.h = self.certifier.compute(alpha) - self.problem.p
        self.seen, self.found, self.error = alpha.copy(), self.h.copy(), 0.0
        return True

    def is_enough(self) -> bool:
        """Whether the gap asked for is reached: where a rough gradient says so, a look from scratch is asked."""
        while self.tol and self.certifier.appraise(self.alpha, self.h + self.problem.p)[0] <= self.tol:
            if not self.error:
                return True
            self.look(from_scratch=True)
        return False

    def objective(self) -> float:
        return 0.5 * float(self.alpha @ (self.h - self.problem.p))

    def run(self) -> NDArray | None:
        """Alternate minimisation over the free set and invasion; return a witness if f falls for ever."""
        stalled, last = 0, np.inf
        while not self.out_of_budget():
            self.minimise_free_and_near()
            rough = self.error > 0.0
            from_scratch = self.look()
            if (witness := self.witness()) is not None:
                return witness
            violators = self.violators(beyond=self.error * self.size())
            if len(violators) == 0 and not from_scratch:
                self.look(from_scratch=True)
                violators = self.violators()
            # Most ends are near, and gone to; where each of many violators takes a step of its own, the gap is enough.
            far = self.problem.n > self.patient or len(violators) > max(_MANY, len(self.free))
            if len(violators) == 0 or (far and self.is_enough()):
                self.converged = True
                break
            if rough and not self.error:
                stalled, last = 0, np.inf  # an objective from a rough gradient may lie below all that is to come
            value = self.objective()
            # No progress with many newcomers at once: take the worst alone; if that fails too, round-off rules.
            stalled = stalled + 1 if value >= last - 4 * _EPS * abs(value) else 0
            last = min(last, value)
            if stalled > 2 and self.error:
                self.look(from_scratch=True)  # what looked like no progress may be the rough start's error
                stalled, last = 0, np.inf
                continue
            if stalled > 2:
                break
            newcomers = violators[: max(_MANY, len(self.free)) if stalled == 0 else 2]
            if self.error or self.certifier.products.is_screened:
                self.h[newcomers] = self.problem.product(self.alpha, newcomers) - self.problem.p[newcomers]
            self.free = np.union1d(self.free, newcomers)
        return None

    def minimise_free_and_near(self) -> None:
        """Minimise over the free variables, and over those close to becoming free, before looking at all others.

        The gradient of all costs as much as the rest of a step; most who invade had a multiplier near zero.
        """
        problem = self.problem
        if problem.n < _NEAR_FROM or not problem.gram.has_few_features:
            self.minimise_free()
            return
        margin, count = np.abs(self.multipliers()), problem.n // _NEAR_PART
        margin[self.free] = np.inf
        near = np.argpartition(margin, count)[:count]
        for _ in range(_NEAR_ROUNDS):
            self.minimise_free(_ROUGH)
            if self.out_of_budget():
                return
            self.h[near] = problem.product(self.alpha, near) - problem.p[near]
            violators = self.violators(near, self.residual())
            if len(violators) == 0:
                break
            self.free = np.union1d(self.free, violators[: max(_MANY, len(self.free))])
        if self.residual() > self.round_off():
            self.minimise_free()

    def witness(self) -> NDArray | None:
        if not self.problem.is_hard_margin:
            return None
        total = float(self.alpha.sum())
        # From the left: total² alone may overflow.
        flat = float(self.alpha @ (self.h + self.problem.p)) <= 1e-11 * self.diag_max * total * total
        return inseparability_witness(self.problem, self.alpha) if total > 0 and flat else None

    def multipliers(self) -> NDArray:
        """ρ = h − νe, with ν read off the free variables; at a vertex, halfway
        between the worst violating pair, so that both of it violate: one alone could not move."""
        problem, free, alpha, h = self.problem, self.free, self.alpha, self.h
        if problem.e is None:
            return h.copy()
        if len(free):
            return h - float(h[free] @ problem.e[free]) / len(free) * problem.e
        wish = h * problem.e
        sides = alpha < problem.upper, alpha > problem.lower
        rises, falls = np.where(problem.e > 0, sides, sides[::-1])
        if rises.any() and falls.any():
            nu = 0.5 * (float(wish[rises].min()) + float(wish[falls].max()))
        else:
            nu = (self.certifier.certify(alpha).multiplier or 0.0) - self.certifier.shift(alpha)
        return h - nu * problem.e

    def violators(self, among: NDArray | slice = slice(None), beyond: float = 0.0) -> NDArray:
        """Bounded variables whose multiplier has the wrong sign, worst first (Howell 9, 17: they can invade)."""
        problem, alpha = self.problem, self.alpha
        rho = self.multipliers()
        wrong = np.where(alpha <= problem.lower, -rho, np.where(alpha >= problem.upper, rho, 0.0))
        wrong[self.free] = 0.0
        wrongly = (wrong > max(beyond, self.round_off())) & (problem.upper > problem.lower)
        if not isinstance(among, slice):
            rest, wrongly = wrongly, np.zeros(problem.n, dtype=bool)
            wrongly[among] = rest[among]
        candidates = np.flatnonzero(wrongly)
        return candidates[np.argsort(-wrong[candidates], kind="stable")]

    def minimise_free(self, part: float = 0.0) -> None:
        """Minimisation over the free variables, dropping those that meet a bound on the way: exact, or until the
        residual is that part of what it was."""
        problem, polish, rounds, before, enough = self.problem, 0, 0, np.inf, None
        alone = False  # whether the last step ended at one bound: then the next ones will
        together = True  # whether f has fallen each time all were held whom a step takes beyond a bound
        system: FreeSystem | ConjugateSystem | None
        while len(self.free) and not self.out_of_budget():
            system = None  # only `self.system` holds one while the next is made
            system = self.system = self.current_system()
            if system.factor is None:
                return
            members = system.members
            if enough is None:
                enough = max(self.round_off(), part * self.residual())
            self.solves += 1
            missing = 0.0 if problem.e is None else problem.d - float(problem.e @ self.alpha)
            step = newton_step(system, self.h[members], missing)
            walk, settled, here, h = None, False, self.alpha[members], self.h[members]
            if step is not None and together and not isinstance(system, ConjugateSystem):
                walk = hold_beyond(system, here, h, step, missing)
                together = settled = walk is not None
            if step is not None and walk is None and alone and not isinstance(system, ConjugateSystem):
                walk = pass_bounds(system, here, h, step)
            if step is not None and walk is None:
                walk = advance(system, here, h, step)
            if walk is None:
                # Carried changes cost digits where Q is singular (duplicates, low rank), in the end all of them.
                if not system.changes:
                    return
                self.system, polish, before = None, 0, np.inf
                continue
            self.alpha[members], change, blocked = walk
            self.h[members] += change
            alone = int(blocked.sum()) == 1
            if blocked.any():
                polish = 0
                if not settled:
                    system.hold(np.flatnonzero(blocked))
                self.free = members[system.live]
                if not settled:
                    continue
            residual = self.residual()
            if residual <= enough:
                # Who was held too soon is wanted back by the multiplier.
                back, rounds = self.violators(members[~system.live], residual), rounds + 1
                if not len(back) or rounds > _ROUNDS:
                    return
                self.free = np.union1d(self.free, back)
            elif polish < _POLISH or residual <= before / 3:
                # A regularised or ill-conditioned solve leaves a residual: solve again for what is left.
                polish, before = polish + 1, residual
            elif system.changes:
                self.system, polish, before = None, 0, np.inf  # carried changes cost digits where Q is ill-conditioned
            else:
                return

    def current_system(self) -> FreeSystem | ConjugateSystem:
        """The factorised system of the free variables: the one at hand, with what changed, or a new one."""
        system = self.system
        if system is not None and not (isinstance(system, ConjugateSystem) and system.struggled):
            strangers = system.strangers(self.free)
            if system.bears(len(strangers)):
                if len(strangers):
                    system.add(strangers)
                return system
        self.solves -= 1
        self.factorise |= isinstance(system, ConjugateSystem) and system.struggled
        self.system = system = None  # its memory is needed for the next
        kind = ConjugateSystem if not self.factorise and suits(self.problem, self.free) else FreeSystem
        system = kind(self.problem, self.free, self.diag_max)
        self.solves += system.factors
        return system

    def residual(self) -> float:
        """How far the free variables' gradients are from being all equal to a multiplier."""
        if not len(self.free):
            return 0.0
        h = self.h[self.free]
        if self.problem.e is not None:
            h = h * self.problem.e[self.free]
            h = h - float(h.sum()) / len(h)
        return float(np.abs(h).max())

    def size(self) -> float:
        """How large the terms of a gradient are."""
        weights = np.abs(self.alpha)
        own = float((self.problem.ridge * weights).max())  # a ridge is in one gradient only, and may be large
        return self.kernel_max * float(weights.sum()) + own + self.p_max

    def round_off(self) -> float:
        """What a gradient may be wrong by."""
        return 8 * _EPS * self.size()
