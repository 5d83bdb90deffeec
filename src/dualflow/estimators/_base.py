"""What all kernel estimators share: data, parameters, attributes, changes that may fail, prediction.

What models have once they are fitted, and what some kinds of them cannot have: refused in the same words by all.

Sparse data as scikit-learn gives it: what models that were fitted on it say of themselves.

The support vectors of a model, and their kernel.

Names of points, which of a pool are asked for, and a moment in which nothing may be interrupted.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse
import sklearn
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ..core.certificate import Certificate
from ..core.gram import Gram
from ..core.kernel_cache import KeptGram
from ..core.options import Number, OneOf, Rule
from ..core.runtime.arrays import in_parts
from ..core.runtime.threads import cached_property
from ..core.solution import Solution, raw_summaries
from ..core.sparse_points import SparsePoints, is_sparse
from ..driver.solve import check_time_limit, patient
from ..exceptions import ProblemError
from ._persistence import Persistent
from ._validation import checked_data

__all__ = [
    "LEAST_S",
    "KernelMachine",
    "Support",
    "as_csr",
    "as_ids",
    "fitted",
    "frozen",
    "immutable",
    "is_same",
    "nearest",
    "new_ids",
    "read_when_asked",
    "refused",
    "set_by_fit",
    "uninterrupted",
]


def as_csr(array: Any) -> Any:
    """A dense or sparse array as CSR, of the kind that scikit-learn is set to give: matrices, or arrays."""
    wanted = sklearn.get_config().get("sparse_interface", "spmatrix")
    return scipy.sparse.csr_array(array) if wanted == "sparray" else scipy.sparse.csr_matrix(array)


def frozen(array: Any) -> Any:
    """The array, dense or CSR, which nobody can write to from now on."""
    (array if isinstance(array, np.ndarray) else array.data).flags.writeable = False
    return array


class _Fitted:
    """An attribute that is made when it is asked for, unless `fit` has set it; before, `NotFittedError`."""

    def __init__(self, make: Callable[[Any], Any] | None = None, instead: str = "") -> None:
        self.make, self.instead = make, instead
        self.__doc__ = make.__doc__ if make else None

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        if model is None:
            return self
        model._check_fitted()
        if self.make is None:
            raise AttributeError(f"{type(model).__name__} has no {self.name}{self.instead}")
        return self.make(model)


class _Immutable(_Fitted):
    """One that nobody can set, and whose arrays nobody can write to."""

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        found = super().__get__(model, owner)
        return found if model is None else frozen(found)

    def __set__(self, model: Any, value: Any) -> None:
        raise AttributeError(
            f"{type(model).__name__}.{self.name} is made of what was fitted and cannot be set: fit the model anew"
        )


# To type checkers these are what the attribute is.


def fitted(make: Callable[[Any], Any]) -> Any:
    """A property of fitted models."""
    return _Fitted(make)


def immutable(make: Callable[[Any], Any]) -> Any:
    """An array that fitted models say when asked, as it is."""
    return _Immutable(make)


def read_when_asked(name: str) -> Any:
    """An attribute that is made together with others, by ``_read_now``, when one of them is asked for."""

    def read(model: Any) -> Any:
        # In a dictionary of their own: to ask for a prediction must not give the model new attributes.
        if name not in model._reading:
            model._reading.update(model._read_now())
        return model._reading[name]

    return _Fitted(read)


def set_by_fit() -> Any:
    """An attribute that a subclass sets or makes."""
    return _Fitted()


def refused(instead: str) -> Any:
    """What this kind of model cannot have; ``instead`` says what it has."""
    return _Fitted(instead=f": see {instead}")


class Support:
    """Some points of a Gram, copied out of it when they are first asked for: who fits need not predict.

    Parameters
    ----------
    gram : Gram
    rows : int array of shape (n_SV,)
    moved : bool
        Whether their kernel is of what they are less their mean.
    """

    def __init__(self, gram: Gram, rows: NDArray, moved: bool = False) -> None:
        self._gram, self._rows, self._moved = gram, rows, moved

    @cached_property
    def gram(self) -> KeptGram:
        """Theirs."""
        if self._moved:
            return KeptGram(self._gram.subset(self._rows).centred())
        return KeptGram(self._gram).subset(self._rows)

    @cached_property
    def center(self) -> NDArray | None:
        """That of `gram`, which of dense points of several features is not made for it."""
        if "gram" in self.__dict__ or not self._moved or not self._gram.is_linear or self._gram.X.shape[1] < 2:
            return self.gram.center if "gram" in self.__dict__ or self._moved else self._gram.center
        total = np.zeros((1, self._gram.X.shape[1]))
        for part in in_parts(self._gram.X, self._rows):  # numpy adds row to row, and so do parts: the bits are the same
            total = np.add.reduce(np.concatenate((total, self._gram.X[part])), axis=0, keepdims=True)
        center: NDArray = total[0] / len(self._rows)
        return center

    def combined(self, weights: NDArray) -> NDArray:
        """Weights of shape (r, n_SV) as weights of the features, (r, n_features), of dense points less `center`."""
        known = "gram" in self.__dict__
        X, rows = (self.gram.X, slice(None)) if known else (self._gram.X, self._rows)
        found, done = np.zeros((len(weights), X.shape[1])), 0
        for part in in_parts(X, rows):
            points = X[part] if self.center is None else X[part] - self.center
            found += weights[:, done : done + len(points)] @ points
            done += len(points)
        return found

    @property
    def is_linear(self) -> bool:
        """That of `gram`."""
        return self.gram.is_linear if "gram" in self.__dict__ else self._gram.is_linear

    def __getstate__(self) -> dict[str, Any]:
        return {"gram": self.gram}  # without the other points


def as_ids(ids: ArrayLike) -> NDArray:
    """Whole numbers, shape (n,); `ProblemError` for anything else, and for one that stands there twice."""
    names = np.atleast_1d(np.asarray(ids))
    if names.ndim != 1 or (names.size and names.dtype.kind not in "iu"):
        raise ProblemError(f"ids must be whole numbers, one a point; found shape {names.shape}, dtype {names.dtype}")
    names = names.astype(np.int64)
    if len(names) > 1 and len(np.unique(names)) != len(names):
        raise ProblemError("ids holds an id twice; every point has its own")
    return names


def new_ids(ids: ArrayLike | None, n: int, next_id: int, known: NDArray | None) -> NDArray:
    """Names of n points to come: those given, none of which may be known, or the next in order of arrival."""
    if ids is None:
        return next_id + np.arange(n, dtype=np.int64)
    names = as_ids(ids)
    if len(names) != n:
        raise ProblemError(f"ids has {len(names)} entries for {n} points")
    if (names < 0).any():
        raise ProblemError(f"ids must be ≥ 0, found {names.min()}")
    if known is not None and (met := np.intersect1d(names, known)).size:
        raise ProblemError(f"ids: {met[:5].tolist()} are remembered already; forget them first, or give others")
    return names


def nearest(values: NDArray, k: int) -> NDArray:
    """Rows of the k smallest values of a pool, the smallest first."""
    Number(at_least=1, at_most=len(values), whole=True, note="(the size of the pool)").check("k", k)
    return np.argsort(values, kind="stable")[:k]


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end of the block, which must be short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *event: waiting.append(event))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            signal.raise_signal(signal.SIGINT)


#: Seconds of a limit that is over, for what then says so.
LEAST_S = 1e-9


def is_same(value: Any, other: Any) -> bool:
    """Whether two values of a parameter are the same one; arrays, which have no single answer, by identity."""
    if value is other:
        return True
    equal = value == other if type(value) is type(other) or isinstance(value, (int, float)) else False
    return isinstance(equal, (bool, np.bool_)) and bool(equal)


class _Transaction:
    """`KernelMachine._transaction`."""

    def __init__(self, model: KernelMachine) -> None:
        self.model = model

    def __enter__(self) -> None:
        self.before, self.undo = self.model.__dict__.copy(), self.model._undo()
        limit = getattr(self.model, "time_limit", None)
        if limit is not None:
            check_time_limit(limit)
            self.model._due = time.monotonic() + limit
        self.kernels = patient(limit)
        self.kernels.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        try:
            self.kernels.__exit__(kind, error, trace)
        finally:
            self._leave(kind)

    def _leave(self, kind: type[BaseException] | None) -> None:
        if kind is not None:
            with uninterrupted():
                self.undo()
                self.model.__dict__.clear()
                self.model.__dict__.update(self.before)
        self.model.__dict__.pop("_due", None)


class KernelMachine(Persistent):
    """Base class of the estimators; subclasses declare all parameters used here in their ``__init__``.

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        Which points are support vectors, by class and then ascending: rows of X after a batch `fit`, numbers of points
        in a stream, or their ids.
    support_vectors_ : array of shape (n_SV, n_features)
        Empty if the kernel is precomputed; CSR if X was sparse. Read-only.
    n_support_ : array of shape (n_classes,), or (1,) without classes
    dual_coef_ : array of shape (n_classes − 1, n_SV), or (1, n_SV) without classes
        Weights of the support vectors in the expansion, in LIBSVM's layout; CSR if X was sparse.
    solutions_, certificates_ : list of Solution, list of Certificate
        One for each pair of classes; of a stream, of the points that are remembered, and made when asked for.
    solution_ : Solution
        That of a model of one.
    certificate_ : Certificate
        The worst of `certificates_`.
    refined_ : bool
        Whether the model is that of a classical refinement.
    raw_summaries_ : tuple of str
        What circuits themselves found, and whether a refinement took its place (`Solution.raw_summary`), a line a
        solve; empty of solvers that run none.
    raw_certificate_, solver_score_ : Certificate, float
        Of the solver's own answers: the worst one, and minus its relative gap, by which a search ranks solvers.
    """

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    predict_dtype: Any

    #: What parameters may be, each said by the class that adds it; the kernel's are checked by `Gram`, a run's limits
    #: by the driver.
    _rules: ClassVar[dict[str, Rule]] = {"predict_dtype": OneOf(words=("float64", "float32"))}
    #: The parameters that a fitted model is read with, whatever they are set to after `fit`.
    _kept: ClassVar[tuple[str, ...]] = ("kernel", "gamma", "degree", "coef0")
    #: The attribute that makes a model a fitted one.
    _fitted_by: ClassVar[str] = "solutions_"
    #: Whether X may be sparse.
    _takes_sparse: ClassVar[bool] = False
    #: Whether that of the fit was.
    _sparse: bool = False
    #: When the fit under way must be over, by `time.monotonic`.
    _due: float | None = None

    support_: NDArray = set_by_fit()
    n_support_: NDArray = set_by_fit()
    dual_coef_: NDArray = set_by_fit()
    solutions_: list[Solution] = set_by_fit()
    _vectors: Any  # `Support`, or None
    #: The training points of each solve, ascending.
    _rows: Sequence[NDArray]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._rules = {k: rule for base in reversed(cls.__mro__) for k, rule in vars(base).get("_rules", {}).items()}

    def _take_parameters(self) -> None:
        """Check the parameters, and keep those of this fit, or of this call in a stream."""
        self._check_parameters()
        self._keep_parameters()

    def _keep_parameters(self) -> None:
        """Keep the parameters of now for all that reads the fitted model."""
        kept = {name: getattr(self, name) for name in self._kept}
        if hasattr(kept["kernel"], "set_params"):  # an object that `set_params` changes where it is
            kept["kernel"] = clone(kept["kernel"])
        self._parameters_kept = SimpleNamespace(**kept)

    @property
    def _as_fitted(self) -> Any:
        """The parameters as they were when the model was fitted; those of now before a fit."""
        return self.__dict__.get("_parameters_kept", self)

    def _changed(self) -> dict[str, Any]:
        """The parameters among those kept that were set to other values since."""
        now = {name: getattr(self, name) for name in self._kept}
        return {name: value for name, value in now.items() if not is_same(value, getattr(self._as_fitted, name))}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.sparse = self._takes_sparse and not tags.input_tags.pairwise
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted_by in self.__dict__

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)  # which is slow, and words the error

    # --- what came of it -----------------------------------------------------------------------

    @fitted
    def certificates_(self) -> list[Certificate]:
        """How far from the optimum the model is, for each pair of classes."""
        return [solution.certificate for solution in self.solutions_]

    @fitted
    def solution_(self) -> Solution:
        """The `Solution` of a model that is one; more than two classes have `solutions_`, one a pair."""
        if len(found := self.solutions_) != 1:
            of = "one a pair of classes: see solutions_" if found else "of no points"
            raise AttributeError(f"{type(self).__name__} has no solution_ but {len(found)}, {of}")
        return found[0]

    @fitted
    def certificate_(self) -> Certificate:
        """How far from the optimum the model is: the certificate of `solution_`, or of the pair that is farthest. One
        that is withheld counts as farthest."""
        if not (found := self.certificates_):
            raise AttributeError(f"{type(self).__name__} has no certificate_ but 0, of no points")
        return max(found, key=lambda one: np.inf if one.relative_gap is None else one.relative_gap)

    @fitted
    def refined_(self) -> bool:
        """Whether the model is that of a classical refinement, and not of its solver's own answer."""
        return any(solution.refined for solution in self.solutions_)

    @fitted
    def raw_summaries_(self) -> tuple[str, ...]:
        """What circuits themselves found, and whether a refinement took its place; none of solvers that run none."""
        return raw_summaries(self.solutions_)

    @fitted
    def raw_certificate_(self) -> Certificate:
        """The worst certificate of the solver's own answers; `certificate_` where nothing was refined."""
        found = [solution.raw_certificate for solution in self.solutions_]
        return max(found, key=lambda one: np.inf if one.relative_gap is None else one.relative_gap)

    @fitted
    def solver_score_(self) -> float:
        """What the solver itself found, for searches that rank solvers: −`raw_certificate_`.relative_gap, at most 0."""
        gap = self.raw_certificate_.relative_gap
        return -np.inf if gap is None else -float(gap)

    # --- changes -------------------------------------------------------------------------------

    def _check_parameters(self, *names: str) -> None:
        """Hold parameters (all if none is named) against their rules."""
        for name in names or self._rules:
            self._rules[name].check(name, getattr(self, name))

    def _undo(self) -> Callable[[], None]:
        """What puts back the parts of a model that are changed where they are."""
        return lambda: None

    def _transaction(self) -> _Transaction:
        """Whatever is raised within (Ctrl-C included), the model is afterwards what it was before; the model's time
        limit, if it has one, begins here."""
        return _Transaction(self)

    def _time_left(self) -> float | None:
        """Seconds of ``time_limit`` that a fit under way has left, and all of them for what is asked later; None where
        there is no limit."""
        limit: float | None = getattr(self, "time_limit", None)
        return limit if limit is None or self._due is None else max(self._due - time.monotonic(), LEAST_S)

    # --- prediction ----------------------------------------------------------------------------

    def _keep_support(self, gram: Gram, support: NDArray, moved: bool = False) -> Support | None:
        """Set what prediction needs: the support vectors, and their kernel with its fitted parameters. They, less their
        mean, if that is where they are to be ``moved``."""
        self.support_, self._sparse, self._vectors = support, gram.came_sparse, None
        for name in ("support_vectors_", "_support_gram"):
            self.__dict__.pop(name, None)
        if there := gram.kernel != "precomputed" and len(support) > 0:
            self._vectors = Support(gram, support, moved)
        if not there:
            nothing = np.empty((0, 0 if gram.kernel == "precomputed" else gram.X.shape[1]))
            self.support_vectors_ = as_csr(nothing) if self._sparse else nothing
        return self._vectors if moved else None

    @fitted
    def support_vectors_(self) -> NDArray:
        """The support vectors, shape (n_SV, n_features), which nobody can write to."""
        points = self._vectors.gram.X
        if self._sparse:
            return as_csr(points.tocsr() if isinstance(points, SparsePoints) else points)
        return points.view()

    @fitted
    def _support_gram(self) -> KeptGram | None:
        """The kernel matrix of the support vectors; None if there are none, or the kernel is precomputed."""
        return None if self._vectors is None else self._vectors.gram

    def _check_new_data(self, X: ArrayLike) -> Any:
        """Validated X of shape (n_new, n_features_in_), an array or CSR."""
        self._check_fitted()
        return checked_data(self, X, first=False)[0]

    @property
    def _weights(self) -> NDArray:
        """Weights of the support vectors in the model's expansions, shape (n_SV, r)."""
        weights: Any = self.dual_coef_
        return (weights.toarray() if is_sparse(weights) else weights).T

    def _of_features(self, weights: NDArray, gram: KeptGram | None) -> Any:
        """Weights (r, n_SV) of support vectors as weights of the features, (r, n_features), less the centre that a
        Gram has: coefficients that sum to 0 do not see it, but for the digits it saves. CSR if X was sparse."""
        points: Any = self.support_vectors_
        if self._sparse:
            points = SparsePoints.of(points)
        found = weights @ (points if gram is None or gram.center is None else points - gram.center)
        return as_csr(found) if self._sparse else found

    def _expansion(self, X: Any, beside: NDArray | None = None) -> NDArray:
        """What the model's expansions are at new points, without intercept: shape (n_new, r); ``beside``, as of
        `_expand`."""
        return self._expand(X, self._weights, beside)

    def _expanded(self, X: ArrayLike) -> NDArray:
        """`_expansion` of data to be checked."""
        points = self._check_new_data(X)
        return self._finite(self._expansion(points))

    def _finite(self, values: NDArray) -> NDArray:
        if not np.isfinite(values).all():
            raise ProblemError(f"X: kernel={self._as_fitted.kernel!r} overflows float64 on it; scale the features")
        return values

    def _expand(self, X: Any, weights: NDArray, beside: NDArray | None = None) -> NDArray:
        """Σⱼ weights[j, :] k(x, support vector j) for validated X: shape (n_new, r); memory stays bounded. Who will add
        something to each row's says so, shape (n_new,): float32 is to be sharp enough for the whole."""
        self._check_parameters("predict_dtype")
        if not len(self.support_):
            return np.zeros((X.shape[0], weights.shape[1]))
        if self._support_gram is None:
            values: NDArray = X[:, self.support_] @ weights
            return values
        with np.errstate(over="ignore", invalid="ignore"):
            return self._support_gram.expand(
                X, np.arange(len(self.support_)), weights, np.dtype(self.predict_dtype).type, beside
            )
