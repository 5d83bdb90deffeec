"""Kernels of many features: each entry is computed once, as far as memory allows, and values do not change."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn import svm
from sklearn.datasets import load_digits, make_classification

from dualflow import SVC, SVR, Gram, certify, problems, solve
from dualflow.core import kernel_cache
from dualflow.core.kernel_cache import KeptGram
from dualflow.core.radial import FEW_FEATURES
from dualflow.core.workspace import Workspace
from dualflow.working_set import level
from dualflow.working_set.descent import Descent

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1300, 80))
Y = np.where(X[:, :8].sum(axis=1) + RNG.normal(size=1300) > 0, 1, -1)
KERNELS = [("rbf", {}), ("linear", {}), ("poly", {"degree": 2, "coef0": 1.0})]


@pytest.mark.parametrize(("kernel", "more"), KERNELS)
def test_a_block_of_kept_rows_is_the_block(kernel, more):
    gram = KeptGram(Gram(X, kernel, **more))
    gram.sum_rows(np.arange(0, 300, 3), np.ones(100), np.float32)
    J = np.sort(RNG.choice(1300, 200, replace=False))
    J = np.concatenate([J, J[:3]])  # both variables of a point
    counted = gram.entries_computed
    block = gram.cached_block(J, np.float32)
    np.testing.assert_allclose(block, KeptGram(Gram(X, kernel, **more)).block(J, J), rtol=1e-4, atol=1e-5)
    known = np.isin(J, np.arange(0, 300, 3)).sum()
    assert 0 < gram.entries_computed - counted == (len(J) - known) ** 2 < len(J) ** 2
    block[:] = 0.0
    assert gram.cached_block(J, np.float32).any()


@pytest.mark.parametrize(("kernel", "more"), KERNELS)
def test_the_whole_matrix_is_symmetric_to_the_bit_and_half_of_it_computed(kernel, more):
    gram = KeptGram(Gram(X, kernel, **more))
    K = gram.full()
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, Gram(X, kernel, **more).rows(np.arange(1300)), rtol=1e-12, atol=1e-12)
    assert gram.entries_computed <= 0.6 * 1300**2


def test_requests_for_half_of_the_matrix_compute_it_once():
    gram = KeptGram(Gram(X))
    v = RNG.normal(size=1300)
    expected = Gram(X).matvec(v)
    for _ in range(5):
        np.testing.assert_allclose(gram.matvec(v), expected, rtol=1e-10, atol=1e-10)
    assert gram.entries_computed <= 0.6 * 1300**2


@pytest.mark.parametrize("points", [X[:, :60], X[:450], np.repeat(X, 4, axis=0)])
def test_cheap_small_and_large_matrices_are_not_cached(points):
    gram = KeptGram(Gram(points))
    for _ in range(3):
        gram.matvec(np.ones(len(points)))
    assert gram._full is None


def test_a_fit_computes_each_entry_about_once_for_the_solver_and_once_for_the_certificate(monkeypatch):
    model = SVC(C=10.0).fit(X, Y)
    columns = model.solution_.cost.kernel_columns
    assert columns <= 1.3 * 1300
    monkeypatch.setattr(kernel_cache, "MIN_POINTS_DENSE", 0)
    monkeypatch.setattr(kernel_cache, "MAX_POINTS_DENSE", 0)
    again = SVC(C=10.0).fit(X, Y)
    assert again.certificate_.objective == pytest.approx(model.certificate_.objective, rel=1e-12)


@pytest.mark.parametrize("n", [900, 1400])
def test_few_support_vectors_need_few_entries_for_any_number_of_features(n):
    points, digits = load_digits(return_X_y=True)
    points = np.hstack([points, points[:, :10]])[:n] / 16
    model = SVC(C=100.0, tol=1e-9).fit(points, digits[:n] == 0)
    assert points.shape[1] > FEW_FEATURES
    assert len(model.support_) < 0.1 * n
    assert model.solution_.cost.kernel_columns < 0.2 * n
    tight = svm.SVC(C=100.0, tol=1e-9).fit(points, digits[:n] == 0)
    np.testing.assert_allclose(model.decision_function(points), tight.decision_function(points), atol=1e-5)


def test_a_block_of_all_variables_is_computed_once():
    few, labels = make_classification(900, 30, flip_y=0.2, random_state=0)
    model = SVC(kernel="poly", tol=1e-9).fit(few, labels)
    assert model.solution_.cost.kernel_columns < 1.3 * 900
    assert model.certificate_.relative_gap <= 1e-9


def test_solver_and_certifier_do_not_share_a_matrix():
    problem = problems.svc(Gram(X), Y, 1.0)
    one, other = Workspace(problem), Workspace(problem)
    one.gram.matvec(np.ones(1300))
    assert one.gram._full is not None
    assert other.gram._full is None


# --- one matrix for the solver and the certificate ---------------------------------------------------

#: Noise alone: most points are support vectors.
NOISE = np.where(np.random.default_rng(1).random(1300) < 0.5, 1, -1)
SPREAD = [("rbf", {"gamma": 0.01}), ("linear", {}), ("poly", {"degree": 3, "gamma": 0.05})]


@pytest.fixture
def given(monkeypatch):
    """The matrices that solvers were given."""
    found = []
    take = KeptGram.use_float32

    def note(gram, K):
        found.append((gram, K))
        take(gram, K)

    monkeypatch.setattr(KeptGram, "use_float32", note)
    return found


@pytest.mark.parametrize(("kernel", "more"), SPREAD)
@pytest.mark.parametrize("moved", [0.0, 100.0])
def test_with_many_support_vectors_products_are_made_once_for_both(given, kernel, more, moved):
    """The optimum and its gap are those of matrices written out by numpy from the points."""
    points = X + (moved if kernel != "poly" else 0.0)
    # With options there is a run.
    more = more | {"solver": "working-set", "solver_options": {"hand_over": True}}
    model = SVC(kernel=kernel, C=1.0, tol=1e-9, **more).fit(points, NOISE)
    assert len(given) == 1
    assert model.solution_.cost.kernel_columns <= 0.7 * 1300
    inner = X @ X.T if kernel != "linear" else points @ points.T
    if kernel == "rbf":
        squares = (X**2).sum(axis=1)
        K = np.exp(-0.01 * (squares[:, None] + squares - 2 * inner))
    else:
        K = inner if kernel == "linear" else (0.05 * inner) ** 3
    certificate = model.certificate_
    y = np.where(model.classes_[1] == NOISE, 1.0, -1.0)
    alpha = certificate.alpha
    assert abs(alpha @ y) < 1e-9
    assert ((alpha >= 0) & (alpha <= 1)).all()
    h = y * (K @ (y * alpha)) - 1.0
    value = 0.5 * alpha @ (h - 1.0)
    assert certificate.objective == pytest.approx(value, rel=1e-9)
    knots = h * y
    bound = max(np.minimum(0.0, h - nu * y).sum() for nu in knots) - 0.5 * alpha @ (h + 1.0)
    assert certificate.relative_gap <= 1e-9
    assert value - bound <= 1e-8 * abs(value)


def test_the_solvers_copy_is_rounded_from_float64_and_not_shared(given):
    problem = problems.svc(Gram(X, gamma=0.01), NOISE, 1.0)
    before = solve(problem, "working-set", refine="early", tol=1e-9, hand_over=True).certificate
    ((gram, K),) = given
    expected = Gram(X, gamma=0.01).full().astype(np.float32)
    np.testing.assert_array_equal(K, expected)
    J, weights = np.array([3, 70, 1299]), np.array([1.0, -2.0, 0.5])
    for single in (gram.rows(J, np.float32), gram.block(J, np.arange(1300), np.float32)):
        assert single.dtype == np.float32
        np.testing.assert_array_equal(single, expected[J])
    np.testing.assert_array_equal(gram.cached_block(J, np.float32), expected[np.ix_(J, J)])
    np.testing.assert_allclose(gram.sum_rows(J, weights, np.float32), weights @ expected[J].astype(float), atol=1e-12)
    # In float64 it computes its own.
    np.testing.assert_allclose(gram.rows(J), Gram(X, gamma=0.01).rows(J), rtol=1e-12)
    assert not np.array_equal(gram.rows(J), expected[J].astype(float))
    K[:] = np.nan
    again = solve(problem, "working-set", refine="early", tol=1e-9, hand_over=True)
    assert again.certificate.objective == before.objective


def test_a_solver_that_overwrites_its_copy_does_not_change_certificates(monkeypatch):
    take = KeptGram.use_float32
    monkeypatch.setattr(KeptGram, "use_float32", lambda gram, K: (K.__imul__(0.5), take(gram, K)))
    problem = problems.svc(Gram(X, gamma=0.01), NOISE, 1.0)
    solution = solve(problem, "working-set", refine=False, tol=1e-6, max_steps=2, hand_over=False)
    assert solution.raw_certificate.relative_gap == certify(problem, solution.raw_alpha).relative_gap > 1e-3
    refined = solve(problem, "working-set", refine="early", tol=1e-9, hand_over=True)
    assert refined.certificate.relative_gap <= 1e-9


def test_with_few_support_vectors_only_their_rows_are_computed(given):
    labels, points = np.where(X[:, 0] > 0, 1, -1), np.zeros_like(X)
    points[:, :2] = X[:, :2]
    points[:, 0] += labels
    model = SVC(kernel="linear", tol=1e-9).fit(points, labels)
    assert not given
    assert len(model.support_) < 110
    assert model.solution_.cost.kernel_columns < 0.5 * 1300


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_values_beyond_float32_are_not_given(given, scale):
    SVC(kernel="linear", C=1.0 / scale**2, tol=1e-6).fit(X * scale, NOISE)
    assert not given


def test_a_matrix_that_would_take_a_large_part_of_the_memory_is_not_formed(monkeypatch, given):
    monkeypatch.setattr(kernel_cache, "memory_bytes", lambda: 4 * 8 * 1300**2 - 1)
    model = SVC(gamma=0.01, tol=1e-9).fit(X, NOISE)
    assert not given
    assert model.certificate_.relative_gap <= 1e-9
    wide = np.zeros((8193, 2100), dtype=np.float32)
    monkeypatch.setattr(kernel_cache, "memory_bytes", lambda: None)
    wide[:, 0] = np.arange(8193)
    for n, m, whole in (
        (4000, 65, True),
        (4100, 1000, False),
        (4100, 1025, True),
        (8192, 2100, True),
        (8193, 2100, False),
    ):
        assert KeptGram(Gram(wide[:n, :m], "linear")).is_expensive == whole


def test_a_large_matrix_of_many_support_vectors_is_one_block_in_its_only_copy(monkeypatch, given):
    """The limits of large matrices, lowered: the optimum is that of blocks, and LIBSVM's."""
    monkeypatch.setattr(kernel_cache, "MAX_POINTS_DENSE", 1000)
    monkeypatch.setattr(level, "MAX_N_ONE_BLOCK", 1000)
    widths, block = [], level.Level.block
    monkeypatch.setattr(level.Level, "block", lambda self, W: (widths.append(len(W)), block(self, W))[1])
    problem = problems.svc(Gram(X, "poly", degree=3, gamma=0.05), NOISE, 1.0)
    found = solve(problem, "working-set", refine=True, hand_over=True)
    ((gram, _),) = given
    assert widths[-2:] == [1300, 1300]  # after those of the level before
    assert not gram.is_expensive
    assert not gram.is_rounded  # it was taken
    assert found.cost.kernel_columns <= 0.7 * 1300
    monkeypatch.setattr(kernel_cache, "MAX_POINTS_DENSE_MANY", 1299)
    other = solve(problem, "working-set", refine=True, hand_over=True)
    assert len(given) == 1
    assert max(found.certificate.relative_gap, other.certificate.relative_gap) <= 1e-9
    assert found.certificate.objective == pytest.approx(other.certificate.objective, rel=1e-9)
    libsvm = svm.SVC(kernel="poly", degree=3, gamma=0.05, tol=1e-9).fit(X, NOISE)
    decision = Gram(X, "poly", degree=3, gamma=0.05).full() @ (NOISE * found.alpha) + found.bias
    np.testing.assert_allclose(decision, libsvm.decision_function(X), atol=1e-5)


@pytest.mark.parametrize(("share", "count"), [(0.55, 0), (0.65, 1)])
def test_a_large_matrix_is_given_if_many_points_of_the_level_before_are_support_vectors(monkeypatch, share, count):
    monkeypatch.setattr(kernel_cache, "MAX_POINTS_DENSE", 1000)
    problem = Workspace(problems.svc(Gram(X, "poly"), NOISE, 1.0))
    descent = Descent(problem, 1e-6, None, True)
    before = np.zeros(1300)
    before[: int(share * 325)] = 0.5
    state = replace(descent.start(None), depth=0, anchor=before)
    assert descent.wants_whole(state) == count
    radial = Workspace(problems.svc(Gram(X), NOISE, 1.0))  # whose rows are made on demand
    assert not Descent(radial, 1e-6, None, True).wants_whole(state)


def test_a_resumed_run_is_given_the_same_and_goes_on_to_the_same_bits(tmp_path, given):
    problem = problems.svc(Gram(X, gamma=0.01), NOISE, 10.0)
    whole = solve(problem, tol=1e-6, max_steps=4)
    for stop in (1, 2):
        file = tmp_path / f"{stop}.npz"
        solve(problem, tol=1e-6, max_steps=stop, checkpoint=file)
        given.clear()
        resumed = solve(problem, tol=1e-6, max_steps=4, checkpoint=file)
        assert len(given) == 1
        np.testing.assert_array_equal(resumed.raw_alpha, whole.raw_alpha)


def test_sparse_points_held_as_a_matrix_take_the_path_of_dense_ones():
    X, y = make_classification(1500, 20, random_state=0)
    dense, sparse = (SVC().fit(points, y) for points in (X, csr_array(X)))
    assert sparse.solution_.cost.kernel_columns == dense.solution_.cost.kernel_columns < 1500


def test_rows_that_serve_two_variables_make_a_larger_matrix_pay(monkeypatch):
    """Of a regression with a tube. Rows were made for each variable, and again for each block."""
    monkeypatch.setattr(kernel_cache, "MAX_POINTS_DENSE", 1000)
    gram = Gram(X)
    assert not Workspace(problems.svc(gram, Y, 1.0)).gram.is_expensive
    assert Workspace(problems.svr(gram, NOISE.astype(float), 1.0)).gram.is_expensive
    monkeypatch.setattr(kernel_cache, "MAX_POINTS_DENSE_WIDE", 1200)
    assert not Workspace(problems.svr(gram, NOISE.astype(float), 1.0)).gram.is_expensive
    monkeypatch.undo()
    monkeypatch.setattr(kernel_cache, "MAX_POINTS_DENSE", 1000)
    model = SVR(C=1.0, tol=1e-9).fit(X, NOISE)
    assert model.certificate_.relative_gap <= 1e-9
    assert model.solution_.cost.kernel_columns <= 1.1 * len(X)
