"""The position of an engine as a value that can be restored, stored and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._path import AT_LOWER, AT_UPPER, COUNT, ENTERING, FREE, MULTIPLIER, PENDING

#: Length of ``counters``.
N_COUNTERS = 8
#: Length of ``figures``.
N_FIGURES = 4
#: Sets a variable can belong to between two paths.
STORED_SETS = (AT_LOWER, AT_UPPER, FREE, PENDING)


@dataclass(frozen=True)
class Snapshot:
    """All parts of a `State` that change: the vectors of its n variables, the margin, its inverse, and d."""

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
        """Raise `ValueError` unless a state of n variables could have made this; compiled code relies on it."""
        m = len(self.members)
        for name in ("alpha", "g", "p"):
            stored_array(vars(self), name, "f8", (n,))
        stored_array(vars(self), "where", "i1", (n,))
        stored_array(vars(self), "members", "i8", (m,))
        stored_array(vars(self), "inverse", "f8", (m + 1, m + 1))
        stored_array(vars(self), "counters", "i8", (N_COUNTERS,))
        stored_array(vars(self), "figures", "f8", (N_FIGURES,))
        if not (np.isfinite(self.d) and np.isin(self.where, STORED_SETS).all()):
            raise ValueError("the set of one of its variables is unknown")
        if not np.array_equal(np.sort(self.members), np.flatnonzero(self.where == FREE)):
            raise ValueError("its margin points are not its free variables")
        if self.counters[COUNT] != m or self.counters[ENTERING] != -1 or (np.delete(self.counters, ENTERING) < 0).any():
            raise ValueError("its counters do not match its margin points")


def stored_array(arrays: Mapping[str, NDArray], name: str, dtype: str, shape: tuple[int, ...]) -> NDArray:
    """Return the array of that name; raise `ValueError` unless it has this dtype and shape and finite values.

    Upper bounds ``u`` may be infinite.
    """
    array = arrays[name]
    if array.dtype != np.dtype(dtype) or array.shape != shape:
        raise ValueError(f"its {name!r} has dtype {array.dtype} and shape {array.shape}, not {dtype} and {shape}")
    if dtype == "f8" and not (np.isfinite(array).all() or (name == "u" and not np.isnan(array).any())):
        raise ValueError(f"its {name!r} holds NaN or infinity")
    return array
