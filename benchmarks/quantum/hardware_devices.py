"""Claim: the loops end near the shot floor on fake IBM machines, mitigated, and on other vendors' simulators.

`variational-flow` (tree), `variational-lotka-volterra` and `hamiltonian-dilation` at n = 8, moons, 10 000 shots a
circuit; judged is the excess (f − f*)/|f*| of the raw answer over the shot floor, the median excess of the optimum
itself, sampled with 10 000 shots (25 draws). The fake machines have the gates, couplings and errors of real ones, and
run in qiskit-ibm-runtime's local mode: a line of 5 qubits (Santiago), an H of 7 (Lagos), heavy hexagons of 27 (Hanoi)
and a newer chip of 33 with CZ (Prague); `optimization_level` 3, mitigation="confusion".

    fake IBM     excess ≤ 10 × the floor, and ≥ 5 × better than the null device
    others       Braket's local simulator, and Aer as a backend with gates and couplings but no errors: ≤ 3 × the floor
    noisy Aer    `AerSimulator.from_backend` of the fake machine on a line: as the machines

Mitigation of read-out leaves the errors of the gates, so that what a machine reaches depends on its two-qubit gates,
not on shots alone. A vendor whose library is not installed is left out, and said to be.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from typing import Any

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
MACHINES = ("fake_santiago", "fake_lagos", "fake_hanoi", "fake_prague")
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
        return make_device(AerSimulator.from_backend(fake(MACHINES[0]).backend))  # type: ignore[attr-defined]
    row = [[k, k + 1] for k in range(4)]
    plain = GenericBackendV2(5, coupling_map=row + [[b, a] for a, b in row], noise_info=False, seed=0)
    return make_device(AerSimulator(coupling_map=plain.coupling_map, basis_gates=plain.operation_names))


def entrants(quick: bool) -> dict[str, tuple[Callable[[], Device], float, bool]]:
    """Devices by name: how to make one, the factor over the floor that is asked, and whether read-out is mitigated."""
    found: dict[str, tuple[Callable[[], Device], float, bool]] = {}
    found["AerSimulator"] = (lambda: aer(False), SIMULATOR_FACTOR, False)
    if importlib.util.find_spec("qiskit_braket_provider"):
        found["braket:local"] = (lambda: make_device("braket:local"), SIMULATOR_FACTOR, False)
    if importlib.util.find_spec("qiskit_ibm_runtime"):
        found["AerSimulator.from_backend"] = (lambda: aer(True), MACHINE_FACTOR, True)
        for name in MACHINES[:1] if quick else MACHINES:
            found[f"ibm:{name}"] = (lambda name=name: fake(name), MACHINE_FACTOR, True)  # type: ignore[misc]
    return found


class Bench:
    """A solver on a problem, with its optimum and shot floor."""

    def __init__(self, solver: str, kind: str, given: dict[str, Any]) -> None:
        self.solver, self.kind, self.given, self.problem = solver, kind, given, build(kind)
        best = solve(self.problem, "working-set", tol=1e-9, refine=True)
        self.least = self.problem.objective(best.alpha)
        specimen = ZooProblem("", self.problem, self.least, best.alpha, kind != "hinge", "")
        self.floor = sampled_floor(specimen, SHOTS, DRAWS)

    def run(self, device: Any, mitigated: bool) -> tuple[float, dict[str, Any]]:
        """Excess of the raw answer, and what it took."""
        more = {"mitigation": "confusion"} if mitigated else {}
        options = {**self.given, **more, "shots": SHOTS, "refine": False, "random_state": 0}
        found = solve(self.problem, self.solver, device=device, **options)
        return (found.raw_certificate.objective - self.least) / abs(self.least), spent(found)


def main() -> int:
    options = command_line(__doc__, "only")
    shown = ("excess", "floors", "null_over", "two_qubit_gates", "time_s")
    table, claims, devices = Rows(f"{TITLE}_rows", options, shown), Claims(), entrants(options.quick)
    for package, of in (("qiskit_ibm_runtime", "ibm"), ("qiskit_braket_provider", "braket")):
        if not importlib.util.find_spec(package):
            print(f"left out: {of}, without pip install 'dualflow[{of}]'")
    for solver, (given, kinds) in SOLVERS.items():
        for kind in kinds:
            bench = Bench(solver, kind, given)
            null, _ = bench.run("null", False)
            for name, (make, factor, mitigated) in devices.items():
                case = f"{solver} {kind}"
                if not chosen(f"{case} {name}", options.only):
                    continue
                excess, took = bench.run(make(), mitigated)
                row = {"excess": excess, "floors": excess / bench.floor, "null_over": null / excess}
                table.add(f"{case} {name}", solver=solver, problem=kind, device=name, n=N, **row, **took)
                claims.say(name, "excess over the floor", case, row["floors"], "<=", factor, unit="×")
                claims.say(name, "null device's excess over it", case, row["null_over"], ">=", NULL_FACTOR, unit="×")
    return conclude(TITLE, claims.verdicts(), options)


if __name__ == "__main__":
    sys.exit(main())
