"""Invasion around a solver that runs circuits: it is handed a block, and what it measures there is the block's α."""

from __future__ import annotations

from dataclasses import dataclass, field, make_dataclass, replace
from functools import cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.problem import DualProblem
from ...core.seeds import generator
from ...core.workspace import Workspace
from ..runs.budget import ShotPlan
from ..runs.laboratory import Account, QuantumContext
from ..runs.tab import Tab
from .survivors import INVADERS, block_problem, first_block, gap, living, next_block, noise, objective, seeded

__all__ = ["Ecology", "EcologyContext", "Inner", "at_rest", "first_problem", "states_with"]

#: A block is left, where distributions are exact, once its own gap is the first share of what it took off f, or the
#: second of everybody's gap as it began.
OF_FALL, OF_GAP = 0.3, 1e-3
#: A smaller fall, relative to f, is rounding.
ROUNDING = 1e-12


class Inner(Protocol):
    """What is asked of a solver of blocks: `dualflow.Solver`'s methods; its contexts hold ``lab``, its states an
    ``account``."""

    def open(self, problem: DualProblem, workspace: Workspace) -> Any: ...

    def start(self, context: Any, rng: np.random.Generator, warm: NDArray | None = None) -> Any: ...

    def step(self, context: Any, state: Any) -> Any: ...

    def alpha(self, state: Any) -> NDArray: ...

    def finished(self, state: Any) -> bool: ...


@dataclass(frozen=True)
class Ecology:
    """Everybody's weights, and the block under way; a state adds ``inner``, the inner solver's state of that block.

    Attributes
    ----------
    alpha, h : array of shape (n,)
        α as it was measured, of the blocks before, and Qα − p.
    visited : int array of shape (n,)
        The block each was last in, counted from 1; 0 stands for never.
    index : int array of shape (m,)
        Who is in the block.
    account : Account
    begun : int
        Circuits of the block's start.
    enough : float
        Gap of the block's own problem at which it is left, absolute.
    under_way : bool
        Whether the block is not finished.
    blocks, still : int
        Blocks finished, and how many of them in a row took nothing off f.
    """

    alpha: NDArray
    h: NDArray
    visited: NDArray
    index: NDArray
    account: Account
    begun: int = 0
    enough: float = 0.0
    under_way: bool = False
    blocks: int = 0
    still: int = 0


@cache
def states_with(inner: type) -> Any:
    """The type of states with an inner solver's, so that files hold them and know what they are."""
    more: list[Any] = [("inner", inner | None, None)]
    return make_dataclass("EcologyState", more, bases=(Ecology,), frozen=True)


def first_problem(problem: DualProblem, size: int) -> DualProblem:
    """Some block of the largest size, nobody else having weight."""
    some = first_block(problem, size, np.random.default_rng(0))
    return block_problem(problem, np.zeros(problem.n), -problem.p, some)


def at_rest(state: Ecology, size: int, plan: ShotPlan) -> bool:
    """Whether the budget holds no other block, or all survivors had their turn and nothing came of it."""
    if state.under_way:
        return False
    if plan.first is not None and plan.exhausted(plan.first, state.account, state.begun):
        return True
    return state.still > -(-int(living(state.alpha).sum()) // max(1, int((1 - INVADERS) * size)))


@dataclass(frozen=True)
class EcologyContext(QuantumContext):
    """What a run works with.

    Attributes
    ----------
    solver : Inner
    states : type
        Of `states_with` its states.
    size : int
        Most variables of a block.
    plan : ShotPlan
    box : bool
        Whether α is read index by index.
    largest
        The solver's context for some block of the largest size.
    kept : dict
        That for the last block, and its problem, by index, α and h.
    """

    solver: Inner
    states: Any
    size: int
    plan: ShotPlan
    box: bool
    largest: Any
    kept: dict[bytes, tuple[DualProblem, Any]] = field(default_factory=dict)

    def block(self, state: Any) -> tuple[DualProblem, Any]:
        """The problem of a state's block, and the inner solver's context for it, whose account goes on."""
        key = b"".join(array.tobytes() for array in (state.index, state.alpha, state.h))
        if key not in self.kept:
            problem = block_problem(self.workspace, state.alpha, state.h, state.index)
            opened = problem, self.solver.open(problem, Workspace(problem))
            self.kept.clear()
            self.kept[key] = opened
        problem, context = self.kept[key]
        return problem, replace(context, lab=Tab(self.lab, state.account))

    def start(self, rng: np.random.Generator, warm: NDArray | None) -> Any:
        """The first state: what a first block measured at first, the others as they were to begin."""
        work, never = self.workspace, np.zeros(self.workspace.n, dtype=np.int64)
        alpha = np.zeros(work.n) if warm is None else np.array(warm, dtype=float)
        h = work.gradient(alpha)
        if warm is None:
            index = first_block(work, self.size, rng)
        else:
            index = next_block(work, alpha, h, never, self.size)
        return self._settled(self._begun(self.states(alpha, h, never, index, Account.opened(rng)), cold=warm is None))

    def step(self, state: Any) -> Any:
        """A step of the inner solver, or a block's first state."""
        work = self.workspace
        if not state.under_way:
            index = next_block(work, state.alpha, state.h, state.visited, self.size)
            enough = OF_GAP * gap(work, state.alpha, state.h)
            return self._begun(replace(state, index=index, enough=enough))
        problem, context = self.block(state)
        if not self.solver.finished(state.inner):
            found = self.solver.step(context, state.inner)
            state = replace(state, inner=found, account=found.account)
        if self.solver.finished(state.inner) or self._is_enough(problem, state):
            return self._left(state)
        return state

    def _begun(self, state: Any, cold: bool = False) -> Any:
        problem, context = self.block(state)
        warm = None if cold else seeded(problem, state.alpha[state.index])
        found = self.solver.start(context, generator(state.account.rng), warm)
        begun = found.account.circuits - state.account.circuits
        return replace(state, inner=found, account=found.account, begun=begun, under_way=True)

    def _is_enough(self, problem: DualProblem, state: Any) -> bool:
        """From exact distributions: whether others promise more than the rest of this block."""
        if self.plan.shots is not None:
            return False
        x = self.solver.alpha(state.inner)
        h = problem.gradient(x)
        fall = problem.objective(state.alpha[state.index]) - objective(problem, x, h)
        return gap(problem, x, h) <= max(state.enough, OF_FALL * fall)

    def _settled(self, state: Any) -> Any:
        """The state with what was measured of its block in α."""
        work, alpha = self.workspace, np.array(state.alpha)
        alpha[state.index] = self.solver.alpha(state.inner)
        change = alpha[state.index] - state.alpha[state.index]
        return replace(state, alpha=alpha, h=state.h + work.block(np.arange(work.n), state.index) @ change)

    def _left(self, state: Any) -> Any:
        """The state after its block."""
        work, plan, after = self.workspace, self.plan, self._settled(state)
        visited = np.array(state.visited)
        visited[state.index] = state.blocks + 1
        f = objective(work, after.alpha, after.h)
        least = ROUNDING * abs(f)
        if plan.first is not None:
            box = len(state.index) if self.box else None
            least = noise(work, after.alpha, after.h, plan.final or plan.first, box)
        fell = objective(work, state.alpha, state.h) - f > least
        still = 0 if fell else state.still + 1
        return replace(after, visited=visited, blocks=state.blocks + 1, still=still, under_way=False)
