"""The Lotka-Volterra trajectory as a differentiable quantum circuit, window after window (a study)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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
from ..quantum.engines.dqc_march import March, Rules, advance, speed
from ..quantum.engines.variational_dqc import COLLOCATIONS, Window
from .base import BOUNDED, Solver, generator_state

__all__ = ["VariationalDQC"]


@dataclass(frozen=True)
class VariationalDQC(Solver):
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
    residual_tol: float = 1e-2
    first_window: float | None = None
    t_end: float | None = None
    reference: bool = True

    name: ClassVar[str] = "variational-dqc"
    reaches: ClassVar[str] = "1e-4; exact distributions only"
    kinds = BOUNDED
    maturity: ClassVar[str] = "study"
    requires: ClassVar[tuple[str, ...]] = ("qiskit", "pennylane")
    max_n: ClassVar[int | None] = 12
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

    def start(self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None) -> March:
        problem.dense()  # before any product: with Q at hand products round differently, and runs are repeatable
        flow = LogitLotkaVolterra(problem, self.tau, self._damping(problem), warm)
        circuit = ChebyshevCircuit(int(self.n_qubits), int(self.layers))
        theta, nowhere = rng.uniform(0.0, 2 * np.pi, circuit.n_angles), np.empty((0, problem.n))
        fastest = speed(flow, flow.y0)
        reference = self._field(problem).start(warm)
        return March(
            y=flow.y0,
            t=0.0,
            h=self._rules.within(0.0, self.first_window or (1.0 / fastest if fastest > 0 else 1.0)),
            theta=theta,
            weights=np.zeros((flow.size, circuit.n_qubits)),
            damping=0.0,
            rms=np.inf,
            stalled=False,
            first_theta=theta,
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
            rng=generator_state(rng),
            flow=flow,
            device=make_device(self.device),
            window=Window(circuit, int(self.points), self.collocation),
        )

    def step(self, problem: DualProblem, state: March) -> March:
        if state.resting:
            return state
        after = advance(state, self._rules)
        if len(after.path_t) == len(state.path_t):
            return after
        references = self._references(problem, state, after.path_t[len(state.path_t) :])
        path = np.vstack([state.path_reference, references[:, :-1]])
        return replace(after, reference=references[-1], path_reference=path)

    def alpha(self, state: March) -> NDArray:
        return state.flow.alpha(state.y)

    def finished(self, state: March) -> bool:
        return state.resting

    def time(self, state: March) -> float | None:
        return state.t

    def multiplier(self, state: March) -> float | None:
        flow = state.flow
        return flow.multiplier(state.y) if isinstance(flow, LogitLotkaVolterra) and flow.e is not None else None

    def cost(self, state: March) -> dict[str, float | int | None]:
        resources = state.device.resources(state.window.circuit)
        return {
            "circuits": state.circuits,
            "device_time_s": state.device_time_s,
            "qubits": resources.qubits,
            "depth": resources.depth,
            "two_qubit_gates": resources.two_qubit_gates,
        }

    def extras(self, state: March) -> dict[str, NDArray]:
        """The trajectory that passed, LSODA's at the same times, and of each window (h, residual, allowed)."""
        found = {"path_t": state.path_t, "path_alpha": state.path_alpha, "window_residuals": state.residuals}
        return found | ({"path_reference": state.path_reference} if self.reference else {})

    def provenance(self, state: March) -> dict[str, Any]:
        windows, error = len(state.residuals), np.abs(state.path_alpha - state.path_reference)
        check = f"passed in all {windows} windows up to t = {state.t:.6g}"
        if state.failed:
            check = f"FAILED in the window after t = {state.t:.6g}, down to length {state.h:.3g}; {check}"
        return {
            "device": state.device.name,
            "circuit": state.window.circuit.name,
            "residual_check": check,
            "windows": windows,
            "rejected_windows": state.rejected,
            "largest_error_against_lsoda": float(error.max()) if self.reference and error.size else None,
        }

    # --- the flow ------------------------------------------------------------------------------

    @property
    def _rules(self) -> Rules:
        return Rules(self.residual_tol, self.t_end)

    def _damping(self, problem: DualProblem) -> float:
        return float(problem.diag().max()) if self.damping is None else self.damping

    def _field(self, problem: DualProblem) -> LotkaVolterraField:
        return LotkaVolterraField(problem, self.tau, self._damping(problem))

    def _references(self, problem: DualProblem, state: March, times: NDArray) -> NDArray:
        """(α, λ) at the times, shape (k, n + 1), by LSODA from where it was at the window's start; NaN if it fails."""
        rate, y, t, rows = self._field(problem).rate, state.reference, state.t, []
        for time in times.tolist():
            if np.isfinite(y).all():
                try:
                    y = ivp_step(rate, t, y, time - t, method="LSODA")
                except DualflowError:
                    y = np.full_like(y, np.nan)
            t = time
            rows.append(y)
        return np.array(rows)
