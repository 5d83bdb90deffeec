"""Checkpoints: a solver's state on disk, as an npz file with a JSON header, written atomically and read without pickle.

A state is a dataclass. Its fields have their declared types: arrays, numbers, text, tuples and dicts of these, other
such dataclasses, or None where the declaration allows it. What is read has these types, and nothing else is trusted:
the driver certifies the state anew, and blames the file for errors that it causes.

`save` and `load` write and read a file. `CheckpointFile` is the file of one run: what it resumed, when it was saved
last, and why saving failed.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import time
import types
import typing
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number
from ..core.runtime.warn import warn_user
from ..exceptions import DeviceError, ProblemError
from ..persistence.files import open_regular, replacing
from ..persistence.npy import array_of
from ..solvers import Solver

#: Version of the file format.
FORMAT = 4
#: Kinds of dtype that an array of a state may have.
_KINDS = "biuf"
#: Bytes of a file, at most: a state is a few arrays of n numbers, or a population of these.
MAX_BYTES = 1 << 36
#: Bytes of its header, at most.
HEADER_BYTES = 1 << 26


@dataclass(frozen=True)
class Checkpoint:
    """Where and how often to save a run.

    Parameters
    ----------
    path : str or Path
        If the file exists, the run resumes from it; it must belong to the same problem, solver, seed and start.
    interval_s : float ≥ 0
        Least seconds between two saves; 0 saves after every step. The state at the end, at a limit and at
        Ctrl-C is always saved.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dualflow import Checkpoint, Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     saving = Checkpoint(Path(folder) / "run.npz", interval_s=0.0)
    ...     begun = solve(problem, "gradient-flow", checkpoint=saving, max_steps=2)
    ...     ended = solve(problem, "gradient-flow", checkpoint=saving)  # goes on from there
    ...
    >>> begun.status.name, ended.status.name, ended.cost.steps > 2
    ('STEP_LIMIT', 'OPTIMAL', True)
    """

    path: str | Path
    interval_s: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, os.PathLike)):
            raise TypeError(f"checkpoint: a path is needed, found {type(self.path).__name__}")
        Number(at_least=0, infinite=True, note="(in seconds)").check("interval_s", self.interval_s)


@dataclass(frozen=True)
class Saved:
    """The content of a checkpoint file."""

    path: Path
    state: Any  # of the solver's ``state_type``
    steps: int
    wall_time_s: float  # solver seconds of all runs so far
    #: Columns of the trajectory that cannot be computed from its other columns and the problem; dict of arrays.
    rows: dict[str, NDArray]


def save(saved: Saved, key: dict[str, Any]) -> None:
    """Write a checkpoint atomically: a full disk (an OSError) or a kill leaves the old file as it was."""
    arrays: dict[str, NDArray] = {f"row:{name}": array for name, array in saved.rows.items()}
    header = {"format": FORMAT, "key": key, "steps": saved.steps, "wall_time_s": saved.wall_time_s}
    header["state"] = _to_json(saved.state, "state", arrays)
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    # Built in memory first: if writing fails, zipfile's own errors would hide the reason.
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    with replacing(saved.path) as file:
        file.write(content.getbuffer())


class _Probed(Exception):  # noqa: N818 - not an error: it leaves the context without writing
    """The file can be written; nothing is."""


def check_writable(path: Path) -> None:
    """Raise `ProblemError` if no checkpoint can be written, before a run rather than an hour into it."""
    try:
        with contextlib.suppress(_Probed), replacing(path):
            raise _Probed
    except ProblemError as error:
        raise ProblemError(f"checkpoint {error}") from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise ProblemError(f"checkpoint {path} cannot be written: {reason}; give another path") from error


def load(path: Path, key: dict[str, Any], state_type: type) -> Saved:
    """Read a checkpoint of a run with the given key, and with a state of the given type.

    Raises
    ------
    ProblemError
        The file is damaged, of another version, or of another problem, solver, option or seed.
    """
    try:
        header, arrays = _read(path)
        if header["format"] != FORMAT:
            other = "an earlier version" if header["format"] in (1, 2, 3) else "another version"
            raise ProblemError(
                f"checkpoint {path} has format {header['format']}, this version reads {FORMAT}: {other} of "
                "dualflow wrote it; finish the run with that version, or delete the file"
            )
        for name, value in key.items():
            if header["key"].get(name) != value:
                raise ProblemError(
                    f"checkpoint {path} belongs to another run: its {name} is {header['key'].get(name)!r}, "
                    f"this run's is {value!r}; give another path or delete the file"
                )
        state = _from_json(state_type, header["state"], "state", arrays)
        rows = {name.removeprefix("row:"): arrays.pop(name) for name in list(arrays) if name.startswith("row:")}
        if arrays:
            raise ValueError(f"it holds arrays {sorted(arrays)} that belong to nothing")
        steps = _exactly(int, header["steps"], "steps")
        wall_time_s = _exactly(float, header["wall_time_s"], "wall_time_s")
        if steps < 0 or not 0.0 <= wall_time_s < math.inf:
            raise ValueError(f"it says that {steps} steps took {wall_time_s} s")
        return Saved(path, state, steps, wall_time_s, rows)
    except ProblemError:
        raise
    except Exception as error:  # numpy, zipfile and json between them raise nearly anything on damaged bytes
        raise ProblemError(f"checkpoint {path} is not a dualflow checkpoint or is damaged: {error}") from error


def _to_json(value: Any, where: str, arrays: dict[str, NDArray]) -> Any:
    """Return the part of a state that JSON can hold; its arrays go to ``arrays`` under their names, and become null."""
    if is_dataclass(value):
        return {f.name: _to_json(getattr(value, f.name), f"{where}:{f.name}", arrays) for f in fields(value)}
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in _KINDS:
            raise ProblemError(f"checkpoint: the array {where} has dtype {value.dtype}, which a file cannot hold")
        arrays[where] = value
        return None
    if isinstance(value, Mapping):
        return {str(name): _to_json(item, f"{where}:{name}", arrays) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_to_json(item, f"{where}:{k}", arrays) for k, item in enumerate(value)]
    return value.item() if isinstance(value, np.generic) else value


def _from_json(kind: Any, plain: Any, where: str, arrays: dict[str, NDArray]) -> Any:
    """Return the value of a declared type from the output of `_to_json`, and remove its arrays from ``arrays``.

    ValueError if the value is of another type.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        kind = np.ndarray if where in arrays else type(plain)
        if kind is list:
            return [_from_json(Any, item, f"{where}:{k}", arrays) for k, item in enumerate(plain)]
    if origin in (typing.Union, types.UnionType):
        if plain is None and where not in arrays and type(None) in arguments:
            return None
        (kind,) = (argument for argument in arguments if argument is not type(None))
        return _from_json(kind, plain, where, arrays)
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        names = [f.name for f in fields(kind)]
        # A field with a default may have been added to the type after the file was written.
        needed = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}
        if not isinstance(plain, dict) or not needed <= set(plain) <= set(names):
            raise ValueError(f"its {where} is not of {names}")
        return kind(**{name: _from_json(hints[name], plain[name], f"{where}:{name}", arrays) for name in plain})  # type: ignore[operator]
    if kind is np.ndarray or origin is np.ndarray:
        array = arrays.pop(where, None)
        if array is None or array.dtype.kind not in _KINDS:
            raise ValueError(f"its {where} is no array of numbers")
        return array
    if origin is tuple:
        items = _exactly(list, plain, where)
        kinds = [arguments[0]] * len(items) if arguments[-1] is Ellipsis else arguments
        return tuple(
            _from_json(own, item, f"{where}:{k}", arrays)
            for k, (own, item) in enumerate(zip(kinds, items, strict=True))
        )
    if (origin or kind) is dict:
        item_kind = arguments[1] if arguments else Any
        items = _exactly(dict, plain, where).items()
        return {name: _from_json(item_kind, item, f"{where}:{name}", arrays) for name, item in items}
    if kind is float and type(plain) is int:
        return float(plain)
    return _exactly(kind, plain, where)


def _exactly(kind: type, value: Any, where: str) -> Any:
    """Return the value if it is of exactly the given type; else ValueError."""
    if type(value) is not kind:
        raise ValueError(f"its {where} is {value!r}, not of type {kind.__name__}")
    return value


def _read(path: Path) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return header and arrays; ValueError before anything is allocated if a file unpacks to more than its size."""
    with open_regular(path, MAX_BYTES, "MAX_BYTES", "checkpoint ") as file, zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not stored or sum(member.file_size for member in members) > os.fstat(file.fileno()).st_size:
            raise ValueError("it unpacks to more than its size")
        arrays = {
            member.filename.removesuffix(".npy"): array_of(member.filename, archive.read(member), _KINDS, True)
            for member in members
        }
    text = arrays.pop("header").tobytes()
    if len(text) > HEADER_BYTES:
        raise ValueError(f"its header has {len(text)} bytes")
    return json.loads(text), arrays


@dataclass
class CheckpointFile:
    """The checkpoint file of a run, if it has one."""

    checkpoint: Checkpoint | None
    key: dict[str, Any] = field(default_factory=dict)  # identifies the run: a file with another key is refused
    saved: Saved | None = None  # what the run resumed from
    #: Whether states may be saved. False until the run has started, so that an incomplete start replaces no file.
    open: bool = False
    error: str | None = None  # why the last save failed
    saved_at: float = 0.0

    @classmethod
    def of(cls, checkpoint: str | Path | Checkpoint | None) -> CheckpointFile:
        """Return the file for the ``checkpoint`` argument of `solve`."""
        given = checkpoint is None or isinstance(checkpoint, Checkpoint)
        return cls(checkpoint if given else Checkpoint(checkpoint))  # type: ignore[arg-type]

    @property
    def path(self) -> Path | None:
        """Path of the file, which need not exist."""
        return None if self.checkpoint is None else Path(self.checkpoint.path)

    def load(self, engine: Solver[Any, Any]) -> Saved | None:
        """Return the content of the file if it exists; `ProblemError` if it is another run's, or not writable."""
        if self.path is None:
            return None
        check_writable(self.path)
        self.saved = load(self.path, self.key, engine.state_type) if self.path.exists() else None
        return self.saved

    def begin(self) -> None:
        """Allow saves from now on."""
        self.open, self.saved_at = True, time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time for a save."""
        due = self.checkpoint is not None and time.monotonic() - self.saved_at >= self.checkpoint.interval_s
        return self.open and due

    def save(self, state: Any, steps: int, wall_time_s: float, rows: dict[str, Any]) -> None:
        """Save a state; a full disk is a warning, and does not end the run."""
        if self.path is None or not self.open:
            return
        try:
            save(Saved(self.path, state, steps, wall_time_s, rows), self.key)
        except OSError as error:
            if self.error is None:
                text = f"checkpoint {self.path} could not be written at step {steps}: {error}; the run goes on"
                warn_user(text)
            self.error = str(error)
        else:
            self.error = None
        self.saved_at = time.monotonic()

    @contextlib.contextmanager
    def blame_file(self) -> Iterator[None]:
        """Turn errors within into a `ProblemError` that names the file, if the run was resumed from one."""
        try:
            yield
        except DeviceError:
            raise
        except Exception as error:
            if self.saved is None:
                raise
            raise ProblemError(
                f"checkpoint {self.saved.path} holds a state that is not one of this problem: {error}; delete the file"
            ) from error
