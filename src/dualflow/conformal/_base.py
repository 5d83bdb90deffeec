"""`Conformal`, the base class of the conformal estimators, with folds, ranks and blocks of rows.

The base class fits the wrapped estimator and finds its models without a point or a fold.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from ..core.options import Number, OneOf, Rule
from ..driver.solve import limited
from ..exceptions import ProblemError
from ._models import MAX_BLOCK_VALUES, Models, held_out, left_out

__all__ = ["Conformal", "folds_of", "rank"]

_RULES: dict[str, Rule] = {
    "confidence_level": Number(above=0, below=1),
    "method": OneOf(words=("plus", "minmax", "base")),
}
#: A rank that exceeds a whole number by less than this is rounded down: the excess is round-off of the level.
RANK_SLACK = 1e-9


class Conformal(MetaEstimatorMixin, BaseEstimator):
    """Base class of the conformal estimators; a subclass defines the wrapped class and what the models predict."""

    #: The class of the wrapped estimator, which with its defaults stands for ``estimator=None``.
    _kind: ClassVar[type]

    estimator_: Any
    n_features_in_: int
    conformity_scores_: NDArray
    n_models_: int
    max_relative_gap_: float
    _models: list[Models]

    def __init__(
        self, estimator: Any = None, *, confidence_level: float = 0.9, method: str = "plus", cv: Any = None
    ) -> None:
        self.estimator = estimator
        self.confidence_level = confidence_level
        self.method = method
        self.cv = cv

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self._kind() if self.estimator is None else self.estimator)
        tags.input_tags.sparse, tags.input_tags.pairwise = own.input_tags.sparse, own.input_tags.pairwise
        return tags

    def _check_parameters(self) -> None:
        for name, rule in _RULES.items():
            rule.check(name, getattr(self, name))

    def _fitted(self, X: Any, y: Any) -> Any:
        """Return the wrapped estimator, cloned and fitted to all points; `ProblemError` if it is not certified."""
        self._check_parameters()
        given = self._kind() if self.estimator is None else self.estimator
        if not isinstance(given, self._kind):
            raise ProblemError(
                f"estimator: {type(given).__name__} is not a dualflow.{self._kind.__name__}, whose models without a "
                "point are found without a fit for each; for other estimators use MAPIE"
            )
        model = clone(given)
        model.fit(X, y)
        if any(solution.certificate.gap is None for solution in model.solutions_):
            raise ProblemError("estimator: its kernel is indefinite, so that no model without a point is certified")
        return model

    def _limited(self) -> AbstractContextManager[None]:
        """Return the context of the wrapped estimator's time limit, which holds for the whole fit."""
        return limited(getattr(self.estimator, "time_limit", None), "every model without a point, or a fold, was found")

    def _take(self, model: Any, fold: NDArray | None) -> list[Models]:
        """Return, for each solve, its models without one fold each, or, if ``fold`` is None, without one point each.

        ``fold`` holds the number of each point's fold.
        """
        found = []
        for solution, rows in zip(model.solutions_, model._rows, strict=True):
            if fold is None:
                found.append(left_out(solution.problem, solution.alpha))
                continue
            own = fold[rows]
            parts = [np.flatnonzero(own == number) for number in range(int(fold.max()) + 1)]
            found.append(held_out(solution.problem, solution.alpha, parts))
        return found

    def _keep(self, model: Any, found: list[Models], **more: Any) -> None:
        """Set all fitted attributes in one update, so that a failed fit changes nothing."""
        names = getattr(model, "feature_names_in_", None)
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(
            more,
            estimator_=model,
            _models=found,
            _rows=list(model._rows),
            n_features_in_=model.n_features_in_,
            n_models_=sum(models.weights.shape[1] for models in found),
            max_relative_gap_=max(models.gap for models in found),
            **({} if names is None else {"feature_names_in_": names}),
        )

    def _at(self, Z: Any) -> list[NDArray]:
        """Return the decision values of validated new points by the models of each solve, each (len(Z), k)."""
        values = []
        for models, rows in zip(self._models, self._rows, strict=True):
            given = models.gram.kernel == "precomputed"
            values.append(models.at(Z[:, rows[models.rows]] if given else Z))
        return values

    def _checked(self, X: Any) -> Any:
        """Return new data, validated by the wrapped estimator, and check the parameters that predictions use."""
        check_is_fitted(self, "estimator_")
        self._check_parameters()
        return self.estimator_._check_new_data(X)

    def predict(self, X: Any) -> NDArray:
        """Return the predictions of the estimator fitted to all points, shape (n_new,)."""
        check_is_fitted(self, "estimator_")
        found: NDArray = self.estimator_.predict(X)
        return found


def folds_of(cv: Any, X: Any, y: NDArray, classifier: bool) -> NDArray | None:
    """Return the number of the fold that holds out each point, shape (n,), or None to leave out one point at a time.

    `ProblemError` if a point is held out never, or more than once.
    """
    n = len(y)
    if n < 2:
        raise ProblemError(f"X holds {n} sample; a model without it needs another, give at least two")
    if cv is None:
        return None
    fold, times = np.zeros(n, dtype=np.intp), np.zeros(n, dtype=np.intp)
    for number, (_, test) in enumerate(check_cv(cv, y, classifier=classifier).split(X, y)):
        fold[test] = number
        times[test] += 1
    if (times != 1).any():
        raise ProblemError(
            f"cv={cv!r} holds out point {int(np.argmax(times != 1))} {int(times[times != 1][0])} times; every point "
            "must be held out once: give None, a number of folds, or a KFold"
        )
    return fold


def rank(level: float, n: int) -> int:
    """Return ⌈level·(n + 1)⌉, the rank among n scores below which a new score lies with at least that probability.

    The rank n + 1 means that there are too few scores.
    """
    return max(1, math.ceil(level * (n + 1) - RANK_SLACK))


def row_blocks(count: int, width: int) -> Sequence[slice]:
    """Return slices that cut ``count`` rows of ``width`` values into blocks of at most `MAX_BLOCK_VALUES` values."""
    height = max(1, MAX_BLOCK_VALUES // max(1, width))
    return [slice(start, start + height) for start in range(0, count, height)]
