"""A model drawn as a graph of ONNX's elementary operators, all of it in float64.

ONNX-ML's own SVMClassifier and SVMRegressor hold their numbers in float32, have no center, no balls, and two classes
the other way round; float32 would lose the digits of a large C, or of features far from 0, that the model has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .onnx_parts import Parts

__all__ = ["Graph", "draw"]

#: γ‖x‖² of a point from which its radial kernel counts as 0, as in `core.kernel_matrix`.
FAR = 1e30
#: Round-off below 0 of a base that a broken power takes for 0, of the largest it could be.
LOST = 64 * float(np.finfo(float).eps)


class Graph:
    """What nodes and constants are added to: a container of skl2onnx's, with names by its scope."""

    def __init__(self, scope: Any, container: Any) -> None:
        from onnx import TensorProto

        self.scope, self.container, self.types = scope, container, TensorProto

    def node(self, operator: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """A node of one output, whose name is returned."""
        out = self.scope.get_unique_variable_name(operator.lower()) if out is None else out
        self.container.add_node(
            operator, list(inputs), [out], name=self.scope.get_unique_operator_name(operator), **attributes
        )
        return out

    def split(self, what: str, counts: NDArray) -> list[str]:
        """Parts of so many columns."""
        names = [self.scope.get_unique_variable_name("split") for _ in counts]
        name = self.scope.get_unique_operator_name("Split")
        self.container.add_node("Split", [what, self.constant(counts)], names, name=name, axis=1, op_version=13)
        return names

    def constant(self, values: Any) -> str:
        """An initializer: float64, int64, truth values or text."""
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
        """The same numbers in another shape, row by row; of no rows, too."""
        return self.node("Reshape", what, self.constant(np.array([0, *lengths], dtype=np.int64)), out=out)

    def row_sums(self, what: str, length: int) -> str:
        """Sums over the last axis, which stays."""
        return self.node("MatMul", what, self.constant(np.ones((length, 1))))


def draw(graph: Graph, parts: Parts, X: str) -> tuple[str, str]:
    """Nodes from data to decision values, float64 of shape (n,) or (n, columns), and to labels, shape (n,); of a
    regression both are its values, shape (n, 1)."""
    x = graph.node("Sub", graph.double(X), graph.constant(parts.center)) if parts.center.any() else graph.double(X)
    values = graph.node("Add", _expansion(graph, parts, x), graph.constant(parts.bias))
    if parts.task == "regression":
        return values, values
    if parts.task == "several classes":
        return _several(graph, parts, values)
    if parts.task == "ball":
        values = graph.node("Sub", values, _diagonal(graph, parts, x))
    values = graph.rows(values)
    there = graph.node("GreaterOrEqual" if parts.inside_at_zero else "Greater", values, graph.constant(0.0))
    labels = parts.labels if parts.task == "two classes" else np.array([-1, 1])
    return values, graph.node("Gather", graph.constant(labels), graph.cast(there, graph.types.INT64), axis=0)


def _expansion(graph: Graph, parts: Parts, x: str) -> str:
    """Σⱼ coef k(x, xⱼ), shape (n, pairs), of points less the center."""
    if parts.kernel == "linear" and parts.points.shape[1] * len(parts.bias) <= parts.points.size:
        return graph.node("MatMul", x, graph.constant(parts.weights()))
    K, beyond = _kernel(graph, parts, x), ""
    if parts.kernel == "rbf" and not parts.is_sharp:
        beyond = graph.node("Greater", _squares(graph, parts, x), graph.constant(FAR / max(parts.gamma, 1e-300)))
    if parts.task != "several classes":
        values = graph.node("MatMul", K, graph.constant(parts.coefficients))
    else:
        starts = np.cumsum(parts.counts)[:-1]
        blocks = [graph.constant(block) for block in np.split(parts.coefficients, starts)]
        own = [graph.node("MatMul", *both) for both in zip(graph.split(K, parts.counts), blocks, strict=True)]
        # Column i(k − 1) + r: what class i gives to the pair with the r-th of the others.
        each, width = graph.node("Concat", *own, axis=1), len(parts.counts) - 1
        i, j = np.array(parts.pairs).T
        values = graph.node(
            "Add",
            *(graph.node("Gather", each, graph.constant(of), axis=1) for of in (i * width + j - 1, j * width + i)),
        )
    return graph.node("Where", beyond, graph.constant(0.0), values) if beyond else values


def _squares(graph: Graph, parts: Parts, x: str) -> str:
    """‖x‖², shape (n, 1)."""
    return graph.row_sums(graph.node("Mul", x, x), parts.points.shape[1])


def _kernel(graph: Graph, parts: Parts, x: str) -> str:
    """k(x, xⱼ), shape (n, n_SV)."""
    if parts.is_sharp:
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


def _diagonal(graph: Graph, parts: Parts, x: str) -> str:
    """k(x, x), shape (n, 1)."""
    if parts.kernel == "rbf":
        return graph.constant(1.0)
    return _of_products(graph, parts, _squares(graph, parts, x), x)


def _of_products(graph: Graph, parts: Parts, inner: str, x: str) -> str:
    """ "linear", "poly" and "sigmoid" as functions of inner products."""
    if parts.kernel == "linear":
        return inner
    base = graph.node("Add", graph.node("Mul", inner, graph.constant(parts.gamma)), graph.constant(parts.coef0))
    if parts.kernel == "sigmoid":
        return graph.node("Tanh", base)
    if not parts.degree.is_integer():  # of a base below 0 that is NaN, but not where only round-off took it there
        longest = parts.gamma * max(1.0, float(np.sqrt(parts.squares.max())))
        size = graph.node("Mul", graph.node("Sqrt", _squares(graph, parts, x)), graph.constant(-LOST * longest))
        least = graph.node("Sub", size, graph.constant(LOST * abs(parts.coef0)))
        lost = graph.node(
            "And", *(graph.node(op, base, of) for op, of in (("Less", graph.constant(0.0)), ("Greater", least)))
        )
        base = graph.node("Where", lost, graph.constant(0.0), base)
    return base if parts.degree == 1 else graph.node("Pow", base, graph.constant(parts.degree))


def _several(graph: Graph, parts: Parts, values: str) -> tuple[str, str]:
    """Decision values and labels of more than two classes (or of two of a LIBSVM file), by votes."""
    classes = len(parts.labels)
    number = {pair: k for k, pair in enumerate(parts.pairs)}
    order = [(i, j) for i in range(classes) for j in range(classes) if j != i]
    first = np.array([i < j for i, j in order])
    columns = np.array([number[min(pair), max(pair)] for pair in order])
    # f(i against j), positive for i, of every class against each of the others.
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
    """How many of the others each class wins against, shape (n, n_classes): at a value of 0 where not ``strict``."""
    zero = graph.constant(0.0)
    drawn = graph.node("And", graph.node("Equal", both, zero), graph.constant(~strict))
    won = graph.node("Or", graph.node("Greater", both, zero), drawn)
    return _totals(graph, graph.double(won), classes)


def _totals(graph: Graph, both: str, classes: int) -> str:
    """Sums of each class over the others, shape (n, n_classes)."""
    apart = graph.rows(both, classes, classes - 1)
    return graph.rows(graph.row_sums(apart, classes - 1), classes)
