"""Streams with weights: learning and forgetting lead to the weighted batch optimum, of LIBSVM, CVXOPT and our own."""

import pickle

import numpy as np
import pytest
from dualflow.online._path import PENDING
from sklearn import svm
from sklearn.datasets import make_moons
from sklearn.utils import estimator_checks

import dualflow
from dualflow import (
    SVC,
    SVDD,
    SVR,
    EcoSVC,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    ProblemError,
    certify,
    problems,
    verify_removal,
)
from dualflow.online.state import PathError

N = 160
GAMMA = 2.0
X, Y = make_moons(N, noise=0.3, random_state=0)
Z = np.sin(3 * X[:, 0]) + np.random.default_rng(1).normal(scale=0.1, size=N)
WEIGHT = np.random.default_rng(2).exponential(size=N)
WEIGHT[::11] = 0.0
FACTORS = {0: 0.5, 1: 3.0}
GONE = np.random.default_rng(3).permutation(N)[:60]
REST = np.setdiff1d(np.arange(N), GONE)


def in_batches(model, y, rows=None, **options):
    rows = np.arange(N) if rows is None else rows
    for part in np.array_split(rows, 4):
        arguments = (X[part],) if y is None else (X[part], y[part])
        model.partial_fit(*arguments, ids=part, sample_weight=WEIGHT[part], **options)
    return model


def gap_of(model, problem, alpha):
    """The certified gap of coefficients, by id, in a problem that the test poses itself."""
    certificate = certify(problem, alpha)
    assert certificate.infeasibility <= 1e-9
    return certificate.relative_gap


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_learning_and_forgetting_lead_to_the_weighted_optimum(C):
    model = in_batches(IncrementalSVC(C=C, gamma=GAMMA, class_weight=FACTORS), Y, classes=[0, 1])
    signs, factors = np.where(Y == 1, 1, -1), np.array([0.5, 3.0])[Y]
    for rows in (np.arange(N), REST):
        if rows is REST:
            model.forget(GONE)
        alpha = np.zeros(N)
        alpha[model.support_ids_] = np.abs(model.dual_coef_[0])
        problem = problems.svc(
            dualflow.Gram(X[rows], gamma=GAMMA), signs[rows], C, sample_weight=(WEIGHT * factors)[rows]
        )
        assert gap_of(model, problem, alpha[rows]) <= 1e-9
        assert model.certificate_.relative_gap <= 1e-9
        theirs = svm.SVC(C=C, gamma=GAMMA, class_weight=FACTORS, tol=1e-10).fit(X[rows], Y[rows], WEIGHT[rows])
        # LIBSVM's objective in its own α, which is no lower than the optimum.
        a = np.abs(theirs.dual_coef_[0])
        K = dualflow.Gram(theirs.support_vectors_, gamma=GAMMA).full()
        reached = 0.5 * theirs.dual_coef_[0] @ K @ theirs.dual_coef_[0] - a.sum()
        assert model.certificate_.objective == pytest.approx(reached, rel=1e-8)
        ours = SVC(C=C, gamma=GAMMA, class_weight=FACTORS, tol=1e-11).fit(X[rows], Y[rows], WEIGHT[rows])
        np.testing.assert_allclose(model.decision_function(X), ours.decision_function(X), atol=1e-5, rtol=1e-5)
    exact = dualflow.solve(problem, "cvxopt", tol=1e-9)
    assert model.certificate_.objective == pytest.approx(exact.certificate.objective, rel=1e-8)


def test_forgetting_equals_never_having_learned_with_other_weights():
    parameters = {"C": 3.0, "gamma": GAMMA, "class_weight": FACTORS}
    forgetful = in_batches(IncrementalSVC(**parameters), Y, classes=[0, 1]).forget(GONE)
    fresh = in_batches(IncrementalSVC(**parameters), Y, rows=REST, classes=[0, 1])
    np.testing.assert_allclose(forgetful.decision_function(X), fresh.decision_function(X), atol=1e-9)


def test_three_classes_are_the_batchs_pairs():
    three = np.arange(N) % 3
    centres = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])[three] + X
    factors = {0: 0.5, 2: 4.0}
    batch = SVC(C=2.0, gamma=1.0, class_weight=factors, tol=1e-11).fit(centres, three, WEIGHT)
    stream = IncrementalSVC(C=2.0, gamma=1.0, class_weight=factors).fit(centres, three, WEIGHT)
    assert stream.class_weight_.tolist() == [0.5, 1.0, 4.0]
    np.testing.assert_allclose(stream.decision_function(centres), batch.decision_function(centres), atol=1e-7)
    stream.forget(GONE, purge=True)
    batch.fit(centres[REST], three[REST], WEIGHT[REST])
    np.testing.assert_allclose(stream.decision_function(centres), batch.decision_function(centres), atol=1e-7)


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_regression_has_the_weights_of_its_points(C):
    model = in_batches(IncrementalSVR(C=C, epsilon=0.05, gamma=GAMMA), Z)
    for rows in (np.arange(N), REST):
        if rows is REST:
            model.forget(GONE)
        ours = SVR(C=C, epsilon=0.05, gamma=GAMMA, tol=1e-11).fit(X[rows], Z[rows], WEIGHT[rows])
        theirs = svm.SVR(C=C, epsilon=0.05, gamma=GAMMA, tol=1e-10).fit(X[rows], Z[rows], WEIGHT[rows])
        assert model.certificate_.relative_gap <= 1e-9
        assert model.certificate_.objective == pytest.approx(ours.certificate_.objective, rel=1e-9)
        np.testing.assert_allclose(model.predict(X), ours.predict(X), atol=1e-5)
        np.testing.assert_allclose(model.predict(X), theirs.predict(X), atol=1e-3)


@pytest.mark.parametrize("nu", [None, 0.1, 0.5])
def test_data_description_has_the_weights_of_its_points(nu):
    model = in_batches(IncrementalSVDD(nu=nu, gamma=GAMMA), None)
    for rows in (np.arange(N), REST):
        if rows is REST:
            model.forget(GONE)
        batch = SVDD(nu=nu, gamma=GAMMA, tol=1e-12).fit(X[rows], sample_weight=WEIGHT[rows])
        assert model.certificate_.relative_gap <= 1e-9
        assert model.radius_ == pytest.approx(batch.radius_, rel=1e-9)
        np.testing.assert_allclose(model.decision_function(X), batch.decision_function(X), atol=1e-9)
    if nu is not None:  # LIBSVM's bounds are the weights, and the radial kernel makes the two problems one
        theirs = svm.OneClassSVM(nu=nu, gamma=GAMMA, tol=1e-10).fit(X[rows], sample_weight=WEIGHT[rows])
        total = theirs.dual_coef_.sum()
        expansion = theirs.score_samples(X) / total
        own = -0.5 * model.score_samples(X)  # ½‖φ(x) − c‖² is a constant less the expansion
        np.testing.assert_allclose(own + expansion, np.full(N, (own + expansion)[0]), atol=1e-6)


def test_the_hard_ball_does_not_depend_on_an_outlier_without_weight():
    ball = IncrementalSVDD(nu=None, kernel="linear").fit([[0.0], [2.0], [8.0]], sample_weight=[1.0, 5.0, 0.0])
    assert ball.radius_ == pytest.approx(1.0, rel=1e-12)
    assert ball.predict([[1.9], [8.0]]).tolist() == [1, -1]
    assert ball.partial_fit([[4.0]]).forget([1]).radius_ == pytest.approx(2.0, rel=1e-12)


MACHINES = {
    "SVC": lambda: in_batches(IncrementalSVC(C=3.0, gamma=GAMMA, class_weight=FACTORS), Y, classes=[0, 1]),
    "SVR": lambda: in_batches(IncrementalSVR(C=3.0, gamma=GAMMA), Z),
    "SVDD": lambda: in_batches(IncrementalSVDD(nu=0.3, gamma=GAMMA), None),
}


@pytest.mark.parametrize("name", MACHINES)
def test_a_weighted_model_read_back_goes_on_bit_by_bit(name, tmp_path):
    model = MACHINES[name]()
    model.save(tmp_path / "model.dualflow")
    for other in (dualflow.load(tmp_path / "model.dualflow"), pickle.loads(pickle.dumps(model))):
        target = () if name == "SVDD" else (np.array([0, 1]),)
        more = X[:2] + 0.01
        for one in (changed := MACHINES[name](), other):
            one.forget(GONE[:5]).partial_fit(more, *target, sample_weight=[0.5, 2.0])
        np.testing.assert_array_equal(changed.dual_coef_, other.dual_coef_)
        assert changed.certificate_.relative_gap <= 1e-9


@pytest.mark.parametrize("name", MACHINES)
def test_a_purge_leaves_what_learning_the_rest_alone_makes(name):
    model = MACHINES[name]().forget(GONE, purge=True)
    fresh = type(model)(**model.get_params())
    target = {"SVC": (Y[REST],), "SVR": (Z[REST],), "SVDD": ()}[name]
    fresh.partial_fit(X[REST], *target, ids=REST, sample_weight=WEIGHT[REST])
    np.testing.assert_array_equal(model.dual_coef_, fresh.dual_coef_)
    np.testing.assert_array_equal(model.support_, fresh.support_)


@pytest.mark.parametrize("name", MACHINES)
def test_a_removal_record_compares_with_the_weighted_refit(name):
    model = MACHINES[name]()
    record = model.forget(GONE, record=True).certificate_of_removal()
    assert record["refit"]["problems"] == 1
    assert record["refit"]["distance"] <= 1e-4
    assert "it differs from a refit" in verify_removal(record, after=model)[-1]


@pytest.mark.parametrize("changed", ["missing", "not as the bounds say", "negative", "too few"])
def test_files_with_other_weights_are_refused(changed):
    model = MACHINES["SVC"]()
    arrays, facts = model._pack()
    weights = arrays["stream0_weights"]
    if changed == "missing":
        del arrays["stream0_weights"]
    elif changed == "not as the bounds say":
        arrays["stream0_weights"] = 2 * weights
    elif changed == "negative":
        arrays["stream0_weights"] = -weights
    else:
        arrays["stream0_weights"] = weights[1:]
    other = IncrementalSVC(**model.get_params())
    other.n_features_in_ = 2
    with pytest.raises(ValueError, match=r"weights are not|bounds contradicts"):
        other._unpack(arrays, facts)


@pytest.mark.parametrize("name", MACHINES)
def test_weights_of_one_leave_no_trace(name):
    """They give the bits of a stream without weights, and the same file."""
    model = MACHINES[name]()
    kind, parameters = type(model), model.get_params() | ({"class_weight": None} if name == "SVC" else {})
    target = {"SVC": (Y,), "SVR": (Z,), "SVDD": ()}[name]
    plain = kind(**parameters).fit(X, *target)
    ones = kind(**parameters).fit(X, *target, sample_weight=np.ones(N))
    one, other = plain._pack()[0], ones._pack()[0]
    assert one.keys() == other.keys()
    assert not any("weight" in key for key in one)
    assert all(np.array_equal(one[key], other[key]) for key in one)


def test_points_without_weight_alone_leave_an_empty_model():
    model = IncrementalSVC(gamma=GAMMA).fit(X[:6], [0, 1, 0, 1, 0, 1], sample_weight=[1, 1, 1, 1, 0, 0])
    model.forget([0, 1, 2, 3])
    assert model.ids_.tolist() == [4, 5]
    assert model.solutions_ == []
    assert model.support_.tolist() == []
    again = model.partial_fit(X[:4], [0, 1, 0, 1])
    fresh = IncrementalSVC(gamma=model._gamma).fit(X[:4], [0, 1, 0, 1])
    np.testing.assert_allclose(again.decision_function(X), fresh.decision_function(X), atol=1e-12)


def test_a_broken_path_with_points_without_weight_is_mended():
    """The batch solver's answer is taken over, and points of weight 0 stay out."""
    model = MACHINES["SVC"]()
    stream = model._streams[0]
    stream.path_error = PathError("broken by the test")
    model._bring_to_optimum(stream)
    assert stream.path_error is None
    assert (stream.engine.where[stream.weights == 0] == PENDING).all()
    assert model.certificate_.relative_gap <= 1e-9
    assert not np.isin(model.support_, np.arange(N)[WEIGHT == 0]).any()
    model.forget(GONE)
    assert model.certificate_.relative_gap <= 1e-9


def test_leaving_one_out_keeps_the_weights():
    model = MACHINES["SVC"]().forget(GONE)
    found = model.leave_one_out()
    signs = np.where(Y == 1, 1, -1)
    for k in range(0, len(REST), 7):
        point = found.ids[k]
        others = np.setdiff1d(REST, [point])
        batch = SVC(C=3.0, gamma=GAMMA, class_weight=FACTORS, tol=1e-11).fit(X[others], Y[others], WEIGHT[others])
        expected = signs[point] * batch.decision_function(X[point : point + 1])[0] - 1.0
        assert found.margins[k] == pytest.approx(expected, abs=1e-5)


def test_the_recorded_path_ends_at_the_model():
    model = MACHINES["SVC"]()
    path = model.path()
    weights = np.zeros(N)
    weights[model.support_ids_] = np.abs(model.dual_coef_[0])
    np.testing.assert_allclose(path.coefficients[-1], weights[path.ids], atol=1e-9)


def test_changed_class_weights_need_a_new_fit():
    model = MACHINES["SVC"]()
    model.set_params(class_weight={0: 1.0, 1: 1.0})
    with pytest.raises(ProblemError, match=r"class_weight=.* start again with fit"):
        model.partial_fit(X[:1], Y[:1])
    model.set_params(class_weight=dict(FACTORS)).partial_fit(X[:1], Y[:1], sample_weight=[1.0])
    assert model.set_params(class_weight=None).fit(X, Y).class_weight_.tolist() == [1.0, 1.0]


def test_a_dictionary_changed_in_place_does_not_change_the_factors():
    factors = dict(FACTORS)
    model = IncrementalSVC(gamma=GAMMA, class_weight=factors).partial_fit(X[:50], Y[:50])
    factors[1] = 1000.0
    model.partial_fit(X[50:], Y[50:])
    batch = SVC(gamma=GAMMA, class_weight=FACTORS, tol=1e-11).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X), batch.decision_function(X), atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"class_weight": "balanced"}, "would change the bounds of all points"),
        ({"class_weight": {0: 0.0, 1: 1.0}}, "must be above 0 in a stream"),
        ({"class_weight": {0: 1.0, "b": 1.0}}, "class_weight names"),
        ({"sample_weight": -np.ones(N)}, "sample_weight must be ≥ 0"),
        ({"sample_weight": np.zeros(N)}, "sample_weight is zero for every point"),
        ({"sample_weight": np.ones(3)}, r"sample_weight\.shape"),
        ({"sample_weight": np.full(N, np.nan)}, "NaN"),
        ({"sample_weight": (Y == 0).astype(float)}, "no point of class 1 has a positive weight"),
    ],
)
def test_weights_out_of_range_leave_the_model_as_it_was(arguments, message):
    model = IncrementalSVC(gamma=GAMMA).fit(X, Y)
    before = model.decision_function(X)
    given = dict(arguments)
    model.set_params(class_weight=given.pop("class_weight", None))
    with pytest.raises((ProblemError, ValueError), match=message):
        model.fit(X, Y, **given)
    np.testing.assert_array_equal(model.decision_function(X), before)


@pytest.mark.parametrize("kind", [IncrementalSVC, IncrementalSVDD, IncrementalSVR, EcoSVC])
def test_a_weight_counts_repetitions(kind):
    estimator_checks.check_sample_weight_equivalence_on_dense_data(kind.__name__, kind(gamma=0.3))


def test_an_ecology_that_forgets_nothing_has_the_class_weights_of_the_batch():
    model = EcoSVC(C=3.0, gamma=GAMMA, class_weight=FACTORS, reserve=np.inf, tol=1e-9)
    for part in np.array_split(np.arange(N), 4):
        model.partial_fit(X[part], Y[part], classes=[0, 1], sample_weight=WEIGHT[part])
    batch = SVC(C=3.0, gamma=GAMMA, class_weight=FACTORS, tol=1e-11).fit(X, Y, WEIGHT)
    np.testing.assert_allclose(model.decision_function(X), batch.decision_function(X), atol=1e-4)
    assert model.certify(X, Y, WEIGHT).relative_gap <= 1e-9
    with pytest.raises(ProblemError, match="would change the bounds"):
        model.set_params(class_weight="balanced").partial_fit(X, Y)
