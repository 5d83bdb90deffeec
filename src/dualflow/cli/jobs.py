"""`dualflow jobs`: list, fetch, resume and cancel the device jobs in a run's journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import GroupedCommand
from .output import Json, clear_errors, print_table, say, say_json

if TYPE_CHECKING:
    from ..quantum.devices import Device, Job
    from ..quantum.runs.journal import JobRecord
    from ..quantum.runs.sending import Sender

jobs = typer.Typer(
    name="jobs",
    help="List, fetch, resume or cancel jobs on quantum computers.\n\n"
    "They are those in a run's journal, the file of the solver option journal.",
    no_args_is_help=True,
)

#: Longest name of a device that is printed on one line: with the tag it leaves 20 of 80 columns.
MAX_DEVICE_CHARS = 30

JournalFile = Annotated[Path, typer.Argument(help="The journal file.")]
JobId = Annotated[str, typer.Argument(help="The job's tag, or its id on the device.")]
OptionalJob = Annotated[str | None, typer.Argument(help="The job's tag, or its id on the device; all jobs by default.")]
JobDevice = Annotated[
    str | None,
    typer.Option("--device", help="The device of the jobs, if the name in the journal is not enough or not trusted."),
]


@jobs.command("list", cls=GroupedCommand)
def list_jobs(file: JournalFile, json: Json = False) -> None:
    """List the jobs: what was sent to which device, and the outcome.

    A table fits 80 columns; --json and `show` have the device's id of a job, its time and its circuit, too.
    """
    with clear_errors():
        from ..quantum.runs.journal import read_journal

        records = read_journal(file)
        if json:
            say_json([_listed(record) for record in records])
            return
        rows = [(record.tag, record.device, _contents(record), _outcome(record)) for record in records]
        longest = max((len(record.device) for record in records), default=0)
        whole = 2 if longest <= MAX_DEVICE_CHARS else 1
        print_table(("tag", "device", "for: circuits × shots", "outcome"), rows, whole=whole)


def _listed(record: JobRecord) -> dict[str, object]:
    """Return a job as a row of ``jobs list --json``."""
    return {
        "tag": record.tag,
        "job": record.job_id or "",
        "written down": record.intended,
        "device": record.device,
        "for": record.label,
        "circuit": record.circuit,
        "circuits": record.circuits,
        "shots": "exact" if record.shots is None else record.shots,
        "outcome": _outcome(record),
    }


def _contents(record: JobRecord) -> str:
    """Return what a job runs as a cell of the table."""
    shots = "exact" if record.shots is None else f"{record.shots:,}"
    return f"{record.label}: {record.circuits:,} × {shots}"


@jobs.command(cls=GroupedCommand)
def show(file: JournalFile, job: JobId, json: Json = False) -> None:
    """Show all data of one job."""
    with clear_errors():
        from dataclasses import asdict

        from ..quantum.runs.job_record import STATES
        from ..quantum.runs.journal import read_journal

        chosen = _chosen(read_journal(file), job)
        if json:
            say_json([asdict(record) for record in chosen])
            return
        for record in chosen:
            about = asdict(record) | {"state": f"{record.state}: {STATES[record.state]}"}
            print_table(("", ""), [(name, "" if value is None else value) for name, value in about.items()])


@jobs.command(cls=GroupedCommand)
def fetch(file: JournalFile, job: OptionalJob = None, device: JobDevice = None) -> None:
    """Query each job once: fetch the results of those that are done, leave the others as they are."""

    def collect(sender: Sender, record: JobRecord, found: Job) -> str:
        if not found.done():
            return found.status()
        sender.collect(record, found)
        return "done"

    _act_on_open_jobs(file, job, device, False, collect)


@jobs.command(cls=GroupedCommand)
def resume(
    file: JournalFile,
    job: OptionalJob = None,
    device: JobDevice = None,
    resend: Annotated[
        bool, typer.Option(help="Send jobs again that the device does not find; they may be paid twice.")
    ] = False,
) -> None:
    """Wait for the jobs that are queued or running, and find out the state of those whose sending was cut off.

    The run continues when it is called again with the same journal, data and seed.
    """

    def collect(sender: Sender, record: JobRecord, found: Job) -> str:
        sender.collect(record, found)
        return "done"

    _act_on_open_jobs(file, job, device, resend, collect)


@jobs.command(cls=GroupedCommand)
def cancel(file: JournalFile, job: OptionalJob = None, device: JobDevice = None) -> None:
    """Cancel the jobs that have not run yet."""

    def withdraw(sender: Sender, record: JobRecord, found: Job) -> str:
        if found.status() == "done":
            return "it has run already; get its results with dualflow jobs fetch"
        found.cancel()
        assert sender.journal is not None
        sender.journal.note(record, "failed", "it was cancelled")
        return "cancelled"

    _act_on_open_jobs(file, job, device, False, withdraw)


def _act_on_open_jobs(
    file: Path, job: str | None, device: str | None, resend: bool, act: Callable[[Sender, JobRecord, Job], str]
) -> None:
    """Apply ``act`` to each open job and print the outcome; exit code 1 if a device raised an error."""
    with clear_errors():
        from ..exceptions import DeviceError, ProblemError
        from ..quantum.runs.journal import Journal, read_journal
        from ..quantum.runs.journal_lock import JournalLock
        from ..quantum.runs.sending import Sender

        chosen = _chosen(read_journal(file), job)
        waiting, troubled = [r for r in chosen if r.state in ("intended", "sent")], False
        if not waiting:
            say("No job is open: each has its results, or has failed.")
            return
        journal, made = Journal(file), {}
        live = JournalLock(journal)  # jobs of a run that is still active belong to that run
        for record in waiting:
            if record.device not in made:
                made[record.device] = Sender(_device(record.device, device), journal, resend=resend)
            sender = made[record.device]
            try:
                found = sender.find_at_device(record)
                outcome = "the next run sends it" if found is None else act(sender, *found)
            except ProblemError:
                raise
            except DeviceError as error:
                troubled, outcome = True, str(error)
            say(f"{record.tag}: {outcome}", err=False)
        live.close()
        if troubled:
            raise typer.Exit(1)


def _chosen(records: list[JobRecord], job: str | None) -> list[JobRecord]:
    from ..exceptions import ProblemError

    if job is None:
        return records
    chosen = [record for record in records if job in (record.tag, record.job_id)]
    if not chosen:
        raise ProblemError(f"the journal has no job {job!r}; dualflow jobs list shows its jobs")
    return chosen


def _device(name: str, given: str | None) -> Device:
    """Return the device of a journal.

    A file may name only dualflow's own devices; the user must give any other with --device.
    """
    from ..exceptions import DeviceError, ProblemError
    from ..persistence.unconfirmed import Unconfirmed
    from ..quantum.devices import make_device

    try:
        made = make_device(given or Unconfirmed(name))
    except (ProblemError, DeviceError) as error:
        if given is not None:
            raise
        device_text = "backend:<module>:<factory>, which makes it" if name.endswith(")") else name
        raise ProblemError(
            f"the journal's jobs are on device {name!r}; if you trust that, add --device {device_text}"
        ) from error
    if made.identity != name:
        raise ProblemError(f"--device {given or name} is {made.identity!r}; the journal's jobs are on {name!r}")
    return made


def _outcome(record: JobRecord) -> str:
    return f"{record.state}: {record.note}" if record.note else record.state
