"""Circuits of others in the gates that are known here: Qiskit's, and the tapes of PennyLane's functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ...exceptions import ProblemError
from .fidelity import ROTATIONS, SELF_INVERSE, Step
from .gates import PENNYLANE

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["pennylane_steps", "pennylane_tape", "qiskit_gates"]

#: Operations that are no gates, and what to do about them.
WAYS_OUT = {
    "measure": "circuit.remove_final_measurements(inplace=False) is without those at its end",
    "initialize": "prepare_state does it without a reset",
}


def qiskit_gates(circuit: QuantumCircuit, what: str) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """The circuit's operations in the gates that are known here, and their qubits; barriers are left out.

    ``what`` is the argument that errors name.
    """
    from qiskit import transpile
    from qiskit.exceptions import QiskitError

    known, gates = {*ROTATIONS, *SELF_INVERSE}, circuit
    for instruction in circuit.data:
        if instruction.operation.name in WAYS_OUT or instruction.clbits:
            raise ProblemError(_no_gate(instruction.operation.name, what))
    if not set(circuit.count_ops()) <= known:
        try:
            gates = transpile(circuit, basis_gates=sorted(known), optimization_level=0)
        except QiskitError as error:
            raise ProblemError(
                f"{what}: Qiskit cannot take the circuit apart into {', '.join(sorted(known))}; leave out what is "
                f"no unitary gate. It says: {str(error)[:200]}"
            ) from error
    for instruction in gates.data:
        gate = instruction.operation
        if gate.name == "barrier":
            continue
        if gate.name not in known or instruction.clbits:
            raise ProblemError(_no_gate(gate.name, what))
        yield gate, tuple(gates.find_bit(qubit).index for qubit in instruction.qubits)


def _no_gate(name: str, what: str) -> str:
    """Of an operation that is no unitary gate."""
    noun = "a feature map" if what == "feature_map" else f"an {what}"
    return (
        f"{what}: the circuit holds {name!r}, which is no unitary gate; {noun} prepares a state, without "
        f"measurements, resets, delays or conditions: {WAYS_OUT.get(name, 'leave it out')}"
    )


def pennylane_tape(call: Callable[[], Any], n_qubits: int | None, what: str, of_qnode: str) -> Any:
    """What a function of PennyLane's applies when it is called.

    Parameters
    ----------
    call : callable without arguments
    n_qubits : int, optional
        Its wires are 0 to n_qubits − 1; any integers ≥ 0 if not given.
    what, of_qnode : str
        The argument that errors name, and what they say to do about a QNode.
    """
    import pennylane

    with pennylane.queuing.AnnotatedQueue() as queue:
        call()
    tape = pennylane.tape.QuantumScript.from_queue(queue)
    noun = "a feature map" if what == "feature_map" else f"an {what}"
    if not tape.operations:
        raise ProblemError(f"{what}: the function applies no operation of PennyLane's; {of_qnode}")
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
    """The gates of a tape, the angle of each an index of its own, and these angles."""
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
                f"{what}: PennyLane's {operation.name} does not come apart into {', '.join(names)}; {way_out}"
            )
        angle = len(angles) if operation.parameters else None
        angles += [float(value) for value in operation.parameters]
        steps.append((names[operation.name], tuple(int(wire) for wire in operation.wires), angle))
    return tuple(steps), angles
