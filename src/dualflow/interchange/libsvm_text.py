"""The text of a LIBSVM model file (Chang & Lin 2011, `svm_save_model`): written, and read from anyone."""

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

from ..exceptions import ProblemError
from ..persistence.files import escape_control_characters, open_regular, replacing_text

__all__ = ["KERNELS", "MAX_BYTES", "MAX_LINE", "TYPES", "Parts", "read", "write"]

#: Most bytes of a file, and of a line of it. Numbers take less room than their text; a line is split at once.
MAX_BYTES, MAX_LINE = 1 << 30, 1 << 24
#: LIBSVM's names of kernels, and ours.
KERNELS = {"linear": "linear", "polynomial": "poly", "rbf": "rbf", "sigmoid": "sigmoid", "precomputed": "precomputed"}
TYPES = ("c_svc", "nu_svc", "one_class", "epsilon_svr", "nu_svr")
#: LIBSVM counts in C's int.
MOST = 2**31 - 1
_ONE = ("svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv")
#: Lines that a kernel needs, by LIBSVM's names.
_NEEDED = {
    "linear": (),
    "polynomial": ("degree", "gamma", "coef0"),
    "rbf": ("gamma",),
    "sigmoid": ("gamma", "coef0"),
    "precomputed": (),
}
_LISTS = ("rho", "label", "probA", "probB", "prob_density_marks", "nr_sv")
_SHOWN = 40


@dataclass(frozen=True)
class Parts:
    """What a file says.

    Attributes
    ----------
    svm_type, kernel : str
        One of `TYPES`; our name of the kernel.
    rho : array of shape (n_classes (n_classes − 1)/2,), or (1,)
        What is subtracted from each pair's Σ coef·k.
    coefficients : array of shape (n_SV, n_classes − 1), or (n_SV, 1)
    vectors : CSR of shape (n_SV, largest index), float64
        A precomputed kernel has none.
    serials : integer array of shape (n_SV,)
        Of a precomputed kernel: which training point each is, from 1.
    labels, counts : integer arrays of shape (n_classes,), or empty
        Classes in the file's order, and how many support vectors each has.
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


def write(path: str | Path, parts: Parts) -> None:
    """A new file, in which every number reads back as it was."""
    kernel = next(theirs for theirs, ours in KERNELS.items() if ours == parts.kernel)
    n, width = parts.coefficients.shape
    lines = [f"svm_type {parts.svm_type}", f"kernel_type {kernel}"]
    values = {"degree": str(parts.degree), "gamma": f"{parts.gamma:.17g}", "coef0": f"{parts.coef0:.17g}"}
    lines += [f"{name} {values[name]}" for name in _NEEDED[kernel]]
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


def read(path: str | Path) -> Parts:
    """What a file says, or `ProblemError` with file, line and what is wrong there.

    Nothing is allocated for what a file only claims: memory is at most a small multiple of its size.
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
                raise ProblemError(f"{where}: {len(words)} numbers, {width} coefficients and a vector are needed")
            coefficients.extend(_number(word, where, "a coefficient") for word in words[:width])
            last = -1 if kernel == "precomputed" else 0
            for word in words[width:]:
                index, colon, value = word.partition(":")
                if not colon:
                    raise ProblemError(f"{where}: {_short(word)} is not index:value")
                number = _whole(index, where, "an index")
                if number <= last:
                    raise ProblemError(f"{where}: index {number} after {last}; they must grow, from 1")
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
        raise ProblemError(f"{path}: gamma {_short(head['gamma'][0])} is below 0, which no kernel takes")
    numbers = {name: _number(head[name][0], path, name) for name in ("gamma", "coef0") if name in head}
    rho = np.array([_number(word, path, "rho") for word in head["rho"]])
    serials = np.empty(0, int)
    if kernel == "precomputed":
        serials = _serials(np.frombuffer(ends, dtype=np.int64), columns, filled, path)
        columns, filled, ends = np.empty(0, np.int64), np.empty(0), array("q", [0] * (n + 1))
    vectors = sparse.csr_array(
        (filled, columns, np.frombuffer(ends, dtype=np.int64).copy()), shape=(n, int(columns.max(initial=-1)) + 1)
    )
    return Parts(
        svm_type, KERNELS[kernel], rho, weights, vectors,
        degree=_whole(head["degree"][0], path, "degree") if "degree" in head else 3,
        labels=np.array([_whole(word, path, "label", -MOST - 1) for word in head.get("label", [])], int),
        counts=np.array([_whole(word, path, "nr_sv") for word in head.get("nr_sv", [])], int),
        serials=serials, **numbers,
    )  # fmt: skip


def _lines(file: BinaryIO, path: str | Path) -> Iterator[tuple[str, list[str]]]:
    """Where each line is that is not blank, and its words."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        where = f"{path}, line {number}"
        if len(line) > MAX_LINE:
            raise ProblemError(f"{where} has more than MAX_LINE={MAX_LINE} bytes; it is no LIBSVM model")
        try:
            words = line.decode("ascii").split()
        except UnicodeDecodeError:
            raise ProblemError(f"{where} is not ASCII; it is no LIBSVM model") from None
        if words:
            yield where, words


def _head(lines: Iterator[tuple[str, list[str]]], path: str | Path) -> dict[str, list[str]]:
    """Keyword to words, up to the line "SV"."""
    head: dict[str, list[str]] = {}
    for where, (name, *words) in lines:
        if name == "SV" and not words:
            break
        if name not in (*_ONE, *_LISTS):
            raise ProblemError(f"{where}: {_short(name)} is no keyword of a LIBSVM model")
        if name in head:
            raise ProblemError(f"{where}: a second {name}")
        if not words or (name in _ONE and len(words) > 1):
            raise ProblemError(f"{where}: {name} with {len(words)} values")
        head[name] = words
    else:
        raise ProblemError(f"{path} has no line 'SV'; it is no LIBSVM model, or cut off")
    for name in ("svm_type", "kernel_type", "nr_class", "total_sv", "rho"):
        if name not in head:
            raise ProblemError(f"{path} has no {name}; it is no LIBSVM model")
    for name, known in (("svm_type", TYPES), ("kernel_type", tuple(KERNELS))):
        if head[name][0] not in known:
            raise ProblemError(f"{path}: {name} {_short(head[name][0])} is not one of {', '.join(known)}")
    kernel = head["kernel_type"][0]
    for name in _NEEDED[kernel]:
        if name not in head:
            raise ProblemError(
                f"{path} has no {name}, which kernel_type {kernel} needs; the file is cut off or changed"
            )
    return head


def _classes(head: dict[str, list[str]], svm_type: str, path: str | Path) -> int:
    """The number of classes, with which the lengths of all lists must agree; 2 where there are none."""
    classes = _whole(head["nr_class"][0], path, "nr_class")
    several = svm_type.endswith("svc")
    if classes < 2 or (classes > 2 and not several):
        raise ProblemError(f"{path}: nr_class {classes} with svm_type {svm_type}")
    wanted = {"rho": classes * (classes - 1) // 2, "label": classes, "nr_sv": classes}
    for name, count in wanted.items():
        if (several or name == "rho") and len(head.get(name, [])) != count:
            raise ProblemError(f"{path}: {name} has {len(head.get(name, []))} values, nr_class {classes} asks {count}")
        if not several and name != "rho" and name in head:
            raise ProblemError(f"{path}: {name} with svm_type {svm_type}, which has no classes")
    if several:
        if len({_whole(word, path, "label", -MOST - 1) for word in head["label"]}) < classes:
            raise ProblemError(f"{path}: a label is there twice")
        if (total := sum(_whole(word, path, "nr_sv") for word in head["nr_sv"])) != _whole(
            head["total_sv"][0], path, "total_sv"
        ):
            raise ProblemError(f"{path}: nr_sv sums to {total}, total_sv is {head['total_sv'][0]}")
    return classes


def _serials(ends: NDArray, index: NDArray, values: NDArray, path: str | Path) -> NDArray:
    """The training points that are the support vectors of a precomputed kernel."""
    first = ends[:-1]
    right = (np.diff(ends) > 0).all() and (index[first] == -1).all()
    if right:
        found = values[first]
        if ((found >= 1) & (found <= MOST) & (found == np.floor(found))).all():
            return found.astype(int)
    raise ProblemError(f"{path}: with kernel_type precomputed each vector begins with 0: and the number of its point")


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
    if value is None or not least <= value <= MOST:
        raise ProblemError(f"{where}: {_short(word)}, {what}, is not a whole number from {least} to {MOST}")
    return value


def _short(word: str) -> str:
    return repr(escape_control_characters(word[:_SHOWN]) + ("…" if len(word) > _SHOWN else ""))
