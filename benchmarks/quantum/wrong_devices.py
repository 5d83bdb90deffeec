"""Devices that are wrong on purpose are noticed, or do no harm; right devices raise no alarm.

Two moons (noise 0.15, seed 3), RBF with gamma = 2, C = 10; n = 8 and 16; 2000 shots a circuit; three seeds. A wrong
device counts as noticed where the run ends DROWNED, warns of a fidelity below 0.5, or has read-outs whose χ² against
their circuits a right device exceeds once in 10⁹ runs; as harmless where the raw answer's excess (f − f*)/|f*| is below
1 %, or where every batch is one circuit and the fault is in the order of a batch. All else is missed.

``--page`` writes the table into docs/evidence.md.
"""

import os
import re
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from sklearn.datasets import make_moons

from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import command_line
from dualflow import FidelityWarning, Gram, problems, solve
from dualflow.testing import WRONG_DEVICES, WrongDevice

TITLE = "quantum/wrong_devices"
SHOTS, MIN_P_VALUE, MAX_EXCESS = 2000, 1e-9, 0.01
SIZES, SEEDS = (8, 16), (1, 2, 3)
#: Options of the problem for each solver that takes shots.
SOLVERS: dict[str, dict[str, Any]] = {
    "variational-flow": {"loss": "squared_hinge"},
    "variational-lotka-volterra": {},
    "hamiltonian-dilation": {"loss": "squared_hinge"},
    "hamiltonian-descent": {},
    "hamiltonian-adiabatic": {},
    "hamiltonian-schrodingerisation": {"loss": "squared_hinge"},
    "hamiltonian-lchs": {"loss": "squared_hinge"},
}
SWAPPED = "results of a batch swapped"
PAGE = Path(__file__).parents[2] / "docs" / "evidence.md"
BEGIN, END = "<!-- made by python -m benchmarks.quantum.wrong_devices --page -->", "<!-- end of the table -->"


def run(table: Rows, solver: str, device: str, n: int, seed: int) -> dict[str, Any]:
    X, t = make_moons(n, noise=0.15, random_state=3)
    problem = problems.svc(Gram(X, "rbf", gamma=2.0), 2 * t - 1, C=10.0, **SOLVERS[solver])
    least = solve(problem, tol=1e-10, refine=True).certificate.objective
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = solve(
            problem,
            solver,
            device=WrongDevice(device) if device in WRONG_DEVICES else device,
            shots=SHOTS,
            random_state=seed,
        )
    fidelity = found.provenance["fidelity"]
    excess = (problem.objective(problem.project(found.raw_alpha)) - least) / abs(least)
    warned = any(w.category is FidelityWarning for w in caught)
    drowned = found.raw_status.name == "DROWNED"
    improbable = fidelity["p_value"] is not None and fidelity["p_value"] < MIN_P_VALUE
    noticed = "noise" if drowned else "warning" if warned else "χ²" if improbable else ""
    harmless = excess < MAX_EXCESS or (device == SWAPPED and not improbable)
    return table.add(
        f"{solver}, {device}, n = {n}, seed {seed}",
        solver=solver,
        device=device,
        n=n,
        seed=seed,
        slope=fidelity["slope"],
        deviation=fidelity["deviation"],
        chi_square_per_degree=fidelity["chi_square_per_degree"],
        p_value=fidelity["p_value"],
        excess=float(excess),
        verdict=noticed or ("harmless" if harmless else "missed"),
    )


def page(rows: list[dict[str, Any]]) -> str:
    """Verdicts and the range of slopes, a line a wrong device and a column a solver."""
    lines = [
        "| wrong device | " + " | ".join(f"`{name}`" for name in SOLVERS) + " |",
        "|---" * (len(SOLVERS) + 1) + "|",
    ]
    for device in ("aer", *WRONG_DEVICES):
        cells = []
        for solver in SOLVERS:
            own = [row for row in rows if row["solver"] == solver and row["device"] == device]
            slopes = [row["slope"] for row in own if row["slope"] is not None]
            counted = Counter(row["verdict"] for row in own)
            words = (
                ", ".join(sorted(counted))
                if device != "aer"
                else "no alarm"
                if set(counted) <= {"harmless", "missed"}
                else "alarm"
            )
            cells.append(f"{words}; {min(slopes):.2f} … {max(slopes):.2f}" if slopes else words)
        lines.append(f"| {'none: Aer' if device == 'aer' else device} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    options = command_line(
        __doc__, extra=lambda parser: parser.add_argument("--page", action="store_true", help="write docs/evidence.md")
    )
    table = Rows(f"{TITLE}_rows", options)
    sizes, seeds = (SIZES[:1], SEEDS[:1]) if options.quick else (SIZES, SEEDS)
    rows = [
        run(table, solver, device, n, seed)
        for solver in SOLVERS
        for device in ("aer", *WRONG_DEVICES)
        for n in sizes
        for seed in seeds
    ]
    wrong = [row for row in rows if row["device"] != "aer"]
    right = [row for row in rows if row["device"] == "aer"]
    missed = [row for row in wrong if row["verdict"] == "missed"]
    alarms = [row for row in right if row["verdict"] not in ("harmless", "missed")]
    if options.page:
        made = f"{BEGIN}\n{page(rows)}\n{END}"
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(
            re.sub(f"{re.escape(BEGIN)}.*?{re.escape(END)}", lambda _: made, text, flags=re.DOTALL), encoding="utf-8"
        )
    worst = "; ".join(f"{row['solver']}, {row['device']}, n = {row['n']}" for row in missed[:3])
    return conclude(
        TITLE,
        [
            Verdict("must", "wrong devices", "share missed", len(missed) / len(wrong), "<=", 0.02, case=worst),
            Verdict("must", "right device", "runs with an alarm", len(alarms), "<=", 0.0),
        ],
        options,
    )


if __name__ == "__main__":
    sys.exit(main())
