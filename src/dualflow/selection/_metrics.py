"""Common scores of scikit-learn, computed directly from their formulas.

scikit-learn's scorers take 0.5 to 3 ms a call, with or without its parameter validation, while a small fit takes
0.3 ms. A scorer is replaced only if it is one of scikit-learn's with default options, and a score only if it is defined
and would give no warning. Otherwise scikit-learn is called, also if its version lacks the private parts used here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config, metrics
from sklearn.base import ClassifierMixin, RegressorMixin

from ..estimators._classifier import PairClassifier
from ..estimators._regressor import ValueMachine

try:
    from sklearn.metrics._scorer import _PassthroughScorer, _Scorer
except ImportError:  # no scorer is replaced then
    _PassthroughScorer = _Scorer = None

Metric = Callable[[NDArray, NDArray, NDArray | None], float | None]

#: Kinds of dtype of labels for which scores are computed here; scikit-learn checks others in more ways.
LABEL_KINDS = "biuU"


def _accuracy(y: NDArray, predicted: NDArray, weight: NDArray | None) -> float | None:
    return float(np.average(y == predicted, weights=weight)) if _are_labels(y, predicted) else None


def _f1_macro(y: NDArray, predicted: NDArray, weight: NDArray | None) -> float | None:
    if (counts := _counts(y, predicted, weight)) is None:
        return None
    hits, true, named = counts
    if not (true + named > 0).all():
        return None
    return float(np.mean(2.0 * hits / (true + named)))


def _r2(y: NDArray, predicted: NDArray, weight: NDArray | None) -> float | None:
    if not _are_numbers(y, predicted):
        return None
    y, predicted = y[:, None], predicted[:, None]  # the order of scikit-learn's sums
    factor = 1.0 if weight is None else weight[:, None]
    residual = (factor * (y - predicted) ** 2).sum(axis=0)[0]
    total = (factor * (y - np.average(y, axis=0, weights=weight)) ** 2).sum(axis=0)[0]
    return float(1.0 - residual / total) if total != 0 else None


def _mean_absolute_error(y: NDArray, predicted: NDArray, weight: NDArray | None) -> float | None:
    if not _are_numbers(y, predicted):
        return None
    return float(np.average(np.abs(predicted - y)[:, None], axis=0, weights=weight)[0])


def _mean_squared_error(y: NDArray, predicted: NDArray, weight: NDArray | None) -> float | None:
    if not _are_numbers(y, predicted):
        return None
    return float(np.average(((y - predicted) ** 2)[:, None], axis=0, weights=weight)[0])


def _are_labels(y: NDArray, predicted: NDArray) -> bool:
    """Return whether both arrays hold labels of one kind for which scores are computed here."""
    return y.dtype.kind in LABEL_KINDS and y.dtype.kind == predicted.dtype.kind and len(y) > 0


def _are_numbers(y: NDArray, predicted: NDArray) -> bool:
    """Return whether both arrays hold at least two finite float64 numbers."""
    both_float = y.dtype == predicted.dtype == np.float64
    return both_float and len(y) > 1 and bool(np.isfinite(y).all() and np.isfinite(predicted).all())


def _can_weigh(weight: Any, n: int) -> bool:
    """Return whether weights are None or n finite float64 numbers of at least 0, not all 0."""
    if weight is None:
        return True
    if type(weight) is not np.ndarray or weight.shape != (n,) or weight.dtype != np.float64:
        return False
    return n > 0 and bool(weight.min() >= 0) and 0.0 < float(weight.sum()) < np.inf


def _counts(y: NDArray, predicted: NDArray, weight: NDArray | None) -> tuple[NDArray, NDArray, NDArray] | None:
    """Return the weight of the rows with each label that are predicted correctly, that are true, and predicted."""
    if not _are_labels(y, predicted):
        return None
    labels, codes = np.unique(np.concatenate([y, predicted]), return_inverse=True)
    true, named = codes[: len(y)], codes[len(y) :]
    right = true == named
    parts = (true[right], None if weight is None else weight[right]), (true, weight), (named, weight)
    hits, true, named = (np.bincount(part, own, minlength=len(labels)) for part, own in parts)
    return hits, true, named


#: The function of this file for a function that scikit-learn's scorers call, and the options it is called with.
KNOWN_METRICS: dict[Any, tuple[Metric, dict[str, Any]]] = {
    metrics.accuracy_score: (_accuracy, {}),
    metrics.f1_score: (_f1_macro, {"pos_label": None, "average": "macro"}),
    metrics.r2_score: (_r2, {}),
    metrics.mean_absolute_error: (_mean_absolute_error, {}),
    metrics.mean_squared_error: (_mean_squared_error, {}),
}


class Metrics:
    """Scores of a fitted model, for scorers whose metrics are known here.

    Parameters
    ----------
    scorer : callable
        The scorer that `GridSearchCV` would call.
    params : dict
        The parameters that it would get besides the data; scikit-learn is called if there is one that is not
        ``sample_weight``.
    """

    def __init__(self, scorer: Any, params: dict[str, Any]) -> None:
        scorers_given = getattr(scorer, "_scorers", None)
        self._is_dict = isinstance(scorers_given, dict)
        scorers = dict(scorers_given) if isinstance(scorers_given, dict) else {"score": scorer}
        known = {name: _metric_of(one) for name, one in scorers.items()}
        given = [name for name, value in params.items() if value is not None]
        passes = any(name != "sample_weight" for name in given) or get_config()["enable_metadata_routing"]
        self._known = {} if passes or None in known.values() else {k: one for k, one in known.items() if one}

    def __call__(self, model: Any, X: Any, y: Any, weight: Any = None) -> Any:
        """Return the score, or a dict of scores; None if scikit-learn must be called."""
        if not self._known or type(y) is not np.ndarray or y.ndim != 1 or not _can_weigh(weight, len(y)):
            return None
        try:
            predicted = model.predict(X)
        except Exception:  # scikit-learn is called then, and handles the error
            return None
        if type(predicted) is not np.ndarray or predicted.shape != y.shape:
            return None
        scores: dict[str, float] = {}
        for name, (sign, metric) in self._known.items():
            if (score := metric(y, predicted, weight)) is None:
                return None
            scores[name] = sign * score
        return scores if self._is_dict else scores["score"]


#: The metric of each method ``score`` of estimators.
PLAIN_SCORES: dict[Any, Metric] = {
    ClassifierMixin.score: _accuracy,
    PairClassifier.score: _accuracy,
    RegressorMixin.score: _r2,
    ValueMachine.score: _r2,
}


def _metric_of(scorer: Any) -> tuple[int, Metric] | None:
    """Return the sign and the metric of a scorer; None if it is not known."""
    try:
        if type(scorer) is _PassthroughScorer:
            own = getattr(type(scorer._estimator), "score", None)
            return (1, PLAIN_SCORES[own]) if own in PLAIN_SCORES else None
        if type(scorer) is not _Scorer or scorer._response_method != "predict":
            return None
        metric, options = KNOWN_METRICS.get(scorer._score_func, (None, {}))
        return None if metric is None or scorer._kwargs != options else (scorer._sign, metric)
    except AttributeError:  # a version of scikit-learn with other private attributes
        return None
