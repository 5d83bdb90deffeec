"""Journals of format 2: their results are bound to no job and no machine, and are taken over on the user's word."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from pathlib import Path

from ...exceptions import DeviceError, ProblemError
from ..devices import Device
from .job_record import UNSEALED, connect, format_of, kept, read_rows, unpacked
from .journal import Journal, damaged

__all__ = ["convert_journal"]


def convert_journal(old: str | Path, new: str | Path, device: Device) -> int:
    """Take the jobs of an earlier version's journal over into a new one, as those of a device.

    The earlier format knew a device by its name alone: that its jobs are of this very machine, with its noise, options
    and compiler, is the caller's word. Every result is checked as a read-out is.

    Parameters
    ----------
    old, new : str or Path
        The new one must not be there.
    device : Device

    Returns
    -------
    int
        Jobs that were taken over: all of them, or an error.

    Raises
    ------
    ProblemError
        A file cannot be used; a job is on a device of another name; a result fails a check.
    """
    if os.path.lexists(new):
        raise ProblemError(f"{new} is there already; give the path of a file to be made")
    database = connect(Path(old), write=False)
    try:
        if format_of(database) != UNSEALED:
            raise ProblemError(f"{old} is a journal of this version: it is used as it is")
        jobs = []
        for record in read_rows(database):
            if record.device != device.name:
                raise ProblemError(
                    f"job {record.tag!r} of {old} is on {record.device!r}, and the device is {device.name!r}"
                )
            result, digest = database.execute("SELECT result, digest FROM jobs WHERE tag = ?", (record.tag,)).fetchone()
            values = None if result is None else unpacked(result, digest, record, bound=False)
            if values is not None:
                kept(record, values)
            jobs.append((replace(record, device=device.identity), values))
        about = database.execute("SELECT name, value FROM about").fetchall()
    except (sqlite3.Error, ValueError, DeviceError) as error:
        if isinstance(error, ProblemError):
            raise
        raise damaged(old, error) from error
    finally:
        database.close()
    journal = Journal(new)
    for name, value in about:
        journal.tell(str(name), str(value))
    journal.claim_machine(device.name, device.configuration)
    for record, values in jobs:
        journal.adopt(record, values)
    return len(jobs)
