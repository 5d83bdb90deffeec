"""svmlight's format: what is written is read back, hand-written files are read, damaged ones refused in a sentence."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_iris

from dualflow import SVC, ProblemError
from dualflow.interchange import from_svmlight, svmlight, to_svmlight

GOOD = """# made by hand
+1 1:0.5 3:-2e0  # a comment

-1 qid:7 2:1
-1
"""


def test_a_file_by_hand(tmp_path):
    path = tmp_path / "data"
    path.write_text(GOOD)
    X, y = from_svmlight(path)
    assert X.toarray().tolist() == [[0.5, 0.0, -2.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    assert y.dtype == np.int64
    assert y.tolist() == [1, -1, -1]
    assert from_svmlight(path, 5)[0].shape == (3, 5)
    assert from_svmlight(path, zero_based=True)[0].shape == (3, 4)
    path.write_text("0.5 1:1\n2 1:3\n")
    assert from_svmlight(path)[1].tolist() == [0.5, 2.0]
    path.write_text("1\r\n0 4:1\r\n")
    assert from_svmlight(path)[0].toarray().tolist() == [[0] * 4, [0, 0, 0, 1]]


def test_there_and_back(tmp_path):
    path, rng = tmp_path / "folder" / "data", np.random.default_rng(0)
    X = rng.normal(size=(20, 5)) * (rng.uniform(size=(20, 5)) < 0.5) * 10.0 ** rng.integers(-300, 300, size=(20, 5))
    X[0, 4] = 1.0
    for kind in (np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_matrix, sparse.coo_array):
        for y in (np.arange(20), rng.normal(size=20), np.arange(20) % 2 == 0):
            for zero_based in (False, True):
                to_svmlight(kind(X), y, path, zero_based=zero_based)
                again, labels = from_svmlight(path, zero_based=zero_based)
                assert np.allclose(again.toarray(), X, rtol=1e-15, atol=0.0)
                assert np.allclose(labels, y, rtol=1e-15)
                assert (labels.dtype.kind == "i") == (y.dtype.kind in "ib")
    to_svmlight(np.array([[1, 0], [0, 3]]), [0, 1], path)
    assert path.read_text() == "0 1:1\n1 2:3\n"


def test_a_model_of_what_was_read(tmp_path):
    X, y = load_iris(return_X_y=True)
    to_svmlight(X, y, tmp_path / "iris")
    S, t = from_svmlight(tmp_path / "iris")
    assert np.array_equal(S.toarray(), X)
    assert np.allclose(SVC().fit(S, t).decision_function(S), SVC().fit(X, y).decision_function(X), atol=1e-6)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "has no data"),
        ("# nothing\n\n", "has no data"),
        ("1 1:1\n1 2:1 1:1\n", "line 2, '1 2:1 1:1', is not 'label index:value"),
        ("1 1:1 1:2\n", "line 1"),
        ("1 0:1\n", "line 1"),
        ("1 -1:1\n", "line 1"),
        ("1 1\n", "line 1"),
        ("1 a:1\n", "'1 a:1'"),
        ("up 1:1\n", "'up 1:1'"),
        ("1,2 1:1\n", "line 1"),
        ("1 1:1_0\n", "line 1"),
        ("1_0 1:1\n", "line 1"),
        ("1 99999999999999:1\n", "line 1"),
        ("1 2147483647:1\n", "more than MAX_FEATURES"),
        ("1 1:nan\n", "a value of point 1"),
        ("1 1:1\n-1\n1 2:-inf\n", "a value of point 3"),
        ("1 1:1\nnan 1:1\n", "a label of point 2"),
        ("1 1:1e999\n", "a value of point 1"),
        ("1 1:\x1b[2J\n", "\\x1b[2J"),
        ("1 ١:1\n", "line 1"),
        ("a,b,c\n1,2,3\n", "line 1"),
        ("1 1:2\0 2:3\n", "line 1"),
    ],
)
def test_damaged_files_are_refused_in_a_sentence(tmp_path, text, words):
    path = tmp_path / "damaged"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ProblemError, match=re.escape(words)) as caught:
        from_svmlight(path)
    assert str(path) in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sizes_are_limited(tmp_path, monkeypatch):
    path = tmp_path / "data"
    path.write_text(GOOD)
    for wrong in (2, 0, 2.5, True):
        with pytest.raises(ProblemError, match=f"n_features={wrong}"):
            from_svmlight(path, wrong)
    with pytest.raises(ProblemError, match="zero_based="):
        from_svmlight(path, zero_based="auto")
    monkeypatch.setattr(svmlight, "MAX_FEATURES", 2)
    with pytest.raises(ProblemError, match="feature number 3, more than MAX_FEATURES=2"):
        from_svmlight(path)
    assert from_svmlight(path, 3)[0].shape == (3, 3)
    monkeypatch.setattr(svmlight, "MAX_LINE", 20)
    with pytest.raises(ProblemError, match="line 2 has more than MAX_LINE=20 bytes"):
        from_svmlight(path)
    monkeypatch.setattr(svmlight, "MAX_BYTES", 10)
    with pytest.raises(ProblemError, match="MAX_BYTES"):
        from_svmlight(path)
    with pytest.raises(ProblemError, match="directory"):
        from_svmlight(tmp_path)
    with pytest.raises(OSError, match="nowhere"):
        from_svmlight(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        ([[1.0], [np.nan]], [0, 1], "X contains NaN"),
        (sparse.csr_array([[1.0], [np.inf]]), [0, 1], "X contains NaN"),
        ([[1.0], [2.0]], [0, np.nan], "y contains NaN"),
        ([[1.0], [2.0]], ["a", "b"], "LabelEncoder"),
        ([[1.0], [2.0]], [[0, 1], [1, 0]], "shape"),
        ([[1.0], [2.0]], [0, 1, 2], "X has 2 rows, y has 3"),
        ([1.0, 2.0], [0, 1], "X must be a non-empty matrix"),
        ([["a"], ["b"]], [0, 1], "numbers are needed"),
        ([[1.0], [2.0]], np.array([0, 2**63], dtype=np.uint64), "2\\*\\*63"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(tmp_path, X, y, words):
    with pytest.raises(ProblemError, match=words):
        to_svmlight(X, y, tmp_path / "data")
    assert not list(tmp_path.iterdir())


def test_no_array_of_the_caller_is_touched(tmp_path):
    X = sparse.csr_array((np.array([2.0, 1.0]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    before = X.indices.copy()
    to_svmlight(X, [1], tmp_path / "data")
    assert np.array_equal(X.indices, before)
    assert (tmp_path / "data").read_text() == "1 1:1 2:2\n"
