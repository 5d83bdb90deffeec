"""Problems of few variables, and subproblems of larger ones, solved over their dense matrix in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.workspace import Workspace
from . import _wishes
from ._classes import solve_listed
from ._pairs import solve_pairs
from .units import ScaledVariables

# The pair loop updates its gradient and so accumulates rounding errors: it runs in rounds, each of which starts with a
# gradient computed from scratch.

#: Largest number of rounds over all variables.
MAX_RESTARTS = 4
#: Pair updates per variable in a round.
UPDATES_PER_VARIABLE = 20
#: If a round needs fewer pair updates than this, its gradient is still exact, and the round is the last.
MAX_UPDATES_EXACT = 100
#: With more variables, the pair updates are limited. If these are not enough, float32 and a refinement are faster.
MAX_N_UNLIMITED = 640
#: KKT violation (as LIBSVM defines it) at the level of round-off, where pair updates may cycle.
KKT_TOL_ROUND_OFF = 1e-13
#: KKT violation that suffices unless Q is singular and the bounds are large.
KKT_TOL = 1e-12
#: Largest number of rounds over a subproblem of free and nearly free variables.
MAX_ROUNDS_FREE = 12
#: Pair updates per variable of such a subproblem in a round.
UPDATES_PER_FREE = 1
#: A variable at a bound is nearly free if its KKT slack is less than this many times the remaining violation.
NEARLY_FREE_FACTOR = 3.0
#: A subproblem has at most this many variables, unless more are free.
MAX_NEARLY_FREE = 1024
#: A gap estimated in float32 is trusted if it is at most this share of the requested gap.
TRUSTED_GAP_SHARE = 0.9
#: Times that violators found by a certificate may join the subproblem of a float32 search.
MAX_LOOKS = 5


def solve_dense(
    problem: Workspace, alpha: NDArray, tolerance: float, max_updates: int | None = None
) -> tuple[NDArray, float, int]:
    """Solve a problem over its dense matrix by pair updates and Newton steps in float64.

    Parameters
    ----------
    problem : Workspace
    alpha : array of shape (n,)
        Feasible start.
    tolerance : float
        KKT violation to stop at, in the units of `ScaledVariables`.
    max_updates : int, optional
        Pair updates, at most.

    Returns
    -------
    alpha : array of shape (n,)
    violation : float
        KKT violation by the gradient of the last round; above the tolerance if round-off or ``max_updates`` ended it.
    updates : int
        Pair updates that were made.
    """
    variables, scaled = np.arange(problem.n), ScaledVariables(problem, alpha, problem.diag())
    M = problem.plain_block(variables, variables)
    M *= scaled.unit / scaled.slope
    if (scaled.sign < 0).any():
        M *= scaled.sign[:, None]
        M *= scaled.sign
    diag = M.diagonal().copy()
    updates, violation = 0, np.inf
    for _ in range(MAX_RESTARTS):
        G = M @ scaled.beta - scaled.ep
        limit = UPDATES_PER_VARIABLE * len(M)
        moved, violation, _ = solve_pairs(
            M,
            variables,
            len(M),
            G,
            diag,
            scaled.beta,
            scaled.low,
            scaled.high,
            problem.e is not None,
            tolerance,
            limit if max_updates is None else min(limit, max_updates - updates),
        )
        updates += moved
        if moved == 0 or updates == max_updates or (violation <= tolerance and moved < MAX_UPDATES_EXACT):
            break
    return scaled.alpha, violation, updates


def nearly_free(free: NDArray, excess: NDArray, margin: float) -> NDArray:
    """Return the free variables, and those at bounds with a KKT slack below `NEARLY_FREE_FACTOR` times the margin.

    If these are more than `MAX_NEARLY_FREE`, they are the free ones and those of least slack.

    Parameters
    ----------
    free : bool array of shape (n,)
    excess : array of shape (n,)
        KKT violation of each variable; negative is slack.
    margin : float

    Returns
    -------
    int array
    """
    found: NDArray = _wishes.nearly_free(free.view(np.uint8), excess, NEARLY_FREE_FACTOR * margin, MAX_NEARLY_FREE)
    return found


def solve_subset(
    problem: Workspace, alpha: NDArray, W: NDArray, max_updates: int | None = None, h: NDArray | None = None
) -> tuple[NDArray, float, int]:
    """Optimise over the variables W, with all others fixed, by pair updates and Newton steps in float64.

    Parameters
    ----------
    problem : Workspace
    alpha : array of shape (n,)
        Feasible, and near the optimum: most variables of W that are free at the optimum are free here.
    W : int array
    max_updates : int, optional
        Pair updates, at most.
    h : array of shape (len(W),), optional
        Gradient Qα − p of W, if it is known.

    Returns
    -------
    alpha, violation, updates
        As of `solve_dense`; the violation is that of W alone.
    """
    if not len(W):
        return alpha, 0.0, 0
    scaled = ScaledVariables(problem, alpha, problem.diag())
    h = problem.product(alpha, W) - problem.p[W] if h is None else h
    M = problem.plain_block(W, W)
    M *= scaled.unit / scaled.slope
    M *= scaled.sign[W, None]
    M *= scaled.sign[W]
    beta, low, high, equality = scaled.beta[W], scaled.low[W], scaled.high[W], problem.e is not None
    violation, updates = finish_dense(M, scaled.e[W] * h / scaled.slope, beta, low, high, equality, max_updates)
    scaled.beta[W] = beta
    return scaled.alpha, violation, updates


def solve_nearly_free(problem: Workspace, alpha: NDArray, excess: NDArray) -> NDArray:
    """Return α after pair updates over its free and nearly free variables; the same α if these are too many.

    A refinement crawls where the kernel matrix of neighbours is nearly singular: each round frees the violators, and
    holds most of them again. Pair updates choose among all of them at once.

    Parameters
    ----------
    problem : Workspace
    alpha : array of shape (n,)
        Feasible.
    excess : array of shape (n,)
        KKT violation of each variable; negative is slack.
    """
    free = (alpha > problem.lower) & (alpha < problem.upper)
    if np.count_nonzero(free) >= MAX_NEARLY_FREE:
        return alpha
    W = nearly_free(free, excess, float(excess[~free].max(initial=0.0)))
    return solve_subset(problem, alpha, W)[0]


def finish_dense(
    M: NDArray,
    gradient: NDArray,
    beta: NDArray,
    low: NDArray,
    high: NDArray,
    equality: bool = True,
    max_updates: int | None = None,
) -> tuple[float, int]:
    """Minimise ½βᵀMβ − epᵀβ between bounds, from a β near the minimum, in place.

    The free variables take Newton steps, and pair updates between these decide which variables are free.

    Parameters
    ----------
    M : array of shape (n, n)
    gradient : array of shape (n,)
        Mβ − ep at the β given.
    beta, low, high : arrays of shape (n,)
    equality : bool
        Whether Σβ is fixed.
    max_updates : int, optional
        Pair updates, at most.

    Returns
    -------
    violation : float
    updates : int
    """
    rows, diag, start, updates, violation = np.arange(len(M)), M.diagonal().copy(), beta.copy(), 0, np.inf
    for _ in range(MAX_ROUNDS_FREE):
        limit = max(MAX_UPDATES_EXACT, UPDATES_PER_FREE * len(M))
        if max_updates is not None and (limit := min(limit, max_updates - updates)) == 0:
            break
        G = gradient + M @ (beta - start)
        moved, violation, _ = solve_pairs(
            M, rows, len(M), G, diag, beta, low, high, equality, KKT_TOL, limit, None, True
        )
        updates += moved
        if moved == 0 or (violation <= KKT_TOL and moved < MAX_UPDATES_EXACT):
            break
    return violation, updates


def solve_dense_pairs(
    within: NDArray,
    between: NDArray,
    listed: NDArray,
    upper: NDArray,
    sign: float,
    alpha: NDArray,
    begin: int,
    tolerance: float,
    max_updates: int,
    seconds: float,
    max_n_unlimited: int = MAX_N_UNLIMITED,
) -> int:
    """Solve the hinge's dual with an intercept for pairs of classes whose kernel values are given.

    Parameters
    ----------
    within, between, listed, upper, sign
        See `core._pair_bound.check_listed`; not written to.
    alpha : array
        Receives the multipliers.
    begin : int
        Number of the first pair to solve.
    tolerance : float
        KKT violation to stop at, as LIBSVM defines it.
    max_updates : int
        Pair updates after which a pair of more than ``max_n_unlimited`` points is given up.
    seconds : float
        Time after which no further pair is started.
    max_n_unlimited : int

    Returns
    -------
    int
        Number of the first pair that was not solved.
    """
    return int(
        solve_listed(
            within,
            between,
            listed,
            upper,
            sign,
            alpha,
            begin,
            tolerance,
            UPDATES_PER_VARIABLE,
            max_n_unlimited,
            max_updates,
            MAX_RESTARTS,
            MAX_UPDATES_EXACT,
            seconds,
        )
    )
