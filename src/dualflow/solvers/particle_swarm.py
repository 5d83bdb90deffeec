"""Particle swarm on the box dual."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.runtime.random import generator, generator_state
from ..core.workspace import Workspace
from ..evolution.generations import evaluate_population, random_population
from ..evolution.swarm import Swarm, SwarmRules, move_swarm
from ._evolution import EvolutionarySolver


@dataclass(frozen=True)
class ParticleSwarm(EvolutionarySolver[Swarm]):
    """Particle swarm on the box dual, Q indefinite or not.

    The problem and memetic learning are those of `EvolutionStrategy`. Each particle moves towards its own best place
    and the swarm's best one, by uniform random parts of the way for each variable (Kennedy and Eberhart, ICNN 1995).
    With Mierswa's weights the swarm soon stops moving, far from the optimum, and learning does the rest.

    Parameters
    ----------
    preset : {"default", "paper"}
        As for `EvolutionStrategy`.
    population : int ≥ 1
        Particles.
    patience, generations, memetic, sweeps
        As for `EvolutionStrategy`; the particles and the leader learn.
    inertia : float in [0, 1]
        Part of the velocity that is kept; it falls linearly to 0 at the last of the ``generations``.
    own_weight, common_weight : float in [0, 4]
        Weights of the moves towards a particle's own best place and the swarm's.

    Raises
    ------
    ProblemError
        An option is out of range.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> gram = Gram([[-2.0], [-1.0], [1.0], [2.0]], "linear")
    >>> problem = problems.svc(gram, [-1, -1, 1, 1], C=10.0, fit_intercept=False)
    >>> solution = solve(problem, "particle-swarm", random_state=0)
    >>> round(solution.certificate.objective, 3)  # −½‖w‖² with w = 1
    -0.5
    """

    inertia: float = option(0.1, Number(at_least=0, at_most=1))
    own_weight: float = option(1.0, Number(at_least=0, at_most=4))
    common_weight: float = option(1.0, Number(at_least=0, at_most=4))

    state_type: ClassVar[type] = Swarm

    name: ClassVar[str] = "particle-swarm"
    reaches: ClassVar[str] = "1e-4 with sweeps, for C up to about 100; without, less than an evolution strategy"

    @property
    def rules(self) -> SwarmRules:
        """The options as the engine takes them."""
        return SwarmRules(
            inertia=self.inertia,
            own=self.own_weight,
            common=self.common_weight,
            patience=self.chosen("patience"),
            limit=self.chosen("generations"),
            sweeps=self.sweeps_made,
        )

    def start(self, problem: Workspace, rng: np.random.Generator, warm: NDArray | None = None) -> Swarm:
        places = random_population(problem.upper, self.population, rng, self.first(problem, warm))
        values, _ = evaluate_population(problem.dense(), problem.p, places)
        best = int(values.argmin())
        return Swarm(
            places=places,
            velocities=np.zeros_like(places),
            best_places=places,
            best_values=values,
            leader=places[best],
            leader_value=float(values[best]),
            generation=0,
            stale=0,
            evaluations=self.population,
            rng=generator_state(rng),
        )

    def step(self, problem: Workspace, state: Swarm) -> Swarm:
        rng, generations = generator(state.rng), self.generations_a_step(problem.n)
        after = move_swarm(problem.dense(), problem.p, problem.upper, state, self.rules, generations, rng)
        return replace(after, rng=generator_state(rng))

    def alpha(self, state: Swarm) -> NDArray:
        """The best place so far."""
        return state.leader

    def finished(self, state: Swarm) -> bool:
        rules = self.rules
        return state.generation >= rules.limit or state.stale >= rules.patience

    def provenance(self, context: Workspace, state: Swarm) -> dict[str, Any]:
        """Generations, and places evaluated (learning apart)."""
        return {"generations": state.generation, "evaluations": state.evaluations}
