"""What tells two machines of one name apart: digests of their gates, noise, options and compiler.

The texts are the same in every process, and hold no secret: what may be one is in them as a digest alone.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np

__all__ = [
    "arguments_of",
    "backend_parts",
    "described",
    "digest",
    "fields_of",
    "instance_of",
    "noise_digest",
    "vars_digest",
]

#: Hexadecimal digits of a digest: two of a thousand machines have the same one with a chance of 2e-9.
DIGITS = 12
#: Options of a backend's `run` that each job sets for itself, or that are said as its noise.
NOT_OPTIONS = ("shots", "noise_model")

#: What the text of an object begins with that says nothing of what it holds.
OPAQUE = "a "
#: Properties of a qubit in a target.
QUBIT = ("t1", "t2", "frequency")


def digest(content: str) -> str:
    """Twelve hexadecimal digits that name a text."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:DIGITS]


def instance_of(thing: Any, module: str, name: str) -> bool:
    """Whether something is of a class that is perhaps not imported; nothing is imported to find out."""
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(thing, cls)


def described(value: Any) -> str:
    """A value as text, by what it holds; of objects that say nothing of themselves, the type."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest() if value.dtype != object else ""
        return f"array({value.dtype}, {value.shape}, {content})"
    if isinstance(value, (Enum, PurePath)):
        return f"{type(value).__qualname__}({value})"
    if isinstance(value, Mapping):
        return f"map({sorted(f'{described(key)}: {described(item)}' for key, item in value.items())})"
    if isinstance(value, (list, tuple, range)):
        return f"[{', '.join(map(described, value))}]"
    if isinstance(value, (set, frozenset)):
        return f"set({sorted(map(described, value))})"
    if instance_of(value, "qiskit_aer.noise", "NoiseModel"):
        return f"NoiseModel({noise_digest(value)})"
    if instance_of(value, "qiskit.providers", "BackendV2"):
        return f"{type(value).__qualname__}({backend_parts(value)})"
    if instance_of(value, "pennylane", "NoiseModel"):
        return described({repr(condition): rule for condition, rule in value.model_map.items()})
    if is_dataclass(value) and not isinstance(value, type):
        held = ", ".join(f"{f.name}={described(getattr(value, f.name, None))}" for f in fields(value))
        return f"{type(value).__qualname__}({held})"
    if hasattr(value, "__code__"):
        return f"{value.__module__}.{value.__qualname__}({_code(value.__code__)}, {_closure(value)})"
    kind = value if isinstance(value, type) else type(value)
    return f"{OPAQUE}{kind.__module__}.{kind.__qualname__}"


def _code(code: Any) -> str:
    """Digest of a function's code and constants; line numbers and addresses are no part of it."""
    constants = [_code(one) if hasattr(one, "co_code") else described(one) for one in code.co_consts]
    return digest(f"{code.co_code.hex()} {constants} {code.co_names}")


def _closure(function: Any) -> str:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return described([cell for cell in cells if not callable(cell)] + list(function.__defaults__ or ()))


def noise_digest(model: Any) -> str:
    """The name of a noise model of Qiskit Aer; two errors added in another order make another name."""
    errors = [{**error, "id": ""} for error in model.to_dict(serializable=True)["errors"]]  # their ids are random
    return digest(json.dumps([errors, sorted(model.basis_gates)], sort_keys=True, default=_number))


def _number(value: Any) -> Any:
    # Aer leaves numpy numbers and arrays in what it calls serializable.
    return np.asarray(value).tolist() if not np.iscomplexobj(value) else str(value)


def vars_digest(thing: Any) -> str:
    """Digest of an object's attributes; those that are None say nothing, as they may be set by its first use."""
    held = {name: value for name, value in vars(thing).items() if value is not None}
    return digest(f"{type(thing).__module__}.{type(thing).__qualname__} {described(held)}")


def backend_parts(backend: Any) -> dict[str, str]:
    """A Qiskit backend's "target", "noise" and "options"; the latter two where it has any."""
    couplings = getattr(backend, "coupling_map", None)
    edges = None if couplings is None else sorted(map(tuple, couplings.get_edges()))
    parts = {"target": digest(f"{_target(backend.target)} {edges}")}
    options = dict(vars(backend.options))
    noise = options.get("noise_model")
    # Fake backends set their options to the noise that their target says, at their first run.
    if noise is not None and instance_of(backend, "qiskit_aer.backends.aerbackend", "AerBackend"):
        parts["noise"] = described(noise) if not hasattr(noise, "is_ideal") else noise_digest(noise)
    usual = vars(type(backend)._default_options())
    own = {
        name: value
        for name, value in options.items()
        if name not in NOT_OPTIONS and (name not in usual or described(usual[name]) != described(value))
    }
    return parts | ({"options": digest(described(own))} if own else {})


def _target(target: Any) -> str:
    """Gates, couplings, error rates and durations of a target."""
    if target is None:
        return "none"
    qubits = [[getattr(one, name, None) for name in QUBIT] for one in target.qubit_properties or ()]
    gates = []
    for name in sorted(target.operation_names):
        for at, known in sorted((target[name] or {}).items(), key=str):
            gates.append((name, at, getattr(known, "duration", None), getattr(known, "error", None)))
    return f"{target.num_qubits} {target.dt} {qubits} {gates}"


def arguments_of(init: Callable[..., None], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, str]:
    """What an object is made of, by the arguments of its ``__init__`` but the first: numbers as they are, all else by a
    digest."""
    try:
        bound = inspect.signature(init).bind(*arguments, **named).arguments
    except (TypeError, ValueError):  # no such call: making the object says so itself, and better
        return {}
    return _short(dict(list(bound.items())[1:]))


def fields_of(thing: Any) -> dict[str, str]:
    """The same of a dataclass, by its fields."""
    return _short({f.name: getattr(thing, f.name, None) for f in fields(thing)})


def _short(values: Mapping[str, Any]) -> dict[str, str]:
    """Numbers as they are, all else by a digest; a client, a file or a function says nothing of a machine."""
    texts = {name: described(value) for name, value in values.items() if not hasattr(value, "__code__")}
    plain = (bool, int, float, np.number, type(None))
    return {
        name: text if isinstance(values[name], plain) else digest(text)
        for name, text in texts.items()
        if not text.startswith(OPAQUE)
    }
