"""dualflow: support vector machines whose dual problems are solved by interchangeable solvers and certified.

    X, y ─ Gram ─ DualProblem ─ Solver: start, step, step … ─ alpha ─ certify ─ Solution ─ support vectors

Importing the package loads no quantum package and no plotting package; solvers are imported when they are used.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

from . import problems
from .core.certificate import Certificate, certify
from .core.gram import Gram
from .core.problem import DualProblem, Kind
from .core.psd import Repair, repair
from .core.reading import Reading
from .core.runtime.imports import call_after_import
from .core.solution import Cost, DirectResult, Solution, Status, Trajectory
from .core.workspace import Workspace
from .driver.checkpoint import Checkpoint
from .driver.solve import Progress, solve
from .exceptions import (
    BudgetSpent,
    ConcentrationWarning,
    DeviceError,
    DualflowError,
    EngineError,
    FidelityWarning,
    FitError,
    ProblemError,
    SolverMismatch,
    SolverUnavailable,
    UnusedCircuitsWarning,
)
from .solvers import SOLVERS, Solver
from .solvers.registry import SolverInfo, list_solvers

if TYPE_CHECKING:
    from .comparison import Comparison, ScalingPoint, ScalingStudy, compare, scaling_study
    from .conformal import ConformalSVC, ConformalSVR
    from .core.runtime.memory import release_memory
    from .displays import (
        ComparisonDisplay,
        EcosystemDisplay,
        QuantumRunDisplay,
        RegularizationPathDisplay,
        ScalingDisplay,
        SupportDisplay,
        TrajectoryDisplay,
    )
    from .estimators import (
        LDA,
        LSSVC,
        LSSVR,
        SVC,
        SVDD,
        SVR,
        CascadeSVC,
        CascadeSVDD,
        CascadeSVR,
        EcoSVC,
        EcoSVDD,
        GeneralizationReport,
        IncrementalSVC,
        IncrementalSVDD,
        IncrementalSVR,
        NuSVC,
        NuSVR,
        OneClassSVM,
        PartitionedLinearSVC,
        PartitionedLinearSVDD,
        PartitionedLinearSVR,
        QuantileSVR,
        generalization_report,
        load,
        verify_removal,
    )
    from .planning.circuit import circuit
    from .planning.estimate import Estimate, estimate
    from .planning.resources import ResourceTable, resources
    from .quantum.devices import Device, DeviceInfo, Noise, list_devices
    from .quantum.devices.spread import SpreadDevice
    from .quantum.kernels.alignment import kernel_alignment
    from .quantum.kernels.concentration import Concentration, concentration
    from .quantum.kernels.fidelity import FidelityKernel, quantum_kernel
    from .quantum.kernels.projected import ProjectedKernel
    from .quantum.kernels.reuploading import Reuploading
    from .quantum.kernels.training import KernelTraining, train_kernel
    from .quantum.runs.final_circuit import final_circuit
    from .quantum.runs.recording import CircuitRecord, record_circuits
    from .quantum.solvers.base import QuantumSolver
    from .quantum.solvers.qubo import Qubo, to_qubo
    from .quantum.solvers.reach import AnsatzReach, ansatz_reach
    from .selection import RegularizationPath, SVCSearchCV, SVRSearchCV, regularization_path
    from .tradeoff import FrontStatus, ParetoFront, ParetoPoint, pareto_front

__version__ = importlib.metadata.version("dualflow")

__all__ = [
    "LDA",
    "LSSVC",
    "LSSVR",
    "SVC",
    "SVDD",
    "SVR",
    "AnsatzReach",
    "BudgetSpent",
    "CascadeSVC",
    "CascadeSVDD",
    "CascadeSVR",
    "Certificate",
    "Checkpoint",
    "CircuitRecord",
    "Comparison",
    "ComparisonDisplay",
    "Concentration",
    "ConcentrationWarning",
    "ConformalSVC",
    "ConformalSVR",
    "Cost",
    "Device",
    "DeviceError",
    "DeviceInfo",
    "DirectResult",
    "DualProblem",
    "DualflowError",
    "EcoSVC",
    "EcoSVDD",
    "EcosystemDisplay",
    "EngineError",
    "Estimate",
    "FidelityKernel",
    "FidelityWarning",
    "FitError",
    "FrontStatus",
    "GeneralizationReport",
    "Gram",
    "IncrementalSVC",
    "IncrementalSVDD",
    "IncrementalSVR",
    "KernelTraining",
    "Kind",
    "Noise",
    "NuSVC",
    "NuSVR",
    "OneClassSVM",
    "ParetoFront",
    "ParetoPoint",
    "PartitionedLinearSVC",
    "PartitionedLinearSVDD",
    "PartitionedLinearSVR",
    "ProblemError",
    "Progress",
    "ProjectedKernel",
    "QuantileSVR",
    "QuantumRunDisplay",
    "QuantumSolver",
    "Qubo",
    "Reading",
    "RegularizationPath",
    "RegularizationPathDisplay",
    "Repair",
    "ResourceTable",
    "Reuploading",
    "SVCSearchCV",
    "SVRSearchCV",
    "ScalingDisplay",
    "ScalingPoint",
    "ScalingStudy",
    "Solution",
    "Solver",
    "SolverInfo",
    "SolverMismatch",
    "SolverUnavailable",
    "SpreadDevice",
    "Status",
    "SupportDisplay",
    "Trajectory",
    "TrajectoryDisplay",
    "UnusedCircuitsWarning",
    "Workspace",
    "__version__",
    "ansatz_reach",
    "certify",
    "circuit",
    "compare",
    "concentration",
    "estimate",
    "final_circuit",
    "generalization_report",
    "kernel_alignment",
    "list_devices",
    "list_solvers",
    "load",
    "pareto_front",
    "problems",
    "quantum_kernel",
    "record_circuits",
    "regularization_path",
    "release_memory",
    "repair",
    "resources",
    "scaling_study",
    "solve",
    "to_qubo",
    "train_kernel",
    "verify_removal",
]

#: Modules of the names that are loaded on first use, because they or their dependencies take time to import.
_ROOMS = {
    "planning.circuit": ("circuit",),
    "planning.estimate": ("Estimate", "estimate"),
    "planning.resources": ("ResourceTable", "resources"),
    "comparison": ("Comparison", "ScalingPoint", "ScalingStudy", "compare", "scaling_study"),
    "conformal": ("ConformalSVC", "ConformalSVR"),
    "estimators": (
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
    ),
    "core.runtime.memory": ("release_memory",),
    "displays": (
        "ComparisonDisplay",
        "EcosystemDisplay",
        "QuantumRunDisplay",
        "RegularizationPathDisplay",
        "ScalingDisplay",
        "SupportDisplay",
        "TrajectoryDisplay",
    ),
    "quantum.devices": ("Device", "DeviceInfo", "Noise", "list_devices"),
    "quantum.devices.spread": ("SpreadDevice",),
    "quantum.kernels.alignment": ("kernel_alignment",),
    "quantum.kernels.concentration": ("Concentration", "concentration"),
    "quantum.kernels.fidelity": ("FidelityKernel", "quantum_kernel"),
    "quantum.kernels.projected": ("ProjectedKernel",),
    "quantum.kernels.reuploading": ("Reuploading",),
    "quantum.kernels.training": ("KernelTraining", "train_kernel"),
    "quantum.runs.final_circuit": ("final_circuit",),
    "quantum.runs.recording": ("CircuitRecord", "record_circuits"),
    "selection": ("RegularizationPath", "SVCSearchCV", "SVRSearchCV", "regularization_path"),
    "quantum.solvers.base": ("QuantumSolver",),
    "quantum.solvers.qubo": ("Qubo", "to_qubo"),
    "quantum.solvers.reach": ("AnsatzReach", "ansatz_reach"),
    "tradeoff": ("FrontStatus", "ParetoFront", "ParetoPoint", "pareto_front"),
}
#: Class names of the catalogue's solvers, with their modules.
_SOLVERS = {name: module for module, name in (target.split(":") for target in SOLVERS.targets.values())}
_LAZY = {name: f"dualflow.{room}" for room, names in _ROOMS.items() for name in names} | _SOLVERS
__all__ += list(_SOLVERS)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'dualflow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


# skl2onnx converts a model of another package only if that has registered its converters.
call_after_import("skl2onnx", "dualflow.interchange.onnx_export:register_onnx")
