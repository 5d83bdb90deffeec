"""Conformal estimators by default, around pipelines, with progress, and in files."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.feature_selection import SelectKBest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualflow import SVC, SVR, ConformalSVC, ConformalSVR, ProblemError, load
from dualflow.conformal import _base
from dualflow.persistence import container

X, Y = (part[:80] for part in load_diabetes(return_X_y=True))
IRIS, T = load_iris(return_X_y=True)


def test_auto_leaves_out_points_where_that_is_cheap_and_folds_elsewhere(monkeypatch):
    exact, default = ConformalSVR(SVR(C=100), cv=None).fit(X, Y), ConformalSVR(SVR(C=100)).fit(X, Y)
    assert exact.n_folds_ is default.n_folds_ is None
    np.testing.assert_array_equal(default.predict_interval(X), exact.predict_interval(X))
    folds = ConformalSVR(SVR(C=100), cv=10).fit(X, Y)
    assert folds.n_folds_ == 10
    monkeypatch.setattr(_base, "MAX_VARIABLES_AUTO", 159)  # 80 points have 160 variables
    many = ConformalSVR(SVR(C=100)).fit(X, Y)
    assert (many.n_folds_, many.n_models_) == (10, 11)
    np.testing.assert_array_equal(many.predict_interval(X), folds.predict_interval(X))
    assert ConformalSVR(SVR(C=100), cv=None).fit(X, Y).n_folds_ is None


@pytest.mark.parametrize("kind", [ConformalSVC, ConformalSVR])
def test_auto_takes_folds_where_the_path_breaks_off(kind, monkeypatch):
    data = (IRIS[:60], T[:60] % 2) if kind is ConformalSVC else (X, Y)
    monkeypatch.setattr("dualflow.conformal._models._path", lambda *arguments: None)
    assert kind().fit(*data).n_folds_ is None  # few points: solving each model again is cheap
    monkeypatch.setattr(_base, "MAX_REFIT_WORK_AUTO", 3 * len(data[0]) ** 2)
    assert kind().fit(*data).n_folds_ == 10


def test_around_a_pipeline():
    scaled = StandardScaler().fit(X)
    plain = ConformalSVR(SVR(C=10, gamma=0.1)).fit(scaled.transform(X), Y)
    model = ConformalSVR(make_pipeline(StandardScaler(), SVR(C=10, gamma=0.1))).fit(X, Y)
    np.testing.assert_array_equal(model.predict_interval(X), plain.predict_interval(scaled.transform(X)))
    np.testing.assert_array_equal(model.predict(X), plain.predict(scaled.transform(X)))
    assert model.n_features_in_ == 10
    sets = ConformalSVC(make_pipeline(StandardScaler(), SVC())).fit(IRIS, T)
    expected = ConformalSVC(SVC()).fit(StandardScaler().fit_transform(IRIS), T)
    np.testing.assert_array_equal(sets.p_values(IRIS), expected.p_values(StandardScaler().fit(IRIS).transform(IRIS)))
    with pytest.raises(ProblemError, match="its step 'selectkbest' learns from y"):
        ConformalSVC(make_pipeline(SelectKBest(k=2), SVC())).fit(IRIS, T)
    with pytest.raises(ProblemError, match="StandardScaler is not a dualflow"):
        ConformalSVR(make_pipeline(SVR(), StandardScaler())).fit(X, Y)


def test_verbose_counts_the_models(capsys, monkeypatch):
    monkeypatch.setattr(_base, "LINE_INTERVAL_S", 0.0)
    ConformalSVR(verbose=True).fit(X, Y)
    assert "ConformalSVR: 1 of 80 models without a point" in capsys.readouterr().out
    ConformalSVC(cv=4, verbose=True).fit(IRIS, T)
    assert "ConformalSVC: 3 of 4 models without a fold, pair of classes 3 of 3" in capsys.readouterr().out
    ConformalSVR().fit(X, Y)
    assert capsys.readouterr().out == ""


MODELS = {
    "intervals": (ConformalSVR(SVR(C=100, gamma=5.0)), (X, Y), "predict_interval"),
    "intervals by folds": (ConformalSVR(cv=5, method="minmax"), (X, Y), "predict_interval"),
    "sets": (ConformalSVC(SVC(C=5.0), confidence_level=0.8), (IRIS, T.astype(str)), "p_values"),
    "sets of two classes": (ConformalSVC(SVC(fit_intercept=False)), (IRIS[:100], T[:100]), "p_values"),
    "sets by folds": (ConformalSVC(cv=4), (IRIS, T), "p_values"),
}


@pytest.mark.parametrize("name", MODELS)
def test_saved_and_loaded_to_the_bit(name, tmp_path):
    model, data, method = MODELS[name]
    model.fit(*data).save(tmp_path / "one")
    again = load(tmp_path / "one")
    np.testing.assert_array_equal(getattr(again, method)(data[0]), getattr(model, method)(data[0]))
    np.testing.assert_array_equal(again.predict(data[0]), model.predict(data[0]))
    assert (again.n_folds_, again.n_models_, repr(again)) == (model.n_folds_, model.n_models_, repr(model))
    assert again.max_relative_gap_ <= 1e-8
    again.save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


@pytest.mark.parametrize("part", ["weights", "biases", "without", "values", "rows", "targets"])
@pytest.mark.parametrize("name", ["intervals", "sets by folds"])
def test_manipulated_models_are_refused(name, part, tmp_path):
    model, data, _ = MODELS[name]
    model.fit(*data).save(tmp_path / "model")
    header, arrays = container.read(tmp_path / "model", 1 << 30)
    key = "targets" if part == "targets" else f"models.0.{part}"
    if part == "targets":
        arrays.setdefault("targets", np.ones(len(data[0])))  # of a classifier there are none
    if part == "without":
        i, j = np.flatnonzero(np.diff(arrays[key]))[0] + np.arange(2)
        arrays[key][[i, j]] = arrays[key][[j, i]]
    elif part == "rows":
        arrays[key] = arrays[key][::-1].copy()
    else:
        entry = np.unravel_index(np.abs(arrays[key]).argmax(), arrays[key].shape)
        arrays[key][entry] *= 1.01
    container.write(tmp_path / "other", {k: v for k, v in header.items() if k != "members"}, arrays)
    with pytest.raises(ProblemError, match="holds no sound model"):
        load(tmp_path / "other")


def test_what_a_file_cannot_hold_is_refused(tmp_path):
    with pytest.raises(ProblemError, match="keep a model around a Pipeline by pickle"):
        ConformalSVR(make_pipeline(StandardScaler(), SVR())).fit(X, Y).save(tmp_path / "model")
    with pytest.raises(ProblemError, match="finite C and loss='hinge' only"):
        ConformalSVC(SVC(loss="squared_hinge")).fit(IRIS, T).save(tmp_path / "model")
