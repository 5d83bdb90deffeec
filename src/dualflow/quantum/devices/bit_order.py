"""Which bit is which qubit: basis states that tell any order of the bits from the right one, and from noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError
from ..circuits import CalibrationCircuit, ParametricCircuit

if TYPE_CHECKING:
    from .base import Device, Readout

__all__ = ["SEED", "SHOTS", "basis_states", "check_bit_order", "checking_shots"]

SHOTS = 200
SEED = 0
#: How far a bit's share of ones must change from a state to its complement: 4 standard deviations of noise.
TOLD = 4.0 * np.sqrt(0.5 / SHOTS)


def basis_states(circuit: ParametricCircuit) -> tuple[CalibrationCircuit, tuple[NDArray, NDArray]]:
    """What to run on the qubits of a circuit, and the bindings of its two jobs: each with `SHOTS`.

    Qubit k is prepared in the binary digits of k + 1, one digit a circuit, and in the other job in their complements.
    When a bit reads 1 more often, circuit by circuit, names the qubit it came from; and what does not change from job
    to job is no answer to either.
    """
    q = circuit.n_qubits
    digits = np.array([[(k + 1) >> j & 1 for k in range(q)] for j in range(q.bit_length())], dtype=float)
    return CalibrationCircuit(q, circuit), (np.pi * digits, np.pi * (1.0 - digits))


def checking_shots(n_qubits: int) -> int:
    """Shots of both jobs together."""
    return 2 * n_qubits.bit_length() * SHOTS


def check_bit_order(device: Device, circuit: ParametricCircuit, readouts: Sequence[Readout]) -> None:
    """Raise `DeviceError` unless every bit that a circuit gives back is its own qubit's.

    It takes read-out errors whose two probabilities sum to 0.6; from 0.8 on a bit cannot be told from noise.

    Parameters
    ----------
    device : Device
    circuit : ParametricCircuit
    readouts : two Readout
        Of the jobs of its `basis_states`.
    """
    q = circuit.n_qubits
    bits = (np.arange(2**q)[:, None] >> np.arange(q)) & 1
    # How often a bit reads 1 in each circuit, shape (circuits, q), more than in the circuit's complement.
    first, second = (readout.ordered("little").probabilities @ bits for readout in readouts)
    more = first - second
    came_from = ((more > 0) * (1 << np.arange(q.bit_length()))[:, None]).sum(axis=0) - 1
    told = np.abs(more) > TOLD
    if told.all() and np.array_equal(came_from, np.arange(q)):
        return
    if not more.any() or np.array_equal(readouts[0].probabilities, readouts[1].probabilities):
        found = "two jobs that differ in every qubit gave the same: it repeats a result, or runs no circuit"
    elif not told.all():
        bit, share = int(np.argmin(np.abs(more).min(axis=0))), 100 * np.abs(more).min()
        found = (
            f"bit {bit} reads 1 as often where 1 was prepared as where 0 was, to {share:.0f} in 100 shots: that is "
            "noise, and tells no order"
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
