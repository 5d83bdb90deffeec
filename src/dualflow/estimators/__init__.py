"""Estimators with scikit-learn's interface."""

from ..exceptions import FitError
from ._persistence import load
from ._removal import verify_removal
from .cascade_svc import CascadeSVC
from .cascade_values import CascadeSVDD, CascadeSVR
from .eco_svc import EcoSVC
from .eco_svdd import EcoSVDD
from .generalization import GeneralizationReport, generalization_report
from .incremental import IncrementalSVC, IncrementalSVDD, IncrementalSVR
from .lda import LDA
from .least_squares import LSSVC, LSSVR
from .nu_svm import NuSVC, NuSVR
from .one_class import OneClassSVM
from .partitioned_linear import PartitionedLinearSVC, PartitionedLinearSVDD, PartitionedLinearSVR
from .quantile_svr import QuantileSVR
from .svc import SVC
from .svdd import SVDD
from .svr import SVR

__all__ = [
    "LDA",
    "LSSVC",
    "LSSVR",
    "SVC",
    "SVDD",
    "SVR",
    "CascadeSVC",
    "CascadeSVDD",
    "CascadeSVR",
    "EcoSVC",
    "EcoSVDD",
    "FitError",
    "GeneralizationReport",
    "IncrementalSVC",
    "IncrementalSVDD",
    "IncrementalSVR",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "PartitionedLinearSVC",
    "PartitionedLinearSVDD",
    "PartitionedLinearSVR",
    "QuantileSVR",
    "generalization_report",
    "load",
    "verify_removal",
]
