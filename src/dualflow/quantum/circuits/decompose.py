"""Decompose users' Qiskit circuits and PennyLane functions into the gates that dualflow simulates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...exceptions import ProblemError
from .fidelity import ROTATIONS, SELF_INVERSE, Step
from .gates import PENNYLANE

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["pennylane_steps", "pennylane_tape", "qiskit_gates"]

#: Advice in error messages, by the name of an operation that is not a unitary gate.
ADVICE = {
    "measure": "circuit.remove_final_measurements(inplace=False) removes those at its end",
    "initialize": "use prepare_state, which needs no reset",
}


def qiskit_gates(circuit: QuantumCircuit, what: str) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """Yield the gates of a circuit in dualflow's gate set with their qubits, without barriers.

    Parameters
    ----------
    circuit : QuantumCircuit
    what : str
        Name of the argument, for error messages.

    Raises
    ------
    ProblemError
        An operation is not a unitary gate, or Qiskit cannot decompose the circuit.
    """
    from qiskit import transpile
    from qiskit.exceptions import QiskitError

    known, gates = {*ROTATIONS, *SELF_INVERSE}, circuit
    for instruction in circuit.data:
        if instruction.operation.name in ADVICE or instruction.clbits:
            raise ProblemError(_not_a_gate(instruction.operation.name, what))
    if not set(circuit.count_ops()) <= known:
        try:
            gates = transpile(circuit, basis_gates=sorted(known), optimization_level=0)
        except QiskitError as error:
            raise ProblemError(
                f"{what}: Qiskit cannot decompose the circuit into {', '.join(sorted(known))}; leave out what is not a "
                f"unitary gate. Qiskit's error: {str(error)[:200]}"
            ) from error
    for instruction in gates.data:
        gate = instruction.operation
        if gate.name == "barrier":
            continue
        if gate.name not in known or instruction.clbits:
            raise ProblemError(_not_a_gate(gate.name, what))
        yield gate, tuple(gates.find_bit(qubit).index for qubit in instruction.qubits)


def _not_a_gate(name: str, what: str) -> str:
    """Return the error message for an operation that is not a unitary gate."""
    noun = "a feature map" if what == "feature_map" else f"an {what}"
    return (
        f"{what}: the circuit holds {name!r}, which is not a unitary gate; {noun} prepares a state, without "
        f"measurements, resets, delays or conditions: {ADVICE.get(name, 'leave it out')}"
    )


def pennylane_tape(call: Callable[[], Any], n_qubits: int | None, what: str, of_qnode: str) -> Any:
    """Return the tape of the operations that a PennyLane function applies.

    Parameters
    ----------
    call : callable without arguments
    n_qubits : int, optional
        Wires must be 0 to n_qubits − 1; by default any integers ≥ 0.
    what : str
        Name of the argument, for error messages.
    of_qnode : str
        Advice in error messages for users who passed a QNode.

    Raises
    ------
    ProblemError
        The function applies no operation, measures, or uses other wires.
    """
    import pennylane

    with pennylane.queuing.AnnotatedQueue() as queue:
        call()
    tape = pennylane.tape.QuantumScript.from_queue(queue)
    noun = "a feature map" if what == "feature_map" else f"an {what}"
    if not tape.operations:
        raise ProblemError(f"{what}: the function applies no PennyLane operation; {of_qnode}")
    for operation in tape.operations:
        if operation.name == "MidMeasureMP":
            raise ProblemError(f"{what}: the function measures; {noun} prepares a state")
        for wire in operation.wires:
            if n_qubits is not None and wire not in range(n_qubits):
                raise ProblemError(
                    f"{what}: {operation.name} acts on wire {wire!r}, and the wires are 0 to {n_qubits - 1}; set "
                    f"{'n_qubits' if what == 'feature_map' else 'qubits'} to have more"
                )
            if not isinstance(wire, int) or wire < 0:
                raise ProblemError(f"{what}: {operation.name} acts on wire {wire!r}; wires are integers from 0 on")
    return tape


def pennylane_steps(tape: Any, what: str, way_out: str) -> tuple[tuple[Step, ...], list[float]]:
    """Return the steps of a tape, with a separate index for the angle of each, and the values of these angles."""
    import pennylane

    names = {theirs: ours for ours, theirs in PENNYLANE.items() if ours in ROTATIONS + SELF_INVERSE}
    tape = pennylane.tape.QuantumScript(tape.operations, [])
    (tape,), _ = pennylane.transforms.decompose(tape, gate_set={*names, "GlobalPhase"})
    steps: list[Step] = []
    angles: list[float] = []
    for operation in tape.operations:
        if operation.name in ("GlobalPhase", "Barrier"):
            continue
        if operation.name not in names:
            raise ProblemError(
                f"{what}: PennyLane's {operation.name} cannot be decomposed into {', '.join(names)}; {way_out}"
            )
        angle = len(angles) if operation.parameters else None
        angles += [float(value) for value in operation.parameters]
        steps.append((names[operation.name], tuple(int(wire) for wire in operation.wires), angle))
    return tuple(steps), angles
