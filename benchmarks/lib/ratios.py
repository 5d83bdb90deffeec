"""Medians, ratios and growth exponents, with 95 % bootstrap bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000


@dataclass(frozen=True)
class Estimate:
    """A figure with its 95 % bootstrap bounds."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def median_draws(times: Sequence[float], rng: np.random.Generator) -> NDArray:
    """Medians of DRAWS resamples of the times, shape (DRAWS,)."""
    sample = np.asarray(times, dtype=float)
    return np.median(sample[rng.integers(0, len(sample), (DRAWS, len(sample)))], axis=1)


def median(times: Sequence[float], seed: int = 0) -> Estimate:
    """Median of the times."""
    return _estimate(float(np.median(times)), median_draws(times, np.random.default_rng(seed)))


def ratio(theirs: Sequence[float], ours: Sequence[float], seed: int = 0) -> Estimate:
    """How many times faster we are: median(theirs) / median(ours); both sides are resampled."""
    rng = np.random.default_rng(seed)
    draws = median_draws(theirs, rng) / median_draws(ours, rng)
    return _estimate(float(np.median(theirs) / np.median(ours)), draws)


def geometric_mean(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], seed: int = 0) -> Estimate:
    """Geometric mean over cells (times of theirs, times of ours) of the ratios of medians."""
    rng = np.random.default_rng(seed)
    logs = np.array([np.log(median_draws(theirs, rng) / median_draws(ours, rng)) for theirs, ours in pairs])
    value = np.mean([np.log(np.median(theirs) / np.median(ours)) for theirs, ours in pairs])
    return _estimate(float(np.exp(value)), np.exp(logs.mean(axis=0)))


def exponent(sizes: Sequence[int], times: Sequence[Sequence[float]], seed: int = 0) -> tuple[Estimate, NDArray]:
    """Slope of log(median time) over log(n) by least squares, and its bootstrap draws.

    Parameters
    ----------
    sizes : n, at least two different ones
    times : for each n, the times of its runs
    """
    rng = np.random.default_rng(seed)
    x = np.log(np.asarray(sizes, dtype=float))
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    draws = weights @ np.log([median_draws(runs, rng) for runs in times])
    return _estimate(float(weights @ np.log([np.median(runs) for runs in times])), draws), draws


def _estimate(value: float, draws: NDArray) -> Estimate:
    low, high = np.quantile(draws, [0.025, 0.975])
    return Estimate(value, float(low), float(high))
