"""K times the weights of points, in float64 where float32 leaves the sign of a multiplier undetermined."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from ..core._bound import undetermined_signs
from ..core.gram import Gram
from ..core.mixed_precision import is_bounded, rough_sums
from ..core.radial import EXPONENTIAL_COST, RadialPoints, radial_product
from .strategy import USUAL, Thresholds

__all__ = ["PointSums"]


class PointSums:
    """Kernel sums for the certificate of f = ½ Σᵢⱼ eᵢeⱼKᵢⱼαᵢαⱼ − price Σᵢ αᵢ with eᵀα fixed.

    They are what `core.mixed_precision` computes for a general problem.

    Parameters
    ----------
    gram : Gram
    points : RadialPoints
        In float64.
    single : RadialPoints or None
        The same in float32, if float32 is accurate enough for the kernel.
    e : array of shape (n,)
        Labels, ±1.
    price : float
    thresholds : Thresholds

    Attributes
    ----------
    columns : int
        Number of nonzero weights in the last call of `compute`.
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

    def compute(self, weights: NDArray, certify: Callable[[NDArray], tuple[float, float]]) -> NDArray:
        """Return Σⱼ weightsⱼ k(xᵢ, xⱼ), shape (n,), accurate enough for a certificate.

        Parameters
        ----------
        weights : array of shape (n,)
        certify : callable
            Takes the sums and returns the interval of the equality's best multiplier. It is called last with the sums
            that are returned.
        """
        (J,), n, single = weights.nonzero(), len(weights), self.single
        self.columns = len(J)
        pays = n * len(J) * (EXPONENTIAL_COST + self.features) >= self.thresholds.min_product_float32
        if single is None or not (pays and is_bounded(weights[J], self.reach, self.features)):
            sums = self._exact(slice(None), J, weights)
            certify(sums)
            return sums
        (rest,), support = (weights == 0).nonzero(), self.points.take(J)
        sums, error_bounds = np.empty(n), np.full(n, -np.inf)
        sums[J] = support.expand_among(weights[J])
        half = self.points.half
        sums[rest], error_bounds[rest] = rough_sums(
            single.take(rest), single.take(J), weights[J], half[rest], support.half, self.features
        )
        left = self.thresholds.max_uncertain_share * n
        while True:
            ends = certify(sums)
            if not (isfinite(ends[0]) and isfinite(ends[1])):
                return sums
            # The points whose sign is undetermined, or nearly so, are computed anew.
            any_undetermined, missing = undetermined_signs(
                sums, error_bounds, self.e, *ends, self.price, self.thresholds.safe_errors
            )
            if not any_undetermined:
                return sums
            left -= len(missing)
            if left < 0:
                (missing,) = (error_bounds > -np.inf).nonzero()
            sums[missing], error_bounds[missing] = self._exact(missing, J, weights), -np.inf

    def radial_points(self, dtype: type, J: NDArray | slice) -> RadialPoints:
        """Return the points J: `radial_product` calls this method of a matrix."""
        return self.points.take(J)

    def _exact(self, rows: NDArray | slice, J: NDArray, weights: NDArray) -> NDArray:
        """Return the sums of some rows in float64."""
        return radial_product(self, weights, rows, J, float)
