"""Variables far from moving are left out for a while: the end is that of all of them, and nothing else is touched."""

import numpy as np
import pytest
from dualflow.working_set._from_points import solve_points
from dualflow.working_set._pairs import RowSource, padded, solve_pairs
from sklearn import svm
from sklearn.datasets import make_classification

from dualflow import SVC, Gram
from dualflow.core.radial import RadialPoints
from dualflow.testing.reference import rbf_kernel
from dualflow.working_set import _from_points, _pairs

N, C = 2300, 100.0
X, T = make_classification(N, 10, n_informative=5, class_sep=1.2, random_state=0)
Y = np.where(T > 0, 1.0, -1.0)
K = rbf_kernel(X, 0.1)
LOW, HIGH = np.where(Y > 0, 0.0, -C), np.where(Y > 0, C, 0.0)
RIDGE = np.random.default_rng(0).uniform(0.0, 0.02, N)


@pytest.fixture(params=[True, False], ids=["in parts", "all"])
def in_parts(request, monkeypatch):
    """As it is, and without."""
    if not request.param:
        monkeypatch.setattr(_pairs, "MIN_N_SHRINK", N + 1)
        monkeypatch.setattr(_from_points, "MIN_N_SHRINK", N + 1)
    return request.param


def solved(dtype, equality, tolerance, limit=10**6, most=C):
    """β, G of the loop, updates, violation, and the matrix, with a ridge and an offset."""
    low, high = LOW * (most / C), HIGH * (most / C)
    points = Gram(X, gamma=0.1).radial_points(dtype)
    source = RowSource(points.points, points.half, np.ones(N), RIDGE, 1.0, 0.5)
    M = K + 0.5 + np.diag(RIDGE)
    rows, slots = np.full((N, padded(N)), np.nan, dtype=dtype), np.full(N, -1)
    G, beta = (-Y).astype(dtype), np.zeros(N)
    diag = M.diagonal().astype(dtype)
    updates, violation, used = solve_pairs(rows, slots, 0, G, diag, beta, low, high, equality, tolerance, limit, source)
    assert used == np.count_nonzero(slots >= 0)
    assert (slots[beta != 0] >= 0).all()
    made = np.flatnonzero(slots >= 0)
    np.testing.assert_allclose(rows[slots[made], :N], M[made], atol=1e-4 if dtype is np.float32 else 1e-12)
    return beta, G, updates, violation, M


@pytest.mark.parametrize("equality", [True, False])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-2), (np.float64, 1e-8)])
def test_the_end_is_that_of_all(equality, dtype, tolerance, in_parts):
    beta, G, _, violation, M = solved(dtype, equality, tolerance)
    assert violation <= tolerance
    assert (beta >= LOW).all()
    assert (beta <= HIGH).all()
    gradient = M @ beta - Y
    lost = (1e-6 if dtype is np.float32 else 1e-14) * (M @ np.abs(beta)).max()
    np.testing.assert_allclose(G, gradient, atol=lost)
    rise, fall = gradient[beta < HIGH].min(), gradient[beta > LOW].max()
    assert (fall - rise if equality else max(fall, -rise)) <= tolerance + 2 * lost
    if equality:
        assert abs(beta.sum()) <= 1e-10 * np.abs(beta).sum()


def test_something_is_left_out(monkeypatch):
    """Else the tests here would show nothing. Pairs are the same as long as those left out are none of theirs; their
    gradient is then a sum of other terms."""
    for most in (10.0, 100.0, 1000.0):
        ways = []
        for least in (N, N + 1):
            monkeypatch.setattr(_pairs, "MIN_N_SHRINK", least)
            beta, G, _, _, M = solved(np.float64, True, 1e-8, most=most)
            ways.append((G, 0.5 * beta @ M @ beta - Y @ beta))
        assert not np.array_equal(ways[0][0], ways[1][0])
        assert ways[0][1] == pytest.approx(ways[1][1], rel=1e-10)


def test_what_parts_make_is_counted(in_parts):
    points = Gram(X, gamma=0.1).radial_points(np.float64)
    source = RowSource(points.points, points.half, np.ones(N), np.zeros(N), 1.0, 0.0)
    rows, slots, beta = np.empty((N, padded(N))), np.full(N, -1), np.zeros(N)
    solve_pairs(rows, slots, 0, -Y, np.ones(N), beta, LOW, HIGH, True, 1e-8, 10**6, source)
    assert (source.entries > 0) is in_parts
    assert source.entries < N * np.count_nonzero(slots >= 0) / 2


@pytest.mark.parametrize("limit", [1, N // 2, N // 2 + 1, N // 2 + 7, 3000])
def test_no_more_updates_than_are_allowed(limit, in_parts):
    beta, _, updates, violation, _ = solved(np.float64, True, 1e-12, limit)
    assert updates == limit
    assert violation > 1e-12
    assert np.count_nonzero(beta)


@pytest.mark.parametrize("rows", [10, 300, 400, 420, 430, 440, 450, 600, N])
def test_no_more_rows_than_there_is_room_for(rows, in_parts):
    points = RadialPoints.of(X, np.zeros(10), 0.1, float, (X**2).sum(axis=1))
    beta = np.zeros(N)
    given = points.points, points.half, Y, LOW, HIGH, beta, np.empty(N)
    made = solve_points(*given, 1e-9, 10**6, rows, rows, False, 4, 100)
    assert made <= 2 * rows  # with parts of rows
    if made:
        gradient = K @ beta - Y
        assert gradient[beta > LOW].max() - gradient[beta < HIGH].min() <= 1e-7
    else:
        assert rows < N
    assert (beta >= LOW).all()
    assert (beta <= HIGH).all()


@pytest.mark.parametrize("C", [1.0, 1000.0])
def test_models_are_libsvms(C, in_parts):
    ours, theirs = SVC(C=C, gamma=0.1).fit(X, T), svm.SVC(C=C, gamma=0.1, tol=1e-10).fit(X, T)
    assert ours.certificate_.relative_gap <= 1e-10
    lost = np.finfo(np.float32).eps * np.abs(theirs.dual_coef_).sum()  # LIBSVM's kernel is in float32
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6 + lost)
