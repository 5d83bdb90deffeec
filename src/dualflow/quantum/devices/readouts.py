"""Read counts from vendors' results and check every read-out against its request.

A result that cannot be right raises a `DeviceError` that names the device, the job and the fault.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError
from .base import Readout

#: Rounding error allowed in a distribution: of its sum from 1, and of an entry below 0.
ROUNDING_TOL = 1e-6
#: Key of a circuit's metadata that holds the mark of its job.
MARK_KEY = "dualflow"


@dataclass(frozen=True)
class Request:
    """The size of a job that was sent, which its read-out must have."""

    n_qubits: int
    batch: tuple[int, ...]  # () for one circuit, (k,) for k
    shots: int | None  # of each circuit; None for exact distributions
    mark: str = ""  # text sent with the circuits, which some vendors return with the result; "" if none was sent

    @property
    def rows(self) -> int:
        return self.batch[0] if self.batch else 1

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.batch, 2**self.n_qubits)


def check_readout(readout: Readout, device: str, request: Request, job_id: str | None = None) -> Readout:
    """Return the read-out in the shape of its request.

    Parameters
    ----------
    readout : Readout
        As a device returned it; any other type is a fault.
    device : str
        Name of the device, for error messages.
    request : Request
    job_id : str, optional
        The job that the read-out must belong to; not checked by default.

    Raises
    ------
    DeviceError
        The read-out belongs to another job; has other circuits, qubits or shots; or is no distribution.
    """
    if not isinstance(readout, Readout):
        raise _wrong(device, f"job {job_id}", f"{type(readout).__name__} where a Readout is due")
    if job_id is not None and readout.job_id != job_id:
        raise _wrong(device, f"job {job_id}", f"it is the read-out of job {readout.job_id}")
    job = f"job {readout.job_id}"
    if readout.bit_order not in ("little", "big"):
        raise _wrong(device, job, f"bit_order={readout.bit_order!r} where 'little' or 'big' is due")
    if readout.shots != request.shots:
        raise _wrong(device, job, f"{readout.shots} shots where {request.shots} were requested")
    given = None if request.shots is None else readout.counts
    counts = None if given is None else _counts(given, device, job, request)
    found = _numbers(readout.probabilities, "probabilities", device, job, request)
    if not np.isfinite(found).all() or found.min() < -ROUNDING_TOL:
        raise _wrong(device, job, "probabilities that are negative, infinite or NaN")
    if np.abs(found.sum(axis=-1) - 1.0).max() > ROUNDING_TOL:
        raise _wrong(device, job, f"probabilities that sum to {_worst(found.sum(axis=-1), 1.0):g}")
    if request.shots is None:
        return Readout(found, None, None, readout.bit_order, readout.job_id)
    if counts is None:  # frequencies times shots are the counts
        numbers = found * request.shots
        near = np.abs(numbers - np.rint(numbers)).max() <= ROUNDING_TOL * request.shots
        counts = _counts(np.rint(numbers) if near else numbers, device, job, request)
    if np.abs(counts / request.shots - found).max() > ROUNDING_TOL:
        raise _wrong(device, job, "probabilities that are not its counts by its shots")
    return Readout(found, counts.astype(np.int64), request.shots, readout.bit_order, readout.job_id)


def _counts(given: Any, device: str, job: str, request: Request) -> NDArray:
    counts = _numbers(given, "counts", device, job, request)
    check_counts(counts, device, job, int(request.shots or 0))
    return counts


def _numbers(given: Any, what: str, device: str, job: str, request: Request) -> NDArray:
    """Return an array of a read-out in the requested shape; raise `DeviceError` if it has another number of entries."""
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise _wrong(device, job, f"{what} that are no array of numbers") from error
    if array.dtype.kind not in "fiu":
        raise _wrong(device, job, f"{what} of type {array.dtype} where numbers are due")
    width = array.shape[-1] if array.ndim else 1
    if width != 2**request.n_qubits:
        raise _wrong(device, job, f"{width} outcomes where {request.n_qubits} qubits have {2**request.n_qubits}")
    rows = math.prod(array.shape[:-1])
    if rows != request.rows:
        raise _wrong(device, job, f"{rows} circuits where {request.rows} were sent")
    return array.reshape(request.shape).astype(float, copy=False)


def check_counts(counts: NDArray, device: str, job: str, shots: int) -> None:
    """Raise `DeviceError` unless all counts are numbers ≥ 0 that sum to the shots of a circuit."""
    if not np.isfinite(counts).all():
        raise _wrong(device, job, "counts that are infinite or NaN")
    if counts.min(initial=0) < 0:
        raise _wrong(device, job, f"a negative count, {counts.min():g}")
    if (counts != np.rint(counts)).any():
        raise _wrong(device, job, "counts that are no whole numbers")
    totals = counts.sum(axis=-1)
    if (totals != shots).any():
        raise _wrong(device, job, f"{_worst(totals, shots):g} shots where {shots} were requested")


def readout_of_counts(counts: NDArray, device: str, job_id: str, request: Request | None, shots: int) -> Readout:
    """Return a checked read-out of little-endian counts, shape (k, 2^q) or (2^q,)."""
    check_counts(counts, device, f"job {job_id}", shots)
    integers = np.rint(counts).astype(np.int64)
    readout = Readout(integers / shots, integers, shots, "little", job_id)
    return readout if request is None else check_readout(readout, device, request)


def counts_of_sampler(result: Any, device: str, job_id: str, request: Request | None) -> tuple[NDArray, int]:
    """Return the counts and shots of a V2 sampler's result that has one PUB.

    The classical register may have any name, but exactly one register must have the circuit's width: otherwise it is
    not known which bit belongs to which qubit.
    """
    job = f"job {job_id}"
    if len(result) != 1:
        raise _wrong(device, job, f"{len(result)} results where one was requested")
    pub = result[0]
    metadata = getattr(pub, "metadata", None) or {}
    _check_mark((metadata.get("circuit_metadata") or {}).get(MARK_KEY), device, job, request)
    data = pub.data
    registers = dict(data.items() if hasattr(data, "items") else vars(data).items())
    bits = {name: register for name, register in registers.items() if getattr(register, "num_bits", 0)}
    if request is not None:
        fitting = {name: register for name, register in bits.items() if register.num_bits == request.n_qubits}
    else:
        fitting = bits
    if len(fitting) != 1:
        have = ", ".join(f"{name} of {register.num_bits} bits" for name, register in bits.items()) or "none"
        want = "one register" if request is None else f"one register of {request.n_qubits} bits"
        raise _wrong(device, job, f"not {want} but {have}")
    (register,) = fitting.values()
    array = np.asarray(register.array)
    if array.ndim < 2 or array.dtype != np.uint8 or array.shape[-1] != -(-register.num_bits // 8):
        raise _wrong(device, job, f"a register of type {array.dtype} and shape {array.shape}, which holds no shots")
    *batch, shots, n_bytes = array.shape
    # The last axis holds the bytes of a shot, the most significant first.
    outcomes = array.reshape(-1, shots, n_bytes).astype(np.int64) @ (256 ** np.arange(n_bytes)[::-1])
    width = 2**register.num_bits
    if outcomes.max(initial=0) >= width:
        raise _wrong(device, job, f"an outcome {outcomes.max()} that {register.num_bits} bits do not hold")
    counts = np.array([np.bincount(row, minlength=width) for row in outcomes])
    return counts.reshape(*batch, width), shots


def counts_of_result(result: Any, device: str, job_id: str, request: Request | None) -> tuple[NDArray, int]:
    """Return the counts and shots of a ``qiskit.result.Result``, or of any object with its ``get_counts``.

    The shot-by-shot memory is not read: some backends keep none, and Qiskit's own sampler reads zeros from these
    (Qiskit #15694).
    """
    job = f"job {job_id}"
    if getattr(result, "success", True) is False:
        raise DeviceError(
            f"device {device!r}: {job} failed ({getattr(result, 'status', 'no reason given')})", sent=True
        )
    theirs = getattr(result, "job_id", None)
    if theirs and str(theirs) != job_id:
        raise _wrong(device, job, f"another job's result, of {theirs}")
    experiments = getattr(result, "results", None)
    rows = len(experiments) if experiments is not None else request.rows if request is not None else 1
    if request is not None and rows != request.rows:
        raise _wrong(device, job, f"{rows} circuits where {request.rows} were sent")
    names = [getattr(getattr(e, "header", None), "name", None) or _header_name(e) for e in experiments or ()]
    for k, name in enumerate(names):
        if request is not None and request.mark and name not in (None, "", f"{request.mark}-{k}"):
            raise _wrong(device, job, f"another job's result: circuit {k} is called {name!r}")
    found = [result.get_counts(k) for k in range(rows)]
    n_qubits = request.n_qubits if request is not None else max(map(_width, found))
    counts = np.array([_little_endian(row, n_qubits, device, job) for row in found])
    if request is not None and request.shots is not None:
        return counts.reshape(request.shape), request.shots
    total = counts[0].sum()
    if not (np.isfinite(total) and total >= 1):
        raise _wrong(device, job, f"{total:g} shots")
    return counts, int(total)


def _header_name(experiment: Any) -> str | None:
    header = getattr(experiment, "header", None)
    return header.get("name") if isinstance(header, Mapping) else None


def _width(counts: Mapping[str, Any]) -> int:
    return max((len(str(key).replace(" ", "")) for key in counts), default=0)


def _little_endian(counts: Any, n_qubits: int, device: str, job: str) -> NDArray:
    """Return the counts of a mapping as an array of shape (2^q,).

    Keys are Qiskit's bit strings, whose last bit is that of qubit 0, or hexadecimal numbers.
    """
    if not isinstance(counts, Mapping):
        raise _wrong(device, job, f"counts of type {type(counts).__name__} where a mapping was expected")
    row = np.zeros(2**n_qubits)
    for key, value in counts.items():
        text = str(key).replace(" ", "")
        hexadecimal = text.startswith("0x")
        try:
            outcome, number = int(text, 16 if hexadecimal else 2), float(value)
        except (TypeError, ValueError) as error:
            raise _wrong(device, job, f"a count {key!r}: {value!r}") from error
        if not 0 <= outcome < 2**n_qubits or (not hexadecimal and len(text) != n_qubits):
            raise _wrong(device, job, f"an outcome {key!r}, which is none of {n_qubits} qubits")
        row[outcome] += number
    return row


def _check_mark(found: Any, device: str, job: str, request: Request | None) -> None:
    if request is not None and request.mark and found not in (None, request.mark):
        raise _wrong(device, job, f"another job's result, marked {found!r}")


def _worst(values: NDArray, target: float) -> float:
    """Return the value that is furthest from the target."""
    return float(values.flat[np.argmax(np.abs(np.asarray(values, dtype=float) - target))])


def _wrong(device: str, job: str, fault: str) -> DeviceError:
    return DeviceError(f"device {device!r}: {job} gave back {fault}; nothing of it is used", sent=True)
