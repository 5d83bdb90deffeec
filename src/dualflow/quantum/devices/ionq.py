"""IonQ's machines and its cloud simulator through qiskit-ionq: ``pip install 'dualflow[ionq]'``."""

from __future__ import annotations

import os
import types
import warnings
from dataclasses import replace
from typing import Any, ClassVar

from ...core.runtime.threads import cached_property
from ...exceptions import DeviceError
from .backend import BackendDevice
from .base import Capabilities, Device, Limits
from .compiled import CompiledDevice, VendorJob
from .readouts import counts_of_result
from .vendor_errors import cause, device_error

#: Environment variables that qiskit-ionq reads a key from.
KEY_VARIABLES = ("IONQ_API_KEY", "QISKIT_IONQ_API_TOKEN", "IONQ_API_TOKEN")
SIMULATOR_PREFIX = "ionq_simulator"


class IonQJob(VendorJob):
    """A job of IonQ's service; its status is requested as often as IonQ's own library does."""

    remote: ClassVar[bool] = True
    poll_s: ClassVar[float] = 5.0


class IonQDevice(BackendDevice):
    """An IonQ machine, or IonQ's simulator in the cloud.

    The key is the one that qiskit-ionq finds in IONQ_API_KEY. A job is sent once: the library's five attempts are
    switched off.

    Parameters
    ----------
    backend : str
        "simulator", or a machine such as "qpu.forte-1".
    noise_model : str, optional
        Noise model of the simulator, such as "aria-1".
    optimization_level, seed_transpiler, timeout_s, check_bit_order
        See `CompiledDevice`. IonQ compiles circuits once more and recommends levels 0 and 1.

    Raises
    ------
    ProblemError
        An argument is out of range.
    DeviceError
        No key, no network, no such machine.
    """

    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_ionq")
    extra: ClassVar[str | None] = "ionq"
    vendor: ClassVar[str | None] = "IonQ"
    remote: ClassVar[bool] = True
    job_type: ClassVar[type[VendorJob]] = IonQJob
    capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=None)

    @classmethod
    def named(cls, name: str) -> Device:
        return cls(name.removeprefix("ionq:"))

    def __init__(self, backend: str, *, noise_model: str | None = None, **options: Any) -> None:
        CompiledDevice.__init__(self, **options)
        self.requested, self.noise_model, self.name = backend, noise_model, f"ionq:{backend}"
        found = self.backend
        self.capabilities = replace(self.capabilities, qubits=found.num_qubits)
        # The library reports at most 1 shot for its simulator, as for a state vector: ignore it.
        self.limits = Limits(circuits=found.max_circuits, shots=None if self._simulator else found._max_shots)

    def _parts(self) -> dict[str, str]:
        return {} if self.noise_model is None else {"noise": self.noise_model}

    @property
    def shared(self) -> Any:
        return self

    @property
    def _simulator(self) -> bool:
        return bool(self.backend.name.startswith(SIMULATOR_PREFIX))

    @cached_property
    def backend(self) -> Any:
        """IonQ's backend, requested once."""
        from qiskit_ionq import IonQProvider
        from qiskit_ionq.helpers import resolve_credentials

        if not resolve_credentials().get("token"):
            raise DeviceError(f"device {self.name!r}: there is no account: set IONQ_API_KEY to its key")
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = IonQProvider().get_backend(self.requested)
        except Exception as error:  # the library raises errors of any type
            raise device_error(self.name, "cannot be had", error) from cause(error)
        # If the service does not respond, the library warns and assumes a machine of four qubits.
        if guessed := [str(w.message) for w in caught if "Failed to get qubits" in str(w.message)]:
            raise device_error(self.name, "cannot be had", ConnectionError(guessed[0]))
        send_once(found.client)
        return found

    def _run_options(self, backend: Any, seed: int | None) -> dict[str, Any]:
        if not self._simulator:
            return {}
        options: dict[str, Any] = {} if seed is None else {"sampler_seed": seed}
        return options if self.noise_model is None else {**options, "noise_model": self.noise_model}

    def _retrieve(self, job_id: str) -> VendorJob:
        try:
            job = self.backend.retrieve_job(job_id)
        except Exception as error:
            raise device_error(self.name, f"does not know job {job_id!r}", error, sent=None) from cause(error)
        return self.job_type(self.name, job, job_id, counts_of_result, timeout_s=self.timeout_s)

    @classmethod
    def account(cls) -> str | None:
        found = [name for name in KEY_VARIABLES if os.environ.get(name)]
        return f"{found[0]} is set" if found else "none: set IONQ_API_KEY to a key of your account"

    def __getstate__(self) -> dict[str, Any]:
        # The backend holds the key and is not pickled; it is made again from where the library finds the key.
        return {name: value for name, value in super().__getstate__().items() if name != "backend"}


def send_once(client: Any) -> None:
    """Remove the retries from a client's ``submit_job``: a job whose response was lost would be paid for again."""
    unwrapped = getattr(type(client).submit_job, "__wrapped__", None)
    if unwrapped is not None:
        client.submit_job = types.MethodType(unwrapped, client)
