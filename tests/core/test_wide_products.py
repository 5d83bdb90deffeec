"""Kernel matrices of many features, made from a part of the features at a time."""

import numpy as np
import pytest
from dualflow.core._points import scale_columns
from scipy.spatial.distance import cdist

from dualflow import Gram, ProblemError
from dualflow.core.wide_products import PART_FEATURES, STRIP_ROWS, mirror, upper_products


@pytest.mark.parametrize("m", [1, 65, PART_FEATURES, PART_FEATURES + 1, 2 * PART_FEATURES + 300])
def test_upper_products_are_inner_products_of_some_centred_points(m):
    rng = np.random.default_rng(m)
    X, J = rng.standard_normal((90, m)) + 3.0, rng.permutation(90)[:70]
    center = X.mean(axis=0)
    exact = np.asarray(X[J] - center, dtype=np.longdouble)
    found = upper_products(X, J, center, 2.0)
    np.testing.assert_allclose(np.triu(found), np.triu(4.0 * exact @ exact.T).astype(float), rtol=0, atol=1e-14 * 4 * m)
    without = upper_products(X, J, None, 1.0)
    np.testing.assert_allclose(np.triu(without), np.triu(X[J] @ X[J].T), rtol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_points_may_be_named_in_any_way_that_numpy_takes(kernel):
    X = np.random.default_rng(0).standard_normal((60, 80))
    K = Gram(X, kernel, gamma=0.01).full()
    for J in (np.arange(60)[::7], np.array([-1, 3, -60]), np.arange(59, -1, -1)):
        np.testing.assert_allclose(Gram(X, kernel, gamma=0.01).block(J, J), K[np.ix_(J, J)], rtol=1e-12)
    J = np.array([3, 60])
    with pytest.raises(IndexError, match="60"):
        Gram(X, kernel, gamma=0.01).block(J, J)


@pytest.mark.parametrize("n", [1, STRIP_ROWS - 1, STRIP_ROWS, STRIP_ROWS + 1, 3 * STRIP_ROWS + 5])
def test_mirror_copies_what_is_above_the_diagonal(n):
    K = np.random.default_rng(n).standard_normal((n, n))
    expected = np.triu(K) + np.triu(K, 1).T
    K[np.tril_indices(n, -1)] = np.nan  # what is below is arbitrary
    assert mirror(K) is K
    np.testing.assert_array_equal(K, expected)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "sigmoid"])
@pytest.mark.parametrize("m", [3, 70, 1500])
def test_a_square_block_is_symmetric_and_is_the_kernel(kernel, m):
    rng = np.random.default_rng(m)
    X, J = rng.standard_normal((150, m)) / np.sqrt(m) + 1.0, rng.permutation(150)[:130]
    gram = Gram(X, kernel, gamma=0.7, coef0=1.0)
    K = gram.block(J, J)
    expected = {
        "rbf": np.exp(-0.7 * cdist(X, X, "sqeuclidean")),
        "linear": X @ X.T,
        "poly": (0.7 * X @ X.T + 1.0) ** 3,
        "sigmoid": np.tanh(0.7 * X @ X.T + 1.0),
    }[kernel]
    np.testing.assert_allclose(K, expected[np.ix_(J, J)], rtol=1e-12)
    if kernel != "sigmoid" and m > 64:
        assert gram.makes_squares_in_parts
        np.testing.assert_array_equal(K, K.T)


@pytest.mark.parametrize("shape", [(3, 2), (100, 7), (300, 552)])
def test_the_scale_of_a_kernel_of_products_is_that_of_numpy(shape):
    X = 50.0 + np.random.default_rng(0).standard_normal(shape)
    assert Gram(X, "poly").gamma == 1.0 / (shape[1] * X.var())


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_what_is_not_finite_is_named(kernel):
    X = np.ones((20, 5))
    for wrong, said in ((np.nan, "NaN or infinity"), (-np.inf, "NaN or infinity"), (1e200, "overflow")):
        X[7, 3] = wrong
        with pytest.raises(ProblemError, match=said):
            Gram(X, kernel, gamma=1.0)


def test_bits_have_their_table():
    X = np.random.default_rng(0).integers(0, 2, size=(200, 128)).astype(float)
    X[0] = 1.0
    gram, J = Gram(X, gamma=0.1), np.arange(200)
    assert not gram.makes_squares_in_parts
    np.testing.assert_allclose(gram.block(J, J), np.exp(-0.1 * cdist(X, X, "sqeuclidean")), rtol=1e-13)


def test_scale_columns_refuses_what_does_not_fit():
    X, center, rows = np.ones((4, 6)), np.zeros(6), np.arange(4)
    for arguments in ((X, rows, center[:5], 1.0, 0, np.empty((4, 6))), (X, rows, center, 1.0, 3, np.empty((4, 4)))):
        with pytest.raises(ValueError, match="as long as a point"):
            scale_columns(*arguments)
    with pytest.raises(IndexError, match="row 4"):
        scale_columns(X, rows + 1, center, 1.0, 0, np.empty((4, 6)))
