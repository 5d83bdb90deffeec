"""What `CascadeSVC` is given, as parts, and what is to be known of all of them together."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..cascade.model import Model
from ..cascade.parts import Part, Rows
from ..cascade.records import Ended
from ..cascade.sources import chunks_of, is_dask, is_parts, parts_of
from ..cascade.tasks import Survey
from ..core.kernel_checks import check_gamma, check_number
from ..core.solution import Status
from ..exceptions import ProblemError
from ._batch import kept
from ._classifier import Joint, PairClassifier, joined, pairs_of
from ._labels import class_weights, classes_with_weight, encode, several
from ._validation import checked_data, exact_labels, kept_weight

__all__ = ["Whole", "cloned", "parts_given", "put_together", "state_without_client", "warn_unless_optimal"]


def cloned(model: Any) -> Any:
    """What `sklearn.base.clone` is to return: with the same engine, for a client cannot be copied."""
    given = model.get_params(deep=False)
    return type(model)(**{k: v if k == "engine" else clone(v, safe=False) for k, v in given.items()})


def state_without_client(model: Any) -> dict[str, Any]:
    """What is pickled: in the place of a client, which is of this process, the word for the one there is then."""
    state: dict[str, Any] = dict(PairClassifier.__getstate__(model))
    if not isinstance(state.get("engine"), (str, type(None))):
        state["engine"] = "dask"
    return state


def parts_given(model: Any, X: Any, y: Any, sample_weight: Any, seed: int) -> list[Part]:
    """X, y and weights as parts; features' names are set where there are any, their number later."""
    model.__dict__.pop("feature_names_in_", None)
    if is_parts(X):
        if y is not None or sample_weight is not None:
            raise ProblemError("X is a list of parts, which hold labels and weights: leave y and sample_weight out")
        return list(X)
    if is_dask(X):
        if y is None:
            raise ProblemError("y is needed beside a dask collection X: give one of the same chunks")
        names = getattr(X, "columns", None)
        if names is not None and all(isinstance(name, str) for name in names):
            model.feature_names_in_ = np.asarray(names, dtype=object)
        return chunks_of(X, y, sample_weight)
    if isinstance(X, np.memmap) and X.ndim == 2 and y is not None:
        labels = _column(y, len(X), "y")
        weight = None if sample_weight is None else _column(sample_weight, len(X), "sample_weight")
        points: NDArray = X
    else:
        points, labels = checked_data(model, X, y, first=True, least=2)
        weight = None if sample_weight is None else kept_weight(sample_weight, points)
    return parts_of(points, labels, weight, int(model.partitions), model.partitioner, np.random.default_rng(seed))


def _column(values: Any, n: int, name: str) -> NDArray:
    array = values if isinstance(values, np.memmap) else np.asarray(exact_labels(values, name))
    if array.shape != (n,):
        raise ProblemError(f"{name} has shape {array.shape}, X has {n} rows")
    return array


def signed(classes: int, i: int, j: int) -> tuple[int, int]:
    """The classes of y = +1 and y = −1 of a pair."""
    return (j, i) if classes == 2 else (i, j)


def put_together(parts: list[Part], whole: Whole, found: list[Ended]) -> tuple[Joint, NDArray]:
    """The support vectors of all pairs by class and then by row, with their coefficients; and the points themselves."""
    of_pairs, points = [], []
    for (i, j), ended in zip(whole.pairs, found, strict=True):
        weights, survivors = kept(ended.coefficients), ended.survivors
        heavy = np.flatnonzero(weights)
        numbers = numbered(parts, whole.sizes, survivors.part, survivors.row)[heavy]
        positive, negative = signed(len(whole.classes), i, j)
        codes = np.where(survivors.sign[heavy] > 0, positive, negative)
        order = np.lexsort((numbers, codes))
        of_pairs.append((numbers[order], codes[order], weights[heavy][order]))
        points.append(survivors.X[heavy][order])
    joint = joined(len(whole.classes), of_pairs, whole.columns)
    return joint, np.concatenate(points)[joint.first]


def warn_unless_optimal(found: list[Ended]) -> None:
    """Say of the worst pair of classes that it ended above the tolerance."""
    if short := [ended for ended in found if ended.status is not Status.OPTIMAL]:
        worst = max(short, key=lambda ended: float(ended.certificate.relative_gap))  # type: ignore[arg-type]
        of = f" ({len(short)} of {len(found)} pairs of classes; the worst)" if len(found) > 1 else ""
        gap = f"{worst.certificate.relative_gap:.3g}{of}"
        warnings.warn(
            f"{worst.status.text} Certified relative gap over all parts {gap}.", ConvergenceWarning, stacklevel=3
        )


def numbered(parts: list[Part], sizes: NDArray, part: NDArray, row: NDArray) -> NDArray:
    """Rows of parts as rows of X; where there is no X, as if the parts followed one another."""
    numbers = (np.cumsum(sizes) - sizes)[part] + row
    for k, own in enumerate(parts):
        if isinstance(own, Rows):
            mine = part == k
            rows = np.arange(own.rows.start, own.rows.stop) if isinstance(own.rows, slice) else own.rows
            numbers[mine] = rows[row[mine]]
    return numbers


@dataclass(frozen=True)
class Whole:
    """What all parts are together.

    Attributes
    ----------
    n : int
        Rows.
    sizes : array of shape (n_parts,)
    classes, class_weight, mass : array of shape (n_classes,)
        Labels, what multiplies their C, and the sum of the weights of their rows.
    present : int array
        Indices of the classes that have rows of positive weight.
    gamma : float
    center : array of shape (m,), or None
        What is taken from all points.
    mean, spread : array of shape (m,)
        Of the features, and the sum of squared distances from it.
    traces : list of array
        `Survey.trace` of each part.
    """

    n: int
    sizes: NDArray
    classes: NDArray
    present: NDArray
    class_weight: NDArray
    mass: NDArray
    gamma: float
    center: NDArray | None
    mean: NDArray
    spread: NDArray
    traces: list[NDArray]

    @classmethod
    def of(cls, model: Any, surveys: list[Survey]) -> Whole:
        """From what was found in the parts, in their order; sets the model's number of features."""
        widths = {len(one.mean) for one in surveys}
        if len(widths) > 1:
            raise ProblemError(f"X: parts have {sorted(widths)} features; all must have the same")
        names = getattr(model, "feature_names_in_", None)
        model.n_features_in_ = widths.pop() if names is None else len(names)
        filled = [one for one in surveys if one.n]
        if not filled:
            raise ProblemError("X: the parts hold no rows")
        kinds = {one.classes.dtype.kind for one in filled}
        if len(kinds & set("biuf")) and len(kinds - set("biuf")):
            raise ProblemError("y: some parts hold numbers, others do not; give labels of one type")
        # Three times each, lest scikit-learn takes many classes for a number of its own each.
        classes, code = encode(np.repeat(np.concatenate([one.classes for one in filled]), 3))
        several(classes, "y")
        counts, weighty, mass = (
            np.bincount(code[::3], np.concatenate([getattr(one, name) for one in filled]), minlength=len(classes))
            for name in ("counts", "weighty", "mass")
        )
        weight = _class_weights(model.class_weight, classes, counts)
        present = classes_with_weight((weighty * (weight > 0)).astype(np.intp), classes)
        sizes = np.array([one.n for one in surveys])
        mean, spread = _moments(filled)
        gamma = _gamma(model, mean, spread, int(sizes.sum()))
        check_number(model.degree, "degree", lower=0.0)
        check_number(model.coef0, "coef0")
        translatable = model.kernel == "linear" or (model.kernel == "poly" and model.degree == 1)
        moves = translatable and model.fit_intercept is True and model.loss == "hinge"
        if model.kernel == "poly" and not (float(model.degree).is_integer() and model.coef0 >= 0):
            raise ProblemError(
                f"degree={model.degree!r}, coef0={model.coef0!r}: kernel='poly' has a bound over parts with a whole "
                "degree and coef0 ≥ 0 only"
            )
        center = mean if moves else None
        return cls(
            int(sizes.sum()), sizes, classes, present, weight, mass, gamma, center, mean, spread,
            [one.trace for one in surveys],
        )  # fmt: skip

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of classes that are solved: of both there are rows of positive weight."""
        there = set(self.present.tolist())
        return [pair for pair in pairs_of(len(self.classes)) if there.issuperset(pair)]

    @property
    def columns(self) -> list[int]:
        """Which of all pairs these are."""
        number = {pair: k for k, pair in enumerate(pairs_of(len(self.classes)))}
        return [number[pair] for pair in self.pairs]

    def among_all(self, values: Sequence[Any], rest: NDArray) -> NDArray:
        """Numbers of the pairs that are solved, in the place of ``rest`` for all pairs."""
        rest[self.columns] = values
        return rest

    def model(self, parameters: Any, i: int, j: int) -> Model:
        """The problem of a pair; of two classes the second is y = +1, of more the first of the pair."""
        positive, negative = signed(len(self.classes), i, j)
        return Model(
            classes=self.classes,
            class_weight=self.class_weight,
            positive=positive,
            negative=negative,
            C=float(parameters.C),
            loss=parameters.loss,
            fit_intercept=parameters.fit_intercept,
            kernel=parameters.kernel,
            gamma=self.gamma,
            degree=float(parameters.degree),
            coef0=float(parameters.coef0),
            center=self.center,
        )

    def mass_of(self, model: Any, i: int, j: int) -> float:
        """What the multipliers of a pair's rows sum to at most."""
        if model.loss == "squared_hinge":
            return 1.0
        return float(model.C * (self.class_weight[[i, j]] @ self.mass[[i, j]]))

    def digest(self) -> dict[str, Any]:
        """What tells these data from others."""
        return {
            "sizes": self.sizes.tolist(),
            "classes": [str(label) for label in self.classes],
            "class_weight": self.class_weight.tolist(),
            "mass": self.mass.tolist(),
            "mean": self.mean.tolist(),
            "spread": self.spread.tolist(),
            # To digits that no machine's BLAS decides.
            "traces": [(trace.round(6) + 0.0).tolist() for trace in self.traces],
        }


def _moments(surveys: list[Survey]) -> tuple[NDArray, NDArray]:
    """Mean of all rows, and the sum of their squared distances from it, each feature its own (Chan, Golub, LeVeque)."""
    n, mean, spread = 0, np.zeros_like(surveys[0].mean), np.zeros_like(surveys[0].mean)
    for one in surveys:
        total = n + one.n
        step = one.mean - mean
        spread = spread + one.spread + step**2 * (n * one.n / total)
        mean, n = mean + step * (one.n / total), total
    return mean, spread


def _gamma(model: Any, mean: NDArray, spread: NDArray, n: int) -> float:
    """γ as `Gram` has it, "scale" by the variance of all entries."""
    if model.kernel == "linear":
        return 1.0
    if isinstance(model.gamma, str) and model.gamma == "scale":
        # All entries together: the features' own variances, and that of their means.
        variance = float(np.mean(spread) / n + mean.var())
        # Of ± its root the variance is this, and checks are made in one place.
        return check_gamma("scale", np.full((2, len(mean)), np.sqrt(variance)) * np.array([[-1.0], [1.0]]))
    return check_gamma(model.gamma, np.zeros((1, len(mean))))


def _class_weights(given: Any, classes: NDArray, counts: NDArray) -> NDArray:
    if isinstance(given, str) and given == "balanced":
        return counts.sum() / (len(classes) * counts)
    return class_weights(given, classes, classes)
