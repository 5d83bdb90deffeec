"""Claim: on data drawn from a declared space, our estimators are as fast as the faster peer in 98 of 100 cells.

A cell is an estimator (SVC, SVC of five classes, SVR, OneClassSVM), a kernel, a kind of data, n, d and C, drawn at
random: n from 50 to 30 000 and d from 1 to 5000 on logarithmic scales, n·d at most three million, C from 0.01 to 1e4.
The kinds are clusters, classification, grids, bits, one-hot, rare, heavy tails, noise, near-duplicates, text and scales
apart. Peers are scikit-learn and scikit-learn-intelex with the same kernel, at their default tolerances; LinearSVC,
LinearSVR and, where it is installed, rehline are shown for linear kernels. liquidSVM and TorchKM search grids of
values, which liquidsvm.py and cv_torchkm.py compare. Each fit is made in a forked process of its own, on one thread,
and its time is the processor's; a fit that passes the limit counts as the limit. A fit below a second is the median of
three. Ours is certified: to 1e-9 up to 16 384 points, to its tolerance beyond.
"""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn import svm
from sklearn.datasets import make_blobs, make_classification
from threadpoolctl import threadpool_limits

import dualflow
from benchmarks.lib.claims import Rows, Verdict, conclude, each
from benchmarks.lib.command import chosen, command_line

TITLE = "classical/ground"
CELLS, QUICK_CELLS = 200, 6
#: Seconds of processor time after which a fit is ended.
LIMIT_S = 60.0
#: A fit that takes less than so many seconds is made so many times.
SHORT_S, REPEATS = 1.0, 3
MIN_POINTS, MAX_POINTS = 50, 30_000
MAX_FEATURES, MAX_NUMBERS = 5000, 3_000_000
#: The largest n that is certified to `GAP`; beyond, to the solver's tolerance.
MAX_SHARP, GAP, TOL = 16_384, 1e-9, 1e-6
CACHE_MB = 2000
ESTIMATORS = ("SVC", "SVC five classes", "SVR", "OneClassSVM")
#: The first two have the same kernels; the others are shown.
PEERS = ("scikit-learn", "intelex", "liblinear", "rehline")
#: With how often each is drawn.
KERNELS = {"rbf": 0.6, "linear": 0.25, "poly": 0.15}


class Cell(NamedTuple):
    """What is fitted."""

    estimator: str
    kernel: str
    kind: str
    n: int
    d: int
    C: float

    def __str__(self) -> str:
        return f"{self.estimator} {self.kernel} {self.kind} n={self.n} d={self.d} C={self.C:g}"


Points = Callable[[np.random.Generator, int, int], Any]


def _classification(rng: np.random.Generator, n: int, d: int) -> NDArray:
    informative = max(2, min(d, 20) // 2)
    given = {"n_informative": informative, "n_redundant": 0, "n_classes": 2, "random_state": int(rng.integers(1 << 30))}
    X: NDArray = make_classification(n, max(d, 2), **given)[0]
    return X


def _near_duplicates(rng: np.random.Generator, n: int, d: int) -> NDArray:
    places = rng.standard_normal((max(2, n // 20), d))
    X: NDArray = places[rng.integers(len(places), size=n)] + 1e-6 * rng.standard_normal((n, d))
    return X


def _one_hot(rng: np.random.Generator, n: int, d: int) -> NDArray:
    X = np.zeros((n, d))
    for start in range(0, d, 8):  # columns of eight levels each
        width = min(8, d - start)
        X[np.arange(n), start + rng.integers(width, size=n)] = 1.0
    return X


def _text(rng: np.random.Generator, n: int, d: int) -> Any:
    return scipy.sparse.random_array((n, d), density=min(1.0, 30 / d), format="csr", random_state=rng)


KINDS: dict[str, Points] = {
    "clusters": lambda rng, n, d: make_blobs(n, d, centers=8, random_state=int(rng.integers(1 << 30)))[0],
    "classification": _classification,
    "grids": lambda rng, n, d: rng.integers(0, 12, size=(n, d)).astype(float),
    "bits": lambda rng, n, d: rng.integers(0, 2, size=(n, d)).astype(float),
    "one-hot": _one_hot,
    "rare": lambda rng, n, d: rng.standard_normal((n, d)),
    "heavy tails": lambda rng, n, d: rng.standard_t(2, size=(n, d)),
    "noise": lambda rng, n, d: rng.standard_normal((n, d)),
    "near-duplicates": _near_duplicates,
    "text": _text,
    "scales apart": lambda rng, n, d: rng.standard_normal((n, d)) * 10.0 ** rng.uniform(-3, 3, d),
}


def drawn(seed: int, cells: int) -> list[Cell]:
    """So many cells."""
    rng, found = np.random.default_rng(seed), []
    while len(found) < cells:
        n = int(np.exp(rng.uniform(np.log(MIN_POINTS), np.log(MAX_POINTS))))
        d = int(np.exp(rng.uniform(0.0, np.log(MAX_FEATURES))))
        if n * d > MAX_NUMBERS:
            continue
        kernel = str(rng.choice(list(KERNELS), p=list(KERNELS.values())))
        kind = str(rng.choice(list(KINDS)))
        found.append(Cell(str(rng.choice(ESTIMATORS)), kernel, kind, n, d, float(10.0 ** rng.integers(-2, 5))))
    return found


def data_of(cell: Cell, seed: int) -> tuple[Any, NDArray | None]:
    """Points and targets: of two or five classes by a smooth score with noise, of which 2 % are of the rare class; of
    noise, targets that have nothing to do with the points."""
    rng = np.random.default_rng(seed)
    X = KINDS[cell.kind](rng, cell.n, cell.d)
    if cell.estimator == "OneClassSVM":
        return X, None
    score = np.asarray(X @ rng.standard_normal(X.shape[1])).ravel()
    score = (score - score.mean()) / (score.std() or 1.0)
    score = np.sin(2.0 * score) + score + 0.5 * rng.standard_normal(cell.n)
    if cell.kind == "noise":
        score = rng.standard_normal(cell.n)
    if cell.estimator == "SVR":
        return X, score
    parts = [0.02, 0.98] if cell.kind == "rare" else [0.5, 0.5]
    if cell.estimator == "SVC five classes":
        parts = [0.2] * 5
    y = np.searchsorted(np.quantile(score, np.cumsum(parts)[:-1]), score)
    return X, y


def models(cell: Cell) -> dict[str, Any]:
    """Ours and the peers', which are not fitted yet."""
    name = cell.estimator.split(maxsplit=1)[0]
    shared: dict[str, Any] = {"kernel": cell.kernel}
    shared |= {"nu": 0.1} if name == "OneClassSVM" else {"C": cell.C}
    found = {
        "dualflow": getattr(dualflow, name)(**shared),
        "scikit-learn": getattr(svm, name)(**shared, cache_size=CACHE_MB),
    }
    if importlib.util.find_spec("sklearnex") is not None and name != "OneClassSVM":
        sklearnex = importlib.import_module("sklearnex.svm")
        found["intelex"] = getattr(sklearnex, name)(**shared, cache_size=CACHE_MB)
    if cell.kernel == "linear" and name in ("SVC", "SVR"):
        found["liblinear"] = svm.LinearSVC(C=cell.C, loss="hinge") if name == "SVC" else svm.LinearSVR(C=cell.C)
        if importlib.util.find_spec("rehline") is not None and cell.kind != "text" and cell.estimator in ("SVC", "SVR"):
            found["rehline"] = rehline(cell)
    return found


def rehline(cell: Cell) -> Any:
    """ReHLine's linear machine of two classes, or its ε-tube of the width of SVR's default."""
    module = importlib.import_module("rehline")
    if cell.estimator == "SVC":
        return module.plq_Ridge_Classifier(loss={"name": "svm"}, C=cell.C)
    return module.plq_Ridge_Regressor(loss={"name": "svr", "epsilon": 0.1}, C=cell.C)


def _fitted(model: Any, X: Any, y: NDArray | None, end: Any) -> None:
    """Fit in a process of its own, and send seconds of processor time, the largest certified gap, and what it said."""
    seconds, said, gap = [], "", float("nan")
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(1):
        warnings.simplefilter("always")
        try:
            while len(seconds) < REPEATS and sum(seconds) < SHORT_S:
                begun = time.process_time()
                model.fit(X) if y is None else model.fit(X, y)
                seconds.append(time.process_time() - begun)
            said = "; ".join(dict.fromkeys(type(one.message).__name__ for one in caught))
        except Exception as error:
            said = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    solutions = getattr(model, "solutions_", None) or [getattr(model, "solution_", None)]
    gaps = [solution.certificate.relative_gap for solution in solutions if solution is not None]
    if gaps:
        gap = max(float("inf") if one is None else float(one) for one in gaps)
    end.send((statistics.median(seconds) if seconds else float("nan"), gap, said))


def timed(model: Any, X: Any, y: NDArray | None, limit: float) -> tuple[float, float, str]:
    """Seconds of a fit, the limit where it passes it; its certified gap, and what it said."""
    context = multiprocessing.get_context("fork")
    mine, end = context.Pipe(duplex=False)
    process = context.Process(target=_fitted, args=(model, X, y, end))
    process.start()
    end.close()
    try:
        found = mine.recv() if mine.poll(limit + REPEATS * SHORT_S) else (limit, float("nan"), "past the limit")
    except EOFError:
        found = (limit, float("nan"), "died")
    process.kill()
    process.join()
    return found


def judge(lines: list[dict[str, Any]], limit: float) -> list[Verdict]:
    """The claim's figures."""
    ratios = [(line["case"], line["ratio"]) for line in lines if line["ratio"] == line["ratio"]]
    slower = sorted((ratio, case) for case, ratio in ratios if ratio < 1.0)
    mean = float(np.exp(np.mean([np.log(ratio) for _, ratio in ratios]))) if ratios else float("nan")
    lost = [line for line in lines if line["ours_s"] >= limit and line["peer_s"] < limit]
    ended = [line for line in lines if line["ours_s"] < limit]
    sharp = [(line["case"], line["gap"]) for line in ended if line["n"] <= MAX_SHARP]
    large = [(line["case"], line["gap"]) for line in ended if line["n"] > MAX_SHARP]
    share = len(slower) / len(ratios) if ratios else float("nan")
    note = "; ".join(f"{case} ({ratio:.2f})" for ratio, case in slower)
    return [
        Verdict("must", "ground", "part of the cells below 1.0 ×", share, "<=", 0.02, note=note),
        each("must", "ground", "ratio to the faster peer", ratios, ">=", 0.8, unit="×"),
        Verdict("must", "ground", "geometric mean of the ratios", mean, ">=", 4.0, "×"),
        Verdict("must", "ground", "cells past the limit that a peer ends in", float(len(lost)), "<=", 0.0),
        *([each("must", "ground", "certified relative gap, n ≤ 16 384", sharp, "<=", GAP)] if sharp else []),
        *([each("must", "ground", "certified relative gap, n > 16 384", large, "<=", TOL)] if large else []),
    ]


def draw(lines: list[dict[str, Any]], options: argparse.Namespace) -> None:
    """Ratio against n and d, a point a cell."""
    from benchmarks.lib.plots import saved, subplots

    figure, axes = subplots(1, 2, (10, 4))
    for ax, name in zip(np.ravel(axes), ("n", "d"), strict=True):
        for kernel in KERNELS:
            part = [line for line in lines if line["kernel"] == kernel]
            ax.loglog([line[name] for line in part], [line["ratio"] for line in part], "o", ms=4, label=kernel)
        ax.axhline(1.0, color="grey", lw=1)
        ax.set_xlabel(name)
        ax.set_ylabel("faster peer's time / ours")
    np.ravel(axes)[0].legend()
    saved(figure, options.plot / "ground.png")


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which cells are drawn")
    parser.add_argument("--some", type=int, metavar="N", help="only so many cells")


def main() -> int:
    options = command_line(__doc__, "only", "limit", "plot", extra=_more)
    table, limit = Rows(f"{TITLE}_rows", options), options.limit or LIMIT_S
    cells = drawn(options.seed, options.some or (QUICK_CELLS if options.quick else CELLS))
    for number, cell in enumerate(cells):
        if not chosen(str(cell), options.only):
            continue
        X, y = data_of(cell, number)
        found = {name: timed(model, X, y, limit) for name, model in models(cell).items()}
        ours_s, gap, said = found["dualflow"]
        ours_s = min(ours_s, limit) if ours_s == ours_s else limit  # an error of ours counts as the limit
        theirs = [found[name][0] for name in PEERS[:2] if name in found]
        peers = [min(seconds, limit) for seconds in theirs if seconds == seconds]
        peer = min(peers, default=float("nan"))
        about = {**cell._asdict(), "ratio": peer / ours_s, "ours_s": ours_s, "peer_s": peer, "gap": gap}
        each_s = {f"{name.replace('-', '_')}_s": found.get(name, (float("nan"),))[0] for name in PEERS}
        table.add(str(cell), **about, **each_s, said=said)
    if options.plot:
        draw(table.lines, options)
    return conclude(TITLE, judge(table.lines, limit), options)


if __name__ == "__main__":
    sys.exit(main())
