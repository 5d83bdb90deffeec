"""Base of `hamiltonian-descent` and `hamiltonian-adiabatic`: boxes around α that follow a wave packet's mean.

Each step runs one circuit on the box around the present α of a block. The mean of its outcomes, made feasible, is the
next α; it also decides the next box.
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
from ..circuits.base import COUNT_RULE, POSITIVE_RULE
from ..circuits.encoding import bit_table
from ..circuits.split_step import SplitStepCircuit
from ..devices.bit_order import checking_shots
from ..runs.laboratory import Account, Ledger, QuantumContext
from .base import QuantumSolver
from .blocks import Block, block_of, choose_block, move_towards, newton_lengths, pattern_move
from .qubo import Qubo, box_qubo, sample_annealing

#: Transverse field per curvature Qᵢᵢrᵢ². For uncoupled spins it would be 1; coupled spins are stiffer than their linear
#: response, and 0.6 to 0.8 do equally well.
FIELD_PER_CURVATURE = 0.7
#: Half width of a box in Newton steps: within it the mean of the packet is nearly proportional to the slope.
HALF_WIDTH_STEPS = 2.0
#: A mean further from the middle than this share of the half width is at the edge of the box.
EDGE_SHARE = 0.7
#: Smallest factor by which one step narrows a box.
MIN_NARROWING = 0.3
#: Factor of the width if the mean is at the edge and the step goes on in the direction of the last one.
BOX_GROWTH = 1.5
#: Factor of a variable's own width when the packet presses it against its bound.
PRESSED_NARROWING = 0.3
#: Smallest width of such a variable, as a share of the box's width.
MIN_SHARE_PRESSED = 0.1
#: Largest angle of a linear term, in units of the field. Two thirds of it already move a spin's mean to its end.
MAX_FIELD_ANGLE = 4.0
#: Smallest half width as a share of the feasible box, and smallest curvature as a share of the largest: rounding.
MIN_SHARE_ROUNDING = 1e-9
#: A step that moves α by at most this share of the feasible box does not count as a move.
MIN_SHARE_MOVED = 1e-10
#: Step of the multiplier per measured violation, in units of the mean curvature per variable.
MULTIPLIER_STEP = 2.0
#: Blocks from one pattern move to the next.
BLOCKS_PER_PATTERN_MOVE = 3
#: Largest number of qubits of a circuit; the time to simulate it grows as 2^q.
MAX_QUBITS = 20
#: Sweeps over all blocks that a run with shots takes; an exact run ends when circuits have moved nothing for as long.
SAMPLED_SWEEPS = 4
#: Blocks in addition to these sweeps.
SAMPLED_EXTRA_BLOCKS = 2


@dataclass(frozen=True)
class BoxZoomContext(QuantumContext):
    """The circuit of a block of the largest size, and the options of a run.

    If ``reads`` is a number, that many samples of a simulated annealing replace the circuit in every box.
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
    """The box of the next circuit, around the present α of a block."""

    index: NDArray  # variables of the block; int array of shape (m,)
    reach: float  # half width of the box in units of 1/√Qᵢᵢ
    #: Each variable's half width as a share of ``reach``; below 1 if the packet pressed it against a bound; shape (m,).
    held: NDArray
    last: NDArray  # the last circuit's step in units of 1/√Qᵢᵢ; shape (m,)


@dataclass(frozen=True)
class BoxZoomState:
    """The present α, and the data for the next circuit."""

    #: alpha, base: the feasible point, and the one at which the last pattern move ended; shape (n,).
    alpha: NDArray
    base: NDArray
    #: index, held, last, reach: the fields of `Box`.
    index: NDArray
    held: NDArray
    last: NDArray
    reach: float
    multiplier: float  # −ν, ν as in ρ = Qα − p − νe
    #: theta, measured: angles and outcome of the last circuit; empty before the first; shapes (P,) and (2^q,).
    theta: NDArray
    measured: NDArray
    rng: dict[str, Any]  # state of the generator that draws variables into blocks
    account: Account
    #: level, blocks, still: circuits of this block so far, finished blocks, and circuits in a row that did not move α.
    level: int = 0
    blocks: int = 0
    still: int = 0


def start(context: BoxZoomContext, rng: np.random.Generator, warm: NDArray | None) -> BoxZoomState:
    """Return the first state, at the feasible point nearest to 0 or to ``warm``; no circuit is run."""
    problem, nothing = context.workspace, np.empty(0)
    alpha = problem.project(np.zeros(problem.n) if warm is None else np.clip(warm, 0.0, problem.effective_upper))
    # The least-squares multiplier: it minimises the sum of the squared slopes.
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
    """Return the state after one more circuit, whose mean, made feasible, is the block's α."""
    problem, rng = context.workspace, generator(state.rng)
    gradient = problem.gradient(state.alpha)
    slope = gradient if problem.e is None else gradient + state.multiplier * problem.e
    # A block of all variables keeps its box; any other block begins with a new one.
    if state.level == 0 and (state.blocks == 0 or len(state.index) < problem.n):
        lengths = newton_lengths(problem, state.alpha, slope)
        drawn = rng if state.blocks % 2 else None
        index = choose_block(problem, state.alpha, lengths * np.abs(slope), context.block, drawn)
        block = block_of(problem, state.alpha, index, gradient)
        box = first_box(block, state.multiplier)
    else:
        block = block_of(problem, state.alpha, state.index, gradient)
        box = Box(state.index, state.reach, state.held, state.last)
    reader = _Reader(context, state, rng)
    target, violation = reader.mean(block, box, state.multiplier)
    if context.line_search:
        target = move_towards(block, target)[0]
    alpha = state.alpha.copy()
    alpha[block.index] = target
    box = next_box(block, box, target, reader.displacement, context.shrink)
    level, base = state.level + 1, state.base
    ended = level == context.levels
    if ended and context.pattern_moves and (state.blocks + 1) % BLOCKS_PER_PATTERN_MOVE == 0:
        alpha = base = pattern_move(problem, base, alpha)
    moved = float(np.abs(alpha - state.alpha).max())
    return BoxZoomState(
        alpha=alpha,
        base=base,
        index=box.index,
        held=box.held,
        last=box.last,
        reach=box.reach,
        multiplier=state.multiplier + MULTIPLIER_STEP * float(np.diag(block.Q).mean()) / len(block.index) * violation,
        theta=reader.theta,
        measured=reader.measured,
        rng=generator_state(rng),
        account=reader.ledger.account,
        level=0 if ended else level,
        blocks=state.blocks + ended,
        still=state.still + 1 if moved <= MIN_SHARE_MOVED * float(np.max(problem.effective_upper)) else 0,
    )


def first_box(block: Block, multiplier: float) -> Box:
    """Return a block's first box, `HALF_WIDTH_STEPS` times the longest Newton step of a single variable."""
    newton, widest = np.abs(_slope(block, multiplier) * _unit(block)), _widest(block)
    reach = max(min(HALF_WIDTH_STEPS * float(newton.max()), widest), MIN_SHARE_ROUNDING * widest)
    return Box(block.index, reach, np.ones(len(newton)), np.zeros(len(newton)))


def next_box(block: Block, box: Box, point: NDArray, displacement: NDArray, shrink: float) -> Box:
    """Return the next box, whose width follows from the last step.

    If the mean was inside, the half width is `HALF_WIDTH_STEPS` steps. If it was at the edge, the box grows by
    `BOX_GROWTH` when the step goes on in the direction of the last one, and becomes ``shrink`` times as wide when it
    turns back; this also works for outcomes at corners, which are always at the edge. A variable that the packet
    presses against its bound gets a smaller width. The field is the same for all variables, so that its stiffness grows
    with the square of that factor, and its mean stays near its bound.

    Parameters
    ----------
    block, box
        Those of the last circuit.
    point : array of shape (m,)
        The mean, made feasible.
    displacement : array of shape (m,)
        The mean minus the middle of the box, before it was made feasible.
    shrink : float
        Factor of the width if the step turns back.
    """
    unit, widest = _unit(block), _widest(block)
    taken = (point - block.start) / unit
    longest = float(np.abs(taken).max())
    if longest >= EDGE_SHARE * box.reach:
        reach = box.reach * (shrink if taken @ box.last < 0 else BOX_GROWTH)
    else:
        reach = max(min(box.reach, HALF_WIDTH_STEPS * longest), MIN_NARROWING * box.reach)
    pressed = ((point <= 0.0) & (displacement < 0)) | ((point >= block.upper) & (displacement > 0))
    narrowed = np.maximum(PRESSED_NARROWING * box.held, MIN_SHARE_PRESSED)
    held = np.where(pressed, narrowed, np.minimum(2.0 * box.held, 1.0))
    return Box(box.index, min(max(reach, MIN_SHARE_ROUNDING * widest), widest), held, taken)


def box_angles(block: Block, box: Box, multiplier: float, bits: int = 1) -> tuple[Qubo, NDArray]:
    """Return f on the box as a QUBO, and the circuit's angles: its Ising terms in units of the field.

    With x = c + r z', z' = −z from −1 to 1, f is const + h·z + ½ zᵀJz + ½ Σ Qᵢᵢ rᵢ² zᵢ². On the corners z² = 1, and
    the last sum is lost. A spin in a transverse field Γ has the stiffness Γ (−√(1 − z²) Γ = const + ½ Γ z² + …), so
    that a field Γ = Qᵢᵢ rᵢ² restores it. All variables have the same Γ, since the half widths are reach/√Qᵢᵢ.
    """
    half = _half_widths(block, box)
    lower = block.start - half
    qubo = box_qubo(block.Q, _slope(block, multiplier) - block.Q @ block.start, lower, lower + 2.0 * half, bits)
    # The field of the widest variable: a narrower variable is then stiffer than its curvature, and moves less.
    field = FIELD_PER_CURVATURE * float(np.max((half / (box.held * _unit(block))) ** 2))
    theta = qubo.ising() / field
    linear = np.clip(theta[: qubo.n_bits], -MAX_FIELD_ANGLE, MAX_FIELD_ANGLE)
    return qubo, np.concatenate([linear, theta[qubo.n_bits :]])


def _unit(block: Block) -> NDArray:
    """Return 1/√Qᵢᵢ, shape (m,); a variable with Qᵢᵢ = 0 gets the largest curvature of the block."""
    curvature = np.diag(block.Q)
    largest = float(curvature.max(initial=0.0))
    is_curved = curvature > MIN_SHARE_ROUNDING * largest
    return 1.0 / np.sqrt(np.where(is_curved, curvature, largest if largest > 0 else 1.0))


def _widest(block: Block) -> float:
    """Return the largest upper bound in units of 1/√Qᵢᵢ."""
    return float(np.max(block.upper / _unit(block)))


def _half_widths(block: Block, box: Box) -> NDArray:
    """Return the half widths of the variables, no wider than the feasible box, shape (m,)."""
    return np.maximum(np.minimum(box.reach * _unit(block), block.upper), np.finfo(float).tiny) * box.held


def _slope(block: Block, multiplier: float) -> NDArray:
    """Return the gradient of the Lagrangian at the block's start, shape (m,)."""
    slope = block.Q @ block.start + block.g
    return slope if block.e is None else slope + multiplier * block.e


class _Reader:
    """Measures the mean of a box, and keeps angles, outcome, displacement and account of the measurement."""

    def __init__(self, context: BoxZoomContext, state: BoxZoomState, rng: np.random.Generator) -> None:
        self.context, self.rng = context, rng
        self.theta, self.measured, self.displacement = state.theta, state.measured, np.empty(0)
        self.ledger = Ledger(context.lab, state.account)

    def mean(self, block: Block, box: Box, multiplier: float) -> tuple[NDArray, float]:
        """Return the packet's mean made feasible, shape (m,), and eᵀx − d before that."""
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
        self.displacement = mean - block.start
        point = np.clip(mean, 0.0, block.upper)
        if block.e is None:
            return point, 0.0
        return project_onto(mean, np.zeros(len(mean)), block.upper, block.e, block.d), float(block.e @ point - block.d)


@dataclass(frozen=True)
class BoxZoom(QuantumSolver[BoxZoomContext, BoxZoomState]):
    """Base of the solvers whose next α is the mean of a wave packet in a box; a step is one circuit."""

    block: int = option(8, Number(at_least=2, whole=True, note="(one variable alone cannot keep an equality)"))
    levels: int = option(4, COUNT_RULE)
    shrink: float = option(0.5, Number(above=0, below=1))
    trotter_steps: int = option(70, COUNT_RULE)
    total_time: float = option(13.0, POSITIVE_RULE)
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
        "exact: the mean of a box is computed; the run ends when no box moves α any more; the answer is the last α"
    )
    sampled_method: ClassVar[str] = (
        f"sampled: the mean of a box is that of its shots; {SAMPLED_SWEEPS} sweeps over all blocks and "
        f"{SAMPLED_EXTRA_BLOCKS} blocks on top, or as many as the budget or max_blocks says, the answer is the last α"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self._plan.adaptive or self.final_shots is not None:
            found = "shots='adaptive'" if self._plan.adaptive else f"final_shots={self.final_shots!r}"
            raise ProblemError(f"{found}: {self.name!r} takes a fixed number of shots a circuit, and no final circuit")
        if (qubits := self.circuit_of(self.block).n_qubits) > MAX_QUBITS:
            each = f" with bits={self.bits_each}" if self.bits_each > 1 else ""
            raise ProblemError(f"block={self.block!r}{each} needs {qubits} qubits, {MAX_QUBITS} at most; lower block")
        if self.shot_budget is not None and self.shot_budget < self._preparation + (self._plan.first or 0):
            raise ProblemError(
                f"shot_budget={self.shot_budget} does not hold one circuit of {self.shots} shots, and "
                f"{self._preparation} for the calibration; raise it or lower shots"
            )

    @property
    def bits_each(self) -> int:
        """Qubits for each variable."""
        return 1

    @property
    def _preparation(self) -> int:
        """Largest number of shots that calibration and bit-order check take before a block's first circuit."""
        checked = getattr(self.device, "check_bit_order", False)
        return self._calibration + checking_shots(self.block * self.bits_each) * bool(checked)

    def circuit_of(self, variables: int) -> SplitStepCircuit:
        """Return the circuit of a block with the given number of variables."""
        raise NotImplementedError

    def open(self, problem: DualProblem, workspace: Workspace) -> BoxZoomContext:
        lab, circuit = super().open(problem, workspace).lab, self.circuit_of(min(problem.n, self.block))
        lab.device.check(circuit, self._plan.first)  # `start` sends no circuit that would check it
        lab.preparation(circuit, self._plan.first)  # raises if the mitigation does not suit the circuit
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

    def finished(self, state: BoxZoomState) -> bool:
        blocks = -(-len(state.alpha) // self.block)
        limit = SAMPLED_EXTRA_BLOCKS + SAMPLED_SWEEPS * blocks
        if self.shots is not None:
            new = self._preparation if not state.measured.size else 0
            if self._plan.is_exhausted((self._plan.first or 0) + new, state.account, 1):
                return True
        if self.max_blocks is not None:
            return state.blocks >= self.max_blocks
        return state.blocks >= limit if self.shots is not None else state.still >= self.levels * limit

    @property
    def counts_are_fixed(self) -> bool:
        """False with a calibration, whose shots depend on the size of the problem's blocks."""
        return self.shots is not None and self.shot_budget is None and not self._preparation

    def cheaper(self) -> tuple[str, dict[str, Any]] | None:
        return "variational-lotka-volterra", {"shots": self.shots, "mitigation": self.mitigation}

    def circuit(self, context: BoxZoomContext, state: BoxZoomState) -> SplitStepCircuit:
        return context.circuit

    def is_noise_dominated(self, context: BoxZoomContext, state: BoxZoomState) -> bool:
        if not state.measured.size:
            return False
        return context.lab.is_noise_dominated(
            state.account, context.circuit, state.theta, state.measured, context.shots
        )

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
