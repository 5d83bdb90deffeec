"""hamiltonian-descent and hamiltonian-adiabatic against their controls (corners, fields, random bits, null device)."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons

import dualflow
from dualflow import (
    Gram,
    HamiltonianAdiabatic,
    HamiltonianDescent,
    ProblemError,
    SolverMismatch,
    Status,
    problems,
)
from dualflow.quantum.circuits.encoding import bit_table
from dualflow.quantum.devices.emulator import EmulatorDevice
from dualflow.quantum.solvers import box_zoom
from dualflow.quantum.solvers.blocks import Block, block_of, choose_block, move_towards, pattern_move
from dualflow.quantum.solvers.box_zoom import FIELD_PER_CURVATURE, MAX_FIELD_ANGLE, box_angles, first_box, next_box
from dualflow.solvers.registry import make_solver
from tests.combinations import covering

SOLVERS = ("hamiltonian-descent", "hamiltonian-adiabatic")


def problem(data, n, bias=True, C=1.0):
    if data == "moons":
        X, t = make_moons(n, noise=0.2, random_state=0)
    else:
        digits = load_digits()
        chosen = np.isin(digits.target, (1, 4))
        X, t = digits.data[chosen][:n] / 16, digits.target[chosen][:n] == 1
    return problems.svc(Gram(X, kernel="rbf", gamma="scale"), 2.0 * (t > 0) - 1, C, fit_intercept=bias)


def solve(problem, solver, **options):
    """Solve on the emulator by default: it gives the distributions of Aer in a hundredth of the time."""
    if solver in SOLVERS:
        options = {"device": "emulator"} | options
    return dualflow.solve(problem, solver, **options)


def excess(problem, solver, circuits=12, **options):
    """Return the relative excess of f after each circuit, shape (circuits + 1,)."""
    best = solve(problem, "cvxopt", tol=1e-9).certificate.objective
    path = solve(problem, solver, tol=1e-14, max_steps=circuits, trajectory=True, **options).trajectory
    return (np.array([problem.objective(alpha) for alpha in path.alpha]) - best) / abs(best)


def circuits_to(excess, wanted):
    return int(np.argmax(excess <= wanted)) if (excess <= wanted).any() else 10**6


@pytest.mark.parametrize(("solver", "bias"), covering(SOLVERS, [True, False], together=1))
def test_the_packet_s_mean_is_the_answer_in_a_third_of_the_corner_s_circuits(solver, bias):
    """Raw answers without classical helpers: excess 1e-3 at n = 8, compared with control devices."""
    p = problem("digits", 8, bias, C=10.0)
    right = circuits_to(excess(p, solver), 1e-3)
    assert right <= 5
    others = ("control:corner", "control:field", "control:random")
    needed = {name: circuits_to(excess(p, solver, 40, device=name), 1e-3) for name in others}
    assert min(needed.values()) >= 3 * right, needed
    assert needed["control:corner"] < 40  # the same loop works with it
    assert excess(p, solver, 12, device="null").min() > 0.1


@pytest.mark.parametrize("bias", [True, False], ids=["equality", "box"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_runs_with_shots_reach_the_optimum_too(solver, bias):
    p = problem("digits", 8, bias, C=10.0)
    assert circuits_to(excess(p, solver, shots=10_000), 1e-2) <= 6


def test_sixteen_qubits():
    p = problem("digits", 16, C=10.0)
    assert circuits_to(excess(p, "hamiltonian-adiabatic", 5, block=16), 1e-2) <= 5


@pytest.mark.parametrize(
    ("bias", "helpers"),
    covering([True, False], [{}, {"line_search": True, "pattern_moves": True}], together=1),
    ids=["equality-raw", "equality-helpers", "box-raw", "box-helpers"],
)
def test_blocks(bias, helpers):
    p = problem("digits", 32, bias)
    # The order of the blocks depends on last bits: after 60 circuits six seeds are between 1e-5 and 4e-2, after 120 all
    # are below 3e-3.
    assert excess(p, "hamiltonian-descent", 120, **helpers).min() <= 1e-2
    assert excess(p, "hamiltonian-descent", 60, device="null", **helpers).min() >= 0.2


def test_line_searches_never_let_f_rise():
    p = problem("moons", 24)
    assert (np.diff(excess(p, "hamiltonian-descent", 24, line_search=True, shots=50)) <= 1e-12).all()


@pytest.mark.parametrize("solver", SOLVERS)
def test_aer_gives_the_path_of_the_emulator(solver):
    p = problem("digits", 4, C=10.0)
    runs = [
        solve(p, solver, device=device, max_blocks=1, tol=1e-14, trotter_steps=10) for device in ("aer", "emulator")
    ]
    np.testing.assert_allclose(runs[0].raw_alpha, runs[1].raw_alpha, atol=1e-8)
    cost = runs[0].cost
    # 4 circuits a block; 6 pairs in 11 layers.
    assert (cost.circuits, cost.qubits, cost.two_qubit_gates, cost.shots) == (4, 4, 66, 0)
    assert cost.depth > 20
    assert cost.success_probability is None  # nothing is post-selected
    assert 0 < cost.device_time_s < cost.wall_time_s
    assert runs[0].provenance["cx_gates"] == 132


@pytest.mark.parametrize("solver", SOLVERS)
def test_shots_are_counted_and_budgeted(solver):
    p = problem("moons", 8)
    solution = solve(p, solver, shots=1000, max_blocks=3, tol=1e-12)
    assert (solution.cost.circuits, solution.cost.shots) == (12, 12_000)
    assert solution.raw_status is Status.FINISHED
    other = solve(p, solver, shots=1000, max_blocks=3, tol=1e-12, random_state=1)
    assert not np.array_equal(solution.raw_alpha, other.raw_alpha)
    assert solve(p, solver, shots=1000, shot_budget=7_900, tol=1e-12).cost.shots == 7000


@pytest.mark.parametrize("budget", [20_300, 21_000, 44_000])
def test_a_budget_holds_the_calibration(budget):
    options = {"device": "classical-sampler", "shots": 300, "mitigation": "confusion", "block": 5}
    run = {"tol": 1e-9, "random_state": 1}
    spent = solve(problem("digits", 32), "hamiltonian-descent", shot_budget=budget, **options, **run).cost.shots
    assert budget - 300 < spent <= budget
    with pytest.raises(ProblemError, match="does not hold"):
        HamiltonianDescent(shot_budget=20_299, **options)


def test_two_qubits_a_variable():
    p = problem("moons", 4, bias=False)
    assert circuits_to(excess(p, "hamiltonian-descent", bits=2, block=4, trotter_steps=100), 1e-3) <= 8
    assert solve(p, "hamiltonian-descent", bits=2, block=4, max_blocks=1).cost.qubits == 8


@pytest.mark.parametrize("bias", [True, False])
def test_the_point_stays_feasible(bias):
    p = problem("digits", 24, bias)
    path = solve(p, "hamiltonian-descent", shots=100, max_blocks=12, tol=1e-12, trajectory=True).trajectory
    assert max(p.infeasibility(alpha) for alpha in path.alpha) < 1e-12


def test_a_run_that_does_not_move_alpha_ends():
    p = problem("moons", 8)
    solution = solve(p, "hamiltonian-descent", device="null", tol=1e-12)
    assert solution.raw_status is Status.NOISE_DOMINATED
    assert solution.cost.circuits == 4 * (2 + 4)
    np.testing.assert_array_equal(solution.raw_alpha, 0.0)


def test_a_run_resumes_in_the_middle_of_a_block(tmp_path):
    p, options = problem("digits", 24), {"tol": 1e-12, "shots": 500}
    whole = solve(p, "hamiltonian-adiabatic", max_steps=11, **options)
    solve(p, "hamiltonian-adiabatic", max_steps=6, checkpoint=tmp_path / "run.npz", **options)
    rest = solve(p, "hamiltonian-adiabatic", max_steps=11, checkpoint=tmp_path / "run.npz", **options)
    np.testing.assert_array_equal(rest.raw_alpha, whole.raw_alpha)


# --- the classical parts -----------------------------------------------------------------------


def a_block(e=None, d=0.0):
    rng = np.random.default_rng(0)
    R = rng.normal(size=(4, 6))
    start = np.array([0.2, 0.5, 0.0, 1.0])
    d = d if e is None else float(e @ start)
    return Block(np.arange(4), R @ R.T, rng.normal(size=4), np.ones(4), e, d, start)


def test_block_has_the_slopes_and_curvature_of_f():
    p, alpha, index = problem("moons", 12), np.random.default_rng(1).uniform(0, 1, 12), np.array([1, 4, 5, 10])
    block = block_of(p, alpha, index, p.gradient(alpha))
    moved, x = alpha.copy(), np.array([0.3, 0.9, 0.0, 0.4])
    moved[index] = x

    def value(x):
        return 0.5 * x @ block.Q @ x + block.g @ x

    assert value(x) - value(alpha[index]) == pytest.approx(p.objective(moved) - p.objective(alpha), abs=1e-12)
    assert block.d == pytest.approx(p.e[index] @ alpha[index])


@pytest.mark.parametrize("bits", [1, 2])
def test_angles_are_the_lagrangian_on_the_box_in_units_of_the_field(bits):
    e = np.array([1.0, 1, -1, 1])
    block = a_block(e)
    block = replace(block, g=0.1 * block.g - block.Q @ block.start - 0.7 * e)  # slopes that are not cut
    box = replace(first_box(block, 0.7), reach=0.3, held=np.array([1.0, 0.5, 1.0, 1.0]))
    qubo, theta = box_angles(block, box, 0.7, bits)
    half = 0.3 / np.sqrt(np.diag(block.Q)) * box.held
    corners = qubo.decode(bit_table(4 * bits))
    np.testing.assert_allclose(corners.max(axis=0) - corners.min(axis=0), 2 * half, atol=1e-14)
    np.testing.assert_allclose(corners.mean(axis=0), block.start, atol=1e-14)
    z = 1 - 2 * bit_table(4 * bits)
    first, second = np.triu_indices(4 * bits, 1)
    energy = (z @ theta[: 4 * bits] + (z[:, first] * z[:, second]) @ theta[4 * bits :]) * FIELD_PER_CURVATURE * 0.3**2
    direct = [0.5 * x @ block.Q @ x + block.g @ x + 0.7 * (e @ x - block.d) for x in corners]
    np.testing.assert_allclose(energy - energy[0], np.array(direct) - direct[0], atol=1e-12)


def test_steep_fields_are_cut():
    block = a_block()
    theta = box_angles(block, replace(first_box(block, 0.0), reach=1e-6), 0.0)[1]
    np.testing.assert_allclose(abs(theta[:4]), MAX_FIELD_ANGLE)


def test_in_the_matching_field_the_mean_of_a_free_spin_is_a_newton_step():
    """By diagonalisation: ⟨x⟩ of −ΓX + hZ against −g/Q."""
    Q, g, r = 2.0, 1e-3, 0.1
    H = np.array([[0, -1], [-1, 0]]) * Q * r**2 + np.diag([-g * r, g * r])
    psi = np.linalg.eigh(H)[1][:, 0]
    assert r * float(psi**2 @ [-1, 1]) == pytest.approx(-g / Q, rel=1e-3)


def test_the_circuit_s_mean_is_that_of_the_ground_state():
    """The prepared state against the dense diagonalisation of −ΣX + V."""
    p = problem("digits", 6, bias=False, C=10.0)
    block = block_of(p, np.zeros(6), np.arange(6), p.gradient(np.zeros(6)))
    theta = box_angles(block, first_box(block, 0.0), 0.0)[1]
    z = 1.0 - 2.0 * bit_table(6)
    first, second = np.triu_indices(6, 1)
    H = np.diag(z @ theta[:6] + (z[:, first] * z[:, second]) @ theta[6:])
    for k in range(6):
        H[np.arange(64), np.arange(64) ^ (1 << k)] -= 1.0
    ground = np.linalg.eigh(H)[1][:, 0] ** 2
    for solver, within in ((HamiltonianAdiabatic(), 0.05), (HamiltonianDescent(), 0.1)):
        outcome = solver.circuit_of(6).distribution(theta)
        assert abs((outcome - ground) @ z).max() <= within
        assert abs(ground @ z).max() > 0.3


class Listening(EmulatorDevice):
    """The emulator, which stores the angles of its circuits."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def _ideal(self, circuit, values):
        self.seen.extend(values)
        return super()._ideal(circuit, values)


@pytest.mark.parametrize("solver", [HamiltonianAdiabatic(), HamiltonianDescent()], ids=lambda solver: solver.name)
def test_the_default_steps_resolve_the_hamiltonian(solver):
    """Total variation of the outcomes to 6400 steps at most 0.05, on the angles of a run."""
    p, heard = problem("digits", 8, C=10.0), Listening()
    solve(p, replace(solver, device=heard), max_steps=6, tol=1e-14)
    assert len(heard.seen) == 6
    fine = replace(solver.circuit_of(8), trotter_steps=6400)
    for theta in heard.seen[::5]:
        off = 0.5 * abs(solver.circuit_of(8).distribution(theta) - fine.distribution(theta)).sum()
        assert off <= 0.05


def test_line_search_is_exact_and_feasible():
    for e in (None, np.array([1.0, 1, -1, 1])):
        block = a_block(e)
        target = np.array([0.9, -3.0, 0.4, 0.1])
        point, fall = move_towards(block, target)

        def value(x, block=block):
            return 0.5 * x @ block.Q @ x + block.g @ x

        assert value(block.start) - value(point) == pytest.approx(fall, abs=1e-12)
        assert ((point >= 0) & (point <= block.upper)).all()
        if e is not None:
            assert e @ point == pytest.approx(block.d, abs=1e-12)
        ray = point - block.start
        if fall > 0:
            for t in np.linspace(0, 1, 21):
                assert value(block.start + t * ray) >= value(point) - 1e-12
    e = np.array([1.0, 1.0, 1.0, 1.0])
    still = a_block(e)
    rounding, _ = move_towards(still, still.start * (1 + 1e-15))
    np.testing.assert_allclose(rounding, still.start, atol=1e-14)  # a ray of rounding is not extended
    uphill = block.start + 0.1 * (block.Q @ block.start + block.g)
    assert move_towards(a_block(), uphill)[1] == 0.0


@pytest.mark.parametrize("bias", [True, False])
def test_pattern_move_is_the_lowest_feasible_point_of_its_ray(bias):
    p, rng = problem("moons", 10, bias), np.random.default_rng(4)
    base = p.project(rng.uniform(0, 0.2, 10))
    alpha = p.project(base - 0.02 * p.gradient(base))
    found = pattern_move(p, base, alpha)
    assert p.infeasibility(found) < 1e-12
    longest = min(((1 - a) if r > 0 else a) / abs(r) for a, r in zip(alpha, alpha - base, strict=True) if r)
    best = min(p.objective(alpha + t * (alpha - base)) for t in np.linspace(0, longest, 2001))
    assert p.objective(found) <= best + 1e-9
    assert p.objective(found) < p.objective(alpha)
    np.testing.assert_array_equal(pattern_move(p, alpha, alpha), alpha)


def test_boxes_follow_the_mean():
    block = replace(a_block(), start=np.full(4, 0.5))
    unit = 1 / np.sqrt(np.diag(block.Q))
    box = replace(first_box(block, 0.0), reach=0.1, last=np.full(4, 0.1))

    def reach(way):
        return next_box(block, box, block.start + 0.1 * unit * way, way, 0.5).reach

    assert reach(np.full(4, 0.9)) == pytest.approx(0.15)  # further at the edge: wider
    assert reach(np.full(4, -0.9)) == pytest.approx(0.05)  # back at the edge: ``shrink``
    assert reach(np.full(4, 0.2)) == pytest.approx(0.04)  # inside: two steps
    assert reach(np.full(4, 0.01)) == pytest.approx(0.03)  # narrowed by 0.3 at most in a step
    assert 0 < next_box(block, replace(box, reach=1e-12), block.start, np.zeros(4), 0.5).reach < 1e-8


def test_a_variable_pressed_against_its_bound_gets_a_narrower_box():
    block = a_block()  # the last variable is at its upper bound, the third at 0
    box = first_box(block, 0.0)
    pressed = next_box(block, box, block.start, np.array([0.1, -0.1, -0.1, 0.1]), 0.5)
    np.testing.assert_allclose(pressed.held, [1, 1, 0.3, 0.3])
    again = next_box(block, pressed, block.start, np.array([0.1, -0.1, 0.1, 0.1]), 0.5)
    np.testing.assert_allclose(again.held, [1, 1, 0.6, 0.1])


def test_a_block_can_always_keep_the_equality_and_move():
    p = problem("moons", 40)
    score = np.where(p.e > 0, 1.0, 0.0) + np.linspace(
        0, 0.1, 40
    )  # the variables of the largest score can only raise eᵀα
    for rng in (None, np.random.default_rng(3)):
        chosen = choose_block(p, np.zeros(40), score, 8, rng)
        assert len(np.unique(chosen)) == 8
        assert {1.0, -1.0} <= set(p.e[chosen])
    assert set(choose_block(p, np.zeros(40), score, 8, None)) >= set(np.argsort(-score)[:4])


@pytest.mark.parametrize(
    ("solver", "options"),
    [
        (HamiltonianDescent, {"block": 1}),
        (HamiltonianDescent, {"block": 21}),
        (HamiltonianDescent, {"bits": 3}),
        (HamiltonianDescent, {"bits": 0}),
        (HamiltonianDescent, {"levels": 0}),
        (HamiltonianDescent, {"shrink": 1.0}),
        (HamiltonianDescent, {"trotter_steps": 0}),
        (HamiltonianDescent, {"total_time": -1.0}),
        (HamiltonianDescent, {"max_blocks": 0}),
        (HamiltonianDescent, {"shots": "adaptive"}),
        (HamiltonianDescent, {"shots": 10, "final_shots": 10}),
        (HamiltonianDescent, {"shrink": "0.5"}),
        (HamiltonianDescent, {"shrink": np.array([0.5, 0.5])}),
        (HamiltonianDescent, {"total_time": "5"}),
        (HamiltonianDescent, {"total_time": True}),
        (HamiltonianAdiabatic, {"total_time": None}),
        (HamiltonianDescent, {"shots": 1000, "shot_budget": 999}),
        (HamiltonianDescent, {"line_search": 1}),
        (HamiltonianAdiabatic, {"pattern_moves": None}),
        (HamiltonianAdiabatic, {"sampler": "dwave"}),
        (HamiltonianAdiabatic, {"reads": 0}),
        (HamiltonianAdiabatic, {"sampler": "annealing", "shots": 10}),
    ],
)
def test_bad_options_are_named(solver, options):
    with pytest.raises(ProblemError, match=f"({'|'.join(options)})="):
        solver(**options)


@pytest.mark.parametrize(
    ("solver", "option", "now"),
    [
        *((solver, "steps", "trotter_steps") for solver in SOLVERS),
        *((f"hamiltonian-{name}", "steps", "windows") for name in ("lchs", "schrodingerisation")),
        *((f"hamiltonian-{name}", "splits", "trotter_steps") for name in ("lchs", "schrodingerisation")),
    ],
)
def test_former_names_of_options_raise_with_the_present_one(solver, option, now):
    with pytest.raises(TypeError, match=f"no option '{option}'; did you mean '{now}'"):
        make_solver(solver, {option: 5})
    assert make_solver(solver, {now: 5}) == make_solver(solver, {now: np.int64(5)})


def test_numpy_numbers_are_accepted():
    assert HamiltonianDescent(bits=np.int64(2), block=np.int32(4), shrink=np.float32(0.5)).bits == 2
    assert HamiltonianAdiabatic(sampler="annealing", reads=np.int64(5), total_time=np.float32(3.0)).reads == 5


def test_too_many_variables_are_refused_by_name():
    with pytest.raises(SolverMismatch, match="working-set"):
        solve(problem("moons", 200), "hamiltonian-descent")


def test_annealing_claims_no_circuit(monkeypatch):
    monkeypatch.setattr(box_zoom, "sample_annealing", lambda qubo, reads, seed: np.full(qubo.n_bits, 0.5))
    solution = solve(problem("digits", 8), HamiltonianAdiabatic(sampler="annealing", max_blocks=1))
    cost, said = solution.cost, solution.provenance
    assert (cost.circuits, cost.qubits, cost.depth, cost.two_qubit_gates) == (0, 0, 0, 0)
    assert said["sampler"] == "annealing"
    assert not {"device", "circuit", "cx_gates", "job_ids"} & set(said)
    said = solve(problem("digits", 8), HamiltonianAdiabatic(max_blocks=1)).provenance
    assert (said["sampler"], said["device"], said["cx_gates"]) == ("circuit", "aer", 31 * 28 * 2)


def test_simulated_annealing_in_the_circuits_place():
    pytest.importorskip("dwave.samplers", reason="pip install 'dualflow[annealing]'")
    p = problem("digits", 16)
    solution = solve(p, HamiltonianAdiabatic(sampler="annealing", reads=20), tol=5e-3)
    assert solution.raw_certificate.relative_gap <= 5e-3
    assert (solution.cost.circuits, solution.cost.shots) == (0, 0)
    again = solve(p, HamiltonianAdiabatic(sampler="annealing", reads=20), tol=5e-3)
    np.testing.assert_array_equal(solution.raw_alpha, again.raw_alpha)
