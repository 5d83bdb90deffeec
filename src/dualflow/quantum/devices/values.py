"""What devices answer with: what they can do, what a job may hold and costs, and what came back."""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.typing import NDArray

from ..circuits.encoding import reverse_bits

__all__ = ["Capabilities", "Limits", "Price", "Readout"]


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
    """What one job may hold; None where there is no limit, or nobody knows it.

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
        """Of so many batches like this one."""
        seconds, cost = (None if x is None else x * count for x in (self.qpu_seconds, self.cost))
        return Price(seconds, cost, self.currency, self.formula)


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

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow.quantum.devices import Readout
    >>> big = Readout(np.array([0.0, 1.0, 0.0, 0.0]), None, None, "big", "mine")
    >>> big.ordered("little").probabilities  # outcome 01 read from the other end is 10
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
        """The same read-out with its outcomes indexed in the order asked for."""
        if bit_order == self.bit_order:
            return self
        counts = None if self.counts is None else reverse_bits(self.counts, self.n_qubits)
        probabilities = reverse_bits(self.probabilities, self.n_qubits)
        return Readout(probabilities, counts, self.shots, bit_order, self.job_id)
