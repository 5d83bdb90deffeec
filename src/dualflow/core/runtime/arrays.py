"""Arrays that nobody can write to."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._sealed import Sealed

__all__ = [
    "AT_ONCE",
    "OURS",
    "Value",
    "filled",
    "immutable",
    "immutable_from",
    "immutable_parts",
    "immutable_rows",
    "in_parts",
    "packed",
    "unpacked",
]

#: What stands behind the numbers in a `bytes` that `immutable` made, and in no other.
OURS = os.urandom(16)
#: Bytes from which on memory is the arena's: what the allocator has back from these it may give back to the system.
LARGE = 1 << 20
#: Numbers that are copied at a time where they are made or converted first: they stay in the cache.
AT_ONCE = 1 << 15


def filled(shape: int | tuple[int, ...], value: float) -> NDArray:
    """What numpy.full makes, by fewer steps: those of a small fit are felt."""
    array = np.empty(shape)
    array.fill(value)
    return array


def immutable(array: ArrayLike, dtype: Any = float) -> NDArray:
    """A copy over memory that stays read-only: its owner is a `bytes` or, of large data, `Sealed`, so that
    ``flags.writeable`` can't be set."""
    if type(array) is np.ndarray and array.base is not None and array.dtype == dtype and _is_ours(array):
        return array.view()  # nobody can write to it; its shape, which can be set, is the view's own
    source = np.ascontiguousarray(array, dtype=dtype)
    if source.nbytes < LARGE:
        return np.frombuffer(b"".join((source.data, OURS)), dtype, source.size).reshape(source.shape)
    return _over((source.data,), source.nbytes, source.shape, dtype)


def immutable_rows(X: NDArray, J: NDArray | slice, dtype: Any = float) -> NDArray:
    """Rows J of a matrix, as `immutable` has them: without a copy of all of them in between, or any if they are all."""
    n = len(range(len(X))[J]) if isinstance(J, slice) else len(J)
    if n == len(X) and (isinstance(J, slice) or np.array_equal(J, np.arange(n))):
        return immutable(X, dtype)
    return immutable_parts((X[rows] for rows in in_parts(X, J)), (n, X.shape[1]), dtype)


def immutable_parts(parts: Iterable[NDArray], shape: tuple[int, ...], dtype: Any = float) -> NDArray:
    """Arrays one after another as one of a shape, as `immutable` has them."""
    flat = (np.ascontiguousarray(part, dtype=dtype).data for part in parts)
    return _over(flat, prod(shape) * np.dtype(dtype).itemsize, shape, dtype)


def immutable_from(owner: bytes, shape: tuple[int, ...], dtype: Any = float) -> NDArray:
    """An array, as `immutable` has them, over bytes that were made with `OURS` behind its numbers."""
    return np.frombuffer(owner, dtype, prod(shape)).reshape(shape)


def in_parts(X: NDArray, J: NDArray | slice) -> Iterator[NDArray | slice]:
    """Rows J of a matrix, so many at a time that a copy of them stays in the cache."""
    height = max(1, AT_ONCE // max(1, X.shape[1]))
    if not isinstance(J, slice):
        return (J[k : k + height] for k in range(0, len(J), height))
    start, stop, step = J.indices(len(X))
    return (slice(k, min(k + height * step, stop), step) for k in range(start, stop, height * step))


def _over(parts: Iterable[memoryview], size: int, shape: tuple[int, ...], dtype: Any) -> NDArray:
    """An array over a copy of contiguous parts, of so many bytes together."""
    owner: Any = b"".join((*parts, OURS)) if size < LARGE else Sealed(parts, size)
    # A view of it, whose base, which others can reach, is nobody's.
    return np.frombuffer(owner, dtype, prod(shape)).reshape(shape)


def _is_ours(array: NDArray) -> bool:
    """Whether an array is a whole one that `immutable` made: its memory ends in the mark, or is `Sealed`. That of an
    array out of a pickle is a `bytes` too, and can be written to."""
    base: Any = array.base
    owner: Any = base.base if type(base) is np.ndarray else None
    if type(owner) is bytes:
        ours = len(owner) == array.nbytes + len(OURS) and owner.endswith(OURS)
    else:
        ours = type(owner) is Sealed and owner.size == array.nbytes
    return ours and array.flags.c_contiguous


def packed(array: NDArray) -> Any:
    """An array as its pickle is smallest: its shape, where it is not 0 and what it is there, if that takes less."""
    flat = array.ravel()
    (at,) = flat.nonzero()
    at, values = at.astype(np.min_scalar_type(len(flat))), flat[at]
    return array if at.nbytes + values.nbytes >= array.nbytes else (array.shape, at, values)


def unpacked(kept: Any) -> NDArray:
    """That array again, read-only."""
    if not isinstance(kept, tuple):
        return immutable(kept, kept.dtype)
    shape, at, values = kept
    flat: NDArray = np.zeros(prod(shape), dtype=values.dtype)
    flat[at] = values
    return immutable(flat.reshape(shape), flat.dtype)


class Value:
    """Base of classes whose attributes are set once, by `_set`."""

    def _set(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a {type(self).__name__} is a value: {name} cannot be set; make another")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # NumPy's arrays come back from pickles and copies as writeable ones.
        self._set(**{name: immutable(v, v.dtype) if isinstance(v, np.ndarray) else v for name, v in state.items()})
