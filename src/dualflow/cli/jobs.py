"""`dualflow jobs`: what is in a run's journal, and what the device has of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .output import Json, clear_errors, print_table, say, say_json

if TYPE_CHECKING:
    from ..quantum.devices import Device, Job
    from ..quantum.runs.journal import JobRecord
    from ..quantum.runs.sending import Sender

__all__ = ["jobs"]

jobs = typer.Typer(name="jobs", help="The jobs in a run's journal: its solver's option journal.", no_args_is_help=True)

File = Annotated[Path, typer.Argument(help="The journal.")]
One = Annotated[str, typer.Argument(help="Its tag, or the device's id of it.")]
Some = Annotated[str | None, typer.Argument(help="Its tag, or the device's id of it; all by default.")]
On = Annotated[str | None, typer.Option("--device", help="The device they are on, if the journal's word will not do.")]


@jobs.command("list")
def list_jobs(file: File, json: Json = False) -> None:
    """List the jobs: what was sent where, and what came of it."""
    with clear_errors():
        from ..quantum.runs.journal import read_journal

        rows = [
            (
                record.tag,
                record.job_id or "",
                record.intended,
                record.device,
                record.label,
                record.circuit,
                record.circuits,
                "exact" if record.shots is None else record.shots,
                _outcome(record),
            )
            for record in read_journal(file)
        ]
        headers = ("tag", "job", "written down", "device", "for", "circuit", "circuits", "shots", "outcome")
        print_table(headers, rows, json)


@jobs.command()
def show(file: File, job: One, json: Json = False) -> None:
    """Show all that is known of one job."""
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


@jobs.command()
def fetch(file: File, job: Some = None, device: On = None) -> None:
    """Ask once: what is done is fetched and kept, what is not is left where it is."""

    def collect(sender: Sender, record: JobRecord, found: Job) -> str:
        if not found.done():
            return found.status()
        sender.collect(record, found)
        return "done"

    _each(file, job, device, False, collect)


@jobs.command()
def resume(
    file: File,
    job: Some = None,
    device: On = None,
    resend: Annotated[
        bool, typer.Option(help="What the device cannot say of may be sent again, and paid twice.")
    ] = False,
) -> None:
    """Wait for what is queued or runs, and settle what is in doubt, so that the same run goes on without waiting.

    The run itself goes on by the call that began it, with the same journal, data and seed.
    """

    def collect(sender: Sender, record: JobRecord, found: Job) -> str:
        sender.collect(record, found)
        return "done"

    _each(file, job, device, resend, collect)


@jobs.command()
def cancel(file: File, job: Some = None, device: On = None) -> None:
    """Take back what has not run yet."""

    def withdraw(sender: Sender, record: JobRecord, found: Job) -> str:
        if found.status() == "done":
            return "it has run; dualflow jobs fetch keeps what it gave"
        found.cancel()
        assert sender.journal is not None
        sender.journal.note(record, "failed", "it was cancelled")
        return "cancelled"

    _each(file, job, device, False, withdraw)


@jobs.command()
def convert(
    file: File,
    new: Annotated[Path, typer.Argument(help="The journal to be made.")],
    device: Annotated[str, typer.Option(help="The device its jobs are on, on your word.")],
) -> None:
    """Take over the jobs of an earlier version's journal, whose results pass the checks, into a new one."""
    with clear_errors():
        from ..quantum.devices import make_device
        from ..quantum.runs.older_journal import convert_journal

        number = convert_journal(file, new, make_device(device))
        say(f"{number} jobs of {file} are in {new}, as those of {device}.", err=False)


def _each(
    file: Path, job: str | None, device: str | None, resend: bool, act: Callable[[Sender, JobRecord, Job], str]
) -> None:
    """Do something with each job that is not over, and say what came of it; exit code 1 if one is in trouble."""
    with clear_errors():
        from ..exceptions import DeviceError, ProblemError
        from ..quantum.runs.journal import Journal, read_journal
        from ..quantum.runs.live import JournalLock
        from ..quantum.runs.sending import Sender

        chosen = _chosen(read_journal(file), job)
        waiting, troubled = [r for r in chosen if r.state in ("intended", "sent")], False
        if not waiting:
            say("There is no job of which anything is to be heard.")
            return
        journal, made = Journal(file), {}
        live = JournalLock(journal)  # a run under way looks after its own jobs
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
        raise ProblemError(f"no job {job!r} is in the journal; dualflow jobs list shows which are")
    return chosen


def _device(name: str, given: str | None) -> Device:
    """The device of a journal; names that reach beyond dualflow's own are the user's to say, not the file's."""
    from ..exceptions import DeviceError, ProblemError
    from ..persistence.unconfirmed import Unconfirmed
    from ..quantum.devices import make_device

    try:
        made = make_device(given or Unconfirmed(name))
    except (ProblemError, DeviceError) as error:
        if given is not None:
            raise
        made_by = "backend:<module>:<factory>, which makes it" if name.endswith(")") else name
        raise ProblemError(
            f"the journal's jobs are on device {name!r}; if you trust that, say --device {made_by}"
        ) from error
    if made.identity != name:
        raise ProblemError(f"--device {given or name} is {made.identity!r}; the journal's jobs are on {name!r}")
    return made


def _outcome(record: JobRecord) -> str:
    return f"{record.state}: {record.note}" if record.note else record.state
