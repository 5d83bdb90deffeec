"""Texts that distinguish two machines of one name: digests of their gates, noise, options and compiler.

The texts are equal in every process and hold no secrets: values that may be secret appear only in digests.
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

#: Hexadecimal digits of a digest: among a thousand machines two digests agree with a probability of 2e-9.
DIGEST_DIGITS = 12
#: Options of a backend's `run` that are left out: each job sets its shots, and the noise has its own part.
IGNORED_OPTIONS = ("shots", "noise_model")

#: Start of the text of an object that is described by its type only.
OPAQUE_PREFIX = "a "
#: Properties of a qubit in a Qiskit target.
QUBIT_PROPERTIES = ("t1", "t2", "frequency")


def digest(content: str) -> str:
    """Return twelve hexadecimal digits of the SHA-256 of a text."""
    return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_DIGITS]


def instance_of(thing: Any, module: str, name: str) -> bool:
    """Return whether an object is an instance of a class, without importing the class' module."""
    cls = getattr(sys.modules.get(module), name, None)
    return cls is not None and isinstance(thing, cls)


def described(value: Any) -> str:
    """Return a value as text, by its content; objects of unknown types are described by their type only."""
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
    return f"{OPAQUE_PREFIX}{kind.__module__}.{kind.__qualname__}"


def _code(code: Any) -> str:
    """Return a digest of a function's code and constants, without line numbers and addresses."""
    constants = [_code(one) if hasattr(one, "co_code") else described(one) for one in code.co_consts]
    return digest(f"{code.co_code.hex()} {constants} {code.co_names}")


def _closure(function: Any) -> str:
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return described([cell for cell in cells if not callable(cell)] + list(function.__defaults__ or ()))


def noise_digest(model: Any) -> str:
    """Return a digest of a noise model of Qiskit Aer; it depends on the order in which errors were added."""
    errors = [{**error, "id": ""} for error in model.to_dict(serializable=True)["errors"]]  # their ids are random
    return digest(json.dumps([errors, sorted(model.basis_gates)], sort_keys=True, default=_number))


def _number(value: Any) -> Any:
    # Aer's "serializable" form still contains numpy numbers and arrays.
    return np.asarray(value).tolist() if not np.iscomplexobj(value) else str(value)


def vars_digest(thing: Any) -> str:
    """Return a digest of an object's attributes, without those that are None: its first use may set these."""
    held = {name: value for name, value in vars(thing).items() if value is not None}
    return digest(f"{type(thing).__module__}.{type(thing).__qualname__} {described(held)}")


def backend_parts(backend: Any) -> dict[str, str]:
    """Return digests of a Qiskit backend: "target", and "noise" and "options" if it has any."""
    couplings = getattr(backend, "coupling_map", None)
    edges = None if couplings is None else sorted(map(tuple, couplings.get_edges()))
    parts = {"target": digest(f"{_target(backend.target)} {edges}")}
    options = dict(vars(backend.options))
    noise = options.get("noise_model")
    # At their first run, fake backends set this option to the noise of their target: count it for Aer's backends only.
    if noise is not None and instance_of(backend, "qiskit_aer.backends.aerbackend", "AerBackend"):
        parts["noise"] = described(noise) if not hasattr(noise, "is_ideal") else noise_digest(noise)
    defaults = vars(type(backend)._default_options())
    changed = {
        name: value
        for name, value in options.items()
        if name not in IGNORED_OPTIONS and (name not in defaults or described(defaults[name]) != described(value))
    }
    return parts | ({"options": digest(described(changed))} if changed else {})


def _target(target: Any) -> str:
    """Return the gates, couplings, error rates and durations of a target as text."""
    if target is None:
        return "none"
    qubits = [[getattr(one, name, None) for name in QUBIT_PROPERTIES] for one in target.qubit_properties or ()]
    gates = []
    for name in sorted(target.operation_names):
        for at, known in sorted((target[name] or {}).items(), key=str):
            gates.append((name, at, getattr(known, "duration", None), getattr(known, "error", None)))
    return f"{target.num_qubits} {target.dt} {qubits} {gates}"


def arguments_of(init: Callable[..., None], arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments of an ``__init__`` except the first by name: numbers as text, other values as digests."""
    try:
        bound = inspect.signature(init).bind(*arguments, **named).arguments
    except (TypeError, ValueError):  # invalid arguments: the call of ``__init__`` raises a better error
        return {}
    return _short(dict(list(bound.items())[1:]))


def fields_of(thing: Any) -> dict[str, str]:
    """Return the fields of a dataclass by name: numbers as text, other values as digests."""
    return _short({f.name: getattr(thing, f.name, None) for f in fields(thing)})


def _short(values: Mapping[str, Any]) -> dict[str, str]:
    """Return numbers as text and other values as digests; leave out clients, files and functions."""
    texts = {name: described(value) for name, value in values.items() if not hasattr(value, "__code__")}
    plain = (bool, int, float, np.number, type(None))
    return {
        name: text if isinstance(values[name], plain) else digest(text)
        for name, text in texts.items()
        if not text.startswith(OPAQUE_PREFIX)
    }
