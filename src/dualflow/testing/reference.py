"""Independent optima for the zoo: kernels and quadratic programs in plain numpy, solved by CVXOPT.

This module does not use `Gram`, `DualProblem.matvec`, a solver or a certificate, so that an error in one of them cannot
occur in the reference too.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..exceptions import SolverUnavailable


@dataclass(frozen=True)
class QuadraticProgram:
    """The program min ½ αᵀQα − pᵀα with 0 ≤ α ≤ u and eᵀα = d, as dense arrays.

    Attributes
    ----------
    Q : array of shape (n, n)
    p : array of shape (n,)
    upper : array of shape (n,), entries may be ∞
    e : array of shape (n,) or None
    d : float
    total : float or None
        Right side of a second equality 1ᵀα = total.
    """

    Q: NDArray
    p: NDArray
    upper: NDArray
    e: NDArray | None = None
    d: float = 0.0
    total: float | None = None

    def objective(self, alpha: NDArray) -> float:
        """Return f(α)."""
        return float(0.5 * alpha @ self.Q @ alpha - self.p @ alpha)


def linear_kernel(X: NDArray) -> NDArray:
    """Return ⟨x, z⟩ of all pairs, shape (n, n)."""
    return np.array([[float(np.dot(x, z)) for z in X] for x in X])


def rbf_kernel(X: NDArray, gamma: float) -> NDArray:
    """Return exp(−γ‖x−z‖²) of all pairs, computed from differences, shape (n, n)."""
    return np.exp(-gamma * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))


def coneqp_optimum(program: QuadraticProgram) -> tuple[float, NDArray]:
    """Return f* and one optimal α by CVXOPT's interior point, with a relative gap of at most 2e-9 by its dual bound.

    Raises
    ------
    ArithmeticError
        CVXOPT's gap is larger, so that the problem cannot be a reference.
    SolverUnavailable
        CVXOPT is not installed.
    """
    if importlib.util.find_spec("cvxopt") is None:
        raise SolverUnavailable(
            "the references of dualflow.testing need cvxopt, which is not installed: pip install cvxopt"
        )
    import cvxopt

    n = len(program.p)
    capped = np.isfinite(program.upper)
    # α in units of the largest bound, so that coneqp's absolute tolerances mean the same for every C.
    unit = float(program.upper[capped].max(initial=0.0)) or 1.0
    constraints = np.vstack([-np.eye(n), np.eye(n)[capped]])
    limits = np.concatenate([np.zeros(n), program.upper[capped] / unit])
    equality = {}
    if program.e is not None:
        rows, sums = program.e[None], [program.d / unit]
        if program.total is not None:
            rows, sums = np.vstack([rows, np.ones(n)]), [*sums, program.total / unit]
        equality = {"A": cvxopt.matrix(rows), "b": cvxopt.matrix(sums)}
    result = cvxopt.solvers.coneqp(
        cvxopt.matrix(program.Q * unit),
        cvxopt.matrix(-program.p),
        cvxopt.matrix(constraints),
        cvxopt.matrix(limits),
        options={"show_progress": False, "abstol": 1e-13, "reltol": 1e-11, "feastol": 1e-11, "maxiters": 200},
        **equality,
    )
    alpha = np.clip(np.array(result["x"]).ravel() * unit, 0.0, program.upper)
    primal, dual = program.objective(alpha), float(result["dual objective"]) * unit
    if not abs(primal - dual) <= 2e-9 * abs(primal):
        raise ArithmeticError(f"the reference's gap exceeds 2e-9: primal {primal!r}, dual {dual!r}")
    return primal, alpha


def affine_optimum(Q: NDArray, p: NDArray, e: NDArray | None, d: float = 0.0) -> tuple[float, NDArray]:
    """Return f* and α of the problem without bounds by the linear system [[Q, e], [eᵀ, 0]] [α, −ν] = [p, d]."""
    if e is None:
        alpha = np.linalg.solve(Q, p)
    else:
        bordered = np.block([[Q, e[:, None]], [e[None], np.zeros((1, 1))]])
        alpha = np.linalg.solve(bordered, np.append(p, d))[:-1]
    return float(0.5 * alpha @ Q @ alpha - p @ alpha), alpha
