"""Claim: `evolution-strategy` makes ≥ 3000 generations a second at n = 200 and ≥ 1000 at n = 500, population 10.

The paper's preset without its early stopping, nothing memetic, make_moons, RBF, C = 1, Q formed before. Two loops in
the same run do the same (crossover, mutation, f, tournaments) individual by individual: "Fig. 4" goes through the
variables too, as the paper's pseudo code does, and has numpy for αᵀQα only; "by individual" has numpy for every vector.
Claimed: ≥ 10 × the straightforward one, Fig. 4. All in turn, one BLAS thread, medians of --rounds; CPU seconds beside.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.lib import data
from benchmarks.lib.claims import Claims, Rows, conclude
from benchmarks.lib.command import command_line
from benchmarks.lib.stepping import Walk
from dualflow import DualProblem, EvolutionStrategy, Gram, ParticleSwarm, problems

SIZES = {200: 3000.0, 500: 1000.0}
MUTATIONS = ("gaussian", "switching", "hybrid")
RATIO, POPULATION, ENTRANTS, SEED = 10.0, 10, 5, 0
#: Generations of a timed run: ours, the loop by individual, the loop of Fig. 4.
OURS, LOOP, FIG_4 = 500, 50, 10

Evolve = Callable[[int], float]  # generations to make -> f of the best


def ours(problem: DualProblem, solver: EvolutionStrategy | ParticleSwarm) -> Evolve:
    """The solver's own steps, as the driver makes them."""

    def run(generations: int) -> float:
        walk = Walk(problem, solver, SEED)
        while walk.state.generation < generations:
            walk.step()
        return problem.objective(walk.alpha)

    return run


def by_individual(Q: NDArray, C: float, mutation: str) -> Evolve:
    """One individual after the other; its genes by numpy."""
    n = len(Q)

    def value(alpha: NDArray) -> float:
        return float(0.5 * alpha @ Q @ alpha - alpha.sum())

    def mutated(alpha: NDArray, rng: np.random.Generator) -> NDArray:
        if mutation == "gaussian":
            return np.clip(alpha + rng.normal(0.0, 0.1 * C, n), 0.0, C)
        hit = rng.random(n) < 1 / n
        if mutation == "switching":
            return np.where(hit, np.where(alpha > C / 2, 0.0, C), alpha)
        return np.where(hit, np.where(alpha > 0, 0.0, rng.uniform(0, C, n)), alpha)

    def run(generations: int) -> float:
        rng = np.random.default_rng(SEED)
        parents = [rng.uniform(0.0, C, n) for _ in range(POPULATION)]
        fitness = [value(alpha) for alpha in parents]
        for _ in range(generations):
            order, children = rng.permutation(POPULATION), []
            for i in range(0, POPULATION, 2):
                a, b = parents[order[i]].copy(), parents[order[i + 1]].copy()
                if rng.random() < 0.9:
                    swap = rng.random(n) < 0.5
                    a[swap], b[swap] = b[swap], a[swap]
                children += [mutated(a, rng), mutated(b, rng)]
            pool = parents + children
            values = np.array(fitness + [value(alpha) for alpha in children])
            chosen = [int(values.argmin())]
            while len(chosen) < POPULATION:
                entrants = rng.integers(0, len(pool), ENTRANTS)
                chosen.append(int(entrants[values[entrants].argmin()]))
            parents, fitness = [pool[i] for i in chosen], [float(values[i]) for i in chosen]
        return min(fitness)

    return run


def by_variable(Q: NDArray, C: float, mutation: str) -> Evolve:
    """The paper's pseudo code: a loop over individuals, and in it over variables; αᵀQα by numpy."""
    n = len(Q)

    def value(alpha: list[float]) -> float:
        vector = np.array(alpha)
        return float(0.5 * vector @ Q @ vector - vector.sum())

    def mutate(alpha: list[float], draw: random.Random) -> None:
        for i in range(n):
            if mutation == "gaussian":
                alpha[i] = min(max(alpha[i] + draw.gauss(0.0, 0.1 * C), 0.0), C)
            elif draw.random() < 1 / n:
                if mutation == "switching":
                    alpha[i] = 0.0 if alpha[i] > C / 2 else C
                else:
                    alpha[i] = 0.0 if alpha[i] > 0 else draw.uniform(0.0, C)

    def run(generations: int) -> float:
        draw = random.Random(SEED)
        parents = [[draw.uniform(0.0, C) for _ in range(n)] for _ in range(POPULATION)]
        fitness = [value(alpha) for alpha in parents]
        for _ in range(generations):
            order, children = draw.sample(range(POPULATION), POPULATION), []
            for i in range(0, POPULATION, 2):
                a, b = list(parents[order[i]]), list(parents[order[i + 1]])
                if draw.random() < 0.9:
                    for j in range(n):
                        if draw.random() < 0.5:
                            a[j], b[j] = b[j], a[j]
                children += [a, b]
            for child in children:
                mutate(child, draw)
            pool, values = parents + children, fitness + [value(alpha) for alpha in children]
            chosen = [min(range(len(pool)), key=values.__getitem__)]
            while len(chosen) < POPULATION:
                chosen.append(min(draw.choices(range(len(pool)), k=ENTRANTS), key=values.__getitem__))
            parents, fitness = [pool[i] for i in chosen], [values[i] for i in chosen]
        return min(fitness)

    return run


def timed(run: Evolve, generations: int) -> tuple[float, float]:
    """Seconds a generation, of the clock and of the processor."""
    clock, cpu = time.perf_counter(), time.process_time()
    run(generations)
    return (time.perf_counter() - clock) / generations, (time.process_time() - cpu) / generations


def main() -> int:
    options = command_line(
        __doc__, extra=lambda parser: parser.add_argument("--rounds", type=int, metavar="N", help="7; --quick 2")
    )
    table, claims = Rows("evolution/evolution_speed_rows", options), Claims()
    for n, wanted in SIZES.items():
        X, y = data.load("moons", n, SEED)
        problem = problems.svc(Gram(X), y, 1.0, fit_intercept=False)
        Q = problem.dense()
        for mutation in (*MUTATIONS, "swarm"):
            unending = {"preset": "paper", "patience": 10**9, "generations": 10**9}
            swarm = mutation == "swarm"
            solver = ParticleSwarm(**unending) if swarm else EvolutionStrategy(mutation=mutation, **unending)
            lanes = {"ours": (ours(problem, solver), OURS)}
            if not swarm:
                lanes["by individual"] = (by_individual(Q, 1.0, mutation), LOOP)
                lanes["Fig. 4"] = (by_variable(Q, 1.0, mutation), FIG_4)
            reached = {name: run(50) for name, (run, _) in lanes.items()}
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in lanes}
            for _ in range((options.rounds or (2 if options.quick else 7)) + 1):
                for name, (run, generations) in lanes.items():
                    found[name].append(timed(run, generations))
            speed = {}
            for name, times in found.items():
                clock, cpu = 1 / np.median(times[1:], axis=0)
                speed[name] = float(clock)
                table.add(
                    f"n={n} {mutation}, {name}",
                    n=n,
                    mutation=mutation,
                    entrant=name,
                    generations_per_s=float(clock),
                    generations_per_cpu_s=float(cpu),
                    f_after_50_generations=reached[name],
                )
            what = f"{mutation}, n = {n}"
            if swarm:
                claims.say(what, "generations a second", "", speed["ours"], ">=", wanted, kind="shown")
                continue
            claims.say(what, "generations a second", "", speed["ours"], ">=", wanted)
            claims.say(what, "ratio to the loop of Fig. 4", "", speed["ours"] / speed["Fig. 4"], ">=", RATIO, "×")
            ratio = speed["ours"] / speed["by individual"]
            claims.say(what, "ratio to the loop by individual", "", ratio, ">=", 1.0, "×", kind="shown")
    return conclude("evolution/evolution_speed", claims.verdicts(), options)


if __name__ == "__main__":
    with threadpool_limits(1):
        sys.exit(main())
