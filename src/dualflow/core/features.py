"""Few columns that make a kernel matrix: F of shape (n, r) with K = FFᵀ, or nearly.

The points themselves for the linear kernel, monomials for a polynomial one (Fine & Scheinberg 2001, section 4, for the
others): a Cholesky factorisation with the largest pivots first, which stops where what is left of the diagonal is
round-off, and gives up where that takes too many columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, factorial

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .gram import KernelMatrix
from .runtime.clock import look
from .sparse_points import SparsePoints

__all__ = ["Features", "features_of", "pivoted_features", "rank_by_kernel", "scales_apart"]

#: What may be left of the diagonal of K, as a part of its largest entry: the certificate of an answer is on K itself.
LEFT = 1e-14
#: Points of a sample whose rank says whether that of all may be low, and pivots taken at a time.
SAMPLE, PANEL = 1024, 32
#: The part of a panel's largest pivot down to which others are taken: round-off of its columns grows by the inverse.
DEEP = 1e-6


@dataclass(frozen=True)
class Features:
    """F of a kernel matrix, F = points − center.

    Attributes
    ----------
    points : array of shape (n, r)
    center : array of shape (r,) or None
    are_points : bool
        Whether these are the coordinates of the points themselves: weights of them are those of a linear model.
    """

    points: NDArray
    center: NDArray | None = None
    are_points: bool = False

    @property
    def rank(self) -> int:
        """Columns, r."""
        return int(self.points.shape[1])


def rank_by_kernel(gram: KernelMatrix) -> int | None:
    """How many columns the kernel needs whatever the points; None where that is not known, or infinite."""
    if callable(gram.kernel) or not gram.is_psd_by_kernel or gram.kernel == "rbf":
        return None
    m = int(gram.X.shape[1])
    if gram.kernel == "linear":
        return m
    degree = int(gram.degree)
    return comb(m + degree, degree) if gram.coef0 else comb(m + degree - 1, degree)


def scales_apart(X: NDArray) -> float:
    """The largest by the smallest spread of the columns of points, of those that have any."""
    spread = X.std(axis=0)
    spread = spread[spread > 0]
    return float(spread.max() / spread.min()) if len(spread) else 1.0


def features_of(gram: KernelMatrix, most: int) -> Features | None:
    """F of a kernel matrix with up to ``most`` columns; None where it needs more, or might."""
    rank = rank_by_kernel(gram)
    if rank is None:
        return pivoted_features(gram, most)
    if rank > most:
        return None
    points = gram.X.toarray() if isinstance(gram.X, SparsePoints) else gram.X
    if gram.kernel == "linear":
        return Features(points, gram.center, True)
    return Features(_monomials(points if gram.center is None else points - gram.center, gram))


def _monomials(X: NDArray, gram: KernelMatrix) -> NDArray:
    """Columns whose inner products are (γ⟨x, z⟩ + coef0)^degree: by the multinomial theorem, a monomial each."""
    degree, columns = int(gram.degree), []
    powers = range(degree + 1) if gram.coef0 else (degree,)
    for k in powers:
        for chosen in combinations_with_replacement(range(X.shape[1]), k):
            look()
            weight = factorial(degree) // factorial(degree - k)
            for column in set(chosen):
                weight //= factorial(chosen.count(column))
            scale = np.sqrt(weight * gram.gamma**k * gram.coef0 ** (degree - k))
            columns.append(scale * np.prod(X[:, list(chosen)], axis=1) if k else np.full(len(X), scale))
    return np.ascontiguousarray(np.column_stack(columns))


def pivoted_features(gram: KernelMatrix, most: int) -> Features | None:
    """F by Cholesky with pivoting; None where K needs more than ``most`` columns. K must be positive semidefinite."""
    if gram.n > 2 * SAMPLE and len(_pivots(gram, np.arange(0, gram.n, gram.n // SAMPLE), most)[1]) == 0:
        return None
    found, pivots = _pivots(gram, np.arange(gram.n), most)
    return Features(found) if len(pivots) else None


def _pivots(gram: KernelMatrix, J: NDArray, most: int) -> tuple[NDArray, NDArray]:
    """F of points J and which of them were its pivots; none where that takes more than ``most``."""
    left, rank, chosen = gram.diag()[J], 0, np.empty(0, dtype=np.intp)
    tolerance, F = LEFT * float(left.max()), np.empty((len(J), most))
    while float(left.max()) > tolerance:
        look()
        panel = np.argsort(-left, kind="stable")[:PANEL]
        columns = gram.block(J, J[panel])
        columns -= F[:, :rank] @ F[panel, :rank].T
        enough = max(tolerance, DEEP * float(columns[panel, np.arange(len(panel))].max()))
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
