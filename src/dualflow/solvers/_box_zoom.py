"""What `hamiltonian-descent` and `hamiltonian-adiabatic` share: boxes that follow a mean, and what is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Flag, Number, option
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace
from ..exceptions import ProblemError
from ..quantum.circuits.base import COUNT, POSITIVE
from ..quantum.circuits.split_step import SplitStepCircuit
from ..quantum.devices.bit_order import checking_shots
from ..quantum.engines import box_zoom as engine
from ..quantum.engines.box_zoom import BoxZoomContext, BoxZoomState
from ..quantum.engines.qubo import Qubo, problem_qubo
from .quantum import QuantumSolver

__all__ = ["BoxZoom"]

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
        return engine.start(context, rng, warm)

    def step(self, context: BoxZoomContext, state: BoxZoomState) -> BoxZoomState:
        return engine.step(context, state)

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
        return engine.drowned(context, state)

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
