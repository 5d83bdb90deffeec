"""The refinement: a primal active-set method.

`ActiveSet` minimises exactly over the free variables, with one Cholesky factor that is updated while variables are held
or freed (`FreeSystem`), and stops at the bounds that it meets. It then checks the multipliers of all bounded variables
and frees those with the wrong sign. f never rises.

The functions before it compute a Newton step over the free variables (`newton_step`) and follow it: to the first bound
(`advance`), from bound to bound (`pass_bounds`), or with all variables held that it would take beyond their bounds
(`hold_beyond`).
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import inseparability_witness
from ..core.certificate import Certifier
from ..core.problem import project_onto
from ..core.reading import multiplier_of
from ..core.workspace import Workspace
from .linear_systems import ConjugateSystem, FreeSystem, suits_conjugate_gradients

_EPS = float(np.finfo(float).eps)
#: A step from an updated factor is accepted if its error of eᵀs is at most this share of Σ|sᵢ|.
_MAX_EQUALITY_ERROR = 1e-10
#: Rounding error of a change of f, relative to the sizes of its terms. If f rises by less, it counts as falling.
_CHANGE_ERROR = 64 * _EPS
#: Rounding error of a change of f that comes from the rounding of α, relative to Σ|hᵢ − νeᵢ||αᵢ|.
_ALPHA_ERROR = 4 * _EPS


def newton_step(system: FreeSystem | ConjugateSystem, h: NDArray, missing: float) -> NDArray | None:
    """Return the minimiser of ½ sᵀQs + hᵀs over the steps s of live members, subject to eᵀs = ``missing``.

    Held members have step 0. Return None if the solve was too inaccurate.

    Parameters
    ----------
    system : FreeSystem or ConjugateSystem
    h : array of shape (members,)
        Qα − p.
    missing : float
        d − eᵀα; ignored without an equality.
    """
    problem, members = system.problem, system.members
    if isinstance(system, ConjugateSystem):
        step = system.step(h, missing)
        return step if np.isfinite(step).all() else None
    if problem.e is None:
        step = -system.solve(h[:, None])[:, 0]
        return step if np.isfinite(step).all() else None
    # A multiple of e in h changes the multiplier, not the step. Without it the right side is as small as the residual,
    # and so is the error that an inexact factor makes.
    e = problem.e[members]
    solved = system.solve(np.column_stack([_centred(system, h), e]))
    curvature = float(e @ solved[:, 1])  # eᵀQ⁻¹e, which is > 0 for a positive definite matrix
    if not (np.isfinite(solved).all() and curvature > 0):
        return None
    nu = (missing + float(e @ solved[:, 0])) / curvature
    step = nu * solved[:, 1] - solved[:, 0]
    if not np.isfinite(step).all():
        return None
    error = abs(float(e @ step) - missing)
    return None if system.changes and error > _MAX_EQUALITY_ERROR * float(np.abs(step).sum()) else step


def _centred(system: FreeSystem | ConjugateSystem, h: NDArray) -> NDArray:
    """Return h − νe, where ν is the mean multiplier of the live members."""
    if system.problem.e is None:
        return h
    e = system.problem.e[system.members]
    return h - float((h * e)[system.live].mean()) * e


def advance(
    system: FreeSystem | ConjugateSystem, here: NDArray, h: NDArray, step: NDArray
) -> tuple[NDArray, NDArray, NDArray] | None:
    """Follow the step to the first bound, or clip it at several bounds if that lowers f more.

    Clipping at several bounds is fast in well-conditioned problems and diverges in ill-conditioned ones, so it is used
    only if f is lower than at the first bound.

    Returns
    -------
    target : array of shape (members,)
        The new α of the members.
    product : array of shape (members,)
        Q times the move.
    blocked : bool array of shape (members,)
        The live members that are at a bound now.

    Return None instead if f would rise.
    """
    problem, live = system.problem, system.live
    low, high = problem.lower[system.members], problem.upper[system.members]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        steps_to_bound = np.where(step > 0, (high - here) / step, np.where(step < 0, (low - here) / step, np.inf))
    t = min(1.0, max(0.0, float(steps_to_bound.min())))
    one = np.where(live, np.minimum(np.maximum(here + t * step, low), high), here)
    if t == 1.0:
        ends = [(one, np.zeros(len(here), dtype=bool))]
    else:
        first = steps_to_bound <= t
        one[first] = np.where(step[first] > 0, high[first], low[first])
        ends = [_clipped(system, here, step, low, high), (one, first & live)]
    # The part of the move that restores eᵀα = d changes f by ν per unit, which does not count as a rise.
    slope = _centred(system, h)
    rounded = _ALPHA_ERROR * float(np.abs(slope) @ np.abs(here))
    best: tuple[float, NDArray, NDArray, NDArray] | None = None
    for target, blocked in ends:
        move = target - here
        product = system.product(move)
        change = slope * move + 0.5 * move * product
        value = float(change.sum())
        if value <= _CHANGE_ERROR * float(np.abs(change).sum()) + rounded and (best is None or value <= best[0]):
            best = value, target, product, blocked
    return None if best is None else best[1:]


def pass_bounds(
    system: FreeSystem, here: NDArray, h: NDArray, step: NDArray
) -> tuple[NDArray, NDArray, NDArray] | None:
    """Follow the step from bound to bound, and hold each variable that meets one.

    The result is that of repeated calls of `advance` that meet one bound each, but each bound costs a solve with one
    right side instead of three, and there is one product at the end. After a part of a Newton step, the rest of it is
    the next Newton step, except at the variable that is held now: its step is reduced to 0 along the response to a unit
    force there. The walk ends with the step, or when a new factor is cheaper.

    Returns as `advance`; if None, the members that it held are live again.
    """
    problem, before, slope = system.problem, system.live.copy(), _centred(system, h)
    low, high = problem.lower[system.members], problem.upper[system.members]
    e = None if problem.e is None else problem.e[system.members]
    unit = None if e is None else system.solve(e[:, None])[:, 0]
    target, step = here.copy(), step.copy()
    while True:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            steps_to_bound = np.where(
                step > 0, (high - target) / step, np.where(step < 0, (low - target) / step, np.inf)
            )
        k = int(steps_to_bound.argmin())
        t = max(0.0, float(steps_to_bound[k]))
        if t >= 1.0:
            target = np.where(system.live, np.minimum(np.maximum(target + step, low), high), target)
            break
        target = np.where(system.live, np.minimum(np.maximum(target + t * step, low), high), target)
        target[k] = high[k] if step[k] > 0 else low[k]
        if k >= system.base or not system.can_update(1):
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
    """Hold all variables that the step takes beyond a bound, solve for the others, and repeat until there are none.

    This takes a few solves for any number of bounds. The caller must free variables that were held wrongly.

    Returns as `advance`. It returns None, with the members that it held live again, if the factor would need too many
    updates or f would rise.
    """
    problem, before = system.problem, system.live.copy()
    low, high = problem.lower[system.members], problem.upper[system.members]
    e = None if problem.e is None else problem.e[system.members]
    target, move, held = here.copy(), step, np.zeros(len(here), dtype=bool)
    while True:
        goal = here + move
        below, above = system.live & (goal < low), system.live & (goal > high)
        if not (below | above).any():
            product, slope = system.product(move), _centred(system, h)
            if _falls(slope, move, product, here):
                return np.where(held, target, goal), product, held
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
    """Whether a move from here raises f by no more than round-off."""
    change = slope * move + 0.5 * move * product
    most = _CHANGE_ERROR * float(np.abs(change).sum()) + _ALPHA_ERROR * float(np.abs(slope) @ np.abs(here))
    return float(change.sum()) <= most


def _clipped(
    system: FreeSystem | ConjugateSystem, here: NDArray, step: NDArray, low: NDArray, high: NDArray
) -> tuple[NDArray, NDArray]:
    """Return the end of the full step, projected onto bounds and equality, and a mask of members at a bound there."""
    live, goal = system.live, here + step
    e = None if system.problem.e is None else system.problem.e[system.members]
    total = 0.0 if e is None else float(e @ here)
    target = project_onto(goal, np.where(live, low, here), np.where(live, high, here), e, total)
    # Round-off in the root of the equality can leave clipped variables just inside their bounds, where they would stop
    # every further step and never be held.
    near = 4 * _EPS * float(np.abs(target).sum())
    target = np.where(live & (goal <= low) & (target <= low + near), low, target)
    target = np.where(live & (goal >= high) & (target >= high - near), high, target)
    return target, live & ((target <= low) | (target >= high))


#: Further solves for the residual of a solve. There are more if each leaves a third of the residual or less, because a
#: float32 factor needs a few.
_MAX_POLISH_SOLVES = 6
#: Held variables are freed again at most this many times before the multipliers of all others are checked.
_MAX_RELEASE_ROUNDS = 10
#: While near variables are added, the minimisation over the free variables ends at this share of its first residual.
_ROUGH_RESIDUAL = 1e-3

#: Between two checks of all variables, one in this many is checked.
_NEAR_DIVISOR = 8
#: These near variables are checked at most this many times between two checks of all.
_MAX_NEAR_ROUNDS = 50
#: With at least this many variables, the near ones are checked apart.
_MIN_N_NEAR = 4000

#: Rounds between two calls of ``solve_nearly_free``. Most refinements need fewer.
_ROUNDS_PER_CALL = 4
#: The same while the gradient has the error of a start in float32. Most refinements end with it.
_ROUNDS_PER_CALL_ROUGH = 16

#: Even if fewer variables are free, this many violators may be freed in one batch.
_MIN_VIOLATORS_BATCH = 32

#: If the relative gap at the bound of round-off is above this, the search goes on, ...
_SHARP_GAP = 1e-9
#: ... down to this share of the bound, because errors of thousands of terms mostly cancel.
_SHARPNESS = 1.0 / 64.0

#: With more free variables no factor is made. With its matrix it takes 4.3 GB there.
_MAX_N_FACTOR = 16_384
#: The gradient at the start may come from float32 and then has this relative error.
_START_ERROR = 1e-6


#: A function of a workspace, α and the KKT violation of each variable, that returns a better α.
SolveNearlyFree = Callable[[Workspace, NDArray, NDArray], NDArray]


class ActiveSet:
    """The running state of one refinement: α, the free set with its linear system, and the gradient h = Qα − p.

    Parameters
    ----------
    certifier : Certifier
        Its products from scratch decide that there are no violators; the last one is that of the final certificate.
    alpha : array of shape (n,)
        The start, feasible.
    near, gradient : arrays of shape (n,)
        A point near it, and an approximation of Qα − p there.
    max_solves : int
        Linear systems that may be solved.
    deadline : float or None
        `time.monotonic()` value at which to stop.
    tol : float, default=0
        Relative gap that suffices; with 0 it runs to the optimum.
    exact_up_to : int
        Number of points up to which it runs to the optimum in spite of ``tol``, if there are few violators.
    solve_nearly_free : callable, optional
        Returns a better α of a workspace from an α and the KKT violation of each variable. It is called where rounds
        of freeing violators and holding them again crawl.
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
        exact_up_to: int = 0,
        solve_nearly_free: SolveNearlyFree | None = None,
    ) -> None:
        self.exact_up_to, self.solve_nearly_free = exact_up_to, solve_nearly_free
        self.certifier, self.problem = certifier, certifier.workspace
        self.max_solves, self.deadline, self.tol = max_solves, deadline, tol
        self.alpha, self.h = alpha.copy(), gradient.copy()
        which = slice(None) if self.problem.idx is None else self.problem.idx
        self.kernel_max = float((self.problem.scale * (self.problem.gram.diag()[which] + self.problem.offset)).max())
        # Large ridges, of points with tiny weights, cost a factor no digits of the other variables. A shift of their
        # size would: it may be as large as the small ridges.
        self.diag_max = self.kernel_max + float(self.problem.ridge.min()) or 1.0
        self.p_max = float(np.abs(self.problem.p).max())
        self.free = np.flatnonzero((alpha > self.problem.lower) & (alpha < self.problem.upper))
        self.h[self.free] = self.problem.product(alpha, self.free) - self.problem.p[self.free]
        # The α of the last full gradient, that gradient, and its error, as a part of its size.
        self.full_alpha, self.full_gradient, self.error = near, gradient, _START_ERROR
        self.system: FreeSystem | ConjugateSystem | None = None
        self.must_factorise = False  # conjugate gradients have failed
        self.in_double = False  # a float32 factor has failed
        self.solves = 0
        self.sharpness = 1.0
        self.converged = False

    def out_of_budget(self) -> bool:
        """Whether time, solves or memory are used up."""
        late = self.deadline is not None and time.monotonic() > self.deadline
        # The solver has another method for these: see `Descent.hands_over`.
        too_large = len(self.free) > _MAX_N_FACTOR and not suits_conjugate_gradients(self.problem, self.free)
        return late or too_large or self.solves >= self.max_solves

    def update_gradient(self, from_scratch: bool = False) -> bool:
        """Compute the gradient of all variables, and return whether that was done from scratch.

        If few variables have changed since the last full gradient, the change is added to that one.
        """
        alpha, free = self.alpha, self.free
        change = alpha - self.full_alpha
        if not from_scratch and change.any() and self.certifier.products.changes_little(change, alpha):
            exact = self.h[free]
            self.h = self.full_gradient + self.problem.product(change)
            self.h[free] = exact
            return False
        self.h = self.certifier.compute(alpha) - self.problem.p
        self.full_alpha, self.full_gradient, self.error = alpha.copy(), self.h.copy(), 0.0
        return True

    def meets_tol(self) -> bool:
        """Whether the gap is at most ``tol``, with an exact gradient."""
        while self.tol and self.certifier.appraise(self.alpha, self.h + self.problem.p)[0] <= self.tol:
            if not self.error:
                return True
            self.update_gradient(from_scratch=True)
        return False

    def sharpens(self, at_round_off: bool) -> bool:
        """Whether the search goes on below the bound of round-off, which most gradients with large α do not come near.

        It does so once, if the gap at that bound is above `_SHARP_GAP`.
        """
        if not at_round_off or self.sharpness < 1.0:
            return False
        self.sharpness = _SHARPNESS
        return self.certifier.appraise(self.alpha, self.h + self.problem.p)[0] > _SHARP_GAP

    def objective(self) -> float:
        """Return f(α)."""
        return 0.5 * float(self.alpha @ (self.h - self.problem.p))

    def run(self) -> NDArray | None:
        """Minimise over the free variables and free violators, in turn; return a witness if f has no minimum."""
        stalled, last, rounds = 0, np.inf, 0
        while not self.out_of_budget():
            self.minimise_free_and_near()
            rough, rounds = self.error > 0.0, rounds + 1
            from_scratch = self.update_gradient()
            if (witness := self.witness()) is not None:
                return witness
            violators = self.violators(beyond=self.error * self.size())
            if len(violators) == 0 and not from_scratch:
                self.update_gradient(from_scratch=True)
                violators = self.violators()
            # The optimum is usually near, and reached. But many violators may each take a step: then the gap decides.
            far = self.problem.gram.n > self.exact_up_to or len(violators) > max(_MIN_VIOLATORS_BATCH, len(self.free))
            if len(violators) == 0 or (far and self.meets_tol()):
                self.converged = True
                if not self.sharpens(len(violators) == 0):
                    break
                continue
            if rough and not self.error:
                stalled, last = 0, np.inf  # f from a rough gradient may lie below all later values
            value = self.objective()
            # No progress with many violators freed: free the worst alone. If that fails too, f is at round-off level.
            stalled = stalled + 1 if value >= last - 4 * _EPS * abs(value) else 0
            last = min(last, value)
            if stalled > 2 and self.error:
                self.update_gradient(from_scratch=True)  # the error of the rough start may have hidden progress
                stalled, last = 0, np.inf
                continue
            if stalled > 2:
                break
            wait = _ROUNDS_PER_CALL if not self.error else _ROUNDS_PER_CALL_ROUGH
            search = self.solve_nearly_free if rounds % wait == 0 else None
            if search is not None and self.move_nearly_free(search):
                continue
            candidates = violators[: max(_MIN_VIOLATORS_BATCH, len(self.free)) if stalled == 0 else 2]
            if self.error or self.certifier.products.is_screened:
                self.h[candidates] = self.problem.product(self.alpha, candidates) - self.problem.p[candidates]
            self.free = np.union1d(self.free, candidates)
        return None

    def move_nearly_free(self, solve_nearly_free: SolveNearlyFree) -> bool:
        """Replace α by the one that ``solve_nearly_free`` returns; return whether it is another one."""
        problem = self.problem
        rho = self.multipliers()
        excess = np.where(self.alpha <= problem.lower, -rho, np.where(self.alpha >= problem.upper, rho, np.abs(rho)))
        moved = solve_nearly_free(problem, self.alpha, excess)
        if np.array_equal(moved, self.alpha):
            return False  # the factor stays
        self.alpha = moved.copy()
        self.free = np.flatnonzero((self.alpha > problem.lower) & (self.alpha < problem.upper))
        self.system = None
        self.update_gradient(from_scratch=True)
        return True

    def minimise_free_and_near(self) -> None:
        """Minimise over the free variables and over near ones, which have multipliers close to zero.

        A gradient of all variables costs as much as the rest of a step, and most violators are near variables.
        """
        problem = self.problem
        if problem.n < _MIN_N_NEAR or not problem.gram.has_few_features:
            self.minimise_free()
            return
        margin, count = np.abs(self.multipliers()), problem.n // _NEAR_DIVISOR
        margin[self.free] = np.inf
        near = np.argpartition(margin, count)[:count]
        for _ in range(_MAX_NEAR_ROUNDS):
            self.minimise_free(_ROUGH_RESIDUAL)
            if self.out_of_budget():
                return
            self.h[near] = problem.product(self.alpha, near) - problem.p[near]
            violators = self.violators(near, self.residual())
            if len(violators) == 0:
                break
            self.free = np.union1d(self.free, violators[: max(_MIN_VIOLATORS_BATCH, len(self.free))])
        if self.residual() > self.round_off():
            self.minimise_free()

    def witness(self) -> NDArray | None:
        """Return a proof that a hard margin does not exist (`inseparability_witness`), or None."""
        if not self.problem.is_hard_margin:
            return None
        total = float(self.alpha.sum())
        # Multiplied from the left: total² alone may overflow.
        flat = float(self.alpha @ (self.h + self.problem.p)) <= 1e-11 * self.diag_max * total * total
        return inseparability_witness(self.problem, self.alpha) if total > 0 and flat else None

    def multipliers(self) -> NDArray:
        """Return ρ = h − νe, with the mean ν of the free variables.

        If none are free, ν is halfway between the two variables of the worst violating pair, so that both violate: one
        alone could not move.
        """
        problem, free, alpha, h = self.problem, self.free, self.alpha, self.h
        if problem.e is None:
            return h.copy()
        if len(free):
            return h - float(h[free] @ problem.e[free]) / len(free) * problem.e
        nu_of_each = h * problem.e
        sides = alpha < problem.upper, alpha > problem.lower
        rises, falls = np.where(problem.e > 0, sides, sides[::-1])
        if rises.any() and falls.any():
            nu = multiplier_of((float(nu_of_each[rises].min()), float(nu_of_each[falls].max())))
        else:
            nu = (self.certifier.certify(alpha).multiplier or 0.0) - self.certifier.shift(alpha)
        return h - nu * problem.e

    def violators(self, among: NDArray | slice = slice(None), beyond: float = 0.0) -> NDArray:
        """Return the bounded variables whose multiplier has the wrong sign by more than ``beyond``, worst first.

        They are the species that can invade in Howell's terms (eqs. 9, 17).
        """
        problem, alpha = self.problem, self.alpha
        rho = self.multipliers()
        violation = np.where(alpha <= problem.lower, -rho, np.where(alpha >= problem.upper, rho, 0.0))
        violation[self.free] = 0.0
        violates = (violation > max(beyond, self.round_off())) & (problem.upper > problem.lower)
        if not isinstance(among, slice):
            of_all, violates = violates, np.zeros(problem.n, dtype=bool)
            violates[among] = of_all[among]
        found = np.flatnonzero(violates)
        return found[np.argsort(-violation[found], kind="stable")]

    def minimise_free(self, part: float = 0.0) -> None:
        """Minimise over the free variables, and hold those that meet a bound.

        The minimum is exact, or the residual falls to ``part`` of its first value.
        """
        problem, polish, rounds, before, max_residual = self.problem, 0, 0, np.inf, None
        met_one_bound = False  # in the last step: the next ones are likely to do so too
        can_hold_beyond = True  # until `hold_beyond` fails once
        system: FreeSystem | ConjugateSystem | None
        while len(self.free) and not self.out_of_budget():
            system = None  # so that the old system is freed while the next is made
            system = self.system = self.current_system()
            if system.factor is None:
                return
            members = system.members
            if max_residual is None:
                max_residual = max(self.round_off(), part * self.residual())
            self.solves += 1
            missing = 0.0 if problem.e is None else problem.d - float(problem.e @ self.alpha)
            step = newton_step(system, self.h[members], missing)
            walk, is_minimum, here, h = None, False, self.alpha[members], self.h[members]
            if step is not None and can_hold_beyond and not isinstance(system, ConjugateSystem):
                walk = hold_beyond(system, here, h, step, missing)
                can_hold_beyond = is_minimum = walk is not None
            if step is not None and walk is None and met_one_bound and not isinstance(system, ConjugateSystem):
                walk = pass_bounds(system, here, h, step)
            if step is not None and walk is None:
                walk = advance(system, here, h, step)
            if walk is None:
                # Updates of a factor lose digits if Q is singular (duplicates, low rank), in the end all of them.
                if not (system.changes or system.in_single):
                    return
                self.in_double |= not system.changes
                self.system, polish, before = None, 0, np.inf
                continue
            self.alpha[members], change, blocked = walk
            self.h[members] += change
            met_one_bound = int(blocked.sum()) == 1
            if blocked.any():
                polish = 0
                if not is_minimum:
                    system.hold(np.flatnonzero(blocked))
                self.free = members[system.live]
                if not is_minimum:
                    continue
            residual = self.residual()
            if residual <= max_residual:
                # Free the variables that were held wrongly: their multipliers have the wrong sign.
                released, rounds = self.violators(members[~system.live], residual), rounds + 1
                if not len(released) or rounds > _MAX_RELEASE_ROUNDS:
                    return
                self.free = np.union1d(self.free, released)
            elif polish < _MAX_POLISH_SOLVES or residual <= before / 3:
                # A regularised or ill-conditioned solve leaves a residual: solve again for it.
                polish, before = polish + 1, residual
            elif system.changes or system.in_single:
                # Updates of a factor lose digits if Q is ill-conditioned, and so does float32.
                self.in_double |= not system.changes
                self.system, polish, before = None, 0, np.inf
            else:
                return

    def current_system(self) -> FreeSystem | ConjugateSystem:
        """Return the linear system of the free variables: the last one, updated, or a new one."""
        system = self.system
        if system is not None and not (isinstance(system, ConjugateSystem) and system.struggled):
            missing = system.not_live(self.free)
            if system.can_update(len(missing)):
                if len(missing):
                    system.add(missing)
                return system
        self.solves -= 1
        self.must_factorise |= isinstance(system, ConjugateSystem) and system.struggled
        self.system = system = None  # free its memory for the next
        by_conjugate_gradients = not self.must_factorise and suits_conjugate_gradients(self.problem, self.free)
        if by_conjugate_gradients:
            system = ConjugateSystem(self.problem, self.free, self.diag_max)
        else:
            system = FreeSystem(self.problem, self.free, self.diag_max, self.in_double)
        self.solves += system.factors
        return system

    def residual(self) -> float:
        """Return the largest |hᵢ − νeᵢ| of the free variables, with their mean ν."""
        if not len(self.free):
            return 0.0
        h = self.h[self.free]
        if self.problem.e is not None:
            h = h * self.problem.e[self.free]
            h = h - float(h.sum()) / len(h)
        return float(np.abs(h).max())

    def size(self) -> float:
        """Return the size of the terms of a gradient."""
        weights = np.abs(self.alpha)
        own = float((self.problem.ridge * weights).max())  # a ridge adds to the gradient of its variable alone
        return self.kernel_max * float(weights.sum()) + own + self.p_max

    def round_off(self) -> float:
        """Return the rounding error of a gradient, or the part of its bound that the search goes down to."""
        return 8 * _EPS * self.size() * self.sharpness
