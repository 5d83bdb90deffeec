"""The implicit step of the gradient flow without bounds: the flow is linear, and a step is one linear system.

    (α⁺ − α)/h = p − Qα⁺ + ν⁺e,   eᵀα⁺ = d

f never rises, for any h, and as h → ∞ the step ends at the optimum. Training therefore takes one step, as long as
float64 allows: 1/h is then round-off compared with Q, and for a singular Q the step is a proximal one. The residual
that rounding leaves is corrected by further solves.

The system is solved by Cholesky factorisation; by Woodbury's formula if Q = LLᵀ + diag(ridge) is of low rank, for a
linear kernel without forming Q; and beyond `MAX_N_FACTORISED` variables by projected conjugate gradients, which only
need products.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.factored import FactoredWorkspace
from ..core.low_rank import LowRankSystem, thin_factor
from ..core.workspace import Workspace
from ..refinement.linear_systems import ConjugateSystem, factorise
from .implicit import ImplicitState
from .stiff_system import low_rank

_EPS = float(np.finfo(float).eps)
#: Largest number of variables for which Q is formed and factorised.
MAX_N_FACTORISED = 8000
#: A residual up to this share of its terms is their round-off.
MAX_RELATIVE_ROUND_OFF = 8 * _EPS
#: Largest number of solves of one step.
MAX_SOLVES_PER_STEP = 6


class FreeFlow:
    """Implicit steps of the gradient flow of a problem of kind AFFINE; a factor is kept while h stays the same.

    Parameters
    ----------
    problem : Workspace
        Q positive semidefinite.
    """

    def __init__(self, problem: Workspace) -> None:
        self.problem = problem
        # Q is represented by L, or by the dense matrix, or only by products.
        self.L = problem.L if isinstance(problem, FactoredWorkspace) else thin_factor(problem)
        small = self.L is None and problem.n <= MAX_N_FACTORISED
        self.L = low_rank(problem) if small else self.L
        self.Q = problem.dense() if small and self.L is None else None
        diag = problem.diag()
        self.kernel_max, self.p_max = float((diag - problem.ridge).max()), float(np.abs(problem.p).max())
        #: The longest step: 1/h is the round-off of the ridge, or of Q if there is no ridge.
        ridge = float(problem.ridge.min())
        self.longest = min(1.0 / (_EPS * (ridge or problem.n * float(diag.max()) or 1.0)), 1e300)
        self._h = 0.0  # step length of the factorised system

    def start(self, warm: NDArray | None, h: float | None) -> ImplicitState:
        """Return the state at t = 0: the origin or ``warm``, projected onto the equality, without slacks."""
        alpha = self.problem.project(np.zeros(self.problem.n) if warm is None else warm)
        none = np.empty(0)
        return ImplicitState(0.0, min(h or self.longest, self.longest), alpha, 0.0, none, none)

    @np.errstate(over="ignore", invalid="ignore")  # an overflow gives a value that is not finite, which ends the run
    def step(self, at: ImplicitState, growth: float) -> tuple[ImplicitState, float]:
        """Return the state after a step of length ``at.h``, and its residual ‖∇f − νe‖∞ relative to its terms.

        ``moved`` is 0 if the state was optimal up to round-off, or the longest step no longer halves the residual.
        """
        problem, h = self.problem, at.h
        before = self._residual(at.alpha)[0]
        self._make(h)
        alpha, best, smallest = at.alpha, at.alpha, np.inf
        for _ in range(MAX_SOLVES_PER_STEP):
            g = self._centred(self._drive(alpha) - (alpha - at.alpha) / h)
            residual = self._relative(g, alpha)
            improved = residual < smallest / 3
            if residual < smallest:
                best, smallest = alpha, residual
            if not improved or residual <= MAX_RELATIVE_ROUND_OFF:
                break
            missing = 0.0 if problem.e is None else problem.d - float(problem.e @ alpha)
            alpha = alpha + self._solve(g, missing)
        after, nu = self._residual(best)
        is_optimal = before <= MAX_RELATIVE_ROUND_OFF or (h >= self.longest and not after < 0.5 * before)
        kept = at.alpha if is_optimal and before <= after else best
        state = replace(
            at, t=at.t + h, h=min(h * growth, self.longest), alpha=kept, nu=nu, moved=0.0 if is_optimal else 1.0
        )
        return state, min(before, after) if is_optimal else after

    # --- the residual ----------------------------------------------------------------------------

    def product(self, v: NDArray) -> NDArray:
        """Return Qv."""
        if self.L is not None:
            thin: NDArray = self.L @ (self.L.T @ v) + self.problem.ridge * v
            return thin
        return self.problem.product(v) if self.Q is None else self.Q @ v

    def _drive(self, alpha: NDArray) -> NDArray:
        """Return p − Qα."""
        drive: NDArray = self.problem.p - self.product(alpha)
        return drive

    def _centred(self, g: NDArray) -> NDArray:
        """Return g without its component along e, which only changes the multiplier."""
        e = self.problem.e
        return g if e is None else g - float(e @ g) / len(g) * e

    def _relative(self, g: NDArray, alpha: NDArray) -> float:
        """Return the largest entry of a residual, relative to the size of its terms."""
        weights = np.abs(alpha)
        size = self.kernel_max * float(weights.sum()) + float((self.problem.ridge * weights).max()) + self.p_max
        return float(np.abs(g).max()) / size if size else 0.0

    def _residual(self, alpha: NDArray) -> tuple[float, float]:
        """Return the relative residual of the optimality condition at α, and the least-squares multiplier."""
        g, e = self._drive(alpha), self.problem.e
        nu = 0.0 if e is None else -float(e @ g) / len(g)
        return self._relative(self._centred(g), alpha), nu

    # --- the system ------------------------------------------------------------------------------

    def _make(self, h: float) -> None:
        """Factorise Q + 1/h."""
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
            self._products = _ProductSystem(problem, shift)
            return
        self._column = None if e is None else self._solve_factored(e)

    def _solve_factored(self, right: NDArray) -> NDArray:
        """Return (Q + 1/h)⁻¹ right by the factor."""
        if self._thin is not None:
            return self._thin.solve(right)
        solved: NDArray = scipy.linalg.lapack.dpotrs(self._factor, right, lower=1)[0]
        return solved

    def _solve(self, right: NDArray, missing: float) -> NDArray:
        """Return the step s with (Q + 1/h)s = right + νe and eᵀs = missing, for some ν."""
        if self._products is not None:
            return self._products.step(-right, missing)
        s, e = self._solve_factored(right), self.problem.e
        if e is not None and self._column is not None:
            s = s + (missing - float(e @ s)) / float(e @ self._column) * self._column
        return s


class _ProductSystem(ConjugateSystem):
    """The system Q + shift of all variables, solved by conjugate gradients with the problem's products."""

    def __init__(self, problem: Workspace, shift: float) -> None:
        self.problem, self.members = problem, np.arange(problem.n)
        self.live = np.ones(problem.n, dtype=bool)
        self.delta, self.diag = shift, problem.diag() + shift
        self.diag[self.diag == 0] = 1.0
        self.struggled = False

    def product(self, v: NDArray) -> NDArray:
        return self.problem.product(v)


def _cholesky(Q: NDArray, shift: float) -> NDArray:
    """Return the Cholesky factor of Q + shift, with a larger shift if round-off makes that indefinite."""
    lift = shift
    for _ in range(12):
        A = Q.copy()
        A.flat[:: len(A) + 1] += lift
        if factorise(A.T):
            return A.T
        lift = max(10 * lift, float(_EPS * np.abs(Q).max() * len(Q)))
    raise scipy.linalg.LinAlgError("Q is indefinite beyond round-off")
