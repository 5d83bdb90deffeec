"""Trotter steps of k̂ ⊗ L + H by Pauli strings, with CX ladders, RZ and basis changes."""

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

    A string is X^x Z^z up to a phase, with one bit of x and z for each qubit; with y = x & z it has popcount(y) letters
    Y. The 2^q(2^q + 1)/2 strings with an even number of Y are real and symmetric (L = Σ l_P P), the 2^q(2^q − 1)/2
    others imaginary (H = Σ h_P P). L and H are dense, so that the number of gates grows with the square of the number
    of variables.
    """

    #: system, ancillas: qubits of the two registers, the ancillas above the system.
    system: int
    ancillas: int
    order: int  # {1, 2}

    @cached_property
    def strings(self) -> tuple[NDArray, NDArray]:
        """(x, z) of the symmetric strings, then of the antisymmetric ones: integer arrays of shape (·, 2)."""
        masks = np.array([(x, z) for x in range(2**self.system) for z in range(2**self.system)])
        odd = _popcount(masks[:, 0] & masks[:, 1]) % 2 == 1
        return masks[~odd], masks[odd]

    @property
    def n_angles(self) -> int:
        """Number of angles φ of a step: symmetric strings times ancillas, and antisymmetric strings."""
        symmetric, antisymmetric = self.strings
        return self.ancillas * len(symmetric) + len(antisymmetric)

    def weights(self, symmetric: NDArray, antisymmetric: NDArray) -> tuple[NDArray, NDArray]:
        """Return l_P of a real symmetric L, and h_P of H = i·(a real antisymmetric matrix), each of shape (·,)."""
        size, index = 2**self.system, np.arange(2**self.system)
        found = []
        for strings, matrix in zip(self.strings, (symmetric, 1j * antisymmetric), strict=True):
            values = [
                np.sum(matrix[index, index ^ x] * (self._phase(x, z) * _sign(index & z))) / size for x, z in strings
            ]
            found.append(np.real(values))
        return found[0], found[1]

    def gate_angles(self, angles: NDArray) -> NDArray:
        """Return the angles of the RZ gates: those of a step, or half of them at order 2, where each occurs twice."""
        return angles if self.order == 1 else 0.5 * angles

    def _sequence(self) -> list[tuple[int, int, int | None, int]]:
        """Return (x, z, ancilla or None, index of the angle) in the order of a step of order 1."""
        symmetric, antisymmetric = self.strings
        found: list[tuple[int, int, int | None, int]] = []
        for s, (x, z) in enumerate(symmetric.tolist()):
            found += [(x, z, b, b * len(symmetric) + s) for b in range(self.ancillas)]
        first = self.ancillas * len(symmetric)
        return found + [(x, z, None, first + s) for s, (x, z) in enumerate(antisymmetric.tolist())]

    def append(self, circuit: QuantumCircuit, angles: Sequence[Any], times: int) -> None:
        """Append ``times`` steps; ``angles`` are `gate_angles`."""
        forward = self._sequence()
        step = forward if self.order == 1 else forward + forward[::-1]
        for x, z, ancilla, index in step * times:
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
        """Apply ``times`` steps to states of shape (2^ancillas, 2^q); ``angles`` are those of a step.

        Each string P permutes the amplitudes and multiplies them by phases.
        """
        symmetric, antisymmetric = self.strings
        index, gates = np.arange(2**self.system), self.gate_angles(angles)
        z_of = 1.0 - 2.0 * ((np.arange(2**self.ancillas)[:, None] >> np.arange(self.ancillas)) & 1)
        with_ancillas = gates[: self.ancillas * len(symmetric)].reshape(self.ancillas, -1)
        # The factors of one string with all ancillas commute: they act as one angle for each k.
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
        """Return the phase i^|y| of P = i^|y| X^x Z^z, which follows from Y = iXZ."""
        return complex(1j ** (int(x & z).bit_count() % 4))


def _popcount(masks: NDArray) -> NDArray:
    return np.array([int(mask).bit_count() for mask in masks])


def _sign(masks: NDArray) -> NDArray:
    return 1.0 - 2.0 * (_popcount(masks) % 2)
