"""Devices with deliberate faults: each is detected or harmless; right devices give no false alarm."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons

from dualflow import FidelityKernel, FidelityWarning, Gram, ProjectedKernel, final_circuit, problems, solve
from dualflow.quantum.circuits import HardwareEfficientCircuit, TreeCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.runs.fidelity import DEVIATIONS, Fidelity, checked_rows
from dualflow.testing import WRONG_DEVICES, CheckFailed, WrongDevice, check_device

X, T = make_moons(8, noise=0.15, random_state=3)
Y = 2 * T - 1
#: Wrong devices that are right for a batch of one circuit.
RIGHT_FOR_ONE = ("results of a batch swapped",)
#: One run of each family of solvers that takes shots.
SOLVERS = {
    "variational-flow": {"loss": "squared_hinge"},
    "variational-lotka-volterra": {},
    "hamiltonian-dilation": {"loss": "squared_hinge"},
    "hamiltonian-descent": {},
    "hamiltonian-adiabatic": {},
    "hamiltonian-schrodingerisation": {"loss": "squared_hinge"},
    "hamiltonian-lchs": {"loss": "squared_hinge"},
}
QUICK = ("variational-flow", "variational-lotka-volterra", "hamiltonian-dilation")


def run(solver, device, shots=2000, seed=1):
    problem = problems.svc(Gram(X, "rbf", gamma=2.0), Y, C=10.0, **SOLVERS[solver])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        solution = solve(problem, solver, device=device, shots=shots, random_state=seed)
    optimum = solve(problem).certificate.objective
    excess = (solution.certificate.objective - optimum) / abs(optimum)
    return solution, excess, [w for w in caught if w.category is FidelityWarning]


# --- the slope ---------------------------------------------------------------------------------


def test_the_slope_is_the_fidelity_of_depolarising_noise():
    rng, circuit = np.random.default_rng(0), HardwareEfficientCircuit(3, 2)
    ideal = circuit.distribution(rng.uniform(0, np.pi, (50, circuit.n_parameters)))
    for share in (1.0, 0.7, 0.2, 0.0):
        found = Fidelity().with_batch(share * ideal + (1 - share) / 8, ideal, None)
        assert found.slope == pytest.approx(share, abs=1e-12)
        assert found.deviation == 0.0


def test_the_deviation_is_that_of_repeated_shots():
    circuit, rng = TreeCircuit(3), np.random.default_rng(1)
    ideal = circuit.distribution(rng.uniform(0, np.pi, (4, circuit.n_parameters)))
    draws = [Fidelity().with_batch(rng.multinomial(500, ideal) / 500, ideal, 500) for _ in range(400)]
    slopes = np.array([draw.slope for draw in draws])
    said = draws[0].deviation
    assert abs(slopes.mean() - 1.0) < 5 * said / 20  # 5 σ of the mean of 400
    assert slopes.std(ddof=1) == pytest.approx(said, rel=5 / np.sqrt(2 * 400))  # 5 σ of a standard deviation
    degrees = np.array([draw.degrees for draw in draws])
    chi = np.array([draw.chi_square for draw in draws])
    assert abs((chi - degrees).mean()) < 5 * np.sqrt(2 * degrees.mean() / 400)


def test_uniform_circuits_give_no_fidelity():
    uniform = np.full((3, 4), 0.25)
    found = Fidelity().with_batch(uniform, uniform, 100)
    assert not found.is_known
    assert not found.is_below(0.99)
    assert found.report()["slope"] is None


@pytest.mark.parametrize(("count", "rows"), [(1, [0]), (3, [0, 1, 2]), (9, [0, 2, 4, 6])])
def test_few_circuits_of_a_batch_are_compared(count, rows):
    assert checked_rows(count, 4).tolist() == rows


def test_right_devices_give_no_false_alarm_in_ten_thousand_batches():
    """The share of alarms at 0.5, and at the level of the right device itself, is below one in 10⁴."""
    rng, circuit, alarms, low = np.random.default_rng(2), TreeCircuit(3), 0, 0
    ideal = circuit.distribution(rng.uniform(0, np.pi, (10_000, circuit.n_parameters)))
    counts = rng.multinomial(100, ideal)
    for k in range(10_000):
        found = Fidelity().with_batch(counts[k : k + 1] / 100, ideal[k : k + 1], 100)
        alarms += found.is_below(0.5)
        low += found.is_below(1.0)
    assert alarms == 0
    assert low <= 1  # at 4.5 σ 0.03 are expected of a normal distribution
    assert DEVIATIONS >= 4.5


# --- solvers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["emulator", "aer", "classical-sampler"])
@pytest.mark.parametrize("solver", QUICK)
def test_a_right_device_has_fidelity_1_and_no_warning(solver, device):
    solution, _, messages = run(solver, device)
    fidelity = solution.provenance["fidelity"]
    assert abs(fidelity["slope"] - 1.0) < 5 * fidelity["deviation"]
    assert fidelity["p_value"] > 1e-5
    assert fidelity["circuits"] > 0
    assert messages == []


@pytest.mark.parametrize(
    "solver", [*QUICK, *(pytest.param(s, marks=pytest.mark.long) for s in SOLVERS if s not in QUICK)]
)
@pytest.mark.parametrize("device", WRONG_DEVICES)
def test_a_wrong_device_is_noticed_or_harmless(solver, device):
    solution, excess, messages = run(solver, WrongDevice(device))
    fidelity = solution.provenance["fidelity"]
    noticed = fidelity["p_value"] < 1e-9
    harmless = device in RIGHT_FOR_ONE or excess < 0.01
    assert noticed or harmless
    low = fidelity["slope"] is not None and fidelity["slope"] + DEVIATIONS * fidelity["deviation"] < 0.5
    assert (fidelity["low"], fidelity["fault"]) == (low, noticed)
    assert len(messages) == (low or noticed)


ANCILLA = "half of the last qubit's 0 read as 1"


@pytest.mark.parametrize("solver", ["hamiltonian-dilation", "hamiltonian-schrodingerisation", "hamiltonian-lchs"])
def test_a_device_wrong_in_the_ancilla_alone_is_noticed_though_the_answer_is_right(solver):
    """The kept outcomes are right; only their rate is half of what it should be."""
    solution, excess, messages = run(solver, WrongDevice(ANCILLA))
    right, _, _ = run(solver, "emulator")
    assert excess < 0.01
    assert solution.cost.success_probability == pytest.approx(0.5 * right.cost.success_probability, rel=0.25)
    assert solution.provenance["fidelity"]["fault"]
    assert len(messages) == 1


@pytest.mark.parametrize("device", [ANCILLA, "30 % of the shots read as 0"])
def test_exact_read_outs_that_keep_the_slope_are_noticed_by_their_distance(device):
    problem = problems.least_squares(Gram(X, "rbf", gamma=2.0), Y, C=10.0)
    with pytest.warns(FidelityWarning, match=r"is declared noiseless .* \(total variation\)"):
        solution = solve(problem, "hhl", device=WrongDevice(device))
    fidelity = solution.provenance["fidelity"]
    assert fidelity["slope"] > 0.5
    assert fidelity["fault"]
    assert not fidelity["low"]
    assert fidelity["distance"] > 0.01
    assert "The device binds" in solution.advice
    right = solve(problem, "hhl", device="aer").provenance["fidelity"]
    assert right["distance"] < 1e-9
    assert not right["fault"]


def test_a_fault_of_a_device_that_says_it_has_noise_is_left_to_the_fidelity():
    wrong = WrongDevice("30 % of the shots read as 0")
    wrong.capabilities = make_device("null").capabilities
    solution, _, messages = run("variational-lotka-volterra", wrong)
    fidelity = solution.provenance["fidelity"]
    assert fidelity["slope"] > 0.5
    assert fidelity["p_value"] < 1e-9
    assert not fidelity["fault"]
    assert messages == []


def test_exact_wrong_devices_are_noticed_too():
    _, _, messages = run("variational-flow", WrongDevice("uniform"), shots=None)
    assert len(messages) == 1
    right, _, messages = run("variational-flow", "aer", shots=None)
    assert messages == []
    assert right.provenance["fidelity"]["slope"] == pytest.approx(1.0, abs=1e-9)


def test_min_fidelity_ends_the_run_and_keeps_its_state():
    problem = problems.svc(Gram(X, "rbf", gamma=2.0), Y, C=10.0)
    device = WrongDevice("the previous circuit's result")
    ended = solve(problem, "hamiltonian-descent", device=device, shots=500, min_fidelity=0.9, random_state=0)
    assert ended.raw_status.name == "DEVICE_FAILED"
    assert "min_fidelity=0.9" in ended.provenance["device_error"]
    assert np.isfinite(ended.alpha).all()


def test_a_control_gives_no_warning():
    assert run("variational-flow", "null")[2] == []


def test_a_resumed_run_goes_on_with_its_sums(tmp_path):
    from dualflow import Checkpoint

    problem = problems.svc(Gram(X, "rbf", gamma=2.0), Y, C=10.0, loss="squared_hinge")
    options = {"device": "emulator", "shots": 200, "random_state": 0}
    once = solve(problem, "hamiltonian-dilation", **options)
    file = tmp_path / "run"
    solve(problem, "hamiltonian-dilation", max_steps=3, checkpoint=Checkpoint(file), **options)
    resumed = solve(problem, "hamiltonian-dilation", checkpoint=Checkpoint(file), **options)
    assert resumed.provenance["fidelity"] == once.provenance["fidelity"]


# --- final circuits ----------------------------------------------------------------------------


def test_the_final_circuit_says_how_far_it_is_from_the_measured_state():
    right, _, _ = run("variational-flow", "emulator", shots=100_000)
    assert final_circuit(right).metadata["distance_from_measured"] < 0.05
    wrong, _, _ = run("variational-flow", WrongDevice("bits reversed"), shots=100_000)
    with pytest.warns(FidelityWarning, match="differs from that of the final circuit"):
        circuit = final_circuit(wrong)
    alpha, own = wrong.raw_alpha, wrong.extras["parameter_alpha"]
    assert circuit.metadata["distance_from_measured"] == pytest.approx(0.5 * np.abs(alpha - own).sum() / own.sum())


# --- kernels -----------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [FidelityKernel, ProjectedKernel])
def test_a_kernel_of_a_wrong_device_warns_once(make):
    points = np.random.default_rng(0).uniform(-1, 1, (9, 3))
    kernel = make("zz", device=WrongDevice("random distributions"), shots=1000)
    with pytest.warns(FidelityWarning, match="ignores its circuits"):
        kernel(points, points)
    assert kernel.fidelity["slope"] < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("error", FidelityWarning)
        kernel(points, 0.5 * points)


@pytest.mark.parametrize("make", [FidelityKernel, ProjectedKernel])
def test_a_kernel_of_a_right_device_does_not(make):
    points = np.random.default_rng(0).uniform(-1, 1, (9, 3))
    kernel = make("zz", device="aer", shots=1000)
    kernel(points, points)
    assert abs(kernel.fidelity["slope"] - 1) < 5 * kernel.fidelity["deviation"]
    assert kernel.fidelity["circuits"] == 20


# --- check_device ------------------------------------------------------------------------------


@pytest.mark.parametrize("device", WRONG_DEVICES)
def test_check_device_refuses_each_wrong_device(device):
    wrong = WrongDevice(device)
    assert not wrong.capabilities.noisy
    with pytest.raises(CheckFailed, match="fidelity"):
        check_device(wrong)


@pytest.mark.parametrize("device", ["emulator", "aer", "pennylane:default.qubit"])
@pytest.mark.parametrize("shots", [2000, None])
def test_check_device_passes_right_devices(device, shots):
    assert check_device(device, shots=shots)["slope"] == pytest.approx(1.0, abs=0.05)


def test_check_device_accepts_declared_noise():
    wrong = WrongDevice("30 % of the shots read as 0")
    wrong.capabilities = make_device("null").capabilities
    assert wrong.capabilities.noisy
    assert check_device(wrong)["slope"] < 0.95
