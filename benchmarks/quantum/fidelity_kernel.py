"""Claim: a fidelity kernel of 100 points on 8 qubits ≥ 20 × faster than qiskit-machine-learning's, the same to 1e-10.

Qiskit's ``zz_feature_map`` (8 features, two repetitions, all pairs entangled), points uniform in [0, 1]^8.
Theirs: `FidelityQuantumKernel` with its default sampler, which simulates U(z)†U(x) for each of the 4950 pairs and, by
default, returns exact probabilities; and `FidelityStatevectorKernel`, which like ours takes one state a point (shown).
Ours: ``quantum_kernel(circuit, X)``, from the circuit to the matrix, its taking apart included; with 1024 shots too,
and with 1024 shots a pair on Aer, where all circuits really run (shown). Theirs takes minutes and is timed once; ours
five times. Every run starts with a new kernel object. Needs ``pip install "dualflow[bench]"``.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray
from qiskit.circuit.library import zz_feature_map
from qiskit_machine_learning.kernels import FidelityQuantumKernel, FidelityStatevectorKernel

from benchmarks.lib import ratios
from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import command_line
from benchmarks.lib.machine import QUANTUM, machine, one_thread
from dualflow import quantum_kernel

TITLE = "quantum/fidelity_kernel"
POINTS, QUICK, QUBITS, SHOTS, SEED = 100, 12, 8, 1024, 0
ASKED, SAME, RUNS = 20.0, 1e-10, 5
THEIRS, OURS = "FidelityQuantumKernel", "quantum_kernel"


def timed(call: Callable[[], NDArray], runs: int) -> tuple[NDArray, list[float]]:
    """What the last call returned, and the seconds of each."""
    seconds = []
    for _ in range(runs):
        begun = time.perf_counter()
        K = call()
        seconds.append(time.perf_counter() - begun)
    return K, seconds


def main() -> int:
    options = command_line(__doc__)
    one_thread()
    print(f"{TITLE}: {machine(*QUANTUM)}, one thread")
    warnings.simplefilter("ignore", DeprecationWarning)
    n = QUICK if options.quick else POINTS
    circuit = zz_feature_map(QUBITS, reps=2)
    X = np.random.default_rng(SEED).uniform(size=(n, QUBITS))
    ways: dict[str, tuple[Callable[[], NDArray], int]] = {
        OURS: (lambda: quantum_kernel(circuit, X), RUNS),
        f"{OURS}, {SHOTS} shots": (lambda: quantum_kernel(circuit, X, shots=SHOTS), RUNS),
        f"{OURS}, {SHOTS} shots on aer": (lambda: quantum_kernel(circuit, X, shots=SHOTS, device="aer"), 1),
        "FidelityStatevectorKernel": (lambda: FidelityStatevectorKernel(feature_map=circuit).evaluate(X), RUNS),
        THEIRS: (lambda: FidelityQuantumKernel(feature_map=circuit).evaluate(X), 1),
    }
    quantum_kernel(circuit, X[:2], shots=SHOTS, device="aer")  # imports
    table, times, verdicts = Rows(f"{TITLE}_rows", options), {}, []
    exact = None
    for name, (call, runs) in ways.items():
        K, times[name] = timed(call, runs)
        exact = K if exact is None else exact
        far = float(np.abs(K - exact).max())
        table.add(name, points=n, qubits=QUBITS, seconds=float(np.median(times[name])), runs=runs, difference=far)
        if "shots" not in name and name != OURS:
            kind = "must" if name == THEIRS else "shown"
            verdicts.append(Verdict(kind, f"{OURS} and {name}", "largest difference", far, "<=", SAME))
    pairs = [(name, THEIRS, "must" if name == OURS else "shown", ASKED) for name in list(ways)[:3]]
    for name, peer, kind, asked in [*pairs, (OURS, "FidelityStatevectorKernel", "shown", 1.0)]:
        found = asdict(ratios.ratio(times[peer], times[name]))
        verdicts.append(Verdict(kind, name, f"ratio to {peer}", **found, sense=">=", asked=asked, unit="×"))
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
