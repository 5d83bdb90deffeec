"""`Conformal`, the base class of the conformal estimators, with folds, ranks and blocks of rows.

The base class fits the wrapped estimator and finds its models without a point or a fold.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.feature_selection import SelectorMixin, VarianceThreshold
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from ..core.kernel_cache import KeptGram
from ..core.options import Flag, Number, OneOf, Rule
from ..core.problem import DualProblem
from ..driver.solve import time_limited
from ..estimators._persistence import Persistent, model_of
from ..estimators._solving import LINE_INTERVAL_S, LIVE_INTERVAL_S
from ..estimators._verify import agree, stored
from ..exceptions import ProblemError
from ._models import (
    MAX_BLOCK_VALUES,
    MODELS_PER_BLOCK,
    Models,
    Report,
    has_paths,
    held_out,
    left_out,
    no_report,
    relative_gaps,
)

_RULES: dict[str, Rule] = {
    "confidence_level": Number(above=0, below=1),
    "verbose": Flag(),
}
#: Most variables for which ``cv="auto"`` leaves out one point at a time, as the root of the sum of squares over the
#: pairs of classes: 2500 points of a regression (two variables each) take up to 10 s of one processor core.
MAX_VARIABLES_AUTO = 5000
#: Most work that ``cv="auto"`` spends on models that must be solved again, as n² for each: 32 models of 2000 points, of
#: 0.1 s each.
MAX_REFIT_WORK_AUTO = 32 * 2000**2
#: Folds of ``cv="auto"`` where leaving out one point at a time would take longer.
FOLDS_AUTO = 10
#: Largest relative gap of a model that is read from a file: a fit solves them to 1e-9, as far as round-off permits.
MAX_STORED_GAP = 1e-6

_EPS = float(np.finfo(float).eps)
#: A rank that exceeds a whole number by less than this is rounded down: the excess is round-off of the level.
RANK_SLACK = 1e-9


class Conformal(MetaEstimatorMixin, Persistent):
    """Base class of the conformal estimators; a subclass defines the wrapped class and what the models predict."""

    #: The class of the wrapped estimator, which with its defaults stands for ``estimator=None``.
    _kind: ClassVar[type]
    #: Other classes of estimators that may be wrapped.
    _others: ClassVar[tuple[type, ...]] = ()
    _methods: ClassVar[Rule] = OneOf(words=("plus", "minmax", "base"))

    estimator_: Any
    n_features_in_: int
    conformity_scores_: NDArray
    n_models_: int
    n_folds_: int | None
    max_relative_gap_: float
    _models: list[Models]
    _targets: NDArray | None = None

    def _keep_scores(self, model: Any, found: list[Models], folds: int | None, targets: NDArray | None) -> None:
        """Set the fitted attributes from the models; ``targets`` are the numbers of a regression."""
        raise NotImplementedError

    def __init__(
        self,
        estimator: Any = None,
        *,
        confidence_level: float = 0.9,
        method: str = "plus",
        cv: Any = "auto",
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.confidence_level = confidence_level
        self.method = method
        self.cv = cv
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags, own = super().__sklearn_tags__(), get_tags(self._kind() if self.estimator is None else self.estimator)
        tags.input_tags.sparse, tags.input_tags.pairwise = own.input_tags.sparse, own.input_tags.pairwise
        return tags

    def _check_parameters(self) -> None:
        for name, rule in (*_RULES.items(), ("method", self._methods)):
            rule.check(name, getattr(self, name))

    @property
    def _given(self) -> Any:
        """The wrapped estimator, without the transformers before it."""
        given = self._kind() if self.estimator is None else self.estimator
        return given.steps[-1][1] if isinstance(given, Pipeline) else given

    @property
    def _machine(self) -> Any:
        """The fitted estimator, without the transformers before it."""
        return self.estimator_[-1] if isinstance(self.estimator_, Pipeline) else self.estimator_

    def _fitted(self, X: Any, y: Any) -> Any:
        """Return the wrapped estimator, cloned and fitted to all points; `ProblemError` if it is not certified."""
        self._check_parameters()
        given = self._kind() if self.estimator is None else self.estimator
        if not isinstance(self._given, (self._kind, *self._others)):
            names = " or ".join(f"dualflow.{kind.__name__}" for kind in (self._kind, *self._others))
            raise ProblemError(
                f"estimator: {type(self._given).__name__} is not a {names}, whose models "
                "without a point are found without a fit for each; for other estimators use MAPIE"
            )
        for name, step in given.steps[:-1] if isinstance(given, Pipeline) else ():
            if _learns_from_y(step):
                raise ProblemError(
                    f"estimator: its step {name!r} learns from y, of the point left out too, which voids the "
                    "guarantee; choose the features before, on other data"
                )
        model = clone(given).fit(X, y)
        machine = model[-1] if isinstance(model, Pipeline) else model
        if any(solution.certificate.gap is None for solution in machine.solutions_):
            raise ProblemError("estimator: its kernel is indefinite, so that no model without a point is certified")
        return model

    def _limited(self) -> AbstractContextManager[None]:
        """Return the context of the wrapped estimator's time limit, which holds for the whole fit."""
        return time_limited(
            getattr(self._given, "time_limit", None), "every model without a point, or a fold, was found"
        )

    def _find_models(self, machine: Any, X: Any, y: NDArray, classifier: bool) -> tuple[list[Models], int | None]:
        """Return, for each solve, its models without one point or one fold each; and the number of folds, or None."""
        n = len(y)
        if n < 2:
            raise ProblemError(f"X holds {n} sample; a model without it needs another, give at least two")
        cv, work = (None if _is_auto(self.cv) else self.cv), np.inf
        if _is_auto(self.cv):
            work = MAX_REFIT_WORK_AUTO / len(machine.solutions_)
            if math.hypot(*(solution.problem.n for solution in machine.solutions_)) > MAX_VARIABLES_AUTO:
                cv = FOLDS_AUTO
        with ModelReporter(type(self).__name__, self.verbose) as reporter:
            found = self._take(machine, folds_of(cv, X, y, classifier), work, reporter)
            if found is None:
                cv = FOLDS_AUTO
                found = self._take(machine, folds_of(cv, X, y, classifier), work, reporter)
        assert found is not None
        if cv is None:
            return found, None
        return found, max(models.weights.shape[1] for models in found) - 1

    def _take(
        self, machine: Any, fold: NDArray | None, max_work: float, reporter: ModelReporter
    ) -> list[Models] | None:
        """Return, for each solve, its models without one fold each, or, if ``fold`` is None, without one point each.

        ``fold`` holds the number of each point's fold. None if more models without a point would have to be solved
        again than ``max_work`` allows, where each counts as the square of its number of points.
        """
        found, count = [], len(machine.solutions_)
        for k, (solution, rows) in enumerate(zip(machine.solutions_, machine._rows, strict=True)):
            report = reporter.of(k, count, "point" if fold is None else "fold")
            if fold is None:
                models = left_out(solution.problem, solution.alpha, max_work / len(rows) ** 2, report)
                if models is None:
                    return None
                found.append(models)
                continue
            own = fold[rows]
            parts = [np.flatnonzero(own == number) for number in range(int(fold.max()) + 1)]
            found.append(held_out(solution.problem, solution.alpha, parts, report))
        return found

    def _keep(self, model: Any, found: list[Models], folds: int | None, **more: Any) -> None:
        """Set all fitted attributes in one update, so that a failed fit changes nothing."""
        machine = model[-1] if isinstance(model, Pipeline) else model
        names = getattr(model, "feature_names_in_", None)
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(
            more,
            estimator_=model,
            _models=found,
            _rows=list(machine._rows),
            n_features_in_=model.n_features_in_ if hasattr(model, "n_features_in_") else machine.n_features_in_,
            n_folds_=folds,
            n_models_=sum(models.weights.shape[1] for models in found),
            max_relative_gap_=max((models.gap for models in found), default=machine.certificate_.relative_gap),
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
        if isinstance(self.estimator_, Pipeline):
            X = self.estimator_[:-1].transform(X)
        return self._machine._check_new_data(X)

    def predict(self, X: Any) -> NDArray:
        """Return the predictions of the estimator fitted to all points, shape (n_new,)."""
        check_is_fitted(self, "estimator_")
        found: NDArray = self.estimator_.predict(X)
        return found

    # --- files ---------------------------------------------------------------------------------

    @property
    def _as_fitted(self) -> Any:
        return SimpleNamespace(kernel=None)  # the wrapped estimator keeps its own

    def _keep_parameters(self) -> None:
        """Do nothing: the parameters count when they are used."""

    def _changed(self) -> dict[str, Any]:
        return {}

    def _content(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        return self._pack()

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        if not all(has_paths(solution.problem) for solution in self.estimator_.solutions_):
            raise ProblemError(
                "estimator: models without a point can be verified for finite C and loss='hinge' only; keep this model "
                "by pickle"
            )
        header, inner = self.estimator_._header()
        arrays = {f"estimator.{name}": array for name, array in inner.items()}
        for k, models in enumerate(self._models):
            arrays |= {f"models.{k}.{name}": getattr(models, name).copy() for name in _STORED}
        if self._targets is not None:
            arrays["targets"] = self._targets.copy()
        return arrays, {"estimator": header, "n_folds": self.n_folds_} | ({} if self._models else {"full": True})

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        inner = {k.removeprefix("estimator."): array for k, array in arrays.items() if k.startswith("estimator.")}
        model, folds = model_of(facts["estimator"], inner, False), facts["n_folds"]
        is_ours = type(model) in (self._kind, *self._others)
        if not is_ours or not (folds is None or (type(folds) is int and folds > 1)):
            raise ValueError("its estimator or its number of folds is of another kind")
        if "full" in facts:
            self._keep_scores(model, [], None, None)
            return
        found = [
            _verified({name: arrays[f"models.{k}.{name}"] for name in _STORED}, solution.problem, folds)
            for k, solution in enumerate(model.solutions_)
        ]
        targets = None
        if "targets" in arrays:
            p = model.solutions_[0].problem.p  # of the tube: y − ε, then −y − ε
            n = len(p) // 2
            targets = stored(arrays, "targets", "f", (n,))
            agree("targets", targets, 0.5 * (p[:n] - p[n:]), 1e3 * _EPS * float(np.abs(p).max()))
        self._keep_scores(model, found, folds, targets)


#: The arrays of `Models` in a file.
_STORED = ("rows", "weights", "biases", "without", "values")


def _verified(arrays: dict[str, NDArray], problem: DualProblem, folds: int | None) -> Models:
    """Return the models of a file, with their gaps computed; ValueError if they are not what they should be."""
    n, count = problem.gram.n, len(arrays["biases"])
    rows = stored(arrays, "rows", "i", (None,))
    weights = stored(arrays, "weights", "f", (len(rows), count))
    biases, values = stored(arrays, "biases", "f", (count,)), stored(arrays, "values", "f", (n,))
    without = stored(arrays, "without", "i", (n,))
    if not has_paths(problem) or (len(rows) and not (rows[0] >= 0 and (np.diff(rows) > 0).all() and rows[-1] < n)):
        raise ValueError("its models are of other points")
    if not count or without.min() < 0 or without.max() >= count or not np.isfinite(weights).all():
        raise ValueError("its models do not leave out what they should")
    if folds is None and (np.bincount(without, minlength=count)[1:] != 1).any():
        raise ValueError("a model without one point leaves out none, or several")
    if folds is not None and (count != 1 + folds or not without.all()):
        raise ValueError("a point is in none of its folds")
    posed = problem.centred()
    K = KeptGram(posed.gram).full()
    models = Models(KeptGram(posed.gram).subset(rows), rows, weights, biases, without, values, 0.0)
    spread = models.spread(n)
    own = spread[np.arange(n), without]
    if own[without > 0].any() or spread[without == 0, 0].any():
        raise ValueError("a model gives weight to a point that it leaves out")
    tolerance = 1e3 * _EPS * n * (1.0 + float(np.abs(K).max()) * float(np.abs(weights).sum(axis=0).max(initial=0.0)))
    expected = np.einsum("ij,ji->i", K, spread[:, without]) + biases[without]
    agree("decision values without a point", values, expected, tolerance + 1e-9 * float(np.abs(biases).max()))
    gap = 0.0
    for start in range(0, count, MODELS_PER_BLOCK):
        part = np.arange(start, min(start + MODELS_PER_BLOCK, count))
        out = (without[:, None] == part) & (part > 0)
        gap = max(gap, float(relative_gaps(problem, posed, K, spread[:, part], biases[part], out).max()))
    if not gap <= MAX_STORED_GAP:
        raise ValueError(f"a model without a point has a relative gap of {gap:.3g}")
    return replace(models, gap=gap)


def _learns_from_y(step: Any) -> bool:
    """Whether a transformer uses y: it says so, or it selects features (the tags of `SelectKBest` do not say so)."""
    if step is None or isinstance(step, str):  # "passthrough"
        return False
    selects = isinstance(step, SelectorMixin) and not isinstance(step, VarianceThreshold)
    return selects or bool(get_tags(step).target_tags.required)


def _is_auto(cv: Any) -> bool:
    """Whether ``cv`` is "auto"; a splitter or an array is not compared."""
    return isinstance(cv, str) and cv == "auto"


class ModelReporter:
    """Print how many models of a fit are found, if it is verbose: one line on a terminal, else one line a second."""

    def __init__(self, name: str, verbose: bool) -> None:
        self.name, self.verbose = name, bool(verbose)
        self.begun = self.printed = time.monotonic()
        self.console: Any = None
        self.live: Any = None

    def __enter__(self) -> ModelReporter:
        if self.verbose:
            from rich.console import Console

            self.console = Console(highlight=False, soft_wrap=True)
            self.live = self.console.status(f"{self.name}: …") if self.console.is_terminal else None
            if self.live is not None:
                self.live.start()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.live is not None:
            self.live.stop()

    def of(self, solve: int, solves: int, what: str) -> Report:
        """Return the report of a solve's models without a point, or a fold."""
        of_all = f", pair of classes {solve + 1} of {solves}" if solves > 1 else ""

        def report(done: int, count: int) -> None:
            now = time.monotonic()
            if self.console is None or now - self.printed < (LINE_INTERVAL_S if self.live is None else LIVE_INTERVAL_S):
                return
            self.printed = now
            text = f"{self.name}: {done} of {count} models without a {what}{of_all}, {now - self.begun:.1f} s"
            if self.live is None:
                self.console.print(text, markup=False)
            else:
                self.live.update(text)

        return report if self.verbose else no_report


def folds_of(cv: Any, X: Any, y: NDArray, classifier: bool) -> NDArray | None:
    """Return the number of the fold that holds out each point, shape (n,), or None to leave out one point at a time.

    `ProblemError` if a point is held out never, or more than once.
    """
    if cv is None:
        return None
    n = len(y)
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
