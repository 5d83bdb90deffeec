"""Arrays that nobody can write to, and when they are not copied."""

import pickle

import numpy as np
import pytest

from dualflow.core.values import immutable


def test_what_is_immutable_is_not_copied_but_has_a_shape_of_its_own():
    first = immutable(np.arange(6.0).reshape(2, 3))
    second = immutable(first)
    assert np.shares_memory(first, second)
    second.shape = (3, 2)
    assert first.shape == (2, 3)
    with pytest.raises(ValueError, match="WRITEABLE"):
        second.flags.writeable = True


def test_a_base_that_others_can_reach_is_nobodys_array():
    array = immutable(np.arange(6.0))
    array.view().base.shape = (2, 3)
    assert array.shape == (6,)


@pytest.mark.parametrize("size", [5, 50_000])
def test_everything_else_is_copied(size):
    numbers = np.arange(float(size))
    loaded = pickle.loads(pickle.dumps(numbers))
    shut = pickle.loads(pickle.dumps(numbers))
    shut.flags.writeable = False
    part = pickle.loads(pickle.dumps(numbers))
    kept, part.flags.writeable = part.view(), False
    assert kept.flags.writeable  # NumPy lets whoever had a view before write through it
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
