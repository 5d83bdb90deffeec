"""What a simulator is seen to run, whoever asks it to: peers count what they like, and this counts all alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["circuits_of_aer", "states_of_pennylane"]

Tally = dict[str, int | None]


@contextmanager
def circuits_of_aer() -> Iterator[Tally]:
    """Circuits and shots that Aer runs meanwhile, and the qubits and two-qubit gates of its largest circuit.

    dualflow's device does not call `AerSimulator.run`, and draws its shots from Aer's probabilities: its batches are
    counted as it gets them.
    """
    from qiskit_aer.backends.aerbackend import AerBackend

    from dualflow.quantum.devices.aer import AerDevice

    tally, run = {"circuits": 0, "shots": 0, "qubits": 0, "two_qubit_gates": 0}, AerBackend.run
    run_device, within = AerDevice._run, [False]

    def counting_device(self: Any, circuit: Any, values: Any, shots: int | None, seed: int) -> Any:
        tally["circuits"] += len(values)
        tally["shots"] += len(values) * (shots or 0)
        tally["qubits"] = max(tally["qubits"], circuit.n_qubits)
        tally["two_qubit_gates"] = max(tally["two_qubit_gates"], self.resources(circuit).two_qubit_gates)
        before, within[0] = within[0], True
        try:
            return run_device(self, circuit, values, shots, seed)
        finally:
            within[0] = before

    def counting(self: Any, circuits: Any, parameter_binds: Any = None, **options: Any) -> Any:
        if within[0]:
            return run(self, circuits, parameter_binds=parameter_binds, **options)
        given = circuits if isinstance(circuits, list | tuple) else [circuits]
        for circuit, binds in zip(given, parameter_binds or [{}] * len(given), strict=True):
            exact = any(name.startswith("save_") for name in circuit.count_ops())
            found = max([len(values) for values in binds.values() if hasattr(values, "__len__")], default=1)
            tally["circuits"] += found
            tally["shots"] += 0 if exact else found * int(options.get("shots") or self.options.shots or 0)
            tally["qubits"] = max(tally["qubits"], circuit.num_qubits)
            gates = sum(len(step.qubits) == 2 and step.operation.name != "barrier" for step in circuit.data)
            tally["two_qubit_gates"] = max(tally["two_qubit_gates"], gates)
        return run(self, circuits, parameter_binds=parameter_binds, **options)

    AerBackend.run, AerDevice._run = counting, counting_device  # type: ignore[method-assign]
    try:
        yield tally
    finally:
        AerBackend.run, AerDevice._run = run, run_device  # type: ignore[method-assign]


@contextmanager
def states_of_pennylane() -> Iterator[Tally]:
    """States that PennyLane computes meanwhile; sQUlearn draws its shots from them, without a circuit of their own."""
    from pennylane.devices import DefaultQubit

    tally, execute = {"circuits": 0, "shots": None}, DefaultQubit.execute

    def counting(self: Any, circuits: Any, *rest: Any, **more: Any) -> Any:
        tally["circuits"] += len(circuits) if isinstance(circuits, list | tuple) else 1
        return execute(self, circuits, *rest, **more)

    DefaultQubit.execute = counting
    try:
        yield tally
    finally:
        DefaultQubit.execute = execute
