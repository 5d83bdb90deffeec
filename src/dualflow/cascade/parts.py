"""Parts of the data: small descriptions that are sent to a process or worker and read there."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.kernel_functions import as_matrix
from ..core.sparse_points import is_sparse
from ..exceptions import ProblemError, SolverUnavailable

#: Bytes that a sparse part may take as a dense one.
MAX_DENSE_BYTES = 1 << 30


class Loaded(NamedTuple):
    """The rows of a part: X of shape (n, m), labels and weights of shape (n,); None stands for weights of 1.

    ``names`` are those of the columns of X, if they have any.
    """

    X: NDArray
    y: NDArray
    weight: NDArray | None = None
    names: tuple[str, ...] | None = None


class Part(Protocol):
    """A part of the data; `CascadeSVC` takes a list of them instead of arrays.

    Any object that can be pickled and has a method ``load`` is one. ``load`` is called in every round, in the process
    that uses the part, and must return the same rows each time.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import CascadeSVC
    >>> class Shifted:  # a part that makes its rows
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

    def load(self) -> tuple[Any, ...]:
        """Return X of shape (n, m), y of shape (n,), and weights of shape (n,) if there are any.

        X may be a frame, whose columns must have the same names in every part, or sparse, if it fits in memory dense.
        """
        ...


@dataclass(frozen=True)
class Mapped:
    """Rows of a C-contiguous array in a file: the arguments with which `numpy.memmap` opens it again."""

    path: str
    dtype: Any
    shape: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, array: Any) -> Mapped | None:
        """Return the description of a memory map, or of consecutive rows of one; None for other arrays."""
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
        """Return some rows, in memory."""
        return np.array(np.memmap(self.path, self.dtype, "r", self.offset, self.shape)[rows])


@dataclass(frozen=True)
class Rows:
    """Rows of arrays: all rows of arrays in memory, or ``rows`` of arrays in a file."""

    X: NDArray | Mapped
    y: NDArray | Mapped
    weight: NDArray | Mapped | None
    rows: NDArray | slice

    def load(self) -> Loaded:
        """Return the rows."""
        return Loaded(self._take(self.X), self._take(self.y), None if self.weight is None else self._take(self.weight))

    def _take(self, array: NDArray | Mapped) -> NDArray:
        """Return the rows of one array."""
        return array.take(self.rows) if isinstance(array, Mapped) else array


@dataclass(frozen=True)
class RowGroup:
    """A row group of a parquet file.

    Parameters
    ----------
    path : str or Path
        Must be valid in every process that reads it.
    group : int
        Number of the row group.
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
        """Return the rows."""
        table = _parquet(self.path).read_row_group(self.group)
        requested = {self.target, *(self.features or ()), *([self.weight] if self.weight else ())}
        if missing := requested - set(table.column_names):
            raise ProblemError(f"{self.path} has no column {sorted(missing)}; its columns are {table.column_names}")
        others = [name for name in table.column_names if name not in (self.target, self.weight)]
        names = tuple(self.features or others)
        columns = [_numbers(table[name], name, self.path) for name in names]
        weight = None if self.weight is None else _numbers(table[self.weight], self.weight, self.path)
        labels = np.asarray(table[self.target].to_numpy(zero_copy_only=False))
        return Loaded(np.column_stack(columns), labels, weight, names)


def row_groups(
    path: str | Path, target: str, *, features: tuple[str, ...] | None = None, weight: str | None = None
) -> list[RowGroup]:
    """Return the row groups of a parquet file, as parts for `CascadeSVC.fit`.

    Parameters
    ----------
    path : str or Path
        Must be valid in every process that reads it.
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
        The file is not a parquet file.

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
    """Open a parquet file; raise an error with the way out if it cannot be read."""
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
    """Return a column as float64; raise `ProblemError` if it does not hold numbers."""
    values = np.asarray(column.to_numpy(zero_copy_only=False))
    if values.dtype.kind not in "biuf":
        raise ProblemError(f"{path}: column {name!r} holds {column.type}; numbers are needed")
    return values.astype(float)


@dataclass(frozen=True)
class Chunk:
    """A chunk of dask collections, as objects of `dask.delayed`.

    The cluster computes them; without a cluster they are computed in this process, in one thread.
    """

    X: Any
    y: Any
    weight: Any = None

    def delayed(self) -> Any:
        """Return the part, `Loaded`, as one delayed object."""
        import dask

        return dask.delayed(Loaded, pure=True)(self.X, self.y, self.weight)

    def futures(self) -> tuple[Any, ...] | None:
        """Return X, y and weights as futures if the cluster holds them (dask's persist), else None."""
        from distributed import futures_of

        columns = [column for column in (self.X, self.y, self.weight) if column is not None]
        held = [{future.key: future for future in futures_of(column)}.get(column.key) for column in columns]
        return None if None in held else tuple(held)

    def load(self) -> Loaded:
        """Return the rows."""
        found: Loaded = self.delayed().compute(scheduler="synchronous")
        return found


def load(part: Part | tuple[Any, ...], number: int) -> Loaded:
    """Return the checked rows of a part: X a finite float64 matrix, with one label and one weight a row."""
    try:
        found = Loaded(*(part if isinstance(part, tuple) else part.load()))
    except OSError as error:
        raise ProblemError(unreadable(number, error)) from error
    X, names = _points(found.X, number)
    y = _labels(found.y, number)
    weight = None if found.weight is None else as_numbers(found.weight, f"part {number}: sample_weight")
    if y.shape != (len(X),) or (weight is not None and weight.shape != (len(X),)):
        shapes = f"{y.shape}" + ("" if weight is None else f" and {weight.shape}")
        raise ProblemError(
            f"part {number}: X has {len(X)} rows, labels{' and weights' * (weight is not None)} {shapes}"
        )
    if weight is not None and not np.isfinite(weight).all():
        raise ProblemError(f"part {number}: sample_weight contains NaN or infinity")
    return Loaded(X, y, weight, names or found.names)


def unreadable(number: int, error: OSError, reader: str | None = None) -> str:
    """Return the text of the error for a part that the ``reader``, by default this process, cannot read."""
    reader = reader or f"process {os.getpid()} of {platform.node()}"
    return (
        f"part {number} cannot be read by {reader}: {type(error).__name__}: {error}; every process that works on parts "
        "must be able to open their files by the same name"
    )


def _points(X: Any, number: int) -> tuple[NDArray, tuple[str, ...] | None]:
    """Return X as a finite float64 matrix, and the names of its columns if all are text."""
    name, columns = f"part {number}: X", getattr(X, "columns", None)
    names = None if columns is None or not all(isinstance(one, str) for one in columns) else tuple(columns)
    array = as_numbers(X, name) if columns is not None else np.asarray(dense(X, name))
    # A filter may have removed all rows of a part.
    return (np.empty(array.shape) if array.ndim == 2 and len(array) == 0 else as_matrix(array, name)), names


def dense(X: Any, name: str) -> Any:
    """Return sparse X as an array, any other X as it is; raise `ProblemError` if it would be larger than 1 GB."""
    if not is_sparse(X):
        return X
    if 8 * X.shape[0] * X.shape[1] > MAX_DENSE_BYTES:
        raise ProblemError(
            f"{name} is sparse, and its {X.shape[0]} x {X.shape[1]} numbers do not fit in {MAX_DENSE_BYTES >> 30} GB "
            "dense, which a part must be here; give smaller parts, reduce the columns (scikit-learn's TruncatedSVD), "
            "or fit SVC, which keeps sparse X sparse"
        )
    return X.toarray()


def as_numbers(values: Any, name: str) -> NDArray:
    """Return numbers as float64; in a frame or series, bool and nullable columns too, with NaN where one is missing."""
    try:
        if hasattr(values, "to_numpy"):
            return np.asarray(values.to_numpy(dtype=float, na_value=np.nan))
        return np.asarray(values, dtype=float)
    except (TypeError, ValueError) as error:
        names = list(getattr(values, "columns", ()))
        odd = [f"{column!r} ({values[column].dtype})" for column in names if not _holds_numbers(values[column])]
        see = f": see the columns {', '.join(odd[:5])}" if odd else ""
        raise ProblemError(f"{name} does not hold numbers{see} ({error})") from error


def _holds_numbers(column: Any) -> bool:
    """Whether a column of a frame can be read as numbers."""
    try:
        column.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        return False
    return True


def _labels(y: Any, number: int) -> NDArray:
    """Return labels of shape (n,); raise `ProblemError` for one that is missing, or for text beside numbers."""
    array = np.asarray(y.to_numpy() if hasattr(y, "to_numpy") else y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.dtype.kind == "O" and array.ndim == 1:
        kinds = {type(label) for label in array}
        if kinds != {str}:
            # A missing label is None, NaN or pandas.NA, none of which is equal to itself or has a length.
            missing = [k for k, label in enumerate(array) if label is None or not _equals_itself(label)]
            if missing:
                raise ProblemError(
                    f"part {number}: y has no label in row {missing[0]} ({len(missing)} of {len(array)} rows); drop "
                    "these rows, or give them a label"
                )
            if str in kinds:
                others = sorted(kind.__name__ for kind in kinds - {str})
                raise ProblemError(f"part {number}: y holds text beside {others}; give labels of one type")
    return array


def _equals_itself(label: Any) -> bool:
    """Whether a label is equal to itself, which NaN and pandas.NA are not."""
    equal = label == label
    return isinstance(equal, (bool, np.bool_)) and bool(equal)
