"""Numbers at the ends of float64: a certificate never turns an overflow into a small gap."""

import numpy as np
import pytest

from dualflow import Gram, ProblemError, certify, problems, solve

X = np.random.default_rng(0).normal(size=(24, 3))
Y = np.where(X[:, 0] > 0, 1, -1)


def test_overflow_is_not_certified():
    problem = problems.least_squares(Gram(X * 1e153, kernel="linear"), Y)
    with np.errstate(all="ignore"):
        certificate = certify(problem, np.full(24, 1e5))
    assert certificate.gap == np.inf
    assert certificate.relative_gap == np.inf


def test_hard_margin_certificate_at_huge_scale_equals_the_one_at_scale_one():
    alpha = np.ones(24)
    small = certify(problems.svc(Gram(X, kernel="linear"), Y, np.inf), alpha)
    large = certify(problems.svc(Gram(X * 1e100, kernel="linear"), Y, np.inf), alpha)
    assert np.isfinite(small.gap)
    assert large.relative_gap == pytest.approx(small.relative_gap, rel=1e-9)


@pytest.mark.parametrize(
    ("limit", "match"),
    [
        ({"tol": True}, "tol"),
        ({"tol": 0.0}, "tol"),
        ({"max_steps": True}, "max_steps"),
        ({"max_steps": 0}, "max_steps"),
        ({"time_limit": "3"}, "time_limit"),
        ({"time_limit": -1.0}, "time_limit"),
    ],
)
def test_limits_of_the_wrong_kind_are_named(limit, match):
    with pytest.raises(ProblemError, match=match):
        solve(problems.svc(Gram(X), Y), **limit)
