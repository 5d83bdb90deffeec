"""The linear systems of the refinement where a factor would take more memory than the points: by conjugate gradients.

Sparse points have kernel matrices that are thin (`thin_kernel`): a product with the free variables' block costs little,
and its factor, which is dense, is never made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .clock import look
from .problem import DualProblem
from .thin_kernel import is_thin, thin_block

__all__ = ["ConjugateSystem", "suits"]

_EPS = float(np.finfo(float).eps)
#: Free variables from which no factor is made, whose memory is theirs squared.
FROM = 1500
#: The part of the first residual that is the end of a solve, products it may take, and what it must come to by then.
ENOUGH, MOST, STRUGGLES = 1e-8, 400, 1e-2


def suits(problem: DualProblem, free: NDArray) -> bool:
    """Whether a system is better solved this way."""
    return len(free) >= FROM and is_thin(problem.gram)


class ConjugateSystem:
    """Q restricted to some variables, of which some are held: what `FreeSystem` is, without a factor.

    The steps are those of projected conjugate gradients (Gould, Hribar, Nocedal 2001, algorithm 2.1) with the diagonal
    for a preconditioner: whatever they end at lowers f. ``struggled`` says that one came nowhere: the system is too
    ill-conditioned.
    """

    factor = True
    factors, changes = 1, 0

    def __init__(self, problem: DualProblem, free: NDArray, diag_max: float) -> None:
        self.problem, self.members = problem, free
        self.live = np.ones(len(free), dtype=bool)
        self.position = np.full(problem.n, -1, dtype=np.intp)
        self.position[free] = np.arange(len(free))
        self.delta = 4 * len(free) * _EPS * diag_max
        self.diag = problem.diag()[free] + self.delta
        self.diag[self.diag == 0] = 1.0
        points = free if problem.idx is None else problem.idx[free]
        gram: Any = problem.gram
        self.points: Any = gram._points(points) if gram.kernel == "linear" else None
        self.block = None if gram.kernel == "linear" else thin_block(gram, points, points)
        self.struggled = False

    def bears(self, more: int) -> bool:
        """No more variables can join."""
        return more == 0

    def hold(self, which: NDArray) -> None:
        """Let members (positions) no longer move."""
        self.live[which] = False

    def add(self, J: NDArray) -> None:
        """Never called: nobody is borne."""

    def strangers(self, free: NDArray) -> NDArray:
        """Those of the variables that are not live members."""
        places = self.position[free]
        return free[~((places >= 0) & self.live[places])]

    def product(self, v: NDArray) -> NDArray:
        """Q v within the members."""
        problem, sigma = self.problem, self.problem.sigma[self.members]
        signed = sigma * v
        plain = self.points.dot(signed @ self.points) if self.block is None else self.block @ signed
        plain += problem.offset * float(signed.sum())
        product: NDArray = problem.scale * sigma * plain + problem.ridge[self.members] * v
        return product

    def step(self, h: NDArray, missing: float) -> NDArray:
        """About the minimiser of ½ sᵀQs + hᵀs over the live members' steps s, subject to eᵀs = ``missing``."""
        live, inverse = self.live, np.where(self.live, 1.0 / self.diag, 0.0)
        e = np.zeros(len(h)) if self.problem.e is None else np.where(live, self.problem.e[self.members], 0.0)
        across, s = inverse * e, np.zeros(len(h))
        weight = float(e @ across)
        if weight and missing:
            s = across * (missing / weight)

        def without_multiplier(r: NDArray) -> NDArray:
            # At every step: what residuals have along e would hide the rest of them in its rounding (section 6 there).
            return r - e * (float(across @ r) / weight) if weight else r

        residual = without_multiplier(np.where(live, -h - self._times(s), 0.0))
        direction = inverse * residual
        size = float(residual @ direction)
        first = size
        for _ in range(MOST):
            if not size > ENOUGH**2 * first:
                break
            look()
            along = self._times(direction)
            curvature = float(direction @ along)
            if not curvature > 0:
                break
            t = size / curvature
            s += t * direction
            residual = without_multiplier(residual - t * along)
            z = inverse * residual
            size, before = float(residual @ z), size
            direction = z + (size / before) * direction
        self.struggled = not size <= STRUGGLES**2 * first
        return s

    def _times(self, v: NDArray) -> NDArray:
        """(Q + δ)v on the live members."""
        return np.where(self.live, self.product(v) + self.delta * v, 0.0)
