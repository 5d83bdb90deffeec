"""Plots as scikit-learn displays, by matplotlib, which is imported when the first plot is drawn.

Displays read attributes of solutions, estimators and comparisons and do not import their modules, so that any module
may import a display.
"""

from .comparison import ComparisonDisplay
from .ecosystem import EcosystemDisplay
from .quantum_run import QuantumRunDisplay
from .regularization import RegularizationPathDisplay
from .scaling import ScalingDisplay
from .support import SupportDisplay
from .trajectory import TrajectoryDisplay

__all__ = [
    "ComparisonDisplay",
    "EcosystemDisplay",
    "QuantumRunDisplay",
    "RegularizationPathDisplay",
    "ScalingDisplay",
    "SupportDisplay",
    "TrajectoryDisplay",
]
