"""Ecology outside, circuits inside: survivors and invaders, a block at a time, by any quantum solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.problem import DualProblem, Kind
from ..core.seeds import generator
from ..core.workspace import Workspace
from ..exceptions import ProblemError
from ..quantum.circuits import ParametricCircuit
from ..quantum.engines.survivors import (
    INVADERS,
    block_problem,
    first_block,
    gap,
    living,
    next_block,
    noise,
    objective,
    seeded,
)
from ..quantum.engines.variational_flow import SimplexState
from ..quantum.runs.laboratory import Account, QuantumContext
from ..quantum.runs.tab import Tab
from .base import BOUNDED
from .quantum import CircuitSolver, QuantumSolver

__all__ = ["QuantumInvasion"]

#: A block is left, where distributions are exact, once its own gap is the first share of what it took off f, or the
#: second of everybody's gap as it began.
OF_FALL, OF_GAP = 0.3, 1e-3
#: A smaller fall, relative to f, is rounding.
ROUNDING = 1e-12


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
def _with(inner: type) -> Any:
    """The type of states with the inner solver's."""
    more: list[Any] = [("inner", inner | None, None)]
    return make_dataclass("EcologyState", more, bases=(Ecology,), frozen=True)


@dataclass(frozen=True)
class EcologyContext(QuantumContext):
    """With the inner solver, and its context for a block of the largest size; the last block's is kept."""

    solver: CircuitSolver[Any, Any]
    largest: Any
    kept: dict[bytes, Any] = field(default_factory=dict)

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


@dataclass(frozen=True)
class QuantumInvasion(QuantumSolver[EcologyContext, Any]):
    """Ecology outside, circuits inside: a quantum solver on survivors and invaders, a block at a time.

    Howell's invasion around any quantum solver, for more points than there are outcomes. At most ``block`` variables
    are on the qubits, all others are held: f of the block has p less their Qα, and d less what they hold. In it are all
    survivors and the variables that gain most; where survivors are too many they take turns. The inner solver runs on
    the block from where α was, newcomers with a little weight, to its own rest; from exact distributions only until the
    block's gap is 0.3 of what it took off f. What it measured is the block's α, as it is: no line search, no averaging,
    nothing projected. Whoever has no weight then is extinct, and leaves its qubits' outcomes to others.

    Classical are the choice of blocks, h = Qα − p of everybody (n · block kernel entries a block) and all that is
    classical in the inner solver; ``cost.classical_share`` says the share of time. No speed-up is claimed:
    'invasion' and 'working-set' do the same without circuits, faster.

    A run rests after blocks that took nothing off f, with shots no more than their noise, and as many of them as all
    survivors need to have had their turn.

    Parameters
    ----------
    inner : str, default="variational-flow"
        The solver of the blocks, a name of `dualflow.list_solvers` that runs circuits; this one takes the kinds of
        problems that it takes, with finite optima.
    block : int ≥ 2, default=128
        Most variables on the qubits: 7 of them, with the variational flow.
    inner_options : dict, optional
        More options of the inner solver, such as ``{"steps": 20}``.
    device, journal, resend, max_shots, max_qpu_seconds, max_cost, mitigation
        See `QuantumSolver`; of the whole run.
    shots, final_shots : int, optional
        Of each circuit, and of the last circuit of every block; not "adaptive".
    shot_budget : int, optional
        Of the whole run.

    Raises
    ------
    ProblemError
        An option is out of range, or ``inner`` runs no circuits.
    SolverMismatch
        From `open`: the inner solver does not take the blocks.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(300, noise=0.2, random_state=0)
    >>> problem = problems.svdd(Gram(X, kernel="rbf", gamma=1.0))
    >>> found = solve(problem, "quantum-invasion", block=16, device="emulator", tol=1e-3, refine=False)
    >>> found.cost.qubits, found.certificate.relative_gap <= 1e-3
    (4, True)
    """

    inner: str = "variational-flow"
    block: int = option(128, Number(at_least=2, whole=True))
    inner_options: Mapping[str, Any] = field(default_factory=dict, hash=False)

    state_type: ClassVar[type] = _with(SimplexState)

    name: ClassVar[str] = "quantum-invasion"
    reaches: ClassVar[str] = "that of the inner solver, block after block"
    kinds = frozenset({Kind.SIMPLEX})
    whole: ClassVar[bool] = False
    certify_every: ClassVar[int] = 1 << 30
    default_max_steps: ClassVar[int] = 20_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._plan.adaptive:
            raise ProblemError(
                "shots='adaptive' counts the shots of one run, and every block is a run; set a number of shots"
            )
        if not isinstance(self.inner_options, Mapping):
            raise ProblemError(f"inner_options={self.inner_options!r} must be a dict of options of {self.inner!r}")
        object.__setattr__(self, "inner_options", dict(self.inner_options))
        inner = self._inner()
        # By the inner solver: what this one takes, how α is read, and what a state is.
        for name, value in (
            ("_solver", inner),
            ("kinds", inner.kinds & BOUNDED),
            ("encoding", getattr(inner, "encoding", None)),
            ("state_type", _with(inner.state_type)),
        ):
            object.__setattr__(self, name, value)

    def _inner(self) -> CircuitSolver[Any, Any]:
        from . import SOLVERS  # the catalogue, of which this file is a line

        found = SOLVERS.find(self.inner)
        if not issubclass(found, CircuitSolver) or found is type(self) or not found.kinds & BOUNDED:
            why = "runs no circuits on blocks of a bounded problem; 'invasion' is the classical solver of this kind"
            raise ProblemError(f"inner={self.inner!r} {why}")
        own = {f.name for f in fields(QuantumSolver)}
        if clash := sorted(own & set(self.inner_options)):
            raise ProblemError(f"inner_options: {clash[0]!r} is an option of {self.name!r} itself, of the whole run")
        shared = ("shots", "final_shots", "shot_budget", "mitigation")
        given = {name: value for name in shared if (value := getattr(self, name)) is not None}
        return found.from_options({"device": self.device} | given | dict(self.inner_options))

    _solver: ClassVar[Any]  # an instance's own

    def open(self, problem: DualProblem, workspace: Workspace) -> EcologyContext:
        nobody, some = np.zeros(problem.n), first_block(problem, self.block, np.random.default_rng(0))
        block = block_problem(workspace, nobody, -workspace.p, some)
        self._solver.check(block, workspace.psd)
        return EcologyContext(
            workspace, self.laboratory(problem), self._solver, self._solver.open(block, Workspace(block))
        )

    def start(self, context: EcologyContext, rng: np.random.Generator, warm: NDArray | None = None) -> Any:
        work, never = context.workspace, np.zeros(context.workspace.n, dtype=np.int64)
        alpha = np.zeros(work.n) if warm is None else np.array(warm, dtype=float)
        h = work.gradient(alpha)
        if warm is None:
            index = first_block(work, self.block, rng)
        else:
            index = next_block(work, alpha, h, never, self.block)
        state = self.state_type(alpha, h, never, index, Account.opened(rng))
        begun = self._begin(context, state, warm is not None)
        # What was measured first is the first answer.
        return self._settled(context, begun)

    def step(self, context: EcologyContext, state: Any) -> Any:
        work = context.workspace
        if not state.under_way:
            index = next_block(work, state.alpha, state.h, state.visited, self.block)
            enough = OF_GAP * gap(work, state.alpha, state.h)
            return self._begin(context, replace(state, index=index, enough=enough), True)
        problem, inner = context.block(state)
        if not self._solver.finished(state.inner):
            found = self._solver.step(inner, state.inner)
            state = replace(state, inner=found, account=found.account)
        if self._solver.finished(state.inner) or self._is_enough(problem, state):
            return self._left(context, state)
        return state

    def _begin(self, context: EcologyContext, state: Any, from_alpha: bool) -> Any:
        """The block's first inner state."""
        problem, inner = context.block(state)
        warm = seeded(problem, state.alpha[state.index]) if from_alpha else None
        found = self._solver.start(inner, generator(state.account.rng), warm)
        begun = found.account.circuits - state.account.circuits
        return replace(state, inner=found, account=found.account, begun=begun, under_way=True)

    def _is_enough(self, problem: DualProblem, state: Any) -> bool:
        """From exact distributions: whether others promise more than the rest of this block."""
        if self.shots is not None:
            return False
        x = self._solver.alpha(state.inner)
        h = problem.gradient(x)
        fall = problem.objective(state.alpha[state.index]) - objective(problem, x, h)
        return gap(problem, x, h) <= max(state.enough, OF_FALL * fall)

    def _settled(self, context: EcologyContext, state: Any) -> Any:
        """The state with what was measured of its block in α."""
        work, alpha = context.workspace, np.array(state.alpha)
        alpha[state.index] = self._solver.alpha(state.inner)
        change = alpha[state.index] - state.alpha[state.index]
        return replace(state, alpha=alpha, h=state.h + work.block(np.arange(work.n), state.index) @ change)

    def _left(self, context: EcologyContext, state: Any) -> Any:
        """The state after its block."""
        work, after = context.workspace, self._settled(context, state)
        visited = np.array(state.visited)
        visited[state.index] = state.blocks + 1
        fall = objective(work, state.alpha, state.h) - (f := objective(work, after.alpha, after.h))
        least = ROUNDING * abs(f)
        if self._plan.first is not None:
            box = len(state.index) if self.encoding == "box" else None
            least = noise(work, after.alpha, after.h, self._plan.final or self._plan.first, box)
        still = 0 if fall > least else state.still + 1
        return replace(after, visited=visited, blocks=state.blocks + 1, still=still, under_way=False)

    def alpha(self, state: Any) -> NDArray:
        alpha: NDArray = state.alpha
        return alpha

    def finished(self, state: Any) -> bool:
        if state.under_way:
            return False
        if self._plan.first is not None and self._plan.exhausted(self._plan.first, state.account, state.begun):
            return True
        turns = -(-int(living(state.alpha).sum()) // max(1, int((1 - INVADERS) * self.block)))
        return bool(state.still > turns)

    def asks_for_certificate(self, state: Any) -> bool:
        return not state.under_way

    def circuit(self, context: EcologyContext, state: Any) -> ParametricCircuit:
        return self._solver.circuit(context.largest, state.inner)

    def drowned(self, context: EcologyContext, state: Any) -> bool:
        return self._solver.drowned(context.block(state)[1], state.inner)

    def provenance(self, context: EcologyContext, state: Any) -> dict[str, Any]:
        return super().provenance(context, state) | {
            "inner": self.inner,
            "blocks": state.blocks,
            "block_size": self.block,
            "survivors": int(living(state.alpha).sum()),
            "visited": int((state.visited > 0).sum()),
            "classical": f"blocks, gradient of all, multiplier, and what is classical in {self.inner!r}",
        }
