"""Where the rows of a part are: small descriptions that travel, and are read where they are used."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.kernel_functions import as_matrix
from ..exceptions import ProblemError, SolverUnavailable

__all__ = ["Chunk", "Loaded", "Mapped", "Part", "RowGroup", "Rows", "load", "row_groups"]


class Loaded(NamedTuple):
    """The rows of a part: X of shape (n, m), labels and weights of shape (n,); None are weights of 1."""

    X: NDArray
    y: NDArray
    weight: NDArray | None = None


class Part(Protocol):
    """A part of the data: what `CascadeSVC` is given a list of where no array holds them all.

    Any object that can be pickled and has a ``load`` is one. It is called anew in every round, where the part is used,
    and must return the same rows each time.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import CascadeSVC
    >>> class Shifted:  # a part of one's own
    ...     def __init__(self, seed):
    ...         self.seed = seed
    ...
    ...     def load(self):
    ...         X = np.random.default_rng(self.seed).normal(size=(40, 2))
    ...         return X, X[:, 0] > 0
    ...
    >>> model = CascadeSVC(C=10.0).fit([Shifted(0), Shifted(1)])
    >>> model.predict([[-1.0, 0.0], [1.0, 0.0]])
    array([False,  True])
    """

    def load(self) -> tuple[Any, Any] | tuple[Any, Any, Any]:
        """X of shape (n, m) and y of shape (n,), and weights of shape (n,) if there are any."""
        ...


@dataclass(frozen=True)
class Mapped:
    """Rows of an array in a file, C-contiguous: what `numpy.memmap` needs to open it again."""

    path: str
    dtype: Any
    shape: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, array: Any) -> Mapped | None:
        """The description of a memory map, or of a run of its rows; None if the array is none."""
        if not isinstance(array, np.memmap) or not array.flags.c_contiguous or array.filename is None:
            return None
        root: Any = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        if not isinstance(root, np.memmap):
            return None
        offset = root.offset + array.__array_interface__["data"][0] - root.__array_interface__["data"][0]
        return cls(str(array.filename), array.dtype, array.shape, offset)

    def take(self, rows: NDArray | slice) -> NDArray:
        """Some rows, in memory."""
        return np.array(np.memmap(self.path, self.dtype, "r", self.offset, self.shape)[rows])


@dataclass(frozen=True)
class Rows:
    """Rows of arrays: these alone, in memory, or of those in a file the ``rows`` that are named."""

    X: NDArray | Mapped
    y: NDArray | Mapped
    weight: NDArray | Mapped | None
    rows: NDArray | slice

    def load(self) -> Loaded:
        """The rows."""
        return Loaded(self._of(self.X), self._of(self.y), None if self.weight is None else self._of(self.weight))

    def _of(self, array: NDArray | Mapped) -> NDArray:
        return array.take(self.rows) if isinstance(array, Mapped) else array


@dataclass(frozen=True)
class RowGroup:
    """A row group of a parquet file.

    Parameters
    ----------
    path : str or Path
        As all who are to read it know it.
    group : int
        Its number.
    target : str
        The column of the labels.
    features : tuple of str, optional
        The columns of X; all others by default.
    weight : str, optional
        The column of the weights.

    Examples
    --------
    >>> from dualflow.cascade import RowGroup
    >>> RowGroup("data.parquet", 0, target="label").group
    0
    """

    path: str | Path
    group: int
    target: str
    features: tuple[str, ...] | None = None
    weight: str | None = None

    def load(self) -> Loaded:
        """The rows."""
        table = _parquet(self.path).read_row_group(self.group)
        asked = {self.target, *(self.features or ()), *([self.weight] if self.weight else ())}
        if missing := asked - set(table.column_names):
            raise ProblemError(f"{self.path} has no column {sorted(missing)}; its columns are {table.column_names}")
        others = [name for name in table.column_names if name not in (self.target, self.weight)]
        columns = [_numbers(table[name], name, self.path) for name in self.features or others]
        weight = None if self.weight is None else _numbers(table[self.weight], self.weight, self.path)
        return Loaded(np.column_stack(columns), np.asarray(table[self.target].to_numpy(zero_copy_only=False)), weight)


def row_groups(
    path: str | Path, target: str, *, features: tuple[str, ...] | None = None, weight: str | None = None
) -> list[RowGroup]:
    """The row groups of a parquet file, as parts for `CascadeSVC.fit`.

    Parameters
    ----------
    path : str or Path
        As all who are to read it know it.
    target : str
        The column of the labels.
    features : tuple of str, optional
        The columns of X; all others by default.
    weight : str, optional
        The column of the weights.

    Raises
    ------
    SolverUnavailable
        pyarrow is not installed.
    ProblemError
        The file is no parquet file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dualflow import CascadeSVC
    >>> from dualflow.cascade import row_groups
    >>> import pyarrow, pyarrow.parquet
    >>> X = np.random.default_rng(0).normal(size=(90, 2))
    >>> table = pyarrow.table({"a": X[:, 0], "b": X[:, 1], "label": X[:, 0] > 0})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pyarrow.parquet.write_table(table, Path(folder) / "data.parquet", row_group_size=30)
    ...     parts = row_groups(Path(folder) / "data.parquet", target="label")
    ...     model = CascadeSVC(C=10.0).fit(parts)
    ...
    >>> len(parts), model.certificate_.within(1e-3)
    (3, True)
    """
    path = str(path)
    return [RowGroup(path, k, target, features, weight) for k in range(_parquet(path).num_row_groups)]


def _parquet(path: str | Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise SolverUnavailable("reading parquet needs pyarrow: pip install 'dualflow[parquet]'") from error
    try:
        return pyarrow.parquet.ParquetFile(path)
    except (pyarrow.ArrowException, FileNotFoundError) as error:
        raise ProblemError(f"{path} cannot be read as parquet: {error}") from error


def _numbers(column: Any, name: str, path: str | Path) -> NDArray:
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    if values.dtype.kind not in "biuf":
        raise ProblemError(f"{path}: column {name!r} holds {column.type}; numbers are needed")
    return values.astype(float)


@dataclass(frozen=True)
class Chunk:
    """A chunk of dask collections: objects of `dask.delayed`, which whoever has the cluster computes.

    Where there is none they are computed in this process, by one thread.
    """

    X: Any
    y: Any
    weight: Any = None

    def delayed(self) -> Any:
        """The part, `Loaded`, as one such object."""
        import dask

        return dask.delayed(Loaded, pure=True)(self.X, self.y, self.weight)

    def load(self) -> Loaded:
        """The rows."""
        found: Loaded = self.delayed().compute(scheduler="synchronous")
        return found


def load(part: Part | Loaded, number: int) -> Loaded:
    """What a part holds, checked: X a finite matrix of float64, labels and weights one a row."""
    found = Loaded(*(part if isinstance(part, Loaded) else part.load()))
    X, y = _plain(found.X), _plain(found.y)
    # A filter may have left nothing of a part.
    X = np.empty(X.shape) if X.ndim == 2 and len(X) == 0 else as_matrix(X, f"part {number}: X")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    weight = None if found.weight is None else np.asarray(_plain(found.weight), dtype=float)
    if y.shape != (len(X),) or (weight is not None and weight.shape != (len(X),)):
        shapes = f"{y.shape}" + ("" if weight is None else f" and {weight.shape}")
        raise ProblemError(
            f"part {number}: X has {len(X)} rows, labels{' and weights' * (weight is not None)} {shapes}"
        )
    if weight is not None and not np.isfinite(weight).all():
        raise ProblemError(f"part {number}: sample_weight contains NaN or infinity")
    return Loaded(X, y, weight)


def _plain(values: Any) -> NDArray:
    """An array of a frame, a series or a list."""
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
