"""The Lotka-Volterra trajectory as a differentiable quantum circuit, window after window (a study)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ..exceptions import DualflowError, ProblemError
from ..flows.logit_lotka_volterra import LogitLotkaVolterra
from ..flows.lotka_volterra import LotkaVolterraField
from ..integrate.scipy_ivp import ivp_step
from ..quantum.circuits import ChebyshevCircuit
from ..quantum.devices import Device, make_device
from ..quantum.dqc import COLLOCATIONS, Executor, Fit, Window
from .base import BOUNDED, Solver

__all__ = ["VariationalDQC"]

#: Training iterations a step of the driver, and in all for one window.
ITERATIONS_A_STEP, PATIENCE = 3, 40
#: A window is given up early if it is this many times above the tolerance after so many iterations.
HOPELESS, HOPELESS_AFTER = 10.0, 15
#: Training aims at this share of what the dense grid is allowed.
AIM = 0.1
#: The dense residual is measured against the size of the field; below this size, against this.
LEAST_SIZE = 0.1
#: Growth of the window after it passed; halvings in a row before the solver gives up.
GROWTH, MOST_HALVINGS = 2.0, 8
#: Points of the trajectory kept for a window, its end included.
KEPT = 4


@dataclass(frozen=True)
class VariationalDQCState:
    """Where the trajectory has got to, and the training of the window that starts there.

    Attributes
    ----------
    y : array of shape (size,)
        Start of the window in the coordinates of `LogitLotkaVolterra`: the last state that passed its check.
    t, h : float
        Flow time there, and the window's length.
    theta, weights, damping, rms, stalled
        The window's `Fit`.
    theta_before : array of shape (P,)
        Angles the training of this window began with.
    iteration, halvings : int
        Iterations in this window (0: not begun); rejected windows in a row.
    rejected : int
        Windows the dense grid rejected, in all.
    resting, failed : bool
        No window follows; the last ones did not pass the dense grid.
    reference : array of shape (n + 1,)
        (α, λ) at t by LSODA, from the same start; NaN if not asked for or if it gave up.
    path_t, path_alpha, path_reference : arrays of shape (k,), (k, n), (k, n)
        The trajectory that passed, and LSODA's.
    residuals : array of shape (windows, 3)
        Of each window that passed: its length, the dense residual, and what it was allowed.
    """

    y: NDArray
    t: float
    h: float
    theta: NDArray
    weights: NDArray
    damping: float
    rms: float
    stalled: bool
    theta_before: NDArray
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
    flow: LogitLotkaVolterra = field(repr=False, metadata={"saved": False})
    device: Device = field(repr=False, metadata={"saved": False})
    window: Window = field(repr=False, metadata={"saved": False})

    @property
    def fit(self) -> Fit:
        return Fit(self.theta, self.weights, self.damping, self.rms, self.stalled)


@dataclass(frozen=True)
class VariationalDQC(Solver):
    """Differentiable quantum circuits for the Lotka-Volterra trajectory, trained by collocation (a study).

    After Kyriienko, Paine, Elfving (PRA 103, 052416 (2021)), with two changes without which it failed at n = 8. The
    flow is followed in logit coordinates, where the bounds are no rest points; and it is cut into windows, each
    trained from the end of the last. A window counts only if its residual on a uniform grid ten times denser than
    the collocation points, read off by circuits of its own, is within ``residual_tol`` of the field; else it is halved.
    After 8 halvings in a row the solver warns, rests where it is, and says so in ``provenance["residual_check"]``.

    One circuit of q qubits serves all variables: α is read from ⟨Z_j⟩ through trained weights of shape (n, q).
    Classical: the field (a product with Q at every collocation point), the least squares, weights, and windows.
    A training iteration costs (2qL + 1)(q(q + 1) + 1) circuits, 1029 with the defaults, a dense check 10·points·(2q + 1).
    The expectation values are trigonometric polynomials of degree q(q + 1)/2, which a classical computer fits
    directly: no advantage is claimed. Distributions must be exact; there is no option ``shots``.

    Parameters
    ----------
    device : str or Device, default="pennylane:default.qubit"
        Any device of `dualflow.list_devices` that gives exact distributions; default.qubit runs a batch as one.
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

    Raises
    ------
    ProblemError
        An option is out of range, or shots are asked for.
    DeviceError, SolverUnavailable
        From `start`: the device is not known, cannot do what is asked, or is not installed.
    """

    device: str | Device = "pennylane:default.qubit"
    n_qubits: int = 4
    layers: int = 6
    points: int = 16
    collocation: str = "chebyshev-lobatto"
    tau: float = 1.0
    damping: float | None = None
    residual_tol: float = 3e-3
    first_window: float | None = None
    t_end: float | None = None
    reference: bool = True

    name: ClassVar[str] = "variational-dqc"
    kinds = BOUNDED
    maturity: ClassVar[str] = "study"
    requires: ClassVar[tuple[str, ...]] = ("qiskit", "pennylane")
    max_n: ClassVar[int | None] = 24
    quantum: ClassVar[bool] = True
    default_max_steps: ClassVar[int] = 1000

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        if options.get("shots") is not None:
            raise ProblemError(
                f"shots={options['shots']!r}: {cls.name!r} differentiates exact expectation values and takes no shots; "
                "leave shots out, or use 'variational-flow'"
            )
        return super().from_options({name: value for name, value in options.items() if name != "shots"})

    def __post_init__(self) -> None:
        for name, least in (("n_qubits", 1), ("layers", 1), ("points", 3)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise ProblemError(f"{name}={value!r} must be an integer ≥ {least}")
        if self.collocation not in COLLOCATIONS:
            raise ProblemError(f"collocation={self.collocation!r} is not one of {', '.join(COLLOCATIONS)}")
        for name in ("tau", "residual_tol", "first_window", "t_end"):
            value = getattr(self, name)
            if value is not None and not 0 < value < np.inf:
                raise ProblemError(f"{name}={value!r} must be finite and > 0")
        if self.damping is not None and not 0 <= self.damping < np.inf:
            raise ProblemError(f"damping={self.damping!r} must be finite and ≥ 0")

    def start(
        self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None
    ) -> VariationalDQCState:
        problem.dense()  # before any product: with Q at hand products round differently, and runs are repeatable
        flow = LogitLotkaVolterra(problem, self.tau, self._damping(problem), warm)
        circuit = ChebyshevCircuit(int(self.n_qubits), int(self.layers))
        theta, nowhere = rng.uniform(0.0, 2 * np.pi, circuit.n_angles), np.empty((0, problem.n))
        speed = float(np.sqrt(np.mean(flow.rate(flow.y0[None]) ** 2)))
        reference = LotkaVolterraField(problem, self.tau, self._damping(problem)).start(warm)
        return VariationalDQCState(
            y=flow.y0,
            t=0.0,
            h=self._within(0.0, self.first_window or (1.0 / speed if speed > 0 else 1.0)),
            theta=theta,
            weights=np.zeros((flow.size, circuit.n_qubits)),
            damping=0.0,
            rms=np.inf,
            stalled=False,
            theta_before=theta,
            iteration=0,
            halvings=0,
            rejected=0,
            resting=False,
            failed=False,
            circuits=0,
            device_time_s=0.0,
            reference=reference if self.reference else np.full_like(reference, np.nan),
            path_t=np.empty(0),
            path_alpha=nowhere,
            path_reference=nowhere,
            residuals=np.empty((0, 3)),
            flow=flow,
            device=make_device(self.device),
            window=Window(circuit, int(self.points), self.collocation),
        )

    def step(self, problem: DualProblem, state: VariationalDQCState) -> VariationalDQCState:
        if state.resting:
            return state
        flow, window, fit, iteration = state.flow, state.window, state.fit, state.iteration
        run = Executor(state.device, window.circuit)
        if iteration == 0:
            fit = window.begin(run, flow, state.y, state.h, state.theta_before)
        size = 0.5 * state.h * float(np.sqrt(np.mean(flow.rate(state.y[None]) ** 2)))
        aim, trained = AIM * self._allowed(size), False
        for _ in range(ITERATIONS_A_STEP):
            before, fit = fit.rms, window.improve(run, flow, state.y, state.h, fit)
            iteration += 1
            hopeless = iteration >= HOPELESS_AFTER and fit.rms > HOPELESS * self.residual_tol
            slow = iteration >= PATIENCE // 2 and fit.rms > 0.9995 * before
            trained = fit.rms <= aim or fit.stalled or slow or hopeless or iteration >= PATIENCE
            if trained:
                break
        after = replace(state, iteration=iteration, **vars(fit))
        if trained:
            after = self._judge(problem, after, run)
        return replace(
            after, circuits=state.circuits + run.circuits, device_time_s=state.device_time_s + run.device_time_s
        )

    def alpha(self, state: VariationalDQCState) -> NDArray:
        return state.flow.alpha(state.y)

    def finished(self, state: VariationalDQCState) -> bool:
        return state.resting

    def time(self, state: VariationalDQCState) -> float | None:
        return state.t

    def multiplier(self, state: VariationalDQCState) -> float | None:
        return None if state.flow.e is None else state.flow.multiplier(state.y)

    def cost(self, state: VariationalDQCState) -> dict[str, float | int | None]:
        resources = state.device.resources(state.window.circuit)
        return {
            "circuits": state.circuits,
            "device_time_s": state.device_time_s,
            "qubits": resources.qubits,
            "depth": resources.depth,
            "two_qubit_gates": resources.two_qubit_gates,
        }

    def extras(self, state: VariationalDQCState) -> dict[str, NDArray]:
        """The trajectory that passed, LSODA's at the same times, and the residuals of the windows."""
        found = {"path_t": state.path_t, "path_alpha": state.path_alpha, "window_residuals": state.residuals}
        return found | ({"path_reference": state.path_reference} if self.reference else {})

    def provenance(self, state: VariationalDQCState) -> dict[str, Any]:
        windows = len(state.residuals)
        check = f"passed on all {windows} windows up to t = {state.t:.6g}"
        if state.failed:
            check = f"FAILED in the window after t = {state.t:.6g}, down to length {state.h:.3g}; {check}"
        error = np.abs(state.path_alpha - state.path_reference)
        return {
            "device": state.device.name,
            "circuit": state.window.circuit.name,
            "residual_check": check,
            "windows": windows,
            "rejected_windows": state.rejected,
            "largest_error_against_lsoda": float(error.max()) if self.reference and error.size else None,
        }

    # --- windows -------------------------------------------------------------------------------

    def _judge(self, problem: DualProblem, state: VariationalDQCState, run: Executor) -> VariationalDQCState:
        """The dense grid decides: on to the next window, or the same one at half its length."""
        y, residual, size = state.window.check(run, state.flow, state.y, state.h, state.fit)
        allowed = self._allowed(size)
        if not residual <= allowed:
            failed = state.halvings + 1 >= MOST_HALVINGS
            if failed:
                warnings.warn(
                    f"{self.name!r}: the residual on the dense grid is {residual:.2g} ({allowed:.2g} is allowed) in the "
                    f"window after t = {state.t:.4g} and its {state.halvings} predecessors, {state.rms:.2g} at the "
                    f"{self.points} collocation points; it rests at t = {state.t:.4g}; more qubits, layers or points may help",
                    stacklevel=2,
                )
            h = state.h if failed else 0.5 * state.h
            halvings, rejected = state.halvings + 1, state.rejected + 1
            return replace(
                state, h=h, iteration=0, halvings=halvings, rejected=rejected, failed=failed, resting=failed
            )
        at = np.linspace(0, len(y) - 1, KEPT + 1).round().astype(int)[1:]
        times, alpha = state.t + state.h * at / (len(y) - 1), state.flow.alpha(y[at])
        references = self._references(problem, state, times)
        t, moved = state.t + state.h, np.abs(alpha[-1] - self.alpha(state)).max()
        ended = self.t_end is not None and t >= self.t_end * (1 - 1e-12)
        return replace(
            state,
            y=y[-1],
            t=t,
            h=self._within(t, GROWTH * state.h),
            theta_before=state.theta,
            iteration=0,
            halvings=0,
            resting=ended or bool(moved <= 1e-12 * np.abs(alpha[-1]).max()),
            reference=references[-1],
            path_t=np.append(state.path_t, times),
            path_alpha=np.vstack([state.path_alpha, alpha]),
            path_reference=np.vstack([state.path_reference, references[:, :-1]]),
            residuals=np.vstack([state.residuals, [state.h, residual, allowed]]),
        )

    def _allowed(self, size: float) -> float:
        return self.residual_tol * min(1.0, LEAST_SIZE + size)

    def _within(self, t: float, h: float) -> float:
        return h if self.t_end is None else max(min(h, self.t_end - t), 0.0)

    def _damping(self, problem: DualProblem) -> float:
        return float(problem.diag().max()) if self.damping is None else self.damping

    def _references(self, problem: DualProblem, state: VariationalDQCState, times: NDArray) -> NDArray:
        """(α, λ) at the times, shape (k, n + 1), by LSODA from where it was at the window's start."""
        flow, y, t, rows = LotkaVolterraField(problem, self.tau, self._damping(problem)), state.reference, state.t, []
        for time in times:
            if np.isfinite(y).all():
                try:
                    y = ivp_step(flow.rate, t, y, time - t, method="LSODA")
                except DualflowError:
                    y = np.full_like(y, np.nan)
            t = float(time)
            rows.append(y)
        return np.array(rows)
