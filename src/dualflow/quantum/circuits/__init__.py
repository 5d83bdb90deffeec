"""Circuit builders, one family a file; each stands beside its own ideal distribution in plain numpy."""

from .ancilla import AncillaCircuit
from .anneal import AnnealCircuit
from .base import ParametricCircuit
from .calibration import CalibrationCircuit
from .chebyshev import ChebyshevCircuit
from .fidelity import FidelityCircuit
from .hardware_efficient import HardwareEfficientCircuit
from .hhl import HHLCircuit
from .lchs import LCHSCircuit
from .qhd import QHDCircuit
from .schrodingerised import SchrodingerisedCircuit
from .tree import TreeCircuit

__all__ = [
    "AncillaCircuit",
    "AnnealCircuit",
    "CalibrationCircuit",
    "ChebyshevCircuit",
    "FidelityCircuit",
    "HHLCircuit",
    "HardwareEfficientCircuit",
    "LCHSCircuit",
    "ParametricCircuit",
    "QHDCircuit",
    "SchrodingerisedCircuit",
    "TreeCircuit",
]
