"""Labels that are text: NumPy's classes in its order, found without sorting; invalid labels are refused."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons

from dualflow import SVC, SVR, EcoSVC
from dualflow.estimators._validation import are_words, encode

WORDS = ["b", "a", "Z", "ä", "\U0001f300", "", "a b", "aa", "\ud800"]


@pytest.mark.parametrize("dtype", [None, object])
def test_classes_and_codes_are_numpys(dtype):
    labels = np.array(WORDS, dtype=dtype)[np.random.default_rng(0).integers(len(WORDS), size=200)]
    classes, codes = encode(labels)
    expected, places = np.unique(labels, return_inverse=True)
    assert are_words(labels)
    assert classes.dtype == expected.dtype
    assert classes.tolist() == expected.tolist()
    np.testing.assert_array_equal(codes, places)


def test_mixed_text_is_not_words():
    for label in (1, 1.0, None, b"a", np.nan):
        assert not are_words(np.array(["a", label], dtype=object))
    assert not are_words(np.array([b"a", b"b"]))


@pytest.mark.parametrize("dtype", [str, object])
@pytest.mark.parametrize("model", [SVC, EcoSVC])
def test_models_of_words_and_of_numbers_are_the_same(model, dtype):
    iris = load_iris()
    y = iris.target_names[iris.target].astype(dtype)
    words, numbers = (model().fit(iris.data, t) for t in (y, iris.target))
    assert words.classes_.dtype == y.dtype
    np.testing.assert_array_equal(words.decision_function(iris.data), numbers.decision_function(iris.data))
    assert (words.predict(iris.data) == iris.target_names[numbers.predict(iris.data)]).all()


@pytest.mark.parametrize("dtype", [str, object])
def test_words_are_refused_as_regression_targets(dtype):
    X, y = make_moons(20, random_state=0)
    with pytest.raises(ValueError, match=r"string to float|text|numbers"):
        SVR().fit(X, np.array(["no", "yes"])[y].astype(dtype))


DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "f4", "f8", "U2", "O"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", [[1, 0], [1, 0, 3], [7, 90], [1, 7, 90]])
def test_classes_and_codes_are_those_of_unique(dtype, values):
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(values, [3 + k for k in range(len(values))]))
    labels = labels.astype(str).astype(object) if dtype == "O" else labels.astype(dtype)
    classes, codes = encode(labels)
    theirs, their_codes = np.unique(labels, return_inverse=True)
    assert classes.dtype == theirs.dtype
    assert classes.tolist() == theirs.tolist()
    np.testing.assert_array_equal(codes, their_codes)
    again, those = encode(np.repeat(labels, 2)[::2])  # not in one piece
    np.testing.assert_array_equal(again, classes)
    np.testing.assert_array_equal(those, codes)


@pytest.mark.parametrize("labels", [[0.5, 1.0, 0.5], [0.5, 1.5], [0.1, 0.2, 0.3]])
def test_fractions_are_no_classes(labels):
    with pytest.raises(ValueError, match="Unknown label type"):
        encode(np.array(labels))
