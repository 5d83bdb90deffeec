"""Devices by name: the catalogue, `list_devices` and `make_device`.

Importing this package loads neither qiskit nor pennylane; making a device loads the packages it needs. Other packages
add devices through the entry-point group "dualflow.devices".
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from ...catalogue import Catalogue
from ...core.runtime import clock
from ...exceptions import DeviceError, DualflowError
from .base import DEVICE_FORMS, Capabilities, Device, Job, Limits, Price, Readout, check_shots
from .guard import Guard, import_packages
from .noise import Noise

__all__ = [
    "CATALOGUE",
    "Capabilities",
    "Device",
    "DeviceInfo",
    "Job",
    "Limits",
    "Noise",
    "Price",
    "Readout",
    "check_shots",
    "list_devices",
    "make_device",
]

CATALOGUE = {
    "emulator": "dualflow.quantum.devices.emulator:EmulatorDevice",
    "aer": "dualflow.quantum.devices.aer:AerDevice",
    "aer:noisy": "dualflow.quantum.devices.aer:NoisyAerDevice",
    "aer:mps": "dualflow.quantum.devices.aer:MPSAerDevice",
    "aer:gpu": "dualflow.quantum.devices.aer:GPUAerDevice",
    "pennylane:lightning.qubit": "dualflow.quantum.devices.pennylane:LightningDevice",
    "pennylane:default.qubit": "dualflow.quantum.devices.pennylane:PennyLaneDevice",
    "pennylane:<device>": "dualflow.quantum.devices.pennylane:PennyLaneDevice",
    "backend:generic": "dualflow.quantum.devices.backend:GenericBackendDevice",
    "backend:<module>:<factory>": "dualflow.quantum.devices.user_devices:ImportedDevice",
    "ibm:fake_<backend>": "dualflow.quantum.devices.ibm:FakeIBMDevice",
    "ibm:<backend>": "dualflow.quantum.devices.ibm:IBMDevice",
    "braket:<device>": "dualflow.quantum.devices.braket:BraketDevice",
    "ionq:<backend>": "dualflow.quantum.devices.ionq:IonQDevice",
    "spread:<processes>:<device>": "dualflow.quantum.devices.spread:SpreadDevice",
    "classical-sampler": "dualflow.quantum.devices.controls:ClassicalSamplerDevice",
    "null": "dualflow.quantum.devices.controls:NullDevice",
    "control:random": "dualflow.quantum.devices.controls:RandomDevice",
    "control:permuted": "dualflow.quantum.devices.controls:PermutedDevice",
    "control:shuffled": "dualflow.quantum.devices.controls:ShuffledDevice",
    "control:corner": "dualflow.quantum.devices.controls:CornerDevice",
    "control:field": "dualflow.quantum.devices.controls:FieldDevice",
}

DEVICES: Catalogue[Device] = Catalogue(Device, CATALOGUE, DeviceError)


@dataclass(frozen=True)
class DeviceInfo:
    """One row of `list_devices`.

    Attributes
    ----------
    name : str
    exact, sampled, noisy : bool
        Whether it gives exact distributions, gives counts, and has a distribution other than the ideal one.
    control : bool
        Whether it is a control, which runs no circuit.
    qubits : int or None
    summary : str
    install : str or None
        None if the device can run, else how to install what is missing.

    Examples
    --------
    >>> from dualflow import list_devices
    >>> [info.name for info in list_devices() if info.control and info.install is None][:2]
    ['classical-sampler', 'null']
    """

    name: str
    exact: bool = False
    sampled: bool = False
    noisy: bool = False
    control: bool = False
    qubits: int | None = None
    summary: str = ""
    install: str | None = None

    @property
    def installed(self) -> bool:
        return self.install is None


def list_devices() -> list[DeviceInfo]:
    """Return one row for each device, installed or not.

    Any other local PennyLane device is "pennylane:<its name>". Any other Qiskit backend is
    "backend:<module>:<factory>", where the factory can be imported and returns the backend. Machines of vendors are
    listed by `devices.vendors.list_vendors`.

    Examples
    --------
    >>> from dualflow import list_devices
    >>> emulator = next(info for info in list_devices() if info.name == "emulator")
    >>> emulator.exact, emulator.sampled, emulator.noisy
    (True, True, False)
    """
    rows = []
    for name, cls, install in DEVICES.rows():
        if cls is None or not hasattr(cls, "capabilities"):
            rows.append(DeviceInfo(name, install=install or "its class has no attribute capabilities"))
            continue
        can = cls.capabilities
        rows.append(
            DeviceInfo(name, can.exact, can.sampled, can.noisy, cls.control, can.qubits, cls.summary(), install)
        )
    return rows


def load_packages(device: Any) -> None:
    """Import the packages that a device needs, without a deadline, so that they do not count in measured times."""
    with contextlib.suppress(DualflowError):  # the run that uses the device raises a better error
        cls = DEVICES.find(device) if isinstance(device, str) else type(device)
        with clock.without_time_limit():
            import_packages(("qiskit", *getattr(cls, "requires", ())))


def make_device(device: Any) -> Device:
    """Return the device for a name or for an object of Qiskit, Aer or PennyLane; return a `Device` unchanged.

    Parameters
    ----------
    device : str, Device, BackendV2, AerSimulator, NoiseModel, V2 sampler or PennyLane device
        An AerSimulator with noise or couplings is used as any other backend and gives counts only; without, it gives
        exact distributions too. A `qiskit_aer.noise.NoiseModel` makes an `AerDevice` with this noise.

    Raises
    ------
    DeviceError
        No device has that name; the message lists the names, the nearest one, and the other accepted values. Or the
        device cannot be used.
    TypeError
        The argument is none of the above.
    SolverUnavailable
        A package that the device needs is not installed; the message has the pip command.

    Examples
    --------
    >>> from dualflow.quantum.devices import make_device
    >>> make_device("emulator"), make_device("null")
    (<device 'emulator'>, <device 'null'>)
    """
    if isinstance(device, Device):
        return device
    if not isinstance(device, str):
        from .user_devices import device_from_object

        return device_from_object(device)
    try:
        cls = DEVICES.find(device)
    except DeviceError as error:
        raise DeviceError(f"{error} (a device is {DEVICE_FORMS})") from None
    DEVICES.check_installed(device, cls)
    if clock.seconds_left() is None or cls.control or cls.emulated:
        return cls.named(device)
    # A vendor's library may search for its machines here and a user's factory may run any code: guard the call.
    import_packages(("qiskit", *cls.requires))
    return Guard(device).call("could not be made", lambda: cls.named(device))
