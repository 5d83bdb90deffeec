"""The pieces of `papers/cauwenberghs_poggio` against what does not know them."""

import csv
import sys

import numpy as np
import pytest
from sklearn.svm import SVC

from benchmarks.lib import cauwenberghs_poggio as looks
from benchmarks.papers import cauwenberghs_poggio as paper
from dualflow import IncrementalSVC

GAMMA = 0.5


@pytest.fixture(scope="module")
def learned():
    X, y = looks.points("clouds", 1, 40)
    return IncrementalSVC(C=looks.C, gamma=GAMMA).fit(X, y), X, y, looks.kernel(X, X, GAMMA)


@pytest.mark.parametrize("kind", looks.SETS)
def test_sets_have_both_classes_and_come_again_by_their_seed(kind):
    X, y = looks.points(kind, 3)
    assert X.shape == (100, 2)
    assert set(y) == {-1.0, 1.0}
    assert np.array_equal(X, looks.points(kind, 3)[0])
    assert not np.array_equal(X, looks.points(kind, 4)[0])


def test_cvxopt_is_libsvm(learned):
    _, X, y, K = learned
    alpha, b = looks.by_cvxopt(K, y)
    peer = SVC(C=looks.C, gamma=GAMMA, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(K @ (alpha * y) + b, peer.decision_function(X), atol=1e-5)
    held, _ = looks.by_cvxopt(K, y, (0, 1.25))
    assert held[0] == pytest.approx(1.25)


def test_a_violation_is_seen_where_there_is_one(learned):
    model, _, y, K = learned
    alpha, b = looks.weights(model, len(y)), float(model.intercept_[0])
    assert looks.violation(K, y, alpha, b) < 1e-9
    assert looks.violation(K, y, alpha, b + 0.01) > 0.009
    c = int(model.support_[0])
    alpha[c] *= 0.5
    assert looks.violation(K, y, alpha, b, but=c) > 0.01  # Σ yα is off too


def test_a_margin_left_out_is_the_end_of_its_trajectory(learned):
    model, X, y, _ = learned
    exact = model.leave_one_out()
    for c in np.sort(model.support_)[::4]:
        line = looks.unlearned(model, int(c))
        rest = np.delete(np.arange(len(y)), c)
        peer = SVC(C=looks.C, gamma=GAMMA, tol=1e-10).fit(X[rest], y[rest])
        margin = y[c] * peer.decision_function(X[c : c + 1])[0] - 1
        assert line[-1, 0] == 0.0
        assert exact.margins[c] == pytest.approx(margin, abs=1e-5)
        if np.abs(peer.dual_coef_).min() < looks.C - 1e-6:  # else the bias has room
            assert line[-1, 1] == pytest.approx(margin, abs=1e-5)


def test_gamma_is_the_first_slope(learned):
    model, _, y, K = learned
    alpha = looks.weights(model, len(y))
    free = np.flatnonzero((alpha > 0) & (alpha < looks.C))
    found = looks.Found()
    looks.trajectories(found, model, K, y, 2)
    assert len(found.gammas) >= len(free)
    assert max(found.gammas) < 1e-8
    assert min(found.slopes) > -1e-8
    assert max(found.held) < 1e-5


def test_the_squared_distance_is_that_of_a_line_in_the_plane():
    P = np.array([[0.0, 0.0], [1.0, 0.0], [0.3, 2.0]])
    assert looks.distance(P @ P.T, np.array([0, 1]), 2) == pytest.approx(4.0)
    assert looks.distance(P @ P.T, np.array([0]), 1) == pytest.approx(1.0)


def test_the_quick_run_finds_all_but_the_curves(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["cp", "--quick", "--csv", str(tmp_path), "--plot", str(tmp_path / "plots")])
    monkeypatch.setattr(paper, "READINGS", {"γ = 1": 1.0})
    monkeypatch.setattr(paper, "SETS", ("clouds",))
    assert paper.main(paper.TITLE, paper.__doc__, paper.find) == 0
    with (tmp_path / "papers" / "cauwenberghs_poggio.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    verdicts = {line["what"].split(", γ")[0]: line["verdict"] for line in lines}
    assert verdicts["the curves themselves"] == "not reproducible"
    assert verdicts["all points seen, at every breakpoint"] == verdicts["margin without a point"] == "match"
    assert max(len(cell) for line in lines for cell in line.values()) <= 120
    assert len(list((tmp_path / "plots").glob("*.png"))) == 2
