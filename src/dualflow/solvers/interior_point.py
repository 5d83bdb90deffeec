"""The primal-dual interior-point method: Newton steps on the optimality conditions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.features import features_of
from ..core.monomials import rank_by_kernel
from ..core.problem import DualProblem, Kind
from ..core.solver import EVERY_CONVEX, Solver
from ..core.workspace import Workspace
from ..exceptions import SolverMismatch
from ..interior.dense import Affine, Dense
from ..interior.low_rank import EXACT_GAP, LowRank
from ..interior.reduced import Reduced, can_reduce
from ..interior.state import InteriorState

#: A rank of at most this share of the points is low. For higher ranks a factor of Q is cheaper and more accurate.
MAX_RANK_SHARE = 0.25
#: Largest number of columns: a Gram matrix of them takes 32 MB.
MAX_COLUMNS = 2000


@dataclass(frozen=True)
class InteriorPoint(Solver[LowRank | Reduced | Dense | Affine, InteriorState]):
    """Primal-dual interior point: Newton's steps in the dimension of the features where they are few.

    If K = FFᵀ with few columns (linear kernels; polynomials of up to some hundred monomials; kernels whose pivoted
    Cholesky factorisation ends early) a step takes O(n r²) and no n × n matrix, for any n. Otherwise it takes one
    factor of Q, for n up to 4000. There are 10 to 30 steps, for any C and scale of the columns. The last one puts
    variables at their bounds and solves for the others: support vectors are exact.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "interior-point")
    >>> round(solution.certificate.objective, 9), round(solution.bias, 9), solution.support
    (-2.0, -3.0, array([1, 2]))
    """

    state_type: ClassVar[type] = InteriorState

    merges_repeats: ClassVar[bool] = True
    name: ClassVar[str] = "interior-point"
    reaches: ClassVar[str] = "1e-10 in 10 to 30 steps on ordinary data"
    stochastic: ClassVar[bool] = False
    kinds = EVERY_CONVEX | {Kind.AFFINE, Kind.TWO_EQUALITIES}
    accuracy: ClassVar[str] = "exact"
    max_n: ClassVar[int | None] = 4000
    certify_every: ClassVar[int] = 1 << 30
    default_max_steps: ClassVar[int] = 300

    def mismatch(self, problem: DualProblem) -> str | None:
        any_n = problem.kind is Kind.AFFINE or _may_have_low_rank(problem)
        return None if any_n and problem.kind in self.kinds else super().mismatch(problem)

    def open(self, problem: DualProblem, workspace: Workspace) -> LowRank | Reduced | Dense | Affine:
        if problem.kind is Kind.AFFINE:
            return Affine(workspace)
        features = features_of(workspace.gram, min(MAX_COLUMNS, int(MAX_RANK_SHARE * problem.gram.n)))
        if features is not None:
            return (Reduced if can_reduce(workspace) else LowRank)(workspace, features)
        if (reason := super().mismatch(problem)) is not None:
            raise SolverMismatch(f"{reason}; the kernel matrix needs more than {MAX_COLUMNS} columns")
        return Dense(workspace)

    def start(
        self, context: LowRank | Reduced | Dense | Affine, rng: np.random.Generator, warm: NDArray | None = None
    ) -> InteriorState:
        return context.start(warm)

    def step(self, context: LowRank | Reduced | Dense | Affine, state: InteriorState) -> InteriorState:
        return context.step(state)

    def alpha(self, state: InteriorState) -> NDArray:
        return state.everywhere

    def multiplier(self, state: InteriorState) -> float | None:
        return state.nu

    def gradient(self, context: LowRank | Reduced | Dense | Affine, state: InteriorState) -> NDArray | None:
        # A factor that pivoting found has an error of round-off times C: the refinement corrects it, and needs float64.
        if not isinstance(context, (LowRank, Reduced)) or rank_by_kernel(context.problem.gram) is not None:
            return None
        return context.problem.gradient(self.alpha(state))

    def primal(self, context: LowRank | Reduced | Dense | Affine, state: InteriorState) -> NDArray | None:
        if not isinstance(context, (LowRank, Reduced)) or not context.features.are_points:
            return None
        return state.w[: context.features.rank]

    def is_exact(self, state: InteriorState) -> bool:
        # If the last step found no exact bounds, a refinement from as many free variables finds none either.
        return state.done and state.gap <= EXACT_GAP

    def asks_for_certificate(self, state: InteriorState) -> bool:
        return state.done


def _may_have_low_rank(problem: DualProblem) -> bool:
    """Whether the kernel matrix may have low rank; for kernels other than linear and polynomial a run finds out."""
    rank = rank_by_kernel(problem.gram)
    return rank is None or rank <= min(MAX_COLUMNS, MAX_RANK_SHARE * problem.gram.n)
