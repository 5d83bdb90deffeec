"""The machines of `benchmarks.quantum.mitigation`: their distributions are Aer's, and mitigation mends what it can."""

import importlib.util

import numpy as np
import pytest

from dualflow.quantum.circuits import AncillaCircuit, TreeCircuit

if importlib.util.find_spec("qiskit_ibm_runtime") is None:
    pytest.skip("pip install 'dualflow[ibm]'", allow_module_level=True)

from benchmarks.lib.noisy_machine import WAYS, NoisyMachine
from benchmarks.quantum import mitigation
from dualflow.quantum.devices.ibm import FakeIBMDevice

MACHINE, SHOTS = "fake_lagos", 100_000


def distributions(way, circuit, theta):
    """The exact means of a machine's groups, each of shape (rows, 2^q)."""
    groups = NoisyMachine(MACHINE, way).compiled(circuit)
    angles = dict(zip((p.name for p in circuit.build().parameters), circuit.gate_parameters(theta).T, strict=True))
    return [np.mean([channel.distributions(angles, len(theta)) for channel in group], axis=0) for group in groups]


@pytest.mark.parametrize("circuit", [TreeCircuit(2), AncillaCircuit(2)], ids=lambda circuit: circuit.family)
def test_the_plain_machine_has_the_distribution_of_aer(circuit):
    theta = np.random.default_rng(0).uniform(0.3, 2.5, (2, circuit.n_parameters))
    counted = FakeIBMDevice(MACHINE, optimization_level=3).submit(circuit, theta, shots=SHOTS, seed=1).result()
    [exact] = distributions("plain", circuit, theta)
    sigma = np.sqrt(exact * (1 - exact) / SHOTS)
    assert (np.abs(counted.probabilities - exact) <= 5 * sigma).all()
    assert np.abs(circuit.distribution(theta) - exact).max() > 20 * sigma.max()  # the noise is seen


def test_each_way_changes_the_noise_as_it_should():
    circuit = TreeCircuit(2)
    theta = np.random.default_rng(0).uniform(0.3, 2.5, (3, circuit.n_parameters))
    ideal = circuit.distribution(theta)
    off = {way: [np.abs(p - ideal).sum() for p in distributions(way, circuit, theta)] for way in WAYS}
    plain, folded = off["folded"]
    assert plain == pytest.approx(off["plain"][0])
    assert folded > plain  # threefold gates
    assert off["idle"][0] > off["plain"][0]
    assert off["twirled"][0] == pytest.approx(off["plain"][0], rel=0.5)


def test_a_method_without_calibration_angles_is_a_cell_that_says_so():
    problem = mitigation.build("hinge")
    device = NoisyMachine(MACHINE)
    cell = mitigation.measured(problem, -1.0, 1.0, "hamiltonian-adiabatic", device, "circuit", 1)
    assert cell["median"] == "not applicable"
    assert "mitigation='circuit'" in cell["reason"]


def test_verdicts_compare_a_method_with_the_run_that_it_mends():
    names = ("none", "mthree", "idle", "decoupling")
    rows = [
        {"case": f"m: s: {name}", "median": value} for name, value in zip(names, (8.0, 2.0, 10.0, 20.0), strict=True)
    ]
    rows.append({"case": "m: s: circuit", "median": "not applicable"})
    found = {verdict.what: verdict.value for verdict in mitigation.verdicts(rows)}
    assert found == pytest.approx({"mthree": 0.25, "decoupling": 2.0, "idle": 1.25})
