"""What there is in the cloud: which libraries are installed, which accounts are known, and what a machine says."""

from __future__ import annotations

from dataclasses import dataclass

from . import DEVICES, make_device
from .base import Limits
from .compiled import CompiledDevice

__all__ = ["MachineInfo", "VendorInfo", "ask", "list_vendors"]


@dataclass(frozen=True)
class VendorInfo:
    """One row of `list_vendors`.

    Attributes
    ----------
    name : str
        How its machines are named, such as "ibm:<backend>".
    vendor : str
    install : str or None
        None when its library is installed, else what to do about it.
    account : str
        What is known of the account without network; never a secret.
    holds : str
        What a job of any of its machines may hold.
    """

    name: str
    vendor: str
    install: str | None
    account: str
    holds: str


@dataclass(frozen=True)
class MachineInfo:
    """What `ask` was told of a machine: its name, its qubits, what a job may hold, and its queue."""

    name: str
    qubits: int | None
    holds: str
    queue: str


def list_vendors() -> list[VendorInfo]:
    """Vendors whose machines can be devices. No network is used."""
    rows = []
    for name in DEVICES.targets:
        if "<" not in name:
            continue
        cls = DEVICES.find(name)
        if issubclass(cls, CompiledDevice) and cls.vendor is not None:
            account = cls.account() or "none needed"
            rows.append(VendorInfo(name, cls.vendor, cls.install(), account, _words(cls.limits)))
    return rows


def ask(name: str) -> MachineInfo:
    """What a machine says of itself; its vendor is asked over the network.

    Raises
    ------
    DeviceError
        In one sentence: no account, no region, no network, no such machine.
    SolverUnavailable
        Its library is not installed.
    """
    device = make_device(name)
    queue = device.queue() if isinstance(device, CompiledDevice) else None
    return MachineInfo(device.name, device.capabilities.qubits, _words(device.limits), queue or "none is known")


def _words(limits: Limits) -> str:
    parts = (
        (limits.circuits, "circuits"),
        (limits.shots, "shots each"),
        (limits.executions, "circuits × shots"),
    )
    return (
        ", ".join(f"{most:,}".replace(",", " ") + f" {what}" for most, what in parts if most is not None) or "not known"
    )
