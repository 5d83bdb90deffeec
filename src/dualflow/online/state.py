"""The state of an engine: its variables, the margin, and the inverse of the margin's system."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ..core.kernel_cache import RowCache, enlarged
from ..core.reading import finite_middle
from ..exceptions import ProblemError
from ._path import (
    AT_LOWER,
    AT_UPPER,
    CHANGES,
    COUNT,
    DRIFT,
    ENTERING,
    FLOOR,
    MOVING,
    MULTIPLIER,
    PENDING,
    PIVOTS,
    REFACTORED,
    VIOLATION_FACTOR,
    WANTED,
    WORK_PADDING,
    WORK_ROWS,
)
from .snapshot import N_COUNTERS, N_FIGURES, Snapshot, stored_array

_EPS = float(np.finfo(float).eps)
_VECTORS = ("alpha", "g", "e", "u", "p", "diag", "where")
_PACKED = ("alpha", "g", "p", "where", "members", "inverse", "counters", "figures")


class PathError(ProblemError):
    """The path of the optimum breaks off, because the kernel is not positive semidefinite or because of round-off."""

    NOT_PSD = "kernel: it is not positive semidefinite on these points, so that the path of the optimum breaks off"
    UNBOUNDED = "the dual problem is unbounded, or no variable can take up the change"


class Matrix(Protocol):
    """Access to parts of Q; variables are numbered in the order of arrival."""

    def column(self, k: int, start: int, stop: int) -> NDArray:
        """Return Q[start:stop, k], shape (stop − start,)."""

    def block(self, rows: NDArray, J: NDArray) -> NDArray:
        """Return Q[rows, J], shape (len(rows), len(J))."""

    def product(self, alpha: NDArray) -> NDArray:
        """Return Q α, shape (n,)."""


class State:
    """The learned and pending variables with their coefficients, the margin, and the arrays that `follow` needs.

    Parameters
    ----------
    matrix : Matrix
        Gives parts of Q, which must be positive semidefinite.
    bordered : bool
        Whether there is an equality.
    room : int, default=0
        Number of variables for which memory is allocated from the start.

    Attributes
    ----------
    alpha, g, e, u, p, diag : arrays of shape (n,)
    where : int8 array of shape (n,)
        AT_LOWER (CP's R), AT_UPPER (E), FREE (S), PENDING (not learned, or unlearned), MOVING (on a path).
    d : float
        The sum eᵀα.
    inverse : array of shape (room, room)
        Lower triangle of the inverse of [0 eᵀ; e Q_SS] (CP's script R), zeros above; row 0 belongs to the multiplier.
    """

    def __init__(self, matrix: Matrix, bordered: bool, room: int = 0) -> None:
        self.matrix, self.bordered = matrix, bordered
        self.n, self.d, length, side = 0, 0.0, max(64, room), max(16, room + 4)
        self.pool = RowCache(length=length)  # columns of Q for the margin points and some that were margin points
        self._arrays = {name: np.zeros(length, dtype=np.int8 if name == "where" else float) for name in _VECTORS}
        self.members, self.member_slots = np.zeros((2, side), dtype=np.int64)
        self.inverse, self.work = np.zeros((side, side)), np.zeros((WORK_ROWS, side + WORK_PADDING))
        self.waiting = np.zeros(1, dtype=np.int64)  # number of delayed updates of the inverse; 0 between paths
        self.gamma = np.zeros(length)
        self.counters = np.zeros(N_COUNTERS, dtype=np.int64)
        self.counters[ENTERING] = -1
        self.figures = np.zeros(N_FIGURES)
        self._bind()

    def _bind(self) -> None:
        """Make the vectors views of their first n entries."""
        self.alpha, self.g, self.e, self.u, self.p, self.diag, self.where = (
            self._arrays[name][: self.n] for name in _VECTORS
        )

    @property
    def b(self) -> float:
        """The multiplier of the equality, −ν."""
        return float(self.figures[MULTIPLIER])

    @property
    def drift(self) -> float:
        """Largest relative residual of a direction before its refinement.

        The inverse is computed from scratch before this exceeds 1e-9.
        """
        return float(self.figures[DRIFT])

    @property
    def refactored(self) -> int:
        """How often the inverse was computed from scratch."""
        return int(self.counters[REFACTORED])

    @property
    def updates(self) -> int:
        """Updates of the inverse since it was last computed from scratch."""
        return int(self.counters[CHANGES])

    @property
    def pivots(self) -> int:
        """Number of breakpoints passed."""
        return int(self.counters[PIVOTS])

    @property
    def margin(self) -> NDArray:
        """The margin points, in the order of the inverse."""
        return self.members[: self.counters[COUNT]]

    def bias_interval(self) -> tuple[float, float]:
        """Return the smallest and largest b for which the coefficients are optimal; equal if a variable is free."""
        live = (self.where != PENDING) & (self.u > 0)
        # Round-off may leave a margin point at a bound.
        room = 1e-10 * np.minimum(self.u, float(self.alpha.max(initial=0.0)))
        low, high = self.alpha <= room, self.alpha >= self.u - room
        if (live & ~low & ~high).any():
            return self.b, self.b
        # g ≥ 0 is required at α = 0 and g ≤ 0 at α = u, and b changes g by e.
        up = live & ((low & (self.e > 0)) | (high & (self.e < 0)))
        down = live & ~up
        least = float((-self.e * self.g)[up].max(initial=-np.inf))
        most = float((-self.e * self.g)[down].min(initial=np.inf))
        return self.b + least, self.b + most

    def central_bias(self, otherwise: float) -> float:
        """Return the `finite_middle` of `bias_interval`, or `b` if no bias is optimal to the last digit."""
        low, high = self.bias_interval()
        return self.b if low > high else finite_middle((low, high), otherwise)

    # --- adding variables ------------------------------------------------------------------------

    def append(self, p: NDArray, u: NDArray, e: NDArray, diag: NDArray) -> None:
        """Add variables without learning them; `learn` learns them one at a time."""
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
            self._arrays = {name: enlarged(array, (room,)) for name, array in self._arrays.items()}
            self.gamma = np.zeros(room)
        self.pool.lengthen(n, margin, block[:, np.searchsorted(J, margin)])
        g = block @ self.alpha[J] - p + self.b * e
        for name, value in zip(_VECTORS, (0.0, g, e, u, p, diag, PENDING), strict=True):
            self._arrays[name][old:n] = value
        self.n = n
        self._bind()

    def times_inverse(self, x: NDArray) -> NDArray:
        """Return the inverse times x, shape (m + 1,) or (m + 1, k)."""
        A = self.inverse[: len(x), : len(x)]
        return A @ x + np.tril(A, -1).T @ x

    def make_room(self) -> None:
        """Enlarge the inverse if it has no room for two more margin points."""
        size = len(self.inverse)
        while self.counters[COUNT] + 3 >= size:
            size *= 2
        if size > len(self.inverse):
            # The inverse is last: after Ctrl-C in between, its size says that the others are still to be enlarged.
            self.members, self.member_slots = enlarged(self.members, (size,)), enlarged(self.member_slots, (size,))
            self.work = enlarged(self.work, (WORK_ROWS, size + WORK_PADDING))
            self.inverse = enlarged(self.inverse, (size, size))

    def cache_column(self, k: int) -> int:
        """Return the slot of column k in the cache, computing the column if necessary."""

        def evaluate(J: NDArray, start: int, out: NDArray) -> None:
            out[0] = self.matrix.column(k, start, self.n)

        return self.pool.one(k, evaluate)

    def fetch_column(self) -> None:
        """Cache the column that `follow` needs."""
        self.cache_column(int(self.counters[WANTED]))

    def update_floor(self) -> None:
        """Set the round-off error of g from the size of its largest terms."""
        if self.n:
            size = float(self.alpha.sum()) * float(self.diag.max()) + abs(self.b) + float(np.abs(self.p).max())
            self.figures[FLOOR] = 16 * _EPS * size

    def violators(self) -> NDArray:
        """Return the learned variables that violate their KKT condition by more than round-off, or were left moving."""
        self.update_floor()
        tolerance = VIOLATION_FACTOR * self.figures[FLOOR]
        where, g = self.where, self.g
        wrong = ((where == AT_LOWER) & (g < -tolerance) & (self.u > 0)) | ((where == AT_UPPER) & (g > tolerance))
        return np.flatnonzero(wrong | (where == MOVING))

    # --- copies --------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return all parts that change, for `restore`; cached columns are not included."""
        m, counters = int(self.counters[COUNT]), self.counters.copy()
        counters[WANTED] = 0  # depends on what was cached, and on nothing that matters later
        return Snapshot(
            **{name: self._arrays[name][: self.n].copy() for name in ("alpha", "g", "p", "where")},
            members=self.members[:m].copy(),
            inverse=self.inverse[: m + 1, : m + 1].copy(),
            counters=counters,
            figures=self.figures.copy(),
            d=self.d,
        )

    def isolated_copy(self) -> Self:
        """Return an independent copy; Q is shared, and self is only read."""
        kept, other = self.snapshot(), type(self)(self.matrix, self.bordered)
        columns = self.pool.rows[self.member_slots[: len(kept.members)], : self.n]
        other._arrays = {name: array[: self.n].copy() for name, array in self._arrays.items()}
        other.gamma = np.zeros(self.n)
        other.pool.take(kept.members, columns, self.n)
        other.restore(kept)
        return other

    def restore(self, kept: Snapshot) -> None:
        """Return to the position of a `snapshot`; variables added since are removed."""
        members = kept.members
        m = len(members)
        self.n, self.d = len(kept.alpha), kept.d
        self._bind()
        for name in ("alpha", "g", "p", "where"):
            self._arrays[name][: self.n] = getattr(kept, name)
        self.counters[:], self.figures[:], self.waiting[:] = kept.counters, kept.figures, 0
        self.make_room()
        self.members[:m] = members
        self.inverse[: m + 1, : m + 1] = np.tril(kept.inverse)  # stored inverses may have both triangles
        # Ctrl-C may have left the cache half-way through a change: only the columns of the margin are kept.
        columns = np.array([self._column(int(k)) for k in members]).reshape(m, self.n)
        self.pool.take(members, columns, self.n, length=len(self.gamma))
        self.member_slots[:m] = np.arange(m)

    def _column(self, k: int) -> NDArray:
        """Return the first n entries of column k, from the cache if it has them."""
        cached = self.pool.cached_row(k, self.n)
        return self.matrix.column(k, 0, self.n) if cached is None else cached

    def keep(self, variables: NDArray) -> None:
        """Remove all variables but these, which are sorted; they are renumbered 0, 1, 2, …"""
        m = int(self.counters[COUNT])
        self.pool.keep(variables, self.margin)
        for name, array in self._arrays.items():
            self._arrays[name] = array[: self.n][variables]
        self.members[:m] = np.searchsorted(variables, self.margin)
        self.member_slots[:m] = np.arange(m)
        self.n = len(variables)
        self.gamma = np.zeros(self.n)
        self._bind()

    def pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Return all that later bits depend on; cached columns of other than margin points are dropped first."""
        self.pool.evict(self.margin, 0)
        kept = self.snapshot()
        arrays = {name: getattr(kept, name) for name in _PACKED}
        arrays |= {name: getattr(self, name).copy() for name in ("e", "u", "diag")}
        arrays["columns"] = self.pool.rows[self.member_slots[: len(kept.members)], : self.n]
        return arrays, {"d": self.d}

    def __getstate__(self) -> dict[str, Any]:
        # A pickled view of `_arrays` would become a separate array, and arrays of a memory map are read-only.
        arrays, facts = self.pack()
        own = {name: value for name, value in self.__dict__.items() if name in ("matrix", "bordered", "has_fallback")}
        return own | {"arrays": arrays, "facts": facts}

    def __setstate__(self, state: dict[str, Any]) -> None:
        arrays, facts = state.pop("arrays"), state.pop("facts")
        State.__init__(self, state["matrix"], state["bordered"])
        self.__dict__.update(state)
        self.unpack(arrays, facts)

    def unpack(self, arrays: Mapping[str, NDArray], facts: Mapping[str, Any]) -> None:
        """Take over the state of the engine that was packed.

        Raises
        ------
        KeyError, ValueError
            An array is missing or is not what `pack` would have made: compiled code relies on it.
        """
        kept = Snapshot(**{name: arrays[name] for name in _PACKED}, d=float(facts["d"]))
        n, m = len(kept.alpha), len(kept.members)
        kept.check(n)
        e, u, diag = (stored_array(arrays, name, "f8", (n,)) for name in ("e", "u", "diag"))
        columns = stored_array(arrays, "columns", "f8", (m, n))
        # Round-off may have left coefficients slightly beyond their bounds; the reader of `Stream` checks the optimum.
        slack = 1e-9 * float(np.abs(kept.alpha).max(initial=0.0)) + 1e-12 * np.where(np.isfinite(u), u, 0.0)
        high = np.where(kept.where == PENDING, 0.0, u)
        if not ((kept.alpha >= -slack).all() and (kept.alpha <= high + slack).all()):
            raise ValueError("its coefficients are not within their bounds")
        known = {"e": e, "u": u, "diag": diag, "alpha": kept.alpha, "g": kept.g, "p": kept.p, "where": kept.where}
        self._arrays = {name: array.copy() for name, array in known.items()}
        self.gamma = np.zeros(n)
        self.pool.take(kept.members, columns, n)
        self.restore(kept)
