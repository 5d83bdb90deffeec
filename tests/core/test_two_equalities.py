"""Problems with two equalities: feasibility, projections, and certificates of any α."""

import numpy as np
import pytest

from dualflow import DualProblem, Gram, Kind, ProblemError, SolverMismatch, certify, problems, solve
from dualflow.core.bounds import level_of

RNG = np.random.default_rng(11)
X = RNG.normal(size=(30, 3))
LABELS = np.where(np.arange(30) % 3 == 0, 1, -1)
NU_SVC = problems.nu_svc(Gram(X), LABELS, 0.5, sample_weight=RNG.uniform(0.5, 2.0, 30))
NU_SVR = problems.nu_svr(Gram(X), X[:, 0] ** 2, 4.0, nu=0.3)


def custom(**changes):
    given = {"p": np.zeros(4), "lower": 0.0, "upper": 1.0, "e": np.array([1.0, 1.0, -1.0, -1.0]), "total": 2.0}
    return DualProblem(Gram(np.eye(4), "linear"), **given | changes)


def test_the_kind_and_what_both_sides_sum_to():
    problem = custom(d=0.5)
    assert problem.kind is Kind.TWO_EQUALITIES
    assert [wanted for _, wanted in problem.groups] == [1.25, 0.75]
    assert problem.infeasibility(np.array([1.0, 0.25, 0.5, 0.25])) == 0.0
    assert problem.infeasibility(np.array([1.0, 0.5, 0.5, 0.25])) == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"e": None}, "give the first one"),
        ({"upper": np.inf}, "finite bounds"),
        ({"total": np.nan}, "finite"),
        ({"total": 4.5}, "no α is feasible"),
        ({"total": 1.0, "d": 1.5}, "no α is feasible"),
    ],
)
def test_what_is_infeasible_is_refused(changes, words):
    with pytest.raises(ProblemError, match=words):
        custom(**changes)


@pytest.mark.parametrize("problem", [NU_SVC, NU_SVR], ids=["nu-SVC", "nu-SVR"])
def test_projections_are_the_nearest_feasible_points(problem):
    point = RNG.normal(size=problem.n)
    nearest = problem.project(point)
    assert problem.infeasibility(nearest) <= 1e-12 * problem.total
    for _ in range(20):  # a projection makes an obtuse angle with every feasible point
        other = problem.project(RNG.uniform(0.0, problem.upper))
        assert (point - nearest) @ (other - nearest) <= 1e-9 * problem.total**2


@pytest.mark.parametrize("problem", [NU_SVC, NU_SVR], ids=["nu-SVC", "nu-SVR"])
def test_the_bound_of_any_point_is_below_the_optimum_and_best_in_both_multipliers(problem):
    optimum = solve(problem, "cvxopt", tol=1e-12).certificate.objective
    for _ in range(20):
        alpha = problem.project(RNG.uniform(0.0, problem.upper))
        found = certify(problem, alpha)
        assert found.lower_bound <= optimum + 1e-9 * abs(optimum)
        assert found.gap >= found.objective - optimum - 1e-9
        h, level = problem.gradient(alpha), level_of(problem, problem.matvec(alpha))
        assert found.level == level

        def bound(nu, mu, h=h, alpha=alpha):
            rho = h - nu * problem.e - mu
            linear = nu * problem.d + mu * problem.total + problem.upper @ np.minimum(rho, 0.0)
            return linear - 0.5 * float(alpha @ problem.matvec(alpha))

        assert bound(found.multiplier, level) == pytest.approx(found.lower_bound)
        others = RNG.normal(size=(50, 2)) * [0.5, 0.5] + [found.multiplier, level]
        assert max(bound(*other) for other in others) <= found.lower_bound + 1e-9 * abs(found.lower_bound)


def test_a_level_gives_the_problem_of_one_equality_with_the_same_optimum():
    best = solve(NU_SVC, tol=1e-10)
    one = NU_SVC.at_level(best.certificate.level)
    assert one.kind is Kind.BOX_EQUALITY
    assert one.total is None
    found = solve(one, refine=True)
    np.testing.assert_allclose(found.alpha, best.alpha, atol=1e-8)
    lifted = found.certificate.objective + best.certificate.level * NU_SVC.total
    assert lifted == pytest.approx(best.certificate.objective)


@pytest.mark.parametrize("solver", ["working-set", "smo", "gradient-flow", "frank-wolfe"])
def test_solvers_of_one_equality_refuse_and_name_one_of_two(solver):
    with pytest.raises(SolverMismatch, match=r"box with two equalities.*use 'level-search'"):
        solve(NU_SVC, solver)
