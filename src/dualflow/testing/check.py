"""`check_solver`, which runs all checks of a solver on the zoo and reports them.

    from dualflow.testing import check_solver
    check_solver("my-solver")          # a name, or an instance with options

The checks are functions in `dualflow.testing.checks`.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from ..core.evidence import margin_text
from ..solvers import Solver
from ..solvers.registry import make_solver
from .bench import Bench
from .checks import CHECKS_OF_PROBLEMS, CHECKS_OF_SOLVERS
from .problem_zoo import ZooProblem, zoo


@dataclass
class CheckReport:
    """The result of `check_solver`.

    Attributes
    ----------
    solver : str
    passed : list of str
        Names of the checks that passed on all their problems.
    failed : dict of str to list of str
        By name of the check, the problems and faults.
    skipped : dict of str to str
        By name of the check, why it had no problem.
    problems : list of str
        Names of the problems solved.
    gaps : dict of str to float
        By problem, (f − f*)/|f*| of the raw answer with the zoo's f*; the median over seeds for sampled solvers.
    bounds : dict of str to float
        By problem, the largest gap allowed.
    margins : dict of (str, str) to float
        By problem and control: the factor by which a quantum solver needs fewer circuits, or ends nearer to f*, than
        with that control as its device; the median of three seeds. At least 5 is required. A control is stopped once
        the margin is that large, so that 5 may mean more.

    Examples
    --------
    >>> from dualflow.testing import check_solver
    >>> report = check_solver("smo", max_n=4)
    >>> len(report.problems) > 0, all(report.gaps[name] <= report.bounds[name] for name in report.gaps)
    (True, True)
    """

    solver: str
    passed: list[str] = field(default_factory=list)
    failed: dict[str, list[str]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    gaps: dict[str, float] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)
    margins: dict[tuple[str, str], float] = field(default_factory=dict)

    def table(self) -> str:
        """Return the margins as text, one line for each problem and control; empty for solvers without circuits."""
        width = max((len(problem) for problem, _ in self.margins), default=0)
        return "\n".join(
            f"  {problem:{width}}  {control:14}  {margin_text(found)}"
            for (problem, control), found in self.margins.items()
        )

    def __str__(self) -> str:
        margins = f"\n{self.table()}" if self.margins else ""
        if not self.failed:
            return f"{self.solver!r}: {len(self.passed)} checks hold on {len(self.problems)} problems{margins}"
        lines = [f"{self.solver!r} fails {len(self.failed)} of {len(self.failed) + len(self.passed)} checks:"]
        for name, messages in self.failed.items():
            lines += [f"  {name}: {message}" for message in messages]
        return "\n".join(lines) + margins


class CheckFailed(AssertionError):  # noqa: N818 - the name states what happened
    """At least one check failed; ``report`` is the `CheckReport`.

    Examples
    --------
    >>> from dualflow.testing import BROKEN_SOLVERS, CheckFailed, check_solver
    >>> broken = next(solver for solver in BROKEN_SOLVERS if type(solver).__name__ == "NotANumber")
    >>> try:
    ...     check_solver(broken, max_n=4)
    ... except CheckFailed as error:
    ...     print(len(error.report.failed) > 0)
    ...
    True
    """

    def __init__(self, report: CheckReport) -> None:
        super().__init__(str(report))
        self.report = report


def check_solver(
    solver: Solver | str,
    *,
    problems: Iterable[ZooProblem] | None = None,
    max_n: int | None = None,
    seeds: int = 21,
    time_limit_s: float = 60.0,
) -> CheckReport:
    """Check a solver against everything the package relies on.

    Parameters
    ----------
    solver : Solver or str
        An instance, or a name of `dualflow.list_solvers` (with its default options).
    problems : iterable of ZooProblem, optional
        The whole zoo by default. The solver must refuse problems of kinds that it does not claim.
    max_n : int, optional
        Leave out larger problems (the solver's own ``max_n`` always applies).
    seeds : int, default=21
        Number of seeds of a sampled solver. The median of their gaps may be at most 8 times the shot floor, the median
        gap of the optimum sampled with all shots of the run. With two variables the excess of a perfect sampler is χ²
        with one degree of freedom: a single run is above 3 × the median in a quarter of all cases, the median of 3 runs
        in one of seven, that of 21 in one of 200.
    time_limit_s : float, default=60
        Time limit of a single run in seconds; a run that exceeds it fails.

    Returns
    -------
    CheckReport

    Raises
    ------
    CheckFailed
        An AssertionError whose message lists every failed check by name.
    SolverMismatch, SolverUnavailable
        The solver is not known, or a package is missing.

    Examples
    --------
    >>> from dualflow.testing import check_solver
    >>> report = check_solver("smo", max_n=4)
    >>> report.failed
    {}
    """
    engine = make_solver(solver)
    limit = min((size for size in (max_n, engine.max_n) if size is not None), default=None)
    candidates = [z for z in (zoo() if problems is None else problems) if limit is None or z.n <= limit]
    bench = Bench(engine, candidates, seeds, time_limit_s)
    report = CheckReport(engine.name, problems=[z.name for z in bench.claimed])
    if not bench.claimed and problems is not None:
        raise ValueError(
            f"problems: none of those given is of a kind {engine.name!r} claims; there is nothing to check"
        )
    for name, check in CHECKS_OF_SOLVERS.items():
        _run(report, name, partial(check, bench), "")
    for name, (check_one, select) in CHECKS_OF_PROBLEMS.items():
        chosen = select(bench)
        if not chosen:
            without_circuits = name == "evidence" and not engine.quantum
            why = f"no problem of a kind that {engine.name!r} claims suits this check"
            if without_circuits:
                why = f"{engine.name!r} runs no circuits"
            report.skipped[name] = why
        for z in chosen:
            _run(report, name, partial(check_one, bench, z), f"{z.name}: ")
    known = [*CHECKS_OF_SOLVERS, *CHECKS_OF_PROBLEMS]
    report.passed = [name for name in known if name not in report.failed and name not in report.skipped]
    report.gaps, report.bounds = bench.gaps, bench.bounds
    report.margins = bench.margins
    if report.failed:
        raise CheckFailed(report)
    return report


def _run(report: CheckReport, name: str, check: Callable[[], None], where: str) -> None:
    """Run a check and add its failure, if any, to the report."""
    try:
        check()
    except AssertionError as error:
        report.failed.setdefault(name, []).append(f"{where}{error}")
    except Exception as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        message = f"{where}{type(error).__name__}: {error} (in {frame.name}, line {frame.lineno})"
        report.failed.setdefault(name, []).append(message)
