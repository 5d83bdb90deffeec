"""A few variables of a problem at a time: which of them; and, where a run asks for it, exact lengths of its moves.

All of it is classical.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.problem import DualProblem, project_onto

__all__ = ["Block", "block_of", "choose_block", "move_towards", "newton_lengths", "pattern_move"]

#: Rays are followed so far at most: one made of rounding alone keeps no equality, and must not be stretched.
LONGEST_RAY = 2.0
#: A pattern move shorter than this share of α is rounding.
LEAST_RAY = 1e-9


@dataclass(frozen=True)
class Block:
    """f on m of the variables, all others held: ½ xᵀQx + gᵀx, 0 ≤ x ≤ upper, eᵀx = d, from x = ``start``."""

    index: NDArray
    Q: NDArray
    g: NDArray
    upper: NDArray
    e: NDArray | None
    d: float
    start: NDArray


def block_of(problem: DualProblem, alpha: NDArray, index: NDArray, gradient: NDArray) -> Block:
    """The block of some variables at α, with ∇f(α) of shape (n,)."""
    Q, start = problem.block(index, index), alpha[index]
    e = None if problem.e is None else problem.e[index]
    d = 0.0 if e is None else float(e @ start)
    return Block(index, Q, gradient[index] - Q @ start, problem.effective_upper[index], e, d, start)


def newton_lengths(problem: DualProblem, alpha: NDArray, slope: NDArray) -> NDArray:
    """How far each variable alone would move along its slope ∂f/∂αᵢ − νeᵢ, shape (n,)."""
    room = np.where(slope < 0, problem.effective_upper - alpha, alpha)
    curvature = np.maximum(problem.diag(), np.finfo(float).tiny)
    return np.minimum(room, np.abs(slope) / curvature)


def choose_block(
    problem: DualProblem, alpha: NDArray, score: NDArray, size: int, rng: np.random.Generator | None
) -> NDArray:
    """Indices of ``size`` variables: those of the largest score, or half of them and the rest at random.

    With the equality at least one variable must be able to raise eᵀα and another to lower it: where one side lacks,
    half the block is taken from it.
    """
    n = problem.n
    if n <= size:
        return np.arange(n)
    order = np.argsort(-score, kind="stable")
    chosen = order[:size]
    if rng is not None:
        rest = order[size // 2 :]
        chosen = np.concatenate([order[: size // 2], rng.choice(rest, size - size // 2, replace=False)])
    if problem.e is None:
        return np.sort(chosen)
    up, down = alpha < problem.effective_upper, alpha > 0
    for raises in (np.where(problem.e > 0, up, down), np.where(problem.e > 0, down, up)):
        if not raises[chosen].any():
            others = order[raises[order]][: size // 2]
            chosen = np.concatenate([others, chosen[: size - len(others)]])
    return np.sort(chosen)


def move_towards(block: Block, target: NDArray) -> tuple[NDArray, float]:
    """The lowest feasible point on the ray to the projected target, shape (m,), and how much f falls.

    By a projection, and the exact minimum of a parabola.
    """
    if block.e is None:
        target = np.clip(target, 0.0, block.upper)
    else:
        target = project_onto(target, np.zeros(len(target)), block.upper, block.e, block.d)
    ray = target - block.start
    slope, curvature = float((block.Q @ block.start + block.g) @ ray), float(ray @ block.Q @ ray)
    if slope >= 0:
        return block.start, 0.0
    room = np.where(ray > 0, block.upper - block.start, block.start)
    moving = ray != 0
    longest = min(LONGEST_RAY, float((room[moving] / np.abs(ray[moving])).min()))
    length = min(longest, -slope / curvature) if curvature > 0 else longest
    fall = -(length * slope + 0.5 * length**2 * curvature)
    return np.clip(block.start + length * ray, 0.0, block.upper), fall


def pattern_move(problem: DualProblem, base: NDArray, alpha: NDArray) -> NDArray:
    """The lowest feasible point from α on along α − base: the pattern move of Hooke and Jeeves (1961), classical.

    Blocks crawl along valleys that lie across their boxes, and the sum of their moves points down the valley.
    """
    ray = alpha - base
    if np.abs(ray).max(initial=0.0) <= LEAST_RAY * np.abs(alpha).max(initial=0.0):
        return alpha
    slope, curvature = float(problem.gradient(alpha) @ ray), float(ray @ problem.matvec(ray))
    room, moving = np.where(ray > 0, problem.effective_upper - alpha, alpha), ray != 0
    longest = float((room[moving] / np.abs(ray[moving])).min())
    length = min(longest, max(0.0, -slope / curvature)) if curvature > 0 else 0.0
    # Projected again, since a long way multiplies the rounding of a short ray.
    return problem.project(np.clip(alpha + length * ray, 0.0, problem.effective_upper))
