"""PennyLane's simulators, by the one translation of Qiskit circuits to PennyLane operations."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError
from ..circuits import ParametricCircuit
from ..circuits.gates import PENNYLANE
from .base import Capabilities, Device
from .draws import generators_of, reseed
from .guard import translated
from .identity import described, vars_digest
from .local import LocalDevice

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["LightningDevice", "PennyLaneDevice"]

#: PennyLane's simulators without noise.
IDEAL = (
    "default.qubit",
    "lightning.qubit",
    "lightning.gpu",
    "lightning.kokkos",
    "lightning.tensor",
    "default.clifford",
)
#: Most amplitudes of a batch that is simulated at once.
BATCH_AMPLITUDES = 2**22

#: Operation, wires, and what its angle is: None (no angle), a number, the index of a circuit parameter, or an index
#: and the number that the parameter is multiplied by.
_Step = tuple[str, tuple[int, ...], "int | float | tuple[int, float] | None"]


class PennyLaneDevice(LocalDevice):
    """A local PennyLane simulator.

    Qiskit's qubit k is wire k, and the outcome index is Σ_k bit_k 2^k as everywhere. A batch is one tape with
    broadcast parameters: default.qubit simulates it at once, other devices take it apart, still quicker than a tape
    a circuit.

    Parameters
    ----------
    device : str or pennylane.devices.Device
        PennyLane's own name, such as "lightning.qubit"; or an instance, a copy of which runs the circuits. Its shots
        are those a run asks for, its wires, where it has any, are the qubits in their order, and its own seed, the
        run's and the job decide what is drawn.

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
            self.capabilities = replace(self.capabilities, qubits=widest, noisy=device.name not in IDEAL)
            self.seeded = False  # it has a generator of its own
            return
        self.name = f"pennylane:{device}"
        try:
            self._make(1, None)
        except Exception as error:  # PennyLane's plugins raise whatever they like
            raise DeviceError(
                f"device {self.name!r} could not be made by PennyLane ({error}); 'pennylane:lightning.qubit' and "
                "'pennylane:default.qubit' are known to work"
            ) from error

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

    def _compile(self, circuit: ParametricCircuit) -> list[_Step]:
        return translate(circuit.build())

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        import pennylane

        steps, outcomes = self.compiled(circuit), 2**circuit.n_qubits
        wires = (self.wires or list(range(circuit.n_qubits)))[: circuit.n_qubits]
        # PennyLane's index takes its first wire for the most significant bit.
        measurement = pennylane.probs(wires=wires[::-1]) if shots is None else pennylane.sample(wires=wires)
        at_once = max(1, BATCH_AMPLITUDES // max(outcomes, (shots or 0) * circuit.n_qubits))
        parameters = circuit.gate_parameters(values)
        job = f"{circuit!r} {shots} {described(np.asarray(values))}" if shots else ""
        device = self._make(circuit.n_qubits, None if shots is None else seed, job)
        found = []
        for k in range(0, len(values), at_once):
            operations = _operations(steps, parameters[k : k + at_once], wires)
            tape = pennylane.tape.QuantumScript(operations, [measurement], shots=shots)
            rows = len(parameters[k : k + at_once])
            result = self._executed(tape, device)
            if shots is None:
                # Without parameters nothing is broadcast: one row, whatever was asked for.
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
        """A result of so many circuits, or of one that stands for all, in rows of a shape; no other is reshaped."""
        array = np.asarray(result, dtype=float)
        plain = tuple(size for size in shape if size != 1)
        found = tuple(size for size in array.shape if size != 1)
        if found not in ((rows, *plain) if rows != 1 else plain, plain):
            raise DeviceError(
                f"device {self.name!r} gave back an array of shape {array.shape} where {(rows, *shape)} was asked for; "
                "nothing of it is used",
                sent=True,
            )
        return array.reshape(-1, *shape)

    def _executed(self, tape: Any, device: Any) -> Any:
        import pennylane

        with translated(self.name, "failed"):
            (result,) = pennylane.execute([tape], device, diff_method=None)
        return result

    def __getstate__(self) -> dict[str, Any]:
        # A simulator that has run may hold what cannot be copied; the one that was given has not run.
        return {**super().__getstate__(), "_running": None}


def _copied(device: Any) -> Any:
    """A device to run circuits on, so that the one that was given stays as it is.

    A simulator that has run may hold what cannot be copied nor pickled, and an estimator keeps, clones and saves the
    one it was given.
    """
    try:
        return copy.deepcopy(device)
    except Exception:  # it has run already, elsewhere, or is a machine: then it is the one that runs
        return device


class LightningDevice(PennyLaneDevice):
    """PennyLane's lightning.qubit, a compiled simulator."""

    requires: ClassVar[tuple[str, ...]] = (*PennyLaneDevice.requires, "pennylane_lightning")


def translate(circuit: QuantumCircuit) -> list[_Step]:
    """The steps of a Qiskit circuit in PennyLane's names.

    Raises
    ------
    DeviceError
        A gate that `PENNYLANE` does not know, or an angle that is no number, no parameter and no multiple of one.
    """
    index = {parameter: k for k, parameter in enumerate(circuit.parameters)}
    steps: list[_Step] = []
    for instruction in circuit.data:
        gate = instruction.operation
        if gate.name not in PENNYLANE:
            raise DeviceError(f"gate {gate.name!r} has no PennyLane translation here; use device='aer'")
        wires = tuple(circuit.find_bit(qubit).index for qubit in instruction.qubits)
        angle: int | float | tuple[int, float] | None = None
        if gate.params:
            try:
                angle = index[gate.params[0]] if gate.params[0] in index else float(gate.params[0])
            except TypeError as error:
                angle = _multiple(gate.params[0], index)
                if angle is None:
                    raise DeviceError(
                        f"angle {gate.params[0]} of gate {gate.name!r} is no parameter, nor a multiple of one"
                    ) from error
        steps.append((PENNYLANE[gate.name], wires, angle))
    return steps


def _multiple(expression: Any, index: dict[Any, int]) -> tuple[int, float] | None:
    """(k, c) of an expression c·(parameter k), or None if it is anything else."""
    if len(expression.parameters) != 1:
        return None
    [parameter] = expression.parameters
    at = [float(expression.bind({parameter: value})) for value in (0.0, 1.0, -2.0)]
    return (index[parameter], at[1]) if at[0] == 0.0 and at[2] == -2.0 * at[1] else None


def _angle(parameters: NDArray, angle: int | float | tuple[int, float]) -> NDArray | float:
    if isinstance(angle, tuple):
        return parameters[:, angle[0]] * angle[1]
    return parameters[:, angle] if isinstance(angle, int) else angle


def _operations(steps: list[_Step], parameters: NDArray, wires: list[Any]) -> list[Any]:
    """Operations with each angle an array of shape (k,), one entry a circuit, for parameters of shape (k, P)."""
    import pennylane

    operations = []
    for name, qubits, angle in steps:
        make, on = getattr(pennylane, name), [wires[qubit] for qubit in qubits]
        if angle is None:
            operations.append(make(wires=on))
        else:
            operations.append(make(_angle(parameters, angle), wires=on))
    return operations
