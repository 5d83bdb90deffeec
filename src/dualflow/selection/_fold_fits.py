"""Candidates that differ in C alone, fitted to one fold one after another, as `GridSearchCV` fits them.

Their values on the fold's rows come from one pass over the kernel, at the support vectors of all of them.
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

__all__ = ["FoldFit", "fits_of_fold", "widest_gap"]

#: Bytes of training points that models of one fold may hold together before their values are made.
HELD_BYTES = 1 << 27
#: How near to its upper bound a multiplier counts as at it, as a part of the bound.
AT_BOUND = 1e-9


@dataclass
class FoldFit:
    """A candidate in one fold.

    Attributes
    ----------
    candidate : int
    model : estimator
        Fitted; None where the fit failed.
    values : list of arrays
        What it says of each table of rows, as `Answer` has it.
    gap, seconds : float
    error : str
        What was raised, if the fit failed.
    """

    candidate: int
    model: Any
    values: list[NDArray]
    gap: float
    seconds: float
    error: str = ""


def widest_gap(model: Any) -> float:
    """The largest certified relative gap of a model's solves; NaN where a certificate is withheld."""
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
) -> Iterator[FoldFit]:
    """Fit candidates to one fold.

    Parameters
    ----------
    models : dict of estimator
        Unfitted, by number of the candidate; they differ in C alone, which ascends.
    training : tuple
        X, y and parameters of `fit`.
    tables : sequence
        Rows to be judged.
    values_of : callable
        What a fitted model says of a table.
    raises : bool
        Whether a fit that fails is an error.
    check : callable
        Called before each fit; may raise.
    """
    X, y, fit_params = training
    held = max(1, HELD_BYTES // max(1, getattr(X, "nbytes", HELD_BYTES)))
    waiting: list[FoldFit] = []
    inside: FoldFit | None = None
    for candidate, given in models.items():
        check()
        # No multiplier is at its bound: the optimum is that of every larger C, and the gap grows with C at most.
        if inside is not None and (gap := inside.gap * given.C / inside.model.C) <= given.tol:
            waiting.append(FoldFit(candidate, inside.model, [], gap, 0.0))
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
        inside = fit if _is_inside(model, fit_params.get("sample_weight")) else None
        fit.seconds = thread_time() - began
        waiting.append(fit)
        if len(waiting) >= held:
            yield from _judged(waiting, tables, X, values_of)
            waiting, inside = [], None
    yield from _judged(waiting, tables, X, values_of)


def _is_inside(model: Any, sample_weight: Any) -> bool:
    """Whether no multiplier of a fitted hinge or tube is at its upper bound."""
    bound = np.full(len(model.support_), float(model.C))
    if sample_weight is not None:
        bound *= np.asarray(sample_weight, dtype=float)[model.support_]
    if is_classifier(model):
        bound *= np.repeat(model.class_weight_, model.n_support_)
    return bool((np.abs(model._weights) < (1.0 - AT_BOUND) * bound[:, None]).all())


def _judged(
    fits: list[FoldFit], tables: Sequence[Any], X: Any, values_of: Callable[[Any, Any], NDArray]
) -> Iterator[FoldFit]:
    """Give fits their values."""
    models = list({id(fit.model): fit.model for fit in fits}.values())
    if not models:
        return
    began = thread_time()
    for table in tables:
        if len(models) > 1 and models[0].kernel == "rbf":
            values = _together(models, X, table)
        else:
            values = [values_of(model, table) for model in models]
        known = {id(model): value for model, value in zip(models, values, strict=True)}
        for fit in fits:
            fit.values.append(known[id(fit.model)])
    share = (thread_time() - began) / len(fits)
    for fit in fits:
        fit.seconds += share
        yield fit


def _together(models: Sequence[Any], X: Any, table: Any) -> list[NDArray]:
    """What models of one radial kernel say of a table, each of shape (rows, r), from one pass over the kernel."""
    first = models[0]
    union = np.unique(np.concatenate([model.support_ for model in models]))
    weights = [np.zeros((len(union), model._weights.shape[1])) for model in models]
    for own, model in zip(weights, models, strict=True):
        own[np.searchsorted(union, model.support_)] = model._weights
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
    ends = np.cumsum([own.shape[1] for own in weights])[:-1]
    return np.split(values, ends, axis=1)
