"""Split-step evolution: alternate a potential that is quadratic in the bits with a kinetic term on each register."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.options import option
from ...core.runtime.threads import cached_property
from .base import COUNT_RULE, POSITIVE_RULE, ParametricCircuit
from .multiplexer import walsh

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["SplitStepCircuit"]

#: Most qubits whose kinetic terms the emulator applies as one matrix.
MAX_GROUP_QUBITS = 4
#: Most phases that the emulator keeps in memory.
MAX_PHASES = 2**22


@dataclass(frozen=True)
class SplitStepCircuit(ParametricCircuit):
    """Evolution under H(t) = a(t)·K + v(t)·V from |+…+⟩ by Strang's splitting, with a and v at the midpoints of steps.

    θ = (h, J), fields first: V = Σₖ hₖ Zₖ + Σ_{k<l} Jₖₗ ZₖZₗ (`Qubo.ising`); P = q(q+1)/2. Each step is e^{−iτvV/2}
    e^{−iτaK} e^{−iτvV/2}; neighbouring halves of V are merged. V is diagonal: its gates are RZ and RZZ by multiples of
    θ, all of which commute. K acts on each variable's register separately and exactly. The only error is that of the
    splitting, O(τ³) a step and O(τ²) in total. The schedule is fixed, so that one transpiled circuit works for every
    problem of a size.

    Subclasses define `rates` and `energies`.

    Parameters
    ----------
    n_qubits : int ≥ 1
    trotter_steps : int ≥ 1
    total_time : float > 0
    """

    trotter_steps: int = option(50, COUNT_RULE)
    total_time: float = option(5.0, POSITIVE_RULE)
    bits: ClassVar[int] = 1

    @property
    def n_parameters(self) -> int:
        return self.n_qubits * (self.n_qubits + 1) // 2

    @property
    def sizes(self) -> dict[str, int]:
        return {"q": self.n_qubits, "r": self.trotter_steps}

    @property
    def cx_gates(self) -> int:
        """Number of CX if every RZZ is decomposed into CX, RZ, CX."""
        pairs = self.n_qubits * (self.n_qubits - 1) // 2
        return 2 * pairs * (self.trotter_steps + 1) + self._kinetic_cx * self.trotter_steps

    @property
    def _kinetic_cx(self) -> int:
        return 0

    def rates(self, t: NDArray) -> tuple[NDArray, NDArray]:
        """Return a and v at times t."""
        raise NotImplementedError

    def energies(self) -> NDArray:
        """Return the eigenvalues of K on one register, shape (2^bits,), in the order of the Fourier index."""
        raise NotImplementedError

    @cached_property
    def schedule(self) -> tuple[NDArray, NDArray]:
        """∫a dt of each step, shape (s,), and ∫v dt before, between and after the kinetic terms, (s + 1,)."""
        tau = self.total_time / self.trotter_steps
        a, v = self.rates(tau * (np.arange(self.trotter_steps) + 0.5))
        halves = 0.5 * tau * np.concatenate([[0.0], v, [0.0]])
        return tau * a, halves[1:] + halves[:-1]

    # --- the circuit ---------------------------------------------------------------------------

    def _build(self) -> QuantumCircuit:
        from qiskit import QuantumCircuit

        theta, q = self.parameters("theta"), self.n_qubits
        fields, couplings = theta[:q], list(zip(*np.triu_indices(q, 1), theta[q:], strict=True))
        kinetic, potential = self.schedule
        circuit = QuantumCircuit(q, name=self.name)
        circuit.h(range(q))
        for k in range(self.trotter_steps + 1):
            turn = 2.0 * float(potential[k])
            for qubit, field in enumerate(fields):
                circuit.rz(turn * field, qubit)
            for first, second, coupling in couplings:
                circuit.rzz(turn * coupling, int(first), int(second))
            if k < self.trotter_steps:
                register = self._kinetic(float(kinetic[k]))
                for low in range(0, q, self.bits):
                    circuit.compose(register, range(low, low + self.bits), inplace=True)
        return circuit

    def _kinetic(self, time: float) -> QuantumCircuit:
        """Return e^{−i·time·K} on one register up to a phase. For one qubit, K = E|−⟩⟨−| = E(1 − X)/2."""
        from qiskit import QuantumCircuit
        from qiskit.circuit.library import PauliEvolutionGate
        from qiskit.quantum_info import SparsePauliOp
        from qiskit.synthesis import LieTrotter

        low, high = self.energies()
        circuit = QuantumCircuit(1)
        field = SparsePauliOp("X", coeffs=-0.5 * (high - low))
        circuit.append(PauliEvolutionGate(field, time=time, synthesis=LieTrotter()), [0])
        return circuit.decompose()

    # --- its distribution ----------------------------------------------------------------------

    def distribution(self, theta: ArrayLike) -> NDArray:
        return self.row_by_row(theta)

    def _distribution_of(self, theta: NDArray) -> NDArray:
        """Return the outcome distribution of one circuit, shape (2^q,): V by its values, K by small matrices."""
        V, potential = self._values(theta), self.schedule[1]
        psi = np.full(2**self.n_qubits, 2.0 ** (-0.5 * self.n_qubits), dtype=complex)
        groups, chunk = _matrices(self), max(1, MAX_PHASES // len(V))
        for first in range(0, self.trotter_steps, chunk):
            phases = np.exp(np.multiply.outer(-1j * potential[first : min(first + chunk, self.trotter_steps)], V))
            for k, phase in enumerate(phases, first):
                psi = psi * phase
                for matrices in groups:
                    # Rotate the top qubits and move them to the bottom; after all groups every qubit is in its place.
                    psi = (matrices[k] @ psi.reshape(matrices.shape[1], -1)).T.ravel()
        # The last half of V is diagonal and does not change probabilities.
        return psi.real**2 + psi.imag**2

    def _values(self, theta: NDArray) -> NDArray:
        """Return V of every outcome, shape (2^q,): a Walsh series in which Zₖ is the function of index 2^k."""
        first, second = np.triu_indices(self.n_qubits, 1)
        series, bit = np.zeros(2**self.n_qubits), 1 << np.arange(self.n_qubits)
        series[bit], series[bit[first] | bit[second]] = theta[: self.n_qubits], theta[self.n_qubits :]
        return walsh(series)


# Cached by equality and not in each object, because solvers make equal circuits many times.
@lru_cache(maxsize=32)
def _matrices(circuit: SplitStepCircuit) -> list[NDArray]:
    """Return e^{−iτaK} of all steps on groups of complete registers, top group first, each (steps, 2^g, 2^g)."""
    bits, size, times = circuit.bits, 2**circuit.bits, circuit.schedule[0]
    fourier = np.exp(2j * np.pi / size * np.outer(np.arange(size), np.arange(size))) / np.sqrt(size)
    phases = np.exp(-1j * np.outer(times, circuit.energies()))
    one = np.einsum("ij,kj,lj->kil", fourier, phases, fourier.conj())
    full_width, widths, left = bits * max(1, MAX_GROUP_QUBITS // bits), [], circuit.n_qubits
    while left:
        widths.append(min(full_width, left))
        left -= widths[-1]
    powers = {bits: one}
    for width in range(2 * bits, max(widths) + 1, bits):
        before = powers[width - bits]
        side = before.shape[1] * size
        powers[width] = np.einsum("kij,kab->kiajb", before, one).reshape(-1, side, side)
    return [powers[width] for width in widths]
