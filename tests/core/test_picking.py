"""Parts of matrices have the values of NumPy's, in memory that is reused."""

import numpy as np
import pytest
from dualflow.core._radial import gather

from dualflow.core.runtime.memory import picked

RNG = np.random.default_rng(0)
ROWS, COLUMNS = np.array([3, 0, 3, 299]), RNG.permutation(300)[:170]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("other", [None, np.float32, np.float64])
def test_it_is_what_indices_give(dtype, other):
    matrix = RNG.normal(size=(300, 300)).astype(dtype)
    for given in (matrix, np.asfortranarray(matrix), matrix[::-1], np.broadcast_to(matrix[0], (300, 300))):
        before = given.copy()
        for rows, columns in (
            (ROWS, COLUMNS),
            (COLUMNS[::2], COLUMNS[::-1]),
            (ROWS[:0], COLUMNS),
            (ROWS, ROWS[:0]),
            (np.array([-1, 5]), COLUMNS),
            (COLUMNS, np.array([-300])),
        ):
            part = picked(given, rows, columns, other)
            assert part.dtype == (dtype if other is None else other)
            np.testing.assert_array_equal(part, given[np.ix_(rows, columns)].astype(part.dtype))
            part += 1.0  # the caller's own
        np.testing.assert_array_equal(given, before)


def test_parts_in_use_do_not_share_memory():
    matrix = RNG.normal(size=(300, 300))
    first, second = picked(matrix, COLUMNS, COLUMNS), picked(matrix, COLUMNS[::-1], COLUMNS)
    np.testing.assert_array_equal(first, matrix[np.ix_(COLUMNS, COLUMNS)])
    np.testing.assert_array_equal(second, first[::-1])


@pytest.mark.parametrize("bad", [-301, 300])
def test_what_is_not_there_is_an_error(bad):
    matrix, there, out = np.eye(300), np.arange(2), np.zeros((2, 2))
    for rows, columns in ((np.array([0, bad]), there), (there, np.array([bad, 0]))):
        with pytest.raises(IndexError, match="rows and columns"):
            gather(matrix, rows, columns, out)
        with pytest.raises(IndexError, match="out of bounds"):
            picked(matrix, rows, columns)
    assert not out.any()
    with pytest.raises(ValueError, match="out must be"):
        gather(matrix, there, there, np.zeros((2, 3)))
