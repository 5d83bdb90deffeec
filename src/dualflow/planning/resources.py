"""How a solver's circuits grow with n: counted where they can be built, extrapolated and labelled beyond.

A figure that grows as a power of n, through the sizes at which it was counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.options import Number
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace, twin
from ..exceptions import ProblemError
from ..solvers import Solver
from ..solvers.registry import make_solver, solver_class
from .estimate import span, what_is_sent

if TYPE_CHECKING:
    from ..quantum.circuits.surface_code import Footprint

__all__ = ["LARGE", "Growth", "ResourceRow", "ResourceTable", "resources"]


@dataclass(frozen=True)
class Growth:
    """constant + factor·n^power."""

    constant: float
    factor: float
    power: float

    @classmethod
    def through(cls, rows: Sequence[Any], name: str) -> Growth:
        """Through the last three rows, where n grows by one factor; else a power alone, through two."""
        n, f = [row.n for row in rows], [getattr(row, name) or 0.0 for row in rows]
        if f[-1] == f[-2]:
            return cls(f[-1], 0.0, 0.0)
        if len(rows) > 2 and n[-1] * n[-3] == n[-2] ** 2 and 0 < f[-2] - f[-3] < f[-1] - f[-2]:
            power = math.log((f[-1] - f[-2]) / (f[-2] - f[-3])) / math.log(n[-1] / n[-2])
            factor = (f[-1] - f[-2]) / (n[-1] ** power - n[-2] ** power)
            return cls(f[-1] - factor * n[-1] ** power, factor, power)
        power = math.log(f[-1] / f[-2]) / math.log(n[-1] / n[-2]) if f[-2] > 0 else 1.0
        return cls(0.0, f[-1] / n[-1] ** power, power)

    def at(self, n: int) -> float:
        return self.constant + self.factor * float(n) ** self.power

    def __str__(self) -> str:
        power = f"{self.power:.2g}"
        return ("growing as n" + f"^{power}" * (power != "1")) if self.factor else "the same at every n"


#: Sizes that are counted, unless others are asked for, and those of the model.
SIZES, LARGE = (4, 8, 16, 32, 64, 128, 256), (1_000, 10_000, 100_000, 1_000_000)
#: Shots a circuit of solvers that take them, unless some are given.
SHOTS = 10_000
#: Figures that the model carries on, each as a constant and a power of n.
GROWING = ("cx", "depth", "rotations", "t_gates", "circuits")
#: No circuit is built that is larger than the next after one of so many CX: Qiskit takes a second for 10 000.
MOST_CX = 10_000


@dataclass(frozen=True)
class ResourceRow:
    """What a run at one size takes.

    Attributes
    ----------
    n : int
    counted : bool
        On the circuit itself; else carried on from the largest that were: a model.
    qubits, cx, depth, rotations, t_gates : float
        Of the largest circuit, logical, every qubit next to every other; T gates that stand in it as they are.
    t_count : int
        With all rotations synthesised (`quantum.circuits.clifford_t`): a model at every size.
    circuits, shots : float or None
        Of a whole run, all circuits together; None where they depend on what is measured, or shots are not taken.
    machine : Footprint or None
        A surface code that runs one shot (`quantum.circuits.surface_code`): a model at every size.
    """

    n: int
    counted: bool
    qubits: float
    cx: float
    depth: float
    rotations: float
    t_gates: float
    t_count: int
    circuits: float | None
    shots: float | None
    machine: Footprint | None

    @property
    def seconds(self) -> float | None:
        """All shots one after another on the fault-tolerant machine: a model."""
        return None if self.machine is None or self.shots is None else self.shots * self.machine.seconds_a_shot


@dataclass(frozen=True)
class ResourceTable:
    """Rows over n, and the solver they are of.

    Attributes
    ----------
    solver, kind : str
    rows : tuple of ResourceRow
    growth : dict of Growth
        Of the figures, where at least two sizes were counted.

    Examples
    --------
    >>> from dualflow import Gram, problems, resources
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> resources(problem, "variational-flow", sizes=[4, 8], large=[]).growth["cx"].at(8)
    6.0
    """

    solver: str
    kind: str
    rows: tuple[ResourceRow, ...]
    growth: dict[str, Growth]

    @property
    def counted(self) -> tuple[ResourceRow, ...]:
        return tuple(row for row in self.rows if row.counted)

    def sentence(self) -> str:
        """How it scales, from the rows that were counted."""
        last = self.counted[-1]
        text = (
            f"{last.qubits:g} qubits, {_number(last.cx)} CX and depth {_number(last.depth)} a circuit at n = {last.n}"
        )
        text += f", CX {self.growth['cx']}" if self.growth else ""
        if last.circuits is not None:
            text += f"; {_number(last.circuits)} circuits a run"
            text += f", {self.growth['circuits']}" if self.growth else ""
        return f"{text}; by the model, {_number(last.t_count)} T gates a shot."

    def header(self) -> tuple[str, ...]:
        return (
            "n",
            "how",
            "qubits",
            "CX",
            "depth",
            "T",
            "circuits",
            "shots",
            "physical qubits",
            "time, fault-tolerant",
        )

    def cells(self) -> list[tuple[str, ...]]:
        """The rows as text."""
        return [
            (
                f"{row.n:,}",
                "counted" if row.counted else "model",
                f"{math.ceil(row.qubits):,}",
                _number(row.cx),
                _number(row.depth),
                _number(row.t_count),
                _number(row.circuits),
                _number(row.shots),
                "–" if row.machine is None else _number(row.machine.physical_qubits),
                "–" if row.seconds is None else _long(row.seconds),
            )
            for row in self.rows
        ]

    def __str__(self) -> str:
        lines = [self.header(), *self.cells()]
        widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
        table = ("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)) for line in lines)
        return "\n".join([f"{self.solver}, {self.kind}", *table])


def resources(
    problem: DualProblem,
    solver: str | Solver[Any, Any],
    *,
    sizes: Sequence[int] = SIZES,
    large: Sequence[int] = LARGE,
    **options: Any,
) -> ResourceTable:
    """What a solver's circuits take, as a table over n.

    Sizes are counted on circuits that are built, of problems made of the given one's points (evenly chosen, again from
    the first where there are not enough); also above `max_n`, which is a limit of running them, where the number of
    circuits is known without a run. Beyond stands a model: CX, depth, rotations and circuits each as a constant and a
    power of n through the three largest sizes counted, qubits as a multiple of log₂ n, shots a circuit held. T counts,
    physical qubits and their time are models at every size.

    Parameters
    ----------
    problem : DualProblem
        Its kind must be one the solver solves.
    solver : str or Solver
        One that runs circuits, with its options as further keywords; 10 000 shots a circuit unless some are given.
    sizes, large : sequences of int
        To count, and to model.

    Returns
    -------
    ResourceTable

    Raises
    ------
    ProblemError
        The solver runs no circuits, or takes none of the sizes.
    SolverMismatch, SolverUnavailable, TypeError
        As from `solve`.

    Examples
    --------
    >>> from dualflow import Gram, problems, resources
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> table = resources(problem, "variational-flow", sizes=[4, 8], large=[])
    >>> [(row.n, row.qubits, row.cx) for row in table.rows]
    [(4, 2, 2), (8, 3, 6)]
    """
    if isinstance(solver, str) and "shots" not in options and "shots" in {f.name for f in fields(solver_class(solver))}:
        options = options | {"shots": SHOTS}
    engine = make_solver(solver, options)
    if not engine.quantum or not hasattr(engine, "schedule"):
        raise ProblemError(f"solver={engine.name!r} runs no circuits, so that there is nothing to count")
    for name, values in (("sizes", sizes), ("large", large)):
        for value in values:
            Number(at_least=1, whole=True).check(name, value)
    counted: list[ResourceRow] = []
    for n in sorted(sizes):
        if (counted and counted[-1].cx > MOST_CX) or (row := _row(resized(problem, n), engine)) is None:
            break
        counted.append(row)
    if not counted:
        raise ProblemError(f"sizes: {engine.name!r} takes at most {engine.max_n} variables; give a size within that")
    growth = {name: Growth.through(counted, name) for name in GROWING} if len(counted) > 1 else {}
    model = [_carried(n, counted, growth) for n in sorted(large) if growth and n > counted[-1].n]
    return ResourceTable(engine.name, problem.kind.value, (*counted, *model), growth)


def resized(problem: DualProblem, n: int) -> DualProblem:
    """A problem of the same kind with n variables, evenly chosen from the given ones, in turns if there are fewer."""
    chosen = np.arange(n) % problem.n if n > problem.n else np.arange(n) * problem.n // n
    # Upper bounds that share out eᵀα = d among the variables must still be able to.
    stretch = problem.n / n if problem.kind is Kind.CAPPED_SIMPLEX else 1.0
    return replace(
        problem.value(),
        p=problem.p[chosen],
        lower=problem.lower[chosen],
        upper=problem.upper[chosen] * stretch,
        e=None if problem.e is None else problem.e[chosen],
        sigma=problem.sigma[chosen],
        ridge=problem.ridge[chosen],
        idx=chosen if problem.idx is None else problem.idx[chosen],
    )


def _row(problem: DualProblem, engine: Any) -> ResourceRow | None:
    """Counted; None above the largest size that the solver takes, if it must be run to know its circuits."""
    from ..quantum.circuits.clifford_t import logical_counts
    from ..quantum.devices.rehearsal import RehearsalDevice

    if problem.kind not in engine.kinds:
        engine.check(problem)
    rehearsed = engine.rehearsed(RehearsalDevice())
    own = twin(problem.value())
    context = rehearsed.open(own, Workspace(own))
    circuits = shots = None
    schedule = rehearsed.schedule(context)
    if schedule is None and rehearsed.mismatch(own) is not None:
        return None
    if schedule is not None or rehearsed.counts_are_fixed:
        sent = schedule.batches() if schedule is not None else what_is_sent(problem, engine)[0]
        circuits = sum(batch.circuits * times for batch, times in sent.items())
        shots = sum(batch.circuits * (batch.shots or 0) * times for batch, times in sent.items()) or None
    found = logical_counts(rehearsed.circuit(context, None))
    counts = (found.qubits, found.cx, found.depth, found.rotations, found.t_gates)
    return _completed(problem.n, True, *counts, circuits, shots)


def _completed(
    n: int,
    counted: bool,
    qubits: float,
    cx: float,
    depth: float,
    rotations: float,
    t_gates: float,
    circuits: float | None,
    shots: float | None,
) -> ResourceRow:
    from ..quantum.circuits.clifford_t import t_count
    from ..quantum.circuits.surface_code import footprint

    count = t_count(rotations, t_gates)
    machine = footprint(math.ceil(qubits), count)
    return ResourceRow(n, counted, qubits, cx, depth, rotations, t_gates, count, circuits, shots, machine)


def _carried(n: int, counted: list[ResourceRow], growth: dict[str, Growth]) -> ResourceRow:
    first, last = counted[-2:]
    each = (last.qubits - first.qubits) / math.log2(last.n / first.n)
    circuits, shots = last.circuits, last.shots
    if circuits is not None:
        of_each = None if shots is None else shots / circuits
        circuits = growth["circuits"].at(n)
        shots = None if of_each is None else of_each * circuits
    cx, depth, rotations, t_gates = (growth[name].at(n) for name in GROWING[:4])
    qubits = last.qubits + each * math.log2(n / last.n)
    return _completed(n, False, qubits, cx, depth, rotations, t_gates, circuits, shots)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value < 100_000 else f"{value:.1e}".replace("e+0", "e").replace("e+", "e")


def _long(seconds: float) -> str:
    """A span that may be years."""
    days = seconds / 86400
    return span(seconds) if days < 3 else f"{days:,.0f} days" if days < 1000 else f"{days / 365.25:,.0f} years"
