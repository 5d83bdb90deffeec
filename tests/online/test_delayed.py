"""Delayed updates of the inverse: all are applied before a path returns."""

import numpy as np
import pytest
from dualflow.online._path import COUNT, DELAY
from sklearn.datasets import make_classification

from dualflow import IncrementalSVC
from dualflow.online.bordered import bordered_inverse


def engine_of(model):
    return model._streams[0].engine


def true_inverse(engine):
    S = engine.margin
    return bordered_inverse(engine.matrix.block(S, S), engine.e[S])


@pytest.mark.parametrize("n", [40, 90, 400])
def test_the_inverse_is_complete_after_every_call(n):
    X, y = make_classification(n, random_state=3)
    model = IncrementalSVC(C=10.0, gamma=0.1)
    for k in range(0, n, 20):
        model.partial_fit(X[k : k + 20], y[k : k + 20], classes=[0, 1])
        engine = engine_of(model)
        m = int(engine.counters[COUNT])
        assert engine.waiting[0] == 0
        np.testing.assert_array_equal(np.triu(engine.inverse, 1), 0.0)
        wanted = np.tril(true_inverse(engine))
        np.testing.assert_allclose(engine.inverse[: m + 1, : m + 1], wanted, atol=1e-8 * np.abs(wanted).max())
    if n == 400:
        assert engine.updates > 4 * DELAY  # more than fit into the queue
        assert engine.refactored == 0


def test_points_forgotten_one_by_one_take_their_rows_out():
    X, y = make_classification(150, random_state=5)
    model = IncrementalSVC(C=10.0, gamma=0.1).fit(X, y)
    for k in range(60):
        model.forget([k])
        engine = engine_of(model)
        wanted = np.tril(true_inverse(engine))
        m = len(wanted) - 1
        np.testing.assert_allclose(engine.inverse[: m + 1, : m + 1], wanted, atol=1e-7 * np.abs(wanted).max())


def test_a_kernel_that_raises_while_updates_wait_leaves_none_behind():
    X, y = make_classification(200, random_state=7)
    calls = {"left": np.inf}

    def kernel(A, B):
        calls["left"] -= 1
        if calls["left"] < 0:
            raise ZeroDivisionError
        return np.exp(-0.1 * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    model = IncrementalSVC(C=10.0, kernel=kernel).fit(X[:150], y[:150])
    before = engine_of(model).inverse.copy()
    waited = 0
    for allowed in range(4, 60, 4):
        calls["left"] = allowed
        try:
            model.partial_fit(X[150:], y[150:])
        except ZeroDivisionError:
            waited += 1
        else:
            break
        engine = engine_of(model)
        assert engine.waiting[0] == 0
        m = len(engine.margin) + 1
        np.testing.assert_array_equal(engine.inverse[:m, :m], before[:m, :m])
    assert waited > 3
    calls["left"] = np.inf
    assert model.partial_fit(X[150:], y[150:]).certificate_.relative_gap <= 1e-9
