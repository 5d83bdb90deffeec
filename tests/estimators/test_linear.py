"""Linear kernels: the default takes `interior-point` where it pays, and models predict by their weights."""

import numpy as np
import pytest
from sklearn.base import clone

import dualflow
from dualflow import SVC, SVDD, SVR, Gram, OneClassSVM, certify, problems, solve
from dualflow.solvers.registry import auto_solver_name

RNG = np.random.default_rng(3)
X = RNG.normal(size=(1600, 5))
BADLY_SCALED = X * np.array([1.0, 1.0, 1e7, 1.0, 1.0])
WIDELY_SCALED = X * 10.0 ** np.array([-6, -3, 0, 3, 6])
SIGNS = np.where(X[:, 0] + X[:, 1] + 0.5 * RNG.normal(size=1600) > 0, 1, -1)
VALUES = X[:, 0] - X[:, 1] + 0.3 * RNG.normal(size=1600)
MODELS = [
    (SVC(kernel="linear"), SIGNS),
    (SVC(kernel="linear", class_weight={1: 3.0}), SIGNS),
    (SVC(kernel="linear", loss="squared_hinge"), SIGNS),
    (SVC(kernel="linear", fit_intercept=False), SIGNS),
    (SVC(kernel="linear"), SIGNS + ((X[:, 3] > 0.8) & (SIGNS > 0))),
    (SVC(kernel="poly", degree=2, coef0=1.0), SIGNS),
    (SVR(kernel="linear"), VALUES),
    (SVDD(nu=0.4, kernel="linear"), None),
    (OneClassSVM(nu=0.4, kernel="linear"), None),
]


def values_of(model, points):
    return model.decision_function(points) if hasattr(model, "decision_function") else model.predict(points)


@pytest.mark.parametrize(("model", "targets"), MODELS, ids=str)
def test_the_default_is_the_same_optimum_as_the_working_set(model, targets):
    model = clone(model).fit(X, targets)
    assert {s.provenance["solver"] for s in model.solutions_} == {"interior-point"}
    assert model.certificate_.relative_gap <= 1e-10
    other = clone(model).set_params(solver="working-set").fit(X, targets)
    assert {s.provenance["solver"] for s in other.solutions_} == {"working-set"}
    np.testing.assert_allclose(values_of(model, X), values_of(other, X), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("points", [BADLY_SCALED, WIDELY_SCALED], ids=["1e7", "1e-6 to 1e6"])
@pytest.mark.parametrize(
    ("model", "targets"), [(SVC(kernel="linear"), SIGNS), (SVR(kernel="linear"), VALUES)], ids=["SVC", "SVR"]
)
def test_columns_of_any_scale_are_certified_by_the_weights_that_predict(model, targets, points, tmp_path):
    model = clone(model).fit(points, targets)
    certificate = model.certificate_
    assert certificate.relative_gap <= 1e-9
    assert certificate.primal is not None
    assert "by the weights of the features" in str(certificate)
    np.testing.assert_array_equal(model.coef_[0], certificate.primal)
    by_hand = points @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_allclose(values_of(model, points), by_hand, rtol=1e-8, atol=1e-7)
    np.testing.assert_allclose(model.solution_.decision_values(points), by_hand, rtol=1e-8, atol=1e-7)
    # P(w, b) itself, from the data: what is certified is what predicts.
    problem = model.solution_.problem
    loss = np.maximum(0, 1 - targets * by_hand) if isinstance(model, SVC) else np.abs(targets - by_hand) - 0.1
    primal = 0.5 * certificate.primal @ certificate.primal + np.maximum(loss, 0.0).sum() * problem.upper[0]
    assert primal == pytest.approx(-certificate.objective, rel=1e-7)
    model.save(tmp_path / "model")
    loaded = dualflow.load(tmp_path / "model")
    np.testing.assert_array_equal(values_of(loaded, points), values_of(model, points))
    np.testing.assert_array_equal(loaded.certificate_.primal, certificate.primal)


def test_columns_that_are_far_apart_are_certified_however_few_points():
    few = slice(0, 150)
    model = SVC(kernel="linear").fit(BADLY_SCALED[few], SIGNS[few])
    assert model.certificate_.relative_gap <= 1e-9


def test_a_bound_by_any_weights_is_a_bound():
    """Weak duality: for any given weights no bound exceeds the optimum, and a bound with a larger error than that of
    α alone is not used."""
    problem = problems.svc(Gram(BADLY_SCALED, "linear"), SIGNS, 1.0)
    solution = solve(problem, "interior-point")
    certifier, optimum = dualflow.core.certificate.Certifier(problem), solution.certificate.lower_bound
    w, alone = solution.certificate.primal, certify(problem, solution.alpha)
    for other in (0.0 * w, 2.0 * w, w + 0.1, w * (1.0 + 1e-3 * RNG.normal(size=5))):
        found = certifier.certify(solution.alpha, primal=other)
        assert found.lower_bound <= optimum + 1e-9 * abs(optimum)
        assert found.gap + found.rounding <= alone.gap + alone.rounding
        certifier = dualflow.core.certificate.Certifier(problem)


def test_weights_of_another_shape_or_not_finite_are_not_taken(monkeypatch):
    problem = problems.svc(Gram(X, "linear"), SIGNS, 1.0)
    kind = dualflow.solvers.registry.solver_class("interior-point")
    for wrong in (np.ones(3), np.full(5, np.nan)):
        monkeypatch.setattr(kind, "primal", lambda self, context, state, wrong=wrong: wrong)
        assert solve(problem, "interior-point").certificate.primal is None


def test_which_solver_is_usual():
    def usual(n, m, kernel="linear", **more):
        return auto_solver_name(Gram(np.random.default_rng(0).normal(size=(n, m)), kernel, **more), n)

    assert usual(999, 5) == usual(1200, 200) == usual(1200, 5, "rbf") == "working-set"
    assert usual(1000, 5) == usual(4000, 200) == usual(1200, 5, "poly", coef0=1.0) == "interior-point"
    many = Gram(np.random.default_rng(0).normal(size=(6000, 9)), "poly", coef0=1.0)
    assert auto_solver_name(many, 6000) == "interior-point"
    assert auto_solver_name(many, 1200) == "working-set"  # a pair of several classes
    assert usual(1200, 9, "poly", coef0=1.0) == usual(1200, 5, "sigmoid") == "working-set"


@pytest.mark.parametrize("kernel", ["linear", "poly"])
@pytest.mark.parametrize("kind", [SVDD, OneClassSVM])
def test_few_support_vectors_and_few_monomials_are_left_to_the_working_set(kind, kernel):
    few, many = (kind(nu=nu, kernel=kernel, degree=2, coef0=1.0).fit(X) for nu in (0.02, 0.4))
    assert few.solution_.provenance["solver"] == "working-set"
    assert many.solution_.provenance["solver"] == ("interior-point" if kernel == "linear" else "working-set")
    for fast in (few, many):
        assert fast.certificate_.relative_gap <= 1e-10
        slow = clone(fast).set_params(solver="interior-point").fit(X)
        np.testing.assert_allclose(fast.decision_function(X), slow.decision_function(X), rtol=1e-6, atol=1e-7)


def test_options_without_a_name_are_those_of_the_working_set():
    model = SVC(kernel="linear", solver_options={"gap_tol": 1e-4}).fit(X, SIGNS)
    assert model.solution_.provenance["solver"] == "working-set"


def test_sparse_points_with_few_columns():
    from scipy.sparse import csr_array

    one_hot = (RNG.random((1500, 12)) < 0.3).astype(float)
    y = np.where(one_hot @ RNG.normal(size=12) + 0.5 * RNG.normal(size=1500) > 0, 1, -1)
    sparse, dense = SVC(kernel="linear").fit(csr_array(one_hot), y), SVC(kernel="linear").fit(one_hot, y)
    assert sparse.solution_.provenance["solver"] == "interior-point"
    assert sparse.certificate_.relative_gap <= 1e-9
    np.testing.assert_allclose(sparse.decision_function(one_hot), dense.decision_function(one_hot), atol=1e-6)
