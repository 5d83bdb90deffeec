"""The generations of an evolution strategy on the box 0 ≤ α ≤ u: crossover, mutation, learning, evaluation, selection.

Mutations are those of Mierswa (4.2 and Fig. 4). The random numbers of crossover and selection do not depend on the
fitness; they are drawn for many generations at a time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._mating import evaluate, mate

#: "switching-gaussian" is the outlook of the paper: Gaussian on the variables that switching has not fixed at 0 or u.
MUTATIONS = ("gaussian", "switching", "hybrid", "switching-gaussian")
#: Generations of Gaussian mutation between two applications of the 1/5 rule.
ADAPT_EVERY = 10
#: A generation is an improvement if f decreases by at least this, relative to f.
IMPROVEMENT = 1e-10
#: Schwefel's factor of the 1/5 rule.
SIGMA_FACTOR = 0.85
#: Genes, thresholds and new values of no mutation.
NO_MUTATION = (np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))
#: Coordinates between two updates of the whole gradient.
BLOCK_SIZE = 32


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


def add_gaussian_noise(children: NDArray, step: NDArray, upper: NDArray, rng: np.random.Generator) -> None:
    """Add normal noise of standard deviation ``step`` of shape (n,) to children of shape (k, n); clip to the box."""
    noise = rng.standard_normal(children.shape)
    noise *= step
    children += noise
    np.maximum(children, 0.0, out=children)
    np.minimum(children, upper, out=children)


def mutated_genes(
    kind: str, generations: int, population: int, upper: NDArray, rng: np.random.Generator
) -> list[tuple[NDArray, NDArray, NDArray]]:
    """Return for each generation the mutated genes, each with probability 1/n, their thresholds and new values.

    Genes are indices into the flattened children of shape (population, n). A gene above its threshold becomes 0, else
    its new value. "switching": to 0 from the upper half of the interval, else to uᵢ. "hybrid", Mierswa's Fig. 4: αᵢ > 0
    becomes 0, and αᵢ = 0 uniform on [0, uᵢ]. "switching-gaussian" starts as "switching"; "gaussian" mutates none here.
    """
    if kind == "gaussian":
        return [NO_MUTATION] * generations
    n, size = len(upper), population * len(upper)
    found = bernoulli(generations * size, n, rng)
    bound = upper[found % n]
    above = np.zeros(len(found)) if kind == "hybrid" else 0.5 * bound
    target = bound * rng.random(len(found)) if kind == "hybrid" else bound
    ends = found.searchsorted(size * np.arange(1, generations + 1)).tolist()
    found %= size
    return [(found[i:j], above[i:j], target[i:j]) for i, j in zip([0, *ends], ends, strict=False)]


def bernoulli(trials: int, n: int, rng: np.random.Generator) -> NDArray:
    """Return the increasing indices of the successes in independent trials with probability 1/n.

    The geometric gaps between successes are drawn, which takes one number a success instead of one a trial.
    """
    mean = trials / n
    found = np.cumsum(rng.geometric(1.0 / n, int(mean + 6 * np.sqrt(mean)) + 10)) - 1
    while found[-1] < trials - 1:
        found = np.append(found, found[-1] + np.cumsum(rng.geometric(1.0 / n, 10)))
    return found[: np.searchsorted(found, trials)]


def adapted_sigma(sigma: float, successes: int, trials: int) -> float:
    """Return σ by Rechenberg's 1/5 rule: larger if more than a fifth of the trials succeeded, smaller if fewer did."""
    if 5 * successes == trials:
        return sigma
    return sigma / SIGMA_FACTOR if 5 * successes > trials else sigma * SIGMA_FACTOR


@dataclass(frozen=True)
class Rules:
    """The rules of an evolution; `dualflow.solvers.evolution_strategy` gives the paper's values."""

    mutation: str  # one of `MUTATIONS`
    crossover: float  # probability that a pair is crossed
    entrants: int  # size of a tournament
    patience: int  # generations without improvement after which the evolution ends
    limit: int  # generations after which it ends in any case
    sweeps: int  # sweeps of coordinate descent for each individual; 0 for none


@dataclass(frozen=True)
class Evolution:
    """A population between two generations."""

    population: NDArray  # sorted, the fittest last; shape (k, n)
    #: values, products: f and αᵀQ of each; shapes (k,) and (k, n).
    values: NDArray
    products: NDArray
    sigma: float  # standard deviation of the Gaussian mutation, in units of u
    #: successes, trials: children fitter than both parents, and all children, since the 1/5 rule was last applied.
    successes: int
    trials: int
    #: generation, stale: number of generations, and of those since the last improvement.
    generation: int
    stale: int
    loose: NDArray  # 1 for variables that the Gaussian mutation may change, else 0; shape (n,)
    is_switching: bool  # whether the switching phase of "switching-gaussian" is not over
    evaluations: int  # number of individuals evaluated
    rng: dict[str, Any]  # state of the random generator, for checkpoints; `evolve` takes the generator itself

    def resting(self, rules: Rules) -> bool:
        """Return whether the evolution has ended."""
        return self.generation >= rules.limit or (self.stale >= rules.patience and not self.is_switching)


def evaluate_population(Q: NDArray, p: NDArray, population: NDArray) -> tuple[NDArray, NDArray]:
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
    mutations = mutated_genes(rules.mutation, generations, k, upper, rng)
    ranks = survivors(generations, k, 2 * k, rules.entrants, rng)
    sigma, successes, trials = state.sigma, state.successes, state.trials
    generation, stale, loose, is_switching = state.generation, state.stale, state.loose, state.is_switching
    updates_products = rules.mutation != "gaussian" and not rules.sweeps
    for order, partner, swapped, mutated, rank in zip(orders, partners, genes, mutations, ranks, strict=True):
        children, best = alphas[k:], float(values[k - 1])
        gaussian = not is_switching and rules.mutation.endswith("gaussian")
        mate(alphas, order, partner, swapped, *(NO_MUTATION if gaussian else mutated))
        if gaussian:
            add_gaussian_noise(children, sigma * upper * loose, upper, rng)
        if rules.sweeps:
            values[k - 1 :] = improve(Q, p, upper, alphas[k - 1 :], products[k - 1 :], rules.sweeps, rng)
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
            sigma, successes, trials = adapted_sigma(sigma, successes, trials), 0, 0
        if is_switching and (stale >= rules.patience or generation >= rules.limit // 2):
            is_switching, stale, loose = False, 0, 1.0 - is_fixed(alphas[:k], upper)
        if generation >= rules.limit or (stale >= rules.patience and not is_switching):
            break
    population = alphas[:k].copy()
    fresh_values, fresh_products = evaluate_population(Q, p, population)  # updated products have accumulated round-off
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
        is_switching=is_switching,
        evaluations=state.evaluations + k * (generation - state.generation),
    )


def is_fixed(population: NDArray, upper: NDArray) -> NDArray:
    """Return which variables are at 0, or at u, in the whole population, shape (n,)."""
    found: NDArray = (population == 0.0).all(axis=0) | (population == upper).all(axis=0)
    return found


def coordinate_sweep(
    Q: NDArray, p: NDArray, upper: NDArray, alphas: NDArray, products: NDArray, order: NDArray
) -> None:
    """Make one sweep of exact coordinate minimisation of f = ½ αᵀQα − pᵀα over the box, on every row, in place.

    Parameters
    ----------
    Q : array of shape (n, n)
        Symmetric; where Qᵢᵢ ≤ 0 (indefinite kernels) the better end of the interval is the minimum.
    p, upper : arrays of shape (n,)
    alphas, products : arrays of shape (k, n)
        α and αᵀQ, one row for each individual; both are updated.
    order : integer array
        Coordinates in the order of their updates.
    """
    for start in range(0, len(order), BLOCK_SIZE):
        J = order[start : start + BLOCK_SIZE]
        block = Q[np.ix_(J, J)]
        # Transposed, a coordinate of all individuals is a contiguous row.
        slopes, genes = products.T[J] - p[J, None], alphas.T[J]
        before = genes.copy()
        for k, (curvature, bound) in enumerate(zip(block.diagonal().tolist(), upper[J].tolist(), strict=True)):
            gene, slope = genes[k], slopes[k]
            if curvature > 0.0:
                after = slope / -curvature
                after += gene
                np.maximum(after, 0.0, out=after)
                np.minimum(after, bound, out=after)
            else:
                fall = (bound - gene) * (slope + 0.5 * curvature * (bound - gene))
                after = np.where(fall < gene * (0.5 * curvature * gene - slope), bound, 0.0)
            slopes += block[k, :, None] * (after - gene)
            genes[k] = after
        alphas[:, J] = genes.T
        products += (genes - before).T @ Q[J]


def improve(
    Q: NDArray,
    p: NDArray,
    upper: NDArray,
    alphas: NDArray,
    products: NDArray,
    sweeps: int,
    rng: np.random.Generator,
) -> NDArray:
    """Improve individuals by sweeps of coordinate descent in place, write their αᵀQ to ``products``, and return f."""
    np.dot(alphas, Q, out=products)
    for _ in range(sweeps):
        coordinate_sweep(Q, p, upper, alphas, products, rng.permutation(len(p)))
    return _values(p, alphas, products)


def _values(p: NDArray, population: NDArray, products: NDArray) -> NDArray:
    """Return f = ½ αᵀQα − pᵀα of every individual, shape (k,): Mierswa's (12) negated, with the + Σα it lacks."""
    values: NDArray = np.einsum("ij,ij->i", products, population)
    values *= 0.5
    values -= population @ p
    return values
