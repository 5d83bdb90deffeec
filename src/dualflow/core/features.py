"""Low-rank factors of a kernel matrix: F of shape (n, r) with K = FFᵀ, up to round-off.

F has the points themselves for the linear kernel and monomials for a polynomial one. For others it comes from a
Cholesky factorisation with the largest pivots first (Fine & Scheinberg 2001, section 4). It stops when the rest of the
diagonal is round-off, and returns None if that takes too many columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .gram import KernelMatrix
from .monomials import monomials, rank_by_kernel
from .runtime.clock import check_time
from .sparse_points import SparsePoints

#: The factorisation stops when the rest of the diagonal of K is at most this share of its largest entry. Certificates
#: use K itself.
DIAGONAL_TOL = 1e-14
#: A sample of this many points is factorised first. If its rank is high, so is that of all points.
SAMPLE_POINTS = 1024
#: Points of a first sample, whose factor takes a millisecond.
FIRST_SAMPLE_POINTS = 256
#: The rank of all points may be low only if that of the first sample is at most this share of its points. Two smooth
#: features have a rank of 100 to 180.
MAX_FIRST_RANK_SHARE = 0.75
#: Pivots of a panel.
PANEL_PIVOTS = 32
#: Least pivot of a panel, relative to its largest. The round-off of the columns grows with the inverse of a pivot.
MIN_PANEL_PIVOT = 1e-6


@dataclass(frozen=True)
class Features:
    """F of a kernel matrix, F = points − center."""

    points: NDArray  # shape (n, r)
    center: NDArray | None = None  # shape (r,) or None
    #: Whether these are the coordinates of the points themselves, so that weights of them are a linear model.
    are_points: bool = False

    @property
    def rank(self) -> int:
        """Number r of columns."""
        return int(self.points.shape[1])


def scales_apart(X: NDArray, enough: float = 1.0) -> float:
    """Return the ratio of the largest to the smallest standard deviation of the columns, without constant ones.

    Where the columns' ranges show that it is at most ``enough``, the bound that they give is returned instead.
    """
    if X.shape[1] == 1:
        return 1.0
    # A standard deviation is at most half of the range, and at least the range over √(2n).
    ranges = X.max(axis=0) - X.min(axis=0)
    ranges = ranges[ranges > 0]
    bound = float(ranges.max() / ranges.min()) * (0.5 * len(X)) ** 0.5 if len(ranges) else 1.0
    if bound <= enough:
        return bound
    spread = X.std(axis=0)
    spread = spread[spread > 0]
    return float(spread.max() / spread.min()) if len(spread) else 1.0


def features_of(gram: KernelMatrix, most: int) -> Features | None:
    """Return F of a kernel matrix with at most ``most`` columns, or None if it needs, or may need, more."""
    rank = rank_by_kernel(gram)
    if rank is None:
        return pivoted_features(gram, most)
    if rank > most:
        return None
    points = gram.X.toarray() if isinstance(gram.X, SparsePoints) else gram.X
    if gram.kernel == "linear":
        return Features(points, gram.center, True)
    return Features(monomials(points if gram.center is None else points - gram.center, gram))


def pivoted_features(gram: KernelMatrix, most: int) -> Features | None:
    """Return F by Cholesky with pivoting, or None if K needs more than ``most`` columns.

    K must be positive semidefinite.
    """
    if gram.n > 2 * SAMPLE_POINTS:
        sample = np.arange(0, gram.n, gram.n // SAMPLE_POINTS)
        if len(_pivots(gram, sample, most)[1]) == 0:
            return None
    found, pivots = _pivots(gram, np.arange(gram.n), most)
    return Features(found) if len(pivots) else None


def has_few_columns(gram: KernelMatrix, most: int) -> bool:
    """Whether a factor of a positive semidefinite K by pivoting has at most ``most`` columns.

    That of a small sample says no in little time if K has a high rank.
    """
    sample = np.arange(0, gram.n, max(1, gram.n // FIRST_SAMPLE_POINTS))
    if len(_pivots(gram, sample, int(MAX_FIRST_RANK_SHARE * len(sample)))[1]) == 0:
        return False
    return pivoted_features(gram, most) is not None


def _pivots(gram: KernelMatrix, J: NDArray, most: int) -> tuple[NDArray, NDArray]:
    """Return F of points J and the indices of its pivots among them; no columns if it needs more than ``most``."""
    left, rank, chosen = gram.diag()[J], 0, np.empty(0, dtype=np.intp)
    tolerance, F = DIAGONAL_TOL * float(left.max()), np.empty((len(J), most))
    while float(left.max()) > tolerance:
        check_time()
        panel = np.argsort(-left, kind="stable")[:PANEL_PIVOTS]
        columns = gram.block(J, J[panel])
        columns -= F[:, :rank] @ F[panel, :rank].T
        enough = max(tolerance, MIN_PANEL_PIVOT * float(columns[panel, np.arange(len(panel))].max()))
        corner, order, more, _ = scipy.linalg.lapack.dpstrf(columns[panel], tol=enough, lower=1)
        if rank + more > most:
            return F[:, :0], chosen[:0]
        left[panel] = columns[panel, np.arange(len(panel))]
        if more:
            pivots = order[:more] - 1
            new = scipy.linalg.solve_triangular(corner[:more, :more], columns[:, pivots].T, lower=True).T
            F[:, rank : rank + more] = new
            left -= np.einsum("ij,ij->i", new, new)
            left[panel[pivots]] = 0.0
            chosen, rank = np.append(chosen, panel[pivots]), rank + more
    return F[:, :rank].copy(), chosen
