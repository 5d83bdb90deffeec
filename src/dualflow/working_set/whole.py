"""A problem of few variables, solved at once over its whole matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ._pairs import solve_pairs
from .units import InUnits

__all__ = ["solve_whole"]

#: How often pairs begin again with a gradient from scratch; pair updates each time, for a variable; and so few that the
#: gradient keeps its digits.
AGAIN, UPDATES, FEW_UPDATES = 4, 20, 100


def solve_whole(
    problem: DualProblem, alpha: NDArray, tolerance: float, block: NDArray | None = None
) -> tuple[NDArray, float, int]:
    """The optimum from a feasible α, by pairs and leaps in float64.

    Parameters
    ----------
    problem : DualProblem
    alpha : array of shape (n,)
    tolerance : float
        KKT violation to end at, in `InUnits`.
    block : array of shape (n, n), optional
        All of Q without its signs, to be written to, if it is at hand.

    Returns
    -------
    alpha : array of shape (n,)
    violation : float
        Of the last gradient but for what pairs added to it: what was reached, or where round-off or the limit of
        updates ended it.
    updates : int
        Of pairs.
    """
    everyone = np.arange(problem.n)
    M = problem.plain_block(everyone, everyone) if block is None else block
    here = InUnits(problem, alpha, problem.diag() if block is None else M.diagonal().copy())
    if here.unit != here.slope:
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
