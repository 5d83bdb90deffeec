"""The linear systems of the refinement: the block of Q of the free variables.

`FreeSystem` factorises the block once and updates the solution while variables are held or freed, by the
Schur-complement method of active-set solvers (Gill, Murray, Saunders, Wright 1990). The factor belongs to the variables
that were free when it was made. A multiplier keeps the step of a variable at zero that has met a bound since; a
variable that was freed since is bordered on. Each costs a triangular solve, and all together a small dense system.

`ConjugateSystem` solves by conjugate gradients if the dense factor would take more memory than the points: sparse
points have thin kernel matrices (`thin_kernel`), for which a product with the block is cheap.

`factorise` is a Cholesky factorisation that checks the time limit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core._radial import lift
from ..core.problem import DualProblem
from ..core.runtime.clock import check_time
from ..core.runtime.memory import arena_array
from ..core.thin_kernel import is_thin, thin_block

#: Up to this many rows, the factor is made by one LAPACK call, which takes a tenth of a second.
MAX_ROWS_ONE_CALL = 2048
#: A larger matrix is factorised in panels of this many columns.
PANEL_COLUMNS = 256


def factorise(A: NDArray) -> bool:
    """Replace the lower triangle of A by L with A = LLᵀ, and return whether A was positive definite.

    Large matrices are factorised a panel at a time, with a check of the time limit before each.

    Parameters
    ----------
    A : array of shape (n, n)
        Symmetric, column-major, in float64 or float32. Entries above the diagonal may be arbitrary, and are
        overwritten, as is all of A if it is not positive definite.
    """
    (potrf,) = scipy.linalg.lapack.get_lapack_funcs(("potrf",), (A,))
    n = len(A)
    if n <= MAX_ROWS_ONE_CALL:
        factor, failed = potrf(A, lower=1, clean=0, overwrite_a=1)
        if factor is not A and not np.shares_memory(factor, A):
            A[:] = factor
        return not failed
    for start in range(0, n, PANEL_COLUMNS):
        check_time()
        stop = min(start + PANEL_COLUMNS, n)
        panel, before = A[start:, start:stop], A[start:, :start]
        with np.errstate(invalid="ignore", over="ignore"):  # entries above the diagonal may be NaN
            panel -= before @ before[: stop - start].T
        corner, failed = potrf(panel[: stop - start], lower=1, clean=0)
        if failed:
            return False
        panel[: stop - start] = corner
        if stop < n:
            rest = scipy.linalg.solve_triangular(corner, panel[stop - start :].T, lower=True, check_finite=False)
            panel[stop - start :] = rest.T
    return True


def _has_pivots(A: NDArray, least: float) -> bool:
    """Factorise as `factorise`; whether no pivot is below ``least``, as a part of its diagonal entry.

    Rounding errors of a factor do not depend on the scale of a row and its column (Demmel 1989), so that points of
    different lengths need no common scale.
    """
    own = A.diagonal().copy()
    return factorise(A) and bool((A.diagonal() ** 2 >= least * own).all())


def _suits_float32(n: int, part: Callable[[NDArray], NDArray]) -> bool:
    """Whether n variables are many, and the factor of a sample of them has large pivots only.

    A pivot is the part of a point that those before it do not explain in feature space. If the least one is large, the
    condition number is small. ``part`` returns the matrix of some variables, column-major.
    """
    many = n >= MIN_SAMPLES_FLOAT32 * SAMPLE_FLOAT32
    return many and _has_pivots(part(np.arange(SAMPLE_FLOAT32) * n // SAMPLE_FLOAT32), MIN_PIVOT_SAMPLE)


def solve_definite(A: NDArray, right: NDArray) -> NDArray:
    """Return A⁻¹ right, shape (n, k), for a symmetric positive definite A; else raise `LinAlgError`.

    The factor of a matrix with a small condition number is made in float32, and residuals in float64 are solved for.

    Parameters
    ----------
    A : array of shape (n, n)
        Row-major; overwritten.
    right : array of shape (n, k)
    """
    if _suits_float32(len(A), lambda some: A[np.ix_(some, some)].T):
        factor = arena_array(A.shape, np.float32).T
        factor[:] = A.T
        if _has_pivots(factor, MIN_PIVOT_FLOAT32):
            found = [one for side in right.T if (one := _solved_in_single(A, factor, side)) is not None]
            if len(found) == right.shape[1]:
                return np.column_stack(found)
    if not factorise(A.T):
        raise np.linalg.LinAlgError("the matrix is not positive definite")
    return np.asarray(scipy.linalg.cho_solve((A.T, True), right, check_finite=False))


def _solved_in_single(A: NDArray, factor: NDArray, right: NDArray) -> NDArray | None:
    """Return A⁻¹ right to round-off of float64 by a factor of A in float32; None if residuals do not fall that far."""
    found, left, max_residual = np.zeros(len(A)), right, MAX_RESIDUAL_SINGLE * float(np.abs(right).max())
    for _ in range(MAX_SOLVES_SINGLE):
        if (size := float(np.abs(left).max())) <= max_residual:
            return found
        found = found + size * scipy.linalg.cho_solve((factor, True), np.float32(left / size), check_finite=False)
        left = right - A @ found
    return found if float(np.abs(left).max()) <= max_residual else None


_EPS = float(np.finfo(float).eps)
#: Largest number of solves for a right side and its residuals by a float32 factor.
MAX_SOLVES_SINGLE = 8
#: These solves end when the residual is at most this share of the right side.
MAX_RESIDUAL_SINGLE = 1e-12
#: With at least this many variables, the factor may be made in float32.
MIN_N_FLOAT32 = 256
#: If the ridge is at least this share of the trace, the factor is made in float32, because the condition number is
#: small.
MIN_RIDGE_FLOAT32 = 1e-6
#: Without a ridge, the pivots of a sample of this many variables show whether the factor is made in float32. Its factor
#: takes 2 ms.
SAMPLE_FLOAT32 = 512
#: Without a ridge, float32 needs at least this many times the variables of the sample.
MIN_SAMPLES_FLOAT32 = 2
#: If every pivot of the sample is at least this share of its diagonal entry, the factor is tried in float32.
MIN_PIVOT_SAMPLE = 0.02
#: Without a ridge, each pivot of a float32 factor must be at least this share of its diagonal entry. With less, float64
#: is faster, because each solve for the residual leaves more.
MIN_PIVOT_FLOAT32 = 1e-3
#: Up to this many right-hand sides are solved one by one. That takes a fifth of LAPACK's time for two together.
MAX_RIGHT_SIDES_ALONE = 4


class _Members:
    """Some variables, the members, of which some may move: ``position`` of each variable, and a mask ``live``."""

    def __init__(self, problem: DualProblem, free: NDArray) -> None:
        self.problem, self.members = problem, free
        self.live = np.ones(len(free), dtype=bool)
        self.position = np.full(problem.n, -1, dtype=np.intp)  # of each variable among the members
        self.position[free] = np.arange(len(free))

    def not_live(self, free: NDArray) -> NDArray:
        """Return those of the variables that are not live members."""
        places = self.position[free]
        return free[~((places >= 0) & self.live[places])]


class FreeSystem(_Members):
    """Q restricted to some variables, the members, of which some are held.

    Members are the variables of the factor, followed by those added since. ``live`` is a mask of the members that may
    move. All vectors are over the members. Signs are kept out of the matrix: Q = σ(sK + sc + R)σ, and the factor is
    that of sK + sc + R + κ(σe)(σe)ᵀ + δ.

    The term κeeᵀ is constant where eᵀs is given, so it does not move a minimiser. Without it, a null vector of Q that
    is not orthogonal to e makes the two solves of a step huge, and their difference noise. δ is at round-off level:
    with a singular Q (duplicates, low rank) it makes the step a proximal one, which still descends and becomes exact
    when it is repeated.
    """

    def __init__(self, problem: DualProblem, free: NDArray, diag_max: float, in_double: bool = False) -> None:
        super().__init__(problem, free)
        self.base, self.in_double = len(free), in_double
        self.sigma, self.ridge = problem.sigma[free], problem.ridge[free]
        # Its entries below the diagonal may be arbitrary.
        self.kernel = problem.gram.upper_block(free if problem.idx is None else problem.idx[free])
        self.kappa = 0.0 if problem.e is None else diag_max / len(free)
        self.factors, self.delta = 0, 0.0
        self.factor = self._factorise(4 * len(free) * _EPS * diag_max)
        self.border = np.empty((self.base, 0))  # block of sK + sc + R between the factor's variables and the added ones
        self.corner = np.empty((0, 0))
        self.half_border = np.empty((self.base, 0))  # L⁻¹ (border with κ)
        self.half_unit = np.empty((self.base, 0))  # L⁻¹ of the unit vectors of held variables
        self.held = np.empty(0, dtype=np.intp)
        self.has_unit = np.zeros(len(free), dtype=bool)

    def _shift(self, rows: NDArray, J: NDArray) -> NDArray | float:
        """Return the block of κ(σe)(σe)ᵀ of some rows and columns J."""
        e, sigma = self.problem.e, self.problem.sigma
        if e is None:
            return 0.0
        left, right = e[rows] * sigma[rows], e[J] * sigma[J]
        if (left == left[:1]).all() and (right == left[:1]).all():
            return self.kappa
        return self.kappa * np.outer(left, right)

    def _factorise(self, delta: float) -> NDArray | None:
        """Return the factor with the least δ from ``delta`` on, in powers of 10, that gives one; None if none does."""
        problem, free = self.problem, self.members
        trace = problem.scale * (float(self.kernel.trace()) + self.base * problem.offset) + float(self.ridge.sum())
        sign = np.zeros(self.base) if problem.e is None else problem.e[free] * self.sigma * np.sqrt(self.kappa)
        # If the condition number is small, a float32 factor takes half the time and suffices: the caller computes the
        # residual in float64 and solves again for it. A ridge bounds that number.
        has_ridge = self.base >= MIN_N_FLOAT32 and float(self.ridge.min()) >= MIN_RIDGE_FLOAT32 * trace
        by_pivots = not has_ridge and _suits_float32(self.base, lambda some: self._lifted(some, sign, 0.0, float))
        in_single = not self.in_double and (has_ridge or by_pivots)
        for _ in range(8):
            self.factors += 1
            factor = self._lifted(slice(None), sign, delta, np.float32 if in_single else float)
            if _has_pivots(factor, MIN_PIVOT_FLOAT32 if in_single and by_pivots else 0.0):
                self.delta = delta
                return factor
            if in_single and by_pivots:
                in_single = False
            else:
                delta *= 10
        return None

    def _lifted(self, rows: NDArray | slice, sign: NDArray, delta: float, dtype: type) -> NDArray:
        """Return the lower triangle of the matrix to factorise, column-major as LAPACK expects it, of some rows."""
        problem, kernel = self.problem, self.kernel if isinstance(rows, slice) else self.kernel[np.ix_(rows, rows)]
        lifted = arena_array(kernel.shape, dtype)
        lift(kernel, problem.scale, problem.offset, sign[rows], lifted)
        lifted.ravel()[:: len(kernel) + 1] += (self.ridge[rows] + delta).astype(dtype)
        return lifted.T

    @property
    def in_single(self) -> bool:
        """Whether the factor is in float32."""
        return self.factor is not None and self.factor.dtype == np.float32

    @property
    def changes(self) -> int:
        """Number of variables held or added since the factor was made."""
        return int((~self.live[: self.base]).sum()) + len(self.members) - self.base

    def can_update(self, more: int) -> bool:
        """Whether ``more`` further changes are cheaper than a new factor."""
        return self.factor is not None and self.changes + more <= self.base // 16

    def hold(self, which: NDArray) -> None:
        """Hold members (positions): their step becomes zero."""
        self.live[which] = False
        if self.can_update(0):
            self._add_units(which)

    def hold_together(self, which: NDArray) -> bool:
        """Hold many members (positions) in one batch, and return whether that is cheaper than a new factor.

        One product of matrices serves all of them, so twice as many changes are allowed as in `hold`. If there are
        more, or no member is live any more, the system cannot solve with them held.
        """
        self.live[which] = False
        is_cheaper = self.changes <= self.base // 8 and bool(self.live.any())
        if is_cheaper:
            self._add_units(which)
        return is_cheaper

    def _add_units(self, which: NDArray) -> None:
        """Append L⁻¹ of the unit vectors of those members that are the factor's own."""
        fresh = which[which < self.base]
        fresh = fresh[~self.has_unit[fresh]]
        if len(fresh):
            units = np.zeros((self.base, len(fresh)), order="F")
            units[fresh, np.arange(len(fresh))] = 1.0
            self.half_unit = np.column_stack([self.half_unit, self._half(units)])
            self.held = np.concatenate([self.held, fresh])
            self.has_unit[fresh] = True

    def pin(self, k: int) -> NDArray:
        """Hold live member k, one of the factor's own; return x with Qx its unit vector, solved before it is held."""
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
        """Make more variables live, new ones or held members, at most as many as `can_update` allows."""
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

    def product(self, v: NDArray) -> NDArray:
        """Return Q v within the members."""
        problem, signed = self.problem, self.sigma * v
        first, rest = signed[: self.base], signed[self.base :]
        own = scipy.linalg.blas.dsymv(problem.scale, self.kernel.T, first, lower=1)
        own += problem.scale * problem.offset * float(first.sum()) + self.ridge * first
        if len(rest):
            own = np.concatenate([own + self.border @ rest, self.border.T @ first + self.corner @ rest])
        return self.sigma * own

    def solve(self, right: NDArray) -> NDArray:
        """Return x with Qx = right on the live members and x = 0 on the others, for right of shape (members, k).

        Exact up to δ, and up to a multiple of e from κeeᵀ.
        """
        # The right side of a member that is held is its multiplier: as large as it may be, its error would count.
        right = np.where(self.live[:, None], self.sigma[:, None] * right, 0.0)
        return self._finished(self._half(np.asfortranarray(right[: self.base])), right)

    def _finished(self, half: NDArray, right: NDArray) -> NDArray:
        """Return the solution for a right side in the signs of the factor, given ``half``, L⁻¹ of it."""
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
        """Return L⁻¹ B."""
        return self._triangular(B, 0)

    def _triangular(self, B: NDArray, transposed: int) -> NDArray:
        """Return L⁻¹ B, or L⁻ᵀ B if ``transposed`` is 1."""
        if 1 < B.shape[1] <= MAX_RIGHT_SIDES_ALONE:
            return np.column_stack([self._triangular(B[:, k : k + 1], transposed) for k in range(B.shape[1])])
        assert self.factor is not None
        if self.factor.dtype == np.float64:
            return scipy.linalg.lapack.dtrtrs(self.factor, B, lower=1, trans=transposed)[0]
        size = float(np.abs(B).max(initial=0.0)) or 1.0  # residuals may be below float32's range
        return scipy.linalg.lapack.strtrs(self.factor, B / size, lower=1, trans=transposed)[0] * size


#: With at least this many free variables, conjugate gradients replace a factor, whose memory grows with their square.
MIN_N_CONJUGATE = 1500
#: A solve ends at this share of its first residual.
RESIDUAL_TOL = 1e-8
#: Largest number of products of a solve.
MAX_PRODUCTS_PER_SOLVE = 400
#: If a solve ends above this share of its first residual, it has failed.
MAX_RESIDUAL_AT_END = 1e-2


def suits_conjugate_gradients(problem: DualProblem, free: NDArray) -> bool:
    """Whether the system of the free variables is solved faster by conjugate gradients than by a factor."""
    return len(free) >= MIN_N_CONJUGATE and is_thin(problem.gram)


class ConjugateSystem(_Members):
    """Q restricted to some variables, of which some are held, as `FreeSystem`, but without a factor.

    Steps are those of projected conjugate gradients (Gould, Hribar, Nocedal 2001, algorithm 2.1) with the diagonal as
    preconditioner; each iterate lowers f. ``struggled`` is True if the last solve failed because the system is too
    ill-conditioned.
    """

    factor = True
    factors, changes, in_single = 1, 0, False

    def __init__(self, problem: DualProblem, free: NDArray, diag_max: float) -> None:
        super().__init__(problem, free)
        self.delta = 4 * len(free) * _EPS * diag_max
        self.diag = problem.diag()[free] + self.delta
        self.diag[self.diag == 0] = 1.0
        points = free if problem.idx is None else problem.idx[free]
        gram: Any = problem.gram
        self.points: Any = gram._points(points) if gram.kernel == "linear" else None
        self.block = None if gram.kernel == "linear" else thin_block(gram, points, points)
        self.struggled = False

    def can_update(self, more: int) -> bool:
        """Whether ``more`` variables can be added: none can."""
        return more == 0

    def hold(self, which: NDArray) -> None:
        """Hold members (positions): their step becomes zero."""
        self.live[which] = False

    def add(self, J: NDArray) -> None:
        """Never called: `can_update` allows no additions."""

    def product(self, v: NDArray) -> NDArray:
        """Return Q v within the members."""
        problem, sigma = self.problem, self.problem.sigma[self.members]
        signed = sigma * v
        plain = self.points.dot(signed @ self.points) if self.block is None else self.block @ signed
        plain += problem.offset * float(signed.sum())
        product: NDArray = problem.scale * sigma * plain + problem.ridge[self.members] * v
        return product

    def step(self, h: NDArray, missing: float) -> NDArray:
        """Return an approximate minimiser of ½ sᵀQs + hᵀs over steps s of the live members, with eᵀs = ``missing``."""
        live, inverse = self.live, np.where(self.live, 1.0 / self.diag, 0.0)
        e = np.zeros(len(h)) if self.problem.e is None else np.where(live, self.problem.e[self.members], 0.0)
        across, s = inverse * e, np.zeros(len(h))
        weight = float(e @ across)
        if weight and missing:
            s = across * (missing / weight)

        def without_multiplier(r: NDArray) -> NDArray:
            # In each iteration: rounding of a component along e would hide the rest of the residual (section 6 there).
            return r - e * (float(across @ r) / weight) if weight else r

        residual = without_multiplier(np.where(live, -h - self._times(s), 0.0))
        direction = inverse * residual
        size = float(residual @ direction)
        first = size
        for _ in range(MAX_PRODUCTS_PER_SOLVE):
            if not size > RESIDUAL_TOL**2 * first:
                break
            check_time()
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
        self.struggled = not size <= MAX_RESIDUAL_AT_END**2 * first
        return s

    def _times(self, v: NDArray) -> NDArray:
        """Return (Q + δ)v on the live members, 0 on the others."""
        return np.where(self.live, self.product(v) + self.delta * v, 0.0)
