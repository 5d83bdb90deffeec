"""Models whose points come and go: what each point brings, in units that stay as their number changes."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.options import check_fields
from ..core.problem import DualProblem

__all__ = ["Growing", "Variables"]


class Variables(NamedTuple):
    """What points bring, all variables of a point one after another: shape (n · per,). The equality's e is sigma."""

    p: NDArray
    sigma: NDArray
    upper: float


class Growing:
    """How points make a problem that gains and loses them: a dataclass of parameters beside each model.

    Attributes
    ----------
    per : int
        Variables a point.
    scale : float
        s of Q.
    counted : bool
        Whether the equality's d counts the points; α and p are then in units of 1/d, so that bounds stay as they are.

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
        """The equality's d, of n points."""
        return 0.0

    def variables(self, targets: NDArray, diag: NDArray) -> Variables:
        """Those of points with these targets and k(x, x)."""
        raise NotImplementedError

    def problem(self, gram: Gram, targets: NDArray) -> DualProblem:
        """The batch problem of points; its variables are the first ones of all points, then the second ones."""
        raise NotImplementedError
