"""What models of data in parts share whose training data stay with the parts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from ..cascade.engines import engine_of
from ..cascade.partitioning import PARTITIONERS
from ..cascade.parts import Part, dense
from ..cascade.records import Round
from ..cascade.tasks import Survey, survey
from ..core.certificate import Certificate
from ..core.options import Number, OneOf
from ..core.runtime import clock
from ..core.solution import Status
from ..driver.solve import time_limited
from ..exceptions import ProblemError
from ._base import KernelMachine, set_by_fit, unavailable
from ._batch import seeds_of
from ._chunks import by_chunks, explained_variance, is_dask
from ._solving import thread_count
from .cascade_svc import cloned, parts_given, warn_unless_optimal, without_client

#: Called with the record of each round; a true value ends the rounds.
Report = Callable[[Round], bool | None]


class OverParts(KernelMachine):
    """Base class of models of data in parts whose training data stay there."""

    _rules = {
        "partitions": Number(at_least=1, whole=True),
        "partitioner": OneOf(words=PARTITIONERS),
        "tol": Number(above=0, note="(a relative gap)"),
        "max_steps": Number(at_least=1, whole=True),
        "time_limit": Number(above=0, infinite=True, none=True, note="(in seconds)"),
    }

    #: What y holds, as in `parts_given`, and the task that surveys a part.
    _y_holds: ClassVar[str] = "labels"
    _survey: ClassVar[Any] = staticmethod(survey)
    #: What a time limit that is too short cut off.
    _waited_for: ClassVar[str] = "each problem was certified"
    engine: Any
    partitions: int
    partitioner: str

    __sklearn_clone__ = cloned
    solutions_ = unavailable("certificates_")
    certificates_: list[Certificate] = set_by_fit()
    statuses_: list[Status] = set_by_fit()
    rounds_: list[Round] = set_by_fit()

    def __getstate__(self) -> dict[str, Any]:
        return without_client(super().__getstate__())

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the model; the parameters are those of `CascadeSVC.fit`.

        A regression takes numbers in place of labels. A ball ignores y, also that of a list of parts.

        Returns
        -------
        The fitted estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range, or a part changed between two reads.
        EngineError
            The processes or the cluster are lost.
        FitError
            ``time_limit`` was over before each problem had a certificate.

        Warns
        -----
        ConvergenceWarning
            The iteration of a problem ended above ``tol``.
        """
        started, y = time.monotonic(), None if self._y_holds == "nothing" else y
        with clock.keeping_interrupts(), self._transaction():
            self._take_parameters()
            if self.n_jobs is not None:
                thread_count(self.n_jobs)
            (seed,) = seeds_of(self.random_state, 1)
            parts = parts_given(self, X, y, sample_weight, seed, self._y_holds)
            engine, rounds = engine_of(self.engine, parts, self.n_jobs), list[Round]()

            def report(row: Round) -> bool | None:
                rounds.append(row)
                return None if self.callback is None else self.callback(row)

            try:
                with time_limited(self._time_left(), self._waited_for, self.time_limit):
                    surveys: list[Survey] = engine.run(self._survey, [None] * len(parts), self._y_holds == "numbers")
                    engine.checksums = [one.checksum for one in surveys]
                    summary, found = self._solve(engine, surveys, started, report)
            finally:
                engine.close()
            self.certificates_, self.statuses_ = [one.certificate for one in found], [one.status for one in found]
            self.fit_status_ = int(any(status is not Status.OPTIMAL for status in self.statuses_))
            self._read(summary, parts, surveys, found)
            self.rounds_ = rounds
        warn_unless_optimal(found)
        return self

    def _solve(self, engine: Any, surveys: list[Survey], started: float, report: Report) -> tuple[Any, list[Any]]:
        """Return what the surveys say of all parts, and the results of the problems."""
        raise NotImplementedError

    def _read(self, summary: Any, parts: list[Part], surveys: list[Survey], found: list[Any]) -> None:
        """Set the fitted attributes from the results."""
        raise NotImplementedError

    def _check_new_data(self, X: ArrayLike) -> Any:
        return super()._check_new_data(dense(X, "X"))

    def save(self, path: Any) -> None:
        """Raise `ProblemError`: the model cannot be saved, since its certificate is about data that are elsewhere."""
        raise ProblemError(
            f"{type(self).__name__} cannot be saved: loading a file computes its certificate from all data, which are "
            "not in one place here. Pickle the model"
        )


class RegressorOverParts(RegressorMixin, OverParts):
    """Base class of regressions over parts, which have one expansion and one intercept."""

    intercept_: NDArray = set_by_fit()

    @by_chunks
    def predict(self, X: ArrayLike) -> NDArray:
        """Return the predicted values of new points, shape (n_new,)."""
        return self._expanded(X)[:, 0] + self.intercept_[0]

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R² of the predicted values; of dask collections, which need the same chunks, by chunks."""
        if is_dask(X):
            return explained_variance(self, X, y, sample_weight)
        return float(super().score(X, y, sample_weight))
