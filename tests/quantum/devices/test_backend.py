"""Qiskit backends: ISA circuits on the right qubits, counts against the exact noisy distribution, clear errors."""

import time

import numpy as np
import pytest

import dualflow
from dualflow import DeviceError, ProblemError
from dualflow.quantum.circuits import CalibrationCircuit, HardwareEfficientCircuit, TreeCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.devices.backend import BackendDevice
from dualflow.quantum.devices.compiled import measured_on
from dualflow.quantum.devices.confusion import apply_tensored
from dualflow.quantum.devices.noise import readout_confusion

SHOTS = 200_000


def line(n=5, **options):
    """A machine of n qubits in a row with different errors for each."""
    from qiskit.providers.fake_provider import GenericBackendV2

    row = [[k, k + 1] for k in range(n - 1)]
    return GenericBackendV2(n, coupling_map=row + [[b, a] for a, b in row], noise_info=True, seed=7, **options)


def exact_noisy(device, circuit, theta):
    """The distribution of the compiled circuit: Aer's density matrix, then the read-out errors of its qubits."""
    from qiskit_aer import AerSimulator
    from qiskit_aer.noise import NoiseModel

    compiled = device.compiled(circuit)
    qubits, backend = measured_on(compiled), device._backend(circuit.n_qubits)
    model = NoiseModel.from_backend(backend)
    gates = compiled.remove_final_measurements(inplace=False)
    gates.save_probabilities(qubits)
    simulator = AerSimulator(method="density_matrix", noise_model=model)
    angles = dict(zip((p.name for p in circuit.build().parameters), circuit.gate_parameters(theta), strict=True))
    bound = gates.assign_parameters({p: angles[p.name] for p in gates.parameters})
    probabilities = simulator.run(bound).result().data(0)["probabilities"]
    return apply_tensored(readout_confusion(model, backend.num_qubits)[qubits], probabilities)


@pytest.mark.parametrize("name", ["generic", "line"])
def test_counts_follow_the_noisy_distribution(name):
    device = make_device("backend:generic") if name == "generic" else BackendDevice(line(), optimization_level=3)
    circuit = TreeCircuit(3)
    theta = np.random.default_rng(0).uniform(0.7, np.pi - 0.7, (2, 7))
    counts = device.submit(circuit, theta, SHOTS, seed=4).result().counts
    for row, angles in zip(counts, theta, strict=True):
        expected = SHOTS * exact_noisy(device, circuit, angles)
        assert expected.min() > 5
        assert ((row - expected) ** 2 / expected).sum() < 7 + 5 * np.sqrt(14)
        ideal = SHOTS * circuit.distribution(angles)
        assert ((row - ideal) ** 2 / ideal).sum() > 2 * (7 + 5 * np.sqrt(14))


@pytest.mark.filterwarnings("ignore:Qiskit backend:UserWarning")  # that it has no errors is what we want
def test_more_than_eight_qubits():
    from qiskit.providers.fake_provider import GenericBackendV2

    device = BackendDevice(GenericBackendV2(9, noise_info=False, seed=0))
    theta = np.zeros(9)
    theta[[1, 8]] = np.pi
    counts = device.submit(HardwareEfficientCircuit(9, 0), [theta, np.zeros(9)], 30, seed=1).result().counts
    assert counts[0, 2 + 2**8] == counts[1, 0] == 30


def test_resources_are_those_of_the_compiled_circuit():
    device = BackendDevice(line(), optimization_level=0)
    circuit = TreeCircuit(3)
    found, plain = device.resources(circuit), make_device("aer").resources(circuit)
    compiled = device.compiled(circuit)
    two = [i for i in compiled.data if len(i.qubits) == 2 and i.operation.name != "barrier"]
    assert found.two_qubit_gates == len(two) > plain.two_qubit_gates  # qubits 0 and 2 are no neighbours
    assert {i.operation.name for i in two} <= {"cx"}
    assert (found.qubits, found.parameters) == (3, 7)
    assert found.depth > plain.depth


def test_a_calibration_reads_the_qubits_of_its_circuit():
    device = BackendDevice(line(7), optimization_level=3)
    circuit = HardwareEfficientCircuit(3, 2)
    qubits = measured_on(device.compiled(circuit))
    assert qubits != [0, 1, 2]  # the transpiler chose better ones
    assert measured_on(device.compiled(CalibrationCircuit(3, circuit))) == qubits


def test_a_solver_runs_on_it():
    X = np.random.default_rng(0).normal(size=(6, 2))
    problem = dualflow.problems.svdd(dualflow.Gram(X, gamma=0.5))
    solution = dualflow.solve(problem, "variational-flow", device="backend:generic", shots=2_000, steps=5)
    assert solution.provenance["device"] == "backend:generic"
    assert solution.cost.shots == 6 * 2_000
    with pytest.raises(DeviceError, match="counts only; set shots"):
        dualflow.solve(problem, "variational-flow", device="backend:generic")


def test_a_stopped_run_resumes_to_the_same_bits(tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 2))
    problem = dualflow.problems.svdd(dualflow.Gram(X, gamma=0.5))
    options = {"device": "backend:generic", "shots": 500, "steps": 5, "mitigation": "confusion"}
    files = {"checkpoint": tmp_path / "run.npz", "journal": tmp_path / "jobs.db"}
    whole = dualflow.solve(problem, "variational-flow", **options)
    dualflow.solve(problem, "variational-flow", max_steps=3, **options, **files)
    rest = dualflow.solve(problem, "variational-flow", **options, **files)
    np.testing.assert_array_equal(rest.raw_alpha, whole.raw_alpha)
    assert (rest.cost.circuits, rest.cost.shots) == (whole.cost.circuits, whole.cost.shots) == (8, 20_000 + 6 * 500)


def test_what_cannot_be_compiled():
    from qiskit.providers.fake_provider import GenericBackendV2

    pairs = [[0, 1], [1, 0], [2, 3], [3, 2]]  # no three qubits hang together
    device = BackendDevice(GenericBackendV2(4, coupling_map=pairs, seed=0))
    with pytest.raises(DeviceError, match="could not compile circuit"):
        device.submit(TreeCircuit(3), np.ones(7), 10)


def generic():
    return line(4)


def broken():
    raise RuntimeError("no key")


def test_names_of_factories():
    device = make_device(f"backend:{__name__}:generic")
    assert device.capabilities.qubits == 4
    assert device.name == "backend:generic_backend_4q"
    with pytest.raises(DeviceError, match="has 4 qubits"):
        device.submit(TreeCircuit(5), np.zeros(31), 10)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("backend:no_such_module:make", "'no_such_module' cannot be imported"),
        (f"backend:{__name__}:nothing", "has no 'nothing'"),
        (f"backend:{__name__}:broken", r"broken\(\) failed \(RuntimeError: no key\)"),
        (
            "backend:builtins:dict",
            r"device='backend:builtins:dict': device is of type dict; it must be .*BackendV2.*V2 sampler",
        ),
        ("backend:", "not known"),
        ("backend:generik", "did you mean 'backend:generic'"),
    ],
)
def test_bad_names(name, message):
    with pytest.raises(DeviceError, match=message):
        make_device(name)


@pytest.mark.parametrize("options", [{"optimization_level": 4}, {"timeout_s": 0}])
def test_bad_options(options):
    with pytest.raises(ProblemError, match=next(iter(options))):
        BackendDevice(line(), **options)


class SlowJob:
    """A backend's job whose result is a third of a second late, or never comes."""

    def __init__(self, job, error):
        self.job, self.error, self.begun = job, error, time.monotonic()

    def job_id(self):
        return self.job.job_id()

    def status(self):
        return "DONE" if time.monotonic() - self.begun > 0.3 else "RUNNING"

    def result(self):
        if self.error:
            raise self.error
        return self.job.result()


class Slow(type(line())):
    error = None

    def run(self, *arguments, **options):
        return SlowJob(super().run(*arguments, **options), self.error)


def test_a_job_that_takes_too_long_is_an_error_and_can_be_fetched_later():
    device = BackendDevice(Slow(3, seed=1), timeout_s=0.05)
    job = device.submit(TreeCircuit(2), np.ones(3), 50, seed=1)
    assert not job.done()
    with pytest.raises(DeviceError, match=rf"{job.job_id} was not done after timeout_s=0.05") as caught:
        job.result()
    assert caught.value.sent
    while not job.done():
        time.sleep(0.01)
    assert device.fetch(job.job_id).result().counts.sum() == 50


def test_a_job_that_fails():
    backend = Slow(3, seed=1)
    backend.error = ValueError("out of helium")
    with pytest.raises(DeviceError, match=r"failed \(ValueError: out of helium") as caught:
        BackendDevice(backend).submit(TreeCircuit(2), np.ones(3), 50).result()
    assert caught.value.sent
