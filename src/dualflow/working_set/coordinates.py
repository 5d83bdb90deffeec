"""The descent of `working-set` over sparse points with a linear kernel: blocks of one variable each.

A kernel matrix of such points takes far longer than a pass over their numbers. With w = Σσαx kept up to date a variable
knows its gradient by its own row alone (Hsieh et al. 2008). The equality eᵀα = d, which no variable can keep by itself,
is part of what is minimised instead,

    f(α) − ν(eᵀα − d) + ½ρ(eᵀα − d)²

(an augmented Lagrangian: ρ adds to each curvature), with the ν that makes the best bound for the w at hand. Between the
rounds variables off their bounds take what is missing of the equality, and move all at once now and then: by conjugate
gradients, whose products are passes over their rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..core.bounds import dual_bound, gaps
from ..core.problem import DualProblem, Kind
from ..core.runtime.clock import look
from ..core.runtime.threads import cached_property
from ..core.sparse_points import SparsePoints
from ..core.workspace import Workspace
from ..refinement.linear_systems import ConjugateSystem
from ._coordinates import Round
from .state import WorkingSetState

__all__ = ["Coordinates", "suits_coordinates"]

#: Variables from which these rounds replace blocks of pairs. The number was not tuned.
FROM = 500
#: Multiplications between two looks at the clock, some hundredths of a second.
AT_ONCE = 1 << 24
#: Passes over all points' numbers between two looks at the gap.
PASSES = 8
#: A round's spread of gradients, as a part of that of the step's first, that ends a step.
FALLEN = 0.1
#: The part that the gap must fall to in a step for the free variables not to move all at once, and the gap from which
#: on they are likely to be those of the optimum.
CRAWLS, NEAR = 0.5, 1e-2
#: Steps without progress after which this is at rest: far from the optimum, where the bound may be a bad one for long
#: while f falls, and near it.
STALLED, NEARLY = 40, 12


def suits_coordinates(problem: DualProblem) -> bool:
    """Whether a problem is of that kind, with finite optimum and lower bounds."""
    gram, kinds = problem.gram, (Kind.BOX_EQUALITY, Kind.BOX, Kind.SIMPLEX, Kind.CAPPED_SIMPLEX)
    sparse = isinstance(gram.X, SparsePoints) and gram.kernel == "linear"
    return sparse and problem.n >= FROM and problem.kind in kinds


@dataclass
class Coordinates:
    """What a run works with.

    Parameters
    ----------
    workspace : Workspace
        A problem that `suits_coordinates`.
    gap_tol : float
        Relative gap at rest.
    """

    workspace: Workspace
    gap_tol: float

    @cached_property
    def rows(self) -> scipy.sparse.csr_array:
        """The points less their centre."""
        gram = self.workspace.gram
        points = gram.X if gram.center is None else gram.X - gram.center
        rows = scipy.sparse.csr_array((points.data, points.indices, points.indptr), shape=points.shape, copy=False)
        return rows.astype(float, copy=False)

    @cached_property
    def points(self) -> NDArray:
        """The point of each variable."""
        idx = self.workspace.idx
        return np.arange(self.workspace.n) if idx is None else np.array(idx)

    @cached_property
    def diag(self) -> NDArray:
        """Qᵢᵢ, at least as much as keeps a division by it finite."""
        diag = self.workspace.diag()
        return np.maximum(diag, 1e-12 * (float(diag.max()) or 1.0))

    def start(self, warm: NDArray | None) -> WorkingSetState:
        """The first state: nothing, or as near as the equality lets it."""
        problem, none = self.workspace, np.empty(0, dtype=np.intp)
        alpha = problem.project(np.zeros(problem.n)) if warm is None else warm
        return WorkingSetState(alpha, none, 0, False, np.inf, 0, 0, np.inf, 0, np.empty(0), 0)

    def step(self, state: WorkingSetState) -> WorkingSetState:
        """The next state, some rounds on; the end, if this one's gap is small enough."""
        problem, alpha = self.workspace, np.array(state.alpha)
        w, total = self.weights(alpha)
        Qa = self.product(alpha, w, total)
        lower, interval = dual_bound(problem, alpha, Qa)
        _, gap = gaps(0.5 * float(alpha @ Qa) - float(problem.p @ alpha), lower)
        stalled = 0 if gap < 0.9 * state.best else state.stalled + 1
        if gap <= self.gap_tol or stalled > (STALLED if gap > NEAR else NEARLY):
            return replace(state, done=True, offered=gap <= self.gap_tol)
        if CRAWLS * state.best < gap <= NEAR:
            moved = self.all_at_once(alpha, Qa)
            if moved is not None:
                alpha = moved
                w, total = self.weights(alpha)
                lower, interval = dual_bound(problem, alpha, self.product(alpha, w, total))
        nu = 0.0 if interval is None else 0.5 * (interval[0] + interval[1])
        work = self.rounds(alpha, w, total, nu if np.isfinite(nu) else 0.0, state.blocks)
        self.meet(alpha)
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
        """Rounds over the variables, which they move."""
        problem, rows = self.workspace, self.rows
        # As much as a variable's own curvature: less leaves the equality to many steps, more makes all of them short.
        rho = 0.0 if problem.e is None else float(self.diag.mean())
        e = np.zeros(problem.n) if problem.e is None else problem.e
        arrays = rows.data, rows.indices, rows.indptr, self.points
        values = problem.p, problem.upper, problem.ridge, problem.sigma, e, self.diag + rho
        work = Round(alpha, w, total, nu, seed)
        passes, first = 0.0, None
        while passes < PASSES:
            work.begin()
            passes += work.active / problem.n
            while not work.go_on(*arrays, *values, problem.scale, problem.offset, rho, AT_ONCE):
                look()
            look()
            first = work.violation if first is None else first
            if work.violation <= FALLEN * first:
                break
        return work

    def all_at_once(self, alpha: NDArray, Qa: NDArray) -> NDArray | None:
        """Where the variables off their bounds are best while the others stay, cut off at bounds; None if that is no
        progress."""
        problem = self.workspace
        free = np.flatnonzero((alpha > 0) & (alpha < problem.upper))
        if len(free) < 2:
            return None
        h = Qa - problem.p
        system = ConjugateSystem(problem, free, float(self.diag.max()))
        step = system.step(h[free], 0.0 if problem.e is None else problem.d - float(problem.e @ alpha))
        after = np.array(alpha)
        after[free] = np.clip(alpha[free] + step, 0.0, problem.upper[free])
        self.meet(after)
        change = after - alpha
        w, total = self.weights(change)
        along = self.product(change, w, total)
        slope, curvature = float(h @ change), float(change @ along)
        if not slope < 0:
            return None
        return alpha + min(1.0, -slope / curvature) * change if curvature > 0 else after

    def meet(self, alpha: NDArray) -> None:
        """Give what the equality lacks to variables off their bounds: a projection would move those at bounds too."""
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
        """Σσαx and Σσα."""
        signed = self.workspace.sigma * alpha
        of_points = np.bincount(self.points, signed, minlength=self.workspace.gram.n)
        return np.asarray(of_points @ self.rows), float(signed.sum())

    def product(self, alpha: NDArray, w: NDArray, total: float) -> NDArray:
        """Qα."""
        problem, values = self.workspace, np.asarray(self.rows @ w)
        product: NDArray = problem.scale * problem.sigma * (values[self.points] + problem.offset * total)
        return product + problem.ridge * alpha

    def gradient(self, state: WorkingSetState) -> NDArray:
        """Qα − p."""
        return self.product(state.alpha, *self.weights(state.alpha)) - self.workspace.p

    def wants_whole(self, state: WorkingSetState) -> bool:
        """Never."""
        return False
