"""Replace the random generators in copies of users' samplers and simulators, which would draw the same numbers."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

#: Attribute of PennyLane's transformed devices that holds the original device.
INNER_DEVICE = "_original_device"


def generators_of(thing: Any) -> dict[str, str]:
    """Return the states of the random generators among an object's attributes, by attribute name."""
    held = vars(thing) if hasattr(thing, "__dict__") else {}
    found = {name: str(one.bit_generator.state) for name, one in held.items() if isinstance(one, np.random.Generator)}
    inner = generators_of(held[INNER_DEVICE]) if INNER_DEVICE in held else {}
    return found | {f"{INNER_DEVICE}.{name}": state for name, state in inner.items()}


def reseed(thing: Any, states: dict[str, str], job: str) -> None:
    """Replace an object's random generators by new ones, seeded by the states of the old ones and the job.

    Parameters
    ----------
    thing : object
        Changed in place.
    states : dict
        `generators_of` the object before any job.
    job : str
        Text that identifies the job, including its seed.
    """
    for path, state in states.items():
        owner, name = thing, path
        while name.startswith(f"{INNER_DEVICE}."):
            owner, name = getattr(owner, INNER_DEVICE), name.removeprefix(f"{INNER_DEVICE}.")
        setattr(owner, name, np.random.default_rng(list(hashlib.sha256(f"{job} {path} {state}".encode()).digest())))
