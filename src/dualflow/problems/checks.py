"""Checks of labels, weights and ν that several models share."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.options import Number
from ..exceptions import ProblemError

#: Allowed values of ν.
NU_RULE = Number(above=0, at_most=1)


def check_signs(y: ArrayLike, n: int) -> NDArray:
    """Return n labels ±1 as float64, shape (n,), or raise a `ProblemError`."""
    signs = np.asarray(y)
    if signs.shape != (n,):
        raise ProblemError(f"y has shape {signs.shape}, the Gram has {n} points")
    if signs.dtype.kind not in "biuf" or not (np.abs(signs) == 1).all():
        raise ProblemError("y must hold −1 and +1 only; estimators encode other labels themselves")
    return signs.astype(float)


def check_weight(weight: ArrayLike | None, n: int) -> NDArray:
    """Return n weights ≥ 0 as float64, shape (n,), 1 by default, or raise a `ProblemError`."""
    if weight is None:
        return np.ones(n)
    w = np.asarray(weight, dtype=float)
    if w.shape != (n,):
        raise ProblemError(f"sample_weight has shape {w.shape}, there are {n} points")
    if not np.isfinite(w).all() or (w < 0).any():
        raise ProblemError("sample_weight must be finite and ≥ 0")
    if not (w > 0).any():
        raise ProblemError("sample_weight is zero for every point; nothing is left to fit")
    return w
