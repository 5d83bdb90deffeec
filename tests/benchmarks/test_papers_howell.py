"""The pieces of `papers/howell` against what does not know them."""

import csv
import sys

import numpy as np
import pytest
from cvxopt import matrix, solvers

from benchmarks.lib import howell
from benchmarks.papers import howell as paper
from dualflow import SVC

GAMMA, C = 2.0, 10.0


def test_howells_boundaries():
    X = np.array([[0.49, 0.25], [0.51, 0.25], [0.51, 0.75], [0.61, 0.25]])
    assert howell.below(X, 0.0).tolist() == [1, -1, -1, -1]
    assert howell.below(X, 0.1).tolist() == [1, 1, -1, -1]


def test_with_everybody_remembered_a_stream_ends_as_the_batch(monkeypatch):
    monkeypatch.setattr(howell.Corrected, "reserve", np.inf)
    stream = howell.Stream("tiny", 4, 0.0, 2, 60, 10, 50, howell.HARD)
    found = howell.followed(stream, 0, "corrected")
    assert found["looks"][-1, 1:].tolist() == list(found["batch"])


def test_the_similarity_of_centres_rises_to_one():
    looks = howell.ball(0, 3, 60, 20)["looks"]
    assert (looks[:, 2] <= 1 + 1e-12).all()
    assert looks[-1, 2] > looks[0, 2]


def solved(X, y):
    """α and b of the C-SVM by cvxopt."""
    n = len(y)
    K = np.exp(-GAMMA * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    bounds = np.vstack([-np.eye(n), np.eye(n)]), np.concatenate([np.zeros(n), np.full(n, C)])
    program = [K * np.outer(y, y), -np.ones(n), *bounds, y[None].astype(float), np.zeros(1)]
    options = {"show_progress": False, "abstol": 1e-12, "reltol": 1e-12, "feastol": 1e-12}
    found = solvers.qp(*map(matrix, program), options=options)
    return np.array(found["x"]).ravel(), float(found["y"][0])


@pytest.mark.parametrize("rule", ["corrected", "published"])
def test_a_step_is_that_of_the_rule_and_a_quadratic_program(rule):
    # A stream written out: who invades, by the formula, and the new equilibrium of survivors and invader by cvxopt.
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(70, 2))
    y = howell.below(X, 0.1)
    learner = howell.RULES[rule](20, {"gamma": GAMMA, "C": C})
    learner.begin(X[:20], y[:20])
    V, t = X[:20], y[:20]
    alpha, b = solved(V, t)
    V, t, alpha = V[alpha > 1e-6], t[alpha > 1e-6], alpha[alpha > 1e-6]
    turned = 0
    for k in range(20, 70):
        row = np.exp(-GAMMA * ((V - X[k]) ** 2).sum(axis=1))
        invades = y[k] * (row @ (alpha * t) + b) < 1
        if rule == "published":
            near = int(np.argmin((alpha - C / 2) ** 2))
            pivot = np.exp(-GAMMA * ((V - V[near]) ** 2).sum(axis=1))
            says = 1 - y[k] * t[near] + y[k] * float(t @ (pivot - row)) >= 0
            turned += invades and not says
            invades = says
        if invades:
            V, t = np.vstack([V, X[k]]), np.append(t, y[k])
            alpha, b = solved(V, t)
            V, t, alpha = V[alpha > 1e-6], t[alpha > 1e-6], alpha[alpha > 1e-6]
        learner.meet(X[k : k + 1], y[k : k + 1])
        assert learner.counts()[0] == (alpha > howell.THRESHOLD).sum(), k
    Z = rng.uniform(size=(30, 2))
    K = np.exp(-GAMMA * ((Z[:, None] - V[None]) ** 2).sum(axis=2))
    if rule == "published":
        inside = np.exp(-GAMMA * ((V[:, None] - V[None]) ** 2).sum(axis=2))
        b = float((t - inside @ (alpha * t)).mean())
        assert (learner.wrong, learner.met) == (turned, 50)
        assert turned > 0
    np.testing.assert_allclose(learner.values(Z), K @ (alpha * t) + b, atol=1e-3)


def test_the_published_test_on_a_linear_kernel_counts_whom_it_turns_away():
    stream = howell.Stream("tiny", 5, 0.1, 2, 60, 10, 50, {"kernel": "linear", "C": 10.0})
    found = howell.followed(stream, 1, "published")
    assert found["learner"].met == 50
    assert 0 <= found["learner"].wrong < 50


def test_small_digits_are_split_and_scaled():
    task = howell.small_digits()
    assert len(task.y) + len(task.t) == 363
    X, Z = task.scaled("standardised")
    np.testing.assert_allclose(X.std(axis=0)[task.X.std(axis=0) > 0], 1.0)
    assert X.shape[1] == Z.shape[1] == 64
    assert task.scaled("pixels in [0, 1]")[0].max() == 1.0
    assert len(set(task.y[task.order(0, 40)[: howell.DIGITS_FIRST]])) == 2


def test_mnist_comes_from_a_folder(tmp_path):
    rng = np.random.default_rng(0)
    arrays = {}
    for part, n in (("train", 20), ("test", 10)):
        arrays |= {f"x_{part}": rng.integers(0, 256, (n, 28, 28), dtype=np.uint8), f"y_{part}": np.tile([1, 4], n // 2)}
    np.savez(tmp_path / "mnist_1_4.npz", **arrays)
    task = howell.mnist(str(tmp_path))
    assert task.X.shape == (20, 784)
    assert task.t.tolist() == [1, -1] * 5
    assert task.parameters == {"C": 5.321, "gamma": 1 / 784}


def test_the_dual_with_the_printed_sum_is_not_the_widest_margin():
    X, y = howell.STREAMS[1].points(0, 40)
    exact = paper.margin(X, y, SVC(kernel="linear", C=np.inf).fit(X, y).coef_[0])
    assert paper.margin(X, y, paper.hard_margin(X, y, 0.0)) == pytest.approx(exact, rel=1e-6)
    assert paper.margin(X, y, paper.hard_margin(X, y, 1.0)) < 0.99 * exact


@pytest.mark.parametrize(
    ("accuracy", "active", "verdict"),
    [(97.8, 100, "match"), (97.1, 85, "match"), (99.5, 100, "mismatch"), (97.8, 300, "mismatch")],
)
def test_the_claim_takes_both_the_accuracy_and_the_number(accuracy, active, verdict):
    looks = np.tile([[600.0, accuracy / 100, active + 5, active]], (4, 1, 1))
    looks[:, -1, 1] += [-1e-4, 1e-4, -1e-4, 1e-4]
    task = howell.Digits(*[np.zeros((2, 2))] * 4, what="MNIST")
    found = paper.end_row(task, "standardised", "published", looks)
    assert found.verdict == verdict
    assert found.seed == 0


@pytest.mark.slow
def test_the_quick_run_says_what_it_was_made_of(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["howell", "--quick", "--csv", str(tmp_path), "--plot", str(tmp_path / "plots")])
    monkeypatch.setattr(paper, "STREAMS", [howell.STREAMS[0], howell.STREAMS[2]])
    assert paper.main(paper.TITLE, paper.__doc__, paper.find) == 0
    assert "mismatch" in capsys.readouterr().out
    with (tmp_path / "papers" / "howell.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    digits = [line for line in lines if line["where"] == "figure 3"]
    assert all("8 x 8 digits" in line["what"] for line in digits)
    assert {f"figure {k}" for k in (2, 3, 4, 5, 7, 8)} <= {line["where"] for line in lines}
    assert max(len(cell) for line in lines for cell in line.values()) <= 120
    assert len(list((tmp_path / "plots").glob("*.png"))) == 7
    assert (tmp_path / "papers" / "howell_rows.csv").exists()
