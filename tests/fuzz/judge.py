"""What a model's numbers are worth, by a computation that shares nothing with the library: primal minus dual."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

_EPS = float(np.finfo(float).eps)


def kernel_matrix(X: NDArray, kernel: str, gamma: float, degree: int, coef0: float, shift: bool) -> NDArray:
    """K in extended precision. ``shift``: a constant may be added, so that centred points do (linear kernel)."""
    A = X.astype(np.longdouble)
    if kernel == "rbf":
        A = A - A.mean(axis=0)
        squares = (A * A).sum(axis=1)
        return np.exp(-gamma * np.maximum(squares[:, None] + squares - 2 * A @ A.T, 0))
    if kernel == "linear" and shift:
        A = A - A.mean(axis=0)
    if kernel == "linear":
        return A @ A.T
    return (gamma * (A @ A.T) + coef0) ** degree


def entry_terms(X: NDArray, kernel: str, gamma: float) -> float:
    """How large what a kernel value is made of may be, where that is larger than K: the exponent of a radial one is
    γ‖x‖² + γ‖z‖² − 2γxᵀz of centred points, and known to the rounding of these."""
    if kernel != "rbf":
        return 0.0
    centred = X - X.mean(axis=0)
    return 1.0 + gamma * float((centred * centred).sum(axis=1).max())


@dataclass(frozen=True)
class Worth:
    """Relative gap of a model, and by how much its coefficients leave their bounds and their equality.

    ``unknown`` is the part of the objective that rounding in float64 alone may change: of kernel values, and of the
    coefficients, which moves a margin by so much that a large C makes a slack of it that counts.
    """

    gap: float
    infeasible: float
    unknown: float


@dataclass(frozen=True)
class Plane:
    """A linear model's own weights, which are what it predicts by. Weak duality holds for any; those that float64
    coefficients make of columns of very different scales may be far off.

    ``values``: decision values of the training points without the free intercept, shape (n,); ``square``: of the norm
    of the weights.
    """

    values: NDArray
    square: float


def plane_of(model: Any, X: NDArray, penalised: float = 0.0, k: int | None = None) -> Plane | None:
    """The weights, and the intercept where it is one of them, of a linear model; None of others, and of streams. ``k``
    is the number of a pair of classes."""
    if model.kernel != "linear" or not hasattr(model, "coef_"):
        return None
    coef, points = (a.toarray() if issparse(a) else a for a in (model.coef_, X))
    w = np.ravel(coef if k is None else coef[k]).astype(np.longdouble)
    return Plane(points.astype(np.longdouble) @ w + penalised, w @ w + np.longdouble(penalised) ** 2)


def worst(all_of_them: Iterable[Worth]) -> Worth:
    """What several problems together are worth: the worst of each number."""
    found = list(all_of_them)
    return Worth(
        max(each.gap for each in found), max(each.infeasible for each in found), max(each.unknown for each in found)
    )


def pairs_of(model: Any, y: NDArray) -> Iterator[tuple[int, int, NDArray, float]]:
    """The two classes of each machine of an SVC, its yα, shape (n,), and its b: as LIBSVM lays them out."""
    of, coef = y[model.support_], np.asarray(model.dual_coef_)
    for k, (i, j) in enumerate(combinations(range(len(model.classes_)), 2)):
        first, second = model.classes_[i], model.classes_[j]
        alpha = np.zeros(len(y))
        alpha[model.support_[of == first]] = coef[j - 1, of == first]
        alpha[model.support_[of == second]] = coef[i, of == second]
        yield first, second, alpha, float(model.intercept_[k])


def of_classifier(
    K: NDArray,
    y: NDArray,
    upper: NDArray,
    coef: NDArray,
    b: float | None,
    free: bool,
    terms: float = 0.0,
    plane: Plane | None = None,
) -> Worth:
    """C-SVM. ``coef`` is yᵢαᵢ, shape (n,); ``b`` None: the best there is; ``free``: whether there is one; ``terms``:
    see `entry_terms`; ``plane``: what the primal value is taken of instead of the coefficients."""
    largest = max(float(np.abs(K).max()), terms)
    return of_products(K @ coef.astype(np.longdouble), largest, y, upper, coef, b, free, plane)


def of_products(
    product: NDArray,
    largest: float,
    y: NDArray,
    upper: NDArray,
    coef: NDArray,
    b: float | None,
    free: bool,
    plane: Plane | None = None,
) -> Worth:
    """The same from K coef, and the largest |K|, alone."""
    alpha, wide = y * coef, coef.astype(np.longdouble)
    quadratic = wide @ product
    dual = alpha.sum() - quadratic / 2
    values, square = (product, quadratic) if plane is None else (plane.values, plane.square)

    def primal(b: float) -> float:
        return square / 2 + (upper * np.maximum(0, 1 - y * (values + b))).sum()

    value = primal(_best_bias(values, y, upper) if b is None else b)
    off = abs(float(coef.sum())) / max(float(alpha.sum()), 1e-300) if free else 0.0
    slack = 1 - y * (values + (0.0 if not free else _best_bias(values, y, upper)))
    slacks = _slacks(slack, upper, largest * float(np.abs(wide).sum()))
    return _worth(value, dual, largest, wide, _outside(alpha, upper) + off, slacks=slacks)


def of_squared_hinge(K: NDArray, y: NDArray, C: float, coef: NDArray, plane: Plane | None = None) -> Worth:
    """L2-SVM, its bias inside the kernel, as `LinearSVC` has it: K is that with the 1 added."""
    return of_squared_hinge_products(K @ coef.astype(np.longdouble), float(np.abs(K).max()), y, C, coef, plane)


def of_squared_hinge_products(
    product: NDArray, largest: float, y: NDArray, C: float, coef: NDArray, plane: Plane | None = None
) -> Worth:
    """The same from K coef, and the largest |K|, alone."""
    wide, alpha = coef.astype(np.longdouble), y * coef
    quadratic = wide @ product
    dual = alpha.sum() - quadratic / 2 - (wide * wide).sum() / (4 * C)
    values, square = (product, quadratic) if plane is None else (plane.values, plane.square)
    value = square / 2 + C * (np.maximum(0, 1 - y * values) ** 2).sum()
    # What rounding makes of a margin costs its square, C times: that may be all there is of a small objective.
    slack = 64 * _EPS * (largest * float(alpha.sum()) + 1.0)
    worth = _worth(value, dual, largest, wide, _outside(alpha, np.inf))
    return replace(worth, unknown=worth.unknown + len(y) * C * slack**2 / max(abs(float(dual)), 1e-300))


def of_one_class(product: NDArray, largest: float, nu: float, coef: NDArray, offset: float) -> Worth:
    """One-class ν-SVM in scikit-learn's units: the coefficients sum to νn and are at most 1."""
    n, total = len(coef), nu * len(coef)
    wide = coef.astype(np.longdouble)
    quadratic = wide @ product
    dual = -quadratic / 2
    value = quadratic / 2 - offset * total + np.maximum(0, offset - product).sum()
    off = _outside(coef, 1.0) + abs(float(coef.sum()) / total - 1)
    slacks = _slacks(offset - product, np.ones(n), largest * float(np.abs(wide).sum()))
    return _worth(value, dual, largest, wide, off, slacks=slacks)


def _best_bias(product: NDArray, y: NDArray, upper: NDArray) -> float:
    """Where Σ uᵢ max(0, 1 − yᵢ(pᵢ + b)) is least: its slope starts at −Σ₊uᵢ and rises by uᵢ at each kink."""
    kinks = y - product
    order = np.argsort(kinks, kind="stable")
    slopes = np.cumsum(upper[order]) - upper[y > 0].sum()
    return kinks[order[np.argmax(slopes >= -1e-15 * upper.sum())]]


def of_ball(K: NDArray, upper: float, coef: NDArray, square: float) -> Worth:
    """SVDD of squared radius ``square``; the hard ball's bound is infinite."""
    return of_distances(K @ coef.astype(np.longdouble), np.diag(K), upper, coef, square)


def of_distances(product: NDArray, diag: NDArray, upper: float, coef: NDArray, square: float) -> Worth:
    """The same from K coef and the diagonal of K alone."""
    wide, astray = coef.astype(np.longdouble), abs(float(coef.astype(np.longdouble).sum()) - 1)
    if astray <= 64 * _EPS * len(coef):
        # Round-off of the sum, which far from the origin no difference of kernel values cancels: judge the ball of the
        # weights that sum to 1. A sum that is farther off is judged as it is.
        wide, product = wide / wide.sum(), product / wide.sum()
    quadratic = wide @ product
    distances = diag - 2 * product + quadratic
    dual = wide @ diag - quadratic
    if np.isinf(upper):
        value = distances.max()
    else:
        value = square + upper * np.maximum(0, distances - square).sum()
    return _worth(value, dual, float(diag.max()), wide, _outside(coef, upper) + astray, float(diag.max()))


def of_regression(
    K: NDArray,
    t: NDArray,
    C: float,
    epsilon: float,
    coef: NDArray,
    b: float,
    terms: float = 0.0,
    plane: Plane | None = None,
) -> Worth:
    """ε-SVR; ``coef`` is αᵢ − αᵢ*; ``terms`` and ``plane``: as for a classifier."""
    largest = max(float(np.abs(K).max()), terms)
    return of_regression_products(K @ coef.astype(np.longdouble), largest, t, C, epsilon, coef, b, plane)


def of_regression_products(
    product: NDArray,
    largest: float,
    t: NDArray,
    C: float,
    epsilon: float,
    coef: NDArray,
    b: float,
    plane: Plane | None = None,
) -> Worth:
    """The same from K coef, and the largest |K|, alone."""
    wide = coef.astype(np.longdouble)
    quadratic = wide @ product
    dual = wide @ t - epsilon * np.abs(wide).sum() - quadratic / 2
    values, square = (product, quadratic) if plane is None else (plane.values, plane.square)
    value = square / 2 + C * np.maximum(0, np.abs(t - values - b) - epsilon).sum()
    off = abs(float(coef.sum())) / max(float(np.abs(coef).sum()), 1e-4 * C)
    slacks = _slacks(np.abs(t - values - b) - epsilon, np.full(len(t), C), largest * float(np.abs(wide).sum()))
    return _worth(value, dual, largest, wide, _outside(np.abs(coef), C) + off, slacks=slacks)


def _outside(alpha: NDArray, upper: NDArray | float) -> float:
    size = float(np.abs(alpha).max(initial=0.0))
    return float(np.maximum(np.maximum(-alpha, alpha - upper), 0.0).max(initial=0.0)) / max(size, 1e-300)


def _slacks(slack: NDArray, upper: NDArray, product: float) -> float:
    """What slacks on the margin would cost, were each 1; ``product`` is how large the terms of a decision value are,
    for what rounding makes of them may have taken a point off the margin."""
    return float(upper[np.abs(slack) < max(1e-6, 64 * _EPS * product)].sum())


def _worth(
    primal: float,
    dual: float,
    largest: float,
    coef: NDArray,
    infeasible: float,
    scale: float = 0.0,
    slacks: float = 0.0,
) -> Worth:
    size = max(abs(float(primal)), abs(float(dual)), 1e-300)
    weight = float(np.abs(coef).sum())
    entry = largest * weight**2 + scale + slacks * (largest * weight + 1.0)
    gap = max(0.0, float(primal - dual)) / size
    return Worth(gap, infeasible, 64 * _EPS * entry / size)
