"""Claim: what a sampled run delivers is within 3 × the shot floor of all the shots it took.

One yardstick: the excess (f − f*)/|f*| of the raw answer, over the excess of the exact optimum itself, sampled once
with as many shots as the whole run took (median of 101 draws), read as the solver reads its circuits. Beside it the
certified relative gap, over the gap of the same draws. Five solvers with 10 000 shots a circuit and their default
steps, on all they take of hinge, hinge without bias, L2 (C = 1, 10, 100), hard SVDD and one-class (ν = 1/2; neither
has a C); moons, circles, iris, wine, breast cancer, n = 8 and 16, RBF with gamma="scale": the problems of
`quantum/controls`. Emulated, which agrees with Aer to 1e-12; medians of the seeds 0 to 4.

- each solver: within 3 floors in ≥ 90 % of its cells; the others are listed
- beside each cell the null device, one seed

Run again with the same --csv it goes on with the rows that are missing. ``--quick`` is moons, n = 8, C = 1, one seed.
``--shots`` asks for another number of shots a circuit, ``--n`` for one size.
"""

import argparse
import os
import sys
from itertools import product
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.circuit_problems import excess, gap
from benchmarks.lib.claims import Rows, Verdict, conclude, csv_path
from benchmarks.lib.command import chosen, command_line
from benchmarks.quantum.controls import COSTS, DATA, MODELS, SIZES, problem
from dualflow import DualflowError, solve
from dualflow.core.shot_floor import sampled
from dualflow.solvers.registry import make_solver
from dualflow.testing import ZooProblem

TITLE = "quantum/shot_floor"
SOLVERS = (
    "variational-flow", "variational-lotka-volterra", "hamiltonian-dilation", "hamiltonian-schrodingerisation",
    "hamiltonian-lchs",
)  # fmt: skip
#: The right device: the same distributions as Aer's, in less time.
RIGHT = "emulator"
SHOTS, SEEDS, DRAWS, FACTOR, ASKED = 10_000, 5, 101, 3.0, 0.9
SHOWN = (
    "circuits",
    "shots",
    "excess",
    "excess_floor",
    "excess_floors",
    "gap",
    "gap_floor",
    "gap_floors",
    "null_floors",
)


def medians(z: ZooProblem, answers: list[NDArray]) -> tuple[float, float]:
    """Of excess and gap."""
    return (
        float(np.median([excess(z.problem, alpha, z.optimum) for alpha in answers])),
        float(np.median([gap(z.problem, alpha) for alpha in answers])),
    )


def run(table: Rows, case: str, name: str, model: str, data: str, n: int, C: float, shots: int, seeds: int) -> None:
    """A row, if the solver takes the problem."""
    z = problem(model, data, n, C)
    solver: Any = make_solver(name, {"device": RIGHT, "shots": shots})
    try:
        solver.check(z.problem)
    except DualflowError:
        return
    runs = [solve(z.problem, solver, random_state=seed, tol=1e-12) for seed in range(seeds)]
    try:
        null = medians(z, [solve(z.problem, name, device="null", shots=shots, tol=1e-12).raw_alpha])[0]
    except DualflowError:  # nothing that it keeps
        null = float("inf")
    cost, rng = runs[0].cost, np.random.default_rng(20261122)
    assert z.alpha is not None
    assert cost.shots
    draws = [sampled(z.problem, z.alpha, cost.shots, rng, solver.encoding) for _ in range(DRAWS)]
    (own, own_gap), (floor, gap_floor) = medians(z, [one.raw_alpha for one in runs]), medians(z, draws)
    table.add(
        case,
        solver=name,
        model=model,
        data=data,
        n=n,
        C=C,
        seeds=seeds,
        circuits=cost.circuits,
        shots=cost.shots,
        excess=own,
        excess_floor=floor,
        excess_floors=own / floor,
        gap=own_gap,
        gap_floor=gap_floor,
        gap_floors=own_gap / gap_floor,
        null_floors=null / floor,
    )


def verdicts(table: Rows) -> list[Verdict]:
    """A line a solver: its share of cells within the floors asked for."""
    out = []
    for name in SOLVERS:
        found = {row["case"]: float(row["excess_floors"]) for row in table.lines if row["solver"] == name}
        if not found:
            continue
        beyond = {case: floors for case, floors in found.items() if not floors <= FACTOR}
        for case, floors in beyond.items():
            print(f"beyond {FACTOR:g} floors: {case}: {floors:.3g}")
        inside = len(found) - len(beyond)
        note = f"{inside} of {len(found)} cells, median {np.median(list(found.values())):.2g} floors"
        what = f"within {FACTOR:g} floors of all shots, excess: share of cells"
        out.append(Verdict("must", name, what, inside / len(found), ">=", ASKED, note=note))
        null = [float(row["null_floors"]) for row in table.lines if row["solver"] == name]
        out.append(Verdict("shown", f"{name}, null device", "median excess, floors", float(np.median(null))))
    return out


def own_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--shots", type=int, metavar="N", help=f"of a circuit; {SHOTS} by default")
    parser.add_argument("--n", type=int, choices=SIZES, help="cells of one size")


def main() -> int:
    options = command_line(__doc__, "only", extra=own_options)
    table = Rows(f"{TITLE}_rows", options, SHOWN)
    if csv_path(TITLE, options):
        table.resume()
    done = {row["case"] for row in table.lines}
    sizes, names, costs = ((8,), DATA[:1], COSTS[:1]) if options.quick else (SIZES, DATA, COSTS)
    sizes = (options.n,) if options.n else sizes
    shots = options.shots or SHOTS
    for data, solver, model, n, C in product(names, SOLVERS, MODELS, sizes, costs):
        single = model in ("SVDD", "one-class")
        case = f"{solver}, {model}, {data}, n = {n}" + ("" if single else f", C = {C:g}")
        case += f", {shots} shots" if options.shots else ""
        if (not single or costs[0] == C) and chosen(case, options.only) and case not in done:
            run(table, case, solver, model, data, n, C, shots, 1 if options.quick else SEEDS)
    return conclude(TITLE, verdicts(table), options)


if __name__ == "__main__":
    sys.exit(main())
