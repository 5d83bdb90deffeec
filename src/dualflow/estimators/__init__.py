"""Floor 5: estimators in scikit-learn's manner. They know data, `dualflow.problems` and `Solution`, and no solver."""

from ._base import FitError
from .eco_svc import EcoSVC
from .eco_svdd import EcoSVDD
from .svc import SVC
from .svdd import SVDD

__all__ = ["SVC", "SVDD", "EcoSVC", "EcoSVDD", "FitError"]
