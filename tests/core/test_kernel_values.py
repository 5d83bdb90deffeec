"""Kernels without a value: non-integer powers of negative numbers, and values between no points."""

import numpy as np
import pytest

from dualflow import SVC, SVDD, EcoSVC, Gram, IncrementalSVC, IncrementalSVR, problems, solve
from dualflow.core.growing import GrowingGram
from dualflow.exceptions import ProblemError
from tests.combinations import covering

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(60, 3)), np.tile([0, 1], 30)
BROKEN = {"kernel": "poly", "degree": 2.5}

MODELS = [SVC, SVDD, EcoSVC, IncrementalSVC, IncrementalSVR]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.filterwarnings("error")
def test_a_broken_power_of_a_negative_number_is_refused(model):
    with pytest.raises(ProblemError, match=r"degree=2\.5.*coef0"):
        model(**BROKEN).fit(X, Y)


@pytest.mark.parametrize("make", [Gram, GrowingGram])
@pytest.mark.filterwarnings("error")
def test_so_it_is_where_a_matrix_is_made_or_grows(make):
    for points, options in ((X, {}), (np.abs(X), {"coef0": -9.0}), (X, {"coef0": 0.1})):
        with pytest.raises(ProblemError, match=r"degree=2\.5"):
            make(points, **BROKEN, **options)
    matrix = make(np.abs(X), **BROKEN)
    with pytest.raises(ProblemError, match=r"degree=2\.5"):
        matrix.cross(-np.abs(X[:2]), np.arange(60))
    grown = GrowingGram(np.abs(X), **BROKEN)
    grown.append(-np.abs(X[:1]))
    with pytest.raises(ProblemError, match=r"degree=2\.5"):
        grown.full()


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.filterwarnings("ignore:kernel. the problem's matrix is indefinite")
def test_where_the_base_is_never_negative_it_is_the_power():
    safe = {"gamma": 0.5, "coef0": 0.5 * float((X**2).sum(axis=1).max())}
    for points, options in ((np.abs(X), {"gamma": 0.5, "coef0": 0.0}), (X, safe)):
        expected = (0.5 * points @ points.T + options["coef0"]) ** 2.5
        np.testing.assert_allclose(Gram(points, **BROKEN, **options).full(), expected, rtol=1e-12)
        model = SVC(**BROKEN, **options).fit(points, Y)
        assert np.isfinite(model.decision_function(points)).all()
        with pytest.raises(ProblemError, match=r"degree=2\.5"):
            model.predict(-30.0 * np.abs(X))


def linear(A, B):
    assert len(A), "called without points"
    assert len(B), "called without points"
    return A @ B.T


@pytest.mark.parametrize("model", MODELS)
def test_callables_are_not_called_without_points(model):
    for labels in (Y, np.arange(60) % 3):
        options = {"n_init": 5} if model is EcoSVC else {}
        fitted = model(kernel=linear, **options).fit(X, labels)
        fitted.predict(X[:4])
        if hasattr(fitted, "partial_fit"):
            fitted.partial_fit(X[:1] + 0.5, labels[:1])
    gram = Gram(X, kernel=linear)
    none = np.empty(0, dtype=int)
    assert gram.block(none, np.arange(3)).shape == (0, 3)
    assert gram.block(np.arange(3), none).shape == (3, 0)
    assert gram.cross(X[:0], np.arange(3)).shape == (0, 3)
    assert gram.expand(X[:3], none, np.empty((0, 2))).tolist() == [[0.0, 0.0]] * 3


@pytest.mark.parametrize(("seed", "solver", "epsilon"), covering(range(6), ["working-set", "smo"], [0.0, 1e-300]))
def test_a_tube_of_no_width(seed, solver, epsilon):
    """Both variables of a point may move together; on a matrix that computes kernel rows one point at a time."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(40, 2))
    z = points @ [1.0, 2.0] + (0.1 if seed % 2 else 0.0) * rng.normal(size=40)
    for kernel in ({"kernel": "linear"}, {"kernel": "poly", "degree": 2}, {"kernel": "rbf"}):
        problem = problems.svr(Gram(points, **kernel), z, C=1.0 + seed, epsilon=epsilon)
        solution = solve(problem, solver, refine=True)
        reference = solve(problem, "cvxopt", refine=True)
        size = 1e-6 * max(1.0, abs(reference.certificate.objective))
        assert solution.certificate.objective == pytest.approx(reference.certificate.objective, abs=size)


def test_a_number_that_no_float_holds_is_named():
    with pytest.raises(ProblemError, match=r"degree=1000.* must be finite"):
        Gram([[0.0], [1.0]], "poly", degree=10**400)
