"""Compiled checks, measures and orders of points and labels, against numpy."""

import numpy as np
import pytest
from dualflow.core._points import (
    all_finite,
    asymmetry,
    by_class,
    hash_rows,
    mean_and_squares,
    scale_points,
    scaled_points,
    small_numbers,
    two_labels,
)

RNG = np.random.default_rng(0)
LONGEST = np.iinfo(np.int64)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 1, 4095, 4096, 9999])
def test_one_number_that_is_not_finite_is_found(bad, place):
    X = RNG.normal(size=10_000)
    assert all_finite(X)
    X[place] = bad
    assert not all_finite(X)
    assert not all_finite(X.reshape(100, 100))


def test_large_and_small_numbers_are_finite():
    extremes = np.finfo(float)
    assert all_finite(np.array([extremes.max, -extremes.max, extremes.tiny, 5e-324, -0.0]))
    assert all_finite(np.empty((0, 3)))


def test_numbers_may_begin_anywhere_in_memory():
    """As those do that another process sent."""
    X = np.frombuffer(bytes(3) + np.arange(4.0).tobytes() + np.array([np.nan]).tobytes(), dtype=float, offset=3)
    assert not X.flags.aligned
    assert all_finite(X[:4])
    assert not all_finite(X)


@pytest.mark.parametrize(
    "X", [np.ones(3, dtype=np.float32), np.ones(3, dtype=">f8"), np.ones(3, dtype=int), np.ones((4, 4))[:, ::2]]
)
def test_other_numbers_are_not_taken_for_float64(X):
    with pytest.raises(ValueError, match=r"must have dtype float64|not C-contiguous"):
        all_finite(X)


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (300, 2), (100, 65)])
def test_mean_and_squares(shape):
    X = RNG.normal(size=shape) * 10 + 3
    mean, squares = mean_and_squares(X)
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(squares, ((X - X.mean(axis=0)) ** 2).sum(axis=1), rtol=1e-12, atol=1e-25)


def test_where_there_is_no_point_there_is_no_mean():
    with pytest.raises(ValueError, match="must have points"):
        mean_and_squares(np.empty((0, 2)))


def test_points_are_scaled_where_they_stay():
    X, center = RNG.normal(size=(50, 6)), RNG.normal(size=6)
    there = np.full((50, 8), np.nan)
    scale_points(X, center, 1.7, there)
    owner = scaled_points(X, center, 1.7, 8, b"mark")
    assert type(owner) is bytes
    assert owner[-4:] == b"mark"
    np.testing.assert_array_equal(np.frombuffer(owner[:-4]).reshape(50, 8), there)
    np.testing.assert_allclose(there[:, :6], 1.7 * (X - center), rtol=1e-14)
    assert not there[:, 6:].any()
    with pytest.raises(ValueError, match="as long as a point"):
        scaled_points(X, center[:5], 1.7, 8, b"mark")


@pytest.mark.parametrize("labels", [[-1.0, 1.0, 1.0], [2, 1, 2, 1], [LONGEST.max, LONGEST.min], [0.5, 3.0, 0.5]])
def test_two_labels(labels):
    labels = np.array(labels)
    low, high, codes = two_labels(labels)
    classes, theirs = np.unique(labels, return_inverse=True)
    assert [low, high] == classes.tolist()
    np.testing.assert_array_equal(codes, theirs)


@pytest.mark.parametrize("labels", [[1.0, 1.0], [1, 2, 3], [0, 1, 1, 0, 2], [np.nan, np.nan], [1.0, np.nan, 2.0]])
def test_one_label_or_more_than_two_are_not_two(labels):
    assert two_labels(np.array(labels)) is None
    assert two_labels(np.empty(0)) is None


@pytest.mark.parametrize("low", [0, 5, -3, LONGEST.max - 8, LONGEST.min])
def test_small_numbers(low):
    labels = RNG.choice([0, 1, 4, 8], 40) + low
    found, codes = small_numbers(labels)
    classes, theirs = np.unique(labels, return_inverse=True)
    assert found == classes.tolist()
    np.testing.assert_array_equal(codes, theirs)


def test_numbers_that_reach_far_are_not_small():
    assert small_numbers(np.array([0, 1, 3])) is None  # four places, three labels
    assert small_numbers(np.array([0, 1, 2])) is not None
    assert small_numbers(np.array([LONGEST.min, LONGEST.max])) is None
    assert small_numbers(np.empty(0, dtype=np.int64)) is None


def test_points_class_by_class():
    codes = RNG.integers(-1, 5, 200)
    order, starts = by_class(codes, 6)
    np.testing.assert_array_equal(order, np.argsort(codes, kind="stable")[(codes < 0).sum() :])
    np.testing.assert_array_equal(starts, np.append(0, np.cumsum(np.bincount(codes[codes >= 0], minlength=6))))
    assert starts[5] == starts[6]  # of the last class there is none


@pytest.mark.parametrize("wrong", [2, -2])
def test_codes_are_those_of_the_classes(wrong):
    with pytest.raises(ValueError, match="codes must be from"):
        by_class(np.array([0, 1, wrong]), 2)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 64, 100])
def test_a_matrix_is_compared_with_its_transpose(n):
    K = RNG.normal(size=(n, n))
    mean = np.full_like(K, np.nan)
    assert asymmetry(K) == asymmetry(K, mean) == np.abs(K - K.T).max()
    np.testing.assert_array_equal(mean, 0.5 * (K + K.T))
    assert asymmetry(mean) == 0.0
    mean[n - 1, 0] += 1.0
    assert asymmetry(mean) == (0.0 if n == 1 else 1.0)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("at", [(0, 0), (3, 40), (40, 3), (44, 44)])
def test_a_matrix_that_is_not_finite_has_no_asymmetry(value, at):
    K = np.ones((45, 45))
    K[at] = value
    assert asymmetry(K) == asymmetry(K, np.empty_like(K)) == -1.0
    K[at[::-1]] = value
    assert asymmetry(K) == -1.0


def test_the_mean_of_equal_numbers_does_not_overflow():
    K = np.full((9, 9), np.finfo(float).max)
    mean = np.empty_like(K)
    assert asymmetry(K, mean) == 0.0
    np.testing.assert_array_equal(mean, K)


def test_equal_rows_have_equal_hashes():
    rows = RNG.normal(size=(40, 9))
    rows[7], rows[30] = rows[2], rows[2]
    rows[5, 0], rows[6] = 0.0, rows[5]
    rows[6, 0] = -0.0
    hashes = hash_rows(rows)
    groups = len(np.unique(hashes))
    assert groups == len(np.unique(rows, axis=0)) == 37
    some = np.array([30, 2, 1])
    np.testing.assert_array_equal(hash_rows(rows, some), hashes[some])
    np.testing.assert_array_equal(hash_rows(rows, None, 4), hash_rows(np.ascontiguousarray(rows[:, ::4])))
    with pytest.raises(IndexError, match="row 40"):
        hash_rows(rows, np.array([40]))
    with pytest.raises(ValueError, match="step"):
        hash_rows(rows, None, 0)


def test_a_matrix_that_is_not_square_has_no_transpose_to_compare():
    for K, mean in ((np.ones((2, 3)), None), (np.ones((2, 2)), np.ones((3, 3)))):
        with pytest.raises(ValueError, match="must be square"):
            asymmetry(K, mean)
    assert asymmetry(np.empty((0, 0))) == 0.0
