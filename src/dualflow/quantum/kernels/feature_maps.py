"""Makes a kernel's feature map from a name, a Qiskit circuit, a function that returns one, or a PennyLane function."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ...exceptions import ProblemError, SolverUnavailable, did_you_mean
from ..circuits.fidelity import angle_steps, zz_steps
from .maps import FeatureMap, FixedAngles, StepsMap
from .pennylane_map import PennyLaneMap
from .qiskit_map import from_qiskit
from .reuploading import Reuploading

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

    Map: TypeAlias = str | QuantumCircuit | Reuploading | Callable[..., Any]

BUILT_IN = ("angle", "zz", "reuploading")
#: Repetitions of the built-in "zz", as in Qiskit's ``zz_feature_map``.
ZZ_REPETITIONS = 2


def zz_angles(X: NDArray) -> NDArray:
    """Return 2x_k, then 2(π − x_i)(π − x_j) for i < j, shape (n, m + m(m − 1)/2)."""
    pairs = list(combinations(range(X.shape[1]), 2))
    products = [2 * (np.pi - X[:, i]) * (np.pi - X[:, j]) for i, j in pairs]
    return np.column_stack([2 * X, *products])


def make_feature_map(given: Map, n_features: int, n_qubits: int | None, weights: Any = None) -> FeatureMap:
    """Return the feature map for points with ``n_features`` features; `FidelityKernel` lists the values of ``given``.

    Raises
    ------
    ProblemError
        The name is not known, the circuit does not have one parameter for each feature, an operation is no gate, or the
        weights do not fit the map.
    SolverUnavailable
        The package of the circuit or function is not installed.
    TypeError
        ``given`` has another type.
    """
    if isinstance(given, str):
        if given not in BUILT_IN:
            known = ", ".join(map(repr, BUILT_IN))
            hint = did_you_mean(given, BUILT_IN) or "; give any other map as a circuit or a function, not by a name"
            raise ProblemError(f"feature_map={given!r} is not one of {known}{hint}")
        if given != "reuploading":
            _refuse_width(n_qubits, n_features, f"the map {given!r} has one qubit for each feature")
            _refuse_weights(weights, f"the map {given!r}")
            if given == "angle":
                return StepsMap("angle", n_features, n_features, angle_steps(n_features), FixedAngles(np.asarray))
            steps = zz_steps(n_features, ZZ_REPETITIONS)
            return StepsMap(f"zz_r{ZZ_REPETITIONS}", n_features, n_features, steps, FixedAngles(zz_angles))
        given = Reuploading()
    if isinstance(given, Reuploading):
        width = n_features if n_qubits is None else n_qubits
        return given.make_map(n_features, width, _vector(weights, given.start(n_features, width)))
    if callable(given) and not makes_circuits(given):
        _require("pennylane")
        _refuse_weights(weights, "a PennyLane function")
        return PennyLaneMap(given, n_features, n_features if n_qubits is None else n_qubits)
    _require("qiskit")
    from qiskit import QuantumCircuit

    circuit = given(n_features) if callable(given) else given
    if not isinstance(circuit, QuantumCircuit):
        raise TypeError(
            "feature_map must be a name, a qiskit.QuantumCircuit, a function of the number of features that returns "
            f"one, a dualflow.Reuploading or a PennyLane function of (x, wires), found {type(circuit).__name__}"
        )
    _refuse_width(n_qubits, circuit.num_qubits, f"the circuit has {circuit.num_qubits}")
    if weights is not None and not isinstance(weights, Mapping):
        raise ProblemError("weights of a circuit are a dict: {parameter, its name, or a ParameterVector: value}")
    return from_qiskit(circuit, n_features, weights)


def makes_circuits(given: Callable[..., Any]) -> bool:
    """Return whether a function takes the number of features, as in Qiskit's library, rather than (x, wires)."""
    try:
        parameters = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):  # Some compiled functions have no signature.
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any_number = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    needed = [p for p in positional if p.default is p.empty]
    if len(needed) > 2:
        names = ", ".join(p.name for p in needed)
        raise TypeError(
            f"feature_map: a function is called with the number of features, or with (x, wires); this one needs "
            f"{names}: set the others by functools.partial, or give the circuit that it returns"
        )
    takes_wires = any(p.name == "wires" for p in positional)
    return bool(positional) and not takes_any_number and len(needed) < 2 and not takes_wires


def _vector(weights: Any, start: NDArray) -> NDArray:
    """Return the weights as a vector of the length of ``start``, which is the default."""
    if weights is None:
        return start
    try:
        array = np.array(weights, dtype=float)
    except (TypeError, ValueError):  # a dict, words
        array = np.empty(())
    if array.shape != start.shape or not np.isfinite(array).all():
        raise ProblemError(f"weights of this map are {len(start)} finite numbers, found {weights!r:.80}")
    return array


def _refuse_weights(weights: Any, what: str) -> None:
    """Raise `ProblemError` if weights are given for a map that has none."""
    if weights is not None:
        raise ProblemError(f"weights: {what} has none; give a Qiskit circuit with free parameters, or Reuploading()")


def _refuse_width(n_qubits: int | None, width: int, why: str) -> None:
    """Raise `ProblemError` if ``n_qubits`` is not the map's own number of qubits."""
    if n_qubits is not None and n_qubits != width:
        raise ProblemError(f"n_qubits={n_qubits!r}, but {why}; leave it out")


def _require(package: str) -> None:
    """Raise `SolverUnavailable` if a package is not installed."""
    import importlib.util

    if importlib.util.find_spec(package) is None:
        raise SolverUnavailable(f"this feature map needs {package}, which is not installed: pip install {package}")
