"""A problem whose Q is known by a factor, Q = LLᵀ + diag(ridge) with L of shape (n, r): no n × n matrix is formed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .features import features_of
from .problem import DualProblem
from .runtime.memory import check_factor
from .workspace import Workspace


def factor_of(problem: DualProblem, max_rank: int) -> NDArray | None:
    """Return L of shape (n, r), r ≤ ``max_rank``, with Q = LLᵀ + diag(ridge), or None if it needs more columns.

    Its rows are the features of the points (`features_of`) with the signs σ: the points themselves for a linear kernel,
    monomials for a polynomial one, and a Cholesky factor with pivoting for others, whose K must be positive
    semidefinite.
    """
    most = max_rank - (problem.offset > 0)
    if most < 1:
        return None
    features = features_of(problem.gram, most)
    if features is None:
        return None
    check_factor(problem.n, features.rank)
    F = features.points if features.center is None else features.points - features.center
    if problem.offset:
        F = np.column_stack([F, np.full(len(F), np.sqrt(problem.offset))])
    if problem.idx is not None:
        F = F[problem.idx]
    L: NDArray = (np.sqrt(problem.scale) * problem.sigma)[:, None] * F
    return L


class FactoredWorkspace(Workspace):
    """A workspace whose products with Q use L: O(nr) each.

    Parameters
    ----------
    workspace : Workspace
    L : array of shape (n, r)
        With Q = LLᵀ + diag(ridge).
    """

    L: NDArray

    def __init__(self, workspace: Workspace, L: NDArray) -> None:
        super().__init__(workspace, evidence=workspace.__dict__.get("_evidence"))
        self.__dict__["L"] = L

    def product(self, v: NDArray, rows: NDArray | None = None, dtype: type = float) -> NDArray:
        """Return the entries ``rows`` of Q v (all if None), in float64."""
        which = slice(None) if rows is None else rows
        Qv: NDArray = self.L[which] @ (self.L.T @ v) + self.ridge[which] * v[which]
        return Qv
