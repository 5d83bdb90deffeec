"""Plan the rows of a comparison: one for each solver, and for quantum solvers one for each device and control."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core import evidence
from ..exceptions import DualflowError, ProblemError, SolverUnavailable
from ..quantum.devices import DEVICES, Device, check_shots, make_device
from ..quantum.solvers.base import CircuitSolver
from ..solvers import Solver
from ..solvers.registry import list_solvers, solver_class, solver_names

#: The solver whose answer is the reference of each section.
REFERENCE = "cvxopt"
#: Value of ``shots`` that leaves an instance its own, and gives solvers by name `DEFAULT_SHOTS`.
OWN_SHOTS = "own"
#: Shots of each circuit of a solver given by name.
DEFAULT_SHOTS = 10_000
#: Devices of quantum solvers if none are given.
DEFAULT_DEVICES = ("aer", "pennylane:lightning.qubit")
#: Controls of rows with shots. Exact rows lack "classical-sampler", which without shots is the emulator itself.
CONTROLS = (*evidence.CONTROLS, "classical-sampler")


@dataclass(frozen=True)
class Entry:
    """One planned row: its solver, role, options and device."""

    name: str
    solver: str | Solver
    role: str
    options: dict[str, Any]
    device: str | None = None
    shots: int | None = None
    group: int = 0  # number of the solver in the list; the same for all of its rows

    @property
    def sampled(self) -> bool:
        """Whether the answer depends on the seed: circuits are sampled, or a classical solver draws random numbers."""
        if self.device is not None:
            return bool(self.shots) or self.device == "control:random"
        try:
            return (solver_class(self.solver) if isinstance(self.solver, str) else type(self.solver)).stochastic
        except DualflowError:  # its row will say so
            return False


def planned_shots(solvers: Any, shots: Any) -> tuple[Any, int | None]:
    """Return the solvers, with the shots set in instances that take shots unless they are `OWN_SHOTS`, and the number.

    Raises
    ------
    ProblemError
        The number is out of range, or does not suit other options of an instance.
    """
    if isinstance(shots, str) and shots == OWN_SHOTS:
        return solvers, DEFAULT_SHOTS
    number = check_shots(shots)
    if solvers is None or isinstance(solvers, str):
        return solvers, number
    given = [solvers] if isinstance(solvers, Solver) else list(solvers)
    return [_with_shots(solver, number) for solver in given], number


def _with_shots(solver: Any, shots: int | None) -> Any:
    """Return an instance of a quantum solver with these shots, if it takes shots; anything else as it is."""
    takes = isinstance(solver, Solver) and solver.quantum and "shots" in {f.name for f in dataclasses.fields(solver)}
    return dataclasses.replace(solver, shots=shots) if takes else solver


def plan(
    solvers: Sequence[str | Solver] | None,
    shots: int | None,
    devices: Sequence[str] | None,
    controls: bool,
    studies: bool,
    circuits: bool = True,
) -> list[Entry]:
    """Return the planned rows in the order in which they run; rows of one solver share a ``group``.

    Without ``circuits`` the default list of solvers lacks those that run circuits.
    """
    if isinstance(solvers, (str, Solver)):
        solvers = [solvers]
    if isinstance(devices, str):
        devices = [devices]
    if solvers is None:
        known = list_solvers()
        left_out = set() if studies else {info.name for info in known if info.maturity == "study"}
        left_out |= set() if circuits else {info.name for info in known if info.quantum}
        solvers = [name for name in solver_names() if name not in left_out]
    if not solvers:
        raise ProblemError("solvers is empty; name at least one, or leave it out to compare all")
    entries: list[Entry] = []
    for group, solver in enumerate(solvers):
        if not isinstance(solver, (str, Solver)):
            raise TypeError(f"solvers: names or dualflow.Solver instances are needed, found {type(solver).__name__}")
        entries += [replace(entry, group=group) for entry in _variants(solver, shots, devices, controls)]
    return entries


def _variants(
    solver: str | Solver, shots: int | None, devices: Sequence[str] | None, controls: bool
) -> Iterable[Entry]:
    """Return the rows of one solver: a single one, or for a quantum solver one for each device and control."""
    if isinstance(solver, Solver):
        cls: type[Solver] = type(solver)
        name = cls.name or cls.__name__
    else:
        name = solver
        try:
            cls = solver_class(name)
        except SolverUnavailable:
            return [Entry(name, name, "classical", {})]
    options = {f.name for f in dataclasses.fields(cls) if f.init}
    if not cls.quantum or "device" not in options:
        own = name == REFERENCE and isinstance(solver, str)
        first = Entry(name, solver, "reference" if own else "quantum" if cls.quantum else "classical", {})
        return [first, *(_own_control(first, cls) if controls else ())]
    special: tuple[str, ...] = getattr(cls, "own_controls", ())
    if isinstance(solver, Solver):
        device, own_shots = getattr(solver, "device"), getattr(solver, "shots", None)  # noqa: B009 - a class of a third party
        wanted = [(device, own_shots)]
        wanted += [(d, own_shots) for d in (*CONTROLS, *special) if controls and d != _device_name(device)]
        return [Entry(name, _on(solver, d), role_of(d), {}, _device_name(d), count) for d, count in wanted]
    own_device: Any = next(f.default for f in dataclasses.fields(cls) if f.name == "device")
    if own_device is dataclasses.MISSING:
        own_device = DEFAULT_DEVICES[0]
    if "shots" not in options:  # a solver with exact distributions only: its default device, or those that are given
        named = [*(devices or (own_device,))]
        named += [d for d in (*CONTROLS, *special) if controls and d not in named]
        return [Entry(name, name, role_of(d), {"device": d}, _device_name(d)) for d in named]
    wanted = [(d, shots) for d in devices or DEFAULT_DEVICES]
    exact = devices is None and shots is not None
    if exact:
        wanted.append((own_device, None))
    if controls:
        wanted += [(d, shots) for d in (*CONTROLS, *special) if d not in (devices or ())]
        wanted += [(d, None) for d in (*evidence.CONTROLS, *special) if exact]
    return [Entry(name, name, role_of(d), {"device": d, "shots": count}, _device_name(d), count) for d, count in wanted]


def _own_control(entry: Entry, cls: type[Solver]) -> Iterable[Entry]:
    """Yield the controls that a solver without circuits has as an option, unless the option is set."""
    for control in cls.classical_controls:
        if not isinstance(entry.solver, Solver):
            yield replace(entry, role="control", options={"control": control}, device=f"control:{control}")
        elif getattr(entry.solver, "control", None) is None:
            solver = dataclasses.replace(entry.solver, control=control)  # type: ignore[call-arg]
            yield replace(entry, solver=solver, role="control", device=f"control:{control}")


def role_of(device: Any) -> str:
    """Return the role of a row on a device: "control", "emulated", or "quantum"."""
    cls: Any = device if isinstance(device, Device) else Device
    if isinstance(device, str):
        with contextlib.suppress(DualflowError):  # its row will say so
            cls = DEVICES.find(device)
    return "control" if cls.control else "emulated" if cls.emulated else "quantum"


def _on(solver: Solver, device: Any) -> Solver:
    if isinstance(solver, CircuitSolver) and role_of(device) == "control":
        return solver.controlled(device)
    return dataclasses.replace(solver, device=device)  # type: ignore[call-arg]


def _device_name(device: Any) -> str:
    if not isinstance(device, str):
        with contextlib.suppress(DualflowError):  # its row will say so
            return make_device(device).identity
    return str(device)
