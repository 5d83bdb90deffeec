"""Claim: a step of `variational-flow` at n = 32 is ≥ 100 × faster than one of qiskit-algorithms' VarQITE.

The same state, ansatz, angles and Hamiltonian. VarQITE takes no Hamiltonian that depends on the state, so it gets that
of the current state, ½ diag(∇f), as a SparsePauliOp made beforehand: with it the imaginary-time flow ψ̇ = −Hψ is our
ψ̇ = −½(∇f)ψ, and both must give the same θ̇, which is checked first (to 1e-8 of the largest, both systems solved to
round-off by least squares). Timed is one forward Euler step of theirs (ImaginaryMcLachlanPrinciple, ForwardEulerSolver,
num_timesteps=1, their caches warm) and one step of ours, in turn in one process; ∇f is computed in ours only. Theirs:
the default linear-combination metric and gradient on StatevectorEstimator, which simulates their circuits; and
"reverse" (ReverseQGT, ReverseEstimatorGradient), the fastest it has, which runs no circuits but differentiates state
vectors. Ours: on Aer, which simulates our circuits, and on the emulator, which runs none. Judged are the pairs
that do alike, circuits against circuits and state vectors against state vectors; Aer against reverse is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from qiskit.primitives import StatevectorEstimator
from qiskit.quantum_info import SparsePauliOp
from qiskit_algorithms import TimeEvolutionProblem, VarQITE
from qiskit_algorithms.gradients import DerivativeType, ReverseEstimatorGradient, ReverseQGT
from qiskit_algorithms.time_evolvers.variational import ForwardEulerSolver, ImaginaryMcLachlanPrinciple

from benchmarks.lib import ratios
from benchmarks.lib.circuit_problems import ANSAETZE, make_problem
from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import chosen, command_line
from benchmarks.lib.machine import QUANTUM, machine, one_thread
from benchmarks.lib.stepping import Walk
from dualflow.quantum.solvers.ansatz import Ansatz, make_ansatz
from dualflow.quantum.solvers.variational_flow import VariationalFlow, faithful_rate

TITLE = "quantum/against_varqite"
N, ASKED, SAME = 32, 100.0, 1e-8
#: Runs of theirs, which take seconds, and of ours between two of theirs.
RUNS, OURS = 5, 5
EULER = 1e-3
JUDGED = {("aer", "circuits"): "must", ("emulator", "reverse"): "must", ("aer", "reverse"): "shown"}


def hamiltonian(F: np.ndarray, qubits: int) -> SparsePauliOp:
    """½ diag(F) as a sum of products of Z, by the Walsh-Hadamard transform of F."""
    walsh = np.ones((1, 1))
    for _ in range(qubits):
        walsh = np.kron([[1, 1], [1, -1]], walsh)
    names = ["".join("IZ"[(i >> k) & 1] for k in reversed(range(qubits))) for i in range(2**qubits)]
    return SparsePauliOp(names, 0.5 * walsh @ F / 2**qubits)


def state(ansatz: Ansatz) -> np.ndarray:
    """Angles to step from: the ansatz' own start, and the tree's moved away from the uniform distribution."""
    rng = np.random.default_rng(0)
    theta = ansatz.start(None, rng)
    return theta if theta.max() > np.pi else np.clip(theta + 0.3 * rng.standard_normal(len(theta)), 0.1, 3.0)


class Theirs:
    """One Euler step by VarQITE."""

    def __init__(self, circuit: Any, angles: np.ndarray, operator: SparsePauliOp, reverse: bool) -> None:
        estimator = StatevectorEstimator()
        principle = ImaginaryMcLachlanPrinciple()
        if reverse:
            metric = ReverseQGT(derivative_type=DerivativeType.REAL)
            principle = ImaginaryMcLachlanPrinciple(metric, ReverseEstimatorGradient())
        # Their own solver drops singular values below 1e-2 of the largest: a different step. As fast.
        self.evolution = VarQITE(
            circuit,
            list(angles),
            principle,
            estimator,
            ode_solver=ForwardEulerSolver,
            lse_solver=lambda A, b: np.linalg.lstsq(A, b, rcond=1e-11)[0],
            num_timesteps=1,
        )
        self.problem = TimeEvolutionProblem(operator, EULER)

    def __call__(self) -> np.ndarray:
        """θ̇, in the parameters of the circuit."""
        values = np.asarray(self.evolution.evolve(self.problem).parameter_values)
        return (values[1] - values[0]) / EULER


def seconds(call: Callable[[], Any]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def compare(table: Rows, n: int, name: str, runs: int) -> list[Verdict]:
    problem = make_problem("moons", n, "L2-SVM")
    ansatz = make_ansatz(name, n)
    theta = state(ansatz)
    distributions = ansatz.circuit.distribution(ansatz.bindings(theta, True))
    first = {"theta": theta, "distributions": distributions}
    ours = {d: Walk(problem, VariationalFlow(device=d, ansatz=name), **first) for d in ("emulator", "aer")}
    rate = faithful_rate(problem, ansatz, distributions)
    # Linear in θ: for the tree, the parameters of the gates are combinations of its angles.
    angles, ours_rate = ansatz.circuit.gate_parameters(theta), ansatz.circuit.gate_parameters(rate)
    operator = hamiltonian(problem.gradient(ansatz.known(distributions)), ansatz.circuit.n_qubits)
    theirs = {
        kind: Theirs(ansatz.circuit.build(), angles, operator, kind == "reverse") for kind in ("circuits", "reverse")
    }
    far = max(float(np.abs(step() - ours_rate).max()) for step in theirs.values()) / float(np.abs(ours_rate).max())
    times: dict[str, list[float]] = {kind: [] for kind in (*ours, *theirs)}
    for walk in ours.values():
        walk.look()  # warm
    for _ in range(runs):
        for kind, step in theirs.items():
            times[kind].append(seconds(step))
            for device, walk in ours.items():
                times[device] += [seconds(walk.look) for _ in range(OURS)]
    row = {f"{kind}_s": ratios.median(found).value for kind, found in times.items()}
    rounds = {"runs_theirs": runs, "runs_ours": len(times["aer"])}
    table.add(f"n={n} {name}", n=n, angles=len(theta), theta_dot_difference=far, **row, **rounds)
    verdicts = [Verdict("must", f"{name}, n = {n}", "relative difference of θ̇", far, "<=", SAME)]
    for (device, kind), weight in JUDGED.items():
        found = asdict(ratios.ratio(times[kind], times[device]))
        what = f"{name}, n = {n}, on {device}"
        verdicts.append(Verdict(weight, what, f"ratio to VarQITE ({kind})", **found, sense=">=", asked=ASKED, unit="×"))
    return verdicts


def main() -> int:
    options = command_line(__doc__, "only")
    one_thread()
    print(f"{TITLE}: {machine(*QUANTUM)}, one thread")
    table = Rows(f"{TITLE}_rows", options)
    runs, names = (1, ANSAETZE[:1]) if options.quick else (RUNS, ANSAETZE)
    verdicts = [line for name in names if chosen(name, options.only) for line in compare(table, N, name, runs)]
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
