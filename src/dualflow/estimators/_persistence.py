"""Models on disk, without pickle."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..exceptions import ProblemError
from ..persistence import container
from ._unconfirmed import unconfirmed
from ._values import decode, encode, is_quantum

__all__ = ["CLASSES", "FORMAT", "Persistent", "load", "read_with", "save_with"]

#: Version of the format; a file of another one is refused with the version of dualflow that wrote it.
FORMAT = 2

#: The classes a file can hold: nothing else is ever made from one.
CLASSES = {
    "SVC": "dualflow.estimators.svc:SVC",
    "SVDD": "dualflow.estimators.svdd:SVDD",
    "OneClassSVM": "dualflow.estimators.one_class:OneClassSVM",
    "SVR": "dualflow.estimators.svr:SVR",
    "NuSVC": "dualflow.estimators.nu_svc:NuSVC",
    "NuSVR": "dualflow.estimators.nu_svr:NuSVR",
    "LDA": "dualflow.estimators.lda:LDA",
    "LSSVC": "dualflow.estimators.lssvc:LSSVC",
    "LSSVR": "dualflow.estimators.lssvr:LSSVR",
    "EcoSVC": "dualflow.estimators.eco_svc:EcoSVC",
    "EcoSVDD": "dualflow.estimators.eco_svdd:EcoSVDD",
    "IncrementalSVC": "dualflow.estimators.incremental:IncrementalSVC",
    "IncrementalSVDD": "dualflow.estimators.incremental_svdd:IncrementalSVDD",
    "IncrementalSVR": "dualflow.estimators.incremental_svr:IncrementalSVR",
}


class Persistent(BaseEstimator):
    """What can be saved: an estimator that has `_pack` and `_unpack`, and a line in `CLASSES`."""

    n_features_in_: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that `dualflow.load` reads; no pickle is in it.

        The file replaces ``path`` as a whole or not at all. It holds everything the model is made of: parameters,
        the α of its `solutions_`, and with them the *training data* (precomputed kernels: the matrix); what says how
        good it is (certificates, statuses) is computed when it is loaded. Equal models give equal bytes; two fits
        differ in the seconds they took and, without a seed, in the one drawn. Parameters that were changed after the
        fit are kept beside those of the fit.

        Parameters
        ----------
        path : str or Path
            Any name; folders are made.

        Raises
        ------
        NotFittedError
        ProblemError
            Something of the model cannot be stored without pickle (a callable kernel that is no quantum kernel with a
            map by name, a callback, a device or solver that is not dualflow's own): the message names the parameter and
            what to do. Or the model came out of a pickle, which does not hold the training data.
        OSError
            The file cannot be written; one that was there is as it was.
        """
        save_with(self, path, {})

    def _header(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Header and arrays of the file."""
        kind = type(self)
        if CLASSES.get(kind.__name__) != f"{kind.__module__}:{kind.__qualname__}":
            raise ProblemError(f"{kind.__name__} is not one of the classes that can be saved: {', '.join(CLASSES)}")
        check_is_fitted(self)
        parameters, changed = self.get_params(deep=False), self._changed()
        fitted = {name: encode(getattr(self._as_fitted, name, value), name) for name, value in parameters.items()}
        arrays, facts = self._content()
        names = getattr(self, "feature_names_in_", None)
        header = {
            "format": FORMAT,
            "dualflow": importlib.metadata.version("dualflow"),
            "class": kind.__name__,
            "parameters": fitted,
            "features": {"n": int(self.n_features_in_), "names": None if names is None else encode(names, "X.columns")},
            "facts": encode(facts, "the model"),
            # Labels may be Python objects; as plain values they need no pickle.
            "objects": {name: encode(array, name) for name, array in arrays.items() if array.dtype.kind == "O"},
        }
        if changed:
            header["changed"] = {name: encode(value, name) for name, value in changed.items()}
        return header, {name: a for name, a in arrays.items() if a.dtype.kind != "O"}

    def _content(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """`_pack`, and what a quantum kernel has measured."""
        arrays, facts = self._pack()
        if is_quantum(kernel := self._as_fitted.kernel):
            arrays |= {f"kernel.{name}": array for name, array in kernel.known().items()}
        return arrays, facts

    def _keep_parameters(self) -> None:
        """Keep the parameters as those of the fit."""
        raise NotImplementedError

    @property
    def _as_fitted(self) -> Any:
        """The parameters of the fit, as far as a fitted model is read with them."""
        raise NotImplementedError

    def _changed(self) -> dict[str, Any]:
        """Those that were set to other values since."""
        raise NotImplementedError

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """The fitted state, for `save`: what an estimator adds to be saved, with `_unpack` and a line in
        `CLASSES`. The model is not changed.

        Returns
        -------
        arrays : dict of arrays
            Names of letters, digits, ``_`` and ``.``; dtypes bool, int, float (up to 8 bytes a number), text, bytes,
            dates; object where the entries are plain values (labels). Everything the next bits depend on: a model
            loaded between two calls of ``partial_fit`` goes on to the same bits, so inverses and caches that carry
            round-off are packed, not made again. What says how good the model is is not packed, but computed. Bits
            kept by nobody (times of clocks, counters of work) are better left out: they make files of equal models
            differ.
        facts : dict
            Plain values: None, bool, int, float, text, lists, tuples, dicts, numpy numbers.

        Constructor parameters, ``n_features_in_`` and ``feature_names_in_`` are the base's. `_packing` has helpers for
        solutions with their Gram, and for attributes by a table of dtypes and dimensions.
        """
        raise NotImplementedError

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """The inverse, on a fresh estimator that has its parameters, ``n_features_in_`` and ``feature_names_in_``.

        The arrays are the model's to keep. They come from a file anybody may have written: dtypes, shapes against each
        other, ranges of indices and finiteness are checked here (`_verify.stored`), before compiled code sees them, and
        so is that they do not contradict each other (`_verify.agree`): what the model predicts must be what a
        certificate made of its points and its α speaks of. Any exception becomes a ProblemError that names the file.
        Afterwards `_pack` must give exactly what was read, which `load` verifies, so no array and no fact can go
        unread.
        """
        raise NotImplementedError


def save_with(model: Persistent, path: str | os.PathLike[str], beside: dict[str, Any]) -> None:
    """`Persistent.save`, with ``beside`` in the header, by names that the model has none of: what JSON can hold, which
    `load` passes over and `read_with` hands back."""
    header, arrays = model._header()
    container.write(Path(path), beside | header, arrays)


def load(path: str | os.PathLike[str], *, max_bytes: int = 1 << 32, trusted: bool = False) -> Any:
    """Read a model that its ``save`` wrote; nothing in the file is executed, whoever wrote it.

    Every checksum is verified before anything is looked at, and everything is checked before it becomes part of a
    model. No certificate and no status is believed: they are computed from points and α, which takes as long as to
    predict all training points, and what contradicts them is refused. Who can write the file can write another model
    into it, but none that looks better than it is. What is told of the past (`Solution.cost`, ``Solution.provenance``,
    how a run ended short of its tolerance, counts of points met) is hearsay.

    Parameters that name code or files are kept as they were, but not acted upon: with a solver or a device that is
    not dualflow's own ("backend:<module>:<factory>", say) or a journal, ``fit`` refuses until they are set by
    `set_params`, to the same value even. That goes for clones of the model, too. Predictions need none of them, but for
    the device of a quantum kernel, whose values at new points are refused until the file is read with ``trusted``.

    Parameters
    ----------
    path : str or Path
    max_bytes : int, default=2**32
        Larger files are refused. A file unpacks to no more than its own size.
    trusted : bool, default=False
        Whether such parameters are as good as your own. Nothing else depends on it.

    Returns
    -------
    estimator
        Of the class that was saved, in the state it was saved in: predictions, and what the next ``fit``
        (``warm_start``) or ``partial_fit`` makes of it, are equal to the bit.

    Raises
    ------
    ProblemError
        The file is foreign (a pickle, an npz), damaged, truncated, larger than ``max_bytes``, of another format than
        this version reads, or contradicts itself; the message says what was found, and which version to install.
    OSError
        It cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dualflow import SVC, load
    >>> model = SVC(kernel="linear", C=10).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(Path(folder) / "model.dualflow")
    ...     again = load(Path(folder) / "model.dualflow")
    ...
    >>> again.predict([[1.4], [1.6]])
    array([0, 1])
    """
    return read_with(path, max_bytes=max_bytes, trusted=trusted)[0]


def read_with(
    path: str | os.PathLike[str], *, max_bytes: int = 1 << 32, trusted: bool = False
) -> tuple[Any, dict[str, Any]]:
    """`load`, and the header as it is, in which `save_with` may have put more; nothing of that is checked."""
    path = Path(path)
    header, arrays = container.read(path, max_bytes)
    _check_format(path, header)
    try:
        return _made(header, arrays, trusted), header
    except Exception as error:  # whatever a file that was tampered with leads to
        raise ProblemError(f"{path} holds no sound model: {error or type(error).__name__}") from error


def _check_format(path: Path, header: dict[str, Any]) -> None:
    found, version = header.get("format"), str(header.get("dualflow"))
    if not re.fullmatch(r"[0-9]+(\.[0-9a-z]+)*", version, re.ASCII):  # it goes into a command below
        raise ProblemError(f"{path} is not a file of a dualflow model: its version is {version!r}")
    if type(found) is not int or found < 1:
        raise ProblemError(f"{path} is not a file of a dualflow model: its format is {found!r}")
    if found > FORMAT:
        raise ProblemError(
            f"{path} has format {found}, written by dualflow {version}; this is dualflow "
            f"{importlib.metadata.version('dualflow')}, which reads format {FORMAT}: "
            f"pip install 'dualflow>={version}'"
        )
    if found < FORMAT:
        raise ProblemError(
            f"{path} has format {found}, written by dualflow {version}, whose certificates would have to be believed; "
            f"this version reads format {FORMAT}, and computes them: fit and save the model again, or load it with "
            f"dualflow {version}"
        )


def _made(header: dict[str, Any], arrays: dict[str, NDArray], trusted: bool) -> Any:
    name = header["class"]
    if name not in CLASSES:
        raise ValueError(f"its class {name!r} is not one of {', '.join(CLASSES)}")
    module, _, attribute = CLASSES[name].partition(":")
    kind = getattr(importlib.import_module(module), attribute)
    parts = {"changed": {}} | {part: header[part] for part in ("parameters", "features", "objects", "facts")}
    said = decode(parts | {part: header[part] for part in ("changed",) if part in header})  # one budget for all
    parameters, changed, facts = said["parameters"], said["changed"], said["facts"]
    if unknown := set(parameters | changed) - set(kind().get_params(deep=False)):
        raise ValueError(f"{name} has no parameters {sorted(unknown)}")
    model = kind(**(parameters if trusted else unconfirmed(parameters)))
    model._keep_parameters()
    n, names = said["features"]["n"], said["features"]["names"]
    if type(n) is not int or n < 1:
        raise ValueError(f"its number of features is {n!r}")
    model.n_features_in_ = n
    if names is not None:
        model.feature_names_in_ = names
        if model.feature_names_in_.shape != (n,) or not all(type(text) is str for text in model.feature_names_in_):
            raise ValueError(f"its feature names are not {n} names")
    arrays = arrays | said["objects"]
    kernel = model._as_fitted.kernel
    if is_quantum(kernel):
        kernel.learn({name.removeprefix("kernel."): array for name, array in arrays.items()})
    model._unpack(arrays, facts)
    # What the model would write now must be what was read: nothing was left out, ignored or turned into another type.
    again, facts_again = model._content()
    if encode(facts_again, "") != header["facts"] or set(again) != set(arrays):
        raise ValueError("its contents are not those of the model they make")
    for key, array in again.items():
        if not _same(array, arrays[key]):
            raise ValueError(f"its array {key!r} is not that of the model it makes")
    for value in (kernel, changed.get("kernel")):
        if is_quantum(value):
            value.allow(trusted)
    return model.set_params(**(changed if trusted else unconfirmed(changed)))


def _same(first: NDArray, second: NDArray) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and bool(np.array_equal(first, second))
