"""What `SupportDisplay` draws, read from an estimator or a solution: points, labels, support vectors, a function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ._places import dense_rows

__all__ = ["Scene", "scene_of_estimator", "scene_of_solution"]


@dataclass(frozen=True)
class Scene:
    """What is drawn.

    Attributes
    ----------
    kind : {"margin", "classes", "ball", "value"}
        Two classes, several, inside and outside, a regression.
    X : array or CSR of shape (n, m)
    y : array of shape (n,) or None
        Labels, or targets.
    support : array or CSR of shape (k, m)
    support_y : array of shape (k,) or None
        Of them, where it is known.
    function : callable
        Of points of shape (k, m): decision values, or the number of the class, or the prediction.
    classes : array
        Labels as the user wrote them, in order; empty without.
    features : tuple of str, optional
    epsilon : float or None
        Half the width of a regression's tube.
    circuits : tuple of str
        What circuits behind the function themselves found.
    """

    kind: str
    X: Any
    y: NDArray | None
    support: Any
    support_y: NDArray | None
    function: Callable[[NDArray], NDArray]
    classes: NDArray
    features: tuple[str, ...] | None = None
    epsilon: float | None = None
    circuits: tuple[str, ...] = ()


def scene_of_solution(solution: Any) -> Scene:
    """Of a `Solution`: its problem's points, and the decision function of its answer."""
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
    said = (solution.raw_summary(),) if solution.ran_circuits else ()
    return Scene(kind, X, y, X[held], support_y, solution.decision_values, classes, None, epsilon, said)


def scene_of_estimator(estimator: Any, X: Any, y: Any) -> Scene:
    """Of a fitted model, a pipeline that ends in one, or a search that found one; X is what it was fitted to."""
    from sklearn.base import is_classifier, is_regressor
    from sklearn.utils.validation import check_is_fitted

    estimator = getattr(estimator, "best_estimator_", estimator)
    model = estimator[-1] if hasattr(estimator, "steps") else estimator
    if has_vectors := hasattr(type(model), "support_vectors_"):
        check_is_fitted(model)
        has_vectors = hasattr(model, "support_vectors_")  # a family's attribute may be one that this model refuses
    if not has_vectors:
        raise ProblemError(
            f"{type(model).__name__} has no support vectors; give an SVC, SVR, SVDD, OneClassSVM or alike"
        )
    _refuse_precomputed(getattr(model, "_as_fitted", model).kernel)
    if model is not estimator and len(estimator) > 1 and np.shape(X)[1:] not in ((1,), (2,)):
        # A plane of components means something in the space that the model sees.
        X, estimator = estimator[:-1].transform(X), model
    columns = None if not hasattr(X, "columns") else [str(name) for name in X.columns]
    points = dense_rows(X) if hasattr(X, "tocsr") else np.asarray(X)
    if points.ndim != 2 or points.shape[0] < 1:
        raise ProblemError(f"X must be the points that were fitted, one a row, found shape {points.shape}")
    if not np.issubdtype(points.dtype, np.number):
        try:
            points = points.astype(float)
        except (TypeError, ValueError):
            raise ProblemError("X holds text; the surface is drawn over numbers: give the encoded columns") from None
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (points.shape[0],):
        raise ProblemError(f"y has shape {labels.shape}, X has {points.shape[0]} points; one label a point is needed")
    at = np.asarray(model.support_)
    own = model is estimator and model.support_vectors_.shape[1:] == points.shape[1:]
    rows = len(at) == 0 or (at.dtype.kind in "iu" and at.min() >= 0 and at.max() < points.shape[0])
    if not own and not rows:
        raise ProblemError(f"X has {points.shape[0]} points and support_ names others; give the X that was fitted")
    support = dense_rows(model.support_vectors_) if own else points[at.astype(int)]
    support_y = None
    if labels is not None and rows and np.array_equal(_dense(points[at.astype(int)]), _dense(support)):
        support_y = labels[at.astype(int)]

    def table(Z: NDArray) -> Any:
        """Points as what X was: names of columns are held against those of the fit."""
        if columns is None:
            return Z
        return type(X)(Z, columns=list(X.columns)) if hasattr(X, "iloc") else type(X)(Z, schema=list(X.columns))

    features, said = tuple(columns) if columns else None, tuple(getattr(model, "raw_summaries_", ()))
    if is_regressor(model):
        tube = float(getattr(model, "epsilon", 0.0))

        def predicted(Z: NDArray) -> NDArray:
            return np.asarray(estimator.predict(table(Z)))

        return Scene("value", points, labels, support, support_y, predicted, np.array([]), features, tube, said)
    if is_classifier(model) and labels is not None:
        known = set(np.asarray(model.classes_).tolist())
        if unknown := sorted(set(labels.tolist()) - known, key=str):
            raise ProblemError(f"y holds {unknown[0]!r}, which is no class of the fit: {model.classes_.tolist()}")
    if is_classifier(model) and len(model.classes_) > 2:
        places = {label: k for k, label in enumerate(model.classes_.tolist())}

        def number(Z: NDArray) -> NDArray:
            return np.array([places[label] for label in np.asarray(estimator.predict(table(Z))).tolist()], dtype=float)

        return Scene("classes", points, labels, support, support_y, number, model.classes_, features, None, said)
    kind, classes = ("margin", model.classes_) if is_classifier(model) else ("ball", np.array([]))
    if kind == "ball" and labels is not None:
        classes = np.unique(labels)

    def decided(Z: NDArray) -> NDArray:
        return np.asarray(estimator.decision_function(table(Z))).ravel()

    return Scene(kind, points, labels, support, support_y, decided, classes, features, None, said)


def _dense(rows: Any) -> NDArray:
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows)


def _refuse_precomputed(kernel: Any) -> None:
    if isinstance(kernel, str) and kernel == "precomputed":
        raise ProblemError(
            "kernel='precomputed' has no features to draw a surface over; EcosystemDisplay draws what there is"
        )
