"""Optima that more than one solve stands on: certified tightly, and whole or not at all."""

from __future__ import annotations

from numpy.typing import NDArray

from .._solve import solve
from ..core.certificate import Certificate
from ..core.problem import DualProblem

__all__ = ["TOL", "optimum"]

#: Certified relative gap of every model that is left when a point goes.
TOL = 1e-9


def optimum(problem: DualProblem, start: NDArray | None) -> Certificate:
    """The certificate of the optimum, from a start nearby if one is known."""
    solution = solve(problem, refine="early", tol=TOL, warm=start)
    return solution.certificate
