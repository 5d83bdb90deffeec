"""Circuit builders, one family a file; each stands beside its own ideal distribution in plain numpy."""

from .base import ParametricCircuit
from .chebyshev import ChebyshevCircuit
from .tree import TreeCircuit

__all__ = ["ChebyshevCircuit", "ParametricCircuit", "TreeCircuit"]
