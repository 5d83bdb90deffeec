"""Read-out errors as one 2 × 2 matrix a qubit, and the nearest distribution to what is left when they are undone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["apply_tensored", "nearest_distribution"]


def apply_tensored(factors: ArrayLike, distributions: NDArray) -> NDArray:
    """(M_{q−1} ⊗ … ⊗ M_0) π by q products with 2 × 2 matrices, O(q 2^q).

    Parameters
    ----------
    factors : array of shape (q, 2, 2)
        ``factors[k]`` acts on qubit k; of a confusion matrix, the entry [m, p] is P(m measured | p prepared).
    distributions : array of shape (…, 2^q)
        Little-endian.
    """
    out = distributions
    for k, factor in enumerate(np.asarray(factors, dtype=float)):
        out = np.einsum("mp,xpy->xmy", factor, out.reshape(-1, 2, 2**k))
    return out.reshape(distributions.shape)


def nearest_distribution(quasi: NDArray) -> NDArray:
    """Nearest probability distribution in the Euclidean norm, row by row; shape (…, N), rows summing to 1.

    The negative entries that inverting a confusion matrix leaves are set to zero, smallest first, and what they sum
    to is spread over the others (Smolin, Gambetta, Smith, PRL 108, 070502 (2012), algorithm 1).
    """
    falling = -np.sort(-quasi, axis=-1)
    # The shift of all entries if the k largest are kept: those stay that are positive with it.
    shift = (np.cumsum(falling, axis=-1) - 1.0) / np.arange(1, quasi.shape[-1] + 1)
    kept = np.maximum(np.count_nonzero(falling > shift, axis=-1, keepdims=True), 1)
    projected: NDArray = np.maximum(quasi - np.take_along_axis(shift, kept - 1, axis=-1), 0.0)
    return projected / projected.sum(axis=-1, keepdims=True)
