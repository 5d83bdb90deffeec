"""Points of zeros and ones: kernel values by the number of coordinates that differ, against the differences."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from dualflow import SVC, SVDD, Gram
from dualflow.core import radial
from dualflow.core.radial import RadialPoints, bits_of

RNG = np.random.default_rng(0)


def binary(n, m, share=0.3):
    return (RNG.random((n, m)) < share).astype(float)


def points_of(X, gamma, dtype=float, J=slice(None)):
    center = X.mean(axis=0)
    return RadialPoints.of(X, center, gamma, dtype, ((X - center) ** 2).sum(axis=1), J)


@pytest.mark.parametrize("m", [3, 64, 65, 128, 129, 700])
@pytest.mark.parametrize(("dtype", "tolerance"), [(float, 4e-15), (np.float32, 1e-6)])
def test_kernel_values_and_sums_are_those_of_the_differences(m, dtype, tolerance, monkeypatch):
    monkeypatch.setattr(radial, "MIN_NUMBERS_BITS", 1)
    X, gamma = binary(1100, m), 1.5 / m
    K = np.exp(-gamma * cdist(X, X, "sqeuclidean"))
    points = points_of(X, gamma, dtype)
    assert points.bits.shape == (1100, -(-m // 64))
    J = RNG.permutation(1100)[:530]
    some = points.take(J)
    np.testing.assert_allclose(points.kernel(some), K[:, J], rtol=tolerance)
    np.testing.assert_allclose(np.triu(some.upper()), np.triu(K[np.ix_(J, J)]), rtol=tolerance)
    weights = RNG.normal(size=(530, 3))
    for part in (weights, weights[:, :1]):  # a piece of 512 and one that is no multiple of eight
        size = np.abs(K[:, J]) @ np.abs(part)
        off = np.abs(points.expand(some, part) - K[:, J] @ part)
        assert (off <= 10 * tolerance * size).all()
    room = np.full((1100, 600), 7.0, dtype=dtype)
    points.kernel(some, room[:, 40:570])
    np.testing.assert_allclose(room[:, 40:570], K[:, J], rtol=tolerance)
    assert (room[:, :40] == 7.0).all()
    assert (room[:, 570:] == 7.0).all()


def test_both_precisions_and_any_rows_have_the_bits():
    X = binary(2000, 100)
    whole = points_of(X, 0.02)
    np.testing.assert_array_equal(whole.astype(np.float32).bits, whole.bits)
    J = RNG.permutation(2000)[:77]
    np.testing.assert_array_equal(points_of(X, 0.02, float, J).bits, whole.bits[J])
    np.testing.assert_array_equal(points_of(X, 0.02, float, slice(3, 1000, 7)).bits, whole.bits[3:1000:7])
    for array in (whole.bits, whole.table, whole.view().bits):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


@pytest.mark.parametrize("other", [2.0, 0.5, -1.0, 1e-300])
def test_one_other_number_and_there_are_no_bits(other):
    X = binary(2000, 100)
    assert bits_of(X) is not None
    X[1999, 99] = other
    assert bits_of(X) is None
    assert bits_of(X, np.arange(1999)) is not None
    assert bits_of(np.where(X == 0.0, -0.0, np.where(X == 1.0, 1.0, 0.0))) is not None


def test_few_numbers_and_many_features_are_not_looked_at():
    assert bits_of(binary(100, 100)) is None
    assert bits_of(binary(20, radial.MAX_FEATURES_BITS + 1)) is None


def test_points_with_bits_and_without_meet_by_products():
    X, Z = binary(400, 90), RNG.normal(size=(350, 90))
    gram = Gram(X, gamma=0.01)
    np.testing.assert_allclose(gram.cross(Z), np.exp(-0.01 * cdist(Z, X, "sqeuclidean")), rtol=1e-12)
    np.testing.assert_allclose(gram.cross(X[::-1]), np.exp(-0.01 * cdist(X[::-1], X, "sqeuclidean")), rtol=4e-15)


def test_values_too_small_for_a_double_are_zero():
    X = binary(300, 640, 0.5)
    K = Gram(X, gamma=3.0).full()
    assert (K.diagonal() == 1.0).all()
    far = cdist(X, X, "sqeuclidean") * 3.0 > 709
    assert far.any()
    assert (K[far] == 0.0).all()


@pytest.mark.parametrize("n", [300, 1500, pytest.param(5000, marks=pytest.mark.long)])
def test_a_fit_is_that_of_the_same_points_elsewhere(n):
    """One-hot columns moved by 5: the same distances, and no bits."""
    X = np.eye(8)[RNG.integers(0, 8, size=(n, 10))].reshape(n, 80)
    y = np.where(X[:, ::7].sum(axis=1) + 0.5 * RNG.normal(size=n) > 1.5, 1, 0)
    assert bits_of(X) is not None
    for model in (SVC(C=3.0, gamma=0.05), SVDD(nu=0.05, gamma=0.05)):
        here, there = (type(model)(**model.get_params()).fit(points, y) for points in (X, X + 5.0))
        assert here.certificate_.relative_gap <= 1e-9
        assert here.certificate_.objective == pytest.approx(there.certificate_.objective, rel=1e-9)
        values, others = here.decision_function(X[:500]), there.decision_function(X[:500] + 5.0)
        np.testing.assert_allclose(values, others, atol=1e-6 * float(np.abs(others).max()))
