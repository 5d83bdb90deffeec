"""Fits timed side by side: cases, entrants, lanes, and the process they run in.

A case is a named problem. Its entrants (ours and the peers) are built in one child process and timed there in turn,
A B A B …, after one warm-up each; an entrant with two BLAS thread counts has two lanes. The parent watches: a lane
that outlives the limit, dies or raises is a row that says so, and the others are measured again without it.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from threadpoolctl import ThreadpoolController

from benchmarks.lib import ratios
from benchmarks.lib.machine import Spent, peak_memory_mb, spending

#: (fits shorter than this many seconds, runs): the first that applies.
RUNS = ((0.05, 15), (2.0, 5), (float("inf"), 3))

Key = tuple[str, int]  # the entrant's name and the BLAS threads of its lane


class Entrant:
    """One way to solve a case. Only `fit` is timed.

    Attributes
    ----------
    name : str
    threads : tuple of int
        BLAS thread counts, one lane each. LIBSVM is single-threaded: one lane.
    """

    name = ""
    threads: tuple[int, ...] = (1,)

    def skip(self) -> str | None:
        """Why this entrant cannot run here, or None."""
        return None

    def prepare(self, threads: int) -> None:
        """Before every fit, not timed: for libraries whose threads are no BLAS's."""

    def fit(self) -> None:
        """The timed part."""
        raise NotImplementedError

    def check(self) -> dict[str, Any]:
        """Columns about the last fit, above all ``relative_gap``, certified by us from the entrant's alpha."""
        return {}


@dataclass(frozen=True)
class Case:
    """``build(**fields)`` makes the entrants, in the child; it must be importable from there.

    ``limit_s`` is the longest a single fit may take; ``runs`` overrides the rule of `RUNS`; ``pause_s`` is slept before
    every fit; ``threads``, if given, leaves out lanes of other thread counts.
    """

    name: str
    build: Callable[..., list[Entrant]]
    fields: dict[str, Any]
    limit_s: float = 600.0
    runs: int | None = None
    pause_s: float = 0.0
    threads: int | None = None


@dataclass
class Row:
    """What became of one lane of one case; ``status`` is ok, skipped, failed or timeout.

    ``times``, ``user_times`` and ``system_times`` are seconds by the clock on the wall, in the process and in the
    kernel for it, all threads together; ``fresh_mb`` is memory that was touched for the first time. One each a run.
    """

    case: Case
    entrant: str
    threads: int
    status: str = "ok"
    reason: str = ""
    times: list[float] = field(default_factory=list)
    user_times: list[float] = field(default_factory=list)
    system_times: list[float] = field(default_factory=list)
    fresh_mb: list[float] = field(default_factory=list)
    columns: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return self.entrant, self.threads

    def add(self, spent: Spent) -> None:
        """One more run."""
        self.times.append(spent.wall_s)
        if spent.user_s is not None:
            self.user_times.append(spent.user_s)
            self.system_times.append(spent.system_s)
            self.fresh_mb.append(spent.fresh_mb)

    @property
    def relative_gap(self) -> float:
        gap = self.columns.get("relative_gap")
        return float("inf") if gap is None else float(gap)

    def flat(self) -> dict[str, Any]:
        """The row as a CSV line."""
        about = {name: value for name, value in self.case.fields.items() if name != "folder"}  # a path of the machine
        line: dict[str, Any] = {"case": self.case.name, **about, "entrant": self.entrant}
        line |= {"blas_threads": self.threads, "status": self.status, "reason": self.reason, "runs": len(self.times)}
        if self.times:
            middle = ratios.median(self.times)
            line |= {"median_s": middle.value, "low_s": middle.low, "high_s": middle.high, "fastest_s": min(self.times)}
        spent = {"user_s": self.user_times, "system_s": self.system_times, "fresh_mb": self.fresh_mb}
        line |= {name: ratios.median(found).value for name, found in spent.items() if found}
        runs = {"times_s": self.times, "user_times_s": self.user_times, "system_times_s": self.system_times}
        return {**line, **self.columns} | {name: ";".join(f"{t:.6g}" for t in found) for name, found in runs.items()}


def runs_for(seconds: float) -> int:
    """How often a fit that takes this long is timed."""
    return next(runs for below, runs in RUNS if seconds < below)


def run_case(case: Case) -> list[Row]:
    """Measure all lanes of a case; one row a lane, whatever happens."""
    lost: list[Row] = []
    while True:
        rows, culprit = _watch(case, [row.key for row in lost])
        if culprit is None:
            return [*rows, *lost]
        lost.append(culprit)


def _watch(case: Case, excluded: list[Key]) -> tuple[list[Row], Row | None]:
    """One child; its rows, and the row of the lane that brought it down, if one did."""
    context = _context()
    ours, childs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(case, excluded, childs), daemon=True)
    process.start()
    childs.close()
    busy: Key | None = None
    began = time.monotonic()
    try:
        while True:
            left = None if busy is None else case.limit_s - (time.monotonic() - began)
            if busy is not None and left is not None and not ours.poll(max(0.0, left)):
                return [], Row(case, *busy, "timeout", f"a fit took longer than {case.limit_s:g} s")
            try:
                message, content = ours.recv()
            except EOFError:
                process.join()
                where = "while the data were made" if busy is None else "in fit"
                row = Row(case, *(busy or ("(all)", 0)), "failed", f"process ended {where}, exit {process.exitcode}")
                return ([row], None) if busy is None else ([], row)
            if message == "rows":
                for row in content:
                    row.case = case
                return content, None
            busy, began = content, time.monotonic()
    finally:
        process.kill()
        process.join()
        ours.close()


def _context() -> Any:
    """Fresh children, forked from a server that has the imports but never computed (a fork after that can hang)."""
    if os.name == "nt":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["dualflow.estimators", "sklearn.svm", "sklearn.datasets", "threadpoolctl"])
    return context


def _child(case: Case, excluded: list[Key], pipe: Connection) -> None:
    warnings.simplefilter("ignore")  # ConvergenceWarning: what was reached is in the gap column
    try:
        rows = measure(case, excluded, lambda key: pipe.send(("busy", key)))
    except Exception as error:
        rows = [Row(case, "(all)", 0, "failed", _text(error))]
    pipe.send(("rows", rows))
    pipe.close()


def measure(case: Case, excluded: list[Key], tell: Callable[[Key | None], None] = lambda key: None) -> list[Row]:
    """Time all lanes of a case in this process; ``tell`` hears which lane is in a fit, and None between fits."""
    entrants = case.build(**case.fields)
    blas = ThreadpoolController()
    rows: list[Row] = []
    lanes: list[tuple[Entrant, Row]] = []
    for entrant in entrants:
        reason = entrant.skip()
        for threads in entrant.threads:
            row = Row(case, entrant.name, threads)
            if row.key in excluded or case.threads not in (None, threads):
                continue
            rows.append(row)
            if reason is None and threads > (os.cpu_count() or 1):
                reason = f"{threads} BLAS threads wanted, the machine has {os.cpu_count()} processors"
            if reason is not None:
                row.status, row.reason = "skipped", reason
            else:
                lanes.append((entrant, row))

    def timed(entrant: Entrant, row: Row) -> Spent | None:
        gc.collect()
        time.sleep(case.pause_s)
        tell(row.key)
        try:
            with blas.limit(limits=row.threads):
                entrant.prepare(row.threads)
                with spending() as spent:
                    entrant.fit()
        except Exception as error:
            row.status, row.reason = "failed", _text(error)
            row.times, row.user_times, row.system_times, row.fresh_mb = [], [], [], []
            return None
        finally:
            tell(None)
        return spent

    wanted: dict[Key, int] = {}
    for entrant, row in lanes:
        spent = timed(entrant, row)
        if spent is not None:
            row.columns["warm_up_s"] = spent.wall_s
            row.columns["warm_up_fresh_mb"] = spent.fresh_mb
            # The peak of the process so far: an entrant's own only for the first lane of a case.
            row.columns["peak_memory_mb"] = peak_memory_mb()
    rounds = turn = 1
    while turn <= rounds:
        for entrant, row in lanes:
            if row.status != "ok":
                continue
            # A slow lane's fewer runs are spread over the rounds, so that all see the same machine.
            due = 1 if turn == 1 else 1 + (turn - 1) * (wanted[row.key] - 1) // (rounds - 1)
            if due > len(row.times) and (spent := timed(entrant, row)) is not None:
                row.add(spent)
                # The warm-up alone would call a fast fit slow.
                wanted.setdefault(row.key, case.runs or runs_for(min(spent.wall_s, row.columns["warm_up_s"])))
                if due == wanted[row.key]:
                    _check(entrant, row)
        rounds = max(wanted.values(), default=1)
        turn += 1
    return rows


def _check(entrant: Entrant, row: Row) -> None:
    try:
        row.columns |= entrant.check()
    except Exception as error:
        row.status, row.reason = "failed", f"check: {_text(error)}"


def _text(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
