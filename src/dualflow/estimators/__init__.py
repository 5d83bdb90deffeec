"""Floor 5: estimators in scikit-learn's manner. They know data, `dualflow.problems` and `Solution`, and no solver."""

from ._base import FitError
from ._persistence import load
from .generalization import GeneralizationReport, generalization_report
from .svc import SVC
from .svdd import SVDD

__all__ = ["SVC", "SVDD", "FitError", "GeneralizationReport", "generalization_report", "load"]
