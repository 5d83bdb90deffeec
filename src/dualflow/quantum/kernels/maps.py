"""Feature maps: from a point to a state of some qubits, by gates whose angles are functions of the point."""

from __future__ import annotations

import copy
import hashlib
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ...exceptions import ProblemError
from ..circuits.fidelity import FidelityCircuit, Step, evolve
from ..circuits.projected import SETTINGS, ProjectedCircuit


class FeatureMap:
    """Base of the feature maps: the states and circuits of points.

    Attributes
    ----------
    name : str
    n_features, n_qubits : int
    weights : array of shape (W,)
        Values of its free parameters; empty for most.
    """

    name: str
    n_features: int
    n_qubits: int
    weights: NDArray = np.empty(0)

    def gates(self, X: NDArray) -> tuple[str, tuple[Step, ...], NDArray]:
        """Return a label, the gates of U, which are the same for all points, and their angles, shape (n, G)."""
        raise NotImplementedError

    def states(self, X: NDArray) -> NDArray:
        """Return the states φ(x) of n points, complex, shape (n, 2^q)."""
        raise NotImplementedError

    def pairs(self, X: NDArray, Z: NDArray) -> tuple[FidelityCircuit, NDArray]:
        """Return the circuit U(x) U(z)† and its angles for k pairs of points, shape (k, 2G)."""
        label, steps, angles = self.gates(np.vstack([X, Z]))
        return FidelityCircuit(self.n_qubits, steps, label), np.hstack([angles[: len(X)], angles[len(X) :]])

    def settings(self, X: NDArray) -> tuple[ProjectedCircuit, NDArray]:
        """Return the circuit that measures all qubits, and its angles for X, Y and Z of n points, shape (3n, G + 2)."""
        label, steps, angles = self.gates(X)
        turns = np.tile(SETTINGS, (len(X), 1))
        return ProjectedCircuit(self.n_qubits, steps, label), np.hstack([np.repeat(angles, 3, axis=0), turns])


class Angles(Protocol):
    """The angles of gates as a function of points and weights."""

    def __call__(self, X: NDArray, weights: NDArray) -> NDArray:
        """Return the angles, shape (n, G), for points of shape (n, m) and weights of shape (W,)."""
        ...

    def pull(self, X: NDArray, weights: NDArray, gradients: NDArray) -> NDArray:
        """Return ∂L/∂weights, shape (W,), from ∂L/∂angles of shape (n, G), by a product with the Jacobian."""
        ...


class FixedAngles:
    """Angles that are a function of the points only, without weights."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, X: NDArray, weights: NDArray) -> NDArray:
        return np.asarray(self.function(X))

    def pull(self, X: NDArray, weights: NDArray, gradients: NDArray) -> NDArray:
        return np.empty(0)


class StepsMap(FeatureMap):
    """A map whose gates are known and whose angles are functions of features and weights."""

    def __init__(
        self,
        name: str,
        n_features: int,
        n_qubits: int,
        steps: tuple[Step, ...],
        angles: Angles,
        weights: NDArray | None = None,
    ) -> None:
        self.name, self.n_features, self.n_qubits, self.steps, self.angles = name, n_features, n_qubits, steps, angles
        self.weights = np.empty(0) if weights is None else weights

    def with_weights(self, weights: NDArray) -> Self:
        """Return the same map at other weights."""
        other = copy.copy(self)
        other.weights = weights
        return other

    def gates(self, X: NDArray) -> tuple[str, tuple[Step, ...], NDArray]:
        return self.name, self.steps, self.angles_of(X)

    def states(self, X: NDArray) -> NDArray:
        return evolve(self.n_qubits, self.steps, self.angles_of(X))

    def angles_of(self, X: NDArray) -> NDArray:
        """Return the gates' angles for points X, shape (n, G); raise `ProblemError` if one is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            angles = self.angles(X, self.weights)
        finite = np.isfinite(angles).all(axis=1)
        if not finite.all():
            raise ProblemError(
                f"feature_map: an angle of the point {X[np.argmin(finite)].tolist()} is not finite, or not real; scale "
                "the features"
            )
        return angles


def digest(content: Any) -> str:
    """Return eight hexadecimal digits of a hash of ``repr(content)``."""
    return hashlib.sha256(repr(content).encode()).hexdigest()[:8]
