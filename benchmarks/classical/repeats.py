"""Claim: points that occur many times cost `SVC` no more than the distinct ones: at least 5 × scikit-learn's speed.

Radial kernel with γ = "scale". Bits: 20 000 points of six bits (64 places), the label more than three ones, 30 % of the
labels wrong, C = 1 and 100, and for ours alone 1e4 to 1e6, which LIBSVM does not end in a minute. Grid: 9000 points of
three counts from 0 to 11 (1728 places), a smooth label with noise, C = 1 and 100. Ours is certified to 1e-9 at
every C. One thread; by the wall and in user time. scikit-learn-intelex, where it is installed, is shown.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib import data
from benchmarks.lib.claims import Verdict
from benchmarks.lib.entrants import DualflowSVC, LibsvmSVC
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, gaps_at_most
from benchmarks.lib.peers import INTELEX, IntelexSVC
from benchmarks.lib.report import main

OURS, PEER, GAP = "dualflow refined", "SVC tol=0.001", 1e-9
#: The largest C that LIBSVM ends at.
MAX_C_PEERS = 100.0
CELLS = [("bits", 1.0), ("bits", 100.0), ("bits", 1e4), ("bits", 1e5), ("bits", 1e6), ("grid", 1.0), ("grid", 100.0)]


def points(kind: str) -> tuple[NDArray, NDArray]:
    """The points, and their labels."""
    rng = np.random.default_rng(data.SEED)
    if kind == "bits":
        X = rng.integers(0, 2, size=(20_000, 6)).astype(float)
        return X, np.where((X.sum(axis=1) > 3) ^ (rng.random(len(X)) < 0.3), 1, -1)
    X = rng.integers(0, 12, size=(9000, 3)).astype(float)
    smooth = np.sin(X[:, 0]) + np.cos(X[:, 1]) * X[:, 2] / 6
    return X, np.where(smooth + 0.3 * rng.standard_normal(len(X)) > 0, 1, -1)


def build(kind: str, C: float) -> list[Entrant]:
    X, y = points(kind)
    gamma = data.scale_gamma(X)
    ours = DualflowSVC(X, y, C, gamma, refine=True)
    peers = [LibsvmSVC(X, y, C, gamma), IntelexSVC(X, y, C, gamma)] if C <= MAX_C_PEERS else []
    return [ours, *peers]


def cases(options: argparse.Namespace) -> list[Case]:
    cells = CELLS[-1:] if options.quick else CELLS
    return [Case(f"{kind} C={C:g}", build, {"kind": kind, "C": C}) for kind, C in cells]


def judge(rows: list[Row]) -> list[Verdict]:
    both = [row for row in rows if row.case.fields["C"] <= MAX_C_PEERS]
    return [
        *against(both, OURS, PEER, "repeated points", least=5.0),
        gaps_at_most([row for row in rows if row.entrant == OURS], GAP, "repeated points"),
        *against(both, OURS, INTELEX, "repeated points against scikit-learn-intelex", mean=1.0, kind="shown"),
    ]


if __name__ == "__main__":
    sys.exit(main("classical/repeats", __doc__, cases, judge))
