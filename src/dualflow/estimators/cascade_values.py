"""`CascadeSVR` and `CascadeSVDD`: regression and data description with a Gaussian kernel, for data in parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..cascade.exchange import Packing
from ..cascade.model import CascadeModel
from ..cascade.parts import Part
from ..cascade.radial import RadialBall, RadialTube
from ..cascade.records import CascadePairResult, Round
from ..cascade.run import Cascade
from ..cascade.tasks import Survey, survey_rows
from ..core.gram import Gram
from ..core.kernel_cache import KeptGram
from ..core.options import Number
from ..problems.classification import FINITE_C_RULE
from ..problems.regression import EPSILON_RULE
from ._base import frozen
from ._batch import without_round_off
from ._one_class import Ball, sphere
from ._over_parts import OverParts, RegressorOverParts, Report
from .cascade_svc import (
    numbered,
    points_at,
    width_of,
)
from .partitioned_linear import ValueSummary


class _CascadeValues(OverParts):
    """Base class of cascades without classes."""

    _rules = {"max_invaders": Number(at_least=1, whole=True, none=True)}
    _fitted_by = "dual_coef_"
    _survey = staticmethod(survey_rows)
    _waited_for = "a round was certified"

    # `KernelMachine` reads these of every model.
    kernel: Any = "rbf"
    degree: Any = 3
    coef0: Any = 0.0

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        # `_support_gram` holds the support vectors already.
        return state if state.get("_support_gram") is None else state | {"support_vectors_": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if self.__dict__.get("_support_gram") is not None:
            self.support_vectors_ = self._support_gram.X

    def _solve(
        self, engine: Any, surveys: list[Survey], started: float, report: Report
    ) -> tuple[tuple[ValueSummary, Cascade], list[CascadePairResult]]:
        summary = ValueSummary.of(self, surveys)
        gamma = width_of(self, summary.mean[:-1], summary.spread[:-1], 1)
        model, mass = self._pose(summary, gamma)
        cascade = Cascade(
            engine=engine,
            model=model,
            pair=0,
            parts=len(surveys),
            packing=Packing.of([one.columns for one in surveys if one.columns]),
            mass=mass,
            tol=self.tol,
            most=self.max_invaders,
            max_steps=self.max_steps,
            started=started,
            deadline=None if self.time_limit is None else started + self.time_limit,
            on_round=report,
            save=lambda state: None,
        )
        return (summary, cascade), [cascade.run()]

    def _read(
        self,
        summary: tuple[ValueSummary, Cascade],
        parts: list[Part],
        surveys: list[Survey],
        found: list[CascadePairResult],
    ) -> None:
        values, cascade = summary
        (one,) = found
        self._set_model(values, one, self._keep(parts, surveys, cascade, one))

    def _pose(self, summary: ValueSummary, gamma: float) -> tuple[CascadeModel, float]:
        """Return the model, and an upper bound of the sum of all multipliers."""
        raise NotImplementedError

    def _set_model(self, summary: ValueSummary, found: CascadePairResult, gram: Gram | None) -> None:
        """Set what is not set for every model; ``gram`` is the kernel of the support vectors."""
        raise NotImplementedError

    def _keep(
        self, parts: list[Part], surveys: list[Survey], cascade: Cascade, found: CascadePairResult
    ) -> Gram | None:
        """Set the support vectors, their weights, and the records; return the kernel, if there are support vectors."""
        weights = without_round_off(found.coefficients)
        support = np.flatnonzero(weights)
        part, row = (np.concatenate([getattr(own, name) for own in found.pool]) for name in ("part", "row"))
        numbers = numbered(parts, np.array([one.n for one in surveys]), part, row)[support]
        order = np.argsort(numbers)
        self.support_, self.n_support_ = frozen(numbers[order]), frozen(np.array([len(support)]))
        self.dual_coef_ = frozen(weights[None, support[order]])
        self.support_vectors_ = points_at(found.pool, cascade.packing, support[order], self.n_features_in_)
        gram = cascade.model.gram(self.support_vectors_) if len(support) else None
        self._support_gram = None if gram is None else KeptGram(gram)
        self.n_iter_ = found.steps
        return gram

    def _expand(self, X: Any, weights: NDArray, beside: NDArray | None = None) -> NDArray:
        # Without support vectors all values are 0.
        return np.zeros((len(X), 1)) if self._support_gram is None else super()._expand(X, weights, beside)


class CascadeSVR(RegressorOverParts, _CascadeValues):
    """ε-insensitive regression with a Gaussian kernel of data in parts, certified over all rows as in `CascadeSVC`.

    Parameters
    ----------
    C, epsilon, gamma
        As in `SVR`, with a finite C; ``gamma="scale"`` is computed from all parts together.
    engine, partitions, partitioner, max_invaders, tol, max_steps, time_limit, callback, random_state, n_jobs
        As in `CascadeSVC`.
    predict_dtype
        As in `SVR`.

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        Rows of X that are support vectors, as in `CascadeSVC`, ascending.
    support_vectors_, dual_coef_, intercept_, n_support_
        As in `SVR`.
    certificate_ : Certificate
        That of `SVR` on all rows in one place; ``alpha`` holds the survivors, all others are 0.
    certificates_, statuses_, rounds_, n_iter_, fit_status_, n_features_in_, feature_names_in_
        As in `CascadeSVC`.

    References
    ----------
    Smola, Schölkopf, "A tutorial on support vector regression", Statistics and Computing 14 (2004), eq. 3 and 10.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import CascadeSVR
    >>> X = np.random.default_rng(0).uniform(-3.0, 3.0, size=(300, 1))
    >>> model = CascadeSVR(C=10.0, partitions=4, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.certificate_.within(1e-3), bool(np.abs(model.predict(X) - np.sin(X[:, 0])).max() < 0.12)
    (True, True)
    """

    _rules = {"C": FINITE_C_RULE, "epsilon": EPSILON_RULE}
    _y_holds = "numbers"

    def __init__(
        self,
        C: float = 1.0,
        epsilon: float = 0.1,
        *,
        gamma: str | float = "scale",
        engine: Any = None,
        partitions: int = 8,
        partitioner: str = "random",
        max_invaders: int | None = None,
        tol: float = 1e-3,
        max_steps: int = 100,
        time_limit: float | None = None,
        callback: Callable[[Round], bool | None] | None = None,
        random_state: Any = None,
        predict_dtype: str = "float64",
        n_jobs: int | None = None,
    ) -> None:
        self._set_parameters(locals())

    def _pose(self, summary: ValueSummary, gamma: float) -> tuple[RadialTube, float]:
        mean, shift = summary.mean[:-1], float(summary.mean[-1])
        return RadialTube(gamma, mean, float(self.C), float(self.epsilon), shift), self.C * summary.mass

    def _set_model(self, summary: ValueSummary, found: CascadePairResult, gram: Gram | None) -> None:
        certificate, shift = found.certificate, float(summary.mean[-1])
        low, high = (end + shift for end in certificate.bias_interval)
        moved = replace(certificate, bias=certificate.bias + shift, bias_interval=(low, high))
        interval, middle = (-high, -low), -(certificate.bias + shift)
        self.certificates_ = [replace(moved, multiplier=middle, multiplier_interval=interval)]
        self.intercept_ = frozen(np.array([moved.bias]))


class CascadeSVDD(Ball, _CascadeValues):
    """Smallest ball around a share of the rows of data in parts, with a Gaussian kernel, certified over all rows.

    The surface is that of the one-class SVM of the same ν, as k(x, x) is constant.

    Parameters
    ----------
    nu : float in (0, 1), default=0.1
        Upper bound on the share of training points outside the ball, as in `SVDD`.
    gamma
        As in `SVDD`; "scale" is computed from all parts together.
    engine, partitions, partitioner, max_invaders, tol, max_steps, time_limit, callback, random_state, n_jobs
        As in `CascadeSVC`.
    predict_dtype
        As in `SVDD`.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, n_support_
        As in `SVDD`; rows are counted as in `CascadeSVC`.
    radius_, offset_ : float
        R, and −R² less a slack for round-off.
    certificate_ : Certificate
        That of `SVDD` on all rows in one place; ``alpha`` holds the survivors, all others are 0.
    certificates_, statuses_, rounds_, n_iter_, fit_status_, n_features_in_, feature_names_in_
        As in `CascadeSVC`.

    References
    ----------
    Tax, Duin, "Support vector data description", Machine Learning 54 (2004), eq. 5 to 8.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import CascadeSVDD
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> ball = CascadeSVDD(nu=0.1, partitions=4, random_state=0).fit(X)
    >>> ball.certificate_.within(1e-3), ball.predict([[0.0, 0.0], [6.0, 6.0]]).tolist()
    (True, [1, -1])
    """

    _rules = {"nu": Number(above=0, below=1)}
    _y_holds = "nothing"

    def __init__(
        self,
        nu: float = 0.1,
        *,
        gamma: str | float = "scale",
        engine: Any = None,
        partitions: int = 8,
        partitioner: str = "random",
        max_invaders: int | None = None,
        tol: float = 1e-3,
        max_steps: int = 100,
        time_limit: float | None = None,
        callback: Callable[[Round], bool | None] | None = None,
        random_state: Any = None,
        predict_dtype: str = "float64",
        n_jobs: int | None = None,
    ) -> None:
        self._set_parameters(locals())

    def _pose(self, summary: ValueSummary, gamma: float) -> tuple[RadialBall, float]:
        return RadialBall(gamma, summary.mean[:-1], float(self.nu), summary.mass), 1.0

    def _set_model(self, summary: ValueSummary, found: CascadePairResult, gram: Gram | None) -> None:
        certificate = found.certificate
        self._center_square = 0.5 * certificate.quadratic
        diag = np.ones(1) if gram is None else gram.diag()
        self.radius_, self.offset_ = sphere(float(certificate.radius or 0.0) ** 2, diag, self._center_square)
