"""Solvers by name. Third parties add solvers by the entry-point group "dualflow.solvers"."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import inf
from typing import Any, NamedTuple

from ..catalogue import CatalogueEntry
from ..core.bounds import ridges_apart
from ..core.features import has_few_columns, scales_apart
from ..core.gram import KernelMatrix
from ..core.monomials import rank_by_kernel
from ..core.places import few_distinct
from ..core.problem import DualProblem, Kind
from ..core.repeats import MAX_DISTINCT_SHARE
from ..direct.matrix_rows import suits_few_rows
from ..working_set.seeding import least_nonzero
from . import SOLVERS, Solver

#: Name that stands for the solver that suits a problem.
AUTO = "auto"
#: The solver for all problems with lower bounds.
DEFAULT_SOLVER = "working-set"
#: With at least this many variables, `interior-point` is faster than `working-set` for a kernel matrix of low rank
#: (benchmarks/classical/linear.py), ...
MIN_N_INTERIOR_POINT = 1000
#: ... if the squared rank per point is at most this.
MAX_RANK_SQUARED_PER_POINT = 20
#: If at most this many variables must share the sum of a simplex, `working-set` is faster, because few others are
#: nonzero. With more and a linear kernel, 15 836 points of 52 features in clusters take 134 against 55 ms.
MAX_SHARING = 500
#: If the columns' scales differ by more than this ratio, no α in float64 determines the weights to a gap of 1e-6.
MAX_SCALE_RATIO = 1e4
#: If the largest bound × the number of variables is at least this, a radial kernel of few columns is for
#: `interior-point`. `SVC` of 10 000 points of one or two smooth features takes as long by both at C = 1e4, and at C =
#: 1e6 0.4 to 0.7 s against 36 and more.
MIN_SUM_OF_BOUNDS = 1e8
#: Its columns, at most, and the points per column: those of two smooth features are 180 to 200.
MAX_COLUMNS_FACTOR, MIN_POINTS_PER_COLUMN_FACTOR = 512, 4
#: With more points, the working set stays the choice: nothing was measured there, and the factor takes n × r numbers.
MAX_POINTS_FACTOR = 20_000
#: With at least this many points per column, `interior-point` computes weights directly.
MIN_POINTS_PER_COLUMN = 4


@dataclass(frozen=True)
class SolverInfo:
    """One row of `list_solvers`.

    ``install`` is None if the solver can run, else the command that installs what it needs.

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
    """Return all known names: the catalogue, then entry points, in their order."""
    return SOLVERS.names()


def solver_class(name: str) -> type[Solver[Any, Any]]:
    """Return the solver class of a name.

    Raises
    ------
    SolverMismatch
        No solver has that name; the message lists the names and the nearest.
    SolverUnavailable
        The module behind an entry point cannot be imported.
    """
    return SOLVERS.find(name)


class Traits(NamedTuple):
    """The properties of a problem, besides its kernel matrix and size, by which "auto" chooses a solver.

    Attributes
    ----------
    few_nonzero : bool
        Few variables can share the sum of the simplex, so that few are nonzero at the optimum.
    uneven : bool
        The ridges, which are inverse weights of points, are `ridges_apart`.
    bound : float
        The largest upper bound, if a refinement follows; else 0. The round-off of a factor, times such a bound, is left
        to that refinement.
    """

    few_nonzero: bool = False
    uneven: bool = False
    bound: float = 0.0


#: The traits of most problems.
USUAL_TRAITS = Traits()


def traits_of(problem: DualProblem, refine: bool | str) -> Traits:
    """Return the traits of a problem that is refined, or not, once it is solved."""
    if problem.has_ridge:  # a ridge spreads the sum over all variables
        return Traits(uneven=ridges_apart(problem.ridge))
    on_simplex = problem.kind in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX)
    bound = float(problem.upper.max()) if refine else 0.0
    is_shared_by_few = on_simplex and least_nonzero(problem) <= MAX_SHARING
    # Monomials have very uneven scales, which take `interior-point` many steps: 26 against 5 ms for 1200 of 3000 points
    # of 4 features, 31 against 11 with 9 features (degree 2).
    is_shared_by_few |= problem.gram.kernel == "poly" and suits_few_rows(problem)
    return Traits(is_shared_by_few, bound=bound)


def auto_solver_name(gram: KernelMatrix, n: int, traits: Traits = USUAL_TRAITS) -> str:
    """Return the name of the solver that "auto" means for a problem of n variables with finite bounds."""
    if n >= MIN_N_INTERIOR_POINT and not traits.few_nonzero and _is_low_rank(gram, n):
        return "interior-point"
    has_large_bounds = MIN_SUM_OF_BOUNDS <= n * traits.bound < inf
    suits_factor = n >= MIN_N_INTERIOR_POINT and gram.n <= MAX_POINTS_FACTOR and gram.has_few_features
    # Repeated points are merged: few variables are left, and to count columns takes most of the time.
    if has_large_bounds and suits_factor and not few_distinct(gram.X, MAX_DISTINCT_SHARE):
        most = min(MAX_COLUMNS_FACTOR, gram.n // MIN_POINTS_PER_COLUMN_FACTOR)
        return "interior-point" if has_few_columns(gram, most) else DEFAULT_SOLVER
    tall = gram.kernel == "linear" and gram.is_linear and MIN_POINTS_PER_COLUMN * gram.X.shape[1] <= n
    apart = tall and (traits.uneven or scales_apart(gram.X, MAX_SCALE_RATIO) > MAX_SCALE_RATIO)
    return "interior-point" if apart else DEFAULT_SOLVER


def _is_low_rank(gram: KernelMatrix, n: int) -> bool:
    """Whether the kernel matrix of n of the points has low rank because of its kernel."""
    rank = rank_by_kernel(gram)
    return rank is not None and rank * rank <= MAX_RANK_SQUARED_PER_POINT * n


@cache
def needs_no_package(solver: type[Solver[Any, Any]]) -> bool:
    """Whether a solver runs without packages that may be missing."""
    own, usual = ([kind.missing.__func__, kind.install.__func__] for kind in (solver, CatalogueEntry))  # type: ignore[attr-defined]
    return not solver.requires and own == usual


@cache
def _default_solver() -> Solver[Any, Any]:
    """Return the default solver with its default options."""
    return SOLVERS.find(DEFAULT_SOLVER).from_options({})


def make_solver(
    solver: str | Solver[Any, Any],
    options: dict[str, Any] | None = None,
    gram: KernelMatrix | None = None,
    n: int = 0,
    kind: Kind | None = None,
    traits: Traits = USUAL_TRAITS,
) -> Solver[Any, Any]:
    """Return a solver instance from a name and its options, or the instance given.

    "auto" is the `auto_solver_name` of a problem of n variables with ``traits``, or the default solver if no ``gram``
    is given, or with options, which are the default solver's. For a ``kind`` with two equalities it is "interior-point"
    if the kernel matrix has low rank, else "level-search".
    """
    if isinstance(solver, str) and solver == AUTO:
        if kind is Kind.TWO_EQUALITIES:
            is_low_rank = not options and gram is not None and _is_low_rank(gram, gram.n)
            solver = "interior-point" if is_low_rank else "level-search"
        else:
            solver = DEFAULT_SOLVER if options or gram is None else auto_solver_name(gram, n, traits)
    if isinstance(solver, str) and solver == DEFAULT_SOLVER and not options:
        return _default_solver()
    if isinstance(solver, Solver):
        if options:
            raise TypeError(f"options {sorted(options)} belong to a solver's name; an instance has its own")
        found = solver
    elif isinstance(solver, str):
        found = SOLVERS.find(solver).from_options(options or {})
    else:
        raise TypeError(f"solver must be a name or a dualflow.Solver instance, found {type(solver).__name__}")
    SOLVERS.check_installed(found.name, type(found))
    return found


def list_solvers() -> list[SolverInfo]:
    """Return all solvers, with the problems that each can solve and whether it is installed.

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
