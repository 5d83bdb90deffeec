"""Names to solvers, lazily. Third parties join by the entry-point group "dualflow.solvers"."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from .exceptions import SolverMismatch, SolverUnavailable
from .solvers import CATALOGUE, Solver

__all__ = [
    "ENTRY_POINT_GROUP",
    "SolverInfo",
    "list_solvers",
    "make_solver",
    "solver_class",
    "solver_names",
]

ENTRY_POINT_GROUP = "dualflow.solvers"


@dataclass(frozen=True)
class SolverInfo:
    """One row of `list_solvers`.

    ``install`` is None when the solver can run, else what to do about it.
    """

    name: str
    kinds: tuple[str, ...]
    accuracy: str
    maturity: str
    max_n: int | None
    quantum: bool
    summary: str
    install: str | None = None


def solver_names() -> list[str]:
    """Every known name: the catalogue, then entry points, in their order."""
    return list(_targets())


def solver_class(name: str) -> type[Solver]:
    """The class behind a name.

    Raises
    ------
    SolverMismatch
        No solver has that name; the message lists the names and the nearest.
    SolverUnavailable
        The module behind an entry point cannot be imported.
    """
    # Looking up entry points takes as long as a small fit, so names of the catalogue do without.
    targets = CATALOGUE if name in CATALOGUE else _targets()
    if name not in targets:
        near = difflib.get_close_matches(str(name), targets, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise SolverMismatch(f"solver={name!r} is not known (there are {', '.join(targets)}){hint}")
    module, _, attribute = targets[name].partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise SolverUnavailable(f"solver {name!r} could not be imported from {module}: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Solver)):
        raise SolverUnavailable(f"solver {name!r}: {targets[name]} is not a subclass of dualflow.Solver")
    return found


def make_solver(solver: str | Solver, options: dict[str, Any] | None = None) -> Solver:
    """An instance from a name and its options, or the instance that was given."""
    if isinstance(solver, Solver):
        if options:
            raise TypeError(f"options {sorted(options)} go with a solver's name, not with an instance of one")
        found = solver
    elif isinstance(solver, str):
        found = solver_class(solver).from_options(options or {})
    else:
        raise TypeError(f"solver must be a name or a dualflow.Solver instance, found {type(solver).__name__}")
    found.check_installed()
    return found


def list_solvers() -> list[SolverInfo]:
    """All solvers: what each can solve, and whether it is installed."""
    rows = []
    for name in solver_names():
        try:
            cls = solver_class(name)
        except SolverUnavailable as error:
            rows.append(SolverInfo(name, (), "", "", None, False, "", install=str(error)))
            continue
        gone = cls.missing()
        line = f"pip install 'dualflow[{cls.extra}]'" if cls.extra else "pip install " + " ".join(gone)
        rows.append(
            SolverInfo(
                name=name,
                kinds=tuple(sorted(kind.value for kind in cls.kinds)),
                accuracy=cls.accuracy,
                maturity=cls.maturity,
                max_n=cls.max_n,
                quantum=cls.quantum,
                summary=(cls.__doc__ or "").strip().partition("\n")[0],
                install=line if gone else None,
            )
        )
    return rows


def _targets() -> dict[str, str]:
    """Name to "module:Class". Entry points cannot take a catalogue name."""
    targets = dict(CATALOGUE)
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        targets.setdefault(entry.name, entry.value)
    return targets
