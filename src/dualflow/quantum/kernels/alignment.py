"""Kernel-target alignment: how near a kernel matrix is to the one that labels would have."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import type_of_target

from ...core.kernel_functions import as_matrix
from ...exceptions import ProblemError

__all__ = ["alignment_between", "alignment_slopes", "kernel_alignment", "target_matrix"]

#: Of the labels held out, for a p-value.
PERMUTATIONS = 999


def kernel_alignment(K: ArrayLike, y: ArrayLike) -> float:
    """Kernel-target alignment ⟨K, T⟩ / (‖K‖ ‖T‖), Frobenius, of a kernel matrix and labels; 1 is the ideal.

    T = t tᵀ of two classes, t = 1/n₊ or −1/n₋, so that both weigh as much (Cristianini et al., NIPS 2001; Hubregtsen
    et al., PRA 106, 042431 (2022), eq. 27 and 28); of more classes, the sum of T of each against the rest. Targets of
    regression: t = y − mean(y).

    Parameters
    ----------
    K : array of shape (n, n)
    y : array of shape (n,)
        Labels of at least two classes, or real targets that are not all one.

    Returns
    -------
    float
        In [−1, 1].

    Raises
    ------
    ProblemError
        Shapes do not fit, something is not finite, or there is one class only.

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
    """⟨K, T⟩ / (‖K‖ ‖T‖) and its derivative by K."""
    size, ideal = np.linalg.norm(K), np.linalg.norm(T)
    if not size:
        raise ProblemError("K is 0 everywhere and has no direction")
    value = float((K * T).sum() / (size * ideal))
    return value, T / (size * ideal) - value * K / size**2


def alignment_between(K: NDArray, new: NDArray, old: NDArray) -> tuple[float, float]:
    """Alignment of the kernel between new and old points with their labels, and its p-value under permutations."""
    left, right = _sides(new, old), _sides(old, old)
    pulls = K @ right.T
    sizes = np.linalg.norm(K) * np.linalg.norm(left.T @ right)
    value = float((pulls * left.T).sum())
    rng = np.random.default_rng(0)
    others = np.array([(pulls * left.T[rng.permutation(len(new))]).sum() for _ in range(PERMUTATIONS)])
    return value / float(sizes), (1 + int(np.sum(others >= value - 1e-12 * abs(value)))) / (1 + PERMUTATIONS)


def _sides(y: NDArray, all_labels: NDArray) -> NDArray:
    """t of `kernel_alignment` for every class against the rest, shape (classes, n); of real targets one row."""
    if type_of_target(all_labels) == "continuous":
        found: NDArray = (y - all_labels.mean())[None]
        return found
    mine = y == np.unique(all_labels)[:, None]
    counts = np.maximum(mine.sum(axis=1, keepdims=True), 1)
    return np.where(mine, 1 / counts, -1 / np.maximum(len(y) - counts, 1))


def target_matrix(y: ArrayLike, n: int) -> NDArray:
    """T of `kernel_alignment`, shape (n, n); `ProblemError` where y does not fit n points."""
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
