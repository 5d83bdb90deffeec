"""Read-only arrays: copies whose memory cannot be made writeable, and their pickles."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._sealed import Sealed

#: Follows the numbers in each `bytes` object that `immutable` makes, and in no other.
MARK = os.urandom(16)
#: Arrays of at least this many bytes come from the arena. The allocator may return freed memory of this size to the
#: system.
MIN_BYTES_ARENA = 1 << 20
#: Numbers copied or converted at a time, so that they stay in the cache.
PART_NUMBERS = 1 << 15


def filled(shape: int | tuple[int, ...], value: float) -> NDArray:
    """Return an array with all entries equal, as numpy.full, which takes a visible part of the time of a small fit."""
    array = np.empty(shape)
    array.fill(value)
    return array


def is_dask(X: Any) -> bool:
    """Return whether X is a dask array or dataframe, without importing dask."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


#: A constant vector of up to this many entries is cached, because its allocation is a visible part of the time of a
#: small fit.
MAX_ENTRIES_CACHED = 1 << 14


def constant(n: int, value: float) -> NDArray:
    """Return an `immutable` vector of n equal entries; short ones are cached."""
    return cached_constant(n, value) if n <= MAX_ENTRIES_CACHED else immutable(np.full(n, value))


@functools.lru_cache(maxsize=8)
def cached_constant(n: int, value: float) -> NDArray:
    """Return an `immutable` vector of n equal entries, which is cached."""
    return immutable(np.full(n, value))


def immutable(array: ArrayLike, dtype: Any = float) -> NDArray:
    """Return a copy whose memory stays read-only, or a view of an array that this function made.

    The memory belongs to a `bytes` object or, for large data, to `Sealed`, so that ``flags.writeable`` cannot be set.
    """
    if type(array) is np.ndarray and array.base is not None and array.dtype == dtype and _is_immutable(array):
        return array.view()  # a new object, since the shape of an array can be set
    source = np.ascontiguousarray(array, dtype=dtype)
    if source.nbytes < MIN_BYTES_ARENA:
        return np.frombuffer(b"".join((source.data, MARK)), dtype, source.size).reshape(source.shape)
    return _over((source.data,), source.nbytes, source.shape, dtype)


def immutable_rows(X: NDArray, J: NDArray | slice, dtype: Any = float) -> NDArray:
    """Return rows J of a matrix as an `immutable` array, copied a part at a time."""
    n = len(range(len(X))[J]) if isinstance(J, slice) else len(J)
    if n == len(X) and (isinstance(J, slice) or np.array_equal(J, np.arange(n))):
        return immutable(X, dtype)
    return immutable_parts((X[rows] for rows in in_parts(X, J)), (n, X.shape[1]), dtype)


def immutable_parts(parts: Iterable[NDArray], shape: tuple[int, ...], dtype: Any = float) -> NDArray:
    """Return an `immutable` array of this shape with the numbers of some arrays, one after another."""
    flat = (np.ascontiguousarray(part, dtype=dtype).data for part in parts)
    return _over(flat, prod(shape) * np.dtype(dtype).itemsize, shape, dtype)


def immutable_written(shape: tuple[int, ...], write: Callable[[NDArray], object], dtype: Any = float) -> NDArray:
    """Return an `immutable` array that ``write`` has filled: it is given the writeable array, and must not keep it."""
    size = prod(shape) * np.dtype(dtype).itemsize
    if size < MIN_BYTES_ARENA:
        written = np.empty(shape, dtype)
        write(written)
        return immutable(written, dtype)
    owner: Any = Sealed((), size, lambda memory: write(memory.view(dtype).reshape(shape)))
    return np.frombuffer(owner, dtype, prod(shape)).reshape(shape)


def immutable_from(owner: bytes, shape: tuple[int, ...], dtype: Any = float) -> NDArray:
    """Return an `immutable` array over bytes that hold its numbers followed by `MARK`; not copied."""
    return np.frombuffer(owner, dtype, prod(shape)).reshape(shape)


def in_parts(X: NDArray, J: NDArray | slice) -> Iterator[NDArray | slice]:
    """Return an iterator over parts of the rows J of a matrix, small enough that a copy stays in the cache."""
    height = max(1, PART_NUMBERS // max(1, X.shape[1]))
    if not isinstance(J, slice):
        return (J[k : k + height] for k in range(0, len(J), height))
    start, stop, step = J.indices(len(X))
    return (slice(k, min(k + height * step, stop), step) for k in range(start, stop, height * step))


def _over(parts: Iterable[memoryview], size: int, shape: tuple[int, ...], dtype: Any) -> NDArray:
    """Return a read-only array over a copy of contiguous parts, of ``size`` bytes together."""
    owner: Any = b"".join((*parts, MARK)) if size < MIN_BYTES_ARENA else Sealed(parts, size)
    # Reshaped, so that the array's base, which callers can reach and change, is an array that nothing else uses.
    return np.frombuffer(owner, dtype, prod(shape)).reshape(shape)


def _is_immutable(array: NDArray) -> bool:
    """Whether an array is one that `immutable` made, not a part: its memory ends in the mark, or is `Sealed`.

    The memory of an unpickled array is a `bytes` object too, but can be written to.
    """
    base: Any = array.base
    owner: Any = base.base if type(base) is np.ndarray else None
    if type(owner) is bytes:
        has_mark = len(owner) == array.nbytes + len(MARK) and owner.endswith(MARK)
    else:
        has_mark = type(owner) is Sealed and owner.size == array.nbytes
    return has_mark and array.flags.c_contiguous


def is_same_array(array: NDArray, other: NDArray | None) -> bool:
    """Whether two arrays have the same dtype, shape and entries."""
    return array is other or (other is not None and array.dtype == other.dtype and np.array_equal(array, other))


def has_same_bits(X: NDArray, other: NDArray) -> bool:
    """Whether two contiguous matrices of float64 have the same shape and bits; read up to the first difference."""
    if X.shape != other.shape:
        return False
    words, others = X.view(np.uint64), other.view(np.uint64)
    return all(np.array_equal(words[rows], others[rows]) for rows in in_parts(X, slice(None)))


def packed(array: NDArray) -> Any:
    """Return an array, or a tuple of fewer bytes, for a pickle.

    The tuple has the shape, the places that are not 0 (as numbers or as bits), and their values (all, or the distinct
    ones and the index of each: multipliers at their bound are equal).
    """
    flat = array.ravel()
    (at,) = flat.nonzero()
    places, bits, values = at.astype(np.min_scalar_type(len(flat))), np.packbits(flat != 0), flat[at]
    distinct, codes = np.unique(values, return_inverse=True)
    codes = codes.astype(np.min_scalar_type(len(distinct)))
    kept = (distinct, codes) if distinct.nbytes + codes.nbytes < values.nbytes else (values, None)
    are_bits = bits.nbytes < places.nbytes
    small = (array.shape, are_bits, bits if are_bits else places, *kept)
    return small if sum(a.nbytes for a in small[2:] if a is not None) < array.nbytes else array


def unpacked(kept: Any) -> NDArray:
    """Return the array that was `packed`, read-only."""
    if not isinstance(kept, tuple):
        return immutable(kept, kept.dtype)
    shape, are_bits, places, values, codes = kept
    flat: NDArray = np.zeros(prod(shape), dtype=values.dtype)
    at = np.unpackbits(places, count=len(flat)).astype(bool) if are_bits else places
    flat[at] = values if codes is None else values[codes]
    return immutable(flat.reshape(shape), flat.dtype)


class Value:
    """Base class of immutable objects; constructors set their attributes by `_set`."""

    def _set(self, **values: Any) -> None:
        """Set attributes; for constructors alone."""
        self.__dict__.update(values)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a {type(self).__name__} is a value: {name} cannot be set; make another one")

    __delattr__ = __setattr__  # type: ignore[assignment]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Unpickled and copied arrays are writeable.
        self._set(**{name: immutable(v, v.dtype) if isinstance(v, np.ndarray) else v for name, v in state.items()})
