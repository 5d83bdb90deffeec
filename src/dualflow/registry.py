"""Solvers by name. Third parties join by the entry-point group "dualflow.solvers"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .solvers import CATALOGUE, SOLVERS, Solver

__all__ = ["CATALOGUE", "SolverInfo", "list_solvers", "make_solver", "solver_class", "solver_names"]


@dataclass(frozen=True)
class SolverInfo:
    """One row of `list_solvers`.

    ``install`` is None when the solver can run, else what to do about it.

    Examples
    --------
    >>> from dualflow import list_solvers
    >>> next(info for info in list_solvers() if info.name == "smo").accuracy
    'iterative'
    """

    name: str
    kinds: tuple[str, ...] = ()
    accuracy: str = ""
    maturity: str = ""
    max_n: int | None = None
    quantum: bool = False
    summary: str = ""
    install: str | None = None


def solver_names() -> list[str]:
    """Every known name: the catalogue, then entry points, in their order."""
    return SOLVERS.names()


def solver_class(name: str) -> type[Solver[Any, Any]]:
    """The class behind a name.

    Raises
    ------
    SolverMismatch
        No solver has that name; the message lists the names and the nearest.
    SolverUnavailable
        The module behind an entry point cannot be imported.
    """
    return SOLVERS.find(name)


def make_solver(solver: str | Solver[Any, Any], options: dict[str, Any] | None = None) -> Solver[Any, Any]:
    """An instance from a name and its options, or the instance that was given."""
    if isinstance(solver, Solver):
        if options:
            raise TypeError(f"options {sorted(options)} go with a solver's name, not with an instance of one")
        found = solver
    elif isinstance(solver, str):
        found = SOLVERS.find(solver).from_options(options or {})
    else:
        raise TypeError(f"solver must be a name or a dualflow.Solver instance, found {type(solver).__name__}")
    SOLVERS.check_installed(found.name, type(found))
    return found


def list_solvers() -> list[SolverInfo]:
    """All solvers: what each can solve, and whether it is installed.

    Examples
    --------
    >>> from dualflow import list_solvers
    >>> [info.name for info in list_solvers() if not info.quantum][:2]
    ['working-set', 'incremental']
    """
    return [
        SolverInfo(name, install=install)
        if cls is None
        else SolverInfo(
            name=name,
            kinds=tuple(sorted(kind.value for kind in cls.kinds)),
            accuracy=cls.accuracy,
            maturity=cls.maturity,
            max_n=cls.max_n,
            quantum=cls.quantum,
            summary=cls.summary(),
            install=install,
        )
        for name, cls, install in SOLVERS.rows()
    ]
