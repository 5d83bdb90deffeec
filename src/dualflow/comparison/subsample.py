"""The points of a comparison: two classes, checked, drawn once, the rest held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.kernel_checks import as_matrix
from ..estimators._validation import exact_labels
from ..exceptions import ProblemError

__all__ = ["Subsample"]


@dataclass(frozen=True)
class Subsample:
    """Training points, held-out points, the two labels.

    Attributes
    ----------
    X, y : arrays of shape (n, m) and (n,)
        The subsample.
    X_test, y_test : arrays of shape (k, m) and (k,)
        Held out.
    classes : list of two labels, sorted
    inlier : label
        The class svdd describes.
    """

    X: NDArray
    y: NDArray
    X_test: NDArray
    y_test: NDArray
    classes: list[Any]
    inlier: Any

    @classmethod
    def split(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        X_test: ArrayLike | None,
        y_test: ArrayLike | None,
        max_n: int,
        random_state: int,
        inlier: Any,
        pairwise: bool = False,
    ) -> Subsample:
        """Check the data and draw at most ``max_n`` points, stratified by class; the rest, or X_test, is held out.

        With ``pairwise`` the columns are points too (a kernel matrix), and those of the subsample are kept.
        """
        points = as_matrix(X, "X")
        if pairwise and points.shape[0] != points.shape[1]:
            raise ProblemError(
                f"X: with kernel='precomputed' it is the kernel matrix and must be square, found shape {points.shape}"
            )
        labels = _labels(y, len(points), "y", "X")
        classes = _two_classes(labels)
        inlier = classes[0] if inlier is None else inlier
        if inlier not in classes:
            raise ProblemError(f"inlier_class={inlier!r} is not a label of y ({classes[0]!r}, {classes[1]!r})")
        chosen = _stratified(labels == classes[1], max_n, np.random.default_rng(random_state))
        if (X_test is None) != (y_test is None):
            raise ProblemError("X_test and y_test go together; one of them is missing")
        if X_test is not None and y_test is not None:
            held_out, held_labels = as_matrix(X_test, "X_test"), _labels(y_test, len(X_test), "y_test", "X_test")  # type: ignore[arg-type]
            if held_out.shape[1] != points.shape[1]:
                raise ProblemError(f"X_test has {held_out.shape[1]} features, X has {points.shape[1]}")
            unknown = set(held_labels.tolist()) - set(classes)
            if unknown:
                raise ProblemError(f"y_test has labels that y has not: {', '.join(map(repr, sorted(unknown)))}")
        else:
            rest = np.setdiff1d(np.arange(len(points)), chosen)
            held_out, held_labels = points[rest], labels[rest]
        columns = chosen if pairwise else slice(None)
        return cls(points[chosen][:, columns], labels[chosen], held_out[:, columns], held_labels, classes, inlier)

    def signs(self, labels: NDArray, positive: Any) -> NDArray:
        """+1 where a label is the positive one, else −1; shape (len(labels),)."""
        return np.where(labels == positive, 1.0, -1.0)

    def describe(self, labels: NDArray) -> str:
        """How many, and of which class."""
        counts = ", ".join(f"{int(np.sum(labels == label))} of class {label}" for label in self.classes)
        return f"{len(labels)} ({counts})"


def _stratified(second: NDArray, max_n: int, rng: np.random.Generator) -> NDArray:
    """Sorted indices of at most ``max_n`` points, both classes in proportion and at least one of each."""
    members = [np.flatnonzero(~second), np.flatnonzero(second)]
    if len(second) <= max_n:
        return np.arange(len(second))
    first = int(np.clip(round(max_n * len(members[0]) / len(second)), 1, max_n - 1))
    sizes = first, max_n - first
    picks = [rng.choice(group, size=size, replace=False) for group, size in zip(members, sizes, strict=True)]
    return np.sort(np.concatenate(picks))


def _labels(y: ArrayLike, n: int, name: str, data: str) -> NDArray:
    labels = np.asarray(exact_labels(y, name))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise ProblemError(f"{name} has shape {labels.shape}, {data} has {n} rows; one label a row is needed")
    if labels.dtype.kind == "O":
        types = sorted({type(label).__name__ for label in labels})
        if len(types) > 1:
            raise ProblemError(f"{name} mixes labels of types {', '.join(types)}; use one type")
        if types == ["str"]:
            labels = labels.astype(str)
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ProblemError(f"{name} contains NaN or infinity; drop those rows")
    if labels.dtype.kind not in "biufUS":
        raise ProblemError(f"{name} holds labels of dtype {labels.dtype}; numbers or strings are needed")
    return labels


def _two_classes(labels: NDArray) -> list[Any]:
    classes = np.unique(labels).tolist()
    if len(classes) == 2:
        return classes
    if len(classes) < 2:
        raise ProblemError(f"y has a single class, {classes[0]!r}; two are needed")
    shown = ", ".join(map(repr, classes[:6])) + (", …" if len(classes) > 6 else "")
    raise ProblemError(
        f"y has {len(classes)} classes ({shown}); a comparison takes two: choose them with "
        f"keep = np.isin(y, [{classes[0]!r}, {classes[1]!r}]) and pass X[keep], y[keep]"
    )
