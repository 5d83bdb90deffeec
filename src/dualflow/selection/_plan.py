"""The plan of a search: which candidates share a kernel matrix, and which are fitted one by one.

`Kernels` computes kernel matrices of one data set for many kernel settings from common distances.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.kernel_functions import check_gamma
from ..core.named_kernels import KERNELS
from ..core.runtime.memory import memory_bytes
from ..driver.solve import AUTO
from ..estimators._solving import has_step_limit
from ..exceptions import ProblemError
from ..solvers.registry import DEFAULT_SOLVER
from ._folds import Chain, Classes, Numbers

#: Fraction of the machine's memory that the matrices of a search may take together; the rest is for data and models.
MAX_MEMORY_FRACTION = 0.5
#: n × n matrices of float64 for each thread: K, both signs of a regression or the blocks of two classes, and float32.
MATRICES_PER_THREAD = 3.5
#: Bytes of memory that are assumed where the machine does not tell.
UNKNOWN_MEMORY_BYTES = 8 << 30
#: Up to this γ‖x‖², distances from products are exact to 1e-12 in the kernel.
MAX_GAMMA_SQUARE = 1e4


def can_share(points: int, threads: int) -> bool:
    """Return whether the kernel matrices of a search, and the distances they are made from, fit into memory."""
    matrices = 1.0 + MATRICES_PER_THREAD * threads
    return 8.0 * matrices * points**2 <= MAX_MEMORY_FRACTION * (memory_bytes() or UNKNOWN_MEMORY_BYTES)


class Setting(NamedTuple):
    """A kernel with its parameters; ``penalised`` means that the bias is part of the kernel, K + 1."""

    kernel: str
    gamma: float
    degree: float
    coef0: float
    penalised: bool


class Kernels:
    """Kernel matrices of one set of points.

    Parameters
    ----------
    points : array of shape (n, m)
    """

    def __init__(self, points: NDArray) -> None:
        self.points, self._lock = points, threading.Lock()
        self._distances: tuple[NDArray, float] | None = None

    def matrix(self, setting: Setting, buffer: NDArray | None) -> tuple[NDArray, float]:
        """Return K divided by its largest diagonal entry, shape (n, n), and that entry; ``buffer`` is reused for K."""
        if setting.kernel == "rbf":
            distances, largest = self._squared()
            if setting.gamma * largest <= MAX_GAMMA_SQUARE:
                K: NDArray = np.empty_like(distances) if buffer is None else buffer
                np.multiply(distances, -setting.gamma, out=K)
                np.exp(K, out=K)
                K.flat[:: len(K) + 1] = 1.0
                return self._scaled(K, setting.penalised)
        parameters: dict[str, Any] = {"gamma": setting.gamma, "degree": setting.degree, "coef0": setting.coef0}
        gram = Gram(self.points, setting.kernel, **parameters)
        # For weights with sum 0 centring changes nothing but the round-off, which becomes smaller.
        return self._scaled(np.array((gram if setting.penalised else gram.centred()).full()), setting.penalised)

    @staticmethod
    def _scaled(K: NDArray, penalised: bool) -> tuple[NDArray, float]:
        """Add the penalised bias, and divide K by its largest diagonal entry."""
        if penalised:
            K += 1.0
        max_diagonal = float(K.diagonal().max()) or 1.0
        if max_diagonal != 1.0:
            K /= max_diagonal
        return K, max_diagonal

    def gram(self, setting: Setting) -> Gram:
        """Return the Gram of the points for a radial kernel."""
        return Gram(self.points, setting.kernel, gamma=setting.gamma)

    def _squared(self) -> tuple[NDArray, float]:
        """Return squared distances, shape (n, n), and the largest from the mean; computed once."""
        with self._lock:
            if self._distances is None:
                X = self.points - self.points.mean(axis=0)
                squares = np.einsum("ij,ij->i", X, X)
                D = X @ X.T
                D *= -2.0
                D += squares
                D += squares[:, None]
                self._distances = np.maximum(D, 0.0, out=D), float(squares.max())
            return self._distances


#: Folds from which a kernel with one candidate only is planned. With fewer folds, the checks, weights and kernel widths
#: of the plan take up to a quarter of the time of the fits (`benchmarks/classical/search_tables.py`).
MIN_FOLDS_ONE_COST = 32

#: The kernel settings, and for each its chains of candidates with the folds that use it.
Plan = dict[Setting, list[tuple[Chain, list[int]]]]


def is_shared(model: Any) -> bool:
    """Return whether fits of an `SVC` or `SVR` with these parameters can be solved as boxes over a shared matrix.

    They must have the hinge or the tube, a Mercer kernel, the default solver with refinement, and no limits or
    callbacks of single fits.
    """
    plain = (
        getattr(model, "loss", "hinge") == "hinge"
        and isinstance(model.solver, str)
        and model.solver in (AUTO, DEFAULT_SOLVER)
        and (bool(model.solver_options), bool(model.refine)) == (False, True)
        and not has_step_limit(model)
        and model.time_limit is None
        and model.callback is None
    )
    if not plain or not isinstance(model.kernel, str) or model.kernel not in KERNELS:
        return False
    try:
        model._check_parameters()
        return (
            KERNELS[model.kernel].is_psd(model.degree, model.coef0)
            and model.coef0 < np.inf
            and bool(np.isfinite(model.C))
            and getattr(model, "fit_intercept", True) in (True, False, "penalised")
        )
    except (ProblemError, TypeError, ValueError):
        return False  # a single fit raises the error


def chains_of(models: Sequence[Any], folds: int, points: int) -> list[Chain]:
    """Return the chains of candidates to plan; one candidate needs many folds, or kernel rows made on demand.

    Parameters
    ----------
    models : sequence of estimators
        One for each candidate, with its parameters.
    folds : int
        Number of folds.
    points : int
    """
    chains: dict[tuple[Any, ...], Chain] = {}
    for candidate, model in enumerate(models):
        if is_shared(model):
            chain = chains.setdefault(_key_without_cost(model), Chain(model))
            chain.candidates.append(candidate)
            chain.costs.append(float(model.C))
    return [
        chain
        for chain in chains.values()
        if len(chain.costs) > 1 or folds >= MIN_FOLDS_ONE_COST or can_skip_calls(chain.model, points)
    ]


#: Points up to which lone candidates are solved by `Classes.path`. Of more, a fit may be given up, and be made again.
MAX_POINTS_LONE = 640


def can_skip_calls(model: Any, points: int) -> bool:
    """Return whether `Classes.path` solves the fits of one candidate as a single fit does, with fewer calls."""
    is_pair_problem = hasattr(model, "class_weight") and model.fit_intercept is True
    return points <= MAX_POINTS_LONE and is_pair_problem and model.kernel == "rbf"


def planned(
    chains: Sequence[Chain], candidates: int, folds: Classes | Numbers, points: NDArray
) -> tuple[Plan, list[tuple[int, int]]]:
    """Return the plan, and the pairs of candidate and fold that are fitted one by one.

    Parameters
    ----------
    chains : sequence of Chain
        From `chains_of`.
    candidates : int
        Number of candidates in all.
    folds : Classes or Numbers
    points : array of shape (n, m)
    """
    plan: Plan = defaultdict(list)
    planned_pairs = set()
    for chain in chains:
        if folds.weights(chain.model, np.arange(len(points))) is None:
            continue
        order = np.argsort(chain.costs, kind="stable")
        chain.candidates[:] = [chain.candidates[k] for k in order]
        chain.costs[:] = [chain.costs[k] for k in order]
        for setting, members in _settings(chain.model, folds, points).items():
            plan[setting].append((chain, members))
            planned_pairs |= {(candidate, fold) for candidate in chain.candidates for fold in members}
    all_pairs = ((candidate, fold) for candidate in range(candidates) for fold in range(len(folds.splits)))
    return dict(plan), [pair for pair in all_pairs if pair not in planned_pairs]


def _key_without_cost(model: Any) -> tuple[Any, ...]:
    """Return the parameters of a model without C, as a dictionary key."""
    return tuple((name, repr(value)) for name, value in sorted(vars(model).items()) if name != "C")


def _settings(model: Any, folds: Classes | Numbers, points: NDArray) -> dict[Setting, list[int]]:
    """Return the kernel settings of a candidate with their folds; gamma="scale" depends on the training points."""
    found: dict[Setting, list[int]] = defaultdict(list)
    parameters = KERNELS[model.kernel].parameters
    for fold, (train, _) in enumerate(folds.splits):
        if folds.weights_of(model, fold) is None:
            continue
        try:
            gamma = check_gamma(model.gamma, points[train]) if "gamma" in parameters else 1.0
            degree = float(model.degree) if "degree" in parameters else 3.0
            coef0 = float(model.coef0) if "coef0" in parameters else 0.0
        except ProblemError:
            continue
        penalised = getattr(model, "fit_intercept", True) == "penalised"
        found[Setting(model.kernel, gamma, degree, coef0, penalised)].append(fold)
    return found
