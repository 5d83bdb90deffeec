"""Evolution on the box: operators against their stated distributions, products against loops, answers against CVXOPT.

Statistical bounds are 5σ of the stated distribution, at fixed seeds.
"""

from dataclasses import replace
from itertools import product as every

import numpy as np
import pytest
from dualflow.evolution._mating import evaluate, mate
from sklearn.datasets import make_moons
from sklearn.svm import LinearSVC

import dualflow
from dualflow import (
    EvolutionStrategy,
    Gram,
    ParticleSwarm,
    ProblemError,
    SolverMismatch,
    Status,
    problems,
    solve,
)
from dualflow.core.runtime.random import generator
from dualflow.core.workspace import Workspace
from dualflow.evolution.generations import (
    NO_MUTATION,
    Evolution,
    Rules,
    adapted_sigma,
    add_gaussian_noise,
    bernoulli,
    coordinate_sweep,
    evaluate_population,
    evolve,
    is_fixed,
    mutated_genes,
    pairings,
    random_population,
    survivors,
    swaps,
)
from dualflow.evolution.swarm import Swarm, SwarmRules, move_swarm, moved
from dualflow.testing.reference import QuadraticProgram, coneqp_optimum, rbf_kernel

PLAIN = Rules("gaussian", crossover=0.9, entrants=5, patience=10**6, limit=10**6, sweeps=0)


def rng(seed=0):
    return np.random.default_rng(seed)


def moons(n=60, noise=0.25, seed=0):
    X, y = make_moons(n, noise=noise, random_state=seed)
    return X, 2.0 * y - 1


def within(counts, trials, probability):
    """Whether every count is within 5σ of a binomial's mean."""
    sigma = np.sqrt(trials * probability * (1 - probability))
    return np.abs(np.asarray(counts) - trials * probability).max() <= 5 * sigma


def box(n, seed=0, indefinite=False):
    """Q, p, u of a random box problem."""
    draw = rng(seed)
    A = draw.standard_normal((n, n))
    return (A + A.T if indefinite else A @ A.T / n), draw.random(n) + 0.5, draw.random(n) + 0.5


def population_of(Q, p, population, **more):
    values, products = evaluate_population(Q, p, population)
    order = values.argsort()[::-1]
    start = {"sigma": 0.1, "successes": 0, "trials": 0, "generation": 0, "stale": 0, "is_switching": False}
    start |= {"loose": np.ones(len(p)), "evaluations": 0, "rng": {}} | more
    return Evolution(population[order], values[order], products[order], **start)


# --- mutation ------------------------------------------------------------------------------------


def test_gaussian_mutation_adds_normal_noise_of_the_stated_width():
    upper, step = np.array([1.0, 10.0, 100.0]), np.array([0.01, 0.2, 3.0])
    children = np.tile(0.5 * upper, (4000, 1))
    add_gaussian_noise(children, step, upper, rng())
    noise = (children - 0.5 * upper) / step
    assert np.abs(noise.mean(axis=0)).max() <= 5 / np.sqrt(4000)
    assert np.abs(noise.var(axis=0) - 1).max() <= 5 * np.sqrt(2 / 4000)
    assert within((np.abs(noise) < 0.6744897501960817).sum(axis=0), 4000, 0.5)  # the normal's quartiles
    assert np.abs(np.corrcoef(noise.T) - np.eye(3)).max() <= 5 / np.sqrt(4000)


def test_gaussian_mutation_clips_to_the_box():
    upper = np.array([1.0, 2.0])
    children = np.tile([0.0, 2.0], (2000, 1))
    add_gaussian_noise(children, upper, upper, rng())
    assert children.min() == 0.0
    assert (children.max(axis=0) <= upper).all()
    assert within([(children[:, 0] == 0).sum(), (children[:, 1] == 2).sum()], 2000, 0.5)


@pytest.mark.parametrize(("trials", "n"), [(40, 8), (7, 2), (3, 1), (1000, 3)])
def test_bernoulli_trials_by_their_gaps_are_independent_and_of_probability_one_in_n(trials, n):
    draw, rounds = rng(), 4000
    hits = np.zeros((rounds, trials), dtype=bool)
    for row in hits:
        found = bernoulli(trials, n, draw)
        assert (np.diff(found) > 0).all()
        row[found] = True
    assert within(hits.sum(axis=0), rounds, 1 / n)
    assert within((hits[:, 1:] & hits[:, :-1]).sum(axis=0), rounds, 1 / n**2)


def test_bernoulli_goes_on_where_the_first_gaps_do_not_reach_the_end(monkeypatch):
    class Short:
        def geometric(self, probability, size):
            return np.ones(size, dtype=int)

    assert np.array_equal(bernoulli(100, 50, Short()), np.arange(100))


def turned(kind, before, upper, draw):
    """Return children of uncrossed parents, after one generation of a mutation."""
    k, n = before.shape
    alphas, alone = np.concatenate([before, np.full_like(before, np.nan)]), np.arange(k)
    (genes,) = mutated_genes(kind, 1, k, upper, draw)
    mate(alphas, alone, alone, np.zeros((k, n), dtype=np.uint8), *genes)
    assert np.array_equal(alphas[:k], before)
    return alphas[k:]


@pytest.mark.parametrize("kind", ["switching", "switching-gaussian"])
def test_switching_changes_sides_with_probability_one_in_n(kind):
    upper = np.array([1.0, 2.0, 0.5, 3.0])
    before = np.tile([0.0, 2.0, 0.2, 1.6], (5000, 1))
    children = turned(kind, before, upper, rng())
    changed = children != before
    assert within(changed.sum(axis=0), 5000, 0.25)
    target = np.array([1.0, 0.0, 0.5, 0.0])
    assert np.array_equal(children, np.where(changed, target, before))


def test_hybrid_sets_positive_genes_to_zero_and_draws_the_others():
    upper = np.array([1.0, 4.0])
    before = np.tile([0.3, 0.0], (20000, 1))
    children = turned("hybrid", before, upper, rng())
    assert within([(children[:, 0] == 0).sum(), (children[:, 1] > 0).sum()], 20000, 0.5)
    assert set(children[:, 0]) == {0.0, 0.3}
    drawn = children[children[:, 1] > 0, 1] / 4.0
    for quantile in (0.1, 0.5, 0.9):
        assert within((drawn < quantile).sum(), len(drawn), quantile)


def test_mutated_genes_of_many_generations_are_those_of_each():
    upper, generations, k, n = np.arange(1.0, 6.0), 4000, 2, 5
    hits = np.zeros((generations, k * n), dtype=bool)
    for row, (who, above, target) in zip(hits, mutated_genes("switching", generations, k, upper, rng()), strict=True):
        row[who] = True
        assert np.array_equal(target, upper[who % n])
        assert np.array_equal(above, 0.5 * target)
    assert within(hits.sum(axis=0), generations, 1 / n)
    assert within((hits[1:, 0] & hits[:-1, -1]).sum(), generations - 1, 1 / n**2)
    assert all(len(who) == 0 for who, _, _ in mutated_genes("gaussian", 7, k, upper, rng()))


def test_one_fifth_rule():
    assert adapted_sigma(1.0, 19, 100) == 0.85
    assert adapted_sigma(1.0, 20, 100) == 1.0
    assert adapted_sigma(1.0, 21, 100) == 1 / 0.85


@pytest.mark.parametrize(("slope", "factor"), [(1.0, 1 / 0.85), (-1.0, 0.85)])
def test_one_fifth_rule_is_applied_every_ten_generations(slope, factor):
    """f = −slope·Σα from α = 0: every child that differs is fitter, or none is."""
    n = 400
    state = population_of(np.zeros((n, n)), np.full(n, slope), np.zeros((4, n)), sigma=1e-4)
    for generations, power in ((9, 0), (1, 1), (10, 2)):
        state = evolve(np.zeros((n, n)), np.full(n, slope), np.ones(n), state, PLAIN, generations, rng())
        assert state.sigma == pytest.approx(1e-4 * factor**power, rel=1e-12)


# --- mating and selection ------------------------------------------------------------------------


def test_pairings_are_uniform_permutations():
    orders = pairings(6000, 4, rng())
    assert (np.sort(orders, axis=1) == np.arange(4)).all()
    for place in range(4):
        assert within(np.bincount(orders[:, place], minlength=4), 6000, 0.25)


def test_crossover_swaps_half_the_genes_of_a_crossed_pair_and_none_of_another():
    both = swaps(4000, 6, 11, 0.9, rng())
    assert both.shape == (4000, 6, 11)
    genes = both[:, :3].astype(bool)
    assert np.array_equal(genes, both[:, 3:])
    crossing = genes.any(axis=2)  # in 1 of 2048 crossed pairs no gene is swapped
    assert within(crossing.sum(axis=0), 4000, 0.9 * (1 - 2.0**-11))
    assert within(genes.sum(axis=(0, 1)), 12000, 0.45)


def test_children_hold_the_genes_of_their_pair():
    population, order = rng(1).random((6, 9)), np.array([3, 0, 5, 1, 4, 2])
    genes = swaps(1, 6, 9, 1.0, rng(2))[0]
    alphas = np.concatenate([population, np.empty((6, 9))])
    mate(alphas, order, np.roll(order, 3), genes, *NO_MUTATION)
    children = alphas[6:]
    assert np.array_equal(alphas[:6], population)
    for k, (mother, father) in enumerate([(3, 1), (0, 4), (5, 2)]):
        assert np.array_equal(children[k], np.where(genes[k], population[father], population[mother]))
        assert np.array_equal(children[k + 3], np.where(genes[k], population[mother], population[father]))
    assert genes.any()
    assert not genes.all()


def test_survivors_are_the_fittest_and_winners_of_tournaments():
    ranks = survivors(5000, 3, 8, 2, rng())
    assert (ranks[:, -1] == 0).all()
    for place in range(2):
        for rank in range(7):
            # Both entrants have a higher rank: ((pool − rank − 1) / pool)².
            assert within((ranks[:, place] > rank).sum(), 5000, ((7 - rank) / 8) ** 2)


# --- evaluation ----------------------------------------------------------------------------------


def test_one_matrix_product_is_the_loop_over_individuals():
    Q, p, upper = box(30)
    population = random_population(upper, 10, rng())
    values, products = evaluate_population(Q, p, population)
    for alpha, value, product in zip(population, values, products, strict=True):
        pairs = sum(alpha[i] * alpha[j] * Q[i, j] for i in range(30) for j in range(30))
        assert value == pytest.approx(0.5 * pairs - sum(p * alpha), rel=1e-13)
        assert product == pytest.approx([sum(alpha * row) for row in Q], rel=1e-12)


@pytest.mark.parametrize("changed", [0, 5, 300])
@pytest.mark.parametrize("n", [1, 7, 320])
def test_products_and_values_from_the_genes_that_differ_are_those_of_the_children(n, changed):
    Q, p, upper = box(n)
    parents, order = random_population(upper, 10, rng()), rng(2).permutation(10)
    alphas = np.concatenate([parents, parents[order]])
    alphas[10:, rng(1).permutation(n)[:changed]] = 0.0
    products, values = np.full((20, n), np.nan), np.full(20, np.nan)
    values[:10], products[:10] = evaluate_population(Q, p, parents)
    before = values[:10].copy(), products[:10].copy()
    evaluate(Q, p, alphas, products, values, order)
    expected, product = evaluate_population(Q, p, alphas[10:])
    assert np.abs(products[10:] - product).max() <= 1e-12 * n
    assert values[10:] == pytest.approx(expected, rel=1e-12, abs=1e-12 * n)
    assert np.array_equal(values[:10], before[0])
    assert np.array_equal(products[:10], before[1])


def test_compiled_functions_refuse_mismatched_arrays():
    Q, p, _ = box(5)
    alphas, products, values, order = np.ones((4, 5)), np.ones((4, 5)), np.ones(4), np.array([1, 0])
    genes = np.zeros((2, 5), dtype=np.uint8)
    mate(alphas, order, order, genes, *NO_MUTATION)
    with pytest.raises(ValueError, match="two rows"):
        mate(alphas[:3], order, order, genes, *NO_MUTATION)
    with pytest.raises(ValueError, match="equal lengths"):
        mate(alphas, order, order, genes, np.array([1]), *NO_MUTATION[1:])
    for wrong in (np.array([0, 2]), np.array([0, -1])):
        with pytest.raises(ValueError, match="rows of parents"):
            mate(alphas, order, wrong, genes, *NO_MUTATION)
        with pytest.raises(ValueError, match="rows of parents"):
            evaluate(Q, p, alphas, products, values, wrong)
    with pytest.raises(ValueError, match="genes of the children"):
        mate(alphas, order, order, genes, np.array([10]), np.ones(1), np.ones(1))
    with pytest.raises(ValueError, match="one n"):
        evaluate(Q, p[:4], alphas, products, values, order)
    with pytest.raises(ValueError, match="two rows"):
        evaluate(Q, p, alphas, products, values[:3], order)


@pytest.mark.parametrize("n", [40, 300])
@pytest.mark.parametrize("kind", ["gaussian", "switching", "hybrid", "switching-gaussian"])
@pytest.mark.parametrize("sweeps", [0, 1])
def test_a_generation_has_consistent_values(n, kind, sweeps):
    """Values and products belong to the population, the fittest is last and never gets worse, all stay in the box."""
    Q, p, upper = box(n)
    rules, draw = replace(PLAIN, mutation=kind, sweeps=sweeps, patience=3 if "-" in kind else 10**6), rng(5)
    state = population_of(Q, p, random_population(upper, 10, rng()), is_switching="-" in kind)
    for generations in (1, 7):
        before = state
        state = evolve(Q, p, upper, state, rules, generations, draw)
        values, products = evaluate_population(Q, p, state.population)
        assert np.array_equal(state.values, values)
        assert np.array_equal(state.products, products)
        assert state.values[-1] <= state.values.min() + 1e-12 * abs(state.values[-1])
        assert state.values[-1] <= before.values[-1] + 1e-12 * abs(before.values[-1])
        assert (state.population >= 0).all()
        assert (state.population <= upper).all()
        assert state.evaluations == 10 * state.generation
    assert state.values[-1] < before.values[-1] or kind == "switching-gaussian"


def test_fixed_variables_stay_fixed_in_the_second_phase():
    Q, p, upper = box(50)
    population = random_population(upper, 10, rng())
    population[:, :20], population[:, 20:35] = 0.0, upper[20:35]
    loose = 1.0 - is_fixed(population, upper)
    assert loose.tolist() == [0.0] * 35 + [1.0] * 15
    rules = replace(PLAIN, mutation="switching-gaussian")
    state = evolve(Q, p, upper, population_of(Q, p, population, loose=loose), rules, 30, rng())
    assert np.array_equal(state.population[:, :35], population[:, :35])
    assert not (state.population[:, 35:] == population[:, 35:]).all(axis=0).any()


def test_the_second_phase_begins_when_switching_stalls():
    Q, p, upper = np.eye(30), np.full(30, 0.3), np.ones(30)  # the optimum: 0.3 inside, and the last ten at their bound
    p[20:] = 3.0
    rules = replace(PLAIN, mutation="switching-gaussian", patience=20)
    state = population_of(Q, p, random_population(upper, 10, rng()), is_switching=True)
    while state.is_switching:
        assert state.generation < 5000
        state = evolve(Q, p, upper, state, rules, 1, rng(state.generation))
    first = state.values[-1]
    assert np.array_equal(state.loose, 1.0 - is_fixed(state.population, upper))
    assert 0 < state.loose.sum() < 30
    state = evolve(Q, p, upper, state, replace(rules, patience=10**6), 400, rng())
    assert state.values[-1] < first - 0.01 * abs(first)


# --- learning ------------------------------------------------------------------------------------


@pytest.mark.parametrize("indefinite", [False, True])
def test_a_sweep_minimises_every_coordinate_in_turn(indefinite):
    Q, p, upper = box(70, indefinite=indefinite)
    alphas, order = random_population(upper, 3, rng()), rng(1).permutation(70)
    expected = alphas.copy()
    for alpha in expected:
        for i in order:
            slope = Q[i] @ alpha - p[i] - Q[i, i] * alpha[i]
            points = [0.0, upper[i], np.clip(-slope / Q[i, i], 0, upper[i])]
            alpha[i] = min(points, key=lambda x: 0.5 * Q[i, i] * x * x + slope * x)
    products = alphas @ Q
    coordinate_sweep(Q, p, upper, alphas, products, order)
    assert np.abs(alphas - expected).max() <= 1e-12
    assert np.abs(products - alphas @ Q).max() <= 1e-11
    assert (alphas == 0).any()
    assert (alphas == upper).any()


@pytest.mark.parametrize("solver", ["evolution-strategy", "particle-swarm"])
def test_memetic_evolution_reaches_cvxopts_optimum(solver):
    X, y = moons()
    for offset, intercept in ((0.0, False), (1.0, "penalised")):
        Q = np.outer(y, y) * (rbf_kernel(X, 0.7) + offset)
        optimum, alpha = coneqp_optimum(QuadraticProgram(Q, np.ones(60), np.full(60, 5.0)))
        problem = problems.svc(Gram(X, gamma=0.7), y, 5.0, fit_intercept=intercept)
        solution = solve(problem, solver, tol=1e-7)
        assert solution.status is Status.OPTIMAL
        found = 0.5 * solution.raw_alpha @ Q @ solution.raw_alpha - solution.raw_alpha.sum()
        assert -2e-9 <= (found - optimum) / abs(optimum) <= 1e-7  # the reference is good to 2e-9
        assert solution.bias == pytest.approx(offset * y @ alpha, abs=1e-2)


def test_evolution_alone_gets_part_of_the_way():
    X, y = moons()
    problem = problems.svc(Gram(X, gamma=0.7), y, 1.0, fit_intercept=False)
    optimum = solve(problem, "working-set", tol=1e-10).certificate.objective
    shares = {}
    for kind in ("gaussian", "switching", "hybrid", "switching-gaussian"):
        solution = solve(problem, "evolution-strategy", mutation=kind, memetic=False, generations=1000, patience=1000)
        shares[kind] = solution.raw_certificate.objective / optimum
        assert solution.provenance["generations"] == 1000
        assert solution.status is Status.FINISHED
    assert min(shares.values()) > 0.3
    assert max(shares.values()) < 1.0
    assert shares["switching-gaussian"] > shares["switching"]


# --- swarm ---------------------------------------------------------------------------------------


def test_a_particle_is_pulled_by_uniform_shares_of_the_way():
    k, n = 3, 4000
    draw, upper = rng(3), np.full(n, 100.0)
    places, best = np.full((k, n), 50.0), np.full((k, n), 52.0)
    leader, velocities = np.full(n, 49.0), draw.standard_normal((k, n))
    state = Swarm(places, velocities, best, np.zeros(k), leader, 0.0, 0, 0, 0, {})
    after, speed = moved(state, 0.1, 1.0, 3.0, upper, rng())
    pulled = speed - 0.1 * velocities  # 2·r₁ − 3·r₂
    assert np.abs(pulled.mean(axis=1) + 0.5).max() <= 5 * np.sqrt((4 + 9) / 12 / n)
    assert pulled.min() >= -3
    assert pulled.max() <= 2
    assert within((pulled < -1 / 2).sum(axis=1), n, 0.5)  # symmetric about its mean
    assert after == pytest.approx(places + speed)
    far, _ = moved(replace(state, velocities=np.full((k, n), 1e4)), 1.0, 0.0, 0.0, upper, rng())
    assert (far == 100.0).all()


def test_the_inertia_falls_to_zero_and_the_leader_never_gets_worse():
    Q, p, upper = np.zeros((2, 2)), np.ones(2), np.full(2, 1e9)
    rules = SwarmRules(inertia=0.5, own=0.0, common=0.0, patience=100, limit=4, sweeps=0)
    places = np.full((2, 2), 1.0)
    values, _ = evaluate_population(Q, p, places)
    state = Swarm(places, np.full((2, 2), 64.0), places, values, places[0], float(values[0]), 0, 0, 0, {})
    speeds = []
    for _ in range(4):
        state = move_swarm(Q, p, upper, state, rules, 1, rng())
        speeds.append(float(state.velocities[0, 0]))
    assert speeds == [32.0, 32.0 * 0.375, 32.0 * 0.375 * 0.25, 32.0 * 0.375 * 0.25 * 0.125]
    assert state.leader.tolist() == [1.0 + sum(speeds)] * 2
    assert state.leader_value == -2 * (1.0 + sum(speeds))
    assert state.best_values.tolist() == [state.leader_value] * 2


# --- the solvers ---------------------------------------------------------------------------------


def box_optimum(Q, p, upper):
    """The global minimum over a small box, Q of any signature: every choice of bounds, the rest stationary."""
    best, n = 0.0, len(p)
    for where in every((0, 1, 2), repeat=n):
        alpha, free = np.where(np.array(where) == 1, upper, 0.0), np.array(where) == 2
        if free.any():
            try:
                alpha[free] = np.linalg.solve(Q[np.ix_(free, free)], p[free] - Q[np.ix_(free, ~free)] @ alpha[~free])
            except np.linalg.LinAlgError:
                continue
            if (alpha < 0).any() or (alpha > upper).any():
                continue
        best = min(best, float(0.5 * alpha @ Q @ alpha - p @ alpha))
    return best


@pytest.mark.parametrize("solver", [EvolutionStrategy(mutation=m) for m in ("gaussian", "hybrid")] + [ParticleSwarm()])
def test_small_indefinite_problems_are_solved_globally(solver):
    for seed in range(3):
        Q, _, _ = box(7, seed, indefinite=True)
        y = np.where(np.arange(7) % 2 == 0, 1.0, -1.0)
        problem = problems.svc(Gram.precomputed(Q), y, 2.0, fit_intercept=False)
        solution = solve(problem, solver, random_state=seed)
        certificate = solution.raw_certificate
        assert solution.status is Status.STATIONARY
        assert (certificate.gap, certificate.relative_gap, certificate.lower_bound) == (None, None, None)
        assert certificate.objective == pytest.approx(box_optimum(problem.dense(), np.ones(7), problem.upper), rel=1e-9)
        assert certificate.stationarity <= 1e-6
        assert "indefinite" in str(certificate)
        assert "no bound" in str(certificate)


def test_evolution_leaves_the_stationary_point_where_pairs_stop():
    X, y = moons(120)
    problem = problems.svc(Gram(X, "sigmoid", gamma=1.0, coef0=-0.5), y, 10.0, fit_intercept=False)
    assert problem.psd.kind == "indefinite"
    smo, found = solve(problem, "smo"), solve(problem, "evolution-strategy")
    assert smo.raw_certificate.stationarity <= 1e-9
    assert found.raw_certificate.stationarity <= 1e-6
    assert found.raw_certificate.objective < 1.2 * smo.raw_certificate.objective


@pytest.mark.parametrize("solver", ["evolution-strategy", "particle-swarm"])
def test_the_papers_preset_rests_after_five_generations_without_improvement(solver):
    X, y = moons()
    ran = []
    for C in np.linspace(1.0, 2.0, 10):
        problem = problems.svc(Gram(X), y, C, fit_intercept=False)
        optimum = solve(problem, "working-set", tol=1e-12).alpha
        ran.append(solve(problem, solver, preset="paper", warm=optimum, tol=1e-300).provenance["generations"])
    # Rounding may certify a gap of exactly zero, and then there is nothing to search for.
    assert set(ran) - {0} == {5}
    assert solve(problem, solver, preset="paper").provenance["generations"] <= 1000


def test_presets_name_what_the_paper_leaves_open():
    paper, default = EvolutionStrategy(preset="paper").rules, EvolutionStrategy().rules
    assert (paper.patience, paper.limit, paper.sweeps, paper.crossover, paper.entrants) == (5, 1000, 0, 0.9, 5)
    assert (default.patience, default.limit, default.sweeps) == (100, 10_000, 2)
    mixed = EvolutionStrategy(preset="paper", memetic=True, patience=7, sweeps=3).rules
    assert (mixed.patience, mixed.limit, mixed.sweeps) == (7, 1000, 3)
    swarm = ParticleSwarm(preset="paper").rules
    assert (swarm.inertia, swarm.own, swarm.common, swarm.sweeps) == (0.1, 1.0, 1.0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mutation": "cauchy"}, r"mutation='cauchy' is not one of 'gaussian', 'switching'"),
        ({"preset": "papers"}, r"preset='papers' is not one of 'default', 'paper'"),
        ({"population": 7}, r"population=7 must be even"),
        ({"population": 0}, r"population=0 must be an integer ≥ 1"),
        ({"patience": 2.5}, r"patience=2.5 must be an integer ≥ 1"),
        ({"sweeps": None}, r"sweeps=None must be an integer ≥ 1"),
        ({"memetic": "yes"}, r"memetic='yes' must be True, False, or None"),
        ({"memetic": np.ones(2)}, r"memetic=array.* must be True, False, or None"),
        ({"preset": ["paper"]}, r"preset=\['paper'\] is not one of"),
        ({"mutation": np.array(["gaussian", "hybrid"])}, r"mutation=array.* is not one of"),
        ({"crossover": 1.5}, r"crossover=1.5 must be a number from 0 to 1"),
        ({"sigma": 0}, r"sigma=0 must be a finite number"),
        ({"tournament": float("nan")}, r"tournament=nan must be a finite number"),
    ],
)
def test_options_out_of_range_are_named(options, message):
    with pytest.raises(ProblemError, match=message):
        EvolutionStrategy(**options)


def test_the_swarms_options_too():
    with pytest.raises(ProblemError, match=r"inertia=-0.1 must be a number from 0 to 1"):
        ParticleSwarm(inertia=-0.1)


def test_boxes_that_are_open_on_one_side_are_refused():
    gram = Gram(np.eye(2), "linear")
    problem = dualflow.DualProblem(gram, np.ones(2), np.zeros(2), np.array([1.0, np.inf]))
    with pytest.raises(SolverMismatch, match="some upper bounds are infinite"):
        solve(problem, "evolution-strategy")
    with pytest.raises(SolverMismatch, match="does not solve problems of kind"):
        solve(problems.svc(gram, [1, -1]), "evolution-strategy")


@pytest.mark.parametrize("solver", ["evolution-strategy", "particle-swarm"])
def test_boxes_whose_far_corner_overflows_are_refused(solver):
    gram = Gram([[0.0], [1.0]])
    with pytest.raises(SolverMismatch, match="f overflows float64 there; give a smaller C"):
        solve(problems.svc(gram, [1, -1], 1e300, fit_intercept=False), solver)
    huge = Gram.precomputed(1e200 * np.eye(2))
    assert solve(problems.svc(huge, [1, -1], 1.0, fit_intercept=False), solver).certificate.objective < np.inf


@pytest.mark.parametrize("solver", ["evolution-strategy", "particle-swarm"])
def test_memetic_solvers_are_no_worse_than_zero_at_any_c(solver):
    rng = np.random.default_rng(0)
    gram = Gram(rng.normal(size=(40, 2)))
    y = np.where(rng.normal(size=40) > 0, 1, -1)
    solution = solve(problems.svc(gram, y, 1e9, fit_intercept=False), solver, generations=5)
    assert solution.certificate.objective < 0
    warm = 1e-3 * np.ones(40)
    problem = problems.svc(gram, y, 1.0, fit_intercept=False)
    first = (EvolutionStrategy if solver == "evolution-strategy" else ParticleSwarm)().first(problem, warm)
    assert first is warm


@pytest.mark.parametrize("solver", [EvolutionStrategy, ParticleSwarm])
def test_a_step_of_a_large_population_takes_no_longer(solver):
    assert solver().generations_a_step(200) == 10
    assert solver(preset="paper").generations_a_step(200) == 50
    assert solver(preset="paper", population=100).generations_a_step(200) == 5
    assert solver(population=1000).generations_a_step(200) == 1


def test_a_run_depends_on_its_seed_alone():
    X, y = moons()
    problem = problems.svc(Gram(X), y, 1.0, fit_intercept=False)
    for solver in ("evolution-strategy", "particle-swarm"):
        first, again, other = (
            solve(problem, solver, preset="paper", random_state=seed).raw_alpha for seed in (1, 1, 2)
        )
        assert np.array_equal(first, again)
        assert not np.array_equal(first, other)


def test_a_time_limit_is_kept():
    X, y = moons(400)
    problem = problems.svc(Gram(X), y, 1.0, fit_intercept=False)
    options = {"patience": 10**6, "generations": 10**6, "tol": 1e-300}
    for memetic in (True, False):
        solution = solve(problem, "evolution-strategy", memetic=memetic, time_limit=0.2, **options)
        assert solution.status is Status.TIME_LIMIT
        assert solution.provenance["generations"] >= 1


def test_states_hold_the_generator_they_go_on_with():
    X, y = moons()
    problem = problems.svc(Gram(X), y, 1.0, fit_intercept=False)
    solver = EvolutionStrategy(preset="paper")
    context = solver.open(problem, Workspace(problem))
    state = solver.step(context, solver.start(context, rng(4)))
    assert generator(state.rng).random() != rng(4).random()


# --- what belongs to it --------------------------------------------------------------------------


def test_a_penalised_bias_is_linearsvcs():
    X, y = moons(80)
    ours = dualflow.SVC(kernel="linear", C=1.0, fit_intercept="penalised", tol=1e-10).fit(X, y)
    theirs = LinearSVC(loss="hinge", C=1.0, intercept_scaling=1, tol=1e-10, max_iter=10**6).fit(X, y)
    assert ours.coef_[0] == pytest.approx(theirs.coef_[0], abs=1e-6)
    assert ours.intercept_[0] == pytest.approx(theirs.intercept_[0], abs=1e-6)
    assert abs(ours.intercept_[0]) > 0.05
    with pytest.raises(ProblemError, match="fit_intercept='yes' is not one of True, False, 'penalised'"):
        problems.svc(Gram(X), y, fit_intercept="yes")


@pytest.mark.parametrize("intercept", [True, False])
def test_stationarity_is_the_least_largest_violation(intercept):
    """Against a fine search over the multiplier, straight from the KKT conditions."""
    Q, _, _ = box(12, indefinite=True)
    y = np.where(np.arange(12) % 3 == 0, 1.0, -1.0)
    problem = problems.svc(Gram.precomputed(Q), y, 1.0, fit_intercept=intercept)
    alpha, draw = np.zeros(12), rng(2)

    def worst(nu):
        rho = problem.dense() @ alpha - 1.0 - nu * (y if intercept else 0.0)
        return max(np.max(-rho[alpha < 1]), np.max(rho[alpha > 0]), 0.0)

    grid = np.linspace(-20, 20, 4001) if intercept else [0.0]
    for _ in range(8):
        alpha[y > 0] = draw.permutation([1.0, 0.5, 0.0, 0.25])
        alpha[y < 0] = draw.permutation([1.0, 0.0, 0.25, 0.5, 0.0, 0.0, 0.0, 0.0])
        least = min(worst(nu) for nu in grid)
        assert dualflow.certify(problem, alpha).stationarity == pytest.approx(least, abs=0.01 if intercept else 1e-12)
    assert dualflow.certify(problems.svc(Gram(np.eye(2)), [1, -1]), [0.5, 0.5]).stationarity is None


def test_a_comparison_on_an_indefinite_kernel_measures_from_the_best_known_objective():
    X, y = moons(60)
    comparison = dualflow.compare(
        X, y, problems="hinge", solvers=("smo", "frank-wolfe"), kernel="sigmoid", gamma=1.0, max_n=40
    )
    rows = {row.solver: row for row in comparison.sections[0].rows}
    assert rows["smo"].excess == 0.0
    assert rows["smo"].raw_gap is None
    assert "the best objective known" in rows["smo"].note
    assert rows["frank-wolfe"].excess is None  # it needs a positive semidefinite Q
