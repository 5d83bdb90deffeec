"""The dual bound, part by part: each says what its points add to D, and the sum is D of all points, exactly.

D(ν) = −½ αᵀQα + νd + Σᵢ min(0, uᵢ(hᵢ − νeᵢ)) is a sum over points, and piecewise linear with a knot at hᵢ/eᵢ for every
point. Of the knots only those near the maximum matter: within a window of multipliers a part sends its knots, and of
all others the straight line that they are there. Any ν gives a bound; where the window holds the maximum, it is the one
of `core.certificate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core._bound import capped_sum, maximisers

__all__ = ["Share", "Window", "reduced", "share_of"]

#: Multipliers from which to which knots are sent.
Window = tuple[float, float]


@dataclass(frozen=True)
class Share:
    """What the points of a part add to the bound.

    Attributes
    ----------
    constant, slope : float
        The straight line of all points without a knot in the window; without an equality, their sum.
    h, e, u : array
        The points with a knot there.
    least : float
        The smallest hᵢ of all.
    rounding : float
        What float64 may have rounded away of the points' terms.
    """

    constant: float
    slope: float
    h: NDArray
    e: NDArray
    u: NDArray
    least: float
    rounding: float = 0.0


def share_of(h: NDArray, e: NDArray | None, u: NDArray, window: Window) -> Share:
    """The share of points with these hᵢ = (Qα − p)ᵢ, signs and bounds.

    Parameters
    ----------
    h : array of shape (n,)
    e : array of shape (n,) with entries ±1, or None
        Of the equality yᵀα = 0; None where there is none.
    u : array of shape (n,)
    window : tuple of float
    """
    none = np.empty(0)
    least = float(h.min(initial=np.inf))
    if e is None:
        return Share(capped_sum(u, h, None, 0.0), 0.0, none, none, none, least)
    low, high = window
    knot = h / e
    inside = (knot >= low) & (knot <= high)
    # Below ν = knot a point with e = −1 adds u(h + ν), above it one with e = +1 adds u(h − ν); else they add nothing.
    adds = ~inside & np.where(e > 0, knot < low, knot > high)
    constant, slope = float(u[adds] @ h[adds]), -float(u[adds] @ e[adds])
    return Share(constant, slope, h[inside], e[inside], u[inside], least)


def reduced(shares: Sequence[Share], window: Window, quadratic: float, kind: str) -> tuple[float, Window | None, bool]:
    """The bound from all shares, in their order.

    Parameters
    ----------
    shares : sequence of Share
    window : tuple of float
        The one they were made for.
    quadratic : float
        αᵀQα.
    kind : {"box", "equality", "simplex"}
        No equality; yᵀα = 0; 1ᵀα = 1 without upper bounds.

    Returns
    -------
    bound : float
    interval : tuple of float or None
        The multipliers that give it; None where there is no equality.
    inside : bool
        Whether the window held them, so that no other multiplier gives a better bound.
    """
    fixed = -0.5 * quadratic
    if kind == "simplex":
        least = min(share.least for share in shares)
        return fixed + least, (least, least), True
    constant, slope = sum(share.constant for share in shares), sum(share.slope for share in shares)
    if kind == "box":
        return fixed + constant, None, True
    h, e, u = (np.concatenate([getattr(share, name) for share in shares]) for name in ("h", "e", "u"))
    low, high = maximisers(h, e, u, slope)
    ends = [float(np.clip(low, *window)), float(np.clip(high, *window))]
    inside = ends == [low, high]
    tried = (ends[0], 0.5 * (ends[0] + ends[1]), ends[1])
    bound = max(fixed + constant + slope * nu + capped_sum(u, h, e, nu) for nu in tried)
    return bound, (ends[0], ends[1]), inside
