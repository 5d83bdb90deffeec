"""Where an engine stands, as a value that can be put back, stored, and checked before compiled code relies on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._path import BOUND, COUNT, ENTERING, FREE, MULTIPLIER, PENDING, REST

__all__ = ["COUNTERS", "FIGURES", "Snapshot", "stored_array"]

#: How many there are.
COUNTERS, FIGURES = 8, 4
#: Where a variable can be between two calls.
STORED = (REST, BOUND, FREE, PENDING)


@dataclass(frozen=True)
class Snapshot:
    """All of a `State` that moves: the vectors of its n variables, the margin, its inverse, and d."""

    alpha: NDArray
    g: NDArray
    p: NDArray
    where: NDArray
    members: NDArray
    inverse: NDArray
    counters: NDArray
    figures: NDArray
    d: float

    @property
    def b(self) -> float:
        """The multiplier of the equality, −ν."""
        return float(self.figures[MULTIPLIER])

    def check(self, n: int) -> None:
        """`ValueError` unless this is what a state of n variables leaves behind: compiled code relies on it."""
        m = len(self.members)
        for name in ("alpha", "g", "p"):
            stored_array(vars(self), name, "f8", (n,))
        stored_array(vars(self), "where", "i1", (n,))
        stored_array(vars(self), "members", "i8", (m,))
        stored_array(vars(self), "inverse", "f8", (m + 1, m + 1))
        stored_array(vars(self), "counters", "i8", (COUNTERS,))
        stored_array(vars(self), "figures", "f8", (FIGURES,))
        if not (np.isfinite(self.d) and np.isin(self.where, STORED).all()):
            raise ValueError("its variables are nowhere")
        if not np.array_equal(np.sort(self.members), np.flatnonzero(self.where == FREE)):
            raise ValueError("its margin points are not those that are said to be free")
        if self.counters[COUNT] != m or self.counters[ENTERING] != -1 or (np.delete(self.counters, ENTERING) < 0).any():
            raise ValueError("its counters are not those of its margin points")


def stored_array(arrays: Mapping[str, NDArray], name: str, dtype: str, shape: tuple[int, ...]) -> NDArray:
    """The array of that name, dtype and shape, its numbers finite, but for bounds; ValueError for another."""
    array = arrays[name]
    if array.dtype != np.dtype(dtype) or array.shape != shape:
        raise ValueError(f"its {name!r} has dtype {array.dtype} and shape {array.shape}, not {dtype} and {shape}")
    if dtype == "f8" and not (np.isfinite(array).all() or (name == "u" and not np.isnan(array).any())):
        raise ValueError(f"its {name!r} holds NaN or infinity")
    return array
