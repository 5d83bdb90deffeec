"""What `hamiltonian-descent` and `hamiltonian-adiabatic` share: boxes that follow a mean, and what is counted.

Boxes that follow where a wave packet's mean goes, a circuit a step: both box solvers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.options import Flag, Number, option
from ...core.problem import DualProblem, Kind, project_onto
from ...core.runtime.random import generator, generator_state
from ...core.workspace import Workspace
from ...exceptions import ProblemError
from ..circuits.base import COUNT, POSITIVE
from ..circuits.encoding import bit_table
from ..circuits.split_step import SplitStepCircuit
from ..devices.bit_order import checking_shots
from ..runs.laboratory import Account, Ledger, QuantumContext
from .base import QuantumSolver
from .blocks import Block, block_of, choose_block, move_towards, newton_lengths, pattern_move
from .qubo import Qubo, box_qubo, problem_qubo, sample_annealing

__all__ = [
    "FIELD",
    "Box",
    "BoxZoom",
    "BoxZoomContext",
    "BoxZoomState",
    "box_angles",
    "drowned",
    "follow",
    "open_box",
    "start",
    "step",
]


#: The field that stands for the diagonal of Q, as a share of it. One, were the spins free; coupled ones are stiffer
#: than their linear response, and 0.6 to 0.8 do equally well.
FIELD = 0.7
#: Newton lengths that half a box is wide: the mean then stays where the packet answers in proportion.
REACH = 2.0
#: A mean nearer to the middle than this share of the half width narrows the box; no more than this at a time.
NEAR, NARROWEST = 0.7, 0.3
#: What a box grows by whose mean is at its edge, and goes on in the direction of the last.
GROWTH = 1.5
#: Share of the half width that a variable keeps when a circuit presses it against its bound, and the least.
PRESSED, MOST_PRESSED = 0.3, 0.1
#: Largest slope of an angle, in units of the field. Two thirds of it already fill a spin's side of the box.
STEEPEST = 4.0
#: Least half width, as a share of the feasible box's: rounding.
LEAST = 1e-9
#: A circuit that moves α by less than this share of the feasible box has moved nothing.
STILL = 1e-10
#: The multiplier takes so many times the violation that one circuit has measured, in units of the mean curvature.
ASCENT = 2.0
#: Blocks from one pattern move to the next.
PATTERN = 3


@dataclass(frozen=True)
class BoxZoomContext(QuantumContext):
    """What a run works with: the circuit of a whole block, and options.

    Where ``reads`` is a number, so many samples of a simulated annealing stand in for the circuit in every box.
    """

    circuit: SplitStepCircuit
    block: int
    levels: int
    shrink: float
    bits: int
    shots: int | None
    reads: int | None
    line_search: bool
    pattern_moves: bool


@dataclass(frozen=True)
class Box:
    """Where the next circuit looks.

    Attributes
    ----------
    index : array of int, shape (m,)
    reach : float
        Half the box's width in units of 1/√Qᵢᵢ.
    held : array of shape (m,)
        Shares of it that variables keep which are pressed against a bound.
    last : array of shape (m,)
        The last circuit's step in the same units.
    """

    index: NDArray
    reach: float
    held: NDArray
    last: NDArray


@dataclass(frozen=True)
class BoxZoomState:
    """The point that the last wave packet's mean is, and what the next circuit needs to know.

    Attributes
    ----------
    alpha, base : array of shape (n,)
        A feasible point, and where the last pattern move ended.
    index, held, last, reach
        `Box`, as arrays and a number.
    multiplier : float
        −ν, ν as in ρ = Qα − p − νe.
    level, blocks, still : int
        Circuits of this block so far, blocks done, and circuits in a row that moved nothing.
    theta, measured : arrays of shape (P,) and (2^q,)
        Angles and outcome of the last circuit; empty before the first.
    rng : dict
        State of the generator that draws variables into blocks.
    """

    alpha: NDArray
    base: NDArray
    index: NDArray
    held: NDArray
    last: NDArray
    reach: float
    multiplier: float
    theta: NDArray
    measured: NDArray
    rng: dict[str, Any]
    account: Account
    level: int = 0
    blocks: int = 0
    still: int = 0


def start(context: BoxZoomContext, rng: np.random.Generator, warm: NDArray | None) -> BoxZoomState:
    """The feasible point nearest to 0, or to a warm one; no circuit."""
    problem, nothing = context.workspace, np.empty(0)
    alpha = problem.project(np.zeros(problem.n) if warm is None else np.clip(warm, 0.0, problem.effective_upper))
    # The multiplier of least squares: all slopes together as small as it can make them.
    multiplier = 0.0 if problem.e is None else -float(problem.e @ problem.gradient(alpha)) / problem.n
    return BoxZoomState(
        alpha=alpha,
        base=alpha,
        index=np.empty(0, dtype=np.intp),
        held=nothing,
        last=nothing,
        reach=0.0,
        multiplier=multiplier,
        theta=nothing,
        measured=nothing,
        rng=generator_state(rng.spawn(1)[0]),
        account=Account.opened(rng),
    )


def step(context: BoxZoomContext, state: BoxZoomState) -> BoxZoomState:
    """One more circuit: its mean, made feasible, is α."""
    problem, rng = context.workspace, generator(state.rng)
    gradient = problem.gradient(state.alpha)
    slope = gradient if problem.e is None else gradient + state.multiplier * problem.e
    # A block that is the whole problem keeps its box; another begins with a box of its own.
    if state.level == 0 and (state.blocks == 0 or len(state.index) < problem.n):
        lengths = newton_lengths(problem, state.alpha, slope)
        drawn = rng if state.blocks % 2 else None
        index = choose_block(problem, state.alpha, lengths * np.abs(slope), context.block, drawn)
        block = block_of(problem, state.alpha, index, gradient)
        box = open_box(block, state.multiplier)
    else:
        block = block_of(problem, state.alpha, state.index, gradient)
        box = Box(state.index, state.reach, state.held, state.last)
    reader = _Reader(context, state, rng)
    target, violation = reader.mean(block, box, state.multiplier)
    if context.line_search:
        target = move_towards(block, target)[0]
    alpha = state.alpha.copy()
    alpha[block.index] = target
    box = follow(block, box, target, reader.way, context.shrink)
    level, base = state.level + 1, state.base
    ended = level == context.levels
    if ended and context.pattern_moves and (state.blocks + 1) % PATTERN == 0:
        alpha = base = pattern_move(problem, base, alpha)
    moved = float(np.abs(alpha - state.alpha).max())
    return BoxZoomState(
        alpha=alpha,
        base=base,
        index=box.index,
        held=box.held,
        last=box.last,
        reach=box.reach,
        multiplier=state.multiplier + ASCENT * float(np.diag(block.Q).mean()) / len(block.index) * violation,
        theta=reader.theta,
        measured=reader.measured,
        rng=generator_state(rng),
        account=reader.ledger.account,
        level=0 if ended else level,
        blocks=state.blocks + ended,
        still=state.still + 1 if moved <= STILL * float(np.max(problem.effective_upper)) else 0,
    )


def drowned(context: BoxZoomContext, state: BoxZoomState) -> bool:
    """Whether noise has made the last circuit's outcomes as good as uniform."""
    if not state.measured.size:
        return False
    return context.lab.drowned(state.account, context.circuit, state.theta, state.measured, context.shots)


def open_box(block: Block, multiplier: float) -> Box:
    """A block's first box: `REACH` times the longest Newton step of one variable alone."""
    newton, widest = np.abs(_slope(block, multiplier) * _unit(block)), _widest(block)
    reach = max(min(REACH * float(newton.max()), widest), LEAST * widest)
    return Box(block.index, reach, np.ones(len(newton)), np.zeros(len(newton)))


def follow(block: Block, box: Box, point: NDArray, way: NDArray, shrink: float) -> Box:
    """The next box: as wide as `REACH` steps where the mean was well inside; wider or narrower where it was not.

    At the edge the box grows by `GROWTH` if the step goes on in the direction of the last, and becomes ``shrink``
    times as wide if it turns back: so corners, which are always at the edge, find their way too. A variable that the
    packet presses against its bound keeps a share of its width. Its stiffness grows by the square of that, for the
    field is one for all: the others then see it where it is, at its bound.

    Parameters
    ----------
    block, box
        The circuit's.
    point : array of shape (m,)
        The mean, made feasible.
    way : array of shape (m,)
        From the middle of the box to the mean, before that.
    """
    unit, widest = _unit(block), _widest(block)
    taken = (point - block.start) / unit
    longest = float(np.abs(taken).max())
    if longest >= NEAR * box.reach:
        reach = box.reach * (shrink if taken @ box.last < 0 else GROWTH)
    else:
        reach = max(min(box.reach, REACH * longest), NARROWEST * box.reach)
    pressed = ((point <= 0.0) & (way < 0)) | ((point >= block.upper) & (way > 0))
    held = np.where(pressed, np.maximum(PRESSED * box.held, MOST_PRESSED), np.minimum(2.0 * box.held, 1.0))
    return Box(box.index, min(max(reach, LEAST * widest), widest), held, taken)


def box_angles(block: Block, box: Box, multiplier: float, bits: int = 1) -> tuple[Qubo, NDArray]:
    """f on the box around where the block stands, and the circuit's angles: its Ising terms in units of the field.

    With x = c + r z', z' = −z from −1 to 1, f is const + h·z + ½ zᵀJz + ½ Σ Qᵢᵢ rᵢ² zᵢ². On the corners z² = 1, and
    the last sum is lost. A spin in a transverse field Γ has the stiffness Γ (−√(1 − z²) Γ = const + ½ Γ z² + …), so
    that a field Γ = Qᵢᵢ rᵢ² gives it back. It is one number for all, since the widths are reach/√Qᵢᵢ.
    """
    half = _half(block, box)
    lower = block.start - half
    qubo = box_qubo(block.Q, _slope(block, multiplier) - block.Q @ block.start, lower, lower + 2.0 * half, bits)
    # The widest of all: a narrower one is stiffer than its curvature, and moves less.
    field = FIELD * float(np.max((half / (box.held * _unit(block))) ** 2))
    theta = qubo.ising() / field
    return qubo, np.concatenate([np.clip(theta[: qubo.n_bits], -STEEPEST, STEEPEST), theta[qubo.n_bits :]])


def _unit(block: Block) -> NDArray:
    """1/√Qᵢᵢ; a variable without curvature of its own counts as one of the largest."""
    curvature = np.diag(block.Q)
    largest = float(curvature.max(initial=0.0))
    return 1.0 / np.sqrt(np.where(curvature > LEAST * largest, curvature, largest if largest > 0 else 1.0))


def _widest(block: Block) -> float:
    return float(np.max(block.upper / _unit(block)))


def _half(block: Block, box: Box) -> NDArray:
    """Half widths: no wider than the feasible box."""
    return np.maximum(np.minimum(box.reach * _unit(block), block.upper), np.finfo(float).tiny) * box.held


def _slope(block: Block, multiplier: float) -> NDArray:
    slope = block.Q @ block.start + block.g
    return slope if block.e is None else slope + multiplier * block.e


class _Reader:
    """Reads a box."""

    def __init__(self, context: BoxZoomContext, state: BoxZoomState, rng: np.random.Generator) -> None:
        self.context, self.rng = context, rng
        self.theta, self.measured, self.way = state.theta, state.measured, np.empty(0)
        self.ledger = Ledger(context.lab, state.account)

    def mean(self, block: Block, box: Box, multiplier: float) -> tuple[NDArray, float]:
        """The packet's mean position made feasible, shape (m,), and how far it was from the equality before."""
        context = self.context
        qubo, theta = box_angles(block, box, multiplier, context.bits)
        if context.reads is not None:
            bits = sample_annealing(qubo, context.reads, int(self.rng.integers(2**31)))
        else:
            self.theta = theta
            circuit = replace(context.circuit, n_qubits=qubo.n_bits)
            self.measured = self.ledger.measure(circuit, theta, context.shots)
            bits = self.measured @ bit_table(qubo.n_bits)
        mean = qubo.decode(bits)
        self.way = mean - block.start
        point = np.clip(mean, 0.0, block.upper)
        if block.e is None:
            return point, 0.0
        return project_onto(mean, np.zeros(len(mean)), block.upper, block.e, block.d), float(block.e @ point - block.d)


#: Most qubits of a circuit.
MOST_QUBITS = 20
#: Sweeps over all blocks, and blocks on top, that a run with shots takes; an exact run may move nothing so long.
SAMPLED_SWEEPS, SAMPLED_BLOCKS = 4, 2


@dataclass(frozen=True)
class BoxZoom(QuantumSolver[BoxZoomContext, BoxZoomState]):
    """Base of the solvers that take the mean of a wave packet in a box for the next point; a step is one circuit."""

    block: int = option(8, Number(at_least=2, whole=True, note="(one variable alone cannot keep an equality)"))
    levels: int = option(4, COUNT)
    shrink: float = option(0.5, Number(above=0, below=1))
    trotter_steps: int = option(70, COUNT)
    total_time: float = option(13.0, POSITIVE)
    max_blocks: int | None = option(None, Number(at_least=1, whole=True, powers=True, none=True))
    line_search: bool = option(False, Flag())
    pattern_moves: bool = option(False, Flag())

    state_type: ClassVar[type] = BoxZoomState
    kinds = frozenset({Kind.BOX, Kind.BOX_EQUALITY, Kind.CAPPED_SIMPLEX})
    encoding: ClassVar[str | None] = "box"
    own_controls: ClassVar[tuple[str, ...]] = ("control:corner", "control:field")
    maturity: ClassVar[str] = "study"
    max_n: ClassVar[int | None] = 128
    reaches: ClassVar[str] = "excess 1e-3 at n = 8, 1e-2 at n = 16; a classical mean field as well"
    default_max_steps: ClassVar[int] = 5000
    renamed: ClassVar[Mapping[str, str]] = {"steps": "trotter_steps"}

    exact_method: ClassVar[str] = (
        "exact: the mean of a box is computed; boxes go on until none moves α any more; the answer is the last α"
    )
    sampled_method: ClassVar[str] = (
        f"sampled: the mean of a box is that of its shots; {SAMPLED_SWEEPS} sweeps over all blocks and "
        f"{SAMPLED_BLOCKS} blocks on top, or as many as the budget or max_blocks says, the answer is the last α"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._plan.adaptive or self.final_shots is not None:
            found = "shots='adaptive'" if self._plan.adaptive else f"final_shots={self.final_shots!r}"
            raise ProblemError(f"{found}: {self.name!r} takes a fixed number of shots a circuit, and no final circuit")
        if (qubits := self.circuit_of(self.block).n_qubits) > MOST_QUBITS:
            each = f" with bits={self.bits_each}" if self.bits_each > 1 else ""
            raise ProblemError(f"block={self.block!r}{each} asks for {qubits} qubits; {MOST_QUBITS} at most")
        if self.shot_budget is not None and self.shot_budget < self._preparation + (self._plan.first or 0):
            raise ProblemError(
                f"shot_budget={self.shot_budget} does not hold one circuit of {self.shots} shots, and "
                f"{self._preparation} for the calibration; raise it or ask for fewer shots"
            )

    @property
    def bits_each(self) -> int:
        """Qubits a variable."""
        return 1

    @property
    def _preparation(self) -> int:
        """Shots that go before the first of a block's circuits, at most."""
        checked = getattr(self.device, "check_bit_order", False)
        return self._calibration + checking_shots(self.block * self.bits_each) * bool(checked)

    def circuit_of(self, variables: int) -> SplitStepCircuit:
        """The circuit of a block of so many variables."""
        raise NotImplementedError

    def open(self, problem: DualProblem, workspace: Workspace) -> BoxZoomContext:
        lab, circuit = super().open(problem, workspace).lab, self.circuit_of(min(problem.n, self.block))
        lab.device.check(circuit, self._plan.first)  # no circuit is sent before the first step
        lab.preparation(circuit, self._plan.first)  # refuses a mitigation that is not for these circuits
        return BoxZoomContext(
            workspace,
            lab,
            circuit,
            block=self.block,
            levels=self.levels,
            shrink=self.shrink,
            bits=self.bits_each,
            shots=self._plan.first,
            reads=None,
            line_search=self.line_search,
            pattern_moves=self.pattern_moves,
        )

    def start(self, context: BoxZoomContext, rng: np.random.Generator, warm: NDArray | None = None) -> BoxZoomState:
        return start(context, rng, warm)

    def step(self, context: BoxZoomContext, state: BoxZoomState) -> BoxZoomState:
        return step(context, state)

    def alpha(self, state: BoxZoomState) -> NDArray:
        return state.alpha

    def finished(self, state: BoxZoomState) -> bool:
        blocks = -(-len(state.alpha) // self.block)
        most = SAMPLED_BLOCKS + SAMPLED_SWEEPS * blocks
        if self.shots is not None:
            new = self._preparation if not state.measured.size else 0
            if self._plan.exhausted((self._plan.first or 0) + new, state.account, 1):
                return True
        if self.max_blocks is not None:
            return state.blocks >= self.max_blocks
        return state.blocks >= most if self.shots is not None else state.still >= self.levels * most

    @property
    def counts_are_fixed(self) -> bool:
        """The calibration is one of the block's size, which the problem decides."""
        return self.shots is not None and self.shot_budget is None and not self._preparation

    def cheaper(self) -> tuple[str, dict[str, Any]] | None:
        return "variational-lotka-volterra", {"shots": self.shots, "mitigation": self.mitigation}

    def circuit(self, context: BoxZoomContext, state: BoxZoomState) -> SplitStepCircuit:
        return context.circuit

    def drowned(self, context: BoxZoomContext, state: BoxZoomState) -> bool:
        return drowned(context, state)

    def provenance(self, context: BoxZoomContext, state: BoxZoomState) -> dict[str, Any]:
        circuit = context.circuit
        helpers = ["line search"] * self.line_search + ["pattern moves"] * self.pattern_moves
        return super().provenance(context, state) | {
            "blocks": state.blocks,
            "block_size": circuit.n_qubits // self.bits_each,
            "cx_gates": circuit.cx_gates,
            "trotter_steps": circuit.trotter_steps,
            "classical": ", ".join(["blocks", "widths of boxes", "multiplier", "projection", *helpers]),
        }

    def to_qubo(self, problem: DualProblem, penalty: float | None = None) -> Qubo:
        """f on the grid of the whole feasible box as a QUBO, the equality by ½ penalty (eᵀα − d)².

        The first box of the first level, for annealers and for comparison; it knows α on a coarse grid only.

        Parameters
        ----------
        problem : DualProblem
        penalty : float ≥ 0, optional
            The mean of Qᵢᵢ by default.

        Raises
        ------
        SolverMismatch
            The solver does not take this problem.
        ProblemError
            ``penalty`` is out of range.
        """
        self.check(problem)
        Number(at_least=0, none=True, note="for the mean of Qᵢᵢ").check("penalty", penalty)
        return problem_qubo(problem, self.bits_each, penalty)
