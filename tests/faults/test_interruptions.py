"""Ctrl-C, errors of one's own and the clock, wherever they come: raised with what there is, or returned with it."""

import operator
import signal
import sys
import time
import weakref
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from cvxopt import misc

from dualflow import SVC, Gram, ProblemError, Solver, Status, compare, problems, solve
from dualflow.cli.output import clear_errors
from dualflow.comparison import rows as comparison_rows
from dualflow.core.certificate import Certifier
from dualflow.core.runtime import clock
from dualflow.core.solver import EVERY_CONVEX
from dualflow.exceptions import DeviceError

NAMES = (
    "working-set",
    "smo",
    "frank-wolfe",
    "gradient-flow",
    "lotka-volterra",
    "incremental",
    "invasion",
    "cascade",
    "cvxopt",
)


def clouds(n=60, classes=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return rng.standard_normal((n, 2)) + 1.5 * y[:, None], y


def posed(n=60, **more):
    X, y = clouds(n)
    return problems.svc(Gram(X, gamma=0.5), 2.0 * y - 1, C=1.0, **more)


@dataclass(frozen=True)
class StepState:
    alpha: np.ndarray
    k: int = 0


@dataclass(frozen=True)
class Struck(Solver):
    """Projected gradient that is interrupted at one of its methods, at the n-th call."""

    where: str = "start"
    nth: int = 1
    error: type = KeyboardInterrupt

    name = "struck"
    state_type = StepState
    kinds = EVERY_CONVEX
    default_max_steps = 30

    def struck(self, where):
        calls = self.__dict__.setdefault("calls", {})
        calls[where] = calls.get(where, 0) + 1
        if where == self.where and calls[where] == self.nth:
            raise self.error

    def open(self, problem, workspace):
        self.struck("open")
        return workspace

    def start(self, problem, rng, warm=None):
        self.struck("start")
        return StepState(problem.project(np.zeros(problem.n)) if warm is None else warm)

    def step(self, problem, state):
        self.struck("step")
        return StepState(problem.project(state.alpha - 0.05 * problem.gradient(state.alpha)), state.k + 1)

    def alpha(self, state):
        self.struck("alpha")
        return state.alpha

    def finished(self, state):
        self.struck("finished")
        return False

    def multiplier(self, state):
        self.struck("multiplier")


# --- Ctrl-C in a solve -------------------------------------------------------------------------


@pytest.mark.parametrize("trajectory", [False, True])
@pytest.mark.parametrize("where", ["open", "start", "step", "alpha", "finished", "multiplier"])
@pytest.mark.parametrize("nth", [1, 4, 9])
def test_ctrl_c_in_any_method_of_a_solver_is_raised_with_what_there_is(where, nth, trajectory, tmp_path):
    if where in ("open", "start") and nth > 1:
        return
    file, problem = tmp_path / "run.npz", posed()
    settings = {"tol": 1e-12, "trajectory": trajectory, "max_steps": 30}
    struck = where != "multiplier" or trajectory  # a record alone asks for the multiplier
    if struck:
        with pytest.raises(KeyboardInterrupt) as raised:
            solve(problem, Struck(where=where, nth=nth), checkpoint=file, **settings)
        found = raised.value.solution
        assert found.certified is None  # nothing is computed before it is raised
    else:
        found = solve(problem, Struck(where=where, nth=nth), checkpoint=file, **settings)
    assert (found.status is Status.INTERRUPTED) == struck
    assert np.isfinite(found.certificate.relative_gap)
    # Whatever was saved goes on to the same end.
    whole = solve(problem, Struck(where="never"), **settings)
    object.__setattr__(engine := Struck(where=where, nth=nth), "calls", {where: nth})
    resumed = solve(problem, engine, checkpoint=file, **settings)
    assert resumed.cost.steps == whole.cost.steps == 30
    assert np.array_equal(resumed.raw_alpha, whole.raw_alpha)


@pytest.mark.parametrize("trajectory", [False, True])
@pytest.mark.parametrize("where", ["open", "start", "step", "alpha", "finished", "multiplier"])
@pytest.mark.parametrize("nth", [1, 4, 9])
def test_ctrl_c_that_is_to_be_kept_returns_what_there_is(where, nth, trajectory, tmp_path):
    if (where in ("open", "start") and nth > 1) or (where == "multiplier" and not trajectory):
        return
    file, settings = tmp_path / "run.npz", {"tol": 1e-12, "trajectory": trajectory, "max_steps": 30}
    engine = Struck(where=where, nth=nth)
    found = solve(posed(), engine, checkpoint=file, on_interrupt="keep", **settings)
    assert found.status is Status.INTERRUPTED
    assert np.isfinite(found.certified.relative_gap)
    if trajectory:
        assert len(found.trajectory.t) == found.cost.steps + 1
        assert np.array_equal(found.trajectory.alpha[-1], found.raw_alpha)


def test_ctrl_c_before_there_is_a_state_gives_the_start_back():
    problem = posed()
    warm = problem.project(np.full(problem.n, 0.3))
    for start in (warm, None):
        with pytest.raises(KeyboardInterrupt) as raised:
            solve(problem, Struck(), warm=start)
        expected = np.zeros(problem.n) if start is None else warm
        assert np.array_equal(raised.value.solution.raw_alpha, expected)
        assert np.array_equal(solve(problem, Struck(), warm=start, on_interrupt="keep").raw_alpha, expected)


def test_a_second_ctrl_c_is_raised_where_the_first_is_kept(monkeypatch):
    def certify(self, alpha, quick=False, primal=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(Certifier, "certify", certify)
    with pytest.raises(KeyboardInterrupt):
        solve(posed(), "working-set", gap_tol=5e-7, on_interrupt="keep")  # a run


class Told(BaseException):
    """What a signal handler may raise."""


class UnwritableError(Exception):
    __slots__ = ()

    def __setattr__(self, name, value):
        if name == "solution":
            raise AttributeError(name)
        super().__setattr__(name, value)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, Told, ZeroDivisionError, MemoryError])
@pytest.mark.parametrize("keep", [False, True])
def test_what_a_callback_or_a_signal_handler_raises_carries_what_there_is(error, keep):
    """Whatever it is: SIGTERM that Python turned into an exception, for one."""

    def callback(progress):
        if progress.step == 3:
            reached.append(progress.alpha)
            raise error

    reached, more = [], {"on_interrupt": "keep"} if keep else {}
    if keep and error is KeyboardInterrupt:
        found = solve(posed(), "frank-wolfe", callback=callback, tol=1e-9, **more)
    else:
        with pytest.raises(error) as raised:
            solve(posed(), "frank-wolfe", callback=callback, tol=1e-9, **more)
        found = raised.value.solution
    assert found.ended is Status.INTERRUPTED
    assert found.cost.steps == 3
    assert np.array_equal(found.raw_alpha, reached[0])
    assert np.isfinite(found.certificate.relative_gap)


def test_an_error_that_holds_nothing_is_raised_as_it_is():
    def callback(progress):
        raise UnwritableError

    with pytest.raises(UnwritableError):
        solve(posed(), "frank-wolfe", callback=callback, tol=1e-9)
    with pytest.raises(ProblemError) as raised:
        solve(posed(), "frank-wolfe", on_interrupt="stop")
    assert not hasattr(raised.value, "solution")


def test_ctrl_c_while_the_answer_is_certified_keeps_the_answer(monkeypatch):
    problem, real, calls = posed(), Certifier.certify, []

    def certify(self, alpha, quick=False, primal=None):
        calls.append(quick)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return real(self, alpha, quick, primal)

    monkeypatch.setattr(Certifier, "certify", certify)
    found = solve(problem, "working-set", gap_tol=5e-7, refine=True, on_interrupt="keep")  # a run
    assert len(calls) > 1
    assert found.status in (Status.INTERRUPTED, Status.OPTIMAL)
    assert found.raw_ended is Status.INTERRUPTED
    assert found.certificate.relative_gap < 1e-3


def test_ctrl_c_inside_cvxopt_returns(monkeypatch):
    made, factorised = misc.kkt_chol2, []

    def kkt_chol2(*arguments):
        factor = made(*arguments)

        def struck(W, P):
            factorised.append(W)
            if len(factorised) == 4:
                signal.raise_signal(signal.SIGINT)
            return factor(W, P)

        return struck

    monkeypatch.setattr(misc, "kkt_chol2", kkt_chol2)
    found = solve(posed(), "cvxopt", refine=True, on_interrupt="keep")
    assert len(factorised) == 4
    assert found.status is found.raw_status is Status.INTERRUPTED
    assert not found.refined


def test_an_error_of_ones_own_comes_out_and_the_checkpoint_holds_the_state_before_it(tmp_path):
    file, problem = tmp_path / "run.npz", posed()
    with pytest.raises(ZeroDivisionError):
        solve(problem, Struck(where="step", nth=6, error=ZeroDivisionError), checkpoint=file, tol=1e-12)
    object.__setattr__(engine := Struck(where="step", nth=6, error=ZeroDivisionError), "calls", {"step": 6})
    resumed = solve(problem, engine, checkpoint=file, tol=1e-12)
    assert engine.calls["step"] == 6 + 25
    assert np.array_equal(resumed.raw_alpha, solve(problem, Struck(where="never"), tol=1e-12).raw_alpha)


def test_a_device_that_fails_at_the_start_is_an_error_and_later_a_status():
    with pytest.raises(DeviceError):
        solve(posed(), Struck(error=DeviceError))
    assert solve(posed(), Struck(where="step", nth=3, error=DeviceError)).status is Status.DEVICE_FAILED


# --- Ctrl-C in estimators and comparisons ------------------------------------------------------


def test_pairs_left_over_say_that_they_were_interrupted():
    X, y = clouds(80, classes=4)
    seen = []

    def callback(progress):
        seen.append(progress.step)
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.warns(UserWarning, match=r"Interrupted \(Ctrl-C"):
        model = SVC(solver="frank-wolfe", callback=callback, on_interrupt="keep", refine=False, tol=1e-9).fit(X, y)
    assert [solution.status for solution in model.solutions_] == [Status.INTERRUPTED] * 6


def test_ctrl_c_in_a_pair_that_is_done_is_not_swallowed():
    X, y = clouds(80, classes=4)

    def callback(progress):
        if not seen and progress.certificate.within(1e-3):
            seen.append(progress.step)
            raise KeyboardInterrupt

    seen = []
    with pytest.warns(UserWarning, match=r"Interrupted \(Ctrl-C"):
        model = SVC(solver="gradient-flow", callback=callback, on_interrupt="keep", refine=False, tol=1e-3).fit(X, y)
    assert seen
    assert [solution.status for solution in model.solutions_] == [Status.OPTIMAL] + [Status.INTERRUPTED] * 5


@pytest.mark.parametrize("on_interrupt", ["raise", "keep"])
def test_ctrl_c_that_is_raised_leaves_the_model_as_it_was(on_interrupt):
    """At once, or, where the first is kept, the second."""
    X, y = clouds(80, classes=4)
    model = SVC().fit(X, y)
    before, calls = model.predict(X), []

    def callback(progress):
        calls.append(progress.step)
        raise KeyboardInterrupt

    model.set_params(solver="smo", callback=callback, on_interrupt=on_interrupt)
    with pytest.raises(KeyboardInterrupt) as raised:
        model.fit(X[::-1], y)
    assert len(calls) == (1 if on_interrupt == "raise" else 2)
    assert raised.value.solution.ended is Status.INTERRUPTED
    assert np.array_equal(model.predict(X), before)


@pytest.mark.parametrize("at", range(1, 12))
def test_ctrl_c_anywhere_in_a_comparison_is_raised_with_what_there_is(at, monkeypatch):
    """At the n-th solve: warm-ups, references and rows."""
    real, calls = comparison_rows.solve, []

    def struck(*arguments, **more):
        calls.append(arguments[1])
        if len(calls) == at:
            raise KeyboardInterrupt
        return real(*arguments, **more)

    monkeypatch.setattr(comparison_rows, "solve", struck)
    X, y = clouds(40)
    try:
        found = compare(X, y, ("hinge", "svdd"), ["smo", "cvxopt"], max_n=16)
    except KeyboardInterrupt as interrupt:
        found = interrupt.comparison
        assert len(calls) == at  # nothing was begun after it
    assert found.interrupted == (len(calls) >= at)
    assert len(found.rows) == 4
    if found.interrupted:
        assert all("Ctrl-C" in row.reason for row in found.rows if row.status == "NOT RUN")


def test_ctrl_c_in_the_progress_of_a_comparison_is_raised_with_what_there_is():
    def progress(done, total, what):
        if done == 1:
            raise KeyboardInterrupt

    X, y = clouds(40)
    with pytest.raises(KeyboardInterrupt) as raised:
        compare(X, y, ("hinge",), ["smo", "frank-wolfe", "cvxopt"], max_n=16, progress=progress)
    found = raised.value.comparison
    assert found.interrupted
    assert [row.ran for row in found.rows] == [True, False, False]


# --- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["time_limit", "max_steps", "tol"])
@pytest.mark.parametrize("value", [True, np.True_, "5", np.nan])
def test_a_limit_that_is_no_number_is_refused_everywhere(name, value):
    X, y = clouds()
    for refused in (
        lambda: solve(posed(), **{name: value}),
        lambda: SVC(**{name: value}).fit(X, y),
        lambda: SVC(**{name: value}).fit(*clouds(60, classes=3)),
        lambda: (
            compare(X, y, max_n=8, **({} if name == "max_steps" else {name: value}), solvers=["smo"])
            if name != "max_steps"
            else solve(posed(), **{name: value})
        ),
    ):
        with pytest.raises(ProblemError, match=name):
            refused()


@pytest.mark.parametrize("name", NAMES)
def test_every_solver_ends_at_a_limit_that_is_over_with_what_it_has(name):
    found = solve(posed(400), name, time_limit=1e-9, refine=True)
    assert found.status is found.raw_status is Status.TIME_LIMIT
    assert not found.refined
    assert np.isfinite(found.certificate.objective)


def test_cvxopt_gives_back_where_it_is_when_time_is_up(monkeypatch):
    made, factorised = misc.kkt_chol2, []

    def kkt_chol2(*arguments):
        factor = made(*arguments)

        def counted(W, P):
            factorised.append(W)
            if len(factorised) == 6:
                monkeypatch.setattr(
                    clock,
                    "time",
                    SimpleNamespace(monotonic=lambda: time.monotonic() + 1000.0, process_time=time.process_time),
                )
            return factor(W, P)

        return counted

    monkeypatch.setattr(misc, "kkt_chol2", kkt_chol2)
    found = solve(posed(200), "cvxopt", time_limit=100.0)
    assert len(factorised) == 6
    assert found.status is Status.TIME_LIMIT
    assert 1e-10 < found.certificate.relative_gap < 0.5  # on its way, and further than the start


def _drop_ctrl_c():
    """Ctrl-C in a finalizer, where Python drops what is raised."""
    held = clock.Interrupt()
    weakref.finalize(held, signal.raise_signal, signal.SIGINT)


def test_ctrl_c_in_a_finalizer_is_raised_a_moment_later():
    @clock.keeping_interrupts()
    def work():
        _drop_ctrl_c()
        time.sleep(5.0)

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work()
    assert time.monotonic() - begun < 3.0


def test_ctrl_c_in_a_finalizer_is_raised_at_the_end_of_the_work():
    with pytest.raises(KeyboardInterrupt), clock.keeping_interrupts():
        _drop_ctrl_c()
    time.sleep(10 * clock.RETRY_S)  # not a second time


def test_other_errors_of_a_finalizer_go_where_they_went(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: seen.append(dropped.exc_type))
    with clock.keeping_interrupts():
        held = clock.Interrupt()
        weakref.finalize(held, operator.truediv, 1, 0)
        del held
    assert seen == [ZeroDivisionError]


@pytest.mark.parametrize("work", [solve, compare])
def test_ctrl_c_in_a_finalizer_ends_a_run(work):
    problem = problems.svc(Gram(np.arange(8.0)[:, None]), [-1, 1] * 4, C=1.0)

    def hook(*about):
        _drop_ctrl_c()
        time.sleep(5.0)

    options = {"callback": hook} if work is solve else {"progress": hook, "solvers": ["smo"]}
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        work(problem, **options)
    assert time.monotonic() - begun < 3.0


def test_ctrl_c_that_a_library_made_another_error_of_ends_a_comparison(monkeypatch):
    def masked(*about, **options):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as interrupt:
            raise RuntimeError("Error calling __set_name__") from interrupt

    monkeypatch.setattr(comparison_rows, "solve", masked)
    problem = problems.svc(Gram(np.arange(8.0)[:, None]), [-1, 1] * 4, C=1.0)
    with pytest.raises(KeyboardInterrupt) as raised:
        compare(problem, solvers=["smo"])
    assert raised.value.comparison.interrupted


def test_ctrl_c_in_a_finalizer_of_a_command_exits_with_130():
    with pytest.raises(typer.Exit) as left, clear_errors():
        _drop_ctrl_c()
    assert left.value.exit_code == 130
