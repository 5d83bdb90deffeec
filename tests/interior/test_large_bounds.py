"""Radial kernels on one or two smooth features with large bounds: the default takes `interior-point`, and is exact."""

import numpy as np
import pytest

from dualflow import SVC, SVR, Gram, problems, solve
from dualflow.refinement import active_set
from dualflow.solvers.registry import Traits, auto_solver_name, traits_of

EPSILON = 0.1


def smooth(n, m, regression):
    rng = np.random.default_rng(n + m)
    points = rng.uniform(-2, 2, (n, m))
    values = np.sin(2 * points[:, 0]) + (0.5 * np.cos(points[:, 1]) if m > 1 else 0.0)
    if regression:
        return points, values + 0.1 * rng.normal(size=n)
    return points, np.where(values + 0.3 * rng.normal(size=n) > 0, 1, -1)


def posed(points, y, C, regression):
    gram = Gram(points, "rbf", gamma=0.5)
    return problems.svr(gram, y, C=C, epsilon=EPSILON) if regression else problems.svc(gram, y, C)


def gap_by_definition(points, y, C, regression, coefficients, bias):
    """The relative gap between the primal and the dual objective, in extended precision."""
    x, c, y = (np.asarray(value, np.longdouble) for value in (points, coefficients, y))
    assert abs(c.sum()) <= 1e-12 * np.abs(c).sum()
    f = np.zeros(len(x), np.longdouble)
    for k in np.flatnonzero(c):
        f += c[k] * np.exp(-np.longdouble(0.5) * ((x - x[k]) ** 2).sum(axis=1))
    quadratic = c @ f / 2
    f += bias
    if regression:
        dual = y @ c - EPSILON * np.abs(c).sum() - quadratic
        loss = np.maximum(np.abs(y - f) - EPSILON, 0).sum()
    else:
        assert (y * c >= 0).all()
        dual, loss = np.abs(c).sum() - quadratic, np.maximum(1 - y * f, 0).sum()
    assert np.abs(c).max() <= C
    return float((quadratic + C * loss - dual) / abs(dual))


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("m", [1, 2])
def test_the_gap_by_definition_is_small(m, regression):
    points, y = smooth(1200, m, regression)
    model = (SVR(C=1e6, gamma=0.5, epsilon=EPSILON) if regression else SVC(C=1e6, gamma=0.5)).fit(points, y)
    solution = model.solution_ if regression else model.solutions_[0]
    assert solution.provenance["solver"] == "interior-point"
    certificate = model.certificate_
    assert certificate.relative_gap <= 1e-9
    found = gap_by_definition(points, y, 1e6, regression, solution.coefficients, solution.bias)
    # The kernel's values in float64 times C are right to 1e-10: so are the slopes of a hundred free variables.
    assert 0 <= found <= min(1e-8, certificate.relative_gap + certificate.relative_rounding)


@pytest.mark.parametrize("regression", [False, True])
def test_objectives_are_those_of_cvxopt(regression):
    problem = posed(*smooth(150, 1, regression), 1e6, regression)
    found, reference = solve(problem, "interior-point", refine=True), solve(problem, "cvxopt", tol=1e-12)
    assert found.certificate.relative_gap <= 1e-9
    assert found.certificate.objective == pytest.approx(reference.certificate.objective, rel=1e-6)


def test_the_refinement_starts_from_the_gradient_of_the_kernel_itself(monkeypatch):
    problem = posed(*smooth(5000, 1, False), 1e6, False)
    counted = []

    def counting(system, *given):
        counted.append(len(system.members))
        return step(system, *given)

    step = active_set.newton_step
    monkeypatch.setattr(active_set, "newton_step", counting)
    found = solve(problem, "interior-point", refine=True)
    assert found.raw_certificate.relative_gap > 1e-7  # the error of the factor
    assert found.certificate.relative_gap <= 1e-9
    # As many variables are free as one smooth feature has columns. From float32 the first system has over a thousand.
    assert len(counted) <= 20
    assert max(counted) <= 40


def test_a_tube_of_more_variables_than_the_refinement_takes_is_exact_too():
    points, y = smooth(8500, 2, True)
    assert SVR(C=1e4, epsilon=EPSILON).fit(points, y).certificate_.relative_gap <= 1e-10


def test_the_search_goes_on_below_the_bound_of_round_off(monkeypatch):
    problem = posed(*smooth(4000, 2, True), 1e6, True)
    assert solve(problem, "interior-point", refine=True).certificate.relative_gap <= 1e-9
    monkeypatch.setattr(active_set, "_SHARP_GAP", np.inf)
    assert solve(problem, "interior-point", refine=True).certificate.relative_gap > 1e-9


def test_which_solver_is_usual():
    line, plane, short = (Gram(smooth(n, m, False)[0], "rbf", gamma=0.5) for n, m in ((1000, 1), (1000, 2), (400, 2)))
    noise = Gram(np.random.default_rng(0).normal(size=(3000, 6)), "rbf")
    assert auto_solver_name(line, 1000, Traits(bound=1e6)) == "interior-point"
    assert auto_solver_name(plane, 1000, Traits(bound=1e6)) == "interior-point"
    assert auto_solver_name(short, 1000, Traits(bound=1e6)) == "working-set"  # 150 columns of 400 points
    for n, bound in ((999, 1e6), (1000, 9e4), (1000, 0.0), (1000, np.inf)):
        assert auto_solver_name(line, n, Traits(bound=bound)) == "working-set"
    assert auto_solver_name(noise, 3000, Traits(bound=1e6)) == "working-set"
    long = Gram(np.linspace(0.0, 1.0, 20_001)[:, None])
    assert auto_solver_name(long, 20_001, Traits(bound=1e6)) == "working-set"


def test_the_bound_counts_only_if_a_refinement_follows():
    points, y = smooth(1000, 1, False)
    problem = posed(points, y, 1e6, False)
    assert traits_of(problem, "early").bound == traits_of(problem, True).bound == 1e6
    assert traits_of(problem, False).bound == 0.0
    ridge = problems.svc(problem.gram, y, 1e6, loss="squared_hinge")
    assert traits_of(ridge, True).bound == 0.0
