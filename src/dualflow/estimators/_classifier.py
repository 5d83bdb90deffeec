"""`PairClassifier`, the base class of the classifiers: one model a pair of classes, joint support vectors, votes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function

from ..core.options import OneOf
from ..core.runtime.arrays import packed, unpacked
from ..exceptions import ProblemError
from ._base import KernelMachine, as_csr, read_only_property, set_by_fit, unavailable
from ._chunks import accuracy, by_chunks, is_dask
from ._validation import winners

#: Numbers, classes and coefficients of the support vectors of one pair of classes.
PairSupport = tuple[NDArray, NDArray, NDArray]


@cache
def class_pairs(classes: int) -> tuple[tuple[int, int], ...]:
    """Return the pairs of classes (0, 1), (0, 2), …, in the order of solutions and votes."""
    return tuple(combinations(range(classes), 2))


def constants_of(classes: int, present: NDArray) -> NDArray:
    """Return the constant decision value of each pair with a class that has no points of positive weight.

    Shape (n_pairs,). It is the optimum over the other class alone (w = 0, no loss): +1 where only the first class of
    the pair is ``present``, −1 where only the second is, else 0. A class that is present thus gets a vote from each
    absent class, and always has more votes than these.
    """
    is_present = np.zeros(classes)
    is_present[present] = 1.0
    first, second = np.array(class_pairs(classes)).T
    constants: NDArray = is_present[first] - is_present[second]
    return constants


class Joint(NamedTuple):
    """Support vectors of all pairs together, by class and then by number.

    Attributes
    ----------
    support : int array of shape (n_SV,)
        Their numbers.
    first : int array of shape (n_SV,)
        The position of each in the concatenated parts, where it occurs first.
    pair_coef : array of shape (n_SV, n_pairs)
        Coefficients in each pair.
    dual_coef : array of shape (n_classes − 1, n_SV)
        The same coefficients in LIBSVM's layout.
    n_support : int array of shape (n_classes,)
        Number of support vectors of each class.
    """

    support: NDArray
    first: NDArray
    pair_coef: NDArray
    dual_coef: NDArray
    n_support: NDArray


def join_support(classes: int, parts: Sequence[PairSupport], columns: Sequence[int] | None = None) -> Joint:
    """Return the support vectors of all pairs together; ``columns`` gives the pair of each part if some are missing."""
    numbers, codes, values = (np.concatenate([part[k] for part in parts]) for k in range(3))
    pair = np.repeat(np.arange(len(parts)) if columns is None else columns, [len(part[0]) for part in parts])
    if len(parts) == 1:  # the general case sorts, which takes as long as learning a point
        support, first = numbers, np.arange(len(numbers))
        place = first
    else:
        support, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    order = np.lexsort((support, codes[first]))
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    coefficients = libsvm_layout(classes, len(support), rank[place], codes, values, pair)
    return Joint(support[order], first[order], *coefficients, np.bincount(codes[first], minlength=classes))


def libsvm_layout(
    classes: int, count: int, place: NDArray, codes: NDArray, values: NDArray, pair: NDArray
) -> tuple[NDArray, NDArray]:
    """Return coefficients as (n_SV, n_pairs) and in LIBSVM's layout, for ``count`` support vectors.

    Entry k of ``place``, ``codes``, ``values`` and ``pair`` gives a coefficient's support vector, the class of that,
    the coefficient's value, and its pair.
    """
    pairs = np.array(class_pairs(classes))
    pair_coef, dual_coef = np.zeros((count, len(pairs))), np.zeros((classes - 1, count))
    pair_coef[place, pair] = values
    first, second = pairs[pair].T
    dual_coef[np.where(codes == first, second - 1, first), place] = values
    return pair_coef, dual_coef


class PairClassifier(ClassifierMixin, KernelMachine):
    """Base class of the classifiers, which solve one problem a pair of classes.

    With two classes y = +1 is ``classes_[1]``. With more, the pair (i, j) has y = +1 for class i, as in LIBSVM.
    """

    _rules = {"decision_function_shape": OneOf(words=("ovr", "ovo"))}

    decision_function_shape: Any
    break_ties: Any = False

    classes_: NDArray = set_by_fit()
    intercept_: NDArray = set_by_fit()
    #: Indices of the classes that have points of positive weight, whose pairs are solved; None where all have.
    _present: NDArray | None = None
    #: Coefficients of the support vectors, shape (n_SV, n_pairs).
    _pair_coef: NDArray
    offset_: ClassVar[Any] = unavailable("intercept_")
    #: Constants that the centre of the support vectors' kernel subtracts from the pairs' values; predictions add them.
    _constants: NDArray | float = 0.0
    radius_: ClassVar[Any] = unavailable("intercept_")
    predict_proba: ClassVar[Any] = unavailable(
        "sklearn.calibration.CalibratedClassifierCV, which takes decision values"
    )

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if "_pair_coef" not in state:
            return state
        values, dual_coef = self._pair_coef, self.dual_coef_  # with one pair they are equal
        is_equal = isinstance(dual_coef, np.ndarray) and np.array_equal(values, dual_coef.T)
        return state | {"_pair_coef": None if is_equal else packed(values)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_pair_coef" in state:
            stored = state["_pair_coef"]
            self._pair_coef = self.dual_coef_.T.copy() if stored is None else unpacked(stored)

    @property
    def _pairs(self) -> tuple[tuple[int, int], ...]:
        return class_pairs(len(self.classes_))

    def _sides(self, k: int) -> tuple[int, int]:
        """Return the classes of y = +1 and y = −1 of the k-th solved pair."""
        present = range(len(self.classes_)) if self._present is None else self._present.tolist()
        i, j = (present[code] for code in class_pairs(len(present))[k])
        return (j, i) if len(present) == 2 else (i, j)

    def _columns(self) -> NDArray:
        """Return the indices of the solved pairs among all pairs."""
        if self._present is None:
            return np.arange(len(self._pairs))
        present = np.isin(np.array(self._pairs), self._present)
        return np.flatnonzero(present.all(axis=1))

    @property
    def _weights(self) -> NDArray:
        return self._pair_coef

    def _pair_values(self, X: ArrayLike) -> NDArray:
        """Return the decision values of all pairs, shape (n_new, n_pairs)."""
        self._check_parameters("decision_function_shape")
        return self._expanded(X) + (self.intercept_ + self._constants)

    def _values_of_part(self, X: ArrayLike, k: int) -> NDArray:
        """Return the decision values of points for pair k, shape (n_new,)."""
        values: NDArray = self._pair_values(X)[:, k]
        return values

    @by_chunks
    def decision_function(self, X: ArrayLike) -> NDArray:
        """Return the decision values of new points.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed
            New points; sparse X is accepted where `fit` accepts it.

        Returns
        -------
        array
            With two classes, shape (n_new,): positive for ``classes_[1]``. With more, "ovo" gives shape
            (n_new, n_pairs), positive for the first class of the pair; "ovr" gives shape (n_new, n_classes), the votes
            plus a monotone transform of the summed decision values into (−1/3, 1/3), as in scikit-learn.
        """
        values = self._pair_values(X)
        if len(self.classes_) == 2:
            return values[:, 0]
        if self.decision_function_shape == "ovo":
            return values
        return _ovr_decision_function(values < 0, -values, len(self.classes_))

    @by_chunks
    def predict(self, X: ArrayLike) -> NDArray:
        """Return the labels of new points, shape (n_new,): by the sign with two classes, by pairs' votes with more."""
        if self.break_ties and self.decision_function_shape == "ovo":  # as in scikit-learn, `fit` does not check this
            self._check_fitted()
            raise ProblemError("break_ties must be False when decision_function_shape is 'ovo'; or set that to 'ovr'")
        values = self._pair_values(X)
        return self.classes_[winners(values, len(self.classes_), self.break_ties)]

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the weighted share of correct labels; of dask collections, which need the same chunks, by chunks."""
        if is_dask(X):
            return accuracy(self, X, y, sample_weight)
        return float(super().score(X, y, sample_weight))

    @read_only_property
    def coef_(self) -> NDArray:
        """Weights of the features, shape (n_pairs, n_features), CSR if X was sparse; linear kernel only."""
        if self._as_fitted.kernel != "linear":
            raise AttributeError(f"coef_ exists with kernel='linear' only; kernel is {self._as_fitted.kernel!r}")
        if (linear := getattr(self, "_linear", None)) is not None:
            return as_csr(linear) if self._sparse else linear
        return self._of_features(self._pair_coef.T, getattr(self, "_support_gram", None))
