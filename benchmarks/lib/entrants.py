"""Ours and the peers. Every alpha, theirs included, is certified by `dualflow.certify` on the same problem."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn import svm

import dualflow
from benchmarks.lib.harness import Entrant
from benchmarks.lib.reading import certified, classifier
from dualflow import DualProblem
from dualflow.refinement.refine import MAX_N_REFINED

#: MB of kernel cache for LIBSVM: more than any matrix here but MNIST's needs.
CACHE_MB = 2000
#: Raw fits stop where LIBSVM's default does: KKT violation 1e-3 (and a relative gap 1e-3, which LIBSVM does not know).
RAW_TOL = 1e-3


def to_gap(n: int, gap: float) -> dict[str, float]:
    """Options with which a default estimator certifies ``gap``: beyond `MAX_N_REFINED` points it ends at ``tol``."""
    return {"tol": gap} if n > MAX_N_REFINED else {}


class DualflowSVC(Entrant):
    """`dualflow.SVC` from X to fitted model; ``refine=False`` is the raw answer of the solver alone, at `RAW_TOL`.

    ``kernel`` are further parameters of it, "rbf" by default.
    """

    def __init__(
        self,
        X: Any,
        y: NDArray,
        C: float,
        gamma: float,
        *,
        refine: bool,
        loss: str = "hinge",
        solver: str | None = None,
        name: str | None = None,
        threads: tuple[int, ...] = (1, 2),
        **kernel: Any,
    ) -> None:
        self.X, self.y, self.loss, self.threads = X, y, loss, threads
        self.name = name or ("dualflow refined" if refine else "dualflow raw")
        chosen: dict[str, Any] = {} if solver is None else {"solver": solver}
        if not refine:
            chosen["tol"] = RAW_TOL
        self.model = dualflow.SVC(C=C, gamma=gamma, loss=loss, refine=refine, **chosen, **kernel)

    def prepare(self, threads: int) -> None:
        if "n_jobs" in self.model.get_params():  # pairs of classes side by side
            self.model.set_params(n_jobs=threads)

    def fit(self) -> None:
        self.model.fit(self.X, self.y)

    def check(self) -> dict[str, Any]:
        first, costs = self.model.solutions_[0], [solution.cost for solution in self.model.solutions_]
        about = {"solver": first.provenance.get("solver"), "refine_s": sum(cost.refine_time_s for cost in costs)}
        return {**classifier(self.model, self.X, self.y, self.loss), **about}


class LibsvmSVC(Entrant):
    """scikit-learn's `SVC`, from X to fitted model."""

    def __init__(
        self, X: Any, y: NDArray, C: float, gamma: float, tol: float = 1e-3, name: str | None = None, **kernel: Any
    ) -> None:
        self.X, self.y = X, y
        self.name = name or f"SVC tol={tol:g}"
        self.model = svm.SVC(C=C, gamma=gamma, tol=tol, cache_size=CACHE_MB, **kernel)

    def fit(self) -> None:
        self.model.fit(self.X, self.y)

    def check(self) -> dict[str, Any]:
        return classifier(self.model, self.X, self.y)


class DualflowSVDD(Entrant):
    """`dualflow.SVDD` from X to fitted model; raw or refined as in `DualflowSVC`."""

    threads = (1, 2)

    def __init__(self, X: NDArray, nu: float, gamma: float, *, refine: bool, solver: str | None = None) -> None:
        self.X, self.name = X, "dualflow refined" if refine else "dualflow raw"
        chosen: dict[str, Any] = {} if solver is None else {"solver": solver}
        if not refine:
            chosen["tol"] = RAW_TOL
        self.model = dualflow.SVDD(nu=nu, gamma=gamma, refine=refine, **chosen)

    def fit(self) -> None:
        self.model.fit(self.X)

    def check(self) -> dict[str, Any]:
        alpha = np.zeros(len(self.X))
        alpha[self.model.support_] = self.model.dual_coef_[0]
        problem = dualflow.problems.svdd(dualflow.Gram(self.X, gamma=self.model.gamma), self.model.nu)
        return {**certified(problem, alpha), "solver": self.model.solution_.provenance.get("solver")}


class LibsvmOneClass(Entrant):
    """scikit-learn's `OneClassSVM`; its alpha / (νn) is SVDD's, k(x, x) being 1."""

    def __init__(self, X: NDArray, nu: float, gamma: float, tol: float = 1e-3) -> None:
        self.X, self.name = X, f"OneClassSVM tol={tol:g}"
        self.model = svm.OneClassSVM(nu=nu, gamma=gamma, tol=tol, cache_size=CACHE_MB)

    def fit(self) -> None:
        self.model.fit(self.X)

    def check(self) -> dict[str, Any]:
        alpha = np.zeros(len(self.X))
        alpha[self.model.support_] = self.model.dual_coef_[0] / (self.model.nu * len(self.X))
        problem = dualflow.problems.svdd(dualflow.Gram(self.X, gamma=self.model.gamma), self.model.nu)
        return certified(problem, alpha)


class LibsvmOnL2(Entrant):
    """LIBSVM's one-class machine on the L2-SVM's matrix H, given to it ready-made, with ν = 1/n: the same simplex
    problem. Forming H is not in its time."""

    def __init__(self, X: NDArray, y: NDArray, C: float, gamma: float, tol: float = 1e-6) -> None:
        self.name = f"OneClassSVM on H tol={tol:g}"
        self.problem = dualflow.problems.svc(dualflow.Gram(X, gamma=gamma), y, C, loss="squared_hinge")
        self.H = np.array(self.problem.dense())
        self.model = svm.OneClassSVM(kernel="precomputed", nu=1.0 / len(y), tol=tol, cache_size=CACHE_MB)

    def fit(self) -> None:
        self.model.fit(self.H)

    def check(self) -> dict[str, Any]:
        alpha = np.zeros(len(self.H))
        alpha[self.model.support_] = self.model.dual_coef_[0]
        return certified(self.problem, alpha / alpha.sum())


class SolverOnProblem(Entrant):
    """One of dualflow's solvers on a problem whose Q is ready, to a certified relative gap."""

    def __init__(self, problem: DualProblem, solver: str, tol: float, threads: tuple[int, ...] = (1, 2)) -> None:
        self.problem, self.solver, self.tol, self.name, self.threads = problem, solver, tol, solver, threads
        problem.dense()

    def fit(self) -> None:
        self.solution = dualflow.solve(self.problem, self.solver, tol=self.tol)

    def check(self) -> dict[str, Any]:
        return {**certified(self.problem, self.solution.raw_alpha), "steps": self.solution.cost.steps}


class Qpsolver(Entrant):
    """A general QP solver through qpsolvers, on the ready Q of a hinge problem. None of those here uses BLAS."""

    def __init__(self, problem: DualProblem, solver: str, label: str, options: dict[str, Any]) -> None:
        self.problem, self.solver, self.options = problem, solver, options
        self.name = f"{solver} {label}"
        self.Q, self.A = np.array(problem.dense()), problem.e[None]
        if solver in ("osqp", "clarabel"):  # they take sparse matrices only
            self.Q, self.A = scipy.sparse.csc_matrix(self.Q), scipy.sparse.csc_matrix(self.A)

    def skip(self) -> str | None:
        if importlib.util.find_spec("qpsolvers") is None:
            return "qpsolvers is not installed: pip install 'dualflow[bench]'"
        import qpsolvers

        if self.solver in qpsolvers.available_solvers:
            return None
        return f"{self.solver} is not installed: pip install 'qpsolvers[{self.solver}]'"

    def fit(self) -> None:
        import qpsolvers

        bounds = {"lb": np.array(self.problem.lower), "ub": np.array(self.problem.upper)}
        equality = {"A": self.A, "b": np.array([self.problem.d])}
        alpha = qpsolvers.solve_qp(self.Q, -self.problem.p, **equality, **bounds, solver=self.solver, **self.options)
        if alpha is None:
            raise RuntimeError(f"{self.solver} found no solution")
        self.alpha = np.asarray(alpha)

    def check(self) -> dict[str, Any]:
        return certified(self.problem, self.alpha)
