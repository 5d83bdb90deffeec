"""Clean arrays skip scikit-learn's validation: the result must be the same."""

import numpy as np
import pandas as pd
import pytest

from dualflow import SVC, SVDD
from dualflow.estimators._validation import encode
from dualflow.exceptions import ProblemError

X = np.random.default_rng(0).normal(size=(40, 3))
y = (X[:, 0] > 0).astype(int)


def validations(monkeypatch, fit):
    """Return the list of calls of scikit-learn's validation."""
    calls = []
    from dualflow.estimators import _validation

    real = _validation.validate_data
    monkeypatch.setattr(_validation, "validate_data", lambda *args, **more: calls.append(1) or real(*args, **more))
    fit()
    return len(calls)


def test_clean_arrays_need_no_validation_and_others_get_it(monkeypatch):
    assert validations(monkeypatch, lambda: SVC().fit(X, y)) == 0
    assert validations(monkeypatch, lambda: SVDD().fit(X)) == 0
    assert validations(monkeypatch, lambda: SVC().fit(X.tolist(), y)) == 1
    table = np.column_stack([X, y])
    assert validations(monkeypatch, lambda: SVC().fit(table[:, :-1], table[:, -1])) == 0
    assert validations(monkeypatch, lambda: SVC().fit(np.asfortranarray(X), y)) == 0
    assert validations(monkeypatch, lambda: SVC().fit(X, y.astype(str))) == 0
    assert validations(monkeypatch, lambda: SVC().fit(X, y.astype(str).astype(object))) == 0
    assert validations(monkeypatch, lambda: SVC().fit(X.astype(np.float32), y)) == 1


@pytest.mark.parametrize("other", [X.tolist(), np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2], pd.DataFrame(X)])
def test_same_model_either_way(other):
    plain, validated = SVC(C=3.0).fit(X, y), SVC(C=3.0).fit(other, list(y))
    np.testing.assert_array_equal(plain.dual_coef_, validated.dual_coef_)
    assert plain.n_features_in_ == validated.n_features_in_ == 3


def test_names_of_an_earlier_fit_are_forgotten():
    model = SVC().fit(pd.DataFrame(X, columns=list("abc")), y)
    assert not hasattr(model.fit(X, y), "feature_names_in_")


@pytest.mark.parametrize(
    ("points", "labels"),
    [
        (np.where(np.arange(120).reshape(40, 3) == 7, np.nan, X), y),
        (np.where(np.arange(120).reshape(40, 3) == 7, np.inf, X), y),
        (X, np.where(np.arange(40) == 7, np.nan, y)),
        (X, y[:-1]),
        (X[:, :0], y),
        (X[:1], y[:1]),
        (X[:, 0], y),
    ],
)
def test_unfit_data_is_refused_by_validation_as_before(points, labels):
    with pytest.raises(ValueError):
        SVC().fit(points, labels)


def test_large_finite_entries_whose_sum_overflows_are_not_taken_for_infinite():
    with pytest.raises(ProblemError, match="squared lengths overflow"):
        SVC(gamma=1.0).fit(np.full((4, 2), 1.7e308) * [[1, 1], [1, -1], [-1, 1], [1, 1]], [0, 1, 0, 1])
    assert SVC().fit(X, y).fit_status_ == 0


@pytest.mark.parametrize(
    "labels",
    [
        [3, -1, 3, -1],
        [2.0, 0.0, -0.0, 2.0],
        [True, False, True, True],
        [0, 1, 2, 1],
        [5, 5, 5],
        ["a", "b", "a"],
        np.array([200, 3, 200], dtype=np.uint8),
        np.array([-100, 100, 27] * 70, dtype=np.int8),  # their distance is no int8
        np.array([2**62, 2**62 + 1, 2**62]),
        np.array([2**63 - 1, -(2**63)] * 3),
        np.array([2**64 - 1, 2**64 - 3, 2**64 - 1, 2**63], dtype=np.uint64),
        np.arange(20)[::-3],
    ],
)
def test_encode_is_unique_with_its_inverse(labels):
    labels = np.asarray(labels)
    classes, codes = encode(labels)
    expected, inverse = np.unique(labels, return_inverse=True)
    np.testing.assert_array_equal(classes, expected)
    np.testing.assert_array_equal(codes, inverse)
    assert classes.dtype == expected.dtype
    assert np.issubdtype(codes.dtype, np.integer)


def test_encode_refuses_fractions():
    with pytest.raises(ValueError, match="continuous"):
        encode(np.array([0.5, 1.25, 0.5]))
