"""Processes that begin at once, with one thread: forked from a server that has imported all they need."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running

__all__ = ["forks"]


def forks() -> ForkServerContext:
    """The context of that server: one serves all tests of a process, and so its list of imports is one for all."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "distributed",
            "dualflow.driver.solve",
            "dualflow.cascade",
            "dualflow.estimators",
            "dualflow.quantum.runs.journal",
            "dualflow.quantum.solvers.variational_flow",
            "dualflow.testing.cloud",
            "pytest",
        ]
    )
    ensure_running()  # before anybody else sets a list of imports, as dask does
    return context
