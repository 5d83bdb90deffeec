"""Models whose points are added and removed: the variables of a point, in units that do not depend on their number."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.options import check_fields
from ..core.problem import DualProblem

__all__ = ["Growing", "Variables"]


class Variables(NamedTuple):
    """Variables of points, those of one point after another: arrays of shape (n · per,). e of the equality is sigma."""

    p: NDArray
    sigma: NDArray
    upper: float


class Growing:
    """Base class of models for streams: a dataclass of a model's parameters, which gives the variables of each point.

    Attributes
    ----------
    per : int
        Variables per point.
    scale : float
        s of Q.
    counted : bool
        Whether d of the equality grows with the number of points; α and p are then in units of 1/d, so that bounds do
        not change.

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

    def total(self, n: int) -> float:
        """Return d of the equality for n points."""
        return 0.0

    def variables(self, targets: NDArray, diag: NDArray) -> Variables:
        """Return the variables of points with these targets and k(x, x)."""
        raise NotImplementedError

    def problem(self, gram: Gram, targets: NDArray) -> DualProblem:
        """Return the batch problem of points, with the first variables of all points before their second ones."""
        raise NotImplementedError
