"""Factors in place: by one LAPACK call, and in panels."""

import numpy as np
import pytest

from dualflow.refinement.linear_systems import MAX_ROWS_ONE_CALL, PANEL_COLUMNS, factorise


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [PANEL_COLUMNS, MAX_ROWS_ONE_CALL + 3])
def test_entries_above_the_diagonal_are_ignored(n, dtype):
    """It is memory that others have used: signalling NaNs and infinities there raise no warning, and change nothing."""
    rng = np.random.default_rng(0)
    half = rng.normal(size=(n, 40)).astype(dtype)
    whole = half @ half.T + 40 * np.eye(n, dtype=dtype)
    A = np.array(whole, order="F")
    above = np.triu_indices(n, 1)
    bits = {np.float64: np.uint64(0x7FF0000000000001), np.float32: np.uint32(0x7F800001)}[dtype]
    A.view(bits.dtype)[above] = np.where(
        rng.random(len(above[0])) < 0.5, bits, np.array(np.inf, dtype).view(bits.dtype)
    )
    with np.errstate(all="raise"):
        assert factorise(A)
    L = np.tril(A).astype(float)
    np.testing.assert_allclose(L @ L.T, whole, rtol=0, atol=(1e-10 if dtype is np.float64 else 3e-3) * 40)


@pytest.mark.parametrize("n", [PANEL_COLUMNS, MAX_ROWS_ONE_CALL + 3])
def test_a_matrix_that_is_not_positive_definite_is_refused(n):
    A = np.eye(n, order="F")
    A[n - 1, n - 1] = -1.0
    assert not factorise(A)
