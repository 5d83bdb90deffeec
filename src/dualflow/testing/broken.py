"""Solvers with one deliberate fault each, which the test kit must reject by the intended check.

All are SMO with one fault. They test the kit itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..core.psd import SpectrumEvidence
from ..core.workspace import Workspace
from ..solvers.smo import SMO, SMOState


@dataclass(frozen=True)
class Zeros(SMO):
    """Returns α = 0, which the certificate projects onto the feasible set."""

    name: ClassVar[str] = "broken-zeros"

    def alpha(self, state: SMOState) -> NDArray:
        return np.zeros_like(state.alpha)


@dataclass(frozen=True)
class Infeasible(SMO):
    """Returns twice the optimum: outside the box or simplex, and with a small f if the gap does not project it."""

    name: ClassVar[str] = "broken-infeasible"

    def alpha(self, state: SMOState) -> NDArray:
        return 2.0 * state.alpha


@dataclass(frozen=True)
class NotANumber(SMO):
    """Returns NaN from the first step on."""

    name: ClassVar[str] = "broken-nan"

    def step(self, problem: Workspace, state: SMOState) -> SMOState:
        return replace(state, alpha=np.full(problem.n, np.nan))


@dataclass(frozen=True)
class Perturbed(SMO):
    """Returns a feasible point 1 % of the way from the optimum to the middle of the feasible set."""

    name: ClassVar[str] = "broken-perturbed"
    default_max_steps: ClassVar[int] = 20

    def step(self, problem: Workspace, state: SMOState) -> SMOState:
        after = super().step(problem, state)
        middle = problem.project(np.where(np.isfinite(problem.upper), 0.5 * problem.upper, 1.0 / problem.n))
        return replace(after, alpha=0.99 * after.alpha + 0.01 * middle)


@dataclass(frozen=True)
class MutatesWorkspace(SMO):
    """Scales the kernel matrix in its workspace in place; the arrays of the problem itself are read-only."""

    name: ClassVar[str] = "broken-mutates-workspace"

    def step(self, problem: Workspace, state: SMOState) -> SMOState:
        K = problem.gram.full()
        K *= 1.0 + 1e-12
        return super().step(problem, state)


@dataclass(frozen=True)
class MutatesState(SMO):
    """Changes the given state in place, so that the run cannot return to it."""

    name: ClassVar[str] = "broken-mutates-state"

    def step(self, problem: Workspace, state: SMOState) -> SMOState:
        after = super().step(problem, state)
        state.alpha[:] = after.alpha
        return after


@dataclass(frozen=True)
class _Noisy(SMO):
    """Base of solvers that add noise to the start, far below their accuracy, from a wrong source."""

    stochastic: ClassVar[bool] = True

    def noise(self, rng: np.random.Generator, n: int) -> NDArray:
        raise NotImplementedError

    def start(self, problem: Workspace, rng: np.random.Generator, warm: NDArray | None = None) -> SMOState:
        state = super().start(problem, rng, warm)
        alpha = problem.project(state.alpha + 1e-3 * np.abs(self.noise(rng, problem.n)) * problem.effective_upper.min())
        return replace(state, alpha=alpha, h=problem.gradient(alpha))


@dataclass(frozen=True)
class IgnoresSeed(_Noisy):
    """Draws from a new generator without a seed instead of the given one."""

    name: ClassVar[str] = "broken-ignores-seed"

    def noise(self, rng: np.random.Generator, n: int) -> NDArray:
        return np.random.default_rng().standard_normal(n)


@dataclass(frozen=True)
class GlobalGenerator(_Noisy):
    """Draws from numpy's global generator."""

    name: ClassVar[str] = "broken-global-generator"

    def noise(self, rng: np.random.Generator, n: int) -> NDArray:
        return np.random.standard_normal(n)  # noqa: NPY002 - the fault itself


@dataclass(frozen=True)
class HiddenState(_Noisy):
    """Counts its runs on the class, and lets the count change the result."""

    name: ClassVar[str] = "broken-hidden-state"
    calls: ClassVar[Iterator[int]] = itertools.count()

    def noise(self, rng: np.random.Generator, n: int) -> NDArray:
        return np.sin(np.arange(n) + next(self.calls))


@dataclass(frozen=True)
class OneSeedForAll(SMO):
    """A "sampled" solver whose shot noise is the same for every seed."""

    shots: int = 1000

    name: ClassVar[str] = "broken-one-seed"
    kinds = frozenset({Kind.SIMPLEX, Kind.CAPPED_SIMPLEX})
    accuracy: ClassVar[str] = "sampled"

    def alpha(self, state: SMOState) -> NDArray:
        p = np.clip(state.alpha, 0, None)
        return np.random.default_rng(1).multinomial(self.shots, p / p.sum()) / self.shots


@dataclass(frozen=True)
class Uniform(SMO):
    """A "sampled" solver whose counts do not depend on the problem: the null device."""

    shots: int = 1000

    name: ClassVar[str] = "broken-uniform"
    stochastic: ClassVar[bool] = True
    kinds = frozenset({Kind.SIMPLEX})
    accuracy: ClassVar[str] = "sampled"

    def start(self, problem: Workspace, rng: np.random.Generator, warm: NDArray | None = None) -> SMOState:
        counts = rng.multinomial(self.shots, np.full(problem.n, 1 / problem.n)) / self.shots
        return replace(super().start(problem, rng), alpha=counts)

    def step(self, problem: Workspace, state: SMOState) -> SMOState:
        return replace(state, violation=0.0)


@dataclass(frozen=True)
class ClaimsTooMuch(SMO):
    """Drops the equality and solves the box that is left."""

    name: ClassVar[str] = "broken-claims-too-much"

    def open(self, problem: DualProblem, workspace: Workspace) -> Workspace:
        return Workspace(replace(problem, e=None, upper=problem.effective_upper))


@dataclass(frozen=True)
class WrongShape(SMO):
    """Returns a column instead of a vector."""

    name: ClassVar[str] = "broken-wrong-shape"

    def alpha(self, state: SMOState) -> NDArray:
        return state.alpha[:, None]


@dataclass(frozen=True)
class NeverMoves(SMO):
    """Never finishes and never improves."""

    name: ClassVar[str] = "broken-never-moves"
    default_max_steps: ClassVar[int] = 50

    def step(self, problem: Workspace, state: SMOState) -> SMOState:
        return replace(state, updates=state.updates + 1)

    def finished(self, state: SMOState) -> bool:
        return False


class _WithMomentum(Workspace):
    """A workspace with a field that changes from step to step."""

    momentum: NDArray


@dataclass(frozen=True)
class Forgetful(SMO):
    """Keeps a part of its state in its context, which a checkpoint does not save."""

    name: ClassVar[str] = "broken-forgetful"

    def open(self, problem: DualProblem, workspace: Workspace) -> Workspace:
        context = _WithMomentum(problem)
        context.__dict__["momentum"] = np.zeros(problem.n)
        return context

    def step(self, problem: Workspace, state: SMOState) -> SMOState:
        assert isinstance(problem, _WithMomentum)
        after = super().step(problem, state)
        # Half of a step is made; a part of the rest is carried over by the context.
        problem.momentum[:] = 0.5 * (after.alpha - state.alpha) + 0.1 * problem.momentum
        alpha = problem.project(state.alpha + problem.momentum)
        return replace(after, alpha=alpha, h=problem.gradient(alpha), violation=np.inf)


@dataclass(frozen=True)
class SwallowsOptions(SMO):
    """Ignores unknown options."""

    name: ClassVar[str] = "broken-swallows-options"

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        return cls()


@dataclass(frozen=True)
class RefusesNothing(SMO):
    """Accepts problems of kinds it does not claim."""

    name: ClassVar[str] = "broken-refuses-nothing"
    kinds = frozenset({Kind.BOX_EQUALITY, Kind.SIMPLEX, Kind.CAPPED_SIMPLEX})

    def check(self, problem: DualProblem, psd: SpectrumEvidence | None = None) -> None:
        return


#: Each broken solver and the name of the check that must reject it.
BROKEN_SOLVERS: dict[SMO, str] = {
    Zeros(): "gap",
    Infeasible(): "raw feasible",
    NotANumber(): "answer",
    Perturbed(): "gap",
    MutatesWorkspace(): "workspace unchanged",
    MutatesState(): "state unchanged",
    IgnoresSeed(): "same seed",
    GlobalGenerator(): "same seed",
    HiddenState(): "same seed",
    OneSeedForAll(): "different seeds",
    Uniform(): "gap",
    ClaimsTooMuch(): "raw feasible",
    WrongShape(): "answer",
    NeverMoves(): "comes to rest",
    Forgetful(): "resume",
    SwallowsOptions(): "unknown option",
    RefusesNothing(): "other kinds refused",
}
