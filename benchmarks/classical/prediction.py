"""Claim: predict is ≥ 10 × faster than SVC.predict in float64 (to a relative 1e-10), ≥ 20 × in float32 (to 1e-4).

One model for both: dualflow's fit, its support vectors and coefficients put into a scikit-learn `SVC`, so that LIBSVM's
loop computes the same function. The difference is max|f − f_SVC| / max|f_SVC| of the decision values on the new rows.
By the wall and in user time. scikit-learn-intelex, on a fit of its own, is shown where it is installed.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import svm

import dualflow
from benchmarks.lib import data
from benchmarks.lib.claims import Verdict, each
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import JUDGED_THREADS, against, cells, each_at_least
from benchmarks.lib.peers import INTELEX, IntelexSVC
from benchmarks.lib.report import main

PEER = "SVC"

#: The parameter of `dualflow.SVC` that sets the precision of prediction.
PRECISION = "predict_dtype"


class DualflowPredict(Entrant):
    """`dualflow.SVC.predict` of new rows, in one precision."""

    threads = (1, 2)

    def __init__(self, model: dualflow.SVC, reference: svm.SVC, Z: NDArray, precision: str) -> None:
        self.model, self.reference, self.Z, self.precision = model, reference, Z, precision
        self.name = f"dualflow {precision}"

    def skip(self) -> str | None:
        if self.precision == "float64" or PRECISION in inspect.signature(dualflow.SVC).parameters:
            return None
        return f"dualflow.SVC has no parameter {PRECISION!r}: no {self.precision} prediction"

    def fit(self) -> None:
        if self.precision != "float64":
            self.model.set_params(**{PRECISION: self.precision})
        elif PRECISION in inspect.signature(dualflow.SVC).parameters:
            self.model.set_params(**{PRECISION: "float64"})
        self.labels = self.model.predict(self.Z)

    def check(self) -> dict[str, Any]:
        theirs, ours = self.reference.decision_function(self.Z), self.model.decision_function(self.Z)
        return {
            "relative_difference": float(np.abs(ours - theirs).max() / np.abs(theirs).max()),
            "labels_differing": int((self.labels != self.reference.predict(self.Z)).sum()),
            "support_vectors": len(self.model.support_),
        }


class LibsvmPredict(Entrant):
    """scikit-learn's `SVC.predict`."""

    name = PEER

    def __init__(self, model: svm.SVC, Z: NDArray) -> None:
        self.model, self.Z = model, Z

    def fit(self) -> None:
        self.model.predict(self.Z)

    def check(self) -> dict[str, Any]:
        return {"support_vectors": len(self.model.support_)}


class IntelexPredict(IntelexSVC):
    """`predict` of scikit-learn-intelex, by a model that it has fitted itself: its own cannot be given another's."""

    def __init__(self, X: NDArray, y: NDArray, C: float, gamma: float, Z: NDArray) -> None:
        super().__init__(X, y, C, gamma)
        self.Z, self.fitted = Z, False

    def prepare(self, threads: int) -> None:
        super().prepare(threads)
        if not self.fitted:
            super().fit()
            self.fitted = True

    def fit(self) -> None:
        self.model.predict(self.Z)


def in_libsvm(model: dualflow.SVC, X: NDArray, y: NDArray) -> svm.SVC:
    """A two-class `SVC` that holds the model: fitted for its layout, then given our numbers.

    The attributes are private to scikit-learn, which negates them for two classes; if that changes, the difference
    of decision values that the benchmark judges shows it.
    """
    holder = svm.SVC(C=model.C, gamma=model.gamma, cache_size=200).fit(X, y)
    holder.support_ = model.support_.astype(np.int32)
    holder.support_vectors_ = np.ascontiguousarray(model.support_vectors_)
    holder._n_support = model.n_support_.astype(np.int32)
    holder.dual_coef_, holder.intercept_ = model.dual_coef_, model.intercept_
    holder._dual_coef_, holder._intercept_ = -model.dual_coef_, -model.intercept_
    return holder


def build(data_set: str, n: int, rows: int, solver: str | None) -> list[Entrant]:
    X, y = data.load(data_set, n)
    # New rows: the training rows in another order with a little noise, so that no kernel value is exactly 1.
    rng = np.random.default_rng(data.SEED + 1)
    Z = X[rng.integers(0, n, rows)] + 0.05 * X.std() * rng.standard_normal((rows, X.shape[1]))
    chosen = {} if solver is None else {"solver": solver}
    model = dualflow.SVC(C=1.0, gamma=data.scale_gamma(X), **chosen).fit(X, y)
    reference = in_libsvm(model, X, y)
    ours: list[Entrant] = [DualflowPredict(model, reference, Z, name) for name in ("float64", "float32")]
    return [ours[0], LibsvmPredict(reference, Z), ours[1], IntelexPredict(X, y, 1.0, data.scale_gamma(X), Z)]


def cases(options: argparse.Namespace) -> list[Case]:
    n, rows = (1000, 4000) if options.quick else (4000, 20000)
    return [
        Case(f"{name} n={n} rows={rows}", build, {"data_set": name, "n": n, "rows": rows, "solver": options.solver})
        for name in data.NAMES
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    verdicts = []
    for precision, least, most in (("float64", 10.0, 1e-10), ("float32", 20.0, 1e-4)):
        ours = f"dualflow {precision}"
        verdicts += against(rows, ours, PEER, f"predict in {precision}", least=least)
        figures = [(r.case.name, r.columns.get("relative_difference", np.inf)) for r in rows if r.entrant == ours]
        verdicts.append(each("must", f"predict in {precision}", "relative difference", figures, "<=", most))
        found = cells(rows, ours, PEER, 2 if JUDGED_THREADS == 1 else 1)
        verdicts.append(each_at_least(found, least, f"predict in {precision}, 2 BLAS threads", kind="shown"))
        verdicts += against(rows, ours, INTELEX, f"predict in {precision} against intelex", mean=1.0, kind="shown")
    return verdicts


if __name__ == "__main__":
    sys.exit(main("classical/prediction", __doc__, cases, judge, "solver"))
