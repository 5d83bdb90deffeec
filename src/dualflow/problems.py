"""The models, as dual problems: data and parameters in, `DualProblem` out.

Sign conventions are those of `DualProblem`; C is scikit-learn's for each loss.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .core.kernels import Gram
from .core.problem import DualProblem
from .exceptions import ProblemError

__all__ = ["least_squares", "one_class", "svc", "svdd", "svr"]


def svc(
    gram: Gram,
    y: ArrayLike,
    C: float = 1.0,
    *,
    loss: str = "hinge",
    fit_intercept: bool | str = True,
    sample_weight: ArrayLike | None = None,
) -> DualProblem:
    """Two-class support vector machine.

    Parameters
    ----------
    gram : Gram
        n points.
    y : array of shape (n,) with entries −1 and +1
    C : float > 0
        scikit-learn's C; ``np.inf`` is the hard margin (Howell eq. 6, with its misprint Σaᵢtᵢ = 1 mended to 0).
    loss : {"hinge", "squared_hinge"}
        "hinge": Howell 13, CP 1, Mierswa 31-33. "squared_hinge": Bauckhage 1-2, on the simplex with the bias
        inside the kernel (K + 1); his C is twice this one, so the diagonal carries 1/(2C).
    fit_intercept : bool or "penalised"
        False drops the equality yᵀα = 0 (Mierswa 4.1) and, for the squared hinge, the + 1. "penalised" drops the
        equality and puts the bias inside the kernel, K + 1: a box dual without the loss of accuracy of b = 0. The
        squared hinge's is always of this kind.
    sample_weight : array of shape (n,), optional
        Multiplies C, point by point; 0 removes a point.

    Raises
    ------
    ProblemError
        y is not ±1, a class is missing, or C or a weight is out of range.
    """
    y = _check_signs(y, gram.n)
    C = _check_positive(C, "C")
    weight = _check_weight(sample_weight, gram.n)
    if not isinstance(fit_intercept, (bool, np.bool_, str, int)) or fit_intercept not in (True, False, "penalised"):
        raise ProblemError(f"fit_intercept={fit_intercept!r} is not one of True, False, 'penalised'")
    penalised = fit_intercept == "penalised"
    signs = y * (weight > 0)
    for label in (1.0, -1.0):
        if fit_intercept and not (signs == label).any():
            raise ProblemError(f"y: no point of class {label:+g} with a positive weight; two classes are needed")
    if loss == "hinge":
        upper = np.where(weight > 0, C, 0.0) * np.where(weight > 0, weight, 1.0)
        return DualProblem(
            gram,
            p=np.ones(gram.n),
            lower=np.zeros(gram.n),
            upper=upper,
            e=y if fit_intercept and not penalised else None,
            sigma=y,
            offset=1.0 if penalised else 0.0,
            model="hinge",
        )
    if loss != "squared_hinge":
        raise ProblemError(f"loss={loss!r} is not one of 'hinge', 'squared_hinge'")
    live = weight > 0
    ridge = np.zeros(gram.n) if np.isinf(C) else 1.0 / (2.0 * C * np.where(live, weight, 1.0))
    return DualProblem(
        gram,
        p=np.zeros(gram.n),
        lower=np.zeros(gram.n),
        upper=np.where(live, np.inf, 0.0),
        e=np.ones(gram.n),
        d=1.0,
        sigma=y,
        offset=1.0 if fit_intercept else 0.0,
        ridge=ridge,
        model="squared_hinge",
    )


def svdd(gram: Gram, nu: float | None = None, *, sample_weight: ArrayLike | None = None) -> DualProblem:
    """Support vector data description: the smallest ball around the data in feature space (Howell 23).

    Parameters
    ----------
    gram : Gram
    nu : float in (0, 1], optional
        At most a fraction ν of the points lies outside: αᵢ ≤ 1/(νn). None is the hard ball around all points.
    sample_weight : array of shape (n,), optional
        Multiplies each point's bound; normalised to mean 1. Without ν a weight of 0 removes a point.
    """
    upper = _ball_bounds(gram.n, nu, sample_weight)
    return DualProblem(
        gram,
        p=gram.diag(),
        lower=np.zeros(gram.n),
        upper=upper,
        e=np.ones(gram.n),
        d=1.0,
        scale=2.0,
        model="svdd",
    )


def one_class(gram: Gram, nu: float = 0.5, *, sample_weight: ArrayLike | None = None) -> DualProblem:
    """One-class ν-SVM: separate the data from the origin; decision Σαᵢk(x,xᵢ) − ρ with ρ = the multiplier ν.

    α is scikit-learn's OneClassSVM's divided by νn, and so are ρ and the decision values.
    """
    if nu is None:
        raise ProblemError("nu must be a number in (0, 1]; the hard one-class problem is svdd(gram, nu=None)")
    return DualProblem(
        gram,
        p=np.zeros(gram.n),
        lower=np.zeros(gram.n),
        upper=_ball_bounds(gram.n, nu, sample_weight),
        e=np.ones(gram.n),
        d=1.0,
        model="one_class",
    )


def least_squares(gram: Gram, y: ArrayLike, C: float = 1.0, *, fit_intercept: bool = True) -> DualProblem:
    """Least-squares SVM: α free, r = 1/C, yᵀα = 0."""
    y = _check_signs(y, gram.n)
    C = _check_positive(C, "C", finite=True)
    return DualProblem(
        gram,
        p=np.ones(gram.n),
        lower=np.full(gram.n, -np.inf),
        upper=np.full(gram.n, np.inf),
        e=y if fit_intercept else None,
        sigma=y,
        ridge=np.full(gram.n, 1.0 / C),
        model="least_squares",
    )


def svr(
    gram: Gram,
    z: ArrayLike,
    C: float = 1.0,
    *,
    epsilon: float = 0.1,
    sample_weight: ArrayLike | None = None,
) -> DualProblem:
    """ε-insensitive regression: every point twice, σ = (1, −1), p = (z − ε, −z − ε)."""
    z = np.asarray(z, dtype=float)
    if z.shape != (gram.n,) or not np.isfinite(z).all():
        raise ProblemError(f"z must be {gram.n} finite numbers, found shape {z.shape}")
    C = _check_positive(C, "C", finite=True)
    if not epsilon >= 0 or not np.isfinite(epsilon):
        raise ProblemError(f"epsilon={epsilon!r} must be ≥ 0")
    signs = np.concatenate([np.ones(gram.n), -np.ones(gram.n)])
    return DualProblem(
        gram,
        p=np.concatenate([z - epsilon, -z - epsilon]),
        lower=np.zeros(2 * gram.n),
        upper=np.tile(C * _check_weight(sample_weight, gram.n), 2),
        e=signs,
        sigma=signs,
        idx=np.tile(np.arange(gram.n), 2),
        model="svr",
    )


def _check_signs(y: ArrayLike, n: int) -> NDArray:
    signs = np.asarray(y)
    if signs.shape != (n,):
        raise ProblemError(f"y has shape {signs.shape}, the Gram has {n} points")
    if signs.dtype.kind not in "biuf" or not (np.abs(signs) == 1).all():
        raise ProblemError("y must hold −1 and +1 only; estimators encode other labels themselves")
    return signs.astype(float)


def _check_positive(value: float, name: str, finite: bool = False) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)) or not value > 0:
        raise ProblemError(f"{name}={value!r} must be a number > 0")
    if finite and not np.isfinite(value):
        raise ProblemError(f"{name}={value!r} must be finite")
    return float(value)


def _check_weight(weight: ArrayLike | None, n: int) -> NDArray:
    if weight is None:
        return np.ones(n)
    w = np.asarray(weight, dtype=float)
    if w.shape != (n,):
        raise ProblemError(f"sample_weight has shape {w.shape}, there are {n} points")
    if not np.isfinite(w).all() or (w < 0).any():
        raise ProblemError("sample_weight must be finite and ≥ 0")
    if not (w > 0).any():
        raise ProblemError("sample_weight is zero for every point; nothing is left to fit")
    return w


def _ball_bounds(n: int, nu: float | None, weight: ArrayLike | None) -> NDArray:
    w = np.ones(n) if weight is None else _check_weight(weight, n)
    if nu is None:
        return np.where(w > 0, np.inf, 0.0)
    if isinstance(nu, bool) or not isinstance(nu, (int, float, np.integer, np.floating)) or not 0 < nu <= 1:
        raise ProblemError(f"nu={nu!r} must be a number in (0, 1]")
    return w / (float(nu) * w.sum())
