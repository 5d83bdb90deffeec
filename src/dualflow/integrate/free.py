"""The implicit step where nothing bounds α: the flow is linear, and a step of any length is one linear system.

    (α⁺ − α)/h = p − Qα⁺ + ν⁺e,   eᵀα⁺ = d

f never rises, for any h, and as h → ∞ the step is the state at rest. So training takes one step, as long as float64
allows: 1/h is then round-off beside Q, which makes a singular Q a proximal step. What rounding leaves
of the system is solved for again.

The system is solved by Cholesky; where Q = LLᵀ + diag(ridge) is of low rank by Woodbury's formula, for a linear kernel
without Q; and beyond `DENSE_UP_TO` variables by projected conjugate gradients, which need products alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.low_rank import LowRankSystem, thin_factor
from ..core.workspace import Workspace
from ..refinement.linear_systems import ConjugateSystem, factorise
from .implicit import ImplicitState
from .stiff_system import low_rank

__all__ = ["ROUND_OFF", "FreeFlow"]

_EPS = float(np.finfo(float).eps)
#: Variables up to which Q is formed and factorised.
DENSE_UP_TO = 8000
#: What a residual may be of its terms and still be their round-off, and how often a step is solved again at most.
ROUND_OFF, POLISH = 8 * _EPS, 6


class FreeFlow:
    """Implicit steps of the gradient flow of a problem of kind AFFINE; a factor is kept while the length stays.

    Parameters
    ----------
    problem : Workspace
        Q positive semidefinite.
    """

    def __init__(self, problem: Workspace) -> None:
        self.problem = problem
        # What there is of Q: L, or the whole of it, or neither.
        self.L = thin_factor(problem)
        small = self.L is None and problem.n <= DENSE_UP_TO
        self.L = low_rank(problem) if small else self.L
        self.Q = problem.dense() if small and self.L is None else None
        diag = problem.diag()
        self.kernel_max, self.p_max = float((diag - problem.ridge).max()), float(np.abs(problem.p).max())
        #: The longest step: 1/h is the round-off of a ridge, or, where there is none, of Q.
        least = float(problem.ridge.min())
        self.longest = min(1.0 / (_EPS * (least or problem.n * float(diag.max()) or 1.0)), 1e300)
        self._h = 0.0  # of the system at hand

    def start(self, warm: NDArray | None, h: float | None) -> ImplicitState:
        """State at t = 0: the origin, or ``warm``, on the equality. There are no slacks: they are empty."""
        alpha = self.problem.project(np.zeros(self.problem.n) if warm is None else warm)
        none = np.empty(0)
        return ImplicitState(0.0, min(h or self.longest, self.longest), alpha, 0.0, none, none)

    @np.errstate(over="ignore", invalid="ignore")  # what overflows ends the run: it is finite no more
    def step(self, at: ImplicitState, growth: float) -> tuple[ImplicitState, float]:
        """The state after a step of length ``at.h``, and its residual ‖∇f − νe‖∞, as a part of its terms.

        ``moved`` is 0 where the state was at rest already, up to round-off, or no step brings it nearer.
        """
        problem, h = self.problem, at.h
        before = self._residual(at.alpha)[0]
        self._make(h)
        alpha, best, least = at.alpha, at.alpha, np.inf
        for _ in range(POLISH):
            g = self._centred(self._drive(alpha) - (alpha - at.alpha) / h)
            left = self._relative(g, alpha)
            helped = left < least / 3
            if left < least:
                best, least = alpha, left
            if not helped or left <= ROUND_OFF:
                break
            missing = 0.0 if problem.e is None else problem.d - float(problem.e @ alpha)
            alpha = alpha + self._solve(g, missing)
        after, nu = self._residual(best)
        rests = before <= ROUND_OFF or (h >= self.longest and not after < 0.5 * before)
        kept = at.alpha if rests and before <= after else best
        state = replace(at, t=at.t + h, h=min(h * growth, self.longest), alpha=kept, nu=nu, moved=0.0 if rests else 1.0)
        return state, min(before, after) if rests else after

    # --- the residual ----------------------------------------------------------------------------

    def product(self, v: NDArray) -> NDArray:
        """Qv."""
        if self.L is not None:
            thin: NDArray = self.L @ (self.L.T @ v) + self.problem.ridge * v
            return thin
        return self.problem.product(v) if self.Q is None else self.Q @ v

    def _drive(self, alpha: NDArray) -> NDArray:
        """p − Qα."""
        drive: NDArray = self.problem.p - self.product(alpha)
        return drive

    def _centred(self, g: NDArray) -> NDArray:
        """g less its multiple of e, which moves the multiplier alone."""
        e = self.problem.e
        return g if e is None else g - float(e @ g) / len(g) * e

    def _relative(self, g: NDArray, alpha: NDArray) -> float:
        """The largest entry of a residual, as a part of what it is the sum of."""
        weights = np.abs(alpha)
        size = self.kernel_max * float(weights.sum()) + float((self.problem.ridge * weights).max()) + self.p_max
        return float(np.abs(g).max()) / size if size else 0.0

    def _residual(self, alpha: NDArray) -> tuple[float, float]:
        """How far α is from rest, and the multiplier that makes it least."""
        g, e = self._drive(alpha), self.problem.e
        nu = 0.0 if e is None else -float(e @ g) / len(g)
        return self._relative(self._centred(g), alpha), nu

    # --- the system ------------------------------------------------------------------------------

    def _make(self, h: float) -> None:
        """The factor of Q + 1/h."""
        if h == self._h:
            return
        problem, shift = self.problem, 1.0 / h
        self._h, e = h, problem.e
        self._factor = self._thin = self._products = None
        if self.L is not None:
            self._thin = LowRankSystem(self.L, problem.ridge + shift)
        elif self.Q is not None:
            self._factor = _cholesky(self.Q, shift)
        else:
            self._products = _ByProducts(problem, shift)
            return
        self._column = None if e is None else self._plain(e)

    def _plain(self, right: NDArray) -> NDArray:
        if self._thin is not None:
            return self._thin.solve(right)
        solved: NDArray = scipy.linalg.lapack.dpotrs(self._factor, right, lower=1)[0]
        return solved

    def _solve(self, right: NDArray, missing: float) -> NDArray:
        """The step s with (Q + 1/h)s = right + νe and eᵀs = missing, for some ν."""
        if self._products is not None:
            return self._products.step(-right, missing)
        s, e = self._plain(right), self.problem.e
        if e is not None and self._column is not None:
            s = s + (missing - float(e @ s)) / float(e @ self._column) * self._column
        return s


class _ByProducts(ConjugateSystem):
    """Conjugate gradients for all variables, by products of the problem."""

    def __init__(self, problem: Workspace, shift: float) -> None:
        self.problem, self.members = problem, np.arange(problem.n)
        self.live = np.ones(problem.n, dtype=bool)
        self.delta, self.diag = shift, problem.diag() + shift
        self.diag[self.diag == 0] = 1.0
        self.struggled = False

    def product(self, v: NDArray) -> NDArray:
        return self.problem.product(v)


def _cholesky(Q: NDArray, shift: float) -> NDArray:
    """The factor of Q + shift, lifted by round-off if need be."""
    lift = shift
    for _ in range(12):
        A = Q.copy()
        A.flat[:: len(A) + 1] += lift
        if factorise(A.T):
            return A.T
        lift = max(10 * lift, float(_EPS * np.abs(Q).max() * len(Q)))
    raise scipy.linalg.LinAlgError("Q is indefinite beyond round-off")
