"""A GrowingGram has the same entries as the Gram of its current points."""

import pickle

import numpy as np
import pytest

from dualflow import Gram, ProblemError
from dualflow.core.growing import GrowingGram


def product(A, B):
    return (A @ B.T + 1.0) ** 2


KERNELS = [("rbf", {"gamma": 0.3}), ("linear", {}), ("poly", {"gamma": 0.5, "degree": 2, "coef0": 1.0}), (product, {})]


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((23, 5))


@pytest.mark.parametrize(("kernel", "parameters"), KERNELS)
def test_entries_are_those_of_a_gram_of_the_same_points(X, kernel, parameters):
    growing = GrowingGram(X[:3], kernel, **parameters)
    for start, stop in ((3, 4), (4, 11), (11, 23)):
        growing.append(X[start:stop])
    keep = np.array([0, 2, 3, 7, 12, 20, 22])
    for kept in (np.arange(23), keep):
        growing.keep(kept)
        assert np.array_equal(growing.X, X[kept])
        whole = Gram(growing.X.copy(), kernel, **parameters, center=growing.center)
        J = np.array([4, 1])
        assert growing.n == whole.n
        np.testing.assert_allclose(growing.full(), whole.full(), atol=1e-14)
        np.testing.assert_allclose(growing.block(J, J), whole.block(J, J), atol=1e-14)
        np.testing.assert_allclose(growing.part_of_row(4, 1, 6), whole.full()[4, 1:6], atol=1e-14)
        np.testing.assert_allclose(growing.diag(), whole.diag(), atol=1e-14)
        v = np.arange(growing.n) - 3.0
        np.testing.assert_allclose(growing.matvec(v), whole.full() @ v, atol=1e-11)
        np.testing.assert_allclose(growing.expand(X[:2], J, np.ones((2, 1))), whole.cross(X[:2], J).sum(1)[:, None])
    growing.append(X[:2])
    growing.truncate(len(keep))
    assert np.array_equal(growing.X, X[keep])


def test_the_width_is_that_of_the_first_points(X):
    growing = GrowingGram(X[:5])
    growing.append(100.0 * X[5:])
    assert growing.gamma == Gram(X[:5]).gamma


def test_a_refused_batch_leaves_no_trace(X):
    growing = GrowingGram(X, "poly", gamma=1.0)
    before = growing.full().copy()
    for wrong in ([[np.nan] * 5], [[1e200] * 5], [[1e60] * 5]):
        with pytest.raises(ProblemError, match="X"):
            growing.append(wrong)
    assert growing.n == 23
    assert np.array_equal(growing.full(), before)


def test_a_precomputed_kernel_is_refused(X):
    with pytest.raises(ProblemError, match="precomputed"):
        GrowingGram(X @ X.T, "precomputed")


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_pickles_grow_on(X, kernel):
    growing = GrowingGram(X[:10], kernel)
    growing.append(X[10:15])
    copy = pickle.loads(pickle.dumps(growing))
    for gram in (growing, copy):
        gram.append(X[15:])
    assert np.array_equal(growing.full(), copy.full())
    empty = copy.without_points()
    empty.append(X)
    assert np.array_equal(empty.full(), growing.full())
    assert copy.n == 23


def test_without_points_there_are_no_entries(X):
    growing = GrowingGram(X)
    growing.truncate(0)
    assert growing.diag().shape == (0,)
    growing.append(X[:1])
    assert growing.full().tolist() == [[1.0]]
