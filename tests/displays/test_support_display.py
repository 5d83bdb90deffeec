"""Surfaces are those of the model, rings are its support vectors, and what a projection hides is said."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from matplotlib.figure import Figure
from sklearn.cluster import KMeans
from sklearn.datasets import load_iris, make_blobs, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualflow import (
    LDA,
    SVC,
    SVDD,
    SVR,
    Gram,
    IncrementalSVC,
    OneClassSVM,
    ProblemError,
    SupportDisplay,
    problems,
    solve,
)


def settings():
    """All but the backend, which pyplot settles when it is looked at."""
    return {name: mpl.rcParams[name] for name in mpl.rcParams if name != "backend"}


@pytest.fixture(scope="module")
def moons():
    return make_moons(40, noise=0.1, random_state=0)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return X, load_iris().target_names[y]


def axes():
    return Figure(layout="constrained").subplots()


def legend_of(display):
    return [text.get_text() for text in display.legend_.get_texts()]


def drawn(display):
    return np.vstack([np.asarray(points.get_offsets()) for points in display.points_])


def test_two_classes(moons):
    X, t = moons
    model = SVC(C=10, gamma=1.0).fit(X, t)
    display = SupportDisplay.from_estimator(model, X, t, ax=axes(), grid_resolution=30)
    (x0, x1), (y0, y1) = display.ax_.get_xlim(), display.ax_.get_ylim()
    u, v = np.meshgrid(np.linspace(x0, x1, 30), np.linspace(y0, y1, 30))
    values = model.decision_function(np.column_stack([u.ravel(), v.ravel()]))
    np.testing.assert_allclose(display.response_.ravel(), values, atol=1e-9)
    assert display.line_.levels.tolist() == [-1, 0, 1]
    low, high = X.min(axis=0), X.max(axis=0)
    np.testing.assert_allclose([[x0, y0], [x1, y1]], [low - 0.08 * (high - low), high + 0.08 * (high - low)])
    np.testing.assert_array_equal(np.asarray(display.support_.get_offsets()), model.support_vectors_)
    np.testing.assert_array_equal(np.sort(drawn(display), axis=0), np.sort(X, axis=0))
    colours = {tuple(points.get_facecolor()[0]) for points in display.points_}
    assert len(colours) == 2
    expected = ["class 0", "class 1", f"{len(model.support_)} support vectors", "f = 0", "margins, f = ±1"]
    assert legend_of(display) == expected
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("first feature", "second feature")
    assert display.text_ is None


def test_a_solution_is_drawn_like_its_model(moons):
    X, t = moons
    model = SVC(C=10, gamma=1.0).fit(X, t)
    display = SupportDisplay.from_solution(model.solution_, ax=axes(), grid_resolution=20)
    same = SupportDisplay.from_estimator(model, X, t, ax=axes(), grid_resolution=20)
    np.testing.assert_allclose(display.response_, same.response_, atol=1e-9)
    assert legend_of(display)[:2] == ["class −1", "class 1"]
    assert len(display.support_.get_offsets()) == len(model.support_)


def test_several_classes_are_regions(iris):
    X, names = iris
    model = SVC().fit(X[:, :2], names)
    display = SupportDisplay.from_estimator(model, X[:, :2], names, ax=axes(), grid_resolution=15)
    assert set(np.unique(display.response_)) == {0.0, 1.0, 2.0}
    (x0, x1), (y0, y1) = display.ax_.get_xlim(), display.ax_.get_ylim()
    corner = model.predict([[x0, y0], [x1, y1]])
    assert [model.classes_[int(k)] for k in display.response_[[0, -1], [0, -1]]] == corner.tolist()
    assert legend_of(display)[:3] == ["setosa", "versicolor", "virginica"]
    assert len(display.surface_) == 3


def test_a_ball(moons):
    X, _ = moons
    for model in (SVDD(nu=0.2, gamma=2.0).fit(X), OneClassSVM(nu=0.2, gamma=2.0).fit(X)):
        display = SupportDisplay.from_estimator(model, X, ax=axes(), grid_resolution=20)
        assert display.line_.levels.tolist() == [0]
        assert legend_of(display) == ["points", f"{len(model.support_)} support vectors", "f = 0: inside is grey"]
        again = SupportDisplay.from_solution(model.solution_, ax=axes(), grid_resolution=20)
        np.testing.assert_array_equal(again.response_ >= 0, display.response_ >= 0)


def test_regression_on_one_feature_has_its_tube():
    x = np.linspace(0, 6, 25)
    model = SVR(C=10, epsilon=0.2).fit(x[:, None], np.sin(x))
    display = SupportDisplay.from_estimator(model, x[:, None], np.sin(x), ax=axes())
    grid, values = display.line_.get_data()
    np.testing.assert_allclose(values, model.predict(grid[:, None]), atol=1e-9)
    rows = model.support_
    np.testing.assert_allclose(np.asarray(display.support_.get_offsets()), np.column_stack([x, np.sin(x)])[rows])
    assert "tube, ±0.2" in legend_of(display)
    # The solution alone knows the targets, and ε, from its linear term.
    again = SupportDisplay.from_solution(model.solution_, ax=axes())
    np.testing.assert_allclose(drawn(again), np.column_stack([x, np.sin(x)]), atol=1e-12)
    assert again.scene.epsilon == pytest.approx(0.2)


def test_regression_on_two_features_is_levels(moons):
    X, _ = moons
    model = SVR().fit(X, X[:, 0])
    display = SupportDisplay.from_estimator(model, X, X[:, 0], ax=axes(), grid_resolution=10)
    labels = [ax.get_ylabel() for ax in display.figure_.axes]
    assert "prediction" in labels
    np.testing.assert_array_equal(display.points_[0].get_array(), X[:, 0])
    flat = SVR().fit(X, np.ones(len(X)))  # one value everywhere, and no support vector
    display = SupportDisplay.from_estimator(flat, X, ax=axes(), grid_resolution=5)
    assert len(display.support_.get_offsets()) == 0


def test_one_feature_is_a_curve(moons):
    X, t = moons
    model = SVC(kernel="linear").fit(X[:, :1], t)
    display = SupportDisplay.from_estimator(model, X[:, :1], t, ax=axes())
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("feature", "decision value f")
    levels = {line.get_ydata()[0]: line.get_linestyle() for line in display.ax_.lines if line is not display.line_}
    assert levels == {-1.0: "--", 0.0: "-", 1.0: "--"}
    np.testing.assert_allclose(drawn(display)[:, 1], model.decision_function(drawn(display)[:, :1]), atol=1e-9)


def test_more_features_are_a_plane_and_say_so(iris):
    X, names = iris
    model = SVC().fit(X, names)
    display = SupportDisplay.from_estimator(model, X, names, ax=axes(), grid_resolution=10)
    centred = X - X.mean(axis=0)
    shares = np.linalg.svd(centred, compute_uv=False) ** 2 / (centred**2).sum()
    assert display.ax_.get_xlabel() == f"1st principal component ({100 * shares[0]:.0f} % of variance)"
    # What share of points is drawn in its own region, computed apart.
    axes_ = np.linalg.svd(centred, full_matrices=False)[2][:2]
    own = model.predict(X) == model.predict(X.mean(axis=0) + centred @ axes_.T @ axes_)
    assert 0 < own.mean() < 1
    assert f"{100 * own.mean():.0f} % of the points" in display.text_.get_text()
    assert "first 2 of 4" in display.text_.get_text()


def test_sparse_points(iris):
    X, y = make_blobs(60, 5, centers=2, random_state=0)
    X[np.abs(X) < 3] = 0
    dense = SupportDisplay.from_estimator(SVC().fit(X, y), X, y, ax=axes(), grid_resolution=8)
    model = SVC().fit(sp.csr_matrix(X), y)
    sparse = SupportDisplay.from_estimator(model, sp.csr_matrix(X), y, ax=axes(), grid_resolution=8)
    np.testing.assert_allclose(sparse.response_, dense.response_, atol=1e-6)
    SupportDisplay.from_solution(model.solution_, ax=axes(), grid_resolution=4)


def test_data_too_wide_to_be_dense(monkeypatch):
    from dualflow.displays import _scene

    rng = np.random.default_rng(0)
    X = sp.random(50, 30, density=0.3, random_state=rng, format="csr")
    y = np.arange(50) % 2
    model = SVC().fit(X, y)
    dense = SupportDisplay.from_estimator(model, X, y, ax=axes(), grid_resolution=6)
    monkeypatch.setattr(_scene, "MAX_DENSE_ENTRIES", 10)
    display = SupportDisplay.from_estimator(model, X, y, ax=axes(), grid_resolution=6)
    np.testing.assert_allclose(display.response_, dense.response_, atol=1e-6)
    assert display.text_.get_text() == dense.text_.get_text()
    assert display.ax_.get_ylabel() == dense.ax_.get_ylabel()


def test_frames_name_the_axes(moons):
    X, t = moons
    for frame in (pd.DataFrame(X, columns=["width", "height"]), pl.DataFrame(X, schema=["width", "height"])):
        model = SVC().fit(frame, t)
        display = SupportDisplay.from_estimator(model, frame, t, ax=axes(), grid_resolution=6)
        assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("width", "height")


def test_pipelines_and_searches(moons, iris):
    X, t = moons
    pipeline = make_pipeline(StandardScaler(), SVC()).fit(X, t)
    display = SupportDisplay.from_estimator(pipeline, X, t, ax=axes(), grid_resolution=6)
    np.testing.assert_array_equal(np.asarray(display.support_.get_offsets()), X[pipeline[-1].support_])
    search = GridSearchCV(pipeline, {"svc__C": [1, 10]}, cv=2).fit(X, t)
    SupportDisplay.from_estimator(search, X, t, ax=axes(), grid_resolution=6)
    X, names = iris
    pipeline = make_pipeline(StandardScaler(), SVC()).fit(X, names)
    display = SupportDisplay.from_estimator(pipeline, X, names, ax=axes(), grid_resolution=6)
    scaled = StandardScaler().fit_transform(X)  # the plane is that of what the model sees
    share = (np.linalg.svd(scaled, compute_uv=False) ** 2 / (scaled**2).sum())[0]
    assert f"{100 * share:.0f} %" in display.ax_.get_xlabel()


def test_streams(moons):
    X, t = moons
    model = IncrementalSVC(C=10, gamma=1.0).partial_fit(X, t, classes=[0, 1])
    model.forget([0, 1])
    display = SupportDisplay.from_estimator(model, X, t, ax=axes(), grid_resolution=6)
    np.testing.assert_allclose(np.asarray(display.support_.get_offsets()), model.support_vectors_)


def test_two_points_and_three_features():
    X = np.array([[0.0, 0.0, 1.0], [1.0, 2.0, 3.0]])
    model = SVC(kernel="linear").fit(X, ["a", "b"])
    display = SupportDisplay.from_estimator(model, X, ["a", "b"], ax=axes(), grid_resolution=5)
    assert "100 % of the points" in display.text_.get_text()
    same = np.zeros((4, 3))
    display = SupportDisplay.from_estimator(SVDD().fit(same), same, ax=axes(), grid_resolution=5)
    assert np.isfinite(display.response_).all()


def test_many_points():
    X, y = make_moons(3000, noise=0.2, random_state=0)
    model = SVC(C=1.0).fit(X, y)
    display = SupportDisplay.from_estimator(model, X, y, ax=axes(), grid_resolution=20)
    assert len(drawn(display)) == 3000


def test_the_legend_covers_no_data_and_nothing_is_global(moons):
    X, t = moons
    before = settings()
    read_only = X.copy()
    read_only.setflags(write=False)
    display = SupportDisplay.from_estimator(SVC().fit(X, t), read_only, t, ax=axes(), grid_resolution=6, legend=True)
    display.figure_.draw_without_rendering()
    assert not display.legend_.get_window_extent().overlaps(display.ax_.get_window_extent())
    assert settings() == before
    assert SupportDisplay.from_estimator(SVC().fit(X, t), X, ax=axes(), legend=False).legend_ is None


LINE = [[0.0], [1.0], [2.0], [3.0]]


@pytest.mark.parametrize(
    ("model", "X", "y", "words"),
    [
        (KMeans(2), [[0.0], [1.0]], None, "KMeans has no support vectors"),
        (LDA().fit(LINE, [0, 0, 1, 1]), LINE, [0, 0, 1, 1], "LDA has no support vectors"),
        (SVC(kernel="precomputed"), np.eye(4), [0, 0, 1, 1], "use EcosystemDisplay"),
        (SVC(), np.eye(4), [0, 0, 1], "each point needs one label"),
        (SVC(), ["a", "b"], None, "one in each row"),
        (SVC(), np.array([["a", "b"]]), None, "X holds text"),
    ],
)
def test_what_cannot_be_drawn_is_told(model, X, y, words):
    if isinstance(model, SVC):
        model.fit(np.eye(4), [0, 0, 1, 1])
    with pytest.raises(ProblemError, match=words):
        SupportDisplay.from_estimator(model, X, y)


def test_other_refusals(moons):
    X, t = moons
    with pytest.raises(NotFittedError):
        SupportDisplay.from_estimator(SVC(), X, t)
    pipeline = make_pipeline(StandardScaler(), SVC()).fit(X, t)
    with pytest.raises(ProblemError, match="give the X of the fit"):
        SupportDisplay.from_estimator(pipeline, X[:2], t[:2])
    with pytest.raises(ProblemError, match="y holds 2, which is not a class"):
        SupportDisplay.from_estimator(SVC().fit(X, t), X, np.full(40, 2))
    with pytest.raises(ProblemError, match="grid_resolution=1"):
        SupportDisplay.from_estimator(SVC().fit(X, t), X, t, grid_resolution=1)
    with pytest.raises(ProblemError, match="found dict"):
        SupportDisplay.from_solution({})
    kernel = problems.svc(Gram.precomputed(np.eye(4)), [-1, -1, 1, 1])
    with pytest.raises(ProblemError, match="use EcosystemDisplay"):
        SupportDisplay.from_solution(solve(kernel))
