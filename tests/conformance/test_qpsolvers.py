"""`qpsolvers`, every backend that is installed: the test kit, the options in its own terms, faults, limits."""

import importlib.util
import pickle
import threading
import warnings

import numpy as np
import pytest

from dualflow import SVC, Gram, ProblemError, SolverMismatch, SolverUnavailable, Status, list_solvers, problems, solve
from dualflow.core.runtime import clock, memory
from dualflow.solvers import qpsolvers
from dualflow.solvers.qpsolvers import BACKENDS, QPSolvers
from dualflow.testing import check_solver
from tests.combinations import often

library = pytest.importorskip("qpsolvers", reason="qpsolvers is not installed: pip install 'dualflow[qpsolvers]'")
INSTALLED = [name for name, known in BACKENDS.items() if importlib.util.find_spec(known.package) is not None]


def clouds(n=40, C=1.0, seed=0, **more):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    return problems.svc(Gram(rng.standard_normal((n, 2)) + 0.7 * y[:, None], gamma=0.5), y, C=C, **more)


@pytest.fixture
def calls(monkeypatch):
    """The options of every call, which is made."""
    found, real = [], library.solve_problem

    def solve_problem(problem, solver, **options):
        found.append({"solver": solver, **options})
        return real(problem, solver=solver, **options)

    monkeypatch.setattr(library, "solve_problem", solve_problem)
    return found


@pytest.mark.parametrize("backend", often(INSTALLED, *INSTALLED[:1]))
def test_every_backend_conforms(backend):
    report = check_solver(QPSolvers(backend=backend))
    assert report.failed == {}
    assert len(report.gaps) > 20


@pytest.mark.parametrize("backend", INSTALLED)
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
def test_alpha_and_multiplier_are_cvxopts(backend, C):
    problem = clouds(C=C)
    ours, theirs = (
        solve(problem, name, tol=1e-9, trajectory=True, **more)
        for name, more in (("qpsolvers", {"backend": backend}), ("cvxopt", {}))
    )
    assert ours.certificate.relative_gap < 1e-8
    np.testing.assert_allclose(ours.alpha, theirs.alpha, rtol=0, atol=2e-5 * theirs.alpha.max())
    low, high = ours.certificate.bias_interval
    if high - low < 1e-6:
        assert ours.trajectory.multiplier[-1] == pytest.approx(theirs.trajectory.multiplier[-1], abs=1e-5)


@pytest.mark.parametrize("backend", INSTALLED)
def test_the_multiplier_is_in_units_of_the_problem(backend):
    X = np.linspace(0, 6, 30)[:, None]
    problem = problems.svr(Gram(X, gamma=0.5), 100.0 * np.sin(X[:, 0]) + 7.0, C=50.0)
    ours, theirs = (
        solve(problem, name, tol=1e-9, trajectory=True, **more)
        for name, more in (("qpsolvers", {"backend": backend}), ("cvxopt", {}))
    )
    low, high = ours.certificate.bias_interval
    assert high - low < 1e-3  # else any number between them would do
    assert ours.trajectory.multiplier[-1] == pytest.approx(theirs.trajectory.multiplier[-1], abs=1e-3)
    assert abs(theirs.trajectory.multiplier[-1]) > 1.0


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("backend", INSTALLED)
def test_units_of_the_kernel_do_not_matter(backend, scale):
    problem = clouds()
    X = Gram.precomputed(scale * problem.gram.full())
    for posed in (problems.svc(X, problem.sigma, C=1 / scale), problems.svdd(X, nu=0.3)):
        assert solve(posed, "qpsolvers", backend=backend, tol=1e-8).certificate.relative_gap < 1e-8


@pytest.mark.parametrize("backend", INSTALLED)
def test_the_tolerance_reaches_a_backend_in_its_own_terms_and_is_tightened_until_the_gap_is_certified(backend, calls):
    problem = clouds(C=100.0)
    found = solve(problem, "qpsolvers", backend=backend, tol=1e-8, eps=1e-1)
    assert found.status is Status.OPTIMAL
    assert found.cost.steps == len(calls) > 1
    name = "tol_feas" if backend == "clarabel" else "eps_abs"
    assert [call[name] for call in calls] == pytest.approx([0.1 * 100.0**-k for k in range(len(calls))])
    calls.clear()
    solve(problem, "qpsolvers", backend=backend, tol=1e-5)
    assert calls[0][name] == pytest.approx(1e-6)
    assert found.provenance["backend"] == backend
    assert "olved" in found.provenance["backend_said"].lower()


@pytest.mark.parametrize("backend", INSTALLED)
def test_classes_that_overlap_have_a_witness(backend):
    found = solve(clouds(C=np.inf, n=60), "qpsolvers", backend=backend)
    if found.status is not Status.NOT_SEPARABLE:  # RBF separates all distinct points
        assert found.certificate.relative_gap < 1e-6
    line = problems.svc(Gram([[0.0], [2.0], [1.0]], kernel="linear"), [1, 1, -1], C=np.inf)
    found = solve(line, "qpsolvers", backend=backend)
    assert found.status is Status.NOT_SEPARABLE
    v = found.witness
    assert v @ line.product(v) == pytest.approx(0, abs=1e-12)


def test_the_default_is_the_first_that_is_installed(monkeypatch, calls):
    solve(clouds(), "qpsolvers")
    assert calls[0]["solver"] == INSTALLED[0]
    monkeypatch.setattr(qpsolvers, "find_spec", lambda name: None if name == BACKENDS[INSTALLED[0]].package else True)
    assert QPSolvers().chosen() == list(BACKENDS)[list(BACKENDS).index(INSTALLED[0]) + 1]


def test_what_is_not_installed_is_unavailable_with_the_pip_line(monkeypatch):
    monkeypatch.setattr(qpsolvers, "find_spec", lambda name: None)
    with pytest.raises(SolverUnavailable, match=r"osqp is not installed: pip install 'dualflow\[qpsolvers\]'"):
        solve(clouds(), "qpsolvers", backend="osqp")
    with pytest.raises(SolverUnavailable, match="piqp or clarabel or osqp or proxqp is not installed"):
        solve(clouds(), "qpsolvers")
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "qpsolvers" else real(name, *a))
    with pytest.raises(SolverUnavailable, match=r"needs qpsolvers.*pip install 'dualflow\[qpsolvers\]'"):
        solve(clouds(), "qpsolvers")
    assert {row.name: row.install for row in list_solvers()}["qpsolvers"] == "pip install 'dualflow[qpsolvers]'"


def test_a_wrong_backend_is_named():
    with pytest.raises(ProblemError, match="backend='gurobi' is not one of 'piqp', 'clarabel', 'osqp', 'proxqp', None"):
        solve(clouds(), "qpsolvers", backend="gurobi")
    with pytest.raises(ProblemError, match="eps=0"):
        QPSolvers(eps=0)


class PanicException(BaseException):
    pass


@pytest.mark.parametrize("error", [ValueError("not convex"), PanicException("not convex")])
def test_what_a_backend_raises_is_a_mismatch_in_its_words(error, monkeypatch):
    def refuse(*args, **kwargs):
        raise error

    monkeypatch.setattr(library, "solve_problem", refuse)
    with pytest.raises(SolverMismatch, match=r"refuses the problem: not convex; try 'working-set'"):
        solve(clouds(), "qpsolvers")


@pytest.mark.parametrize("wrapped", [False, True])
def test_ctrl_c_in_a_call_gives_the_state_before_it(wrapped, monkeypatch):
    def strike(*args, **kwargs):
        if not wrapped:
            raise KeyboardInterrupt
        try:
            raise KeyboardInterrupt
        except BaseException as error:  # as qpsolvers does with clarabel
            raise library.ProblemError("Solver failed to build problem") from error

    monkeypatch.setattr(library, "solve_problem", strike)
    problem = clouds()
    warm = problem.project(np.full(problem.n, 0.3))
    found = solve(problem, "qpsolvers", warm=warm, on_interrupt="keep")
    assert found.status is Status.INTERRUPTED
    assert np.array_equal(found.raw_alpha, warm)


@pytest.mark.parametrize("backend", [name for name in INSTALLED if BACKENDS[name].time_option])
def test_a_backend_that_knows_limits_is_told_what_is_left(backend, calls):
    solve(clouds(), "qpsolvers", backend=backend, time_limit=50.0)
    solve(clouds(), "qpsolvers", backend=backend)
    assert 40.0 < calls[0]["time_limit"] <= 50.0
    assert "time_limit" not in calls[-1]
    with clock.within(None):
        assert clock.seconds_left() is None
    with clock.within(0.0):
        assert clock.seconds_left() == 0.0


def test_a_call_that_falls_short_leaves_the_answer_before_it(monkeypatch):
    real, count = library.solve_problem, []

    def tire(problem, solver, **options):
        found = real(problem, solver=solver, **options)
        count.append(1)
        if len(count) > 1:
            found.found, found.x = False, 0.0 * found.x
        return found

    monkeypatch.setattr(library, "solve_problem", tire)
    found = solve(clouds(C=100.0), "qpsolvers", tol=1e-13, eps=1e-2)
    assert found.status is Status.FINISHED
    assert len(count) == 2
    assert found.raw_alpha.max() > 1.0


def test_what_cannot_fit_is_refused_before_it_is_made(monkeypatch):
    monkeypatch.setattr(memory, "memory_bytes", lambda: 10_000)
    with pytest.raises(ProblemError, match=r"backend='clarabel' of n=40 takes .* GB .*'working-set'"):
        solve(clouds(), "qpsolvers", backend="clarabel")
    with pytest.raises(SolverMismatch, match="at most 5000 variables"):
        QPSolvers().check(problems.svdd(Gram(np.zeros((5001, 1)))))


@pytest.mark.parametrize("backend", INSTALLED)
def test_threads_get_the_same_bits_and_leave_the_filters_of_warnings(backend):
    filters, problem, found = list(warnings.filters), clouds(), []
    line = problems.svc(Gram([[0.0], [2.0], [1.0], [1.0]], kernel="linear"), [1, 1, -1, -1], C=np.inf)

    def work():
        found.append(solve(problem, "qpsolvers", backend=backend, tol=1e-9).alpha.tobytes())
        solve(line, "qpsolvers", backend=backend)  # of which backends warn

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert warnings.filters == filters


@pytest.mark.parametrize("backend", INSTALLED)
def test_it_prints_nothing_and_changes_nothing_of_the_callers(backend, capfd):
    X = np.array([[0.0], [2.0]])
    y = np.array([1, -1])
    model = SVC(solver="qpsolvers", solver_options={"backend": backend}, kernel="linear", fit_intercept=False).fit(X, y)
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == model.predict(X).tolist()
    assert (X.tolist(), y.tolist()) == ([[0.0], [2.0]], [1, -1])
    assert capfd.readouterr() == ("", "")
