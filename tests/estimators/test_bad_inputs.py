"""Every hostile input works, raises an error that names the argument, or warns."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import make_blobs
from sklearn.exceptions import ConvergenceWarning, DataConversionWarning, NotFittedError

import dualflow
from dualflow import (
    LSSVR,
    SVC,
    SVDD,
    SVR,
    EcoSVC,
    EcoSVDD,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    NuSVR,
    ProblemError,
    QuantileSVR,
    SolverMismatch,
)
from dualflow.estimators import FitError

X, Y = make_blobs(24, centers=2, n_features=3, cluster_std=2.0, random_state=4)
BOTH = pytest.mark.parametrize("estimator", [SVC(), SVDD(), SVC(loss="squared_hinge")], ids=str)


def with_entry(value, dtype=float):
    changed = X.astype(dtype)
    changed[3, 1] = value
    return changed


def sound(model, Z=X):
    """Whether a fitted model is finite throughout and predicts finitely."""
    parts = [model.dual_coef_, model.decision_function(Z)]
    parts.append(model.intercept_ if isinstance(model, SVC) else np.array([model.radius_, model.offset_]))
    return all(np.isfinite(part).all() for part in parts)


# --- X ---------------------------------------------------------------------------------------------

BAD_X = {
    "nan": (with_entry(np.nan), "NaN"),
    "inf": (with_entry(np.inf), "infinity"),
    "complex": (X.astype(complex), "[Cc]omplex"),
    "numeric strings": (X.astype(str), "X .*numbers"),
    "numeric strings in a list": (X.astype(str).tolist(), "X .*numbers"),
    "text": (with_entry("red", object), "X holds text"),
    "dates": (X.astype("M8[s]"), "X holds dates"),
    "durations": (X.astype("m8[s]"), "X holds dates, times or durations"),
    "a column of dates": (pd.DataFrame(X).assign(t=pd.Timestamp("2026")), "X holds dates.* in column 't'"),
    "a column of dates with a zone": (
        pd.DataFrame(X).assign(t=pd.Timestamp("2026", tz="UTC")),
        "dates.* in column 't'",
    ),
    "a column of durations": (pd.DataFrame(X).assign(t=pd.Timedelta("1h")), "durations in column 't'"),
    "a column of periods": (pd.DataFrame(X).assign(t=pd.Period("2026-11")), "X holds dates.* in column 't'"),
    "a column of Python's dates": (pd.DataFrame(X).assign(t=datetime.date(2026, 11, 26)), "dates.* in column 't'"),
    "masked": (np.ma.masked_array(X, mask=X > 3), "X is a masked array"),
    "pandas NA": (pd.DataFrame(X).astype("Float64").mask(X > 3), "NaN|NA"),
    "no rows": (np.empty((0, 3)), "0 sample"),
    "no features": (np.empty((24, 0)), "0 feature"),
    "1-d": (X[:, 0], "1D array"),
    "3-d": (X[:, :, None], "dim 3"),
    "one sample": (X[:1], "1 sample"),
    "ragged": ([[1.0, 2.0], [1.0]] * 12, "X .*equally long"),
    "rbf squares overflow": (with_entry(1e308) * [[1, 1, 1]], "X.*scale"),
}


@BOTH
@pytest.mark.parametrize("case", BAD_X)
def test_bad_X_is_an_error_that_says_what_is_wrong(estimator, case):
    data, message = BAD_X[case]
    with pytest.raises((ValueError, TypeError), match=message):
        estimator.fit(data, Y[: len(data)])


@BOTH
@pytest.mark.parametrize("value", [datetime.date(2026, 11, 26), datetime.timedelta(1), datetime.time(12)], ids=str)
def test_dates_of_polars_are_not_read_as_numbers(estimator, value):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": X[:, 0], "t": [value] * len(X)})
    with pytest.raises(ProblemError, match=r"X holds dates, times or durations in column 't'; numbers are needed"):
        estimator.fit(frame, Y)


DAYS = [datetime.date(2026, 11, 1) + datetime.timedelta(k) for k in range(len(X))]


@pytest.mark.parametrize("make", [SVR, LSSVR, NuSVR, QuantileSVR, IncrementalSVR], ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "days",
    [DAYS, np.array(DAYS, "M8[D]"), pd.Series(pd.to_datetime(DAYS)), pd.Series(DAYS)],
    ids=lambda y: type(y).__name__,
)
def test_dates_are_no_numbers_to_learn(make, days):
    with pytest.raises(ProblemError, match="y holds dates, times or durations; numbers are needed"):
        make().fit(X, days)


@BOTH
def test_linear_overflow_is_an_error(estimator):
    with pytest.raises(ProblemError, match=r"X: .*scale the features"):
        estimator.__class__(kernel="linear").fit(with_entry(1e200), Y)


@BOTH
@pytest.mark.parametrize("layout", [scipy.sparse.csr_matrix, scipy.sparse.coo_array])
def test_sparse_is_a_type_error_naming_sparse_where_it_is_not_taken(estimator, layout):
    with pytest.raises(TypeError, match=r"X is sparse.*toarray"):
        estimator.__class__(kernel="precomputed").fit(layout(X @ X.T), Y)


@pytest.mark.parametrize(
    "estimator", [EcoSVC(), EcoSVDD(), IncrementalSVC(), IncrementalSVDD(), IncrementalSVR()], ids=str
)
def test_streams_name_sparse_and_the_way_out(estimator):
    with pytest.raises(TypeError, match=r"X is sparse; .* needs dense data, use X.toarray\(\), or SVC"):
        estimator.partial_fit(scipy.sparse.csr_array(X), Y)


GOOD_X = {
    "tiny": X * 1e-310,
    "bool": X > 0,
    "float16": X.astype(np.float16),
    "int8": X.round().astype(np.int8),
    "constant feature": np.column_stack([X, np.full(24, 7.0)]),
    "all constant": np.full((24, 3), 2.5),
    "scales": X * [1e-9, 1.0, 1e9],
    "wide": np.random.default_rng(0).normal(size=(24, 2000)),
    "identical rows": np.repeat(X[:6], 4, axis=0),
    "two samples": X[[0, 1]],
}


@BOTH
@pytest.mark.parametrize("case", GOOD_X)
def test_unusual_X_works(estimator, case):
    data = GOOD_X[case]
    before = data.copy()
    labels = np.arange(len(data)) % 2 if case in ("identical rows", "two samples") else Y
    model = estimator.fit(data, labels)
    assert sound(model, data)
    assert model.certificate_.relative_gap <= 1e-6
    np.testing.assert_array_equal(data, before)


@BOTH
def test_layout_of_X_changes_nothing(estimator):
    expected = estimator.fit(X, Y).decision_function(X)
    strided = np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2]
    locked = X.copy()
    locked.flags.writeable = False
    for data in (np.asfortranarray(X), strided, locked, X.tolist(), pd.DataFrame(X)):
        np.testing.assert_allclose(estimator.fit(data, Y).decision_function(data), expected, rtol=0, atol=1e-12)


# --- y ---------------------------------------------------------------------------------------------

BAD_Y = {
    "length": (Y[:-1], "inconsistent"),
    "single class": (np.zeros(24), "y holds a single class"),
    "nan": (np.where(Y == 0, np.nan, 1.0), "y contains NaN"),
    "continuous": (X[:, 0], "continuous"),
    "multilabel": (np.column_stack([Y, 1 - Y]), "y should be a 1d array"),
    "none": (None, "y"),
    "mixed list": ([1, "a"] * 12, "y mixes text"),
    "mixed objects": (np.array([1, "a"] * 12, dtype=object), "y mixes text"),
    "missing among text": (np.array(["a", np.nan] * 12, dtype=object), "y mixes text"),
    "masked": (np.ma.masked_array(Y, mask=Y == 2), "y is a masked array"),
}


@pytest.mark.parametrize("case", BAD_Y)
def test_bad_y_is_an_error(case):
    labels, message = BAD_Y[case]
    with pytest.raises(ValueError, match=message):
        SVC().fit(X, labels)


def test_y_as_a_column_warns():
    with pytest.warns(DataConversionWarning):
        model = SVC().fit(X, Y[:, None])
    np.testing.assert_array_equal(model.predict(X), SVC().fit(X, Y).predict(X))


@pytest.mark.parametrize(
    "labels", [np.array(["no", "yes"]), np.array([-1, 1]), np.array([1, 2]), np.array([False, True])], ids=repr
)
def test_labels_come_back_as_they_went_in(labels):
    model = SVC().fit(X, labels[Y])
    assert model.predict(X).dtype == labels.dtype
    np.testing.assert_array_equal(model.predict(X), labels[SVC().fit(X, Y).predict(X)])


def test_class_of_one_member_works():
    labels = np.zeros(24, dtype=int)
    labels[5] = 1
    model = SVC(C=100.0).fit(X, labels)
    assert sound(model)
    assert model.predict(X[5:6])[0] == 1


def test_contradicting_duplicates_work():
    model = SVC(C=10.0).fit(np.vstack([X, X]), np.concatenate([Y, 1 - Y]))
    assert sound(model)
    assert model.fit_status_ == 0
    np.testing.assert_allclose(model.decision_function(X), 0.0, atol=1e-9)


# --- parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"C": C}, "C=") for C in (0, -1.0, np.nan, "1")]
    + [({"gamma": gamma}, "gamma") for gamma in (-1.0, np.nan, "foo")]
    + [({"tol": tol}, "tol=") for tol in (0, -1e-3, np.nan)]
    + [({"max_steps": steps}, "max_steps=") for steps in (0, -5, 2.5)]
    + [
        ({"time_limit": 0}, "time_limit="),
        ({"kernel": "rfb"}, "did you mean 'rbf'"),
        ({"kernel": "gaussian"}, "did you mean 'rbf'"),
        ({"kernel": "Polynomial"}, "did you mean 'poly'"),
        ({"solver": "cvxop"}, "did you mean 'cvxopt'"),
        ({"loss": "log"}, "loss="),
        ({"decision_function_shape": "ovx"}, "decision_function_shape="),
        ({"class_weight": {0: 1.0, 7: 2.0}}, "class_weight names .7."),
        ({"class_weight": {0: -1.0}}, "class_weight must be"),
        ({"class_weight": "even"}, "class_weight"),
    ],
    ids=str,
)
def test_bad_parameters_of_svc(parameters, message):
    with pytest.raises(ValueError, match=message):
        SVC(**parameters).fit(X, Y)


@pytest.mark.parametrize("nu", [0, -0.5, 1.5, np.nan, True])
def test_bad_nu(nu):
    with pytest.raises(ProblemError, match="nu="):
        SVDD(nu=nu).fit(X)


@BOTH
def test_unknown_solver_lists_the_names(estimator):
    with pytest.raises(SolverMismatch, match=r"smo, .*cvxopt"):
        type(estimator)(solver="none of them").fit(X, Y)


@BOTH
def test_unknown_solver_option_is_a_type_error_with_the_near_miss(estimator):
    with pytest.raises(TypeError, match="did you mean 'kkt_tol'"):
        type(estimator)(solver="smo", solver_options={"kkt_tool": 1}).fit(X, Y)


def test_options_next_to_an_instance_are_a_type_error():
    with pytest.raises(TypeError, match="instance"):
        SVC(solver=dualflow.SMO(), solver_options={"kkt_tol": 1e-3}).fit(X, Y)


@pytest.mark.parametrize("refine", [True, False])
def test_one_step_warns(refine):
    rough = np.random.default_rng(1).normal(size=(150, 2))
    labels = (rough[:, 0] * rough[:, 1] > 0).astype(int)
    labels[::7] = 1 - labels[::7]
    with pytest.warns(ConvergenceWarning, match="gap"):
        model = SVC(C=1000.0, solver="smo", max_steps=1, refine=refine).fit(rough, labels)
    assert sound(model, rough)
    assert model.fit_status_ == int(not refine)
    assert model.n_iter_.tolist() == [1]


def test_tiny_time_limit_still_gives_a_model():
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = SVC(time_limit=1e-9).fit(X, Y)
    assert sound(model)
    assert model.fit_status_ == 1


@pytest.mark.parametrize("C", [1e8, 1e12])
@pytest.mark.timeout(60)
def test_huge_C_on_noisy_data_ends(C):
    noisy = np.random.default_rng(2).normal(size=(60, 2))
    labels = np.arange(60) % 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SVC(C=C, kernel="linear", max_steps=20).fit(noisy, labels)
    assert sound(model, noisy)
    assert model.fit_status_ == 0 or any(w.category is ConvergenceWarning for w in caught)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.timeout(60)
def test_hard_margin_of_inseparable_data_is_an_error_with_a_witness(loss, fit_intercept):
    data = np.vstack([X, X[:2]])
    labels = np.concatenate([Y, 1 - Y[:2]])
    with pytest.raises(ProblemError, match="C=inf") as caught:
        SVC(C=np.inf, loss=loss, fit_intercept=fit_intercept).fit(data, labels)
    assert isinstance(caught.value, FitError)
    solution = caught.value.solution
    v, signs = solution.witness, solution.problem.sigma
    assert solution.status is dualflow.Status.NOT_SEPARABLE
    assert v.min() >= 0
    assert v.sum() == pytest.approx(1.0)
    K = solution.problem.gram.full() + solution.problem.offset
    assert (signs * v) @ K @ (signs * v) < 1e-10
    if fit_intercept:
        # (yᵀv)² ≤ vᵀQv where the intercept is in the kernel, K + 1; exact where it is an equality.
        assert signs @ v == pytest.approx(0.0, abs=1e-12 if loss == "hinge" else 1e-6)


def test_gamma_extremes_work():
    assert sound(SVC(gamma=1e300).fit(X, Y))
    assert sound(SVDD(gamma=1e300).fit(X))
    assert sound(SVC(gamma=0.0).fit(X, Y))


def test_nu_of_one_works():
    model = SVDD(nu=1.0).fit(X)
    assert sound(model)
    np.testing.assert_allclose(model.dual_coef_, 1 / 24, atol=1e-12)


# --- kernels ---------------------------------------------------------------------------------------

GRAM = X @ X.T


@BOTH
@pytest.mark.parametrize(
    ("K", "message"),
    [
        (GRAM[:, :5], "square"),
        (np.where(np.eye(24) > 0, np.nan, GRAM), "NaN"),
        (GRAM + np.triu(np.full((24, 24), 100.0)), "symmetric"),
    ],
    ids=["not square", "nan", "asymmetric"],
)
def test_bad_precomputed_kernels(estimator, K, message):
    with pytest.raises(ValueError, match=message):
        type(estimator)(kernel="precomputed").fit(K, Y)


@BOTH
def test_slightly_asymmetric_kernel_is_symmetrised_with_a_warning(estimator):
    with pytest.warns(UserWarning, match="symmetric"):
        model = type(estimator)(kernel="precomputed").fit(GRAM + np.triu(np.full((24, 24), 1e-3)), Y)
    assert sound(model, GRAM) if isinstance(model, SVC) else np.isfinite(model.radius_)


@BOTH
@pytest.mark.parametrize(
    ("kernel", "error", "message"),
    [
        (lambda A, B: np.ones(3), ProblemError, "kernel: the callable returned shape"),
        (lambda A, B: np.full((len(A), len(B)), np.nan), ProblemError, "kernel: the callable returned NaN"),
        (lambda A, B: np.outer(A[:, 0], B[:, 1]), ProblemError, "not symmetric"),
        (lambda A, B: 1 / 0, ZeroDivisionError, "division"),
    ],
    ids=["shape", "nan", "asymmetric", "raises"],
)
def test_bad_callables(estimator, kernel, error, message):
    with pytest.raises(error, match=message):
        type(estimator)(kernel=kernel).fit(X, Y)


@pytest.mark.parametrize("K", [-np.eye(24), GRAM - 40 * np.eye(24)], ids=["-I", "shifted down"])
@pytest.mark.parametrize("estimator", [SVC(kernel="precomputed"), SVDD(kernel="precomputed")], ids=str)
@pytest.mark.timeout(60)
def test_indefinite_kernel_warns_and_withholds_the_certificate(estimator, K):
    with pytest.warns(ConvergenceWarning, match=r"kernel: .*indefinite.*certificate is withheld"):
        model = estimator.fit(K, Y)
    assert sound(model, K)
    assert model.certificate_.gap is None
    assert model.fit_status_ == 1


@pytest.mark.timeout(60)
def test_indefinite_sigmoid_of_the_squared_hinge_ends():
    with pytest.warns(ConvergenceWarning, match="indefinite"):
        model = SVC(kernel="sigmoid", gamma=2.0, coef0=-1.0, loss="squared_hinge", C=1e6).fit(X, Y)
    assert sound(model)


def test_hard_margin_with_an_indefinite_kernel_is_an_error():
    with pytest.raises(ProblemError, match=r"C=inf: the kernel is indefinite"):
        SVC(C=np.inf, kernel="precomputed").fit(GRAM - 40 * np.eye(24), Y)


@BOTH
def test_zero_kernel_works(estimator):
    model = type(estimator)(kernel="precomputed").fit(np.zeros((24, 24)), Y)
    assert sound(model, np.zeros((24, 24)))


# --- weights ---------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.full(24, -1.0), "sample_weight: .* all samples have zero or negative weights"),
        (np.zeros(24), "sample_weight: .* all samples have zero or negative weights"),
        (np.where(Y == 0, np.nan, 1.0), "sample_weight.*NaN"),
        (np.ones(5), "sample_weight"),
        (np.ones((24, 2)), "[Ss]ample.weight"),
    ],
    ids=["negative", "zero", "nan", "length", "2-d"],
)
def test_bad_weights(estimator, weight, message):
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, Y, sample_weight=weight)


def test_no_weight_for_a_class_is_an_error():
    with pytest.raises(ProblemError, match="sample_weight, class_weight: no point of class"):
        SVC().fit(X, Y, sample_weight=(Y == 0).astype(float))
    with pytest.raises(ProblemError, match="sample_weight, class_weight: no point of class"):
        SVC(class_weight={1: 0.0}).fit(X, Y)


# --- prediction ------------------------------------------------------------------------------------


@BOTH
def test_bad_input_to_predict(estimator):
    fresh = type(estimator)()
    for method in ("predict", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(fresh, method)(X)
    model = estimator.fit(X, Y)
    for data, message in [
        (X[:, :2], "2 features"),
        (with_entry(np.nan), "NaN"),
        (X[0], "1D array"),
        (X.astype(str), "X .*numbers"),
        (np.ma.masked_array(X, mask=X > 3), "masked"),
    ]:
        for method in ("predict", "decision_function"):
            with pytest.raises(ValueError, match=message):
                getattr(model, method)(data)


@BOTH
def test_renamed_or_reordered_columns_are_an_error(estimator):
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = estimator.fit(frame, Y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    for columns in (["c", "b", "a"], ["a", "b", "d"]):
        other = frame[columns] if set(columns) == {"a", "b", "c"} else frame.set_axis(columns, axis=1)
        with pytest.raises(ValueError, match="feature names should match"):
            model.predict(other)


@BOTH
def test_far_away_points_and_refits(estimator):
    model = estimator.fit(X, Y)
    assert np.isfinite(model.decision_function(X + 1e9)).all()
    assert np.isfinite(model.decision_function(X + 1e300)).all()
    assert sound(model.fit(X[:, :1], Y), X[:, :1])


@BOTH
def test_overflowing_new_points_are_an_error(estimator):
    model = type(estimator)(kernel="poly").fit(X, Y)
    with pytest.raises(ProblemError, match=r"X: .*overflows"):
        model.predict(X * 1e200)


def test_a_wide_gap_far_from_the_origin_is_explained():
    """A polynomial kernel cannot distinguish points far from the origin: the digits are lost."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    with pytest.warns(ConvergenceWarning, match=r"times as far from the origin .* centre the features"):
        SVC(kernel="poly", gamma=1.0, C=100.0).fit(X + 1e6, y)
    with pytest.warns(ConvergenceWarning, match="Raise max_steps"):
        SVC(kernel="poly", gamma=1.0, C=100.0, max_steps=1, refine=False, solver="smo").fit(X, y)
