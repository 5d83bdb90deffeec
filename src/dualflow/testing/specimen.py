"""What the zoo holds: a dual problem together with its answer."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind

__all__ = ["ZooProblem"]


@dataclass(frozen=True)
class ZooProblem:
    """A dual problem with its answer.

    Attributes
    ----------
    name : str
    problem : DualProblem
    optimum : float
        f*, absolute; −∞ where the dual is unbounded because no hard margin exists (0 for the squared hinge).
    alpha : array of shape (n,) or None
        An optimal α; None where no hard margin exists.
    unique : bool
        Whether that is the only one.
    why : str
        How the answer was derived.
    bias_interval : tuple of float or None
        All optimal b, where they were derived by hand.
    witness : array of shape (n,) or None
        Where no hard margin exists: v ≥ 0, yᵀv = 0, 1ᵀv = 1, vᵀQv = 0.

    Examples
    --------
    >>> from dualflow import solve
    >>> from dualflow.testing import zoo
    >>> known = zoo(max_n=4)[0]
    >>> abs(solve(known.problem).certificate.objective - known.optimum) <= 1e-6 * abs(known.optimum)
    True
    """

    name: str
    problem: DualProblem
    optimum: float
    alpha: NDArray | None
    unique: bool
    why: str
    bias_interval: tuple[float, float] | None = None
    witness: NDArray | None = None

    @property
    def n(self) -> int:
        """Number of variables."""
        return self.problem.n

    @property
    def kind(self) -> Kind:
        """The shape of the feasible set."""
        return self.problem.kind

    @property
    def has_answer(self) -> bool:
        """Whether an optimum is to be found; otherwise, a witness that no hard margin exists."""
        return self.witness is None

    def __repr__(self) -> str:
        return f"ZooProblem({self.name!r}, n={self.n}, kind={self.kind.value!r})"
