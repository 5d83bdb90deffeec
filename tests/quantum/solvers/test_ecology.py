"""quantum-invasion with more points than a block, against CVXOPT, dense algebra, and resumed runs."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dualflow
from dualflow import Gram, ProblemError, Status, problems
from dualflow.core.workspace import Workspace
from dualflow.quantum.devices.controls import ClassicalSamplerDevice
from dualflow.quantum.solvers import quantum_invasion
from dualflow.quantum.solvers.quantum_invasion import QuantumInvasion

SOLVER = "quantum-invasion"
FAST = {"device": "classical-sampler", "block": 16, "refine": False, "random_state": 0}


def posed(model="l2", n=60, C=10.0):
    X, y = make_moons(n, noise=0.2, random_state=3)
    gram = Gram(X, kernel="rbf", gamma=1.0)
    if model == "svdd":
        return problems.svdd(gram)
    loss = "squared_hinge" if model == "l2" else "hinge"
    return problems.svc(gram, 2.0 * y - 1, C, loss=loss, fit_intercept=model != "no bias")


def excess(problem, alpha):
    best = dualflow.solve(problem, "cvxopt", tol=1e-10).certificate.objective
    return (problem.objective(problem.project(alpha)) - best) / abs(best)


@pytest.mark.parametrize("model", ["l2", "svdd"])
def test_a_problem_of_more_points_than_outcomes_is_solved_on_few_qubits(model):
    problem = posed(model)
    found = dualflow.solve(problem, SOLVER, tol=1e-4, **FAST)
    assert found.raw_status is Status.OPTIMAL
    assert found.raw_certificate.relative_gap <= 1e-4
    assert -1e-8 <= excess(problem, found.raw_alpha) <= 1e-4
    assert found.cost.qubits == 4
    assert found.provenance["blocks"] > 2
    assert found.provenance["visited"] < problem.n  # some variables were in no block
    assert np.isclose(found.raw_alpha.sum(), 1.0)


@pytest.mark.parametrize(
    ("inner", "model"), [("variational-lotka-volterra", "no bias"), ("hamiltonian-dilation", "svdd")]
)
def test_other_solvers_take_blocks_too(inner, model):
    problem = posed(model, 40, 1.0)
    found = dualflow.solve(problem, SOLVER, inner=inner, tol=1e-3, time_limit=20, **FAST)
    assert 0 < excess(problem, found.raw_alpha) <= 1e-3
    assert found.provenance["inner"] == inner
    assert found.cost.qubits <= 5


@pytest.mark.parametrize("device", ["null", "control:random"])
def test_control_devices_stay_far_from_the_optimum(device):
    problem = posed("svdd")
    right = dualflow.solve(problem, SOLVER, tol=1e-3, **FAST)
    most = 3 * right.cost.steps
    wrong = dualflow.solve(problem, SOLVER, tol=1e-3, max_steps=most, **FAST | {"device": device})
    assert excess(problem, wrong.raw_alpha) > 10 * 1e-3 > 10 * excess(problem, right.raw_alpha)


def test_from_shots_it_ends_near_the_floor_of_a_circuit():
    problem, shots = posed("svdd", 30), 10_000
    best = dualflow.solve(problem, "working-set", tol=1e-12, refine=True).alpha
    draws = (np.random.default_rng(s).multinomial(shots, best / best.sum()) / shots for s in range(51))
    floor = np.median([excess(problem, draw) for draw in draws])
    runs = [dualflow.solve(problem, SOLVER, shots=shots, **FAST | {"random_state": s}) for s in range(3)]
    assert all(run.raw_status is Status.FINISHED for run in runs)
    assert np.median([excess(problem, run.raw_alpha) for run in runs]) <= 3 * floor


class Counting(ClassicalSamplerDevice):
    """Counts circuits and shots."""

    def __init__(self):
        super().__init__()
        self.circuits = self.shots = 0

    def _run(self, circuit, values, shots, seed):
        self.circuits += len(values)
        self.shots += len(values) * (shots or 0)
        return super()._run(circuit, values, shots, seed)


def test_the_account_counts_all_blocks():
    device = Counting()
    found = dualflow.solve(posed("svdd"), SOLVER, shots=200, final_shots=1000, **FAST | {"device": device})
    assert found.provenance["blocks"] > 2
    assert (found.cost.circuits, found.cost.shots) == (device.circuits, device.shots)
    assert 0 < found.cost.device_time_s <= found.cost.wall_time_s
    assert 0 < found.cost.classical_share < 1


@pytest.mark.parametrize("shots", [None, 500])
def test_a_run_resumes_within_a_block_to_the_same_bits(shots, tmp_path):
    problem, options = posed(n=40), {"shots": shots, "tol": 1e-3, "max_steps": 60} | FAST
    whole = dualflow.solve(problem, SOLVER, **options)
    for steps in (1, 17, 31, 60):
        part = dualflow.solve(problem, SOLVER, checkpoint=tmp_path / "run", **options | {"max_steps": steps})
    assert np.array_equal(part.raw_alpha, whole.raw_alpha)
    assert part.cost.circuits == whole.cost.circuits


def test_a_budget_ends_a_run_and_the_journal_continues_it(tmp_path):
    problem, options = posed("svdd", 24), {"shots": 100, "inner_options": {"steps": 8}} | FAST | {"block": 8}
    whole, device = dualflow.solve(problem, SOLVER, **options), Counting()
    options |= {"device": device, "journal": tmp_path / "jobs"}
    cut = dualflow.solve(problem, SOLVER, max_shots=1500, **options)
    assert cut.raw_status is Status.BUDGET_SPENT
    assert cut.cost.shots == device.shots == 1500
    rest = dualflow.solve(problem, SOLVER, **options)
    assert np.array_equal(rest.raw_alpha, whole.raw_alpha)
    assert rest.cost.shots == device.shots  # nothing was sent twice


def test_the_shot_budget_limits_the_whole_run():
    found = dualflow.solve(posed("svdd"), SOLVER, shots=100, shot_budget=7250, **FAST)
    assert found.raw_status is Status.FINISHED
    assert found.cost.shots <= 7250
    assert found.provenance["blocks"] >= 2


@pytest.mark.parametrize("model", ["l2", "svdd", "hinge", "no bias"])
def test_f_of_a_block_is_f_of_the_problem_up_to_a_constant(model):
    problem, rng = posed(model), np.random.default_rng(0)
    alpha = problem.project(rng.uniform(0, 0.05, problem.n))
    index = np.sort(rng.permutation(problem.n)[:13])
    block = quantum_invasion.block_problem(problem, alpha, problem.gradient(alpha), index)
    assert block.kind is problem.kind
    other = block.project(alpha[index] + rng.normal(0, 0.1, 13))
    after = alpha.copy()
    after[index] = other
    change = block.objective(other) - block.objective(alpha[index])
    assert change == pytest.approx(problem.objective(after) - problem.objective(alpha), rel=1e-9)
    assert problem.infeasibility(after) <= 1e-12


def test_survivors_stay_and_the_best_invaders_join_them():
    problem = posed("svdd")
    best = dualflow.solve(problem, "cvxopt", tol=1e-10).certificate.alpha
    alive, never = np.flatnonzero(quantum_invasion.is_survivor(best)), np.zeros(problem.n, dtype=int)
    # One survivor is removed: it must come back as an invader, and the others must stay.
    gone = best.copy()
    gone[alive[0]] = 0.0
    gone /= gone.sum()
    block = quantum_invasion.next_block(problem, gone, problem.gradient(gone), never, len(alive) + 8)
    assert set(alive) <= set(block)
    assert len(block) <= len(alive) + 8
    # Too many survivors take turns: those of the last block wait.
    visited = never.copy()
    visited[alive[:5]] = 1
    few = quantum_invasion.next_block(problem, best, problem.gradient(best), visited, 4)
    assert len(few) == 4
    assert len(set(few) & set(alive[:5])) <= 1


def test_the_noise_is_the_mean_excess_of_sampled_answers():
    problem, shots = posed("l2"), 1000
    alpha = np.random.default_rng(0).dirichlet(np.ones(problem.n))
    found = quantum_invasion.noise_excess(problem, alpha, problem.gradient(alpha), shots)
    draws = [np.random.default_rng(s).multinomial(shots, alpha) / shots for s in range(2000)]
    added = np.array([problem.objective(draw) for draw in draws]) - problem.objective(alpha)
    assert abs(added.mean() - found) <= 4 * added.std() / np.sqrt(len(added))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inner": "working-set"}, "runs no circuits.*'invasion'"),
        ({"inner": "hhl"}, "bounded"),
        ({"inner": SOLVER}, "inner="),
        ({"shots": "adaptive"}, "set a number"),
        ({"block": 1}, "block=1"),
        ({"inner_options": 3}, "must be a dict"),
        ({"inner_options": {"device": "aer"}}, "'device' is an option of 'quantum-invasion' itself"),
    ],
)
def test_bad_options_are_refused(options, words):
    with pytest.raises(ProblemError, match=words):
        QuantumInvasion(**options)
    with pytest.raises(TypeError, match="stepz"):
        QuantumInvasion(inner_options={"stepz": 3})


def test_problems_of_other_kinds_are_refused_by_the_inner_solvers_kinds():
    with pytest.raises(dualflow.SolverMismatch, match="squared_hinge"):
        dualflow.solve(posed("hinge"), SOLVER, **FAST)
    assert QuantumInvasion(inner="variational-lotka-volterra").mismatch(posed("hinge")) is None


def test_an_estimator_is_fitted_by_it():
    X, y = make_moons(30, noise=0.2, random_state=3)
    options = {"device": "emulator", "block": 16}
    model = dualflow.SVC(loss="squared_hinge", gamma=1.0, solver=SOLVER, solver_options=options, tol=1e-2, refine=False)
    assert model.fit(X, y).score(X, y) > 0.9


def test_it_is_pickled_and_copied():
    solver = QuantumInvasion(inner="variational-lotka-volterra", block=5, device="null", inner_options={"steps": 3})
    for other in (pickle.loads(pickle.dumps(solver)), copy.deepcopy(solver)):
        assert other == solver
        assert (other.kinds, other.state_type) == (solver.kinds, solver.state_type)


def test_options_and_warm_start_are_not_changed():
    problem, given = posed("svdd"), {"steps": 3}
    solver = QuantumInvasion(inner_options=given, **{k: FAST[k] for k in ("device", "block")})
    given["steps"] = 5
    assert solver.inner_options == {"steps": 3}
    work = Workspace(problem)
    context, warm = solver.open(problem, work), np.full(problem.n, 1 / problem.n)
    warm.flags.writeable = False
    state = solver.start(context, np.random.default_rng(0), warm)
    before = state.alpha.copy(), state.h.copy(), state.visited.copy()
    later = state
    for _ in range(40):
        later = solver.step(context, later)
    assert later.blocks > 0
    assert all(np.array_equal(a, b) for a, b in zip(before, (state.alpha, state.h, state.visited), strict=True))
