"""General QP solvers on the whole dual, through qpsolvers: second opinions, on small problems.

The dual as general QP solvers have it, and what is known of each of them: for `qpsolvers`.
"""

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
from ..core.runtime.clock import is_late, left
from ..core.runtime.memory import check_memory
from ..core.runtime.threads import ProcessContext
from ..core.solver import EVERY_CONVEX, Solver
from ..core.workspace import Workspace
from ..exceptions import SolverMismatch, SolverUnavailable

__all__ = ["BACKENDS", "Program", "QPSolvers"]


def _residuals(eps: float) -> dict[str, Any]:
    return {"eps_abs": eps, "eps_rel": eps}


def _residuals_and_gap(eps: float) -> dict[str, Any]:
    gap = {"check_duality_gap": True, "eps_duality_gap_abs": eps, "eps_duality_gap_rel": eps}
    return _residuals(eps) | gap | {"max_iter": 1000}


class Backend(NamedTuple):
    """What is known of a backend.

    ``matrices`` is how many n × n arrays of float64 there are at its peak, ours among them, as measured; ``terms`` are
    its options for an accuracy, and ``seconds`` is that for a time limit, if it has one.
    """

    package: str
    matrices: int
    sparse: bool
    terms: Callable[[float], dict[str, Any]]
    seconds: str | None = None


#: In the order in which they are looked for: fastest first at n = 300 and 800, of two alike the more exact.
BACKENDS = {
    "piqp": Backend("piqp", 6, False, _residuals_and_gap),
    "clarabel": Backend(
        "clarabel", 12, True, lambda eps: dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), eps), "time_limit"
    ),
    # Not polished: its polishing prints to the screen.
    "osqp": Backend("osqp", 8, True, lambda eps: _residuals(eps) | {"max_iter": 100_000}, "time_limit"),
    # Its dense code is twice as fast, and gives other bits where its memory happens to lie otherwise.
    "proxqp": Backend("proxsuite", 14, True, _residuals_and_gap),
}


class _Quiet(ProcessContext):
    """Without the warnings of qpsolvers and osqp on how a call ended, which is told: filters belong to the process."""

    def begin(self) -> None:
        self._filters = warnings.catch_warnings()
        self._filters.__enter__()
        warnings.filterwarnings("ignore", module=r"(qpsolvers|osqp)\b")

    def end(self) -> None:
        self._filters.__exit__(None, None, None)


_QUIET = _Quiet()


def _matrix(backend: str) -> Callable[[NDArray], Any]:
    return sparse.csc_matrix if BACKENDS[backend].sparse else np.asarray


@dataclass(frozen=True)
class Program:
    """The dual as a backend has it: a, α = ``unit`` · a, of least ½ aᵀPa + qᵀa with Aa = b and bounds (None: none).

    Its multipliers are those of the dual over ``price``.
    """

    backend: str
    P: Any
    q: NDArray
    A: Any
    b: NDArray | None
    lower: NDArray | None
    upper: NDArray | None
    unit: float
    price: float
    origin: NDArray

    @classmethod
    def of(cls, problem: DualProblem, backend: str) -> Program:
        """In units in which curvature and slope are about 1: tolerances of backends are absolute in the end."""
        peak = float(problem.diag().max(initial=0.0)) or 1.0
        slope = float(np.abs(problem.p).max(initial=0.0))
        largest = float(problem.upper[np.isfinite(problem.upper)].max(initial=0.0)) or np.inf
        unit = min(largest, slope / peak) if slope else min(largest, 1.0)
        price = slope or unit * peak
        matrix, rows, sums = _matrix(backend), problem.e, [problem.d / unit]
        if rows is not None:
            rows = rows[None] if problem.total is None else np.vstack([rows, np.ones(problem.n)])
            sums += [] if problem.total is None else [problem.total / unit]
        lower, upper = problem.lower / unit, problem.upper / unit
        return cls(
            backend,
            P=matrix(problem.dense() * (unit / price)),
            q=-problem.p / price,
            A=None if rows is None else matrix(rows),
            b=None if rows is None else np.array(sums),
            lower=lower if np.isfinite(lower).any() else None,
            upper=upper if np.isfinite(upper).any() else None,
            unit=unit,
            price=price,
            origin=problem.project(np.zeros(problem.n)),
        )

    def solve(self, eps: float) -> tuple[NDArray, float, bool, str]:
        """α, the multiplier, whether the backend is content, and its own word for how it ended."""
        import qpsolvers

        known = BACKENDS[self.backend]
        options, seconds = known.terms(eps), left()
        if known.seconds and seconds is not None:
            options[known.seconds] = max(seconds, 1e-3)
        G, h = None, None
        if self.A is None and self.lower is None and self.upper is None:
            # qpsolvers takes what has no constraint at all away from some of them: 0 ≤ 1.
            G, h = _matrix(self.backend)(np.zeros((1, len(self.q)))), np.ones(1)
        posed = qpsolvers.Problem(self.P, self.q, G, h, self.A, self.b, self.lower, self.upper)
        try:
            with _QUIET:
                found = qpsolvers.solve_problem(posed, solver=self.backend, **options)
        except BaseException as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise KeyboardInterrupt from error  # qpsolvers makes a malformed problem of it
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            raise SolverMismatch(
                f"'qpsolvers': {self.backend} refuses the problem: {error}; try 'working-set'"
            ) from error
        alpha = np.full(len(self.q), np.nan) if found.x is None else np.array(found.x, dtype=float) * self.unit
        # Their Lagrangian carries + yᵀ(Aa − b): ν is −y.
        nu = np.nan if self.A is None or found.y is None or not len(found.y) else -float(found.y[0]) * self.price
        said = found.extras.get("status", getattr(found.extras.get("info"), "status", ""))
        return alpha, nu, bool(found.found), str(said).rpartition(".")[2]


#: The tightest accuracy that is asked for, and how much tighter each call is than the one before.
FLOOR, TIGHTER = 1e-13, 1e-2


@dataclass(frozen=True)
class QPSolversState:
    """α of shape (n,), the multiplier (NaN without an equality), the accuracy that the next call asks for, whether
    there is to be none, and what the backend said of the last one ("" before the first)."""

    alpha: NDArray
    multiplier: float
    eps: float
    done: bool
    said: str


@dataclass(frozen=True)
class QPSolvers(Solver[Program, QPSolversState]):
    """General QP solvers (piqp, clarabel, osqp, proxqp) on the whole Q: second opinions.

    Each step is a call for the whole problem; while the certified gap is above the tolerance, the next asks for a
    hundredth of the residuals, down to 1e-13, or until the backend falls short of what it was asked for.

    The time limit is looked at between calls, and handed to clarabel and osqp, which give back where they are; piqp
    and proxqp know none, and end their call first. Ctrl-C waits for the end of a call too, and gives back the state
    before it.

    Parameters
    ----------
    backend : {"piqp", "clarabel", "osqp", "proxqp"}, optional
        By default the first of these that is installed; piqp is the fastest of them on the dual of a C-SVM.
    eps : float > 0, optional
        What the first call asks for, in the backend's own terms: of its residuals, absolute and relative, and of its
        duality gap, where it looks at one. By default a tenth of the driver's ``tol``.

    Raises
    ------
    SolverUnavailable
        The backend is not installed; the message has the pip line.
    SolverMismatch
        The backend refuses the problem; the message has its own.
    ProblemError
        Q and what the backend makes of it cannot fit into memory; the message says how much that is.

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
        """The backend: that which was named, or the first that is installed."""
        wanted = tuple(BACKENDS) if self.backend is None else (self.backend,)
        for name in wanted:
            if find_spec(BACKENDS[name].package) is not None:
                return name
        raise SolverUnavailable(
            f"solver 'qpsolvers': backend {' or '.join(wanted)} is not installed: pip install 'dualflow[qpsolvers]'"
        )

    def open(self, problem: DualProblem, workspace: Workspace) -> Program:
        backend = self.chosen()
        check_memory(problem.n, f"a problem of solver 'qpsolvers' with backend={backend!r}", BACKENDS[backend].matrices)
        return Program.of(workspace, backend)

    def start(self, context: Program, rng: np.random.Generator, warm: NDArray | None = None) -> QPSolversState:
        alpha = context.origin if warm is None else warm
        return QPSolversState(alpha, np.nan, max(FLOOR, self.eps or 1e-9), False, "")

    def step(self, context: Program, state: QPSolversState) -> QPSolversState:
        alpha, nu, content, said = context.solve(state.eps)
        if not content and state.said:  # the last call got what it asked for
            alpha, nu = state.alpha, state.multiplier
        last = not content or state.eps <= FLOOR
        return QPSolversState(alpha, nu, max(FLOOR, TIGHTER * state.eps), last and not is_late(), said)

    def alpha(self, state: QPSolversState) -> NDArray:
        return state.alpha

    def finished(self, state: QPSolversState) -> bool:
        return state.done

    def multiplier(self, state: QPSolversState) -> float | None:
        return None if np.isnan(state.multiplier) else state.multiplier

    def provenance(self, context: Program, state: QPSolversState) -> dict[str, Any]:
        return {"backend": context.backend, "backend_said": state.said}
