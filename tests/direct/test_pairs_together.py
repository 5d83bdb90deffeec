"""Small pairs of classes are solved without a run each: the answers, the certificates and the endings are a run's."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC as LIBSVM

from dualflow import SVC, problems, solve
from dualflow.core.certificate import certify
from dualflow.core.gram import Gram
from dualflow.core.solution import Status
from dualflow.direct import pairs as pair_batch
from dualflow.direct.pairs import PairBatch
from dualflow.driver import solve as solve_module
from dualflow.estimators import _one_vs_one
from tests.thresholds import USUAL, other

DIGITS = load_digits(return_X_y=True)
SETS = {
    "iris": (StandardScaler().fit_transform(load_iris().data), load_iris().target),
    "wine": (StandardScaler().fit_transform(load_wine().data), load_wine().target),
    "digits": (DIGITS[0][:700] / 16, DIGITS[1][:700]),
    "two": (DIGITS[0][DIGITS[1] < 2] / 16, DIGITS[1][DIGITS[1] < 2]),
}
KERNELS = [{"kernel": "rbf"}, {"kernel": "linear"}, {"kernel": "poly", "degree": 2, "coef0": 1.0}]


@pytest.fixture
def no_runs(monkeypatch):
    def refuse(*given, **options):
        raise AssertionError("a run was made")

    monkeypatch.setattr(solve_module, "Run", refuse)


def watched(**parameters):
    """Return the same model by a run for each pair, which a callback forces."""
    return SVC(callback=lambda progress: False, **parameters)


@pytest.mark.parametrize("C", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])
@pytest.mark.parametrize("name", SETS)
def test_answers_are_those_of_libsvm_and_certificates_those_of_a_fresh_look(name, kernel, C, no_runs):
    X, y = SETS[name]
    ours = SVC(C=C, random_state=0, **kernel).fit(X, y)
    theirs = LIBSVM(C=C, tol=1e-10, decision_function_shape="ovo", **kernel).fit(X, y)
    ours.decision_function_shape = "ovo"
    ours_at, theirs_at = ours.decision_function(X), theirs.decision_function(X)
    size = np.abs(theirs_at).max()
    # LIBSVM keeps its kernel in float32, which its multipliers amplify.
    lost = np.finfo(np.float32).eps * max(s.alpha.sum() * s.problem.diag().max() for s in ours.solutions_)
    np.testing.assert_allclose(ours_at, theirs_at, atol=1e-6 * size + lost)
    assert ours.fit_status_ == 0
    for solution, bias in zip(ours.solutions_, ours.intercept_, strict=True):
        assert solution.status is Status.OPTIMAL
        assert solution.bias == bias
        assert not solution.refined
        again = certify(solution.problem, solution.raw_alpha)
        # Two ways to compute one kernel: what rounding does to a gap grows with the bounds.
        noise = 64 * np.finfo(float).eps * solution.problem.diag().max() * C * solution.alpha.sum()
        assert abs(again.lower_bound - solution.certificate.lower_bound) <= noise * (1 + solution.problem.n)
        assert again.objective == pytest.approx(solution.certificate.objective, rel=1e-11)
        assert again.bias == pytest.approx(bias, rel=1e-7, abs=1e-7 * size)
        np.testing.assert_array_equal(again.alpha, solution.alpha)


@pytest.mark.parametrize("name", ["iris", "two"])
def test_problems_rows_and_provenance_are_those_of_runs(name):
    X, y = SETS[name]
    weight = np.random.default_rng(0).uniform(0.0, 2.0, len(X)) * (np.arange(len(X)) % 7 > 0)
    ours, theirs = SVC(random_state=5), watched(random_state=5)
    for model in (ours, theirs):
        model.fit(X, y, weight)
    for a, b, rows, expected in zip(ours.solutions_, theirs.solutions_, ours._rows, theirs._rows, strict=True):
        np.testing.assert_array_equal(rows, expected)
        for column in ("sigma", "upper", "p", "e"):
            np.testing.assert_array_equal(getattr(a.problem, column), getattr(b.problem, column))
        np.testing.assert_array_equal(a.problem.gram.X, b.problem.gram.X)
        np.testing.assert_array_equal(a.support, b.support)
        np.testing.assert_allclose(a.alpha, b.alpha, atol=1e-9)
        assert a.provenance == b.provenance
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_array_equal(ours.n_iter_, theirs.n_iter_)


def test_a_pair_is_what_solve_makes_of_it(no_runs):
    X, y = SETS["iris"]
    model = SVC(C=3.0).fit(X, y)
    for solution in model.solutions_:
        alone = solve(
            problems.svc(
                Gram(solution.problem.gram.X, gamma=model.solutions_[0].problem.gram.gamma), solution.problem.sigma, 3.0
            ),
            refine=True,
            tol=1e-12,
        )
        assert solution.certificate.objective == pytest.approx(alone.certificate.objective, rel=1e-12)


def test_entries_of_the_kernel_are_counted_once(no_runs):
    X, y = SETS["digits"]
    counts = np.bincount(y)
    model = SVC().fit(X, y)
    entries = sum(solution.cost.kernel_columns * solution.problem.n for solution in model.solutions_)
    between = (len(X) ** 2 - (counts**2).sum()) / 2
    assert entries == pytest.approx(between + (counts**2).sum())


def test_a_solver_that_writes_to_its_block_reaches_no_certificate(monkeypatch):
    X, y = SETS["iris"]
    given = []

    def forging(within, between, listed, upper, sign, alpha, begin, tolerance, most, seconds):
        for values in (within, between):
            with pytest.raises(ValueError, match="read-only"):
                values[:] = 0.0
        alpha[:] = 0.0
        given.append(len(listed))
        return len(listed)

    monkeypatch.setattr(pair_batch, "suits_one_table", lambda *given: False)
    monkeypatch.setattr(pair_batch, "solve_dense_pairs", forging)
    gram, groups = Gram(X), [np.flatnonzero(y == k) for k in range(3)]
    assert list(PairBatch(gram, groups, np.ones(150), 1e-6)) == [None] * 3
    assert given == [3]
    model = SVC().fit(X, y)  # by runs, then
    assert [solution.status for solution in model.solutions_] == [Status.OPTIMAL] * 3


def test_kernel_values_without_digits_are_left_to_a_run(monkeypatch):
    rng = np.random.default_rng(98)
    X, y = rng.normal(size=(12, 3)) + 1e5, np.arange(12) % 2
    groups, upper = [np.flatnonzero(y == k) for k in range(2)], [np.full(6, 0.003)] * 2

    def batch_results(points, thresholds=USUAL):
        gram = Gram(points, "poly", degree=3, coef0=1.0, gamma=1.0)
        return list(PairBatch(gram, groups, np.concatenate(upper), 1e-6, thresholds=thresholds))

    assert batch_results(X) == [None]
    assert batch_results(X - X.mean(axis=0)) != [None]
    # Without the check of digits, the result is the same.
    assert batch_results(X, other(min_relative_spread=-1.0)) == [None]


@pytest.mark.parametrize("bound", [0.0, np.inf])
def test_infinite_bounds_are_left_to_a_run(bound):
    X, y = SETS["iris"]
    groups = [np.flatnonzero(y == k) for k in range(3)]
    upper = [np.ones(50) for _ in range(3)]
    assert None not in list(PairBatch(Gram(X), groups, np.concatenate(upper), 1e-6))
    upper[1][7] = bound
    assert list(PairBatch(Gram(X), groups, np.concatenate(upper), 1e-6)) == [None] * 3


@pytest.mark.parametrize("count", [400, None], ids=["one list", "many lists"])
def test_ctrl_c_in_the_middle_is_raised_or_keeps_what_there_is(monkeypatch, count):
    X, y = (part[:count] for part in SETS["digits"])
    honest, calls = pair_batch.solve_dense_pairs, []

    def interrupted(*given):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return honest(*given[:-1], 0.0)  # one pair a call

    monkeypatch.setattr(pair_batch, "solve_dense_pairs", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SVC().fit(X, y)
    calls.clear()
    with pytest.warns(ConvergenceWarning):
        model = SVC(on_interrupt="keep").fit(X, y)
    ended = [solution.ended for solution in model.solutions_]
    assert ended[:3] == [Status.OPTIMAL] * 3
    assert ended[3] is Status.INTERRUPTED
    assert set(ended[4:]) == {Status.INTERRUPTED, Status.OPTIMAL}  # some need a single step
    assert len(ended) == 45
    assert len(calls) == 4
    assert model.fit_status_ == 1


def test_a_tiny_time_limit_still_gives_a_model():
    X, y = SETS["digits"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(time_limit=1e-9).fit(X, y)
    assert len(model.solutions_) == 45
    assert np.isfinite(model.intercept_).all()
    assert Status.TIME_LIMIT in {solution.status for solution in model.solutions_}


@pytest.mark.parametrize(
    "other",
    [
        {"solver": "smo"},
        {"solver_options": {"gap_tol": 1e-9}},
        {"loss": "squared_hinge"},
        {"fit_intercept": False},
        {"C": np.inf},
        {"max_steps": 50},
        {"warm_start": True},
        {"kernel": "sigmoid", "gamma": 1e-3},
    ],
    ids=str,
)
def test_a_requested_run_is_used(other, monkeypatch):
    monkeypatch.setattr(pair_batch, "solve_dense_pairs", None)
    X, y = SETS["two"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert SVC(**other).fit(X, y).score(X, y) > 0.9


def test_unrefined_results_take_a_run_where_it_is_faster(no_runs, monkeypatch):
    X, y = SETS["two"]
    model = SVC(refine=False, tol=1e-3).fit(X, y)
    assert not model.solution_.refined
    assert model.solution_.status is Status.OPTIMAL
    assert model.solution_.provenance["refine"] is False
    assert SVC(tol=1e-3).fit(X, y).solution_.provenance["refine"] == "early"
    X, y = SETS["iris"]
    monkeypatch.setattr(_one_vs_one, "MAX_POINTS_UNREFINED", len(y) - 1)
    SVC().fit(X, y)
    monkeypatch.setattr(solve_module._Call, "directly", lambda call: None)
    with pytest.raises(AssertionError, match="a run was made"):
        SVC(refine=False, tol=1e-3).fit(X, y)


def test_solutions_are_made_once_and_survive_a_pickle():
    X, y = SETS["iris"]
    model = SVC(random_state=2).fit(X, y)
    other = pickle.loads(pickle.dumps(model))
    assert model.solutions_[1] is model.solutions_[1]
    assert model.solutions_ is model.solutions_
    for a, b in zip(model.solutions_, other.solutions_, strict=True):
        np.testing.assert_array_equal(a.alpha, b.alpha)
        assert a.bias == b.bias
        assert a.provenance == b.provenance
    again = model.fit(X[y < 2], y[y < 2])
    assert len(again.solutions_) == 1
    assert again.solution_.problem.n == 100


def test_very_many_classes_of_a_few_points_take_no_run_each(no_runs):
    rng = np.random.default_rng(0)
    centres = 3.0 * rng.normal(size=(60, 8))
    X, y = np.repeat(centres, 4, axis=0) + rng.normal(size=(240, 8)), np.repeat(np.arange(60), 4)
    model = SVC().fit(X, y)
    assert len(model.intercept_) == 60 * 59 / 2
    assert model.fit_status_ == 0
    np.testing.assert_array_equal(model.predict(X), LIBSVM().fit(X, y).predict(X))


@pytest.mark.parametrize("name", ["iris", "two"])
@pytest.mark.parametrize("missed", [0, 1, 2])
def test_a_pair_that_the_batch_gives_up_may_be_solved_directly_on_its_own(name, missed, monkeypatch, no_runs):
    """Its direct result has the points of y = −1 first, which are those of the second class among several."""
    X, y = SETS[name]
    expected = SVC(C=10.0).fit(X, y)
    own = PairBatch.__getitem__
    monkeypatch.setattr(PairBatch, "all_pairs", lambda batch: None)
    monkeypatch.setattr(PairBatch, "__getitem__", lambda batch, k: None if k == missed else own(batch, k))
    found = SVC(C=10.0).fit(X, y)
    found.decision_function_shape = expected.decision_function_shape = "ovo"
    np.testing.assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-6)
    np.testing.assert_allclose(found.dual_coef_, expected.dual_coef_, atol=1e-6 * np.abs(expected.dual_coef_).max())
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
