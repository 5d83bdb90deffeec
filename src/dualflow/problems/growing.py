"""Models whose points are added and removed: the variables of a point, in units that do not depend on their number."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.options import check_fields
from ..core.problem import DualProblem


class Variables(NamedTuple):
    """Variables of points, those of one point after another: arrays of shape (n · per,). e of the equality is sigma.

    ``upper`` is the bound of a point of weight 1.
    """

    p: NDArray
    sigma: NDArray
    upper: float

    def bounds(self, weight: NDArray) -> NDArray:
        """Return the upper bounds of the variables, in proportion to the weights of the points, shape (n · per,)."""
        factors = np.repeat(weight, len(self.p) // max(1, len(weight)))
        if self.upper < np.inf:
            return self.upper * factors
        return np.where(factors > 0, np.inf, 0.0)  # not ∞ · 0


class Growing:
    """Base class of models for streams: a dataclass of a model's parameters, which gives the variables of each point.

    Attributes
    ----------
    per : int
        Variables per point.
    scale : float
        s of Q.
    counted : bool
        Whether d of the equality grows with the sum of the points' weights; α and p are then in units of 1/d, so that
        bounds do not change.

    Examples
    --------
    >>> from dualflow.problems import Growing, GrowingHinge, GrowingTube
    >>> isinstance(GrowingHinge(), Growing), GrowingHinge.per, GrowingTube.per
    (True, 1, 2)
    """

    per: ClassVar[int] = 1
    scale: ClassVar[float] = 1.0
    counted: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)

    def total(self, mass: float) -> float:
        """Return d of the equality for points whose weights sum to ``mass``."""
        return 0.0

    def variables(self, targets: NDArray, diag: NDArray) -> Variables:
        """Return the variables of points with these targets and k(x, x)."""
        raise NotImplementedError

    def problem(self, gram: Gram, targets: NDArray, weight: NDArray) -> DualProblem:
        """Return the batch problem of points, with the first variables of all points before their second ones.

        The weights, ≥ 0 and not all 0, multiply the upper bounds, as ``sample_weight`` does in a batch.
        """
        raise NotImplementedError
