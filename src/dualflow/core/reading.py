"""What an α means: how bias, radius and decision function are read from it. Set where a model is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .gram import KernelMatrix

__all__ = ["Interval", "Posed", "Reading"]

Interval = tuple[float, float]


class Posed(Protocol):
    """What a reading looks at of a `DualProblem`."""

    @property
    def gram(self) -> KernelMatrix: ...
    @property
    def sigma(self) -> NDArray: ...
    @property
    def scale(self) -> float: ...
    @property
    def offset(self) -> float: ...
    @property
    def ridge(self) -> NDArray: ...
    @property
    def idx(self) -> NDArray | None: ...
    @property
    def kind(self) -> Any: ...
    @property
    def p(self) -> NDArray: ...
    @property
    def e(self) -> NDArray | None: ...
    @property
    def d(self) -> float: ...


@dataclass(frozen=True)
class Reading:
    """The reading of most models: Σ σᵢαᵢ(k(x, xᵢ) + c) − ν; other models override what is different.

    Attributes
    ----------
    model : str
        The model's name ("hinge", "svdd", …).
    signed : bool
        Whether σ are labels, so that a point's margin is σᵢ times its decision value.

    Examples
    --------
    >>> from dualflow import Gram, Reading, problems
    >>> problems.svc(Gram([[0.0], [1.0]]), [-1, 1]).reading.model
    'hinge'
    >>> Reading("mine", signed=True)
    Reading(model='mine', signed=True)
    """

    model: str = "custom"
    signed: bool = False
    #: Whether decision values need k(z, z) of new points, which a given kernel matrix does not hold.
    needs_self_kernel: ClassVar[bool] = False

    def demands_separation(self, problem: Posed) -> bool:
        """Whether the model has no optimum on data that are not separable, which a witness can then prove."""
        return bool(problem.kind.may_be_unbounded)

    def moves(self, problem: Posed) -> bool:
        """Whether a translation in feature space leaves the model as it is, up to bias and multiplier: the weights σᵢαᵢ
        of all feasible α sum to 0."""
        return problem.e is not None and problem.d == 0 and np.array_equal(problem.e, problem.sigma)

    def price(self, problem: Posed, gram: KernelMatrix) -> NDArray:
        """The linear term p, of a problem that moves, over points moved."""
        return problem.p

    def bias(
        self, problem: Posed, alpha: NDArray, quadratic: float, interval: Interval | None
    ) -> tuple[float, Interval]:
        """b of the decision function and the interval of equally good ones.

        Parameters
        ----------
        alpha : array of shape (n,)
        quadratic : float
            αᵀQα.
        interval : tuple of float or None
            The maximisers ν of the dual bound; b = −ν.
        """
        if interval is None:
            # σᵢαᵢ(k + c) summed: a bias inside the kernel, 0 where there is none.
            b = problem.offset * float(problem.sigma @ alpha) if problem.offset else 0.0
            return b, (b, b)
        return self.bias_of(interval), (-interval[1], -interval[0])

    @staticmethod
    def bias_of(interval: Interval) -> float:
        """b = −ν in the middle of an interval of multipliers, where the bias is outside the kernel."""
        return -0.5 * (interval[0] + interval[1])

    def radius(self, problem: Posed, quadratic: float, nu: float | None) -> float | None:
        """Radius of the ball, for models that have one."""
        return None

    def unit(self, problem: Posed, quadratic: float, multiplier: float | None) -> float:
        """What σᵢαᵢ are divided by to be weights of the decision function."""
        return 1.0

    def coefficients(
        self, problem: Posed, alpha: NDArray, quadratic: float, multiplier: float | None = None
    ) -> NDArray:
        """Weight of every *point* of the Gram in the decision function, shape (gram.n,); ``quadratic`` is αᵀQα, and
        ``multiplier`` the certificate's."""
        weights = problem.sigma * alpha
        return weights if problem.idx is None else np.bincount(problem.idx, weights, minlength=problem.gram.n)

    def decision_values(
        self, problem: Posed, weights: NDArray, bias: float, radius: float | None, Z: NDArray
    ) -> NDArray:
        """The decision function at new points Z of shape (k, m), from the `coefficients`: shape (k,)."""
        J = np.flatnonzero(weights)
        return bias + problem.gram.expand(Z, J, weights[J, None])[:, 0]
