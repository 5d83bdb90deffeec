"""Making, searching and cross-validating models for `dualflow train`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import FitError, ProblemError
from .prepared import KINDS, How
from .table import Sparse, Table

__all__ = ["cross_validated", "made", "searched", "splits_of"]

#: Parameters of some kinds only.
_OF = {"svc": ("C",), "svr": ("C", "epsilon"), "svdd": ("nu",), "one-class": ("nu",)}
#: What a search tries: these C, and these times the width that gamma="scale" gives.
COSTS, WIDTHS = (0.1, 1.0, 10.0, 100.0, 1000.0), (0.1, 0.3, 1.0, 3.0, 10.0)


def made(kind: str, given: dict[str, Any], **common: Any) -> Any:
    """A model that is not fitted; ``given`` are parameters that not all kinds have, None where they are not given."""
    from .. import estimators

    own = {name: value for name, value in given.items() if value is not None}
    for name in own:
        if name not in _OF[kind]:
            kinds = " and ".join(other for other, names in _OF.items() if name in names)
            raise ProblemError(f"--{name} is a parameter of {kinds}, not of {kind}")
    return getattr(estimators, KINDS[kind])(**own, **common)


def searched(
    kind: str, model: Any, X: Any, y: NDArray | None, folds: int | None, seed: int, source: str
) -> tuple[Any, dict[str, Any]]:
    """The best model of the search, fitted to all points, and what the search found."""
    from ..selection import SVCSearchCV, SVRSearchCV

    if y is None:
        raise ProblemError(f"--search needs labels to choose by, and {kind} has none; choose --nu and --gamma yourself")
    grid: dict[str, list[Any]] = {"C": list(COSTS)}
    if model.kernel != "linear":
        variance = float(X.var() if isinstance(X, np.ndarray) else X.power(2).mean() - X.mean() ** 2)
        scale = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        grid["gamma"] = [scale * width for width in WIDTHS]
    search = (SVCSearchCV if kind == "svc" else SVRSearchCV)(
        model, grid, cv=_splitter(kind, y, folds, seed, source), time_limit=model.time_limit
    )
    try:
        search.fit(X, y)
    except FitError as error:  # the time was over
        said = str(error).replace("time_limit=", "--time-limit ").replace("raise time_limit", "raise --time-limit")
        raise ProblemError(f"--search found nothing: {said}; or name --C and --gamma") from None
    except ProblemError:
        raise
    except ValueError as error:  # all fits failed
        said = str(error).partition(".")[0].strip()
        raise ProblemError(f"--search found nothing: {said}; name --C and --gamma") from None
    found = {"score": float(search.best_score_), "candidates": len(search.cv_results_["params"])}
    return search.best_estimator_, found


def cross_validated(
    kind: str,
    model: Any,
    table: Table | Sparse,
    y: NDArray | None,
    how: How,
    splits: list[tuple[NDArray, NDArray]],
    progress: Callable[[int, int, str], object],
) -> dict[str, Any]:
    """Accuracy (R² of numbers) on rows that neither the model nor the encoding has seen, fold by fold."""
    from sklearn.base import clone
    from sklearn.metrics import accuracy_score, r2_score

    assert y is not None
    score, found = (accuracy_score if kind == "svc" else r2_score), []
    for done, (train, test) in enumerate(splits):
        progress(done, len(splits), "cross-validating")
        part = table.take(train)
        encoding = how.encoding(part)
        fold = clone(model).fit(encoding.transform(part)[0], y[train])
        found.append(float(score(y[test], fold.predict(encoding.transform(table.take(test))[0]))))
    return {"folds": len(splits), "mean": float(np.mean(found)), "std": float(np.std(found)), "scores": found}


def splits_of(kind: str, y: NDArray | None, folds: int | None, seed: int, source: str) -> list[tuple[NDArray, NDArray]]:
    """Training and test rows of each fold, if folds are asked for."""
    if folds is None:
        return []
    if y is None:
        raise ProblemError(f"--cv needs labels to judge by, and {kind} has none")
    return list(_splitter(kind, y, folds, seed, source).split(y, y))


def _splitter(kind: str, y: NDArray, folds: int | None, seed: int, source: str) -> Any:
    from sklearn.model_selection import KFold, StratifiedKFold

    least = int(np.unique(y, return_counts=True)[1].min()) if kind == "svc" else len(y) // 2
    if least < 2:
        raise ProblemError(
            f"{source}: a class has a single row, or there are too few; cross-validation needs two of each"
        )
    folds = min(5, least) if folds is None else folds
    if not 2 <= folds <= least:
        what = "the smallest class has so many rows" if kind == "svc" else "a fold needs two rows"
        raise ProblemError(f"--cv {folds} of {source} must be from 2 to {least}, for {what}")
    return (StratifiedKFold if kind == "svc" else KFold)(folds, shuffle=True, random_state=seed)
