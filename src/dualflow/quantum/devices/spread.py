"""A device that runs the circuits of a batch in several processes, on a cluster, or on several devices."""

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
from .tasks import Task, gather_results, pickled, rows_of, run_task

#: Rule of the option ``threads``.
COUNT_RULE = Number(at_least=1, whole=True)
#: Rule of the option ``processes``.
PROCESSES_RULE = Number(at_least=1, whole=True, none=True, note="for one a core")
#: How often the tasks of a batch are run before a dying worker is an error.
MAX_ATTEMPTS = 2


class SpreadDevice(LocalDevice):
    """Run the circuits of each batch in several processes, on a simulator of this computer, with the same bits.

    A batch is what a solver sends together, such as the gradient's circuits of a variational flow or the entries of a
    fidelity kernel. Each process gets one part of the rows in one message, with the circuit, which it compiles once.
    The seed of every circuit is fixed in advance, so that counts depend neither on the number of processes nor on
    which process runs a circuit. With 'aer' and 'aer:noisy' the counts are those of the device itself. For other
    devices each circuit has its own seed, and the device's name says so. A batch of one circuit runs in this process.

    Processes are started for the first batch, which takes one or two seconds, and end ten seconds after the last one.
    `close`, the end of a ``with`` block, Ctrl-C and a run's time limit end them immediately. All devices of one size
    share them. If a process dies, its circuits are run once more. A worker process, as of a parallel search, starts
    no processes and runs the circuits itself.

    Parameters
    ----------
    device : str or Device, or list of them, default="aer"
        The device that runs the circuits. Several devices get equal shares of each batch, the first rows for the
        first device, independent of the number of processes.
    processes : int ≥ 1, optional
        Number of parts of a batch; by default one for each core, or for each thread of a dask cluster.
    threads : int ≥ 1, default=1
        Threads of each process' libraries; not used with ``engine``.
    engine : distributed.Client or concurrent.futures.Executor, optional
        Its workers run the circuits in place of processes of this device. The device does not close it. dualflow must
        be installed on the workers.

    Raises
    ------
    ProblemError
        An argument is out of range.
    DeviceError
        A device is remote, where a batch is one job; applies no gates; is a `SpreadDevice`; or draws its counts by a
        generator that it holds, of which every process would have a copy. From `submit`: workers died twice.

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
        """Return the device for "spread:<processes>:<device>"."""
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
        devices = list(device) if isinstance(device, (list, tuple)) else [device]
        if not devices:
            raise ProblemError("device=[] must be a device, or a list of at least one")
        self.devices = [_checked_device(make_device(one)) for one in devices]
        self.processes: int | None = PROCESSES_RULE.check("processes", processes)
        self.threads = int(COUNT_RULE.check("threads", threads))
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
        self._pickled_devices: list[bytes] | None = None
        self._pool_use = contextlib.ExitStack()  # between `__enter__` and `close`

    @property
    def configuration(self) -> dict[str, str]:
        several = len(self.devices) > 1
        return {
            f"{part} of device {k}" if several else part: text
            for k, one in enumerate(self.devices)
            for part, text in one.configuration.items()
        }

    def _compile(self, circuit: ParametricCircuit) -> bytes:
        return _pickled(circuit, f"circuit {circuit.name!r}")

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        values = np.array(values)
        workers = self._workers_for(len(values))
        # The devices alone decide which device has which rows; the number of parts does not change the results.
        blocks, share = np.array_split(np.arange(len(values)), len(self.devices)), -(-workers // len(self.devices))
        parts = [(k, rows) for k, block in enumerate(blocks) for rows in rows_of(block, share)]
        if workers:
            devices, pickled_circuit = self._devices_sent(), self.compiled(circuit)
            tasks = [(devices[k], pickled_circuit, values[rows], shots, seed, int(rows[0])) for k, rows in parts]
            found = self._run_tasks(tasks, workers)
        else:
            run = [self.devices[k].run_rows for k, _ in parts]
            found = [run[i](circuit, values[rows], shots, seed, int(rows[0])) for i, (_, rows) in enumerate(parts)]
        results = []
        for k, device in enumerate(self.devices):
            device_parts = [result for (owner, _), result in zip(parts, found, strict=True) if owner == k]
            if device_parts:
                first = int(blocks[k][0])
                block_seed = row_seed(seed, first) if first else seed
                results.append(_concatenated(device, device_parts, shots, block_seed))
        counts = None if shots is None else np.concatenate([result[1] for result in results])
        return np.concatenate([result[0] for result in results]), counts

    def _run_tasks(self, tasks: list[Task], workers: int) -> list[Any]:
        """Return the results of all tasks; run the tasks of a worker that died once more."""
        found: list[Any] = [None] * len(tasks)
        lost: BaseException | None = None
        for _ in range(MAX_ATTEMPTS):
            waiting = [k for k, result in enumerate(found) if result is None]
            results, lost = self._run_tasks_once([tasks[k] for k in waiting], workers)
            for k, result in zip(waiting, results, strict=True):
                found[k] = result
            if lost is None:
                return found
        raise DeviceError(
            f"device {self.name!r}: workers died {MAX_ATTEMPTS} times at one batch, the last time with: "
            f"{str(lost).strip() or type(lost).__name__}. If they were out of memory, use fewer processes"
        ) from lost

    def _run_tasks_once(self, tasks: list[Task], workers: int) -> tuple[list[Any], BaseException | None]:
        if self.engine is not None:
            options = {"pure": False} if hasattr(self.engine, "scheduler") else {}  # else dask hashes all arguments
            return gather_results(lambda *task: self.engine.submit(run_task, *task, **options), tasks)
        pool = pool_of(workers, self.threads)
        with pool.work():
            return pool.run(run_task, tasks)

    def _workers_for(self, circuits: int) -> int:
        """Return the number of workers for a batch of ``circuits`` rows; 0 if this process runs them itself."""
        workers = self._workers()
        return 0 if circuits == 1 or (self.engine is None and (workers == 1 or is_worker())) else workers

    def _workers(self) -> int:
        """Return the number of parts of a batch: the option, the engine's threads, or the cores."""
        if self.processes is not None:
            return self.processes
        if hasattr(self.engine, "nthreads"):
            return max(1, sum(self.engine.nthreads().values()))
        import joblib

        return int(joblib.cpu_count())

    def _devices_sent(self) -> list[bytes]:
        """Return all devices as bytes; pickled once."""
        if self._pickled_devices is None:
            self._pickled_devices = [_pickled(device, f"device {device.name!r}") for device in self.devices]
        return self._pickled_devices

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        return self.devices[0].price(circuit, circuits, shots)

    def resources(self, circuit: ParametricCircuit) -> Resources:
        return self.devices[0].resources(circuit)

    def close(self) -> None:
        """End the processes, including those that other devices of this size share; the next batch starts new ones."""
        self._pool_use.close()
        if self.engine is None:
            close_pool(self._workers(), self.threads)

    def __enter__(self) -> Self:
        """Keep the processes until `close`, however long the time between two batches."""
        if self.engine is None and not is_worker():
            self._pool_use.enter_context(pool_of(self._workers(), self.threads).work())
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __getstate__(self) -> dict[str, Any]:
        # An engine is not pickled: the copy of a device with an engine runs its circuits in its own process.
        local = {"engine": None, "_pool_use": contextlib.ExitStack(), "_pickled_devices": None}
        processes = 1 if self.engine is not None else self.processes
        return {**super().__getstate__(), **local, "processes": processes}


def _checked_device(device: Device) -> Device:
    """Return a device whose batches may be split into parts; raise `DeviceError` for any other."""
    what = f"device {device.name!r} is not spread: "
    if device.remote:
        raise DeviceError(f"{what}it is remote, where a batch is one job; use it as the device itself")
    if isinstance(device, SpreadDevice):
        raise DeviceError(f"{what}it is spread already; use it as the device itself")
    if device.control or device.emulated:
        raise DeviceError(f"{what}it applies no gates, and is faster without other processes; use it as the device")
    if not device.seeded:
        raise DeviceError(
            f"{what}it draws its counts by its own random generator, and its copies would draw the same numbers; use "
            "'aer' or a PennyLane simulator by its name, which take a seed"
        )
    return device


def _concatenated(device: Device, parts: list[Any], shots: int | None, seed: int) -> tuple[NDArray, NDArray | None]:
    """Return a device's parts, in the order of their rows, as one; draw the counts if the parts have none."""
    probabilities = np.concatenate([part[0] for part in parts])
    if shots is None:
        return probabilities, None
    if parts[0][1] is not None:
        return probabilities, np.concatenate([part[1] for part in parts])
    counts = device.drawn(probabilities, shots, seed)
    return counts / shots, counts


def _pickled(thing: Any, what: str) -> bytes:
    try:
        return pickled(thing)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise DeviceError(f"{what} cannot be sent to other processes ({error}); run it in this one") from error
