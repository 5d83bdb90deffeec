"""Feature maps: from a point to the state of some qubits. Built-in ones, Qiskit circuits, PennyLane functions."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import ProblemError, SolverUnavailable, near_miss
from ..circuits.fidelity import ROTATIONS, SELF_INVERSE, FidelityCircuit, Step, angle_steps, evolve, zz_steps

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["BUILT_IN", "FeatureMap", "make_feature_map", "zz_angles"]

BUILT_IN = ("angle", "zz")
#: Layers of the built-in "zz".
ZZ_REPS = 2


class FeatureMap:
    """What a fidelity kernel needs of a feature map.

    Attributes
    ----------
    name : str
    n_features, n_qubits : int
    """

    name: str
    n_features: int
    n_qubits: int

    def pairs(self, X: NDArray, Z: NDArray) -> tuple[FidelityCircuit, NDArray]:
        """The circuit U(x) U(z)† and its angles for k pairs of points, shape (k, 2G)."""
        raise NotImplementedError

    def states(self, X: NDArray) -> NDArray:
        """φ(x) of n points, complex, shape (n, 2^q)."""
        raise NotImplementedError


class StepsMap(FeatureMap):
    """A map whose gates are known and whose angles are functions of the features."""

    def __init__(self, name: str, n_features: int, n_qubits: int, steps: tuple[Step, ...], angles: Any) -> None:
        self.name, self.n_features, self.n_qubits, self.steps, self.angles = name, n_features, n_qubits, steps, angles
        self.circuit = FidelityCircuit(n_qubits, steps, name)

    def pairs(self, X: NDArray, Z: NDArray) -> tuple[FidelityCircuit, NDArray]:
        return self.circuit, np.hstack([self._angles(X), self._angles(Z)])

    def states(self, X: NDArray) -> NDArray:
        return evolve(self.n_qubits, self.steps, self._angles(X))

    def _angles(self, X: NDArray) -> NDArray:
        with np.errstate(over="ignore", invalid="ignore"):
            angles = np.asarray(self.angles(X))
        finite = np.isfinite(angles).all(axis=1)
        if not finite.all():
            raise ProblemError(
                f"feature_map: an angle of the point {X[np.argmin(finite)].tolist()} is not finite; scale the features"
            )
        return angles


class QiskitAngles:
    """The distinct angles of a Qiskit circuit as functions of its parameters."""

    def __init__(self, expressions: list[Any], parameters: list[Any]) -> None:
        self.expressions, self.parameters = expressions, parameters

    def __call__(self, X: NDArray) -> NDArray:
        column = {parameter: k for k, parameter in enumerate(self.parameters)}
        out = np.empty((len(X), len(self.expressions)))
        for g, expression in enumerate(self.expressions):
            if expression in column:
                out[:, g] = X[:, column[expression]]
                continue
            free = [(parameter, column[parameter]) for parameter in expression.parameters]
            out[:, g] = [self._bound(expression, {p: float(x[k]) for p, k in free}) for x in X]
        return out

    @staticmethod
    def _bound(expression: Any, values: dict[Any, float]) -> float:
        try:
            return float(expression.bind(values))
        except (ArithmeticError, RuntimeError, TypeError):  # Qiskit's ways to say infinite, NaN, complex
            return np.nan


class PennyLaneMap(FeatureMap):
    """A function of (x, wires) that applies PennyLane's operations; wire k is qubit k.

    States are `pennylane.state` of default.qubit, one tape a point. For devices every tape is taken apart into
    rotations, H, X, CNOT and CZ; it must have the same gates for all points.
    """

    def __init__(self, function: Callable[..., Any], n_features: int, n_qubits: int) -> None:
        self.function, self.n_features, self.n_qubits = function, n_features, n_qubits
        self.name = "".join(c if c.isalnum() else "_" for c in getattr(function, "__name__", "pennylane"))

    def _tape(self, x: NDArray) -> Any:
        import pennylane

        with pennylane.queuing.AnnotatedQueue() as queue:
            self.function(x, range(self.n_qubits))
        tape = pennylane.tape.QuantumScript.from_queue(queue)
        if not tape.operations:
            raise ProblemError(
                "feature_map: the function applies no operation of PennyLane's; of a QNode give the function it was "
                "made of (its attribute func)"
            )
        for operation in tape.operations:
            if operation.name == "MidMeasureMP":
                raise ProblemError("feature_map: the function measures; a feature map prepares a state")
            if unknown := [wire for wire in operation.wires if wire not in range(self.n_qubits)]:
                raise ProblemError(
                    f"feature_map: {operation.name} acts on wire {unknown[0]!r}, and the wires are 0 to "
                    f"{self.n_qubits - 1}; set n_qubits to have more"
                )
        return tape

    def states(self, X: NDArray) -> NDArray:
        import pennylane

        device = pennylane.device("default.qubit", wires=self.n_qubits)
        tapes = [pennylane.tape.QuantumScript(self._tape(x).operations, [pennylane.state()]) for x in X]
        found = pennylane.execute(tapes, device, diff_method=None)
        states = np.array([np.asarray(state, dtype=complex).reshape(-1) for state in found])
        # PennyLane's index takes its first wire for the most significant bit.
        bits = states.reshape(len(X), *[2] * self.n_qubits)
        return bits.transpose(0, *range(self.n_qubits, 0, -1)).reshape(len(X), -1)

    def _steps(self, x: NDArray) -> tuple[tuple[Step, ...], list[float]]:
        import pennylane

        from ..circuits.gates import PENNYLANE

        names = {theirs: ours for ours, theirs in PENNYLANE.items() if ours in ROTATIONS + SELF_INVERSE}
        tape = pennylane.tape.QuantumScript(self._tape(x).operations, [])
        (tape,), _ = pennylane.transforms.decompose(tape, gate_set={*names, "GlobalPhase"})
        steps: list[Step] = []
        angles: list[float] = []
        for operation in tape.operations:
            if operation.name in ("GlobalPhase", "Barrier"):
                continue
            if operation.name not in names:
                raise ProblemError(
                    f"feature_map: PennyLane's {operation.name} does not come apart into {', '.join(names)}; on "
                    "device='emulator' any operation with a state goes"
                )
            angle = len(angles) if operation.parameters else None
            angles += [float(value) for value in operation.parameters]
            steps.append((names[operation.name], tuple(int(wire) for wire in operation.wires), angle))
        return tuple(steps), angles

    def pairs(self, X: NDArray, Z: NDArray) -> tuple[FidelityCircuit, NDArray]:
        points, where = np.unique(np.vstack([X, Z]), axis=0, return_inverse=True)
        taken = [self._steps(x) for x in points]
        steps = taken[0][0]
        if any(other != steps for other, _ in taken):
            raise ProblemError(
                "feature_map: the function applies other gates to other points; a device takes one circuit with all "
                "bindings. Use device='emulator', or gates that depend on x by their angles only"
            )
        angles = np.array([values for _, values in taken])[where.reshape(-1)]
        circuit = FidelityCircuit(self.n_qubits, steps, f"{self.name}_{_digest(steps)}")
        return circuit, np.hstack([angles[: len(X)], angles[len(X) :]])


def zz_angles(X: NDArray) -> NDArray:
    """2x_k, then 2(π − x_i)(π − x_j) for i < j: shape (n, m + m(m − 1)/2)."""
    pairs = list(combinations(range(X.shape[1]), 2))
    products = [2 * (np.pi - X[:, i]) * (np.pi - X[:, j]) for i, j in pairs]
    return np.column_stack([2 * X, *products])


def make_feature_map(
    given: str | QuantumCircuit | Callable[..., Any], n_features: int, n_qubits: int | None
) -> FeatureMap:
    """The feature map of points with so many features; see `fidelity.FidelityKernel` for what may be given.

    Raises
    ------
    ProblemError
        The name is not known, the circuit has not one parameter a feature, or something in it is no gate.
    SolverUnavailable
        The package it is written in is not installed.
    TypeError
        It is none of the three.
    """
    if isinstance(given, str):
        if given not in BUILT_IN:
            known = ", ".join(map(repr, BUILT_IN))
            raise ProblemError(f"feature_map={given!r} is not one of {known}{near_miss(given, BUILT_IN)}")
        _refuse_width(n_qubits, n_features, f"the map {given!r} has a qubit a feature")
        if given == "angle":
            return StepsMap("angle", n_features, n_features, angle_steps(n_features), np.asarray)
        return StepsMap(f"zz_r{ZZ_REPS}", n_features, n_features, zz_steps(n_features, ZZ_REPS), zz_angles)
    if callable(given):
        _require("pennylane")
        return PennyLaneMap(given, n_features, n_features if n_qubits is None else n_qubits)
    _require("qiskit")
    from qiskit import QuantumCircuit

    if not isinstance(given, QuantumCircuit):
        raise TypeError(
            "feature_map must be a name, a qiskit.QuantumCircuit or a function of (x, wires), found "
            f"{type(given).__name__}"
        )
    _refuse_width(n_qubits, given.num_qubits, f"the circuit has {given.num_qubits}")
    return _from_qiskit(given, n_features)


def _from_qiskit(circuit: QuantumCircuit, n_features: int) -> StepsMap:
    from qiskit import transpile

    parameters = list(circuit.parameters)
    if len(parameters) != n_features:
        raise ProblemError(
            f"feature_map: the circuit has {len(parameters)} parameters and the points have {n_features} features; "
            "parameter k takes feature k"
        )
    steps: list[Step] = []
    index: dict[Any, int] = {}
    known = {*ROTATIONS, *SELF_INVERSE}
    gates = circuit
    if not set(circuit.count_ops()) <= known:
        gates = transpile(circuit, basis_gates=sorted(known), optimization_level=0)
    for instruction in gates.data:
        gate, qubits = instruction.operation, tuple(gates.find_bit(q).index for q in instruction.qubits)
        if gate.name == "barrier":
            continue
        if gate.name not in ROTATIONS + SELF_INVERSE or instruction.clbits:
            raise ProblemError(
                f"feature_map: the circuit holds {gate.name!r}, which is no unitary gate; a feature map prepares a "
                "state, without measurements, resets or conditions"
            )
        angle: int | float | None = None
        if gate.params:
            value = gate.params[0]
            fixed = not getattr(value, "parameters", ())
            angle = float(value) if fixed else index.setdefault(value, len(index))
        steps.append((gate.name, qubits, angle))
    if not index:
        raise ProblemError("feature_map: no gate of the circuit depends on a parameter")
    label = "".join(c if c.isalnum() else "_" for c in circuit.name.partition("-")[0])
    name = f"{label}_{_digest((steps, [str(expression) for expression in index]))}"
    return StepsMap(name, n_features, circuit.num_qubits, tuple(steps), QiskitAngles(list(index), parameters))


def _digest(content: Any) -> str:
    return hashlib.sha256(repr(content).encode()).hexdigest()[:8]


def _refuse_width(n_qubits: int | None, width: int, why: str) -> None:
    if n_qubits is not None and n_qubits != width:
        raise ProblemError(f"n_qubits={n_qubits!r}, but {why}; leave it out")


def _require(package: str) -> None:
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise SolverUnavailable(f"this feature map needs {package}, which is not installed: pip install {package}")
