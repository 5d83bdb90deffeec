"""Memory that is asked for before it is taken: a system that overcommits kills the process rather than refuse.

Large arrays to work in, from memory that the process keeps.

Memory that is mapped anew has to be cleared by the system when it is first written to. On machines that give free
memory back, most clouds' among them, that takes longer than a fit of some thousand points.

Parts of large matrices: some rows and columns of what is there.
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

__all__ = [
    "BOUND",
    "LINE",
    "borrowed",
    "bound_of",
    "check_block",
    "check_memory",
    "give_back",
    "memory_bytes",
    "picked",
    "release_memory",
    "take",
]


#: Where Linux tells the limit of the group a process is in, a container's say: a number of bytes, or "max".
_GROUP = "/sys/fs/cgroup/memory.max"

#: Bytes that are never refused.
SMALL = 1 << 26


def check_memory(n: int, what: str, matrices: int) -> None:
    """Refuse so many n × n matrices of float64 at once, if they cannot fit into this machine's memory.

    Raises
    ------
    ProblemError
        They cannot; says how much they would take, how much there is, and what needs less.
    """
    there, wanted = memory_bytes(), matrices * 8 * n * n
    if there is not None and wanted > there:
        raise ProblemError(
            f"{what} of n={n} takes {wanted / 1e9:.3g} GB while it is made, and this machine has {there / 1e9:.3g} GB; "
            "take fewer points, or solver='working-set', which needs rows only"
        )


def check_block(height: int, width: int, dtype: type) -> None:
    """Refuse kernel values of so many points with so many others, if they cannot fit into this machine's memory.

    Raises
    ------
    ProblemError
        They cannot; says how much they would take, how much there is, and what needs less.
    """
    there, wanted = memory_bytes(), np.dtype(dtype).itemsize * height * width
    if there is not None and wanted > max(there, SMALL):
        raise ProblemError(
            f"kernel values of {height} points with {width} take {wanted / 1e9:.3g} GB, and this machine has "
            f"{there / 1e9:.3g} GB; ask for fewer at a time, or for their sums: matvec(), expand()"
        )


@cache
def memory_bytes() -> int | None:
    """Memory of this machine, or of the container it runs in; None where that is not known."""
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
    try:
        with open(_GROUP, encoding="ascii") as file:
            there = min(there, int(file.read()))
    except (OSError, ValueError):
        pass
    return there if there > 0 else None


def bound_of(there: int | None) -> int:
    """What the process may keep on a machine of so much memory, in bytes: a sixteenth, from 256 MB to 1 GB."""
    return min(1 << 30, max(1 << 28, (there or 0) // 16))


#: Bytes the process keeps, at most; what alone would take more is taken and given back.
BOUND = bound_of(memory_bytes())
#: Bytes below which the allocator has its own.
LEAST = 1 << 17
#: Larger memory than this many times what is asked for is left for those who need it.
ROOMY = 4
#: Bytes beyond what is asked for, at most, so that the next one who needs a little more finds them too.
SLACK = 1 << 20
#: Bytes of a cache line.
LINE = 64

_lock = threading.Lock()
#: What is kept, those used last at the end. An array that nobody but this list refers to is free: views of it, at any
#: remove, hold on to it.
_kept: list[NDArray] = []
_probe = [np.empty(0)]


_ALONE = sys.getrefcount(_probe[0])
#: Whether a count of references says who has memory: without the lock of the interpreter it says little.
_COUNTS = bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def borrowed(shape: tuple[int, ...], dtype: Any) -> NDArray:
    """An array to work in, whose entries may be anything. Its memory is lent to the next when no view of it is left."""
    kind = np.dtype(dtype)
    size = prod(shape) * kind.itemsize
    if not LEAST <= size <= BOUND or not _COUNTS:
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
    start = -memory.__array_interface__["data"][0] % LINE  # vectors across two cache lines take twice as long
    array: NDArray = memory[start : start + size].view(kind).reshape(shape)
    return array


def take(size: int) -> NDArray:
    """So many bytes, and `LINE` more, for somebody to have as his own: nothing here refers to them. They come back by
    `give_back`, if at all, and what he may have for long is hardly larger than it has to be."""
    with _lock:
        memory = _free(size, close=True)
    return _fresh(size) if memory is None else memory


def give_back(memory: NDArray, is_ending: Any = sys.is_finalizing) -> None:
    """Keep memory that was taken, and that nobody else refers to, for the next who borrows or takes some.

    Never waits, for the garbage collector may call it anywhere: where others are at the list, the system has it back.
    """
    if is_ending() or not _COUNTS or not _lock.acquire(blocking=False):
        return
    try:
        if memory.nbytes <= BOUND and _make_room(memory.nbytes):
            _kept.append(memory)
    finally:
        _lock.release()


def release_memory() -> None:
    """Give back the memory that the process keeps for the next fit, as far as none is using it: at most a sixteenth of
    the machine's, from 256 MB to 1 GB.

    Examples
    --------
    >>> from dualflow import release_memory
    >>> release_memory()
    """
    with _lock:
        _kept[:] = [_kept[k] for k in range(len(_kept)) if not _is_free(k)]


@in_child
def _forget() -> None:
    """In a forked child: another thread may have held the lock, and have been about to change the list."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


def _fresh(size: int) -> NDArray:
    return np.empty(size + LINE, dtype=np.uint8)


def _is_free(k: int) -> bool:
    return sys.getrefcount(_kept[k]) <= _ALONE


def _free(size: int, close: bool = False) -> NDArray | None:
    """The smallest memory that is free and large enough, ``close`` not much larger, taken out of the list: first what
    was made for so many bytes, whose pages those who came before have been to."""
    least, best = size + LINE, -1
    own, most = least + _slack(size), least + (_slack(size) if close else (ROOMY - 1) * size)
    for k in range(len(_kept)):
        there = _kept[k].nbytes
        if least <= there and (there <= most or there == own) and _is_free(k):
            best, most = k, 0 if there == own else there - 1
    return None if best < 0 else _kept.pop(best)


def _slack(size: int) -> int:
    return min(size // 8, SLACK)


def _make_room(size: int) -> bool:
    """Let go what is free, that used longest ago first, until so many bytes are within the bound; whether they are."""
    k = 0
    while k < len(_kept) and sum(memory.nbytes for memory in _kept) + size > BOUND:
        if _is_free(k):
            del _kept[k]
        else:
            k += 1
    return sum(memory.nbytes for memory in _kept) + size <= BOUND


def picked(matrix: NDArray, rows: NDArray, columns: NDArray, dtype: Any = None) -> NDArray:
    """``matrix[np.ix_(rows, columns)]`` of a matrix of float32 or float64, in memory that the process keeps: a third of
    the time, and where the system's memory is slow, less. In another precision if ``dtype`` is one."""
    part: NDArray | None = None
    if matrix.flags.c_contiguous:
        part = borrowed((len(rows), len(columns)), matrix.dtype)
        try:
            gather(matrix, *(np.ascontiguousarray(J, dtype=np.int64) for J in (rows, columns)), part)
        except IndexError:  # −1 is the last one in NumPy, and what is not there has its message
            part = None
    if part is None:
        part = matrix[np.ix_(rows, columns)]
    return part if dtype is None else part.astype(dtype, copy=False)
