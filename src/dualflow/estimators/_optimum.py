"""Optima that more than one solve stands on: certified tightly, and whole or not at all."""

from __future__ import annotations

from numpy.typing import NDArray

from .._solve import solve
from ..core.certificate import Certificate
from ..core.problem import DualProblem
from ..core.solution import Status

__all__ = ["TOL", "optimum"]

#: Certified relative gap of every model that is left when a point goes.
TOL = 1e-9


def optimum(problem: DualProblem, start: NDArray | None) -> Certificate:
    """The certificate of the optimum, from a start nearby if one is known; KeyboardInterrupt where Ctrl-C came."""
    solution = solve(problem, refine="early", tol=TOL, warm=start)
    if solution.ended is Status.INTERRUPTED:
        raise KeyboardInterrupt  # half a report would look like a whole one
    return solution.certificate
