"""What is to be solved, as it travels: the kernel, the loss, and which classes are told apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .. import problems
from ..core.kernels import Gram
from ..core.problem import DualProblem
from ..exceptions import ProblemError
from .parts import Loaded

__all__ = ["Members", "Model"]


@dataclass(frozen=True)
class Members:
    """Rows that take part in a problem.

    Attributes
    ----------
    row : array of shape (n,)
        Their numbers within their part.
    X : array of shape (n, m)
    sign, weight : array of shape (n,)
        Labels ±1, and what multiplies C; above 0.
    """

    row: NDArray
    X: NDArray
    sign: NDArray
    weight: NDArray


@dataclass(frozen=True)
class Model:
    """A pair of classes' support vector machine, all of whose numbers are known: γ, weights, centre.

    Attributes
    ----------
    classes, class_weight : array of shape (k,)
    positive, negative : int
        The classes of y = +1 and y = −1, as numbers.
    center : array of shape (m,) or None
        What is taken from all points where that moves nothing but the bias (`Gram`).
    """

    classes: NDArray
    class_weight: NDArray
    positive: int
    negative: int
    C: float
    loss: str
    fit_intercept: bool | str
    kernel: str
    gamma: float
    degree: float
    coef0: float
    center: NDArray | None

    def members(self, loaded: Loaded, number: int) -> Members:
        """The rows of a part that are of these classes and have a weight."""
        code = np.minimum(np.searchsorted(self.classes, loaded.y), len(self.classes) - 1)
        if (self.classes[code] != loaded.y).any():
            raise ProblemError(f"part {number} holds labels that it did not hold before; it must not change")
        own = self.class_weight[code] if loaded.weight is None else self.class_weight[code] * loaded.weight
        row = np.flatnonzero(((code == self.positive) | (code == self.negative)) & (own > 0))
        sign = np.where(code[row] == self.positive, 1.0, -1.0)
        return Members(row, loaded.X[row], sign, own[row])

    def gram(self, X: NDArray) -> Gram:
        """The kernel over points."""
        return Gram(X, self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0, center=self.center)

    def pose(self, X: NDArray, sign: NDArray, weight: NDArray) -> DualProblem:
        """The dual problem of some points alone."""
        return problems.svc(
            self.gram(X), sign, self.C, loss=self.loss, fit_intercept=self.fit_intercept, sample_weight=weight
        )

    @property
    def on_simplex(self) -> bool:
        """Whether the multipliers sum to 1 and have no bounds of their own."""
        return self.loss == "squared_hinge"

    @property
    def has_equality(self) -> bool:
        """Whether the bias is a multiplier, to be found from all points together."""
        return self.fit_intercept is True and not self.on_simplex

    @property
    def offset(self) -> float:
        """What is added to the kernel."""
        return 1.0 if self.fit_intercept == "penalised" or (self.on_simplex and self.fit_intercept) else 0.0
