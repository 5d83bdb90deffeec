"""Catalogues of solvers and devices: names to classes, which are imported when they are used.

Other packages add classes by entry points of the group "dualflow.solvers" or "dualflow.devices".
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import entry_points
from typing import ClassVar, Generic, TypeVar

from .exceptions import DualflowError, SolverUnavailable, did_you_mean, raise_interrupt
from .persistence.unconfirmed import Unconfirmed

#: The solvers of this package: name to "module:Class", in the order in which they are listed.
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
    "quantum-interior-point": "dualflow.quantum.solvers.quantum_interior_point:QuantumInteriorPoint",
    "variational-flow": "dualflow.quantum.solvers.variational_flow:VariationalFlow",
    "variational-dqc": "dualflow.quantum.solvers.variational_dqc:VariationalDQC",
    "variational-lotka-volterra": "dualflow.quantum.solvers.variational_lotka_volterra:VariationalLotkaVolterra",
    "hamiltonian-descent": "dualflow.quantum.solvers.hamiltonian_descent:HamiltonianDescent",
    "hamiltonian-adiabatic": "dualflow.quantum.solvers.hamiltonian_adiabatic:HamiltonianAdiabatic",
}

#: Names for pip of packages that are imported by another name.
_PIP = {"pennylane_lightning": "pennylane-lightning", "qiskit_aer": "qiskit-aer"}


class CatalogueEntry:
    """Base class of what a catalogue lists: a class that declares the packages it needs.

    Class attributes
    ----------------
    requires : tuple of str
        Import names of the packages it needs.
    extra : str or None
        The pip extra of dualflow that installs them.
    """

    requires: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str | None] = None

    @classmethod
    def missing(cls) -> list[str]:
        """Return the required packages that are not installed."""
        return [package for package in cls.requires if importlib.util.find_spec(package) is None]

    @classmethod
    def install(cls) -> str | None:
        """Return the pip line that installs what is missing, or None if nothing is."""
        if not cls.missing():
            return None
        packages = (_PIP.get(package, package) for package in cls.requires)
        return f"pip install 'dualflow[{cls.extra}]'" if cls.extra else f"pip install {' '.join(packages)}"

    @classmethod
    def summary(cls) -> str:
        """Return the first line of the docstring."""
        return (cls.__doc__ or "").strip().partition("\n")[0]


#: The beginning of a word of a name is recognised from this many characters on.
MIN_WORD_CHARS = 3

ListedT = TypeVar("ListedT", bound=CatalogueEntry)


class Catalogue(Generic[ListedT]):
    """The classes of one kind, by name.

    Parameters
    ----------
    base : type
        Base class of all classes of the catalogue; its name in lower case is the word for them in messages.
    targets : dict of str to str
        Name to "module:Class", in the order in which they are listed. A name may be a pattern: "pennylane:<device>"
        matches any name that starts with "pennylane:" and continues. Patterns can be used but are not listed.
    unknown : type
        The error raised for an unknown name.
    """

    def __init__(self, base: type[ListedT], targets: Mapping[str, str], unknown: type[DualflowError]) -> None:
        self.base, self.targets, self.unknown = base, targets, unknown
        self.what = base.__name__.lower()

    def names(self) -> list[str]:
        """Return every name that is not a pattern: those of this package, then those of entry points."""
        return [name for name in self._all() if "<" not in name]

    def find(self, name: str) -> type[ListedT]:
        """Return the class of a name.

        Raises
        ------
        DualflowError
            The name is unknown (the catalogue's own error); the message lists the names and the most similar one.
        SolverUnavailable
            The module cannot be imported, or has no such class.
        ProblemError
            The name was read from a file and is not of this package: code that a file names is not run.
        """
        if isinstance(name, Unconfirmed) and ("<" in name or name not in self.targets):
            name.refuse(self.what, "could run any code that is installed")
        # Names of this package are found without entry points, whose look-up takes as long as a small fit.
        target = _match(self.targets, name)
        if target is None:
            known = self._all()
            target = _match(known, name)
        if target is None:
            suggestion = _with_word(str(name), known) or did_you_mean(str(name).lower(), known)
            raise self.unknown(f"{self.what}={name!r} is not known{suggestion} (there are {', '.join(known)})")
        return self._load(name, target)

    def rows(self) -> Iterator[tuple[str, type[ListedT] | None, str | None]]:
        """Yield every name, its class (None if it cannot be imported), and what must be installed first, or None."""
        for name in self.names():
            try:
                cls = self.find(name)
            except SolverUnavailable as error:
                yield name, None, str(error)
            else:
                yield name, cls, cls.install()

    def check_installed(self, name: str, cls: type[ListedT]) -> None:
        """Raise `SolverUnavailable` with the pip line if a package that the class needs is not installed."""
        if line := cls.install():
            missing = ", ".join(cls.missing())
            raise SolverUnavailable(f"{self.what} {name!r} needs {missing}, which is not installed: {line}")

    def _all(self) -> dict[str, str]:
        """Return all names with their targets. Entry points cannot replace a name of this package."""
        targets = dict(self.targets)
        for entry in entry_points(group=f"dualflow.{self.what}s"):
            targets.setdefault(entry.name, entry.value)
        return targets

    def _load(self, name: str, target: str) -> type[ListedT]:
        """Return the class at "module:Class"; `SolverUnavailable` if it cannot be imported or is no such class."""
        module, _, attribute = target.partition(":")
        try:
            # A look-up of an imported module takes a tenth of the time of an import of it.
            found = getattr(sys.modules.get(module), attribute, None)
            found = found or getattr(importlib.import_module(module), attribute, None)
        except Exception as error:  # a module of another package may raise any error
            raise_interrupt(error)
            raise SolverUnavailable(f"{self.what} {name!r} could not be imported from {module}: {error}") from error
        if not (isinstance(found, type) and issubclass(found, self.base)):
            base = f"dualflow.{self.base.__name__}"
            raise SolverUnavailable(f"{self.what} {name!r}: {target} is not a subclass of {base}")
        return found


def _with_word(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean …?" with the names of which a part begins with ``word``, or "" if there are none.

    So "lchs" suggests "hamiltonian-lchs", and "variational" every name of that family.
    """
    start = re.compile(rf"(^|[-:]){re.escape(word.lower())}")
    found = [repr(name) for name in known if len(word) >= MIN_WORD_CHARS and start.search(name)]
    if not found:
        return ""
    return f"; did you mean {' or '.join(filter(None, [', '.join(found[:-1]), found[-1]]))}?"


def _match(targets: Mapping[str, str], name: str) -> str | None:
    """Return the target of a name, by the name itself or by a pattern; None if there is none."""
    if name in targets:
        return targets[name]
    for line, target in targets.items():
        if "<" in line and re.fullmatch(".+".join(map(re.escape, re.split("<[^>]*>", line))), name):
            return target
    return None
