"""dualflow: support vector machines whose dual problem flows to rest, on solvers chosen by name, certified.

    X, y ─ Gram ─ DualProblem ─ Solver: start, step, step … ─ alpha ─ certify ─ Solution ─ support vectors

Importing the package loads no quantum package and no plotting package; solvers are imported when they are used.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

from . import problems
from ._checkpoint import Checkpoint
from ._solve import Progress, solve
from .core.certificate import Certificate, certify
from .core.kernels import Gram
from .core.problem import DualProblem, Kind
from .core.psd import Repair, repair
from .core.solution import Cost, Solution, Status, Trajectory
from .exceptions import DeviceError, DualflowError, ProblemError, SolverMismatch, SolverUnavailable
from .registry import SolverInfo, list_solvers
from .solvers import Solver

if TYPE_CHECKING:
    from .comparison import Comparison, compare
    from .estimators import (
        SVC,
        SVDD,
        EcoSVC,
        EcoSVDD,
        GeneralizationReport,
        IncrementalSVC,
        IncrementalSVDD,
        IncrementalSVR,
        generalization_report,
        load,
    )
    from .quantum.devices import DeviceInfo, list_devices
    from .quantum.kernels.fidelity import FidelityKernel, quantum_kernel
    from .quantum.runs.final_circuit import final_circuit
    from .solvers.cvxopt import CVXOPT
    from .solvers.evolution_strategy import EvolutionStrategy
    from .solvers.frank_wolfe import FrankWolfe
    from .solvers.gradient_flow import GradientFlow
    from .solvers.hamiltonian_adiabatic import HamiltonianAdiabatic
    from .solvers.hamiltonian_descent import HamiltonianDescent
    from .solvers.hamiltonian_dilation import HamiltonianDilation
    from .solvers.hamiltonian_lchs import HamiltonianLCHS
    from .solvers.hamiltonian_schrodingerisation import HamiltonianSchrodingerisation
    from .solvers.hhl import HHL
    from .solvers.incremental import Incremental
    from .solvers.invasion import Invasion
    from .solvers.lotka_volterra import LotkaVolterra
    from .solvers.particle_swarm import ParticleSwarm
    from .solvers.smo import SMO
    from .solvers.variational_dqc import VariationalDQC
    from .solvers.variational_flow import VariationalFlow
    from .solvers.variational_lotka_volterra import VariationalLotkaVolterra
    from .solvers.working_set import WorkingSet
    from .tradeoff import FrontStatus, ParetoFront, ParetoPoint, pareto_front

__version__ = importlib.metadata.version("dualflow")

__all__ = [
    "CVXOPT",
    "HHL",
    "SMO",
    "SVC",
    "SVDD",
    "Certificate",
    "Checkpoint",
    "Comparison",
    "Cost",
    "DeviceError",
    "DeviceInfo",
    "DualProblem",
    "DualflowError",
    "EcoSVC",
    "EcoSVDD",
    "EvolutionStrategy",
    "FidelityKernel",
    "FrankWolfe",
    "FrontStatus",
    "GeneralizationReport",
    "GradientFlow",
    "Gram",
    "HamiltonianAdiabatic",
    "HamiltonianDescent",
    "HamiltonianDilation",
    "HamiltonianLCHS",
    "HamiltonianSchrodingerisation",
    "Incremental",
    "IncrementalSVC",
    "IncrementalSVDD",
    "IncrementalSVR",
    "Invasion",
    "Kind",
    "LotkaVolterra",
    "ParetoFront",
    "ParetoPoint",
    "ParticleSwarm",
    "ProblemError",
    "Progress",
    "Repair",
    "Solution",
    "Solver",
    "SolverInfo",
    "SolverMismatch",
    "SolverUnavailable",
    "Status",
    "Trajectory",
    "VariationalDQC",
    "VariationalFlow",
    "VariationalLotkaVolterra",
    "WorkingSet",
    "__version__",
    "certify",
    "compare",
    "final_circuit",
    "generalization_report",
    "list_devices",
    "list_solvers",
    "load",
    "pareto_front",
    "problems",
    "quantum_kernel",
    "repair",
    "solve",
]

#: Names loaded on first use, because they (or what they need) take time to import.
_LAZY = {
    "SVC": "dualflow.estimators",
    "SVDD": "dualflow.estimators",
    "GeneralizationReport": "dualflow.estimators",
    "generalization_report": "dualflow.estimators",
    "load": "dualflow.estimators",
    "EcoSVC": "dualflow.estimators",
    "EcoSVDD": "dualflow.estimators",
    "IncrementalSVC": "dualflow.estimators",
    "IncrementalSVDD": "dualflow.estimators",
    "IncrementalSVR": "dualflow.estimators",
    "compare": "dualflow.comparison",
    "Comparison": "dualflow.comparison",
    "pareto_front": "dualflow.tradeoff",
    "ParetoFront": "dualflow.tradeoff",
    "ParetoPoint": "dualflow.tradeoff",
    "FrontStatus": "dualflow.tradeoff",
    "final_circuit": "dualflow.quantum.runs.final_circuit",
    "FidelityKernel": "dualflow.quantum.kernels.fidelity",
    "quantum_kernel": "dualflow.quantum.kernels.fidelity",
    "list_devices": "dualflow.quantum.devices",
    "DeviceInfo": "dualflow.quantum.devices",
    "SMO": "dualflow.solvers.smo",
    "GradientFlow": "dualflow.solvers.gradient_flow",
    "HamiltonianAdiabatic": "dualflow.solvers.hamiltonian_adiabatic",
    "HamiltonianDescent": "dualflow.solvers.hamiltonian_descent",
    "HamiltonianDilation": "dualflow.solvers.hamiltonian_dilation",
    "HHL": "dualflow.solvers.hhl",
    "Incremental": "dualflow.solvers.incremental",
    "Invasion": "dualflow.solvers.invasion",
    "LotkaVolterra": "dualflow.solvers.lotka_volterra",
    "EvolutionStrategy": "dualflow.solvers.evolution_strategy",
    "ParticleSwarm": "dualflow.solvers.particle_swarm",
    "FrankWolfe": "dualflow.solvers.frank_wolfe",
    "CVXOPT": "dualflow.solvers.cvxopt",
    "HamiltonianLCHS": "dualflow.solvers.hamiltonian_lchs",
    "HamiltonianSchrodingerisation": "dualflow.solvers.hamiltonian_schrodingerisation",
    "VariationalDQC": "dualflow.solvers.variational_dqc",
    "VariationalFlow": "dualflow.solvers.variational_flow",
    "VariationalLotkaVolterra": "dualflow.solvers.variational_lotka_volterra",
    "WorkingSet": "dualflow.solvers.working_set",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'dualflow' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
