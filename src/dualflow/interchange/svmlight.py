"""Data in svmlight's format, LIBSVM's own: read and written by scikit-learn, with limits and sentences of ours."""

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

__all__ = ["MAX_BYTES", "MAX_FEATURES", "MAX_LINE", "from_svmlight", "parsed", "to_svmlight"]

#: Most bytes of a file, and of a line of it, which is split at once.
MAX_BYTES, MAX_LINE = 1 << 30, 1 << 24
#: Most features that a file may claim by one index: models keep numbers for each. As many as one says there are, else.
MAX_FEATURES = 1 << 26
_SHOWN = 60


class _Lines:
    """The lines of a file, of which scikit-learn asks for the next one, and the number of the last."""

    def __init__(self, file: BinaryIO, path: str | Path) -> None:
        self.file, self.path, self.number, self.line = file, path, 0, b""

    def read(self, size: int = -1) -> bytes:
        return self.file.read(size)

    def __iter__(self) -> Iterator[bytes]:
        while line := self.file.readline(MAX_LINE + 1):
            self.number, self.line = self.number + 1, line
            if len(line) > MAX_LINE:
                raise ProblemError(f"{self.where} has more than MAX_LINE={MAX_LINE} bytes; it is no svmlight file")
            if b"_" in line.partition(b"#")[0]:  # Python's own numbers may have them
                raise ValueError("an underscore is in no number")
            yield line

    @property
    def where(self) -> str:
        return f"{self.path}, line {self.number}"

    def complaint(self, error: Exception) -> str:
        start = self.line[:_SHOWN].decode("ascii", "backslashreplace").rstrip("\r\n")
        shown = escape_control_characters(start) + ("…" if len(self.line) > _SHOWN else "")
        return f"{self.where}, '{shown}', is not 'label index:value index:value …' with growing indices: {error}"


def from_svmlight(
    path: str | Path, n_features: int | None = None, *, zero_based: bool = False
) -> tuple[sparse.csr_array, NDArray]:
    """Data and labels from a file in svmlight's format, that of LIBSVM's ``svm-train``.

    Read by scikit-learn's `load_svmlight_file`, line by line; nothing in the file is executed. Comments (from ``#``)
    and ``qid:`` are left out.

    Parameters
    ----------
    path : str or Path
        A regular file of at most 1 GiB, unpacked.
    n_features : int, optional
        How many features there are: test data may lack the last ones. By default the largest index.
    zero_based : bool, default=False
        Whether indices begin at 0. The format's begin at 1.

    Returns
    -------
    X : csr_array of shape (n, n_features), float64
    y : array of shape (n,)
        Integers if all labels are whole numbers, else floats.

    Raises
    ------
    ProblemError
        It is not such a file: the message names file, line and what is wrong. An index is beyond ``n_features``, or
        2**26 where that is not given; there are no data; a number is not finite.
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
    """`from_svmlight` of an open file; ``path`` is for its errors."""
    from sklearn.datasets import load_svmlight_file

    lines = _Lines(file, path)
    try:
        X, y = load_svmlight_file(lines, zero_based=zero_based)
    except ProblemError:
        raise
    except (ValueError, OverflowError) as error:
        raise ProblemError(lines.complaint(error)) from None
    if not len(y):
        raise ProblemError(f"{path} has no data; lines 'label index:value …' are needed")
    X, y, width = sparse.csr_array(X), np.array(y), X.shape[1]
    if width > (MAX_FEATURES if n_features is None else n_features):
        said = f"n_features={n_features}" if n_features is not None else f"more than MAX_FEATURES={MAX_FEATURES}"
        raise ProblemError(f"{path} has a feature number {width}: {said}; n_features= says how many there are")
    for name, odd in (("label", ~np.isfinite(y)), ("value", ~np.isfinite(X.data))):
        if odd.any():
            at = int(np.argmax(odd)) if name == "label" else int(np.searchsorted(X.indptr, np.argmax(odd), "right")) - 1
            raise ProblemError(f"{path}: a {name} of point {at + 1} is not a finite number; impute or drop such rows")
    if n_features is not None:
        X = sparse.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_features))
    whole = (y == np.rint(y)).all() and np.abs(y).max() < 2**53
    return X, y.astype(np.int64) if whole else y


def to_svmlight(X: Any, y: ArrayLike, path: str | Path, *, zero_based: bool = False) -> None:
    """Write data and labels in svmlight's format, by scikit-learn's `dump_svmlight_file`: to 16 digits, one fewer than
    float64 may need. A file that is there is replaced.

    Parameters
    ----------
    X : array or sparse of shape (n, n_features)
        Finite numbers; zeros are left out.
    y : array of shape (n,)
        Finite numbers.
    path : str or Path
    zero_based : bool, default=False
        Whether indices begin at 0. LIBSVM's begin at 1.

    Raises
    ------
    ProblemError
        X or y are something else, or of different lengths.
    OSError
        The file cannot be written; one that was there is as it was.

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
                f"X has {points.nnz} numbers in shape {points.shape}; scikit-learn writes fewer than 2**31"
            )
        facts = points.data, points.indices.astype(np.int32), points.indptr.astype(np.int32)
        points = sparse.csr_array(facts, shape=points.shape)
    with replacing(Path(path)) as file:
        dump_svmlight_file(points, labels, file, zero_based=bool(zero_based))


def _numbers(y: ArrayLike) -> NDArray:
    """Labels as integers or floats, shape (n,)."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "biuf" or labels.ndim != 1:
        raise ProblemError(
            f"y has dtype {labels.dtype} and shape {labels.shape}; svmlight's labels are numbers, one a row: "
            "LabelEncoder().fit_transform(y) makes them of text"
        )
    if not np.isfinite(labels).all():
        raise ProblemError("y contains NaN or infinity; impute or drop those rows")
    if labels.dtype.kind == "u" and len(labels) and int(labels.max()) >= 2**63:
        raise ProblemError(f"y holds {int(labels.max())}; svmlight's whole numbers end at 2**63")
    return labels.astype(float if labels.dtype.kind == "f" else np.int64)
