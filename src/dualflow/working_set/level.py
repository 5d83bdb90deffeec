"""One level of the block decomposition: a problem on a part of the points, its gradient, and its matrix by blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core._radial import add_rows
from ..core.kernel_cache import MAX_POINTS_DENSE_MANY
from ..core.problem import Kind
from ..core.product_points import ProductPoints
from ..core.radial import RadialPoints
from ..core.workspace import Workspace
from . import sliding
from ._pairs import extremes, shortfall, solve_pairs
from .block_rows import MAX_N_ONE_BLOCK, MIN_BLOCK_WIDTH, BlockRows, makes_rows, one_block_of, points_of
from .units import ScaledVariables

#: Variables of a block that is computed before it is solved. In float32, 512 × 512 values stay in the second-level
#: cache. If more than `MAX_N_ONE_BLOCK` variables have all kernel values cached, the width is `MIN_BLOCK_WIDTH`: fewer
#: blocks.
BLOCK_WIDTH = 512
#: Up to this many variables, the dense matrix is computed as one block, which takes less time than several.
MAX_N_DENSE_BLOCK = 1000
#: Largest width of a block whose rows are made on demand. From `MIN_BLOCK_WIDTH` on, the width follows the number of
#: free variables.
MAX_BLOCK_WIDTH = 6144
#: With more variables, a block has room for n / `VARIABLES_PER_EXTRA` variables beside the free ones. The number of
#: needed blocks then does not grow with n.
MAX_N_FREE_BLOCKS = 1 << 16
#: Variables of the problem per such variable of a block.
VARIABLES_PER_EXTRA = 64
#: Largest width of such a block: its rows take 1 GB in float32.
MAX_BLOCK_WIDTH_LARGE = 16_384
#: Gradients are clipped to this, because float32 ends at 3e38 and the compiled loop expects finite numbers.
MAX_GRADIENT = 1e29
#: Variables in the sample that estimates the error of a gradient.
ERROR_SAMPLE_SIZE = 64
#: A slide pays from this many free variables per rank of their matrix.
MIN_FREE_PER_RANK = 4
#: The largest error of the sample times this bounds the error of the difference of any two gradients.
ERROR_SAFETY_FACTOR = 8
#: Only above this relative gap may float64 have lost its digits. Below it, a run has made progress, and its rounding
#: errors are smaller than the bound from the sums.
MIN_GAP_LOST = 0.1
#: Standard deviations that a sum of independent rounding errors may reach.
ROUNDING_SIGMAS = 2.0


class Level(ScaledVariables):
    """The variables β and the gradient G of a problem in one precision.

    A block is solved by the compiled loop. For radial kernels of few features the loop makes the kernel rows it needs;
    for others the block's matrix is computed first. The change of the block's variables is then added to the gradient
    of the other variables, by rows that the Gram caches or that are made and dropped.

    Rows that are made on demand use the workspace's memory, so that only one level of a problem can be in use.

    Parameters
    ----------
    problem : Workspace
    alpha : array of shape (n,)
        Feasible start.
    dtype : type
        float32 or float64.
    alone : bool, default=False
        Whether the run has no other level.
    """

    def __init__(self, problem: Workspace, alpha: NDArray, dtype: type, *, alone: bool = False) -> None:
        self.dtype = dtype
        gram, n, diag = problem.gram, problem.n, problem.diag()
        #: Whether kernel values are cached in float32.
        self.is_rounded = gram.is_rounded
        most = MAX_POINTS_DENSE_MANY if dtype is np.float32 and problem.idx is None else MAX_N_ONE_BLOCK
        self.one_block = most if self.is_rounded and n <= most else one_block_of(gram) if alone else MIN_BLOCK_WIDTH
        super().__init__(problem, alpha, diag)
        # Kernel values too large for float32 are computed in float64, scaled, and rounded last.
        self.precision = dtype if gram.is_safe_in_single else float
        self.factor = problem.scale * self.unit / self.slope
        self.ridge = problem.ridge * (self.unit / self.slope)
        self.diag: NDArray = (diag * (self.unit / self.slope)).astype(dtype)
        self.G = -self.ep
        self.chosen_at = np.zeros(n, dtype=np.int64)
        self.blocks = self.updates = 0
        self.points: RadialPoints | ProductPoints | None = None
        if makes_rows(gram) and not gram.is_rounded and self.precision is dtype:
            points = points_of(gram, dtype)
            self.points = points if problem.idx is None else points.take(problem.idx)
            self.rows = BlockRows(problem, self.points, self.sign, self.ridge, self.factor)
        self._dense: NDArray | None = None
        self.start_gradient()
        self.active = np.ones(n, dtype=bool)
        self.beta_at_shrink = self.beta.copy()
        self._measured: tuple[float, float] | None = None
        self.violation = self.violation_and_gap()[0]
        self.shrink()

    @property
    def gradient(self) -> NDArray:
        """Qα − p in this precision, shape (n,); of shrunk variables as it was when they were shrunk."""
        return self.e * self.G * self.slope

    def start_gradient(self) -> None:
        """Compute G for the start β; if all variables are one block, from rows that the first block needs too."""
        started = np.flatnonzero(self.beta)
        if self.points is not None and self.problem.n <= self.one_block:
            free = self.is_free[started]
            if free.any():
                self.rows.add(started[free], self.beta[started[free]], self.G)
            started = started[~free]
        if len(started):
            self.add_product(slice(None), started, self.beta[started])

    def set_gradient(self, h: NDArray) -> None:
        """Replace G by a given gradient h = Qα − p, shape (n,)."""
        self.G[:], self._measured = self.e * h / self.slope, None

    def restart_from(self, alpha: NDArray, h: NDArray) -> None:
        """Replace α and its gradient h = Qα − p, both of shape (n,)."""
        self.beta[:] = np.minimum(np.maximum(self.e * alpha / self.unit, self.low), self.high)
        self.beta_at_shrink, self.active[:] = self.beta.copy(), True
        self.set_gradient(h)

    # --- parts of the matrix M --------------------------------------------------------------------

    def block(self, W: NDArray) -> NDArray:
        """Return the block M[W, W]; the block of all variables is cached."""
        if self._dense is not None:
            return self._dense
        gram, points = self.problem.gram, W if self.problem.idx is None else self.problem.idx[W]
        # Beyond `MAX_N_ONE_BLOCK` the only copy is scaled: nothing else of a level with one block reads it.
        takes = self.is_rounded and self.precision is np.float32 and len(W) == self.problem.n > MAX_N_ONE_BLOCK
        K = gram.take_float32() if takes else gram.cached_block(points, self.precision)
        if self.problem.offset:
            K += K.dtype.type(self.problem.offset)
        K *= (self.factor * self.sign[W]).astype(K.dtype)[:, None]
        K *= self.sign[W].astype(K.dtype)
        K[np.diag_indices(len(W))] += self.ridge[W].astype(K.dtype)
        K = np.ascontiguousarray(K, dtype=self.dtype)
        if len(W) == self.problem.n:
            self._dense = K
        return K

    def add_product(self, where: NDArray | slice, J: NDArray, change: NDArray) -> None:
        """G[where] += M[where, J] change, with J and ``where`` equal or disjoint; cached rows update all of G."""
        weights = self.sign[J] * change
        if self.points is None:
            where, gram, idx = slice(None), self.problem.gram, self.problem.idx
            points, shares = J if idx is None else idx[J], weights
            if idx is not None and len(met := np.unique(points)) < len(points):
                # Both variables of a point moved (a tube of width 0); its row is cached once.
                points, shares = met, np.bincount(np.searchsorted(met, points), weights)
            total = gram.sum_rows(points, shares, self.precision)
            total = total if idx is None else total[idx]
        else:
            others: Any = self.points.take(where)  # of the same kind
            self.problem.gram.count(len(others) * len(J))
            total = others.expand(self.points.take(J), weights[:, None])[:, 0]
        self.G[where] += self.factor * self.sign[where] * (total + self.problem.offset * weights.sum())
        if isinstance(where, slice):
            self.G[J] += self.ridge[J] * change

    # --- KKT violation and gap --------------------------------------------------------------------

    def rise_and_fall(self, shrunk: bool = False) -> tuple[NDArray, NDArray]:
        """Return the decrease of f per unit for raising and for lowering each variable, −∞ where a bound prevents it.

        Shrunk variables have −∞ too, or, if ``shrunk`` is true, the values from when they were shrunk.
        """
        active = True if shrunk else self.active
        rise = np.where(active & (self.beta < self.high), -self.G, -np.inf)
        fall = np.where(active & (self.beta > self.low), self.G, -np.inf)
        return rise, fall

    def kkt_excess(self, shrunk: bool = False) -> NDArray:
        """Return by how much each variable violates its KKT condition; negative is slack, −∞ as in `rise_and_fall`.

        The multiplier is the one halfway between the two worst violators.
        """
        rise, fall = self.rise_and_fall(shrunk)
        nu = self.middle(float(rise.max()), float(fall.max())) if self.problem.e is not None else 0.0
        excess: NDArray = np.maximum(rise + nu, fall - nu)
        return excess

    def shrink(self) -> None:
        """Shrink the variables at 0 with the largest KKT slack: their G is not updated until `unshrink`.

        A block of all variables updates all of G: none is shrunk there.
        """
        n, max_active = self.problem.n, max(2 * MIN_BLOCK_WIDTH, self.problem.n // 4)
        if self.points is None or n <= max(2 * max_active, self.one_block):
            return
        excess = self.kkt_excess()
        excess[self.beta != 0] = np.inf
        least = np.argpartition(-excess, max_active)[max_active:]
        self.active[least[excess[least] < 0]] = False  # violators stay active, even if they are more than max_active
        self._measured = None

    def unshrink(self) -> bool:
        """Update G of the shrunk variables and shrink anew; return whether there were any."""
        if any_shrunk := not self.active.all():
            (shrunk,) = (~self.active).nonzero()
            moved = np.flatnonzero(self.beta != self.beta_at_shrink)
            self.add_product(shrunk, moved, self.beta[moved] - self.beta_at_shrink[moved])
            self.active[:] = True
            self._measured = None
        self.beta_at_shrink = self.beta.copy()
        self.shrink()
        return any_shrunk

    def gradient_error(self) -> float:
        """Estimate the error of this precision's gradient (in units of s), from the exact one of a sample.

        If kernel values are cached in float32 the exact gradient is of these; the effect of their rounding is added,
        and so is that of values too large for float32, which a block rounds.
        """
        sample = np.flatnonzero(self.active)
        sample = sample[:: max(1, len(sample) // ERROR_SAMPLE_SIZE)]
        in_single = self.dtype is np.float32 and self.precision is float
        rounded = self.precision is np.float32 and self.is_rounded
        if rounded and self._dense is not None and not self.problem.gram.is_rounded:  # it was scaled
            true = self._dense[sample] @ self.beta - self.ep[sample]
        else:
            product = self.problem.product(self.alpha, sample, np.float32 if rounded else float)
            true = self.e[sample] * (product - self.problem.p[sample]) / self.slope
        error = float(np.abs(true - self.G[sample]).max(initial=0.0))
        return error + (self._rounding_of_block() if rounded or in_single else 0.0)

    def error_bound(self) -> float:
        """Return the violation below which this precision cannot identify violators, in units of s."""
        return ERROR_SAFETY_FACTOR * self.gradient_error() if self.dtype is np.float32 else self.round_off()

    def round_off(self) -> float:
        """Return the violation that round-off can leave in float64, in units of s: that of sums as long as β."""
        return 16 * float(np.finfo(float).eps) * float(np.abs(self.beta).sum())

    def has_lost(self, violation: float, gap: float) -> bool:
        """Whether a violation, in units of s, is below the rounding errors of the gradient's sums.

        Kernel values lose that many digits far from the origin. Rounding makes such matrices indefinite, so that the
        gap stays where it is, and β grows with each block, up to its bounds. In float32 this is looked for if kernel
        values are too large for it.
        """
        if self.dtype is np.float64:
            return gap > MIN_GAP_LOST and violation <= float(np.finfo(float).eps) * float(np.abs(self.beta).sum())
        return self.precision is float and violation <= self._rounding_of_block()

    def _rounding_of_block(self) -> float:
        """Return the error that a block in float32 adds to a gradient by the rounding of its values, in units of s."""
        largest = self.factor * float(np.abs(self.problem.gram.diag()).max())
        return ROUNDING_SIGMAS * float(np.finfo(np.float32).eps) * largest * float(np.linalg.norm(self.beta))

    def violation_and_gap(self) -> tuple[float, float]:
        """Return the largest KKT violation (in units of s) and the relative duality gap, in this precision."""
        if self._measured is None:
            self._measured = self._violation_and_gap()
        return self._measured

    def _violation_and_gap(self) -> tuple[float, float]:
        problem, active, nu = self.problem, self.active.view(np.uint8), 0.0
        top, bottom = extremes(self.G, self.beta, self.low, self.high, active)
        top, bottom = (top if top > -1e300 else -np.inf), (bottom if bottom > -1e300 else -np.inf)
        violation = max(top, bottom)
        if problem.e is not None:
            violation, nu = top + bottom, self.middle(top, bottom)
        if problem.kind is Kind.SIMPLEX:
            nu = -top  # the best bound: a larger ν loses at every variable whose gradient lies below it
        quadratic, linear = float(self.beta @ self.G), float(self.beta @ self.ep)
        quadratic += linear
        objective = 0.5 * quadratic - linear
        # u = ∞ is stored as 1e300: a multiplier of the wrong sign there makes the bound worthless, as it should.
        lost = shortfall(self.G, self.e, self.low, self.high, active, nu)
        bound = -0.5 * quadratic + nu * problem.d / self.unit + lost
        size = max(abs(objective), abs(bound))
        return max(violation, 0.0), (objective - bound) / size if 0 < size < np.inf else np.inf

    def violator_count(self) -> int:
        """Return the number of variables at a bound that violate their KKT condition."""
        return int(np.count_nonzero((self.kkt_excess() > 0) & ~self.is_free))

    # --- one block --------------------------------------------------------------------------------

    @property
    def block_tol_ratio(self) -> float:
        """The part of the largest violation to which a block is solved; smaller if the block is the whole problem."""
        return 0.02 if self.problem.n <= self.one_block else 0.05

    def choose_block(self) -> NDArray:
        """Return the variables of the next block, sorted: free ones of earlier blocks, and the largest violators."""
        n = self.problem.n
        has_rows = self.points is not None or self.is_rounded
        width = self.one_block if has_rows else MIN_BLOCK_WIDTH if n <= MAX_N_DENSE_BLOCK else BLOCK_WIDTH
        if n <= width:
            return np.arange(n)
        free = np.flatnonzero(self.is_free & (self.chosen_at > 0))
        max_free = width // 2
        if self.points is not None:
            # All free variables in one block where possible: blocks with a part of them undo each other's updates.
            large = n > MAX_N_FREE_BLOCKS
            max_width, extra = (MAX_BLOCK_WIDTH_LARGE, n // VARIABLES_PER_EXTRA) if large else (MAX_BLOCK_WIDTH, 0)
            width = min(max_width, max(MIN_BLOCK_WIDTH, len(free) + max(len(free) // 4, extra)))
            max_free = 4 * max_width // 5
        if n <= width:
            return np.arange(n)
        if len(free) > max_free:
            free = free[np.argpartition(-self.chosen_at[free], max_free - 1)[:max_free]]
        rise, fall = self.rise_and_fall()
        room = width - len(free)
        chosen = np.zeros(n, dtype=bool)
        chosen[free] = True
        if self.problem.e is None:
            chosen[_spread(np.maximum(rise, fall), room)] = True
        else:
            # Half of the room for variables to raise, half for variables to lower. What one half cannot fill the other
            # gets: on the simplex only nonzero variables can be lowered, and those are in the block already.
            nu = self.middle(float(rise.max()), float(fall.max()))
            rise[chosen] = fall[chosen] = -np.inf
            rising, falling = int((rise > -np.inf).sum()), int((fall > -np.inf).sum())
            up = min(rising, max(room // 2, room - falling))
            for excess, count in ((rise + nu, up), (fall - nu, min(falling, room - up))):
                if count:
                    chosen[_spread(excess, count)] = True
        block = np.flatnonzero(chosen & self.active)
        self.blocks += 1
        self.chosen_at[block] = self.blocks
        return block

    def slide(self) -> bool:
        """Move free variables to their bounds without changing the gradient, until as few are free as the rank.

        Returns whether that was possible: the matrix of the free variables must have low rank.
        """
        (F,) = self.is_free.nonzero()
        problem, max_rank = self.problem, min(sliding.MAX_RANK, len(F) // MIN_FREE_PER_RANK)
        if max_rank < 1 or self.points is None or not problem.psd.is_psd or self.ridge[F].any():
            return False
        points, sign = (F if problem.idx is None else problem.idx[F]), self.sign[F]
        if len(F) > 2 * sliding.SAMPLE_SIZE:
            some = points[:: len(F) // sliding.SAMPLE_SIZE]
            part = problem.gram.block(some, some)
            if sliding.low_rank(part.diagonal(), lambda k: part[:, k], max_rank) is None:
                return False
        L = sliding.low_rank(
            problem.gram.diag()[points],
            lambda k: problem.gram.block(points, points[k : k + 1])[:, 0],
            max_rank,
        )
        if L is None:
            return False
        size = np.sqrt(float(problem.gram.diag()[points].max()))
        sums = problem.e is not None, problem.offset > 0
        ones = (np.full(len(F), size), size * sign)
        Y = np.column_stack([sign[:, None] * L, *(column for column, kept in zip(ones, sums, strict=True) if kept)])
        beta = self.beta[F]
        sliding.slide(Y, self.G[F], beta, self.low[F], self.high[F])
        self.beta[F] = beta
        self.set_gradient(problem.gradient(self.alpha))
        self.beta_at_shrink = self.beta.copy()
        return True

    def solve_block(self, tolerance: float, limit: int) -> int:
        """Solve one block and update the gradient; return the number of pair updates.

        Parameters
        ----------
        tolerance : float
            KKT violation at which the block is solved.
        limit : int
            Pair updates, at most.
        """
        W, self._measured = self.choose_block(), None
        beta, G = self.beta[W], self.G[W]
        finite = np.clip(G, -MAX_GRADIENT, MAX_GRADIENT).astype(self.dtype)
        problem = (finite, self.diag[W], beta, self.low[W], self.high[W])
        stop = (self.problem.e is not None, tolerance, limit)
        if self.points is None:
            rows, slots = self.block(W), np.arange(len(W), dtype=np.int64)
            updates, _, _ = solve_pairs(rows, slots, len(W), *problem, *stop)
        else:
            updates, rows, slots = self.rows.solve(W, *problem, *stop)
        (moved,) = (beta != self.beta[W]).nonzero()
        change = beta[moved] - self.beta[W[moved]]
        self.beta[W] = beta
        self.updates += int(updates)
        if self.points is None and len(W) < self.problem.n:
            self.add_product(slice(None), W[moved], change)
            return int(updates)
        # The compiled loop's gradient has accumulated rounding errors: sum the rows once more.
        add_rows(rows, slots[moved], change, G)
        self.G[W] = G
        if len(W) < self.problem.n:
            rest = self.active.copy()
            rest[W] = False
            self.add_product(np.flatnonzero(rest), W[moved], change)
        return int(updates)


def _spread(excess: NDArray, count: int) -> NDArray:
    """Return ``count`` variables for a block: the largest violators, or, of more violators, some of each size.

    On smooth data the largest violators are neighbours: a block of these alone moves all variables between them, and
    the next block moves them back.
    """
    (violators,) = (excess > 0).nonzero()
    if len(violators) <= count:
        return np.argpartition(-excess, count - 1)[:count]
    order = violators[np.argsort(-excess[violators], kind="stable")]
    return order[np.arange(count) * len(order) // count]
