"""Problems of a kernel with few columns, solved by interior-point steps without a run of the driver.

Pair updates crawl where C is large or points nearly lie on a line: the kernel matrix of the free variables is singular,
and each update undoes most of the last one. A step of `interior` takes O(n r²) for r columns, and 5 to 20 steps suffice
for any C.
"""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certifier
from ..core.features import features_of
from ..core.gram import KernelMatrix
from ..core.monomials import rank_by_kernel
from ..core.problem import DualProblem, Kind
from ..core.runtime import clock
from ..core.runtime.arrays import immutable
from ..core.runtime.threads import ONE_THREAD
from ..interior.low_rank import LowRank
from ..interior.reduced import Reduced, can_reduce
from ..refinement.refine import supporting
from .single import CertifiedResult
from .strategy import USUAL, Thresholds
from .whole import certified

#: Feasible sets of the problems that are solved here.
_KINDS = (Kind.BOX, Kind.BOX_EQUALITY)
#: Interior-point steps, at most.
MAX_STEPS = 200
#: With at least this many variables per column, a part of the rows suffices for most steps (`interior.reduced`). With
#: fewer, steps of all rows take 0.2 to 0.5 of the time.
MIN_VARIABLES_PER_COLUMN_REDUCED = 10
#: Kernel entries that pair updates read in a millisecond, which interior-point steps take at least.
ENTRIES_FIXED = 1 << 20
#: An update takes as long as reading this many entries beside its n.
ENTRIES_PER_UPDATE = 128


def rank_of(gram: KernelMatrix, points: int, thresholds: Thresholds = USUAL) -> int:
    """Return the number of columns that suffice for the kernel matrix of a number of points, or 0.

    It is 0 if these are too many columns for interior-point steps.
    """
    rank = rank_by_kernel(gram)
    most = min(thresholds.max_rank_share * points, (thresholds.max_rank_work / points) ** 0.5)
    return 0 if rank is None or rank > most else rank


def suits_low_rank(problem: DualProblem, thresholds: Thresholds = USUAL) -> bool:
    """Whether a problem has bounds on its variables, and a kernel matrix of few columns."""
    has_bounds = problem.kind in _KINDS and not problem.is_hard_margin
    return has_bounds and rank_of(problem.gram, problem.gram.n, thresholds) > 0


def is_low_rank_first(problem: DualProblem, thresholds: Thresholds = USUAL) -> bool:
    """Whether pair updates of a problem that `suits_low_rank` would nearly always take longer."""
    n, rank = problem.n, rank_of(problem.gram, problem.gram.n, thresholds)
    return n > thresholds.max_pair_dense and rank * rank <= thresholds.max_squared_rank_per_variable * n


def updates_like_steps(rank: int, points: int, n: int) -> int:
    """Return the number of pair updates of n variables that take as long as interior-point steps of this rank.

    Measured for ranks of 1 to 426 and 300 to 3500 variables.
    """
    return int((ENTRIES_FIXED + rank * rank * (points + rank / 3)) / (n + ENTRIES_PER_UPDATE))


def interior_minimiser(problem: DualProblem, thresholds: Thresholds = USUAL) -> tuple[NDArray, NDArray | None] | None:
    """Return the minimiser of a centred problem that `suits_low_rank`, and its weights of the features.

    None if steps end in numbers that are not finite; the weights are None where the columns are not the features.
    """
    rank = rank_of(problem.gram, problem.gram.n, thresholds)
    features = features_of(problem.gram, rank)
    assert features is not None
    is_tall = problem.n >= MIN_VARIABLES_PER_COLUMN_REDUCED * rank
    with ONE_THREAD:
        form = (Reduced if is_tall and can_reduce(problem) else LowRank)(problem, features)
        state = form.start(None)
        for _ in range(MAX_STEPS):
            if state.done:
                break
            clock.check_time()
            state = form.step(state)
    alpha = state.everywhere
    if not np.isfinite(alpha).all():
        return None
    return alpha, state.w[:rank] if features.are_points else None


def solve_low_rank(
    problem: DualProblem, gap_tol: float, tol: float, thresholds: Thresholds = USUAL
) -> CertifiedResult | None:
    """Solve and certify a problem that `suits_low_rank`; None if a tolerance is not reached.

    Parameters
    ----------
    problem : DualProblem
    gap_tol : float
        Relative gap that objective and bound as computed have to reach.
    tol : float
        The same with the estimate of rounding errors included.
    thresholds : Thresholds
    """
    begun, posed = time.monotonic(), problem.centred()
    if (minimiser := interior_minimiser(posed, thresholds)) is None:
        return None
    alpha, weights = minimiser
    entries = float(posed.gram.n) * rank_of(posed.gram, posed.gram.n, thresholds)
    found = certified(posed, alpha, None, entries)
    seconds = time.monotonic() - begun
    if found.suffices(gap_tol, tol):
        return found.timed(seconds, 0.0)
    if weights is None:
        return None
    by_weights = ResultByWeights(problem, alpha, weights, seconds)
    certificate = by_weights.certificate
    return by_weights if certificate.within(tol) and certificate.reaches(gap_tol) else None


class ResultByWeights(CertifiedResult):
    """Result of a linear kernel whose bound may be that of weights of the features: α loses digits where C is large.

    Parameters
    ----------
    problem : DualProblem
        As given.
    alpha : array of shape (n,)
        As found.
    weights : array of shape (m,)
    seconds : float
        Seconds spent on the search.
    """

    def __init__(self, problem: DualProblem, alpha: NDArray, weights: NDArray, seconds: float) -> None:
        begun, certifier = time.monotonic(), Certifier(problem)
        certificate = certifier.certify(alpha, primal=weights)
        self.__dict__.update(
            alpha=immutable(alpha),
            certificate=certificate,
            rho=certifier.rho(certificate),
            posed=certifier.problem,
            kernel_columns=float(problem.gram.X.shape[1]),
            seconds=seconds,
            certify_s=time.monotonic() - begun,
        )

    posed: DualProblem
    rho: NDArray

    def support(self, problem: DualProblem) -> NDArray:
        return supporting(self.posed, self.certificate.alpha, self.rho)
