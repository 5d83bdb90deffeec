"""Write a fitted model as a C header, for microcontrollers and programs without Python.

The header needs a C99 compiler, and <math.h> unless its numbers are fixed-point. It allocates nothing.
"""

from __future__ import annotations

import math
import re
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..core.options import OneOf
from ..exceptions import ProblemError
from ..persistence.files import replacing_text
from .libsvm_model import LibsvmModel
from .onnx_parts import DecisionParts, parts_of, unwritable_kernel

#: Fraction bits of fixed-point features and decision values.
FRACTION_BITS = 16
#: Fraction bits of points whose differences make a radial kernel.
POINT_BITS = 20
#: If scaled coordinates differ by at least this, a radial kernel is 0, because 2^(−8²) is below its last bit.
MAX_DIFFERENCE = 8
#: Entries of the table of 2^(−f), 0 ≤ f ≤ 1; linear interpolation between them has an error of 9e-7.
TABLE_ENTRIES = 256
#: Bits of a multiplier that stands for a real number.
MULTIPLIER_BITS = 30
#: Largest relative deviation of a step of a pipeline from an affine function of each column.
MAX_DEVIATION = 1e-9
#: Value of a probe that shows the scale of a column to the last bit, beside an offset of any usual size.
LARGE_PROBE = 2.0**40
#: Largest header, in numbers.
MAX_NUMBERS = 1 << 24
#: Largest shift of a sum of 64 bits.
MAX_SHIFT = 61

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def to_c(model: Any, path: str | Path | None = None, *, name: str = "model", number: str = "float") -> str:
    """Return a fitted model as the text of a C header.

    The header defines ``NAME_decide(x, values)``, which writes the decision values (of the pairs of classes in the
    order (0, 1), (0, 2), …, if there are more than two), and ``NAME_predict(x)``, which returns the index of the class
    in ``NAME_labels``, +1 inside and −1 outside for a data description or one-class model, or the value of a
    regression. ``NAME`` is ``name``; constants are in capital letters.

    Parameters
    ----------
    model : estimator, Pipeline or LibsvmModel
        With kernel "linear", "poly", "rbf" or "sigmoid". The other steps of a pipeline must scale and shift each column
        (`StandardScaler`, `MinMaxScaler`, `RobustScaler`): they become a part of the header.
    path : str or Path, optional
        A file to write, too; an existing one is replaced.
    name : str, default="model"
        A C identifier, with which all names begin.
    number : {"float", "double", "fixed"}, default="float"
        Type of the features and values. "fixed" is int32_t with 16 bits of fraction, by integer arithmetic alone, for
        the linear kernel (not of a ball) and the radial one; features between −32768 and 32768. Decision values
        then have errors of about 1e-5 times Σ|coefficient| for a radial kernel, and 2e-5 times Σ|weight| for a linear
        one.

    Raises
    ------
    ProblemError
        The kernel, a step of the pipeline, the model or the name cannot be written in C.
    NotFittedError
        The model is not fitted.

    Examples
    --------
    >>> from dualflow import SVC
    >>> from dualflow.interchange import to_c
    >>> model = SVC(kernel="linear", C=10).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> "static int gate_predict(const gate_number x[GATE_FEATURES])" in to_c(model, name="gate")
    True
    """
    OneOf(words=("float", "double", "fixed")).check("number", number)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ProblemError(f"name={name!r} is no C identifier: letters, digits and _, not a digit first")
    scale, offset, last = _scaling(model)
    parts = parts_of(last)
    if parts.points.size + parts.coefficients.size > MAX_NUMBERS:
        raise ProblemError(f"{type(last).__name__} of {len(parts.points)} support vectors is too large for a C header")
    writer = (_Fixed if number == "fixed" else _Floating)(parts, name, number, scale, offset - parts.center)
    text = writer.text(type(last).__name__)
    if path is not None:
        with replacing_text(path) as file:
            file.write(text)
    return text


def _scaling(model: Any) -> tuple[NDArray, NDArray, Any]:
    """Return scale and offset of each column by the steps before the model, x·scale + offset, and the model."""
    if not isinstance(model, LibsvmModel):
        if not hasattr(model, "fit") or isinstance(model, type):
            raise ProblemError(f"model is {type(model).__name__}; to_c needs a fitted estimator or a pipeline")
        check_is_fitted(model)
        model = getattr(model, "best_estimator_", model)
    if not isinstance(model, Pipeline):
        m = int(model.n_features_in_)
        return np.ones(m), np.zeros(m), model
    last = model.steps[-1][1]
    steps = [step for _, step in model.steps[:-1] if step is not None and step != "passthrough"]
    m = int(getattr(steps[0] if steps else last, "n_features_in_", last.n_features_in_))
    probes = np.vstack([np.zeros(m), np.ones(m), np.linspace(-3.0, 7.0, m), np.full(m, 1e3), np.full(m, LARGE_PROBE)])
    names = ", ".join(type(step).__name__ for step in steps)
    refusal = f"{names}: to_c takes steps that scale and shift each column, such as StandardScaler"
    found = probes
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        try:
            for step in steps:
                found = np.asarray(step.transform(found), dtype=float)
        except (AttributeError, TypeError, ValueError):
            raise ProblemError(refusal) from None
    if found.shape != probes.shape or not np.isfinite(found).all():
        raise ProblemError(refusal)
    offset, scale = found[0], (found[-1] - found[0]) / LARGE_PROBE
    deviation = np.abs(found - (probes * scale + offset))[:-1].max(axis=0)
    if (deviation > MAX_DEVIATION * np.abs(found[:-1]).max(axis=0)).any():
        raise ProblemError(refusal)
    return scale, offset, last


class _Floating:
    """Write a model with float or double numbers; the methods return lines of C."""

    def __init__(self, parts: DecisionParts, name: str, number: str, scale: NDArray, offset: NDArray) -> None:
        self.parts, self.name, self.number, self.upper = parts, name, number, name.upper()
        self.scale, self.offset = scale, offset
        self.is_linear = parts.kernel == "linear" and parts.points.shape[1] * len(parts.bias) <= parts.points.size
        self.suffix = "f" if number == "float" else ""

    # --- the header --------------------------------------------------------------------------------

    def text(self, model: str) -> str:
        """Return the header."""
        parts, upper = self.parts, self.upper
        size = f"{parts.points.shape[1]} features, {len(parts.points)} support vectors"
        lines = [
            f"/* {self.name}: {model}, kernel {parts.kernel}, {size}. Made by dualflow {version('dualflow')}. */",
            f"#ifndef {upper}_H",
            f"#define {upper}_H",
            *self.head(),
            f"#define {upper}_FEATURES {parts.points.shape[1]}",
            f"#define {upper}_VALUES {len(parts.bias)} /* decision values */",
        ]
        if len(parts.labels):
            lines += [f"#define {upper}_CLASSES {len(parts.labels)}", self.labels()]
        lines += ["", *self.arrays(), "", *self.functions(), "", *self.predict(), "", f"#endif /* {upper}_H */"]
        return "\n".join(lines) + "\n"

    def head(self) -> list[str]:
        return ["#include <math.h>", f"typedef {self.number} {self.name}_number;"]

    def labels(self) -> str:
        """Return the table of labels: numbers, or text."""
        labels = self.parts.labels
        if labels.dtype.kind in "iu" or labels.dtype.kind == "b":
            # C has no literal for the least of its numbers: the minus is an operator.
            least = np.iinfo(np.int64).min
            texts = (f"({least + 1} - 1)" if label == least else f"{int(label)}" for label in labels)
            values, kind = ", ".join(texts), "const long long"
        elif labels.dtype.kind == "f":
            values, kind = ", ".join(float(label).hex() for label in labels), "const double"
        else:
            values, kind = ", ".join(_quoted(label) for label in labels), "const char *const"
        return f"static {kind} {self.name}_labels[{self.upper}_CLASSES] = {{{values}}};"

    def array(self, what: str, values: NDArray, kind: str | None = None) -> str:
        """Return the definition of an array of one or two dimensions."""
        rows = np.atleast_2d(values)
        body = ",\n  ".join("{" + ", ".join(map(self.literal, row)) + "}" for row in rows)
        shape = "".join(f"[{length}]" for length in values.shape)
        body = "{\n  " + body + "\n}" if values.ndim == 2 else body
        return f"static const {kind or self.name + '_number'} {self.name}_{what}{shape} = {body};"

    def literal(self, value: Any) -> str:
        """Return a number that a compiler reads to the bit."""
        with np.errstate(over="ignore"):
            value = float(np.float32(value)) if self.number == "float" else float(value)
        if not np.isfinite(value):
            raise ProblemError(f"{self.name}: a number of the model is beyond {self.number}; use number='double'")
        return f"{value!r}{self.suffix}"

    def arrays(self) -> list[str]:
        parts = self.parts
        found = [self.array("scale", self.scale), self.array("offset", self.offset), self.array("bias", parts.bias)]
        if self.is_linear:
            return [*found, self.array("weights", parts.weights().T)]
        return [*found, self.array("points", parts.points), self.array("coefficients", parts.coefficients)]

    def call(self, function: str) -> str:
        """Return the name of a function of <math.h> for the type of the numbers."""
        return function + self.suffix

    def functions(self) -> list[str]:
        """Return the kernel and ``NAME_decide``."""
        name, upper, parts = self.name, self.upper, self.parts
        # The value of a ball needs k(z, z) with a linear kernel, too.
        kernel = [] if self.is_linear and parts.task != "ball" else [*self.kernel(), ""]
        lines = [
            *kernel,
            self.decide_head(),
            f"  {name}_number z[{upper}_FEATURES];",
            f"  for (int i = 0; i < {upper}_FEATURES; i++) z[i] = x[i] * {name}_scale[i] + {name}_offset[i];",
            f"  for (int k = 0; k < {upper}_VALUES; k++) values[k] = {name}_bias[k];",
        ]
        if self.is_linear:
            lines += [
                f"  for (int k = 0; k < {upper}_VALUES; k++)",
                f"    for (int i = 0; i < {upper}_FEATURES; i++) values[k] += z[i] * {name}_weights[k][i];",
            ]
        else:
            lines += self.sums(f"{name}_number value = {name}_kernel(z, {name}_points[j]);", "value * ")
        if parts.task == "ball":
            lines += [f"  values[0] -= {self.own()};"]
        return [*lines, "}"]

    def decide_head(self) -> str:
        name, upper = self.name, self.upper
        return f"static void {name}_decide(const {name}_number x[{upper}_FEATURES], {name}_number *values) {{"

    def sums(self, value: str, factor: str, indent: str = "  ", target: str = "values") -> list[str]:
        """Return the loop over the support vectors, which adds their parts to the decision values."""
        name, parts = self.name, self.parts
        lines = [f"{indent}for (int j = 0; j < {len(parts.points)}; j++) {{", f"{indent}  {value}"]
        if parts.task != "several classes":
            return [*lines, f"{indent}  {target}[0] += {factor}{name}_coefficients[j][0];", f"{indent}}}"]
        # A support vector of class i has a coefficient for each of the other classes.
        classes, ends = len(parts.labels), np.cumsum(parts.counts)
        owner = " + ".join(f"(j >= {end})" for end in ends[:-1])
        lines += [
            f"{indent}  int own = {owner};",
            f"{indent}  for (int other = 0; other < {classes}; other++) {{",
            f"{indent}    if (other == own) continue;",
            f"{indent}    int a = own < other ? own : other, b = own < other ? other : own;",
            f"{indent}    int pair = a * {classes} - a * (a + 1) / 2 + b - a - 1;",
            f"{indent}    {target}[pair] += {factor}{name}_coefficients[j][other < own ? other : other - 1];",
            f"{indent}  }}",
            f"{indent}}}",
        ]
        return lines

    def kernel(self) -> list[str]:
        name, upper, parts = self.name, self.upper, self.parts
        begin = [
            f"static {name}_number {name}_kernel(const {name}_number *z, const {name}_number *s) {{",
            f"  {name}_number sum = 0;",
        ]
        if parts.kernel == "rbf":
            return [
                *begin,
                f"  for (int i = 0; i < {upper}_FEATURES; i++) sum += (z[i] - s[i]) * (z[i] - s[i]);",
                f"  return {self.call('exp')}(-{self.literal(parts.gamma)} * sum);",
                "}",
            ]
        return [
            *begin,
            f"  for (int i = 0; i < {upper}_FEATURES; i++) sum += z[i] * s[i];",
            *self.of_product(),
            "}",
        ]

    def of_product(self) -> list[str]:
        """Return the lines that make the kernel value of the inner product ``sum``."""
        parts, number = self.parts, f"{self.name}_number"
        if parts.kernel == "linear":
            return ["  return sum;"]
        base = f"  sum = {self.literal(parts.gamma)} * sum + {self.literal(parts.coef0)};"
        if parts.kernel == "sigmoid":
            return [base, f"  return {self.call('tanh')}(sum);"]
        if parts.kernel != "poly":
            raise unwritable_kernel(parts.kernel)
        if not float(parts.degree).is_integer():
            degree = self.literal(parts.degree)
            return [base, f"  return sum > 0 ? {self.call('pow')}(sum, {degree}) : 0;"]
        return [
            base,
            f"  {number} power = 1;",
            f"  for (int i = 0; i < {int(parts.degree)}; i++) power *= sum;",
            "  return power;",
        ]

    def own(self) -> str:
        """Return k(z, z)."""
        return "1" if self.parts.kernel == "rbf" else f"{self.name}_kernel(z, z)"

    def predict(self) -> list[str]:
        """Return ``NAME_predict``."""
        name, upper, parts = self.name, self.upper, self.parts
        kind = f"{name}_number" if parts.task == "regression" else "int"
        lines = [
            f"static {kind} {name}_predict(const {name}_number x[{upper}_FEATURES]) {{",
            f"  {name}_number values[{upper}_VALUES];",
            f"  {name}_decide(x, values);",
        ]
        if parts.task == "regression":
            return [*lines, "  return values[0];", "}"]
        if parts.task == "two classes":
            return [*lines, "  return values[0] >= 0;", "}"]
        if parts.task in ("ball", "plane"):
            return [*lines, f"  return values[0] {'>=' if parts.inside_at_zero else '>'} 0 ? 1 : -1;", "}"]
        return [*lines, *self.votes(), "}"]

    def votes(self) -> list[str]:
        """Return the choice of a class by votes of the pairs; ties go to the first class."""
        upper = self.upper
        if self.parts.breaks_ties:
            raise ProblemError("break_ties=True: a C header chooses by votes alone; fit with break_ties=False")
        return [
            f"  int won[{upper}_CLASSES] = {{0}}, best = 0, pair = 0;",
            f"  for (int a = 0; a < {upper}_CLASSES; a++)",
            f"    for (int b = a + 1; b < {upper}_CLASSES; b++, pair++) won[values[pair] > 0 ? a : b]++;",
            f"  for (int k = 1; k < {upper}_CLASSES; k++) if (won[k] > won[best]) best = k;",
            "  return best;",
        ]


class _Fixed(_Floating):
    """Write a model with int32_t numbers of 16 fraction bits."""

    def __init__(self, parts: DecisionParts, name: str, number: str, scale: NDArray, offset: NDArray) -> None:
        super().__init__(parts, name, number, scale, offset)
        if parts.kernel not in ("linear", "rbf") or (parts.kernel == "linear" and parts.task == "ball"):
            raise ProblemError(
                f"number='fixed': kernel={parts.kernel!r} of a {parts.task} model needs floating-point numbers; use "
                "number='float', or the radial kernel"
            )
        self.is_linear = parts.kernel == "linear"
        features = np.abs((parts.points - offset)[:, scale != 0] / scale[scale != 0]).max(initial=0.0)
        if features >= 2.0 ** (31 - FRACTION_BITS):
            raise ProblemError(f"number='fixed': a feature is {features:.3g}, and 32767 is the largest; scale the data")
        # Points are in units in which a radial kernel is 2^(−‖z − s‖²).
        unit = 1.0 if self.is_linear else math.sqrt(parts.gamma * math.log2(math.e))
        self.bits = FRACTION_BITS if self.is_linear else POINT_BITS
        self.scale, self.offset = scale * unit, offset * unit
        self.points = parts.points * unit
        weights = parts.weights().T if self.is_linear else parts.coefficients
        sums = np.abs(weights).sum(axis=1 if self.is_linear else 0)
        most = MAX_SHIFT - (0 if self.is_linear else 31 - FRACTION_BITS)  # a model may have no weights but 0
        self.sum_bits = min(most, 30 - int(np.ceil(np.log2(max(float(sums.max()), 2.0**-60)))))
        self.weights = weights

    def head(self) -> list[str]:
        return ["#include <stdint.h>", f"typedef int32_t {self.name}_number; /* {FRACTION_BITS} bits of fraction */"]

    def literal(self, value: Any) -> str:
        return str(int(value))

    def fixed(self, values: NDArray, bits: int, what: str, limit: int = 31) -> NDArray:
        """Return numbers times 2^bits, rounded; a `ProblemError` where they have more than ``limit`` bits."""
        found = np.rint(np.asarray(values, dtype=float) * 2.0**bits)
        if not (np.abs(found) < 2.0**limit).all():
            raise ProblemError(f"number='fixed': {what} of {np.abs(values).max():.3g} is too large; scale the features")
        return found.astype(np.int64)

    def arrays(self) -> list[str]:
        name, wide = self.name, "int64_t"
        # x·scale = x·multiplier/2^shift.
        exponent = np.where(self.scale == 0, 0, np.floor(np.log2(np.maximum(np.abs(self.scale), 1e-300))))
        shift = MULTIPLIER_BITS - 1 - exponent - (self.bits - FRACTION_BITS)
        if (shift < 1).any() or (shift > 62).any():
            raise ProblemError("number='fixed': the scales of the features are beyond 1e-9 … 1e4; scale them")
        multiplier = np.rint(self.scale * 2.0 ** (shift + self.bits - FRACTION_BITS)).astype(np.int64)
        found = [
            self.array("scale", multiplier, wide),
            self.array("shift", shift.astype(np.int64), "int8_t"),
            self.array("offset", self.fixed(self.offset, self.bits, "an offset", 50), wide),
            self.array("bias", self.fixed(self.parts.bias - self.ball(), FRACTION_BITS, "a bias"), wide),
        ]
        sums = self.fixed(self.weights, self.sum_bits, "a coefficient", 32)
        if self.is_linear:
            return [*found, self.array("weights", sums, wide)]
        table = np.rint(2.0 ** (31 - np.arange(TABLE_ENTRIES + 1) / TABLE_ENTRIES)).astype(np.int64)
        return [
            *found,
            self.array("points", self.fixed(self.points, POINT_BITS, "a scaled point"), "int32_t"),
            self.array("coefficients", sums, wide),
            f"static const uint32_t {name}_powers[{len(table)}] = {{{', '.join(f'{value}u' for value in table)}}};",
        ]

    def ball(self) -> float:
        """Return k(z, z) of a ball, which its value subtracts."""
        return 1.0 if self.parts.task == "ball" else 0.0

    def kernel(self) -> list[str]:
        name, upper = self.name, self.upper
        fraction = 2 * POINT_BITS
        return [
            "/* 2^(-|z - s|^2), 31 bits of fraction. */",
            f"static int64_t {name}_kernel(const int64_t *z, const int32_t *s) {{",
            "  uint64_t sum = 0;",
            f"  for (int i = 0; i < {upper}_FEATURES; i++) {{",
            "    int64_t d = z[i] - s[i];",
            f"    if (d >= {MAX_DIFFERENCE << POINT_BITS} || d <= -{MAX_DIFFERENCE << POINT_BITS}) return 0;",
            "    sum += (uint64_t)(d * d);",
            "  }",
            f"  if (sum >> {fraction} > 31) return 0;",
            f"  uint64_t part = sum & ((UINT64_C(1) << {fraction}) - 1);",
            f"  unsigned at = (unsigned)(part >> {fraction - 8});",
            f"  uint64_t rest = part & ((UINT64_C(1) << {fraction - 8}) - 1);",
            f"  uint64_t drop = {name}_powers[at] - {name}_powers[at + 1];",
            f"  uint64_t power = {name}_powers[at] - ((drop * rest) >> {fraction - 8});",
            f"  return (int64_t)(power >> (sum >> {fraction}));",
            "}",
        ]

    def functions(self) -> list[str]:
        name, upper = self.name, self.upper
        kernel = [] if self.is_linear else [*self.kernel(), ""]
        bits = self.sum_bits + (FRACTION_BITS if self.is_linear else 31) - FRACTION_BITS
        lines = [
            *kernel,
            self.decide_head(),
            f"  int64_t z[{upper}_FEATURES], sums[{upper}_VALUES] = {{0}};",
            f"  for (int i = 0; i < {upper}_FEATURES; i++)",
            f"    z[i] = {self.half(f'x[i] * {name}_scale[i]', f'{name}_shift[i]')} + {name}_offset[i];",
        ]
        if self.is_linear:
            limit = (1 << 31) - 1
            lines += [
                f"  for (int i = 0; i < {upper}_FEATURES; i++) {{",
                f"    if (z[i] > {limit}) z[i] = {limit};",
                f"    if (z[i] < -{limit}) z[i] = -{limit};",
                f"    for (int k = 0; k < {upper}_VALUES; k++) sums[k] += z[i] * {name}_weights[k][i];",
                "  }",
            ]
        else:
            lines += self.sums(f"int64_t value = {name}_kernel(z, {name}_points[j]);", "value * ", target="sums")
        return [
            *lines,
            f"  for (int k = 0; k < {upper}_VALUES; k++) {{",
            f"    int64_t value = {self.scaled('sums[k]', bits)} + {name}_bias[k];",
            "    values[k] = value > INT32_MAX ? INT32_MAX : value < INT32_MIN ? INT32_MIN : (int32_t)value;",
            "  }",
            "}",
        ]

    @staticmethod
    def half(product: str, shift: str) -> str:
        """Return a product divided by 2^shift, rounded; a shift of negative numbers is arithmetic in all compilers."""
        return f"(({product} + (INT64_C(1) << ({shift} - 1))) >> {shift})"

    def scaled(self, value: str, bits: int) -> str:
        """Return a sum divided by 2^bits."""
        return self.half(value, str(bits)) if bits > 0 else f"({value} * (INT64_C(1) << {-bits}))"


def _quoted(label: Any) -> str:
    """Return a C string of a label, in ASCII with escapes of its UTF-8."""
    plain = "".join(
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in str(label).encode()
    )
    return f'"{plain}"'
