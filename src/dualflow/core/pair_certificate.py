"""The certificate of a pair of classes: its numbers, and the `Certificate` made of them.

Compiled code (`_pair_bound`) writes the numbers to a row of an array. Their names and order are defined once, by the
struct `PairCertificate` of `_pair_bound.pxd`.
"""

from __future__ import annotations

import math

from numpy.typing import NDArray

from . import bounds
from ._pair_bound import CertificateFields
from .certificate import Certificate
from .psd import SpectrumEvidence
from .reading import multiplier_of
from .runtime.arrays import immutable

#: A gap up to this share of its rounding error is accepted. Float64 holds no smaller gap, because the true error is
#: smaller than the estimate.
MAX_PART_OF_ROUNDING = 0.1
#: A relative gap up to this is accepted if it does not exceed its rounding error. Half of 1e-9, because a recomputed
#: certificate rounds differently. A tighter limit would send such pairs to a run, at twice the time.
MAX_GAP_WITHIN_ROUNDING = 5e-10
#: The reason that an error for a negative gap gives.
NEGATIVE_GAP_REASON = "X changed while the pair was solved"


class CertificateRow(CertificateFields):
    """The numbers of one pair's certificate, a named tuple; NaN if α is infeasible.

    The fields ``low`` and ``high`` are the ends of the multiplier interval, ``terms`` is the size of the objective's
    terms, and the others are as in `Certificate`.
    """

    __slots__ = ()

    @property
    def size(self) -> float:
        """Size of the objective that a relative gap refers to."""
        return max(abs(self.objective), abs(self.lower_bound))

    @property
    def is_finite(self) -> bool:
        """Whether all numbers are finite: NaN stands for an infeasible α."""
        return all(map(math.isfinite, self))

    @property
    def vanishes(self) -> bool:
        """Whether objective and bound are 0 up to float64's rounding."""
        return self.size <= bounds.MIN_PART_OF_TERMS * self.terms

    def meets_tols(self, tol: float, tol_with_rounding: float) -> bool:
        """Whether the relative gap is at most ``tol``, and at most ``tol_with_rounding`` with `rounding`.

        `rounding` is an estimate. A gap that is a small part of it meets ``tol`` too, for float64 holds no smaller one;
        and so does one up to `MAX_GAP_WITHIN_ROUNDING` that is at most that estimate.
        """
        if not self.is_finite:
            return False
        gap, size = self.objective - self.lower_bound, self.size
        is_rounded = gap <= min(MAX_GAP_WITHIN_ROUNDING * size, self.rounding)
        is_least = is_rounded or gap <= max(tol * size, MAX_PART_OF_ROUNDING * self.rounding)
        return (is_least and gap + self.rounding <= tol_with_rounding * size) or self.vanishes

    @property
    def gaps(self) -> tuple[float, float]:
        """Absolute and relative gap, at least 0; the relative one is 0 for an objective that vanishes."""
        gap, relative_gap = bounds.gaps(self.objective, self.lower_bound, self.rounding, NEGATIVE_GAP_REASON)
        return gap, 0.0 if self.vanishes else relative_gap

    def certificate(self, point: NDArray, shift: float, bias: float) -> Certificate:
        """Return the certificate, as a `Certifier` makes it.

        Parameters
        ----------
        point : array of shape (n,)
            The feasible multipliers α.
        shift : float
            Added to the equality's multiplier of the centred problem to get that of the problem as given.
        bias : float
        """
        gap, relative_gap = self.gaps
        low, high = self.low + shift, self.high + shift
        return Certificate(
            alpha=immutable(point),
            objective=self.objective,
            lower_bound=self.lower_bound,
            gap=gap,
            relative_gap=relative_gap,
            infeasibility=self.infeasibility,
            projection_distance=self.projection_distance,
            multiplier=multiplier_of((low, high)),
            multiplier_interval=(low, high),
            bias=bias,
            bias_interval=(-high, -low),
            radius=None,
            quadratic=self.quadratic,
            psd=SpectrumEvidence("by kernel"),
            rounding=0.0 if self.vanishes else self.rounding,
        )
