"""Worker processes that die, are interrupted or run out of time: errors are reported, and no process stays running."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dualflow import DeviceError, Gram, SpreadDevice, Status, problems, solve
from dualflow.core.runtime import clock
from dualflow.quantum.circuits import HardwareEfficientCircuit
from dualflow.quantum.devices import processes
from dualflow.quantum.devices.emulator import EmulatorDevice, sampled
from dualflow.quantum.devices.local import LocalDevice

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")

CIRCUIT = HardwareEfficientCircuit(3, 1)
ANGLES = np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, (7, CIRCUIT.n_parameters))
X = np.random.default_rng(1).normal(size=(6, 2))


class Simple(LocalDevice):
    """The emulator without the flag `emulated`: worker processes need not import Qiskit for it."""

    name = "simple"
    capabilities = EmulatorDevice.capabilities

    def _run(self, circuit, values, shots, seed):
        return sampled(circuit.distribution(values), shots, seed)


class Sleeping(Simple):
    """Takes minutes in a worker process."""

    def _run(self, circuit, values, shots, seed):
        if processes.is_worker():
            time.sleep(300.0)
        return super()._run(circuit, values, shots, seed)


class Dying(Simple):
    """Kills the process that runs a batch's first rows, once for each of its files."""

    def __init__(self, *files):
        super().__init__()
        self.files = files
        for file in files:
            Path(file).touch()

    def run_rows(self, circuit, values, shots, seed, first):
        if first == 0 and processes.is_worker():
            for file in filter(os.path.exists, self.files):
                os.unlink(file)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().run_rows(circuit, values, shots, seed, first)


class UnsendableError(Exception):
    """An error that cannot be unpickled."""

    def __init__(self, one, two):
        super().__init__(one + two)


class Raising(Simple):
    """Raises for a batch's first rows immediately, while the other rows take long."""

    def __init__(self, error):
        super().__init__()
        self.error = error

    def run_rows(self, circuit, values, shots, seed, first):
        if first == 0:
            raise UnsendableError("sent ", "wrongly") if self.error is UnsendableError else self.error("of order")
        time.sleep(0.3)
        return super().run_rows(circuit, values, shots, seed, first)


def counts(device):
    return device.submit(CIRCUIT, ANGLES, 500, seed=8).result().counts


def pids(pool):
    return [worker.process.pid for worker in pool._workers]


def all_gone(found, seconds=20.0):
    """Return whether processes end within some time; zombie processes count as ended."""
    until = time.monotonic() + seconds
    left = list(found)
    while left and time.monotonic() < until:
        time.sleep(0.02)
        left = [pid for pid in left if not _is_gone(pid)]
    return not left


def _is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    status = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return not status.stdout.strip() or status.stdout.strip().startswith("Z")


@pytest.fixture(autouse=True)
def nothing_left():
    yield
    for pool in list(processes._pools.values()):
        pool.close()


def test_three_processes_run_seven_circuits_and_two():
    alone, device = SpreadDevice(Simple(), 1), SpreadDevice(Simple(), 3)
    for angles in (ANGLES, ANGLES[:2]):
        found, right = (one.submit(CIRCUIT, angles, 500, seed=8).result().counts for one in (device, alone))
        assert (found == right).all()


def test_a_worker_that_dies_costs_its_circuits_once_more_and_two_in_a_row_the_batch(tmp_path):
    once = Dying(str(tmp_path / "one"))
    right = counts(SpreadDevice(Simple(), 1))
    assert (counts(SpreadDevice(once, 2)) == right).all()
    assert not os.path.exists(once.files[0])
    first = processes.pool_of(2, 1)
    twice = SpreadDevice(Dying(*(str(tmp_path / name) for name in "ab")), 2)
    with pytest.raises(DeviceError, match="workers died 2 times at one batch") as found:
        counts(twice)
    assert found.value.sent is False
    assert first.closed
    assert all(pool.closed for pool in processes._pools.values())


def test_ctrl_c_ends_the_processes():
    device, pool = SpreadDevice(Sleeping(), 2), processes.pool_of(2, 1)
    seen = []

    def interrupt():
        while not pool._n_users or len(pids(pool)) < 2:
            time.sleep(0.01)
        seen.extend(pids(pool))
        for pid in (*seen, os.getpid()):  # a terminal tells all of them
            os.kill(pid, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        counts(device)
    assert len(seen) == 2
    assert all_gone(seen)
    assert pool.closed
    assert (counts(SpreadDevice(Simple(), 2)) == counts(SpreadDevice(Simple(), 1))).all()


@pytest.mark.parametrize(
    ("error", "raised", "message"),
    [(ValueError, ValueError, "^of order"), (UnsendableError, RuntimeError, "^UnsendableError: sent wrongly")],
)
def test_a_worker_s_error_is_raised_here_and_leaves_no_rows(error, raised, message):
    pool = processes.pool_of(2, 1)
    for _ in range(2):
        with pytest.raises(DeviceError, match=f"Error: {message.removeprefix('^')}") as found:
            counts(SpreadDevice(Raising(error), 2))
        assert type(found.value.__cause__) is raised
        assert re.search(message, str(found.value.__cause__))
        assert "run_rows" in found.value.__cause__.__notes__[0]
        assert (counts(SpreadDevice(Simple(), 2)) == counts(SpreadDevice(Simple(), 1))).all()
    assert not pool.closed


def test_threads_that_share_processes_take_turns():
    right, device = counts(SpreadDevice(Simple(), 1)), SpreadDevice(Simple(), 2)
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(counts, [device, SpreadDevice(Simple(), 2)] * 4):
            assert (found == right).all()
    assert len(pids(processes.pool_of(2, 1))) == 2


def test_a_batch_after_an_abandoned_one_does_not_read_its_results():
    """The results of an abandoned batch must not be read as those of the next one."""
    pool = processes.pool_of(2, 1)
    with pytest.raises(clock.OutOfTime), clock.within(time.monotonic() + 0.2):
        pool.run(time.sleep, [(0.6,), (0.0,)])
    assert pool.closed
    assert pool.run(abs, [(-1,)])[1] is not None
    assert processes.pool_of(2, 1).run(abs, [(-1,), (-2,), (-3,)]) == ([1, 2, 3], None)


def test_a_time_limit_ends_the_processes_and_keeps_the_last_state():
    device, pool = SpreadDevice(Sleeping(), 2), processes.pool_of(2, 1)
    with pytest.raises(clock.OutOfTime), clock.within(time.monotonic() + 0.3):
        counts(device)
    assert pool.closed
    assert not pids(pool)
    problem = problems.svdd(Gram(X, kernel="rbf", gamma=0.5))
    options = {"ansatz": "hardware-efficient", "layers": 1, "shots": 100, "refine": False, "random_state": 0}
    found = solve(problem, "variational-flow", device=device, time_limit=0.3, **options)
    assert found.status is Status.TIME_LIMIT
    assert not any(pids(pool) for pool in processes._pools.values())


def test_idle_processes_end_by_themselves_and_those_in_use_do_not(monkeypatch):
    monkeypatch.setattr(processes, "IDLE_POOL_S", 0.05)
    pool = processes.Pool(1, 1)  # it starts none before there is work
    with pool.work():
        with pool.work():
            pass
        time.sleep(0.2)
        assert not pool.closed
    until = time.monotonic() + 20.0
    while not pool.closed and time.monotonic() < until:
        time.sleep(0.01)
    assert pool.closed


def test_processes_are_kept_by_with_and_ended_after_it(monkeypatch):
    monkeypatch.setattr(processes, "IDLE_POOL_S", 0.05)
    with SpreadDevice(Simple(), 2) as device:
        pool = processes.pool_of(2, 1)
        time.sleep(0.2)
        assert processes.pool_of(2, 1) is pool
        device.close()
        assert pool.closed
        assert processes.pool_of(2, 1) is not pool
    assert all(pool.closed for pool in processes._pools.values())


def test_processes_end_with_a_parent_that_is_killed():
    script = (
        "import os, time; from dualflow.quantum.devices import processes\n"
        "pool = processes.pool_of(1, 1); print(*pool.run(os.getpid, [()])[0], flush=True); time.sleep(300)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        worker = int(parent.stdout.readline())
        parent.kill()
    assert all_gone([worker])


def test_a_child_of_a_fork_has_no_pools_and_ends_none(monkeypatch):
    pool = processes.pool_of(2, 1)
    monkeypatch.setattr(processes, "_owner", -1)
    assert processes.pool_of(2, 1) is not pool
    assert not pool.closed
    pool.close()
