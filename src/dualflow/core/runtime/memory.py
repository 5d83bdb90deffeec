"""Memory: checks before large allocations, and an arena that reuses the memory of large arrays.

The checks raise an error if an array cannot fit into the machine's memory: a system that overcommits would kill the
process instead.

The arena keeps memory for later arrays (`arena_array`, `take`), because the system clears new memory at the first write
to it. On machines that return free memory to their host, as most clouds do, this takes longer than a fit of some
thousand points. `submatrix` copies some rows and columns of a matrix into such memory.
"""

from __future__ import annotations

import os
import sys
import threading
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import ProblemError
from .._radial import aligned, gather
from .threads import in_child

#: File in which Linux gives the memory limit of the process's group, such as a container: a number of bytes, or "max".
_GROUP = "/sys/fs/cgroup/memory.max"

#: `check_block` allows any block of up to this many bytes.
MIN_BYTES_CHECKED = 1 << 26


def check_memory(n: int, what: str, matrices: int) -> None:
    """Raise an error if this number of n × n matrices of float64 cannot fit into this machine's memory together.

    Raises
    ------
    ProblemError
        They cannot; the message gives their size, the machine's memory, and a method that needs less.
    """
    available, wanted = memory_bytes(), matrices * 8 * n * n
    if available is not None and wanted > available:
        raise ProblemError(
            f"{what} of n={n} takes {wanted / 1e9:.3g} GB while it is made, and this machine has "
            f"{available / 1e9:.3g} GB; take fewer points, or solver='working-set', which needs rows only"
        )


def fits_easily(n: int, matrices: int) -> bool:
    """Whether this number of n × n matrices of float64 takes at most half of this machine's memory."""
    available = memory_bytes()
    return available is None or matrices * 8 * n * n <= available // 2


def check_block(height: int, width: int, dtype: type) -> None:
    """Raise an error if the kernel values of ``height`` points with ``width`` others cannot fit into memory.

    Raises
    ------
    ProblemError
        They cannot; the message gives their size, the machine's memory, and a method that needs less.
    """
    available, wanted = memory_bytes(), np.dtype(dtype).itemsize * height * width
    if available is not None and wanted > max(available, MIN_BYTES_CHECKED):
        raise ProblemError(
            f"kernel values of {height} points with {width} take {wanted / 1e9:.3g} GB, and this machine has "
            f"{available / 1e9:.3g} GB; ask for fewer at a time, or for their sums: matvec(), expand()"
        )


def check_factor(n: int, columns: int) -> None:
    """Raise an error if a factor of shape (n, columns), a scaled copy and its features cannot fit into memory together.

    Raises
    ------
    ProblemError
        They cannot; the message gives their size, the machine's memory, and what needs less.
    """
    available, wanted = memory_bytes(), 3 * 8 * n * columns
    if available is not None and wanted > available:
        raise ProblemError(
            f"a factor of {n} rows and {columns} columns takes {wanted / 1e9:.3g} GB while it is used, and this "
            f"machine has {available / 1e9:.3g} GB; take fewer points or features, or solver='working-set'"
        )


@cache
def memory_bytes() -> int | None:
    """Return the memory of this machine, or of the container it runs in, in bytes; None if it is not known."""
    try:
        available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
    try:
        with open(_GROUP, encoding="ascii") as file:
            available = min(available, int(file.read()))
    except (OSError, ValueError):
        pass
    return available if available > 0 else None


def bound_of(available: int | None) -> int:
    """Return the bytes that the arena may keep on a machine with this memory: a sixteenth, from 256 MB to 1 GB."""
    return min(1 << 30, max(1 << 28, (available or 0) // 16))


#: The arena keeps at most this many bytes. A larger array is allocated and freed.
MAX_BYTES_KEPT = bound_of(memory_bytes())
#: Arrays of fewer bytes come from the allocator, which reuses small memory itself.
MIN_BYTES_KEPT = 1 << 17
#: Memory of more than this many times the requested size is left for larger arrays.
MAX_SIZE_RATIO = 4
#: A new allocation is at most this many bytes larger than requested, so that a slightly larger array can reuse it.
MAX_BYTES_SLACK = 1 << 20
#: Bytes of a cache line.
LINE_BYTES = 64

_lock = threading.Lock()
#: The kept memory, most recently used last. An array to which only this list refers is free: views of it, and views of
#: views, hold a reference to it.
_kept: list[NDArray] = []
_probe = [np.empty(0)]


#: Reference count of an array to which one list refers.
_FREE_REFERENCES = sys.getrefcount(_probe[0])
#: Whether reference counts show if memory is in use: not in an interpreter without the global lock.
_COUNTS_REFERENCES = bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def arena_array(shape: tuple[int, ...], dtype: Any) -> NDArray:
    """Return an array with arbitrary entries. Its memory is reused for others when no view of it is left."""
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize
    if not MIN_BYTES_KEPT <= size <= MAX_BYTES_KEPT or not _COUNTS_REFERENCES:
        fresh: NDArray = aligned(shape, kind.type)
        return fresh
    with _lock:
        memory = _free(size)
        if memory is None:
            memory = _fresh(size + _slack(size))
            if _make_room(memory.nbytes):
                _kept.append(memory)
        else:
            _kept.append(memory)
    start = -memory.__array_interface__["data"][0] % LINE_BYTES  # loads of vectors across two lines take twice as long
    array: NDArray = memory[start : start + size].view(kind).reshape(shape)
    return array


def take(size: int) -> NDArray:
    """Return ``size`` bytes, and at least `LINE_BYTES` more, for the caller alone: the arena does not refer to them.

    The caller may return them by `give_back`. Since it may keep them for long, they are not much more than requested.
    """
    with _lock:
        memory = _free(size, close=True)
    return _fresh(size) if memory is None else memory


def give_back(memory: NDArray, is_ending: Any = sys.is_finalizing) -> None:
    """Return memory from `take` to the arena; there must be no other reference to it.

    It never waits, since the garbage collector may call it anywhere: if the arena is locked, the memory is freed.
    """
    if is_ending() or not _COUNTS_REFERENCES or not _lock.acquire(blocking=False):
        return
    try:
        if memory.nbytes <= MAX_BYTES_KEPT and _make_room(memory.nbytes):
            _kept.append(memory)
    finally:
        _lock.release()


def release_memory() -> None:
    """Free the memory that the process keeps for the next fit and that is not in use.

    It is at most a sixteenth of the machine's memory, from 256 MB to 1 GB.

    Examples
    --------
    >>> from dualflow import release_memory
    >>> release_memory()
    """
    with _lock:
        _kept[:] = [_kept[k] for k in range(len(_kept)) if not _is_free(k)]


@in_child
def _forget() -> None:
    """Empty the arena in a forked child: another thread may have held the lock or been changing the list."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


def _fresh(size: int) -> NDArray:
    """Return ``size`` bytes of new memory, and a cache line more."""
    return np.empty(size + LINE_BYTES, dtype=np.uint8)


def _is_free(k: int) -> bool:
    """Whether only the list of the arena refers to memory k."""
    return sys.getrefcount(_kept[k]) <= _FREE_REFERENCES


def _free(size: int, close: bool = False) -> NDArray | None:
    """Remove the smallest free memory that is large enough from the arena, and return it; None if there is none.

    With ``close`` it is not much larger. Memory that was allocated for this size comes first, the least recently used:
    a fit that repeats another one then has the same memory for each array, whose pages have been written to.
    """
    least, best = size + LINE_BYTES, -1
    own, most = least + _slack(size), least + (_slack(size) if close else (MAX_SIZE_RATIO - 1) * size)
    for k in range(len(_kept)):
        found = _kept[k].nbytes
        if least <= found and (found <= most or found == own) and _is_free(k):
            best, most = k, found - 1
            if found == own:
                break
    return None if best < 0 else _kept.pop(best)


def _slack(size: int) -> int:
    """Return the bytes that are allocated beyond ``size``."""
    return min(size // 8, MAX_BYTES_SLACK)


def _make_room(size: int) -> bool:
    """Free memory, least recently used first, until ``size`` more bytes are within the limit; return if they are."""
    k = 0
    while k < len(_kept) and sum(memory.nbytes for memory in _kept) + size > MAX_BYTES_KEPT:
        if _is_free(k):
            del _kept[k]
        else:
            k += 1
    return sum(memory.nbytes for memory in _kept) + size <= MAX_BYTES_KEPT


def submatrix(
    matrix: NDArray, rows: NDArray, columns: NDArray, dtype: Any = None, out: NDArray | None = None
) -> NDArray:
    """Return ``matrix[np.ix_(rows, columns)]`` of a float32 or float64 matrix, in ``out`` or in memory of the arena.

    This takes a third of the time, or less if the system's memory is slow. ``dtype`` converts the result, but not
    ``out``.
    """
    part: NDArray | None = None
    if matrix.flags.c_contiguous:
        part = arena_array((len(rows), len(columns)), matrix.dtype) if out is None else out
        try:
            gather(matrix, *(np.ascontiguousarray(J, dtype=np.int64) for J in (rows, columns)), part)
        except IndexError:  # NumPy accepts negative indices, and has its own message for others
            part = None
    if part is None:
        part = matrix[np.ix_(rows, columns)]
        if out is not None:
            out[:] = part
            part = out
    return part if dtype is None else part.astype(dtype, copy=False)
