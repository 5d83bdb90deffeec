"""Data re-uploading: every layer encodes every feature again, scaled and shifted by weights of the layer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.options import Number, check_fields, option
from ..circuits.fidelity import Step
from .maps import StepsMap


@dataclass(frozen=True)
class Reuploading:
    """A feature map that encodes every feature in every layer (Pérez-Salinas et al., Quantum 4, 226 (2020)).

    A layer has max(m, q) slots for m features and q qubits. Slot s turns qubit s mod q by RY(a x + b), then by
    RZ(c x + d), where x is feature s mod m and a, b, c, d are weights of the slot and layer. Between layers CZ entangle
    neighbours in a line. There are 4 · layers · max(m, q) weights, in the order layer, slot, (a, b, c, d). Their first
    values are (1, 0, 1, 0); `train_kernel` finds others. More layers add higher frequencies of the features (Schuld,
    Sweke, Meyer, PRA 103, 032430 (2021)), and overfit more easily.

    Parameters
    ----------
    layers : int ≥ 1, default=2
        Number of layers.

    Raises
    ------
    ProblemError
        ``layers`` is no integer ≥ 1.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import FidelityKernel, Reuploading
    >>> kernel = FidelityKernel(Reuploading(layers=3), n_qubits=2)
    >>> kernel(np.eye(3), np.eye(3)).shape, kernel.weights.shape
    ((3, 3), (36,))
    """

    layers: int = option(2, Number(at_least=1, whole=True))

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def name(self) -> str:
        """The name of the map, such as "reuploading_l2"."""
        return f"reuploading_l{self.layers}"

    def start(self, n_features: int, n_qubits: int) -> NDArray:
        """Return the first weights, shape (W,)."""
        return np.tile([1.0, 0.0, 1.0, 0.0], self.layers * max(n_features, n_qubits))

    def make_map(self, n_features: int, n_qubits: int, weights: NDArray) -> StepsMap:
        """Return the feature map for points with ``n_features`` features."""
        slots, steps = max(n_features, n_qubits), list[Step]()
        for layer in range(self.layers):
            if layer:
                steps += [("cz", (k, k + 1), None) for k in range(n_qubits - 1)]
            for s in range(slots):
                angle = 2 * (layer * slots + s)
                steps += [("ry", (s % n_qubits,), angle), ("rz", (s % n_qubits,), angle + 1)]
        angles = ReuploadingAngles(np.repeat(np.tile(np.arange(slots) % n_features, self.layers), 2))
        label = f"{self.name}_m{n_features}"
        return StepsMap(label, n_features, n_qubits, tuple(steps), angles, weights)


class ReuploadingAngles:
    """The angles a_g x_f(g) + b_g for the weights a_0, b_0, a_1, b_1, …, where f(g) is the feature of angle g."""

    def __init__(self, feature: NDArray) -> None:
        self.feature = feature

    def __call__(self, X: NDArray, weights: NDArray) -> NDArray:
        found: NDArray = X[:, self.feature] * weights[::2] + weights[1::2]
        return found

    def pull(self, X: NDArray, weights: NDArray, gradients: NDArray) -> NDArray:
        slopes = np.einsum("ng,ng->g", gradients, X[:, self.feature])
        return np.column_stack([slopes, gradients.sum(axis=0)]).reshape(-1)
