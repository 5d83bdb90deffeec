"""The emulator: each circuit family's distribution by numpy, exact or sampled, without simulating gates."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..circuits import ParametricCircuit
from ..circuits.shifts import Shifts
from .base import Capabilities
from .local import LocalDevice, Rates

#: How `sampled` draws counts, for the provenance.
DRAWN_FROM_EXACT = "multinomial from exact probabilities, numpy's PCG64"


class EmulatorDevice(LocalDevice):
    """The circuit's ideal distribution computed by numpy: the fastest exact device.

    No gate is applied: each family of circuits computes its distribution in closed form or by real matrix products
    (`ParametricCircuit.distribution`), and Aer and PennyLane agree with it to 1e-12. The distributions of a batch of
    the parameter-shift rule (`ParametricCircuit.shifts`) are computed together, which is faster. Shots are multinomial
    draws.
    """

    name = "emulator"
    emulated: ClassVar[bool] = True
    requires: ClassVar[tuple[str, ...]] = ("qiskit",)
    capabilities = Capabilities(exact=True, sampled=True, noisy=False, qubits=24)

    @property
    def rates(self) -> Rates | None:
        return Rates(0.0, 1e-4, 1e-7, 0.0)

    @property
    def drawing(self) -> str | None:
        return DRAWN_FROM_EXACT

    def _ideal(self, circuit: ParametricCircuit, values: NDArray) -> NDArray:
        """Return distributions of shape (k, 2^q) for values of shape (k, P)."""
        if isinstance(values, Shifts) and values.theta is not None:
            shifted = circuit.shift_distributions(values.theta)
            return np.concatenate([np.tile(shifted[0], (values.again, 1)), shifted])
        return circuit.distribution(values)

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        return sampled(self._ideal(circuit, values), shots, seed)


def sampled(probabilities: NDArray, shots: int | None, seed: int) -> tuple[NDArray, NDArray | None]:
    """Return distributions of shape (k, 2^q) unchanged if ``shots`` is None, else frequencies and counts of shots."""
    if shots is None:
        return probabilities, None
    # Rounding can leave the sum an ulp above 1, for which multinomial raises an error.
    probabilities = probabilities / probabilities.sum(axis=-1, keepdims=True)
    counts = np.random.default_rng(seed).multinomial(shots, probabilities)
    return counts / shots, counts
