"""Controls: devices that run no circuit. A quantum solver's result is evidence only if it is better than with them.

All give exact distributions and counts. Random numbers depend on the seed of the batch alone, so that a batch has the
same result whatever was sent before it, by this process or another. A batch without a seed gets a new one each time.
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


class _Control(EmulatorDevice):
    requires: ClassVar[tuple[str, ...]] = ()
    control: ClassVar[bool] = True
    emulated: ClassVar[bool] = False  # a control's distribution is not that of the circuit
    capabilities = replace(EmulatorDevice.capabilities, noisy=True)

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        """Return the distributions of a batch, shape (k, 2^q); ``rng`` is made from the batch's seed."""
        raise NotImplementedError

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        rng = np.random.default_rng([seed, 1])  # not the generator of the shots
        return sampled(self._stand_in(circuit, values, rng), shots, seed)

    def resources(self, circuit: ParametricCircuit) -> Resources:
        return Resources(circuit.n_qubits, 0, 0, circuit.n_parameters)


class ClassicalSamplerDevice(_Control):
    """Control: a classical sampler in place of the quantum processor.

    It samples the circuit's ideal distribution, computed by numpy, with the same shots as the emulator, and counts no
    gates.
    """

    name = "classical-sampler"
    capabilities = EmulatorDevice.capabilities

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        return self._ideal(circuit, values)


class NullDevice(_Control):
    """Control: the uniform distribution for every circuit.

    A solver that is as good with it learns nothing from its circuits. Solvers that make progress by any change of
    their point need `RandomDevice` as a control, because the uniform distribution causes no change.
    """

    name = "null"

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        outcomes = 2**circuit.n_qubits
        return np.full((len(values), outcomes), 1.0 / outcomes)


class RandomDevice(_Control):
    """Control: one random bit string for each circuit, independent of the circuit and its angles.

    The distribution has probability 1 at that bit string, and every shot reads it. It is the strongest control without
    information, because its outcomes are the most varied directions. Independent random shots would be those of
    `NullDevice`.
    """

    name = "control:random"

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        return _certain(rng.integers(2**circuit.n_qubits, size=len(values)), circuit)


class PermutedDevice(_Control):
    """Control: the circuit's ideal distribution with its outcomes permuted.

    There is one permutation for each number of qubits. It keeps the entropy of the distribution and destroys the
    meaning of the outcomes. A solver that is as good with it only needs a family of distributions that depends on its
    angles.

    Parameters
    ----------
    seed : int ≥ 0, default=0
        Seed of the permutations.
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
    """Control: the circuit's ideal distribution at shuffled angles, with a new order for each circuit."""

    name = "control:shuffled"

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        return self._ideal(circuit, rng.permuted(np.array(values), axis=1))


class _IsingControl(_Control):
    """Base class of controls that read the angles θ = (h, J, …) of a box solver's circuit instead of running it."""

    def check(self, circuit: ParametricCircuit, shots: int | None) -> None:
        super().check(circuit, shots)
        if not isinstance(circuit, SplitStepCircuit):
            raise DeviceError(
                f"device {self.name!r} reads the Ising coefficients (h, J) among a circuit's angles, and circuit "
                f"{circuit.name!r} has none; it is for 'hamiltonian-descent' and 'hamiltonian-adiabatic', "
                "'control:random' for every solver"
            )


class CornerDevice(_IsingControl):
    """Control: the best corner of a box solver's box, by enumeration; the first of several equal ones."""

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
    """Control: each bit of a box solver's box by the sign of its local field h; both values equally likely if h = 0."""

    name = "control:field"

    def _stand_in(self, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
        # The energy is h Z with Z = 1 − 2 bit: for h > 0 the bit 1 has the lower energy.
        ones = 0.5 * (1.0 + np.sign(np.asarray(values)[:, : circuit.n_qubits]))
        found = np.ones((len(values), 1))
        for one in ones.T:  # higher qubits are the slower index
            found = np.concatenate([found * (1.0 - one[:, None]), found * one[:, None]], axis=1)
        return found


def _certain(outcomes: NDArray, circuit: ParametricCircuit) -> NDArray:
    """Return k distributions, shape (k, 2^q), with probability 1 at one outcome each."""
    found = np.zeros((len(outcomes), 2**circuit.n_qubits))
    found[np.arange(len(outcomes)), outcomes] = 1.0
    return found
