"""Labels that differ stay different, also where NumPy would merge them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import dualflow
from dualflow import SVC, EcoSVC, IncrementalSVC, ProblemError
from dualflow.estimators._validation import check_same_classes, codes_of

B = 2**53
RNG = np.random.default_rng(0)
MODELS = [SVC, EcoSVC, IncrementalSVC]


def points(count, each=5):
    return np.repeat(4.0 * np.arange(count), each)[:, None] + RNG.normal(size=(count * each, 2)) * 0.1


def repeated(labels, each=5):
    return [label for label in labels for _ in range(each)]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("labels", [[B, B + 1], [B, B + 1, B + 2], [-B - 1, -B], [2**63, 2**63 + 1, 2**64 - 1]])
@pytest.mark.parametrize("kind", [list, np.array, pd.Series, "Int64"])
def test_large_integers_stay_apart(model, labels, kind):
    y = repeated(labels)
    given = pd.Series(y, dtype="UInt64" if max(labels) >= 2**63 else "Int64") if kind == "Int64" else kind(y)
    fitted = model().fit(points(len(labels)), given)
    assert fitted.classes_.tolist() == labels
    assert fitted.predict(points(len(labels))).tolist() == y


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    "labels", [[-1, 2**63, 2**63 + 1], [0.0, B, B + 1], [np.uint64(2**63 + 1), -5, 7], ["a", "a\0", "b"]]
)
def test_what_no_array_holds_exactly_is_refused(model, labels):
    X, y = points(3), repeated(labels)
    with pytest.raises(ProblemError, match=r"^y holds (integers as large as|text that ends in NUL)"):
        model().fit(X, y)
    text = [repr(label) for label in y]
    assert len(model().fit(X, text).classes_) == 3


@pytest.mark.parametrize("model", [EcoSVC, IncrementalSVC])
def test_declared_classes_are_exact(model):
    X = points(3)
    with pytest.raises(ProblemError, match="classes holds integers as large as"):
        model().partial_fit(X, np.zeros(15, dtype=int), classes=[-1, 2**63, 2**63 + 1])
    first = model().partial_fit(X, np.array(repeated([B, B + 1, B + 2])), classes=[B, B + 1, B + 2])
    with pytest.raises(ProblemError, match="differs from those of earlier calls"):
        first.partial_fit(X, repeated([B, B + 1, B + 2]), classes=np.array([B, B + 1, B + 3], dtype=np.uint64))
    later = first.partial_fit(X, np.array(repeated([B, B + 1, B + 2]), dtype=np.uint64))
    assert later.predict(X).tolist() == repeated([B, B + 1, B + 2])
    with pytest.raises(ProblemError, match="none of the classes"):
        first.partial_fit(X[:1], np.array([B + 3], dtype=np.uint64))


def test_codes_of_other_kinds_of_numbers():
    classes = np.array([B, B + 1])
    assert codes_of(np.array([B + 1, B], dtype=np.uint64), classes).tolist() == [1, 0]
    assert codes_of(np.array([float(B)]), classes).tolist() == [0]
    with pytest.raises(ProblemError):
        codes_of(np.array([float(B)]), classes + 1)
    with pytest.raises(ProblemError):
        codes_of(np.array([B]), np.array([float(B + 2), float(B + 4)]))
    assert codes_of(np.array([2.0, 1.0, 2.0]), np.array([1, 2])).tolist() == [1, 0, 1]
    check_same_classes(np.array([1.0, 2.0]), np.array([1, 2]))
    with pytest.raises(ProblemError):
        check_same_classes(np.array([float(B), float(B + 2)]), np.array([B + 1, B + 2]))


def test_comparisons_and_fronts_are_exact_too():
    X, y = points(3), repeated([-1, 2**63, 2**63 + 1])
    for call in (dualflow.compare, dualflow.pareto_front):
        with pytest.raises(ProblemError, match="y holds integers as large as"):
            call(X, y)
