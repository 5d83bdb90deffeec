"""Read-only arrays, and the cases in which they are not copied."""

import gc
import pickle

import numpy as np
import pytest
from dualflow.core._sealed import Sealed

from dualflow import release_memory
from dualflow.core.runtime import memory as memory_module
from dualflow.core.runtime.arrays import (
    MIN_BYTES_ARENA,
    immutable,
    immutable_parts,
    immutable_rows,
    immutable_written,
)


def test_what_is_immutable_is_not_copied_but_has_a_shape_of_its_own():
    first = immutable(np.arange(6.0).reshape(2, 3))
    second = immutable(first)
    assert np.shares_memory(first, second)
    second.shape = (3, 2)
    assert first.shape == (2, 3)
    with pytest.raises(ValueError, match="WRITEABLE"):
        second.flags.writeable = True


def test_no_other_array_shares_a_base_that_callers_can_reach():
    array = immutable(np.arange(6.0))
    array.view().base.shape = (2, 3)
    assert array.shape == (6,)


@pytest.mark.parametrize("size", [5, 50_000, MIN_BYTES_ARENA])
def test_everything_else_is_copied(size):
    numbers = np.arange(float(size))
    loaded = pickle.loads(pickle.dumps(numbers))
    shut = pickle.loads(pickle.dumps(numbers))
    shut.flags.writeable = False
    part = pickle.loads(pickle.dumps(numbers))
    kept, part.flags.writeable = part.view(), False
    assert kept.flags.writeable  # a view made before can still be written through
    own = immutable(numbers)
    for given in (
        numbers,
        numbers[::-1],
        loaded,
        shut,
        part.view(),
        own[1:],
        own[::2],
        np.frombuffer(bytearray(numbers.tobytes())),
    ):
        copy = immutable(given)
        np.testing.assert_array_equal(copy, given)
        assert not np.shares_memory(copy, given)
        assert not copy.flags.writeable
    assert immutable(own, np.float32).dtype == np.float32


def large(value=1.0):
    return immutable(np.full((MIN_BYTES_ARENA // 800 + 1, 100), value))


def address(array):
    return array.__array_interface__["data"][0]


def test_large_memory_cannot_be_written_through_its_owner():
    array = large()
    owner = array.base.base
    assert type(owner) is Sealed
    for shut in (array, array.base, np.asarray(owner), np.frombuffer(owner)):
        assert not shut.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            shut.flags.writeable = True
    assert memoryview(owner).readonly
    assert not gc.get_referents(owner)
    assert not gc.is_tracked(owner)
    assert [name for name in dir(owner) if not name.startswith("__")] == ["size"]
    with pytest.raises(TypeError):
        pickle.dumps(owner)
    with pytest.raises(AttributeError):
        owner.size = 0
    assert address(array) % 64 == 0


def test_nothing_that_is_lent_is_the_memory_of_a_large_copy():
    release_memory()
    arrays = [large(k) for k in range(3)]
    assert not any(np.shares_memory(kept, array) for kept in memory_module._kept for array in arrays)
    for _ in range(8):
        room = memory_module.arena_array(arrays[0].shape, float)
        room[:] = -1.0
    assert [array.min() for array in arrays] == [array.max() for array in arrays] == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "hold", [memoryview, lambda array: array.T, lambda a: memoryview(a.base.base), lambda a: a.base]
)
def test_memory_is_reused_when_no_view_of_it_is_left(hold):
    release_memory()
    array = large(3.0)
    place, held = address(array), hold(array)
    del array
    other = large(4.0)
    assert address(other) != place
    assert np.frombuffer(np.ascontiguousarray(held)).min() == 3.0
    del held
    assert address(large(5.0)) == place
    room = memory_module.arena_array(other.shape, float)  # no other array shares it
    assert address(room) == place
    assert address(large(6.0)) != place


@pytest.fixture
def empty_arena(monkeypatch):
    """An arena of its own: arrays of other tests may still be in use in the shared one."""
    monkeypatch.setattr(memory_module, "_kept", [])


def test_memory_that_comes_back_stays_within_the_bound(monkeypatch, empty_arena):
    monkeypatch.setattr(memory_module, "MAX_BYTES_KEPT", 1 << 28)
    held = [large() for _ in range(memory_module.MAX_BYTES_KEPT // MIN_BYTES_ARENA + 4)]
    assert not memory_module._kept
    del held
    assert 0 < sum(memory.nbytes for memory in memory_module._kept) <= memory_module.MAX_BYTES_KEPT
    release_memory()
    assert not memory_module._kept


def test_it_comes_back_though_the_list_is_in_use(empty_arena):
    array = large()
    with memory_module._lock:
        del array  # as the garbage collector may, anywhere
    assert not memory_module._kept


@pytest.mark.parametrize("shape", [(3, 5), (400, 401)])
def test_what_is_written_stays(shape):
    expected = np.random.default_rng(0).normal(size=shape)
    kept = []

    def write(array):
        array[:] = expected
        kept.append(array.shape)

    array = immutable_written(shape, write)
    np.testing.assert_array_equal(array, expected)
    assert kept == [shape]
    assert immutable(array).base is array.base  # recognised: no further copy
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 1.0
    with pytest.raises(ValueError, match="WRITEABLE"):
        array.flags.writeable = True


@pytest.mark.parametrize("size", [7, MIN_BYTES_ARENA + 8])
def test_parts_have_to_fit(size):
    with pytest.raises(ValueError, match="the parts are smaller"):
        Sealed((np.zeros(size - 1, np.uint8),), size)
    with pytest.raises(ValueError, match="the parts are larger"):
        Sealed((np.zeros(size, np.uint8), np.zeros(1, np.uint8)), size)
    with pytest.raises(ValueError, match="> 0"):
        Sealed((), 0)


@pytest.mark.parametrize("shape", [(30, 7), (4000, 300)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_copied_a_part_at_a_time(shape, dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=shape)
    shuffled = rng.permutation(shape[0])
    for J in (slice(None), slice(3, -2), slice(1, None, 3), shuffled, shuffled[:9], shuffled[:0]):
        copy = immutable_rows(X, J, dtype)
        np.testing.assert_array_equal(copy, X[J].astype(dtype))
        assert copy.dtype == dtype
        assert not copy.flags.writeable
        assert not np.shares_memory(copy, X)
        assert np.shares_memory(immutable(copy, dtype), copy) or not copy.size
    whole = immutable(X)
    for J in (slice(None), np.arange(len(X))):
        assert np.shares_memory(immutable_rows(whole, J), whole)  # nothing to copy
    halves = immutable_parts((X[:9], X[9:].astype(np.float32)), X.shape)
    np.testing.assert_array_equal(halves[:9], X[:9])
