"""The classical solvers, one file each; `registry` finds a solver, these and the quantum ones, by its name."""

from ..catalogue import SOLVER_CLASSES as CATALOGUE
from ..core.solver import SOLVERS, Solver

__all__ = ["CATALOGUE", "SOLVERS", "Solver"]
