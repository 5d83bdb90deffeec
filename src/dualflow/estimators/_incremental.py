"""`IncrementalMachine`, the base class of the estimators that learn and forget points exactly.

It holds the streams of points and their ids, restores the model if a batch fails, reads the model from the streams,
and writes them to files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.growing import GrowingGram
from ..core.options import Number
from ..core.solution import Solution
from ..exceptions import ProblemError
from ..online.growing_problem import Stream
from ..online.leave_one_out import Path, recorded_path
from ..online.optimality import restore_optimum
from ..problems import Growing
from ._base import fitted
from ._ids import PointNames, as_ids, as_names, check_new_names, new_ids
from ._streaming import TOL, StreamMachine, optimum, remembered, warn_of_gap
from ._verify import check_stream, stored


class IncrementalMachine(StreamMachine):
    """Base class of the estimators that learn and forget one point at a time.

    A subclass defines how points are distributed to streams: to one stream, or to one for each pair of classes.
    """

    _rules = {"reserve": Number(above=0, infinite=True, none=True, note="(a margin; None remembers all points)")}
    _fitted_by: ClassVar[str] = "_streams"
    _kept = (*StreamMachine._kept, "reserve")

    next_id_: int
    _streams: list[Stream]
    #: The names of the points, if their ids are not whole numbers.
    _names: PointNames | None = None

    # --- what a subclass defines ---------------------------------------------------------------

    def _model(self) -> Growing:
        """Return the problem of a growing set of points, with the current parameters."""
        raise NotImplementedError

    def _deal(self, targets: NDArray) -> list[tuple[NDArray, NDArray]]:
        """Return, for each stream, the rows of a batch that it learns and their targets in it."""
        return [(np.arange(len(targets)), targets)]

    def _collect(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Return ids, points, targets (as in `_deal`) and weights of all remembered points, in the order of ids."""
        stream = self._streams[0]
        order = np.argsort(stream.ids, kind="stable")
        return stream.ids[order], stream.gram.X[order], stream.targets[order], stream.weights[order]

    # --- learning ------------------------------------------------------------------------------

    def _learn(
        self,
        X: NDArray,
        targets: NDArray,
        weights: NDArray,
        ids: ArrayLike | None,
        first: bool,
        again: bool = False,
    ) -> None:
        """Distribute a batch to the streams and learn it; the ``first`` batch makes the streams.

        ``again`` learns points once more with the kept parameters, without a look at the current ones.
        """
        has_names = not first and self._names is not None
        names = None if ids is None or again else as_names(ids, has_names)
        if not (again or first) and has_names != (names is not None):
            raise ProblemError(
                "ids are left out, and the points so far have names; give the names of the new ones"
                if has_names
                else f"ids: {(names or [])[:3]} are names, and the points so far have whole numbers; give numbers"
            )
        if names is not None:
            check_new_names(names, len(X), None if first else self._names)
            ids = None
        new = new_ids(
            ids, len(X), 0 if first else self.next_id_, None if first or ids is None else self._remembered_ids()
        )
        if not again:
            self._refuse_changes()
            self._take_parameters()
        params = self._as_fitted
        dealt = self._deal(targets)
        if first:
            gram = GrowingGram(X, params.kernel, gamma=params.gamma, degree=params.degree, coef0=params.coef0)
            if not (gram.is_psd_by_kernel or callable(params.kernel)):
                raise ProblemError(
                    f"kernel={params.kernel!r} with these parameters is not positive semidefinite, and the path of the "
                    "optimum then does not exist; take 'rbf', 'linear', or 'poly' with a whole degree and coef0 ≥ 0"
                )
            self._kernel_center = gram.center
            self._gamma = gram.gamma
            self._streams = [self._new_stream(self._model(), X[:1]) for _ in dealt]
        for stream, (rows, values) in zip(self._streams, dealt, strict=True):
            stream.learn(X[rows], values, new[rows], weights[rows])
            self._bring_to_optimum(stream)
        # Dropped points and names cannot come back: this follows after all streams have learned. What the first batch
        # has made is undone with its streams.
        is_final = not first and (params.reserve is not None or names is not None)
        with self._open.committing() if is_final else contextlib.nullcontext():
            if params.reserve is not None:
                for stream in self._streams:
                    self._drop_beyond_reserve(stream)
            self._keep_removal(None)
            self.next_id_ = max(0 if first else self.next_id_, int(new.max(initial=-1)) + 1)
            if not again and first:
                self._names = None if names is None else PointNames()
            if self._names is not None and names is not None:
                self._names.add(names, new)
                if params.reserve is not None:
                    self._names.keep(self._remembered_ids())

    def _remembered_ids(self) -> NDArray:
        """Return the numbers of the remembered points, ascending."""
        return np.unique(np.concatenate([stream.ids for stream in self._streams]))

    def _parts(self) -> list[tuple[NDArray, NDArray, NDArray]]:
        return [(stream.gram.X.copy(), stream.targets, stream.weights) for stream in self._streams]

    def _public_ids(self, numbers: NDArray) -> NDArray:
        return numbers if self._names is None else self._names.names(numbers)

    def _bring_to_optimum(self, stream: Stream, *gone: NDArray) -> None:
        """Bring a stream to its optimum if round-off has moved it away; warn if the gap stays above `TOL`."""
        warn_of_gap(restore_optimum(stream, optimum, *gone), TOL)

    def _new_stream(self, model: Growing, some: NDArray) -> Stream:
        """Return an empty stream; ``some`` points fix the number of features."""
        gram = GrowingGram(some, **self._kernel_facts(), gamma=self._gamma, center=self._kernel_center)
        gram.truncate(0)
        return Stream(model, gram)

    def _kernel_facts(self) -> dict[str, Any]:
        """Return the kernel's parameters, without its width."""
        params = self._as_fitted
        return {"kernel": params.kernel, "degree": params.degree, "coef0": params.coef0}

    def _refuse_changes(self) -> None:
        """Raise `ProblemError` if a parameter other than ``reserve`` was changed since points were learned."""
        changed = {name: value for name, value in self._changed().items() if name != "reserve"}
        if changed:
            name, value = next(iter(changed.items()))
            raise ProblemError(
                f"{name}={value!r}, but the points so far were learned with {name}="
                f"{getattr(self._as_fitted, name)!r}, and the path starts from that optimum only: start again with "
                "fit, or set it back with set_params"
            )

    def _drop_beyond_reserve(self, stream: Stream) -> None:
        """Drop the points without weight that are farther from the margin than ``reserve`` (CP section 2.3)."""
        if stream.n == 0:
            return
        engine = stream.engine
        is_remembered = (engine.alpha > 0) | (engine.g < self._as_fitted.reserve * stream.unit)
        is_remembered[engine.margin] = True
        points = np.flatnonzero(is_remembered.reshape(-1, stream.model.per).any(axis=1))
        if len(points) < stream.n:
            stream.keep(points)

    def _undo(self) -> Callable[[], None]:
        snapshots = [(stream, stream.snapshot()) for stream in self.__dict__.get("_streams", ())]

        def undo() -> None:
            for stream, snapshot in snapshots:
                stream.restore(snapshot)

        return undo

    # --- forgetting ----------------------------------------------------------------------------

    def forget(self, ids: ArrayLike, purge: bool = False, record: bool = False) -> Self:
        """Unlearn points exactly: the model becomes the optimum over the remaining points (CP Algorithm 2).

        Parameters
        ----------
        ids : array, list or a single id
            Ids of the points, as given to `partial_fit` or numbered by arrival (`ids_`).
        purge : bool, default=False
            Whether to learn the remaining points again, in the order of their ids, so that the forgotten points leave
            no trace even in round-off (of coefficients, of the width ``gamma="scale"``, of the order of support
            vectors). The state is then a function of the remaining points, their targets, weights and ids, `next_id_`
            and `classes_` alone.
        record : bool, default=False
            Whether to keep what `certificate_of_removal` needs: a digest and a certificate of the model as it was.

        Returns
        -------
        The estimator itself.

        Raises
        ------
        ProblemError
            An id is unknown (with ``reserve``, was never given), or occurs twice. No point is forgotten then.
        """
        self._check_fitted()
        if self._names is None:
            forgotten = as_ids(ids)
        else:
            forgotten = self._names.numbers(as_names(ids, numbers_too=True) or [])
        unknown = np.setdiff1d(forgotten, self._remembered_ids())
        if self._as_fitted.reserve is not None:  # ids of points that the reserve has dropped are valid
            unknown = unknown[(unknown < 0) | (unknown >= self.next_id_)]
        if len(unknown):
            raise ProblemError(f"ids: {unknown[:5].tolist()} are not remembered; see ids_")
        removal = self._before_removal(ids, purge, record)
        if purge:
            with self._transaction():
                known, X, targets, weights = self._collect()
                rest = ~np.isin(known, forgotten)
                counter = self.next_id_
                if rest.any():
                    self._learn(X[rest], targets[rest], weights[rest], known[rest], True, again=True)
                else:
                    self._streams = [self._new_stream(stream.model, X[:1]) for stream in self._streams]
                with self._open.committing():
                    self.next_id_ = counter
                    self._forget_names()
                    self._keep_removal(removal)
            return self
        places = [np.flatnonzero(np.isin(stream.ids, forgotten)) for stream in self._streams]
        with self._transaction():
            for stream, gone in zip(self._streams, places, strict=True):
                stream.unlearn(gone)
                self._bring_to_optimum(stream, gone)
            with self._open.committing():
                for stream, gone in zip(self._streams, places, strict=True):
                    stream.keep(np.setdiff1d(np.arange(stream.n), gone))
                self._forget_names()
                self._keep_removal(removal)
        return self

    def _forget_names(self) -> None:
        """Remove the names of points that are not remembered any more."""
        if self._names is not None:
            self._names.keep(self._remembered_ids())

    # --- fitted attributes ---------------------------------------------------------------------

    @fitted
    def ids_(self) -> NDArray:
        """Ids of the remembered points, shape (n,): ascending numbers, or names in the order of arrival."""
        return self._public_ids(self._remembered_ids())

    @fitted
    def drift_(self) -> float:
        """Largest relative residual of a direction computed with the stored inverse, before its refinement.

        Where it exceeds 1e-9 the inverse is computed again.
        """
        return max(stream.engine.drift for stream in self._streams)

    @fitted
    def n_pivots_(self) -> int:
        """Number of breakpoints of the path: how often a point came to the margin or left it."""
        return sum(stream.engine.pivots for stream in self._streams)

    @fitted
    def solutions_(self) -> list[Solution]:
        """The state of each pair of classes, as a `Solution` of the problem of all remembered points.

        It is certified on access, from the points, which takes as long as one pass over them.
        """
        known = [stream for stream in self._streams if stream.mass]
        return [remembered(stream.problem(), stream.alpha(), "incremental") for stream in known]

    def _support(self) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Return `support_`, `support_vectors_`, `dual_coef_` and `n_support_`."""
        (stream,) = self._streams
        weights = stream.coefficients
        (J,) = np.nonzero(weights)
        J = J[np.argsort(stream.ids[J])]
        return stream.ids[J], stream.gram.X[J], weights[None, J], np.array([len(J)])

    @fitted
    def support_(self) -> NDArray:
        """Ids of the support vectors, by class and then ascending, or by arrival if they are names."""
        return self._public_ids(self._support()[0])

    @fitted
    def support_ids_(self) -> NDArray:
        """Ids of the support vectors; equal to `support_`."""
        return self.support_

    @fitted
    def support_vectors_(self) -> NDArray:
        """The support vectors, shape (n_SV, n_features)."""
        return self._support()[1]

    @fitted
    def dual_coef_(self) -> NDArray:
        """Weights of the support vectors in the expansion, shape (n_classes − 1, n_SV), or (1, n_SV)."""
        return self._support()[2]

    @fitted
    def n_support_(self) -> NDArray:
        """Number of support vectors; for each class, if there are classes."""
        return self._support()[3]

    def path(self) -> Path:
        """Return the trajectories of coefficients and margins while the points are learned by ids (CP Fig. 3-5).

        The points are learned once more in a separate model with this kernel width; this model is not changed. The
        result has about as many rows as breakpoints, with one entry a point: it is meant for small data.

        Returns
        -------
        Path

        Raises
        ------
        ProblemError
            There are more than two classes.
        """
        found = recorded_path(self._only_stream("path"))
        return replace(found, ids=self._public_ids(found.ids))

    def _only_stream(self, what: str) -> Stream:
        """Return the only stream; `ProblemError` names the method ``what`` if there are several."""
        self._check_fitted()
        if len(self._streams) != 1:
            raise ProblemError(f"{what}() needs one pair of classes; this model has {len(self._streams)}")
        return self._streams[0]

    def _expansion(self, X: NDArray, beside: NDArray | None = None) -> NDArray:
        self._check_parameters("predict_dtype")
        dtype, columns = np.dtype(self.predict_dtype).type, []
        with np.errstate(over="ignore", invalid="ignore"):
            for stream in self._streams:
                weights = stream.coefficients
                (J,) = np.nonzero(weights)
                columns.append(stream.gram.expand(X, J, weights[J, None], dtype, beside))
        return np.concatenate(columns, axis=1)

    # --- files ---------------------------------------------------------------------------------

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Return arrays and facts of the fitted state; the next `partial_fit` after `_unpack` gives the same bits.

        Parameters, n_features_in_ and feature_names_in_ are stored by the base class.
        """
        self._check_fitted()
        arrays: dict[str, NDArray] = {}
        streams = []
        for number, stream in enumerate(self._streams):
            own, facts = stream.pack()
            arrays |= {f"stream{number}_{name}": array for name, array in own.items()}
            streams.append(facts)
        if self._kernel_center is not None:
            arrays["kernel_center"] = np.array(self._kernel_center)
        if self._names is not None:
            arrays["names"] = self._names.names(self._remembered_ids())
        return arrays, {"next_id": self.next_id_, "gamma": self._gamma, "streams": streams}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """Set the fitted state from a file, on an estimator with its parameters and n_features_in_.

        The file is untrusted: KeyError, TypeError or ValueError are raised where the state is not sound.
        """
        self.next_id_, self._gamma, self._kernel_center = facts["next_id"], facts["gamma"], None
        if type(self.next_id_) is not int or type(self._gamma) is not float or not 0 <= self._gamma < np.inf:
            raise ValueError(f"its facts 'next_id' and 'gamma' are {self.next_id_!r} and {self._gamma!r}")
        if self._as_fitted.kernel == "rbf" or "kernel_center" in arrays:
            self._kernel_center = stored(arrays, "kernel_center", "f", (self.n_features_in_,))
        model = self._model()
        self._streams = []
        for number, own in enumerate(facts["streams"]):
            start = f"stream{number}_"
            part = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
            stream = Stream.unpack(model, self._kernel_facts(), part, own)
            if stream.gram.X.shape[1] != self.n_features_in_ or stream.ids.max(initial=-1) >= self.next_id_:
                raise ValueError("its points do not fit the number of features, or its ids the next one")
            check_stream(stream)
            self._streams.append(stream)
        self._names = None
        if "names" in arrays:
            names, numbers = as_names(arrays["names"].tolist()), self._remembered_ids()
            if (
                arrays["names"].dtype.kind != "O"
                or len(arrays["names"]) != len(numbers)
                or (names is None and len(numbers))
            ):
                raise ValueError("the names of its points are not one for each")
            self._names = PointNames()
            self._names.add(names or [], numbers)
