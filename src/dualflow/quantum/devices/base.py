"""The device protocol: run circuits, nothing else. Simulators and remote hardware answer to the same calls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike, NDArray

from ...catalogue import Listed
from ...core.options import Number
from ...exceptions import DeviceError, ProblemError
from ..circuits import ParametricCircuit, resources
from ..circuits.encoding import reverse_bits
from ..circuits.resources import Resources
from ..circuits.shifts import Shifts

__all__ = ["FORMS", "Capabilities", "Device", "Job", "Limits", "Price", "Readout", "check_shots"]

#: What an option ``device`` may be, as errors say it.
FORMS = (
    'a name (`dualflow devices` lists them, those of other packages\' entry points "dualflow.devices" too), a '
    "dualflow.Device, a Qiskit BackendV2, an AerSimulator, a NoiseModel of Aer, a V2 sampler with run(pubs, shots=…), "
    "or a PennyLane device"
)
SHOTS = Number(at_least=1, whole=True, none=True, note="for the exact distribution")
SEED = Number(at_least=0, below=2**31, whole=True)


@dataclass(frozen=True)
class Capabilities:
    """What a device can do.

    Attributes
    ----------
    exact : bool
        Gives the exact distribution when no shots are asked for.
    sampled : bool
        Gives counts.
    noisy : bool
        Its distribution differs from the circuit's ideal one.
    qubits : int or None
        The widest circuit it takes; None if nobody knows.
    """

    exact: bool
    sampled: bool
    noisy: bool
    qubits: int | None


@dataclass(frozen=True)
class Limits:
    """What one job may hold; None where there is no limit, or nobody knows it.

    Attributes
    ----------
    circuits : int or None
        Bindings of a batch.
    shots : int or None
        Of each circuit.
    executions : int or None
        Circuits × shots.
    """

    circuits: int | None = None
    shots: int | None = None
    executions: int | None = None

    def parts(self, circuits: int, shots: int | None) -> list[tuple[slice, int | None]]:
        """Jobs that so many circuits with so many shots each take: rows of bindings, and shots of each of them."""
        step, loads = self.circuits or circuits, [shots]
        if shots is not None:
            most = min(shots, self.shots or shots, self.executions or shots)
            loads = [min(most, shots - first) for first in range(0, shots, most)]
            step = min(step, max(1, (self.executions or step * most) // most))
        rows = [slice(first, min(first + step, circuits)) for first in range(0, circuits, step)]
        return [(row, load) for row in rows for load in loads]


@dataclass(frozen=True)
class Price:
    """What a batch takes on the machine, by the vendor's own formula; None where the vendor says nothing.

    Attributes
    ----------
    qpu_seconds : float or None
    cost : float or None
        In ``currency``.
    currency : str
    formula : str
        In words, with what it rests on.
    """

    qpu_seconds: float | None = None
    cost: float | None = None
    currency: str = "USD"
    formula: str = ""

    def __add__(self, other: Price) -> Price:
        def both(a: float | None, b: float | None) -> float | None:
            return None if a is None or b is None else a + b

        formula = self.formula or other.formula
        return Price(both(self.qpu_seconds, other.qpu_seconds), both(self.cost, other.cost), self.currency, formula)


@dataclass(frozen=True)
class Readout:
    """What came back from a job.

    Attributes
    ----------
    probabilities : array of shape (2^q,), or (k, 2^q) for a batch
        Exact, or counts / shots.
    counts : integer array of the same shape, or None where the distribution is exact
    shots : int or None
        Shots of each circuit of the batch.
    bit_order : {"little", "big"}
        "little": index i = Σ_k bit_k 2^k with bit_k of qubit k (Qiskit). "big": the other way round.
    job_id : str
    """

    probabilities: NDArray
    counts: NDArray | None
    shots: int | None
    bit_order: str
    job_id: str

    @property
    def n_qubits(self) -> int:
        return int(math.log2(self.probabilities.shape[-1]))

    def ordered(self, bit_order: str = "little") -> Readout:
        """The same read-out with its outcomes indexed in the order asked for."""
        if bit_order == self.bit_order:
            return self
        counts = None if self.counts is None else reverse_bits(self.counts, self.n_qubits)
        probabilities = reverse_bits(self.probabilities, self.n_qubits)
        return Readout(probabilities, counts, self.shots, bit_order, self.job_id)


class Job:
    """A submitted batch, wherever it runs; `Device.fetch` finds it again by its id.

    Attributes
    ----------
    job_id, tag : str
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
    """

    name: str = ""
    capabilities: Capabilities
    control: ClassVar[bool] = False  # a stand-in that runs no circuit
    emulated: ClassVar[bool] = False  # gives the circuit's distribution, and applies no gate
    remote: ClassVar[bool] = False  # its jobs live on when this process has died
    limits: Limits = Limits()

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
        self.check(circuit, shots)
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

    def wants_check(self, circuit: ParametricCircuit) -> bool:
        """Whether the order of a circuit's bits is to be seen before its first job: `bit_order.basis_states`."""
        return False

    def check_read(self, circuit: ParametricCircuit, readout: Readout | None) -> None:
        """Take a circuit for checked: by the read-out of its `basis_states`, or by an earlier process' (None).

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
        return f"<device {self.name!r}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


def check_shots(shots: int | None, name: str = "shots") -> int | None:
    """``shots`` as an int ≥ 1 or None, or `ProblemError`."""
    checked: int | None = SHOTS.check(name, shots)
    return checked
