"""`QuantileSVR` against a quadratic program of CVXOPT's, the sample quantile, and its own parts."""

import pickle

import cvxopt
import numpy as np
import pytest
import scipy.sparse
from sklearn.metrics import mean_pinball_loss

from dualflow import Gram, ProblemError, QuantileSVR, load, problems
from dualflow.interchange import to_onnx

RNG = np.random.default_rng(8)
X = RNG.normal(size=(80, 3))
VALUES = X[:, 0] + (0.2 + np.abs(X[:, 1])) * RNG.normal(size=80)
NEW = RNG.normal(size=(40, 3))
WEIGHT = RNG.uniform(0.3, 2.0, 80)
KERNELS = [
    {"kernel": "rbf", "gamma": 0.4},
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.3},
]


def kernel_matrix(A, B, kernel, gamma=1.0, degree=1, coef0=0.0):
    if kernel == "rbf":
        return np.exp(-gamma * ((A[:, None] - B[None]) ** 2).sum(2))
    return A @ B.T if kernel == "linear" else (gamma * A @ B.T + coef0) ** degree


def reference(K, z, C, tau, weight):
    """Return the optimal value by CVXOPT: −min ½βᵀKβ − zᵀβ, −C(1 − τ)ω ≤ β ≤ Cτω, Σβ = 0."""
    n = len(z)
    G, h = np.vstack([np.eye(n), -np.eye(n)]), np.concatenate([C * tau * weight, C * (1 - tau) * weight])
    options = {"show_progress": False, "abstol": 1e-11, "reltol": 1e-11, "feastol": 1e-11}
    parts = map(cvxopt.matrix, (K, -z, G, h, np.ones((1, n)), np.zeros(1)))
    return -cvxopt.solvers.qp(*parts, options=options)["primal objective"]


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weights"])
def test_the_loss_is_that_of_a_quadratic_program(tau, kernel, weight):
    model = QuantileSVR(tau, C=2.0, tol=1e-10, **kernel).fit(X, VALUES, weight)
    assert model.certificate_.reaches(1e-9)
    K, w = kernel_matrix(X, X, **kernel), np.ones(80) if weight is None else weight
    beta = np.zeros(80)
    beta[model.support_] = model.dual_coef_[0]
    pinball = 2.0 * float(w.sum()) * mean_pinball_loss(VALUES, model.predict(X), alpha=tau, sample_weight=w)
    expected = reference(K, VALUES, 2.0, tau, w)
    assert 0.5 * beta @ K @ beta + pinball == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("tau", [0.05, 0.25, 0.5, 0.8])
def test_a_share_of_the_points_is_below(tau):
    residual = VALUES - QuantileSVR(tau, C=5.0, tol=1e-10).fit(X, VALUES).predict(X)
    assert (residual < -1e-6).mean() <= tau
    assert (residual > 1e-6).mean() <= 1 - tau


def test_without_features_it_is_the_sample_quantile():
    model = QuantileSVR(0.3, kernel="linear").fit(np.zeros((11, 1)), np.arange(11.0))
    assert model.predict([[5.0]]) == pytest.approx(3.0, abs=1e-6)  # 0, 1, 2 below it, 7 above


def test_several_quantiles_are_those_of_one_each():
    band = QuantileSVR([0.1, 0.5, 0.9], C=3.0, kernel="linear", random_state=0).fit(X, VALUES)
    assert len(band.certificates_) == 3
    assert band.coef_.shape == (3, 3)
    for k, tau in enumerate((0.1, 0.5, 0.9)):
        one = QuantileSVR(tau, C=3.0, kernel="linear", random_state=0).fit(X, VALUES)
        np.testing.assert_allclose(band.predict(NEW)[:, k], one.predict(NEW), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(band.coef_[k], one.coef_[0], rtol=1e-12, atol=1e-12)


def test_sorted_quantiles_do_not_cross():
    plain = QuantileSVR([0.3, 0.5, 0.7], C=20.0, gamma=0.5).fit(X, VALUES)
    crossed = plain.predict(NEW)
    assert (np.diff(crossed, axis=1) < 0).any()  # else the test says nothing
    ordered = QuantileSVR([0.3, 0.5, 0.7], C=20.0, gamma=0.5, non_crossing=True).fit(X, VALUES)
    np.testing.assert_array_equal(ordered.predict(NEW), np.sort(crossed, axis=1))
    ordered.set_params(non_crossing=False)  # takes effect at the next fit
    np.testing.assert_array_equal(ordered.predict(NEW), np.sort(crossed, axis=1))


def test_the_score_is_the_share_of_the_loss_saved():
    model = QuantileSVR(0.2, C=3.0).fit(X, VALUES)
    own = mean_pinball_loss(VALUES, model.predict(X), alpha=0.2)
    constant = mean_pinball_loss(VALUES, np.full(80, np.percentile(VALUES, 20)), alpha=0.2)
    assert model.score(X, VALUES) == pytest.approx(1 - own / constant)


@pytest.mark.parametrize("quantile", [0.3, [0.2, 0.7]], ids=["one", "two"])
@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
def test_saved_and_pickled_models_predict_the_same(tmp_path, quantile, form, kernel):
    model = QuantileSVR(quantile, C=3.0, random_state=0, **kernel).fit(form(X), VALUES, np.arange(80) % 4)
    model.save(tmp_path / "model.dualflow")
    for other in (load(tmp_path / "model.dualflow"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(form(NEW)), model.predict(form(NEW)))
        assert other.certificate_.reaches(1e-6)


def test_a_precomputed_kernel_is_the_named_one():
    K, cross = (kernel_matrix(A, X, **KERNELS[0]) for A in (X, NEW))
    given = QuantileSVR([0.2, 0.7], kernel="precomputed", tol=1e-10).fit(K, VALUES)
    named = QuantileSVR([0.2, 0.7], tol=1e-10, **KERNELS[0]).fit(X, VALUES)
    np.testing.assert_allclose(given.predict(cross), named.predict(NEW), atol=1e-6)


@pytest.mark.parametrize("solver", ["smo", "interior-point", "cvxopt", "gradient-flow"])
def test_other_solvers_find_it(solver):
    values = QuantileSVR(0.3, gamma=0.3, solver=solver).fit(X, VALUES).predict(NEW)
    np.testing.assert_allclose(values, QuantileSVR(0.3, gamma=0.3, tol=1e-10).fit(X, VALUES).predict(NEW), atol=1e-3)


@pytest.mark.parametrize(
    ("quantile", "message"),
    [
        (0.0, "quantile"),
        (1.0, "quantile"),
        (np.nan, "quantile"),
        ("median", "quantile"),
        ([], "ascending"),
        ([0.5, 0.5], "ascending"),
        ([0.9, 0.1], "ascending"),
        ([0.1, 1.5], "quantile"),
    ],
)
def test_bad_quantiles_are_named(quantile, message):
    with pytest.raises(ProblemError, match=message):
        QuantileSVR(quantile).fit(X, VALUES)


def test_a_graph_holds_one_quantile(tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra onnx")
    model = QuantileSVR(0.8, C=3.0).fit(X, VALUES)
    graph = to_onnx(model, dtype="float64")
    (found,) = runtime.InferenceSession(graph.SerializeToString()).run(None, {"X": NEW})
    np.testing.assert_allclose(found[:, 0], model.predict(NEW), atol=1e-9)
    with pytest.raises(ProblemError, match="2 quantiles"):
        to_onnx(QuantileSVR([0.2, 0.8]).fit(X, VALUES))


def test_values_that_are_no_numbers_are_named():
    gram = Gram([[0.0], [1.0]], gamma=1.0)
    with pytest.raises(ProblemError, match="z must be 2 finite numbers, found NaN"):
        problems.quantile_svr(gram, [0.0, np.nan])
    with pytest.raises(ProblemError, match=r"found shape \(1,\)"):
        problems.quantile_svr(gram, [0.0])
