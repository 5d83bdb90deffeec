"""The state of an interior-point iteration, and its start."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ..flows.gradient import interior_point

#: A given start has this weight in its mixture with the interior point.
WARM_SHARE = 0.9
#: Every start is at most this share of its upper bounds. If the equality needs all variables at their bounds, the start
#: violates it, and the steps correct that.
MAX_BOUND_SHARE = 0.99
#: The iteration ends at this relative gap by its own sums.
CONVERGED_GAP = 1e-11
#: The iteration ends after this many steps without progress.
MAX_STALLED = 40
#: Below this relative gap, round-off may prevent progress.
NEAR_GAP = 1e-8
#: Below that gap, the iteration ends after this many steps without progress.
MAX_STALLED_NEAR = 4


def has_ended(gap: float, stalled: int) -> bool:
    """Whether an iteration ends at this relative gap, after ``stalled`` steps without progress."""
    is_stuck = stalled > (MAX_STALLED if gap > NEAR_GAP else MAX_STALLED_NEAR)
    return gap <= CONVERGED_GAP or is_stuck or not np.isfinite(gap)


@dataclass(frozen=True)
class InteriorState:
    """State of the iteration."""

    #: α, its room u − α, and the multipliers of α ≥ 0 and α ≤ u. All are positive until the end, when α may be at a
    #: bound and the only row. Shape (4, n).
    at: NDArray
    #: w, values: weights of the features, an independent variable, and F w; empty in the dense form; shapes (r,) and
    #: (N,).
    w: NDArray
    values: NDArray
    #: nu, level: the multipliers ν of eᵀα = d and μ of 1ᵀα = total; 0 without such an equality.
    nu: float
    gap: float = np.inf  # relative gap by the iteration's own sums
    #: best, stalled: the least gap so far, and steps since it fell by a tenth.
    best: float = np.inf
    stalled: int = 0
    largest: float = 0.0  # the largest q of the last step
    moved: float = 0.0  # the part of the last step that the bounds allowed
    #: done, exact: whether the iteration has ended, and whether α is exact at its bounds.
    done: bool = False
    exact: bool = False
    #: The variables of the state, if it is over a part of them (`Reduced`); else empty; int array.
    within: NDArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    rest: NDArray = field(default_factory=lambda: np.empty(0))  # α of the other variables; shape (n,)
    #: If the variables are a sample: the part of its group that was sampled, for each variable; shape (len(within),).
    share: NDArray = field(default_factory=lambda: np.empty(0))
    #: The part of Fᵀσα of the other variables; shape (r,).
    fixed_rows: NDArray = field(default_factory=lambda: np.empty(0))
    rounds: int = 0  # times that variables have been chosen
    #: δ of the next step of the relaxation (`Reduced`); 0 if the next step is one along the central path.
    delta: float = 0.0
    #: Centre of that step, of the variables of the state; shape (k,).
    center: NDArray = field(default_factory=lambda: np.empty(0))
    centers: int = 0  # number of centres so far that were an α before; -1 once the relaxation has failed
    level: float = 0.0
    tried: float = np.inf  # the gap at which exact bounds were tried last

    @property
    def alpha(self) -> NDArray:
        """α of the state's variables."""
        alpha: NDArray = self.at[0]
        return alpha

    def changed(self, **fields: Any) -> InteriorState:
        """Return the state with other values of some fields; `dataclasses.replace` takes six times as long."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **fields)
        return other

    @property
    def everywhere(self) -> NDArray:
        """A copy of α of all variables."""
        if not len(self.within):
            return np.array(self.alpha)
        alpha = np.array(self.rest)
        alpha[self.within] = self.alpha * self.share if len(self.share) else self.alpha
        return alpha


def inside(problem: DualProblem, warm: NDArray | None) -> NDArray:
    """Return a start between the bounds, shape (n,): as far from them as the equality allows, or mostly ``warm``."""
    alpha = interior_point(problem)
    if warm is not None:
        alpha = WARM_SHARE * warm + (1.0 - WARM_SHARE) * alpha
    return np.minimum(alpha, MAX_BOUND_SHARE * problem.upper)
