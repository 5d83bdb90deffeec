"""Two classes of a few thousand points are solved with the kernel rows they need: a run's results, and certificates of
kernel values computed again."""

import numpy as np
import pytest
from dualflow.core._pair_bound import certify_pair, project_pair
from sklearn.datasets import load_breast_cancer, make_classification, make_moons
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as LIBSVM

from dualflow import SVC, Gram, certify, problems
from dualflow.core.sparse_points import SparsePoints
from dualflow.direct import from_points
from dualflow.direct.from_points import PointPairs, expected_support, pair_from_points, suits_one_table, suits_points
from dualflow.direct.pairs import PairBatch
from dualflow.driver import solve as solve_module
from tests.thresholds import USUAL, fits_with, other

CANCER = load_breast_cancer(return_X_y=True)
SETS = {
    "cancer": (StandardScaler().fit_transform(CANCER[0]), CANCER[1]),
    "moons": make_moons(1500, noise=0.1, random_state=0),
    "repeated": (np.repeat(CANCER[0][:190, :5], 3, axis=0), np.repeat(CANCER[1][:190], 3)),
    "wide": make_classification(1100, 90, n_informative=8, class_sep=2.0, random_state=0),
    "overlap": make_classification(500, 8, flip_y=0.3, random_state=0),
    "uneven": (lambda X, y: (X[: 300 + y[300:].sum()], y[: 300 + y[300:].sum()]))(
        *make_moons(900, noise=0.3, random_state=1)
    ),
}


@pytest.fixture
def no_runs(monkeypatch):
    def refuse(*given, **options):
        raise AssertionError("a run was made")

    monkeypatch.setattr(solve_module, "Run", refuse)


@pytest.mark.parametrize("C", [0.5, 5.0, 300.0])
@pytest.mark.parametrize("name", SETS)
def test_the_answer_is_that_of_libsvm_and_the_certificate_that_of_a_fresh_look(name, C, no_runs):
    X, y = SETS[name]
    weight = np.random.default_rng(0).uniform(0.5, 2.0, len(X))
    model = SVC(C=C).fit(X, y, weight)
    tight = LIBSVM(C=C, tol=1e-10).fit(X, y, weight)
    lost = np.finfo(np.float32).eps * np.abs(model.dual_coef_).sum()  # theirs are float32
    np.testing.assert_allclose(model.decision_function(X), tight.decision_function(X), atol=1e-6 + 4 * lost)
    solution = model.solution_
    assert model.fit_status_ == 0
    assert not solution.refined
    assert solution.certificate.relative_gap <= 1e-11
    again = certify(solution.problem, solution.raw_alpha)
    np.testing.assert_array_equal(again.alpha, solution.certificate.alpha)
    assert again.objective == pytest.approx(solution.certificate.objective, rel=1e-12)
    assert again.lower_bound == pytest.approx(solution.certificate.lower_bound, rel=1e-10)
    most = 1e-13 * solution.alpha.sum()
    assert max(again.infeasibility, solution.certificate.infeasibility) <= most
    assert again.bias == pytest.approx(solution.bias, abs=1e-9)
    np.testing.assert_allclose(again.multiplier_interval, solution.certificate.multiplier_interval, atol=1e-9)


def test_few_support_vectors_take_few_kernel_rows(no_runs):
    X, y = SETS["moons"]
    model = SVC(C=10.0).fit(X, y)
    few = len(model.support_)
    assert 0 < few < 0.1 * len(X)
    # Rows of pairs that moved, and the certificate's own of the support vectors.
    assert 2 * few <= model.solution_.cost.kernel_columns <= 5 * few


@pytest.mark.parametrize(("n", "C", "flipped"), [(3600, 0.1, 0.5), (3000, 10.0, 0.0)])
def test_many_cheap_rows_are_made_for_bounded_and_free_variables(n, C, flipped, no_runs):
    rng = np.random.default_rng(0)
    X, y = make_classification(n, 20, n_informative=10, random_state=20)
    y[rng.random(n) < flipped] ^= 1
    model = SVC(C=C, gamma=0.05).fit(X, y)
    assert 0.25 * n < len(model.support_)
    held = np.abs(model.dual_coef_[0]) == C
    assert (held.mean() > 0.9) == bool(flipped)
    assert model.solution_.cost.kernel_columns > 1000 + len(model.support_)
    assert certify(model.solution_.problem, model.solution_.raw_alpha).relative_gap <= 1e-10


@pytest.mark.parametrize(("m", "C", "many_free"), [(3, 1.0, False), (8, 100.0, True)])
def test_samples_predict_the_numbers_of_bounded_and_free_variables(m, C, many_free):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(4400, m))
    y = (X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0) ^ (rng.random(4400) < 0.1)
    order, head = np.argsort(y, kind="stable"), int((~y).sum())
    upper, e = np.full(4400, C), np.where(np.arange(4400) < head, 1.0, -1.0)
    gram = Gram(X)
    alpha = np.abs(LIBSVM(C=C, gamma=gram.gamma, tol=1e-4).fit(X, y).dual_coef_[0])
    every, free = expected_support(gram, order, e, upper)
    # Where C is large, parts of a sample's points that have a weight hardly fall from one to the next.
    assert 0.6 * len(alpha) < every < 1.6 * len(alpha)
    assert 0.6 * np.count_nonzero(alpha < C) < free < 2.5 * np.count_nonzero(alpha < C)
    found = pair_from_points(gram, order, head, upper, 1.0)
    assert (found is None) == many_free
    if found is not None:
        assert np.count_nonzero(found.alpha) > 1500
        assert found.certificates[0, 0] - found.certificates[0, 1] <= 1e-11 * abs(found.certificates[0, 0])


def test_all_rows_are_made_in_one_batch_up_to_a_number_of_points(monkeypatch, no_runs):
    fits_with(monkeypatch, min_rows_float32=np.inf)  # all in float64
    X, y = SETS["overlap"]
    model = SVC(C=10.0).fit(X, y)
    assert len(model.support_) > len(X) * USUAL.max_row_share
    assert model.solution_.cost.kernel_columns == len(X) + len(model.support_)
    fits_with(monkeypatch, min_rows_float32=np.inf, max_row_share=1)
    one_by_one = SVC(C=10.0).fit(X, y)
    assert one_by_one.solution_.cost.kernel_columns < model.solution_.cost.kernel_columns
    np.testing.assert_allclose(one_by_one.decision_function(X), model.decision_function(X), atol=1e-9)


def test_more_points_of_many_free_variables_are_left_to_a_run():
    X, y = make_classification(900, 8, flip_y=0.3, random_state=0)
    gram, groups = Gram(X), [np.flatnonzero(y == k) for k in (0, 1)]
    bounds = [np.full(len(group), 100.0) for group in groups]
    assert PairBatch(gram, groups, np.concatenate(bounds), 1e-3)[0] is None
    model = SVC(C=100.0).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-9

    def pair(updates):
        thresholds = other(max_row_share=1, max_rows=900, max_updates=updates)
        return PairBatch(gram, groups, np.concatenate(bounds), 1e-3, thresholds=thresholds)[0]

    assert pair(100_000).certificate.relative_gap <= 1e-11
    assert pair(50) is None  # updates, and not the end


def test_where_most_are_at_their_bounds_more_rows_are_made():
    X, y = make_classification(900, 8, flip_y=0.3, random_state=0)
    gram, groups = Gram(X), [np.flatnonzero(y == k) for k in (0, 1)]
    bounds = [np.full(len(group), 1.0) for group in groups]
    thresholds = other(max_row_share=0.4)
    pair = PairBatch(gram, groups, np.concatenate(bounds), 1e-3, thresholds=thresholds)[0]
    assert pair.certificate.relative_gap <= 1e-11
    many = np.count_nonzero(pair.alpha)
    assert many > thresholds.max_row_share * 900
    wide = np.random.default_rng(0).normal(size=(900, 8))  # nearly all are support vectors, and at their bounds
    all_of_them = PairBatch(Gram(wide), groups, np.concatenate(bounds), 1e-3, thresholds=thresholds)[0]
    assert all_of_them.certificate.relative_gap <= 1e-11
    assert np.count_nonzero(all_of_them.alpha) > thresholds.max_row_share_bounded * 900
    thresholds = other(max_row_share=0.4, max_values_bounded=900 * (many - 10))
    assert PairBatch(gram, groups, np.concatenate(bounds), 1e-3, thresholds=thresholds)[0] is None


@pytest.fixture
def other_rows(monkeypatch):
    """Replace the kernel rows by those of another kernel."""
    solve = from_points.solve_points

    def otherwise(points, half, *rest):
        return solve(0.9 * points, 0.81 * half, *rest)

    monkeypatch.setattr(from_points, "solve_points", otherwise)


@pytest.mark.usefixtures("other_rows")
def test_certificates_use_the_points_and_not_the_rows(monkeypatch):
    X, y = SETS["moons"]
    order, m = np.argsort(y, kind="stable"), int((y == 0).sum())
    fits_with(monkeypatch, min_rows_float32=np.inf)
    thresholds = other(min_rows_float32=np.inf)
    found = pair_from_points(Gram(X), order, m, np.full(len(X), 10.0), -1.0, thresholds=thresholds)
    objective, bound = found.certificates[0, :2]
    assert objective - bound > 1e-3 * abs(objective)
    model = SVC(C=10.0).fit(X, y)  # which leaves it to a run
    assert model.certificate_.relative_gap <= 1e-9


@pytest.mark.usefixtures("other_rows", "no_runs")
@pytest.mark.parametrize("C", [1.0, 10.0])
def test_violators_missed_by_float32_rows_join_the_working_set(C, monkeypatch):
    X, y = SETS["moons"]
    fits_with(monkeypatch, min_rows_float32=0)
    monkeypatch.setattr(
        PointPairs, "serves", lambda *given: False
    )  # a compiled call has no rows that others could make
    right = LIBSVM(C=C, tol=1e-10).fit(X, y)
    looks, look = [], from_points.PointSearch.extend

    def noted(search, sums):
        looks.append(look(search, sums))
        return looks[-1]

    monkeypatch.setattr(from_points.PointSearch, "extend", noted)
    model = SVC(C=C).fit(X, y)
    assert any(looks)
    assert model.certificate_.relative_gap <= 1e-11
    np.testing.assert_array_equal(model.support_, right.support_)
    np.testing.assert_allclose(model.decision_function(X), right.decision_function(X), atol=1e-4 * C)


@pytest.mark.parametrize(
    ("n", "m", "suits"),
    [
        (2, 2, True),
        (100, 64, True),
        (101, 64, True),
        (320, 64, True),
        (100, 65, False),
        (640, 65, False),
        (641, 300, True),
        (4096, 80, True),
        (4097, 80, False),
        (3500, 300, False),
        (8192, 64, True),
        (8193, 64, False),
    ],
)
def test_the_number_of_points_it_suits(n, m, suits):
    assert suits_points(Gram(np.random.default_rng(0).normal(size=(n, m))), n) == suits


@pytest.mark.parametrize(("n", "m", "suits"), [(319, 2, False), (320, 64, True), (320, 65, False), (640, 65, False)])
def test_few_multiclass_classes_share_blocks(n, m, suits):
    assert suits_points(Gram(np.random.default_rng(0).normal(size=(n, m))), n, multiclass=True) == suits


@pytest.mark.parametrize(("least", "m", "suit"), [(79, 2, False), (80, 15, True), (80, 16, False), (400, 65, False)])
def test_few_points_multiclass_classes_are_one_list(least, m, suit):
    assert suits_one_table(Gram(np.random.default_rng(0).normal(size=(500, m))), least) == suit


@pytest.mark.parametrize(
    ("n", "m", "classes", "serves"),
    [(1000, 5, 5, True), (5000, 5, 5, True), (5000, 1700, 5, False), (4096, 5, 2, True), (4098, 5, 2, False)],
)
def test_points_are_made_ready_for_all_pairs_where_they_are_few(n, m, classes, serves):
    X, groups = np.random.default_rng(0).normal(size=(n, m)), np.split(np.arange(n), classes)
    pairs = PointPairs(Gram(X), groups, np.ones(n))
    assert pairs.serves(0, [1]) == serves
    assert (pairs.points is not None) == serves


def test_few_points_of_bits_are_left_to_their_matrix():
    X = np.random.default_rng(0).integers(0, 2, (600, 60)).astype(float)
    assert not suits_points(Gram(X), 600)
    assert suits_points(Gram(X + 0.1), 600)
    assert not suits_one_table(Gram(X), 600)
    assert suits_one_table(Gram(X + 0.1), 600)


def test_a_pair_of_several_classes_may_take_twice_the_work():
    gram = Gram(np.random.default_rng(0).normal(size=(4000, 300)))
    assert not suits_points(gram, 4000)
    assert suits_points(gram, 4000, multiclass=True)
    assert not suits_points(Gram(np.zeros((4000, 500))), 4000, multiclass=True)


def test_other_kernels_and_sparse_points_are_left_alone():
    X = np.random.default_rng(0).normal(size=(300, 3))
    assert suits_points(Gram(X), 300)
    assert not suits_points(Gram(X, "poly"), 300)
    assert not suits_points(Gram(X * 1e9, gamma=1.0), 300)
    sparse = Gram(X)
    object.__setattr__(sparse, "X", SparsePoints.__new__(SparsePoints))
    assert not suits_points(sparse, 300)


def test_vectors_that_do_not_fit_are_refused():
    ones, figures = np.ones(4), np.empty(9)
    for m, upper, values in ((0, ones, ones), (4, ones, ones), (2, ones[:3], ones), (2, ones, ones[:3])):
        with pytest.raises(ValueError, match="vectors of a pair"):
            project_pair(m, upper, 1.0, ones, values.copy(), np.ones(4), figures)
        with pytest.raises(ValueError, match="vectors of a pair"):
            certify_pair(m, upper, 1.0, ones, ones, values, figures, 2.0)
    project_pair(2, ones, 1.0, np.array([1.0, 1.0, 0.0, 0.0]), ones.copy(), np.ones(4), figures)
    assert np.isnan(figures).all()  # far from feasible: no figures
    certify_pair(2, ones, 1.0, ones, ones, ones, figures, 2.0)
    assert np.isnan(figures).all()


def test_arrays_of_the_caller_are_unchanged():
    X, y = SETS["moons"]
    X, y, weight = X.copy(), y.copy(), np.ones(len(X))
    for array in (X, y, weight):
        array.flags.writeable = False
    before = X.copy(), y.copy(), weight.copy()
    SVC().fit(X, y, weight)
    for array, was in zip((X, y, weight), before, strict=True):
        np.testing.assert_array_equal(array, was)


def test_the_problem_is_the_one_that_is_posed():
    X, y = SETS["cancer"]
    solution = SVC(C=3.0).fit(X, y).solution_
    posed = problems.svc(Gram(X), np.where(y == 1, 1.0, -1.0), 3.0)
    assert certify(posed, solution.alpha).relative_gap <= 1e-11


def test_the_bias_is_in_the_middle_without_free_variables(no_runs):
    X, y = make_moons(400, noise=0.1, random_state=0)
    model = SVC(C=1e-4).fit(X, y)
    certificate = model.certificate_
    low, high = certificate.bias_interval
    assert high - low > 0.1
    assert model.intercept_[0] == pytest.approx(0.5 * (low + high), abs=1e-12)
    again = certify(model.solution_.problem, certificate.alpha)
    np.testing.assert_allclose(certificate.bias_interval, again.bias_interval, atol=1e-9)
