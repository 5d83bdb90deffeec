"""Claim: `PartitionedLinearSVC` ends at the objective of `SVC(kernel="linear")` on all rows to 1e-9, by sums of parts.

Rows are normal, labels the sign of a random direction with noise of twice its size, so that a large share of the rows
are support vectors; C = 1, eight parts. Processor time is that of all threads and, on the cluster, of all processes:
the median of alternating fits in this process, and one fit on two dask workers after another that is not counted. Parts
"in a file" are rows of a memory map. Bytes are those that parts send in a step, in units of their Gram matrices.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.classical.cascade import cluster
from benchmarks.lib.claims import Claims, Rows, conclude
from benchmarks.lib.command import chosen, command_line
from dualflow import SVC, PartitionedLinearSVC

TITLE = "classical/partitioned_linear"
SIZES = ((50_000, 20), (200_000, 20), (200_000, 50))
QUICK = ((10_000, 10),)
PARTS, RUNS, SEED = 8, 3, 0
#: Relative difference of the objectives; bytes in Gram matrices; processor time in that of all rows in one place.
OBJECTIVE, GRAMS, RATIO = 1e-9, 2.0, 1.5


def drawn(n: int, m: int) -> tuple[NDArray, NDArray]:
    """Rows, and labels with much noise."""
    rng = np.random.default_rng(SEED)
    X, direction = rng.standard_normal((n, m)), rng.standard_normal(m)
    return X, (X @ direction + 2.0 * np.linalg.norm(direction) * rng.standard_normal(n) > 0).astype(int)


def timed(model: Any, X: NDArray, y: NDArray) -> tuple[Any, float]:
    """The fitted model, and the processor time of the fit."""
    begun = time.process_time()
    model.fit(X, y)
    return model, time.process_time() - begun


def on_the_cluster(X: NDArray, y: NDArray) -> tuple[Any, float, float]:
    """The model of two workers, the processor time of all processes, and that of this one."""
    import psutil

    def spent(client: Any) -> float:
        own = sum(psutil.Process().cpu_times()[:2])
        return float(own + sum(client.run(lambda: sum(__import__("psutil").Process().cpu_times()[:2])).values()))

    with cluster() as (client, _):
        parts = {"engine": client, "partitions": PARTS, "partitioner": "given"}
        PartitionedLinearSVC(**parts, tol=1e-2).fit(X, y)
        before, own = spent(client), time.process_time()
        model = PartitionedLinearSVC(**parts).fit(X, y)
        return model, spent(client) - before, time.process_time() - own


def main() -> int:
    options = command_line(__doc__, "only")
    table, claims = Rows(f"{TITLE}_rows", options), Claims()
    for n, m in QUICK if options.quick else SIZES:
        if not chosen(case := f"n={n} m={m}", options.only):
            continue
        X, y = drawn(n, m)
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "X.npy", X)
            mapped = np.load(Path(folder) / "X.npy", mmap_mode="r")
            parts = {"partitions": PARTS, "partitioner": "given"}
            runs: dict[str, list[tuple[Any, float]]] = {"one place": [], "in memory": [], "in a file": []}
            for _ in range(RUNS):
                runs["one place"].append(timed(SVC(kernel="linear", tol=1e-9), X, y))
                runs["in memory"].append(timed(PartitionedLinearSVC(**parts), X, y))
                runs["in a file"].append(timed(PartitionedLinearSVC(**parts), mapped, y))
            found = {way: (of[0][0], statistics.median(used for _, used in of)) for way, of in runs.items()}
            model, used, client = on_the_cluster(mapped, y)
            found["two workers"] = (model, used)
        best, alone = found["one place"][0].certificate_.objective, found["one place"][1]
        for way, (model, used) in found.items():
            certificate = model.certificate_
            apart = abs(certificate.objective - best) / abs(best)
            row: dict[str, Any] = {"way": way, "n": n, "m": m, "processor_s": used, "ratio": used / alone}
            row |= {"gap": certificate.relative_gap, "apart": apart, "steps": int(np.max(model.n_iter_))}
            row |= {"client_s": client if way == "two workers" else "", "sent": "", "received": ""}
            if way == "two workers":
                row |= {"sent": model.rounds_[-1].sent, "received": model.rounds_[-1].received}
                grams = model.rounds_[-1].received / (PARTS * (m + 1) ** 2 * 8)
                claims.say("two workers", "bytes a step, in Gram matrices", case, grams, "<=", GRAMS)
            table.add(f"{case} {way}", **row)
            if way != "one place":
                claims.say(way, "objective apart", case, apart, "<=", OBJECTIVE)
                claims.say(way, "processor time over one place", case, used / alone, "<=", RATIO, kind="stretch")
    return conclude(TITLE, claims.verdicts(), options)


if __name__ == "__main__":
    sys.exit(main())
