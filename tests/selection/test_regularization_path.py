"""The exact paths along C and ε against CVXOPT, against fits, and against a path by hand."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_blobs, make_classification, make_moons

from dualflow import SVC, SVR, NuSVC, ProblemError, generalization_report, regularization_path, solve
from dualflow.online import linear_term_path

RNG = np.random.default_rng(3)
MOONS, SIDE = make_moons(90, noise=0.3, random_state=1)
VALUES = np.sin(2 * MOONS[:, 0]) + 0.2 * RNG.normal(size=90)
IRIS, SPECIES = load_iris(return_X_y=True)


def table(name):
    """Return points and two classes."""
    if name == "iris":
        return IRIS[50:], SPECIES[50:]
    if name in ("wine", "cells"):
        X, y = (load_wine if name == "wine" else load_breast_cancer)(return_X_y=True)
        X = (X - X.mean(0)) / X.std(0)
        return X[y < 2][:120], y[y < 2][:120]
    if name == "repeats":
        X = RNG.integers(0, 2, size=(80, 4)).astype(float)
        return X, (X.sum(1) + RNG.normal(size=80) > 2).astype(int)
    if name == "blobs":
        return make_blobs(70, centers=2, cluster_std=1.5, random_state=4)
    if name == "unequal":
        return make_classification(100, 5, weights=[0.85], random_state=5)
    if name == "separable":
        return make_blobs(50, centers=[[-3, 0], [3, 0]], random_state=6)
    if name == "noise":
        return RNG.normal(size=(60, 10)), RNG.integers(0, 2, 60)
    return make_moons(90, noise=0.3, random_state=1) if name == "moons" else make_classification(90, 6, random_state=2)


TABLES = ["moons", "classes", "iris", "wine", "cells", "repeats", "blobs", "unequal", "separable", "noise"]


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("name", TABLES)
def test_it_is_the_optimum_at_any_value_of_c(name, kernel):
    X, y = table(name)
    path = regularization_path(SVC(kernel=kernel), X, y, C=(0.01, 1000.0))
    assert path.is_exact.all()
    assert (np.diff(path.values) >= 0).all()
    assert path.values[[0, -1]].tolist() == [0.01, 1000.0]
    assert path.relative_gaps().max() <= 1e-9
    assert path.relative_gaps(0.5 * (path.values[1:] + path.values[:-1])).max() <= 1e-9
    assert_optimal(path, 5)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("name", TABLES)
def test_it_is_the_optimum_at_fifty_values_of_c(name, kernel):
    assert_optimal(regularization_path(SVC(kernel=kernel), *table(name), C=(0.01, 1000.0)), 50)


def assert_optimal(path, count):
    """Compare a path along C with CVXOPT at random C."""
    for C in np.exp(np.random.default_rng(0).uniform(np.log(0.01), np.log(1000.0), count)):
        certificate = path.certificate(C)
        assert certificate.reaches(1e-9)
        reference = solve(path.problem(C), "cvxopt", tol=1e-10).certificate.objective
        assert certificate.objective == pytest.approx(reference, rel=1e-7)


@pytest.mark.parametrize("parameter", ["C", "epsilon"])
@pytest.mark.parametrize("kernel", [{"kernel": "rbf", "gamma": 0.5}, {"kernel": "linear"}])
def test_paths_of_regressions(parameter, kernel):
    span = (0.01, 100.0) if parameter == "C" else (0.0, 1.5)
    path = regularization_path(SVR(**kernel), MOONS, VALUES, **{parameter: span})
    middles = 0.5 * (path.values[1:] + path.values[:-1])[path.n_support[:-1] > 0]
    assert path.relative_gaps(middles).max() <= 1e-8
    # Where all residuals are within the tube f is 0, and the gap is round-off of any relative size.
    assert path.relative_gaps(path.values[path.n_support > 0]).max() <= 1e-9
    assert all(path.certificate(value).gap <= 1e-12 for value in path.values[path.n_support == 0])
    for share in (0.1, 0.5, 0.9):
        value = span[0] + share * (span[1] - span[0])
        reference = solve(path.problem(value), "cvxopt", tol=1e-10).certificate.objective
        assert path.certificate(value).objective == pytest.approx(reference, rel=1e-7, abs=1e-9)
        model = SVR(tol=1e-11, **kernel, **{parameter: value}).fit(MOONS, VALUES)
        np.testing.assert_allclose(path.predict(MOONS, value), model.predict(MOONS), atol=1e-5)


def test_a_path_by_hand():
    # The points 0, 1 | 2, 3. With all at C, w = C(2 + 3 − 0 − 1) = 4C. The outer two reach their margins, 1.5·w = 1, at
    # C = 1/6. Then the inner two alone hold w down: they have α = C and the outer share the rest until C = 2/3.
    # From C = 2 on w = 2 is the hard margin.
    path = regularization_path(SVC(kernel="linear"), [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], C=(0.01, 100))
    np.testing.assert_allclose(path.values, [0.01, 1 / 6, 2 / 3, 2.0, 100.0], rtol=1e-12)
    assert path.n_support.tolist() == [4, 4, 2, 2, 2]
    np.testing.assert_allclose(path.alpha(0.1), [0.1, 0.1, 0.1, 0.1], rtol=1e-12)
    np.testing.assert_allclose(path.alpha(1.0), [0.0, 1.0, 1.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(path.alpha(50.0), [0.0, 2.0, 2.0, 0.0], atol=1e-12)


def test_the_first_breakpoint_is_that_of_the_paper():
    # Hastie et al. (2004), section 3.1: of two classes of equal size all α are C until the outermost points of both are
    # at their margins, and 2/C is then the difference of Σⱼ yⱼ k(xᵢ, xⱼ) between them.
    f = np.exp(-0.5 * ((MOONS[:, None] - MOONS) ** 2).sum(-1)) @ (2.0 * SIDE - 1.0)
    path = regularization_path(SVC(gamma=0.5), MOONS, SIDE, C=(1e-4, 1.0))
    assert path.values[1] == pytest.approx(2.0 / (f[SIDE == 1].max() - f[SIDE == 0].min()), rel=1e-12)


@pytest.mark.parametrize(("name", "kernel"), [("iris", "linear"), ("unequal", "rbf"), ("moons", "rbf")])
def test_breakpoints_do_not_depend_on_where_a_path_starts(name, kernel):
    # The end of a section, where α is solved for anew, counted as a breakpoint in the first two tables.
    X, y = table(name)
    whole, *parts = (
        regularization_path(SVC(kernel=kernel), X, y, C=span).values[1:-1]
        for span in ((0.01, 1000.0), (0.01, 0.7), (0.7, 13.0), (13.0, 1000.0))
    )
    np.testing.assert_allclose(whole, np.concatenate(parts), rtol=1e-7)


def test_alpha_is_linear_between_breakpoints_and_not_across():
    path = regularization_path(SVC(gamma=0.5), MOONS, SIDE, C=(0.1, 10.0))
    bends = 0
    for k in range(1, len(path.values) - 1):
        before, here, after = path.values[k - 1 : k + 2]
        middle = 0.5 * (before + here)
        mean = 0.5 * (path.alpha(before) + path.alpha(here))
        np.testing.assert_allclose(path.alpha(middle), mean, atol=1e-9)
        share = (here - before) / (after - before)
        straight = (1 - share) * path.alpha(before) + share * path.alpha(after)
        bends += bool(np.abs(path.alpha(here) - straight).max() > 1e-9)
    assert bends > 0.8 * (len(path.values) - 2)


def test_predictions_and_errors_are_those_of_fits():
    path = regularization_path(SVC(gamma=0.5), MOONS, np.array(["left", "right"])[SIDE], C=(0.1, 10.0))
    for C in (0.1, 0.77, 10.0):
        model = SVC(gamma=0.5, C=C, tol=1e-11).fit(MOONS, np.array(["left", "right"])[SIDE])
        np.testing.assert_allclose(path.decision_function(MOONS, C), model.decision_function(MOONS), atol=1e-6)
        np.testing.assert_array_equal(path.predict(MOONS, C), model.predict(MOONS))
    assert path.leave_one_out_errors([0.77]) == [
        generalization_report(SVC(gamma=0.5, C=0.77).fit(MOONS, SIDE)).loo_error
    ]


def test_weights_intercepts_and_sparse_rows():
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 90)
    for options in ({"fit_intercept": False}, {"fit_intercept": "penalised"}, {"class_weight": {0: 1.0, 1: 3.0}}):
        path = regularization_path(SVC(gamma=0.5, **options), MOONS, SIDE, C=(0.1, 10.0), sample_weight=weight)
        assert path.relative_gaps().max() <= 1e-9
        model = SVC(gamma=0.5, C=2.0, tol=1e-11, **options).fit(MOONS, SIDE, weight)
        np.testing.assert_allclose(path.decision_function(MOONS, 2.0), model.decision_function(MOONS), atol=1e-6)
    path = regularization_path(SVC(gamma=0.5), scipy.sparse.csr_array(MOONS), SIDE, C=(0.1, 10.0))
    assert path.certificate(3.0).reaches(1e-9)
    dense = regularization_path(SVC(gamma=0.5), MOONS, SIDE, C=(0.1, 10.0))
    for new in (MOONS, scipy.sparse.csr_array(MOONS)):
        np.testing.assert_allclose(path.decision_function(new, 3.0), dense.decision_function(MOONS, 3.0), atol=1e-9)


@pytest.mark.parametrize("rows", [2, 3, 4, 5])
def test_the_log_of_a_path_grows(monkeypatch, rows):
    expected = regularization_path(SVC(gamma=0.5), MOONS, SIDE, C=(0.01, 100.0))
    monkeypatch.setattr(linear_term_path, "LOG_ROWS", rows)
    monkeypatch.setattr(linear_term_path, "LOG_NUMBERS", 0)
    path = regularization_path(SVC(gamma=0.5), MOONS, SIDE, C=(0.01, 100.0))
    np.testing.assert_allclose(path.values, expected.values, rtol=1e-9)
    assert path.is_exact.all()
    assert path.relative_gaps().max() <= 1e-12


def test_a_path_that_round_off_spoils_is_followed_anew_in_shorter_sections():
    # At C = 1e4 the inverse of the free variables' matrix loses its digits within a section: α was far from the
    # optimum, with a gap of 0.96, and the path called it exact.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    rng.normal(size=40)
    path = regularization_path(SVR(C=1e4), X, X[:, 0] + 0.1 * rng.normal(size=40), epsilon=(0.0, 1.0))
    exact = np.append(path.is_exact, True)[path.n_support > 0]
    gaps = path.relative_gaps(path.values[path.n_support > 0])
    assert gaps[exact].max() <= 1e-8
    assert path.is_exact.mean() > 0.9


def test_it_keeps_nothing_of_the_caller_and_takes_single_values():
    X, y = MOONS.copy(), SIDE.copy()
    path = regularization_path(SVC(), X, y, C=(0.1, 10.0))
    before = path.leave_one_out_errors(1.0).tolist(), path.relative_gaps(1.0).shape
    X[:], y[:] = 0.0, 0
    assert (path.leave_one_out_errors([1.0]).tolist(), path.relative_gaps([1.0]).shape) == before
    assert len(repr(path)) < 4000
    with pytest.raises(ValueError, match="1 features"):
        path.predict(MOONS[:, :1], 1.0)
    weighted = regularization_path(SVC(), MOONS, SIDE, C=(0.1, 10.0), sample_weight=np.full(90, 2.0))
    with pytest.raises(ProblemError, match="sample_weight"):
        weighted.leave_one_out_errors(1.0)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (NuSVC(), {"C": (1, 2)}, "NuSVC"),
        (SVC(), {}, "ends of one"),
        (SVC(), {"C": (1, 2), "epsilon": (1, 2)}, "ends of one"),
        (SVC(), {"epsilon": (1, 2)}, "epsilon"),
        (SVC(loss="squared_hinge"), {"C": (1, 2)}, "squared_hinge"),
        (SVC(), {"C": (2, 1)}, "ascending"),
        (SVC(), {"C": (0, 1)}, "C"),
        (SVC(), {"C": (1, np.inf)}, "C"),
        (SVC(), {"C": 3.0}, "two numbers"),
        (SVC(), {"C": (1e-300, 1e300)}, "apart"),
        (SVC(), {"C": (1, 2), "sample_weight": np.zeros(90)}, "sample_weight"),
        (SVC(), {"C": (1, 2), "sample_weight": np.full(90, "heavy")}, "sample_weight"),
        (SVR(), {"epsilon": (-1, 1)}, "epsilon"),
    ],
)
def test_bad_arguments_are_named(model, options, message):
    with pytest.raises(ProblemError, match=message):
        regularization_path(model, MOONS, SIDE, **options)


def test_values_beyond_the_path_and_several_classes_are_refused():
    path = regularization_path(SVC(), MOONS, SIDE, C=(0.1, 10.0))
    with pytest.raises(ProblemError, match="not on this path"):
        path.alpha(11.0)
    with pytest.raises(ProblemError, match="3 classes"):
        regularization_path(SVC(), IRIS, SPECIES, C=(0.1, 1.0))
