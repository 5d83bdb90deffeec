"""`ValueMachine`, the base class of the batch regressors: solutions, read as functions of X, and their file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from ..core.decision import feature_weights
from ..core.gram import Gram
from ..core.solution import Solution
from ._base import read_only_property, set_by_fit, unavailable
from ._batch import BatchMachine, iterations_of, without_round_off
from ._chunks import by_chunks, explained_variance, is_dask
from ._packing import Pose, pack_attributes, pack_solutions, unpacked
from ._validation import checked_data, rows_of_weight
from ._verify import agree, round_off, stored

#: Attributes that a file holds beside the solution: name -> (dtype kinds, names of the dimensions …).
_STORED = {
    "support_": ("i", "support"),
    "n_support_": ("i", "one"),
    "dual_coef_": ("f", "outputs", "support"),
    "intercept_": ("f", "outputs"),
}


def stored_values(arrays: Mapping[str, NDArray]) -> NDArray:
    """Return the linear term p of a file's problem, which contains the fitted y."""
    p = stored(dict(arrays), "p", "f", (None,))
    if not np.isfinite(p).all():
        raise ValueError("its array 'p' is not finite")
    return p


class ValueMachine(RegressorMixin, BatchMachine):
    """Base class of the batch regressors; each of their solutions is one output, a function of X."""

    intercept_: NDArray = set_by_fit()
    offset_: ClassVar[Any] = unavailable("intercept_")
    radius_: ClassVar[Any] = unavailable("intercept_")

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            Finite numbers; dense, or of any sparse format of scipy unless the kernel is precomputed.
        y : array of shape (n,)
            Finite numbers, in one column.
        sample_weight : array of shape (n,), optional
            Multiplies C, point by point; ν is a share of their sum. Points with a weight of 0 or less are left out.

        Returns
        -------
        The fitted estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range. If ``C=np.inf`` and no function lies within the tube, it is a
            `FitError`.
        SolverMismatch, SolverUnavailable, TypeError
            The solver cannot solve this problem, needs a package, or does not have an option.

        Warns
        -----
        ConvergenceWarning
            A solve ended above ``tol``, or its certificate is withheld because the kernel is indefinite.
        """
        with self._transaction():
            self._take_parameters()
            gram, rows, part, values, given = self._taken(X, y, sample_weight)
            self.solutions_ = self._solutions(gram, part, values, given)
            self._rows = [rows] * len(self.solutions_)
            self._read(gram, rows)
            self._publish()
        return self

    def _solutions(self, gram: Gram, part: Gram, values: NDArray, weight: NDArray | None) -> list[Solution]:
        """Return the solution of each output.

        ``gram`` is of all points, ``part``, the ``values`` to fit and ``weight`` of those with a weight above 0.
        """
        raise NotImplementedError

    def _taken(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Gram, NDArray, Any, NDArray, NDArray | None]:
        """Return the checked data of a fit.

        They are the Gram of all points, the rows with a weight above 0, and of these the Gram, y, and the weights or
        None.
        """
        points, values = checked_data(self, self._kernel_input(X), y, first=True, numeric=True)
        rows, given = rows_of_weight(sample_weight, points)
        gram = self._gram(points)
        values = values.astype(float) if given is None else values[rows].astype(float)
        return gram, rows, self._part(gram, rows), values, given

    def _read(self, gram: Gram, rows: NDArray) -> None:
        """Set the fitted attributes from the solutions, whose points are these rows of the Gram."""
        problem = self.solutions_[0].problem
        coefficients = np.array([without_round_off(solution.coefficients) for solution in self.solutions_])
        (support,) = np.nonzero(coefficients.any(axis=0))
        # A centre does not change an expansion whose weights sum to 0, except for the digits that it saves.
        self._keep_support(gram, rows[support], gram.is_translatable and problem.reading.is_translatable(problem))
        self.dual_coef_, self.n_support_ = coefficients[:, support], np.array([len(support)])
        self._keep_linear([feature_weights(one.problem, one.answer) for one in self.solutions_])
        self.intercept_ = np.array([solution.bias for solution in self.solutions_])
        self.n_iter_ = max(iterations_of(solution) for solution in self.solutions_)

    def _outputs(self, X: ArrayLike) -> NDArray:
        """Return the values of all outputs at new points, shape (n_new, n_outputs)."""
        return self._expanded(X) + (self.intercept_ + self._constants)

    @by_chunks
    def predict(self, X: ArrayLike) -> NDArray:
        """Return the predicted values of new points, shape (n_new,)."""
        return self._outputs(X)[:, 0]

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R² of the predicted values; of dask collections, which need the same chunks, by chunks."""
        if is_dask(X):
            return explained_variance(self, X, y, sample_weight)
        return float(super().score(X, y, sample_weight))

    @read_only_property
    def coef_(self) -> NDArray:
        """Weights of the features, shape (1, n_features), CSR if X was sparse; linear kernel only."""
        return self._feature_weights()

    # --- files ---------------------------------------------------------------------------------

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = pack_solutions(self.solutions_, self._rows)
        problem = self.solutions_[0].problem
        return arrays | pack_attributes(self, _STORED) | {"p": problem.p}, facts

    def _unpack_values(
        self, arrays: dict[str, NDArray], facts: dict[str, Any], posed: Pose, per: int, outputs: int = 1
    ) -> None:
        """Set the fitted state from a file, as `_unpack`, for duals with ``per`` variables a point."""
        gram, points = self._unpack_solutions(arrays, facts, posed, outputs, per=per)
        self._read(gram, np.arange(gram.n))
        self.support_ = points[self.support_]
        saved = unpacked(_STORED, arrays, one=1, outputs=outputs)
        tol_coef = 1e-9 * float(np.abs(self.dual_coef_).max(initial=0.0))
        tol_bias = 1e-9 * float(np.abs(self.intercept_).max())
        tol_bias += max(round_off(solution.problem, solution.alpha) for solution in self.solutions_)
        tolerance = {"support_": 0.0, "n_support_": 0.0, "dual_coef_": tol_coef, "intercept_": tol_bias}
        for name, array in saved.items():
            agree(name, array, getattr(self, name), tolerance[name])
            setattr(self, name, array)
        self._publish()
