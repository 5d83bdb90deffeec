"""What `hamiltonian-descent` and `hamiltonian-adiabatic` share: blocks, boxes that shrink, and the classical rest."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import certify
from ..core.problem import DualProblem, Kind
from ..exceptions import ProblemError
from ..quantum.circuits.encoding import bit_table
from ..quantum.circuits.split_step import SplitStepCircuit
from ..quantum.devices import Device
from ..quantum.engines.box_zoom import (
    block_of,
    choose_block,
    first_widths,
    move_towards,
    newton_lengths,
    pattern_move,
    zoom,
)
from ..quantum.engines.qubo import Qubo, box_qubo
from ..quantum.runs.laboratory import Account, Laboratory, open_account
from .base import generator, generator_state
from .quantum import QuantumSolver

__all__ = ["BoxZoom", "BoxZoomState"]

#: Most qubits of a circuit.
MOST_QUBITS = 20
#: Newton lengths that a block's first box is wide, at most and at least: halved after a block that disappoints,
#: doubled after one that does not.
LARGEST_REACH, LEAST_REACH = 8.0, 0.25
#: A block disappoints if f falls by less than this share of what its best variable alone promised.
DISAPPOINTING = 0.3
#: Blocks in a row that disappoint before an exact run rests, over two sweeps.
PATIENCE = 200
#: Blocks from one pattern move to the next.
PATTERN = 3
#: Sweeps of a run with shots, over two blocks.
SAMPLED_SWEEPS = 4


@dataclass(frozen=True)
class BoxZoomState:
    """The point that blocks move, and what the next one needs to know.

    Attributes
    ----------
    alpha : array of shape (n,)
        Feasible.
    base : array of shape (n,)
        Where the last pattern move ended.
    reach : float
        Newton lengths that the next block's first box is wide.
    disappointments : int
        Blocks in a row that took little off f.
    blocks : int
        Blocks moved so far.
    theta, measured : arrays of shape (P,) and (2^q,)
        Angles and outcome of the last circuit.
    rng : dict
        State of the generator that draws variables into blocks.
    account : dict
        Circuits, shots, seconds and jobs so far (`quantum.runs.laboratory`).
    lab
        Made again by `BoxZoom.start`.
    """

    alpha: NDArray
    base: NDArray
    reach: float
    disappointments: int
    blocks: int
    theta: NDArray
    measured: NDArray
    rng: dict[str, Any]
    account: Account
    lab: Laboratory = field(repr=False, metadata={"saved": False})


@dataclass(frozen=True)
class BoxZoom(QuantumSolver):
    """Base of the solvers that see f on the corners of small boxes; a step is one block of variables."""

    device: str | Device = "emulator"
    block: int = 8
    levels: int = 8
    shrink: float = 0.5
    steps: int = 50
    total_time: float = 5.0
    max_blocks: int | None = None

    kinds = frozenset({Kind.BOX, Kind.BOX_EQUALITY, Kind.CAPPED_SIMPLEX})
    encoding: ClassVar[str | None] = "box"
    max_n: ClassVar[int | None] = 128
    default_max_steps: ClassVar[int] = 5000

    def __post_init__(self) -> None:
        super().__post_init__()
        for option in ("block", "levels", "steps", "max_blocks"):
            value = getattr(self, option)
            if value is None and option == "max_blocks":
                continue
            if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
                raise ProblemError(f"{option}={value!r} must be an integer ≥ 1")
        if isinstance(self.shrink, bool) or not isinstance(self.shrink, Real) or not 0 < self.shrink < 1:
            raise ProblemError(f"shrink={self.shrink!r} must be a number between 0 and 1")
        if self._plan.adaptive or self.final_shots is not None:
            found = "shots='adaptive'" if self._plan.adaptive else f"final_shots={self.final_shots!r}"
            raise ProblemError(f"{found}: {self.name!r} takes a fixed number of shots a circuit, and no final circuit")
        if self.block < 2:
            raise ProblemError(f"block={self.block!r} must be ≥ 2: one variable alone cannot keep an equality")
        if self.block * self.bits_each > MOST_QUBITS:
            each = f" with bits={self.bits_each}" if self.bits_each > 1 else ""
            raise ProblemError(
                f"block={self.block!r}{each} asks for {self.block * self.bits_each} qubits; {MOST_QUBITS} at most"
            )
        if self.shot_budget is not None and self.shot_budget < self._calibration + self.levels * int(self.shots or 0):
            raise ProblemError(
                f"shot_budget={self.shot_budget} does not hold one block: levels={self.levels} circuits of "
                f"{self.shots} shots, and {self._calibration} for the calibration; raise it or ask for fewer shots"
            )
        self.circuit_of(2)  # refuses steps and times that are out of range

    @property
    def bits_each(self) -> int:
        """Qubits a variable."""
        return 1

    def circuit_of(self, variables: int) -> SplitStepCircuit:
        """The circuit of a block of so many variables."""
        raise NotImplementedError

    # --- the solver ----------------------------------------------------------------------------

    def start(self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None) -> BoxZoomState:
        problem.dense()  # before any product: with Q at hand products round differently, and runs are repeatable
        upper = problem.effective_upper
        alpha = problem.project(np.zeros(problem.n)) if warm is None else problem.project(np.clip(warm, 0.0, upper))
        circuit = self._circuit(problem.n)
        return BoxZoomState(
            alpha=alpha,
            base=alpha,
            reach=LARGEST_REACH,
            disappointments=0,
            blocks=0,
            theta=np.zeros(circuit.n_parameters),
            measured=np.empty(0),
            account=open_account(rng),
            rng=generator_state(rng.spawn(1)[0]),
            lab=self._laboratory(),
        )

    def step(self, problem: DualProblem, state: BoxZoomState) -> BoxZoomState:
        rng, account = generator(state.rng), state.account
        gradient = problem.gradient(state.alpha)
        nu = 0.0 if problem.e is None else certify(problem, state.alpha).multiplier or 0.0
        slope = gradient if problem.e is None else gradient - nu * problem.e
        lengths = newton_lengths(problem, state.alpha, slope)
        score = lengths * np.abs(slope)
        # After a disappointment, every other block is of another size and half of it drawn: what stalls one does not
        # stall all.
        mixed = bool(state.disappointments % 2)
        size = int(rng.integers(min(2, self.block), self.block + 1)) if mixed else self.block
        chosen = choose_block(problem, state.alpha, score, size, rng if mixed else None)
        block = block_of(problem, state.alpha, chosen, gradient)
        last = state.theta, state.measured

        def measure(qubo: Qubo) -> NDArray:
            nonlocal account, last
            means, theta, measured, account = self._means(state.lab, account, qubo, rng)
            last = theta, measured
            return means

        widths = first_widths(block, lengths[block.index], slope[block.index], state.reach)
        target = zoom(block, widths, -nu, self.levels, self.shrink, self.bits_each, measure)
        moved, fall = move_towards(block, target)
        alpha = state.alpha.copy()
        alpha[block.index] = moved
        base = state.base
        if (state.blocks + 1) % PATTERN == 0:
            alpha = pattern_move(problem, base, alpha)
            base = alpha
        disappointing = fall <= DISAPPOINTING * 0.5 * float(score[block.index].max())
        reach = max(LEAST_REACH, 0.5 * state.reach) if disappointing else min(LARGEST_REACH, 2.0 * state.reach)
        return replace(
            state,
            alpha=alpha,
            base=base,
            reach=reach,
            disappointments=state.disappointments + 1 if disappointing else 0,
            blocks=state.blocks + 1,
            theta=last[0],
            measured=last[1],
            rng=generator_state(rng),
            account=account,
        )

    def _means(
        self, lab: Laboratory, account: Account, qubo: Qubo, rng: np.random.Generator
    ) -> tuple[NDArray, NDArray, NDArray, Account]:
        """Means of the bits, the angles, the distribution they were read from, and the account."""
        # Only differences of f matter, in units of their own spread: Ising terms are orthonormal on the grid.
        theta = qubo.ising()
        spread = float(np.linalg.norm(theta))
        theta = theta / spread if spread > 0 else theta
        shots = None if self.shots is None else int(self.shots)
        circuit = self.circuit_of(qubo.n_bits // self.bits_each)
        measured, account = lab.measure(account, circuit, theta, shots)
        return measured @ bit_table(qubo.n_bits), theta, measured, account

    def alpha(self, state: BoxZoomState) -> NDArray:
        return state.alpha

    def finished(self, state: BoxZoomState) -> bool:
        sweep = -(-len(state.alpha) // self.block)
        plan, account = self._plan, state.account
        if self.shots is not None:
            # A block of another size is another circuit, and is calibrated anew.
            new = self._calibration if state.blocks == 0 or state.disappointments % 2 else 0
            if plan.exhausted(int(self.shots) * self.levels + new, account, 1):
                return True
        if self.max_blocks is not None:
            return state.blocks >= self.max_blocks
        if self.shots is not None:
            return state.blocks >= 2 + SAMPLED_SWEEPS * sweep
        return state.disappointments >= PATIENCE + 2 * sweep

    def blank(self, problem: DualProblem) -> BoxZoomState:
        return self.start(problem, np.random.default_rng(0))

    # --- what is said of a run -----------------------------------------------------------------

    def _circuit(self, n: int) -> SplitStepCircuit:
        return self.circuit_of(min(n, self.block))

    def circuit(self, state: BoxZoomState) -> SplitStepCircuit:
        return self._circuit(len(state.alpha))

    def drowned(self, state: BoxZoomState) -> bool:
        if not state.measured.size:
            return False
        shots = None if self.shots is None else int(self.shots)
        circuit = self.circuit_of((len(state.measured) - 1).bit_length() // self.bits_each)
        return state.lab.drowned(state.account, circuit, state.theta, state.measured, shots)

    def provenance(self, state: BoxZoomState) -> dict[str, Any]:
        circuit = self.circuit(state)
        about = {
            "blocks": state.blocks,
            "block_size": circuit.n_qubits // self.bits_each,
            "cx_gates": circuit.cx_gates,
            "strang_steps": circuit.steps,
            "classical": "choice of blocks and boxes, multiplier, projection, line searches",
        }
        return super().provenance(state) | about

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
        number = penalty is None or (isinstance(penalty, Real) and not isinstance(penalty, bool))
        if not number or (penalty is not None and not 0 <= penalty < np.inf):
            raise ProblemError(f"penalty={penalty!r} must be a finite number ≥ 0, or None for the mean of Qᵢᵢ")
        Q, upper = problem.dense(), problem.effective_upper
        penalty = float(problem.diag().mean()) if penalty is None else penalty
        if problem.e is None:
            return box_qubo(Q, -problem.p, np.zeros(problem.n), upper, self.bits_each)
        A, g = Q + penalty * np.outer(problem.e, problem.e), -problem.p - penalty * problem.d * problem.e
        qubo = box_qubo(A, g, np.zeros(problem.n), upper, self.bits_each)
        return replace(qubo, offset=qubo.offset + 0.5 * penalty * problem.d**2)
