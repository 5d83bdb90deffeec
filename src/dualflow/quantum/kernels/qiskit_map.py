"""Feature maps from Qiskit circuits: their gates, and their angles as functions of features and weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import ProblemError, near_miss
from ..circuits.fidelity import ROTATIONS, SELF_INVERSE, Step
from .maps import StepsMap, digest

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["QiskitAngles", "from_qiskit"]

#: Operations that no feature map has, and what to do about them.
WAYS_OUT = {
    "measure": "circuit.remove_final_measurements(inplace=False) is without those at its end",
    "initialize": "prepare_state does it without a reset",
}
#: An expression of more parameters is bound point by point: it would have too many coefficients.
MANY = 6


class Expression:
    """A Qiskit parameter expression as a function of columns of numbers.

    One that is affine in each of its parameters (all angles of Qiskit's feature maps are) is a polynomial whose 2^k
    coefficients are found from its values at the corners of {0, 1}^k; others are bound point by point.
    """

    def __init__(self, expression: Any, column: dict[Any, int]) -> None:
        self.expression = expression
        self.parameters = sorted(getattr(expression, "parameters", ()), key=column.__getitem__)
        self.columns = [column[parameter] for parameter in self.parameters]
        self.coefficients: dict[tuple[int, ...], float] | None = None
        if len(self.parameters) <= MANY and all(self._is_affine_in(p) for p in self.parameters):
            self.coefficients = self._expanded()

    def __call__(self, values: NDArray) -> NDArray:
        """Its values, shape (n,), for the values of all parameters, shape (n, columns)."""
        if self.coefficients is None:
            return np.array([self._bound([float(row[k]) for k in self.columns]) for row in values])
        out = np.zeros(len(values))
        for which, coefficient in self.coefficients.items():
            out += coefficient * np.prod(values[:, list(which)], axis=1)
        return out

    def derivative(self, parameter: Any, column: dict[Any, int]) -> Expression:
        """∂/∂parameter."""
        try:
            return Expression(self.expression.gradient(parameter), column)
        except RuntimeError as error:
            raise ProblemError(f"weights: the angle {self.expression} has no derivative; leave it fixed") from error

    def _is_affine_in(self, parameter: Any) -> bool:
        # Its second derivative is 0; what Qiskit says of the parameters of a derivative is what they were before.
        try:
            slope = self.expression.gradient(parameter)
            return not hasattr(slope, "gradient") or bool(slope.gradient(parameter) == 0)
        except RuntimeError:  # of sign(x)
            return False

    def _expanded(self) -> dict[tuple[int, ...], float] | None:
        found: dict[tuple[int, ...], float] = {}
        for corner in sorted(product((0, 1), repeat=len(self.parameters)), key=sum):
            which = tuple(c for c, bit in zip(self.columns, corner, strict=True) if bit)
            value = self._bound([float(bit) for bit in corner])
            found[which] = value - sum(a for part, a in found.items() if set(part) < set(which))
        return {which: a for which, a in found.items() if a} if np.isfinite(list(found.values())).all() else None

    def _bound(self, values: list[float]) -> float:
        if not self.parameters:
            return float(self.expression)
        try:
            return float(self.expression.bind(dict(zip(self.parameters, values, strict=True))))
        except (ArithmeticError, RuntimeError, TypeError):  # Qiskit's ways to say infinite, NaN, complex
            return np.nan


class QiskitAngles:
    """The distinct angles of a Qiskit circuit as functions of its features and weights."""

    def __init__(self, expressions: list[Any], features: list[Any], weights: list[Any]) -> None:
        self.column = {parameter: k for k, parameter in enumerate([*features, *weights])}
        self.weights = weights
        self.expressions = [Expression(expression, self.column) for expression in expressions]

    @cached_property
    def slopes(self) -> list[tuple[int, int, Expression]]:
        """Index of angle and weight, and the derivative, wherever an angle depends on a weight."""
        return [
            (g, j, made.derivative(weight, self.column))
            for g, made in enumerate(self.expressions)
            for j, weight in enumerate(self.weights)
            if weight in made.parameters
        ]

    def __call__(self, X: NDArray, weights: NDArray) -> NDArray:
        values = self._values(X, weights)
        return np.column_stack([expression(values) for expression in self.expressions])

    def pull(self, X: NDArray, weights: NDArray, gradients: NDArray) -> NDArray:
        values, out = self._values(X, weights), np.zeros(len(weights))
        for g, j, slope in self.slopes:
            out[j] += gradients[:, g] @ slope(values)
        return out

    @staticmethod
    def _values(X: NDArray, weights: NDArray) -> NDArray:
        return np.hstack([X, np.tile(weights, (len(X), 1))])


def from_qiskit(circuit: QuantumCircuit, n_features: int, weights: Mapping[Any, Any] | None = None) -> StepsMap:
    """The feature map of a circuit; parameters among ``weights`` are free, all others take the features in order.

    Raises
    ------
    ProblemError
        The circuit has not one parameter a feature, does not know a weight, or something in it is no gate.
    """
    fixed = _weights_of(circuit, weights or {})
    features = [parameter for parameter in circuit.parameters if parameter not in fixed]
    if len(features) != n_features:
        raise ProblemError(_miscounted(len(features), n_features, len(fixed)))
    steps: list[Step] = []
    index: dict[Any, int] = {}
    for instruction, qubits in _gates_of(circuit):
        angle: int | float | None = None
        if instruction.params:
            value = instruction.params[0]
            bound = not getattr(value, "parameters", ())
            angle = float(value) if bound else index.setdefault(value, len(index))
        steps.append((instruction.name, qubits, angle))
    if not index:
        raise ProblemError("feature_map: no gate of the circuit depends on a parameter; use them as angles")
    label = "".join(c if c.isalnum() else "_" for c in circuit.name.partition("-")[0])
    name = f"{label}_{digest((steps, [str(expression) for expression in index]))}"
    angles = QiskitAngles(list(index), features, list(fixed))
    return StepsMap(name, n_features, circuit.num_qubits, tuple(steps), angles, np.array(list(fixed.values())))


def _miscounted(found: int, n_features: int, fixed: int) -> str:
    """What to do about a circuit that has not one parameter a feature."""
    beside = f" beside its {fixed} weights" if fixed else ""
    text = (
        f"feature_map: the circuit has {found} parameters{beside} and the points have {n_features} features; parameter "
        "k takes feature k"
    )
    if found > n_features:
        return f"{text}; of parameters that are no features give values, weights={{parameter: value}}"
    out = " and out of weights" if fixed else ""
    return f"{text}; leave as many parameters unbound{out} as there are features, or take fewer features, by PCA"


def _gates_of(circuit: QuantumCircuit) -> Iterator[tuple[Any, tuple[int, ...]]]:
    """The circuit's operations in the gates that are known here, and their qubits; barriers are left out."""
    from qiskit import transpile
    from qiskit.exceptions import QiskitError

    known, gates = {*ROTATIONS, *SELF_INVERSE}, circuit
    for instruction in circuit.data:
        if instruction.operation.name in WAYS_OUT or instruction.clbits:
            raise ProblemError(_no_gate(instruction.operation.name))
    if not set(circuit.count_ops()) <= known:
        try:
            gates = transpile(circuit, basis_gates=sorted(known), optimization_level=0)
        except QiskitError as error:
            raise ProblemError(
                f"feature_map: Qiskit cannot take the circuit apart into {', '.join(sorted(known))}; leave out what is "
                f"no unitary gate. It says: {str(error)[:200]}"
            ) from error
    for instruction in gates.data:
        gate = instruction.operation
        if gate.name == "barrier":
            continue
        if gate.name not in known or instruction.clbits:
            raise ProblemError(_no_gate(gate.name))
        yield gate, tuple(gates.find_bit(qubit).index for qubit in instruction.qubits)


def _no_gate(name: str) -> str:
    """Of an operation that is no unitary gate."""
    return (
        f"feature_map: the circuit holds {name!r}, which is no unitary gate; a feature map prepares a state, without "
        f"measurements, resets, delays or conditions: {WAYS_OUT.get(name, 'leave it out')}"
    )


def _weights_of(circuit: QuantumCircuit, weights: Mapping[Any, Any]) -> dict[Any, float]:
    """Every free parameter of a circuit and its value; keys are parameters, their names, or vectors of them."""
    by_name = {parameter.name: parameter for parameter in circuit.parameters}
    found: dict[Any, float] = {}
    for key, value in weights.items():
        members = [getattr(p, "name", p) for p in (key if hasattr(key, "params") else [key])]
        try:
            values = np.asarray(value, dtype=float).reshape(-1)
        except (TypeError, ValueError) as error:
            raise ProblemError(f"weights[{key!r}]={value!r:.80} must be one real number or a vector of them") from error
        if len(values) != len(members):
            raise ProblemError(f"weights[{key!r}] has {len(values)} values for {len(members)} parameters")
        for name, number in zip(members, values, strict=True):
            if name not in by_name:
                known = ", ".join(by_name)
                raise ProblemError(
                    f"weights: the circuit has no parameter {name!r}, but {known}{near_miss(name, by_name)}"
                )
            if not np.isfinite(number):
                raise ProblemError(f"weights[{name!r}]={number} must be finite")
            found[by_name[name]] = float(number)
    return found
