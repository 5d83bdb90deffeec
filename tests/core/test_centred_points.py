"""Compiled lengths and scaling of centred points, against numpy."""

import numpy as np
import pytest
from dualflow.core._points import scale_points, square_points


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("n", "m"), [(1, 1), (5, 3), (7, 8), (3, 29), (4, 64), (0, 3)])
def test_scaled_points_are_numpys_to_the_bit(n, m, dtype):
    rng = np.random.default_rng(n + m)
    X, center = rng.normal(size=(n, m)) * 1e3, rng.normal(size=m)
    out = np.full((n, -(-m // 4) * 4), np.nan, dtype=dtype)
    scale_points(X, center, np.sqrt(0.3), out)
    np.testing.assert_array_equal(out[:, :m], (np.sqrt(0.3) * (X - center)).astype(dtype))
    assert not out[:, m:].any()


@pytest.mark.parametrize("m", [1, 7, 8, 9, 64, 131])
def test_squared_lengths_are_those_of_long_doubles(m):
    rng = np.random.default_rng(m)
    X, center = 1e6 + rng.normal(size=(20, m)), np.full(m, 1e6)
    exact = (((X - center).astype(np.longdouble)) ** 2).sum(axis=1)
    np.testing.assert_allclose(square_points(X, center), exact.astype(float), rtol=m * np.finfo(float).eps)


def test_what_overflows_is_infinite():
    assert square_points(np.full((1, 9), 1e200), np.zeros(9)).tolist() == [np.inf]


def test_read_only_points_will_do():
    X = np.arange(6.0).reshape(2, 3)
    X.flags.writeable = False
    assert square_points(X, np.zeros(3)).tolist() == [5.0, 50.0]


def test_what_does_not_go_together_is_refused():
    with pytest.raises(ValueError, match="as long as a point"):
        square_points(np.zeros((2, 3)), np.zeros(2))
    for center, shape in ((2, (2, 4)), (3, (2, 2)), (3, (3, 4))):
        with pytest.raises(ValueError, match="center must be as long"):
            scale_points(np.zeros((2, 3)), np.zeros(center), 1.0, np.zeros(shape))
