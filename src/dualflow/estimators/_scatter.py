"""What linear discriminant analysis knows of its data: how points vary within classes, and their means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.covariance import ledoit_wolf_shrinkage

from .. import problems
from ..core.kernels import Gram
from ..core.options import Number
from ..core.problem import DualProblem
from ..exceptions import ProblemError

__all__ = ["RANK_TOL", "Scatter", "differences"]

#: Directions that vary by less, in units of the features' deviations, count as none.
RANK_TOL = 1e-4

_SHARE = Number(at_least=0, at_most=1, note="or 'auto'")


@dataclass(frozen=True)
class Scatter:
    """Coordinates in which the covariance within classes is that of a few vectors.

    Attributes
    ----------
    priors : array of shape (n_classes,)
    means : array of shape (n_classes, m)
    unit : array of shape (m,)
        The features' deviations within classes, shrinkage included; 1 for one that has none.
    basis : array of shape (r, m)
        Orthonormal rows: the directions, in those units, in which points vary.
    root : array of shape (r, k)
        S = root·rootᵀ + diag(ridge) in these coordinates.
    ridge : array of shape (r,)
    """

    priors: NDArray
    means: NDArray
    unit: NDArray
    basis: NDArray
    root: NDArray
    ridge: NDArray

    @classmethod
    def of(cls, X: NDArray, codes: NDArray, priors: NDArray, shrinkage: Any, rank_tol: float) -> Scatter:
        """Of points of shape (n, m), each of the class that its code says.

        Raises
        ------
        ProblemError
            Shrinkage is out of range, there are no more points than classes, or nothing varies within them.
        """
        share = _share_of(shrinkage)
        n, m, classes = *X.shape, len(priors)
        if n <= classes:
            raise ProblemError(
                f"y: {n} points of {classes} classes; the number of samples must be more than the number of classes"
            )
        means, rows, ridge = np.empty((classes, m)), np.empty((n, m)), np.zeros(m)
        for k in range(classes):
            own = np.flatnonzero(codes == k)
            # The mean of what is left is the rounding of the first one, which counts far from the origin.
            centre = X[own].mean(axis=0)
            centre += (X[own] - centre).mean(axis=0)
            within = X[own] - centre
            weight = 1.0 / n if shrinkage is None else priors[k] / len(own)
            part, added = _shrunk(within, share)
            means[k], rows[own] = centre, within * np.sqrt(weight * (1.0 - part))
            ridge += priors[k] * added
        with np.errstate(over="ignore"):
            variance = np.einsum("ij,ij->j", rows, rows) + ridge
        if not (np.isfinite(variance).all() and np.isfinite(means).all()):
            raise ProblemError("X: its variances overflow float64; scale the features")
        unit = np.sqrt(variance)
        varies = unit > np.finfo(float).eps * np.abs(X).max(axis=0, initial=0.0)
        if not varies.any():
            raise ProblemError("X: no feature varies within a class, and so no direction is better than another")
        unit = np.where(varies, unit, 1.0)
        rows, ridge = np.where(varies, rows / unit, 0.0), np.where(varies, ridge / unit**2, 0.0)
        if n > m:  # the same scatter, of m rows
            rows = scipy.linalg.qr(rows, mode="r", check_finite=False)[0][:m]
        if (ridge > 0).all():
            return cls(priors, means, unit, np.eye(m), rows.T.copy(), ridge)
        if ridge.any():  # constant features
            basis = np.eye(m)[varies]
            return cls(priors, means, unit, basis, (rows @ basis.T).T.copy(), ridge[varies])
        _, sizes, directions = scipy.linalg.svd(rows, full_matrices=False, check_finite=False)
        kept = sizes > rank_tol
        if not kept.any():
            raise ProblemError(f"X: no direction varies within classes by more than rank_tol={rank_tol!r}; lower it")
        basis = np.eye(m) if kept.sum() == m else directions[kept]
        return cls(priors, means, unit, basis, (rows @ basis.T).T.copy(), np.zeros(len(basis)))

    def differences(self) -> NDArray:
        """Of two classes what their means differ by, shape (1, r); of more what each differs from their mean by."""
        return differences(self.means, self.priors, self.unit, self.basis)

    def problems(self) -> list[DualProblem]:
        """One for two classes, else one a class."""
        gram = Gram(self.root, "linear")
        return [problems.discriminant(gram, wanted, ridge=self.ridge) for wanted in self.differences()]


def differences(means: NDArray, priors: NDArray, unit: NDArray, basis: NDArray) -> NDArray:
    """`Scatter.differences`, of what of it a file holds."""
    found = means[1:] - means[:1] if len(means) == 2 else means - priors @ means
    wanted: NDArray = (found / unit) @ basis.T
    return wanted


def _share_of(shrinkage: Any) -> float | None:
    """Between 0 and 1; None is to be found class by class."""
    if isinstance(shrinkage, str) and shrinkage == "auto":
        return None
    return 0.0 if shrinkage is None else float(_SHARE.check("shrinkage", shrinkage))


def _shrunk(within: NDArray, share: float | None) -> tuple[float, NDArray]:
    """λ, and what it adds to the variances, of the points of a class less their mean."""
    count, m = within.shape
    if share is not None:
        return share, np.full(m, share * float(np.einsum("ij,ij->", within, within)) / (count * m))
    deviation = within.std(axis=0)
    unit = np.where(deviation > 0, deviation, 1.0)
    standard = within / unit
    part = float(ledoit_wolf_shrinkage(standard)) if count > 1 and deviation.any() else 0.0
    return part, unit**2 * (part * float(np.mean(standard**2)))
