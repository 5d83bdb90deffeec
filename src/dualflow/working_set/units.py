"""A problem in scaled variables, as the compiled loop expects it: of order 1, with Σβ = const as its equality."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.problem import Kind
from ..core.reading import finite_middle
from ..core.runtime.threads import cached_property
from ..core.workspace import Workspace
from ._wishes import scaled, unscaled


class ScaledVariables:
    """Scaled variables β = eα/b with the gradient G = (Mβ − ep)/s, M = b·diag(e)Q diag(e).

    Without an equality e is 1. The units b of α and s of the gradient make M/s of order 1 for any scale of the kernel:
    the constants of the compiled loop rely on it. For the hinge s = 1, so that violations are those of LIBSVM.

    Parameters
    ----------
    problem : Workspace
    alpha : array of shape (n,)
    diag : array of shape (n,)
        Diagonal of Q.

    Attributes
    ----------
    unit, slope : float
        b and s.
    beta, low, high : arrays of shape (n,)
        The scaled variables and their bounds.
    ep : array of shape (n,)
        ep/s.
    sign : array of shape (n,)
        e times the sign of the variable in Q.
    """

    def __init__(self, problem: Workspace, alpha: NDArray, diag: NDArray) -> None:
        self.problem = problem
        self.e = np.ones(problem.n) if problem.e is None else problem.e
        largest = float(diag.max(initial=0.0)) or 1.0
        if problem.kind in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX):
            self.unit, self.slope = problem.d, problem.d * largest
        else:
            self.slope = float(np.abs(problem.p).max(initial=0.0)) or 1.0
            self.unit = self.slope / largest
        parts = problem.sigma, problem.p, problem.effective_upper, alpha, self.unit, self.slope
        self.sign, self.ep, self.low, self.high, self.beta = scaled(self.e, *parts)

    @cached_property
    def max_own_change(self) -> float:
        """The part of the gradient's unit that one variable can move its own gradient by, at most 1.

        On a simplex with upper bounds d is shared by many: a violation far below 1 may decide over most variables.
        """
        return min(1.0, float(self.high.max())) if self.problem.kind is Kind.CAPPED_SIMPLEX else 1.0

    @property
    def alpha(self) -> NDArray:
        """α, shape (n,)."""
        found: NDArray = unscaled(self.e, self.beta, self.low, self.high, self.problem.effective_upper, self.unit)
        return found

    @property
    def is_free(self) -> NDArray:
        """Which variables are at no bound, shape (n,)."""
        return (self.beta > self.low) & (self.beta < self.high)

    def free_count(self) -> int:
        """Return the number of variables at no bound."""
        return int(np.count_nonzero(self.is_free))

    @staticmethod
    def middle(top: float, bottom: float) -> float:
        """Return the multiplier halfway between the two worst violators.

        ``top`` is the largest −G of the variables that can rise, ``bottom`` the largest G of those that can fall.
        """
        return finite_middle((-top, bottom), -top)
