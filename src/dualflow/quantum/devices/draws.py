"""Random generators that users' samplers and simulators hold: copies of one would all draw the same numbers."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

__all__ = ["generators_of", "reseed"]

#: Where PennyLane's transformed devices keep the one that runs.
INNER = "_original_device"


def generators_of(thing: Any) -> dict[str, str]:
    """The states of the random generators among an object's attributes, by their names."""
    held = vars(thing) if hasattr(thing, "__dict__") else {}
    found = {name: str(one.bit_generator.state) for name, one in held.items() if isinstance(one, np.random.Generator)}
    inner = generators_of(held[INNER]) if INNER in held else {}
    return found | {f"{INNER}.{name}": state for name, state in inner.items()}


def reseed(thing: Any, states: dict[str, str], job: str) -> None:
    """Give an object generators of a job's own, which the states of those it held and the job decide.

    Parameters
    ----------
    thing : object
    states : dict
        `generators_of` it, before any job.
    job : str
        What is run, with its seed.
    """
    for path, state in states.items():
        owner, name = thing, path
        while name.startswith(f"{INNER}."):
            owner, name = getattr(owner, INNER), name.removeprefix(f"{INNER}.")
        setattr(owner, name, np.random.default_rng(list(hashlib.sha256(f"{job} {path} {state}".encode()).digest())))
