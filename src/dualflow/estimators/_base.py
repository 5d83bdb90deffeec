"""`KernelMachine`, the base class of all kernel estimators, and its helpers.

The base class checks data and parameters, keeps the parameters that a fitted model is read with, restores the model
where a call fails, and evaluates kernel expansions at new points. The helpers are descriptors for fitted attributes
(`fitted`, `immutable`, `read_lazily`, `unavailable`), `Support` (the support vectors and their kernel), conversion to
scipy's CSR, and a context that defers Ctrl-C.
"""

from __future__ import annotations

import contextlib
import inspect
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar, Self

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
from ..core.runtime.arrays import in_parts, packed, unpacked
from ..core.runtime.threads import cached_property
from ..core.solution import Solution, raw_summaries
from ..core.sparse_points import SparsePoints, is_sparse
from ..driver.solve import check_time_limit, limit_kernel_wait
from ..exceptions import ProblemError, did_you_mean
from ._persistence import Persistent
from ._validation import checked_data


def as_csr(array: Any) -> Any:
    """Return a dense or sparse array as CSR: a matrix or an array, as scikit-learn's configuration says."""
    interface = sklearn.get_config().get("sparse_interface", "spmatrix")
    form = scipy.sparse.csr_array if interface == "sparray" else scipy.sparse.csr_matrix
    if isinstance(array, np.ndarray) and len(array) == 1:  # a conversion by way of COO takes a tenth of a small fit
        (places,) = array[0].nonzero()
        row = form((array[0][places], places.astype(np.int32), np.array([0, len(places)], np.int32)), shape=array.shape)
        row.has_canonical_format = True
        return row
    return form(array)


def frozen(array: Any) -> Any:
    """Make the array, dense or CSR, read-only, and return it."""
    (array if isinstance(array, np.ndarray) else array.data).flags.writeable = False
    return array


class _Fitted:
    """An attribute that is computed on access, unless `fit` has set it; before a fit it raises `NotFittedError`."""

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


class _ReadOnly(_Fitted):
    """A fitted attribute that cannot be set, and whose array is read-only."""

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        found = super().__get__(model, owner)
        return found if model is None else frozen(found)

    def __set__(self, model: Any, value: Any) -> None:
        raise AttributeError(
            f"{type(model).__name__}.{self.name} is computed from the fitted model and cannot be set: fit it again"
        )


# The functions below return Any, so that type checkers see the type with which a class annotates the attribute.


def fitted(make: Callable[[Any], Any]) -> Any:
    """Return a property that only fitted models have."""
    return _Fitted(make)


def read_only_property(make: Callable[[Any], Any]) -> Any:
    """Return a property of fitted models whose value is a read-only array and which cannot be set."""
    return _ReadOnly(make)


def read_lazily(name: str) -> Any:
    """Return an attribute that ``_read_now`` computes, with all others like it, when one of them is first accessed."""

    def read(model: Any) -> Any:
        # The values live in one dictionary, because a prediction must not add attributes to the model.
        if name not in model._reading:
            model._reading.update(model._read_now())
        return model._reading[name]

    return _Fitted(read)


def set_by_fit() -> Any:
    """Return a fitted attribute that a subclass sets or computes."""
    return _Fitted()


def unavailable(instead: str) -> Any:
    """Return an attribute that this class of models lacks; its error names ``instead``, the attribute to use."""
    return _Fitted(instead=f": see {instead}")


class Support:
    """The support vectors of a model, and their kernel. They are copied from the training data on first use.

    Parameters
    ----------
    gram : Gram
        The kernel matrix of the training points.
    rows : int array of shape (n_SV,)
        Which of these are support vectors.
    moved : bool
        Whether the kernel takes the support vectors less their mean.
    """

    def __init__(self, gram: Gram, rows: NDArray, moved: bool = False) -> None:
        self._gram, self._rows, self._moved = gram, rows, moved
        self._sparse_weights: dict[str, scipy.sparse.csr_array] = {}

    @cached_property
    def gram(self) -> KeptGram:
        """The kernel matrix of the support vectors."""
        if self._moved:
            return KeptGram(self._gram.subset(self._rows).centred())
        return KeptGram(self._gram).subset(self._rows)

    @cached_property
    def center(self) -> NDArray | None:
        """The centre that `gram` subtracts; for dense points of several features it is computed without `gram`."""
        if "gram" in self.__dict__ or not self._moved:
            return self.gram.center if "gram" in self.__dict__ else self._gram.center
        if not self._gram.is_linear or isinstance(self._gram.X, SparsePoints) or self._gram.X.shape[1] < 2:
            return self.gram.center
        total = np.zeros((1, self._gram.X.shape[1]))
        for part in in_parts(self._gram.X, self._rows):  # numpy adds row by row, so parts give the same bits
            total = np.add.reduce(np.concatenate((total, self._gram.X[part])), axis=0, keepdims=True)
        center: NDArray = total[0] / len(self._rows)
        return center

    def combined(self, weights: NDArray) -> NDArray:
        """Return ``weights @ (support vectors − center)`` for dense points: (r, n_SV) becomes (r, n_features)."""
        is_copied = "gram" in self.__dict__
        X, rows = (self.gram.X, slice(None)) if is_copied else (self._gram.X, self._rows)
        found, done = np.zeros((len(weights), X.shape[1])), 0
        for part in in_parts(X, rows):
            points = X[part] if self.center is None else X[part] - self.center
            found += weights[:, done : done + len(points)] @ points
            done += len(points)
        return found

    def sparse_weights(self, weights: NDArray) -> scipy.sparse.csr_array:
        """Return ``weights.T @ (support vectors − center)`` for sparse points: (n_SV, r) becomes (n_features, r).

        It is computed once: the weights of a fitted model do not change.
        """
        if "found" not in self._sparse_weights:
            points = self.gram.X if self.gram.center is None else self.gram.X - self.gram.center
            rows = points.tocsr() if isinstance(points, SparsePoints) else scipy.sparse.csr_array(points)
            self._sparse_weights["found"] = (scipy.sparse.csr_array(weights.T) @ rows).T.tocsr()
        return self._sparse_weights["found"]

    def feature_weights(self, weights: NDArray, given: Sequence[NDArray | None], is_sparse: bool) -> NDArray:
        """Return the ``given`` weights of the features, shape (r, n_features), and for None those of support vectors.

        ``weights``, shape (n_SV, r), are the weights of these. The result is computed once, and read-only.
        """
        if "_linear" not in self.__dict__:
            if any(w is None for w in given):
                found = self.sparse_weights(weights).toarray().T if is_sparse else self.combined(weights.T)
                given = [found[k] if w is None else w for k, w in enumerate(given)]
            self.__dict__.setdefault("_linear", frozen(np.array(given, dtype=float)))
        linear: NDArray = self.__dict__["_linear"]
        return linear

    @property
    def is_linear(self) -> bool:
        """Whether the kernel is linear."""
        return self._gram.is_linear

    @property
    def is_translatable(self) -> bool:
        """Whether a centre of the support vectors changes expansions by constants alone."""
        return (self.gram if "gram" in self.__dict__ else self._gram).is_translatable

    def __getstate__(self) -> dict[str, Any]:
        return {"gram": self.gram, "_sparse_weights": {}}  # the support vectors alone


def nearest(values: NDArray, k: int) -> NDArray:
    """Return the indices of the k smallest values, the smallest first."""
    Number(at_least=1, at_most=len(values), whole=True, note="(the size of the pool)").check("k", k)
    return np.argsort(values, kind="stable")[:k]


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer Ctrl-C until the end of the block, which must be short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    deferred: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *event: deferred.append(event))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if deferred:
            signal.raise_signal(signal.SIGINT)


#: Seconds reported as left when a time limit is over; above 0, because the driver refuses a limit of 0.
MIN_TIME_LEFT_S = 1e-9


def is_same(value: Any, other: Any) -> bool:
    """Whether two values of a parameter are equal. Arrays, whose ``==`` is not one bool, are compared by identity."""
    if value is other:
        return True
    equal = value == other if type(value) is type(other) or isinstance(value, (int, float)) else False
    return isinstance(equal, (bool, np.bool_)) and bool(equal)


#: Attributes made read-only by a fit: predictions also use derived arrays, which an edit of these would not change.
_CERTIFIED = ("support_", "n_support_", "dual_coef_", "intercept_")


class _Transaction:
    """The context manager that `KernelMachine._transaction` returns."""

    def __init__(self, model: KernelMachine) -> None:
        self.model, self.is_committed = model, False

    @contextlib.contextmanager
    def committing(self) -> Iterator[None]:
        """Defer Ctrl-C until the end of the block, whose changes cannot be undone: the model then stays the new one."""
        with uninterrupted():
            self.is_committed = True
            yield

    def __enter__(self) -> None:
        self.before, self.undo = self.model.__dict__.copy(), self.model._undo()
        self.model._open = self
        limit = getattr(self.model, "time_limit", None)
        if limit is not None:
            check_time_limit(limit)
            self.model._due = time.monotonic() + limit
        self.kernels = None if limit is None else limit_kernel_wait(limit)
        if self.kernels is not None:
            self.kernels.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: Any, trace: Any) -> None:
        try:
            if self.kernels is not None:
                self.kernels.__exit__(kind, error, trace)
        finally:
            self._leave(kind)

    def _leave(self, kind: type[BaseException] | None) -> None:
        """Restore the model after an error before the commit, and end its time limit."""
        if kind is not None and not self.is_committed:
            with uninterrupted():
                self.undo()
                self.model.__dict__.clear()
                self.model.__dict__.update(self.before)
        for name in ("_due", "_open"):
            self.model.__dict__.pop(name, None)


@cache
def _parameter_names(init: Callable[..., None]) -> frozenset[str]:
    """Return the names that a constructor takes as keywords; nothing if it takes all."""
    found = inspect.signature(init).parameters.values()
    return frozenset() if any(p.kind is p.VAR_KEYWORD for p in found) else frozenset(p.name for p in found)


class KernelMachine(Persistent):
    """Base class of all kernel estimators; subclasses declare the parameters used here in their ``__init__``.

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        The support vectors, by class and then ascending: rows of X after a batch `fit`, else numbers or ids of points
        of a stream.
    support_vectors_ : array of shape (n_SV, n_features)
        Empty if the kernel is precomputed; CSR if X was sparse. Read-only.
    n_support_ : array of shape (n_classes,), or (1,) without classes
        Number of support vectors of each class.
    dual_coef_ : array of shape (n_classes − 1, n_SV), or (1, n_SV) without classes
        Weights of the support vectors in the expansion, in LIBSVM's layout; CSR if X was sparse.
    solutions_, certificates_ : list of Solution, list of Certificate
        One for each pair of classes. A stream makes them on access, from the points it remembers.
    solution_ : Solution
        The only one of `solutions_`, of a model without pairs of classes or with one pair.
    certificate_ : Certificate
        The worst of `certificates_`.
    refined_ : bool
        Whether the model is the answer of a classical refinement.
    raw_summaries_ : tuple of str
        What circuits found, and whether a refinement replaced it (`Solution.raw_summary`), one line a solve; empty for
        solvers without circuits.
    raw_certificate_ : Certificate
        The worst certificate of the solver's own answers, before refinement.
    solver_score_ : float
        Minus the relative gap of `raw_certificate_`, by which a search ranks solvers.
    """

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    predict_dtype: Any

    #: Rules of the parameters; each class adds those of its own parameters. `Gram` checks the kernel's parameters, the
    #: driver the limits of a run.
    _rules: ClassVar[dict[str, Rule]] = {"predict_dtype": OneOf(words=("float64", "float32"))}
    #: The defaults of the parameters, by name.
    _defaults: ClassVar[dict[str, Any]] = {}
    #: The parameters whose values at the fit a fitted model keeps using.
    _kept: ClassVar[tuple[str, ...]] = ("kernel", "gamma", "degree", "coef0")
    #: The attribute whose presence makes a model a fitted one.
    _fitted_by: ClassVar[str] = "solutions_"
    #: Whether the class accepts sparse X.
    _takes_sparse: ClassVar[bool] = False
    #: Whether X of the fit was sparse.
    _sparse: bool = False
    #: The time at which the current fit must end, on the clock of `time.monotonic`.
    _due: float | None = None
    #: The transaction that is under way.
    _open: _Transaction

    support_: NDArray = set_by_fit()
    n_support_: NDArray = set_by_fit()
    dual_coef_: NDArray = set_by_fit()
    solutions_: list[Solution] = set_by_fit()
    #: The `Support`, or None without support vectors or with a precomputed kernel.
    _vectors: Any
    #: The training points of each solve, ascending.
    _rows: Sequence[NDArray]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        known = _parameter_names(cls.__init__)
        if known and (unknown := kwargs.keys() - known):
            name = min(unknown)
            way = did_you_mean(name, sorted(known))
            if "solver_options" in known and not way:
                way = f"; an option of the solver is given by solver_options={{{name!r}: {kwargs[name]!r}}}"
            raise TypeError(f"{cls.__name__} has no parameter {name!r}{way}")
        return super().__new__(cls)

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if inspect.isfunction(init := cls.__init__):
            names, values = init.__code__.co_varnames[: init.__code__.co_argcount], init.__defaults__ or ()
            cls._defaults = dict(zip(reversed(names), reversed(values), strict=False)) | (init.__kwdefaults__ or {})
            signature = inspect.signature(init)  # documentation tools would show that of `__new__`
            cls.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
        cls._rules = {k: rule for base in reversed(cls.__mro__) for k, rule in vars(base).get("_rules", {}).items()}

    def _set_parameters(self, given: dict[str, Any]) -> None:
        """Set the parameters; ``given`` is the `locals()` of a constructor that does nothing else."""
        self.__dict__.update(given)
        del self.__dict__["self"]

    def _take_parameters(self) -> None:
        """Check the parameters, and keep their values for the model of this fit or call."""
        self._check_parameters()
        self._keep_parameters()

    def _keep_parameters(self) -> None:
        """Copy the current values of the parameters in ``_kept``, which the fitted model uses from now on."""
        kept = {name: getattr(self, name) for name in self._kept}
        if hasattr(kept["kernel"], "set_params"):  # `set_params` would change the kernel object in place
            kept["kernel"] = clone(kept["kernel"])
        self._parameters_kept = SimpleNamespace(**kept)

    @property
    def _as_fitted(self) -> Any:
        """The parameters as they were when the model was fitted; before a fit, the current ones."""
        return self.__dict__.get("_parameters_kept", self)

    def _changed(self) -> dict[str, Any]:
        """Return the parameters in ``_kept`` that were set to another value after the fit."""
        now = {name: getattr(self, name) for name in self._kept}
        return {name: value for name, value in now.items() if not is_same(value, getattr(self._as_fitted, name))}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        tags.input_tags.sparse = self._takes_sparse and not tags.input_tags.pairwise
        return tags

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())  # a copy: it may be the model's own dictionary
        support, dual_coef = state.get("support_"), state.get("dual_coef_")
        if isinstance(support, np.ndarray) and support.size:
            state["support_"] = support.astype(np.min_scalar_type(support.max()))
        if isinstance(dual_coef, np.ndarray) and dual_coef.flags.c_contiguous:
            state["dual_coef_"] = packed(dual_coef)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if isinstance(state.get("support_"), np.ndarray):
            state = state | {"support_": state["support_"].astype(np.intp)}
        if isinstance(state.get("dual_coef_"), tuple):
            state = state | {"dual_coef_": unpacked(state["dual_coef_"])}
        super().__setstate__(state)

    def _freeze(self) -> None:
        """Make the certified attributes read-only."""
        for name in _CERTIFIED:
            if (array := self.__dict__.get(name)) is not None:
                frozen(array)

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted_by in self.__dict__

    def _check_fitted(self) -> None:
        """Raise `NotFittedError` before a fit."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)  # slow, but it raises scikit-learn's error

    # --- solutions and certificates ------------------------------------------------------------

    @fitted
    def certificates_(self) -> list[Certificate]:
        """The certificate of each pair of classes: how far from the optimum its solution is."""
        return [solution.certificate for solution in self.solutions_]

    @fitted
    def solution_(self) -> Solution:
        """The `Solution` of a model of one solve; with more than two classes, see `solutions_`."""
        if len(found := self.solutions_) != 1:
            reason = "one a pair of classes: see solutions_" if found else "of no points"
            raise AttributeError(f"{type(self).__name__} has no solution_ but {len(found)}, {reason}")
        return found[0]

    @fitted
    def certificate_(self) -> Certificate:
        """The worst certificate: how far from the optimum the model is. A withheld certificate counts as the worst."""
        if not (found := self.certificates_):
            raise AttributeError(f"{type(self).__name__} has no certificate_ but 0, of no points")
        return max(found, key=lambda one: np.inf if one.relative_gap is None else one.relative_gap)

    @fitted
    def refined_(self) -> bool:
        """Whether the model is the answer of a classical refinement, instead of the solver's own."""
        return any(solution.refined for solution in self.solutions_)

    @fitted
    def raw_summaries_(self) -> tuple[str, ...]:
        """What circuits found, and whether a refinement replaced it, one line a solve; empty without circuits."""
        return raw_summaries(self.solutions_)

    @fitted
    def raw_certificate_(self) -> Certificate:
        """The worst certificate of the solver's own answers; equal to `certificate_` where nothing was refined."""
        found = [solution.raw_certificate for solution in self.solutions_]
        return max(found, key=lambda one: np.inf if one.relative_gap is None else one.relative_gap)

    @fitted
    def solver_score_(self) -> float:
        """A score by which a search ranks solvers: −`raw_certificate_`.relative_gap, at most 0."""
        gap = self.raw_certificate_.relative_gap
        return -np.inf if gap is None else -float(gap)

    # --- changes -------------------------------------------------------------------------------

    def _check_parameters(self, *names: str) -> None:
        """Check the named parameters, or all, against their rules; defaults meet them."""
        for name in names or self._rules:
            if (value := getattr(self, name)) is not self._defaults.get(name, self):
                self._rules[name].check(name, value)

    def _undo(self) -> Callable[[], None]:
        """Return a function that restores the state which a call changes in place."""
        return lambda: None

    def _transaction(self) -> _Transaction:
        """Return a context that restores the model if anything is raised in it (Ctrl-C included).

        The model's time limit, if it has one, starts when the context is entered.
        """
        return _Transaction(self)

    def _time_left(self) -> float | None:
        """Return the seconds left of ``time_limit``: the rest during a fit, all of it later, None without a limit."""
        limit: float | None = getattr(self, "time_limit", None)
        return limit if limit is None or self._due is None else max(self._due - time.monotonic(), MIN_TIME_LEFT_S)

    # --- prediction ----------------------------------------------------------------------------

    def _keep_support(self, gram: Gram, support: NDArray, moved: bool = False) -> None:
        """Set the support vectors and their kernel, which prediction needs: ``moved``, less their mean, or as given."""
        self.support_, self._sparse, self._vectors = support, gram.came_sparse, None
        for name in ("support_vectors_", "_support_gram"):
            self.__dict__.pop(name, None)
        if has_vectors := gram.kernel != "precomputed" and len(support) > 0:
            self._vectors = Support(gram, support, moved)
        if not has_vectors:
            empty = np.empty((0, 0 if gram.kernel == "precomputed" else gram.X.shape[1]))
            self.support_vectors_ = as_csr(empty) if self._sparse else empty

    @fitted
    def support_vectors_(self) -> NDArray:
        """The support vectors, shape (n_SV, n_features), read-only."""
        points = self._vectors.gram.X
        if self._sparse:
            return as_csr(points.tocsr() if isinstance(points, SparsePoints) else points)
        return points.view()

    @fitted
    def _support_gram(self) -> KeptGram | None:
        """The kernel matrix of the support vectors; None if there are none, or the kernel is precomputed."""
        return None if self._vectors is None else self._vectors.gram

    def _check_new_data(self, X: ArrayLike) -> Any:
        """Return X validated, of shape (n_new, n_features_in_), as an array or CSR."""
        self._check_fitted()
        return checked_data(self, X, first=False, least=0)[0]  # a chunk or a group may have no rows

    @property
    def _weights(self) -> NDArray:
        """Weights of the support vectors in the model's expansions, shape (n_SV, r)."""
        weights: Any = self.dual_coef_
        return (weights.toarray() if is_sparse(weights) else weights).T

    def _of_features(self, weights: NDArray, gram: KeptGram | None) -> Any:
        """Return ``weights @ support vectors``: shape (r, n_SV) becomes (r, n_features); CSR if X was sparse.

        The centre of the Gram is subtracted from the support vectors first. Where the weights sum to 0 that changes
        nothing but the round-off, which becomes smaller.
        """
        points: Any = self.support_vectors_
        if self._sparse:
            points = SparsePoints.of(points)
        found = weights @ (points if gram is None or gram.center is None else points - gram.center)
        return as_csr(found) if self._sparse else found

    def _expansion(self, X: Any, beside: NDArray | None = None) -> NDArray:
        """Return the model's kernel expansions at new points without intercept, shape (n_new, r).

        ``beside`` is that of `_expand`.
        """
        return self._expand(X, self._weights, beside)

    def _expanded(self, X: ArrayLike) -> NDArray:
        """Validate X, and return `_expansion` of it; `ProblemError` if a value is not finite."""
        points = self._check_new_data(X)
        if not points.shape[0]:  # kernels need a point
            return np.zeros((0, self._weights.shape[1]))
        return self._finite(self._expansion(points))

    def _finite(self, values: NDArray) -> NDArray:
        """Return the values; `ProblemError` if one is not finite."""
        if not np.isfinite(values).all():
            raise ProblemError(f"X: kernel={self._as_fitted.kernel!r} overflows float64 on it; scale the features")
        return values

    def _expand(self, X: Any, weights: NDArray, beside: NDArray | None = None) -> NDArray:
        """Return Σⱼ weights[j, :] k(x, support vector j) for validated X, shape (n_new, r), in bounded memory.

        ``beside``, shape (n_new,), is what the caller adds to each row. Where kernel values may be float32, the check
        of their accuracy counts it in.
        """
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
