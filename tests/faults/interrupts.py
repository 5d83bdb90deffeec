"""Ctrl-C at random moments of fits, searches and the command line: it is raised in half a second, and nothing is left.

``python -m tests.faults.interrupts --runs 100`` tries each that often, in children forked from one process that has
imported everything. A child fits while a timer sends it SIGINT; it counts as good if KeyboardInterrupt came out (exit
130 of the command line) within `SOON_S`, the estimator was left as it had been, files were whole
and no process of its own was left behind. A run that ended before its moment counts as a try that missed.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import select
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["CASES", "Outcome", "tried"]

#: What is done in a child, and what is said afterwards of what is not as it was; made in a folder of its own.
Begun = tuple[Callable[[], Any], Callable[[], str]]
Begin = Callable[[Path], Begun]

#: Seconds in which Ctrl-C is to come out.
SOON_S = 0.5
#: Seconds after which a child counts as deaf.
DEAF_S = 30.0
#: Seconds in which the processes that a child started are to be gone after it.
GONE_S = 1.0


@dataclass(frozen=True)
class Outcome:
    """What came of one try, "raised", "missed" (it had ended), "swallowed", "deaf" or a sentence, and its seconds."""

    what: str
    seconds: float


def clouds(n: int, classes: int = 2, m: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    X = rng.standard_normal((n, m)) + 0.3 * y[:, None]
    return X, np.where(rng.random(n) < 0.1, rng.integers(0, classes, n), y)


def _attributes(model: Any) -> dict[str, int]:
    return {name: id(value) for name, value in vars(model).items()}


def _fit(model: Any, X: np.ndarray, y: np.ndarray | None) -> Begin:
    """A first fit of a model; afterwards it must not predict."""

    def begin(folder: Path) -> Begun:
        fresh = model()

        def changed() -> str:
            try:
                fresh.predict(X[:2])
            except (ValueError, AttributeError):  # NotFittedError is both
                return ""
            return "half a model was left"

        return lambda: fresh.fit(X, y), changed

    return begin


def _refit(model: Any, X: np.ndarray, y: np.ndarray) -> Begin:
    """A second fit; afterwards it must predict as it did."""

    def begin(folder: Path) -> Begun:
        fitted = model().fit(X[:200], y[:200])
        before, values = _attributes(fitted), fitted.predict(X[:50])

        def changed() -> str:
            same = _attributes(fitted) == before and np.array_equal(fitted.predict(X[:50]), values)
            return "" if same else "the estimator was changed"

        return lambda: fitted.fit(X, y), changed

    return begin


def _stream(model: Any, X: np.ndarray, y: np.ndarray) -> Begin:
    """A batch of a stream; afterwards it must predict as it did, and go on."""

    def begin(folder: Path) -> Begun:
        fitted = model().partial_fit(X[:100], y[:100], classes=np.unique(y))
        values = fitted.decision_function(X[:50])

        def changed() -> str:
            same = np.array_equal(fitted.decision_function(X[:50]), values)
            fitted.partial_fit(X[100:110], y[100:110])
            return "" if same else "the stream was changed"

        return lambda: fitted.partial_fit(X[100:], y[100:]), changed

    return begin


def _compare(X: np.ndarray, y: np.ndarray) -> Begin:
    def begin(folder: Path) -> Begun:
        from dualflow import compare

        return lambda: compare(X, y, ("hinge", "svdd"), max_n=64, devices=()), lambda: ""

    return begin


def _train(X: np.ndarray, y: np.ndarray) -> Begin:
    """The command line: exit 130, and no file, or a whole one."""

    def begin(folder: Path) -> Begun:
        from dualflow import SVC, cli, load

        data, out = folder / "data.csv", folder / "model.dualflow"
        np.savetxt(data, np.column_stack([X, y]), delimiter=",", fmt="%.6g")
        SVC().fit(X[:20], y[:20]).save(out)
        old = out.read_bytes()
        sys.argv = ["dualflow", "train", str(data), "--out", str(out), "--C", "100", "--overwrite", "--no-header"]

        def main() -> None:
            try:
                cli.app(standalone_mode=True)
            except SystemExit as leave:
                if leave.code == 130:
                    raise KeyboardInterrupt from None
                if not leave.code:
                    return  # it had ended: before its moment, or deaf to it
                raise RuntimeError(f"exit code {leave.code}") from None

        def changed() -> str:
            left = sorted(path.name for path in folder.iterdir())
            if left != ["data.csv", "model.dualflow"]:
                return f"files were left: {left}"
            if out.read_bytes() != old:
                load(out)  # it came after the model was written, which must be whole
            return ""

        return main, changed

    return begin


@cache
def _cases() -> dict[str, Begin]:
    from sklearn.model_selection import GridSearchCV

    from dualflow import SVC, SVDD, SVR, CascadeSVC, ConformalSVR, EcoSVC, IncrementalSVC, SVCSearchCV

    X, y = clouds(12_000)
    small, few, many = clouds(3000), clouds(600), clouds(100_000)
    values = small[0][:, 0] + np.sin(small[0][:, 1])
    return {
        "SVC.fit": _fit(lambda: SVC(C=100.0), X, y),
        "GridSearchCV": _fit(lambda: GridSearchCV(SVC(), {"C": [1, 10, 100, 1000]}, cv=3), X, y),
        "SVCSearchCV": _fit(lambda: SVCSearchCV(SVC(), {"C": [1, 10, 100, 1000], "gamma": [0.01, 0.1]}, cv=3), *small),
        "ConformalSVR": _fit(lambda: ConformalSVR(SVR(C=10.0)), small[0][:1500], values[:1500]),
        "compare": _compare(*few),
        "train": _train(*clouds(3000)),
        "SVC refit, n_jobs": _refit(lambda: SVC(C=10.0, n_jobs=2), *clouds(6000, 5)),
        "SVC linear": _fit(lambda: SVC(kernel="linear", C=10.0), *clouds(20_000)),
        "SVC linear, many rows": _fit(lambda: SVC(kernel="linear", C=10.0), *many),
        "SVR linear, many rows": _fit(lambda: SVR(kernel="linear"), many[0], many[0][:, 0] + many[1]),
        "SVC linear, wide": _fit(lambda: SVC(kernel="linear", C=10.0), *clouds(8000, m=400)),
        "SVC squared hinge": _fit(lambda: SVC(loss="squared_hinge"), X, y),
        "SVDD contamination": _fit(lambda: SVDD(contamination=0.05), small[0], None),
        "CascadeSVC": _refit(lambda: CascadeSVC(), X, y),
        "IncrementalSVC": _stream(lambda: IncrementalSVC(), *few),
        "EcoSVC": _stream(lambda: EcoSVC(), *small),
    }


#: The six of the claim come first.
CASES = ("SVC.fit", "GridSearchCV", "SVCSearchCV", "ConformalSVR", "compare", "train")


def _child(begin: Begin, delay: float, pipe: int, folder: Path) -> None:
    """Of a forked child: do it, be interrupted, say what came of it."""
    os.setpgid(0, 0)  # whatever it starts is of its group, by which the parent finds what is left
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sent = [0.0]

    def strike(*event: Any) -> None:
        sent[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    work, changed = begin(folder)
    gc.collect()
    signal.signal(signal.SIGALRM, strike)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, delay)
            work()
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            took = time.monotonic() - sent[0]
            outcome = Outcome("missed", 0.0) if not sent[0] or took < 0.001 else Outcome("swallowed", took)
        except KeyboardInterrupt:
            took = time.monotonic() - sent[0]
            outcome = Outcome(changed() or "raised", took)
    except BaseException:
        outcome = Outcome(traceback.format_exc()[-600:], 0.0)
    os.write(pipe, json.dumps([outcome.what, outcome.seconds]).encode())
    os._exit(0)


def _left_over(group: int) -> bool:
    """Whether processes of a child's group outlive it by more than `GONE_S`; they are ended then."""
    end = time.monotonic() + GONE_S
    try:
        while time.monotonic() < end:
            os.killpg(group, 0)
            time.sleep(0.005)
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _forked(begin: Begin, delay: float) -> tuple[Outcome, float]:
    """What came of one try, and how long it took."""
    mine, theirs = os.pipe()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, on forks beside threads of BLAS
        begun = time.monotonic()
        child = os.fork()
        if child == 0:
            _child(begin, delay, theirs, Path(folder))
        os.close(theirs)  # what is left holds it open, so that the end of what was written is not waited for
        end = begun + delay + DEAF_S
        pid = 0
        while not pid and time.monotonic() < end:
            pid, _ = os.waitpid(child, os.WNOHANG)
            time.sleep(0.002)
        took = time.monotonic() - begun
        if not pid:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(mine)
            return Outcome("deaf", took), took
        said = os.read(mine, 1 << 16) if select.select([mine], [], [], 0)[0] else b""
        os.close(mine)
        if _left_over(child):
            return Outcome("processes were left", took), took
    return Outcome(*json.loads(said)) if said else Outcome("died", took), took


def tried(name: str, runs: int, seed: int = 0, longest: float = 2.0) -> list[Outcome]:
    """So many tries of a case, at moments drawn by chance from its length, or its first seconds."""
    begin, rng = _cases()[name], np.random.default_rng(seed)
    length = min(longest, _forked(begin, longest)[1])
    found: list[Outcome] = []
    while len(found) < runs:
        outcome, _ = _forked(begin, float(rng.uniform(0.001, length)))
        if outcome.what == "missed":
            length *= 0.9
            continue
        found.append(outcome)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="only the cases whose names hold this")
    parser.add_argument("--all", action="store_true", help="other estimators, too")
    options = parser.parse_args()
    bad = 0
    for name in _cases() if options.all or options.only else CASES:
        if options.only not in name:
            continue
        found = tried(name, options.runs, options.seed)
        times = np.array([one.seconds for one in found])
        kinds: dict[str, int] = {}
        for one in found:
            kinds[one.what] = kinds.get(one.what, 0) + 1
        late = int((times > SOON_S).sum())
        bad += sum(count for what, count in kinds.items() if what != "raised") + late
        print(
            f"{name}: {kinds}, median {np.median(times):.3f} s, 95 % {np.quantile(times, 0.95):.3f} s, "
            f"worst {times.max():.3f} s, {late} after {SOON_S} s",
            flush=True,
        )
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
