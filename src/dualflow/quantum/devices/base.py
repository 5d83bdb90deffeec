"""The device protocol: run circuits, nothing else. Simulators and remote hardware answer to the same calls."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...catalogue import Listed
from ...core.options import Number
from ...exceptions import DeviceError, ProblemError
from ..circuits import ParametricCircuit, resources
from ..circuits.resources import Resources
from ..circuits.shifts import Shifts
from .guard import held, translated
from .identity import arguments_of, fields_of
from .values import Capabilities, Limits, Price, Readout

__all__ = [
    "FORMS",
    "Capabilities",
    "Device",
    "Job",
    "Limits",
    "Price",
    "Readout",
    "check_shots",
    "is_own",
    "row_seed",
]

#: What an option ``device`` may be, as errors say it.
FORMS = (
    'a name (`dualflow devices` lists them, those of other packages\' entry points "dualflow.devices" too), a '
    "dualflow.Device, a Qiskit BackendV2, an AerSimulator, a NoiseModel of Aer, a V2 sampler with run(pubs, shots=…), "
    "or a PennyLane device"
)
SHOTS = Number(at_least=1, whole=True, powers=True, none=True, note="for the exact distribution")
SEED = Number(at_least=0, below=2**31, whole=True)


class Job:
    """A submitted batch, wherever it runs; `Device.fetch` finds it again by its id.

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
    #: Seconds between two looks at a job that is waited for: no less than the vendor's own.
    poll_s: ClassVar[float] = 0.05

    def status(self) -> str:
        """One of "queued", "running", "done", "failed", "cancelled"."""
        return "done" if self.done() else "running"

    def cancel(self) -> None:
        """Take it back, if it has not run; a job that has is left as it is."""
        raise DeviceError(f"job {self.job_id} cannot be cancelled", sent=True)

    def done(self) -> bool:
        """Whether `result` returns (or raises) at once."""
        raise NotImplementedError

    def result(self) -> Readout:
        """Wait for the read-out.

        Raises
        ------
        DeviceError
            The job failed, was cancelled, or was lost.
        """
        raise NotImplementedError


class Device(Listed):
    """Base class of devices. A device holds no credentials; vendor libraries read their own.

    Subclasses give `name`, `capabilities`, `_submit` and `fetch`. A device is a handle: copies of a solver share it.

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
    control: ClassVar[bool] = False  # a stand-in that runs no circuit
    emulated: ClassVar[bool] = False  # gives the circuit's distribution, and applies no gate
    remote: ClassVar[bool] = False  # its jobs live on when this process has died
    limits: Limits = Limits()
    #: Whether counts follow from the seed of a batch alone, in any copy of the device: what has a generator of its own
    #: would draw the same again in every process.
    seeded: bool = False
    #: Whether `run_rows` gives the bits that the whole batch has.
    divisible: bool = False
    _made_of: dict[str, str] | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls) and not is_own(cls):
            cls.__init__ = _noting(cls.__init__)  # type: ignore[method-assign]

    @property
    def configuration(self) -> dict[str, str]:
        """What tells this machine from others of its name, part by part, as short texts that are the same in every
        process: what a journal or a checkpoint of one must say before it is another's.

        Of a class of one's own, by default, the arguments it was made with: numbers as they are, texts and arrays by a
        digest, and nothing of clients, files or functions.
        Give your own where they are not what decides about results.
        """
        return fields_of(self) if is_dataclass(self) else self._made_of or {}

    @property
    def identity(self) -> str:
        """The name and the `configuration`: "backend:aer_simulator (target 0c8a…, noise 7b21…)"."""
        parts = ", ".join(f"{part} {text}" for part, text in self.configuration.items())
        return f"{self.name} ({parts})" if parts else self.name

    @property
    def shared(self) -> Any:
        """What is used by one thread at a time: the backend, of which several devices may be made."""
        return self

    @classmethod
    def named(cls, name: str) -> Device:
        """The device that a name of the catalogue stands for."""
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
            The solver's angles in radians; a device that binds gates maps them by
            `ParametricCircuit.gate_parameters` first. A batch of `ParametricCircuit.shifts` says what it is, to devices
            that have a shorter way to all its distributions than row by row.
        shots : int ≥ 1, or None
            Per binding; None is the exact distribution, where the device can.
        tag : str
            A label for the journal of jobs.
        seed : int in 0 … 2³¹ − 1, optional
            Of the shot noise, where the device can be seeded.

        Raises
        ------
        ProblemError
            Shots, seed or parameters are out of range.
        DeviceError
            The device cannot do this (too many qubits, no exact distributions) or refused.
        """
        values = circuit.check_parameters(parameter_values)
        if isinstance(parameter_values, Shifts):
            values = parameter_values
        shots = check_shots(shots)
        if seed is not None and not SEED.allows(seed):
            raise ProblemError(f"seed={seed!r} must be an integer in 0 … 2**31 − 1")
        with translated(self.name, f"failed on circuit {circuit.name!r}", None if self.remote else False):
            self.check(circuit, shots)
            with held(self.shared):
                return self._submit(circuit, values, shots, tag, None if seed is None else int(seed))

    def check(self, circuit: ParametricCircuit, shots: int | None) -> None:
        """Raise `DeviceError` if the device cannot run a circuit so: too many qubits, or no such distributions."""
        widest = self.capabilities.qubits
        if widest is not None and circuit.n_qubits > widest:
            raise DeviceError(f"device {self.name!r} has {widest} qubits; circuit {circuit.name!r} needs more")
        if shots is None and not self.capabilities.exact:
            raise DeviceError(f"device {self.name!r} gives counts only; set shots, for example shots=10_000")
        if shots is not None and not self.capabilities.sampled:
            raise DeviceError(f"device {self.name!r} gives exact distributions only; set shots=None")

    def _submit(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, tag: str, seed: int | None
    ) -> Job:
        """`submit` with its arguments checked; ``values`` keeps the shape it was given with."""
        raise NotImplementedError

    def run_rows(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int, first: int
    ) -> tuple[NDArray, NDArray | None]:
        """Some rows of a batch, alike whatever other rows are run with them: what `SpreadDevice` has processes do.

        Here each circuit has a seed of its own, by the batch's and its number.

        Parameters
        ----------
        circuit, shots
            As of `submit`.
        values : array of shape (k, P)
            The rows from number ``first`` of the batch on.
        seed : int
            Of the whole batch.
        first : int ≥ 0

        Returns
        -------
        probabilities : array of shape (k, 2^q)
            Little-endian.
        counts : integer array of that shape, or None
            None of exact distributions; with shots, where `drawn` draws them for the whole batch.
        """
        jobs = [self.submit(circuit, row, shots, "", row_seed(seed, first + i)) for i, row in enumerate(values)]
        found = [job.result().ordered("little") for job in jobs]
        counts = [readout.counts for readout in found]
        probabilities = np.array([readout.probabilities for readout in found])
        return probabilities, None if shots is None else np.array(counts)

    def drawn(self, probabilities: NDArray, shots: int, seed: int) -> NDArray:
        """Counts of a batch whose `run_rows` gives distributions, shape (k, 2^q)."""
        raise NotImplementedError

    def wants_check(self, circuit: ParametricCircuit) -> bool:
        """Whether the order of a circuit's bits is to be seen before its first job: `bit_order.basis_states`."""
        return False

    def check_read(self, circuit: ParametricCircuit, readouts: Sequence[Readout] | None) -> None:
        """Take a circuit for checked: by the read-outs of its `basis_states`, or by an earlier process' (None).

        Raises
        ------
        DeviceError
            The bits are in another order.
        """

    def fetch(self, job_id: str) -> Job:
        """A job submitted earlier, perhaps by another process; `DeviceError` if the device does not know it."""
        raise NotImplementedError

    def lookup(self, tag: str) -> str | None:
        """The id of the job that was sent with a tag; None if there is certainly none.

        Raises
        ------
        DeviceError
            It cannot be told, which is all that most devices can say.
        """
        raise DeviceError(f"device {self.name!r} does not find jobs by their tags", sent=None)

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        """What a batch of so many circuits takes."""
        return Price(0.0, 0.0, formula="it runs on this computer") if not self.remote else Price()

    def resources(self, circuit: ParametricCircuit) -> Resources:
        """Of the circuit as this device runs it."""
        return resources.count(circuit.build())

    def __repr__(self) -> str:
        # Stable from process to process: checkpoints compare the repr of a solver's options.
        return f"<device {self.identity!r}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def is_own(cls: type) -> bool:
    """Whether a device's class is this package's."""
    return cls.__module__.startswith(__name__.partition(".")[0] + ".")


def _noting(init: Callable[..., None]) -> Callable[..., None]:
    """An ``__init__`` that notes what the outermost one was called with."""

    @functools.wraps(init)
    def noting(self: Device, *arguments: Any, **named: Any) -> None:
        if self._made_of is None:
            self._made_of = arguments_of(init, (self, *arguments), named)
        init(self, *arguments, **named)

    return noting


def row_seed(seed: int, number: int) -> int:
    """The seed, in 0 … 2³¹ − 1, of one row of a batch.

    Examples
    --------
    >>> from dualflow.quantum.devices.base import row_seed
    >>> row_seed(7, 0) == row_seed(7, 0), row_seed(7, 0) == row_seed(7, 1)
    (True, False)
    """
    return int(np.random.SeedSequence((seed, number)).generate_state(1)[0] >> 1)


def check_shots(shots: int | None, name: str = "shots") -> int | None:
    """``shots`` as an int ≥ 1 or None, or `ProblemError`.

    Examples
    --------
    >>> from dualflow.quantum.devices import check_shots
    >>> check_shots(1e4), check_shots(None)
    (10000, None)
    """
    checked: int | None = SHOTS.check(name, shots)
    return checked
