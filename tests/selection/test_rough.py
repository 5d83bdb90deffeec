"""Tests that first updates in float32 change the way to a solution, but not the solution."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_friedman1

from dualflow import SVC, SVR, SVCSearchCV, SVRSearchCV
from dualflow.selection import _duals
from dualflow.selection._duals import Float32Descent

X, y = make_classification(120, 6, flip_y=0.1, random_state=0)
E = np.where(y > 0, 1.0, -1.0)
K = np.exp(-0.1 * ((X[:, None] - X) ** 2).sum(axis=-1))


def violation(beta, low, high):
    G = K @ beta - E
    return G[beta > low].max() - G[beta < high].min()


@pytest.mark.parametrize("C", [0.1, 1.0, 30.0])
def test_float32_reaches_its_violation_and_stays_feasible(C):
    low, high = np.where(E > 0, 0.0, -C), np.where(E > 0, C, 0.0)
    rough, beta = Float32Descent(K, np.arange(120), np.ones(120)), np.zeros(120)
    G = -E
    assert rough.approach(beta, G, low, high, True)
    np.testing.assert_array_equal(G, -E)
    assert (beta >= low).all()
    assert (beta <= high).all()
    assert abs(beta.sum()) <= 1e-13 * np.abs(beta).sum()
    assert 0 < violation(beta, low, high) <= 2 * _duals.VIOLATION_FLOAT32
    before = beta.copy()
    assert not rough.approach(beta, K @ beta - E, low, high, True)
    np.testing.assert_array_equal(beta, before)


def test_float32_stops_at_round_off_for_large_bounds():
    bounds = np.full(120, 1e6)
    low, high, beta = -bounds, bounds, np.zeros(120)
    Float32Descent(K, np.arange(120), np.ones(120)).approach(beta, -E, low, high, True)
    noise = _duals.NOISE_ULPS * np.finfo(np.float32).eps * 2e6
    assert 0.5 < violation(beta, low, high) <= 2 * noise  # it started at 2 and stopped at the round-off level


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_scores_do_not_depend_on_float32_updates(kind, monkeypatch, one_matrix):
    if kind == "classes":
        search = SVCSearchCV(SVC(), {"C": [0.1, 1.0, 100.0], "gamma": [0.05, 0.5]}, cv=4)
        data = X, y
    else:
        search = SVRSearchCV(SVR(), {"C": [0.1, 10.0], "gamma": [0.05, 0.5]}, cv=4)
        data = make_friedman1(120, random_state=0)
    found, calls = [], []
    approach = Float32Descent.approach
    monkeypatch.setattr(Float32Descent, "approach", lambda *given: calls.append(1) or approach(*given))
    for begin in (10**9, 0):
        monkeypatch.setattr(_duals, "MIN_VARIABLES_FLOAT32", begin)
        calls.clear()
        found.append(search.fit(*data).cv_results_)
        assert bool(calls) == (begin == 0)
    without, with_it = found
    assert with_it["max_relative_gap"].max() <= 1e-6
    for name in without:
        if name.startswith(("split", "mean_test", "std_test")):
            np.testing.assert_allclose(with_it[name], without[name], rtol=0, atol=1e-5 if kind == "values" else 0)
