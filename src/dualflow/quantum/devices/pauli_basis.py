"""Density matrices under depolarising noise, in the basis of Pauli products.

ρ = 2^−q Σ r_P P, with 4^q real numbers r_P = tr(Pρ). A gate maps r by its Pauli transfer matrix
R_ij = 2^−k tr(P_i U P_j U†) on its k qubits, which has one or two entries a row for the gates of dualflow's circuits.
Depolarising noise multiplies every r_P but that of the identity by 1 − p (Nielsen and Chuang, section 8.3.4), where
superoperators in the basis of matrix entries, as in Aer, need 16 × 16 numbers for each gate on two qubits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..circuits.multiplexer import walsh
from .bound_angles import index_and_factor

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

#: Numbers of the states that are simulated together.
MAX_BATCH_NUMBERS = 2**21
#: Most numbers of a state whose fixed gates are applied by one index array for all of it: that is faster than 16
#: slices.
MAX_INDEXED = 4**7
#: The same for rotations, whose index arrays take longer to make than a run saves from six qubits on.
MAX_INDEXED_ROTATIONS = 4**5
#: Entries of a transfer matrix below this are 0.
MIN_ENTRY = 1e-15
#: The Pauli matrices I, X, Y, Z.
PAULIS = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])


@dataclass(frozen=True)
class _Gate:
    """A gate with its noise: R = constant + cosine · cos θ + sine · sin θ, as (i, j, the three coefficients)."""

    qubits: tuple[int, ...]
    terms: tuple[tuple[int, int, float, float, float], ...]
    #: θ: a number, or the index of a parameter and a factor.
    angle: float | tuple[int, float]

    def indexed(self, q: int) -> _Indexed | None:
        """Return the gate for the whole state of q qubits; None if a row of R has more than two entries."""
        rows: list[list[tuple[int, float, float, float]]] = [[] for _ in range(4 ** len(self.qubits))]
        for i, j, constant, of_cosine, of_sine in self.terms:
            rows[i].append((j, constant, of_cosine, of_sine))
        width = max(map(len, rows))
        if width > 2 or not min(map(len, rows)):
            return None
        digits, whole = np.arange(len(rows)), np.arange(4**q)
        local, moved = np.zeros_like(whole), np.zeros_like(digits)
        for k, qubit in enumerate(self.qubits):
            local += (whole >> 2 * qubit) % 4 << 2 * k
            moved += (digits >> 2 * k) % 4 << 2 * qubit
        parts = []
        for k in range(width):
            # Rows with one entry get a second one of 0.
            entries = [row[k] if k < len(row) else (i, 0.0, 0.0, 0.0) for i, row in enumerate(rows)]
            source = np.array([entry[0] for entry in entries])
            table = np.array([entry[1:] for entry in entries]).T
            parts.append((whole + (moved[source] - moved)[local], table[:, local]))
        return _Indexed(parts, self.angle)


class _Indexed:
    """A gate r ↦ Σ_s (a_s + b_s cos θ + c_s sin θ) ∘ r[i_s] of the whole state, with one or two sources s.

    Parameters
    ----------
    parts : list of (i_s, (a_s, b_s, c_s))
        Arrays of shape (4^q,) and (3, 4^q).
    angle : float or tuple
        θ as in `_Gate`.
    """

    def __init__(self, parts: list[tuple[NDArray, NDArray]], angle: float | tuple[int, float]) -> None:
        if isinstance(angle, float):
            of_angle = np.array([1.0, np.cos(angle), np.sin(angle)])
            parts = [(source, np.outer((1.0, 0.0, 0.0), of_angle @ table)) for source, table in parts]
        self.parts, self.angle = parts, angle
        self.is_fixed = len(parts) == 1 and not parts[0][1][1:].any()
        #: The sources, and their a_s, b_s and c_s; None if all of them are 0.
        self._tables = [
            (source.astype(np.intp), [row.copy() if row.any() else None for row in table]) for source, table in parts
        ]

    def followed_by(self, other: _Indexed) -> _Indexed | None:
        """Return both gates as one; None if neither is fixed with one entry a row."""
        if other.is_fixed:
            [(index, table)] = other.parts
            return _Indexed([(source[index], rows[:, index] * table[0]) for source, rows in self.parts], self.angle)
        if self.is_fixed:
            [(index, table)] = self.parts
            return _Indexed([(index[source], rows * table[0][source]) for source, rows in other.parts], other.angle)
        return None

    def apply(self, cosine: Any, sine: Any, state: NDArray) -> NDArray:
        """Return the state after the gate, shape (k, 4^q), for cos θ and sin θ: numbers, or arrays of shape (k, 1)."""
        found = None
        for source, (constant, of_cosine, of_sine) in self._tables:
            factor = constant
            for row, value in ((of_cosine, cosine), (of_sine, sine)):
                if row is not None:
                    factor = row * value if factor is None else factor + row * value
            if factor is not None:
                part = state.take(source, axis=1)
                part *= factor
                found = part if found is None else found + part
        return np.zeros_like(state) if found is None else found


class PauliCircuit:
    """A circuit of gates on one or two qubits, each followed by depolarising noise on them.

    Parameters
    ----------
    circuit : QuantumCircuit
        Its angles are numbers or multiples of a parameter.
    depolarizing : float in [0, 1]
        Probability that a gate leaves its qubits in the maximally mixed state.

    Raises
    ------
    ValueError
        A gate or an angle is of another kind.
    """

    def __init__(self, circuit: QuantumCircuit, depolarizing: float) -> None:
        self.n_qubits = circuit.num_qubits
        index = {parameter: k for k, parameter in enumerate(circuit.parameters)}
        gates: list[_Gate] = []
        for instruction in circuit.data:
            gate, qubits = instruction.operation, tuple(circuit.find_bit(qubit).index for qubit in instruction.qubits)
            if gate.name == "barrier":
                continue
            angle: float | tuple[int, float] = 0.0
            if any(getattr(given, "parameters", None) for given in gate.params):
                if len(gate.params) != 1:
                    raise ValueError(f"gate {gate.name!r} has several parameters")
                angle = index_and_factor(gate.params[0], index)
                terms = _terms_of_rotation(gate.base_class, len(qubits), depolarizing)
            else:
                terms = _terms(_transfer(gate.to_matrix()), depolarizing)
            gates.append(_Gate(qubits, terms, angle))
        self._gates = self._indexed(gates)

    def _indexed(self, gates: list[_Gate]) -> list[_Gate | _Indexed]:
        """Return the gates by index arrays where that is faster, fixed ones joined to their neighbours."""
        found: list[_Gate | _Indexed] = []
        made: dict[_Gate, _Indexed | None] = {}
        for gate in gates:
            if 4**self.n_qubits > (MAX_INDEXED_ROTATIONS if isinstance(gate.angle, tuple) else MAX_INDEXED):
                found.append(gate)
                continue
            if gate not in made:
                made[gate] = gate.indexed(self.n_qubits)
            indexed = made[gate]
            last = found[-1] if found else None
            joined = last.followed_by(indexed) if indexed is not None and isinstance(last, _Indexed) else None
            if joined is not None:
                found[-1] = joined
            else:
                found.append(indexed or gate)
        return found

    def probabilities(self, values: NDArray) -> NDArray:
        """Return the distributions, shape (k, 2^q), at the circuit's own parameters, shape (k, P)."""
        rows = max(1, MAX_BATCH_NUMBERS // 4**self.n_qubits)
        return np.concatenate([self._of_rows(values[k : k + rows]) for k in range(0, len(values), rows)])

    def _of_rows(self, values: NDArray) -> NDArray:
        q, rows = self.n_qubits, len(values)
        # |0…0⟩ has r_P = 1 for all products of I and Z.
        state = np.ones((rows, 1))
        for _ in range(q):
            state = np.concatenate([state, np.zeros((rows, 2 * state.shape[1])), state], axis=1)
        of_angles = [_cosine_and_sine(gate.angle, values) for gate in self._gates]
        for gate, (cosine, sine) in zip(self._gates, of_angles, strict=True):
            if isinstance(gate, _Indexed):
                state = gate.apply(cosine, sine, state)
            else:
                after = np.empty_like(state)
                _apply(gate, values, state, after, q)
                state = after
        for k in range(q):  # keep I and Z of qubit k; bits of qubits below k are already halved
            state = state.reshape(rows, -1, 4, 2**k)[:, :, ::3].reshape(rows, -1)
        return walsh(state) / 2**q


def _cosine_and_sine(angle: float | tuple[int, float], values: NDArray) -> tuple[Any, Any]:
    """Return cos θ and sin θ for parameters of shape (k, P): numbers if k is 1 or θ is one, else of shape (k, 1)."""
    if isinstance(angle, float):
        return math.cos(angle), math.sin(angle)
    theta = angle[1] * values[:, angle[0], None]
    if len(theta) == 1:
        return math.cos(theta[0, 0]), math.sin(theta[0, 0])
    return np.cos(theta), np.sin(theta)


def _apply(gate: _Gate, values: NDArray, state: NDArray, out: NDArray, q: int) -> None:
    """Write the state after a gate into ``out``; both of shape (rows, 4^q), qubit 0 the fastest digit."""
    low, high = min(gate.qubits), max(gate.qubits)
    shape = (len(state), 4 ** (q - 1 - high), 4, *((4 ** (high - low - 1), 4) if high > low else ()), 4**low)
    before, after = state.reshape(shape), out.reshape(shape)
    theta = gate.angle if isinstance(gate.angle, float) else gate.angle[1] * values[:, gate.angle[0]]
    cosine, sine = np.cos(theta), np.sin(theta)
    is_first_low = gate.qubits[0] == low

    def part(array: NDArray, pauli: int) -> NDArray:
        if high == low:
            return array[:, :, pauli]
        first, second = pauli % 4, pauli // 4
        return array[:, :, second, :, first] if is_first_low else array[:, :, first, :, second]

    written = set()
    for i, j, constant, of_cosine, of_sine in gate.terms:
        factor: Any = constant if not (of_cosine or of_sine) else constant + of_cosine * cosine + of_sine * sine
        source, target = part(before, j), part(after, i)
        if np.ndim(factor):
            factor = factor.reshape(-1, *(1,) * (source.ndim - 1)) if len(factor) > 1 else float(factor[0])
        if i in written:
            target += source * factor
        else:
            np.multiply(source, factor, out=target)
            written.add(i)


def _transfer(matrix: NDArray) -> NDArray:
    """Return the Pauli transfer matrix of a unitary on one or two qubits, little-endian as in Qiskit."""
    basis = PAULIS if len(matrix) == 2 else np.array([np.kron(second, first) for second in PAULIS for first in PAULIS])
    rotated = matrix @ basis @ matrix.conj().T
    found: NDArray = np.einsum("iab,jba->ij", basis, rotated).real / len(matrix)
    return found


def _terms(
    constant: NDArray, depolarizing: float, cosine: NDArray | None = None, sine: NDArray | None = None
) -> tuple[tuple[int, int, float, float, float], ...]:
    """Return the entries of a transfer matrix, followed by depolarising noise."""
    parts = [constant] + [np.zeros_like(constant) if part is None else part for part in (cosine, sine)]
    kept = np.where(np.arange(len(constant)) == 0, 1.0, 1.0 - depolarizing)[:, None]
    parts = [np.where(np.abs(part) > MIN_ENTRY, part * kept, 0.0) for part in parts]
    # Every row of R has an entry, even if noise makes it 0.
    any_entry = np.abs(parts).sum(axis=0) > 0
    any_entry[~any_entry.any(axis=1), 0] = True
    constant, cosine, sine = parts
    return tuple(
        (int(i), int(j), float(constant[i, j]), float(cosine[i, j]), float(sine[i, j]))
        for i, j in np.argwhere(any_entry)
    )


@cache
def _terms_of_rotation(
    gate: Any, n_qubits: int, depolarizing: float
) -> tuple[tuple[int, int, float, float, float], ...]:
    """Return the terms of a gate exp(−½iθG) with G² = 1, from its matrices at three angles.

    Raises
    ------
    ValueError
        R(θ) is no such function of θ, or the gate has more than two qubits.
    """
    if n_qubits > 2:
        raise ValueError(f"gate {gate.__name__} has {n_qubits} qubits")
    at = {theta: _transfer(gate(theta).to_matrix()) for theta in (0.0, 0.5 * np.pi, np.pi, 0.7)}
    constant, cosine = 0.5 * (at[0.0] + at[np.pi]), 0.5 * (at[0.0] - at[np.pi])
    sine = at[0.5 * np.pi] - constant
    if np.abs(constant + np.cos(0.7) * cosine + np.sin(0.7) * sine - at[0.7]).max() > 1e-12:
        raise ValueError(f"gate {gate.__name__} is no rotation about one axis")
    clean = [np.where(np.abs(part) > MIN_ENTRY, part, 0.0) for part in (constant, cosine, sine)]
    return _terms(clean[0], depolarizing, clean[1], clean[2])
