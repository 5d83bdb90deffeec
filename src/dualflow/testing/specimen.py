"""`ZooProblem`: a dual problem with its known optimum."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind


@dataclass(frozen=True)
class ZooProblem:
    """A dual problem with its known optimum.

    Attributes
    ----------
    name : str
    problem : DualProblem
    optimum : float
        f*; −∞ if the dual is unbounded because no hard margin exists (0 for the squared hinge).
    alpha : array of shape (n,) or None
        An optimal α; None if no hard margin exists.
    unique : bool
        ``alpha`` is the only optimum.
    why : str
        Derivation of the optimum.
    bias_interval : tuple of float or None
        Interval of all optimal b, if it was derived by hand.
    witness : array of shape (n,) or None
        If no hard margin exists: v with v ≥ 0, yᵀv = 0, 1ᵀv = 1, vᵀQv = 0.

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
        """Whether the problem has an optimum; otherwise it has a witness that no hard margin exists."""
        return self.witness is None

    def __repr__(self) -> str:
        return f"ZooProblem({self.name!r}, n={self.n}, kind={self.kind.value!r})"
