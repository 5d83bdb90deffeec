"""`Solver`, the base class of solvers: a frozen dataclass of options with four methods, which the driver calls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..catalogue import SOLVER_CLASSES, Catalogue, CatalogueEntry
from ..exceptions import SolverMismatch, did_you_mean
from .options import check_fields
from .problem import DualProblem, Kind
from .psd import REPAIR_HINT, SpectrumEvidence
from .runtime.deprecation import adopt_old_methods, old_method
from .solution import DirectResult
from .workspace import Workspace

#: Kinds with a finite optimum for any data, except least squares.
BOUNDED = frozenset({Kind.BOX_EQUALITY, Kind.BOX, Kind.SIMPLEX, Kind.CAPPED_SIMPLEX})
#: All kinds with lower bounds and at most one equality.
EVERY_CONVEX = BOUNDED | {Kind.ORTHANT_EQUALITY, Kind.ORTHANT}


#: Type of a run's context.
ContextT = TypeVar("ContextT")
#: Type of a run's states.
StateT = TypeVar("StateT")


@dataclass(frozen=True)
class Solver(CatalogueEntry, Generic[ContextT, StateT]):
    """Base class of solvers. Subclasses are frozen dataclasses; their fields are their options, each declared with its
    bounds (`core.options.option`).

    In a run, `open` makes the context, `start` the first state, and `step` each next one. The context holds what the
    run needs and no checkpoint saves: the workspace, a device, tables. A state is a frozen dataclass of type
    `state_type` that holds only arrays, numbers and the *state* of a random generator (`runtime.random`), so that the
    driver can save and resume it, and drop a half-finished step on Ctrl-C. `step` returns a new state and never changes
    the given one. The same problem and options must give the same context, so that a resumed run has the same bits.

    Attributes
    ----------
    state_type : the class of its states
    name : the name users type
    kinds : the feasible sets it can solve
    accuracy : "exact" (relative gap ≤ 1e-8), "iterative" (≤ 1e-4) or "sampled" (≤ 12 × the floor of all shots)
    reaches : in words, the relative gap it was seen to reach, if that says more than `accuracy`
    maturity : "solver" or "study"; comparisons leave studies out unless requested
    requires, extra : import names it needs, and the pip extra that installs them (None: the core install)
    max_n : most variables it supports, or None
    interruptible : False if one library call does all the work
    needs_psd : whether Q must be positive semidefinite
    quantum : whether it runs circuits, and so has a ``device`` option
    stochastic : whether it draws random numbers; if not, `start` must not use its generator
    whole : whether it works on the dense Q, which is then formed before any product
    merges_repeats : whether it solves repeated points as one variable (`core.repeats`)
    certify_every : steps between the driver's certificates
    default_max_steps : the driver's default step limit
    renamed : names by which users may look for an option, and the option's name
    classical_controls : values of its option ``control``, if it has one, that comparisons show beside it

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
    #: The instance with default options, made at first use, of each class.
    _default: ClassVar[Any]

    def __post_init__(self) -> None:
        check_fields(self)

    # --- the methods a solver must have; the last two read fields of the state by default ---------

    def start(self, context: ContextT, rng: np.random.Generator, warm: NDArray | None = None) -> StateT:
        """Return the first state; ``warm`` is a feasible α of shape (n,) to start from, or None."""
        raise NotImplementedError

    def step(self, context: ContextT, state: StateT) -> StateT:
        """Return the next state; the given one must not change."""
        raise NotImplementedError

    def alpha(self, state: StateT) -> NDArray:
        """Return α of a state, shape (n,), as it was found or measured, feasible or not; by default its ``alpha``."""
        alpha: NDArray = state.alpha  # type: ignore[attr-defined]
        return alpha

    def finished(self, state: StateT) -> bool:
        """Whether the solver has come to rest by its own criterion; by default the state's ``done``."""
        return bool(state.done)  # type: ignore[attr-defined]

    # --- optional methods ----------------------------------------------------------------------

    def solve_directly(self, problem: DualProblem, tol: float, refine: bool) -> DirectResult | None:
        """Solve a problem in one call, without a run.

        The driver tries this first, with the options as the user gave them, and counts it as one step.

        Parameters
        ----------
        problem : DualProblem
            Of a kind that this solver can solve; it must not change.
        tol : float
            Relative gap that the driver's certificate must show.
        refine : bool
            Whether a refinement would follow a run: then the gap must be at most 1e-10, or ``tol`` if that is less.

        Returns
        -------
        DirectResult or None
            None if a run is needed.
        """
        return None

    def open(self, problem: DualProblem, workspace: Workspace) -> ContextT:
        """Return the context of a run; by default the workspace."""
        if self.whole:
            workspace.dense()
        return workspace  # type: ignore[return-value]

    def time(self, state: StateT) -> float | None:
        """Return the flow time of a state, or None to count steps."""
        return None

    def multiplier(self, state: StateT) -> float | None:
        """Return the solver's own multiplier ν (sign as in ρ = Qα − p − νe), or None."""
        return None

    def gradient(self, context: ContextT, state: StateT) -> NDArray | None:
        """Return Qα − p of a state, shape (n,), exact or rough, or None; a refinement may start from it."""
        return None

    def primal(self, context: ContextT, state: StateT) -> NDArray | None:
        """Return the solver's own weights of the features, shape (m,), for a linear kernel, or None.

        A certificate uses them if they give a better bound than α.
        """
        return None

    def asks_for_certificate(self, state: StateT) -> bool:
        """Whether to certify a state before `certify_every` steps, because the run may end with it."""
        return False

    def is_exact(self, state: StateT) -> bool:
        """Whether a state is the optimum up to round-off, with bounds met exactly.

        If the certificate agrees, it is not refined.
        """
        return False

    def wants_whole(self, context: ContextT, state: StateT) -> bool:
        """Whether the rest of the run needs most of an expensive kernel matrix (`KeptGram.saves_if_many`).

        The certifier then computes it once, in float64, and the workspace has a float32 copy of it.
        """
        return False

    def shots_spent(self, state: StateT) -> int:
        """Return the shots of all circuits up to a state."""
        return 0

    def cost(self, context: ContextT, state: StateT) -> dict[str, Any]:
        """Return the fields of `Cost` that only the solver knows: circuits, shots, device_time_s, …"""
        return {}

    def extras(self, context: ContextT, state: StateT) -> dict[str, NDArray]:
        """Return labelled classical by-products such as ``parameter_alpha``."""
        return {}

    def provenance(self, context: ContextT, state: StateT) -> dict[str, Any]:
        """Return what else a reader needs to repeat the run: device, job ids."""
        return {}

    def is_noise_dominated(self, context: ContextT, state: StateT) -> bool:
        """Whether the measured outcomes of a state are dominated by noise: as good as uniform."""
        return False

    drowned = old_method("drowned", "is_noise_dominated")

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        adopt_old_methods(cls, drowned="is_noise_dominated")

    def aim(self, tol: float, hand_over: bool = False) -> Self:
        """Return the solver with its open options set for a certified relative gap of ``tol``.

        With ``hand_over`` it may stop earlier, when a refinement is faster.
        """
        return self

    def within(self, iterations: int) -> tuple[Self, int | None]:
        """Return the solver limited to this number of its iterations, and the driver's step limit for it.

        An iteration is a step unless the solver counts smaller units.
        """
        return self, iterations

    def accuracy_class(self) -> str:
        """Return `accuracy` for these options (a quantum solver with shots is "sampled")."""
        return self.accuracy

    # --- shared by all -------------------------------------------------------------------------

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Return a solver with keyword options; an unknown option is a TypeError with the most similar name."""
        # One immutable instance for all: the checks of its options take a visible part of the time of a small fit.
        if not options and cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
            if "_default" not in cls.__dict__:
                cls._default = cls()
            return cls._default
        known = [f.name for f in fields(cls) if f.init]
        for option in options:
            if option not in known:
                has = f"its options are {', '.join(known)}" if known else "it has no options"
                near = did_you_mean(cls.renamed.get(option, option), known)
                raise TypeError(f"solver {cls.name!r} has no option {option!r}{near} ({has})")
        return cls(**options)

    def mismatch(self, problem: DualProblem) -> str | None:
        """Return the reason why this solver cannot solve the problem, or None if it can."""
        if problem.kind not in self.kinds:
            can = ", ".join(sorted(kind.value for kind in self.kinds))
            found = f"{self.name!r} does not solve problems of kind {problem.kind.value!r} (it solves: {can})"
            found += f"; {problem.kind.value!r} is {problem.kind.meaning}"
            return f"{found}; {_way_out(problem, self.kinds, self.quantum)}"
        if self.max_n is not None and problem.n > self.max_n:
            other = _OF_KIND.get(problem.kind, "working-set")
            return f"{self.name!r} takes at most {self.max_n} variables, the problem has {problem.n}; try {other!r}"
        return None

    def check(self, problem: DualProblem, psd: SpectrumEvidence | None = None) -> None:
        """Raise `SolverMismatch` if this solver cannot solve the problem; ``psd`` is evidence on its Q, if known."""
        reason = self.mismatch(problem)
        if reason is None and self.needs_psd and (psd := psd or problem.psd).kind == "indefinite":
            reason = f"{self.name!r} needs a positive semidefinite Q; this one is {psd}. {REPAIR_HINT}"
        if reason:
            raise SolverMismatch(reason)


#: Solvers to suggest for the kinds that 'working-set' does not solve.
_OF_KIND = {Kind.AFFINE: "gradient-flow", Kind.TWO_EQUALITIES: "level-search"}
#: Quantum solvers to suggest, by kind; for other kinds a classical one is suggested.
_ON_CIRCUITS = {
    Kind.BOX: "variational-lotka-volterra",
    Kind.BOX_EQUALITY: "variational-lotka-volterra",
    Kind.CAPPED_SIMPLEX: "variational-lotka-volterra",
    Kind.SIMPLEX: "variational-flow",
}
#: Parameters that give a model another kind: by model, the kind and the setting.
_OTHER_KINDS = {
    "hinge": (Kind.SIMPLEX, "loss='squared_hinge'"),
    "squared_hinge": (Kind.BOX_EQUALITY, "loss='hinge'"),
    "svdd": (Kind.CAPPED_SIMPLEX, "nu below 1"),
    "soft_svdd": (Kind.SIMPLEX, "nu=None"),
}


def _way_out(problem: DualProblem, kinds: frozenset[Kind], quantum: bool) -> str:
    """Return advice: a parameter to set, or a solver to use instead."""
    other = _ON_CIRCUITS.get(problem.kind) if quantum else None
    use = other or _OF_KIND.get(problem.kind, "working-set")
    model = "soft_svdd" if problem.model == "svdd" and problem.kind is Kind.CAPPED_SIMPLEX else problem.model
    kind, setting = _OTHER_KINDS.get(model, (None, ""))
    return f"set {setting}, or use {use!r}" if kind in kinds else f"use {use!r}"


#: All solvers, by name; their modules are imported at first use.
SOLVERS: Catalogue[Solver[Any, Any]] = Catalogue(Solver, SOLVER_CLASSES, SolverMismatch)
