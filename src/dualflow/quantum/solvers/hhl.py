"""The solver `hhl`: the least-squares SVM as a linear system, read from two phase-estimation circuits (a study).

The equality eᵀα = d is eliminated, which is better conditioned than the bordered system of Rebentrost, Mohseni, Lloyd
(PRL 113, 130503 (2014)): with P = 1 − eeᵀ/n the optimum solves Aα = b, A = PQP + s·eeᵀ/n, b = P(p − Qe·d/n) + s·e·d/n,
for any s within the spectrum of PQP on its range. Without an equality A = Q, b = p.

Outcomes show |xᵢ| only, and the success probability shows the norm. Signs come from a second circuit with the right
side b + ρA1, whose solution is x + ρ1, with the measured reference ρ = ‖x‖/√n: xᵢ ≥ 0 where |xᵢ + ρ|² ≥ |xᵢ|² + ρ².
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.options import Number, option
from ...core.problem import DualProblem, Kind
from ...core.workspace import Workspace
from ...exceptions import ProblemError
from ..circuits.encoding import qubits_for
from ..circuits.hhl import HHLCircuit
from ..runs.laboratory import Account, QuantumContext
from .base import CircuitSolver

#: Phase of the largest eigenvalue; below 1, at which readings wrap around.
MAX_PHASE = 0.9
#: Smallest clock reading of the smallest eigenvalue with the default clock: the bias of E[1/λ] is then ¼/8² of 1/λ.
MIN_READING = 8
#: Smallest default number of clock qubits.
MIN_CLOCK = 6
#: Largest number of clock qubits: the circuit is simulated.
MAX_CLOCK = 12
#: The inverse is cut off this many readings below the smallest eigenvalue.
CUTOFF_MARGIN = 2


@dataclass(frozen=True)
class LinearSystem:
    """The linear system A x = b whose solution is the optimum."""

    A: NDArray  # shape (n, n), symmetric positive definite
    b: NDArray  # shape (n,)
    #: lowest, highest: extreme eigenvalues of A, by a classical eigensolver.
    lowest: float
    highest: float

    @property
    def condition(self) -> float:
        """κ = highest/lowest."""
        return self.highest / self.lowest

    def circuit(self, rhs: NDArray, clock: int) -> HHLCircuit:
        """Return the circuit for a right side of shape (n,).

        A is scaled to eigenvalues ≤ 0.9, and padded with its mean eigenvalue.
        """
        n, qubits = len(self.b), qubits_for(len(self.b))
        T, scaled = 2**clock, self.A * (MAX_PHASE / self.highest)
        matrix = np.eye(2**qubits) * (np.trace(scaled) / n)
        matrix[:n, :n] = 0.5 * (scaled + scaled.T)
        padded = np.zeros(2**qubits)
        padded[:n] = rhs
        least = max(1, int(MAX_PHASE / self.condition * T) - CUTOFF_MARGIN) / T
        return HHLCircuit(qubits + clock + 1, matrix, padded, least)  # type: ignore[arg-type]

    def magnitudes(self, circuit: HHLCircuit, distribution: NDArray) -> NDArray:
        """Return |xᵢ| in the units of A x = rhs, shape (n,), from the distribution of all outcomes."""
        amplitudes = np.sqrt(np.maximum(circuit.accepted(distribution), 0.0))[: len(self.b)]
        found: NDArray = amplitudes * (np.linalg.norm(circuit.rhs) * MAX_PHASE / (self.highest * circuit.least))
        return found


@dataclass(frozen=True)
class HHLContext(QuantumContext):
    """The system and its first circuit, None if b = 0."""

    system: LinearSystem
    circuit: HHLCircuit | None


@dataclass(frozen=True)
class Inversion:
    """State of a run: α is 0 before, and the result of the two circuits after."""

    alpha: NDArray  # shape (n,)
    success: NDArray  # probability that an outcome is kept in both circuits; 0 if none was run; shape (2,)
    measured: NDArray  # distribution of all outcomes of the first circuit; empty if none was run; shape (2^q,)
    done: bool
    account: Account


def make_system(problem: DualProblem) -> LinearSystem:
    """Return the system of a problem of kind AFFINE.

    Raises
    ------
    ProblemError
        Q is indefinite, or singular to rounding, on the affine set.
    """
    Q, p, e, n = problem.dense(), problem.p, problem.e, problem.n
    A, b = Q, p
    if e is not None:
        P = np.eye(n) - np.outer(e, e) / n
        within = P @ Q @ P
        s = float(np.trace(within)) / (n - 1) if n > 1 else 1.0
        A = within + s * np.outer(e, e) / n
        b = P @ (p - Q @ e * (problem.d / n)) + s * e * (problem.d / n)
        b = np.where(np.abs(b) <= 1e-14 * np.abs(p).max(), 0.0, b)  # with equal labels only round-off is left
    values = np.linalg.eigvalsh(A)
    if not values[0] > 1e-12 * values[-1]:
        raise ProblemError(
            f"Q is singular or indefinite on the affine set: its eigenvalues there go from {values[0]:.4g} to "
            f"{values[-1]:.4g}; lower C (a ridge of 1/C), or scale the data"
        )
    return LinearSystem(A, b, float(values[0]), float(values[-1]))


def clock_for(condition: float) -> int:
    """Return the number of clock qubits that puts the smallest eigenvalue at reading 8 or above.

    Raises
    ------
    ProblemError
        More than 12 qubits are needed.
    """
    needed = max(MIN_CLOCK, int(np.ceil(np.log2(MIN_READING * condition / MAX_PHASE))))
    if needed > MAX_CLOCK:
        raise ProblemError(
            f"the condition number is {condition:.4g}, which needs {needed} clock qubits, and at most {MAX_CLOCK} are "
            "simulated; lower C"
        )
    return needed


def invert(context: HHLContext, state: Inversion, shots: int | None = None) -> Inversion:
    """Return the state after both circuits, with ``shots`` each or from exact distributions."""
    system, circuit, lab = context.system, context.circuit, context.lab
    if circuit is None:
        return Inversion(np.zeros_like(system.b), state.success, np.empty(0), True, state.account)
    found, account = lab.measure(state.account, circuit, np.empty(0), shots)
    size = system.magnitudes(circuit, found)
    reference = float(np.sqrt(np.mean(size**2)))
    # If no outcome is accepted, all magnitudes are 0 and any reference will do.
    rhs = system.b + (reference or 1.0) * system.A.sum(axis=1)
    shifted_circuit = system.circuit(rhs, circuit.n_clock)
    shown, account = lab.measure(account, shifted_circuit, np.empty(0), shots)
    shifted = system.magnitudes(shifted_circuit, shown)
    alpha = np.where(shifted**2 >= size**2 + reference**2, size, -size)
    success = np.array([circuit.accepted(found).sum(), shifted_circuit.accepted(shown).sum()])
    return Inversion(alpha, success, found, True, account)


@dataclass(frozen=True)
class HHL(CircuitSolver[HHLContext, Inversion]):
    """Least-squares SVM by phase estimation: eigenvalues are inverted on one ancilla (a study).

    This is another model than the SVM of the other solvers: every point has weight, and bounds are not possible. It
    solves only `problems.least_squares` and `problems.discriminant`. The algorithm is that of Harrow, Hassidim, Lloyd,
    PRL 103, 150502 (2009), for the SVM of Rebentrost, Mohseni, Lloyd, PRL 113, 130503 (2014). Here the equality is
    eliminated instead of bordered (`quantum.solvers.hhl`), the exponential is a dense matrix decomposed into gates, and
    right sides are prepared from numbers. A run is two circuits: one shows |αᵢ| and, by its success probability, the
    norm; the other, shifted by a known reference, shows the signs.

    Classical parts: Q, its extreme eigenvalues, exp(2πiA·2^k), and the second right side (a product with Q), together
    O(n³), more than the classical solution costs. Outcomes with the ancilla in 1 and the clock in 0 are kept, with a
    probability of order 1/κ² at worst. A clock of t qubits costs about 2t·4^s CX, s = ⌈log₂ n⌉ (counted on the circuit
    of gates), and reading n numbers takes of order n/ε² kept shots. On a fault-tolerant machine, with Q in a quantum
    memory or sparse, the cost can be made linear in κ up to logarithms (Childs, Kothari, Somma, SIAM J. Comput. 46,
    1920 (2017)); for a kernel of low rank, classical sampling does as well up to polynomials (Chia et al., J. ACM 69,
    33 (2022)). No advantage is claimed.

    On moons and digits (1 against 4), n = 15, RBF, C = 10: κ = 34 and 18, 9 and 8 clock qubits, direction error 0.03
    and 0.04 %, 5962 and 4690 CX a circuit, success probability 12 and 0.6 %, of the second circuit 0.9 and 0.3 %. With
    shots the median direction error would be 0.8 and 2.8 % at 10⁶ shots a circuit, 5 and 13 % at 10⁵. Therefore
    distributions must be exact, and there is no option ``shots``.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 14 qubits, 5,958 CX and depth 26,409 a circuit at n =
    16, CX growing as n^1.7; 2 circuits a run, the same at every n; by the model, 9.6e5 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
        Any device of `dualflow.list_devices` that gives exact distributions.
    journal : str or Path, optional
        See `CircuitSolver`.
    clock : int in 1…12, optional
        Clock qubits t. By default the fewest, at least 6, that put the smallest eigenvalue at reading 8 or above: the
        direction error, of order (readings)⁻², is then below 1 %.

    Raises
    ------
    ProblemError
        An option is out of range, or Q is singular or needs more than 12 clock qubits.
    DeviceError
        The device is not known, or failed.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.least_squares(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=1.0)
    >>> found, exact = (solve(problem, name).alpha for name in ("hhl", "cvxopt"))
    >>> bool(found @ exact >= 0.99 * np.linalg.norm(found) * np.linalg.norm(exact))  # the direction of α
    True
    """

    clock: int | None = option(None, Number(at_least=1, at_most=MAX_CLOCK, whole=True, none=True))

    state_type: ClassVar[type] = Inversion

    name: ClassVar[str] = "hhl"
    reaches: ClassVar[str] = "1e-4, the direction of α within 1 %; exact distributions only"
    kinds = frozenset({Kind.AFFINE})
    maturity: ClassVar[str] = "study"
    max_n: ClassVar[int | None] = 16
    default_max_steps: ClassVar[int] = 2
    exact_method: ClassVar[str] = "exact: |α| by one circuit, signs by a second one"
    without_shots: ClassVar[str] = "reads exact distributions; leave shots out"

    def open(self, problem: DualProblem, workspace: Workspace) -> HHLContext:
        lab, system = super().open(problem, workspace).lab, make_system(workspace)
        t = clock_for(system.condition) if self.clock is None else int(self.clock)
        return HHLContext(workspace, lab, system, system.circuit(system.b, t) if system.b.any() else None)

    @property
    def counts_are_fixed(self) -> bool:
        return True

    def start(self, context: HHLContext, rng: np.random.Generator, warm: NDArray | None = None) -> Inversion:
        """Return the first state, with α = 0 or ``warm``; the circuits do not use it."""
        alpha = np.zeros(context.workspace.n) if warm is None else warm
        return Inversion(alpha, np.zeros(2), np.empty(0), False, Account.opened(rng))

    def step(self, context: HHLContext, state: Inversion) -> Inversion:
        return state if state.done else invert(context, state)

    def circuit(self, context: HHLContext, state: Inversion) -> HHLCircuit:
        assert context.circuit is not None  # `cost` and `provenance` do not call this if no circuit is run
        return context.circuit

    def is_noise_dominated(self, context: HHLContext, state: Inversion) -> bool:
        if context.circuit is None or not state.measured.size:
            return False
        return context.lab.is_noise_dominated(state.account, context.circuit, np.empty(0), state.measured, None)

    def cost(self, context: HHLContext, state: Inversion) -> dict[str, Any]:
        if context.circuit is None:
            return {}
        success = float(state.success[0]) if state.done else None
        return super().cost(context, state) | {"success_probability": success}

    def provenance(self, context: HHLContext, state: Inversion) -> dict[str, Any]:
        circuit, about = context.circuit, {"device": context.lab.device.identity, "method": self.how, "circuit": None}
        if circuit is not None:
            about = super().provenance(context, state)
        return about | {
            "clock": None if circuit is None else circuit.n_clock,
            "condition": context.system.condition,
            "success_probabilities": state.success.tolist(),
            "signs": "from a second circuit, its solution shifted by a known reference",
        }
