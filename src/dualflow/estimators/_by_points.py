"""The one problem of a fit, tried without a run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .._conclusion import provenance_of
from .._solve import AUTO, DEFAULT_SOLVER
from ..core.forks import cached_property
from ..core.problem import DualProblem
from ..core.solution import SHARP, Cost, Solution, Status
from ..core.values import immutable
from ..direct.simplex import simplex_from_points, suits_simplex_points
from ..registry import make_solver
from ..solvers import Solver
from ._arguments import is_limited

__all__ = ["ByPoints", "nobody_looks_on", "usual_provenance"]


def nobody_looks_on(model: Any) -> bool:
    """Whether a model's problems may be solved without a run each: nobody looks on, or asked for another way."""
    usual = model.solver in (AUTO, DEFAULT_SOLVER) and not model.solver_options and not model.warm_start
    return bool(usual and model.callback is None and not is_limited(model))


class ByPoints(Sequence[Solution | None]):
    """What the problem comes to by the rows of K that it asks for, when it is asked for; None where that is no way, or
    its certificate is not sharp.

    Parameters
    ----------
    problem : DualProblem
    tol : float
    seed : int
    refine : bool
        Whether a run would be handed over to a refinement.
    """

    def __init__(self, problem: DualProblem, tol: float, seed: int, refine: bool) -> None:
        self._problem, self._tol, self._seed, self._refine = problem, tol, seed, refine

    def at_once(self) -> list[Solution] | None:
        """It, in a list; or None."""
        return None if self._solution is None else [self._solution]

    def __len__(self) -> int:
        return 1

    def __getitem__(self, k: Any) -> Any:
        if k != 0:
            raise IndexError(k)
        return self._solution

    @cached_property
    def _solution(self) -> Solution | None:
        problem, begun = self._problem, time.monotonic()
        if not suits_simplex_points(problem):
            return None
        found = simplex_from_points(problem, min(SHARP, self._tol) if self._refine else self._tol)
        if found is None:
            return None
        return Solution(
            problem=problem,
            alpha=found.certificate.alpha,
            raw_alpha=immutable(found.alpha),
            refined=False,
            support=found.support,
            ended=Status.OPTIMAL,
            raw_ended=Status.OPTIMAL,
            tol=self._tol,
            cost=Cost(
                wall_time_s=time.monotonic() - begun - found.certify_s,
                certify_time_s=found.certify_s,
                steps=1,
                kernel_columns=found.entries / problem.n,
            ),
            provenance=usual_provenance(self._tol, self._refine, self._seed),
            certified=found.certificate,
        )


@lru_cache(maxsize=16)
def _usual(tol: float, refine: bool) -> Solver[Any, Any]:
    return make_solver(DEFAULT_SOLVER).aim(tol, hand_over=refine)


def usual_provenance(tol: float, refine: bool, seed: int) -> dict[str, Any]:
    """Of what the default solver would bring a problem to, which was found without a run of it."""
    return provenance_of(_usual(tol, refine), seed)
