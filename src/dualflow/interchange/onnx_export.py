"""Fitted models to ONNX, alone or in pipelines, by skl2onnx."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..core.options import Number, OneOf
from ..estimators import (
    LSSVC,
    LSSVR,
    SVC,
    SVDD,
    SVR,
    EcoSVC,
    EcoSVDD,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
)
from ..exceptions import DualflowError, ProblemError, SolverUnavailable
from ..persistence.files import replacing
from .libsvm_model import LibsvmModel
from .onnx_graph import Graph, draw
from .onnx_parts import labels_of, parts_of

__all__ = ["register_onnx", "to_onnx"]

_KINDS = (
    SVC, SVR, NuSVC, NuSVR, SVDD, OneClassSVM, LSSVC, LSSVR, EcoSVC, EcoSVDD, IncrementalSVC, IncrementalSVR,
    IncrementalSVDD,
)  # fmt: skip
#: What skl2onnx may ask of any classifier. There are no probabilities here, and so none to be made a map of.
_OPTIONS = {"zipmap": [True, False, "columns"], "raw_scores": [True, False]}
#: Decision values, as the outputs of a graph are called.
_SCORES = "scores"


def to_onnx(
    model: Any, path: str | Path | None = None, *, dtype: str = "float32", target_opset: int | None = None
) -> Any:
    """A fitted model, or a pipeline with one, as a graph of ONNX, which onnxruntime computes without Python.

    The input is ``X``, of shape (n, n_features). Outputs of a classifier are ``label`` and ``scores``, which are what
    `predict` and `decision_function` return, in their shapes and, the labels, in their type; a data description's or
    one-class model's are, too. A regression has ``variable``, shape (n, 1), as all of skl2onnx's. Within, all is
    computed in float64 by elementary operators, and the kernel values of all n points are held at once.

    Parameters
    ----------
    model : estimator, Pipeline, search or LibsvmModel
        Kernels "linear", "poly", "rbf" and "sigmoid". A stream is written as it is now.
    path : str or Path, optional
        Where to write it, too; a file that is there is replaced.
    dtype : {"float32", "float64"}, default="float32"
        Of the input, of decision values and of regressions. With float32 digits are lost in X and in the answer, and in
        the other steps of a pipeline, not between.
    target_opset : int ≥ 13, optional
        Version of ONNX's operators; by default the latest that skl2onnx has tested.

    Returns
    -------
    onnx.ModelProto

    Raises
    ------
    ProblemError
        ONNX has no such kernel (a matrix, a callable, a quantum kernel), labels or model, or no room: its files end at
        2 GiB. Or skl2onnx has no converter for a step of the pipeline.
    NotFittedError
        The model is not fitted.
    SolverUnavailable
        skl2onnx is not installed: ``pip install 'dualflow[onnx]'``.

    Notes
    -----
    A graph cannot refuse numbers: where `predict` is an error (NaN, an overflow) its values are NaN, and labels mean
    nothing.

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
            raise ProblemError(f"model is {name}; to_onnx takes a fitted estimator, a pipeline, or a LibsvmModel")
        check_is_fitted(model)
        model = getattr(model, "best_estimator_", model)
    if not hasattr(model, "n_features_in_"):
        raise ProblemError(f"{name} does not say how many features it takes (n_features_in_): use skl2onnx.to_onnx")
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if isinstance(last, CalibratedClassifierCV) and last.method == "isotonic":
        raise ProblemError(
            "method='isotonic': skl2onnx takes the nearest step where scikit-learn interpolates, and its probabilities "
            "are others; calibrate with method='sigmoid'"
        )
    kind = FloatTensorType if dtype == "float32" else DoubleTensorType
    inputs = [("X", kind([None, int(model.n_features_in_)]))]
    try:
        made = convert_sklearn(model, "dualflow", initial_types=inputs, target_opset=target_opset)
    except DualflowError:
        raise
    except Exception as error:  # of a step that is not ours, whatever its converter raises
        raise ProblemError(f"{name}: skl2onnx cannot convert it: {' '.join(str(error).split())}") from error
    if said := getattr(last, "raw_summaries_", ()):
        made.metadata_props.add(key="circuits", value="\n".join(said))
    if path is not None:
        with replacing(Path(path)) as file:
            file.write(made.SerializeToString())
    return made


def register_onnx() -> None:
    """Make skl2onnx know the estimators of dualflow: `skl2onnx.to_onnx` then converts pipelines that end in one.

    As often as one likes; `to_onnx` does it, too. Outputs, errors and limits are those of `to_onnx`.

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
    """What comes of a model that stands alone or ends a pipeline: a regression in a LIBSVM file has no labels."""
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
    """Whether a classifier is part of another one (a calibrated one, say), whose converter names what it gets itself,
    and of two classes takes two columns."""
    model = operator.raw_operator
    alone = isinstance(model, LibsvmModel) or operator.outputs[-1].raw_name.startswith(_SCORES)
    return not alone and is_classifier(model)


def _shapes(operator: Any) -> None:
    """Types and shapes of the outputs, those of `predict` and `decision_function`."""
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
    """How many points there are, if that is known, of an input that is one matrix of numbers, as wide as the model."""
    from skl2onnx.common.data_types import StringTensorType

    model, (first, *others) = operator.raw_operator, operator.inputs
    name = type(model).__name__
    if others or isinstance(first.type, StringTensorType):
        raise ProblemError(
            f"{name} takes one matrix of numbers as its input; give X with all {model.n_features_in_} columns"
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
            f"{type(model).__name__}: another estimator asks it for probabilities, and it has decision values only; "
            "ask for them by skl2onnx.to_onnx(model, options={id(model): {'raw_scores': True}}), or calibrate it: "
            "CalibratedClassifierCV"
        )
    parts, graph = parts_of(model), Graph(scope, container)
    values, labels = draw(graph, parts, operator.inputs[0].full_name)
    if within and len(parts.labels) == 2:
        column = graph.rows(values, 1)
        values = graph.node("Concat", graph.node("Neg", column), column, axis=1)
    doubles = isinstance(operator.inputs[0].type, DoubleTensorType)
    graph.cast(values, graph.types.DOUBLE if doubles else graph.types.FLOAT, out=operator.outputs[-1].full_name)
    if len(operator.outputs) == 2:
        graph.node("Identity", labels, out=operator.outputs[0].full_name)
