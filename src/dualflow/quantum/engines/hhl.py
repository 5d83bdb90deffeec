"""The optimum of an affine problem as a linear system, and its solution read from two phase-estimation circuits.

The equality eᵀα = d is eliminated, which is better conditioned than the bordered system of Rebentrost, Mohseni, Lloyd
(PRL 113, 130503 (2014)): with P = 1 − eeᵀ/n the optimum solves Aα = b, A = PQP + s·eeᵀ/n, b = P(p − Qe·d/n) + s·e·d/n,
for any s within the spectrum of PQP on its range. Without an equality A = Q, b = p.

Outcomes show |xᵢ| alone. The success probability shows the norm. Signs come from a second circuit with the right side
b + ρA1, whose solution is x + ρ1, the reference ρ = ‖x‖/√n as measured: xᵢ ≥ 0 where |xᵢ + ρ|² ≥ |xᵢ|² + ρ².
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.problem import DualProblem
from ...exceptions import ProblemError
from ..circuits.encoding import qubits_for
from ..circuits.hhl import HHLCircuit
from ..runs.laboratory import Account, QuantumContext

__all__ = ["MOST_CLOCK", "HHLContext", "Inversion", "LinearSystem", "clock_for", "invert", "make_system"]

#: The largest eigenvalue as a phase: away from 1, where readings wrap around.
PHASE = 0.9
#: Clock readings below the smallest eigenvalue's if the clock is chosen here: the bias of E[1/λ] is ¼/8² of 1/λ there.
READINGS = 8
#: Fewest and most qubits of such a clock.
LEAST_CLOCK, MOST_CLOCK = 6, 12
#: The inverse is cut off so many readings below the smallest eigenvalue.
MARGIN = 2


@dataclass(frozen=True)
class LinearSystem:
    """A x = b of the optimum.

    Attributes
    ----------
    A : array of shape (n, n), symmetric positive definite
    b : array of shape (n,)
    lowest, highest : float
        Extreme eigenvalues of A, by a classical eigensolver.
    """

    A: NDArray
    b: NDArray
    lowest: float
    highest: float

    @property
    def condition(self) -> float:
        """κ = highest/lowest."""
        return self.highest / self.lowest

    def circuit(self, rhs: NDArray, clock: int) -> HHLCircuit:
        """The circuit for a right side of shape (n,): A scaled to eigenvalues ≤ 0.9 and padded by its mean one."""
        n, qubits = len(self.b), qubits_for(len(self.b))
        T, scaled = 2**clock, self.A * (PHASE / self.highest)
        matrix = np.eye(2**qubits) * (np.trace(scaled) / n)
        matrix[:n, :n] = 0.5 * (scaled + scaled.T)
        padded = np.zeros(2**qubits)
        padded[:n] = rhs
        least = max(1, int(PHASE / self.condition * T) - MARGIN) / T
        return HHLCircuit(qubits + clock + 1, matrix, padded, least)  # type: ignore[arg-type]

    def magnitudes(self, circuit: HHLCircuit, distribution: NDArray) -> NDArray:
        """|xᵢ| in the units of A x = rhs, shape (n,), from a distribution over all outcomes."""
        amplitudes = np.sqrt(np.maximum(circuit.accepted(distribution), 0.0))[: len(self.b)]
        found: NDArray = amplitudes * (np.linalg.norm(circuit.rhs) * PHASE / (self.highest * circuit.least))
        return found


@dataclass(frozen=True)
class HHLContext(QuantumContext):
    """What a run works with; no circuit where b = 0."""

    system: LinearSystem
    circuit: HHLCircuit | None


@dataclass(frozen=True)
class Inversion:
    """State of a run: before, α = 0; after, what two circuits showed.

    Attributes
    ----------
    alpha : array of shape (n,)
    success : array of shape (2,)
        Probability of the post-selection in both circuits; 0 where none was run.
    measured : array of shape (2^q,)
        All outcomes of the first circuit; empty where none was run.
    done : bool
    account : Account
    """

    alpha: NDArray
    success: NDArray
    measured: NDArray
    done: bool
    account: Account


def make_system(problem: DualProblem) -> LinearSystem:
    """The system of a problem of kind AFFINE.

    Raises
    ------
    ProblemError
        Q is singular to rounding, or indefinite, where α may move.
    """
    Q, p, e, n = problem.dense(), problem.p, problem.e, problem.n
    A, b = Q, p
    if e is not None:
        P = np.eye(n) - np.outer(e, e) / n
        within = P @ Q @ P
        s = float(np.trace(within)) / (n - 1) if n > 1 else 1.0
        A = within + s * np.outer(e, e) / n
        b = P @ (p - Q @ e * (problem.d / n)) + s * e * (problem.d / n)
        b = np.where(np.abs(b) <= 1e-14 * np.abs(p).max(), 0.0, b)  # all labels equal: nothing but round-off is left
    values = np.linalg.eigvalsh(A)
    if not values[0] > 1e-12 * values[-1]:
        raise ProblemError(
            f"Q is singular or indefinite on the affine set: its eigenvalues there go from {values[0]:.4g} to "
            f"{values[-1]:.4g}; lower C (a ridge of 1/C), or scale the data"
        )
    return LinearSystem(A, b, float(values[0]), float(values[-1]))


def clock_for(condition: float) -> int:
    """Clock qubits that put the smallest eigenvalue at reading 8 or above.

    Raises
    ------
    ProblemError
        More than 12 are needed.
    """
    needed = max(LEAST_CLOCK, int(np.ceil(np.log2(READINGS * condition / PHASE))))
    if needed > MOST_CLOCK:
        raise ProblemError(
            f"the condition number is {condition:.4g}, which needs {needed} clock qubits, and at most {MOST_CLOCK} are "
            "simulated; lower C"
        )
    return needed


def invert(context: HHLContext, state: Inversion, shots: int | None = None) -> Inversion:
    """Run both circuits, with ``shots`` each or exactly."""
    system, circuit, lab = context.system, context.circuit, context.lab
    if circuit is None:
        return Inversion(np.zeros_like(system.b), state.success, np.empty(0), True, state.account)
    found, account = lab.measure(state.account, circuit, np.empty(0), shots)
    size = system.magnitudes(circuit, found)
    reference = float(np.sqrt(np.mean(size**2)))
    # Without a single accepted outcome there is nothing to find the signs of; any reference does.
    rhs = system.b + (reference or 1.0) * system.A.sum(axis=1)
    shifted_circuit = system.circuit(rhs, circuit.n_clock)
    shown, account = lab.measure(account, shifted_circuit, np.empty(0), shots)
    shifted = system.magnitudes(shifted_circuit, shown)
    alpha = np.where(shifted**2 >= size**2 + reference**2, size, -size)
    success = np.array([circuit.accepted(found).sum(), shifted_circuit.accepted(shown).sum()])
    return Inversion(alpha, success, found, True, account)
