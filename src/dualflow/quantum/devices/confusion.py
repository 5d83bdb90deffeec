"""Apply one 2 × 2 matrix for each qubit to distributions, and project quasi-distributions onto distributions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def apply_tensored(factors: ArrayLike, distributions: NDArray) -> NDArray:
    """Return (M_{q−1} ⊗ … ⊗ M_0) π, computed by q products with 2 × 2 matrices in O(q 2^q).

    Parameters
    ----------
    factors : array of shape (q, 2, 2)
        ``factors[k]`` acts on qubit k. In a confusion matrix the entry [m, p] is P(m measured | p prepared).
    distributions : array of shape (…, 2^q)
        Little-endian.
    """
    out = distributions
    for k, factor in enumerate(np.asarray(factors, dtype=float)):
        out = np.einsum("mp,xpy->xmy", factor, out.reshape(-1, 2, 2**k))
    return out.reshape(distributions.shape)


def nearest_distribution(quasi: NDArray) -> NDArray:
    """Return the nearest probability distribution of each row in the Euclidean norm.

    Inverting a confusion matrix leaves negative entries. They are set to zero, smallest first, and their sum is
    distributed over the other entries (Smolin, Gambetta, Smith, PRL 108, 070502 (2012), algorithm 1).

    Parameters
    ----------
    quasi : array of shape (…, N)
        Rows that sum to 1 and may have negative entries.
    """
    falling = -np.sort(-quasi, axis=-1)
    # Entry k − 1: the shift of all entries if the k largest are kept. Entries that stay positive with it are kept.
    shift = (np.cumsum(falling, axis=-1) - 1.0) / np.arange(1, quasi.shape[-1] + 1)
    kept = np.maximum(np.count_nonzero(falling > shift, axis=-1, keepdims=True), 1)
    projected: NDArray = np.maximum(quasi - np.take_along_axis(shift, kept - 1, axis=-1), 0.0)
    return projected / projected.sum(axis=-1, keepdims=True)
