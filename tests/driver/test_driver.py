"""The driver: limits, interruption, record, warm starts, broken solvers, raw and refined apart."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

import dualflow
from dualflow import Gram, ProblemError, Status, problems, solve
from dualflow.core.solver import EVERY_CONVEX
from dualflow.solvers import Solver
from dualflow.solvers.cvxopt import CVXOPT
from dualflow.solvers.smo import SMO
from dualflow.testing import zoo

ZOO = {z.name: z for z in zoo()}


@dataclass(frozen=True)
class Creeper(Solver):
    """Projected gradient with a step far too short: a solver that is always on its way."""

    step_length: float = 1e-3
    fail_at: int = 0
    fault: str = ""

    name = "creeper"
    kinds = EVERY_CONVEX
    default_max_steps = 10**9

    @dataclass(frozen=True)
    class State:
        alpha: np.ndarray
        k: int

    def start(self, problem, rng, warm=None):
        return self.State(problem.project(np.zeros(problem.n)) if warm is None else warm, 0)

    def step(self, problem, state):
        k = state.k + 1
        alpha = problem.project(state.alpha - self.step_length * problem.gradient(state.alpha))
        if self.fault and k == self.fail_at:
            if self.fault == "interrupt":
                raise KeyboardInterrupt
            alpha = np.where(np.arange(problem.n) == 0, float(self.fault), alpha)
        return replace(state, alpha=alpha, k=k)

    def alpha(self, state):
        return state.alpha

    def finished(self, state):
        return False


@pytest.fixture
def clouds():
    return ZOO["overlapping clouds"].problem


# --- limits ------------------------------------------------------------------------------------


def test_time_limit_returns_what_there_is(clouds):
    solve(clouds, Creeper(), max_steps=1)  # imports: the driver keeps as much time free as its preparations took
    begun = time.monotonic()
    solution = solve(clouds, Creeper(), time_limit=0.1)
    assert 0.1 <= time.monotonic() - begun < 2.0
    assert solution.status is solution.raw_status is Status.TIME_LIMIT
    assert solution.cost.steps > 0
    assert 0 < solution.certificate.relative_gap < np.inf
    assert 0 < solution.cost.wall_time_s <= 2.0


def test_step_limit_is_exact_and_the_last_state_is_certified(clouds):
    solution = solve(clouds, Creeper(), max_steps=7)
    assert solution.status is Status.STEP_LIMIT
    assert solution.cost.steps == 7
    alpha = clouds.project(np.zeros(clouds.n))
    for _ in range(7):
        alpha = clouds.project(alpha - 1e-3 * clouds.gradient(alpha))
    assert np.array_equal(solution.raw_alpha, alpha)


def test_the_tolerance_ends_the_run_as_optimal(clouds):
    loose, tight = (solve(clouds, Creeper(step_length=0.1), tol=tol) for tol in (1e-1, 1e-3))
    assert loose.status is tight.status is Status.OPTIMAL
    assert loose.cost.steps < tight.cost.steps
    assert tight.certificate.relative_gap <= 1e-3


@pytest.mark.parametrize("tol", [0, -1e-6, np.nan, np.inf, "1e-6", None])
def test_tol_must_be_positive_and_finite(clouds, tol):
    with pytest.raises(ProblemError, match="tol="):
        solve(clouds, tol=tol)


@pytest.mark.parametrize(
    ("argument", "value"),
    [("max_steps", 0), ("max_steps", 1.5), ("max_steps", -1), ("time_limit", 0), ("time_limit", -1.0)],
)
def test_limits_out_of_range_are_refused(clouds, argument, value):
    with pytest.raises(ProblemError, match=f"{argument}="):
        solve(clouds, **{argument: value})


# --- interruption ------------------------------------------------------------------------------


@pytest.mark.parametrize("on_interrupt", ["raise", "keep"])
def test_ctrl_c_inside_a_step_leaves_the_state_before_it(clouds, on_interrupt):
    if on_interrupt == "keep":
        solution = solve(clouds, Creeper(fail_at=5, fault="interrupt"), on_interrupt="keep")
    else:
        with pytest.raises(KeyboardInterrupt) as raised:
            solve(clouds, Creeper(fail_at=5, fault="interrupt"))
        solution = raised.value.solution
    assert solution.status is Status.INTERRUPTED
    assert solution.cost.steps == 4
    assert np.array_equal(solution.raw_alpha, solve(clouds, Creeper(), max_steps=4).raw_alpha)


def test_a_real_sigint_is_raised_with_a_solution():
    code = """
        import sys
        sys.path[:0] = [{folder!r}]
        from test_driver import Creeper, ZOO, solve
        printed = []
        def callback(progress):
            if not printed:
                printed.append(print("running", flush=True))
        try:
            solve(ZOO["overlapping clouds"].problem, Creeper(), callback=callback, time_limit=30)
        except KeyboardInterrupt as interrupt:
            solution = interrupt.solution
        print(solution.status.name, solution.cost.steps > 0, solution.certificate.relative_gap < 1e9)
    """
    code = textwrap.dedent(code.format(folder=os.path.dirname(__file__)))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline().strip() == "running"
        child.send_signal(signal.SIGINT)
        out, _ = child.communicate(timeout=20)
    finally:
        child.kill()
    assert out.split() == ["INTERRUPTED", "True", "True"]
    assert child.returncode == 0


def test_callback_sees_every_step_and_can_stop(clouds):
    seen = []

    def callback(progress):
        seen.append(progress)
        return progress.step == 3

    solution = solve(clouds, Creeper(), callback=callback)
    assert solution.status is Status.STOPPED
    assert [progress.step for progress in seen] == [1, 2, 3] == [progress.time for progress in seen]
    assert np.array_equal(seen[-1].alpha, solution.raw_alpha)
    assert seen[-1].certificate.objective == solution.raw_certificate.objective < seen[0].certificate.objective


def test_an_error_in_the_callback_is_the_callers_own(clouds):
    def callback(progress):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        solve(clouds, Creeper(), callback=callback)


def test_time_in_the_callback_is_not_the_solvers(clouds):
    solution = solve(clouds, SMO(), callback=lambda progress: time.sleep(0.2), max_steps=1)
    assert solution.cost.wall_time_s < 0.15


# --- record ------------------------------------------------------------------------------------


def test_trajectory_is_what_the_certificates_say(clouds):
    solution = solve(clouds, Creeper(step_length=0.05), trajectory=True, max_steps=12)
    path = solution.trajectory
    assert path.alpha.shape == (13, clouds.n)
    assert np.array_equal(path.t, np.arange(13.0))
    for alpha, nu, survivors, objective, gap in zip(
        path.alpha, path.multiplier, path.survivors, path.objective, path.gap, strict=True
    ):
        certificate = dualflow.certify(clouds, alpha)
        assert (nu, objective, gap) == (certificate.multiplier, certificate.objective, certificate.relative_gap)
        assert survivors == np.sum(alpha > 1e-8 * alpha.max(initial=0.0))
    assert (np.diff(path.objective) < 0).all()


def test_without_an_equality_the_multiplier_is_nan():
    path = solve(ZOO["box clouds"].problem, Creeper(), trajectory=True, max_steps=2).trajectory
    assert np.isnan(path.multiplier).all()


def test_no_trajectory_unless_requested(clouds):
    assert solve(clouds, max_steps=1).trajectory is None


class Sparse(Creeper):
    """Certified every fifth step only."""

    certify_every = 5


def test_recording_does_not_move_the_end_of_a_run(clouds):
    plain = solve(clouds, Sparse(step_length=0.1), tol=1e-2)
    recorded = solve(clouds, Sparse(step_length=0.1), tol=1e-2, trajectory=True)
    assert plain.cost.steps % 5 == 0
    assert plain.cost.steps == recorded.cost.steps
    # The tolerance was met before, between two certificates, or this test says nothing.
    assert recorded.trajectory.gap[-2] <= 1e-2


# --- warm starts -------------------------------------------------------------------------------


def test_warm_start_takes_fewer_steps():
    problem = ZOO["moons C = 1000"].problem
    cold = solve(problem, "smo", tol=1e-8)
    warm = solve(problem, "smo", warm=cold, tol=1e-6)
    assert cold.cost.steps >= 1
    assert warm.cost.steps == 0
    assert warm.status is Status.OPTIMAL
    near = solve(ZOO["overlapping clouds"].problem, Creeper(step_length=0.1), tol=1e-4)
    again = solve(ZOO["overlapping clouds"].problem, Creeper(step_length=0.1), tol=1e-5, warm=near.alpha)
    whole = solve(ZOO["overlapping clouds"].problem, Creeper(step_length=0.1), tol=1e-5)
    assert 0 < again.cost.steps < whole.cost.steps


def test_warm_start_is_projected(clouds):
    solution = solve(clouds, Creeper(), warm=np.full(clouds.n, 1e6), max_steps=1, trajectory=True)
    assert np.array_equal(solution.trajectory.alpha[0], clouds.project(np.full(clouds.n, 1e6)))


@pytest.mark.parametrize("warm", [np.zeros(3), np.full(24, np.nan), np.zeros((24, 1))])
def test_warm_start_of_the_wrong_kind_is_refused(clouds, warm):
    with pytest.raises(ProblemError, match="warm must be 24 finite numbers"):
        solve(clouds, warm=warm)


# --- what goes wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_broken_solver_leaves_its_last_finite_state(clouds, value):
    solution = solve(clouds, Creeper(fail_at=4, fault=value))
    assert solution.status is Status.BROKEN
    assert np.array_equal(solution.raw_alpha, solve(clouds, Creeper(), max_steps=3).raw_alpha)
    assert np.isfinite(solution.certificate.objective)


def test_a_broken_solver_is_not_refined_into_a_good_one(clouds):
    assert solve(clouds, Creeper(fail_at=4, fault="nan"), refine=True).status is Status.BROKEN


@dataclass(frozen=True)
class Garbage(SMO):
    """Ends immediately, at a feasible point that is unrelated to the problem."""

    name = "garbage"

    def step(self, problem, state):
        alpha = problem.project(np.random.default_rng(3).uniform(0, 2, problem.n))
        return replace(state, alpha=alpha, violation=0.0)


def test_refinement_mends_garbage_and_both_stay_in_sight(clouds):
    raw, refined = (solve(clouds, Garbage(), refine=refine) for refine in (False, True))
    assert raw.certificate is raw.raw_certificate
    assert not raw.refined
    assert raw.status is Status.FINISHED
    assert raw.cost.refine_time_s == 0
    assert refined.refined
    assert refined.raw_certificate.relative_gap == raw.certificate.relative_gap > 0.1
    assert np.array_equal(refined.raw_alpha, raw.raw_alpha)
    assert refined.certificate.relative_gap <= 1e-8
    assert refined.certificate.objective == pytest.approx(ZOO["overlapping clouds"].optimum, rel=1e-8)
    assert refined.raw_status is Status.FINISHED
    assert refined.status is Status.OPTIMAL
    assert refined.cost.refine_time_s > 0


def test_solve_does_not_refine_unless_requested(clouds):
    assert not solve(clouds, Garbage()).refined


@pytest.mark.parametrize("solver", [SMO(), CVXOPT(), Creeper(step_length=0.1)], ids=lambda solver: solver.name)
@pytest.mark.parametrize("refine", [False, True])
def test_not_separable_comes_with_a_witness(solver, refine):
    for z in ZOO.values():
        if z.has_answer or z.problem.model != "hinge":
            continue
        solution = solve(z.problem, solver, refine=refine, max_steps=200)
        assert solution.status is Status.NOT_SEPARABLE, z.name
        v, X, y = solution.witness, z.problem.gram.X, z.problem.sigma
        assert (v >= 0).all()
        assert v.sum() == pytest.approx(1)
        assert (v * y) @ X == pytest.approx(np.zeros(X.shape[1]), abs=1e-5)
        assert z.problem.e is None or v @ y == pytest.approx(0, abs=1e-12)


def test_separable_data_have_no_witness():
    for name in ("hard margin six points", "hard margin three points", "hard margin no bias"):
        solution = solve(ZOO[name].problem)
        assert solution.status is Status.OPTIMAL
        assert solution.witness is None


def test_noisy_clouds_with_a_hard_margin_are_not_separable_for_the_linear_kernel():
    z = ZOO["Gram of rank 2"]
    problem = problems.svc(Gram(z.problem.gram.X, kernel="linear"), z.problem.sigma, C=np.inf)
    solution = solve(problem, max_steps=100)
    assert solution.status is Status.NOT_SEPARABLE
    v, y = solution.witness, problem.sigma
    assert np.linalg.norm((v * y) @ problem.gram.X) <= 1e-5


def test_an_indefinite_kernel_gives_no_number():
    K = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    problem = problems.svc(Gram.precomputed(K), [1, -1, 1], C=1.0)
    solution = solve(problem, SMO())
    assert solution.certificate.gap is None
    assert solution.certificate.relative_gap is None
    assert solution.status is Status.STATIONARY
    with pytest.raises(dualflow.SolverMismatch, match="positive semidefinite"):
        solve(problem, CVXOPT())


# --- the provenance ----------------------------------------------------------------------------


def test_provenance_says_how_to_repeat_the_run(clouds):
    solution = solve(clouds, "smo", kkt_tol=1e-9, random_state=17)
    provenance = solution.provenance
    assert provenance["solver"] == "smo"
    assert provenance["options"] == {"kkt_tol": 1e-9}
    assert provenance["seed"] == 17
    assert provenance["versions"]["numpy"] == np.__version__
    assert provenance["versions"]["dualflow"] == dualflow.__version__
    drawn = [solve(clouds, random_state=np.random.default_rng(s)).provenance["seed"] for s in (1, 1, 2)]
    assert drawn[0].startswith("generator ")
    assert drawn[0] == drawn[1] != drawn[2]


def test_cost_counts_steps_and_kernel_columns(clouds):
    fresh = zoo(max_n=24)
    problem = next(z.problem for z in fresh if z.name == "overlapping clouds")
    first = solve(problem, "smo")
    assert first.cost.steps == solve(problem, "smo").cost.steps
    assert first.cost.kernel_columns >= problem.n
    assert solve(problem, "smo").cost.kernel_columns == first.cost.kernel_columns  # every run pays for its own
    assert first.cost.circuits == first.cost.shots == first.cost.qubits == 0
    assert first.cost.classical_share == 1.0


def test_every_status_is_a_sentence():
    assert all(status.text.endswith(".") and len(status.text) > 20 for status in Status)


def test_options_go_with_a_name_and_not_with_an_instance(clouds):
    with pytest.raises(TypeError, match="kkt_tol"):
        solve(clouds, SMO(), kkt_tol=1e-3)


def test_solvers_that_claim_to_draw_nothing_leave_the_generator_alone():
    from dualflow import list_solvers
    from dualflow.driver import run
    from dualflow.solvers.registry import solver_class
    from dualflow.testing.problem_zoo import zoo

    before = run.UNUSED_GENERATOR.bit_generator.state
    seen = set()
    for info in list_solvers():
        cls = solver_class(info.name)
        for z in zoo():
            if not cls.stochastic and not cls.missing() and not cls().mismatch(z.problem):
                seen.add(info.name)
                solve(z.problem, info.name, max_steps=2, random_state=5)
                break
    classical = {"gradient-flow", "lotka-volterra", "working-set", "smo", "frank-wolfe", "interior-point", "cvxopt"}
    assert seen - {"qpsolvers"} == classical | {"incremental", "invasion", "cascade", "level-search"}
    assert run.UNUSED_GENERATOR.bit_generator.state == before
