"""Records of a cascade: of a round, of the result of a pair of classes, and of a pair's state in a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray

from ..core.certificate import Certificate
from ..core.solution import Status
from .exchange import Survivors


@dataclass(frozen=True)
class Round:
    """The record of one round of a cascade.

    Attributes
    ----------
    pair : int
        Number of the pair of classes.
    step : int
        Number of the round, from 1.
    points : int
        Number of points that were solved together.
    survivors : int
        Number of these with weight.
    invaders, violators : int
        Number of points that join the next round, and of all points with a KKT violation above the threshold.
    objective, lower_bound, relative_gap : float
        Certified, over all points of all parts.
    sent, received : int
        Bytes of arrays sent to parts (shared data once for each process) and received.
    wall_time_s : float
        Seconds since the fit began.

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
    """The state of a pair's cascade in a checkpoint: the points of the next pool, and their multipliers.

    All else is read from the parts again. ``closed`` says that there is no next round.
    """

    part: NDArray
    row: NDArray
    alpha: NDArray
    steps: int
    width: float
    own_tol: float
    closed: bool


@dataclass(frozen=True)
class CascadePairResult:
    """The result of a pair's cascade.

    It holds the pool, part by part, its points' weights in the decision function, which are 0 but for survivors, the
    certificate over all points, and the status.
    """

    pool: list[Survivors]
    coefficients: NDArray
    certificate: Certificate
    status: Status
    steps: int
