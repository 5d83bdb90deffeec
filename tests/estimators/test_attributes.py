"""Attributes mean the same in all estimators, checked by hand, and missing ones raise the same error."""

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.datasets import make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels

from dualflow import (
    LSSVC,
    LSSVR,
    SVC,
    SVDD,
    SVR,
    EcoSVC,
    EcoSVDD,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    OneClassSVM,
    Solution,
    Status,
    certify,
)

BINARY = make_moons(60, noise=0.25, random_state=0)
BLOBS, FOUR = make_blobs(60, centers=4, n_features=2, cluster_std=3.0, random_state=1)
MANY = BLOBS / 5.0, np.array(["west", "east", "north", "south"])[FOUR]
ALONE = (BINARY[0],)
NUMBERS = BINARY[0], np.sin(2 * BINARY[0][:, 0])
Z = np.random.default_rng(0).uniform(-2, 3, size=(40, 2))

#: Every estimator on every kind of data it accepts; streams forget no point, so all are optima over the same points.
MODELS = {
    "SVC": (SVC(C=3.0, gamma=0.7), BINARY),
    "SVC, penalised": (SVC(C=3.0, gamma=0.7, fit_intercept="penalised"), BINARY),
    "SVC, squared hinge": (SVC(C=3.0, gamma=0.7, loss="squared_hinge"), BINARY),
    "SVC, four classes": (SVC(C=3.0, kernel="linear"), MANY),
    "SVDD": (SVDD(nu=0.2, gamma=0.7), ALONE),
    "SVDD, hard": (SVDD(nu=None, kernel="linear"), ALONE),
    "OneClassSVM": (OneClassSVM(nu=0.2, gamma=0.7), ALONE),
    "SVR": (SVR(C=3.0, gamma=0.7), NUMBERS),
    "LSSVC": (LSSVC(C=3.0, gamma=0.7), BINARY),
    "LSSVC, four classes": (LSSVC(C=3.0, kernel="linear", fit_intercept=False), MANY),
    "LSSVR": (LSSVR(C=3.0, gamma=0.7), NUMBERS),
    "EcoSVC": (EcoSVC(C=3.0, gamma=0.7, reserve=np.inf), BINARY),
    "EcoSVC, no intercept": (EcoSVC(C=3.0, gamma=0.7, reserve=np.inf, fit_intercept=False), BINARY),
    "EcoSVC, four classes": (EcoSVC(C=3.0, kernel="linear", reserve=np.inf), MANY),
    "EcoSVDD": (EcoSVDD(nu=0.2, gamma=0.7, reserve=np.inf), ALONE),
    "EcoSVDD, hard": (EcoSVDD(nu=None, kernel="linear", reserve=np.inf), ALONE),
    "IncrementalSVC": (IncrementalSVC(C=3.0, gamma=0.7), BINARY),
    "IncrementalSVC, four classes": (IncrementalSVC(C=3.0, kernel="linear"), MANY),
    "IncrementalSVDD": (IncrementalSVDD(nu=0.2, gamma=0.7), ALONE),
    "IncrementalSVDD, hard": (IncrementalSVDD(nu=None, kernel="linear"), ALONE),
    "IncrementalSVR": (IncrementalSVR(C=3.0, gamma=0.7), NUMBERS),
}
CLASSIFIERS, BALLS = (SVC, LSSVC, EcoSVC, IncrementalSVC), (SVDD, EcoSVDD, IncrementalSVDD)
FAMILY = (*CLASSIFIERS, *BALLS, OneClassSVM, SVR, LSSVR, IncrementalSVR)
every_model = pytest.mark.parametrize("name", MODELS)

#: Attributes of all estimators.
SHARED = (
    "support_",
    "support_vectors_",
    "n_support_",
    "dual_coef_",
    "solutions_",
    "certificates_",
    "solution_",
    "certificate_",
)
#: Missing attributes, the estimators that lack them, and the attributes to use instead.
REFUSED = {"offset_": "intercept_", "radius_": "intercept_", "intercept_": "offset_ and radius_"}


def refused_by(kind):
    if kind is OneClassSVM:
        return ("radius_",)
    return ("intercept_",) if kind in BALLS else ("offset_", "radius_")


def trained(name):
    """Return a model after all its data: in one fit, or in three batches of a stream."""
    model, data = MODELS[name]
    model = clone(model)
    if not hasattr(model, "partial_fit"):
        return model.fit(*data), data
    more = {"classes": np.unique(data[1])} if isinstance(model, CLASSIFIERS) else {}
    for part in (slice(0, 20), slice(20, 21), slice(21, 60)):
        model.partial_fit(*(array[part] for array in data), **more)
    return model, data


def test_every_estimator_is_tested():
    assert {type(model) for model, _ in MODELS.values()} == set(FAMILY)


def kernel(model, A, B):
    more = {} if model.kernel == "linear" else {"gamma": model.gamma}
    return pairwise_kernels(A, B, model.kernel, **more)


@every_model
def test_support_vectors_weights_and_intercept_are_the_decision_function(name):
    model, _ = trained(name)
    S, weights, K = model.support_vectors_, model.dual_coef_, kernel(model, Z, model.support_vectors_)
    if isinstance(model, BALLS):
        a = weights[0]
        distances = np.diag(kernel(model, Z, Z)) - 2 * K @ a + a @ kernel(model, S, S) @ a
        found, expected = model.decision_function(Z), -distances - model.offset_
        assert model.offset_ == pytest.approx(-(model.radius_**2), rel=1e-12)
    elif isinstance(model, OneClassSVM):
        found, expected = model.decision_function(Z), K @ weights[0] - model.offset_
        assert weights.sum() == pytest.approx(0.2 * 60)
    elif is_regressor(model):
        found, expected = model.predict(Z), K @ weights[0] + model.intercept_
    elif len(model.classes_) == 2:
        found, expected = model.decision_function(Z), K @ weights[0] + model.intercept_
    else:
        found = model.set_params(decision_function_shape="ovo").decision_function(Z)
        owner, pairs = np.repeat(np.arange(4), model.n_support_), [(i, j) for i in range(4) for j in range(i + 1, 4)]
        expected = np.zeros((len(Z), len(pairs)))
        for k, (i, j) in enumerate(pairs):  # LIBSVM's layout
            pair = np.where(owner == i, weights[j - 1], 0.0) + np.where(owner == j, weights[i], 0.0)
            expected[:, k] = K @ pair + model.intercept_[k]
    assert np.abs(expected).max() > 0.5
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@every_model
def test_support_says_which_points_these_are_by_class_and_ascending(name):
    model, data = trained(name)
    np.testing.assert_array_equal(model.support_vectors_, data[0][model.support_])
    labels = data[1][model.support_] if isinstance(model, CLASSIFIERS) else np.zeros(len(model.support_))
    classes, codes = np.unique(labels, return_inverse=True)
    assert (np.diff(codes) >= 0).all()
    assert all((np.diff(model.support_[codes == code]) > 0).all() for code in range(len(classes)))
    assert model.n_support_.tolist() == np.bincount(codes).tolist()
    assert model.dual_coef_.shape == (max(1, len(classes) - 1), len(model.support_))
    assert (model.dual_coef_ != 0).any(axis=0).all()


def test_support_holds_the_given_ids():
    X, y = BINARY
    ids = np.random.default_rng(1).permutation(1000)[:60]
    model = IncrementalSVC(C=3.0, gamma=0.7).partial_fit(X, y, ids=ids)
    row = {name: k for k, name in enumerate(ids.tolist())}
    rows = [row[name] for name in model.support_.tolist()]
    np.testing.assert_array_equal(model.support_vectors_, X[rows])
    np.testing.assert_array_equal(model.support_ids_, model.support_)
    batch = SVC(C=3.0, gamma=0.7).fit(X, y)
    assert sorted(rows) == sorted(batch.support_)
    weights = dict(zip(batch.support_.tolist(), batch.dual_coef_[0], strict=True))
    np.testing.assert_allclose(model.dual_coef_[0], [weights[k] for k in rows], atol=1e-8)


@every_model
def test_solutions_cover_the_points_and_predict_as_the_model(name):
    model, data = trained(name)
    pairs = 6 if data is MANY else 1
    assert len(model.solutions_) == len(model.certificates_) == pairs
    values = model.predict(Z) if is_regressor(model) else model.decision_function(Z)
    if pairs > 1:
        values = model.set_params(decision_function_shape="ovo").decision_function(Z)
    for k, (solution, certificate) in enumerate(zip(model.solutions_, model.certificates_, strict=True)):
        assert isinstance(solution, Solution)
        assert solution.status is Status.OPTIMAL
        assert solution.certificate.objective == certificate.objective
        again = certify(solution.problem, solution.alpha)
        assert again.relative_gap == pytest.approx(certificate.relative_gap, abs=1e-15)
        assert again.relative_gap <= 1e-9
        of_pair = values if pairs == 1 else values[:, k]
        if isinstance(model, OneClassSVM):  # whose α sum to νn, as scikit-learn's
            of_pair = of_pair / (0.2 * 60)
        np.testing.assert_allclose(solution.decision_values(Z), of_pair, rtol=0, atol=1e-6)
        assert solution.provenance["solver"] in ("working-set", "gradient-flow", "invasion", "incremental")
        live = np.abs(solution.alpha) > 1e-9 * np.abs(solution.alpha).max()
        np.testing.assert_array_equal(np.flatnonzero(live), solution.support)


@every_model
def test_solution_exists_for_one_solve_only(name):
    model, data = trained(name)
    if data is MANY:
        text = f"^{type(model).__name__} has no solution_ but 6, one a pair of classes: see solutions_$"
        with pytest.raises(AttributeError, match=text):
            _ = model.solution_
        assert not hasattr(model, "solution_")
    else:
        assert type(model.solution_) is Solution
        np.testing.assert_array_equal(model.solution_.alpha, model.solutions_[0].alpha)


@every_model
def test_the_certificate_is_that_of_the_worst_pair(name):
    model, _ = trained(name)
    gaps = [certificate.relative_gap for certificate in model.certificates_]
    assert model.certificate_.relative_gap == max(gaps)
    np.testing.assert_array_equal(model.certificate_.alpha, model.certificates_[int(np.argmax(gaps))].alpha)


def test_a_certificate_that_is_withheld_is_the_worst():
    X, y = MANY
    K = -X @ X.T
    K[np.ix_(y != "west", y != "west")] = np.eye(int((y != "west").sum()))
    with pytest.warns(ConvergenceWarning, match="withheld"):
        model = SVC(kernel="precomputed").fit(K, y)
    assert None in [certificate.gap for certificate in model.certificates_]
    assert model.certificate_.gap is None


@every_model
def test_missing_attributes_have_the_same_error_text(name):
    model, _ = trained(name)
    for attribute in refused_by(type(model)):
        with pytest.raises(AttributeError) as caught:
            getattr(model, attribute)
        assert not isinstance(caught.value, NotFittedError)
        assert str(caught.value) == f"{type(model).__name__} has no {attribute}: see {REFUSED[attribute]}"
        for instead in REFUSED[attribute].split(" and "):
            assert np.isfinite(getattr(model, instead)).all()


@pytest.mark.parametrize("kind", FAMILY, ids=lambda kind: kind.__name__)
def test_unfitted_attributes_have_the_same_error_text(kind):
    attributes = [*SHARED, *REFUSED]
    attributes += ["center_"] if kind in BALLS else ["coef_", "classes_"] if kind in CLASSIFIERS else []
    if kind in (EcoSVC, EcoSVDD):
        attributes += ["survivors_", "reserve_", "n_invasions_", "n_extinctions_"]
    if issubclass(kind, (IncrementalSVC, IncrementalSVDD, IncrementalSVR)):
        attributes += ["ids_", "support_ids_", "drift_", "n_pivots_"]
    for attribute in attributes:
        with pytest.raises(NotFittedError, match=f"^This {kind.__name__} instance is not fitted yet"):
            getattr(kind(), attribute)
        assert not hasattr(kind(), attribute)


@pytest.mark.parametrize("kind", [IncrementalSVC, IncrementalSVDD, IncrementalSVR], ids=lambda kind: kind.__name__)
def test_a_stream_without_points_has_no_solution(kind):
    data = {IncrementalSVC: BINARY, IncrementalSVR: NUMBERS}.get(kind, ALONE)
    model = kind().fit(*data)
    model.forget(model.ids_)
    assert model.solutions_ == model.certificates_ == []
    assert len(model.support_) == len(model.support_vectors_) == model.dual_coef_.size == 0
    with pytest.raises(AttributeError, match="of no points"):
        _ = model.solution_


def test_linear_weights_and_centres_of_streams_are_those_of_the_batch():
    for name in ("EcoSVC, four classes", "IncrementalSVC, four classes"):
        np.testing.assert_allclose(trained(name)[0].coef_, trained("SVC, four classes")[0].coef_, atol=1e-7)
    for name in ("EcoSVDD, hard", "IncrementalSVDD, hard"):
        np.testing.assert_allclose(trained(name)[0].center_, trained("SVDD, hard")[0].center_, atol=1e-7)


# --- a change that fails -----------------------------------------------------------------------------


@every_model
def test_a_fit_that_fails_leaves_the_model_as_it_was(name):
    model, data = trained(name)
    before, values = dict(vars(model)), model.predict(Z)
    bad = data[0].copy()
    bad[3, 1] = np.nan
    for attempt in (
        lambda: model.fit(bad, *data[1:]),
        lambda: model.fit(data[0][:, :1], np.zeros(3)),
        lambda: model.fit(data[0][:0], *(array[:0] for array in data[1:])),
        lambda: model.set_params(kernel="rfb").fit(data[0][:, :1], *data[1:]),
    ):
        if isinstance(model, (*BALLS, OneClassSVM)) and "zeros" in attempt.__code__.co_names:
            continue  # their y is ignored
        with pytest.raises(ValueError):
            attempt()
        model.set_params(kernel=before["kernel"])
        assert vars(model) == before
        np.testing.assert_array_equal(model.predict(Z), values)


@pytest.mark.parametrize("kind", FAMILY, ids=lambda kind: kind.__name__)
def test_a_first_fit_that_fails_leaves_nothing(kind):
    model = kind()
    before = dict(vars(model))
    for X in (np.full((6, 2), 1e200), np.full((6, 2), np.nan)):
        with pytest.raises(ValueError):
            model.set_params(kernel="linear").fit(X, np.arange(6) % 2)
        model.set_params(kernel="rbf")
        assert vars(model) == before


def test_a_failed_pair_leaves_the_reserves_of_the_others():
    """Points that a pair drops cannot come back, so no pair drops any before all pairs have learned."""
    X, y = MANY
    state = {"left": 10**9}

    def fragile(A, B):
        state["left"] -= 1
        if state["left"] < 0:
            raise ArithmeticError("no")
        return A @ B.T + 1.0

    model = IncrementalSVC(kernel=fragile, reserve=0.2).fit(X[:40], y[:40])
    ids, values, failed = model.ids_, model.decision_function(Z), 0
    for calls in range(0, 200, 3):
        state["left"] = calls
        try:
            model.partial_fit(X[40:], y[40:])
        except ArithmeticError:
            failed += 1
        else:
            break
        finally:
            state["left"] = 10**9
        np.testing.assert_array_equal(model.ids_, ids)
        np.testing.assert_array_equal(model.decision_function(Z), values)
    assert failed > 10
    assert len(model.ids_) < 60
