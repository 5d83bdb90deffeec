"""The cache of rows against the matrix itself, and the arrays a run works in."""

import gc
import weakref

import numpy as np
import pytest

from dualflow import Gram, problems
from dualflow.core import kernel_cache
from dualflow.core.kernel_cache import MAX_ROWS_PER_BATCH, KeptGram, RowCache
from dualflow.core.workspace import Workspace

RNG = np.random.default_rng(0)
NO_ROWS = np.empty(0, dtype=np.int64)


class Matrix:
    """Symmetric, of integers, and a record of the requested entries."""

    def __init__(self, n):
        self.M = RNG.integers(-9, 9, (n, n))
        self.M = (self.M + self.M.T).astype(float)
        self.requested = []

    def evaluate(self, J, start, out):
        self.requested += [(int(k), start) for k in J]
        out[:] = self.M[J, start : start + out.shape[1]]


def right(cache, M):
    """What is said to be here is here, whole, in one slot, and counted."""
    held = np.flatnonzero(cache.owner >= 0)
    assert cache.count == len(held) == (cache.place >= 0).sum()
    np.testing.assert_array_equal(cache.place[cache.owner[held]], held)
    here = np.flatnonzero(cache.slot >= 0)
    np.testing.assert_array_equal(here, np.sort(cache.owner[held[cache.filled[held] == cache.n]]))
    np.testing.assert_array_equal(cache.slot[here], cache.place[here])
    np.testing.assert_array_equal(cache.rows[cache.slot[here], : cache.n], M[here, : cache.n])


def test_a_matrix_that_grows_shrinks_and_is_renumbered(monkeypatch):
    """Random orders of everything an engine does; rows of the margin keep their slots all the while."""
    monkeypatch.setattr(kernel_cache, "MAX_BYTES_COPIED", 1 << 14)
    for seed in range(20):
        rng, matrix = np.random.default_rng(seed), Matrix(400)
        cache = RowCache()
        cache.lengthen(10, NO_ROWS, np.empty((10, 0)))
        margin = np.sort(rng.choice(10, 4, replace=False))
        for k in margin:
            cache.one(int(k), matrix.evaluate)
        slots = cache.slot[margin]
        for _ in range(60):
            what = rng.integers(6)
            if what == 0 and cache.n < 380:
                more = int(rng.integers(1, 20))
                new = np.arange(cache.n, cache.n + more)
                cache.lengthen(cache.n + more, margin, matrix.M[np.ix_(new, margin)])
            elif what == 1:
                cache.evict(margin, int(rng.integers(5)))
            elif what == 2:
                n = max(int(margin[-1]) + 1, cache.n - int(rng.integers(3)))
                cache.take(margin, np.array([cache.cached_row(int(k), n) for k in margin]), n)
                slots = np.arange(len(margin))
            elif what == 3 and rng.random() < 0.2:
                stay = np.union1d(margin, rng.choice(cache.n, cache.n // 2, replace=False))
                cache.keep(stay, margin)
                matrix.M = _renumbered(matrix.M, stay)
                margin, slots = np.searchsorted(stay, margin), np.arange(len(margin))
            elif what == 4:
                cache.fetch(rng.choice(cache.n, min(cache.n, 7), replace=False), matrix.evaluate)
            else:
                k = int(rng.integers(cache.n))
                assert cache.one(k, matrix.evaluate) == cache.slot[k] >= 0
            right(cache, matrix.M)
            np.testing.assert_array_equal(cache.slot[margin], slots)


def _renumbered(M, stay):
    """These first, in their order, the others behind."""
    order = np.concatenate([stay, np.setdiff1d(np.arange(len(M)), stay)])
    return M[np.ix_(order, order)]


def test_only_the_new_entries_of_an_incomplete_row_are_evaluated():
    matrix, cache = Matrix(50), RowCache()
    cache.lengthen(20, NO_ROWS, np.empty((20, 0)))
    cache.fetch(np.array([3, 7]), matrix.evaluate)
    cache.lengthen(50, np.array([7]), matrix.M[20:, [7]])
    assert cache.slot[3] == -1 != cache.slot[7]
    cache.fetch(np.array([3, 7, 8]), matrix.evaluate)
    assert matrix.requested == [(3, 0), (7, 0), (3, 20), (8, 0)]
    right(cache, matrix.M)


@pytest.mark.parametrize("way", ["one", "fetch", "completed"])
def test_an_interruption_leaves_no_row_that_is_not_one(way):
    matrix, cache = Matrix(40), RowCache()
    cache.lengthen(30, NO_ROWS, np.empty((30, 0)))
    cache.one(2, matrix.evaluate)
    if way == "completed":
        cache.lengthen(40, NO_ROWS, np.empty((10, 0)))

    def interrupted(J, start, out):
        out[..., : out.shape[1] // 2] = np.nan
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.fetch(np.array([5, 6]), interrupted) if way == "fetch" else cache.one(
            2 if way == "completed" else 5, interrupted
        )
    right(cache, matrix.M)
    cache.fetch(np.array([2, 5, 6]), matrix.evaluate)
    right(cache, matrix.M)
    assert (cache.slot[[2, 5, 6]] >= 0).all()


def test_memory_grows_with_the_requested_rows():
    """Not n² immediately: memory reserved beyond a few rows is address space, up to the capacity."""
    matrix, cache = Matrix(2000), RowCache(2000, np.float32, 1 << 40)
    assert len(cache.rows) == 16
    sizes = []
    for k in range(400):
        cache.one(k, matrix.evaluate)
        sizes.append(len(cache.rows))
    assert sizes[16] == 32
    assert len(set(sizes)) <= 6  # moved a few times only
    assert sizes[-1] == 2000 == cache.capacity
    right(cache, matrix.M)
    small, matrix.requested = RowCache(2000, np.float32, 0), []
    for k in range(2, 1500):
        small.one(k, matrix.evaluate)
        small.fetch(np.array([0, 1]), matrix.evaluate)
    assert len(small.rows) == small.capacity == 2 * MAX_ROWS_PER_BATCH == small.count
    assert matrix.requested.count((0, 0)) == 1  # rows in use stay
    assert set(np.flatnonzero(small.slot >= 0)) == {0, 1, *range(1502 - 2 * MAX_ROWS_PER_BATCH, 1500)}


def test_what_a_run_kept_goes_when_it_is_dropped():
    """Immediately, not at the next garbage collection: the refinement may need the memory."""
    gram = KeptGram(Gram(RNG.normal(size=(30, 80)), gamma=0.01))
    gram.kept_row(3)
    gram.sum_rows(np.arange(5), np.ones(5), np.float32)
    gram.full()
    gone = [weakref.ref(gram), weakref.ref(gram.full()), weakref.ref(gram._cache(float).rows)]
    gc.disable()
    try:
        del gram
        assert [ref() for ref in gone] == [None] * 3
    finally:
        gc.enable()


def test_a_work_array_is_the_same_memory_again_and_parts_share_it():
    y = np.where(np.arange(12) % 2, 1.0, -1.0)
    work = Workspace(problems.svc(Gram.precomputed(np.eye(12)), y, 2.0))
    assert work.psd.kind == "checked"
    first = work.scratch("rows", (10, 7), np.float64)
    first[:] = 1.0
    assert first.ctypes.data % 64 == 0
    part = work.part(np.arange(6), work.gram.subset(np.arange(6)))
    again = part.scratch("rows", (5, 14), np.float32)
    assert again.shape == (5, 14)
    assert again.dtype == np.float32
    assert np.shares_memory(first, again)
    assert not np.shares_memory(first, work.scratch("other", (10, 7), np.float64))
    larger = work.scratch("rows", (20, 7), np.float64)
    assert not np.shares_memory(first, larger)
    assert np.shares_memory(larger, part.scratch("rows", (2, 2), np.float64))
    assert part.psd is work.psd  # a block on the diagonal is what the whole matrix is


@pytest.mark.parametrize("repeated", [False, True])
def test_a_part_is_the_problem_of_its_variables(repeated):
    X, J = RNG.normal(size=(12, 3)), np.array([7, 2, 9, 4])
    if repeated:
        whole, J = problems.svr(Gram(X, gamma=0.4), X[:, 0], 2.0), np.array([7, 2, 19, 14])
    else:
        y = np.where(np.arange(12) % 2, 1.0, -1.0)
        whole = problems.svc(
            Gram(X, gamma=0.4), y, C=3.0, fit_intercept="penalised", sample_weight=np.arange(1.0, 13.0)
        )
    work = Workspace(whole)
    points = J if whole.idx is None else whole.idx[J]
    part = work.part(J, work.gram.subset(points, whole.gram.full()[np.ix_(points, points)].copy()))
    np.testing.assert_allclose(part.dense(), whole.dense()[np.ix_(J, J)], atol=1e-14)
    np.testing.assert_array_equal(part.upper, whole.upper[J])
    np.testing.assert_array_equal(part.p, whole.p[J])
    assert part.gram.entries_computed == 0  # its matrix was known
    assert (part.d, part.scale, part.offset, part.reading) == (whole.d, whole.scale, whole.offset, whole.reading)
    halved = work.part(J, work.gram.subset(points), upper=0.5 * whole.upper[J])
    np.testing.assert_array_equal(halved.upper, 0.5 * whole.upper[J])
