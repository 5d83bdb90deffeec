"""What is to be solved, as it travels: the kernel, the loss, and which classes are told apart.

The dual bound, part by part: each says what its points add to D, and the sum is D of all points, exactly.

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

from .. import problems
from ..core._bound import capped_sum, maximisers
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..exceptions import ProblemError
from .parts import Loaded

__all__ = ["Members", "Model", "Share", "Window", "reduced", "share_of"]


@dataclass(frozen=True)
class Members:
    """Rows that take part in a problem.

    Attributes
    ----------
    row : array of shape (n,)
        Their numbers within their part.
    X : array of shape (n, m)
    sign, weight : array of shape (n,)
        Labels ±1, and what multiplies C; above 0.
    """

    row: NDArray
    X: NDArray
    sign: NDArray
    weight: NDArray


@dataclass(frozen=True)
class Model:
    """A pair of classes' support vector machine, all of whose numbers are known: γ, weights, centre.

    Attributes
    ----------
    classes, class_weight : array of shape (k,)
    positive, negative : int
        The classes of y = +1 and y = −1, as numbers.
    center : array of shape (m,) or None
        What is taken from all points where that moves nothing but the bias (`Gram`).
    """

    classes: NDArray
    class_weight: NDArray
    positive: int
    negative: int
    C: float
    loss: str
    fit_intercept: bool | str
    kernel: str
    gamma: float
    degree: float
    coef0: float
    center: NDArray | None

    def members(self, loaded: Loaded, number: int) -> Members:
        """The rows of a part that are of these classes and have a weight."""
        code = np.minimum(np.searchsorted(self.classes, loaded.y), len(self.classes) - 1)
        if (self.classes[code] != loaded.y).any():
            raise ProblemError(f"part {number} holds labels that it did not hold before; it must not change")
        own = self.class_weight[code] if loaded.weight is None else self.class_weight[code] * loaded.weight
        row = np.flatnonzero(((code == self.positive) | (code == self.negative)) & (own > 0))
        sign = np.where(code[row] == self.positive, 1.0, -1.0)
        return Members(row, loaded.X[row], sign, own[row])

    def gram(self, X: NDArray) -> Gram:
        """The kernel over points."""
        return Gram(X, self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, center=self.center)

    def pose(self, X: NDArray, sign: NDArray, weight: NDArray) -> DualProblem:
        """The dual problem of some points alone."""
        return problems.svc(
            self.gram(X), sign, self.C, loss=self.loss, fit_intercept=self.fit_intercept, sample_weight=weight
        )

    @property
    def on_simplex(self) -> bool:
        """Whether the multipliers sum to 1 and have no bounds of their own."""
        return self.loss == "squared_hinge"

    @property
    def has_equality(self) -> bool:
        """Whether the bias is a multiplier, to be found from all points together."""
        return self.fit_intercept is True and not self.on_simplex

    @property
    def offset(self) -> float:
        """What is added to the kernel."""
        return 1.0 if self.fit_intercept == "penalised" or (self.on_simplex and self.fit_intercept) else 0.0


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
