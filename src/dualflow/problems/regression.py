"""Regression: the ε-insensitive tube."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.kernels import Gram
from ..core.options import Number, option
from ..core.problem import DualProblem
from ..core.reading import Reading
from ..exceptions import ProblemError
from .checks import check_weight
from .classification import FINITE_COST
from .growing import Growing, Variables

__all__ = ["REGRESSION", "TUBE", "GrowingTube", "svr"]

#: What ε may be.
TUBE = Number(at_least=0)

REGRESSION = Reading("svr")


def svr(
    gram: Gram,
    z: ArrayLike,
    C: float = 1.0,
    *,
    epsilon: float = 0.1,
    sample_weight: ArrayLike | None = None,
) -> DualProblem:
    """ε-insensitive regression: every point twice, σ = (1, −1), p = (z − ε, −z − ε).

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svr(Gram([[0.0], [1.0], [2.0]], "linear"), [0.0, 2.0, 4.0], C=10.0, epsilon=0.5)
    >>> problem.n  # two variables a point
    6
    >>> solution = solve(problem)
    >>> round(solution.bias, 6)  # the flattest line within 0.5 of all: 0.5 + 1.5x
    0.5
    """
    z = np.asarray(z, dtype=float)
    if z.shape != (gram.n,) or not np.isfinite(z).all():
        raise ProblemError(f"z must be {gram.n} finite numbers, found shape {z.shape}")
    C = FINITE_COST.check("C", C)
    epsilon = TUBE.check("epsilon", epsilon)
    largest = float(np.abs(z).max()) + epsilon
    if 4.0 * gram.n * max(1.0, C) > np.finfo(float).max / max(1.0, largest):  # f adds up so many of them, times C
        raise ProblemError(f"z is as large as {largest:.3g}, and C times the sum of it overflows; scale it")
    signs = np.concatenate([np.ones(gram.n), -np.ones(gram.n)])
    return DualProblem(
        gram,
        p=np.concatenate([z - epsilon, -z - epsilon]),
        lower=np.zeros(1),
        upper=np.tile(C * check_weight(sample_weight, gram.n), 2),
        e=signs,
        sigma=signs,
        idx=np.tile(np.arange(gram.n), 2),
        reading=REGRESSION,
    )


@dataclass(frozen=True)
class GrowingTube(Growing):
    """`svr` of points that come and go; targets are the numbers to be regressed on.

    Examples
    --------
    >>> from dualflow.problems import GrowingTube
    >>> GrowingTube(C=10.0, epsilon=0.5)
    GrowingTube(C=10.0, epsilon=0.5)
    """

    C: float = option(1.0, FINITE_COST)
    epsilon: float = option(0.1, TUBE)

    per: ClassVar[int] = 2

    def variables(self, targets: NDArray, diag: NDArray) -> Variables:
        p = np.column_stack([targets - self.epsilon, -targets - self.epsilon]).ravel()
        return Variables(p, np.tile([1.0, -1.0], len(targets)), float(self.C))

    def problem(self, gram: Gram, targets: NDArray) -> DualProblem:
        return svr(gram, targets, self.C, epsilon=self.epsilon)
