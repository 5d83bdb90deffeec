"""The rows of M that the pair loop reads: of a whole kernel matrix, or made on demand from few features.

The kernel ⟨x, z⟩, and (γ⟨x, z⟩ + coef0)^degree by its monomials, is an inner product of few features. Few variables are
free at an optimum then, and on a simplex few others ever move from a start at a vertex. Products with Q take no kernel
values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.features import features_of
from ..core.gram import Gram
from ..core.monomials import rank_by_kernel
from ..core.problem import DualProblem, Kind
from ..core.product_points import ProductPoints
from ..core.runtime.memory import arena_array
from ..working_set._pairs import ROWS_PER_UPDATE, RowSource, padded
from ..working_set.seeding import least_nonzero, seed
from ..working_set.units import ScaledVariables
from .pair_blocks import spread_of
from .strategy import USUAL, Thresholds

#: If at least this many variables share d, many of them are swapped together before the pair loop. It swaps fewer
#: in less time.
MIN_SHARING = 128
#: Such swaps, at most, ...
MAX_SWAPS = 32
#: ... and while each lowers f by this share of its first value.
LEAST_DECREASE = 1e-3


def suits_few_rows(problem: DualProblem, thresholds: Thresholds = USUAL) -> bool:
    """Whether few rows of M suffice: a problem on a simplex with a kernel of few features."""
    gram, n = problem.gram, problem.n
    if problem.kind not in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX) or problem.idx is not None:
        return False
    if problem.has_ridge or problem.offset or not (problem.sigma == 1).all():
        return False
    if not thresholds.min_points_by_rows <= n <= thresholds.max_simplex_points:
        return False
    if not (isinstance(gram, Gram) and ProductPoints.supports(gram)):
        return False
    rank = rank_by_kernel(gram)
    if rank is None or rank > thresholds.max_rank_by_rows:
        return False
    return thresholds.min_rows_per_rank * rank <= n * thresholds.max_row_share


def row_limit(gram: Gram, rank: int, thresholds: Thresholds = USUAL) -> int:
    """Return how many rows of M may be made."""
    n, m = gram.X.shape
    cheap = int(thresholds.max_numbers_by_rows / (n * (m + thresholds.update_cost_by_rows)))
    return min(thresholds.max_rows_per_rank * rank + cheap, int(n * thresholds.max_row_share))


class FeatureKernel:
    """The kernel values of a Gram as inner products of few features (`core.features`), in place of a matrix.

    Attributes
    ----------
    values : array of shape (n, rank)
    """

    def __init__(self, gram: Gram) -> None:
        found = features_of(gram, gram.n)
        assert found is not None  # `suits_few_rows` has seen that there are few
        self.values: NDArray = found.points if found.center is None else found.points - found.center

    @property
    def rank(self) -> int:
        """The number of features."""
        return int(self.values.shape[1])

    def product(self, problem: DualProblem, alpha: NDArray) -> NDArray:
        """Return Qα, shape (n,)."""
        found: NDArray = self.values @ (problem.scale * (alpha @ self.values))
        return found

    def block(self, J: NDArray) -> NDArray:
        """Return the kernel values among points J."""
        found: NDArray = self.values[J] @ self.values[J].T
        return found

    def relative_spread(self) -> float:
        """Return the `pair_blocks.relative_spread` of the kernel matrix."""
        lengths = np.einsum("ij,ij->i", self.values, self.values)
        mean = self.values.sum(axis=0)
        return spread_of(lengths, float(mean @ mean))

    def start(self, problem: DualProblem) -> NDArray:
        """Return a feasible α with few free variables, shape (n,): evenly spread, then lowered by swaps of many.

        A swap takes the k variables of largest gradient from their bound u to 0, and the k of least gradient from 0 to
        u. f after it is known for all k by sums of features, and k is the best one.
        """
        alpha, u = seed(problem, np.zeros(problem.n)), float(problem.upper[0])
        if least_nonzero(problem) < MIN_SHARING or not (problem.upper == u).all():
            return alpha
        least = 0.0
        for _ in range(MAX_SWAPS):
            product = self.product(problem, alpha)
            least = least or LEAST_DECREASE * abs(0.5 * float(alpha @ product) - float(problem.p @ alpha))
            G = product - problem.p
            (full,), (empty,) = (alpha == u).nonzero(), (alpha == 0.0).nonzero()
            count = min(len(full), len(empty))
            if not count:
                break
            down = full[np.argsort(-G[full], kind="stable")[:count]]
            up = empty[np.argpartition(G[empty], count - 1)[:count]]
            up = up[np.argsort(G[up], kind="stable")]
            falls = G[down] - G[up]
            moves = (self.values[up] - self.values[down]).cumsum(axis=0)
            changes = 0.5 * problem.scale * u * u * np.einsum("ij,ij->i", moves, moves) - u * falls.cumsum()
            k = int(changes.argmin())
            if not -float(changes[k]) > least:
                break
            alpha[up[: k + 1]], alpha[down[: k + 1]] = u, 0.0
        return problem.project(alpha)


@dataclass
class MatrixRows:
    """The rows of M in the units of `ScaledVariables`.

    Attributes
    ----------
    M : array of shape (k, width)
        Row i is at ``slots[i]``.
    slots : int array of shape (n,)
        Negative where the row is not made yet.
    made : int
        Number of rows made.
    diag : array of shape (n,)
        Diagonal of M.
    source : RowSource or None
        None if all rows are given.
    features : FeatureKernel or None
        For products with M, if rows are made on demand.
    """

    problem: DualProblem
    M: NDArray
    slots: NDArray
    made: int
    diag: NDArray
    source: RowSource | None = None
    features: FeatureKernel | None = None

    @classmethod
    def given(cls, problem: DualProblem, K: NDArray, scaled: ScaledVariables) -> MatrixRows:
        """Return the rows of a kernel matrix of the points, which is not written to."""
        slots = np.arange(problem.n) if problem.idx is None else problem.idx.astype(np.int64)
        factor = problem.scale * scaled.unit / scaled.slope
        M = K
        if factor != 1.0 or problem.offset or problem.idx is not None or (scaled.sign < 0).any():
            M = arena_array((len(K), problem.n), float)
            # The two variables of a point have the same row. Numpy copies a part of M before it writes to another.
            for part in (M,) if problem.idx is None else (M[:, : len(K)], M[:, len(K) :]):
                np.multiply(K + problem.offset if problem.offset else K, factor, out=part)
            if problem.idx is None and (scaled.sign < 0).any():
                M *= scaled.sign[:, None]
                M *= scaled.sign
        if problem.has_ridge:
            M = M.copy() if M is K else M
            M[slots, slots] += problem.ridge * (scaled.unit / scaled.slope)
        return cls(problem, M, slots, len(M), M.diagonal()[slots])

    @classmethod
    def on_demand(
        cls, problem: DualProblem, features: FeatureKernel, scaled: ScaledVariables, limit: int
    ) -> MatrixRows:
        """Return no rows yet, and at most ``limit`` later."""
        n, unit, points = problem.n, scaled.unit / scaled.slope, ProductPoints.of(problem.gram, float)
        rest = scaled.sign, problem.ridge, problem.scale * unit, problem.offset, points.degree
        source = RowSource(points.points, points.half, *rest)
        M, slots = arena_array((limit, padded(n)), float), np.full(n, -1, dtype=np.int64)
        return cls(problem, M, slots, 0, problem.diag() * unit, source, features)

    @property
    def entries(self) -> float:
        """Kernel entries evaluated."""
        return float(self.made) * len(self.slots) if self.source else float(self.problem.gram.n) ** 2

    @property
    def are_used_up(self) -> bool:
        """Whether there is no room for the rows of another update."""
        return self.source is not None and self.made > len(self.M) - ROWS_PER_UPDATE

    def gradient(self, scaled: ScaledVariables) -> NDArray:
        """Return Mβ − ep, shape (n,)."""
        if self.features is None:
            return np.asarray((self.M @ scaled.beta)[self.slots] - scaled.ep)
        product = self.features.product(self.problem, scaled.alpha)
        return np.asarray(scaled.e * product / scaled.slope - scaled.ep)
