"""`dry_run`: estimate what the quantum rows of a comparison would send, and its cost, without running them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from ..core.options import Number
from ..core.problem import DualProblem
from ..exceptions import DualflowError, SolverMismatch, SolverUnavailable
from ..planning.estimate import Estimate, duration_text, estimate
from ..solvers import Solver
from .plan import OWN_SHOTS, plan, planned_shots
from .rows import ProgressCallback
from .tasks import Task, given_task, tasks_from_data


@dataclass(frozen=True)
class DryRow:
    """One planned row: its section, solver, device and shots, and its estimate, or the reason why there is none.

    The estimate is that of one run; a sampled row has several with ``seeds``.
    """

    section: str
    solver: str
    device: str
    shots: int | None
    estimate: Estimate | None
    reason: str = ""
    runs: int = 1

    def cells(self) -> tuple[str, ...]:
        """Return its cells: section, solver, device, circuits, shots, qubits, depth, two-qubit gates, QPU, cost."""
        found = self.estimate
        assert found is not None  # rows without one are in `DryRun.left_out`
        about = "" if found.fixed else "about "
        sizes = (f"{size:,}" for size in (found.qubits, found.depth, found.two_qubit_gates))
        time = "none" if found.local else "not known" if found.qpu_seconds is None else duration_text(found.qpu_seconds)
        shots = f"{about}{found.shots:,}" if found.shots else "exact"
        solver = self.solver if self.runs == 1 else f"{self.solver}, each of {self.runs} runs"
        return (self.section, solver, self.device, f"{about}{found.circuits:,}", shots, *sizes, time, found.money)


@dataclass(frozen=True)
class DryRun:
    """The estimates of the quantum rows of a comparison, none of which was run."""

    rows: tuple[DryRow, ...]

    def cells(self) -> list[tuple[str, ...]]:
        """Return the cells of the rows that have an estimate."""
        return [row.cells() for row in self.rows if row.estimate is not None]

    def left_out(self) -> list[str]:
        """Return one line for each row without an estimate, with the reason."""
        lines = [
            f"{row.section}, {row.solver} on {row.device}: {row.reason}" if row.device else row.reason
            for row in self.rows
        ]
        return list(
            dict.fromkeys(
                f"No row: {line}." for row, line in zip(self.rows, lines, strict=True) if row.estimate is None
            )
        )

    @property
    def estimates(self) -> list[Estimate]:
        """The estimates of all runs."""
        return [row.estimate for row in self.rows if row.estimate is not None for _ in range(row.runs)]

    def total(self) -> str:
        """Return the totals of all rows, in one line."""
        found = self.estimates
        remote = [row for row in found if not row.local]
        text = f"In all {sum(row.circuits for row in found):,} circuits and {sum(row.shots for row in found):,} shots"
        if not remote:
            return text + ", all on this computer."
        known = [row.qpu_seconds for row in remote if row.qpu_seconds is not None]
        unknown = len(remote) - len(known)
        text += f"; {duration_text(sum(known))} of QPU" if known else ""
        return text + (f"; of {unknown} runs the QPU time is not known." if unknown else ".")

    def advice(self) -> list[str]:
        """Return one line for each row that has a cheaper alternative."""
        lines = []
        for row in self.rows:
            if row.estimate is not None and (other := row.estimate.cheaper) is not None:
                took = duration_text(other.qpu_seconds) if other.qpu_seconds is not None else f"{other.shots:,} shots"
                lines.append(f"{row.section}, {row.estimate.title}: cheaper is {other.title}, {took}.")
        return lines


def dry_run(
    X: ArrayLike | DualProblem,
    y: ArrayLike | None = None,
    problems: str | Sequence[str] = ("hinge", "squared_hinge", "svdd"),
    solvers: Sequence[str | Solver] | None = None,
    max_n: int = 64,
    *,
    C: float = 1.0,
    nu: float | None = None,
    fit_intercept: bool | str = True,
    kernel: str = "rbf",
    gamma: str | float = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    shots: int | str | None = OWN_SHOTS,
    devices: Sequence[str] | None = None,
    studies: bool = False,
    inlier_class: Any = None,
    time_limit: float | None = 2.0,
    random_state: int = 0,
    seeds: int = 1,
    tol: float = 1e-6,
    progress: ProgressCallback | None = None,
) -> DryRun:
    """Estimate every quantum row that `compare` would run with the same arguments; nothing is sent.

    Classical rows and controls are left out. A row that ends by ``time_limit`` sends fewer circuits than its estimate;
    the limit also bounds each rehearsal.
    """
    solvers, shots = planned_shots(solvers, shots)
    seeds = Number(at_least=1, whole=True).check("seeds", seeds)
    entries = [entry for entry in plan(solvers, shots, devices, False, studies) if entry.role == "quantum"]
    posing: dict[str, Any] = {
        "y": y,
        "problems": problems,
        "max_n": max_n,
        "C": C,
        "nu": nu,
        "fit_intercept": fit_intercept,
        "kernel": kernel,
        "gamma": gamma,
        "degree": degree,
        "coef0": coef0,
        "inlier_class": inlier_class,
    }
    if isinstance(X, DualProblem):
        tasks = [given_task(X, posing, dry_run)]
    else:
        tasks, _ = tasks_from_data(X, X_test=None, y_test=None, random_state=random_state, **posing)
    rows: list[DryRow] = []
    for task in tasks:
        barred: set[int] = set()  # groups of solvers that do not apply: they get one row, not one for each device
        for entry in entries:
            if progress is not None:
                progress(len(rows), len(entries) * len(tasks), f"{task.name}: {entry.name}")
            if entry.group in barred:
                continue
            try:
                found, reason = _estimated(task, entry, tol, random_state, time_limit), ""
            except (SolverMismatch, SolverUnavailable) as error:
                found, reason = None, str(error)
                barred.add(entry.group)
            except DualflowError as error:
                found, reason = None, str(error)
            device = "" if entry.group in barred else entry.device or ""
            runs = seeds if entry.sampled else 1
            rows.append(DryRow(task.name, entry.name, device, entry.shots, found, reason, runs))
    return DryRun(tuple(rows))


def _estimated(task: Task, entry: Any, tol: float, random_state: int, time_limit: float | None) -> Estimate:
    options = {name: value for name, value in entry.options.items() if name != "device"}
    device = entry.options.get("device")
    return estimate(
        task.problem, entry.solver, device, tol=tol, random_state=random_state, time_limit=time_limit, **options
    )
