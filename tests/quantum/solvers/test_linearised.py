"""Schrödingerisation and LCHS: circuits against dense exponentials, windows against the flow, gaps against CVXOPT."""

import dataclasses

import numpy as np
import pytest
from qiskit import QuantumCircuit
from qiskit.circuit.library import PauliEvolutionGate
from qiskit.quantum_info import Operator, SparsePauliOp, Statevector
from qiskit.synthesis import LieTrotter, SuzukiTrotter
from scipy.linalg import expm
from scipy.stats import special_ortho_group
from sklearn.datasets import load_digits, make_moons

import dualflow
from dualflow import DeviceError, DualProblem, Gram, ProblemError, SolverMismatch
from dualflow.quantum.circuits import LCHSCircuit, SchrodingerisedCircuit
from dualflow.quantum.circuits.multiplexer import multiplex_angles
from dualflow.quantum.circuits.pauli_steps import PauliSteps
from dualflow.quantum.circuits.rotation import append_rotation, rotation_angles, rotation_matrix
from dualflow.quantum.devices import make_device
from dualflow.quantum.solvers import linear_model
from tests.combinations import covering, often

SCHRODINGERISATION = "hamiltonian-schrodingerisation"
LCHS = "hamiltonian-lchs"
FAMILIES = (LCHSCircuit, SchrodingerisedCircuit)


def digits(n):
    X, y = load_digits(return_X_y=True)
    chosen = np.isin(y, (1, 4))
    return X[chosen][:n] / 16, np.where(y[chosen][:n] == 1, 1, -1)


def moons(n):
    X, y = make_moons(n, noise=0.2, random_state=0)
    return X, 2 * y - 1


DATA = {"digits": digits, "moons": moons}
MODELS = {
    "squared hinge": lambda gram, y: dualflow.problems.svc(gram, y, C=10.0, loss="squared_hinge"),
    "svdd": lambda gram, y: dualflow.problems.svdd(gram),
}


def problem_of(data, model, n):
    X, y = DATA[data](n)
    return MODELS[model](Gram(X, kernel="rbf", gamma="scale"), y)


def random_model(size, seed=0, with_k=True, spread=3.0):
    """L ⪰ 0 with least eigenvalue 0, K, x0 ≥ 0."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(size, size))
    L = A @ A.T
    lam = np.linalg.eigvalsh(L)
    L = (L - lam[0] * np.eye(size)) * spread / (lam[-1] - lam[0])
    B = rng.normal(size=(size, size))
    K = 0.5 * (B - B.T) if with_k else np.zeros((size, size))
    x0 = rng.uniform(0.1, 1.0, size)
    return linear_model.LinearModel(L, K, x0 / np.linalg.norm(x0), np.empty(0), spread, np.inf)


# --- rotations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("q", [1, 2, 3, 4])
def test_a_rotation_is_its_multiplexers(q):
    R = special_ortho_group.rvs(2**q, random_state=q) if q > 1 else np.array([[0.6, -0.8], [0.8, 0.6]])
    angles = rotation_angles(R)
    assert angles.size == 2**q * (2**q - 1) // 2  # the dimension of SO(2^q)
    np.testing.assert_allclose(rotation_matrix(angles), R, atol=1e-13)
    circuit = QuantumCircuit(q)
    append_rotation(circuit, multiplex_angles(angles).ravel(), q)
    np.testing.assert_allclose(Operator(circuit).data, R, atol=1e-13)
    assert circuit.count_ops().get("cx", 0) == (0 if q == 1 else angles.size)


@pytest.mark.parametrize(
    "R",
    [np.eye(8), -np.eye(8), np.diag([1.0, -1, -1, 1]), np.eye(8)[[1, 0, 3, 2, 4, 5, 6, 7]], np.eye(4)[[2, 0, 1, 3]]],
)
def test_rotations_with_repeated_singular_values(R):
    np.testing.assert_allclose(rotation_matrix(rotation_angles(R)), R, atol=1e-14)


@pytest.mark.parametrize("R", [np.diag([1.0, -1.0]), np.ones((2, 2)), np.eye(3), np.eye(1), np.ones((2, 4))])
def test_what_is_no_rotation_is_refused(R):
    with pytest.raises(ProblemError):
        rotation_angles(R)


# --- the select circuit ----------------------------------------------------------------------------------


def dense(circuit, register, model, t):
    """Σ_k register_k |k⟩ exp(−it(±kL + H)) x0, −iH = K, by one dense exponential for each k."""
    generators = [-1j * circuit.pairing * k * model.L + model.K for k in circuit.k]
    return np.array([r * expm(t * G) @ model.x0 for r, G in zip(register, generators, strict=True)])


def evolved(circuit, model, t):
    register = circuit.start_amplitudes()
    return circuit.evolve(register, linear_model.window_angles(circuit, model, t)), dense(circuit, register, model, t)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("q", [1, 2, 3])
def test_select_is_the_dense_exponential(family, q):
    circuit = family(q + 4, 4)
    ours, theirs = evolved(circuit, random_model(2**q, with_k=False), 0.7)
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("evolution", ["exact", "trotter"])
def test_gates_up_to_eight_qubits_are_the_product_formula(family, evolution):
    for q, ancillas, splits in ((1, 3, 2), (2, 4, 1), (3, 5, 2)):
        circuit = family(q + ancillas, ancillas, splits, evolution)
        theta = linear_model.window_angles(circuit, random_model(2**q, q), 0.3)
        by_gates = Statevector(circuit.build().assign_parameters(circuit.gate_parameters(theta))).data
        ours = circuit.state(theta).ravel()
        phase = np.vdot(ours, by_gates)
        assert abs(phase) == pytest.approx(1.0, abs=1e-11)
        np.testing.assert_allclose(phase * ours, by_gates, atol=1e-11)
        np.testing.assert_allclose(circuit.distribution(theta), np.abs(by_gates) ** 2, atol=1e-12)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("evolution", ["exact", "trotter"])
def test_both_families_on_default_qubit(family, evolution):
    circuit = family(6, 4, 2, evolution)
    theta = linear_model.window_angles(circuit, random_model(4, 3), 0.4)
    for device in ("aer", "pennylane:default.qubit"):
        found = make_device(device).submit(circuit, theta).result().ordered("little").probabilities
        np.testing.assert_allclose(found, circuit.distribution(theta), rtol=0, atol=1e-9, err_msg=device)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("evolution", ["exact", "trotter"])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_error_of_the_splitting_falls_with_its_order(family, evolution, order):
    model, errors = random_model(4, 1), []
    for splits in (8, 16, 32, 64):
        circuit = family(5, 3, splits, evolution, order)
        ours, theirs = evolved(circuit, model, 0.3)
        errors.append(np.linalg.norm(ours - theirs))
    slopes = np.diff(np.log2(errors))
    assert errors[-1] > 1e-9  # not round-off
    np.testing.assert_allclose(slopes[-2:], -order, atol=0.15)


@pytest.mark.parametrize("order", [1, 2])
def test_trotter_steps_are_those_of_qiskit(order):
    """One step against PauliEvolutionGate with the same strings in the same order."""
    steps, model, dt = PauliSteps(2, 2, order), random_model(4, 5), 0.4
    symmetric, antisymmetric = steps.weights(model.L, model.K)
    strings = [_label(x, z, 2) for part in steps.strings for x, z in part.tolist()]
    total = SparsePauliOp(strings, np.concatenate([symmetric, antisymmetric]))
    np.testing.assert_allclose(total.to_matrix(), model.L + 1j * model.K, atol=1e-12)
    weights = (0.25, -0.5)  # k = Σ_b weight_b Z_b
    terms, values = [], []
    for label, weight in zip(strings[: len(symmetric)], symmetric, strict=True):
        for b, w in enumerate(weights):
            terms.append(("ZI" if b else "IZ") + label)
            values.append(w * weight)
    terms += ["II" + label for label in strings[len(symmetric) :]]
    values += antisymmetric.tolist()
    synthesis = LieTrotter(preserve_order=True) if order == 1 else SuzukiTrotter(order=2, preserve_order=True)
    theirs = QuantumCircuit(4)
    theirs.append(PauliEvolutionGate(SparsePauliOp(terms, values), time=dt, synthesis=synthesis), range(4))
    angles = np.concatenate([2 * dt * np.outer(weights, symmetric).ravel(), 2 * dt * antisymmetric])
    ours = QuantumCircuit(4)
    steps.append(ours, steps.gate_angles(angles).tolist(), 1)
    theirs, ours = (Operator(circuit.decompose(reps=3)).data for circuit in (theirs, ours))
    np.testing.assert_allclose(ours, theirs, atol=1e-12)


def _label(x, z, q):
    letters = {(0, 0): "I", (1, 0): "X", (0, 1): "Z", (1, 1): "Y"}
    return "".join(letters[x >> k & 1, z >> k & 1] for k in reversed(range(q)))


# --- the outcomes that are kept ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("circuit", "error"),
    [
        (LCHSCircuit(10, 8), 1e-2),
        (LCHSCircuit(10, 8, cutoff=50.0), 2e-4),
        (LCHSCircuit(11, 9, cutoff=100.0), 2e-6),
        (SchrodingerisedCircuit(10, 8), 4e-3),
        (SchrodingerisedCircuit(11, 9, half_width=8.0), 3e-4),
    ],
    ids=lambda value: value.name if hasattr(value, "name") else "",
)
def test_kept_outcomes_show_the_dissipative_flow(circuit, error):
    for t in (0.0, 0.3, 1.0, 2.0):
        model = random_model(4, 2, with_k=False)
        kept = circuit.kept(circuit.distribution(linear_model.window_angles(circuit, model, t)))
        x = expm(-t * model.L) @ model.x0
        amplitudes = np.sqrt(kept / kept.sum())
        np.testing.assert_allclose(amplitudes, np.abs(x) / np.linalg.norm(x), atol=error)
        # The success probability: what LCHS says, and the weight of p > 0 for Schrödingerisation.
        if isinstance(circuit, LCHSCircuit):
            said = (np.linalg.norm(x) / np.abs(circuit.weights).sum()) ** 2
        else:
            v = np.exp(np.where(circuit.p < 0, circuit.LEFT_RATE, -1.0) * circuit.p) ** 2
            said = np.linalg.norm(x) ** 2 * v[circuit.accepted].sum() / v.sum()
        assert kept.sum() == pytest.approx(said, abs=4 * error)


@pytest.mark.parametrize(("cutoff", "said"), often([(12.5, 1.5e-2), (25.0, 2.1e-3), (50.0, 9e-5)], (25.0, 2.1e-3)))
def test_what_lies_beyond_the_cutoff(cutoff, said):
    circuit, lt = LCHSCircuit(14, 13, cutoff=cutoff), np.linspace(0.0, 5.0, 1001)
    error = np.abs(np.exp(-1j * np.outer(lt, circuit.k)) @ circuit.weights - np.exp(-lt))
    assert 0.9 * said < error.max() < said
    assert cutoff != 12.5 or error[0] == pytest.approx(2.7e-3, rel=0.02)


@pytest.mark.parametrize("family", FAMILIES)
def test_with_an_antisymmetric_part_too(family):
    circuit, model = family(10, 8, 32), random_model(4, 6)
    kept = circuit.kept(circuit.distribution(linear_model.window_angles(circuit, model, 0.8)))
    x = expm(-0.8 * (model.L - model.K)) @ model.x0
    np.testing.assert_allclose(np.sqrt(kept / kept.sum()), np.abs(x) / np.linalg.norm(x), atol=1e-2)


@dataclasses.dataclass(frozen=True, repr=False)
class WrongPairing(SchrodingerisedCircuit):
    """The wrong sign +k̂ ⊗ L, read at p > 0."""

    pairing = 1


def test_the_wrong_sign_gives_a_large_error():
    model, t = random_model(4, 2, with_k=False), 1.0
    x = expm(-t * model.L) @ model.x0
    errors = []
    for family in (SchrodingerisedCircuit, WrongPairing):
        circuit = family(10, 8)
        state = circuit.state(linear_model.window_angles(circuit, model, t))[circuit.accepted]
        v = np.exp(np.where(circuit.p < 0, circuit.LEFT_RATE, -1.0) * circuit.p)
        read = np.abs(state) * np.linalg.norm(v) * np.exp(circuit.p[circuit.accepted])[:, None]
        errors.append(np.abs(read - np.abs(x)).max() / np.abs(x).max())
    assert errors[0] < 0.1
    assert errors[1] > 5.0  # exp(+tL) instead of exp(−tL)


# --- the linear models -----------------------------------------------------------------------------------


def custom(n=6, d=2.5):
    """A simplex of total d with a linear term that no constant absorbs."""
    rng = np.random.default_rng(7)
    return DualProblem(
        Gram(rng.normal(size=(n, 2)), gamma=0.5), p=rng.normal(size=n), lower=0.0, upper=np.inf, e=np.ones(n), d=d
    )


def read(model, x):
    weight = x**2 if not len(model.scale) else model.scale * np.abs(x[: len(model.scale)])
    return weight / weight.sum()


@pytest.mark.parametrize("form", linear_model.FORMS)
def test_windows_follow_the_flow_to_second_order(form):
    """Local error of a window O(t³) against the replicator (a step of RK4), time divided by 1ᵀw in Lotka-Volterra."""
    problem = custom()
    H, mu = linear_model.quadratic_form(problem), np.random.default_rng(1).dirichlet(np.ones(6))
    assert 0.5 * mu @ H @ mu == pytest.approx(problem.objective(problem.d * mu), abs=1e-12)
    model = linear_model.linearise(form, H, mu)
    np.testing.assert_allclose(model.L, model.L.T)
    np.testing.assert_allclose(model.K, -model.K.T)
    assert abs(np.linalg.eigvalsh(model.L)[0]) < 1e-12
    assert (form == "replicator") == (not model.K.any())

    def rate(nu):
        if form == "replicator":
            return -nu * (H @ nu - nu @ H @ nu)
        return nu * (1.0 - positive @ nu)

    positive = H - H.min() + 1e-3 * np.ptp(H) if H.min() <= 0 else H
    start = mu if form == "replicator" else mu / (mu @ positive @ mu)
    errors = []
    for t in (0.04, 0.02, 0.01):
        nu = start
        for _ in range(20):
            h = t / 20
            a = rate(nu)
            b = rate(nu + 0.5 * h * a)
            c = rate(nu + 0.5 * h * b)
            nu = nu + h / 6 * (a + 2 * b + 2 * c + rate(nu + h * c))
        x = expm(-t * (model.L - model.K)) @ model.x0
        errors.append(np.abs(read(model, x) - nu / nu.sum()).max())
    np.testing.assert_allclose(np.diff(np.log2(errors)), -3.0, atol=0.2)


def test_at_the_optimum_the_state_is_the_lowest_eigenvector():
    problem = problem_of("moons", "squared hinge", 8)
    alpha = np.maximum(dualflow.solve(problem, "cvxopt", tol=1e-10).alpha, 0.0)
    model = linear_model.linearise("replicator", linear_model.quadratic_form(problem), alpha / alpha.sum())
    assert np.abs(model.L @ model.x0).max() < 1e-5 * model.spread


def test_sampling_noise_is_that_of_samples():
    problem, shots = problem_of("moons", "squared hinge", 8), 500
    H, mu = linear_model.quadratic_form(problem), np.random.default_rng(2).dirichlet(np.ones(8))
    draws = np.random.default_rng(3).multinomial(shots, mu, size=4000) / shots
    f = 0.5 * np.einsum("si,ij,sj->s", draws, H, draws)
    excess, deviation = linear_model.sampling_noise(H, mu, shots)
    # Standard errors of the mean and of the standard deviation over 4000 draws.
    assert abs(f.mean() - 0.5 * mu @ H @ mu - excess) < 4 * f.std() / np.sqrt(4000)
    assert abs(f.std() - deviation) < 4 * deviation / np.sqrt(2 * 4000) + 0.02 * deviation


# --- the solvers -----------------------------------------------------------------------------------------

MUSTS = [(SCHRODINGERISATION, 4, 1e-5), (SCHRODINGERISATION, 8, 2e-3), (SCHRODINGERISATION, 16, 1e-2)]
MUSTS += [(LCHS, 8, 1e-3), (LCHS, 16, 3e-2)]


@pytest.mark.parametrize(("case", "model", "data"), covering(MUSTS, list(MODELS), list(DATA)))
def test_musts_and_the_null_device(case, model, data):
    solver, n, must = case
    problem = problem_of(data, model, n)
    solution = dualflow.solve(problem, solver, device="emulator")
    assert solution.raw_certificate.relative_gap <= min(must, 1e-6)
    assert solution.raw_certificate.infeasibility <= 1e-12
    best = dualflow.solve(problem, "cvxopt", tol=1e-10).certificate.objective
    assert abs(solution.raw_certificate.objective - best) <= 1e-6 * abs(best)
    null = dualflow.solve(problem, solver, device="null")
    assert null.raw_certificate.relative_gap >= 10 * must


@pytest.mark.parametrize("solver", [SCHRODINGERISATION, LCHS])
def test_circuits_run_on_aer_and_everything_is_counted(solver):
    problem = problem_of("moons", "squared hinge", 8)
    solution = dualflow.solve(problem, solver)
    emulated = dualflow.solve(problem, solver, device="emulator")
    np.testing.assert_allclose(solution.raw_alpha, emulated.raw_alpha, atol=1e-6)
    cost, about = solution.cost, solution.provenance
    assert (about["device"], about["ancillas"], about["trotter_steps"]) == ("aer", 8, 1)
    assert (cost.qubits, cost.shots) == (11, 0)
    assert cost.circuits == cost.steps + 1
    assert cost.two_qubit_gates == {SCHRODINGERISATION: 516, LCHS: 888}[solver]
    assert cost.depth > 500
    assert 0.5 < cost.success_probability < 0.7
    assert 0 < cost.device_time_s <= cost.wall_time_s
    assert cost.classical_share < 1
    assert about["longest_window"] > 0


@pytest.mark.parametrize("solver", [SCHRODINGERISATION, LCHS])
def test_pennylane_takes_the_same_windows(solver):
    problem = problem_of("digits", "svdd", 3)
    options = {"ancillas": 5, "max_steps": 3} | ({"cutoff": 4.0} if solver == LCHS else {"half_width": 4.0})
    ours = dualflow.solve(problem, solver, device="pennylane:default.qubit", **options)
    np.testing.assert_allclose(ours.raw_alpha, dualflow.solve(problem, solver, **options).raw_alpha, atol=1e-9)


@pytest.mark.parametrize(
    ("solver", "options"),
    covering(
        [SCHRODINGERISATION, LCHS],
        [{"form": "lotka-volterra"}, {"longest": 20.0}, {"evolution": "trotter"}],
        together=1,
    ),
)
def test_other_ways_to_the_same_optimum(solver, options):
    problem = problem_of("digits", "svdd", 4)
    solution = dualflow.solve(problem, solver, device="emulator", tol=1e-6, max_steps=300, **options)
    assert solution.raw_certificate.relative_gap <= 1e-5
    if "longest" in options:
        assert solution.provenance["longest_window"] <= 20.0
    if "form" in options:
        assert (solution.provenance["trotter_steps"], solution.cost.qubits) == (8, 11)


@pytest.mark.parametrize("solver", [SCHRODINGERISATION, LCHS])
def test_any_total_any_number_and_a_single_variable(solver):
    problem = custom()
    solution = dualflow.solve(problem, solver, device="emulator", tol=1e-7)
    assert solution.status is dualflow.Status.OPTIMAL
    assert solution.raw_alpha.sum() == pytest.approx(2.5, abs=1e-12)
    best = dualflow.solve(problem, "cvxopt", tol=1e-10).certificate.objective
    assert solution.raw_certificate.objective == pytest.approx(best, abs=1e-6 * abs(best))
    single = DualProblem(Gram(np.ones((1, 2))), p=[1.0], lower=0.0, upper=np.inf, e=[1.0], d=1.0)
    np.testing.assert_array_equal(dualflow.solve(single, solver, device="emulator").raw_alpha, [1.0])


def test_a_run_leaves_a_start_in_a_wrong_corner():
    problem = problem_of("moons", "svdd", 8)
    for vertex in (0, 5):
        solution = dualflow.solve(problem, LCHS, device="emulator", warm=np.eye(8)[vertex])
        assert solution.status is dualflow.Status.OPTIMAL


def test_f_never_rises_with_exact_distributions():
    problem = problem_of("moons", "squared hinge", 16)
    path = dualflow.solve(problem, LCHS, device="emulator", trajectory=True).trajectory
    assert (np.diff(path.objective) <= 1e-15 * abs(path.objective[0])).all()
    assert path.objective[-1] < 0.5 * path.objective[0]


@pytest.mark.parametrize("solver", often([SCHRODINGERISATION, LCHS], LCHS))
def test_shots_are_within_three_times_the_floor(solver):
    """(f − f*)/|f*| in the median of 5 seeds; floor: the exact optimum sampled with all shots of a run, 50 draws."""
    problem, shots = problem_of("digits", "squared hinge", 16), 10_000
    alpha = np.maximum(dualflow.solve(problem, "cvxopt", tol=1e-10).alpha, 0.0)
    best, f = alpha / alpha.sum(), problem.objective

    def excess(a):
        return (f(problem.project(a)) - f(best)) / abs(f(best))

    floor = np.median([excess(np.random.default_rng(s).multinomial(61 * shots, best) / 61 / shots) for s in range(50)])
    runs = [
        dualflow.solve(problem, solver, device="classical-sampler", shots=shots, random_state=s, tol=1e-9)
        for s in range(5)
    ]
    assert np.median([excess(run.raw_alpha) for run in runs]) <= 3 * floor
    assert all(run.cost.shots == shots * run.cost.circuits == shots * 61 for run in runs)


@pytest.mark.parametrize("solver", often([LCHS, SCHRODINGERISATION], SCHRODINGERISATION))
def test_with_few_shots_no_run_strays(solver):
    """Windows that keep hardly any shots are rejected: without that, one shot of 1000 was once taken for the state."""
    problem = problem_of("moons", "svdd", 8)
    best = dualflow.solve(problem, tol=1e-12, refine=True)
    f, shots = best.certificate.objective, 61 * 1000
    draws = np.random.default_rng(0).multinomial(shots, best.alpha, 101) / shots
    floor = np.median([problem.objective(draw) - f for draw in draws])
    for seed in range(6):
        found = dualflow.solve(problem, solver, device="emulator", shots=1000, tol=1e-12, random_state=seed)
        assert found.cost.shots == shots
        assert problem.objective(problem.project(found.raw_alpha)) - f <= 12 * floor


@pytest.mark.parametrize("solver", [LCHS, SCHRODINGERISATION])
@pytest.mark.parametrize("form", ["replicator", "lotka-volterra"])
def test_the_final_circuit_of_a_sampled_run_prepares_the_average(solver, form):
    """The state vector of Qiskit against α; the ancillas resolve a window of length 0 exactly."""
    problem = dualflow.problems.svdd(Gram(np.random.default_rng(3).normal(size=(4, 2)), gamma=0.5))
    options = {"form": form, "ancillas": 6, "windows": 4, "shots": 2000, "trotter_steps": 1}
    found = dualflow.solve(problem, solver, device="emulator", random_state=0, **options)
    final = dualflow.final_circuit(found)
    assert final.num_qubits == dualflow.circuit(problem, solver, **options).num_qubits
    family = {LCHS: LCHSCircuit, SCHRODINGERISATION: SchrodingerisedCircuit}[solver](final.num_qubits, ancillas=6)
    H = linear_model.quadratic_form(problem)
    scale = linear_model.linearise(form, H, found.raw_alpha / problem.d).scale
    distribution = np.abs(Statevector(final).data) ** 2
    mu, _ = linear_model.read_distribution(family, scale, distribution, problem.n)
    np.testing.assert_allclose(mu * problem.d, found.raw_alpha, atol=1e-6)


def test_budgets_final_shots_and_adaptive_shots():
    problem = problem_of("moons", "svdd", 8)
    run = {"device": "classical-sampler", "tol": 1e-9, "random_state": 0}
    fixed = dualflow.solve(problem, LCHS, shots=1000, windows=5, final_shots=4000, **run)
    assert (fixed.cost.circuits, fixed.cost.shots) == (7, 6 * 1000 + 4000)
    within = dualflow.solve(problem, LCHS, shots=1000, shot_budget=9500, **run)
    assert within.cost.shots == 9000
    adaptive = dualflow.solve(problem, LCHS, shots="adaptive", shot_budget=200_000, **run)
    assert 150_000 <= adaptive.cost.shots <= 200_000
    again = dualflow.solve(problem, LCHS, shots="adaptive", shot_budget=200_000, **run)
    np.testing.assert_array_equal(adaptive.raw_alpha, again.raw_alpha)


def test_an_error_is_raised_if_no_outcome_is_kept():
    problem = problem_of("digits", "svdd", 16)
    with pytest.raises(DeviceError, match="keeps; raise shots"):
        dualflow.solve(problem, LCHS, device="null", shots=5)


@pytest.mark.parametrize(
    "options",
    [
        {"form": "carleman"},
        {"evolution": "magic"},
        {"order": 3},
        {"trotter_steps": 0},
        {"ancillas": 1},
        {"ancillas": 2.5},
        {"ancillas": -1},
        {"ancillas": "8"},
        {"ancillas": None},
        {"ancillas": 17},
        {"longest": "2"},
        {"longest": True},
        {"cutoff": "12"},
        {"cutoff": None},
        {"windows": 0},
        {"longest": 0.0},
        {"cutoff": -1.0},
        {"shots": 0},
    ],
)
def test_bad_options(options):
    (name,) = options
    with pytest.raises(ProblemError, match=f"{name}="):
        dualflow.HamiltonianLCHS(**options)
    if "cutoff" not in options:
        with pytest.raises(ProblemError, match=f"{name}="):
            dualflow.HamiltonianSchrodingerisation(**options)


def test_bad_widths():
    for half_width in (0.0, np.inf, "16"):
        with pytest.raises(ProblemError, match="half_width"):
            dualflow.HamiltonianSchrodingerisation(half_width=half_width)
    with pytest.raises(ProblemError, match="n_qubits"):
        LCHSCircuit(4, 4)


def test_more_points_than_max_n_are_refused_by_name():
    with pytest.raises(SolverMismatch, match=r"at most 16.*17.*working-set"):
        dualflow.solve(problem_of("moons", "svdd", 17), LCHS)
