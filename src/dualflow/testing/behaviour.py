"""Checks of a solver's runs: states, seeds, limits, warm starts, trajectories, files."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np

from ..core.solution import Solution, Status
from ..driver import checkpoint
from .bench import CLASS_GAP, REFERENCE_ACCURACY, Bench, digest, objective, relative_violation, require, require_finite
from .specimen import ZooProblem


def state_unchanged(bench: Bench, z: ZooProblem) -> None:
    """Check that `step` returns a new state and does not change the given one."""
    context = bench.open(z)
    state = bench.solver.start(context, np.random.default_rng(0))
    for _ in range(3):
        before = digest(state)
        after = bench.solver.step(context, state)
        require(digest(state) == before, "step changed the state it was given")
        if bench.solver.finished(after):
            return
        state = after


def same_seed(bench: Bench, z: ZooProblem) -> None:
    """Check that runs with the same seed agree to the last bit, for any state of numpy's global generator."""
    kept = np.random.get_state()  # noqa: NPY002 - the test is about the global generator
    try:
        found = []
        for noise in (1, 2):
            np.random.seed(noise)  # noqa: NPY002
            found.append(bench.solve(z, random_state=5, max_steps=50).raw_alpha)
    finally:
        np.random.set_state(kept)  # noqa: NPY002
    difference = float(np.abs(found[0] - found[1]).max())
    require(difference == 0.0, f"two runs with one seed differ by {difference:.3g}")


def different_seeds(bench: Bench, z: ZooProblem) -> None:
    """Check that another seed is as accurate, and gives other samples if the solver is sampled."""
    found = [bench.run(z, seed) for seed in (0, 1)]
    if bench.accuracy != "sampled":
        excess = (objective(z, found[1].raw_certificate.alpha) - z.optimum) / abs(z.optimum)
        require(excess <= bench.allowed_gap(z), f"with seed 1, (f − f*)/|f*| = {excess:.3g}")
    elif bench.allowed_gap(z) > 2 * REFERENCE_ACCURACY:
        require(not np.array_equal(found[0].raw_alpha, found[1].raw_alpha), "two seeds gave the same samples")


def one_step(bench: Bench, z: ZooProblem) -> None:
    """Check that max_steps=1 returns a finite α with a status after at most one step."""
    solution = bench.solve(z, max_steps=1)
    require_finite(solution.raw_alpha, z)
    require(isinstance(solution.status, Status), f"status is {solution.status!r}")
    require(solution.cost.steps <= 1, f"{solution.cost.steps} steps were made")


def warm_start(bench: Bench, z: ZooProblem) -> None:
    """Check warm starts at the optimum and at its half: the answers must be as good as without a warm start."""
    assert z.alpha is not None  # for the type checker: these problems have an optimal α
    for name, warm in (("the optimum", z.alpha), ("its half", 0.5 * z.alpha)):
        solution = bench.solve(z, warm=warm)
        require_finite(solution.raw_alpha, z)
        if bench.accuracy == "sampled":
            continue
        violation = relative_violation(z, solution.raw_alpha)
        require(violation <= np.sqrt(CLASS_GAP[bench.accuracy]), f"from {name}: violation {violation:.3g}")
        excess = (objective(z, solution.raw_certificate.alpha) - z.optimum) / abs(z.optimum)
        require(excess <= bench.allowed_gap(z), f"from {name}: (f − f*)/|f*| = {excess:.3g}")


def trajectory(bench: Bench, z: ZooProblem) -> None:
    """Check that every field of a trajectory has one row for each state, and that recording changes no answer."""
    solution = bench.solve(z, trajectory=True)
    path, k = solution.trajectory, solution.cost.steps + 1
    if path is None:
        raise AssertionError("no trajectory")
    for name in ("t", "multiplier", "survivors", "objective", "gap", "shots"):
        require(getattr(path, name).shape == (k,), f"{name} has shape {getattr(path, name).shape}, not ({k},)")
    require(path.alpha.shape == (k, z.n), f"alpha has shape {path.alpha.shape}, not ({k}, {z.n})")
    require(np.isfinite(path.t).all() and (np.diff(path.t) >= 0).all(), "t is not finite and non-decreasing")
    require(np.isfinite(path.alpha).all() and np.isfinite(path.objective).all(), "alpha or objective is not finite")
    require(not np.isnan(path.gap).any(), "gap is NaN where a certificate exists")
    has_multiplier = z.problem.e is not None
    # A hard margin has no multiplier before its first separating state.
    rows = slice(-1, None) if z.kind.may_be_unbounded else slice(None)
    require(not has_multiplier or np.isfinite(path.multiplier[rows]).all(), "the multiplier is not finite")
    require(((path.survivors >= 0) & (path.survivors <= z.n)).all(), "survivors outside 0…n")
    require(np.array_equal(path.alpha[-1], solution.raw_alpha), "the last row is not the answer")
    require(np.array_equal(solution.raw_alpha, bench.run(z).raw_alpha), "recording changed the answer")


def resume(bench: Bench, z: ZooProblem) -> None:
    """Check that a run saved half way and resumed equals the uninterrupted one, bit by bit, trajectory included."""
    uninterrupted = bench.solve(z, trajectory=True)
    half = max(1, uninterrupted.cost.steps // 2)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.npz"
        bench.solve(z, trajectory=True, checkpoint=file, max_steps=half)
        resumed = bench.solve(z, trajectory=True, checkpoint=file)
    _require_same_run(uninterrupted, resumed)


def _require_same_run(expected: Solution, resumed: Solution) -> None:
    """Raise AssertionError if steps, α or trajectory of two runs differ."""
    steps, wanted = resumed.cost.steps, expected.cost.steps
    require(steps == wanted, f"the resumed run took {steps} steps, the uninterrupted one {wanted}")
    require(np.array_equal(resumed.raw_alpha, expected.raw_alpha), "alpha of the resumed run differs")
    for f in dataclasses.fields(expected.trajectory):  # type: ignore[arg-type]
        ours, theirs = (getattr(solution.trajectory, f.name) for solution in (resumed, expected))
        require(np.array_equal(ours, theirs, equal_nan=True), f"trajectory.{f.name} of the resumed run differs")


def state_saves(bench: Bench, z: ZooProblem) -> None:
    """Check that a state has the declared type, and that a file keeps it and its next step to the last bit."""
    solver, context = bench.solver, bench.open(z)
    state = solver.step(context, solver.start(context, np.random.default_rng(3)))
    kind = type(state).__name__
    require(type(state) is solver.state_type, f"a state is of type {kind}, state_type is {solver.state_type.__name__}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.npz"
        checkpoint.save(checkpoint.Saved(file, state, 1, 0.0, {}), {})
        loaded = checkpoint.load(file, {}, solver.state_type).state
    require(digest(loaded) == digest(state), "the state read from a file differs from the saved one")
    if not solver.finished(state):
        ours, theirs = solver.alpha(solver.step(bench.open(z), loaded)), solver.alpha(solver.step(context, state))
        require(np.array_equal(ours, theirs), "a step from the state read from a file gives another alpha")
