"""Estimate what a run on a device takes: circuits, shots, gates, seconds and money. Nothing is sent to the device."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ..core.problem import DualProblem
from ..core.workspace import Workspace, isolated_copy
from ..driver.solve import check_limits, solve, time_limited
from ..exceptions import DeviceError, DualflowError, ProblemError, SolverMismatch
from ..persistence.files import duration_text
from ..solvers import Solver
from ..solvers.registry import make_solver

if TYPE_CHECKING:
    from ..quantum.circuits import ParametricCircuit
    from ..quantum.devices import Device, Price
    from ..quantum.runs.batches import Batch

#: If a run takes at least this many QPU seconds, it is expensive, and a cheaper solver is estimated too.
MIN_EXPENSIVE_S = 60.0
#: A solver counts as cheaper if it takes at most this share of the time or the shots.
MAX_CHEAPER_SHARE = 0.5
#: Seconds that a device has in any case to report the resources of circuits, also when a rehearsal used the time up.
MIN_DEVICE_TIME_S = 0.5

#: `Estimate.basis` of numbers that the solver's schedule fixes.
SCHEDULED = "fixed by the options; a run that reaches its tolerance earlier takes fewer"
#: `Estimate.basis` of numbers from a rehearsal that ended by itself.
FORECAST = "a forecast from a rehearsal on the emulator; the numbers depend on what is measured"
#: `Estimate.basis` of numbers from a rehearsal that the time limit ended.
CUT_SHORT = "lower bounds: the time limit stopped the rehearsal on the emulator"


@dataclass(frozen=True)
class Estimate:
    """Estimate of what a run sends to a device and what that takes, computed without sending anything.

    Attributes
    ----------
    solver, device : str
        Names of the solver and the device.
    n : int
        Number of variables of the problem.
    circuits, shots, jobs : int
        Numbers for the whole run, including calibrations and the final circuit. A batch that is too large for one job
        counts as several.
    qubits, depth, two_qubit_gates : int
        Size of the largest circuit, compiled for the device.
    price : Price
        Price of all jobs, by the vendor's formula; its fields are None where the vendor publishes none.
    local : bool
        Whether the run takes place on this computer.
    fixed : bool
        Whether circuits and shots are exact; otherwise they are a forecast.
    basis : str
        How the numbers were found, in words.
    cheaper : Estimate, optional
        Another solver for the same problem that takes at most half, if the run is expensive and one is known.
    options : dict
        Options of the solver that were given or differ from the defaults.
    simulation_s : float, optional
        Seconds that this computer needs to build and simulate all circuits, by the simulator's measured speed, within a
        factor of about three; None if it is not known. The classical part of the solver is not included.
    memory_bytes : float, optional
        Memory of the largest circuit and its state on this computer; None if it is not known.

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
    simulation_s: float | None = None
    memory_bytes: float | None = None

    @property
    def qpu_seconds(self) -> float | None:
        """QPU time in seconds; None if the vendor publishes no formula."""
        return self.price.qpu_seconds

    @property
    def cost(self) -> float | None:
        """Cost in the currency of `price`; None if it is not public."""
        return self.price.cost

    @property
    def time(self) -> str:
        """QPU time in words."""
        if self.local:
            return "none: it runs on this computer"
        return "not known: the vendor gives no formula" if self.qpu_seconds is None else duration_text(self.qpu_seconds)

    @property
    def money(self) -> str:
        """Cost in words."""
        if self.local:
            return "nothing"
        return "not public" if self.cost is None else f"{self.cost:,.2f} {self.price.currency}"

    @property
    def title(self) -> str:
        """The solver's name with its options."""
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
        if self.simulation_s is not None and self.memory_bytes is not None:
            amount = f"about {self.simulation_s:.2g} s and {self.memory_bytes / 1e6:,.1f} MB for all circuits"
            rows.append(("simulation", amount))
        if self.price.formula and not self.local:
            rows.insert(5, ("formula", self.price.formula))
        totals = {"max_shots": self.shots, "max_qpu_seconds": self.qpu_seconds, "max_cost": self.cost}
        for name, value in totals.items():
            limit = self.options.get(name)
            if limit is not None and value is not None and value > limit:
                rows.append(("budget", f"{name}={limit:g} ends the run before all of this is sent"))
        if (other := self.cheaper) is not None:
            amount = duration_text(other.qpu_seconds) if other.qpu_seconds is not None else f"{other.shots:,} shots"
            rows.append(("cheaper", f"{other.title}: {amount}, {other.circuits:,} circuits, {other.money}"))
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
    """Estimate what `solve` with the same arguments would send to a device, and what that takes; sends nothing.

    If the options fix the number of circuits and shots, these come from the solver's own schedule and are exact. If
    they depend on measurements (exact distributions, adaptive shots), the solver is run on the emulator instead of the
    device; the numbers are then labelled a forecast. Circuits are compiled for the device, and seconds and price come
    from its `Device.price`.

    Parameters
    ----------
    problem : DualProblem
        The problem to solve.
    solver : str or Solver
        A solver that runs circuits, by name with its options as further keywords, or an instance.
    device : str or Device, optional
        The device; by default the solver's.
    tol, random_state
        As for `solve`.
    time_limit : float, optional
        Seconds for the estimate. A rehearsal, if one is needed, ends after this time, and the numbers are those up to
        then.
    **options
        Options of a solver given by name.

    Returns
    -------
    Estimate
        ``print`` shows it as text. If a run takes a minute of QPU time or more, it names a cheaper solver, if one is
        known.

    Raises
    ------
    ProblemError
        The solver runs no circuits, or an option is out of range.
    SolverMismatch, SolverUnavailable, TypeError
        As from `solve`.
    DeviceError
        The device cannot run the circuits: too many qubits, or no exact distributions.
    FitError
        ``time_limit`` was over before the device had reported the resources of its circuits.

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
    with time_limited(time_limit, "the device was made"):
        target = _target(engine, device)
    found = _estimate_run(problem, engine, target, tol, random_state, time_limit, options)
    if found.local or (found.qpu_seconds is not None and found.qpu_seconds < MIN_EXPENSIVE_S):
        return found
    cheaper = getattr(engine, "cheaper", lambda: None)()
    if cheaper is None:
        return found
    name, its_options = cheaper
    try:
        other = _estimate_run(
            problem, make_solver(name, its_options), target, tol, random_state, time_limit, its_options
        )
    except DualflowError:
        return found  # the other solver cannot solve this problem, or the device cannot run its circuits
    amount, other_amount = (found.qpu_seconds, other.qpu_seconds)
    if amount is None or other_amount is None:
        amount, other_amount = found.shots, other.shots
    is_cheaper = other_amount <= MAX_CHEAPER_SHARE * amount
    return Estimate(**{**vars(found), "cheaper": other}) if is_cheaper else found


def _target(engine: Solver[Any, Any], device: str | Device | None) -> Device:
    """Return the device that the solver would use, guarded; `ProblemError` if the solver runs no circuits."""
    if not engine.quantum or not hasattr(engine, "schedule"):
        raise ProblemError(f"solver={engine.name!r} runs no circuits, so that there is nothing to estimate")
    from ..quantum.devices import make_device
    from ..quantum.runs.guarded import guarded

    target = guarded(make_device(getattr(engine, "device") if device is None else device))  # noqa: B009 - quantum solvers
    if not hasattr(engine, "shots") and not target.capabilities.exact:
        raise DeviceError(f"device {target.name!r} gives counts only; {engine.name!r} takes no shots; use 'aer'")
    return target


def _estimate_run(
    problem: DualProblem,
    engine: Solver[Any, Any],
    device: Device,
    tol: float,
    random_state: int,
    time_limit: float | None,
    given: dict[str, Any],
) -> Estimate:
    """Return the estimate of one solver's run on a device, without a look at cheaper solvers."""
    from ..quantum.devices import Price

    begun = time.monotonic()
    batches, fixed, basis = what_is_sent(problem, engine, tol, random_state, time_limit, device)
    # A rehearsal may have used the time up; its numbers are still useful, so the device gets some time.
    left = None if time_limit is None else max(begun + time_limit - time.monotonic(), MIN_DEVICE_TIME_S)
    with time_limited(left, "the device had reported the resources of its circuits", time_limit):
        for batch in batches:
            device.check(batch.circuit, batch.shots)
        price, jobs = Price(0.0, 0.0), 0
        for batch, times in batches.items():
            for piece in batch.split(device.limits):
                jobs += times
                if piece.shots is not None:  # exact distributions come from computers, and have no price
                    price = price + device.price(piece.circuit, piece.circuits, piece.shots).times(times)
        sizes = [device.resources(circuit) for circuit in {batch.circuit: None for batch in batches}]
        totals: Counter[ParametricCircuit] = Counter()
        for batch, times in batches.items():
            totals[batch.circuit] += batch.circuits * times
        simulations = [device.simulation(circuit, count) for circuit, count in totals.items()]
        known = [found for found in simulations if found is not None]
        all_known = bool(known) and len(known) == len(simulations)
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
        options=_shown_options(engine, given),
        simulation_s=sum(seconds for seconds, _ in known) if all_known else None,
        memory_bytes=max(memory for _, memory in known) if all_known else None,
    )


def _shown_options(engine: Solver[Any, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given or differ from the defaults, except those without influence on the numbers."""
    relevant = [f for f in fields(engine) if f.name not in ("device", "journal", "resend")]
    values = {f.name: (getattr(engine, f.name), f.default) for f in relevant}
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
    """Return a run's batches and how often each is sent, whether these numbers are exact, and their basis in words.

    Parameters
    ----------
    problem : DualProblem
    engine : Solver
        A solver that runs circuits.
    tol, random_state, time_limit
        Those of a rehearsal, if one is needed.
    place : Device, optional
        The device that the rehearsal stands for.
    """
    from ..quantum.devices.rehearsal import RehearsalDevice
    from ..quantum.runs.batches import Batch

    device = RehearsalDevice(place)
    rehearsed = engine.rehearsed(device).aim(tol)
    own = isolated_copy(problem.frozen_copy())
    if (reason := rehearsed.mismatch(own)) is not None:
        raise SolverMismatch(reason)
    with time_limited(time_limit, "the device had reported its checks"):
        schedule = rehearsed.schedule(rehearsed.open(own, Workspace(own)))
    if schedule is not None:
        return schedule.batches(rehearsed.default_max_steps), True, SCHEDULED
    fixed = rehearsed.counts_are_fixed
    # With a fixed count the rehearsal runs to its end: an early convergence on the emulator proves nothing.
    found = solve(problem, rehearsed, tol=1e-300 if fixed else tol, random_state=random_state, time_limit=time_limit)
    if found.status.name == "DEVICE_FAILED":
        raise DeviceError(str(found.provenance.get("device_error", "the rehearsal failed")))
    batches = Counter(Batch(circuit, circuits, shots) for circuit, circuits, shots in device.requests)
    if found.status.name == "TIME_LIMIT":
        return batches, False, CUT_SHORT
    return batches, fixed, SCHEDULED if fixed else FORECAST
