"""Points that are nearly the same: float32 cannot tell which of them are free, and float64 subproblems find out."""

import numpy as np
import pytest

from dualflow import Gram, problems, solve
from dualflow.core.workspace import Workspace
from dualflow.solvers.working_set import WorkingSet
from dualflow.working_set import dense, descent, level
from dualflow.working_set.level import Level


def copies(n, d=8, seed=0):
    """20 copies of each place, 1e-6 apart, and labels of a noisy score."""
    rng = np.random.default_rng(seed)
    places = rng.standard_normal((n // 20, d))
    X = places[rng.integers(len(places), size=n)] + 1e-6 * rng.standard_normal((n, d))
    return X, np.where(X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n) > 0, 1.0, -1.0)


@pytest.mark.parametrize("C", [10.0, 1e4])
def test_subproblems_by_the_exact_gradient_end_at_the_optimum(C, monkeypatch):
    """A refinement took as long, and ended with gaps of 1e-6. The subproblems hold a fifth of the variables."""
    for module in (dense, descent):
        monkeypatch.setattr(module, "MAX_NEARLY_FREE", 300)
    X, y = copies(1500)
    problem = problems.svc(Gram(X, gamma=0.1), y, C)
    found = solve(problem, WorkingSet(), refine=True, warm=np.zeros(1500))
    assert found.raw_certificate.relative_gap <= 1e-10
    assert not found.refined


def test_one_block_of_all_variables_keeps_the_whole_gradient(monkeypatch):
    """Its variables were shrunk, and changes were added to their gradient twice."""
    monkeypatch.setattr(level, "MIN_BLOCK_WIDTH", 32)
    X, y = copies(400)
    problem = Workspace(problems.svc(Gram(X, gamma=0.1), y, 10.0))
    one = Level(problem, np.zeros(400), np.float64, alone=True)
    for tolerance in (1e-1, 1e-3, 1e-6):
        one.solve_block(tolerance, 10_000)
        one.unshrink()
        np.testing.assert_allclose(one.gradient, problem.gradient(one.alpha), atol=1e-9)
