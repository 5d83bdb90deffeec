"""Random generators from what users give for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...exceptions import ProblemError

__all__ = ["generator", "generator_of", "generator_of_run", "generator_state"]

#: Words of 32 bits that a new seed has.
SEED_WORDS = 8
_BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def generator_of(random_state: Any) -> np.random.Generator:
    """numpy's `default_rng`; `ProblemError` names the argument where that cannot be made."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ProblemError(
            f"random_state={random_state!r} must be an integer ≥ 0, a numpy.random.Generator or None"
        ) from None


def generator_of_run(random_state: Any, moves: bool) -> np.random.Generator:
    """The generator of one run: a copy of one that is given, which itself, if it ``moves``, goes on from a seed of its
    own drawing, so that the next run draws other numbers."""
    rng = generator_of(random_state)
    if rng is not random_state:
        return rng
    own, given = generator(generator_state(rng)), rng.bit_generator
    if moves:
        given.state = type(given)(rng.integers(1 << 32, size=SEED_WORDS)).state
    return own


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """The state of a random generator as plain data, to be kept in a solver's state."""
    return dict(rng.bit_generator.state)


def generator(state: Mapping[str, Any]) -> np.random.Generator:
    """A fresh generator that continues from `generator_state`."""
    # It may come from a file, and numpy takes any position, and would read memory there.
    name, positions = state["bit_generator"], (state["state"].get("pos", 0), state.get("buffer_pos", 0))
    if name not in _BIT_GENERATORS or not (0 <= positions[0] <= 624 and 0 <= positions[1] <= 4):
        raise ValueError(f"the state of the random generator {name!r} is none")
    bit_generator = getattr(np.random, name)()
    bit_generator.state = dict(state)
    return np.random.Generator(bit_generator)
