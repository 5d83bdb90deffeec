"""Rotations of real amplitudes by multiplexed RY, from the recursive cosine-sine decomposition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ...exceptions import ProblemError
from .multiplexer import multiplexed_ry

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["append_rotation", "rotation_angles", "rotation_matrix", "rotation_targets"]


def rotation_targets(n_qubits: int) -> list[int]:
    """Return the target of each of the 2^q − 1 multiplexers in order of application: 0, 1, 0, 2, 0, 1, 0, …"""
    return [(k & -k).bit_length() - 1 for k in range(1, 2**n_qubits)]


def append_rotation(circuit: QuantumCircuit, angles: Sequence[Any], n_qubits: int) -> None:
    """Append the 2^q − 1 multiplexed RY of a rotation on the qubits 0 … q−1, each with 2^(q−1) RY and CX.

    ``angles`` are those of the gates, the result of `multiplex_angles`, multiplexer by multiplexer.
    """
    width = 2 ** (n_qubits - 1)
    for k, target in enumerate(rotation_targets(n_qubits)):
        controls = [qubit for qubit in range(n_qubits) if qubit != target]
        multiplexed_ry(circuit, angles[k * width : (k + 1) * width], target, controls)


def rotation_angles(R: NDArray) -> NDArray:
    """Return the angles of the multiplexers, shape (2^q − 1, 2^(q−1)), of a rotation R in SO(2^q), shape (2^q, 2^q).

    There are as many angles as SO(2^q) has dimensions. Every block is split by the cosine-sine decomposition,
    R = (U₁ ⊕ U₂) (C −S; S C) (V₁ ⊕ V₂), and its factors are split again (Möttönen, Vartiainen, Bergholm, Salomaa,
    PRL 93, 130502 (2004)). This takes O(8^q) on a classical computer.

    Raises
    ------
    ProblemError
        R is not a rotation.
    """
    R = np.asarray(R, dtype=float)
    size = len(R)
    if R.shape != (size, size) or size < 2 or size & (size - 1):
        raise ProblemError(f"R has shape {R.shape}; a rotation of q qubits has (2^q, 2^q), q ≥ 1")
    if np.abs(R @ R.T - np.eye(size)).max() > 1e-9 or np.linalg.det(R) < 0:
        raise ProblemError("R must be orthogonal with determinant +1")
    return np.array(_split([R]))


def rotation_matrix(angles: NDArray) -> NDArray:
    """Return R of shape (2^q, 2^q) for angles of shape (2^q − 1, 2^(q−1)), by products of matrices."""
    size = len(angles) + 1
    R = np.eye(size)
    for row, target in zip(angles, rotation_targets(size.bit_length() - 1), strict=True):
        pairs = R.reshape(-1, 2, 2**target, size)
        c, s = (turn(0.5 * row).reshape(-1, 2**target, 1) for turn in (np.cos, np.sin))
        low, high = pairs[:, 0], pairs[:, 1]
        R = np.stack([c * low - s * high, s * low + c * high], axis=1).reshape(size, size)
    return R


def _split(blocks: list[NDArray]) -> list[NDArray]:
    """Return the multiplexers of a block-diagonal rotation; all blocks have one size and determinant +1."""
    size = len(blocks[0])
    if size == 2:
        return [np.array([2.0 * np.arctan2(block[1, 0], block[0, 0]) for block in blocks])]
    first, middle, last = [], [], []
    for block in blocks:
        (u1, u2), theta, (v1, v2) = scipy.linalg.cossin(block, p=size // 2, q=size // 2, separate=True)
        # The factors are unique up to the signs of pairs of singular vectors: choose signs that make all rotations.
        for u, v in ((u1, v1), (u2, v2)):
            if np.linalg.det(v) < 0:
                v[0], u[:, 0], theta[0] = -v[0], -u[:, 0], -theta[0]
        if np.linalg.det(u1) < 0:
            u1[:, 0], u2[:, 0], theta[0] = -u1[:, 0], -u2[:, 0], theta[0] + np.pi
        first += [v1, v2]
        middle.append(2.0 * theta)
        last += [u1, u2]
    return [*_split(first), np.concatenate(middle), *_split(last)]
