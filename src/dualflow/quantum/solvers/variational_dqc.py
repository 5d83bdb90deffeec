"""The Lotka-Volterra trajectory as a differentiable quantum circuit, window after window (a study).

A trajectory window by window: each is trained, read on a dense grid, and counts only if it passes there.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.options import Flag, Number, OneOf, option
from ...core.problem import DualProblem
from ...core.runtime.random import generator, generator_state
from ...core.solver import BOUNDED
from ...core.workspace import Workspace
from ...exceptions import DualflowError
from ...flows.lotka_volterra import LogitLotkaVolterra, LotkaVolterraField
from ...integrate.scipy_ivp import ivp_step
from ..circuits import ChebyshevCircuit
from ..runs.laboratory import Account, QuantumContext
from .base import CircuitSolver
from .dqc_model import COLLOCATIONS, Executor, Fit, Flow, Window

__all__ = ["March", "MarchContext", "Rules", "VariationalDQC", "advance", "begin"]


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


POSITIVE = Number(above=0)
LENGTH = Number(above=0, none=True)


@dataclass(frozen=True)
class VariationalDQC(CircuitSolver[MarchContext, March]):
    """Differentiable quantum circuits for the Lotka-Volterra trajectory, trained by collocation (a study).

    After Kyriienko, Paine, Elfving (PRA 103, 052416 (2021)), with two changes that let it come to rest. The flow is
    followed in logit coordinates, where the bounds are no rest points; and it is cut into windows, each
    trained from the end of the last. A window counts only if its residual on a uniform grid ten times denser than
    the collocation points, read off by circuits of its own, is within ``residual_tol`` of the field; else it is halved.
    After 8 halvings in a row the solver warns, rests where it is, and says so in ``provenance["residual_check"]``.

    One circuit of q qubits serves all variables: α is read from ⟨Z_j⟩ through trained weights of shape (n, q).
    Classical: the field (a product with Q at every collocation point), the least squares, weights, and windows.
    A training iteration costs (2qL + 1)(q(q + 1) + 1) circuits, 1029 with the defaults, and 21 for each trial step; a
    dense check costs 10·points·(2q + 1), 1440. At n = 16 and C = 100 it did not come to rest in 60 s: hence ``max_n``.
    The expectation values are trigonometric polynomials of degree q(q + 1)/2, which a classical computer fits
    directly: no advantage is claimed. Distributions must be exact; there is no option ``shots``.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 4 qubits, 18 CX and depth 48 a circuit at n = 8, CX
    the same at every n; by the model, 980 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
        Any device of `dualflow.list_devices` that gives exact distributions; "emulator" and
        "pennylane:default.qubit" run a batch as one, many times faster.
    n_qubits, layers : int
        q and L of `ChebyshevCircuit`.
    points : int ≥ 3
        Collocation points of a window.
    collocation : {"chebyshev-lobatto", "uniform"}
        Uniform points find spurious solutions more easily; here to be shown.
    tau : float > 0
        Time scale of λ, as for `LotkaVolterra`.
    damping : float ≥ 0, optional
        ϱ of the augmented fitness; max Qᵢᵢ by default.
    residual_tol : float > 0
        Root mean square residual on the dense grid, relative to that of the field.
    first_window : float, optional
        Length of the first window; 1 / (root mean square growth rate at the start) by default.
    t_end : float, optional
        Flow time at which to stop; to rest otherwise.
    reference : bool, default=True
        Follow the same trajectory by LSODA beside, for ``extras["path_reference"]``; it never enters α.
    journal : str or Path, optional
        See `CircuitSolver`.

    Raises
    ------
    ProblemError
        An option is out of range, or shots are asked for.
    DeviceError, SolverUnavailable
        From `open`: the device is not known, cannot do what is asked, or is not installed.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))  # the ball around a line of points
    >>> solution = solve(problem, "variational-dqc", device="emulator", random_state=0)
    >>> round(solution.certificate.radius, 2)
    1.5
    """

    n_qubits: int = option(4, Number(at_least=1, whole=True))
    layers: int = option(6, Number(at_least=1, whole=True))
    points: int = option(16, Number(at_least=3, whole=True))
    collocation: str = option(COLLOCATIONS[0], OneOf(words=COLLOCATIONS))
    tau: float = option(1.0, POSITIVE)
    damping: float | None = option(None, Number(at_least=0, none=True))
    residual_tol: float = option(1e-2, POSITIVE)
    first_window: float | None = option(None, LENGTH)
    t_end: float | None = option(None, LENGTH)
    reference: bool = option(True, Flag())

    state_type: ClassVar[type] = March

    name: ClassVar[str] = "variational-dqc"
    reaches: ClassVar[str] = "1e-4; exact distributions only"
    kinds = BOUNDED
    maturity: ClassVar[str] = "study"
    max_n: ClassVar[int | None] = 12
    exact_method: ClassVar[str] = (
        "exact: windows are trained on expectation values; the answer is the end of the last one"
    )
    without_shots: ClassVar[str] = (
        "differentiates exact expectation values and takes no shots; leave shots out, or use 'variational-flow'"
    )

    def open(self, problem: DualProblem, workspace: Workspace) -> MarchContext:
        workspace.dense()
        damping = float(workspace.diag().max()) if self.damping is None else self.damping
        circuit = ChebyshevCircuit(int(self.n_qubits), int(self.layers))
        return MarchContext(
            workspace,
            self.laboratory(problem),
            flow=LogitLotkaVolterra(workspace, self.tau, damping),
            field=LotkaVolterraField(workspace, self.tau, damping) if self.reference else None,
            window=Window(circuit, int(self.points), self.collocation),
            rules=Rules(self.residual_tol, self.t_end, self.first_window),
        )

    def start(self, context: MarchContext, rng: np.random.Generator, warm: NDArray | None = None) -> March:
        return begin(context, rng, warm)

    def step(self, context: MarchContext, state: March) -> March:
        return advance(context, state)

    def alpha(self, state: March) -> NDArray:
        return state.alpha

    def finished(self, state: March) -> bool:
        return state.resting

    def time(self, state: March) -> float | None:
        return state.t

    def multiplier(self, state: March) -> float | None:
        return state.lam

    def circuit(self, context: MarchContext, state: March) -> ChebyshevCircuit:
        return context.window.circuit

    def extras(self, context: MarchContext, state: March) -> dict[str, NDArray]:
        """The trajectory that passed, LSODA's at the same times, and of each window (h, residual, allowed)."""
        found = {"path_t": state.path_t, "path_alpha": state.path_alpha, "window_residuals": state.residuals}
        return found | ({"path_reference": state.path_reference} if self.reference else {})

    def provenance(self, context: MarchContext, state: March) -> dict[str, Any]:
        windows, error = len(state.residuals), np.abs(state.path_alpha - state.path_reference)
        check = f"passed in all {windows} windows up to t = {state.t:.6g}"
        if state.failed:
            check = f"FAILED in the window after t = {state.t:.6g}, down to length {state.h:.3g}; {check}"
        return super().provenance(context, state) | {
            "residual_check": check,
            "windows": windows,
            "rejected_windows": state.rejected,
            "largest_error_against_lsoda": float(error.max()) if self.reference and error.size else None,
        }
