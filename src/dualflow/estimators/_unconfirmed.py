"""Which parameters of a loaded model name code or files, and are nobody's word but the file's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from ..persistence.unconfirmed import Unconfirmed
from ..quantum.devices import CATALOGUE as DEVICES
from ..registry import AUTO
from ..solvers import CATALOGUE as SOLVERS
from ..solvers import Solver

__all__ = ["REACHING", "unconfirmed"]

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
