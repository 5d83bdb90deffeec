"""The time limit where a step takes long: the step is given up in its midst, and what was before it is returned."""

import time
import tracemalloc

import numpy as np
import pytest
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from dualflow import (
    SVC,
    SVDD,
    ConformalSVC,
    FitError,
    FrontStatus,
    Gram,
    OneClassSVM,
    Status,
    SVCSearchCV,
    certify,
    generalization_report,
    pareto_front,
    problems,
    solve,
)
from dualflow.core.certificate import Certifier
from dualflow.core.problem import DualProblem
from dualflow.core.runtime import clock
from dualflow.core.solver import Solver
from dualflow.core.workspace import Workspace
from dualflow.driver.solve import time_limited
from dualflow.integrate import stiff_system
from dualflow.integrate.stiff_system import StiffSystem, low_rank
from dualflow.refinement.linear_systems import MAX_ROWS_ONE_CALL, factorise
from dualflow.solvers.registry import list_solvers, solver_class
from dualflow.tradeoff import path

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


@pytest.mark.slow
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
@pytest.mark.parametrize("n", [300, MAX_ROWS_ONE_CALL + 300])
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
        factorise(np.eye(MAX_ROWS_ONE_CALL + 1, order="F"))
    n = MAX_ROWS_ONE_CALL + 1
    with clock.within(time.monotonic() - 1.0), pytest.raises(clock.OutOfTime):
        StiffSystem(np.eye(n), np.ones(n))


@pytest.mark.parametrize(("m", "kernel"), [(3, "linear"), (2, "rbf"), (12, "rbf")])
def test_a_low_rank_in_panels_is_lapacks(m, kernel, monkeypatch):
    work = Workspace(posed(1200, m, kernel=kernel, loss="squared_hinge"))
    ours = low_rank(work)
    monkeypatch.setattr(stiff_system, "_MAX_N_ONE_CALL", 1 << 30)
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


# --- time that is set aside ----------------------------------------------------------------------


@pytest.mark.parametrize("in_time", [True, False])
def test_a_state_that_cannot_be_certified_in_time_gives_way_to_the_one_before_it(in_time, monkeypatch):
    """Prices are estimates: the dear state is tried while the time of the cheap one stays set aside."""
    problem, real, calls = posed(300), Certifier.certify, []

    def certify(self, alpha, quick=False, primal=None):
        calls.append(np.count_nonzero(alpha))
        if len(calls) == 1 and not in_time:
            raise clock.OutOfTime
        return real(self, alpha, quick, primal)

    monkeypatch.setattr(Certifier, "certify", certify)
    monkeypatch.setattr(Certifier, "seconds", lambda self, alpha: 1e6 * np.count_nonzero(alpha))
    found = solve(problem, time_limit=1e4, gap_tol=5e-7)  # a run
    assert calls[0] > 0
    assert found.cost.steps == int(in_time)
    assert found.raw_alpha.any() == in_time
    assert found.certified is not None
    assert found.status in ((Status.TIME_LIMIT, Status.OPTIMAL) if in_time else (Status.TIME_LIMIT,))


def test_a_step_ends_while_there_is_time_for_a_certificate(monkeypatch):
    problem, seen = posed(300), []
    step = solver_class("gradient-flow").step

    def look(self, context, state):
        seen.append(clock.seconds_left())
        return step(self, context, state)

    monkeypatch.setattr(solver_class("gradient-flow"), "step", look)
    monkeypatch.setattr(Certifier, "seconds", lambda self, alpha: 600.0)
    solve(problem, "gradient-flow", time_limit=1000.0, max_steps=3)
    assert seen
    assert max(seen) <= 400.0


def test_a_certificate_that_takes_too_long_is_left_for_later(monkeypatch):
    """`solve` hands out what there is; an estimator, whose model needs it, says so."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)), np.arange(300) % 2
    problem = problems.svc(Gram(X), 2.0 * y - 1, C=1.0)

    def compute(self, alpha):
        raise clock.OutOfTime

    monkeypatch.setattr(Certifier, "compute", compute)
    found = solve(problem, time_limit=1000.0, gap_tol=5e-7)  # a run
    model = SVC(time_limit=1000.0, solver="smo")
    with pytest.raises(
        FitError, match=r"time_limit=1000.0 was over before .* could be certified, which alone takes about \S+ s; raise"
    ):
        model.fit(X, y)
    assert not hasattr(model, "solutions_")
    monkeypatch.undo()
    assert found.ended is Status.TIME_LIMIT
    assert found.certified is None
    assert np.isfinite(found.certificate.relative_gap)


def test_what_a_fit_has_used_is_taken_from_its_limit():
    rng, left = np.random.default_rng(0), []
    X, y = rng.standard_normal((60, 3)), np.arange(60) % 3
    model = SVC(time_limit=1000.0, solver="smo", callback=lambda progress: left.append(model._time_left()))
    model.fit(X, y)
    assert left == sorted(left, reverse=True)
    assert 0.0 < left[-1] < left[0] < 1000.0
    assert model._time_left() == 1000.0  # a later call has all of it


def test_the_last_certified_state_stands_in_for_one_that_cannot_be_certified(monkeypatch):
    rng, calls = np.random.default_rng(0), []
    X, y = rng.standard_normal((300, 3)), np.arange(300) % 2
    real = Certifier.compute

    def compute(self, alpha):
        if calls and not np.array_equal(alpha, calls[0]):
            raise clock.OutOfTime
        calls.append(alpha)
        return real(self, alpha)

    model = SVC(time_limit=1000.0, warm_start=True, callback=lambda progress: None)
    model.fit(X, y)
    monkeypatch.setattr(Certifier, "compute", compute)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model.set_params(C=5.0).fit(X, y)
    monkeypatch.undo()
    (found,) = model.solutions_
    assert found.ended is Status.TIME_LIMIT
    again = certify(found.problem, found.alpha)
    assert found.certificate.gap == pytest.approx(again.gap)
    np.testing.assert_array_equal(found.certificate.alpha, found.alpha)
    assert 1e-6 < found.certificate.relative_gap < 1.0
    assert model.decision_function(X).shape == (300,)


@pytest.mark.parametrize(
    ("wall", "processor", "load"), [(4.0, 1.0, 4.0), (4.0, 8.0, 1.0), (0.1, 0.01, 1.0), (90.0, 1.0, 10.0)]
)
def test_a_busy_machine_makes_a_certificate_take_longer(wall, processor, load, monkeypatch):
    """A sample of some hundredths of a second does not show the load: the time since the start does."""
    certifier, alpha = Certifier(posed(6000)), np.full(6000, 0.1)
    now = {"monotonic": 0.0, "process_time": 0.0}
    for name in now:
        monkeypatch.setattr(clock.time, name, lambda name=name: now[name])
    certifier._timer = clock.Timer()
    certifier._timed = 6000, 1e-9
    idle = certifier.seconds(alpha)
    now |= {"monotonic": wall, "process_time": processor}
    assert certifier.seconds(alpha) == pytest.approx(load * idle)


def test_waiting_for_the_processor_is_not_part_of_the_speed_of_a_product(monkeypatch):
    """A sample that waited for its turn would reserve far too much, and what is there would be given up."""
    problem, now = posed(6000), {"monotonic": 0.0, "process_time": 0.0}

    def product(self, alpha, rows=None, dtype=float):
        now["monotonic"] += 3.0
        now["process_time"] += 0.01
        return np.zeros(len(rows))

    for name in now:
        monkeypatch.setattr(clock.time, name, lambda name=name: now[name])
    certifier = Certifier(problem)
    monkeypatch.setattr(DualProblem, "product", product)
    alpha = np.full(6000, 0.1)
    certifier.seconds(alpha)
    weights, speed = certifier._timed
    assert speed * problem.gram.product_cost(weights, (1 << 22) // weights) == pytest.approx(0.01)


def test_the_price_of_a_certificate_is_measured_on_some_entries(monkeypatch):
    problem, asked = posed(6000), []
    certifier, product = Certifier(problem), DualProblem.product

    def counted(self, alpha, rows=None, dtype=float):
        asked.append(problem.n if rows is None else len(rows))
        return product(self, alpha, rows, dtype)

    monkeypatch.setattr(DualProblem, "product", counted)
    assert certifier.seconds(np.zeros(problem.n)) == 0.0
    assert asked == []
    dear = certifier.seconds(np.full(problem.n, 0.1))
    assert asked[0] == 1  # makes ready what is not of the price
    assert 0 < asked[1] < problem.n // 2
    tenth = certifier.seconds(np.where(np.arange(problem.n) % 5, 0.0, 0.1))
    assert len(asked) == 2
    assert tenth == pytest.approx(0.4 * dear)  # of all, every pair is made once


def test_the_price_is_of_what_a_product_takes():
    """A linear kernel's takes no kernel values, and the two variables of a regression's point have one sum."""
    linear = Certifier(posed(30_000, kernel="linear"))
    assert linear.seconds(np.full(30_000, 0.1)) == 0.0
    X = np.random.default_rng(0).standard_normal((3000, 4))
    tube = Certifier(problems.svr(Gram(X, "rbf"), X[:, 0], C=1.0, epsilon=0.1))
    both = tube.seconds(np.full(6000, 0.1))
    assert tube.seconds(np.repeat([0.1, 0.0], 3000)) == both > 0.0


@pytest.mark.parametrize(("m", "kernel"), [(4, "rbf"), (30, "rbf"), (30, "linear")])
def test_a_limit_that_is_not_reached_changes_no_bit(m, kernel):
    """Not even where its prices are measured on a matrix that is kept once half of it was paid for."""
    found = [solve(posed(2500, m, kernel=kernel), refine="early", time_limit=limit) for limit in (None, 1e4)]
    assert found[0].status is found[1].status is Status.OPTIMAL
    assert (found[0].alpha == found[1].alpha).all()
    assert (found[0].raw_alpha == found[1].raw_alpha).all()
    assert found[0].certificate.gap == found[1].certificate.gap
    assert found[0].certificate.objective == found[1].certificate.objective


def test_the_sums_of_a_point_are_made_once(monkeypatch):
    X, asked = np.random.default_rng(0).standard_normal((50, 2)), []
    problem = problems.svr(Gram(X, "rbf"), X[:, 0], C=1.0, epsilon=0.1)
    alpha, rows, matvec = np.random.default_rng(1).random(100), np.array([70, 3, 20, 4]), Gram.matvec
    monkeypatch.setattr(Gram, "matvec", lambda self, v, rows, dtype: asked.append(rows) or matvec(self, v, rows, dtype))
    product = problem.product(alpha, rows)
    assert [list(points) for points in asked] == [[3, 4, 20]]
    assert product == pytest.approx(problem.dense()[rows] @ alpha)


def test_a_run_without_a_limit_of_its_own_ends_with_that_of_the_work_around_it():
    problem = posed(300)
    with clock.within(time.monotonic() - 1.0):
        with pytest.raises(clock.OutOfTime):
            solve(problem)
        assert solve(problem, time_limit=100.0).ended is Status.TIME_LIMIT


# --- every estimator's --------------------------------------------------------------------------


def drawn(n=120):
    rng = np.random.default_rng(0)
    y = np.arange(n) % 2
    return rng.standard_normal((n, 3)) + 0.5 * y[:, None], y


OVER = 1e-6
X, Y = drawn()


@pytest.mark.parametrize(
    "asked",
    [
        lambda: SVDD(nu="auto", contamination=0.05, time_limit=OVER).fit(X),
        lambda: OneClassSVM(contamination=0.05, time_limit=OVER).fit(X),
        lambda: SVDD().fit(X).set_params(time_limit=OVER).p_values(X[:3]),
        lambda: SVDD().fit(X).set_params(time_limit=OVER).loo_scores_,
        lambda: generalization_report(SVC().fit(X, Y).set_params(time_limit=OVER)),
        lambda: ConformalSVC(SVC(time_limit=OVER)).fit(X, Y),
        lambda: ConformalSVC(SVC(time_limit=OVER), cv=3).fit(X, Y),
    ],
    ids=["SVDD", "OneClassSVM", "p_values", "loo_scores_", "generalization_report", "conformal", "conformal, folds"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_limit_holds_for_models_without_a_point_too(asked):
    with pytest.raises(FitError, match=r"time_limit=1e-06 was over before"):
        asked()


@pytest.mark.parametrize(("call", "norms"), [(1, 0), (3, 2)])
def test_a_front_leaves_out_a_point_whose_products_come_too_late(call, norms, monkeypatch):
    """If it is the first, there is the point of w = 0, whose certificate takes no product."""
    real, calls = path._point, []

    def late(*arguments):
        calls.append(arguments)
        if len(calls) == call:
            clock._deadline.set(0.0)
            clock.check_time()
        return real(*arguments)

    monkeypatch.setattr(path, "_point", late)
    front = pareto_front(X, Y, time_limit=1000.0)
    assert front.status is FrontStatus.TIME_LIMIT
    assert len(front) == max(1, norms)
    assert np.count_nonzero(front.criteria[:, 0]) == norms
    assert all(point.certificate.relative_gap <= (1e-9 if norms else 1.0) for point in front.points)


def test_a_report_takes_the_memory_of_a_block():
    """The values of all support vectors in one block took 200 MB here, and a call that no limit could end."""
    X, y = drawn(5000)
    model = SVC(kernel="linear", C=1e-4).fit(X, y)
    assert model.n_support_.sum() > 4500
    tracemalloc.start()
    report = generalization_report(model, leave_one_out=False)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64e6
    (pair,) = report.pairs
    w = model.coef_[0]
    assert pair.squared_norm == pytest.approx(w @ w, rel=1e-9)


def test_a_factorisation_that_takes_longer_than_the_time_left_is_not_begun(monkeypatch):
    """The time of the sample grows with the third power of the rows: one second for 4 rows is 125 s for 20."""
    now, calls = [0.0], []

    def call(rows):
        calls.append(rows)
        now[0] += 1.0

    monkeypatch.setattr(clock.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(clock, "MAX_ROWS_SAMPLE", 4)
    clock.check_time_cubic(20, call, "it")  # no limit
    with clock.within(1000.0):
        clock.check_time_cubic(20, call, "it")
        clock.check_time_cubic(4, call, "it")
    assert calls == [4]
    with clock.within(100.0), pytest.raises(clock.OutOfTime, match="it of 20 variables takes longer"):
        clock.check_time_cubic(20, call, "it")


def test_eigenvectors_that_take_too_long_end_a_report(monkeypatch):
    X, y = drawn(400)
    model = SVC(C=1e4, gamma=1.0).fit(X, y).set_params(time_limit=1000.0)
    sizes, eigh, now = [], scipy.linalg.eigh, time.monotonic

    def timed(A, **options):
        sizes.append(len(A))
        offset[0] += 200.0
        return eigh(A, **options)

    offset = [0.0]
    monkeypatch.setattr(clock, "MAX_ROWS_SAMPLE", 40)
    monkeypatch.setattr(clock.time, "monotonic", lambda: now() + offset[0])
    monkeypatch.setattr(scipy.linalg, "eigh", timed)
    with pytest.raises(FitError, match=r"time_limit=1000.0 was over before .*: the eigendecomposition of \d+"):
        generalization_report(model)
    assert sizes == [40]


def test_a_limit_within_an_earlier_one_is_that_of_the_work_around_it():
    with clock.within(time.monotonic() + 5.0), pytest.raises(clock.OutOfTime), time_limited(10.0, "it"):
        raise clock.OutOfTime
    with clock.within(time.monotonic() + 50.0), pytest.raises(FitError), time_limited(10.0, "it"):
        raise clock.OutOfTime


def test_a_search_sets_time_aside_for_the_fit_of_the_best():
    X, y = drawn(400)
    times = []

    class Timed(SVC):
        def fit(self, X, y, sample_weight=None):
            times.append((len(X), self.time_limit))
            return super().fit(X, y, sample_weight)

    search = SVCSearchCV(Timed(), {"C": [1.0, 2.0]}, cv=2, time_limit=600.0).fit(X, y)
    n, limit = times[-1]
    assert n == 400
    assert 0 < limit < 600.0
    assert search.best_estimator_.time_limit is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SVC rbf", "SVC linear", "SVC poly", "SVDD contamination", "SVR rbf", "OneClassSVM"])
def test_a_limit_is_kept_by_estimators_of_many_points(name):
    from benchmarks.classical.time_limits import CASES, drawn, timed

    seconds, _, _, said = timed(CASES[name], drawn(200_000), LIMIT)
    assert seconds < LIMIT + SLACK, said
