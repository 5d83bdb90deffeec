"""The checks of `check_solver`, one function each, and their names in two tables at the end.

The checks of a run's behaviour (seeds, limits, warm starts, files) are in `dualflow.testing.behaviour`. A check raises
AssertionError with a message of what was found and what was expected.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from ..core.problem import Kind
from ..core.solution import Status
from ..core.workspace import Workspace
from ..exceptions import SolverMismatch
from . import behaviour, controls
from .bench import CLASS_GAP, REFERENCE_ACCURACY, Bench, digest, objective, relative_violation, require, require_finite
from .problem_zoo import ZooProblem, zoo

_ENDED = (Status.OPTIMAL, Status.STATIONARY, Status.FINISHED)


# --- checks of a solver --------------------------------------------------------------------------


def class_attributes(bench: Bench) -> None:
    """Check name, kinds, accuracy, maturity and limits, and that options and state are frozen dataclasses."""
    solver, cls = bench.solver, type(bench.solver)
    require(hasattr(cls, "state_type"), f"state_type of {cls.__name__} is not set")
    for kind in (cls, cls.state_type):
        parameters = vars(kind).get("__dataclass_params__")
        require(parameters is not None and parameters.frozen, f"{kind.__name__} is not a frozen dataclass")
    require(isinstance(solver.name, str) and solver.name, "name is empty")
    require(solver.kinds and all(isinstance(kind, Kind) for kind in solver.kinds), "kinds must be a set of Kind")
    accuracies = ("exact", "iterative", "sampled")
    for found in (solver.accuracy, solver.accuracy_class()):
        require(found in accuracies, f"accuracy {found!r} is not one of {accuracies}")
    require(solver.maturity in ("solver", "study"), f"maturity {solver.maturity!r} is neither 'solver' nor 'study'")
    require(solver.max_n is None or solver.max_n > 0, f"max_n is {solver.max_n}")
    require(solver.certify_every >= 1 and solver.default_max_steps >= 1, "certify_every, default_max_steps must be ≥ 1")
    require(isinstance(solver.requires, tuple), "requires must be a tuple of import names")
    require((cls.__doc__ or "").strip() and not (cls.__doc__ or "").startswith(f"{cls.__name__}("), "no docstring")


def unknown_option(bench: Bench) -> None:
    """Check that an unknown option raises a TypeError that names it and the nearest option."""
    cls = type(bench.solver)
    options = [f.name for f in dataclasses.fields(cls) if f.init]
    wrong = options[0] + "x" if options else "no_such_option"
    try:
        cls.from_options({wrong: 1})
    except TypeError as error:
        message = str(error)
    else:
        raise AssertionError(f"option {wrong!r} was accepted")
    expected = [wrong, *options[:1]]
    require(all(repr(word) in message for word in expected), f"the message {message!r} lacks {expected}")


def other_kinds_refused(bench: Bench) -> None:
    """Check that problems of kinds that are not claimed raise SolverMismatch."""
    for z in zoo(max_n=8):
        if z.kind in bench.solver.kinds:
            continue
        try:
            bench.solve(z, max_steps=1)
        except SolverMismatch:
            continue
        raise AssertionError(f"{z.name} is of kind {z.kind.value!r}, which is not claimed, and was accepted")


# --- checks of a problem ------------------------------------------------------------------------


def answer(bench: Bench, z: ZooProblem) -> None:
    """Check that α is finite, float64 and of shape (n,)."""
    require_finite(bench.run(z).raw_alpha, z)
    given = bench.solver.alpha(bench.solver.start(bench.open(z), np.random.default_rng(0)))
    require(isinstance(given, np.ndarray) and given.dtype == np.float64, f"alpha(state) is {type(given).__name__}")
    require(given.shape == (z.n,), f"alpha(state) of the start has shape {given.shape}, not ({z.n},)")
    require(bench.run(z).status is not Status.BROKEN, Status.BROKEN.text)


def gap(bench: Bench, z: ZooProblem) -> None:
    """Check that f of the projected raw answer is within the accuracy class of the zoo's f*, and not below it."""
    seeds = bench.seeds if bench.accuracy == "sampled" else 1
    size, bound = abs(z.optimum), 0.0
    found: list[float] = []
    for seed in range(seeds):
        solution = bench.run(z, seed)
        bound = bound or bench.allowed_gap(z, solution.cost.shots)
        found.append((objective(z, solution.raw_certificate.alpha) - z.optimum) / size)
        within = sum(gap <= bound for gap in found)
        # With more than half of the seeds on one side of the bound, the other seeds cannot move the median across it.
        if max(within, len(found) - within) > seeds // 2:
            break
    bench.gaps[z.name], bench.bounds[z.name] = float(np.median(found)), bound
    require(min(found) >= -REFERENCE_ACCURACY, f"f lies {-min(found):.2g} below the optimum (relative): infeasible")
    require(
        bench.gaps[z.name] <= bench.bounds[z.name],
        f"(f − f*)/|f*| = {bench.gaps[z.name]:.3g}, {bench.accuracy!r} allows {bench.bounds[z.name]:.3g}",
    )


def certificate(bench: Bench, z: ZooProblem) -> None:
    """Check that the certified gap is not below the true one, and within the class (exact, iterative)."""
    solution = bench.run(z)
    claimed = solution.raw_certificate.gap
    if claimed is None:
        raise AssertionError("no certificate")
    true = objective(z, solution.raw_certificate.alpha) - z.optimum
    require(claimed >= true - REFERENCE_ACCURACY * abs(z.optimum), f"certified gap {claimed:.3g}, true gap {true:.3g}")
    if bench.accuracy != "sampled":
        relative, allowed = solution.raw_certificate.relative_gap, bench.allowed_gap(z)
        if relative is None or not relative <= allowed:
            raise AssertionError(f"relative gap {relative}, {allowed:.3g} is allowed")


def raw_feasible(bench: Bench, z: ZooProblem) -> None:
    """Check that the raw answer is nearly feasible before any projection, relative to its size.

    f is quadratic: a point at a relative distance √g from the optimum has a relative gap of about g, so that √g is the
    largest violation allowed. Sampled answers may deviate by three standard deviations of the sampled exact optimum.
    """
    if bench.accuracy == "sampled":
        allowed = bench.allowed_violation(z)
    else:
        allowed = np.sqrt(CLASS_GAP[bench.accuracy])
    violation = relative_violation(z, bench.run(z).raw_alpha)
    require(violation <= allowed, f"violation {violation:.3g} relative to max |α|, {allowed:.3g} is allowed")


def comes_to_rest(bench: Bench, z: ZooProblem) -> None:
    """Check that the run ends by the tolerance or by the solver's criterion, not at a limit."""
    solution = bench.run(z)
    require(solution.raw_status in _ENDED, f"{solution.raw_status.name} after {solution.cost.steps} steps")


def workspace_unchanged(bench: Bench, z: ZooProblem) -> None:
    """Check that the solver does not change its workspace.

    A certificate would not show such a change, but a resumed run, which has a new workspace, would differ.
    """
    workspace, solver = Workspace(z.problem), bench.solver
    context = bench.open(z, workspace)
    state = solver.start(context, np.random.default_rng(0))
    for _ in range(3):
        if solver.finished(state):
            break
        state = solver.step(context, state)
    require(digest(workspace) == digest(Workspace(z.problem)), "the workspace, or a matrix in it, was changed")


def not_separable(bench: Bench, z: ZooProblem) -> None:
    """Check that the status is NOT_SEPARABLE if no hard margin exists, and that the witness proves it."""
    solution = bench.solve(z)
    require_finite(solution.raw_alpha, z)
    require(solution.status is Status.NOT_SEPARABLE, f"status is {solution.status.name}")
    v, problem = solution.witness, z.problem
    if v is None or (v < 0).any() or abs(v.sum() - 1) > 1e-9:
        raise AssertionError("v ≥ 0, 1ᵀv = 1 does not hold")
    # On the simplex the bias is part of the kernel, and vᵀQv = 0 implies yᵀv = 0.
    hinge_bias = problem.kind is Kind.ORTHANT_EQUALITY
    require(not hinge_bias or abs(problem.e @ v) <= 1e-9, "yᵀv = 0 does not hold")
    quadratic = 2 * (objective(z, v) + float(problem.p @ v))
    require(quadratic <= 1e-9 * problem.diag().max(), f"vᵀQv = {quadratic:.3g} is not 0")


CHECKS_OF_SOLVERS: dict[str, Callable[[Bench], None]] = {
    "class attributes": class_attributes,
    "unknown option": unknown_option,
    "other kinds refused": other_kinds_refused,
}


def _with_optimum(bench: Bench) -> list[ZooProblem]:
    return bench.with_optimum


def _two_a_kind(bench: Bench) -> list[ZooProblem]:
    return bench.two_a_kind


CHECKS_OF_PROBLEMS: dict[str, tuple[Callable[[Bench, ZooProblem], None], Callable[[Bench], list[ZooProblem]]]] = {
    "answer": (answer, _with_optimum),
    "gap": (gap, _with_optimum),
    "certificate": (certificate, _with_optimum),
    "raw feasible": (raw_feasible, _with_optimum),
    "comes to rest": (comes_to_rest, _with_optimum),
    "workspace unchanged": (workspace_unchanged, _two_a_kind),
    "state unchanged": (behaviour.state_unchanged, _two_a_kind),
    "same seed": (behaviour.same_seed, _two_a_kind),
    "different seeds": (behaviour.different_seeds, _two_a_kind),
    "one step": (behaviour.one_step, _two_a_kind),
    "warm start": (behaviour.warm_start, _two_a_kind),
    "trajectory": (behaviour.trajectory, _two_a_kind),
    "resume": (behaviour.resume, _two_a_kind),
    "state saves": (behaviour.state_saves, _two_a_kind),
    "evidence": (controls.evidence, controls.evidence_problems),
    "not separable": (not_separable, lambda bench: [z for z in bench.claimed if not z.has_answer]),
}
