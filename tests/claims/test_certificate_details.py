"""What a certificate says besides its bound: multipliers, biases, sizes; each against a figure computed by hand."""

import numpy as np
import pytest

from dualflow import DualProblem, Gram, certify, problems
from dualflow.core.bounds import inseparability_witness
from dualflow.testing.reference import rbf_kernel

LINE = Gram(np.array([[-1.0], [2.0]]), kernel="linear")
LABELS = np.array([-1.0, 1.0])


def test_hard_margin_bias_of_any_scale_by_hand():
    """x = −1, 2: w = 2/3, b = −1/3, α = 2/9 each, f* = −2/9, whatever multiple of α is given."""
    problem = problems.svc(LINE, LABELS, np.inf)
    for size in (0.01, 1.0, 7.0):
        certificate = certify(problem, np.full(2, size))
        assert certificate.bias == pytest.approx(-1 / 3, rel=1e-12)
        assert certificate.multiplier == pytest.approx(1 / 3, rel=1e-12)
        np.testing.assert_allclose(certificate.alpha, 2 / 9, rtol=1e-12)
        assert certificate.lower_bound == pytest.approx(-2 / 9, rel=1e-12)


def test_a_removed_point_does_not_narrow_the_hard_margin():
    """A third point between the classes, of weight 0, leaves the figures above as they are."""
    gram = Gram(np.array([[-1.0], [2.0], [0.5]]), kernel="linear")
    problem = problems.svc(gram, [-1, 1, 1], np.inf, sample_weight=[1, 1, 0])
    certificate = certify(problem, [1.0, 1.0, 0.0])
    assert certificate.bias == pytest.approx(-1 / 3, rel=1e-12)
    assert certificate.relative_gap <= 1e-12


def test_the_hard_margin_bound_is_for_p_of_ones_only():
    """p = (1, 2) with α₁ = α₂ = a: f = ½·9a² − 3a, so f* = −½ at a = 1/3, and no bound may lie above it."""
    problem = DualProblem(LINE, p=[1.0, 2.0], lower=0.0, upper=np.inf, e=LABELS, sigma=LABELS)
    for a in (0.01, 0.2, 1 / 3, 1.0):
        certificate = certify(problem, [a, a])
        assert certificate.lower_bound <= -0.5 + 1e-12
        np.testing.assert_allclose(certificate.alpha, [a, a], rtol=1e-12)  # and α is not rescaled


def test_squared_hinge_without_intercept_has_no_bias():
    problem = problems.svc(LINE, LABELS, 1.0, loss="squared_hinge", fit_intercept=False)
    assert certify(problem, [0.3, 0.7]).bias == 0.0


def test_ball_around_one_point_has_radius_zero():
    """αᵀKα − ν of a single point is round-off of either sign; its root is 0, never nan."""
    for value in np.random.default_rng(0).normal(size=(40, 3)) * 10:
        radius = certify(problems.svdd(Gram(value[None], kernel="poly", gamma=0.3, coef0=0.1)), [1.0]).radius
        assert 0.0 <= radius <= 1e-6 * max(1.0, np.abs(value).max()) ** 3


def test_infeasibility_and_distance_are_those_of_the_alpha_given():
    problem = problems.svc(LINE, LABELS, 1.0)
    certificate = certify(problem, [1.5, -0.25])  # out by ½ and ¼, and yᵀα = −1.75
    assert certificate.infeasibility == pytest.approx(1.75)
    np.testing.assert_allclose(certificate.alpha, [0.625, 0.625], rtol=1e-12)
    assert certificate.projection_distance == pytest.approx(0.875 * np.sqrt(2), rel=1e-12)
    assert problem.infeasibility(np.array([0.5, 0.2])) == pytest.approx(0.3)  # the equality alone
    assert problem.infeasibility(np.array([1.4, 1.4])) == pytest.approx(0.4)  # a bound alone


def test_relative_gap_is_to_the_larger_of_both_figures():
    """K = I, no bias, C = 1, α = ¼: f = 2(1/32 − ¼) = −7/16, D = −1/16 + 2·min(0, −¾) = −25/16."""
    gram = Gram.precomputed(np.eye(2))
    certificate = certify(problems.svc(gram, LABELS, 1.0, fit_intercept=False), [0.25, 0.25])
    assert certificate.lower_bound == pytest.approx(-25 / 16, rel=1e-14)
    assert certificate.relative_gap == pytest.approx((25 - 7) / 25, rel=1e-14)


def test_least_squares_without_intercept_is_exact():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(8, 2)), np.where(np.arange(8) % 2, 1.0, -1.0)
    Q = y[:, None] * rbf_kernel(X, 0.4) * y + np.eye(8) / 3.0
    best = -0.5 * np.ones(8) @ np.linalg.solve(Q, np.ones(8))
    problem = problems.least_squares(Gram(X, gamma=0.4), y, 3.0, fit_intercept=False)
    assert certify(problem, rng.normal(size=8)).lower_bound == pytest.approx(best, rel=1e-9)


def test_a_witness_is_feasible_whatever_it_is_made_of():
    """α = (1, 1, 1) at x = 0 has vᵀQv = 0 but yᵀα = 1: the witness read from it must have yᵀv = 0."""
    problem = problems.svc(Gram(np.zeros((3, 1)), kernel="linear"), [1, 1, -1], np.inf)
    v = inseparability_witness(problem, np.ones(3))
    assert v.sum() == pytest.approx(1.0)
    assert problem.sigma @ v == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize(
    "kernel", [{}, {"kernel": "linear"}, {"kernel": "poly", "degree": 2, "coef0": 1.0}], ids=["rbf", "linear", "poly"]
)
def test_the_ball_around_copies_of_one_point_has_no_gap(kernel):
    """f is 0, of terms that are not, whatever α is: what is left is round-off, and no part of it."""
    rng = np.random.default_rng(0)
    for size in (1.0, 1e3):
        problem = problems.svdd(Gram(np.full((400, 2), size), **kernel))
        for _ in range(30):
            assert certify(problem, rng.dirichlet(np.ones(400))).relative_gap == 0.0
    # A point that is no optimum has its gap.
    assert certify(problems.svdd(Gram([[0.0], [2.0]], **kernel)), [1.0, 0.0]).relative_gap > 0.5
