"""Ecology outside, circuits inside: survivors and invaders, a block at a time, by any quantum solver.

Invasion around a solver that runs circuits: it is handed a block, and what it measures there is the block's α.

Survivors and invaders of a large problem, a block at a time: who goes onto the qubits, and what is asked there.

Howell's ecology ("Machine Learning as Ecology", eq. 9, 17, 28) around a solver that sees one block alone: a variable
without weight invades where its fitness beats the multiplier of the survivors, νe − h > 0 with h = Qα − p; whoever ends
without weight is extinct and leaves its place. All of this is classical.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, make_dataclass, replace
from functools import cache
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from ...core.bounds import dual_bound
from ...core.gram import Gram
from ...core.options import Number, option
from ...core.problem import DualProblem, Kind
from ...core.runtime.random import generator
from ...core.solver import BOUNDED, SOLVERS
from ...core.workspace import Workspace
from ...exceptions import ProblemError
from ..circuits import ParametricCircuit
from ..runs.batches import Tab
from ..runs.budget import ShotPlan
from ..runs.laboratory import Account, QuantumContext
from .base import CircuitSolver, QuantumSolver
from .blocks import newton_lengths
from .variational_flow import SimplexState

__all__ = [
    "INVADERS",
    "Ecology",
    "EcologyContext",
    "Inner",
    "QuantumInvasion",
    "at_rest",
    "block_problem",
    "first_block",
    "first_problem",
    "gap",
    "living",
    "next_block",
    "noise",
    "objective",
    "seeded",
    "states_with",
]


#: Weights below this share of the largest one are those of the extinct: exact distributions have no zeros.
EXTINCT = 1e-3
#: The part of a block that is kept for those who gain most by moving alone; the rest is for survivors.
INVADERS = 0.25
#: What an invader begins with, as a share of what each in its block would have if all had the same.
SEED = 0.1


def living(alpha: NDArray) -> NDArray:
    """Who has weight, shape (n,)."""
    alive: NDArray = alpha > EXTINCT * max(0.0, float(alpha.max(initial=0.0)))
    return alive


def objective(problem: DualProblem, alpha: NDArray, h: NDArray) -> float:
    """f(α), by h = Qα − p."""
    return 0.5 * float(alpha @ (h - problem.p))


def gap(problem: DualProblem, alpha: NDArray, h: NDArray) -> float:
    """f(α) less the best lower bound, absolute, by h = Qα − p; nothing is certified by it."""
    return objective(problem, alpha, h) - dual_bound(problem, alpha, h + problem.p)[0]


def noise(problem: DualProblem, alpha: NDArray, h: NDArray, shots: int, box: int | None = None) -> float:
    """What shots add to f in the mean.

    Parameters
    ----------
    alpha, h : array of shape (n,)
        And Qα − p.
    shots : int
        Of a circuit.
    box : int, optional
        Indices that share the shots, where α is read index by index; by default it is read as a distribution.
    """
    weight, diag = np.clip(alpha, 0.0, problem.effective_upper), problem.diag()
    if box is not None:
        return 0.5 * box * float(diag @ (weight * (problem.effective_upper - weight))) / shots
    spread = float(weight.sum()) * float(diag @ weight) - float(alpha @ (h + problem.p))
    return max(0.0, 0.5 * spread / shots)


def first_block(problem: DualProblem, size: int, rng: np.random.Generator) -> NDArray:
    """Variables to begin with, drawn, shape (≤ size,), sorted; as many of each sign of e as there are, up to half."""
    can = rng.permutation(np.flatnonzero(problem.upper > 0))
    if problem.n <= size or len(can) == 0:
        return np.arange(min(problem.n, size))
    if problem.e is not None and (problem.e[can] != problem.e[can[0]]).any():
        positive = problem.e[can] > 0
        rank = np.where(positive, np.cumsum(positive), np.cumsum(~positive))
        can = can[np.argsort(rank, kind="stable")]
    return np.sort(can[:size])


def next_block(problem: DualProblem, alpha: NDArray, h: NDArray, visited: NDArray, size: int) -> NDArray:
    """The variables of the next block, shape (≤ size,), sorted.

    All survivors, and the best invaders in the places that are left, where those are at least a quarter. Else a quarter
    is for those who gain most by moving alone, survivors or not, and the rest for the survivors that were in no block
    for longest, the largest first.

    Parameters
    ----------
    alpha, h : array of shape (n,)
        And Qα − p.
    visited : int array of shape (n,)
        The block each was last in.
    size : int ≥ 2
    """
    if problem.n <= size:
        return np.arange(problem.n)
    alpha = np.clip(alpha, 0.0, problem.effective_upper)
    slope = h if problem.e is None else h - _multiplier(problem, alpha, h) * problem.e
    gain = np.abs(slope) * newton_lengths(problem, alpha, slope)
    survivors, best = np.flatnonzero(living(alpha)), np.argsort(-gain, kind="stable")
    best = best[gain[best] > 0]
    few = max(1, int(INVADERS * size))
    if len(survivors) > size - few:
        best = best[:few]
        others = np.setdiff1d(survivors, best, assume_unique=True)
        waited = np.lexsort((-alpha[others], visited[others]))
        survivors = others[waited[: size - len(best)]]
    newcomers = best[~np.isin(best, survivors)]
    return np.sort(np.concatenate([survivors, newcomers[: size - len(survivors)]]))


def block_problem(problem: DualProblem, alpha: NDArray, h: NDArray, index: NDArray) -> DualProblem:
    """The problem of some variables, all others held: p less their Qα, d less what they hold; f up to a constant.

    Where the others hold more or less than they may, as noise has it, d is what comes nearest.
    """
    Q, x = problem.block(index, index), alpha[index]
    upper, e, d = problem.upper[index], None, 0.0
    if problem.e is not None:
        e = problem.e[index]
        most, least = float(upper[e > 0].sum()), -float(upper[e < 0].sum())
        d = float(np.clip(problem.d - (problem.e @ alpha - e @ x), least, most))
    p = Q @ x - h[index]
    return DualProblem(Gram(Q, kernel="precomputed"), p, np.zeros(len(index)), upper, e, d)


def seeded(block: DualProblem, x: NDArray) -> NDArray:
    """Where a block begins: at α as it was, with some weight for those who have none; feasible, shape (m,)."""
    mean = float(np.maximum(x, 0.0).sum()) / len(x)
    if mean == 0.0:  # a box may begin empty
        mean = float(block.effective_upper.min(initial=np.inf, where=block.upper > 0))
    seed = np.minimum(SEED * mean if np.isfinite(mean) else 0.0, block.effective_upper)
    return block.project(np.where(living(x), x, seed))


def _multiplier(problem: DualProblem, alpha: NDArray, h: NDArray) -> float:
    """ν of the free survivors, their mean by weight and by what is left to the bound; of all, where none is free."""
    assert problem.e is not None
    upper = problem.upper
    free = alpha * (1.0 - np.divide(alpha, upper, out=np.ones(problem.n), where=upper > 0))
    if not free.sum() > 0:
        interval = dual_bound(problem, alpha, h + problem.p)[1]
        return 0.0 if interval is None else 0.5 * (interval[0] + interval[1])
    return float(free @ (h * problem.e) / free.sum())


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

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 7 qubits, 126 CX and depth 731 a circuit at n = 256,
    CX the same at every n; by the model, 5,207 T gates a shot.

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

    state_type: ClassVar[type] = states_with(SimplexState)
    _solver: ClassVar[CircuitSolver[Any, Any]]  # an instance's own

    name: ClassVar[str] = "quantum-invasion"
    reaches: ClassVar[str] = "that of the inner solver, block after block"
    kinds = frozenset({Kind.SIMPLEX})
    whole: ClassVar[bool] = False
    certify_every: ClassVar[int] = 1 << 30
    default_max_steps: ClassVar[int] = 20_000

    exact_method: ClassVar[str] = "exact: a block is left once others promise more than its rest"
    sampled_method: ClassVar[str] = "sampled: every block is run to its end, and a fall within the noise counts as none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._plan.adaptive:
            raise ProblemError("shots='adaptive' is for one run, and every block is one; set a number of shots")
        if not isinstance(self.inner_options, Mapping):
            raise ProblemError(f"inner_options={self.inner_options!r} must be a dict of options of {self.inner!r}")
        object.__setattr__(self, "inner_options", dict(self.inner_options))
        inner = self._inner()
        # By the inner solver: what this one takes, how α is read, and what a state is.
        encoding, states = getattr(inner, "encoding", None), states_with(inner.state_type)
        own = {"_solver": inner, "kinds": inner.kinds & BOUNDED, "encoding": encoding, "state_type": states}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> Any:
        # The type of its states is made, and pickle would look for it in a module.
        return type(self).from_options, ({f.name: getattr(self, f.name) for f in fields(self)},)

    def _inner(self) -> CircuitSolver[Any, Any]:
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

    @property
    def how(self) -> str:
        return f"{super().how}; in a block, {self._solver.how}"

    def open(self, problem: DualProblem, workspace: Workspace) -> EcologyContext:
        inner, some = self._solver, first_problem(workspace, self.block)
        inner.check(some, workspace.psd)
        return EcologyContext(
            workspace,
            self.laboratory(problem),
            solver=inner,
            states=self.state_type,
            size=self.block,
            plan=self._plan,
            box=self.encoding == "box",
            largest=inner.open(some, Workspace(some)),
        )

    def start(self, context: EcologyContext, rng: np.random.Generator, warm: NDArray | None = None) -> Any:
        return context.start(rng, warm)

    def step(self, context: EcologyContext, state: Any) -> Any:
        return context.step(state)

    def alpha(self, state: Any) -> NDArray:
        alpha: NDArray = state.alpha
        return alpha

    def finished(self, state: Any) -> bool:
        return at_rest(state, self.block, self._plan)

    def asks_for_certificate(self, state: Any) -> bool:
        return not state.under_way

    def circuit(self, context: EcologyContext, state: Any) -> ParametricCircuit:
        return self._solver.circuit(context.largest, None if state is None else state.inner)

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
