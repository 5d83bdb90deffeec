"""Floor 3: the solvers, one short file each. This is the catalogue: one line a solver, imported when used."""

from typing import Any

from ..catalogue import Catalogue
from ..exceptions import SolverMismatch
from .base import Solver

__all__ = ["CATALOGUE", "SOLVERS", "Solver"]

CATALOGUE = {
    "working-set": "dualflow.solvers.working_set:WorkingSet",
    "level-search": "dualflow.solvers.level_search:LevelSearch",
    "incremental": "dualflow.solvers.incremental:Incremental",
    "smo": "dualflow.solvers.smo:SMO",
    "gradient-flow": "dualflow.solvers.gradient_flow:GradientFlow",
    "lotka-volterra": "dualflow.solvers.lotka_volterra:LotkaVolterra",
    "analog-flow": "dualflow.solvers.analog_flow:AnalogFlow",
    "frank-wolfe": "dualflow.solvers.frank_wolfe:FrankWolfe",
    "invasion": "dualflow.solvers.invasion:Invasion",
    "cascade": "dualflow.solvers.cascade:Cascade",
    "evolution-strategy": "dualflow.solvers.evolution_strategy:EvolutionStrategy",
    "particle-swarm": "dualflow.solvers.particle_swarm:ParticleSwarm",
    "interior-point": "dualflow.solvers.interior_point:InteriorPoint",
    "cvxopt": "dualflow.solvers.cvxopt:CVXOPT",
    "qpsolvers": "dualflow.solvers.qpsolvers:QPSolvers",
    "quantum-invasion": "dualflow.solvers.quantum_invasion:QuantumInvasion",
    "hamiltonian-dilation": "dualflow.solvers.hamiltonian_dilation:HamiltonianDilation",
    "hamiltonian-schrodingerisation": "dualflow.solvers.hamiltonian_schrodingerisation:HamiltonianSchrodingerisation",
    "hamiltonian-lchs": "dualflow.solvers.hamiltonian_lchs:HamiltonianLCHS",
    "hhl": "dualflow.solvers.hhl:HHL",
    "variational-flow": "dualflow.solvers.variational_flow:VariationalFlow",
    "variational-dqc": "dualflow.solvers.variational_dqc:VariationalDQC",
    "variational-lotka-volterra": "dualflow.solvers.variational_lotka_volterra:VariationalLotkaVolterra",
    "hamiltonian-descent": "dualflow.solvers.hamiltonian_descent:HamiltonianDescent",
    "hamiltonian-adiabatic": "dualflow.solvers.hamiltonian_adiabatic:HamiltonianAdiabatic",
}

SOLVERS: Catalogue[Solver[Any, Any]] = Catalogue(Solver, CATALOGUE, SolverMismatch)
