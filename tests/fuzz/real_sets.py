"""Fits of real data, whole and in parts, raw and standardised, with all kernels and C from 1e-3 to 1e5.

    python -m tests.fuzz.real_sets --fits 500 --seed 1 [--data FOLDER]

scikit-learn's own sets, and those of a folder: `.csv` with a header and the label in the last column, others in
svmlight's format. Every fit is certified from outside, in float64. Prints findings; exit code 1 if there is any.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.exceptions import ConvergenceWarning

from dualflow import SVC, SVDD

from . import judge
from .fits import far_from_origin, weights

#: A fit is slow from so many seconds for each thousand points, and from the whole number on whatever the size.
SLOW_A_THOUSAND, SLOW = 5.0, 60.0
PARTS = (30, 60, 250, 1000, 4000, 10**9)
LARGEST = 8000
BLOCK = 1000


def bundled() -> dict[str, Callable[[], tuple[NDArray, NDArray]]]:
    def loader(load: Callable[..., Any]) -> Callable[[], tuple[NDArray, NDArray]]:
        return lambda: load(return_X_y=True)

    names = ("iris", "wine", "breast_cancer", "digits", "diabetes", "linnerud")
    return {name: loader(getattr(datasets, f"load_{name}")) for name in names}


def of_folder(folder: Path) -> dict[str, Callable[[], tuple[NDArray, NDArray]]]:
    found: dict[str, Callable[[], tuple[NDArray, NDArray]]] = {}
    for path in sorted(folder.iterdir()):
        if path.suffix == ".csv":
            found[path.stem] = lambda path=path: _table(path)
        elif not path.suffix:
            found[path.name] = lambda path=path: _sparse(path)
    return found


def load_all(folder: str | None) -> dict[str, tuple[NDArray, NDArray]]:
    """Points and labels of the bundled sets, and of those of a folder."""
    makers = bundled() | (of_folder(Path(folder)) if folder else {})
    return {name: make() for name, make in makers.items()}


def _sparse(path: Path) -> tuple[NDArray, NDArray]:
    X, y = datasets.load_svmlight_file(str(path))
    return X.toarray(), y


def _table(path: Path) -> tuple[NDArray, NDArray]:
    table = np.genfromtxt(path, delimiter=",", dtype=str, skip_header=1)
    columns = []
    for column in table.T[:-1]:
        try:
            columns.append(column.astype(float))
        except ValueError:
            columns.append(np.unique(column, return_inverse=True)[1].astype(float))
    return np.column_stack(columns), table[:, -1]


def in_two(labels: NDArray) -> NDArray:
    """±1: the classes (or values) that come first in order, until they are half of all, against the others."""
    labels = labels[:, 0] if labels.ndim == 2 else labels
    _, codes = np.unique(labels, return_inverse=True)
    return np.where(codes <= np.median(codes) - (np.median(codes) == codes.max()), 1.0, -1.0)


def product(X: NDArray, S: NDArray, coef: NDArray, kernel: Callable[[NDArray, NDArray], NDArray]) -> NDArray:
    """K coef by blocks of rows, in float64."""
    parts = [kernel(X[start : start + BLOCK], X[S]) @ coef[S] for start in range(0, len(X), BLOCK)]
    return np.concatenate(parts)


def run(seed: int, k: int, sets: dict[str, tuple[NDArray, NDArray]]) -> tuple[str, str, list[str], float]:
    """What was fitted, how it ended, what is wrong, and the seconds of processor time it took."""
    rng = np.random.default_rng([seed, k])
    name = str(rng.choice(sorted(sets)))
    X, y = sets[name]
    size = min(len(X), int(rng.choice(PARTS, p=[0.2, 0.2, 0.25, 0.2, 0.1, 0.05])), LARGEST)
    rows = rng.permutation(len(X))[:size]
    X, y = X[rows], y[rows].copy()
    standard, kernel = bool(rng.random() < 0.5), str(rng.choice(["linear", "rbf", "poly"]))
    if standard:
        spread = X.std(axis=0)
        X = (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    variance = float(X.var())
    gamma, degree = 1.0 / (X.shape[1] * variance) if variance > 1e-300 else 1.0, int(rng.integers(1, 5))
    C, nu = float(10.0 ** rng.uniform(-3, 5)), float(10.0 ** rng.uniform(-2.5, -0.01))
    ball = bool(rng.random() < 0.25)
    if len(set(y)) < 2:
        y[0] = -y[0]
    options = {"kernel": kernel} | ({"gamma": gamma} if kernel != "linear" else {})
    options |= {"degree": degree, "coef0": 1.0} if kernel == "poly" else {}
    model: Any = SVDD(nu=nu, **options) if ball else SVC(C=C, **options)
    setting = f"nu={nu:.3g}" if ball else f"C={C:.3g}"
    what = f"{name} {size} rows{' standardised' if standard else ''} {kernel} {degree} {setting}"
    wrong, started = [], time.process_time()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(X) if ball else model.fit(X, y)
        except Exception as error:
            return what, "raised", [f"{type(error).__name__}: {error}"], time.process_time() - started
    seconds = time.process_time() - started
    if seconds > min(SLOW, max(SLOW_A_THOUSAND, SLOW_A_THOUSAND * size / 1000)):
        wrong.append(f"slow: {seconds:.1f} s")
    told = [w for w in caught if issubclass(w.category, ConvergenceWarning)]
    wrong += sorted({f"{w.category.__name__}: {w.message}" for w in caught if w not in told})
    worth = _worth(model, X, y, C, nu, gamma, degree)
    hopeless = worth.unknown > 1e-7 or (kernel == "poly" and far_from_origin(X))
    if told:
        if not hopeless:
            wrong.append(f"warned, gap {worth.gap:.1e}, unknown {worth.unknown:.1e}")
        return what, "warned", wrong, seconds
    if worth.unknown < 1e-2 and not worth.gap <= model.tol + 1e-8 + worth.unknown:
        wrong.append(f"silent: gap {worth.gap:.1e}, certified {model.certificate_.relative_gap}, {worth.unknown:.1e}")
    if not worth.infeasible <= 1e-7:
        wrong.append(f"infeasible by {worth.infeasible:.1e}")
    return what, "fine", wrong, seconds


def _worth(model: Any, X: NDArray, y: NDArray, C: float, nu: float, gamma: float, degree: int) -> judge.Worth:
    A = X - X.mean(axis=0) if model.kernel in ("rbf", "linear") else X

    def kernel(P: NDArray, R: NDArray) -> NDArray:
        if model.kernel == "rbf":
            return np.exp(-gamma * np.maximum((P**2).sum(axis=1)[:, None] + (R**2).sum(axis=1) - 2 * P @ R.T, 0))
        return P @ R.T if model.kernel == "linear" else (gamma * P @ R.T + 1.0) ** degree

    coef = weights(model, len(X))
    Kc, squares = product(A, np.flatnonzero(coef), coef, kernel), (A**2).sum(axis=1)
    diag = {"rbf": np.ones(len(X)), "linear": squares}.get(model.kernel, (gamma * squares + 1.0) ** degree)
    if isinstance(model, SVDD):
        return judge.of_distances(Kc, diag, 1.0 / (nu * len(X)), coef, -float(model.offset_))
    b = None if model.kernel == "linear" else float(model.intercept_[0])
    return judge.of_products(Kc, float(diag.max()), y, np.full(len(X), C), coef, b, True)


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--fits", type=int, default=200)
    parser.add_argument("--data", default=os.environ.get("DUALFLOW_DATA"))
    parser.add_argument("--only", type=int)
    options = parser.parse_args(given)
    sets = {name: (X.astype(float), in_two(y)) for name, (X, y) in load_all(options.data).items()}
    numbers = range(options.fits) if options.only is None else [options.only]
    ended, slowest, bad = Counter(), (0.0, ""), 0
    print(f"seed {options.seed}, {len(sets)} sets: {', '.join(sets)}", flush=True)
    for k in numbers:
        what, how, wrong, seconds = run(options.seed, k, sets)
        ended[how] += 1
        slowest, bad = max(slowest, (seconds, what)), bad + bool(wrong)
        for each in wrong:
            print(f"--seed {options.seed} --only {k}: {what}: {each}", flush=True)
    print(f"{sum(ended.values())} fits, {dict(ended)}, {bad} wrong, slowest {slowest[0]:.1f} s ({slowest[1]})")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
