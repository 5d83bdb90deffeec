"""Tests of margins whose inverse is spoilt, singular or of one point, and of a sum eᵀα that has drifted."""

import numpy as np
import pytest
from dualflow.online._path import COUNT, FREE, remove_margin_point
from sklearn.datasets import make_classification

from dualflow import IncrementalSVC
from dualflow.core.certificate import certify
from dualflow.online import optimality, optimum_transfer
from dualflow.online.bordered import bordered_inverse

X, Y = make_classification(120, random_state=3)


def stream_of(n=60):
    model = IncrementalSVC(C=10.0, gamma=0.1).partial_fit(X[:n], Y[:n], classes=[0, 1])
    return model, model._streams[0]


@pytest.mark.parametrize("e", [1.0, -1.0])
def test_a_point_at_the_kernels_origin_is_a_margin(e):
    np.testing.assert_array_equal(bordered_inverse(np.zeros((1, 1)), np.array([e])), [[0.0, e], [e, 0.0]])


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_non_finite_inverse_is_recomputed_when_used(monkeypatch, wrong):
    monkeypatch.setattr(optimality, "_solve_batch", None)  # the batch problem must not be solved
    model, stream = stream_of()
    engine = stream.engine
    m = int(engine.counters[COUNT])
    engine.inverse[: m + 1, : m + 1] = np.tril(np.full((m + 1, m + 1), wrong))
    before = engine.refactored
    engine.near = None
    model.partial_fit(X[60:], Y[60:])
    assert engine.refactored > before
    assert model.certificate_.within(1e-9)


@pytest.mark.parametrize("j", [0, 1])
def test_the_last_of_two_margin_points_has_its_exact_inverse(j):
    _, stream = stream_of()
    engine = stream.engine
    optimum_transfer._set_margin(engine, engine.margin[:2].copy())
    stays = int(engine.margin[1 - j])
    engine.inverse[:3, :3] = np.tril(np.full((3, 3), np.nan))
    remove_margin_point(engine, j)
    assert list(engine.margin) == [stays]
    np.testing.assert_array_equal(np.tril(engine.inverse[:2, :2]), [[-engine.diag[stays], 0.0], [engine.e[stays], 0.0]])


def test_a_singular_margin_is_rejected(monkeypatch):
    _, stream = stream_of()
    engine = stream.engine
    monkeypatch.setattr(
        engine, "refactorise", lambda space: (_ for _ in ()).throw(optimum_transfer.PathError("singular"))
    )
    engine.where[engine.margin] = 0
    assert not optimum_transfer._set_margin(engine, np.array([3, 4]))
    assert len(engine.margin) == 0
    assert not (engine.where == FREE).any()


def test_the_bias_belongs_to_the_reported_weights(monkeypatch):
    _, stream = stream_of()
    engine = stream.engine
    k = int(engine.margin[0])
    engine.alpha[k] += 1e-6
    monkeypatch.setattr(optimality, "tracked_gap", lambda engine: (0.0, 1.0))  # leaves it to a certificate
    optimality._gap(stream, optimality.NO_POINTS)
    assert abs(float(engine.e @ engine.alpha)) <= 1e-13
    everybody = np.arange(stream.n)
    shown = certify(stream.problem_of(everybody), stream.alpha_of(everybody))
    assert engine.b == pytest.approx(-shown.multiplier * stream.unit, abs=1e-14)
