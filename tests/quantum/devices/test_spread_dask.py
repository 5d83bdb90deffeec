"""Batches split over a dask cluster have the same bits."""

import numpy as np
import pytest

from dualflow import SpreadDevice
from dualflow.quantum.circuits import HardwareEfficientCircuit
from dualflow.quantum.devices import make_device

distributed = pytest.importorskip("distributed", reason="pip install 'dualflow[dask]'")

CIRCUIT = HardwareEfficientCircuit(3, 1)
ANGLES = np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, (7, CIRCUIT.n_parameters))


@pytest.fixture(autouse=True)
def no_network(own_sockets):
    """In the place of the suite's own."""


def test_a_cluster_gives_the_bits_of_one_process():
    # Its workers are threads; other tests pickle devices, as workers in other processes need it.
    threads = {"n_workers": 1, "threads_per_worker": 2, "processes": False, "dashboard_address": ":0"}
    plain = make_device("aer")
    with (
        distributed.LocalCluster(**threads) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        device = SpreadDevice("aer", engine=client)
        assert device._workers() == 2
        for shots in (500, None):
            found, right = (one.submit(CIRCUIT, ANGLES, shots, seed=3).result() for one in (device, plain))
            assert (found.probabilities == right.probabilities).all()
