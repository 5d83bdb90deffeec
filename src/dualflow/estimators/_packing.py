"""What estimators hold, as arrays and plain facts: solutions over one set of points, and attributes by a table.

Everything read back is checked: dtype, shape, range. Errors are ValueError, TypeError or KeyError here; `load` makes
them a ProblemError that names the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certificate
from ..core.kernels import Gram
from ..core.problem import DualProblem
from ..core.psd import SpectrumEvidence
from ..core.solution import Cost, Solution, Status
from ..exceptions import ProblemError

__all__ = [
    "Table",
    "joint_gram",
    "pack_attributes",
    "pack_solutions",
    "stored",
    "unpack_attributes",
    "unpack_solutions",
]

_T = TypeVar("_T")
#: Array attributes: name -> (dtype kinds, a name for each dimension …).
Table = Mapping[str, tuple[str, ...]]

#: Arrays with an entry for each variable, of all solves one after another, and their kinds.
_PROBLEM_COLUMNS = {"p": "f", "lower": "f", "upper": "f", "e": "f", "sigma": "f", "ridge": "f", "idx": "i"}
_COLUMNS = _PROBLEM_COLUMNS | {
    "alpha": "f",
    "raw_alpha": "f",
    "certificate.alpha": "f",
    "raw_certificate.alpha": "f",
    "witness": "f",
    "support": "b",
    "product": "f",
}
_MAY_BE_INFINITE = ("lower", "upper")


def stored(arrays: Mapping[str, NDArray], name: str, kinds: str, shape: tuple[int | None, ...]) -> NDArray:
    """The array of a name, of one of the dtype ``kinds`` and of that shape (None: any), its numbers not NaN.

    "f" alone is float64, "i" alone int64.
    """
    if name not in arrays:
        raise ValueError(f"it lacks the array {name!r}")
    array = arrays[name]
    fits = len(shape) == array.ndim and all(
        want in (None, found) for want, found in zip(shape, array.shape, strict=False)
    )
    if array.dtype.kind not in kinds or not fits or (kinds in ("f", "i") and array.dtype.itemsize != 8):
        wanted = f"kind {kinds!r} and shape {shape}"
        raise ValueError(f"its array {name!r} has dtype {array.dtype} and shape {array.shape}, not {wanted}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"its array {name!r} contains NaN")
    return array


# --- attributes by a table -------------------------------------------------------------------------


def pack_attributes(model: Any, table: Table) -> dict[str, NDArray]:
    """The array attributes a table names."""
    return {name.lstrip("_"): getattr(model, name) for name in table}


def unpack_attributes(model: Any, table: Table, arrays: Mapping[str, NDArray], **sizes: int) -> None:
    """Set them. Dimensions of one name have one size, those in ``sizes`` the given one; integers are indices ≥ 0."""
    for name, (kinds, *dimensions) in table.items():
        array = stored(arrays, name.lstrip("_"), kinds, tuple(sizes.get(dimension) for dimension in dimensions))
        sizes |= dict(zip(dimensions, array.shape, strict=True))
        if array.dtype.kind == "f" and not np.isfinite(array).all() and kinds == "f":
            raise ValueError(f"its array {name!r} is not finite")
        if kinds == "i" and (array < 0).any():
            raise ValueError(f"its array {name!r} has entries below 0")
        setattr(model, name, array.astype(np.intp) if name.startswith("support") else array)


# --- solutions -------------------------------------------------------------------------------------


def pack_solutions(solutions: Sequence[Solution], rows: Sequence[NDArray]) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """Solutions with their problems, the points of all of them stored once.

    Parameters
    ----------
    solutions : sequence of Solution
        Of one kernel, with one centre and width.
    rows : sequence of arrays of int
        Which training points each solution's Gram holds, ascending.

    Returns
    -------
    arrays, facts
        For `_pack`; names begin with ``solve.`` and ``gram.``.

    Raises
    ------
    ProblemError
        The kernel is a callable.
    """
    arrays, gram_facts = _pack_gram(joint_gram([solution.problem.gram for solution in solutions], rows)[0])
    columns: dict[str, list[NDArray]] = {name: [] for name in _COLUMNS}
    facts = []
    for k, solution in enumerate(solutions):
        problem = solution.problem
        present = _columns_of(solution)
        for name, column in present.items():
            columns[name].append(column)
        if solution.trajectory is not None:
            raise ProblemError("a solution with a trajectory is not stored; keep its arrays in a file of their own")
        arrays |= {f"solve.{k}.extras.{name}": array for name, array in solution.extras.items()}
        refined = "raw_certificate.alpha" in present
        facts.append(
            {
                "columns": sorted(present),
                "problem": {name: getattr(problem, name) for name in ("d", "scale", "offset", "model")},
                "certificate": _plain(solution.certificate),
                "raw_certificate": _plain(solution.raw_certificate) if refined else None,
                "refined": solution.refined,
                "status": solution.status.name,
                "raw_status": solution.raw_status.name,
                "cost": _plain(solution.cost),
                "provenance": solution.provenance,
                "extras": sorted(solution.extras),
            }
        )
    arrays |= {f"solve.{name}": np.concatenate(parts) for name, parts in columns.items() if parts}
    arrays["solve.sizes"] = np.array([solution.problem.n for solution in solutions], dtype=np.int64)
    arrays["solve.points"] = np.array([len(part) for part in rows], dtype=np.int64)
    arrays["solve.rows"] = np.concatenate(rows).astype(np.int64)
    return arrays, {"gram": gram_facts, "solves": facts}


def unpack_solutions(
    arrays: Mapping[str, NDArray], facts: Mapping[str, Any]
) -> tuple[list[Solution], list[NDArray], Gram, NDArray]:
    """Solutions, their rows, the Gram of all points they are over, and which training points those are (ascending)."""
    given = facts["solves"]
    sizes = stored(arrays, "solve.sizes", "i", (len(given),))
    rows = _parts(stored(arrays, "solve.rows", "i", (None,)), stored(arrays, "solve.points", "i", (len(given),)))
    if not given or any(len(part) == 0 or part[0] < 0 or (np.diff(part) <= 0).any() for part in rows):
        raise ValueError("its solves are not over ascending points")
    points = np.unique(np.concatenate(rows))
    gram = _unpack_gram(arrays, facts["gram"], len(points))
    cuts: dict[str, list[NDArray]] = {}
    for name, kinds in _COLUMNS.items():
        lengths = np.array([size if name in solve["columns"] else 0 for size, solve in zip(sizes, given, strict=True)])
        if lengths.any():
            column = stored(arrays, f"solve.{name}", kinds, (None,))
            if kinds == "f" and name not in _MAY_BE_INFINITE and not np.isfinite(column).all():
                raise ValueError(f"its array 'solve.{name}' is not finite")
            cuts[name] = _parts(column, lengths)
    solutions = []
    for k, solve in enumerate(given):
        own = gram if len(rows[k]) == gram.n else gram.subset(np.searchsorted(points, rows[k]))
        columns = {name: cuts[name][k] for name in solve["columns"]}
        solutions.append(_solution(own, columns, solve, k, arrays))
    return solutions, [part.astype(np.intp) for part in rows], gram, points


def _columns_of(solution: Solution) -> dict[str, NDArray]:
    problem = solution.problem
    columns: dict[str, NDArray | None] = {name: getattr(problem, name) for name in _PROBLEM_COLUMNS}
    columns |= {"alpha": solution.alpha, "raw_alpha": solution.raw_alpha, "witness": solution.witness}
    columns["certificate.alpha"] = solution.certificate.alpha
    if solution.raw_certificate is not solution.certificate:
        columns["raw_certificate.alpha"] = solution.raw_certificate.alpha
    columns["support"] = np.isin(np.arange(problem.n), solution.support)
    if problem.model == "squared_hinge":
        # The scale μᵀQμ of its coefficients: made again it could differ in the last bits.
        columns["product"] = product_from_below(problem, solution.alpha)
    return {name: column for name, column in columns.items() if column is not None}


def _solution(
    gram: Gram, columns: dict[str, NDArray], solve: Mapping[str, Any], k: int, arrays: Mapping[str, NDArray]
) -> Solution:
    parts: dict[str, Any] = {name: columns[name] for name in _PROBLEM_COLUMNS if name in columns}
    problem = DualProblem(gram, **parts, **solve["problem"])
    if "product" in columns:
        problem.screened.appendleft((columns["alpha"], columns["product"]))
    certificate = _certificate(columns["certificate.alpha"], solve["certificate"])
    raw = solve["raw_certificate"]
    extras = {name: arrays[f"solve.{k}.extras.{name}"] for name in solve["extras"]}
    if not isinstance(solve["refined"], bool) or not isinstance(solve["provenance"], dict):
        raise TypeError("its facts 'refined' and 'provenance' have other types")
    return Solution(
        problem=problem,
        alpha=columns["alpha"],
        raw_alpha=columns["raw_alpha"],
        certificate=certificate,
        raw_certificate=certificate if raw is None else _certificate(columns["raw_certificate.alpha"], raw),
        refined=solve["refined"],
        support=np.flatnonzero(columns["support"]),
        status=Status[solve["status"]],
        raw_status=Status[solve["raw_status"]],
        cost=_made(Cost, solve["cost"]),
        witness=columns.get("witness"),
        provenance=solve["provenance"],
        extras=extras,
    )


def _plain(record: Certificate | Cost | SpectrumEvidence) -> dict[str, Any]:
    """The fields of a record but its arrays."""
    values = {f.name: getattr(record, f.name) for f in fields(record) if f.name != "alpha"}
    return {name: _plain(value) if isinstance(value, SpectrumEvidence) else value for name, value in values.items()}


def _certificate(alpha: NDArray, facts: Mapping[str, Any]) -> Certificate:
    return _made(Certificate, {**facts, "alpha": alpha, "psd": _made(SpectrumEvidence, facts["psd"])})


def _made(record: type[_T], values: Mapping[str, Any]) -> _T:
    """A record whose fields are of the types it declares, no number of them NaN."""
    types = {f.name: str(f.type) for f in fields(record)}  # type: ignore[arg-type]
    if set(values) != set(types):
        raise ValueError(f"its {record.__name__} has the fields {sorted(values)}")
    for name, declared in types.items():
        if not _is(values[name], declared):
            raise ValueError(f"the field {name} of its {record.__name__} is {values[name]!r}, not {declared}")
    return record(**values)


def _is(value: Any, declared: str) -> bool:
    if declared.endswith(" | None"):
        return value is None or _is(value, declared.removesuffix(" | None"))
    if declared == "tuple[float, float]":
        return isinstance(value, tuple) and len(value) == 2 and all(_is(item, "float") for item in value)
    kinds: dict[str, Any] = {
        "float": (float, int, np.floating, np.integer),
        "int": (int, np.integer),
        "str": str,
        "NDArray": np.ndarray,
        "SpectrumEvidence": SpectrumEvidence,
    }
    number = declared in ("float", "int")
    return isinstance(value, kinds[declared]) and not (number and (isinstance(value, bool) or value != value))


def _parts(column: NDArray, lengths: NDArray) -> list[NDArray]:
    """The column cut into pieces of these lengths."""
    if (lengths < 0).any() or lengths.sum() != len(column):
        raise ValueError(f"an array of {len(column)} entries was to have {lengths.sum()}")
    return np.split(column, np.cumsum(lengths)[:-1])


def joint_gram(grams: Sequence[Gram], rows: Sequence[NDArray]) -> tuple[Gram, NDArray]:
    """The Gram of all points of some Grams of one kernel, centre and width, and which those are (ascending).

    ``rows`` are the points of each; with a precomputed kernel, every two points must be in one Gram together.
    """
    points, first = np.unique(np.concatenate(rows)), grams[0]
    if len(rows[0]) == len(points):
        return first, points
    given = first.kernel == "precomputed"
    X: NDArray = np.zeros((len(points), len(points) if given else first.X.shape[1]))
    for gram, part in zip(grams, rows, strict=True):
        place = np.searchsorted(points, part)
        X[np.ix_(place, place) if given else place] = gram.X
    return (Gram.precomputed(X) if given else Gram.of(first, X)), points


def _pack_gram(gram: Gram) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """What makes a Gram's bits, and none of what it keeps for speed."""
    if callable(gram.kernel):
        raise ProblemError(
            "kernel: a callable cannot be stored without pickle; fit with kernel='precomputed' on the matrix of its "
            "values, or with a kernel that has a name"
        )
    arrays = {"gram.X": gram.X, "gram.squares": gram._squares, "gram.diag": gram._diag}
    if gram._center is not None:
        arrays["gram.center"] = gram._center
    names = ("kernel", "gamma", "degree", "coef0")
    return arrays, {name: getattr(gram, name) for name in names} | {"reach": gram._reach}


def _unpack_gram(arrays: Mapping[str, NDArray], facts: Mapping[str, Any], n: int) -> Gram:
    X = stored(arrays, "gram.X", "f", (n, None))
    gram = Gram(X, facts["kernel"], gamma=facts["gamma"], degree=facts["degree"], coef0=facts["coef0"])
    # Of part of the points, the constructor would find another centre; lengths may differ in the last bits.
    gram._squares = stored(arrays, "gram.squares", "f", (n,))
    gram._diag = stored(arrays, "gram.diag", "f", (n,))
    if gram._center is not None:
        gram._center = stored(arrays, "gram.center", "f", (X.shape[1],))
    if not isinstance(facts["reach"], (int, float)) or not facts["reach"] >= 0:
        raise ValueError(f"its fact 'reach' is {facts['reach']!r}")
    gram._reach, gram._radial = facts["reach"], {}
    for values in (gram._diag, () if gram._center is None else gram._center):
        if not np.isfinite(values).all():
            raise ValueError("the numbers of its kernel are not finite")
    return gram
