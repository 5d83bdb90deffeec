"""Where solvers measure: one device, and an account of every circuit, shot and second that it took.

Has noise left anything? Pearson's χ² test of counts against the uniform distribution, and its power.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import scipy.special
from numpy.typing import ArrayLike, NDArray

from ...core.runtime import clock
from ...core.runtime.random import generator, generator_state
from ...core.workspace import Workspace
from ...exceptions import DeviceError
from ..circuits import ParametricCircuit
from ..circuits.resources import Resources, count
from ..devices import Device, Readout
from ..devices.bit_order import SEED as ORDER_SEED
from ..devices.bit_order import SHOTS as ORDER_SHOTS
from ..devices.bit_order import basis_states, checking_shots
from .fidelity import MAX_QUBITS, MAX_ROWS, Fidelity, checked_rows
from .guarded import Guarded, guarded
from .journal import Journal
from .live import Live
from .mitigation import (
    CALIBRATION_SHOTS,
    calibrations,
    check_installed,
    confusion_matrices,
    mitigate,
    overhead,
)
from .sending import Sender
from .spending import Budget, Spent

__all__ = ["UNBUILT", "Account", "Laboratory", "Ledger", "QuantumContext", "is_told_from_uniform", "is_uniform"]


#: Chance that uniform counts are taken for others, and that the test misses a distribution it is said to tell apart.
FALSE_ALARM, MISS = 1e-3, 1e-6
#: The same for exact distributions: largest deviation that is round-off, and smallest that is not.
ROUND_OFF, VISIBLE = 1e-12, 1e-6


def is_uniform(found: NDArray, shots: float | None) -> bool:
    """Whether frequencies of shape (N,) cannot be told from 1/N: χ² = S N Σ (π − 1/N)² within its 1 − 1e-3 quantile.

    ``shots`` is the number S behind them, or None where they are exact.
    """
    outcomes = len(found)
    if shots is None:
        return bool(np.abs(found - 1 / outcomes).max() <= ROUND_OFF)
    return _chi_square(found, shots) <= scipy.special.chdtri(outcomes - 1, FALSE_ALARM)


def is_told_from_uniform(distribution: NDArray, shots: float | None) -> bool:
    """Whether S shots of a distribution would pass `is_uniform` with a chance of at most 1e-6.

    χ² is then noncentral with λ = S N Σ (π − 1/N)².
    """
    outcomes = len(distribution)
    if shots is None:
        return bool(np.abs(distribution - 1 / outcomes).max() > VISIBLE)
    limit = scipy.special.chdtri(outcomes - 1, FALSE_ALARM)
    return bool(scipy.special.chndtr(limit, outcomes - 1, _chi_square(distribution, shots)) <= MISS)


def _chi_square(frequencies: NDArray, shots: float) -> float:
    outcomes = len(frequencies)
    return float(shots * outcomes * ((frequencies - 1 / outcomes) ** 2).sum())


#: Job ids kept in an account.
JOBS_KEPT = 10
#: Seconds after a run's time in which its device may say what gates its circuits have; as many for dualflow's count.
LATE_S = 0.2
#: Why there is none of what needs a circuit.
UNBUILT = "the time was over before the circuit was built"

T = TypeVar("T")


@dataclass(frozen=True)
class Account:
    """What a solver's state keeps of its measurements.

    Attributes
    ----------
    circuits, shots, device_time_s
        Of all that was measured.
    job_ids : tuple of str
        The last ones.
    rng : dict
        State of the generator that draws the seeds.
    calibrations : dict of lists of shape (q, 2, 2)
        By circuit, the confusion matrices of its read-out, where that is mitigated.
    qpu_seconds, cost : float
        By the device's `price`, as far as it says one.
    ordered : tuple of str
        Circuits the order of whose bits was seen, where the device asks for that.
    replayed : int
        Of the circuits, those whose results came from the journal.
    fidelity : Fidelity
        Of read-outs, before mitigation, to the distributions of their circuits.
    """

    rng: dict[str, Any]
    circuits: int = 0
    shots: int = 0
    device_time_s: float = 0.0
    job_ids: tuple[str, ...] = ()
    calibrations: dict[str, Any] = field(default_factory=dict)
    qpu_seconds: float = 0.0
    cost: float = 0.0
    ordered: tuple[str, ...] = ()
    replayed: int = 0
    fidelity: Fidelity = field(default_factory=Fidelity)

    @classmethod
    def opened(cls, rng: np.random.Generator) -> Account:
        """An account of nothing yet."""
        return cls(generator_state(rng))


class Laboratory:
    """Runs circuits on a device and books them.

    Parameters
    ----------
    device : Device
    tag : str
        Label of the jobs, such as the solver's name.
    mitigation : {"confusion", "mthree", "circuit"}, optional
        Of errors, wherever there are shots. Two or four calibration circuits are run and booked before the first batch
        of each circuit.
    journal : str or Path, optional
        File of the jobs of this run, over all its processes: what is in it is not sent again.
    data : str, optional
        Digest of what the run is about; the journal of a run about other data is refused.
    budget : Budget, optional
        What the run may spend, over all its processes as far as journal and account know of them.
    resend : bool, default=False
        Send again what may have been sent by a process that died, where the device cannot say whether it was.
    min_fidelity : float, optional
        Slope of `Fidelity` below which, beyond shot noise, the device is refused.
    compared : int ≥ 1
        Circuits of each batch whose read-outs are compared with their distributions.

    Raises
    ------
    SolverUnavailable
        The mitigation's package is not installed.
    ProblemError
        The journal cannot be used, or belongs to other data; or, from `measure`, another process sends by it.
    """

    def __init__(
        self,
        device: Device,
        tag: str,
        mitigation: str | None = None,
        journal: str | Path | None = None,
        *,
        data: str | None = None,
        budget: Budget | None = None,
        resend: bool = False,
        min_fidelity: float | None = None,
        compared: int = MAX_ROWS,
    ) -> None:
        check_installed(mitigation)
        self.device, self.tag, self.mitigation = guarded(device), tag, mitigation
        self.min_fidelity, self.compared = min_fidelity, compared
        self.journal = None if journal is None else Journal(journal, data)
        self._sender = Sender(self.device, self.journal, budget, resend, mitigation)
        #: Why the device did not say what gates a circuit has.
        self.resources_error: str | None = None
        #: Whether a circuit had not been built when the time was over.
        self.unbuilt = False
        left = clock.left()
        self._until = None if left is None else time.monotonic() + left
        self._live: Live | None = None
        self._before: Spent | None = None  # by the account that a run began or resumed with

    def measure(
        self, account: Account, circuit: ParametricCircuit, theta: ArrayLike, shots: int | None
    ) -> tuple[NDArray, Account]:
        """One batch: its distributions, little-endian, and the account with the batch booked.

        Parameters
        ----------
        account : Account
            Left as it is.
        theta : array of shape (P,), or (k, P) for k circuits
        shots : int or None
            Of each circuit; None for exact distributions.

        Returns
        -------
        distributions : array of shape (2^q,) or (k, 2^q)
            As measured, or mitigated.
        account : Account

        Raises
        ------
        DeviceError
            The job was refused, failed, cancelled or lost, does not fit into the budget, or a confusion matrix is
            singular; or the fidelity of all read-outs is below ``min_fidelity``.
        """
        account = self._ordered(account, circuit)
        if self.mitigation is None or shots is None:
            readout, account = self._run(account, circuit, theta, shots)
            return readout.probabilities, self._compared(account, circuit, theta, readout)
        account = self._calibrated(account, circuit, shots)
        readout, account = self._run(account, circuit, theta, shots)
        account = self._compared(account, circuit, theta, readout)
        return mitigate(self.mitigation, readout, account.calibrations[repr(circuit)]), account

    def _compared(self, account: Account, circuit: ParametricCircuit, theta: ArrayLike, readout: Readout) -> Account:
        """The account with a few read-outs of a batch compared with the distributions of their circuits."""
        if circuit.n_qubits > MAX_QUBITS:
            return account
        found, angles = np.atleast_2d(readout.probabilities), np.atleast_2d(np.asarray(theta))
        rows = checked_rows(len(found), self.compared)
        ideal, noisy = circuit.distribution(angles[rows]), self.device.capabilities.noisy
        fidelity = account.fidelity.with_batch(found[rows], ideal, readout.shots, noisy)
        if self.min_fidelity is not None and fidelity.is_below(self.min_fidelity):
            raise DeviceError(
                f"device {self.device.name!r}: the fidelity of its read-outs to their circuits is "
                f"{fidelity.slope:.2f} ± {fidelity.deviation:.2f}, below min_fidelity={self.min_fidelity:g}; calibrate "
                "the device, take another one, or lower min_fidelity",
                sent=True,
            )
        return replace(account, fidelity=fidelity)

    def drowned(
        self, account: Account, circuit: ParametricCircuit, theta: NDArray, found: NDArray, shots: int | None
    ) -> bool:
        """Whether a measured distribution is uniform although the circuit's own, at these angles, is not; or, where a
        state has never left an even start, those of the other circuits of the run are not."""
        fair = None if shots is None else self.effective_shots(account, circuit, shots)
        if not is_uniform(found, fair):
            return False
        return is_told_from_uniform(circuit.distribution(theta), fair) or account.fidelity.is_zero()

    def effective_shots(self, account: Account, circuit: ParametricCircuit, shots: int) -> float:
        """Shots without mitigation that would leave as much noise at most."""
        factors = account.calibrations.get(repr(circuit))
        return shots if factors is None else shots / overhead(factors)

    def preparation(self, circuit: ParametricCircuit, shots: int | None) -> int:
        """Shots of what goes before a circuit's first batch of so many shots: the check of its bits, the calibration
        of its read-out."""
        check = checking_shots(circuit.n_qubits) if self.device.wants_check(circuit) else 0
        if self.mitigation is None or shots is None:
            return check
        ends = sum(len(bindings) for _, bindings in calibrations(self.mitigation, circuit))
        return check + ends * max(shots, CALIBRATION_SHOTS)

    def _ordered(self, account: Account, circuit: ParametricCircuit) -> Account:
        """The account with the check of a circuit's bits booked, where the device wants one."""
        if not self.device.wants_check(circuit):
            return account
        if repr(circuit) in account.ordered:  # by the process that this one goes on from
            self.device.check_read(circuit, None)
            return account
        states, batches = basis_states(circuit)
        readouts = []
        for bindings in batches:
            readout, account = self._run(account, states, bindings, ORDER_SHOTS, seed=ORDER_SEED)
            readouts.append(readout)
        self.device.check_read(circuit, readouts)
        return replace(account, ordered=(*account.ordered, repr(circuit)))

    def _calibrated(self, account: Account, circuit: ParametricCircuit, shots: int) -> Account:
        """The account with the confusion matrices of a circuit's qubits in it."""
        if repr(circuit) in account.calibrations:
            return account
        assert self.mitigation is not None  # the caller has seen to it
        shots, factors = max(shots, CALIBRATION_SHOTS), np.tile(np.eye(2), (circuit.n_qubits, 1, 1))
        for run, bindings in calibrations(self.mitigation, circuit):
            readout, account = self._run(account, run, bindings, shots)
            told = range(circuit.n_qubits) if run.ends is None else run.ends[1]
            factors[list(told)] = confusion_matrices(readout.probabilities, shots, told)
        return replace(account, calibrations=account.calibrations | {repr(circuit): factors.tolist()})

    def _run(
        self,
        account: Account,
        circuit: ParametricCircuit,
        theta: ArrayLike,
        shots: int | None,
        seed: int | None = None,
    ) -> tuple[Readout, Account]:
        """A batch, booked; its seed is the account's next one, unless it is given."""
        if self._live is None and self.journal is not None:
            self._live = Live(self.journal)
        rng = generator(account.rng)
        if seed is None:
            seed = int(rng.integers(2**31))
        begun = time.monotonic()
        if self._before is None:
            self._before = Spent(account.shots, account.qpu_seconds, account.cost)
        label = f"{self.tag} {account.circuits}"
        readout, ids, wanted, replayed = self._sender.read(circuit, theta, shots, label, seed, self._before)
        circuits = 1 if readout.probabilities.ndim == 1 else len(readout.probabilities)
        return readout, replace(
            account,
            circuits=account.circuits + circuits,
            shots=account.shots + circuits * (readout.shots or 0),
            device_time_s=account.device_time_s + time.monotonic() - begun,
            job_ids=(*account.job_ids, *ids)[-JOBS_KEPT:],
            rng=generator_state(rng),
            qpu_seconds=account.qpu_seconds + (wanted.qpu_seconds or 0.0),
            cost=account.cost + (wanted.cost or 0.0),
            replayed=account.replayed + replayed,
        )

    def provenance(self, account: Account) -> dict[str, Any]:
        """Which machine it was, and of how many circuits the results came from the journal."""
        found: dict[str, Any] = {"device": self.device.name}
        with contextlib.suppress(clock.OutOfTime), clock.within(self._late()):
            found["device"] = self.device.identity
        if self.journal is not None:
            found["circuits_from_journal"] = account.replayed
        if self.resources_error is not None:
            found["resources"] = self.resources_error
        return found

    def rest(self) -> None:
        """Let other processes use the journal until the next batch; a laboratory that is dropped does so by itself."""
        if self._live is not None:
            self._live.close()
            self._live = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None}

    def cost(self, account: Account, circuit: ParametricCircuit) -> dict[str, float | int | None]:
        """The fields of `Cost` an account and its largest circuit fill.

        Gates are those of the circuit as it was built where the device fails to say what it runs, or hangs; they are 0
        where the time is over before it is built.
        """
        try:
            with clock.within(self._late()):
                resources = self.device.resources(circuit)
        except (DeviceError, clock.OutOfTime) as error:
            resources = Resources(circuit.n_qubits, 0, 0, circuit.n_parameters)
            self.resources_error = f"gates are not counted: {UNBUILT}"
            with contextlib.suppress(clock.OutOfTime):
                resources = self.built(circuit, lambda: count(circuit.build()))
                self.resources_error = f"of the circuit as it was built, for its device did not say: {error}"
        return {
            "circuits": account.circuits,
            "shots": account.shots,
            "device_time_s": account.device_time_s,
            "qubits": resources.qubits,
            "depth": resources.depth,
            "two_qubit_gates": resources.two_qubit_gates,
            "success_probability": None,
        }

    def built(self, circuit: ParametricCircuit, call: Callable[[], T]) -> T:
        """What needs the circuit itself, and not the device; `OutOfTime` a moment after the run's time, and from then
        on at once."""
        if self.unbuilt:
            raise clock.OutOfTime
        self.unbuilt = True
        with clock.within(self._late()):
            found = cast("Guarded", self.device).built(circuit, call)
        self.unbuilt = False
        return found

    def _late(self) -> float | None:
        """Until when the device, or Qiskit, is waited for after the run: a moment after its time."""
        return None if self._until is None else max(self._until, time.monotonic()) + LATE_S


class Ledger:
    """An account under way, for what asks for measurements and knows nothing of accounts: an integrator, a search.

    Attributes
    ----------
    account : Account
        With all booked that was measured through this.
    """

    def __init__(self, lab: Laboratory, account: Account) -> None:
        self.lab, self.account = lab, account

    def measure(self, circuit: ParametricCircuit, theta: ArrayLike, shots: int | None) -> NDArray:
        """`Laboratory.measure`, booked."""
        distributions, self.account = self.lab.measure(self.account, circuit, theta, shots)
        return distributions


@dataclass(frozen=True)
class QuantumContext:
    """What a run on circuits works with; engines add what is theirs."""

    workspace: Workspace
    lab: Laboratory
