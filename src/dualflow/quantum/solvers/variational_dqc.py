"""The solver `variational-dqc`: the Lotka-Volterra trajectory by differentiable quantum circuits (a study).

The trajectory is cut into windows. Each is trained at its collocation points, checked on a dense grid, and accepted
only if its residual there is small.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.options import Flag, Number, OneOf, option
from ...core.problem import DualProblem
from ...core.runtime.random import generator, generator_state
from ...core.runtime.warn import warn_user
from ...core.solver import BOUNDED
from ...core.workspace import Workspace
from ...exceptions import DualflowError
from ...flows.lotka_volterra import LogitLotkaVolterra, LotkaVolterraField
from ...integrate.scipy_ivp import ivp_step
from ..circuits.chebyshev import ChebyshevCircuit
from ..runs.laboratory import Account, QuantumContext
from .base import CircuitSolver
from .dqc_model import COLLOCATIONS, Executor, Fit, Flow, Window

#: Training iterations of one step of the solver.
ITERATIONS_PER_STEP = 3
#: Largest number of training iterations of a window.
MAX_ITERATIONS = 25
#: Iterations after which a window's training may end early ...
MIN_ITERATIONS = 15
#: ... if its residual is more than this multiple of the tolerance ...
MAX_RESIDUAL_RATIO = 10.0
#: ... or falls by less than 0.05 % in an iteration.
SLOW_RATIO = 0.9995
#: Training ends at this share of the residual allowed on the dense grid.
AIM_SHARE = 0.5
#: Added to the size of the field, to which the residual on the dense grid is compared.
SIZE_OFFSET = 0.1
#: Factor of a window's length after it was accepted.
WINDOW_GROWTH = 2.0
#: Halvings in a row after which the run ends.
MAX_HALVINGS = 8
#: Points of the trajectory that are stored for a window, its end included.
POINTS_PER_WINDOW = 4

POSITIVE = Number(above=0)
POSITIVE_OR_NONE = Number(above=0, none=True)


@dataclass(frozen=True)
class Rules:
    """The tolerance and the lengths of the windows."""

    residual_tol: float  # largest residual on the dense grid, relative to the field's size
    t_end: float | None = None  # flow time at which the run ends
    first_window: float | None = None  # length of the first window; by default 1/(speed of the field)

    def allowed(self, size: float) -> float:
        """Return the largest allowed root mean square of (h/2)(ẏ − rate), where ``size`` is that of (h/2)·rate.

        The limit is relative to the size in short windows, in which ẏ = 0 would otherwise be accepted. It is absolute
        in long windows, whose size is large because variables drift towards their bounds.
        """
        return self.residual_tol * min(1.0, SIZE_OFFSET + size)

    def within(self, t: float, h: float) -> float:
        """Return h, cut so that t + h does not exceed ``t_end``."""
        return h if self.t_end is None else max(min(h, self.t_end - t), 0.0)


@dataclass(frozen=True)
class MarchContext(QuantumContext):
    """The data of a run; ``field`` is the flow in α that LSODA integrates as a reference, or None."""

    flow: LogitLotkaVolterra
    field: LotkaVolterraField | None
    window: Window
    rules: Rules


@dataclass(frozen=True)
class March:
    """The accepted trajectory, and the training of the window that continues it."""

    y: NDArray  # start of the window in the flow's coordinates, the end of the last accepted window; shape (size,)
    #: alpha, lam: α at y, and λ if there is an equality; shape (n,), float or None.
    alpha: NDArray
    lam: float | None
    unit: float  # unit of the flow's coordinates, from the start of the run
    #: t, h: flow time at y, and the window's length.
    t: float
    h: float
    fit: Fit  # training of the window
    first_theta: NDArray  # angles with which the window's training begins; shape (P,)
    #: iteration, halvings, rejected: iterations in this window (0: not begun); windows rejected in a row, and in all.
    iteration: int
    halvings: int
    rejected: int
    #: resting, failed: no window follows; the last window was rejected too often.
    resting: bool
    failed: bool
    reference: NDArray  # (α, λ) at t by LSODA; NaN if LSODA failed or is not used; shape (n + 1,)
    #: path_t, path_alpha, path_reference: the accepted trajectory, four points a window, and that of LSODA; shape (k,),
    #: (k, n), (k, n).
    path_t: NDArray
    path_alpha: NDArray
    path_reference: NDArray
    #: Length, residual on the dense grid, and allowed residual of each accepted window; shape (windows, 3).
    residuals: NDArray
    rng: dict[str, Any]  # state of the generator that angles are drawn from
    account: Account


def begin(context: MarchContext, rng: np.random.Generator, warm: NDArray | None) -> March:
    """Return the first state, at the start of the flow, untrained."""
    flow, field, circuit, rules = context.flow, context.field, context.window.circuit, context.rules
    n = context.workspace.n
    if warm is not None:
        flow = LogitLotkaVolterra(context.workspace, flow.tau, flow.damping, warm)
    theta, nowhere = rng.uniform(0.0, 2 * np.pi, circuit.n_angles), np.empty((0, n))
    fastest = speed(flow, flow.y0)
    return March(
        **_position(flow, flow.y0),
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
    """Return the state after a few training iterations.

    When a window's training ends, it is checked on the dense grid. If it is accepted, the next window follows;
    otherwise half of it, with newly drawn angles. After eight rejections in a row the run warns and ends.
    """
    if state.resting:
        return state
    flow, window, rules = context.flow.in_unit(state.unit), context.window, context.rules
    fit, iteration, trained = state.fit, state.iteration, False
    run = Executor(context.lab, state.account, window.circuit)
    if iteration == 0:
        fit = window.begin(run, flow, state.y, state.h, state.first_theta)
    aim = AIM_SHARE * rules.allowed(0.5 * state.h * speed(flow, state.y))
    for _ in range(ITERATIONS_PER_STEP):
        before, fit = fit.rms, window.improve(run, flow, state.y, state.h, fit)
        iteration += 1
        too_large = iteration >= MIN_ITERATIONS and fit.rms > MAX_RESIDUAL_RATIO * rules.residual_tol
        slow = iteration >= MIN_ITERATIONS and fit.rms > SLOW_RATIO * before
        trained = fit.rms <= aim or fit.stalled or slow or too_large or iteration >= MAX_ITERATIONS
        if trained:
            break
    after = replace(state, iteration=iteration, fit=fit)
    if trained:
        after = _checked(context, flow, run, after)
    return replace(after, account=run.account)


def speed(flow: Flow, y: NDArray) -> float:
    """Return the root mean square of the rate at one state."""
    return float(np.sqrt(np.mean(flow.rate(y[None]) ** 2)))


def _position(flow: LogitLotkaVolterra, y: NDArray) -> dict[str, Any]:
    """Return the fields of a state that depend on y."""
    return {"y": y, "alpha": flow.alpha(y), "lam": None if flow.e is None else flow.multiplier(y)}


def _checked(context: MarchContext, flow: LogitLotkaVolterra, run: Executor, state: March) -> March:
    """Return the state after the check of a trained window: the next window, or half of this one."""
    y, residual, size = context.window.check(run, flow, state.y, state.h, state.fit)
    rules = context.rules
    allowed = rules.allowed(size)
    if not residual <= allowed:
        return _reject(state, residual, allowed)
    at = np.linspace(0, len(y) - 1, POINTS_PER_WINDOW + 1).round().astype(int)[1:]
    alpha, t = flow.alpha(y[at]), state.t + state.h
    times = state.t + state.h * at / (len(y) - 1)
    still = np.abs(alpha[-1] - state.alpha).max() <= 1e-12 * np.abs(alpha[-1]).max()
    ended = rules.t_end is not None and t >= rules.t_end * (1 - 1e-12)
    reference = _reference_path(context.field, state, times)
    return replace(
        state,
        **_position(flow, y[-1]),
        t=t,
        h=rules.within(t, WINDOW_GROWTH * state.h),
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


def _reference_path(field: LotkaVolterraField | None, state: March, times: NDArray) -> NDArray:
    """Return (α, λ) by LSODA at the given times, shape (k, n + 1), NaN if it fails."""
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
    """Return the state with half of its window, or the final state after too many halvings."""
    halvings = state.halvings + 1
    failed = halvings >= MAX_HALVINGS
    if failed:
        warn_user(
            f"differentiable quantum circuit: in the window after t = {state.t:.4g}, of length {state.h:.3g}, the "
            f"residual on the dense grid is {residual:.2g} ({allowed:.2g} is allowed), at the collocation points "
            f"{state.fit.rms:.2g}; {halvings} halvings did not help. The trajectory ends there; more qubits, layers or "
            "points may help"
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


@dataclass(frozen=True)
class VariationalDQC(CircuitSolver[MarchContext, March]):
    """Differentiable quantum circuits for the Lotka-Volterra trajectory, trained by collocation (a study).

    After Kyriienko, Paine, Elfving (PRA 103, 052416 (2021)), with two changes without which it does not reach the
    optimum. The flow is followed in logit coordinates, in which the bounds are no fixed points; and it is cut into
    windows, each of which starts at the end of the last. A window is accepted only if its residual on a uniform grid
    ten times denser than the collocation points, measured by further circuits, is at most ``residual_tol`` of the
    field; otherwise it is halved. After 8 halvings in a row the solver warns and ends, and reports it in
    ``provenance["residual_check"]``.

    One circuit of q qubits serves all variables: α is read from ⟨Z_j⟩ through trained weights of shape (n, q).
    Classical parts: the field (a product with Q at every collocation point), the least squares, weights, and windows.
    A training iteration costs (2qL + 1)(q(q + 1) + 1) circuits, 1029 with the defaults, and 21 for each trial step; a
    dense check costs 10·points·(2q + 1), 1440. At n = 16 and C = 100 it did not reach the optimum in 60 s, which is the
    reason for ``max_n``.
    The expectation values are trigonometric polynomials of degree q(q + 1)/2, which a classical computer fits
    directly: no advantage is claimed. Distributions must be exact; there is no option ``shots``.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 4 qubits, 18 CX and depth 48 a circuit at n = 8, CX
    the same at every n; by the model, 980 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
        Any device of `dualflow.list_devices` that gives exact distributions; "emulator" and
        "pennylane:default.qubit" compute a batch of circuits together, many times faster.
    n_qubits, layers : int
        q and L of `ChebyshevCircuit`.
    points : int ≥ 3
        Number of collocation points of a window.
    collocation : {"chebyshev-lobatto", "uniform"}
        "uniform" leads to spurious solutions more often; it is for comparison.
    tau : float > 0
        Time scale of λ, as for `LotkaVolterra`.
    damping : float ≥ 0, optional
        ϱ of the augmented fitness; max Qᵢᵢ by default.
    residual_tol : float > 0
        Root mean square residual on the dense grid, relative to that of the field.
    first_window : float, optional
        Length of the first window; 1 / (root mean square growth rate at the start) by default.
    t_end : float, optional
        Flow time at which to stop; by default when α no longer moves.
    reference : bool, default=True
        Integrate the same trajectory by LSODA, for ``extras["path_reference"]``; it does not enter α.
    journal : str or Path, optional
        See `CircuitSolver`.

    Raises
    ------
    ProblemError
        An option is out of range, or shots are requested.
    DeviceError, SolverUnavailable
        Raised by `open`: the device is not known, lacks a capability that the options need, or is not installed.

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
    first_window: float | None = option(None, POSITIVE_OR_NONE)
    t_end: float | None = option(None, POSITIVE_OR_NONE)
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

    def finished(self, state: March) -> bool:
        return state.resting

    def time(self, state: March) -> float | None:
        return state.t

    def multiplier(self, state: March) -> float | None:
        return state.lam

    def circuit(self, context: MarchContext, state: March) -> ChebyshevCircuit:
        return context.window.circuit

    def extras(self, context: MarchContext, state: March) -> dict[str, NDArray]:
        """Return the accepted trajectory, LSODA's at the same times, and (h, residual, allowed) of each window."""
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
