"""Circuits that measure X, Y or Z on every qubit after U(x), from which one-qubit reduced states are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from .fidelity import Step, StepCircuit, angle_steps, count_angles, zz_steps

__all__ = ["SETTINGS", "ProjectedCircuit"]

#: Last angles (of RY, of RX) of all qubits for a measurement of X, of Y and of Z.
SETTINGS = np.array([[-0.5 * np.pi, 0.0], [0.0, 0.5 * np.pi], [0.0, 0.0]])


@dataclass(frozen=True, repr=False)
class ProjectedCircuit(StepCircuit):
    """U(x) of a feature map, then RY and RX by two angles that all qubits share.

    With the angles of `SETTINGS` all qubits are measured in X, Y or Z. Three circuits for each point give all one-qubit
    reduced density matrices (Huang et al., Nat. Commun. 12, 2631 (2021)).

    Parameters
    ----------
    n_qubits : int ≥ 1
    steps : sequence of (gate, qubits, angle)
        U in the gates h, x, cx, cz, rx, ry, rz. An angle is None, a float, or the int index of a parameter.
    label : str
        Name of the feature map; maps of one label and width must be equal.

    Examples
    --------
    >>> from dualflow.quantum.circuits import ProjectedCircuit
    >>> circuit = ProjectedCircuit(n_qubits=1, steps=(("ry", (0,), 0),), label="angle")
    >>> circuit.n_parameters  # one of the map, and two of the setting
    3
    """

    family: ClassVar[str] = "projected"
    purpose: ClassVar[str] = "the state of each qubit after U(x)"
    sent_by: ClassVar[str] = "`ProjectedKernel` on a device"
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("U(x)", ("q",)),
        ("RY, RX on each, for X, Y or Z", ("q",)),
    )
    two_qubit_formula: ClassVar[str] = "r·q·(q − 1)"
    depth_formula: ClassVar[str] = "6·q − 5 + (r − 1)·(3·q + 2)"
    formula_note: ClassVar[str] = (
        "q ≥ 3; the zz map of r repetitions; the angle map has no gates on two qubits, and depth 3"
    )

    @property
    def n_parameters(self) -> int:
        return count_angles(self.steps) + 2

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(2, angle_steps(2), "angle"), cls(3, zz_steps(3, 1), "zz_r1")

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """Steps of U and the rotations of the setting."""
        last = self.n_parameters - 2
        rotations = [(gate, (k,), last + i) for k in range(self.n_qubits) for i, gate in enumerate(("ry", "rx"))]
        return (*self.steps, *rotations)
