"""BLAS on one thread while systems are small."""

from __future__ import annotations

import contextlib

from .core.threads import ONE_THREAD

__all__ = ["SMALL", "blas_for"]

#: Variables up to which more threads cost more than they bring: numpy and scipy bring a pool each, and on a busy
#: machine these wait for one another (30 × slower fits).
SMALL = 2000


def blas_for(n: int) -> contextlib.AbstractContextManager[None]:
    """The context to solve a problem of n variables in."""
    return ONE_THREAD if n <= SMALL else contextlib.nullcontext()
