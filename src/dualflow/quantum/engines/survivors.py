"""Survivors and invaders of a large problem, a block at a time: who goes onto the qubits, and what is asked there.

Howell's ecology ("Machine Learning as Ecology", eq. 9, 17, 28) around a solver that sees one block alone: a variable
without weight invades where its fitness beats the multiplier of the survivors, νe − h > 0 with h = Qα − p; whoever ends
without weight is extinct and leaves its place. All of this is classical.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...core.bounds import dual_bound
from ...core.kernels import Gram
from ...core.problem import DualProblem
from .blocks import newton_lengths

__all__ = ["INVADERS", "block_problem", "first_block", "gap", "living", "next_block", "noise", "objective", "seeded"]

#: Weights below this share of the largest one are those of the extinct: exact distributions have no zeros.
EXTINCT = 1e-3
#: The part of a block that is kept for those who gain most by moving alone; the rest is for survivors.
INVADERS = 0.25
#: What an invader begins with, as a share of what each in its block would have if all had the same.
SEED = 0.1


def living(alpha: NDArray) -> NDArray:
    """Who has weight, shape (n,)."""
    alive: NDArray = alpha > EXTINCT * max(0.0, float(alpha.max(initial=0.0)))
    return alive


def objective(problem: DualProblem, alpha: NDArray, h: NDArray) -> float:
    """f(α), by h = Qα − p."""
    return 0.5 * float(alpha @ (h - problem.p))


def gap(problem: DualProblem, alpha: NDArray, h: NDArray) -> float:
    """f(α) less the best lower bound, absolute, by h = Qα − p; nothing is certified by it."""
    return objective(problem, alpha, h) - dual_bound(problem, alpha, h + problem.p)[0]


def noise(problem: DualProblem, alpha: NDArray, h: NDArray, shots: int, box: int | None = None) -> float:
    """What shots add to f in the mean.

    Parameters
    ----------
    alpha, h : array of shape (n,)
        And Qα − p.
    shots : int
        Of a circuit.
    box : int, optional
        Indices that share the shots, where α is read index by index; by default it is read as a distribution.
    """
    weight, diag = np.clip(alpha, 0.0, problem.effective_upper), problem.diag()
    if box is not None:
        return 0.5 * box * float(diag @ (weight * (problem.effective_upper - weight))) / shots
    spread = float(weight.sum()) * float(diag @ weight) - float(alpha @ (h + problem.p))
    return max(0.0, 0.5 * spread / shots)


def first_block(problem: DualProblem, size: int, rng: np.random.Generator) -> NDArray:
    """Variables to begin with, drawn, shape (≤ size,), sorted; as many of each sign of e as there are, up to half."""
    can = rng.permutation(np.flatnonzero(problem.upper > 0))
    if problem.n <= size or len(can) == 0:
        return np.arange(min(problem.n, size))
    if problem.e is not None and (problem.e[can] != problem.e[can[0]]).any():
        positive = problem.e[can] > 0
        rank = np.where(positive, np.cumsum(positive), np.cumsum(~positive))
        can = can[np.argsort(rank, kind="stable")]
    return np.sort(can[:size])


def next_block(problem: DualProblem, alpha: NDArray, h: NDArray, visited: NDArray, size: int) -> NDArray:
    """The variables of the next block, shape (≤ size,), sorted.

    All survivors, and the best invaders in the places that are left, where those are at least a quarter. Else a quarter
    is for those who gain most by moving alone, survivors or not, and the rest for the survivors that were in no block
    for longest, the largest first.

    Parameters
    ----------
    alpha, h : array of shape (n,)
        And Qα − p.
    visited : int array of shape (n,)
        The block each was last in.
    size : int ≥ 2
    """
    if problem.n <= size:
        return np.arange(problem.n)
    alpha = np.clip(alpha, 0.0, problem.effective_upper)
    slope = h if problem.e is None else h - _multiplier(problem, alpha, h) * problem.e
    gain = np.abs(slope) * newton_lengths(problem, alpha, slope)
    survivors, best = np.flatnonzero(living(alpha)), np.argsort(-gain, kind="stable")
    best = best[gain[best] > 0]
    few = max(1, int(INVADERS * size))
    if len(survivors) > size - few:
        best = best[:few]
        others = np.setdiff1d(survivors, best, assume_unique=True)
        waited = np.lexsort((-alpha[others], visited[others]))
        survivors = others[waited[: size - len(best)]]
    newcomers = best[~np.isin(best, survivors)]
    return np.sort(np.concatenate([survivors, newcomers[: size - len(survivors)]]))


def block_problem(problem: DualProblem, alpha: NDArray, h: NDArray, index: NDArray) -> DualProblem:
    """The problem of some variables, all others held: p less their Qα, d less what they hold; f up to a constant.

    Where the others hold more or less than they may, as noise has it, d is what comes nearest.
    """
    Q, x = problem.block(index, index), alpha[index]
    upper, e, d = problem.upper[index], None, 0.0
    if problem.e is not None:
        e = problem.e[index]
        most, least = float(upper[e > 0].sum()), -float(upper[e < 0].sum())
        d = float(np.clip(problem.d - (problem.e @ alpha - e @ x), least, most))
    p = Q @ x - h[index]
    return DualProblem(Gram(Q, kernel="precomputed"), p, np.zeros(len(index)), upper, e, d)


def seeded(block: DualProblem, x: NDArray) -> NDArray:
    """Where a block begins: at α as it was, with some weight for those who have none; feasible, shape (m,)."""
    mean = float(np.maximum(x, 0.0).sum()) / len(x)
    if mean == 0.0:  # a box may begin empty
        mean = float(block.effective_upper.min(initial=np.inf, where=block.upper > 0))
    seed = np.minimum(SEED * mean if np.isfinite(mean) else 0.0, block.effective_upper)
    return block.project(np.where(living(x), x, seed))


def _multiplier(problem: DualProblem, alpha: NDArray, h: NDArray) -> float:
    """ν of the free survivors, their mean by weight and by what is left to the bound; of all, where none is free."""
    assert problem.e is not None
    upper = problem.upper
    free = alpha * (1.0 - np.divide(alpha, upper, out=np.ones(problem.n), where=upper > 0))
    if not free.sum() > 0:
        interval = dual_bound(problem, alpha, h + problem.p)[1]
        return 0.0 if interval is None else 0.5 * (interval[0] + interval[1])
    return float(free @ (h * problem.e) / free.sum())
