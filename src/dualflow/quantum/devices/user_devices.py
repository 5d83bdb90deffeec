"""Make devices from users' objects of Qiskit, Aer or PennyLane, or from the import path of a factory."""

from __future__ import annotations

import importlib
from typing import Any

from ...exceptions import DeviceError
from .backend import BackendDevice
from .base import DEVICE_FORMS, Device
from .guard import device_errors
from .identity import instance_of
from .sampler import SamplerDevice


class ImportedDevice(BackendDevice):
    """A device on the Qiskit backend or V2 sampler that the factory "<module>:<factory>" returns."""

    @classmethod
    def named(cls, name: str) -> Device:
        return device_from_factory(name.removeprefix("backend:"))


def device_from_object(device: Any, **options: Any) -> Device:
    """Return the device for a user's object, one of `DEVICE_FORMS` other than a name.

    Nothing is imported to find its type: the user of an instance has already imported its class.

    Raises
    ------
    TypeError
        The object is of no accepted type.
    DeviceError
        The object cannot be used as a device.
    """
    if isinstance(device, type):
        raise TypeError(f"device={device.__name__} is a class; give an instance: {DEVICE_FORMS}")
    with device_errors(type(device).__name__, "raised an error when its type was checked"):
        made = _device_by_type(device, **options)
    if made is None:
        raise TypeError(f"device is of type {type(device).__name__}; it must be {DEVICE_FORMS}")
    return made


def _device_by_type(device: Any, **options: Any) -> Device | None:
    """Return the device for an object of a known type; None for other objects."""
    if instance_of(device, "qiskit_aer.noise", "NoiseModel"):
        from .aer import AerDevice

        return AerDevice(device, **options)
    if instance_of(device, "qiskit_aer", "AerSimulator") and _is_ideal(device):
        from .aer import AerDevice

        return AerDevice(simulator=device, **options)
    if instance_of(device, "qiskit.providers", "BackendV2"):
        return BackendDevice(device, **options)
    if instance_of(device, "pennylane.devices", "Device"):
        from .pennylane import PennyLaneDevice

        return PennyLaneDevice(device, **options)
    if not callable(getattr(device, "run", None)) or instance_of(device, "qiskit.primitives", "BaseEstimatorV2"):
        return None
    return SamplerDevice(device, **options)


def _is_ideal(simulator: Any) -> bool:
    """Return whether an Aer simulator has neither noise nor couplings, so that its exact distributions are right."""
    noise = simulator.options.noise_model
    return (noise is None or noise.is_ideal()) and simulator.coupling_map is None


def device_from_factory(path: str) -> Device:
    """Return the device for the backend or sampler that "<module>:<factory>" returns when called without arguments.

    Raises
    ------
    DeviceError
        The module cannot be imported or has no such factory, or the factory fails or returns another type.
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
    except Exception as error:  # a user's factory raises errors of any type
        raise DeviceError(f"{name}: {factory}() failed ({type(error).__name__}: {error})") from error
    try:
        return backend if isinstance(backend, Device) else device_from_object(backend)
    except (DeviceError, TypeError) as error:
        raise DeviceError(f"{name}: {error}") from None
