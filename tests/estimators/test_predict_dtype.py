"""predict_dtype="float32" keeps what it promises, 1e-4 of the largest decision value, of any data and kernel."""

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

import dualflow
from dualflow import Gram
from dualflow.core import gram as gram_module
from dualflow.core.kernel_cache import KeptGram

PROMISE = 1e-4
KERNELS = {
    "linear": {"kernel": "linear"},
    "square": {"kernel": "poly", "degree": 2, "coef0": 1.0},
    "cubic": {"kernel": "poly", "degree": 3},
    "quintic": {"kernel": "poly", "degree": 5, "coef0": 0.5},
    "rbf": {"kernel": "rbf"},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.1},
    "callable": {"kernel": lambda A, B: rbf_kernel(A, B, 0.5)},
}
CLASSIFIERS = ["SVC", "LSSVC", "IncrementalSVC", "EcoSVC", "CascadeSVC", "NuSVC"]
BALLS = ["SVDD", "OneClassSVM", "IncrementalSVDD", "EcoSVDD"]
TUBES = ["SVR", "LSSVR", "IncrementalSVR", "NuSVR", "QuantileSVR"]


def points(seed: int, n: int, offset: float = 0.0, scale: float = 1.0) -> np.ndarray:
    return scale * (np.random.default_rng(seed).normal(size=(n, 3)) + offset)


def decision(name: str, X: np.ndarray, Z: np.ndarray, dtype: str, **parameters: object) -> np.ndarray:
    """Return a model's decision values of Z in that precision."""
    if name == "CascadeSVC":
        parameters["random_state"] = 0
    model = getattr(dualflow, name)(predict_dtype=dtype, **parameters)
    apart = X - X.mean(axis=0)
    if name in BALLS:
        model.fit(X)
    else:
        values = apart[:, 0] * apart[:, 1] + 0.3 * apart[:, 2]
        model.fit(X, values / values.std() if name in TUBES else np.sign(values))
    return model.predict(Z) if name in TUBES else model.decision_function(Z)


@pytest.mark.parametrize("offset", [0.0, 10.0, -30.0])
@pytest.mark.parametrize("name", CLASSIFIERS + BALLS + TUBES)
def test_every_estimator_keeps_the_promise_away_from_the_origin(name, offset):
    X, Z = points(0, 60, offset), points(1, 300, offset)
    kernel = {"kernel": "poly", "degree": 3, "coef0": 1.0, "gamma": 1.0 / (1.0 + offset**2)}
    exact, rough = (decision(name, X, Z, dtype, **kernel) for dtype in ("float64", "float32"))
    assert np.abs(rough - exact).max() <= PROMISE * np.abs(exact - (exact.mean() if name in TUBES else 0)).max()


@pytest.mark.parametrize("kernel", [kernel for kernel in KERNELS if kernel != "sigmoid"])  # which is not convex
@pytest.mark.parametrize("name", ["SVC", "SVDD", "SVR", "IncrementalSVDD"])
def test_every_kernel_keeps_the_promise(name, kernel):
    if name.startswith("Incremental") and kernel == "quintic":
        return
    X, Z = points(0, 60, 3.0, 2.0), points(1, 300, 3.0, 2.0)
    exact, rough = (decision(name, X, Z, dtype, **KERNELS[kernel]) for dtype in ("float64", "float32"))
    assert np.abs(rough - exact).max() <= PROMISE * np.abs(exact).max()


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, -40.0])
@pytest.mark.parametrize("offset", [0.0, 10.0, -30.0, 1000.0])
@pytest.mark.parametrize("weights", ["alike", "cancelling"])
def test_float32_sums_are_as_accurate_as_promised(kernel, scale, offset, weights):
    """The constant common to all values, which an intercept removes, is left out."""
    X, Z = points(2, 80, offset, scale), points(3, 500, offset, scale)
    gram = KeptGram(Gram(X, **KERNELS[kernel]))
    W = np.random.default_rng(4).normal(size=(80, 2))
    if weights == "cancelling":
        W -= W.mean(axis=0)
    exact = gram.expand(Z, np.arange(80), W)
    rough = gram.expand(Z, np.arange(80), W, np.float32)
    assert (np.abs(rough - exact).max(axis=0) <= PROMISE * 0.5 * np.ptp(exact, axis=0)).all()


def test_single_precision_is_used_where_it_is_accurate(monkeypatch):
    gram, sums = KeptGram(Gram(points(5, 80), "poly")), []
    plain = gram_module.KernelMatrix._sums

    def recorded(self, new, J, W, dtype):
        sums.append((len(new), dtype))
        return plain(self, new, J, W, dtype)

    monkeypatch.setattr(gram_module.KernelMatrix, "_sums", recorded)
    gram.expand(points(6, 5000), np.arange(80), np.ones((80, 1)), np.float32)
    assert sums[-1] == (5000, np.float32)
    assert sum(count for count, _ in sums[:-1]) <= 2 * gram_module.TRIAL_POINTS  # predictions stay cheap
    gram = KeptGram(Gram(points(5, 80, 1000.0), "poly"))
    gram.expand(points(6, 5000, 1000.0), np.arange(80), np.ones((80, 1)), np.float32)
    assert sums[-1] == (5000, float)
