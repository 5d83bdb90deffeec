"""Euclidean projection onto a box with one equality, exact up to round-off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["project_onto"]


def project_onto(alpha: NDArray, lower: NDArray, upper: NDArray, e: NDArray | None, d: float) -> NDArray:
    """Nearest point of {l ≤ α ≤ u, eᵀα = d} in the Euclidean norm (entries of ``e`` are ±1).

    If no such point exists, the equality is met as nearly as the bounds allow.
    """
    clipped = np.clip(alpha, lower, upper)
    if e is None:
        return clipped
    if np.isneginf(lower).all() and np.isposinf(upper).all():
        return alpha - e * ((e @ alpha - d) / len(e))
    scale = max(abs(d), float(np.abs(clipped).sum()), np.finfo(float).tiny)
    if abs(e @ clipped - d) <= 4 * np.finfo(float).eps * scale:
        return clipped
    # S(t) = eᵀclip(α − te) falls with slope −(number of unclipped i) between the breakpoints below.
    ends = e * (alpha - lower), e * (alpha - upper)
    lo, hi = np.minimum(*ends), np.maximum(*ends)
    knots = np.unique(np.concatenate([lo[np.isfinite(lo)], hi[np.isfinite(hi)]]))

    def excess(t: float) -> float:
        return float(e @ np.clip(alpha - t * e, lower, upper)) - d

    left, right = 0, len(knots) - 1
    if excess(knots[left]) <= 0:
        left, right = -1, left
    elif excess(knots[right]) >= 0:
        left, right = right, len(knots)
    while right - left > 1:
        middle = (left + right) // 2
        if excess(knots[middle]) > 0:
            left = middle
        else:
            right = middle
    start = knots[left] if left >= 0 else -np.inf
    stop = knots[right] if right < len(knots) else np.inf
    anchor = start if left >= 0 else stop
    slope = int(((lo <= start) & (hi >= stop)).sum())
    out = np.clip(alpha - (anchor + excess(anchor) / max(1, slope)) * e, lower, upper)
    # One rounding error is left; put it on the coordinate with most room, so that eᵀα = d to the last bits.
    residual = float(e @ out) - d
    room = np.where(e * residual > 0, out - lower, upper - out)
    k = int(np.argmax(room))
    out[k] = np.clip(out[k] - e[k] * residual, lower[k], upper[k])
    return out
