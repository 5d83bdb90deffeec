"""Random generators, made from the ``random_state`` of users and from saved states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...exceptions import ProblemError

#: Words of 32 bits that a new seed has.
SEED_WORDS = 8
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def generator_of(random_state: Any) -> np.random.Generator:
    """Return numpy's `default_rng` of a ``random_state``; a `ProblemError` if it is none."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ProblemError(
            f"random_state={random_state!r} must be an integer ≥ 0, a numpy.random.Generator or None"
        ) from None


def generator_of_run(random_state: Any, moves: bool) -> np.random.Generator:
    """Return the generator of one run: a new one, or a copy of a given generator.

    If ``moves``, a given generator is set to a seed that it draws itself, so that the next run draws other numbers.
    """
    rng = generator_of(random_state)
    if rng is not random_state:
        return rng
    copied, given = generator(generator_state(rng)), rng.bit_generator
    if moves:
        given.state = type(given)(rng.integers(1 << 32, size=SEED_WORDS)).state
    return copied


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """Return the state of a random generator as plain data, for a solver's state."""
    return dict(rng.bit_generator.state)


def generator(state: Mapping[str, Any]) -> np.random.Generator:
    """Return a new generator that continues from a `generator_state`."""
    # The state may come from a file; numpy accepts any position, and would read memory there.
    name, positions = state["bit_generator"], (state["state"].get("pos", 0), state.get("buffer_pos", 0))
    if name not in _BIT_GENERATORS or not (0 <= positions[0] <= 624 and 0 <= positions[1] <= 4):
        raise ValueError(f"the saved state of the random generator {name!r} is not valid")
    bit_generator = getattr(np.random, name)()
    bit_generator.state = dict(state)
    return np.random.Generator(bit_generator)
