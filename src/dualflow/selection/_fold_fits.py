"""Candidates that differ in C only, fitted to one fold one after another, as `GridSearchCV` fits them.

Their values on the fold's rows are computed in one pass over the kernel with the union of their support vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import thread_time
from traceback import format_exc
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import _num_samples

from ..core.gram import Gram
from ..core.kernel_cache import KeptGram
from ._models import unfitted_copy

#: Bytes of training points that the fitted models of one fold may hold before their values are computed.
HELD_BYTES = 1 << 27
#: Distance of a multiplier from its upper bound, relative to the bound, below which it is at the bound.
BOUND_TOLERANCE = 1e-9


@dataclass
class FoldFit:
    """The fit of one candidate to one fold."""

    candidate: int
    model: Any  # the fitted estimator; None if the fit failed
    values: list[NDArray]  # its values on each table of rows, as in `Answer`; list of arrays
    gap: float
    seconds: float
    error: str = ""  # the traceback, if the fit failed


def widest_gap(model: Any) -> float:
    """Return the largest certified relative gap of a model's solves; NaN if a certificate is missing."""
    solved = model.__dict__.get("_solved")
    gaps = [one.relative_gap for one in model.certificates_] if solved is None else solved.relative_gaps()
    return np.nan if None in gaps else max(gaps)


def fits_of_fold(
    models: dict[int, Any],
    training: tuple[Any, Any, dict[str, Any]],
    tables: Sequence[Any],
    values_of: Callable[[Any, Any], NDArray],
    raises: bool,
    check: Callable[[], None],
    limit: float = np.inf,
) -> Iterator[FoldFit]:
    """Fit candidates to one fold and yield each.

    Parameters
    ----------
    models : dict of estimator
        Unfitted, by the number of the candidate, in order of ascending C; all else must be equal.
    training : tuple
        X, y and parameters of `fit`.
    tables : sequence
        Rows for which values are computed.
    values_of : callable
        Returns the values of a fitted model on a table.
    raises : bool
        Whether an error of a fit is raised.
    check : callable
        Called before each fit; it may raise.
    limit : float
        Seconds of fits after which no other fit is made.
    """
    X, y, fit_params = training
    max_waiting = max(1, HELD_BYTES // max(1, getattr(X, "nbytes", HELD_BYTES)))
    waiting: list[FoldFit] = []
    unbounded_fit: FoldFit | None = None
    total = 0.0
    for candidate, given in models.items():
        if total >= limit:
            break
        check()
        # No multiplier is at its bound: the optimum is that of every larger C, and the gap grows at most with C.
        if unbounded_fit is not None and (gap := unbounded_fit.gap * given.C / unbounded_fit.model.C) <= given.tol:
            waiting.append(FoldFit(candidate, unbounded_fit.model, [], gap, 0.0))
            continue
        began, model = thread_time(), unfitted_copy(given)
        try:
            model.fit(X, y, **fit_params)
        except Exception:
            if raises:
                raise
            yield FoldFit(candidate, None, [], np.nan, thread_time() - began, format_exc())
            continue
        fit = FoldFit(candidate, model, [], widest_gap(model), 0.0)
        unbounded_fit = fit if _is_inside(model, fit_params.get("sample_weight")) else None
        fit.seconds = thread_time() - began
        total += fit.seconds
        waiting.append(fit)
        if len(waiting) >= max_waiting:
            yield from _with_values(waiting, tables, X, values_of)
            waiting, unbounded_fit = [], None
    yield from _with_values(waiting, tables, X, values_of)


def _is_inside(model: Any, sample_weight: Any) -> bool:
    """Return whether no multiplier of a fitted hinge or tube model is at its upper bound."""
    bound = np.full(len(model.support_), float(model.C))
    if sample_weight is not None:
        bound *= np.asarray(sample_weight, dtype=float)[model.support_]
    if is_classifier(model):
        bound *= np.repeat(model.class_weight_, model.n_support_)
    return bool((np.abs(model._weights) < (1.0 - BOUND_TOLERANCE) * bound[:, None]).all())


def _with_values(
    fits: list[FoldFit], tables: Sequence[Any], X: Any, values_of: Callable[[Any, Any], NDArray]
) -> Iterator[FoldFit]:
    """Compute the values of fits, and yield them."""
    models = list({id(fit.model): fit.model for fit in fits}.values())
    if not models:
        return
    began = thread_time()
    for table in tables:
        if len(models) > 1 and models[0].kernel == "rbf":
            values = _values_in_one_pass(models, X, table)
        else:
            values = [values_of(model, table) for model in models]
        known = {id(model): value for model, value in zip(models, values, strict=True)}
        for fit in fits:
            fit.values.append(known[id(fit.model)])
    share = (thread_time() - began) / len(fits)
    for fit in fits:
        fit.seconds += share
        yield fit


def _values_in_one_pass(models: Sequence[Any], X: Any, table: Any) -> list[NDArray]:
    """Return the values of models with the same radial kernel on a table, shape (rows, r) each, in one kernel pass."""
    first = models[0]
    union = np.unique(np.concatenate([model.support_ for model in models]))
    weights = [np.zeros((len(union), model._weights.shape[1])) for model in models]
    for columns, model in zip(weights, models, strict=True):
        columns[np.searchsorted(union, model.support_)] = model._weights
    intercepts = np.concatenate([model.intercept_ for model in models])
    if not len(union):
        return [np.tile(model.intercept_, (_num_samples(table), 1)) for model in models]
    points = first._check_new_data(table)
    support = np.empty((len(union), points.shape[1]))
    for model in models:
        support[np.searchsorted(union, model.support_)] = model.support_vectors_
    gram = KeptGram(Gram(support, "rbf", gamma=first._support_gram.gamma))
    dtype = np.dtype(first.predict_dtype).type
    values = gram.expand(points, np.arange(len(union)), np.concatenate(weights, axis=1), dtype) + intercepts
    ends = np.cumsum([columns.shape[1] for columns in weights])[:-1]
    return np.split(values, ends, axis=1)
