"""Devices of what users give: a Qiskit backend or sampler, or the path of what makes one."""

from __future__ import annotations

import importlib
from typing import Any

from ...exceptions import DeviceError
from .backend import BackendDevice
from .base import Device
from .compiled import CompiledDevice
from .sampler import SamplerDevice

__all__ = ["ImportedDevice", "imported_backend", "wrapped"]


class ImportedDevice(BackendDevice):
    """The Qiskit backend or V2 sampler that "<module>:<factory>" makes."""

    @classmethod
    def named(cls, name: str) -> Device:
        return imported_backend(name.removeprefix("backend:"))


def wrapped(device: Any, **options: Any) -> CompiledDevice:
    """The device of a Qiskit backend or sampler.

    Raises
    ------
    DeviceError
        It is neither.
    """
    from qiskit.providers import BackendV2

    if isinstance(device, BackendV2):
        return BackendDevice(device, **options)
    if isinstance(device, type) or not callable(getattr(device, "run", None)):
        raise DeviceError(
            "device must be a name, a Device, an instance of qiskit.providers.BackendV2, or a sampler with "
            f"run(pubs, shots=…), found {device!r}"
        )
    return SamplerDevice(device, **options)


def imported_backend(path: str) -> Device:
    """The device of the backend or sampler that "<module>:<factory>" makes, called without arguments.

    Raises
    ------
    DeviceError
        The module cannot be imported, has no such factory, or the factory fails or makes something else.
    """
    module, _, factory = path.rpartition(":")
    name = f"device='backend:{path}'"
    try:
        make = getattr(importlib.import_module(module), factory)
    except ImportError as error:
        raise DeviceError(f"{name}: module {module!r} cannot be imported ({error})") from error
    except AttributeError:
        raise DeviceError(f"{name}: module {module!r} has no {factory!r}") from None
    try:
        backend = make()
    except Exception as error:  # a factory of the user's
        raise DeviceError(f"{name}: {factory}() failed ({type(error).__name__}: {error})") from error
    try:
        return backend if isinstance(backend, Device) else wrapped(backend)
    except DeviceError as error:
        raise DeviceError(f"{name}: {error}") from None
