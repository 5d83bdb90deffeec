"""A problem of few variables, solved at once over its whole matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.workspace import Workspace
from ._pairs import solve_blocks, solve_pairs
from .units import InUnits

__all__ = ["solve_pair", "solve_whole"]

#: How often pairs begin again with a gradient from scratch; pair updates each time, for a variable; and so few that the
#: gradient keeps its digits.
AGAIN, UPDATES, FEW_UPDATES = 4, 20, 100


def solve_whole(problem: Workspace, alpha: NDArray, tolerance: float) -> tuple[NDArray, float, int]:
    """The optimum from a feasible α, by pairs and leaps in float64.

    Parameters
    ----------
    problem : Workspace
        All its kernel values are taken.
    alpha : array of shape (n,)
    tolerance : float
        KKT violation to end at, in `InUnits`.

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
            UPDATES * len(M),
        )
        updates += moved
        if moved == 0 or (violation <= tolerance and moved < FEW_UPDATES):
            break
    return here.alpha, violation, updates


def solve_pair(
    signs: NDArray,
    upper: NDArray,
    first: NDArray,
    between: NDArray,
    second: NDArray,
    room: NDArray,
    tolerance: float,
) -> NDArray:
    """The hinge's optimum, with an intercept, for a pair of classes whose kernel values are at hand.

    Parameters
    ----------
    signs, upper : arrays of shape (n,)
        Labels ±1, and finite bounds.
    first, between, second : arrays of shape (m, m), (m, n − m) and (n − m, n − m)
        Kernel values within the first m points, between them and the others, and within the others; read only.
    room : array of shape (n, n)
        To work in.
    tolerance : float
        KKT violation to end at, LIBSVM's.

    Returns
    -------
    alpha : array of shape (n,)
    """
    n = len(signs)
    # β = yα/b with b one over the largest Kᵢᵢ, see `InUnits`; the compiled loop wants finite numbers.
    unit = 1.0 / (max(float(first.diagonal().max()), float(second.diagonal().max())) or 1.0)
    beta, bound = np.zeros(n), signs * (np.minimum(upper, 1e300 * unit) / unit)
    low, high = np.minimum(bound, 0.0), np.maximum(bound, 0.0)
    solve_blocks(first, between, second, unit, room, beta, low, high, signs, tolerance, UPDATES * n, AGAIN, FEW_UPDATES)
    # A bound is given back as it came: (u/b)·b may be an ulp off.
    alpha: NDArray = np.minimum(np.maximum(signs * beta * unit, 0.0), upper)
    return alpha
