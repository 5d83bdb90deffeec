"""hamiltonian-descent and hamiltonian-adiabatic: what they must reach, the null device, shots, costs, blocks."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons

from dualflow import (
    Gram,
    HamiltonianAdiabatic,
    HamiltonianDescent,
    ProblemError,
    SolverMismatch,
    Status,
    problems,
    solve,
)
from dualflow.quantum.circuits.encoding import bit_table
from dualflow.quantum.engines import box_zoom
from dualflow.quantum.engines.blocks import (
    Block,
    block_of,
    choose_block,
    first_widths,
    move_towards,
    pattern_move,
)
from dualflow.quantum.engines.box_zoom import lagrangian, zoom
from dualflow.registry import make_solver

SOLVERS = ("hamiltonian-descent", "hamiltonian-adiabatic")


def problem(data, n, bias=True, C=1.0):
    if data == "moons":
        X, t = make_moons(n, noise=0.2, random_state=0)
    else:
        digits = load_digits()
        chosen = np.isin(digits.target, (1, 4))
        X, t = digits.data[chosen][:n] / 16, digits.target[chosen][:n] == 1
    return problems.svc(Gram(X, kernel="rbf", gamma="scale"), 2.0 * (t > 0) - 1, C, fit_intercept=bias)


def gap(problem, solver, **options):
    return solve(problem, solver, **options).raw_certificate.relative_gap


@pytest.mark.parametrize("bias", [True, False], ids=["equality", "box"])
@pytest.mark.parametrize("data", ["moons", "digits"])
@pytest.mark.parametrize(
    ("solver", "n", "bound"),
    [("hamiltonian-descent", 8, 1e-4), ("hamiltonian-descent", 16, 1e-3), ("hamiltonian-adiabatic", 16, 5e-3)],
)
def test_small_problems_and_the_null_device(solver, n, bound, data, bias):
    p = problem(data, n, bias)
    assert gap(p, solver, tol=bound) <= bound
    assert gap(p, solver, device="null", max_blocks=20) >= 10 * bound
    assert gap(p, solver, device="null", shots=10_000) >= 10 * bound


@pytest.mark.parametrize("data", ["moons", "digits"])
@pytest.mark.parametrize(("bias", "bound"), [(True, 1e-3), (False, 1e-2)], ids=["equality", "box"])
def test_blocks(data, bias, bound):
    p = problem(data, 64, bias)
    assert gap(p, "hamiltonian-descent", tol=bound) <= bound
    assert gap(p, "hamiltonian-descent", device="null", shots=10_000) >= 10 * bound


@pytest.mark.parametrize("solver", SOLVERS)
def test_aer_goes_the_way_of_the_emulator(solver):
    p = problem("moons", 4)
    runs = [
        solve(p, solver, device=device, max_blocks=1, tol=1e-12, trotter_steps=10) for device in ("aer", "emulator")
    ]
    np.testing.assert_allclose(runs[0].raw_alpha, runs[1].raw_alpha, atol=1e-8)
    cost = runs[0].cost
    # 8 levels a block; 6 pairs in 11 layers.
    assert (cost.circuits, cost.qubits, cost.two_qubit_gates, cost.shots) == (8, 4, 66, 0)
    assert cost.depth > 20
    assert cost.success_probability is None  # nothing is post-selected
    assert 0 < cost.device_time_s < cost.wall_time_s
    assert runs[0].provenance["cx_gates"] == 132


@pytest.mark.parametrize("solver", SOLVERS)
def test_shots_are_counted_and_budgeted(solver):
    p = problem("moons", 8)
    solution = solve(p, solver, shots=1000, max_blocks=3, tol=1e-12)
    assert (solution.cost.circuits, solution.cost.shots) == (24, 24_000)
    assert solution.raw_status is Status.FINISHED
    other = solve(p, solver, shots=1000, max_blocks=3, tol=1e-12, random_state=1)
    assert not np.array_equal(solution.raw_alpha, other.raw_alpha)
    assert solve(p, solver, shots=1000, shot_budget=17_000, tol=1e-12).cost.shots == 16_000


@pytest.mark.parametrize("budget", [22_400, 36_800, 44_000, 72_800])
def test_a_budget_holds_the_calibration_of_every_size_of_block(budget):
    options = {"device": "classical-sampler", "shots": 300, "mitigation": "confusion", "block": 5}
    run = {"tol": 1e-9, "random_state": 1}
    spent = solve(problem("digits", 32), "hamiltonian-descent", shot_budget=budget, **options, **run).cost.shots
    assert 22_400 <= spent <= budget
    with pytest.raises(ProblemError, match="levels=8"):
        HamiltonianDescent(shot_budget=22_399, **options)


def test_whole_problem_in_two_qubits_a_variable():
    p = problem("moons", 4, bias=False)
    solution = solve(p, "hamiltonian-descent", bits=2, block=4, trotter_steps=100, tol=1e-3)
    assert solution.raw_certificate.relative_gap <= 1e-3
    assert solution.cost.qubits == 8


@pytest.mark.parametrize("bias", [True, False])
def test_the_point_stays_feasible_and_f_never_rises(bias):
    p = problem("digits", 24, bias)
    solution = solve(p, "hamiltonian-descent", shots=100, max_blocks=12, tol=1e-12, trajectory=True)
    path = solution.trajectory
    assert max(p.infeasibility(alpha) for alpha in path.alpha) < 1e-12
    f = np.array([p.objective(alpha) for alpha in path.alpha])
    assert (np.diff(f) <= 1e-12).all()
    assert f[-1] < 0.5 * f[1]


# --- the classical half ------------------------------------------------------------------------


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


def test_lagrangian_is_what_it_says():
    e = np.array([1.0, 1, -1, 1])
    block = a_block(e)
    A, g = lagrangian(block, 0.7, 2.0)
    values = []
    for x in np.random.default_rng(2).uniform(0, 1, (5, 4)):
        r = e @ x - block.d
        direct = 0.5 * x @ block.Q @ x + block.g @ x + 0.7 * r + r**2
        values.append(0.5 * x @ A @ x + g @ x - direct)
    np.testing.assert_allclose(values, values[0], atol=1e-12)


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
    np.testing.assert_allclose(rounding, still.start, atol=1e-14)  # a ray of rounding is not stretched
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


def test_zoom_with_a_perfect_reader_finds_the_minimum():
    """The corner of lowest energy in the circuit's place: the classical half alone, against a direct solution."""
    Q, inside = np.diag([1.0, 2.0, 3.0, 4.0]), np.array([0.31, 0.52, 0.13, 0.77])
    block = Block(np.arange(4), Q, -Q @ inside, np.ones(4), None, 0.0, np.full(4, 0.5))

    def corner(qubo):
        return bit_table(4)[qubo.energies().argmin()]

    found = zoom(block, np.ones(4), 0.0, 40, 0.7, 1, corner)
    np.testing.assert_allclose(found, inside, atol=1e-5)


def test_zoom_meets_the_equality_by_the_multiplier():
    """From a wrong multiplier too, and at the minimum of f among the points that meet it, by a direct solution."""
    Q, g, e = np.diag([1.0, 2.0, 3.0, 4.0]), -np.array([0.9, 1.0, 0.6, 2.0]), np.array([1.0, 1.0, -1.0, -1.0])
    block = Block(np.arange(4), Q, g, np.ones(4), e, 0.2, np.array([0.6, 0.5, 0.4, 0.5]))
    best = np.linalg.solve(np.block([[Q, e[:, None]], [e[None], 0.0]]), np.append(-g, 0.2))[:4]
    assert ((best > 0) & (best < 1)).all()
    assert abs(float(e @ (-g / np.diag(Q)) - 0.2)) > 0.1  # without the equality another point is the lowest

    def corner(qubo):
        return bit_table(4)[qubo.energies().argmin()]

    for multiplier in (0.0, 0.3):
        found = zoom(block, np.full(4, 0.5), multiplier, 200, 0.95, 1, corner)
        np.testing.assert_allclose(found, best, atol=1e-2)
        assert float(e @ found) == pytest.approx(0.2, abs=1e-3)


def test_uniform_outcomes_move_nothing_and_boxes_shrink_around_where_they_are():
    seen, block = [], a_block()

    def centre(qubo):
        seen.append((qubo.base, qubo.base + qubo.scale.sum(axis=1)))
        return np.full(4, 0.5)

    found = zoom(block, np.array([1.0, 0.6, 0.2, 0.0]), 0.0, 5, 0.5, 1, centre)
    np.testing.assert_allclose(found, block.start, atol=1e-15)
    lower, upper = np.array(seen).transpose(1, 0, 2)
    np.testing.assert_allclose(0.5 * (lower + upper), np.tile(block.start, (5, 1)), atol=1e-15)
    np.testing.assert_allclose((upper - lower)[1:], 0.5 * (upper - lower)[:-1], atol=1e-15)


def test_means_are_clipped_to_the_bounds():
    def outwards(qubo):
        return np.array([1.0, 1.0, 0.0, 1.0])

    found = zoom(a_block(), np.full(4, 2.0), 0.0, 3, 0.5, 1, outwards)
    np.testing.assert_array_equal(found, [1.0, 1.0, 0.0, 1.0])


def test_widths_of_what_presses_against_a_bound():
    block = a_block()
    lengths = np.array([0.1, 0.02, 0.0, 0.0])
    weak, firm = np.full(4, 1e-6), np.array([1e-6, 1e-6, 1e3, 1e3])
    np.testing.assert_allclose(first_widths(block, lengths, weak, 2.0), [0.2, 0.04, 0.04, 0.04])
    np.testing.assert_allclose(first_widths(block, lengths, firm, 2.0), [0.2, 0.04, 0.0, 0.0])


def test_a_block_can_always_keep_the_equality_and_move():
    p = problem("moons", 40)
    score = np.where(p.e > 0, 1.0, 0.0) + np.linspace(0, 0.1, 40)  # all the largest want to raise eᵀα
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
        (HamiltonianDescent, {"shots": 1000, "shot_budget": 7999}),
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
def test_other_names_of_options_are_told_the_right_one(solver, option, now):
    with pytest.raises(TypeError, match=f"no option '{option}'; did you mean '{now}'"):
        make_solver(solver, {option: 5})
    assert make_solver(solver, {now: 5}) == make_solver(solver, {now: np.int64(5)})


def test_numbers_of_numpy_are_numbers():
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
    assert (said["sampler"], said["device"], said["cx_gates"]) == ("circuit", "emulator", 31 * 28 * 2)


def test_simulated_annealing_in_the_circuits_place():
    pytest.importorskip("dwave.samplers", reason="pip install 'dualflow[annealing]'")
    p = problem("digits", 16)
    solution = solve(p, HamiltonianAdiabatic(sampler="annealing", reads=20), tol=5e-3)
    assert solution.raw_certificate.relative_gap <= 5e-3
    assert (solution.cost.circuits, solution.cost.shots) == (0, 0)
    again = solve(p, HamiltonianAdiabatic(sampler="annealing", reads=20), tol=5e-3)
    np.testing.assert_array_equal(solution.raw_alpha, again.raw_alpha)
