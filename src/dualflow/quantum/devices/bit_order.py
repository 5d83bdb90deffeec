"""Check of the bit order: basis states whose read-outs show which bit belongs to which qubit, despite noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError
from ..circuits import ParametricCircuit
from ..circuits.calibration import CalibrationCircuit

if TYPE_CHECKING:
    from .base import Device, Readout

#: Shots of each circuit of the check.
SHOTS_PER_STATE = 200
#: Seed of both jobs of the check.
CHECK_SEED = 0
#: Least change of a bit's share of ones between a state and its complement: 4 standard deviations of shot noise.
MIN_SHARE_CHANGE = 4.0 * np.sqrt(0.5 / SHOTS_PER_STATE)


def basis_states(circuit: ParametricCircuit) -> tuple[CalibrationCircuit, tuple[NDArray, NDArray]]:
    """Return the circuit of the check and the bindings of its two jobs, each run with `SHOTS_PER_STATE`.

    In the first job, circuit j prepares qubit k in binary digit j of k + 1; the second job prepares the complements.
    The circuits in which a bit reads 1 more often in the first job than in the second give the number of its qubit. A
    bit that does not change between the jobs shows a fault of the device.
    """
    q = circuit.n_qubits
    digits = np.array([[(k + 1) >> j & 1 for k in range(q)] for j in range(q.bit_length())], dtype=float)
    return CalibrationCircuit(q, circuit), (np.pi * digits, np.pi * (1.0 - digits))


def checking_shots(n_qubits: int) -> int:
    """Return the shots of both jobs of a check together."""
    return 2 * n_qubits.bit_length() * SHOTS_PER_STATE


def check_bit_order(device: Device, circuit: ParametricCircuit, readouts: Sequence[Readout]) -> None:
    """Raise `DeviceError` unless each bit of a circuit is read from its own qubit.

    The check works with read-out errors whose two probabilities sum to 0.6. From a sum of 0.8 on, a bit cannot be
    distinguished from noise.

    Parameters
    ----------
    device : Device
    circuit : ParametricCircuit
    readouts : two Readout
        Of the two jobs of its `basis_states`.
    """
    q = circuit.n_qubits
    bits = (np.arange(2**q)[:, None] >> np.arange(q)) & 1
    # Share of ones of each bit in each circuit minus that in its complement, shape (circuits, q).
    first, second = (readout.ordered("little").probabilities @ bits for readout in readouts)
    more = first - second
    came_from = ((more > 0) * (1 << np.arange(q.bit_length()))[:, None]).sum(axis=0) - 1
    is_significant = np.abs(more) > MIN_SHARE_CHANGE
    if is_significant.all() and np.array_equal(came_from, np.arange(q)):
        return
    if not more.any() or np.array_equal(readouts[0].probabilities, readouts[1].probabilities):
        found = "two jobs that differ in every qubit gave the same: it repeats a result, or runs no circuit"
    elif not is_significant.all():
        bit, share = int(np.argmin(np.abs(more).min(axis=0))), 100 * np.abs(more).min()
        found = (
            f"bit {bit} reads 1 as often where 1 was prepared as where 0 was, to {share:.0f} in 100 shots: that is "
            "noise, which shows no order"
        )
    elif np.array_equal(came_from, np.arange(q)[::-1]):
        found = "the bits come back in reverse order"
    elif np.array_equal(np.sort(came_from), np.arange(q)):
        found = f"bits 0 … {q - 1} read what was prepared on qubits {', '.join(map(str, came_from))}"
    else:
        found = "no order of the qubits explains what its bits read"
    raise DeviceError(
        f"device {device.name!r}: bit order of {circuit.name!r}: {found}; nothing it measures can be used"
    )
