"""Records that devices return: capabilities, limits of a job, its price, and its read-out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import NDArray

from ..circuits.encoding import reverse_bits


@dataclass(frozen=True)
class Capabilities:
    """The kinds of result that a device gives, and the widest circuit it runs.

    Attributes
    ----------
    exact : bool
        Gives the exact distribution with shots=None.
    sampled : bool
        Gives counts.
    noisy : bool
        Its distribution differs from the circuit's ideal one.
    qubits : int or None
        Most qubits of a circuit; None if not known.

    Examples
    --------
    >>> from dualflow.quantum.devices import make_device
    >>> make_device("emulator").capabilities.exact
    True
    """

    exact: bool
    sampled: bool
    noisy: bool
    qubits: int | None


@dataclass(frozen=True)
class Limits:
    """Upper limits of one job; None where there is no limit or it is not known.

    Attributes
    ----------
    circuits : int or None
        Bindings of a batch.
    shots : int or None
        Of each circuit.
    executions : int or None
        Circuits × shots.

    Examples
    --------
    >>> from dualflow.quantum.devices import Limits
    >>> Limits(circuits=100).parts(250, shots=1000)  # three jobs
    [(slice(0, 100, None), 1000), (slice(100, 200, None), 1000), (slice(200, 250, None), 1000)]
    """

    circuits: int | None = None
    shots: int | None = None
    executions: int | None = None

    def parts(self, circuits: int, shots: int | None) -> list[tuple[slice, int | None]]:
        """Split a batch of ``circuits`` bindings with ``shots`` each into jobs within the limits.

        Returns
        -------
        list of (slice, int or None)
            For each job, its rows of bindings and the shots of each row.
        """
        step, shots_per_job = self.circuits or circuits, [shots]
        if shots is not None:
            max_shots = min(shots, self.shots or shots, self.executions or shots)
            shots_per_job = [min(max_shots, shots - first) for first in range(0, shots, max_shots)]
            step = min(step, max(1, (self.executions or step * max_shots) // max_shots))
        rows = [slice(first, min(first + step, circuits)) for first in range(0, circuits, step)]
        return [(row, job_shots) for row in rows for job_shots in shots_per_job]


@dataclass(frozen=True)
class Price:
    """Machine time and cost of a batch, by the vendor's own formula; None where the vendor publishes none.

    Attributes
    ----------
    qpu_seconds : float or None
    cost : float or None
        In ``currency``.
    currency : str
    formula : str
        The formula in words.

    Examples
    --------
    >>> from dualflow.quantum.devices import Price
    >>> Price(2.0, 0.5) + Price(1.0, 0.25)
    Price(qpu_seconds=3.0, cost=0.75, currency='USD', formula='')
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

    def times(self, count: int) -> Price:
        """Return the price of ``count`` batches like this one."""
        seconds, cost = (None if x is None else x * count for x in (self.qpu_seconds, self.cost))
        return Price(seconds, cost, self.currency, self.formula)


@dataclass(frozen=True)
class Readout:
    """The probabilities and counts that a job returned.

    Attributes
    ----------
    probabilities : array of shape (2^q,), or (k, 2^q) for a batch
        Exact, or counts / shots.
    counts : integer array of the same shape, or None where the distribution is exact
    shots : int or None
        Shots of each circuit of the batch.
    bit_order : {"little", "big"}
        "little": index i = Σ_k bit_k 2^k with bit_k of qubit k (Qiskit). "big": qubit 0 is the most significant bit.
    job_id : str

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow.quantum.devices import Readout
    >>> big = Readout(np.array([0.0, 1.0, 0.0, 0.0]), None, None, "big", "mine")
    >>> big.ordered("little").probabilities  # outcome 01 in big-endian order is 10 in little-endian order
    array([0., 0., 1., 0.])
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
        """Return the read-out with its outcomes indexed in the requested bit order."""
        if bit_order == self.bit_order:
            return self
        counts = None if self.counts is None else reverse_bits(self.counts, self.n_qubits)
        probabilities = reverse_bits(self.probabilities, self.n_qubits)
        return Readout(probabilities, counts, self.shots, bit_order, self.job_id)
