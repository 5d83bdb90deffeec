"""`PartitionedLinearSVC` is the optimum of all rows in one place, from sums that parts of any engine send."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC as LIBSVM

from dualflow import SVC, FitError, PartitionedLinearSVC, ProblemError, Status
from dualflow.cascade import row_groups

X, Y = make_classification(900, 6, n_informative=4, flip_y=0.1, weights=[0.7], random_state=5)
X += 3.0
OPTIONS = {
    "hinge": {"C": 2.0},
    "small C": {"C": 1e-3},
    "large C": {"C": 300.0},
    "no bias": {"fit_intercept": False},
    "penalised": {"fit_intercept": "penalised"},
    "weights of classes": {"class_weight": {0: 1.0, 1: 5.0}},
}


class Fixed:
    """Given rows."""

    def __init__(self, *columns):
        self.columns = columns

    def load(self):
        return self.columns


def primal(model, weight=None):
    """Return the primal objective of a model of two classes at its weights, over all rows."""
    margin = np.where(model.classes_[1] == Y, 1.0, -1.0) * (X @ model.coef_[0] + model.intercept_[0])
    of_class = 1.0 if model.class_weight is None else np.array([model.class_weight[label] for label in Y])
    cost = model.C * of_class * (1.0 if weight is None else weight)
    length = model.coef_[0] @ model.coef_[0] + model.intercept_[0] ** 2 * (model.fit_intercept == "penalised")
    return 0.5 * length + np.sum(cost * np.maximum(0.0, 1.0 - margin))


@pytest.mark.parametrize("name", OPTIONS)
def test_it_is_the_optimum_of_all_rows(name):
    model = PartitionedLinearSVC(**OPTIONS[name], partitions=4, random_state=0, tol=1e-9).fit(X, Y)
    whole = SVC(kernel="linear", **OPTIONS[name], tol=1e-11).fit(X, Y)
    found, best = model.certificate_, whole.certificate_.objective
    assert model.statuses_ == [Status.OPTIMAL]
    assert abs(found.objective - best) <= 1e-9 * abs(best)
    assert found.lower_bound <= found.objective + found.rounding
    # The bound is minus the primal objective of the model that predicts.
    assert primal(model) == pytest.approx(-found.lower_bound, rel=1e-12)
    assert np.allclose(model.decision_function(X), whole.decision_function(X), atol=1e-4)


def test_it_is_as_good_as_libsvm():
    model = PartitionedLinearSVC(C=2.0, partitions=3).fit(X, Y)
    theirs = LIBSVM(kernel="linear", C=2.0, tol=1e-10).fit(X, Y)
    margin = np.where(Y == 1, 1.0, -1.0) * theirs.decision_function(X)
    other = 0.5 * np.sum(theirs.coef_**2) + 2.0 * np.sum(np.maximum(0.0, 1.0 - margin))
    assert primal(model) <= other * (1 + 1e-9)
    # LIBSVM's objective is 1e-6 above the optimum here, whatever its tol, so that its weights have five digits.
    assert np.allclose(model.coef_, theirs.coef_, atol=1e-4)
    whole = SVC(kernel="linear", C=2.0, tol=1e-11).fit(X, Y)
    assert np.allclose(model.coef_, whole.coef_, atol=1e-7)


def test_weights_count_rows_and_leave_them_out():
    weight = np.random.default_rng(0).integers(0, 4, size=len(Y)).astype(float)
    options = {"partitions": 4, "random_state": 0, "tol": 1e-10}
    weighted = PartitionedLinearSVC(**options).fit(X, Y, weight)
    rows = np.repeat(np.arange(len(Y)), weight.astype(int))
    repeated = PartitionedLinearSVC(**options).fit(X[rows], Y[rows])
    assert weighted.certificate_.objective == pytest.approx(repeated.certificate_.objective, rel=1e-9)
    assert primal(weighted, weight) == pytest.approx(-weighted.certificate_.lower_bound, rel=1e-12)


def test_parts_of_one_class_and_parts_without_rows():
    order = np.argsort(Y, kind="stable")
    parts = [Fixed(X[:0], Y[:0]), *(Fixed(X[rows], Y[rows]) for rows in np.array_split(order, 5))]
    model = PartitionedLinearSVC(tol=1e-9).fit(parts)
    whole = PartitionedLinearSVC(tol=1e-9, partitions=1).fit(X, Y)
    assert model.certificate_.objective == pytest.approx(whole.certificate_.objective, rel=1e-9)


def test_row_groups_of_parquet_are_read_one_by_one_to_the_optimum_of_all(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {f"x{k}": X[:, k] for k in range(X.shape[1])} | {"label": Y, "w": np.where(Y == 1, 2.0, 1.0)}
    parquet.write_table(pyarrow.table(columns), tmp_path / "data.parquet", row_group_size=200)
    parts, sizes = row_groups(tmp_path / "data.parquet", target="label", weight="w"), []
    load = type(parts[0]).load

    def counted(part):
        rows = load(part)
        sizes.append(len(rows.X))
        return rows

    monkeypatch.setattr(type(parts[0]), "load", counted)
    model = PartitionedLinearSVC(C=2.0, tol=1e-9).fit(parts)
    whole = SVC(kernel="linear", C=2.0, tol=1e-11).fit(X, Y, sample_weight=columns["w"])
    assert max(sizes) == 200
    assert len(set(sizes)) == 2  # 900 rows: four groups of 200, and the last one of 100
    assert model.certificate_.within(1e-9)
    assert model.certificate_.objective == pytest.approx(whole.certificate_.objective, rel=1e-9)


def test_several_classes():
    rows, labels = load_iris(return_X_y=True)
    model = PartitionedLinearSVC(C=10.0, partitions=3, random_state=0).fit(rows, labels)
    whole = SVC(kernel="linear", C=10.0, tol=1e-11).fit(rows, labels)
    assert np.allclose(model.coef_, whole.coef_, atol=1e-5)
    assert np.allclose(model.decision_function(rows), whole.decision_function(rows), atol=1e-4)
    assert {row.pair for row in model.rounds_} == {0, 1, 2}
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.predict(rows), model.predict(rows))
    with pytest.raises(ProblemError, match="Pickle the model"):
        model.save("model")
    with pytest.raises(AttributeError, match="coef_"):
        _ = model.support_vectors_


def test_joblib_gives_the_same_bits():
    options = {"partitions": 3, "random_state": 0, "tol": 1e-3}
    here = PartitionedLinearSVC(**options).fit(X, Y)
    there = PartitionedLinearSVC(**options, engine="joblib", n_jobs=2).fit(X, Y)
    assert np.array_equal(here.coef_, there.coef_)
    assert here.intercept_ == there.intercept_
    assert here.certificate_.gap == there.certificate_.gap


def test_a_part_that_changes_gets_no_certificate():
    class Shuffled(Fixed):
        times = 0

        def load(self):
            type(self).times += 1
            order = np.random.default_rng(self.times).permutation(len(self.columns[1]))
            return tuple(column[order] for column in self.columns)

    with pytest.raises(ProblemError, match=r"part changed between two reads.*part 1 gives other rows"):
        PartitionedLinearSVC(max_steps=2).fit([Fixed(X[::2], Y[::2]), Shuffled(X[1::2], Y[1::2])])


def test_limits_and_callbacks_give_a_certified_model():
    options = {"partitions": 3, "random_state": 0}
    with pytest.warns(ConvergenceWarning, match="Certified relative gap"):
        short = PartitionedLinearSVC(**options, max_steps=3).fit(X, Y)
    assert short.statuses_ == [Status.STEP_LIMIT]
    assert 1e-8 < short.certificate_.relative_gap <= 1
    assert primal(short) == pytest.approx(-short.certificate_.lower_bound, rel=1e-12)
    seen = []
    with pytest.warns(ConvergenceWarning):
        stopped = PartitionedLinearSVC(**options, callback=lambda row: seen.append(row) or len(seen) == 4).fit(X, Y)
    assert stopped.statuses_ == [Status.STOPPED]
    assert stopped.rounds_ == seen
    with pytest.raises(FitError, match="time_limit=1e-06 was over"):
        PartitionedLinearSVC(**options, time_limit=1e-6).fit(X, Y)


@pytest.mark.parametrize(
    ("options", "says"),
    [({"C": np.inf}, "C=inf"), ({"tol": 0.0}, "tol=0.0"), ({"partitions": 0}, "partitions=0")],
)
def test_invalid_parameters_are_refused(options, says):
    with pytest.raises(ProblemError, match=says):
        PartitionedLinearSVC(**options).fit(X, Y)


# --- many rows: samples of them -----------------------------------------------------------------


def many(n=20_000, m=5, noise=1.0, seed=3):
    rng = np.random.default_rng(seed)
    points, direction = rng.standard_normal((n, m)) + 2.0, rng.standard_normal(m)
    return points, ((points - 2.0) @ direction + noise * rng.standard_normal(n) > 0.3).astype(int)


MANY = {
    "hinge": ({}, {}),
    "large C": ({"C": 100.0}, {}),
    "small C": ({"C": 1e-4}, {}),
    "no bias": ({"fit_intercept": False}, {}),
    "penalised": ({"fit_intercept": "penalised"}, {}),
    "weights of classes": ({"class_weight": {0: 1.0, 1: 20.0}}, {}),
    "little noise": ({}, {"noise": 0.01}),
}


@pytest.mark.parametrize("name", MANY)
def test_many_rows_are_solved_by_samples_to_the_same_optimum(name, monkeypatch):
    options, of_data = MANY[name]
    points, labels = many(**of_data)
    # Few rows are allowed, so that a sample follows another one, and the undetermined rows do not fit at once.
    monkeypatch.setattr("dualflow.cascade.linear.NUMBERS_SENT", 20_000)
    model = PartitionedLinearSVC(**options, partitions=7, partitioner="given").fit(points, labels)
    whole = SVC(kernel="linear", **options, tol=1e-11).fit(points, labels)
    found, best = model.certificate_, whole.certificate_.objective
    assert model.statuses_ == [Status.OPTIMAL]
    assert abs(found.objective - best) <= 1e-9 * abs(best)
    assert len(model.rounds_) <= 8  # steps over all rows would be more
    assert max(row.points for row in model.rounds_) <= 4000


def test_weights_of_rows_and_rows_in_any_order_give_the_same_optimum():
    points, labels = many()
    weight = np.random.default_rng(0).choice([0.0, 0.5, 1.0, 3.0], len(labels))
    whole = SVC(kernel="linear", tol=1e-11).fit(points, labels, weight).certificate_.objective
    for order in (slice(None), np.argsort(labels, kind="stable"), np.argsort(points[:, 0])):
        given = points[order], labels[order], weight[order]
        model = PartitionedLinearSVC(partitions=9, partitioner="given").fit(*given)
        assert abs(model.certificate_.objective - whole) <= 1e-9 * abs(whole)


def test_rows_that_samples_leave_undetermined_are_solved_by_steps_over_all(monkeypatch):
    """Labels of chance: the weights of a sample are as large as their error."""
    monkeypatch.setattr("dualflow.cascade.linear.NUMBERS_SENT", 20_000)
    points, labels = many(noise=1e6)
    model = PartitionedLinearSVC(partitions=3, partitioner="given").fit(points, labels)
    whole = SVC(kernel="linear", tol=1e-11).fit(points, labels).certificate_.objective
    assert model.statuses_ == [Status.OPTIMAL]
    assert abs(model.certificate_.objective - whole) <= 1e-9 * abs(whole)
    assert len(model.rounds_) > 8


def test_one_pass_says_what_all_rows_say():
    """The sums of a pass against those of all rows in one place, by formulas."""
    from dualflow.cascade.linear_sums import View, certificate_of, look, sums_by_sign
    from dualflow.cascade.model import Model
    from dualflow.cascade.parts import Loaded

    points, labels = many(3000, 4)
    center, w, nu, radius = points.mean(axis=0), np.array([0.3, -0.2, 0.1, 0.4]), 0.2, 0.35
    model = Model(np.array([0, 1]), np.ones(2), 1, 0, 2.0, "hinge", True, "linear", 1.0, 1.0, 0.0, center)
    before = w * 1.5, nu, 0.1
    seen = look(Loaded(points, labels), 0, None, View(model, w, nu, radius, (1.0, 0.5), 0, before))
    sign, F = np.where(labels == 1, 1.0, -1.0), points - center
    slopes, then = sign * (F @ w - nu) - 1.0, sign * (F @ (1.5 * w) - nu) - 1.0
    inside = np.abs(slopes) <= radius
    for k, mask in enumerate(((slopes < -radius), inside)):
        for j, own in enumerate((sign > 0, sign < 0)):
            assert np.allclose(seen.vectors[k, j], 2.0 * F[mask & own].sum(axis=0))
            assert np.allclose(seen.sums[k, :, j], 2.0 * np.sum(mask & own))
    assert seen.bound[0] == pytest.approx(2.0 * np.minimum(slopes, 0).sum())
    assert seen.wrong == np.abs(slopes[(np.abs(then) > 0.1) & (then * slopes < 0)]).max()
    assert np.array_equal(seen.count, [np.sum(inside & (sign > 0)), np.sum(inside & (sign < 0))])
    assert len(seen.X) - seen.count[0] == pytest.approx(0.5 * seen.count[1], abs=1)
    assert np.array_equal(seen.X[: int(seen.count[0])], points[inside & (sign > 0)])
    alpha = np.random.default_rng(0).random(len(labels))[None]
    own = model.variables(Loaded(points, labels), 0)
    vectors, sums = sums_by_sign(model, own, alpha)
    certificate = certificate_of(model, w, nu, vectors, sums, seen.bound)
    plus, minus = alpha[0] * (sign > 0), alpha[0] * (sign < 0)
    fair = plus * min(1, minus.sum() / plus.sum()) + minus * min(1, plus.sum() / minus.sum())
    assert sign @ fair == pytest.approx(0, abs=1e-9)
    assert certificate.objective == pytest.approx(0.5 * np.sum(((sign * fair) @ F) ** 2) - fair.sum())
    assert certificate.lower_bound == pytest.approx(2.0 * np.minimum(slopes, 0).sum() - 0.5 * w @ w)


def test_a_sample_ends_at_the_time_limit_with_its_certificate():
    points, labels = many()
    with pytest.warns(ConvergenceWarning, match="Certified relative gap"):
        model = PartitionedLinearSVC(partitions=4, max_steps=1).fit(points, labels)
    assert model.statuses_ == [Status.STEP_LIMIT]
    assert model.certificate_.lower_bound <= SVC(kernel="linear").fit(points, labels).certificate_.objective
    with pytest.warns(ConvergenceWarning):
        model = PartitionedLinearSVC(partitions=4, callback=lambda row: True).fit(points, labels)
    assert model.statuses_ == [Status.STOPPED]
