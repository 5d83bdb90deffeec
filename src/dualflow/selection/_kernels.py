"""Kernel matrices of one data set for many kernel settings: what they have in common is computed once."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.kernels import Gram

__all__ = ["SHARED_UP_TO", "Kernels", "Setting"]

#: Points up to which whole matrices are made: 0.5 GB for the distances, and as much for each thread.
SHARED_UP_TO = 8000
#: γ‖x‖² up to which distances from products are good to 1e-12 in the kernel.
NEAR = 1e4


class Setting(NamedTuple):
    """A kernel with its numbers; ``penalised`` is one with the bias inside, K + 1."""

    kernel: str
    gamma: float
    degree: float
    coef0: float
    penalised: bool


class Kernels:
    """Kernel matrices of some points.

    Parameters
    ----------
    points : array of shape (n, m)
    """

    def __init__(self, points: NDArray) -> None:
        self.points, self._lock = points, threading.Lock()
        self._distances: tuple[NDArray, float] | None = None

    def matrix(self, setting: Setting, room: NDArray | None) -> tuple[NDArray, float]:
        """K over its largest diagonal entry, shape (n, n), and that entry; in ``room`` if that is given."""
        if setting.kernel == "rbf":
            distances, reach = self._squared()
            if setting.gamma * reach <= NEAR:
                K: NDArray = np.empty_like(distances) if room is None else room
                np.multiply(distances, -setting.gamma, out=K)
                np.exp(K, out=K)
                K.flat[:: len(K) + 1] = 1.0
                return self._scaled(K, setting.penalised)
        parameters: dict[str, Any] = {"gamma": setting.gamma, "degree": setting.degree, "coef0": setting.coef0}
        gram = Gram(self.points, setting.kernel, **parameters)
        # Weights whose sum is 0 do not see a centre, but for the digits it saves.
        return self._scaled(np.array((gram if setting.penalised else gram.centred()).full()), setting.penalised)

    @staticmethod
    def _scaled(K: NDArray, penalised: bool) -> tuple[NDArray, float]:
        if penalised:
            K += 1.0
        largest = float(K.diagonal().max()) or 1.0
        if largest != 1.0:
            K /= largest
        return K, largest

    def _squared(self) -> tuple[NDArray, float]:
        """Squared distances, shape (n, n), and the largest from the mean; made once."""
        with self._lock:
            if self._distances is None:
                X = self.points - self.points.mean(axis=0)
                squares = np.einsum("ij,ij->i", X, X)
                D = X @ X.T
                D *= -2.0
                D += squares
                D += squares[:, None]
                self._distances = np.maximum(D, 0.0, out=D), float(squares.max())
            return self._distances
