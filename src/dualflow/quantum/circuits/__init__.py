"""Circuit builders, one family a file; each stands beside its own ideal distribution in plain numpy."""

from .ancilla import AncillaCircuit
from .anneal import AnnealCircuit
from .base import ParametricCircuit
from .calibration import CalibrationCircuit
from .chebyshev import ChebyshevCircuit
from .hardware_efficient import HardwareEfficientCircuit
from .qhd import QHDCircuit
from .tree import TreeCircuit

__all__ = [
    "AncillaCircuit",
    "AnnealCircuit",
    "CalibrationCircuit",
    "ChebyshevCircuit",
    "HardwareEfficientCircuit",
    "ParametricCircuit",
    "QHDCircuit",
    "TreeCircuit",
]
