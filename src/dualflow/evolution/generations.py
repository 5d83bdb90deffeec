"""The generations of an evolution strategy on the box: crossover, mutation, learning, evaluation, selection.

The random numbers of crossover and selection do not depend on the fitness; they are drawn for many generations at a
time.
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
    """Return random permutations, shape (generations, population); place k mates with place k + population/2."""
    orders = np.tile(np.arange(population, dtype=np.int64), (generations, 1))
    return rng.permuted(orders, axis=1, out=orders)


def swaps(generations: int, population: int, n: int, probability: float, rng: np.random.Generator) -> NDArray:
    """Return the genes that are swapped in uniform crossover, 1 or 0, shape (generations, population, n).

    Both parents of a pair have the same entries. A pair is crossed with the given ``probability``; each of its genes is
    then swapped with probability ½.
    """
    pairs = population // 2
    octets = rng.integers(0, 256, (generations, pairs, -(-n // 8)), dtype=np.uint8)
    swapped = np.unpackbits(octets, axis=2, count=n)
    swapped &= (rng.random((generations, pairs, 1)) < probability).view(np.uint8)
    return np.concatenate([swapped, swapped], axis=1)


def survivors(generations: int, population: int, pool: int, entrants: int, rng: np.random.Generator) -> NDArray:
    """Return the ranks of the survivors of a ``pool``, shape (generations, population); 0 is the fittest.

    The last survivor is the fittest of all (elitism). Each other one is the winner of a tournament between ``entrants``
    drawn with replacement: its rank is the smallest of ``entrants`` uniform ranks, and does not depend on the fitness.
    """
    ranks: NDArray = rng.integers(0, pool, (generations, population, entrants)).min(axis=2)
    ranks[:, -1] = 0
    return ranks


#: "switching-gaussian" is the outlook of the paper: Gaussian on the variables that switching has not fixed at 0 or u.
MUTATIONS = ("gaussian", "switching", "hybrid", "switching-gaussian")
#: Generations of Gaussian mutation between two applications of the 1/5 rule.
ADAPT_EVERY = 10
#: Relative decrease of f from which a generation counts as an improvement.
IMPROVEMENT = 1e-10


@dataclass(frozen=True)
class Rules:
    """The rules of an evolution; `dualflow.solvers.evolution_strategy` gives the paper's values.

    Attributes
    ----------
    mutation : str
        One of `MUTATIONS`.
    crossover : float
        Probability that a pair is crossed.
    entrants : int
        Size of a tournament.
    patience : int
        Generations without improvement after which the evolution ends.
    limit : int
        Generations after which it ends in any case.
    sweeps : int
        Sweeps of coordinate descent for each individual; 0 for none.
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
        Sorted, the fittest last.
    values, products : arrays of shape (k,) and (k, n)
        f and αᵀQ of each.
    sigma : float
        Standard deviation of the Gaussian mutation, in units of u.
    successes, trials : int
        Children fitter than both parents, and all children, since the 1/5 rule was last applied.
    generation, stale : int
        Number of generations, and of those since the last improvement.
    loose : array of shape (n,)
        1 for variables that the Gaussian mutation may change, else 0.
    settling : bool
        Whether the switching phase of "switching-gaussian" is not over.
    evaluations : int
        Number of individuals evaluated.
    rng : dict
        State of the random generator, for checkpoints; `evolve` takes the generator itself.
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
        """Return whether the evolution has ended."""
        return self.generation >= rules.limit or (self.stale >= rules.patience and not self.settling)


def evaluated(Q: NDArray, p: NDArray, population: NDArray) -> tuple[NDArray, NDArray]:
    """Return f of every individual, shape (k,), and the products αᵀQ, shape (k, n), by one matrix product."""
    products = population @ Q
    return _values(p, population, products), products


def random_population(upper: NDArray, size: int, rng: np.random.Generator, first: NDArray | None = None) -> NDArray:
    """Return individuals uniform in the box, shape (size, n); ``first`` replaces the first one."""
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
    """Return the state after ``generations`` generations, or fewer if the evolution ends before.

    Each generation makes one child for each parent, by uniform crossover of random pairs and mutation. Children are
    evaluated by one product with Q, or from their parents' values by the rows of Q whose genes changed. Survivors are
    the fittest of parents and children, and winners of tournaments among them. With sweeps the children and the fittest
    parent make sweeps of coordinate descent, and pass on the result (Lamarck).
    """
    k, n = state.population.shape
    # Parents are the upper rows, children the lower ones; two buffers are used in turn.
    alphas, spare_alphas = np.empty((2 * k, n)), np.empty((2 * k, n))
    products, spare_products, values = np.empty((2 * k, n)), np.empty((2 * k, n)), np.empty(2 * k)
    alphas[:k], products[:k], values[:k] = state.population, state.products, state.values
    orders, genes = pairings(generations, k, rng), swaps(generations, k, n, rules.crossover, rng)
    partners = np.roll(orders, k // 2, axis=1)
    mutated_genes = mutation.mutated_genes(rules.mutation, generations, k, upper, rng)
    ranks = survivors(generations, k, 2 * k, rules.entrants, rng)
    sigma, successes, trials = state.sigma, state.successes, state.trials
    generation, stale, loose, settling = state.generation, state.stale, state.loose, state.settling
    updates_products = rules.mutation != "gaussian" and not rules.sweeps
    for order, partner, swapped, mutated, rank in zip(orders, partners, genes, mutated_genes, ranks, strict=True):
        children, best = alphas[k:], float(values[k - 1])
        gaussian = not settling and rules.mutation.endswith("gaussian")
        mate(alphas, order, partner, swapped, *(mutation.NO_MUTATION if gaussian else mutated))
        if gaussian:
            mutation.gaussian(children, sigma * upper * loose, upper, rng)
        if rules.sweeps:
            _improve(Q, p, upper, alphas[k - 1 :], products[k - 1 :], values[k - 1 :], rules.sweeps, rng)
        elif updates_products and not gaussian:
            evaluate(Q, p, alphas, products, values, order)
        else:
            np.dot(children, Q, out=products[k:])
            values[k:] = _values(p, children, products[k:])
        if gaussian:
            successes += int(np.count_nonzero(values[k:] < np.minimum(values.take(order), values.take(partner))))
            trials += k
        generation += 1
        places = values.argsort().take(rank)
        alphas.take(places, axis=0, out=spare_alphas[:k], mode="clip")
        if updates_products:
            products.take(places, axis=0, out=spare_products[:k], mode="clip")
            products, spare_products = spare_products, products
        values[:k] = values.take(places)
        alphas, spare_alphas = spare_alphas, alphas
        stale = 0 if best - values[k - 1] > IMPROVEMENT * abs(best) else stale + 1
        if trials == ADAPT_EVERY * k:
            sigma, successes, trials = mutation.adapted(sigma, successes, trials), 0, 0
        if settling and (stale >= rules.patience or generation >= rules.limit // 2):
            settling, stale, loose = False, 0, 1.0 - is_fixed(alphas[:k], upper)
        if generation >= rules.limit or (stale >= rules.patience and not settling):
            break
    population = alphas[:k].copy()
    fresh_values, fresh_products = evaluated(Q, p, population)  # updated products have accumulated round-off
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


def is_fixed(population: NDArray, upper: NDArray) -> NDArray:
    """Return which variables are at 0, or at u, in the whole population, shape (n,)."""
    found: NDArray = (population == 0.0).all(axis=0) | (population == upper).all(axis=0)
    return found


def _improve(
    Q: NDArray,
    p: NDArray,
    upper: NDArray,
    alphas: NDArray,
    products: NDArray,
    values: NDArray,
    sweeps: int,
    rng: np.random.Generator,
) -> None:
    """Evaluate individuals and improve each by sweeps of coordinate descent, in place."""
    np.dot(alphas, Q, out=products)
    for _ in range(sweeps):
        sweep(Q, p, upper, alphas, products, rng.permutation(len(p)))
    values[:] = _values(p, alphas, products)


def _values(p: NDArray, population: NDArray, products: NDArray) -> NDArray:
    """Return f = ½ αᵀQα − pᵀα of every individual, shape (k,): Mierswa's (12) negated, with the + Σα it lacks."""
    values: NDArray = np.einsum("ij,ij->i", products, population)
    values *= 0.5
    values -= population @ p
    return values
