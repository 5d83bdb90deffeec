"""What an engine knows: the variables, the margin, and the inverse of its system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..core.kernel_cache import RowCache, grown
from ..exceptions import ProblemError
from ._path import (
    BOUND,
    CHANGES,
    COUNT,
    DRIFT,
    DRIVEN,
    ENTERING,
    FLOOR,
    MULTIPLIER,
    PENDING,
    PIVOTS,
    REFACTORED,
    REST,
    STRAYED,
    WANTED,
    WORK,
    WORK_MORE,
)
from .snapshot import COUNTERS, FIGURES, Snapshot, stored_array

__all__ = ["Matrix", "PathError", "State"]

_EPS = float(np.finfo(float).eps)
_VECTORS = ("alpha", "g", "e", "u", "p", "diag", "where")
_MOVES = ("alpha", "g", "p", "where", "members", "inverse", "counters", "figures")


class PathError(ProblemError):
    """The path of the optimum breaks off: the kernel's fault, or round-off's, which who knows the problem finds out."""

    NOT_PSD = "kernel: it is not positive semidefinite on these points, so that the path of the optimum breaks off"
    UNBOUNDED = "the dual problem falls without end, or no variable can take up the change"


class Matrix(Protocol):
    """What an engine must be told of Q, a piece at a time; variables are numbered in the order of arrival."""

    def column(self, k: int, start: int, stop: int) -> NDArray:
        """Q[start:stop, k], shape (stop − start,)."""

    def block(self, rows: NDArray, J: NDArray) -> NDArray:
        """Q[rows, J], shape (len(rows), len(J))."""

    def product(self, alpha: NDArray) -> NDArray:
        """Q α, shape (n,)."""


class State:
    """Variables that come and go, the coefficients they have, and all that is needed to move them.

    Parameters
    ----------
    matrix : Matrix
        Q, a piece at a time; positive semidefinite.
    bordered : bool
        Whether there is an equality.
    room : int, default=0
        For so many variables there is room from the start.

    Attributes
    ----------
    alpha, g, e, u, p, diag : arrays of shape (n,)
    where : int8 array of shape (n,)
        REST (CP's R), BOUND (E), FREE (S), PENDING (not learned, or forgotten), DRIVEN (on its way).
    d : float
        The sum eᵀα.
    inverse : array of shape (room, room)
        Of [0 eᵀ; e Q_SS] (CP's script R), its lower triangle, above which are zeros; row 0 is the multiplier's.
    """

    def __init__(self, matrix: Matrix, bordered: bool, room: int = 0) -> None:
        self.matrix, self.bordered = matrix, bordered
        self.n, self.d, length, side = 0, 0.0, max(64, room), max(16, room + 4)
        self.pool = RowCache(length=length)  # columns of Q for the margin, and for a few that were there a moment ago
        self._room = {name: np.zeros(length, dtype=np.int8 if name == "where" else float) for name in _VECTORS}
        self.members, self.member_slots = np.zeros((2, side), dtype=np.int64)
        self.inverse, self.work = np.zeros((side, side)), np.zeros((WORK, side + WORK_MORE))
        self.waiting = np.zeros(1, dtype=np.int64)  # updates of the inverse that are not in it yet: none between paths
        self.gamma = np.zeros(length)
        self.counters = np.zeros(COUNTERS, dtype=np.int64)
        self.counters[ENTERING] = -1
        self.figures = np.zeros(FIGURES)
        self._bind()

    def _bind(self) -> None:
        self.alpha, self.g, self.e, self.u, self.p, self.diag, self.where = (
            self._room[name][: self.n] for name in _VECTORS
        )

    @property
    def b(self) -> float:
        """The multiplier of the equality, −ν."""
        return float(self.figures[MULTIPLIER])

    @property
    def drift(self) -> float:
        """Largest relative residual of a direction that the inverse gave, before its refinement.

        Above 1e-9 the inverse is made anew first, so that what it has lost by updates never comes to more.
        """
        return float(self.figures[DRIFT])

    @property
    def refactored(self) -> int:
        """How often the inverse was made anew."""
        return int(self.counters[REFACTORED])

    @property
    def updates(self) -> int:
        """Changes of the inverse since it was made anew."""
        return int(self.counters[CHANGES])

    @property
    def pivots(self) -> int:
        """Breakpoints passed."""
        return int(self.counters[PIVOTS])

    @property
    def margin(self) -> NDArray:
        """Variables on the margin, in the order of the inverse."""
        return self.members[: self.counters[COUNT]]

    def bias_interval(self) -> tuple[float, float]:
        """All b for which the coefficients are optimal: a point where a margin point is free."""
        live = (self.where != PENDING) & (self.u > 0)
        # A margin point may be at a bound, up to round-off.
        room = 1e-10 * np.minimum(self.u, float(self.alpha.max(initial=0.0)))
        low, high = self.alpha <= room, self.alpha >= self.u - room
        if (live & ~low & ~high).any():
            return self.b, self.b
        # R asks for g ≥ 0 and E for g ≤ 0, and b moves g by e.
        up = live & ((low & (self.e > 0)) | (high & (self.e < 0)))
        down = live & ~up
        least = float((-self.e * self.g)[up].max(initial=-np.inf))
        most = float((-self.e * self.g)[down].min(initial=np.inf))
        return self.b + least, self.b + most

    # --- variables come and go -------------------------------------------------------------------

    def append(self, p: NDArray, u: NDArray, e: NDArray, diag: NDArray) -> None:
        """Make new variables known; they are learned one at a time by `learn`."""
        if (diag < 0).any():
            raise PathError(PathError.NOT_PSD)
        old, n = self.n, self.n + len(p)
        new = np.arange(old, n)
        margin = self.margin.copy()
        held = self.alpha > 0
        held[margin] = True
        J = np.flatnonzero(held)
        block = self.matrix.block(new, J) if len(J) else np.zeros((len(new), 0))
        if n > len(self.gamma):
            room = max(n, 2 * len(self.gamma))
            self._room = {name: grown(array, (room,)) for name, array in self._room.items()}
            self.gamma = np.zeros(room)
        self.pool.lengthen(n, margin, block[:, np.searchsorted(J, margin)])
        g = block @ self.alpha[J] - p + self.b * e
        for name, value in zip(_VECTORS, (0.0, g, e, u, p, diag, PENDING), strict=True):
            self._room[name][old:n] = value
        self.n = n
        self._bind()

    def times_inverse(self, x: NDArray) -> NDArray:
        """The inverse times x, shape (m + 1,) or (m + 1, k)."""
        A = self.inverse[: len(x), : len(x)]
        return A @ x + np.tril(A, -1).T @ x

    def make_room(self) -> None:
        """Two more margin points than there are must fit."""
        size = len(self.inverse)
        while self.counters[COUNT] + 3 >= size:
            size *= 2
        if size > len(self.inverse):
            self.inverse, self.work = grown(self.inverse, (size, size)), grown(self.work, (WORK, size + WORK_MORE))
            self.members, self.member_slots = grown(self.members, (size,)), grown(self.member_slots, (size,))

    def bring(self, k: int) -> int:
        """The slot of column k, which is then there and complete."""

        def evaluate(J: NDArray, start: int, out: NDArray) -> None:
            out[0] = self.matrix.column(k, start, self.n)

        return self.pool.one(k, evaluate)

    def fetch(self) -> None:
        """Bring the column that a path wants."""
        self.bring(int(self.counters[WANTED]))

    def measure(self) -> None:
        """What g is known to: the round-off of its largest terms."""
        if self.n:
            size = float(self.alpha.sum()) * float(self.diag.max()) + abs(self.b) + float(np.abs(self.p).max())
            self.figures[FLOOR] = 16 * _EPS * size

    def violators(self) -> NDArray:
        """Learned variables that are not optimal beyond round-off, or were left on their way."""
        self.measure()
        tolerance = STRAYED * self.figures[FLOOR]
        where, g = self.where, self.g
        wrong = ((where == REST) & (g < -tolerance) & (self.u > 0)) | ((where == BOUND) & (g > tolerance))
        return np.flatnonzero(wrong | (where == DRIVEN))

    # --- to and fro ----------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """All that moves, to be put back by `restore`; columns are not in it."""
        m, counters = int(self.counters[COUNT]), self.counters.copy()
        counters[WANTED] = 0  # which column was asked for last says what was cached, nothing else
        return Snapshot(
            **{name: self._room[name][: self.n].copy() for name in ("alpha", "g", "p", "where")},
            members=self.members[:m].copy(),
            inverse=self.inverse[: m + 1, : m + 1].copy(),
            counters=counters,
            figures=self.figures.copy(),
            d=self.d,
        )

    def twin(self) -> Self:
        """Another one in the same place, which moves on its own; Q is shared, and this one not written to."""
        kept, other = self.snapshot(), type(self)(self.matrix, self.bordered)
        columns = self.pool.rows[self.member_slots[: len(kept.members)], : self.n]
        other._room = {name: array[: self.n].copy() for name, array in self._room.items()}
        other.gamma = np.zeros(self.n)
        other.pool.take(kept.members, columns, self.n)
        other.restore(kept)
        return other

    def restore(self, kept: Snapshot) -> None:
        """Put everything back to where it was at a `snapshot`; variables that came since are unknown again."""
        members = kept.members
        m = len(members)
        self.n, self.d = len(kept.alpha), kept.d
        self._bind()
        for name in ("alpha", "g", "p", "where"):
            self._room[name][: self.n] = getattr(kept, name)
        self.counters[:], self.figures[:], self.waiting[:] = kept.counters, kept.figures, 0
        self.make_room()
        self.members[:m] = members
        self.inverse[: m + 1, : m + 1] = np.tril(kept.inverse)  # it may come from a file
        if self.pool.n != self.n:
            self.pool.truncate(self.n)
        for k in members[self.pool.slot[members] < 0]:
            self.bring(int(k))
        self.member_slots[:m] = self.pool.slot[members]

    def keep(self, variables: NDArray) -> None:
        """Forget that other variables were ever known; these, sorted, are renumbered 0, 1, 2, …"""
        m = int(self.counters[COUNT])
        self.pool.keep(variables, self.margin)
        for name, array in self._room.items():
            self._room[name] = array[: self.n][variables]
        self.members[:m] = np.searchsorted(variables, self.margin)
        self.member_slots[:m] = np.arange(m)
        self.n = len(variables)
        self.gamma = np.zeros(self.n)
        self._bind()

    def pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """All that the next bits depend on. Columns that have left the margin are let go first, here as well."""
        self.pool.evict(self.margin, 0)
        kept = self.snapshot()
        arrays = {name: getattr(kept, name) for name in _MOVES}
        arrays |= {name: getattr(self, name).copy() for name in ("e", "u", "diag")}
        arrays["columns"] = self.pool.rows[self.member_slots[: len(kept.members)], : self.n]
        return arrays, {"d": self.d}

    def __getstate__(self) -> dict[str, Any]:
        # Views of `_room` would come back as arrays of their own, and arrays of a memory map are read-only.
        arrays, facts = self.pack()
        own = {name: value for name, value in self.__dict__.items() if name in ("matrix", "bordered", "has_rescue")}
        return own | {"arrays": arrays, "facts": facts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays, facts = state.pop("arrays"), state.pop("facts")
        State.__init__(self, state["matrix"], state["bordered"])
        self.__dict__.update(state)
        self.unpack(arrays, facts)

    def unpack(self, arrays: Mapping[str, NDArray], facts: Mapping[str, Any]) -> None:
        """Become the engine that was packed.

        Raises
        ------
        KeyError, ValueError
            An array is missing or is not what `pack` would have made: compiled code relies on it.
        """
        kept = Snapshot(**{name: arrays[name] for name in _MOVES}, d=float(facts["d"]))
        n, m = len(kept.alpha), len(kept.members)
        kept.check(n)
        e, u, diag = (stored_array(arrays, name, "f8", (n,)) for name in ("e", "u", "diag"))
        columns = stored_array(arrays, "columns", "f8", (m, n))
        # Round-off may have left them beside their bounds; whether they are right `Stream`'s reader asks.
        slack = 1e-9 * float(np.abs(kept.alpha).max(initial=0.0)) + 1e-12 * np.where(np.isfinite(u), u, 0.0)
        high = np.where(kept.where == PENDING, 0.0, u)
        if not ((kept.alpha >= -slack).all() and (kept.alpha <= high + slack).all()):
            raise ValueError("its coefficients are not within their bounds")
        known = {"e": e, "u": u, "diag": diag, "alpha": kept.alpha, "g": kept.g, "p": kept.p, "where": kept.where}
        self._room = {name: array.copy() for name, array in known.items()}
        self.gamma = np.zeros(n)
        self.pool.take(kept.members, columns, n)
        self.restore(kept)
