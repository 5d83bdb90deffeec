"""Evaluate Qiskit's parameter expressions on columns of numbers."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import ProblemError

__all__ = ["Expression"]

#: Most parameters of an expression that is expanded into 2^k coefficients; others are bound point by point.
MAX_EXPANDED_PARAMETERS = 6


class Expression:
    """A Qiskit parameter expression as a function of columns of numbers.

    An expression that is affine in each of its k parameters, as all angles of Qiskit's feature maps are, is a
    polynomial. Its 2^k coefficients follow from its values at the corners of {0, 1}^k. Other expressions are bound
    point by point.

    Parameters
    ----------
    expression : ParameterExpression or float
    column : dict of Parameter to int
        Column of each parameter in the values.
    """

    def __init__(self, expression: Any, column: dict[Any, int]) -> None:
        self.expression = expression
        self.parameters = sorted(getattr(expression, "parameters", ()), key=column.__getitem__)
        self.columns = [column[parameter] for parameter in self.parameters]
        self.coefficients: dict[tuple[int, ...], float] | None = None
        if len(self.parameters) <= MAX_EXPANDED_PARAMETERS and all(self._is_affine_in(p) for p in self.parameters):
            self.coefficients = self._expanded()

    def __call__(self, values: NDArray) -> NDArray:
        """Return the values of the expression, shape (n,), for values of all parameters, shape (n, columns)."""
        if self.coefficients is None:
            return np.array([self._bound([float(row[k]) for k in self.columns]) for row in values])
        out = np.zeros(len(values))
        for which, coefficient in self.coefficients.items():
            out += coefficient * np.prod(values[:, list(which)], axis=1)
        return out

    def derivative(self, parameter: Any, column: dict[Any, int]) -> Expression:
        """Return the derivative by a parameter as an `Expression`."""
        try:
            return Expression(self.expression.gradient(parameter), column)
        except RuntimeError as error:
            raise ProblemError(f"weights: the angle {self.expression} has no derivative; leave it fixed") from error

    def _is_affine_in(self, parameter: Any) -> bool:
        # Test the second derivative: the parameters that Qiskit lists for a derivative are those of the expression.
        try:
            slope = self.expression.gradient(parameter)
            return not hasattr(slope, "gradient") or bool(slope.gradient(parameter) == 0)
        except RuntimeError:  # Qiskit has no derivative of sign(x)
            return False

    def _expanded(self) -> dict[tuple[int, ...], float] | None:
        found: dict[tuple[int, ...], float] = {}
        for corner in sorted(product((0, 1), repeat=len(self.parameters)), key=sum):
            which = tuple(c for c, bit in zip(self.columns, corner, strict=True) if bit)
            value = self._bound([float(bit) for bit in corner])
            found[which] = value - sum(a for part, a in found.items() if set(part) < set(which))
        return {which: a for which, a in found.items() if a} if np.isfinite(list(found.values())).all() else None

    def _bound(self, values: list[float]) -> float:
        if not self.parameters:
            return float(self.expression)
        try:
            return float(self.expression.bind(dict(zip(self.parameters, values, strict=True))))
        except (ArithmeticError, RuntimeError, TypeError):  # Qiskit's errors for infinite, NaN and complex values
            return np.nan
