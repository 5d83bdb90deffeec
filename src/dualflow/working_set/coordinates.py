"""Dual coordinate descent of `working-set`, for sparse points with a linear kernel.

A kernel matrix of such points takes far longer than a pass over their entries. With w = Σσαx kept up to date the
gradient of a variable needs its own row only (Hsieh et al. 2008). The equality eᵀα = d, which no single variable can
keep, becomes a part of the objective,

    f(α) − ν(eᵀα − d) + ½ρ(eᵀα − d)²

(an augmented Lagrangian: ρ adds to each curvature), with the ν of the best dual bound for the current w. After each
round the free variables are moved until the equality holds again. Where the rounds are slow, all free variables are
moved together by conjugate gradients, whose products are passes over their rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..core.bounds import dual_bound, gaps
from ..core.problem import DualProblem, Kind
from ..core.reading import multiplier_of
from ..core.runtime.clock import check_time
from ..core.runtime.threads import cached_property
from ..core.sparse_points import SparsePoints
from ..core.workspace import Workspace
from ..refinement.linear_systems import ConjugateSystem
from ._coordinates import Round
from .state import WorkingSetState

#: With at least this many variables, these rounds replace blocks of pair updates. The number was not tuned.
MIN_N = 500
#: Multiplications between two checks of the clock, some hundredths of a second.
MAX_PRODUCTS_UNINTERRUPTED = 1 << 24
#: Passes over all entries of the points in a step; the gap is computed between steps.
PASSES_PER_STEP = 8
#: A step ends when the violation of a round is at most this share of that of its first round.
STEP_END_RATIO = 0.1
#: If a step leaves more than this share of the gap, it is slow, and a conjugate step follows.
SLOW_GAP_RATIO = 0.5
#: If the relative gap is at most this, the free variables are likely to be those of the optimum.
MAX_GAP_NEAR = 1e-2
#: Far from the optimum, the run ends after this many steps without progress. The bound can be bad for long while f
#: falls.
MAX_STALLED_FAR = 40
#: The same limit at a gap of at most `MAX_GAP_NEAR`.
MAX_STALLED_NEAR = 12


def suits_coordinates(problem: DualProblem) -> bool:
    """Whether a problem is of sparse points with a linear kernel, large enough, and of a kind with a finite optimum."""
    gram, kinds = problem.gram, (Kind.BOX_EQUALITY, Kind.BOX, Kind.SIMPLEX, Kind.CAPPED_SIMPLEX)
    sparse = isinstance(gram.X, SparsePoints) and gram.kernel == "linear"
    return sparse and problem.n >= MIN_N and problem.kind in kinds


@dataclass
class Coordinates:
    """The context of a run."""

    workspace: Workspace  # a problem for which `suits_coordinates` is true
    gap_tol: float  # relative gap at which the run ends

    @cached_property
    def rows(self) -> scipy.sparse.csr_array:
        """The points minus their centre."""
        gram = self.workspace.gram
        points = gram.X if gram.center is None else gram.X - gram.center
        rows = scipy.sparse.csr_array((points.data, points.indices, points.indptr), shape=points.shape, copy=False)
        return rows.astype(float, copy=False)

    @cached_property
    def points(self) -> NDArray:
        """The index of each variable's point."""
        idx = self.workspace.idx
        return np.arange(self.workspace.n) if idx is None else np.array(idx)

    @cached_property
    def diag(self) -> NDArray:
        """Diagonal of Q, bounded below so that a division by it is finite."""
        diag = self.workspace.diag()
        return np.maximum(diag, 1e-12 * (float(diag.max()) or 1.0))

    def start(self, warm: NDArray | None) -> WorkingSetState:
        """Return the first state: at the given α, or at the feasible point nearest to 0."""
        problem, none = self.workspace, np.empty(0, dtype=np.intp)
        alpha = problem.project(np.zeros(problem.n)) if warm is None else warm
        return WorkingSetState(alpha, none, 0, False, np.inf, 0, 0, np.inf, 0, np.empty(0), 0)

    def step(self, state: WorkingSetState) -> WorkingSetState:
        """Return the next state, after some rounds, or the last one if the gap meets its tolerance."""
        problem, alpha = self.workspace, np.array(state.alpha)
        w, total = self.weights(alpha)
        Qa = self.product(alpha, w, total)
        lower, interval = dual_bound(problem, alpha, Qa)
        _, gap = gaps(0.5 * float(alpha @ Qa) - float(problem.p @ alpha), lower)
        stalled = 0 if gap < 0.9 * state.best else state.stalled + 1
        if gap <= self.gap_tol or stalled > (MAX_STALLED_FAR if gap > MAX_GAP_NEAR else MAX_STALLED_NEAR):
            return replace(state, done=True, offered=gap <= self.gap_tol)
        if SLOW_GAP_RATIO * state.best < gap <= MAX_GAP_NEAR:
            moved = self.conjugate_step(alpha, Qa)
            if moved is not None:
                alpha = moved
                w, total = self.weights(alpha)
                lower, interval = dual_bound(problem, alpha, self.product(alpha, w, total))
        nu = multiplier_of(interval)
        work = self.rounds(alpha, w, total, nu if np.isfinite(nu) else 0.0, state.blocks)
        self.restore_equality(alpha)
        return replace(
            state,
            alpha=alpha,
            violation=work.violation,
            blocks=state.blocks + 1,
            updates=state.updates + work.updates,
            best=min(gap, state.best),
            stalled=stalled,
        )

    def rounds(self, alpha: NDArray, w: NDArray, total: float, nu: float, seed: int) -> Round:
        """Run the rounds of a step, which update α and w in place; return the last one."""
        problem, rows = self.workspace, self.rows
        # The mean curvature: a smaller ρ needs many steps to meet the equality, a larger one makes all moves short.
        rho = 0.0 if problem.e is None else float(self.diag.mean())
        e = np.zeros(problem.n) if problem.e is None else problem.e
        arrays = rows.data, rows.indices, rows.indptr, self.points
        values = problem.p, problem.upper, problem.ridge, problem.sigma, e, self.diag + rho
        work = Round(alpha, w, total, nu, seed)
        passes, first = 0.0, None
        while passes < PASSES_PER_STEP:
            work.begin()
            passes += work.active / problem.n
            while not work.go_on(*arrays, *values, problem.scale, problem.offset, rho, MAX_PRODUCTS_UNINTERRUPTED):
                check_time()
            check_time()
            first = work.violation if first is None else first
            if work.violation <= STEP_END_RATIO * first:
                break
        return work

    def conjugate_step(self, alpha: NDArray, Qa: NDArray) -> NDArray | None:
        """Return α after a conjugate-gradient step over free variables, clipped to bounds; None if f would not fall."""
        problem = self.workspace
        free = np.flatnonzero((alpha > 0) & (alpha < problem.upper))
        if len(free) < 2:
            return None
        h = Qa - problem.p
        system = ConjugateSystem(problem, free, float(self.diag.max()))
        step = system.step(h[free], 0.0 if problem.e is None else problem.d - float(problem.e @ alpha))
        after = np.array(alpha)
        after[free] = np.clip(alpha[free] + step, 0.0, problem.upper[free])
        self.restore_equality(after)
        change = after - alpha
        w, total = self.weights(change)
        along = self.product(change, w, total)
        slope, curvature = float(h @ change), float(change @ along)
        if not slope < 0:
            return None
        return alpha + min(1.0, -slope / curvature) * change if curvature > 0 else after

    def restore_equality(self, alpha: NDArray) -> None:
        """Move the free variables, in place, until eᵀα = d: a projection would move variables at bounds too."""
        problem = self.workspace
        if problem.e is None:
            return
        for _ in range(4):
            missing = problem.d - float(problem.e @ alpha)
            free = np.flatnonzero((alpha > 0) & (alpha < problem.upper))
            if not missing or not len(free):
                break
            alpha[free] = np.clip(alpha[free] + problem.e[free] * (missing / len(free)), 0.0, problem.upper[free])
        if abs(problem.d - float(problem.e @ alpha)) > 1e-12 * float(np.abs(alpha).sum()):
            alpha[:] = problem.project(alpha)

    def weights(self, alpha: NDArray) -> tuple[NDArray, float]:
        """Return w = Σσαx, shape (m,), and Σσα."""
        signed = self.workspace.sigma * alpha
        by_point = np.bincount(self.points, signed, minlength=self.workspace.gram.n)
        return np.asarray(by_point @ self.rows), float(signed.sum())

    def product(self, alpha: NDArray, w: NDArray, total: float) -> NDArray:
        """Return Qα, shape (n,), from the `weights` of α."""
        problem, values = self.workspace, np.asarray(self.rows @ w)
        product: NDArray = problem.scale * problem.sigma * (values[self.points] + problem.offset * total)
        return product + problem.ridge * alpha

    def gradient(self, state: WorkingSetState) -> NDArray:
        """Return Qα − p, shape (n,)."""
        return self.product(state.alpha, *self.weights(state.alpha)) - self.workspace.p

    def wants_whole(self, state: WorkingSetState) -> bool:
        """Return False: the dense kernel matrix is never needed."""
        return False
