"""The variational flow against CVXOPT, the shot floor, the two controls, and its own equations."""

import dataclasses
import importlib.util

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from sklearn.datasets import make_moons

import dualflow
from dualflow import DeviceError, DualProblem, Gram, ProblemError, SolverMismatch, SolverUnavailable, VariationalFlow
from dualflow.core.workspace import Workspace
from dualflow.flows.gradient import GradientField
from dualflow.quantum.circuits import TreeCircuit, encoding
from dualflow.quantum.devices import Capabilities, make_device
from dualflow.quantum.solvers.ansatz import ANSAETZE, make_ansatz
from dualflow.quantum.solvers.variational_flow import coupled_step, sampling_variance, semi_implicit_step
from tests.combinations import covering

SHOTS = 10_000


def moons(n, C, seed=0):
    """Squared hinge on two moons, or hard SVDD for C=None."""
    X, y = make_moons(n, noise=0.15, random_state=seed)
    gram = Gram(X, kernel="rbf", gamma=1.0)
    return (
        dualflow.problems.svdd(gram) if C is None else dualflow.problems.svc(gram, 2 * y - 1, C, loss="squared_hinge")
    )


def optimum(problem):
    solution = dualflow.solve(problem, "cvxopt", tol=1e-9)
    alpha = np.maximum(solution.alpha, 0)
    return alpha / alpha.sum() * problem.d


def excess(problem, alpha, best):
    """(f − f*)/|f*| of the projection: unlike the certified gap it falls with 1/shots, not 1/√shots."""
    f = problem.objective(best)
    return (problem.objective(problem.project(alpha)) - f) / abs(f)


def gap(problem, alpha, best):
    return dualflow.certify(problem, alpha).relative_gap


def shot_floor(measure, problem, best, shots=SHOTS):
    draws = [np.random.default_rng(seed).multinomial(shots, best) / shots for seed in range(50)]
    return np.median([measure(problem, draw, best) for draw in draws])


# --- exact distributions -----------------------------------------------------------------------


@pytest.mark.parametrize("C", [1.0, 10.0, None], ids=["C=1", "C=10", "svdd"])
@pytest.mark.parametrize("n", [5, 12, 16, 32, 64])
def test_exact_mode_reaches_the_optimum(n, C):
    problem = moons(n, C)
    solution = dualflow.solve(problem, "variational-flow")
    best = optimum(problem)
    assert solution.status is dualflow.Status.OPTIMAL
    assert solution.raw_certificate.relative_gap <= 1e-6
    assert abs(excess(problem, solution.raw_alpha, best)) <= 1e-6
    assert solution.raw_certificate.infeasibility <= 1e-12
    assert solution.cost.circuits == solution.cost.steps + 1 <= 60
    assert solution.cost.shots == 0
    qubits = encoding.qubits_for(n)
    assert (solution.cost.qubits, solution.cost.two_qubit_gates) == (qubits, 2**qubits - 2)
    np.testing.assert_allclose(solution.extras["parameter_alpha"], solution.raw_alpha, atol=1e-12)
    assert solution.provenance["padded_size"] == 2**qubits
    assert ("padded with" in solution.provenance["padding"]) == (n != 2**qubits)


@pytest.mark.parametrize(
    "device", ["emulator", "pennylane:lightning.qubit", "pennylane:default.qubit", "classical-sampler"]
)
def test_every_exact_device_takes_the_same_path(device):
    problem = moons(12, 1.0)
    ours = dualflow.solve(problem, "variational-flow", device=device)
    aer = dualflow.solve(problem, "variational-flow")
    np.testing.assert_allclose(ours.raw_alpha, aer.raw_alpha, atol=1e-9)
    assert ours.provenance["device"] == device


def test_exact_mode_comes_to_rest_by_itself():
    problem = moons(16, 1.0)
    solution = dualflow.solve(problem, "variational-flow", device="classical-sampler", tol=1e-300)
    assert solution.raw_status is dualflow.Status.FINISHED
    assert solution.cost.steps < 150
    assert solution.raw_certificate.relative_gap < 1e-8


def test_f_never_rises():
    objective = dualflow.solve(
        moons(32, 10.0), VariationalFlow("classical-sampler"), trajectory=True
    ).trajectory.objective
    assert (np.diff(objective) <= 0).all()
    assert objective[-1] < objective[0]


@pytest.mark.parametrize("vertex", [0, 15])
def test_a_run_leaves_a_start_in_a_wrong_corner(vertex):
    problem = moons(16, None)
    warm = np.eye(16)[vertex]
    solver = VariationalFlow("classical-sampler")
    state = solver.start(solver.open(problem, Workspace(problem)), np.random.default_rng(0), warm)
    np.testing.assert_allclose(VariationalFlow().alpha(state), warm, atol=1e-9)
    assert dualflow.solve(problem, "variational-flow", warm=warm).status is dualflow.Status.OPTIMAL


def test_a_warm_start_at_the_optimum_is_the_optimum():
    problem = moons(12, 1.0)
    best = optimum(problem)
    solution = dualflow.solve(problem, "variational-flow", warm=best)
    assert solution.cost.steps <= 2
    np.testing.assert_allclose(solution.raw_alpha, best, atol=1e-5)


def test_any_total_and_a_single_variable():
    problem = custom(6)
    solution = dualflow.solve(problem, "variational-flow")
    assert solution.status is dualflow.Status.OPTIMAL
    np.testing.assert_allclose(solution.raw_alpha.sum(), 2.5)
    assert abs(excess(problem, solution.raw_alpha, optimum(problem))) < 1e-6
    single = DualProblem(Gram(np.ones((1, 2))), p=[1.0], lower=0.0, upper=np.inf, e=[1.0], d=1.0)
    solution = dualflow.solve(single, "variational-flow", shots=10)
    np.testing.assert_array_equal(solution.raw_alpha, [1.0])


# --- the equations -----------------------------------------------------------------------------


def custom(n=8, d=2.5):
    """A simplex of total d with a linear term that no constant absorbs."""
    rng = np.random.default_rng(7)
    gram = Gram(rng.normal(size=(n, 2)), gamma=0.5)
    return DualProblem(gram, p=rng.normal(size=n), lower=0.0, upper=np.inf, e=np.ones(n), d=d)


def reference_step(problem, theta, h, alpha):
    """δ before clipping, from the parameter-shift rule and dense algebra; exact distributions only."""
    circuit, pi = TreeCircuit(encoding.qubits_for(len(alpha))), alpha / problem.d
    shift = np.pi / 2 * np.eye(len(theta))
    dP = 0.5 * (circuit.distribution(theta + shift) - circuit.distribution(theta - shift)).T
    F = problem.dense() @ alpha - problem.p
    E = F - pi @ F
    M = dP.T @ np.diag((1 / h + np.maximum(E, 0) / 2) / pi) @ dP + dP.T @ (problem.d * problem.dense()) @ dP
    return np.linalg.solve(M + 1e-11 * np.diag(np.diag(M)), -dP.T @ E)


@pytest.mark.parametrize("problem", [moons(8, 10.0), moons(8, None), custom()], ids=["p=0", "svdd", "d≠1"])
def test_the_step_solves_the_stated_system(problem):
    rng = np.random.default_rng(1)
    solver = VariationalFlow("classical-sampler")
    context = solver.open(problem, Workspace(problem))
    state = solver.start(context, rng, problem.d * rng.dirichlet(np.full(8, 5.0)))
    state = dataclasses.replace(state, h=0.05)
    expected = reference_step(problem, state.theta, state.h, solver.alpha(state))
    assert 0.001 < np.abs(expected).max() < 0.8
    after = solver.step(context, state)
    assert after.flow_time == 0.05
    assert after.h == 0.1
    np.testing.assert_allclose(after.theta - state.theta, expected, atol=1e-10)


def test_a_short_step_follows_the_replicator():
    problem, rng = custom(16, 1.0), np.random.default_rng(2)
    solver = VariationalFlow("classical-sampler")
    context = solver.open(problem, Workspace(problem))
    state = dataclasses.replace(solver.start(context, rng, rng.dirichlet(np.ones(16))), h=1e-6)
    after = solver.step(context, state)
    F, pi = problem.gradient(solver.alpha(state)), solver.alpha(state)
    np.testing.assert_allclose((solver.alpha(after) - pi) / 1e-6, -pi * (F - pi @ F), atol=1e-5)
    assert solver.time(after) == 1e-6


@pytest.mark.parametrize("shots", [None, 500])
def test_step_is_pure_and_repeatable(shots):
    problem = moons(12, 1.0)
    solver = VariationalFlow(shots=shots)
    context = solver.open(problem, Workspace(problem))
    state = solver.start(context, np.random.default_rng(3))
    before = {
        f.name: np.copy(getattr(state, f.name))
        for f in dataclasses.fields(state)
        if f.name in ("theta", "distributions")
    }
    first, second = solver.step(context, state), solver.step(context, state)
    for name, array in before.items():
        np.testing.assert_array_equal(getattr(state, name), array)
    for f in dataclasses.fields(state):
        if f.name != "account":
            np.testing.assert_equal(getattr(first, f.name), getattr(second, f.name))
    accounts = [dataclasses.replace(after.account, device_time_s=0.0) for after in (first, second)]
    assert accounts[0] == accounts[1]


# --- counts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "C"), covering([16, 32], [1.0, 10.0, None], together=1))
def test_measured_answers_are_at_the_shot_floor(n, C):
    """Many seeds with the classical sampler, which draws from the same distribution as Aer."""
    problem = moons(n, C)
    best = optimum(problem)
    solver = VariationalFlow("classical-sampler", shots=SHOTS)
    runs = [dualflow.solve(problem, solver, random_state=seed).raw_alpha for seed in range(11)]
    for measure in (gap, excess):
        floor = shot_floor(measure, problem, best)
        assert np.median([measure(problem, alpha, best) for alpha in runs]) <= 3 * floor, measure.__name__


@pytest.mark.parametrize(
    ("n", "device"),
    [
        (12, "aer"),
        (32, "pennylane:lightning.qubit"),
        pytest.param(32, "aer", marks=pytest.mark.slow),
        pytest.param(12, "pennylane:lightning.qubit", marks=pytest.mark.slow),
    ],
)
def test_measured_answers_of_circuits(n, device):
    problem = moons(n, None)
    best = optimum(problem)
    runs = [dualflow.solve(problem, VariationalFlow(device, SHOTS), random_state=seed) for seed in range(3)]
    for measure in (gap, excess):
        assert np.median([measure(problem, run.raw_alpha, best) for run in runs]) <= 3 * shot_floor(
            measure, problem, best
        )
    for run in runs:
        assert run.raw_status is dualflow.Status.FINISHED
        assert run.cost.circuits == 41
        assert run.cost.shots == 41 * SHOTS
        assert 0 < run.cost.device_time_s < run.cost.wall_time_s
        # Measured, not computed: the mean of 20 circuits' shots, whole numbers all, near μ(θ) but not equal to it.
        counts = 20 * SHOTS * run.raw_alpha
        np.testing.assert_allclose(counts, np.round(counts), atol=1e-8)
        assert (run.raw_alpha != run.extras["parameter_alpha"]).any()
        assert abs(run.extras["parameter_alpha"].sum() - 1) < 1e-12


@pytest.mark.parametrize("shots", [SHOTS, None])
@pytest.mark.parametrize("C", [1.0, None], ids=["C=1", "svdd"])
@pytest.mark.parametrize("n", [12, 32])
def test_the_null_device_fails(n, C, shots):
    problem = moons(n, C)
    best = optimum(problem)
    solution = dualflow.solve(problem, "variational-flow", device="null", shots=shots)
    assert solution.raw_status is not dualflow.Status.OPTIMAL
    assert excess(problem, solution.raw_alpha, best) >= 10 * shot_floor(excess, problem, best)
    if C is None:
        assert gap(problem, solution.raw_alpha, best) >= 10 * shot_floor(gap, problem, best)


def test_a_leaf_without_counts_can_grow_again():
    """At a corner one outcome has all counts: the other leaves must still be able to grow."""
    problem = moons(16, None)
    best = optimum(problem)
    dead = int(np.argmax(best))
    warm = np.eye(16)[(dead + 5) % 16]
    solver = VariationalFlow("classical-sampler", shots=SHOTS)
    runs = [dualflow.solve(problem, solver, warm=warm, random_state=seed).raw_alpha for seed in range(5)]
    assert min(alpha[dead] for alpha in runs) > 0.5 * best[dead]
    assert np.median([gap(problem, alpha, best) for alpha in runs]) <= 3 * shot_floor(gap, problem, best)


def test_final_shots_are_the_final_states_own_and_count_in_the_mean():
    problem = moons(8, None)
    solution = dualflow.solve(problem, "variational-flow", shots=100, final_shots=5_000, steps=7)
    assert solution.cost.steps == 8
    assert solution.cost.circuits == 9
    assert solution.cost.shots == 8 * 100 + 5_000
    behind = 4 * 100 + 5_000  # the last four of seven steps, and the final circuit
    np.testing.assert_allclose(solution.raw_alpha * behind, np.round(solution.raw_alpha * behind), atol=1e-8)
    assert (np.abs(solution.raw_alpha * 5_000 - np.round(solution.raw_alpha * 5_000)) > 1e-6).any()


@pytest.mark.parametrize("ansatz", ANSAETZE)
def test_the_answer_is_the_mean_of_what_the_second_half_measured(ansatz):
    problem = moons(8, 10.0)
    solver = VariationalFlow("classical-sampler", shots=300, steps=8, ansatz=ansatz)
    context = solver.open(problem, Workspace(problem))
    state, seen = solver.start(context, np.random.default_rng(3)), []
    while not solver.finished(state):
        before, state = state, solver.step(context, state)
        # All circuits at θ: one of the tree, P + 1 of the hardware-efficient ansatz.
        angles = np.atleast_2d(context.ansatz.bindings(state.theta, False))
        own = np.atleast_2d(state.distributions)[(angles == angles[0]).all(axis=1)]
        seen.append(problem.d * own.mean(axis=0))
        if len(seen) <= 4:
            np.testing.assert_array_equal(solver.alpha(before), before.measured)
    np.testing.assert_allclose(solver.alpha(state), np.mean(seen[4:], axis=0), rtol=1e-12)
    assert state.mean_shots == 4 * 300 * len(own)
    # From exact distributions it is the last state.
    exact = VariationalFlow("emulator")
    context = exact.open(problem, Workspace(problem))
    state = exact.step(context, exact.start(context, np.random.default_rng(0)))
    np.testing.assert_array_equal(exact.alpha(state), state.measured)


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_a_sampled_answer_is_within_three_floors_of_all_its_shots(C):
    problem = moons(8, C)
    best = optimum(problem)
    solver = VariationalFlow("classical-sampler", shots=SHOTS)
    runs = [dualflow.solve(problem, solver, random_state=seed) for seed in range(9)]
    bound = 3 * shot_floor(excess, problem, best, runs[0].cost.shots)
    assert np.median([excess(problem, run.raw_alpha, best) for run in runs]) <= bound


def test_same_seed_same_answer():
    problem, options = moons(8, 1.0), {"shots": 300, "steps": 6}
    first, again, other = (dualflow.solve(problem, "variational-flow", random_state=s, **options) for s in (5, 5, 6))
    np.testing.assert_array_equal(first.raw_alpha, again.raw_alpha)
    assert first.provenance["job_ids"] == again.provenance["job_ids"]
    assert (first.raw_alpha != other.raw_alpha).any()


@pytest.mark.parametrize("shots", [400, None])
def test_a_stopped_run_resumes_to_the_same_answer(tmp_path, shots):
    problem, solver = moons(12, 10.0), VariationalFlow(shots=shots, steps=9)
    whole = dualflow.solve(problem, solver, random_state=1, trajectory=True)
    path = tmp_path / "run.npz"
    part = dualflow.solve(problem, solver, random_state=1, checkpoint=path, max_steps=4, trajectory=True)
    assert part.cost.steps == 4
    rest = dualflow.solve(problem, solver, random_state=1, checkpoint=path, trajectory=True)
    np.testing.assert_array_equal(rest.raw_alpha, whole.raw_alpha)
    np.testing.assert_array_equal(rest.trajectory.alpha, whole.trajectory.alpha)
    assert (rest.cost.circuits, rest.cost.shots) == (whole.cost.circuits, whole.cost.shots)
    assert rest.provenance["job_ids"] == whole.provenance["job_ids"]


class Leaky(type(make_device("classical-sampler"))):
    """Moves mass to the last outcome like a noisy device, reverses the qubits, and stores seeds."""

    name = "leaky"
    capabilities = Capabilities(exact=True, sampled=True, noisy=True, qubits=24)

    def __init__(self, share):
        super().__init__()
        self.share, self.seeds = share, []

    def _run(self, circuit, values, shots, seed):
        self.seeds.append(seed)
        return super()._run(circuit, values, shots, seed)

    def _ideal(self, circuit, values):
        ideal = (1 - self.share) * super()._ideal(circuit, values)
        ideal[:, -1] += self.share
        return ideal

    def _submit(self, *arguments):
        job = super()._submit(*arguments)
        backwards = dataclasses.replace(job.result().ordered("big"), bit_order="big")
        return dataclasses.replace(job, readout=backwards)


def test_counts_on_the_padding_are_reported_and_do_not_change_the_flow():
    problem = custom(12)
    solution = dualflow.solve(problem, "variational-flow", device=Leaky(0.1))
    assert solution.raw_alpha.sum() == pytest.approx(0.9 * problem.d)
    assert solution.raw_certificate.infeasibility == pytest.approx(0.1 * problem.d)
    assert solution.status is not dualflow.Status.OPTIMAL
    # The flow reached the optimum: the raw answer without padding is proportional to it.
    assert abs(excess(problem, solution.raw_alpha / 0.9, optimum(problem))) < 1e-6
    with pytest.raises(DeviceError, match="only padding"):
        dualflow.solve(problem, "variational-flow", device=Leaky(1.0))


def test_bit_order_and_seeds_of_a_device():
    problem, device = moons(8, 1.0), Leaky(0.0)
    ours = dualflow.solve(problem, "variational-flow", device=device, shots=200, steps=10)
    plain = dualflow.solve(problem, "variational-flow", device="classical-sampler", shots=200, steps=10)
    np.testing.assert_array_equal(ours.raw_alpha, plain.raw_alpha)
    assert len(set(device.seeds)) == len(device.seeds) == 11


def test_averaging_beats_the_noise_of_one_circuit():
    """Damped angles average the circuits of the second half: μ(θ) is well below the floor of one circuit."""
    problem = moons(16, None)
    best = optimum(problem)
    solver = VariationalFlow("classical-sampler", shots=SHOTS)
    runs = [dualflow.solve(problem, solver, random_state=seed).extras["parameter_alpha"] for seed in range(9)]
    floor = shot_floor(excess, problem, best)
    assert np.median([excess(problem, alpha, best) for alpha in runs]) < 0.3 * floor


# --- LSODA, budgets ----------------------------------------------------------------------------


# Both ansätze hold every point of the simplex.
@pytest.mark.parametrize(("ansatz", "n", "C"), covering(["tree", "hardware-efficient"], [5, 8], [10.0, None]))
def test_lsoda_follows_the_gradient_flow(ansatz, n, C):
    problem = moons(n, C)
    solution = dualflow.solve(
        problem,
        VariationalFlow("emulator", ansatz=ansatz, integrator="lsoda", time_step=0.7, t_end=6.0),
        trajectory=True,
        tol=1e-300,
    )
    path = solution.trajectory
    flow = GradientField(problem)
    reference = solve_ivp(
        flow.rate, (0, 6), path.alpha[0], method="DOP853", rtol=1e-12, atol=1e-14, t_eval=np.minimum(path.t, 6)
    )
    np.testing.assert_allclose(path.alpha, reference.y.T, atol=1e-6)
    np.testing.assert_allclose(path.t, [*np.arange(0, 5.7, 0.7), 6.0], atol=1e-12)
    assert np.abs(path.alpha[-1] - path.alpha[0]).max() > 0.05
    assert solution.raw_status is dualflow.Status.FINISHED
    assert solution.cost.circuits > 10 * solution.cost.steps  # LSODA's own evaluations are circuits, and counted


def test_lsoda_follows_the_path_of_the_solver_gradient_flow():
    problem = moons(8, 10.0)
    quantum = dualflow.solve(
        problem, "variational-flow", device="emulator", integrator="lsoda", t_end=3.0, trajectory=True, tol=1e-300
    )
    classical = dualflow.solve(
        problem, "gradient-flow", integrator="LSODA", time_step=1.0, t_end=3.0, trajectory=True, tol=1e-300
    )
    np.testing.assert_allclose(quantum.trajectory.t, classical.trajectory.t)
    np.testing.assert_allclose(quantum.trajectory.alpha, classical.trajectory.alpha, atol=1e-6)


@pytest.mark.parametrize("ansatz", ANSAETZE)
def test_a_budget_of_shots_is_kept(ansatz):
    problem = moons(8, None)
    for options in ({"shots": 500, "final_shots": 2000}, {"shots": "adaptive"}, {"shots": "adaptive", "steps": 6}):
        budget = 60_000 if ansatz == "tree" else 600_000
        solution = dualflow.solve(
            problem, "variational-flow", device="emulator", ansatz=ansatz, shot_budget=budget, **options
        )
        assert solution.cost.shots <= budget
        assert solution.raw_status is dualflow.Status.FINISHED
        if options == {"shots": 500, "final_shots": 2000}:
            assert solution.cost.steps <= 41
        elif "steps" in options:
            assert solution.cost.steps == 7
        else:
            assert solution.cost.shots > 0.6 * budget


def test_adaptive_shots_grow_and_never_fall():
    problem, solver = moons(16, None), VariationalFlow("emulator", "adaptive", shot_budget=100_000)
    context = solver.open(problem, Workspace(problem))
    state, behind = solver.start(context, np.random.default_rng(0)), []
    while not state.resting:
        behind.append(state.shots_behind)
        state = solver.step(context, state)
    assert behind[0] == 100
    assert (np.diff(behind) >= 0).all()
    assert behind[-1] > 5000
    assert solver.step(context, state).shots_behind == 10_000


def test_adaptive_shots_reach_the_floor_with_half_of_them():
    problem = moons(16, None)
    best = optimum(problem)
    floor = shot_floor(excess, problem, best)
    solver = VariationalFlow("emulator", "adaptive", shot_budget=200_000)
    runs = [dualflow.solve(problem, solver, random_state=seed) for seed in range(11)]
    assert max(run.cost.shots for run in runs) <= 200_000  # fixed shots take 410 000
    assert np.median([excess(problem, run.raw_alpha, best) for run in runs]) <= 3 * floor


def test_sampling_variance_is_the_mean_excess_of_a_sample():
    problem, rng = custom(8), np.random.default_rng(4)
    ansatz, mu, shots, draws = make_ansatz("tree", 8), rng.dirichlet(np.ones(8)), 50, 40_000
    samples = problem.d * rng.multinomial(shots, mu, size=draws) / shots
    f = 0.5 * np.einsum("si,ij,sj->s", samples, problem.dense(), samples) - samples @ problem.p
    assert f[0] == pytest.approx(problem.objective(samples[0]))
    expected = sampling_variance(problem, ansatz, mu) / shots
    assert abs(f.mean() - problem.objective(problem.d * mu) - expected) < 4 * f.std() / np.sqrt(draws)
    assert expected > 10 * f.std() / np.sqrt(draws)


def test_resuming_measures_nothing_twice(tmp_path):
    class Counting(type(make_device("emulator"))):
        ran = 0

        def _run(self, circuit, values, shots, seed):
            type(self).ran += len(values)
            return super()._run(circuit, values, shots, seed)

    problem, path = moons(8, None), tmp_path / "run.npz"
    solver = VariationalFlow(Counting(), shots=100, steps=9)
    dualflow.solve(problem, solver, checkpoint=path, max_steps=4)
    whole = dualflow.solve(problem, solver, checkpoint=path)
    assert Counting.ran == whole.cost.circuits == 10


# --- options -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shots": 0}, "shots=0"),
        ({"shots": -5}, "shots=-5"),
        ({"shots": 10.5}, "shots=10.5"),
        ({"shots": 10, "final_shots": 0}, "final_shots=0"),
        ({"final_shots": 10}, "needs shots"),
        ({"shots": "many"}, "shots='many'"),
        ({"shot_budget": 10}, "shot_budget needs shots"),
        ({"shots": 100, "shot_budget": 50}, "does not hold the first circuit"),
        ({"shots": 10, "shot_budget": 0}, "shot_budget=0"),
        ({"layers": 3}, "option of ansatz='hardware-efficient'"),
        ({"ansatz": "hardware-efficient", "layers": -1}, "layers=-1"),
        ({"ansatz": "hardware-efficient", "layers": 1.0}, "layers=1.0"),
        ({"integrator": "euler"}, "integrator='euler'"),
        ({"integrator": "lsoda", "shots": 10}, "exact distributions"),
        ({"time_step": 1.0}, "time_step=1.0 must be .* and integrator='lsoda'"),
        ({"integrator": "lsoda", "t_end": -1.0}, "t_end=-1.0"),
        ({"ansatz": "bush"}, "not known"),
        ({"steps": 0}, "steps=0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ProblemError, match=message):
        dualflow.solve(moons(4, 1.0), "variational-flow", **options)


def test_bad_devices(monkeypatch):
    with pytest.raises(DeviceError, match="did you mean 'aer'"):
        dualflow.solve(moons(4, 1.0), "variational-flow", device="aero")
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pennylane" else find_spec(name))
    with pytest.raises(SolverUnavailable, match="pip install qiskit pennylane"):
        dualflow.solve(moons(4, 1.0), "variational-flow", device="pennylane:default.qubit")


def test_what_it_cannot_solve():
    X, y = make_moons(8, random_state=0)
    gram = Gram(X)
    for problem in (dualflow.problems.svc(gram, 2 * y - 1), dualflow.problems.svdd(gram, nu=0.5)):
        with pytest.raises(SolverMismatch, match="simplex"):
            dualflow.solve(problem, "variational-flow")


def test_classes_of_accuracy():
    assert VariationalFlow().accuracy_class() == "iterative"
    assert VariationalFlow(shots=10).accuracy_class() == "sampled"
    assert VariationalFlow.quantum


# --- the final circuit -------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["variational-flow", "variational-lotka-volterra"])
def test_the_final_circuit_prepares_the_final_state(solver):
    from qiskit.quantum_info import Statevector

    X, y = make_moons(6, noise=0.1, random_state=0)
    loss = "squared_hinge" if solver == "variational-flow" else "hinge"
    problem = dualflow.problems.svc(Gram(X), 2 * y - 1, 2.0, loss=loss)
    solution = dualflow.solve(problem, solver, device="emulator")
    found = Statevector(dualflow.final_circuit(solution)).probabilities()
    expected = solution.raw_alpha if solver == "variational-flow" else solution.raw_alpha / problem.upper / 8
    ones = found if solver == "variational-flow" else found[8:]
    np.testing.assert_allclose(ones[:6], expected, atol=1e-12)
    with pytest.raises(ProblemError, match="'working-set' holds no final circuit"):
        dualflow.final_circuit(dualflow.solve(problem, "working-set"))


def test_a_saved_model_keeps_its_circuit(tmp_path):
    X, y = make_moons(8, noise=0.1, random_state=0)
    options = {"device": "emulator", "ansatz": "hardware-efficient"}
    fit = [
        dualflow.SVC(loss="squared_hinge", solver="variational-flow", solver_options=options, random_state=0).fit(X, y)
        for _ in range(2)
    ]
    fit[0].save(tmp_path / "model")
    loaded = dualflow.load(tmp_path / "model")
    circuits = [dualflow.final_circuit(model.solution_) for model in (*fit, loaded)]
    assert circuits[0] == circuits[1] == circuits[2]
    assert circuits[0].num_parameters == 0
    assert circuits[0].count_ops()["ry"] == loaded.solution_.provenance["angles"]


def test_a_coupled_step_of_all_variables_is_the_dense_step():
    problem = svdd_of(24, "rbf", gamma=0.5)
    ansatz = make_ansatz("tree", 24)
    mu = np.random.default_rng(0).dirichlet(np.full(24, 0.5)) + 1e-3
    distribution = np.append(mu / mu.sum(), np.zeros(8))
    F = problem.gradient(problem.d * distribution[:24])
    E = F - distribution[:24] @ F
    dense, fall = semi_implicit_step(problem, ansatz, distribution, 3.0, None)
    step, its_fall = coupled_step(problem, ansatz, distribution, E, 3.0)
    np.testing.assert_allclose(step, dense, rtol=1e-6, atol=1e-8)
    assert its_fall == pytest.approx(fall, rel=1e-6)
    # With the coupling of six variables only, the step is another one, and still lowers f to first order.
    partial, its_fall = coupled_step(problem, ansatz, distribution, E, 3.0, coupled=6)
    assert np.abs(partial - dense).max() > 1e-3
    assert its_fall > 0


def test_more_variables_than_the_dense_system_holds():
    problem = svdd_of(4200, "rbf", gamma=0.2)
    found = dualflow.solve(problem, "variational-flow", device="emulator", tol=1e-3, refine=False)
    assert found.certificate.relative_gap <= 1e-3
    assert found.cost.qubits == 13


def test_more_variables_than_the_dense_system_holds_are_refused_where_it_is_needed():
    problem = svdd_of(4200, "rbf", gamma=0.2)
    for options in ({"shots": 100}, {"ansatz": "hardware-efficient", "layers": 1}, {"integrator": "lsoda"}):
        with pytest.raises(SolverMismatch, match="at most 4096 variables"):
            dualflow.solve(problem, "variational-flow", device="emulator", **options)


def svdd_of(n, kernel, **options):
    return dualflow.problems.svdd(Gram(np.random.default_rng(0).normal(size=(n, 2)), kernel, **options))
