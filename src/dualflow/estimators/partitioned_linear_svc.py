"""`PartitionedLinearSVC`, the exact linear support vector classifier of data in parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..cascade.engines import engine_of
from ..cascade.linear import LinearFit, LinearResult
from ..cascade.partitioning import PARTITIONERS
from ..cascade.parts import dense
from ..cascade.records import Round
from ..cascade.tasks import Survey, survey
from ..core.certificate import Certificate
from ..core.options import Number, OneOf
from ..core.runtime import clock
from ..core.solution import Status
from ..driver.solve import time_limited
from ..exceptions import ProblemError
from ..problems.classification import FINITE_C_RULE
from ._base import frozen, set_by_fit, unavailable
from ._batch import seeds_of
from ._classifier import PairClassifier, constants_of
from ._solving import thread_count
from .cascade_svc import DataSummary, cloned, parts_given, signed, state_without_client, warn_unless_optimal

__all__ = ["PartitionedLinearSVC"]


class PartitionedLinearSVC(PairClassifier):
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
    _rules = {
        "C": FINITE_C_RULE,
        "partitions": Number(at_least=1, whole=True),
        "partitioner": OneOf(words=PARTITIONERS),
        "tol": Number(above=0, note="(a relative gap)"),
        "max_steps": Number(at_least=1, whole=True),
        "time_limit": Number(above=0, infinite=True, none=True, note="(in seconds)"),
    }

    # What the sums over the parts need to know of the model.
    kernel: Any = "linear"
    loss: Any = "hinge"
    gamma: Any = 1.0
    degree: Any = 1.0
    coef0: Any = 0.0
    predict_dtype: Any = "float64"

    __sklearn_clone__, __getstate__ = cloned, state_without_client
    solutions_ = unavailable("certificates_")
    support_: Any = unavailable("coef_; the support vectors stay with the parts")
    support_vectors_: Any = unavailable("coef_; the support vectors stay with the parts")
    n_support_: Any = unavailable("coef_; the support vectors stay with the parts")
    dual_coef_: Any = unavailable("coef_; the multipliers stay with the parts")
    coef_: Any = set_by_fit()
    certificates_: list[Certificate] = set_by_fit()
    statuses_: list[Status] = set_by_fit()
    rounds_: list[Round] = set_by_fit()

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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> PartitionedLinearSVC:
        """Fit the model; the parameters are those of `CascadeSVC.fit`.

        Returns
        -------
        PartitionedLinearSVC
            The fitted estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range, or a part changed between two reads.
        EngineError
            The processes or the cluster are lost.
        FitError
            ``time_limit`` was over before each pair of classes had a certificate.

        Warns
        -----
        ConvergenceWarning
            The iteration of a pair ended above ``tol``.
        """
        started = time.monotonic()
        with clock.keeping_interrupts(), self._transaction():
            self._take_parameters()
            if self.n_jobs is not None:
                thread_count(self.n_jobs)
            (seed,) = seeds_of(self.random_state, 1)
            parts = parts_given(self, X, y, sample_weight, seed)
            engine, rounds = engine_of(self.engine, parts, self.n_jobs), list[Round]()

            def report(row: Round) -> bool | None:
                rounds.append(row)
                return None if self.callback is None else self.callback(row)

            try:
                with time_limited(self._time_left(), "each pair of classes was certified", self.time_limit):
                    surveys: list[Survey] = engine.run(survey, [None] * len(parts), False)
                    engine.checksums = [one.checksum for one in surveys]
                    summary, found = DataSummary.of(self, surveys), list[LinearResult]()
                    for k, (i, j) in enumerate(pairs := summary.pairs):
                        masses = self.C * summary.class_weight * summary.mass
                        signs = signed(len(summary.classes), i, j)
                        now = time.monotonic()
                        left = None if self.time_limit is None else max(0.0, started + self.time_limit - now)
                        fit = LinearFit(
                            engine=engine,
                            model=summary.model(self, i, j),
                            pair=k,
                            parts=len(parts),
                            counts=(float(summary.counts[signs[0]]), float(summary.counts[signs[1]])),
                            mass=(float(masses[signs[0]]), float(masses[signs[1]])),
                            features=self.n_features_in_,
                            tol=self.tol,
                            max_steps=self.max_steps,
                            started=started,
                            deadline=None if left is None else now + left / (len(pairs) - k),
                            on_round=report,
                        )
                        found.append(fit.run())
            finally:
                engine.close()
            self._read(summary, found)
            self.rounds_ = rounds
        warn_unless_optimal(found)
        return self

    def _read(self, summary: DataSummary, found: list[LinearResult]) -> None:
        """Set the fitted attributes from the results of the pairs."""
        self.classes_, self.class_weight_ = summary.classes, summary.class_weight
        self.certificates_, self.statuses_ = [one.certificate for one in found], [one.status for one in found]
        constants = constants_of(len(summary.classes), summary.present)
        coef = np.zeros((len(constants), self.n_features_in_))
        coef[summary.columns] = [one.w for one in found]
        self.coef_ = frozen(coef)
        self.intercept_ = frozen(summary.spread_to_all_pairs([one.bias for one in found], constants))
        self.n_iter_ = summary.spread_to_all_pairs([one.steps for one in found], np.zeros(len(constants), dtype=int))
        self.fit_status_ = int(any(status is not Status.OPTIMAL for status in self.statuses_))

    @property
    def _weights(self) -> NDArray:
        return np.zeros((0, len(self.coef_)))

    def _expansion(self, X: Any, beside: NDArray | None = None) -> NDArray:
        with np.errstate(over="ignore", invalid="ignore"):
            values: NDArray = X @ self.coef_.T
        return values

    def _check_new_data(self, X: ArrayLike) -> Any:
        return super()._check_new_data(dense(X, "X"))

    def save(self, path: Any) -> None:
        """Raise `ProblemError`: the model cannot be saved, since its certificate is about data that are elsewhere."""
        raise ProblemError(
            "PartitionedLinearSVC cannot be saved: loading a file computes its certificate from all data, which are "
            "not in one place here. Pickle the model, or keep coef_ and intercept_"
        )
