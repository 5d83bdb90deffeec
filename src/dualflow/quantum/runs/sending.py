"""How a batch reaches a device and its read-out comes back: once, whatever fails on the way.

A batch goes in parts that the device takes. The journal knows of each before it is sent, under a tag of its own. What
may have been sent is not sent again, unless the device says by the tag that it is not there, or the user says so.

Waiting for machines elsewhere: calls tried again where that may help, and looks at a job that grow rarer.

Every wait looks at the clock, so that Ctrl-C and time limits end it as they end anything else.
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
from .job_record import JobRecord, bindings_digest, checked, joined, kept
from .journal import Journal, Unwritten, damaged
from .spending import Budget, Spent

__all__ = ["TRIES", "Sender", "again", "pause_before", "wait"]


#: Tries of a call that fails for the moment; seconds before the second, which double from try to try up to a minute.
#: Each is shortened by chance by up to a half, so that many runs that failed together do not try again together.
TRIES, FIRST_S, LONGEST_S = 6, 1.0, 60.0
#: Growth of the seconds between two looks at a job, up to half a minute unless its vendor's are more.
GROWTH, RAREST_S = 1.3, 30.0
#: Seconds between two looks at the clock.
LOOK_S = 0.1

T = TypeVar("T")


def again(call: Callable[[], T]) -> T:
    """What a call that may be repeated returns; it is, while it fails for the moment."""
    for attempt in range(1, TRIES):
        try:
            return call()
        except DeviceError as error:
            if not error.transient:
                raise
        pause_before(attempt)
    return call()


def pause_before(attempt: int) -> None:
    """The pause before try number ``attempt`` + 1."""
    _rest(min(FIRST_S * 2.0 ** (attempt - 1), LONGEST_S) * random.uniform(0.5, 1.0))


def wait(device: Device, job: Job) -> Readout:
    """The read-out of a job. One elsewhere is looked at now and then until it is done, or its own time is over."""
    if device.remote:
        pause, begun, most = job.poll_s, time.monotonic(), getattr(job, "timeout_s", None)
        while not again(job.done) and (most is None or time.monotonic() - begun <= most):
            _rest(pause)
            pause = max(job.poll_s, min(GROWTH * pause, RAREST_S))
    return again(job.result)


def _rest(seconds: float) -> None:
    until = time.monotonic() + seconds
    while True:
        clock.look()
        left = until - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(left, LOOK_S))


#: What a budget counts where there is no journal.
UNJOURNALLED = (
    ". There is no journal: what this process sent is counted, and what its checkpoint tells, not what another sent "
    "before it died; with journal= all of it is"
)
#: What to do about a job that nobody knows the fate of.
RESEND = (
    "Look with the vendor whether it is there; resend=True (dualflow jobs resume --resend) sends it again, and may pay "
    "for it twice"
)


@dataclass(frozen=True)
class Part:
    """Some bindings of a batch, and some of their shots: what goes as one job, and what a journal says of it."""

    circuit: ParametricCircuit
    values: ArrayLike
    record: JobRecord

    @property
    def wanted(self) -> Spent:
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
        Send again what may be paid for already, where the device cannot say.
    mitigation : str, optional
        For the journal.
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
        """The read-out of a batch, little-endian; the ids of its jobs, what they take, and of how many of its circuits
        the results came from the journal.

        Parameters
        ----------
        circuit, theta, shots
            As of `Device.submit`.
        label : str
            What it is for.
        seed : int
        before : Spent
            What the run had spent before this object was made, as far as its state knows.
        """
        parts = self._parts(circuit, theta, shots, label, seed)
        known = [self._known(part) for part in parts]
        unsent = [part.wanted for part, run in zip(parts, known, strict=True) if run is None]
        if unsent:
            # All of it fits, or none of it is sent; and all is in the queue before anything is waited for.
            self.budget.check(self._spent(before), sum(unsent, Spent()), self.device.name, self._counted)
        runs = [self._send(part, before) if run is None else run for part, run in zip(parts, known, strict=True)]
        readouts = [run if isinstance(run, Readout) else self.collect(*run) for run in runs]
        shape = (*np.shape(theta)[:-1], 2**circuit.n_qubits)
        ids = [readout.job_id for readout in readouts]
        replayed = sum(part.record.circuits for part, run in zip(parts, known, strict=True) if isinstance(run, Readout))
        return joined(readouts, shape, shots), ids, sum((part.wanted for part in parts), Spent()), replayed

    def _parts(
        self, circuit: ParametricCircuit, theta: ArrayLike, shots: int | None, label: str, seed: int
    ) -> list[Part]:
        """Rows of bindings within the device's circuits, and for each their shots within its shots."""
        values = np.asarray(circuit.check_parameters(theta))
        pieces = self.device.limits.parts(len(np.atleast_2d(values)), shots)
        if len(pieces) == 1:  # as it was given: a device may know what it is
            return [Part(circuit, theta, self._record(circuit, values, shots, label, seed))]
        seeds = np.random.SeedSequence(seed).generate_state(len(pieces)) >> 1
        several = np.atleast_2d(values)
        return [
            Part(circuit, several[piece], self._record(circuit, several[piece], load, label, int(own)))
            for (piece, load), own in zip(pieces, seeds, strict=True)
        ]

    def _record(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, label: str, seed: int
    ) -> JobRecord:
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
    def _counted(self) -> str:
        """What a budget does not know, where that may cost."""
        return "" if self.journal is not None or not self.device.remote else UNJOURNALLED

    def _spent(self, before: Spent) -> Spent:
        here = before + self.sent
        return here if self.journal is None else self.journal.spent().at_least(here)

    def _known(self, part: Part) -> Readout | tuple[JobRecord, Job] | None:
        """The read-out of a part that is in the journal, or the job that is with the device; None if it is to be
        sent."""
        record = None if self.journal is None else self.journal.find(part.record)
        if self.journal is None or record is None or record.state in ("failed", "not sent", "given up"):
            return None
        if record.state == "done" and (values := self.journal.result(record)) is not None:
            try:
                return kept(record, values)
            except DeviceError as error:
                raise damaged(self.journal.path, error) from error
        return self.attached(record)

    def attached(self, record: JobRecord) -> tuple[JobRecord, Job] | None:
        """A job of the journal that is not known to be over, found again at the device; None if it is to be sent again.

        Raises
        ------
        DeviceError
            Nobody can say where it is.
        """
        assert self.journal is not None
        if record.job_id is None:
            if not self.device.remote:
                self.journal.note(record, "given up", "the process that ran it ended")
                return None
            try:
                job_id = again(partial(self.device.lookup, record.tag))
            except DeviceError as error:
                if error.transient:
                    raise
                self._give_up(record, "may have been sent, and its id was never heard", error)
                return None
            if job_id is None:
                self.journal.note(record, "not sent", "the device has no job of its tag")
                return None
            record = self.journal.note(record, "sent", job_id=job_id)
        try:
            return record, again(partial(self.device.fetch, str(record.job_id)))
        except DeviceError as error:
            if error.transient:
                raise
            self._give_up(record, "was sent, and cannot be found again", error)
            return None

    def _give_up(self, record: JobRecord, what: str, error: DeviceError) -> None:
        assert self.journal is not None
        if self.device.remote and not self.resend:
            raise DeviceError(f"a job of {record.intended} (tag {record.tag}) {what}: {error}. {RESEND}", sent=None)
        self.journal.note(record, "given up", str(error))

    def _send(self, part: Part, before: Spent) -> tuple[JobRecord, Job]:
        """Send a part, again and again while that fails for the moment and has certainly reached nobody."""
        attempt = 1
        while True:
            record = self._intended(part, before)
            self._number += 1
            tag = record.tag or f"dualflow-{self._token}-{self._number}"
            sent_before, self.sent = self.sent, self.sent + part.wanted
            # The ids of simulators name what they ran, and a tag of chance would be part of that.
            tag = tag if self.device.remote else record.label
            try:
                job = self.device.submit(part.circuit, part.values, record.shots, tag, record.seed)
            except ProblemError as error:
                self._note(record, "not sent", str(error))
                raise
            except DeviceError as error:
                job_id = self._arrived(record, tag, error)
                if job_id is None:
                    self.sent = sent_before
                    self._note(record, "not sent", str(error))
                    if not error.transient or attempt == TRIES:
                        raise
                    pause_before(attempt)
                    attempt += 1
                    continue
                record = self._note(record, "sent", job_id=job_id)
                return record, again(partial(self.device.fetch, job_id))
            return self._note(record, "sent", job_id=job.job_id), job

    def _intended(self, part: Part, before: Spent) -> JobRecord:
        """The part's record, written down; a budget is held in the same transaction."""

        def allow(spent: Spent) -> None:
            self.budget.check(spent.at_least(before + self.sent), part.wanted, self.device.name, self._counted)

        if self.journal is None:
            allow(Spent())
            return part.record
        try:
            return self.journal.intend(part.record, allow)
        except Unwritten as error:
            if self.device.remote or self.budget:
                raise DeviceError(f"{error}; nothing was sent", sent=False) from error
            self.journal.complain(error)
            return part.record

    def _arrived(self, record: JobRecord, tag: str, error: DeviceError) -> str | None:
        """The id of a job whose sending failed, None if it certainly has not arrived."""
        if error.sent is False:
            return None
        if not self.device.remote:
            self._note(record, "failed", str(error))
            raise error
        try:
            job_id = again(partial(self.device.lookup, tag))
        except DeviceError as unknown:
            raise DeviceError(
                f"{error}; whether job {tag} is there is not known: {unknown}. {RESEND}", sent=None
            ) from (error)
        if job_id is None and error.sent:
            raise DeviceError(f"{error}; it was sent, and there is no job of its tag {tag}. {RESEND}", sent=None)
        return job_id

    def collect(self, record: JobRecord, job: Job) -> Readout:
        """Wait for a job, and keep what it gave."""
        try:
            readout = checked(wait(self.device, job), record, job).ordered("little")
        except DeviceError as error:
            self._note(record, "failed" if self._over(job) else "sent", str(error))
            raise
        values = readout.probabilities if readout.counts is None else readout.counts
        if self.journal is not None:
            self.journal.keep(record, values.reshape(record.circuits, -1))
        return readout

    def _over(self, job: Job) -> bool:
        """Whether a job that gave no read-out never will. One that is done elsewhere is paid for: it is asked again."""
        try:
            status = again(job.status)
        except DeviceError:
            return False
        return status in ("failed", "cancelled") or (status == "done" and (self.resend or not self.device.remote))

    def _note(self, record: JobRecord, state: str, note: str = "", job_id: str | None = None) -> JobRecord:
        return record if self.journal is None else self.journal.note(record, state, note, job_id)
