"""Running the rows of a section: one solver each, measured by the same certificate; failures are rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from .. import problems as models
from .._solve import solve
from ..core.certificate import Certifier
from ..core.decision import decision_values
from ..core.kernels import Gram
from ..core.problem import DualProblem
from ..core.shot_floor import sampled
from ..core.solution import Solution, Status
from ..core.support import support_set
from ..exceptions import DualflowError, SolverMismatch, SolverUnavailable
from ..registry import make_solver, solver_class
from ..report import Row, Section
from .plan import REFERENCE, Entry
from .repaired import SOLVER, explained, repaired, with_best_objective
from .task import Task

__all__ = ["ProgressCallback", "Rows", "shot_floor"]

#: Draws of the exact optimum whose median gap is the shot floor.
FLOOR_DRAWS = 9

ProgressCallback = Callable[[int, int, str], None]


@dataclass
class Rows:
    """Runs the rows; what they all share, and how far we are."""

    shots: int | None
    random_state: int
    tol: float
    time_limit: float | None
    progress: ProgressCallback | None
    total: int
    repairs: tuple[str, ...] = ()
    done: int = 0
    interrupted: bool = False
    warm: set[int] = field(default_factory=set)

    def section(self, task: Task, entries: list[Entry]) -> Section:
        problem, certifier, reference, note = task.problem, task.certifier, None, None
        floors: dict[tuple[int, str | None], float | None] = {}
        try:
            if not self.interrupted:
                self.warm_up(Entry(REFERENCE, REFERENCE, "reference", {}))
                reference = solve(problem, REFERENCE, refine=True, tol=self.tol, random_state=self.random_state)
        except KeyboardInterrupt:
            self.interrupted = True
        except Exception as error:  # a section without reference still compares its solvers with one another
            note = f"no reference: {_sentence(error)}"
        rows: list[Row] = []
        barred: set[int] = set()  # solvers that do not apply: one row, not one a device
        for entry in entries:
            if self.progress:
                label = " ".join(filter(None, (entry.name, entry.device)))
                self.progress(self.done, self.total, f"{task.name}: {label}")
            self.done += 1
            if entry.group in barred:
                continue
            row = Row(task.name, entry.name, entry.role, entry.device, entry.shots)
            if self.interrupted:
                rows.append(replace(row, status="NOT RUN", reason="not run: the comparison was interrupted (Ctrl-C)"))
                continue
            status, reason = _barred(entry, certifier)
            if reason:
                role = "quantum" if entry.role == "control" else entry.role
                row = Row(task.name, entry.name, role, status=status, reason=reason)
                barred.add(entry.group)
            else:
                row = self.run(row, entry, task, reference)
                if entry.shots and row.ran and reference is not None:
                    key = entry.shots, _encoding(entry)
                    if key not in floors:
                        floors[key] = _shot_floor(certifier, reference.alpha, key[0], self.random_state, key[1])
                    row = replace(row, shot_floor=floors[key])
            rows.append(row)
        if certifier.psd.kind == "indefinite":
            rows += [self.mended(task, method) for method in self.repairs]
        if not certifier.psd.is_psd:
            rows, said = with_best_objective(rows)
            note = "; ".join(filter(None, (note, said)))
        if self.progress:
            self.progress(self.done, self.total, f"{task.name}: done")
        if self.interrupted and reference is None and note is None:
            note = "no reference: the comparison was interrupted (Ctrl-C)"
        return Section(task.name, task.title, problem.n, problem.kind.value, reference, note, _ranked(rows))

    def mended(self, task: Task, method: str) -> Row:
        """Refinement on one repair of the task's kernel."""
        row = Row(task.name, SOLVER, "repair", repair=method)
        if self.progress:
            self.progress(self.done, self.total, f"{task.name}: {method}")
        self.done += 1
        if self.interrupted:
            return replace(row, status="NOT RUN", reason="not run: the comparison was interrupted (Ctrl-C)")
        other, mended = repaired(task, method)
        entry = Entry(SOLVER, SOLVER, "repair", {})
        return explained(self.run(row, entry, other, None), mended, task.certifier)

    def warm_up(self, entry: Entry) -> None:
        """One throw-away step on four points: a library's import is not the solver's time."""
        key = hash((entry.name, entry.device, entry.shots))
        if key in self.warm:
            return
        self.warm.add(key)
        gram = Gram(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.1]]))
        for loss in ("squared_hinge", "hinge"):
            try:
                solve(models.svc(gram, [1, 1, -1, -1], loss=loss), entry.solver, max_steps=1, **entry.options)
            except Exception:  # not the run that counts: whatever is wrong will show there
                continue
            return

    def run(self, row: Row, entry: Entry, task: Task, reference: Solution | None) -> Row:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if entry.role == "reference" and reference is not None:
                    solution = reference
                else:
                    self.warm_up(entry)
                    # For the tolerance, not for the refinement that follows: raw answers rank.
                    solver = make_solver(entry.solver, entry.options).aim(self.tol)
                    solution = solve(
                        task.problem,
                        solver,
                        refine=True,
                        tol=self.tol,
                        time_limit=self.time_limit,
                        random_state=self.random_state,
                    )
                row = _measured(row, solution, task, reference)
        except KeyboardInterrupt:
            self.interrupted = True
            return replace(row, status="NOT RUN", reason="interrupted (Ctrl-C) before it had a state to show")
        except SolverUnavailable as error:
            return replace(row, status="NOT INSTALLED", reason=_sentence(error))
        except Exception as error:  # whatever a solver or its libraries raise is this row's reason
            return replace(row, status="FAILED", reason=_sentence(error))
        self.interrupted |= Status.INTERRUPTED in (solution.status, solution.raw_status)
        messages = [*([row.note] if row.note else []), *dict.fromkeys(str(w.message) for w in caught)]
        return replace(row, note="; ".join(messages) or None)


def _measured(row: Row, solution: Solution, task: Task, reference: Solution | None) -> Row:
    problem, raw, cost = task.problem, solution.raw_certificate, solution.cost
    accuracy = agreement = excess = parameter_gap = None
    if len(task.Z):
        inside = decision_values(problem, raw, task.Z) >= 0
        accuracy = float(np.mean(inside == (task.signs > 0)))
    if reference is not None:
        own = support_set(problem, raw.alpha, task.certifier)
        best = reference.certificate.objective
        excess = max(0.0, raw.objective - best) / abs(best) if best else None
        agreement = _jaccard(own, support_set(problem, reference.raw_certificate.alpha, task.certifier))
    extra = solution.extras.get("parameter_alpha")
    if extra is not None and np.isfinite(extra).all():
        parameter_gap = task.certifier.certify(extra).relative_gap
    note = solution.provenance.get("device_error")
    if raw.relative_gap is None:
        note = f"no gap is certified, so it is not ranked: Q is {raw.psd}; "
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
        solution=solution,
    )


def _barred(entry: Entry, certifier: Certifier) -> tuple[str, str | None]:
    """Status and reason why no device could help, or a reason of None."""
    try:
        make_solver(entry.solver).check(certifier.problem, certifier.psd)
    except SolverMismatch as error:
        return "DOES NOT APPLY", _sentence(error)
    except SolverUnavailable as error:
        return "NOT INSTALLED", _sentence(error)
    except Exception as error:  # a third party's constructor may raise anything
        return "FAILED", _sentence(error)
    return "", None


def _encoding(entry: Entry) -> str | None:
    """How a solver's answers are read, if it says so."""
    solver = solver_class(entry.solver) if isinstance(entry.solver, str) else entry.solver
    encoding: str | None = getattr(solver, "encoding", None)
    return encoding


def _ranked(rows: list[Row]) -> tuple[Row, ...]:
    """Best raw gap first, controls in their place but unranked; then those without a gap, repairs, the rest."""

    def key(row: Row) -> tuple[int, float]:
        if row.role == "repair" and row.ran:
            return 2, 0.0
        return (0, row.raw_gap) if row.raw_gap is not None else (1 if row.ran else 3, 0.0)

    place, out = 0, []
    for row in sorted(rows, key=key):
        if row.raw_gap is not None and row.role not in ("control", "repair"):
            place += 1
            row = replace(row, rank=place)
        out.append(row)
    return tuple(out)


def _jaccard(a: NDArray, b: NDArray) -> float:
    union = np.union1d(a, b)
    return 1.0 if len(union) == 0 else len(np.intersect1d(a, b)) / len(union)


def _sentence(error: BaseException) -> str:
    """An exception as a reason: our own messages as they are, others with their type."""
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, DualflowError) else f"{type(error).__name__}: {text}"


def shot_floor(
    problem: DualProblem, optimum: NDArray, shots: int, random_state: int = 0, encoding: str | None = None
) -> float | None:
    """Relative gap of the exact optimum sampled with ``shots``: median over `FLOOR_DRAWS` draws.

    No measured state can be asked for more than a small multiple of it. ``encoding`` as in `core.shot_floor.sampled`;
    None for kinds that no circuit reads (an infinite box), and where no gap is certified.
    """
    return _shot_floor(Certifier(problem), optimum, shots, random_state, encoding)


def _shot_floor(
    certifier: Certifier, optimum: NDArray, shots: int, random_state: int, encoding: str | None
) -> float | None:
    problem = certifier.problem
    if not np.isfinite(problem.effective_upper).all() or not certifier.psd.is_psd:
        return None
    rng = np.random.default_rng([random_state, shots])
    draws = [sampled(problem, optimum, shots, rng, encoding) for _ in range(FLOOR_DRAWS)]
    return float(np.median([certifier.certify(draw).relative_gap for draw in draws]))
