"""Threads and processes: estimators share nothing, so that each gives the bits that it gives alone."""

import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest

from dualflow import SVC, SVDD, EcoSVC, Gram, IncrementalSVC, Status, problems, solve
from dualflow.core.runtime import clock
from tests.faults.processes import forks

THREADS, TASKS = 4, 16


def clouds(seed, n=120, classes=2):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.standard_normal((n, 3)) + 0.8 * y[:, None], y


MODELS = {
    "SVC": lambda seed: SVC(C=1.0 + seed % 3).fit(*clouds(seed)),
    "three classes": lambda seed: SVC(kernel="poly", degree=2, coef0=1.0).fit(*clouds(seed, classes=3)),
    "SVDD": lambda seed: SVDD(nu=0.2).fit(clouds(seed)[0]),
    "IncrementalSVC": lambda seed: IncrementalSVC(C=2.0).fit(*clouds(seed, 60)),
    "EcoSVC": lambda seed: EcoSVC(C=2.0).fit(*clouds(seed, 60)),
}


def fitted(task):
    name, seed = task
    return MODELS[name](seed).decision_function(clouds(99)[0])


@pytest.mark.parametrize("name", MODELS)
def test_different_estimators_fit_in_threads_as_they_do_alone(name):
    tasks = [(name, seed) for seed in range(TASKS)]
    alone = [fitted(task) for task in tasks]
    with ThreadPoolExecutor(THREADS) as pool:
        for ours, theirs in zip(alone, pool.map(fitted, tasks), strict=True):
            assert np.array_equal(ours, theirs)


def test_different_estimators_fit_in_processes_as_they_do_alone():
    tasks = [(name, seed) for name in MODELS for seed in range(2)]
    alone = [fitted(task) for task in tasks]
    with ProcessPoolExecutor(2, mp_context=forks()) as pool:
        for ours, theirs in zip(alone, pool.map(fitted, tasks), strict=True):
            assert np.array_equal(ours, theirs)


@pytest.mark.parametrize("name", MODELS)
def test_one_estimator_predicts_in_threads_as_it_does_alone(name):
    # Made anew for the threads, so that whatever is made at the first look is made by several at once.
    X = clouds(98, 400)[0]
    alone = MODELS[name](0).decision_function(X)
    model, barrier = MODELS[name](0), threading.Barrier(THREADS)

    def predicted(_):
        barrier.wait(30)
        return [model.decision_function(X) for _ in range(5)]

    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(predicted, range(THREADS)):
            assert all(np.array_equal(values, alone) for values in found)


def test_one_problem_is_solved_in_threads_as_it_is_alone():
    X, y = clouds(3)
    problem = problems.svc(Gram(X), 2.0 * y - 1, C=1.0)
    names = ["working-set", "smo", "frank-wolfe", "gradient-flow", "incremental", "cvxopt"] * 3
    alone = {name: solve(problem, name, max_steps=200).raw_alpha for name in set(names)}
    with ThreadPoolExecutor(THREADS) as pool:
        for name, found in zip(names, pool.map(lambda name: solve(problem, name, max_steps=200), names), strict=True):
            assert np.array_equal(found.raw_alpha, alone[name])


def test_a_time_limit_is_its_own_runs_alone():
    """One thread's limit is over at once; the others' runs, and what it does afterwards, know nothing of it."""
    X, y = clouds(4)
    problem = problems.svc(Gram(X), 2.0 * y - 1, C=1.0)

    def late_or_not(k):
        limited = solve(problem, time_limit=1e-9 if k % 2 else None)
        return limited.status, solve(problem).status

    with ThreadPoolExecutor(THREADS) as pool:
        for k, (limited, free) in enumerate(pool.map(late_or_not, range(TASKS))):
            assert limited is (Status.TIME_LIMIT if k % 2 else Status.OPTIMAL)
            assert free is Status.OPTIMAL


def test_a_limit_within_a_limit_is_over_when_it_is_left():
    with clock.within(time.monotonic() - 1.0):
        assert clock.is_late()
        for inner in (None, time.monotonic() + 60.0):  # work within work has no more time than that
            with clock.within(inner):
                assert clock.is_late()
        with clock.without_time_limit():
            assert not clock.is_late()
        with pytest.raises(clock.OutOfTime):
            clock.check_time()
    assert not clock.is_late()
