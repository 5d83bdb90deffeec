"""A trajectory window by window: each is trained, read on a dense grid, and counts only if it passes there."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.seeds import generator, generator_state
from ...exceptions import DualflowError
from ...flows.logit_lotka_volterra import LogitLotkaVolterra
from ...flows.lotka_volterra import LotkaVolterraField
from ...integrate.scipy_ivp import ivp_step
from ..runs.laboratory import Account, QuantumContext
from .variational_dqc import Executor, Fit, Flow, Window

__all__ = ["March", "MarchContext", "Rules", "advance", "begin"]

#: Training iterations of one `advance`, and in all for one window.
ITERATIONS, PATIENCE = 3, 25
#: A window is given up early if it is this many times above the tolerance after so many iterations.
HOPELESS, HOPELESS_AFTER = 10.0, 15
#: Training aims at this share of what the dense grid is allowed.
AIM = 0.5
#: The dense residual is measured against the size of the field; below this size, against this.
LEAST_SIZE = 0.1
#: Growth of the window after it passed; halvings in a row before the march gives up.
GROWTH, MOST_HALVINGS = 2.0, 8
#: Points of the trajectory kept for a window, its end included.
KEPT = 4


@dataclass(frozen=True)
class Rules:
    """Largest dense residual, relative to the field's size; flow time at which to stop, or None; length of the first
    window, or None for what the field's speed suggests.
    """

    residual_tol: float
    t_end: float | None = None
    first_window: float | None = None

    def allowed(self, size: float) -> float:
        """Largest root mean square of (h/2)(ẏ − rate) where that of (h/2)·rate is ``size``.

        Relative for short windows, which would else pass with a ẏ of 0; absolute for long ones, where the drift of
        variables towards their bounds makes the size large.
        """
        return self.residual_tol * min(1.0, LEAST_SIZE + size)

    def within(self, t: float, h: float) -> float:
        """h, or what is left of it before ``t_end``."""
        return h if self.t_end is None else max(min(h, self.t_end - t), 0.0)


@dataclass(frozen=True)
class MarchContext(QuantumContext):
    """What a march works with; ``field`` is the flow in α, integrated beside by LSODA, or None."""

    flow: LogitLotkaVolterra
    field: LotkaVolterraField | None
    window: Window
    rules: Rules


@dataclass(frozen=True)
class March:
    """Where the trajectory has got to, and the training of the window that starts there.

    Attributes
    ----------
    y : array of shape (size,)
        Start of the window in the flow's coordinates: the last state that passed its check.
    alpha, lam : array of shape (n,), float or None
        The same as α, and λ where there is an equality.
    unit : float
        The flow's, from where it started.
    t, h : float
        Flow time there, and the window's length.
    fit : Fit
        Of the window.
    first_theta : array of shape (P,)
        Angles this window's training begins with.
    iteration, halvings, rejected : int
        Iterations in this window (0: not begun); windows rejected in a row, and in all.
    resting, failed : bool
        No window follows; the last ones did not pass.
    reference : array of shape (n + 1,)
        (α, λ) at t by LSODA; NaN where that failed, or is not wanted.
    path_t, path_alpha, path_reference : arrays of shape (k,), (k, n), (k, n)
        The trajectory that passed, four points a window, and LSODA's.
    residuals : array of shape (windows, 3)
        Of each window that passed: its length, the dense residual, and what it was allowed.
    rng : dict
        State of the generator that angles are drawn from.
    account : Account
    """

    y: NDArray
    alpha: NDArray
    lam: float | None
    unit: float
    t: float
    h: float
    fit: Fit
    first_theta: NDArray
    iteration: int
    halvings: int
    rejected: int
    resting: bool
    failed: bool
    reference: NDArray
    path_t: NDArray
    path_alpha: NDArray
    path_reference: NDArray
    residuals: NDArray
    rng: dict[str, Any]
    account: Account


def begin(context: MarchContext, rng: np.random.Generator, warm: NDArray | None) -> March:
    """At the flow's start, nothing trained."""
    flow, field, circuit, rules = context.flow, context.field, context.window.circuit, context.rules
    n = context.workspace.n
    if warm is not None:
        flow = LogitLotkaVolterra(context.workspace, flow.tau, flow.damping, warm)
    theta, nowhere = rng.uniform(0.0, 2 * np.pi, circuit.n_angles), np.empty((0, n))
    fastest = speed(flow, flow.y0)
    return March(
        **_place(flow, flow.y0),
        unit=flow.unit,
        t=0.0,
        h=rules.within(0.0, rules.first_window or (1.0 / fastest if fastest > 0 else 1.0)),
        fit=Fit(theta, np.zeros((flow.size, circuit.n_qubits)), 0.0, np.inf, False),
        first_theta=theta,
        iteration=0,
        halvings=0,
        rejected=0,
        resting=False,
        failed=False,
        reference=np.full(n + 1, np.nan) if field is None else field.start(warm),
        path_t=np.empty(0),
        path_alpha=nowhere,
        path_reference=nowhere,
        residuals=np.empty((0, 3)),
        rng=generator_state(rng),
        account=Account.opened(rng),
    )


def advance(context: MarchContext, state: March) -> March:
    """A few training iterations; when they come to an end, the dense check, and the next window or half of this one.

    A window is rejected with a new draw of the angles. After eight in a row the march warns and rests.
    """
    if state.resting:
        return state
    flow, window, rules = context.flow.in_unit(state.unit), context.window, context.rules
    fit, iteration, trained = state.fit, state.iteration, False
    run = Executor(context.lab, state.account, window.circuit)
    if iteration == 0:
        fit = window.begin(run, flow, state.y, state.h, state.first_theta)
    aim = AIM * rules.allowed(0.5 * state.h * speed(flow, state.y))
    for _ in range(ITERATIONS):
        before, fit = fit.rms, window.improve(run, flow, state.y, state.h, fit)
        iteration += 1
        hopeless = iteration >= HOPELESS_AFTER and fit.rms > HOPELESS * rules.residual_tol
        slow = iteration >= HOPELESS_AFTER and fit.rms > 0.9995 * before
        trained = fit.rms <= aim or fit.stalled or slow or hopeless or iteration >= PATIENCE
        if trained:
            break
    after = replace(state, iteration=iteration, fit=fit)
    if trained:
        after = _judge(context, flow, run, after)
    return replace(after, account=run.account)


def speed(flow: Flow, y: NDArray) -> float:
    """Root mean square of the rate at one state."""
    return float(np.sqrt(np.mean(flow.rate(y[None]) ** 2)))


def _place(flow: LogitLotkaVolterra, y: NDArray) -> dict[str, Any]:
    return {"y": y, "alpha": flow.alpha(y), "lam": None if flow.e is None else flow.multiplier(y)}


def _judge(context: MarchContext, flow: LogitLotkaVolterra, run: Executor, state: March) -> March:
    y, residual, size = context.window.check(run, flow, state.y, state.h, state.fit)
    rules = context.rules
    allowed = rules.allowed(size)
    if not residual <= allowed:
        return _reject(state, residual, allowed)
    at = np.linspace(0, len(y) - 1, KEPT + 1).round().astype(int)[1:]
    alpha, t = flow.alpha(y[at]), state.t + state.h
    times = state.t + state.h * at / (len(y) - 1)
    still = np.abs(alpha[-1] - state.alpha).max() <= 1e-12 * np.abs(alpha[-1]).max()
    ended = rules.t_end is not None and t >= rules.t_end * (1 - 1e-12)
    reference = _follow(context.field, state, times)
    return replace(
        state,
        **_place(flow, y[-1]),
        t=t,
        h=rules.within(t, GROWTH * state.h),
        first_theta=state.fit.theta,
        iteration=0,
        halvings=0,
        resting=ended or bool(still),
        reference=reference[-1],
        path_t=np.append(state.path_t, times),
        path_alpha=np.vstack([state.path_alpha, alpha]),
        path_reference=np.vstack([state.path_reference, reference[:, :-1]]),
        residuals=np.vstack([state.residuals, [state.h, residual, allowed]]),
    )


def _follow(field: LotkaVolterraField | None, state: March, times: NDArray) -> NDArray:
    """(α, λ) at the times, shape (k, n + 1), by LSODA from where it was at the window's start; NaN if it fails."""
    y, t, rows = state.reference, state.t, []
    for time in times.tolist():
        if field is not None and np.isfinite(y).all():
            try:
                y = ivp_step(field.rate, t, y, time - t, method="LSODA")
            except DualflowError:
                y = np.full_like(y, np.nan)
        t = time
        rows.append(y)
    return np.array(rows)


def _reject(state: March, residual: float, allowed: float) -> March:
    halvings = state.halvings + 1
    failed = halvings >= MOST_HALVINGS
    if failed:
        warnings.warn(
            f"differentiable quantum circuit: in the window after t = {state.t:.4g}, of length {state.h:.3g}, the "
            f"residual on the dense grid is {residual:.2g} ({allowed:.2g} is allowed), at the collocation points "
            f"{state.fit.rms:.2g}; {halvings} halvings did not help. The trajectory ends there; more qubits, layers or "
            "points may help",
            stacklevel=5,
        )
    rng = generator(state.rng)
    theta = rng.uniform(0.0, 2 * np.pi, len(state.first_theta))  # the last angles may lie in a poor local minimum
    return replace(
        state,
        h=state.h if failed else 0.5 * state.h,
        first_theta=theta,
        iteration=0,
        halvings=halvings,
        rejected=state.rejected + 1,
        failed=failed,
        resting=failed,
        rng=generator_state(rng),
    )
