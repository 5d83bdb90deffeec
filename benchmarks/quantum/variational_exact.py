"""Claim: from exact distributions `variational-flow` reaches a certified relative gap of 1e-6 at n = 256 in 6 s.

moons and digits, L2-SVM (squared hinge, C = 10, RBF) and hard SVDD, ansatz tree and hardware-efficient, on the
emulator: n = 64 to 1e-6 in 0.5 s, n = 256 to 1e-6 in 6 s, n = 1024 to 1e-3 in 60 s. Each time is the median over the
seeds of the start (0, 1, …; the tree has one start, and is timed as often), from `solve` called to its return, the
kernel matrix and all certificates included; each gap is the worst over them. Aer's times stand beside. Then, at small
n: the emulator, Aer and PennyLane give the same α(t) to 1e-9, and integrator="lsoda" that of `gradient-flow` to 1e-6.
Last, shown: the gap that a hardware-efficient ansatz with fewer angles than points can reach.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import dualflow
from benchmarks.lib import ratios
from benchmarks.lib.circuit_problems import ANSAETZE, DATA, MODELS, excess, gap, make_problem, optimum
from benchmarks.lib.claims import Claims, Rows, Verdict, conclude, each
from benchmarks.lib.command import chosen, command_line
from benchmarks.lib.machine import QUANTUM, machine, one_thread
from benchmarks.lib.stepping import Walk
from dualflow.core.problem import DualProblem
from dualflow.flows.gradient import GradientField
from dualflow.quantum.devices import make_device
from dualflow.quantum.solvers.ansatz import make_ansatz
from dualflow.solvers.gradient_flow import GradientFlow

TITLE = "quantum/variational_exact"
#: n: (tolerance, seconds, seeds).
LIMITS = {64: (1e-6, 0.5, 5), 256: (1e-6, 6.0, 3), 1024: (1e-3, 60.0, 1)}
#: Longest run on the emulator, in units of the seconds asked for.
PATIENCE = 10.0
#: Circuits that are timed where a whole run on Aer would take hours.
TIMED_CIRCUITS = 32
SAME, FAITHFUL, T_END = 1e-9, 1e-6, 10.0
SMALL = (8, 12, 16)
RATIOS = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
#: n: starts of the study of fewer angles.
STARTS = {64: 5, 256: 2}


def timed(problem: DualProblem, **given: Any) -> tuple[dualflow.Solution, float, float]:
    """A raw run, its wall time and its processor time."""
    begun, busy = time.perf_counter(), time.process_time()
    solution = dualflow.solve(problem, "variational-flow", **given)
    return solution, time.perf_counter() - begun, time.process_time() - busy


def grid(study: str, sizes: Iterable[int], only: str) -> Iterator[tuple[str, tuple[str, int, str], str]]:
    """Cases of a study: name, problem, ansatz."""
    for n, ansatz, name, model in product(sizes, ANSAETZE, DATA, MODELS):
        case = f"{study} n={n} {name} {model} {ansatz}"
        if chosen(case, only):
            yield case, (name, n, model), ansatz


def fast(options: argparse.Namespace, sizes: tuple[int, ...]) -> list[Verdict]:
    """Times to the tolerance on the emulator, and on Aer beside."""
    table = Rows(f"{TITLE}_speed", options)
    claims = Claims()
    for case, which, ansatz in grid("speed", sizes, options.only):
        tol, limit, _ = LIMITS[which[1]]
        row, what = cell(table, case, which, ansatz), f"n = {which[1]}, {ansatz}"
        claims.say(what, "certified relative gap", case, row["worst_gap"], "<=", tol)
        claims.say(
            what,
            "median time",
            case,
            row["median_s"],
            "<=",
            limit,
            "s",
            note=f"of the processor {row['processor_s']:.3g} s",
        )
    return claims.verdicts()


def cell(table: Rows, case: str, which: tuple[str, int, str], ansatz: str) -> dict[str, Any]:
    """One problem and ansatz: runs on the emulator, and Aer beside."""
    n = which[1]
    tol, limit, seeds = LIMITS[n]
    best = optimum(make_problem(*which))
    given = {"ansatz": ansatz, "tol": tol}
    found, limits = [], {"time_limit": PATIENCE * limit}
    for seed in range(seeds):
        problem = make_problem(*which)
        found.append((problem, *timed(problem, device="emulator", random_state=seed, **given | limits)))
    problem, solution, _, _ = found[-1]
    gaps = [gap(p, s.raw_alpha) for p, s, _, _ in found]
    middle, steps = ratios.median([wall for *_, wall, _ in found]), np.median([s.cost.steps for _, s, _, _ in found])
    row = {
        "n": n,
        "ansatz": ansatz,
        "angles": solution.provenance["angles"],
        "runs": seeds,
        "median_s": middle.value,
        "low_s": middle.low,
        "high_s": middle.high,
        "processor_s": float(np.median([busy for *_, busy in found])),
        "worst_gap": max(gaps),
        "excess": excess(problem, solution.raw_alpha, best.certificate.objective),
        "steps": int(steps),
        "circuits": solution.cost.circuits,
        "two_qubit_gates": solution.cost.two_qubit_gates,
        "classical_share": solution.cost.classical_share,
        "status": solution.raw_status.name,
    }
    if ansatz == "tree" or n <= 64:
        beside, row["aer_s"], _ = timed(make_problem(*which), device="aer", random_state=0, **given)
        row["aer"] = beside.raw_status.name
    else:  # a run on Aer takes the same steps, and so as many circuits
        row["aer_s"] = seconds_a_circuit(n) * found[0][1].cost.circuits
        row["aer"] = f"extrapolated from {TIMED_CIRCUITS} of its circuits"
    return table.add(case, **row)


@functools.cache
def seconds_a_circuit(n: int) -> float:
    """On Aer, hardware-efficient, in one batch, once compiled."""
    ansatz, device = make_ansatz("hardware-efficient", n), make_device("aer")
    bindings = ansatz.bindings(ansatz.start(None, np.random.default_rng(0)), True)
    device.submit(ansatz.circuit, bindings[:1])
    begun = time.perf_counter()
    device.submit(ansatz.circuit, bindings[:TIMED_CIRCUITS]).result()
    return (time.perf_counter() - begun) / TIMED_CIRCUITS


def same(options: argparse.Namespace, sizes: tuple[int, ...]) -> list[Verdict]:
    """α after every step on three devices; 12 points are padded to 16 outcomes."""
    others = {"aer": "aer", "lightning": "pennylane:lightning.qubit", "default_qubit": "pennylane:default.qubit"}
    table = Rows(f"{TITLE}_same", options)
    for case, which, ansatz in grid("same", sizes, options.only):
        path = {}
        for device in ("emulator", *others.values()):
            given = {"device": device, "ansatz": ansatz, "trajectory": True, "tol": 1e-6}
            solution = timed(make_problem(*which), **given)[0]
            assert solution.trajectory is not None
            path[device] = solution.trajectory.alpha
        far = {f"{name}_difference": distance(path["emulator"], path[device]) for name, device in others.items()}
        table.add(case, n=which[1], ansatz=ansatz, steps=len(path["emulator"]) - 1, **far)
    return largest(table, {f"{name}_difference": f"{name} and the emulator" for name in others}, SAME)


def largest(table: Rows, columns: dict[str, str], limit: float) -> list[Verdict]:
    """Differences of paths, the columns of ``table``, against one number; nothing is said of no rows."""
    if not table.lines:
        return []
    found = {what: [(row["case"], row[column]) for row in table.lines] for column, what in columns.items()}
    return [each("must", what, "largest difference of α", cells, "<=", limit) for what, cells in found.items()]


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """Largest difference of two paths; inf if they have not as many steps."""
    return float(np.abs(one - other).max()) if one.shape == other.shape else float("inf")


def faithful(options: argparse.Namespace, sizes: tuple[int, ...]) -> list[Verdict]:
    """α at t = 1, 2, …, 10 by LSODA in the angles; the simplex flow from the same start by two other integrations."""
    table = Rows(f"{TITLE}_faithful", options)
    for case, which, ansatz in grid("faithful", sizes, options.only):
        problem = make_problem(*which)
        given = {"time_step": 1.0, "t_end": T_END, "tol": 1e-12, "trajectory": True}
        solution = timed(problem, device="emulator", ansatz=ansatz, integrator="lsoda", **given)[0]
        path = solution.trajectory
        assert path is not None
        field, span = GradientField(problem), (0.0, T_END)
        tight = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-14}
        reference = solve_ivp(field.rate, span, path.alpha[0], t_eval=path.t, **tight).y.T
        row = {
            "gradient_flow_difference": distance(path.alpha, gradient_flow(problem, path.alpha[0])),
            "dop853_difference": distance(path.alpha, reference),
            "moved": float(np.abs(path.alpha[-1] - path.alpha[0]).max()),
            "circuits": solution.cost.circuits,
        }
        table.add(case, n=which[1], ansatz=ansatz, **row)
    others = {"gradient_flow_difference": "lsoda and gradient-flow", "dop853_difference": "lsoda and DOP853 at 1e-12"}
    return largest(table, others, FAITHFUL)


def gradient_flow(problem: DualProblem, start: np.ndarray) -> np.ndarray:
    """The path of `gradient-flow` at t = 0, 1, …, from this very start: a warm one would be moved inwards first."""
    walk = Walk(problem, GradientFlow(integrator="LSODA", time_step=1.0, t_end=T_END))
    walk.state = replace(walk.state, at=replace(walk.state.at, alpha=start))
    path = [start]
    while not walk.finished:
        walk.step()
        path.append(walk.alpha)
    return np.array(path)


def few_angles(options: argparse.Namespace, starts: dict[int, int]) -> list[Verdict]:
    """Where a hardware-efficient ansatz with P angles for n points ends; medians over the starts."""
    table, last = Rows(f"{TITLE}_angles", options), {}
    for n, name, model, ratio in product(starts, DATA, MODELS, RATIOS):
        case = f"angles P/n={ratio:g} n={n} {name} {model}"
        if not chosen(case, options.only):
            continue
        best, qubits = reference(name, n, model), int(np.ceil(np.log2(n)))
        layers, found = max(0, round(ratio * n / qubits) - 1), []
        for seed in range(starts[n]):
            problem = make_problem(name, n, model)
            given = {"ansatz": "hardware-efficient", "layers": layers, "tol": 1e-6, "max_steps": 200}
            found.append((problem, timed(problem, device="emulator", random_state=seed, **given)[0]))
        gaps, least = [gap(p, s.raw_alpha) for p, s in found], best.certificate.objective
        row = {
            "n": n,
            "data": name,
            "model": model,
            "angles": (layers + 1) * qubits,
            "ratio": ratio,
            "angles_a_point": (layers + 1) * qubits / n,
            "support": len(best.support),
            "runs": starts[n],
            "median_gap": float(np.median(gaps)),
            "reached": sum(g <= 1e-6 for g in gaps),
            "median_excess": float(np.median([excess(p, s.raw_alpha, least) for p, s in found])),
            "median_steps": int(np.median([s.cost.steps for _, s in found])),
            "median_circuits": int(np.median([s.cost.circuits for _, s in found])),
        }
        last[n, name, model] = table.add(case, **row)
    most = [(row["case"], row["median_gap"]) for row in last.values()]
    return [each("shown", "with the most angles", "median gap", most, "<=", 1e-6)] if most else []


@functools.cache
def reference(name: str, n: int, model: str) -> dualflow.Solution:
    return optimum(make_problem(name, n, model))


def main() -> int:
    options = command_line(__doc__, "only")
    one_thread()
    print(f"{TITLE}: {machine(*QUANTUM)}, one thread")
    quick = options.quick
    dualflow.solve(make_problem("moons", 8, "SVDD"), "variational-flow", max_steps=2)  # what is imported once
    verdicts = same(options, (8,) if quick else SMALL)
    verdicts += faithful(options, (8,) if quick else SMALL)
    verdicts += fast(options, (64,) if quick else tuple(LIMITS))
    verdicts += few_angles(options, {16: 2} if quick else STARTS)
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
