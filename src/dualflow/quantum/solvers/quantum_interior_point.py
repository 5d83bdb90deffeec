"""The solver `quantum-interior-point`: the linear systems of an interior point, by circuits (a study).

On a kernel of rank r the Newton systems of `interior` have r + 1 unknowns (Δw, Δν), whatever n is. Scaled to a unit
diagonal, Au = b is padded to 2^s unknowns and solved by two phase-estimation circuits, as `LinearSystem` reads them:
one for |uᵢ| and the norm, and one with a known shift for the signs.

All else is classical: q, the matrix and the right side, O(n r²) a step; Δα from (Δw, Δν); and the length of the step,
which keeps α, u − α and the multipliers positive. An error of (Δw, Δν) violates w = Fᵀσα and eᵀα = d only. These
residuals are in the right side of the next step, which corrects them: a relative error ε of each solution with κε < 1
slows the iteration down, and does not bound its accuracy.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.features import Features, features_of
from ...core.options import Number, OneOf, option
from ...core.problem import DualProblem
from ...core.runtime.random import generator, generator_state
from ...core.solver import BOUNDED
from ...core.workspace import Workspace
from ...interior.low_rank import LowRank, System
from ...interior.state import InteriorState
from ..circuits.encoding import qubits_for
from ..circuits.hhl import HHLCircuit
from ..runs.budget import COUNT_RULE
from ..runs.laboratory import Account, Laboratory, QuantumContext
from .base import CircuitSolver
from .hhl import MAX_CLOCK, MAX_PHASE, MIN_CLOCK, MIN_READING, LinearSystem

#: Largest number of unknowns of a system: 3 qubits.
MAX_UNKNOWNS = 8
#: Smallest eigenvalue of a circuit's matrix, relative to its largest. It is far below what a clock resolves, but
#: round-off must not make it negative.
MIN_EIGENVALUE = 1e-10


@dataclass(frozen=True)
class NewtonContext(QuantumContext):
    """The classical iteration of a run, in addition to workspace and laboratory."""

    form: LowRank

    @property
    def unknowns(self) -> int:
        """Number of unknowns of a system."""
        return self.form.rows.width + self.form.borders


@dataclass(frozen=True)
class NewtonState:
    """State of a run."""

    inner: InteriorState  # of the classical iteration
    alpha: NDArray  # α of the step with the least gap by the iteration's own sums, which the run returns; shape (n,)
    w: NDArray  # weights of that step; shape (r,)
    gap: float  # that gap, relative
    account: Account
    #: Of each system so far: the condition number of the scaled matrix, the clock qubits (0 without circuits), the
    #: relative error of its solution, by a classical solution, and the probability that a shot is kept; shape (k, 4).
    systems: NDArray = field(default_factory=lambda: np.empty((0, 4)))
    #: Matrix and right side of the circuit with the most clock qubits; empty before the first one; shape (2^s + 1,
    #: 2^s).
    largest: NDArray = field(default_factory=lambda: np.empty((0, 0)))
    least: float = 0.0  # that circuit's cut-off
    uniform: bool = False  # whether the last circuit's outcomes were uniform because of noise

    @property
    def clock(self) -> int:
        """The most clock qubits of a circuit so far."""
        return int(self.systems[:, 1].max(initial=0.0))


class _Step:
    """The systems of one step: solves them, and keeps the state's fields that this changes."""

    def __init__(self, solver: QuantumInteriorPoint, lab: Laboratory, state: NewtonState) -> None:
        self.solver, self.lab, self.state = solver, lab, state

    def system(self, *parts: Any) -> System:
        """Return the system of the step, whose solutions come from `solve`."""
        return _OwnSystem(self, *parts)

    def solve(self, A: NDArray, b: NDArray, exact: NDArray) -> NDArray:
        """Return u with A u = b, by this run's way; ``exact`` is the classical solution."""
        size = float(np.linalg.norm(exact))
        if not (np.isfinite(A).all() and np.isfinite(b).all() and 0 < size < np.inf):
            return exact  # there is nothing to solve, or the iteration ends because of it
        system = _linear_system(A, b)
        if self.solver.systems == "circuits":
            found, clock, success = self._by_circuits(system)
        else:
            found, clock, success = self._classically(exact, size), 0, 1.0
        error = float(np.linalg.norm(found - exact)) / size
        row = np.array([[system.condition, clock, error, success]])
        self.state = replace(self.state, systems=np.concatenate([self.state.systems, row]))
        return found

    def _classically(self, exact: NDArray, size: float) -> NDArray:
        """Return the exact solution with an error in a random direction, or a random direction of its norm."""
        null = self.solver.systems == "null"
        if not (null or self.solver.error):
            return exact
        rng = generator(self.state.account.rng)
        direction = rng.standard_normal(len(exact))
        direction *= size / float(np.linalg.norm(direction))
        self.state = replace(self.state, account=replace(self.state.account, rng=generator_state(rng)))
        return direction if null else exact + self.solver.error * direction

    def _by_circuits(self, system: LinearSystem) -> tuple[NDArray, int, float]:
        """Return the solution by two circuits, their clock qubits, and the share of the first one's shots kept."""
        clock, shots = self.solver.clock or _clock_for(system.condition), self.solver.shots
        first = system.circuit(system.b, clock)
        size, success = self._magnitudes(system, first, shots)
        reference = float(np.sqrt(np.mean(size**2))) or 1.0  # if no shot is kept all magnitudes are 0
        second = system.circuit(system.b + reference * system.A.sum(axis=1), clock)
        shifted, _ = self._magnitudes(system, second, shots)
        found: NDArray = np.where(shifted**2 >= size**2 + reference**2, size, -size)
        if clock > self.state.clock:
            largest = np.vstack([np.array(first.matrix), np.array(first.rhs)])
            self.state = replace(self.state, largest=largest, least=first.least)
        return found, clock, success

    def _magnitudes(self, system: LinearSystem, circuit: HHLCircuit, shots: int | None) -> tuple[NDArray, float]:
        """Return |uᵢ| by a circuit, and the share of its outcomes that are kept."""
        none, lab = np.empty(0), self.lab
        measured, account = lab.measure(self.state.account, circuit, none, shots)
        uniform = lab.is_noise_dominated(account, circuit, none, measured, shots)
        self.state = replace(self.state, account=account, uniform=uniform)
        return system.magnitudes(circuit, measured), float(circuit.accepted(measured).sum())


class _OwnSystem(System):
    """Newton's system, whose scaled form is solved by a run's own way."""

    def __init__(self, by: _Step, *parts: Any) -> None:
        super().__init__(*parts)
        self.by = by

    def solution(self, b: NDArray) -> NDArray:
        exact = super().solution(b) / self.scale
        found: NDArray = self.scale * self.by.solve(self.unit, self.scale * b, exact)
        return found


def _linear_system(A: NDArray, b: NDArray) -> LinearSystem:
    """Return the system A u = b of circuits, A positive definite beyond round-off."""
    lowest, highest = np.linalg.eigvalsh(A)[[0, -1]].tolist()
    if lowest < MIN_EIGENVALUE * highest:
        lift = MIN_EIGENVALUE * highest - min(lowest, 0.0)
        A, lowest = A + lift * np.eye(len(A)), max(lowest, 0.0) + lift
    return LinearSystem(A, b, lowest, highest)


def _clock_for(condition: float) -> int:
    """Return the fewest clock qubits, up to 12, that put the smallest eigenvalue at reading 8 or above."""
    return int(min(MAX_CLOCK, max(MIN_CLOCK, np.ceil(np.log2(MIN_READING * condition / MAX_PHASE)))))


def _features(problem: DualProblem) -> Features | None:
    """Return the features of a problem's kernel matrix, or None if a system has more than 8 unknowns."""
    others = (problem.e is not None) + (problem.offset != 0)
    return features_of(problem.gram, MAX_UNKNOWNS - others)


@dataclass(frozen=True)
class QuantumInteriorPoint(CircuitSolver[NewtonContext, NewtonState]):
    """An interior point whose linear systems, of few unknowns whatever n is, are solved by HHL circuits (a study).

    The algorithm is in the manner of Kerenidis, Prakash, Szilágyi, Quantum 5, 427 (2021), on the systems of
    `interior-point` for kernels of low rank: r + 1 unknowns for r columns and a bias, at most 8 (d ≤ 7 features with a
    linear kernel). A step solves two of them, predictor and corrector, each by two circuits: |uᵢ| and the norm from
    one, signs from the other. The run returns the step with the least gap by its own sums, and takes no step to exact
    bounds, so that no classical solution of a system is part of the answer.

    Classical parts: the matrix and the right side of each system, O(n r²), the change of α, the length of a step, and
    the extreme eigenvalues of the matrix, which set the clock. A Cholesky factor of 8 unknowns takes a microsecond. No
    advantage is claimed.

    The circuit that is counted is the first one of a run. Later ones have up to 12 clock qubits, and then
    12,826 CX with four unknowns.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 9 qubits, 388 CX and depth 1,529 a circuit at n = 64,
    CX the same at every n; by the model, 32,174 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
        Any device of `dualflow.list_devices`. "emulator" computes the same distributions without gates.
    shots : int ≥ 1, optional
        Of each circuit; a system takes two circuits. None for exact distributions.
    clock : int in 1…12, optional
        Clock qubits t of every circuit. By default, for each system, the fewest from 6 to 12 that put the smallest
        eigenvalue at reading 8 or above. Eigenvalues below the clock's resolution are inverted as the smallest reading,
        and later steps correct that.
    systems : {"circuits", "classical", "null"}, default="circuits"
        How systems are solved: by circuits; as control, by a Cholesky factor; or, as the other control, by a random
        direction with the norm of the solution.
    error : float ≥ 0, default=0
        With ``systems="classical"``: relative error of each solution, in a random direction. It shows which precision
        the iteration needs.
    journal, resend, max_shots, max_qpu_seconds, max_cost, min_fidelity
        See `CircuitSolver`.

    Raises
    ------
    ProblemError
        An option is out of range.
    SolverMismatch
        A system has more than 8 unknowns, or the problem is one of a hard margin.
    DeviceError
        The device is not known, or failed.

    Notes
    -----
    ``Solution.extras["systems"]`` has a row for each system: condition number, clock qubits, relative error of the
    solution, and the probability that a shot is kept.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "quantum-interior-point", device="emulator", refine=False)
    >>> round(solution.certificate.objective, 6), solution.certificate.relative_gap <= 1e-6
    (-2.0, True)
    """

    shots: int | None = option(None, COUNT_RULE)
    clock: int | None = option(None, Number(at_least=1, at_most=MAX_CLOCK, whole=True, none=True))
    systems: str = option("circuits", OneOf(words=("circuits", "classical", "null")))
    error: float = option(0.0, Number(at_least=0.0))

    state_type: ClassVar[type] = NewtonState

    name: ClassVar[str] = "quantum-interior-point"
    reaches: ClassVar[str] = "1e-8 from exact distributions where the systems' condition stays below 400, else 1e-4"
    accuracy: ClassVar[str] = "iterative"
    kinds = BOUNDED
    maturity: ClassVar[str] = "study"
    max_n: ClassVar[int | None] = 10_000
    whole: ClassVar[bool] = False
    default_max_steps: ClassVar[int] = 300
    exact_method: ClassVar[str] = "exact: Newton steps by two circuits a system"
    sampled_method: ClassVar[str] = "sampled: Newton steps by two circuits a system"

    def mismatch(self, problem: DualProblem) -> str | None:
        reason = super().mismatch(problem)
        if reason is None and problem.is_hard_margin:
            return (
                f"{self.name!r} does not solve hard margins, whose systems end with condition numbers that no clock "
                "resolves; set a finite C, or use 'interior-point'"
            )
        if reason is None and _features(problem) is None:
            reason = (
                f"{self.name!r} takes systems of at most {MAX_UNKNOWNS} unknowns, one for each column of the kernel "
                "matrix's factor and one for the bias; take fewer features and a linear kernel, or use 'interior-point'"
            )
        return reason

    @property
    def how(self) -> str:
        if self.systems != "circuits":
            return f"control: Newton steps by {self.systems} solutions"
        return self.exact_method if self.shots is None else self.sampled_method

    def accuracy_class(self) -> str:
        return self.accuracy if self.shots is None else "sampled"

    def open(self, problem: DualProblem, workspace: Workspace) -> NewtonContext:
        lab, features = super().open(problem, workspace).lab, _features(workspace)
        assert features is not None  # `mismatch` has checked it
        return NewtonContext(workspace, lab, LowRank(workspace, features, crosses=False))

    def start(self, context: NewtonContext, rng: np.random.Generator, warm: NDArray | None = None) -> NewtonState:
        inner = context.form.start(warm)
        return NewtonState(inner, inner.everywhere, inner.w, context.form.relative_gap(inner), Account.opened(rng))

    def step(self, context: NewtonContext, state: NewtonState) -> NewtonState:
        own = _Step(self, context.lab, state)
        inner = context.form.step(state.inner, own.system)
        after, gap = replace(own.state, inner=inner), context.form.relative_gap(inner)
        return replace(after, alpha=inner.everywhere, w=inner.w, gap=gap) if gap < state.gap else after

    def primal(self, context: NewtonContext, state: NewtonState) -> NDArray | None:
        features = context.form.features
        return state.w[: features.rank] if features.are_points else None

    def finished(self, state: NewtonState) -> bool:
        return state.inner.done

    def circuit(self, context: NewtonContext, state: NewtonState | None) -> HHLCircuit:
        """Return the circuit with the most clock qubits so far, or, before there is one, the first one of the run."""
        if state is not None and state.clock:
            qubits = qubits_for(context.unknowns) + state.clock + 1
            *matrix, rhs = state.largest.tolist()
            return HHLCircuit(qubits, tuple(map(tuple, matrix)), tuple(rhs), state.least)
        seen: list[tuple[NDArray, NDArray]] = []

        class First(System):
            def solution(self, b: NDArray) -> NDArray:
                seen.append((self.unit, self.scale * b))
                return super().solution(b)

        context.form.step(context.form.start(None) if state is None else state.inner, First)
        m = context.unknowns
        A, b = next(((A, b) for A, b in seen if b.any()), (np.eye(m), np.ones(m)))
        system = _linear_system(A, b)
        return system.circuit(b, self.clock or _clock_for(system.condition))

    def is_noise_dominated(self, context: NewtonContext, state: NewtonState) -> bool:
        return state.uniform

    def extras(self, context: NewtonContext, state: NewtonState) -> dict[str, NDArray]:
        return super().extras(context, state) | {"systems": state.systems}

    def cost(self, context: NewtonContext, state: NewtonState) -> dict[str, Any]:
        if self.systems != "circuits":
            return {}
        success = float(state.systems[:, 3].min()) if len(state.systems) else None
        return super().cost(context, state) | {"success_probability": success}

    def provenance(self, context: NewtonContext, state: NewtonState) -> dict[str, Any]:
        rows = state.systems
        about: dict[str, Any] = {"device": context.lab.device.identity, "method": self.how, "circuit": None}
        if self.systems == "circuits":
            about = super().provenance(context, state)
        return about | {
            "systems": len(rows),
            "unknowns": context.unknowns,
            "clock": state.clock or None,
            "largest_condition": float(rows[:, 0].max()) if len(rows) else None,
            "median_error": float(np.median(rows[:, 2])) if len(rows) else None,
        }
