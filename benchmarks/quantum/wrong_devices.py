"""Devices that are wrong on purpose are noticed, or do no harm; right devices raise no alarm.

Two moons (noise 0.15, seed 3), RBF with gamma = 2, C = 10; n = 8 and 16; 2000 shots a circuit (`hhl` reads exact
distributions); three seeds. A wrong device counts as noticed where the run ends NOISE_DOMINATED, or warns: of a
fidelity below 0.5, or of read-outs that a right device has in one of 10⁹ runs (χ²; of exact ones, a distance above
1e-4). It is harmless where the raw answer's excess (f − f*)/|f*| is below 1 %, or where every batch is one circuit and
the fault is in the order of a batch. All else is missed.

``--page`` writes the table into docs/explanation/evidence.md; ``--kept FILE`` keeps the rows, and goes on from those
it finds. ``--cost`` measures instead what a right run costs more by the comparison and the guard around its device
together: paired and alternating, processor time, medians; asked are 5 % of the run or 60 ms.
"""

import argparse
import itertools
import json
import operator
import os
import re
import statistics
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from sklearn.datasets import make_moons

from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import chosen, command_line
from dualflow import FidelityWarning, Gram, problems, solve
from dualflow.quantum.runs.guarded import Guarded
from dualflow.quantum.runs.laboratory import Laboratory
from dualflow.testing import WRONG_DEVICES, WrongDevice

TITLE = "quantum/wrong_devices"
SHOTS, MAX_EXCESS = 2000, 0.01
SIZES, SEEDS = (8, 16), (1, 2, 3)
#: Options of the problem for each solver that takes shots.
SOLVERS: dict[str, dict[str, Any]] = {
    "variational-flow": {"loss": "squared_hinge"},
    "variational-lotka-volterra": {},
    "hamiltonian-dilation": {"loss": "squared_hinge"},
    "hamiltonian-descent": {},
    "hamiltonian-adiabatic": {},
    "hhl": {},
    "hamiltonian-schrodingerisation": {"loss": "squared_hinge"},
    "hamiltonian-lchs": {"loss": "squared_hinge"},
}
#: Solvers whose runs of 16 variables take seconds: their cost is measured on 8.
LONG = ("hhl", "hamiltonian-schrodingerisation", "hamiltonian-lchs")
#: Pairs of runs; part of a run's time, and seconds, one of which the comparison and the guard may cost.
PAIRS, MOST_SHARE, MOST_S = 9, 0.05, 0.06
SWAPPED = "results of a batch swapped"
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "evidence.md"
BEGIN, END = "<!-- made by python -m benchmarks.quantum.wrong_devices --page -->", "<!-- end of the table -->"


def run(solver: str, device: str, n: int, seed: int) -> dict[str, Any]:
    """A row of the table."""
    problem = posed(solver, n)
    peer = "gradient-flow" if solver == "hhl" else "working-set"
    least = solve(problem, peer, tol=1e-10, refine=True).certificate.objective
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = solve(
            problem,
            solver,
            device=WrongDevice(device) if device in WRONG_DEVICES else device,
            random_state=seed,
            **({} if solver == "hhl" else {"shots": SHOTS}),
        )
    fidelity = found.provenance["fidelity"]
    excess = (problem.objective(problem.project(found.raw_alpha)) - least) / abs(least)
    warned = any(w.category is FidelityWarning for w in caught)
    if found.raw_status.name == "NOISE_DOMINATED":
        noticed = "noise"
    elif warned:
        noticed = "fidelity" if fidelity["low"] else "distance" if fidelity["p_value"] is None else "χ²"
    else:
        noticed = ""
    harmless = excess < MAX_EXCESS or device == SWAPPED
    return {
        "solver": solver,
        "device": device,
        "n": n,
        "seed": seed,
        "slope": fidelity["slope"],
        "deviation": fidelity["deviation"],
        "chi_square_per_degree": fidelity["chi_square_per_degree"],
        "p_value": fidelity["p_value"],
        "excess": float(excess),
        "verdict": noticed or ("harmless" if harmless else "missed"),
    }


def found_in(file: Path | None) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The rows that a file keeps, by solver, device, n and seed."""
    if file is None or not file.exists():
        return {}
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return {(row["solver"], row["device"], row["n"], row["seed"]): row for row in rows}


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
            ends = dict.fromkeys(f"{end + 0.0:.2f}".replace("-0.00", "0.00") for end in (min(slopes), max(slopes)))
            cells.append(f"{words}; {' … '.join(ends)}" if slopes else words)
        lines.append(f"| {'none: Aer' if device == 'aer' else device} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


@contextmanager
def without() -> Iterator[None]:
    """Runs whose read-outs are not compared, and whose device is not guarded."""
    compared, call = Laboratory._compared, Guarded.call

    def unguarded(self: Guarded, doing: str, run: Callable[[], Any], sent: bool | None = False) -> Any:
        return run()

    try:
        Laboratory._compared = lambda self, account, *arguments: account  # type: ignore[method-assign]
        Guarded.call = unguarded  # type: ignore[method-assign]
        yield
    finally:
        Laboratory._compared, Guarded.call = compared, call  # type: ignore[method-assign]


def cost(options: argparse.Namespace) -> int:
    """Seconds of right runs with and without the comparison and the guard."""
    verdicts, table = [], Rows(f"{TITLE}_cost_rows", options)
    for solver, device in itertools.product(SOLVERS, ("emulator", "aer")):
        n = SIZES[0] if solver in LONG else SIZES[-1]
        case = f"{solver}, {device}, n = {n}"
        if not chosen(case, options.only):
            continue
        problem = posed(solver, n)
        given = {"device": device, "random_state": 1} | ({} if solver == "hhl" else {"shots": SHOTS})
        took: dict[str, list[float]] = {"with": [], "without": []}
        for pair in range(1 + (PAIRS if not options.quick else 3)):
            for way in took:
                with nullcontext() if way == "with" else without(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    begun = time.process_time()
                    solve(problem, solver, **given)
                    if pair:  # the first pays for what is imported
                        took[way].append(time.process_time() - begun)
        bare = statistics.median(took["without"])
        more = statistics.median(map(operator.sub, took["with"], took["without"]))
        table.add(case, solver=solver, device=device, n=n, without_s=bare, more_s=more)
        over = min(more / bare / MOST_SHARE, more / MOST_S)
        verdicts.append(Verdict("must", "comparison and guard", "of what they may cost", over, "<=", 1.0, case=case))
    return conclude(TITLE, verdicts, options)


def posed(solver: str, n: int) -> Any:
    """The problem of a row."""
    X, t = make_moons(n, noise=0.15, random_state=3)
    make = problems.least_squares if solver == "hhl" else problems.svc
    return make(Gram(X, "rbf", gamma=2.0), 2 * t - 1, C=10.0, **SOLVERS[solver])


def main() -> int:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--page", action="store_true", help="write docs/explanation/evidence.md")
        parser.add_argument("--kept", type=Path, metavar="FILE", help="keeps rows, a JSON object a line")
        parser.add_argument("--cost", action="store_true", help="what it costs, instead")

    options = command_line(__doc__, "only", extra=more)
    if options.cost:
        return cost(options)
    table = Rows(f"{TITLE}_rows", options)
    sizes, seeds = (SIZES[:1], SEEDS[:1]) if options.quick else (SIZES, SEEDS)
    rows, kept = [], found_in(options.kept)
    for n, solver, device, seed in itertools.product(sizes, SOLVERS, ("aer", *WRONG_DEVICES), seeds):
        row = kept.get((solver, device, n, seed))
        if row is None:
            row = run(solver, device, n, seed)
            if options.kept is not None:
                with options.kept.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
        rows.append(table.add(f"{solver}, {device}, n = {n}, seed {seed}", **row))
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
