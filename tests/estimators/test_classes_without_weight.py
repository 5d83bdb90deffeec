"""A class whose points all have weight 0 stays in `classes_`, is never predicted, and its pairs are not solved."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.ensemble import BaggingClassifier

from dualflow import LSSVC, LSSVR, SVC, SVR, CascadeSVC, EcoSVC, ProblemError, SVCSearchCV, generalization_report, load
from dualflow.interchange import from_libsvm, to_libsvm, to_onnx

IRIS, NAMES = load_iris(return_X_y=True)
X, Y = np.vstack([IRIS, IRIS[:50] + np.array([3.0, 0.0, 0.0, 0.0])]), np.r_[NAMES, np.full(50, 3)]
MODELS = [
    SVC(gamma=0.5),
    SVC(gamma=0.5, fit_intercept=False),
    SVC(gamma=0.5, loss="squared_hinge"),
    LSSVC(gamma=0.5),
    EcoSVC(gamma=0.5),
    CascadeSVC(gamma=0.5, partitions=2, random_state=0),
]


@pytest.mark.parametrize("gone", [[1], [3], [0, 2], [2, 3]], ids=str)
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_class_without_weight_is_never_predicted_and_changes_no_other(model, shape, gone):
    weight = np.where(np.isin(Y, gone), 0.0, 1.0)
    model = model.set_params(decision_function_shape=shape).fit(X, Y, sample_weight=weight)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert (model.n_support_[gone] == 0).all()
    labels, values = model.predict(X), model.decision_function(X)
    assert not set(labels) & set(gone)
    assert np.isfinite(values).all()
    assert values.shape == (200, 4 if shape == "ovr" else 6)
    without = type(model)(**model.get_params()).fit(X[weight > 0], Y[weight > 0])
    np.testing.assert_array_equal(labels, without.predict(X))


@pytest.mark.parametrize("gone", [[1], [0, 2]], ids=str)
def test_files_exports_and_reports_hold_a_class_without_weight(gone, tmp_path):
    weight = np.where(np.isin(Y, gone), 0.0, 1.0)
    model = SVC(gamma=0.5).fit(X, Y, sample_weight=weight)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").decision_function(X), model.decision_function(X))
    to_libsvm(model, tmp_path / "text")
    np.testing.assert_array_equal(from_libsvm(tmp_path / "text").predict(X), model.predict(X))
    without = SVC(gamma=0.5).fit(X[weight > 0], Y[weight > 0])
    assert generalization_report(model).loo_error == generalization_report(without).loo_error
    assert len(model.certificates_) == len(without.certificates_)


def test_bags_and_calibration_of_few_points_fit():
    digits, labels = load_digits(return_X_y=True)
    bags = BaggingClassifier(SVC(), n_estimators=3, max_samples=0.02, random_state=0).fit(digits, labels)
    assert bags.score(digits, labels) > 0.6
    weight = np.where(Y == 1, 0.0, 1.0)
    model = CalibratedClassifierCV(SVC(gamma=0.5), cv=3, ensemble=False).fit(X, Y, sample_weight=weight)
    assert np.isfinite(model.predict_proba(X)).all()


def test_balanced_weights_and_a_search_accept_a_class_without_weight():
    weight = np.where(Y == 2, 0.0, 1.0)
    assert 2 not in SVC(class_weight="balanced").fit(X, Y, weight).predict(X)
    search = SVCSearchCV(SVC(), {"C": [1.0, 10.0]}, cv=3).fit(X, Y, sample_weight=weight)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_one_class_left_is_an_error():
    with pytest.raises(ProblemError, match="at least two classes need one"):
        SVC().fit(X, Y, sample_weight=(Y == 1).astype(float))


def test_class_weights_may_name_classes_that_a_fold_does_not_hold():
    two = NAMES < 2
    found = SVC(class_weight={0: 1, 1: 2, 7: 3}).fit(IRIS[two], NAMES[two])
    np.testing.assert_array_equal(found.class_weight_, [1.0, 2.0])
    with pytest.raises(ProblemError, match=r"class_weight names .7., .* have no weight"):
        SVC(class_weight={0: 1, 7: 3}).fit(IRIS[two], NAMES[two])


def test_a_search_warns_once_of_a_class_weight_that_no_row_has():
    rows, grid = np.r_[0:100], {"C": [1.0, 10.0]}  # of two classes
    with pytest.warns(UserWarning, match=r"class_weight names \[7\], but y holds \[0, 1\]") as caught:
        SVCSearchCV(SVC(class_weight={0: 1, 1: 2, 7: 3}), grid, cv=3).fit(IRIS[rows], NAMES[rows])
    assert len(caught) == 1


def test_a_fold_without_a_class_that_class_weight_names_is_silent():
    model, splits = SVC(class_weight={0: 1, 1: 2, 2: 3}), [(np.r_[0:100], np.r_[100:150]), (np.r_[0:150], np.r_[0:9])]
    search = SVCSearchCV(model, {"C": [1.0, 10.0]}, cv=splits).fit(IRIS, NAMES)
    np.testing.assert_array_equal(search.cv_results_["split0_test_score"], 0.0)


@pytest.mark.parametrize("layout", [scipy.sparse.csr_array, scipy.sparse.csc_matrix], ids=lambda kind: kind.__name__)
def test_sparse_points_with_a_class_without_weight(layout):
    weight = np.where(Y == 1, 0.0, 1.0)
    model = SVC(gamma=0.5).fit(layout(X), Y, sample_weight=weight)
    dense = SVC(gamma=0.5).fit(X, Y, sample_weight=weight)
    np.testing.assert_array_equal(model.predict(layout(X)), dense.predict(X))
    assert model.n_support_[1] == 0


@pytest.mark.parametrize("model", [SVR(gamma=0.5), LSSVR(gamma=0.5)], ids=lambda model: type(model).__name__)
def test_regressors_take_rows_without_weight(model):
    weight = np.where(np.arange(len(X)) % 3 == 0, 0.0, 1.0)
    values = X @ np.array([1.0, -1.0, 0.5, 0.2])
    found = model.fit(X, values, sample_weight=weight).predict(X)
    expected = clone(model).fit(X[weight > 0], values[weight > 0]).predict(X)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert (weight[model.support_] > 0).all()
    with pytest.raises(ProblemError, match="weight"):
        model.fit(X, values, sample_weight=np.zeros(len(X)))


@pytest.mark.parametrize("model", [SVC(gamma=0.5), SVC(kernel="linear"), LSSVC(gamma=0.5)], ids=repr)
def test_onnx_export_with_a_class_without_weight(model):
    onnxruntime = pytest.importorskip("onnxruntime")
    weight = np.where(Y == 1, 0.0, 1.0)
    points = X.astype(np.float32)
    model.fit(points, Y, sample_weight=weight)
    session = onnxruntime.InferenceSession(to_onnx(model).SerializeToString())
    labels = session.run(None, {session.get_inputs()[0].name: points})[0]
    assert 1 not in labels
    assert np.mean(labels == model.predict(points)) > 0.99


@pytest.mark.parametrize("model", [SVC(), SVC(loss="squared_hinge"), LSSVC(), EcoSVC(), CascadeSVC()], ids=repr)
@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_weights_that_float64_cannot_square_are_refused(model, size):
    weight = np.where(np.arange(len(Y)) % 2 == 0, size, 1.0)
    with pytest.raises(ProblemError, match="sample_weight: row 0 has the weight"):
        model.fit(X, Y, sample_weight=weight)


@pytest.mark.parametrize("left_out", [[0], [1], [0, 2], [1, 3]])
def test_weights_of_the_features_are_those_of_their_own_pair(left_out):
    """A column of scale 1e9 makes certificates by weights of the solver's own, one for each pair that is solved."""
    rng = np.random.default_rng(5)
    y = np.arange(400) % 4
    points = rng.normal(size=(400, 3)) + np.eye(4)[:, :3][y] * [2.0, 2.0, 0.0]
    points[:, 2] *= 1e9
    kept = ~np.isin(y, left_out)
    make = {"kernel": "linear", "solver": "interior-point"}
    whole = SVC(**make).fit(points, y, sample_weight=kept.astype(float))
    alone = SVC(**make).fit(points[kept], y[kept])
    assert any(one.primal is not None for one in alone.certificates_)
    np.testing.assert_array_equal(whole.predict(points), alone.predict(points))
