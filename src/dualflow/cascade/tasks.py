"""The tasks that are run where a part is, and the data that they exchange with the cascade.

A task takes a part, its number, the data of this part and the data that all parts share. It returns small data only.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core._points import fold_words
from ..core.bounds import EPS, sum_error
from ..core.certificate import Certificate, certify
from ..core.gram import Gram
from ..core.mixed_precision import rough_sums_of_new
from ..core.runtime import clock
from ..core.runtime.threads import blas_for
from ..core.solution import Status
from ..driver.solve import solve
from ..exceptions import ProblemError
from .exchange import Columns, Packing, Survivors, columns_of
from .model import NUMBERS_PER_BLOCK, CascadeModel, Members, Share, Variables, Window, share_of
from .parts import Loaded, Part, as_numbers, load

#: Text of the error for rows that differ from what they were, or for a negative gap, which proves the same.
CHANGED_PART = "X: a part changed between two reads; parts must not change while they are fitted"
#: Rows that a part of one class only contributes to the first pool, since it has no problem of its own.
MAX_ROWS_ONE_CLASS = 64
#: Rows without weight that a part adds to the first pool if α must add up to a number: without them the bounds of all
#: support vectors may be reached, and rounding leave their problem without a feasible point.
SPARE_ROWS = 2
#: ρ above which a point without weight leaves the pool, in units of its gradient's largest part. Points nearer to the
#: margin stay, since they may get weight when the others change.
MIN_IDLE_SLACK = 0.1
#: If the tolerance is below this, the pool's solve is refined.
MAX_TOL_REFINED = 1e-5
#: Rows of a part whose kernel with the survivors is computed in one block.
ROWS_PER_BLOCK = 8192
#: Words of a block of a checksum, 128 kB: it stays in the second-level cache.
WORDS_PER_BLOCK = 1 << 14
#: The odd factor of each word of a block.
_PLACES = np.random.default_rng(0).integers(0, 1 << 63, WORDS_PER_BLOCK, dtype=np.uint64) * 2 + 1


@dataclass(frozen=True)
class Survey:
    """Statistics of the rows of a part, which are needed before any problem is posed."""

    n: int
    #: classes, counts, weighty: labels, number of rows of each, and number of its rows with a weight above 0.
    classes: NDArray
    counts: NDArray
    weighty: NDArray
    #: mean, spread: mean of the features, and sum of squared distances from it; shape (m,).
    mean: NDArray
    spread: NDArray
    mass: NDArray  # sum of the weights of each class
    checksum: str  # `checksum` of the rows, which every later reading must have
    names: tuple[str, ...] | None  # names of the columns of X
    columns: Columns | None  # how they may be packed, if rows will be exchanged


@dataclass(frozen=True)
class PoolTask:
    """How the pool is solved."""

    model: CascadeModel
    packing: Packing
    #: target, weight, alpha: of the pool's points, part by part, as in `Survivors`; one weight if all are equal.
    target: NDArray
    weight: NDArray
    alpha: NDArray
    tol: float
    warm: bool  # whether the solve starts from α
    time_limit: float | None  # seconds after which the solve returns what it has
    is_solved: bool  # whether α is a solution, which is only certified


@dataclass(frozen=True)
class PoolResult:
    """The solution of the pool: its certificate and status, and by how much the model's centre moves multipliers."""

    certificate: Certificate
    status: Status
    moved: float


@dataclass(frozen=True)
class Broadcast:
    """The data that all parts share in a round, beside the pool."""

    model: CascadeModel
    packing: Packing
    weighted: NDArray  # which of the pool's points, part by part, have a multiplier other than 0, as bits
    coefficient: NDArray  # `CascadeModel.weights` of these
    nu: float  # the multiplier for which KKT violations are computed
    window: Window  # interval of multipliers, for `Share`; tuple of float
    threshold: float  # KKT violation above which a point invades
    most: int  # maximum number of invaders of a part; the worst violators are taken


@dataclass(frozen=True)
class Found:
    """The answer of a part in a round."""

    share: Share  # share of the bound
    invaders: Survivors  # points outside the pool that violate a KKT condition
    violators: int  # number of all such points, sent or not
    idle: NDArray  # rows of the part in the pool, without weight and far outside the margin; int array


def run_task(
    function: Any,
    part: Part | tuple[Any, ...] | None,
    number: int,
    own: Any,
    shared: Any,
    left: float | None = None,
    expected: str | None = None,
    pool: list[NDArray] | None = None,
) -> Any:
    """Read a part and call a task on its rows, with one BLAS thread, so that bits do not depend on where it runs.

    ``left`` is the time limit in seconds if the task runs in another process; if it is exceeded, the class
    `clock.OutOfTime` is returned. ``expected`` is the checksum of the part's rows when they were read first. A task of
    the ``pool`` is called with a pair of it and the other shared data.
    """
    shared = shared if pool is None else (shared, pool)
    with blas_for(1 << 30, shared=True):
        if left is None:
            return function(_reread(part, number, expected), number, own, shared)
        try:
            with clock.within(time.monotonic() + left):
                return function(_reread(part, number, expected), number, own, shared)
        except clock.OutOfTime:
            return clock.OutOfTime


def _reread(part: Part | tuple[Any, ...] | None, number: int, expected: str | None) -> Loaded | None:
    """Return the rows of a part, if there is one; raise `ProblemError` if their checksum is not the expected one."""
    clock.check_time()
    if part is None:
        return None
    loaded = load(part, number)
    if expected is not None and checksum(loaded) != expected:
        raise ProblemError(
            f"{CHANGED_PART}: part {number} gives other rows, or another order of them, now than before. If its rows "
            "are shuffled, sampled or computed anew, store them once (dask: persist), or fix the order and the seed"
        )
    return loaded


def checksum(loaded: Loaded) -> str:
    """Return a number that changes if a bit, or the order, of a part's rows, labels or weights changes.

    It is for accidents, not for attacks: a sum of all words, each times a number of its place, takes an eighth of the
    time of a cryptographic digest. A change of one word always changes the sum.
    """
    digest = hashlib.blake2b(repr((loaded.X.shape, loaded.y.dtype.str)).encode(), digest_size=16)
    for array in loaded[:3]:
        if array is not None:
            given: NDArray = array.astype(str) if array.dtype.kind == "O" else array
            octets = np.ascontiguousarray(given).reshape(-1).view(np.uint8)
            whole = len(octets) // 8 * 8
            digest.update(fold_words(octets[:whole].view(np.uint64), _PLACES).tobytes() + octets[whole:].tobytes())
    return digest.hexdigest()


def raise_if_late(found: list[Any]) -> list[Any]:
    """Return the results of tasks in other processes; raise `clock.OutOfTime` if one exceeded its time limit."""
    if any(one is clock.OutOfTime for one in found):
        raise clock.OutOfTime
    return found


def survey(loaded: Loaded, number: int, own: None, shared: bool) -> Survey:
    """Return the statistics of all rows of a part; ``shared`` says whether rows will be exchanged."""
    X, y, weight, names = loaded
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise ProblemError(f"part {number}: y contains NaN or infinity")
    classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
    kept = np.ones(len(X)) if weight is None else np.maximum(weight, 0.0)
    weighty = np.bincount(codes, kept > 0, minlength=len(classes)).astype(np.intp)
    mass, mean, spread = np.bincount(codes, kept, minlength=len(classes)), *moments(X)
    columns = columns_of(X) if shared and len(X) else None
    return Survey(len(X), classes, counts, weighty, mean, spread, mass, checksum(loaded), names, columns)


def survey_values(loaded: Loaded, number: int, own: None, shared: bool) -> Survey:
    """Return the statistics of a part without classes, with y as the last column.

    ``shared`` says whether y matters, which then must hold numbers.
    """
    X, y, weight, names = loaded
    if shared and y.dtype.kind not in "biufO":
        raise ProblemError(f"part {number}: y holds {y.dtype}; numbers are needed")
    values = as_numbers(y, f"part {number}: y") if shared else np.zeros(len(X))
    if not np.isfinite(values).all():
        raise ProblemError(f"part {number}: y contains NaN or infinity")
    kept = np.ones(len(X)) if weight is None else np.maximum(weight, 0.0)
    mean, spread = (np.concatenate(both) for both in zip(moments(X), moments(values[:, None]), strict=True))
    count, weighty, mass = np.array([len(X)]), np.array([np.count_nonzero(kept)]), np.array([kept.sum()])
    return Survey(len(X), np.zeros(1), count, weighty, mean, spread, mass, checksum(loaded), names, None)


def survey_rows(loaded: Loaded, number: int, own: None, shared: bool) -> Survey:
    """Return `survey_values` of a part whose rows will be exchanged."""
    columns = columns_of(loaded.X) if len(loaded.X) else None
    return replace(survey_values(loaded, number, own, shared), columns=columns)


def moments(X: NDArray) -> tuple[NDArray, NDArray]:
    """Return the mean of each column, and the sum of its squared distances from that."""
    mean, spread = X.sum(axis=0) / max(1, len(X)), np.zeros(X.shape[1])
    height = max(1, NUMBERS_PER_BLOCK // max(1, X.shape[1]))
    room = np.empty((min(len(X), height), X.shape[1]))  # one for all blocks, as in `linear_sums`
    for start in range(0, len(X), height):
        rows = X[start : start + height]
        off = np.subtract(rows, mean, out=room[: len(rows)])
        spread += np.einsum("ij,ij->j", off, off)
    return mean, spread


def begin(
    loaded: Loaded, number: int, own: None, shared: tuple[CascadeModel, Packing, float, float | None]
) -> Survivors:
    """Solve the problem of a part alone and return its support vectors with their multipliers.

    A part without such a problem, as one of one class only, or without support vectors contributes some rows without
    weight. The last entries of ``shared`` are the tolerance of the solve, and its time limit in seconds, after which it
    returns what it has.
    """
    model, packing, tol, time_limit = shared
    members = model.members(loaded, number)
    n, alone = len(members.row), model.alone(members)
    some = np.unique(np.linspace(0, n - 1, min(MAX_ROWS_ONE_CLASS, n)).astype(np.intp))
    if alone is None:
        return Survivors.of(number, members, some, packing)
    own_model, factor = alone
    problem = own_model.pose(members.X, members.target, members.weight)
    alpha = factor * model.of_points(solve(problem, tol=tol, time_limit=time_limit).alpha)
    support = np.flatnonzero(alpha)
    if model.d:
        some = np.setdiff1d(some, support)[:SPARE_ROWS]
    needs_more = model.d or not len(support)
    return Survivors.of(number, members, np.union1d(support, some) if needs_more else support, packing, alpha)


def fetch(loaded: Loaded, number: int, own: tuple[NDArray, NDArray], shared: tuple[CascadeModel, Packing]) -> Survivors:
    """Return rows of a part by number, with the given multipliers."""
    (rows, alpha), (model, packing) = own, shared
    members = model.members(loaded, number)
    position = _row_positions(
        members, rows, f"part {number} does not hold the rows that the checkpoint names; delete the file"
    )
    return replace(Survivors.of(number, members, position, packing), alpha=alpha)


def solve_pool(loaded: None, number: int, own: PoolTask, shared: tuple[None, list[NDArray]]) -> PoolResult:
    """Solve the problem of the pool's points alone."""
    X = own.packing.unpack(np.concatenate(shared[1]))
    problem = own.model.pose(X, own.target, np.broadcast_to(own.weight, len(X)))
    before = own.model.of_variables(own.alpha)
    if own.is_solved:
        certificate, status = certify(problem, before), Status.OPTIMAL
    else:
        solution = solve(
            problem,
            tol=own.tol,
            refine="early" if own.tol < MAX_TOL_REFINED else False,
            warm=before if own.warm else None,
            time_limit=own.time_limit,
        )
        certificate, status = solution.certificate, solution.status
    weights = problem.reading.coefficients(problem, certificate.alpha, certificate.quadratic)
    return PoolResult(certificate, status, float(problem.gram.constant(weights)))


def sweep(loaded: Loaded, number: int, own: NDArray, shared: tuple[Broadcast, list[NDArray]]) -> Found:
    """Compare all rows of a part with the pool's solution: return its share of the bound, and the invaders.

    ``own`` are its rows in the pool, ascending; ``shared`` has the packed points of the pool, part by part.
    """
    message, pool = shared
    model, members = message.model, message.model.members(loaded, number)
    position = _row_positions(members, own, f"part {number} does not hold rows that it held before; it must not change")
    start, weighted = (
        sum(map(len, pool[:number])),
        np.unpackbits(message.weighted, count=sum(map(len, pool))).view(bool),
    )
    coefficient, found = message.coefficient, np.zeros(len(weighted))
    found[weighted] = coefficient
    found = found[start : start + len(own)]
    gram = model.gram(message.packing.unpack(np.concatenate(pool)[weighted])) if len(coefficient) else None
    variables, kind = model.variables_of(members), kind_of(model)
    h = _gradient(members, variables, message, gram, position[found != 0])
    if model.on_simplex:
        h[0, position] += np.abs(found) / (2.0 * variables.upper[0, position])
    e = variables.sigma.ravel() if kind == "equality" else None
    share = share_of(h.ravel(), e, variables.upper.ravel(), message.window)
    rho = h if kind == "box" else h - message.nu * (1.0 if e is None else variables.sigma)
    share = replace(share, rounding=_rounding(members, variables, message, gram, rho))
    least = rho.min(axis=0)
    outside = np.ones(len(least), dtype=bool)
    outside[position] = False
    worst = np.flatnonzero(outside & (least < -message.threshold))
    violators = len(worst)
    if violators > message.most:
        worst = np.sort(worst[np.argsort(least[worst], kind="stable")[: message.most]])
    size = abs(message.nu) if model.on_simplex else model.size
    idle = own[(found == 0) & (least[position] > MIN_IDLE_SLACK * size)]
    return Found(share, Survivors.of(number, members, worst, message.packing), violators, idle)


def _row_positions(members: Members, rows: NDArray, message: str) -> NDArray:
    """Return the positions of rows among a part's members; raise `ProblemError` if one is missing."""
    position: NDArray = np.searchsorted(members.row, rows)
    if len(rows) and (position.max(initial=0) >= len(members.row) or (members.row[position] != rows).any()):
        raise ProblemError(message)
    return position


def _rounding(members: Members, variables: Variables, message: Broadcast, gram: Gram | None, rho: NDArray) -> float:
    """Return the rounding error of a part's share of the bound, as in `core.bounds.rounding`."""
    if gram is None:
        return 0.0
    offset = message.model.offset
    spread_error = sum_error(np.abs(message.coefficient) * np.sqrt(np.maximum(gram.diag() + offset, 0.0)))
    root = np.sqrt(np.maximum(gram.self_kernel(members.X) + offset, 0.0))
    if message.model.on_simplex:
        return float((EPS * (gram.growth * root * spread_error + 1.0 + abs(message.nu))).max(initial=0.0))
    error_bound = EPS * (gram.growth * root * spread_error + np.abs(variables.p) + abs(message.nu))
    return float((variables.upper * error_bound)[rho <= error_bound].sum())


def kind_of(model: CascadeModel) -> str:
    """Return which of the bound's three forms a model has."""
    return "simplex" if model.on_simplex else ("equality" if model.has_equality else "box")


def _gradient(
    members: Members, variables: Variables, message: Broadcast, gram: Gram | None, weighted: NDArray
) -> NDArray:
    """Return Qα − p of the variables of a part, shape (copies, n), without the ridge.

    It is in float64 but for points that have no weight, and add nothing to the bound with any multiplier of the window:
    if float32 with its error bound makes that certain, it is in float32 there. ``weighted`` are the points with weight.
    """
    model, n = message.model, len(members.row)
    sums, error_bound = np.zeros(n), np.full(n, np.inf)
    least: NDArray | float
    coefficient, constant = message.coefficient, model.offset * float(message.coefficient.sum())
    others = np.setdiff1d(np.arange(n), weighted, assume_unique=True)
    if gram is None or not n:
        missing = np.empty(0, dtype=np.intp)
    elif (rough := rough_sums_of_new(gram, members.X[others], coefficient)) is None:
        missing = np.arange(n)
    else:
        sums[others], error_bound[others] = rough
        h = (sums + constant) * variables.sigma - variables.p
        if model.on_simplex:
            least = max(message.nu, float((h + error_bound).min()))
        elif model.has_equality:
            least = np.maximum(*(nu * variables.sigma for nu in message.window))
        else:
            least = 0.0
        missing = np.flatnonzero((h - error_bound <= least).any(axis=0))
    if gram is not None:
        for start in range(0, len(missing), ROWS_PER_BLOCK):
            block = missing[start : start + ROWS_PER_BLOCK]
            sums[block] = gram.expand(members.X[block], np.arange(gram.n), coefficient[:, None])[:, 0]
    return (sums + constant) * variables.sigma - variables.p
