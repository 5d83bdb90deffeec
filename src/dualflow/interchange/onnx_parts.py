"""Collect the arrays and numbers of a fitted model that its ONNX graph needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import is_classifier, is_outlier_detector, is_regressor
from sklearn.utils.validation import check_is_fitted

from ..core.gram import MAX_REACH_PRODUCTS
from ..core.named_kernels import kernels_with
from ..exceptions import ProblemError
from .libsvm_model import LibsvmModel

#: Maximum size of the arrays, in bytes: protobuf messages are below 2 GiB, and the graph itself needs some room.
MAX_BYTES = (1 << 31) - (1 << 20)


@dataclass(frozen=True)
class DecisionParts:
    """The function Σⱼ coefᵢⱼ k(x, xⱼ) + biasᵢ (minus k(x, x) for a ball), and how predictions are read from it.

    Attributes
    ----------
    task : {"two classes", "several classes", "regression", "ball", "plane"}
    kernel, gamma, coef0, degree
        As for `Gram`.
    points : array of shape (n_SV, m), float64
        Support vectors minus the ``center``, at least one. A model or a class without support vectors has one with
        weight 0.
    center : array of shape (m,)
    coefficients : array of shape (n_SV, r)
        r = 1; with several classes r = n_classes − 1, in LIBSVM's layout.
    bias : array of shape (pairs,), or (1,)
    counts : integer array of shape (n_classes,)
        With several classes: the number of support vectors of each, in the order of `points`.
    labels : array of shape (n_classes,)
        Ties of votes go to the first label. With two classes, values ≥ 0 give the second.
    columns, signs : arrays of shape (pairs,)
        Pairs and signs of the decision values; None if they are all pairs with sign +1.
    shape : {"ovr", "ovo"}
    breaks_ties : bool
    inside_at_zero : bool
        For ball and plane: whether a value of 0 is inside.
    linear : array of shape (m, pairs), or (m, 1); or None
        For a linear kernel: weights of the features, if the model stores them.
    """

    task: str
    kernel: str
    gamma: float
    coef0: float
    degree: float
    points: NDArray
    center: NDArray
    coefficients: NDArray
    bias: NDArray
    counts: NDArray = field(default_factory=lambda: np.empty(0, int))
    labels: NDArray = field(default_factory=lambda: np.empty(0, int))
    columns: NDArray | None = None
    signs: NDArray | None = None
    shape: str = "ovo"
    breaks_ties: bool = False
    inside_at_zero: bool = True
    linear: NDArray | None = None

    @property
    def squares(self) -> NDArray:
        """‖x − center‖² of the support vectors, shape (n_SV,)."""
        return np.einsum("ij,ij->i", self.points, self.points)

    @property
    def needs_differences(self) -> bool:
        """Whether the radial kernel is so narrow that it must be computed from differences of points, not products."""
        return self.kernel == "rbf" and self.gamma * float(self.squares.max()) > MAX_REACH_PRODUCTS

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(len(self.labels)), 2))

    def weights(self) -> NDArray:
        """Return the weights of the features of each pair, shape (m, pairs), which define a linear model.

        They are those that the model stores, or Σⱼ coefⱼ xⱼ, which loses digits if columns have different scales.
        """
        if self.linear is not None:
            return self.linear
        if self.task != "several classes":
            return self.points.T @ self.coefficients
        starts = np.cumsum(self.counts)[:-1]
        parts = zip(np.split(self.points, starts), np.split(self.coefficients, starts), strict=True)
        own = [points.T @ coefficients for points, coefficients in parts]
        return np.stack([own[i][:, j - 1] + own[j][:, i] for i, j in self.pairs], axis=1)


def labels_of(classes: Any) -> NDArray:
    """Return labels as ONNX holds them: whole numbers, floats, booleans or text.

    Raises
    ------
    ProblemError
        They are of another type, or text that ONNX cannot hold.
    """
    found = np.asarray(classes)
    plain = found.tolist()
    if found.dtype.kind == "O" and len(set(map(type, plain))) == 1 and np.array(plain).tolist() == plain:
        found = np.array(plain)
    if found.dtype.kind == "U" and not any(_is_odd(label) for label in plain):
        return np.array(plain, dtype=object)
    if found.dtype.kind == "b":
        return found
    if found.dtype.kind == "i" or (found.dtype.kind == "u" and int(found.max()) <= np.iinfo(np.int64).max):
        return found.astype(np.int64)
    if found.dtype.kind == "f" and found.dtype.itemsize <= 8:
        return found.astype(float)
    raise ProblemError(
        f"classes_ are {', '.join(map(repr, plain[:4]))}{', …' * (len(plain) > 4)}; labels in ONNX "
        "are whole numbers below 2**63, floats, booleans or text (without NUL and lone surrogates): fit on "
        "LabelEncoder().fit_transform(y), and keep its classes_ with the file"
    )


def _is_odd(label: str) -> bool:
    """Return whether a text has a NUL, which ends a string in C++, or a lone surrogate, which UTF-8 cannot encode."""
    return "\0" in label or any("\ud800" <= letter <= "\udfff" for letter in label)


def parts_of(model: Any) -> DecisionParts:
    """Return the arrays of a fitted dualflow model, or of a `LibsvmModel`.

    Raises
    ------
    ProblemError
        ONNX cannot hold the kernel, the labels or the model, or the model is too large.
    NotFittedError
        The model is not fitted.
    """
    if isinstance(model, LibsvmModel):
        _check_kernel(model, model.svm_type)
        return _of_file(model)
    name = type(model).__name__
    if not hasattr(type(model), "_as_fitted"):
        raise ProblemError(f"{name} is no model of dualflow; give one, or a LIBSVM model by from_libsvm")
    check_is_fitted(model)
    _check_kernel(model, name)
    kept = model._as_fitted
    gram = model._streams[0].gram if hasattr(model, "_streams") else model._support_gram
    coef: Any = model.dual_coef_
    coefficients = np.asarray(coef.toarray() if sparse.issparse(coef) else coef, dtype=float).T
    if gram is None or not len(coefficients):
        if not is_classifier(model) and not is_regressor(model):
            raise ProblemError(f"{name} has no support vectors, so it has no inside; fit it to points first")
        gram = None
    width = int(model.n_features_in_)
    linear = getattr(model, "_linear", None)
    points = _dense(model.support_vectors_, width, coefficients.shape[1])
    center = np.zeros(width) if gram is None or gram.center is None else np.asarray(gram.center, dtype=float)
    facts: dict[str, Any] = {
        "kernel": kept.kernel,
        "gamma": 1.0 if gram is None else float(gram.gamma),
        "coef0": float(kept.coef0),
        "degree": float(kept.degree),
        "center": center,
        "points": points - center,
        "coefficients": coefficients,
        "linear": None if linear is None else np.asarray(linear, dtype=float).T,
    }
    if is_classifier(model):
        facts |= _classifier(model)
    elif is_regressor(model):
        if coefficients.shape[1] > 1:
            raise ProblemError(
                f"{name} of {coefficients.shape[1]} quantiles: an ONNX graph or C header has one; fit one a model"
            )
        bias = model._streams[0].bias if hasattr(model, "_streams") else float((model.intercept_ + model._constants)[0])
        facts |= {"task": "regression", "bias": np.array([float(bias)])}
    elif is_outlier_detector(model) and hasattr(model, "_center_square"):
        facts |= {"task": "ball", "bias": np.array([-(model._center_square + float(model.offset_))])}
        facts["coefficients"] = 2.0 * coefficients
        facts["linear"] = None if facts["linear"] is None else 2.0 * facts["linear"]
    else:
        facts |= {"task": "plane", "bias": np.array(model.intercept_, dtype=float)}
    return DecisionParts(**_padded(facts))


def _check_kernel(model: Any, name: str) -> None:
    kernel = getattr(getattr(model, "_as_fitted", model), "kernel", None)
    exported = kernels_with(lambda own: own.is_exported)
    if not isinstance(kernel, str) or kernel not in exported:
        found = repr(kernel) if isinstance(kernel, str) else f"a callable, {getattr(kernel, '__name__', kernel)}"
        raise ProblemError(
            f"{name}: its kernel is {found}, which ONNX graphs and C headers cannot compute; fit with one of "
            f"{', '.join(exported)}"
        )


def unwritable_kernel(kernel: str) -> ProblemError:
    """Return the error for a kernel with `NamedKernel.is_exported` for which an exporter has no branch."""
    return ProblemError(f"kernel={kernel!r} is listed for export, but this exporter does not write it")


def _classifier(model: Any) -> dict[str, Any]:
    if getattr(model, "break_ties", False) and model.decision_function_shape == "ovo":
        raise ProblemError("break_ties must be False when decision_function_shape is 'ovo'; or set that to 'ovr'")
    labels = labels_of(model.classes_)
    return {
        "task": "two classes" if len(labels) == 2 else "several classes",
        "bias": np.array(model.intercept_ + model._constants, dtype=float),
        "counts": np.asarray(model.n_support_, dtype=int),
        "labels": labels,
        "shape": model.decision_function_shape,
        "breaks_ties": bool(getattr(model, "break_ties", False)),
    }


def _dense(vectors: Any, width: int, columns: int) -> NDArray:
    """Return support vectors as a float64 array, the model's or a copy; raise ProblemError if they are too large."""
    n = vectors.shape[0]
    size = 8 * max(1, n) * (width + columns)
    if size > MAX_BYTES:
        raise ProblemError(
            f"{n} support vectors of {width} features take {size} bytes, and ONNX files must be below "
            "2 GiB; fit on fewer points or features"
        )
    if not n:
        return np.empty((0, width))
    return np.asarray(vectors.toarray() if sparse.issparse(vectors) else vectors, dtype=float)


def _padded(facts: dict[str, Any]) -> dict[str, Any]:
    """Add the center as a point of weight 0 to a model without support vectors, and to each class that has none."""
    points, coefficients = facts["points"], facts["coefficients"]
    counts = np.array([len(points)])
    if facts["task"] == "several classes":
        counts = facts["counts"] = facts["counts"].copy()
    for k in np.flatnonzero(counts == 0):
        at = int(counts[:k].sum())
        points, coefficients = np.insert(points, at, 0.0, axis=0), np.insert(coefficients, at, 0.0, axis=0)
        counts[k] = 1
    return facts | {"points": points, "coefficients": coefficients}


def _of_file(model: LibsvmModel) -> DecisionParts:
    """Return the arrays of a `LibsvmModel`; its classes stay in the order of the file, which decides ties."""
    width = model.n_features_in_
    points = _dense(model.support_vectors_, width, model.dual_coef_.shape[0])
    facts: dict[str, Any] = {
        "kernel": model.kernel,
        "gamma": float(model.gamma),
        "coef0": float(model.coef0),
        "degree": float(model.degree),
        "center": np.zeros(width),
        "points": points,
        "coefficients": np.asarray(model.dual_coef_, dtype=float).T,
        "bias": np.asarray(model.intercept_, dtype=float),
    }
    if model.svm_type.endswith("svr"):
        facts |= {"task": "regression"}
    elif model.svm_type == "one_class":
        facts |= {"task": "plane", "inside_at_zero": False}
    else:
        place = {label: k for k, label in enumerate(model._labels.tolist())}
        number = {pair: k for k, pair in enumerate(combinations(range(len(place)), 2))}
        met = [(place[one], place[two]) for one, two in combinations(model.classes_.tolist(), 2)]
        signs = np.array([1.0 if first < second else -1.0 for first, second in met])
        facts |= {
            # Two classes, too: "two classes" gives a value of 0 to the second class, LIBSVM to the first.
            "task": "several classes",
            "counts": model._counts,
            "labels": labels_of(model._labels),
            "columns": np.array([number[min(pair), max(pair)] for pair in met]),
            "signs": -signs if len(place) == 2 else signs,
        }
    return DecisionParts(**_padded(facts))
