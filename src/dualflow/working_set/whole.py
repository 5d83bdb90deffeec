"""A problem of few variables, solved at once over its whole matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.workspace import Workspace
from ._classes import solve_listed
from ._pairs import solve_pairs
from .units import InUnits

__all__ = ["AGAIN", "FEW_UPDATES", "FINITE", "UPDATES", "solve_small_pairs", "solve_whole"]

#: How often pairs begin again with a gradient from scratch; pair updates each time, for a variable; and so few that the
#: gradient keeps its digits.
AGAIN, UPDATES, FEW_UPDATES = 4, 20, 100
#: Variables beyond which pairs are tried for so many updates only: where that is not enough, float32, and a refinement,
#: are faster.
EASY = 640
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
