"""Tests of fronts of margin against training error: the certified C-path, the search, and the front's methods."""

import csv
import importlib.util
import itertools
import json
import subprocess
import sys
from types import SimpleNamespace

import cvxopt
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_moons
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import dualflow
from dualflow import FrontStatus, Gram, ProblemError, SolverUnavailable, pareto_front
from dualflow.evolution.fronts import (
    best_hinge_thresholds,
    best_thresholds,
    lower_hull,
    nondominated,
    sandwich,
    threshold_of,
    widest_gaps,
)
from dualflow.tradeoff import path, search
from dualflow.tradeoff.front import cross_validated

needs_pymoo = pytest.mark.skipif(
    importlib.util.find_spec("pymoo") is None, reason="pymoo comes with pip install 'dualflow[evolution]'"
)


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(60, noise=0.3, random_state=0)
    return X, 2.0 * y - 1.0


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X)[:200], y[:200]


def primal(X, y, C):
    """‖w‖² and Σξ of the linear hinge SVM with bias, from its primal by CVXOPT: no kernel and no dual of ours."""
    n, m = X.shape
    P = np.zeros((m + 1 + n,) * 2)
    P[:m, :m] = np.eye(m)
    q = np.r_[np.zeros(m + 1), np.full(n, C)]
    margins = np.c_[-y[:, None] * X, -y, -np.eye(n)]
    slacks = np.c_[np.zeros((n, m + 1)), -np.eye(n)]
    G, h = np.r_[margins, slacks], np.r_[-np.ones(n), np.zeros(n)]
    options = {"show_progress": False, "abstol": 1e-11, "reltol": 1e-11, "feastol": 1e-11}
    matrices = [cvxopt.matrix(a) for a in (P, q, G, h)]
    z = np.array(cvxopt.solvers.qp(*matrices, options=options)["x"]).ravel()
    w, b = z[:m], z[m]
    return w @ w, np.maximum(0.0, 1.0 - y * (X @ w + b)).sum()


def hard_margin(X, y):
    """Least ‖w‖² with y(⟨w, x⟩ + b) ≥ 1, by CVXOPT; 0 for a single class, ∞ where nothing separates."""
    if abs(y.sum()) == len(y):
        return 0.0
    m = X.shape[1]
    P = np.diag(np.r_[np.ones(m), 0.0])
    matrices = [
        cvxopt.matrix(a) for a in (P, np.zeros(m + 1), -y[:, None] * np.c_[X, np.ones(len(y))], -np.ones(len(y)))
    ]
    try:
        solved = cvxopt.solvers.qp(*matrices, options={"show_progress": False, "abstol": 1e-10, "reltol": 1e-10})
    except (ArithmeticError, ValueError):
        return np.inf
    return 2 * solved["primal objective"] if solved["status"] == "optimal" else np.inf


# --- the mathematics of fronts -----------------------------------------------------------------


def test_nondominated_is_what_pairwise_comparison_says():
    rng = np.random.default_rng(0)
    for _ in range(20):
        F = rng.integers(0, 6, (30, 2)).astype(float)
        kept = nondominated(F)
        beaten = [any((g <= f).all() and (g < f).any() for g in F) for f in F]
        assert {tuple(f) for f in F[kept]} == {tuple(f) for f, b in zip(F, beaten, strict=True) if not b}
        assert (np.diff(F[kept, 0]) > 0).all()
        assert (np.diff(F[kept, 1]) < 0).all()


def test_the_hull_has_the_least_weighted_sum_for_every_weight():
    rng = np.random.default_rng(1)
    F, C = rng.random((40, 2)), np.geomspace(1e-4, 1e4, 500)
    sums = 0.5 * F[:, 0] + C[:, None] * F[:, 1]
    hull = lower_hull(F)
    np.testing.assert_allclose(sums[:, hull].min(axis=1), sums.min(axis=1), rtol=1e-12)
    assert len(hull) < len(nondominated(F))


def test_the_distance_is_the_largest_over_a_fine_grid():
    # Exact front F₂ = 1/F₁: ½F₁ + C F₂ is least at F₁ = √(2C), where it is √(2C).
    known = np.array([0.1, 0.7, 5.0])
    norms = np.sqrt(2 * known)
    F, values = np.c_[norms, 1 / norms], np.sqrt(2 * known)
    C, distance = sandwich(F, known, values, 0.05, 20.0)
    grid = np.geomspace(0.05, 20.0, 20001)
    upper = (0.5 * F[:, 0] + grid[:, None] * F[:, 1]).min(axis=1)
    lower = np.interp(grid, [0, *known], [0, *values])
    dense = (upper - lower) / upper
    assert dense.max() <= distance.max() <= dense.max() + 1e-3
    assert C[0] == 0.05
    assert C[-1] == 20.0
    assert (lower <= np.sqrt(2 * grid) + 1e-12).all()  # the exact values lie between
    assert (upper >= np.sqrt(2 * grid) - 1e-12).all()


@pytest.mark.parametrize("decimals", [0, 6])  # 0: many ties
def test_thresholds_are_the_best_of_all(decimals):
    rng = np.random.default_rng(2)
    y = np.where(rng.random(15) < 0.4, -1.0, 1.0)
    G = np.round(2 * rng.normal(size=(50, 15)), decimals)
    candidates = np.concatenate([1 - G, -1 - G], axis=1)
    counts = [(y * (g + b[:, None]) < 1 - 1e-9).sum(axis=1).min() for g, b in zip(G, candidates, strict=True)]
    found = (y * (G + best_thresholds(G, y, 1e-9)[:, None]) < 1 - 2e-9).sum(axis=1)
    assert found.tolist() == counts
    sums = [np.maximum(0, 1 - y * (g + b[:, None])).sum(axis=1).min() for g, b in zip(G, candidates, strict=True)]
    found = np.maximum(0, 1 - y * (G + best_hinge_thresholds(G, y)[:, None])).sum(axis=1)
    np.testing.assert_allclose(found, sums, rtol=1e-12)


@pytest.mark.parametrize("biased", [True, False])
def test_gaps_are_the_widest_of_all_choices(biased):
    rng = np.random.default_rng(3)
    y = np.array([1.0, 1, 1, 1, -1, -1, -1])
    G = rng.normal(size=(20, 7)) + 0.5 * y
    gaps = widest_gaps(G, y, biased)
    assert gaps.shape == (20, 6)
    for g, row in zip(G, gaps, strict=True):
        for k in range(6):
            best = -np.inf
            for kept in itertools.combinations(range(7), 7 - k):
                rows = list(kept)
                positive, negative = g[rows][y[rows] > 0], g[rows][y[rows] < 0]
                if not biased:
                    best = max(best, 2 * (y * g)[rows].min())
                elif len(positive) and len(negative):
                    best = max(best, positive.min() - negative.max())
            assert row[k] == pytest.approx(best, rel=1e-12)
            if biased:
                content = y * (g - threshold_of(g, y, k)) >= row[k] / 2 - 1e-12
                assert content.sum() >= 7 - k


# --- hinge: the C-path -------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [3e-2, 1e-3])
def test_no_optimum_of_cvxopt_lies_below_the_bound_nor_above_the_points(moons, tol):
    X, y = moons
    front = pareto_front(X, y, kernel="linear", C=(1e-2, 1e2), tol=tol)
    assert front.status is FrontStatus.CERTIFIED
    assert front.distance <= tol
    norms, errors = front.criteria.T
    for C in np.geomspace(1.3e-2, 77.0, 13):
        norm, error = primal(X, y, C)
        assert front.lower_bound(norm) <= error + 1e-6
        assert np.interp(norm, norms, errors) >= error - 1e-6
        optimum, best = 0.5 * norm + C * error, (0.5 * norms + C * errors).min()
        assert optimum * (1 - 1e-7) <= best <= optimum / (1 - front.distance)


def test_points_are_those_of_libsvm(cancer):
    X, y = cancer
    front = pareto_front(X, y)
    gamma = front.points[0].gram.gamma
    for point in front.points[::6]:
        peer = SVC(C=point.C, gamma=gamma, tol=1e-8).fit(X, y)
        signs, values = np.where(y == 1, 1, -1), peer.decision_function(X)
        beta = peer.dual_coef_[0]
        K = np.exp(-gamma * ((X[peer.support_, None] - X[peer.support_]) ** 2).sum(axis=2))
        assert point.squared_norm == pytest.approx(beta @ K @ beta, rel=1e-5)
        assert point.error == pytest.approx(np.maximum(0, 1 - signs * values).sum(), rel=1e-5, abs=1e-4)
        assert point.mistakes == (peer.predict(X) != y).sum()
        assert point.relative_gap <= 1e-9


def test_no_point_dominates_another(cancer):
    F = pareto_front(*cancer, tol=1e-3).criteria
    assert len(F) > 50
    for i, j in itertools.permutations(range(len(F)), 2):
        assert not (F[i] <= F[j]).all()


def test_the_bound_holds_however_badly_the_problems_are_solved(moons, monkeypatch):
    X, y = moons

    def badly(problem, **options):
        return dualflow.solve(problem, "frank-wolfe", max_steps=20, warm=options["warm"])

    monkeypatch.setattr(path, "solve", badly)
    front = pareto_front(X, y, kernel="linear", C=(1e-2, 1e2), tol=1e-3, max_points=40)
    assert front.distance > 1e-3  # the remaining distance is reported
    for C in np.geomspace(1e-2, 1e2, 9):
        norm, error = primal(X, y, C)
        assert front.lower_bound(norm) <= error + 1e-6
        best = (0.5 * front.criteria[:, 0] + C * front.criteria[:, 1]).min()
        assert best <= (0.5 * norm + C * error) / (1 - front.distance) * (1 + 1e-9)


def test_a_front_with_a_solver_gap_is_not_certified(moons):
    X, y = moons
    front = pareto_front(1e6 * X, y, kernel="linear")  # at C = 0.01 close to a hard margin, which does not exist
    assert (front.status is FrontStatus.CERTIFIED) == (front.distance <= 1e-2)
    assert front.status in (FrontStatus.CERTIFIED, FrontStatus.SOLVER_GAP)
    exact = primal(X, y, 1e10)  # the same problem in other units: C is 1e12 times as much
    assert front.lower_bound(exact[0] / 1e12) <= exact[1] + 1e-6


@pytest.mark.parametrize("fit_intercept", [True, False, "penalised"])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "precomputed"])
def test_points_predict_with_their_criteria(moons, kernel, fit_intercept):
    X, y = moons
    given = Gram(X).full() if kernel == "precomputed" else X
    labels = np.where(y > 0, "up", "down")
    front = pareto_front(given, labels, kernel=kernel, fit_intercept=fit_intercept, C=(0.1, 10))
    assert front.distance <= 1e-2
    for point in front.points:
        values = point.decision_function(given)
        assert np.maximum(0, 1 - y * values).sum() == pytest.approx(point.error, rel=1e-9)
        assert (point.predict(given) != labels).sum() == point.mistakes
        K = point.gram.full() + (fit_intercept == "penalised")
        assert (y * point.alpha) @ K @ (y * point.alpha) == pytest.approx(point.squared_norm, rel=1e-9)
        assert point.margin == pytest.approx(point.squared_norm**-0.5)


def test_the_c_of_a_grid_are_all_solved(moons):
    grid = [0.03, 0.2, 0.9, 7.0]
    front = pareto_front(*moons, C=grid, tol=10.0)
    assert set(grid) <= {point.C for point in front.points}


# --- the search --------------------------------------------------------------------------------


@needs_pymoo
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3, 4))])
def test_small_fronts_are_the_exact_ones(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6, 2))
    y = np.array([1.0, 1, 1, -1, -1, -1])
    exact = np.full(7, np.inf)
    for size in range(7):
        for kept in itertools.combinations(range(6), size):
            rows = list(kept)
            exact[6 - size] = min(exact[6 - size], hard_margin(X[rows], y[rows]) if rows else 0.0)
    exact = np.minimum.accumulate(exact)  # at most this many points left out
    front = pareto_front(X, y, errors="zero-one", kernel="linear", C=(0.1, 1e3))
    F = front.criteria
    assert len(F) == len(np.unique(exact[np.isfinite(exact)].round(9)))
    for norm, error in F:
        assert norm == pytest.approx(exact[int(error)], rel=1e-6, abs=1e-12)


@needs_pymoo
@pytest.mark.parametrize("fit_intercept", [True, False, "penalised"])
def test_a_search_is_never_worse_than_the_path_and_somewhere_better(moons, fit_intercept):
    X, y = moons
    options = {"C": (1e-2, 1e2), "fit_intercept": fit_intercept}
    hinge = pareto_front(X, y, **options)
    front = pareto_front(X, y, errors="zero-one", generations=60, **options)
    better = 0
    for point in hinge.points:
        content = y * point.decision_function(X) >= 1 - 1e-6
        as_good = front.criteria[front.criteria[:, 1] <= np.count_nonzero(~content)]
        assert as_good[:, 0].min() <= point.squared_norm * (1 + 3e-6)
        better += as_good[:, 0].min() < 0.99 * point.squared_norm
    assert better >= len(hinge) // 4
    for point in front.points:
        values = y * point.decision_function(X)
        assert np.count_nonzero(values < 1 - 1e-9) == point.error
        assert (point.predict(X) != np.where(y > 0, 1, -1)).sum() == point.mistakes
    # All points but those that keep points of a single class are hard margins, certified.
    assert all(
        point.certificate or len(np.unique(y[y * point.decision_function(X) >= 1])) < 2 for point in front.points
    )
    assert max(point.relative_gap or 0.0 for point in front.points) <= 1e-8


@pytest.mark.parametrize("errors", ["hinge", pytest.param("zero-one", marks=needs_pymoo)])
@pytest.mark.parametrize("fit_intercept", [True, False, "penalised"])
def test_an_indefinite_kernel_has_the_front_of_its_flipped_one(moons, fit_intercept, errors):
    X, y = moons
    kernel = {"kernel": "sigmoid", "gamma": 0.5, "coef0": -1.0}
    inside = fit_intercept == "penalised"
    K = Gram(X, **kernel).full()
    lam, V = np.linalg.eigh(K + inside)
    absolute = (V * np.abs(lam)) @ V.T
    options = {"C": (1e-2, 10), "errors": errors, "generations": 10}
    front = pareto_front(X, y, fit_intercept=fit_intercept, **kernel, **options)
    mended = dualflow.repair(K + inside, "flip").matrix  # a search follows the last bits: the same ones
    np.testing.assert_allclose(mended, absolute, atol=1e-12)
    bias = False if inside else fit_intercept
    peer = pareto_front(mended, y, kernel="precomputed", fit_intercept=bias, **options)
    np.testing.assert_allclose(front.criteria, peer.criteria, rtol=1e-6)
    assert (front.distance is None) == (errors == "zero-one")
    assert front.distance is None or front.distance <= 1e-2
    negative = 0
    for point in front.points:
        beta, values = y * point.alpha, y * point.decision_function(X)
        negative += (point.alpha < 0).any()
        assert point.squared_norm == pytest.approx(beta @ absolute @ beta, rel=1e-8, abs=1e-12)
        told = np.maximum(0, 1 - values).sum() if errors == "hinge" else (values < 1 - 1e-8).sum()
        assert told == pytest.approx(point.error, rel=1e-7)
    assert negative > 0
    with pytest.raises(ProblemError, match="give X and y"):
        front.pick()


@needs_pymoo
@pytest.mark.parametrize("fit_intercept", [True, False, "penalised"])
def test_a_raw_indefinite_kernel_is_searched_above_a_certified_bound(moons, fit_intercept):
    X, y = moons
    kernel = {"kernel": "sigmoid", "gamma": 0.5, "coef0": -1.0}
    K = Gram(X, **kernel).full() + (fit_intercept == "penalised")
    lam, V = np.linalg.eigh(K)
    assert lam[0] < -1e-2 * lam[-1]
    absolute = (V * np.abs(lam)) @ V.T
    front = pareto_front(X, y, C=(1e-2, 10), generations=40, fit_intercept=fit_intercept, indefinite="raw", **kernel)
    assert front.status is FrontStatus.SEARCHED
    assert 0 < front.distance < 1
    for point in front.points:
        beta = y * point.alpha
        assert point.squared_norm == pytest.approx(beta @ absolute @ beta, rel=1e-9, abs=1e-12)
        assert np.maximum(0, 1 - y * point.decision_function(X)).sum() == pytest.approx(point.error, rel=1e-9)
        assert point.error >= front.lower_bound(point.squared_norm) - 1e-9
        assert point.certificate is None
    rng = np.random.default_rng(0)
    for scale in np.geomspace(1e-3, 10, 30):  # no scaled classifier lies below it
        beta = scale * rng.normal(size=len(y))
        values = K @ beta
        b = best_hinge_thresholds(values[None], y)[0] if fit_intercept is True else 0.0
        error = np.maximum(0, 1 - y * (values + b)).sum()
        assert front.lower_bound(beta @ absolute @ beta) <= error + 1e-9


@needs_pymoo
def test_a_search_is_never_worse_than_where_the_default_solver_rests(moons):
    X, y = moons
    kernel = {"kernel": "sigmoid", "gamma": 0.5, "coef0": -1.0}
    front = pareto_front(X, y, indefinite="raw", C=(1e-2, 10), generations=20, random_state=3, **kernel)
    gram = Gram(X, **kernel)
    lam, V = np.linalg.eigh(gram.full())
    absolute = (V * np.abs(lam)) @ V.T
    for C in (0.01, 0.1, 1.0, 10.0):
        solution = dualflow.solve(dualflow.problems.svc(gram, y, C), tol=1e-6, max_steps=2000)
        beta = y * solution.alpha
        norm, error = beta @ absolute @ beta, np.maximum(0, 1 - y * solution.decision_values(X)).sum()
        F = front.criteria
        assert ((F[:, 0] <= norm * (1 + 1e-3)) & (F[:, 1] <= error * (1 + 1e-3))).any()


@needs_pymoo
def test_same_seed_same_front_and_no_global_generator(moons):
    before = np.random.get_state()[1].copy()  # noqa: NPY002 - the state that must not change
    first, again, other = (
        pareto_front(*moons, errors="zero-one", generations=15, random_state=seed) for seed in (4, 4, 5)
    )
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert np.array_equal(first.criteria, again.criteria)
    assert all(np.array_equal(a.alpha, b.alpha) for a, b in zip(first.points, again.points, strict=True))
    assert not np.array_equal(first.criteria, other.criteria)


# --- limits ------------------------------------------------------------------------------------


def test_limits_return_the_points_so_far_and_ctrl_c_is_raised(moons, monkeypatch):
    few = pareto_front(*moons, tol=1e-4, max_points=7)
    assert few.status is FrontStatus.POINT_LIMIT
    assert 5 <= len(few) <= 7
    assert few.distance > 1e-4
    late = pareto_front(*moons, time_limit=1e-6)
    assert late.status is FrontStatus.TIME_LIMIT
    assert len(late) >= 1
    assert late.distance <= 1
    calls = itertools.count()

    def interrupted(*args, **options):
        if next(calls) == 4:
            raise KeyboardInterrupt
        return dualflow.solve(*args, **options)

    monkeypatch.setattr(path, "solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pareto_front(*moons)


@needs_pymoo
def test_a_search_stops_with_what_it_has(moons, monkeypatch):
    calls, evaluate = itertools.count(), search.Search.evaluate

    def interrupted(self, A):
        if next(calls) == 10:
            raise KeyboardInterrupt
        return evaluate(self, A)

    monkeypatch.setattr(search.Search, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pareto_front(*moons, errors="zero-one")
    monkeypatch.undo()
    late = pareto_front(*moons, errors="zero-one", generations=10**6, time_limit=1.0)
    assert late.status is FrontStatus.TIME_LIMIT
    assert len(late) > 3


# --- what is made of a front -------------------------------------------------------------------


def test_pick_takes_the_fewest_mistakes_and_then_the_larger_margin(cancer):
    X, y = cancer
    front = pareto_front(X[:120], y[:120])
    wrong = [(point.predict(X[120:]) != y[120:]).sum() for point in front.points]
    best = [point for point, w in zip(front.points, wrong, strict=True) if w == min(wrong)]
    assert len(best) > 1
    assert front.pick(X[120:], y[120:]) is max(best, key=lambda point: point.margin)


def test_pick_by_cross_validation_is_libsvms(moons):
    X, y = moons
    front = pareto_front(X, y, gamma=3.0, C=(0.1, 100), tol=0.05)
    wrong = np.zeros(len(front), dtype=int)
    for train, held in StratifiedKFold(4, shuffle=True, random_state=7).split(X, y):
        for k, point in enumerate(front.points):
            peer = SVC(C=point.C, gamma=3.0, tol=1e-8).fit(X[train], y[train])
            wrong[k] += (peer.predict(X[held]) != y[held]).sum()
    assert wrong.min() < wrong.max()
    first = front.points[0]
    ours = cross_validated(first.gram, first.signs, [point.C for point in front.points], True, 4, 7)
    assert ours.tolist() == wrong.tolist()
    assert front.pick(folds=4, random_state=7) is front.points[int(np.argmin(wrong))]


def test_csv_holds_every_figure(moons, tmp_path):
    front = pareto_front(*moons, C=(0.1, 10))
    front.to_csv(tmp_path / "front.csv")
    with open(tmp_path / "front.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [[float(row["squared_norm"]), float(row["error"])] for row in rows] == front.criteria.tolist()
    assert [float(row["C"]) for row in rows] == [point.C for point in front.points]


@needs_pymoo
def test_plots(moons):
    figure = pytest.importorskip("matplotlib.figure", reason="matplotlib comes with pip install 'dualflow[plot]'")
    for errors in ("hinge", "zero-one"):
        front = pareto_front(*moons, errors=errors, generations=5)
        ax = front.plot(figure.Figure().subplots())
        points = next(line for line in ax.get_lines() if line.get_marker() == "o")
        np.testing.assert_array_equal(np.c_[points.get_xdata(), points.get_ydata()], front.criteria)
        assert bool(ax.collections) == (errors == "hinge")


@pytest.mark.filterwarnings("error")
def test_weights_may_have_any_ratio():
    front = pareto_front([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1], kernel="linear", C=(1e-300, 1e300), max_points=5)
    assert front.status is FrontStatus.POINT_LIMIT
    assert len(front) <= 5


@needs_pymoo
@pytest.mark.filterwarnings("error", "ignore:overflow encountered in matmul")  # α itself is 1e200
@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_fronts_of_kernels_of_any_scale(unit):
    y = [0, 0, 0, 1, 1, 1]
    K = np.eye(6) * unit
    front = pareto_front(K, y, kernel="precomputed", errors="zero-one", generations=20, population=40)
    # The hulls of p and of q orthogonal points of length √unit are √(unit/p + unit/q) apart.
    exact = {0: 4 / (1 / 3 + 1 / 3), 1: 4 / (1 / 2 + 1 / 3), 2: 4 / (1 + 1 / 3), 3: 0.0}
    norms, counts = front.criteria.T
    assert {3, 2, 0} <= set(counts)
    np.testing.assert_allclose(norms * unit, [exact[k] for k in counts], rtol=1e-6)
    assert pareto_front(K, y, kernel="precomputed").distance >= 0


# --- bad inputs, packages ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"errors": "squared"}, "errors='squared'"),
        ({"indefinite": "clip"}, "indefinite='clip'"),
        ({"C": 1.0}, "C=1.0 must be increasing"),
        ({"C": (1.0, 1.0)}, "must be increasing"),
        ({"C": (0.0, 1.0)}, "> 0"),
        ({"C": (1.0, np.inf)}, "finite"),
        ({"C": "all"}, "C='all'"),
        ({"tol": 0.0}, "tol=0.0"),
        ({"max_points": 1}, "max_points=1"),
        ({"population": 2.5}, "population=2.5"),
        ({"generations": 0}, "generations=0"),
        ({"time_limit": -1}, "time_limit=-1"),
        ({"fit_intercept": "yes"}, "fit_intercept='yes'"),
        ({"kernel": "rfb"}, "did you mean 'rbf'"),
        ({"y": np.ones(60)}, "1 classes"),
        ({"y": np.arange(60)}, "60 classes"),
        ({"y": np.full(60, np.nan)}, "NaN"),
        ({"y": np.ones(3)}, "one label a point"),
        ({"y": np.array([1, "a"] * 30, dtype=object)}, "several types"),
        ({"y": np.full(60, None)}, "labels of type NoneType"),
        ({"X": np.full((60, 2), np.nan)}, "NaN"),
        ({"errors": np.array(["hinge", "zero-one"])}, "errors=array"),
        ({"indefinite": ["flip"]}, "indefinite="),
        ({"fit_intercept": np.array([1, 0])}, "fit_intercept=array"),
        ({"random_state": "a"}, "random_state='a' must be an integer"),
        ({"random_state": -1}, "random_state=-1 must be an integer"),
    ],
)
def test_bad_arguments_are_named(moons, changed, message):
    arguments = {"X": moons[0], "y": moons[1]} | changed
    with pytest.raises(ProblemError, match=message.replace("(", r"\(")):
        pareto_front(arguments.pop("X"), arguments.pop("y"), **arguments)


def test_bad_validation_data_are_named(moons):
    X, y = moons
    front = pareto_front(X, y, C=(0.1, 10))
    for arguments, message in [
        ((X, y[:3]), "one label a point"),
        ((X, np.full(60, 7.0)), "7.0"),
        ((X[:, :1], y), "X has 1 columns"),
        ((X, None), "go together"),
    ]:
        with pytest.raises(ProblemError, match=message):
            front.pick(*arguments)
    with pytest.raises(ProblemError, match="folds=31"):
        front.pick(folds=31)


@needs_pymoo
def test_a_search_has_nothing_to_cross_validate_or_certify(moons):
    front = pareto_front(*moons, errors="zero-one", generations=2)
    with pytest.raises(ProblemError, match="give X and y"):
        front.pick()
    with pytest.raises(ProblemError, match="nothing is certified"):
        front.lower_bound(1.0)


def test_without_pymoo_the_pip_line_is_given(moons, monkeypatch):
    monkeypatch.setattr(search.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SolverUnavailable, match=r"pip install 'dualflow\[evolution\]'"):
        pareto_front(*moons, errors="zero-one")
    assert pareto_front(*moons, C=(0.1, 10)).status is FrontStatus.CERTIFIED


@needs_pymoo
def test_fronts_load_no_plotting_package():
    code = """
import dualflow, json, sys
loaded = []
for errors in ("hinge", "zero-one"):
    dualflow.pareto_front([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1], errors=errors, generations=2)
    loaded.append(list(sys.modules))
print(json.dumps(loaded))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    hinge, both = json.loads(done.stdout)
    assert "pymoo" not in hinge
    assert "pymoo" in both
    assert {"matplotlib", "qiskit", "pennylane", "autograd"} & set(both) == set()


def test_a_point_is_as_good_as_another_up_to_round_off_of_its_norm():
    def point(error, norm):
        return SimpleNamespace(error=error, squared_norm=norm)

    other = point(3, 1.0)
    assert search.is_as_good(point(3, 1.0 + 1e-10), other)
    assert not search.is_as_good(point(3, 1.0 + 1e-8), other)
    assert not search.is_as_good(point(4, 0.5), other)
