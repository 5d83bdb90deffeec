"""Memory that is asked for before it is taken: a system that overcommits kills the process rather than refuse."""

from __future__ import annotations

import os
from functools import cache

import numpy as np

from ..exceptions import ProblemError

__all__ = ["check_block", "check_memory", "memory_bytes"]

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
