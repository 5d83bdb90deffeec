"""The Gram matrix of a data set that gains and loses points."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from .kernel_checks import KernelFunction, as_matrix
from .kernel_values import called_diagonal, squared_lengths
from .kernels import Gram
from .radial import RadialPoints

__all__ = ["GrowingGram"]


class GrowingGram(Gram):
    """A `Gram` that points join and leave; kernel parameters and the centre are those of its first points.

    Parameters
    ----------
    X : array of shape (n, m)
        The first points; ``gamma="scale"`` is computed from them alone.
    kernel, gamma, degree, coef0
        As in `Gram`, but not "precomputed".
    center : array of shape (m,), optional
        What the radial kernel subtracts from all points before anything else; by default the mean of the first.

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
                "kernel='precomputed' has no values for points to come; give a kernel by name, or a callable"
            )
        points = as_matrix(X, "X")
        super().__init__(points[:1] if center is not None else points, kernel, gamma=gamma, degree=degree, coef0=coef0)
        if self._center is not None and center is not None:
            self._center = np.array(center, dtype=float)
        self.n = 0
        self._buffers = self._measure(points)
        self._bind(len(points))

    def _measure(self, X: NDArray) -> dict[str, NDArray]:
        """What is kept of points: themselves, squared lengths, k(x, x), and what the radial kernel takes."""
        squares = squared_lengths(X, self._center)
        if not callable(self.kernel) and not np.isfinite(squares).all():
            size = f"{np.abs(X).max():.3g}"
            raise ProblemError(f"X: squared lengths overflow float64 (entries as large as {size}); scale the features")
        if self.kernel == "rbf":
            ready = RadialPoints.of(X, self._center, self.gamma, float, squares)
            return {
                "X": X,
                "squares": squares,
                "diag": np.ones(len(X)),
                "points": ready.points,
                "half": ready.half,
            }
        if callable(self.kernel):
            return {"X": X, "squares": squares, "diag": called_diagonal(self.kernel, X)}
        with np.errstate(over="ignore"):
            diag = self._apply(squares.copy())
        if not np.isfinite(diag).all():
            raise ProblemError(f"X: kernel={self.kernel!r} overflows float64 on it; scale the features")
        return {"X": X, "squares": squares, "diag": diag}

    def _bind(self, n: int) -> None:
        """Take the first n rows of the buffers for the points."""
        self.n = n
        self.X, self._squares, self._diag = (self._buffers[name][:n] for name in ("X", "squares", "diag"))
        self._radial, self._kept, self._full = {}, {}, None
        if self.kernel == "rbf":
            with np.errstate(over="ignore"):
                self._reach = self.gamma * float(self._squares.max(initial=0.0))
            self._radial["float64"] = RadialPoints(self._buffers["points"][:n], self._buffers["half"][:n])

    def append(self, X: ArrayLike) -> None:
        """Add points, shape (k, m), after those that are there; nothing changes if they are refused."""
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
        """One with the same kernel and no points."""
        other = object.__new__(GrowingGram)
        other.__dict__.update(self.__dict__)
        other._buffers = {name: array[:0].copy() for name, array in self._buffers.items()}
        other.entries_computed = 0
        other._bind(0)
        return other

    def part_of_row(self, k: int, start: int, stop: int) -> NDArray:
        """K[k, start:stop]."""
        self.entries_computed += stop - start
        return self._between(np.array([k]), slice(start, stop), float)[0]

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state["_buffers"] = {name: array[: self.n] for name, array in self._buffers.items()}
        for name in ("X", "_squares", "_diag", "_radial", "_kept", "_full"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind(self.n)
