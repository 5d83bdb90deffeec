"""What the estimators that learn and forget share: ids, batches that succeed or leave no trace, streams, files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from ..core.certificate import Certificate, certify
from ..core.growing import GrowingGram
from ..exceptions import ProblemError
from ..online.leave_one_out import Path, recorded
from ..online.remembering import Model, Stream
from ._base import KernelMachine, _reject_mixed_labels, _reject_unfit, is_plain
from ._ids import as_ids, new_ids, uninterrupted

__all__ = ["IncrementalMachine"]


class IncrementalMachine(KernelMachine):
    """Base class of the estimators that learn and forget a point at a time.

    A subclass says how its points are dealt out to streams (one, or one a pair of classes).
    """

    reserve: Any
    next_id_: int
    _streams: list[Stream]

    # --- what a subclass says ------------------------------------------------------------------

    def _model(self) -> Model:
        """How points make a problem; checks the parameters."""
        raise NotImplementedError

    def _deal(self, targets: NDArray) -> list[tuple[NDArray, NDArray]]:
        """For each stream the rows of a batch that it gets, and their targets there."""
        return [(np.arange(len(targets)), targets)]

    def _collect(self) -> tuple[NDArray, NDArray, NDArray]:
        """Ids, points and targets (as in `_deal`) of all that is remembered, in the order of ids."""
        stream = self._streams[0]
        order = np.argsort(stream.ids, kind="stable")
        return stream.ids[order], stream.gram.X[order], stream.targets[order]

    # --- learning ------------------------------------------------------------------------------

    def _learn(self, X: NDArray, targets: NDArray, ids: ArrayLike | None, first: bool) -> None:
        """Deal out a batch and learn it; the first one makes the streams."""
        names = new_ids(ids, len(X), 0 if first else self.next_id_, None if first or ids is None else self.ids_)
        self._check_reserve()
        model = self._model()
        dealt = self._deal(targets)
        if first:
            gram = GrowingGram(X, self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)
            if not (gram.is_psd_by_kernel or callable(self.kernel)):
                raise ProblemError(
                    f"kernel={self.kernel!r} with these parameters is not positive semidefinite, and the path of the "
                    "optimum then does not exist; take 'rbf', 'linear', or 'poly' with a whole degree and coef0 ≥ 0"
                )
            self._kernel_center = getattr(gram, "_center", None)
            self._gamma = gram.gamma
            self._streams = [self._new_stream(model, X[:1]) for _ in dealt]
        for stream, (rows, values) in zip(self._streams, dealt, strict=True):
            stream.learn(X[rows], values, names[rows])
            self._keep_to_reserve(stream)
        self.next_id_ = max(0 if first else self.next_id_, int(names.max(initial=-1)) + 1)

    def _new_stream(self, model: Model, some: NDArray) -> Stream:
        gram = GrowingGram(some, **self._kernel_facts(), gamma=self._gamma, center=self._kernel_center)
        gram.truncate(0)
        return Stream(model, gram)

    def _kernel_facts(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "degree": self.degree, "coef0": self.coef0}

    def _check_reserve(self) -> None:
        reserve = self.reserve
        number = isinstance(reserve, (int, float, np.number)) and not isinstance(reserve, bool)
        if reserve is not None and not (number and reserve > 0):
            raise ProblemError(f"reserve={reserve!r} must be a number > 0 (a margin), or None to remember all points")

    def _keep_to_reserve(self, stream: Stream) -> None:
        """CP section 2.3: of the points without weight only those nearer to the margin than ``reserve`` stay."""
        if self.reserve is None or stream.n == 0:
            return
        engine, per = stream.engine, stream.model.per
        size = engine.d if stream.model.name == "svdd" and engine.d else 1.0
        near = (engine.alpha > 0) | (engine.g < self.reserve * size)
        near[engine.margin] = True
        points = np.flatnonzero(near.reshape(-1, per).any(axis=1))
        if len(points) < stream.n:
            stream.keep(points)

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Whatever is raised within (Ctrl-C included), the model is afterwards what it was before."""
        before = self.__dict__.copy()
        streams = before.get("_streams", [])
        kept = [stream.snapshot() for stream in streams]
        try:
            yield
        except BaseException:
            for stream, snapshot in zip(streams, kept, strict=True):
                stream.restore(snapshot)
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    # --- forgetting ----------------------------------------------------------------------------

    def forget(self, ids: ArrayLike, purge: bool = False) -> Any:
        """Unlearn points, exactly: the model is afterwards that of the others (CP Algorithm 2).

        Parameters
        ----------
        ids : array of int
            Names of points, as given to `partial_fit` or by order of arrival (`ids_`).
        purge : bool, default=False
            Also see to it that no trace is left in the last bits (of coefficients, of the width ``gamma="scale"``, of
            the order of support vectors): the others are learned anew, in the order of their ids. The state is then a
            function of what remains (points, targets, ids, `next_id_`, `classes_`) and of nothing else.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ProblemError
            An id is not known (with ``reserve``: was never given), or twice in ``ids``; nothing is forgotten then.
        """
        check_is_fitted(self)
        names = as_ids(ids)
        unknown = np.setdiff1d(names, self.ids_)
        if self.reserve is not None:  # those that were let go are in the model no longer
            unknown = unknown[(unknown < 0) | (unknown >= self.next_id_)]
        if len(unknown):
            raise ProblemError(f"ids: {unknown[:5].tolist()} are not remembered; see ids_")
        if purge:
            with self._all_or_nothing():
                known, X, targets = self._collect()
                rest = ~np.isin(known, names)
                counter = self.next_id_
                if rest.any():
                    self._learn(X[rest], targets[rest], known[rest], True)
                else:
                    self._streams = [self._new_stream(stream.model, X[:1]) for stream in self._streams]
                self.next_id_ = counter
            return self
        places = [np.flatnonzero(np.isin(stream.ids, names)) for stream in self._streams]
        with self._all_or_nothing():
            for stream, gone in zip(self._streams, places, strict=True):
                stream.unlearn(gone)
            with uninterrupted():
                for stream, gone in zip(self._streams, places, strict=True):
                    stream.keep(np.setdiff1d(np.arange(stream.n), gone))
        return self

    # --- reading -------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return bool(getattr(self, "_streams", None))

    @property
    def ids_(self) -> NDArray:
        """Names of the points that are remembered, in their order; shape (n,)."""
        check_is_fitted(self)
        return np.unique(np.concatenate([stream.ids for stream in self._streams]))

    @property
    def drift_(self) -> float:
        """Largest relative residual of a direction that the inverse gave, before its refinement.

        Above 1e-9 the inverse is made anew first.
        """
        check_is_fitted(self)
        return max(stream.engine.drift for stream in self._streams)

    @property
    def n_pivots_(self) -> int:
        """Breakpoints that were passed: points that came to the margin or left it."""
        check_is_fitted(self)
        return sum(stream.engine.pivots for stream in self._streams)

    @property
    def certificates_(self) -> list[Certificate]:
        """For each pair of classes how far from the optimum the model is, over all points that are remembered.

        Made when asked for, from the points anew: as much work as one pass over them.
        """
        check_is_fitted(self)
        return [certify(stream.problem(), stream.alpha()) for stream in self._streams]

    @property
    def certificate_(self) -> Certificate:
        """The certificate; more than two classes have `certificates_`."""
        found = self.certificates_
        if len(found) != 1:
            raise AttributeError(f"{len(found)} pairs of classes are learned: see certificates_")
        return found[0]

    def _support(self) -> tuple[Stream, NDArray]:
        """The stream, and which of its points have weight."""
        check_is_fitted(self)
        if len(self._streams) != 1:
            raise AttributeError(f"{len(self._streams)} pairs of classes are learned; this is for one")
        return self._streams[0], np.flatnonzero(self._streams[0].coefficients)

    @property
    def support_ids_(self) -> NDArray:
        """Names of the support vectors; of one pair of classes."""
        stream, support = self._support()
        return stream.ids[support]

    @property
    def support_vectors_(self) -> NDArray:  # type: ignore[override]
        """Shape (n_SV, n_features)."""
        stream, support = self._support()
        return stream.gram.X[support]

    @property
    def n_support_(self) -> NDArray:  # type: ignore[override]
        """How many there are; of each class, if there are classes."""
        return np.array([len(self._support()[1])])

    @property
    def dual_coef_(self) -> NDArray:
        """Weights of the support vectors in the expansion, shape (1, n_SV)."""
        stream, support = self._support()
        return stream.coefficients[None, support]

    def path(self) -> Path:
        """Trajectories of coefficients and margins while all points are learned in the order of ids (CP Fig. 3-5).

        The points are learned anew, on the side, with the kernel width of this model, which stays as it is. There are
        about as many rows as breakpoints, with an entry a point: for small data.

        Raises
        ------
        ProblemError
            There are more than two classes.
        """
        return recorded(self._only_stream("path"))

    def _only_stream(self, what: str) -> Stream:
        check_is_fitted(self)
        if len(self._streams) != 1:
            raise ProblemError(f"{what}() is for one pair of classes; this model has {len(self._streams)}")
        return self._streams[0]

    def _values(self, X: NDArray, stream: Stream, weights: NDArray) -> NDArray:
        """Σ weights k(x, ·) over the points of a stream, for validated X."""
        if self.predict_dtype not in ("float64", "float32"):
            raise ProblemError(f"predict_dtype={self.predict_dtype!r} is not one of 'float64', 'float32'")
        J = np.flatnonzero(weights)
        with np.errstate(over="ignore", invalid="ignore"):
            dtype = np.dtype(self.predict_dtype).type
            values: NDArray = stream.gram.expand(X, J, weights[J, None], dtype)[:, 0]
        if not np.isfinite(values).all():
            raise ProblemError(f"X: kernel={self.kernel!r} overflows float64 on it; scale the features")
        return values

    # --- data ----------------------------------------------------------------------------------

    def _check_batch(
        self, X: Any, y: Any = "no_validation", reset: bool = True, numeric: bool = False, least: int = 1
    ) -> Any:
        """Validated X (and y) of at least so many points."""
        without_y = isinstance(y, str) and y == "no_validation"
        known = not reset and not hasattr(self, "feature_names_in_")
        if known and is_plain(X, 2, finite=True) and X.shape[1] == self.n_features_in_:
            # As scikit-learn's validation would have it, which takes longer than to learn a point.
            if without_y:
                return X
            if is_plain(y, 1) and len(y) == len(X):
                return X, y.astype(float) if numeric else y
        _reject_unfit(X, "X")
        wanted: dict[str, Any] = {"dtype": np.float64, "order": "C", "reset": reset, "ensure_min_samples": least}
        if without_y:
            return validate_data(self, X, **wanted)
        _reject_mixed_labels(y)
        return validate_data(self, X, y, y_numeric=numeric, **wanted)

    # --- files ---------------------------------------------------------------------------------

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Arrays and facts of the fitted state; the next `partial_fit` after `_unpack` gives the same bits.

        Parameters, n_features_in_ and feature_names_in_ are not among them.
        """
        check_is_fitted(self)
        arrays: dict[str, NDArray] = {}
        streams = []
        for number, stream in enumerate(self._streams):
            own, facts = stream.pack()
            arrays |= {f"stream{number}_{name}": array for name, array in own.items()}
            streams.append(facts)
        if self._kernel_center is not None:
            arrays["kernel_center"] = np.array(self._kernel_center)
        return arrays, {"next_id": self.next_id_, "gamma": self._gamma, "streams": streams}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """The fitted state that was packed, on an estimator with its parameters and n_features_in_; it may come from
        anybody's file. Raises KeyError, TypeError or ValueError where it is not sound."""
        self.next_id_ = int(facts["next_id"])
        self._gamma, self._kernel_center = facts["gamma"], arrays.get("kernel_center")
        model = self._model()
        self._streams = []
        for number, own in enumerate(facts["streams"]):
            start = f"stream{number}_"
            part = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
            stream = Stream.unpack(model, self._kernel_facts(), part, own)
            if stream.gram.X.shape[1] != self.n_features_in_ or stream.ids.max(initial=-1) >= self.next_id_:
                raise ValueError("its points do not fit the number of features, or its ids the next one")
            self._streams.append(stream)
