"""One backend in several threads: each fit has the noise it has alone."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import dualflow
from dualflow.quantum.devices import make_device
from dualflow.quantum.devices.emulator import EmulatorDevice

THREADS = 8


def fresh():
    from qiskit.providers.fake_provider import GenericBackendV2

    return GenericBackendV2(2, noise_info=True, seed=3)


def fit(device, seed):
    X = np.random.default_rng(0).normal(size=(4, 2))
    problem = dualflow.problems.svdd(dualflow.Gram(X, gamma=0.5))
    run = {"shots": 300, "steps": 2, "max_steps": 1, "tol": 1e-300}
    return dualflow.solve(problem, "variational-flow", device=device, random_state=seed, **run).raw_alpha


@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.long)])
def test_fits_at_once_on_one_fresh_backend_have_its_noise(times):
    """Qiskit makes the backend's simulator in its first run: a second thread found it without its noise."""
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
