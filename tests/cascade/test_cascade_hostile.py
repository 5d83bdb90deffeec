"""Tests of cascades with failing clusters, unusual parts, and data that differ from those of the checkpoint."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification

from dualflow import SVC, CascadeSVC, EngineError, Gram, ProblemError
from dualflow.cascade.model import Members, Model

X, Y = make_classification(300, 6, n_informative=4, flip_y=0.05, class_sep=0.8, random_state=3)


def objective(model):
    return model.certificate_.objective


def test_copies_in_other_parts_are_weights():
    order = np.random.default_rng(0).permutation(900)
    copies, labels = np.tile(X, (3, 1))[order], np.tile(Y, 3)[order]
    model = CascadeSVC(C=1.0, gamma=0.1, partitions=7, tol=1e-7, random_state=0).fit(copies, labels)
    peer = SVC(C=3.0, gamma=0.1, tol=1e-8).fit(X, Y)
    assert objective(model) == pytest.approx(peer.certificate_.objective, rel=1e-6)
    assert np.abs(model.decision_function(X) - peer.decision_function(X)).max() < 1e-3


def test_all_points_may_survive_and_labels_be_words():
    names = np.where(Y == 1, "ja", "nein")
    model = CascadeSVC(gamma=100.0, partitions=4, random_state=0, tol=1e-6).fit(X, names)
    peer = SVC(gamma=100.0, tol=1e-8).fit(X, names)
    assert len(model.support_) == len(X) == len(peer.support_)
    assert objective(model) == pytest.approx(peer.certificate_.objective, rel=1e-6)
    assert (model.predict(X) == names).all()


@pytest.mark.parametrize("n", [2, 3])
def test_fewer_rows_than_parts(n):
    model = CascadeSVC(kernel="linear", C=10.0, partitions=8).fit([[0.0], [2.0], [3.0]][:n], ["a", "b", "b"][:n])
    assert model.predict([[0.0], [2.0]]).tolist() == ["a", "b"]


def test_one_class_a_part_and_clusters_that_are_classes():
    far = np.vstack([X[:100] + 50.0, X[100:200]])
    labels = np.repeat([1, 0], 100)
    model = CascadeSVC(partitions=2, partitioner="clusters", random_state=0, tol=1e-6).fit(far, labels)
    assert objective(model) == pytest.approx(SVC(tol=1e-8).fit(far, labels).certificate_.objective, rel=1e-5)


def test_a_checkpoint_of_other_data_is_refused(tmp_path):
    options = {"partitions": 3, "random_state": 0, "checkpoint": tmp_path / "run.npz"}
    CascadeSVC(**options).fit(X, Y)
    one, other = np.flatnonzero(Y == 0)[0], np.flatnonzero(Y == 1)[0]
    swapped, moved = Y.copy(), X.copy()
    swapped[[one, other]] = 1, 0
    moved[[one, one + 1]] = X[[one + 1, one]]
    for rows, labels in ((X[:-1], Y[:-1]), (X, swapped), (moved, Y), (X * 2, Y)):
        with pytest.raises(ProblemError, match="its data is 'digest"):
            CascadeSVC(**options).fit(rows, labels)


def test_an_engine_is_neither_copied_nor_pickled():
    class Uncopied:
        def __reduce__(self):
            raise TypeError("not this one")

    model = CascadeSVC(engine=Uncopied(), partitions=3, random_state=0)
    assert clone(model).engine is model.engine
    assert clone(model).get_params(deep=False) == model.get_params(deep=False)
    assert pickle.loads(pickle.dumps(model)).engine == "dask"
    assert pickle.loads(pickle.dumps(CascadeSVC(engine="joblib"))).engine == "joblib"
    assert not isinstance(model.engine, str)


def test_engine_dask_uses_the_current_client(monkeypatch):
    distributed = pytest.importorskip("distributed", reason="pip install 'dualflow[dask]'")
    with pytest.raises(ProblemError, match=r"engine='dask': there is no client"):
        CascadeSVC(engine="dask").fit(X, Y)
    monkeypatch.setattr(distributed, "get_client", lambda: closed())
    with pytest.raises(EngineError, match=r"scheduler is lost \(client 'closed'\)"):
        CascadeSVC(engine="dask").fit(X, Y)


def closed():
    distributed = pytest.importorskip("distributed", reason="pip install 'dualflow[dask]'")
    client = distributed.Client.__new__(distributed.Client)
    client.status = "closed"
    return client


def test_a_client_that_is_closed_is_an_error_that_says_so():
    with pytest.raises(EngineError, match=r"scheduler is lost \(client 'closed'\)"):
        CascadeSVC(engine=closed()).fit(X, Y)


def test_waiting_for_workers_has_a_limit(monkeypatch):
    pytest.importorskip("distributed", reason="pip install 'dualflow[dask]'")
    from dualflow.cascade import dask_engine

    class Empty:
        status, asked, worker_status = "running", 0, "running"
        scheduler = object()

        def nthreads(self):
            self.asked += 1
            return {"tcp://somewhere": 1} if self.asked == 3 else {}

        def get_events(self, topic):
            return ()

        def scheduler_info(self, n_workers):
            return {"workers": {"tcp://somewhere": {"status": self.worker_status}}}

    engine = dask_engine.Dask([], Empty())
    engine.client.asked = 0
    monkeypatch.setattr(dask_engine, "POLL_S", 0.001)
    engine._wait_for_workers()
    assert engine.client.asked == 3
    monkeypatch.setattr(dask_engine, "MAX_WITHOUT_WORKER_S", 0.01)
    monkeypatch.setattr(dask_engine, "MIN_WAIT_WARNED_S", 0.0)
    with (
        pytest.warns(UserWarning, match=r"the cluster has no worker; the fit waits for at most 0.01 seconds"),
        pytest.raises(EngineError, match=r"no worker.*goes on from the last round"),
    ):
        engine._wait_for_workers()
    monkeypatch.setattr(Empty, "nthreads", lambda self: {"tcp://somewhere": 1})
    monkeypatch.setattr(dask_engine, "MAX_IDLE_S", 0.01)
    engine.client.worker_status = "paused"
    with (
        pytest.warns(UserWarning, match="all workers are paused, their memory is full"),
        pytest.raises(EngineError, match=r"all workers have been paused.*give more partitions"),
    ):
        engine._wait_for_workers()


def test_survivors_are_prepared_once_a_part(monkeypatch):
    """A part's points are prepared once, not for every block: that took more time and memory than the kernel."""
    from dualflow.cascade import exchange, tasks
    from dualflow.core import gram
    from dualflow.core.radial import RadialPoints

    made = []

    class Counted(RadialPoints):
        @classmethod
        def of(cls, X, *more):
            made.append(len(X))
            return RadialPoints.of(X, *more)

    model = CascadeSVC(partitions=1).fit(X, Y)
    kernel = Model(*[None] * 4, 1.0, "hinge", True, "rbf", 0.1, 3.0, 0.0, None)
    members = Members(np.arange(len(X)), X, np.ones(len(X)), np.ones(len(X)))
    monkeypatch.setattr(gram, "MIN_POINTS_SEPARATE", 0)
    monkeypatch.setattr("dualflow.core.gram.MIN_POINTS_SEPARATE", 0)
    monkeypatch.setattr(gram, "BLOCK_ENTRIES", 100 * len(model.support_))
    monkeypatch.setattr(gram, "RadialPoints", Counted)
    ones, packing = np.ones(len(model.support_)), exchange.Packing.of([exchange.columns_of(X)])
    message = tasks.Broadcast(kernel, packing, np.empty(0), ones, 0.0, (0.0, 0.0), 0.0, 1)
    survivors = Gram(model.support_vectors_, gamma=0.1)
    values = tasks._gradient(members, kernel.variables_of(members), message, survivors, np.empty(0, dtype=np.intp))
    assert made.count(len(model.support_)) == 1 < len(made) - 1
    assert np.allclose(values, Gram(X, gamma=0.1).cross(model.support_vectors_, np.arange(len(X))).sum(axis=0) - 1)


def test_any_error_of_dask_names_a_lost_scheduler():
    """A client that loses its scheduler in the middle of a call raises what it comes to, such as AttributeError."""
    pytest.importorskip("distributed", reason="pip install 'dualflow[dask]'")
    from types import SimpleNamespace

    from dualflow.cascade.dask_engine import Dask

    def fails(*call, **options):
        raise OSError("connection closed")

    engine, scheduler = object.__new__(Dask), SimpleNamespace(identity=None)
    for client, kind in (
        (SimpleNamespace(status="running", scheduler=None), EngineError),
        (SimpleNamespace(status="closed", scheduler=scheduler), EngineError),
        (SimpleNamespace(status="running", scheduler=scheduler, sync=fails), EngineError),
        (SimpleNamespace(status="running", scheduler=scheduler, sync=lambda *call, **options: {}), AttributeError),
    ):
        engine.client = client
        with pytest.raises(kind), engine._naming_losses():
            raise AttributeError("'NoneType' object has no attribute 'ncores'")
