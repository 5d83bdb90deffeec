"""Points far from the origin, whose kernel values hold no digits of their differences: runs end early, and say so."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

from dualflow import Gram, problems, solve
from dualflow.core.pair_certificate import CertificateRow
from dualflow.core.workspace import Workspace
from dualflow.direct import pairs
from dualflow.direct.pairs import PairBatch
from dualflow.working_set import dense
from dualflow.working_set.level import Level


def far(n, m=16, offset=1e5, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((n, m)) < 0.5) + offset


def two_classes(n, seed=0):
    return np.where(np.random.default_rng([seed, 1]).random(n) < 0.5, 1.0, -1.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_run_without_digits_ends_within_few_steps(seed):
    """It took 13 steps, in which α grew by many decades, since rounding makes the matrix indefinite."""
    gram = Gram(far(178, seed=seed), "poly", gamma=4.0, degree=3, coef0=1.0)
    found = solve(problems.svc(gram, two_classes(178, seed), C=4.6e3), "working-set", refine="early")
    assert found.cost.steps <= 3
    assert found.certificate.relative_rounding > 0.1
    assert not found.certificate.within(1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_a_run_goes_over_to_float64_at_once_where_values_are_too_large_for_float32(seed):
    """A matrix with entries of 1e12: it took ten steps in float32, in which the violation did not fall."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(531, 3)) + np.where(rng.random(531) < 0.3, 5.0, 0.0)[:, None]
    t = np.sin(X[:, 1]) + 0.1 * rng.normal(size=531)
    X[:, 0] += 1e6
    K = pairwise_kernels(X, metric="linear")
    found = solve(problems.svr(Gram.precomputed(K), t, C=1e-3, epsilon=2e-3), "working-set", refine="early")
    assert found.cost.steps <= 5
    assert found.certificate.within(1e-6)


def test_what_is_lost_is_told_by_the_sums_of_the_gradient():
    problem = problems.svc(Gram(far(50, offset=0.0), "linear"), two_classes(50), C=1.0)
    level = Level(Workspace(problem), np.zeros(50), np.float64)
    assert not level.has_lost(1e-300, 1.0)  # α = 0
    level.beta[:] = 1e16
    assert level.has_lost(2.0, 1.0)
    assert not level.has_lost(1e4, 1.0)
    assert not level.has_lost(2.0, 1e-3)  # the run makes progress
    assert not Level(Workspace(problem), np.zeros(50), np.float32).has_lost(0.0, 1.0)


def test_pairs_of_classes_without_digits_are_not_solved(monkeypatch):
    """Their results would be refused: pair updates went on to their limit, twice for each pair."""
    near, solved = far(60, offset=0.0), []

    def counted(within, between, listed, *rest):
        solved.append(len(listed))
        return dense.solve_dense_pairs(within, between, listed, *rest)

    monkeypatch.setattr(pairs, "solve_dense_pairs", counted)
    X = np.concatenate([near, far(30, seed=1), far(30, seed=2)])
    groups, upper = np.split(np.arange(120), [30, 60, 90]), np.ones(120)
    batch = PairBatch(Gram(X, "poly", gamma=1.0, degree=2, coef0=1.0), groups, upper, 1e-6)
    # Classes 0 and 1 are near the origin, 2 and 3 far from it: where all points are far, no pair has digits.
    found = [batch[k] is not None for k in range(6)]
    assert found[0]
    assert not found[5]
    assert sum(solved) == 5
    solved.clear()
    alone = PairBatch(Gram(X[60:], "poly", gamma=1.0, degree=2, coef0=1.0), groups[:2], upper[:60], 1e-6)
    assert alone[0] is None
    assert solved == []


def test_a_gap_that_is_a_small_part_of_its_rounding_is_the_least_that_float64_holds():
    def row(gap, rounding):
        fields = dict.fromkeys(CertificateRow._fields, 1.0)
        return CertificateRow(**fields | {"objective": -1.0, "lower_bound": -1.0 - gap, "rounding": rounding})

    assert row(1e-9, 2e-8).meets_tols(1e-10, 1e-6)
    assert not row(1e-9, 2e-9).meets_tols(1e-10, 1e-6)
    assert not row(1e-7, 2e-6).meets_tols(1e-10, 1e-6)
