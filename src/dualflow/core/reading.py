"""`Reading`: the formulas of a model for bias, radius and decision function of an α; each model defines its own."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from .gram import KernelMatrix
from .runtime.arrays import is_same_array
from .runtime.deprecation import adopt_old_methods, old_method

#: The multipliers ν of the equality that maximise the dual bound: their least and greatest.
Interval = tuple[float, float]


def multiplier_of(interval: Interval | None) -> float:
    """Return the multiplier ν that stands for an interval, its middle; 0 for None."""
    return 0.0 if interval is None else 0.5 * (interval[0] + interval[1])


def finite_middle(interval: Interval, otherwise: float = 0.0) -> float:
    """Return the middle of an interval of multipliers or biases; its only finite end, or ``otherwise`` if none is."""
    finite = [isfinite(end) for end in interval]
    return multiplier_of(interval) if all(finite) else interval[finite.index(True)] if any(finite) else otherwise


class Posed(Protocol):
    """The attributes of a `DualProblem` that a reading uses."""

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


#: Old names of methods of `Reading`, each with the new one.
_RENAMED = {"price": "linear_term", "moves": "is_translatable", "unit": "weight_divisor"}


@dataclass(frozen=True)
class Reading:
    """The formulas of most models, with decision function Σ σᵢαᵢ(k(x, xᵢ) + c) − ν; other models override some.

    Attributes
    ----------
    model : str
        The model's name ("hinge", "svdd", …).
    signed : bool
        Whether σ are labels, so that the margin of a point is σᵢ times its decision value.

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
    #: Whether decision values need k(z, z) of new points, which a precomputed kernel matrix does not have.
    needs_self_kernel: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        adopt_old_methods(cls, **_RENAMED)

    def demands_separation(self, problem: Posed) -> bool:
        """Whether the model has no optimum if the data are not separable, so that a witness of that may exist."""
        return bool(problem.kind.may_be_unbounded)

    def is_translatable(self, problem: Posed) -> bool:
        """Whether a translation in feature space changes only bias and multiplier.

        By default it is so if σᵢαᵢ sum to 0 for all feasible α.
        """
        return problem.e is not None and problem.d == 0 and is_same_array(problem.e, problem.sigma)

    def linear_term(self, problem: Posed, gram: KernelMatrix) -> NDArray:
        """Return the linear term p after a translation of the points; ``gram`` has the translated points."""
        return problem.p

    def bias(
        self, problem: Posed, alpha: NDArray, quadratic: float, interval: Interval | None
    ) -> tuple[float, Interval]:
        """Return b of the decision function and the interval of equally good values.

        Parameters
        ----------
        alpha : array of shape (n,)
        quadratic : float
            αᵀQα.
        interval : tuple of float or None
            The maximisers ν of the dual bound; b = −ν.
        """
        if interval is None:
            # Σ σᵢαᵢ(k + c) has a bias inside the kernel if c > 0.
            b = problem.offset * float(problem.sigma @ alpha) if problem.offset else 0.0
            return b, (b, b)
        return self.bias_of(interval), (-interval[1], -interval[0])

    @staticmethod
    def bias_of(interval: Interval) -> float:
        """Return b = −ν for an interval of multipliers."""
        return -multiplier_of(interval)

    def radius(self, problem: Posed, quadratic: float, nu: float | None) -> float | None:
        """Return the radius of the ball, for models with one, else None."""
        return None

    def weight_divisor(self, problem: Posed, quadratic: float, multiplier: float | None) -> float:
        """Return the divisor that turns σᵢαᵢ into weights of the decision function."""
        return 1.0

    price, moves, unit = (old_method(old, new) for old, new in _RENAMED.items())

    def coefficients(
        self, problem: Posed, alpha: NDArray, quadratic: float, multiplier: float | None = None
    ) -> NDArray:
        """Return the weight of each *point* of the Gram in the decision function, shape (gram.n,).

        ``quadratic`` is αᵀQα, and ``multiplier`` that of the certificate.
        """
        weights = problem.sigma * alpha
        return weights if problem.idx is None else np.bincount(problem.idx, weights, minlength=problem.gram.n)

    def decision_values(
        self, problem: Posed, weights: NDArray, bias: float, radius: float | None, Z: NDArray
    ) -> NDArray:
        """Return the decision function at new points Z of shape (k, m), given the `coefficients`: shape (k,)."""
        J = np.flatnonzero(weights)
        return bias + problem.gram.expand(Z, J, weights[J, None])[:, 0]
