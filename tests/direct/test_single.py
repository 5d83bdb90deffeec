"""What a result of a known product says before its certificate is made is what the certificate says."""

import numpy as np
import pytest

from dualflow import Gram, problems
from dualflow.core.bounds import dual_bound, rounding, vanishing
from dualflow.core.certificate import certify
from dualflow.core.runtime.arrays import immutable
from dualflow.direct.single import DirectSingle

RNG = np.random.default_rng(49)
X = RNG.normal(size=(40, 3))
SIGNS = np.where(X[:, 0] > 0, 1.0, -1.0)
BALL = problems.svdd(Gram(X, "poly", gamma=1.0, coef0=1.0), 0.2)
PROBLEMS = {
    "tube": problems.svr(Gram(X), X[:, 1], 2.0),
    "moved tube": problems.svr(Gram(X + 5.0, "linear"), X[:, 1], 2.0),
    "plane": problems.one_class(Gram(X), 0.3),
    "ball": BALL,
    "far ball": problems.svdd(Gram(X + 1e6, "linear"), 0.2),
    "hard ball": problems.svdd(Gram(X)),
    "no intercept": problems.svc(Gram(X), SIGNS, 3.0, fit_intercept=False),
    "ridge": problems.svc(Gram(X), SIGNS, 3.0, loss="squared_hinge"),
    "weights": problems.svc(Gram(X), SIGNS, 3.0, sample_weight=RNG.uniform(0.1, 2.0, len(X))),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_answer_is_that_of_its_certificate(name):
    given = PROBLEMS[name]
    problem = given.centred()
    found = RNG.uniform(-0.2, 1.0, problem.n)
    point = problem.project(found)
    weights = problem.reading.coefficients(problem, point, 0.0)
    shift = problem.scale * problem.gram.constant(weights, problem.d)
    result = DirectSingle(problem, found, point, problem.product(point), 1.0, shift)
    answer, certificate, anew = result.answer, result.certificate, certify(given, found)
    for known in (certificate, anew):
        assert answer.bias == pytest.approx(known.bias, rel=1e-9, abs=1e-12)
        assert answer.quadratic == pytest.approx(known.quadratic, rel=1e-9)
        assert answer.multiplier == (known.multiplier and pytest.approx(known.multiplier, rel=1e-9, abs=1e-12))
        assert answer.radius == (known.radius and pytest.approx(known.radius, rel=1e-9))
        assert result.relative_gap == pytest.approx(known.relative_gap, rel=1e-9)
        assert result.relative_rounding == pytest.approx(known.relative_rounding, rel=1e-6)
    np.testing.assert_array_equal(answer.alpha, certificate.alpha)


@pytest.mark.parametrize("name", PROBLEMS)
def test_one_call_finds_bound_rounding_and_size(name):
    problem = PROBLEMS[name]
    point = immutable(problem.project(RNG.uniform(-0.2, 1.0, problem.n)))
    Qa, row = problem.product(point), DirectSingle(problem, point, point, problem.product(point), 1.0).row
    lower, interval = dual_bound(problem, point, Qa)
    assert row.lower_bound == pytest.approx(lower, rel=1e-13)
    assert (row.low, row.high) == (interval or (0.0, 0.0))
    assert row.rounding == pytest.approx(rounding(problem, point, Qa, row.objective, (lower, interval)), rel=1e-12)
    size = vanishing(problem, point, row.quadratic)
    assert row.terms == pytest.approx(size / (64 * np.finfo(float).eps), rel=1e-12)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_gap_that_overflows_does_not_suffice(value):
    problem = PROBLEMS["tube"]
    point = np.ones(problem.n)
    assert not DirectSingle(problem, point, point, np.full(problem.n, value), 1.0).suffices(1.0, 1.0)


def test_copies_of_one_point_have_no_gap():
    problem = problems.svdd(Gram(np.ones((5, 2))), 0.5).centred()
    point = problem.project(np.full(5, 0.2))
    result = DirectSingle(problem, point, point, problem.product(point), 1.0)
    assert result.relative_gap == 0.0 == result.certificate.relative_gap
    assert result.suffices(1e-10, 1e-6)
