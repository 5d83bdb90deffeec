"""Solving (Q + D)x = r, D diagonal and positive, by one Cholesky factorisation of what has to be factorised.

**Extinction.** Where D is much larger than Q, x is r/D: a species held at a bound by a mutation force that is stiff
beyond its competition is *extinct* for this step. With S the survivors and E the extinct, block elimination gives

    (Q_SS + D_S) x_S = r_S − Q_SE D_E⁻¹r_E,   x_E = D_E⁻¹(r_E − Q_ES x_S)

once Q_EE beside D_E is left out, and with it Q_SE D_E⁻¹Q_ES on the left. For positive semidefinite Q the latter is
at most κQ_SS in the order of quadratic forms, and Q_EE at most κD_E, κ = Σ_E Qᵢᵢ/Dᵢ. So the extinct are the largest
set with κ ≤ `_EXTINCT`, and the error is of that relative size in the energy norm whatever the condition. The next
step sees what is left over, for the gradient is computed with the whole Q. Nobody is extinct for good: D is new at
each step, and a species whose fitness turns positive loses its force, and so returns (invasion).

**Low rank.** Where Q = LLᵀ + diag(ridge) with L of shape (n, r), r ≤ n/4, Woodbury's formula needs a factorisation
of shape (r, r) only: O(nr²) a step (Fine and Scheinberg 2001). Its cancellation is mended by one refinement.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.low_rank import LowRankSystem
from ..core.problem import DualProblem
from ..core.runtime.clock import look
from ..refinement.linear_systems import factorise

__all__ = ["LowRankSystem", "StiffSystem", "low_rank"]

#: Largest relative error κ that leaving the extinct out of the factorisation may make.
_EXTINCT = 1e-4
#: A rank r up to this part of n is low: r/n where both ways cost about the same is 1/3.
_LOW = 0.25
#: Variables up to which LAPACK finds the rank in one call, and pivots at a time beyond.
_AT_ONCE, _PANEL = 1024, 256
#: The part of a panel's largest pivot down to which others are taken: round-off of its columns grows by the inverse.
_DEEP = 1e-6


def low_rank(problem: DualProblem) -> NDArray | None:
    """L of shape (n, r) with Q = LLᵀ + diag(ridge) up to round-off, or None if r > n/4 or Q may be indefinite.

    One Cholesky factorisation with pivoting, which stops at the rank.
    """
    if not problem.psd.is_psd:
        return None
    Q = problem.dense()
    plain = Q.diagonal() - problem.ridge
    tolerance = 4 * np.finfo(float).eps * len(Q) * float(np.abs(plain).max())
    if len(Q) > _AT_ONCE:
        return _low_rank_by_panels(Q, plain, tolerance)
    A = Q.copy()
    A.flat[:: len(A) + 1] = plain
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(A.T, tol=tolerance, lower=1, overwrite_a=1)
    if rank > _LOW * len(A):
        return None
    L = np.zeros((len(A), rank))
    L[pivots - 1] = np.tril(factor[:, :rank])
    return L


def _low_rank_by_panels(Q: NDArray, plain: NDArray, tolerance: float) -> NDArray | None:
    """The same in panels of the largest pivots, which ends where the rank is no longer low, and looks at the clock."""
    n, rank, most = len(Q), 0, int(_LOW * len(Q))
    L, left = np.empty((n, most)), plain.copy()
    while float(left.max()) > tolerance:
        look()
        J = np.argsort(-left, kind="stable")[:_PANEL]
        columns, within = Q[:, J], np.arange(len(J))
        columns[J, within] = plain[J]
        columns -= L[:, :rank] @ L[J, :rank].T
        enough = max(tolerance, _DEEP * float(columns[J, within].max()))
        corner, pivots, more, _ = scipy.linalg.lapack.dpstrf(columns[J], tol=enough, lower=1)
        if rank + more > most:
            return None
        left[J] = columns[J, within]  # without the round-off of what was taken off
        if more:
            chosen = pivots[:more] - 1
            new = L[:, rank : rank + more]
            new[:] = scipy.linalg.solve_triangular(corner[:more, :more], columns[:, chosen].T, lower=True).T
            left -= np.einsum("ij,ij->i", new, new)
            left[J[chosen]] = 0.0
            rank += more
    return L[:, :rank].copy()


class StiffSystem:
    """Q + D, factorised once for many right-hand sides.

    Parameters
    ----------
    Q : array of shape (n, n)
        Symmetric positive semidefinite; not changed.
    D : array of shape (n,)
        Non-negative; ∞ takes a variable out.

    Attributes
    ----------
    survivors : int array of shape (m,)
        The variables whose rows were factorised.

    Raises
    ------
    scipy.linalg.LinAlgError
        Q is indefinite beyond round-off.
    """

    def __init__(self, Q: NDArray, D: NDArray) -> None:
        self.Q, self.D = Q, D
        ratio = np.divide(np.abs(Q.diagonal()), D, out=np.full(len(D), np.inf), where=D > 0)
        order = np.argsort(ratio, kind="stable")
        count = int(np.searchsorted(np.cumsum(ratio[order]), _EXTINCT, side="right"))
        self.extinct = np.sort(order[:count])
        self.survivors = np.sort(order[count:])
        self.coupling = Q[self.survivors[:, None], self.extinct] if count else None
        self.factor = self._factorise()

    def _factorise(self) -> NDArray:
        """Cholesky of the survivors' block, in place, lifted by round-off if need be."""
        S = self.survivors
        lift = 0.0
        for _ in range(12):
            A = self.Q.copy() if self.coupling is None else self.Q[S[:, None], S]
            A.flat[:: len(A) + 1] += self.D[S] + lift
            # The transpose of a symmetric C-ordered array is what LAPACK can overwrite.
            if factorise(A.T):
                return A.T
            lift = max(10 * lift, float(np.finfo(float).eps * np.abs(self.Q).max() * len(self.Q)))
        raise scipy.linalg.LinAlgError("Q is indefinite beyond round-off")

    def solve(self, right: NDArray) -> NDArray:
        """x, shape (n,), for one right-hand side of shape (n,)."""
        S, E, coupling = self.survivors, self.extinct, self.coupling
        if coupling is None:
            return scipy.linalg.lapack.dpotrs(self.factor, right, lower=1)[0]
        x = right / self.D
        if len(S):
            x[S] = scipy.linalg.lapack.dpotrs(self.factor, right[S] - coupling @ x[E], lower=1)[0]
            x[E] -= (x[S] @ coupling) / self.D[E]
        return x
