"""Predictions and scores of dask collections are those of the rows in one place, and are made chunk by chunk."""

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score

from dualflow import (
    LDA,
    LSSVC,
    SVC,
    SVDD,
    SVR,
    CascadeSVC,
    EcoSVC,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    NuSVC,
    OneClassSVM,
    ProblemError,
    QuantileSVR,
)

dask = pytest.importorskip("dask", reason="pip install 'dualflow[dask]'")
array = pytest.importorskip("dask.array", reason="pip install 'dualflow[dask]'")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 4))
WORDS = np.where(X[:, 0] + 0.3 * X[:, 1] > 0, "yes", "no")
THREE = np.digitize(X[:, 0], [-0.5, 0.5])
VALUES = X[:, 0] + 0.1 * X[:, 1] ** 2
LABELS, SCORES = ("predict", "decision_function"), ("predict", "decision_function", "score_samples")
MODELS = {
    "radial": (SVC(), WORDS, LABELS),
    "linear": (SVC(kernel="linear"), WORDS, LABELS),
    "callable": (SVC(kernel=lambda A, B: A @ B.T), WORDS, LABELS),
    "votes": (SVC(), THREE, LABELS),
    "pairs": (SVC(kernel="poly", decision_function_shape="ovo"), THREE, LABELS),
    "cascade": (CascadeSVC(partitions=3), THREE, LABELS),
    "least squares": (LSSVC(), WORDS, LABELS),
    "nu": (NuSVC(), WORDS, LABELS),
    "ecology": (EcoSVC(), WORDS, LABELS),
    "incremental": (IncrementalSVC(), WORDS, LABELS),
    "discriminant": (LDA(), WORDS, (*LABELS, "predict_proba", "predict_log_proba")),
    "regression": (SVR(), VALUES, ("predict",)),
    "quantiles": (QuantileSVR(quantile=[0.2, 0.8]), VALUES, ("predict",)),
    "incremental regression": (IncrementalSVR(), VALUES, ("predict",)),
    "ball": (SVDD(nu=0.1), None, SCORES),
    "incremental ball": (IncrementalSVDD(nu=0.1), None, SCORES),
    "plane": (OneClassSVM(nu=0.1, kernel="linear"), None, SCORES),
}


def chunked(values, rows=80):
    """Return an array as a dask array; a matrix is split along its columns too."""
    return array.from_array(values, chunks=(rows, 2) if values.ndim == 2 else rows)


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_made_chunk_by_chunk(name):
    model, y, methods = MODELS[name]
    model = model.fit(X, y) if y is not None else model.fit(X)
    for method in methods:
        here, there = getattr(model, method)(X), getattr(model, method)(chunked(X))
        assert isinstance(there, array.Array)
        assert there.chunks[0] == (80, 80, 80)
        assert there.dtype == here.dtype
        computed = there.compute(scheduler="synchronous")
        assert computed.shape == here.shape
        same = np.array_equal(computed, here) if here.dtype.kind in "Ui" else np.allclose(computed, here, atol=1e-12)
        assert same
        none = getattr(model, method)(X[:0])
        assert (none.shape, none.dtype) == ((0, *here.shape[1:]), here.dtype)


def test_nothing_is_read_before_compute_and_chunks_may_be_empty():
    read = []

    def rows(k):
        read.append(k)
        return X[80 * k : 80 * k + 80] if k != 1 else X[:0]

    lazy = [array.from_delayed(dask.delayed(rows)(k), (np.nan, 4), float) for k in range(3)]
    model = SVC().fit(X, WORDS)
    found = model.predict(array.concatenate(lazy, allow_unknown_chunksizes=True))
    assert read == []
    expected = np.concatenate([model.predict(X[:80]), model.predict(X[160:])])
    assert np.array_equal(found.compute(scheduler="synchronous"), expected)
    assert sorted(read) == [0, 1, 2]


def test_scores_are_those_of_the_rows_in_one_place():
    weight = RNG.uniform(0.1, 2.0, size=len(X))
    for model, y, score in ((SVC(C=0.01), WORDS, accuracy_score), (SVR(C=0.05), VALUES + 1e3, r2_score)):
        model.fit(X, y)
        noisy = np.roll(y, 7)
        for given in (None, weight):
            expected = score(noisy, model.predict(X), sample_weight=given)
            lazily = model.score(chunked(X), chunked(noisy), None if given is None else chunked(given))
            assert lazily == pytest.approx(expected, rel=1e-9)
            assert model.score(X, noisy, given) == pytest.approx(expected, rel=1e-12)
        with pytest.raises(ProblemError, match=r"\[3, 2\] chunks"):
            model.score(chunked(X), chunked(noisy, 120))
        with pytest.raises(ProblemError, match="give one of dask"):
            model.score(chunked(X), noisy)


def test_dataframes_keep_the_names_of_their_columns():
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    frames = pytest.importorskip("dask.dataframe", reason="pip install 'dask[dataframe]'")
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model, lazy = SVC().fit(frame, WORDS), frames.from_pandas(frame, npartitions=3)
    found = model.predict(lazy)
    assert np.array_equal(found.compute(scheduler="synchronous"), model.predict(frame))
    few = lazy[lazy.a > 1.5]  # a partition may have no such row
    assert np.array_equal(model.predict(few).compute(scheduler="synchronous"), model.predict(frame[frame.a > 1.5]))
    mapped = lazy.map_partitions(model.predict)  # dask calls it with an empty frame
    assert np.array_equal(np.asarray(mapped.compute(scheduler="synchronous")), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(lazy[["b", "a", "c", "d"]])


def test_sparse_chunks():
    sparse = pytest.importorskip("scipy.sparse")
    rows = array.from_array(X, chunks=(80, 4)).map_blocks(sparse.csr_array)
    for model in (SVC().fit(sparse.csr_array(X), WORDS), CascadeSVC().fit(rows, chunked(WORDS))):
        assert np.array_equal(model.predict(rows).compute(scheduler="synchronous"), model.predict(X))


@pytest.mark.parametrize("model", [SVC(), SVR(), SVDD(), OneClassSVM(), LDA(), EcoSVC()])
def test_a_fit_that_needs_all_rows_says_so(model):
    y = VALUES if isinstance(model, SVR) else WORDS
    with pytest.raises(ProblemError, match=r"X is a dask array, and \w+ needs all rows.*X\.compute\(\).*CascadeSVC"):
        model.fit(chunked(X), chunked(y)) if y is not None else model.fit(chunked(X))
