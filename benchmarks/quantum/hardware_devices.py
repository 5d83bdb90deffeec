"""Claim: the loops end near the shot floor on fake IBM machines, mitigated, and on other vendors' simulators.

`variational-flow` (tree), `variational-lotka-volterra` and `hamiltonian-dilation` at n = 8, moons, 10 000 shots a
circuit; judged is the excess (f − f*)/|f*| of the raw answer over the shot floor, the median excess of the optimum
itself, sampled with 10 000 shots (25 draws): the median of 5 seeds on what is noisy, one seed on what is not. The fake
machines have the gates, couplings and errors of real ones, and run in qiskit-ibm-runtime's local mode;
`optimization_level` 3, mitigation="circuit", the same for all.

    fake IBM     a square lattice of 120 qubits (Nighthawk), heavy hexagons of 156 (Boston) and two rings of them of 33
                 (Prague): excess ≤ 10 × the floor, and ≥ 5 × better than the null device
    others       Braket's local simulator, and Aer as a backend with gates and couplings but no errors: ≤ 3 × the floor
    noisy Aer    `AerSimulator.from_backend` of an older machine, a line of 5 qubits (Santiago): as the machines
    by --only    older machines, with larger errors a gate: heavy hexagons of 27 (fake_hanoi), an H of 7
                 (fake_lagos), a line of 5 (fake_santiago); shown

A vendor whose library is not installed is left out, and said to be.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from benchmarks.lib.circuit_problems import C, first_gram, first_problem, spent
from benchmarks.lib.claims import Claims, Rows, conclude
from benchmarks.lib.command import chosen, command_line
from dualflow import DualProblem, problems, solve
from dualflow.quantum.devices import Device, make_device
from dualflow.testing.bench import sampled_floor
from dualflow.testing.specimen import ZooProblem

TITLE = "quantum/hardware_devices"
N, SHOTS, DRAWS = 8, 10_000, 25
MACHINE_FACTOR, SIMULATOR_FACTOR, NULL_FACTOR = 10.0, 3.0, 5.0
MACHINES = ("fake_nighthawk", "fake_boston", "fake_prague")
OLDER = ("fake_hanoi", "fake_santiago", "fake_lagos")
SEEDS, MITIGATION = 5, "circuit"
#: Options of each solver, and its problems.
SOLVERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "variational-flow": ({"ansatz": "tree", "steps": 30}, ("L2-SVM", "SVDD")),
    "variational-lotka-volterra": ({"steps": 30}, ("hinge",)),
    "hamiltonian-dilation": ({"steps": 60}, ("L2-SVM", "SVDD")),
}


def build(kind: str) -> DualProblem:
    if kind != "hinge":
        return first_problem("moons", N, kind)
    gram, y = first_gram("moons", N)
    return problems.svc(gram, y, C)


def fake(name: str) -> Device:
    from dualflow.quantum.devices.ibm import FakeIBMDevice

    return FakeIBMDevice(name, optimization_level=3)


def aer(noise: bool) -> Device:
    """Aer as a backend of its own, by the errors of a line of five qubits, or none."""
    from qiskit.providers.fake_provider import GenericBackendV2
    from qiskit_aer import AerSimulator

    if noise:
        return make_device(AerSimulator.from_backend(fake("fake_santiago").backend))  # type: ignore[attr-defined]
    row = [[k, k + 1] for k in range(4)]
    plain = GenericBackendV2(5, coupling_map=row + [[b, a] for a, b in row], noise_info=False, seed=0)
    return make_device(AerSimulator(coupling_map=plain.coupling_map, basis_gates=plain.operation_names))


@dataclass(frozen=True)
class Entrant:
    """A device: how to make one, the factor over the floor that is asked, seeds, and the kind of claim."""

    make: Callable[[], Device]
    factor: float
    noisy: bool
    kind: str = "must"

    @property
    def seeds(self) -> range:
        return range(SEEDS if self.noisy else 1)


def entrants(quick: bool, only: str) -> dict[str, Entrant]:
    """By name; what is judged first comes first."""
    found: dict[str, Entrant] = {}
    ibm = bool(importlib.util.find_spec("qiskit_ibm_runtime"))
    for name in () if not ibm else MACHINES[-1:] if quick else MACHINES:
        found[f"ibm:{name}"] = Entrant(partial(fake, name), MACHINE_FACTOR, True)
    found["AerSimulator"] = Entrant(partial(aer, False), SIMULATOR_FACTOR, False)
    if importlib.util.find_spec("qiskit_braket_provider"):
        found["braket:local"] = Entrant(partial(make_device, "braket:local"), SIMULATOR_FACTOR, False)
    if ibm and not quick:
        found["AerSimulator.from_backend"] = Entrant(partial(aer, True), MACHINE_FACTOR, True)
    for name in OLDER if ibm and only else ():
        found[f"ibm:{name}"] = Entrant(partial(fake, name), MACHINE_FACTOR, True, "shown")
    return found


class Bench:
    """A solver on a problem, with its optimum and shot floor."""

    def __init__(self, solver: str, kind: str, given: dict[str, Any]) -> None:
        self.solver, self.kind, self.given, self.problem = solver, kind, given, build(kind)
        self.case = f"{solver} {kind}"
        best = solve(self.problem, "working-set", tol=1e-9, refine=True)
        self.least = self.problem.objective(best.alpha)
        specimen = ZooProblem("", self.problem, self.least, best.alpha, kind != "hinge", "")
        self.floor = sampled_floor(specimen, SHOTS, DRAWS)

    @cached_property
    def null(self) -> float:
        """Excess of the control that measures nothing."""
        return self.run("null", False, 0)[0]

    def run(self, device: Any, mitigated: bool, seed: int) -> tuple[float, dict[str, Any]]:
        """Excess of the raw answer, and what it took."""
        more = {"mitigation": MITIGATION} if mitigated else {}
        options = {**self.given, **more, "shots": SHOTS, "refine": False, "random_state": seed}
        found = solve(self.problem, self.solver, device=device, **options)
        return (found.raw_certificate.objective - self.least) / abs(self.least), spent(found)


def main() -> int:
    options = command_line(__doc__, "only")
    shown = ("excess", "floors", "least_floors", "most_floors", "null_over", "two_qubit_gates", "time_s")
    table, claims = Rows(f"{TITLE}_rows", options, shown), Claims()
    for package, of in (("qiskit_ibm_runtime", "ibm"), ("qiskit_braket_provider", "braket")):
        if not importlib.util.find_spec(package):
            print(f"left out: {of}, without pip install 'dualflow[{of}]'")
    benches = [Bench(solver, kind, given) for solver, (given, kinds) in SOLVERS.items() for kind in kinds]
    for name, entrant in entrants(options.quick, options.only).items():
        device = None
        for bench in benches:
            if not chosen(f"{bench.case} {name}", options.only):
                continue
            device = device or entrant.make()
            runs = [bench.run(device, entrant.noisy, seed) for seed in entrant.seeds]
            found = sorted(excess for excess, _ in runs)
            excess, took = float(np.median(found)), runs[0][1]  # what it took is the first seed's
            row = {"excess": excess, "floors": excess / bench.floor, "least_floors": found[0] / bench.floor}
            row |= {"most_floors": found[-1] / bench.floor, "null_over": bench.null / excess}
            about = {"solver": bench.solver, "problem": bench.kind, "device": name, "n": N, "seeds": len(runs)}
            table.add(f"{bench.case} {name}", **about, **row, **took)
            say = partial(claims.say, name, unit="×", kind=entrant.kind)
            say("excess over the floor", bench.case, row["floors"], "<=", entrant.factor)
            say("null device's excess over it", bench.case, row["null_over"], ">=", NULL_FACTOR)
    return conclude(TITLE, claims.verdicts(), options)


if __name__ == "__main__":
    sys.exit(main())
