"""A solver's state on disk: npz with a JSON header, written atomically, read without pickle."""

from __future__ import annotations

import hashlib
import json
import operator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._files import replacing
from .core.problem import DualProblem
from .exceptions import ProblemError

__all__ = ["Checkpoint", "Saved", "load", "save"]

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to save a run.

    Parameters
    ----------
    path : str or Path
        If the file exists, the run resumes from it; it must belong to the same problem, solver and seed.
    interval_s : float
        Least seconds between two saves; 0 saves after every step. The state at the end, at a limit and at
        Ctrl-C is always saved.
    """

    path: str | Path
    interval_s: float = 1.0


@dataclass(frozen=True)
class Saved:
    """What a checkpoint file holds."""

    state: Any
    steps: int
    wall_time_s: float
    rows: dict[str, NDArray]


def save(path: Path, key: dict[str, Any], saved: Saved) -> None:
    """Write atomically: a full disk or a kill leaves the old file as it was."""
    arrays: dict[str, NDArray] = {f"row:{name}": array for name, array in saved.rows.items()}
    plain: dict[str, Any] = {}
    for f in fields(saved.state):
        if not f.metadata.get("saved", True):
            continue
        value = getattr(saved.state, f.name)
        if isinstance(value, np.ndarray):
            arrays[f"state:{f.name}"] = value
        else:
            plain[f.name] = value.item() if isinstance(value, np.generic) else value
    header = {
        "format": FORMAT,
        "key": key,
        "steps": saved.steps,
        "wall_time_s": saved.wall_time_s,
        "state": plain,
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    with replacing(path) as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]


def load(path: Path, key: dict[str, Any], fresh: Any) -> Saved:
    """Read a checkpoint into a copy of the ``fresh`` state.

    Raises
    ------
    ProblemError
        The file is damaged, of another version, or of another problem, solver, option or seed.
    """
    try:
        header, arrays = _read(path)
        if header["format"] != FORMAT:
            raise ProblemError(f"checkpoint {path} has format {header['format']}, this version reads {FORMAT}")
        for name, value in key.items():
            if header["key"].get(name) != value:
                raise ProblemError(
                    f"checkpoint {path} belongs to another run: its {name} is {header['key'].get(name)!r}, "
                    f"this run's is {value!r}; give another path or delete the file"
                )
        state = {name.removeprefix("state:"): array for name, array in arrays.items() if name.startswith("state:")}
        rows = {name.removeprefix("row:"): array for name, array in arrays.items() if name.startswith("row:")}
        state |= header["state"]
        expected = {f.name for f in fields(fresh) if f.metadata.get("saved", True)}
        if set(state) != expected:
            raise ValueError(f"it holds a state of {sorted(state)}, the solver's has {sorted(expected)}")
        return Saved(replace(fresh, **state), operator.index(header["steps"]), float(header["wall_time_s"]), rows)
    except ProblemError:
        raise
    except Exception as error:  # numpy, zipfile and json between them raise nearly anything on damaged bytes
        raise ProblemError(f"checkpoint {path} is not a dualflow checkpoint or is damaged: {error}") from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray]]:
    with np.load(path, allow_pickle=False) as file:
        return json.loads(file["header"].tobytes()), {name: file[name] for name in file.files if name != "header"}


def fingerprint(problem: DualProblem) -> str:
    """Digest of the numbers that define a problem; a checkpoint resumes only on the same one."""
    digest, gram = hashlib.sha256(), problem.gram
    name = gram.kernel if isinstance(gram.kernel, str) else "callable"
    digest.update(f"{name} {gram.gamma!r} {gram.degree!r} {gram.coef0!r}".encode())
    digest.update(f"{problem.scale!r} {problem.offset!r} {problem.d!r} {problem.model}".encode())
    for array in (
        gram.X,
        problem.p,
        problem.lower,
        problem.upper,
        problem.e,
        problem.sigma,
        problem.ridge,
        problem.idx,
    ):
        digest.update(b"-" if array is None else np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
