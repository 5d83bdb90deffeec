"""Estimates of a run's circuits and shots, compared with the counts of the run itself."""

import dataclasses

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dualflow
from dualflow import DeviceError, Gram, ProblemError, SolverMismatch, estimate, problems, solve
from dualflow.quantum.devices import Capabilities, Limits, Price
from dualflow.quantum.devices.emulator import EmulatorDevice
from dualflow.quantum.runs.batches import Batch
from dualflow.solvers import SOLVERS

N = 8
#: Seconds of a job, and of each shot in addition to its circuit, as of IBM.
JOB_S, SHOT_S, GATE_S = 2.0, 250e-6, 500e-9


class Metered(EmulatorDevice):
    """A device with remote=True, prices by IBM's formula and small jobs, which adds up the cost of its jobs."""

    name = "metered"
    remote = True
    capabilities = Capabilities(exact=True, sampled=True, noisy=False, qubits=24)

    def __init__(self, limits=None):
        super().__init__()
        self.limits = limits or Limits()
        self.circuits = self.shots = self.jobs = 0
        self.seconds = 0.0

    def _submit(self, circuit, values, shots, tag, seed):
        circuits = 1 if values.ndim == 1 else len(values)
        self.jobs += 1
        self.circuits += circuits
        self.shots += circuits * (shots or 0)
        duration = GATE_S * circuit.build().depth()
        self.seconds += 0 if shots is None else JOB_S + (SHOT_S + duration) * circuits * shots
        return super()._submit(circuit, values, shots, tag, seed)

    def price(self, circuit, circuits, shots):
        seconds = JOB_S + (SHOT_S + GATE_S * self.resources(circuit).depth) * circuits * shots
        return Price(seconds, 1.6 * seconds, "USD", "2 s a job + (250 µs + circuit) a shot")


class Silent(Metered):
    """A device that must not receive a job."""

    name = "silent"

    def _submit(self, *_):
        raise AssertionError("an estimate sent a job")

    def fetch(self, job_id):
        raise AssertionError("an estimate fetched a job")


def problem(kind, n=N):
    X, t = make_moons(n, noise=0.1, random_state=0)
    y, gram = 2.0 * t - 1, Gram(X)
    return {
        "simplex": lambda: problems.svc(gram, y, C=10.0, loss="squared_hinge"),
        "box": lambda: problems.svc(gram, y, C=10.0),
        "affine": lambda: problems.least_squares(gram, y, C=10.0),
    }[kind]()


#: Solvers and options with fixed numbers of circuits; a test below checks that no quantum solver with shots is missing.
FIXED = [
    ("variational-flow", "simplex", {"shots": 300}),
    ("variational-flow", "simplex", {"shots": 300, "final_shots": 7000, "mitigation": "confusion"}),
    ("variational-flow", "simplex", {"shots": 300, "shot_budget": 5000, "steps": 30}),
    ("variational-flow", "simplex", {"shots": 300, "shot_budget": 40_000, "mitigation": "confusion"}),
    ("variational-flow", "simplex", {"shots": 50, "ansatz": "hardware-efficient", "steps": 7}),
    ("variational-lotka-volterra", "box", {"shots": 300}),
    ("variational-lotka-volterra", "box", {"shots": 300, "steps": 9, "mitigation": "confusion", "final_shots": 11}),
    ("hamiltonian-dilation", "box", {"shots": 100}),
    ("hamiltonian-dilation", "simplex", {"shots": 100, "shot_budget": 30_000, "mitigation": "confusion"}),
    ("hamiltonian-schrodingerisation", "simplex", {"shots": 1000, "ancillas": 5, "windows": 6}),
    ("hamiltonian-lchs", "simplex", {"shots": 1000, "ancillas": 5, "final_shots": 5000, "shot_budget": 20_000}),
    ("hamiltonian-lchs", "simplex", {"shots": 1000, "ancillas": 4, "mitigation": "confusion", "windows": 3}),
    ("hamiltonian-descent", "box", {"shots": 200, "trotter_steps": 5, "block": 4}),
    ("hamiltonian-adiabatic", "box", {"shots": 200, "trotter_steps": 5, "max_blocks": 3}),
    ("hhl", "affine", {}),
]


@pytest.mark.parametrize(("solver", "kind", "options"), FIXED)
def test_fixed_numbers_are_exactly_what_a_device_then_counts(solver, kind, options):
    posed, device = problem(kind), Metered()
    said = estimate(posed, solver, Silent(), **options)
    assert said.fixed
    solution = solve(posed, solver, device=device, tol=1e-300, random_state=5, **options)
    assert (said.circuits, said.shots, said.jobs) == (device.circuits, device.shots, device.jobs)
    assert (said.circuits, said.shots) == (solution.cost.circuits, solution.cost.shots)
    assert said.circuits > 0
    assert said.qpu_seconds == pytest.approx(device.seconds, rel=0.05)
    assert said.cost == pytest.approx(1.6 * said.qpu_seconds)
    if not solver.startswith("hamiltonian-descent"):  # its blocks are of several sizes
        assert (said.qubits, said.two_qubit_gates) == (solution.cost.qubits, solution.cost.two_qubit_gates)


@pytest.mark.parametrize("mitigation", [None, "confusion"])
@pytest.mark.parametrize(
    ("solver", "kind", "options"),
    [
        ("variational-flow", "simplex", {}),
        ("variational-flow", "simplex", {"ansatz": "hardware-efficient", "layers": 1}),
        ("variational-flow", "simplex", {"shots": "adaptive", "final_shots": 300}),
        ("variational-lotka-volterra", "box", {}),
        ("hamiltonian-dilation", "simplex", {}),
        ("hamiltonian-lchs", "simplex", {"ancillas": 4}),
        ("hamiltonian-schrodingerisation", "simplex", {"ancillas": 6}),
        ("quantum-invasion", "simplex", {"block": 3}),
    ],
)
def test_a_budget_of_shots_that_holds_little_more_than_the_start_is_kept(solver, kind, options, mitigation):
    posed, kept, refused = problem(kind, 6), 0, []
    options = {"shots": 1000} | options | ({} if mitigation is None else {"mitigation": mitigation})
    for budget in (1000, 1500, 2000, 21_500, 70_000):
        limited = options | {"shot_budget": budget}
        try:
            solution = solve(posed, solver, device="emulator", random_state=0, tol=1e-300, **limited)
        except ProblemError as error:
            refused.append(str(error))
            continue
        kept += 1
        assert 0 < solution.cost.shots <= budget
        said = estimate(posed, solver, "emulator", **limited)
        assert not said.fixed or said.shots == solution.cost.shots
    assert kept  # not all of them are refused
    assert all("shot_budget=" in error and "does not hold" in error for error in refused)


def test_every_quantum_solver_with_shots_is_among_them():
    quantum = {name for name in SOLVERS.targets if SOLVERS.find(name).quantum}
    shots = {name for name in quantum if "shots" in {f.name for f in dataclasses.fields(SOLVERS.find(name))}}
    # How many blocks or Newton steps there are depends on what is measured.
    assert shots - {"quantum-invasion", "quantum-interior-point"} <= {name for name, _, _ in FIXED}
    assert quantum - shots == {"hhl", "variational-dqc"}


@pytest.mark.parametrize(
    ("solver", "kind", "options"),
    [
        ("variational-flow", "simplex", {"shots": "adaptive", "shot_budget": 50_000}),
        ("variational-lotka-volterra", "box", {"shots": "adaptive", "shot_budget": 50_000}),
        ("variational-flow", "simplex", {}),
        ("hamiltonian-dilation", "box", {}),
        ("quantum-invasion", "simplex", {"shots": 200, "block": 4, "inner_options": {"steps": 6}}),
        ("quantum-invasion", "simplex", {"shots": 200, "block": 4, "shot_budget": 9000, "mitigation": None}),
        ("hamiltonian-descent", "box", {"shots": 200, "trotter_steps": 5, "block": 4, "mitigation": "confusion"}),
        ("variational-dqc", "box", {"t_end": 0.02, "layers": 1, "n_qubits": 2}),
    ],
)
def test_numbers_that_depend_on_measurements_are_forecast_by_the_emulator(solver, kind, options):
    posed = problem(kind)
    said = estimate(posed, solver, Silent(), random_state=3, **options)
    assert not said.fixed
    assert "forecast" in said.basis
    # With the seed of the rehearsal the emulator goes the same way.
    cost = solve(posed, solver, device="emulator", random_state=3, **options).cost
    assert (said.circuits, said.shots) == (cost.circuits, cost.shots)


def test_a_rehearsal_that_is_cut_short_says_so():
    estimate(problem("box"), "hamiltonian-descent", Silent(), shots=200)  # the first one also imports what it needs
    said = estimate(problem("box"), "hamiltonian-descent", Silent(), shots=200, time_limit=1e-3)
    assert not said.fixed
    assert said.basis.startswith("lower bounds")


def test_an_estimate_does_not_change_the_run(tmp_path):
    journal = tmp_path / "jobs"
    said = estimate(problem("simplex"), "variational-flow", Silent(), shots=100, journal=journal)
    assert said.options == {"shots": 100}
    estimate(problem("box"), "hamiltonian-descent", Silent(), shots=100, journal=journal)
    assert not journal.exists()


def test_jobs_are_split_at_the_device_s_limits_and_each_has_a_price():
    posed = problem("simplex")
    whole = estimate(posed, "variational-flow", Silent(), shots=1000, steps=4, ansatz="hardware-efficient")
    small = Silent(Limits(circuits=10, shots=400))
    said = estimate(posed, "variational-flow", small, shots=1000, steps=4, ansatz="hardware-efficient")
    assert (said.circuits, said.shots) == (whole.circuits, whole.shots)
    a_step = whole.circuits // 5
    assert said.jobs == 5 * 3 * -(-a_step // 10)
    assert said.qpu_seconds - whole.qpu_seconds == pytest.approx(JOB_S * (said.jobs - whole.jobs))


@pytest.mark.parametrize("circuits", [1, 7])
@pytest.mark.parametrize("shots", [None, 1, 1000])
@pytest.mark.parametrize("limits", [(None, None, None), (3, 450, None), (None, None, 450), (2, None, 1500), (1, 1, 1)])
def test_a_split_batch_is_the_same_work_within_the_limits(circuits, shots, limits):
    most = Limits(*limits)
    parts = most.parts(circuits, shots)
    work = np.zeros(circuits)
    for rows, load in parts:
        work[rows] += load or 0
        assert rows.stop - rows.start <= (most.circuits or circuits)
        assert (load or 0) <= (most.shots or shots or 0)
        if most.executions and load:
            assert (rows.stop - rows.start) * load <= most.executions
    assert (work == (shots or 0)).all()
    assert sum(len(work[rows]) for rows, _ in parts) == circuits * (len(parts) // len({r.start for r, _ in parts}))
    if limits == (None, None, None):
        assert parts == [(slice(0, circuits), shots)]
    pieces = Batch(None, circuits, shots).split(most)
    assert [(piece.circuits, piece.shots) for piece in pieces] == [(len(work[rows]), load) for rows, load in parts]


def test_hours_are_reported_and_a_cheaper_ansatz_is_offered_with_its_numbers():
    posed = problem("simplex", 64)
    said = estimate(posed, "variational-flow", Silent(), shots=10_000, ansatz="hardware-efficient", steps=40)
    assert 5 < said.qpu_seconds / 3600 < 10
    tree = estimate(posed, "variational-flow", Silent(), shots=10_000, steps=40)
    assert tree.cheaper is None
    assert (
        (said.cheaper.circuits, said.cheaper.qpu_seconds)
        == (tree.circuits, tree.qpu_seconds)
        == (
            41,
            pytest.approx(41 * (JOB_S + 1e4 * (SHOT_S + GATE_S * tree.depth))),
        )
    )
    text = str(said)
    assert f"{said.qpu_seconds / 3600:.1f} hours" in text
    assert "ansatz='tree'" in text
    assert f"{tree.qpu_seconds / 60:.3g} minutes, 41 circuits" in text
    assert "nothing was sent" in text


def test_other_solvers_are_offered_only_where_they_solve_the_problem():
    said = estimate(problem("box", 96), "hamiltonian-descent", Silent(), shots=10_000)
    assert said.cheaper.solver == "variational-lotka-volterra"
    lchs = estimate(problem("simplex"), "hamiltonian-lchs", Silent(), shots=10_000)
    assert lchs.cheaper is None or lchs.cheaper.qpu_seconds <= 0.5 * lchs.qpu_seconds


def test_a_device_that_cannot_run_the_circuits_raises_an_error():
    class Small(Silent):
        capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=2)

    with pytest.raises(DeviceError, match="has 2 qubits"):
        estimate(problem("simplex"), "variational-flow", Small(), shots=10)
    with pytest.raises(DeviceError, match="gives counts only; set shots"):
        estimate(problem("simplex", 4), "variational-flow", Small())


def test_unknown_prices_stay_unknown():
    class Closed(Silent):
        def price(self, circuit, circuits, shots):
            return Price(formula="the vendor says nothing")

    said = estimate(problem("simplex"), "variational-flow", Closed(), shots=1000, ansatz="hardware-efficient")
    assert said.qpu_seconds is None
    assert said.cost is None
    assert "not known" in said.time
    assert said.money == "not public"
    assert said.cheaper.shots < said.shots  # by shots, if seconds are not known


def test_a_budget_that_is_too_small_is_named():
    said = estimate(problem("simplex"), "variational-flow", Silent(), shots=1000)
    assert "budget" not in str(said)
    for name, enough in (("max_shots", said.shots), ("max_qpu_seconds", said.qpu_seconds), ("max_cost", said.cost)):
        held = dataclasses.replace(said, options={name: enough})
        assert "ends the run" not in str(held)
        short = dataclasses.replace(said, options={name: 0.99 * enough})
        assert f"{name}={0.99 * enough:g} ends the run before all of this is sent" in str(short)


def test_a_simulator_costs_nothing():
    said = estimate(problem("simplex"), "variational-flow", "emulator", shots=1000)
    assert said.local
    assert said.money == "nothing"
    assert "this computer" in str(said)
    assert said == estimate(problem("simplex"), dualflow.VariationalFlow(device="emulator", shots=1000))


@pytest.mark.parametrize(
    ("solver", "kind", "error", "match"),
    [
        ("smo", "box", ProblemError, "'smo' runs no circuits"),
        ("variational-flow", "box", SolverMismatch, "does not solve problems of kind"),
        ("variational-flow", "simplex", TypeError, "no option 'shost'"),
    ],
)
def test_bad_arguments(solver, kind, error, match):
    options = {"shost": 1} if error is TypeError else {}
    with pytest.raises(error, match=match):
        estimate(problem(kind), solver, Silent(), **options)


def test_one_point_needs_one_circuit():
    posed = problems.svdd(Gram(np.zeros((1, 2))))
    assert estimate(posed, "variational-flow", Silent(), shots=10).circuits == 1


def test_time_and_memory_of_a_simulation_on_this_computer():
    aer = estimate(problem("simplex"), "variational-flow", "aer", shots=1000)
    assert 0 < aer.simulation_s < 1
    assert 1e3 < aer.memory_bytes < 1e7
    assert "simulation" in str(aer)
    assert estimate(problem("simplex"), "variational-flow", "aer:noisy", shots=1000).simulation_s > aer.simulation_s
    unknown = estimate(problem("simplex"), "variational-flow", "aer:mps", shots=1000)
    assert unknown.simulation_s is None
    assert "simulation" not in str(unknown)


def test_a_solver_without_shots_is_told_to_use_a_simulator():
    posed = problems.least_squares(Gram([[0.0, 0.1], [1.0, 0.9], [0.2, 0.8], [0.9, 0.3]]), [1.0, -1.0, 1.0, -1.0])
    with pytest.raises(DeviceError, match="'hhl' takes no shots; use 'aer'"):
        estimate(posed, "hhl", "backend:generic")
