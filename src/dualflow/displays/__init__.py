"""Pictures in scikit-learn's manner, by matplotlib, which is imported when the first is drawn.

They read what solutions, estimators and comparisons carry and import none of them, so that any room may have a
``plot``.
"""

from .comparison import ComparisonDisplay
from .ecosystem import EcosystemDisplay
from .support import SupportDisplay
from .trajectory import TrajectoryDisplay

__all__ = ["ComparisonDisplay", "EcosystemDisplay", "SupportDisplay", "TrajectoryDisplay"]
