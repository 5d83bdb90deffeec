"""The relaxation of `Reduced`: its minimiser for one δ, its limit, ties at the margin, and what follows a failure."""

from __future__ import annotations

import time

import numpy as np
import pytest
from dualflow.interior._passes import Relaxation
from sklearn.svm import SVC

from dualflow import Gram, problems, solve
from dualflow.core.features import Features
from dualflow.core.runtime import clock
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


class OneStep:
    """One Newton step from a start near 0 in compiled code, beside the same sums by NumPy.

    Fixed variables add ``fixed`` to the weights and ``fixed_p`` to pᵀα.
    """

    def __init__(self, name, delta, stop_gap=0.0, accuracy=1e-12, unit=1.0):
        self.problem, self.delta = POSED[name](), delta
        points, center = unit * X, unit * X.mean(axis=0)
        form = LowRank(self.problem, Features(points, center, True))
        self.F, self.u = np.tile(points - center, (form.copies, 1)), self.problem.upper
        rng = np.random.default_rng(3)
        self.prox, self.fixed, self.fixed_p = 0.3 * self.u, 0.01 * unit * self.u.sum() * rng.normal(size=6), 0.7
        self.before = 1e-3 * rng.normal(size=6), 1e-3
        self.w, self.alpha = self.before[0].copy(), np.empty(self.problem.n)
        relaxation = Relaxation(form.rows, self.fixed, self.problem.d, self.fixed_p, stop_gap, 1)
        given = self.w, self.before[1], (points - center) @ self.w, self.alpha
        self.nu, self.gap, self.free, self.steps = relaxation.minimise(self.prox, delta, accuracy, *given)

    def sums(self, w, nu):
        """Slopes, α, Fᵀσα with that of fixed variables, and what the equality lacks."""
        problem = self.problem
        slopes = problem.sigma * (self.F @ w) - problem.p - nu * problem.e
        alpha = np.clip(self.prox - self.u / self.delta * slopes, 0.0, self.u)
        return slopes, alpha, (problem.sigma * alpha) @ self.F + self.fixed, problem.d - problem.e @ alpha

    def derivative(self, w, nu):
        """That of the function of w and ν along the step that was made."""
        _, _, w_alpha, shortfall = self.sums(w, nu)
        return -(w_alpha - w) @ (self.w - self.before[0]) - shortfall * (self.nu - self.before[1])

    def newton(self):
        """Newton's step of w and ν, its decrement, and Σu of the free variables."""
        _, alpha, w_alpha, shortfall = self.sums(*self.before)
        free = (alpha > 0) & (alpha < self.u)
        rows = np.column_stack([self.problem.sigma[free, None] * self.F[free], -self.problem.e[free]])
        H = rows.T @ (self.u[free, None] / self.delta * rows) + np.diag([1.0] * 6 + [0.0])
        right = np.append(w_alpha - self.before[0], shortfall)
        step = np.linalg.solve(H, right)
        return step, float(right @ step), float(self.u[free].sum())


@pytest.mark.parametrize("name", ["hinge", "weights", "tube", "rare class"])
@pytest.mark.parametrize("delta", [20.0, 2.0, 1e-2, 1e-5])
def test_a_step_ends_where_its_derivative_has_fallen(name, delta):
    """The derivative is then between −1/2 and 1/10 of its size at the start; the gap is that of the new w and ν."""
    one = OneStep(name, delta)
    begin, end = one.derivative(*one.before), one.derivative(one.w, one.nu)
    assert one.steps == 1
    assert begin < 0
    assert 0.5001 * begin <= end <= -0.1001 * begin
    slopes, alpha, w_alpha, shortfall = one.sums(one.w, one.nu)
    missing, room = w_alpha - one.w, one.u - alpha
    left = alpha @ np.maximum(slopes, 0.0) - room @ np.minimum(slopes, 0.0)
    left += 0.5 * missing @ missing + abs(one.nu * shortfall)
    objective = 0.5 * w_alpha @ w_alpha - one.problem.p @ alpha - one.fixed_p
    assert one.gap == pytest.approx(left / abs(objective), rel=1e-6)
    assert one.free == np.count_nonzero((alpha > 0) & (alpha < one.u))


@pytest.mark.parametrize("name", ["hinge", "rare class"])
def test_a_step_of_nu_alone_is_lengthened(name):
    """Without free variables one stands for the equality, so that the first length is far too small."""
    one = OneStep(name, 1e-6, unit=1e-9)
    _, alpha, _, _ = one.sums(*one.before)
    assert not ((alpha > 0) & (alpha < one.u)).any()
    begin, end = one.derivative(*one.before), one.derivative(one.w, one.nu)
    assert begin < 0
    assert 0.5001 * begin <= end


@pytest.mark.parametrize("name", ["hinge", "weights", "tube"])
def test_a_whole_step_is_newtons(name):
    one = OneStep(name, 20.0)
    step, decrement, free_upper = one.newton()
    moved = np.append(one.w - one.before[0], one.nu - one.before[1])
    length = moved @ step / (step @ step)
    np.testing.assert_allclose(moved, length * step, atol=1e-11 * np.abs(step).max())
    reached = decrement / (one.delta * free_upper)
    form = LowRank(one.problem, Features(X, X.mean(axis=0), True))
    for accuracy, steps in ((1.01 * reached, 1), (0.99 * reached, 2)):
        relaxation = Relaxation(form.rows, one.fixed, one.problem.d, one.fixed_p, 0.0, 2)
        w = one.before[0].copy()
        values = (X - X.mean(axis=0)) @ w
        found = relaxation.minimise(one.prox, one.delta, accuracy, w, one.before[1], values, one.alpha)
        assert found[3] == steps


def test_no_step_is_made_below_the_gap_that_suffices():
    assert OneStep("hinge", 2.0).gap < 1e6
    assert OneStep("hinge", 2.0, stop_gap=1e6).steps == 0


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


def test_the_time_limit_is_checked_before_each_newton_step():
    problem = POSED["hinge"]()
    form = LowRank(problem, Features(X, X.mean(axis=0), True))
    relaxation = Relaxation(form.rows, np.zeros(6), problem.d, 0.0, 0.0, 100)
    alpha, w, values = np.empty(3000), np.zeros(6), np.zeros(3000)
    with clock.within(time.monotonic() - 1.0), pytest.raises(clock.OutOfTime):
        relaxation.minimise(0.5 * problem.upper, 1.0, 1e-9, w, 0.0, values, alpha)
    assert not w.any()


def test_relaxation_says_what_does_not_fit():
    problem = POSED["hinge"]()
    rows = LowRank(problem, Features(X, None, True)).rows
    alpha, w, values = np.empty(3000), np.zeros(6), np.zeros(3000)
    with pytest.raises(ValueError, match="fixed rows as columns"):
        Relaxation(rows, np.zeros(5), 0.0, 0.0, 0.0, 5)
    relaxation = Relaxation(rows, np.zeros(6), 0.0, 0.0, 0.0, 5)
    with pytest.raises(ValueError, match="as many numbers"):
        relaxation.minimise(alpha[1:], 1.0, 0.1, w, 0.0, values, alpha)
