"""Run and rank the rows of a section.

Each row is one solver, measured by the section's certificate; a failure is a row with its reason. Rows that ran
circuits are compared with their controls (`with_margins`) and with the error of shots alone (`shot_floor`).
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import problems as models
from ..core.certificate import Certifier
from ..core.decision import decision_values
from ..core.evidence import CONTROLS, Ending, margin
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..core.shot_floor import sampled
from ..core.solution import Solution, Status
from ..driver.solve import solve
from ..exceptions import DualflowError, SolverMismatch, SolverUnavailable, raise_interrupt
from ..quantum.devices import load_packages
from ..quantum.solvers.base import CircuitSolver
from ..refinement.refine import support_set
from ..report import TIE_FACTOR, Row, Section, ranks_by_excess
from ..solvers import Solver
from ..solvers.registry import make_solver, solver_class
from .plan import REFERENCE, Entry
from .repairs import REPAIR_SOLVER, repaired_task, with_best_objective, with_repair_note
from .tasks import Task


def with_margins(rows: list[Row], groups: list[int], tol: float) -> list[Row]:
    """Return the rows; those that ran circuits get their `Row.margin` if both of their controls were run.

    ``groups`` gives the solver of each row: two solvers of one class may have different options. Rows beyond the end of
    ``groups`` (repairs) have none. A control that failed counts as one that found nothing.
    """
    nothing = Ending(math.inf, None, False)
    controls = {
        (group, row.device, row.shots_per_circuit): nothing if row.status == "FAILED" else _ending(row)
        for row, group in zip(rows, groups, strict=False)
        if row.role == "control"
    }
    out = []
    for row, group in zip_longest(rows, groups):
        own = _ending(row) if row.role in ("quantum", "emulated") else None
        beside = [controls.get((group, name, row.shots_per_circuit)) for name in CONTROLS]
        if own is not None and all(beside):
            level = max(tol, row.excess_floor or 0.0)
            row = replace(row, margin=min(margin(own, control, level) for control in beside if control is not None))
        out.append(row)
    return out


#: Lower and upper quantile of a band: half of the runs lie within it.
BAND = (0.25, 0.75)


def quartiles(values: Sequence[float | None]) -> tuple[float, float, float]:
    """Return median, lower and upper quartile; NaN without values, and if one of them is missing or NaN."""
    found = np.array(values, dtype=float)
    if not len(found) or np.isnan(found).any():
        return math.nan, math.nan, math.nan
    # Infinite gaps cannot be interpolated: a quartile between two runs is then that of the worse one.
    low, high = np.quantile(found, BAND, method="linear" if np.isfinite(found).all() else "higher")
    return float(np.median(found)), float(low), float(high)


def median_row(runs: list[Row]) -> Row:
    """Return one row for the runs of several seeds: the run whose excess is the median (of two, the lower one).

    Its gap and excess become the medians over the runs, with quartiles; a note says which runs failed.
    """
    found = [row for row in runs if row.ran]
    if len(runs) == 1 or not found:
        return runs[0]
    by_excess = sorted(found, key=lambda row: (_number(row.excess), _number(row.raw_gap)))
    middle = by_excess[(len(found) - 1) // 2]
    columns: dict[str, Any] = {}
    for name, band in (("raw_gap", "gap"), ("excess", "excess")):
        values = [getattr(row, name) for row in found]
        if all(value is not None for value in values):
            columns[name], columns[f"{band}_low"], columns[f"{band}_high"] = quartiles(values)
    notes = list(dict.fromkeys(row.note for row in found if row.note))
    if failed := [row.reason for row in runs if not row.ran]:
        notes.append(f"{len(failed)} of {len(runs)} runs failed: {'; '.join(dict.fromkeys(map(str, failed)))}")
    return replace(middle, **columns, seeds=len(found), note="; ".join(notes) or None)


def _number(value: float | None) -> float:
    return math.inf if value is None else value


def _ending(row: Row) -> Ending | None:
    if not row.ran or row.excess is None:
        return None
    return Ending(row.excess, row.circuits, row.status == Status.OPTIMAL.name)


def ranked(rows: list[Row], tol: float) -> tuple[Row, ...]:
    """Return the rows in order, with their ranks.

    Rows that met tol come first, by time; then the others, by excess if a row is sampled, else by raw gap; then rows
    without a gap, repairs, and rows without numbers. Controls have no rank; emulated rows are ranked among themselves.
    """
    sampled = ranks_by_excess(rows)

    def key(row: Row) -> tuple[int, float, float]:
        if row.role == "repair" and row.ran:
            return 3, 0.0, 0.0
        if row.met(tol):
            return 0, row.wall_time_s or 0.0, 0.0
        if row.raw_gap is None:
            return 2 if row.ran else 4, 0.0, 0.0
        return 1, (row.excess or 0.0) if sampled else 0.0, row.raw_gap

    places, out = {True: 0, False: 0}, []
    for row in sorted(rows, key=key):
        if row.raw_gap is not None and row.role not in ("control", "repair"):
            is_emulated = row.role == "emulated"
            places[is_emulated] += 1
            row = replace(row, rank=places[is_emulated])
        out.append(row)
    return tuple(_with_ties(out, tol))


def _with_ties(rows: list[Row], tol: float) -> list[Row]:
    """Return the rows with `Row.tie`: the fastest of the rest ties with all within `TIE_FACTOR` times its time."""
    by_time = [k for k, row in enumerate(rows) if row.rank is not None and row.role != "emulated" and row.met(tol)]
    out, first = list(rows), 0
    for k in range(1, len(by_time) + 1):
        limit = TIE_FACTOR * (rows[by_time[first]].wall_time_s or 0.0)
        if k == len(by_time) or (rows[by_time[k]].wall_time_s or 0.0) > limit:
            if k - first > 1:
                for at in by_time[first:k]:
                    out[at] = replace(rows[at], tie=rows[by_time[first]].rank)
            first = k
    return out


#: Number of draws of the exact optimum whose median gap is the shot floor.
FLOOR_DRAWS = 9


def shot_floor(
    problem: DualProblem, optimum: NDArray, shots: int, random_state: int = 0, encoding: str | None = None
) -> float | None:
    """Return the relative gap of the exact optimum sampled with ``shots``: the median over `FLOOR_DRAWS` draws.

    A measured state cannot be expected to be much better. ``encoding`` is as in `core.shot_floor.sampled`. The result
    is None for kinds that no circuit encodes (an infinite box), and if no gap is certified.
    """
    found = floors_of(Certifier(problem), optimum, shots, random_state, encoding)
    return None if found is None else found[0]


def floors_of(
    certifier: Certifier, optimum: NDArray, shots: int, random_state: int, encoding: str | None
) -> tuple[float, float] | None:
    """Return `shot_floor` by a given certifier, and the median excess (f − f*)/|f*| of the same draws."""
    problem = certifier.problem
    if not np.isfinite(problem.effective_upper).all() or not certifier.psd.is_psd:
        return None
    rng = np.random.default_rng([random_state, shots])
    draws = [certifier.certify(sampled(problem, optimum, shots, rng, encoding)) for _ in range(FLOOR_DRAWS)]
    best = certifier.certify(optimum).objective
    above = float(np.median([draw.objective for draw in draws])) - best
    return float(np.median([draw.relative_gap for draw in draws])), max(0.0, above) / abs(best) if best else 0.0


def refusal(entry: Entry, certifier: Certifier) -> tuple[str, str] | None:
    """Return the status and the reason if a solver cannot run on this problem, whatever the device; else None."""
    try:
        make_solver(entry.solver).check(certifier.problem, certifier.psd)
    except SolverMismatch as error:
        return "DOES NOT APPLY", reason_text(error)
    except SolverUnavailable as error:
        return "NOT INSTALLED", reason_text(error)
    except Exception as error:  # a third party's constructor may raise anything
        raise_interrupt(error)
        return "FAILED", reason_text(error)
    return None


def reason_text(error: BaseException) -> str:
    """Return an exception as the reason of a row: its message, with its type if it is not a dualflow error."""
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, DualflowError) else f"{type(error).__name__}: {text}"


#: Maximum number of runs of a classical row or a model; the fastest counts, because short times vary much.
MAX_RUNS = 3
#: Seconds of these runs together after which none begins.
REPEATED_S = 1.0
#: Solvers that factorise a matrix of n × n in each step.
DENSE_SOLVERS = (REFERENCE, "qpsolvers", "interior-point")
#: Minimum time limit of a row, for one that begins just before the end of the whole comparison.
MIN_ROW_S = 0.01
#: Maximum time of the step that is run before a solver's first row.
MAX_WARM_UP_S = 1.0
#: Reason of a row that had not begun at Ctrl-C.
_NOT_RUN_INTERRUPTED = "not run: the comparison was interrupted (Ctrl-C)"
#: Reason of a row that had not begun when the total time was over.
_NOT_RUN_TIME_OVER = "not run: the time for the whole comparison was over"
#: Reason of a row whose time was over while its first circuit was made or simulated.
_TOO_SLOW = "its time limit ended it before its first circuit; raise time_limit"
#: Reason of a row that was cut off by Ctrl-C.
_INTERRUPTED = "interrupted (Ctrl-C) before it had an answer"

#: Shot floors of a section, in gap and in excess, by the number of all shots of a run and the encoding.
Floors = dict[tuple[int, str | None], tuple[float, float] | None]
ProgressCallback = Callable[[int, int, str], None]


@dataclass
class RowRunner:
    """Runs the rows of all sections."""

    #: shots, random_state, tol, time_limit, repairs, seeds: as for `compare`.
    shots: int | None
    random_state: int
    tol: float
    time_limit: float | None
    progress: ProgressCallback | None
    #: total, done: rows in all, and rows that have begun.
    total: int
    repairs: tuple[str, ...] = ()
    seeds: int = 1
    done: int = 0
    interrupt: KeyboardInterrupt | None = None  # the Ctrl-C after which no row begins
    warmed_up: set[int] = field(default_factory=set)  # keys of the solvers that have run their first step
    ends: float = math.inf  # value of `time.monotonic` after which no row begins
    max_dense_n: int | None = None  # points up to which dense solvers run; None is no limit

    def run_section(self, task: Task, entries: list[Entry]) -> Section:
        problem, certifier = task.problem, task.certifier
        reference, note = self.reference(problem)
        floors: Floors = {}
        rows: list[Row] = []
        groups: list[int] = []
        barred: set[int] = set()  # groups of solvers that do not apply: they get one row, not one for each device
        for entry in entries:
            self.report_next(task, entry.name, entry.device)
            if entry.group in barred:
                continue
            row = Row(task.name, entry.name, entry.role, entry.device, entry.shots)
            with self.until_interrupted():
                if (stop_reason := self.stop_reason) is not None:
                    row = replace(row, status="NOT RUN", reason=stop_reason)
                elif (refused := refusal(entry, certifier)) is not None:
                    role = "quantum" if entry.role in ("control", "emulated") else entry.role
                    row = Row(task.name, entry.name, role, status=refused[0], reason=refused[1])
                    barred.add(entry.group)
                elif self.is_too_dense(entry, problem):
                    row = replace(row, status="NOT RUN", reason=self.dense_reason)
                else:
                    row = self.run_seeds(row, entry, task, reference)
                    row = self.with_shot_floors(row, entry, task, reference, floors)
            rows.append(_with_reason(row))
            groups.append(entry.group)
        if certifier.psd.kind == "indefinite":
            rows += [self.repaired_row(task, method) for method in self.repairs]
        if not certifier.psd.is_psd:
            rows, best_note = with_best_objective(rows)
            note = "; ".join(filter(None, (note, best_note)))
        rows = with_margins(rows, groups, self.tol)
        self.report_next(task, "done", rows=0)
        return Section(
            task.name, task.title, problem.n, problem.kind.value, self.tol, reference, note, ranked(rows, self.tol)
        )

    def is_too_dense(self, entry: Entry, problem: DualProblem) -> bool:
        """Whether a solver factorises a matrix that is larger than `max_dense_n`."""
        name = entry.solver if isinstance(entry.solver, str) else ""
        return self.max_dense_n is not None and problem.n > self.max_dense_n and name in DENSE_SOLVERS

    @property
    def dense_reason(self) -> str:
        """Why a dense solver was left out."""
        return f"left out above {self.max_dense_n} points unless named, because of factorisations of n × n"

    @contextmanager
    def until_interrupted(self) -> Iterator[None]:
        """Keep a KeyboardInterrupt of the block: no other row begins, and `compare` raises it with the rows so far."""
        try:
            yield
        except KeyboardInterrupt as interrupt:
            self.interrupt = interrupt

    @property
    def stop_reason(self) -> str | None:
        """The reason why no further row begins; None if rows may begin."""
        reason = _NOT_RUN_TIME_OVER if time.monotonic() >= self.ends else None
        return reason if self.interrupt is None else _NOT_RUN_INTERRUPTED

    def report_next(self, task: Task, *what: str | None, rows: int = 1) -> None:
        """Report the next row to the progress function, and count it."""
        with self.until_interrupted():
            if self.progress:
                self.progress(self.done, self.total, f"{task.name}: {' '.join(filter(None, what))}")
        self.done += rows

    def reference(self, problem: DualProblem) -> tuple[Solution | None, str | None]:
        """Return the reference of a section, or None with the reason; the section's rows run in both cases."""
        if (reason := self.stop_reason) is not None:
            return None, f"no reference: {reason}"
        if self.max_dense_n is not None and problem.n > self.max_dense_n:
            return None, f"none above {self.max_dense_n} points"
        solution = None
        with self.until_interrupted():
            try:
                self.warm_up(Entry(REFERENCE, REFERENCE, "reference", {}))
                solution = self.best_run(problem, REFERENCE)
            except Exception as error:
                raise_interrupt(error)
                return None, f"no reference: {reason_text(error)}"
        if solution is None:
            return None, "no reference: the comparison was interrupted (Ctrl-C)"
        if solution.ended is Status.TIME_LIMIT:
            return None, f"no reference: {solution.ended.text}"
        return solution, None

    def with_shot_floors(
        self,
        row: Row,
        entry: Entry,
        task: Task,
        reference: Solution | None,
        floors: Floors,
    ) -> Row:
        """Return the row with the shot floors of all shots that it took, if it took any."""
        if not entry.shots or not row.shots or not row.ran or reference is None:
            return row
        key = row.shots, _encoding(entry)
        if key not in floors:
            floors[key] = floors_of(task.certifier, reference.alpha, key[0], self.random_state, key[1])
        found = floors[key]
        return row if found is None else replace(row, shot_floor=found[0], excess_floor=found[1])

    def repaired_row(self, task: Task, method: str) -> Row:
        """Return the row of one repair of the task's kernel."""
        row = Row(task.name, REPAIR_SOLVER, "repair", repair=method)
        self.report_next(task, method)
        if (stop_reason := self.stop_reason) is not None:
            return replace(row, status="NOT RUN", reason=stop_reason)
        with self.until_interrupted():
            other, kernel_repair = repaired_task(task, method)
            row = self.run(row, Entry(REPAIR_SOLVER, REPAIR_SOLVER, "repair", {}), other, None)
            return with_repair_note(row, kernel_repair, task.certifier)
        return _with_reason(row)

    def warm_up(self, entry: Entry) -> float:
        """Run one step on four points before a solver's first row, so that imports do not count as the solver's time.

        Return the seconds to subtract from the row's time limit: those of a step that ended by its time limit, else 0.
        """
        key = hash((entry.name, entry.device, entry.shots))
        if key in self.warmed_up:
            return 0.0
        self.warmed_up.add(key)
        if entry.device is not None:
            load_packages(entry.options.get("device", getattr(entry.solver, "device", None)))
        gram = Gram(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.1]]))
        solver = entry.solver
        if isinstance(solver, CircuitSolver):  # the journal and the budgets are for the row itself
            solver = solver.rehearsed(solver.device)
        y = [1, 1, -1, -1]
        for loss in ("squared_hinge", "hinge", None):
            try:
                problem = models.svc(gram, y, loss=loss) if loss else models.least_squares(gram, y)
                begun, limit = time.monotonic(), self.limit()
                limit = None if limit is None else min(0.5 * limit, MAX_WARM_UP_S)
                found = solve(problem, solver, max_steps=1, time_limit=limit, **entry.options)
            except Exception as error:  # an error is reported by the row itself
                raise_interrupt(error)
                continue
            return time.monotonic() - begun if found.ended is Status.TIME_LIMIT else 0.0
        return 0.0

    def limit(self) -> float | None:
        """Return the time limit, in seconds, of a run that begins now; at least `MIN_ROW_S`."""
        if self.ends == math.inf:
            return self.time_limit
        left = max(self.ends - time.monotonic(), MIN_ROW_S)
        return left if self.time_limit is None else min(self.time_limit, left)

    def run_seeds(self, row: Row, entry: Entry, task: Task, reference: Solution | None) -> Row:
        """Return the row of one run, or of a run with each seed if the row is sampled."""
        if self.seeds == 1 or not entry.sampled:
            return self.run(row, entry, task, reference)
        runs: list[Row] = []
        for k in range(self.seeds):
            with self.until_interrupted():
                runs.append(self.run(row, entry, task, reference, self.random_state + k))
            if self.stop_reason is not None:
                break
        return median_row(runs or [row])

    def run(
        self, row: Row, entry: Entry, task: Task, reference: Solution | None, random_state: int | None = None
    ) -> Row:
        """Return the row of one run; its seed is that of the comparison by default."""
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if entry.role == "reference" and reference is not None:
                    solution = reference
                else:
                    warm_up_s = self.warm_up(entry)
                    # The solver runs to the tolerance itself, not only far enough for refinement: raw answers rank.
                    solver = make_solver(entry.solver, entry.options).aim(self.tol)
                    solution = self.best_run(
                        task.problem,
                        solver,
                        once=entry.device is not None,
                        warm_up_s=warm_up_s,
                        random_state=random_state,
                    )
                if entry.device is not None and not solution.cost.circuits and solution.raw_status is Status.TIME_LIMIT:
                    reason = "; ".join(filter(None, (_TOO_SLOW, solution.provenance.get("device_error"))))
                    return replace(row, status="TIME_LIMIT", reason=reason)  # its answer is only the start
                row = _measured(row, solution, task, reference)
        except SolverUnavailable as error:
            return replace(row, status="NOT INSTALLED", reason=reason_text(error))
        except Exception as error:  # any error of a solver or its libraries becomes the row's reason
            raise_interrupt(error)
            return replace(row, status="FAILED", reason=reason_text(error))
        messages = [*([row.note] if row.note else []), *dict.fromkeys(str(w.message) for w in caught)]
        return replace(row, note="; ".join(messages) or None)

    def best_run(
        self,
        problem: DualProblem,
        solver: str | Solver,
        once: bool = False,
        warm_up_s: float = 0.0,
        random_state: int | None = None,
    ) -> Solution:
        """Return the answer of the fastest of up to `MAX_RUNS` runs, of which none begins after `REPEATED_S`.

        With ``once`` there is one run; ``warm_up_s`` seconds are subtracted from its time limit.
        """
        found: list[Solution] = []
        limit = self.limit()
        if limit is not None:
            limit = max(limit - warm_up_s, MIN_ROW_S)
        while len(found) < MAX_RUNS:
            solution = solve(
                problem,
                solver,
                refine=True,
                tol=self.tol,
                time_limit=limit,
                random_state=self.random_state if random_state is None else random_state,
            )
            found.append(solution)
            if once or self.stop_reason or sum(one.cost.wall_time_s for one in found) >= REPEATED_S:
                break
        return min(found, key=lambda solution: solution.cost.wall_time_s)


def _with_reason(row: Row) -> Row:
    """Return the row, with a reason if Ctrl-C cut it off."""
    return replace(row, reason=_INTERRUPTED) if row.status == "NOT RUN" and row.reason is None else row


def _measured(row: Row, solution: Solution, task: Task, reference: Solution | None) -> Row:
    problem, raw, cost = task.problem, solution.raw_certificate, solution.cost
    accuracy = balanced = agreement = excess = parameter_gap = None
    if len(task.Z):
        inside = decision_values(problem, raw, task.Z) >= 0
        right = inside == (task.signs > 0)
        accuracy = float(np.mean(right))
        sides = [right[task.signs == sign] for sign in (-1.0, 1.0)]
        balanced = float(np.mean([side.mean() for side in sides if len(side)]))
    if reference is not None:
        own = support_set(problem, raw.alpha, task.certifier)
        best = reference.certificate.objective
        excess = max(0.0, raw.objective - best) / abs(best) if best else None
        agreement = _jaccard(own, support_set(problem, reference.raw_certificate.alpha, task.certifier))
    extra = solution.extras.get("parameter_alpha")
    if extra is not None and np.isfinite(extra).all():
        parameter_gap = task.certifier.certify(extra).relative_gap
    note = solution.provenance.get("device_error")
    if row.role != "control" and solution.refined and solution.ran_circuits and not solution.shows_circuits:
        note = "; ".join(filter(None, (note, solution.raw_summary())))
    if raw.relative_gap is None:
        note = f"not ranked, because no gap is certified: Q is {raw.psd}; "
        note += f"objective {raw.objective:.6g}, stationarity {raw.stationarity:.2g}"
    return replace(
        row,
        status=solution.raw_status.name if solution.status is not Status.NOT_SEPARABLE else solution.status.name,
        note=note,
        raw_gap=raw.relative_gap,
        raw_objective=raw.objective,
        refined_gap=solution.certificate.relative_gap if solution.refined else None,
        infeasibility=raw.infeasibility,
        accuracy=accuracy,
        balanced_accuracy=balanced,
        support_agreement=agreement,
        wall_time_s=cost.wall_time_s,
        classical_share=cost.classical_share,
        refine_time_s=cost.refine_time_s,
        steps=cost.steps,
        qubits=cost.qubits,
        circuits=cost.circuits,
        depth=cost.depth,
        two_qubit_gates=cost.two_qubit_gates,
        shots=cost.shots,
        excess=excess,
        parameter_gap=parameter_gap,
        fidelity=(solution.provenance.get("fidelity") or {}).get("slope"),
        solution=solution,
    )


def _encoding(entry: Entry) -> str | None:
    """Return the encoding of a solver's answers, or None."""
    solver = solver_class(entry.solver) if isinstance(entry.solver, str) else entry.solver
    encoding: str | None = getattr(solver, "encoding", None)
    return encoding


def _jaccard(a: NDArray, b: NDArray) -> float:
    union = np.union1d(a, b)
    return 1.0 if len(union) == 0 else len(np.intersect1d(a, b)) / len(union)
