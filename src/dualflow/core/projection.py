"""Euclidean projection onto a box with one equality, exact up to round-off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["project_onto"]

_EPS, _TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)


def project_onto(alpha: NDArray, lower: NDArray, upper: NDArray, e: NDArray | None, d: float) -> NDArray:
    """Nearest point of {l ≤ α ≤ u, eᵀα = d} in the Euclidean norm (entries of ``e`` are ±1).

    If no such point exists, the equality is met as nearly as the bounds allow.
    """
    clipped = np.minimum(np.maximum(alpha, lower), upper)
    if e is None:
        return clipped
    scale = max(abs(d), float(np.abs(clipped).sum()), _TINY)
    missing, round_off = float(e @ clipped) - d, 4 * _EPS * scale
    if abs(missing) <= round_off:
        return clipped
    if abs(missing) <= round_off * len(e) ** 0.5:
        # The sum's own rounding. Spread over all, it would lift every variable off its bound.
        return _put(clipped, missing, lower, upper, e)
    if np.isneginf(lower).all() and np.isposinf(upper).all():
        return alpha - e * ((e @ alpha - d) / len(e))
    # S(t) = eᵀclip(α − te) falls with slope −(number of unclipped i): variable i is unclipped from lo to hi.
    ends = e * (alpha - lower), e * (alpha - upper)
    lo, hi = np.minimum(*ends), np.maximum(*ends)
    entering, leaving = lo[np.isfinite(lo)], hi[np.isfinite(hi)]
    knots = np.concatenate([entering, leaving])
    order = np.argsort(knots)
    knots = knots[order]
    unclipped = len(lo) - len(entering) + np.cumsum(np.where(order < len(entering), 1, -1))

    def excess(t: float) -> float:
        return float(e @ np.minimum(np.maximum(alpha - t * e, lower), upper)) - d

    # S at the knots by summing its pieces: good to round-off, which is enough to find the piece of the root.
    falls = np.cumsum(unclipped[:-1] * np.diff(knots))
    first = excess(knots[0])
    left = int(np.searchsorted(falls, first)) if first > 0 else -1
    anchor = knots[max(left, 0)]
    slope = unclipped[left] if left >= 0 else len(lo) - len(entering)
    t = anchor + excess(anchor) / max(1, int(slope))
    out = np.minimum(np.maximum(alpha - t * e, lower), upper)
    return _put(out, float(e @ out) - d, lower, upper, e)


def _put(out: NDArray, residual: float, lower: NDArray, upper: NDArray, e: NDArray) -> NDArray:
    """Put a rounding error on the coordinate farthest from its bounds, so that eᵀα = d to the last bits and none leaves
    a bound; on the one with most room, if none is far enough from both."""
    room = np.minimum(out - lower, upper - out)
    k = int(np.argmax(room))
    if room[k] < abs(residual):
        k = int(np.argmax(np.where(e * residual > 0, out - lower, upper - out)))
    out[k] = np.clip(out[k] - e[k] * residual, lower[k], upper[k])
    return out
