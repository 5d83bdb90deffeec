"""Problems of the zoo without a closed form; their optima are computed once in each process, at the first use.

Each problem is built twice: by the package, and as dense matrices from the textbook form of its model. The reference
solution uses the matrices only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from .. import problems
from ..core.gram import Gram
from ..core.problem import Kind
from .reference import QuadraticProgram, affine_optimum, coneqp_optimum, linear_kernel, rbf_kernel
from .specimen import ZooProblem


def _clouds(n: int, seed: int, distance: float, features: int = 2) -> tuple[NDArray, NDArray]:
    """Return points and labels of two Gaussian clouds, shape (n, features) and (n,)."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = rng.standard_normal((n, features))
    X[:, 0] += 0.5 * distance * y
    return X, y


def _moons(n: int, seed: int) -> tuple[NDArray, NDArray]:
    """Return points and labels of two noisy half circles, shape (n, 2) and (n,)."""
    rng = np.random.default_rng(seed)
    angle, y = np.pi * rng.random(n), np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    X = np.where(y[:, None] > 0, circle, [1.0, 0.5] - circle)
    return X + 0.2 * rng.standard_normal((n, 2)), y


@cache
def _optimum(name: str) -> tuple[float, NDArray]:
    """Return f* and an optimal α of a problem by its name."""
    program = _COMPUTED[name]()[1]
    if np.isneginf(program.upper).all():  # marks a problem without bounds
        return affine_optimum(program.Q, program.p, program.e, program.d)
    return coneqp_optimum(program)


def computed() -> Iterator[ZooProblem]:
    """Yield the problems whose optima come from CVXOPT's coneqp or one linear system."""
    for name, build in _COMPUTED.items():
        problem, _, unique = build()
        optimum, alpha = _optimum(name)
        how = "one linear system" if problem.kind is Kind.AFFINE else "CVXOPT coneqp, dual bound within 2e-9"
        yield ZooProblem(name, problem, optimum, alpha.copy(), unique, f"computed: {how}")


def _hinge(X: NDArray, y: NDArray, C: float, gamma: float | None, bias: bool = True) -> tuple:
    K = linear_kernel(X) if gamma is None else rbf_kernel(X, gamma)
    gram = Gram(X, kernel="linear") if gamma is None else Gram(X, kernel="rbf", gamma=gamma)
    upper = np.full(len(y), C)
    program = QuadraticProgram(np.outer(y, y) * K, np.ones(len(y)), upper, y if bias else None)
    return problems.svc(gram, y, C, fit_intercept=bias), program, gamma is not None


def _squared_hinge(X: NDArray, y: NDArray, C: float, gamma: float) -> tuple:
    n = len(y)
    H = np.outer(y, y) * (rbf_kernel(X, gamma) + 1.0) + np.eye(n) / (2 * C)
    problem = problems.svc(Gram(X, kernel="rbf", gamma=gamma), y, C, loss="squared_hinge")
    return problem, QuadraticProgram(H, np.zeros(n), np.full(n, np.inf), np.ones(n), 1.0), True


def _ball(X: NDArray, nu: float | None, gamma: float) -> tuple:
    n, K = len(X), rbf_kernel(X, gamma)
    upper = np.full(n, np.inf if nu is None else 1 / (nu * n))
    problem = problems.svdd(Gram(X, kernel="rbf", gamma=gamma), nu)
    return problem, QuadraticProgram(2 * K, np.diag(K).copy(), upper, np.ones(n), 1.0), True


def _one_class(X: NDArray, nu: float, gamma: float) -> tuple:
    n = len(X)
    program = QuadraticProgram(rbf_kernel(X, gamma), np.zeros(n), np.full(n, 1 / (nu * n)), np.ones(n), 1.0)
    return problems.one_class(Gram(X, kernel="rbf", gamma=gamma), nu), program, True


def _regression(n: int, C: float, epsilon: float, gamma: float) -> tuple:
    X = np.linspace(0.0, 3.0, n)[:, None]
    z = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(7).standard_normal(n)
    K, s = rbf_kernel(X, gamma), np.concatenate([np.ones(n), -np.ones(n)])
    program = QuadraticProgram(
        np.outer(s, s) * np.tile(K, (2, 2)), np.concatenate([z - epsilon, -z - epsilon]), np.full(2 * n, C), s
    )
    return problems.svr(Gram(X, kernel="rbf", gamma=gamma), z, C, epsilon=epsilon), program, True


def _nu_svc(X: NDArray, y: NDArray, nu: float, gamma: float) -> tuple:
    n = len(y)
    program = QuadraticProgram(np.outer(y, y) * rbf_kernel(X, gamma), np.zeros(n), np.ones(n), y, total=nu * n)
    return problems.nu_svc(Gram(X, kernel="rbf", gamma=gamma), y, nu), program, True


def _nu_svr(n: int, C: float, nu: float, gamma: float) -> tuple:
    X = np.linspace(0.0, 3.0, n)[:, None]
    z = np.sin(2 * X[:, 0]) + 0.1 * np.random.default_rng(7).standard_normal(n)
    Q, s = np.tile(rbf_kernel(X, gamma), (2, 2)), np.concatenate([np.ones(n), -np.ones(n)])
    program = QuadraticProgram(np.outer(s, s) * Q, np.concatenate([z, -z]), np.full(2 * n, C), s, total=C * nu * n)
    return problems.nu_svr(Gram(X, kernel="rbf", gamma=gamma), z, C, nu=nu), program, True


def _least_squares(X: NDArray, y: NDArray, C: float, gamma: float) -> tuple:
    n = len(y)
    Q = np.outer(y, y) * rbf_kernel(X, gamma) + np.eye(n) / C
    problem = problems.least_squares(Gram(X, kernel="rbf", gamma=gamma), y, C)
    return problem, QuadraticProgram(Q, np.ones(n), np.full(n, -np.inf), y), True


def _ridge(n: int, C: float, gamma: float) -> tuple:
    X = np.linspace(0.0, 3.0, n)[:, None]
    z, weight = 5.0 + np.sin(2 * X[:, 0]), np.linspace(0.5, 2.0, n)
    Q = rbf_kernel(X, gamma) + np.diag(1 / (C * weight))
    gram = Gram(X, kernel="rbf", gamma=gamma)
    problem = problems.least_squares(gram, z, C, sample_weight=weight, regression=True)
    return problem, QuadraticProgram(Q, z, np.full(n, -np.inf), np.ones(n)), True


def _one_against_many() -> tuple:
    X, _ = _clouds(9, 11, 0.0)
    return _hinge(X, np.array([1.0] + [-1.0] * 8), 5.0, 0.5)


_COMPUTED: dict[str, Callable[[], tuple]] = {
    "overlapping clouds": lambda: _hinge(*_clouds(24, 1, 1.0), 1.0, 0.7),
    "separated clouds": lambda: _hinge(*_clouds(16, 2, 6.0), 100.0, 0.3),
    "one against many": _one_against_many,
    "Gram of rank 2": lambda: _hinge(*_clouds(32, 3, 1.5), 1.0, None),
    "moons C = 1000": lambda: _hinge(*_moons(120, 4), 1000.0, 2.0),
    "SVR sine": lambda: _regression(15, 2.0, 0.1, 1.0),
    "nu-SVC clouds": lambda: _nu_svc(*_clouds(24, 1, 1.0), 0.6, 0.7),
    "nu-SVR sine": lambda: _nu_svr(15, 2.0, 0.4, 1.0),
    "box clouds": lambda: _hinge(*_clouds(24, 5, 1.0), 3.0, 0.7, bias=False),
    "squared hinge clouds": lambda: _squared_hinge(*_clouds(16, 6, 1.5), 1.0, 0.5),
    "squared hinge 32": lambda: _squared_hinge(*_moons(32, 7), 10.0, 1.0),
    "hard SVDD cloud": lambda: _ball(_clouds(12, 8, 0.0)[0], None, 0.5),
    "soft SVDD cloud": lambda: _ball(_clouds(24, 9, 0.0)[0], 0.2, 0.5),
    "one-class cloud": lambda: _one_class(_clouds(24, 10, 0.0)[0], 0.3, 0.5),
    "least squares clouds": lambda: _least_squares(*_clouds(20, 12, 1.0), 5.0, 0.5),
    "least squares sine": lambda: _ridge(20, 10.0, 1.0),
}
