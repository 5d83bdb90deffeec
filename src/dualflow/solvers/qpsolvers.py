"""General QP solvers on the dense dual, through qpsolvers: independent answers for small problems."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..core.options import Number, OneOf, option
from ..core.problem import DualProblem, Kind
from ..core.runtime.clock import is_late, seconds_left
from ..core.runtime.memory import check_memory
from ..core.runtime.threads import ProcessContext
from ..core.solver import EVERY_CONVEX, Solver
from ..core.workspace import Workspace
from ..exceptions import SolverMismatch, SolverUnavailable


def _residuals(eps: float) -> dict[str, Any]:
    """Return options for residuals of at most eps."""
    return {"eps_abs": eps, "eps_rel": eps}


def _residuals_and_gap(eps: float) -> dict[str, Any]:
    """Return options for residuals and a duality gap of at most eps."""
    gap = {"check_duality_gap": True, "eps_duality_gap_abs": eps, "eps_duality_gap_rel": eps}
    return _residuals(eps) | gap | {"max_iter": 1000}


class Backend(NamedTuple):
    """Properties of a backend.

    Attributes
    ----------
    package : str
        The package to import.
    matrices : int
        Number of n × n arrays of float64 at its peak, Q among them, as measured.
    sparse : bool
        Whether it takes sparse matrices.
    accuracy_options : callable
        Returns its options for an accuracy eps.
    time_option : str or None
        Its option for a time limit.
    """

    package: str
    matrices: int
    sparse: bool
    accuracy_options: Callable[[float], dict[str, Any]]
    time_option: str | None = None


#: The backends, in the order in which they are tried: the fastest first at n = 300 and 800; of two equal ones the more
#: accurate.
BACKENDS = {
    "piqp": Backend("piqp", 6, False, _residuals_and_gap),
    "clarabel": Backend(
        "clarabel", 12, True, lambda eps: dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), eps), "time_limit"
    ),
    # Without polishing, which prints to the screen.
    "osqp": Backend("osqp", 8, True, lambda eps: _residuals(eps) | {"max_iter": 100_000}, "time_limit"),
    # Sparse: its dense code is twice as fast, but its bits depend on the alignment of memory.
    "proxqp": Backend("proxsuite", 14, True, _residuals_and_gap),
}


class _Quiet(ProcessContext):
    """Suppress warnings of qpsolvers and osqp on how a call ended, which the state has; filters are per process."""

    def begin(self) -> None:
        self._filters = warnings.catch_warnings()
        self._filters.__enter__()
        warnings.filterwarnings("ignore", module=r"(qpsolvers|osqp)\b")

    def end(self) -> None:
        self._filters.__exit__(None, None, None)


_QUIET = _Quiet()


def _matrix(backend: str) -> Callable[[NDArray], Any]:
    """Return the type of matrix that a backend takes."""
    return sparse.csc_matrix if BACKENDS[backend].sparse else np.asarray


@dataclass(frozen=True)
class Program:
    """The dual in a backend's form: minimise ½ aᵀPa + qᵀa with Aa = b between bounds (None: none), α = ``unit`` · a.

    Its multipliers are those of the dual divided by ``cost_scale``.
    """

    backend: str
    P: Any
    q: NDArray
    A: Any
    b: NDArray | None
    lower: NDArray | None
    upper: NDArray | None
    unit: float
    cost_scale: float
    origin: NDArray

    @classmethod
    def of(cls, problem: DualProblem, backend: str) -> Program:
        """Return the program in units with curvature and slope of about 1: the backends' tolerances are absolute."""
        peak = float(problem.diag().max(initial=0.0)) or 1.0
        slope = float(np.abs(problem.p).max(initial=0.0))
        largest = float(problem.upper[np.isfinite(problem.upper)].max(initial=0.0)) or np.inf
        unit = min(largest, slope / peak) if slope else min(largest, 1.0)
        cost_scale = slope or unit * peak
        matrix, rows, sums = _matrix(backend), problem.e, [problem.d / unit]
        if rows is not None:
            rows = rows[None] if problem.total is None else np.vstack([rows, np.ones(problem.n)])
            sums += [] if problem.total is None else [problem.total / unit]
        lower, upper = problem.lower / unit, problem.upper / unit
        return cls(
            backend,
            P=matrix(problem.dense() * (unit / cost_scale)),
            q=-problem.p / cost_scale,
            A=None if rows is None else matrix(rows),
            b=None if rows is None else np.array(sums),
            lower=lower if np.isfinite(lower).any() else None,
            upper=upper if np.isfinite(upper).any() else None,
            unit=unit,
            cost_scale=cost_scale,
            origin=problem.project(np.zeros(problem.n)),
        )

    def solve(self, eps: float) -> tuple[NDArray, float, bool, str]:
        """Return α, the multiplier, whether the backend reached its accuracy, and its own status text."""
        import qpsolvers

        known = BACKENDS[self.backend]
        options, seconds = known.accuracy_options(eps), seconds_left()
        if known.time_option and seconds is not None:
            options[known.time_option] = max(seconds, 1e-3)
        G, h = None, None
        if self.A is None and self.lower is None and self.upper is None:
            # qpsolvers does not pass problems without any constraint to some backends: add 0 ≤ 1.
            G, h = _matrix(self.backend)(np.zeros((1, len(self.q)))), np.ones(1)
        posed = qpsolvers.Problem(self.P, self.q, G, h, self.A, self.b, self.lower, self.upper)
        try:
            with _QUIET:
                found = qpsolvers.solve_problem(posed, solver=self.backend, **options)
        except BaseException as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from error  # qpsolvers turned it into an error of the problem
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise SolverMismatch(
                f"'qpsolvers': {self.backend} refuses the problem: {error}; try 'working-set'"
            ) from error
        alpha = np.full(len(self.q), np.nan) if found.x is None else np.array(found.x, dtype=float) * self.unit
        # The backends' Lagrangian has + yᵀ(Aa − b): ν is −y.
        nu = np.nan if self.A is None or found.y is None or not len(found.y) else -float(found.y[0]) * self.cost_scale
        said = found.extras.get("status", getattr(found.extras.get("info"), "status", ""))
        return alpha, nu, bool(found.found), str(said).rpartition(".")[2]


#: Least accuracy that is requested.
MIN_EPS = 1e-13
#: Factor from the accuracy of one call to that of the next.
EPS_FACTOR = 1e-2


@dataclass(frozen=True)
class QPSolversState:
    """State between calls."""

    alpha: NDArray  # shape (n,)
    multiplier: float  # NaN without an equality
    eps: float  # accuracy of the next call
    done: bool  # whether there is no next call
    said: str  # the backend's status text of the last call, "" before the first


@dataclass(frozen=True)
class QPSolvers(Solver[Program, QPSolversState]):
    """General QP solvers (piqp, clarabel, osqp, proxqp) on the whole Q: second opinions.

    Each step is a call for the whole problem. While the certified gap is above the tolerance, the next call requests a
    hundredth of the residuals, down to 1e-13, or until the backend misses the accuracy requested.

    The time limit is checked between calls, and passed to clarabel and osqp, which return their current point; piqp
    and proxqp have no time limit and complete their call. Ctrl-C also takes effect after a call, and the state before
    the call is returned.

    Parameters
    ----------
    backend : {"piqp", "clarabel", "osqp", "proxqp"}, optional
        By default the first of these that is installed; piqp is the fastest of them on the dual of a C-SVM.
    eps : float > 0, optional
        Accuracy that the first call requests, in the backend's own terms: of its residuals, absolute and relative, and
        of its duality gap, if it has one. By default a tenth of the driver's ``tol``.

    Raises
    ------
    SolverUnavailable
        The backend is not installed; the message has the pip line.
    SolverMismatch
        The backend refuses the problem; the message contains the backend's.
    ProblemError
        Q and the backend's copies of it do not fit into memory; the message has their size.

    Examples
    --------
    >>> import dualflow
    >>> problem = dualflow.problems.svdd(dualflow.Gram([[0.0], [1.0], [3.0]], kernel="linear"))
    >>> dualflow.solve(problem, "qpsolvers", backend="piqp", tol=1e-8).alpha.round(6)
    array([0.5, 0. , 0.5])
    """

    backend: str | None = option(None, OneOf(none=True, words=tuple(BACKENDS)))
    eps: float | None = option(None, Number(above=0, none=True))

    state_type: ClassVar[type] = QPSolversState

    name: ClassVar[str] = "qpsolvers"
    stochastic: ClassVar[bool] = False
    kinds = EVERY_CONVEX | {Kind.AFFINE, Kind.TWO_EQUALITIES}
    accuracy: ClassVar[str] = "exact"
    requires: ClassVar[tuple[str, ...]] = ("qpsolvers",)
    extra: ClassVar[str | None] = "qpsolvers"
    interruptible: ClassVar[bool] = False
    max_n: ClassVar[int | None] = 5000
    default_max_steps: ClassVar[int] = 10

    def aim(self, tol: float, hand_over: bool = False) -> QPSolvers:
        return self if self.eps is not None else replace(self, eps=min(0.1 * tol, 1e-3))

    def chosen(self) -> str:
        """Return the backend's name: the one given, or the first that is installed."""
        names = tuple(BACKENDS) if self.backend is None else (self.backend,)
        for name in names:
            if find_spec(BACKENDS[name].package) is not None:
                return name
        raise SolverUnavailable(
            f"solver 'qpsolvers': backend {' or '.join(names)} is not installed: pip install 'dualflow[qpsolvers]'"
        )

    def open(self, problem: DualProblem, workspace: Workspace) -> Program:
        backend = self.chosen()
        check_memory(problem.n, f"a problem of solver 'qpsolvers' with backend={backend!r}", BACKENDS[backend].matrices)
        return Program.of(workspace, backend)

    def start(self, context: Program, rng: np.random.Generator, warm: NDArray | None = None) -> QPSolversState:
        alpha = context.origin if warm is None else warm
        return QPSolversState(alpha, np.nan, max(MIN_EPS, self.eps or 1e-9), False, "")

    def step(self, context: Program, state: QPSolversState) -> QPSolversState:
        alpha, nu, reached, said = context.solve(state.eps)
        if not reached and state.said:  # the call before reached its accuracy
            alpha, nu = state.alpha, state.multiplier
        last = not reached or state.eps <= MIN_EPS
        return QPSolversState(alpha, nu, max(MIN_EPS, EPS_FACTOR * state.eps), last and not is_late(), said)

    def multiplier(self, state: QPSolversState) -> float | None:
        return None if np.isnan(state.multiplier) else state.multiplier

    def provenance(self, context: Program, state: QPSolversState) -> dict[str, Any]:
        return {"backend": context.backend, "backend_said": state.said}
