"""A problem as the compiled loop wants it: of order 1, with one sum in place of the equality."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.problem import Kind
from ..core.workspace import Workspace

__all__ = ["InUnits"]


class InUnits:
    """β = eα/b, G = (Mβ − ep)/s with M = b·diag(e)Q diag(e).

    Without an equality e counts as 1. The units b of α and s of the gradient make M/s of order 1 whatever the scale of
    the kernel, which the constants of the compiled loop rely on; s = 1 for the hinge, so that violations are LIBSVM's.
    """

    def __init__(self, problem: Workspace, alpha: NDArray, diag: NDArray) -> None:
        self.problem = problem
        e = np.ones(problem.n) if problem.e is None else problem.e
        self.e, self.sign = e, e * problem.sigma
        largest = float(diag.max(initial=0.0)) or 1.0
        if problem.kind in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX):
            self.unit, self.slope = problem.d, problem.d * largest
        else:
            self.slope = float(np.abs(problem.p).max(initial=0.0)) or 1.0
            self.unit = self.slope / largest
        # The compiled loop is built for finite numbers: ∞ becomes a bound no step can reach.
        upper = np.minimum(problem.effective_upper / self.unit, 1e300)
        self.low, self.high = np.where(e > 0, 0.0, -upper), np.where(e > 0, upper, 0.0)
        self.beta = np.minimum(np.maximum(e * alpha / self.unit, self.low), self.high)
        self.ep = e * problem.p / self.slope

    @property
    def alpha(self) -> NDArray:
        """α, shape (n,)."""
        # A bound is given back as it came: (u/b)·b may be an ulp off, either way.
        upper = self.problem.effective_upper
        full = np.where(self.e > 0, self.beta >= self.high, self.beta <= self.low)
        return np.where(full, upper, np.minimum(np.maximum(self.e * self.beta * self.unit, 0.0), upper))

    @property
    def is_free(self) -> NDArray:
        """Which variables are at no bound, shape (n,)."""
        return (self.beta > self.low) & (self.beta < self.high)

    def free_ones(self) -> int:
        """How many variables are at no bound."""
        return int(np.count_nonzero(self.is_free))

    @staticmethod
    def middle(top: float, bottom: float) -> float:
        """The multiplier halfway between those that want to rise and to fall most."""
        if np.isfinite(top + bottom):
            return 0.5 * (bottom - top)
        return bottom if np.isfinite(bottom) else -top
