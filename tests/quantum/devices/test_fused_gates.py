"""Fused rotations equal the gates that they replace, on every circuit family and on random runs of gates."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from dualflow.quantum import circuits
from dualflow.quantum.circuits import ParametricCircuit, TreeCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.devices.fused import FusedGate, fuse

pytest.importorskip("pennylane")

NAMES = ("AncillaCircuit", "AnnealCircuit", "LCHSCircuit", "QHDCircuit", "SchrodingerisedCircuit", "TreeCircuit")
FAMILIES = [circuit for name in NAMES for circuit in getattr(circuits, name).examples() if 2 <= circuit.n_qubits <= 6]


@dataclass(frozen=True)
class RandomGates(ParametricCircuit):
    """Gates drawn so that runs on one target, with several controls and repeated masks, are frequent."""

    seed: int = 0
    family: ClassVar[str] = "random-gates"
    n_parameters = 4

    def _build(self):
        from qiskit import QuantumCircuit

        angles, circuit = self.parameters("a"), QuantumCircuit(self.n_qubits)
        rng = np.random.default_rng(self.seed)
        for k in range(self.n_qubits):
            circuit.ry(0.4 + 0.3 * k, k)
        target, kind = 0, "ry"
        for _ in range(60):
            if rng.random() < 0.2:
                target, kind = int(rng.integers(self.n_qubits)), str(rng.choice(["ry", "rz", "rzz"]))
            other = int(rng.choice([k for k in range(self.n_qubits) if k != target]))
            angle = [angles[rng.integers(4)], -0.5 * angles[rng.integers(4)], 0.7][rng.integers(3)]
            if rng.random() < 0.4:
                circuit.cx(other, target)
            elif kind == "rzz":
                circuit.rzz(angle, other, target)
            else:
                getattr(circuit, kind)(angle, target)
        return circuit


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("circuit", [*FAMILIES, *(RandomGates(4, seed) for seed in range(6))], ids=lambda c: str(c))
def test_fused_circuits_equal_pennylane_s_tapes(circuit, rows):
    device, rng = make_device("pennylane:default.qubit"), np.random.default_rng(rows)
    theta = rng.uniform(0.0, np.pi, (rows, circuit.n_parameters))
    steps, fused = device.compiled(circuit)
    assert len(fused) < len(steps)
    found = device.submit(circuit, theta).result().probabilities
    np.testing.assert_allclose(found, device._taped(circuit, theta, None, 0)[0], atol=1e-13)


def test_a_tree_is_one_rotation_a_level():
    device = make_device("pennylane:default.qubit")
    steps, fused = device.compiled(TreeCircuit(6))
    assert (len(steps), len(fused)) == (125, 6)
    assert [len(gate.controls) for gate in fused[1:]] == [1, 2, 3, 4, 5]


def test_what_does_not_commute_is_not_fused():
    # The second rotation about y follows one about z, and the third a change of its control.
    steps = [("RY", (0,), 0.1), ("RZ", (0,), 0.2), ("RY", (0,), 0.3), ("CNOT", (0, 1), None), ("RY", (0,), 0.4)]
    assert fuse(steps) == steps
    [gate, cnot] = fuse([("RY", (1,), 0), ("CNOT", (0, 1), None), ("RY", (1,), (1, 2.0))])
    assert isinstance(gate, FusedGate)
    assert cnot == ("CNOT", (0, 1), None)
    # Φ(0) = a + 2b and Φ(1) = a − 2b.
    np.testing.assert_allclose(gate.angles(np.array([[0.3, 0.1]])), [[0.5, 0.1]])
