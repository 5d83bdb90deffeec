"""Send batches to a device and collect their read-outs, each job once, despite errors and dying processes.

A batch is split into parts that the device accepts. The journal records each part under its own tag before it is sent.
A part that may have been sent is not sent again unless the device has no job of its tag, or the user requests it. Calls
that fail temporarily are repeated, and the status of a remote job is requested at growing intervals. Every wait checks
the run's deadline, so that time limits and Ctrl-C end it.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.runtime import clock
from ...exceptions import DeviceError, ProblemError
from ..circuits import ParametricCircuit
from ..devices import Device, Job, Price, Readout
from .job_record import JobRecord, bindings_digest, checked_readout, join_readouts, readout_from_journal
from .journal import Journal, JournalWriteError, damaged_error
from .spending import Budget, Spent

#: Attempts of a call that fails temporarily.
MAX_ATTEMPTS = 6
#: Seconds before the second attempt; they double from attempt to attempt. Each pause is shortened at random by up to a
#: half, so that runs which failed together do not repeat the call together.
FIRST_PAUSE_S = 1.0
#: Most seconds between two attempts.
MAX_PAUSE_S = 60.0
#: Factor of the seconds between two requests for a job's status.
POLL_GROWTH = 1.3
#: Most seconds between two requests for a job's status, unless the vendor's own library waits longer.
MAX_POLL_S = 30.0
#: Seconds between two checks of the run's deadline.
CLOCK_CHECK_S = 0.1

T = TypeVar("T")


def retry(call: Callable[[], T]) -> T:
    """Return the result of a call; repeat it up to `MAX_ATTEMPTS` times while it fails temporarily."""
    for attempt in range(1, MAX_ATTEMPTS):
        try:
            return call()
        except DeviceError as error:
            if not error.transient:
                raise
        pause_before(attempt)
    return call()


def pause_before(attempt: int) -> None:
    """Sleep before attempt ``attempt`` + 1."""
    _sleep(min(FIRST_PAUSE_S * 2.0 ** (attempt - 1), MAX_PAUSE_S) * random.uniform(0.5, 1.0))


def wait(device: Device, job: Job) -> Readout:
    """Wait for a job and return its read-out; poll the status of a remote job until it is done or its time is over."""
    if device.remote:
        pause, begun, timeout_s = job.poll_s, time.monotonic(), getattr(job, "timeout_s", None)
        while not retry(job.done) and (timeout_s is None or time.monotonic() - begun <= timeout_s):
            _sleep(pause)
            pause = max(job.poll_s, min(POLL_GROWTH * pause, MAX_POLL_S))
    return retry(job.result)


def _sleep(seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        clock.check_time()
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, CLOCK_CHECK_S))


#: Sentence in the error of an exceeded budget if there is no journal.
NO_JOURNAL_NOTE = (
    ". Without a journal only the jobs of this process and of its checkpoint are counted, not those that another "
    "process sent before it died; use journal= to count all"
)
#: Sentence in the error about a job whose state is unknown.
RESEND_ADVICE = (
    "Check at the vendor whether it exists; resend=True (dualflow jobs resume --resend) sends it again, and may pay "
    "for it twice"
)


@dataclass(frozen=True)
class Part:
    """The part of a batch that is sent as one job: some bindings, some of their shots, and the journal's record."""

    circuit: ParametricCircuit
    values: ArrayLike
    record: JobRecord

    @property
    def spending(self) -> Spent:
        """Shots and price of the part."""
        record = self.record
        return Spent(record.circuits * (record.shots or 0), record.qpu_seconds, record.cost)


class Sender:
    """Sends batches to one device.

    Parameters
    ----------
    device : Device
    journal : Journal or None
    budget : Budget
    resend : bool
        Send a job again that may have been sent and paid for, if the device cannot tell whether it was.
    mitigation : str, optional
        Method of the run, for the journal.
    """

    def __init__(
        self,
        device: Device,
        journal: Journal | None,
        budget: Budget | None = None,
        resend: bool = False,
        mitigation: str | None = None,
    ) -> None:
        self.device, self.journal, self.budget, self.resend = device, journal, budget or Budget(), resend
        self.mitigation, self.sent = mitigation, Spent()
        self.identity = device.name
        if journal is not None:
            self.identity = device.identity
            journal.claim_machine(device.name, device.configuration)
        self._token, self._number = secrets.token_hex(8), 0

    def read(
        self, circuit: ParametricCircuit, theta: ArrayLike, shots: int | None, label: str, seed: int, before: Spent
    ) -> tuple[Readout, list[str], Spent, int]:
        """Send a batch, or find it in the journal, and return its read-out.

        Parameters
        ----------
        circuit, theta, shots
            As of `Device.submit`.
        label : str
            Purpose of the batch, for the journal.
        seed : int
        before : Spent
            What the run had spent before this object was made, as far as its state shows.

        Returns
        -------
        readout : Readout
            Little-endian.
        job_ids : list of str
        spent : Spent
            Shots and price of all jobs of the batch.
        replayed : int
            Number of circuits whose results came from the journal.
        """
        parts = self._parts(circuit, theta, shots, label, seed)
        known = [self._from_journal(part) for part in parts]
        unsent = [part.spending for part, run in zip(parts, known, strict=True) if run is None]
        if unsent:
            # Send all parts or, if the budget does not hold them, none; submit all before waiting for the first.
            self.budget.check(self._spent(before), sum(unsent, Spent()), self.device.name, self._budget_note)
        runs = [self._send(part, before) if run is None else run for part, run in zip(parts, known, strict=True)]
        readouts = [run if isinstance(run, Readout) else self.collect(*run) for run in runs]
        shape = (*np.shape(theta)[:-1], 2**circuit.n_qubits)
        ids = [readout.job_id for readout in readouts]
        replayed = sum(part.record.circuits for part, run in zip(parts, known, strict=True) if isinstance(run, Readout))
        return join_readouts(readouts, shape, shots), ids, sum((part.spending for part in parts), Spent()), replayed

    def _parts(
        self, circuit: ParametricCircuit, theta: ArrayLike, shots: int | None, label: str, seed: int
    ) -> list[Part]:
        """Split a batch into parts within the device's limits of circuits and shots."""
        values = np.asarray(circuit.check_parameters(theta))
        pieces = self.device.limits.parts(len(np.atleast_2d(values)), shots)
        if len(pieces) == 1:  # pass ``theta`` itself: devices compute a `Shifts` array faster
            return [Part(circuit, theta, self._record(circuit, values, shots, label, seed))]
        seeds = np.random.SeedSequence(seed).generate_state(len(pieces)) >> 1
        several = np.atleast_2d(values)
        return [
            Part(circuit, several[rows], self._record(circuit, several[rows], part_shots, label, int(part_seed)))
            for (rows, part_shots), part_seed in zip(pieces, seeds, strict=True)
        ]

    def _record(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, label: str, seed: int
    ) -> JobRecord:
        """Return the record of a part, with the device's price."""
        circuits = len(np.atleast_2d(values))
        price = Price(0.0, 0.0) if shots is None else self.device.price(circuit, circuits, shots)
        return JobRecord(
            label,
            self.identity,
            repr(circuit),
            circuit.n_qubits,
            bindings_digest(values) if self.journal else "",
            circuits,
            None if shots is None else int(shots),
            seed,
            self.mitigation,
            price.qpu_seconds,
            price.cost,
            price.currency,
        )

    @property
    def _budget_note(self) -> str:
        """A sentence on jobs that the budget does not count, for remote devices without a journal."""
        return "" if self.journal is not None or not self.device.remote else NO_JOURNAL_NOTE

    def _spent(self, before: Spent) -> Spent:
        """Return what the run has spent, as far as its state, this object and the journal show."""
        known = before + self.sent
        return known if self.journal is None else self.journal.spent().at_least(known)

    def _from_journal(self, part: Part) -> Readout | tuple[JobRecord, Job] | None:
        """Return a part's read-out from the journal, or its record and job at the device; None if it must be sent."""
        record = None if self.journal is None else self.journal.find(part.record)
        if self.journal is None or record is None or record.state in ("failed", "not sent", "given up"):
            return None
        if record.state == "done" and (values := self.journal.result(record)) is not None:
            try:
                return readout_from_journal(record, values)
            except DeviceError as error:
                raise damaged_error(self.journal.path, error) from error
        return self.find_at_device(record)

    def find_at_device(self, record: JobRecord) -> tuple[JobRecord, Job] | None:
        """Find a job of the journal that may still run again at the device; return None if it must be sent again.

        Raises
        ------
        DeviceError
            The state of the job is unknown.
        """
        assert self.journal is not None
        if record.job_id is None:
            if not self.device.remote:
                self.journal.note(record, "given up", "the process that ran it ended")
                return None
            try:
                job_id = retry(partial(self.device.lookup, record.tag))
            except DeviceError as error:
                if error.transient:
                    raise
                self._give_up(record, "may have been sent, and its id was not received", error)
                return None
            if job_id is None:
                self.journal.note(record, "not sent", "the device has no job of its tag")
                return None
            record = self.journal.note(record, "sent", job_id=job_id)
        try:
            return record, retry(partial(self.device.fetch, str(record.job_id)))
        except DeviceError as error:
            if error.transient:
                raise
            self._give_up(record, "was sent, and cannot be found", error)
            return None

    def _give_up(self, record: JobRecord, what: str, error: DeviceError) -> None:
        """Mark a job as given up, so that it is sent again; raise `DeviceError` if that could pay for it twice."""
        assert self.journal is not None
        if self.device.remote and not self.resend:
            job = f"a job of {record.intended} (tag {record.tag})"
            raise DeviceError(f"{job} {what}: {error}. {RESEND_ADVICE}", sent=None)
        self.journal.note(record, "given up", str(error))

    def _send(self, part: Part, before: Spent) -> tuple[JobRecord, Job]:
        """Send a part; repeat this while it fails temporarily and the part has certainly not reached the machine."""
        attempt = 1
        while True:
            record = self._write_intent(part, before)
            self._number += 1
            tag = record.tag or f"dualflow-{self._token}-{self._number}"
            sent_before, self.sent = self.sent, self.sent + part.spending
            # A simulator's job id is a digest of its content and tag: use a tag without random digits.
            tag = tag if self.device.remote else record.label
            try:
                job = self.device.submit(part.circuit, part.values, record.shots, tag, record.seed)
            except ProblemError as error:
                self._note(record, "not sent", str(error))
                raise
            except DeviceError as error:
                job_id = self._find_sent_job(record, tag, error)
                if job_id is None:
                    self.sent = sent_before
                    self._note(record, "not sent", str(error))
                    if not error.transient or attempt == MAX_ATTEMPTS:
                        raise
                    pause_before(attempt)
                    attempt += 1
                    continue
                record = self._note(record, "sent", job_id=job_id)
                return record, retry(partial(self.device.fetch, job_id))
            return self._note(record, "sent", job_id=job.job_id), job

    def _write_intent(self, part: Part, before: Spent) -> JobRecord:
        """Write the part's record to the journal and return it; check the budget in the same transaction."""

        def allow(spent: Spent) -> None:
            self.budget.check(spent.at_least(before + self.sent), part.spending, self.device.name, self._budget_note)

        if self.journal is None:
            allow(Spent())
            return part.record
        try:
            return self.journal.intend(part.record, allow)
        except JournalWriteError as error:
            if self.device.remote or self.budget:
                raise DeviceError(f"{error}; nothing was sent", sent=False) from error
            self.journal.warn_unwritten(error)
            return part.record

    def _find_sent_job(self, record: JobRecord, tag: str, error: DeviceError) -> str | None:
        """Return the id of a job whose submission failed, or None if it certainly has not reached the machine."""
        if error.sent is False:
            return None
        if not self.device.remote:
            self._note(record, "failed", str(error))
            raise error
        try:
            job_id = retry(partial(self.device.lookup, tag))
        except DeviceError as unknown:
            raise DeviceError(
                f"{error}; whether job {tag} was sent is not known: {unknown}. {RESEND_ADVICE}", sent=None
            ) from error
        if job_id is None and error.sent:
            raise DeviceError(f"{error}; it was sent, and there is no job of its tag {tag}. {RESEND_ADVICE}", sent=None)
        return job_id

    def collect(self, record: JobRecord, job: Job) -> Readout:
        """Wait for a job, write its result to the journal and return its read-out."""
        try:
            readout = checked_readout(wait(self.device, job), record, job).ordered("little")
        except DeviceError as error:
            self._note(record, "failed" if self._is_lost(job) else "sent", str(error))
            raise
        values = readout.probabilities if readout.counts is None else readout.counts
        if self.journal is not None:
            self.journal.keep(record, values.reshape(record.circuits, -1))
        return readout

    def _is_lost(self, job: Job) -> bool:
        """Return whether a job without a read-out will never have one.

        A remote job that is done is paid for; unless ``resend`` is set, its result is requested again.
        """
        try:
            status = retry(job.status)
        except DeviceError:
            return False
        return status in ("failed", "cancelled") or (status == "done" and (self.resend or not self.device.remote))

    def _note(self, record: JobRecord, state: str, note: str = "", job_id: str | None = None) -> JobRecord:
        return record if self.journal is None else self.journal.note(record, state, note, job_id)
