"""Runs of gates that are one operation with many angles: multiplexed rotations and diagonal gates.

A CX on the target of an RY or RZ inverts its angle where the control is 1. A run of such rotations on one target, with
CX between them, is therefore one rotation by Φ(c) for each value c of the control qubits, with

    Φ(c) = Σ_j φ_j (−1)^(c·m_j),    m_j: the controls whose CX came an odd number of times before rotation j,

followed by a CX for each control that came an odd number of times. A run of RZ and RZZ multiplies the amplitude of
outcome c by exp(−½iΦ(c)), m_j the qubits of gate j. Φ is a Walsh-Hadamard transform of φ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..circuits.multiplexer import walsh

#: Angle of a gate: None (no angle), a number, the index of a circuit's parameter, or its index and a factor.
Angle = int | float | tuple[int, float] | None
#: A gate of a circuit: PennyLane's name, its qubits, its angle.
Step = tuple[str, tuple[int, ...], Angle]

#: Fewest rotations that are fused.
MIN_ROTATIONS = 2


@dataclass(frozen=True)
class FusedGate:
    """Rotations of one kind that are applied together."""

    rotation: str  # {"RY", "RZ", "diagonal"}
    #: The qubits of c = Σ_k bit_k 2^k, bit_k of ``controls[k]``; for "diagonal" all qubits of the gates.
    controls: tuple[int, ...]
    target: int | None  # None for "diagonal"
    #: masks, indices: m_j, all different, and the index of the parameter of φ_j; integer array of shape (m,).
    masks: NDArray
    indices: NDArray
    #: factors, constants: φ_j = constants[j] + factors[j] · parameter; the factor is 0 without a parameter; shape (m,).
    factors: NDArray
    constants: NDArray

    def angles(self, parameters: NDArray) -> NDArray:
        """Return Φ, shape (k, 2^c) for c controls, for parameters of shape (k, P); (1, 2^c) if no angle has one."""
        if self.factors.any():
            phi = self.constants + self.factors * parameters[:, self.indices]
        else:
            phi = self.constants[None]
        spread = np.zeros((len(phi), 2 ** len(self.controls)))
        spread[:, self.masks] = phi
        return walsh(spread)

    def matrices(self, half: NDArray) -> NDArray:
        """Return the rotations by 2 · ``half``, shape (m, 2, 2), for angles of shape (m,)."""
        found = np.zeros((len(half), 2, 2), dtype=complex)
        if self.rotation == "RZ":
            found[:, 0, 0] = np.exp(-1j * half)
            found[:, 1, 1] = found[:, 0, 0].conj()
        else:
            found[:, 0, 0] = found[:, 1, 1] = np.cos(half)
            found[:, 1, 0] = np.sin(half)
            found[:, 0, 1] = -found[:, 1, 0]
        return found


def fuse(steps: list[Step]) -> list[Step | FusedGate]:
    """Return the steps of a circuit with its runs of rotations fused; other steps are left as they are."""
    found: list[Step | FusedGate] = []
    first = 0
    while first < len(steps):
        gates, stop = max((_multiplexed(steps, first), _diagonal(steps, first)), key=lambda run: run[1])
        found += gates or [steps[first]]
        first = max(stop, first + 1)
    return found


def _multiplexed(steps: list[Step], first: int) -> tuple[list[Step | FusedGate], int]:
    """Return the gates that replace a run on one target which begins at ``first``, and its end; none if it is short."""
    target, rotation, toggled = steps[first][1][-1], None, 0
    controls: dict[int, int] = {}
    masks: dict[int, Angle] = {}
    stop = first
    for name, qubits, angle in steps[first:]:
        if qubits[-1] != target:
            break
        if name == "CNOT":
            toggled ^= 1 << controls.setdefault(qubits[0], len(controls))
        elif name in ("RY", "RZ") and rotation in (None, name) and toggled not in masks:
            rotation, masks[toggled] = name, angle
        else:
            break
        stop += 1
    if len(masks) < MIN_ROTATIONS or rotation is None:
        return [], first
    odd: list[Step] = [("CNOT", (qubit, target), None) for qubit, k in controls.items() if toggled >> k & 1]
    return [_gate(rotation, controls, target, masks), *odd], stop


def _diagonal(steps: list[Step], first: int) -> tuple[list[Step | FusedGate], int]:
    """Return the gate that replaces a run of RZ and RZZ which begins at ``first``, and its end; none if it is short."""
    controls: dict[int, int] = {}
    masks: dict[int, Angle] = {}
    stop = first
    for name, qubits, angle in steps[first:]:
        if name not in ("RZ", "IsingZZ"):
            break
        mask = sum(1 << controls.setdefault(qubit, len(controls)) for qubit in qubits)
        if mask in masks:
            break
        masks[mask] = angle
        stop += 1
    if len(masks) < MIN_ROTATIONS:
        return [], first
    return [_gate("diagonal", controls, None, masks)], stop


def _gate(rotation: str, controls: dict[int, int], target: int | None, masks: dict[int, Any]) -> FusedGate:
    pairs = [angle if isinstance(angle, tuple) else (angle, 1.0) for angle in masks.values()]
    has_parameter = np.array([not isinstance(angle, float) for angle, _ in pairs])
    values = np.array([angle for angle, _ in pairs], dtype=float)
    return FusedGate(
        rotation,
        tuple(controls),
        target,
        np.array(list(masks)),
        np.where(has_parameter, values, 0).astype(np.intp),
        np.where(has_parameter, [factor for _, factor in pairs], 0.0),
        np.where(has_parameter, 0.0, values),
    )
