"""Pairs of classes in threads: the same bits as in sequence, and the same errors and interrupts."""

import itertools
import multiprocessing
import signal
import threading
import time
import warnings

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning

from dualflow import SVC, ProblemError, Status
from dualflow.direct import pairs as pair_batch
from dualflow.estimators import _solving
from dualflow.estimators._solving import thread_count

DIGITS = load_digits(return_X_y=True)
X, Y = DIGITS[0][:600] / 16, DIGITS[1][:600]
IRIS = load_iris(return_X_y=True)
WAYS = {
    "direct": {},
    "runs": {"refine": False},
    "linear": {"kernel": "linear", "C": 0.1},
    "squared hinge": {"loss": "squared_hinge"},
    "stochastic": {"solver": "evolution-strategy", "fit_intercept": False, "random_state": 3, "max_steps": 5},
    "precomputed": {"kernel": "precomputed"},
}


@pytest.mark.parametrize("way", WAYS)
def test_results_do_not_depend_on_n_jobs(way):
    rows = slice(0, 60) if way == "stochastic" else slice(None)
    data = X[rows] @ X[rows].T if way == "precomputed" else X[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        # What 1 and -1 mean is one matter for all ways.
        numbers = (None, 1, 2, -1, 7) if way == "direct" else (None, 2, 7)
        models = [SVC(n_jobs=jobs, **{"random_state": 0} | WAYS[way]).fit(data, Y[rows]) for jobs in numbers]
    first = models[0]
    for model in models[1:]:
        for name in ("dual_coef_", "intercept_", "support_", "n_iter_"):
            np.testing.assert_array_equal(getattr(model, name), getattr(first, name))
        for ours, theirs in zip(model.solutions_, first.solutions_, strict=True):
            np.testing.assert_array_equal(ours.raw_alpha, theirs.raw_alpha)
            assert ours.certificate.relative_gap == theirs.certificate.relative_gap
            assert ours.provenance["seed"] == theirs.provenance["seed"]
            assert ours.cost.kernel_columns == theirs.cost.kernel_columns
        np.testing.assert_array_equal(model.decision_function(data), first.decision_function(data))


def test_n_jobs_threads_work_at_the_same_time(monkeypatch):
    honest, together = pair_batch.solve_dense_pairs, threading.Barrier(3)
    thread_ids = set()

    def meets(*given):
        if threading.get_ident() not in thread_ids:
            thread_ids.add(threading.get_ident())
            together.wait(60)
        return honest(*given)

    monkeypatch.setattr(pair_batch, "solve_dense_pairs", meets)
    SVC(n_jobs=3).fit(X, Y)
    assert len(thread_ids) == 3
    assert threading.get_ident() not in thread_ids


def test_the_meaning_of_n_jobs(monkeypatch):
    assert thread_count(None) == 1
    assert thread_count(3) == 3
    assert thread_count(np.int64(2)) == 2
    assert thread_count(-1) == joblib.cpu_count()
    assert thread_count(-1000) == 1
    # Where processes would not be started, threads are.
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    assert thread_count(3) == 3
    with joblib.parallel_backend("threading", n_jobs=2):
        assert thread_count(None) == 2
    for wrong in (0, 1.5, "2", True):
        with pytest.raises(ProblemError, match=r"n_jobs=.* must be a whole number other than 0"):
            SVC(n_jobs=wrong).fit(*IRIS)
    assert clone(SVC(n_jobs=2)).get_params()["n_jobs"] == 2


def test_circuits_wait_for_one_another():
    engine = _solving.Solving(SVC(n_jobs=4), None, [1, 2, 3], type("Engine", (), {"quantum": True})())
    assert engine.jobs == 1


@pytest.mark.parametrize("where", ["direct", "runs"])
def test_ctrl_c_reaches_all_threads_and_keeps_the_state_reached(where, monkeypatch):
    honest, calls, count = pair_batch.solve_dense_pairs, [], itertools.count(1)
    options = {"C": 1e6, "tol": 1e-12, "solver": "smo"} if where == "runs" else {}
    heard_by_all, fail = threading.Event(), _solving.Solving.fail
    monkeypatch.setattr(_solving.Solving, "fail", lambda self, error: [fail(self, error), heard_by_all.set()])

    def strikes(*given):
        calls.append(1)
        number = next(count)
        if number == 3:  # this call comes after all pairs of the first class, or of the second
            signal.raise_signal(signal.SIGINT)
        if number >= 3:
            heard_by_all.wait(60)
        return honest(*given)

    def heard(progress):
        if next(count) == 10:
            signal.raise_signal(signal.SIGINT)
            heard_by_all.wait(60)

    if where == "direct":
        monkeypatch.setattr(pair_batch, "solve_dense_pairs", strikes)
    else:
        options["callback"] = heard
    with pytest.warns(ConvergenceWarning):
        model = SVC(n_jobs=2, on_interrupt="keep", **options).fit(X, Y)
    ended = [solution.ended for solution in model.solutions_]
    assert len(ended) == 45
    assert Status.INTERRUPTED in ended
    assert all(each in (Status.INTERRUPTED, Status.OPTIMAL) for each in ended[12:])
    if where == "direct":
        assert len(calls) <= 4
        assert set(ended[:9]) == {Status.OPTIMAL} or set(ended[9:17]) == {Status.OPTIMAL}
    assert model.fit_status_ == 1
    assert np.isfinite(model.decision_function(X)).all()


def test_ctrl_c_ends_all_threads_and_leaves_the_model_as_it_was(monkeypatch):
    model = SVC(n_jobs=2).fit(*IRIS)
    before = model.dual_coef_
    calls, heard, fail = [], threading.Event(), _solving.Solving.fail
    monkeypatch.setattr(_solving.Solving, "fail", lambda self, error: [fail(self, error), heard.set()])

    def strikes(progress):
        calls.append(1)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
            heard.wait(60)

    model.set_params(C=1e6, tol=1e-12, solver="smo", callback=strikes)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert model.dual_coef_ is before


def test_an_error_in_a_thread_comes_out():
    class OwnError(Exception):
        pass

    def kernel(A, B):
        if not (len(A) == 1 or len(B) == 1) and threading.current_thread() is not threading.main_thread():
            raise OwnError
        return A @ B.T

    with pytest.raises(OwnError):
        SVC(kernel=kernel, n_jobs=2).fit(X, Y)


def test_time_is_that_of_the_whole_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(time_limit=1e-9, n_jobs=2).fit(X, Y)
        assert len(model.solutions_) == 45
        assert Status.TIME_LIMIT in {solution.status for solution in model.solutions_}
        begun = time.monotonic()
        slow = SVC(time_limit=1.0, n_jobs=2, C=1e6, tol=1e-15, refine=False, callback=lambda progress: time.sleep(0.05))
        slow.fit(X, Y)
        assert time.monotonic() - begun < 30
    assert len(slow.solutions_) == 45


def test_time_shares_count_the_threads():
    engine = type("Engine", (), {"quantum": False})()
    for jobs, share in ((1, 10.0), (2, 20.0), (100, 100.0)):
        solving = _solving.Solving(SVC(n_jobs=jobs, time_limit=100.0), None, [0] * 10, engine)
        assert solving.time_share()[0] == pytest.approx(share, rel=1e-2)


def test_a_callback_is_called_by_one_thread_at_a_time():
    inside, most = [], []

    def callback(progress):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.001)
        inside.pop()

    SVC(callback=callback, n_jobs=3).fit(X, Y)
    assert len(most) >= 45
    assert max(most) == 1
