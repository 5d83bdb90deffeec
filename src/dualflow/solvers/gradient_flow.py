"""The gradient flow of the dual, integrated implicitly to its rest point, or along its path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..core.options import Number, option
from ..core.problem import DualProblem, Kind
from ..core.solver import EVERY_CONVEX
from ..flows.gradient import GradientField
from ..flows.replicator_mutator import ReplicatorMutatorField
from ._flow_solver import FlowSolver


@dataclass(frozen=True)
class GradientFlow(FlowSolver):
    """Gradient flow of the dual on its feasible set, by implicit steps of growing length.

    α̇ = w(g + νe) with ν the exact multiplier, so that eᵀα = d along the path (Bauckhage eq. 3). The default integrator
    steps the replicator-mutator form of the flow with a decreasing mutation (see `dualflow.integrate.implicit`): one
    Cholesky factorisation of Q + diagonal per step, at most 20 steps to relative gap 1e-6 on the benchmarks.

    If the kernel is known to have low rank, K = ZZᵀ with r ≤ n/4 columns (linear, polynomial, given features), no n × n
    matrix is formed: a step takes O(nr²), memory is O(nr), and n may exceed 8000. Provenance says so: "structure" is
    "low rank", "dense", or "products" if a step takes products with Q only. All integrators use it, and follow the same
    path.

    Free variables (least squares) have w = 1: their flow is linear, and an implicit step of any length is one linear
    system. Unless ``time_step`` is given, the first step is as long as float64 allows and ends at the rest point (see
    `dualflow.integrate.free`), for any n: beyond 8000 by conjugate gradients.

    Parameters
    ----------
    integrator : {"implicit", "multiplicative", "RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"}
        "implicit" is for training; the others follow the trajectory, one step of ``time_step`` at a time, and
        approach the rest point slowly.
    time_step : float, optional
        First step length (implicit), or every step's. Default: 100 over the largest drive (implicit; without bounds
        the longest that float64 allows), the longest step with which f cannot rise (multiplicative), 1 (SciPy's).
    growth : float ≥ 1, default=100
        Factor from one implicit step length to the next.
    t_end : float, optional
        Flow time at which to stop.
    mutation : float ≥ 0, default=0
        ε of the replicator-mutator flow for SciPy's methods; implicit steps have a decreasing one of their own.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "gradient-flow", trajectory=True)
    >>> solution.trajectory.survivors[[0, -1]]  # nonzero variables at the start and at the end
    array([4, 2])
    >>> round(solution.certificate.objective, 4), round(solution.bias, 4)
    (-2.0, -3.0)
    """

    mutation: float = option(0.0, Number(at_least=0))

    name: ClassVar[str] = "gradient-flow"
    kinds = EVERY_CONVEX | {Kind.AFFINE}
    reaches: ClassVar[str] = "1e-6 in at most 18 steps for n up to 2000"

    def mismatch(self, problem: DualProblem) -> str | None:
        if problem.kind is not Kind.AFFINE:
            return super().mismatch(problem)
        if self.integrator == "multiplicative":
            return (
                f"{self.name!r}: integrator='multiplicative' steps the logarithms of α, which may have any sign in "
                "problems of kind 'affine'; take integrator='implicit'"
            )
        if self.mutation:
            return f"{self.name!r}: mutation={self.mutation!r} keeps α off bounds, and kind 'affine' has none; set it 0"
        return None

    def field(self, problem: DualProblem) -> GradientField:
        return ReplicatorMutatorField(problem, self.mutation) if self.mutation else GradientField(problem)
