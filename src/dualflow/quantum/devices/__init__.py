"""Devices by name. Importing this loads neither qiskit nor pennylane; making a device loads what it needs."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from dataclasses import dataclass
from typing import Any

from ...exceptions import DeviceError, SolverUnavailable
from .base import Capabilities, Device, Job, Readout, check_shots
from .noise import Noise

__all__ = [
    "Capabilities",
    "Device",
    "DeviceInfo",
    "Job",
    "Noise",
    "Readout",
    "check_shots",
    "list_devices",
    "make_device",
]

_PENNYLANE, _BACKEND = "pennylane:", "backend:"


@dataclass(frozen=True)
class _Entry:
    """One device of the catalogue: where its class is, what it needs installed, and the pip line for that."""

    target: str
    requires: tuple[str, ...] = ()
    pip: str = ""
    argument: str | None = None


_LOCAL = "dualflow.quantum.devices"
CATALOGUE = {
    "emulator": _Entry(f"{_LOCAL}.emulator:EmulatorDevice", ("qiskit",), "qiskit"),
    "aer": _Entry(f"{_LOCAL}.aer:AerDevice", ("qiskit", "qiskit_aer"), "qiskit qiskit-aer"),
    "aer:noisy": _Entry(f"{_LOCAL}.aer:NoisyAerDevice", ("qiskit", "qiskit_aer"), "qiskit qiskit-aer"),
    "pennylane:lightning.qubit": _Entry(
        f"{_LOCAL}.pennylane:PennyLaneDevice",
        ("qiskit", "pennylane", "pennylane_lightning"),
        "qiskit pennylane pennylane-lightning",
        "lightning.qubit",
    ),
    "pennylane:default.qubit": _Entry(
        f"{_LOCAL}.pennylane:PennyLaneDevice", ("qiskit", "pennylane"), "qiskit pennylane", "default.qubit"
    ),
    "backend:generic": _Entry(f"{_LOCAL}.backend:GenericBackendDevice", ("qiskit", "qiskit_aer"), "qiskit qiskit-aer"),
    "classical-sampler": _Entry(f"{_LOCAL}.controls:ClassicalSamplerDevice"),
    "null": _Entry(f"{_LOCAL}.controls:NullDevice"),
}


@dataclass(frozen=True)
class DeviceInfo:
    """One row of `list_devices`.

    Attributes
    ----------
    name : str
    exact, sampled, noisy : bool
        What it gives: exact distributions, counts, and whether its distribution is off the ideal one.
    control : bool
        A stand-in that runs no circuit.
    qubits : int or None
    summary : str
    install : str or None
        None when it can run, else the pip line.
    """

    name: str
    exact: bool
    sampled: bool
    noisy: bool
    control: bool
    qubits: int | None
    summary: str
    install: str | None = None

    @property
    def installed(self) -> bool:
        return self.install is None


def list_devices() -> list[DeviceInfo]:
    """All devices: what each gives, installed or not.

    Any other local PennyLane device is "pennylane:<its name>", and any other Qiskit backend
    "backend:<module>:<factory>", with something importable that makes it.
    """
    rows = []
    for name, entry in CATALOGUE.items():
        cls = _class(entry)
        summary = (cls.__doc__ or "").strip().partition("\n")[0]
        can = cls.capabilities
        rows.append(
            DeviceInfo(name, can.exact, can.sampled, can.noisy, cls.control, can.qubits, summary, _install(entry))
        )
    return rows


def make_device(device: str | Device) -> Device:
    """A device from its name; an instance is given back as it is.

    Raises
    ------
    DeviceError
        No device has that name; the message lists the names and the nearest.
    SolverUnavailable
        A package it needs is not installed; the message gives the pip line.
    """
    if isinstance(device, Device):
        return device
    if not isinstance(device, str):
        raise TypeError(f"device must be a name or a Device instance, found {type(device).__name__}")
    entry = CATALOGUE.get(device)
    if entry is None and device.startswith(_PENNYLANE) and device != _PENNYLANE:
        plugin = device.removeprefix(_PENNYLANE)
        entry = _Entry(f"{_LOCAL}.pennylane:PennyLaneDevice", ("qiskit", "pennylane"), "qiskit pennylane", plugin)
    if entry is None and device.startswith(_BACKEND) and device.removeprefix(_BACKEND).partition(":")[2]:
        path = device.removeprefix(_BACKEND)
        entry = _Entry(f"{_LOCAL}.backend:imported_backend", ("qiskit",), "qiskit", path)
    if entry is None:
        near = difflib.get_close_matches(device, CATALOGUE, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise DeviceError(f"device={device!r} is not known (there are {', '.join(CATALOGUE)}){hint}")
    if line := _install(entry):
        raise SolverUnavailable(f"device {device!r} needs {', '.join(_missing(entry))}, which is not installed: {line}")
    return _class(entry)() if entry.argument is None else _class(entry)(entry.argument)


def _missing(entry: _Entry) -> list[str]:
    return [package for package in entry.requires if importlib.util.find_spec(package) is None]


def _install(entry: _Entry) -> str | None:
    return f"pip install {entry.pip}" if _missing(entry) else None


def _class(entry: _Entry) -> Any:
    """The class, or the function that makes a device."""
    module, _, name = entry.target.partition(":")
    found: Any = getattr(importlib.import_module(module), name)
    return found
