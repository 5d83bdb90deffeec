"""`PartitionedLinearSVC`, `-SVR` and `-SVDD`: exact linear models of data in parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cascade.linear import LinearFit, LinearResult
from ..cascade.model import BallModel, LinearModel, TubeModel
from ..cascade.parts import Part
from ..cascade.records import Round
from ..cascade.tasks import Survey, survey_values
from ..core.options import Number
from ..exceptions import ProblemError
from ..problems.classification import FINITE_C_RULE
from ..problems.regression import EPSILON_RULE
from ._base import frozen, set_by_fit, unavailable
from ._chunks import by_chunks
from ._classifier import PairClassifier, constants_of
from ._one_class import Ball
from ._over_parts import OverParts, RegressorOverParts, Report
from .cascade_svc import (
    DataSummary,
    common_width,
    moments_of_all,
    signed,
)


@dataclass(frozen=True)
class PosedLinear:
    """A problem over all parts: its model, and the number of variables and sum of upper bounds of σ = +1 and −1."""

    model: LinearModel
    counts: tuple[float, float]
    mass: tuple[float, float]


class PartitionedLinear(OverParts):
    """Base class of exact linear models of data in parts."""

    # What the sums over the parts need to know of the model.
    kernel: Any = "linear"
    loss: Any = "hinge"
    gamma: Any = 1.0
    degree: Any = 1.0
    coef0: Any = 0.0
    predict_dtype: Any = "float64"

    support_: Any = unavailable("coef_; the support vectors stay with the parts")
    support_vectors_: Any = unavailable("coef_; the support vectors stay with the parts")
    n_support_: Any = unavailable("coef_; the support vectors stay with the parts")
    dual_coef_: Any = unavailable("coef_; the multipliers stay with the parts")
    coef_: Any = set_by_fit()

    def _solve(
        self, engine: Any, surveys: list[Survey], started: float, report: Report
    ) -> tuple[Any, list[LinearResult]]:
        (summary, posed), found = self._pose(surveys), list[LinearResult]()
        for k, one in enumerate(posed):
            now = time.monotonic()
            left = None if self.time_limit is None else max(0.0, started + self.time_limit - now)
            fit = LinearFit(
                engine=engine,
                model=one.model,
                pair=k,
                parts=len(surveys),
                counts=one.counts,
                mass=one.mass,
                features=self.n_features_in_,
                tol=self.tol,
                max_steps=self.max_steps,
                started=started,
                deadline=None if left is None else now + left / (len(posed) - k),
                on_round=report,
            )
            found.append(fit.run())
        return summary, found

    def _pose(self, surveys: list[Survey]) -> tuple[Any, list[PosedLinear]]:
        """Return what the surveys say of all parts, and the problems."""
        raise NotImplementedError

    @property
    def _weights(self) -> NDArray:
        return np.zeros((0, len(self.coef_)))

    def _expansion(self, X: Any, beside: NDArray | None = None) -> NDArray:
        with np.errstate(over="ignore", invalid="ignore"):
            values: NDArray = X @ self.coef_.T
        return values


class PartitionedLinearSVC(PartitionedLinear, PairClassifier):
    """Exact linear support vector classifier of data in parts, which may be on several machines.

    The problem of a sample of the rows tells at which bound most multipliers of all rows are; those left undetermined
    are solved next, by an interior point in this process, until one pass over all rows certifies the result. Few rows,
    and rows of which samples leave too many undetermined, are solved by interior-point steps whose sums over rows the
    parts add up. The memory of this process does not grow with the number of rows, and the result is the optimum of all
    rows together, with their certificate, however noisy they are (`CascadeSVC` collects the support vectors).

    Parameters
    ----------
    C, fit_intercept, decision_function_shape, break_ties
        As in `SVC`, with a finite C.
    engine, partitions, partitioner, class_weight, random_state, n_jobs
        As in `CascadeSVC`. ``engine="joblib"`` sends the multipliers in every pass. On a dask cluster, the passes over
        the parts of a dead worker are computed again.
    tol : float > 0, default=1e-8
        Certified relative gap at which the iteration ends; float64 allows about 1e-11.
    max_steps : int, default=200
        Maximum number of passes and steps for each pair of classes.
    time_limit : float, optional
        Seconds for the whole fit. The model is that of the last step, with its certificate. Without one by then the fit
        raises `FitError`.
    callback : callable, optional
        Called with a `dualflow.cascade.Round` after each step, whose gap is by the iteration's own sums. A true return
        value ends that pair of classes.

    Attributes
    ----------
    classes_, class_weight_ : array of shape (n_classes,)
        The class labels, and the factor of C of each class.
    coef_ : array of shape (n_pairs, n_features)
        Weights of the features.
    intercept_ : array of shape (n_pairs,)
    certificates_ : list of Certificate
        One for each pair of classes, over all its rows in all parts. ``alpha`` is empty: the multipliers were left with
        the parts.
    certificate_ : Certificate
        The worst of `certificates_`.
    statuses_ : list of Status
        How the iteration of each pair ended.
    rounds_ : list of Round
        The record of each step, with the bytes that were sent and received.
    n_iter_ : array of shape (n_pairs,)
        Number of steps of each pair.
    fit_status_ : int
        0 if every pair reached ``tol``, else 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The rows are read in every pass: store them where they are fast to read (dask: ``persist``). For a radial kernel put
    scikit-learn's ``Nystroem`` before it; the certificate is then that of the approximate kernel.

    References
    ----------
    Ferris, Munson, "Interior-point methods for massive support vector machines", SIAM J. Optim. 13 (2002).
    Woodsend, Gondzio, "Hybrid MPI/OpenMP parallel linear support vector machine training", JMLR 10 (2009).

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import PartitionedLinearSVC
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = PartitionedLinearSVC(partitions=4, random_state=0).fit(X, X[:, 0] > X[:, 1])
    >>> model.certificate_.within(1e-8), model.predict([[1.0, 0.0], [0.0, 1.0]])
    (True, array([ True, False]))
    """

    _fitted_by = "classes_"
    _rules = {"C": FINITE_C_RULE}

    def __init__(
        self,
        C: float = 1.0,
        *,
        fit_intercept: bool | str = True,
        engine: Any = None,
        partitions: int = 8,
        partitioner: str = "random",
        tol: float = 1e-8,
        max_steps: int = 200,
        time_limit: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        callback: Callable[[Round], bool | None] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self._set_parameters(locals())

    def _pose(self, surveys: list[Survey]) -> tuple[DataSummary, list[PosedLinear]]:
        summary, posed = DataSummary.of(self, surveys), list[PosedLinear]()
        masses = self.C * summary.class_weight * summary.mass
        for i, j in summary.pairs:
            signs = list(signed(len(summary.classes), i, j))
            counts, mass = (tuple(map(float, of[signs])) for of in (summary.counts, masses))
            posed.append(PosedLinear(summary.model(self, i, j), counts, mass))  # type: ignore[arg-type]
        return summary, posed

    def _read(self, summary: DataSummary, parts: list[Part], surveys: list[Survey], found: list[LinearResult]) -> None:
        self.classes_, self.class_weight_ = summary.classes, summary.class_weight
        constants = constants_of(len(summary.classes), summary.present)
        coef = np.zeros((len(constants), self.n_features_in_))
        coef[summary.columns] = [one.w for one in found]
        self.coef_ = frozen(coef)
        self.intercept_ = frozen(summary.spread_to_all_pairs([one.bias for one in found], constants))
        self.n_iter_ = summary.spread_to_all_pairs([one.steps for one in found], np.zeros(len(constants), dtype=int))


@dataclass(frozen=True)
class ValueSummary:
    """Statistics of all parts without classes.

    ``n`` rows have a weight above 0, and ``mass`` is the sum of these; ``mean`` and ``spread`` are of the columns of X
    and of y.
    """

    n: float
    mass: float
    mean: NDArray
    spread: NDArray

    @classmethod
    def of(cls, model: Any, surveys: list[Survey]) -> ValueSummary:
        """Return the summary of the parts' surveys, in order; sets the model's number of features."""
        model.n_features_in_ = common_width(model, surveys, beside=1)
        n, mass = (float(sum(getattr(one, name)[0] for one in surveys)) for name in ("weighty", "mass"))
        if not n:
            raise ProblemError("sample_weight is zero for every point; nothing is left to fit")
        mean, spread = moments_of_all([one for one in surveys if one.n])
        return cls(n, mass, mean, spread / sum(one.n for one in surveys))


class PartitionedLinearSVR(RegressorOverParts, PartitionedLinear):
    """Exact linear ε-insensitive regression of data in parts, certified over all rows as in `PartitionedLinearSVC`.

    Parameters
    ----------
    C, epsilon
        As in `SVR`, with a finite C.
    engine, partitions, partitioner, tol, max_steps, time_limit, callback, random_state, n_jobs
        As in `PartitionedLinearSVC`.

    Attributes
    ----------
    coef_ : array of shape (1, n_features)
        Weights of the features.
    intercept_ : array of shape (1,)
    certificate_ : Certificate
        That of `SVR` on all rows in one place; ``alpha`` is empty.
    statuses_, rounds_, n_iter_, fit_status_, n_features_in_, feature_names_in_
        As in `PartitionedLinearSVC`.

    References
    ----------
    Smola, Schölkopf, "A tutorial on support vector regression", Statistics and Computing 14 (2004), eq. 3 and 10.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import PartitionedLinearSVR
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = PartitionedLinearSVR(C=10.0, partitions=4, random_state=0).fit(X, X[:, 0] - X[:, 1])
    >>> model.certificate_.within(1e-8), bool(np.abs(model.predict(X) - X[:, 0] + X[:, 1]).max() < 0.11)
    (True, True)
    """

    _fitted_by = "coef_"
    _rules = {"C": FINITE_C_RULE, "epsilon": EPSILON_RULE}
    _y_holds = "numbers"
    _survey = staticmethod(survey_values)

    def __init__(
        self,
        C: float = 1.0,
        epsilon: float = 0.1,
        *,
        engine: Any = None,
        partitions: int = 8,
        partitioner: str = "random",
        tol: float = 1e-8,
        max_steps: int = 200,
        time_limit: float | None = None,
        callback: Callable[[Round], bool | None] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self._set_parameters(locals())

    def _pose(self, surveys: list[Survey]) -> tuple[ValueSummary, list[PosedLinear]]:
        found = ValueSummary.of(self, surveys)
        size = float(np.sqrt(found.spread[-1])) + self.epsilon
        model = TubeModel(float(self.C), float(self.epsilon), found.mean[:-1], float(found.mean[-1]), size or 1.0)
        return found, [PosedLinear(model, (found.n, found.n), (self.C * found.mass,) * 2)]

    def _read(self, summary: ValueSummary, parts: list[Part], surveys: list[Survey], found: list[LinearResult]) -> None:
        (one,), bias = found, found[0].bias + float(summary.mean[-1])
        self.coef_, self.intercept_ = frozen(one.w[None]), frozen(np.array([bias]))
        certificate = replace(one.certificate, multiplier=-bias, multiplier_interval=(-bias, -bias))
        self.certificates_ = [replace(certificate, bias=bias, bias_interval=(bias, bias))]
        self.n_iter_ = one.steps


class PartitionedLinearSVDD(Ball, PartitionedLinear):
    """Smallest ball around a share of the rows of data in parts, certified over all rows as in `PartitionedLinearSVC`.

    Parameters
    ----------
    nu : float in (0, 1), default=0.1
        Upper bound on the share of training points outside the ball, as in `SVDD`. With ν = 1 its centre is the mean.
    engine, partitions, partitioner, tol, max_steps, time_limit, callback, random_state, n_jobs
        As in `PartitionedLinearSVC`.

    Attributes
    ----------
    center_ : array of shape (n_features,)
        Centre of the ball.
    radius_, offset_ : float
        R, and −R².
    certificate_ : Certificate
        That of `SVDD` on all rows in one place; ``alpha`` is empty.
    statuses_, rounds_, n_iter_, fit_status_, n_features_in_, feature_names_in_
        As in `PartitionedLinearSVC`.

    References
    ----------
    Tax, Duin, "Support vector data description", Machine Learning 54 (2004), eq. 5 to 8.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import PartitionedLinearSVDD
    >>> X = np.random.default_rng(0).normal(size=(300, 2)) + 5.0
    >>> ball = PartitionedLinearSVDD(nu=0.1, partitions=4, random_state=0).fit(X)
    >>> ball.certificate_.within(1e-8), ball.predict([[5.0, 5.0], [9.0, 9.0]]).tolist()
    (True, [1, -1])
    """

    _fitted_by = "center_"
    _rules = {"nu": Number(above=0, below=1)}
    _y_holds = "nothing"
    _survey = staticmethod(survey_values)

    coef_: Any = unavailable("center_")
    center_: Any = set_by_fit()

    def __init__(
        self,
        nu: float = 0.1,
        *,
        engine: Any = None,
        partitions: int = 8,
        partitioner: str = "random",
        tol: float = 1e-8,
        max_steps: int = 200,
        time_limit: float | None = None,
        callback: Callable[[Round], bool | None] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self._set_parameters(locals())

    def _pose(self, surveys: list[Survey]) -> tuple[ValueSummary, list[PosedLinear]]:
        found = ValueSummary.of(self, surveys)
        cap = 1.0 / (self.nu * found.mass)
        model = BallModel(cap, np.sqrt(2.0) * found.mean[:-1], float(found.spread[:-1].sum()) or 1.0)
        return found, [PosedLinear(model, (found.n, 0.0), (cap * found.mass, 0.0))]

    def _read(self, summary: ValueSummary, parts: list[Part], surveys: list[Survey], found: list[LinearResult]) -> None:
        (one,), mean = found, summary.mean[:-1]
        a = one.w / np.sqrt(2.0)  # from the mean
        # With rows F from the mean, the multiplier is ν = 2⟨F, a⟩ − ‖F‖² on the ball, so that R² = ‖a‖² − ν.
        squared_radius = float(a @ a) + one.bias + 2.0 * float(mean @ a)
        self.radius_, self.offset_ = float(np.sqrt(max(0.0, squared_radius))), -squared_radius
        self.center_ = frozen(a + mean)
        # The numbers that depend on the origin are those of `SVDD`, which does not move it.
        square = float(self.center_ @ self.center_)
        multiplier = square - squared_radius
        self.certificates_ = [
            replace(
                one.certificate,
                quadratic=2.0 * square,
                multiplier=multiplier,
                multiplier_interval=(multiplier, multiplier),
                bias=0.0,
                bias_interval=(0.0, 0.0),
                radius=self.radius_,
                primal=None,
            )
        ]
        self.n_iter_ = one.steps

    @by_chunks
    def score_samples(self, X: ArrayLike) -> NDArray:
        """Return minus the squared distance from the centre, shape (n_new,)."""
        with np.errstate(over="ignore", invalid="ignore"):
            off = self._check_new_data(X) - self.center_
            return self._finite(-np.einsum("ij,ij->i", off, off))
