"""A device's batches shared out to processes, to a cluster, or to several devices: the same read-outs, sooner."""

from __future__ import annotations

import contextlib
import pickle
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ...core.options import Number
from ...exceptions import DeviceError, ProblemError
from ..circuits import ParametricCircuit
from ..circuits.resources import Resources
from . import make_device
from .base import Device, Price, row_seed
from .local import LocalDevice
from .processes import close_pool, is_worker, pool_of
from .tasks import Task, gathered, packed, rows_of, run_task

__all__ = ["SpreadDevice"]

#: Rules of the options.
COUNT, SOME = Number(at_least=1, whole=True), Number(at_least=1, whole=True, none=True, note="for one a core")
#: How often a batch is begun in which a worker dies.
TRIES = 2


class SpreadDevice(LocalDevice):
    """The circuits of each batch shared out to processes, on a simulator of this machine; same results, to the bit.

    A batch is what a solver sends together: the gradient's circuits of a variational flow, the entries of a fidelity
    kernel. Each process gets one part of its rows, in one message, with the circuit, which it compiles once. Every
    circuit's seed is fixed before anybody runs it, so that counts depend neither on how many processes there are nor on
    who runs what. With 'aer' and 'aer:noisy' they are those of the device itself; other devices' are those of one seed
    a circuit, and the device's name says so. A batch of one circuit is run in this process.

    Processes are started at the first batch (a second or two) and end ten seconds after the last; at once by `close`,
    at the end of a ``with``, by Ctrl-C and by a run's time limit. All devices of one size share them. Where one dies,
    its circuits are run once more. In a process that works for another itself, as in a parallel search, none are
    started: there the circuits are run where they are.

    Parameters
    ----------
    device : str or Device, or list of them, default="aer"
        What runs the circuits. Of several, each batch's first rows are the first one's, and so on: as many for each,
        whatever the processes.
    processes : int ≥ 1, optional
        Among how many a batch is shared out; by default one for each core, or for each thread of a dask cluster.
    threads : int ≥ 1, default=1
        Of each process' own libraries; with ``engine`` that is the engine's affair.
    engine : distributed.Client or concurrent.futures.Executor, optional
        Whose workers run the circuits, in place of processes of this device; not closed by it. dualflow must be
        installed there.

    Raises
    ------
    ProblemError
        An argument is out of range.
    DeviceError
        A device is elsewhere, where a batch is one job; applies no gates; is spread already; or draws its counts by a
        generator of its own, which every process would have a copy of. From `submit`: workers died twice.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import SpreadDevice
    >>> from dualflow.quantum.circuits import TreeCircuit
    >>> from dualflow.quantum.devices import make_device
    >>> circuit, angles = TreeCircuit(2), np.full((2, 3), 1.0)
    >>> with SpreadDevice("aer", processes=2) as device:
    ...     counts = device.submit(circuit, angles, shots=1000, seed=3).result().counts
    ...
    >>> bool((counts == make_device("aer").submit(circuit, angles, shots=1000, seed=3).result().counts).all())
    True
    """

    @classmethod
    def named(cls, name: str) -> Device:
        """ "spread:<processes>:<device>"."""
        processes, _, device = name.removeprefix("spread:").partition(":")
        if not processes.isdecimal() or not int(processes) or not device:
            raise DeviceError(f"device={name!r} must be 'spread:<processes>:<device>', such as 'spread:2:aer'")
        return cls(device, int(processes))

    def __init__(
        self,
        device: Any = "aer",
        processes: int | None = None,
        *,
        threads: int = 1,
        engine: Any = None,
    ) -> None:
        super().__init__()
        several = list(device) if isinstance(device, (list, tuple)) else [device]
        if not several:
            raise ProblemError("device=[] must be a device, or some")
        self.devices = [_spreadable(make_device(one)) for one in several]
        self.processes: int | None = SOME.check("processes", processes)
        self.threads = int(COUNT.check("threads", threads))
        if engine is not None and not callable(getattr(engine, "submit", None)):
            raise ProblemError(
                f"engine={engine!r} must be a distributed.Client, a concurrent.futures.Executor, or None for processes "
                "of this device"
            )
        self.engine = engine
        self.name = " + ".join(one.name if one.divisible else f"{one.name} (a seed a circuit)" for one in self.devices)
        can, widths = [one.capabilities for one in self.devices], [one.capabilities.qubits for one in self.devices]
        self.capabilities = replace(
            can[0],
            exact=all(one.exact for one in can),
            sampled=all(one.sampled for one in can),
            noisy=any(one.noisy for one in can),
            qubits=min((width for width in widths if width is not None), default=None),
        )
        self._sent: list[bytes] | None = None
        self._kept = contextlib.ExitStack()

    @property
    def configuration(self) -> dict[str, str]:
        several = len(self.devices) > 1
        return {
            f"{part} of device {k}" if several else part: text
            for k, one in enumerate(self.devices)
            for part, text in one.configuration.items()
        }

    def _compile(self, circuit: ParametricCircuit) -> bytes:
        return _packed(circuit, f"circuit {circuit.name!r}")

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        values = np.array(values)
        workers = self._workers_for(len(values))
        # Which device has which rows is fixed by the devices alone, and into how many parts they go matters to nobody.
        blocks, share = np.array_split(np.arange(len(values)), len(self.devices)), -(-workers // len(self.devices))
        parts = [(k, rows) for k, block in enumerate(blocks) for rows in rows_of(block, share)]
        if workers:
            sent, what = self._devices_sent(), self.compiled(circuit)
            tasks = [(sent[k], what, values[rows], shots, seed, int(rows[0])) for k, rows in parts]
            found = self._gathered(tasks, workers)
        else:
            run = [self.devices[k].run_rows for k, _ in parts]
            found = [run[i](circuit, values[rows], shots, seed, int(rows[0])) for i, (_, rows) in enumerate(parts)]
        wholes = []
        for k, device in enumerate(self.devices):
            mine = [one for (owner, _), one in zip(parts, found, strict=True) if owner == k]
            if mine:
                first = int(blocks[k][0])
                wholes.append(_joined(device, mine, shots, row_seed(seed, first) if first else seed))
        counts = None if shots is None else np.concatenate([whole[1] for whole in wholes])
        return np.concatenate([whole[0] for whole in wholes]), counts

    def _gathered(self, tasks: list[Task], workers: int) -> list[Any]:
        """What all tasks return; those of a worker that died are run once more."""
        found: list[Any] = [None] * len(tasks)
        lost: BaseException | None = None
        for _ in range(TRIES):
            waiting = [k for k, one in enumerate(found) if one is None]
            some, lost = self._once([tasks[k] for k in waiting], workers)
            for k, one in zip(waiting, some, strict=True):
                found[k] = one
            if lost is None:
                return found
        raise DeviceError(
            f"device {self.name!r}: workers died {TRIES} times at one batch, the last time with: "
            f"{str(lost).strip() or type(lost).__name__}. If they were out of memory, take fewer processes"
        ) from lost

    def _once(self, tasks: list[Task], workers: int) -> tuple[list[Any], BaseException | None]:
        if self.engine is not None:
            own = {"pure": False} if hasattr(self.engine, "scheduler") else {}  # dask takes a hash of all else
            return gathered(lambda *task: self.engine.submit(run_task, *task, **own), tasks)
        pool = pool_of(workers, self.threads)
        with pool.work():
            return pool.run(run_task, tasks)

    def _workers_for(self, circuits: int) -> int:
        """Among how many so many circuits are shared out; 0 where this process runs them itself."""
        workers = self._workers()
        return 0 if circuits == 1 or (self.engine is None and (workers == 1 or is_worker())) else workers

    def _workers(self) -> int:
        if self.processes is not None:
            return self.processes
        if hasattr(self.engine, "nthreads"):
            return max(1, sum(self.engine.nthreads().values()))
        import joblib

        return int(joblib.cpu_count())

    def _devices_sent(self) -> list[bytes]:
        if self._sent is None:
            self._sent = [_packed(one, f"device {one.name!r}") for one in self.devices]
        return self._sent

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        return self.devices[0].price(circuit, circuits, shots)

    def resources(self, circuit: ParametricCircuit) -> Resources:
        return self.devices[0].resources(circuit)

    def close(self) -> None:
        """End the processes, also those that other devices of this size use; the next batch starts new ones."""
        self._kept.close()
        if self.engine is None:
            close_pool(self._workers(), self.threads)

    def __enter__(self) -> Self:
        """Keep the processes from run to run, however long it takes from one batch to the next."""
        if self.engine is None and not is_worker():
            self._kept.enter_context(pool_of(self._workers(), self.threads).work())
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        # A client stays where it is: a copy elsewhere runs its circuits there.
        here = {"engine": None, "_kept": contextlib.ExitStack(), "_sent": None}
        processes = 1 if self.engine is not None else self.processes
        return {**super().__getstate__(), **here, "processes": processes}


def _spreadable(device: Device) -> Device:
    """A device whose batches may be shared out, or `DeviceError`."""
    what = f"device {device.name!r} is not spread: "
    if device.remote:
        raise DeviceError(f"{what}it runs elsewhere, where a batch is one job; give it as the device itself")
    if isinstance(device, SpreadDevice):
        raise DeviceError(f"{what}it is spread already")
    if device.control or device.emulated:
        raise DeviceError(f"{what}it applies no gates, and answers sooner than another process is told; give it itself")
    if not device.seeded:
        raise DeviceError(
            f"{what}it draws its counts by a generator of its own, and copies of it would draw the same again; 'aer' "
            "and PennyLane's simulators by their names take a seed"
        )
    return device


def _joined(device: Device, parts: list[Any], shots: int | None, seed: int) -> tuple[NDArray, NDArray | None]:
    """Parts of a device's rows, in their order, as one; with what is drawn for all of them at once."""
    probabilities = np.concatenate([part[0] for part in parts])
    if shots is None:
        return probabilities, None
    if parts[0][1] is not None:
        return probabilities, np.concatenate([part[1] for part in parts])
    counts = device.drawn(probabilities, shots, seed)
    return counts / shots, counts


def _packed(thing: Any, what: str) -> bytes:
    try:
        return packed(thing)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise DeviceError(f"{what} cannot be sent to other processes ({error}); run it in this one") from error
