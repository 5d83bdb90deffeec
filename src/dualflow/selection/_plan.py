"""Which candidates share a kernel matrix, which differ in C alone, and which have to be fitted by themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._solve import AUTO, DEFAULT_SOLVER
from ..core.kernel_checks import check_gamma
from ..estimators._arguments import is_limited
from ..exceptions import ProblemError
from ._folds import Chain, Classes, Numbers
from ._kernels import Setting

__all__ = ["Plan", "chains_of", "is_shared", "planned"]

#: Folds from which a candidate without others of its kernel is planned. With fewer, the plan's checks, weights and
#: kernel widths fold by fold take up to a quarter of what its fits do (`benchmarks/classical/search_tables.py`).
MIN_FOLDS_ONE_COST = 32

#: The kernel matrices that are needed, and for each the chains of candidates with the folds that need it.
Plan = dict[Setting, list[tuple[Chain, list[int]]]]


def is_shared(model: Any) -> bool:
    """Whether the fits of an `SVC` or `SVR` with these parameters are boxes over a shared kernel matrix: the hinge or
    the tube, a kernel of Mercer's, the default solver brought to its end, and no limits or callbacks of one fit."""
    plain = (
        getattr(model, "loss", "hinge") == "hinge"
        and isinstance(model.solver, str)
        and model.solver in (AUTO, DEFAULT_SOLVER)
        and (bool(model.solver_options), bool(model.refine)) == (False, True)
        and not is_limited(model)
        and model.time_limit is None
        and model.callback is None
    )
    if not plain or not isinstance(model.kernel, str) or model.kernel not in ("linear", "poly", "rbf"):
        return False
    try:
        model._check_parameters()
        mercer = model.kernel != "poly" or (float(model.degree).is_integer() and 0 <= model.coef0 < np.inf)
        return (
            mercer
            and bool(np.isfinite(model.C))
            and getattr(model, "fit_intercept", True) in (True, False, "penalised")
        )
    except (ProblemError, TypeError, ValueError):
        return False  # its own fit says what is wrong


def chains_of(models: Sequence[Any], folds: int) -> list[Chain]:
    """The chains of candidates that are worth a plan; a lone candidate is only where there are many folds.

    Parameters
    ----------
    models : sequence of estimators
        One a candidate, with its parameters.
    folds : int
        How many there are.
    """
    chains: dict[tuple[Any, ...], Chain] = {}
    for candidate, model in enumerate(models):
        if is_shared(model):
            chain = chains.setdefault(_but_for_cost(model), Chain(model))
            chain.candidates.append(candidate)
            chain.costs.append(float(model.C))
    return [chain for chain in chains.values() if len(chain.costs) > 1 or folds >= MIN_FOLDS_ONE_COST]


def planned(
    chains: Sequence[Chain], candidates: int, folds: Classes | Numbers, points: NDArray
) -> tuple[Plan, list[tuple[int, int]]]:
    """The plan, and which pairs of candidate and fold are to be fitted by themselves.

    Parameters
    ----------
    chains : sequence of Chain
        Those of `chains_of`.
    candidates : int
        How many there are in all.
    folds : Classes or Numbers
    points : array of shape (n, m)
    """
    plan: Plan = defaultdict(list)
    done = set()
    for chain in chains:
        if folds.weights(chain.model, np.arange(len(points))) is None:
            continue
        order = np.argsort(chain.costs, kind="stable")
        chain.candidates[:] = [chain.candidates[k] for k in order]
        chain.costs[:] = [chain.costs[k] for k in order]
        for setting, members in _settings(chain.model, folds, points).items():
            plan[setting].append((chain, members))
            done |= {(candidate, fold) for candidate in chain.candidates for fold in members}
    every = ((candidate, fold) for candidate in range(candidates) for fold in range(len(folds.splits)))
    return dict(plan), [pair for pair in every if pair not in done]


def _but_for_cost(model: Any) -> tuple[Any, ...]:
    return tuple((name, repr(value)) for name, value in sorted(model.get_params(deep=False).items()) if name != "C")


def _settings(model: Any, folds: Classes | Numbers, points: NDArray) -> dict[Setting, list[int]]:
    """The kernels of a candidate, and the folds of each: gamma="scale" is the training points' own."""
    found: dict[Setting, list[int]] = defaultdict(list)
    for fold, (train, _) in enumerate(folds.splits):
        if folds.weights(model, train) is None:
            continue
        try:
            gamma = 1.0 if model.kernel == "linear" else check_gamma(model.gamma, points[train])
            degree, coef0 = (float(model.degree), float(model.coef0)) if model.kernel == "poly" else (3.0, 0.0)
        except ProblemError:
            continue
        penalised = getattr(model, "fit_intercept", True) == "penalised"
        found[Setting(model.kernel, gamma, degree, coef0, penalised)].append(fold)
    return found
