"""Ecology outside, circuits inside: survivors and invaders, a block at a time, by any quantum solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace
from ..exceptions import ProblemError
from ..quantum.circuits import ParametricCircuit
from ..quantum.engines.ecology import EcologyContext, at_rest, first_problem, states_with
from ..quantum.engines.survivors import living
from ..quantum.engines.variational_flow import SimplexState
from .base import BOUNDED
from .quantum import CircuitSolver, QuantumSolver

__all__ = ["QuantumInvasion"]


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
