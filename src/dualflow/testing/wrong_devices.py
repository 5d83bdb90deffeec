"""Devices with deliberate faults that runs, comparisons and tests must detect, and `check_device`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..quantum.circuits import HardwareEfficientCircuit, ParametricCircuit, TreeCircuit
from ..quantum.devices import Device, check_shots, make_device
from ..quantum.devices.emulator import EmulatorDevice, sampled
from ..quantum.runs.laboratory import Account, Laboratory
from .check import CheckFailed, CheckReport

#: Number of circuits in a batch of `check_device`.
BATCH_CIRCUITS = 6

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
    >>> job = WrongDevice("bits reversed").submit(TreeCircuit(2), [0.0, 3.141592653589793, 0.0])
    >>> job.result().probabilities.round(3)
    array([0., 0., 1., 0.])
    """

    requires: ClassVar[tuple[str, ...]] = ()
    emulated: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self._distort = f"wrong:{name}", WRONG_DEVICES[name]
        self.first: dict[str, NDArray] = {}
        self.last: dict[str, NDArray] = {}

    def ideal(self, circuit: ParametricCircuit, values: NDArray) -> NDArray:
        """Return the exact distributions of the circuit, shape (k, 2^q)."""
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


def _wrong_success(
    device: WrongDevice, circuit: ParametricCircuit, values: NDArray, rng: np.random.Generator
) -> NDArray:
    # The last qubit is the ancilla of circuits that have one; the distribution of the kept outcomes does not change.
    ideal = device.ideal(circuit, values)
    half = ideal.shape[1] // 2
    lost = 0.5 * ideal[:, :half]
    return np.concatenate([ideal[:, :half] - lost, ideal[:, half:] + lost], axis=1)


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
    "half of the last qubit's 0 read as 1": _wrong_success,
}


def _failed(device: str, why: str) -> CheckFailed:
    """Return the error of a device's failed check."""
    return CheckFailed(CheckReport(device, failed={"fidelity": [why]}))


def check_device(
    device: str | Device, *, shots: int | None = 2000, min_fidelity: float = 0.5, random_state: int = 0
) -> dict[str, Any]:
    """Compare a device's read-outs with the distributions of known circuits; for authors of devices.

    The circuits are trees and layered circuits on three qubits at random angles, two batches of each.

    Parameters
    ----------
    device : str or Device
        As for the solvers.
    shots : int ≥ 1 or None, default=2000
        Shots of each circuit; None for exact distributions.
    min_fidelity : float in (0, 1), default=0.5
        Smallest slope that passes.
    random_state : int, default=0
        Seed of the angles and shots.

    Returns
    -------
    dict
        ``slope``, ``deviation``, ``chi_square_per_degree``, ``p_value``, ``distance``, ``low``, ``fault``,
        ``circuits``, as in ``Solution.provenance["fidelity"]``.

    Raises
    ------
    CheckFailed
        The slope is below ``min_fidelity``, or the device declares no noise but its read-outs differ from the circuits'
        distributions by more than shot noise.
    DeviceError
        A job was refused or failed, or its read-out is malformed.

    Examples
    --------
    >>> from dualflow.testing import check_device
    >>> check_device("emulator")["slope"] > 0.95
    True
    """
    shots = check_shots(shots)
    made, rng = make_device(device), np.random.default_rng(random_state)
    laboratory = Laboratory(made, "check", compared=BATCH_CIRCUITS)
    account = Account.opened(rng)
    for circuit in (TreeCircuit(3), HardwareEfficientCircuit(3, 2)):
        for _ in range(2):
            angles = rng.uniform(0, np.pi, size=(BATCH_CIRCUITS, circuit.n_parameters))
            _, account = laboratory.measure(account, circuit, angles, shots)
    fidelity = account.fidelity
    found = f"{fidelity.slope:.3f} ± {fidelity.deviation:.3f}"
    if fidelity.is_below(min_fidelity):
        raise _failed(
            made.name,
            f"device {made.name!r}: the fidelity of its read-outs is {found}, below min_fidelity={min_fidelity:g}; "
            "check the order of bits and of circuits, the binding of angles, and mixed-up results of jobs",
        )
    if fidelity.is_fault:
        raise _failed(
            made.name,
            f"device {made.name!r} declares no noise (capabilities.noisy is False), but its read-outs differ from "
            f"the circuits' distributions: fidelity {found}, and {fidelity.difference}",
        )
    return fidelity.report()
