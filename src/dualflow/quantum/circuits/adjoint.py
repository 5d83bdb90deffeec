"""Derivatives by all angles of a circuit by the adjoint method, for many circuits together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .fidelity import ROTATIONS, Step, apply_gate, half_angles, halves

__all__ = ["angle_gradients", "pauli_product"]


def angle_gradients(
    n_qubits: int, steps: Sequence[Step], angles: NDArray, states: NDArray, cotangents: NDArray
) -> NDArray:
    """Return ∂L/∂angle for every circuit, given the derivative dL = Re Σᵢ ⟨λᵢ|dφᵢ⟩ by the final states φᵢ.

    This is the adjoint method (Jones & Gacon, arXiv:2009.02823), one pass from the last gate to the first. A rotation
    exp(−iθP/2) contributes ½ Im⟨λ|P|φ⟩ with λ and φ directly after it; then its inverse is applied to both. It needs
    two states for each circuit and the time of three runs, for any number of angles.

    Parameters
    ----------
    n_qubits : int
    steps : sequence of Step
    angles : array of shape (k, G)
    states : complex array of shape (k, 2^q)
        φᵢ, as `fidelity.evolve` returns them. Not changed.
    cotangents : complex array of shape (k, 2^q)
        λᵢ. Not changed.

    Returns
    -------
    array of shape (k, G)
    """
    shape = (2**n_qubits, len(angles))
    phi, lam = np.empty(shape, dtype=complex), np.empty(shape, dtype=complex)
    phi[:], lam[:] = states.T, cotangents.T
    out = np.zeros(angles.shape)
    for gate, qubits, angle in reversed(steps):
        if isinstance(angle, int):
            out[:, angle] += 0.5 * pauli_product(lam, gate[1], qubits[0], phi).imag
        # All other gates are their own inverse.
        back = -half_angles(angle, angles) if gate in ROTATIONS else half_angles(angle, angles)
        apply_gate(phi, gate, qubits, back)
        apply_gate(lam, gate, qubits, back)
    return out


def pauli_product(left: NDArray, pauli: str, qubit: int, right: NDArray) -> NDArray:
    """Return ⟨left|P|right⟩ for P = "x", "y" or "z" on one qubit, for each column of arrays of shape (2^q, k)."""
    (a, b), (c, d) = halves(left, qubit), halves(right, qubit)
    axes = "ijk,ijk->k"
    if pauli == "z":
        return np.einsum(axes, a.conj(), c) - np.einsum(axes, b.conj(), d)
    up, down = np.einsum(axes, a.conj(), d), np.einsum(axes, b.conj(), c)
    return up + down if pauli == "x" else -1j * (up - down)
