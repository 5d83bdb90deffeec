"""What a solver is: a frozen dataclass of options with four methods; the driver owns every loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..catalogue import SOLVER_CLASSES, Catalogue, Listed
from ..exceptions import SolverMismatch, near_miss
from .options import check_fields
from .problem import DualProblem, Kind
from .psd import SpectrumEvidence
from .runtime.random import generator, generator_state
from .solution import DirectResult
from .workspace import Workspace

__all__ = ["BOUNDED", "EVERY_CONVEX", "SOLVERS", "Solver", "generator", "generator_state"]

#: Kinds with a finite optimum whatever the data, apart from least squares.
BOUNDED = frozenset({Kind.BOX_EQUALITY, Kind.BOX, Kind.SIMPLEX, Kind.CAPPED_SIMPLEX})
#: Every kind with lower bounds.
EVERY_CONVEX = BOUNDED | {Kind.ORTHANT_EQUALITY, Kind.ORTHANT}


#: What a solver works with, and what it steps.
ContextT = TypeVar("ContextT")
StateT = TypeVar("StateT")


@dataclass(frozen=True)
class Solver(Listed, Generic[ContextT, StateT]):
    """Base class of solvers. Subclasses are frozen dataclasses; their fields are their options, each with its bounds
    beside it (`core.options.option`).

    A run: `open` makes the context, `start` the first state, `step` the next. A context is what a run works with and
    nobody saves: the workspace, a device, tables. A state is a frozen dataclass of the type `state_type`, of arrays,
    numbers and the *state* of a random generator (`core.seeds`) alone, so that the driver can save it, resume it,
    and throw a half-finished step away on Ctrl-C; `step` returns a new one and never changes the one it was given.
    With the same options the same problem gives the same context, so that a saved state goes on to the same bits.

    Attributes
    ----------
    state_type : the class of its states
    name : the name users type
    kinds : the feasible sets it can solve
    accuracy : "exact" (relative gap ≤ 1e-8), "iterative" (≤ 1e-4) or "sampled" (≤ 12 × the floor of all shots)
    reaches : in words, the relative gap it was seen to reach, where that says more than `accuracy`
    maturity : "solver" or "study"; comparisons leave studies out unless asked
    requires, extra : import names it needs, and the pip extra that brings them (None: the core install)
    max_n : most variables it takes, or None
    interruptible : False where one library call does everything
    needs_psd : whether Q must be positive semidefinite
    quantum : whether it runs circuits, and so has a ``device`` option
    stochastic : whether it draws random numbers; where not, `start` must not use the generator it is given
    whole : whether it works on the whole Q, which is then formed before any product
    merges_repeats : whether repeated points are made one variable before it starts (`core.repeats`)
    certify_every : steps between the driver's certificates
    default_max_steps : the driver's step limit unless the user sets one
    renamed : other names that an option may be looked for under, and its own
    classical_controls : words of its option ``control``, if it has one: what comparisons show beside it

    Examples
    --------
    >>> from dualflow import SMO, Solver
    >>> isinstance(SMO(), Solver), SMO.name, SMO.accuracy
    (True, 'smo', 'iterative')
    >>> sorted(kind.value for kind in SMO.kinds)[:2]
    ['box', 'box with equality']
    """

    state_type: ClassVar[type]
    name: ClassVar[str] = ""
    kinds: ClassVar[frozenset[Kind]] = frozenset()
    accuracy: ClassVar[str] = "iterative"
    reaches: ClassVar[str] = ""
    maturity: ClassVar[str] = "solver"
    max_n: ClassVar[int | None] = None
    interruptible: ClassVar[bool] = True
    needs_psd: ClassVar[bool] = True
    quantum: ClassVar[bool] = False
    stochastic: ClassVar[bool] = True
    whole: ClassVar[bool] = False
    merges_repeats: ClassVar[bool] = False
    certify_every: ClassVar[int] = 1
    default_max_steps: ClassVar[int] = 1000
    renamed: ClassVar[Mapping[str, str]] = {}
    classical_controls: ClassVar[tuple[str, ...]] = ()
    #: The one with usual options, of each class that was made so.
    _plain: ClassVar[Any]

    def __post_init__(self) -> None:
        check_fields(self)

    # --- the four methods a solver must have ---------------------------------------------------

    def start(self, context: ContextT, rng: np.random.Generator, warm: NDArray | None = None) -> StateT:
        """First state; ``warm`` is a feasible α of shape (n,) to start from, or None."""
        raise NotImplementedError

    def step(self, context: ContextT, state: StateT) -> StateT:
        """Next state; must not change the given one."""
        raise NotImplementedError

    def alpha(self, state: StateT) -> NDArray:
        """The state read as α, shape (n,); exactly what was found or measured, feasible or not."""
        raise NotImplementedError

    def finished(self, state: StateT) -> bool:
        """Whether the solver has come to rest by its own criterion."""
        raise NotImplementedError

    # --- what it may add -----------------------------------------------------------------------

    def solve_directly(self, problem: DualProblem, tol: float, refine: bool) -> DirectResult | None:
        """The optimum in one call, for a problem that needs no run: the driver tries this first, with these options as
        the user gave them, and counts it as one step.

        Parameters
        ----------
        problem : DualProblem
            Of a kind that this solver can solve; for reading only.
        tol : float
            Relative gap that the driver's certificate must show.
        refine : bool
            Whether a refinement would follow a run: then the gap must be 1e-10, if ``tol`` is not less.

        Returns
        -------
        DirectResult or None
            None where a run is the way.
        """
        return None

    def open(self, problem: DualProblem, workspace: Workspace) -> ContextT:
        """What a run works with; by default the workspace, which is the problem and what is kept of it."""
        if self.whole:
            workspace.dense()
        return workspace  # type: ignore[return-value]

    def time(self, state: StateT) -> float | None:
        """Flow time of a state, or None to count steps."""
        return None

    def multiplier(self, state: StateT) -> float | None:
        """The solver's own multiplier ν (sign as in ρ = Qα − p − νe), or None."""
        return None

    def gradient(self, context: ContextT, state: StateT) -> NDArray | None:
        """Qα − p of a state, shape (n,), if the solver knows it, however roughly: a refinement may start from it."""
        return None

    def primal(self, context: ContextT, state: StateT) -> NDArray | None:
        """Weights of the features of a state, shape (m,), if the kernel is linear and the solver has some of its own:
        a certificate takes them where they make a better bound than α."""
        return None

    def asks_for_certificate(self, state: StateT) -> bool:
        """Whether a state is worth a certificate out of turn, because the run may end with it."""
        return False

    def is_exact(self, state: StateT) -> bool:
        """Whether a state is the optimum up to round-off, bounds met exactly: where the certificate agrees, nothing is
        refined."""
        return False

    def wants_whole(self, context: ContextT, state: StateT) -> bool:
        """Whether from a state on most of a dear kernel matrix (`KeptGram.is_dear`) will be wanted, by the solver and
        by whoever refines and certifies: the workspace then has a copy in float32 of the certifier's, which is computed
        once for both."""
        return False

    def cost(self, context: ContextT, state: StateT) -> dict[str, Any]:
        """Fields of `Cost` that only the solver knows: circuits, shots, device_time_s, …"""
        return {}

    def extras(self, context: ContextT, state: StateT) -> dict[str, NDArray]:
        """Labelled classical by-products such as ``parameter_alpha``."""
        return {}

    def provenance(self, context: ContextT, state: StateT) -> dict[str, Any]:
        """What else a reader needs to repeat the run: device, job ids."""
        return {}

    def drowned(self, context: ContextT, state: StateT) -> bool:
        """Whether noise has made what was measured in a state as good as uniform."""
        return False

    def aim(self, tol: float, hand_over: bool = False) -> Self:
        """This solver with the options that were left open set for a certified relative gap of ``tol``, or to rest
        where a refinement is the faster way on."""
        return self

    def within(self, iterations: int) -> tuple[Self, int | None]:
        """This solver held to so many of its iterations, and the driver's step limit for it: a step is one, unless a
        solver counts finer than the driver does."""
        return self, iterations

    def accuracy_class(self) -> str:
        """`accuracy` for these options (a quantum solver with shots is "sampled")."""
        return self.accuracy

    # --- shared by all -------------------------------------------------------------------------

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Construct from keyword options; an unknown one is a TypeError that names the near miss."""
        # One object for all, as it is a value: to check it takes a part of a small fit.
        if not options and cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            if "_plain" not in cls.__dict__:
                cls._plain = cls()
            return cls._plain
        known = [f.name for f in fields(cls) if f.init]
        for option in options:
            if option not in known:
                has = f"its options are {', '.join(known)}" if known else "it has no options"
                near = near_miss(cls.renamed.get(option, option), known)
                raise TypeError(f"solver {cls.name!r} has no option {option!r}{near} ({has})")
        return cls(**options)

    def mismatch(self, problem: DualProblem) -> str | None:
        """Why this solver cannot solve the problem, or None if it can."""
        if problem.kind not in self.kinds:
            can = ", ".join(sorted(kind.value for kind in self.kinds))
            found = f"{self.name!r} does not solve problems of kind {problem.kind.value!r} (it solves: {can})"
            return f"{found}; {_way_out(problem, self.kinds, self.quantum)}"
        if self.max_n is not None and problem.n > self.max_n:
            other = _OF_KIND.get(problem.kind, "working-set")
            return f"{self.name!r} takes at most {self.max_n} variables, the problem has {problem.n}; try {other!r}"
        return None

    def check(self, problem: DualProblem, psd: SpectrumEvidence | None = None) -> None:
        """Raise `SolverMismatch` if this solver cannot solve the problem; ``psd`` is its evidence, if known."""
        reason = self.mismatch(problem)
        if reason is None and self.needs_psd and (psd := psd or problem.psd).kind == "indefinite":
            reason = f"{self.name!r} needs a positive semidefinite Q; this one is {psd}"
        if reason:
            raise SolverMismatch(reason)


#: Solvers by kind where 'working-set' is none.
_OF_KIND = {Kind.AFFINE: "gradient-flow", Kind.TWO_EQUALITIES: "level-search"}
#: Solvers on circuits, by kind; the affine kind is told 'gradient-flow', all others 'working-set' where none is wanted.
_ON_CIRCUITS = {
    Kind.BOX: "variational-lotka-volterra",
    Kind.BOX_EQUALITY: "variational-lotka-volterra",
    Kind.CAPPED_SIMPLEX: "variational-lotka-volterra",
    Kind.SIMPLEX: "variational-flow",
}
#: Parameters that make another kind of a model: by model, the kind and what to set.
_OTHER_KINDS = {
    "hinge": (Kind.SIMPLEX, "loss='squared_hinge'"),
    "squared_hinge": (Kind.BOX_EQUALITY, "loss='hinge'"),
    "svdd": (Kind.CAPPED_SIMPLEX, "nu below 1"),
    "soft_svdd": (Kind.SIMPLEX, "nu=None"),
}


def _way_out(problem: DualProblem, kinds: frozenset[Kind], quantum: bool) -> str:
    """What to set, or which solver to use instead."""
    other = _ON_CIRCUITS.get(problem.kind) if quantum else None
    use = other or _OF_KIND.get(problem.kind, "working-set")
    model = "soft_svdd" if problem.model == "svdd" and problem.kind is Kind.CAPPED_SIMPLEX else problem.model
    kind, setting = _OTHER_KINDS.get(model, (None, ""))
    return f"set {setting}, or use {use!r}" if kind in kinds else f"use {use!r}"


#: All solvers, by name; their modules are imported when they are used.
SOLVERS: Catalogue[Solver[Any, Any]] = Catalogue(Solver, SOLVER_CLASSES, SolverMismatch)
