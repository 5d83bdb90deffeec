"""A trajectory window by window: each is trained, read on a dense grid, and counts only if it passes there."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..devices import Device
from .variational_dqc import Executor, Fit, Flow, Window

__all__ = ["March", "MarchFlow", "Rules", "advance"]

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


class MarchFlow(Flow, Protocol):
    """A flow whose states are read as α."""

    def alpha(self, y: NDArray) -> NDArray: ...


@dataclass(frozen=True)
class Rules:
    """Largest dense residual, relative to the field's size; flow time at which to stop, or None."""

    residual_tol: float
    t_end: float | None = None

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
class March:
    """Where the trajectory has got to, and the training of the window that starts there.

    Attributes
    ----------
    y : array of shape (size,)
        Start of the window in the flow's coordinates: the last state that passed its check.
    t, h : float
        Flow time there, and the window's length.
    theta, weights, damping, rms, stalled
        The window's `Fit`.
    first_theta : array of shape (P,)
        Angles this window's training begins with.
    iteration, halvings, rejected : int
        Iterations in this window (0: not begun); windows rejected in a row, and in all.
    resting, failed : bool
        No window follows; the last ones did not pass.
    circuits, device_time_s
        Totals since the start.
    reference : array
        Kept for the caller: the same trajectory by other means, at t.
    path_t, path_alpha, path_reference : arrays of shape (k,), (k, n), (k, n)
        The trajectory that passed, four points a window, and the caller's reference.
    residuals : array of shape (windows, 3)
        Of each window that passed: its length, the dense residual, and what it was allowed.
    rng : dict
        State of the generator that angles are drawn from.
    flow, device, window
        Made again by the caller's start.
    """

    y: NDArray
    t: float
    h: float
    theta: NDArray
    weights: NDArray
    damping: float
    rms: float
    stalled: bool
    first_theta: NDArray
    iteration: int
    halvings: int
    rejected: int
    resting: bool
    failed: bool
    circuits: int
    device_time_s: float
    reference: NDArray
    path_t: NDArray
    path_alpha: NDArray
    path_reference: NDArray
    residuals: NDArray
    rng: dict[str, Any]
    flow: MarchFlow = field(repr=False, metadata={"saved": False})
    device: Device = field(repr=False, metadata={"saved": False})
    window: Window = field(repr=False, metadata={"saved": False})

    @property
    def fit(self) -> Fit:
        return Fit(self.theta, self.weights, self.damping, self.rms, self.stalled)


def advance(state: March, rules: Rules) -> March:
    """A few training iterations; when they come to an end, the dense check, and the next window or half of this one.

    A window is rejected with a new draw of the angles. After eight in a row the march warns and rests.
    """
    flow, window, fit, iteration = state.flow, state.window, state.fit, state.iteration
    run = Executor(state.device, window.circuit)
    if iteration == 0:
        fit = window.begin(run, flow, state.y, state.h, state.first_theta)
    aim = AIM * rules.allowed(0.5 * state.h * speed(flow, state.y))
    trained = False
    for _ in range(ITERATIONS):
        before, fit = fit.rms, window.improve(run, flow, state.y, state.h, fit)
        iteration += 1
        hopeless = iteration >= HOPELESS_AFTER and fit.rms > HOPELESS * rules.residual_tol
        slow = iteration >= HOPELESS_AFTER and fit.rms > 0.9995 * before
        trained = fit.rms <= aim or fit.stalled or slow or hopeless or iteration >= PATIENCE
        if trained:
            break
    after = replace(state, iteration=iteration, **vars(fit))
    if trained:
        after = _judge(after, rules, run)
    return replace(after, circuits=state.circuits + run.circuits, device_time_s=state.device_time_s + run.device_time_s)


def speed(flow: Flow, y: NDArray) -> float:
    """Root mean square of the rate at one state."""
    return float(np.sqrt(np.mean(flow.rate(y[None]) ** 2)))


def _judge(state: March, rules: Rules, run: Executor) -> March:
    y, residual, size = state.window.check(run, state.flow, state.y, state.h, state.fit)
    allowed = rules.allowed(size)
    if not residual <= allowed:
        return _reject(state, residual, allowed)
    at = np.linspace(0, len(y) - 1, KEPT + 1).round().astype(int)[1:]
    alpha, t = state.flow.alpha(y[at]), state.t + state.h
    still = np.abs(alpha[-1] - state.flow.alpha(state.y)).max() <= 1e-12 * np.abs(alpha[-1]).max()
    ended = rules.t_end is not None and t >= rules.t_end * (1 - 1e-12)
    return replace(
        state,
        y=y[-1],
        t=t,
        h=rules.within(t, GROWTH * state.h),
        first_theta=state.theta,
        iteration=0,
        halvings=0,
        resting=ended or bool(still),
        path_t=np.append(state.path_t, state.t + state.h * at / (len(y) - 1)),
        path_alpha=np.vstack([state.path_alpha, alpha]),
        residuals=np.vstack([state.residuals, [state.h, residual, allowed]]),
    )


def _reject(state: March, residual: float, allowed: float) -> March:
    halvings = state.halvings + 1
    failed = halvings >= MOST_HALVINGS
    if failed:
        warnings.warn(
            f"differentiable quantum circuit: in the window after t = {state.t:.4g}, of length {state.h:.3g}, the "
            f"residual on the dense grid is {residual:.2g} ({allowed:.2g} is allowed), at the collocation points "
            f"{state.rms:.2g}; {halvings} halvings did not help. The trajectory ends there; more qubits, layers or "
            "points may help",
            stacklevel=5,
        )
    rng = np.random.Generator(getattr(np.random, state.rng["bit_generator"])())
    rng.bit_generator.state = dict(state.rng)
    theta = rng.uniform(0.0, 2 * np.pi, len(state.theta))  # the last angles may lie in a poor local minimum
    return replace(
        state,
        h=state.h if failed else 0.5 * state.h,
        first_theta=theta,
        iteration=0,
        halvings=halvings,
        rejected=state.rejected + 1,
        failed=failed,
        resting=failed,
        rng=dict(rng.bit_generator.state),
    )
