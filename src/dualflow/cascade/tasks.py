"""What is done where a part is. Each takes the part, what is its own and what all share, and returns small things.

How much travels.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import EPS, growth_of, reach_of
from ..core.runtime import clock
from ..core.runtime.threads import blas_for
from ..driver.solve import solve
from ..exceptions import ProblemError
from .model import Members, Model, Share, Window, share_of
from .parts import Part, load

__all__ = [
    "Broadcast",
    "Found",
    "Survey",
    "Survivors",
    "begin",
    "fetch",
    "in_time",
    "nbytes",
    "run_task",
    "survey",
    "sweep",
]


#: Rows of each class that a part puts up which has no problem of its own, for it holds one class only.
PUT_UP = 64
#: How far outside the margin a point without weight may lie and stay with the survivors: in units of its gradient's
#: largest part. It is at hand then when they move.
RESERVE = 0.1
#: Rows of a part whose kernel with the survivors is worked on at a time.
HEIGHT = 8192


@dataclass(frozen=True)
class Survey:
    """What is to be known of all points before any is used.

    Attributes
    ----------
    n : int
    classes, counts, weighty : array
        Labels, how many rows they have, and how many of these with a weight above 0.
    mean, spread : array of shape (m,)
        Of the features, and the sum of squared distances from it.
    mass : array
        Sum of the weights of each class.
    trace : array
        Of each class a number between −1 and 1 that is another one if rows are in another order or of other classes.
    """

    n: int
    classes: NDArray
    counts: NDArray
    weighty: NDArray
    mean: NDArray
    spread: NDArray
    mass: NDArray
    trace: NDArray


@dataclass(frozen=True)
class Survivors:
    """Points that travel: which of which part, what they are, and their multipliers; all of one length."""

    part: NDArray
    row: NDArray
    X: NDArray
    sign: NDArray
    weight: NDArray
    alpha: NDArray

    def __len__(self) -> int:
        return len(self.row)

    def take(self, J: NDArray) -> Survivors:
        """Some of them."""
        return Survivors(*(getattr(self, name)[J] for name in ("part", "row", "X", "sign", "weight", "alpha")))

    @classmethod
    def of(cls, number: int, members: Members, J: NDArray, alpha: NDArray | None = None) -> Survivors:
        """Points J of a part's members."""
        part, alpha = np.full(len(J), number), np.zeros(len(J)) if alpha is None else alpha[J]
        return cls(part, members.row[J], members.X[J], members.sign[J], members.weight[J], alpha)

    @classmethod
    def joined(cls, several: list[Survivors]) -> Survivors:
        """All of them, by part and then by row: the order does not tell who came when."""
        names = ("part", "row", "X", "sign", "weight", "alpha")
        found = cls(*(np.concatenate([getattr(one, name) for one in several]) for name in names))
        return found.take(np.lexsort((found.row, found.part)))


@dataclass(frozen=True)
class Broadcast:
    """What all parts are told in a round.

    Attributes
    ----------
    X : array of shape (k, m)
        The survivors.
    coefficient : array of shape (k,)
        yᵢαᵢ.
    nu : float
        The multiplier with which points are judged.
    window : tuple of float
        Of multipliers, for `Share`.
    threshold : float
        KKT violation from which a point is an invader.
    most : int
        Invaders of a part at most, the worst.
    """

    model: Model
    X: NDArray
    coefficient: NDArray
    nu: float
    window: Window
    threshold: float
    most: int


@dataclass(frozen=True)
class Found:
    """What a part says in a round.

    Attributes
    ----------
    share : Share
        Of the bound.
    invaders : Survivors
        Points that are not with the survivors and violate a KKT condition.
    violators : int
        How many there are of these, sent or not.
    idle : array of int
        Of its own rows among the survivors those without weight that lie far outside the margin.
    squares : array
        ‖x‖² of its own rows among the survivors, as they were read this time.
    """

    share: Share
    invaders: Survivors
    violators: int
    idle: NDArray
    squares: NDArray


def run_task(function: Any, part: Part, number: int, own: Any, shared: Any, left: float | None = None) -> Any:
    """Call a task; BLAS has one thread for each call, so that bits do not depend on where it runs.

    ``left`` are seconds for it in another process, where `clock.OutOfTime` is what it returns if they are over.
    """
    with blas_for(1 << 30, shared=True):
        if left is None:
            return function(part, number, own, shared)
        try:
            with clock.within(time.monotonic() + left):
                return function(part, number, own, shared)
        except clock.OutOfTime:
            return clock.OutOfTime


def in_time(found: list[Any]) -> list[Any]:
    """What tasks in other processes returned, if none was late; else `clock.OutOfTime` is raised."""
    if any(one is clock.OutOfTime for one in found):
        raise clock.OutOfTime
    return found


def survey(part: Part, number: int, own: None, shared: None) -> Survey:
    """Look at all rows of a part once."""
    X, y, weight = load(part, number)
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ProblemError(f"part {number}: y contains NaN or infinity")
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    kept = np.ones(len(X)) if weight is None else np.maximum(weight, 0.0)
    weighty = np.bincount(codes, kept > 0, minlength=len(classes)).astype(np.intp)
    mass, mean = np.bincount(codes, kept, minlength=len(classes)), X.sum(axis=0) / max(1, len(X))
    off = X - mean
    along = (off @ np.cos(np.arange(X.shape[1]))) * np.linspace(1.0, 2.0, len(X))
    trace, most = (np.bincount(codes, of, minlength=len(classes)) for of in (along, np.abs(along)))
    spread = np.square(off, out=off).sum(axis=0)
    return Survey(len(X), classes, counts, weighty, mean, spread, mass, trace / np.maximum(most, 1e-300))


def begin(part: Part, number: int, own: None, shared: tuple[Model, float]) -> Survivors:
    """Solve the problem of a part alone; its support vectors, with their multipliers.

    A part of one class only has no such problem: it puts up some rows, without weight.
    """
    model, tol = shared
    members = model.members(load(part, number), number)
    both = (members.sign > 0).any() and (members.sign < 0).any()
    if not both:
        J = np.unique(np.linspace(0, len(members.row) - 1, min(PUT_UP, len(members.row))).astype(np.intp))
        return Survivors.of(number, members, J)
    problem = model.pose(members.X, members.sign, members.weight)
    solution = solve(problem, tol=tol)
    return Survivors.of(number, members, np.flatnonzero(solution.alpha > 0), solution.alpha)


def fetch(part: Part, number: int, own: tuple[NDArray, NDArray], shared: Model) -> Survivors:
    """Rows of a part by number, with the multipliers given."""
    rows, alpha = own
    members = shared.members(load(part, number), number)
    place = _places(members, rows, f"part {number} does not hold the rows that the checkpoint names; delete the file")
    return replace(Survivors.of(number, members, place), alpha=alpha)


def sweep(part: Part, number: int, own: tuple[NDArray, NDArray], shared: Broadcast) -> Found:
    """Hold all rows of a part against the survivors: its share of the bound, and who invades.

    Parameters
    ----------
    part : Part
    number : int
    own : tuple of arrays
        Its rows among the survivors, ascending, and their multipliers.
    shared : Broadcast
    """
    model, (rows, alpha) = shared.model, own
    members = model.members(load(part, number), number)
    place = _places(members, rows, f"part {number} does not hold rows that it held before; it must not change")
    h = _gradient(members, shared)
    upper, kind = np.full(len(h), np.inf), kind_of(model)
    if model.on_simplex:
        h[place] += alpha / (2.0 * model.C * members.weight[place])
    else:
        upper = model.C * members.weight
    e = members.sign if kind == "equality" else None
    share = share_of(h, e, upper if kind != "simplex" else np.ones(len(h)), shared.window)
    rho = h if kind == "box" else h - shared.nu * (1.0 if e is None else e)
    outside = np.ones(len(h), dtype=bool)
    outside[place] = False
    worst = np.flatnonzero(outside & (rho < -shared.threshold))
    share = replace(share, rounding=_rounding(members, shared, rho, upper))
    violators = len(worst)
    if violators > shared.most:
        worst = np.sort(worst[np.argsort(rho[worst], kind="stable")[: shared.most]])
    size = shared.nu if model.on_simplex else 1.0
    idle = rows[(alpha <= 0) & (rho[place] > RESERVE * abs(size))]
    return Found(share, Survivors.of(number, members, worst), violators, idle, squares_of(members.X[place]))


def squares_of(X: NDArray) -> NDArray:
    """‖x‖² of rows, by the same operations wherever they are."""
    squares: NDArray = np.square(X).sum(axis=1)
    return squares


def _places(members: Members, rows: NDArray, message: str) -> NDArray:
    """Where rows are among a part's members; `ProblemError` if they are not there."""
    place: NDArray = np.searchsorted(members.row, rows)
    if len(rows) and (place.max(initial=0) >= len(members.row) or (members.row[place] != rows).any()):
        raise ProblemError(message)
    return place


def _rounding(members: Members, shared: Broadcast, rho: NDArray, upper: NDArray) -> float:
    """What float64 may have rounded away of a part's share of the bound, as `core.bounds.rounding` says it."""
    if not len(shared.X):
        return 0.0
    gram = shared.model.gram(shared.X)
    reach = reach_of(np.abs(shared.coefficient) * np.sqrt(np.maximum(gram.diag() + shared.model.offset, 0.0)))
    root = np.sqrt(np.maximum(gram.self_kernel(members.X) + shared.model.offset, 0.0))
    doubt = EPS * (growth_of(gram) * root * reach + 1.0 + abs(shared.nu))
    if shared.model.on_simplex:
        return float(doubt.max(initial=0.0))
    return float((upper * doubt)[rho <= doubt].sum())


def kind_of(model: Model) -> str:
    """Which of the bound's three forms a model has."""
    return "simplex" if model.on_simplex else ("equality" if model.has_equality else "box")


def _gradient(members: Members, shared: Broadcast) -> NDArray:
    """Qα − p at the points of a part, but for the ridge, in float64; in blocks."""
    model, total = shared.model, float(shared.coefficient.sum())
    values = np.zeros(len(members.row))
    if len(shared.X):
        gram, everyone = model.gram(shared.X), np.arange(len(shared.X))
        for start in range(0, len(values), HEIGHT):
            here = slice(start, start + HEIGHT)
            values[here] = gram.expand(members.X[here], everyone, shared.coefficient[:, None])[:, 0]
    values += model.offset * total
    values *= members.sign
    return values if model.on_simplex else values - 1.0


def nbytes(value: Any) -> int:
    """Bytes of the arrays in a value."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if is_dataclass(value) and not isinstance(value, type):
        return sum(nbytes(getattr(value, f.name)) for f in fields(value))
    return sum(map(nbytes, value)) if isinstance(value, (list, tuple)) else 0
