"""An array of angles that is marked as a batch of the parameter-shift rule."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Shifts"]


class Shifts(np.ndarray):
    """A batch of the parameter-shift rule, made by `ParametricCircuit.shifts`.

    A device that knows the class can compute all its distributions from θ; for other devices it is an ordinary array,
    which is read-only. A slice or any other result of an operation has theta=None and is an ordinary batch.

    Attributes
    ----------
    theta : array of shape (P,), or None
        θ, if this is the full batch.
    again : int
        Additional rows θ at the beginning.
    """

    theta: NDArray | None
    again: int

    def __array_finalize__(self, source: NDArray | None) -> None:
        self.theta, self.again = None, 0

    @classmethod
    def of(cls, rows: NDArray, again: int) -> Self:
        """Return the batch with these rows; the array is made read-only and must not be used elsewhere."""
        rows.flags.writeable = False
        batch = rows.view(cls)
        batch.theta, batch.again = rows[0], again
        return batch
