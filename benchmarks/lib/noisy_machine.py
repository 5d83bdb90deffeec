"""Distributions of small circuits on fake machines, by the channels of their gates, and ways to mitigate errors.

A compiled circuit of k qubits is a product of superoperators on 4^k numbers. On IBM's gates only RZ, which has no
error, depends on parameters; all between two of them is multiplied once. A distribution then takes a millisecond where
Aer's job takes a tenth of a second, and counts are drawn from it: the same law.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit

from dualflow.quantum.circuits import ParametricCircuit
from dualflow.quantum.devices.base import Capabilities
from dualflow.quantum.devices.compiled import measured_on
from dualflow.quantum.devices.confusion import nearest_distribution
from dualflow.quantum.devices.ibm import FakeIBMDevice
from dualflow.quantum.devices.local import LocalDevice
from dualflow.quantum.devices.partial_simulator import active_qubits, simulator_of

__all__ = ["WAYS", "NoisyMachine"]

#: What is done to a circuit: nothing; two-qubit gates threefold for extrapolation; random Paulis around them and before
#: the read-out; the errors of idle qubits added; these, with a decoupling sequence X X on them.
WAYS = ("plain", "folded", "twirled", "idle", "decoupled")
#: Noise of the folded circuit over that of the plain one, in its two-qubit gates.
FOLD = 3
#: Variants of a twirled circuit; divides the shots.
VARIANTS = 16
PAULIS = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])


class NoisyMachine(LocalDevice):
    """A fake machine of qiskit-ibm-runtime: counts drawn from the exact distribution of its gates' channels.

    Parameters
    ----------
    machine : str
    way : one of `WAYS`
    """

    capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=6)

    def __init__(self, machine: str, way: str = "plain") -> None:
        super().__init__()
        self.machine, self.way, self.name = machine, way, f"{machine}:{way}"
        self.fake = FakeIBMDevice(machine, optimization_level=3)

    def resources(self, circuit: ParametricCircuit) -> Any:
        return self.fake.resources(circuit)

    def _compile(self, circuit: ParametricCircuit) -> list[list[_Channel]]:
        """Groups of channels: the mean over a group is read, and two groups are extrapolated to noise 0."""
        plain = self.fake.compiled(circuit)
        compiled, errors = self._scheduled(plain), _Errors(self.fake.backend, sorted(active_qubits(plain)))
        rng = np.random.default_rng(0)
        if self.way == "folded":
            return [[_Channel(compiled, errors)], [_Channel(compiled, errors, fold=FOLD)]]
        if self.way == "twirled":
            return [[_Channel(compiled, errors, rng) for _ in range(VARIANTS)]]
        return [[_Channel(compiled, errors)]]

    def _scheduled(self, compiled: QuantumCircuit) -> QuantumCircuit:
        """The circuit with its delays, or with a decoupling sequence in them."""
        if self.way not in ("idle", "decoupled"):
            return compiled
        from qiskit.circuit.library import XGate
        from qiskit.transpiler import PassManager
        from qiskit.transpiler.passes import ALAPScheduleAnalysis, PadDelay, PadDynamicalDecoupling

        target = self.fake.backend.target
        pad = (
            PadDelay(target=target)
            if self.way == "idle"
            else PadDynamicalDecoupling(target=target, dd_sequence=[XGate(), XGate()])
        )
        return PassManager([ALAPScheduleAnalysis(target=target), pad]).run(compiled)

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        assert shots is not None  # `check` has refused exact distributions
        groups, rng = self.compiled(circuit), np.random.default_rng(seed)
        angles = dict(zip((p.name for p in circuit.build().parameters), circuit.gate_parameters(values).T, strict=True))
        read = []
        for group in groups:
            each = shots // (len(groups) * len(group))
            drawn = [rng.multinomial(each, _positive(channel.distributions(angles, len(values)))) for channel in group]
            read.append(sum(drawn) / (each * len(group)))
        if len(read) == 1:
            return read[0], np.rint(read[0] * shots).astype(np.int64)
        # Linear in the noise of two-qubit gates: p(0) = (3 p(1) − p(3)) / 2.
        mended = nearest_distribution((FOLD * read[0] - read[1]) / (FOLD - 1))
        counts = _whole(mended, shots)
        return counts / shots, counts


class _Errors:
    """Errors of the gates and read-outs of some qubits of a machine, as superoperators on row-stacked ρ."""

    def __init__(self, backend: Any, on: list[int]) -> None:
        self.on, self.target = on, backend.target
        self.model = simulator_of(backend, frozenset(on)).options.noise_model
        self._known: dict[Any, NDArray | None] = {}

    def of_gate(self, name: str, qubits: Sequence[int]) -> NDArray | None:
        key = name, tuple(qubits)
        if key not in self._known:
            error = self.model._local_quantum_errors.get(name, {}).get(tuple(qubits))
            self._known[key] = None if error is None else _row_stacked(error.to_quantumchannel())
        return self._known[key]

    def idle(self, qubit: int, gate: Any) -> NDArray:
        """Relaxation of an idle qubit, by its T1 and T2."""
        from qiskit_aer.noise import thermal_relaxation_error

        about = self.target.qubit_properties[qubit]
        seconds = gate.duration * (self.target.dt if gate.unit == "dt" else 1.0)
        error = thermal_relaxation_error(about.t1, min(about.t2, 2 * about.t1), seconds)
        return _row_stacked(error.to_quantumchannel())

    def confusion(self, qubit: int) -> NDArray:
        """P(measured | prepared)."""
        error = self.model._local_readout_errors.get((qubit,))
        return np.eye(2) if error is None else np.asarray(error.probabilities).T


class _Channel:
    """Superoperators of a compiled circuit between its parametrised RZ, and the confusion of its read-out."""

    def __init__(
        self, compiled: QuantumCircuit, errors: _Errors, rng: np.random.Generator | None = None, fold: int = 1
    ) -> None:
        self.place = {qubit: k for k, qubit in enumerate(errors.on)}
        self.size, self.errors, self.rng, self.fold = len(errors.on), errors, rng, fold
        self.steps: list[tuple[NDArray, int, dict[str, float]]] = []  # block, qubit of the RZ after it, slopes
        self.block = np.eye(4**self.size, dtype=complex)
        for instruction in compiled.data:
            self._add(instruction.operation, [compiled.find_bit(qubit).index for qubit in instruction.qubits])
        self.read = [self.place[qubit] for qubit in measured_on(compiled)]
        self.confusion = [self._confusion(qubit) for qubit in measured_on(compiled)]

    def _add(self, gate: Any, qubits: list[int]) -> None:
        if gate.name in ("barrier", "measure") or not set(qubits) <= set(self.place):
            return
        at = [self.place[qubit] for qubit in qubits]
        free = gate.params[0].parameters if gate.name == "rz" and hasattr(gate.params[0], "parameters") else ()
        if gate.name == "rz" and free:
            angle = gate.params[0]
            slopes = {p.name: float(angle.gradient(p)) for p in free}
            constant = float(angle.bind(dict.fromkeys(free, 0.0)))
            self.steps.append((self.block, at[0], slopes))
            self.block = np.eye(4**self.size, dtype=complex)
            self._apply(_conjugation(_rz(constant)), at)
            return
        if gate.name == "delay":
            self._apply(self.errors.idle(qubits[0], gate), at)
            return
        unitary = gate.to_matrix()
        for _ in range(self.fold if len(qubits) == 2 else 1):  # CZ, CX and ECR are their own inverses
            before = after = np.eye(len(unitary))
            if self.rng is not None and len(qubits) == 2:
                before = reduce(np.kron, PAULIS[self.rng.integers(4, size=2)])
                after = unitary @ before.conj().T @ unitary.conj().T
            self._apply(_conjugation(unitary @ before), at)
            self._apply(self.errors.of_gate(gate.name, qubits), at)
            self._apply(_conjugation(after), at)

    def _apply(self, operator: NDArray | None, at: list[int]) -> None:
        """Multiply a superoperator of some qubits, row-stacked (row index, column index), into the block."""
        if operator is None:
            return
        k, m = self.size, len(at)
        axes = [k - 1 - q for q in reversed(at)]  # qubit 0 is the last axis
        both = axes + [k + axis for axis in axes]
        tensor = self.block.reshape((2,) * (2 * k) + (-1,))
        moved = np.tensordot(operator.reshape((2,) * (4 * m)), tensor, axes=(range(2 * m, 4 * m), both))
        self.block = np.moveaxis(moved, range(2 * m), both).reshape(self.block.shape)

    def _confusion(self, qubit: int) -> NDArray:
        """P(measured | prepared), with a random flip before and after it if the circuit is twirled."""
        matrix = self.errors.confusion(qubit)
        return matrix[::-1, ::-1] if self.rng is not None and self.rng.random() < 0.5 else matrix

    def distributions(self, angles: dict[str, NDArray], rows: int) -> NDArray:
        """P of the outcomes, shape (rows, 2^q), little-endian in the classical bits."""
        k = self.size
        state = np.zeros((4**k, rows), dtype=complex)
        state[0] = 1.0
        bits = (np.arange(2**k)[:, None] >> np.arange(k)) & 1
        row, column = np.divmod(np.arange(4**k), 2**k)
        for block, qubit, slopes in self.steps:
            phi = sum(slope * angles[name] for name, slope in slopes.items())
            # RZ(φ) multiplies |r⟩⟨c| by exp(iφ(r − c)) with the bits r and c of its qubit.
            state = np.exp(1j * (bits[row, qubit] - bits[column, qubit])[:, None] * phi) * (block @ state)
        state = self.block @ state
        diagonal = state.reshape(2**k, 2**k, rows)[np.arange(2**k), np.arange(2**k)].real.T
        tensor = diagonal.reshape((rows,) + (2,) * k)
        lost = tuple(k - q for q in range(k) if q not in self.read)
        tensor = tensor.sum(axis=lost)
        kept = sorted(self.read, reverse=True)  # axes of the tensor, from the first
        order = [1 + kept.index(q) for q in reversed(self.read)]
        tensor = tensor.transpose([0, *order])
        for bit, matrix in enumerate(self.confusion):
            axis = len(self.read) - bit
            tensor = np.moveaxis(np.tensordot(matrix, tensor, axes=(1, axis)), 0, axis)
        return tensor.reshape(rows, -1)


def _rz(angle: float) -> NDArray:
    return np.diag(np.exp([-0.5j * angle, 0.5j * angle]))


def _conjugation(unitary: NDArray) -> NDArray:
    """Of ρ → UρU†, on row-stacked ρ."""
    return np.kron(unitary, unitary.conj())


def _row_stacked(channel: Any) -> NDArray:
    """Qiskit's superoperators act on column-stacked ρ."""
    data, m = np.asarray(channel.data), int(np.sqrt(len(channel.data)))
    return data.reshape(m, m, m, m).transpose(1, 0, 3, 2).reshape(m * m, m * m)


def _positive(rows: NDArray) -> NDArray:
    rows = np.maximum(rows, 0.0)
    return rows / rows.sum(axis=-1, keepdims=True)


def _whole(rows: NDArray, shots: int) -> NDArray:
    """Whole numbers that sum to the shots, the nearest to the distributions times these."""
    counts = np.floor(rows * shots).astype(np.int64)
    for row, count in zip(rows, counts, strict=True):
        rest = shots - int(count.sum())
        count[np.argsort(count - row * shots)[:rest]] += 1
    return counts
