"""One backend in several threads: each fit has the same noise as a single one."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dualflow
from dualflow.quantum.devices import make_device
from dualflow.quantum.devices.emulator import EmulatorDevice
from tests.combinations import often

THREADS = 8


def fresh():
    from qiskit.providers.fake_provider import GenericBackendV2

    return GenericBackendV2(2, noise_info=True, seed=3)


def fit(device, seed):
    X = np.random.default_rng(0).normal(size=(4, 2))
    problem = dualflow.problems.svdd(dualflow.Gram(X, gamma=0.5))
    run = {"shots": 300, "steps": 2, "max_steps": 1, "tol": 1e-300}
    return dualflow.solve(problem, "variational-flow", device=device, random_state=seed, **run).raw_alpha


@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_parallel_fits_on_one_new_backend_have_its_noise(times):
    """Qiskit makes the backend's simulator in its first run; a second thread must not use it without noise."""
    alone = np.array([fit(fresh(), seed) for seed in range(THREADS)])
    with ThreadPoolExecutor(THREADS) as pool:
        for _ in range(times):
            backend = fresh()
            found = list(pool.map(lambda seed, shared=backend: fit(shared, seed), range(THREADS)))
            np.testing.assert_array_equal(found, alone)


def test_devices_of_one_backend_have_one_lock():
    from dualflow.quantum.devices.guard import _lock_of

    backend = fresh()
    one, other = make_device(backend), make_device(backend)
    assert _lock_of(one.shared) is _lock_of(other.shared)
    assert _lock_of(make_device(fresh()).shared) is not _lock_of(one.shared)


def test_a_simulator_is_used_by_one_thread_at_a_time():
    class Watched(EmulatorDevice):
        name, inside, most = "watched", 0, 0

        def _run(self, *arguments):
            Watched.inside += 1
            Watched.most = max(Watched.most, Watched.inside)
            found = super()._run(*arguments)
            Watched.inside -= 1
            return found

    device = Watched()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda seed: fit(device, seed), range(THREADS)))
    assert Watched.most == 1


CODE = """
import threading
import dualflow
from dualflow.testing.cloud import FakeCloud


def fit(k):
    # Circuits of different sizes, so that each is built.
    points = [[float(i)] for i in range(2 ** (2 + k % 3))]
    problem = dualflow.problems.svdd(dualflow.Gram(points, "linear"))
    device = FakeCloud(f"cloud-{k}.db") if k % 2 else "emulator"
    dualflow.solve(problem, "variational-flow", device=device, shots=50, steps=2, max_steps=1, tol=1e-9)

for k in range(6):
    if IN_THREADS:
        thread = threading.Thread(target=fit, args=(k,))
        thread.start()
        thread.join()
    else:
        fit(k)
print("alive")
"""


@pytest.mark.parametrize("in_threads", often([False, True], True))
def test_qiskit_is_loaded_where_no_thread_ends(in_threads, tmp_path):
    """Its first import in a thread that ends crashes the process later."""
    found = subprocess.run(
        [sys.executable, "-c", CODE.replace("IN_THREADS", str(in_threads))],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout == "alive\n", found.stderr[-2000:]
