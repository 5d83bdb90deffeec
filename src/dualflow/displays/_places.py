"""Points of any number of features on a sheet of paper: principal components, or those of the kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Plane", "dense_rows", "kernel_coordinates", "plane_of"]

#: Entries up to which points are held as a dense matrix.
DENSE = 20_000_000


def dense_rows(X: Any) -> Any:
    """Points as a dense array where that fits, else as CSR; of `SparsePoints` and scipy's matrices."""
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        return X.toarray() if X.shape[0] * X.shape[1] <= DENSE else X
    return np.asarray(X, dtype=float)


@dataclass(frozen=True)
class Plane:
    """Two axes through the mean: what lies on it is drawn as it is, all else is projected onto it."""

    mean: NDArray
    axes: NDArray
    #: Parts of the variance along the axes.
    shares: NDArray

    def places(self, X: Any) -> NDArray:
        """Coordinates of points in the plane, shape (k, 2)."""
        return np.asarray(X @ self.axes.T - self.mean @ self.axes.T)

    def points(self, places: NDArray) -> NDArray:
        """Points of the plane, shape (k, m)."""
        return self.mean + places @ self.axes

    @property
    def labels(self) -> tuple[str, str]:
        """What the axes are called."""
        return (
            f"1st principal component ({100 * self.shares[0]:.0f} % of variance)",
            f"2nd principal component ({100 * self.shares[1]:.0f} % of variance)",
        )


def plane_of(X: Any) -> Plane:
    """The plane of the first two principal components of points of shape (n, m), m ≥ 2."""
    n, m = X.shape
    mean = np.asarray(X.mean(axis=0), dtype=float).ravel()
    if isinstance(X, np.ndarray) and min(n, m) ** 2 * max(n, m) <= 2e9:
        centred = X - mean
        _, sizes, axes = np.linalg.svd(centred, full_matrices=False)
        total = float((sizes**2).sum())
    else:
        from scipy.sparse.linalg import LinearOperator, svds

        def forth(v: NDArray) -> NDArray:
            return np.asarray(X @ v).ravel() - mean @ v.ravel()

        def back(u: NDArray) -> NDArray:
            return np.asarray(X.T @ u).ravel() - mean * u.sum()

        operator = LinearOperator((n, m), matvec=forth, rmatvec=back, dtype=float)
        _, sizes, axes = svds(operator, k=2, v0=np.arange(min(n, m)) + 0.7)
        order = np.argsort(-sizes)
        sizes, axes = sizes[order], axes[order]
        squares = X.multiply(X).sum() if hasattr(X, "multiply") else float(np.vdot(X, X))
        total = float(squares - n * (mean @ mean))
    if len(axes) < 2:  # two points and one difference: any direction beside it
        spare = np.eye(m)[np.argmin(np.abs(axes[0]))]
        spare -= (spare @ axes[0]) * axes[0]
        axes, sizes = np.vstack([axes, spare / np.linalg.norm(spare)]), np.append(sizes, 0.0)
    axes = axes[:2]
    # The larger part of each axis points up, so that a picture is the same every time.
    axes = axes * np.where(axes[np.arange(2), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
    return Plane(mean, axes, sizes[:2] ** 2 / total if total > 0 else np.zeros(2))


def kernel_coordinates(gram: Any) -> NDArray:
    """First two principal coordinates of the points in feature space, shape (n, 2); of a kernel alone."""
    n = gram.n
    if n < 400:
        K = gram.full()
        K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
        values, vectors = np.linalg.eigh(K)
    else:
        from scipy.sparse.linalg import LinearOperator, eigsh

        def centred(v: NDArray) -> NDArray:
            v = v.ravel()
            product = gram.matvec(v - v.mean())
            return np.asarray(product - product.mean())

        values, vectors = eigsh(
            LinearOperator((n, n), matvec=centred, dtype=float), k=2, which="LA", v0=np.arange(n) - 0.3
        )
    order = np.argsort(-values)[:2]
    vectors = vectors[:, order] * np.sqrt(np.maximum(values[order], 0.0))
    vectors = vectors * np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    return np.hstack([vectors, np.zeros((n, 2 - vectors.shape[1]))])
