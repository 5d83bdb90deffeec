"""Claim: a cascade on two dask workers of 3 GB certifies n = 200 000, as accurate as one process, ≤ 20 % dearer.

make_classification (20 features, class_sep=1, flip_y=0.01; 220 000 rows are drawn, of which the last 20 000 test) and
MNIST's ones and fours with shifts by up to two pixels, in a memory map of bytes; C = 1, gamma="scale", 8 parts.
Certified relative gap ≤ 1e-3, accuracy beside `SVC` on all rows in one process, each worker's peak memory, bytes moved
a round in units of the survivors' own (rows × features × 8 bytes). Overhead is what the cascade on two workers takes
beyond the same cascade in this process (the same parts, by two threads), on the wall and in processor time, that of
all processes together; the workers have imported the package before, and what starting them takes is a column. Where
others are at work the wall says nothing, and processor time has what dask's processes take while they wait for a turn.

At n = 50 000 a worker is killed while parts are worked on, then both, one after the other: the model must be the same
to the bit. Fits of other sizes are rows for docs/explanation/scaling.md. ``waiting_cpu_s`` is what the cluster's
processes took in five seconds without work, times the wall of the fit over five: dask's clocks, of which a busy machine
makes many.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import resource
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from threadpoolctl import threadpool_limits

from benchmarks.lib.claims import Claims, Rows, conclude
from benchmarks.lib.command import chosen, command_line
from benchmarks.lib.data import load_mnist_part
from dualflow import SVC, CascadeSVC
from dualflow.cascade.run import Cascade

TITLE = "classical/cascade"
DRAWN, TESTED, PARTS, WORKERS, MEMORY = 220_000, 20_000, 8, 2, "3GB"
GAP, POINTS, LIMIT_MB, MOVED, OVERHEAD = 1e-3, 0.1, 3000.0, 3.0, 20.0
SIZES, LARGE, KILLED = (12_500, 25_000, 50_000, 100_000), 200_000, 50_000
QUICK = (5_000, 10_000)
#: Seconds for which the cluster is watched before it has anything to do.
AT_REST = 5.0
#: Pixels down and right.
SHIFTS = [(down, right) for down in range(-2, 3) for right in range(-2, 3)]


@dataclass(frozen=True)
class Data:
    """Rows to fit, of which any number of the first may be taken, and rows to test."""

    X: NDArray
    y: NDArray
    Z: NDArray
    truth: NDArray


def classification(folder: str | None, room: Path) -> Data:
    X, y = make_classification(DRAWN, 20, class_sep=1, flip_y=0.01, random_state=0)
    return Data(X[:-TESTED], y[:-TESTED], X[-TESTED:], y[-TESTED:])


def mnist(folder: str | None, room: Path) -> Data:
    """Every image once, in chance's order, then shifts of chance; in a file, as bytes."""
    images, digits = load_mnist_part("train", folder)
    kept = np.isin(digits, (1, 4))
    images, digits, rng = images[kept], digits[kept], np.random.default_rng(0)
    which = np.concatenate([rng.permutation(len(images)) for _ in SHIFTS])[:LARGE]
    shift = np.where(np.arange(len(which)) < len(images), len(SHIFTS) // 2, rng.integers(0, len(SHIFTS), len(which)))
    X = np.lib.format.open_memmap(room / "X.npy", "w+", np.uint8, (len(which), 784))
    for number, by in enumerate(SHIFTS):
        rows = np.flatnonzero(shift == number)
        X[rows] = np.roll(images[which[rows]], by, axis=(1, 2)).reshape(len(rows), -1)
    X.flush()
    test, truth = load_mnist_part("test", folder)
    kept = np.isin(truth, (1, 4))
    return Data(np.load(room / "X.npy", mmap_mode="r"), digits[which], test[kept].reshape(-1, 784), truth[kept])


SETS: dict[str, Callable[[str | None, Path], Data]] = {"classification": classification, "mnist": mnist}


def processor_s() -> dict[str, float]:
    """Seconds of this process, and of all that it began: those at work, and those that are gone."""
    import psutil

    gone, others = resource.getrusage(resource.RUSAGE_CHILDREN), 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            others += sum(child.cpu_times()[:2])
        except psutil.Error:
            continue
    return {"client": time.process_time(), "workers": others + gone.ru_utime + gone.ru_stime}


def own_peak_mb() -> float:
    """Most memory this process has had, in MB. `ru_maxrss` would begin with that of the process it was forked from."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1e3


@contextmanager
def solving() -> Iterator[list[float]]:
    """Processor seconds of this process in the pool's own problems, one a round; on dask a worker solves them."""
    spent: list[float] = []
    real = Cascade._solve_pool

    def timed(*arguments: Any) -> Any:
        began = time.process_time()
        found = real(*arguments)
        spent.append(time.process_time() - began)
        return found

    Cascade._solve_pool = timed  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        Cascade._solve_pool = real  # type: ignore[method-assign]


@contextmanager
def cluster() -> Iterator[tuple[Any, float]]:
    """A client of two worker processes that know the package, and the seconds that took."""
    import distributed

    began = time.perf_counter()
    address = {"host": "127.0.0.1", "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(n_workers=WORKERS, threads_per_worker=1, memory_limit=MEMORY, **address) as local,
        distributed.Client(local) as client,
    ):
        client.wait_for_workers(WORKERS)
        client.run(lambda: __import__("dualflow.cascade.tasks") and None)
        yield client, time.perf_counter() - began


def kill(pids: list[int], after: float, died: list[int]) -> None:
    """End so many workers, one after the other."""
    for pid in pids:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
        died.append(pid)


def fit(data: Data, n: int, table: Rows, name: str, how: str, parts: int = PARTS, kills: int = 0) -> Any:
    """A cascade's row; ``how`` is "in process" or "dask"."""
    died: list[int] = []
    seen: list[Any] = []
    with threadpool_limits(WORKERS, "blas"):
        if how == "dask":
            with cluster() as (client, started):
                killers: list[threading.Thread] = []

                def told(row: Any) -> None:
                    seen.append(row)
                    if kills and len(seen) == 1:  # parts are held against the second answer soon
                        pids = list(client.run(os.getpid).values())[:kills]
                        killers.append(threading.Thread(target=kill, args=(pids, 0.5, died)))
                        killers[0].start()

                before = processor_s()
                time.sleep(AT_REST)
                rest = sum(processor_s().values()) - sum(before.values())
                model, spent = timed(data, n, parts, client, told)
                for killer in killers:
                    killer.join()
                peak = client.run(own_peak_mb)
            spent |= {"start_s": started, "worker_mb": max(peak.values())}
            spent["waiting_cpu_s"] = rest / AT_REST * spent["wall_s"]
        else:
            model, spent = timed(data, n, parts, None, seen.append)
    size = 8 * data.X.shape[1]
    moved = [(row.sent + row.received) / (row.survivors * size) for row in seen]
    table.add(
        name,
        n=n,
        parts=parts,
        how=how,
        killed=len(died),
        gap=model.certificate_.relative_gap,
        accuracy=100 * float(model.score(data.Z, data.truth)),
        support_vectors=len(model.support_),
        rounds=len(seen),
        first_points=seen[0].points,
        sweeps=float(sum(row.survivors for row in seen)) * n * data.X.shape[1],
        solves=float(sum(row.points * row.survivors for row in seen)) * data.X.shape[1],
        moved_first=moved[0],
        moved_most=max(moved),
        moved_mb=sum(row.sent + row.received for row in seen) / 1e6,
        **spent,
    )
    return model, table.lines[-1]


def timed(
    data: Data, n: int, parts: int, engine: Any, told: Callable[[Any], Any]
) -> tuple[CascadeSVC, dict[str, float]]:
    """A fitted cascade, and what it took."""
    model = CascadeSVC(engine=engine, partitions=parts, random_state=0, callback=lambda row: bool(told(row)))
    before, began = processor_s(), time.perf_counter()
    with solving() as alone:
        model.fit(data.X[:n], data.y[:n])
    wall, after = time.perf_counter() - began, processor_s()
    spent = {f"{who}_cpu_s": after[who] - before[who] for who in after}
    return model, {
        "wall_s": wall,
        "cpu_s": sum(spent.values()),
        **spent,
        "solve_cpu_s": sum(alone),
        "waiting_cpu_s": 0.0,
        "start_s": 0.0,
        "worker_mb": float("nan"),
    }


def alone(data: Data, n: int, table: Rows, name: str) -> dict[str, Any]:
    """`SVC` on all rows in this process."""
    before, began = processor_s(), time.perf_counter()
    with threadpool_limits(WORKERS, "blas"):
        model = SVC(tol=GAP, refine=False).fit(np.asarray(data.X[:n], dtype=float), data.y[:n])
    wall, after = time.perf_counter() - began, processor_s()
    accuracy, gap = 100 * float(model.score(data.Z, data.truth)), model.solutions_[0].certificate.relative_gap
    spent = {"wall_s": wall, "cpu_s": sum(after.values()) - sum(before.values())}
    return table.add(name, n=n, how="SVC", gap=gap, accuracy=accuracy, support_vectors=len(model.support_), **spent)


def judge(claims: Claims, case: str, whole: dict[str, Any], here: dict[str, Any], there: dict[str, Any]) -> None:
    """The musts of one size of one set."""
    off = abs(there["accuracy"] - whole["accuracy"])
    claims.say("cascade on dask", "certified relative gap", case, there["gap"], "<=", GAP)
    claims.say("cascade on dask", "accuracy off SVC's", case, off, "<=", POINTS, "points")
    claims.say("cascade on dask", "a worker's peak memory", case, there["worker_mb"], "<=", LIMIT_MB, "MB")
    claims.say("cascade on dask", "moved a round, in survivors", case, there["moved_most"], "<=", MOVED, "×")
    for measure, name in (("on the wall", "wall_s"), ("in processor time", "cpu_s")):
        overhead = 100 * (there[name] / here[name] - 1)
        claims.say("cascade on dask", f"overhead {measure}", case, overhead, "<=", OVERHEAD, "%")
    less = 100 * ((there["cpu_s"] - there["waiting_cpu_s"]) / here["cpu_s"] - 1)
    what = "overhead in processor time, less what waiting takes"
    claims.say("cascade on dask", what, case, less, "<=", OVERHEAD, "%", kind="shown")


def same(one: CascadeSVC, other: CascadeSVC) -> bool:
    """Whether two models are one, to the bit."""
    names = ("support_", "dual_coef_", "intercept_")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def run(options: argparse.Namespace, table: Rows, claims: Claims, room: Path) -> None:
    sizes, killed = (QUICK, QUICK[-1]) if options.quick else ((*SIZES, LARGE), KILLED)
    sizes = tuple(options.sizes) if options.sizes else sizes
    for name, load in SETS.items():
        if not chosen(name, options.only) or (options.quick and name == "mnist" and not options.only):
            continue
        data = load(options.data, room)
        for n in sizes:
            case = f"{name} n={n}"
            model, here = fit(data, n, table, f"{case}, in process", "in process")
            if n in (killed, sizes[-1]):
                whole = alone(data, n, table, f"{case}, SVC") if n == sizes[-1] else None
                other, there = fit(data, n, table, f"{case}, dask", "dask")
                claims.say("dask and in process", "models that differ", case, not same(model, other), "<=", 0)
                if whole:
                    judge(claims, case, whole, here, there)
            for kills in (1, 2) if n == killed else ():
                other, hurt = fit(data, n, table, f"{case}, {kills} killed", "dask", kills=kills)
                what = f"{kills} of {WORKERS} workers killed"
                claims.say(what, "models that differ", case, not same(model, other), "<=", 0)
                claims.say(what, "workers that died", case, hurt["killed"], ">=", kills)
                more = 100 * (hurt["cpu_s"] / there["cpu_s"] - 1)
                claims.say(what, "processor time beyond an undisturbed fit's", case, more, "<=", 100, "%", kind="shown")


def main() -> int:
    def extra(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="rows, rather than those of the claim")

    options = command_line(__doc__, "only", "data", extra=extra)
    shown = ("gap", "accuracy", "support_vectors", "wall_s", "cpu_s")
    table, claims = Rows(f"{TITLE}_rows", options, shown), Claims()
    with tempfile.TemporaryDirectory() as folder:
        run(options, table, claims, Path(folder))
    return conclude(TITLE, claims.verdicts(), options)


if __name__ == "__main__":
    sys.exit(main())
