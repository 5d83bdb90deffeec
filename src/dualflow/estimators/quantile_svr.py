"""`QuantileSVR`, kernel regression of one or several quantiles by the pinball loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import d2_pinball_score

from .. import problems
from ..core.gram import Gram
from ..core.options import Flag
from ..core.problem import DualProblem
from ..core.solution import Solution
from ..driver.solve import AUTO, Progress
from ..exceptions import ProblemError
from ..problems.classification import FINITE_C_RULE
from ..problems.regression import QUANTILE_RULE
from ..solvers import Solver
from ._batch import seeds_of
from ._chunks import by_chunks
from ._packing import unpacked
from ._regressor import ValueMachine, stored_values
from ._solving import Solving


class QuantileSVR(ValueMachine):
    """Support vector regression of a quantile, or of several.

    Minimises ½‖w‖² + C Σ ρ(zᵢ − f(xᵢ)) with the pinball loss ρ(r) = max(τr, (τ − 1)r) (Takeuchi, Le, Sears, Smola
    2006): f(x) estimates the τ-quantile of y at x, the median for τ = ½. At most a share τ of the training points
    is strictly below f, and at most 1 − τ above. Any solver that takes its dual can solve it; each solution has a
    certificate.

    Parameters
    ----------
    quantile : float in (0, 1), or ascending sequence of them, default=0.5
        τ. Several quantiles are fitted one by one, each with its own certificate.
    C : float > 0, default=1.0
        Weight of the loss.
    non_crossing : bool, default=False
        Whether predictions of several quantiles are sorted, point by point, so that no lower quantile is above a higher
        one. Sorted estimates are never farther from the true quantiles (Chernozhukov, Fernández-Val, Galichon 2010).
    kernel, gamma, degree, coef0
        As in `SVC`.
    solver, solver_options, refine, tol, max_steps, time_limit, warm_start, callback, on_interrupt, random_state,
    predict_dtype
        As in `SVC`.
    n_jobs, max_iter, verbose, shrinking, cache_size
        As in `SVC`; ``n_jobs`` is the number of threads for quantiles and predictions.

    Attributes
    ----------
    quantiles_ : array of shape (n_quantiles,)
        The quantiles that the model was fitted for.
    support_ : array of shape (n_SV,)
        Rows of X that are support vectors of at least one quantile, ascending.
    dual_coef_ : array of shape (n_quantiles, n_SV)
        Coefficients, between −C(1 − τ) and Cτ.
    intercept_ : array of shape (n_quantiles,)
        The biases.
    coef_ : array of shape (n_quantiles, n_features)
        Weights of the features, for a linear kernel only.
    solutions_, certificates_ : list of Solution, list of Certificate
        One for each quantile, over the points of positive weight.
    certificate_ : Certificate
        The worst of `certificates_`.
    n_iter_ : int
        Largest number of steps of a solve.
    fit_status_ : int
        0 if all solves reached ``tol``, else 1.
    support_vectors_, n_support_, n_features_in_, feature_names_in_
        As in `SVR`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import QuantileSVR
    >>> x = np.linspace(0, 1, 200)[:, None]
    >>> y = np.sin(6 * x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=200)
    >>> band = QuantileSVR([0.1, 0.9], C=10, non_crossing=True).fit(x, y).predict(x)
    >>> band.shape, bool(0.75 <= ((band[:, 0] <= y) & (y <= band[:, 1])).mean() <= 0.85)
    ((200, 2), True)
    """

    _rules = {"C": FINITE_C_RULE, "non_crossing": Flag()}
    _kept = (*ValueMachine._kept, "non_crossing")

    quantile: float | Sequence[float]
    C: float
    non_crossing: bool

    def __init__(
        self,
        quantile: float | Sequence[float] = 0.5,
        *,
        C: float = 1.0,
        non_crossing: bool = False,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        solver: str | Solver = AUTO,
        solver_options: dict[str, Any] | None = None,
        refine: bool | str = "auto",
        tol: float = 1e-6,
        max_steps: int | None = None,
        time_limit: float | None = None,
        warm_start: bool = False,
        callback: Callable[[Progress], bool | None] | None = None,
        on_interrupt: str = "raise",
        random_state: Any = None,
        predict_dtype: str = "float64",
        n_jobs: int | None = None,
        max_iter: int = -1,
        verbose: bool = False,
        shrinking: bool = True,
        cache_size: float = 200,
    ) -> None:
        self._set_parameters(locals())

    def _checked_quantiles(self) -> NDArray:
        """Return the quantiles, shape (n_quantiles,), or raise a `ProblemError`."""
        given: Any = self.quantile
        found = [given] if np.ndim(given) == 0 else list(given)
        for one in found:
            QUANTILE_RULE.check("quantile", one)
        if not found or (np.diff(found) <= 0).any():
            raise ProblemError(f"quantile={given!r} must be a number, or numbers in ascending order")
        return np.array(found, dtype=float)

    def _check_parameters(self, *names: str) -> None:
        super()._check_parameters(*names)
        if not names:
            self._checked_quantiles()

    def _solutions(self, gram: Gram, part: Gram, values: NDArray, weight: NDArray | None) -> list[Solution]:
        quantiles = self._checked_quantiles()

        def posed(k: int) -> DualProblem:
            return problems.quantile_svr(part, values, self.C, quantile=float(quantiles[k]), sample_weight=weight)

        engine = self._engine(part, 2 * part.n, True)
        found: Any = Solving(self, posed, seeds_of(self.random_state, len(quantiles)), engine).run()
        self.quantiles_, self._is_scalar = quantiles, np.ndim(self.quantile) == 0
        return list(found)

    @by_chunks
    def predict(self, X: ArrayLike) -> NDArray:
        """Return the quantiles at new points, shape (n_new,), or (n_new, n_quantiles) if ``quantile`` is a sequence."""
        values = self._outputs(X)
        if self._as_fitted.non_crossing:
            values.sort(axis=1)
        return values[:, 0] if self._is_scalar else values

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the part by which the model reduces the pinball loss of constant quantiles, at most 1.

        It is 1 − L/L₀ (Koenker, Machado 1999, eq. 7), where L is the pinball loss on X and y, and L₀ that of the
        quantiles of y itself; the mean over the quantiles.
        """
        predicted = self.predict(X).reshape(-1, len(self.quantiles_))
        return float(
            np.mean(
                [
                    d2_pinball_score(y, predicted[:, k], alpha=float(tau), sample_weight=sample_weight)
                    for k, tau in enumerate(self.quantiles_)
                ]
            )
        )

    # --- files ---------------------------------------------------------------------------------

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = super()._pack()
        return arrays | {"quantiles": self.quantiles_}, facts | {"scalar": self._is_scalar}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        p = stored_values(arrays)
        quantiles = unpacked({"quantiles": ("f", "quantiles")}, arrays)["quantiles"]
        if type(facts["scalar"]) is not bool or not ((quantiles > 0) & (quantiles < 1)).all():
            raise ValueError("its quantiles are not those of a model")

        def posed(gram: Gram, solve_facts: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
            """Return the problem from a file, which holds its bounds, and y in the array 'p'."""
            if p.shape != (2 * gram.n,) or not np.array_equal(p[: gram.n], -p[gram.n :]):
                raise ValueError("its array 'p' is that of no quantile regression")
            return replace(problems.quantile_svr(gram, np.zeros(gram.n)), p=p, upper=column["upper"])

        self.quantiles_, self._is_scalar = quantiles, facts["scalar"]
        self._unpack_values(arrays, facts, posed, 2, len(quantiles))
