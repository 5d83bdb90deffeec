"""Our estimators inside scikit-learn's: pipelines, searches, calibration, ensembles, copies, metadata, frames."""

import copy
import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn import svm
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.datasets import make_blobs
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
)
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dualflow import SVC, SVDD, SVR, OneClassSVM, ProblemError

X, CLASSES = make_blobs(75, centers=3, n_features=4, cluster_std=3.0, random_state=3)
X = X / 4.0
NAMES = np.array(["ash", "birch", "cedar"])[CLASSES]
NUMBERS = np.sin(X[:, 0]) + 0.1 * X[:, 1]
NEW = np.random.default_rng(0).uniform(-2, 2, size=(20, 4))
#: Every estimator, what it is fitted to, and the one of scikit-learn that it stands for.
MODELS = {
    "SVC": (SVC(C=2.0, gamma=0.3), NAMES, svm.SVC(C=2.0, gamma=0.3)),
    "SVR": (SVR(C=2.0, gamma=0.3), NUMBERS, svm.SVR(C=2.0, gamma=0.3)),
    "OneClassSVM": (OneClassSVM(nu=0.3, gamma=0.3), None, svm.OneClassSVM(nu=0.3, gamma=0.3)),
    "SVDD": (SVDD(nu=0.3, gamma=0.3), None, svm.OneClassSVM(nu=0.3, gamma=0.3)),
}
every_model = pytest.mark.parametrize("name", MODELS)


def supervised(whole):
    """Meta-estimators that score or select need a y."""
    return MODELS["SVR" if whole is not None else "SVC"]


def agree(ours, theirs, share=0.9):
    """Two solvers of one problem: scikit-learn's stops at 1e-3, and a point on a boundary may fall to either side."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    if theirs.dtype.kind == "f":
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=0.02 * (1.0 + np.abs(theirs).max()))
    else:
        assert np.mean(ours == theirs) >= share


@every_model
@pytest.mark.parametrize("container", ["array", "pandas", "polars"])
def test_pipelines_and_the_frames_that_transformers_put_out(name, container):
    if container == "polars":
        pytest.importorskip("polars", reason="polars is not installed")
    model, y, reference = MODELS[name]
    if isinstance(model, SVDD):
        reference = clone(reference)
    pipes = [make_pipeline(StandardScaler(), clone(one)) for one in (model, reference)]
    frame = pd.DataFrame(X).add_prefix("f")
    for pipe in pipes:
        if container != "array":
            pipe.set_output(transform=container)
        pipe.fit(X if container == "array" else frame, y)
    new = NEW if container == "array" else pd.DataFrame(NEW).add_prefix("f")
    agree(pipes[0].predict(new), pipes[1].predict(new))
    last = pipes[0][-1]
    assert hasattr(last, "feature_names_in_") == (container != "array")
    if container != "array":
        assert last.feature_names_in_.tolist() == list(frame.columns)
        plain = make_pipeline(StandardScaler(), model).fit(X, y).predict(NEW)
        agree(pipes[0].predict(new), plain, share=1.0)


@every_model
def test_a_polars_frame_is_data(name):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    model, y, _ = MODELS[name]
    frame = polars.DataFrame({f"f{k}": X[:, k] for k in range(4)})
    fitted = clone(model).fit(frame, y)
    assert fitted.feature_names_in_.tolist() == frame.columns
    np.testing.assert_array_equal(
        fitted.predict(polars.DataFrame({f"f{k}": NEW[:, k] for k in range(4)})), clone(model).fit(X, y).predict(NEW)
    )


@every_model
def test_text_columns_are_named_and_encoded_in_a_pipeline(name):
    model, y, _ = MODELS[name]
    frame = pd.DataFrame(X).add_prefix("f").assign(colour=NAMES, size=[f"{k % 3}" for k in range(len(X))])
    with pytest.raises(ProblemError, match=r"X holds text in columns 'colour', 'size'; .*OneHotEncoder"):
        clone(model).fit(frame, y)
    encode = make_column_transformer((OneHotEncoder(), ["colour", "size"]), remainder="passthrough")
    assert make_pipeline(encode, clone(model)).fit(frame, y).predict(frame).shape == (75,)


@pytest.mark.parametrize("name", ["SVC", "SVR"])
@pytest.mark.parametrize("search", ["grid", "random"])
def test_searches(name, search):
    model, y, reference = MODELS[name]
    grid, folds = {"C": [0.1, 1.0, 10.0], "gamma": [0.03, 0.3]}, (StratifiedKFold(3) if name == "SVC" else KFold(3))
    kinds = {
        "grid": lambda m: GridSearchCV(m, grid, cv=folds),
        "random": lambda m: RandomizedSearchCV(m, grid, n_iter=6, cv=folds),
    }
    ours, theirs = kinds[search](model).fit(X, y), kinds[search](reference).fit(X, y)
    by = [np.lexsort([one.cv_results_["param_C"].data, one.cv_results_["param_gamma"].data]) for one in (ours, theirs)]
    scores = [one.cv_results_["mean_test_score"][order] for one, order in zip((ours, theirs), by, strict=True)]
    np.testing.assert_allclose(*scores, rtol=0, atol=0.03)
    agree(ours.predict(NEW), theirs.best_estimator_.set_params(**ours.best_params_).fit(X, y).predict(NEW))


WRAPS = {
    "calibrated": lambda m: CalibratedClassifierCV(m, cv=3),
    "calibrated, one": lambda m: CalibratedClassifierCV(m, cv=3, ensemble=False),
    "one against the rest": OneVsRestClassifier,
    "one against one": OneVsOneClassifier,
    "codes": lambda m: OutputCodeClassifier(m, random_state=0),
    "bagging": lambda m: BaggingClassifier(m, n_estimators=4, random_state=0),
    "stacking": lambda m: StackingClassifier([("svm", m)], LogisticRegression(), cv=3),
    "voting": lambda m: VotingClassifier([("svm", m), ("line", LogisticRegression())]),
    "bagged numbers": lambda m: BaggingRegressor(m, n_estimators=4, random_state=0),
    "stacked numbers": lambda m: StackingRegressor([("svm", m)], Ridge(), cv=3),
    "of a target": lambda m: TransformedTargetRegressor(m, transformer=StandardScaler()),
}
OF_NUMBERS = ("bagged numbers", "stacked numbers", "of a target")


@pytest.mark.parametrize("wrap", WRAPS)
def test_wraps_of_other_estimators(wrap):
    model, y, reference = MODELS["SVR" if wrap in OF_NUMBERS else "SVC"]
    ours, theirs = (WRAPS[wrap](clone(one)).fit(X, y) for one in (model, reference))
    agree(ours.predict(NEW), theirs.predict(NEW))
    if hasattr(theirs, "predict_proba"):
        np.testing.assert_allclose(ours.predict_proba(NEW), theirs.predict_proba(NEW), atol=0.02)
    assert hasattr(ours, "predict_proba") == hasattr(theirs, "predict_proba")


def test_several_targets():
    two = np.column_stack([CLASSES, CLASSES > 0])
    assert MultiOutputClassifier(SVC()).fit(X, two).predict(NEW).shape == (20, 2)
    assert MultiOutputRegressor(SVR()).fit(X, two).predict(NEW).shape == (20, 2)


def test_choices_of_features_by_coefficients():
    for ours, theirs, y in (
        (SVC(kernel="linear"), svm.SVC(kernel="linear"), NAMES),
        (SVR(kernel="linear"), svm.SVR(kernel="linear"), NUMBERS),
    ):
        kept = [RFE(one, n_features_to_select=2).fit(X, y).support_ for one in (ours, theirs)]
        np.testing.assert_array_equal(*kept)
        kept = [
            SelectFromModel(one, max_features=2, threshold=-np.inf).fit(X, y).get_support() for one in (ours, theirs)
        ]
        np.testing.assert_array_equal(*kept)


@every_model
def test_clones_are_fresh_and_know_every_parameter(name):
    model, y, _ = MODELS[name]
    model = clone(model).set_params(max_iter=10**6, verbose=0, n_jobs=1, cache_size=200, shrinking=True, tol=1e-8)
    fitted = clone(model).fit(X, y)
    again = clone(fitted)
    assert again.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        again.predict(NEW)
    np.testing.assert_array_equal(again.fit(X, y).predict(NEW), fitted.predict(NEW))
    assert (is_classifier(model), is_regressor(model), is_outlier_detector(model)) == (
        name == "SVC",
        name == "SVR",
        y is None,
    )
    assert name in repr(model)
    assert name in model._repr_html_()


@every_model
@pytest.mark.parametrize("way", ["pickle", "joblib", "deepcopy"])
def test_copies_predict_the_same_and_cannot_be_edited(name, way, tmp_path):
    model, y, _ = MODELS[name]
    fitted = clone(model).fit(X, y)
    if way == "joblib":
        joblib.dump(fitted, tmp_path / "model")
        other = joblib.load(tmp_path / "model")
    else:
        other = pickle.loads(pickle.dumps(fitted)) if way == "pickle" else copy.deepcopy(fitted)
    np.testing.assert_array_equal(other.predict(NEW), fitted.predict(NEW))
    assert other.certificate_.relative_gap == fitted.certificate_.relative_gap
    with pytest.raises(ValueError, match="read-only"):
        other.dual_coef_[0, 0] = 1.0


@every_model
def test_weights_are_routed(name):
    model, y, reference = MODELS[name]
    weight = np.where(np.arange(75) % 3 == 0, 0.0, 1.0 + np.arange(75) % 2)
    with sklearn.config_context(enable_metadata_routing=True):
        pipes = []
        for one in (model, reference):
            pipe = make_pipeline(StandardScaler(), clone(one).set_fit_request(sample_weight=True))
            pipe[0].set_fit_request(sample_weight=False)
            pipes.append(pipe.fit(X, y, sample_weight=weight))
        agree(pipes[0].predict(NEW), pipes[1].predict(NEW))
    assert not set(pipes[0][-1].support_) & set(np.flatnonzero(weight == 0))
    direct = make_pipeline(StandardScaler(), clone(model))
    direct.fit(X, y, **{f"{name.lower()}__sample_weight": weight})
    np.testing.assert_array_equal(direct.predict(NEW), pipes[0].predict(NEW))


def test_weights_are_routed_through_a_search():
    weight = np.where(np.arange(75) % 3 == 0, 0.0, 1.0)
    with sklearn.config_context(enable_metadata_routing=True):
        searches = []
        for one in (SVC(gamma=0.3), svm.SVC(gamma=0.3)):
            one.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
            searches.append(GridSearchCV(one, {"C": [0.1, 10.0]}, cv=3).fit(X, NAMES, sample_weight=weight))
    scores = [search.cv_results_["mean_test_score"] for search in searches]
    np.testing.assert_allclose(*scores, rtol=0, atol=0.03)


def test_predictions_scores_and_curves_by_folds():
    model, y, reference = MODELS["SVC"]
    for method in ("predict", "decision_function"):
        agree(*(cross_val_predict(clone(one), X, y, cv=3, method=method) for one in (model, reference)))
    with joblib.parallel_config(backend="threading"):
        scores = [cross_val_score(clone(one), X, y, cv=3, n_jobs=2) for one in (model, reference)]
    np.testing.assert_allclose(*scores, atol=0.05)
    curves = [learning_curve(clone(one), X, y, cv=3, train_sizes=[0.5, 1.0])[2] for one in (model, reference)]
    np.testing.assert_allclose(*curves, atol=0.05)
