"""Ids of points in a stream: whole numbers, or names of any other hashable kind that stand for such numbers.

A stream numbers its points. In a model whose caller names them, `PointNames` holds the names of the remembered points.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError


@dataclass
class PointNames:
    """The names of points, in both directions."""

    number_of: dict[Hashable, int] = field(default_factory=dict)  # the number of each name
    name_of: dict[int, Hashable] = field(default_factory=dict)  # the name of each number

    def add(self, names: Iterable[Hashable], numbers: NDArray) -> None:
        """Name new points."""
        for name, number in zip(names, numbers.tolist(), strict=True):
            self.number_of[name], self.name_of[number] = number, name

    def keep(self, numbers: NDArray) -> None:
        """Remove the names of all points but these."""
        if len(numbers) < len(self.name_of):
            for number in set(self.name_of).difference(numbers.tolist()):
                del self.number_of[self.name_of.pop(number)]

    def numbers(self, names: list[Hashable]) -> NDArray:
        """Return the numbers of names; `ProblemError` for an unknown name."""
        if unknown := [name for name in names if name not in self.number_of]:
            raise ProblemError(f"ids: {unknown[:5]} are not remembered; see ids_")
        return np.array([self.number_of[name] for name in names], dtype=np.int64)

    def names(self, numbers: NDArray) -> NDArray:
        """Return the names of points, as an array of objects."""
        return objects([self.name_of[number] for number in numbers.tolist()])


def objects(values: list[Any]) -> NDArray:
    """Return an array of objects, shape (n,), whatever the values are."""
    array = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):
        array[k] = value
    return array


def as_names(ids: Any, numbers_too: bool = False) -> list[Hashable] | None:
    """Return ids as a list of hashable values, each of which occurs once; None if all are whole numbers.

    With ``numbers_too`` whole numbers are names like others: a caller's names may be of several kinds.
    A single id need not be in a list. `ProblemError` for floats, bools and None, which are no ids, and for values that
    are not hashable.
    """
    if isinstance(ids, (str, bytes)) or not (hasattr(ids, "__iter__") or hasattr(ids, "__array__")):
        ids = [ids]
    if isinstance(ids, np.ndarray) and ids.dtype.kind in "iu" and not numbers_too:
        return None
    listed: list[Any] = ids.tolist() if hasattr(ids, "tolist") else list(ids)
    if not isinstance(listed, list):  # of an array without dimensions
        listed = [listed]
    listed = [one.item() if isinstance(one, np.generic) else one for one in listed]  # equal values, of plain types
    if not numbers_too and all(isinstance(one, Integral) and not isinstance(one, (bool, np.bool_)) for one in listed):
        return None
    for one in listed:
        is_number = isinstance(one, (float, np.floating, bool, np.bool_))
        if one is None or is_number or not isinstance(one, Hashable):
            raise ProblemError(f"ids must be whole numbers or other hashable values, such as text; found {one!r}")
    try:
        distinct = len(set(listed))
    except TypeError as error:  # a tuple that holds a list
        raise ProblemError(f"ids must be hashable: {error}") from None
    if distinct < len(listed):
        raise ProblemError("ids holds an id twice; every point has its own")
    return listed


def as_ids(ids: ArrayLike) -> NDArray:
    """Return ids as whole numbers, shape (n,); `ProblemError` for anything else, and for an id that occurs twice."""
    numbers = np.atleast_1d(np.asarray(ids))
    if numbers.dtype.kind == "O" and as_names(numbers) is None:
        _check_range(numbers)
        numbers = numbers.astype(np.int64)
    if numbers.ndim != 1 or (numbers.size and numbers.dtype.kind not in "iu"):
        raise ProblemError(
            f"ids must be whole numbers, one a point; found shape {numbers.shape}, dtype {numbers.dtype}"
        )
    _check_range(numbers)
    numbers = numbers.astype(np.int64)
    if len(numbers) > 1 and len(np.unique(numbers)) != len(numbers):
        raise ProblemError("ids holds an id twice; every point has its own")
    return numbers


def _check_range(numbers: NDArray) -> None:
    """Raise `ProblemError` unless whole numbers fit into 64 bits."""
    if numbers.size and not np.iinfo(np.int64).min <= int(numbers.min()) <= int(numbers.max()) < 2**63:
        raise ProblemError("ids: whole numbers of 2**63 and more are too large; give them as text")


def new_ids(ids: ArrayLike | None, n: int, next_id: int, known: NDArray | None) -> NDArray:
    """Return the ids of n new points: ``ids``, none of which may be ``known``, or the next n from ``next_id`` on."""
    if ids is None:
        return next_id + np.arange(n, dtype=np.int64)
    numbers = as_ids(ids)
    if len(numbers) != n:
        raise ProblemError(f"ids has {len(numbers)} entries for {n} points")
    if (numbers < 0).any():
        raise ProblemError(f"ids must be ≥ 0, found {numbers.min()}")
    if known is not None and (repeated := np.intersect1d(numbers, known)).size:
        raise ProblemError(f"ids: {repeated[:5].tolist()} are remembered already; forget them first, or give others")
    return numbers


def check_new_names(names: list[Hashable], n: int, known: PointNames | None) -> None:
    """Raise `ProblemError` unless there are n names, none of which is ``known``."""
    if len(names) != n:
        raise ProblemError(f"ids has {len(names)} entries for {n} points")
    if known is not None and (repeated := [name for name in names if name in known.number_of]):
        raise ProblemError(f"ids: {repeated[:5]} are remembered already; forget them first, or give others")
