"""Resources of a solver's circuits as a table over n: counted where circuits can be built, extrapolated beyond.

`Growth` is the power law that extrapolates a quantity from the sizes at which it was counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.options import Number
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace, isolated_copy
from ..exceptions import ProblemError
from ..solvers import Solver
from ..solvers.registry import make_solver, solver_class
from .estimate import duration_text, what_is_sent

if TYPE_CHECKING:
    from ..quantum.circuits.surface_code import Footprint


@dataclass(frozen=True)
class Growth:
    """The power law constant + factor·n^power."""

    constant: float
    factor: float
    power: float

    @classmethod
    def through(cls, rows: Sequence[Any], name: str) -> Growth:
        """Fit the law to attribute ``name`` of the last three rows, if n grows by one factor; else a power to two."""
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
        """Return the value at n."""
        return self.constant + self.factor * float(n) ** self.power

    def __str__(self) -> str:
        power = f"{self.power:.2g}"
        return ("growing as n" + f"^{power}" * (power != "1")) if self.factor else "the same at every n"


#: Numbers of variables at which circuits are counted by default: doubled each time, as `Growth.through` needs.
COUNTED_SIZES = (4, 8, 16, 32, 64, 128, 256)
#: Numbers of variables to which the counts are extrapolated by default.
MODELLED_SIZES = (1_000, 10_000, 100_000, 1_000_000)
#: Shots per circuit of solvers that take shots, if none are given.
DEFAULT_SHOTS = 10_000
#: Fields of a row that are extrapolated as a constant plus a power of n.
MODELLED_FIELDS = ("cx", "depth", "rotations", "t_gates", "circuits")
#: After a circuit with more CX gates than this no larger size is built: Qiskit takes a second for 10 000.
MAX_COUNTED_CX = 10_000


@dataclass(frozen=True)
class ResourceRow:
    """Resources of a run at one size.

    Attributes
    ----------
    n : int
        Number of variables.
    counted : bool
        Whether the numbers were counted on a circuit; otherwise they are extrapolated from counted sizes.
    qubits, cx, depth, rotations, t_gates : float
        Size of the largest logical circuit, in which any two qubits may interact; ``t_gates`` counts only T gates that
        the circuit contains as such.
    t_count : int
        Number of T gates after all rotations are synthesised (`quantum.circuits.clifford_t`); a model at every size.
    circuits, shots : float or None
        Totals of a whole run; None if they depend on measurements, or if the solver takes no shots.
    machine : Footprint or None
        A surface code that runs one shot (`quantum.circuits.surface_code`); a model at every size.
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
        """Seconds for all shots in sequence on the fault-tolerant machine, by the model."""
        return None if self.machine is None or self.shots is None else self.shots * self.machine.seconds_a_shot


@dataclass(frozen=True)
class ResourceTable:
    """Resources of a solver's circuits over n, as returned by `resources`.

    Attributes
    ----------
    solver, kind : str
        Names of the solver and of the kind of problem.
    rows : tuple of ResourceRow
        One row for each size, ascending.
    growth : dict of Growth
        Power laws of the fields that are extrapolated; empty if fewer than two sizes were counted.

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
        """The rows that were counted."""
        return tuple(row for row in self.rows if row.counted)

    def sentence(self) -> str:
        """Return a sentence on how the circuits scale, from the counted rows."""
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
        """Return the titles of the columns of `cells`."""
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
        """Return the rows as text."""
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
                "–" if row.seconds is None else _duration(row.seconds),
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
    sizes: Sequence[int] = COUNTED_SIZES,
    large: Sequence[int] = MODELLED_SIZES,
    **options: Any,
) -> ResourceTable:
    """Return the resources of a solver's circuits as a table over n.

    Circuits are built and counted for ``sizes``, for problems with points of the given one (evenly chosen, repeated if
    there are too few). If the number of circuits is known without a run, this includes sizes above the solver's
    `max_n`, which only limits runs. For the ``large`` sizes a model extrapolates: CX, depth, rotations and circuits as
    a constant plus a power of n through the three largest counted sizes, qubits as a multiple of log₂ n, with constant
    shots per circuit. T counts, physical qubits and their time are models at every size.

    Parameters
    ----------
    problem : DualProblem
        A problem of a kind that the solver solves.
    solver : str or Solver
        A solver that runs circuits, by name with its options as further keywords, or an instance. By default it takes
        10 000 shots per circuit.
    sizes, large : sequences of int
        Numbers of variables to count, and to extrapolate to.
    **options
        Options of a solver given by name.

    Returns
    -------
    ResourceTable

    Raises
    ------
    ProblemError
        The solver runs no circuits, or can solve none of the sizes.
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
        options = options | {"shots": DEFAULT_SHOTS}
    engine = make_solver(solver, options)
    if not engine.quantum or not hasattr(engine, "schedule"):
        raise ProblemError(f"solver={engine.name!r} runs no circuits, so that there is nothing to count")
    for name, values in (("sizes", sizes), ("large", large)):
        for value in values:
            Number(at_least=1, whole=True).check(name, value)
    counted: list[ResourceRow] = []
    for n in sorted(sizes):
        if (counted and counted[-1].cx > MAX_COUNTED_CX) or (row := _row(resized(problem, n), engine)) is None:
            break
        counted.append(row)
    if not counted:
        raise ProblemError(f"sizes: {engine.name!r} takes at most {engine.max_n} variables; give a size within that")
    growth = {name: Growth.through(counted, name) for name in MODELLED_FIELDS} if len(counted) > 1 else {}
    model = [_extrapolated(n, counted, growth) for n in sorted(large) if growth and n > counted[-1].n]
    return ResourceTable(engine.name, problem.kind.value, (*counted, *model), growth)


def resized(problem: DualProblem, n: int) -> DualProblem:
    """Return a problem of the same kind with n variables, chosen evenly from the given ones, or repeating them."""
    chosen = np.arange(n) % problem.n if n > problem.n else np.arange(n) * problem.n // n
    # The upper bounds of a capped simplex must still allow eᵀα = d.
    stretch = problem.n / n if problem.kind is Kind.CAPPED_SIMPLEX else 1.0
    return replace(
        problem.frozen_copy(),
        p=problem.p[chosen],
        lower=problem.lower[chosen],
        upper=problem.upper[chosen] * stretch,
        e=None if problem.e is None else problem.e[chosen],
        sigma=problem.sigma[chosen],
        ridge=problem.ridge[chosen],
        idx=chosen if problem.idx is None else problem.idx[chosen],
    )


def _row(problem: DualProblem, engine: Any) -> ResourceRow | None:
    """Return the counted row of a problem; None if only a run could count its circuits and the problem is too large."""
    from ..quantum.circuits.clifford_t import logical_counts
    from ..quantum.devices.rehearsal import RehearsalDevice

    if problem.kind not in engine.kinds:
        engine.check(problem)
    rehearsed = engine.rehearsed(RehearsalDevice())
    own = isolated_copy(problem.frozen_copy())
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
    return _with_models(problem.n, True, counts, circuits, shots)


def _with_models(
    n: int,
    counted: bool,
    counts: tuple[float, float, float, float, float],
    circuits: float | None,
    shots: float | None,
) -> ResourceRow:
    """Return a row from the counts (qubits, cx, depth, rotations, t_gates), with models of T gates and machine."""
    from ..quantum.circuits.clifford_t import t_count
    from ..quantum.circuits.surface_code import footprint

    qubits, _, _, rotations, t_gates = counts
    count = t_count(rotations, t_gates)
    machine = footprint(math.ceil(qubits), count)
    return ResourceRow(n, counted, *counts, count, circuits, shots, machine)


def _extrapolated(n: int, counted: list[ResourceRow], growth: dict[str, Growth]) -> ResourceRow:
    """Return the row of n variables by the power laws, with qubits growing as log₂ n."""
    first, last = counted[-2:]
    qubits_per_doubling = (last.qubits - first.qubits) / math.log2(last.n / first.n)
    circuits, shots = last.circuits, last.shots
    if circuits is not None:
        shots_per_circuit = None if shots is None else shots / circuits
        circuits = growth["circuits"].at(n)
        shots = None if shots_per_circuit is None else shots_per_circuit * circuits
    cx, depth, rotations, t_gates = (growth[name].at(n) for name in MODELLED_FIELDS[:4])
    qubits = last.qubits + qubits_per_doubling * math.log2(n / last.n)
    return _with_models(n, False, (qubits, cx, depth, rotations, t_gates), circuits, shots)


def _number(value: float | None) -> str:
    """Return a number as text, with an exponent if it is large; a dash for None."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if value < 100_000 else f"{value:.1e}".replace("e+0", "e").replace("e+", "e")


def _duration(seconds: float) -> str:
    """Return a time as text, in seconds up to years."""
    days = seconds / 86400
    return duration_text(seconds) if days < 3 else f"{days:,.0f} days" if days < 1000 else f"{days / 365.25:,.0f} years"
