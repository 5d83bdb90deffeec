"""The machine: what ran where, what it spent, and one thread for all of it."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from threadpoolctl import threadpool_info, threadpool_limits

import dualflow

try:
    import resource
except ImportError:  # Windows: walls have clocks there, processes have not
    resource = None  # type: ignore[assignment]

#: Named where they are installed.
PEERS = ("scikit-learn-intelex", "thundersvm-cpu", "qpsolvers")
#: What circuits run on.
QUANTUM = ("qiskit", "qiskit-aer", "pennylane-lightning")


def machine(*packages: str) -> str:
    """Versions, of ``packages`` too, and processors."""
    names = ("numpy", "scipy", "scikit-learn", *packages)
    peers = {found.name for found in importlib.metadata.distributions()}.intersection(PEERS)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in (*names, *sorted(peers)))
    blas = ", ".join(sorted({f"{info['internal_api']} {info['version']}" for info in threadpool_info()}))
    python = f"Python {platform.python_version()}, {os.cpu_count()} processors"
    openmp = os.environ.get("OMP_NUM_THREADS", "not set")
    return f"dualflow {dualflow.__version__}, {versions}, {blas}, {python}, OMP_NUM_THREADS {openmp}"


def one_thread() -> None:
    """One thread for BLAS, Aer and Lightning: what a library starts with is asked when it is loaded, so load them."""
    import pennylane
    import qiskit_aer

    qiskit_aer.AerSimulator()
    pennylane.device("lightning.qubit", wires=1)
    threadpool_limits(limits=1)


@dataclass
class Spent:
    """What a piece of work took; None where the system does not say.

    Attributes
    ----------
    wall_s : float
    user_s, system_s : float or None
        Of all threads. Linux tells the two apart by what its ticks find, some hundred a second: for a millisecond their
        sum is known, and the parts are a guess.
    fresh_mb : float or None
        Minor page faults times the page size: memory that had to be mapped. Where pages are huge it is more.
    """

    wall_s: float = 0.0
    user_s: float | None = None
    system_s: float | None = None
    fresh_mb: float | None = None


@contextlib.contextmanager
def spending() -> Iterator[Spent]:
    """What the body takes, known when it has ended."""
    spent = Spent()
    before = resource and resource.getrusage(resource.RUSAGE_SELF)
    begun = time.perf_counter()
    yield spent
    spent.wall_s = time.perf_counter() - begun
    if resource:
        after = resource.getrusage(resource.RUSAGE_SELF)
        spent.user_s, spent.system_s = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime
        spent.fresh_mb = (after.ru_minflt - before.ru_minflt) * resource.getpagesize() / 1e6


def peak_memory_mb() -> float | None:
    """The most memory that this process has had, so far."""
    if resource is None:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
