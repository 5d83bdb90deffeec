"""Devices that run circuits on PennyLane's simulators, and the translation of Qiskit circuits to PennyLane.

On a simulator without noise that dualflow makes by its name, the counts are multinomial draws from the exact
distributions, all rows of a batch in their order by one generator, ``numpy.random.default_rng(seed)`` with the batch's
seed. They have the distribution of PennyLane's own counts. An instance of the caller runs as it is, with its own shots.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError
from ..circuits import ParametricCircuit
from ..circuits.encoding import reverse_bits
from ..circuits.gates import PENNYLANE
from .base import Capabilities, Device
from .bound_angles import index_and_factor
from .emulator import DRAWN_FROM_EXACT, sampled
from .fused import Angle, FusedGate, Step, fuse
from .guard import device_errors
from .identity import described, vars_digest
from .local import LocalDevice, Rates
from .user_generators import generators_of, reseed

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

#: PennyLane's simulators without noise.
IDEAL_SIMULATORS = (
    "default.qubit",
    "lightning.qubit",
    "lightning.gpu",
    "lightning.kokkos",
    "default.clifford",
)
#: PennyLane's tensor networks, without noise: they give states, but neither probabilities nor shots.
TENSOR_NETWORKS = ("default.tensor", "lightning.tensor")
#: Pip lines of PennyLane's devices that need a package of their own.
INSTALL = {
    "default.tensor": "pip install quimb",
    "lightning.tensor": "pip install pennylane-lightning-tensor, for NVIDIA's graphics processors",
    "lightning.gpu": "pip install pennylane-lightning-gpu, for NVIDIA's graphics processors",
    "lightning.kokkos": "pip install pennylane-lightning-kokkos",
}
#: Speed of the simulators that run without tapes.
RATES = {
    "lightning.qubit": Rates(1e-5, 1e-6, 4e-10, 1600.0),
    "default.qubit": Rates(1e-5, 3e-5, 1e-8, 1600.0),
}
#: Most amplitudes, or sampled bits, of the circuits of one tape.
MAX_BATCH_AMPLITUDES = 2**22


class PennyLaneDevice(LocalDevice):
    """A local PennyLane simulator.

    Qiskit's qubit k is wire k, and the outcome index is Σ_k bit_k 2^k as for every device. A batch is one tape with
    broadcast parameters: default.qubit simulates it in one step. Other devices split it, which is still faster than
    one tape for each circuit.

    Parameters
    ----------
    device : str or pennylane.devices.Device
        PennyLane's own name, such as "lightning.qubit"; or an instance, a copy of which runs the circuits. The run sets
        the shots and draws them. The instance's wires, if it has any, are the qubits in their order. Its seed, the
        run's seed and the job fix the counts.

    Raises
    ------
    DeviceError
        PennyLane has no such device, or it cannot be made without options of its own.
    """

    requires: ClassVar[tuple[str, ...]] = ("qiskit", "pennylane")
    capabilities = Capabilities(exact=True, sampled=True, noisy=False, qubits=24)

    @classmethod
    def named(cls, name: str) -> Device:
        return cls(name.removeprefix("pennylane:"))

    def __init__(self, device: Any = "lightning.qubit") -> None:
        super().__init__()
        self.device, self.wires = device, None
        self._running: Any = None
        if not isinstance(device, str):
            self.wires = None if device.wires is None else list(device.wires)
            self.name = f"pennylane:{device.name}"
            widest = self.capabilities.qubits if self.wires is None else len(self.wires)
            self.capabilities = replace(
                self.capabilities, qubits=widest, noisy=device.name not in (*IDEAL_SIMULATORS, *TENSOR_NETWORKS)
            )
            self.seeded = False  # the instance holds a random generator
            return
        self.name = f"pennylane:{device}"
        try:
            self._make(1, None)
        except Exception as error:  # PennyLane's plugins raise errors of any type
            advice = f"it needs: {INSTALL[device]}; " if device in INSTALL else ""
            found = " ".join(str(error).split())
            raise DeviceError(
                f"device {self.name!r} could not be made by PennyLane ({found}); {advice}"
                "'pennylane:lightning.qubit' and 'pennylane:default.qubit' are known to work"
            ) from error

    @property
    def rates(self) -> Rates | None:
        return RATES.get(self.device) if isinstance(self.device, str) else None

    @property
    def _draws(self) -> bool:
        """Whether counts are drawn from exact distributions: for simulators without noise, made by their names."""
        return isinstance(self.device, str) and self.device in (*IDEAL_SIMULATORS, *TENSOR_NETWORKS)

    @property
    def drawing(self) -> str:
        return DRAWN_FROM_EXACT if self._draws else "by PennyLane's own samples"

    @property
    def configuration(self) -> dict[str, str]:
        return {} if isinstance(self.device, str) else {"options": vars_digest(self.device)}

    @property
    def shared(self) -> Any:
        return self if isinstance(self.device, str) else self.device

    def _make(self, wires: int, seed: int | None, job: str = "") -> Any:
        if not isinstance(self.device, str):
            if self._running is None:
                self._running = _copied(self.device)
            if self._running is not self.device and seed is not None:
                reseed(self._running, generators_of(self.device), f"{job} {seed}")
            return self._running
        import pennylane

        return pennylane.device(self.device, wires=wires, **({} if seed is None else {"seed": seed}))

    def _compile(self, circuit: ParametricCircuit) -> tuple[list[Step], list[Step | FusedGate]]:
        """Return the steps of a circuit's tapes, and those that it is simulated by without tapes."""
        steps = translate(circuit.build())
        return steps, fuse(steps) if self.device == "default.qubit" else list(steps)

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        if shots is not None and not self._draws:
            return self._taped(circuit, values, shots, seed)
        probabilities = self._probabilities(circuit, values)
        return (probabilities, None) if shots is None else sampled(np.maximum(probabilities, 0.0), shots, seed)

    def _probabilities(self, circuit: ParametricCircuit, values: NDArray) -> NDArray:
        """Return the exact distributions of a batch, shape (k, 2^q)."""
        direct = DIRECT.get(self.device) if isinstance(self.device, str) else None
        if direct is not None:
            found = direct(self.compiled(circuit)[1], circuit.gate_parameters(values), 2**circuit.n_qubits)
            if found:
                return np.concatenate(found)
        return self._taped(circuit, values, None, 0)[0]

    def _taped(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        """Run circuits as PennyLane's tapes, as `_run` does."""
        import pennylane

        steps, outcomes, parameters = self.compiled(circuit)[0], 2**circuit.n_qubits, circuit.gate_parameters(values)
        wires = (self.wires or list(range(circuit.n_qubits)))[: circuit.n_qubits]
        # PennyLane's first wire is the most significant bit of the outcome's index.
        measurement = pennylane.probs(wires=wires[::-1]) if shots is None else pennylane.sample(wires=wires)
        is_network = self._draws and self.device in TENSOR_NETWORKS
        if is_network:
            measurement = pennylane.state()
        rows_per_tape = max(1, MAX_BATCH_AMPLITUDES // max(outcomes, (shots or 0) * circuit.n_qubits))
        job = f"{circuit!r} {shots} {described(np.asarray(values))}" if shots else ""
        device = self._make(circuit.n_qubits, None if shots is None else seed, job)
        found = []
        for k in range(0, len(values), rows_per_tape):
            operations = _operations(steps, parameters[k : k + rows_per_tape], wires)
            tape = pennylane.tape.QuantumScript(operations, [measurement], shots=shots)
            rows = len(parameters[k : k + rows_per_tape])
            result = self._executed(tape, device)
            if is_network:
                result = reverse_bits(np.abs(np.asarray(result)) ** 2, circuit.n_qubits)
            if shots is None:
                # Without parameters PennyLane broadcasts nothing and returns one row for all.
                found.append(np.broadcast_to(self._rows(result, rows, (outcomes,)), (rows, outcomes)))
            else:
                bits = self._rows(result, rows, (shots, circuit.n_qubits))
                if not np.isin(bits, (0, 1)).all():
                    raise DeviceError(f"device {self.name!r} gave back samples that are no bits", sent=True)
                read = bits.astype(np.int64) @ (1 << np.arange(circuit.n_qubits))
                found.append(np.array([np.bincount(row, minlength=outcomes) for row in read]))
        if shots is None:
            return np.concatenate(found), None
        counts = np.concatenate(found)
        return counts / shots, counts

    def _rows(self, result: Any, rows: int, shape: tuple[int, ...]) -> NDArray:
        """Return a result as an array of ``rows`` rows of a shape, or of one row that holds for all circuits.

        Raises
        ------
        DeviceError
            The result has another shape, apart from axes of length 1.
        """
        array = np.asarray(result, dtype=float)
        squeezed = tuple(size for size in shape if size != 1)
        found = tuple(size for size in array.shape if size != 1)
        if found not in ((rows, *squeezed) if rows != 1 else squeezed, squeezed):
            raise DeviceError(
                f"device {self.name!r} gave back an array of shape {array.shape} where {(rows, *shape)} was requested; "
                "nothing of it is used",
                sent=True,
            )
        return array.reshape(-1, *shape)

    def _executed(self, tape: Any, device: Any) -> Any:
        import pennylane

        with device_errors(self.name, "failed"):
            (result,) = pennylane.execute([tape], device, diff_method=None)
        return result

    def __getstate__(self) -> dict[str, Any]:
        # A simulator that has run may hold objects that cannot be pickled; the user's instance has not run.
        return {**super().__getstate__(), "_running": None}


def _copied(device: Any) -> Any:
    """Return a copy of a user's PennyLane device to run circuits on, so that the original is not changed.

    A simulator that has run may hold objects that cannot be copied or pickled, and an estimator clones and saves the
    original.
    """
    try:
        return copy.deepcopy(device)
    except Exception:  # the device has already run elsewhere, or is a machine: use it without a copy
        return device


class LightningDevice(PennyLaneDevice):
    """PennyLane's lightning.qubit, a compiled simulator."""

    requires: ClassVar[tuple[str, ...]] = (*PennyLaneDevice.requires, "pennylane_lightning")


def translate(circuit: QuantumCircuit) -> list[Step]:
    """Return the steps of a Qiskit circuit with PennyLane's names.

    Raises
    ------
    DeviceError
        A gate is not in `PENNYLANE`, or an angle is neither a number, a parameter nor a multiple of a parameter.
    """
    index = {parameter: k for k, parameter in enumerate(circuit.parameters)}
    steps: list[Step] = []
    for instruction in circuit.data:
        gate = instruction.operation
        if gate.name not in PENNYLANE:
            raise DeviceError(f"gate {gate.name!r} has no PennyLane translation here; use device='aer'")
        wires = tuple(circuit.find_bit(qubit).index for qubit in instruction.qubits)
        angle: Angle = None
        if gate.params:
            try:
                angle = _angle_of(gate.params[0], index)
            except ValueError as error:
                raise DeviceError(
                    f"angle {gate.params[0]} of gate {gate.name!r} must be a number, a parameter or a multiple of "
                    "a parameter"
                ) from error
        steps.append((PENNYLANE[gate.name], wires, angle))
    return steps


def _angle_of(angle: Any, index: dict[Any, int]) -> int | float | tuple[int, float]:
    """Return a gate's angle as part of a `Step`; ValueError for functions other than multiples of a parameter."""
    if not getattr(angle, "parameters", None):
        return float(angle)
    k, factor = index_and_factor(angle, index)
    return k if factor == 1.0 else (k, factor)


def _angle(parameters: NDArray, angle: int | float | tuple[int, float]) -> NDArray | float:
    if isinstance(angle, tuple):
        return parameters[..., angle[0]] * angle[1]
    return parameters[..., angle] if isinstance(angle, int) else angle


def _operations(steps: list[Step], parameters: NDArray, wires: list[Any]) -> list[Any]:
    """Return PennyLane operations whose angles are arrays of shape (k,), for parameters of shape (k, P); or numbers."""
    fixed: dict[tuple[str, tuple[int, ...]], Any] = {}
    return [_operation(step, parameters, [wires[qubit] for qubit in step[1]], fixed) for step in steps]


def _operation(
    step: Step, parameters: NDArray, on: Sequence[Any], fixed: dict[tuple[str, tuple[int, ...]], Any]
) -> Any:
    """Return the PennyLane operation of a step on some wires; those without an angle are made once, in ``fixed``."""
    import pennylane

    name, qubits, angle = step
    if angle is not None:
        return getattr(pennylane, name)(_angle(parameters, angle), wires=on)
    if (name, qubits) not in fixed:
        fixed[name, qubits] = getattr(pennylane, name)(wires=on)
    return fixed[name, qubits]


def _lightning(steps: list[Step], parameters: NDArray, outcomes: int) -> list[NDArray]:
    """Return distributions of shape (1, 2^q) by the compiled state vector of lightning.qubit; [] if it is not there.

    A tape takes PennyLane 0.1 ms for each gate, and the simulation of a gate a microsecond.
    """
    try:
        from pennylane_lightning.lightning_qubit_ops import MeasurementsC128, StateVectorC128

        n_qubits = outcomes.bit_length() - 1
        gates = {name: getattr(StateVectorC128, name) for name, _, _ in steps}
        calls = [(gates[name], list(on), angle) for name, on, angle in steps]
        found = []
        for row in parameters:
            state, angles = StateVectorC128(n_qubits), row.tolist()
            for gate, on, angle in calls:
                gate(state, on, False, [] if angle is None else [_row_angle(angles, angle)])
            probabilities = MeasurementsC128(state).probs(list(range(n_qubits))[::-1])
            found.append(np.asarray(probabilities, dtype=float).reshape(1, outcomes))
    except (ImportError, AttributeError, TypeError):
        return []
    return found


def _row_angle(angles: list[float], angle: int | float | tuple[int, float]) -> float:
    if isinstance(angle, tuple):
        return angles[angle[0]] * angle[1]
    return angles[angle] if isinstance(angle, int) else angle


def _default_qubit(steps: list[Step | FusedGate], parameters: NDArray, outcomes: int) -> list[NDArray]:
    """Return distributions of shape (k, 2^q) by the function of default.qubit that applies a gate, without tapes.

    Rotations that were fused are one operation of PennyLane with broadcast angles, on a state whose batch is the values
    of the control qubits: PennyLane takes 30 µs for an operation, however many angles it has. Fused phases are
    multiplied here.
    """
    from pennylane.devices.qubit import apply_operation

    n_qubits = outcomes.bit_length() - 1
    rows_per_batch = max(1, MAX_BATCH_AMPLITUDES // outcomes)
    fixed: dict[tuple[str, tuple[int, ...]], Any] = {}
    found = []
    for first in range(0, len(parameters), rows_per_batch):
        rows = parameters[first : first + rows_per_batch]
        state = np.zeros((1, *(2,) * n_qubits), dtype=complex)
        state[(0,) * state.ndim] = 1.0
        for step in steps:
            if isinstance(step, FusedGate):
                state = _apply_fused(step, rows, state)
                continue
            operation = _operation(step, rows if len(rows) > 1 else rows[0], step[1], fixed)
            # A batch of one costs PennyLane twice as much as none.
            if len(state) == 1 and operation.batch_size is None:
                state = np.asarray(apply_operation(operation, state[0]))[None]
            else:
                state = np.asarray(apply_operation(operation, state, is_state_batched=True))
        probabilities = np.transpose(np.abs(state) ** 2, [0, *range(n_qubits, 0, -1)]).reshape(-1, outcomes)
        found.append(np.broadcast_to(probabilities, (len(rows), outcomes)))
    return found


def _apply_fused(gate: FusedGate, rows: NDArray, state: NDArray) -> NDArray:
    """Return the state, shape (1 or k, 2, …, 2), after fused rotations, broadcast over the controls, or phases."""
    import pennylane
    from pennylane.devices.qubit import apply_operation

    angles = gate.angles(rows)
    # The batch is the rows and the controls, the first one of which is the least significant bit of the angle's index.
    targets = [] if gate.target is None else [gate.target]
    leading = [*gate.controls[::-1], *targets]
    order = [0, *(1 + k for k in leading), *(1 + k for k in range(state.ndim - 1) if k not in leading)]
    batch = max(len(angles), len(state))
    if len(state) < batch:
        state = np.broadcast_to(state, (batch, *state.shape[1:]))
    elif len(angles) < batch:
        angles = np.broadcast_to(angles, (batch, angles.shape[1]))
    moved = state.transpose(order)
    flat = moved.reshape(angles.size, *(2 for _ in targets), -1)
    half = 0.5 * angles.ravel()
    if targets:
        # PennyLane takes half as long for broadcast matrices as for broadcast RY.
        operation = pennylane.QubitUnitary(gate.matrices(half), wires=0)
        after = np.asarray(apply_operation(operation, flat, is_state_batched=True))
    else:
        after = flat * np.exp(-1j * half)[:, None]  # PennyLane 0.42 cannot broadcast GlobalPhase over a batch
    return after.reshape(moved.shape).transpose(np.argsort(order))


#: By the name of a simulator, the function that computes distributions without PennyLane's tapes.
DIRECT: dict[str, Callable[[list[Any], NDArray, int], list[NDArray]]] = {
    "lightning.qubit": _lightning,
    "default.qubit": _default_qubit,
}
