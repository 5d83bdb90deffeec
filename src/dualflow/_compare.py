"""The main job: the same few points to every solver, everyone measured by the same certificate."""

from __future__ import annotations

import dataclasses
import difflib
import platform
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import problems as models
from ._solve import _check_limits, solve
from ._subsample import Subsample
from .core.certificate import Certificate, certify
from .core.kernels import Gram, KernelFunction
from .core.problem import DualProblem, Kind
from .core.solution import Solution, Status
from .core.support import support_set
from .exceptions import DualflowError, ProblemError, SolverUnavailable
from .registry import list_solvers, make_solver, solver_class, solver_names
from .report import Comparison, Row, Section
from .solvers import Solver

__all__ = ["PROBLEMS", "Comparison", "compare", "decision_values", "shot_floor"]

#: Problems that can be compared, with the heading of their section.
PROBLEMS = {
    "hinge": "C-SVM, hinge loss",
    "squared_hinge": "L2-SVM, squared hinge loss",
    "svdd": "Support vector data description",
}
REFERENCE = "cvxopt"
DEFAULT_DEVICES = ("aer", "pennylane:lightning.qubit")
CONTROLS = ("null", "classical-sampler")
#: Draws of the exact optimum whose median gap is the shot floor.
FLOOR_DRAWS = 9

_PACKAGES = ("dualflow", "numpy", "scipy", "scikit-learn", "cvxopt", "qiskit", "qiskit-aer", "pennylane")
_PREDICT_ROWS = 4096

ProgressCallback = Callable[[int, int, str], None]


@dataclass(frozen=True)
class _Entry:
    """One row to be: which solver, in which role, with which options, on which device."""

    name: str
    solver: str | Solver
    role: str
    options: dict[str, Any]
    device: str | None = None
    shots: int | None = None
    group: int = 0  # the same for all rows of one solver


@dataclass(frozen=True)
class _Task:
    """One section to be: a problem, and held-out points with the sign its decision should have."""

    name: str
    title: str
    problem: DualProblem
    Z: NDArray
    signs: NDArray


def compare(
    X: ArrayLike,
    y: ArrayLike,
    problems: str | Sequence[str] = ("hinge", "squared_hinge", "svdd"),
    solvers: Sequence[str | Solver] | None = None,
    max_n: int = 64,
    *,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    C: float = 1.0,
    nu: float | None = None,
    kernel: str | KernelFunction = "rbf",
    gamma: str | float = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    shots: int | None = 10_000,
    devices: Sequence[str] | None = None,
    controls: bool = True,
    studies: bool = False,
    inlier_class: Any = None,
    time_limit: float | None = None,
    random_state: int = 0,
    tol: float = 1e-6,
    progress: ProgressCallback | None = None,
) -> Comparison:
    """Put the same points to every solver and rank what each delivers by its certified raw gap.

    One subsample, stratified by class and drawn once, serves every section and solver. Each section is one
    problem with its own CVXOPT reference. A solver that does not apply, is not installed, runs out of time or
    fails is a row with the reason; none is dropped. Quantum solvers run on each device with ``shots``, once with
    exact distributions, and in two controls: a null device and a classical sampler in the device's place.

    Parameters
    ----------
    X : array of shape (n, m)
    y : array of shape (n,)
        Two labels of any type. In the two-class sections the larger one is +1.
    problems : sequence of {"hinge", "squared_hinge", "svdd"}
        "svdd" is trained on one class of the subsample and tells inliers from outliers on the held-out points of
        both.
    solvers : sequence of str or Solver, optional
        All of `list_solvers` by default. An instance of a quantum solver is one row on its own device, plus
        controls.
    max_n : int ≥ 2
        Points in the subsample, both classes together.
    X_test, y_test : arrays of shape (k, m) and (k,), optional
        Held-out points; the rest of X by default.
    C : float > 0
        scikit-learn's, for both losses; ``np.inf`` is the hard margin.
    nu : float in (0, 1], optional
        Of "svdd"; None is the hard ball.
    kernel, gamma, degree, coef0
        As for `Gram`. gamma="scale" is worked out once, on the subsample.
    shots : int ≥ 1 or None
        Per circuit; None for exact distributions throughout.
    devices : sequence of str, optional
        For quantum solvers; "aer" and "pennylane:lightning.qubit" by default.
    controls : bool
        Run the null device and the classical sampler too.
    studies : bool
        Include solvers of maturity "study". One named in ``solvers`` always runs.
    inlier_class : label, optional
        The class "svdd" describes; the smaller label by default.
    time_limit : float, optional
        Seconds a row. A solver that is one library call is not cut short.
    random_state : int ≥ 0
        Of the subsample, of every solver and of the shot floor.
    tol : float > 0
        Certified relative gap at which a run ends.
    progress : callable, optional
        Called as ``progress(rows done, rows in all, what comes next)``.

    Returns
    -------
    Comparison
        On Ctrl-C too: with what there is so far, and `Comparison.interrupted` set.

    Raises
    ------
    ProblemError
        Data or a parameter is unusable.
    SolverMismatch
        A name in ``solvers`` is not known.
    """
    names = _check_names(problems)
    _check_limits(tol, None, time_limit)
    random_state = _check_integer(random_state, "random_state", 0)
    max_n = _check_integer(max_n, "max_n", 2)
    shots = None if shots is None else _check_integer(shots, "shots", 1)
    entries = _plan(solvers, shots, devices, controls, studies)
    data = Subsample.split(X, y, X_test, y_test, max_n, random_state, inlier_class)
    gram = Gram(data.X, kernel, gamma=gamma, degree=degree, coef0=coef0)
    if gram.kernel == "precomputed":
        raise ProblemError("kernel='precomputed': a comparison draws a subsample of points; give data and a kernel")
    tasks = [_task(name, data, gram, C, nu) for name in names]
    run = _Run(shots, random_state, tol, time_limit, progress, total=len(entries) * len(tasks))
    sections = tuple(run.section(task, entries) for task in tasks)
    settings = {
        "problems": list(names),
        "training points": data.describe(data.y),
        "held-out points": data.describe(data.y_test),
        "+1 in the two-class sections": data.classes[1],
        "class described by svdd": data.inlier,
        "C": C,
        "nu": nu,
        "kernel": kernel if isinstance(kernel, str) else getattr(kernel, "__name__", "callable"),
        "gamma": gram.gamma if gram.kernel in ("rbf", "poly", "sigmoid") else None,
        "degree": degree if gram.kernel == "poly" else None,
        "coef0": coef0 if gram.kernel in ("poly", "sigmoid") else None,
        "shots per circuit": shots,
        "tol": float(tol),
        "time_limit": time_limit,
        "random_state": random_state,
    }
    return Comparison(sections, settings, _versions(), run.interrupted)


def decision_values(problem: DualProblem, certificate: Certificate, Z: ArrayLike) -> NDArray:
    """What a certified α says of new points Z of shape (k, m): values of shape (k,).

    "hinge": Σ σᵢαᵢk(z, xᵢ) + b. "squared_hinge": Σ σᵢaᵢ(k(z, xᵢ) + c), a = μ/(μᵀQμ) (Bauckhage 2). "svdd":
    R² − ‖φ(z) − Σ αᵢφ(xᵢ)‖² (Howell 23). Positive is the class of σ = +1, or inside.
    """
    Z = np.asarray(Z, dtype=float)
    gram, alpha = problem.gram, certificate.alpha
    weights = problem.sigma * alpha
    constant = certificate.bias
    if problem.model == "squared_hinge":
        quadratic = float(alpha @ problem.matvec(alpha))
        weights = weights / quadratic if quadratic > 0 else weights
        constant = problem.offset * float(weights.sum())
    elif problem.model == "svdd":
        constant = (certificate.radius or 0.0) ** 2 - float(alpha @ gram.matvec(alpha))
        weights = 2.0 * alpha
    elif problem.model != "hinge":
        raise ProblemError(f"no decision values for model {problem.model!r}; it is one of {', '.join(PROBLEMS)}")
    J = np.flatnonzero(weights)
    values = np.full(len(Z), constant)
    for start in range(0, len(Z), _PREDICT_ROWS):
        part = slice(start, start + _PREDICT_ROWS)
        values[part] += gram.cross(Z[part], J) @ weights[J]
        if problem.model == "svdd":
            values[part] -= gram.self_kernel(Z[part])
    return values


def shot_floor(problem: DualProblem, optimum: NDArray, shots: int, random_state: int = 0) -> float | None:
    """Relative gap of the exact optimum sampled with ``shots``: median over `FLOOR_DRAWS` draws.

    No measured state can be asked for more than a small multiple of it. Defined on the simplex, where α is a
    distribution; None elsewhere, and where no gap is certified.
    """
    if problem.kind not in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX) or not problem.psd.is_psd:
        return None
    rng = np.random.default_rng([random_state, shots])
    share = np.maximum(optimum, 0.0) / np.maximum(optimum, 0.0).sum()
    draws = rng.multinomial(shots, share, size=FLOOR_DRAWS) * (problem.d / shots)
    return float(np.median([certify(problem, draw).relative_gap for draw in draws]))


# --- the rows ----------------------------------------------------------------------------------------


@dataclass
class _Run:
    """What all rows share, and how far we are."""

    shots: int | None
    random_state: int
    tol: float
    time_limit: float | None
    progress: ProgressCallback | None
    total: int
    done: int = 0
    interrupted: bool = False
    warm: set[int] = field(default_factory=set)

    def section(self, task: _Task, entries: list[_Entry]) -> Section:
        problem, reference, note = task.problem, None, None
        floors: dict[int, float | None] = {}
        try:
            if not self.interrupted:
                self.warm_up(_Entry(REFERENCE, REFERENCE, "reference", {}))
                reference = solve(problem, REFERENCE, refine=True, tol=self.tol, random_state=self.random_state)
        except KeyboardInterrupt:
            self.interrupted = True
        except Exception as error:  # a section without reference still compares its solvers with one another
            note = f"no reference: {_sentence(error)}"
        rows: list[Row] = []
        barred: set[int] = set()  # solvers that do not apply: one row, not one a device
        for entry in entries:
            if self.progress:
                label = " ".join(filter(None, (entry.name, entry.device)))
                self.progress(self.done, self.total, f"{task.name}: {label}")
            self.done += 1
            if entry.group in barred:
                continue
            row = Row(task.name, entry.name, entry.role, entry.device, entry.shots)
            if self.interrupted:
                rows.append(replace(row, status="NOT RUN", reason="not run: the comparison was interrupted (Ctrl-C)"))
                continue
            status, reason = _barred(entry, problem)
            if reason:
                role = "quantum" if entry.role == "control" else entry.role
                row = Row(task.name, entry.name, role, status=status, reason=reason)
                barred.add(entry.group)
            else:
                row = self.run(row, entry, task, reference)
                if entry.shots and row.ran and reference is not None:
                    if entry.shots not in floors:
                        floors[entry.shots] = shot_floor(problem, reference.alpha, entry.shots, self.random_state)
                    row = replace(row, shot_floor=floors[entry.shots])
            rows.append(row)
        if self.progress:
            self.progress(self.done, self.total, f"{task.name}: done")
        if self.interrupted and reference is None and note is None:
            note = "no reference: the comparison was interrupted (Ctrl-C)"
        return Section(task.name, task.title, problem.n, problem.kind.value, reference, note, _ranked(rows))

    def warm_up(self, entry: _Entry) -> None:
        """One throw-away step on four points: a library's import is not the solver's time."""
        key = hash((entry.name, entry.device, entry.shots))
        if key in self.warm:
            return
        self.warm.add(key)
        gram = Gram(np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.1]]))
        for loss in ("squared_hinge", "hinge"):
            try:
                solve(models.svc(gram, [1, 1, -1, -1], loss=loss), entry.solver, max_steps=1, **entry.options)
            except Exception:  # not the run that counts: whatever is wrong will show there
                continue
            return

    def run(self, row: Row, entry: _Entry, task: _Task, reference: Solution | None) -> Row:
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                if entry.role == "reference" and reference is not None:
                    solution = reference
                else:
                    self.warm_up(entry)
                    solution = solve(
                        task.problem,
                        entry.solver,
                        refine=True,
                        tol=self.tol,
                        time_limit=self.time_limit,
                        random_state=self.random_state,
                        **entry.options,
                    )
                row = _measured(row, solution, task, reference)
        except KeyboardInterrupt:
            self.interrupted = True
            return replace(row, status="NOT RUN", reason="interrupted (Ctrl-C) before it had a state to show")
        except SolverUnavailable as error:
            return replace(row, status="NOT INSTALLED", reason=_sentence(error))
        except Exception as error:  # whatever a solver or its libraries raise is this row's reason
            return replace(row, status="FAILED", reason=_sentence(error))
        self.interrupted |= Status.INTERRUPTED in (solution.status, solution.raw_status)
        messages = [*([row.note] if row.note else []), *dict.fromkeys(str(w.message) for w in caught)]
        return replace(row, note="; ".join(messages) or None)


def _measured(row: Row, solution: Solution, task: _Task, reference: Solution | None) -> Row:
    problem, raw, cost = task.problem, solution.raw_certificate, solution.cost
    accuracy = agreement = excess = parameter_gap = None
    if len(task.Z):
        inside = decision_values(problem, raw, task.Z) >= 0
        accuracy = float(np.mean(inside == (task.signs > 0)))
    if reference is not None:
        own = support_set(problem, raw.alpha)
        best = reference.certificate.objective
        excess = max(0.0, raw.objective - best) / abs(best) if best else None
        agreement = _jaccard(own, support_set(problem, reference.raw_certificate.alpha))
    extra = solution.extras.get("parameter_alpha")
    if extra is not None and np.isfinite(extra).all():
        parameter_gap = certify(problem, extra).relative_gap
    note = None
    if raw.relative_gap is None:
        note = f"no gap is certified, so it is not ranked: Q is {raw.psd}"
    return replace(
        row,
        status=solution.raw_status.name if solution.status is not Status.NOT_SEPARABLE else solution.status.name,
        note=note,
        raw_gap=raw.relative_gap,
        refined_gap=solution.certificate.relative_gap if solution.refined else None,
        infeasibility=raw.infeasibility,
        accuracy=accuracy,
        support_agreement=agreement,
        wall_time_s=cost.wall_time_s,
        classical_share=cost.classical_share,
        refine_time_s=cost.refine_time_s,
        steps=cost.steps,
        qubits=cost.qubits,
        circuits=cost.circuits,
        depth=cost.depth,
        two_qubit_gates=cost.two_qubit_gates,
        shots=cost.shots,
        excess=excess,
        parameter_gap=parameter_gap,
        solution=solution,
    )


def _barred(entry: _Entry, problem: DualProblem) -> tuple[str, str | None]:
    """Status and reason why no device could help, or a reason of None."""
    try:
        solver = entry.solver
        if isinstance(solver, str):
            solver = make_solver(solver)
        reason = solver.mismatch(problem)
    except SolverUnavailable as error:
        return "NOT INSTALLED", _sentence(error)
    except Exception as error:  # a third party's constructor may raise anything
        return "FAILED", _sentence(error)
    return "DOES NOT APPLY", reason


def _ranked(rows: list[Row]) -> tuple[Row, ...]:
    """Best raw gap first, controls in their place but unranked; then rows without a gap, then without numbers."""

    def key(row: Row) -> tuple[int, float]:
        return (0, row.raw_gap) if row.raw_gap is not None else (1 if row.ran else 2, 0.0)

    place, out = 0, []
    for row in sorted(rows, key=key):
        if row.raw_gap is not None and row.role != "control":
            place += 1
            row = replace(row, rank=place)
        out.append(row)
    return tuple(out)


def _jaccard(a: NDArray, b: NDArray) -> float:
    union = np.union1d(a, b)
    return 1.0 if len(union) == 0 else len(np.intersect1d(a, b)) / len(union)


def _sentence(error: BaseException) -> str:
    """An exception as a reason: our own messages as they are, others with their type."""
    text = " ".join(str(error).split()) or "no message"
    return text if isinstance(error, DualflowError) else f"{type(error).__name__}: {text}"


# --- which rows ----------------------------------------------------------------------------------------


def _plan(
    solvers: Sequence[str | Solver] | None,
    shots: int | None,
    devices: Sequence[str] | None,
    controls: bool,
    studies: bool,
) -> list[_Entry]:
    if isinstance(solvers, (str, Solver)):
        solvers = [solvers]
    if isinstance(devices, str):
        devices = [devices]
    if solvers is None:
        left_out = set() if studies else {info.name for info in list_solvers() if info.maturity == "study"}
        solvers = [name for name in solver_names() if name not in left_out]
    if not solvers:
        raise ProblemError("solvers is empty; leave it out to compare all")
    entries: list[_Entry] = []
    for group, solver in enumerate(solvers):
        if not isinstance(solver, (str, Solver)):
            raise TypeError(f"solvers: names or dualflow.Solver instances are needed, found {type(solver).__name__}")
        entries += [replace(entry, group=group) for entry in _variants(solver, shots, devices, controls)]
    return entries


def _variants(
    solver: str | Solver, shots: int | None, devices: Sequence[str] | None, controls: bool
) -> Iterable[_Entry]:
    """The rows of one solver: one, or for a quantum solver one a device and control."""
    if isinstance(solver, Solver):
        cls: type[Solver] = type(solver)
        name = cls.name or cls.__name__
    else:
        name = solver
        try:
            cls = solver_class(name)
        except SolverUnavailable:
            return [_Entry(name, name, "classical", {})]
    options = {f.name for f in dataclasses.fields(cls) if f.init}
    if not cls.quantum or "device" not in options:
        own = name == REFERENCE and isinstance(solver, str)
        return [_Entry(name, solver, "reference" if own else "quantum" if cls.quantum else "classical", {})]
    if isinstance(solver, Solver):
        device, own_shots = getattr(solver, "device"), getattr(solver, "shots", None)  # noqa: B009 - third parties'
        wanted = [("quantum", device, own_shots)]
        wanted += [("control", control, own_shots) for control in CONTROLS if controls and control != device]
        return [
            _Entry(name, _on(solver, device), role, {}, _device_name(device), count) for role, device, count in wanted
        ]
    wanted = [("control" if d in CONTROLS else "quantum", d, shots) for d in devices or DEFAULT_DEVICES]
    if devices is None and shots is not None:
        wanted.append(("quantum", DEFAULT_DEVICES[0], None))
    if controls:
        wanted += [("control", d, shots) for d in CONTROLS if d not in (devices or ())]
    if "shots" not in options:
        return [_Entry(name, name, role, {"device": d}, _device_name(d)) for role, d, _ in wanted]
    return [
        _Entry(name, name, role, {"device": d, "shots": count}, _device_name(d), count) for role, d, count in wanted
    ]


def _on(solver: Solver, device: Any) -> Solver:
    return dataclasses.replace(solver, device=device)  # type: ignore[call-arg]


def _device_name(device: Any) -> str:
    return device if isinstance(device, str) else str(getattr(device, "name", device))


# --- which sections -------------------------------------------------------------------------------------


def _task(name: str, data: Subsample, gram: Gram, C: float, nu: float | None) -> _Task:
    if name != "svdd":
        problem = models.svc(gram, data.signs(data.y, data.classes[1]), C, loss=name)
        title = f"{PROBLEMS[name]}, C = {C:g}"
        return _Task(name, title, problem, data.X_test, data.signs(data.y_test, data.classes[1]))
    # The width of the kernel is the whole subsample's: one kernel for all sections.
    inside = Gram(
        data.X[data.y == data.inlier],
        gram.kernel,
        gamma=gram.gamma,
        degree=gram.degree,
        coef0=gram.coef0,
    )
    ball = "hard ball" if nu is None else f"ν = {nu:g}"
    title = f"{PROBLEMS[name]}, {ball}, trained on class {data.inlier}"
    return _Task(name, title, models.svdd(inside, nu), data.X_test, data.signs(data.y_test, data.inlier))


def _check_names(problems: str | Sequence[str]) -> list[str]:
    names = list(dict.fromkeys([problems] if isinstance(problems, str) else problems))
    if not names:
        raise ProblemError(f"problems is empty; choose from {', '.join(PROBLEMS)}")
    for name in names:
        if name not in PROBLEMS:
            near = difflib.get_close_matches(str(name), PROBLEMS, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ProblemError(f"problems: {name!r} is not one of {', '.join(PROBLEMS)}{hint}")
    return names


def _check_integer(value: Any, name: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ProblemError(f"{name}={value!r} must be an integer ≥ {least}")
    return int(value)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
