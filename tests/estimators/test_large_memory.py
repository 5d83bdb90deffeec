"""X in a file: how many times it is held in memory while a model is made of it, and that predictions hold little."""

import tracemalloc

import numpy as np
import pytest

from dualflow import SVC, release_memory
from dualflow.core import gram

N, FEATURES = 60_000, 60
#: Of X, in units of its size: the Gram's own copy; points ready for the kernel in float32, and in float64 for
#: certificates; vectors. Beside them what is at work at a time, in bytes.
COPIES, BESIDE = 2.9, 40e6


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    """X and y of two classes that lie apart, of which few are support vectors."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=N)
    X = rng.normal(size=(N, FEATURES))
    X[:, 0] += 12.0 * y
    path = tmp_path_factory.mktemp("large") / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r"), y


def peak_of(work):
    """Return a function's result and its peak of memory in bytes."""
    release_memory()
    tracemalloc.start()
    try:
        found = work()
        return found, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_fit_holds_three_copies_of_a_mapped_file_at_most(mapped):
    X, y = mapped
    SVC(tol=1e-3).fit(X[:500], y[:500])  # what is loaded and kept the first time
    model, peak = peak_of(lambda: SVC(tol=1e-3, gamma=0.01).fit(X, y))
    assert model.certificate_.within(1e-3)
    assert 2.5 * X.nbytes < peak < COPIES * X.nbytes + BESIDE


def test_predictions_of_a_mapped_file_are_made_in_parts(mapped, monkeypatch):
    monkeypatch.setattr(gram, "BLOCK_ENTRIES", 1 << 16)  # of 32 MB, more than X takes
    X, y = mapped
    model = SVC(tol=1e-3, gamma=0.01).fit(X[:2000], y[:2000])
    whole, peak = peak_of(lambda: model.decision_function(X))
    assert peak < 0.2 * X.nbytes
    parts = [model.decision_function(X[start : start + 7000]) for start in range(0, N, 7000)]
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-12, atol=1e-12)
