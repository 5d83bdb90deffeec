"""Real data sets that nobody tuned to, from a folder or from OpenML; counted, to tell whether they are the same.

Features are standardised, mean 0 and variance 1 a column (constant ones stay 0), but for a8a, whose columns are 0 and 1
and mostly 0, and digits, which are / 16. In the folder: ``abalone.csv`` (sex, seven measures, rings), ``spambase.csv``,
``phoneme.csv`` (the class last, −1 or +1), ``letter.csv`` (the letter last), each with a header, and ``a8a`` in
svmlight's format, with 123 columns.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import fetch_openml, load_breast_cancer, load_digits, load_iris, load_svmlight_file, load_wine

from benchmarks.lib.data import SEED, given, load, load_mnist_part

#: OpenML's number, rows, features (abalone's sex is three), and points of class +1, rings > 9 and A to M among them.
OPENML = {
    "abalone": (183, 4177, 10, 2081),
    "spambase": (44, 4601, 57, 1813),
    "phoneme": (1489, 5404, 5, 1586),
    "letter": (6, 20000, 16, 9940),
}
#: Rows, columns and points of class +1; from a folder only.
A8A = (22696, 123, 5506)

#: Two classes each.
TWO_CLASSES = (*OPENML, "a8a", "digits")
#: More.
CLASSES = {"iris": load_iris, "wine": load_wine, "digits": load_digits}


def two_classes(name: str, folder: str | None, sparse: bool = False) -> tuple[Any, NDArray]:
    """X of shape (n, m), ``sparse`` as CSR (a8a only), and y = ±1.

    +1 is more than 9 rings (abalone), spam, class 2 (phoneme), A to M (letter), above 50 K a year (a8a), odd (digits).
    """
    if name == "digits":
        return load("digits", 1797)
    if name == "a8a":
        return _a8a(folder, sparse)
    X, target = _table(name, folder)
    positive = {
        "abalone": lambda t: t.astype(float) > 9,
        "letter": lambda t: t <= "M",
        "phoneme": lambda t: (t == "1") if given("phoneme.csv", folder) else (t == "2"),
        "spambase": lambda t: t == "1",
    }[name](target)
    _counted(name, OPENML[name][1:], (*X.shape, int(positive.sum())))
    return standardised(X), np.where(positive, 1.0, -1.0)


def rings(folder: str | None) -> tuple[NDArray, NDArray]:
    """Abalone's features, and how many rings there are."""
    X, target = _table("abalone", folder)
    return standardised(X), target.astype(float)


def many_classes(name: str, folder: str | None) -> tuple[NDArray, NDArray]:
    """X of shape (n, m), and labels: iris, wine, digits, the first 16000 letters, the first 10000 images of MNIST."""
    if name == "letter":
        X, target = _table("letter", folder)
        return standardised(X)[:16000], np.unique(target, return_inverse=True)[1][:16000]
    if name == "mnist":
        images, digits = (array[:10000] for array in load_mnist_part("train", folder))
        return images.reshape(len(images), -1) / 255.0, digits.astype(int)
    found = CLASSES[name]()
    return (found.data / 16.0 if name == "digits" else standardised(found.data)), found.target


def small(name: str, n: int) -> tuple[NDArray, NDArray]:
    """At most n points, in an order drawn by the seed, and y = ±1: moons, or one class of a bundled set (the second; of
    breast cancer the benign) against the rest."""
    if name == "moons":
        return load("moons", n)
    found = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}[name]()
    chosen = np.random.default_rng(SEED).permutation(len(found.target))[:n]
    return standardised(found.data[chosen]), np.where(found.target[chosen] == 1, 1.0, -1.0)


def standardised(X: NDArray) -> NDArray:
    """Columns of mean 0 and variance 1."""
    spread = X.std(axis=0)
    return np.ascontiguousarray((X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def _a8a(folder: str | None, sparse: bool) -> tuple[Any, NDArray]:
    path = given("a8a", folder)
    if path is None:
        raise FileNotFoundError("a8a is not fetched: give a folder with LIBSVM's file of that name by --data")
    X, y = load_svmlight_file(str(path), n_features=A8A[1])
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # scikit-learn's SVC takes no others
    _counted("a8a", A8A, (*X.shape, int((y > 0).sum())))
    return (X if sparse else X.toarray()), np.where(y > 0, 1.0, -1.0)


def _table(name: str, folder: str | None) -> tuple[NDArray, NDArray]:
    """Unscaled features, and the target as text."""
    if path := given(f"{name}.csv", folder):
        columns = _columns(path)
    else:
        frame = fetch_openml(data_id=OPENML[name][0], as_frame=True).frame
        columns = [np.asarray(frame[c]).astype(str) for c in frame.columns]
    *features, target = columns
    if name == "abalone":
        sex, features = features[0], features[1:]
        features = [*(np.char.startswith(sex, letter).astype(float) for letter in "MFI"), *features]
    return np.column_stack([column.astype(float) for column in features]), target


def _columns(path: Path) -> list[NDArray]:
    with path.open(newline="", encoding="utf-8") as file:
        _, *lines = csv.reader(file)
    return list(np.array(lines).T)


def _counted(name: str, wanted: tuple[int, ...], found: tuple[int, ...]) -> None:
    if wanted != found:
        words = "{} rows, {} features, {} of class +1"
        said = f"{name}: {words.format(*wanted)} are expected, found {words.format(*found)}"
        raise ValueError(f"{said}; give a folder with the file by --data")
