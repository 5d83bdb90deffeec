"""K times the weights of points, in float64 where float32 leaves the sign of a multiplier in doubt."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from ..core._bound import in_doubt
from ..core.gram import Gram
from ..core.mixed_precision import is_bounded, rough_sums
from ..core.radial import AN_EXPONENTIAL, RadialPoints, radial_product
from .strategy import USUAL, Thresholds

__all__ = ["PointSums"]


class PointSums:
    """Kernel sums of the points of f = ½ Σᵢⱼ eᵢeⱼKᵢⱼαᵢαⱼ − price Σᵢ αᵢ, where eᵀα is given, as `core.screening` has
    them of a problem.

    Parameters
    ----------
    gram : Gram
    points : RadialPoints
        In float64.
    single : RadialPoints or None
        The same in float32, if that holds the kernel's digits.
    e : array of shape (n,)
        ±1, the labels.
    price : float
    thresholds : Thresholds

    Attributes
    ----------
    columns : int
        How many weights there were, of the last that were given.
    """

    def __init__(
        self,
        gram: Gram,
        points: RadialPoints,
        single: RadialPoints | None,
        e: NDArray,
        price: float,
        thresholds: Thresholds = USUAL,
    ) -> None:
        self.thresholds = thresholds
        self.points, self.single, self.e, self.price = points, single, e, price
        self.reach, self.features, self.columns, self.n = gram.reach, gram.X.shape[1], 0, len(e)

    def of(self, weights: NDArray, certify: Callable[[NDArray], tuple[float, float]]) -> NDArray:
        """Σⱼ weightsⱼ k(xᵢ, xⱼ), shape (n,), when ``certify`` has been told of them: it says between which multipliers
        of the equality the best one lies."""
        (J,), n, single = weights.nonzero(), len(weights), self.single
        self.columns = len(J)
        worth = n * len(J) * (AN_EXPONENTIAL + self.features) >= self.thresholds.min_product_float32
        if single is None or not (worth and is_bounded(weights[J], self.reach, self.features)):
            sums = self._exact(slice(None), J, weights)
            certify(sums)
            return sums
        (rest,), near = (weights == 0).nonzero(), self.points.take(J)
        sums, doubt = np.empty(n), np.full(n, -np.inf)
        sums[J] = near.expand_among(weights[J])
        half = self.points.half
        sums[rest], doubt[rest] = rough_sums(
            single.take(rest), single.take(J), weights[J], half[rest], near.half, self.features
        )
        left = self.thresholds.max_uncertain_share * n
        while True:
            ends = certify(sums)
            if not (isfinite(ends[0]) and isfinite(ends[1])):
                return sums
            some, missing = in_doubt(
                sums, doubt, self.e, *ends, self.price, self.thresholds.safe_errors
            )  # and those who nearly are
            if not some:
                return sums
            left -= len(missing)
            if left < 0:
                (missing,) = (doubt > -np.inf).nonzero()
            sums[missing], doubt[missing] = self._exact(missing, J, weights), -np.inf

    # What `radial_product` asks of a matrix.

    def radial_points(self, dtype: type, J: NDArray | slice) -> RadialPoints:
        return self.points.take(J)

    def _exact(self, rows: NDArray | slice, J: NDArray, weights: NDArray) -> NDArray:
        return radial_product(self, weights, rows, J, float)
