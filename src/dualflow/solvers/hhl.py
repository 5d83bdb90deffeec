"""The least-squares SVM as a linear system, solved by phase estimation (a study)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace
from ..quantum.circuits import HHLCircuit
from ..quantum.engines.hhl import MOST_CLOCK, HHLContext, Inversion, clock_for, invert, make_system
from ..quantum.runs.laboratory import Account
from .quantum import CircuitSolver

__all__ = ["HHL"]


@dataclass(frozen=True)
class HHL(CircuitSolver[HHLContext, Inversion]):
    """Least-squares SVM by phase estimation: eigenvalues inverted on one ancilla (a study).

    Another model than the SVM of the other solvers: every point has weight, and a bound could not be kept. It solves
    `problems.least_squares` and `problems.discriminant` alone. Harrow, Hassidim, Lloyd, PRL 103, 150502 (2009), for the
    SVM Rebentrost, Mohseni, Lloyd, PRL 113, 130503 (2014); here the equality is eliminated instead of bordered
    (`quantum.linear_system`), the exponential is a dense matrix written out in gates, and right sides are prepared from
    numbers. Two circuits and it rests: one shows |αᵢ| and, by its success probability, the norm; one shifted by a known
    reference shows the signs.

    Classical: Q, its extreme eigenvalues, exp(2πiA·2^k), the second right side (a product with Q), in all O(n³): more
    than the solution costs. Post-selected: the ancilla in 1, the clock in 0, with a probability of order 1/κ² at
    worst. A clock of t qubits costs about 2t·4^s CX, s = ⌈log₂ n⌉ (counted on the circuit as written out in gates), and
    reading n numbers takes of order n/ε² accepted shots. On a fault-tolerant machine, with Q in a quantum memory or
    sparse, the cost can be made linear in κ up to logarithms (Childs, Kothari, Somma, SIAM J. Comput. 46, 1920 (2017));
    for a kernel of low rank, classical sampling does as much up to polynomials (Chia et al., J. ACM 69, 33 (2022)). No
    advantage is claimed.

    Moons and digits (1 against 4), n = 15, RBF, C = 10: κ = 34 and 18, 9 and 8 clock qubits, direction error 0.03 and
    0.04 %, 5962 and 4690 CX a circuit, success 12 and 0.6 %, of the second circuits 0.9 and 0.3 %. Sampled, the median
    direction error would be 0.8 and 2.8 % at 10⁶ shots a circuit, 5 and 13 % at 10⁵. Distributions must therefore be
    exact here: there is no option ``shots``.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 14 qubits, 5,958 CX and depth 26,409 a circuit at n =
    16, CX growing as n^1.7; 2 circuits a run, the same at every n; by the model, 9.6e5 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
        Any device of `dualflow.list_devices` that gives exact distributions.
    journal : str or Path, optional
        As for every solver that runs circuits (`CircuitSolver`).
    clock : int in 1…12, optional
        Clock qubits t. By default the fewest, at least 6, that put the smallest eigenvalue at reading 8 or above: the
        direction error, of order (readings)⁻², is then below 1 %.

    Raises
    ------
    ProblemError
        An option is out of range, or Q is singular or needs more than 12 clock qubits.
    DeviceError
        The device is not known, or failed.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.least_squares(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=1.0)
    >>> found, exact = (solve(problem, name).alpha for name in ("hhl", "cvxopt"))
    >>> bool(found @ exact >= 0.99 * np.linalg.norm(found) * np.linalg.norm(exact))  # the direction of α
    True
    """

    clock: int | None = option(None, Number(at_least=1, at_most=MOST_CLOCK, whole=True, none=True))

    state_type: ClassVar[type] = Inversion

    name: ClassVar[str] = "hhl"
    reaches: ClassVar[str] = "1e-4, the direction of α within 1 %; exact distributions only"
    kinds = frozenset({Kind.AFFINE})
    maturity: ClassVar[str] = "study"
    max_n: ClassVar[int | None] = 16
    default_max_steps: ClassVar[int] = 2
    exact_method: ClassVar[str] = "exact: |α| by one circuit, signs by a second one"
    without_shots: ClassVar[str] = "reads exact distributions; leave shots out"

    def open(self, problem: DualProblem, workspace: Workspace) -> HHLContext:
        lab, system = super().open(problem, workspace).lab, make_system(workspace)
        t = clock_for(system.condition) if self.clock is None else int(self.clock)
        return HHLContext(workspace, lab, system, system.circuit(system.b, t) if system.b.any() else None)

    @property
    def counts_are_fixed(self) -> bool:
        return True

    def start(self, context: HHLContext, rng: np.random.Generator, warm: NDArray | None = None) -> Inversion:
        """α = 0, or a warm start, which no circuit makes use of."""
        alpha = np.zeros(context.workspace.n) if warm is None else warm
        return Inversion(alpha, np.zeros(2), np.empty(0), False, Account.opened(rng))

    def step(self, context: HHLContext, state: Inversion) -> Inversion:
        return state if state.done else invert(context, state)

    def alpha(self, state: Inversion) -> NDArray:
        return state.alpha

    def finished(self, state: Inversion) -> bool:
        return state.done

    def circuit(self, context: HHLContext, state: Inversion) -> HHLCircuit:
        assert context.circuit is not None  # nothing below asks where no circuit runs
        return context.circuit

    def drowned(self, context: HHLContext, state: Inversion) -> bool:
        if context.circuit is None or not state.measured.size:
            return False
        return context.lab.drowned(state.account, context.circuit, np.empty(0), state.measured, None)

    def cost(self, context: HHLContext, state: Inversion) -> dict[str, Any]:
        if context.circuit is None:
            return {}
        success = float(state.success[0]) if state.done else None
        return super().cost(context, state) | {"success_probability": success}

    def provenance(self, context: HHLContext, state: Inversion) -> dict[str, Any]:
        circuit, about = context.circuit, {"device": context.lab.device.identity, "method": self.how, "circuit": None}
        if circuit is not None:
            about = super().provenance(context, state)
        return about | {
            "clock": None if circuit is None else circuit.n_clock,
            "condition": context.system.condition,
            "success_probabilities": state.success.tolist(),
            "signs": "from a second circuit, its solution shifted by a known reference",
        }
