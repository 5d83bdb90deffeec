"""Tests of a cascade on a dask cluster: the same bits when workers die."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from sklearn.datasets import make_classification

from dualflow import (
    SVC,
    CascadeSVC,
    EngineError,
    FitError,
    PartitionedLinearSVC,
    PartitionedLinearSVDD,
    PartitionedLinearSVR,
    ProblemError,
    SVCSearchCV,
)
from dualflow.cascade.engines import engine_of
from dualflow.core.runtime import clock
from tests.faults.processes import forks

dask = pytest.importorskip("dask", reason="pip install 'dualflow[dask]'")
distributed = pytest.importorskip("distributed", reason="pip install 'dualflow[dask]'")

X, Y = make_classification(600, 5, flip_y=0.05, random_state=1)
#: As few processes as possible.
OPTIONS = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0", "memory_limit": "2GB"}


@pytest.fixture
def no_network(own_sockets):
    """Replaces the suite's fixture, which blocks every connection."""


@pytest.fixture(scope="module")
def cluster(own_sockets):
    forks()
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.LocalCluster(host="127.0.0.1", **OPTIONS) as cluster,
    ):
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(2)
        yield client


def same(one, other):
    names = ("support_", "dual_coef_", "intercept_", "n_iter_")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


class Deadly:
    """Rows whose reading kills the worker a given number of times."""

    def __init__(self, folder, times, k):
        self.folder, self.times, self.k = str(folder), times, k

    def load(self):
        for turn in range(self.times):
            if not os.path.exists(f"{self.folder}/{turn}"):
                open(f"{self.folder}/{turn}", "x").close()
                os.kill(os.getpid(), signal.SIGKILL)
        return X[self.k :: 3], Y[self.k :: 3]


@pytest.mark.filterwarnings("ignore:Running on a single-machine scheduler:UserWarning")  # by dask 2025.1
def test_arrays_of_dask_give_the_same_bits_wherever_they_are_computed(client):
    array = pytest.importorskip("dask.array")
    here = CascadeSVC(partitions=3, partitioner="given").fit(X, Y)
    assert same(here, CascadeSVC(partitions=3, partitioner="given", engine=client).fit(X, Y))
    chunked = array.from_array(X, chunks=(200, 2)), array.from_array(Y, chunks=200)
    there = CascadeSVC(engine=client).fit(*chunked)
    assert same(here, there)
    assert same(here, CascadeSVC().fit(*chunked))
    for row in there.rounds_[1:]:
        assert 0 < row.sent + row.received <= 3 * row.survivors * 8 * (X.shape[1] + 1)
    with pytest.raises(ProblemError, match="give one of dask"):
        CascadeSVC(engine=client).fit(chunked[0], Y)
    with pytest.raises(ProblemError, match=r"\[3, 2\] chunks"):
        CascadeSVC(engine=client).fit(chunked[0], array.from_array(Y, chunks=300))
    # No data of the fit stay on the cluster once it has processed their release.
    for _ in range(100):
        if not client.futures:
            break
        time.sleep(0.1)
    assert not client.futures


def test_pairs_of_classes_and_searches_over_the_cluster(client):
    import joblib
    from sklearn.datasets import load_iris
    from sklearn.model_selection import GridSearchCV

    rows, labels = load_iris(return_X_y=True)
    options = {"partitions": 3, "random_state": 0}
    model = CascadeSVC(engine="dask", **options).fit(rows, labels)
    assert same(model, CascadeSVC(**options).fit(rows, labels))
    assert {row.pair for row in model.rounds_} == {0, 1, 2}
    grid = {"C": [0.1, 1.0]}
    here = GridSearchCV(CascadeSVC(**options), grid, cv=2).fit(X, Y)
    there = GridSearchCV(CascadeSVC(engine=client, **options), grid, cv=2).fit(X, Y)
    assert np.array_equal(here.cv_results_["mean_test_score"], there.cv_results_["mean_test_score"])
    assert same(here.best_estimator_, there.best_estimator_)
    own = SVCSearchCV(SVC(), grid, cv=2).fit(X, Y)
    with joblib.parallel_config("dask"):
        spread = GridSearchCV(SVC(), grid, cv=2, n_jobs=2).fit(X, Y)
        inside = SVCSearchCV(SVC(), grid, cv=2, n_jobs=2).fit(X, Y)
    assert np.allclose(spread.cv_results_["mean_test_score"], own.cv_results_["mean_test_score"])
    assert np.array_equal(inside.cv_results_["mean_test_score"], own.cv_results_["mean_test_score"])


def test_two_workers_killed_in_a_row_cost_their_parts(client, tmp_path):
    whole = CascadeSVC().fit([Deadly(tmp_path, 0, k) for k in range(3)])
    model = CascadeSVC(engine=client).fit([Deadly(tmp_path, 2 * (k == 1), k) for k in range(3)])
    assert len(list(tmp_path.iterdir())) == 2
    assert same(whole, model)


def test_shared_data_lost_with_all_workers_are_sent_again(client):
    parts, done = [Deadly("", 0, k) for k in range(3)], []

    def kill_all(row):
        if not done:
            done.append(row)
            for pid in client.run(os.getpid).values():
                os.kill(pid, signal.SIGKILL)

    model = CascadeSVC(engine=client, callback=kill_all, tol=1e-6).fit(parts)
    assert same(model, CascadeSVC(tol=1e-6).fit(parts))
    assert len(done) == 1
    assert len(model.rounds_) > 1


@pytest.mark.timeout(120)
def test_a_worker_may_die_while_survivors_are_sent(client, monkeypatch):
    """With dask's broadcast a worker's death in the middle of it blocked the fit for ever."""
    parts, died, real = [Deadly("", 0, k) for k in range(3)], [], type(client).scatter

    def scatter(self, data, **options):
        assert not options.get("broadcast")
        if not died:
            died.append(next(iter(client.run(os.getpid).values())))
            os.kill(died[0], signal.SIGKILL)  # the cluster does not know of it yet
        return real(self, data, **options)

    monkeypatch.setattr(type(client), "scatter", scatter)
    model = CascadeSVC(engine=client, tol=1e-6).fit(parts)
    assert same(model, CascadeSVC(tol=1e-6).fit(parts))
    assert len(died) == 1


def test_a_scheduler_that_is_lost_is_an_error_and_the_checkpoint_resumes(tmp_path):
    options, path = {"tol": 1e-7, "max_invaders": 1}, tmp_path / "run.npz"
    parts = [Deadly("", 0, k) for k in range(3)]
    whole = CascadeSVC(**options).fit(parts)
    # The worker is in this process, which may hold more than 2 GB: with a limit it would be paused.
    one = OPTIONS | {"n_workers": 1, "processes": False, "protocol": "tcp://", "memory_limit": 0}
    cluster = distributed.LocalCluster(host="127.0.0.1", **one)
    client = distributed.Client(cluster, timeout="2s")
    try:

        def close(row):
            if row.step == 1:
                cluster.close()

        lost = CascadeSVC(**options, engine=client, callback=close, checkpoint=path)
        with pytest.raises(EngineError, match=r"scheduler is lost.*goes on from the last round"):
            lost.fit(parts)
        assert not lost.__sklearn_is_fitted__()
    finally:
        client.close()
        cluster.close()
    resumed = CascadeSVC(**options, checkpoint=path).fit(parts)
    assert same(whole, resumed)
    assert resumed.rounds_[0].step == 2


class OwnClient(distributed.Client):
    """A client of a class of the user's own, which is a client all the same."""


def test_a_call_that_fails_asks_the_scheduler_whether_it_is_lost(cluster, monkeypatch):
    with OwnClient(cluster) as client:
        engine = engine_of(client, [], None)
        with pytest.raises(OSError, match="of a part"), engine._naming_losses():
            raise OSError("of a part")

        def fail(*arguments, **options):
            raise OSError("no scheduler")

        monkeypatch.setattr(client.scheduler, "identity", fail, raising=False)
        assert client.status == "running"
        with pytest.raises(EngineError, match="scheduler is lost"), engine._naming_losses():
            raise OSError("stream closed")


# --- what a task may do -------------------------------------------------------------------------


class Endless:
    """Rows whose reading takes a minute, unless it is ended as a solve is."""

    def load(self):
        for _ in range(600):
            clock.check_time()
            time.sleep(0.1)
        return X, Y


class EndlessLater(Endless):
    """Rows whose second reading takes a minute."""

    def __init__(self, path):
        self.path = str(path)

    def load(self):
        if os.path.exists(self.path):
            return super().load()
        open(self.path, "x").close()
        return X, Y


def tasks_at_work(client):
    """Return the number of tasks that workers run, or still run after they were cancelled."""
    states = client.run(lambda dask_worker: [task.state for task in dask_worker.state.tasks.values()])
    return sum(state in ("executing", "cancelled") for found in states.values() for state in found)


def ends_soon(client):
    """Return whether the workers are idle within 20 seconds, much earlier than by themselves."""
    since = time.monotonic()
    while tasks_at_work(client):
        if time.monotonic() - since > 20:
            return False
        time.sleep(0.1)
    return True


def test_a_search_on_the_cluster_may_fit_on_the_cluster(client):
    """Its task would wait for the thread that it holds."""
    import joblib
    from sklearn.model_selection import GridSearchCV

    grid = {"C": [0.1, 1.0]}
    here = GridSearchCV(CascadeSVC(partitions=3, random_state=0), grid, cv=2).fit(X, Y)
    with joblib.parallel_config("dask"):
        there = GridSearchCV(CascadeSVC(engine="dask", partitions=3, random_state=0), grid, cv=2, n_jobs=2).fit(X, Y)
    assert np.array_equal(here.cv_results_["mean_test_score"], there.cv_results_["mean_test_score"])
    assert same(here.best_estimator_, there.best_estimator_)


def test_the_time_limit_reaches_the_tasks(client):
    with pytest.raises(FitError, match=r"time_limit=2\.0 was over"):
        CascadeSVC(engine=client, time_limit=2.0).fit([Endless(), Endless()])
    assert ends_soon(client)


@pytest.mark.parametrize("model", [CascadeSVC(), PartitionedLinearSVC()])
def test_ctrl_c_ends_the_tasks_on_the_workers(client, tmp_path, model):
    main = threading.get_ident()
    timer = threading.Timer(2.0, lambda: signal.pthread_kill(main, signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            model.set_params(engine=client).fit([EndlessLater(tmp_path / "0"), EndlessLater(tmp_path / "1")])
    finally:
        timer.cancel()
    assert ends_soon(client)


# --- what may be wrong --------------------------------------------------------------------------


class Hungry:
    """Rows whose reading takes more memory than a worker may have."""

    def load(self):
        held = []
        while True:
            held.append(np.ones(1 << 22))
            time.sleep(0.01)


class Missing:
    """Rows of a file that is not there."""

    def load(self):
        return np.load("nowhere.npy")


def test_a_file_that_is_missing_is_no_lost_worker(client):
    with pytest.raises(ProblemError, match=r"part 1 cannot be read by process \d+ of .*FileNotFoundError.*nowhere"):
        CascadeSVC(engine=client).fit([Deadly("", 0, 0), Missing()])
    array = pytest.importorskip("dask.array")
    missing = array.from_delayed(dask.delayed(lambda: np.load("nowhere.npy"))(), (10, 5), float)
    with pytest.raises(ProblemError, match=r"part 0 cannot be read by a worker: FileNotFoundError"):
        CascadeSVC(engine=client).fit(missing, array.from_array(Y[:10], chunks=10))


def test_a_worker_without_the_package_or_with_another_version_is_named(client, monkeypatch):
    from dualflow.cascade import dask_engine

    with monkeypatch.context() as patch:
        patch.setattr(dask_engine, "IMPORT_AND_VERSION", "__import__('dualflow_that_is_not_there')")
        with pytest.raises(EngineError, match=r"worker tcp://.* cannot import dualflow.*install dualflow"):
            CascadeSVC(engine=client).fit([Deadly("", 0, 0)])
    monkeypatch.setattr(dask_engine, "IMPORT_AND_VERSION", "'0.0'")
    with pytest.raises(EngineError, match=r"has dualflow 0\.0, this process .*same version"):
        CascadeSVC(engine=client).fit([Deadly("", 0, 0)])


@pytest.mark.slow
def test_workers_that_die_of_memory_are_named(own_sockets):
    forks()
    with (
        dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}),
        distributed.LocalCluster(host="127.0.0.1", **OPTIONS | {"memory_limit": "400MB"}) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2)
        with pytest.raises(EngineError, match=r"its memory was full \(it held \d+ MB\): give more partitions"):
            CascadeSVC(engine=client).fit([Hungry(), Deadly("", 0, 0)])


class Reordered:
    """Rows that come in another order, or with other values, at each reading."""

    def __init__(self, k, change):
        self.k, self.change = k, change

    def load(self):
        points, labels = X[self.k :: 3].copy(), Y[self.k :: 3].copy()
        seed = int.from_bytes(os.urandom(4), "little")
        if self.change == "order":
            order = np.random.default_rng(seed).permutation(len(points))
            return points[order], labels[order]
        if self.change == "bit":
            row = seed % len(points)
            points[row, 0] = np.nextafter(points[row, 0], np.inf)
        elif self.change == "label":
            labels[seed % len(points)] ^= 1
        return points, labels


@pytest.mark.parametrize("change", ["order", "bit", "label"])
def test_a_part_that_changes_is_named_and_gets_no_certificate(client, change):
    parts = [Deadly("", 0, 0), Reordered(1, change), Deadly("", 0, 2)]
    for engine in (None, client):
        with pytest.raises(ProblemError, match=r"part changed between two reads.*part 1 gives other rows"):
            CascadeSVC(engine=engine).fit(parts)


class Elsewhere:
    """Makes rows in a worker, and raises in the process of the client."""

    def __init__(self):
        self.client = os.getpid()

    def __call__(self, k):
        assert os.getpid() != self.client
        return X[k::3]


def test_predictions_read_their_rows_on_the_workers(client):
    array, make = pytest.importorskip("dask.array"), Elsewhere()
    model, shape = SVC().fit(X, Y), (200, X.shape[1])
    rows = array.concatenate([array.from_delayed(dask.delayed(make)(k), shape, float) for k in range(3)])
    labels = np.concatenate([Y[k::3] for k in range(3)])
    assert np.array_equal(model.predict(rows).compute(), np.concatenate([model.predict(X[k::3]) for k in range(3)]))
    assert model.score(rows, array.from_array(labels, chunks=200)) == pytest.approx(model.score(X, Y))


# --- the linear model ---------------------------------------------------------------------------


def test_the_linear_model_keeps_its_rows_and_multipliers_on_the_workers(client):
    array = pytest.importorskip("dask.array")
    chunked = array.from_array(X, chunks=(300, 2)), array.from_array(Y, chunks=300)
    here = PartitionedLinearSVC(partitions=2, partitioner="given").fit(X, Y)
    there = PartitionedLinearSVC(engine=client).fit(*chunked)
    assert np.array_equal(here.coef_, there.coef_)
    assert here.certificate_.gap == there.certificate_.gap
    whole = SVC(kernel="linear", tol=1e-11).fit(X, Y).certificate_.objective
    assert there.certificate_.objective == pytest.approx(whole, rel=1e-9)
    # A Gram matrix and at most ten vectors a part and step, whatever the number of rows.
    width = X.shape[1] + 1
    most = 2 * 8 * (width**2 + 10 * width + 60)
    assert all(0 < row.received <= most and 0 < row.sent <= most for row in there.rounds_)


def test_regression_and_balls_give_the_bits_of_one_process(client):
    array = pytest.importorskip("dask.array")
    chunked, values = array.from_array(X, chunks=(300, 2)), array.from_array(X[:, 0] ** 2, chunks=300)
    options = {"partitions": 2, "partitioner": "given", "tol": 0.1}
    here = PartitionedLinearSVR(**options).fit(X, X[:, 0] ** 2)
    there = PartitionedLinearSVR(engine=client, tol=0.1).fit(chunked, values)
    assert np.array_equal(here.coef_, there.coef_)
    assert here.certificate_.gap == there.certificate_.gap
    ball = PartitionedLinearSVDD(engine=client, tol=0.1).fit(chunked)
    assert np.array_equal(ball.center_, PartitionedLinearSVDD(**options).fit(X).center_)


@pytest.mark.slow
def test_states_that_die_with_their_worker_are_computed_again(client):
    parts, died = [Deadly("", 0, k) for k in range(3)], []

    def kill(row):
        if row.step == 4 and not died:
            died.append(next(iter(client.run(os.getpid).values())))
            os.kill(died[0], signal.SIGKILL)

    model = PartitionedLinearSVC(engine=client, callback=kill, tol=1e-4).fit(parts)
    assert len(died) == 1
    whole = PartitionedLinearSVC(tol=1e-4).fit(parts)
    assert np.array_equal(model.coef_, whole.coef_)
    assert model.certificate_.gap == whole.certificate_.gap
