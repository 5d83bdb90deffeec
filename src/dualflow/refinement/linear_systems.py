"""The linear systems of the refinement: the free variables' block of Q, factorised once and kept while they change.

The Schur-complement method of active-set solvers (Gill, Murray, Saunders, Wright 1990): the factor belongs to the
variables that were free when it was made. One that meets a bound since is held at zero step by a multiplier, one that
was freed since is bordered on; both cost a triangular solve each and a small dense system.

The linear systems of the refinement where a factor would take more memory than the points: by conjugate gradients.

Sparse points have kernel matrices that are thin (`thin_kernel`): a product with the free variables' block costs little,
and its factor, which is dense, is never made.

Cholesky factors that take long: LAPACK's below a size, and panels of LAPACK's above it, with a look at the clock.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._radial import lift
from ..core.problem import DualProblem
from ..core.runtime.clock import look
from ..core.runtime.memory import borrowed
from ..core.thin_kernel import is_thin, thin_block

__all__ = ["ConjugateSystem", "FreeSystem", "factorise", "suits"]


#: Rows up to which one LAPACK call does it (a tenth of a second), and columns of a panel beyond.
AT_ONCE, PANEL = 2048, 256


def factorise(A: NDArray) -> bool:
    """L with A = LLᵀ, in the place of A's lower triangle; whether A was positive definite, else it is spoilt.

    Parameters
    ----------
    A : array of shape (n, n)
        Symmetric, column-major, in float64 or float32; what lies above the diagonal may be anything, and is not kept.
    """
    (potrf,) = scipy.linalg.lapack.get_lapack_funcs(("potrf",), (A,))
    n = len(A)
    if n <= AT_ONCE:
        factor, failed = potrf(A, lower=1, clean=0, overwrite_a=1)
        if factor is not A and not np.shares_memory(factor, A):
            A[:] = factor
        return not failed
    for start in range(0, n, PANEL):
        look()
        stop = min(start + PANEL, n)
        panel, before = A[start:, start:stop], A[start:, :start]
        with np.errstate(invalid="ignore", over="ignore"):  # what lies above the diagonal may be anything, NaN too
            panel -= before @ before[: stop - start].T
        corner, failed = potrf(panel[: stop - start], lower=1, clean=0)
        if failed:
            return False
        panel[: stop - start] = corner
        if stop < n:
            rest = scipy.linalg.solve_triangular(corner, panel[stop - start :].T, lower=True, check_finite=False)
            panel[stop - start :] = rest.T
    return True


_EPS = float(np.finfo(float).eps)
#: Variables and ridge, as a part of the trace, from which the factor is made in float32.
SINGLE_FROM, SINGLE_RIDGE = 256, 1e-6
#: Up to so many right-hand sides are solved for one after the other, which takes a fifth of LAPACK's time for two.
ONE_BY_ONE = 4


class FreeSystem:
    """Q restricted to some variables, of which some are held.

    Members are the variables of the factor followed by those added since. ``live`` says which of them may move. All
    vectors are over the members. Signs are kept out of the matrix: Q = σ(sK + sc + R)σ, and the factor is that of
    sK + sc + R + κ(σe)(σe)ᵀ + δ. κeeᵀ is constant where eᵀs is given, so it moves no minimiser; without it a null
    vector of Q that is not orthogonal to e makes the two solves of a step huge, and their difference noise. δ is at
    round-off level: it makes the singular case (duplicates, low rank) a proximal step, whose direction still
    descends, and which is exact once repeated.
    """

    def __init__(self, problem: DualProblem, free: NDArray, diag_max: float) -> None:
        self.problem, self.base, self.members = problem, len(free), free
        self.live = np.ones(len(free), dtype=bool)
        self.position = np.full(problem.n, -1, dtype=np.intp)  # of each variable among the members
        self.position[free] = np.arange(len(free))
        self.sigma, self.ridge = problem.sigma[free], problem.ridge[free]
        # What is below its diagonal may be anything.
        self.kernel = problem.gram.upper_block(free if problem.idx is None else problem.idx[free])
        self.kappa = 0.0 if problem.e is None else diag_max / len(free)
        self.factors, self.delta = 0, 0.0
        self.factor = self._factorise(4 * len(free) * _EPS * diag_max)
        self.border = np.empty((self.base, 0))  # plain block between the factor's variables and the added ones
        self.corner = np.empty((0, 0))
        self.half_border = np.empty((self.base, 0))  # L⁻¹ (border with κ)
        self.half_unit = np.empty((self.base, 0))  # L⁻¹ of the unit vectors of held variables
        self.held = np.empty(0, dtype=np.intp)
        self.has_unit = np.zeros(len(free), dtype=bool)

    def _shift(self, rows: NDArray, J: NDArray) -> NDArray | float:
        """κ(σe)(σe)ᵀ between variables."""
        e, sigma = self.problem.e, self.problem.sigma
        if e is None:
            return 0.0
        left, right = e[rows] * sigma[rows], e[J] * sigma[J]
        if (left == left[:1]).all() and (right == left[:1]).all():
            return self.kappa
        return self.kappa * np.outer(left, right)

    def _factorise(self, delta: float) -> NDArray | None:
        problem, free = self.problem, self.members
        trace = problem.scale * (float(self.kernel.trace()) + self.base * problem.offset) + float(self.ridge.sum())
        # A ridge bounds the condition number. Where that is small, float32 is a factor twice as fast, and good enough:
        # whoever solves looks at the residual in float64 and solves again for what is left.
        single = self.base >= SINGLE_FROM and float(self.ridge.min()) >= SINGLE_RIDGE * trace
        dtype = np.float32 if single else np.float64
        sign = np.zeros(self.base) if problem.e is None else problem.e[free] * self.sigma * np.sqrt(self.kappa)
        for _ in range(8):
            self.factors += 1
            lifted = borrowed((self.base, self.base), dtype)
            lift(self.kernel, problem.scale, problem.offset, sign, lifted)
            lifted.ravel()[:: self.base + 1] += (self.ridge + delta).astype(dtype)
            # LAPACK works in place, on the lower triangle of the transpose.
            if factorise(lifted.T):
                self.delta = delta
                return lifted.T
            delta *= 10
        return None

    @property
    def changes(self) -> int:
        """Variables held or added since the factor was made."""
        return int((~self.live[: self.base]).sum()) + len(self.members) - self.base

    def bears(self, more: int) -> bool:
        """Whether carrying so many more changes along is cheaper than a new factor."""
        return self.factor is not None and self.changes + more <= self.base // 16

    def hold(self, which: NDArray) -> None:
        """Let members (positions) no longer move."""
        self.live[which] = False
        if self.bears(0):
            self._bring_units(which)

    def hold_together(self, which: NDArray) -> bool:
        """The same of many at once, which takes a product of matrices: twice as many are cheaper than a new factor.
        Whether that are no more, and any still move; if not, nobody is held by a multiplier yet."""
        self.live[which] = False
        borne = self.changes <= self.base // 8 and bool(self.live.any())
        if borne:
            self._bring_units(which)
        return borne

    def _bring_units(self, which: NDArray) -> None:
        """L⁻¹ of the unit vectors of those that are the factor's own."""
        fresh = which[which < self.base]
        fresh = fresh[~self.has_unit[fresh]]
        if len(fresh):
            units = np.zeros((self.base, len(fresh)), order="F")
            units[fresh, np.arange(len(fresh))] = 1.0
            self.half_unit = np.column_stack([self.half_unit, self._half(units)])
            self.held = np.concatenate([self.held, fresh])
            self.has_unit[fresh] = True

    def pin(self, k: int) -> NDArray:
        """Let a live member k of the factor's own no longer move; returns x with Qx its unit vector before."""
        unit = np.zeros((self.base, 1), order="F")
        unit[k] = 1.0
        half = self._half(unit)
        right = np.zeros((len(self.members), 1))
        right[k] = self.sigma[k]
        response = self._finished(half * self.sigma[k], right)[:, 0]
        self.live[k] = False
        if not self.has_unit[k]:
            self.half_unit = np.column_stack([self.half_unit, half])
            self.held = np.append(self.held, k)
            self.has_unit[k] = True
        return response

    def add(self, J: NDArray) -> None:
        """Let more variables move: new ones, or members that were held. Only as many as it `bears`."""
        problem, places = self.problem, self.position[J]
        self.live[places[places >= 0]] = True
        J = J[places < 0]
        if len(J) == 0:
            return
        base = self.members[: self.base]
        old = self.members[self.base :]
        border = problem.plain_block(base, J)
        across, within = problem.plain_block(old, J), problem.plain_block(J, J)
        self.corner = np.block([[self.corner, across], [across.T, within]])
        self.border = np.column_stack([self.border, border])
        self.position[J] = len(self.members) + np.arange(len(J))
        self.members = np.concatenate([self.members, J])
        self.sigma = self.problem.sigma[self.members]
        self.live = np.concatenate([self.live, np.ones(len(J), dtype=bool)])
        self.half_border = np.column_stack([self.half_border, self._half(border + self._shift(base, J))])

    def strangers(self, free: NDArray) -> NDArray:
        """Those of the variables that are not live members."""
        places = self.position[free]
        return free[~((places >= 0) & self.live[places])]

    def product(self, v: NDArray) -> NDArray:
        """Q v within the members."""
        problem, signed = self.problem, self.sigma * v
        first, rest = signed[: self.base], signed[self.base :]
        own = scipy.linalg.blas.dsymv(problem.scale, self.kernel.T, first, lower=1)
        own += problem.scale * problem.offset * float(first.sum()) + self.ridge * first
        if len(rest):
            own = np.concatenate([own + self.border @ rest, self.border.T @ first + self.corner @ rest])
        return self.sigma * own

    def solve(self, right: NDArray) -> NDArray:
        """x with Qx = right on the live members and x = 0 on the others, for right of shape (members, k).

        Up to δ, and to what κeeᵀ adds along e.
        """
        right = self.sigma[:, None] * right
        return self._finished(self._half(np.asfortranarray(right[: self.base])), right)

    def _finished(self, half: NDArray, right: NDArray) -> NDArray:
        """The solution for a right side in the factor's signs, of which the first half, L⁻¹ of it, is known."""
        out = np.zeros_like(right)
        held = ~self.live[self.held]
        added = self.live[self.base :]
        if held.any() or added.any():
            Z = np.column_stack([self.half_border[:, added], self.half_unit[:, held]])
            a = int(added.sum())
            schur = -(Z.T @ Z)
            new = self.members[self.base :][added]
            schur[:a, :a] += self.corner[np.ix_(added, added)] + self._shift(new, new) + self.delta * np.eye(a)
            side = -(Z.T @ half)
            side[:a] += right[self.base :][added]
            _, _, y, _ = scipy.linalg.lapack.dsysv(schur, side)
            half -= Z @ y
            out[self.base :][added] = y[:a]
        out[: self.base] = self._triangular(half, 1)
        out[~self.live] = 0.0
        return self.sigma[:, None] * out

    def _half(self, B: NDArray) -> NDArray:
        """L⁻¹ B."""
        return self._triangular(B, 0)

    def _triangular(self, B: NDArray, transposed: int) -> NDArray:
        if 1 < B.shape[1] <= ONE_BY_ONE:
            return np.column_stack([self._triangular(B[:, k : k + 1], transposed) for k in range(B.shape[1])])
        assert self.factor is not None
        if self.factor.dtype == np.float64:
            return scipy.linalg.lapack.dtrtrs(self.factor, B, lower=1, trans=transposed)[0]
        size = float(np.abs(B).max(initial=0.0)) or 1.0  # residuals may be below float32's range
        return scipy.linalg.lapack.strtrs(self.factor, B / size, lower=1, trans=transposed)[0] * size


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
