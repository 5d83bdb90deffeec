"""Convert journals of format 2, whose results are not bound to a job and a machine, to the present format."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

from ...exceptions import DeviceError, ProblemError
from ..devices import Device
from .job_record import UNSEALED_FORMAT, connect, format_of, read_rows, readout_from_journal, unpack_result
from .journal import Journal, damaged_error


def convert_journal(old: str | Path, new: str | Path, device: Device) -> int:
    """Copy the jobs of an earlier version's journal into a new journal, as jobs of a device.

    The earlier format contains only the device's name. The caller states that the jobs belong to this machine, with
    its noise, options and compiler. Every result is checked as a read-out.

    Parameters
    ----------
    old : str or Path
    new : str or Path
        Must not exist.
    device : Device

    Returns
    -------
    int
        Number of jobs; either all are copied or an error is raised.

    Raises
    ------
    ProblemError
        A file cannot be used; a job is on a device of another name; or a result fails a check.
    """
    if os.path.lexists(new):
        raise ProblemError(f"{new} exists already; give the path of a new file")
    database = connect(Path(old), write=False)
    try:
        if format_of(database) != UNSEALED_FORMAT:
            raise ProblemError(f"{old} is a journal of this version: use it without conversion")
        jobs = []
        for record in read_rows(database):
            if record.device != device.name:
                raise ProblemError(
                    f"job {record.tag!r} of {old} is on {record.device!r}, and the device is {device.name!r}"
                )
            result, digest = database.execute("SELECT result, digest FROM jobs WHERE tag = ?", (record.tag,)).fetchone()
            values = None if result is None else unpack_result(result, digest, record, bound=False)
            if values is not None:
                readout_from_journal(record, values)
            jobs.append((replace(record, device=device.identity), values))
        about = database.execute("SELECT name, value FROM about").fetchall()
    except (sqlite3.Error, ValueError, DeviceError) as error:
        if isinstance(error, ProblemError):
            raise
        raise damaged_error(old, error) from error
    finally:
        database.close()
    journal = Journal(new)
    for name, value in about:
        journal.set_about(str(name), str(value))
    journal.claim_machine(device.name, device.configuration)
    for record, values in jobs:
        journal.insert_job(record, values)
    return len(jobs)
