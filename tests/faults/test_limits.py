"""The time limit where a step takes long: the step is given up in its midst, and what was before it is returned."""

import time

import numpy as np
import pytest

from dualflow import Gram, Status, problems, solve
from dualflow.core import clock
from dualflow.core.cholesky import AT_ONCE, factorise
from dualflow.core.workspace import Workspace
from dualflow.integrate import stiff_system
from dualflow.integrate.stiff_system import StiffSystem, low_rank
from dualflow.registry import list_solvers, solver_class
from dualflow.solvers.base import Solver

#: A limit is kept to a second, the last certificate included; a busy machine is given four.
LIMIT, SLACK = 3.0, 4.0
CLASSICAL = [
    i.name
    for i in list_solvers()
    if not (i.install or solver_class(i.name).quantum) and solver_class(i.name).interruptible
]


def posed(n, m=10, seed=0, kernel="rbf", **more):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return problems.svc(Gram(rng.standard_normal((n, m)) + 0.3 * y[:, None], kernel), y, C=10.0, **more)


@pytest.mark.long
@pytest.mark.parametrize("m", [10, 200])
@pytest.mark.parametrize("name", CLASSICAL)
def test_a_limit_is_kept_by_every_interruptible_solver(name, m):
    solver = solver_class(name)
    problem = posed(min(20_000, solver.max_n or 20_000), m)
    if problem.kind not in solver.kinds:
        problem = posed(problem.n, m, fit_intercept=False)
    begun = time.monotonic()
    found = solve(problem, name, time_limit=LIMIT, refine=True)
    assert time.monotonic() - begun < LIMIT + SLACK
    assert found.status in (Status.TIME_LIMIT, Status.OPTIMAL)


class Slow:
    """A kernel that takes its time, so that a second of it is few points."""

    def __init__(self, seconds):
        self.seconds, self.calls = seconds, 0

    def __call__(self, A, B):
        self.calls += 1
        time.sleep(self.seconds * len(A) * len(B) / 1e4)
        return A @ B.T


@pytest.mark.parametrize(
    "name", ["working-set", "smo", "frank-wolfe", "gradient-flow", "lotka-volterra", "invasion", "cascade"]
)
def test_kernels_are_not_evaluated_once_the_limit_is_over(name):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(600) % 2 == 0, 1.0, -1.0)
    kernel = Slow(0.0)
    problem = problems.svc(Gram(rng.standard_normal((600, 2)) + y[:, None], kernel), y, C=1.0)
    work = Workspace(problem)
    with clock.within(time.monotonic() - 1.0):
        kernel.calls = 0
        for ask in (
            work.dense,
            lambda: work.columns([0]),
            lambda: work.matvec(np.ones(600)),
            lambda: work.kept_column(1),
        ):
            with pytest.raises(clock.OutOfTime):
                ask()
        assert kernel.calls == 0
    found = solve(problem, name, time_limit=1e-6)
    assert found.status is Status.TIME_LIMIT
    assert found.cost.steps == 0


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [300, AT_ONCE + 300])
def test_a_factor_in_panels_is_lapacks(n, dtype):
    rng = np.random.default_rng(0)
    B = rng.standard_normal((n, 400))
    K = (B @ B.T / 400 + np.eye(n)).astype(dtype)
    A = np.tril(K).T.copy().T
    A[np.triu_indices(n, 1)] = np.nan
    assert factorise(A)
    error = np.abs(np.tril(A) @ np.tril(A).T - K).max()
    assert error < 50 * np.finfo(dtype).eps * np.abs(K).max()
    K[n - 5, n - 5] = -1.0
    assert not factorise(K.T.copy().T)


def test_a_factor_in_panels_looks_at_the_clock():
    with clock.within(time.monotonic() - 1.0), pytest.raises(clock.OutOfTime):
        factorise(np.eye(AT_ONCE + 1, order="F"))
    n = AT_ONCE + 1
    with clock.within(time.monotonic() - 1.0), pytest.raises(clock.OutOfTime):
        StiffSystem(np.eye(n), np.ones(n))


@pytest.mark.parametrize(("m", "kernel"), [(3, "linear"), (2, "rbf"), (12, "rbf")])
def test_a_low_rank_in_panels_is_lapacks(m, kernel, monkeypatch):
    work = Workspace(posed(1200, m, kernel=kernel, loss="squared_hinge"))
    ours = low_rank(work)
    monkeypatch.setattr(stiff_system, "_AT_ONCE", 1 << 30)
    theirs = low_rank(work)
    assert (ours is None) == (theirs is None) == (m == 12)
    if ours is not None:
        assert theirs.shape[1] <= ours.shape[1] <= 1.2 * theirs.shape[1]
        plain = work.dense() - np.diag(work.ridge)
        assert np.abs(ours @ ours.T - plain).max() < 1e-11


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("n", "m", "gamma"), [(1100, 3, 0.05), (1200, 1, 5.0), (2000, 1, 5.0)])
def test_a_low_rank_in_panels_has_the_digits_of_its_matrix(n, m, gamma, seed):
    """Spectra that fall by many decades within a panel: without a limit 1e-8, or no rank at all."""
    X = np.random.default_rng(seed).normal(size=(n, m))
    problem = problems.svc(Gram(X, gamma=gamma), np.where(np.arange(n) % 2, 1, -1), C=1.0, loss="squared_hinge")
    L = low_rank(Workspace(problem))
    assert np.abs(L @ L.T - (problem.dense() - np.diag(problem.ridge))).max() < 1e-11


def test_a_limit_that_comes_in_the_refinement_says_so(monkeypatch):
    problem = posed(2000, loss="squared_hinge")  # more than 1000 free variables: pairs do not end this
    calls = []

    def product(self, *arguments, real=Workspace.product, **more):
        calls.append(arguments)
        if clock._deadline.get() is not None and refining:
            clock._deadline.set(0.0)
        return real(self, *arguments, **more)

    refining = []

    def gradient(self, context, state):
        refining.append(True)

    monkeypatch.setattr(solver_class("working-set"), "gradient", gradient)
    monkeypatch.setattr(Workspace, "product", product)
    found = solve(problem, refine="early", time_limit=1000.0)
    assert refining
    assert found.ended is Status.TIME_LIMIT
    assert np.isfinite(found.certificate.relative_gap)


def test_smo_stops_within_a_step_where_columns_are_not_at_hand():
    problem = posed(4500, 2)
    found = solve(problem, "smo", max_steps=2, tol=1e-12)
    assert 0 < found.cost.steps <= 2
    assert np.count_nonzero(found.raw_alpha) <= 4000  # a thousand pairs a step
    assert isinstance(solver_class("smo")(), Solver)
