"""What a pickle holds: what predictions, certificates and warm starts need, and the rest on request."""

import copy
import pickle

import numpy as np
import pytest
from sklearn import svm
from sklearn.base import clone

from dualflow import (
    LDA,
    LSSVC,
    LSSVR,
    SVC,
    SVDD,
    SVR,
    CascadeSVC,
    ConformalSVC,
    ConformalSVR,
    OneClassSVM,
    ProblemError,
    generalization_report,
)
from dualflow.core.runtime.arrays import packed, unpacked

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 20))
Y = (X[:, 0] > 0).astype(int)
X[:, 0] += 4 * Y
#: Bytes of certificate, cost and provenance, beyond twice the pickle of scikit-learn.
RECORDS = 2000

PAIRS = [
    (SVC(kernel="linear"), svm.SVC(kernel="linear"), Y),
    (SVC(), svm.SVC(), Y),
    (SVC(loss="squared_hinge"), svm.SVC(), Y),
    (SVR(kernel="linear", C=0.1), svm.SVR(kernel="linear", C=0.1), X[:, 0]),
    (SVDD(nu=0.05), svm.OneClassSVM(nu=0.05), None),
    (OneClassSVM(nu=0.05), svm.OneClassSVM(nu=0.05), None),
    (CascadeSVC(kernel="linear", random_state=0), svm.SVC(kernel="linear"), Y),
]
KINDS = [SVC(), SVR(), SVDD(), OneClassSVM(), LSSVC(), LSSVR(), LDA()]


def again(model):
    return pickle.loads(pickle.dumps(model))


def values(model):
    return (model.decision_function if hasattr(model, "decision_function") else model.predict)(X[:20])


@pytest.mark.parametrize(
    ("ours", "theirs", "y"), PAIRS, ids=[type(pair[0]).__name__ + str(k) for k, pair in enumerate(PAIRS)]
)
def test_a_pickle_is_as_small_as_its_support_vectors(ours, theirs, y):
    model, other = clone(ours).fit(X, y), theirs.fit(X, y)
    vectors = max(other.support_vectors_.nbytes, model.support_vectors_.nbytes)
    assert len(pickle.dumps(model)) <= 2 * max(len(pickle.dumps(other)), vectors) + RECORDS
    assert len(pickle.dumps(clone(model))) < RECORDS


def test_a_pickle_of_5000_points_does_not_hold_them():
    points = np.random.default_rng(1).normal(size=(5000, 20))
    y = (points[:, 0] > 0).astype(int)
    points[:, 0] += 4 * y
    model, other = SVC(kernel="linear").fit(points, y), svm.SVC(kernel="linear").fit(points, y)
    assert len(pickle.dumps(model)) <= 2 * len(pickle.dumps(other)) + RECORDS


def test_a_pair_of_classes_takes_little():
    classes = np.digitize(X[:, 1], np.quantile(X[:, 1], np.arange(0.1, 1.0, 0.1)))
    model, other = SVC().fit(X, classes), svm.SVC().fit(X, classes)
    assert len(model.solutions_) == 45
    assert len(pickle.dumps(model)) <= 2 * len(pickle.dumps(other)) + 45 * RECORDS
    np.testing.assert_array_equal(values(again(model)), values(model))


@pytest.mark.parametrize("model", KINDS, ids=[type(model).__name__ for model in KINDS])
def test_attributes_that_a_pickle_has_and_lacks(model, tmp_path):
    model = clone(model).fit(X, Y)
    for other in (again(model), again(again(model))):
        np.testing.assert_array_equal(values(other), values(model))
        for name in ("support_", "support_vectors_", "dual_coef_", "n_support_"):
            if hasattr(model, name):
                np.testing.assert_array_equal(getattr(other, name), getattr(model, name))
        one, its = other.certificate_, model.certificate_
        assert (one.objective, one.lower_bound, one.relative_gap) == (its.objective, its.lower_bound, its.relative_gap)
        np.testing.assert_array_equal(one.alpha, its.alpha)
        assert not one.alpha.flags.writeable
        solution, own = other.solution_, model.solution_
        assert (solution.status, solution.bias, solution.cost) == (own.status, own.bias, own.cost)
        np.testing.assert_array_equal(solution.raw_alpha, own.raw_alpha)
        assert str(solution) == str(own)
        left_out = r"it was unpickled.*keep_training_data\(\).*dualflow\.load"
        with pytest.raises(ProblemError, match=left_out):
            _ = solution.problem.gram
        with pytest.raises(ProblemError, match=left_out):
            _ = solution.coefficients
        with pytest.raises(ProblemError, match=left_out):
            other.save(tmp_path / "m")
    whole = again(model.keep_training_data())
    np.testing.assert_array_equal(whole.solution_.coefficients, model.solution_.coefficients)
    whole.save(tmp_path / "m")
    with pytest.raises(ProblemError, match="keep_training_data"):
        again(model.keep_training_data(False)).save(tmp_path / "m")


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy])
def test_copies_hold_the_training_data(way):
    for model in KINDS:
        fitted = clone(model).fit(X, Y)
        other = way(fitted)
        np.testing.assert_array_equal(other.solution_.coefficients, fitted.solution_.coefficients)
        np.testing.assert_array_equal(values(other), values(fitted))


def test_a_warm_start_goes_on_from_a_pickle():
    for kind in (SVC, SVR, LSSVC):
        model = kind(warm_start=True, solver="smo" if kind is not LSSVC else "gradient-flow").fit(X, Y)
        other = again(model)
        np.testing.assert_array_equal(values(other.fit(X, Y)), values(model.fit(X, Y)))


def test_leave_one_out_is_refused_or_pickled():
    model = SVDD(nu=0.2).fit(X[:40])
    with pytest.raises(ProblemError, match="keep_training_data"):
        again(model).p_values(X[:3])
    found = model.p_values(X[:3])  # which asks for the training data
    np.testing.assert_array_equal(again(model).p_values(X[:3]), found)
    share = OneClassSVM(nu="auto", contamination=0.1).fit(X[:40])
    np.testing.assert_array_equal(again(share).p_values(X[:3]), share.p_values(X[:3]))
    with pytest.raises(ProblemError, match="keep_training_data"):
        generalization_report(again(SVC().fit(X[:40], Y[:40])))


def test_conformal_models_predict_out_of_a_pickle():
    K = X @ X.T
    for kernel, points in (("rbf", X), ("precomputed", K)):
        for model, y in ((ConformalSVC(SVC(kernel=kernel)), Y), (ConformalSVR(SVR(kernel=kernel)), X[:, 0])):
            rows = points[:60, :60] if kernel == "precomputed" else points[:60]
            fitted = model.fit(rows, y[:60])
            other, new = again(fitted), points[60:65, :60] if kernel == "precomputed" else points[60:65]
            ask = "predict_set" if hasattr(fitted, "predict_set") else "predict_interval"
            np.testing.assert_array_equal(getattr(other, ask)(new), getattr(fitted, ask)(new))


@pytest.mark.parametrize("kind", [SVC, CascadeSVC])
@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly"])
def test_a_pickle_is_little_more_than_its_support_vectors(kind, kernel):
    rng = np.random.default_rng(0)
    X, Z = rng.standard_normal((3000, 10)), rng.standard_normal((50, 10))
    model = kind(kernel=kernel).fit(X, (X[:, 0] + 0.3 * rng.standard_normal(3000) > 0).astype(int))
    stored = pickle.dumps(model)
    assert len(stored) <= 1.2 * model.support_vectors_.nbytes
    again = pickle.loads(stored)
    assert np.array_equal(again.decision_function(Z), model.decision_function(Z))
    assert np.array_equal(again.support_vectors_, model.support_vectors_)
    assert np.array_equal(again.dual_coef_, model.dual_coef_)
    assert np.array_equal(again.support_, model.support_)
    assert again.support_.dtype == model.support_.dtype


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("distinct", [2, 300, 5000])
def test_a_packed_array_comes_back(share, distinct):
    rng = np.random.default_rng(0)
    array = rng.standard_normal(distinct)[rng.integers(distinct, size=(2, 3000))]
    array[rng.random(array.shape) >= share] = 0.0
    kept = packed(array)
    back = unpacked(kept)
    assert back.tobytes() == array.tobytes()
    assert back.shape == array.shape
    assert len(pickle.dumps(kept)) <= array.nbytes + 200
