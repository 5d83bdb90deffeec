"""Ray's joblib backend fits a cascade, and Spark's and MPI's workers score with a pickled model, to the same bits."""

import shutil
import subprocess
import sys

import joblib
import numpy as np
import pytest

from dualflow import SVC, CascadeSVC

X = np.random.default_rng(0).normal(size=(300, 2))
Y = (X[:, 0] > X[:, 1] ** 2).astype(int)
#: What each rank of MPI runs: it scores with the model of a file, and rank 0 compares.
RANKS = """
import sys
import joblib
import numpy as np
from mpi4py.futures import MPICommExecutor

with MPICommExecutor() as pool:
    if pool is not None:
        model, X = joblib.load(sys.argv[1])
        found = np.concatenate(list(pool.map(model.decision_function, np.array_split(X, 6))))
        print(np.array_equal(found, model.decision_function(X)))
"""


@pytest.fixture
def no_network(own_sockets):
    """Replaces the suite's fixture, which blocks every connection."""


@pytest.mark.slow
def test_ray_gives_the_same_bits():
    ray = pytest.importorskip("ray", reason="pip install ray")
    from ray.util.joblib import register_ray

    ray.init(num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, log_to_driver=False)
    try:
        register_ray()
        with joblib.parallel_config("ray", n_jobs=2):
            model = CascadeSVC(engine="joblib", n_jobs=2, partitions=3, random_state=0).fit(X, Y)
    finally:
        ray.shutdown()
    here = CascadeSVC(partitions=3, random_state=0).fit(X, Y)
    assert np.array_equal(model.dual_coef_, here.dual_coef_)
    assert np.array_equal(model.intercept_, here.intercept_)
    assert model.certificate_.gap == here.certificate_.gap


# Spark leaves the closing of its sockets to the collection of garbage.
@pytest.mark.filterwarnings("ignore:unclosed.*socket:ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.slow
def test_spark_scores_with_map_in_pandas(monkeypatch):
    pytest.importorskip("pyspark", reason="pip install pyspark")
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: there is no java on the path")
    from pyspark.sql import SparkSession

    frame = pandas.DataFrame(X, columns=["a", "b"])
    model = SVC().fit(frame, Y)

    def scored(frames):
        for one in frames:
            yield one.assign(value=model.decision_function(one[["a", "b"]]))

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    try:
        rows = session.createDataFrame(frame).repartition(3).mapInPandas(scored, "a double, b double, value double")
        found = np.array([tuple(row) for row in rows.collect()])
    finally:
        session.stop()
    assert len(found) == len(X)
    given = pandas.DataFrame(found[:, :2], columns=["a", "b"])
    assert np.allclose(found[:, 2], model.decision_function(given), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_ranks_of_mpi_score(tmp_path):
    pytest.importorskip("mpi4py", reason="pip install mpi4py mpich")
    if shutil.which("mpiexec") is None:
        pytest.skip("there is no mpiexec on the path: pip install mpich")
    joblib.dump((SVC().fit(X, Y), X), tmp_path / "model")
    (tmp_path / "ranks.py").write_text(RANKS)
    command = ["mpiexec", "-n", "3", sys.executable, tmp_path / "ranks.py", tmp_path / "model"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["True"], done.stderr
