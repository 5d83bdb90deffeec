"""Read and write data in svmlight format, that of LIBSVM, by scikit-learn, with limits and clear errors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..core.kernel_functions import as_matrix
from ..core.options import Flag, Number
from ..core.sparse_points import checked_rows, is_sparse
from ..exceptions import ProblemError
from ..persistence.files import escape_control_characters, open_regular, replacing

#: Maximum size of a file, in bytes.
MAX_BYTES = 1 << 30
#: Maximum length of a line, in bytes; a line is split in one call.
MAX_LINE = 1 << 24
#: Largest index that a file may have if the caller does not give the number of features: models allocate numbers for
#: each feature, and a file can state any index.
MAX_FEATURES = 1 << 26
#: Bytes of a line that an error shows.
_SHOWN_CHARS = 60


class _Lines:
    """A file that scikit-learn reads line by line; it keeps the last line and its number for errors."""

    def __init__(self, file: BinaryIO, path: str | Path) -> None:
        self.file, self.path, self.number, self.line = file, path, 0, b""

    def read(self, size: int = -1) -> bytes:
        return self.file.read(size)

    def __iter__(self) -> Iterator[bytes]:
        while line := self.file.readline(MAX_LINE + 1):
            self.number, self.line = self.number + 1, line
            if len(line) > MAX_LINE:
                raise ProblemError(f"{self.where} has more than MAX_LINE={MAX_LINE} bytes; it is not an svmlight file")
            if b"_" in line.partition(b"#")[0]:  # float() would accept "1_000"
                raise ValueError("a number has no underscore")
            yield line

    @property
    def where(self) -> str:
        return f"{self.path}, line {self.number}"

    def complaint(self, error: Exception) -> str:
        start = self.line[:_SHOWN_CHARS].decode("ascii", "backslashreplace").rstrip("\r\n")
        shown = escape_control_characters(start) + ("…" if len(self.line) > _SHOWN_CHARS else "")
        return f"{self.where}, '{shown}', is not 'label index:value index:value …' with increasing indices: {error}"


def from_svmlight(
    path: str | Path, n_features: int | None = None, *, zero_based: bool = False
) -> tuple[sparse.csr_array, NDArray]:
    """Return data and labels from a file in svmlight format, that of LIBSVM's ``svm-train``.

    The file is read line by line, by scikit-learn's `load_svmlight_file`; nothing in it is executed. Comments (from
    ``#``) and ``qid:`` are ignored.

    Parameters
    ----------
    path : str or Path
        A regular file of at most 1 GiB, not compressed.
    n_features : int, optional
        Number of features; test data may lack the last ones. By default the largest index.
    zero_based : bool, default=False
        Whether indices begin at 0. Those of the format begin at 1.

    Returns
    -------
    X : csr_array of shape (n, n_features), float64
    y : array of shape (n,)
        Integers if all labels are whole numbers, else floats.

    Raises
    ------
    ProblemError
        The file is not an svmlight file: the message names the file, the line and the fault. Or an index is beyond
        ``n_features`` (2**26 if that is not given), there are no data, or a number is not finite.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dualflow.interchange import from_svmlight
    >>> path = Path(tempfile.mkdtemp()) / "data"
    >>> _ = path.write_text("+1 1:0.5 3:2  # a comment\\n-1 2:-1\\n")
    >>> X, y = from_svmlight(path)
    >>> X.toarray().tolist(), y.tolist()
    ([[0.5, 0.0, 2.0], [0.0, -1.0, 0.0]], [1, -1])
    """
    n_features = Number(at_least=1, whole=True, none=True).check("n_features", n_features)
    Flag().check("zero_based", zero_based)
    with open_regular(path, MAX_BYTES, "MAX_BYTES") as file:
        return parsed(file, path, n_features, bool(zero_based))


def parsed(
    file: BinaryIO, path: str | Path, n_features: int | None, zero_based: bool
) -> tuple[sparse.csr_array, NDArray]:
    """Return data and labels of an open file, as `from_svmlight` does; ``path`` is for errors."""
    from sklearn.datasets import load_svmlight_file

    lines = _Lines(file, path)
    try:
        X, y = load_svmlight_file(lines, zero_based=zero_based)
    except ProblemError:
        raise
    except (ValueError, OverflowError) as error:
        raise ProblemError(lines.complaint(error)) from None
    if not len(y):
        raise ProblemError(f"{path} has no data; lines such as 'label index:value …' are needed")
    X, y, width = sparse.csr_array(X), np.array(y), X.shape[1]
    if width > (MAX_FEATURES if n_features is None else n_features):
        limit = f"n_features={n_features}" if n_features is not None else f"MAX_FEATURES={MAX_FEATURES}"
        raise ProblemError(f"{path} has a feature number {width}, more than {limit}; give the right n_features=")
    for name, odd in (("label", ~np.isfinite(y)), ("value", ~np.isfinite(X.data))):
        if odd.any():
            at = int(np.argmax(odd)) if name == "label" else int(np.searchsorted(X.indptr, np.argmax(odd), "right")) - 1
            raise ProblemError(f"{path}: a {name} of point {at + 1} is not a finite number; impute or drop such rows")
    if n_features is not None:
        X = sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))
    whole = (y == np.rint(y)).all() and np.abs(y).max() < 2**53
    return X, y.astype(np.int64) if whole else y


def to_svmlight(X: Any, y: ArrayLike, path: str | Path, *, zero_based: bool = False) -> None:
    """Write data and labels in svmlight format, by scikit-learn's `dump_svmlight_file`.

    Numbers are written with 16 digits, one fewer than float64 may need. An existing file is replaced.

    Parameters
    ----------
    X : array or sparse of shape (n, n_features)
        Finite numbers; zeros are left out.
    y : array of shape (n,)
        Finite numbers.
    path : str or Path
    zero_based : bool, default=False
        Whether indices begin at 0. Those of LIBSVM begin at 1.

    Raises
    ------
    ProblemError
        X or y are not valid, or have different lengths.
    OSError
        The file cannot be written; an existing one is unchanged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dualflow.interchange import to_svmlight
    >>> path = Path(tempfile.mkdtemp()) / "data"
    >>> to_svmlight([[0.5, 0.0, 2.0], [0.0, -1.0, 0.0]], [1, -1], path)
    >>> path.read_text()
    '1 1:0.5 3:2\\n-1 2:-1\\n'
    """
    from sklearn.datasets import dump_svmlight_file

    Flag().check("zero_based", zero_based)
    points: Any = checked_rows(X, "X").tocsr() if is_sparse(X) else as_matrix(X, "X")
    labels = _numbers(y)
    if len(labels) != points.shape[0]:
        raise ProblemError(f"X has {points.shape[0]} rows, y has {len(labels)} labels; they must agree")
    if is_sparse(points):
        if max(points.nnz, *points.shape) >= 2**31:
            raise ProblemError(
                f"X has {points.nnz} numbers in shape {points.shape}; scikit-learn writes only fewer than 2**31"
            )
        facts = points.data, points.indices.astype(np.int32), points.indptr.astype(np.int32)
        points = sparse.csr_array(facts, shape=points.shape)
    with replacing(Path(path)) as file:
        dump_svmlight_file(points, labels, file, zero_based=bool(zero_based))


def _numbers(y: ArrayLike) -> NDArray:
    """Return labels as integers or floats, shape (n,)."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "biuf" or labels.ndim != 1:
        raise ProblemError(
            f"y has dtype {labels.dtype} and shape {labels.shape}; svmlight labels are numbers, one for each row. "
            "LabelEncoder().fit_transform(y) converts text to numbers"
        )
    if not np.isfinite(labels).all():
        raise ProblemError("y contains NaN or infinity; impute or drop those rows")
    if labels.dtype.kind == "u" and len(labels) and int(labels.max()) >= 2**63:
        raise ProblemError(f"y holds {int(labels.max())}; whole numbers in svmlight files must be below 2**63")
    return labels.astype(float if labels.dtype.kind == "f" else np.int64)
