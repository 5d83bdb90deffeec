"""`Solution`, the result of a solve, with its cost, trajectory and progress records."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from .advice import advice_on
from .certificate import Answer, Certificate, certify, examined
from .decision import coefficients, decision_values
from .problem import DualProblem
from .runtime.arrays import is_same_array, packed, unpacked
from .runtime.threads import cached_property
from .shot_floor import sampled_excess
from .status import Status
from .summary import floors_of, summary_of

#: At a certified relative gap up to this, no refinement is run.
MAX_GAP_UNREFINED = 1e-10
#: Numbers of shots at which a running shot floor is computed.
FLOOR_COUNTS = 24
#: A shot floor below this is 0 up to rounding.
LEAST_FLOOR = 1e-16
#: Circuits contributed to a refined result if their own result has at most this excess, ...
MAX_EXCESS = 0.05
#: ... or at most this many times the excess of the optimum sampled with the same shots.
MAX_SAMPLED_EXCESSES = 3.0


@dataclass
class Cost:
    """Time, kernel evaluations and circuits of a solve.

    Attributes
    ----------
    wall_time_s : float
        Seconds from start to the raw result, without certificates and refinement.
    device_time_s : float
        Seconds of it spent waiting for a quantum device or its simulator.
    steps : int
        Steps of the driver's loop.
    kernel_columns : float
        Kernel entries evaluated, in columns of n.
    circuits, shots : int
        Circuits executed, and shots of all of them together (0 for exact distributions).
    qubits, depth, two_qubit_gates : int
        Of the largest circuit, as executed.
    success_probability : float or None
        Of the post-selection, if there is one.
    refine_time_s : float
        Seconds of the classical refinement, if requested.
    certify_time_s : float
        Seconds of certificates during the run.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> cost = solve(problem, "smo").cost
    >>> cost.steps > 0, cost.circuits, cost.shots
    (True, 0, 0)
    """

    wall_time_s: float = 0.0
    device_time_s: float = 0.0
    steps: int = 0
    kernel_columns: float = 0.0
    circuits: int = 0
    shots: int = 0
    qubits: int = 0
    depth: int = 0
    two_qubit_gates: int = 0
    success_probability: float | None = None
    refine_time_s: float = 0.0
    certify_time_s: float = 0.0

    @property
    def classical_time_s(self) -> float:
        """Seconds of `wall_time_s` not spent waiting for a device."""
        return max(0.0, self.wall_time_s - self.device_time_s)

    @property
    def classical_share(self) -> float:
        """`classical_time_s` as a fraction of `wall_time_s`."""
        return 1.0 if self.wall_time_s == 0 else self.classical_time_s / self.wall_time_s


@dataclass(frozen=True)
class Trajectory:
    """The states of a run, one row per step (row 0 is the start).

    Attributes
    ----------
    t : array of shape (k,)
        Flow time; the step count for solvers without one.
    alpha : array of shape (k, n)
    multiplier : array of shape (k,)
        ν of the solver if it has one (λ of Lotka-Volterra), else of the certificate; NaN without an equality.
    survivors : array of shape (k,)
        Number of variables above 1e-8 of the largest one.
    objective : array of shape (k,)
        f of the projection of the state, absolute.
    gap : array of shape (k,)
        Certified relative gap; NaN if there is none.
    shots : array of shape (k,)
        Shots of all circuits up to this state; 0 without circuits. Empty if they are not known.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> path = solve(problem, "lotka-volterra", trajectory=True).trajectory
    >>> path.alpha.shape == (len(path.t), 4), int(path.survivors[-1])
    (True, 2)
    >>> bool(path.gap[-1] <= 1e-6)
    True
    """

    t: NDArray
    alpha: NDArray
    multiplier: NDArray
    survivors: NDArray
    objective: NDArray
    gap: NDArray
    shots: NDArray = field(default_factory=lambda: np.zeros(0))

    def plot(self, ax: Any = None, **options: Any) -> Any:
        """Draw it with matplotlib, and return a `TrajectoryDisplay`; its ``plot`` lists parameters and errors."""
        from ..displays.trajectory import TrajectoryDisplay

        return TrajectoryDisplay.from_trajectory(self, ax=ax, **options)


@dataclass(frozen=True)
class Progress:
    """The argument of a callback, which is called after each step.

    ``certificate`` is the latest one; solvers with cheap steps are not certified after each step. In a long run it is
    made anew so often that a sixth of the time goes into it.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> steps = []
    >>> solution = solve(problem, "gradient-flow", callback=lambda progress: steps.append(progress.step))
    >>> steps[:3], len(steps) == solution.cost.steps
    ([1, 2, 3], True)
    """

    step: int
    time: float
    alpha: NDArray
    certificate: Certificate
    wall_time_s: float


@dataclass(frozen=True)
class DirectResult:
    """The result of `Solver.solve_directly`, which solves a problem in one call, without the driver's loop.

    The driver certifies ``alpha``, and makes the `Solution`. If the certificate does not meet the tolerance, it starts
    a run. A result of dualflow's own solvers may bring its certificate, and is not certified again.

    Parameters
    ----------
    alpha : array of shape (n,)
        The result, feasible or not.
    strategy : str, default="direct"
        Name of the method, for ``provenance["strategy"]``.
    kernel_columns : float, default=0.0
        Kernel entries evaluated, in columns of n.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import DirectResult
    >>> DirectResult(np.array([0.0, 2.0])).strategy
    'direct'
    """

    alpha: NDArray
    strategy: str = "direct"
    kernel_columns: float = 0.0


class LeftOut:
    """Stands for the problem of a pickled model, or the indices of its points, which the pickle does not hold.

    Access to anything but ``n``, the number of variables, raises a `ProblemError`.
    """

    def __init__(self, n: int = 0) -> None:
        self.n = n

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Any:
        return self[0]

    def __getitem__(self, item: Any) -> Any:
        raise ProblemError(
            "the training data are not in this model: it was unpickled, and a pickle holds what predictions and "
            "certificates need. Call keep_training_data() on the fitted model before it is pickled (also to a process "
            "of joblib), write it with save and read it with dualflow.load, or fit it again"
        )


@dataclass(frozen=True, eq=False)
class Solution:
    """A solved (or interrupted) dual problem.

    The driver makes the certificates it needs. Others, and those of a solution read from a file, are made from problem
    and α at first access.

    Parameters
    ----------
    ended, raw_ended : Status
        How the run ended, apart from its certificates.
    tol : float
        Certified relative gap up to which a solution is OPTIMAL.
    certified, raw_certified : Certificate, optional
        Those that exist already.

    Attributes
    ----------
    alpha : array of shape (n,)
        The solution: refined if requested, else the projection of `raw_alpha`.
    raw_alpha : array of shape (n,)
        α of the solver's final state, unchanged.
    certificate, raw_certificate : Certificate
        Of `alpha` and of `raw_alpha`; the same object without a refinement.
    refined : bool
    support : array of int
        Indices of the variables with weight.
    bias : float
        b of the decision function, from `certificate`.
    status, raw_status : Status
        Of `alpha`, and of the solver's own result.
    witness : array of shape (n,) or None
        With status NOT_SEPARABLE: v ≥ 0, yᵀv = 0, 1ᵀv = 1 and vᵀQv = 0 up to round-off.
    trajectory : Trajectory or None
    cost : Cost
    provenance : dict
        Versions, solver, options, seed, device, job ids.
    extras : dict of arrays
        Labelled classical by-products, such as ``parameter_alpha``; shown, never ranked. If a limit left no time for a
        certificate, ``certificate_s`` is an estimate of the seconds that one takes.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem)
    >>> solution.status.name, solution.support, round(solution.bias, 6)
    ('OPTIMAL', array([1, 2]), -3.0)
    >>> print(solution.status.value)
    The certified relative gap is within the tolerance.
    """

    problem: DualProblem
    alpha: NDArray
    raw_alpha: NDArray
    refined: bool
    support: NDArray
    ended: Status
    raw_ended: Status
    tol: float
    cost: Cost
    witness: NDArray | None = None
    trajectory: Trajectory | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    extras: dict[str, NDArray] = field(default_factory=dict)
    # A factory, since a plain default would be a class attribute, and `__getattr__` would not be called for it.
    certified: Certificate | None = field(default_factory=lambda: None, repr=False)
    raw_certified: Certificate | None = field(default=None, repr=False)

    #: Solves a problem classically, for `summary`; the driver, which is in a higher layer, sets it.
    solve_classically: ClassVar[Any] = None
    #: The direct result behind the solution; None if it has none, or is a copy.
    direct_result: ClassVar[Any] = None

    # A solution of a direct result is made by `driver.solve` with ``made`` in its ``__dict__``: field ``name`` is then
    # ``made.name``, computed at first access. A copy or a pickle holds the fields alone. A fit accesses few of them.

    def __getattr__(self, name: str) -> Any:
        if name not in _FIELDS or "made" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self.__dict__.setdefault(name, getattr(self.__dict__["made"], name))

    @cached_property
    def certificate(self) -> Certificate:
        """The certificate of `alpha`."""
        if self.certified is not None:
            return examined(self.problem, self.certified)
        # Of `raw_alpha`, so that it has its distance from the feasible set; its projection is `alpha`.
        return certify(self.problem, self.alpha if self.refined else self.raw_alpha)

    @cached_property
    def raw_certificate(self) -> Certificate:
        """The certificate of `raw_alpha`."""
        if not self.refined:
            return self.certificate
        if self.raw_certified is None:
            return certify(self.problem, self.raw_alpha)
        return examined(self.problem, self.raw_certified, self.certificate.psd)

    @property
    def provisional(self) -> Certificate:
        """The certificate before the spectrum of Q is examined, where a fit left that to `certificate`.

        Its α, bias and radius are those of `certificate`; whether it has a gap may differ.
        """
        return self.certificate if self.certified is None else self.__dict__.get("certificate", self.certified)

    @property
    def answer(self) -> Answer | Certificate:
        """The numbers of the certificate that a model is read from. A direct result has them without a certificate."""
        return self.provisional if self.direct_result is None else self.direct_result.answer

    @property
    def provisional_status(self) -> Status:
        """The `status` by the `provisional` certificate."""
        return _certified_status(self.ended, self.provisional, self.tol)

    def without_problem(self) -> Solution:
        """Return the solution with its certificate, without the training data; access to them is a `ProblemError`."""
        left_out: Any = self.problem if isinstance(self.problem, LeftOut) else LeftOut(self.problem.n)
        known = None if self.raw_certified is None else self.raw_certificate
        known = self.__dict__.get("raw_certificate", known)
        return replace(self, problem=left_out, certified=self.certificate, raw_certified=known)

    def __getstate__(self) -> dict[str, Any]:
        if "made" in self.__dict__:
            return replace(self).__getstate__()
        # None stands for the array before it: `alpha` may be that of the certificate, and `raw_alpha` may be `alpha`.
        before = None if self.certified is None else self.certified.alpha
        alpha = None if is_same_array(self.alpha, before) else packed(self.alpha)
        raw_alpha = None if is_same_array(self.raw_alpha, self.alpha) else packed(self.raw_alpha)
        is_found = is_same_array(self.support, np.flatnonzero(self.alpha))
        support = None if is_found else self.support.astype(np.min_scalar_type(len(self.alpha)))
        return self.__dict__ | {"alpha": alpha, "raw_alpha": raw_alpha, "support": support}

    def __setstate__(self, state: dict[str, Any]) -> None:
        alpha = state["certified"].alpha if state["alpha"] is None else unpacked(state["alpha"])
        raw_alpha = alpha if state["raw_alpha"] is None else unpacked(state["raw_alpha"])
        support = np.flatnonzero(alpha) if state["support"] is None else state["support"].astype(np.intp)
        self.__dict__.update(state, alpha=alpha, raw_alpha=raw_alpha, support=support)

    @property
    def status(self) -> Status:
        """The status of `alpha`."""
        return _certified_status(self.ended, self.certificate, self.tol)

    @property
    def raw_status(self) -> Status:
        """The status of `raw_alpha`, the solver's own result."""
        return _certified_status(self.raw_ended, self.raw_certificate, self.tol)

    @property
    def bias(self) -> float:
        """b of the decision function."""
        return self.answer.bias

    @property
    def coefficients(self) -> NDArray:
        """Weight of each point of the Gram in the decision function of `alpha`, shape (gram.n,)."""
        return coefficients(self.problem, self.answer)

    def decision_values(self, Z: ArrayLike) -> NDArray:
        """Return the decision function of `alpha` at new points Z of shape (k, m): shape (k,)."""
        return decision_values(self.problem, self.answer, Z)

    @property
    def raw_excess(self) -> float:
        """Excess (f_raw − f)/|f| of the solver's own result over the refined one; 0 without a refinement."""
        if not self.refined:
            return 0.0
        f, raw = self.certificate.objective, self.raw_certificate.objective
        return float(raw - f) / max(abs(float(f)), 1e-300)

    @property
    def ran_circuits(self) -> bool:
        """Whether circuits were run on a device or its simulator."""
        return self.cost.circuits > 0

    @property
    def shows_circuits(self) -> bool:
        """Whether `alpha` comes from circuits, or is refined and they contributed to it.

        They contributed unless their own result is NOISE_DOMINATED, or its excess is above 5 % and above 3 times the
        excess of the optimum sampled with the same shots.
        """
        if not self.ran_circuits or not self.refined:
            return self.ran_circuits
        excess = self.raw_excess
        if self.raw_ended is Status.NOISE_DOMINATED or excess <= MAX_EXCESS:
            return self.raw_ended is not Status.NOISE_DOMINATED
        if self.cost.shots == 0:
            return False
        return excess <= MAX_SAMPLED_EXCESSES * sampled_excess(self.problem, self.alpha, self.cost.shots)

    @property
    def advice(self) -> str:
        """Advice for a solution that does not meet its tolerance; empty if there is nothing to be done.

        It depends on what limited the run: the device, its noise, a budget, a limit, the shots, the ansatz or the
        solver's steps. Shots limited it if the gap grows when `alpha` is sampled with a quarter of them; this test
        takes 11 certificates.

        Examples
        --------
        >>> from dualflow import Gram, problems, solve
        >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
        >>> solve(problem, "gradient-flow", max_steps=1).advice
        'Raise max_steps or time_limit, scale the features, or lower C.'
        >>> solve(problem).advice
        ''
        """
        if self.status in (Status.OPTIMAL, Status.NOT_SEPARABLE, Status.BROKEN) or self.certificate.gap is None:
            return ""
        shots, steps = self.cost.shots, self.cost.steps
        return advice_on(self.problem, self.certificate, self.ended, self.ran_circuits, shots, steps, self.provenance)

    def provenance_as_arguments(self) -> dict[str, Any]:
        """Return the keywords of `solve` that repeat this solution of its problem, to the bit on the same machine.

        Small pairs of more than two classes (``provenance["strategy"]`` is "batch") share kernel values, which are
        computed about the mean of all classes: `solve` repeats such a pair to the tolerance, a second fit to the bit.

        Raises
        ------
        ProblemError
            The provenance lacks some of them: a stream made the solution, or ``random_state`` was a generator.

        Examples
        --------
        >>> from dualflow import Gram, problems, solve
        >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
        >>> solution = solve(problem, refine=True)
        >>> solution.provenance_as_arguments()["solver"], solution.provenance["strategy"]
        ('working-set', 'direct')
        >>> bool((solve(problem, **solution.provenance_as_arguments()).alpha == solution.alpha).all())
        True
        """
        provenance = self.provenance
        keys = {"options", "seed", "refine", "max_steps"}
        if not keys <= provenance.keys() or isinstance(provenance["seed"], str):
            raise ProblemError(
                "the provenance does not say what repeats this solution: a stream or an older version made it, or its "
                "random_state was a generator; give solve an integer as random_state for one that can be repeated"
            )
        given = {"refine": provenance["refine"], "tol": self.tol, "max_steps": provenance["max_steps"]}
        return {"solver": provenance["solver"], **provenance["options"], **given, "random_state": provenance["seed"]}

    def summary(self, reference: Solution | None = None) -> str:
        """Return the result in words: gap, excess over the best known objective, shot floor, and which one to read.

        Parameters
        ----------
        reference : Solution, optional
            Another solution of the same problem, which gives the best known objective. By default the refined answer,
            or else a classical solve, which takes as long as ``solve(problem)``.

        Returns
        -------
        str
            One line for each number, with its meaning, and a last sentence that says which number to read. The floors
            of a sampled run are medians over 11 draws of the best known answer, measured with all shots of the run.

        Raises
        ------
        ProblemError
            ``reference`` is of a problem with another number of variables, or this solution has lost its problem.

        Examples
        --------
        >>> from dualflow import Gram, problems, solve
        >>> problem = problems.svdd(Gram([[0.0, 0.1], [1.0, 0.3], [0.2, 2.0], [3.0, 1.0]], gamma=0.5))
        >>> found = solve(problem, "variational-flow", device="emulator", shots=1000, random_state=0)
        >>> print(found.summary())
        variational-flow on emulator: The solver finished; the certified relative gap is above the tolerance.
          raw gap          ...
          excess           ...
          floor of excess  ...
        """
        if isinstance(self.problem, LeftOut):
            self.problem.gram  # noqa: B018 - raises the error that says how to keep the data
        if reference is None and not self.refined and not self._needs_reference:
            return summary_of(self, None, "")
        return summary_of(self, *self._best_known(reference))

    def convergence(self, reference: Solution | None = None) -> tuple[NDArray, float]:
        """Return the excess of each recorded state over the best known objective, and the shot floor.

        Parameters
        ----------
        reference : Solution, optional
            As for `summary`.

        Returns
        -------
        excess : array of shape (k,)
            (f − f*)/|f*| of the projection of each state in `trajectory`, at least 0.
        floor : float
            Median excess over 11 draws of the best known answer, measured with all shots of the run; NaN without shots.

        Raises
        ------
        ProblemError
            There is no trajectory, ``reference`` is of a problem with another number of variables, or no reference is
            known.

        Examples
        --------
        >>> from dualflow import Gram, problems, solve
        >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
        >>> excess, floor = solve(problem, "gradient-flow", trajectory=True).convergence()
        >>> bool(excess[0] > excess[-1]), floor
        (True, nan)
        """
        path, best = self._recorded(reference)
        floors = floors_of(self, best)
        excess = np.maximum(path.objective - best.objective, 0.0) / abs(best.objective)
        return excess, math.nan if floors is None else floors[0]

    def running_floor(self, reference: Solution | None = None) -> NDArray:
        """Return the shot floor of `convergence` by the shots spent up to each recorded state, shape (k,).

        Where a run has many states it is computed at 24 numbers of shots, and interpolated as a power of them between.
        It is NaN before the first shot and for a run without shots. Parameters and errors are those of `convergence`.

        Examples
        --------
        >>> from dualflow import Gram, problems, solve
        >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
        >>> options = {"device": "emulator", "shots": 1000, "random_state": 0}
        >>> run = solve(problem, "variational-flow", trajectory=True, **options)
        >>> floor = run.running_floor()
        >>> bool(floor[0] > 10 * floor[-1]), bool(floor[-1] == run.convergence()[1])
        (True, True)
        """
        path, best = self._recorded(reference)
        shots = path.shots
        counts = np.unique(shots[shots > 0]).astype(int)
        if len(counts) > FLOOR_COUNTS:
            wanted = np.geomspace(counts[0], counts[-1], FLOOR_COUNTS)
            counts = counts[np.unique(np.searchsorted(counts, wanted.round()).clip(max=len(counts) - 1))]
        found = [floors_of(self, best, int(count)) for count in counts]
        floors = np.array([np.nan if one is None else one[0] for one in found])
        if not len(floors) or np.isnan(floors).any():
            return np.full(len(path.t), np.nan)
        with np.errstate(divide="ignore"):
            between = np.exp(np.interp(np.log(shots), np.log(counts), np.log(np.maximum(floors, LEAST_FLOOR))))
        return np.where(shots > 0, between, np.nan)

    def _recorded(self, reference: Solution | None) -> tuple[Trajectory, Certificate]:
        """Return the trajectory and the certificate of the best known answer; raise `ProblemError` without either."""
        if self.trajectory is None:
            raise ProblemError("the solution has no trajectory; solve with trajectory=True")
        best, _ = self._best_known(reference)
        if best is None or not best.objective:
            raise ProblemError("no reference is known to measure the excess from: give reference=")
        return self.trajectory, best

    def _best_known(self, reference: Solution | None) -> tuple[Certificate | None, str]:
        """Return the certificate of the best known answer and its source: a reference, the refinement, or a new solve.

        The certificate is None if this solution cannot be solved again.
        """
        if reference is not None:
            if len(reference.alpha) != self.problem.n:
                raise ProblemError(
                    f"reference has {len(reference.alpha)} variables, this solution {self.problem.n}: give one of the "
                    "same problem"
                )
            return reference.certificate, reference.provenance.get("solver", "the reference")
        if self.refined:
            return self.certificate, "the refinement"
        if self.solve_classically is None:
            return None, ""
        found = self.solve_classically(self.problem)
        return found.certificate, found.provenance.get("solver", "a classical solver")

    @property
    def _needs_reference(self) -> bool:
        """Whether the gap alone does not show how good the answer is: it is of circuits, or above its tolerance."""
        return self.ran_circuits or self.raw_status not in (Status.OPTIMAL, Status.NOT_SEPARABLE)

    def raw_summary(self) -> str:
        """Return a line on the solver's own result, and on the refinement if there was one.

        Examples
        --------
        >>> from dualflow import Gram, problems, solve
        >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
        >>> print(solve(problem, "frank-wolfe", max_steps=3, refine=True).raw_summary())
        refined by the classical active-set method; frank-wolfe's own answer: STEP_LIMIT, excess ...
        """
        name = self.provenance.get("solver", "the solver")
        if not self.refined:
            if not self.ran_circuits:
                return f"the answer of {name} itself"
            gap, how = self.certificate.relative_gap, self.provenance.get("method")
            known = "no certified gap" if gap is None else f"relative gap {gap:.3g}"
            return f"the circuits' own answer: {self.status.name}, {known}" + (f"; {how}" if how else "")
        size, weight = len(self.support), np.abs(self.raw_alpha)
        largest = np.argsort(-weight, kind="stable")[:size]
        right = int(np.isin(largest, self.support).sum())
        whose = "the circuits' own answer" if self.ran_circuits else f"{name}'s own answer"
        return (
            f"refined by the classical active-set method; {whose}: {self.raw_status.name}, excess "
            f"{self.raw_excess:.3g} of the optimum, support vectors {right} of {size} right"
        )

    def __repr__(self) -> str:
        raw = f"; {self.raw_summary()}" if self.refined and self.ran_circuits else ""
        return (
            f"Solution({self.provenance.get('solver', '?')}, {self.status.name}, {len(self.support)} support "
            f"vectors of {self.problem.n}, {self.certificate}{raw})"
        )


_FIELDS = frozenset(f.name for f in fields(Solution))


def raw_summaries(solutions: Iterable[Any]) -> tuple[str, ...]:
    """Return the `Solution.raw_summary` of all solutions from circuits, without repetitions, to show with a model."""
    return tuple(dict.fromkeys(s.raw_summary() for s in solutions if isinstance(s, Solution) and s.ran_circuits))


def _certified_status(ended: Status, certificate: Certificate, tol: float) -> Status:
    """Return the status of a result, from how the run ended and its certificate."""
    if ended in (Status.BROKEN, Status.NOT_SEPARABLE):
        return ended
    if certificate.gap is None and ended in (Status.OPTIMAL, Status.FINISHED):
        return Status.STATIONARY  # the run presumed a matrix that is positive semidefinite
    if not certificate.reaches(tol):
        return Status.FINISHED if ended is Status.OPTIMAL else ended
    if ended is not Status.OPTIMAL and not certificate.is_near_feasible(tol):
        return ended
    return Status.OPTIMAL if certificate.within(tol) else Status.ROUNDED
