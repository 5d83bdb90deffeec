"""Trotter steps of k̂ ⊗ L + H by Pauli strings: CX ladders and RZ alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.runtime.threads import cached_property

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["PauliSteps"]


@dataclass(frozen=True)
class PauliSteps:
    """All Pauli strings of real symmetric and antisymmetric matrices of q qubits, and products of their exponentials.

    A string is X^x Z^z up to a phase, bits of x and z for the qubits; with y = x & z it has popcount(y) letters Y.
    Strings with an even number are real and symmetric (L = Σ l_P P), those with an odd one imaginary (H = Σ h_P P).
    2^q(2^q + 1)/2 and 2^q(2^q − 1)/2: the number of gates grows with the square of the number of variables, for L and
    H are dense.

    Parameters
    ----------
    system, ancillas : int
        Qubits of the two registers, the ancillas above the system.
    order : {1, 2}
    """

    system: int
    ancillas: int
    order: int

    @cached_property
    def strings(self) -> tuple[NDArray, NDArray]:
        """(x, z) of the symmetric strings, then of the antisymmetric ones: integer arrays of shape (·, 2)."""
        masks = np.array([(x, z) for x in range(2**self.system) for z in range(2**self.system)])
        odd = _popcount(masks[:, 0] & masks[:, 1]) % 2 == 1
        return masks[~odd], masks[odd]

    @property
    def n_angles(self) -> int:
        """φ of a step: each symmetric string with each ancilla, and each antisymmetric one."""
        symmetric, antisymmetric = self.strings
        return self.ancillas * len(symmetric) + len(antisymmetric)

    def weights(self, symmetric: NDArray, antisymmetric: NDArray) -> tuple[NDArray, NDArray]:
        """l_P of a real symmetric L, and h_P of H = i·(a real antisymmetric matrix), each of shape (·,)."""
        size, index = 2**self.system, np.arange(2**self.system)
        found = []
        for strings, matrix in zip(self.strings, (symmetric, 1j * antisymmetric), strict=True):
            values = [
                np.sum(matrix[index, index ^ x] * (self._phase(x, z) * _sign(index & z))) / size for x, z in strings
            ]
            found.append(np.real(values))
        return found[0], found[1]

    def gate_angles(self, angles: NDArray) -> NDArray:
        """Of the RZ: those of a step, or half of them where each comes twice in a step."""
        return angles if self.order == 1 else 0.5 * angles

    def _sequence(self) -> list[tuple[int, int, int | None, int]]:
        """(x, z, ancilla or None, index of the angle), in the order of a step of order 1."""
        symmetric, antisymmetric = self.strings
        found: list[tuple[int, int, int | None, int]] = []
        for s, (x, z) in enumerate(symmetric.tolist()):
            found += [(x, z, b, b * len(symmetric) + s) for b in range(self.ancillas)]
        first = self.ancillas * len(symmetric)
        return found + [(x, z, None, first + s) for s, (x, z) in enumerate(antisymmetric.tolist())]

    def append(self, circuit: QuantumCircuit, angles: Sequence[Any], times: int) -> None:
        """Append a step so many times; ``angles`` are `gate_angles`."""
        step = self._sequence()
        whole = step if self.order == 1 else step + step[::-1]
        for x, z, ancilla, index in whole * times:
            letters = [q for q in range(self.system) if (x | z) >> q & 1]
            ladder = letters if ancilla is None else [*letters, self.system + ancilla]
            # H turns X into Z, RX(π/2) turns Y into Z.
            for q in letters:
                if x >> q & 1:
                    circuit.rx(0.5 * np.pi, q) if z >> q & 1 else circuit.h(q)
            for control, target in pairwise(ladder):
                circuit.cx(control, target)
            circuit.rz(angles[index], ladder[-1])
            for control, target in reversed(list(pairwise(ladder))):
                circuit.cx(control, target)
            for q in letters:
                if x >> q & 1:
                    circuit.rx(-0.5 * np.pi, q) if z >> q & 1 else circuit.h(q)

    def apply(self, psi: NDArray, angles: NDArray, times: int) -> NDArray:
        """So many steps on states of shape (2^ancillas, 2^q), ``angles`` those of a step; P permutes, with phases."""
        symmetric, antisymmetric = self.strings
        index, gates = np.arange(2**self.system), self.gate_angles(angles)
        z_of = 1.0 - 2.0 * ((np.arange(2**self.ancillas)[:, None] >> np.arange(self.ancillas)) & 1)
        with_ancillas = gates[: self.ancillas * len(symmetric)].reshape(self.ancillas, -1)
        # Of one string the ancillas' factors commute: one angle for each k.
        turns = [*(z_of @ with_ancillas).T, *gates[self.ancillas * len(symmetric) :]]
        step = []
        for (x, z), turn in zip(np.concatenate([symmetric, antisymmetric]), turns, strict=True):
            c, s = (np.reshape(part, (-1, 1)) for part in (np.cos(0.5 * turn), -1j * np.sin(0.5 * turn)))
            step.append((index ^ x, c, s * (self._phase(x, z) * _sign((index ^ x) & z))))
        for source, c, s in (step if self.order == 1 else step + step[::-1]) * times:
            psi = c * psi + s * psi[:, source]
        return psi

    @staticmethod
    def _phase(x: int, z: int) -> complex:
        """P = i^|y| X^x Z^z, since Y = iXZ."""
        return complex(1j ** (int(x & z).bit_count() % 4))


def _popcount(masks: NDArray) -> NDArray:
    return np.array([int(mask).bit_count() for mask in masks])


def _sign(masks: NDArray) -> NDArray:
    return 1.0 - 2.0 * (_popcount(masks) % 2)
