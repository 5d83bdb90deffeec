"""A problem of few variables, solved at once over its whole matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.radial import RadialPoints
from ..core.workspace import Workspace
from ._classes import solve_listed, solve_points
from ._pairs import solve_pairs
from .units import InUnits

__all__ = ["SMALL_ENOUGH", "solve_from_points", "solve_small_pairs", "solve_whole"]

#: How often pairs begin again with a gradient from scratch; pair updates each time, for a variable; and so few that the
#: gradient keeps its digits.
AGAIN, UPDATES, FEW_UPDATES = 4, 20, 100
#: Variables beyond which pairs are tried for so many updates only: where that is not enough, float32, and a refinement,
#: are faster.
EASY, PATIENCE = 640, 4096
#: Points up to which all rows are made if many are asked for; beyond, it is left to others then.
SMALL_ENOUGH = 640
#: What is many: that part of the points, or so many. And where at least half of those that moved are at their bounds,
#: so that few are left to find a value for: so many kernel values, or that part where all are soon made at once.
MANY_ROWS, MANY_OF_MORE, MOST_ROWS, MOST_VALUES = 1 / 4, 400, 2 / 3, 2_500_000
#: In the place of an infinite bound.
FINITE = 1e300


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


def solve_from_points(
    points: RadialPoints, e: NDArray, price: float, upper: NDArray, tolerance: float, alpha: NDArray
) -> tuple[NDArray, float]:
    """The optimum over points of the radial kernel with an equality, by the rows of K that pairs ask for.

    Parameters
    ----------
    points : RadialPoints
        In float64.
    e : array of shape (n,)
        ±1, the labels.
    price : float
        Of each α: f = ½ Σᵢⱼ eᵢeⱼKᵢⱼαᵢαⱼ − price Σᵢ αᵢ.
    upper : array of shape (n,)
    tolerance : float
        KKT violation to end at, LIBSVM's.
    alpha : array of shape (n,)
        Where to begin, feasible; eᵀα stays what it is.

    Returns
    -------
    alpha : array of shape (n,)
    made : float
        Rows that were made, with parts of rows; 0 where it was given up: many were asked for, or many updates, of more
        points than `SMALL_ENOUGH`.
    """
    n, bounds = len(points), np.minimum(upper, FINITE)
    low, beta = np.where(e > 0, 0.0, -bounds), e * alpha
    high = bounds + low
    fills = n <= SMALL_ENOUGH
    limit = UPDATES * n if fills else PATIENCE
    room = min(int(n * MANY_ROWS), MANY_OF_MORE)
    more = int(n * MOST_ROWS) if fills else min(n, MOST_VALUES // n)
    made = solve_points(
        points.points, points.half, price * e, low, high, beta, tolerance, limit, room, more, fills, AGAIN, FEW_UPDATES
    )
    return np.minimum(np.maximum(e * beta, 0.0), upper), float(made)
