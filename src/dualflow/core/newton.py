"""One Newton step of the refinement: where it leads, and how far to follow it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .conjugate_system import ConjugateSystem
from .free_system import FreeSystem
from .projection import project_onto

__all__ = ["advance", "hold_beyond", "newton_step", "pass_bounds"]

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
