"""What a run on a device will take, before anything is sent: circuits, shots, gates, seconds, money."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ..core.problem import DualProblem
from ..core.workspace import Workspace, twin
from ..driver.solve import check_limits, limited, solve
from ..exceptions import DeviceError, DualflowError, ProblemError, SolverMismatch
from ..persistence.files import span
from ..solvers import Solver
from ..solvers.registry import make_solver

if TYPE_CHECKING:
    from ..quantum.devices import Device, Price
    from ..quantum.runs.batches import Batch

__all__ = ["Estimate", "estimate", "span", "what_is_sent"]

#: From so many QPU seconds on a cheaper way is looked for and named.
DEAR_S = 60.0
#: A cheaper way takes no more than this share.
SHARE = 0.5
#: Seconds that a device has at least to say what circuits take.
ANSWER_S = 0.5

SCHEDULED = "fixed by the options; a run that reaches its tolerance earlier takes fewer"
FORECAST = "a forecast from a rehearsal on the emulator; the numbers depend on what is measured"
CUT_SHORT = "at least so many: the rehearsal on the emulator was stopped by its time limit"


@dataclass(frozen=True)
class Estimate:
    """What a run sends, and what that takes. Nothing was sent to know it.

    Attributes
    ----------
    solver, device : str
    n : int
        Variables of the problem.
    circuits, shots, jobs : int
        Of the whole run, calibrations and final circuit included; a batch that is too large for one job is several.
    qubits, depth, two_qubit_gates : int
        Of the largest circuit as the device runs it, compiled for it.
    price : Price
        Of all jobs, by the vendor's own formula; None in it where the vendor says nothing.
    local : bool
        It runs on this computer.
    fixed : bool
        Circuits and shots are exact; else a forecast.
    basis : str
        What the numbers rest on, in words.
    cheaper : Estimate, optional
        Another way to solve the same problem, for at most half.
    options : dict
        Of the solver: those given, and others that are not the defaults.

    Examples
    --------
    >>> from dualflow import Gram, estimate, problems
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> estimate(problem, "variational-flow", "emulator", shots=1000).money
    'nothing'
    """

    solver: str
    device: str
    n: int
    circuits: int
    shots: int
    jobs: int
    qubits: int
    depth: int
    two_qubit_gates: int
    price: Price
    local: bool
    fixed: bool
    basis: str
    options: dict[str, Any]
    cheaper: Estimate | None = None

    @property
    def qpu_seconds(self) -> float | None:
        return self.price.qpu_seconds

    @property
    def cost(self) -> float | None:
        return self.price.cost

    @property
    def time(self) -> str:
        """QPU time in words."""
        if self.local:
            return "none: it runs on this computer"
        return "not known: the vendor gives no formula" if self.qpu_seconds is None else span(self.qpu_seconds)

    @property
    def money(self) -> str:
        """Cost in words."""
        if self.local:
            return "nothing"
        return "not public" if self.cost is None else f"{self.cost:,.2f} {self.price.currency}"

    @property
    def title(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return self.solver + (f" ({given})" if given else "")

    def __str__(self) -> str:
        size = f"{self.qubits} qubits, depth {self.depth:,}, {self.two_qubit_gates:,} two-qubit gates"
        rows = [
            ("circuits", f"{self.circuits:,} in {self.jobs:,} job{'s' * (self.jobs != 1)}"),
            ("shots", f"{self.shots:,}" if self.shots else "none: exact distributions"),
            ("largest circuit", size),
            ("QPU time", self.time),
            ("cost", self.money),
            ("these numbers", self.basis),
        ]
        if self.price.formula and not self.local:
            rows.insert(5, ("formula", self.price.formula))
        wanted = {"max_shots": self.shots, "max_qpu_seconds": self.qpu_seconds, "max_cost": self.cost}
        for name, value in wanted.items():
            limit = self.options.get(name)
            if limit is not None and value is not None and value > limit:
                rows.append(("budget", f"{name}={limit:g} ends the run before all of this is sent"))
        if (other := self.cheaper) is not None:
            took = span(other.qpu_seconds) if other.qpu_seconds is not None else f"{other.shots:,} shots"
            rows.append(("cheaper", f"{other.title}: {took}, {other.circuits:,} circuits, {other.money}"))
        lines = [f"{self.title}, n = {self.n}, on {self.device}: an estimate, nothing was sent"]
        return "\n".join(lines + [f"  {name:<16} {text}" for name, text in rows])


def estimate(
    problem: DualProblem,
    solver: str | Solver[Any, Any],
    device: str | Device | None = None,
    *,
    tol: float = 1e-6,
    random_state: int = 0,
    time_limit: float | None = 60.0,
    **options: Any,
) -> Estimate:
    """What `solve` with the same arguments would send to a device, and what that takes; sends nothing.

    Where the options fix how many circuits and shots a run takes, they come from the rules the solver itself rests by,
    and are exact. Where they depend on what is measured (exact distributions, adaptive shots), the solver is run
    against the emulator in the device's place: a forecast, and labelled so. Circuits are compiled for the device, and
    seconds and price are the device's own `Device.price`.

    Parameters
    ----------
    problem : DualProblem
    solver : str or Solver
        One that runs circuits, with its options as further keywords, or an instance.
    device : str or Device, optional
        The solver's own by default.
    tol, random_state
        As for `solve`.
    time_limit : float, optional
        Seconds; a rehearsal, if one is needed, ends with them, and has forecast what it came to.

    Returns
    -------
    Estimate
        ``print`` shows it. From a minute of QPU on it names a cheaper way, if one is known.

    Raises
    ------
    ProblemError
        The solver runs no circuits, or an option is out of range.
    SolverMismatch, SolverUnavailable, TypeError
        As from `solve`.
    DeviceError
        The device cannot run the circuits: too many qubits, or no exact distributions.
    FitError
        The device had not said what its circuits take when ``time_limit`` was over.

    Examples
    --------
    >>> from dualflow import Gram, estimate, problems
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> found = estimate(problem, "variational-flow", "emulator", shots=1000)
    >>> found.circuits, found.shots, found.fixed
    (41, 41000, True)
    """
    check_limits(tol, None, time_limit)
    engine = make_solver(solver, options)
    with limited(time_limit, "the device was made"):
        target = _target(engine, device)
    found = _figures(problem, engine, target, tol, random_state, time_limit, options)
    if found.local or (found.qpu_seconds is not None and found.qpu_seconds < DEAR_S):
        return found
    another = getattr(engine, "cheaper", lambda: None)()
    if another is None:
        return found
    name, its = another
    try:
        other = _figures(problem, make_solver(name, its), target, tol, random_state, time_limit, its)
    except DualflowError:
        return found  # it does not take this problem, or the device not its circuits
    here, there = (found.qpu_seconds, other.qpu_seconds)
    if here is None or there is None:
        here, there = found.shots, other.shots
    return Estimate(**{**vars(found), "cheaper": other}) if there <= SHARE * here else found


def _target(engine: Solver[Any, Any], device: str | Device | None) -> Device:
    if not engine.quantum or not hasattr(engine, "schedule"):
        raise ProblemError(f"solver={engine.name!r} runs no circuits, so that there is nothing to estimate")
    from ..quantum.devices import make_device
    from ..quantum.runs.guarded import guarded

    return guarded(make_device(getattr(engine, "device") if device is None else device))  # noqa: B009 - it has one


def _figures(
    problem: DualProblem,
    engine: Solver[Any, Any],
    device: Device,
    tol: float,
    random_state: int,
    time_limit: float | None,
    given: dict[str, Any],
) -> Estimate:
    from ..quantum.devices import Price

    begun = time.monotonic()
    batches, fixed, basis = what_is_sent(problem, engine, tol, random_state, time_limit, device)
    # A rehearsal that uses up the time is of use, too.
    left = None if time_limit is None else max(begun + time_limit - time.monotonic(), ANSWER_S)
    with limited(left, "the device said what its circuits take", time_limit):
        for batch in batches:
            device.check(batch.circuit, batch.shots)
        price, jobs = Price(0.0, 0.0), 0
        for batch, times in batches.items():
            for piece in batch.split(device.limits):
                jobs += times
                if piece.shots is not None:  # exact distributions come from computers, and have no price
                    price = price + device.price(piece.circuit, piece.circuits, piece.shots).times(times)
        sizes = [device.resources(circuit) for circuit in {batch.circuit: None for batch in batches}]
    return Estimate(
        solver=engine.name,
        device=device.name,
        n=problem.n,
        circuits=sum(batch.circuits * times for batch, times in batches.items()),
        shots=sum(batch.circuits * (batch.shots or 0) * times for batch, times in batches.items()),
        jobs=jobs,
        qubits=max((size.qubits for size in sizes), default=0),
        depth=max((size.depth for size in sizes), default=0),
        two_qubit_gates=max((size.two_qubit_gates for size in sizes), default=0),
        price=price,
        local=not device.remote and not price.qpu_seconds and not price.cost,
        fixed=fixed,
        basis=basis,
        options=_said(engine, given),
    )


def _said(engine: Solver[Any, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Options that are not the defaults, or were given by name; what takes nothing aside."""
    told = [f for f in fields(engine) if f.name not in ("device", "journal", "resend")]
    values = {f.name: (getattr(engine, f.name), f.default) for f in told}
    return {
        name: value
        for name, (value, default) in values.items()
        if value != default or (name in given and value is not None)
    }


def what_is_sent(
    problem: DualProblem,
    engine: Any,
    tol: float = 1e-6,
    random_state: int = 0,
    time_limit: float | None = None,
    place: Device | None = None,
) -> tuple[Counter[Batch], bool, str]:
    """The batches of a run, each with how often it is sent; whether that is certain; and in words why.

    Parameters
    ----------
    problem, engine
        A problem, and a solver that runs circuits.
    tol, random_state, time_limit, place
        Of a rehearsal, where one is needed; and the device in whose place it is.
    """
    from ..quantum.devices.rehearsal import RehearsalDevice
    from ..quantum.runs.batches import Batch

    device = RehearsalDevice(place)
    rehearsed = engine.rehearsed(device).aim(tol)
    own = twin(problem.value())
    if (reason := rehearsed.mismatch(own)) is not None:
        raise SolverMismatch(reason)
    with limited(time_limit, "the device said what it checks"):
        schedule = rehearsed.schedule(rehearsed.open(own, Workspace(own)))
    if schedule is not None:
        return schedule.batches(rehearsed.default_max_steps), True, SCHEDULED
    fixed = rehearsed.counts_are_fixed
    # Luck on the emulator is no evidence: where the count is certain, the rehearsal goes on to the end.
    found = solve(problem, rehearsed, tol=1e-300 if fixed else tol, random_state=random_state, time_limit=time_limit)
    if found.status.name == "DEVICE_FAILED":
        raise DeviceError(str(found.provenance.get("device_error", "the rehearsal failed")))
    batches = Counter(Batch(circuit, circuits, shots) for circuit, circuits, shots in device.asked)
    if found.status.name == "TIME_LIMIT":
        return batches, False, CUT_SHORT
    return batches, fixed, SCHEDULED if fixed else FORECAST
