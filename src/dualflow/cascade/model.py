"""The model of a pair of classes as it is sent to the parts, and the dual bound as a sum over the parts.

D(ν) = −½ αᵀQα + νd + Σᵢ min(0, uᵢ(hᵢ − νeᵢ)) is a sum over points, and piecewise linear in ν with a knot at hᵢ/eᵢ for
every point. Only the knots near the maximum matter: a part sends the knots within a window of multipliers, and the
straight line that all other points contribute there. Any ν gives a bound; if the window contains the maximum, the bound
is that of `core.certificate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .. import problems
from ..core._bound import capped_sum, maximisers
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..exceptions import ProblemError
from .parts import Loaded

#: Numbers of a block of rows, 1 MB: it stays in the second-level cache.
NUMBERS_PER_BLOCK = 1 << 17


@dataclass(frozen=True)
class Members:
    """Rows that take part in a problem."""

    row: NDArray  # their row numbers within their part; shape (n,)
    X: NDArray  # shape (n, m)
    #: target, weight: labels ±1, or numbers to fit, and factors of the upper bounds, which are above 0; shape (n,).
    target: NDArray
    weight: NDArray
    has_labels: bool = True  # whether ``target`` holds labels


@dataclass(frozen=True)
class Variables:
    """The dual variables of the rows of a part: one a row in classification, two in regression.

    Equalities are σᵀα = d.
    """

    X: NDArray  # shape (n, m)
    #: sigma, p, upper: signs in Q, linear terms and upper bounds, as in `core.problem.DualProblem`; shape (copies, n).
    sigma: NDArray
    p: NDArray
    upper: NDArray


class LinearModel(Protocol):
    """A model with a linear kernel whose equality, if it has one, is σᵀα = d.

    Attributes
    ----------
    center : array of shape (m,) or None
        Subtracted from all points.
    offset : float
        Constant added to the kernel.
    has_equality : bool
    d : float
        The right-hand side of the equality.
    size : float
        The size of p, or of slopes if p is 0.
    """

    @property
    def center(self) -> NDArray | None: ...
    @property
    def offset(self) -> float: ...
    @property
    def has_equality(self) -> bool: ...
    @property
    def d(self) -> float: ...
    @property
    def size(self) -> float: ...

    def variables(self, loaded: Loaded, number: int) -> Variables:
        """Return the variables of a part's rows."""
        ...


class CascadeModel(Protocol):
    """A model that a cascade solves.

    A multiplier of a point is α of its variable, or α − α* if it has two.

    Attributes
    ----------
    on_simplex : bool
        Whether α sum to 1 and have no upper bounds.
    has_equality : bool
        Whether σᵀα = d.
    d : float
    offset : float
        Constant added to the kernel.
    size : float
        The size of slopes, by which a point without weight is far from the margin.
    """

    @property
    def on_simplex(self) -> bool: ...
    @property
    def has_equality(self) -> bool: ...
    @property
    def d(self) -> float: ...
    @property
    def offset(self) -> float: ...
    @property
    def size(self) -> float: ...

    def members(self, loaded: Loaded, number: int) -> Members:
        """Return the rows of a part that take part."""
        ...

    def variables_of(self, members: Members) -> Variables:
        """Return the variables of rows."""
        ...

    def gram(self, X: NDArray) -> Gram:
        """Return the kernel over points."""
        ...

    def pose(self, X: NDArray, target: NDArray, weight: NDArray) -> DualProblem:
        """Return the dual problem of some points alone."""
        ...

    def alone(self, members: Members) -> tuple[Any, float] | None:
        """Return the model of a part alone, and the factor that makes its α feasible together with those of others.

        None if the rows have no problem of their own.
        """
        ...

    def of_points(self, alpha: NDArray) -> NDArray:
        """Return the multipliers of the points, from α of their problem."""
        ...

    def of_variables(self, multipliers: NDArray) -> NDArray:
        """Return α of the problem of some points from their multipliers."""
        ...

    def weights(self, target: NDArray, multipliers: NDArray) -> NDArray:
        """Return the weights of points in Qα, times their σ."""
        ...


@dataclass(frozen=True)
class Model:
    """The support vector machine of a pair of classes with all numbers known, such as γ, weights and centre."""

    #: classes, class_weight: shape (k,).
    classes: NDArray
    class_weight: NDArray
    #: positive, negative: the classes of y = +1 and y = −1, as numbers.
    positive: int
    negative: int
    C: float
    loss: str
    fit_intercept: bool | str
    kernel: str
    gamma: float
    degree: float
    coef0: float
    #: Subtracted from all points where this changes nothing but the bias (`Gram`); shape (m,) or None.
    center: NDArray | None

    def members(self, loaded: Loaded, number: int) -> Members:
        """Return the rows of a part that have one of the two classes and a positive weight."""
        code = np.minimum(np.searchsorted(self.classes, loaded.y), len(self.classes) - 1)
        if (self.classes[code] != loaded.y).any():
            raise ProblemError(f"part {number} holds labels that it did not hold before; it must not change")
        own = self.class_weight[code] if loaded.weight is None else self.class_weight[code] * loaded.weight
        row = np.flatnonzero(((code == self.positive) | (code == self.negative)) & (own > 0))
        sign = np.where(code[row] == self.positive, 1.0, -1.0)
        return Members(row, loaded.X if len(row) == len(code) else loaded.X[row], sign, own[row])

    def variables(self, loaded: Loaded, number: int) -> Variables:
        """Return the variables of a part's rows."""
        return self.variables_of(self.members(loaded, number))

    def variables_of(self, members: Members) -> Variables:
        """Return the variables of rows; the squared hinge has no linear term, and ignores their bounds."""
        sign, upper = members.target[None], self.C * members.weight[None]
        return Variables(members.X, sign, np.full_like(sign, 0.0 if self.on_simplex else 1.0), upper)

    @property
    def d(self) -> float:
        """The right-hand side of the equality."""
        return 0.0

    @property
    def size(self) -> float:
        """The size of p."""
        return 1.0

    def gram(self, X: NDArray) -> Gram:
        """Return the kernel over points."""
        return Gram(X, self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, center=self.center)

    def pose(self, X: NDArray, target: NDArray, weight: NDArray) -> DualProblem:
        """Return the dual problem of some points alone."""
        return problems.svc(
            self.gram(X), target, self.C, loss=self.loss, fit_intercept=self.fit_intercept, sample_weight=weight
        )

    def alone(self, members: Members) -> tuple[Model, float] | None:
        """Return this model, unless the rows are of one class."""
        return (self, 1.0) if len(np.unique(members.target)) == 2 else None

    def of_points(self, alpha: NDArray) -> NDArray:
        """Return α."""
        return alpha

    def of_variables(self, multipliers: NDArray) -> NDArray:
        """Return the multipliers."""
        return multipliers

    def weights(self, target: NDArray, multipliers: NDArray) -> NDArray:
        """Return yα."""
        return target * multipliers

    @property
    def on_simplex(self) -> bool:
        """Whether the multipliers sum to 1 and have no upper bounds."""
        return self.loss == "squared_hinge"

    @property
    def has_equality(self) -> bool:
        """Whether the bias is the multiplier of an equality over all points."""
        return self.fit_intercept is True and not self.on_simplex

    @property
    def offset(self) -> float:
        """Constant added to the kernel."""
        return 1.0 if self.fit_intercept == "penalised" or (self.on_simplex and self.fit_intercept) else 0.0


@dataclass(frozen=True)
class TubeModel:
    """ε-insensitive regression with a linear kernel, as `problems.svr` poses it: two variables a row.

    ``shift`` is subtracted from the values y, which changes the bias alone; ``size`` is that of the rest.
    """

    C: float
    epsilon: float
    center: NDArray
    shift: float
    size: float
    offset: ClassVar[float] = 0.0
    has_equality: ClassVar[bool] = True
    d: ClassVar[float] = 0.0

    def variables(self, loaded: Loaded, number: int) -> Variables:
        """Return the variables of a part's rows."""
        X, y, weight = weighty(loaded)
        signs = np.array([[1.0], [-1.0]])
        sigma, p = np.repeat(signs, len(y), axis=1), signs * (np.asarray(y, dtype=float) - self.shift) - self.epsilon
        return Variables(X, sigma, p, np.tile(self.C * weight, (2, 1)))


@dataclass(frozen=True)
class BallModel:
    """The smallest ball around a share of the rows, as `problems.svdd` poses it; rows times √2 stand for its scale.

    ``cap`` is the upper bound of a row of weight 1, and ``size`` half the mean squared distance from the centre.
    """

    cap: float
    center: NDArray
    size: float
    offset: ClassVar[float] = 0.0
    has_equality: ClassVar[bool] = True
    d: ClassVar[float] = 1.0

    def variables(self, loaded: Loaded, number: int) -> Variables:
        """Return the variables of a part's rows."""
        X, _, weight = weighty(loaded)
        X, p = np.sqrt(2.0) * X, np.empty((1, len(X)))
        height = max(1, NUMBERS_PER_BLOCK // max(1, X.shape[1]))
        for start in range(0, len(X), height):
            off = X[start : start + height] - self.center
            p[0, start : start + height] = 0.5 * np.einsum("ij,ij->i", off, off)
        return Variables(X, np.ones_like(p), p, self.cap * weight[None])


def weighty(loaded: Loaded) -> tuple[NDArray, NDArray, NDArray]:
    """Return X, y and weights of the rows with a weight above 0."""
    if loaded.weight is None:
        return loaded.X, loaded.y, np.ones(len(loaded.X))
    kept = loaded.weight > 0
    return loaded.X[kept], loaded.y[kept], loaded.weight[kept]


#: Smallest and largest multiplier for which knots are sent.
Window = tuple[float, float]


@dataclass(frozen=True)
class Share:
    """The contribution of a part's points to the bound."""

    #: constant, slope: the straight line of all points without a knot in the window; without an equality the constant
    #: is their sum.
    constant: float
    slope: float
    #: h, e, u: the points with a knot in the window.
    h: NDArray
    e: NDArray
    u: NDArray
    min_h: float  # smallest hᵢ of all points
    rounding: float = 0.0  # rounding error of the points' terms


def share_of(h: NDArray, e: NDArray | None, u: NDArray, window: Window) -> Share:
    """Return the share of points with gradient hᵢ = (Qα − p)ᵢ, signs and bounds.

    Parameters
    ----------
    h : array of shape (n,)
    e : array of shape (n,) with entries ±1, or None
        Of the equality yᵀα = 0; None without an equality.
    u : array of shape (n,)
    window : tuple of float
    """
    none = np.empty(0)
    min_h = float(h.min(initial=np.inf))
    if e is None:
        return Share(capped_sum(u, h, None, 0.0), 0.0, none, none, none, min_h)
    low, high = window
    knot = h / e
    inside = (knot >= low) & (knot <= high)
    # Below its knot a point with e = −1 adds u(h + ν); above its knot one with e = +1 adds u(h − ν).
    adds = ~inside & np.where(e > 0, knot < low, knot > high)
    constant, slope = float(u[adds] @ h[adds]), -float(u[adds] @ e[adds])
    return Share(constant, slope, h[inside], e[inside], u[inside], min_h)


def reduced(
    shares: Sequence[Share], window: Window, quadratic: float, kind: str, d: float = 0.0
) -> tuple[float, Window | None, bool]:
    """Return the bound as the sum of all shares, in their order.

    Parameters
    ----------
    shares : sequence of Share
    window : tuple of float
        The window that the shares were computed for.
    quadratic : float
        αᵀQα.
    kind : {"box", "equality", "simplex"}
        No equality; σᵀα = d; 1ᵀα = 1 without upper bounds.
    d : float

    Returns
    -------
    bound : float
    interval : tuple of float or None
        The multipliers that give the bound; None without an equality.
    inside : bool
        Whether the window contains them, so that no other multiplier gives a better bound.
    """
    fixed = -0.5 * quadratic
    if kind == "simplex":
        min_h = min(share.min_h for share in shares)
        return fixed + min_h, (min_h, min_h), True
    constant, slope = sum(share.constant for share in shares), d + sum(share.slope for share in shares)
    if kind == "box":
        return fixed + constant, None, True
    h, e, u = (np.concatenate([getattr(share, name) for share in shares]) for name in ("h", "e", "u"))
    low, high = maximisers(h, e, u, slope)
    ends = [float(np.clip(low, *window)), float(np.clip(high, *window))]
    inside = ends == [low, high]
    tried = (ends[0], 0.5 * (ends[0] + ends[1]), ends[1])
    bound = max(fixed + constant + slope * nu + capped_sum(u, h, e, nu) for nu in tried)
    return bound, (ends[0], ends[1]), inside
