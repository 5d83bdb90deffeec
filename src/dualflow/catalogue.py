"""Catalogues: names to classes, imported when they are used. One kind, for solvers and for devices.

Third parties join by entry points, of the group "dualflow.solvers" or "dualflow.devices".
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import ClassVar, Generic, TypeVar

from .exceptions import DualflowError, SolverUnavailable, heed, near_miss
from .persistence.unconfirmed import Unconfirmed

__all__ = ["SOLVER_CLASSES", "Catalogue", "Listed"]

#: The solvers of this package: name to "module:Class", in the order of lists.
SOLVER_CLASSES = {
    "working-set": "dualflow.solvers.working_set:WorkingSet",
    "level-search": "dualflow.solvers.level_search:LevelSearch",
    "incremental": "dualflow.solvers.incremental:Incremental",
    "smo": "dualflow.solvers.smo:SMO",
    "gradient-flow": "dualflow.solvers.gradient_flow:GradientFlow",
    "lotka-volterra": "dualflow.solvers.lotka_volterra:LotkaVolterra",
    "analog-flow": "dualflow.solvers.analog_flow:AnalogFlow",
    "frank-wolfe": "dualflow.solvers.frank_wolfe:FrankWolfe",
    "invasion": "dualflow.solvers.invasion:Invasion",
    "cascade": "dualflow.solvers.cascade:Cascade",
    "evolution-strategy": "dualflow.solvers.evolution_strategy:EvolutionStrategy",
    "particle-swarm": "dualflow.solvers.particle_swarm:ParticleSwarm",
    "interior-point": "dualflow.solvers.interior_point:InteriorPoint",
    "cvxopt": "dualflow.solvers.cvxopt:CVXOPT",
    "qpsolvers": "dualflow.solvers.qpsolvers:QPSolvers",
    "quantum-invasion": "dualflow.quantum.solvers.quantum_invasion:QuantumInvasion",
    "hamiltonian-dilation": "dualflow.quantum.solvers.hamiltonian_dilation:HamiltonianDilation",
    "hamiltonian-schrodingerisation": (
        "dualflow.quantum.solvers.hamiltonian_schrodingerisation:HamiltonianSchrodingerisation"
    ),
    "hamiltonian-lchs": "dualflow.quantum.solvers.hamiltonian_lchs:HamiltonianLCHS",
    "hhl": "dualflow.quantum.solvers.hhl:HHL",
    "variational-flow": "dualflow.quantum.solvers.variational_flow:VariationalFlow",
    "variational-dqc": "dualflow.quantum.solvers.variational_dqc:VariationalDQC",
    "variational-lotka-volterra": "dualflow.quantum.solvers.variational_lotka_volterra:VariationalLotkaVolterra",
    "hamiltonian-descent": "dualflow.quantum.solvers.hamiltonian_descent:HamiltonianDescent",
    "hamiltonian-adiabatic": "dualflow.quantum.solvers.hamiltonian_adiabatic:HamiltonianAdiabatic",
}

#: Packages that pip knows by another name than `import`.
_PIP = {"pennylane_lightning": "pennylane-lightning", "qiskit_aer": "qiskit-aer"}


class Listed:
    """What a catalogue lists: a class that says what it needs.

    Class attributes
    ----------------
    requires : import names of the packages it needs
    extra : the pip extra of dualflow that brings them, or None
    """

    requires: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str | None] = None

    @classmethod
    def missing(cls) -> list[str]:
        """Required packages that are not installed."""
        return [package for package in cls.requires if importlib.util.find_spec(package) is None]

    @classmethod
    def install(cls) -> str | None:
        """The pip line that brings what is missing, or None if nothing is."""
        if not cls.missing():
            return None
        packages = (_PIP.get(package, package) for package in cls.requires)
        return f"pip install 'dualflow[{cls.extra}]'" if cls.extra else f"pip install {' '.join(packages)}"

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]


ListedT = TypeVar("ListedT", bound=Listed)


class Catalogue(Generic[ListedT]):
    """Names of one kind of thing.

    Parameters
    ----------
    base : type
        What every class of the catalogue is a subclass of; its name in small letters is what the things are called.
    targets : dict of str to str
        Name to "module:Class", in the order of lists. A name may have blanks: "pennylane:<device>" is any name that
        starts with "pennylane:" and goes on; such lines are for use, and not listed.
    unknown : type
        The error that a name is not known.
    """

    def __init__(self, base: type[ListedT], targets: Mapping[str, str], unknown: type[DualflowError]) -> None:
        self.base, self.targets, self.unknown = base, targets, unknown
        self.what = base.__name__.lower()

    def names(self) -> list[str]:
        """Every name without blanks: ours, then those of entry points, in their order."""
        return [name for name in self._all() if "<" not in name]

    def find(self, name: str) -> type[ListedT]:
        """The class behind a name.

        Raises
        ------
        DualflowError
            Nothing has that name (the error of this catalogue); the message lists the names and the nearest.
        SolverUnavailable
            Its module cannot be imported, or has no such class.
        ProblemError
            The name was read from a file, and is none of ours: code that a file names is not run.
        """
        if isinstance(name, Unconfirmed) and ("<" in name or name not in self.targets):
            name.refuse(self.what, "could run any code that is installed")
        # Looking up entry points takes as long as a small fit, so names of our own do without.
        target = _match(self.targets, name)
        if target is None:
            known = self._all()
            target = _match(known, name)
        if target is None:
            near = near_miss(name, known)
            raise self.unknown(f"{self.what}={name!r} is not known (there are {', '.join(known)}){near}")
        return self._load(name, target)

    def rows(self) -> Iterator[tuple[str, type[ListedT] | None, str | None]]:
        """Every name, its class (None if that cannot be imported), and what to do before it can be used, or None."""
        for name in self.names():
            try:
                cls = self.find(name)
            except SolverUnavailable as error:
                yield name, None, str(error)
            else:
                yield name, cls, cls.install()

    def check_installed(self, name: str, cls: type[ListedT]) -> None:
        """Raise `SolverUnavailable` with the pip line if something has no package it needs."""
        if line := cls.install():
            gone = ", ".join(cls.missing())
            raise SolverUnavailable(f"{self.what} {name!r} needs {gone}, which is not installed: {line}")

    def _all(self) -> dict[str, str]:
        """Name to target. Entry points cannot take a name of ours."""
        targets = dict(self.targets)
        for entry in entry_points(group=f"dualflow.{self.what}s"):
            targets.setdefault(entry.name, entry.value)
        return targets

    def _load(self, name: str, target: str) -> type[ListedT]:
        module, _, attribute = target.partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute, None)
        except Exception as error:  # the module may be anybody's
            heed(error)
            raise SolverUnavailable(f"{self.what} {name!r} could not be imported from {module}: {error}") from error
        if not (isinstance(found, type) and issubclass(found, self.base)):
            of = f"dualflow.{self.base.__name__}"
            raise SolverUnavailable(f"{self.what} {name!r}: {target} is not a subclass of {of}")
        return found


def _match(targets: Mapping[str, str], name: str) -> str | None:
    """The target of a name, by the name itself or by a line with blanks."""
    if name in targets:
        return targets[name]
    for line, target in targets.items():
        if "<" in line and re.fullmatch(".+".join(map(re.escape, re.split("<[^>]*>", line))), name):
            return target
    return None
