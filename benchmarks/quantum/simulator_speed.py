"""Claim: with shots, a whole run takes ≤ 3 × what its simulator takes to simulate and sample its circuits in one call.

Moons (RBF, gamma="scale"; `quantum-interior-point`: linear), n = 16, 64, 256 up to a solver's limit, 10 000 shots a
circuit: every solver that takes shots, on every simulator without noise that is installed here. `hhl` and
`variational-dqc` read exact distributions only.

The simulator's own call is the fastest that it documents: all circuits of a run together, of which each step of the run
waits for the last one's shots. The circuits of a run are recorded, and handed at once to `AerSimulator.run` with
``parameter_binds`` and measurements, or to `pennylane.execute` as one tape with broadcast angles and
``pennylane.sample``, a tape for every MAX_BITS sampled bits. Both are warm: circuits are compiled. Processor time,
since machines of a benchmark are busy; run and call in turn, and the medians of RUNS such pairs. Shown beside: the same
call for the exact distributions with draws by numpy, which no run can undercut; the parts of a run (compile, bind and
simulate, sample, read, rest); and a circuit's time on Aer at 4 to 8 qubits.

- whole run ≤ 3 × the simulator's own call, for each solver and device at n = 16, 64, 256
- a circuit with 10 000 shots on Aer ≤ 3 ms at ≤ 8 qubits
- `hamiltonian-dilation`, n = 64, with shots on Aer ≤ 1 s
- the first solve of a process, n = 16, exact on Aer, with the import of dualflow ≤ 0.4 s after that of qiskit-aer
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib import data
from benchmarks.lib.circuit_problems import make_problem
from benchmarks.lib.claims import Claims, Rows, conclude
from benchmarks.lib.command import chosen, command_line
from benchmarks.lib.machine import QUANTUM, machine, one_thread
from dualflow import DualProblem, Gram, problems, solve
from dualflow.quantum.circuits import ParametricCircuit, TreeCircuit
from dualflow.quantum.devices import Device, make_device
from dualflow.quantum.devices import pennylane as pennylane_module
from dualflow.quantum.devices.local import LocalDevice
from dualflow.quantum.devices.pennylane import _operations, translate
from dualflow.quantum.runs.laboratory import Laboratory

TITLE = "quantum/simulator_speed"
SHOTS, RUNS = 10_000, 3
#: Blocks of the solvers that send a circuit for every few variables: all their circuits are alike.
BLOCKS = 40
#: Solvers of a quick run, the first ones of the list.
QUICK_SOLVERS = 3
SIZES, QUICK_SIZES = (16, 64, 256), (16,)
DEVICES = ("aer", "pennylane:lightning.qubit", "pennylane:default.qubit")
#: Every solver that takes shots: its problem, its largest n here, its options.
SOLVERS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "variational-flow": ("SVDD", 256, {}),
    "hamiltonian-dilation": ("SVDD", 256, {}),
    "quantum-invasion": ("SVDD", 256, {"block": 16}),
    "variational-lotka-volterra": ("hinge", 256, {}),
    "hamiltonian-descent": ("hinge", 64, {"max_blocks": BLOCKS}),
    "hamiltonian-adiabatic": ("hinge", 64, {"max_blocks": BLOCKS}),
    "hamiltonian-schrodingerisation": ("SVDD", 16, {}),
    "hamiltonian-lchs": ("SVDD", 16, {}),
    "quantum-interior-point": ("linear hinge", 256, {}),
}
#: Most times of its simulator's own call that a run may take.
MOST_TIMES = 3.0
#: Most milliseconds of a circuit on Aer, and most seconds of `hamiltonian-dilation`.
MOST_MS, MOST_DILATION_S = 3.0, 1.0
#: Most seconds of the first solve of a process.
MOST_FIRST_S = 0.4
#: A process that prints the processor time of its first solve.
FIRST_SOLVE = """
import time, numpy, qiskit_aer
points = numpy.random.default_rng(0).standard_normal((16, 2))
begun = time.process_time()
from dualflow import Gram, problems, solve
solve(problems.svdd(Gram(points, "rbf", gamma=0.5)), "variational-flow", device="aer")
print(time.process_time() - begun)
"""
#: Seconds of a run above which it and the call are timed once.
LONG_S = 5.0
#: Most sampled bits of a tape; PennyLane keeps each as eight bytes.
MAX_BITS = 2**25

Batches = list[tuple[ParametricCircuit, NDArray]]


class Recorder:
    """The parts of a run on one device, in seconds of processor time, and the batches it ran."""

    def __init__(self, device: Device) -> None:
        self.device, self.batches = device, []  # type: ignore[var-annotated]
        self.seconds = dict.fromkeys(("compile", "simulate", "sample", "read"), 0.0)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Time the device's parts within the block; the calls inside one another are taken off the outer one."""
        undo: list[Callable[[], None]] = []

        def watch(owner: Any, name: str, part: str, inner: tuple[str, ...] = ()) -> None:
            call = getattr(owner, name)

            def timed(*args: Any, **named: Any) -> Any:
                before, begun = sum(self.seconds[k] for k in inner), time.process_time()
                try:
                    return call(*args, **named)
                finally:
                    own = time.process_time() - begun - (sum(self.seconds[k] for k in inner) - before)
                    self.seconds[part] += own

            was = vars(owner).get(name)
            setattr(owner, name, timed)
            undo.append(lambda: setattr(owner, name, was) if was is not None else delattr(owner, name))

        device = self.device
        watch(device, "compiled", "compile")
        watch(device, "_probabilities", "simulate", ("compile",))
        if hasattr(type(device), "drawing") and type(device).drawn is not Device.drawn:
            watch(device, "drawn", "sample")
        else:
            watch(pennylane_module, "sampled", "sample")
        watch(Laboratory, "_with_fidelity", "read")
        run = device._run  # type: ignore[attr-defined]

        def recording(circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int) -> Any:
            if shots is not None:
                self.batches.append((circuit, np.array(values)))
            return run(circuit, values, shots, seed)

        device._run = recording  # type: ignore[attr-defined]
        try:
            yield
        finally:
            del device._run  # type: ignore[attr-defined]
            for call in undo[::-1]:
                call()


def together(batches: Batches) -> Batches:
    """The batches of one circuit as one."""
    rows: dict[ParametricCircuit, list[NDArray]] = {}
    for circuit, values in batches:
        rows.setdefault(circuit, []).append(values)
    return [(circuit, np.concatenate(values)) for circuit, values in rows.items()]


def aer_call(batches: Batches, shots: int | None) -> Callable[[], None]:
    """Aer's own call for the circuits, compiled before."""
    from qiskit_aer import AerSimulator

    simulator, calls = AerSimulator(method="statevector"), []
    for circuit, values in batches:
        gates = circuit.build().copy()
        if shots is None:
            gates.save_probabilities()
        else:
            gates.measure_all()
        bound = circuit.gate_parameters(values)
        columns = {p: bound[:, k].tolist() for k, p in enumerate(circuit.build().parameters)}
        calls.append((gates, [columns], len(values)))

    def call() -> None:
        for gates, columns, count in calls:
            result = simulator.run(
                gates, parameter_binds=columns, **({} if shots is None else {"shots": shots})
            ).result()
            for k in range(count):
                if shots is None:
                    np.random.default_rng(k).multinomial(SHOTS, _normal(result.data(k)["probabilities"]))
                else:
                    result.get_counts(k)

    return call


def pennylane_call(name: str, batches: Batches, shots: int | None) -> Callable[[], None]:
    """PennyLane's own call for the circuits: tapes with broadcast angles."""
    import pennylane

    def call() -> None:
        for circuit, values in batches:
            steps, wires = translate(circuit.build()), list(range(circuit.n_qubits))
            device = pennylane.device(name, wires=circuit.n_qubits)
            bound = circuit.gate_parameters(values)
            rows = max(1, MAX_BITS // ((shots or 1) * circuit.n_qubits))
            for k in range(0, len(bound), rows):
                measured = pennylane.probs(wires=wires[::-1]) if shots is None else pennylane.sample(wires=wires)
                tape = pennylane.tape.QuantumScript(
                    _operations(steps, bound[k : k + rows], wires), [measured], shots=shots
                )
                (found,) = pennylane.execute([tape], device, diff_method=None)
                if shots is None:
                    for row in np.reshape(np.asarray(found), (-1, 2**circuit.n_qubits)):
                        np.random.default_rng(k).multinomial(SHOTS, _normal(row))
                else:
                    read = np.reshape(np.asarray(found), (-1, shots, circuit.n_qubits)).astype(int)
                    for row in read @ (1 << np.arange(circuit.n_qubits)):
                        np.bincount(row, minlength=2**circuit.n_qubits)

    return call


def _normal(row: Any) -> NDArray:
    clipped = np.maximum(np.asarray(row, dtype=float), 0.0)
    scaled: NDArray = clipped / clipped.sum()
    return scaled


def medians_s(calls: Sequence[Callable[[], Any]], runs: int) -> list[float]:
    """Median processor times of calls that are made in turn, after one of each that is not timed."""
    found: list[list[float]] = [[] for _ in calls]
    for k in range(runs + 1):
        for times, call in zip(found, calls, strict=True):
            begun = time.process_time()
            call()
            if k:
                times.append(time.process_time() - begun)
    return [statistics.median(times) for times in found]


def posed(model: str, n: int) -> DualProblem:
    """The problem of a solver."""
    if model == "SVDD":
        return make_problem("moons", n, "SVDD")
    X, y = data.load("moons", n)
    if model == "hinge":
        return problems.svc(Gram(X, kernel="rbf", gamma=data.scale_gamma(X)), y, 10.0, fit_intercept=False)
    return problems.svc(Gram(X, kernel="linear"), y, 1.0)


def first_solve_s(runs: int) -> float:
    """Median processor time of the first solve of a process, whose bytecode an earlier one has written."""
    with tempfile.TemporaryDirectory() as cache:
        bytecode = {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
        command = [sys.executable, "-c", FIRST_SOLVE]
        found = [
            float(subprocess.run(command, env=os.environ | bytecode, capture_output=True, check=True).stdout)
            for _ in range(runs + 1)
        ]
    return statistics.median(found[1:])


def whole(table: Rows, claims: Claims, solver: str, name: str, n: int, runs: int) -> None:
    """One solver on one device at one size."""
    model, _, options = SOLVERS[solver]
    problem, device = posed(model, n), make_device(name)
    assert isinstance(device, LocalDevice)

    def run() -> Any:
        return solve(problem, solver, device=device, shots=SHOTS, refine=False, random_state=0, **options)

    recorder = Recorder(device)
    run()
    with recorder.watching():
        begun = time.process_time()
        found = run()
        watched = time.process_time() - begun
    batches = together(recorder.batches)
    if name == "aer":
        sampling, exact = aer_call(batches, SHOTS), aer_call(batches, None)
    else:
        sampling, exact = (pennylane_call(name.removeprefix("pennylane:"), batches, s) for s in (SHOTS, None))
    ours, raw, least = medians_s([run, sampling, exact], 1 if watched > LONG_S else runs)
    case = f"{solver} {name} n={n}"
    parts = {f"{part}_s": seconds for part, seconds in recorder.seconds.items()}
    table.add(
        case,
        circuits=found.cost.circuits,
        batches=len(recorder.batches),
        run_s=ours,
        own_call_s=raw,
        times_own_call=ours / raw,
        exact_call_s=least,
        times_exact_call=ours / least,
        **parts,
        rest_s=watched - sum(recorder.seconds.values()),
    )
    claims.say(f"run with shots, {name}", "times the simulator's own call", case, ours / raw, "<=", MOST_TIMES)
    claims.say(
        f"run with shots, {name}",
        "times one exact call and draws",
        case,
        ours / least,
        "<=",
        MOST_TIMES,
        kind="stretch",
    )
    if (solver, name, n) == ("hamiltonian-dilation", "aer", 64):
        claims.say("hamiltonian-dilation, n = 64, Aer", "processor time", case, ours, "<=", MOST_DILATION_S, "s")


def main() -> int:
    options = command_line(__doc__, "only")
    one_thread()
    warnings.simplefilter("ignore")
    print(f"{TITLE}: {machine(*QUANTUM)}")
    table, claims, runs = Rows(f"{TITLE}_rows", options), Claims(), 2 if options.quick else RUNS
    for q in (4, 6, 8):
        circuit, device = TreeCircuit(q), make_device("aer")
        theta = np.random.default_rng(q).uniform(0.0, np.pi, circuit.n_parameters)
        [seconds] = medians_s([partial(device.submit, circuit, theta, SHOTS, seed=1)], 20)
        claims.say(
            "a circuit on Aer, 10 000 shots", "processor time", f"{q} qubits", 1e3 * seconds, "<=", MOST_MS, "ms"
        )
    first = first_solve_s(runs)
    claims.say("first solve of a process, exact on Aer", "processor time", "n=16", first, "<=", MOST_FIRST_S, "s")
    for n in QUICK_SIZES if options.quick else SIZES:
        for solver in list(SOLVERS)[: QUICK_SOLVERS if options.quick else None]:
            for name in DEVICES:
                if n <= SOLVERS[solver][1] and chosen(f"{solver} {name} n={n}", options.only):
                    whole(table, claims, solver, name, n, runs)
    return conclude(TITLE, claims.verdicts(), options)


if __name__ == "__main__":
    sys.exit(main())
