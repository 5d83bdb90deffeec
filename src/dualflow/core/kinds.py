"""The shapes of feasible sets."""

from enum import Enum

__all__ = ["Kind"]


class Kind(Enum):
    """The shape of the feasible set; a solver declares which of these it can solve."""

    BOX_EQUALITY = "box with equality"  # 0 ≤ α ≤ u < ∞, eᵀα = d: C-SVM, SVR
    BOX = "box"  # 0 ≤ α ≤ u < ∞: C-SVM without bias
    SIMPLEX = "simplex"  # 0 ≤ α, 1ᵀα = 1: L2-SVM, hard SVDD
    CAPPED_SIMPLEX = "capped simplex"  # 0 ≤ α ≤ u, 1ᵀα = 1: soft SVDD, one-class
    ORTHANT_EQUALITY = "orthant with equality"  # 0 ≤ α, eᵀα = d: hard margin; may be unbounded below
    ORTHANT = "orthant"  # 0 ≤ α: hard margin without bias; may be unbounded below
    AFFINE = "affine"  # α free, eᵀα = d or not: least squares

    __hash__ = object.__hash__  # not by the name, which a solver could overwrite for all problems

    @property
    def may_be_unbounded(self) -> bool:
        """Whether the dual can fall without end, which says that the data are not separable."""
        return self in (Kind.ORTHANT, Kind.ORTHANT_EQUALITY)
