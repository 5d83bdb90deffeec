"""The squared hinge with very uneven weights: bounds from the best slacks, and the solver that reaches the optimum."""

import warnings
from fractions import Fraction

import numpy as np
import pytest

from dualflow import SVC, Gram, certify, problems, solve


def uneven(seed, n, features):
    """Points, signs and weights between 1e-6 and 1e6."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features)) * 10.0 ** rng.uniform(-2, 2, features)
    signs = np.where(X[:, 0] / X[:, 0].std() + rng.normal(size=n) > 0, 1, -1)
    return X, signs, 10.0 ** rng.uniform(-6, 6, n)


def gap_of_model(model, X, signs, costs):
    """Return (P − D)/|D| of the model's own weights and coefficients, in extended precision."""
    wide = np.longdouble
    Z = np.column_stack([X, np.ones(len(X))]).astype(wide)
    coef = np.zeros(len(X), dtype=wide)
    coef[model.support_] = model.dual_coef_[0]
    alpha, costs = signs * coef, costs.astype(wide)
    v, w = Z.T @ coef, np.append(model.coef_[0], model.intercept_[0]).astype(wide)
    dual = alpha.sum() - v @ v / 2 - (alpha * alpha / (4 * costs)).sum()
    primal = w @ w / 2 + (costs * np.maximum(0, 1 - signs * (Z @ w)) ** 2).sum()
    return float((primal - dual) / abs(dual))


@pytest.mark.parametrize("seed", [3, 17, 19, 33])  # the working set leaves gaps of 1e-3 to 2e-2
def test_uneven_weights_of_a_linear_model_are_solved_to_the_tolerance(seed):
    X, signs, weight = uneven(seed, 200, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SVC(kernel="linear", loss="squared_hinge", C=10.0).fit(X, signs, weight)
    assert abs(gap_of_model(model, X, signs, 10.0 * weight)) <= 1e-6
    assert model.certificate_.relative_gap <= 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_the_certificate_is_the_gap_of_any_alpha(seed):
    X, signs, weight = uneven(seed, 60, 3)
    model = SVC(kernel="linear", loss="squared_hinge", solver="frank-wolfe", max_steps=300, refine=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, signs, weight)
    coef = np.zeros(len(X))
    coef[model.support_] = model.dual_coef_[0]
    # The primal value of the best multiple of w, in extended precision, by bisection of its derivative.
    wide = np.longdouble
    Z, coef, costs = np.column_stack([X, np.ones(len(X))]).astype(wide), coef.astype(wide), weight.astype(wide)
    v = Z.T @ coef
    margins = signs * (Z @ v)

    def slope(q):
        return q * (v @ v) - 2 * (costs * np.maximum(0, 1 - q * margins) * margins).sum()

    low, high = wide(0), wide(1)
    while slope(high) < 0:
        high *= 2
    for _ in range(120):
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    primal = low * low * (v @ v) / 2 + (costs * np.maximum(0, 1 - low * margins) ** 2).sum()
    alpha = signs * coef
    square = v @ v + (alpha * alpha / (2 * costs)).sum()
    dual = alpha.sum() ** 2 / (2 * square)  # of the best multiple of α
    gap = float((primal - dual) / primal)
    certificate = model.certificate_
    assert gap > 1e-4  # else the test says nothing
    assert certificate.relative_gap == pytest.approx(gap, rel=1e-6, abs=10 * certificate.relative_rounding)


def test_the_bound_is_below_the_optimum_in_exact_arithmetic():
    # α = (a, 1 − a) on two points at 1 and −1 with opposite labels, b in the kernel: f is a parabola of a.
    weight = np.array([1e-5, 1e5])
    problem = problems.svc(Gram([[1.0], [-1.0]], "linear"), [1, -1], C=1.0, loss="squared_hinge", sample_weight=weight)
    ridge = [1 / (2 * Fraction(float(w))) for w in weight]
    K = [[Fraction(2), Fraction(0)], [Fraction(0), Fraction(2)]]
    own = [K[0][0] + ridge[0], K[1][1] + ridge[1]]
    best = 1 / (1 / own[0] + 1 / own[1]) / 2  # the minimum of ½(h₀a² + h₁(1 − a)²)
    for a in (1e-7, 1e-5, 1e-3, 0.5):
        certificate = certify(problem, [a, 1 - a])
        assert Fraction(certificate.lower_bound) <= best * (1 + Fraction(1, 10**14))
        objective = (own[0] * Fraction(a) ** 2 + own[1] * (1 - Fraction(a)) ** 2) / 2
        assert certificate.objective == pytest.approx(float(objective), rel=1e-12)
    # With margins 2a and 2(1 − a), the primal is q²‖v‖²/2 + Σ(1 − qfᵢ)₊²/(2rᵢ), ‖v‖² = 2a² + 2(1 − a)².
    a = Fraction(1, 2)
    square, margin = 4 * a * a, 2 * a
    q = margin * (1 / ridge[0] + 1 / ridge[1]) / (square + margin**2 * (1 / ridge[0] + 1 / ridge[1]))
    primal = q * q * square / 2 + (1 - q * margin) ** 2 * (1 / ridge[0] + 1 / ridge[1]) / 2
    assert certify(problem, [0.5, 0.5]).lower_bound == pytest.approx(float(1 / (4 * primal)), rel=1e-12)


def test_even_weights_keep_the_usual_bound():
    X, signs, _ = uneven(0, 40, 3)
    problem = problems.svc(Gram(X, "linear"), signs, C=1.0, loss="squared_hinge")
    alpha = np.full(40, 1 / 40)
    product = problem.product(alpha)
    certificate = certify(problem, alpha)
    assert certificate.lower_bound == pytest.approx(product.min() - 0.5 * alpha @ product, rel=1e-12)
    assert solve(problem, refine=True).status.name == "OPTIMAL"


def test_a_point_without_weight_changes_nothing():
    X, signs, weight = uneven(5, 60, 3)
    more, labels = np.vstack([X, [[3.0, 1.0, 2.0]]]), np.append(signs, 1)

    def posed(X, signs, weight):
        return problems.svc(Gram(X, "linear"), signs, C=1.0, loss="squared_hinge", sample_weight=weight)

    alpha = np.random.default_rng(5).dirichlet(np.ones(60))
    alone = certify(posed(X, signs, weight), alpha)
    beside = certify(posed(more, labels, np.append(weight, 0.0)), np.append(alpha, 0.0))
    assert beside.lower_bound == pytest.approx(alone.lower_bound, rel=1e-9)
    assert alone.lower_bound > 0  # the usual bound is far below
