"""Who mates with whom, which genes they swap, and who survives: drawn for many generations at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["crossed", "pairings", "survivors", "swaps"]


def pairings(generations: int, population: int, rng: np.random.Generator) -> NDArray:
    """Random permutations, shape (generations, population); place k mates with place k + population/2."""
    everyone = np.broadcast_to(np.arange(population), (generations, population))
    return rng.permuted(everyone, axis=1)


def swaps(generations: int, population: int, n: int, probability: float, rng: np.random.Generator) -> NDArray:
    """Genes that change places in uniform crossover, shape (generations, population, n), the same for both of a pair.

    Each does with probability ½ in a pair that is crossed, which it is with the given ``probability``; none in others.
    """
    pairs = population // 2
    octets = rng.integers(0, 256, (generations, pairs, -(-n // 8)), dtype=np.uint8)
    swapped = np.unpackbits(octets, axis=2, count=n).view(bool)
    swapped &= rng.random((generations, pairs, 1)) < probability
    return np.concatenate([swapped, swapped], axis=1)


def crossed(population: NDArray, order: NDArray, partners: NDArray, swapped: NDArray, out: NDArray) -> None:
    """Children of a generation into ``out`` of shape (population, n): those of ``order`` with genes of ``partners``."""
    population.take(order, axis=0, out=out, mode="clip")
    np.copyto(out, population.take(partners, axis=0), where=swapped)


def survivors(generations: int, population: int, pool: int, entrants: int, rng: np.random.Generator) -> NDArray:
    """Ranks of those who survive from a ``pool``, shape (generations, population), 0 the fittest.

    The last is always the fittest of all (elitism). Each other is the winner of a tournament between ``entrants``
    drawn with replacement: the smallest of so many uniform ranks, whatever the fitness is, hence drawn beforehand.
    """
    ranks: NDArray = rng.integers(0, pool, (generations, population, entrants)).min(axis=2)
    ranks[:, -1] = 0
    return ranks
