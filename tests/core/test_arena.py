"""The arena of memory: no two arrays share memory, and it keeps no more than its limit."""

import sys
import threading
import tracemalloc

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification

from dualflow import SVC, SVR, OneClassSVM
from dualflow.core.runtime import memory as memory_module
from dualflow.core.runtime.memory import MAX_BYTES_KEPT, MIN_BYTES_KEPT, arena_array, bound_of, release_memory


@pytest.fixture(autouse=True)
def nothing_kept():
    release_memory()
    yield
    release_memory()


def kept():
    return sum(memory.nbytes for memory in memory_module._kept)


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_comes_back_when_no_view_is_left():
    first = arena_array((1000, 100), float)
    place, view = address(first), first[10:20, 3].reshape(5, 2)
    del first
    other = arena_array((1000, 100), float)
    assert not np.shares_memory(other, view)
    del view
    assert address(arena_array((500, 150), np.float32)) == place
    assert address(other) != place


@pytest.mark.parametrize("sizes", [(46_000_000, 45_200_000), (45_200_000, 46_000_000), (300_000, 290_000)])
def test_memory_of_the_same_size_is_reused(sizes):
    """And not the other's, which is large enough too, and whose pages may be fresh."""
    both = [arena_array((size,), np.uint8) for size in sizes]
    places = [address(array) for array in both]
    del both
    again = [arena_array((size,), np.uint8) for size in sizes]
    assert [address(array) for array in again] == places


def test_of_memory_of_one_size_the_least_recently_used_is_taken():
    """A second array of the size may have had fewer of its pages written to."""
    release_memory()
    places = [address(array) for array in [arena_array((300_000,), np.uint8) for _ in range(3)]]
    for _ in range(2):
        assert [address(array) for array in [arena_array((300_000,), np.uint8) for _ in range(3)]] == places
    for place in 2 * places:
        assert address(arena_array((300_000,), np.uint8)) == place


@pytest.mark.parametrize("hold", [memoryview, lambda array: array.T, lambda array: array.view(np.uint8)])
def test_whatever_looks_at_it_keeps_it(hold):
    array = arena_array((MIN_BYTES_KEPT,), float)
    held = hold(array)
    del array
    assert not np.shares_memory(np.asarray(held), arena_array((MIN_BYTES_KEPT,), float))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int64])
def test_arrays_have_the_requested_shape_and_dtype(dtype):
    for shape in ((3,), (MIN_BYTES_KEPT // 8, 3), (7, MIN_BYTES_KEPT // 4)):
        array = arena_array(shape, dtype)
        assert array.shape == shape
        assert array.dtype == dtype
        assert array.flags.c_contiguous
        assert address(array) % 64 == 0
        array[:] = 1


def test_no_more_is_kept_than_was_said():
    quarter = MAX_BYTES_KEPT // 4
    for size in (quarter, 2 * quarter, 3 * quarter, MAX_BYTES_KEPT - (1 << 21), 2 * MAX_BYTES_KEPT):
        arena_array((size,), np.uint8)
        assert kept() <= MAX_BYTES_KEPT
    held = [arena_array((quarter,), np.uint8) for _ in range(6)]
    assert kept() <= MAX_BYTES_KEPT
    assert len({address(array) for array in held}) == 6
    del held
    release_memory()
    assert kept() == 0


def test_what_is_in_use_is_not_given_back():
    array = arena_array((MIN_BYTES_KEPT,), float)
    array[:] = 7
    release_memory()
    other = arena_array((MIN_BYTES_KEPT,), float)
    other[:] = 1
    assert (array == 7).all()


def test_threads_never_share():
    wrong, ready = [], threading.Barrier(4)

    def work(k):
        ready.wait()
        for _ in range(300):
            array = arena_array((MIN_BYTES_KEPT // 2,), float)
            array[:] = k
            if not (array == k).all():
                wrong.append(k)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert not wrong


def test_a_fit_leaves_what_it_took_and_the_next_takes_no_more():
    X, y = make_classification(3000, 20, random_state=0)
    SVC(C=100).fit(X, y)
    there, places = kept(), {address(memory) for memory in memory_module._kept}
    assert 0 < there <= MAX_BYTES_KEPT
    SVC(C=100).fit(X, y)
    assert {address(memory) for memory in memory_module._kept} == places
    assert all(memory_module._is_free(k) for k in range(len(memory_module._kept)))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_fits_of_wide_data_take_no_new_memory_in_the_end(kernel, monkeypatch):
    X, y = make_classification(1000, 2000, n_informative=50, random_state=0)
    model, taken = SVC(kernel=kernel, gamma=5e-4), []
    for _ in range(3):  # each holds the data of the one before it until it is made
        model.fit(X, y)
    make = memory_module._fresh
    monkeypatch.setattr(memory_module, "_fresh", lambda size: taken.append(size) or make(size))
    tracemalloc.start()
    try:
        for _ in range(2):
            model.fit(X, y)
        beside = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert taken == []
    assert beside < 3 * X.nbytes  # parts of a few MB, which the allocator keeps; four copies of X without the arena


@pytest.mark.parametrize("model", [SVC(), SVR(), OneClassSVM()], ids=lambda model: type(model).__name__)
def test_a_refit_on_the_same_numbers_has_one_copy_of_them(model):
    X, y = make_classification(100, 300, random_state=0)
    model.fit(X, y)
    first, expected = model.solution_.problem.gram.X, clone(model).fit(X, y)
    again = model.fit(X.copy(), y).solution_.problem.gram
    assert np.shares_memory(again.X, first)
    assert not np.shares_memory(again.X, X)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    X[70, 200] += 1.0
    other = model.fit(X, y).solution_.problem.gram
    assert not np.shares_memory(other.X, first)
    np.testing.assert_array_equal(other.X, X)
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(X, np.nan), y)
    np.testing.assert_array_equal(model.solution_.problem.gram.X, X)


def test_the_copy_of_a_refit_does_not_follow_the_callers_array():
    X, y = make_classification(100, 300, random_state=0)
    model = SVC().fit(X, y)
    model.set_params(C=2.0).fit(X, y)
    given = X.copy()
    X[:] = 0.0
    np.testing.assert_array_equal(model.solution_.problem.gram.X, given)


@pytest.mark.parametrize(("machine", "kept"), [(None, 256), (2048, 256), (8192, 512), (16384, 1024), (65536, 1024)])
def test_a_machine_may_keep_a_sixteenth_of_its_memory(machine, kept):
    assert bound_of(machine and machine << 20) == kept << 20
