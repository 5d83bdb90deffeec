"""The default solver: blocks of variables, solved by a compiled pair loop."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Flag, Number, option
from ..core.problem import DualProblem
from ..core.solution import MAX_GAP_UNREFINED, DirectResult
from ..core.solver import EVERY_CONVEX, Solver
from ..core.workspace import Workspace
from ..direct.pairs import solve_directly
from ..refinement.refine import MAX_N_REFINED
from ..working_set.coordinates import Coordinates, suits_coordinates
from ..working_set.descent import Descent
from ..working_set.state import WorkingSetState


@dataclass(frozen=True)
class WorkingSet(Solver[Descent | Coordinates, WorkingSetState]):
    """Block decomposition: many points start from a quarter of them, recursively; second-order SMO in compiled blocks.

    A block has all free variables, if they fit, and the worst violators. Within a block pairs are chosen by the
    second-order rule (Fan, Chen, Lin 2005) over float32 kernel rows, which are made on demand (radial kernels of up to
    256 features; for others blocks of 512 variables are computed first). If few variables are free, these also take
    Newton steps together from time to time, so that ill-conditioned problems (large C) do not crawl. After a block the
    gradient of the other variables is updated, except that of shrunk variables, whose multipliers are far from changing
    sign: these are checked when the violation has fallen to a tenth, and before the end. Below a KKT violation of 1e-3
    (LIBSVM's default) and a relative gap of 5e-5 float32 cannot identify violators, and float64 is used. A refinement
    that follows takes over earlier: see ``hand_over``.

    Sparse points with a linear kernel, 500 variables and more, need no kernel rows: each variable is a block of its
    own, and its gradient is a product of its point with w (`dualflow.working_set.coordinates`), unless ``kkt_tol`` or
    ``max_updates`` is given. In the provenance ``blocks`` is "coordinates" then.

    Parameters
    ----------
    gap_tol : float > 0, optional
        Estimated relative gap at which the run ends. By default half of the driver's ``tol``.
    kkt_tol : float > 0, optional
        KKT violation at which the run ends, required beside the gap, in units of the gradient (of the largest Qᵢᵢ on
        the simplex). It is not required if the gap is a hundredth of its tolerance. If no gap exists (Q not positive
        semidefinite) the violation alone decides, with 1e-3 by default.
    hand_over : bool, optional
        End where a refinement is faster than further updates: at gap 3e-3 with violation 1e-3 (1e-2 and 3e-3 where
        blocks are computed first), or at gap 3e-2 after 10 pair updates per variable (5 if few variables at bounds
        violate); on the simplex at gap 0.01. If few variables are free (at most 500), these are finished in float64 to
        violation 1e-12 instead, and there is nothing to refine. Small problems (512 variables, 1536 on the simplex) are
        in float64 from the start, to violation 1e-13. By default True if a refinement follows (``refine``) and neither
        tolerance is given.
    max_updates : int, optional
        Pair updates after which the run ends: LIBSVM's ``max_iter``. The number made is in
        ``Solution.extras["updates"]`` then.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "working-set")
    >>> round(solution.certificate.objective, 6), round(solution.bias, 6)  # −½‖w‖² with w = 2, and b
    (-2.0, -3.0)
    """

    gap_tol: float | None = option(None, Number(above=0, none=True, infinite=True))
    kkt_tol: float | None = option(None, Number(above=0, none=True, infinite=True))
    hand_over: bool | None = option(None, Flag(none=True))
    max_updates: int | None = option(None, Number(at_least=1, whole=True, none=True))

    state_type: ClassVar[type] = WorkingSetState

    name: ClassVar[str] = "working-set"
    reaches: ClassVar[str] = "the requested tolerance"
    stochastic: ClassVar[bool] = False
    kinds = EVERY_CONVEX
    needs_psd: ClassVar[bool] = False
    merges_repeats: ClassVar[bool] = True
    certify_every: ClassVar[int] = 1 << 30
    default_max_steps: ClassVar[int] = 20_000

    def solve_directly(self, problem: DualProblem, tol: float, refine: bool) -> DirectResult | None:
        if (self.gap_tol, self.kkt_tol, self.hand_over, self.max_updates) != (None, None, None, None):
            return None  # these options define where a run ends
        if problem.gram.kernel == "linear" and suits_coordinates(problem):
            return None
        return solve_directly(problem, tol, refine)

    def aim(self, tol: float, hand_over: bool = False) -> WorkingSet:
        if self.hand_over is not None:
            hand_over = self.hand_over
        elif self.gap_tol is not None or self.kkt_tol is not None:
            hand_over = False
        return replace(self, hand_over=hand_over, gap_tol=0.5 * tol if self.gap_tol is None else self.gap_tol)

    def within(self, iterations: int) -> tuple[WorkingSet, None]:
        return replace(self, max_updates=iterations), None

    def open(self, problem: DualProblem, workspace: Workspace) -> Descent | Coordinates:
        tol = self.gap_tol
        if tol is not None and self.kkt_tol is None and self.max_updates is None and suits_coordinates(problem):
            # If a refinement would follow: these rounds reach its accuracy in less time.
            refines = self.hand_over and problem.n <= MAX_N_REFINED
            return Coordinates(workspace, min(tol, 0.5 * MAX_GAP_UNREFINED) if refines else tol)
        return Descent(workspace, self.gap_tol, self.kkt_tol, bool(self.hand_over), self.max_updates)

    def start(
        self, context: Descent | Coordinates, rng: np.random.Generator, warm: NDArray | None = None
    ) -> WorkingSetState:
        return context.start(warm)

    def step(self, context: Descent | Coordinates, state: WorkingSetState) -> WorkingSetState:
        return context.step(state)

    def gradient(self, context: Descent | Coordinates, state: WorkingSetState) -> NDArray | None:
        return context.gradient(state)

    def extras(self, context: Descent | Coordinates, state: WorkingSetState) -> dict[str, NDArray]:
        return {} if self.max_updates is None else {"updates": np.array([state.updates])}

    def provenance(self, context: Descent | Coordinates, state: WorkingSetState) -> dict[str, Any]:
        if isinstance(context, Coordinates):
            return {"blocks": "coordinates", "strategy": "coordinates"}
        return {"strategy": context.strategy(state)}

    def wants_whole(self, context: Descent | Coordinates, state: WorkingSetState) -> bool:
        return context.wants_whole(state)

    def is_exact(self, state: WorkingSetState) -> bool:
        return state.done and state.offered

    def asks_for_certificate(self, state: WorkingSetState) -> bool:
        return state.offered and self.kkt_tol is None
