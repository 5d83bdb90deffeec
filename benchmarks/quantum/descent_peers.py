"""Study: `hamiltonian-descent` and `-adiabatic` beside NWQLib's quantum Hamiltonian descent. No claim beyond its table.

The dual of the hinge without bias, a convex QP in a box, of 4 points of moons, circles and iris (as in
`hamiltonian_descent`), RBF with gamma="scale", C = 2; all circuits on Aer, exact and with 1000 shots each.

- ours: raw, 8 circuits and 20, one block of 4 variables, a qubit each;
- NWQLib: ``refine_box``, at most 8 levels of a circuit each, 4 grid points a variable in one-hot, the box's ends among
  them (16 qubits), 20 steps of a total time of 5, 0.8 of the mass kept. Of the settings that were tried (grids of 4 and
  6 points, periodic or with ends, times of 5 and 20; another problem of 4 variables) these took least for what they
  found: an excess of 1e-8 exact, where the periodic grid of 8 qubits stayed at 0.45;
- QHDOPT: not run. Version 0.0.1 wants scipy < 1.12 and, unsaid, cyipopt, which builds against Ipopt's headers; dualflow
  wants scipy ≥ 1.13. Its paper is Kushnir et al., arXiv:2409.03121; no table of it is repeated here.

Columns: excess (f − f*)/|f*| and certified relative gap of the α that comes back; circuits, shots, qubits and two-qubit
gates of the largest circuit, as Aer was given them; seconds, those of compiling included.
Needs ``pip install "dualflow[bench]" nwqlib`` and, for that, Python 3.12; what is not installed is a row that says so.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.circuit_problems import excess, gap
from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import chosen, command_line
from benchmarks.lib.machine import QUANTUM, machine, one_thread
from benchmarks.lib.tally import circuits_of_aer
from benchmarks.quantum.hamiltonian_descent import posed
from dualflow import DualProblem, solve

TITLE = "quantum/descent_peers"
N, SETS, CS, SHOTS, LEVELS, MORE, SEED = 4, ("moons", "circles", "iris"), (2.0,), 1000, 8, 20, 0
GRID, STEPS, TIME, MASS = 4, 20, 5.0, 0.8
LINES = {
    "nwqlib": 'pip install "nwqlib[aer]", with Python 3.12',
    "qhdopt": "pip install qhdopt cyipopt, with scipy < 1.12 and Ipopt's headers",
}


def ours(solver: str, circuits: int, problem: DualProblem, shots: int | None) -> NDArray:
    run = {"block": N, "device": "aer", "shots": shots, "random_state": SEED}
    return solve(problem, solver, tol=1e-14, max_steps=circuits, **run).raw_alpha


def nwqlib(problem: DualProblem, shots: int | None) -> NDArray:
    """α of NWQLib's box refinement."""
    import sympy
    from nwqlib.algorithms.qhd import QHD, BoxRefinement, refine_box
    from nwqlib.problems import Optimization

    Q, variables = problem.dense(), sympy.symbols(f"a:{N}", real=True)
    square = sum(0.5 * float(Q[i, j]) * variables[i] * variables[j] for i in range(N) for j in range(N))
    slopes = problem.gradient(np.zeros(N))
    objective = sympy.expand(square + sum(float(s) * v for s, v in zip(slopes, variables, strict=True)))
    bounds = tuple((0.0, float(u)) for u in problem.upper)
    found = refine_box(
        Optimization(objective=objective, variables=variables, bounds=bounds),
        qhd=QHD(num_grid_points=GRID, num_steps=STEPS, total_time=TIME, include_boundary_points=True),
        options=BoxRefinement(max_levels=LEVELS, point_rule="mode_or_mean", mass_threshold=MASS),
        shots=shots,
        seed=SEED,
    )
    return np.array(found.candidate, dtype=float)


#: Name, package, and what returns α; None where it is not run.
ENTRANTS: tuple[tuple[str, str, Callable[..., NDArray] | None], ...] = (
    *(
        (f"{s}, {k} circuits", "", partial(ours, s, k))
        for s in ("hamiltonian-descent", "hamiltonian-adiabatic")
        for k in (LEVELS, MORE)
    ),
    ("NWQLib refine_box", "nwqlib", nwqlib),
    ("QHDOPT", "qhdopt", None),
)


def measured(entrant: Callable[..., NDArray], problem: DualProblem, least: float, shots: int | None) -> dict[str, Any]:
    """The columns of one entrant on one problem."""
    begun = time.perf_counter()
    with circuits_of_aer() as tally:
        alpha = entrant(problem, shots)
    seconds = time.perf_counter() - begun
    return {"excess": excess(problem, alpha, least), "gap": gap(problem, alpha), **tally, "seconds": seconds}


def main() -> int:
    options = command_line(__doc__, "only")
    one_thread()
    print(f"{TITLE}: {machine(*QUANTUM)}, one thread")
    warnings.simplefilter("ignore")
    table, found = Rows(f"{TITLE}_rows", options), {}
    cases = [(name, C, shots) for name in SETS for C in CS for shots in (None, SHOTS)]
    for name, C, shots in cases[: 2 if options.quick else None]:
        posed_one = posed("no bias", name, N, C, SEED)
        problem, least = posed_one.problem, posed_one.optimum
        mode = "exact" if shots is None else f"{shots} shots"
        for peer, package, entrant in ENTRANTS:
            row = f"{name}, C = {C:g}, {mode}: {peer}"
            if not chosen(row, options.only):
                continue
            if entrant is None or (package and importlib.util.find_spec(package) is None):
                table.add(row, note=f"not run: {LINES[package]}")
                continue
            columns = measured(entrant, problem, least, shots)
            found.setdefault((peer, mode), []).append((row, columns))
            table.add(row, **columns)
    verdicts = []
    for (peer, mode), cells in found.items():
        what = f"{peer}, {mode}"
        values = [columns["excess"] for _, columns in cells]
        largest = {name: max(c[name] for _, c in cells) for name in ("circuits", "qubits", "two_qubit_gates", "shots")}
        case = f"the worst {max(values):.2g}; at most {', '.join(f'{v} {k}' for k, v in largest.items())}".replace(
            "_", "-"
        )
        verdicts.append(Verdict("shown", what, "excess, the median", float(np.median(values)), case=case))
        seconds = float(np.median([columns["seconds"] for _, columns in cells]))
        verdicts.append(Verdict("shown", what, "seconds, the median", seconds, unit="s"))
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
