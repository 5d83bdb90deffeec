"""Every quantum solver beside all its controls: gap, excess, floor, support, against n, shots, noise; what papers say.

A small grid of `benchmarks.quantum.controls`, by its code (the whole one takes ten hours): moons, RBF with
gamma="scale", C = 10, n = 4 and 8; the squared hinge for solvers of the simplex, the hinge for those of boxes, least
squares for `hhl`.

    exact     emulated (Aer's distributions, to 1e-12, in less time), to an excess (f − f*)/|f*| of 1e-3
    sampled   10 000 shots a circuit
    noisy     aer:noisy (depolarising 1e-3 a gate, read-out 1 %), 10 000 shots, for circuits of at most 8 qubits and
              500 two-qubit gates: those of the linearised solvers take 10 s and more each as density matrices

A row of `_controls_rows.csv` is a solver on its device or on a control (`docs/explanation/evidence.md`), medians of the
seeds, with its margin: how many times fewer circuits than the control, or how many times nearer. Judged is the median
margin over *every* control in every cell, 5 being asked for, and 5 times the circuits granted to a control; but for the
classical sampler, which has the circuits' own distributions, and shuffled angles where a circuit has none. A row of
`_rows.csv` is a solver's default run to the end of its budget, exact (or to a gap of 1e-6), with 100, 1000 and 10 000
shots a circuit, and the last with noise: the certified gap and the excess of the raw answer, beside those of the exact
optimum sampled once with all shots of the run (101 draws; for the five solvers of `benchmarks.quantum.shot_floor`); the
support it is read as; what a circuit takes. `variational-dqc`, which takes 30 000 circuits, is shown at n = 4. Every
row names its seeds and versions.

What the papers of these ways state without a device, right or not, is tried by `benchmarks.lib.quantum_identities`.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import dualflow
from benchmarks.lib.circuit_problems import spent
from benchmarks.lib.claims import Rows
from benchmarks.lib.findings import Finding, by, main
from benchmarks.lib.quantum_identities import identities
from benchmarks.quantum import controls, shot_floor
from dualflow import Kind, list_solvers, solve
from dualflow.core.evidence import EVIDENCE
from dualflow.core.shot_floor import sampled
from dualflow.refinement.refine import support_set
from dualflow.solvers.registry import make_solver, solver_class

TITLE = "papers/quantum"
DATA, SIZES, C, SEEDS, SHOTS = "moons", (4, 8), 10.0, 3, (100, 1000, 10_000)
RIGHT, NOISY, MOST_QUBITS, MOST_GATES = shot_floor.RIGHT, "aer:noisy", 8, 500
#: Controls that have the circuit's own distribution.
SAME = {"classical-sampler": "", "control:shuffled": "hhl"}
#: What those know that do not decide (docs/explanation/evidence.md).
KNOWS = {
    "control:permuted": "does as well: outcomes that are permuted still answer to the angles",
    "control:shuffled": "does as well: outcomes at shuffled angles still answer to them",
    "control:corner": "is nearly as good, for it knows the Hamiltonian: the best corner by enumeration",
    "control:field": "is nearly as good, for it knows the Hamiltonian: signs of local fields",
}
#: Floors that a sampled answer may be off by; and the excess of one from exact distributions.
FLOORS, FINE = shot_floor.FACTOR, controls.FINEST
#: What takes 30 000 circuits: n = 4 alone, one seed.
LONG = ("variational-dqc",)
#: Whose way each is.
PAPERS = {
    "hamiltonian-schrodingerisation": "Jin, Liu & Yu",
    "hamiltonian-lchs": "An, Liu & Lin",
    "hhl": "Harrow, Hassidim & Lloyd",
    "hamiltonian-descent": "Leng et al.",
    "hamiltonian-adiabatic": "Srivastava & Sundararaghavan",
    "variational-dqc": "Kyriienko et al.",
    "variational-flow": "Bauckhage's flow",
    "hamiltonian-dilation": "Bauckhage's flow",
    "variational-lotka-volterra": "Howell's flow",
    "quantum-invasion": "Howell's invasion",
}
VERSIONS = ", ".join(
    [f"dualflow {dualflow.__version__}", *(f"{name} {version(name)}" for name in ("qiskit", "qiskit-aer", "numpy"))]
)


class Stamped(Rows):
    """Rows with the versions of what they were measured with."""

    def add(self, case: str, **columns: Any) -> dict[str, Any]:
        return super().add(case, **columns, versions=VERSIONS)


class Noisy(controls.Cell):
    """A cell whose device is noisy."""

    def __str__(self) -> str:
        return f"{super().__str__()}, noisy"


def names() -> list[str]:
    return [info.name for info in list_solvers() if info.quantum and not info.install]


def model_of(name: str) -> str:
    """The problem that a solver is shown on."""
    kinds = solver_class(name).kinds
    return "L2" if Kind.SIMPLEX in kinds else "least squares" if Kind.AFFINE in kinds else "hinge"


def cells(name: str, quick: bool, noisy: set[int]) -> Iterator[tuple[str, controls.Cell, Any]]:
    """How, the cell and the solver, where it takes it; ``noisy`` are the n with noise."""
    for n in SIZES[: 1 if quick or name in LONG else None]:
        about = (name, model_of(name), DATA, n, C)
        ways = {"exact": controls.Cell(*about, None)}
        if not quick:
            ways["sampled"] = controls.Cell(*about, SHOTS[-1])
        if n in noisy:
            ways["noisy"] = Noisy(*about, SHOTS[-1])
        for how, cell in ways.items():
            if (solver := controls.solver_of(cell, NOISY if how == "noisy" else RIGHT)) is not None:
                yield how, cell, solver


def ending(table: Rows, name: str, n: int, shots: int | None, seeds: int, on: str = RIGHT) -> dict[str, Any]:
    """A row: medians of default runs, and what the first took."""
    z = controls.problem(model_of(name), DATA, n, C)
    solver: Any = make_solver(name, {"device": on} | ({} if shots is None else {"shots": shots}))
    runs = [solve(z.problem, solver, random_state=seed, tol=1e-6) for seed in range(seeds)]
    own, gap = shot_floor.medians(z, [run.raw_alpha for run in runs])
    row: dict[str, Any] = {"gap": gap, "excess": own, "floors": None, "gap_floor": None, "excess_floor": None}
    assert z.alpha is not None
    if name in shot_floor.SOLVERS and (all_shots := runs[0].cost.shots):
        rng = np.random.default_rng(0)
        draws = [sampled(z.problem, z.alpha, all_shots, rng, solver.encoding) for _ in range(shot_floor.DRAWS)]
        row["excess_floor"], row["gap_floor"] = shot_floor.medians(z, draws)
        row["floors"] = own / row["excess_floor"]
    support = [wrong_support(z, run.raw_alpha) for run in runs]
    about = {
        "solver": name,
        "model": model_of(name),
        "n": n,
        "device": on,
        "shots_each": shots,
        "seeds": f"0 to {seeds - 1}",
    }
    row |= {"support_errors": None if None in support else float(np.median(support)), **spent(runs[0])}
    how = ("exact" if shots is None else f"{shots} shots") + (", noisy" if on == NOISY else "")
    return table.add(f"{name}, n = {n}, {how}", **about, **row)


def wrong_support(z: Any, alpha: Any) -> Any:
    """Points wrongly in or out of the support; None where every point is in it."""
    if z.problem.kind is Kind.AFFINE:
        return None
    true, read = (set(support_set(z.problem, a).tolist()) for a in (z.alpha, z.problem.project(alpha)))
    return len(true ^ read)


def evidence(name: str, how: str, rows: list[dict[str, Any]], seeds: int) -> Finding:
    """The least margin over any control, of all cells of a way to measure."""
    right = [row for row in rows if row["margin"] is None]
    counted = [row for row in rows if row not in right and SAME.get(row["device"], "none") not in ("", name)]
    worst = min(counted, key=lambda row: row["margin"])
    excess = ", ".join(f"{row['excess']:.1e}" if row["excess"] is not None else "no answer" for row in right)
    many = f"{len(right)} cell{'s' * (len(right) > 1)}, {seeds} seed{'s' * (seeds > 1)}"
    gets = f"excess {excess}; least margin {worst['margin']:.3g}, over {worst['device']}; {many}"
    beyond = dict.fromkeys(row["device"] for row in counted if row["margin"] < EVIDENCE)
    why = "; ".join(f"{control} {KNOWS.get(control, 'does as well')}" for control in beyond)
    says = f"circuits do it; asked: ≥ {EVIDENCE:g} × every control"
    return Finding(PAPERS.get(name, name), f"{name}, {how}", says, gets, seed=0, **by(not beyond, why))


def endings(name: str, rows: list[dict[str, Any]]) -> Iterator[Finding]:
    """Of default runs: the exact ones, the floors, the support."""
    where = PAPERS.get(name, name)
    clean = [row for row in rows if row["device"] != NOISY]
    exact, last = [row for row in clean if not row["shots_each"]], clean[-1]
    text = ", ".join(f"{row['gap']:.1e} (excess {max(0.0, row['excess']):.1e})" for row in exact)
    took = f"n = {last['n']}: {last['qubits']} qubits, depth {last['depth']}, {last['two_qubit_gates']} two-qubit gates"
    agrees = by(max(row["excess"] for row in exact) <= FINE, f"its own end is above {FINE:g}")
    yield Finding(where, f"{name}, exact: gaps", f"f* to {FINE:g}", f"{text}; {took}", seed=0, **agrees)
    shots = [row for row in clean if row["shots_each"]]
    if shots and shots[-1]["floors"] is not None:
        most = max((row for row in shots if row["shots_each"] == SHOTS[-1]), key=lambda row: row["floors"])
        fewer = min(row["floors"] for row in shots if row["n"] == most["n"])
        why = "steps run out before shots do: with fewer shots it is within" if fewer <= FLOORS else "with any shots"
        agrees = by(most["floors"] <= FLOORS, why)
        what, says = f"{name}, excess with {SHOTS[-1]} shots a circuit", f"≤ {FLOORS:g} floors of all shots"
        yield Finding(where, what, says, by_size(shots, "floors"), seed=0, **agrees)
    if any(row["support_errors"] is not None for row in rows):
        right = all(not row["support_errors"] for row in clean if row["shots_each"] in (None, SHOTS[-1]))
        agrees = by(right, "a measured state is not near enough: the support is read after refinement")
        text, what = by_size(rows, "support_errors"), f"{name}, points wrongly in or out of the support"
        says = f"none, exact or with {SHOTS[-1]} shots" if shots else "none"
        yield Finding(where, what, says, text, seed=0, **agrees)


def by_size(rows: list[dict[str, Any]], column: str) -> str:
    """A column, size by size and way by way."""
    sizes = dict.fromkeys(row["n"] for row in rows)
    text = [f"n = {n}: {', '.join(f'{row[column]:.2g}' for row in rows if row['n'] == n)}" for n in sizes]
    ways = dict.fromkeys("noisy" if r["device"] == NOISY else str(r["shots_each"] or "exact") for r in rows)
    return f"{'; '.join(text)} ({', '.join(ways)})"


def judged(name: str, ends: list[dict[str, Any]], by_way: dict[str, list[dict[str, Any]]], seeds: int) -> list[Finding]:
    """All that the rows of a solver say."""
    return [*(evidence(name, how, lines, seeds) for how, lines in by_way.items()), *endings(name, ends)]


def find(options: argparse.Namespace) -> list[Finding]:
    table = Stamped(f"{TITLE}_controls_rows", options, ("device", "circuits", "excess", "margin"))
    ends = Stamped(f"{TITLE}_rows", options, ("gap", "excess", "floors", "support_errors", "two_qubit_gates"))
    found = identities()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what a solver says of a run that a control has spoilt
        for name in names():
            if options.quick and name in LONG:
                continue
            single = options.quick or name in LONG
            sizes, ways = SIZES[: 1 if single else None], (None,) if single or name == "hhl" else (None, *SHOTS)
            seeds = 1 if single else SEEDS
            rows = [ending(ends, name, n, shots, seeds) for n in sizes for shots in ways]
            small = {row["n"] for row in rows if row["qubits"] <= MOST_QUBITS and row["two_qubit_gates"] <= MOST_GATES}
            small = set() if single else small
            rows += [ending(ends, name, n, SHOTS[-1], seeds, NOISY) for n in sorted(small)]
            by_way: dict[str, list[dict[str, Any]]] = {}
            for how, cell, solver in cells(name, options.quick, small):
                before = len(table.lines)
                controls.run(table, cell, solver, seeds, controls.controls_of(solver, options.quick), EVIDENCE)
                by_way.setdefault(how, []).extend(table.lines[before:])
            found += judged(name, rows, by_way, seeds)
    if options.plot:
        plot(ends.lines, options.plot)
    return found


def plot(rows: list[dict[str, Any]], folder: Path) -> None:
    """Excess against shots a circuit, a panel a size; dotted the floor of all shots."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    folder.mkdir(parents=True, exist_ok=True)
    sizes = list(dict.fromkeys(row["n"] for row in rows))
    figure, axes = plt.subplots(1, len(sizes), figsize=(6 * len(sizes), 4), squeeze=False, layout="constrained")
    for axis, n in zip(axes[0], sizes, strict=True):
        for name in dict.fromkeys(row["solver"] for row in rows):
            of = [row for row in rows if row["n"] == n and row["solver"] == name and row["shots_each"]]
            (line,) = axis.loglog([row["shots_each"] for row in of], [row["excess"] for row in of], "o-", label=name)
            floors = [row["excess_floor"] for row in of]
            axis.loglog([row["shots_each"] for row in of], floors, ":", color=line.get_color())
        axis.set(title=f"n = {n}", xlabel="shots a circuit", ylabel="excess, dotted the floor")
    axes[0][-1].legend(fontsize=7)
    figure.savefig(folder / "quantum_shots.png")
    plt.close(figure)


if __name__ == "__main__":
    sys.exit(main(TITLE, __doc__, find))
