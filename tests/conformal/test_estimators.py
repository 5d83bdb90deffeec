"""`ConformalSVC` and `ConformalSVR` follow scikit-learn's conventions for estimators."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from dualflow import SVC, SVR, ConformalSVC, ConformalSVR
from dualflow.conformal import _models
from dualflow.exceptions import ProblemError


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X[:60], y[:60]


def iris():
    X, y = load_iris(return_X_y=True)
    return X[::2], y[::2]


BOTH = pytest.mark.parametrize(
    ("model", "data", "ask"),
    [
        (ConformalSVR(SVR(C=100.0, gamma=5.0)), diabetes, "predict_interval"),
        (ConformalSVC(SVC(C=5.0, gamma=0.3)), iris, "p_values"),
        (ConformalSVC(SVC(C=5.0, gamma=0.3), cv=4), iris, "predict_set"),
    ],
    ids=["intervals", "p-values", "sets by folds"],
)


@pytest.mark.parametrize("model", [pytest.param(ConformalSVR(), marks=pytest.mark.slow), ConformalSVC()], ids=str)
def test_scikit_learns_checks(model):
    rows = check_estimator(model, on_fail=None, on_skip=None)
    assert [row["check_name"] for row in rows if row["status"] == "failed"] == []
    assert len(rows) > 30


@BOTH
def test_data_in_any_shape(model, data, ask):
    X, y = data()
    expected = getattr(clone(model).fit(X, y), ask)(X[:9])
    X.setflags(write=False)
    y.setflags(write=False)
    for other in (X, np.asfortranarray(X), np.repeat(X, 2, axis=1)[:, ::2]):
        found = getattr(clone(model).fit(other, y), ask)(other[:9])
        np.testing.assert_allclose(found.astype(float), expected.astype(float), rtol=1e-9)
    lists = getattr(clone(model).fit(X.tolist(), y.tolist()), ask)(X[:9].tolist())
    np.testing.assert_allclose(lists.astype(float), expected.astype(float), rtol=1e-9)
    single = X.astype(np.float32)
    assert getattr(clone(model).fit(single, y), ask)(single[:9]).shape == expected.shape


@BOTH
def test_pickle_clone_and_parameters(model, data, ask):
    X, y = data()
    fitted = clone(model).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(getattr(again, ask)(X), getattr(fitted, ask)(X))
    np.testing.assert_array_equal(fitted.predict(X), clone(model.estimator).fit(X, y).predict(X))
    assert fitted.score(X, y) == fitted.estimator_.score(X, y)
    assert not hasattr(model.estimator, "solutions_")  # which was cloned
    with pytest.raises(NotFittedError):
        getattr(clone(fitted), ask)(X)
    search = GridSearchCV(model, {"estimator__C": [1.0, 10.0]}, cv=2).fit(X, y)
    assert getattr(search.best_estimator_, ask)(X[:3]).shape[0] == 3


@BOTH
def test_names_of_features(model, data, ask):
    pandas = pytest.importorskip("pandas", reason="pip install pandas")
    X, y = data()
    frame = pandas.DataFrame(X, columns=[f"c{k}" for k in range(X.shape[1])])
    fitted = clone(model).fit(frame, pandas.Series(y))
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names"):
        getattr(fitted, ask)(frame[list(frame.columns[::-1])])
    assert not hasattr(fitted.fit(X, y), "feature_names_in_")
    with pytest.raises(ValueError, match="features"):
        getattr(fitted, ask)(X[:, :2])


@BOTH
@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_fit_changes_nothing(model, data, ask, stop, monkeypatch):
    X, y = data()
    fitted = clone(model).fit(X, y)
    before, expected = dict(fitted.__dict__), getattr(fitted, ask)(X)

    def end(*arguments):
        raise stop

    monkeypatch.setattr(_models, "_gathered", end)
    with pytest.raises(stop):
        fitted.fit(X[::2], y[::2])
    assert fitted.__dict__ == before
    np.testing.assert_array_equal(getattr(fitted, ask)(X), expected)


@BOTH
def test_no_weights(model, data, ask):
    X, y = data()
    with pytest.raises(TypeError, match="sample_weight"):
        clone(model).fit(X, y, sample_weight=np.ones(len(y)))


def test_defaults_and_a_pipeline():
    X, y = diabetes()
    pipe = make_pipeline(StandardScaler(), ConformalSVR()).fit(X, y)
    assert isinstance(pipe[-1].estimator_, SVR)
    assert pipe.predict(X).shape == (60,)
    assert pipe[-1].predict_interval(pipe[:-1].transform(X)).shape == (60, 2)


def test_solvers_and_limits_do_not_change_the_left_out_models():
    X, y = iris()
    plain = ConformalSVC(SVC(C=5.0, gamma=0.3)).fit(X, y)
    other = ConformalSVC(SVC(C=5.0, gamma=0.3, solver="smo", tol=1e-3, refine=False)).fit(X, y)
    np.testing.assert_allclose(other.conformity_scores_, plain.conformity_scores_, rtol=0, atol=1e-6)


def test_copies_and_constant_features():
    X, y = iris()
    X = np.column_stack([np.repeat(X[:30], 2, axis=0), np.ones(60)])
    y = np.repeat((y[:30] + np.arange(30)) % 2, 2)
    for kernel in ("linear", "rbf"):
        model = ConformalSVC(SVC(kernel=kernel, C=10.0, gamma=0.5)).fit(X, y)
        assert model.max_relative_gap_ <= 1e-8
        left_out = [
            SVC(kernel=kernel, C=10.0, gamma=0.5, tol=1e-10).fit(np.delete(X, i, 0), np.delete(y, i)) for i in (0, 17)
        ]
        for i, alone in zip((0, 17), left_out, strict=True):
            value = float(alone.decision_function(X[[i]])[0]) * (1 if y[i] == model.classes_[1] else -1)
            assert abs(model.conformity_scores_[i] + value) < 1e-5


def test_values_of_one_size_and_of_all_sizes():
    X, y = diabetes()
    flat = ConformalSVR(SVR(epsilon=0.1)).fit(X, np.full(60, 3.0))
    np.testing.assert_allclose(flat.predict_interval(X), 3.0)
    for scale in (1e-6, 1e6):
        fitted = ConformalSVR(SVR(C=100.0 * scale, epsilon=0.1 * scale, gamma=5.0)).fit(X, y * scale)
        expected = ConformalSVR(SVR(C=100.0, gamma=5.0)).fit(X, y).predict_interval(X)
        np.testing.assert_allclose(fitted.predict_interval(X), expected * scale, rtol=1e-5)


def test_text_with_a_callable_kernel():
    words = np.array(["aab", "aba", "abb", "baa", "bba", "bbb", "aaa", "bab"] * 3)
    y = np.char.count(words, "a") > 1

    def common(A, B):
        return np.array([[sum(a[k] == b[k] for k in range(3)) for b in B] for a in A], dtype=float)

    model = ConformalSVC(SVC(kernel=common, C=1.0)).fit(words, y)
    assert model.predict_set(np.array(["aab", "bbb"])).tolist() == [[False, True], [True, False]]


def test_streams_are_refused():
    from dualflow import IncrementalSVC

    with pytest.raises(ProblemError, match="IncrementalSVC is not"):
        ConformalSVC(IncrementalSVC()).fit(*iris())
