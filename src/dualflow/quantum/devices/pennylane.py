"""PennyLane's simulators, by the one translation of Qiskit circuits to PennyLane operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError
from ..circuits import ParametricCircuit
from .base import Capabilities
from .local import LocalDevice

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["PennyLaneDevice"]

#: Qiskit gate -> PennyLane operation; what is not here is refused, never skipped.
TRANSLATION = {"ry": "RY", "cx": "CNOT", "rx": "RX", "rz": "RZ", "h": "Hadamard", "x": "PauliX", "cz": "CZ"}

#: Operation, wires, and what its angle is: None (no angle), a number, or the index of a circuit parameter.
_Step = tuple[str, tuple[int, ...], "int | float | None"]


class PennyLaneDevice(LocalDevice):
    """A local PennyLane simulator.

    Qiskit's qubit k is wire k, and the outcome index is Σ_k bit_k 2^k as everywhere.

    Parameters
    ----------
    device : str
        PennyLane's own name, such as "lightning.qubit".

    Raises
    ------
    DeviceError
        PennyLane has no such device, or it cannot be made without options of its own.
    """

    capabilities = Capabilities(exact=True, sampled=True, noisy=False, qubits=24)

    def __init__(self, device: str = "lightning.qubit") -> None:
        super().__init__()
        self.device = device
        self.name = f"pennylane:{device}"
        try:
            self._make(1, None)
        except Exception as error:  # PennyLane's plugins raise whatever they like
            raise DeviceError(
                f"device {self.name!r} could not be made by PennyLane ({error}); 'pennylane:lightning.qubit' and "
                "'pennylane:default.qubit' are known to work"
            ) from error

    def _make(self, wires: int, seed: int | None) -> Any:
        import pennylane

        return pennylane.device(self.device, wires=wires, **({} if seed is None else {"seed": seed}))

    def _compile(self, circuit: ParametricCircuit) -> list[_Step]:
        return translate(circuit.build())

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        import pennylane

        steps, wires = self.compiled(circuit), range(circuit.n_qubits)
        if shots is None and self.device == "default.qubit":
            # It takes a batch as arrays of angles: 1000 circuits of 4 qubits in 10 ms instead of 2.6 s.
            operations = _operations(steps, circuit.gate_parameters(values).T)
            tape = pennylane.tape.QuantumScript(operations, [pennylane.probs(wires=wires[::-1])])
            device = self._make(circuit.n_qubits, None)
            probabilities = np.asarray(pennylane.execute([tape], device, diff_method=None)[0], dtype=float)
            return np.array(np.broadcast_to(probabilities, (len(values), 2**circuit.n_qubits))), None
        # PennyLane's index takes its first wire for the most significant bit.
        measurement = pennylane.probs(wires=wires[::-1]) if shots is None else pennylane.sample(wires=wires)
        tapes = [
            pennylane.tape.QuantumScript(_operations(steps, row), [measurement], shots=shots)
            for row in circuit.gate_parameters(values)
        ]
        device = self._make(circuit.n_qubits, None if shots is None else seed)
        results = pennylane.execute(tapes, device, diff_method=None)
        if shots is None:
            return np.array([np.asarray(result, dtype=float) for result in results]), None
        outcomes = [np.asarray(result).reshape(shots, -1) @ (1 << np.arange(circuit.n_qubits)) for result in results]
        counts = np.array([np.bincount(outcome, minlength=2**circuit.n_qubits) for outcome in outcomes])
        return counts / shots, counts


def translate(circuit: QuantumCircuit) -> list[_Step]:
    """The steps of a Qiskit circuit in PennyLane's names.

    Raises
    ------
    DeviceError
        A gate that `TRANSLATION` does not know, or an angle that is an expression and not a parameter.
    """
    index = {parameter: k for k, parameter in enumerate(circuit.parameters)}
    steps: list[_Step] = []
    for instruction in circuit.data:
        gate = instruction.operation
        if gate.name not in TRANSLATION:
            raise DeviceError(f"gate {gate.name!r} has no PennyLane translation here; use device='aer'")
        wires = tuple(circuit.find_bit(qubit).index for qubit in instruction.qubits)
        angle: int | float | None = None
        if gate.params:
            try:
                angle = index[gate.params[0]] if gate.params[0] in index else float(gate.params[0])
            except TypeError as error:
                raise DeviceError(f"angle {gate.params[0]} of gate {gate.name!r} is no plain parameter") from error
        steps.append((TRANSLATION[gate.name], wires, angle))
    return steps


def _operations(steps: list[_Step], values: NDArray) -> list[Any]:
    import pennylane

    operations = []
    for name, wires, angle in steps:
        make = getattr(pennylane, name)
        if angle is None:
            operations.append(make(wires=wires))
        else:
            operations.append(make(values[angle] if isinstance(angle, int) else angle, wires=wires))
    return operations
