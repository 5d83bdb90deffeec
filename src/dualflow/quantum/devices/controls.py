"""The controls: devices that run no circuit. What a quantum solver finds is evidence only where they find less.

All answer exactly and with shots. What is drawn is drawn from the seed of the batch alone, so that a batch is answered
alike whatever was sent before it, by this process or another; a batch without a seed is answered anew each time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.options import Number
from ...exceptions import DeviceError
from ..circuits import ParametricCircuit
from ..circuits.multiplexer import walsh
from ..circuits.resources import Resources
from ..circuits.split_step import SplitStepCircuit
from .emulator import EmulatorDevice, sampled

__all__ = [
    "ClassicalSamplerDevice",
    "CornerDevice",
    "FieldDevice",
    "NullDevice",
    "PermutedDevice",
    "RandomDevice",
    "ShuffledDevice",
]


class _Control(EmulatorDevice):
    requires: ClassVar[tuple[str, ...]] = ()
    control: ClassVar[bool] = True
    emulated: ClassVar[bool] = False  # there is no circuit in it that another device would run
    capabilities = replace(EmulatorDevice.capabilities, noisy=True)

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        """What stands in for the distributions of a batch, shape (k, 2^q); ``rng`` is of the batch's seed."""
        raise NotImplementedError

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        rng = np.random.default_rng([seed, 1])  # not the generator of the shots
        return sampled(self._stand_in(circuit, values, rng), shots, seed)

    def resources(self, circuit: ParametricCircuit) -> Resources:
        return Resources(circuit.n_qubits, 0, 0, circuit.n_parameters)


class ClassicalSamplerDevice(_Control):
    """Control: a classical sampler in the quantum processor's place.

    The circuit's ideal distribution by numpy, sampled with the same shots in the same loop: what the emulator
    gives, counted as no circuit at all.
    """

    name = "classical-sampler"
    capabilities = EmulatorDevice.capabilities

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        return self._ideal(circuit, values)


class NullDevice(_Control):
    """Control: uniform outcomes whatever the circuit.

    A solver that does as well with it learns nothing from its circuits. It moves nothing, so it is no control of
    solvers that get on by moving anywhere: `RandomDevice` is.
    """

    name = "null"

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        outcomes = 2**circuit.n_qubits
        return np.full((len(values), outcomes), 1.0 / outcomes)


class RandomDevice(_Control):
    """Control: one random bit string a circuit, independent of the circuit and its angles.

    The exact distribution is that bit string for certain, and every shot reads it: of all that knows nothing the
    strongest, since it proposes as varied directions as there are. Shots drawn anew would be the null device's.
    """

    name = "control:random"

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        return _certain(rng.integers(2**circuit.n_qubits, size=len(values)), circuit)


class PermutedDevice(_Control):
    """Control: the circuit's ideal distribution, its outcomes permuted.

    One permutation for each number of qubits. It keeps how much the outcomes say and spoils what they stand for: a
    solver that only needs a family of distributions it can steer may do without their order.

    Parameters
    ----------
    seed : int ≥ 0, default=0
        Of the permutations.
    """

    name = "control:permuted"

    def __init__(self, seed: int = 0) -> None:
        super().__init__()
        self.seed = int(Number(at_least=0, whole=True).check("seed", seed))
        if self.seed:
            self.name = f"control:permuted(seed={self.seed})"

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        order = np.random.default_rng([self.seed, circuit.n_qubits]).permutation(2**circuit.n_qubits)
        return self._ideal(circuit, values)[:, order]


class ShuffledDevice(_Control):
    """Control: the circuit's ideal distribution at its angles shuffled, each circuit's anew."""

    name = "control:shuffled"

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        return self._ideal(circuit, rng.permuted(np.array(values), axis=1))


class _IsingControl(_Control):
    """Base of the controls that read the angles of a box solver's circuit, θ = (h, J, …), instead of running it."""

    def check(self, circuit: ParametricCircuit, shots: int | None) -> None:
        super().check(circuit, shots)
        if not isinstance(circuit, SplitStepCircuit):
            raise DeviceError(
                f"device {self.name!r} reads the Ising coefficients (h, J) among a circuit's angles, and circuit "
                f"{circuit.name!r} has none; it is for 'hamiltonian-descent' and 'hamiltonian-adiabatic', "
                "'control:random' for every solver"
            )


class CornerDevice(_IsingControl):
    """Control: the best corner of a box solver's box, by enumeration; the first one of equals."""

    name = "control:corner"

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        q = circuit.n_qubits
        (first, second), bit = np.triu_indices(q, 1), 1 << np.arange(q)
        best = np.empty(len(values), dtype=np.int64)
        for k, theta in enumerate(values):
            series = np.zeros(2**q)
            series[bit], series[bit[first] | bit[second]] = theta[:q], theta[q : q + len(first)]
            best[k] = np.argmin(walsh(series))
        return _certain(best, circuit)


class FieldDevice(_IsingControl):
    """Control: each bit of a box solver's box by the sign of its local field h; evenly where that is 0."""

    name = "control:field"

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        # The energy is h Z with Z = 1 − 2 bit: a field above 0 wants the bit 1.
        ones = 0.5 * (1.0 + np.sign(np.asarray(values)[:, : circuit.n_qubits]))
        found = np.ones((len(values), 1))
        for one in ones.T:  # the qubits above are the slower index
            found = np.concatenate([found * (1.0 - one[:, None]), found * one[:, None]], axis=1)
        return found


def _certain(outcomes: NDArray, circuit: ParametricCircuit) -> NDArray:
    """Distributions of shape (k, 2^q) of k outcomes that are certain."""
    found = np.zeros((len(outcomes), 2**circuit.n_qubits))
    found[np.arange(len(outcomes)), outcomes] = 1.0
    return found
