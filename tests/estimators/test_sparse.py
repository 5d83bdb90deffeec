"""Estimators on sparse data: the models of the same dense data, with attributes as in scikit-learn."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from sklearn import svm
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import dualflow
from dualflow import SVC, SVDD, SVR, ProblemError, load
from dualflow.core.sparse_points import SparsePoints
from dualflow.estimators._persistence import decode, encode
from dualflow.persistence import container
from dualflow.refinement import linear_systems

#: Few words of many, and a table that is small enough to be held with its zeros.
WORDS = scipy.sparse.random(150, 4000, density=0.005, format="csr", random_state=0)
TABLE = scipy.sparse.random(90, 12, density=0.4, format="csr", random_state=1)
BOTH = pytest.mark.parametrize("X", [WORDS, TABLE], ids=["words", "table"])
TIGHT = {"tol": 1e-10}


def labels(X, classes=2):
    return (np.asarray(X.sum(axis=1)).ravel() * 7).astype(int) % classes


def numbers(X):
    return np.sin(np.arange(X.shape[0]))


KERNELS = pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid"])
MODELS = {
    "SVC": lambda X, **more: (SVC(C=3.0, **more), (labels(X),)),
    "three classes": lambda X, **more: (SVC(C=3.0, **more), (labels(X, 3),)),
    "squared hinge": lambda X, **more: (SVC(loss="squared_hinge", **more), (labels(X),)),
    "SVR": lambda X, **more: (SVR(C=3.0, **more), (numbers(X),)),
    "SVDD": lambda X, **more: (SVDD(nu=0.3, **more), ()),
}


def plain(array):
    return array.toarray() if scipy.sparse.issparse(array) else np.asarray(array)


@pytest.mark.filterwarnings("ignore:kernel. the problem's matrix is:sklearn.exceptions.ConvergenceWarning")
@BOTH
@KERNELS
@pytest.mark.parametrize("model", MODELS)
def test_sparse_and_dense_data_make_one_model(X, kernel, model):
    if kernel == "sigmoid":
        kernel = {"kernel": "sigmoid", "gamma": 0.01, "coef0": 0.1}
    else:
        kernel = {"kernel": kernel, "coef0": 1.0}
    one, y = MODELS[model](X, **kernel, **TIGHT)
    other = clone(one).fit(X.toarray(), *y)
    one.fit(X, *y)
    for solution in one.solutions_:
        assert solution.certificate.relative_gap is None or solution.certificate.relative_gap <= 1e-9
    decision = "predict" if model == "SVR" else "decision_function"
    expected = getattr(other, decision)(X.toarray())
    size = float(np.abs(expected).max())
    for new in (X, X.tocoo(), X.toarray()):
        np.testing.assert_allclose(getattr(one, decision)(new), expected, rtol=0, atol=2e-7 * size)
    with pytest.raises(ProblemError, match="cannot use sparse input"):
        getattr(other, decision)(X)
    np.testing.assert_array_equal(plain(one.support_vectors_), X.toarray()[one.support_])
    np.testing.assert_array_equal(one.n_support_.sum(), len(one.support_))
    assert other.dual_coef_.shape == one.dual_coef_.shape


@BOTH
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_support_vectors_coefficients_and_weights_are_scikit_learns(X, kernel):
    y = labels(X, 3)
    options = {"C": 2.0, "kernel": kernel, "gamma": 0.5, "coef0": 0.0}
    ours, theirs = SVC(**options, **TIGHT).fit(X, y), svm.SVC(**options, tol=1e-9).fit(X, y)
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    for name in ("support_vectors_", "dual_coef_", *(["coef_"] if kernel == "linear" else [])):
        found, expected = getattr(ours, name), getattr(theirs, name)
        assert type(found) is type(expected)
        assert found.format == expected.format == "csr"
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.toarray(), expected.toarray(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), rtol=0, atol=1e-4)
    values, target = svm.SVR(**options, tol=1e-9).fit(X, numbers(X)), numbers(X)
    regression = SVR(**options, **TIGHT).fit(X, target)
    np.testing.assert_allclose(regression.predict(X), values.predict(X), rtol=0, atol=1e-4)
    assert type(regression.dual_coef_) is type(values.dual_coef_)
    if kernel == "linear":
        assert type(regression.coef_) is type(values.coef_)
        np.testing.assert_allclose(regression.coef_.toarray(), values.coef_.toarray(), rtol=0, atol=1e-5)


def test_the_interface_that_scikit_learn_is_set_to():
    if "sparse_interface" not in sklearn.get_config():
        pytest.skip("before scikit-learn 1.9 sparse attributes are matrices")
    with sklearn.config_context(sparse_interface="sparray"):
        model = SVC(kernel="linear").fit(WORDS, labels(WORDS))
        assert {type(a) for a in (model.support_vectors_, model.dual_coef_, model.coef_)} == {scipy.sparse.csr_array}
    assert type(SVC().fit(WORDS, labels(WORDS)).dual_coef_) is scipy.sparse.csr_matrix


def test_weights_and_centre_of_a_linear_ball():
    weight = np.arange(150) % 3
    one, other = (SVDD(nu=0.3, kernel="linear", **TIGHT).fit(X, None, weight) for X in (WORDS, WORDS.toarray()))
    np.testing.assert_allclose(one.center_, other.center_, rtol=0, atol=1e-7)
    assert not set(one.support_) & set(np.flatnonzero(weight == 0))
    np.testing.assert_array_equal(one.predict(WORDS), other.predict(WORDS.toarray()))


@BOTH
def test_every_part_of_prediction(X):
    model = SVC(C=3.0, predict_dtype="float32").fit(X, labels(X, 3))
    double = clone(model).set_params(predict_dtype="float64").fit(X, labels(X, 3))
    np.testing.assert_array_equal(model.predict(X[:40]), double.predict(X[:40].toarray()))
    assert model.score(X, labels(X, 3)) > 0.8
    assert SVDD(nu=0.2).fit(X).score_samples(X.tocsc()).shape == (X.shape[0],)
    assert model.predict(X[:1]).shape == (1,)
    with pytest.raises(ValueError, match="features"):
        model.predict(X[:, :-1])
    broken = X.copy()
    broken.data[0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.predict(broken)


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr"])
def test_every_sparse_format_leaves_the_callers_arrays_unchanged(form, index):
    X, y = WORDS.asformat(form), labels(WORDS)
    for name in ("indices", "indptr"):
        if form in ("csr", "csc", "bsr"):
            setattr(X, name, getattr(X, name).astype(index))
    arrays = [getattr(X, name) for name in ("data", "indices", "indptr") if isinstance(getattr(X, name, 0), np.ndarray)]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    model = SVC().fit(X, y)
    np.testing.assert_array_equal(model.decision_function(WORDS), SVC().fit(WORDS, y).decision_function(WORDS))
    for array, was in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, was)


def test_frames_of_sparse_columns():
    frame = pd.DataFrame.sparse.from_spmatrix(TABLE)
    model = SVC().fit(frame, labels(TABLE))
    np.testing.assert_array_equal(
        model.decision_function(frame), SVC().fit(TABLE, labels(TABLE)).decision_function(TABLE)
    )
    assert model.support_vectors_.format == "csr"


def test_the_model_keeps_nothing_of_the_callers():
    X, y = WORDS.copy(), labels(WORDS)
    model = SVC(kernel="linear").fit(X, y)
    before = model.decision_function(WORDS), model.coef_.toarray()
    X.data[:] = 0.0
    np.testing.assert_array_equal(model.decision_function(WORDS), before[0])
    np.testing.assert_array_equal(model.coef_.toarray(), before[1])
    assert not np.shares_memory(model.support_vectors_.data, X.data)


@BOTH
@pytest.mark.parametrize("loss", [SVC(), SVDD(), SVR()], ids=str)
def test_sparse_precomputed_kernels_are_refused(X, loss):
    K = X @ X.T
    target = [] if isinstance(loss, SVDD) else [labels(X)]
    with pytest.raises(TypeError, match=r"Sparse precomputed kernels are not supported, .* use X.toarray\(\)"):
        loss.set_params(kernel="precomputed").fit(K, *target)
    loss.fit(K.toarray(), *target)
    with pytest.raises(TypeError, match="Sparse precomputed"):
        loss.predict(K)
    loss.set_params(kernel="rbf")


@BOTH
def test_a_callable_is_given_csr(X):
    seen = set()

    def kernel(A, B):
        seen.add((A.format, B.format))
        return A @ B.T

    y = labels(X)
    model, expected = SVC(kernel=kernel, **TIGHT).fit(X, y), SVC(kernel="linear", **TIGHT).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X.toarray()), expected.decision_function(X), rtol=0, atol=1e-6)
    assert seen == {("csr", "csr")}
    assert model.support_vectors_.format == "csr"


def test_a_refit_on_other_data_and_a_fit_that_fails():
    model = SVC().fit(WORDS, labels(WORDS))
    with pytest.raises(ProblemError):
        model.set_params(gamma=-1.0).fit(TABLE.toarray(), labels(TABLE))
    assert model.support_vectors_.format == "csr"
    assert model.dual_coef_.format == "csr"
    model.set_params(gamma="scale").fit(TABLE.toarray(), labels(TABLE))
    assert type(model.support_vectors_) is type(model.dual_coef_) is np.ndarray
    model.fit(TABLE, labels(TABLE))
    assert model.support_vectors_.format == "csr"


def test_pickles_clones_and_the_tools_of_scikit_learn():
    y = labels(WORDS)
    model = SVC(C=3.0).fit(WORDS, y)
    again = pickle.loads(pickle.dumps(model.keep_training_data()))
    np.testing.assert_array_equal(again.decision_function(WORDS), model.decision_function(WORDS))
    assert isinstance(again.solution_.problem.gram.X, SparsePoints)
    line = make_pipeline(MaxAbsScaler(), SVC(C=3.0))
    theirs = make_pipeline(MaxAbsScaler(), svm.SVC(C=3.0))
    agree = cross_val_predict(line, WORDS, y, cv=3) == cross_val_predict(theirs, WORDS, y, cv=3)
    assert agree.mean() > 0.98


def test_two_points_duplicates_and_empty_rows():
    two = WORDS[[0, 1]]
    assert SVC().fit(two, [0, 1]).predict(two).tolist() == [0, 1]
    doubled = scipy.sparse.vstack([WORDS, WORDS, scipy.sparse.csr_matrix((5, 4000))], format="csr")
    y = np.append(np.tile(labels(WORDS), 2), [0, 1, 0, 1, 1])  # contradicting ones, too
    one, other = (SVC(C=2.0, **TIGHT).fit(X, y) for X in (doubled, doubled.toarray()))
    assert one.certificate_.relative_gap <= 1e-9
    np.testing.assert_allclose(
        one.decision_function(doubled), other.decision_function(doubled.toarray()), rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("scale", [1e-150, 1e-9, 1e9, 1e150])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_scales(scale, kernel):
    y = labels(WORDS)
    C = 1.0 if kernel == "rbf" else min(1.0 / scale**2, 1e300)
    one = SVC(kernel=kernel, C=C).fit(WORDS * scale, y)
    other = SVC(kernel=kernel, C=C).fit(WORDS.toarray() * scale, y)
    np.testing.assert_allclose(
        one.decision_function(WORDS * scale), other.decision_function(WORDS.toarray() * scale), atol=1e-6
    )


@pytest.mark.parametrize("solver", ["working-set", "smo", "cvxopt", "gradient-flow", "lotka-volterra"])
def test_every_kind_of_solver_takes_sparse_problems(solver):
    loss = {"loss": "squared_hinge"} if solver == "lotka-volterra" else {}
    few, y = WORDS[:60], labels(WORDS)[:60]
    one, other = (SVC(solver=solver, **loss, random_state=0).fit(X, y) for X in (few, few.toarray()))
    assert one.certificate_.relative_gap <= 1e-6
    np.testing.assert_allclose(one.decision_function(few), other.decision_function(few.toarray()), rtol=0, atol=1e-5)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_many_free_variables_are_refined_without_a_factor(kernel, monkeypatch):
    X = scipy.sparse.random(1200, 3000, density=0.003, format="csr", random_state=0)
    y = np.where(np.random.default_rng(0).random(1200) < 0.5, 1, -1)
    monkeypatch.setattr(linear_systems, "MIN_N_CONJUGATE", 100)
    monkeypatch.setattr("dualflow.refinement.active_set.FreeSystem", None)  # none is made
    model = SVC(kernel=kernel).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-9


# --- files -----------------------------------------------------------------------------------------


def damaged(path, change):
    header, arrays = container.read(path, 1 << 32)
    arrays = {name: array.copy() for name, array in arrays.items()}
    change(header, arrays)
    container.write(path, header, arrays)


def set_entry(name, place, value):
    def change(header, arrays):
        arrays[name][place] = value

    return change


def set_fact(name, value):
    def change(header, arrays):
        facts = decode({"facts": header["facts"]})["facts"]
        facts["gram"][name] = value
        header["facts"] = encode(facts, "the model")

    return change


def swap_two(header, arrays):
    """The same points, of which one is in another form."""
    for name in ("gram.X.data", "gram.X.indices"):
        arrays[name][[0, 1]] = arrays[name][[1, 0]]


DAMAGE = {
    "not sorted": swap_two,
    "a column that is none": set_entry("gram.X.indices", 3, 4000),
    "a column below 0": set_entry("gram.X.indices", 0, -1),
    "rows that go back": set_entry("gram.X.indptr", 5, 0),
    "rows beyond the end": set_entry("gram.X.indptr", -1, 10**6),
    "a zero": set_entry("gram.X.data", 0, 0.0),
    "infinity": set_entry("gram.X.data", 0, np.inf),
    "another number": set_entry("gram.X.data", 0, 5.0),
    "another width": set_fact("width", 4001),
    "no width": set_fact("width", -1),
    "a width of text": set_fact("width", "4000"),
    "came dense": set_fact("came_sparse", False),
    "came somehow": set_fact("came_sparse", "yes"),
    "fewer numbers": lambda header, arrays: arrays.__setitem__("gram.X.data", arrays["gram.X.data"][:-1]),
    "other indices": lambda header, arrays: arrays.__setitem__(
        "gram.X.indices", arrays["gram.X.indices"].astype(np.int64)
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_file_whose_points_were_tampered_with_is_refused(damage, tmp_path):
    path = tmp_path / "model.dualflow"
    SVC(random_state=0).fit(WORDS, labels(WORDS)).save(path)
    assert load(path).support_vectors_.format == "csr"
    damaged(path, DAMAGE[damage])
    with pytest.raises(ProblemError, match="not sorted" if damage == "not sorted" else "no sound model"):
        load(path)


def test_a_file_holds_no_zeros(tmp_path):
    SVC(random_state=0).fit(WORDS, labels(WORDS)).save(tmp_path / "sparse")
    SVC(random_state=0).fit(WORDS.toarray(), labels(WORDS)).save(tmp_path / "dense")
    assert (tmp_path / "sparse").stat().st_size < 0.05 * (tmp_path / "dense").stat().st_size


def test_checkpoints_of_sparse_problems_are_resumed(tmp_path):
    problem = dualflow.problems.svc(dualflow.Gram(WORDS), np.where(labels(WORDS), 1, -1))
    path = tmp_path / "run"
    dualflow.solve(problem, "smo", max_steps=2, checkpoint=path)
    whole = dualflow.solve(problem, "smo", checkpoint=path)
    assert whole.certificate.relative_gap <= 1e-6


@pytest.mark.parametrize("model", ["SVC", "SVR", "SVDD", "OneClassSVM"])
@pytest.mark.parametrize("columns", ["words", "a column that all points store"])
def test_a_linear_kernel_predicts_by_the_weights_of_the_features(model, columns, monkeypatch):
    X = WORDS
    if columns != "words":
        X = scipy.sparse.hstack([X, np.full((X.shape[0], 1), 300.0)], format="csr")
    kind = getattr(dualflow, model)
    y = {"SVC": [labels(WORDS, 3)], "SVR": [np.asarray(WORDS.sum(axis=1)).ravel()]}.get(model, [])
    one = kind(kernel="linear").fit(X, *y)
    ask = "predict" if model == "SVR" else "decision_function"
    values = getattr(one, ask)(X)
    gram = one._support_gram
    by_kernel = gram.expand(X, np.arange(len(one.support_)), one._weights)
    np.testing.assert_allclose(one._expansion(X), by_kernel, rtol=0, atol=1e-9 * (1.0 + np.abs(by_kernel).max()))
    monkeypatch.setattr(type(gram), "expand", None)  # no kernel value is computed
    for new in (X, X.tocsc(), X.tocoo(), X.toarray()):
        np.testing.assert_allclose(getattr(one, ask)(new), values, rtol=1e-12, atol=1e-12)
    assert getattr(one, ask)(X[:1]).shape == values[:1].shape


@pytest.mark.parametrize("model", ["SVC", "classes", "SVR", "OneClassSVM"])
def test_certified_weights_of_the_features_predict_sparse_points_too(model, tmp_path):
    """Columns of scales 1e-6 to 1e6: no coefficients in float64 give the weights that are certified."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4)) * 10.0 ** np.array([-6, -3, 3, 6])
    X[:, 1] += 10.0
    X *= rng.random(X.shape) < 0.4
    X[:, 1] = np.where(X[:, 1] == 0, 1e-3, X[:, 1])
    z = X / X.std(axis=0) @ rng.normal(size=4)
    y = {"SVC": [z > 0], "classes": [(z > 0).astype(int) + (X[:, 3] > 0)], "SVR": [z]}.get(model, [])
    kind = getattr(dualflow, "SVC" if model == "classes" else model)
    X = scipy.sparse.csr_array(X)
    one = kind(kernel="linear").fit(X, *y)
    certificates = [solution.certificate for solution in one.solutions_]
    assert any(each.primal is not None for each in certificates)
    coef = one.coef_.toarray()
    for certificate, w in zip(certificates, coef, strict=True):
        if certificate.primal is not None:
            np.testing.assert_allclose(w, certificate.primal * (0.5 * 2000 if model == "OneClassSVM" else 1.0))
    if model != "classes":
        ask = "predict" if model == "SVR" else "decision_function"
        by_hand = X @ coef[0] + one.intercept_[0]
        np.testing.assert_allclose(getattr(one, ask)(X), by_hand, rtol=1e-9, atol=1e-9 * np.abs(by_hand).max())
    one.save(tmp_path / "model")
    for other in (load(tmp_path / "model"), pickle.loads(pickle.dumps(one))):
        np.testing.assert_array_equal(other.predict(X), one.predict(X))
        np.testing.assert_array_equal(other.coef_.toarray(), coef)
