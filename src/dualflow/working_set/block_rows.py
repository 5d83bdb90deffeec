"""Rows of a block's matrix, made as they are asked for."""

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

__all__ = [
    "MADE",
    "MADE_OF_FEW",
    "MADE_OF_PRODUCTS",
    "NARROW",
    "ONE_BLOCK",
    "BlockRows",
    "makes_rows",
    "one_block_of",
    "points_of",
]

#: Least width of a block whose rows are made on demand.
NARROW = 1536
#: Features up to which rows are made on demand, however many points there are, and where these are `NARROW`; of the
#: linear kernel; and the rank of polynomials up to which they are: beyond, pairs crawl where C is large.
MADE, MADE_OF_FEW, MADE_OF_PRODUCTS, MADE_OF_POWERS = 256, 1024, 64, 96
#: Variables up to which all are in one block where no level is above or below (none of so few is ever asleep), or the
#: whole matrix is at hand; and where products of that many features take most of the time, so that a row is not to be
#: made twice: 1.1 to 1.9 × faster over 4500 to 8000 points of 100 to 250 features, 0.7 to 1 with 20 to 70.
ONE_BLOCK, ONE_BLOCK_OF_MANY, MANY_FEATURES = 4096, 8192, 100


def makes_rows(gram: KeptGram) -> bool:
    """Whether a block's rows are made by the compiled loop, as they are needed: few are, of most data; of many features
    BLAS is the faster even so, of many points the sooner."""
    if ProductPoints.serve(gram):
        m, degree = gram.X.shape[1], int(gram.degree)
        return m <= MADE_OF_PRODUCTS if gram.kernel == "linear" else math.comb(m + degree, degree) <= MADE_OF_POWERS
    if not gram.is_radial or isinstance(gram.X, SparsePoints):
        return False
    return gram.X.shape[1] <= (MADE_OF_FEW if gram.n <= NARROW else MADE)


def points_of(gram: KeptGram, dtype: type) -> RadialPoints | ProductPoints:
    """Its points, ready for rows to be made of them."""
    return gram.radial_points(dtype) if gram.is_radial else ProductPoints.of(gram, dtype)


def one_block_of(gram: KeptGram) -> int:
    """Variables up to which all are in one block."""
    return ONE_BLOCK_OF_MANY if makes_rows(gram) and gram.X.shape[1] >= MANY_FEATURES else ONE_BLOCK


class BlockRows:
    """A work array for the rows of a block, where each is, and what they are made from.

    No cache: the next block's are others, and only those of the whole problem stay. The array is the workspace's.

    Parameters
    ----------
    problem : Workspace
    points : RadialPoints or ProductPoints
        Of its variables.
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
        """The array for the rows of a block, and where each is."""
        width, n = len(W), self.problem.n
        rows = self.problem.scratch("rows of a block", (width, padded(width)), self.points.points.dtype.type)
        if not self.width == width == n:
            self.slot[:], self.made, self.width = -1, 0, width
            near = self.points.take(slice(None) if width == n else W)
            signs = self.sign[W], self.ridge[W], self.factor, self.problem.offset
            degree = near.degree if isinstance(near, ProductPoints) else 0
            self.source = RowSource(near.points, near.half, *signs, degree)
        return rows, self.slot[:width]

    def add(self, some: NDArray, change: NDArray, G: NDArray) -> None:
        """G += M[:, some] change over the whole problem, by rows that the pair loop would ask for first."""
        rows, slots = self.room(np.arange(self.problem.n))
        self._made(fetch_rows(rows, slots, self.made, some, self.source))
        add_rows(rows, slots[some], change, G)

    def solve(
        self, W: NDArray, G: NDArray, diag: NDArray, beta: NDArray, *rest: object
    ) -> tuple[int, NDArray, NDArray]:
        """`solve_pairs` on a block: updates, and its rows, and where they are."""
        rows, slots = self.room(W)
        updates, _, made = solve_pairs(rows, slots, self.made, G, diag, beta, *rest, self.source)
        self._made(made)
        return int(updates), rows, slots

    def _made(self, made: int) -> None:
        entries = 0 if self.source is None else self.source.entries
        self.problem.gram.count((made - self.made) * self.width + entries)
        self.made = made
        if self.source is not None:
            self.source.entries = 0
