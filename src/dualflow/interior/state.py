"""What an interior-point iteration carries from step to step."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ..flows.gradient import interior_point

__all__ = ["InteriorState", "inside"]

#: The part of a given start that is kept, and of a bound below which every start is: where the equality wants all
#: variables at their bounds nothing lies inside, and the steps make up for what is missing.
WARM, BELOW = 0.9, 0.99


@dataclass(frozen=True)
class InteriorState:
    """Where the iteration is.

    Attributes
    ----------
    at : array of shape (4, n)
        α, its room u − α, and the multipliers of α ≥ 0 and α ≤ u: all above 0 on the way; at the end α may be at a
        bound, and may be alone.
    w, values : array of shape (r,), array of shape (N,)
        Weights of the features, a variable of its own, and F w; empty in the dense form.
    nu, level : float
        The multipliers ν of eᵀα = d and μ of 1ᵀα = total; 0 where there is no such equality.
    gap : float
        What is left by the iteration's own sums, as a part of |f|.
    best, stalled : float, int
        The least gap so far, and steps since it fell by a tenth.
    largest : float
        The largest q of the last step.
    moved : float
        The part of the last step that the bounds allowed.
    done, exact : bool
        Whether this is the end; and whether bounds are met exactly there.
    within : int array
        The variables that all this is about, of more of them (`Reduced`); none where it is about all.
    rest : array of shape (n,)
        α of the others.
    share : array of shape (len(within),)
        The part of its group that a variable stands for is its inverse, where they are a sample.
    rounds : int
        How often variables have been chosen.
    """

    at: NDArray
    w: NDArray
    values: NDArray
    nu: float
    gap: float = np.inf
    best: float = np.inf
    stalled: int = 0
    largest: float = 0.0
    moved: float = 0.0
    done: bool = False
    exact: bool = False
    within: NDArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    rest: NDArray = field(default_factory=lambda: np.empty(0))
    share: NDArray = field(default_factory=lambda: np.empty(0))
    rounds: int = 0
    level: float = 0.0

    @property
    def alpha(self) -> NDArray:
        """α of the variables that this is about."""
        alpha: NDArray = self.at[0]
        return alpha

    @property
    def everywhere(self) -> NDArray:
        """α of all variables, a copy."""
        if not len(self.within):
            return np.array(self.alpha)
        alpha = np.array(self.rest)
        alpha[self.within] = self.alpha * self.share if len(self.share) else self.alpha
        return alpha


def inside(problem: DualProblem, warm: NDArray | None) -> NDArray:
    """A start within the bounds, shape (n,): as far from them as the equality lets it, or most of ``warm``."""
    alpha = interior_point(problem)
    if warm is not None:
        alpha = WARM * warm + (1.0 - WARM) * alpha
    return np.minimum(alpha, BELOW * problem.upper)
