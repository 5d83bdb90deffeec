"""The certified models of a problem without each of its points in turn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certificate, Certifier
from ..core.decision import coefficients
from ..core.kernel_matrix import KernelMatrix
from ..core.problem import DualProblem
from .leave_one_out import Optimum
from .left_out import LARGEST, Response
from .state import PathError
from .unlearning import Unlearning

__all__ = ["Without", "each_without"]

#: Models whose products are made together.
AT_ONCE = 128
#: Failures of the response, more than half of what it was asked, after which it is no longer asked.
GIVES_UP = 8


@dataclass(frozen=True)
class Without:
    """A model without point c.

    Attributes
    ----------
    point : int
    problem : DualProblem
        `centred`, with the upper bound 0 for c.
    certificate : Certificate
        Of its α, by a product from scratch; biases are those over points as ``problem`` has them.
    refitted : bool
        Whether it took a solve of its own.
    gram : KernelMatrix
        The problem's, with what is known of it.
    """

    point: int
    problem: DualProblem
    certificate: Certificate
    refitted: bool
    gram: KernelMatrix

    def weights(self) -> NDArray:
        """Weight of every point in the expansion, shape (n,)."""
        return coefficients(self.problem, self.certificate)

    def expansion(self, weights: NDArray) -> float:
        """That at point c, without bias."""
        (J,) = np.nonzero(weights)
        return float(self.gram.block([self.point], J)[0] @ weights[J])


def each_without(
    problem: DualProblem,
    alpha: NDArray,
    points: NDArray,
    optimum: Optimum,
    tol: float,
    stretches: NDArray | None = None,
) -> Iterator[Without]:
    """Take points out one at a time, of a problem with one variable a point, and certify what is left.

    Each is asked of the `Response` first and then of the path (`Unlearning`). Every answer is certified, by one product
    for many; what is not within the tolerance is solved for, from the optimum of all.

    Parameters
    ----------
    problem : DualProblem
        Positive semidefinite, with the lower bound 0; without any of the points something must be feasible.
    alpha : array of shape (n,)
        Its optimum.
    points : int array of shape (k,)
    optimum : callable
        Solves a problem from a start.
    tol : float
        Relative gap.
    stretches : array of shape (k,), optional
        How many times as large all bounds are without each point.
    """
    whole = Certifier(problem)
    posed, gram = whole.problem, whole.workspace.gram
    factors = np.ones(len(points)) if stretches is None else stretches
    Q = whole.workspace.dense() if posed.n <= LARGEST and len(points) > 1 else None
    proposer = None
    if Q is not None:
        known = whole.certify(alpha)
        proposer = _Proposer(posed, Q, known.alpha, (known.multiplier or 0.0) - whole.shift(known.alpha))
    for start in range(0, len(points), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        problems, proposals = [], []
        for c, factor in zip(points[part].tolist(), factors[part].tolist(), strict=True):
            upper = factor * posed.upper
            upper[c] = 0.0
            problems.append(rest := posed.within(upper))
            found = None if proposer is None else proposer.without(c, factor)
            proposals.append(None if found is None else rest.project(found))
        asked = [found for found in proposals if found is not None]
        products = iter(np.stack(asked) @ Q) if asked and Q is not None else iter(())  # Q is symmetric
        for c, rest, found in zip(points[part].tolist(), problems, proposals, strict=True):
            certificate = None if found is None else whole.certify_product(found, next(products), rest)
            if refitted := certificate is None or not certificate.reaches(tol):
                certificate = optimum(rest, rest.project(alpha))
            yield Without(c, rest, certificate, refitted, gram)


class _Proposer:
    """What the linear response says of the optimum without a point, or else the path, if it has no answer either."""

    def __init__(self, problem: DualProblem, Q: NDArray, alpha: NDArray, nu: float) -> None:
        self.given = Q, problem.p, problem.e, problem.d, problem.upper, alpha, nu
        self.response: Response | None = None
        self.paths: Unlearning | None = None
        self.has_paths, self.asked, self.failed = True, 0, 0
        with suppress(PathError):
            self.response = Response(problem, Q, alpha)

    def without(self, c: int, stretch: float) -> NDArray | None:
        found = None if self.response is None else self.response.without(c, stretch)
        self.asked, self.failed = self.asked + 1, self.failed + (found is None)
        if self.failed > GIVES_UP and 2 * self.failed > self.asked:
            self.response = None
        if found is None and self.paths is None and self.has_paths:
            try:
                self.paths = Unlearning(*self.given)
            except PathError:
                self.has_paths = False
        return self.paths.without(c, stretch) if found is None and self.paths is not None else found
