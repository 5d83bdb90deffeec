"""Devices that are wrong on purpose: what a run, a comparison or a device's own tests must notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..quantum.circuits import ParametricCircuit
from ..quantum.devices.emulator import EmulatorDevice, sampled

__all__ = ["WRONG_DEVICES", "WrongDevice"]

Distort = Callable[["WrongDevice", ParametricCircuit, NDArray, np.random.Generator], NDArray]


class WrongDevice(EmulatorDevice):
    """An emulator whose distributions are distorted before they are sampled.

    Parameters
    ----------
    name : str
        One of `WRONG_DEVICES`.

    Examples
    --------
    >>> from dualflow.quantum.circuits import TreeCircuit
    >>> from dualflow.testing.wrong_devices import WrongDevice
    >>> WrongDevice("bits reversed").submit(TreeCircuit(2), [0.0, 3.141592653589793, 0.0]).result().probabilities.round(3)
    array([0., 1., 0., 0.])
    """

    requires: ClassVar[tuple[str, ...]] = ()
    emulated: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self._distort = f"wrong:{name}", WRONG_DEVICES[name]
        self.first: dict[str, NDArray] = {}
        self.last: dict[str, NDArray] = {}

    def ideal(self, circuit: ParametricCircuit, values: NDArray) -> NDArray:
        """The circuit's own distributions, shape (k, 2^q)."""
        return self._ideal(circuit, values)

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        distorted = self._distort(self, circuit, values, np.random.default_rng([seed, 2]))
        return sampled(np.ascontiguousarray(distorted), shots, seed)


def _uniform(device: WrongDevice, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
    return np.full((len(values), 2**circuit.n_qubits), 0.5**circuit.n_qubits)


def _random(device: WrongDevice, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
    return rng.dirichlet(np.ones(2**circuit.n_qubits), size=len(values))


def _reversed(device: WrongDevice, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
    ideal, q = device.ideal(circuit, values), circuit.n_qubits
    outcomes = np.arange(2**q)
    order = sum(((outcomes >> k) & 1) << (q - 1 - k) for k in range(q))
    return ideal[:, order]


def _always_first(
    device: WrongDevice, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator
) -> NDArray:
    ideal = device.ideal(circuit, values)
    return np.tile(device.first.setdefault(repr(circuit), ideal[:1]), (len(values), 1))


def _previous(device: WrongDevice, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
    ideal = device.ideal(circuit, values)
    before = device.last.get(repr(circuit), np.full((1, ideal.shape[1]), 1.0 / ideal.shape[1]))
    device.last[repr(circuit)] = ideal[-1:]
    return np.concatenate([before, ideal[:-1]])


def _ignored(device: WrongDevice, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
    return device.ideal(circuit, np.full(np.shape(values), 0.5 * np.pi))


def _shifted(device: WrongDevice, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
    return device.ideal(circuit, np.asarray(values) + 0.5)


def _swapped(device: WrongDevice, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
    return device.ideal(circuit, values)[::-1]


def _lossy(device: WrongDevice, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
    ideal = 0.7 * device.ideal(circuit, values)
    ideal[:, 0] += 0.3
    return ideal


def _noisy(device: WrongDevice, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator) -> NDArray:
    return 0.25 * device.ideal(circuit, values) + 0.75 / 2**circuit.n_qubits


#: Name and distortion of each wrong device.
WRONG_DEVICES: dict[str, Distort] = {
    "uniform": _uniform,
    "random distributions": _random,
    "bits reversed": _reversed,
    "always the first result": _always_first,
    "the previous circuit's result": _previous,
    "angles ignored": _ignored,
    "angles shifted by 0.5": _shifted,
    "results of a batch swapped": _swapped,
    "30 % of the shots read as 0": _lossy,
    "75 % noise": _noisy,
}
