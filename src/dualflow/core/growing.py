"""`GrowingGram`: the kernel matrix of a data set that gains and loses points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from .gram import Gram, KernelMatrix, measured
from .kernel_functions import KernelFunction, as_matrix, mean_of
from .radial import RadialPoints

_KERNEL = ("kernel", "gamma", "degree", "coef0", "center")


class GrowingGram(KernelMatrix):
    """The kernel matrix of points that are added and removed; kernel parameters and centre come from the first points.

    Parameters
    ----------
    X : array of shape (n, m)
        The first points; ``gamma="scale"`` is computed from them alone.
    kernel, gamma, degree, coef0
        As in `Gram`, but not "precomputed".
    center : array of shape (m,), optional
        Subtracted from all points for the radial kernel and kernels that are `is_translatable`; by default the mean of
        the first points.

    Raises
    ------
    ProblemError
        As `Gram`, or the kernel is precomputed.
    """

    def __init__(
        self,
        X: ArrayLike,
        kernel: str | KernelFunction = "rbf",
        *,
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        center: NDArray | None = None,
    ) -> None:
        if isinstance(kernel, str) and kernel == "precomputed":
            raise ProblemError(
                "kernel='precomputed' has no values for new points; give a kernel by name, or a callable"
            )
        points = as_matrix(X, "X")
        first = Gram(points[:1] if center is not None else points, kernel, gamma=gamma, degree=degree, coef0=coef0)
        for name in _KERNEL:
            setattr(self, name, getattr(first, name))
        if self.kernel == "rbf" or self.is_translatable:
            self.center = mean_of(points) if center is None else np.array(center, dtype=float)
        self.entries_computed = 0
        self._buffers = {name: array.copy() for name, array in self._measure(points).items()}
        self._bind(len(points))

    def _measure(self, X: NDArray) -> dict[str, NDArray]:
        """Return points, their squared lengths, k(x, x), and for the radial kernel the scaled points."""
        squares, diag = measured(self, X)
        found = {"X": X, "squares": squares, "diag": diag}
        if self.kernel == "rbf":
            ready = RadialPoints.of(X, self.center, self.gamma, float, squares)
            found |= {"points": ready.points, "half": ready.half}
        return found

    def _bind(self, n: int) -> None:
        """Set the points to the first n rows of the buffers."""
        self.n = n
        self.X, self.squares, self._diag = (self._buffers[name][:n] for name in ("X", "squares", "diag"))
        self.reach = 0.0
        if self.kernel == "rbf":
            self._radial = RadialPoints(self._buffers["points"][:n], self._buffers["half"][:n])
            with np.errstate(over="ignore"):
                self.reach = self.gamma * float(self.squares.max(initial=0.0))

    def radial_points(self, dtype: type, J: NDArray | slice = slice(None)) -> RadialPoints:
        return self._radial.take(J).astype(dtype)

    def count(self, entries: int) -> None:
        self.entries_computed += entries

    def frozen_copy(self) -> Gram:
        """Return the `Gram` of the current points."""
        return Gram.of(self, self.X)

    def append(self, X: ArrayLike) -> None:
        """Append points, shape (k, m); nothing changes if they are not valid."""
        new = self._measure(as_matrix(X, "X"))
        n, more = self.n, len(new["X"])
        if n + more > len(self._buffers["X"]):
            room = max(n + more, 2 * len(self._buffers["X"]))
            larger: dict[str, NDArray] = {}
            for name, array in self._buffers.items():
                larger[name] = np.zeros((room, *array.shape[1:]))
                larger[name][:n] = array[:n]
            self._buffers = larger
        for name, values in new.items():
            self._buffers[name][n : n + more] = values
        self._bind(n + more)

    def truncate(self, n: int) -> None:
        """Keep the first n points."""
        self._bind(n)

    def keep(self, points: NDArray) -> None:
        """Keep these points, renumbered in their order."""
        self._buffers = {name: array[points] for name, array in self._buffers.items()}
        self._bind(len(points))

    def without_points(self) -> GrowingGram:
        """Return a kernel matrix with the same kernel and no points."""
        other = object.__new__(GrowingGram)
        other.__dict__.update(self.__dict__)
        other._buffers = {name: array[:0].copy() for name, array in self._buffers.items()}
        other.entries_computed = 0
        other._bind(0)
        return other

    def part_of_row(self, k: int, start: int, stop: int) -> NDArray:
        """Return K[k, start:stop]."""
        self.count(stop - start)
        return self._between(np.array([k]), slice(start, stop), float)[0]

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: getattr(self, name) for name in (*_KERNEL, "n", "entries_computed")}
        return kept | {"_buffers": {name: array[: self.n].copy() for name, array in self._buffers.items()}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._buffers = {name: np.array(array) for name, array in self._buffers.items()}  # read-only in a memory map
        self._bind(self.n)
