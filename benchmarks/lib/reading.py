"""A fitted model of anybody's in scikit-learn's layout, read as α and certified on the problem that it solved."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

import dualflow
from dualflow import DualProblem, certify


def certified(problem: DualProblem, alpha: NDArray) -> dict[str, Any]:
    """Columns about an alpha: its certified relative gap, how infeasible it was, how many support vectors it has."""
    certificate = certify(problem, alpha)
    return {
        "relative_gap": certificate.relative_gap,
        "infeasibility": certificate.infeasibility,
        "support_vectors": int(np.count_nonzero(alpha > 1e-12 * max(float(alpha.max(initial=0.0)), 1e-300))),
    }


def gram_of(model: Any, X: Any) -> dualflow.Gram:
    """Points in a model's kernel."""
    return dualflow.Gram(X, kernel=model.kernel, gamma=model.gamma, degree=model.degree, coef0=model.coef0)


def dense_coef(model: Any) -> NDArray:
    """``dual_coef_``, which is sparse where the points were."""
    found = model.dual_coef_
    return np.asarray(found.toarray() if scipy.sparse.issparse(found) else found, dtype=float)


def classifier(model: Any, X: Any, y: NDArray, loss: str = "hinge") -> dict[str, Any]:
    """Columns about a classifier's α; of more than two classes, the widest gap of all pairs."""
    classes = np.unique(y)
    if len(classes) > 2:
        return _pairs(model, X, y, classes)
    alpha = np.zeros(len(y))
    # By size: who is positive is not the same everywhere, and α ≥ 0.
    alpha[np.asarray(model.support_, dtype=int)] = np.abs(dense_coef(model)[0])
    if loss == "squared_hinge":  # back from a = μ/(μᵀHμ) to the simplex
        alpha /= alpha.sum()
    signs = np.where(y == classes[1], 1.0, -1.0)
    return certified(dualflow.problems.svc(gram_of(model, X), signs, model.C, loss=loss), alpha)


def _pairs(model: Any, X: Any, y: NDArray, classes: NDArray) -> dict[str, Any]:
    """LIBSVM's layout: the coefficients of class j's points in its pair with i are row j − 1 for j > i, else row j."""
    support, coef = np.asarray(model.support_, dtype=int), np.abs(dense_coef(model))
    gaps, breaches = [], []
    for i, j in combinations(range(len(classes)), 2):
        alpha = np.zeros(len(y))
        for own, row in ((i, j - 1), (j, i)):
            mine = y[support] == classes[own]
            alpha[support[mine]] = coef[row, mine]
        (rows,) = np.nonzero((y == classes[i]) | (y == classes[j]))
        signs = np.where(y[rows] == classes[j], 1.0, -1.0)
        found = certify(dualflow.problems.svc(gram_of(model, X[rows]), signs, model.C), alpha[rows])
        gaps.append(found.relative_gap)
        breaches.append(found.infeasibility)
    return {"relative_gap": max(gaps), "infeasibility": max(breaches), "support_vectors": len(support)}


def regressor(model: Any, X: Any, z: NDArray) -> dict[str, Any]:
    """Columns about a regressor's α: its coefficients are α − α*, of which one is 0."""
    beta = np.zeros(len(z))
    beta[np.asarray(model.support_, dtype=int)] = dense_coef(model)[0]
    problem = dualflow.problems.svr(gram_of(model, X), z, model.C, epsilon=model.epsilon)
    return certified(problem, np.concatenate([np.maximum(beta, 0.0), np.maximum(-beta, 0.0)]))
