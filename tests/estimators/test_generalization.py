"""The generalization report against brute force, explicit feature spaces, and by hand."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import load_iris, make_blobs, make_classification, make_moons
from sklearn.exceptions import NotFittedError

import dualflow
from dualflow import SVC, SVDD, Gram, ProblemError, generalization_report
from dualflow.estimators import _left_out
from dualflow.estimators._left_out import response_and_distance
from dualflow.online import leave_one_out

MOONS = make_moons(60, noise=0.3, random_state=0)
WIDE = make_classification(40, 60, n_informative=6, class_sep=0.5, random_state=2)
GERMAN = make_classification(400, 24, weights=[0.7], flip_y=0.1, random_state=0)
NARROW = make_classification(60, 4, n_informative=3, n_redundant=1, class_sep=0.4, random_state=1)


def refits(X, y, make):
    """Margins y f(x) of every point by a model trained without it, and whether that is wrong."""
    margins, wrong = np.empty(len(X)), np.empty(len(X), dtype=bool)
    for c in range(len(X)):
        rest = np.arange(len(X)) != c
        model = make().fit(X[rest], y[rest])
        wrong[c] = model.predict(X[c : c + 1])[0] != y[c]
        if len(np.unique(y)) == 2:
            margins[c] = (1 if y[c] == model.classes_[1] else -1) * model.decision_function(X[c : c + 1])[0]
    return margins, wrong.mean()


# --- by hand ---------------------------------------------------------------------------------------


def test_four_points_on_a_line():
    """f(x) = x − 2, supported by 1 and 3. Without 1: f(x) = (x − 1.5)/1.5, so that 1 is right by a third."""
    model = SVC(kernel="linear", C=10).fit([[0.0], [1.0], [3.0], [4.0]], [7, 7, 8, 8])
    report = generalization_report(model)
    (pair,) = report.pairs
    assert (report.n, report.n_support, report.loo_bound, report.loo_error) == (4, 2, 0.5, 0.0)
    assert (pair.classes, pair.n, pair.n_margin, pair.n_bounded) == ((7, 8), 4, 2, 0)
    assert pair.support.tolist() == [1, 2]
    np.testing.assert_allclose(pair.alpha, [0.5, 0.5], rtol=1e-12)
    np.testing.assert_allclose([pair.squared_norm, pair.alpha_sum, pair.margin], 1.0, rtol=1e-12)
    np.testing.assert_allclose(pair.slack_sum, 0.0, atol=1e-12)
    np.testing.assert_allclose([pair.gamma, pair.twice_energy], 4.0, rtol=1e-11)  # their squared distance
    np.testing.assert_allclose(pair.first_segment, -1.0, rtol=1e-11)  # 1 − 4/2: far too dark
    np.testing.assert_allclose(pair.loo_margin, 1 / 3, rtol=1e-12)
    np.testing.assert_allclose([pair.squared_radius, pair.radius_margin], [4.0, 1.0], rtol=1e-9)
    assert report.first_segment_error == 0.5
    text = str(report)
    for part in ("leave-one-out error 0 (exact)", "first segment 0.5", "bound 0.5 (2 support vectors of 4 points)"):
        assert part in text
    assert "7 against 8: 4 points, 2 on the margin, 0 at their bound" in text


def test_without_intercept_the_hull_is_a_span():
    """f(x) = x: the point −1 and the point 1 span the line, so that each is at distance 0 from the other's span."""
    model = SVC(kernel="linear", C=10, fit_intercept=False).fit([[-1.0, 0.0], [0.0, 1.0]], [0, 1])
    (pair,) = generalization_report(model).pairs
    np.testing.assert_allclose(pair.gamma, 1.0, rtol=1e-11)  # orthogonal; the affine hull would be at 2
    np.testing.assert_allclose(pair.loo_margin, 0.0, atol=1e-12)


def test_the_last_point_of_a_class_is_an_error():
    model = SVC(kernel="linear", C=10).fit([[0.0], [1.0], [2.0], [9.0]], [0, 0, 0, 1])
    report = generalization_report(model)
    assert dict(zip(report.pairs[0].support.tolist(), report.pairs[0].loo_margin, strict=True))[3] == -np.inf
    assert report.loo_error == 0.25


def test_no_margin_vector_remains():
    """Equal points of both classes, all at their bound: no margin vector, and each left-out point is outvoted."""
    report = generalization_report(SVC().fit(np.ones((6, 2)), np.arange(6) % 2))
    (pair,) = report.pairs
    assert (report.loo_error, report.first_segment_error, report.loo_bound) == (1.0, 1.0, 1.0)
    assert (pair.n_bounded, pair.margin, pair.squared_radius) == (6, np.inf, 0.0)
    assert np.isposinf(pair.gamma).all()
    assert np.isneginf(pair.first_segment).all()
    assert "margin 1/‖w‖ inf, R² 0, R²‖w‖²/n 0" in str(report)
    np.testing.assert_allclose(pair.loo_margin, -1.0, rtol=1e-12)


# --- exact leave-one-out ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "parameters"),
    [
        (MOONS, {"C": 0.1, "gamma": 1.0}),
        (MOONS, {"C": 1.0, "gamma": 1.0}),
        (MOONS, {"C": 100.0, "gamma": 0.5}),
        (NARROW, {"C": 1.0, "kernel": "linear"}),
        (WIDE, {"C": 0.01, "kernel": "linear"}),
        (NARROW, {"C": 1.0, "kernel": "poly", "degree": 2, "gamma": 0.1, "coef0": 1.0}),
    ],
    ids=["C=0.1", "C=1", "C=100", "linear", "wide", "poly"],
)
def test_leave_one_out_is_that_of_libsvm_refits(data, parameters):
    X, y = data
    report = generalization_report(SVC(**parameters).fit(X, y))
    margins, error = refits(X, y, lambda: svm.SVC(tol=1e-10, **parameters))
    (pair,) = report.pairs
    # LIBSVM keeps kernel values in float32.
    np.testing.assert_allclose(pair.loo_margin, margins[pair.support], atol=2e-5 * max(1.0, parameters["C"]))
    assert report.loo_error == error > 0
    assert report.loo_error <= report.loo_bound
    assert pair.relative_gap <= 1e-9


@pytest.mark.parametrize("seed", range(4))
def test_copies_of_points_need_no_path(seed, monkeypatch):
    """Free variables depend on each other, and block pivoting stalls: one exchange at a time ends."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, (80, 2)).astype(float)
    y = (X.sum(axis=1) + rng.normal(0, 1.5, len(X)) > 3).astype(int)

    def by_path(problem, alpha, points, *_):
        raise AssertionError(f"points {points} were left to the path")

    monkeypatch.setattr(_left_out, "each_without", by_path)
    report = generalization_report(SVC(gamma=0.5).fit(X, y))
    margins, error = refits(X, y, lambda: svm.SVC(gamma=0.5, tol=1e-10))
    (pair,) = report.pairs
    assert len(np.unique(X, axis=0)) <= 16 < len(pair.support)
    np.testing.assert_allclose(pair.loo_margin, margins[pair.support], atol=2e-5)
    assert report.loo_error == error > 0
    assert pair.loo_relative_gap.max() <= 1e-9


@pytest.mark.parametrize("parameters", [{"C": 1.0}, {"C": 10.0}, {"C": 1.0, "kernel": "linear"}], ids=str)
def test_many_points_to_the_last_digits(parameters):
    """Against refits by an interior-point method, without paths or starts, refined to the last digits by NumPy."""
    X, y = GERMAN
    report = generalization_report(model := SVC(**parameters).fit(X, y))
    (pair,) = report.pairs
    assert pair.refits == 0
    assert pair.loo_relative_gap.max() <= 1e-9
    assert pair.relative_gap >= pair.loo_relative_gap.max()
    assert f"each certified to {pair.loo_relative_gap.max():.1e} or better" in str(report)
    K, signs, C = model.solution_.problem.gram.full(), 2.0 * y - 1, parameters["C"]
    for k in (0, len(pair.support) // 2):
        c, rest = pair.support[k], np.arange(len(X)) != pair.support[k]
        f = by_interior_points(K[np.ix_(rest, rest)], signs[rest], C)
        np.testing.assert_allclose(pair.loo_margin[k], signs[c] * f(K[c, rest]), atol=1e-8)


def by_interior_points(K, y, C):
    """Return f from kernel values: CVXOPT finds the variables near their bounds, the margin's equations the rest."""
    alpha = dualflow.solve(dualflow.problems.svc(Gram.precomputed(K), y, C), "cvxopt", tol=1e-12).certificate.alpha
    S, E = (alpha > 1e-4 * C) & (alpha < (1 - 1e-4) * C), alpha >= (1 - 1e-4) * C
    for _ in range(20):
        system = np.block([[np.zeros((1, 1)), y[None, S]], [y[S, None], np.outer(y[S], y[S]) * K[np.ix_(S, S)]]])
        b, *inside = np.linalg.solve(system, np.r_[-C * y[E].sum(), 1 - C * y[S] * (K[np.ix_(S, E)] @ y[E])])
        alpha = np.where(E, C, 0.0)
        alpha[S] = inside
        short = y * (K @ (y * alpha) + b) - 1  # the optimum's conditions
        into = (E & (short > 1e-9)) | (~S & ~E & (short < -1e-9))
        if not into.any() and (alpha >= 0).all() and (alpha <= C).all():
            return lambda values: values @ (y * alpha) + b
        S, E = into | (S & (alpha >= 0) & (alpha <= C)), (E & ~into) | (S & (alpha > C))
    raise AssertionError("the reference is none")


def nothing_found(response, gone, starts, stretch):
    """As `Response._optima` answers where it finds none."""
    count = len(starts) - 1
    return np.zeros((count, len(response.upper))), np.zeros(count, dtype=bool)


def held_only(response, gone, starts, stretch):
    """A wrong answer of `Response._optima`."""
    count, held = len(starts) - 1, response.held[response.place]
    return np.tile(held * (held > 9), (count, 1)), np.ones(count, dtype=bool)


@pytest.mark.parametrize("broken", ["response", "path", "both"])
def test_models_without_a_path_are_solved_for(monkeypatch, broken):
    """A wrong result is detected by its certificate."""
    X, y = MOONS
    reference = generalization_report(SVC(C=10.0, gamma=1.0).fit(X, y)).pairs[0]
    if broken == "response":  # the path has it then
        monkeypatch.setattr(leave_one_out.Response, "_optima", nothing_found)
    elif broken == "path":
        monkeypatch.setattr(leave_one_out.Response, "_optima", held_only)
    else:
        monkeypatch.setattr(leave_one_out.Response, "_optima", nothing_found)
        monkeypatch.setattr(leave_one_out.Unlearning, "without", lambda *_: None)
    found = generalization_report(SVC(C=10.0, gamma=1.0).fit(X, y)).pairs[0]
    np.testing.assert_allclose(found.loo_margin, reference.loo_margin, atol=1e-8)
    assert found.loo_relative_gap.max() <= 1e-9
    assert found.refits == (0 if broken == "response" else len(found.support))


def test_the_squared_hinge_is_that_of_linear_svc_refits():
    X, y = NARROW
    report = generalization_report(SVC(loss="squared_hinge", kernel="linear", C=2.0).fit(X, y))
    margins, error = refits(X, y, lambda: svm.LinearSVC(C=2.0, tol=1e-12, max_iter=100_000, random_state=0))
    np.testing.assert_allclose(report.pairs[0].loo_margin, margins[report.pairs[0].support], atol=1e-6)
    assert report.loo_error == error > 0


@pytest.mark.parametrize("parameters", [{"fit_intercept": False}, {"C": np.inf, "gamma": 20.0}], ids=str)
def test_models_unknown_to_scikit_learn_equal_our_refits(parameters):
    X, y = MOONS
    parameters = {"gamma": 1.0} | parameters
    report = generalization_report(SVC(**parameters).fit(X, y))
    margins, error = refits(X, y, lambda: SVC(solver="cvxopt", refine=False, **parameters))
    np.testing.assert_allclose(report.pairs[0].loo_margin, margins[report.pairs[0].support], atol=1e-4)
    assert report.loo_error == error > 0


@pytest.mark.parametrize("break_ties", [False, True])
def test_many_classes_vote(break_ties):
    X, y = make_blobs(45, centers=4, n_features=2, cluster_std=3.0, random_state=4)
    settings = {"C": 1.0, "gamma": 0.1, "break_ties": break_ties}
    for order in (np.arange(45), np.random.default_rng(0).permutation(45)):
        report = generalization_report(SVC(**settings).fit(X[order], y[order]))
        _, error = refits(X, y, lambda: svm.SVC(tol=1e-10, **settings))
        assert report.loo_error == pytest.approx(error, abs=1e-15)
        assert 0 < report.loo_error <= report.loo_bound <= 1
    assert [pair.classes for pair in report.pairs] == [(1, 0), (2, 0), (3, 0), (2, 1), (3, 1), (3, 2)]


def test_iris():
    X, y = load_iris(return_X_y=True)
    report = generalization_report(SVC(gamma=0.2).fit(X, y))
    assert report.loo_error == pytest.approx(refits(X, y, lambda: svm.SVC(gamma=0.2, tol=1e-10))[1], abs=1e-15)


def test_precomputed_kernels_weights_and_duplicates():
    X, y = MOONS
    X, y = np.r_[X, X[:10]], np.r_[y, y[:10]]
    K = np.exp(-((X[:, None] - X) ** 2).sum(-1))
    reference = generalization_report(SVC(gamma=1.0).fit(X, y))
    given = generalization_report(SVC(kernel="precomputed").fit(K, y))
    np.testing.assert_allclose(given.pairs[0].loo_margin, reference.pairs[0].loo_margin, atol=1e-8)
    weight = np.r_[np.ones(60), np.zeros(10)]
    without = generalization_report(SVC(gamma=1.0).fit(X, y, weight))
    assert without.n == 60
    assert without.loo_error == generalization_report(SVC(gamma=1.0).fit(*MOONS)).loo_error


def test_a_copy_on_the_margin_replaces_its_point():
    """Equal margin vectors are at distance 0 from the others' hull, others are as far as without the copies."""
    X = np.random.default_rng(3).normal(size=(6, 2))
    for intercept in (True, False):
        gammas = []
        for copies in (X, np.r_[X, X[:2]]):
            signs = np.where(np.arange(len(copies)) % 2 == 0, 1, -1)
            problem = dualflow.problems.svc(Gram(copies, gamma=1.0), signs, fit_intercept=intercept)
            every = np.arange(len(copies))
            gammas.append(response_and_distance(problem, every, every))
        (once, energy_once), (twice, energy_twice) = gammas
        np.testing.assert_allclose(twice[[0, 1, 6, 7]], 0.0, atol=1e-12)
        np.testing.assert_allclose(energy_twice[[0, 1, 6, 7]], 0.0, atol=1e-12)
        np.testing.assert_allclose([twice[2:6], energy_twice[2:6]], [once[2:], energy_once[2:]], rtol=1e-9)
        assert once.min() > 1e-3


def test_more_margin_vectors_than_dimensions():
    """Eight points of a line and one beside it, integers: the one is essential, each of the eight is not."""
    line = np.outer(np.arange(8.0), [3.0, 4.0, 0.0])
    X = np.r_[line, [[5.0, 0.0, 12.0]], [[1.0, 1.0, 1.0]]]
    signs = np.where(np.arange(10) % 2 == 0, 1, -1)
    problem = dualflow.problems.svc(Gram(X, kernel="linear"), signs)
    gamma, twice_energy = response_and_distance(problem, np.arange(10), np.arange(9))
    for found in (gamma, twice_energy):
        np.testing.assert_allclose(found[:8], 0.0, atol=1e-9)
        np.testing.assert_allclose(found[8], 4.0**2 + 12.0**2, rtol=1e-9)  # (5, 0) is 4 from the line of (3, 4)
        normal = np.cross([3.0, 4.0, 0.0], [5.0, 0.0, 12.0])
        np.testing.assert_allclose(found[9], (normal.sum()) ** 2 / (normal @ normal), rtol=1e-9)
    # Copies of one point: eigenvalues that are exactly 0.
    for n in (3, 5, 7):
        problem = dualflow.problems.svc(Gram(np.ones((n, 2)), gamma=1.0), np.where(np.arange(n) % 2 == 0, 1, -1))
        for found in response_and_distance(problem, np.arange(n), np.arange(n - 1)):
            np.testing.assert_allclose(found, 0.0, atol=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_a_report_in_small_blocks_is_the_same(loss, monkeypatch):
    model = SVC(C=10.0, loss=loss).fit(*GERMAN)
    whole = generalization_report(model)
    monkeypatch.setattr(_left_out, "MIN_COLUMNS", 7)
    for module in (_left_out, leave_one_out):
        monkeypatch.setattr(module, "MAX_PRODUCTS", 1)
    parts = generalization_report(model)
    assert parts.loo_error == whole.loo_error
    for name in ("gamma", "twice_energy", "first_segment", "loo_margin"):
        np.testing.assert_allclose(getattr(parts.pairs[0], name), getattr(whole.pairs[0], name), rtol=1e-8, atol=1e-10)


def test_ctrl_c_gives_no_partial_report(monkeypatch):
    model, real, calls = SVC().fit(*MOONS), _left_out.solve, []

    def interrupted(*arguments, **more):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **more)

    monkeypatch.setattr(_left_out, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        generalization_report(model)
    assert len(calls) == 2
    removed, optima = [], leave_one_out.Response._optima

    def struck(response, gone, starts, stretch):
        removed.extend(gone)
        if len(removed) == 4:
            raise KeyboardInterrupt
        return optima(response, gone, starts, stretch)

    monkeypatch.setattr(leave_one_out, "OPTIMA_PER_CALL", 2)
    monkeypatch.setattr(leave_one_out.Response, "_optima", struck)
    with pytest.raises(KeyboardInterrupt):
        generalization_report(model)
    assert len(removed) == 4


# --- geometry --------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [0.005, 0.01, 10.0])
def test_gamma_is_the_distance_to_the_hull_of_the_margin_vectors(C, intercept):
    X, y = WIDE
    model = SVC(kernel="linear", C=C, fit_intercept=intercept).fit(X, y)
    (pair,) = generalization_report(model, leave_one_out=False).pairs
    margin = pair.support[pair.alpha < C * (1 - 1e-12)]
    assert len(margin) >= 2
    for c, gamma, twice_energy in zip(pair.support, pair.gamma, pair.twice_energy, strict=True):
        others = margin[margin != c]
        origin = X[others[0]] if intercept else 0.0
        span = (X[others[1:]] - origin if intercept else X[others]).T
        target = X[c] - origin
        distance = np.sum((target - span @ np.linalg.lstsq(span, target, rcond=None)[0]) ** 2)
        np.testing.assert_allclose([gamma, twice_energy], distance, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("C", [0.5, 5.0])
def test_gamma_is_twice_the_energy_of_cauwenberghs_and_poggio(C):
    """Equations 10 to 13 and 20, with their signs and labels."""
    X, y = MOONS
    signs = 2.0 * y - 1
    Q = np.outer(signs, signs) * np.exp(-((X[:, None] - X) ** 2).sum(-1))
    (pair,) = generalization_report(SVC(C=C, gamma=1.0).fit(X, y), leave_one_out=False).pairs
    margin = pair.support[pair.alpha < C * (1 - 1e-12)]
    assert pair.n_bounded > 3
    for c, gamma, twice_energy in zip(pair.support, pair.gamma, pair.twice_energy, strict=True):
        S = margin[margin != c]
        bordered = np.block([[np.zeros((1, 1)), signs[None, S]], [signs[S, None], Q[np.ix_(S, S)]]])
        beta = -np.linalg.solve(bordered, np.r_[signs[c], Q[S, c]])
        response = Q[c, c] + Q[c, S] @ beta[1:] + signs[c] * beta[0]
        energy = 0.5 * Q[c, c] + Q[c, S] @ beta[1:] + 0.5 * beta[1:] @ Q[np.ix_(S, S)] @ beta[1:]
        np.testing.assert_allclose(2 * energy, response, rtol=1e-7)
        np.testing.assert_allclose([gamma, twice_energy], response, rtol=1e-7)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_where_no_set_changes_the_first_segment_is_exact(loss):
    """Points so far apart that all of them support, with or without each: then W rises by ½γα², too."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(14, 3)) * 3, np.arange(14) % 2
    model = SVC(C=np.inf if loss == "hinge" else 3.0, gamma=1.0, loss=loss).fit(X, y)
    (pair,) = generalization_report(model).pairs
    assert pair.n_margin == 14
    np.testing.assert_allclose(pair.first_segment, pair.loo_margin, rtol=1e-9, atol=1e-11)
    if loss == "hinge":
        problem, f = model.solution_.problem, model.certificate_.objective
        for c in range(14):
            rest = replace(problem, upper=np.where(np.arange(14) == c, 0.0, problem.upper))
            risen = dualflow.solve(rest, refine=True, tol=1e-12).certificate.objective - f
            np.testing.assert_allclose(risen, 0.5 * pair.gamma[c] * pair.alpha[c] ** 2, rtol=1e-8)


# --- norms and radii -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters", [{"C": 0.1}, {"C": 10.0}, {"C": np.inf}, {"C": 1.0, "fit_intercept": False}], ids=str
)
def test_the_squared_norm_is_the_sum_of_alpha_less_the_slacks(parameters):
    X, y = NARROW
    if np.isinf(parameters["C"]):
        X = X + 10.0 * np.outer(y, np.ones(4))
    model = SVC(kernel="linear", **parameters).fit(X, y)
    (pair,) = generalization_report(model, leave_one_out=False).pairs
    w, signs = model.coef_[0], 2.0 * y - 1
    xi = np.maximum(0.0, 1.0 - signs * (X @ w + model.intercept_[0]))
    np.testing.assert_allclose(pair.squared_norm, w @ w, rtol=1e-9)
    np.testing.assert_allclose(pair.margin, 1 / np.linalg.norm(w), rtol=1e-9)
    np.testing.assert_allclose(pair.squared_norm, pair.alpha_sum - pair.slack_sum, rtol=1e-9)
    if np.isinf(parameters["C"]):  # the blog's case
        np.testing.assert_allclose(pair.squared_norm, pair.alpha_sum, rtol=1e-9)
    else:
        np.testing.assert_allclose(pair.slack_sum, parameters["C"] * xi.sum(), rtol=1e-9)
        assert pair.alpha_sum > 1.1 * pair.squared_norm


@pytest.mark.parametrize("parameters", [{"loss": "squared_hinge"}, {"fit_intercept": "penalised"}], ids=str)
def test_a_bias_inside_the_kernel_is_counted_in(parameters):
    X, y = NARROW
    model = SVC(kernel="linear", C=2.0, **parameters).fit(X, y)
    (pair,) = generalization_report(model, leave_one_out=False).pairs
    w, b = model.coef_[0], model.intercept_[0]
    np.testing.assert_allclose(pair.squared_norm, w @ w + b * b, rtol=1e-9)
    np.testing.assert_allclose(pair.squared_norm, pair.alpha_sum - pair.slack_sum, rtol=1e-9)


def test_the_radius_is_that_of_the_hard_ball():
    X, y = MOONS
    (pair,) = generalization_report(SVC(gamma=1.0).fit(X, y), leave_one_out=False).pairs
    np.testing.assert_allclose(pair.squared_radius, SVDD(nu=None, gamma=1.0).fit(X).radius_ ** 2, rtol=1e-8)
    np.testing.assert_allclose(pair.radius_margin, pair.squared_radius * pair.squared_norm / 60, rtol=1e-15)
    # The ridge gives each point a separate dimension: K + I/(2C).
    K = np.exp(-((X[:, None] - X) ** 2).sum(-1)) + np.eye(60) / 4.0
    (pair,) = generalization_report(SVC(loss="squared_hinge", C=2.0, gamma=1.0).fit(X, y), leave_one_out=False).pairs
    np.testing.assert_allclose(pair.squared_radius, SVDD(nu=None, kernel="precomputed").fit(K).radius_ ** 2, rtol=1e-8)


# --- use -------------------------------------------------------------------------------------------


def test_the_model_is_left_as_it_is_and_may_come_from_a_file(tmp_path):
    model = SVC(refine=False, tol=1e-3, random_state=0).fit(*MOONS)
    model.save(tmp_path / "before")
    report = generalization_report(model)
    model.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()
    assert not hasattr(model.solution_.problem.gram, "_full")  # nor is an n × n matrix left in it
    assert str(generalization_report(dualflow.load(tmp_path / "before"))) == str(report)
    # An inexact model is taken to its optimum first.
    exact = generalization_report(SVC().fit(*MOONS))
    np.testing.assert_allclose(report.pairs[0].loo_margin, exact.pairs[0].loo_margin, atol=1e-9)


def test_data_may_be_given_and_refits_left_out():
    model = SVC(C=3.0, kernel="linear")
    report = generalization_report(model, *NARROW)
    assert not hasattr(model, "solutions_")
    assert str(report) == str(generalization_report(SVC(C=3.0, kernel="linear").fit(*NARROW)))
    quick = generalization_report(model, *NARROW, leave_one_out=False)
    assert quick.loo_error is quick.pairs[0].loo_margin is None
    assert quick.first_segment_error == report.first_segment_error
    assert "leave-one-out error not computed" in str(quick)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_models_without_a_report_are_refused():
    with pytest.raises(NotFittedError):
        generalization_report(SVC())
    with pytest.raises(ProblemError, match="SVDD is not a support vector classifier"):
        generalization_report(SVDD().fit(MOONS[0]))
    with pytest.raises(ProblemError, match="X and y go together"):
        generalization_report(SVC(), MOONS[0])
    with pytest.raises(ProblemError, match="indefinite"):
        generalization_report(SVC(kernel="sigmoid", gamma=2.0, coef0=-1.0).fit(*MOONS))
