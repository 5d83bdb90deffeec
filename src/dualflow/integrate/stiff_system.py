"""Solution of (Q + D)x = r, D diagonal and positive, by a Cholesky factorisation of a block or of low rank.

**Extinction.** If Dᵢ is much larger than Qᵢᵢ, then xᵢ ≈ rᵢ/Dᵢ: a variable held at a bound by a mutation force much
stiffer than its competition is *extinct* for this step. With S the survivors and E the extinct, block elimination gives

    (Q_SS + D_S) x_S = r_S − Q_SE D_E⁻¹r_E,   x_E = D_E⁻¹(r_E − Q_ES x_S)

if Q_EE is neglected beside D_E, and Q_SE D_E⁻¹Q_ES on the left. For positive semidefinite Q the latter is at most κQ_SS
in the order of quadratic forms, and Q_EE at most κD_E, κ = Σ_E Qᵢᵢ/Dᵢ. The extinct are therefore the largest set with
κ ≤ `_MAX_EXTINCTION_ERROR`, and the error has that relative size in the energy norm, for any condition number. The next
step corrects it, since the gradient is computed with the full Q. D is new at each step: a variable whose fitness turns
positive loses its mutation force and returns to the survivors (invasion).

**Low rank.** If Q = LLᵀ + diag(ridge) with L of shape (n, r), r ≤ n/4, Woodbury's formula needs a factorisation of
shape (r, r) only: O(nr²) a step (Fine and Scheinberg 2001). One step of refinement corrects its cancellation.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ..core.runtime.clock import check_time
from ..refinement.linear_systems import factorise

#: Largest relative error κ from leaving the extinct variables out of the factorisation.
_MAX_EXTINCTION_ERROR = 1e-4
#: Largest rank per n for which the low-rank system is used; at r/n = 1/3 both systems cost about the same.
_MAX_RANK_RATIO = 0.25
#: Largest n for which LAPACK finds the rank in one call; for more, panels allow a look at the clock in between.
_MAX_N_ONE_CALL = 1024
#: Pivots of a panel.
_PANEL_PIVOTS = 256
#: Pivots of a panel below this share of its largest one are left to a later panel: round-off grows by its inverse.
_MIN_PIVOT_RATIO = 1e-6


def low_rank(problem: DualProblem) -> NDArray | None:
    """Return L of shape (n, r) with Q = LLᵀ + diag(ridge) up to round-off, or None if r > n/4 or Q may be indefinite.

    It is one Cholesky factorisation with pivoting, which stops at the rank.
    """
    if not problem.psd.is_psd:
        return None
    Q = problem.dense()
    plain = Q.diagonal() - problem.ridge
    tolerance = 4 * np.finfo(float).eps * len(Q) * float(np.abs(plain).max())
    if len(Q) > _MAX_N_ONE_CALL:
        return _low_rank_by_panels(Q, plain, tolerance)
    A = Q.copy()
    A.flat[:: len(A) + 1] = plain
    factor, pivots, rank, _ = scipy.linalg.lapack.dpstrf(A.T, tol=tolerance, lower=1, overwrite_a=1)
    if rank > _MAX_RANK_RATIO * len(A):
        return None
    L = np.zeros((len(A), rank))
    L[pivots - 1] = np.tril(factor[:, :rank])
    return L


def _low_rank_by_panels(Q: NDArray, plain: NDArray, tolerance: float) -> NDArray | None:
    """Return the L of `low_rank`, computed in panels of the largest pivots with a look at the clock before each."""
    n, rank, max_rank = len(Q), 0, int(_MAX_RANK_RATIO * len(Q))
    L, remaining = np.empty((n, max_rank)), plain.copy()
    while float(remaining.max()) > tolerance:
        check_time()
        J = np.argsort(-remaining, kind="stable")[:_PANEL_PIVOTS]
        columns, within = Q[:, J], np.arange(len(J))
        columns[J, within] = plain[J]
        columns -= L[:, :rank] @ L[J, :rank].T
        min_pivot = max(tolerance, _MIN_PIVOT_RATIO * float(columns[J, within].max()))
        corner, pivots, more, _ = scipy.linalg.lapack.dpstrf(columns[J], tol=min_pivot, lower=1)
        if rank + more > max_rank:
            return None
        remaining[J] = columns[J, within]  # free of the round-off of repeated subtraction
        if more:
            chosen = pivots[:more] - 1
            new = L[:, rank : rank + more]
            new[:] = scipy.linalg.solve_triangular(corner[:more, :more], columns[:, chosen].T, lower=True).T
            remaining -= np.einsum("ij,ij->i", new, new)
            remaining[J[chosen]] = 0.0
            rank += more
    return L[:, :rank].copy()


class StiffSystem:
    """The matrix Q + D, factorised once for many right-hand sides.

    Parameters
    ----------
    Q : array of shape (n, n)
        Symmetric positive semidefinite; not changed.
    D : array of shape (n,)
        Non-negative; ∞ fixes a variable at 0.

    Attributes
    ----------
    survivors : int array of shape (m,)
        Variables whose rows are factorised.

    Raises
    ------
    scipy.linalg.LinAlgError
        Q is indefinite beyond round-off.
    """

    def __init__(self, Q: NDArray, D: NDArray) -> None:
        self.Q, self.D = Q, D
        ratio = np.divide(np.abs(Q.diagonal()), D, out=np.full(len(D), np.inf), where=D > 0)
        order = np.argsort(ratio, kind="stable")
        count = int(np.searchsorted(np.cumsum(ratio[order]), _MAX_EXTINCTION_ERROR, side="right"))
        self.extinct = np.sort(order[:count])
        self.survivors = np.sort(order[count:])
        self.coupling = Q[self.survivors[:, None], self.extinct] if count else None
        self.factor = self._factorise()

    def _factorise(self) -> NDArray:
        """Return the Cholesky factor of the survivors' block, with a shift if round-off makes it indefinite."""
        S = self.survivors
        lift = 0.0
        for _ in range(12):
            A = self.Q.copy() if self.coupling is None else self.Q[S[:, None], S]
            A.flat[:: len(A) + 1] += self.D[S] + lift
            # LAPACK can overwrite the transpose of a symmetric C-ordered array.
            if factorise(A.T):
                return A.T
            lift = max(10 * lift, float(np.finfo(float).eps * np.abs(self.Q).max() * len(self.Q)))
        raise scipy.linalg.LinAlgError("Q is indefinite beyond round-off")

    def solve(self, right: NDArray) -> NDArray:
        """Return x, shape (n,), for one right-hand side of shape (n,)."""
        S, E, coupling = self.survivors, self.extinct, self.coupling
        if coupling is None:
            return scipy.linalg.lapack.dpotrs(self.factor, right, lower=1)[0]
        x = right / self.D
        if len(S):
            x[S] = scipy.linalg.lapack.dpotrs(self.factor, right[S] - coupling @ x[E], lower=1)[0]
            x[E] -= (x[S] @ coupling) / self.D[E]
        return x
