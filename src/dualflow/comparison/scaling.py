"""`scaling_study`: the gap of a quantum solver against shots, noise, depth or qubits, with floors and controls."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..core.certificate import Certifier
from ..core.options import Number
from ..core.problem import DualProblem
from ..core.runtime.clock import keeping_interrupts
from ..core.solution import Solution
from ..driver.solve import check_limits, solve
from ..exceptions import ProblemError, did_you_mean, raise_interrupt
from ..persistence.files import csv_safe, escape_control_characters, replacing_text
from ..planning.resources import resized
from ..quantum.devices import Noise, check_shots, make_device
from ..quantum.devices.aer import AerDevice
from ..quantum.solvers.base import QuantumSolver
from ..solvers import Solver
from ..solvers.registry import make_solver, solver_class
from .plan import CONTROLS, REFERENCE
from .rows import ProgressCallback, floors_of, quartiles, reason_text

#: Certified relative gap to which the reference is solved: far below any floor of shots.
REFERENCE_TOL = 1e-10
#: Shots that are studied by default, one for each decade.
DEFAULT_SHOTS = (100, 1000, 10_000)


@dataclass(frozen=True)
class ScalingPoint:
    """The runs of one setting with all seeds, as medians and quartiles.

    Attributes
    ----------
    role : {"quantum", "control"}
    device : str
        The device, or the control in its place.
    n : int
        Number of variables.
    qubits, depth, two_qubit_gates : float
        Of the largest circuit, as executed.
    noise : float or None
        Depolarising probability of each gate; None for controls, which run no gate, and for a device with noise of its
        own.
    shots : int or None
        Of each circuit; None from exact distributions.
    total_shots, circuits : float
        Of a run, in the median.
    varied : dict
        Value of each option in ``vary``.
    seeds, failed : int
        Runs with an answer, and runs that failed.
    gap, gap_low, gap_high : float
        Raw certified relative gap: median and quartiles over the seeds; NaN if none is certified.
    excess, excess_low, excess_high : float
        (f − f*)/|f*|, f* of the reference: median and quartiles.
    gap_floor, excess_floor : float
        Median gap and excess of the exact optimum, sampled with all shots of a run; NaN without shots.
    reason : str
        Why runs failed; empty if none did.

    Examples
    --------
    >>> from dualflow import Gram, problems, scaling_study
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> study = scaling_study(problem, "variational-flow", device="emulator", shots=100, seeds=2, controls=False)
    >>> [(point.role, point.qubits, point.shots, point.seeds) for point in study.points]
    [('quantum', 2.0, 100, 2)]
    """

    role: str
    device: str
    n: int
    qubits: float
    depth: float
    two_qubit_gates: float
    noise: float | None
    shots: int | None
    total_shots: float
    circuits: float
    varied: dict[str, Any]
    seeds: int
    failed: int
    gap: float
    gap_low: float
    gap_high: float
    excess: float
    excess_low: float
    excess_high: float
    gap_floor: float
    excess_floor: float
    reason: str = ""

    def value(self, name: str) -> Any:
        """Return an attribute, or the value of a varied option."""
        return self.varied[name] if name in self.varied else getattr(self, name)


_FIELDS = tuple(f.name for f in fields(ScalingPoint) if f.name != "varied")


@dataclass(frozen=True)
class ScalingStudy:
    """What `scaling_study` returns: a table with one row for each setting.

    Attributes
    ----------
    solver : str
    points : tuple of ScalingPoint
        In the order in which they ran.
    axes : tuple of str
        What was varied: "n", the names of ``vary``, "noise" and "shots", as far as they have several values.
    settings : dict
        Everything that repeats the study.

    Examples
    --------
    >>> from dualflow import Gram, problems, scaling_study
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> study = scaling_study(problem, "variational-flow", device="emulator", shots=[100, 1000], seeds=2)
    >>> study.axes, len(study), study.columns[:4]
    (('shots',), 8, ('role', 'device', 'n', 'qubits'))
    """

    solver: str
    points: tuple[ScalingPoint, ...]
    axes: tuple[str, ...]
    settings: dict[str, Any]

    def __len__(self) -> int:
        return len(self.points)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns; options in ``vary`` come last."""
        return (*_FIELDS, *(self.points[0].varied if self.points else ()))

    def to_dict(self) -> dict[str, list[Any]]:
        """Return the table as lists by column, for ``pandas.DataFrame`` and others."""
        return {name: [point.value(name) for point in self.points] for name in self.columns}

    def to_frame(self) -> Any:
        """Return the table as a ``pandas.DataFrame``.

        Raises
        ------
        ImportError
            pandas is not installed; `to_dict` and `to_csv` need no package.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas; to_dict and to_csv need nothing") from error
        return pd.DataFrame(self.to_dict())

    def to_csv(self, path: str | Path | None = None) -> str | None:
        """Write the table as CSV with numbers in full precision, or return it as text if there is no path."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([_cell(point.value(name)) for name in self.columns] for point in self.points)
        if path is None:
            return text.getvalue()
        with replacing_text(path) as file:
            file.write(text.getvalue())
        return None

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw it with matplotlib, and return a `ScalingDisplay`; its ``from_study`` lists parameters and errors."""
        from ..displays.scaling import ScalingDisplay

        return ScalingDisplay.from_study(self, ax=ax, **options)

    def __str__(self) -> str:
        own = [name for name in self.axes if name not in ("shots", "noise")]
        head = [*own, "noise", "shots", "device", "gap", "excess", "floor of excess", "runs"]
        rows = [head]
        for point in self.points:
            failed = f", {point.failed} failed" if point.failed else ""
            rows.append(
                [
                    *(str(point.value(name)) for name in own),
                    "–" if point.noise is None else f"{point.noise:g}",
                    "exact" if point.shots is None else f"{point.shots:,}",
                    point.device if point.role == "quantum" else f"({point.device})",
                    _ranged(point.gap, point.gap_low, point.gap_high),
                    _ranged(point.excess, point.excess_low, point.excess_high),
                    "–" if np.isnan(point.excess_floor) else f"{point.excess_floor:.1e}",
                    f"{point.seeds}{failed}",
                ]
            )
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
        return "\n".join(
            [
                f"{self.solver}: medians over seeds, quartiles in brackets; devices in parentheses are controls",
                *lines,
                "With shots, read the excess beside its floor: that of the optimum, read out with as many shots.",
            ]
        )


@dataclass(frozen=True)
class _Setting:
    """One setting of a study: the problem, the device, and the values on all axes."""

    problem: DualProblem
    solver: Solver[Any, Any]
    role: str
    device: str
    noise: float | None
    shots: int | None
    varied: dict[str, Any]


@keeping_interrupts()
def scaling_study(
    problem: DualProblem,
    solver: str | Solver[Any, Any],
    *,
    shots: int | Sequence[int | None] | None = DEFAULT_SHOTS,
    noise: float | Noise | Sequence[float | Noise | None] | None = None,
    sizes: Sequence[int] | None = None,
    vary: Mapping[str, Sequence[Any]] | None = None,
    seeds: int | Sequence[int] = 5,
    device: Any = "aer",
    controls: bool = True,
    tol: float = 1e-6,
    time_limit: float | None = 60.0,
    progress: ProgressCallback | None = None,
    **options: Any,
) -> ScalingStudy:
    """Run a quantum solver over shots, noise, sizes and options with several seeds, beside its controls.

    All combinations run. Each is measured by its raw certified gap, and by its excess over a classical reference.
    Refinement is off. Controls take the device's place: the null device and random bits ignore the circuit; with shots
    a classical sampler draws from the circuit's distribution without a circuit. They do not depend on the noise, and
    run once for each of the other settings.

    Parameters
    ----------
    problem : DualProblem
        Of a kind that the solver solves.
    solver : str or Solver
        A solver that runs circuits, by name with its options as further keywords, or an instance. The study sets its
        device and shots, and leaves out its journal and budgets.
    shots : int, None, or sequence of them, default=(100, 1000, 10_000)
        Shots of each circuit; None takes exact distributions.
    noise : float, Noise, None, or sequence of them, optional
        Noise of the simulator. A number p is ``Noise(depolarizing=p, readout=0)``: each gate leaves its qubits in the
        maximally mixed state with probability p. None and 0 take ``device`` as it is.
    sizes : sequence of int, optional
        Numbers of variables, and with them of qubits: points of the problem, evenly chosen. By default the problem as
        it is.
    vary : dict of str to sequence, optional
        Options of the solver with their values, such as ``{"layers": [1, 2, 4]}`` with ansatz="hardware-efficient",
        which changes the depth.
    seeds : int or sequence of int, default=5
        Number of runs of each setting, with seeds 0, 1, …, or the seeds themselves.
    device : str or Device, default="aer"
        A simulator. Real machines are refused: every run would be paid.
    controls : bool, default=True
        Run the controls too.
    tol, time_limit
        As for `solve`, for each run; ``time_limit`` in seconds.
    progress : callable, optional
        Called as ``progress(runs done, runs in all, text of the next run)``.
    **options
        Options of a solver given by name.

    Returns
    -------
    ScalingStudy
        ``print`` shows it as text; ``to_csv``, ``to_frame`` and ``plot`` give table and figure. A run that fails is
        counted in ``failed`` with its reason.

    Raises
    ------
    ProblemError
        The solver runs no circuits or takes no shots, a parameter is out of range, or the device is remote.
    SolverMismatch
        The solver does not solve such problems, or its name is not known.
    KeyboardInterrupt
        Ctrl-C; ``error.study`` has the settings whose runs were finished.

    Examples
    --------
    >>> from dualflow import Gram, problems, scaling_study
    >>> problem = problems.svdd(Gram([[0.0, 0.1], [1.0, 0.3], [0.2, 2.0], [3.0, 1.0]], gamma=0.5))
    >>> study = scaling_study(problem, "variational-flow", device="emulator", shots=[100, 10_000], seeds=3)
    >>> few, many = (point for point in study.points if point.role == "quantum")
    >>> few.excess > many.excess, few.excess_floor > many.excess_floor
    (True, True)
    """
    check_limits(tol, None, time_limit)
    shot_counts = [check_shots(count) for count in _listed(shots)]
    if not shot_counts:
        raise ProblemError("shots is empty; give at least one value")
    engine = _checked_engine(solver, options, problem, shot_counts[0])
    place = make_device(device)
    if place.remote:
        raise ProblemError(f"device={place.name!r} is a real machine, where every run is paid; give a simulator")
    noises = [_with_noise(level, place) for level in _listed(noise)]
    chosen = [problem] if sizes is None else [_resized(problem, n) for n in sizes]
    varied = _checked_vary(engine, vary)
    numbers = list(range(seeds)) if isinstance(seeds, int) and not isinstance(seeds, bool) else _listed(seeds)
    numbers = [Number(at_least=0, whole=True).check("seeds", seed) for seed in numbers]
    for name, found in {"noise": noises, "sizes": chosen, "seeds": numbers, **varied}.items():
        if not found:
            raise ProblemError(f"{name} is empty; give at least one value")
    settings: list[_Setting] = []
    for own, values, count in itertools.product(chosen, itertools.product(*varied.values()), shot_counts):
        here = dict(zip(varied, values, strict=True))
        base: Any = replace(engine, **here, shots=count)
        base.check(own)
        for level, target in noises:
            settings.append(_Setting(own, base.rehearsed(target), "quantum", place.name, level, count, here))
        for control in (*CONTROLS, *base.own_controls) if controls else ():
            if count is not None or control != "classical-sampler":  # without shots it is the emulator itself
                settings.append(_Setting(own, base.controlled(control), "control", control, None, count, here))
    settings_text = {
        "problem": repr(problem),
        "solver": repr(engine),
        "seeds": numbers,
        "tol": tol,
        "time_limit": time_limit,
    }
    lengths = {"n": len(chosen), **{name: len(values) for name, values in varied.items()}}
    lengths |= {"noise": len(noises), "shots": len(shot_counts)}
    axes = tuple(name for name, length in lengths.items() if length > 1)
    runner = _Runner(numbers, tol, time_limit, progress, len(settings) * len(numbers))
    points: list[ScalingPoint] = []
    try:
        for setting in settings:
            points.append(runner.point(setting))
    except KeyboardInterrupt as interrupt:
        interrupt.study = ScalingStudy(engine.name, tuple(points), axes, settings_text)  # type: ignore[attr-defined]
        raise
    return ScalingStudy(engine.name, tuple(points), axes, settings_text)


class _Runner:
    """Runs the settings of a study; references and floors are computed once for each problem."""

    def __init__(
        self, seeds: list[int], tol: float, time_limit: float | None, progress: Callable[..., Any] | None, total: int
    ) -> None:
        self.seeds, self.tol, self.time_limit, self.progress, self.total = seeds, tol, time_limit, progress, total
        self.done = 0
        self.references: dict[int, tuple[Certifier, Solution]] = {}
        self.floors: dict[tuple[int, int, str | None], tuple[float, float] | None] = {}

    def point(self, setting: _Setting) -> ScalingPoint:
        """Return the point of a setting, after its runs with all seeds."""
        found, reasons = [], []
        for seed in self.seeds:
            if self.progress is not None:
                self.progress(self.done, self.total, f"n = {setting.problem.n}, {setting.device}, seed {seed}")
            self.done += 1
            try:
                solution = solve(
                    setting.problem, setting.solver, tol=self.tol, time_limit=self.time_limit, random_state=seed
                )
            except Exception as error:  # the reason of a failed run, whatever raised it
                raise_interrupt(error)
                reasons.append(reason_text(error))
                continue
            if solution.status.name == "DEVICE_FAILED":
                reasons.append(str(solution.provenance.get("device_error", solution.status.value)))
                continue
            found.append(solution)
        certifier, reference = self.reference(setting.problem)
        best = reference.certificate.objective
        gaps = [np.nan if s.raw_certificate.relative_gap is None else s.raw_certificate.relative_gap for s in found]
        excess = [max(0.0, s.raw_certificate.objective - best) / abs(best) if best else np.nan for s in found]
        total = _median([s.cost.shots for s in found])
        gap, gap_low, gap_high = quartiles(gaps)
        middle, low, high = quartiles(excess)
        gap_floor, excess_floor = self.floor(certifier, reference, int(total) if total > 0 else 0, setting.solver)
        return ScalingPoint(
            role=setting.role,
            device=setting.device,
            n=setting.problem.n,
            qubits=_median([solution.cost.qubits for solution in found]),
            depth=_median([solution.cost.depth for solution in found]),
            two_qubit_gates=_median([solution.cost.two_qubit_gates for solution in found]),
            noise=setting.noise,
            shots=setting.shots,
            total_shots=total,
            circuits=_median([solution.cost.circuits for solution in found]),
            varied=setting.varied,
            seeds=len(found),
            failed=len(reasons),
            gap=gap,
            gap_low=gap_low,
            gap_high=gap_high,
            excess=middle,
            excess_low=low,
            excess_high=high,
            gap_floor=gap_floor,
            excess_floor=excess_floor,
            reason="; ".join(dict.fromkeys(reasons)),
        )

    def reference(self, problem: DualProblem) -> tuple[Certifier, Solution]:
        """Return the certifier of a problem and its classical reference."""
        if id(problem) not in self.references:
            solution = solve(problem, REFERENCE, tol=REFERENCE_TOL, refine=True)
            self.references[id(problem)] = Certifier(problem.frozen_copy()), solution
        return self.references[id(problem)]

    def floor(
        self, certifier: Certifier, reference: Solution, shots: int, solver: Solver[Any, Any]
    ) -> tuple[float, float]:
        """Return the shot floors in gap and in excess; NaN without shots, and where no circuit encodes α."""
        if not shots:
            return np.nan, np.nan
        key = id(certifier), shots, getattr(solver, "encoding", None)
        if key not in self.floors:
            self.floors[key] = floors_of(certifier, reference.alpha, shots, 0, key[2])
        return self.floors[key] or (np.nan, np.nan)


def _checked_engine(
    solver: str | Solver[Any, Any], options: dict[str, Any], problem: DualProblem, shots: int | None
) -> Any:
    """Return the solver, with shots if it is given by name; raise `ProblemError` if it samples no circuits."""
    if not isinstance(problem, DualProblem):
        raise ProblemError(f"problem must be a DualProblem, found {type(problem).__name__}; see dualflow.problems")
    cls = solver_class(solver) if isinstance(solver, str) else type(solver)
    if not issubclass(cls, QuantumSolver):
        raise ProblemError(f"solver={cls.name!r} samples no circuits; dualflow solvers lists those that do")
    return make_solver(solver, options | {"shots": shots} if isinstance(solver, str) else options)


def _checked_vary(engine: Any, vary: Mapping[str, Sequence[Any]] | None) -> dict[str, list[Any]]:
    """Return the options to vary; raise `ProblemError` for one that the solver lacks or the study sets itself."""
    known = [f.name for f in fields(engine) if f.init and f.name not in ("device", "shots")]
    for name in vary or {}:
        if name not in known:
            raise ProblemError(f"vary={name!r} is not one of {', '.join(known)}{did_you_mean(str(name), known)}")
    return {name: _listed(values) for name, values in (vary or {}).items()}


def _resized(problem: DualProblem, n: int) -> DualProblem:
    """Return a problem with n of the given variables."""
    n = Number(at_least=2, whole=True).check("sizes", n)
    if n > problem.n:
        raise ProblemError(f"sizes: {n} is more than the {problem.n} variables of the problem; give a larger problem")
    return problem if n == problem.n else resized(problem, n)


def _with_noise(noise: Any, place: Any) -> tuple[float | None, Any]:
    """Return the depolarising probability, None if the device's own noise is not known, and the device with it."""
    if noise is None or (isinstance(noise, (int, float)) and noise == 0):
        return None if place.capabilities.noisy else 0.0, place
    if place.identity != "aer":
        raise ProblemError(f"noise needs device='aer', found {place.identity!r}; give noise there, or a noisy device")
    own = noise if isinstance(noise, Noise) else Noise(noise, readout=0.0)
    return own.depolarizing, AerDevice(noise=own)


def _listed(values: Any) -> list[Any]:
    """Return a sequence as a list, and a single value as a list of one."""
    if isinstance(values, (str, Noise)) or not isinstance(values, Iterable):
        return [values]
    return list(values)


def _median(values: list[Any]) -> float:
    return float(np.median(values)) if values else np.nan


def _cell(value: Any) -> Any:
    """Return a value for CSV: missing ones are empty, and texts cannot be read as formulas."""
    if isinstance(value, str):
        return csv_safe(escape_control_characters(value))
    return "" if value is None or (isinstance(value, float) and np.isnan(value)) else value


def _ranged(middle: float, low: float, high: float) -> str:
    return "–" if np.isnan(middle) else f"{middle:.1e} [{low:.1e}, {high:.1e}]"
