"""Study: SVMs trained with circuits beside those of four other packages, on the same data. No claim beyond its table.

Data: moons (2 features), iris without its first class and breast cancer (4 principal components), standardised, 6
points to train on and 30 held out; Qiskit's ``zz_feature_map`` with two repetitions of 1/8 (moons) or 1/16 of the
features, where its entries are told apart (`kernel_accuracy`); C = 1, γ = 1 of density matrices. One seed a set.
Six points, so that QAOA with two bits a point has 12 qubits.

Circuits for the kernel, a classical solver for α:

- ours: `SVC` on a `FidelityKernel` or a `ProjectedKernel`; exact on the emulator, 1000 shots on Aer, a sampled fidelity
  matrix clipped (`repair`), as qiskit-machine-learning does by default;
- qiskit-machine-learning: ``QSVC`` and ``PegasosQSVC`` on ``FidelityStatevectorKernel`` (exact) or
  ``FidelityQuantumKernel`` with Aer's sampler. Pegasos has the bias in the kernel, k + 1, and its C is n times ours; it
  takes 100 steps, a tenth of its default: a step asks for its kernel entries anew;
- sQUlearn: ``QSVC`` on its fidelity and projected kernels, by Qiskit's statevector (exact) or Aer's estimator. Its
  fidelity kernel refuses shots on Qiskit 2; there it is PennyLane's default.qubit, which computes the states of all
  points, from which sQUlearn draws: circuits are those states, and no shots are seen.

Circuits for α, on the exact matrix of the fidelity kernel:

- ours: `variational-lotka-volterra` and `hamiltonian-adiabatic` (one block) on Aer, 30 steps at most;
- tno-quantum-ml-classifiers-svm: α on the grid 0, 1/3, 2/3, 1 (K = 2 bits a point, the equality as a penalty; both its
  defaults), by its default, simulated annealing without circuits, and by its QAOA on PennyLane's default.qubit: one
  layer, 100 steps by exact gradients, and the best of 1000 shots of the last circuit. Controls without a circuit: the
  best of 1000 random bit strings, and the best of all 4096, which is what its grid allows. One row for both modes;
- NWQLib: ``refine_box`` of quantum Hamiltonian descent, 2 grid points a variable in one-hot (12 qubits), at most 8
  levels, the bias in the kernel; other grids need more qubits (`descent_peers` has 4 points a variable, for n = 4).

Columns: accuracy on the points held out; the relative gap of the α that was found, by `certify`, for the *exact* kernel
of its kind and for the very matrix it was fitted to, where that is positive semidefinite; circuits and shots that the
simulator was seen to run, training and prediction; seconds of these. Exact kernels run no circuits on Aer.
Needs ``pip install "dualflow[bench]" squlearn tno-quantum-ml-classifiers-svm torch "nwqlib[aer]"`` and, for the last,
Python 3.12; what is not installed is a row that says so.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
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

TITLE = "quantum/svm_peers"
TRAIN, TEST, C, SHOTS, STEPS = 6, 30, 1.0, 1000, 100
#: NWQLib's grid points a variable, levels, steps and time of a circuit, and the share of the mass that is kept.
GRID, LEVELS, TROTTER, TIME, MASS = 2, 8, 20, 5.0, 0.8
FACTOR = {"moons": 1 / 8, "iris": 1 / 16, "breast cancer": 1 / 16}
#: Steps of our solvers on circuits, most of one circuit each.
MAX_STEPS = 30
OURS = ("variational-lotka-volterra", "hamiltonian-adiabatic")
TNO = ("annealing", "QAOA", "random", "all")
LINES = {
    "qiskit_machine_learning": 'pip install "dualflow[bench]"',
    "squlearn": "pip install squlearn",
    "tno.quantum.ml.classifiers.svm": "pip install tno-quantum-ml-classifiers-svm torch",
    "nwqlib": 'pip install "nwqlib[aer]", with Python 3.12',
}


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

    n, steps = len(case.A), STEPS
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


def dual(solver: str, case: Case) -> Fitted:
    """Our solver of the dual on circuits, raw."""
    K, columns = exact_matrices(case)
    run = {"device": "aer", "shots": case.shots}
    posed = {"C": C, "kernel": "precomputed", "solver": solver, "solver_options": run, "max_steps": MAX_STEPS}
    model = SVC(**posed, refine=False, random_state=0)
    model.fit(K, case.a)
    return Fitted(model.predict(columns), scattered(model, len(K)), K)


def exact_matrices(case: Case) -> tuple[NDArray, NDArray]:
    """The fidelity kernel's matrix of the training points, and its rows of the points held out."""
    kernel = FidelityKernel(case.circuit)
    return kernel(case.A, case.A), kernel(case.B, case.A)


def tno(how: str, case: Case) -> Fitted:
    """The QUBO of tno, whose energies' minimum is looked for by one of its solvers or of the controls."""
    from tno.quantum.ml.classifiers.svm import SupportVectorMachine
    from tno.quantum.utils import BitVector

    K, columns = exact_matrices(case)
    whole = np.vstack([K, columns])  # a point is given by its row: tno asks for the kernel of two points
    config, tally = None, {"circuits": 0, "shots": 0}
    if how == "QAOA":
        last = {"name": "default.qubit", "options": {"shots": SHOTS, "seed": 0}}
        config = {"name": "qaoa_solver", "options": {"random_state": 0, "evaluation_device": last}}
    model = SupportVectorMachine(C=C, kernel=lambda x, z: whole[int(x[0]), int(z[0])], solver_config=config)
    n = len(K)
    with states_of_pennylane() as seen:
        model.fit(np.arange(n)[:, None], case.a)
    if how == "QAOA":
        tally = {"circuits": seen["circuits"], "shots": SHOTS, "qubits": model.qubo_.size}
    elif how != "annealing":
        bits = controls_bits(how, model.qubo_.size)
        energies = np.einsum("ij,jk,ik->i", bits, model.qubo_.matrix, bits, optimize=True)
        model._decode_bit_vector(BitVector(bits[energies.argmin()]))
    alpha = np.asarray(model.alphas_)
    labels = np.where(columns @ (alpha * case.a) + model.bias_ > 0, 1, -1)
    return Fitted(labels, alpha * case.a, K, tally=tally)


def controls_bits(how: str, size: int) -> NDArray:
    """Random bit strings, as many as QAOA's shots, or all of them."""
    if how == "random":
        return np.random.default_rng(0).integers(0, 2, (SHOTS, size))
    return (np.arange(2**size)[:, None] >> np.arange(size)) & 1


def nwqlib(case: Case) -> Fitted:
    """NWQLib's box refinement on the dual whose bias is in the kernel."""
    import sympy
    from nwqlib.algorithms.qhd import QHD, BoxRefinement, refine_box
    from nwqlib.problems import Optimization

    K, columns = exact_matrices(case)
    problem = problems.svc(Gram.precomputed(K), case.a, C, fit_intercept="penalised")
    Q, n = problem.dense(), len(K)
    variables = sympy.symbols(f"a:{n}", real=True)
    square = sum(0.5 * float(Q[i, j]) * variables[i] * variables[j] for i in range(n) for j in range(n))
    found = refine_box(
        Optimization(
            objective=sympy.expand(square - sum(variables)), variables=variables, bounds=((0.0, float(C)),) * n
        ),
        qhd=QHD(num_grid_points=GRID, num_steps=TROTTER, total_time=TIME, include_boundary_points=True),
        options=BoxRefinement(max_levels=LEVELS, point_rule="mode_or_mean", mass_threshold=MASS),
        shots=case.shots,
        seed=0,
    )
    signed = np.array(found.candidate, dtype=float) * case.a
    return Fitted(np.where((columns + 1) @ signed > 0, 1, -1), signed, K, penalised=True)


#: Name, package, kind of kernel, and what fits it.
ENTRANTS: tuple[tuple[str, str, str, Callable[[Case], Fitted]], ...] = (
    ("dualflow SVC, fidelity", "", "fidelity", lambda case: ours(FidelityKernel, case)),
    ("qiskit-machine-learning QSVC", "qiskit_machine_learning", "fidelity", qsvc),
    ("qiskit-machine-learning PegasosQSVC", "qiskit_machine_learning", "fidelity", pegasos),
    ("sQUlearn QSVC, fidelity", "squlearn", "fidelity", lambda case: squlearn("fidelity", case)),
    ("dualflow SVC, projected", "", "projected", lambda case: ours(ProjectedKernel, case)),
    ("sQUlearn QSVC, projected", "squlearn", "projected", lambda case: squlearn("projected", case)),
    *((f"dualflow SVC, {name}", "", "fidelity", partial(dual, name)) for name in OURS),
    *((f"tno SVM, {how}", "tno.quantum.ml.classifiers.svm", "fidelity", partial(tno, how)) for how in TNO),
    ("NWQLib refine_box", "nwqlib", "fidelity", nwqlib),
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


def installed(package: str) -> bool:
    """Whether a package is, or a module of one."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of the package above it
        return False


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


def verdicts(found: dict[tuple[str, str], list[dict[str, Any]]]) -> list[Verdict]:
    """The lines of every entrant and mode, from its columns on all sets."""
    out = []
    for (peer, mode), cells in found.items():
        what = f"{peer}, {mode}"
        gaps = [cell["gap"] for cell in cells]
        worst = float("inf") if any(g is None for g in gaps) else max(gaps)
        note = f"circuits {sum(c.get('circuits') or 0 for c in cells)}, shots {sum(c.get('shots') or 0 for c in cells)}"
        out.append(Verdict("shown", what, "relative gap for the exact kernel, the worst", worst, note=note))
        rates = [cell["accuracy"] for cell in cells]
        note = f"on {' / '.join(f'{rate:.0f}' for rate in rates)}; {TEST} points held out"
        out.append(Verdict("shown", what, "accuracy, the mean", float(np.mean(rates)), unit="%", note=note))
        seconds = float(np.median([cell["seconds"] for cell in cells]))
        out.append(Verdict("shown", what, "seconds, the median", seconds, unit="s"))
    return out


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
                if not chosen(row, options.only) or (shots is None and peer.startswith("tno")):
                    continue
                if package and not installed(package):
                    table.add(row, note=f"not installed: {LINES[package]}")
                    continue
                entrant(Case(A[:4], np.array([1, -1, 1, -1]), B[:1], circuit, shots))  # imports
                columns = measured(entrant, kind, Case(A, a, B, circuit, shots), b)
                found.setdefault((peer, mode), []).append(columns)
                table.add(row, **columns)
    return conclude(TITLE, verdicts(found), options)


if __name__ == "__main__":
    sys.exit(main())
