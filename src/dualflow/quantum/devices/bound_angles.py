"""Angles of gates as multiples of a circuit's parameters."""

from __future__ import annotations

from typing import Any


def index_and_factor(expression: Any, index: dict[Any, int]) -> tuple[int, float]:
    """Return (k, c) for an expression c·(parameter k), where ``index`` has the number k of each parameter.

    Raises
    ------
    ValueError
        The expression is another function of the parameters.
    """
    if expression in index:
        return index[expression], 1.0
    if len(expression.parameters) == 1:
        [parameter] = expression.parameters
        at = [float(expression.bind({parameter: value})) for value in (0.0, 1.0, -2.0)]
        if at[0] == 0.0 and at[2] == -2.0 * at[1]:
            return index[parameter], at[1]
    raise ValueError(f"angle {expression} is not a multiple of one parameter")
