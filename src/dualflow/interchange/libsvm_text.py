"""Read and write the text of a LIBSVM model file (Chang & Lin 2011, `svm_save_model`); files may be untrusted."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..core.named_kernels import KERNELS
from ..exceptions import ProblemError
from ..persistence.files import escape_control_characters, open_regular, replacing_text

#: Maximum size of a file, in bytes; its numbers take less memory than their text.
MAX_BYTES = 1 << 30
#: Maximum length of a line, in bytes; a line is split in one call.
MAX_LINE = 1 << 24
#: Our names of the kernels, by those of LIBSVM.
BY_LIBSVM = {kernel.libsvm: name for name, kernel in KERNELS.items() if kernel.libsvm}
#: The values of svm_type.
TYPES = ("c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr")
#: Largest integer: LIBSVM uses int of C.
MAX_INT = 2**31 - 1
#: Keywords with one value.
_SINGLE_KEYWORDS = ("svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv")
#: The order of the parameters of a kernel in a file.
_PARAMETERS = ("degree", "gamma", "coef0")
#: Keywords that a kernel needs, by LIBSVM's name of the kernel.
_KERNEL_KEYWORDS = {
    kernel.libsvm: tuple(name for name in _PARAMETERS if name in kernel.parameters) for kernel in KERNELS.values()
}
#: Keywords with a list of values.
_LIST_KEYWORDS = ("rho", "label", "probA", "probB", "prob_density_marks", "nr_sv")
#: Characters of a word that an error shows.
_SHOWN_CHARS = 40


@dataclass(frozen=True)
class LibsvmParts:
    """The content of a model file.

    Attributes
    ----------
    svm_type : str
        One of `TYPES`.
    kernel : str
        Our name of the kernel.
    rho : array of shape (n_classes (n_classes − 1)/2,), or (1,)
        Subtracted from Σ coef·k of each pair.
    coefficients : array of shape (n_SV, n_classes − 1), or (n_SV, 1)
    vectors : CSR of shape (n_SV, largest index), float64
        Empty for a precomputed kernel.
    serials : integer array of shape (n_SV,)
        For a precomputed kernel: the number of each support vector's training point, from 1.
    labels, counts : integer arrays of shape (n_classes,), or empty
        The classes in the order of the file, and their numbers of support vectors.
    """

    svm_type: str
    kernel: str
    rho: NDArray
    coefficients: NDArray
    vectors: sparse.csr_array
    degree: int = 3
    gamma: float = 0.0
    coef0: float = 0.0
    labels: NDArray = field(default_factory=lambda: np.empty(0, int))
    counts: NDArray = field(default_factory=lambda: np.empty(0, int))
    serials: NDArray = field(default_factory=lambda: np.empty(0, int))


def write(path: str | Path, parts: LibsvmParts) -> None:
    """Write a file from which every number reads back without loss; an existing file is replaced."""
    kernel = next(theirs for theirs, ours in BY_LIBSVM.items() if ours == parts.kernel)
    n, width = parts.coefficients.shape
    lines = [f"svm_type {parts.svm_type}", f"kernel_type {kernel}"]
    values = {"degree": str(parts.degree), "gamma": f"{parts.gamma:.17g}", "coef0": f"{parts.coef0:.17g}"}
    lines += [f"{name} {values[name]}" for name in _KERNEL_KEYWORDS[kernel]]
    lines += [f"nr_class {width + 1}", f"total_sv {n}", f"rho {_numbers(parts.rho)}"]
    if len(parts.labels):
        lines += [f"label {' '.join(map(str, parts.labels))}", f"nr_sv {' '.join(map(str, parts.counts))}"]
    with replacing_text(path) as file:
        file.write("\n".join([*lines, "SV"]) + "\n")
        vectors = parts.vectors
        for k, row in enumerate(parts.coefficients):
            if kernel == "precomputed":
                features = f"0:{parts.serials[k]}"
            else:
                own = slice(vectors.indptr[k], vectors.indptr[k + 1])
                pairs = zip(vectors.indices[own], vectors.data[own], strict=True)
                features = " ".join(f"{index + 1}:{value:.17g}" for index, value in pairs)
            file.write(f"{_numbers(row)} {features}\n")


def _numbers(values: NDArray) -> str:
    return " ".join(f"{value:.17g}" for value in values)


def read(path: str | Path) -> LibsvmParts:
    """Return the content of a file; ProblemError names the file, the line and the fault.

    Sizes that the file states allocate nothing: memory is at most a small multiple of the file's size.
    """
    with open_regular(path, MAX_BYTES, "MAX_BYTES") as file:
        lines = _lines(file, path)
        head = _head(lines, path)
        kernel, svm_type = head["kernel_type"][0], head["svm_type"][0]
        width = _classes(head, svm_type, path) - 1
        coefficients, values = array("d"), array("d")
        indices, ends = array("q"), array("q", [0])
        for where, words in lines:
            if len(words) < width:
                raise ProblemError(f"{where}: it has {len(words)} words; {width} coefficients and a vector are needed")
            coefficients.extend(_number(word, where, "a coefficient") for word in words[:width])
            last = -1 if kernel == "precomputed" else 0
            for word in words[width:]:
                index, colon, value = word.partition(":")
                if not colon:
                    raise ProblemError(f"{where}: {_short(word)} is not index:value")
                number = _whole(index, where, "an index")
                if number <= last:
                    raise ProblemError(f"{where}: index {number} follows {last}; indices must increase, from 1")
                last = number
                indices.append(number - 1)
                values.append(_number(value, where, f"the value of index {number}"))
            ends.append(len(indices))
    n = len(ends) - 1
    claimed = _whole(head["total_sv"][0], path, "total_sv")
    if claimed != n:
        raise ProblemError(f"{path}: total_sv is {claimed}, {n} support vectors follow; the file is cut off or changed")
    weights = np.frombuffer(coefficients, dtype=float).reshape(n, width).copy()
    columns, filled = np.frombuffer(indices, dtype=np.int64).copy(), np.frombuffer(values, dtype=float).copy()
    if "gamma" in head and _number(head["gamma"][0], path, "gamma") < 0.0:
        raise ProblemError(f"{path}: gamma {_short(head['gamma'][0])} is below 0, and must not be")
    numbers = {name: _number(head[name][0], path, name) for name in ("gamma", "coef0") if name in head}
    rho = np.array([_number(word, path, "rho") for word in head["rho"]])
    serials = np.empty(0, int)
    if kernel == "precomputed":
        serials = _serials(np.frombuffer(ends, dtype=np.int64), columns, filled, path)
        columns, filled, ends = np.empty(0, np.int64), np.empty(0), array("q", [0] * (n + 1))
    vectors = sparse.csr_array(
        (filled, columns, np.frombuffer(ends, dtype=np.int64).copy()), shape=(n, int(columns.max(initial=-1)) + 1)
    )
    return LibsvmParts(
        svm_type, BY_LIBSVM[kernel], rho, weights, vectors,
        degree=_whole(head["degree"][0], path, "degree") if "degree" in head else 3,
        labels=np.array([_whole(word, path, "label", -MAX_INT - 1) for word in head.get("label", [])], int),
        counts=np.array([_whole(word, path, "nr_sv") for word in head.get("nr_sv", [])], int),
        serials=serials, **numbers,
    )  # fmt: skip


def _lines(file: BinaryIO, path: str | Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each line that is not blank: where it is, for errors, and its words."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        where = f"{path}, line {number}"
        if len(line) > MAX_LINE:
            raise ProblemError(f"{where} has more than MAX_LINE={MAX_LINE} bytes; it is not a LIBSVM model")
        try:
            words = line.decode("ascii").split()
        except UnicodeDecodeError:
            raise ProblemError(f"{where} is not ASCII; it is not a LIBSVM model") from None
        if words:
            yield where, words


def _head(lines: Iterator[tuple[str, list[str]]], path: str | Path) -> dict[str, list[str]]:
    """Return the words of each keyword, up to the line "SV"."""
    head: dict[str, list[str]] = {}
    for where, (name, *words) in lines:
        if name == "SV" and not words:
            break
        if name not in (*_SINGLE_KEYWORDS, *_LIST_KEYWORDS):
            raise ProblemError(f"{where}: {_short(name)} is not a keyword of a LIBSVM model")
        if name in head:
            raise ProblemError(f"{where}: {name} appears a second time")
        if not words or (name in _SINGLE_KEYWORDS and len(words) > 1):
            raise ProblemError(f"{where}: {name} has {len(words)} values")
        head[name] = words
    else:
        raise ProblemError(f"{path} has no line 'SV'; it is not a LIBSVM model, or is cut off")
    for name in ("svm_type", "kernel_type", "nr_class", "total_sv", "rho"):
        if name not in head:
            raise ProblemError(f"{path} has no {name}; it is not a LIBSVM model")
    for name, known in (("svm_type", TYPES), ("kernel_type", tuple(BY_LIBSVM))):
        if head[name][0] not in known:
            raise ProblemError(f"{path}: {name} {_short(head[name][0])} is not one of {', '.join(known)}")
    kernel = head["kernel_type"][0]
    for name in _KERNEL_KEYWORDS[kernel]:
        if name not in head:
            raise ProblemError(
                f"{path} has no {name}, which kernel_type {kernel} needs; the file is cut off or changed"
            )
    return head


def _classes(head: dict[str, list[str]], svm_type: str, path: str | Path) -> int:
    """Return the number of classes, or 2 for a model without; raise ProblemError if the lists do not agree with it."""
    classes = _whole(head["nr_class"][0], path, "nr_class")
    several = svm_type.endswith("svc")
    if classes < 2 or (classes > 2 and not several):
        raise ProblemError(f"{path}: nr_class {classes} with svm_type {svm_type}")
    wanted = {"rho": classes * (classes - 1) // 2, "label": classes, "nr_sv": classes}
    for name, count in wanted.items():
        if (several or name == "rho") and len(head.get(name, [])) != count:
            found = len(head.get(name, []))
            raise ProblemError(f"{path}: {name} has {found} values, and nr_class {classes} needs {count}")
        if not several and name != "rho" and name in head:
            raise ProblemError(f"{path}: {name} with svm_type {svm_type}, which has no classes")
    if several:
        if len({_whole(word, path, "label", -MAX_INT - 1) for word in head["label"]}) < classes:
            raise ProblemError(f"{path}: a label appears twice")
        if (total := sum(_whole(word, path, "nr_sv") for word in head["nr_sv"])) != _whole(
            head["total_sv"][0], path, "total_sv"
        ):
            raise ProblemError(f"{path}: nr_sv sums to {total}, total_sv is {head['total_sv'][0]}")
    return classes


def _serials(ends: NDArray, index: NDArray, values: NDArray, path: str | Path) -> NDArray:
    """Return the numbers of the training points that are the support vectors of a precomputed kernel."""
    first = ends[:-1]
    right = (np.diff(ends) > 0).all() and (index[first] == -1).all()
    if right:
        found = values[first]
        if ((found >= 1) & (found <= MAX_INT) & (found == np.floor(found))).all():
            return found.astype(int)
    raise ProblemError(f"{path}: with kernel_type precomputed each vector must begin with 0:number of its point")


def _number(word: str, where: str | Path, what: str) -> float:
    try:
        value = math.nan if "_" in word else float(word)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ProblemError(f"{where}: {_short(word)}, {what}, is not a finite number")
    return value


def _whole(word: str, where: str | Path, what: str, least: int = 0) -> int:
    try:
        value = None if "_" in word or len(word) > 11 else int(word)
    except ValueError:
        value = None
    if value is None or not least <= value <= MAX_INT:
        raise ProblemError(f"{where}: {_short(word)}, {what}, is not a whole number from {least} to {MAX_INT}")
    return value


def _short(word: str) -> str:
    return repr(escape_control_characters(word[:_SHOWN_CHARS]) + ("…" if len(word) > _SHOWN_CHARS else ""))
