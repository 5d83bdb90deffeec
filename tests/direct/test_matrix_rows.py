"""Simplex problems of a kernel of low rank take few kernel rows, and end at cvxopt's optimum."""

import numpy as np
import pytest
from dualflow.working_set._pairs import RowSource, padded, solve_pairs

from dualflow import SVDD, Gram, OneClassSVM, certify, problems
from dualflow.direct.matrix_rows import suits_few_rows
from dualflow.direct.strategy import USUAL
from dualflow.direct.whole import solve_whole
from dualflow.testing.reference import QuadraticProgram, coneqp_optimum
from tests.thresholds import fits_with

RNG = np.random.default_rng(0)
#: Points whose problems have an optimum other than 0, to which a reference has digits.
SETS = {
    "clusters": np.repeat([[4.0, 0.0, -2.0], [2.0, 3.0, 1.0]], 200, axis=0) + 0.8 * RNG.standard_normal((400, 3)),
    "heavy tails": RNG.standard_t(2, size=(400, 3)) + np.array([9.0, 0.0, 0.0]),
    "scales apart": (RNG.standard_normal((400, 3)) + 2.0) * [1e-3, 1.0, 1e3],
}
KERNELS = {"linear": {"kernel": "linear"}, "square": {"kernel": "poly", "gamma": 0.5, "coef0": 1.0, "degree": 2}}
PROBLEMS = {"one class": problems.one_class, "ball": problems.svdd}


def matrix_of(X, kernel, gamma=1.0, coef0=0.0, degree=1):
    return (gamma * (X @ X.T) + coef0) ** degree


@pytest.mark.parametrize("nu", [0.1, 0.6])
@pytest.mark.parametrize("kind", PROBLEMS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", SETS)
def test_the_optimum_is_cvxopts(name, kernel, kind, nu):
    X, given = SETS[name], KERNELS[kernel]
    problem, n = PROBLEMS[kind](Gram(X, **given), nu), len(X)
    found = solve_whole(problem, 1e-9, 1e-6, by_rows=True)
    assert found.entries < n * n
    fresh = certify(problem, found.alpha)
    assert fresh.relative_gap <= 1e-9
    K = matrix_of(X, **given)
    size = K.max()  # cvxopt needs numbers of order 1
    Q, p = (2 * K, K.diagonal()) if kind == "ball" else (K, np.zeros(n))
    optimum, _ = coneqp_optimum(QuadraticProgram(Q / size, p / size, np.full(n, 1 / (nu * n)), np.ones(n), 1.0))
    assert fresh.objective / size == pytest.approx(optimum, rel=1e-7, abs=1e-10)


@pytest.mark.parametrize("model", [OneClassSVM, SVDD])
@pytest.mark.parametrize("kernel", KERNELS)
def test_scores_are_those_of_the_whole_matrix(model, kernel, monkeypatch):
    X, weight = SETS["heavy tails"], np.random.default_rng(1).uniform(0.5, 2.0, 400)
    few = model(nu=0.2, **KERNELS[kernel]).fit(X, sample_weight=weight)
    assert few.solution_.cost.kernel_columns < 240
    fits_with(monkeypatch, max_rank_by_rows=0)
    whole = model(nu=0.2, **KERNELS[kernel]).fit(X, sample_weight=weight)
    assert whole.solution_.cost.kernel_columns == 400
    objectives = [one.solution_.certificate.objective for one in (few, whole)]
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-9)
    np.testing.assert_allclose(few.score_samples(X), whole.score_samples(X), rtol=1e-6, atol=1e-7)


def test_where_more_rows_are_needed_another_method_takes_over(monkeypatch):
    X = SETS["clusters"]
    fits_with(monkeypatch, max_rows_per_rank=2, max_numbers_by_rows=0)
    model = OneClassSVM(nu=0.1, kernel="linear").fit(X)
    assert model.solution_.cost.kernel_columns == 400
    assert model.certificate_.relative_gap <= 1e-9


def test_problems_of_high_rank_ridges_and_other_kernels_are_left_to_others():
    X = SETS["heavy tails"]
    assert suits_few_rows(problems.one_class(Gram(X, "linear"), 0.1))
    wide = np.random.default_rng(0).standard_normal((400, USUAL.max_rank_by_rows + 1))
    assert not suits_few_rows(problems.one_class(Gram(wide, "linear"), 0.1))
    assert not suits_few_rows(problems.one_class(Gram(X, "rbf"), 0.1))
    assert not suits_few_rows(problems.svdd(Gram(X, "linear"), 0.1, ridge=0.5))


def loop_with_room_for(room, beta):
    X = np.zeros((200, 4))
    X[:, :3] = SETS["clusters"][:200]
    source = RowSource(X, np.zeros(200), np.ones(200), np.zeros(200), 1.0, 0.0, 1)
    rows, slots = np.full((room, padded(200)), np.nan), np.full(200, -1, dtype=np.int64)
    G = X @ (X.T @ beta)
    bounds = np.zeros(200), np.full(200, 0.05)
    return solve_pairs(rows, slots, 0, G, (X * X).sum(axis=1), beta, *bounds, True, 1e-14, 4000, source)


def test_the_pair_loop_ends_where_there_is_no_room_for_more_rows():
    start = np.zeros(200)
    start[:20] = 0.05
    moved, violation, used = loop_with_room_for(12, start)
    assert 0 < moved < 4000
    assert violation > 1e-14
    assert 8 < used <= 12
    moved, violation, used = loop_with_room_for(12, np.full(200, 0.005))  # 200 free variables have a row each
    assert (moved, violation, used) == (0, np.inf, 0)
