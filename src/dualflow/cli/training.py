"""Create, search and cross-validate models for `dualflow train`."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import FitError, ProblemError
from ..planning.estimate import duration_text
from ..report.columns import seconds_text
from ..report.scores import UNEQUAL_SHARE, ClassCounts
from .scores import CLASSIFIERS
from .training_data import KINDS, TrainingData

#: Parameters that only some kinds have.
_OWN_PARAMETERS = {
    "svc": ("C", "class-weight"),
    "svr": ("C", "epsilon"),
    "nu-svc": ("nu", "class-weight"),
    "nu-svr": ("C", "nu"),
    "svdd": ("nu",),
    "one-class": ("nu",),
}
#: Values of C that a search tries.
SEARCHED_C = (0.1, 1.0, 10.0, 100.0, 1000.0)
#: Values of gamma that a search tries, as multiples of that of gamma="scale"; the nearest first, because a search that
#: runs out of time knows the first ones only.
SEARCHED_GAMMA_FACTORS = (1.0, 0.3, 3.0, 0.1, 10.0)
#: Seconds from which on a duration is given in minutes.
MAX_SECONDS_TEXT = 120.0
#: Seconds for a search by default.
SEARCH_BUDGET_S = 60.0
#: Part of the seconds of a search that each of the two trial fits may take.
TRIAL_SHARE = 0.05


#: Called with the number of steps done, of all of them or None, and a few words.
Progress = Callable[[int, int | None, str], object]


@dataclass(frozen=True)
class Steps:
    """What `dualflow train` does beside one fit."""

    search: bool
    budget_s: float  # seconds for the search
    proba: bool  # whether probabilities are calibrated
    cv: int | None  # number of folds
    seed: int


@dataclass(frozen=True)
class Fitted:
    """A fitted model, and the facts of its search or None."""

    model: Any
    search: dict[str, Any] | None


@dataclass(frozen=True)
class Scored:
    """The facts of a cross-validation or None, its folds, and the counts of predicted classes or None.

    ``line`` is a sentence on the training rows of a model without classes.
    """

    cross_validation: dict[str, Any] | None
    folds: int
    counts: ClassCounts | None
    line: str | None = None


def fitted_model(
    data: TrainingData, model: Any, steps: Steps, progress: Progress, announce: Callable[[str], object]
) -> Fitted:
    """Return the model, fitted to the data, after a search if ``steps`` has one, and calibrated."""
    best = None
    if steps.search:
        progress(0, None, "searching")
        model, best = searched_model(data, model, steps, announce)
    else:
        progress(0, None, f"fitting {data.X.shape[0]} points")
        model.fit(data.X) if data.y is None else model.fit(data.X, data.y)
    if steps.cv is not None:
        check_scorer(data, model)
    if steps.proba and data.y is not None:
        progress(0, None, "calibrating")
        model.set_params(probability="sigmoid")._calibrate()
    return Fitted(model, best)


def scored_model(data: TrainingData, model: Any, splits: list[tuple[NDArray, NDArray]], progress: Progress) -> Scored:
    """Return the scores of a fitted model by the folds, or without any by its own training points."""
    folded, predicted = cross_validation(data, model, splits, progress) if splits else (None, None)
    if data.kind not in CLASSIFIERS:
        return Scored(folded, len(splits), None, _line_on_fit(data, model))
    counts = data.classes.counts(model.predict(data.X) if predicted is None else predicted)
    return Scored(folded, len(splits), counts)


def _line_on_fit(data: TrainingData, model: Any) -> str:
    """Return what a model of numbers or of one class makes of its training rows, beside a constant answer."""
    found = model.predict(data.X)
    if data.y is None:
        return outlier_line(found, "training rows")
    y = np.asarray(data.y, dtype=float)
    errors = np.abs(y - found)
    constant = float(np.abs(y - np.median(y)).mean())
    spread = float(((y - y.mean()) ** 2).sum())
    r2 = f"R² {1.0 - float((errors**2).sum()) / spread:.3f}, " if spread > 0 else ""
    return (
        f"Scores of {len(y)} training rows (new rows score lower; --cv 5 scores unseen rows): {r2}mean absolute error "
        f"{errors.mean():.4g} (always the median: {constant:.4g})"
    )


def outlier_line(predicted: Any, rows: str) -> str:
    """Return how many rows a model of one class takes for outliers."""
    count = int(np.sum(np.asarray(predicted) < 0))
    return f"{count} of {len(predicted)} {rows} are outliers ({100 * count / max(len(predicted), 1):.3g} %)"


def new_model(kind: str, given: dict[str, Any], **common: Any) -> Any:
    """Return a model that is not fitted; ``given`` are parameters of some kinds, None if they are not set."""
    from .. import estimators

    own = {name: value for name, value in given.items() if value is not None}
    for name in own:
        if name not in _OWN_PARAMETERS[kind]:
            *others, last = (other for other, names in _OWN_PARAMETERS.items() if name in names)
            kinds = f"{', '.join(others)} and {last}" if others else last
            raise ProblemError(f"--{name} is a parameter of {kinds}, not of {kind}; leave it out")
    named = {name.replace("-", "_"): value for name, value in own.items()}
    return getattr(estimators, KINDS[kind])(**named, **common)


def searched_model(
    data: TrainingData, model: Any, steps: Steps, announce: Callable[[str], object]
) -> tuple[Any, dict[str, Any]]:
    """Return the best model of a search, fitted to all points, and its score.

    ``announce`` is called with one sentence on the number of fits and their time before the search.
    """
    from sklearn.base import clone

    from ..selection import SVCSearchCV, SVRSearchCV

    kind, X, y, budget_s, scoring = data.kind, data.X, data.y, steps.budget_s, data.classes.scoring
    if y is None:
        raise ProblemError(f"--search needs labels, and {kind} has none; give --nu and --gamma yourself")
    if kind not in ("svc", "svr"):
        raise ProblemError(f"--search is for svc and svr, not for {kind}; compare values of --nu by --cv")
    grid = _grid(kind, model, X, y)
    splitter = _splitter(kind, y, steps.cv, steps.seed, data.table.source)
    count = int(np.prod([len(values) for values in grid.values()]))
    names = " × ".join(f"{len(values)} {name}" for name, values in grid.items())
    begun = time.monotonic()
    expected = _expected_text(model, X, y, count * splitter.get_n_splits(), budget_s)
    if time.monotonic() - begun < budget_s:  # else the search ends at once, which an error says
        announce(
            f"--search: {count} settings ({names}), {splitter.get_n_splits()} folds, by {scoring}; {expected}; it ends "
            f"after {_time_text(budget_s)} (--search-time)."
        )
    search = (SVCSearchCV if kind == "svc" else SVRSearchCV)(
        model, grid, cv=splitter, scoring=data.classes.scorer, time_limit=budget_s, refit=False
    )
    begun = time.monotonic()
    try:
        with warnings.catch_warnings():
            # Settings that the time did not suffice for have no score; "finished" counts the others.
            warnings.filterwarnings("ignore", message="One or more of the test scores are non-finite")
            search.fit(X, y)
    except FitError as error:  # the time limit was reached
        reason = str(error).replace("time_limit=", "--search-time ").replace("raise time_limit", "raise --search-time")
        raise ProblemError(f"--search found no model: {reason}; or give --C and --gamma") from None
    except ProblemError:
        raise
    except ValueError as error:  # all fits failed
        reason = str(error).partition(".")[0].strip()
        raise ProblemError(f"--search found no model: {reason}; give --C and --gamma") from None
    means = search.cv_results_["mean_test_score"]
    folds = [search.cv_results_[f"split{k}_test_score"] for k in range(splitter.get_n_splits())]
    if not np.isfinite(means).any() and np.isfinite(folds).any():
        raise ProblemError(
            f"--search found no model: no setting was scored by all {len(folds)} folds within {_time_text(budget_s)}; "
            "raise --search-time, or give --C and --gamma"
        )
    if not np.isfinite(search.best_score_):
        raise ProblemError(f"--search found no model: --scoring {scoring} gives no number for it; name another score")
    found = {
        "score": float(search.best_score_),
        "scoring": scoring,
        "folds": splitter.get_n_splits(),
        "candidates": len(means),
        "finished": int(np.isfinite(means).sum()),
        "best": {name: _plain_value(value) for name, value in search.best_params_.items()},
        "edges": _edges(grid, search.best_params_),
        "seconds": time.monotonic() - begun,
    }
    # The limit of the search is none of the model that it finds, which is saved.
    begun = time.monotonic()
    best = clone(model).set_params(**search.best_params_).fit(X, y)
    return best, found | {"refit_s": time.monotonic() - begun}


def _grid(kind: str, model: Any, X: Any, y: NDArray) -> dict[str, list[Any]]:
    """Return the values that a search tries, by parameter."""
    grid: dict[str, list[Any]] = {"C": list(SEARCHED_C)}
    if model.kernel != "linear":
        variance = float(X.var() if isinstance(X, np.ndarray) else X.power(2).mean() - X.mean() ** 2)
        scale = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        grid["gamma"] = [scale * width for width in SEARCHED_GAMMA_FACTORS]
    unequal = kind == "svc" and np.unique(y, return_counts=True)[1].max() >= UNEQUAL_SHARE * len(y)
    if unequal and model.class_weight is None:
        grid["class_weight"] = [None, "balanced"]
    return grid


def _edges(grid: dict[str, list[Any]], best: dict[str, Any]) -> dict[str, str]:
    """Return which of C and gamma are the smallest or the largest of the grid: a value beyond it may be better."""
    ends = {"smallest": min, "largest": max}
    numbers = [name for name in ("C", "gamma") if len(grid.get(name, ())) > 1]
    return {name: word for name in numbers for word, end in ends.items() if best[name] == end(grid[name])}


def _plain_value(value: Any) -> Any:
    return float(value) if isinstance(value, (float, np.floating)) else value


def _expected_text(model: Any, X: Any, y: NDArray, fits: int, budget_s: float) -> str:
    """Return what the fits of a search take, by two fits to all points: with the least and with the largest C."""
    from sklearn.base import clone

    seconds, cut = [], False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for C in (SEARCHED_C[0], SEARCHED_C[-1]):
            begun, limit_s = time.monotonic(), TRIAL_SHARE * budget_s
            with contextlib.suppress(FitError):
                clone(model).set_params(C=C, time_limit=limit_s).fit(X, y)
            seconds.append(time.monotonic() - begun)
            cut = cut or seconds[-1] >= limit_s
    least, most = min(seconds), max(seconds)
    total_s = fits * sum(seconds) / len(seconds)
    more = "more than " if cut else ""
    return (
        f"a fit takes {_time_text(least)} to {more}{_time_text(most)}, all together {more or 'at most about '}"
        f"{_time_text(total_s)}"
    )


def _time_text(seconds: float) -> str:
    return seconds_text(seconds) if seconds < MAX_SECONDS_TEXT else duration_text(seconds)


def cross_validation(
    data: TrainingData, model: Any, splits: list[tuple[NDArray, NDArray]], progress: Progress
) -> tuple[dict[str, Any], NDArray]:
    """Return the score of each fold, on rows that neither the model nor the encoding was fitted to, and predictions.

    The prediction of a row, shape (n,), is that of the fold that did not see it.
    """
    from sklearn.base import clone

    y, table, classes = data.y, data.table, data.classes
    assert y is not None
    found, predicted = [], np.empty_like(y)
    for done, (train, test) in enumerate(splits):
        progress(done, len(splits), "cross-validating")
        part = table.take(train)
        encoding = data.how.encoding(part)
        fold = clone(model)
        if data.kind in CLASSIFIERS:
            fold.set_params(probability=False)  # the scores need predictions only
        fold.fit(encoding.transform(part)[0], y[train])
        points = encoding.transform(table.take(test))[0]
        predicted[test] = fold.predict(points)
        found.append(float(classes.scorer(fold, points, y[test])))
    about = {
        "folds": len(splits),
        "scoring": classes.scoring,
        "mean": float(np.mean(found)),
        "std": float(np.std(found)),
    }
    return about | {"scores": found}, predicted


def check_scorer(data: TrainingData, model: Any) -> None:
    """Raise ProblemError if the scorer cannot score a fitted model."""
    try:
        data.classes.scorer(model, data.X, data.y)
    except (ValueError, AttributeError) as error:
        reason, scoring = str(error).partition("\n")[0], data.classes.scoring
        raise ProblemError(f"--scoring {scoring} cannot score this model ({reason}); name another score") from None


def cv_splits(data: TrainingData, steps: Steps) -> list[tuple[NDArray, NDArray]]:
    """Return the training and test rows of each fold; an empty list without --cv."""
    if steps.cv is None:
        return []
    if data.y is None:
        raise ProblemError(f"--cv needs labels, and {data.kind} has none; leave it out")
    return list(_splitter(data.kind, data.y, steps.cv, steps.seed, data.table.source).split(data.y, data.y))


def search_splits(data: TrainingData, steps: Steps, search: dict[str, Any] | None) -> list[tuple[NDArray, NDArray]]:
    """Return the folds of a search, for scores of unseen rows; an empty list if their fits would take too long.

    ``search`` are the facts of the search, or None without one. Fits of the folds may take as long as the search.
    """
    if search is None or search["folds"] * search["refit_s"] > steps.budget_s:
        return []
    return cv_splits(data, replace(steps, cv=search["folds"]))


def _splitter(kind: str, y: NDArray, folds: int | None, seed: int, source: str) -> Any:
    from sklearn.model_selection import KFold, StratifiedKFold

    least = int(np.unique(y, return_counts=True)[1].min()) if kind in CLASSIFIERS else len(y) // 2
    if least < 2:
        raise ProblemError(
            f"{source}: cross-validation needs at least two rows of each class, and two rows in each fold; add rows, "
            "or leave --cv, --search and --proba out"
        )
    folds = min(5, least) if folds is None else folds
    if not 2 <= folds <= least:
        what = f"the smallest class has {least} rows" if kind in CLASSIFIERS else "each fold needs two rows"
        raise ProblemError(f"--cv {folds} of {source} must be from 2 to {least}, because {what}")
    return (StratifiedKFold if kind in CLASSIFIERS else KFold)(folds, shuffle=True, random_state=seed)
