"""The refinement's steps to the bounds."""

import weakref

import numpy as np
from sklearn.datasets import load_breast_cancer

import dualflow
from dualflow.refinement import active_set
from dualflow.refinement.active_set import advance
from dualflow.refinement.linear_systems import FreeSystem


def test_a_step_that_a_bound_cuts_short_leaves_somebody_at_a_bound():
    """Else the next step is cut short by the same variable, just inside its bound by round-off, and the search ends
    with free variables that are not balanced."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(40, 4)), np.tile([1.0, -1.0], 20)
        problem = dualflow.problems.svc(dualflow.Gram(X, gamma=0.3), y, 10.0)
        alpha = rng.uniform(1, 9, 40)
        alpha[0] = 10.0 - 1e-13 * rng.uniform(0.1, 20)
        alpha[1:] -= y[1:] * (y @ alpha) / 39
        system = FreeSystem(problem, np.arange(40), 1.0)
        step = 1e-3 * rng.normal(size=40)
        step[0] = 7e-4
        step[3] -= y[3] * (y @ step)
        target, _, blocked = advance(system, alpha, -system.product(step), step)
        assert blocked.any()
        assert problem.infeasibility(target) < 1e-11


def test_the_last_system_is_gone_before_the_next_is_made(monkeypatch):
    """Each is two matrices of all free variables: with the last one's, a fit would need half as much memory again."""
    made, left = weakref.WeakSet(), []

    class Watched(FreeSystem):
        def __init__(self, *arguments):
            left.append(len(made))
            made.add(self)
            super().__init__(*arguments)

    monkeypatch.setattr(active_set, "FreeSystem", Watched)
    X, labels = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    problem = dualflow.problems.svc(dualflow.Gram(X, kernel="rbf", gamma=0.1), 2.0 * labels - 1.0, C=1000.0)
    solution = dualflow.solve(problem, "gradient-flow", max_steps=5, refine=True)
    assert solution.certificate.relative_gap < 1e-9
    assert len(left) > 3
    assert not any(left)
