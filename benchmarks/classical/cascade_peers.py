"""Claim: of fits over parts `CascadeSVC` alone knows its gap, as a judge of all rows finds it, as accurate as `SVC`.

make_classification as in `classical/cascade` (20 features, flip_y=0.01), n = 20 000 in 8 parts, C = 1, gamma="scale",
20 000 rows to test. Beside `SVC` on all rows: a loop after dislib's ``CascadeSVM`` (arity 2, at most 5 iterations, an
end at a change of the objective by 1e-3, LIBSVM for each node), scikit-learn's Bagging of 8 `SVC` of an eighth of the
rows each, `Nystroem` of 300 points with `LinearSVC` and with `PartitionedLinearSVC`, and, where it is installed,
dask-ml's `Incremental` of `SGDClassifier` on the same points. Processor time: one fit, one thread, in this process.
The gap that a judge finds is (P − D)/|P| over all rows, of the model's own α and bias; a model of another kernel, or of
many machines, has none for this problem.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import svm
from sklearn.ensemble import BaggingClassifier
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

from benchmarks.classical.cascade import classification
from benchmarks.lib.claims import Claims, Rows, conclude
from benchmarks.lib.command import command_line
from dualflow import SVC, CascadeSVC, PartitionedLinearSVC

TITLE = "classical/cascade_peers"
N, QUICK, PARTS, LANDMARKS, SEED = 20_000, 2000, 8, 300, 0
#: Relative gap that the cascade certifies, and points of accuracy that it may be off `SVC`.
GAP, POINTS = 1e-3, 0.1
#: dislib's end: relative change of the objective, and iterations.
DISLIB_TOL, DISLIB_ITERATIONS = 1e-3, 5
#: Rows of a block of the judge.
BLOCK = 2000


def dislib(X: NDArray, y: NDArray, gamma: float) -> Any:
    """A loop after dislib's: parts with the last support vectors, then pairs of nodes, until the objective stays."""
    parts, last, back = np.array_split(np.arange(len(X)), PARTS), None, np.empty(0, dtype=int)

    def node(rows: NDArray) -> tuple[Any, NDArray]:
        rows = np.unique(rows)
        model = svm.SVC(C=1.0, gamma=gamma).fit(X[rows], y[rows])
        return model, rows[model.support_]

    for _ in range(DISLIB_ITERATIONS):
        level = [node(np.concatenate([rows, back])) for rows in parts]
        while len(level) > 1:
            level = [
                node(np.concatenate([rows for _, rows in pair])) for pair in zip(level[::2], level[1::2], strict=True)
            ]
        ((model, back),) = level
        values = model.decision_function(X[back]) - model.intercept_[0]
        objective = 0.5 * float(model.dual_coef_[0] @ values) - float(np.abs(model.dual_coef_).sum())
        if last is not None and abs((objective - last) / last) < DISLIB_TOL:
            break
        last = objective
    return model


def judged(model: Any, X: NDArray, y: NDArray) -> float:
    """(P − D)/|P| over all rows of a model's α and bias."""
    values = np.concatenate([model.decision_function(X[k : k + BLOCK]) for k in range(0, len(X), BLOCK)])
    own = model.decision_function(model.support_vectors_) - model.intercept_[0]
    square = float(model.dual_coef_[0] @ own)
    primal = 0.5 * square + float(np.maximum(0.0, 1.0 - np.where(y == 1, values, -values)).sum())
    return (primal + 0.5 * square - float(np.abs(model.dual_coef_).sum())) / abs(primal)


def incremental() -> Any:
    """dask-ml's wrapper of a linear model that learns chunk by chunk, after the same points; None without dask-ml."""
    try:
        from dask_ml.wrappers import Incremental
    except ImportError:
        return None
    return Incremental(SGDClassifier(loss="hinge", alpha=1.0 / N, random_state=SEED))


def in_chunks(X: NDArray, y: NDArray, points: Nystroem) -> Any:
    """A fit of `incremental` on dask arrays of the parts."""
    import dask.array

    model, rows = incremental(), -(-len(X) // PARTS)
    features = points.fit(X).transform(X)
    chunked = dask.array.from_array(features, chunks=(rows, features.shape[1]))
    model.fit(chunked, dask.array.from_array(y, chunks=rows), classes=[0, 1])
    return make_pipeline(points, model.estimator_)


def main() -> int:
    options = command_line(__doc__)
    n = QUICK if options.quick else N
    data = classification(None, Path())
    X, y = data.X[:n], data.y[:n]
    gamma = 1.0 / (X.shape[1] * X.var())
    given: dict[str, Any] = {"partitions": PARTS, "random_state": SEED}

    def points() -> Nystroem:
        return Nystroem(gamma=gamma, n_components=LANDMARKS, random_state=SEED)

    bagging = BaggingClassifier(svm.SVC(gamma=gamma), PARTS, max_samples=1 / PARTS, random_state=SEED)
    ways: dict[str, Callable[[], Any]] = {
        "SVC, all rows": lambda: SVC(gamma=gamma, tol=GAP).fit(X, y),
        "CascadeSVC": lambda: CascadeSVC(gamma=gamma, tol=GAP, **given).fit(X, y),
        "dislib's loop": lambda: dislib(X, y, gamma),
        "Bagging": lambda: bagging.fit(X, y),
        "Nystroem, LinearSVC": lambda: make_pipeline(points(), svm.LinearSVC()).fit(X, y),
        "Nystroem, PartitionedLinearSVC": lambda: make_pipeline(points(), PartitionedLinearSVC(**given)).fit(X, y),
    }
    if incremental() is not None:
        ways["Nystroem, dask-ml's Incremental"] = lambda: in_chunks(X, y, points())
    table, claims = Rows(f"{TITLE}_rows", options, ("accuracy", "certified", "found", "cpu_s")), Claims()
    for way, fit in ways.items():
        began = time.process_time()
        model = fit()
        spent = time.process_time() - began
        last = model[-1] if hasattr(model, "steps") else model
        certified = last.certificate_.relative_gap if hasattr(last, "certificate_") else float("nan")
        found = judged(model, X, y) if hasattr(model, "support_vectors_") else float("nan")
        accuracy = 100 * float(np.mean(model.predict(data.Z) == data.truth))
        table.add(way, n=n, parts=PARTS, accuracy=accuracy, certified=certified, found=found, cpu_s=spent)
    whole, ours = table.lines[:2]
    case = f"n={n}"
    claims.say("CascadeSVC", "gap that a judge finds", case, ours["found"], "<=", ours["certified"] + 1e-9)
    claims.say("CascadeSVC", "certified relative gap", case, ours["certified"], "<=", GAP)
    claims.say(
        "CascadeSVC", "accuracy off SVC's", case, abs(ours["accuracy"] - whole["accuracy"]), "<=", POINTS, "points"
    )
    ratio = ours["cpu_s"] / whole["cpu_s"]
    claims.say("CascadeSVC", "processor time over SVC", case, ratio, "<=", 1.5, kind="stretch")
    return conclude(TITLE, claims.verdicts(), options)


if __name__ == "__main__":
    sys.exit(main())
