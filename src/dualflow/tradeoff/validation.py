"""Mistakes of the points of a certified front on data they were not trained on, by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from .. import problems
from .._solve import solve
from ..core.kernels import Gram
from ..evolution.fronts import mistakes
from ..exceptions import ProblemError

__all__ = ["cross_validated"]


def cross_validated(
    gram: Gram, signs: NDArray, weights: Sequence[float], fit_intercept: bool | str, folds: int, random_state: int
) -> NDArray:
    """Held-out mistakes over all folds at each of the rising ``weights`` C, shape (len(weights),).

    Folds are stratified and shuffled; in each the path is followed by warm starts, with the kernel width of all points.
    """
    if not problems.svc(gram, signs, weights[-1], fit_intercept=fit_intercept).psd.is_psd:
        raise ProblemError(
            "the kernel is indefinite: each fold would repair it in its own way; give X and y to pick by"
        )
    wrong = np.zeros(len(weights), dtype=int)
    splits = StratifiedKFold(folds, shuffle=True, random_state=random_state).split(signs, signs)
    for train, held in splits:
        part, alpha, last = gram.subset(train), None, 1.0
        for k, C in enumerate(weights):
            problem = problems.svc(part, signs[train], C, fit_intercept=fit_intercept)
            solution = solve(problem, refine=True, warm=None if alpha is None else alpha * (C / last))
            alpha, last = solution.alpha, C
            J = np.flatnonzero(alpha)
            values = gram.block(held, train[J]) @ solution.coefficients[J] + solution.bias
            wrong[k] += mistakes(signs[held] * values, signs[held])
    return wrong
