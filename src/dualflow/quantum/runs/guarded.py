"""A device whose every call is guarded: what it raises is a `DeviceError`, and what hangs ends with the run's time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from numpy.typing import ArrayLike

from ...core.runtime import clock
from ...exceptions import DeviceError
from ..circuits import ParametricCircuit
from ..circuits.resources import Resources
from ..devices import Device, Job, Price, Readout
from ..devices.base import is_own
from ..devices.guard import Guard, load, translated
from ..devices.local import LocalJob

__all__ = ["Guarded", "GuardedJob", "guarded"]

#: What circuits are built by.
QISKIT = "qiskit"

T = TypeVar("T")


class Guarded:
    """A device, called in a thread of its own (`devices.guard.Guard`); its other attributes are as they are.

    dualflow's emulator and controls are numpy alone, and answer where they are called.

    Parameters
    ----------
    device : Device
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        own = is_own(type(device)) and (device.control or device.emulated)
        self._guard = None if own else Guard(device.name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a copy is being made
            raise AttributeError(name)
        kind = type(self._device)
        if self._guard is not None and _is_foreign(getattr(kind, name, None)):
            return self._guard.call(f"does not tell its {name}", lambda: getattr(self._device, name))
        with translated(kind.__name__, f"does not tell its {name}"):
            try:
                return getattr(self._device, name)
            except AttributeError:
                if hasattr(kind, name):
                    raise
        raise AttributeError(name)

    def call(self, doing: str, call: Callable[[], T], sent: bool | None = False) -> T:
        """`Guard.call`, where one is needed."""
        if self._guard is None:
            clock.look()
            with translated(self.name, doing, sent):
                return call()
        load((QISKIT, *self._device.requires))
        return self._guard.call(doing, call, sent)

    @property
    def identity(self) -> str:
        return self.call("does not tell its identity", lambda: self._device.identity)

    def submit(
        self, circuit: ParametricCircuit, values: ArrayLike, shots: int | None, tag: str, seed: int | None
    ) -> Job:
        unsure = None if self.remote else False
        doing = f"failed on circuit {circuit.name!r}"
        return self.call(doing, lambda: self._job(self._device.submit(circuit, values, shots, tag, seed)), unsure)

    def fetch(self, job_id: str) -> Job:
        doing = f"could not look for job {job_id!r}"
        return self.call(doing, lambda: self._job(self._device.fetch(job_id)), None)

    def lookup(self, tag: str) -> str | None:
        return self.call(f"could not look for jobs tagged {tag!r}", lambda: self._device.lookup(tag), None)

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        doing = f"could not say what circuit {circuit.name!r} takes"
        return self.call(doing, lambda: self._device.price(circuit, circuits, shots))

    def resources(self, circuit: ParametricCircuit) -> Resources:
        """Raises `DeviceError` at once where the device still hangs in a call that was given up."""
        if self._guard is None:
            return self.built(circuit, lambda: self._device.resources(circuit))
        if self._guard.hangs:
            raise DeviceError(f"device {self.name!r} had not answered when the time was over, and is not asked again")
        load((QISKIT,))  # which builds it
        doing = f"could not say what gates circuit {circuit.name!r} has"
        return self.call(doing, lambda: self._device.resources(circuit))

    def built(self, circuit: ParametricCircuit, call: Callable[[], T]) -> T:
        """What needs the circuit itself, and not the device: Qiskit may take seconds to build one."""
        load((QISKIT,))
        return Guard(self.name, grace_s=0.0).call(f"could not build circuit {circuit.name!r}", call)

    def check(self, circuit: ParametricCircuit, shots: int | None) -> None:
        self.call(f"could not check circuit {circuit.name!r}", lambda: self._device.check(circuit, shots))

    def wants_check(self, circuit: ParametricCircuit) -> bool:
        doing = f"could not say whether circuit {circuit.name!r} is checked"
        return self.call(doing, lambda: self._device.wants_check(circuit))

    def check_read(self, circuit: ParametricCircuit, readouts: Sequence[Readout] | None) -> None:
        doing = f"could not check circuit {circuit.name!r}"
        self.call(doing, lambda: self._device.check_read(circuit, readouts))

    def _job(self, job: Any) -> Job:
        if type(job) is LocalJob:  # it has run, and its read-out was checked
            return job
        if not isinstance(getattr(job, "job_id", None), str):
            raise DeviceError(
                f"device {self._device.name!r} gave back {type(job).__name__} where a Job with a job_id is due",
                sent=None,
            )
        return GuardedJob(self, job)


def _is_foreign(attribute: Any) -> bool:
    """Whether it is a property that others wrote, which may do anything."""
    return isinstance(attribute, property) and not getattr(attribute.fget, "__module__", "").startswith("dualflow.")


def guarded(device: Device) -> Device:
    """A device whose every call is guarded."""
    return cast("Device", Guarded(device))


class GuardedJob(Job):
    """A job of a guarded device."""

    def __init__(self, device: Guarded, job: Job) -> None:
        self.device, self.job, self.job_id, self.tag = device, job, job.job_id, getattr(job, "tag", "")
        self.poll_s = float(job.poll_s)  # type: ignore[misc]
        #: Seconds that it is waited for; None is as long as it takes.
        self.timeout_s: float | None = getattr(job, "timeout_s", None)

    def status(self) -> str:
        return self.device.call(f"could not tell of job {self.job_id}", self.job.status, True)

    def cancel(self) -> None:
        self.device.call(f"could not cancel job {self.job_id}", self.job.cancel, True)

    def done(self) -> bool:
        return self.device.call(f"could not tell of job {self.job_id}", self.job.done, True)

    def result(self) -> Readout:
        return self.device.call(f"did not give the result of job {self.job_id}", self.job.result, True)
