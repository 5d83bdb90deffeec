"""Lists of pairs of classes: the compiled calls certify them as a `Certifier` certifies each."""

import numpy as np
import pytest

from dualflow import problems
from dualflow.core.certificate import certify
from dualflow.core.gram import Gram
from dualflow.direct import pairs as pair_batch
from dualflow.direct import pairs as pairs_module
from dualflow.direct.pairs import PairBatch
from dualflow.working_set.dense import solve_dense_pairs
from tests.direct.test_pairs_together import KERNELS, SETS
from tests.thresholds import other


def posed(gram, groups, upper, i, j):
    """The pair's problem, its points in the order of classes."""
    both = np.concatenate([groups[i], groups[j]])
    sign = -1.0 if len(groups) == 2 else 1.0
    signs = np.repeat([sign, -sign], [len(groups[i]), len(groups[j])])
    return problems.classification.hinge(gram.subset(both), signs, np.concatenate([upper[i], upper[j]]))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
@pytest.mark.parametrize("name", SETS)
def test_certificates_are_a_certifiers(name, kernel):
    X, y = SETS[name]
    gram, count = Gram(X, **kernel), len(np.unique(y))
    groups = [np.flatnonzero(y == k) for k in range(count)]
    rng = np.random.default_rng(3)
    upper = [10.0 * rng.uniform(0.1, 1.0, len(group)) for group in groups]
    pairs = [(i, j) for i in range(count) for j in range(i + 1, count)]
    for (i, j), pair in zip(pairs, PairBatch(gram, groups, np.concatenate(upper), 1e-6), strict=True):
        problem = posed(gram, groups, upper, i, j)
        ours, theirs = pair.certificate, certify(problem, pair.alpha)
        size = 1.0 + np.abs(theirs.objective)
        np.testing.assert_array_equal(ours.alpha, theirs.alpha)
        for figure in ("objective", "lower_bound", "quadratic"):
            assert getattr(ours, figure) == pytest.approx(getattr(theirs, figure), rel=1e-12, abs=1e-12)
        assert ours.gap == pytest.approx(theirs.gap, abs=1e-12 * size)
        scale = 1.0 + problem.diag().max() * ours.alpha.sum()  # of what the ends of ν are sums of
        for figure in ("bias", "multiplier", "bias_interval", "multiplier_interval"):
            assert getattr(ours, figure) == pytest.approx(getattr(theirs, figure), abs=1e-12 * scale)
        assert ours.infeasibility == pytest.approx(theirs.infeasibility, abs=1e-12)
        assert ours.projection_distance == pytest.approx(theirs.projection_distance, abs=1e-12)
        assert (ours.radius, ours.psd, ours.stationarity) == (theirs.radius, theirs.psd, theirs.stationarity)
        assert pair.bias == ours.bias


@pytest.mark.parametrize("alpha", [np.full(100, 0.3), np.arange(100.0), np.r_[np.full(50, 2.0), np.zeros(50)]], ids=len)
def test_a_point_off_the_optimum_gets_its_gap_or_none(alpha, monkeypatch):
    """Any α: a feasible one gets a certifier's values, an infeasible one gets none."""
    X = SETS["iris"][0]
    gram, groups, upper = Gram(X[:100]), [np.arange(50), np.arange(50, 100)], [np.ones(50)] * 2
    batches = []

    def given(within, between, listed, upper, sign, out, *rest):
        out[:] = alpha
        return 1

    def kept(batch, tol, growth):
        batches.append(batch)
        return np.zeros(1, dtype=bool)

    monkeypatch.setattr(pair_batch, "suits_points", lambda *given: False)
    monkeypatch.setattr(pair_batch, "solve_dense_pairs", given)
    monkeypatch.setattr(pairs_module.PairTable, "meet_tols", kept)
    assert list(PairBatch(gram, groups, np.concatenate(upper), 1e-6)) == [None]
    row = batches[0].rows[0]
    if abs(alpha[:50].clip(0, 1).sum() - alpha[50:].clip(0, 1).sum()) > 1e-9:
        assert np.isnan(row).all()
    else:
        theirs = certify(posed(gram, groups, upper, 0, 1), alpha)
        assert theirs.gap > 0.1
        np.testing.assert_allclose([row.objective, row.lower_bound], [theirs.objective, theirs.lower_bound], rtol=1e-12)
        assert row.infeasibility == pytest.approx(theirs.infeasibility, rel=1e-12)


def test_lists_that_lead_out_of_their_arrays_are_refused():
    K, upper, alpha = np.eye(4).ravel(), np.ones(4), np.empty(4)
    good = np.array([[2, 2, 0, 2, 10, 4, 4, 4, 0, 2, 0]])
    assert solve_dense_pairs(K, K, good, upper, 1.0, alpha, 0, 1e-12, 99, 1.0) == 1
    for column in range(11):
        for value in (-1, 99):
            bad = good.copy()
            bad[0, column] = value
            with pytest.raises(ValueError, match="outside its arrays"):
                solve_dense_pairs(K, K, bad, upper, 1.0, alpha, 0, 1e-12, 99, 1.0)


def test_pairs_that_are_hard_and_large_are_left_to_runs():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 4)), np.arange(1500) % 2
    groups, bounds = [np.flatnonzero(y == k) for k in range(2)] + [np.arange(3)], [np.full(750, 1e3)] * 2 + [np.ones(3)]
    found = list(PairBatch(Gram(X), groups, np.concatenate(bounds), 1e-6))
    assert found[0] is None
    easy = [np.flatnonzero((X[:, 0] > 0.3) & (y == 0)), np.flatnonzero((X[:, 0] < -0.3) & (y == 1)), np.arange(700)]
    assert sum(len(group) for group in easy[:2]) < 640
    found = list(PairBatch(Gram(X), easy, np.ones(sum(map(len, easy))), 1e-6))
    assert found[0].certificate.within(1e-9)


def test_expensive_pairs_may_be_larger_and_harder_among_many():
    """Of more features than the compiled kernel takes, where a run would compute most of a matrix for each pair."""
    thresholds = other(max_pair_points=0, max_pair_numbers_wide_shared=0)  # nor by kernel rows on demand
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 850)
    for width, is_direct in ((65, True), (64, False)):
        X = rng.normal(size=(2550, width)) * np.where(np.arange(width) < 8, 1.0, 0.01)
        gram, groups = Gram(X), [np.flatnonzero(y == k) for k in range(3)]
        bounds = [np.full(850, 5.0)] * 3
        pair = PairBatch(gram, groups, np.concatenate(bounds), 1e-6, thresholds=thresholds)[0]
        assert (pair is not None) == is_direct
        if is_direct:
            assert certify(posed(gram, groups, bounds, 0, 1), pair.alpha).within(1e-9)


def test_lists_solved_in_parts_are_the_same():
    X, y = SETS["digits"]
    gram, groups = Gram(X), [np.flatnonzero(y == k) for k in range(10)]
    upper = [np.ones(len(group)) for group in groups]
    together = [pair.alpha for pair in PairBatch(gram, groups, np.concatenate(upper), 1e-6)]
    honest = pair_batch.solve_dense_pairs
    try:
        pair_batch.solve_dense_pairs = lambda *given: honest(*given[:-1], 0.0)
        for a, b in zip(together, PairBatch(gram, groups, np.concatenate(upper), 1e-6), strict=True):
            np.testing.assert_array_equal(a, b.alpha)
    finally:
        pair_batch.solve_dense_pairs = honest
