"""The dual bound and its multipliers against a linear program, for bounds of every mixture."""

import numpy as np
import pytest
from scipy.optimize import linprog

from dualflow import DualProblem, Gram, certify, problems
from tests.combinations import covering


def program(problem, alpha):
    """max_ν −½αᵀQα + νd + Σ min(0, uᵢ(hᵢ − νeᵢ)) as a linear program in (ν, s): (value, least ν, greatest ν).

    sᵢ ≥ max(0, νeᵢ − hᵢ) is paid uᵢ a unit; where uᵢ = ∞ it must be 0. None if no ν has a finite value.
    """
    Q, h, e, u, n = problem.dense(), problem.gradient(alpha), problem.e, problem.upper, problem.n
    live = u > 0
    price = np.where(np.isfinite(u), u, 0.0)
    rows = np.column_stack([e, -np.eye(n)])[live]
    bounds = [(None, None)] + [(0, None if np.isfinite(x) else 0) for x in u]
    cost = np.concatenate([[-problem.d], price])
    first = linprog(cost, rows, h[live], bounds=bounds, method="highs")
    if first.status == 2:
        return None
    assert first.status == 0, first.message
    slack = 1e-9 * (1 + abs(first.fun))
    rows, right = np.vstack([rows, cost]), np.append(h[live], first.fun + slack)
    ends = []
    for sign in (1.0, -1.0):
        end = linprog(np.append(sign, np.zeros(n)), rows, right, bounds=bounds, method="highs")
        ends.append(sign * end.fun if end.status == 0 else -sign * np.inf)
    return -0.5 * alpha @ Q @ alpha - first.fun, *ends


def random_problem(seed, infinite, signs):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    e = np.where(rng.random(n) < 0.5, 1.0, -1.0) if signs else np.ones(n)
    upper = rng.integers(0, 4, n).astype(float)  # whole numbers: D has plateaus
    upper[rng.random(n) < infinite] = np.inf
    upper[rng.integers(n)] = 2.0
    inside = np.floor(rng.random(n) * np.where(np.isfinite(upper), upper + 1, 3.0))
    gram = Gram(rng.normal(size=(n, 2)), gamma=0.5)
    # Away from p = 1 on purpose: there a hard margin has a bound of its own.
    return DualProblem(gram, p=rng.normal(size=n), lower=0.0, upper=upper, e=e, d=float(e @ inside), sigma=e), rng


@pytest.mark.parametrize(("infinite", "signs"), covering([0.0, 0.5, 1.0], [False, True], together=1))
def test_bound_and_multipliers_are_the_linear_programs(infinite, signs):
    finite = plateaus = 0
    for seed in range(60):
        problem, rng = random_problem(seed, infinite, signs)
        certificate = certify(problem, rng.normal(size=problem.n) * 2)
        expected = program(problem, certificate.alpha)
        if expected is None:
            assert certificate.lower_bound == -np.inf, seed
            assert certificate.gap == np.inf
            continue
        finite += 1
        value, low, high = expected
        assert certificate.lower_bound == pytest.approx(value, abs=1e-9 * (1 + abs(value))), seed
        # Where D is flat without end (only a corner is feasible) its finite end is given twice.
        found = certificate.multiplier_interval
        assert low - 1e-6 <= found[0] <= found[1] <= high + 1e-6, seed
        if np.isfinite([low, high]).all():
            plateaus += high - low > 1e-3
            assert found == pytest.approx((low, high), abs=1e-6), seed
    assert finite >= 20
    assert plateaus >= 1 or infinite == 1.0


def test_a_slope_of_1e12_is_a_slope():
    """u = (1, 1), d = 1 + 1e-12: D still rises between the two knots, so its maximiser is the upper one alone."""
    problem = DualProblem(Gram(np.array([[0.0], [5.0]])), p=[1.0, 0.0], lower=0.0, upper=1.0, e=[1, 1], d=1 + 1e-12)
    certificate = certify(problem, [1.0, 1e-12])
    upper_knot = problem.gradient(certificate.alpha).max()
    assert certificate.multiplier_interval == pytest.approx((upper_knot, upper_knot), abs=1e-9)


@pytest.mark.parametrize("build", [problems.svdd, lambda g: problems.svc(g, [1, -1] * 6, loss="squared_hinge")])
def test_on_the_simplex_the_multiplier_is_the_least_gradient(build):
    rng = np.random.default_rng(3)
    problem = build(Gram(rng.normal(size=(12, 2)), gamma=0.5))
    certificate = certify(problem, rng.random(12))
    least = problem.gradient(certificate.alpha).min()
    assert certificate.multiplier_interval == pytest.approx((least, least), rel=1e-12)
