"""The laboratory: measures batches of circuits on one device for a solver and keeps account of their cost.

It checks the order of bits, calibrates and mitigates read-out errors, and compares some read-outs with the
distributions of their circuits. Pearson's χ² test decides whether noise has left a distribution uniform.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.runtime import clock
from ...core.runtime.random import generator, generator_state
from ...core.workspace import Workspace
from ...exceptions import DeviceError
from ..circuits import ParametricCircuit
from ..circuits.resources import Resources, count
from ..devices import Device, Readout
from ..devices.bit_order import CHECK_SEED, SHOTS_PER_STATE, basis_states, checking_shots
from .fidelity import MAX_QUBITS, MAX_ROWS, Fidelity, checked_rows
from .guarded import Guarded, guarded
from .journal import Journal
from .journal_lock import JournalLock
from .mitigation import (
    CALIBRATION_SHOTS,
    calibrations,
    check_installed,
    confusion_matrices,
    mitigate,
    overhead,
)
from .recording import keep
from .sending import Sender
from .spending import Budget, Spent

#: Probability that `is_uniform` is False for counts of the uniform distribution.
FALSE_ALARM_RATE = 1e-3
#: Most probability that `is_uniform` is True for a distribution that `is_distinct_from_uniform` accepts.
MISS_RATE = 1e-6
#: Largest deviation of an exact uniform distribution from 1/N, by round-off.
MAX_ROUND_OFF = 1e-12
#: Smallest deviation from 1/N at which an exact distribution counts as distinct from the uniform one.
MIN_DEVIATION = 1e-6


def is_uniform(found: NDArray, shots: float | None) -> bool:
    """Return whether frequencies of shape (N,) are compatible with 1/N.

    That is χ² = S N Σ (π − 1/N)² within its 1 − 1e-3 quantile, with the number of shots S = ``shots``; None for exact
    distributions.
    """
    outcomes = len(found)
    if shots is None:
        return bool(np.abs(found - 1 / outcomes).max() <= MAX_ROUND_OFF)
    from scipy.special import chdtri  # its import takes 0.06 s, which exact runs do not need

    return bool(_chi_square(found, shots) <= chdtri(outcomes - 1, FALSE_ALARM_RATE))


def is_distinct_from_uniform(distribution: NDArray, shots: float | None) -> bool:
    """Return whether S shots of a distribution would pass `is_uniform` with a probability of at most 1e-6.

    χ² of these shots is noncentral with λ = S N Σ (π − 1/N)².
    """
    outcomes = len(distribution)
    if shots is None:
        return bool(np.abs(distribution - 1 / outcomes).max() > MIN_DEVIATION)
    from scipy.special import chdtri, chndtr

    limit = chdtri(outcomes - 1, FALSE_ALARM_RATE)
    return bool(chndtr(limit, outcomes - 1, _chi_square(distribution, shots)) <= MISS_RATE)


def _chi_square(frequencies: NDArray, shots: float) -> float:
    outcomes = len(frequencies)
    return float(shots * outcomes * ((frequencies - 1 / outcomes) ** 2).sum())


#: Job ids kept in an account; the last ones.
MAX_JOB_IDS = 10
#: Seconds after a run's deadline in which its device may report the gates of a circuit; the same again for a count by
#: dualflow itself.
GRACE_S = 0.2
#: Reason reported for a result that needs a circuit which was not built.
UNBUILT_REASON = "the time was over before the circuit was built"

T = TypeVar("T")


@dataclass(frozen=True)
class Account:
    """The measurements of a run so far, which a solver's state keeps."""

    rng: dict[str, Any]  # state of the generator that draws the seeds of batches
    #: circuits, shots: numbers of all circuits and shots that were measured.
    circuits: int = 0
    shots: int = 0
    device_time_s: float = 0.0  # seconds that all batches took
    job_ids: tuple[str, ...] = ()  # ids of the last jobs
    #: By circuit, the confusion matrices of its read-out, if it is mitigated; dict of lists of shape (q, 2, 2).
    calibrations: dict[str, Any] = field(default_factory=dict)
    #: qpu_seconds, cost: by the device's `price`; batches without a known price count 0.
    qpu_seconds: float = 0.0
    cost: float = 0.0
    ordered: tuple[str, ...] = ()  # circuits whose bit order was checked, for devices that need the check
    replayed: int = 0  # number of circuits whose results came from the journal
    #: Fidelity of the read-outs, before mitigation, to the distributions of their circuits.
    fidelity: Fidelity = field(default_factory=Fidelity)

    @classmethod
    def opened(cls, rng: np.random.Generator) -> Account:
        """Return an account without measurements."""
        return cls(generator_state(rng))


class Laboratory:
    """Runs batches of circuits on a device and adds them to an account.

    Parameters
    ----------
    device : Device
    tag : str
        Label of the jobs, such as the solver's name.
    mitigation : {"confusion", "mthree", "circuit"}, optional
        Method of error mitigation for batches with shots. Two or four calibration circuits are run and counted before
        the first batch of each circuit.
    journal : str or Path, optional
        File of the jobs of this run, shared by all its processes. Jobs in it are not sent again.
    data : str, optional
        Digest of the run's data; the journal of a run with other data is refused.
    budget : Budget, optional
        Limits of what the run may spend, over all its processes as far as the journal and the account record them.
    resend : bool, default=False
        Send a job again that a process which died may have sent, if the device cannot tell whether it was.
    min_fidelity : float, optional
        Raise an error if the slope of `Fidelity` is below this by more than shot noise explains.
    compared : int ≥ 1
        Number of circuits of each batch whose read-outs are compared with their distributions.

    Raises
    ------
    SolverUnavailable
        The mitigation's package is not installed.
    ProblemError
        The journal cannot be used, or belongs to other data; or, from `measure`, another process uses it.
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
        #: Why the device did not report the gates of a circuit.
        self.resources_error: str | None = None
        #: Whether the deadline passed before a circuit was built.
        self.unbuilt = False
        left = clock.seconds_left()
        self._deadline = None if left is None else time.monotonic() + left
        self._live: JournalLock | None = None
        self._spent_before: Spent | None = None  # by the account with which the run began or resumed

    def measure(
        self, account: Account, circuit: ParametricCircuit, theta: ArrayLike, shots: int | None
    ) -> tuple[NDArray, Account]:
        """Measure one batch; return its little-endian distributions and the account with the batch added.

        Parameters
        ----------
        account : Account
            Not changed.
        circuit : ParametricCircuit
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
            The job was refused, failed, cancelled or lost; the batch exceeds the budget; a confusion matrix is
            singular; or the fidelity of all read-outs is below ``min_fidelity``.
        """
        account = self._with_checked_bits(account, circuit)
        if self.mitigation is None or shots is None:
            readout, account = self._run(account, circuit, theta, shots)
            return readout.probabilities, self._with_fidelity(account, circuit, theta, readout)
        account = self._with_calibration(account, circuit, shots)
        readout, account = self._run(account, circuit, theta, shots)
        account = self._with_fidelity(account, circuit, theta, readout)
        return mitigate(self.mitigation, readout, account.calibrations[repr(circuit)]), account

    def _with_fidelity(
        self, account: Account, circuit: ParametricCircuit, theta: ArrayLike, readout: Readout
    ) -> Account:
        """Return the account with the fidelity of a few read-outs of a batch added."""
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
                "the device, use another one, or lower min_fidelity",
                sent=True,
            )
        return replace(account, fidelity=fidelity)

    def is_noise_dominated(
        self, account: Account, circuit: ParametricCircuit, theta: NDArray, found: NDArray, shots: int | None
    ) -> bool:
        """Return whether a measured distribution is uniform because of noise.

        That is the case if the circuit's own distribution at these angles is not uniform, or if the fidelity of all
        circuits of the run is 0. The latter detects noise that keeps a state at a uniform start.
        """
        effective = None if shots is None else self.effective_shots(account, circuit, shots)
        if not is_uniform(found, effective):
            return False
        return is_distinct_from_uniform(circuit.distribution(theta), effective) or account.fidelity.is_zero()

    def effective_shots(self, account: Account, circuit: ParametricCircuit, shots: int) -> float:
        """Return the number of shots without mitigation whose noise is at most that of ``shots`` with mitigation."""
        factors = account.calibrations.get(repr(circuit))
        return shots if factors is None else shots / overhead(factors)

    def preparation(self, circuit: ParametricCircuit, shots: int | None) -> int:
        """Return the shots before a circuit's first batch: for the check of its bit order and its calibration.

        Parameters
        ----------
        circuit : ParametricCircuit
        shots : int or None
            Of each circuit of that batch.
        """
        check = checking_shots(circuit.n_qubits) if self.device.wants_check(circuit) else 0
        if self.mitigation is None or shots is None:
            return check
        ends = sum(len(bindings) for _, bindings in calibrations(self.mitigation, circuit))
        return check + ends * max(shots, CALIBRATION_SHOTS)

    def _with_checked_bits(self, account: Account, circuit: ParametricCircuit) -> Account:
        """Return the account with the check of a circuit's bit order added, if the device needs one."""
        if not self.device.wants_check(circuit):
            return account
        if repr(circuit) in account.ordered:  # the process that this one resumes has checked it
            self.device.check_read(circuit, None)
            return account
        states, batches = basis_states(circuit)
        readouts = []
        for bindings in batches:
            readout, account = self._run(account, states, bindings, SHOTS_PER_STATE, seed=CHECK_SEED)
            readouts.append(readout)
        self.device.check_read(circuit, readouts)
        return replace(account, ordered=(*account.ordered, repr(circuit)))

    def _with_calibration(self, account: Account, circuit: ParametricCircuit, shots: int) -> Account:
        """Return the account with the confusion matrices of a circuit's qubits added."""
        if repr(circuit) in account.calibrations:
            return account
        assert self.mitigation is not None  # checked by the caller
        shots, factors = max(shots, CALIBRATION_SHOTS), np.tile(np.eye(2), (circuit.n_qubits, 1, 1))
        for run, bindings in calibrations(self.mitigation, circuit):
            readout, account = self._run(account, run, bindings, shots)
            prepared = range(circuit.n_qubits) if run.ends is None else run.ends[1]
            factors[list(prepared)] = confusion_matrices(readout.probabilities, shots, prepared)
        return replace(account, calibrations=account.calibrations | {repr(circuit): factors.tolist()})

    def _run(
        self,
        account: Account,
        circuit: ParametricCircuit,
        theta: ArrayLike,
        shots: int | None,
        seed: int | None = None,
    ) -> tuple[Readout, Account]:
        """Run a batch and add it to the account; the default seed is the account's next one."""
        if self._live is None and self.journal is not None:
            self._live = JournalLock(self.journal)
        rng = generator(account.rng)
        if seed is None:
            seed = int(rng.integers(2**31))
        begun = time.monotonic()
        if self._spent_before is None:
            self._spent_before = Spent(account.shots, account.qpu_seconds, account.cost)
        label = f"{self.tag} {account.circuits}"
        keep(circuit, theta, shots)
        readout, ids, wanted, replayed = self._sender.read(circuit, theta, shots, label, seed, self._spent_before)
        circuits = 1 if readout.probabilities.ndim == 1 else len(readout.probabilities)
        return readout, replace(
            account,
            circuits=account.circuits + circuits,
            shots=account.shots + circuits * (readout.shots or 0),
            device_time_s=account.device_time_s + time.monotonic() - begun,
            job_ids=(*account.job_ids, *ids)[-MAX_JOB_IDS:],
            rng=generator_state(rng),
            qpu_seconds=account.qpu_seconds + (wanted.qpu_seconds or 0.0),
            cost=account.cost + (wanted.cost or 0.0),
            replayed=account.replayed + replayed,
        )

    def provenance(self, account: Account) -> dict[str, Any]:
        """Return the device, the number of circuits from the journal, and why gates were not counted, if so."""
        found: dict[str, Any] = {"device": self.device.name}
        with contextlib.suppress(clock.OutOfTime), clock.within(self._grace_end()):
            found["device"] = self.device.identity
        if account.shots and (drawing := self.device.drawing) is not None:
            found["shots_drawn"] = drawing
        if self.journal is not None:
            found["circuits_from_journal"] = account.replayed
        if self.resources_error is not None:
            found["resources"] = self.resources_error
        return found

    def rest(self) -> None:
        """Release the journal to other processes until the next batch; deleting the laboratory does so too."""
        if self._live is not None:
            self._live.close()
            self._live = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": None}

    def cost(self, account: Account, circuit: ParametricCircuit) -> dict[str, float | int | None]:
        """Return the fields of `Cost` that follow from an account and its largest circuit.

        If the device fails to report the gates it runs, or hangs, gates are counted in the circuit as dualflow builds
        it. They are 0 if the deadline passes before it is built.
        """
        try:
            with clock.within(self._grace_end()):
                resources = self.device.resources(circuit)
        except (DeviceError, clock.OutOfTime) as error:
            resources = Resources(circuit.n_qubits, 0, 0, circuit.n_parameters)
            self.resources_error = f"gates are not counted: {UNBUILT_REASON}"
            with contextlib.suppress(clock.OutOfTime):
                resources = self.built(circuit, lambda: count(circuit.build()))
                self.resources_error = (
                    f"of the circuit as it was built, because its device did not report them: {error}"
                )
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
        """Return the result of a call that builds a circuit and does not use the device.

        `OutOfTime` is raised shortly after the run's deadline, and immediately by every later call.
        """
        if self.unbuilt:
            raise clock.OutOfTime
        self.unbuilt = True
        with clock.within(self._grace_end()):
            found = cast("Guarded", self.device).built(circuit, call)
        self.unbuilt = False
        return found

    def _grace_end(self) -> float | None:
        """Return the time until which to wait for the device or Qiskit after the run's deadline; None without one."""
        return None if self._deadline is None else max(self._deadline, time.monotonic()) + GRACE_S


class Ledger:
    """Holds an account for callers that measure without handling accounts, such as integrators and searches.

    Attributes
    ----------
    account : Account
        With all measurements made through this object.
    """

    def __init__(self, lab: Laboratory, account: Account) -> None:
        self.lab, self.account = lab, account

    def measure(self, circuit: ParametricCircuit, theta: ArrayLike, shots: int | None) -> NDArray:
        """Return the distributions of a batch and add it to the account; see `Laboratory.measure`."""
        distributions, self.account = self.lab.measure(self.account, circuit, theta, shots)
        return distributions


@dataclass(frozen=True)
class QuantumContext:
    """The workspace and laboratory of a run on circuits; solvers add their own fields."""

    workspace: Workspace
    lab: Laboratory
