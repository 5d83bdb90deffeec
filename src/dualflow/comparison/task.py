"""What a section of a comparison is made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from numpy.typing import NDArray

from ..core.certificate import Certifier
from ..core.kernels import Gram
from ..core.problem import DualProblem

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """One section to be: how its problem is made of a kernel, who certifies the answers to it, and held-out points with
    the sign they should get."""

    name: str
    title: str
    make: Callable[[Gram], DualProblem]
    certifier: Certifier
    Z: NDArray
    signs: NDArray

    @property
    def problem(self) -> DualProblem:
        """The problem that every row solves."""
        return self.certifier.problem

    @classmethod
    def of(
        cls, name: str, title: str, make: Callable[[Gram], DualProblem], gram: Gram, Z: NDArray, signs: NDArray
    ) -> Task:
        """The task on one kernel; without held-out points where the model asks for more of them than a matrix holds."""
        problem = make(gram)
        if gram.kernel == "precomputed" and problem.reading.needs_self_kernel:
            Z, signs = Z[:0], signs[:0]
        return cls(name, title, make, Certifier(problem), Z, signs)
