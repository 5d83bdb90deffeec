"""The data sets of the benchmarks: every generator, noise level and seed, in one place.

Labels are ±1. The kernel width is scikit-learn's "scale", 1/(features · var), computed once a case and handed to
all entrants as a number.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.datasets import (
    fetch_openml,
    load_digits,
    make_blobs,
    make_classification,
    make_moons,
)

NAMES = ("moons", "classification", "digits", "blobs")
SEED = 0

#: One-pixel shifts (down, right) of the 8 × 8 digits; the unshifted originals come first.
SHIFTS = ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1))


def load(name: str, n: int, seed: int = SEED) -> tuple[NDArray, NDArray]:
    """Data set ``name`` with n points: X of shape (n, m) in float64, y of shape (n,) with entries ±1."""
    if name not in NAMES:
        raise ValueError(f"data set {name!r} is not one of {', '.join(NAMES)}")
    X, label = {"moons": _moons, "classification": _classification, "digits": _digits, "blobs": _blobs}[name](n, seed)
    return np.ascontiguousarray(X, dtype=float), np.where(label % 2 == 1, 1.0, -1.0)


def scale_gamma(X: NDArray) -> float:
    """scikit-learn's gamma="scale", as a number."""
    return 1.0 / (X.shape[1] * float(X.var()))


def load_mnist(folder: str | None, rows: int) -> tuple[NDArray, NDArray]:
    """The first ``rows`` training images of MNIST, pixels / 255, and y = +1 for the digit 3, −1 for the rest."""
    images, digits = (array[:rows] for array in load_mnist_part("train", folder))
    if len(images) < rows:
        raise ValueError(f"MNIST: {rows} training images wanted, {len(images)} found")
    X = images.reshape(rows, -1).astype(float)
    X /= 255.0
    return X, np.where(digits == 3, 1.0, -1.0)


def load_mnist_part(part: str, folder: str | None) -> tuple[NDArray, NDArray]:
    """MNIST's images (uint8) and digits, in their order; ``part`` is "train" or "test".

    From ``mnist.npz`` (x_train, y_train, x_test, y_test) in ``folder`` or in the environment variable DUALFLOW_DATA's
    folder; from OpenML, over the network, if neither is given.
    """
    if path := given("mnist.npz", folder):
        with np.load(path) as archive:
            return archive[f"x_{part}"], archive[f"y_{part}"]
    images, digits = fetch_openml("mnist_784", version=1, as_frame=False, return_X_y=True)
    rows = slice(60000) if part == "train" else slice(60000, None)
    return images[rows].astype(np.uint8), digits[rows].astype(int)


#: Mierswa's sets: OpenML's number, its name of the class column (None: the default target), the value that is +1; then
#: rows, features and points of class +1, to tell whether it is the same set.
MIERSWA = {
    "liver": (8, "selector", "1", 345, 6, 145),
    "ionosphere": (59, None, "g", 351, 34, 225),
    "sonar": (40, None, "Mine", 208, 60, 111),
    "lawsuit": (450, None, "1", 264, 4, 245),
    "lupus": (472, None, "1", 87, 3, 52),
    "crabs": (446, None, "B", 200, 7, 100),
}


def load_mierswa(name: str, folder: str | None) -> tuple[NDArray, NDArray]:
    """A data set of Mierswa's Table 1, features unscaled: X of shape (n, m), y = ±1.

    From ``<name>.csv`` (a header; the class last, −1 or +1) in ``folder`` or in the folder of the environment variable
    DUALFLOW_DATA; from OpenML, over the network, if neither is given.
    """
    number, column, positive, rows, features, ones = MIERSWA[name]
    if path := given(f"{name}.csv", folder):
        table = np.genfromtxt(path, delimiter=",", skip_header=1)
        X, y = table[:, :-1], table[:, -1]
    else:
        frame = fetch_openml(data_id=number, as_frame=True).frame
        label = column or frame.columns[-1]
        X = np.column_stack([_numbers(frame[c]) for c in frame.columns if c != label])
        y = np.where(frame[label].astype(str) == positive, 1.0, -1.0)
    found = (*X.shape, int((y > 0).sum()))
    if found != (rows, features, ones):
        wanted = f"{rows} rows, {features} features, {ones} of class +1"
        raise ValueError(f"{name}: {wanted} are expected, found {found}; give a folder with {name}.csv by --data")
    return X, y


def text_like(n: int, words: int = 20000, density: float = 0.002, seed: int = SEED) -> tuple[Any, NDArray]:
    """n documents of random words with random weights, in CSR, and y = ±1 by a linear rule with noise."""
    rng = np.random.default_rng(seed)
    count = rng.binomial(words, density, size=n)
    columns = np.concatenate([np.sort(rng.choice(words, size=k, replace=False)) for k in count])
    X = scipy.sparse.csr_matrix((rng.random(len(columns)), columns, np.append(0, np.cumsum(count))), shape=(n, words))
    score = X @ rng.standard_normal(words)
    return narrow(X), np.where(score + 0.3 * score.std() * rng.standard_normal(n) > 0, 1.0, -1.0)


def narrow(X: Any) -> Any:
    """The same with indices of 32 bits: scikit-learn takes no others."""
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X


def data_folder(folder: str | None) -> Path | None:
    """Where the real data sets are: ``folder``, else that of the environment variable DUALFLOW_DATA, else None."""
    folder = folder or os.environ.get("DUALFLOW_DATA")
    return Path(folder) if folder else None


def given(name: str, folder: str | None) -> Path | None:
    """The file in the folder of the real data sets; None without such a folder."""
    where = data_folder(folder)
    if where is None:
        return None
    if not (where / name).is_file():
        raise FileNotFoundError(f"no {name} in {where}: give its folder by --data, or unset DUALFLOW_DATA")
    return where / name


def first(name: str, n: int) -> tuple[NDArray, NDArray]:
    """The first n of "moons" (noise 0.2, seed 0) or "digits" / 16, and ±1: for circuits of few qubits.

    +1 are the digits 1 against 4, and beyond the 350 there are of both, those below 5 against the rest.
    """
    if name == "moons":
        X, label = _moons(n, 0)
        return X, 2 * label - 1
    digits = load_digits()
    few = n <= 350
    rows = np.isin(digits.target, (1, 4)) if few else np.ones(len(digits.target), dtype=bool)
    X, digit = digits.data[rows][:n] / 16, digits.target[rows][:n]
    return X, np.where(digit == 1 if few else digit < 5, 1, -1)


def _numbers(column: Any) -> NDArray:
    """A column as numbers; names become their place in the alphabet."""
    try:
        return np.asarray(column, dtype=float)
    except ValueError:
        return np.unique(np.asarray(column, dtype=str), return_inverse=True)[1].astype(float)


def _moons(n: int, seed: int) -> tuple[NDArray, NDArray]:
    return make_moons(n, noise=0.2, random_state=seed)


def _classification(n: int, seed: int) -> tuple[NDArray, NDArray]:
    return make_classification(n, n_features=20, random_state=seed)


def _blobs(n: int, seed: int) -> tuple[NDArray, NDArray]:
    # At scikit-learn's standard deviation of 1 the clusters do not touch and every method is done at once.
    return make_blobs(n, n_features=8, centers=16, cluster_std=4.0, random_state=seed)


def _digits(n: int, seed: int) -> tuple[NDArray, NDArray]:
    """Even against odd, in an order drawn by ``seed``; beyond 1797 rows, the same digits shifted by one pixel."""
    digits = load_digits()
    most = len(digits.target) * len(SHIFTS)
    if n > most:
        raise ValueError(f"digits: at most {most} rows (the originals and {len(SHIFTS) - 1} shifts), {n} wanted")
    order = np.random.default_rng(seed).permutation(len(digits.target))
    images, labels = digits.images[order] / 16.0, digits.target[order]
    copies = -(-n // len(labels))
    X = np.concatenate([_shifted(images, *shift).reshape(len(labels), -1) for shift in SHIFTS[:copies]])
    return X[:n], np.tile(labels, copies)[:n]


def _shifted(images: NDArray, down: int, right: int) -> NDArray:
    """Images of shape (k, h, w) moved by whole pixels; what enters is 0, what leaves is lost."""
    moved = np.roll(images, (down, right), axis=(1, 2))
    if down:
        moved[:, 0 if down > 0 else -1, :] = 0.0
    if right:
        moved[:, :, 0 if right > 0 else -1] = 0.0
    return moved
