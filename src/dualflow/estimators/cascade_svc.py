"""`CascadeSVC`, the support vector classifier of data in parts.

`parts_given` splits or collects the parts, `DataSummary` holds what the fit must know of all parts together (classes,
weights, kernel width), and `joint_support` joins the support vectors of the pairs of classes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..cascade.checkpoint import CascadeCheckpoint, run_key
from ..cascade.engines import engine_of
from ..cascade.exchange import Packing, Survivors, rows_of
from ..cascade.linear import LinearResult
from ..cascade.model import Model
from ..cascade.partitioning import PARTITIONERS, chunks_of, is_parts, parts_of
from ..cascade.parts import Part, Rows, dense
from ..cascade.records import CascadePairResult, Round
from ..cascade.run import Cascade
from ..cascade.tasks import Survey, survey
from ..core.certificate import Certificate
from ..core.gram import Gram
from ..core.kernel_cache import KeptGram
from ..core.kernel_functions import check_gamma, check_number
from ..core.named_kernels import named
from ..core.options import Number, OneOf
from ..core.runtime import clock
from ..core.runtime.arrays import immutable_parts, in_parts, is_dask
from ..core.runtime.warn import warn_user
from ..core.solution import Status
from ..driver.checkpoint import Checkpoint
from ..driver.solve import ON_INTERRUPT, time_limited
from ..exceptions import ProblemError
from ..problems.classification import FINITE_C_RULE
from ._base import frozen, set_by_fit, unavailable
from ._batch import seeds_of, without_round_off
from ._classifier import Joint, PairClassifier, class_pairs, constants_of, join_support, libsvm_layout
from ._packing import pack_attributes, unpacked
from ._solving import thread_count
from ._validation import (
    checked_data,
    class_weights,
    classes_with_weight,
    encode,
    exact_labels,
    nonnegative_weight,
    require_two_classes,
)
from ._verify import known_classes, stored


def cloned(model: Any) -> Any:
    """Return an unfitted copy for `sklearn.base.clone`, with the same engine, because a client cannot be copied."""
    given = model.get_params(deep=False)
    return type(model)(**{k: v if k == "engine" else clone(v, safe=False) for k, v in given.items()})


def without_client(state: dict[str, Any]) -> dict[str, Any]:
    """Return a state for a pickle. A client belongs to this process; "dask" is stored instead, the current client."""
    is_client = not isinstance(state.get("engine"), (str, type(None)))
    return state | {"engine": "dask"} if is_client else state


def parts_given(model: Any, X: Any, y: Any, sample_weight: Any, seed: int, y_holds: str = "labels") -> list[Part]:
    """Return X, y and weights as parts, and set the model's feature names if X has them.

    ``y_holds`` is "labels", "numbers", or "nothing" if y is not needed.
    """
    model.__dict__.pop("feature_names_in_", None)
    if is_parts(X):
        if y is not None or sample_weight is not None:
            raise ProblemError("X is a list of parts, which hold labels and weights: leave y and sample_weight out")
        return list(X)
    if is_dask(X):
        if y_holds == "nothing":
            y = X.iloc[:, 0] if hasattr(X, "iloc") else X[:, 0]  # a part has labels; these are not read
        if y is None:
            raise ProblemError("y is needed beside a dask collection X: give one of the same chunks")
        names = getattr(X, "columns", None)
        if names is not None and all(isinstance(name, str) for name in names):
            model.feature_names_in_ = np.asarray(names, dtype=object)
        return [*chunks_of(X, y, sample_weight)]
    if isinstance(X, np.memmap) and X.ndim == 2 and (y is not None or y_holds == "nothing"):
        labels = np.zeros(len(X)) if y_holds == "nothing" else _column(y, len(X), "y")
        weight = None if sample_weight is None else _column(sample_weight, len(X), "sample_weight")
        points: NDArray = X
    else:
        given = () if y_holds == "nothing" else (y,)
        points, *found = checked_data(model, X, *given, first=True, least=2, numeric=y_holds == "numbers")
        labels = found[0] if found else np.zeros(len(points))
        weight = None if sample_weight is None else nonnegative_weight(sample_weight, points)
    return parts_of(points, labels, weight, int(model.partitions), model.partitioner, np.random.default_rng(seed))


def _column(values: Any, n: int, name: str) -> NDArray:
    """Return values of shape (n,) beside a memory map; `ProblemError` for another shape."""
    array = values if isinstance(values, np.memmap) else np.asarray(exact_labels(values, name))
    if array.shape != (n,):
        raise ProblemError(f"{name} has shape {array.shape}, X has {n} rows")
    return array


def signed(classes: int, i: int, j: int) -> tuple[int, int]:
    """Return the classes of y = +1 and y = −1 of a pair."""
    return (j, i) if classes == 2 else (i, j)


def joint_support(parts: list[Part], summary: DataSummary, found: list[CascadePairResult]) -> tuple[Joint, NDArray]:
    """Return the support vectors of all pairs, by class and then by row, with their coefficients, and their points."""
    of_pairs, places, start = [], [], 0
    for (i, j), ended in zip(summary.pairs, found, strict=True):
        weights = without_round_off(ended.coefficients)
        support = np.flatnonzero(weights)
        part, row, sign = (np.concatenate([getattr(own, n) for own in ended.pool]) for n in ("part", "row", "target"))
        numbers = numbered(parts, summary.sizes, part, row)[support]
        positive, negative = signed(len(summary.classes), i, j)
        codes = np.where(sign[support] > 0, positive, negative)
        order = np.lexsort((numbers, codes))
        of_pairs.append((numbers[order], codes[order], weights[support][order]))
        places.append(start + support[order])
        start += len(weights)
    joint = join_support(len(summary.classes), of_pairs, summary.columns)
    place = np.concatenate(places)[joint.first]
    return joint, points_at([own for ended in found for own in ended.pool], summary.packing, place, len(summary.mean))


def points_at(pool: list[Survivors], packing: Packing, place: NDArray, m: int) -> NDArray:
    """Return some points of a pool, by their places in it, shape (len(place), m)."""
    packed: list[Any] = [own.packed for own in pool]
    blocks = (packing.unpack(rows_of(packed, np.asarray(J))) for J in in_parts(packed[0], place))
    return immutable_parts(blocks, (len(place), m))


def warn_unless_optimal(found: Sequence[CascadePairResult | LinearResult]) -> None:
    """Warn of the worst pair of classes that ended above the tolerance, if any did."""
    if above_tol := [ended for ended in found if ended.status is not Status.OPTIMAL]:
        worst = max(above_tol, key=lambda ended: float(ended.certificate.relative_gap))  # type: ignore[arg-type]
        of_all = f" ({len(above_tol)} of {len(found)} pairs of classes; the worst)" if len(found) > 1 else ""
        gap = f"{worst.certificate.relative_gap:.3g}{of_all}"
        warn_user(f"{worst.status.text} Certified relative gap over all parts {gap}.", ConvergenceWarning)


def numbered(parts: list[Part], sizes: NDArray, part: NDArray, row: NDArray) -> NDArray:
    """Return the rows of X of some rows of parts; without an X, the parts count as concatenated."""
    numbers = (np.cumsum(sizes) - sizes)[part] + row
    for k, own in enumerate(parts):
        if isinstance(own, Rows):
            is_own = part == k
            rows = np.arange(own.rows.start, own.rows.stop) if isinstance(own.rows, slice) else own.rows
            numbers[is_own] = rows[row[is_own]]
    return numbers


@dataclass(frozen=True)
class DataSummary:
    """Statistics of all parts together."""

    n: int  # number of rows
    sizes: NDArray  # number of rows of each part; shape (n_parts,)
    classes: NDArray  # the class labels; shape (n_classes,)
    present: NDArray  # indices of the classes that have rows of positive weight; int array
    class_weight: NDArray  # the factor of C of each class; shape (n_classes,)
    mass: NDArray  # sum of the weights of each class's rows; shape (n_classes,)
    gamma: float  # the kernel width
    center: NDArray | None  # the point that is subtracted from all points; shape (m,), or None
    mean: NDArray  # mean of the features; shape (m,)
    spread: NDArray  # sum of squared differences from the mean; shape (m,)
    counts: NDArray  # number of rows of each class with a weight above 0; shape (n_classes,)
    checksums: list[str]  # `Survey.checksum` of each part
    packing: Packing  # how rows are packed where they are exchanged

    @classmethod
    def of(cls, model: Any, surveys: list[Survey]) -> DataSummary:
        """Return the summary of the parts' surveys, in order; sets the model's number of features."""
        model.n_features_in_ = common_width(model, surveys)
        filled = [one for one in surveys if one.n]
        kinds = {one.classes.dtype.kind for one in filled}
        if len(kinds & set("biuf")) and len(kinds - set("biuf")):
            raise ProblemError("y: some parts hold numbers, others do not; give labels of one type")
        # Each label three times: with as many classes as labels scikit-learn would take y for numbers of a regression.
        classes, code = encode(np.repeat(np.concatenate([one.classes for one in filled]), 3))
        require_two_classes(classes, "y")
        counts, weighty, mass = (
            np.bincount(code[::3], np.concatenate([getattr(one, name) for one in filled]), minlength=len(classes))
            for name in ("counts", "weighty", "mass")
        )
        weight = _class_weights(model.class_weight, classes, counts)
        present = classes_with_weight((weighty * (weight > 0)).astype(np.intp), classes)
        sizes = np.array([one.n for one in surveys])
        mean, spread = moments_of_all(filled)
        gamma = width_of(model, mean, spread, int(sizes.sum()))
        check_number(model.degree, "degree", lower=0.0)
        check_number(model.coef0, "coef0")
        translatable = named(model.kernel).is_translatable(model.degree, model.coef0)
        moves = translatable and model.fit_intercept is True and model.loss == "hinge"
        if not named(model.kernel).is_psd(model.degree, model.coef0):
            raise ProblemError(
                f"kernel={model.kernel!r} with degree={model.degree!r} and coef0={model.coef0!r} is not positive "
                "semidefinite, and has no bound over parts; take 'rbf', 'linear', or 'poly' with a whole degree and "
                "coef0 ≥ 0"
            )
        center = mean if moves else None
        return cls(
            int(sizes.sum()), sizes, classes, present, weight, mass, gamma, center, mean, spread,
            weighty, [one.checksum for one in surveys], Packing.of([one.columns for one in filled if one.columns]),
        )  # fmt: skip

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of classes that are solved: those of which both classes have rows of positive weight."""
        present = set(self.present.tolist())
        return [pair for pair in class_pairs(len(self.classes)) if present.issuperset(pair)]

    @property
    def columns(self) -> list[int]:
        """The indices of the solved pairs among all pairs."""
        number = {pair: k for k, pair in enumerate(class_pairs(len(self.classes)))}
        return [number[pair] for pair in self.pairs]

    def spread_to_all_pairs(self, values: Sequence[Any], rest: NDArray) -> NDArray:
        """Write the values of the solved pairs into ``rest``, which has an entry for each of all pairs; return it."""
        rest[self.columns] = values
        return rest

    def model(self, parameters: Any, i: int, j: int) -> Model:
        """Return the model of a pair, in which y = +1 is the second of two classes, or the first class among more."""
        positive, negative = signed(len(self.classes), i, j)
        return Model(
            classes=self.classes,
            class_weight=self.class_weight,
            positive=positive,
            negative=negative,
            C=float(parameters.C),
            loss=parameters.loss,
            fit_intercept=parameters.fit_intercept,
            kernel=parameters.kernel,
            gamma=self.gamma,
            degree=float(parameters.degree),
            coef0=float(parameters.coef0),
            center=self.center,
        )

    def mass_of(self, model: Any, i: int, j: int) -> float:
        """Return an upper bound on the sum of the multipliers of a pair's rows."""
        if model.loss == "squared_hinge":
            return 1.0
        return float(model.C * (self.class_weight[[i, j]] @ self.mass[[i, j]]))

    def digest(self) -> dict[str, Any]:
        """Return values that identify the data, for a checkpoint."""
        return {
            "sizes": self.sizes.tolist(),
            "classes": [str(label) for label in self.classes],
            "class_weight": self.class_weight.tolist(),
            "mass": self.mass.tolist(),
            "mean": self.mean.tolist(),
            "spread": self.spread.tolist(),
            "checksums": self.checksums,
        }


def common_width(model: Any, surveys: list[Survey], beside: int = 0) -> int:
    """Return the number of columns of all parts, and set the model's feature names if these have any.

    ``beside`` is the number of columns of the surveys that are not of X.
    """
    widths = {len(one.mean) - beside for one in surveys}
    if len(widths) > 1:
        raise ProblemError(f"X: parts have {sorted(widths)} features; all must have the same")
    if names := _common_names(surveys, getattr(model, "feature_names_in_", None)):
        model.feature_names_in_ = np.asarray(names, dtype=object)
    if not any(one.n for one in surveys):
        raise ProblemError("X: the parts hold no rows")
    return widths.pop()


def _common_names(surveys: list[Survey], given: NDArray | None) -> list[str] | None:
    """Return the names of the columns, which must be those of every part that has names; None without names."""
    known, source = (None if given is None else given.tolist()), "X.columns"
    for number, one in enumerate(surveys):
        if one.names is None or (known is not None and len(one.names) != len(known)):
            continue  # another number of columns is an error of its own
        if known is None:
            known, source = list(one.names), f"part {number}"
        for k, (name, other) in enumerate(zip(one.names, known, strict=True)):
            if name != other:
                raise ProblemError(
                    f"part {number}: column {k} of X is {name!r}, but {other!r} in {source}; give the same columns in "
                    "the same order in every part"
                )
    return known


def moments_of_all(surveys: list[Survey]) -> tuple[NDArray, NDArray]:
    """Return mean and sum of squared differences from it of each feature over all parts (Chan, Golub, LeVeque)."""
    n, mean, spread = 0, np.zeros_like(surveys[0].mean), np.zeros_like(surveys[0].mean)
    for one in surveys:
        total = n + one.n
        step = one.mean - mean
        spread = spread + one.spread + step**2 * (n * one.n / total)
        mean, n = mean + step * (one.n / total), total
    return mean, spread


def width_of(model: Any, mean: NDArray, spread: NDArray, n: int) -> float:
    """Return γ by the rules of `Gram`; "scale" uses the variance of all entries of all parts."""
    if model.kernel == "linear":
        return 1.0
    if isinstance(model.gamma, str) and model.gamma == "scale":
        # The variance of all entries is the mean of the features' variances plus the variance of their means.
        variance = float(np.mean(spread) / n + mean.var())
        # `check_gamma` takes points: two rows of ± the deviation have this variance.
        return check_gamma("scale", np.full((2, len(mean)), np.sqrt(variance)) * np.array([[-1.0], [1.0]]))
    return check_gamma(model.gamma, np.zeros((1, len(mean))))


def _class_weights(given: Any, classes: NDArray, counts: NDArray) -> NDArray:
    """Return the factor of C of each class; ``counts`` are the numbers of its rows, for "balanced"."""
    if isinstance(given, str) and given == "balanced":
        return counts.sum() / (len(classes) * counts)
    return class_weights(given, classes, classes)


class CascadeSVC(PairClassifier):
    """Support vector classifier of data in parts, which may be on several machines, with a certificate over all parts.

    Each part solves its own dual, and sends its support vectors, which are solved together. Each part then checks its
    rows against this solution, and sends rows that violate their KKT condition, which join in the next round. The rows'
    contributions to the dual bound are summed, so the certified gap is that of all rows together, in float64, as
    `certify` would compute it for data in one place. The rounds end when the gap is within ``tol``.

    Parameters
    ----------
    C, loss, gamma, degree, coef0, fit_intercept, decision_function_shape, break_ties, predict_dtype
        As in `SVC`, with a finite C; ``gamma="scale"`` is computed from all parts together.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        Kernel function. It must be positive semidefinite for all data ("poly" needs a whole degree and coef0 ≥ 0);
        other kernels have no known bound over parts.
    engine : None, "joblib", "dask" or distributed.Client, default=None
        What works on the parts. None is this process, part by part. "joblib" is joblib's processes, as ``n_jobs`` and
        `joblib.parallel_config` say. A client, or "dask" for the current one, is the workers of a dask cluster
        (``pip install 'dualflow[dask]'``); searches can copy "dask". With the same seed and parts all engines give the
        same bits.
    partitions : int, default=8
        Number of parts into which arrays and memory maps are split.
    partitioner : {"random", "clusters", "given"}, default="random"
        Which rows form a part: random rows, with each class spread evenly; rows near each other, by k-means (Hsieh, Si
        and Dhillon 2014); or consecutive rows.
    max_invaders : int, optional
        Maximum number of rows, the worst violators, that a part sends in a round. All parts together send at most half
        as many rows as there are survivors, or 64 each if that is more.
    tol : float > 0, default=1e-3
        Certified relative gap at which the rounds end.
    max_steps : int, default=100
        Maximum number of rounds for each pair of classes.
    time_limit : float, optional
        Seconds for the whole fit. The model is that of the last certified round. If a pair of classes has none by then,
        the fit raises `FitError`.
    class_weight : dict or "balanced", optional
        Factors of C for each class.
    checkpoint : str, Path or Checkpoint, optional
        File to which the survivors' numbers and multipliers are saved after each round, and from which the fit resumes
        if it exists. Their rows are read from the parts again. ``interval_s`` has no effect.
    callback : callable, optional
        Called with a `dualflow.cascade.Round` after each round. A true return value ends that pair of classes.
    on_interrupt : {"raise", "keep"}, default="raise"
        What Ctrl-C does. "raise" raises KeyboardInterrupt and leaves the estimator as it was. "keep" makes the best
        certified rounds the model, with a warning, if each pair has one.
    random_state : int, RandomState or None, default=None
        Seed of the partitioner.
    n_jobs : int, optional
        Number of processes of ``engine="joblib"``.

    Attributes
    ----------
    classes_, class_weight_ : array of shape (n_classes,)
        The class labels, and the factor of C of each class.
    support_ : array of shape (n_SV,)
        Rows of X that are support vectors, by class and then ascending. For a list of parts, rows are counted through
        the parts in their order.
    support_vectors_, n_support_, dual_coef_, intercept_
        As in `SVC`.
    certificates_ : list of Certificate
        One for each pair of classes, over all its rows in all parts; ``alpha`` holds the survivors, all others are 0.
    certificate_ : Certificate
        The worst of `certificates_`.
    statuses_ : list of Status
        How the rounds of each pair ended.
    rounds_ : list of Round
        The record of each round.
    n_iter_ : array of shape (n_pairs,)
        Number of rounds of each pair.
    fit_status_ : int
        0 if every pair reached ``tol``, else 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    A file of `save` holds the support vectors alone. The certificate is of all rows, which are not in one place, so
    that a loaded model has none.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import CascadeSVC
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = CascadeSVC(partitions=4, random_state=0).fit(X, np.hypot(*X.T) > 1)
    >>> model.certificate_.within(1e-3), model.predict([[0.0, 0.1], [2.0, 2.0]])
    (True, array([False,  True]))
    """

    _fitted_by = "classes_"
    _rules = {
        "C": FINITE_C_RULE,
        "loss": OneOf(words=("hinge", "squared_hinge")),
        "kernel": OneOf(words=("rbf", "linear", "poly"), note="(others have no bound over parts)"),
        "partitions": Number(at_least=1, whole=True),
        "partitioner": OneOf(words=PARTITIONERS),
        "max_invaders": Number(at_least=1, whole=True, none=True),
        "tol": Number(above=0, note="(a relative gap)"),
        "max_steps": Number(at_least=1, whole=True),
        "time_limit": Number(above=0, infinite=True, none=True, note="(in seconds)"),
        "on_interrupt": ON_INTERRUPT,
    }

    __sklearn_clone__ = cloned
    solutions_ = unavailable("certificates_")
    certificates_: list[Certificate] = set_by_fit()
    statuses_: list[Status] = set_by_fit()
    rounds_: list[Round] = set_by_fit()

    C: float
    loss: str
    fit_intercept: bool | str
    engine: Any
    partitions: int
    partitioner: str
    max_invaders: int | None
    tol: float
    max_steps: int
    time_limit: float | None
    class_weight: dict[Any, float] | str | None
    checkpoint: str | Path | Checkpoint | None
    callback: Callable[[Round], bool | None] | None
    on_interrupt: str
    random_state: Any
    n_jobs: int | None

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "hinge",
        kernel: str = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        fit_intercept: bool | str = True,
        engine: Any = None,
        partitions: int = 8,
        partitioner: str = "random",
        max_invaders: int | None = None,
        tol: float = 1e-3,
        max_steps: int = 100,
        time_limit: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        checkpoint: str | Path | Checkpoint | None = None,
        callback: Callable[[Round], bool | None] | None = None,
        on_interrupt: str = "raise",
        random_state: Any = None,
        predict_dtype: str = "float64",
        n_jobs: int | None = None,
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> CascadeSVC:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, n_features), numpy.memmap, dask array or dataframe, or list of parts
            Finite numbers. A memory map stays in its file, which workers must be able to open by the same name. A dask
            collection stays where it is, and is computed again in each round unless it was persisted. Parts are objects
            with a method ``load`` (`dualflow.cascade.Part`).
        y : array of shape (n,)
            Labels of at least two classes. A dask collection with the same chunks if X is one; None if X is a list of
            parts.
        sample_weight : array of shape (n,), optional
            Multiplies C, point by point. Points with a weight of 0 or less are left out. A dask collection if X is one.

        Returns
        -------
        CascadeSVC
            The fitted estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range, or the checkpoint belongs to another run.
        EngineError
            The processes or the cluster are lost. With a checkpoint, the next fit resumes after the last round.
        FitError
            ``time_limit`` was over before a round of each pair of classes was certified.

        Warns
        -----
        ConvergenceWarning
            The rounds of a pair ended above ``tol``.
        """
        started = time.monotonic()
        with clock.keeping_interrupts(), self._transaction():
            self._take_parameters()
            if self.n_jobs is not None:
                thread_count(self.n_jobs)
            (seed,) = seeds_of(self.random_state, 1)
            parts = parts_given(self, X, y, sample_weight, seed)
            engine = engine_of(self.engine, parts, self.n_jobs)
            try:
                with time_limited(self._time_left(), "a round of each pair of classes was certified", self.time_limit):
                    surveys: list[Survey] = engine.run(survey, [None] * len(parts), True)
                    engine.checksums = [one.checksum for one in surveys]
                    summary = DataSummary.of(self, surveys)
                    keeping = CascadeCheckpoint.of(self.checkpoint, run_key(self, summary.digest(), len(parts), seed))
                    rounds: list[Round] = []

                    def report(row: Round) -> bool | None:
                        rounds.append(row)
                        return None if self.callback is None else self.callback(row)

                    found: list[CascadePairResult] = []
                    for k, (i, j) in enumerate(pairs := summary.pairs):
                        interrupted = any(ended.status is Status.INTERRUPTED for ended in found)
                        cascade = Cascade(
                            engine=engine,
                            model=summary.model(self, i, j),
                            pair=k,
                            parts=len(parts),
                            packing=summary.packing,
                            mass=summary.mass_of(self, i, j),
                            tol=self.tol,
                            most=self.max_invaders,
                            max_steps=1 if interrupted else self.max_steps,
                            started=started,
                            deadline=self._deadline(started, len(pairs) - k),
                            on_round=report,
                            save=keeping.saver(k),
                            keeps=self.on_interrupt == "keep",
                        )
                        ended = cascade.run(keeping.state(k))
                        if interrupted and ended.status is Status.STEP_LIMIT:
                            ended = replace(ended, status=Status.INTERRUPTED)
                        found.append(ended)
            finally:
                engine.close()
            self._read(summary, parts, found)
            self.rounds_ = rounds
        warn_unless_optimal(found)
        return self

    def __getstate__(self) -> dict[str, Any]:
        state = without_client(super().__getstate__())
        if state.get("_support_gram") is not None:
            state["support_vectors_"] = None  # the kernel matrix holds them
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.__dict__.get("_support_gram") is not None:
            self.support_vectors_ = np.array(self._support_gram.X)

    def _deadline(self, started: float, waiting: int) -> float | None:
        """Return the time at which the next of ``waiting`` pairs must end; they share the time left equally."""
        if self.time_limit is None:
            return None
        now = time.monotonic()
        return now + max(0.0, started + self.time_limit - now) / waiting

    def _read(self, summary: DataSummary, parts: list[Part], found: list[CascadePairResult]) -> None:
        """Set the fitted attributes from the results of the pairs."""
        joint, points = joint_support(parts, summary, found)
        self.classes_, self.class_weight_ = summary.classes, summary.class_weight
        self.support_, self.n_support_, self.support_vectors_ = joint.support, joint.n_support, points
        self._pair_coef, self.dual_coef_ = joint.pair_coef, joint.dual_coef
        self.certificates_ = [ended.certificate for ended in found]
        self.statuses_ = [ended.status for ended in found]
        constants = constants_of(len(summary.classes), summary.present)
        self.intercept_ = summary.spread_to_all_pairs([ended.certificate.bias for ended in found], constants)
        self.n_iter_ = summary.spread_to_all_pairs(
            [ended.steps for ended in found], np.zeros(len(constants), dtype=int)
        )
        self.fit_status_ = int(any(status is not Status.OPTIMAL for status in self.statuses_))
        self._expand_over(summary.model(self, *summary.pairs[0]).gram(points) if len(points) else None)

    def _check_new_data(self, X: Any) -> Any:
        return super()._check_new_data(dense(X, "X"))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that `dualflow.load` reads. The file contains no pickle and no other rows.

        It holds the parameters, the support vectors and their coefficients. Certificates are of all rows, which are
        not in one place, and cannot be verified from a file: a loaded model has none. It predicts the same bits.

        Parameters
        ----------
        path : str or Path
            Name of the file, with any suffix; an existing one is replaced. Missing folders are created.

        Raises
        ------
        NotFittedError
            The model is not fitted.
        ProblemError
            A parameter cannot be stored without pickle: a callback, or a client as ``engine`` (fit with "dask").
        OSError
            The file cannot be written. An existing file is unchanged.
        """
        super().save(path)

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        gram = self._support_gram
        arrays = pack_attributes(self, _STORED) | {"points": self.support_vectors_}
        if gram is not None and gram.center is not None:
            arrays["center"] = np.array(gram.center)
        return arrays, {"gamma": 1.0 if gram is None else float(gram.gamma)}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        count = len(known_classes(stored(arrays, "classes_", "biufUSmMO", (None,))))
        pairs = np.array(class_pairs(count))
        for name, array in unpacked(_STORED, arrays, classes=count, pairs=len(pairs)).items():
            setattr(self, name, array)
        self.support_vectors_ = stored(arrays, "points", "f", (len(self.support_), self.n_features_in_))
        if int(self.n_support_.sum()) != len(self.support_) or (self.class_weight_ < 0).any():
            raise ValueError("its numbers of support vectors, or its class weights, do not go together")
        place, pair = self._pair_coef.nonzero()
        codes = np.repeat(np.arange(count), self.n_support_)[place]
        if not (pairs[pair] == codes[:, None]).any(axis=1).all():
            raise ValueError("a support vector has a coefficient in a pair of other classes")
        values = self._pair_coef[place, pair]
        self.dual_coef_ = libsvm_layout(count, len(self.support_), place, codes, values, pair)[1]
        center = stored(arrays, "center", "f", (self.n_features_in_,)) if "center" in arrays else None
        if center is not None and not np.isfinite(center).all():
            raise ValueError("its centre is not finite")
        kept, gram = self._as_fitted, None
        if len(self.support_):
            gram = Gram(
                self.support_vectors_, kept.kernel, gamma=facts["gamma"], degree=kept.degree, coef0=kept.coef0,
                center=center,
            )  # fmt: skip
        self._expand_over(gram)

    def _expand_over(self, gram: Gram | None) -> None:
        """Set the kernel of the support vectors, and what its centre subtracts from the pairs' values."""
        self._support_gram, self._constants = None, 0.0
        if gram is not None:
            self._support_gram, self.support_vectors_ = KeptGram(gram), gram.X
            self._constants = np.array([gram.constant(weights) for weights in self._pair_coef.T])
        for name in ("support_", "n_support_", "dual_coef_", "intercept_"):
            frozen(getattr(self, name))


#: Arrays of a saved model.
_STORED = {
    "classes_": ("biufUSmMO", "classes"),
    "class_weight_": ("f", "classes"),
    "support_": ("i", "support"),
    "n_support_": ("i", "classes"),
    "_pair_coef": ("f", "support", "pairs"),
    "intercept_": ("f", "pairs"),
}
