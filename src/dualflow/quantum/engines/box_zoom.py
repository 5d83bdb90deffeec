"""Boxes that shrink around what circuits see of f in them, a block of variables a step: both box solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.certificate import Certifier
from ...core.seeds import generator, generator_state
from ..circuits.encoding import bit_table
from ..circuits.split_step import SplitStepCircuit
from ..runs.laboratory import Account, Ledger, QuantumContext
from .blocks import Block, block_of, choose_block, first_widths, move_towards, newton_lengths, pattern_move
from .qubo import Qubo, box_qubo, sample_annealing

__all__ = ["BoxZoomContext", "BoxZoomState", "drowned", "lagrangian", "start", "step", "zoom"]

#: Newton lengths that a block's first box is wide, at most and at least: halved after a block that disappoints,
#: doubled after one that does not.
LARGEST_REACH, LEAST_REACH = 8.0, 0.25
#: A block disappoints if f falls by less than this share of what its best variable alone promised.
DISAPPOINTING = 0.3
#: Blocks from one pattern move to the next.
PATTERN = 3


@dataclass(frozen=True)
class BoxZoomContext(QuantumContext):
    """What a run works with: the circuit of a whole block, a certifier for the multiplier, and options.

    Where ``reads`` is a number, so many samples of a simulated annealing stand in for the circuit in every box.
    """

    certifier: Certifier
    circuit: SplitStepCircuit
    block: int
    levels: int
    shrink: float
    bits: int
    shots: int | None
    reads: int | None

    def circuit_of(self, qubits: int) -> SplitStepCircuit:
        """Of a block of so many qubits."""
        return replace(self.circuit, n_qubits=qubits)


@dataclass(frozen=True)
class BoxZoomState:
    """The point that blocks move, and what the next one needs to know.

    Attributes
    ----------
    alpha, base : array of shape (n,)
        A feasible point, and where the last pattern move ended.
    reach : float
        Newton lengths that the next block's first box is wide.
    disappointments, blocks : int
        Blocks in a row that took little off f, and blocks moved so far.
    theta, measured : arrays of shape (P,) and (2^q,)
        Angles and outcome of the last circuit; empty before the first.
    rng : dict
        State of the generator that draws variables into blocks.
    """

    alpha: NDArray
    base: NDArray
    theta: NDArray
    measured: NDArray
    rng: dict[str, Any]
    account: Account
    reach: float = LARGEST_REACH
    disappointments: int = 0
    blocks: int = 0


def start(context: BoxZoomContext, rng: np.random.Generator, warm: NDArray | None) -> BoxZoomState:
    """The feasible point nearest to 0, or to a warm one; no circuit."""
    problem, nothing = context.workspace, np.empty(0)
    alpha = problem.project(np.zeros(problem.n) if warm is None else np.clip(warm, 0.0, problem.effective_upper))
    return BoxZoomState(
        alpha=alpha,
        base=alpha,
        theta=nothing,
        measured=nothing,
        rng=generator_state(rng.spawn(1)[0]),
        account=Account.opened(rng),
    )


def step(context: BoxZoomContext, state: BoxZoomState) -> BoxZoomState:
    """One more block."""
    problem, rng = context.workspace, generator(state.rng)
    gradient = problem.gradient(state.alpha)
    nu = 0.0 if problem.e is None else context.certifier.certify(state.alpha).multiplier or 0.0
    slope = gradient if problem.e is None else gradient - nu * problem.e
    lengths = newton_lengths(problem, state.alpha, slope)
    score = lengths * np.abs(slope)
    # After a disappointment, every other block is of another size and half of it drawn: what stalls one does not
    # stall all.
    mixed = bool(state.disappointments % 2)
    size = int(rng.integers(2, context.block + 1)) if mixed else context.block
    chosen = choose_block(problem, state.alpha, score, size, rng if mixed else None)
    block = block_of(problem, state.alpha, chosen, gradient)
    reader = _Reader(context, state, rng)
    widths = first_widths(block, lengths[block.index], slope[block.index], state.reach)
    target = zoom(block, widths, -nu, context.levels, context.shrink, context.bits, reader.means)
    moved, fall = move_towards(block, target)
    alpha, base = state.alpha.copy(), state.base
    alpha[block.index] = moved
    if (state.blocks + 1) % PATTERN == 0:
        alpha = base = pattern_move(problem, base, alpha)
    disappointing = fall <= DISAPPOINTING * 0.5 * float(score[block.index].max())
    return BoxZoomState(
        alpha=alpha,
        base=base,
        reach=max(LEAST_REACH, 0.5 * state.reach) if disappointing else min(LARGEST_REACH, 2.0 * state.reach),
        disappointments=state.disappointments + 1 if disappointing else 0,
        blocks=state.blocks + 1,
        theta=reader.theta,
        measured=reader.measured,
        rng=generator_state(rng),
        account=reader.ledger.account,
    )


def drowned(context: BoxZoomContext, state: BoxZoomState) -> bool:
    """Whether noise has made the last circuit's outcomes as good as uniform."""
    if not state.measured.size:
        return False
    circuit = context.circuit_of((len(state.measured) - 1).bit_length())
    return context.lab.drowned(state.account, circuit, state.theta, state.measured, context.shots)


class _Reader:
    """Reads the boxes of one block."""

    def __init__(self, context: BoxZoomContext, state: BoxZoomState, rng: np.random.Generator) -> None:
        self.context, self.rng = context, rng
        self.theta, self.measured = state.theta, state.measured
        self.ledger = Ledger(context.lab, state.account)

    def means(self, qubo: Qubo) -> NDArray:
        """Means of the bits, shape (q,)."""
        context = self.context
        if context.reads is not None:
            return sample_annealing(qubo, context.reads, int(self.rng.integers(2**31)))
        # Only differences of f matter, in units of their own spread: Ising terms are orthonormal on the grid.
        theta = qubo.ising()
        spread = float(np.linalg.norm(theta))
        self.theta = theta / spread if spread > 0 else theta
        circuit = context.circuit_of(qubo.n_bits)
        self.measured = self.ledger.measure(circuit, self.theta, context.shots)
        return self.measured @ bit_table(qubo.n_bits)


def lagrangian(block: Block, multiplier: float, penalty: float) -> tuple[NDArray, NDArray]:
    """A and g of f + multiplier (eᵀx − d) + ½ penalty (eᵀx − d)² = ½ xᵀAx + gᵀx + const."""
    if block.e is None:
        return block.Q, block.g
    shifted = block.g + (multiplier - penalty * block.d) * block.e
    return block.Q + penalty * np.outer(block.e, block.e), shifted


def zoom(
    block: Block,
    widths: NDArray,
    multiplier: float,
    levels: int,
    shrink: float,
    bits: int,
    measure: Callable[[Qubo], NDArray],
) -> NDArray:
    """The means of the last of ``levels`` boxes, shape (m,); inside the bounds, the equality met nearly.

    Each box has the mean measured in the one before it, clipped to the bounds, as its centre, and is ``shrink`` times
    as wide. It may reach over the bounds: pushed inside, its middle would point away from them, and uniform outcomes
    would go downhill by what the widths know. As it is, a device that says nothing moves nothing. After each the
    multiplier takes the violation of the mean: the augmented Lagrangian of Hestenes and Powell.

    Parameters
    ----------
    block : Block
    widths : array of shape (m,)
        Of the first box.
    multiplier : float
        −ν to begin with, ν as in ρ = Qα − p − νe.
    measure : callable
        Means of the bits, shape (q,), for a QUBO.
    """
    centre = block.start
    penalty = float(np.diag(block.Q).mean())
    for _ in range(levels):
        lower = centre - 0.5 * widths
        A, g = lagrangian(block, multiplier, penalty)
        qubo = box_qubo(A, g, lower, lower + widths, bits)
        centre = np.clip(qubo.decode(measure(qubo)), 0.0, block.upper)
        if block.e is not None:
            multiplier += penalty * float(block.e @ centre - block.d)
        widths = shrink * widths
    return centre
