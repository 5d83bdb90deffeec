"""Kernel-target alignment: the cosine between a kernel matrix and the matrix of the labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target

from ...core.kernel_functions import as_matrix
from ...exceptions import ProblemError

#: Number of permutations of the held-out labels for a p-value, whose smallest value is then 1/1000.
N_PERMUTATIONS = 999


def kernel_alignment(K: ArrayLike, y: ArrayLike) -> float:
    """Return the kernel-target alignment ⟨K, T⟩ / (‖K‖ ‖T‖) of a kernel matrix and labels; 1 is the best value.

    Products and norms are Frobenius'. For two classes T = t tᵀ, t = 1/n₊ or −1/n₋, so that both classes have the same
    weight (Cristianini et al., NIPS 2001; Hubregtsen et al., PRA 106, 042431 (2022), eq. 27 and 28); for more classes
    it is the sum of the T of each class against the rest. For regression t = y − mean(y).

    Parameters
    ----------
    K : array of shape (n, n)
    y : array of shape (n,)
        Labels of at least two classes, or real targets that are not all equal.

    Returns
    -------
    float
        In [−1, 1].

    Raises
    ------
    ProblemError
        Shapes do not fit, a value is not finite, or there is only one class.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import kernel_alignment
    >>> round(kernel_alignment([[1, 0.9, 0.1], [0.9, 1, 0.1], [0.1, 0.1, 1]], [1, 1, -1]), 3)
    0.54
    """
    K = as_matrix(K, "K")
    T = target_matrix(y, len(K))
    if K.shape != T.shape:
        raise ProblemError(f"K must be square, found the shape {K.shape}")
    return alignment_slopes(K, T)[0]


def alignment_slopes(K: NDArray, T: NDArray) -> tuple[float, NDArray]:
    """Return ⟨K, T⟩ / (‖K‖ ‖T‖) and its derivative by K."""
    size, ideal = np.linalg.norm(K), np.linalg.norm(T)
    if not size:
        raise ProblemError("K is 0 everywhere and has no direction; pass a kernel matrix with an entry other than 0")
    value = float((K * T).sum() / (size * ideal))
    return value, T / (size * ideal) - value * K / size**2


def alignment_between(K: NDArray, new: NDArray, old: NDArray) -> tuple[float, float]:
    """Return the alignment of the kernel between new and old points with their labels, and its permutation p-value."""
    left, right = _sides(new, old), _sides(old, old)
    pulls = K @ right.T
    sizes = np.linalg.norm(K) * np.linalg.norm(left.T @ right)
    value = float((pulls * left.T).sum())
    rng = np.random.default_rng(0)
    others = np.array([(pulls * left.T[rng.permutation(len(new))]).sum() for _ in range(N_PERMUTATIONS)])
    return value / float(sizes), (1 + int(np.sum(others >= value - 1e-12 * abs(value)))) / (1 + N_PERMUTATIONS)


def _sides(y: NDArray, all_labels: NDArray) -> NDArray:
    """Return t of `kernel_alignment` for every class against the rest, shape (classes, n); one row for real targets."""
    if type_of_target(all_labels) == "continuous":
        found: NDArray = (y - all_labels.mean())[None]
        return found
    mine = y == np.unique(all_labels)[:, None]
    counts = np.maximum(mine.sum(axis=1, keepdims=True), 1)
    return np.where(mine, 1 / counts, -1 / np.maximum(len(y) - counts, 1))


def target_matrix(y: ArrayLike, n: int) -> NDArray:
    """Return T of `kernel_alignment`, shape (n, n); raise `ProblemError` if y does not fit n points."""
    y = np.asarray(y)
    if y.shape != (n,):
        raise ProblemError(f"y has shape {y.shape}, and there are {n} points")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ProblemError("y contains NaN or infinity")
    if type_of_target(y) != "continuous" and len(np.unique(y)) < 2:
        raise ProblemError("y holds one class only; an alignment needs two")
    sides = _sides(y, y)
    found: NDArray = sides.T @ sides
    return found
