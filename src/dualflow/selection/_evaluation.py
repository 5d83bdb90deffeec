"""The evaluation of a search: every candidate is fitted and scored in every fold, one row of the results for each.

Fits are shared over a kernel matrix where the plan says so. In pipelines, transformers with equal parameters are fitted
once a fold. Candidates that differ in C only are fitted to one fold one after another, as `GridSearchCV` fits them;
their values on the fold's rows are computed in one pass over the kernel with the union of their support vectors.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import thread_time
from traceback import format_exc
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.model_selection._validation import _score
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _num_samples

from ..core.gram import Gram
from ..core.kernel_cache import KeptGram
from ..core.runtime import clock
from ..core.runtime.threads import cached_property
from ..exceptions import FitError
from ._folds import (
    MIN_GAIN,
    N_SEED_FOLDS,
    RETRY_GAIN_RATIO,
    STOP_GAIN,
    Answer,
    Chain,
    Classes,
    Numbers,
    SlowerError,
    Split,
    Watch,
    shared_gain,
    shared_seconds,
)
from ._metrics import Metrics
from ._models import unfitted_copy
from ._plan import MIN_FOLDS_ONE_COST, Kernels, Plan, Setting

#: Bytes of training points that the fitted models of one fold may hold before their values are computed.
HELD_BYTES = 1 << 27
#: A multiplier is at its upper bound if its relative distance from it is less than this.
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


def last_step(model: Any) -> Any:
    """Return the estimator that predicts: the last step of a pipeline, or the model itself."""
    return model.steps[-1][1] if isinstance(model, Pipeline) and model.steps else model


def last_name(model: Any) -> str:
    """Return the prefix of parameters of `last_step` in the model's `set_params`."""
    return f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""


class TransformerCache:
    """A cache of fitted transformers and transformed training rows, used as ``memory`` of a `Pipeline`.

    Data are compared by identity: the search gives the same arrays to every candidate of a fold. A transformer that
    `joblib.hash` cannot read is fitted each time.

    Parameters
    ----------
    size : int
        Maximum number of fitted transformers; the least recently used one is dropped first.
    """

    def __init__(self, size: int) -> None:
        self._size, self._lock = size, threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], _Entry] = OrderedDict()

    def cache(self, fit: Callable[..., Any], ignore: Sequence[str] = ()) -> Callable[..., Any]:
        """Return ``fit`` with a cache: it is computed once for equal transformers and parameters and the same data.

        Keywords in ``ignore`` are not compared, as in `joblib.Memory`.
        """

        def cached(transformer: Any, X: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
            compared = {name: value for name, value in kwargs.items() if name not in ignore}
            try:
                key = (id(X), id(y), joblib.hash((transformer, args, compared)))
            except Exception:  # pickling calls the transformer's code, which may raise anything
                return fit(transformer, X, y, *args, **kwargs)
            with self._lock:
                entry = self._kept.setdefault(key, _Entry(X, y))
                self._kept.move_to_end(key)
                while len(self._kept) > self._size:
                    self._kept.popitem(last=False)
            with entry.lock:  # another thread may be fitting it
                if entry.found is None:
                    entry.found = fit(transformer, X, y, *args, **kwargs)
                return entry.found

        return cached


class _Entry:
    """One cached result with its data, which must live as long as their identities are compared."""

    def __init__(self, X: Any, y: Any) -> None:
        self.data, self.found, self.lock = (X, y), None, threading.Lock()


#: Error text of a fit that was not reached.
NOT_REACHED_TEXT = "The search ended before this fit: {why}."


class SearchEndedError(Exception):
    """Raised between pieces of work when the search must end."""


@dataclass
class Times:
    """The end of a search: a deadline, or a request to stop.

    ``fit_s`` is the longest fit to a fold so far, including one that was cut short. ``refit_s`` is the time reserved
    for the fit of the best candidate to all points.
    """

    deadline: float | None = None
    why: str = ""
    fit_s: float = 0.0
    refit_s: float = 0.0
    last: float = field(default_factory=time.monotonic)
    interrupt: clock.Interrupt = field(default_factory=clock.Interrupt)

    def check(self) -> None:
        """Raise `SearchEndedError` if the search must end."""
        if not self.why and self.deadline is not None and time.monotonic() > self.deadline - self.refit_s:
            self.why = "time_limit"
        if self.why:
            raise SearchEndedError

    def record_fit(self, seconds: float, part: float) -> None:
        """Reserve time for the refit after a fit to a fraction ``part`` of the points; time grows as n²."""
        self.last = time.monotonic()
        self.fit_s, self.refit_s = max(self.fit_s, seconds), max(self.refit_s, seconds / part**2)

    @contextlib.contextmanager
    def within_limits(self) -> Iterator[None]:
        """Return a context for one piece of work, which ends when the search's time is over or it is interrupted."""
        stop = None if self.deadline is None else self.deadline - self.refit_s
        try:
            with clock.within(stop), clock.interruptible(self.interrupt):
                self.check()
                yield
        except clock.OutOfTime:
            if stop is None or time.monotonic() < stop:
                raise
            self.why = self.why or "time_limit"
            self.fit_s = max(self.fit_s, time.monotonic() - self.last)
            raise SearchEndedError from None


@dataclass(frozen=True)
class SearchTask:
    """The data, splits and scorer that are common to all candidates."""

    X: Any
    y: Any
    splits: Sequence[Split]
    models: Sequence[Any]
    scorer: Any
    fit_params: dict[str, Any]
    score_params: dict[str, Any]
    train_scores: bool
    error_score: Any
    verbose: int

    @cached_property
    def parts(self) -> list[tuple[Any, Any, Any, Any]]:
        """X and y of the training and test rows of each fold; these objects are later recognised by identity."""
        parts: list[tuple[Any, Any, Any, Any]] = []
        X, y = self.X, self.y
        if type(X) is type(y) is np.ndarray and not get_tags(self.models[0]).input_tags.pairwise:
            # `_safe_split` takes 0.7 ms to find out as much, as long as a small fit.
            return [(X[train], y[train], X[test], y[test]) for train, test in self.splits]
        for train, test in self.splits:
            own = _safe_split(self.models[0], self.X, self.y, train)
            parts.append((*own, *_safe_split(self.models[0], self.X, self.y, test, train)))
        return parts

    def row(self, candidate: int, fold: int, model: Any, seconds: float, gap: float) -> dict[str, Any]:
        """Return the result row of a fitted model, with its scores."""
        began = time.perf_counter()
        X_train, y_train, X_test, y_test = self.parts[fold]
        train, test = self.splits[fold]
        scores = {"test_scores": self._score(model, X_test, y_test, test)}
        score_time = time.perf_counter() - began
        if self.train_scores:
            scores["train_scores"] = self._score(model, X_train, y_train, train)
        if self.verbose > 1:
            print(f"[CV {fold + 1}/{len(self.splits)}] END candidate {candidate + 1}/{len(self.models)}; {scores}")
        return scores | {"fit_error": None, "fit_time": seconds, "score_time": score_time, "gap": gap}

    @cached_property
    def _metrics(self) -> Metrics:
        return Metrics(self.scorer, self.score_params)

    def _score(self, model: Any, X: Any, y: Any, rows: NDArray) -> Any:
        """Score a model on rows, by a known metric or by scikit-learn."""
        params = _check_method_params(self.X, params=self.score_params, indices=rows) if self.score_params else {}
        if (known := self._metrics(model, X, y, params.get("sample_weight"))) is not None:
            return known
        return _score(model, X, y, self.scorer, params, self.error_score)

    def part_of(self, fold: int) -> float:
        """Return the fraction of the points in a fold's training set."""
        return len(self.splits[fold][0]) / _num_samples(self.X)

    def fit_params_of(self, fold: int) -> dict[str, Any]:
        """Return the fit parameters for a fold's training rows."""
        found: dict[str, Any] = _check_method_params(self.X, params=self.fit_params, indices=self.splits[fold][0])
        return found

    def failed_row(self, error: str, seconds: float = 0.0) -> dict[str, Any]:
        """Return the result row of a fit that failed or was not reached."""
        score = np.nan if self.error_score == "raise" else self.error_score
        scores: dict[str, Any] = {"test_scores": score, "train_scores": score}
        if isinstance(names := getattr(self.scorer, "_scorers", None), dict):
            scores = {kind: dict.fromkeys(names, score) for kind in scores}
        if not self.train_scores:
            del scores["train_scores"]
        return scores | {"fit_error": error, "fit_time": seconds, "score_time": 0.0, "gap": np.nan}


class Evaluation:
    """A running search.

    Parameters
    ----------
    task : SearchTask
    times : Times
    kernels, folds : Kernels, Classes or Numbers; None if nothing is shared
    of_fold : class
        The class that is scored; it is made from a candidate, its known values on the fold's rows, and training data.
    """

    def __init__(
        self, task: SearchTask, times: Times, kernels: Kernels | None, folds: Classes | Numbers | None, of_fold: Any
    ) -> None:
        self.task, self.times, self.of_fold = task, times, of_fold
        self.kernels, self.folds, self._buffers = kernels, folds, threading.local()
        self.rows: dict[tuple[int, int], dict[str, Any]] = {}
        self._min_gain = MIN_GAIN
        steps = max((len(model.steps) for model in task.models if isinstance(model, Pipeline)), default=0)
        self._transformers = TransformerCache(steps * len(task.splits))

    def run(self, plan: Plan, alone: list[tuple[int, int]], jobs: int) -> list[dict[str, Any]]:
        """Return the result rows of all candidates, fold by fold; fits not reached in time have an error text."""
        work: list[Callable[[], None]] = [
            partial(self._run_piece, self._evaluate_shared, *each) for each in plan.items()
        ]
        work += [partial(self._run_piece, self._fit_alone, *pair) for pair in alone]
        self.task.parts  # noqa: B018 - computed before threads start
        try:
            if jobs == 1:
                for piece in work:
                    piece()
            else:
                self._run_threads(work, jobs)
        except SearchEndedError:
            pass
        error = NOT_REACHED_TEXT.format(why=self.times.why)
        all_pairs = ((c, f) for c in range(len(self.task.models)) for f in range(len(self.task.splits)))
        return [self.rows.get(pair) or self.task.failed_row(error) for pair in all_pairs]

    def check_any_complete(self, time_limit: float | None, refit: bool) -> None:
        """Raise `FitError` if time ended before a candidate could be chosen or, without a refit, before any score."""
        folds, fits = len(self.task.splits), len(self.task.models) * len(self.task.splits)
        succeeded = [candidate for (candidate, _), row in self.rows.items() if row["fit_error"] is None]
        is_complete = max(map(succeeded.count, set(succeeded)), default=0) >= (folds if refit else 1)
        # If fits failed and none succeeded, scikit-learn's error shows why they failed.
        if self.times.why != "time_limit" or is_complete or (self.rows and not succeeded):
            return
        min_s = self.times.fit_s * (folds + (1 / self.task.part_of(0) ** 2 if refit else 0))
        raise FitError(
            f"time_limit={time_limit!r} was over before a candidate was fitted to all {folds} folds: {len(succeeded)} "
            f"of {fits} fits ended, and the longest had taken {self.times.fit_s:.2g} s. One candidate"
            f"{', and its fit to all points,' if refit else ''} would take at least {min_s:.2g} s; raise time_limit "
            "above that, or give fewer points or folds"
        )

    def _run_threads(self, work: list[Callable[[], None]], jobs: int) -> None:
        """Run pieces of work in threads; after an error stop the others and raise it."""
        with ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(piece) for piece in work]
            try:
                for future in futures:
                    future.result()
            except BaseException as error:
                # The other threads check these between two pieces of work.
                self.times.why = self.times.why or f"{type(error).__name__} in another fit"
                self.times.interrupt.pending = True
                for future in futures:
                    future.cancel()
                raise

    def _run_piece(self, work: Callable[..., None], *what: Any) -> None:
        """Run one piece of work within the limits of the search."""
        with self.times.within_limits():
            work(*what)

    def _evaluate_shared(self, setting: Setting, chains: list[tuple[Chain, list[int]]]) -> None:
        """Evaluate all candidates and folds of one kernel: by single fits, or over one matrix where that is faster."""
        assert self.folds is not None
        K = None
        gram = self.kernels.gram(setting) if setting.kernel == "rbf" and self.kernels else None
        for chain, members in chains:
            first, *rest = members
            is_tried = rest and (len(chain.costs) > 1 or len(self.task.splits) >= MIN_FOLDS_ONE_COST)
            expected = self._fit_each(
                chain, first, gram, self._trial_seconds(chain, len(members)) if is_tried else np.inf
            )
            if any((candidate, first) not in self.rows for candidate in chain.candidates):
                rest = members
            gain = self._gain(expected, len(rest)) if is_tried else -np.inf
            if gain >= self._min_gain:
                watch = Watch(expected, len(rest), self.times.check)
                try:
                    K = self._matrix(setting) if K is None else K
                    for candidate, fold, answer in self.folds.answers(*K, chain, rest, watch):
                        model = self._model(candidate, fold, answer)
                        self.rows[candidate, fold] = self.task.row(candidate, fold, model, answer.seconds, answer.gap)
                except SlowerError:
                    self._min_gain = RETRY_GAIN_RATIO * gain
            for fold in rest:
                self._fit_each(chain, fold, gram)

    def _trial_seconds(self, chain: Chain, folds: int) -> float:
        """Return the time of fits to a first fold after which one matrix is faster whatever the other fits take."""
        seconds = shared_seconds(len(chain.costs), *self._sizes(folds))
        return STOP_GAIN * seconds / (folds - N_SEED_FOLDS) if folds > N_SEED_FOLDS else np.inf

    def _gain(self, expected: list[float], folds: int) -> float:
        """Return the estimated speed-up by the shared matrix, from the times of fits to one fold."""
        return shared_gain(expected, *self._sizes(folds))

    def _sizes(self, folds: int) -> tuple[int, int, int, int, int]:
        """Return the sizes of the data as parameters of `shared_gain`."""
        assert self.kernels is not None
        assert self.folds is not None
        n, features = self.kernels.points.shape
        return n, n * self.folds.variables_of_point, features, folds, len(self.folds.pairs)

    def _matrix(self, setting: Setting) -> tuple[NDArray, float]:
        """Return the kernel matrix of a setting and its scale, in this thread's buffer."""
        assert self.kernels is not None
        K, scale = self.kernels.matrix(setting, getattr(self._buffers, "K", None))
        self._buffers.K = K  # reused, since new memory is expensive
        return K, scale

    def _fit_each(self, chain: Chain, fold: int, gram: Gram | None, limit: float = np.inf) -> list[float]:
        """Fit the candidates that have no row of this fold yet; return the seconds of each.

        ``gram`` is the radial kernel of all points, if candidates may share its rows; others are fitted one by one,
        until they have taken ``limit`` seconds. The rest then has no rows, and their mean as its seconds.
        """
        missing = [c for c in chain.candidates if (c, fold) not in self.rows]
        answers: dict[int, Answer] = {}
        if gram is not None and self.folds is not None and len(missing) == len(chain.candidates):
            self.times.check()
            answers = self.folds.path(gram, chain, fold)
        for candidate, answer in answers.items():
            self.times.record_fit(answer.seconds, self.task.part_of(fold))
            model = self._model(candidate, fold, answer)
            self.rows[candidate, fold] = self.task.row(candidate, fold, model, answer.seconds, answer.gap)
        models = {c: self.task.models[c] for c in missing if c not in answers}
        if not models:
            return [answers[c].seconds for c in missing]
        X_train, y_train, X_test, _ = self.task.parts[fold]
        training = X_train, y_train, self.task.fit_params_of(fold)
        tables = [X_test, X_train] if self.task.train_scores else [X_test]
        raises, seconds = self.task.error_score == "raise", dict.fromkeys(missing, 0.0)
        seconds |= {c: answer.seconds for c, answer in answers.items()}
        for fit in fits_of_fold(models, training, tables, self.of_fold.values_of, raises, self.times.check, limit):
            clock.check_time()  # raises if the search's time has cut the fit short
            self.times.record_fit(fit.seconds, self.task.part_of(fold))
            seconds[fit.candidate] = fit.seconds
            if fit.model is None:
                self.rows[fit.candidate, fold] = self.task.failed_row(fit.error, fit.seconds)
                continue
            answer = Answer(fit.values[0], fit.values[1] if self.task.train_scores else None)
            model = self._model(fit.candidate, fold, answer)
            if fit.model.C == model.C:
                model._fitted = fit.model
            self.rows[fit.candidate, fold] = self.task.row(fit.candidate, fold, model, fit.seconds, fit.gap)
        left = [c for c in missing if (c, fold) not in self.rows]
        return list((seconds | dict.fromkeys(left, sum(seconds.values()) / (len(missing) - len(left) or 1))).values())

    def _model(self, candidate: int, fold: int, answer: Answer) -> Any:
        """Return the model of a candidate for a fold, with its known values."""
        X_train, y_train, X_test, _ = self.task.parts[fold]
        known = [(X_test, answer.test)] + ([] if answer.train is None else [(X_train, answer.train)])
        training = X_train, y_train, self.task.fit_params_of(fold)
        assert self.folds is not None
        return self.of_fold.of(self.task.models[candidate], known, training, **self.folds.fitted)

    def _fit_alone(self, candidate: int, fold: int) -> None:
        """Fit one candidate to one fold."""
        began, model = time.perf_counter(), unfitted_copy(self.task.models[candidate])
        X_train, y_train, _, _ = self.task.parts[fold]
        remembers = isinstance(model, Pipeline) and model.memory is None
        try:
            if remembers:
                model.memory = self._transformers
            model.fit(X_train, y_train, **self.task.fit_params_of(fold))
        except Exception:
            if self.task.error_score == "raise":
                raise
            self.rows[candidate, fold] = self.task.failed_row(format_exc(), time.perf_counter() - began)
            return
        if remembers:
            model.memory = None
        clock.check_time()  # raises if the search's time has cut the fit short
        seconds = time.perf_counter() - began
        self.times.record_fit(seconds, self.task.part_of(fold))
        self.rows[candidate, fold] = self.task.row(candidate, fold, model, seconds, widest_gap(last_step(model)))
