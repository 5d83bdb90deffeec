"""A user's circuit as an ansatz: a Qiskit circuit with parameters, or a PennyLane function of weights.

Both are decomposed into single rotations, whose angles must be affine functions of the parameters. A parameter may
occur in many gates: each rotation is shifted by itself, and the chain rule adds up their derivatives.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.options import Number, Rule
from ...core.runtime.threads import cached_property
from ...exceptions import ProblemError, SolverUnavailable
from ..circuits.decompose import pennylane_steps, pennylane_tape, qiskit_gates
from ..circuits.expressions import Expression
from ..circuits.fidelity import Step
from ..circuits.user_circuit import GivenCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

QUBITS = Number(at_least=1, whole=True, none=True)
#: Largest deviation of a PennyLane angle from the affine function, relative to 1 + |angle|.
AFFINE_TOLERANCE = 1e-9
#: Decimals of offsets and slopes; further ones differ between processors.
DECIMALS = 12


@dataclass(frozen=True, repr=False)
class OwnCircuit:
    """A circuit whose R rotations have angles that are affine functions of P parameters; plain data, hashable."""

    label: str  # name of the circuit or function
    circuit: GivenCircuit
    n_angles: int  # P
    offsets: tuple[float, ...]  # angles of the R rotations if all parameters are 0
    #: Nonzero entries of ∂angle/∂parameter; tuple of (rotation, parameter, float).
    slopes: tuple[tuple[int, int, float], ...]

    @cached_property
    def jacobian(self) -> NDArray:
        """∂angle/∂parameter, shape (R, P)."""
        found = np.zeros((len(self.offsets), self.n_angles))
        for rotation, parameter, slope in self.slopes:
            found[rotation, parameter] += slope
        found.flags.writeable = False
        return found

    def angles(self, theta: NDArray) -> NDArray:
        """Return the angles of the rotations, shape (…, R), for parameters of shape (…, P)."""
        angles: NDArray = np.asarray(theta) @ self.jacobian.T + np.array(self.offsets)
        return angles

    def __repr__(self) -> str:
        # The same in every process: checkpoints compare the repr of a solver's options.
        content = (self.circuit.steps, self.n_angles, self.offsets, self.slopes)
        digest = hashlib.sha256(repr(content).encode()).hexdigest()[:16]
        return f"<circuit {self.label!r}, {self.circuit.n_qubits} qubits, {self.n_angles} angles, {digest}>"


@dataclass(frozen=True)
class NameOrCircuit(Rule):
    """The rule of an option that is one of some names, or a circuit."""

    def allows(self, value: Any) -> bool:
        return isinstance(value, OwnCircuit)

    def _kind(self) -> str:
        return "a circuit"

    def __str__(self) -> str:
        names = ", ".join(repr(word) for word in self.words)
        return (
            f"one of {names} (others are not known), a qiskit.QuantumCircuit with parameters, or a PennyLane function "
            "or QNode, with angles=…, the shape of its weights"
        )

    def check(self, name: str, value: Any) -> Any:
        if (isinstance(value, str) and value in self.words) or self.allows(value):
            return value
        found = repr(value) if isinstance(value, str) else f"{value!r:.60} of type {type(value).__name__}"
        raise ProblemError(f"{name}={found} is not {self}")


def own_circuit(given: Any, angles: Any = None, qubits: Any = None) -> Any:
    """Return a Qiskit circuit or PennyLane function as an `OwnCircuit`, and any other value unchanged.

    Parameters
    ----------
    given : QuantumCircuit, QNode or callable
    angles : int or tuple of int, optional
        Shape of the weights of a PennyLane function.
    qubits : int, optional
        Number of wires of a function that takes ``wires``.

    Raises
    ------
    ProblemError
        An operation is no unitary gate, an angle is no affine function of the parameters, there is no parameter, or
        ``angles`` or ``qubits`` is given without a PennyLane function.
    SolverUnavailable
        PennyLane is not installed.
    """
    QUBITS.check("qubits", qubits)
    quantum_circuit = getattr(sys.modules.get("qiskit"), "QuantumCircuit", None)
    of_qiskit = quantum_circuit is not None and isinstance(given, quantum_circuit)
    of_pennylane = not of_qiskit and callable(given) and not isinstance(given, type)
    if not of_pennylane:
        for name, value in {"angles": angles, "qubits": qubits}.items():
            if value is not None:
                raise ProblemError(f"{name}={value!r} goes with an ansatz that is a PennyLane function; leave it out")
    if of_qiskit:
        return _from_qiskit(given)
    return _from_pennylane(given, angles, qubits) if of_pennylane else given


def _from_qiskit(circuit: QuantumCircuit) -> OwnCircuit:
    column = {parameter: k for k, parameter in enumerate(circuit.parameters)}
    if not column:
        raise ProblemError("ansatz: the circuit has no parameters; make the angles that may change qiskit Parameters")
    steps: list[Step] = []
    offsets: list[float] = []
    slopes: list[tuple[int, int, float]] = []
    for gate, qubits in qiskit_gates(circuit, "ansatz"):
        angle: int | float | None = None
        if gate.params:
            (value,) = gate.params
            if getattr(value, "parameters", ()):
                angle = len(offsets)
                offset, by_parameter = _affine(value, column)
                offsets.append(offset)
                slopes += [(angle, k, slope) for k, slope in by_parameter]
            else:
                angle = float(value)
        steps.append((gate.name, qubits, angle))
    return _checked_circuit(str(circuit.name), circuit.num_qubits, steps, len(column), offsets, slopes)


def _affine(expression: Any, column: dict[Any, int]) -> tuple[float, list[tuple[int, float]]]:
    """Return an expression's value at 0, and its slopes."""
    found = Expression(expression, column).coefficients
    if found is None or any(len(which) > 1 for which in found):
        raise ProblemError(
            f"ansatz: the angle {expression} is no affine function of the parameters; give its gate a parameter of its "
            "own, or a sum of multiples of parameters"
        )
    return found.get((), 0.0), [(which[0], slope) for which, slope in found.items() if which]


def _from_pennylane(given: Any, angles: Any, qubits: int | None) -> OwnCircuit:
    label = getattr(given, "__name__", type(given).__name__)
    if (getattr(given, "__module__", "") or "").partition(".")[0] == "qiskit":
        raise ProblemError(f"ansatz: {label} is a Qiskit function that returns circuits; give such a circuit")
    try:
        import pennylane  # noqa: F401
    except ImportError as error:
        raise SolverUnavailable("an ansatz that is a function needs pennylane: pip install pennylane") from error
    of_qnode = hasattr(given, "func") and hasattr(given, "device")
    function = given.func if of_qnode else given
    label = getattr(function, "__name__", type(function).__name__)
    shape = _shape(angles, label)
    takes_wires = _takes_wires(function, label)
    if qubits is None and of_qnode:
        qubits = len(given.device.wires or ()) or None
    if takes_wires and qubits is None:
        raise ProblemError(f"ansatz: {label} takes wires; set their number by qubits=…")

    def decomposed(weights: NDArray) -> tuple[tuple[Step, ...], NDArray]:
        shaped = weights.reshape(shape)
        arguments = [shaped, range(qubits or 0)] if takes_wires else [shaped]

        def call() -> None:
            made = function(*arguments)
            if hasattr(made, "num_qubits"):
                raise ProblemError(f"ansatz: {label} returns a circuit; give such a circuit")

        tape = pennylane_tape(call, qubits, "ansatz", "an ansatz is made of them, or a qiskit.QuantumCircuit")
        steps, found = pennylane_steps(tape, "ansatz", "write it in rotations")
        return steps, np.array(found)

    # The gates' angles at random weights and with each weight moved give the affine function; two more sets check it.
    count, rng = math.prod(shape), np.random.default_rng(0)
    first = rng.uniform(0.2, 1.2, count)
    moved = [first + 0.5 * (np.arange(count) == k) for k in range(count)]
    checks = [rng.uniform(0.2, 1.2, count) for _ in range(2)]
    steps, at = decomposed(first)
    others = [decomposed(weights) for weights in (*moved, *checks)]
    if any(other != steps for other, _ in others):
        raise ProblemError(
            f"ansatz: {label} applies other gates at other weights; the weights may change the gates' angles only"
        )
    # Rounded, since the last digits differ between processors and the circuit is identified by these numbers.
    jacobian = np.round(2.0 * np.array([found - at for _, found in others[:count]]).T.reshape(len(at), count), DECIMALS)
    offsets = np.round(at - jacobian @ first, DECIMALS) + 0.0
    for weights, (_, found) in zip(checks, others[count:], strict=True):
        wrong = np.asarray(np.abs(jacobian @ weights + offsets - found) > AFFINE_TOLERANCE * (1.0 + np.abs(found)))
        if wrong.any():
            gate, where, _ = next(step for step in steps if step[2] == int(np.argmax(wrong)))
            raise ProblemError(
                f"ansatz: in {label}, the angle of {gate} on wire {where[0]} is no affine function of the weights; "
                "give it a weight of its own, or a sum of multiples of weights"
            )
    fixed: NDArray = ~np.any(jacobian, axis=1)
    number = np.cumsum(~fixed) - 1
    own: list[Step] = []
    for gate, where, angle in steps:
        if isinstance(angle, int):
            angle = float(offsets[angle]) if fixed[angle] else int(number[angle])
        own.append((gate, where, angle))
    moving = jacobian[~fixed]
    slopes = [(int(r), int(k), float(moving[r, k])) for r, k in np.argwhere(moving)]
    width = qubits or 1 + max(wire for _, where, _ in own for wire in where)
    return _checked_circuit(label, width, own, count, [float(value) for value in offsets[~fixed]], slopes)


def _shape(angles: Any, label: str) -> tuple[int, ...]:
    """Return the shape of a function's weights."""
    shape = angles if isinstance(angles, tuple) else (angles,)
    if not shape or not all(Number(at_least=1, whole=True).allows(length) for length in shape):
        said = "" if angles is None else f"angles={angles!r}, but "
        raise ProblemError(
            f"ansatz: {said}{label} is called with weights of shape angles: set angles=, an integer ≥ 1 or a tuple"
        )
    return tuple(int(length) for length in shape)


def _takes_wires(function: Callable[..., Any], label: str) -> bool:
    """Return whether a function takes (weights, wires) rather than weights only."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # Some compiled functions have no signature.
        return True
    needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(needed) > 2 or not list(parameters):
        names = ", ".join(p.name for p in needed) or "nothing"
        raise ProblemError(
            f"ansatz: a function is called with weights, or with (weights, wires); {label} takes {names}: set the "
            "others by functools.partial"
        )
    return len(needed) == 2


def _checked_circuit(
    label: str, width: int, steps: Any, count: int, offsets: list[float], slopes: list[tuple[int, int, float]]
) -> OwnCircuit:
    """Return the circuit; raise `ProblemError` if it has no free rotation, or an angle that is not finite."""
    if not offsets:
        raise ProblemError("ansatz: no rotation of the circuit depends on a parameter")
    if bad := next((value for value in [*offsets, *(slope for *_, slope in slopes)] if not math.isfinite(value)), None):
        raise ProblemError(f"ansatz: an angle is {bad}; angles must be finite")
    name = hashlib.sha256(repr(tuple(steps)).encode()).hexdigest()[:16]
    circuit = GivenCircuit(width, tuple(steps), name)
    return OwnCircuit(label, circuit, count, tuple(offsets), tuple(slopes))
