"""Work that is shared among threads is done once and completely, with the values of one thread."""

import threading
import time

import numpy as np
import pytest
import scipy.sparse
from dualflow.core._radial import add_rows, radial_apply
from threadpoolctl import threadpool_info, threadpool_limits

from dualflow.core import radial
from dualflow.core.gram import Gram
from dualflow.core.kernel_cache import KeptGram
from dualflow.core.runtime import clock, threads
from dualflow.core.runtime.threads import allowed, at_most, share, stretches

RNG = np.random.default_rng(0)
POINTS = {
    "few features": RNG.normal(size=(3001, 12)),
    "by BLAS": RNG.normal(size=(2600, 150)),
    "sparse": scipy.sparse.random(1100, 9000, 0.003, "csr", random_state=0),
}


def blas_pools():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.mark.parametrize(("count", "width"), [(0, 5), (1, 5), (7, 5), (8, 5), (12, 5), (13, 5), (100, 1), (3, 100)])
def test_stretches_are_all_of_it_and_none_is_narrow(count, width):
    found = stretches(count, width)
    assert np.concatenate([np.arange(count)[part] for part in found]).tolist() == list(range(count))
    assert all(part.start % width == 0 for part in found)
    if len(found) > 1:
        assert all(width <= 2 * (part.stop - part.start) < 4 * width for part in found)


@pytest.mark.parametrize("count", [1, 2, 3, 50])
def test_each_part_is_done_once(count):
    done, threads_seen = [], set()
    barrier = threading.Barrier(min(count, 3))

    def work(part):
        if threading.get_ident() not in threads_seen:
            threads_seen.add(threading.get_ident())
            barrier.wait(60)  # all work at the same time
        done.append(part)

    with at_most(count):
        share(work, list(range(3)))
    assert sorted(done) == [0, 1, 2]
    assert len(threads_seen) == min(count, 3)


def test_as_many_as_blas_may_have():
    with threadpool_limits(2, user_api="blas"):
        if blas_pools() != {2}:
            pytest.skip("BLAS here has no threads to limit")
        assert allowed() == 2
        met = []
        both = threading.Barrier(2)

        def work(part):
            both.wait(60)
            met.append((blas_pools(), allowed(), threading.get_ident()))

        share(work, [0, 1])
        assert [each[:2] for each in met] == [({1}, 1)] * 2
        assert len({each[2] for each in met}) == 2
        assert blas_pools() == {2}
        share(lambda part: met.append(blas_pools()), [0], blas=True)
        assert met[-1] == {1}
        assert blas_pools() == {2}
    with threadpool_limits(1, user_api="blas"):
        assert allowed() == 1
        me = set()
        share(lambda part: me.add(threading.get_ident()), range(5))
        assert me == {threading.get_ident()}


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, clock.OutOfTime])
def test_what_is_raised_comes_out_when_no_thread_is_at_work(error, here):
    caller, inside = threading.get_ident(), []
    both = threading.Barrier(2)

    def work(part):
        both.wait(60)
        inside.append(part)
        if (threading.get_ident() == caller) is here:
            raise error
        inside.remove(part)

    with at_most(2), pytest.raises(error):
        share(work, [0, 1])
    assert len(inside) == 1  # the one that raised


def test_helpers_hear_of_what_ended_the_caller_in_the_midst_of_their_part():
    """Their parts may be long: they look at the clock of the work that is shared, and hear of Ctrl-C, too."""
    caller, both, ended = threading.get_ident(), threading.Barrier(2), []

    def work(part):
        both.wait(60)
        if threading.get_ident() == caller:
            raise KeyboardInterrupt
        begun = time.monotonic()
        try:
            while time.monotonic() < begun + 20.0:
                clock.look()
                time.sleep(0.005)
        finally:
            ended.append(time.monotonic() - begun)

    with at_most(2), pytest.raises(KeyboardInterrupt):
        share(work, [0, 1])
    assert ended[0] < 10.0
    deadlines = []
    with at_most(2), clock.within(time.monotonic() + 1e6):
        share(lambda part: deadlines.append(clock.left()), range(50))
    assert None not in deadlines


def test_the_clock_ends_it():
    with at_most(2), pytest.raises(clock.OutOfTime), clock.within(0.0):
        share(lambda part: time.sleep(0.01), range(200))


def test_a_system_without_room_for_a_thread_works_alone(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    done = []
    with at_most(4):
        share(done.append, range(5))
    assert done == [0, 1, 2, 3, 4]


def test_errors_of_numbers_are_handled_as_the_caller_says():
    with np.errstate(over="raise"), at_most(2), pytest.raises(FloatingPointError):
        share(lambda part: np.square(np.full(3, 1e300)), range(8))
    with np.errstate(over="ignore"), at_most(2):
        share(lambda part: np.square(np.full(3, 1e300)), range(8))


@pytest.fixture
def _small_stretches(monkeypatch):
    """What is worth it is little, so that little data is cut."""
    monkeypatch.setattr(radial, "STRETCH_WORK", 1 << 17)
    monkeypatch.setattr(radial, "MAX_VALUES_STORED", 1 << 18)
    monkeypatch.setattr(radial, "MAX_VALUES_PER_CALL_SPARSE", 1 << 16)
    monkeypatch.setattr("dualflow.core.kernel_cache.STRETCH_WORK", 1 << 10)


@pytest.mark.usefixtures("_small_stretches")
@pytest.mark.parametrize("dtype", [np.float32, float])
@pytest.mark.parametrize("name", POINTS)
def test_values_are_those_of_one_thread(name, dtype, monkeypatch):
    X = POINTS[name]
    gram = Gram(X, gamma=0.01)
    J, v = np.sort(RNG.choice(gram.n, 301, replace=False)), RNG.normal(size=gram.n)
    used = []
    honest = threads._share_among
    monkeypatch.setattr(threads, "_share_among", lambda *given: used.append(given[2]) or honest(*given))

    def values(count):
        used.clear()
        with at_most(count):
            kept = KeptGram(gram)
            found = [
                kept.rows(J, dtype, np.empty((len(J), gram.n), dtype)),
                kept.matvec(v, None, dtype),
                kept.matvec(np.where(np.isin(np.arange(gram.n), J), v, 0.0), J, dtype),  # among these alone
                kept.sum_rows(J, v[J], dtype),
                kept.expand(X[:900], J, v[J, None] * [1.0, -2.0], dtype),
                kept.block(J, J[::2], dtype),
            ]
        assert bool(used) is (count > 1)
        return found

    one = values(1)
    for count in (2, 3):
        for alone, shared in zip(one, values(count), strict=True):
            if name == "by BLAS":  # whose tiles may round in another way at the edge of a stretch
                size = float(np.finfo(dtype).eps) * float(np.abs(alone).max())
                np.testing.assert_allclose(shared, alone, rtol=0, atol=300 * size)
            else:
                np.testing.assert_array_equal(shared, alone)
        for first, second in zip(values(count), values(count), strict=True):
            np.testing.assert_array_equal(first, second)


def test_parts_of_rows_are_summed_and_turned_as_whole_ones():
    rows, slots, weights = RNG.normal(size=(5, 40)), np.array([3, 0], dtype=np.int64), np.array([2.0, -1.0])
    out = np.zeros(40)
    for start, stop in ((0, 7), (7, 40)):
        add_rows(rows, slots, weights, out[start:stop], start)
    np.testing.assert_allclose(out, 2 * rows[3] - rows[0], rtol=1e-15)
    for start in (-1, 1, 41):
        with pytest.raises(ValueError, match="no longer than a row"):
            add_rows(rows, slots, weights, out, start)
    products = -RNG.random((6, 50))
    whole, half = products.copy(), np.zeros(50)
    radial_apply(whole, half[:6], half)
    for part in (slice(0, 11), slice(11, 50)):
        radial_apply(products[:, part], half[:6], half[part])
    np.testing.assert_array_equal(products, whole)
    with pytest.raises(ValueError, match="must be contiguous"):
        radial_apply(np.zeros((6, 20))[:, ::2], half[:6], half[:10])
