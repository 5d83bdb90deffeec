"""The simplex flow on a parametrised quantum state: semi-implicit natural gradient, one circuit a step."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..exceptions import DeviceError, ProblemError
from ..quantum.circuits import TreeCircuit
from ..quantum.devices import Device, check_shots, make_device
from ..quantum.encoding import angles_to_simplex, free_angles, pad, qubits_for, simplex_to_angles
from .base import Solver, generator, generator_state

__all__ = ["VariationalFlow"]

#: In exact mode no angle comes nearer to 0 or π: a leaf of mass sin²(θ/2) = 0 could never grow again.
LEAST_ANGLE = 1e-5
#: Largest change of an angle in a step, from exact distributions and from counts.
CLIP_EXACT, CLIP_SAMPLED = 0.8, 0.4
#: With shots: growth of h a step, and its largest value in units of 1 / max Qᵢᵢ.
GROWTH_SAMPLED, LARGEST_STEP = 1.3, 200.0
#: With shots: step k of the second half is scaled by k^−0.6, so that the shot noise of its circuits averages out
#: (Robbins and Monro 1951; the exponent must lie in (½, 1]).
AVERAGING = 0.6
#: Job ids kept in a state.
JOBS_KEPT = 10


@dataclass(frozen=True)
class VariationalFlowState:
    """Angles, what was measured at them, and the controls of the step.

    Attributes
    ----------
    theta : array of shape (N−1,)
        Tree angles in [0, π], N = 2^q; those that lead to padding are 0.
    pi : array of shape (N,)
        The distribution measured at ``theta``, little-endian.
    shots_of_pi : int
        Shots behind ``pi``; 0 for an exact one.
    h : float
        Step size to try next, in units of flow time.
    flow_time : float
        Sum of the steps taken.
    steps : int
        Steps tried, rejected ones included.
    resting : bool
        No step is left that lowers f (exact), or the budget of steps is spent (shots).
    measured_finally : bool
        ``pi`` is the read-out with ``final_shots``, or none was asked for.
    circuits, shots, device_time_s
        Totals since the start; seconds inside submit and result.
    job_ids : sequence of str
        The last jobs, newest last.
    rng : dict
        State of the generator that the devices' seeds are drawn from.
    device, circuit
        Made again by `VariationalFlow.start`.
    """

    theta: NDArray
    pi: NDArray
    shots_of_pi: int
    h: float
    flow_time: float
    steps: int
    resting: bool
    measured_finally: bool
    circuits: int
    shots: int
    device_time_s: float
    total: float
    n: int
    job_ids: list[str]
    rng: dict[str, Any]
    device: Device = field(repr=False, metadata={"saved": False})
    circuit: TreeCircuit = field(repr=False, metadata={"saved": False})


@dataclass(frozen=True)
class VariationalFlow(Solver):
    """Natural-gradient flow of a quantum state over the simplex, hybrid, one circuit a step.

    The state ψ(θ) = √μ(θ) is prepared by the tree circuit on ⌈log₂ n⌉ qubits and measured: π. Everything else is
    classical: F = ∇f = Qπ − p, the tangents dP = ∂π/∂θ from the masses of π's own subtrees, and the step

        (A/h + G + εI) δ = b,   A = dPᵀ diag(1/(π + 1/shots)) dP,   G = dPᵀ Q dP,   b = −dPᵀ(F − πᵀF),

    which is a linearised implicit Euler step of A θ̇ = b. A is the full Fisher matrix, diagonal for the tree, so
    the flow is the replicator μ̇ = −μ∘(F − ⟨F⟩) of Helmke and Moore (Bauckhage eq. 3), that is, imaginary time
    ψ̇ = −½(F − ⟨F⟩)ψ by McLachlan's principle. The tree has n − 1 angles for n unknowns and Q is applied
    classically in O(n²): no speed-up over classical solvers is claimed.

    From exact distributions a step is taken only if f falls (then h doubles, else h/4); with counts every step is
    taken, h grows slowly, and the second half of the steps is damped so that shot noise averages out.
    α is the distribution measured in the final state; μ(θ), known from the angles and far less noisy, is the
    classical by-product ``extras["parameter_alpha"]``.

    Parameters
    ----------
    device : str or Device, default="aer"
        A name of `dualflow.list_devices`, or an instance.
    shots : int, optional
        Of each circuit; None asks the device for exact distributions.
    ansatz : {"tree"}
    final_shots : int, optional
        Of the final state's own circuit, when the run ends by its budget of steps; ``shots`` by default.
    steps : int, default=40
        With shots: steps, and circuits apart from the first and the final one, until the solver rests.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        From `start`: the device is not known, cannot do what is asked, or is not installed.
    """

    device: str | Device = "aer"
    shots: int | None = None
    ansatz: str = "tree"
    final_shots: int | None = None
    steps: int = 40

    name: ClassVar[str] = "variational-flow"
    kinds = frozenset({Kind.SIMPLEX})
    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    max_n: ClassVar[int | None] = 4096
    quantum: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_shots(self.shots)
        check_shots(self.final_shots, "final_shots")
        if self.final_shots is not None and self.shots is None:
            raise ProblemError("final_shots needs shots; with shots=None every distribution is exact")
        if self.ansatz == "hardware-efficient":
            raise ProblemError("ansatz='hardware-efficient' is not built yet; use ansatz='tree'")
        if self.ansatz != "tree":
            raise ProblemError(f"ansatz={self.ansatz!r} is not known; use ansatz='tree'")
        if isinstance(self.steps, bool) or not isinstance(self.steps, (int, np.integer)) or self.steps < 1:
            raise ProblemError(f"steps={self.steps!r} must be an integer ≥ 1")

    def start(
        self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None
    ) -> VariationalFlowState:
        problem.dense()  # before any product: with Q at hand products round differently, and runs are repeatable
        n, circuit = problem.n, TreeCircuit(qubits_for(problem.n))
        mu = np.full(n, 1.0 / n) if warm is None else np.maximum(warm, 0.0)
        free = free_angles(n, circuit.n_qubits)
        theta = self._within(simplex_to_angles(pad(mu, circuit.n_qubits), n), free)
        largest = max(float(problem.diag().max()), float(np.ptp(problem.p)))
        state = VariationalFlowState(
            theta=theta,
            pi=np.empty(0),
            shots_of_pi=0,
            h=1.0 / (problem.d * largest) if largest > 0 else 1.0,
            flow_time=0.0,
            steps=0,
            resting=not free.any(),
            measured_finally=self.final_shots is None,
            circuits=0,
            shots=0,
            device_time_s=0.0,
            total=problem.d,
            n=n,
            job_ids=[],
            rng=generator_state(rng),
            device=make_device(self.device),
            circuit=circuit,
        )
        return self._measure(state, theta, self.shots)

    def step(self, problem: DualProblem, state: VariationalFlowState) -> VariationalFlowState:
        if state.resting:
            return replace(self._measure(state, state.theta, self.final_shots), measured_finally=True)
        delta = self._direction(problem, state)
        trial = self._within(state.theta + delta, free_angles(state.n, state.circuit.n_qubits))
        moved = replace(
            self._measure(state, trial, self.shots), flow_time=state.flow_time + state.h, steps=state.steps + 1
        )
        if self.shots is not None:
            largest = LARGEST_STEP / max(float(problem.diag().max()) * problem.d, np.finfo(float).tiny)
            h = min(state.h * GROWTH_SAMPLED, max(largest, state.h))
            return replace(moved, h=h, resting=moved.steps >= self.steps)
        if problem.objective(self._flowing(moved) * state.total) < problem.objective(
            self._flowing(state) * state.total
        ):
            return replace(moved, h=2.0 * state.h)
        # A rejected trial costs its circuit and leaves the state where it was; once the trial is that near,
        # what is left of f's fall is below round-off.
        rejected = replace(moved, theta=state.theta, pi=state.pi, shots_of_pi=0, flow_time=state.flow_time)
        return replace(rejected, h=0.25 * state.h, resting=bool(np.abs(trial - state.theta).max() < 1e-9))

    def alpha(self, state: VariationalFlowState) -> NDArray:
        return state.total * state.pi[: state.n]

    def finished(self, state: VariationalFlowState) -> bool:
        return state.resting and state.measured_finally

    def time(self, state: VariationalFlowState) -> float | None:
        return state.flow_time

    def cost(self, state: VariationalFlowState) -> dict[str, float | int | None]:
        resources = state.device.resources(state.circuit)
        return {
            "circuits": state.circuits,
            "shots": state.shots,
            "device_time_s": state.device_time_s,
            "qubits": resources.qubits,
            "depth": resources.depth,
            "two_qubit_gates": resources.two_qubit_gates,
            "success_probability": None,
        }

    def extras(self, state: VariationalFlowState) -> dict[str, NDArray]:
        """``parameter_alpha``: d·μ(θ), computed from the angles and not measured."""
        return {"parameter_alpha": state.total * angles_to_simplex(state.theta)[: state.n]}

    def provenance(self, state: VariationalFlowState) -> dict[str, Any]:
        outcomes = len(state.pi)
        padding = f"{state.n} variables padded with {outcomes - state.n} leaves of probability 0 to {outcomes}"
        return {
            "device": state.device.name,
            "ansatz": self.ansatz,
            "circuit": state.circuit.name,
            "padded_size": outcomes,
            "padding": padding if outcomes > state.n else "none",
            "job_ids": list(state.job_ids),
        }

    def accuracy_class(self) -> str:
        return self.accuracy if self.shots is None else "sampled"

    # --- the step ------------------------------------------------------------------------------

    def _direction(self, problem: DualProblem, state: VariationalFlowState) -> NDArray:
        """δ of shape (N−1,), clipped; 0 for the angles that lead to padding."""
        n, shots, sampled = state.n, state.shots_of_pi, state.shots_of_pi > 0
        pi = self._flowing(state)
        F = problem.gradient(state.total * pi)
        # One more shot, spread evenly: from zero counts alone a leaf would look dead and could not come back.
        smooth = (pi * shots + 1.0 / n) / (shots + 1.0) if sampled else pi
        free = np.flatnonzero(free_angles(n, state.circuit.n_qubits))
        dP = state.circuit.tangents(pad(smooth, state.circuit.n_qubits))[:n][:, free]
        weights = 1.0 / (smooth + (1.0 / shots if sampled else np.finfo(float).tiny))
        A = (dP.T @ (dP * weights[:, None])).toarray()
        G = state.total * (dP.T @ (problem.dense() @ dP))
        b = -(dP.T @ (F - pi @ F))
        M = A / state.h + G
        epsilon = 1e-2 * np.sqrt(1000.0 / shots) if sampled else 1e-11
        M[np.diag_indices(len(free))] += epsilon * np.trace(M) / len(free) + np.finfo(float).tiny
        step = np.linalg.solve(M, b)
        if sampled:
            step *= max(1, state.steps - self.steps // 2 + 1) ** -AVERAGING
        clip = CLIP_SAMPLED if sampled else CLIP_EXACT
        delta = np.zeros_like(state.theta)
        delta[free] = np.clip(step, -clip, clip)
        return delta

    def _within(self, theta: NDArray, free: NDArray) -> NDArray:
        """θ with its free angles in [0, π], where √μ ≥ 0 and μ ↦ θ is one to one; away from the ends if exact."""
        least = LEAST_ANGLE if self.shots is None else 0.0
        return np.where(free, np.clip(theta, least, np.pi - least), 0.0)

    def _flowing(self, state: VariationalFlowState) -> NDArray:
        """π without what a noisy device put on the padding, shape (n,), summing to 1."""
        pi = state.pi[: state.n]
        mass = pi.sum()
        if not mass > 0:
            raise DeviceError(f"device {state.device.name!r} measured none of the {state.n} variables, only padding")
        return pi / mass

    def _measure(self, state: VariationalFlowState, theta: NDArray, shots: int | None) -> VariationalFlowState:
        """The state at other angles, with its distribution measured and counted."""
        rng = generator(state.rng)
        seed = int(rng.integers(2**31))
        begun = time.monotonic()
        job = state.device.submit(state.circuit, theta, shots, tag=f"{self.name} {state.circuits}", seed=seed)
        readout = job.result().ordered("little")
        return replace(
            state,
            theta=theta,
            pi=readout.probabilities,
            shots_of_pi=readout.shots or 0,
            circuits=state.circuits + 1,
            shots=state.shots + (readout.shots or 0),
            device_time_s=state.device_time_s + time.monotonic() - begun,
            job_ids=[*state.job_ids, job.job_id][-JOBS_KEPT:],
            rng=generator_state(rng),
        )
