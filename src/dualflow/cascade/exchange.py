"""What the parts of a cascade and its client exchange: points as packed rows, and the bytes of a message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .model import Members

#: Numbers of a block of rows whose columns are examined at a time, 1 MB.
NUMBERS_PER_BLOCK = 1 << 17
#: Largest number of a column that is sent in one byte.
MAX_BYTE = 255.0


@dataclass(frozen=True)
class Columns:
    """How the columns of a part's rows may be packed."""

    #: low, high: least and largest number of each column; ∞ and −∞ without rows; shape (m,).
    low: NDArray
    high: NDArray
    two: NDArray  # whether a column holds these two numbers only; bool array of shape (m,)
    #: byte, single: whether all its numbers are whole and from 0 to 255, and whether float32 holds them exactly; bool
    #: arrays of shape (m,).
    byte: NDArray
    single: NDArray


def columns_of(X: NDArray) -> Columns:
    """Return how the columns of a part may be packed."""
    m = X.shape[1]
    low, high = X.min(axis=0, initial=np.inf), X.max(axis=0, initial=-np.inf)
    two, byte, single = np.ones(m, dtype=bool), (low >= 0) & (high <= MAX_BYTE), np.ones(m, dtype=bool)
    height = max(1, NUMBERS_PER_BLOCK // max(1, m))
    for start in range(0, len(X), height):
        J = np.flatnonzero(two | byte | single)
        if not len(J):
            break
        block = X[start : start + height] if len(J) == m else X[start : start + height, J]
        two[J] &= ((block == low[J]) | (block == high[J])).all(axis=0)
        with np.errstate(over="ignore"):
            single[J] &= (block == block.astype(np.float32)).all(axis=0)
        byte[J] &= (block == np.floor(block)).all(axis=0)
    return Columns(low, high, two, byte, single)


@dataclass(frozen=True)
class Packing:
    """Rows of points as bytes, without loss.

    One-hot columns take a bit each, other numbers one, four or eight bytes.
    """

    #: low, high: the two numbers of each column in ``bits``.
    low: NDArray
    high: NDArray
    #: bits, byte, single, double: the columns that take a bit, one byte, four and eight bytes; int arrays.
    bits: NDArray
    byte: NDArray
    single: NDArray
    double: NDArray

    @classmethod
    def of(cls, parts: list[Columns]) -> Packing:
        """Return the packing that suits all parts; without any, no column is packed."""
        if not parts:
            return cls(*(np.empty(0), np.empty(0)), *(np.empty(0, dtype=np.intp) for _ in range(4)))
        low, high = np.min([one.low for one in parts], axis=0), np.max([one.high for one in parts], axis=0)
        ends = [((one.low == low) | (one.low == high)) & ((one.high == low) | (one.high == high)) for one in parts]
        two = np.logical_and.reduce([*ends, *(one.two for one in parts)])
        byte = np.logical_and.reduce([one.byte for one in parts]) & ~two
        single = np.logical_and.reduce([one.single for one in parts]) & ~two & ~byte
        bits, *others = (np.flatnonzero(kind) for kind in (two, byte, single, ~(two | byte | single)))
        return cls(low[bits], high[bits], bits, *others)

    @property
    def _ends(self) -> list[int]:
        """Where the bits, bytes, float32 and float64 numbers of a row end."""
        widths = (-(-len(self.bits) // 8), len(self.byte), 4 * len(self.single), 8 * len(self.double))
        return np.cumsum(widths).tolist()

    def pack(self, X: NDArray) -> NDArray:
        """Return points of shape (k, m) as bytes, shape (k, bytes of a row)."""
        packed = [np.packbits(X[:, self.bits] != self.low, axis=1), X[:, self.byte].astype(np.uint8)]
        for columns, dtype in ((self.single, "f4"), (self.double, "f8")):
            numbers = np.ascontiguousarray(X[:, columns], dtype=dtype)
            packed.append(numbers.view(np.uint8).reshape(len(X), numbers.itemsize * len(columns)))
        return np.concatenate(packed, axis=1)

    def unpack(self, rows: NDArray) -> NDArray:
        """Return the points of packed rows, shape (k, m), in float64."""
        at = self._ends
        X = np.empty((len(rows), sum(map(len, (self.bits, self.byte, self.single, self.double)))))
        X[:, self.bits] = np.where(np.unpackbits(rows[:, : at[0]], axis=1, count=len(self.bits)), self.high, self.low)
        X[:, self.byte] = rows[:, at[0] : at[1]]
        for columns, dtype, own in ((self.single, "f4", rows[:, at[1] : at[2]]), (self.double, "f8", rows[:, at[2] :])):
            numbers = np.empty((len(rows), len(columns)), dtype=dtype)
            numbers.reshape(-1).view(np.uint8)[:] = own.reshape(-1)
            X[:, columns] = numbers
        return X


@dataclass(frozen=True)
class Lent:
    """Packed rows most of which are in the matrix of another pool, so that there is one copy of them.

    Row k is row ``at[k]`` of ``lender``, or row −1 − ``at[k]`` of ``rest`` if that is negative.
    """

    lender: NDArray
    rest: NDArray
    at: NDArray

    @property
    def shape(self) -> tuple[int, int]:
        """That of the rows."""
        return len(self.at), self.lender.shape[1]

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, J: NDArray) -> NDArray:
        at = self.at[J]
        is_lent, found = at >= 0, np.empty((len(at), self.shape[1]), dtype=np.uint8)
        found[is_lent], found[~is_lent] = self.lender[at[is_lent]], self.rest[-1 - at[~is_lent]]
        return found


@dataclass(frozen=True)
class Survivors:
    """Points that are exchanged, as arrays of one length: their part and row there, their data and multipliers.

    ``packed`` has their coordinates, as `Packing` packs them; ``target`` is that of `Members`. A multiplier is α of the
    point's variable, or α − α* of its two.
    """

    part: NDArray
    row: NDArray
    packed: NDArray | Lent
    target: NDArray
    weight: NDArray
    alpha: NDArray

    def __len__(self) -> int:
        return len(self.row)

    def take(self, J: NDArray) -> Survivors:
        """Return some of the points."""
        return Survivors(*(getattr(self, one.name)[J] for one in fields(self)))

    @classmethod
    def of(cls, number: int, members: Members, J: NDArray, packing: Packing, alpha: NDArray | None = None) -> Survivors:
        """Return points J of a part's members."""
        part, row = np.full(len(J), number, dtype=np.int32), members.row[J].astype(np.int32)
        target = members.target[J].astype(np.int8 if members.has_labels else float)
        alpha = np.zeros(len(J)) if alpha is None else alpha[J]
        return cls(part, row, packing.pack(members.X[J]), target, members.weight[J], alpha)

    def followed(self, idle: NDArray, invaders: Survivors) -> tuple[Survivors, Survivors]:
        """Return the points of the next round, by row, so that the order of arrival does not matter, and these ones.

        Rows ``idle`` leave, ``invaders`` join. These points have the memory of those that stay from the next ones.
        """
        stays = ~np.isin(self.row, idle)
        if stays.all() and not len(invaders):
            return self, self
        of, J = np.concatenate([self.row, invaders.row]), np.flatnonzero(np.append(stays, np.ones(len(invaders), bool)))
        J = J[np.argsort(of[J], kind="stable")]
        following = Survivors(
            *(np.concatenate([getattr(self, one.name), getattr(invaders, one.name)])[J] for one in fields(self))
        )
        at = np.empty(len(self), dtype=np.int32)
        at[~stays] = -1 - np.arange(np.count_nonzero(~stays))
        own = np.less(J, len(self))
        at[J[own]] = np.flatnonzero(own)
        return following, replace(self, packed=Lent(np.asarray(following.packed), self.packed[~stays], at))


def rows_of(parts: Sequence[NDArray | Lent], J: NDArray) -> NDArray:
    """Return rows J of some packed matrices, counted through them, without joining all rows."""
    starts = np.cumsum([0, *map(len, parts)])
    of = np.searchsorted(starts, J, side="right") - 1
    found = np.empty((len(J), parts[0].shape[1]), dtype=np.uint8)
    for k in np.unique(of):
        own = of == k
        found[own] = parts[k][J[own] - starts[k]]
    return found


def nbytes(value: Any) -> int:
    """Return the bytes of the arrays in a value."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if is_dataclass(value) and not isinstance(value, type):
        return sum(nbytes(getattr(value, f.name)) for f in fields(value))
    return sum(map(nbytes, value)) if isinstance(value, (list, tuple)) else 0
