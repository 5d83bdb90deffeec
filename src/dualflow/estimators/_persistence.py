"""Models on disk, without pickle.

Which parameters of a loaded model name code or files, and are nobody's word but the file's.

Plain values as JSON and back, to the bit and to the type; what would need pickle is refused by name.

JSON's own types stay as they are. What it lacks is an object of one key that begins with ``$``: ``$float`` (NaN and
infinities), ``$scalar`` (of numpy), ``$array``, ``$tuple``, ``$map`` (keys that are not text), ``$bytes``, ``$solver``
(name and options), ``$kernel`` (a quantum kernel), ``$random_state``.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import math
import os
import re
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..exceptions import ProblemError
from ..persistence import container
from ..persistence.npy import MOST_EMPTY
from ..persistence.unconfirmed import Unconfirmed
from ..quantum.devices import CATALOGUE as DEVICES
from ..solvers import CATALOGUE, Solver
from ..solvers import CATALOGUE as SOLVERS
from ..solvers.registry import AUTO, solver_class

__all__ = [
    "CLASSES",
    "FORMAT",
    "REACHING",
    "Persistent",
    "decode",
    "encode",
    "is_quantum",
    "load",
    "read_with",
    "save_with",
    "unconfirmed",
]


#: Options of solvers that reach beyond numbers: what circuits run on, and the file their jobs are written to.
REACHING = ("device", "journal")


def unconfirmed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters, those that name code or files marked as `Unconfirmed`; names of dualflow's own need no word."""
    marked = dict(parameters)
    solver, options = marked.get("solver"), marked.get("solver_options")
    if isinstance(solver, str) and solver != AUTO and solver not in SOLVERS:
        marked["solver"] = Unconfirmed(solver)
    elif isinstance(solver, Solver):
        held = {f.name: getattr(solver, f.name) for f in fields(solver) if f.init and f.name in REACHING}
        if held:
            marked["solver"] = replace(solver, **_marked(held))
    if isinstance(options, dict):
        marked["solver_options"] = _marked(options)
    return marked


def _marked(options: Mapping[Any, Any]) -> dict[Any, Any]:
    return {name: _mark(name, value) if name in REACHING else value for name, value in options.items()}


def _mark(name: str, value: Any) -> Any:
    ours = name == "device" and value in DEVICES and "<" not in value
    return Unconfirmed(value) if isinstance(value, str) and not ours else value


#: What a file may hold of values that take far longer to make than to write down; of pairs with keys that are not text,
#: which can be chosen to collide; and of bytes that arrays of text take.
MOST_TAGS, MOST_PAIRS, MOST_TEXT_BYTES = 1 << 16, 1 << 14, 1 << 24

_NUMPY = re.compile(r"\|b1|[<|][iu][1248]|<f[248]|<U\d{1,9}|\|S\d{1,9}", re.ASCII)


def encode(value: Any, where: str) -> Any:
    """What JSON can hold of a value; ProblemError names ``where`` a part of it cannot be stored."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is Unconfirmed:
        return str(value)
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is bytes:
        return {"$bytes": value.hex()}
    if kind in (list, tuple):
        items = [encode(item, f"{where}[{k}]") for k, item in enumerate(value)]
        return items if kind is list else {"$tuple": items}
    if kind is dict:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: encode(item, f"{where}[{key!r}]") for key, item in value.items()}
        pairs = [[encode(key, f"{where} (a key)"), encode(item, f"{where}[{key!r}]")] for key, item in value.items()]
        return {"$map": pairs}
    if kind is np.ndarray or isinstance(value, np.generic):
        return _encode_numpy(value, where)
    if isinstance(value, Solver):
        if CATALOGUE.get(value.name) != f"{kind.__module__}:{kind.__qualname__}":
            raise ProblemError(
                f"{where}: the solver {kind.__name__} is not in dualflow's catalogue, so it could not be made again; "
                "give it by its name and solver_options"
            )
        options = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        return {"$solver": [value.name, encode(options, where)]}
    if is_quantum(value):
        return {"$kernel": encode(value.plain(), where)}
    if kind is np.random.RandomState and value.get_state(legacy=False)["bit_generator"] == "MT19937":
        return {"$random_state": encode(value.get_state(legacy=False), where)}
    what = f"the function {getattr(value, '__name__', value)!r}" if callable(value) else f"a {kind.__name__}"
    raise ProblemError(f"{where}: {what} cannot be stored without pickle{_fix(where)}")


def _fix(where: str) -> str:
    if where.endswith("['ansatz']"):
        return "; keep a model with an ansatz of your own by pickle, or fit with ansatz='tree'"
    return {
        "kernel": "; fit with kernel='precomputed' on the matrix of its values, or with a kernel that has a name",
        "callback": "; it serves training only: set_params(callback=None) before saving",
        "random_state": "; give an integer",
    }.get(where, "; give plain values (numbers, text, lists, dicts) or names")


def _encode_numpy(value: Any, where: str) -> Any:
    dtype = value.dtype.newbyteorder("<")
    if dtype.kind == "O":
        items = [encode(item, f"{where}: an entry") for item in value.flat]
        return {"$array": ["O", list(value.shape), items]}
    if not _NUMPY.fullmatch(dtype.str):
        raise ProblemError(f"{where}: dtype {value.dtype} cannot be stored without pickle; convert it")
    if isinstance(value, np.ndarray):
        return {"$array": [dtype.str, list(value.shape), [encode(item, where) for item in value.ravel().tolist()]]}
    return {"$scalar": [dtype.str, encode(value.item(), where)]}


def decode(value: Any) -> Any:
    """The value that `encode` was given; ValueError, TypeError or KeyError for what it cannot have made, or what would
    take more time and memory than its size lets expect."""
    return _Decoder().decode(value)


class _Decoder:
    """Reads one value, and keeps count of what a short text may make expensive."""

    def __init__(self) -> None:
        self.tags, self.pairs, self.text_bytes = MOST_TAGS, MOST_PAIRS, MOST_TEXT_BYTES

    def decode(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        if not any(key.startswith("$") for key in value):
            return {key: self.decode(item) for key, item in value.items()}
        ((tag, content),) = value.items()
        if tag == "$float":
            return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[content]
        if tag == "$bytes":
            return bytes.fromhex(content)
        if tag == "$tuple":
            return tuple(self.decode(content))
        self.tags = _less(self.tags, 1, "tagged values")
        if tag == "$map":
            self.pairs = _less(self.pairs, len(content), "keys that are not text")
            return {self.decode(key): self.decode(item) for key, item in content}
        if tag == "$scalar":
            name, number = content
            return self.array([str(name).replace("O", "?"), [1], [number]])[0]
        if tag == "$array":
            return self.array(content)
        if tag == "$solver":
            name, options = content
            if name not in CATALOGUE:
                raise ValueError(f"it names a solver {name!r}, which is not in the catalogue")
            return solver_class(name).from_options(self.decode(options))
        if tag == "$kernel":
            plain = self.decode(content)
            return _quantum_kernel(plain["kind"], plain["options"], plain["state"])
        if tag == "$random_state":
            return _generator(self.decode(content))
        raise ValueError(f"its header has an unknown tag {tag!r}")

    def array(self, content: list[Any]) -> NDArray:
        name, shape, items = content
        if math.prod(shape) != len(items) or not all(type(d) is int and 0 <= d <= MOST_EMPTY for d in shape):
            raise ValueError(f"its header has an array of shape {shape} with {len(items)} entries")
        if name == "O":
            objects = np.empty(len(items), dtype=object)
            for k, item in enumerate(items):
                objects[k] = self.decode(item)
            return objects.reshape(shape)
        if not _NUMPY.fullmatch(name):
            raise ValueError(f"its header has an array of dtype {name!r}")
        dtype = np.dtype(name)
        if dtype.kind in "US":
            # All entries are as wide as the dtype says, however short their text is; an empty array has one, too.
            self.text_bytes = _less(self.text_bytes, dtype.itemsize * max(1, len(items)), "bytes of text")
        array = np.array(self.decode(items), dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))
        if _encode_numpy(array, "header") != {"$array": content}:
            raise ValueError(f"its header has an array whose entries are not of dtype {name!r}")
        return array


def is_quantum(value: Any) -> bool:
    """Whether a kernel is one of dualflow's own on circuits, as they are: subclasses would be lost."""
    if not callable(value):
        return False
    from ..quantum.kernels.fidelity import FidelityKernel  # here, as most models have none
    from ..quantum.kernels.projected import ProjectedKernel

    return type(value) in (FidelityKernel, ProjectedKernel)


def _quantum_kernel(kind: Any, options: Any, state: Any) -> Any:
    from ..quantum.kernels.fidelity import FidelityKernel
    from ..quantum.kernels.projected import ProjectedKernel

    kernels: dict[str, Any] = {"fidelity": FidelityKernel, "projected": ProjectedKernel}
    return kernels[kind].from_plain(options, state)


def _less(left: int, taken: int, what: str) -> int:
    if taken > left:
        raise ValueError(f"its header has more {what} than are allowed")
    return left - taken


def _generator(state: Any) -> np.random.RandomState:
    twister = state["state"]
    position, key = twister["pos"], twister["key"]
    # numpy takes any position, and would read memory there.
    if type(position) is not int or not 0 <= position <= 624 or key.shape != (624,) or key.dtype != np.uint32:
        raise ValueError("its random_state is none")
    generator = np.random.RandomState(0)
    generator.set_state(state)
    return generator


#: Version of the format; a file of another one is refused with the version of dualflow that wrote it.
FORMAT = 2

#: The classes a file can hold: nothing else is ever made from one.
CLASSES = {
    "SVC": "dualflow.estimators.svc:SVC",
    "SVDD": "dualflow.estimators.svdd:SVDD",
    "OneClassSVM": "dualflow.estimators.one_class:OneClassSVM",
    "SVR": "dualflow.estimators.svr:SVR",
    "NuSVC": "dualflow.estimators.nu_svm:NuSVC",
    "NuSVR": "dualflow.estimators.nu_svm:NuSVR",
    "LDA": "dualflow.estimators.lda:LDA",
    "LSSVC": "dualflow.estimators.least_squares:LSSVC",
    "LSSVR": "dualflow.estimators.least_squares:LSSVR",
    "EcoSVC": "dualflow.estimators.eco_svc:EcoSVC",
    "EcoSVDD": "dualflow.estimators.eco_svdd:EcoSVDD",
    "IncrementalSVC": "dualflow.estimators.incremental:IncrementalSVC",
    "IncrementalSVDD": "dualflow.estimators.incremental:IncrementalSVDD",
    "IncrementalSVR": "dualflow.estimators.incremental:IncrementalSVR",
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
