"""Create, search and cross-validate models for `dualflow train`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import FitError, ProblemError
from .table import SparseTable, Table
from .training_data import CLASSIFIERS, KINDS, EncodingOptions

__all__ = ["cross_validation", "cv_splits", "new_model", "searched_model"]

#: Parameters that only some kinds have.
_OWN_PARAMETERS = {
    "svc": ("C",),
    "svr": ("C", "epsilon"),
    "nu-svc": ("nu",),
    "nu-svr": ("C", "nu"),
    "svdd": ("nu",),
    "one-class": ("nu",),
}
#: Values of C that a search tries.
SEARCHED_C = (0.1, 1.0, 10.0, 100.0, 1000.0)
#: Values of gamma that a search tries, as multiples of that of gamma="scale".
SEARCHED_GAMMA_FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)


def new_model(kind: str, given: dict[str, Any], **common: Any) -> Any:
    """Return a model that is not fitted; ``given`` are parameters of some kinds, None if they are not set."""
    from .. import estimators

    own = {name: value for name, value in given.items() if value is not None}
    for name in own:
        if name not in _OWN_PARAMETERS[kind]:
            *others, last = (other for other, names in _OWN_PARAMETERS.items() if name in names)
            kinds = f"{', '.join(others)} and {last}" if others else last
            raise ProblemError(f"--{name} is a parameter of {kinds}, not of {kind}; leave it out")
    return getattr(estimators, KINDS[kind])(**own, **common)


def searched_model(
    kind: str, model: Any, X: Any, y: NDArray | None, folds: int | None, seed: int, source: str
) -> tuple[Any, dict[str, Any]]:
    """Return the best model of a search, fitted to all points, and its score."""
    from ..selection import SVCSearchCV, SVRSearchCV

    if y is None:
        raise ProblemError(f"--search needs labels, and {kind} has none; give --nu and --gamma yourself")
    if kind not in ("svc", "svr"):
        raise ProblemError(f"--search is for svc and svr, not for {kind}; compare values of --nu by --cv")
    grid: dict[str, list[Any]] = {"C": list(SEARCHED_C)}
    if model.kernel != "linear":
        variance = float(X.var() if isinstance(X, np.ndarray) else X.power(2).mean() - X.mean() ** 2)
        scale = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        grid["gamma"] = [scale * width for width in SEARCHED_GAMMA_FACTORS]
    search = (SVCSearchCV if kind == "svc" else SVRSearchCV)(
        model, grid, cv=_splitter(kind, y, folds, seed, source), time_limit=model.time_limit
    )
    try:
        search.fit(X, y)
    except FitError as error:  # the time limit was reached
        reason = str(error).replace("time_limit=", "--time-limit ").replace("raise time_limit", "raise --time-limit")
        raise ProblemError(f"--search found no model: {reason}; or give --C and --gamma") from None
    except ProblemError:
        raise
    except ValueError as error:  # all fits failed
        reason = str(error).partition(".")[0].strip()
        raise ProblemError(f"--search found no model: {reason}; give --C and --gamma") from None
    found = {"score": float(search.best_score_), "candidates": len(search.cv_results_["params"])}
    return search.best_estimator_, found


def cross_validation(
    kind: str,
    model: Any,
    table: Table | SparseTable,
    y: NDArray | None,
    how: EncodingOptions,
    splits: list[tuple[NDArray, NDArray]],
    progress: Callable[[int, int, str], object],
) -> dict[str, Any]:
    """Return the accuracy (R² for numbers) of each fold, on rows to which neither model nor encoding was fitted."""
    from sklearn.base import clone
    from sklearn.metrics import accuracy_score, r2_score

    assert y is not None
    score, found = (accuracy_score if kind in CLASSIFIERS else r2_score), []
    for done, (train, test) in enumerate(splits):
        progress(done, len(splits), "cross-validating")
        part = table.take(train)
        encoding = how.encoding(part)
        fold = clone(model).fit(encoding.transform(part)[0], y[train])
        found.append(float(score(y[test], fold.predict(encoding.transform(table.take(test))[0]))))
    return {"folds": len(splits), "mean": float(np.mean(found)), "std": float(np.std(found)), "scores": found}


def cv_splits(kind: str, y: NDArray | None, folds: int | None, seed: int, source: str) -> list[tuple[NDArray, NDArray]]:
    """Return the training and test rows of each fold; an empty list if ``folds`` is None."""
    if folds is None:
        return []
    if y is None:
        raise ProblemError(f"--cv needs labels, and {kind} has none; leave it out")
    return list(_splitter(kind, y, folds, seed, source).split(y, y))


def _splitter(kind: str, y: NDArray, folds: int | None, seed: int, source: str) -> Any:
    from sklearn.model_selection import KFold, StratifiedKFold

    least = int(np.unique(y, return_counts=True)[1].min()) if kind in CLASSIFIERS else len(y) // 2
    if least < 2:
        raise ProblemError(
            f"{source}: cross-validation needs at least two rows of each class, and two rows in each fold; add rows, "
            "or leave --cv and --search out"
        )
    folds = min(5, least) if folds is None else folds
    if not 2 <= folds <= least:
        what = f"the smallest class has {least} rows" if kind in CLASSIFIERS else "each fold needs two rows"
        raise ProblemError(f"--cv {folds} of {source} must be from 2 to {least}, because {what}")
    return (StratifiedKFold if kind in CLASSIFIERS else KFold)(folds, shuffle=True, random_state=seed)
