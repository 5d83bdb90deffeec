"""Who mates with whom, which genes they swap, and who survives: drawn for many generations at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["pairings", "survivors", "swaps"]


def pairings(generations: int, population: int, rng: np.random.Generator) -> NDArray:
    """Random permutations, shape (generations, population); place k mates with place k + population/2."""
    everyone = np.tile(np.arange(population, dtype=np.int64), (generations, 1))
    return rng.permuted(everyone, axis=1, out=everyone)


def swaps(generations: int, population: int, n: int, probability: float, rng: np.random.Generator) -> NDArray:
    """Genes that change places in uniform crossover, 1 or 0, shape (generations, population, n), the same for a pair.

    Each does with probability ½ in a pair that is crossed, which it is with the given ``probability``; none in others.
    """
    pairs = population // 2
    octets = rng.integers(0, 256, (generations, pairs, -(-n // 8)), dtype=np.uint8)
    swapped = np.unpackbits(octets, axis=2, count=n)
    swapped &= (rng.random((generations, pairs, 1)) < probability).view(np.uint8)
    return np.concatenate([swapped, swapped], axis=1)


def survivors(generations: int, population: int, pool: int, entrants: int, rng: np.random.Generator) -> NDArray:
    """Ranks of those who survive from a ``pool``, shape (generations, population), 0 the fittest.

    The last is always the fittest of all (elitism). Each other is the winner of a tournament between ``entrants``
    drawn with replacement: the smallest of so many uniform ranks, whatever the fitness is, hence drawn beforehand.
    """
    ranks: NDArray = rng.integers(0, pool, (generations, population, entrants)).min(axis=2)
    ranks[:, -1] = 0
    return ranks
