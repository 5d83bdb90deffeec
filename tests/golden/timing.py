"""Times of one tree against another, and of the ways to a fit of one tree among themselves.

    python -m tests.golden.timing --old PATH_TO_OLD_SRC [--quick] [--only TEXT]

Two processes, one a tree, take turns at each problem and way: processor time, medians, one thread. 96 problems (moons,
classification, blobs; 100 to 8000 points; 2 to 150 features; C = 1, 30, 1000) by five ways, and the four wide ones on
which a wrong first guess was once five times too slow.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before numpy is imported

#: How often a way is timed by each tree in turn: more often where it takes less time, in seconds.
TURNS, SLOW_TURNS, SLOW_S = 7, 3, 0.3
#: Shortest time of a measurement, in seconds: quicker fits are repeated.
LEAST_S = 0.004

WAYS = ("SVC()", "SVC(solver='working-set')", "SVC(solver=WorkingSet())", "SVC(callback=...)", "solve(refine=True)")
#: The way that the others are compared with.
FIRST = WAYS[0]


def grid() -> Iterator[tuple[str, int, int, float]]:
    """The 96 problems: name, points, features, C."""
    shapes = [("moons", n, 2) for n in (100, 300, 600, 1000, 2000, 4000, 6000, 8000)]
    shapes += [("classification", n, m) for n, m in ((100, 10), (300, 20), (600, 10), (600, 100), (1000, 20))]
    shapes += [("classification", n, m) for n, m in ((1000, 60), (1500, 40), (2000, 10), (2000, 80), (3000, 20))]
    shapes += [("classification", n, m) for n, m in ((3000, 150), (4000, 40), (5000, 10), (6000, 10))]
    shapes += [("blobs", n, m) for n, m in ((100, 10), (300, 10), (600, 30), (1000, 10), (1500, 60), (2000, 30))]
    shapes += [("blobs", n, m) for n, m in ((3000, 10), (4000, 100), (6000, 10), (8000, 10))]
    for name, n, m in shapes:
        for C in (1.0, 30.0, 1000.0):
            yield name, n, m, C


def wide() -> Iterator[tuple[str, int, int, float]]:
    """Problems of many features of which half are informative."""
    for n, m in ((3000, 150), (2500, 120), (3500, 90), (3000, 200)):
        yield "classification", n, m, 1.0


class Worker:
    """A process that times the ways of one tree."""

    def __init__(self, source: Path) -> None:
        pipe = subprocess.PIPE
        command = [sys.executable, __file__, "--serve", str(source)]
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def seconds(self, problem: tuple[str, int, int, float], way: str) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([*problem, way]), file=self.process.stdin, flush=True)
        return float(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def serve(source: str) -> None:
    """Answer lines of problem and way with the seconds that it took of this tree, until there are no more."""
    import time
    import warnings

    import sklearn.svm
    from sklearn.datasets import make_blobs, make_classification, make_moons

    sys.path.insert(0, source)
    import dualflow
    from dualflow import SVC, Gram, WorkingSet, problems, solve

    assert dualflow.__file__.startswith(source), dualflow.__file__
    known: dict[Any, Any] = {}

    def set_of(name: str, n: int, m: int) -> Any:
        if name == "moons":
            return make_moons(n, noise=0.25, random_state=0)
        if name == "blobs":
            return make_blobs(n, m, centers=2, cluster_std=6.0, random_state=0)
        return make_classification(n, m, n_informative=m // 2, n_redundant=0, flip_y=0.05, random_state=0)

    def call_of(name: str, n: int, m: int, C: float, way: str) -> Any:
        X, y = known.setdefault((name, n, m), set_of(name, n, m))
        if way == WAYS[-1]:
            problem = problems.svc(Gram(X), 2.0 * y - 1.0, C)
            return lambda: solve(problem, "working-set", refine=True)
        if way == "scikit-learn":
            return lambda: sklearn.svm.SVC(C=C).fit(X, y)
        more: dict[str, Any] = {
            WAYS[0]: {},
            WAYS[1]: {"solver": "working-set"},
            WAYS[2]: {"solver": WorkingSet()},
            WAYS[3]: {"callback": lambda progress: False},
        }[way]
        return lambda: SVC(C=C, **more).fit(X, y)

    warnings.simplefilter("ignore")
    for line in sys.stdin:
        call = call_of(*json.loads(line))
        count, begun = 0, time.process_time()
        while not count or time.process_time() - begun < LEAST_S:
            call()
            count += 1
        print((time.process_time() - begun) / count, flush=True)


def medians(workers: list[Worker], problem: Any, ways: tuple[str, ...]) -> dict[tuple[int, str], float]:
    """Median seconds of each tree and way, taken in turns."""
    found: dict[tuple[int, str], list[float]] = {(k, way): [] for k in range(len(workers)) for way in ways}
    for place in found:
        workers[place[0]].seconds(problem, place[1])  # data, caches
    turns = TURNS
    for turn in range(TURNS):
        if turn == turns:
            break
        for k, way in found:
            found[k, way].append(workers[k].seconds(problem, way))
        if max(row[-1] for row in found.values()) > SLOW_S:
            turns = SLOW_TURNS
    return {place: statistics.median(row) for place, row in found.items()}


def mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.timing", description=__doc__)
    parser.add_argument("--old", type=Path, help="the src folder of the tree to compare with")
    parser.add_argument("--quick", action="store_true", help="every fourth problem only")
    parser.add_argument("--only", default="", metavar="TEXT", help="only problems whose names contain it")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    new = Path(__file__).resolve().parents[2] / "src"
    workers = [Worker(new)] + ([Worker(options.old.resolve())] if options.old else [])
    against: dict[str, list[float]] = {way: [] for way in WAYS[1:]}
    before: dict[str, list[float]] = {way: [] for way in WAYS}
    chosen = [problem for problem in grid() if options.only in str(problem)][:: 4 if options.quick else 1]
    for problem in chosen:
        took = medians(workers, problem, WAYS)
        row = [f"{took[0, way] / took[0, FIRST]:5.2f}" for way in WAYS[1:]]
        for way in WAYS[1:]:
            against[way].append(took[0, way] / took[0, FIRST])
        if options.old:
            row += ["|", *(f"{took[1, way] / took[0, way]:5.2f}" for way in WAYS)]
            for way in WAYS:
                before[way].append(took[1, way] / took[0, way])
        print(*problem, f"{1e3 * took[0, FIRST]:.2f} ms", *row, flush=True)
    for way, ratios in against.items():
        if ratios:
            print(f"{way} against {FIRST}: mean {mean(ratios):.3f}, worst {max(ratios):.2f}")
    for way, ratios in before.items():
        if ratios:
            print(f"{way}, old over new: mean {mean(ratios):.3f}, worst {min(ratios):.2f}")
    for problem in wide():
        if options.only in str(problem):
            took = medians(workers, problem, (FIRST, WAYS[2], "scikit-learn"))
            row = [f"{took[k, 'scikit-learn'] / took[k, FIRST]:.2f}" for k in range(len(workers))]
            print("wide", *problem, f"{1e3 * took[0, FIRST]:.0f} ms, scikit-learn over new and old:", *row, flush=True)
    for worker in workers:
        worker.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
