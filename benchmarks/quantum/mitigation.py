"""Study: error mitigation at equal total shots: excess over the shot floor of five solvers on three fake machines.

n = 8, moons, RBF with gamma="scale", C = 10; 200 000 shots a run, calibration included (`shot_budget`), 2000 a
circuit; five seeds; Hamiltonian solvers in blocks of 3, adiabatic by 10 Trotter steps, descent by 30. The machines: a
square lattice of 2025 (fake_nighthawk), a line (fake_santiago) and an H of 2021 (fake_lagos), compiled at level 3.
Counts are drawn from the exact distribution of the gates' channels (`benchmarks.lib.noisy_machine`, tested against
Aer's).

- no noise: the emulator, what the budget alone allows; none: the machine as it is;
- mthree: the read-out of each qubit calibrated and inverted; circuit: the circuit itself calibrated at known outcomes,
  where it has such angles (both as `mitigation=`, by at least 10 000 shots a calibration circuit);
- zero noise: half of the shots with each two-qubit gate threefold, p(0) = (3 p(1) − p(3))/2, the nearest distribution;
- twirling: 16 variants with random Paulis around two-qubit gates and before the read-out, which cost no gates here;
- idle: no mitigation, but idle qubits relax (the machines' simulators leave that out); decoupling: the same with X X on
  idle qubits. The relaxation has no memory, which decoupling cannot undo: its row shows what its gates cost, no more.

Columns: excess (f − f*)/|f*| of the raw answer over the floor, the median excess of the optimum itself measured with
all 200 000 shots (9 draws): median, least and largest of the seeds. "not applicable" has its reason in the rows.
Needs ``pip install "dualflow[ibm,mitigation]"``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.lib.circuit_problems import C, first_gram, first_problem
from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import chosen, command_line
from benchmarks.lib.machine import QUANTUM, machine, one_thread
from benchmarks.lib.noisy_machine import NoisyMachine
from dualflow import DualProblem, ProblemError, problems, solve
from dualflow.comparison.rows import floors_of
from dualflow.core.certificate import Certifier
from dualflow.solvers.registry import solver_class

TITLE = "quantum/mitigation"
N, BUDGET, SHOTS, SEEDS = 8, 200_000, 2000, 5
MACHINES = ("fake_nighthawk", "fake_santiago", "fake_lagos")
#: Option of the solver, and what the machine does to circuits.
METHODS: dict[str, tuple[str | None, str]] = {
    "no noise": (None, ""),
    "none": (None, "plain"),
    "mthree": ("mthree", "plain"),
    "circuit": ("circuit", "plain"),
    "zero noise": (None, "folded"),
    "twirling": (None, "twirled"),
    "idle": (None, "idle"),
    "decoupling": (None, "decoupled"),
}
#: Model and options of each solver.
SOLVERS: dict[str, tuple[str, dict[str, Any]]] = {
    "variational-flow": ("L2-SVM", {"steps": 200}),
    "variational-lotka-volterra": ("hinge", {"steps": 200}),
    "hamiltonian-dilation": ("L2-SVM", {}),
    "hamiltonian-adiabatic": ("hinge", {"block": 3, "trotter_steps": 10, "max_blocks": 200}),
    "hamiltonian-descent": ("hinge", {"block": 3, "trotter_steps": 30, "max_blocks": 200}),
}


def build(kind: str) -> DualProblem:
    if kind != "hinge":
        return first_problem("moons", N, kind)
    gram, y = first_gram("moons", N)
    return problems.svc(gram, y, C)


def run(problem: DualProblem, solver: str, device: Any, mitigation: str | None, seed: int) -> tuple[float, int]:
    """Objective of the raw answer, and the shots it took."""
    found = solve(
        problem,
        solver,
        tol=1e-14,
        refine=False,
        random_state=seed,
        device=device,
        mitigation=mitigation,
        shots=SHOTS,
        shot_budget=BUDGET,
        **SOLVERS[solver][1],
    )
    assert found.raw_certificate is not None
    return found.raw_certificate.objective, found.cost.shots


def measured(
    problem: DualProblem,
    least: float,
    floor: float,
    solver: str,
    device: NoisyMachine,
    mitigation: str | None,
    seeds: int,
) -> dict[str, Any]:
    """Excess over the floor of all seeds."""
    try:
        found = [run(problem, solver, device, mitigation, seed) for seed in range(seeds)]
    except ProblemError as error:
        if not str(error).startswith("mitigation="):  # the circuit has no known angles for this method
            raise
        return {"median": "not applicable", "low": "", "high": "", "shots": "", "floor": floor, "reason": str(error)}
    over = [(f - least) / abs(least) / floor for f, _ in found]
    shots = float(np.median([shots for _, shots in found]))
    return {"median": float(np.median(over)), "low": min(over), "high": max(over), "shots": shots, "floor": floor}


def verdicts(rows: Sequence[dict[str, Any]]) -> list[Verdict]:
    """For each method, the geometric mean of the median over that of no mitigation, over solvers and machines."""
    cells = {tuple(row["case"].split(": ")): row["median"] for row in rows}
    out = []
    for method in METHODS:
        base = "idle" if method == "decoupling" else "none"
        pairs = [
            (value, cells[where, solver, base])
            for (where, solver, name), value in cells.items()
            if name == method and not isinstance(value, str) and (where, solver, base) in cells
        ]
        if not pairs or method in (base, "no noise"):
            continue
        ratios = np.log([own / other for own, other in pairs])
        better = sum(own < other for own, other in pairs)
        note = f"better in {better} of {len(pairs)} cells"
        out.append(
            Verdict("shown", method, f"excess over that with {base}, mean", float(np.exp(ratios.mean())), note=note)
        )
    return out


def main() -> int:
    options = command_line(__doc__, "only")
    one_thread()
    print(f"{TITLE}: {machine(*QUANTUM, 'mthree')}, one thread")
    warnings.simplefilter("ignore")
    table = Rows(f"{TITLE}_rows", options)
    posed = {kind: build(kind) for kind, _ in SOLVERS.values()}
    best = {kind: solve(problem, "working-set", tol=1e-12, refine=True) for kind, problem in posed.items()}
    devices = {(name, way): NoisyMachine(name, way) for name in MACHINES for _, way in METHODS.values() if way}
    for name in MACHINES[: 1 if options.quick else None]:
        for solver, (kind, _) in SOLVERS.items():
            problem = posed[kind]
            floors = floors_of(Certifier(problem), best[kind].alpha, BUDGET, 0, solver_class(solver).encoding)
            assert floors is not None
            for method, (mitigation, way) in METHODS.items():
                row = f"{name}: {solver}: {method}"
                if not chosen(row, options.only):
                    continue
                least, seeds = best[kind].certificate.objective, 2 if options.quick else SEEDS
                device = devices[name, way] if way else "emulator"
                columns = measured(problem, least, floors[1], solver, device, mitigation, seeds)
                table.add(row, **columns)
    return conclude(TITLE, verdicts(table.lines), options)


if __name__ == "__main__":
    sys.exit(main())
