"""Convert solutions, Gram matrices and array attributes to arrays and plain facts for a file, and back.

Everything that is read is checked for dtype, shape and range. Certificates, statuses and support sets are not stored:
they are computed from the problems and their α. Errors are ValueError, TypeError or KeyError here; `load` converts
them to a ProblemError that names the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certifier
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..core.runtime.arrays import immutable
from ..core.solution import Cost, Solution, Status
from ..core.sparse_points import SparsePoints, is_sparse
from ..exceptions import ProblemError
from ..refinement.refine import support_set
from ._persistence import is_quantum
from ._verify import agree, check_center, scale_loss, sparse_points, stored

_T = TypeVar("_T")
#: Array attributes: name -> (dtype kinds, a name for each dimension …).
Table = Mapping[str, tuple[str, ...]]
#: A function that returns an estimator's problem from a Gram, the facts of a solve and its columns.
Pose = Callable[[Gram, Mapping[str, Any], Mapping[str, NDArray]], DualProblem]

#: Arrays with one entry a variable, stored for all solves together: labels, bounds and ridges, and the answers.
_COLUMNS = ("sigma", "upper", "ridge", "alpha", "raw_alpha")


# --- attributes by a table -------------------------------------------------------------------------


def pack_attributes(model: Any, table: Table) -> dict[str, NDArray]:
    """Return the array attributes that a table names."""
    values = {name.lstrip("_"): getattr(model, name) for name in table}
    return {name: array.toarray() if is_sparse(array) else array for name, array in values.items()}


def unpacked(table: Table, arrays: Mapping[str, NDArray], **sizes: int) -> dict[str, NDArray]:
    """Return the attributes that a table names from a file, checked.

    Dimensions of the same name must have the same size, which ``sizes`` may give; floats must be finite, and integers,
    which are indices or counts, at least 0.
    """
    found = {}
    for name, (kinds, *dimensions) in table.items():
        array = stored(arrays, name.lstrip("_"), kinds, tuple(sizes.get(dimension) for dimension in dimensions))
        sizes |= dict(zip(dimensions, array.shape, strict=True))
        if kinds == "f" and not np.isfinite(array).all():
            raise ValueError(f"its array {name!r} is not finite")
        if kinds == "i" and (array < 0).any():
            raise ValueError(f"its array {name!r} has entries below 0")
        found[name] = array.astype(np.intp) if name.startswith("support") else array
    return found


# --- solutions -------------------------------------------------------------------------------------


def pack_solutions(solutions: Sequence[Solution], rows: Sequence[NDArray]) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """Return arrays and facts of solutions with their problems; the points of all of them are stored once.

    Parameters
    ----------
    solutions : sequence of Solution
        All with the same kernel, centre and width.
    rows : sequence of arrays of int
        The training points of each solution's Gram, ascending.

    Returns
    -------
    arrays, facts
        For `_pack`; names begin with ``solve.`` and ``gram.``.

    Raises
    ------
    ProblemError
        The kernel is a callable, or a solution has a trajectory or a witness.
    """
    arrays, gram_facts = pack_gram(joint_gram([solution.problem.gram for solution in solutions], rows)[0])
    facts = []
    for k, solution in enumerate(solutions):
        problem = solution.problem
        if solution.trajectory is not None or solution.witness is not None:
            raise ProblemError("a solution with a trajectory or a witness is not stored; keep its arrays in a file")
        arrays |= {f"solve.{k}.extras.{name}": array for name, array in solution.extras.items()}
        if (primal := solution.provisional.primal) is not None:
            arrays[f"solve.{k}.primal"] = primal
        facts.append(
            {
                "model": problem.model,
                "equality": problem.e is not None,
                "offset": problem.offset,
                "refined": solution.refined,
                "ended": solution.ended.name,
                "raw_ended": solution.raw_ended.name,
                "tol": solution.tol,
                "cost": {f.name: getattr(solution.cost, f.name) for f in fields(Cost)},
                "provenance": solution.provenance,
                "extras": sorted(solution.extras),
                "primal": primal is not None,
            }
            | ({} if problem.total is None else {"total": problem.total})
        )
    for name in _COLUMNS:
        holders = [solution if name.endswith("alpha") else solution.problem for solution in solutions]
        arrays[f"solve.{name}"] = np.concatenate([getattr(holder, name) for holder in holders])
    arrays["solve.points"] = np.array([len(part) for part in rows], dtype=np.int64)
    arrays["solve.rows"] = np.concatenate(rows).astype(np.int64)
    return arrays, {"gram": gram_facts, "solves": facts}


def unpack_solutions(
    arrays: Mapping[str, NDArray], facts: Mapping[str, Any], pose: Pose, per: int = 1
) -> tuple[list[Solution], list[NDArray], Gram, NDArray]:
    """Return solutions, their rows, the Gram of all their points, and the indices of these in the training data.

    There are ``per`` variables a point. Each solution is certified here, from its problem and its α; ValueError if the
    certificate belongs to another α than the file's.
    """
    given = facts["solves"]
    lengths = stored(arrays, "solve.points", "i", (len(given),))
    rows = _parts(stored(arrays, "solve.rows", "i", (None,)), lengths)
    if not given or any(len(part) == 0 or part[0] < 0 or (np.diff(part) <= 0).any() for part in rows):
        raise ValueError("its solves are not over ascending points")
    points = np.unique(np.concatenate(rows))
    gram = unpack_gram(arrays, facts["gram"], len(points))
    columns = {}
    for name in _COLUMNS:
        column = stored(arrays, f"solve.{name}", "f", (None,))
        if name != "upper" and not np.isfinite(column).all():
            raise ValueError(f"its array 'solve.{name}' is not finite")
        columns[name] = _parts(column, per * lengths)
    solutions = []
    for k, facts_of_solve in enumerate(given):
        own = gram if len(rows[k]) == gram.n else gram.subset(np.searchsorted(points, rows[k]))
        own_columns = {name: parts[k] for name, parts in columns.items()}
        extras = {name: arrays[f"solve.{k}.extras.{name}"] for name in facts_of_solve["extras"]}
        has_primal = facts_of_solve.get("primal", False)
        primal = stored(arrays, f"solve.{k}.primal", "f", (own.X.shape[1],)) if has_primal else None
        if primal is not None and not (own.is_linear and np.isfinite(primal).all()):
            raise ValueError(f"its array 'solve.{k}.primal' is not what a linear model has")
        problem = pose(own, facts_of_solve, own_columns)
        solutions.append(_solution(problem, own_columns, facts_of_solve, extras, primal))
    return solutions, [part.astype(np.intp) for part in rows], gram, points


def _solution(
    problem: DualProblem,
    column: Mapping[str, NDArray],
    facts: Mapping[str, Any],
    extras: dict[str, NDArray],
    primal: NDArray | None,
) -> Solution:
    """Return the solution of a problem from its columns and facts in a file, certified."""
    alpha, raw_alpha, tol = immutable(column["alpha"]), immutable(column["raw_alpha"]), facts["tol"]
    if type(facts["refined"]) is not bool or not isinstance(facts["provenance"], dict):
        raise TypeError("its facts 'refined' and 'provenance' have other types")
    if not (_is_number(tol, "float") and 0 < tol < np.inf):
        raise ValueError(f"its fact 'tol' is {tol!r}")
    ended, raw_ended = Status[facts["ended"]], Status[facts["raw_ended"]]
    if {ended, raw_ended} & {Status.BROKEN, Status.NOT_SEPARABLE}:
        raise ValueError(f"a solution that ended {ended.name} makes no model")
    certifier = Certifier(problem)
    certificate = certifier.certify(alpha if facts["refined"] else raw_alpha, primal=primal)
    # The certificate scales the α of a hard margin by Σα/αᵀQα, which is subject to round-off.
    relative = 1e-9 + (scale_loss(problem, certificate) if problem.kind.may_be_unbounded else 0.0)
    agree("alpha", alpha, certificate.alpha, relative * float(np.abs(alpha).max()))
    return Solution(
        problem=problem,
        alpha=alpha,
        raw_alpha=raw_alpha,
        refined=facts["refined"],
        support=support_set(problem, certificate.alpha, certifier, certificate),
        ended=ended,
        raw_ended=raw_ended,
        tol=tol,
        cost=_checked_record(Cost, facts["cost"]),
        provenance=facts["provenance"],
        extras=extras,
        certified=certificate,
    )


def _checked_record(record: type[_T], values: Mapping[str, Any]) -> _T:
    """Return a record from the values of its fields, which must be numbers ≥ 0 of the declared types."""
    types = {f.name: str(f.type) for f in fields(record)}  # type: ignore[arg-type]
    if set(values) != set(types):
        raise ValueError(f"its {record.__name__} has the fields {sorted(values)}")
    for name, declared in types.items():
        if not _is_number(values[name], declared):
            raise ValueError(f"the field {name} of its {record.__name__} is {values[name]!r}, not {declared}")
    return record(**values)


def _is_number(value: Any, declared: str) -> bool:
    """Whether a value is a number ≥ 0 of the declared type, or None if the declaration allows it."""
    if declared.endswith(" | None"):
        return value is None or _is_number(value, declared.removesuffix(" | None"))
    kinds = (float, int, np.floating, np.integer) if declared == "float" else (int, np.integer)
    return isinstance(value, kinds) and not isinstance(value, bool) and bool(value >= 0)


def _parts(column: NDArray, lengths: NDArray) -> list[NDArray]:
    """Return a column cut into pieces of the given lengths."""
    if (lengths < 0).any() or lengths.sum() != len(column):
        raise ValueError(f"an array of {len(column)} entries was to have {lengths.sum()}")
    return np.split(column, np.cumsum(lengths)[:-1])


# --- Gram matrices ---------------------------------------------------------------------------------


def joint_gram(grams: Sequence[Gram], rows: Sequence[NDArray]) -> tuple[Gram, NDArray]:
    """Return one Gram of the points of several Grams, and the indices of its points in the training data (ascending).

    The Grams have the same kernel, centre and width; ``rows`` are the indices of the points of each. With a
    precomputed kernel, any two points must occur together in one of the Grams.
    """
    points, first = np.unique(np.concatenate(rows)), grams[0]
    if len(rows[0]) == len(points):
        return first, points
    given = first.kernel == "precomputed"
    if isinstance(first.X, SparsePoints):
        place = np.unique(np.concatenate(rows), return_index=True)[1]
        joint = Gram.of(first, SparsePoints.joined([gram.X for gram in grams])[place])
        joint._set(reach=first.reach)
        return joint, points
    X: NDArray = np.zeros((len(points), len(points) if given else first.X.shape[1]))
    for gram, part in zip(grams, rows, strict=True):
        place = np.searchsorted(points, part)
        X[np.ix_(place, place) if given else place] = gram.X
    joint = Gram.of(first, X)
    joint._set(reach=first.reach)
    return joint, points


def pack_gram(gram: Gram) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """Return what determines a Gram's values to the bit: points, kernel, centre, and the reach of its kernel.

    The reach also covers points of the fit that the Gram does not hold; it decides by which formula values are made.
    """
    kernel: Any = gram.kernel
    if is_quantum(kernel):
        kernel = None  # it is saved as the model's parameter
    elif callable(kernel):
        raise ProblemError(
            "kernel: a callable cannot be stored without pickle; fit with kernel='precomputed' on the matrix of its "
            "values, or with a kernel that has a name"
        )
    facts = {"kernel": kernel} | {name: getattr(gram, name) for name in ("gamma", "degree", "coef0", "reach")}
    facts |= {"came_sparse": True} if gram.came_sparse else {}
    arrays = {} if gram.center is None else {"gram.center": gram.center}
    if isinstance(gram.X, SparsePoints):
        arrays |= {f"gram.X.{name}": getattr(gram.X, name) for name in ("data", "indices", "indptr")}
        return arrays, facts | {"width": gram.X.shape[1]}
    return arrays | {"gram.X": gram.X}, facts


def unpack_gram(arrays: Mapping[str, NDArray], facts: Mapping[str, Any], n: int) -> Gram:
    """Return the Gram of n points from a file; ValueError if its kernel values would not be those of its points."""
    kernel, reach, sparse = facts["kernel"], facts["reach"], facts.get("came_sparse", False)
    X: Any = sparse_points(arrays, n, facts["width"]) if "width" in facts else stored(arrays, "gram.X", "f", (n, None))
    if type(sparse) is not bool or (sparse and kernel == "precomputed") or ("width" in facts and not sparse):
        raise ValueError(f"its fact 'came_sparse' is {sparse!r}")
    if kernel == "precomputed" and not np.array_equal(X, X.T):
        raise ValueError("its kernel matrix is not symmetric")
    own = Gram(X, kernel, gamma=facts["gamma"], degree=facts["degree"], coef0=facts["coef0"])
    own._set(came_sparse=sparse)
    if own.center is None:
        return own
    center = stored(arrays, "gram.center", "f", (X.shape[1],))
    check_center(X, center, own.gamma)
    own._set(center=immutable(center))
    gram = Gram.of(own, X)
    if not (_is_number(reach, "float") and gram.reach <= reach):  # a smaller one would choose the wrong formula
        raise ValueError(f"its fact 'reach' is {reach!r}, below that of its points")
    gram._set(reach=reach)
    return gram
