"""Tests that points of a growing problem have the variables of the batch problem in `problems`."""

import numpy as np
import pytest

from dualflow import Gram, ProblemError, problems
from dualflow.core.growing import GrowingGram
from dualflow.online.growing_problem import Stream

X = np.random.default_rng(0).normal(size=(12, 3))
WEIGHTS = {"equal": np.ones(12), "some 0": np.arange(12) % 4 * 0.7}
SIGNS = np.where(np.arange(12) % 3, 1.0, -1.0)
MODELS = [
    (problems.GrowingHinge(2.5), SIGNS),
    (problems.GrowingBall(0.25), np.ones(12)),
    (problems.GrowingBall(None), np.ones(12)),
    (problems.GrowingTube(2.5, 0.05), X[:, 0]),
]


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=list(WEIGHTS))
@pytest.mark.parametrize(("model", "targets"), MODELS, ids=lambda value: str(value)[:20])
def test_variables_of_points_are_those_of_the_batch_problem(model, targets, weight):
    gram = Gram(X, kernel="poly", degree=2, gamma=0.5, coef0=1.0)
    problem = model.problem(gram, targets, weight)
    p, sigma, _ = found = model.variables(targets, gram.diag())

    def arranged(values):
        return values.reshape(-1, model.per).T.ravel()

    unit = model.total(weight.sum()) if model.counted else 1.0
    np.testing.assert_array_equal(arranged(p), problem.p)
    np.testing.assert_array_equal(arranged(sigma), problem.sigma)
    np.testing.assert_array_equal(problem.e, problem.sigma)
    np.testing.assert_allclose(arranged(found.bounds(weight)) / unit, problem.upper, rtol=1e-15)
    assert model.total(weight.sum()) / unit == problem.d
    assert model.scale == problem.scale
    assert model.total(0) == 0.0


@pytest.mark.parametrize("weight", WEIGHTS.values(), ids=list(WEIGHTS))
@pytest.mark.parametrize(("model", "targets"), MODELS, ids=lambda value: str(value)[:20])
def test_a_stream_is_at_the_optimum_of_its_problem_after_every_change(model, targets, weight):
    gram = GrowingGram(X, gamma=0.5)
    stream = Stream(model, gram.without_points())
    for part in (slice(0, 5), slice(5, 6), slice(6, 12)):
        stream.learn(X[part], targets[part], np.arange(12)[part], weight[part])
        problem, alpha = stream.problem(), stream.alpha()
        h = problem.gradient(alpha)
        nu = -stream.bias / stream.unit
        rho = h - nu * problem.e
        assert problem.infeasibility(alpha) <= 1e-12
        has_weight = problem.upper > 0
        assert (rho[has_weight & (alpha <= 1e-12)] >= -1e-9).all()
        assert (rho[has_weight & (alpha >= problem.upper - 1e-12)] <= 1e-9).all()
        free = (alpha > 1e-12) & (alpha < problem.upper - 1e-12)
        np.testing.assert_allclose(rho[free], 0.0, atol=1e-9)
    weights = problem.reading.coefficients(problem, alpha, float(alpha @ (h + problem.p)))
    np.testing.assert_allclose(stream.coefficients, weights, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: problems.GrowingHinge(np.inf), "C=inf must be a finite number > 0"),
        (lambda: problems.GrowingHinge(0), "C=0"),
        (lambda: problems.GrowingBall(1.5), "nu=1.5"),
        (lambda: problems.GrowingTube(1.0, -0.1), "epsilon=-0.1"),
    ],
)
def test_parameters_out_of_range(make, message):
    with pytest.raises(ProblemError, match=message):
        make()


def test_total_weight_of_a_subset_and_ridge_as_extra_dimension():
    gram = Gram(X, kernel="linear")
    np.testing.assert_allclose(problems.svdd(gram, 0.1, points=100).upper, 0.1, rtol=1e-15)
    # A ridge is one more dimension a point: that of K + diag(r).
    ridge = np.linspace(0.1, 1.0, 12)
    given = problems.svdd(Gram.precomputed(X @ X.T + np.diag(ridge)))
    by_ridge = problems.svdd(gram, ridge=ridge)
    np.testing.assert_allclose(by_ridge.dense(), given.dense(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(by_ridge.p, given.p, rtol=1e-12)
