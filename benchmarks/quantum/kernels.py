"""Claim: projected and trainable kernels are those of the peers to 1e-8, and take ≥ 10 × less time.

Peers: sQUlearn's `ProjectedQuantumKernel` and `TargetAlignment` on each of its simulators (its γ is of expectation
values, half of ours), qiskit-machine-learning's `TrainableFidelityQuantumKernel` with its default sampler, which runs a
circuit a pair. Ours from the circuit to the matrix, its taking apart included. Each run starts with a new kernel
object; theirs is timed once, ours five times.

- projected: Qiskit's ``zz_feature_map``, two repetitions, points uniform in [0, 1]^q;
- trainable: RY(w₀ x₀ + w₁), RY(w₂ x₁ + w₃), CX, twice over, all on 2 qubits: entries at given weights; the alignment
  with labels; and, of 12 points, a gradient of that, where theirs takes 2W matrices (central differences; the same
  gradient to what differences give);
- concentration (shown): the standard deviation of the entries over q, beside the noise of 1000 shots.

Needs ``pip install "dualflow[bench]" squlearn``; whichever peer is missing is said to be, and fails its musts.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit
from qiskit.circuit import ParameterVector
from qiskit.circuit.library import zz_feature_map

from benchmarks.lib.claims import Rows, Verdict, conclude, each
from benchmarks.lib.command import command_line
from benchmarks.lib.machine import QUANTUM, machine, one_thread
from dualflow import FidelityKernel, ProjectedKernel, concentration, kernel_alignment
from dualflow.quantum.kernels.alignment import target_matrix
from dualflow.quantum.kernels.training import Losses

TITLE = "quantum/kernels"
POINTS, QUICK, QUBITS, RUNS = 40, 12, 6, 5
SAME, FASTER, GRADIENT_SAME = 1e-8, 10.0, 1e-6
SIMULATORS = ("qulacs", "qiskit", "pennylane")
WIDTHS, SHOTS, STEP = (2, 4, 6, 8, 10), 1000, 1e-5


def trainable() -> tuple[QuantumCircuit, ParameterVector, NDArray]:
    """A circuit of two features and eight weights, and their values."""
    x, w = ParameterVector("feature", 2), ParameterVector("w", 8)
    made = QuantumCircuit(2)
    for layer in (0, 4):
        made.ry(w[layer] * x[0] + w[layer + 1], 0)
        made.ry(w[layer + 2] * x[1] + w[layer + 3], 1)
        made.cx(0, 1)
    return made, w, np.linspace(0.4, 1.6, 8)


def timed(call: Callable[[], Any], runs: int) -> tuple[Any, float]:
    """What the last call returned, and the median seconds."""
    seconds = []
    for _ in range(runs):
        begun = time.perf_counter()
        found = call()
        seconds.append(time.perf_counter() - begun)
    return found, float(np.median(seconds))


def their_projected(circuit: QuantumCircuit, X: NDArray, simulator: str) -> NDArray:
    from squlearn import Executor
    from squlearn.encoding_circuit import QiskitEncodingCircuit
    from squlearn.kernel.lowlevel_kernel import ProjectedQuantumKernel

    kernel = ProjectedQuantumKernel(QiskitEncodingCircuit(circuit), Executor(simulator), gamma=0.5)
    return np.asarray(kernel.evaluate(X))


def their_trainable(X: NDArray, weights: NDArray) -> NDArray:
    from qiskit_machine_learning.kernels import TrainableFidelityQuantumKernel

    circuit, w, _ = trainable()
    kernel = TrainableFidelityQuantumKernel(feature_map=circuit, training_parameters=w, enforce_psd=False)
    kernel.assign_training_parameters(weights)
    return np.asarray(kernel.evaluate(X))


def their_alignment(K: NDArray, y: NDArray) -> float:
    """sQUlearn's, of a matrix that is there already."""
    from squlearn.kernel.loss import TargetAlignment

    class Given:
        def assign_parameters(self, values: NDArray) -> None:
            pass

        def evaluate(self, data: NDArray) -> NDArray:
            return K

    loss = TargetAlignment()
    loss.set_quantum_kernel(Given())
    return -float(loss.compute(np.empty(0), K, labels=y))


def projected(n: int, table: Rows, found: dict[str, list[tuple[str, float]]]) -> None:
    """The projected kernel of points on `QUBITS` qubits beside sQUlearn's."""
    circuit = zz_feature_map(QUBITS, reps=2)
    X = np.random.default_rng(0).uniform(size=(n, QUBITS))
    K, ours = timed(lambda: ProjectedKernel(circuit)(X, X), RUNS)
    table.add("projected, ours", points=n, qubits=QUBITS, seconds=ours)
    for simulator in SIMULATORS if _is_there("squlearn") else ():
        their_projected(circuit, X[:1], simulator)  # imports
        theirs, seconds = timed(lambda s=simulator: their_projected(circuit, X, s), 1)
        case = f"projected, sQUlearn on {simulator}"
        found["same"].append((case, float(np.abs(K - theirs).max())))
        found["faster"].append((case, seconds / ours))
        table.add(case, points=n, qubits=QUBITS, seconds=seconds, difference=found["same"][-1][1])


def trained(n: int, table: Rows, found: dict[str, list[tuple[str, float]]]) -> None:
    """A trainable kernel, its alignment, and the gradient of that, beside qiskit-machine-learning and sQUlearn."""
    circuit, w, values = trainable()
    rng = np.random.default_rng(1)
    X, y = rng.uniform(-1, 1, (n, 2)), np.where(np.arange(n) % 3 == 0, 1, -1)
    K, ours = timed(lambda: FidelityKernel(circuit, weights={w: values})(X, X), RUNS)
    table.add("trainable, ours", points=n, qubits=2, seconds=ours)
    if _is_there("squlearn"):
        far = abs(kernel_alignment(K, y) - their_alignment(K, y))
        found["same"].append(("alignment, sQUlearn's", far))
    if not _is_there("qiskit_machine_learning"):
        return
    their_trainable(X[:2], values)  # imports
    theirs, seconds = timed(lambda: their_trainable(X, values), 1)
    case = "trainable, TrainableFidelityQuantumKernel"
    found["same"].append((case, float(np.abs(K - theirs).max())))
    found["faster"].append((case, seconds / ours))
    table.add(case, points=n, qubits=2, seconds=seconds, difference=found["same"][-1][1])

    X, y, n = X[:QUICK], y[:QUICK], QUICK

    def our_gradient() -> NDArray:
        kernel = FidelityKernel(circuit, weights={w: values})
        return -Losses(kernel, kernel._map_for(2), X, target_matrix(y, n))(values)[1]

    def their_gradient() -> NDArray:
        kernels = [[their_trainable(X, values + s * STEP * e) for s in (1, -1)] for e in np.eye(len(values))]
        return np.array([(kernel_alignment(a, y) - kernel_alignment(b, y)) / (2 * STEP) for a, b in kernels])

    gradient, ours = timed(our_gradient, RUNS)
    theirs, seconds = timed(their_gradient, 1)
    case = "gradient, TrainableFidelityQuantumKernel's differences"
    found["gradient"].append((case, float(np.abs(gradient - theirs).max())))
    found["faster"].append((case, seconds / ours))
    table.add("gradient, ours", points=n, qubits=2, seconds=ours)
    table.add(case, points=n, qubits=2, seconds=seconds, difference=found["gradient"][-1][1])


def concentrating(table: Rows) -> list[Verdict]:
    """Spread of entries over the width, points uniform in [0, 2π]^q."""
    verdicts = []
    for kind in (FidelityKernel, ProjectedKernel):
        for q in WIDTHS:
            X = np.random.default_rng(q).uniform(0, 2 * np.pi, (40, q))
            seen = concentration(kind("zz"), X, shots=SHOTS)
            spread, noise = np.sqrt(seen.variance), np.sqrt(seen.shot_variance)
            table.add(f"{kind.__name__}, {q} qubits", mean=seen.mean, spread=float(spread), noise=float(noise))
            if q in (WIDTHS[0], WIDTHS[-1]):
                what = f"{kind.__name__} of zz, {q} qubits, angles up to 2π"
                measure = f"spread of the entries by the noise of {SHOTS} shots"
                verdicts.append(Verdict("shown", what, measure, float(spread / noise), unit="×"))
    return verdicts


def _is_there(package: str) -> bool:
    if importlib.util.find_spec(package) is None:
        print(f"NOT MEASURED: {package} is not installed")
        return False
    return True


def main() -> int:
    options = command_line(__doc__)
    one_thread()
    print(f"{TITLE}: {machine(*QUANTUM)}, one thread")
    warnings.simplefilter("ignore")
    n = QUICK if options.quick else POINTS
    table = Rows(f"{TITLE}_rows", options)
    found: dict[str, list[tuple[str, float]]] = {"same": [], "faster": [], "gradient": []}
    projected(n, table, found)
    trained(n, table, found)
    verdicts = [
        each("must", "kernels and alignment beside the peers'", "largest difference", found["same"], "<=", SAME),
        each("must", "kernels and gradients", "ratio to the peer", found["faster"], ">=", FASTER, unit="×"),
        each("must", "gradients beside differences", "largest difference", found["gradient"], "<=", GRADIENT_SAME),
        *concentrating(table),
    ]
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
