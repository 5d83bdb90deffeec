"""`dualflow convert`: convert a model from one file format to another."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..exceptions import ProblemError, did_you_mean
from .output import check_output, clear_errors, say

#: The formats, and the file name suffixes of each.
SUFFIXES = {"dualflow": (".dualflow",), "libsvm": (".libsvm", ".model"), "onnx": (".onnx",)}
_KNOWN_SUFFIXES = ", ".join(f"{suffix} ({name})" for name, suffixes in SUFFIXES.items() for suffix in suffixes)


def convert(
    source: Annotated[Path, typer.Argument(help="Model to read: a saved dualflow model, or a LIBSVM model file.")],
    target: Annotated[Path, typer.Argument(help="File to write: a LIBSVM model file, or ONNX.")],
    from_: Annotated[
        str | None, typer.Option("--from", help="Format of SOURCE: dualflow or libsvm; by default from its suffix.")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Format of TARGET: libsvm or onnx; by default from its suffix.")
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(help="Type of the ONNX graph's input and decision values: float32 (the default) or float64."),
    ] = None,
    n_features: Annotated[
        int | None,
        typer.Option(help="For a LIBSVM model: number of features; by default the largest index in the file."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Overwrite TARGET if it exists.")] = False,
) -> None:
    """Convert a model: dualflow to LIBSVM or ONNX, LIBSVM to ONNX.

    Suffixes: .dualflow; .libsvm or .model; .onnx.
    """
    with clear_errors():
        read, write = _format(source, from_, "--from"), _format(target, to, "--to")
        _check(read, write, dtype, n_features)
        _check_target(source, target, overwrite)
        from ..interchange import to_libsvm, to_onnx

        model = _read(source, read, n_features)
        if write == "onnx":
            to_onnx(model, target, dtype=dtype or "float32")
        else:
            to_libsvm(model, target)
        say(f"{target}: {_summary(model)}")


def _format(path: Path, given: str | None, option: str) -> str:
    """Return the format of a file, as given or by its suffix."""
    if given is not None:
        if given not in SUFFIXES:
            raise ProblemError(f"{option} {given} is not one of {', '.join(SUFFIXES)}{did_you_mean(given, SUFFIXES)}")
        return given
    for name, suffixes in SUFFIXES.items():
        if path.suffix.lower() in suffixes:
            return name
    raise ProblemError(
        f"{path} has none of the suffixes {_KNOWN_SUFFIXES}; give its format with {option} {'|'.join(SUFFIXES)}"
    )


def _check(read: str, write: str, dtype: str | None, n_features: int | None) -> None:
    if read == "onnx":
        raise ProblemError("ONNX files can be written but not read: a graph does not hold the model it was made from")
    if read == write:
        raise ProblemError(f"both files are {read}: there is nothing to convert; copy the file")
    if write == "dualflow":
        raise ProblemError(
            "a LIBSVM model cannot become a dualflow model, because its file lacks the training data that the "
            "certificate needs: fit again, or convert it to ONNX"
        )
    if dtype is not None and write != "onnx":
        raise ProblemError(f"--dtype {dtype} is for ONNX; {write} files hold float64 as text")
    if n_features is not None and read != "libsvm":
        raise ProblemError(f"--n-features {n_features} is for LIBSVM models; a dualflow file states its features")


def _check_target(source: Path, target: Path, overwrite: bool) -> None:
    """Raise ProblemError, before any work, if the target cannot or must not be written."""
    if os.path.exists(source) and os.path.exists(target) and os.path.samefile(source, target):
        raise ProblemError(f"{target} is SOURCE itself and would be lost; give another name")
    check_output(target, "TARGET", lambda path: True, overwrite, None)
    if os.path.lexists(target) and not overwrite:
        raise ProblemError(f"{target} exists already; give another name, or add --overwrite")


def _read(source: Path, format_: str, n_features: int | None) -> Any:
    if format_ == "libsvm":
        from ..interchange import from_libsvm

        return from_libsvm(source, n_features)
    from ..estimators import load

    return load(source)


def _summary(model: Any) -> str:
    """Return one line on the model that was converted."""
    name = getattr(model, "svm_type", type(model).__name__)
    count = model.dual_coef_.shape[1]
    classes = len(getattr(model, "classes_", ()))
    kernel = getattr(model, "_as_fitted", model).kernel
    parts = [f"{name} with kernel {kernel}", f"{model.n_features_in_} features", f"{count} support vectors"]
    return ", ".join(parts + ([f"{classes} classes"] if classes else []))
