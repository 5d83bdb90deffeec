"""Rows and products of kernels of inner products, against scikit-learn's kernels."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import pairwise_kernels

from dualflow import Gram
from dualflow.core import gram
from dualflow.core.kernel_cache import KeptGram
from dualflow.core.named_kernels import values_of_products

KERNELS = {
    "cubic": {"kernel": "poly", "degree": 3, "coef0": 0.0},
    "cubic with an offset": {"kernel": "poly", "degree": 3, "coef0": 0.7},
    "fifth power": {"kernel": "poly", "degree": 5, "coef0": 0.0},
    "sigmoid": {"kernel": "sigmoid", "coef0": -0.3},
}


def made(name, n=90, m=7):
    X = np.random.default_rng(4).standard_normal((n, m))
    given = KERNELS[name] | {"gamma": 0.3}
    return Gram(X, **given), pairwise_kernels(X, metric=given.pop("kernel"), **given)


@pytest.mark.parametrize("share", [0.4, 0.8, 1.0])
@pytest.mark.parametrize("entries", [500, 1 << 22])
@pytest.mark.parametrize("name", KERNELS)
def test_a_product_is_that_of_the_whole_matrix(name, entries, share, monkeypatch):
    monkeypatch.setattr(gram, "BLOCK_ENTRIES", entries)
    kernel, K = made(name)
    rng = np.random.default_rng(5)
    v = np.where(rng.random(len(K)) < share, rng.standard_normal(len(K)), 0.0)
    np.testing.assert_allclose(kernel.matvec(v), K @ v, atol=1e-13 * np.abs(K).sum(axis=1).max())


def test_a_product_with_most_columns_makes_half_of_the_values(monkeypatch):
    monkeypatch.setattr(gram, "BLOCK_ENTRIES", 500)
    kept = KeptGram(made("cubic")[0])
    kept.matvec(np.ones(90))
    assert 90 * 90 / 2 <= kept.entries_computed <= 90 * 90 / 2 + 90 * 500 // 90


@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("name", KERNELS)
def test_rows_are_written_where_they_belong(name, dtype):
    kernel, K = made(name)
    J, out = np.array([3, 80, 4]), np.full((3, 90), np.nan, dtype=dtype)
    assert kernel.rows(J, dtype, out) is out
    np.testing.assert_allclose(out, K[J], rtol=0, atol=(1e-13 if dtype is float else 1e-5) * np.abs(K).max())
    np.testing.assert_array_equal(out, kernel.rows(J, dtype))


@pytest.mark.parametrize("degree", [1, 2, 3, 4, 7])
def test_powers_of_many_products_are_numpys(degree):
    inner = np.random.default_rng(6).standard_normal((123, 211))
    kernel = Gram(np.eye(2), "poly", degree=degree, gamma=0.8, coef0=0.1)
    np.testing.assert_allclose(values_of_products(kernel, inner.copy()), (0.8 * inner + 0.1) ** degree, rtol=1e-13)
