"""The device protocol: run circuits and return read-outs. Simulators and remote hardware implement the same calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...catalogue import CatalogueEntry
from ...core.options import Number
from ...exceptions import DeviceError, ProblemError
from ..circuits import ParametricCircuit, resources
from ..circuits.resources import Resources
from ..circuits.shifts import Shifts
from .guard import device_errors, locked
from .identity import arguments_of, fields_of
from .values import Capabilities, Limits, Price, Readout

#: The accepted values of an option ``device``, for error messages.
DEVICE_FORMS = (
    'a name (`dualflow devices` lists them, those of other packages\' entry points "dualflow.devices" too), a '
    "dualflow.Device, a Qiskit BackendV2, an AerSimulator, a NoiseModel of Aer, a V2 sampler with run(pubs, shots=…), "
    "or a PennyLane device"
)
#: Rule of every option ``shots``.
SHOTS_RULE = Number(at_least=1, whole=True, powers=True, none=True, note="for the exact distribution")
#: Rule of the seed of a batch.
SEED_RULE = Number(at_least=0, below=2**31, whole=True)


class Job:
    """A submitted batch, on this computer or elsewhere. `Device.fetch` finds it again by its id.

    Attributes
    ----------
    job_id, tag : str

    Examples
    --------
    >>> from dualflow.quantum.circuits import TreeCircuit
    >>> from dualflow.quantum.devices import make_device
    >>> job = make_device("emulator").submit(TreeCircuit(1), [0.0])
    >>> job.status(), job.result().probabilities.ravel()  # RY(0) leaves the qubit in 0
    ('done', array([1., 0.]))
    """

    job_id: str
    tag: str
    #: Seconds between two requests for the status of a job; at least those of the vendor's own library.
    poll_s: ClassVar[float] = 0.05

    def status(self) -> str:
        """Return "queued", "running", "done", "failed" or "cancelled"."""
        return "done" if self.done() else "running"

    def cancel(self) -> None:
        """Cancel the job if it has not ended; otherwise do nothing."""
        raise DeviceError(f"job {self.job_id} cannot be cancelled", sent=True)

    def done(self) -> bool:
        """Return whether `result` returns or raises without waiting."""
        raise NotImplementedError

    def result(self) -> Readout:
        """Wait for the job and return its read-out.

        Raises
        ------
        DeviceError
            The job failed, was cancelled, or was lost.
        """
        raise NotImplementedError


class Device(CatalogueEntry):
    """Base class of devices. A device holds no credentials; vendor libraries read their own.

    Subclasses set `name` and `capabilities` and implement `_submit` and `fetch`. A device is a handle: copies of a
    solver share it.

    Examples
    --------
    >>> from dualflow import Device
    >>> from dualflow.quantum.devices import make_device
    >>> device = make_device("emulator")
    >>> isinstance(device, Device), device.name, device.capabilities.exact
    (True, 'emulator', True)
    """

    name: str = ""
    capabilities: Capabilities
    control: ClassVar[bool] = False  # runs no circuit, but returns outcomes in place of one
    emulated: ClassVar[bool] = False  # returns the circuit's distribution without applying gates
    remote: ClassVar[bool] = False  # its jobs outlive this process
    limits: Limits = Limits()
    #: Whether the seed of a batch alone fixes its counts, in any copy of the device. A device that holds a random
    #: generator is not seeded: its copies in several processes would draw the same numbers.
    seeded: bool = False
    #: Whether `run_rows` on the parts of a batch returns the same bits as on the full batch.
    divisible: bool = False
    _made_of: dict[str, str] | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls) and not is_builtin(cls):
            cls.__init__ = _recording_arguments(cls.__init__)  # type: ignore[method-assign]

    @property
    def configuration(self) -> dict[str, str]:
        """Texts, by part, that distinguish this machine from others of the same name.

        They are short, equal in every process, and are compared before a journal or checkpoint is continued.

        For a class outside this package the default is the arguments of its ``__init__``: numbers as they are, texts
        and arrays by a digest. Clients, files and functions are left out. Override this property if other values
        decide what the device returns.
        """
        return fields_of(self) if is_dataclass(self) else self._made_of or {}

    @property
    def identity(self) -> str:
        """The name and the `configuration`: "backend:aer_simulator (target 0c8a…, noise 7b21…)"."""
        parts = ", ".join(f"{part} {text}" for part, text in self.configuration.items())
        return f"{self.name} ({parts})" if parts else self.name

    @property
    def drawing(self) -> str | None:
        """How counts are drawn, for the provenance; None if the device does not say."""
        return None

    @property
    def shared(self) -> Any:
        """The object that only one thread may use at a time: the backend, which several devices may share."""
        return self

    @classmethod
    def named(cls, name: str) -> Device:
        """Return the device for a name of the catalogue."""
        return cls()

    def submit(
        self,
        circuit: ParametricCircuit,
        parameter_values: ArrayLike,
        shots: int | None = None,
        tag: str = "",
        seed: int | None = None,
    ) -> Job:
        """Send a circuit with one or many bindings, as one batch.

        Parameters
        ----------
        circuit : ParametricCircuit
        parameter_values : array of shape (P,), or (k, P) for a batch
            The solver's angles in radians. A device that binds gates first maps them by
            `ParametricCircuit.gate_parameters`. A batch of `ParametricCircuit.shifts` is a `Shifts` array, so that a
            device can compute its distributions faster than row by row.
        shots : int ≥ 1, or None
            Per binding; None requests the exact distribution.
        tag : str
            A label for the journal of jobs.
        seed : int in 0 … 2³¹ − 1, optional
            Of the shot noise, if the device can be seeded.

        Raises
        ------
        ProblemError
            Shots, seed or parameters are out of range.
        DeviceError
            The device cannot run this (too many qubits, no exact distributions) or refused the job.
        """
        values = circuit.check_parameters(parameter_values)
        if isinstance(parameter_values, Shifts):
            values = parameter_values
        shots = check_shots(shots)
        if seed is not None and not SEED_RULE.allows(seed):
            raise ProblemError(f"seed={seed!r} must be an integer in 0 … 2**31 − 1")
        with device_errors(self.name, f"failed on circuit {circuit.name!r}", None if self.remote else False):
            self.check(circuit, shots)
            with locked(self.shared):
                return self._submit(circuit, values, shots, tag, None if seed is None else int(seed))

    def check(self, circuit: ParametricCircuit, shots: int | None) -> None:
        """Raise `DeviceError` if the circuit has too many qubits, or the device gives no counts or no exact results."""
        max_qubits = self.capabilities.qubits
        if max_qubits is not None and circuit.n_qubits > max_qubits:
            needs = f"circuit {circuit.name!r} needs {circuit.n_qubits}"
            raise DeviceError(f"device {self.name!r} has {max_qubits} qubits; {needs}")
        if shots is None and not self.capabilities.exact:
            raise DeviceError(f"device {self.name!r} gives counts only; set shots, for example shots=10_000")
        if shots is not None and not self.capabilities.sampled:
            raise DeviceError(f"device {self.name!r} gives exact distributions only; set shots=None")

    def _submit(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, tag: str, seed: int | None
    ) -> Job:
        """Send a batch as `submit` does; the arguments are checked, and ``values`` keeps the caller's shape."""
        raise NotImplementedError

    def run_rows(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int, first: int
    ) -> tuple[NDArray, NDArray | None]:
        """Run some rows of a batch and return their probabilities and counts.

        The result of a row does not depend on which other rows are run with it: `SpreadDevice` runs parts of a batch
        in several processes. By default each circuit has its own seed, made from the batch's seed and its row number.

        Parameters
        ----------
        circuit, shots
            As of `submit`.
        values : array of shape (k, P)
            Rows ``first``, ``first + 1``, … of the batch.
        seed : int
            Of the full batch.
        first : int ≥ 0

        Returns
        -------
        probabilities : array of shape (k, 2^q)
            Little-endian.
        counts : integer array of that shape, or None
            None for exact distributions; with shots, None if `drawn` draws the counts of the full batch.
        """
        jobs = [self.submit(circuit, row, shots, "", row_seed(seed, first + i)) for i, row in enumerate(values)]
        readouts = [job.result().ordered("little") for job in jobs]
        counts = [readout.counts for readout in readouts]
        probabilities = np.array([readout.probabilities for readout in readouts])
        return probabilities, None if shots is None else np.array(counts)

    def drawn(self, probabilities: NDArray, shots: int, seed: int) -> NDArray:
        """Draw the counts of a full batch, shape (k, 2^q), for which `run_rows` returned distributions only."""
        raise NotImplementedError

    def wants_check(self, circuit: ParametricCircuit) -> bool:
        """Return whether the bit order of a circuit must be checked before its first job (`bit_order.basis_states`)."""
        return False

    def check_read(self, circuit: ParametricCircuit, readouts: Sequence[Readout] | None) -> None:
        """Check the bit order of a circuit and record that it is checked.

        Parameters
        ----------
        circuit : ParametricCircuit
        readouts : two Readout, or None
            Of the jobs of its `basis_states`; None if an earlier process has checked the circuit.

        Raises
        ------
        DeviceError
            The bits are in another order.
        """

    def fetch(self, job_id: str) -> Job:
        """Return a job submitted earlier, by this or another process; `DeviceError` if the device does not know it."""
        raise NotImplementedError

    def lookup(self, tag: str) -> str | None:
        """Return the id of the job that was sent with a tag, or None if it is certain that there is none.

        Raises
        ------
        DeviceError
            The device cannot search jobs by tag, which is the default.
        """
        raise DeviceError(f"device {self.name!r} does not find jobs by their tags", sent=None)

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        """Return the time and cost of a batch of ``circuits`` bindings with ``shots`` each."""
        return Price(0.0, 0.0, formula="it runs on this computer") if not self.remote else Price()

    def simulation(self, circuit: ParametricCircuit, circuits: int) -> tuple[float, float] | None:
        """Return about how many seconds and bytes this computer needs to simulate bindings of a circuit.

        None if that is not known: the device is remote, another library's, or its cost depends on the angles.
        """
        return None

    def resources(self, circuit: ParametricCircuit) -> Resources:
        """Return the gate counts of the circuit as this device runs it."""
        return resources.count(circuit.build())

    def __repr__(self) -> str:
        # Equal in every process: checkpoints compare the repr of a solver's options.
        return f"<device {self.identity!r}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def is_builtin(cls: type) -> bool:
    """Return whether a device's class is defined in this package."""
    return cls.__module__.startswith(__name__.partition(".")[0] + ".")


def _recording_arguments(init: Callable[..., None]) -> Callable[..., None]:
    """Return an ``__init__`` that stores the arguments of the outermost call in ``_made_of``."""

    @functools.wraps(init)
    def recording(self: Device, *arguments: Any, **named: Any) -> None:
        if self._made_of is None:
            self._made_of = arguments_of(init, (self, *arguments), named)
        init(self, *arguments, **named)

    return recording


def row_seed(seed: int, number: int) -> int:
    """Return the seed, in 0 … 2³¹ − 1, of one row of a batch.

    Examples
    --------
    >>> from dualflow.quantum.devices.base import row_seed
    >>> row_seed(7, 0) == row_seed(7, 0), row_seed(7, 0) == row_seed(7, 1)
    (True, False)
    """
    return int(np.random.SeedSequence((seed, number)).generate_state(1)[0] >> 1)


def check_shots(shots: int | None, name: str = "shots") -> int | None:
    """Return ``shots`` as an int ≥ 1 or None; raise `ProblemError` for anything else.

    Examples
    --------
    >>> from dualflow.quantum.devices import check_shots
    >>> check_shots(1e4), check_shots(None)
    (10000, None)
    """
    checked: int | None = SHOTS_RULE.check(name, shots)
    return checked
