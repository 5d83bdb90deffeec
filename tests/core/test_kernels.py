"""Rows, blocks and products of Gram against scikit-learn's kernels, and its errors."""

import numpy as np
import pytest
from dualflow.core._radial import radial_square
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import pairwise_kernels

from dualflow import Gram, ProblemError
from dualflow.core import radial
from dualflow.core.kernel_cache import KeptGram
from dualflow.core.psd import examine
from dualflow.core.radial import RadialPoints

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4)) + 2.0
Z = RNG.normal(size=(7, 4))

CASES = [
    ("linear", {}, {}),
    ("rbf", {"gamma": 0.3}, {"gamma": 0.3}),
    ("poly", {"gamma": 0.5, "degree": 3, "coef0": 1.0}, {"gamma": 0.5, "degree": 3, "coef0": 1.0}),
    ("sigmoid", {"gamma": 0.1, "coef0": -0.5}, {"gamma": 0.1, "coef0": -0.5}),
]


@pytest.mark.parametrize(("kernel", "ours", "theirs"), CASES, ids=[c[0] for c in CASES])
def test_pieces_equal_scikit_learn(kernel, ours, theirs):
    gram = Gram(X, kernel=kernel, **ours)
    K = pairwise_kernels(X, metric=kernel, **theirs)
    J = [3, 0, 17]
    v = RNG.normal(size=30)
    np.testing.assert_allclose(gram.columns(J), K[:, J], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gram.block([1, 2], J), K[np.ix_([1, 2], J)], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gram.diag(), np.diag(K), rtol=1e-12)
    np.testing.assert_allclose(gram.matvec(v), K @ v, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(gram.full(), K, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(gram.matvec(v), K @ v, rtol=1e-10, atol=1e-10)  # now from the kept matrix
    np.testing.assert_allclose(
        gram.cross(Z, J), pairwise_kernels(Z, X[J], metric=kernel, **theirs), rtol=1e-12, atol=1e-12
    )
    expected = np.diag(pairwise_kernels(Z, metric=kernel, **theirs))
    np.testing.assert_allclose(gram.self_kernel(Z), expected, rtol=1e-12)


@pytest.mark.parametrize("gamma", ["scale", "auto"])
def test_gamma_names_are_scikit_learns(gamma):
    value = 1 / (4 * X.var()) if gamma == "scale" else 0.25
    assert Gram(X, gamma=gamma).gamma == pytest.approx(value, rel=1e-14)


def test_callable_and_precomputed_equal_the_named_kernel():
    named = Gram(X, kernel="rbf", gamma=0.3)
    called = Gram(X, kernel=lambda A, B: pairwise_kernels(A, B, metric="rbf", gamma=0.3))
    given = Gram.precomputed(named.full())
    J = [5, 6]
    for other in (called, given):
        np.testing.assert_allclose(other.columns(J), named.columns(J), rtol=1e-12)
        np.testing.assert_allclose(other.diag(), named.diag(), rtol=1e-12)
    np.testing.assert_allclose(called.self_kernel(Z), np.ones(7))


def test_radial_kernel_survives_a_far_origin():
    """‖x‖² − 2⟨x,z⟩ + ‖z‖² at offset 1e8 loses every digit unless the data are centred."""
    near, far = Gram(X, gamma=0.3), Gram(X + 1e8, gamma=0.3)
    np.testing.assert_allclose(far.full(), near.full(), atol=1e-6)
    np.testing.assert_allclose(far.cross(X[:3] + 1e8, range(30)), near.cross(X[:3], range(30)), atol=1e-6)


def test_far_away_points_have_kernel_value_zero_not_nan():
    assert np.array_equal(Gram(X, gamma=1.0).cross(np.full((1, 4), 1e200), range(30)), np.zeros((1, 30)))


def test_entries_are_counted():
    gram = KeptGram(Gram(X))
    gram.columns([0, 1])
    gram.block([0, 1, 2], [4])
    assert gram.entries_computed == 2 * 30 + 3


@pytest.mark.parametrize(
    ("bad", "kwargs", "match"),
    [
        ([[np.nan, 1.0]], {}, "NaN"),
        ([[np.inf, 1.0]], {}, "infinity"),
        ([[1e200], [1.0]], {"kernel": "linear"}, "overflow"),
        ([[1e308, -1e308], [1.0, 2.0]], {}, "overflow"),
        ([[1j]], {}, "complex"),
        ([["a"]], {}, "dtype"),
        ([1.0, 2.0], {}, "matrix"),
        (np.zeros((0, 3)), {}, "non-empty"),
        (np.ma.masked_array([[1.0, 2.0]], mask=[[True, False]]), {}, "masked"),
        (X, {"kernel": "rfb"}, "did you mean 'rbf'"),
        (X, {"gamma": -1.0}, "gamma"),
        (X, {"gamma": "foo"}, "gamma"),
        (X, {"gamma": np.nan}, "gamma"),
        (X, {"degree": -1}, "degree"),
        (np.ones((2, 3)), {"kernel": "precomputed"}, "square"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), {"kernel": "precomputed"}, "symmetric"),
        (X, {"kernel": lambda A, B: np.zeros(3)}, "shape"),
        (X, {"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "NaN"),
        (X, {"kernel": lambda A, B: A[:, :1] @ np.ones((1, len(B)))}, "symmetric"),
    ],
)
def test_refusals_name_what_was_found(bad, kwargs, match):
    with pytest.raises(ProblemError, match=match):
        Gram(bad, **kwargs)


def test_slightly_asymmetric_precomputed_is_symmetrised_with_a_warning():
    K = np.eye(3)
    K[0, 1] = 1e-5
    with pytest.warns(UserWarning, match="symmetric"):
        gram = Gram.precomputed(K)
    assert np.array_equal(gram.full(), gram.full().T)


def test_a_power_of_points_at_0_is_0():
    np.testing.assert_array_equal(Gram(np.zeros((2, 3)), kernel="poly", degree=2.5).full(), np.zeros((2, 2)))


def test_spectrum_evidence():
    doubled = np.vstack([X, X])
    K = pairwise_kernels(doubled, metric="rbf", gamma=0.3)
    assert examine(K).kind == "checked"  # its least eigenvalue is round-off below zero
    assert examine(-np.eye(3)).kind == "indefinite"
    assert examine(-np.eye(3)).smallest_eigenvalue == pytest.approx(-1.0)
    assert examine(np.zeros((3, 3))).is_psd
    assert Gram(X, kernel="poly", coef0=-1.0).is_psd_by_kernel is False
    assert all(Gram(X, kernel="poly", coef0=coef0).is_psd_by_kernel is True for coef0 in (0.0, 0.5))
    assert Gram(X, kernel="poly", degree=2.5, coef0=10.0).is_psd_by_kernel is False


@pytest.mark.parametrize("features", [1, 3, 4, 64, 65, 90])  # both sides of where BLAS takes over
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_radial_kernel_in_both_precisions_and_both_ways(features, dtype):
    """Rows, rows into given memory, weighted sums and only some entries of them, on sizes that end within a tile."""
    rng = np.random.default_rng(features)
    A, B, W = rng.normal(size=(133, features)), rng.normal(size=(259, features)), rng.normal(size=(133, 2))
    gram = Gram(A, gamma=0.7 / features)
    K = pairwise_kernels(B, A, metric="rbf", gamma=gram.gamma)
    accuracy = 3e-6 if dtype is np.float32 else 5e-15
    np.testing.assert_allclose(gram.cross(B, np.arange(133), dtype), K, rtol=0, atol=accuracy)
    np.testing.assert_allclose(gram.expand(B, np.arange(133), W, dtype), K @ W, rtol=0, atol=100 * accuracy)
    out = np.full((3, 133), np.nan, dtype=dtype)
    assert gram.rows([5, 0, 132], dtype, out) is out
    expected = pairwise_kernels(A[[5, 0, 132]], A, metric="rbf", gamma=gram.gamma)
    np.testing.assert_allclose(out, expected, rtol=0, atol=accuracy)
    some, v = np.array([7, 131]), np.where(np.arange(133) % 3, W[:, 0], 0.0)
    np.testing.assert_allclose(gram.matvec(v, some), gram.matvec(v)[some], rtol=1e-13, atol=1e-13)
    assert gram.rows([9], dtype)[0, 9] == pytest.approx(1.0, abs=accuracy)


@pytest.mark.parametrize("features", [1, 64, 65, 90])
@pytest.mark.parametrize("n", [1, 2, 63, 128, 129, 1000])
@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float32, 1e-6), (np.float64, 5e-15)])
def test_sums_among_points_are_those_of_all_pairs(features, n, dtype, accuracy, monkeypatch):
    rng = np.random.default_rng(n)
    X, w = rng.normal(size=(n, features)), rng.normal(size=n)
    gamma = 0.7 / features
    K = np.exp(-gamma * cdist(X, X, "sqeuclidean"))
    for worth in (radial.STRETCH_WORK, 1 << 12):  # in one stretch, and in many
        monkeypatch.setattr(radial, "STRETCH_WORK", worth)
        monkeypatch.setattr(radial, "MAX_VALUES_STORED", worth)
        points = RadialPoints.of(X, np.zeros(features), gamma, dtype, (X**2).sum(axis=1))
        off = np.abs(points.expand_among(w) - K @ w)
        assert (off <= 10 * accuracy * (K @ np.abs(w))).all()


def test_the_clock_is_looked_at_within_long_sums_among_points(monkeypatch):
    rng, looks = np.random.default_rng(0), []
    X, w = rng.normal(size=(1000, 3)), rng.normal(size=1000)
    points = RadialPoints.of(X, np.zeros(3), 0.5, float, (X**2).sum(axis=1))
    whole = points.expand_among(w)
    monkeypatch.setattr(radial, "check_time", lambda: looks.append(1))
    points.expand_among(w)
    short = len(looks)
    monkeypatch.setattr(radial, "MAX_VALUES_PER_CALL", 1 << 17)
    np.testing.assert_allclose(points.expand_among(w), whole, atol=1e-12)
    assert len(looks) - short > 2 * short > 0


def test_sums_among_points_are_cut_at_tiles_only():
    points, half, weights = np.zeros((300, 4)), np.zeros(300), np.ones(300)
    for start, stop in ((-128, 128), (1, 128), (0, 127), (0, 301), (128, 256.5)):
        with pytest.raises((ValueError, TypeError)):
            radial_square(points, half, weights, start, stop)
    assert radial_square(points, half, weights, 256, 256).tolist() == [0.0] * 300
    parts = [radial_square(points, half, weights, start, min(start + 128, 300)) for start in (0, 128, 256)]
    assert np.sum(parts, axis=0).tolist() == [300.0] * 300


def test_exponential_over_its_whole_range():
    """x = 0 against z = √(2t) at γ = ½: exp(−t), down to where it becomes 0; never a denormal, never more than 1."""
    t = np.concatenate([np.linspace(0, 1, 500), np.linspace(1, 800, 4000)])
    for dtype, last, accuracy in ((np.float32, 87.0, 1e-6), (np.float64, 708.0, 1e-13)):
        origin = RadialPoints.of(np.zeros((1, 1)), np.zeros(1), 0.5, dtype, np.zeros(1))
        found = origin.kernel(RadialPoints.of(np.sqrt(2 * t)[:, None], np.zeros(1), 0.5, dtype, 2 * t))[0]
        inside = t < last * 0.999
        # The exponent is formed in this precision, so t itself carries a relative error of its last bit.
        np.testing.assert_allclose(found[inside], np.exp(-t[inside]), rtol=accuracy * (1 + last))
        assert (found <= 1).all()
        assert (found[t > last * 1.001] == 0).all()
        assert found[0] == 1


def test_sums_of_kept_rows_in_single_are_those_in_double(monkeypatch):
    """Points of many features, far apart and near; dropped rows are computed again."""
    monkeypatch.setattr("dualflow.core.gram.MIN_POINTS_SEPARATE", 100)
    rng = np.random.default_rng(1)
    points = rng.normal(size=(500, 120)) * np.where(rng.random(500) < 0.5, 1.0, 0.2)[:, None] + 3.0
    gram, exact = KeptGram(Gram(points, gamma=0.05)), pairwise_kernels(points, metric="rbf", gamma=0.05)
    for _ in range(3):
        J = np.flatnonzero(rng.random(500) < 0.4)
        weights = rng.normal(size=len(J))
        values = gram.sum_rows(J, weights, np.float32)
        assert np.abs(values - weights @ exact[J]).max() <= 1e-6 * np.abs(weights).sum()
        np.testing.assert_allclose(gram.sum_rows(J, weights, float), weights @ exact[J], rtol=0, atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 10.0, 1e4, 1e8])
@pytest.mark.parametrize("shape", [(7, 1), (40, 3), (33, 70)])
def test_scale_is_of_the_variance_of_all_numbers(offset, shape):
    X = np.random.default_rng(shape[0]).normal(size=shape) * np.arange(1, shape[1] + 1) + offset
    X[:, -1] -= 0.7 * offset
    exact = X.astype(np.longdouble).var() * shape[1]
    assert Gram(X).gamma == pytest.approx(float(1 / exact), rel=1e-11)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid"])
def test_one_that_keeps_can_be_of_other_points_to_the_bit(kernel):
    rng = np.random.default_rng(0)
    first, other, new = rng.normal(size=(9, 5)), rng.normal(size=(14, 5)) + 3.0, rng.normal(size=(3, 5))
    parameters = {"gamma": 0.3, "degree": 1, "coef0": 0.5, "center": np.full(5, 2.0)}
    wanted = KeptGram(Gram(other, kernel, **parameters))
    found = KeptGram.of(KeptGram(Gram(first, kernel, **parameters)), other)
    assert (found.n, found.reach) == (wanted.n, wanted.reach)
    np.testing.assert_array_equal(found.diag(), wanted.diag())
    np.testing.assert_array_equal(found.full(), wanted.full())
    np.testing.assert_array_equal(found.cross(new), wanted.cross(new, np.arange(14)))
    with pytest.raises(ProblemError, match="overflow"):
        KeptGram.of(found, 1e200 * new)
