"""Regressors: ours, and scikit-learn's."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import svm

import dualflow
from benchmarks.lib.entrants import CACHE_MB
from benchmarks.lib.harness import Entrant
from benchmarks.lib.reading import regressor

#: scikit-learn's tolerance for answers that others are held against.
TIGHT = 1e-8


class LibsvmSVR(Entrant):
    """scikit-learn's `SVR`, from X to fitted model, at its default tolerance."""

    name = "SVR tol=0.001"

    def __init__(
        self, X: NDArray, z: NDArray, C: float, epsilon: float, gamma: float, tol: float = 1e-3, **kernel: Any
    ) -> None:
        self.X, self.z = X, z
        self.model = svm.SVR(C=C, epsilon=epsilon, gamma=gamma, tol=tol, cache_size=CACHE_MB, **kernel)

    def fit(self) -> None:
        self.model.fit(self.X, self.z)

    def check(self) -> dict[str, Any]:
        return regressor(self.model, self.X, self.z)


class DualflowSVR(Entrant):
    """`dualflow.SVR` from X to fitted model, certified; if asked, its predictions beside scikit-learn's tight ones."""

    name = "dualflow refined"
    threads = (1, 2)

    def __init__(
        self, X: NDArray, z: NDArray, C: float, epsilon: float, gamma: float, compared: bool = False, **kernel: Any
    ) -> None:
        self.X, self.z, self.compared = X, z, compared
        self.model = dualflow.SVR(C=C, epsilon=epsilon, gamma=gamma, **kernel)

    def fit(self) -> None:
        self.model.fit(self.X, self.z)

    def check(self) -> dict[str, Any]:
        columns = regressor(self.model, self.X, self.z)
        if not self.compared:
            return columns
        same = {name: getattr(self.model, name) for name in ("C", "epsilon", "gamma", "kernel")}
        theirs = svm.SVR(**same, tol=TIGHT, cache_size=CACHE_MB).fit(self.X, self.z).predict(self.X)
        difference = np.abs(self.model.predict(self.X) - theirs).max() / np.abs(theirs).max()
        return {**columns, "relative_difference": float(difference)}
