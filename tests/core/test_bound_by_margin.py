"""Problems whose C times the kernel's values is beyond float64, certified by the bound of a hard margin."""

from fractions import Fraction

import numpy as np
import pytest
from sklearn.datasets import load_iris

from dualflow import SVC, Gram, certify, problems

X, Y = load_iris(return_X_y=True)


def exact_gap(points, signs, alpha, degree, gamma):
    """Return (P − D)/|D| in exact arithmetic, with P of the w that separates by the margin of α, and D = −f(α)."""
    rows = [[Fraction(float(value)) for value in point] for point in points]
    support = np.flatnonzero(alpha)
    weights = {j: Fraction(float(alpha[j])) * int(signs[j]) for j in support}
    values = [
        sum(w * (gamma * sum(map(Fraction.__mul__, row, rows[j]))) ** degree for j, w in weights.items())
        for row in rows
    ]
    square = sum(w * values[j] for j, w in weights.items())
    least = min(value for value, sign in zip(values, signs, strict=True) if sign > 0)
    largest = max(value for value, sign in zip(values, signs, strict=True) if sign < 0)
    margin = (least - largest) / 2
    assert margin > 0
    primal = square / 2 / margin**2
    dual = sum(abs(w) for w in weights.values()) - square / 2
    return float((primal - dual) / dual)


@pytest.mark.parametrize("degree", [6, 7, 8])
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_the_gap_of_a_steep_polynomial_is_that_of_exact_arithmetic(degree, C):
    rows = np.flatnonzero(Y > 0)[::2]  # versicolor and virginica
    model = SVC(kernel="poly", degree=degree, gamma=4000, C=C).fit(X[rows], Y[rows])
    assert model.certificate_.reaches(1e-6)
    signs = np.where(Y[rows] == 2, 1, -1)
    alpha = np.zeros(len(rows))
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    # α sums to 0 over the signs in float64 alone; the sum left is far below the gap.
    assert abs(float(signs @ alpha)) <= 1e-12 * alpha.sum()
    assert exact_gap(X[rows], signs, alpha, degree, 4000) <= 1e-6


def test_every_pair_of_iris_is_certified():
    for degree in (7, 8):
        model = SVC(kernel="poly", degree=degree, gamma=4000).fit(X, Y)
        assert all(certificate.reaches(1e-6) for certificate in model.certificates_)


def test_a_bound_that_binds_takes_no_hard_margin():
    gram, signs = Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1]
    problem = problems.svc(gram, signs, C=1e-3)
    certificate = certify(problem, np.full(4, 5e-4))
    # By hand: w = 0.002, f = ½·4e-6 − 0.002. Each slack is 1 less a margin: D = −(2e-6 + 1e-3·(4 − 0.008)).
    assert certificate.objective == pytest.approx(2e-6 - 2e-3)
    assert certificate.lower_bound == pytest.approx(-(2e-6 + 1e-3 * (4 - 0.008)), rel=1e-6)
