"""One level of the block decomposition: a problem on some of the points, its gradient, and rows of its matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core._radial import add_rows
from ..core.problem import Kind
from ..core.product_points import ProductPoints
from ..core.radial import RadialPoints
from ..core.workspace import Workspace
from . import sliding
from ._pairs import extremes, shortfall, solve_pairs
from .block_rows import NARROW, ONE_BLOCK, BlockRows, makes_rows, one_block_of, points_of
from .units import InUnits

__all__ = ["AT_ONCE", "BLOCK", "VAST", "WIDE", "Level"]

#: Width of a block computed beforehand: 512 × 512 in float32 stays in the second-level cache. Where all kernel values
#: of more than `ONE_BLOCK` are at hand it is NARROW: fewer blocks.
BLOCK = 512
#: Variables whose whole matrix is computed at once all the same: that takes less than the blocks it would be cut into.
AT_ONCE = 1000
#: Greatest width of a block whose rows are made on demand; from `NARROW` on it follows the free variables.
WIDE = 6144
#: Variables beyond which blocks have room for that part of them beside those that are free, up to a width of WIDEST (1
#: GB in float32): how many blocks it takes is then not up to n.
VAST, SHARE, WIDEST = 1 << 16, 64, 16_384
#: Gradients beyond this are as good as this.
LARGEST = 1e29
#: Variables by which the error of a gradient is judged.
SAMPLE = 64
#: Free variables for each of their matrix's rank, at least, that a slide is worth.
RANKS = 4
#: How much worse than the worst of these the worst of all may be, of two gradients.
DOUBT = 8
#: What many roundings sum to at most, in units of the root of the sum of squares of what an ulp of each makes.
SIGMAS = 2.0


class Level(InUnits):
    """β and G in one precision.

    The state that matters (α) belongs to the solver; rows made on demand are in the workspace's memory: one level of a
    problem is at work at a time. ``alone`` says that there is no other.

    A block is solved by the compiled loop, which makes the rows it needs (radial kernels of few features) or has the
    block computed for it. What moved is then carried to the other points, by rows the Gram keeps or made and forgotten.
    """

    def __init__(self, problem: Workspace, alpha: NDArray, dtype: type, *, alone: bool = False) -> None:
        self.dtype = dtype
        gram, n, diag = problem.gram, problem.n, problem.diag()
        self.one_block = one_block_of(gram) if alone else ONE_BLOCK if gram.is_rounded and n <= ONE_BLOCK else NARROW
        super().__init__(problem, alpha, diag)
        # Kernel values too large for float32 are scaled first and rounded then.
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
        self._whole: NDArray | None = None
        self.begin()
        self.awake = np.ones(n, dtype=bool)
        self.seen = self.beta.copy()
        self._stands: tuple[float, float] | None = None
        self.violation = self.standing()[0]
        self.doze()

    @property
    def gradient(self) -> NDArray:
        """Qα − p as this precision has it, shape (n,); of those asleep as it was when they were last looked at."""
        return self.e * self.G * self.slope

    def begin(self) -> None:
        """G of the β there is: where all variables are one block, by the rows of those that are free."""
        started = np.flatnonzero(self.beta)
        if self.points is not None and self.problem.n <= self.one_block:
            free = self.is_free[started]
            if free.any():
                self.rows.add(started[free], self.beta[started[free]], self.G)
            started = started[~free]
        if len(started):
            self.carry(slice(None), started, self.beta[started])

    def set_gradient(self, h: NDArray) -> None:
        """Replace G by a gradient Qα − p from elsewhere."""
        self.G[:], self._stands = self.e * h / self.slope, None

    def take(self, alpha: NDArray, h: NDArray) -> None:
        """Go on from another α, whose gradient is known."""
        self.beta[:] = np.minimum(np.maximum(self.e * alpha / self.unit, self.low), self.high)
        self.seen, self.awake[:] = self.beta.copy(), True
        self.set_gradient(h)

    # --- M, a piece at a time --------------------------------------------------------------------

    def block(self, W: NDArray) -> NDArray:
        """The block M[W, W]; that of all variables is kept."""
        if self._whole is not None:
            return self._whole
        gram, points = self.problem.gram, W if self.problem.idx is None else self.problem.idx[W]
        K = gram.kept_block(points, self.precision)
        if self.problem.offset:
            K += K.dtype.type(self.problem.offset)
        K *= (self.factor * self.sign[W]).astype(K.dtype)[:, None]
        K *= self.sign[W].astype(K.dtype)
        K[np.diag_indices(len(W))] += self.ridge[W].astype(K.dtype)
        K = np.ascontiguousarray(K, dtype=self.dtype)
        if len(W) == self.problem.n:
            self._whole = K
        return K

    def carry(self, where: NDArray | slice, J: NDArray, change: NDArray) -> None:
        """G[where] += M[where, J] change, for J and ``where`` either the same or disjoint; all of G with kept rows."""
        weights = self.sign[J] * change
        if self.points is None:
            where, gram, idx = slice(None), self.problem.gram, self.problem.idx
            points, shares = J if idx is None else idx[J], weights
            if idx is not None and len(met := np.unique(points)) < len(points):
                # Both variables of a point moved (a tube of width 0), and its row is kept once.
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

    # --- where we stand --------------------------------------------------------------------------

    def candidates(self, asleep: bool = False) -> tuple[NDArray, NDArray]:
        """How strongly each variable wants to rise and to fall, −∞ where a bound forbids it, and who is asleep, unless
        these are asked as they were when last looked at."""
        awake = True if asleep else self.awake
        rise = np.where(awake & (self.beta < self.high), -self.G, -np.inf)
        fall = np.where(awake & (self.beta > self.low), self.G, -np.inf)
        return rise, fall

    def wishes(self, asleep: bool = False) -> NDArray:
        """How strongly each variable wants to move, at the multiplier in the middle; −∞ as of `candidates`."""
        rise, fall = self.candidates(asleep)
        nu = self.middle(float(rise.max()), float(fall.max())) if self.problem.e is not None else 0.0
        wish: NDArray = np.maximum(rise + nu, fall - nu)
        return wish

    def doze(self) -> None:
        """Let those asleep whose multipliers are far from changing sign: G is not kept up for them until `wake`."""
        n, most = self.problem.n, max(2 * NARROW, self.problem.n // 4)
        if self.points is None or n <= 2 * most:
            return
        wish = self.wishes()
        wish[self.beta != 0] = np.inf
        least = np.argpartition(-wish, most)[most:]
        self.awake[least[wish[least] < 0]] = False  # whoever violates stays awake, however many they are
        self._stands = None

    def wake(self) -> bool:
        """Bring G up to date for those asleep; whether there were any."""
        if asleep := not self.awake.all():
            (still,) = (~self.awake).nonzero()
            moved = np.flatnonzero(self.beta != self.seen)
            self.carry(still, moved, self.beta[moved] - self.seen[moved])
            self.awake[:] = True
            self._stands = None
        self.seen = self.beta.copy()
        self.doze()
        return asleep

    def error(self) -> float:
        """What this precision's gradient is wrong by (in units of s), by the true one of a few variables: of kernel
        values that were rounded once, by theirs and what rounding makes of so many."""
        few = np.flatnonzero(self.awake)
        few = few[:: max(1, len(few) // SAMPLE)]
        rounded = self.precision is np.float32 and self.problem.gram.is_rounded
        true = self.problem.product(self.alpha, few, np.float32 if rounded else float) - self.problem.p[few]
        error = float(np.abs(self.e[few] * true / self.slope - self.G[few]).max(initial=0.0))
        if not rounded:
            return error
        largest = self.factor * float(np.abs(self.problem.gram.diag()).max())
        return error + SIGMAS * float(np.finfo(np.float32).eps) * largest * float(np.linalg.norm(self.beta))

    def doubt(self) -> float:
        """The violation up to which this precision cannot say who violates, in units of s."""
        return DOUBT * self.error() if self.dtype is np.float32 else self.noise()

    def noise(self) -> float:
        """What round-off leaves of a violation in float64, in units of s: that of sums as long as β."""
        return 16 * float(np.finfo(float).eps) * float(np.abs(self.beta).sum())

    def standing(self) -> tuple[float, float]:
        """Worst KKT violation (in units of s), and the relative duality gap as this precision sees it."""
        if self._stands is None:
            self._stands = self._look()
        return self._stands

    def _look(self) -> tuple[float, float]:
        problem, awake, nu = self.problem, self.awake.view(np.uint8), 0.0
        top, bottom = extremes(self.G, self.beta, self.low, self.high, awake)
        top, bottom = (top if top > -1e300 else -np.inf), (bottom if bottom > -1e300 else -np.inf)
        violation = max(top, bottom)
        if problem.e is not None:
            violation, nu = top + bottom, self.middle(top, bottom)
        if problem.kind is Kind.SIMPLEX:
            nu = -top  # the best there is: any other loses to all that lie below it, the free variables among them
        quadratic, linear = float(self.beta @ self.G), float(self.beta @ self.ep)
        quadratic += linear
        objective = 0.5 * quadratic - linear
        # u = ∞ stands as 1e300: a wrong sign there makes the bound worthless, as it should.
        lost = shortfall(self.G, self.e, self.low, self.high, awake, nu)
        bound = -0.5 * quadratic + nu * problem.d / self.unit + lost
        size = max(abs(objective), abs(bound))
        return max(violation, 0.0), (objective - bound) / size if 0 < size < np.inf else np.inf

    def invaders(self) -> int:
        """How many variables at a bound want to leave it."""
        return int(np.count_nonzero((self.wishes() > 0) & ~self.is_free))

    # --- a block ---------------------------------------------------------------------------------

    @property
    def depth_of_a_block(self) -> float:
        """The part of the worst violation to which a block is solved: less of it where it is the whole problem."""
        return 0.02 if self.problem.n <= self.one_block else 0.05

    def choose(self) -> NDArray:
        """The next block, sorted: what was free before, and the worst violators."""
        n = self.problem.n
        at_hand = self.points is not None or self.problem.gram.is_rounded
        given = self.one_block if at_hand else NARROW if n <= AT_ONCE else BLOCK
        if n <= given:
            return np.arange(n)
        free = np.flatnonzero(self.is_free & (self.chosen_at > 0))
        width, most = given, given // 2
        if self.points is not None:
            # All free variables at once where possible: blocks that hold a part of them undo each other's work.
            wide, more = (WIDEST, n // SHARE) if n > VAST else (WIDE, 0)
            width, most = min(wide, max(NARROW, len(free) + max(len(free) // 4, more))), 4 * wide // 5
        if n <= width:
            return np.arange(n)
        if len(free) > most:
            free = free[np.argpartition(-self.chosen_at[free], most - 1)[:most]]
        rise, fall = self.candidates()
        room = width - len(free)
        chosen = np.zeros(n, dtype=bool)
        chosen[free] = True
        if self.problem.e is None:
            chosen[_spread(np.maximum(rise, fall), room)] = True
        else:
            # Half of the room for either side, and what one cannot fill for the other: on the simplex only who has
            # weight can fall, and they are in already.
            nu = self.middle(float(rise.max()), float(fall.max()))
            rise[chosen] = fall[chosen] = -np.inf
            rising, falling = int((rise > -np.inf).sum()), int((fall > -np.inf).sum())
            up = min(rising, max(room // 2, room - falling))
            for wish, count in ((rise + nu, up), (fall - nu, min(falling, room - up))):
                if count:
                    chosen[_spread(wish, count)] = True
        block = np.flatnonzero(chosen & self.awake)
        self.blocks += 1
        self.chosen_at[block] = self.blocks
        return block

    def slide(self) -> bool:
        """Bring all free variables but as many as their matrix has rank to their bounds, along moves that change no
        gradient; whether there were more of them, and the rank is low."""
        (F,) = self.is_free.nonzero()
        problem, most = self.problem, min(sliding.MOST, len(F) // RANKS)
        if most < 1 or self.points is None or not problem.psd.is_psd or self.ridge[F].any():
            return False
        points, sign = (F if problem.idx is None else problem.idx[F]), self.sign[F]
        L = sliding.low_rank(
            problem.gram.diag()[points],
            lambda k: problem.gram.block(points, points[k : k + 1])[:, 0],
            most,
        )
        if L is None:
            return False
        size = np.sqrt(float(problem.gram.diag()[points].max()))
        sums = problem.e is not None, problem.offset > 0
        ones = (np.full(len(F), size), size * sign)
        Y = np.column_stack([sign[:, None] * L, *(one for one, kept in zip(ones, sums, strict=True) if kept)])
        beta = self.beta[F]
        sliding.slide(Y, self.G[F], beta, self.low[F], self.high[F])
        self.beta[F] = beta
        self.set_gradient(problem.gradient(self.alpha))
        self.seen = self.beta.copy()
        return True

    def improve(self, tolerance: float, limit: int) -> int:
        """Solve one block and carry its changes to the whole gradient; returns the number of pair updates."""
        W, self._stands = self.choose(), None
        beta, G = self.beta[W], self.G[W]
        # float32 ends at 3e38, and the compiled loop is built for finite numbers.
        within = np.clip(G, -LARGEST, LARGEST).astype(self.dtype)
        problem = (within, self.diag[W], beta, self.low[W], self.high[W])
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
            self.carry(slice(None), W[moved], change)
            return int(updates)
        # The compiled loop's own gradient has its rounding errors in it: the rows are summed once more.
        add_rows(rows, slots[moved], change, G)
        self.G[W] = G
        if len(W) < self.problem.n:
            rest = self.awake.copy()
            rest[W] = False
            self.carry(np.flatnonzero(rest), W[moved], change)
        return int(updates)


def _spread(wish: NDArray, count: int) -> NDArray:
    """Who is to be in a block, ``count`` of them: those that want to move most; of more violators than that, some of
    each size of violation, the worst among them.

    On smooth data the worst violators lie together: a block of these alone moves all variables between them, and the
    next block moves them back.
    """
    (violators,) = (wish > 0).nonzero()
    if len(violators) <= count:
        return np.argpartition(-wish, count - 1)[:count]
    order = violators[np.argsort(-wish[violators], kind="stable")]
    return order[np.arange(count) * len(order) // count]
