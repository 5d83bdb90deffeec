"""A child of a fork has the forking thread alone: what other threads held or were making then must not stop it."""

import os
import signal
import threading
import time
import warnings
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import dualflow
from dualflow import SVC, Gram, Workspace, problems, solve
from dualflow.core.runtime import memory
from dualflow.core.runtime.threads import ONE_THREAD, ProcessContext, cached_property

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

#: Seconds after which a child counts as stuck; what it does takes a tenth of one.
STUCK_S = 20.0


def in_child(work):
    """The exit code of a forked child that does some work, 0 if it came to its end; -9 if it was stuck."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, on forks beside threads
        child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    until = time.monotonic() + STUCK_S
    while time.monotonic() < until:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def clouds(n=60, classes=2):
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    return rng.standard_normal((n, 3)) + 0.8 * y[:, None], y


def posed(kernel="rbf"):
    X, y = clouds()
    return problems.svc(Gram(X, kernel), 2.0 * y - 1, C=1.0)


def test_a_child_makes_what_another_thread_was_making_when_it_was_forked():
    armed, begun, done = threading.Event(), threading.Event(), threading.Event()

    def kernel(A, B):
        if armed.is_set():
            begun.set()
            done.wait(60)
        return A @ B.T

    other, mine = Workspace(posed(kernel)), Workspace(posed())
    armed.set()
    thread = threading.Thread(target=other.dense, daemon=True)
    thread.start()
    try:
        assert begun.wait(60)
        assert in_child(mine.dense) == 0
    finally:
        done.set()
        thread.join(60)


def locks():
    from dualflow.quantum.devices import processes
    from dualflow.quantum.runs import journal_lock

    return {"threads": ONE_THREAD, "arena": memory, "pools": processes, "journals": journal_lock}


@pytest.mark.parametrize("whose", ["threads", "arena", "pools", "journals"])
def test_no_lock_of_the_process_is_held_in_a_child(whose):
    owner, held, done = locks()[whose], threading.Event(), threading.Event()

    def hold():
        with owner._lock:
            held.set()
            done.wait(60)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()

    def work():
        assert owner._lock.acquire(timeout=5)
        owner._lock.release()
        SVC().fit(*clouds(200))

    try:
        assert held.wait(60)
        assert in_child(work) == 0
    finally:
        done.set()
        thread.join(60)


def test_a_context_of_the_process_ends_in_a_child_that_is_not_inside():
    told = []

    class Told(ProcessContext):
        def begin(self):
            told.append("begin")

        def end(self):
            told.append("end")

    context, inside, done = Told(), threading.Event(), threading.Event()

    def enter():
        with context:
            inside.set()
            done.wait(60)

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    assert inside.wait(60)

    def outside():
        assert told == ["begin", "end"]
        with context:
            assert told == ["begin", "end", "begin"]
        assert told[-1] == "end"

    def still_inside():
        assert told == ["begin"]

    try:
        assert in_child(outside) == 0
        with context:
            assert in_child(still_inside) == 0
    finally:
        done.set()
        thread.join(60)
    assert told == ["begin", "end"]


def test_an_attribute_that_is_made_once_has_no_lock_and_one_value():
    class Slow:
        made = 0

        @cached_property
        def value(self):
            Slow.made += 1
            barrier.wait(30)
            return object()

    slow, barrier, found = Slow(), threading.Barrier(2), []
    threads = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert Slow.made == 2  # one did not wait for the other
    assert found[0] is found[1] is slow.value


def test_no_file_takes_the_cached_property_of_the_standard_library():
    package = Path(dualflow.__file__).parent
    takes = [
        file.name
        for file in package.rglob("*.py")
        if "from functools import" in (text := file.read_text("utf-8"))
        and any("cached_property" in line for line in text.splitlines() if line.startswith("from functools"))
    ]
    assert takes == []


def forked_beside_fits(children):
    """How children of forks beside a thread that fits with n_jobs=2 ended."""
    X, y = clouds(160, classes=4)
    stop, model = threading.Event(), SVC(n_jobs=2, max_steps=100)

    def fit():
        while not stop.is_set():
            model.fit(X, y)

    def work():
        SVC(n_jobs=2, max_steps=100).fit(X, y)
        solve(posed())

    thread = threading.Thread(target=fit, daemon=True)
    ends = []
    with ExitStack() as stack:
        stack.callback(thread.join, 60)
        stack.callback(stop.set)
        thread.start()
        for k in range(children):
            time.sleep(0.0017 * (k % 7))
            ends.append(in_child(work))
            if ends[-1]:
                break
    return ends


def test_children_of_forks_beside_a_fit_come_to_their_end():
    assert forked_beside_fits(15) == [0] * 15


@pytest.mark.slow
def test_many_children_of_forks_beside_a_fit_come_to_their_end():
    assert forked_beside_fits(300) == [0] * 300
