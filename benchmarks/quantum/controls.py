"""What circuits contribute: every quantum solver on its device, and on devices that know less.

Hinge, hinge without bias, L2 (C = 1, 10, 100), hard SVDD and one-class (ν = 1/2; neither has a C) on moons, circles,
iris, wine and breast cancer, n = 8 and 16, exact and with 10 000 shots; RBF with gamma="scale". Each solver that takes
a problem is run with the emulator, which agrees with Aer to 1e-12, and with every control in its place: circuits and
shots to an excess (f − f*)/|f*| of 1e-1, 1e-2 and 1e-3, and the excess at the end, medians of 7 seeds. A control is
stopped at 10 times the circuits of the right device; no figure means not reached.

A cell has evidence if the right device needs at least 5 times fewer circuits, or ends at least 5 times nearer, than the
null device and than random bits.

- each solver that is called one: evidence in ≥ 90 % of its cells, exact and sampled; cells without are listed

Hours. Run again with the same --csv it goes on with the rows that are missing. ``--quick`` is moons, n = 8, C = 1, the
two controls that decide, one seed.
"""

import argparse
import csv
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from benchmarks.lib.circuit_problems import optimum
from benchmarks.lib.claims import Rows, Verdict, conclude, csv_path
from benchmarks.lib.command import chosen, command_line
from dualflow import DualflowError, Gram, list_solvers, problems
from dualflow.core.evidence import CONTROLS, EVIDENCE, margin
from dualflow.registry import make_solver, solver_class
from dualflow.testing import ZooProblem
from dualflow.testing.controls import Walk, walk

TITLE = "quantum/controls"
RIGHT = "emulator"
MODELS = ("hinge", "hinge without bias", "L2", "SVDD", "one-class")
DATA = ("moons", "circles", "iris", "wine", "breast cancer")
SIZES, COSTS, SHOTS, SEEDS = (8, 16), (1.0, 10.0, 100.0), (None, 10_000), 7
LEVELS = (1e-1, 1e-2, 1e-3)
#: Circuits of a control, in those of the right device; and seconds of a run.
MOST, LIMIT = 10, 60.0
OTHERS = ("classical-sampler", "control:permuted", "control:shuffled")
ASKED = 0.9


@cache
def points(name: str, n: int) -> tuple[NDArray, NDArray]:
    """n points, half of either class, each feature of mean 0 and deviation 1 over the whole set; and their signs."""
    if name == "moons":
        X, y = datasets.make_moons(200, noise=0.2, random_state=0)
    elif name == "circles":
        X, y = datasets.make_circles(200, noise=0.1, factor=0.5, random_state=0)
    else:
        load = {"iris": datasets.load_iris, "wine": datasets.load_wine, "breast cancer": datasets.load_breast_cancer}
        X, y = load[name](return_X_y=True)
        kept = y > 0 if name == "iris" else y < 2  # the two irises that overlap; the first two wines
        X, y = X[kept], y[kept]
    X, signs = (X - X.mean(axis=0)) / X.std(axis=0), np.where(y == y.max(), 1.0, -1.0)
    order = np.random.default_rng(0).permutation(len(X))
    half = [order[signs[order] == sign][: n // 2] for sign in (1.0, -1.0)]
    chosen_points = np.concatenate(half)
    return X[chosen_points], signs[chosen_points]


@cache
def problem(model: str, data: str, n: int, C: float) -> ZooProblem:
    """The problem with its optimum."""
    X, y = points(data, n)
    gram = Gram(X, kernel="rbf", gamma="scale")
    if model == "SVDD":
        made = problems.svdd(gram)
    elif model == "one-class":
        made = problems.one_class(gram, 0.5)
    elif model == "L2":
        made = problems.svc(gram, y, C, loss="squared_hinge")
    else:
        made = problems.svc(gram, y, C, fit_intercept=model == "hinge")
    best = optimum(made)
    return ZooProblem(f"{model}, {data}", made, best.certificate.objective, best.alpha, False, "computed: refined")


def cells(quick: bool) -> Iterator[tuple[str, str, str, int, float | None, int | None]]:
    """Solver, model, data, n, C and shots of every cell."""
    for info in list_solvers():
        if not info.quantum or info.install:
            continue
        sizes, data, costs = ((8,), DATA[:1], COSTS[:1]) if quick else (SIZES, DATA, COSTS)
        for model, name, n, C, shots in product(MODELS, data, sizes, costs, SHOTS):
            single = model in ("SVDD", "one-class")
            if not single or costs[0] == C:
                yield info.name, model, name, n, None if single else C, shots


def case_of(solver: str, model: str, data: str, n: int, C: float | None, shots: int | None) -> str:
    cost = "" if C is None else f", C = {C:g}"
    return f"{solver}, {model}, {data}, n = {n}{cost}, {'exact' if shots is None else f'{shots} shots'}"


def middle(found: list[float | None]) -> float | None:
    """The median, a figure that is missing being the largest; None if it is such a one."""
    value = float(np.median([np.inf if one is None else one for one in found]))
    return value if np.isfinite(value) else None


def row_of(walks: list[Walk]) -> dict[str, Any]:
    """Columns of the runs of one device."""
    columns: dict[str, Any] = {}
    for level in LEVELS:
        reached = [run.first(level) for run in walks]
        for name in ("circuits", "shots"):
            at = [None if k is None else getattr(run, name)[k] for run, k in zip(walks, reached, strict=True)]
            columns[f"{name}_to_{level:g}"] = middle(at)
    columns["excess"] = middle([run.excess[-1] if run.excess else None for run in walks])
    columns["circuits"] = middle([run.circuits[-1] if run.excess else None for run in walks])
    return columns


def margin_over(own: Walk, control: Walk) -> float:
    """By the finest level that the right device reached."""
    level = next((level for level in reversed(LEVELS) if own.first(level) is not None), LEVELS[-1])
    return margin(own.ending(level), control.ending(level), LEVELS[-1])


def run(table: Rows, cell: tuple[str, str, str, int, float | None, int | None], seeds: int, others: bool) -> None:
    """A row for the right device, then one for each control, with its margin."""
    name, model, data, n, C, shots = cell
    z = problem(model, data, n, 1.0 if C is None else C)
    try:
        solver: Any = make_solver(name, {"device": RIGHT, **({} if shots is None else {"shots": shots})})
        solver.check(z.problem)
    except DualflowError:  # it takes no such problem, or no shots
        return
    case = case_of(*cell)
    about = {"solver": name, "model": model, "data": data, "n": n, "C": C, "shots": shots, "seeds": seeds}
    own = [walk(solver, z, seed, LEVELS[-1], time_limit_s=LIMIT) for seed in range(seeds)]
    found = [(RIGHT, own, None)]
    for control in (*CONTROLS, *((*OTHERS, *solver.own_controls) if others else ())):
        stand_in, runs = replace(solver, device=control), []
        for seed, right in enumerate(own):
            most = MOST * max(1, right.circuits[-1] if right.circuits else 0)
            runs.append(walk(stand_in, z, seed, LEVELS[-1], most, LIMIT))
        times = float(np.median([margin_over(a, b) for a, b in zip(own, runs, strict=True)]))
        found.append((control, runs, times))
    for device, runs, times in found:  # all rows of a cell or none
        table.add(f"{case}, {device}", cell=case, **about, device=device, **row_of(runs), margin=times)


def kept(table: Rows) -> None:
    """Take up the rows of an earlier run."""
    if table.path and table.path.exists():
        with table.path.open(newline="", encoding="utf-8") as file:
            table.lines = list(csv.DictReader(file))


def verdicts(table: Rows) -> list[Verdict]:
    """A line a solver and way of measuring: its share of cells with evidence."""
    margins: dict[str, list[float]] = {}
    where: dict[str, tuple[str, str]] = {}
    for row in table.lines:
        if row["device"] in CONTROLS:
            margins.setdefault(row["cell"], []).append(float(row["margin"]))
            where[row["cell"]] = row["solver"], "sampled" if row["shots"] else "exact"
    out = []
    for solver, how in dict.fromkeys(where.values()):
        ours = [cell for cell, which in where.items() if which == (solver, how)]
        without = [cell for cell in ours if min(margins[cell]) < EVIDENCE]
        for cell in without:
            print(f"no evidence: {cell}, margin {min(margins[cell]):.3g}")
        called = solver_class(solver).maturity == "solver"
        share = 1 - len(without) / len(ours)
        note = f"{len(ours) - len(without)} of {len(ours)} cells"
        out.append(
            Verdict(
                "must" if called else "shown",
                f"{solver}, {how}",
                "share of cells with evidence",
                share,
                ">=" if called else "",
                ASKED if called else float("nan"),
                note=note,
            )
        )
    return out


def main() -> int:
    options: argparse.Namespace = command_line(__doc__, "only")
    table = Rows(f"{TITLE}_rows", options, ("circuits", "excess", "margin", *(f"circuits_to_{x:g}" for x in LEVELS)))
    if csv_path(TITLE, options):
        kept(table)
    done = {row["cell"] for row in table.lines}
    for cell in cells(options.quick):
        if chosen(case_of(*cell), options.only) and case_of(*cell) not in done:
            run(table, cell, 1 if options.quick else SEEDS, not options.quick)
    return conclude(TITLE, verdicts(table), options)


if __name__ == "__main__":
    sys.exit(main())
