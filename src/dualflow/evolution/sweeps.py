"""Box coordinate descent on many α in one batch, by which individuals learn (memetic evolution)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["sweep"]

#: Coordinates between two updates of the whole gradient.
BLOCK_SIZE = 32


def sweep(Q: NDArray, p: NDArray, upper: NDArray, alphas: NDArray, products: NDArray, order: NDArray) -> None:
    """Make one sweep of exact coordinate minimisation of f = ½ αᵀQα − pᵀα over the box, on every row, in place.

    Parameters
    ----------
    Q : array of shape (n, n)
        Symmetric; where Qᵢᵢ ≤ 0 (indefinite kernels) the better end of the interval is the minimum.
    p, upper : arrays of shape (n,)
    alphas, products : arrays of shape (k, n)
        α and αᵀQ, one row for each individual; both are updated.
    order : integer array
        Coordinates in the order of their updates.
    """
    for start in range(0, len(order), BLOCK_SIZE):
        J = order[start : start + BLOCK_SIZE]
        block = Q[np.ix_(J, J)]
        # Transposed, a coordinate of all individuals is a contiguous row.
        slopes, genes = products.T[J] - p[J, None], alphas.T[J]
        before = genes.copy()
        for k, (curvature, bound) in enumerate(zip(block.diagonal().tolist(), upper[J].tolist(), strict=True)):
            gene, slope = genes[k], slopes[k]
            if curvature > 0.0:
                after = slope / -curvature
                after += gene
                np.maximum(after, 0.0, out=after)
                np.minimum(after, bound, out=after)
            else:
                fall = (bound - gene) * (slope + 0.5 * curvature * (bound - gene))
                after = np.where(fall < gene * (0.5 * curvature * gene - slope), bound, 0.0)
            slopes += block[k, :, None] * (after - gene)
            genes[k] = after
        alphas[:, J] = genes.T
        products += (genes - before).T @ Q[J]
