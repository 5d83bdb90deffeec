"""The solver `quantum-invasion`: block coordinate descent whose blocks are solved by any quantum solver.

Howell's ecology ("Machine Learning as Ecology", eq. 9, 17, 28) chooses the blocks: a variable of weight 0 is an invader
if its fitness exceeds the multiplier of the survivors, νe − h > 0 with h = Qα − p; a variable that ends at weight 0 is
extinct and frees its place in the block. The choice of blocks is classical. Each block's problem goes to the inner
solver, which runs circuits, and the α that it measures becomes the block's part of α.
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
from ...core.reading import multiplier_of
from ...core.runtime.random import generator
from ...core.solver import BOUNDED, SOLVERS
from ...core.workspace import Workspace
from ...exceptions import ProblemError
from ..circuits import ParametricCircuit
from ..runs.batches import ContinuedLaboratory
from ..runs.budget import ShotPlan
from ..runs.laboratory import Account, QuantumContext
from .base import CircuitSolver, QuantumSolver
from .blocks import newton_lengths
from .variational_flow import SimplexState

#: A variable survives if its weight is above this share of the largest weight. Exact distributions have no zeros.
MIN_SHARE_SURVIVOR = 1e-3
#: Share of a block that is reserved for the variables with the largest gain of a move alone; survivors get the rest.
INVADER_SHARE = 0.25
#: First weight of an invader, as a share of the block's mean weight.
SEED_SHARE = 0.1
#: Most entries of Q that the update of h holds at a time, 128 MB.
MAX_BLOCK_ENTRIES = 2**24
#: Exact distributions: a block is finished when its own gap is at most this share of the fall of f that it brought ...
MAX_GAP_PER_FALL = 0.3
#: ... or at most this share of the gap of the whole problem when the block began.
MAX_GAP_PER_TOTAL_GAP = 1e-3
#: A fall of f below this, relative to |f|, is rounding.
MIN_RELATIVE_FALL = 1e-12


def is_survivor(alpha: NDArray) -> NDArray:
    """Return which variables have weight, boolean, shape (n,)."""
    alive: NDArray = alpha > MIN_SHARE_SURVIVOR * max(0.0, float(alpha.max(initial=0.0)))
    return alive


def objective(problem: DualProblem, alpha: NDArray, h: NDArray) -> float:
    """Return f(α), computed from h = Qα − p."""
    return 0.5 * float(alpha @ (h - problem.p))


def absolute_gap(problem: DualProblem, alpha: NDArray, h: NDArray) -> float:
    """Return f(α) minus the best lower bound, computed from h = Qα − p; it is not a certificate."""
    return objective(problem, alpha, h) - dual_bound(problem, alpha, h + problem.p)[0]


def noise_excess(problem: DualProblem, alpha: NDArray, h: NDArray, shots: int, box: int | None = None) -> float:
    """Return the mean excess of f that shot noise adds.

    Parameters
    ----------
    alpha, h : array of shape (n,)
        α and Qα − p.
    shots : int
        Shots of the circuit.
    box : int, optional
        Number of indices that share the shots, if α is read index by index. By default α is read as a distribution.
    """
    weight, diag = np.clip(alpha, 0.0, problem.effective_upper), problem.diag()
    if box is not None:
        return 0.5 * box * float(diag @ (weight * (problem.effective_upper - weight))) / shots
    spread = float(weight.sum()) * float(diag @ weight) - float(alpha @ (h + problem.p))
    return max(0.0, 0.5 * spread / shots)


def first_block(problem: DualProblem, size: int, rng: np.random.Generator) -> NDArray:
    """Return the variables of the first block, shape (≤ size,), sorted.

    They are drawn at random. Both signs of e get half the block each, or all their variables if they have fewer.
    """
    can = rng.permutation(np.flatnonzero(problem.upper > 0))
    if problem.n <= size or len(can) == 0:
        return np.arange(min(problem.n, size))
    if problem.e is not None and (problem.e[can] != problem.e[can[0]]).any():
        positive = problem.e[can] > 0
        rank = np.where(positive, np.cumsum(positive), np.cumsum(~positive))
        can = can[np.argsort(rank, kind="stable")]
    return np.sort(can[:size])


def next_block(problem: DualProblem, alpha: NDArray, h: NDArray, visited: NDArray, size: int) -> NDArray:
    """Return the variables of the next block, shape (≤ size,), sorted.

    If all survivors fit into three quarters of the block, it holds them and the best invaders. Otherwise a quarter of
    the block goes to the variables with the largest gain of a move alone, survivors or not. The rest goes to the
    survivors whose last block is the oldest, the largest weight first.

    Parameters
    ----------
    alpha, h : array of shape (n,)
        α and Qα − p.
    visited : int array of shape (n,)
        Number of the last block that held each variable.
    size : int ≥ 2
        Variables of a block.
    """
    if problem.n <= size:
        return np.arange(problem.n)
    alpha = np.clip(alpha, 0.0, problem.effective_upper)
    slope = h if problem.e is None else h - _multiplier(problem, alpha, h) * problem.e
    gain = np.abs(slope) * newton_lengths(problem, alpha, slope)
    survivors, best = np.flatnonzero(is_survivor(alpha)), np.argsort(-gain, kind="stable")
    best = best[gain[best] > 0]
    reserved = max(1, int(INVADER_SHARE * size))
    if len(survivors) > size - reserved:
        best = best[:reserved]
        others = np.setdiff1d(survivors, best, assume_unique=True)
        waited = np.lexsort((-alpha[others], visited[others]))
        survivors = others[waited[: size - len(best)]]
    invaders = best[~np.isin(best, survivors)]
    return np.sort(np.concatenate([survivors, invaders[: size - len(survivors)]]))


def block_problem(problem: DualProblem, alpha: NDArray, h: NDArray, index: NDArray) -> DualProblem:
    """Return the problem of the variables ``index``, all others fixed; its objective is f up to a constant.

    Its p is p minus Qα of the fixed variables, its d is d minus their eᵀα. Under noise no point of the block may reach
    that d; it is then clipped to the nearest value that one reaches.
    """
    Q, x = problem.block(index, index), alpha[index]
    upper, e, d = problem.upper[index], None, 0.0
    if problem.e is not None:
        e = problem.e[index]
        highest, lowest = float(upper[e > 0].sum()), -float(upper[e < 0].sum())
        d = float(np.clip(problem.d - (problem.e @ alpha - e @ x), lowest, highest))
    p = Q @ x - h[index]
    return DualProblem(Gram(Q, kernel="precomputed"), p, np.zeros(len(index)), upper, e, d)


def seeded_start(block: DualProblem, x: NDArray) -> NDArray:
    """Return the feasible start of a block, shape (m,): x, with a small weight for the variables that have none."""
    mean = float(np.maximum(x, 0.0).sum()) / len(x)
    if mean == 0.0:  # in a box all weights may be 0
        mean = float(block.effective_upper.min(initial=np.inf, where=block.upper > 0))
    seed = np.minimum(SEED_SHARE * mean if np.isfinite(mean) else 0.0, block.effective_upper)
    return block.project(np.where(is_survivor(x), x, seed))


def _multiplier(problem: DualProblem, alpha: NDArray, h: NDArray) -> float:
    """Return ν: the mean over the free variables, weighted by α and by the distance to the upper bound.

    If no variable is free, it is the middle of the multiplier interval.
    """
    assert problem.e is not None
    upper = problem.upper
    free = alpha * (1.0 - np.divide(alpha, upper, out=np.ones(problem.n), where=upper > 0))
    if not free.sum() > 0:
        return multiplier_of(dual_bound(problem, alpha, h + problem.p)[1])
    return float(free @ (h * problem.e) / free.sum())


class InnerSolver(Protocol):
    """The methods of a solver of blocks, those of `dualflow.Solver`.

    Its contexts have the attribute ``lab``, its states ``account``.
    """

    def open(self, problem: DualProblem, workspace: Workspace) -> Any: ...

    def start(self, context: Any, rng: np.random.Generator, warm: NDArray | None = None) -> Any: ...

    def step(self, context: Any, state: Any) -> Any: ...

    def alpha(self, state: Any) -> NDArray: ...

    def finished(self, state: Any) -> bool: ...


@dataclass(frozen=True)
class Ecology:
    """The weights of all variables, and the present block.

    `state_type_with` adds the field ``inner``, the inner solver's state of the block.
    """

    #: alpha, h: α as measured in the finished blocks, and Qα − p; shape (n,).
    alpha: NDArray
    h: NDArray
    #: Number of the last block that held each variable, from 1; 0 if there was none; int array of shape (n,).
    visited: NDArray
    index: NDArray  # variables of the block; int array of shape (m,)
    account: Account
    begun: int = 0  # circuits that the start of the block took
    enough: float = 0.0  # the block is finished when the gap of its own problem is at most this, absolute
    under_way: bool = False  # the block is not finished
    #: blocks, still: finished blocks, and how many of them in a row did not lower f.
    blocks: int = 0
    still: int = 0


@cache
def state_type_with(inner: type) -> Any:
    """Return the `Ecology` dataclass with a field ``inner`` of the given type, as checkpoints need it."""
    more: list[Any] = [("inner", inner | None, None)]
    return make_dataclass("EcologyState", more, bases=(Ecology,), frozen=True)


def example_block(problem: DualProblem, size: int) -> DualProblem:
    """Return the problem of one block of the largest size, at α = 0."""
    some = first_block(problem, size, np.random.default_rng(0))
    return block_problem(problem, np.zeros(problem.n), -problem.p, some)


def is_finished(state: Ecology, size: int, plan: ShotPlan) -> bool:
    """Return whether the run ends.

    It ends between two blocks, if the shot budget holds no further block, or if as many blocks as the survivors need to
    be visited once have not lowered f.
    """
    if state.under_way:
        return False
    if plan.first is not None and plan.is_exhausted(plan.first, state.account, state.begun):
        return True
    return state.still > -(-int(is_survivor(state.alpha).sum()) // max(1, int((1 - INVADER_SHARE) * size)))


@dataclass(frozen=True)
class EcologyContext(QuantumContext):
    """The data and the steps of a run."""

    solver: InnerSolver
    state_type: Any  # the type of the states, from `state_type_with`
    size: int  # largest number of variables in a block
    plan: ShotPlan
    box: bool  # α is read index by index, not as a distribution
    largest: Any  # the inner solver's context for one block of the largest size
    #: Problem and context of the last block, by its index, α and h.
    opened: dict[bytes, tuple[DualProblem, Any]] = field(default_factory=dict)

    def block(self, state: Any) -> tuple[DualProblem, Any]:
        """Return the problem of a state's block, and the inner solver's context for it with the run's account."""
        key = b"".join(array.tobytes() for array in (state.index, state.alpha, state.h))
        if key not in self.opened:
            problem = block_problem(self.workspace, state.alpha, state.h, state.index)
            opened = problem, self.solver.open(problem, Workspace(problem))
            self.opened.clear()
            self.opened[key] = opened
        problem, context = self.opened[key]
        return problem, replace(context, lab=ContinuedLaboratory(self.lab, state.account))

    def start(self, rng: np.random.Generator, warm: NDArray | None) -> Any:
        """Return the first state: the first block's α is measured, all others are at 0 or at ``warm``."""
        work, never = self.workspace, np.zeros(self.workspace.n, dtype=np.int64)
        alpha = np.zeros(work.n) if warm is None else np.array(warm, dtype=float)
        h = work.gradient(alpha)
        if warm is None:
            index = first_block(work, self.size, rng)
        else:
            index = next_block(work, alpha, h, never, self.size)
        state = self.state_type(alpha, h, never, index, Account.opened(rng))
        return self._with_block_alpha(self._with_block_started(state, cold=warm is None))

    def step(self, state: Any) -> Any:
        """Start the next block, or make one step of the inner solver on the present one."""
        work = self.workspace
        if not state.under_way:
            index = next_block(work, state.alpha, state.h, state.visited, self.size)
            enough = MAX_GAP_PER_TOTAL_GAP * absolute_gap(work, state.alpha, state.h)
            return self._with_block_started(replace(state, index=index, enough=enough))
        problem, context = self.block(state)
        if not self.solver.finished(state.inner):
            found = self.solver.step(context, state.inner)
            state = replace(state, inner=found, account=found.account)
        if self.solver.finished(state.inner) or self._block_is_solved(problem, state):
            return self._with_block_finished(state)
        return state

    def _with_block_started(self, state: Any, cold: bool = False) -> Any:
        """Return the state after the inner solver's start on its block."""
        problem, context = self.block(state)
        warm = None if cold else seeded_start(problem, state.alpha[state.index])
        found = self.solver.start(context, generator(state.account.rng), warm)
        begun = found.account.circuits - state.account.circuits
        return replace(state, inner=found, account=found.account, begun=begun, under_way=True)

    def _block_is_solved(self, problem: DualProblem, state: Any) -> bool:
        """Return whether the block's gap is small against what another block promises; exact distributions only."""
        if self.plan.shots is not None:
            return False
        x = self.solver.alpha(state.inner)
        h = problem.gradient(x)
        fall = problem.objective(state.alpha[state.index]) - objective(problem, x, h)
        return absolute_gap(problem, x, h) <= max(state.enough, MAX_GAP_PER_FALL * fall)

    def _with_block_alpha(self, state: Any) -> Any:
        """Return the state with the measured α of its block in α, and h updated."""
        work, alpha = self.workspace, np.array(state.alpha)
        alpha[state.index] = self.solver.alpha(state.inner)
        change = alpha[state.index] - state.alpha[state.index]
        rows = np.arange(work.n)
        height = max(1, MAX_BLOCK_ENTRIES // len(state.index))
        parts = [rows[first : first + height] for first in range(0, work.n, height)]
        step = np.concatenate([work.block(part, state.index) @ change for part in parts])
        return replace(state, alpha=alpha, h=state.h + step)

    def _with_block_finished(self, state: Any) -> Any:
        """Return the state after its block, with the count of blocks that did not lower f."""
        work, plan, after = self.workspace, self.plan, self._with_block_alpha(state)
        visited = np.array(state.visited)
        visited[state.index] = state.blocks + 1
        f = objective(work, after.alpha, after.h)
        min_fall = MIN_RELATIVE_FALL * abs(f)
        if plan.first is not None:
            box = len(state.index) if self.box else None
            min_fall = noise_excess(work, after.alpha, after.h, plan.final or plan.first, box)
        fell = objective(work, state.alpha, state.h) - f > min_fall
        still = 0 if fell else state.still + 1
        return replace(after, visited=visited, blocks=state.blocks + 1, still=still, under_way=False)


@dataclass(frozen=True)
class QuantumInvasion(QuantumSolver[EcologyContext, Any]):
    """An ecology around a quantum solver: survivors and invaders are solved block by block on the qubits.

    It extends any quantum solver to more points than a circuit has outcomes (Howell eqs. 9, 17, 28). A block has at
    most ``block`` variables, all others are fixed: its p is p minus their Qα, its d is d minus their eᵀα. The block
    holds all survivors and the variables with the largest gain of a move alone; if there are too many survivors, they
    take turns. The inner solver starts at the present α, with a small weight for the invaders, and runs until it is
    finished; from exact distributions only until the block's gap is 0.3 of the fall of f that the block brought. Its
    measured α is taken as it is, without a line search, an average or a projection. A variable that then has no weight
    is extinct, and its place in the block goes to another.

    The choice of the blocks is classical, and so are h = Qα − p of all variables (n · block kernel entries a block) and
    the classical part of the inner solver; ``cost.classical_share`` is their share of the time. No speed-up is claimed:
    'invasion' and 'working-set' do the same without circuits, faster.

    A run ends after as many blocks without a fall of f (with shots: a fall beyond their noise) as are needed to visit
    all survivors once.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 7 qubits, 126 CX and depth 731 a circuit at n = 256,
    CX the same at every n; by the model, 5,207 T gates a shot.

    Parameters
    ----------
    inner : str, default="variational-flow"
        The solver of the blocks: a name of `dualflow.list_solvers` that runs circuits. It decides which kinds of
        problems this solver takes, if their optima are finite.
    block : int ≥ 2, default=128
        Largest number of variables of a block; 128 need 7 qubits with the variational flow.
    inner_options : dict, optional
        Further options of the inner solver, such as ``{"steps": 20}``.
    device, journal, resend, max_shots, max_qpu_seconds, max_cost, mitigation
        See `QuantumSolver`; they apply to the whole run.
    shots, final_shots : int, optional
        Shots of each circuit, and of the last circuit of every block; "adaptive" is refused.
    shot_budget : int, optional
        Shots of the whole run.

    Raises
    ------
    ProblemError
        An option is out of range, or ``inner`` runs no circuits.
    SolverMismatch
        Raised by `open`: the inner solver does not take the blocks.

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

    state_type: ClassVar[type] = state_type_with(SimplexState)
    _solver: ClassVar[CircuitSolver[Any, Any]]  # set on each instance by __post_init__

    name: ClassVar[str] = "quantum-invasion"
    reaches: ClassVar[str] = "that of the inner solver, block after block"
    kinds = frozenset({Kind.SIMPLEX})
    whole: ClassVar[bool] = False
    certify_every: ClassVar[int] = 1 << 30
    default_max_steps: ClassVar[int] = 20_000

    exact_method: ClassVar[str] = "exact: a block ends when another one promises a larger fall of f"
    sampled_method: ClassVar[str] = "sampled: every block is run to its end, and a fall within the noise counts as none"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._plan.adaptive:
            raise ProblemError("shots='adaptive' is for one run, and every block is one; set a number of shots")
        if not isinstance(self.inner_options, Mapping):
            raise ProblemError(f"inner_options={self.inner_options!r} must be a dict of options of {self.inner!r}")
        object.__setattr__(self, "inner_options", dict(self.inner_options))
        inner = self._inner()
        # The inner solver decides which kinds of problems are taken, how α is read, and the type of the states.
        encoding, states = getattr(inner, "encoding", None), state_type_with(inner.state_type)
        own = {"_solver": inner, "kinds": inner.kinds & BOUNDED, "encoding": encoding, "state_type": states}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __reduce__(self) -> Any:
        # Pickle cannot find `state_type`, which is made at run time, in a module: it keeps the options instead.
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
        inner, some = self._solver, example_block(workspace, self.block)
        inner.check(some, workspace.psd)
        return EcologyContext(
            workspace,
            self.laboratory(problem),
            solver=inner,
            state_type=self.state_type,
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
        return is_finished(state, self.block, self._plan)

    def asks_for_certificate(self, state: Any) -> bool:
        return not state.under_way

    def circuit(self, context: EcologyContext, state: Any) -> ParametricCircuit:
        return self._solver.circuit(context.largest, None if state is None else state.inner)

    def is_noise_dominated(self, context: EcologyContext, state: Any) -> bool:
        return self._solver.is_noise_dominated(context.block(state)[1], state.inner)

    def provenance(self, context: EcologyContext, state: Any) -> dict[str, Any]:
        return super().provenance(context, state) | {
            "inner": self.inner,
            "blocks": state.blocks,
            "block_size": self.block,
            "survivors": int(is_survivor(state.alpha).sum()),
            "visited": int((state.visited > 0).sum()),
            "classical": f"blocks, gradient of all variables, multiplier, and the classical part of {self.inner!r}",
        }
