"""The classical solvers, one file each; `registry` finds a solver, these and the quantum ones, by its name."""

from ..core.solver import SOLVERS, Solver

__all__ = ["SOLVERS", "Solver"]
