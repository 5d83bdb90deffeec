"""Points all of whose coordinates are 0 or 1, as bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .values import immutable, in_parts

__all__ = ["bits_of", "values_of"]

#: Numbers from which it is worth a look whether all of them are 0 or 1, and features up to which: so many values stay
#: in the first-level cache.
LOOKED_AT, MOST_BITS = 1 << 14, 2048


def bits_of(X: NDArray, J: NDArray | slice = slice(None)) -> NDArray | None:
    """Points all of whose coordinates are 0 or 1, as words of 64 bits, shape (n, words); None for all others, and where
    they are few, or have many features."""
    m = X.shape[1]
    if X.size < LOOKED_AT or m > MOST_BITS or X.item(0) not in (0.0, 1.0) or not _is_binary(X[:1]):
        return None
    bits = np.zeros((len(range(len(X))[J]) if isinstance(J, slice) else len(J), -(-m // 64) * 8), dtype=np.uint8)
    done = 0
    for rows in in_parts(X, J):
        points = X[rows]
        if not _is_binary(points):
            return None
        bits[done : done + len(points), : -(-m // 8)] = np.packbits(points != 0, axis=1)
        done += len(points)
    return immutable(bits.view(np.uint64), np.uint64)


def _is_binary(points: NDArray) -> bool:
    return bool(((points == 0) | (points == 1)).all())


def values_of(gamma: float, most: int) -> NDArray:
    """exp(−γh) of h = 0, 1, …, and 0 where that would be denormal, as in exponential.h."""
    values = np.exp(-gamma * np.arange(most + 1.0))
    return immutable(np.where(values < np.finfo(float).tiny, 0.0, values))
