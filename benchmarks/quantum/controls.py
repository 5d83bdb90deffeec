"""What circuits contribute: every quantum solver on its device, and on devices that know less.

Hinge, hinge without bias, L2 (C = 1, 10, 100), hard SVDD and one-class (ν = 1/2; neither has a C) on moons, circles,
iris, wine and breast cancer, n = 8 and 16, exact and with 10 000 shots; RBF with gamma="scale". `hhl`, which takes none
of these, has the least squares of the same data. Each solver that takes a problem is run on Aer, and with every control
in its place: circuits and shots to an excess (f − f*)/|f*| of 1e-1, 1e-2 and 1e-3, and the excess at the end, medians
over the seeds. A control is stopped at 10 times the circuits of the right device; no figure means not reached.

A cell has evidence if the right device needs at least 5 times fewer circuits, or ends at least 5 times nearer, than the
null device and than random bits; a control farther off than α = 0 counts as that.

- each solver that is called one: evidence in ≥ 90 % of its cells, exact and sampled; cells without are listed

Beside (`controls_summary.csv`): circuits to 1e-3 (and in how many cells it is reached), and the median margin over each
control, with the number of cells in which it is 5 or more.

Hours with 7 seeds. Rows are written one by one, and a run with the same --csv goes on where the last one was ended; one
with more --seeds makes the rows of fewer anew. ``--solver``, ``--n``, ``--how`` and ``--only`` leave cells out.
``--quick`` is moons, n = 8, C = 1, the two controls that decide, one seed.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from benchmarks.lib.claims import Rows, Verdict, conclude, csv_path, write_csv
from benchmarks.lib.command import chosen, command_line
from dualflow import DualflowError, DualProblem, Gram, list_solvers, problems, solve
from dualflow.core.evidence import CONTROLS, EVIDENCE, margin
from dualflow.solvers.registry import make_solver, solver_class
from dualflow.testing import ZooProblem
from dualflow.testing.controls import Walk, walk

TITLE = "quantum/controls"
MODELS = ("hinge", "hinge without bias", "L2", "SVDD", "one-class", "least squares")
WITHOUT_C = ("SVDD", "one-class")
DATA = ("moons", "iris", "breast cancer", "circles", "wine")
SIZES, COSTS, HOW, SEEDS = (8, 16), (1.0, 10.0, 100.0), {"exact": None, "sampled": 10_000}, 7
#: What is counted to, and how a column says so.
LEVELS = {1e-1: "1e1", 1e-2: "1e2", 1e-3: "1e3"}
FINEST = min(LEVELS)
#: Circuits of a control, in those of the right device; and seconds of a run.
MOST, LIMIT = 10, 60.0
OTHERS = ("classical-sampler", "control:permuted", "control:shuffled")
ASKED = 0.9


class Cell(NamedTuple):
    """One solver on one problem, exact or with shots."""

    solver: str
    model: str
    data: str
    n: int
    C: float | None
    shots: int | None

    def __str__(self) -> str:
        cost = "" if self.C is None else f", C = {self.C:g}"
        how = "exact" if self.shots is None else f"{self.shots} shots"
        return f"{self.solver}, {self.model}, {self.data}, n = {self.n}{cost}, {how}"


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
    taken = np.concatenate([order[signs[order] == sign][: n // 2] for sign in (1.0, -1.0)])
    return X[taken], signs[taken]


@cache
def problem(model: str, data: str, n: int, C: float | None) -> ZooProblem:
    """The problem with its optimum."""
    X, y = points(data, n)
    gram, cost = Gram(X, kernel="rbf", gamma="scale"), C or 1.0
    made: DualProblem
    if model == "SVDD":
        made = problems.svdd(gram)
    elif model == "one-class":
        made = problems.one_class(gram, 0.5)
    elif model == "least squares":
        made = problems.least_squares(gram, y, cost)
    elif model == "L2":
        made = problems.svc(gram, y, cost, loss="squared_hinge")
    else:
        made = problems.svc(gram, y, cost, fit_intercept=model == "hinge")
    by = "cvxopt" if model == "least squares" else "working-set"
    best = solve(made, by, tol=1e-12, refine=True)
    return ZooProblem(f"{model}, {data}", made, best.certificate.objective, best.alpha, False, "computed: refined")


def cells(options: argparse.Namespace) -> Iterator[Cell]:
    """What is asked for, the smaller and exact ones of all solvers first."""
    quick = options.quick
    sizes = (8,) if quick else [n for n in SIZES if options.n in (None, n)]
    ways = [shots for how, shots in HOW.items() if options.how in (None, how)]
    data, costs = (DATA[:1], COSTS[:1]) if quick else (DATA, COSTS)
    names = [info.name for info in list_solvers() if info.quantum and not info.install]
    for n, shots, name, C, solver, model in product(sizes, ways, data, costs, names, MODELS):
        single = model in WITHOUT_C
        cell = Cell(solver, model, name, n, None if single else C, shots)
        if solver in (options.some or names) and (not single or costs[0] == C) and chosen(str(cell), options.only):
            yield cell


def solver_of(cell: Cell, device: str) -> Any:
    """The solver of a cell, or None if it takes no such problem, or no shots, or does not rest without one."""
    if (cell.solver == "hhl") != (cell.model == "least squares"):
        return None
    try:
        solver = make_solver(cell.solver, {"device": device} | ({} if cell.shots is None else {"shots": cell.shots}))
        solver.check(problem(*cell[1:5]).problem)
    except DualflowError:
        return None
    return solver


def controls_of(solver: Any, quick: bool) -> tuple[str, ...]:
    return CONTROLS if quick else (*CONTROLS, *OTHERS, *solver.own_controls)


def middle(found: list[float | None]) -> float | None:
    """The median, a figure that is missing being the largest; None if it is such a one."""
    value = float(np.median([np.inf if one is None else one for one in found]))
    return value if np.isfinite(value) else None


def row_of(walks: list[Walk]) -> dict[str, Any]:
    """Columns of the runs of one device."""
    columns: dict[str, Any] = {}
    for level, text in LEVELS.items():
        reached = [run.first(level) for run in walks]
        for name in ("circuits", "shots"):
            at = [None if k is None else getattr(run, name)[k] for run, k in zip(walks, reached, strict=True)]
            columns[f"{name}_to_{text}"] = middle(at)
    columns["excess"] = middle([run.excess[-1] if run.excess else None for run in walks])
    columns["circuits"] = middle([run.circuits[-1] if run.excess else None for run in walks])
    return columns


def margin_over(own: Walk, control: Walk) -> float:
    """By the finest level that the right device reached."""
    level = next((level for level in sorted(LEVELS) if own.first(level) is not None), FINEST)
    return margin(own.ending(level), control.ending(level), FINEST)


def run(table: Rows, cell: Cell, solver: Any, seeds: int, controls: tuple[str, ...], most_times: float = MOST) -> None:
    """A row for the right device, then one for each control, with its margin."""
    z = problem(*cell[1:5])
    about = {"solver": cell.solver, "n": cell.n, "shots": cell.shots, "seeds": seeds}

    def say(device: str, runs: list[Walk], times: float | None) -> None:
        figures = {**row_of(runs), "margin": times}
        rounded = {name: None if value is None else float(f"{value:.4g}") for name, value in figures.items()}
        table.add(str(cell), **about, device=device, **rounded)

    own = [walk(solver, z, seed, FINEST, time_limit_s=LIMIT) for seed in range(seeds)]
    say(solver.device, own, None)
    for control in controls:
        stand_in, runs = solver.controlled(control), []
        for seed, right in enumerate(own):
            most = most_times * max(1, right.circuits[-1] if right.circuits else 0)
            runs.append(walk(stand_in, z, seed, FINEST, most, LIMIT))
        say(control, runs, float(np.median([margin_over(a, b) for a, b in zip(own, runs, strict=True)])))


def whole(table: Rows, seeds: int, quick: bool) -> set[str]:
    """The cells whose rows an earlier run has left, with so many seeds or more; rows of others are dropped."""
    table.resume()
    found: dict[str, set[str]] = {}
    for row in table.lines:
        if int(row["seeds"]) >= seeds:
            found.setdefault(row["case"], set()).add(row["device"])
    names = {row["case"]: row["solver"] for row in table.lines}
    done = {cell for cell, devices in found.items() if devices >= {*controls_of(solver_class(names[cell]), quick)}}
    table.lines = [row for row in table.lines if row["case"] in done]
    return done


def by_solver(table: Rows, sizes: bool = False) -> dict[tuple[str, str], dict[str, dict[str, dict[str, Any]]]]:
    """Of solver and way of measuring (and size), of cell, of device: the row."""
    found: dict[tuple[str, str], dict[str, dict[str, dict[str, Any]]]] = {}
    for row in table.lines:
        how = "sampled" if row["shots"] else "exact"
        which = row["solver"], f"n = {row['n']}, {how}" if sizes else how
        found.setdefault(which, {}).setdefault(row["case"], {})[row["device"]] = row
    return found


def verdicts(table: Rows) -> list[Verdict]:
    """A line a solver and way of measuring: its share of cells with evidence."""
    out = []
    for (solver, how), rows in by_solver(table).items():
        least = {cell: min(float(by[name]["margin"]) for name in CONTROLS) for cell, by in rows.items()}
        good, case = sum(times >= EVIDENCE for times in least.values()), min(least, key=lambda cell: least[cell])
        for cell, times in least.items():
            if times < EVIDENCE:
                print(f"no evidence: {cell}, margin {times:.3g}")
        kind = "must" if solver_class(solver).maturity == "solver" else "shown"
        note = f"{good} of {len(least)} cells; least margin {least[case]:.3g}"
        what = "share of cells with evidence"
        out.append(Verdict(kind, f"{solver}, {how}", what, good / len(least), ">=", ASKED, case=case, note=note))
    return out


def summary(table: Rows) -> list[dict[str, str]]:
    """A line a solver and way of measuring: how many cells, its circuits to 1e-3, its margin over every control."""
    out = []
    for (solver, how), rows in by_solver(table, sizes=True).items():
        right = [next(row for name, row in by.items() if not row["margin"]) for by in rows.values()]
        needed = [float(row["circuits_to_1e3"]) for row in right if row["circuits_to_1e3"]]
        few = f"{np.median(needed):.3g} (in {len(needed)})" if needed else "none"
        line = {"solver": solver, "how": how, "cells": str(len(rows)), "circuits_to_1e3": few}
        for name in (*CONTROLS, *OTHERS, "control:corner", "control:field"):
            over = [float(by[name]["margin"]) for by in rows.values() if name in by]
            good, usual = sum(times >= EVIDENCE for times in over), float(np.median(over or [0.0]))
            line[name.removeprefix("control:").replace("-", "_")] = (
                f"{usual:.{0 if usual >= 10 else 1}f} ({good})" if over else ""
            )
        out.append(line)
    return out


def own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seeds", type=int, metavar="N", help=f"{SEEDS} by default; fewer are a part of the claim")
    parser.add_argument("--solver", dest="some", nargs="+", metavar="NAME", help="cells of these solvers")
    parser.add_argument("--n", type=int, choices=SIZES, help="cells of one size")
    parser.add_argument("--how", choices=tuple(HOW), help="cells of one way to measure")
    parser.add_argument("--device", default="aer", help="the right one")


def main() -> int:
    options = command_line(__doc__, "only", extra=own_options)
    seeds = options.seeds or (1 if options.quick else SEEDS)
    shown = ("device", "circuits", "excess", "margin", *(f"circuits_to_{text}" for text in LEVELS.values()))
    table = Rows(f"{TITLE}_rows", options, shown)
    done = whole(table, seeds, options.quick)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what a solver says of a run that a control has spoilt
        for cell in cells(options):
            if str(cell) not in done and (solver := solver_of(cell, options.device)) is not None:
                run(table, cell, solver, seeds, controls_of(solver, options.quick))
    if path := csv_path(f"{TITLE}_summary", options):
        write_csv(path, summary(table))
    return conclude(TITLE, verdicts(table), options)


if __name__ == "__main__":
    sys.exit(main())
