"""Read-outs of jobs: held against what was asked for, taken from a journal, and joined where a batch was split."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..devices import Job, Readout
from ..devices.readouts import Asked, check_readout
from .job_record import JobRecord

__all__ = ["checked", "joined", "kept"]


def kept(record: JobRecord, values: NDArray) -> Readout:
    """The read-out of a job from what a journal keeps of it, shape (circuits, 2^q), checked as any other is."""
    counts = None if record.shots is None else values
    probabilities = values if record.shots is None else values / record.shots
    readout = Readout(probabilities, counts, record.shots, "little", str(record.job_id))
    return check_readout(readout, record.device, _asked(record))


def checked(readout: Readout, record: JobRecord, job: Job) -> Readout:
    """A read-out, shape (circuits, 2^q), if it is of the job and the size that was asked for; `DeviceError` if not."""
    return check_readout(readout, record.device, _asked(record), job.job_id)


def _asked(record: JobRecord) -> Asked:
    return Asked(record.qubits, (record.circuits,), record.shots)


def joined(readouts: list[Readout], shape: tuple[int, ...], shots: int | None) -> Readout:
    """One read-out of a batch's parts: other bindings one below the other, counts of the same ones added.

    Parameters
    ----------
    readouts : list of Readout
        In the order they were cut: the shots of some bindings, then those of the next.
    shape : tuple of int
        Of the batch's.
    shots : int or None
        Of each circuit, in all.
    """
    first = readouts[0]
    if len(readouts) == 1:
        counts = None if first.counts is None else first.counts.reshape(shape)
        return Readout(first.probabilities.reshape(shape), counts, shots, "little", first.job_id)
    if shots is None:
        exact = np.concatenate([np.atleast_2d(readout.probabilities) for readout in readouts])
        return Readout(exact.reshape(shape), None, None, "little", first.job_id)
    rows: list[NDArray] = []
    load = 0
    for readout in readouts:
        part = np.atleast_2d(np.asarray(readout.counts))
        if load == 0:
            rows.append(part)
        else:
            rows[-1] = rows[-1] + part
        load = (load + int(readout.shots or 0)) % shots
    added = np.concatenate(rows).reshape(shape)
    return Readout(added / shots, added, shots, "little", first.job_id)
