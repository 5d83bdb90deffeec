"""Difficult streams: bounded problems that seemed unbounded, lost digits, kernels that raise, threads, duplicates."""

import threading
import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

from dualflow import SVC, EcoSVC, EcoSVDD, IncrementalSVC, IncrementalSVDD, IncrementalSVR, ProblemError, load
from dualflow.online.growing_problem import Stream
from dualflow.online.invasion import Habitat
from dualflow.online.state import PathError

TOL = 1e-6


def overlapping(seed, n=60, m=3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    return X, np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1, 0)


def judged(model, X, y):
    """Relative primal-dual gap of a linear classifier, from its decision values and coefficients alone."""
    coef = model.dual_coef_[0]
    X, signs = X - X.mean(axis=0), np.where(y == model.classes_[1], 1.0, -1.0)
    w = coef @ X[np.searchsorted(np.arange(len(X)), model.support_)]
    dual = np.abs(coef).sum() - 0.5 * w @ w
    values = X @ w
    loss = min(np.maximum(0, 1 - signs * (values + b)).sum() for b in signs - values)
    return (0.5 * w @ w + model.C * loss - dual) / abs(dual)


# --- the path is not lost on bounded problems -------------------------------------------------------


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 0, 2]])
@pytest.mark.parametrize("C", [200.0, 3333.0, 1e6])
def test_three_points_on_a_line_are_a_bounded_problem(order, C):
    X, y = np.array([[1.0], [3.0], [0.0]])[order], np.array([0, 1, 1])[order]
    model = IncrementalSVC(C=C, kernel="linear").fit(X, y)
    assert model.certificate_.relative_gap <= 1e-9


@pytest.mark.parametrize("seed", range(12))
def test_overlapping_linear_sets_at_large_costs_are_learned_and_forgotten(seed):
    X, y = overlapping(seed, n=20 + 3 * seed, m=1 + seed % 3)
    X = np.round(2 * X) / 2 if seed % 2 else X  # duplicates, and dependent margins
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = IncrementalSVC(C=10.0 ** (2 + seed % 4), kernel="linear").fit(X, y)
        assert model.certificate_.within(TOL)
        assert model.forget(np.arange(0, len(X), 3)).certificate_.within(TOL)
        line = IncrementalSVR(C=10.0 ** (2 + seed % 4), epsilon=0.01, kernel="linear").fit(X, X[:, 0] + y)
        assert line.certificate_.within(TOL)


def test_a_broken_path_is_resumed_from_a_solve(monkeypatch):
    """If the engine fails, the optimum of the convex problem still exists, and learning continues from it."""
    X, y = overlapping(0)
    model = IncrementalSVC(C=10).partial_fit(X[:20], y[:20])
    follow = Stream._follow

    def stumble(self, first):
        self.engine.learn(first)
        raise PathError(PathError.UNBOUNDED)

    monkeypatch.setattr(Stream, "_follow", stumble)
    model.partial_fit(X[20:40], y[20:40])
    assert model.certificate_.relative_gap <= 1e-9
    monkeypatch.setattr(Stream, "_follow", follow)
    model.partial_fit(X[40:], y[40:]).forget([1, 30, 50])
    kept = np.delete(np.arange(60), [1, 30, 50])
    batch = SVC(C=10, gamma=model._gamma).fit(X[kept], y[kept])
    np.testing.assert_allclose(model.decision_function(X), batch.decision_function(X), atol=1e-7)


def test_a_kernel_that_is_not_positive_semidefinite_still_breaks_the_path():
    X, y = overlapping(1)
    with pytest.raises(ProblemError, match="positive semidefinite"):
        IncrementalSVC(C=10, kernel=lambda A, B: -(A @ B.T)).fit(X, y)


# --- where the digits are ----------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [1e3, 1e6])
@pytest.mark.parametrize(
    "parameters", [{"kernel": "linear"}, {"kernel": "poly", "degree": 1, "gamma": 0.5, "coef0": 1.0}]
)
@pytest.mark.parametrize("make", [IncrementalSVC, EcoSVC])
def test_data_far_from_the_origin_are_learned_as_if_they_were_not(make, parameters, shift):
    X, y = overlapping(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        here, there = (make(C=5, **parameters).fit(A, y) for A in (X, X + shift))
    assert there.certificate_.relative_gap <= 1e-9
    np.testing.assert_allclose(
        there.decision_function(X + shift), here.decision_function(X), atol=1e-13 * shift + 1e-9 * shift**0.5
    )
    if parameters["kernel"] == "linear":
        assert judged(there, X + shift, y) <= TOL or make is EcoSVC
        # The intercept is that of the kernel itself, not of centred points.
        own = (X + shift) @ there.coef_[0] + there.intercept_
        np.testing.assert_allclose(
            own, there.decision_function(X + shift), atol=1e-12 * shift * np.abs(there.coef_).sum()
        )


@pytest.mark.parametrize("make", [IncrementalSVDD, EcoSVDD])
def test_balls_far_from_the_origin_are_those_near_it(make):
    X, _ = overlapping(3)
    here, there = (make(nu=0.2, kernel="linear").fit(A) for A in (X, X + 1e6))
    assert there.certificate_.relative_gap <= 1e-9
    assert there.radius_ == pytest.approx(here.radius_, rel=1e-9)
    np.testing.assert_allclose(there.decision_function(X + 1e6), here.decision_function(X), atol=1e-8)


def test_regression_far_from_the_origin_is_that_near_it():
    X, _ = overlapping(4)
    z = X @ [1.0, -2.0, 0.5] + np.sin(X[:, 0])
    here, there = (IncrementalSVR(C=3, kernel="linear").fit(A, z) for A in (X, X + 1e6))
    assert there.certificate_.relative_gap <= 1e-9
    np.testing.assert_allclose(there.predict(X + 1e6), here.predict(X), atol=1e-8)


@pytest.mark.parametrize("make", [IncrementalSVC, EcoSVC])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize(("scale", "heavy"), [(1e-8, False), (1e-3, False), (1.0, True), (1e6, False)])
def test_no_state_is_silently_inexact(make, kernel, scale, heavy):
    rng = np.random.default_rng(5)
    X, y = overlapping(5)
    X = (rng.standard_cauchy(X.shape) if heavy else X) * scale
    for C in (1e-2, 1.0, 1e3):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = make(C=C, kernel=kernel).fit(X[:40], y[:40])
            model.partial_fit(X[40:], y[40:])
        warned = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
        assert warned or model.certificate_.within(TOL)


@pytest.mark.parametrize("make", [IncrementalSVC, EcoSVC])
def test_a_gap_left_by_float64_is_reported(make):
    """A polynomial kernel far from the origin has lost its digits: no method finds the optimum."""
    X, y = overlapping(6)
    with pytest.warns(ConvergenceWarning, match=r"reached to relative gap .* only"):
        model = make(C=10, kernel="poly", gamma=1.0, degree=3).fit(X + 1e6, y)
    assert model.certificate_.relative_gap > TOL


def test_a_warning_of_an_equilibrium_says_what_rounding_hides():
    """A weight of 1e100 leaves no digit of the gap, which is 0 as computed."""
    X, y = overlapping(6)
    with pytest.warns(ConvergenceWarning, match=r"to relative gap \S+ and rounding \S+ only, not tol=1e-06"):
        model = EcoSVC().fit(X, y, sample_weight=np.where(np.arange(len(y)) == 3, 1e100, 1.0))
    assert model.certificate_.relative_gap < 1e-6 < model.certificate_.relative_rounding


def test_a_damaged_engine_state_is_detected_and_mended():
    X, y = overlapping(7)
    model = IncrementalSVC(C=10).fit(X, y)
    for damage in ("alpha", "g", "inverse", "b"):
        engine = model._streams[0].engine
        if damage == "b":
            engine.figures[0] += 0.1
            engine.g += 0.1 * engine.e
        elif damage == "alpha":
            engine.alpha[engine.margin[:2]] *= 0.5
        elif damage == "g":
            engine.g[engine.alpha == 0] -= 3.0
        else:
            engine.inverse *= 1.01
        model.partial_fit(X[:1] + 0.01, y[:1])
        assert model.certificate_.within(TOL), damage


# --- errors leave no trace, and nothing is empty or NaN ---------------------------------------------


@pytest.mark.parametrize("make", [IncrementalSVC, EcoSVC])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_kernels_that_return_no_numbers_are_refused_at_any_call(make, bad):
    X, y = overlapping(8)
    calls = []

    def kernel(A, B):
        K = np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=2))
        calls.append(1)
        if len(calls) > 6:
            K[0, 0] = bad
        return K

    model = make(kernel=kernel)

    def learn():
        for start in range(0, 60, 20):
            model.partial_fit(X[start : start + 20], y[start : start + 20], classes=[0, 1])

    with pytest.raises(ProblemError, match="NaN or infinity"):
        learn()
    calls.clear()
    if model.__sklearn_is_fitted__():
        assert np.isfinite(model.decision_function(X)).all()


# --- predictions beside other work ------------------------------------------------------------------


def traces(model):
    """Return the state from which learning continues, as bytes."""
    arrays, facts = model._pack()
    return {name: array.tobytes() for name, array in arrays.items()}, facts


def test_predictions_beside_leave_one_out_are_those_of_the_model():
    X, y = make_moons(150, noise=0.3, random_state=0)
    model = IncrementalSVC(C=10, gamma=1.0).fit(X, y)
    expected, before = model.decision_function(X), traces(model)
    alone = model.leave_one_out().margins
    done, wrong = threading.Event(), []

    def predict():
        while not done.is_set():
            wrong.append(not np.array_equal(model.decision_function(X), expected))

    threads = [threading.Thread(target=predict) for _ in range(2)]
    for thread in threads:
        thread.start()
    found = [model.leave_one_out().margins for _ in range(5)]
    done.set()
    for thread in threads:
        thread.join()
    assert len(wrong) > 2
    assert not any(wrong)
    np.testing.assert_array_equal(found, [alone] * 5)
    assert traces(model) == before


# --- many of the same -------------------------------------------------------------------------------


@pytest.mark.parametrize("places", [1, 7])
def test_duplicates_cost_as_much_as_their_distinct_points(places, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(places, 2))[rng.integers(0, places, 6000)], rng.integers(0, 2, 6000)
    sizes = []
    settle = Habitat.invade_until_stable
    monkeypatch.setattr(
        Habitat, "invade_until_stable", lambda self, *a: (sizes.append(self.problem.n), settle(self, *a))[1]
    )
    model = EcoSVC(C=1.0).fit(X, y)
    assert max(sizes) <= 2 * places
    assert model.certify(X, y).within(TOL)
    batch = SVC(C=1.0, gamma=model._gamma).fit(X[:1000], y[:1000])
    same_order = EcoSVC(C=1.0, gamma=model._gamma).fit(X[:1000], y[:1000])
    assert same_order.certificate_.objective == pytest.approx(batch.solution_.certificate.objective, rel=1e-6)


def test_duplicates_in_a_ball_and_with_weights():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(9, 2))[rng.integers(0, 9, 300)]
    y, weight = rng.integers(0, 2, 300), rng.uniform(0.1, 3.0, 300)
    for nu in (None, 0.05, 0.6):
        ball = EcoSVDD(nu=nu, gamma=0.5, reserve=np.inf)
        for part in np.array_split(np.arange(300), 4):
            ball.partial_fit(X[part])
        assert ball.certify(X).within(TOL)
        assert ball.n_invasions_ - ball.n_extinctions_ == len(ball.survivors_)
    model = EcoSVC(C=2.0, gamma=0.5, reserve=np.inf)
    for part in np.array_split(np.arange(300), 4):
        model.partial_fit(X[part], y[part], classes=[0, 1], sample_weight=weight[part])
    assert model.certify(X, y, weight).within(TOL)
    assert model.n_invasions_ - model.n_extinctions_ == len(model.survivors_)


@pytest.mark.parametrize("C", [1e4, 1e5, 1e6])
@pytest.mark.parametrize("model", [IncrementalSVC, IncrementalSVR])
def test_a_stream_warns_where_kernel_values_far_apart_have_few_digits(model, C):
    rng = np.random.default_rng(0)
    X = 40.0 * rng.normal(size=(8, 12))  # γ‖x‖² is near 10⁴, and so is the error of −γ‖x − z‖² in units of ε
    X[4:] = X[:4] + 0.5 * rng.normal(size=(4, 12))
    y = rng.uniform(-1.0, 1.0, 8)
    given = {"classes": [-1, 1]} if model is IncrementalSVC else {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = model(C=C, gamma=0.5).partial_fit(X, np.sign(y) if given else y, **given)
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert warned is not fitted.certificate_.within(1e-6)


@pytest.mark.parametrize("C", [1e5, 1e6, 3e6, 6e6])
@pytest.mark.parametrize("distance", [3.0, 30.0, 100.0])
def test_an_ecological_stream_warns_where_kernel_values_far_apart_have_few_digits(C, distance):
    model = EcoSVC(C=C, gamma=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.partial_fit([[0.0]], [-1], classes=[-1, 1]).partial_fit([[distance]], [1])
    warned = any(issubclass(w.category, ConvergenceWarning) for w in caught)
    assert warned is not model.certificate_.within(1e-6)


@pytest.mark.parametrize("seed", [4, *range(20, 30)])
def test_a_stream_of_one_class_that_is_left_is_read_back(seed, tmp_path):
    rng = np.random.default_rng(seed)
    X = 3e5 * rng.normal(size=(10, 3))  # kernel values of 1e12: an α of 1e-10, clipped to 0, is 100 in a gradient
    X[5:] = X[:5] + 1e-8 * rng.normal(size=(5, 3))
    y = rng.choice([-1, 1], 10)
    model = IncrementalSVC(kernel="linear", C=2.6e5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.partial_fit(X, y, classes=[-1, 1], ids=np.arange(10))
        gone = np.setdiff1d(np.arange(10), np.flatnonzero(y == y[rng.permutation(10)[0]])[:4])
        for part in np.array_split(gone, [len(gone) // 2]):
            model.forget(part)
    model.save(tmp_path / "stream.dualflow")
    again = load(tmp_path / "stream.dualflow")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
