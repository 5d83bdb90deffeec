"""Solvers by name. Third parties join by the entry-point group "dualflow.solvers"."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.features import rank_by_kernel, scales_apart
from ..core.gram import KernelMatrix
from ..core.problem import Kind
from . import CATALOGUE, SOLVERS, Solver

__all__ = [
    "AUTO",
    "CATALOGUE",
    "DEFAULT_SOLVER",
    "SolverInfo",
    "list_solvers",
    "make_solver",
    "solver_class",
    "solver_names",
    "usual_solver",
]

#: What stands for the solver that suits a problem, and the one that suits all with lower bounds.
AUTO, DEFAULT_SOLVER = "auto", "working-set"
#: Variables from which `interior-point` is the faster one where few columns make the kernel matrix, and the squared
#: number of columns, a point, up to which it is (benchmarks/classical/linear.py).
MIN_VARIABLES_LOW_RANK, MAX_SQUARE_A_POINT = 1000, 10
#: How far apart the scales of columns may be before no α of float64 says what the weights are, to a gap of 1e-6; and
#: points a column from which `interior-point` has weights of its own.
MAX_APART, MIN_POINTS_A_COLUMN = 1e4, 4


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


def usual_solver(gram: KernelMatrix, n: int) -> str:
    """The name of the solver that "auto" stands for, of a problem of n variables with finite bounds."""
    if _is_low(gram) and n >= MIN_VARIABLES_LOW_RANK:
        return "interior-point"
    apart = gram.is_linear and MIN_POINTS_A_COLUMN * gram.X.shape[1] <= n and scales_apart(gram.X) > MAX_APART
    return "interior-point" if apart else DEFAULT_SOLVER


def _is_low(gram: KernelMatrix) -> bool:
    """Whether few columns make a kernel matrix, as its kernel says."""
    rank = rank_by_kernel(gram)
    return rank is not None and rank * rank <= MAX_SQUARE_A_POINT * gram.n


def make_solver(
    solver: str | Solver[Any, Any],
    options: dict[str, Any] | None = None,
    gram: KernelMatrix | None = None,
    n: int = 0,
    kind: Kind | None = None,
) -> Solver[Any, Any]:
    """An instance from a name and its options, or the instance that was given. "auto" is the `usual_solver` of a
    problem of n variables; without one it is the default solver, as it is with options, which are that one's. Of a
    ``kind`` with two equalities it is "interior-point" where few columns make the kernel matrix, or "level-search"."""
    if isinstance(solver, str) and solver == AUTO:
        if kind is Kind.TWO_EQUALITIES:
            solver = "interior-point" if not options and gram is not None and _is_low(gram) else "level-search"
        else:
            solver = DEFAULT_SOLVER if options or gram is None else usual_solver(gram, n)
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
    ['working-set', 'level-search']
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
