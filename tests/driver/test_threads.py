"""Small problems are solved with BLAS on one thread, and the pools are left as they were."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dualflow import problems, solve
from dualflow.core.gram import Gram
from dualflow.core.runtime.threads import MAX_N_ONE_THREAD, allowed

RNG = np.random.default_rng(0)


def pools():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def _two_threads():
    with threadpool_limits(2, user_api="blas"):
        if set(pools()) != {2}:
            pytest.skip("BLAS here has no threads to limit")
        yield


def posed(n, kernel="rbf"):
    X = RNG.normal(size=(n, 2))
    return problems.svc(Gram(X, kernel), np.tile([1, -1], n // 2), 1.0)


@pytest.mark.parametrize(
    ("n", "kernel", "threads", "shared"),
    [
        (40, "rbf", 1, 1),
        (MAX_N_ONE_THREAD, "linear", 1, 1),
        (MAX_N_ONE_THREAD + 2, "linear", 2, 2),
        (MAX_N_ONE_THREAD + 2, "rbf", 1, 2),
    ],
)
def test_pools_while_a_problem_is_solved_and_after(n, kernel, threads, shared):
    met = []
    solve(posed(n, kernel), max_steps=1, callback=lambda progress: met.append((set(pools()), allowed())) or True)
    assert met[0] == ({threads}, shared)
    assert set(pools()) == {2}


def test_whatever_ends_a_solve_the_pools_are_as_before():
    for error in (ZeroDivisionError, KeyboardInterrupt):

        def fails(progress, error=error):
            raise error

        with pytest.raises(error):
            solve(posed(40), callback=fails)
        assert set(pools()) == {2}


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_solves_that_overlap_leave_the_pools_as_before(first_ends_first):
    """One in another thread, one here, whichever ends first; and one inside a callback of the other."""
    inside, leave = threading.Event(), threading.Event()

    def wait(progress):
        solve(posed(40))
        inside.set()
        assert leave.wait(60)
        return True

    def outlives(progress):
        if first_ends_first:
            leave.set()
            first.join(60)
        solve(posed(40))
        return True

    first = threading.Thread(target=solve, args=(posed(40),), kwargs={"callback": wait})
    first.start()
    assert inside.wait(60)
    solve(posed(40), callback=outlives)
    leave.set()
    first.join(60)
    assert not first.is_alive()
    assert set(pools()) == {2}
    solve(posed(40))
    assert set(pools()) == {2}


def test_the_same_problem_has_the_same_bits():
    for n, kernel in ((60, "rbf"), (300, "linear"), (300, "rbf"), (200, "poly")):
        X = RNG.normal(size=(n, 70))
        problem = problems.svc(Gram(X, kernel), np.where(X[:, 0] > 0, 1, -1), 10.0)
        first = solve(problem, refine=True)
        for _ in range(3):
            filth = np.empty(int(RNG.integers(1, 40_000)))  # what comes next lies elsewhere in memory
            again = solve(problem, refine=True)
            np.testing.assert_array_equal(again.raw_alpha, first.raw_alpha)
            np.testing.assert_array_equal(again.alpha, first.alpha)
            assert again.certificate.gap == first.certificate.gap
            del filth
