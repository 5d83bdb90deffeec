"""Plain values as JSON and back, to the bit and to the type; what would need pickle is refused by name.

JSON's own types stay as they are. What it lacks is an object of one key that begins with ``$``: ``$float`` (NaN and
infinities), ``$scalar`` (of numpy), ``$array``, ``$tuple``, ``$map`` (keys that are not text), ``$bytes``, ``$solver``
(name and options), ``$kernel`` (a quantum kernel), ``$random_state``.
"""

from __future__ import annotations

import math
import re
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ..persistence.npy import MOST_EMPTY
from ..persistence.unconfirmed import Unconfirmed
from ..registry import solver_class
from ..solvers import CATALOGUE, Solver

__all__ = ["decode", "encode", "is_quantum"]

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
