"""SVC, SVR and OneClassSVM beside scikit-learn's own: attributes, shapes, weights, kernels, sparse data, names."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning

import dualflow
from dualflow import SVC, SVDD, SVR, FitError, NuSVC, NuSVR, OneClassSVM, ProblemError

#: Points in general position: the support vectors are then unique.
THREE = make_blobs(120, centers=3, n_features=4, cluster_std=4.0, random_state=3)
THREE = THREE[0] / 5.0, THREE[1] * 2
TWO = THREE[0][THREE[1] > 0], np.array(["benign", "malign"])[THREE[1][THREE[1] > 0] // 2 - 1]
RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=(100, 4)), RNG.normal(size=100)
NEW = RNG.uniform(-3, 3, size=(30, 4))
WEIGHT = RNG.integers(0, 4, size=120) * RNG.uniform(0.5, 1.0, size=120)
PAIRS = {
    "SVC, two classes": (SVC, svm.SVC, {"C": 2.0}, TWO),
    "SVC, three classes": (SVC, svm.SVC, {"C": 2.0}, THREE),
    "SVC, ovo": (SVC, svm.SVC, {"C": 0.5, "decision_function_shape": "ovo"}, THREE),
    "SVC, balanced": (SVC, svm.SVC, {"class_weight": "balanced"}, (THREE[0][20:], THREE[1][20:])),
    "SVC, weighted": (SVC, svm.SVC, {"class_weight": {0: 0.2, 2: 5.0}}, THREE),
    "SVR": (SVR, svm.SVR, {"C": 2.0, "epsilon": 0.2}, NUMBERS),
    "OneClassSVM": (OneClassSVM, svm.OneClassSVM, {"nu": 0.33}, (THREE[0],)),
    "NuSVC, two classes": (NuSVC, svm.NuSVC, {"nu": 0.69}, TWO),
    "NuSVC, three classes": (NuSVC, svm.NuSVC, {"nu": 0.69}, THREE),
    "NuSVR": (NuSVR, svm.NuSVR, {"nu": 0.413, "C": 2.0}, NUMBERS),
}
KERNELS = {
    "rbf": {"gamma": 0.1},
    "scale": {},
    "auto": {"gamma": "auto"},
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "gamma": 0.1, "coef0": 1.0},
}
every_pair = pytest.mark.parametrize("name", PAIRS)
every_kernel = pytest.mark.parametrize("kernel", KERNELS)


def both(name, X=None, **more):
    """Ours and scikit-learn's on the same data, both solved far beyond their defaults."""
    ours, theirs, options, (points, *y) = PAIRS[name]
    points = points if X is None else X(points)
    weight = more.pop("sample_weight", None)
    ours = ours(**{**options, **more}, tol=1e-10).fit(points, *(y or [None]), sample_weight=weight)
    theirs = theirs(**{**options, **more}, tol=1e-10).fit(points, *(y or [None]), sample_weight=weight)
    return ours, theirs


def near(found, expected, rtol=2e-5):
    if scipy.sparse.issparse(expected):
        assert type(found) is type(expected)
        found, expected = found.toarray(), expected.toarray()
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * (1.0 + np.abs(expected).max(initial=0.0)))


def alike(ours, theirs, X, rows=None):
    """``rows`` are the points of positive weight: scikit-learn's ``support_`` counts these alone, ours rows of X."""
    for name in ("support_", "n_support_", "dual_coef_", "intercept_", "support_vectors_"):
        found, expected = getattr(ours, name), getattr(theirs, name)
        if name == "n_support_" and expected.sum() != len(theirs.support_):
            # With sparse data, the regressors of scikit-learn before 1.9 count more points than there are.
            assert tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9)
            assert found.sum() == len(ours.support_)
            continue
        if name == "support_" and rows is not None:
            expected = rows[expected]
        if expected.dtype.kind == "i":
            np.testing.assert_array_equal(found, expected)
        else:
            near(found, expected)
    assert hasattr(ours, "coef_") == hasattr(theirs, "coef_")
    if hasattr(theirs, "coef_"):
        near(ours.coef_, theirs.coef_)
    for name in ("classes_", "offset_", "n_features_in_"):
        assert hasattr(ours, name) == hasattr(theirs, name)
        if hasattr(theirs, name):
            found, expected = np.asarray(getattr(ours, name)), np.asarray(getattr(theirs, name))
            near(found, expected) if expected.dtype.kind == "f" else np.testing.assert_array_equal(found, expected)
    if hasattr(theirs, "classes_"):
        np.testing.assert_array_equal(ours.class_weight_, theirs.class_weight_)
    for method in ("decision_function", "score_samples", "predict"):
        assert hasattr(ours, method) == hasattr(theirs, method)
        if hasattr(theirs, method):
            expected = getattr(theirs, method)(X)
            if expected.dtype.kind == "f":
                near(getattr(ours, method)(X), expected)
            else:
                np.testing.assert_array_equal(getattr(ours, method)(X), expected)
    assert type(ours.n_iter_) is type(theirs.n_iter_)
    assert np.shape(ours.n_iter_) == np.shape(theirs.n_iter_)
    assert ours.fit_status_ == theirs.fit_status_ == 0


@every_pair
@every_kernel
def test_the_same_attributes_values_and_predictions(name, kernel):
    if (name, kernel) == ("OneClassSVM", "linear"):
        pytest.skip("the plane through the data: which points carry it is not unique")
    ours, theirs = both(name, **KERNELS[kernel])
    alike(ours, theirs, NEW)


def test_a_linear_plane_is_the_same_for_other_support_vectors():
    ours, theirs = both("OneClassSVM", kernel="linear")
    near(ours.coef_, theirs.coef_)
    near(ours.offset_, theirs.offset_)
    near(ours.decision_function(NEW), theirs.decision_function(NEW))
    near(ours.dual_coef_.sum(), np.float64(0.33 * 120))


@every_pair
def test_sample_weights(name):
    n = len(PAIRS[name][3][0])
    ours, theirs = both(name, gamma=0.1, sample_weight=WEIGHT[:n])
    alike(ours, theirs, NEW, np.flatnonzero(WEIGHT))
    assert not set(ours.support_) & set(np.flatnonzero(WEIGHT == 0))


@every_pair
def test_weights_below_0_leave_points_out_as_in_scikit_learn(name):
    n = len(PAIRS[name][3][0])
    ours, theirs = both(name, gamma=0.1, sample_weight=np.where(WEIGHT > 0, WEIGHT, -0.5)[:n])
    alike(ours, theirs, NEW, np.flatnonzero(WEIGHT))
    kind, reference, options, data = PAIRS[name]
    words = "specified nu is infeasible|have zero or negative weights|negative dimensions are not allowed"
    for weight in (np.zeros(n), np.full(n, -0.3)):
        with pytest.raises(ValueError, match="all samples have zero or negative weights"):
            kind(**options).fit(*data, sample_weight=weight)
        with pytest.raises(ValueError, match=words):  # the others are those of its NuSVC, by version
            reference(**options).fit(*data, sample_weight=weight)


def test_one_class_left_by_the_weights_is_refused_in_the_same_words():
    weight = (TWO[1] == "malign").astype(float) - 0.5
    for kind in (SVC, svm.SVC):
        with pytest.raises(ValueError, match="all samples with positive weights belong to the same class"):
            kind().fit(*TWO, sample_weight=weight)


@every_pair
@pytest.mark.parametrize("form", ["csr", "csc", "lil"])
def test_sparse_data(name, form):
    ours, theirs = both(name, lambda X: scipy.sparse.csr_matrix(X).asformat(form), gamma=0.1)
    alike(ours, theirs, scipy.sparse.csr_matrix(NEW))


@every_pair
def test_precomputed_and_callable_kernels(name):
    points = PAIRS[name][3][0]
    new = NEW
    ours, theirs = both(name, lambda X: X @ X.T + 1.0, kernel="precomputed")
    if "One" not in name:  # the plane may have other support vectors
        near(ours.dual_coef_, theirs.dual_coef_)
    method = "predict" if "SVR" in name else "decision_function"
    expected = getattr(theirs, method)(new @ points.T + 1.0)
    near(getattr(ours, method)(new @ points.T + 1.0), expected)
    assert ours.support_vectors_.size == theirs.support_vectors_.size == 0
    with pytest.raises(ValueError):
        ours.predict((new @ points.T).T)
    called, _ = both(name, kernel=lambda A, B: A @ B.T + 1.0)
    near(getattr(called, method)(new), expected)


@every_pair
def test_frames_and_the_names_of_their_columns(name):
    ours, theirs = both(name, lambda X: pd.DataFrame(X).add_prefix("f"), gamma=0.1)
    frame = pd.DataFrame(NEW).add_prefix("f")
    assert ours.feature_names_in_.tolist() == theirs.feature_names_in_.tolist() == list(frame.columns)
    for model in (ours, theirs):
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(frame[frame.columns[::-1]])
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            model.predict(frame.to_numpy())


def test_ties_are_broken_as_in_scikit_learn():
    X, y = make_blobs(random_state=27, n_samples=20, n_features=2)
    grid = np.stack(np.meshgrid(np.linspace(-12, 6, 40), np.linspace(-8, 8, 40)), axis=-1).reshape(-1, 2)
    ours, theirs = SVC(gamma=1e6).fit(X, y), svm.SVC(gamma=1e6).fit(X, y)
    assert (ours.predict(grid) != ours.classes_[np.argmax(ours.decision_function(grid), axis=1)]).any()
    for kind, model in ((SVC, ours), (svm.SVC, theirs)):
        broken = kind(gamma=1e6, break_ties=True).fit(X, y)
        np.testing.assert_array_equal(broken.predict(grid), np.argmax(model.decision_function(grid), axis=1))
        wrong = kind(break_ties=True, decision_function_shape="ovo").fit(X, y)
        with pytest.raises(ValueError, match="break_ties must be False"):
            wrong.predict(X)


@every_pair
def test_a_limit_of_iterations_warns_and_is_n_iter(name):
    kind, reference, options, data = PAIRS[name]
    for model in (kind(**options, max_iter=2), reference(**options, max_iter=2)):
        with pytest.warns(
            ConvergenceWarning, match=r"Solver terminated early \(max_iter=2\).  Consider pre-processing"
        ):
            model.fit(*data)
        assert (np.asarray(model.n_iter_) == 2).all()
        assert np.shape(model.n_iter_) == np.shape(reference(**options).fit(*data).n_iter_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kind(**options, max_iter=10**6).fit(*data)


def test_a_hard_tube_is_the_limit_of_a_large_C():
    X, y = NUMBERS[0], np.sin(NUMBERS[0][:, 0])
    ours, theirs = SVR(C=np.inf, gamma=0.5, tol=1e-9).fit(X, y), svm.SVR(C=1e10, gamma=0.5, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(ours.predict(NEW), theirs.predict(NEW), rtol=0, atol=1e-7)
    assert np.abs(ours.predict(X) - y).max() <= 0.1 + 1e-9
    twice, values = np.vstack([X, X[:1]]), np.append(y, y[0] + 1.0)
    with pytest.raises(FitError, match="wider tube"):
        SVR(C=np.inf, gamma=0.5).fit(twice, values)
    assert SVR(C=np.inf, gamma=0.5, epsilon=0.6).fit(twice, values).fit_status_ == 0
    with pytest.warns(ConvergenceWarning, match="time limit"):
        SVR(C=np.inf, kernel="linear", time_limit=1e-9).fit(X, y)
    assert SVR(C=np.inf).fit(X, np.ones(len(X))).predict(X[:1])[0] == pytest.approx(1.0)


@pytest.mark.parametrize("kind", [SVC, SVR, OneClassSVM], ids=lambda kind: kind.__name__)
def test_every_argument_of_scikit_learn_exists_with_its_default(kind):
    """Except tol, which measures something else, and probability, whose default scikit-learn is about to drop."""
    theirs = inspect.signature(getattr(svm, kind.__name__)).parameters
    ours = inspect.signature(kind).parameters
    assert set(theirs) <= set(ours)
    for name in set(theirs) - {"tol", "probability"}:
        assert ours[name].default == theirs[name].default, name


@every_pair
def test_coefficients_cannot_be_set_or_edited(name):
    kind, reference, options, data = PAIRS[name]
    for X in (data[0], scipy.sparse.csr_matrix(data[0])):
        ours, theirs = kind(**options, kernel="linear").fit(X, *data[1:]), reference(kernel="linear").fit(X, *data[1:])
        for model in (ours, theirs):
            with pytest.raises(AttributeError):
                model.coef_ = np.arange(3)
            with pytest.raises((ValueError, RuntimeError)):
                model.coef_[0, 0] = 1.0
        for attribute in ("dual_coef_", "intercept_", "n_support_", "support_", *(["offset_"] * (kind is OneClassSVM))):
            array = getattr(ours, attribute)
            with pytest.raises(ValueError, match="read-only"):
                (array.data if scipy.sparse.issparse(array) else array)[...] = 0
        assert clone(ours).fit(X, *data[1:]).dual_coef_.shape == ours.dual_coef_.shape


def test_a_callable_kernel_on_objects():
    words, y = ["A A", "A", "B", "B B", "A B", "B A B"], np.array([1, 1, 2, 2, 1, 2])
    counts = np.array([[text.count("A"), text.count("B")] for text in words], dtype=float)

    def shared(first, second):
        assert all(isinstance(text, str) for text in [*first, *second])
        return np.array([[a.count("A") * b.count("A") + a.count("B") * b.count("B") for b in second] for a in first])

    new = ["A", "B A", "B B B"]
    numbers = np.array([[text.count("A"), text.count("B")] for text in new], dtype=float)
    for kind, method in ((SVC, "decision_function"), (SVR, "predict"), (OneClassSVM, "decision_function")):
        plain = kind(kernel="linear").fit(counts, y)
        for X in (words, np.array(words), np.array(words, dtype=object)):
            model = kind(kernel=shared).fit(X, y)
            np.testing.assert_allclose(getattr(model, method)(new), getattr(plain, method)(numbers), atol=1e-9)
        model = kind(kernel=shared).fit(words, y)
        words_then = list(words)
        words[0] = "B"  # the model has its own
        np.testing.assert_allclose(getattr(model, method)(new), getattr(plain, method)(numbers), atol=1e-9)
        words[:] = words_then
        model.set_params(kernel=lambda A, B: A @ B.T).fit(counts, y)  # and is a plain one again
        np.testing.assert_allclose(getattr(model, method)(numbers), getattr(plain, method)(numbers), atol=1e-9)
    with pytest.raises(ProblemError, match="shape"):
        SVC(kernel=lambda A, B: np.ones((2, 2))).fit(words, y)
    with pytest.raises(ProblemError, match="kernel: the callable returned NaN"):
        SVC(kernel=lambda A, B: np.full((len(A), len(B)), np.nan)).fit(words, y)
    with pytest.raises(ProblemError, match="X holds text"):
        SVDD(kernel=shared).fit(words)
    with pytest.raises(ProblemError, match="X holds text"):
        SVC().fit(words, y)


def test_sparse_rows_for_a_dense_model_and_kernels_of_a_wrong_shape():
    """docs/how-to/from-sklearn.md: both refuse sparse rows for a dense model; `fit` refuses such a kernel."""
    sparse = scipy.sparse.csr_matrix(TWO[0])
    for kind in (SVC, svm.SVC):
        with pytest.raises(ValueError, match="cannot use sparse input in 'SVC' trained on dense data"):
            kind().fit(*TWO).predict(sparse)
    called = SVC(kernel=lambda A, B: (A @ B.T).toarray() if scipy.sparse.issparse(A @ B.T) else A @ B.T)
    np.testing.assert_array_equal(called.fit(*TWO).predict(sparse), called.predict(TWO[0]))
    with pytest.raises(ProblemError, match="shape"):
        SVR(kernel=lambda A, B: np.ones((1, 1))).fit([[0.0], [1.0]], [0.0, 0.5])
    assert "OneClassSVM" in dualflow.__all__


@pytest.mark.parametrize("name", ["SVC", "SVR", "NuSVC", "NuSVR", "OneClassSVM"])
def test_defaults_are_those_of_scikit_learn_but_for_the_tolerance(name):
    ours, theirs = getattr(dualflow, name)().get_params(), getattr(svm, name)().get_params()
    # What scikit-learn gives up it calls "deprecated".
    shared = {key for key in ours.keys() & theirs.keys() - {"tol"} if theirs[key] != "deprecated"}
    assert shared >= {"kernel", "gamma", "degree", "coef0"}
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}


KERNEL_DEFAULTS = {"kernel": "rbf", "gamma": "scale", "degree": 3, "coef0": 0.0}


@pytest.mark.parametrize(
    "name", ["SVDD", "LSSVC", "LSSVR", "CascadeSVC", "EcoSVC", "EcoSVDD", "IncrementalSVC", "IncrementalSVR"]
)
def test_other_estimators_have_the_same_default_kernel(name):
    assert KERNEL_DEFAULTS.items() <= getattr(dualflow, name)().get_params().items()
