"""Every candidate in every fold: fitted, scored and timed, as rows that scikit-learn makes its tables of.

Pipelines in a search: transformers with equal parameters are fitted once a fold.
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
from traceback import format_exc
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection._validation import _score
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import _check_method_params, _num_samples

from ..core.runtime import clock
from ..core.runtime.threads import cached_property
from ..exceptions import FitError
from ._fold_fits import fits_of_fold, widest_gap
from ._folds import AGAIN_FROM, TRIED_FROM, Answer, Chain, Classes, Numbers, SlowerError, Split, Watch, shared_gain
from ._metrics import Metrics
from ._models import unfitted_copy
from ._plan import Kernels, Plan, Setting

__all__ = ["Evaluation", "Task", "Times", "TransformerCache", "last_name", "last_step"]


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


#: A row that was not reached says this.
NOT_REACHED = "The search ended before this fit: {why}."


class SearchEndedError(Exception):
    """Raised between pieces of work when the search is to end."""


@dataclass
class Times:
    """When a search ends: at a deadline, or when it is told to stop.

    ``fit_s`` is the longest fit to a fold so far, also of one that was cut short, and ``refit_s`` what is set aside for
    the fit of the best candidate to all points.
    """

    deadline: float | None = None
    why: str = ""
    fit_s: float = 0.0
    refit_s: float = 0.0
    last: float = field(default_factory=time.monotonic)
    interrupt: clock.Interrupt = field(default_factory=clock.Interrupt)

    def check(self) -> None:
        """Raise `SearchEndedError` if it is time."""
        if not self.why and self.deadline is not None and time.monotonic() > self.deadline - self.refit_s:
            self.why = "time_limit"
        if self.why:
            raise SearchEndedError

    def took(self, seconds: float, part: float) -> None:
        """Set time aside for the refit, as a fit to that part of the points took ``seconds``: time grows as n²."""
        self.last = time.monotonic()
        self.fit_s, self.refit_s = max(self.fit_s, seconds), max(self.refit_s, seconds / part**2)

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """A piece of work that ends with the search's time, or when somebody ends the search."""
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
class Task:
    """What is to be done for all candidates: data, splits, how to score."""

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
        """X and y of the training and of the test rows, fold by fold: one object each, by which it is known again."""
        parts = []
        for train, test in self.splits:
            own = _safe_split(self.models[0], self.X, self.y, train)
            parts.append((*own, *_safe_split(self.models[0], self.X, self.y, test, train)))
        return parts

    def row(self, candidate: int, fold: int, model: Any, seconds: float, gap: float) -> dict[str, Any]:
        """Score a fitted model."""
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
        if (known := self._metrics(model, X, y)) is not None:
            return known
        params = _check_method_params(self.X, params=self.score_params, indices=rows)
        return _score(model, X, y, self.scorer, params, self.error_score)

    def part_of(self, fold: int) -> float:
        """The part of the points that a fold's fit is given."""
        return len(self.splits[fold][0]) / _num_samples(self.X)

    def fit_params_of(self, fold: int) -> dict[str, Any]:
        found: dict[str, Any] = _check_method_params(self.X, params=self.fit_params, indices=self.splits[fold][0])
        return found

    def without(self, error: str, seconds: float = 0.0) -> dict[str, Any]:
        """The row of a fit that failed, or never was."""
        score = np.nan if self.error_score == "raise" else self.error_score
        scores: dict[str, Any] = {"test_scores": score, "train_scores": score}
        if isinstance(names := getattr(self.scorer, "_scorers", None), dict):
            scores = {kind: dict.fromkeys(names, score) for kind in scores}
        if not self.train_scores:
            del scores["train_scores"]
        return scores | {"fit_error": error, "fit_time": seconds, "score_time": 0.0, "gap": np.nan}


class Evaluation:
    """A search at work.

    Parameters
    ----------
    task : Task
    times : Times
    kernels, folds : Kernels, Classes or Numbers; None where nothing is shared
    of_fold : class
        What is scored, made from a candidate's model, what is known of the fold's rows, and its training data.
    """

    def __init__(
        self, task: Task, times: Times, kernels: Kernels | None, folds: Classes | Numbers | None, of_fold: Any
    ) -> None:
        self.task, self.times, self.of_fold = task, times, of_fold
        self.kernels, self.folds, self._rooms = kernels, folds, threading.local()
        self.rows: dict[tuple[int, int], dict[str, Any]] = {}
        self._tried_from = TRIED_FROM
        steps = max((len(model.steps) for model in task.models if isinstance(model, Pipeline)), default=0)
        self._transformers = TransformerCache(steps * len(task.splits))

    def run(self, plan: Plan, alone: list[tuple[int, int]], jobs: int) -> list[dict[str, Any]]:
        """The rows of all candidates, fold by fold; what was not reached in time says so."""
        work: list[Callable[[], None]] = [partial(self._in_time, self._shared, *each) for each in plan.items()]
        work += [partial(self._in_time, self._alone, *pair) for pair in alone]
        self.task.parts  # noqa: B018 - made before there are threads
        try:
            if jobs == 1:
                for piece in work:
                    piece()
            else:
                self._threads(work, jobs)
        except SearchEndedError:
            pass
        error = NOT_REACHED.format(why=self.times.why)
        every = ((c, f) for c in range(len(self.task.models)) for f in range(len(self.task.splits)))
        return [self.rows.get(pair) or self.task.without(error) for pair in every]

    def check_any_whole(self, time_limit: float | None, refit: bool) -> None:
        """`FitError` where the time was over before there was a candidate to choose, or, without a refit, any score."""
        folds, fits = len(self.task.splits), len(self.task.models) * len(self.task.splits)
        ended = [candidate for (candidate, _), row in self.rows.items() if row["fit_error"] is None]
        whole = max(map(ended.count, set(ended)), default=0) >= (folds if refit else 1)
        # Where fits failed and none ended, scikit-learn's error shows why they failed.
        if self.times.why != "time_limit" or whole or (self.rows and not ended):
            return
        least = self.times.fit_s * (folds + (1 / self.task.part_of(0) ** 2 if refit else 0))
        raise FitError(
            f"time_limit={time_limit!r} was over before a candidate was fitted to all {folds} folds: {len(ended)} of "
            f"{fits} fits ended, and the longest had taken {self.times.fit_s:.2g} s. One candidate"
            f"{', and its fit to all points,' if refit else ''} would take at least {least:.2g} s; raise time_limit "
            "above that, or give fewer points or folds"
        )

    def _threads(self, work: list[Callable[[], None]], jobs: int) -> None:
        with ThreadPoolExecutor(jobs) as pool:
            futures = [pool.submit(piece) for piece in work]
            try:
                for future in futures:
                    future.result()
            except BaseException as error:
                # The others look at this between two pieces of work.
                self.times.why = self.times.why or f"{type(error).__name__} in another fit"
                self.times.interrupt.pending = True
                for future in futures:
                    future.cancel()
                raise

    def _in_time(self, work: Callable[..., None], *what: Any) -> None:
        with self.times.kept():
            work(*what)

    def _shared(self, setting: Setting, chains: list[tuple[Chain, list[int]]]) -> None:
        """All candidates and folds of one kernel: by a fit each, or over one matrix where that is quicker."""
        assert self.folds is not None
        K = None
        for chain, members in chains:
            first, *rest = members
            expected = self._fit_each(chain, first)
            gain = self._gain(expected, len(rest)) if rest else -np.inf
            if gain >= self._tried_from:
                watch = Watch(expected, len(rest), self.times.check)
                try:
                    K = self._matrix(setting) if K is None else K
                    for candidate, fold, answer in self.folds.answers(*K, chain, rest, watch):
                        model = self._model(candidate, fold, answer)
                        self.rows[candidate, fold] = self.task.row(candidate, fold, model, answer.seconds, answer.gap)
                except SlowerError:
                    self._tried_from = AGAIN_FROM * gain
            for fold in rest:
                self._fit_each(chain, fold)

    def _gain(self, expected: list[float], folds: int) -> float:
        """What the shared matrix is worth, by what fits to one fold took."""
        assert self.kernels is not None
        assert self.folds is not None
        n, features = self.kernels.points.shape
        return shared_gain(expected, n, n * self.folds.variables_of_point, features, folds, len(self.folds.pairs))

    def _matrix(self, setting: Setting) -> tuple[NDArray, float]:
        assert self.kernels is not None
        K, scale = self.kernels.matrix(setting, getattr(self._rooms, "K", None))
        self._rooms.K = K  # new memory is expensive
        return K, scale

    def _fit_each(self, chain: Chain, fold: int) -> list[float]:
        """A fit each of the candidates that have no row of this fold yet; the seconds of each, values included."""
        models = {c: self.task.models[c] for c in chain.candidates if (c, fold) not in self.rows}
        X_train, y_train, X_test, _ = self.task.parts[fold]
        training = X_train, y_train, self.task.fit_params_of(fold)
        tables = [X_test, X_train] if self.task.train_scores else [X_test]
        raises, seconds = self.task.error_score == "raise", dict.fromkeys(models, 0.0)
        for fit in fits_of_fold(models, training, tables, self.of_fold.values_of, raises, self.times.check):
            clock.look()  # a model that the search's time cut short is none of the candidate's
            self.times.took(fit.seconds, self.task.part_of(fold))
            seconds[fit.candidate] = fit.seconds
            if fit.model is None:
                self.rows[fit.candidate, fold] = self.task.without(fit.error, fit.seconds)
                continue
            answer = Answer(fit.values[0], fit.values[1] if self.task.train_scores else None)
            model = self._model(fit.candidate, fold, answer)
            if fit.model.C == model.C:
                model._fitted = fit.model
            self.rows[fit.candidate, fold] = self.task.row(fit.candidate, fold, model, fit.seconds, fit.gap)
        return list(seconds.values())

    def _model(self, candidate: int, fold: int, answer: Answer) -> Any:
        X_train, y_train, X_test, _ = self.task.parts[fold]
        known = [(X_test, answer.test)] + ([] if answer.train is None else [(X_train, answer.train)])
        training = X_train, y_train, self.task.fit_params_of(fold)
        assert self.folds is not None
        return self.of_fold.of(self.task.models[candidate], known, training, **self.folds.fitted)

    def _alone(self, candidate: int, fold: int) -> None:
        """A fit of its own."""
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
            self.rows[candidate, fold] = self.task.without(format_exc(), time.perf_counter() - began)
            return
        if remembers:
            model.memory = None
        clock.look()  # a model that the search's time cut short is none of the candidate's
        seconds = time.perf_counter() - began
        self.times.took(seconds, self.task.part_of(fold))
        self.rows[candidate, fold] = self.task.row(candidate, fold, model, seconds, widest_gap(last_step(model)))
