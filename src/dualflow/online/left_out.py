"""What is left of an optimum without some of its variables: its linear response, followed until nothing is violated.

At the optimum the free variables S and the multiplier b answer linearly to all else (CP eq. 3 to 7). The matrix of that
answer, the principal pivot of [0 eᵀ; e Q] on S, is made once. A problem without a point differs from the one with it in
a few sets only: who changed sets is a system of so few equations, whose entries stand in that matrix. Violations are
exchanged all at once (block principal pivoting: Portugal, Júdice and Vicente 1994); where that does not lessen them,
as with kernels of low rank, there is no answer here, and the path (`Unlearning`) has to be followed.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.problem import DualProblem
from .bordered import bordered_inverse
from .state import PathError

__all__ = ["LARGEST", "Response"]

#: Variables up to which there is a response: two matrices of so many rows (512 MB each). Beyond, each model without a
#: support vector is a solve of its own, which takes about a hundred times as long.
LARGEST = 8000
#: What is at its bound, as a part of it, and what has no weight, as a part of the largest.
NEAR = 1e-12
#: Exchanges in a row that may leave no fewer violations, and variables that may change sets.
PATIENT, MOST = 3, 128

_EPS = float(np.finfo(float).eps)
_LOW, _FREE, _UP = -1, 0, 1


class Response:
    """The optimum of a problem, and what becomes of it when a variable goes and bounds stretch.

    What it says is a proposal: whoever asks certifies it by a product from scratch.

    Parameters
    ----------
    problem : DualProblem
        Positive semidefinite, with the lower bound 0.
    Q : array of shape (n, n)
        The problem's, whole; only read.
    alpha : array of shape (n,)
        Its optimum.

    Raises
    ------
    PathError
        There is no free variable to answer an equality, or their block is singular.
    """

    def __init__(self, problem: DualProblem, Q: NDArray, alpha: NDArray) -> None:
        e, upper = problem.e, problem.upper
        self.upper = upper
        low = (alpha <= NEAR * float(alpha.max(initial=0.0))) | (upper <= 0)
        up = ~low & (alpha >= upper * (1 - NEAR))
        self.free = ~(low | up)
        S, N = np.flatnonzero(self.free), np.flatnonzero(~self.free)
        m = len(S)
        if e is not None and m == 0:
            raise PathError(PathError.UNBOUNDED)
        inverse = bordered_inverse(Q[np.ix_(S, S)], None if e is None else e[S]) if m else np.zeros((1, 1))
        signs = np.zeros(problem.n) if e is None else e
        border = np.vstack([signs[N], Q[np.ix_(S, N)]])
        answer = inverse @ border
        # Row j: what α of S and ρ of all others become for a unit of α_j, or of ρ_j where j is in S.
        self.rows = rows = np.empty((problem.n, problem.n))
        rows[np.ix_(S, S)], rows[np.ix_(S, N)] = inverse[1:, 1:], answer[1:]
        rows[np.ix_(N, S)] = -answer[1:].T
        rows[np.ix_(N, N)] = Q[np.ix_(N, N)] - border.T @ answer
        self.held = np.where(up, upper, 0.0)
        right = np.concatenate([[problem.d if e is not None else 0.0], problem.p[S]])
        self.base = np.empty(problem.n)
        inside = inverse @ (right - border @ self.held[N])
        self.base[S] = inside[1:]
        self.base[N] = Q[np.ix_(N, N)] @ self.held[N] + border.T @ inside - problem.p[N]
        #: What bounds that stretch by a unit do.
        self.stretch = self.held @ rows
        self.where = np.where(up, _UP, np.where(low, _LOW, _FREE)).astype(np.int8)
        self.dead = upper <= 0
        #: Round-off of ρ and α.
        self.floor = 64 * _EPS * (float(Q.diagonal().max()) * float(alpha.sum()) + float(np.abs(problem.p).max()))
        self.little = NEAR * float(alpha.max(initial=0.0))

    def without(self, gone: int | NDArray, stretch: float = 1.0) -> NDArray | None:
        """The optimum without a variable, or some, shape (n,), all bounds ``stretch`` times as large; None if none is
        found.

        Where the free variables are nearly dependent it is no better than their system is known; the certificate says.
        """
        upper, held, base = self.upper, self.held, self.base
        if stretch != 1.0:
            upper, held, base = stretch * upper, stretch * held, base + (stretch - 1.0) * self.stretch
        # What α of S and ρ of all others may be where they are.
        low = np.where(self.free, -self.little, np.where(self.where == _LOW, -self.floor, -np.inf))
        high = np.where(self.free, upper + self.little, np.where(self.where == _UP, self.floor, np.inf))
        low[self.dead], high[self.dead] = -np.inf, np.inf
        away: list[int] = np.atleast_1d(gone).tolist()
        low[away], high[away] = -np.inf, np.inf
        over = dict.fromkeys(away, _LOW)  # who is elsewhere than in the optimum of all, and where
        least, waited = MOST + 1, 0
        while waited <= PATIENT:
            changed, where = np.fromiter(over, np.intp), np.fromiter(over.values(), np.int8)
            at = np.where(where == _UP, upper[changed], 0.0)
            known = ~self.free[changed] & (where != _FREE)
            here, open_ = base, changed[~known]
            if known.any():
                here = base + (at - held[changed])[known] @ self.rows[changed[known]]
            by = _solved(self.rows, open_, at[~known], here)
            if by is None:
                return None
            found = here + by @ self.rows[open_] if len(open_) else here
            # Those who changed: the free ones' α and the others' ρ.
            moved = np.zeros(len(changed))
            moved[known], moved[~known] = found[changed[known]], by
            entered = ~self.free[changed] & (where == _FREE)
            moved[entered] += held[changed[entered]]
            outside = (found < low) | (found > high)
            outside[changed] = False
            if np.count_nonzero(outside) > MOST:
                return None
            bad = {int(i): self._exchanged(int(i), found[i] > 0) for i in np.flatnonzero(outside)}
            for i, is_at, value in zip(changed.tolist(), where.tolist(), moved.tolist(), strict=True):
                if i in away:
                    continue
                if is_at == _FREE and not -self.little <= value <= upper[i] + self.little:
                    bad[i] = _LOW if value < 0 else _UP
                elif is_at != _FREE and is_at * value > self.floor:
                    bad[i] = _FREE
            if not bad:
                alpha = np.where(self.free, found, held)
                alpha[changed] = np.where(where == _FREE, moved, at)
                return np.clip(alpha, 0.0, upper)
            least, waited = (len(bad), 0) if len(bad) < least else (least, waited + 1)
            for i, place in bad.items():
                over.pop(i, None)
                if place != self.where[i]:
                    over[i] = place
        return None

    def _exchanged(self, i: int, above: bool) -> int:
        """Where a variable goes that is outside of what it may be."""
        return (_UP if above else _LOW) if self.free[i] else _FREE


def _solved(rows: NDArray, J: NDArray, at: NDArray, here: NDArray) -> NDArray | None:
    """What must be given to J for their own answers to be ``at``; None where that is singular to float64."""
    if len(J) > MOST:
        return None
    A = rows[np.ix_(J, J)]
    if len(J) <= 1:
        found: NDArray = (at - here[J]) / A.ravel() if A.all() else np.full(1, np.nan)
    else:
        lu, pivots, info = scipy.linalg.lapack.dgetrf(A.T)
        if info != 0:
            return None
        found, _ = scipy.linalg.lapack.dgetrs(lu, pivots, at - here[J])
    return found if np.isfinite(found).all() else None
