"""Amazon Braket's machines and local simulator through qiskit-braket-provider: ``pip install 'dualflow[braket]'``."""

from __future__ import annotations

import configparser
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.runtime.threads import cached_property
from ...exceptions import DeviceError
from ..circuits import ParametricCircuit
from .base import Capabilities, Device, Limits, Price
from .compiled import CompiledDevice, Reader, VendorJob
from .readouts import Request
from .vendor_errors import cause, device_error

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

#: Dollars of a task on any machine (Braket's price list), in addition to the machine's price of its shots.
TASK_PRICE_USD = 0.30
#: Key of a task's tag at AWS.
TAG_KEY = "dualflow"
LOCAL_NAME = "local"


class BraketJob(VendorJob):
    """A Braket task; its status is requested as often as Braket's own library does."""

    remote: ClassVar[bool] = True
    poll_s: ClassVar[float] = 1.0


class BraketDevice(CompiledDevice):
    """A machine at Amazon Braket. A batch is one task with a program set; without program sets, a task has one circuit.

    The account is the one that AWS's own library finds. Each task is created once and never sent again without a
    request, as Braket's ``run_batch`` would do. Tasks are not seeded.

    Parameters
    ----------
    backend : str
        A device's name, such as "Forte 1", or its ARN.
    optimization_level, seed_transpiler, timeout_s, check_bit_order
        See `CompiledDevice`.

    Raises
    ------
    ProblemError
        An argument is out of range.
    DeviceError
        No account, no region, no network, no such device.
    """

    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_braket_provider")
    extra: ClassVar[str | None] = "braket"
    vendor: ClassVar[str | None] = "Amazon Braket"
    remote: ClassVar[bool] = True
    job_type: ClassVar[type[VendorJob]] = BraketJob
    capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=None)

    @classmethod
    def named(cls, name: str) -> Device:
        backend = name.removeprefix("braket:")
        return LocalBraketDevice() if backend == LOCAL_NAME else BraketDevice(backend)

    def __init__(self, backend: str, **options: Any) -> None:
        super().__init__(**options)
        self.requested, self.name = backend, f"braket:{backend}"
        self.capabilities = replace(self.capabilities, qubits=self.backend.num_qubits)
        max_circuits, service = self.backend._max_program_set_executables, self._machine.properties.service
        # The limit of a task's shots is for all its circuits together.
        self.limits = Limits(circuits=max_circuits or 1, executions=service.shotsRange[1])

    @cached_property
    def backend(self) -> Any:
        """The provider's backend, requested once."""
        from qiskit_braket_provider import BraketProvider
        from qiskit_braket_provider.providers.braket_backend import BraketAwsBackend

        try:
            if self.requested.startswith("arn:"):
                return BraketAwsBackend(arn=self.requested)
            return BraketProvider().get_backend(self.requested)
        except Exception as error:  # AWS's libraries raise errors of any type
            raise device_error(self.name, "cannot be had", error) from cause(error)

    @property
    def _machine(self) -> Any:
        return self.backend._device

    def _backend(self, n_qubits: int) -> Any:
        return self.backend

    def _task_options(self, tag: str) -> dict[str, Any]:
        return {"tags": {TAG_KEY: tag}} if tag else {}

    def _send(
        self, circuit: QuantumCircuit, bindings: dict[Any, NDArray], request: Request, tag: str, seed: int | None
    ) -> tuple[Any, str, Reader]:
        from braket.program_sets import CircuitBinding, ParameterSets, ProgramSet
        from qiskit_braket_provider.providers.adapter import rename_parameter, to_braket

        backend = self.backend
        translated = to_braket(circuit, qubit_labels=backend.qubit_labels, target=backend.target)
        columns = {rename_parameter(p): np.atleast_1d(values).tolist() for p, values in bindings.items()}
        if backend._max_program_set_executables is None:
            inputs = {name: column[0] for name, column in columns.items()}
            task = self._machine.run(translated, shots=request.shots, inputs=inputs, **self._task_options(tag))
        else:
            rows = CircuitBinding(translated, input_sets=ParameterSets(columns)) if columns else translated
            programs = ProgramSet([rows], shots_per_executable=request.shots)
            task = self._machine.run(programs, **self._task_options(tag))
        return task, str(task.id), counts_of_task

    def _retrieve(self, job_id: str) -> VendorJob:
        from braket.aws import AwsQuantumTask

        try:
            task = AwsQuantumTask(arn=job_id, aws_session=self._machine.aws_session)
            task.state()
        except Exception as error:
            raise device_error(self.name, f"does not know job {job_id!r}", error, sent=None) from cause(error)
        return self.job_type(self.name, task, job_id, counts_of_task, timeout_s=self.timeout_s)

    def lookup(self, tag: str) -> str | None:
        """Return the id of the task with a tag; raise `DeviceError` if none is listed.

        AWS lists tags some time after it has created a task, so that a missing tag does not mean a missing task.
        """
        try:
            client = self._machine.aws_session.boto_session.client("resourcegroupstaggingapi")
            page = client.get_resources(TagFilters=[{"Key": TAG_KEY, "Values": [tag]}])
            found = [row["ResourceARN"] for row in page["ResourceTagMappingList"]]
        except Exception as error:
            raise device_error(self.name, f"could not look for tag {tag!r}", error, sent=None) from cause(error)
        if len(found) != 1:
            raise DeviceError(f"device {self.name!r} has {len(found)} tasks tagged {tag!r} in its list", sent=None)
        return str(found[0])

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        """Return the cost of a task and its shots, if the machine's properties have a price of a shot; no time."""
        cost = self._machine.properties.service.deviceCost
        if cost is None or cost.unit != "shot":
            return Price(formula="" if cost is None else f"{cost.price:g} USD a {cost.unit}")
        words = f"{TASK_PRICE_USD:g} USD a task + circuits × shots × {cost.price:g} USD"
        return Price(None, TASK_PRICE_USD + circuits * shots * cost.price, formula=words)

    def queue(self) -> str | None:
        try:
            depth = self._machine.queue_depth().quantum_tasks
        except Exception as error:
            raise device_error(self.name, "could not say how long its queue is", error) from cause(error)
        return ", ".join(f"{kind.value.lower()}: {number} tasks wait" for kind, number in depth.items())

    @classmethod
    def account(cls) -> str | None:
        names = [n for n in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID") if os.environ.get(n)]
        found = [f"{n} is set" for n in names]
        files = {"AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials", "AWS_CONFIG_FILE": "~/.aws/config"}
        region = next((os.environ[n] for n in ("AWS_DEFAULT_REGION", "AWS_REGION") if os.environ.get(n)), None)
        for variable, usual in files.items():
            parser = configparser.ConfigParser(interpolation=None)
            try:
                parser.read(Path(os.environ.get(variable, usual)).expanduser(), encoding="utf-8")
            except (configparser.Error, OSError, ValueError):
                continue
            if any(parser.has_option(section, "aws_access_key_id") for section in parser.sections()):
                found.append(f"keys in {usual}")
            region = region or next((parser[s]["region"] for s in parser.sections() if "region" in parser[s]), None)
        if not found:
            return "none: run aws configure, or set AWS_PROFILE; braket:local needs none"
        return f"{', '.join(found)}; " + (f"region {region}" if region else "no region: set AWS_DEFAULT_REGION")

    def __getstate__(self) -> dict[str, Any]:
        # The backend holds credentials and is not pickled; it is made again from AWS's own storage.
        return {name: value for name, value in super().__getstate__().items() if name != "backend"}


class LocalBraketDevice(BraketDevice):
    """Braket's state-vector simulator on this computer; not seeded."""

    name = "braket:local"
    remote: ClassVar[bool] = False
    job_type: ClassVar[type[VendorJob]] = VendorJob
    capabilities = Capabilities(exact=False, sampled=True, noisy=False, qubits=None)

    def __init__(self, **options: Any) -> None:
        super().__init__(LOCAL_NAME, **options)
        self.limits = Limits()

    @cached_property
    def backend(self) -> Any:
        from qiskit_braket_provider import BraketLocalBackend

        return BraketLocalBackend()

    def _task_options(self, tag: str) -> dict[str, Any]:
        return {}

    def _retrieve(self, job_id: str) -> VendorJob:
        return CompiledDevice._retrieve(self, job_id)

    def lookup(self, tag: str) -> str | None:
        return Device.lookup(self, tag)

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        return Device.price(self, circuit, circuits, shots)

    def queue(self) -> str | None:
        return None

    @classmethod
    def account(cls) -> str | None:
        return None


def counts_of_task(result: Any, device: str, job_id: str, request: Request | None) -> tuple[NDArray, int]:
    """Return the counts and shots of a task with a program set of one program, or with one circuit."""
    entries = getattr(result, "entries", None)
    if entries is not None and len(entries) != 1:
        raise DeviceError(f"device {device!r}: job {job_id} has {len(entries)} programs, 1 was sent", sent=True)
    rows = [result] if entries is None else list(entries[0])
    # Column k of the measurements is the circuit's k-th classical bit.
    shots = [np.asarray(row.measurements) for row in rows]
    if len({row.shape for row in shots}) != 1:
        raise DeviceError(f"device {device!r}: the circuits of job {job_id} have unlike shots or widths", sent=True)
    number, width = shots[0].shape
    counts = np.array([np.bincount(row @ (1 << np.arange(width)), minlength=2**width) for row in shots])
    return counts, number
