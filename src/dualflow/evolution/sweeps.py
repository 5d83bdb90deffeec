"""Box coordinate descent on many α at once: the learning of an individual's life (memetic evolution)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["sweep"]

#: Coordinates between two updates of the whole gradient.
WIDTH = 32


def sweep(Q: NDArray, p: NDArray, upper: NDArray, alphas: NDArray, products: NDArray, order: NDArray) -> None:
    """One sweep of exact coordinate minimisation of f = ½ αᵀQα − pᵀα over the box, on every row, in place.

    Parameters
    ----------
    Q : array of shape (n, n)
        Symmetric; where Qᵢᵢ ≤ 0 (indefinite kernels) the better end of the interval is the minimum.
    p, upper : arrays of shape (n,)
    alphas, products : arrays of shape (k, n)
        α and αᵀQ, a row an individual; both are updated.
    order : integer array
        Coordinates in the order in which they are visited.
    """
    for start in range(0, len(order), WIDTH):
        J = order[start : start + WIDTH]
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
