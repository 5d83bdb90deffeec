"""The machine: what ran where, and one thread for all of it."""

from __future__ import annotations

import importlib.metadata
import os
import platform

from threadpoolctl import threadpool_info, threadpool_limits

import dualflow

#: What circuits run on.
QUANTUM = ("qiskit", "qiskit-aer", "pennylane-lightning")


def machine(*packages: str) -> str:
    """Versions, of ``packages`` too, and processors."""
    names = ("numpy", "scipy", "scikit-learn", *packages)
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
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
