"""DualProblem against the definition written out densely; its projection against a quadratic program."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dualflow import DualProblem, Gram, Kind, ProblemError, problems
from dualflow.core.problem import project_onto
from dualflow.testing.reference import QuadraticProgram, coneqp_optimum, rbf_kernel

RNG = np.random.default_rng(1)
X = RNG.normal(size=(12, 3))
Y = np.where(np.arange(12) % 2, 1.0, -1.0)
Z = RNG.normal(size=12)
K = rbf_kernel(X, 0.4)
S = np.diag(Y)
TWICE = np.block([[K, -K], [-K, K]])


def gram():
    return Gram(X, gamma=0.4)


#: model → (problem, Q, p, u, kind), the rows of the table in the documentation of `DualProblem`
ROWS = {
    "hinge": (lambda: problems.svc(gram(), Y, 2.0), S @ K @ S, np.ones(12), 2.0, Kind.BOX_EQUALITY),
    "hard margin": (lambda: problems.svc(gram(), Y, np.inf), S @ K @ S, np.ones(12), np.inf, Kind.ORTHANT_EQUALITY),
    "no bias": (lambda: problems.svc(gram(), Y, 2.0, fit_intercept=False), S @ K @ S, np.ones(12), 2.0, Kind.BOX),
    "squared hinge": (
        lambda: problems.svc(gram(), Y, 2.0, loss="squared_hinge"),
        S @ (K + 1) @ S + np.eye(12) / 4,
        np.zeros(12),
        np.inf,
        Kind.SIMPLEX,
    ),
    "svdd": (lambda: problems.svdd(gram()), 2 * K, np.ones(12), np.inf, Kind.SIMPLEX),
    "soft svdd": (lambda: problems.svdd(gram(), 0.5), 2 * K, np.ones(12), 1 / 6, Kind.CAPPED_SIMPLEX),
    "one-class": (lambda: problems.one_class(gram(), 0.25), K, np.zeros(12), 1 / 3, Kind.CAPPED_SIMPLEX),
    "least squares": (
        lambda: problems.least_squares(gram(), Y, 4.0),
        S @ K @ S + np.eye(12) / 4,
        np.ones(12),
        np.inf,
        Kind.AFFINE,
    ),
    "svr": (
        lambda: problems.svr(gram(), Z, 3.0, epsilon=0.2),
        TWICE,
        np.concatenate([Z - 0.2, -Z - 0.2]),
        3.0,
        Kind.BOX_EQUALITY,
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_every_row_of_the_table(row):
    build, Q, p, u, kind = ROWS[row]
    problem = build()
    n = len(p)
    v = np.random.default_rng(2).normal(size=n)
    J, rows = [n - 1, 0, 5], [2, n - 1]
    assert problem.kind is kind
    np.testing.assert_allclose(problem.p, p)
    np.testing.assert_allclose(problem.upper, np.full(n, u))
    np.testing.assert_allclose(problem.columns(J), Q[:, J], atol=1e-12)
    np.testing.assert_allclose(problem.block(rows, J), Q[np.ix_(rows, J)], atol=1e-12)
    np.testing.assert_allclose(problem.diag(), np.diag(Q), atol=1e-12)
    np.testing.assert_allclose(problem.matvec(v), Q @ v, atol=1e-11)
    np.testing.assert_allclose(problem.dense(), Q, atol=1e-12)
    assert problem.objective(v) == pytest.approx(0.5 * v @ Q @ v - p @ v, abs=1e-10)
    np.testing.assert_allclose(problem.gradient(v), Q @ v - p, atol=1e-11)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), signs=st.booleans(), infinite=st.booleans())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_projection_is_the_nearest_feasible_point(seed, n, signs, infinite):
    rng = np.random.default_rng(seed)
    e = np.where(rng.random(n) < 0.5, 1.0, -1.0) if signs else np.ones(n)
    upper = rng.uniform(0.1, 2.0, n)
    if infinite:
        upper[rng.random(n) < 0.5] = np.inf
    inside = rng.uniform(0, 1, n) * np.where(np.isfinite(upper), upper, 1.0)
    d, alpha = float(e @ inside), rng.normal(size=n) * 3
    found = project_onto(alpha, np.zeros(n), upper, e, d)
    _, reference = coneqp_optimum_of_distance(alpha, upper, e, d)
    assert np.all(found >= 0)
    assert np.all(found <= upper)
    assert e @ found == pytest.approx(d, abs=1e-12 * max(1.0, np.abs(found).sum()))
    assert np.linalg.norm(found - alpha) <= np.linalg.norm(reference - alpha) + 1e-6
    np.testing.assert_allclose(found, reference, atol=2e-4)


def coneqp_optimum_of_distance(alpha, upper, e, d):
    """Nearest point as a quadratic program; f* is kept away from 0 so that its relative closure means something."""
    n = len(alpha)
    program = QuadraticProgram(np.eye(n), alpha + 10.0 * e, upper, e, d)  # + 10e only adds the constant 10d
    return coneqp_optimum(program)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"d": 100.0}, "feasible"),
        ({"upper": np.full(12, -1.0)}, "upper"),
        ({"lower": np.full(12, 0.5)}, "lower"),
        ({"e": np.full(12, 0.5)}, "e must"),
        ({"sigma": np.zeros(12)}, "sigma"),
        ({"ridge": np.full(12, -1.0)}, "ridge"),
        ({"p": np.full(12, np.nan)}, "NaN"),
        ({"scale": 0.0}, "scale"),
        ({"idx": np.full(12, 99)}, "idx"),
        ({"upper": np.ones(5)}, "shape"),
    ],
)
def test_ill_posed_problems_are_refused(change, match):
    arguments = {"p": np.ones(12), "lower": np.zeros(12), "upper": np.ones(12), "e": Y} | change
    with pytest.raises(ProblemError, match=match):
        DualProblem(gram(), **arguments)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: problems.svc(gram(), Y, 0.0), "C="),
        (lambda: problems.svc(gram(), Y, np.nan), "C="),
        (lambda: problems.svc(gram(), np.ones(12)), "class"),
        (lambda: problems.svc(gram(), Y[:5]), "shape"),
        (lambda: problems.svc(gram(), np.arange(12)), "−1 and"),
        (lambda: problems.svc(gram(), Y, loss="log"), "loss"),
        (lambda: problems.svc(gram(), Y, sample_weight=-np.ones(12)), "sample_weight"),
        (lambda: problems.svc(gram(), Y, sample_weight=np.zeros(12)), "zero for every"),
        (lambda: problems.svc(gram(), Y, sample_weight=(Y > 0) * 1.0), "class"),
        (lambda: problems.svdd(gram(), 0.0), "nu"),
        (lambda: problems.svdd(gram(), 1.5), "nu"),
        (lambda: problems.one_class(gram(), None), "nu"),
        (lambda: problems.least_squares(gram(), Y, np.inf), "finite"),
        (lambda: problems.svr(gram(), Z, epsilon=-1.0), "epsilon"),
    ],
)
def test_bad_parameters_are_named(call, match):
    with pytest.raises(ProblemError, match=match):
        call()


def test_arrays_of_a_problem_are_read_only():
    problem = problems.svc(gram(), Y)
    with pytest.raises(ValueError, match="read-only"):
        problem.p[0] = 5.0


def test_weights_of_zero_leave_the_other_points_problem():
    """Weight 0 equals leaving the point out."""
    weight = np.ones(12)
    weight[[0, 1]] = 0.0
    whole = problems.svc(gram(), Y, 2.0, sample_weight=weight)
    part = problems.svc(Gram(X[2:], gamma=0.4), Y[2:], 2.0)
    found, _ = coneqp_optimum(QuadraticProgram(whole.dense(), whole.p, whole.upper + 1e-300, whole.e))
    expected, _ = coneqp_optimum(QuadraticProgram(part.dense(), part.p, part.upper, part.e))
    assert found == pytest.approx(expected, rel=1e-8)
