"""A batch of angles that says it is one of the parameter-shift rule."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shifts"]


class Shifts(np.ndarray):
    """A batch of the parameter-shift rule that says what it is, made by `ParametricCircuit.shifts`.

    To a device that does not ask it is the array of its rows, and nobody can write to it. What is made of it, a slice
    or a sum, is a batch like any other.

    Attributes
    ----------
    theta : array of shape (P,), or None
        θ, where this is the whole batch.
    again : int
        Rows θ before those of the rule.
    """

    theta: NDArray | None
    again: int

    def __array_finalize__(self, source: NDArray | None) -> None:
        self.theta, self.again = None, 0

    @classmethod
    def of(cls, rows: NDArray, again: int) -> Self:
        """The batch of these rows, which are nobody else's."""
        rows.flags.writeable = False
        batch = rows.view(cls)
        batch.theta, batch.again = rows[0], again
        return batch
