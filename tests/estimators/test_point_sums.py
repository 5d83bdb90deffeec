"""Certificates of pairs with kernel sums partly in float32 equal those in float64, for any error within the bound."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons

from dualflow import SVDD, Gram, OneClassSVM, certify, problems
from dualflow.direct import from_points
from dualflow.direct.from_points import pair_from_points
from tests.combinations import covering
from tests.thresholds import fits_with, other

X, T = make_moons(1200, noise=0.25, random_state=0)
X = np.column_stack([X, np.random.default_rng(0).normal(size=(1200, 6)) * 0.05])
ORDER, M = np.argsort(T, kind="stable"), int((T == 0).sum())
FIGURES = ("objective", "lower_bound")
#: Float32 is tried for every product.
EAGER = other(min_product_float32=0)


@pytest.fixture(params=[-1.0, 1.0, None])
def wrong(request, monkeypatch):
    """Make float32 sums wrong by their full error bound: too small, too large, or at random."""
    rough, rng = from_points.rough_sums, np.random.default_rng(0)

    def wrong_by_all(*given):
        sums, error_bound = rough(*given)
        sign = rng.choice([-1.0, 1.0], len(sums)) if request.param is None else request.param
        return sums + 0.999 * sign * error_bound, error_bound

    monkeypatch.setattr(from_points, "rough_sums", wrong_by_all)


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize(
    ("C", "gamma", "enough"), covering([1e-3, 0.05, 1.0, 100.0], [0.05, 1.0, 20.0], [1e-10, 1e-2], together=1)
)
def test_figures_are_those_of_float64(C, gamma, enough):
    gram = Gram(X, gamma=gamma)
    found = pair_from_points(gram, ORDER, M, np.full(1200, C), 1.0, enough, None, EAGER)
    labels = np.where(T == 0, 1.0, -1.0)
    alpha = np.empty(1200)
    alpha[ORDER] = found.alpha
    theirs = certify(problems.svc(gram, labels, C), alpha)
    for k, name in enumerate(FIGURES):
        assert found.certificates[0, k] == pytest.approx(getattr(theirs, name), rel=1e-12)
    np.testing.assert_allclose(found.certificates[0, 4:6], theirs.multiplier_interval, rtol=1e-9, atol=1e-9)
    # Not from this search, which also uses float32 sums.
    K = np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=2))
    h = labels * (K @ (labels * alpha)) - 1.0
    for nu in found.certificates[0, 4:6]:
        bound = -0.5 * alpha @ (h + 1.0) + np.minimum(0.0, C * (h - nu * labels)).sum()
        assert bound <= found.certificates[0, 1] + 1e-11 * abs(bound)


@pytest.mark.usefixtures("wrong")
@pytest.mark.parametrize("model", [SVDD, OneClassSVM])
@pytest.mark.parametrize("gamma", [0.05, 1.0, 20.0])
@pytest.mark.parametrize("nu", [0.02, 0.3])
@pytest.mark.parametrize("refine", [True, False])
def test_figures_of_descriptions_are_those_of_float64(model, nu, gamma, refine, monkeypatch):
    fits_with(monkeypatch, min_rows_float32=0, min_product_float32=0)
    fitted = model(nu=nu, gamma=gamma, refine=refine, tol=1e-6 if refine else 1e-2).fit(X)
    found = fitted.certificate_
    theirs = certify(fitted.solution_.problem, found.alpha)
    for name in FIGURES:
        assert getattr(found, name) == pytest.approx(getattr(theirs, name), rel=1e-12)
    np.testing.assert_allclose(found.multiplier_interval, theirs.multiplier_interval, rtol=1e-9, atol=1e-9)


def test_float32_is_used_only_where_it_is_faster_and_safe(monkeypatch):
    row_counts = []
    rough = from_points.rough_sums

    def noted(*given):
        row_counts.append(len(given[0]))
        return rough(*given)

    monkeypatch.setattr(from_points, "rough_sums", noted)

    def certified(points, C, thresholds=EAGER):
        gram = Gram(points, gamma=1.0)
        return pair_from_points(gram, ORDER, M, np.full(1200, C), 1.0, thresholds=thresholds)

    certified(X, 1.0)
    assert len(row_counts) == 1
    assert row_counts[0] < 1200  # variables with weight are in float64 anyway
    certified(X * 1e4, 1.0)  # distances that float32 has no digits for
    certified(X, 1e-31)  # and weights
    assert len(row_counts) == 1
    certified(X, 1.0, other(min_product_float32=1 << 60))
    assert len(row_counts) == 1


def test_all_sums_are_float64_where_most_signs_are_undetermined(monkeypatch):
    rough, exact, made = from_points.rough_sums, from_points.PointSums._exact, []

    def doubtful(*given):
        sums, error_bound = rough(*given)
        return 1.5 * sums, np.full(len(error_bound), np.inf)

    def counted(self, rows, *rest):
        made.append(rows)
        return exact(self, rows, *rest)

    monkeypatch.setattr(from_points, "rough_sums", doubtful)
    monkeypatch.setattr(from_points.PointSums, "_exact", counted)
    found = pair_from_points(Gram(X, gamma=1.0), ORDER, M, np.full(1200, 1.0), 1.0, thresholds=EAGER)
    assert [len(rows) for rows in made] == [1200 - np.count_nonzero(found.alpha)]
    objective, bound = found.certificates[0, :2]
    assert objective - bound <= 1e-10 * abs(objective)


def test_a_sign_must_be_certain_at_both_ends_of_the_interval(monkeypatch):
    monkeypatch.setattr(from_points, "rough_sums", lambda points, *rest: (np.full(len(points), 1.5), 0.1))
    gram, weights = Gram(X, gamma=1.0), np.zeros(1200)
    weights[:3] = 1e-3, -1e-3, 1e-3
    points = gram.radial_points(float)
    sums = from_points.PointSums(gram, points, points.astype(np.float32), np.ones(1200), 0.0, EAGER).compute(
        weights, lambda sums: (0.0, 2.0)
    )
    exact = np.exp(-((X[:, None] - X[:3]) ** 2).sum(axis=2)) @ weights[:3]
    np.testing.assert_allclose(sums, exact, atol=1e-15)  # 1.5 is far enough from 0, and not from 2
