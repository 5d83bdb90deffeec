"""Mutations of a population on the box 0 ≤ α ≤ u (Mierswa 4.2 and Fig. 4), in place, and the 1/5 rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["adapted", "bernoulli", "gaussian", "hybrid", "switching"]

#: Schwefel's factor of the 1/5 rule.
FACTOR = 0.85


def gaussian(children: NDArray, step: NDArray, upper: NDArray, rng: np.random.Generator) -> None:
    """Add normal noise of standard deviation ``step`` of shape (n,) to children of shape (k, n); clip to the box."""
    noise = rng.standard_normal(children.shape)
    noise *= step
    children += noise
    np.maximum(children, 0.0, out=children)
    np.minimum(children, upper, out=children)


def switching(children: NDArray, upper: NDArray, rng: np.random.Generator) -> None:
    """Each αᵢ changes sides with probability 1/n: to 0 from the upper half of its interval, else to uᵢ."""
    genes, who = children.reshape(-1), bernoulli(children.size, children.shape[1], rng)
    bound = upper[who % children.shape[1]]
    genes[who] = np.where(genes[who] > 0.5 * bound, 0.0, bound)


def hybrid(children: NDArray, upper: NDArray, rng: np.random.Generator) -> None:
    """Mierswa's Fig. 4: with probability 1/n, αᵢ > 0 becomes 0, and αᵢ = 0 uniform on [0, uᵢ]."""
    genes, who = children.reshape(-1), bernoulli(children.size, children.shape[1], rng)
    anywhere = upper[who % children.shape[1]] * rng.random(len(who))
    genes[who] = np.where(genes[who] > 0.0, 0.0, anywhere)


def bernoulli(trials: int, n: int, rng: np.random.Generator) -> NDArray:
    """Which of so many independent trials with probability 1/n succeed: increasing indices.

    Drawn by the geometric gaps between them: one number a success instead of one a trial.
    """
    mean = trials / n
    found = np.cumsum(rng.geometric(1.0 / n, int(mean + 6 * np.sqrt(mean)) + 10)) - 1
    while found[-1] < trials - 1:
        found = np.append(found, found[-1] + np.cumsum(rng.geometric(1.0 / n, 10)))
    return found[: np.searchsorted(found, trials)]


def adapted(sigma: float, successes: int, trials: int) -> float:
    """σ by Rechenberg's 1/5 rule: larger if more than a fifth of the trials succeeded, smaller if fewer did."""
    if 5 * successes == trials:
        return sigma
    return sigma / FACTOR if 5 * successes > trials else sigma * FACTOR
