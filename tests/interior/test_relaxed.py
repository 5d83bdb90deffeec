"""The relaxation of `Reduced`: its minimiser for one δ, its limit, ties at the margin, and what follows a failure."""

from __future__ import annotations

import numpy as np
import pytest
from dualflow.interior._passes import Relaxation
from sklearn.svm import SVC

from dualflow import Gram, problems, solve
from dualflow.core.features import Features
from dualflow.interior import reduced
from dualflow.interior.low_rank import LowRank

RNG = np.random.default_rng(11)
X = RNG.normal(size=(3000, 6)) + 3.0
SCORE = X[:, 0] - X[:, 1] + 0.7 * RNG.normal(size=len(X))
LABELS = np.where(SCORE > 0, 1, -1)
RARE = np.where(np.arange(len(X)) % 100 == 0, 1, -1)
POSED = {
    "hinge": lambda: problems.svc(Gram(X, "linear"), LABELS, 0.5),
    "hinge, C = 1e4": lambda: problems.svc(Gram(X, "linear"), LABELS, 1e4),
    "weights": lambda: problems.svc(Gram(X, "linear"), LABELS, 0.5, sample_weight=np.where(LABELS > 0, 0.02, 4.0)),
    "tube": lambda: problems.svr(Gram(X, "linear"), SCORE, 2.0, epsilon=0.1),
    "rare class": lambda: problems.svc(Gram(X, "linear"), RARE, 1.0),
}


def without_central_path(monkeypatch):
    def fail(*_):
        raise AssertionError("a step along the central path")

    monkeypatch.setattr(LowRank, "step", fail)


@pytest.mark.parametrize("name", ["hinge", "tube", "rare class"])
@pytest.mark.parametrize("delta", [2.0, 1e-2])
def test_the_minimiser_for_one_delta_meets_its_optimality_conditions(name, delta):
    """w = Fᵀσα, eᵀα = d, and each α minimises its part of the Lagrangian between its bounds: strictly convex."""
    problem = POSED[name]()
    center = X.mean(axis=0)
    form = LowRank(problem, Features(X, center, True))
    u, F = problem.upper, np.tile(X - center, (form.copies, 1))
    prox, alpha = 0.3 * u, np.empty(problem.n)
    w, values = np.zeros(6), np.zeros(len(X))
    relaxation = Relaxation(form.rows, np.zeros(6), problem.d, 0.0, 0.0, 100)
    nu, gap, free, steps = relaxation.minimise(prox, delta, 1e-12, w, 0.0, values, alpha)
    slopes = problem.sigma * (F @ w) - problem.p - nu * problem.e
    np.testing.assert_allclose(alpha, np.clip(prox - u / delta * slopes, 0.0, u), atol=1e-9 * u.max())
    np.testing.assert_allclose(w, (problem.sigma * alpha) @ F, atol=1e-7)
    assert problem.e @ alpha == pytest.approx(problem.d, abs=1e-9 * u.sum())
    assert free == np.count_nonzero((alpha > 0) & (alpha < u))
    assert gap > 0
    assert 0 < steps < 100


@pytest.mark.parametrize("name", POSED)
def test_its_limit_is_the_answer_without_a_step_along_the_central_path(name, monkeypatch):
    problem = POSED[name]()
    with monkeypatch.context() as patched:
        patched.setattr("dualflow.solvers.interior_point.can_reduce", lambda problem: False)
        other = solve(problem, "interior-point")
    without_central_path(monkeypatch)
    found = solve(problem, "interior-point", refine=False)
    assert found.certificate.within(1e-10)
    size = abs(other.certificate.objective)
    assert found.certificate.objective == pytest.approx(other.certificate.objective, abs=1e-9 * size)


def test_the_answer_is_at_least_as_good_as_that_of_libsvm(monkeypatch):
    """LIBSVM ends 4e-5 above the optimum here, whatever its tolerance."""
    without_central_path(monkeypatch)
    found = solve(POSED["hinge"](), "interior-point", refine=False)
    peer = SVC(kernel="linear", C=0.5, tol=1e-8).fit(X, LABELS)

    def value(w, b):
        return 0.5 * w @ w + 0.5 * np.maximum(1.0 - LABELS * (X @ w + b), 0.0).sum()

    ours = value((found.alpha * LABELS) @ X, found.certificate.bias)
    theirs = value(peer.coef_[0], peer.intercept_[0])
    assert ours <= theirs <= ours + 1e-3
    w = (found.alpha * LABELS) @ X
    assert ours == pytest.approx(found.alpha.sum() - 0.5 * w @ w, rel=1e-11)


def test_few_distinct_points_are_relaxed_too(monkeypatch):
    """1500 points of 7 bits make at most 256 variables."""
    bits = (RNG.random((1500, 7)) < 0.5).astype(float)
    labels = np.where(bits.sum(axis=1) + RNG.normal(size=1500) > 3.5, 1, -1)
    without_central_path(monkeypatch)
    found = solve(problems.svc(Gram(bits, "linear"), labels, 10.0), "interior-point", refine=False)
    assert found.provenance["distinct_variables"] <= 256
    assert found.certificate.within(1e-10)
    peer = SVC(kernel="linear", C=10.0, tol=1e-6).fit(bits, labels)
    w = (found.alpha * labels) @ bits
    np.testing.assert_allclose(w, peer.coef_[0], atol=1e-4)


def test_ties_at_the_margin_are_met_exactly(monkeypatch):
    """All points of the large class lie on their margin, so that w = 0."""
    without_central_path(monkeypatch)
    found = solve(POSED["rare class"](), "interior-point", refine=False)
    assert found.certificate.within(1e-10)
    assert found.certificate.objective == pytest.approx(-2.0 * np.count_nonzero(RARE > 0), rel=1e-10)


def test_after_a_failure_steps_along_the_central_path_follow(monkeypatch):
    monkeypatch.setattr(reduced, "MAX_CENTERS", 0)
    steps = []
    step = LowRank.step
    monkeypatch.setattr(LowRank, "step", lambda *given: steps.append(1) or step(*given))
    found = solve(POSED["hinge"](), "interior-point", refine=False)
    assert len(steps) > 4
    assert found.certificate.within(1e-10)


def test_relaxation_says_what_does_not_fit():
    problem = POSED["hinge"]()
    rows = LowRank(problem, Features(X, None, True)).rows
    alpha, w, values = np.empty(3000), np.zeros(6), np.zeros(3000)
    with pytest.raises(ValueError, match="fixed rows as columns"):
        Relaxation(rows, np.zeros(5), 0.0, 0.0, 0.0, 5)
    relaxation = Relaxation(rows, np.zeros(6), 0.0, 0.0, 0.0, 5)
    with pytest.raises(ValueError, match="as many numbers"):
        relaxation.minimise(alpha[1:], 1.0, 0.1, w, 0.0, values, alpha)
