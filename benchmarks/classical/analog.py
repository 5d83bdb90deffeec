"""Claim: `analog-flow`'s circuits of ideal parts follow the gradient flow to 1e-3 and rest at certified gap 1e-6.

Six points, moons n = 16 and digits n = 32; L2-SVM (C = 10) and SVDD; in ngspice, which must be installed.

- ideal parts, both kinds of cells: largest |α(t) − LSODA's| over the whole run, in shares of the largest α; certified
  relative gap of the rest state; the same path of Lotka-Volterra (τ = 1), over 100 time constants of the integrators
- 1 % resistors, 100 draws: median excess (f − f*)/|f*| and median support errors (variables on the other side of
  1e-3/n than the optimum's)
- the control, the same conductances at shuffled places, 10 orders: its median excess is above 1e-2, and 10 times that
  of 1 % resistors or more

Rows, not claims: the same two figures against the tolerance and against offsets, settling time against n and C, and
energy by a model: 24 mW an amplifier, 96 mW a cell (±12 V, 1 and 4 mA), until the gap is 1e-6. ``--quick`` is the six
points with 5 draws.
"""

import sys
import time
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from benchmarks.lib.circuit_problems import C, excess, first_gram, first_problem, gap, optimum
from benchmarks.lib.claims import Claims, Rows, Verdict, conclude
from benchmarks.lib.command import command_line
from dualflow import DualProblem, Gram, problems
from dualflow.analog import Circuit, Parts, Trace, build, simulate
from dualflow.analog.parts import CELLS, TIME_CONSTANT_S
from dualflow.analog.program import INSTALL_COMMAND, installed
from dualflow.flows.gradient import GradientField
from dualflow.flows.lotka_volterra import LotkaVolterraField
from dualflow.testing.by_hand import SIX_LABELS, SIX_POINTS

TITLE = "classical/analog"
MODELS, SIZES = ("L2-SVM", "SVDD"), (("six points", 6), ("moons", 16), ("digits", 32))
FLOWS = {"gradient": GradientField, "lotka-volterra": LotkaVolterraField}
PATH, GAP, DRAWS, ORDERS, FAILED = 1e-3, 1e-6, 100, 10, 1e-2
#: Time constants of the integrators: of a run to rest, and of one whose multiplier may ring for ever.
LONG, SHORT = 1e6, 100.0
WATTS_AMPLIFIER, WATTS_CELL = 0.024, 0.096
SHOWN = ("path_error", "gap", "settled_ms", "excess", "support_errors", "energy_j", "time_s")


def pose(name: str, n: int, model: str) -> DualProblem:
    if name != "six points":
        return first_problem(name, n, model)
    gram = Gram(SIX_POINTS, kernel="linear")
    return problems.svc(gram, SIX_LABELS, C, loss="squared_hinge") if model == "L2-SVM" else problems.svdd(gram)


def path_error(circuit: Circuit, trace: Trace) -> float:
    """Largest distance from LSODA's trajectory, in shares of the largest α."""
    field, problem = FLOWS[circuit.flow](circuit.problem), circuit.problem
    y = solve_ivp(field.rate, (0, trace.t[-1]), field.start(), "LSODA", trace.t, rtol=1e-9, atol=1e-12).y
    return float(np.abs(trace.alpha - y.T[:, : problem.n]).max()) / circuit.unit


def settled(circuit: Circuit, trace: Trace) -> float:
    """Seconds of the circuit after which the certified gap is `GAP` for good; NaN if it never is."""
    last = len(trace.t)
    while last and gap(circuit.problem, trace.alpha[last - 1]) <= GAP:
        last -= 1
    return float("nan") if last == len(trace.t) else float(trace.seconds[last])


def wrong(problem: DualProblem, alpha: np.ndarray, best: np.ndarray) -> int:
    """Variables on the other side of the threshold than the optimum's."""
    return int(((alpha > 1e-3 / problem.n) != (best > 1e-3 / problem.n)).sum())


class Bench:
    def __init__(self, table: Rows) -> None:
        self.table = table

    def ideal(self, case: str, problem: DualProblem, flow: str, cells: str, length: float) -> dict[str, Any]:
        circuit, begun = build(problem, flow, Parts(cells)), time.perf_counter()
        trace = simulate(circuit, length * TIME_CONSTANT_S)
        spent, ends = time.perf_counter() - begun, settled(circuit, trace)
        watts = WATTS_AMPLIFIER * circuit.amplifiers + WATTS_CELL * circuit.cells
        return self.row(
            f"{case} ideal {flow} {cells}",
            n=problem.n,
            path_error=path_error(circuit, trace),
            gap=gap(problem, trace.alpha[-1]),
            settled_ms=1e3 * ends,
            energy_j=watts * ends,
            time_s=spent,
            points=len(trace.t),
            resistors=circuit.resistors,
            amplifiers=circuit.amplifiers,
            cells=circuit.cells,
            condition=float(np.linalg.cond(problem.dense())),
        )

    def drawn(self, case: str, problem: DualProblem, seeds: range, control: str | None, **parts: Any) -> dict[str, Any]:
        """Medians over circuits of drawn parts; translinear cells, which rest where the others do and are quicker."""
        best, begun = optimum(problem), time.perf_counter()
        ends = []
        for seed in seeds:
            circuit = build(problem, "gradient", Parts("translinear", **parts), seed=seed, control=control)
            ends.append(simulate(circuit, LONG * TIME_CONSTANT_S, noise_seed=seed).alpha[-1])
        excesses = [excess(problem, alpha, best.certificate.objective) for alpha in ends]
        errors = [wrong(problem, alpha, best.alpha) for alpha in ends]
        return self.row(
            case,
            n=problem.n,
            excess=float(np.median(excesses)),
            excess_high=float(np.quantile(excesses, 0.95)),
            excess_least=float(np.min(excesses)),
            support_errors=float(np.median(errors)),
            draws=len(ends),
            time_s=time.perf_counter() - begun,
        )

    def row(self, case: str, **found: Any) -> dict[str, Any]:
        names = ("n", *SHOWN, "points", "resistors", "amplifiers", "cells", "condition")
        names += ("excess_high", "excess_least", "draws")
        return self.table.add(case, **{name: found.get(name, float("nan")) for name in names})


def main() -> int:
    options = command_line(__doc__, "only")
    if not installed():
        sys.exit(f"ngspice is not installed: {INSTALL_COMMAND}")
    bench, claims = Bench(Rows(f"{TITLE}_rows", options, SHOWN)), Claims()
    shown: list[Verdict] = []
    seeds, orders = (range(5), range(3)) if options.quick else (range(DRAWS), range(ORDERS))
    for name, n in SIZES[:1] if options.quick else SIZES:
        for model in MODELS:
            case, problem = f"{name} n={n} {model}", pose(name, n, model)
            if options.only and options.only not in case:
                continue
            for cells in CELLS:
                found, where = bench.ideal(case, problem, "gradient", cells, LONG), f"{case} {cells}"
                claims.say("ideal parts", "distance from LSODA's path", where, found["path_error"], "<=", PATH)
                claims.say("ideal parts", "certified relative gap at rest", where, found["gap"], "<=", GAP)
            found = bench.ideal(case, problem, "lotka-volterra", "translinear", SHORT)
            claims.say(
                "ideal parts, Lotka-Volterra", "distance from LSODA's path", case, found["path_error"], "<=", PATH
            )
            drawn = bench.drawn(f"{case} 1 % resistors", problem, seeds, None, tolerance=0.01)
            shuffled = bench.drawn(f"{case} control:shuffled", problem, orders, "shuffled")
            shown += [
                Verdict("shown", "1 % resistors", "median excess", drawn["excess"], case=case),
                Verdict("shown", "1 % resistors", "median support errors", drawn["support_errors"], case=case),
            ]
            claims.say("control:shuffled", "median excess", case, shuffled["excess"], ">", FAILED)
            ratio = shuffled["excess"] / max(drawn["excess"], GAP)
            claims.say("control:shuffled", "its excess over that of 1 % resistors", case, ratio, ">=", 10.0, unit="×")
    if not options.quick and not options.only:
        studies(bench)
    return conclude(TITLE, [*claims.verdicts(), *shown], options)


def studies(bench: Bench) -> None:
    """Rows that no claim is about."""
    for model in MODELS:
        problem = pose("moons", 16, model)
        for tolerance in (1e-4, 1e-3, 5e-2):
            bench.drawn(f"moons n=16 {model} tolerance={tolerance:g}", problem, range(20), None, tolerance=tolerance)
        for offset in (1e-4, 1e-3):
            bench.drawn(f"moons n=16 {model} offset={offset:g}", problem, range(3), None, offset=offset)
    for n in (4, 8, 16, 32, 64):
        for model in MODELS:
            bench.ideal(f"moons n={n} {model}", pose("moons", n, model), "gradient", "translinear", LONG)
    for c in (1.0, 100.0):
        gram, y = first_gram("moons", 16)
        problem = problems.svc(gram, y, c, loss="squared_hinge")
        bench.ideal(f"moons n=16 L2-SVM C={c:g}", problem, "gradient", "translinear", 10 * LONG)


if __name__ == "__main__":
    sys.exit(main())
