"""Evolution strategies on the box dual: three mutations, one matrix product a generation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, OneOf, option
from ..core.runtime.random import generator, generator_state
from ..core.workspace import Workspace
from ..evolution.generations import MUTATIONS, Evolution, Rules, evaluate_population, evolve, random_population
from ..exceptions import ProblemError
from ._evolution import EvolutionarySolver


@dataclass(frozen=True)
class EvolutionStrategy(EvolutionarySolver[Evolution]):
    """Evolution of a population of α on the box dual, Q indefinite or not.

    The problem is the dual without bias, or with the bias inside the kernel
    (``problems.svc(..., fit_intercept=False)`` or ``"penalised"``): f = ½ αᵀQα − pᵀα over 0 ≤ α ≤ u. This
    is minus eq. 12 of Mierswa, with the term Σα that is missing there. Each generation makes as many children as there
    are parents: uniform crossover of random pairs, then mutation. One product of the children with Q, or of their
    changes, evaluates them all. The fittest of parents and children survives, and the winners of tournaments.

    Evolution alone is slow. With the paper's preset it stops at 0.5 to 0.8 of the optimum on most of the paper's sets.
    At C = 1 it can end above f = 0 on two sets. After 2000 generations "switching-gaussian" reaches 0.93 to 0.99, and
    0.7 on one set (``benchmarks/papers/mierswa.py``, the least of 20 folds). Hence by default children also
    learn (``memetic``), by sweeps of exact coordinate descent over the box, and one starts at α = 0. With that the
    solver reaches 1e-4, and what takes it there on a convex problem is the coordinate descent; it slows down as C
    grows (100 points of two overlapping moons, ten seconds: 4e-5 at C = 100, 1e-2 at 1e4, no bound to speak of at 1e6).
    Where Q is indefinite coordinate descent stops at the first of many stationary points, and evolution goes on from
    it; the best it finds need not be the lowest (`SMO` ends lower on some such problems, higher on others). No gap is
    certified then: the certificate has the objective and its `stationarity`, and the run ends after ``patience``
    generations without improvement.

    Parameters
    ----------
    mutation : {"hybrid", "gaussian", "switching", "switching-gaussian"}
        "gaussian": normal noise on every αᵢ, clipped, its width adapted by the 1/5 rule. "switching": αᵢ changes
        between 0 and uᵢ with probability 1/n. "hybrid" (Fig. 4): with probability 1/n, αᵢ > 0 becomes 0 and αᵢ = 0
        uniform. "switching-gaussian", the paper's future work: switching until ``patience`` or half of the
        ``generations`` is spent, then Gaussian on the variables that are not yet 0 or u in most of the population.
    preset : {"default", "paper"}
        The values of ``patience``, ``generations`` and ``memetic`` if they are None: 100, 10000, True; in the paper 5,
        1000, False.
    population : even int ≥ 2
        Parents, and children, of a generation.
    patience : int ≥ 1, optional
        Generations without improvement (of 1e-10 of f) after which the run ends.
    generations : int ≥ 1, optional
        Generations after which the run ends in any case. A step of the driver is up to 50 of them, fewer for large n.
    memetic : bool, optional
        Whether children and the fittest parent are improved by coordinate descent, and pass on the result.
    sweeps : int ≥ 1
        Sweeps of this coordinate descent, each in another order.
    crossover : float in [0, 1]
        Probability with which a pair is crossed.
    tournament : float in (0, 1]
        Share of parents and children that enters each tournament, at least one.
    sigma : float in (0, 1]
        First standard deviation of the Gaussian mutation, in units of u.

    Raises
    ------
    ProblemError
        An option is out of range.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> gram = Gram([[-2.0], [-1.0], [1.0], [2.0]], "linear")
    >>> problem = problems.svc(gram, [-1, -1, 1, 1], C=10.0, fit_intercept=False)
    >>> solution = solve(problem, "evolution-strategy", random_state=0)
    >>> round(solution.certificate.objective, 3)  # −½‖w‖² with w = 1
    -0.5
    """

    mutation: str = option("hybrid", OneOf(words=MUTATIONS))
    crossover: float = option(0.9, Number(at_least=0, at_most=1))
    tournament: float = option(0.25, Number(above=0, at_most=1))
    sigma: float = option(0.1, Number(above=0, at_most=1))

    state_type: ClassVar[type] = Evolution

    name: ClassVar[str] = "evolution-strategy"
    reaches: ClassVar[str] = "1e-4 with sweeps, for C up to about 100; without, 0.6 to 0.97 of the optimum"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.population % 2:
            raise ProblemError(f"population={self.population!r} must be even: individuals mate in pairs")

    @property
    def rules(self) -> Rules:
        """The options as the engine takes them."""
        return Rules(
            mutation=self.mutation,
            crossover=self.crossover,
            entrants=max(1, round(self.tournament * 2 * self.population)),
            patience=self.chosen("patience"),
            limit=self.chosen("generations"),
            sweeps=self.sweeps_made,
        )

    def start(self, problem: Workspace, rng: np.random.Generator, warm: NDArray | None = None) -> Evolution:
        population = random_population(problem.upper, self.population, rng, self.first(problem, warm))
        values, products = evaluate_population(problem.dense(), problem.p, population)
        order = values.argsort()[::-1]
        return Evolution(
            population=population[order],
            values=values[order],
            products=products[order],
            sigma=float(self.sigma),
            successes=0,
            trials=0,
            generation=0,
            stale=0,
            loose=np.ones(problem.n),
            is_switching=self.mutation == "switching-gaussian",
            evaluations=self.population,
            rng=generator_state(rng),
        )

    def step(self, problem: Workspace, state: Evolution) -> Evolution:
        rng, generations = generator(state.rng), self.generations_a_step(problem.n)
        after = evolve(problem.dense(), problem.p, problem.upper, state, self.rules, generations, rng)
        return replace(after, rng=generator_state(rng))

    def alpha(self, state: Evolution) -> NDArray:
        """The fittest individual so far."""
        found: NDArray = state.population[-1]
        return found

    def finished(self, state: Evolution) -> bool:
        return state.resting(self.rules)

    def provenance(self, context: Workspace, state: Evolution) -> dict[str, Any]:
        """Generations, individuals evaluated (learning apart), and the last width of the Gaussian mutation."""
        return {"generations": state.generation, "evaluations": state.evaluations, "sigma": state.sigma}
