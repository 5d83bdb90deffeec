"""The scene that `SupportDisplay` draws, read from an estimator or a solution.

It holds points, labels, support vectors and a function. Points with more than two features are projected onto a plane
(`plane_of`, `kernel_coordinates`); values on a grid become colours and lines (`paint`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ._axes import COLOURS, DARK, GREY, SIGNS, matplotlib_part

#: Points with more entries than this (zeros included) stay sparse.
MAX_DENSE_ENTRIES = 20_000_000


def dense_rows(X: Any) -> Any:
    """Return points as a dense array if they are small enough, else as CSR."""
    if hasattr(X, "tocsr"):
        X = X.tocsr()
        return X.toarray() if X.shape[0] * X.shape[1] <= MAX_DENSE_ENTRIES else X
    return np.asarray(X, dtype=float)


@dataclass(frozen=True)
class Plane:
    """A plane through the mean, onto which points are projected."""

    mean: NDArray  # shape (m,)
    axes: NDArray  # orthonormal directions of the plane; shape (2, m)
    shares: NDArray  # fractions of the variance along the axes; shape (2,)

    def places(self, X: Any) -> NDArray:
        """Return coordinates of points in the plane, shape (k, 2)."""
        return np.asarray(X @ self.axes.T - self.mean @ self.axes.T)

    def points(self, places: NDArray) -> NDArray:
        """Return the points with these coordinates in the plane, shape (k, m)."""
        return self.mean + places @ self.axes

    @property
    def labels(self) -> tuple[str, str]:
        """Labels of the two axes."""
        return (
            f"1st principal component ({100 * self.shares[0]:.0f} % of variance)",
            f"2nd principal component ({100 * self.shares[1]:.0f} % of variance)",
        )


def plane_of(X: Any) -> Plane:
    """Return the plane of the first two principal components of points of shape (n, m), m ≥ 2."""
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
    if len(axes) < 2:  # two points have one difference; any orthogonal direction is the second axis
        spare = np.eye(m)[np.argmin(np.abs(axes[0]))]
        spare -= (spare @ axes[0]) * axes[0]
        axes, sizes = np.vstack([axes, spare / np.linalg.norm(spare)]), np.append(sizes, 0.0)
    axes = axes[:2]
    # The largest entry of each axis is made positive, so that the plot is reproducible.
    axes = axes * np.where(axes[np.arange(2), np.abs(axes).argmax(axis=1)] < 0, -1.0, 1.0)[:, None]
    return Plane(mean, axes, sizes[:2] ** 2 / total if total > 0 else np.zeros(2))


def kernel_coordinates(gram: Any) -> NDArray:
    """Return the first two principal coordinates of the points in feature space, shape (n, 2), from the kernel only."""
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
            LinearOperator((n, n), matvec=centred, dtype=float), k=2, which="LA", v0=np.arange(float(n))
        )
    order = np.argsort(-values)[:2]
    vectors = vectors[:, order] * np.sqrt(np.maximum(values[order], 0.0))
    vectors = vectors * np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])] < 0, -1.0, 1.0)
    return np.hstack([vectors, np.zeros((n, 2 - vectors.shape[1]))])


@dataclass(frozen=True)
class Scene:
    """The content of a plot."""

    kind: str  # "margin" (two classes), "classes", "ball" (inside and outside) or "value" (a regression)
    X: Any  # array or CSR of shape (n, m)
    y: NDArray | None  # labels, or targets; shape (n,) or None
    support: Any  # array or CSR of shape (k, m)
    support_y: NDArray | None  # labels or targets of the support vectors, if known; shape (k,) or None
    #: Maps points of shape (k, m) to decision values, to numbers of classes, or to predictions.
    function: Callable[[NDArray], NDArray]
    classes: NDArray  # labels as the user gave them, sorted; empty if there are none
    features: tuple[str, ...] | None = None
    epsilon: float | None = None  # half the width of a regression's tube
    circuits: tuple[str, ...] = ()  # summaries of the circuits' own answers


def scene_of_solution(solution: Any) -> Scene:
    """Return the scene of a `Solution`: the points of its problem, and the decision function of its answer."""
    if not all(hasattr(solution, name) for name in ("problem", "decision_values", "support")):
        raise ProblemError(f"solution must be what dualflow.solve returns, found {type(solution).__name__}")
    problem, gram = solution.problem, solution.problem.gram
    _refuse_precomputed(gram.kernel)
    X = dense_rows(gram.X)
    held = solution.support if problem.idx is None else np.unique(problem.idx[solution.support])
    y, kind, classes, epsilon = None, "ball", np.array([]), None
    if problem.model == "svr":
        count = np.bincount(problem.idx, minlength=gram.n)
        y = np.bincount(problem.idx, problem.sigma * problem.p, minlength=gram.n) / count
        kind, epsilon = "value", max(0.0, -float(problem.p.mean()))
    elif problem.reading.signed:
        y, kind, classes = problem.sigma.astype(int), "margin", np.array([-1, 1])
    elif (problem.sigma < 0).any():
        y, classes = problem.sigma.astype(int), np.array([-1, 1])
    support_y = None if y is None else y[held]
    circuits = (solution.raw_summary(),) if solution.ran_circuits else ()
    return Scene(kind, X, y, X[held], support_y, solution.decision_values, classes, None, epsilon, circuits)


def scene_of_estimator(estimator: Any, X: Any, y: Any) -> Scene:
    """Return the scene of a fitted model, a pipeline that ends in one, or a search; X is what it was fitted to."""
    from sklearn.base import is_classifier, is_regressor
    from sklearn.utils.validation import check_is_fitted

    estimator = getattr(estimator, "best_estimator_", estimator)
    model = estimator[-1] if hasattr(estimator, "steps") else estimator
    if has_vectors := hasattr(type(model), "support_vectors_"):
        check_is_fitted(model)
        has_vectors = hasattr(model, "support_vectors_")  # the property of a class may raise for this model
    if not has_vectors:
        raise ProblemError(
            f"{type(model).__name__} has no support vectors; give a model such as SVC, SVR, SVDD or OneClassSVM"
        )
    _refuse_precomputed(getattr(model, "_as_fitted", model).kernel)
    if model is not estimator and len(estimator) > 1 and np.shape(X)[1:] not in ((1,), (2,)):
        # Principal components are computed in the space of the model's own input.
        X, estimator = estimator[:-1].transform(X), model
    columns = None if not hasattr(X, "columns") else [str(name) for name in X.columns]
    points = _numeric_points(X)
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (points.shape[0],):
        raise ProblemError(f"y has shape {labels.shape}, X has {points.shape[0]} points; each point needs one label")
    at = np.asarray(model.support_)
    own = model is estimator and model.support_vectors_.shape[1:] == points.shape[1:]
    rows = len(at) == 0 or (at.dtype.kind in "iu" and at.min() >= 0 and at.max() < points.shape[0])
    if not own and not rows:
        raise ProblemError(f"X has {points.shape[0]} points, and support_ has larger indices; give the X of the fit")
    support = dense_rows(model.support_vectors_) if own else points[at.astype(int)]
    support_y = None
    if labels is not None and rows and np.array_equal(_dense(points[at.astype(int)]), _dense(support)):
        support_y = labels[at.astype(int)]

    def table(Z: NDArray) -> Any:
        """Return points in the type of X, so that names of columns can be checked."""
        if columns is None:
            return Z
        return type(X)(Z, columns=list(X.columns)) if hasattr(X, "iloc") else type(X)(Z, schema=list(X.columns))

    features, circuits = tuple(columns) if columns else None, tuple(getattr(model, "raw_summaries_", ()))
    if is_regressor(model):
        tube = float(getattr(model, "epsilon", 0.0))

        def predicted(Z: NDArray) -> NDArray:
            return np.asarray(estimator.predict(table(Z)))

        return Scene("value", points, labels, support, support_y, predicted, np.array([]), features, tube, circuits)
    if is_classifier(model) and labels is not None:
        known = set(np.asarray(model.classes_).tolist())
        if unknown := sorted(set(labels.tolist()) - known, key=str):
            raise ProblemError(f"y holds {unknown[0]!r}, which is not a class of the fit: {model.classes_.tolist()}")
    if is_classifier(model) and len(model.classes_) > 2:
        places = {label: k for k, label in enumerate(model.classes_.tolist())}

        def number(Z: NDArray) -> NDArray:
            return np.array([places[label] for label in np.asarray(estimator.predict(table(Z))).tolist()], dtype=float)

        return Scene("classes", points, labels, support, support_y, number, model.classes_, features, None, circuits)
    kind, classes = ("margin", model.classes_) if is_classifier(model) else ("ball", np.array([]))
    if kind == "ball" and labels is not None:
        classes = np.unique(labels)

    def decided(Z: NDArray) -> NDArray:
        return np.asarray(estimator.decision_function(table(Z))).ravel()

    return Scene(kind, points, labels, support, support_y, decided, classes, features, None, circuits)


def _numeric_points(X: Any) -> Any:
    """Return X as numbers, dense or CSR; raise ProblemError if it is not a table of numbers."""
    points = dense_rows(X) if hasattr(X, "tocsr") else np.asarray(X)
    if points.ndim != 2 or points.shape[0] < 1:
        raise ProblemError(f"X must be the points of the fit, one in each row, found shape {points.shape}")
    if not np.issubdtype(points.dtype, np.number):
        try:
            points = points.astype(float)
        except (TypeError, ValueError):
            raise ProblemError("X holds text, and a surface needs numbers: give the encoded columns") from None
    return points


def _dense(rows: Any) -> NDArray:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


def _refuse_precomputed(kernel: Any) -> None:
    if isinstance(kernel, str) and kernel == "precomputed":
        raise ProblemError(
            "kernel='precomputed' has no features over which a surface can be drawn; use EcosystemDisplay"
        )


def paint(ax: Any, scene: Scene, u: NDArray, v: NDArray, f: NDArray) -> tuple[Any, Any]:
    """Draw values f of shape (len(v), len(u)); return the contour sets of the regions and of the lines between them."""
    low, high = float(f.min()), float(f.max())
    tint = matplotlib_part("colors").to_rgba
    if scene.kind == "classes":
        regions = []
        for k in np.unique(f).astype(int):
            tone = [tint(COLOURS[k % len(COLOURS)], 0.25)]
            if low == high:
                ax.axhspan(v[0], v[-1], color=tone[0], linewidth=0, zorder=0)
            else:
                regions.append(ax.contourf(u, v, (f == k).astype(float), levels=[0.5, 1.5], colors=tone, zorder=0))
        ax.set(xlim=(u[0], u[-1]), ylim=(v[0], v[-1]))
        return regions, None
    if scene.kind == "value":
        levels = 12 if high > low else np.array([low - 1.0, low + 1.0])
        surface = ax.contourf(u, v, f, levels=levels, cmap="cividis", zorder=0)
        ax.figure.colorbar(surface, ax=ax, label="prediction")
        return surface, None
    if scene.kind == "margin":
        bounds = [min(low, -1.0) - 1, -1.0, 0.0, 1.0, max(high, 1.0) + 1]
        tones = [tint(SIGNS[sign], depth) for sign, depth in ((-1, 0.32), (-1, 0.13), (1, 0.13), (1, 0.32))]
        lines = [(-1.0, "--"), (0.0, "-"), (1.0, "--")]
    else:
        bounds, tones = [min(low, 0.0) - 1, 0.0, max(high, 0.0) + 1], [tint("white", 0.0), tint(GREY, 0.25)]
        lines = [(0.0, "-")]
    surface = ax.contourf(u, v, f, levels=bounds, colors=tones, zorder=0)
    met = [line for line in lines if low < line[0] < high]
    if not met:
        return surface, None
    style: dict[str, Any] = {"colors": DARK, "linewidths": 1.0, "zorder": 1}
    return surface, ax.contour(
        u, v, f, levels=[level for level, _ in met], linestyles=[dash for _, dash in met], **style
    )
