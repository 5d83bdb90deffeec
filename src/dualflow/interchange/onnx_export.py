"""Export fitted models to ONNX, alone or in pipelines, by skl2onnx.

A model becomes a graph of elementary ONNX operators, which computes in float64. The operators SVMClassifier and
SVMRegressor of ONNX-ML are not used: they compute in float32, which loses digits for a large C or for features far
from 0, they have no center and no balls, and they swap the two classes. Where a pipeline takes named columns, the
graph has one input a column, of the type that it was fitted on.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..core.options import Number, OneOf
from ..estimators import (
    LSSVC,
    LSSVR,
    SVC,
    SVDD,
    SVR,
    CascadeSVC,
    EcoSVC,
    EcoSVDD,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    QuantileSVR,
)
from ..exceptions import DualflowError, ProblemError, SolverUnavailable
from ..persistence.files import replacing
from .libsvm_model import LibsvmModel
from .onnx_parts import DecisionParts, labels_of, parts_of, unwritable_kernel


def columns_of(model: Any, numbers: Any) -> list[tuple[str, Any]] | None:
    """Return name and type of each column that a model takes by name; None if it takes one matrix.

    ``numbers`` is the tensor type of columns that are no categories.
    """
    from skl2onnx.common.data_types import Int64TensorType, StringTensorType

    names = getattr(model, "feature_names_in_", None)
    transformer = _first_step(model)
    if names is None or not isinstance(transformer, ColumnTransformer):
        return None
    kinds = dict.fromkeys(names.tolist(), numbers)
    dropped: list[str] = []
    for _, step, columns in transformer.transformers_:
        given = _names_of(columns, names)
        if isinstance(step, str) and step == "drop":
            dropped += given
            continue
        for name, kind in zip(given, _categories(step, len(given)), strict=True):
            if kind in "OUS":
                kinds[name] = StringTensorType
            elif kind in "iub":
                kinds[name] = Int64TensorType
    # skl2onnx counts places among the inputs, so that columns chosen by their place need all inputs.
    by_place = any(_are_places(columns) for _, step, columns in transformer.transformers if not isinstance(step, str))
    return [(name, kind([None, 1])) for name, kind in kinds.items() if by_place or name not in dropped]


def _first_step(model: Any) -> Any:
    """Return the first transformer of a pipeline, or of pipelines within one."""
    while isinstance(model, Pipeline):
        model = model.steps[0][1]
    return model


def _are_places(columns: Any) -> bool:
    """Whether columns are a slice, a mask or numbers, and not names."""
    return isinstance(columns, slice) or np.asarray(columns).dtype.kind in "iub"


def _names_of(columns: Any, names: NDArray) -> list[str]:
    """Return the names that columns stand for: a name, names, places, a mask, or a slice of names or places."""
    if isinstance(columns, str):
        return [columns]
    if isinstance(columns, slice):
        places = {name: k for k, name in enumerate(names.tolist())}
        start, stop = places.get(columns.start, columns.start), columns.stop
        if isinstance(stop, str):  # as in pandas, the last name is in a slice of names
            stop = places[stop] + 1
        columns = slice(start, stop, columns.step)
    elif not _are_places(columns):
        return list(columns)
    found: list[str] = names[columns].tolist()
    return found


def _categories(step: Any, count: int) -> str:
    """Return the kind of dtype of the values of each column, "f" for numbers that are no categories."""
    step = _first_step(step)
    categories = getattr(step, "categories_", None)
    if categories is not None and len(categories) == count:
        return "".join(values.dtype.kind for values in categories)
    statistics = getattr(step, "statistics_", None)  # of a SimpleImputer
    return ("O" if getattr(statistics, "dtype", np.dtype(float)).kind in "OU" else "f") * count


#: A radial kernel value counts as 0 if γ‖x‖² of the point is larger than this, as in `core.gram`.
FAR_EXPONENT = 1e30
#: Relative round-off: a base of a fractional power that is negative by at most this much counts as 0.
POWER_ROUND_OFF = 64 * float(np.finfo(float).eps)


class Graph:
    """A graph to which nodes and constants are added: a container of skl2onnx, with names from its scope."""

    def __init__(self, scope: Any, container: Any) -> None:
        from onnx import TensorProto

        self.scope, self.container, self.types = scope, container, TensorProto

    def node(self, operator: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """Add a node with one output, and return the name of the output."""
        out = self.scope.get_unique_variable_name(operator.lower()) if out is None else out
        self.container.add_node(
            operator, list(inputs), [out], name=self.scope.get_unique_operator_name(operator), **attributes
        )
        return out

    def split(self, what: str, counts: NDArray) -> list[str]:
        """Split an array into parts with these numbers of columns, and return their names."""
        names = [self.scope.get_unique_variable_name("split") for _ in counts]
        name = self.scope.get_unique_operator_name("Split")
        self.container.add_node("Split", [what, self.constant(counts)], names, name=name, axis=1, op_version=13)
        return names

    def constant(self, values: Any) -> str:
        """Add an initializer (float64, int64, booleans or text), and return its name."""
        from onnx import numpy_helper

        values = np.asarray(values)
        name = self.scope.get_unique_variable_name("constant")
        if values.dtype.kind == "O":
            text = [label.encode() for label in values.tolist()]
            self.container.add_initializer(name, self.types.STRING, list(values.shape), text)
        else:
            self.container.add_initializer(
                name, None, None, numpy_helper.from_array(np.ascontiguousarray(values), name)
            )
        return name

    def cast(self, what: str, to: int, out: str | None = None) -> str:
        return self.node("Cast", what, out=out, to=to)

    def double(self, what: str) -> str:
        return self.cast(what, self.types.DOUBLE)

    def rows(self, what: str, *lengths: int, out: str | None = None) -> str:
        """Reshape each row of an array to these lengths; there may be no rows."""
        return self.node("Reshape", what, self.constant(np.array([0, *lengths], dtype=np.int64)), out=out)

    def row_sums(self, what: str, length: int) -> str:
        """Sum over the last axis, which is kept with length 1."""
        return self.node("MatMul", what, self.constant(np.ones((length, 1))))


def draw(graph: Graph, parts: DecisionParts, X: str) -> tuple[str, str]:
    """Add the nodes of a model to a graph, and return the names of its decision values and of its labels.

    Decision values are float64 of shape (n,) or (n, columns), labels have shape (n,). For a regression both are its
    values, of shape (n, 1).
    """
    x = graph.node("Sub", graph.double(X), graph.constant(parts.center)) if parts.center.any() else graph.double(X)
    values = graph.node("Add", _expansion(graph, parts, x), graph.constant(parts.bias))
    if parts.task == "regression":
        return values, values
    if parts.task == "several classes":
        return _votes_of_classes(graph, parts, values)
    if parts.task == "ball":
        values = graph.node("Sub", values, _diagonal(graph, parts, x))
    values = graph.rows(values)
    there = graph.node("GreaterOrEqual" if parts.inside_at_zero else "Greater", values, graph.constant(0.0))
    labels = parts.labels if parts.task == "two classes" else np.array([-1, 1])
    return values, graph.node("Gather", graph.constant(labels), graph.cast(there, graph.types.INT64), axis=0)


def _expansion(graph: Graph, parts: DecisionParts, x: str) -> str:
    """Return Σⱼ coef k(x, xⱼ), shape (n, pairs), for points minus the center."""
    if parts.kernel == "linear" and parts.points.shape[1] * len(parts.bias) <= parts.points.size:
        return graph.node("MatMul", x, graph.constant(parts.weights()))
    K, beyond = _kernel(graph, parts, x), ""
    if parts.kernel == "rbf" and not parts.needs_differences:
        beyond = graph.node(
            "Greater", _squares(graph, parts, x), graph.constant(FAR_EXPONENT / max(parts.gamma, 1e-300))
        )
    if parts.task != "several classes":
        values = graph.node("MatMul", K, graph.constant(parts.coefficients))
    else:
        starts = np.cumsum(parts.counts)[:-1]
        blocks = [graph.constant(block) for block in np.split(parts.coefficients, starts)]
        own = [graph.node("MatMul", *both) for both in zip(graph.split(K, parts.counts), blocks, strict=True)]
        # Column i(k − 1) + r is the part of class i in its pair with the r-th of the other classes.
        each, width = graph.node("Concat", *own, axis=1), len(parts.counts) - 1
        i, j = np.array(parts.pairs).T
        values = graph.node(
            "Add",
            *(graph.node("Gather", each, graph.constant(of), axis=1) for of in (i * width + j - 1, j * width + i)),
        )
    return graph.node("Where", beyond, graph.constant(0.0), values) if beyond else values


def _squares(graph: Graph, parts: DecisionParts, x: str) -> str:
    """Return ‖x‖², shape (n, 1)."""
    return graph.row_sums(graph.node("Mul", x, x), parts.points.shape[1])


def _kernel(graph: Graph, parts: DecisionParts, x: str) -> str:
    """Return k(x, xⱼ), shape (n, n_SV)."""
    if parts.needs_differences:
        width = parts.points.shape[1]
        apart = graph.node("Sub", graph.rows(x, 1, width), graph.constant(parts.points))
        squares = graph.rows(graph.row_sums(graph.node("Mul", apart, apart), width), len(parts.points))
        return graph.node("Exp", graph.node("Mul", squares, graph.constant(-parts.gamma)))
    if parts.kernel != "rbf":
        return _of_products(graph, parts, graph.node("MatMul", x, graph.constant(parts.points.T)), x)
    twice = graph.node("MatMul", x, graph.constant(2.0 * parts.gamma * parts.points.T))
    own = graph.node("Mul", _squares(graph, parts, x), graph.constant(parts.gamma))
    near = graph.node("Sub", graph.node("Sub", twice, own), graph.constant(parts.gamma * parts.squares))
    return graph.node("Exp", near)


def _diagonal(graph: Graph, parts: DecisionParts, x: str) -> str:
    """Return k(x, x), shape (n, 1)."""
    if parts.kernel == "rbf":
        return graph.constant(1.0)
    return _of_products(graph, parts, _squares(graph, parts, x), x)


def _of_products(graph: Graph, parts: DecisionParts, inner: str, x: str) -> str:
    """Return the kernel "linear", "poly" or "sigmoid" as a function of inner products."""
    if parts.kernel == "linear":
        return inner
    base = graph.node("Add", graph.node("Mul", inner, graph.constant(parts.gamma)), graph.constant(parts.coef0))
    if parts.kernel == "sigmoid":
        return graph.node("Tanh", base)
    if parts.kernel != "poly":
        raise unwritable_kernel(parts.kernel)
    if not parts.degree.is_integer():  # a negative base gives NaN, but one that is negative by round-off gives 0
        longest = parts.gamma * max(1.0, float(np.sqrt(parts.squares.max())))
        size = graph.node(
            "Mul", graph.node("Sqrt", _squares(graph, parts, x)), graph.constant(-POWER_ROUND_OFF * longest)
        )
        least = graph.node("Sub", size, graph.constant(POWER_ROUND_OFF * abs(parts.coef0)))
        lost = graph.node(
            "And", *(graph.node(op, base, of) for op, of in (("Less", graph.constant(0.0)), ("Greater", least)))
        )
        base = graph.node("Where", lost, graph.constant(0.0), base)
    return base if parts.degree == 1 else graph.node("Pow", base, graph.constant(parts.degree))


def _votes_of_classes(graph: Graph, parts: DecisionParts, values: str) -> tuple[str, str]:
    """Return decision values and labels of more than two classes (or of two in a `LibsvmModel`), by votes."""
    classes = len(parts.labels)
    number = {pair: k for k, pair in enumerate(parts.pairs)}
    order = [(i, j) for i in range(classes) for j in range(classes) if j != i]
    first = np.array([i < j for i, j in order])
    columns = np.array([number[min(pair), max(pair)] for pair in order])
    # Decision values of every class i against each of the others, positive for i.
    both = graph.node("Gather", values, graph.constant(columns), axis=1)
    both = graph.node("Mul", both, graph.constant(np.where(first, 1.0, -1.0)))
    ovr = ""
    if parts.shape == "ovr" or parts.breaks_ties:
        sums = _totals(graph, both, classes)
        bound = graph.node("Add", graph.node("Abs", sums), graph.constant(1.0))
        small = graph.node("Div", sums, graph.node("Mul", bound, graph.constant(3.0)))
        ovr = graph.node("Add", _votes(graph, both, ~first, classes), small)
    scores = ovr if parts.breaks_ties else _votes(graph, both, first, classes)
    winner = graph.node("ArgMax", scores, axis=1, keepdims=0)
    labels = graph.node("Gather", graph.constant(parts.labels), winner, axis=0)
    if parts.shape == "ovr":
        return ovr, labels
    if parts.columns is not None:
        values = graph.node("Gather", values, graph.constant(parts.columns), axis=1)
        values = graph.node("Mul", values, graph.constant(parts.signs))
    return (graph.rows(values) if classes == 2 else values), labels


def _votes(graph: Graph, both: str, strict: NDArray, classes: int) -> str:
    """Return the number of wins of each class, shape (n, n_classes); a value of 0 is a win unless ``strict``."""
    zero = graph.constant(0.0)
    drawn = graph.node("And", graph.node("Equal", both, zero), graph.constant(~strict))
    won = graph.node("Or", graph.node("Greater", both, zero), drawn)
    return _totals(graph, graph.double(won), classes)


def _totals(graph: Graph, both: str, classes: int) -> str:
    """Return the sums of each class over the others, shape (n, n_classes)."""
    apart = graph.rows(both, classes, classes - 1)
    return graph.rows(graph.row_sums(apart, classes - 1), classes)


_KINDS = (
    SVC, SVR, NuSVC, NuSVR, SVDD, OneClassSVM, LSSVC, LSSVR, EcoSVC, EcoSVDD, IncrementalSVC, IncrementalSVR,
    IncrementalSVDD, QuantileSVR, CascadeSVC,
)  # fmt: skip
#: Options that skl2onnx sets for all classifiers. They have no effect on ours, whose probabilities are not exported.
_OPTIONS = {"zipmap": [True, False, "columns"], "raw_scores": [True, False]}
#: Name of the output that holds the decision values.
_SCORES = "scores"


def to_onnx(
    model: Any, path: str | Path | None = None, *, dtype: str = "float32", target_opset: int | None = None
) -> Any:
    """Return a fitted model, or a pipeline with one, as an ONNX graph, which onnxruntime evaluates without Python.

    The input is ``X``, of shape (n, n_features), or, for a pipeline with a `ColumnTransformer` that was fitted on named
    columns, one input of shape (n, 1) for each column, under its name. Classifiers, data descriptions and one-class
    models have the outputs ``label`` and ``scores``: those of `predict` and `decision_function`, in the same shapes,
    labels of the same type. A regression has the output ``variable``, shape (n, 1), as others of skl2onnx. The graph
    computes in float64, and holds the kernel values of all n points in memory. Probabilities (``SVC(probability=...)``)
    are not exported.

    Parameters
    ----------
    model : estimator, Pipeline, search or LibsvmModel
        With kernel "linear", "poly", "rbf" or "sigmoid". An incremental model is exported in its current state.
    path : str or Path, optional
        A file to write, too; an existing one is replaced.
    dtype : {"float32", "float64"}, default="float32"
        Type of the input (of named columns: those of numbers; columns of text are text, columns of whole-number
        categories int64), of decision values and of regression values. float32 loses digits of X, of the answer, and in
        the other steps of a pipeline, but not within the model.
    target_opset : int ≥ 13, optional
        Version of the ONNX operators; by default the latest that skl2onnx has tested.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    ProblemError
        ONNX cannot hold the kernel (a matrix, a callable, a quantum kernel), the labels or the model, or the file would
        be 2 GiB or more. Or skl2onnx has no converter for a step of the pipeline.
    NotFittedError
        The model is not fitted.
    SolverUnavailable
        skl2onnx is not installed: ``pip install 'dualflow[onnx]'``.

    Notes
    -----
    A graph cannot raise errors: if `predict` would (NaN, an overflow), its values are NaN and its labels are not
    meaningful.

    Examples
    --------
    >>> import numpy as np
    >>> from onnxruntime import InferenceSession
    >>> from dualflow import SVC
    >>> from dualflow.interchange import to_onnx
    >>> model = SVC(kernel="linear", C=10).fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> session = InferenceSession(to_onnx(model).SerializeToString())
    >>> label, scores = session.run(None, {"X": np.array([[0.4], [2.5]], dtype=np.float32)})
    >>> label.tolist(), scores.round(3).tolist()
    (['a', 'b'], [-2.200000047683716, 2.0])
    """
    OneOf(words=("float32", "float64")).check("dtype", dtype)
    target_opset = Number(at_least=13, whole=True, none=True).check("target_opset", target_opset)
    register_onnx()
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    name = type(model).__name__
    if not isinstance(model, LibsvmModel):
        if not hasattr(model, "fit") or isinstance(model, type):
            raise ProblemError(f"model is {name}; to_onnx needs a fitted estimator, a pipeline, or a LibsvmModel")
        check_is_fitted(model)
        model = getattr(model, "best_estimator_", model)
    if not hasattr(model, "n_features_in_"):
        raise ProblemError(f"{name} does not state its number of features (n_features_in_); use skl2onnx.to_onnx")
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if isinstance(last, CalibratedClassifierCV) and last.method == "isotonic":
        raise ProblemError(
            "method='isotonic': skl2onnx takes the nearest step and scikit-learn interpolates, so that their "
            "probabilities differ; calibrate with method='sigmoid'"
        )
    kind = FloatTensorType if dtype == "float32" else DoubleTensorType
    inputs = columns_of(model, kind) or [("X", kind([None, int(model.n_features_in_)]))]
    try:
        made = convert_sklearn(model, "dualflow", initial_types=inputs, target_opset=target_opset)
    except DualflowError:
        raise
    except Exception as error:  # the converter of another package's step may raise anything
        raise ProblemError(f"{name}: skl2onnx cannot convert it: {' '.join(str(error).split())}") from error
    if summaries := getattr(last, "raw_summaries_", ()):
        made.metadata_props.add(key="circuits", value="\n".join(summaries))
    if path is not None:
        with replacing(Path(path)) as file:
            file.write(made.SerializeToString())
    return made


def register_onnx() -> None:
    """Register the estimators of dualflow with skl2onnx, so that `skl2onnx.to_onnx` converts pipelines with them.

    dualflow calls it automatically once both packages are imported, in any order, and in `to_onnx`. If skl2onnx is
    "unable to find a shape calculator" for a class of dualflow, call it again. Outputs, errors and limits are those of
    `to_onnx`.

    Raises
    ------
    SolverUnavailable
        skl2onnx is not installed: ``pip install 'dualflow[onnx]'``.

    Examples
    --------
    >>> import numpy as np, skl2onnx
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from dualflow import SVC
    >>> from dualflow.interchange import register_onnx
    >>> register_onnx()
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([0, 0, 1, 1])
    >>> made = skl2onnx.to_onnx(make_pipeline(StandardScaler(), SVC()).fit(X, y), X)
    >>> [output.name for output in made.graph.output]
    ['label', 'scores']
    """
    try:
        from skl2onnx import update_registered_converter
    except ImportError as error:
        raise SolverUnavailable(
            f"ONNX needs {error.name or 'skl2onnx'}, which is not installed: pip install 'dualflow[onnx]'"
        ) from error
    for kind in (*_KINDS, LibsvmModel):
        update_registered_converter(
            kind,
            f"Dualflow{kind.__name__}",
            _shapes,
            _convert,
            parser=None if issubclass(kind, RegressorMixin) else _parse,
            options=_OPTIONS if issubclass(kind, ClassifierMixin) else None,
        )


def _parse(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """Declare the outputs of a model that is alone or ends a pipeline; a regression has no labels."""
    from skl2onnx.common.data_types import Int64TensorType, guess_tensor_type

    operator = scope.declare_local_operator(f"Dualflow{type(model).__name__}", model)
    operator.inputs = inputs
    values = guess_tensor_type(inputs[0].type)
    if isinstance(model, LibsvmModel) and model.svm_type.endswith("svr"):
        operator.outputs.append(scope.declare_local_variable("variable", values))
    else:
        operator.outputs.append(scope.declare_local_variable("label", Int64TensorType()))
        operator.outputs.append(scope.declare_local_variable(_SCORES, values))
    return operator.outputs


def _is_within(operator: Any) -> bool:
    """Return whether a classifier is part of another one, such as a calibrated one.

    The other's converter names the outputs itself, and needs two columns for two classes.
    """
    model = operator.raw_operator
    alone = isinstance(model, LibsvmModel) or operator.outputs[-1].raw_name.startswith(_SCORES)
    return not alone and is_classifier(model)


def _shapes(operator: Any) -> None:
    """Set types and shapes of the outputs to those of `predict` and `decision_function`."""
    model, n = operator.raw_operator, _checked_input(operator)
    if len(operator.outputs) == 1:
        operator.outputs[0].type.shape = [n, 1]
        return
    classes = len(getattr(model, "classes_", ()))
    pairs = classes * (classes - 1) // 2
    width = classes if getattr(model, "decision_function_shape", "ovo") == "ovr" else pairs
    operator.outputs[0].type = _label_type(model, n)
    if classes <= 2:
        operator.outputs[1].type.shape = [n, 2] if _is_within(operator) else [n]
    else:
        operator.outputs[1].type.shape = [n, width]


def _checked_input(operator: Any) -> Any:
    """Return the number of points, if it is known; raise ProblemError unless the input is one matrix of n_features."""
    from skl2onnx.common.data_types import StringTensorType

    model, (first, *others) = operator.raw_operator, operator.inputs
    name = type(model).__name__
    if others or isinstance(first.type, StringTensorType):
        raise ProblemError(
            f"{name} needs one matrix of numbers as its input; give X with all {model.n_features_in_} columns"
        )
    shape = list(first.type.shape or [])
    if len(shape) == 2 and isinstance(shape[1], int) and shape[1] != model.n_features_in_:
        raise ProblemError(f"{name} was fitted on {model.n_features_in_} features, and its input has {shape[1]}")
    return first.get_first_dimension()


def _label_type(model: Any, n: Any) -> Any:
    from skl2onnx.common import data_types

    kind = labels_of(model.classes_).dtype.kind if len(getattr(model, "classes_", ())) else "i"
    name = {"O": "String", "b": "Boolean", "f": "Double"}.get(kind, "Int64")
    return getattr(data_types, f"{name}TensorType")([n])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    from skl2onnx.common.data_types import DoubleTensorType

    model, within = operator.raw_operator, _is_within(operator)
    if within and not container.get_options(model, {"raw_scores": False})["raw_scores"]:
        raise ProblemError(
            f"{type(model).__name__}: another estimator needs its probabilities, and it has only decision values; "
            "request these by skl2onnx.to_onnx(model, options={id(model): {'raw_scores': True}}), or calibrate it by "
            "CalibratedClassifierCV"
        )
    parts, graph = parts_of(model), Graph(scope, container)
    values, labels = draw(graph, parts, operator.inputs[0].full_name)
    if within and len(parts.labels) == 2:
        column = graph.rows(values, 1)
        values = graph.node("Concat", graph.node("Neg", column), column, axis=1)
    doubles = isinstance(operator.outputs[-1].type, DoubleTensorType)
    graph.cast(values, graph.types.DOUBLE if doubles else graph.types.FLOAT, out=operator.outputs[-1].full_name)
    if len(operator.outputs) == 2:
        graph.node("Identity", labels, out=operator.outputs[0].full_name)
