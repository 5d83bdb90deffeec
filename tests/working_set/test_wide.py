"""Data of many features: products by BLAS, and the answer is what it is."""

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import make_classification

from dualflow import SVC, Gram, problems, solve
from dualflow.core.kernel_cache import KeptGram
from dualflow.working_set import block_rows
from dualflow.working_set.block_rows import (
    MAX_FEATURES_ROWS,
    MAX_FEATURES_ROWS_FEW_POINTS,
    MIN_BLOCK_WIDTH,
    makes_rows,
    one_block_of,
)


@pytest.mark.parametrize(
    ("n", "m", "made"),
    [
        (40, MAX_FEATURES_ROWS_FEW_POINTS, True),
        (40, MAX_FEATURES_ROWS_FEW_POINTS + 1, False),
        (MIN_BLOCK_WIDTH + 1, MAX_FEATURES_ROWS, True),
        (MIN_BLOCK_WIDTH + 1, MAX_FEATURES_ROWS + 1, False),
    ],
)
def test_rows_are_made_on_demand_of_few_features(n, m, made):
    X = np.random.default_rng(0).normal(size=(n, m))
    assert makes_rows(KeptGram(Gram(X, "rbf"))) == made
    assert not makes_rows(KeptGram(Gram(X, "linear")))


@pytest.mark.parametrize("n", [300, 2100])  # without a smaller level, and with one
def test_wide_fits_are_certified_and_the_references(n):
    rng = np.random.default_rng(1)
    X = rng.random((n, MAX_FEATURES_ROWS_FEW_POINTS + 200)) * (
        rng.random((n, MAX_FEATURES_ROWS_FEW_POINTS + 200)) < 0.1
    )
    score = X[:, :50] @ rng.normal(size=50)
    y = np.where(score > np.median(score), 1, -1)
    gamma = 1 / (X.shape[1] * X.var())
    model, other = SVC(gamma=gamma).fit(X, y), svm.SVC(gamma=gamma, tol=1e-6).fit(X, y)
    assert model.certificate_.within(1e-9)
    np.testing.assert_allclose(model.decision_function(X[:200]), other.decision_function(X[:200]), atol=1e-5)


def test_of_many_features_more_points_are_one_block():
    for m, most in ((99, 4096), (100, 12_288), (256, 12_288), (257, 4096)):
        X = np.random.default_rng(0).normal(size=(2000, m))
        assert one_block_of(KeptGram(Gram(X))) == most
        assert one_block_of(KeptGram(Gram(X, "linear"))) == 4096


def test_the_one_block_comes_to_the_same_optimum(monkeypatch):
    X, t = make_classification(4300, 100, n_informative=10, random_state=0)
    problem = problems.svc(Gram(X), 2.0 * t - 1, 5.0)
    found = solve(problem, "working-set", refine=True)
    monkeypatch.setattr(block_rows, "MIN_FEATURES_WIDE", 1000)
    other = solve(problem, "working-set", refine=True)
    assert max(found.certificate.relative_gap, other.certificate.relative_gap) <= 1e-9
    assert found.certificate.objective == pytest.approx(other.certificate.objective, rel=1e-9)
    assert found.cost.kernel_columns < 0.6 * other.cost.kernel_columns
