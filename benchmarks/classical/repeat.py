"""Claim: the same fit takes the same time: within 15 % of its median in 20 runs a second apart, on an idle machine.

And the system's time is at most a tenth of the user's in fits above 20 ms: who maps memory anew in every fit pays for
it when the system has given the pages away. Certified fits of abalone (more than 9 rings), phoneme, spambase and
generated sets, one thread. SVC is shown.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from benchmarks.lib import data, real
from benchmarks.lib.claims import Verdict, each
from benchmarks.lib.entrants import DualflowSVC, LibsvmSVC
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import little_system_time
from benchmarks.lib.report import main

OURS, PEER = "dualflow refined", "SVC tol=0.001"
REAL = ("abalone", "phoneme", "spambase")
RUNS, PAUSE_S, SPREAD = 20, 1.0, 0.15


def build(data_set: str, n: int | None, C: float, folder: str | None, whose: str) -> list[Entrant]:
    X, y = data.load(data_set, n) if n else real.two_classes(data_set, folder)
    gamma = data.scale_gamma(X)
    # One alone in its process: what another leaves behind would be pages at hand.
    return [DualflowSVC(X, y, C, gamma, refine=True, threads=(1,)) if whose == OURS else LibsvmSVC(X, y, C, gamma)]


def cases(options: argparse.Namespace) -> list[Case]:
    sets = [("moons", 1000)] if options.quick else [*((name, None) for name in REAL), *((n, 4000) for n in data.NAMES)]
    return [
        Case(
            f"{name}{f' n={n}' if n else ''} C={C:g} {whose}",
            build,
            {"data_set": name, "n": n, "C": C, "folder": options.data, "whose": whose},
            runs=RUNS,
            pause_s=PAUSE_S,
        )
        for name, n in sets
        for C in ((1.0,) if options.quick else (1.0, 100.0))
        for whose in (OURS, PEER)
    ]


def off(row: Row) -> float:
    """How far the run farthest from the median is off it, relative."""
    times = np.asarray(row.times)
    return float(np.abs(times / np.median(times) - 1.0).max()) if len(times) else float("nan")


def judge(rows: list[Row]) -> list[Verdict]:
    verdicts = []
    for whose, kind in ((OURS, "must"), (PEER, "shown")):
        mine = [row for row in rows if row.case.fields["whose"] == whose]
        found = [(row.case.name, off(row)) for row in mine]
        verdicts.append(each(kind, whose, "farthest run off the median", found, "<=", SPREAD))
        verdicts.append(little_system_time(mine, (whose,), f"{whose}, fits", kind))
    return verdicts


if __name__ == "__main__":
    sys.exit(main("classical/repeat", __doc__, cases, judge, "data"))
