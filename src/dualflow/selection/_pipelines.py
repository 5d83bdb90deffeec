"""Pipelines in a search: transformers with equal parameters are fitted once a fold."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import joblib
from sklearn.pipeline import Pipeline

__all__ = ["TransformerCache", "last_name", "last_step"]


def last_step(model: Any) -> Any:
    """The estimator that predicts: the last step of a pipeline, or the model itself."""
    return model.steps[-1][1] if isinstance(model, Pipeline) and model.steps else model


def last_name(model: Any) -> str:
    """What parameters of `last_step` begin with in the model's `set_params`."""
    return f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""


class TransformerCache:
    """Fitted transformers and what they make of training rows, as ``memory`` of a `Pipeline`.

    Data are known by identity: the search hands the same arrays to every candidate of a fold. A transformer that
    `joblib.hash` cannot read is fitted each time.

    Parameters
    ----------
    size : int
        Fitted transformers that are kept; the one that was used longest ago goes first.
    """

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], _Entry] = OrderedDict()

    def cache(self, fit: Callable[..., Any], ignore: Sequence[str] = ()) -> Callable[..., Any]:
        """The function, computed once for equal transformers and parameters and the same data; keywords to ``ignore``
        are no part of what is compared, as in `joblib.Memory`."""

        def cached(transformer: Any, X: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
            compared = {name: value for name, value in kwargs.items() if name not in ignore}
            try:
                key = (id(X), id(y), joblib.hash((transformer, args, compared)))
            except Exception:  # pickling calls code of the transformer's own, which may raise anything
                return fit(transformer, X, y, *args, **kwargs)
            with self._lock:
                entry = self._kept.setdefault(key, _Entry(X, y))
                self._kept.move_to_end(key)
                while len(self._kept) > self._size:
                    self._kept.popitem(last=False)
            with entry.lock:  # another thread may be at it
                if entry.found is None:
                    entry.found = fit(transformer, X, y, *args, **kwargs)
                return entry.found

        return cached


class _Entry:
    """One result, and the data it is known by, which must live as long as their identities are in use."""

    def __init__(self, X: Any, y: Any) -> None:
        self.data, self.found, self.lock = (X, y), None, threading.Lock()
