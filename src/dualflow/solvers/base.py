"""What a solver is: a frozen dataclass of options with four methods; the driver owns every loop."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..exceptions import SolverMismatch, SolverUnavailable

__all__ = ["BOUNDED", "EVERY_CONVEX", "Solver", "generator", "generator_state"]

#: Kinds with a finite optimum whatever the data, apart from least squares.
BOUNDED = frozenset({Kind.BOX_EQUALITY, Kind.BOX, Kind.SIMPLEX, Kind.CAPPED_SIMPLEX})
#: Every kind with lower bounds.
EVERY_CONVEX = BOUNDED | {Kind.ORTHANT_EQUALITY, Kind.ORTHANT}


@dataclass(frozen=True)
class Solver:
    """Base class of solvers. Subclasses are frozen dataclasses; their fields are their options.

    A state is a frozen dataclass of arrays and numbers (and the *state* of a random generator, see `generator`),
    so that the driver can save it, resume it, and throw a half-finished step away on Ctrl-C. `step` therefore
    returns a new state and never changes the one it was given. Fields of a state that are rebuilt by `start`
    and need not be saved carry ``field(metadata={"saved": False})``.

    Class attributes
    ----------------
    name : the name users type
    kinds : the feasible sets it can solve
    accuracy : "exact" (relative gap ≤ 1e-8), "iterative" (≤ 1e-4) or "sampled" (≤ 3 × the shot floor)
    maturity : "solver" or "study"; comparisons leave studies out unless asked
    requires, extra : import names it needs, and the pip extra that brings them (None: the core install)
    max_n : most variables it takes, or None
    interruptible : False where one library call does everything
    needs_psd : whether Q must be positive semidefinite
    quantum : whether it runs circuits, and so has a ``device`` option
    stochastic : whether it draws random numbers; where not, `start` must not use the generator it is given
    certify_every : steps between the driver's certificates
    default_max_steps : the driver's step limit unless the user sets one
    """

    name: ClassVar[str] = ""
    kinds: ClassVar[frozenset[Kind]] = frozenset()
    accuracy: ClassVar[str] = "iterative"
    maturity: ClassVar[str] = "solver"
    requires: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str | None] = None
    max_n: ClassVar[int | None] = None
    interruptible: ClassVar[bool] = True
    needs_psd: ClassVar[bool] = True
    quantum: ClassVar[bool] = False
    stochastic: ClassVar[bool] = True
    certify_every: ClassVar[int] = 1
    default_max_steps: ClassVar[int] = 1000

    # --- the four methods a solver must have ---------------------------------------------------

    def start(self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None) -> Any:
        """First state; ``warm`` is a feasible α of shape (n,) to start from, or None."""
        raise NotImplementedError

    def step(self, problem: DualProblem, state: Any) -> Any:
        """Next state; must not change the given one."""
        raise NotImplementedError

    def alpha(self, state: Any) -> NDArray:
        """The state read as α, shape (n,); exactly what was found or measured, feasible or not."""
        raise NotImplementedError

    def finished(self, state: Any) -> bool:
        """Whether the solver has come to rest by its own criterion."""
        raise NotImplementedError

    def blank(self, problem: DualProblem) -> Any:
        """A state for a checkpoint to fill; solvers whose `start` costs something (a circuit) override it."""
        return self.start(problem, np.random.default_rng(0), None)

    # --- what it may add -----------------------------------------------------------------------

    def time(self, state: Any) -> float | None:
        """Flow time of a state, or None to count steps."""
        return None

    def multiplier(self, state: Any) -> float | None:
        """The solver's own multiplier ν (sign as in ρ = Qα − p − νe), or None."""
        return None

    def cost(self, state: Any) -> dict[str, float | int | None]:
        """Fields of `Cost` that only the solver knows: circuits, shots, device_time_s, …"""
        return {}

    def extras(self, state: Any) -> dict[str, NDArray]:
        """Labelled classical by-products such as ``parameter_alpha``."""
        return {}

    def provenance(self, state: Any) -> dict[str, Any]:
        """What else a reader needs to repeat the run: device, job ids."""
        return {}

    def drowned(self, state: Any) -> bool:
        """Whether noise has made what was measured in a state as good as uniform."""
        return False

    def aim(self, tol: float) -> Self:
        """This solver with the options that were left open set for a certified relative gap of ``tol``."""
        return self

    def to_be_refined(self) -> Self:
        """This solver for a run whose answer the refinement takes over: it may rest earlier."""
        return self

    def accuracy_class(self) -> str:
        """`accuracy` for these options (a quantum solver with shots is "sampled")."""
        return self.accuracy

    # --- shared by all -------------------------------------------------------------------------

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Construct from keyword options; an unknown one is a TypeError that names the near miss."""
        known = [f.name for f in fields(cls) if f.init]
        for option in options:
            if option not in known:
                near = difflib.get_close_matches(option, known, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                has = f"its options are {', '.join(known)}" if known else "it has no options"
                raise TypeError(f"solver {cls.name!r} has no option {option!r}{hint} ({has})")
        return cls(**options)

    @classmethod
    def missing(cls) -> list[str]:
        """Required packages that are not installed."""
        return [package for package in cls.requires if importlib.util.find_spec(package) is None]

    @classmethod
    def check_installed(cls) -> None:
        """Raise `SolverUnavailable` with the pip line if a package is missing."""
        if gone := cls.missing():
            line = f"pip install 'dualflow[{cls.extra}]'" if cls.extra else "pip install " + " ".join(gone)
            raise SolverUnavailable(f"solver {cls.name!r} needs {', '.join(gone)}, which is not installed: {line}")

    def mismatch(self, problem: DualProblem) -> str | None:
        """Why this solver cannot solve the problem, or None if it can."""
        if problem.kind not in self.kinds:
            can = ", ".join(sorted(kind.value for kind in self.kinds))
            return f"{self.name!r} does not solve problems of kind {problem.kind.value!r} (it solves: {can})"
        if self.max_n is not None and problem.n > self.max_n:
            return f"{self.name!r} takes at most {self.max_n} variables, the problem has {problem.n}; try 'working-set'"
        if self.needs_psd and problem.psd.kind == "indefinite":
            return f"{self.name!r} needs a positive semidefinite Q; this one is {problem.psd}"
        return None

    def check(self, problem: DualProblem) -> None:
        """Raise `SolverMismatch` if this solver cannot solve the problem."""
        if reason := self.mismatch(problem):
            raise SolverMismatch(reason)


def generator_state(rng: np.random.Generator) -> dict[str, Any]:
    """The state of a random generator as plain data, to be kept in a solver's state."""
    return dict(rng.bit_generator.state)


def generator(state: Mapping[str, Any]) -> np.random.Generator:
    """A fresh generator that continues from `generator_state`."""
    bit_generator = getattr(np.random, state["bit_generator"])()
    bit_generator.state = dict(state)
    return np.random.Generator(bit_generator)
