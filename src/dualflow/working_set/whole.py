"""A problem of few variables, solved at once over its whole matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.workspace import Workspace
from ._classes import solve_listed
from ._pairs import solve_pairs
from .units import InUnits

__all__ = [
    "AGAIN",
    "AMONG",
    "END",
    "ENOUGH",
    "FEW_UPDATES",
    "FINITE",
    "LOOKS",
    "NEAR",
    "NEARLY",
    "UPDATES",
    "end_among",
    "nearly_free",
    "solve_among",
    "solve_small_pairs",
    "solve_whole",
]

#: How often pairs begin again with a gradient from scratch; pair updates each time, for a variable; and so few that the
#: gradient keeps its digits.
AGAIN, UPDATES, FEW_UPDATES = 4, 20, 100
#: Variables beyond which pairs are tried for so many updates only: where that is not enough, float32, and a refinement,
#: are faster.
EASY = 640
#: KKT violations to end at, LIBSVM's: that of round-off, where pairs may go round in circles, and one that is enough
#: unless Q is singular and bounds are large.
END, ENOUGH = 1e-13, 1e-12
#: How often few variables begin again with a gradient from scratch; their pair updates between two leaps, for each.
ROUNDS, BETWEEN_LEAPS = 12, 1
#: Who nearly is free, in the KKT violation that is left; how many are brought to their end together, but for the free.
NEAR, AMONG = 3.0, 1024
#: In the place of an infinite bound.
FINITE = 1e300
#: Of a search in float32 over points: the part of a gap wanted up to which its own estimate is taken for the gap; and
#: how often violators that a certificate shows may join.
NEARLY, LOOKS = 0.9, 5


def solve_whole(
    problem: Workspace, alpha: NDArray, tolerance: float, most: int | None = None
) -> tuple[NDArray, float, int]:
    """The optimum from a feasible α, by pairs and leaps in float64.

    Parameters
    ----------
    problem : Workspace
        All its kernel values are taken.
    alpha : array of shape (n,)
    tolerance : float
        KKT violation to end at, in `InUnits`.
    most : int, optional
        Pair updates.

    Returns
    -------
    alpha : array of shape (n,)
    violation : float
        Of the last gradient but for what pairs added to it: what was reached, or where round-off or the limit of
        updates ended it.
    updates : int
        Of pairs.
    """
    everyone, here = np.arange(problem.n), InUnits(problem, alpha, problem.diag())
    M = problem.plain_block(everyone, everyone)
    M *= here.unit / here.slope
    if (here.sign < 0).any():
        M *= here.sign[:, None]
        M *= here.sign
    diag = M.diagonal().copy()
    updates, violation = 0, np.inf
    for _ in range(AGAIN):
        G = M @ here.beta - here.ep
        moved, violation, _ = solve_pairs(
            M,
            everyone,
            len(M),
            G,
            diag,
            here.beta,
            here.low,
            here.high,
            problem.e is not None,
            tolerance,
            UPDATES * len(M) if most is None else min(UPDATES * len(M), most - updates),
        )
        updates += moved
        if moved == 0 or updates == most or (violation <= tolerance and moved < FEW_UPDATES):
            break
    return here.alpha, violation, updates


def nearly_free(free: NDArray, wish: NDArray, margin: float) -> NDArray:
    """Who is free, or at a bound and no further than a multiple of that from wanting to leave it: of these the nearest,
    if they are many."""
    (W,), most = (free | (wish > -NEAR * margin)).nonzero(), max(AMONG, int(np.count_nonzero(free)))
    if len(W) > most:
        W = np.sort(np.argpartition(np.where(free, -np.inf, -wish), most)[:most])
    return W


def solve_among(problem: Workspace, alpha: NDArray, W: NDArray, most: int | None = None) -> tuple[NDArray, float, int]:
    """The optimum over a few variables W, all others as they are, by pairs and leaps in float64.

    Parameters
    ----------
    problem : Workspace
    alpha : array of shape (n,)
        Feasible; those of W that are to be free at the end mostly are.
    W : array of int
    most : int, optional
        Pair updates.

    Returns
    -------
    alpha, violation, updates
        As of `solve_whole`, of W alone.
    """
    if not len(W):
        return alpha, 0.0, 0
    here = InUnits(problem, alpha, problem.diag())
    h = problem.product(alpha, W) - problem.p[W]
    M = problem.plain_block(W, W)
    M *= here.unit / here.slope
    M *= here.sign[W, None]
    M *= here.sign[W]
    beta, low, high, equality = here.beta[W], here.low[W], here.high[W], problem.e is not None
    violation, updates = end_among(M, here.e[W] * h / here.slope, beta, low, high, equality, most)
    here.beta[W] = beta
    return here.alpha, violation, updates


def end_among(
    M: NDArray,
    gradient: NDArray,
    beta: NDArray,
    low: NDArray,
    high: NDArray,
    equality: bool = True,
    most: int | None = None,
) -> tuple[float, int]:
    """Bring β, in place, to the minimum between bounds, from near it: whoever is free leaps, and pairs say who is.

    Parameters
    ----------
    M : array of shape (n, n)
    gradient, beta, low, high : arrays of shape (n,)
    equality : bool
        Whether Σβ stays what it is.
    most : int, optional
        Pair updates.

    Returns
    -------
    violation : float
    updates : int
    """
    rows, diag, start, updates, violation = np.arange(len(M)), M.diagonal().copy(), beta.copy(), 0, np.inf
    for _ in range(ROUNDS):
        limit = max(FEW_UPDATES, BETWEEN_LEAPS * len(M))
        if most is not None and (limit := min(limit, most - updates)) == 0:
            break
        G = gradient + M @ (beta - start)
        moved, violation, _ = solve_pairs(
            M, rows, len(M), G, diag, beta, low, high, equality, ENOUGH, limit, None, True
        )
        updates += moved
        if moved == 0 or (violation <= ENOUGH and moved < FEW_UPDATES):
            break
    return violation, updates


def solve_small_pairs(
    within: NDArray,
    between: NDArray,
    listed: NDArray,
    upper: NDArray,
    sign: float,
    alpha: NDArray,
    begin: int,
    tolerance: float,
    most: int,
    seconds: float,
) -> int:
    """The hinge's optima, with an intercept, for pairs of classes whose kernel values are at hand.

    Parameters
    ----------
    within, between, listed, upper, sign
        See `core._pair_bound.check_listed`; read only.
    alpha : array
        Receives the multipliers.
    begin : int
        Number of the first pair that is to be solved.
    tolerance : float
        KKT violation to end at, LIBSVM's.
    most : int
        Pair updates after which one of more than `EASY` points is given up.
    seconds : float
        After which no other pair is begun.

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
            UPDATES,
            EASY,
            most,
            AGAIN,
            FEW_UPDATES,
            seconds,
        )
    )
