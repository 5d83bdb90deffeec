"""Kernels of many features: an entry is computed once, as far as memory allows, and the values are what they were."""

import numpy as np
import pytest

from dualflow import SVC, Gram, problems
from dualflow.core import kept
from dualflow.core.kept import KeptGram
from dualflow.core.workspace import Workspace

RNG = np.random.default_rng(0)
X = RNG.normal(size=(1100, 80))
Y = np.where(X[:, :8].sum(axis=1) + RNG.normal(size=1100) > 0, 1, -1)
KERNELS = [("rbf", {}), ("linear", {}), ("poly", {"degree": 2, "coef0": 1.0})]


@pytest.mark.parametrize(("kernel", "more"), KERNELS)
def test_a_block_of_kept_rows_is_the_block(kernel, more):
    gram = KeptGram(Gram(X, kernel, **more))
    gram.sum_rows(np.arange(0, 300, 3), np.ones(100), np.float32)
    J = np.sort(RNG.choice(1100, 200, replace=False))
    J = np.concatenate([J, J[:3]])  # both variables of a point
    counted = gram.entries_computed
    block = gram.kept_block(J, np.float32)
    np.testing.assert_allclose(block, KeptGram(Gram(X, kernel, **more)).block(J, J), rtol=1e-4, atol=1e-5)
    known = np.isin(J, np.arange(0, 300, 3)).sum()
    assert 0 < gram.entries_computed - counted == (len(J) - known) ** 2 < len(J) ** 2
    block[:] = 0.0
    assert gram.kept_block(J, np.float32).any()


@pytest.mark.parametrize(("kernel", "more"), KERNELS)
def test_the_whole_matrix_is_symmetric_to_the_bit_and_half_of_it_computed(kernel, more):
    gram = KeptGram(Gram(X, kernel, **more))
    K = gram.full()
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, Gram(X, kernel, **more).rows(np.arange(1100)), rtol=1e-12, atol=1e-12)
    assert gram.entries_computed <= 0.6 * 1100**2


def test_whoever_asks_for_half_of_it_gets_all_and_pays_no_more():
    gram = KeptGram(Gram(X))
    v = RNG.normal(size=1100)
    expected = Gram(X).matvec(v)
    for _ in range(5):
        np.testing.assert_allclose(gram.matvec(v), expected, rtol=1e-10, atol=1e-10)
    assert gram.entries_computed <= 0.6 * 1100**2


@pytest.mark.parametrize("points", [X[:, :60], X[:900], np.repeat(X, 4, axis=0)])
def test_cheap_small_and_large_ones_are_as_they_were(points):
    gram = KeptGram(Gram(points))
    for _ in range(3):
        gram.matvec(np.ones(len(points)))
    assert gram._full is None


def test_a_fit_computes_each_entry_about_once_for_the_solver_and_once_for_the_certificate(monkeypatch):
    model = SVC(C=10.0).fit(X, Y)
    columns = model.solution_.cost.kernel_columns
    assert columns <= 1.3 * 1100
    monkeypatch.setattr(kept, "WHOLE", (0, 0))
    again = SVC(C=10.0).fit(X, Y)
    assert again.certificate_.objective == pytest.approx(model.certificate_.objective, rel=1e-12)


def test_a_solver_and_its_certifier_have_matrices_of_their_own():
    problem = problems.svc(Gram(X), Y, 1.0)
    one, other = Workspace(problem), Workspace(problem)
    one.gram.matvec(np.ones(1100))
    assert one.gram._full is not None
    assert other.gram._full is None
