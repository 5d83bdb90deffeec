"""Has noise left anything? Pearson's χ² test of counts against the uniform distribution, and its power."""

from __future__ import annotations

import numpy as np
import scipy.special
from numpy.typing import NDArray

__all__ = ["is_told_from_uniform", "is_uniform"]

#: Chance that uniform counts are taken for others, and that the test misses a distribution it is said to tell apart.
FALSE_ALARM, MISS = 1e-3, 1e-6
#: The same for exact distributions: largest deviation that is round-off, and smallest that is not.
ROUND_OFF, VISIBLE = 1e-12, 1e-6


def is_uniform(found: NDArray, shots: float | None) -> bool:
    """Whether frequencies of shape (N,) cannot be told from 1/N: χ² = S N Σ (π − 1/N)² within its 1 − 1e-3 quantile.

    ``shots`` is the number S behind them, or None where they are exact.
    """
    outcomes = len(found)
    if shots is None:
        return bool(np.abs(found - 1 / outcomes).max() <= ROUND_OFF)
    return _chi_square(found, shots) <= scipy.special.chdtri(outcomes - 1, FALSE_ALARM)


def is_told_from_uniform(distribution: NDArray, shots: float | None) -> bool:
    """Whether S shots of a distribution would pass `is_uniform` with a chance of at most 1e-6.

    χ² is then noncentral with λ = S N Σ (π − 1/N)².
    """
    outcomes = len(distribution)
    if shots is None:
        return bool(np.abs(distribution - 1 / outcomes).max() > VISIBLE)
    limit = scipy.special.chdtri(outcomes - 1, FALSE_ALARM)
    return bool(scipy.special.chndtr(limit, outcomes - 1, _chi_square(distribution, shots)) <= MISS)


def _chi_square(frequencies: NDArray, shots: float) -> float:
    outcomes = len(frequencies)
    return float(shots * outcomes * ((frequencies - 1 / outcomes) ** 2).sum())
