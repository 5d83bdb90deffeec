"""Mutations of a population on the box 0 ≤ α ≤ u (Mierswa 4.2 and Fig. 4), and the 1/5 rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["NO_MUTATION", "adapted", "bernoulli", "gaussian", "mutated_genes"]

#: Schwefel's factor of the 1/5 rule.
SIGMA_FACTOR = 0.85
#: Genes, thresholds and new values of no mutation.
NO_MUTATION = (np.empty(0, dtype=np.int64), np.empty(0), np.empty(0))


def gaussian(children: NDArray, step: NDArray, upper: NDArray, rng: np.random.Generator) -> None:
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


def adapted(sigma: float, successes: int, trials: int) -> float:
    """Return σ by Rechenberg's 1/5 rule: larger if more than a fifth of the trials succeeded, smaller if fewer did."""
    if 5 * successes == trials:
        return sigma
    return sigma / SIGMA_FACTOR if 5 * successes > trials else sigma * SIGMA_FACTOR
