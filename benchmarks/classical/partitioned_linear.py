"""Claim: `PartitionedLinearSVC` ends at the objective of `SVC(kernel="linear")` on all rows to 1e-9, at 1.5 × its cost.

Rows are normal, labels the sign of a random direction with noise of twice its size, so that a large share of the rows
are support vectors; C = 1, 50 000 rows a part. Processor time is that of all threads and, on the cluster, of all
processes: the median of alternating fits in this process, and of fits on two dask workers that hold the rows as
persisted arrays, after one fit that is not counted. Dask's processes take time while they wait, on a busy machine much
of it; what they took in five seconds without work, times the wall of the fit over five, is a column, and the ratio
without it is shown. Bytes are those of the largest step; the client's memory is the peak of what a fit allocates there.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import time
import tracemalloc
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.classical.cascade import cluster
from benchmarks.lib.claims import Claims, Rows, conclude
from benchmarks.lib.command import chosen, command_line
from dualflow import SVC, PartitionedLinearSVC

TITLE = "classical/partitioned_linear"
SIZES = ((200_000, 20), (200_000, 50), (2_000_000, 50))
QUICK = ((20_000, 10),)
ROWS, RUNS, SEED = 50_000, 3, 0
#: Relative difference of the objectives; processor time in that of all rows in one place.
OBJECTIVE, RATIO = 1e-9, 1.5
#: What a step may move, and what the client may allocate, in MB, whatever the number of rows.
STEP_MB, CLIENT_MB = 150.0, 600.0
#: Seconds for which the cluster is watched before it has anything to do.
AT_REST = 5.0


def drawn(number: int, n: int, m: int) -> tuple[NDArray, NDArray]:
    """Rows of a part, and labels with much noise."""
    rng, direction = np.random.default_rng((SEED, number)), np.random.default_rng(SEED).standard_normal(m)
    X = rng.standard_normal((n, m))
    return X, (X @ direction + 2.0 * np.linalg.norm(direction) * rng.standard_normal(n) > 0).astype(int)


def timed(model: Any, X: NDArray, y: NDArray) -> tuple[Any, float]:
    """The fitted model, and the processor time of the fit."""
    begun = time.process_time()
    model.fit(X, y)
    return model, time.process_time() - begun


def on_the_cluster(n: int, m: int) -> tuple[Any, dict[str, float]]:
    """The model of two workers, and what it took."""
    import dask
    import dask.array
    import distributed
    import psutil

    def spent(client: Any) -> tuple[float, float]:
        own = sum(psutil.Process().cpu_times()[:2])
        return own, sum(client.run(lambda: sum(__import__("psutil").Process().cpu_times()[:2])).values())

    parts = max(2, n // ROWS)
    size, taken = n // parts, list[dict[str, float]]()
    with cluster() as (client, _):
        made = [dask.delayed(drawn, nout=2)(k, size, m) for k in range(parts)]
        X = dask.array.concatenate([dask.array.from_delayed(one[0], (size, m), float) for one in made])
        y = dask.array.concatenate([dask.array.from_delayed(one[1], (size,), int) for one in made])
        X, y = client.persist([X, y])
        distributed.wait([X, y])
        PartitionedLinearSVC(engine=client, tol=1e-2).fit(X, y)
        before = sum(spent(client))
        time.sleep(AT_REST)
        rest = (sum(spent(client)) - before) / AT_REST
        for _ in range(RUNS):
            before, began = spent(client), time.perf_counter()
            model = PartitionedLinearSVC(engine=client).fit(X, y)
            wall, after = time.perf_counter() - began, spent(client)
            own, all_ = after[0] - before[0], sum(after) - sum(before)
            taken.append({"processor_s": all_, "client_s": own, "waiting_s": rest * wall, "wall_s": wall})
        tracemalloc.start()
        PartitionedLinearSVC(engine=client).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
    medians = {name: statistics.median(one[name] for one in taken) for name in taken[0]}
    return model, medians | {"client_mb": peak}


def judge(claims: Claims, row: dict[str, Any]) -> None:
    """The claims on one row."""
    way, case = row["way"], f"n={row['n']} m={row['m']}"
    if way == "one place":
        return
    claims.say(way, "objective apart", case, row["apart"], "<=", OBJECTIVE)
    claims.say(way, "processor time over one place", case, row["ratio"], "<=", RATIO, kind="stretch")
    if way == "two workers":
        less = row["ratio"] * (1.0 - row["waiting_s"] / row["processor_s"])
        claims.say(way, "the same without waiting", case, less, "<=", RATIO, kind="stretch")
        claims.say(way, "moved in a step", case, row["moved_mb"], "<=", STEP_MB, "MB")
        claims.say(way, "client's memory", case, row["client_mb"], "<=", CLIENT_MB, "MB")


def main() -> int:
    options = command_line(__doc__, "only")
    table, claims = Rows(f"{TITLE}_rows", options), Claims()
    for n, m in QUICK if options.quick else SIZES:
        if not chosen(case := f"n={n} m={m}", options.only):
            continue
        there, spent = on_the_cluster(n, m)
        parts = max(2, n // ROWS)
        X, y = (
            np.concatenate(columns) for columns in zip(*(drawn(k, n // parts, m) for k in range(parts)), strict=True)
        )
        runs: dict[str, list[tuple[Any, float]]] = {"one place": [], "in process": []}
        for _ in range(RUNS):
            runs["one place"].append(timed(SVC(kernel="linear", tol=1e-9), X, y))
            runs["in process"].append(timed(PartitionedLinearSVC(partitions=parts, partitioner="given"), X, y))
        found = {
            way: (of[0][0], {"processor_s": statistics.median(used for _, used in of)}) for way, of in runs.items()
        }
        found["two workers"] = there, spent
        best, alone = found["one place"][0].certificate_.objective, found["one place"][1]["processor_s"]
        for way, (model, used) in found.items():
            certificate, steps = model.certificate_, getattr(model, "rounds_", [])
            apart, ratio = abs(certificate.objective - best) / abs(best), used["processor_s"] / alone
            row: dict[str, Any] = {"way": way, "n": n, "m": m, "parts": parts, "ratio": ratio, "apart": apart}
            row |= {"gap": certificate.relative_gap, "steps": len(steps) or int(np.max(model.n_iter_))}
            row |= {name: used.get(name, "") for name in (*spent, "client_mb")}
            moved = max((step.sent + step.received for step in steps), default=0) / 1e6
            table.add(f"{case} {way}", **row, moved_mb=moved)
            judge(claims, table.lines[-1])
    return conclude(TITLE, claims.verdicts(), options)


if __name__ == "__main__":
    sys.exit(main())
