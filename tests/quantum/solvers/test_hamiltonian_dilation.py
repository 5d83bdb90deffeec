"""hamiltonian-dilation against dense exponentials, CVXOPT, its own bound, the shot floor and the controls."""

import dataclasses

import numpy as np
import pytest
import scipy.linalg
from scipy.special import expit
from sklearn.datasets import load_digits, make_moons

import dualflow
from dualflow import DeviceError, DualProblem, Gram, HamiltonianDilation, ProblemError, SolverMismatch, Status
from dualflow.core.workspace import Workspace
from dualflow.quantum.circuits.encoding import qubits_for
from dualflow.quantum.solvers.dilation import BoxDilation, SimplexDilation, implicit_direction, make_dilation
from dualflow.testing import zoo
from dualflow.testing.bench import sampled_floor
from dualflow.testing.specimen import ZooProblem
from tests.combinations import often

SHOTS = 10_000


def data(name, n):
    if name == "moons":
        X, y = make_moons(n, noise=0.2, random_state=0)
        return X, 2 * y - 1
    bunch = load_digits()
    ones_and_fours = (bunch.target == 1) | (bunch.target == 4)
    return bunch.data[ones_and_fours][:n] / 16, np.where(bunch.target[ones_and_fours][:n] == 1, 1, -1)


def build(kind, n, name="moons", C=10.0):
    X, y = data(name, n)
    gram = Gram(X, kernel="rbf", gamma="scale")
    if kind == "svdd":
        return dualflow.problems.svdd(gram)
    if kind == "soft svdd":
        return dualflow.problems.svdd(gram, 0.2)
    if kind == "l2":
        return dualflow.problems.svc(gram, y, C, loss="squared_hinge")
    return dualflow.problems.svc(gram, y, C, fit_intercept=kind == "box with equality")


SIMPLEX = ("l2", "svdd")
BOX = ("box", "box with equality", "soft svdd")


def optimum(problem):
    return problem.project(dualflow.solve(problem, "cvxopt", tol=1e-9).alpha)


def excess(problem, alpha, best):
    f = problem.objective(best)
    return (problem.objective(problem.project(alpha)) - f) / abs(f)


def custom(n=8, d=2.5):
    """A simplex of total d with a linear term that no constant absorbs."""
    rng = np.random.default_rng(7)
    gram = Gram(rng.normal(size=(n, 2)), gamma=0.5)
    return DualProblem(gram, p=rng.normal(size=n), lower=0.0, upper=np.inf, e=np.ones(n), d=d)


# --- the circuit -------------------------------------------------------------------------------


def evolution(angles):
    """exp(−iΘ⊗Y) after H on every index qubit, dense; the ancilla is the most significant qubit."""
    N = len(angles)
    hadamard = scipy.linalg.hadamard(N) / np.sqrt(N)
    generator = np.kron([[0, -1j], [1j, 0]], np.diag(0.5 * angles))
    return scipy.linalg.expm(-1j * generator) @ np.kron(np.eye(2), hadamard)


@pytest.mark.parametrize("kind", ["l2", "box"])
@pytest.mark.parametrize("qubits", range(2, 9))
def test_the_circuit_is_the_evolution(qubits, kind):
    """The gates against the dense exponential of the Hamiltonian, padding included."""
    from qiskit.quantum_info import Operator

    n = max(2, 2 ** (qubits - 1) - 1)
    dilation = make_dilation(build(kind, n))
    assert dilation.circuit.n_qubits == qubits
    angles = dilation.angles(dilation.feasible_potential(np.random.default_rng(qubits).normal(scale=3.0, size=n)))
    circuit = dilation.circuit.build()
    values = dict(zip(circuit.parameters, dilation.circuit.gate_parameters(angles), strict=True))
    expected = evolution(angles)
    np.testing.assert_allclose(Operator(circuit.assign_parameters(values)).data, expected, atol=1e-12)
    np.testing.assert_allclose(dilation.circuit.distribution(angles), np.abs(expected[:, 0]) ** 2, atol=1e-12)


@pytest.mark.parametrize("n", [5, 8])
def test_the_simplex_is_read_from_ancilla_0(n):
    problem = custom(n)
    dilation = SimplexDilation(problem)
    V = dilation.feasible_potential(np.random.default_rng(0).normal(scale=4.0, size=n))
    reading = dilation.read(dilation.circuit.distribution(dilation.angles(V)), None)
    mu = np.exp(V) / np.exp(V).sum()
    np.testing.assert_allclose(reading.alpha, 2.5 * mu, rtol=1e-12)
    np.testing.assert_allclose(reading.success, 1 / (8 * mu.max()), rtol=1e-12)
    np.testing.assert_allclose(dilation.model(V), reading.alpha, rtol=1e-12)


@pytest.mark.parametrize("kind", BOX)
def test_the_box_is_read_from_both_outcomes_and_meets_its_equality(kind):
    problem = build(kind, 12)
    dilation = BoxDilation(problem)
    V = dilation.feasible_potential(np.random.default_rng(0).normal(scale=4.0, size=12))
    reading = dilation.read(dilation.circuit.distribution(dilation.angles(V)), None)
    u = problem.effective_upper
    np.testing.assert_allclose(reading.alpha, u * expit(V), rtol=1e-12)
    np.testing.assert_allclose(reading.response, u * expit(V) * expit(-V), rtol=1e-12)
    assert problem.infeasibility(reading.alpha) <= 1e-12 * u.max()


@pytest.mark.parametrize("shares", [(0.01, 0.1), (0.4, 0.9)], ids=["too little", "too much"])
def test_variables_at_a_bound_stay_there_when_the_equality_is_restored(shares):
    problem = build("soft svdd", 12)
    dilation, u = BoxDilation(problem), problem.effective_upper
    live = np.isin(np.arange(12), [2, 3, 4, 5, 7], invert=True)
    alpha = np.where(live, u * np.random.default_rng(1).uniform(*shares, 12), 0.0)
    alpha[7] = u[7]
    found = dilation.feasible_alpha(alpha)
    assert problem.infeasibility(found) <= 1e-12
    np.testing.assert_array_equal(found[~live], alpha[~live])
    V0, V = (np.log(a[live] / (u - a)[live]) for a in (alpha, found))
    t = (V - V0) / dilation.mobility[live]  # one t for all variables, e = 1
    assert np.sign(t[0]) == np.sign(problem.d - alpha.sum())
    np.testing.assert_allclose(t, t[0], rtol=1e-9)


def test_alpha_is_unchanged_if_no_shift_meets_the_equality():
    problem = build("soft svdd", 12)
    dilation, u = BoxDilation(problem), problem.effective_upper
    corner = np.where(np.arange(12) < 4, u, 0.0)  # no variable is between its bounds
    np.testing.assert_array_equal(dilation.feasible_alpha(corner), corner)
    few = np.where(np.arange(12) == 0, 0.5 * u, 0.0)  # a single free variable cannot meet the equality
    np.testing.assert_allclose(dilation.feasible_alpha(few), np.where(np.arange(12) == 0, u, 0.0), rtol=1e-9)
    without = build("box", 12)
    alpha = np.random.default_rng(2).uniform(0.0, without.effective_upper)
    np.testing.assert_array_equal(BoxDilation(without).feasible_alpha(alpha), alpha)


def test_an_index_without_counts_keeps_its_last_alpha():
    problem = build("box", 4)
    dilation = BoxDilation(problem)
    seen = np.array([0.25, 0, 0, 0.1, 0.25, 0, 0.3, 0.1])
    np.testing.assert_allclose(dilation.read(seen, np.array([1.0, 2, 3, 4])).alpha, [5, 2, 10, 5])
    np.testing.assert_allclose(dilation.read(seen, None).alpha, [5, 5, 10, 5])


def test_discarded_outcomes_only():
    dilation = SimplexDilation(build("l2", 4))
    nothing = np.array([0, 0, 0, 0, 0.5, 0.5, 0, 0])
    assert dilation.read(nothing, np.ones(4)) is None
    with pytest.raises(DeviceError, match="ancilla 0"):
        dilation.read(nothing, None)


# --- the geometry ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*SIMPLEX, *BOX])
def test_the_lipschitz_constant_holds_and_the_distance_is_bregmans(kind):
    problem, rng = build(kind, 12), np.random.default_rng(1)
    dilation, closest = make_dilation(problem), np.inf
    for _ in range(300):
        V0, V = (dilation.feasible_potential(rng.normal(scale=rng.uniform(0.1, 5), size=12)) for _ in range(2))
        a, b = dilation.model(V), dilation.model(V0)
        if kind in SIMPLEX:
            expected = (a * np.log(a / b)).sum()
        else:
            u = problem.effective_upper
            expected = (a * np.log(a / b) + (u - a) * np.log((u - a) / (u - b))) @ (1 / dilation.mobility)
        distance = dilation.distance(V, V0)
        np.testing.assert_allclose(distance, expected, rtol=1e-7, atol=1e-9)
        closest = min(closest, dilation.lipschitz * distance / (0.5 * (a - b) @ problem.dense() @ (a - b)))
    assert closest >= 1


def test_the_lipschitz_constant_of_the_simplex_is_sharp():
    """Two equal points of opposite classes: ½ΔᵀQΔ reaches L·D near equal weights."""
    problem = DualProblem(Gram(np.zeros((2, 1))), p=[0, 0], lower=0.0, upper=np.inf, e=[1, 1], d=1.0, sigma=[1, -1])
    dilation = SimplexDilation(problem)
    V, V0 = dilation.feasible_potential(np.array([1e-3, -1e-3])), np.zeros(2)
    move = dilation.model(V) - dilation.model(V0)
    ratio = 0.5 * move @ problem.dense() @ move / (dilation.lipschitz * dilation.distance(V, V0))
    assert ratio == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("problem", [build(kind, 10) for kind in BOX] + [custom()], ids=[*BOX, "simplex"])
def test_the_implicit_direction_solves_its_system(problem):
    rng, h = np.random.default_rng(3), 7.0
    dilation = make_dilation(problem)
    V = dilation.feasible_potential(rng.normal(size=problem.n))
    reading = dilation.read(dilation.circuit.distribution(dilation.angles(V)), None)
    delta, W = implicit_direction(problem, dilation, reading, h), np.diag(reading.response)
    g = problem.p - problem.dense() @ reading.alpha
    left = delta / (h * dilation.mobility) - (g - problem.dense() @ W @ delta)
    if problem.e is None:
        np.testing.assert_allclose(left, 0, atol=1e-9)
    else:
        assert abs(problem.e @ W @ delta) <= 1e-12
        np.testing.assert_allclose(left, np.mean(left * problem.e) * problem.e, atol=1e-9)
    # W is the derivative of the reading, at fixed ν.
    step = 1e-6 * rng.normal(size=problem.n)
    there, back = dilation.model(V + step), dilation.model(V - step)
    if isinstance(dilation, BoxDilation):
        np.testing.assert_allclose((there - back) / 2, W @ step, rtol=1e-5, atol=1e-12)


def test_a_plain_step_is_mirror_descent():
    problem, rng = custom(), np.random.default_rng(2)
    solver = HamiltonianDilation("classical-sampler", method="plain")
    context = solver.open(problem, Workspace(problem))
    state = solver.start(context, rng, problem.d * rng.dirichlet(np.full(8, 5.0)))
    alpha = solver.alpha(state)
    expected = alpha * np.exp(-problem.gradient(alpha) / (2.5 * np.abs(problem.dense()).max()))
    np.testing.assert_allclose(solver.alpha(solver.step(context, state)), 2.5 * expected / expected.sum(), rtol=1e-10)


# --- exact distributions -----------------------------------------------------------------------


#: Every size once, and both data sets.
OFTEN = [(5, "moons"), (16, "digits"), (64, "moons")]
SELDOM = [(5, "digits"), (16, "moons"), (64, "digits")]


@pytest.mark.parametrize("kind", [*SIMPLEX, *BOX])
@pytest.mark.parametrize(
    ("n", "name"),
    [*OFTEN, *(pytest.param(*case, marks=pytest.mark.slow) for case in SELDOM)],
)
def test_exact_runs_reach_the_optimum(n, kind, name):
    problem = build(kind, n, name)
    solution = dualflow.solve(problem, "hamiltonian-dilation")
    best = optimum(problem)
    assert solution.status is dualflow.Status.OPTIMAL
    assert solution.raw_certificate.relative_gap <= 1e-6
    assert abs(excess(problem, solution.raw_alpha, best)) <= 1e-6
    assert solution.raw_certificate.infeasibility <= 1e-9 * max(1, solution.raw_alpha.max())
    assert solution.cost.circuits == solution.cost.steps + 1 <= 50
    assert solution.cost.shots == 0
    q = qubits_for(n)
    assert (solution.cost.qubits, solution.cost.two_qubit_gates) == (q + 1, 2**q)
    np.testing.assert_allclose(solution.extras["parameter_alpha"], solution.raw_alpha, atol=1e-9 * best.max())
    if kind in BOX:
        assert solution.cost.success_probability is None
    else:
        # The last circuit is that of the answer: the run ends at the certified optimum, before a rejected trial.
        assert solution.cost.success_probability == pytest.approx(1 / (2**q * solution.raw_alpha.max()), rel=1e-9)


@pytest.mark.parametrize("kind", ["l2", "box with equality"])
@pytest.mark.parametrize("method", ["implicit", "accelerated"])
def test_every_exact_device_takes_the_same_path(kind, method):
    problem, runs = build(kind, 12), []
    for device in ("aer", "emulator", "pennylane:default.qubit", "pennylane:lightning.qubit"):
        runs.append(dualflow.solve(problem, HamiltonianDilation(device, method=method), max_steps=10))
    for run in runs[1:]:
        np.testing.assert_allclose(run.raw_alpha, runs[0].raw_alpha, atol=1e-9)
    assert len({run.provenance["device"] for run in runs}) == 4


@pytest.mark.parametrize("kind", [*SIMPLEX, *BOX])
def test_the_accelerated_bound_holds(kind):
    """f − f* ≤ D(α*, z₀)/A, and on the simplex ≤ 4dL ln n/(k(k+1)) after k accepted steps."""
    n = 32
    problem = build(kind, n)
    f = problem.objective(optimum(problem))
    solver = HamiltonianDilation("emulator", method="accelerated")
    context = solver.open(problem, Workspace(problem))
    state = solver.start(context, np.random.default_rng(0))
    dilation, rejected = context.dilation, 0
    farthest = problem.d * np.log(n)
    if kind in BOX:
        share = solver.alpha(state) / problem.effective_upper
        farthest = problem.effective_upper / dilation.mobility @ -np.log(np.minimum(share, 1 - share))
    for _ in range(150):
        before, state = state, solver.step(context, state)
        rejected += state.taken == before.taken
        left = problem.objective(problem.project(solver.alpha(state))) - f
        k = state.taken
        if k:
            assert left <= farthest / state.weight
            assert left <= 4 * dilation.lipschitz * farthest / (k * (k + 1))
    assert state.weight >= k * (k + 1) / (4 * dilation.lipschitz)
    assert 0 < rejected < 75


@pytest.mark.parametrize("kind", often(["l2", "box with equality"], "box with equality"))
def test_acceleration_saves_three_steps_of_four(kind):
    problem, circuits = build(kind, 16), {}
    for method in ("accelerated", "plain"):
        solver = HamiltonianDilation("emulator", method=method)
        circuits[method] = dualflow.solve(problem, solver, tol=1e-2, max_steps=4000).cost.circuits
    assert 4 * circuits["accelerated"] <= circuits["plain"]


@pytest.mark.parametrize("kind", [*SIMPLEX, "box", "box with equality"])
@pytest.mark.parametrize("shots", [None, SHOTS])
def test_the_null_device_fails(kind, shots):
    problem = build(kind, 16)
    best = optimum(problem)
    solution = dualflow.solve(problem, "hamiltonian-dilation", device="null", shots=shots)
    assert solution.raw_status is dualflow.Status.NOISE_DOMINATED
    assert solution.raw_certificate.relative_gap >= 0.05
    assert excess(problem, solution.raw_alpha, best) >= 10 * 3 * floor(excess, problem, best)


@pytest.mark.parametrize("kind", ["l2", "box", "box with equality"])
@pytest.mark.parametrize(
    "options", [{}, {"method": "accelerated", "max_steps": 3}, {"shots": SHOTS, "steps": 12}, {"shots": 50, "steps": 4}]
)
def test_the_final_circuit_prepares_the_answer(kind, options):
    """The state vector of Qiskit against α: of a single state, of an average, and with weights of 0."""
    from qiskit.quantum_info import Statevector

    problem = build(kind, 12)
    solution = dualflow.solve(problem, "hamiltonian-dilation", **options)
    found = np.abs(Statevector(dualflow.final_circuit(solution)).data) ** 2
    alpha = make_dilation(problem).read(found, None).alpha
    np.testing.assert_allclose(alpha, solution.raw_alpha, atol=1e-9 * solution.raw_alpha.max())
    origin = dualflow.final_circuit(solution).metadata.get("origin", "")
    assert ("did not send" in origin) == bool(options)


@pytest.mark.parametrize("kind", [*SIMPLEX, *BOX])
@pytest.mark.parametrize("shots", [None, SHOTS])
def test_a_warm_start_at_a_vertex_leaves_it(kind, shots):
    problem = build(kind, 16)
    best = optimum(problem)
    wrong = problem.project(np.where(np.arange(16) == int(np.argmin(best)), 1.0, 0.0))
    solution = dualflow.solve(problem, "hamiltonian-dilation", warm=wrong, shots=shots, device="classical-sampler")
    assert excess(problem, solution.raw_alpha, best) <= (1e-6 if shots is None else 3 * floor(excess, problem, best))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_an_equality_that_leaves_one_point(sign):
    gram = Gram(np.random.default_rng(0).normal(size=(5, 2)), gamma=1.0)
    for d, alpha in ((0.0, 0.0), (5.0 * sign, 1.0)):
        problem = DualProblem(gram, np.ones(5), 0.0, np.ones(5), e=np.full(5, sign), d=d)
        solution = dualflow.solve(problem, "hamiltonian-dilation", device="emulator")
        np.testing.assert_allclose(solution.raw_alpha, alpha, atol=1e-15)
        assert solution.raw_status in (Status.OPTIMAL, Status.FINISHED)


def test_a_single_variable():
    single = DualProblem(Gram(np.ones((1, 2))), p=[1.0], lower=0.0, upper=np.inf, e=[1.0], d=1.5)
    for shots in (None, 10):
        solution = dualflow.solve(single, "hamiltonian-dilation", shots=shots, steps=3)
        np.testing.assert_allclose(solution.raw_alpha, [1.5], rtol=1e-15)


# --- counts ------------------------------------------------------------------------------------


def gap(problem, alpha, best):
    return dualflow.certify(problem, alpha).relative_gap


def floor(measure, problem, best, draws=25):
    """Median over draws of a measure of the exact optimum sampled with SHOTS shots."""
    if measure is excess:
        specimen = ZooProblem("", problem, problem.objective(best), best, True, "")
        return sampled_floor(specimen, SHOTS, draws)
    assert problem.kind is dualflow.Kind.SIMPLEX
    samples = [np.random.default_rng(seed).multinomial(SHOTS, best / best.sum()) / SHOTS for seed in range(draws)]
    return np.median([measure(problem, sample, best) for sample in samples])


@pytest.mark.parametrize("name", ["moons", pytest.param("digits", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", often([*SIMPLEX, *BOX], "l2", "soft svdd", "box with equality"))
def test_sampled_answers_are_within_the_shot_floor(kind, name):
    problem = build(kind, 32, name)
    best = optimum(problem)
    solver = HamiltonianDilation("classical-sampler", SHOTS)
    runs = [dualflow.solve(problem, solver, random_state=seed).raw_alpha for seed in range(3)]
    for measure in (excess, gap) if kind in SIMPLEX else (excess,):
        assert np.median([measure(problem, run, best) for run in runs]) <= 3 * floor(measure, problem, best)


def test_what_is_sent_is_known_beforehand_of_counts_and_a_last_step_only():
    problem = build("l2", 8)
    context = HamiltonianDilation("emulator", SHOTS).open(problem, Workspace(problem))
    assert context.schedule() is not None
    assert dataclasses.replace(context, shots=None).schedule() is None
    assert dataclasses.replace(context, last_step=np.inf).schedule() is None


@pytest.mark.slow
def test_no_seed_of_a_ball_ends_far_off():
    """With the nearest point on the equality two runs of five ended at 13 to 277 floors of all their shots."""
    specimen = next(z for z in zoo() if z.name == "soft SVDD cloud")
    solver = HamiltonianDilation("classical-sampler", SHOTS)
    runs = [dualflow.solve(specimen.problem, solver, random_state=seed, refine=False) for seed in range(5)]
    found = [(run.raw_certificate.objective - specimen.optimum) / abs(specimen.optimum) for run in runs]
    assert max(found) <= 9 * sampled_floor(specimen, runs[0].cost.shots, 64)


@pytest.mark.parametrize("device", ["aer", "pennylane:lightning.qubit"])
def test_sampled_answers_of_circuits(device):
    problem = build("svdd", 12)
    best = optimum(problem)
    run = dualflow.solve(problem, HamiltonianDilation(device, SHOTS, steps=120))
    assert excess(problem, run.raw_alpha, best) <= 3 * floor(excess, problem, best)
    assert run.raw_status is dualflow.Status.FINISHED
    assert (run.cost.circuits, run.cost.shots) == (121, 121 * SHOTS)
    assert run.provenance["answer"] == "average of 60 measured states"
    # The potential's own probability, and the share of the counts that were kept: within five deviations.
    expected = 1 / (16 * run.extras["parameter_alpha"].max())
    deviation = np.sqrt(expected * (1 - expected) / SHOTS)
    assert abs(run.cost.success_probability - expected) <= 5 * deviation
    assert 0 < run.provenance["least_success_probability"] <= run.cost.success_probability
    assert (run.raw_alpha != run.extras["parameter_alpha"]).any()


def test_the_answer_is_the_average_of_what_was_measured():
    """The recursion's x is Σaz/Σa over the second half."""
    problem = build("l2", 8)
    solver = HamiltonianDilation("classical-sampler", 500, steps=20)
    context = solver.open(problem, Workspace(problem))
    state, weights, seen = solver.start(context, np.random.default_rng(0)), [], []
    while not solver.finished(state):
        before = state.weight if state.steps != 10 else 0.0
        state = solver.step(context, state)
        weights.append(state.weight - before)
        seen.append(state.z)
    expected = np.average(seen[10:], axis=0, weights=weights[10:])
    np.testing.assert_allclose(state.x, expected, rtol=1e-12)
    np.testing.assert_allclose(np.array(seen) * 1.0, [z / z.sum() for z in seen], rtol=1e-12)
    assert state.taken == 10


def test_few_shots_that_are_all_discarded_waste_the_step():
    """A vertex of 64 variables keeps one outcome in 64: with two shots most circuits keep none."""
    problem = DualProblem(
        Gram(np.zeros((64, 1))), p=100.0 * np.eye(64)[3], lower=0.0, upper=np.inf, e=np.ones(64), d=1.0
    )
    solver = HamiltonianDilation("classical-sampler", 2, steps=60, method="plain")
    context = solver.open(problem, Workspace(problem))
    state = solver.start(context, np.random.default_rng(0))
    wasted = 0
    while not solver.finished(state):
        before, state = state, solver.step(context, state)
        assert state.account.circuits == before.account.circuits + 1
        if state.V is before.V:
            wasted += 1
            np.testing.assert_array_equal(state.z, before.z)
    assert 30 < wasted < 60
    assert state.taken <= 60 - wasted
    np.testing.assert_allclose(solver.alpha(state), np.eye(64)[3])


def test_a_budget_of_shots_is_kept():
    problem = build("svdd", 8)
    solution = dualflow.solve(problem, HamiltonianDilation(shots=100, shot_budget=2050))
    assert solution.cost.shots == 2000
    assert solution.provenance["answer"] == "average of 10 measured states"
    one = dualflow.solve(problem, HamiltonianDilation(shots=100, shot_budget=100))
    assert (one.cost.shots, one.cost.steps) == (100, 0)


def test_a_budget_holds_the_calibration_of_the_mitigation():
    problem = build("svdd", 4)
    solution = dualflow.solve(
        problem, HamiltonianDilation("emulator", 1000, mitigation="confusion", shot_budget=25_500)
    )
    assert solution.cost.shots == 25_000
    assert solution.cost.circuits == 2 + 5


@pytest.mark.parametrize(
    ("shots", "method"),
    [(400, "accelerated"), (400, "plain"), (None, "accelerated"), (None, "plain"), (None, "implicit")],
)
def test_a_stopped_run_resumes_to_the_same_answer(tmp_path, shots, method):
    problem, solver = build("l2", 12), HamiltonianDilation("emulator", shots, method=method, steps=14)
    whole = dualflow.solve(problem, solver, random_state=1)
    path = tmp_path / "run.npz"
    assert dualflow.solve(problem, solver, random_state=1, checkpoint=path, max_steps=5).cost.steps == 5
    rest = dualflow.solve(problem, solver, random_state=1, checkpoint=path)
    np.testing.assert_array_equal(rest.raw_alpha, whole.raw_alpha)
    assert (rest.cost.circuits, rest.cost.shots) == (whole.cost.circuits, whole.cost.shots)
    assert rest.provenance["job_ids"] == whole.provenance["job_ids"]


def test_same_seed_same_answer():
    problem, options = build("box", 8), {"shots": 300, "steps": 6}
    first, again, other = (
        dualflow.solve(problem, "hamiltonian-dilation", random_state=s, **options) for s in (5, 5, 6)
    )
    np.testing.assert_array_equal(first.raw_alpha, again.raw_alpha)
    assert (first.raw_alpha != other.raw_alpha).any()


# --- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "euler"}, "method='euler' is not known; use one of 'implicit'"),
        ({"method": "implicit", "shots": 10}, "needs exact distributions"),
        ({"shots": "adaptive"}, "average"),
        ({"shots": 10, "final_shots": 20}, "final_shots is not for this solver"),
        ({"steps": 0}, "steps=0"),
        ({"steps": True}, "steps=True"),
        ({"steps": 2.5}, "steps=2.5"),
        ({"shots": 0}, "shots=0"),
        ({"shot_budget": 10}, "shot_budget needs shots"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ProblemError, match=message):
        HamiltonianDilation(**options)


def test_a_box_without_a_bound_is_refused():
    problem = dataclasses.replace(build("box", 8), upper=np.where(np.arange(8) < 3, np.inf, 1.0))
    with pytest.raises(SolverMismatch, match="every upper bound of a box to be finite"):
        dualflow.solve(problem, "hamiltonian-dilation")


def test_too_many_variables_are_refused_with_a_way_out():
    problem = dualflow.problems.svdd(Gram(np.random.default_rng(0).normal(size=(4097, 1)), kernel="linear"))
    with pytest.raises(SolverMismatch, match=r"at most 4096 variables.*working-set"):
        dualflow.solve(problem, "hamiltonian-dilation")
