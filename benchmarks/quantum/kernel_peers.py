"""Study: quantum-kernel SVMs beside those of qiskit-machine-learning and sQUlearn. No claim beyond its table.

Data: moons (2 features), iris without its first class and breast cancer (4 principal components), standardised, 20
points to train on and 30 held out; Qiskit's ``zz_feature_map`` with two repetitions of 1/8 (moons) or 1/16 of the
features, where its entries are told apart (`kernel_accuracy`); C = 10, γ = 1 of density matrices. One seed a set.

- ours: `SVC` on a `FidelityKernel` or a `ProjectedKernel`; exact on the emulator, 1000 shots on Aer, a sampled fidelity
  matrix clipped (`repair`), as qiskit-machine-learning does by default;
- qiskit-machine-learning: ``QSVC`` and ``PegasosQSVC`` on ``FidelityStatevectorKernel`` (exact) or
  ``FidelityQuantumKernel`` with Aer's sampler. Pegasos has the bias in the kernel, k + 1, and its C is n times ours; it
  takes 1000 steps, as it does by default, and 100 where they are sampled: a step asks for its kernel entries anew;
- sQUlearn: ``QSVC`` on its fidelity and projected kernels, by Qiskit's statevector (exact) or Aer's estimator. Its
  fidelity kernel refuses shots on Qiskit 2; there it is PennyLane's default.qubit, which computes the states of all
  points, from which sQUlearn draws: circuits are those states, and no shots are seen.

Columns: accuracy on the points held out; the relative gap of the α that was found, by `certify`, for the *exact* kernel
of its kind and for the very matrix it was fitted to, where that is positive semidefinite; circuits and shots that the
simulator was seen to run, training and prediction; seconds of these. Exact kernels run no circuits on Aer.
Needs ``pip install "dualflow[bench]" squlearn``; what is not installed is a row that says so.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit
from qiskit.circuit.library import zz_feature_map

from benchmarks.lib.circuit_problems import gap
from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import chosen, command_line
from benchmarks.lib.machine import QUANTUM, machine, one_thread
from benchmarks.lib.tally import circuits_of_aer, states_of_pennylane
from benchmarks.quantum.kernel_accuracy import split
from dualflow import SVC, FidelityKernel, Gram, ProblemError, ProjectedKernel, problems, repair

TITLE = "quantum/kernel_peers"
TRAIN, TEST, C, SHOTS, STEPS, FEW_STEPS = 20, 30, 10.0, 1000, 1000, 100
FACTOR = {"moons": 1 / 8, "iris": 1 / 16, "breast cancer": 1 / 16}
LINES = {"qiskit_machine_learning": 'pip install "dualflow[bench]"', "squlearn": "pip install squlearn"}


@dataclass
class Case:
    """Points to train on, their labels ±1, points held out, the circuit, and shots or None."""

    A: NDArray
    a: NDArray
    B: NDArray
    circuit: QuantumCircuit
    shots: int | None


@dataclass
class Fitted:
    """What an entrant found: labels of the points held out, signed α, the matrix it was fitted to where it shows it."""

    labels: NDArray
    signed: NDArray
    matrix: NDArray | None = None
    penalised: bool = False
    tally: dict[str, int | None] = field(default_factory=dict)


def data(name: str) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Two classes, ±1, half of the points of each as the split has them, scaled for the circuit."""
    A, B, a, b = split(name, 0)
    parts = []
    for X, t, n in ((A, a, TRAIN), (B, b, TEST)):
        first, second = np.unique(t)[-2:]
        keep = np.flatnonzero((t == first) | (t == second))[:n]
        parts.append((FACTOR[name] * X[keep], np.where(t[keep] == second, 1, -1)))
    return parts[0][0], parts[1][0], parts[0][1], parts[1][1]


def ours(kind: type, case: Case) -> Fitted:
    kernel = kind(case.circuit, device="emulator" if case.shots is None else "aer", shots=case.shots)
    K, columns = kernel(case.A, case.A), kernel(case.B, case.A)
    if kind is FidelityKernel and case.shots is not None:
        mended = repair(K, "clip")
        K, columns = mended.matrix, mended.transform(columns)
    model = SVC(C=C, kernel="precomputed").fit(K, case.a)
    return Fitted(model.predict(columns), scattered(model, len(K)), K)


def scattered(model: Any, n: int) -> NDArray:
    """yα, shape (n,), of a fitted SVC of two classes."""
    signed = np.zeros(n)
    signed[model.support_] = model.dual_coef_[0]
    return signed


def their_kernel(case: Case) -> Any:
    """qiskit-machine-learning's, exact or by Aer's sampler."""
    from qiskit.transpiler import generate_preset_pass_manager
    from qiskit_aer import AerSimulator
    from qiskit_aer.primitives import SamplerV2
    from qiskit_machine_learning.kernels import FidelityQuantumKernel, FidelityStatevectorKernel
    from qiskit_machine_learning.state_fidelities import ComputeUncompute

    if case.shots is None:
        return FidelityStatevectorKernel(feature_map=case.circuit)
    passes = generate_preset_pass_manager(optimization_level=0, backend=AerSimulator())
    sampler = SamplerV2(default_shots=case.shots, seed=0)
    fidelity = ComputeUncompute(sampler=sampler, pass_manager=passes)
    return FidelityQuantumKernel(feature_map=case.circuit, fidelity=fidelity)


class Kept:
    """A kernel object whose last square matrix is kept: what a fit was made of, not asked for twice."""

    def __init__(self, evaluate: Callable[..., NDArray]) -> None:
        self.evaluate, self.matrix = evaluate, None

    def __call__(self, X: NDArray, Z: NDArray) -> NDArray:
        found = np.asarray(self.evaluate(X, Z))
        self.matrix = found if np.array_equal(X, Z) else self.matrix
        return found


def qsvc(case: Case) -> Fitted:
    from qiskit_machine_learning.algorithms import QSVC

    model = QSVC(quantum_kernel=their_kernel(case), C=C)
    model.kernel = kept = Kept(model.kernel)
    model.fit(case.A, case.a)
    return Fitted(model.predict(case.B), scattered(model, len(case.A)), kept.matrix)


def pegasos(case: Case) -> Fitted:
    from qiskit_machine_learning.algorithms import PegasosQSVC

    n, steps = len(case.A), STEPS if case.shots is None else FEW_STEPS
    model = PegasosQSVC(quantum_kernel=their_kernel(case), C=n * C, num_steps=steps, seed=0)
    model.fit(case.A, case.a)
    return Fitted(model.predict(case.B), pegasos_signed(model, case.a, steps), penalised=True)


def pegasos_signed(model: Any, a: NDArray, steps: int) -> NDArray:
    """yα of a PegasosQSVC, in units of a C that is 1/n of its own: what it counts, times its C by its steps."""
    signed = np.zeros(len(a))
    for i, count in model._alphas.items():
        signed[i] = a[i] * count * model.C / steps
    return signed


def squlearn(kind: str, case: Case) -> Fitted:
    from qiskit_aer import AerSimulator
    from squlearn import Executor
    from squlearn.encoding_circuit import QiskitEncodingCircuit
    from squlearn.kernel import QSVC
    from squlearn.kernel.lowlevel_kernel import FidelityKernel, ProjectedQuantumKernel

    encoding, tally = QiskitEncodingCircuit(case.circuit), {}
    if case.shots is None:
        executor = Executor("qiskit")
    elif kind == "projected":
        executor = Executor(AerSimulator(), shots=case.shots, seed=0)
    else:
        executor = Executor("pennylane", shots=case.shots, seed=0)
    if kind == "projected":
        kernel = ProjectedQuantumKernel(encoding, executor, gamma=0.5)
    else:
        kernel = FidelityKernel(encoding, executor)
    model = QSVC(quantum_kernel=kernel, C=C)
    model.kernel = kept = Kept(model.kernel)
    if kind == "fidelity" and case.shots is not None:
        with states_of_pennylane() as tally:
            labels = model.fit(case.A, case.a).predict(case.B)
    else:
        labels = model.fit(case.A, case.a).predict(case.B)
    return Fitted(labels, scattered(model, len(case.A)), kept.matrix, tally=tally)


#: Name, package, kind of kernel, and what fits it.
ENTRANTS: tuple[tuple[str, str, str, Callable[[Case], Fitted]], ...] = (
    ("dualflow SVC, fidelity", "", "fidelity", lambda case: ours(FidelityKernel, case)),
    ("qiskit-machine-learning QSVC", "qiskit_machine_learning", "fidelity", qsvc),
    ("qiskit-machine-learning PegasosQSVC", "qiskit_machine_learning", "fidelity", pegasos),
    ("sQUlearn QSVC, fidelity", "squlearn", "fidelity", lambda case: squlearn("fidelity", case)),
    ("dualflow SVC, projected", "", "projected", lambda case: ours(ProjectedKernel, case)),
    ("sQUlearn QSVC, projected", "squlearn", "projected", lambda case: squlearn("projected", case)),
)


def gap_of(K: NDArray | None, case: Case, found: Fitted) -> float | None:
    """Certified relative gap of the α of one matrix; None where there is no matrix, or it is not one of a kernel."""
    if K is None:
        return None
    intercept = "penalised" if found.penalised else True
    try:
        gram = Gram.precomputed(K)
    except ProblemError:  # not symmetric: entries of x, z and z, x sampled apart
        return None
    value = gap(problems.svc(gram, case.a, C, fit_intercept=intercept), case.a * found.signed)
    return value if np.isfinite(value) else None


def measured(entrant: Callable[[Case], Fitted], kind: str, case: Case, b: NDArray) -> dict[str, Any]:
    """The columns of one entrant on one case."""
    begun = time.perf_counter()
    with circuits_of_aer() as tally:
        found = entrant(case)
    seconds = time.perf_counter() - begun
    made = {"fidelity": FidelityKernel, "projected": ProjectedKernel}[kind](case.circuit)
    exact = made(case.A, case.A)
    accuracy = 100 * float(np.mean(found.labels == b))
    gaps = {"gap": gap_of(exact, case, found), "own_gap": gap_of(found.matrix, case, found)}
    return {"accuracy": accuracy, **gaps, **(found.tally or tally), "seconds": seconds}


def main() -> int:
    options = command_line(__doc__, "only")
    one_thread()
    print(f"{TITLE}: {machine(*QUANTUM)}, one thread")
    warnings.simplefilter("ignore")
    table, found = Rows(f"{TITLE}_rows", options), {}
    for name in list(FACTOR)[: 1 if options.quick else None]:
        A, B, a, b = data(name)
        circuit = zz_feature_map(A.shape[1], reps=2)
        for shots in (None, SHOTS):
            mode = "exact" if shots is None else f"{shots} shots"
            for peer, package, kind, entrant in ENTRANTS:
                row = f"{name}, {mode}: {peer}"
                if not chosen(row, options.only):
                    continue
                if package and importlib.util.find_spec(package) is None:
                    table.add(row, note=f"not installed: {LINES[package]}")
                    continue
                entrant(Case(A[:4], np.array([1, -1, 1, -1]), B[:1], circuit, shots))  # imports
                columns = measured(entrant, kind, Case(A, a, B, circuit, shots), b)
                found.setdefault((peer, mode), []).append(columns)
                table.add(row, **columns)
    verdicts = []
    for (peer, mode), cells in found.items():
        what = f"{peer}, {mode}"
        gaps = [cell["gap"] for cell in cells]
        worst = float("inf") if any(g is None for g in gaps) else max(gaps)
        note = f"circuits {sum(c['circuits'] for c in cells)}, shots {sum(c['shots'] or 0 for c in cells)}"
        verdicts.append(Verdict("shown", what, "relative gap for the exact kernel, the worst", worst, note=note))
        rates = [cell["accuracy"] for cell in cells]
        note = f"on {' / '.join(f'{rate:.0f}' for rate in rates)}; {TEST} points held out"
        verdicts.append(Verdict("shown", what, "accuracy, the mean", float(np.mean(rates)), unit="%", note=note))
        seconds = float(np.median([cell["seconds"] for cell in cells]))
        verdicts.append(Verdict("shown", what, "seconds, the median", seconds, unit="s"))
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
