"""`Solution.summary`: its numbers against independent computations, and the sentence that fits the result."""

import re

import numpy as np
import pytest
from sklearn.datasets import make_moons

from dualflow import SVC, Gram, ProblemError, Solution, certify, problems, solve
from dualflow.comparison import shot_floor
from dualflow.core.certificate import Certifier
from dualflow.core.shot_floor import sampled

X = np.array([[0.0, 0.1], [1.0, 0.3], [0.2, 2.0], [3.0, 1.0], [2.0, 2.5], [1.5, 0.7], [0.4, 1.4], [2.6, 0.2]])
Y = np.where(X[:, 0] > 1, 1.0, -1.0)


def ball():
    return problems.svdd(Gram(X, gamma=0.5))


def number(text, name):
    return float(re.search(rf"^  {name} +(\S+)", text, flags=re.MULTILINE)[1])


def test_a_sampled_result_shows_gap_excess_and_floors():
    found = solve(ball(), "variational-flow", device="emulator", shots=1000, random_state=0)
    text = found.summary()
    best = solve(ball(), "cvxopt", tol=1e-10)
    f = best.certificate.objective
    assert number(text, "raw gap") == pytest.approx(found.raw_certificate.relative_gap, rel=0.05)
    assert number(text, "excess") == pytest.approx((found.raw_certificate.objective - f) / abs(f), rel=0.1)
    floor = shot_floor(ball(), best.alpha, found.cost.shots)
    assert 0.5 < number(text, "floor of gap") / floor < 2
    assert "41,000 shots" in text
    assert "Read the excess beside its floor" in text
    assert max(map(len, text.splitlines())) <= 110


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"shots": 10_000}, "as good as its shots allow"),
        ({"shots": 10_000, "steps": 2}, "not limited by its shots"),
        ({"shots": 1000, "device": "null"}, "Read the status"),
        ({}, "Read the raw gap"),
    ],
)
def test_the_last_sentence_names_the_number_to_read(options, sentence):
    found = solve(ball(), "variational-flow", random_state=0, **{"device": "emulator"} | options)
    assert sentence in " ".join(found.summary().split())


def test_the_floor_is_that_of_the_solver_s_read_out():
    """α of a box circuit is read index by index, with other noise than a distribution of all shots."""
    problem = problems.one_class(Gram(X, gamma=0.5), nu=0.15)
    run = {"device": "emulator", "shots": 1000, "random_state": 0}
    found = solve(problem, "variational-lotka-volterra", **run)
    assert found.provenance["encoding"] == "box"
    best = solve(problem, tol=1e-9, refine=True)
    certifier, gaps = Certifier(problem), {}
    for name in ("simplex", "box"):
        rngs = map(np.random.default_rng, range(11))
        draws = [sampled(problem, best.alpha, found.cost.shots, rng, name) for rng in rngs]
        gaps[name] = np.median([certifier.certify(draw).relative_gap for draw in draws])
    assert number(found.summary(), "floor of gap") == pytest.approx(gaps["box"], rel=0.05)
    assert gaps["box"] > 1.5 * gaps["simplex"]


@pytest.mark.parametrize(
    ("problem", "sign"),
    [
        (problems.svc(Gram(X, gamma=0.5), Y, C=10.0), -1),
        (problems.svc(Gram(X, gamma=0.5), Y, C=10.0, fit_intercept=False), -1),
        (problems.svr(Gram(X, gamma=0.5), X[:, 1], C=10.0), -1),
        (problems.svdd(Gram(X, gamma=0.5)), -1),
        (problems.svc(Gram(X, gamma=0.5), Y, C=10.0, loss="squared_hinge"), 1),
        (problems.one_class(Gram(X, gamma=0.5), nu=0.3), 1),
    ],
    ids=["svc", "box", "svr", "svdd", "squared hinge", "one class"],
)
def test_what_a_relative_gap_bounds(problem, sign):
    """Below 1: excess ≤ gap/(1 − gap), and ≤ gap if f* < 0. From 1 on, f and its bound differ in sign: nothing."""
    rng, optimum = np.random.default_rng(0), solve(problem, "cvxopt", tol=1e-10, refine=True).certificate
    assert np.sign(optimum.objective) == sign
    found = []
    for scale in np.repeat([1e-4, 1e-3, 1e-2, 0.1, 0.3, 1.0, 10.0], 30):
        one = certify(problem, optimum.alpha + scale * rng.normal(size=problem.n))
        share = max(abs(one.objective), abs(one.lower_bound))
        assert (one.objective - optimum.objective) / share <= one.relative_gap * (1 + 1e-9) + 1e-12
        excess = (one.objective - optimum.objective) / abs(optimum.objective)
        assert (one.relative_gap >= 1) == (one.objective * one.lower_bound <= 0)
        found.append((one.relative_gap, excess))
    gap, excess = np.array(found).T
    below = gap < 1
    assert below.sum() > 20
    bound = gap[below] / (1 - gap[below]) if sign > 0 else gap[below]
    assert (excess[below] <= bound * (1 + 1e-9) + 1e-12).all()
    if (~below).any():
        assert gap.max() <= 2


def test_a_gap_from_one_on_is_said_to_bound_no_excess():
    problem = problems.svc(Gram(X, gamma=0.5), Y, C=100.0, loss="squared_hinge")
    found = solve(problem, "variational-flow", device="null", shots=100, steps=3, random_state=0)
    text = found.summary()
    assert number(text, "raw gap") >= 1
    assert number(text, "excess") > number(text, "raw gap")
    assert "it bounds no excess" in text
    assert "it bounds no excess" not in solve(problem, "variational-flow", device="emulator").summary()


def test_a_reference_of_the_user_s_is_taken():
    found = solve(ball(), "variational-flow", device="emulator", shots=1000, random_state=0)
    assert "by frank-wolfe" in found.summary(solve(ball(), "frank-wolfe"))
    worse = found.summary(solve(ball(), "frank-wolfe", max_steps=1))
    assert number(worse, "excess") == 0.0  # the better one of the two is the best known
    with pytest.raises(ProblemError, match="reference has 2 variables"):
        found.summary(solve(problems.svdd(Gram([[0.0], [1.0]]))))


def test_a_refined_result_is_shown_beside_the_raw_one():
    found = solve(ball(), "variational-flow", device="emulator", shots=1000, random_state=0, refine=True)
    text = found.summary()
    assert "by the refinement" in text
    assert number(text, "refined gap") < 1e-9 < number(text, "raw gap")


def test_classical_results_need_no_second_solve(monkeypatch):
    monkeypatch.setattr(Solution, "solve_classically", None)
    text = solve(ball()).summary()
    assert "excess" not in text
    assert "how far the answer is from the optimum" in text
    monkeypatch.undo()
    assert number(solve(ball(), "gradient-flow", max_steps=1).summary(), "excess") > 0


def test_without_a_gap_the_objective_is_shown():
    K = np.random.default_rng(0).normal(size=(8, 8))
    text = solve(problems.svc(Gram.precomputed(K + K.T), Y), "smo").summary()
    assert "no gap is certified: Q is indefinite" in text
    assert "Read the objective beside those of other solvers" in text


def test_a_model_without_its_data_says_how_to_keep_them():
    import pickle

    model = SVC(solver="smo").fit(X, Y)
    with pytest.raises(ProblemError, match="keep_training_data"):
        pickle.loads(pickle.dumps(model)).solution_.summary()
    assert "Read the raw gap" in model.solution_.summary()


def test_far_below_the_floor_the_text_does_not_say_that_shots_limit_it():
    points, labels = make_moons(16, noise=0.1, random_state=1)
    problem = problems.svc(Gram(points[:8], gamma=1.0), 2 * labels[:8] - 1, C=1.0)
    text = solve(problem, "hamiltonian-descent", device="emulator", shots=1000, random_state=0).summary()
    assert "far below what counts" in " ".join(text.split())
    assert "as good as its shots allow" not in text
