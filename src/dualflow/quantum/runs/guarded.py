"""Guard every call of a device: its errors become `DeviceError`, and calls that hang end with the run's time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

from numpy.typing import ArrayLike

from ...core.runtime import clock
from ...exceptions import DeviceError
from ..circuits import ParametricCircuit
from ..circuits.resources import Resources
from ..devices import Device, Job, Price, Readout
from ..devices.base import is_builtin
from ..devices.guard import Guard, device_errors, import_packages
from ..devices.local import LocalJob

#: Package that builds circuits.
QISKIT = "qiskit"

T = TypeVar("T")


class Guarded:
    """A device whose methods are called in a separate thread (`devices.guard.Guard`).

    dualflow's emulator and controls only use numpy and are called in the caller's thread. Other attributes are those
    of the device.

    Parameters
    ----------
    device : Device
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        own = is_builtin(type(device)) and (device.control or device.emulated)
        self._guard = None if own else Guard(device.name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy and pickle read these before `_device` is set
            raise AttributeError(name)
        kind = type(self._device)
        if is_builtin(kind) and not isinstance(getattr(kind, name, property()), property):
            return getattr(self._device, name)  # a plain attribute, which a run reads ten times a batch
        if self._guard is not None and _is_foreign(getattr(kind, name, None)):
            return self._guard.call(f"does not report its {name}", lambda: getattr(self._device, name))
        with device_errors(kind.__name__, f"does not report its {name}"):
            try:
                return getattr(self._device, name)
            except AttributeError:
                if hasattr(kind, name):
                    raise
        raise AttributeError(name)

    def call(self, doing: str, call: Callable[[], T], sent: bool | None = False) -> T:
        """Make a call by `Guard.call`, or directly if the device needs no guard."""
        if self._guard is None:
            clock.check_time()
            with device_errors(self.name, doing, sent):
                return call()
        import_packages((QISKIT, *self._device.requires))
        return self._guard.call(doing, call, sent)

    @property
    def identity(self) -> str:
        return self.call("does not report its identity", lambda: self._device.identity)

    def submit(
        self, circuit: ParametricCircuit, values: ArrayLike, shots: int | None, tag: str, seed: int | None
    ) -> Job:
        may_be_sent = None if self.remote else False
        doing = f"failed on circuit {circuit.name!r}"
        return self.call(doing, lambda: self._job(self._device.submit(circuit, values, shots, tag, seed)), may_be_sent)

    def fetch(self, job_id: str) -> Job:
        doing = f"could not look for job {job_id!r}"
        return self.call(doing, lambda: self._job(self._device.fetch(job_id)), None)

    def lookup(self, tag: str) -> str | None:
        return self.call(f"could not look for jobs tagged {tag!r}", lambda: self._device.lookup(tag), None)

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        if self._inherits("price"):
            return self._device.price(circuit, circuits, shots)
        doing = f"could not report the price of circuit {circuit.name!r}"
        return self.call(doing, lambda: self._device.price(circuit, circuits, shots))

    def resources(self, circuit: ParametricCircuit) -> Resources:
        """Return the circuit's resources on the device; raise `DeviceError` if an abandoned call still hangs."""
        if self._guard is None:
            return self.built(circuit, lambda: self._device.resources(circuit))
        if self._guard.hangs:
            raise DeviceError(f"device {self.name!r} had not answered when the time was over, and is not called again")
        import_packages((QISKIT,))  # the device builds the circuit
        doing = f"could not report the gates of circuit {circuit.name!r}"
        return self.call(doing, lambda: self._device.resources(circuit))

    def built(self, circuit: ParametricCircuit, call: Callable[[], T]) -> T:
        """Return the result of a call that builds a circuit without the device; Qiskit may take seconds for it."""
        import_packages((QISKIT,))
        return Guard(self.name, grace_s=0.0).call(f"could not build circuit {circuit.name!r}", call)

    def check(self, circuit: ParametricCircuit, shots: int | None) -> None:
        self.call(f"could not check circuit {circuit.name!r}", lambda: self._device.check(circuit, shots))

    def wants_check(self, circuit: ParametricCircuit) -> bool:
        if self._inherits("wants_check"):
            return self._device.wants_check(circuit)
        doing = f"could not report whether circuit {circuit.name!r} must be checked"
        return self.call(doing, lambda: self._device.wants_check(circuit))

    def check_read(self, circuit: ParametricCircuit, readouts: Sequence[Readout] | None) -> None:
        doing = f"could not check circuit {circuit.name!r}"
        self.call(doing, lambda: self._device.check_read(circuit, readouts))

    def _inherits(self, method: str) -> bool:
        """Return whether a method is that of `Device`, which calls no foreign code and needs no guard."""
        return getattr(type(self._device), method) is getattr(Device, method) and method not in vars(self._device)

    def _job(self, job: Any) -> Job:
        if type(job) is LocalJob:  # the job has run and its read-out was checked
            return job
        if not isinstance(getattr(job, "job_id", None), str):
            raise DeviceError(
                f"device {self._device.name!r} gave back {type(job).__name__} where a Job with a job_id is due",
                sent=None,
            )
        return GuardedJob(self, job)


def _is_foreign(attribute: Any) -> bool:
    """Return whether an attribute is a property defined outside dualflow, which may run any code."""
    return isinstance(attribute, property) and not getattr(attribute.fget, "__module__", "").startswith("dualflow.")


def guarded(device: Device) -> Device:
    """Return a device whose calls are all guarded."""
    return cast("Device", Guarded(device))


class GuardedJob(Job):
    """A job of a guarded device, whose calls are guarded too."""

    def __init__(self, device: Guarded, job: Job) -> None:
        self.device, self.job, self.job_id, self.tag = device, job, job.job_id, getattr(job, "tag", "")
        self.poll_s = float(job.poll_s)  # type: ignore[misc]
        #: Seconds to wait for the job; None for no limit.
        self.timeout_s: float | None = getattr(job, "timeout_s", None)

    def status(self) -> str:
        return self.device.call(f"could not report the status of job {self.job_id}", self.job.status, True)

    def cancel(self) -> None:
        self.device.call(f"could not cancel job {self.job_id}", self.job.cancel, True)

    def done(self) -> bool:
        return self.device.call(f"could not report the status of job {self.job_id}", self.job.done, True)

    def result(self) -> Readout:
        return self.device.call(f"did not return the result of job {self.job_id}", self.job.result, True)
