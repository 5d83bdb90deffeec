"""The controls: devices that run no circuit. A quantum result is shown beside both."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..circuits import ParametricCircuit
from ..circuits.resources import Resources
from .base import Capabilities
from .emulator import EmulatorDevice

__all__ = ["ClassicalSamplerDevice", "NullDevice"]


class _Control(EmulatorDevice):
    requires: ClassVar[tuple[str, ...]] = ()
    control: ClassVar[bool] = True

    def resources(self, circuit: ParametricCircuit) -> Resources:
        return Resources(circuit.n_qubits, 0, 0, circuit.n_parameters)


class ClassicalSamplerDevice(_Control):
    """Control: a classical sampler in the quantum processor's place.

    The circuit's ideal distribution by numpy, sampled with the same shots in the same loop: what the emulator
    gives, counted as no circuit at all.
    """

    name = "classical-sampler"


class NullDevice(_Control):
    """Control: uniform outcomes whatever the circuit.

    A solver that does as well with it learns nothing from its circuits.
    """

    name = "null"
    capabilities = Capabilities(exact=True, sampled=True, noisy=True, qubits=24)

    def _ideal(self, circuit: ParametricCircuit, values: NDArray) -> NDArray:
        outcomes = 2**circuit.n_qubits
        return np.full((len(values), outcomes), 1.0 / outcomes)
