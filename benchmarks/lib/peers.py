"""Peers that are not scikit-learn's own: scikit-learn-intelex (oneDAL), ThunderSVM on the processor, and ReHLine."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any

from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from benchmarks.lib.entrants import CACHE_MB
from benchmarks.lib.harness import Entrant
from benchmarks.lib.reading import classifier, regressor

#: The names of their rows.
INTELEX, THUNDER, REHLINE = "intelex SVC", "thundersvm SVC", "rehline"


class Foreign(Entrant):
    """An estimator in scikit-learn's manner from a package that may not be installed.

    Its threads are set by its own ``n_jobs``, that of the lane: oneDAL's and OpenMP's are no BLAS's. ``n_jobs`` of
    intelex sets oneDAL's threads for the call (`daal4py.daalinit` does it for the process, and an OMP_NUM_THREADS
    that is not the number of processors overrides that).
    """

    module, line = "", ""
    threads = (1, 2)

    def __init__(self, name: str, estimator: str, X: Any, y: NDArray, **parameters: Any) -> None:
        self.name, self.X, self.y = name, X, y
        self.estimator, self.parameters = estimator, parameters
        self.model: Any = None

    def skip(self) -> str | None:
        there = importlib.util.find_spec(self.module.partition(".")[0]) is not None
        return None if there else f"not installed: {self.line}"

    def prepare(self, threads: int) -> None:
        if self.model is None:  # only now: what its libraries take is none of the memory of those before it
            self.model = getattr(importlib.import_module(self.module), self.estimator)(**self.parameters)
        self.model.set_params(n_jobs=threads)

    def fit(self) -> None:
        self.model.fit(self.X, self.y)


class Intelex(Foreign):
    """scikit-learn-intelex: whether oneDAL solved it, or scikit-learn was asked after all, is a column."""

    module, line = "sklearnex.svm", "pip install 'dualflow[bench]'"

    def check(self) -> dict[str, Any]:
        return {"onedal": hasattr(self.model, "_onedal_estimator"), **self.columns()}

    def columns(self) -> dict[str, Any]:
        return classifier(self.model, self.X, self.y)


class IntelexSVC(Intelex):
    """Its `SVC`, at the tolerance and with the cache that scikit-learn's gets."""

    def __init__(self, X: Any, y: NDArray, C: float, gamma: float, tol: float = 1e-3, **kernel: Any) -> None:
        super().__init__(INTELEX, "SVC", X, y, C=C, gamma=gamma, tol=tol, cache_size=CACHE_MB, **kernel)


class IntelexSVR(Intelex):
    """Its `SVR`."""

    def __init__(self, X: Any, z: NDArray, C: float, epsilon: float, gamma: float, **kernel: Any) -> None:
        given = {"C": C, "epsilon": epsilon, "gamma": gamma, "cache_size": CACHE_MB}
        super().__init__("intelex SVR", "SVR", X, z, **given, **kernel)

    def columns(self) -> dict[str, Any]:
        return regressor(self.model, self.X, self.y)


class ThunderSVC(Foreign):
    """ThunderSVM's `SVC`, two classes; no extra brings it."""

    module, line = "thundersvm", "pip install thundersvm-cpu"

    def __init__(self, X: Any, y: NDArray, C: float, gamma: float, tol: float = 1e-3, **kernel: Any) -> None:
        super().__init__(THUNDER, "SVC", X, y, C=C, gamma=gamma, tol=tol, **kernel)

    def check(self) -> dict[str, Any]:
        return classifier(self.model, self.X, self.y)


class Rehline(Foreign):
    """ReHLine's linear SVM or ε-tube (Dai & Qiu 2023) at a tolerance of 1e-5, its intercept penalised; one thread. No
    extra brings it."""

    module, line = "rehline", "pip install rehline"
    threads = (1,)

    def __init__(self, X: Any, y: NDArray, C: float, epsilon: float | None = None) -> None:
        tube = epsilon is not None
        loss: dict[str, Any] = {"name": "svr", "epsilon": epsilon} if tube else {"name": "svm"}
        estimator = "plq_Ridge_Regressor" if tube else "plq_Ridge_Classifier"
        super().__init__(REHLINE, estimator, X, y, loss=loss, C=C, tol=1e-5)

    def prepare(self, threads: int) -> None:
        if self.model is None:
            self.model = getattr(importlib.import_module(self.module), self.estimator)(**self.parameters)

    def fit(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            super().fit()
