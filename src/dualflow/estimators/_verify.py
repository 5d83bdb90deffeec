"""What a file says, held against what it must be, and against what can be computed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certificate
from ..core.problem import DualProblem

__all__ = ["agree", "known_classes", "round_off", "scale_loss", "stored"]

_EPS = float(np.finfo(float).eps)


def stored(arrays: Mapping[str, NDArray], name: str, kinds: str, shape: tuple[int | None, ...]) -> NDArray:
    """The array of a name, of one of the dtype ``kinds`` and of that shape (None: any), its numbers not NaN.

    "f" alone is float64, "i" alone int64.
    """
    if name not in arrays:
        raise ValueError(f"it lacks the array {name!r}")
    array = arrays[name]
    fits = len(shape) == array.ndim and all(
        want in (None, found) for want, found in zip(shape, array.shape, strict=False)
    )
    if array.dtype.kind not in kinds or not fits or (kinds in ("f", "i") and array.dtype.itemsize != 8):
        wanted = f"kind {kinds!r} and shape {shape}"
        raise ValueError(f"its array {name!r} has dtype {array.dtype} and shape {array.shape}, not {wanted}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"its array {name!r} contains NaN")
    return array


def round_off(problem: DualProblem, alpha: NDArray) -> float:
    """What two honest computations of a gradient may differ by, on different machines, say."""
    gram = problem.gram
    if gram.kernel == "precomputed":
        largest = float(np.abs(gram.X).max())
    elif gram.kernel in ("rbf", "sigmoid"):
        largest = 1.0
    else:
        length = float(gram.squares.max())
        largest = length if gram.kernel == "linear" else (gram.gamma * length + abs(gram.coef0)) ** gram.degree
    weights = np.abs(alpha)
    size = problem.scale * (largest + problem.offset) * float(weights.sum()) + float(np.abs(problem.p).max())
    size += float((problem.ridge * weights).max())
    # The radial kernel is known to about ε·reach by its product form, which is not used beyond 1e9.
    return 1e3 * _EPS * (1.0 + min(gram.reach, 1e9)) * problem.n**0.5 * size


def scale_loss(problem: DualProblem, certificate: Certificate) -> float:
    """What they may differ by in αᵀQα, relatively: and so in all that is scaled by it."""
    least = round_off(problem, certificate.alpha) * float(np.abs(certificate.alpha).sum())
    return least / certificate.quadratic if certificate.quadratic > 0 else 0.0


def agree(name: str, said: NDArray | float, computed: NDArray | float, tolerance: NDArray | float = 0.0) -> None:
    """ValueError unless what a file says is what was computed, up to a tolerance that is absolute."""
    if np.shape(said) != np.shape(computed) or not (np.abs(np.subtract(said, computed)) <= tolerance).all():
        raise ValueError(f"its {name} contradicts what its points and its α say")


def known_classes(classes: NDArray) -> NDArray:
    """Two labels or more, in order; ValueError for others."""
    if len(classes) < 2 or not np.array_equal(np.unique(classes), classes):
        raise ValueError("its classes are not two or more, in order")
    return classes
