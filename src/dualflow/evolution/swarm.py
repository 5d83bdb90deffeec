"""Particle swarm on the box 0 ≤ α ≤ u (Kennedy & Eberhart 1995; Mierswa 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .generations import IMPROVEMENT, evaluate_population, improve


@dataclass(frozen=True)
class SwarmRules:
    """The rules of a swarm: first inertia, weights of the own and the common best place, and limits as in `Rules`."""

    inertia: float
    own: float
    common: float
    patience: int
    limit: int
    sweeps: int


@dataclass(frozen=True)
class Swarm:
    """A swarm between two generations."""

    #: places, velocities: shape (k, n).
    places: NDArray
    velocities: NDArray
    best_places: NDArray  # best place of each particle; shape (k, n)
    best_values: NDArray  # f at these places; shape (k,)
    leader: NDArray  # the best place of all; ``leader_value`` is its f; shape (n,)
    leader_value: float
    #: generation, stale, evaluations, rng: as in `Evolution`.
    generation: int
    stale: int
    evaluations: int
    rng: dict[str, Any]


def moved(
    state: Swarm, inertia: float, own: float, common: float, upper: NDArray, rng: np.random.Generator
) -> tuple[NDArray, NDArray]:
    """Return places and velocities after one move, each of shape (k, n).

    v ← inertia·v + own·r₁∘(own best − α) + common·r₂∘(leader − α), with r₁ and r₂ uniform on [0, 1] for every gene; the
    place is α + v, clipped to the box.
    """
    pulls = rng.random((2, *state.places.shape))
    velocities = inertia * state.velocities
    velocities += own * pulls[0] * (state.best_places - state.places)
    velocities += common * pulls[1] * (state.leader - state.places)
    return np.minimum(np.maximum(state.places + velocities, 0.0), upper), velocities


def move_swarm(
    Q: NDArray,
    p: NDArray,
    upper: NDArray,
    state: Swarm,
    rules: SwarmRules,
    generations: int,
    rng: np.random.Generator,
) -> Swarm:
    """Return the swarm after ``generations`` generations, or fewer if it ends before.

    The inertia falls linearly to 0 at the last generation allowed. All particles are evaluated by one product with Q.
    With sweeps the particles and the leader are improved by coordinate descent.
    """
    for _ in range(generations):
        inertia = rules.inertia * (1.0 - state.generation / rules.limit)
        places, velocities = moved(state, inertia, rules.own, rules.common, upper, rng)
        if rules.sweeps:
            individuals = np.vstack([places, state.leader])
            values = improve(Q, p, upper, individuals, np.empty_like(individuals), rules.sweeps, rng)
            places = individuals[:-1]
        else:
            individuals, (values, _) = places, evaluate_population(Q, p, places)
        better = values[: len(places)] < state.best_values
        best = int(values.argmin())
        leads = values[best] < state.leader_value
        fell = state.leader_value - values[best] > IMPROVEMENT * abs(state.leader_value)
        state = replace(
            state,
            places=places,
            velocities=velocities,
            best_places=np.where(better[:, None], places, state.best_places),
            best_values=np.where(better, values[: len(places)], state.best_values),
            leader=individuals[best].copy() if leads else state.leader,
            leader_value=float(values[best]) if leads else state.leader_value,
            generation=state.generation + 1,
            stale=0 if fell else state.stale + 1,
            evaluations=state.evaluations + len(places),
        )
        if state.generation >= rules.limit or state.stale >= rules.patience:
            break
    return state
