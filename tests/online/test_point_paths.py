"""Tests that the linear response and the path reach the same optimum without one point."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_friedman1, make_moons

from dualflow import Gram, problems, solve
from dualflow.online import point_paths
from dualflow.online.leave_one_out import Response
from dualflow.online.point_paths import PointPaths


def tube():
    X, z = make_friedman1(60, noise=1.0, random_state=0)
    return problems.svr(Gram(X, gamma=0.5), z, 10.0, epsilon=0.5)


def rough():
    X, z = load_diabetes(return_X_y=True)
    return problems.svr(Gram(20 * X[:50], gamma=0.1), z[:50], 1000.0, epsilon=1.0)


def hinge(fit_intercept=True):
    X, y = make_moons(60, noise=0.3, random_state=0)
    return problems.svc(Gram(X, gamma=1.0), 2 * y - 1, 1.0, fit_intercept=fit_intercept)


PROBLEMS = {
    "tube": tube(),
    "many free": rough(),
    "hinge": hinge(),
    "hinge, no bias": hinge(False),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_response_equals_the_path(monkeypatch, name):
    problem = PROBLEMS[name].centred()
    best = solve(problem, refine="early", tol=1e-12)
    K = problem.gram.full()
    answers, asked = [], []
    without = Response.without
    monkeypatch.setattr(Response, "without", lambda *a: asked.append(without(*a)) or asked[-1])
    for many in (0, np.inf):
        monkeypatch.setattr(point_paths, "MIN_FREE_RESPONSE", many)
        paths = PointPaths(problem, K, best.alpha, best.bias)
        answers.append([paths.without(int(point)) for point in paths.movers()])
    assert len(answers[0]) == len(answers[1]) == len(asked) > 10
    assert sum(alpha is not None for alpha in asked) > 0.5 * len(asked)
    for (alpha, b), (other, c) in zip(*answers, strict=True):
        np.testing.assert_allclose(problem.sigma * alpha, problem.sigma * other, atol=1e-7 * problem.upper.max())
        assert b == pytest.approx(c, abs=1e-6 * max(1.0, abs(c)))
