"""Save models to files without pickle, and load untrusted files.

`Persistent` is the base class of models that can be saved, `load` reads them. Parameters of a loaded model that name
code or files are marked (`mark_unconfirmed`) and have no effect until the user sets them.

`encode` and `decode` convert plain values to JSON and back, exact to the bit and to the type; values that would need
pickle are refused. JSON's own types stay as they are. Other types become an object with one key that begins with
``$``: ``$float`` (NaN and infinities), ``$scalar`` (of NumPy), ``$array``, ``$tuple``, ``$map`` (a dict whose keys are
not text), ``$bytes``, ``$solver`` (name and options), ``$kernel`` (a quantum kernel), ``$random_state``, ``$estimator``
(class and parameters of an unfitted one).
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

from ..core.runtime.arrays import is_same_array
from ..exceptions import ProblemError
from ..persistence import container
from ..persistence.npy import MAX_EMPTY_DIMENSION
from ..persistence.unconfirmed import Unconfirmed
from ..quantum.devices import DEVICES
from ..solvers import SOLVERS, Solver
from ..solvers.registry import AUTO, solver_class

#: Options of solvers with effects outside the process: the device that runs circuits, and the journal file.
EXTERNAL_OPTIONS = ("device", "journal")


def mark_unconfirmed(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters with those that name code or files marked as `Unconfirmed`, except dualflow's own names."""
    marked = dict(parameters)
    solver, options = marked.get("solver"), marked.get("solver_options")
    if isinstance(solver, str) and solver != AUTO and solver not in SOLVERS.targets:
        marked["solver"] = Unconfirmed(solver)
    elif isinstance(solver, Solver):
        held = {f.name: getattr(solver, f.name) for f in fields(solver) if f.init and f.name in EXTERNAL_OPTIONS}
        if held:
            marked["solver"] = replace(solver, **_marked(held))
    if isinstance(options, dict):
        marked["solver_options"] = _marked(options)
    return marked


def _marked(options: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return a solver's options with those of `EXTERNAL_OPTIONS` marked."""
    return {name: _mark(name, value) if name in EXTERNAL_OPTIONS else value for name, value in options.items()}


def _mark(name: str, value: Any) -> Any:
    """Return the value of an option, marked if it is a text that does not name one of dualflow's devices."""
    is_ours = name == "device" and value in DEVICES.targets and "<" not in value
    return Unconfirmed(value) if isinstance(value, str) and not is_ours else value


#: Most tagged values in a file: making one takes far longer than reading its text.
MAX_TAGS = 1 << 16
#: Most dict entries with keys that are not text in a file: such keys can be chosen so that their hashes collide.
MAX_PAIRS = 1 << 14
#: Most bytes of all arrays of text in a file: each entry is as wide as the dtype says.
MAX_TEXT_BYTES = 1 << 24

_NUMPY = re.compile(r"\|b1|[<|][iu][1248]|<f[248]|<U\d{1,9}|\|S\d{1,9}", re.ASCII)


def encode(value: Any, where: str) -> Any:
    """Return a value as JSON can hold it; `ProblemError` with the place of the part, from ``where`` on, otherwise."""
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
        if SOLVERS.targets.get(value.name) != f"{kind.__module__}:{kind.__qualname__}":
            raise ProblemError(
                f"{where}: the solver {kind.__name__} is not in dualflow's catalogue, so it could not be made again; "
                "give it by its name and solver_options"
            )
        options = {f.name: getattr(value, f.name) for f in fields(value) if f.init}
        return {"$solver": [value.name, encode(options, where)]}
    if is_quantum(value):
        return {"$kernel": encode(value.plain(), where)}
    if isinstance(value, Persistent) and _is_ours(kind):
        return {"$estimator": [kind.__name__, encode(value.get_params(deep=False), where)]}
    if kind is np.random.RandomState and value.get_state(legacy=False)["bit_generator"] == "MT19937":
        return {"$random_state": encode(value.get_state(legacy=False), where)}
    what = f"the function {getattr(value, '__name__', value)!r}" if callable(value) else f"a {kind.__name__}"
    raise ProblemError(f"{where}: {what} cannot be stored without pickle{_fix(where)}")


def _fix(where: str) -> str:
    """Return the end of an error message: what to store instead."""
    if where.endswith("['ansatz']"):
        return "; keep a model with an ansatz of your own by pickle, or fit with ansatz='tree'"
    return {
        "kernel": "; fit with kernel='precomputed' on the matrix of its values, or with a kernel that has a name",
        "callback": "; it serves training only: set_params(callback=None) before saving",
        "random_state": "; give an integer",
        "estimator": "; keep a model around a Pipeline by pickle",
        "cv": "; it serves training only: set_params(cv='auto') before saving",
    }.get(where, "; give plain values (numbers, text, lists, dicts) or names")


def _encode_numpy(value: Any, where: str) -> Any:
    """Return a NumPy array or scalar as JSON can hold it."""
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
    """Return the value that `encode` was given.

    ValueError, TypeError or KeyError are raised for what `encode` does not write, and for values that would take far
    more time or memory than the size of their text suggests.
    """
    return _Decoder().decode(value)


class _Decoder:
    """Decodes one value, and counts what is expensive to make from a short text."""

    def __init__(self) -> None:
        self.tags, self.pairs, self.text_bytes = MAX_TAGS, MAX_PAIRS, MAX_TEXT_BYTES

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
        self.tags = _spend(self.tags, 1, "tagged values")
        if tag == "$map":
            self.pairs = _spend(self.pairs, len(content), "keys that are not text")
            return {self.decode(key): self.decode(item) for key, item in content}
        if tag == "$scalar":
            name, number = content
            return self.array([str(name).replace("O", "?"), [1], [number]])[0]
        if tag == "$array":
            return self.array(content)
        if tag == "$solver":
            name, options = content
            if name not in SOLVERS.targets:
                raise ValueError(f"it names a solver {name!r}, which is not in the catalogue")
            return solver_class(name).from_options(self.decode(options))
        if tag == "$estimator":
            name, parameters = content
            return class_of(name)(**mark_unconfirmed(self.decode(parameters)))
        if tag == "$kernel":
            plain = self.decode(content)
            return _quantum_kernel(plain["kind"], plain["options"], plain["state"])
        if tag == "$random_state":
            return _generator(self.decode(content))
        raise ValueError(f"its header has an unknown tag {tag!r}")

    def array(self, content: list[Any]) -> NDArray:
        """Return the array of dtype, shape and entries, each of which is checked."""
        name, shape, items = content
        if math.prod(shape) != len(items) or not all(type(d) is int and 0 <= d <= MAX_EMPTY_DIMENSION for d in shape):
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
            # Every entry is as wide as the dtype says, even if its text is short; an empty array also allocates one.
            self.text_bytes = _spend(self.text_bytes, dtype.itemsize * max(1, len(items)), "bytes of text")
        array = np.array(self.decode(items), dtype=dtype).reshape(shape).astype(dtype.newbyteorder("="))
        if _encode_numpy(array, "header") != {"$array": content}:
            raise ValueError(f"its header has an array whose entries are not of dtype {name!r}")
        return array


def is_quantum(value: Any) -> bool:
    """Whether a kernel is exactly a `FidelityKernel` or `ProjectedKernel`; a file cannot hold subclasses."""
    if not callable(value):
        return False
    from ..quantum.kernels.fidelity import FidelityKernel  # imported here, because most models need none
    from ..quantum.kernels.projected import ProjectedKernel

    return type(value) in (FidelityKernel, ProjectedKernel)


def _quantum_kernel(kind: Any, options: Any, state: Any) -> Any:
    """Return the quantum kernel that a file describes."""
    from ..quantum.kernels.fidelity import FidelityKernel
    from ..quantum.kernels.projected import ProjectedKernel

    kernels: dict[str, Any] = {"fidelity": FidelityKernel, "projected": ProjectedKernel}
    return kernels[kind].from_plain(options, state)


def _spend(left: int, taken: int, what: str) -> int:
    """Return what is left of a budget; ValueError if it is exceeded."""
    if taken > left:
        raise ValueError(f"its header has more {what} than are allowed")
    return left - taken


def _generator(state: Any) -> np.random.RandomState:
    """Return the random generator that a file describes; ValueError if its state is not valid."""
    twister = state["state"]
    position, key = twister["pos"], twister["key"]
    # NumPy does not check the position, and would read memory there.
    if type(position) is not int or not 0 <= position <= 624 or key.shape != (624,) or key.dtype != np.uint32:
        raise ValueError("its random_state is not the state of a generator")
    generator = np.random.RandomState(0)
    generator.set_state(state)
    return generator


#: Version of the file format. Files of another one are refused, with the version of dualflow that wrote them.
FORMAT = 2

#: The classes that a file can hold; objects of other classes are never made from a file.
CLASSES = {
    "SVC": "dualflow.estimators.svc:SVC",
    "SVDD": "dualflow.estimators.svdd:SVDD",
    "OneClassSVM": "dualflow.estimators.one_class:OneClassSVM",
    "SVR": "dualflow.estimators.svr:SVR",
    "QuantileSVR": "dualflow.estimators.quantile_svr:QuantileSVR",
    "CascadeSVC": "dualflow.estimators.cascade_svc:CascadeSVC",
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
    "ConformalSVC": "dualflow.conformal.classifier:ConformalSVC",
    "ConformalSVR": "dualflow.conformal.regressor:ConformalSVR",
}


def class_of(name: Any) -> Any:
    """Return the class that a file names; ValueError for one that no file can hold."""
    if name not in CLASSES:
        raise ValueError(f"its class {name!r} is not one of {', '.join(CLASSES)}")
    module, _, attribute = CLASSES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def _is_ours(kind: type) -> bool:
    """Whether a class is in `CLASSES`."""
    return CLASSES.get(kind.__name__) == f"{kind.__module__}:{kind.__qualname__}"


class Persistent(BaseEstimator):
    """Base class of estimators that can be saved: they have `_pack`, `_unpack` and a line in `CLASSES`."""

    n_features_in_: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that `dualflow.load` reads. The file contains no pickle.

        The file replaces ``path`` as a whole or not at all. It holds the parameters, the α of `solutions_` and the
        *training data* (for a precomputed kernel, the matrix). Certificates and statuses are not stored: they are
        computed when the file is loaded. Equal models give equal bytes; two fits differ in the seconds they took and,
        without a seed, in the seed drawn. Parameters changed after the fit are stored beside those of the fit.

        Parameters
        ----------
        path : str or Path
            Name of the file, with any suffix. Missing folders are created.

        Raises
        ------
        NotFittedError
            The model is not fitted.
        ProblemError
            A part of the model cannot be stored without pickle: a callable kernel (other than a quantum kernel with a
            named feature map), a callback, or a device or solver that is not dualflow's own. The message names the
            parameter and what to do. The error is also raised for a model from a pickle without training data.
        OSError
            The file cannot be written. An existing file is unchanged.
        """
        save_with_header(self, path, {})

    def _header(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Return header and arrays of the file."""
        kind = type(self)
        if not _is_ours(kind):
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
            # Labels may be Python objects; as plain JSON values they need no pickle.
            "objects": {name: encode(array, name) for name, array in arrays.items() if array.dtype.kind == "O"},
        }
        if changed:
            header["changed"] = {name: encode(value, name) for name, value in changed.items()}
        return header, {name: a for name, a in arrays.items() if a.dtype.kind != "O"}

    def _content(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Return `_pack` with the values that a quantum kernel has measured."""
        arrays, facts = self._pack()
        if is_quantum(kernel := self._as_fitted.kernel):
            arrays |= {f"kernel.{name}": array for name, array in kernel.known().items()}
        return arrays, facts

    def _keep_parameters(self) -> None:
        """Keep the current parameters as those of the fit."""
        raise NotImplementedError

    @property
    def _as_fitted(self) -> Any:
        """The parameters of the fit, as far as the fitted model uses them."""
        raise NotImplementedError

    def _changed(self) -> dict[str, Any]:
        """Return the parameters that were changed after the fit."""
        raise NotImplementedError

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Return the fitted state for `save`, without changing the model.

        An estimator that can be saved defines this method and `_unpack`, and has a line in `CLASSES`.

        Returns
        -------
        arrays : dict of arrays
            Names consist of letters, digits, ``_`` and ``.``. The dtypes are bool, int, float (up to 8 bytes a number),
            text, bytes, dates, and object if the entries are plain values (labels). The arrays must determine all later
            results to the bit: a model loaded between two calls of ``partial_fit`` must continue with the same bits, so
            inverses and caches that carry round-off are packed too. Certificates and statuses are not packed, but
            computed. Values without later use (times, counters of work) should be left out, because they make files of
            equal models differ.
        facts : dict
            Plain values: None, bool, int, float, text, lists, tuples, dicts, NumPy numbers.

        Notes
        -----
        The base class stores constructor parameters, ``n_features_in_`` and ``feature_names_in_``. `_packing` has
        helpers for solutions with their Gram, and for attributes by a table of dtypes and dimensions.
        """
        raise NotImplementedError

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        """Set the fitted state that `_pack` returned, on a new estimator with parameters and feature names.

        The estimator may keep the arrays. The file is untrusted: this method checks dtypes, shapes, ranges of indices
        and finiteness (`_verify.stored`) before compiled code uses the arrays, and that the values agree with each
        other (`_verify.agree`), so that the model predicts what the certificate of its points and its α certifies. Any
        exception becomes a ProblemError that names the file. Afterwards `_pack` must return exactly what was read;
        `load` verifies this, so that no array and no fact is ignored.
        """
        raise NotImplementedError


def save_with_header(model: Persistent, path: str | os.PathLike[str], beside: dict[str, Any]) -> None:
    """Save a model with additional values in the file's header.

    ``beside`` holds values for JSON under names that the model does not use. `load` ignores them, `load_with_header`
    returns them.
    """
    header, arrays = model._header()
    container.write(Path(path), beside | header, arrays)


def load(path: str | os.PathLike[str], *, max_bytes: int = 1 << 32, trusted: bool = False) -> Any:
    """Read a model from a file that its ``save`` wrote. The file may be untrusted: no code in it is executed.

    All checksums are verified before anything else is read, and all values are checked before they become part of a
    model. Certificates and statuses are computed from the points and α, which takes as long as predicting all training
    points, and a file that contradicts them is refused. So a manipulated file may hold another model, but not one that
    appears better than it is. Records of the fit cannot be verified: `Solution.cost`, ``Solution.provenance``, the
    reason why a run ended above its tolerance, and counts of points.

    Parameters that name code or files have no effect at first. With a solver or a device that is not dualflow's own
    (such as "backend:<module>:<factory>"), or with a journal, ``fit`` raises an error until they are set by
    `set_params`, to the same value or another. This also holds for clones of the model. Predictions do not need them,
    except for the device of a quantum kernel: its values at new points need ``trusted=True``.

    Parameters
    ----------
    path : str or Path
        Name of the file.
    max_bytes : int, default=2**32
        Larger files are refused. A file unpacks to no more than its own size.
    trusted : bool, default=False
        Whether parameters that name code or files may be used. Nothing else depends on it.

    Returns
    -------
    estimator
        A model of the saved class in the saved state. Its predictions, and the results of the next ``fit`` (with
        ``warm_start``) or ``partial_fit``, are equal to the bit.

    Raises
    ------
    ProblemError
        The file is of another kind (a pickle, an npz), damaged, truncated, larger than ``max_bytes``, of a format that
        this version does not read, or contradicts itself. The message says what was found, and which version to
        install.
    OSError
        The file cannot be read.

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
    return load_with_header(path, max_bytes=max_bytes, trusted=trusted)[0]


def load_with_header(
    path: str | os.PathLike[str], *, max_bytes: int = 1 << 32, trusted: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Return a model and the file's unchecked header, in which `save_with_header` may have stored more values."""
    path = Path(path)
    header, arrays = container.read(path, max_bytes)
    _check_format(path, header)
    try:
        return model_of(header, arrays, trusted), header
    except Exception as error:  # a manipulated file may lead to any kind of error
        raise ProblemError(f"{path} holds no sound model: {error or type(error).__name__}") from error


def _check_format(path: Path, header: dict[str, Any]) -> None:
    """Raise `ProblemError` for a file of another format, with the version of dualflow that reads it."""
    found, version = header.get("format"), str(header.get("dualflow"))
    if not re.fullmatch(r"[0-9]+(\.[0-9a-z]+)*", version, re.ASCII):  # the message puts it into a command
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
            f"{path} has format {found}, written by dualflow {version}, which stores certificates that cannot be "
            f"verified; this version reads format {FORMAT}, and computes them: fit and save the model again, or load "
            f"it with dualflow {version}"
        )


def model_of(header: dict[str, Any], arrays: dict[str, NDArray], trusted: bool) -> Any:
    """Return the model of a file's header and arrays, checked; any exception means that the file is not sound."""
    name = header["class"]
    kind = class_of(name)
    parts = {"changed": {}} | {part: header[part] for part in ("parameters", "features", "objects", "facts")}
    values = decode(parts | {part: header[part] for part in ("changed",) if part in header})  # with one budget
    parameters, changed, facts = values["parameters"], values["changed"], values["facts"]
    if unknown := set(parameters | changed) - set(kind().get_params(deep=False)):
        raise ValueError(f"{name} has no parameters {sorted(unknown)}")
    model = kind(**(parameters if trusted else mark_unconfirmed(parameters)))
    model._keep_parameters()
    n, names = values["features"]["n"], values["features"]["names"]
    if type(n) is not int or n < 1:
        raise ValueError(f"its number of features is {n!r}")
    model.n_features_in_ = n
    if names is not None:
        model.feature_names_in_ = names
        if model.feature_names_in_.shape != (n,) or not all(type(text) is str for text in model.feature_names_in_):
            raise ValueError(f"its feature names are not {n} names")
    arrays = arrays | values["objects"]
    kernel = model._as_fitted.kernel
    if is_quantum(kernel):
        kernel.learn({name.removeprefix("kernel."): array for name, array in arrays.items()})
    model._unpack(arrays, facts)
    # The model must write exactly what was read: then no value was left out, ignored or converted.
    again, facts_again = model._content()
    if encode(facts_again, "") != header["facts"] or set(again) != set(arrays):
        raise ValueError("its contents are not those of the model they make")
    for key, array in again.items():
        if not is_same_array(array, arrays[key]):
            raise ValueError(f"its array {key!r} is not that of the model it makes")
    for value in (kernel, changed.get("kernel")):
        if is_quantum(value):
            value.allow(trusted)
    return model.set_params(**(changed if trusted else mark_unconfirmed(changed)))
