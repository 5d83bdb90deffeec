"""Blocks of a problem's variables for the box solvers: choice of the block, exact line search, pattern move.

All of it is classical.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.problem import DualProblem, project_onto

#: Longest move along a ray, in units of the ray. A ray made of rounding violates the equality, and a longer move would
#: add to the violation.
MAX_RAY_LENGTHS = 2.0
#: A pattern move with entries below this share of the largest α is rounding.
MIN_SHARE_RAY = 1e-9


@dataclass(frozen=True)
class Block:
    """f of m variables, all others fixed: ½ xᵀQx + gᵀx with 0 ≤ x ≤ upper and eᵀx = d; ``start`` is the present x."""

    index: NDArray
    Q: NDArray
    g: NDArray
    upper: NDArray
    e: NDArray | None
    d: float
    start: NDArray


def block_of(problem: DualProblem, alpha: NDArray, index: NDArray, gradient: NDArray) -> Block:
    """Return the block of the variables ``index`` at α, given ∇f(α) of shape (n,)."""
    Q, start = problem.block(index, index), alpha[index]
    e = None if problem.e is None else problem.e[index]
    d = 0.0 if e is None else float(e @ start)
    return Block(index, Q, gradient[index] - Q @ start, problem.effective_upper[index], e, d, start)


def newton_lengths(problem: DualProblem, alpha: NDArray, slope: NDArray) -> NDArray:
    """Return the length of each variable's own Newton step along its slope ∂f/∂αᵢ − νeᵢ, cut at its bound, (n,)."""
    room = np.where(slope < 0, problem.effective_upper - alpha, alpha)
    curvature = np.maximum(problem.diag(), np.finfo(float).tiny)
    return np.minimum(room, np.abs(slope) / curvature)


def choose_block(
    problem: DualProblem, alpha: NDArray, score: NDArray, size: int, rng: np.random.Generator | None
) -> NDArray:
    """Return the indices of ``size`` variables, sorted: those of the largest score.

    With ``rng`` only half of them are, and the rest are drawn at random. With an equality at least one variable must be
    able to raise eᵀα, and another to lower it: if there is none, half of the block is taken from such variables.
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
    """Return the minimiser of f on the ray to the projected target, shape (m,), and the fall of f.

    The minimum is that of a parabola, cut at the bounds.
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
    longest = min(MAX_RAY_LENGTHS, float((room[moving] / np.abs(ray[moving])).min()))
    length = min(longest, -slope / curvature) if curvature > 0 else longest
    fall = -(length * slope + 0.5 * length**2 * curvature)
    return np.clip(block.start + length * ray, 0.0, block.upper), fall


def pattern_move(problem: DualProblem, base: NDArray, alpha: NDArray) -> NDArray:
    """Return the minimiser of f on the feasible ray from α along α − base: the pattern move of Hooke and Jeeves (1961).

    Blocks make short moves in a valley that is oblique to their axes; the sum of these moves points along the valley.
    """
    ray = alpha - base
    if np.abs(ray).max(initial=0.0) <= MIN_SHARE_RAY * np.abs(alpha).max(initial=0.0):
        return alpha
    slope, curvature = float(problem.gradient(alpha) @ ray), float(ray @ problem.matvec(ray))
    room, moving = np.where(ray > 0, problem.effective_upper - alpha, alpha), ray != 0
    longest = float((room[moving] / np.abs(ray[moving])).min())
    length = min(longest, max(0.0, -slope / curvature)) if curvature > 0 else 0.0
    # Projected again, since a long move multiplies the rounding of a short ray.
    return problem.project(np.clip(alpha + length * ray, 0.0, problem.effective_upper))
