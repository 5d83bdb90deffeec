"""What a surface code would take to run a circuit: a model, with its assumptions in the constants below.

Litinski, "A Game of Surface Codes", Quantum 3, 128 (2019): a compact block of 1.5n + 3 tiles for n logical qubits,
2d² physical qubits a tile, and one distillation block that makes a T state every so many d code cycles: 15-to-1 (11
tiles, 11d cycles, error 35p³), or 225-to-1 (176 tiles, 15d cycles, error 35(35p³)³) where that is not good enough. T
gates are done one after another, Clifford gates are free, a tile fails with 0.1 (100p)^((d+1)/2) a code cycle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["CYCLE_S", "FAILURE", "PHYSICAL_ERROR", "Footprint", "footprint"]

#: Physical error rate, and seconds of a code cycle.
PHYSICAL_ERROR, CYCLE_S = 1e-3, 1e-6
#: Probability that a shot fails, from tiles and from T states each.
FAILURE = 1e-2
#: Distillation: tiles, units of d cycles a state, error of a state.
BLOCKS = (
    (11, 11, lambda p: 35 * p**3),
    (176, 15, lambda p: 35 * (35 * p**3) ** 3),
)
#: Of the compact block: units of d cycles a T gate at most.
CONSUMPTION = 9
#: A code of a larger distance is none that anybody can imagine.
LARGEST_DISTANCE = 201


@dataclass(frozen=True)
class Footprint:
    """A machine: code distance, physical qubits, and seconds a shot."""

    distance: int
    physical_qubits: int
    seconds_a_shot: float


def footprint(
    qubits: float, t_count: float, physical_error: float = PHYSICAL_ERROR, cycle_s: float = CYCLE_S
) -> Footprint | None:
    """The smallest machine of this model on which a shot succeeds; None if no distillation here is good enough.

    Parameters
    ----------
    qubits : float
        Logical.
    t_count : float
        Of one shot; at least one step is made.
    physical_error : float
    cycle_s : float
        Seconds.
    """
    states = max(1.0, t_count)
    for tiles, every, error in BLOCKS:
        if states * error(physical_error) > FAILURE:
            continue
        together = math.ceil(1.5 * qubits) + 3 + tiles
        steps = states * max(every, CONSUMPTION)
        for distance in range(3, LARGEST_DISTANCE + 1, 2):
            cycles = steps * distance
            if together * cycles * 0.1 * (100 * physical_error) ** ((distance + 1) / 2) <= FAILURE:
                return Footprint(distance, together * 2 * distance**2, cycles * cycle_s)
    return None
