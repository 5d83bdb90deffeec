"""Claim: 1 000 000 × 50 mapped from a file: certified ≤ 1e-3 in 6 GB and an hour; adult grows no faster than LIBSVM.

Every fit is in a process of its own, which opens X as a memory map; another one made the file. Memory is the peak of
that process (getrusage), its pages of the file among them. Times are processor time of all threads, in which a claim is
judged, and the wall's, which is shown: the hour is the wall's.

The million: make_classification with class_sep = 1, flip_y = 0.01, C = 1, γ = "scale", tol = 1e-3, and 20 000 rows of
the same draw held out. Beside it what a user would take instead: Nyström features (300 and 1000) and `LinearSVC`, or
averaged linear SGD, once over all in parts of 20 000 rows.

Adult: a8a (22 696 × 123) where `--data` has it, else OpenML's adult, one column a category; without either, and in
`--quick`, generated data. Both estimators at their defaults. The exponent is the slope of log(time) over log(n).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import svm
from sklearn.datasets import fetch_openml, make_classification
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

import dualflow
from benchmarks.lib import data, ratios, real
from benchmarks.lib.claims import Rows, Verdict, conclude, each
from benchmarks.lib.command import chosen, command_line

TITLE = "classical/large"
OURS, PEER = "dualflow", "SVC"
HELD_OUT, PART, TOL = 20_000, 20_000, 1e-3
#: Column, what it is called, its unit, and what it may be.
LIMITS = (
    ("relative_gap", "certified relative gap", "", 1e-3),
    ("peak_memory_mb", "peak resident memory", "MB", 6000.0),
    ("wall_s", "time on the wall", "s", 3600.0),
)
SIZES, ADULT = (100_000, 200_000, 400_000, 1_000_000), (2000, 4000, 8000, 16_000)
INSTEAD = ("nystroem 300, LinearSVC", "nystroem 300, SGD", "nystroem 1000, SGD")
#: Growth between neighbouring sizes that would be a cliff: kernel values are n times the support vectors, which both
#: grow as n where classes overlap.
CLIFF = 2.5


def made(folder: Path, name: str, sizes: list[int], where: str | None) -> list[int]:
    """Write the rows of a set, in an order drawn by chance, and those held out; the sizes there are."""
    if name == "generated":
        n, m = sizes[-1], 50 if sizes[-1] > 50_000 else 20
        X, y = make_classification(n + HELD_OUT, n_features=m, class_sep=1, flip_y=0.01, random_state=data.SEED)
    else:
        X, y = real.two_classes("a8a", where) if data.given("a8a", where) else _adult()
        order = np.random.default_rng(data.SEED).permutation(len(X))
        X, y, n = X[order], y[order], len(X)
        sizes = [size for size in sizes if size < n] + [n]
    for part, rows in (("X", slice(n)), ("Z", slice(n, None))):
        np.save(folder / f"{name}_{part}.npy", np.ascontiguousarray(X[rows], dtype=float))
        np.save(folder / f"{name}_{part}_labels.npy", y[rows])
    return sizes


def _adult() -> tuple[NDArray, NDArray]:
    frame = fetch_openml("adult", version=2, as_frame=True).frame
    target = frame.pop("class").astype(str)
    import pandas

    X = pandas.get_dummies(frame).astype(float).to_numpy()
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12), np.where(target.str.startswith(">"), 1.0, -1.0)


def once(folder: str, name: str, entrant: str, n: int, tol: float | None) -> dict[str, Any]:
    """One fit, in this process: what it took, and what came of it."""
    X, y = (np.load(Path(folder, f"{name}_X{end}.npy"), mmap_mode="r")[:n] for end in ("", "_labels"))
    gamma = data.scale_gamma(X) if entrant.startswith("nystroem") else "scale"
    if entrant in (OURS, PEER):
        fitted(entrant, X[:500], np.array(y[:500]), gamma, tol)  # what is loaded and looked for once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cpu, wall = time.process_time(), time.perf_counter()
    model = fitted(entrant, X, np.array(y), gamma, tol)
    found: dict[str, Any] = {"wall_s": time.perf_counter() - wall, "cpu_s": time.process_time() - cpu}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found |= {"peak_memory_mb": peak, "before_mb": before, "relative_gap": None, "support_vectors": None, "free": None}
    if entrant == OURS:
        solution = model.solution_
        free = (solution.alpha > 0) & (solution.alpha < solution.problem.upper)
        found |= {"relative_gap": solution.certificate.relative_gap, "free": int(free.sum())}
    if entrant in (OURS, PEER):
        found["support_vectors"] = len(model.support_)
    Z, t = (np.load(Path(folder, f"{name}_Z{end}.npy"), mmap_mode="r") for end in ("", "_labels"))
    return found | {"accuracy": float(np.mean(model.predict(Z) == t)) if len(Z) else None}


def fitted(entrant: str, X: NDArray, y: NDArray, gamma: Any, tol: float | None) -> Any:
    if entrant == OURS:
        return (dualflow.SVC() if tol is None else dualflow.SVC(tol=tol)).fit(X, y)
    if entrant == PEER:
        return svm.SVC().fit(X, y)
    count, linear = int(entrant.split()[1].strip(",")), entrant.split()[-1]
    features = Nystroem(gamma=gamma, n_components=count, random_state=data.SEED)
    if linear == "LinearSVC":
        return make_pipeline(features, svm.LinearSVC(random_state=data.SEED)).fit(X, y)
    # alpha is 1/(C n): the same problem.
    sgd, rng = SGDClassifier(alpha=1.0 / len(X), average=True, random_state=data.SEED), np.random.default_rng(data.SEED)
    features.fit(X[np.sort(rng.choice(len(X), min(len(X), PART), replace=False))])
    for start in rng.permutation(np.arange(0, len(X), PART)):
        rows = slice(start, start + PART)
        sgd.partial_fit(features.transform(X[rows]), y[rows], classes=np.unique(y))
    return make_pipeline(features, sgd)


def child(threads: int, **what: Any) -> dict[str, Any]:
    """`once`, in a process of its own."""
    line = [sys.executable, "-m", "benchmarks.classical.large", "--once", json.dumps(what)]
    env = os.environ | {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL")}
    done = subprocess.run(line, env=env, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(options: argparse.Namespace, folder: Path, table: Rows) -> None:
    """All fits, a row each; those of an earlier run that `--csv` holds are not done again."""
    sizes, adult = ([2000, 4000], [1000, 2000, 4000]) if options.quick else ([*SIZES], [*ADULT])
    real_one = not options.quick and (options.data or os.environ.get("DUALFLOW_DATA") or options.openml)
    plan: list[tuple[str, str, int, float | None, int]] = []
    for n in sizes:
        plan += [("generated", OURS, n, TOL, 1)]
    plan += [("generated", name, sizes[-1], None, 1) for name in INSTEAD]
    for n in adult if options.quick else [*adult, 10**9]:
        plan += [
            ("adult" if real_one else "generated", name, n, None, k) for name, k in ((OURS, 1), (OURS, 2), (PEER, 1))
        ]
    there: dict[str, list[int]] = {}
    known = {row["case"] for row in table.lines}
    for name, entrant, n, tol, threads in plan:
        wanted = adult if name == "adult" else sorted({*sizes, *adult})
        size = f"n={n}" if n < 10**9 else "whole"
        case = f"{name} {size} {entrant}{'' if tol is None else f' tol={tol:g}'} {threads} thr"
        if not chosen(case, options.only) or case in known:
            continue
        if name not in there:
            line = [sys.executable, "-m", "benchmarks.classical.large", "--once"]
            what = {"folder": str(folder), "name": name, "sizes": wanted, "where": options.data}
            done = subprocess.run([*line, json.dumps(what)], capture_output=True, text=True, check=True)
            there[name] = json.loads(done.stdout.splitlines()[-1])["sizes"]
        rows = min(n, there[name][-1])
        found = child(threads, folder=str(folder), name=name, entrant=entrant, n=rows, tol=tol)
        about = {"data_set": name, "n": rows, "entrant": entrant, "tol": tol, "threads": threads}
        table.add(case, **about, **found)


def judge(lines: list[dict[str, Any]]) -> list[Verdict]:
    rows = [row | {name: _number(row[name]) for name in row if name not in TEXTS} for row in lines]
    mapped = [row for row in rows if row["tol"] == TOL]
    verdicts: list[Verdict] = []
    if mapped:
        verdicts += _of_the_largest(mapped, [row for row in rows if row["entrant"] in INSTEAD])
    usual = [row for row in rows if row["entrant"] in (OURS, PEER) and row["tol"] != TOL]
    return verdicts + (_of_adult(usual) if usual else [])


#: Columns that hold no numbers.
TEXTS = ("case", "data_set", "entrant")


def _number(value: Any) -> float | None:
    return None if value in (None, "") else float(value)


def _of_the_largest(mapped: list[dict[str, Any]], instead: list[dict[str, Any]]) -> list[Verdict]:
    largest = max(mapped, key=lambda row: row["n"])
    who, case = "one process, X mapped", f"n={int(largest['n'])}"
    note = {"wall_s": f"{largest['cpu_s']:.0f} s of the processor"}
    found = [
        Verdict("must", who, measure, largest[name], "<=", most, unit, case, note.get(name, ""))
        for name, measure, unit, most in LIMITS
    ]
    found += [Verdict("shown", who, name, largest[name.replace(" ", "_")], case=case) for name in SHOWN]
    for row in instead:
        text = f"{row['cpu_s']:.0f} s of the processor, {row['peak_memory_mb']:.0f} MB"
        found.append(Verdict("shown", row["entrant"], "accuracy", row["accuracy"], case=case, note=text))
    growth = [_slope(a, b) for a, b in itertools.pairwise(sorted(mapped, key=lambda row: row["n"]))]
    return [*found, each("must", who, "growth between sizes", growth, "<=", CLIFF)] if growth else found


SHOWN = ("support vectors", "free", "accuracy")


def _slope(a: dict[str, Any], b: dict[str, Any]) -> tuple[str, float]:
    return f"n={int(a['n'])} to {int(b['n'])}", float(np.log(b["cpu_s"] / a["cpu_s"]) / np.log(b["n"] / a["n"]))


def _of_adult(rows: list[dict[str, Any]]) -> list[Verdict]:
    verdicts, name = [], rows[0]["data_set"]
    for threads in (1, 2):  # LIBSVM has one
        ours, theirs = (
            {int(row["n"]): row for row in rows if row["entrant"] == who and row["threads"] == count}
            for who, count in ((OURS, threads), (PEER, 1))
        )
        sizes = sorted(ours.keys() & theirs.keys())
        if len(sizes) < 2:
            continue
        who = f"{name}, {threads} thr"
        a, b = (ratios.exponent(sizes, [[of[n]["cpu_s"]] for n in sizes])[0].value for of in (ours, theirs))
        verdicts.append(Verdict("must", who, "exponent", a, "<=", b, note=f"n = {sizes}; asked is LIBSVM's"))
        times = [(f"n={n}", theirs[n]["cpu_s"] / ours[n]["cpu_s"]) for n in sizes]
        verdicts.append(
            each("must", who, "SVC's time over ours", times[-1:], ">=", 1.0, unit="×", note="the whole set")
        )
        verdicts.append(each("shown", who, "SVC's time over ours", times, ">=", 1.0, unit="×"))
        gaps = [(f"n={n}", ours[n]["relative_gap"]) for n in sizes]
        verdicts.append(each("must", who, "relative gap", gaps, "<=", 1e-6))
    return verdicts


def extra(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--openml", action="store_true", help="adult from OpenML, over the network, where no a8a is given"
    )
    parser.add_argument("--once", metavar="JSON", help="one fit, or one file, in this process: what others call")


def main() -> int:
    options = command_line(__doc__, "only", "data", extra=extra)
    if options.once:
        what = json.loads(options.once)
        if "sizes" in what:
            what["folder"] = Path(what["folder"])
        print(json.dumps({"sizes": made(**what)} if "sizes" in what else once(**what)))
        return 0
    table = Rows(f"{TITLE}_rows", options, ("cpu_s", "wall_s", "peak_memory_mb", "relative_gap", "accuracy"))
    table.resume()
    with tempfile.TemporaryDirectory() as folder:
        run(options, Path(folder), table)
    return conclude(TITLE, judge(table.lines), options)


if __name__ == "__main__":
    sys.exit(main())
