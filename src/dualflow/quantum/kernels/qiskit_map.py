"""Feature maps from Qiskit circuits: their gates, and their angles as functions of features and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...core.runtime.threads import cached_property
from ...exceptions import ProblemError, did_you_mean
from ..circuits.decompose import qiskit_gates
from ..circuits.expressions import Expression
from ..circuits.fidelity import Step
from .maps import StepsMap, digest

if TYPE_CHECKING:
    from qiskit import QuantumCircuit


class QiskitAngles:
    """The distinct angles of a Qiskit circuit as functions of its features and weights."""

    def __init__(self, expressions: list[Any], features: list[Any], weights: list[Any]) -> None:
        self.column = {parameter: k for k, parameter in enumerate([*features, *weights])}
        self.weights = weights
        self.expressions = [Expression(expression, self.column) for expression in expressions]

    @cached_property
    def slopes(self) -> list[tuple[int, int, Expression]]:
        """The nonzero derivatives of angles by weights: index of the angle, index of the weight, expression."""
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
    """Return the feature map of a circuit; parameters in ``weights`` are free, all others take the features in order.

    Raises
    ------
    ProblemError
        The circuit does not have one parameter for each feature, lacks the parameter of a weight, or has an operation
        that is no gate.
    """
    fixed = _weights_of(circuit, weights or {})
    features = [parameter for parameter in circuit.parameters if parameter not in fixed]
    if len(features) != n_features:
        raise ProblemError(_count_message(len(features), n_features, len(fixed)))
    steps: list[Step] = []
    index: dict[Any, int] = {}
    for instruction, qubits in qiskit_gates(circuit, "feature_map"):
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


def _count_message(found: int, n_features: int, fixed: int) -> str:
    """Return the error message for a circuit whose number of parameters is not that of the features."""
    beside = f" beside its {fixed} weights" if fixed else ""
    text = (
        f"feature_map: the circuit has {found} parameters{beside} and the points have {n_features} features; parameter "
        "k takes feature k"
    )
    if found > n_features:
        return f"{text}; give the values of parameters that are no features by weights={{parameter: value}}"
    out = " and out of weights" if fixed else ""
    return f"{text}; leave as many parameters unbound{out} as there are features, or take fewer features, by PCA"


def _weights_of(circuit: QuantumCircuit, weights: Mapping[Any, Any]) -> dict[Any, float]:
    """Return a circuit's free parameters and their values; keys are parameters, their names, or vectors of them."""
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
                    f"weights: the circuit has no parameter {name!r}, but {known}{did_you_mean(name, by_name)}"
                )
            if not np.isfinite(number):
                raise ProblemError(f"weights[{name!r}]={number} must be finite")
            found[by_name[name]] = float(number)
    return found
