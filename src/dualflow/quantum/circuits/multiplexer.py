"""Multiplexed RY and RZ, built of rotations and CX: one rotation angle for each value of the control qubits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["multiplex_angles", "multiplexed_ry", "multiplexed_rz", "walsh"]


def multiplexed_ry(circuit: QuantumCircuit, angles: Sequence[Any], target: int, controls: Sequence[int]) -> None:
    """Append 2^c RY and 2^c CX in Gray-code order (no CX for c = 0), c = len(controls).

    With ``angles`` = `multiplex_angles` (θ) the target rotates by θ_j if the controls have the value j = Σ_k bit_k 2^k,
    bit_k of ``controls[k]`` (Möttönen, Vartiainen, Bergholm, Salomaa, PRL 93, 130502 (2004), fig. 2).
    """
    _multiplexed(circuit, circuit.ry, angles, target, controls)


def multiplexed_rz(circuit: QuantumCircuit, angles: Sequence[Any], target: int, controls: Sequence[int]) -> None:
    """Append `multiplexed_ry` with RZ in place of RY; CX on the target inverts both rotations."""
    _multiplexed(circuit, circuit.rz, angles, target, controls)


def _multiplexed(
    circuit: QuantumCircuit,
    rotate: Callable[[Any, int], Any],
    angles: Sequence[Any],
    target: int,
    controls: Sequence[int],
) -> None:
    for k, angle in enumerate(angles):
        rotate(angle, target)
        if len(controls):
            # The bit in which the k-th and the next Gray code differ; the last CX closes the cycle.
            changed = min(_trailing_zeros(k + 1), len(controls) - 1)
            circuit.cx(controls[changed], target)


def multiplex_angles(theta: ArrayLike) -> NDArray:
    """Return the gates' angles φ_k = 2^−c Σ_j (−1)^(j·gray(k)) θ_j, shape (…, 2^c), with the inner product of bits."""
    theta = np.asarray(theta, dtype=float)
    k = np.arange(theta.shape[-1])
    return walsh(theta)[..., k ^ (k >> 1)] / theta.shape[-1]


def walsh(values: NDArray) -> NDArray:
    """Return the Walsh-Hadamard transform Σ_j (−1)^(i·j) v_j over the last axis, whose length is a power of two."""
    width = values.shape[-1]
    out, spare, half = values.copy(), np.empty_like(values), 1
    while half < width:
        shape = (*values.shape[:-1], width // (2 * half), 2, half)
        before, after = out.reshape(shape), spare.reshape(shape)
        np.add(before[..., 0, :], before[..., 1, :], out=after[..., 0, :])
        np.subtract(before[..., 0, :], before[..., 1, :], out=after[..., 1, :])
        out, spare, half = spare, out, 2 * half
    return out


def _trailing_zeros(k: int) -> int:
    return (k & -k).bit_length() - 1
