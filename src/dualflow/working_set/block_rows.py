"""Kernel rows of a block that are made on demand, by the compiled pair loop."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..core._radial import add_rows
from ..core.kernel_cache import KeptGram
from ..core.product_points import ProductPoints
from ..core.radial import RadialPoints
from ..core.sparse_points import SparsePoints
from ..core.workspace import Workspace
from ._pairs import RowSource, fetch_rows, padded, solve_pairs

#: Least width of a block whose rows are made on demand.
MIN_BLOCK_WIDTH = 1536
#: Up to this many features, rows of the radial kernel are made on demand.
MAX_FEATURES_ROWS = 256
#: The same limit for at most `MIN_BLOCK_WIDTH` points.
MAX_FEATURES_ROWS_FEW_POINTS = 1024
#: Up to this many features, rows of the linear kernel are made on demand.
MAX_FEATURES_ROWS_LINEAR = 64
#: Up to this many monomials (the rank of the kernel), rows of a polynomial kernel are made on demand. With more, pair
#: updates crawl if C is large.
MAX_MONOMIALS_ROWS = 96
#: Up to this many variables, all form one block if there is one level or the dense matrix is cached. So few are never
#: shrunk.
MAX_N_ONE_BLOCK = 4096
#: The same limit for at least `MIN_FEATURES_WIDE` features. Products then take most of the time, and no row should be
#: made twice. Over 4500 to 12 000 points it is 1.1 to 2.6 × as fast with 100 to 250 features, 0.7 to 1 × with 20 to 70.
#: The rows take 0.6 GB at most.
MAX_N_ONE_BLOCK_WIDE = 12_288
#: With at least this many features, `MAX_N_ONE_BLOCK_WIDE` holds.
MIN_FEATURES_WIDE = 100


def makes_rows(gram: KeptGram) -> bool:
    """Whether the compiled loop makes the rows of a block on demand: most data need few of them.

    With many features, and with fewer the more points there are, BLAS makes all rows in less time.
    """
    if ProductPoints.supports(gram):
        m, degree = gram.X.shape[1], int(gram.degree)
        return (
            m <= MAX_FEATURES_ROWS_LINEAR
            if gram.kernel == "linear"
            else math.comb(m + degree, degree) <= MAX_MONOMIALS_ROWS
        )
    if not gram.is_radial or isinstance(gram.X, SparsePoints):
        return False
    return gram.X.shape[1] <= (MAX_FEATURES_ROWS_FEW_POINTS if gram.n <= MIN_BLOCK_WIDTH else MAX_FEATURES_ROWS)


def points_of(gram: KeptGram, dtype: type) -> RadialPoints | ProductPoints:
    """Return the points of a Gram in the layout that rows are made from."""
    return gram.radial_points(dtype) if gram.is_radial else ProductPoints.of(gram, dtype)


def one_block_of(gram: KeptGram) -> int:
    """Return the number of variables up to which all form one block."""
    return MAX_N_ONE_BLOCK_WIDE if makes_rows(gram) and gram.X.shape[1] >= MIN_FEATURES_WIDE else MAX_N_ONE_BLOCK


class BlockRows:
    """The rows of the current block: the array that holds them, the place of each, and the points they are made from.

    Rows are dropped when the next block comes, unless the block is the whole problem. The array is the workspace's.

    Parameters
    ----------
    problem : Workspace
    points : RadialPoints or ProductPoints
        The point of each variable.
    sign, ridge : arrays of shape (n,)
    factor : float
        As in `RowSource`.
    """

    def __init__(
        self,
        problem: Workspace,
        points: RadialPoints | ProductPoints,
        sign: NDArray,
        ridge: NDArray,
        factor: float,
    ) -> None:
        self.problem, self.points, self.sign, self.ridge, self.factor = problem, points, sign, ridge, factor
        self.slot = np.full(problem.n, -1, dtype=np.int64)
        self.made, self.width = 0, 0
        self.source: RowSource | None = None

    def room(self, W: NDArray) -> tuple[NDArray, NDArray]:
        """Return the array for the rows of block W, and the place of each row, −1 if it is not made yet."""
        width, n = len(W), self.problem.n
        rows = self.problem.scratch("rows of a block", (width, padded(width)), self.points.points.dtype.type)
        if not self.width == width == n:
            self.slot[:], self.made, self.width = -1, 0, width
            of_block = self.points.take(slice(None) if width == n else W)
            signs = self.sign[W], self.ridge[W], self.factor, self.problem.offset
            degree = of_block.degree if isinstance(of_block, ProductPoints) else 0
            self.source = RowSource(of_block.points, of_block.half, *signs, degree)
        return rows, self.slot[:width]

    def add(self, J: NDArray, change: NDArray, G: NDArray) -> None:
        """G += M[:, J] change over the whole problem, by rows that the pair loop would make first."""
        rows, slots = self.room(np.arange(self.problem.n))
        self._count(fetch_rows(rows, slots, self.made, J, self.source))
        add_rows(rows, slots[J], change, G)

    def solve(
        self, W: NDArray, G: NDArray, diag: NDArray, beta: NDArray, *rest: object
    ) -> tuple[int, NDArray, NDArray]:
        """Run `solve_pairs` on block W; return the number of updates, the rows, and the place of each."""
        rows, slots = self.room(W)
        updates, _, made = solve_pairs(rows, slots, self.made, G, diag, beta, *rest, self.source)
        self._count(made)
        return int(updates), rows, slots

    def _count(self, made: int) -> None:
        """Count the kernel entries of new rows."""
        entries = 0 if self.source is None else self.source.entries
        self.problem.gram.count((made - self.made) * self.width + entries)
        self.made = made
        if self.source is not None:
            self.source.entries = 0
