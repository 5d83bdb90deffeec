"""`NuSVC` and `NuSVR` against scikit-learn's, CVXOPT's and the `SVC` and `SVR` that they are, and what breaks them."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.model_selection import GridSearchCV

from dualflow import (
    SVC,
    SVR,
    FitError,
    NuSVC,
    NuSVR,
    ProblemError,
    SVCSearchCV,
    generalization_report,
    load,
    solve,
)
from dualflow.interchange import from_libsvm, to_libsvm
from dualflow.working_set.level_search import Levels

RNG = np.random.default_rng(4)
X = RNG.normal(size=(90, 3))
LABELS = (X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.4 * RNG.normal(size=90) > 0.4).astype(int)
VALUES = X[:, 0] - X[:, 2] + 0.3 * RNG.normal(size=90)
NEW = RNG.normal(size=(30, 3))
KERNELS = [{"kernel": "rbf", "gamma": 0.3}, {"kernel": "linear"}, {"kernel": "poly", "degree": 2, "coef0": 1.0}]


def data(k):
    rng = np.random.default_rng(100 + k)
    n = int(rng.integers(30, 80))
    points = rng.normal(size=(n, 3))
    labels = (points[:, 0] + 0.3 * rng.normal(size=n) > 0.2).astype(int)
    values = np.sin(points[:, 0]) + 0.2 * rng.normal(size=n)
    return points, labels, values, rng.uniform(0.5, 2.0, n) if k % 2 else None, rng


@pytest.mark.parametrize("k", range(36))
def test_classifiers_are_those_of_scikit_learn_and_of_cvxopt(k):
    points, labels, _, weight, rng = data(k)
    w = np.ones(len(points)) if weight is None else weight
    most = 2.0 * min(w[labels == 0].sum(), w[labels == 1].sum()) / w.sum()
    given = {"nu": most * rng.uniform(0.6, 0.95), **KERNELS[k % 3]}
    ours = NuSVC(**given).fit(points, labels, weight)
    theirs = svm.NuSVC(**given, tol=1e-8).fit(points, labels, weight)
    expected = theirs.decision_function(points)
    np.testing.assert_allclose(ours.decision_function(points), expected, atol=1e-4 * np.abs(expected).max())
    assert ours.certificate_.reaches(1e-9)
    reference = solve(ours.solution_.problem, "cvxopt", tol=1e-12).certificate.objective
    assert ours.certificate_.objective == pytest.approx(reference, rel=1e-7)


@pytest.mark.parametrize("k", range(36))
def test_regressions_are_those_of_scikit_learn_and_of_cvxopt(k):
    points, _, values, weight, rng = data(k)
    given = {"nu": rng.uniform(0.1, 0.9), "C": 10.0 ** rng.uniform(-1, 1), **KERNELS[k % 3]}
    ours = NuSVR(**given).fit(points, values, weight)
    theirs = svm.NuSVR(**given, tol=1e-8).fit(points, values, weight)
    np.testing.assert_allclose(ours.predict(points), theirs.predict(points), atol=1e-4)
    assert ours.certificate_.reaches(1e-9)
    reference = solve(ours.solution_.problem, "cvxopt", tol=1e-12).certificate.objective
    assert ours.certificate_.objective == pytest.approx(reference, rel=1e-7)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
def test_they_are_the_models_of_c_and_of_epsilon(kernel):
    model = NuSVC(nu=0.6, **kernel).fit(X, LABELS)
    same = SVC(C=1.0 / model.certificate_.level, tol=1e-10, **kernel).fit(X, LABELS)
    np.testing.assert_allclose(model.decision_function(NEW), same.decision_function(NEW), atol=1e-7)
    model = NuSVR(nu=0.4, C=3.0, **kernel).fit(X, VALUES)
    same = SVR(C=3.0, epsilon=model.epsilon_, tol=1e-10, **kernel).fit(X, VALUES)
    np.testing.assert_allclose(model.predict(NEW), same.predict(NEW), atol=1e-7)


@pytest.mark.parametrize("nu", [0.3, 0.5, 0.7])
def test_nu_lies_between_the_shares_of_errors_and_of_support_vectors(nu):
    model = NuSVC(nu=nu).fit(X, LABELS)
    margins = np.where(LABELS == 1, 1, -1) * model.decision_function(X)
    assert np.mean(margins < 1 - 1e-7) <= nu <= len(model.support_) / len(X)
    model = NuSVR(nu=nu, C=5.0).fit(X, VALUES)
    outside = np.abs(VALUES - model.predict(X)) > model.epsilon_ + 1e-7
    assert np.mean(outside) <= nu <= len(model.support_) / len(X)


def test_a_nu_that_is_infeasible_is_an_error_that_names_the_largest_one():
    few = np.array([0, 1, 1, 1, 1, 1, 1])
    points = np.arange(7.0)[:, None]
    with pytest.raises(ProblemError, match=r"nu=0\.5: specified nu is infeasible.*nu can be 0\.285714 at most"):
        NuSVC(nu=0.5, kernel="linear").fit(points, few)
    NuSVC(nu=0.285714, kernel="linear").fit(points, few)
    NuSVC(nu=2 / 7, kernel="linear").fit(points, few)
    assert NuSVC(nu=1.0, class_weight="balanced", kernel="linear").fit(points, few).certificate_.reaches(1e-9)
    three = np.array([0, 0, 0, 1, 1, 1, 2])
    with pytest.raises(ProblemError, match=r"nu can be 0\.5 at most"):  # of the worst pair
        NuSVC(nu=0.6, kernel="linear").fit(points, three)
    weight = np.where(few == 0, 6.0, 1.0)
    NuSVC(nu=0.9, kernel="linear").fit(points, few, weight)
    assert NuSVC(nu=0.4, kernel="linear", class_weight={0: 0.5}).fit(points, few, weight).class_weight_[0] == 0.5


@pytest.mark.parametrize("nu", [0, -0.1, 1.1, np.nan, "many", None])
def test_a_nu_out_of_range_is_an_error(nu):
    for model, y in ((NuSVC(nu=nu), LABELS), (NuSVR(nu=nu), VALUES)):
        with pytest.raises(ProblemError, match="nu"):
            model.fit(X, y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_overlapping_classes_have_no_margin(kernel):
    points = np.repeat(RNG.normal(size=(20, 2)), 2, axis=0)  # every point is of both classes
    with pytest.raises(FitError, match=r"the margin rho is 0 for every nu.*overlap everywhere") as caught:
        NuSVC(nu=0.5, kernel=kernel).fit(points, np.tile([0, 1], 20))
    assert caught.value.solution.certificate.relative_gap == 0.0


def test_a_nu_without_a_margin_takes_the_least_that_has_one_and_says_so():
    """LIBSVM returns what its tolerance leaves of w = 0, divided by a margin of 0."""
    points, labels = make_classification(n_classes=4, n_informative=4, random_state=42)
    two = np.isin(labels, (0, 2))
    with pytest.warns(UserWarning, match=r"nu=0\.5: .* is 0, .* that of nu=0\.517.*Raise nu"):
        model = NuSVC(kernel="linear").fit(points[two], labels[two])
    assert model.certificate_.level > 0
    assert model.fit_status_ == 0
    nu = model.solution_.problem.total / two.sum()
    limit = SVC(kernel="linear", C=1 / model.certificate_.level).fit(points[two], labels[two])
    np.testing.assert_allclose(model.coef_, limit.coef_, rtol=1e-3)
    higher = svm.NuSVC(nu=nu, kernel="linear", tol=1e-6).fit(points[two], labels[two])  # one that has a margin
    np.testing.assert_allclose(model.coef_, higher.coef_, rtol=1e-2)
    with pytest.warns(UserWarning, match="margin of two classes"):
        assert len(NuSVC(kernel="linear").fit(points, labels).certificates_) == 6


def test_the_margin_of_a_smooth_kernel_that_vanishes_is_found_in_few_solves(monkeypatch):
    """Near the least ν the kernel of one smooth feature has fewer digits than the level, and each solve is long."""
    rng, solves, solved = np.random.default_rng(0), [], Levels.solved
    monkeypatch.setattr(Levels, "solved", lambda self, *args: solves.append(args) or solved(self, *args))
    x = rng.normal(size=(900, 1))
    y = x[:, 0] + 0.5 * rng.normal(size=900) > 0
    with pytest.warns(UserWarning, match="margin of two classes is 0"):
        model = NuSVC(nu=0.25, gamma=0.33).fit(x, y)
    assert len(solves) < 40
    assert model.certificate_.relative_gap <= 1e-9
    same = SVC(C=1.0 / model.certificate_.level, gamma=0.33).fit(x, y)
    assert same.certificate_.relative_gap <= 1e-9
    np.testing.assert_allclose(model.decision_function(x), same.decision_function(x), atol=1e-6)


def test_the_model_of_the_least_nu_with_a_margin_reaches_the_tolerance():
    """The margin is a ten-thousandth of the length of the points, which the interior point alone has no digits for."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(20_000, 10))
    labels = points[:, 0] * points[:, 1] + points[:, 2] + rng.normal(size=20_000) > 0
    with pytest.warns(UserWarning, match="margin of two classes is 0") as told:
        model = NuSVC(nu=0.3, kernel="linear").fit(points, labels)
    assert len(told) == 1
    assert model.certificate_.within(model.tol)


def test_class_weights_are_weights_of_points():
    weighted = NuSVC(nu=0.4, class_weight={0: 0.5, 1: 0.8}).fit(X, LABELS)
    same = NuSVC(nu=0.4).fit(X, LABELS, np.where(LABELS == 1, 0.8, 0.5))
    np.testing.assert_allclose(weighted.decision_function(NEW), same.decision_function(NEW), atol=1e-9)
    left = NuSVC(nu=0.4, gamma=0.3).fit(X, LABELS, np.arange(90) % 5 > 0)
    kept = np.arange(90) % 5 > 0
    np.testing.assert_allclose(
        left.decision_function(NEW),
        NuSVC(nu=0.4, gamma=0.3).fit(X[kept], LABELS[kept]).decision_function(NEW),
        atol=1e-9,
    )


@pytest.mark.parametrize("solver", ["interior-point", "level-search", "cvxopt"])
def test_every_solver_of_two_equalities_finds_the_same_model(solver):
    expected = NuSVC(nu=0.5, gamma=0.3).fit(X, LABELS).decision_function(NEW)
    found = NuSVC(nu=0.5, gamma=0.3, solver=solver).fit(X, LABELS).decision_function(NEW)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    values = NuSVR(nu=0.5, gamma=0.3, solver=solver).fit(X, VALUES).predict(NEW)
    np.testing.assert_allclose(values, NuSVR(nu=0.5, gamma=0.3).fit(X, VALUES).predict(NEW), atol=1e-5)


def test_data_of_every_kind_make_the_same_model(tmp_path):
    plain = NuSVC(nu=0.5, kernel="linear").fit(X, LABELS)
    expected = plain.decision_function(NEW)
    np.testing.assert_allclose(NEW @ plain.coef_[0] + plain.intercept_[0], expected, atol=1e-9)
    sparse = NuSVC(nu=0.5, kernel="linear").fit(scipy.sparse.csr_array(X), LABELS)
    np.testing.assert_allclose(sparse.decision_function(NEW), expected, atol=1e-7)
    assert scipy.sparse.issparse(sparse.coef_)
    given = NuSVC(nu=0.5, kernel="precomputed").fit(X @ X.T, LABELS)
    np.testing.assert_allclose(given.decision_function(NEW @ X.T), expected, atol=1e-7)
    called = NuSVC(nu=0.5, kernel=lambda A, B: A @ B.T).fit(X, LABELS)
    np.testing.assert_allclose(called.decision_function(NEW), expected, atol=1e-7)
    again = pickle.loads(pickle.dumps(clone(plain).fit(X, LABELS)))
    np.testing.assert_array_equal(again.decision_function(NEW), expected)
    for model in (plain, NuSVR(nu=0.3).fit(X, VALUES)):
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict(NEW), model.predict(NEW))
        assert load(tmp_path / "model").certificate_.level == model.certificate_.level


def test_files_of_libsvm_say_which_machine_they_are_of(tmp_path):
    for model, name in (
        (NuSVC(nu=0.5).fit(X, LABELS), "nu_svc"),
        (NuSVC(nu=0.2, gamma=0.5).fit(X, np.arange(90) // 30), "nu_svc"),
        (NuSVR(nu=0.5).fit(X, VALUES), "nu_svr"),
        (svm.NuSVC(nu=0.5).fit(X, LABELS), "nu_svc"),
        (svm.NuSVR(nu=0.5).fit(X, VALUES), "nu_svr"),
    ):
        to_libsvm(model, tmp_path / "model")
        read = from_libsvm(tmp_path / "model")
        assert read.svm_type == name
        if name == "nu_svr":
            np.testing.assert_allclose(read.predict(NEW), model.predict(NEW), atol=1e-9)
        else:
            np.testing.assert_array_equal(read.predict(NEW), model.predict(NEW))


def test_searches_and_reports_work_or_say_what_to_do():
    grid = GridSearchCV(NuSVC(), {"nu": [0.3, 0.5], "gamma": [0.1, 1.0]}, cv=3).fit(X, LABELS)
    assert grid.best_score_ > 0.7
    with pytest.raises(ProblemError, match=r"SVC\(C=1/model.certificate_.level\)"):
        generalization_report(NuSVC(nu=0.5).fit(X, LABELS))
    with pytest.raises((ProblemError, TypeError), match="SVC"):
        SVCSearchCV(NuSVC(), {"nu": [0.3]}).fit(X, LABELS)


def test_limits_callbacks_and_probabilities_are_those_of_an_svc():
    steps = []
    NuSVC(nu=0.5, callback=lambda progress: steps.append(progress.step)).fit(X, LABELS)
    assert steps == list(range(1, len(steps) + 1))
    assert steps
    with pytest.warns(UserWarning, match="max_steps|did not reach"):
        cut = NuSVC(nu=0.5, max_steps=1).fit(X, LABELS)
    assert cut.fit_status_ == 1
    assert np.isfinite(cut.decision_function(NEW)).all()
    assert NuSVC(nu=0.5, time_limit=60.0).fit(X, LABELS).fit_status_ == 0
    assert not hasattr(NuSVC().fit(X, LABELS), "predict_proba")
    warm = NuSVC(nu=0.5, warm_start=True).fit(X, LABELS)
    first = warm.n_iter_[0]
    assert warm.fit(X, LABELS).n_iter_[0] <= first


def test_ctrl_c_keeps_the_state_reached():
    def strike(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        NuSVC(nu=0.5, callback=strike).fit(X, LABELS)
    assert caught.value.solution.certificate.infeasibility <= 1e-9


def test_more_points_than_a_kernel_matrix_holds():
    """Beyond 16 384 points there is no kernel matrix and no refinement: the models are those of `SVC` and `SVR`."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(16_500, 4))
    values = points @ [1.0, -0.5, 0.25, 0.0] + 0.3 * rng.normal(size=len(points))
    model = NuSVC(nu=0.4, kernel="linear").fit(points, values > 0.3)
    assert model.certificate_.relative_gap <= 1e-6
    margin = model.certificate_.level
    other = SVC(C=1.0 / margin, kernel="linear").fit(points, values > 0.3)
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, other.intercept_, rtol=1e-4, atol=1e-4)
    errors = np.mean(np.where(values > 0.3, 1, -1) * model.decision_function(points) < 1 - 1e-6)
    assert errors <= 0.4 <= len(model.support_) / len(points)
    tube = NuSVR(nu=0.4, C=2.0, kernel="linear").fit(points, values)
    assert tube.certificate_.relative_gap <= 1e-6
    same = SVR(C=2.0, epsilon=tube.epsilon_, kernel="linear").fit(points, values)
    np.testing.assert_allclose(tube.coef_, same.coef_, rtol=1e-4, atol=1e-4)
    outside = np.mean(np.abs(values - tube.predict(points)) > tube.epsilon_ + 1e-6)
    assert outside <= 0.4 <= len(tube.support_) / len(points)


def test_several_classes_vote_as_those_of_scikit_learn():
    y = np.arange(90) % 3
    points = X + y[:, None]
    for shape in ("ovo", "ovr"):
        ours = NuSVC(nu=0.5, gamma=0.3, decision_function_shape=shape).fit(points, y)
        theirs = svm.NuSVC(nu=0.5, gamma=0.3, decision_function_shape=shape, tol=1e-8).fit(points, y)
        np.testing.assert_allclose(ours.decision_function(NEW), theirs.decision_function(NEW), atol=1e-3)
    assert len(ours.solutions_) == 3
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape
    np.testing.assert_array_equal(ours.support_, theirs.support_)
