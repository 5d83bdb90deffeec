"""What a cascade leaves: of each round, of each pair of classes, and in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray

from ..core.certificate import Certificate
from ..core.solution import Status
from .tasks import Survivors

__all__ = ["Ended", "PairState", "Round"]


@dataclass(frozen=True)
class Round:
    """What a round of a cascade came to.

    Attributes
    ----------
    pair : int
        Which pair of classes it is of.
    step : int
        Its number, from 1.
    points : int
        That were solved together.
    survivors : int
        Of them that have weight.
    invaders, violators : int
        Points that join for the next round, and all that violate a condition by more than the tolerance lets them.
    objective, lower_bound, relative_gap : float
        Certified, over all points of all parts.
    sent, received : int
        Bytes of arrays that went to parts, once a process for what all of them need, and that came back.
    wall_time_s : float
        Since the fit began.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import CascadeSVC
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> rounds = CascadeSVC(partitions=3, random_state=0).fit(X, X[:, 0] > 0).rounds_
    >>> rounds[-1].relative_gap <= 1e-3, rounds[-1].points >= rounds[-1].survivors
    (True, True)
    """

    pair: int
    step: int
    points: int
    survivors: int
    invaders: int
    violators: int
    objective: float
    lower_bound: float
    relative_gap: float
    sent: int
    received: int
    wall_time_s: float


@dataclass(frozen=True)
class PairState:
    """Where a pair's cascade is, as a checkpoint has it: which points are solved together next, from which
    multipliers; all else is read from the parts again. ``closed`` says that there is no next."""

    part: NDArray
    row: NDArray
    alpha: NDArray
    steps: int
    width: float
    own_tol: float
    closed: bool


@dataclass(frozen=True)
class Ended:
    """What a pair's cascade came to: the survivors, their weights in the decision function, the certificate over all
    points, and how it ended."""

    survivors: Survivors
    coefficients: NDArray
    certificate: Certificate
    status: Status
    steps: int
