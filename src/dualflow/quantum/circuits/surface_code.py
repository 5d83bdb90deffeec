"""A model of the surface code that runs a circuit: its distance, physical qubits and time.

The model is that of Litinski, "A Game of Surface Codes", Quantum 3, 128 (2019): a compact block of 1.5n + 3 tiles for n
logical qubits with 2d² physical qubits each, and one distillation block for T states. It is 15-to-1 (11 tiles, 11d code
cycles for a state, error 35p³), or 225-to-1 (176 tiles, 15d cycles, error 35(35p³)³) if the error of the first one is
too large. T gates run one after another, Clifford gates take no time, and a tile fails with probability
0.1 (100p)^((d+1)/2) in each code cycle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["CYCLE_S", "FAILURE", "PHYSICAL_ERROR", "Footprint", "footprint"]

#: Physical error rate p.
PHYSICAL_ERROR = 1e-3
#: Seconds of a code cycle.
CYCLE_S = 1e-6
#: Largest probability that a shot fails, by tiles and by T states each.
FAILURE = 1e-2
#: Distillation blocks: tiles, cycles for a state in units of d, error of a state as a function of p.
DISTILLATION_BLOCKS = (
    (11, 11, lambda p: 35 * p**3),
    (176, 15, lambda p: 35 * (35 * p**3) ** 3),
)
#: Most cycles of the compact block for a T gate, in units of d.
MAX_CYCLES_PER_T = 9
#: Largest code distance that is tried.
MAX_DISTANCE = 201


@dataclass(frozen=True)
class Footprint:
    """Size of a machine: code distance, physical qubits, and seconds of a shot."""

    distance: int
    physical_qubits: int
    seconds_a_shot: float


def footprint(
    qubits: float, t_count: float, physical_error: float = PHYSICAL_ERROR, cycle_s: float = CYCLE_S
) -> Footprint | None:
    """Return the smallest machine of this model on which a shot succeeds; None if no distillation block suffices.

    Parameters
    ----------
    qubits : float
        Logical qubits.
    t_count : float
        T gates of a shot; fewer than one count as one.
    physical_error : float
        Physical error rate p.
    cycle_s : float
        Seconds of a code cycle.
    """
    states = max(1.0, t_count)
    for tiles, cycles_per_state, error in DISTILLATION_BLOCKS:
        if states * error(physical_error) > FAILURE:
            continue
        all_tiles = math.ceil(1.5 * qubits) + 3 + tiles
        steps = states * max(cycles_per_state, MAX_CYCLES_PER_T)
        for distance in range(3, MAX_DISTANCE + 1, 2):
            cycles = steps * distance
            if all_tiles * cycles * 0.1 * (100 * physical_error) ** ((distance + 1) / 2) <= FAILURE:
                return Footprint(distance, all_tiles * 2 * distance**2, cycles * cycle_s)
    return None
