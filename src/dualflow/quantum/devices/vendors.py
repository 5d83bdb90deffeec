"""Vendors of remote machines: installed libraries, known accounts, and the state of a machine."""

from __future__ import annotations

from dataclasses import dataclass

from . import DEVICES, make_device
from .base import Limits
from .compiled import CompiledDevice


@dataclass(frozen=True)
class VendorInfo:
    """One row of `list_vendors`."""

    name: str  # pattern of its machines' names, such as "ibm:<backend>"
    vendor: str
    install: str | None  # None if its library is installed, else how to install it
    account: str  # what is known of the account without network; it contains no secret
    job_limits: str  # limits of a job on any of its machines


@dataclass(frozen=True)
class MachineInfo:
    """The result of `machine_info`: a machine's name, its qubits, the limits of a job, and its queue."""

    name: str
    qubits: int | None
    job_limits: str
    queue: str


def list_vendors() -> list[VendorInfo]:
    """Return one row for each vendor whose machines can be devices, without using the network."""
    rows = []
    for name in DEVICES.targets:
        if "<" not in name:
            continue
        cls = DEVICES.find(name)
        if issubclass(cls, CompiledDevice) and cls.vendor is not None:
            account = cls.account() or "none needed"
            rows.append(VendorInfo(name, cls.vendor, cls.install(), account, _limits_text(cls.limits)))
    return rows


def machine_info(name: str) -> MachineInfo:
    """Return the qubits, limits and queue of a machine, from its vendor over the network.

    Raises
    ------
    DeviceError
        There is no account, region or network, or the vendor has no such machine.
    SolverUnavailable
        Its library is not installed.
    """
    device = make_device(name)
    queue = device.queue() if isinstance(device, CompiledDevice) else None
    return MachineInfo(device.name, device.capabilities.qubits, _limits_text(device.limits), queue or "none is known")


def _limits_text(limits: Limits) -> str:
    """Return the limits of a job in words."""
    parts = (
        (limits.circuits, "circuits"),
        (limits.shots, "shots each"),
        (limits.executions, "circuits × shots"),
    )
    return (
        ", ".join(f"{limit:,}".replace(",", " ") + f" {what}" for limit, what in parts if limit is not None)
        or "not known"
    )
