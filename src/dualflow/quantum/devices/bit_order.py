"""Which bit is which qubit: basis states that tell any order of the bits from the right one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError
from ..circuits import CalibrationCircuit, ParametricCircuit

if TYPE_CHECKING:
    from .base import Device, Readout

__all__ = ["SEED", "SHOTS", "basis_states", "check_bit_order"]

SHOTS = 200
SEED = 0


def basis_states(circuit: ParametricCircuit) -> tuple[CalibrationCircuit, NDArray]:
    """What to run on the qubits of a circuit, and its bindings: each with `SHOTS`.

    Qubit k is prepared in the binary digits of k + 1, one digit a circuit, so that what a bit reads most often, circuit
    by circuit, names the qubit it came from.
    """
    q = circuit.n_qubits
    digits = [[(k + 1) >> j & 1 for k in range(q)] for j in range(q.bit_length())]
    return CalibrationCircuit(q, circuit), np.pi * np.array(digits, dtype=float)


def check_bit_order(device: Device, circuit: ParametricCircuit, readout: Readout) -> None:
    """Raise `DeviceError` unless every bit that a circuit gives back is its own qubit's.

    It takes read-out errors below a half.

    Parameters
    ----------
    device : Device
    circuit : ParametricCircuit
    readout : Readout
        Of its `basis_states`.
    """
    q = circuit.n_qubits
    bits = (np.arange(2**q)[:, None] >> np.arange(q)) & 1
    ones = readout.ordered("little").probabilities @ bits  # (circuits, q): how often a bit reads 1
    came_from = ((ones > 0.5) * (1 << np.arange(q.bit_length()))[:, None]).sum(axis=0) - 1
    if np.array_equal(came_from, np.arange(q)):
        return
    if np.array_equal(came_from, np.arange(q)[::-1]):
        found = "the bits come back in reverse order"
    elif (came_from < 0).all():
        found = "every bit reads 0, whatever was prepared"
    else:
        found = f"bits 0 … {q - 1} read what was prepared on qubits {', '.join(map(str, came_from))}"
    raise DeviceError(
        f"device {device.name!r}: bit order of {circuit.name!r}: {found}; nothing it measures can be used"
    )
