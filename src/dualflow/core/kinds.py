"""The shapes of feasible sets."""

from __future__ import annotations

from enum import Enum

import numpy as np
from numpy.typing import NDArray

__all__ = ["Kind", "kind_of"]


class Kind(Enum):
    """The shape of the feasible set; a solver declares which of these it can solve.

    Examples
    --------
    >>> from dualflow import Gram, Kind, problems
    >>> gram = Gram([[0.0], [1.0]])
    >>> problems.svc(gram, [-1, 1]).kind is Kind.BOX_EQUALITY, problems.svdd(gram).kind is Kind.SIMPLEX
    (True, True)
    """

    BOX_EQUALITY = "box with equality"  # 0 ≤ α ≤ u < ∞, eᵀα = d: C-SVM, SVR
    BOX = "box"  # 0 ≤ α ≤ u < ∞: C-SVM without bias
    SIMPLEX = "simplex"  # 0 ≤ α, 1ᵀα = 1: L2-SVM, hard SVDD
    CAPPED_SIMPLEX = "capped simplex"  # 0 ≤ α ≤ u, 1ᵀα = 1: soft SVDD, one-class
    ORTHANT_EQUALITY = "orthant with equality"  # 0 ≤ α, eᵀα = d: hard margin; may be unbounded below
    ORTHANT = "orthant"  # 0 ≤ α: hard margin without bias; may be unbounded below
    TWO_EQUALITIES = "box with two equalities"  # 0 ≤ α ≤ u < ∞, eᵀα = d, 1ᵀα = total: ν-SVC, ν-SVR
    AFFINE = "affine"  # α free, eᵀα = d or not: least squares

    __hash__ = object.__hash__  # not by the name, which a solver could overwrite for all problems

    @property
    def may_be_unbounded(self) -> bool:
        """Whether the dual can fall without end, which says that the data are not separable."""
        return self in (Kind.ORTHANT, Kind.ORTHANT_EQUALITY)


def kind_of(lower: NDArray, upper: NDArray, e: NDArray | None, d: float, total: float | None = None) -> Kind:
    """The shape of {l ≤ α ≤ u, eᵀα = d, 1ᵀα = total}; without ``e`` or ``total`` their equality is missing."""
    if total is not None:
        return Kind.TWO_EQUALITIES
    if np.isneginf(lower[0]):
        return Kind.AFFINE
    # A bound of 0 (a point of weight 0) caps nothing: it only takes its variable out.
    capped = bool(np.isfinite(upper[upper > 0]).any())
    if e is None:
        return Kind.BOX if capped else Kind.ORTHANT
    if (e == 1).all() and d > 0:
        return Kind.CAPPED_SIMPLEX if capped or (upper == 0).any() else Kind.SIMPLEX
    return Kind.BOX_EQUALITY if capped else Kind.ORTHANT_EQUALITY
