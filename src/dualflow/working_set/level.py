"""One level of the block decomposition: a problem on some of the points, its gradient, and its kernel rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ._pairs import add_rows, solve_pairs

__all__ = ["BLOCK", "CACHE_BYTES", "Level", "nested_order", "restrict", "seed"]

#: Widest block: a 512 × 512 float32 block is 1 MB and stays in the second-level cache.
BLOCK = 512
#: Kernel rows kept, in bytes; beyond it the rows unused for longest are dropped.
CACHE_BYTES = 1 << 30


def nested_order(problem: DualProblem, rng: np.random.Generator) -> NDArray:
    """A random order of the Gram's points of which every prefix holds the classes in proportion."""
    points = problem.gram.n
    sign = np.ones(points)
    sign[np.arange(problem.n) if problem.idx is None else problem.idx] = problem.sigma
    place = np.empty(points)
    for value in (1.0, -1.0):
        members = rng.permutation(np.flatnonzero(sign == value))
        place[members] = (np.arange(len(members)) + rng.random()) / max(1, len(members))
    return np.argsort(place, kind="stable")


def restrict(problem: DualProblem, points: NDArray) -> tuple[DualProblem, NDArray]:
    """The problem on some points of the Gram, and the indices of its variables in the whole one.

    Where eᵀα = d > 0 is shared out among fewer variables, their bounds grow in proportion (ν stays what it is).
    """
    idx, inside = None, points
    if problem.idx is not None:
        where = np.full(problem.gram.n, -1, dtype=np.intp)
        where[points] = np.arange(len(points))
        inside = np.flatnonzero(where[problem.idx] >= 0)
        idx = where[problem.idx[inside]]
    upper = problem.upper[inside]
    if problem.kind in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX):
        upper = upper * (problem.gram.n / len(points))
        total = float(upper.sum())
        if total < problem.d:  # weighted points: a prefix can hold less than its share
            upper = upper * (problem.d / total) * (1 + 1e-9) if total > 0 else np.full(len(inside), problem.d)
    part = replace(
        problem,
        gram=problem.gram.subset(points),
        p=problem.p[inside],
        lower=problem.lower[inside],
        upper=upper,
        e=None if problem.e is None else problem.e[inside],
        sigma=problem.sigma[inside],
        ridge=problem.ridge[inside],
        idx=idx,
    )
    return part, inside


def seed(problem: DualProblem, alpha: NDArray) -> NDArray:
    """A feasible start from the solution on fewer points, with few non-zeros.

    On the capped simplex the bounds shrink as points join, and projection would spread what they cut off over all
    points. It goes to those that want it most instead, up to their bounds: the ones farthest outside.
    """
    clipped = np.minimum(alpha, problem.upper)
    missing = problem.d - float(clipped.sum())
    if problem.kind is not Kind.CAPPED_SIMPLEX or missing <= 1e-12 * problem.d or not alpha.any():
        return problem.project(alpha)
    order = np.argsort(problem.gradient(alpha * (problem.d / float(alpha.sum()))), kind="stable")
    room = (problem.upper - clipped)[order]
    before = np.cumsum(room) - room
    clipped[order] += np.clip(missing - before, 0.0, room)
    return problem.project(clipped)


class Level:
    """β = eα/b, G = (Mβ − ep)/s with M = b·diag(e)Q diag(e), and the rows of M/s seen so far, in one precision.

    Without an equality e counts as 1. The units b of α and s of the gradient make M/s of order 1 whatever the
    scale of the kernel, which the constants of the compiled loop rely on; s = 1 for the hinge, so that violations
    are LIBSVM's. The state that matters (α) belongs to the solver; this is working memory.
    """

    def __init__(self, problem: DualProblem, alpha: NDArray, dtype: type) -> None:
        self.problem, self.dtype = problem, dtype
        # Kernel values too large for float32 are scaled first and rounded then.
        self.precision = dtype if problem.gram.is_safe_in_single else float
        n = problem.n
        e = np.ones(n) if problem.e is None else problem.e
        self.e, self.sign = e, e * problem.sigma
        upper = problem.effective_upper
        largest = float(problem.diag().max(initial=0.0)) or 1.0
        if problem.kind in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX):
            self.unit, self.slope = problem.d, problem.d * largest
        else:
            self.slope = float(np.abs(problem.p).max(initial=0.0)) or 1.0
            self.unit = self.slope / largest
        # The compiled loop is built for finite numbers: ∞ becomes a bound no step can reach.
        upper = np.minimum(upper / self.unit, 1e300)
        self.low, self.high = np.where(e > 0, 0.0, -upper), np.where(e > 0, upper, 0.0)
        self.beta = np.clip(e * alpha / self.unit, self.low, self.high)
        self.capacity = max(2 * BLOCK, int(CACHE_BYTES // (np.dtype(dtype).itemsize * n)))
        self.capacity = min(self.capacity, n)
        self.rows: NDArray = np.empty((min(self.capacity, 2 * BLOCK), n), dtype=dtype)
        self.slot = np.full(n, -1, dtype=np.int64)
        self.owner = np.full(self.capacity, -1, dtype=np.int64)
        self.used = np.zeros(self.capacity, dtype=np.int64)
        self.count = self.clock = 0
        self.G = -e * problem.p / self.slope
        self.chosen_at = np.zeros(n, dtype=np.int64)
        self.add(np.flatnonzero(self.beta), self.beta[self.beta != 0])

    @property
    def alpha(self) -> NDArray:
        """α of this level, shape (n,)."""
        # A bound is given back as it came: (u/b)·b may be an ulp off.
        return np.clip(self.e * self.beta * self.unit, 0.0, self.problem.upper)

    def set_gradient(self, h: NDArray) -> None:
        """Replace G by a gradient Qα − p from elsewhere."""
        self.G[:] = self.e * h / self.slope

    def evaluate(self, J: NDArray) -> NDArray:
        """Rows J of M, shape (len(J), n)."""
        problem, idx = self.problem, self.problem.idx
        K = problem.gram.rows(J if idx is None else idx[J], self.precision)
        if idx is not None:
            K = K[:, idx]
        return self._signed(K, J, slice(None), J)

    def block(self, W: NDArray) -> NDArray:
        """The block M[W, W]."""
        idx = self.problem.idx
        points = W if idx is None else idx[W]
        return self._signed(self.problem.gram.block(points, points, self.precision), W, W, np.arange(len(W)))

    def _signed(self, K: NDArray, J: NDArray, columns: NDArray | slice, diagonal: NDArray) -> NDArray:
        problem, factor = self.problem, self.unit / self.slope
        if not K.flags.writeable or K.base is not None:
            K = K.copy()
        if problem.offset:
            K += K.dtype.type(problem.offset)
        if (self.sign != 1).any():
            K *= (problem.scale * factor * self.sign[J]).astype(K.dtype)[:, None]
            K *= self.sign[columns].astype(K.dtype)
        elif problem.scale * factor != 1:
            K *= K.dtype.type(problem.scale * factor)
        K[np.arange(len(J)), diagonal] += (factor * problem.ridge[J]).astype(K.dtype)
        return np.ascontiguousarray(K, dtype=self.dtype)

    def add(self, J: NDArray, change: NDArray) -> None:
        """G += M[:, J] change, fetching the rows that are not kept; in parts if J outgrows the cache."""
        for start in range(0, len(J), BLOCK):
            part = J[start : start + BLOCK]
            self.fetch(part)
            add_rows(self.rows, self.slot[part], np.ascontiguousarray(change[start : start + BLOCK]), self.G)

    def fetch(self, J: NDArray) -> None:
        self.clock += 1
        kept = J[self.slot[J] >= 0]
        self.used[self.slot[kept]] = self.clock
        missing = J[self.slot[J] < 0]
        if len(missing) == 0:
            return
        if self.count + len(missing) > self.capacity:
            self.evict(len(missing))
        free = np.flatnonzero(self.owner < 0)[: len(missing)]
        if (needed := int(free.max()) + 1) > len(self.rows):
            grown: NDArray = np.empty(
                (min(self.capacity, max(needed, 2 * len(self.rows))), self.problem.n), dtype=self.dtype
            )
            grown[: len(self.rows)] = self.rows
            self.rows = grown
        self.rows[free] = self.evaluate(missing)
        self.slot[missing], self.owner[free], self.used[free] = free, missing, self.clock
        self.count += len(missing)

    def evict(self, wanted: int) -> None:
        """Drop the rows unused for longest."""
        held = np.flatnonzero(self.owner >= 0)
        oldest = held[np.argsort(self.used[held], kind="stable")][:wanted]
        self.slot[self.owner[oldest]] = -1
        self.owner[oldest] = -1
        self.count -= len(oldest)

    # --- where we stand --------------------------------------------------------------------------

    def candidates(self) -> tuple[NDArray, NDArray]:
        """How strongly each variable wants to rise and to fall, −∞ where a bound forbids it."""
        rise = np.where(self.beta < self.high, -self.G, -np.inf)
        fall = np.where(self.beta > self.low, self.G, -np.inf)
        return rise, fall

    def standing(self, rise: NDArray, fall: NDArray) -> tuple[float, float]:
        """Worst KKT violation (in units of s), and the relative duality gap as this precision sees it."""
        problem = self.problem
        nu = 0.0
        if problem.e is not None:
            top, bottom = float(rise.max()), float(fall.max())
            violation = top + bottom
            nu = 0.5 * (bottom - top) if np.isfinite(violation) else (bottom if np.isfinite(bottom) else -top)
        else:
            violation = max(float(rise.max()), float(fall.max()))
        ep = self.e * problem.p / self.slope
        quadratic = float(self.beta @ (self.G + ep))
        objective = 0.5 * quadratic - float(self.beta @ ep)
        rho = self.e * (self.G - nu)
        wrong = rho < 0
        with np.errstate(over="ignore"):
            # u = ∞ stands as 1e300: a wrong sign there makes the bound worthless, as it should.
            u = np.maximum(np.abs(self.low), np.abs(self.high))
            bound = -0.5 * quadratic + nu * problem.d / self.unit + float(u[wrong] @ rho[wrong])
        size = max(abs(objective), abs(bound))
        return max(violation, 0.0), (objective - bound) / size if 0 < size < np.inf else np.inf

    def choose(self, rise: NDArray, fall: NDArray) -> NDArray:
        """The next block: half the worst violators, half what was free before, sorted."""
        n = self.problem.n
        if n <= BLOCK:
            return np.arange(n)
        free = np.flatnonzero((self.beta > self.low) & (self.beta < self.high) & (self.chosen_at > 0))
        if len(free) > BLOCK // 2:
            free = free[np.argpartition(-self.chosen_at[free], BLOCK // 2 - 1)[: BLOCK // 2]]
        room = BLOCK - len(free)
        chosen = np.zeros(n, dtype=bool)
        chosen[free] = True
        if self.problem.e is None:
            chosen[np.argpartition(-np.maximum(rise, fall), room - 1)[:room]] = True
        else:
            half = room // 2
            chosen[np.argpartition(-rise, half - 1)[:half]] = True
            chosen[np.argpartition(-fall, half - 1)[:half]] = True
        block = np.flatnonzero(chosen)
        self.chosen_at[block] = self.clock + 1
        return block

    def improve(self, tolerance: float, limit: int) -> int:
        """Solve one block and carry its changes to the whole gradient; returns the number of pair updates."""
        W = self.choose(*self.candidates())
        beta = self.beta[W]
        updates, _ = solve_pairs(
            self.block(W),
            self.G[W].astype(self.dtype),
            beta,
            self.low[W],
            self.high[W],
            self.problem.e is not None,
            tolerance,
            limit,
        )
        change = beta - self.beta[W]
        moved = np.flatnonzero(change)
        self.beta[W] = beta
        self.add(W[moved], change[moved])
        return int(updates)
