"""The generations of an evolution strategy on the box: mate, mutate, learn, evaluate all at once, select.

Who mates with whom, which genes they swap, and who survives: drawn for many generations at once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import mutation
from ._mating import evaluate, mate
from .sweeps import sweep

__all__ = [
    "MUTATIONS",
    "Evolution",
    "Rules",
    "evaluated",
    "evolve",
    "pairings",
    "random_population",
    "survivors",
    "swaps",
]


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


#: "switching-gaussian" is the outlook of the paper: Gaussian on what switching has not settled at 0 or u.
MUTATIONS = ("gaussian", "switching", "hybrid", "switching-gaussian")
#: Generations of Gaussian mutation between two applications of the 1/5 rule.
ADAPT_EVERY = 10
#: f must fall by this fraction of itself for a generation to count as an improvement.
IMPROVEMENT = 1e-10


@dataclass(frozen=True)
class Rules:
    """How a population evolves; see `dualflow.solvers.evolution_strategy` for what the paper's values are.

    Attributes
    ----------
    mutation : str
        One of `MUTATIONS`.
    crossover : float
        Probability with which a pair is crossed.
    entrants : int
        Of a tournament.
    patience : int
        Generations without improvement after which evolution rests.
    limit : int
        Generations after which it rests in any case.
    sweeps : int
        Of coordinate descent in the life of an individual; 0 for none.
    """

    mutation: str
    crossover: float
    entrants: int
    patience: int
    limit: int
    sweeps: int


@dataclass(frozen=True)
class Evolution:
    """A population between two generations.

    Attributes
    ----------
    population : array of shape (k, n)
        The fittest last.
    values, products : arrays of shape (k,) and (k, n)
        f and αᵀQ of each.
    sigma : float
        Standard deviation of the Gaussian mutation, in units of u.
    successes, trials : int
        Children fitter than both parents, and children, since the 1/5 rule was last applied.
    generation, stale : int
        Generations so far, and how many of the last ones brought no improvement.
    loose : array of shape (n,)
        1 for variables that the Gaussian mutation may move, else 0.
    settling : bool
        Whether the switching phase of "switching-gaussian" is still on.
    evaluations : int
        Individuals evaluated so far.
    rng : dict
        State of a random generator, for whoever saves the population; `evolve` is handed the generator itself.
    """

    population: NDArray
    values: NDArray
    products: NDArray
    sigma: float
    successes: int
    trials: int
    generation: int
    stale: int
    loose: NDArray
    settling: bool
    evaluations: int
    rng: dict[str, Any]

    def resting(self, rules: Rules) -> bool:
        """Whether evolution has come to its end."""
        return self.generation >= rules.limit or (self.stale >= rules.patience and not self.settling)


def evaluated(Q: NDArray, p: NDArray, population: NDArray) -> tuple[NDArray, NDArray]:
    """f of every individual, shape (k,), and the products αᵀQ, shape (k, n), by one matrix product."""
    products = population @ Q
    return _values(p, population, products), products


def random_population(upper: NDArray, size: int, rng: np.random.Generator, first: NDArray | None = None) -> NDArray:
    """Uniform in the box, shape (size, n); ``first`` takes the first place."""
    population = rng.random((size, len(upper))) * upper
    if first is not None:
        population[0] = first
    return population


def evolve(
    Q: NDArray,
    p: NDArray,
    upper: NDArray,
    state: Evolution,
    rules: Rules,
    generations: int,
    rng: np.random.Generator,
) -> Evolution:
    """The state so many generations later, or fewer if evolution comes to rest before.

    Each generation makes as many children as there are parents, by uniform crossover of random pairs and mutation,
    and evaluates them by one product with Q, or from their parents by the rows of Q whose genes changed. Survivors are
    the fittest of parents and children, and winners of tournaments among them. With sweeps the children learn, and what
    they learn is inherited (Lamarck); so does the fittest parent.
    """
    k, n = state.population.shape
    # Parents above, children below, in two buffers that take turns.
    alphas, spare = np.empty((2 * k, n)), np.empty((2 * k, n))
    products, spare_products, values = np.empty((2 * k, n)), np.empty((2 * k, n)), np.empty(2 * k)
    alphas[:k], products[:k], values[:k] = state.population, state.products, state.values
    orders, genes = pairings(generations, k, rng), swaps(generations, k, n, rules.crossover, rng)
    partners = np.roll(orders, k // 2, axis=1)
    turns = mutation.turns(rules.mutation, generations, k, upper, rng)
    ranks = survivors(generations, k, 2 * k, rules.entrants, rng)
    sigma, successes, trials = state.sigma, state.successes, state.trials
    generation, stale, loose, settling = state.generation, state.stale, state.loose, state.settling
    by_changes = rules.mutation != "gaussian" and not rules.sweeps
    for order, partner, swapped, turned, rank in zip(orders, partners, genes, turns, ranks, strict=True):
        children, best = alphas[k:], float(values[k - 1])
        gaussian = not settling and rules.mutation.endswith("gaussian")
        mate(alphas, order, partner, swapped, *(mutation.NOTHING if gaussian else turned))
        if gaussian:
            mutation.gaussian(children, sigma * upper * loose, upper, rng)
        if rules.sweeps:
            _learn(Q, p, upper, alphas[k - 1 :], products[k - 1 :], values[k - 1 :], rules.sweeps, rng)
        elif by_changes and not gaussian:
            evaluate(Q, p, alphas, products, values, order)
        else:
            np.dot(children, Q, out=products[k:])
            values[k:] = _values(p, children, products[k:])
        if gaussian:
            successes += int(np.count_nonzero(values[k:] < np.minimum(values.take(order), values.take(partner))))
            trials += k
        generation += 1
        places = values.argsort().take(rank)
        alphas.take(places, axis=0, out=spare[:k], mode="clip")
        if by_changes:
            products.take(places, axis=0, out=spare_products[:k], mode="clip")
            products, spare_products = spare_products, products
        values[:k] = values.take(places)
        alphas, spare = spare, alphas
        stale = 0 if best - values[k - 1] > IMPROVEMENT * abs(best) else stale + 1
        if trials == ADAPT_EVERY * k:
            sigma, successes, trials = mutation.adapted(sigma, successes, trials), 0, 0
        if settling and (stale >= rules.patience or generation >= rules.limit // 2):
            settling, stale, loose = False, 0, 1.0 - settled(alphas[:k], upper)
        if generation >= rules.limit or (stale >= rules.patience and not settling):
            break
    population = alphas[:k].copy()
    fresh_values, fresh_products = evaluated(Q, p, population)  # updates of products leave round-off behind
    return replace(
        state,
        population=population,
        values=fresh_values,
        products=fresh_products,
        sigma=sigma,
        successes=successes,
        trials=trials,
        generation=generation,
        stale=stale,
        loose=loose,
        settling=settling,
        evaluations=state.evaluations + k * (generation - state.generation),
    )


def settled(population: NDArray, upper: NDArray) -> NDArray:
    """Which variables the whole population has at 0 or the whole population at u, shape (n,)."""
    found: NDArray = (population == 0.0).all(axis=0) | (population == upper).all(axis=0)
    return found


def _learn(
    Q: NDArray,
    p: NDArray,
    upper: NDArray,
    alphas: NDArray,
    products: NDArray,
    values: NDArray,
    sweeps: int,
    rng: np.random.Generator,
) -> None:
    """Evaluate individuals, and let each make so many sweeps of coordinate descent; all in place."""
    np.dot(alphas, Q, out=products)
    for _ in range(sweeps):
        sweep(Q, p, upper, alphas, products, rng.permutation(len(p)))
    values[:] = _values(p, alphas, products)


def _values(p: NDArray, population: NDArray, products: NDArray) -> NDArray:
    """f = ½ αᵀQα − pᵀα of every individual (Mierswa 12 with the + Σα it lacks, turned to be minimised), shape (k,)."""
    values: NDArray = np.einsum("ij,ij->i", products, population)
    values *= 0.5
    values -= population @ p
    return values
