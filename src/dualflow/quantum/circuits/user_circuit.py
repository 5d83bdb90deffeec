"""A user's circuit in dualflow's gate set, with a separate angle for each rotation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from ...exceptions import ProblemError
from .fidelity import Step, StepCircuit

__all__ = ["GivenCircuit"]


@dataclass(frozen=True, repr=False)
class GivenCircuit(StepCircuit):
    """Any circuit in the gates h, x, cx, cz, rx, ry, rz, whose parameters are the angles of single rotations.

    Other gates of a circuit that is given as ``ansatz``, such as RZZ and CRX, are decomposed into these first. Each
    parameter is the angle of one Pauli rotation, so that the two-term shift rule is exact (`ParametricCircuit.shifts`).

    Parameters
    ----------
    n_qubits : int ≥ 1
    steps : sequence of (gate, qubits, angle)
        An angle is None, a float, or the int index of a parameter; no two gates may have the same index.
    label : str
        Name of the circuit; circuits of one label and width must be equal.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow.quantum.circuits import GivenCircuit
    >>> circuit = GivenCircuit(2, (("ry", (0,), 0), ("cx", (0, 1), None)), "pair")
    >>> circuit.distribution(np.array([np.pi / 2])).round(6).ravel()  # 00 and 11
    array([0.5, 0. , 0. , 0.5])
    """

    family: ClassVar[str] = "given"
    purpose: ClassVar[str] = "any distribution"
    sent_by: ClassVar[str] = "`ansatz=` with your own circuit"
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (("your circuit", ("q",)),)

    def __post_init__(self) -> None:
        super().__post_init__()
        indices = [angle for _, _, angle in self.steps if isinstance(angle, int)]
        if sorted(indices) != list(range(len(indices))):
            raise ProblemError(f"steps: the angles {indices} must be 0, 1, …, each in one gate, for the shift rule")

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        turned: tuple[Step, ...] = (("ry", (1,), 0.75), ("ry", (0,), 0))
        pair: tuple[Step, ...] = (*turned, ("cx", (0, 1), None), ("rx", (1,), 1), ("ry", (0,), 0.5))
        more: tuple[Step, ...] = (("rz", (0,), 3), ("h", (0,), None), ("cz", (1, 2), None), ("ry", (2,), 2))
        return cls(2, pair, "pair"), cls(3, (*pair, *more, ("x", (1,), None)), "three")
