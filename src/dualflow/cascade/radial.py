"""Regression and description with a Gaussian kernel, as a cascade solves them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .. import problems
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..problems.description import BALL
from .model import Members, Variables, weighty
from .parts import Loaded


def _rows_of(loaded: Loaded) -> NDArray:
    """Return the numbers of the rows that `weighty` returns."""
    return np.arange(len(loaded.X)) if loaded.weight is None else np.flatnonzero(loaded.weight > 0)


@dataclass(frozen=True)
class _Radial:
    """A model with a Gaussian kernel of width ``gamma``; ``center`` is subtracted from all points."""

    gamma: float
    center: NDArray | None
    offset: ClassVar[float] = 0.0
    on_simplex: ClassVar[bool] = False
    has_equality: ClassVar[bool] = True

    def gram(self, X: NDArray) -> Gram:
        """Return the kernel over points."""
        return Gram(X, "rbf", gamma=self.gamma, center=self.center)


@dataclass(frozen=True)
class RadialTube(_Radial):
    """ε-insensitive regression, as `problems.svr` poses it; ``shift`` is subtracted from the values y."""

    C: float
    epsilon: float
    shift: float
    d: ClassVar[float] = 0.0

    @property
    def size(self) -> float:
        """The largest slope of a point in the tube."""
        return self.epsilon

    def members(self, loaded: Loaded, number: int) -> Members:
        """Return the rows of a positive weight."""
        X, y, weight = weighty(loaded)
        return Members(_rows_of(loaded), X, np.asarray(y, dtype=float) - self.shift, weight, has_labels=False)

    def variables_of(self, members: Members) -> Variables:
        """Return two variables a row."""
        signs = np.array([[1.0], [-1.0]])
        sigma, p = np.repeat(signs, len(members.row), axis=1), signs * members.target - self.epsilon
        return Variables(members.X, sigma, p, np.tile(self.C * members.weight, (2, 1)))

    def pose(self, X: NDArray, target: NDArray, weight: NDArray) -> DualProblem:
        """Return the dual problem of some points alone."""
        return problems.svr(self.gram(X), target, self.C, epsilon=self.epsilon, sample_weight=weight)

    def alone(self, members: Members) -> tuple[RadialTube, float] | None:
        """Return this model, unless there are no rows."""
        return (self, 1.0) if len(members.row) else None

    def of_points(self, alpha: NDArray) -> NDArray:
        """Return α − α*."""
        upper, lower = alpha.reshape(2, -1)
        difference: NDArray = upper - lower
        return difference

    def of_variables(self, multipliers: NDArray) -> NDArray:
        """Return α and α*, one of which is 0."""
        return np.concatenate([np.maximum(multipliers, 0.0), np.maximum(-multipliers, 0.0)])

    def weights(self, target: NDArray, multipliers: NDArray) -> NDArray:
        """Return α − α*."""
        return multipliers


@dataclass(frozen=True)
class RadialBall(_Radial):
    """The smallest ball around a share ν of the rows, as `problems.svdd` poses it; ``mass`` is the sum of weights."""

    nu: float
    mass: float
    d: ClassVar[float] = 1.0
    size: ClassVar[float] = 1.0

    def members(self, loaded: Loaded, number: int) -> Members:
        """Return the rows of a positive weight."""
        X, _, weight = weighty(loaded)
        return Members(_rows_of(loaded), X, np.ones(len(X)), weight)

    def variables_of(self, members: Members) -> Variables:
        """Return one variable a row; k(x, x) is 1."""
        ones = np.ones((1, len(members.row)))
        return Variables(members.X, ones, ones, members.weight[None] / (self.nu * self.mass))

    def pose(self, X: NDArray, target: NDArray, weight: NDArray) -> DualProblem:
        """Return the dual problem of some points alone, whose bounds are those of all points."""
        gram, ones = self.gram(X), np.ones(len(X))
        return DualProblem(
            gram,
            p=gram.diag(),
            lower=np.zeros(1),
            upper=weight / (self.nu * self.mass),
            e=ones,
            d=1.0,
            scale=2.0,
            reading=BALL,
        )

    def alone(self, members: Members) -> tuple[RadialBall, float] | None:
        """Return the ball of a part's rows, and the part's share of the weight; times it, α sum to 1 over all parts."""
        own = float(members.weight.sum())
        return (replace(self, mass=own), own / self.mass) if len(members.row) else None

    def of_points(self, alpha: NDArray) -> NDArray:
        """Return α."""
        return alpha

    def of_variables(self, multipliers: NDArray) -> NDArray:
        """Return α."""
        return multipliers

    def weights(self, target: NDArray, multipliers: NDArray) -> NDArray:
        """Return 2α, since Q = 2K."""
        return 2.0 * multipliers
