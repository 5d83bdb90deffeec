"""Results that bring their certificate; the certificate of a known product Qα is made when it is read."""

from __future__ import annotations

import math

from numpy.typing import NDArray

from ..core._bound import appraised
from ..core.bounds import dual_bound
from ..core.certificate import Answer, Certificate, answer_of, certificate_of
from ..core.pair_certificate import MAX_GAP_WITHIN_ROUNDING, CertificateRow
from ..core.problem import DualProblem
from ..core.psd import SpectrumEvidence
from ..core.reading import multiplier_of
from ..core.runtime.arrays import immutable
from ..core.runtime.threads import cached_property
from ..core.solution import DirectResult
from ..refinement.refine import supporting


class CertifiedResult(DirectResult):
    """A result with a certificate that was made from scratch by the functions of `core`: the driver makes no other.

    Its attributes are computed when they are first read.

    Attributes
    ----------
    certificate : Certificate
    seconds, certify_s : float
        Seconds spent on the search, and on certificates.
    """

    certificate: Certificate
    seconds: float
    certify_s: float

    @property
    def answer(self) -> Answer | Certificate:
        """The numbers of the certificate that a model is read from."""
        return self.certificate

    def support(self, problem: DualProblem) -> NDArray:
        """Return the support set, indices of variables."""
        raise NotImplementedError


class DirectSingle(CertifiedResult):
    """Result of a problem whose product Qα is known.

    One compiled call finds whether α is good enough. The certificate is made of the same arrays when it is read.

    Parameters
    ----------
    problem : DualProblem
        Convex by its kernel, with finite bounds or on the simplex; centred if it can be.
    found, point : arrays of shape (n,)
        α as found, and its projection onto the feasible set.
    Qa : array of shape (n,)
        Q times ``point``.
    entries : float
        Kernel entries evaluated.
    shift : float, default=0
        The multiplier of the problem as given, less that of the centred one.
    """

    def __init__(
        self,
        problem: DualProblem,
        found: NDArray,
        point: NDArray,
        Qa: NDArray,
        entries: float,
        shift: float = 0.0,
    ) -> None:
        quadratic, capped, growth = float(point @ Qa), problem.effective_upper, problem.gram.growth
        own = problem.p, problem.e, problem.upper, capped, problem.d, problem.diag(), problem.ridge
        lower, low, high, rounding, terms = appraised(point, Qa, quadratic, *own, growth)
        objective = 0.5 * quadratic - float(problem.p @ point)
        row = CertificateRow(objective, lower, 0.0, 0.0, low, high, quadratic, terms, rounding)
        self.__dict__.update(problem=problem, found=found, point=point, Qa=Qa, row=row, shift=shift, entries=entries)

    problem: DualProblem
    found: NDArray
    point: NDArray
    Qa: NDArray
    row: CertificateRow
    shift: float
    entries: float

    def timed(self, seconds: float, certify_s: float) -> DirectSingle:
        """Set the seconds that were spent in total and on certificates, and return this result."""
        self.__dict__.update(seconds=seconds - certify_s, certify_s=certify_s)
        return self

    @property
    def kernel_columns(self) -> float:
        return self.entries / len(self.point)

    @property
    def relative_gap(self) -> float:
        """The relative gap; ∞ if a number overflows."""
        return self.row.gaps[1] if self.row.is_finite else math.inf

    @property
    def relative_rounding(self) -> float:
        """The rounding error of the gap, in the same units."""
        return 0.0 if self.row.vanishes else self.row.rounding / self.row.size

    def suffices(self, gap_tol: float, tol: float) -> bool:
        """Whether the gap as computed reaches ``gap_tol``, and ``tol`` with its rounding error.

        ``gap_tol`` may be missed by round-off, which other methods have too.
        """
        gap = self.relative_gap
        if not gap <= tol:
            return False
        rounding = self.relative_rounding
        return gap + rounding <= tol and gap <= max(gap_tol, min(MAX_GAP_WITHIN_ROUNDING, rounding))

    @cached_property
    def rho(self) -> NDArray:
        """Qα − p − νe, shape (n,)."""
        problem, rho = self.problem, self.Qa - self.problem.p
        return rho if problem.e is None else rho - multiplier_of((self.row.low, self.row.high)) * problem.e

    @cached_property
    def alpha(self) -> NDArray:
        return immutable(self.found)

    @cached_property
    def certificate(self) -> Certificate:
        problem, point, Qa = self.problem, self.point, self.Qa
        bound, psd = dual_bound(problem, point, Qa), SpectrumEvidence("by kernel")
        return certificate_of(problem, psd, self.found, point, point, Qa, bound, self.shift)

    @cached_property
    def answer(self) -> Answer | Certificate:
        interval = None if self.problem.e is None else (self.row.low, self.row.high)
        return answer_of(self.problem, self.point, self.row.quadratic, interval, self.shift)

    def support(self, problem: DualProblem) -> NDArray:
        return supporting(self.problem, self.point, self.rho)
