"""`PartitionedLinearSVC` is the optimum of all rows in one place, from sums that parts of any engine send."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC as LIBSVM

from dualflow import SVC, FitError, PartitionedLinearSVC, ProblemError, Status

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
