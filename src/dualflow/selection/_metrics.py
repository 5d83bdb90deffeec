"""The usual scores of scikit-learn by their formulas.

Its scorers take 0.5 to 3 ms a call, with or without its parameter validation, where a small fit takes 0.3 ms: a search
of small tables would be about them. A scorer is replaced only where it is one of scikit-learn's with its default
options, and a score only where it is defined and no warning belongs to it. For all else scikit-learn is called, and
for everything where a version of it has no such private parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config, metrics
from sklearn.base import ClassifierMixin, RegressorMixin

try:
    from sklearn.metrics._scorer import _PassthroughScorer, _Scorer
except ImportError:  # no scorer is known then
    _PassthroughScorer = _Scorer = None

__all__ = ["Metrics"]

Metric = Callable[[NDArray, NDArray], float | None]

#: Kinds of dtype that labels have: scikit-learn has more to look at in others.
LABEL_KINDS = "biuU"


def _accuracy(y: NDArray, predicted: NDArray) -> float | None:
    return float(np.mean(y == predicted)) if _are_labels(y, predicted) else None


def _f1_macro(y: NDArray, predicted: NDArray) -> float | None:
    if (counts := _counts(y, predicted)) is None:
        return None
    hits, true, said = counts
    return float(np.mean(2.0 * hits / (true + said)))


def _r2(y: NDArray, predicted: NDArray) -> float | None:
    if not _are_numbers(y, predicted):
        return None
    y, predicted = y[:, None], predicted[:, None]  # sums in scikit-learn's order
    lost = ((y - predicted) ** 2).sum(axis=0)[0]
    whole = ((y - np.average(y, axis=0)) ** 2).sum(axis=0)[0]
    return float(1.0 - lost / whole) if whole != 0 else None


def _mean_absolute_error(y: NDArray, predicted: NDArray) -> float | None:
    return float(np.average(np.abs(predicted - y)[:, None], axis=0)[0]) if _are_numbers(y, predicted) else None


def _mean_squared_error(y: NDArray, predicted: NDArray) -> float | None:
    return float(np.average(((y - predicted) ** 2)[:, None], axis=0)[0]) if _are_numbers(y, predicted) else None


def _are_labels(y: NDArray, predicted: NDArray) -> bool:
    return y.dtype.kind in LABEL_KINDS and y.dtype.kind == predicted.dtype.kind and len(y) > 0


def _are_numbers(y: NDArray, predicted: NDArray) -> bool:
    both_float = y.dtype == predicted.dtype == np.float64
    return both_float and len(y) > 1 and bool(np.isfinite(y).all() and np.isfinite(predicted).all())


def _counts(y: NDArray, predicted: NDArray) -> tuple[NDArray, NDArray, NDArray] | None:
    """Of each label in either: how often it is rightly said, how often it is true, and how often it is said."""
    if not _are_labels(y, predicted):
        return None
    labels, codes = np.unique(np.concatenate([y, predicted]), return_inverse=True)
    true, said = codes[: len(y)], codes[len(y) :]
    hits, true, said = (np.bincount(part, minlength=len(labels)) for part in (true[true == said], true, said))
    return hits, true, said


#: By the function that a scorer of scikit-learn calls: that of this file, and the further options it is called with.
KNOWN: dict[Any, tuple[Metric, dict[str, Any]]] = {
    metrics.accuracy_score: (_accuracy, {}),
    metrics.f1_score: (_f1_macro, {"pos_label": None, "average": "macro"}),
    metrics.r2_score: (_r2, {}),
    metrics.mean_absolute_error: (_mean_absolute_error, {}),
    metrics.mean_squared_error: (_mean_squared_error, {}),
}


class Metrics:
    """Scores of a fitted model by metrics that are known here.

    Parameters
    ----------
    scorer : callable
        What `GridSearchCV` would call.
    params : dict
        What it would be handed beside the data.
    """

    def __init__(self, scorer: Any, params: dict[str, Any]) -> None:
        given = getattr(scorer, "_scorers", None)
        self._is_dict = isinstance(given, dict)
        scorers = dict(given) if isinstance(given, dict) else {"score": scorer}
        known = {name: _metric_of(one) for name, one in scorers.items()}
        passes = any(value is not None for value in params.values()) or get_config()["enable_metadata_routing"]
        self._known = {} if passes or None in known.values() else {k: one for k, one in known.items() if one}

    def __call__(self, model: Any, X: Any, y: Any) -> Any:
        """The score, or a dict of scores; None where scikit-learn has to be asked."""
        if not self._known or type(y) is not np.ndarray or y.ndim != 1:
            return None
        try:
            predicted = model.predict(X)
        except Exception:  # scikit-learn says what becomes of it
            return None
        if type(predicted) is not np.ndarray or predicted.shape != y.shape:
            return None
        scores: dict[str, float] = {}
        for name, (sign, metric) in self._known.items():
            if (score := metric(y, predicted)) is None:
                return None
            scores[name] = sign * score
        return scores if self._is_dict else scores["score"]


def _metric_of(scorer: Any) -> tuple[int, Metric] | None:
    """The sign and the metric of a scorer; None where it is not known."""
    try:
        if type(scorer) is _PassthroughScorer:
            own = getattr(type(scorer._estimator), "score", None)
            plain = {ClassifierMixin.score: _accuracy, RegressorMixin.score: _r2}
            return (1, plain[own]) if own in plain else None
        if type(scorer) is not _Scorer or scorer._response_method != "predict":
            return None
        metric, options = KNOWN.get(scorer._score_func, (None, {}))
        return None if metric is None or scorer._kwargs != options else (scorer._sign, metric)
    except AttributeError:  # of a version whose scorers are laid out in another way
        return None
