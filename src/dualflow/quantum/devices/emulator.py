"""The emulator: each circuit family's own distribution in plain numpy, exact or sampled, and nothing simulated."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..circuits import ParametricCircuit
from ..circuits.shifts import Shifts
from .base import Capabilities
from .local import LocalDevice

__all__ = ["EmulatorDevice", "sampled"]


class EmulatorDevice(LocalDevice):
    """The circuit's ideal distribution computed by numpy: the fastest exact device.

    No gate is applied: each family of circuits knows its distribution in closed form or by real matrix products
    (`ParametricCircuit.distribution`), and Aer and PennyLane agree with it to 1e-12. A batch that says it is one of the
    parameter-shift rule (`ParametricCircuit.shifts`) is answered by a shorter way. Shots are multinomial draws.
    """

    name = "emulator"
    emulated: ClassVar[bool] = True
    requires: ClassVar[tuple[str, ...]] = ("qiskit",)
    capabilities = Capabilities(exact=True, sampled=True, noisy=False, qubits=24)

    def _ideal(self, circuit: ParametricCircuit, values: NDArray) -> NDArray:
        """Distributions of shape (k, 2^q) for values of shape (k, P)."""
        if isinstance(values, Shifts) and values.theta is not None:
            shifted = circuit.shift_distributions(values.theta)
            return np.concatenate([np.tile(shifted[0], (values.again, 1)), shifted])
        return circuit.distribution(values)

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        return sampled(self._ideal(circuit, values), shots, seed)


def sampled(probabilities: NDArray, shots: int | None, seed: int) -> tuple[NDArray, NDArray | None]:
    """Distributions of shape (k, 2^q) as they are, or frequencies and counts of so many shots of each."""
    if shots is None:
        return probabilities, None
    # Rounding can leave the sum an ulp above 1, which multinomial refuses.
    probabilities = probabilities / probabilities.sum(axis=-1, keepdims=True)
    counts = np.random.default_rng(seed).multinomial(shots, probabilities)
    return counts / shots, counts
