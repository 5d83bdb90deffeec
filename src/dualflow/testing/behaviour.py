"""Checks of how a solver's runs behave: states, seeds, limits, warm starts, trajectories, files."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import numpy as np

from ..core.solution import Solution, Status
from ..driver import checkpoint
from .bench import CLASS_GAP, REFERENCE, Bench, digest, feasible, objective, require, require_finite
from .specimen import ZooProblem

__all__ = [
    "different_seeds",
    "one_step",
    "resume",
    "same_seed",
    "state_saves",
    "state_unchanged",
    "trajectory",
    "warm_start",
]


def state_unchanged(bench: Bench, z: ZooProblem) -> None:
    """`step` returns a new state and leaves the given one as it was."""
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
    """Same seed, same answer to the last bit, whatever numpy's global generator holds."""
    kept = np.random.get_state()  # noqa: NPY002 - the global generator is what is being tested
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
    """Other seeds work as well; for a sampled solver they give other samples."""
    found = [bench.run(z, seed) for seed in (0, 1)]
    if bench.accuracy != "sampled":
        excess = (objective(z, found[1].raw_certificate.alpha) - z.optimum) / abs(z.optimum)
        require(excess <= bench.allowed_gap(z), f"with seed 1, (f − f*)/|f*| = {excess:.3g}")
    elif bench.allowed_gap(z) > 2 * REFERENCE:
        require(not np.array_equal(found[0].raw_alpha, found[1].raw_alpha), "two seeds gave the same samples")


def one_step(bench: Bench, z: ZooProblem) -> None:
    """max_steps=1 returns something finite, with a status, after at most one step."""
    solution = bench.solve(z, max_steps=1)
    require_finite(solution.raw_alpha, z)
    require(isinstance(solution.status, Status), f"status is {solution.status!r}")
    require(solution.cost.steps <= 1, f"{solution.cost.steps} steps were made")


def warm_start(bench: Bench, z: ZooProblem) -> None:
    """A warm start is taken: at the optimum, and in the interior; the answers are as good as cold ones."""
    assert z.alpha is not None  # for the type checker: these problems have one
    for name, warm in (("the optimum", z.alpha), ("its half", 0.5 * z.alpha)):
        solution = bench.solve(z, warm=warm)
        require_finite(solution.raw_alpha, z)
        if bench.accuracy == "sampled":
            continue
        violation = feasible(z, solution.raw_alpha)
        require(violation <= np.sqrt(CLASS_GAP[bench.accuracy]), f"from {name}: violation {violation:.3g}")
        excess = (objective(z, solution.raw_certificate.alpha) - z.optimum) / abs(z.optimum)
        require(excess <= bench.allowed_gap(z), f"from {name}: (f − f*)/|f*| = {excess:.3g}")


def trajectory(bench: Bench, z: ZooProblem) -> None:
    """Every field of the trajectory is filled, a row a state, and recording changes no answer."""
    solution = bench.solve(z, trajectory=True)
    path, k = solution.trajectory, solution.cost.steps + 1
    if path is None:
        raise AssertionError("no trajectory")
    for name in ("t", "multiplier", "survivors", "objective", "gap"):
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
    """A run saved half way and resumed equals the uninterrupted one, bit by bit, trajectory included."""
    whole = bench.solve(z, trajectory=True)
    half = max(1, whole.cost.steps // 2)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "run.npz"
        bench.solve(z, trajectory=True, checkpoint=file, max_steps=half)
        resumed = bench.solve(z, trajectory=True, checkpoint=file)
    _same_run(whole, resumed)


def _same_run(whole: Solution, resumed: Solution) -> None:
    require(resumed.cost.steps == whole.cost.steps, f"{resumed.cost.steps} steps resumed, {whole.cost.steps} whole")
    require(np.array_equal(resumed.raw_alpha, whole.raw_alpha), "alpha of the resumed run differs")
    for f in dataclasses.fields(whole.trajectory):  # type: ignore[arg-type]
        ours, theirs = (getattr(solution.trajectory, f.name) for solution in (resumed, whole))
        require(np.array_equal(ours, theirs, equal_nan=True), f"trajectory.{f.name} of the resumed run differs")


def state_saves(bench: Bench, z: ZooProblem) -> None:
    """A state is of the declared type; written to a file and read back it is the same, and steps to the same next."""
    solver, context = bench.solver, bench.open(z)
    state = solver.step(context, solver.start(context, np.random.default_rng(3)))
    kind = type(state).__name__
    require(type(state) is solver.state_type, f"a state is of type {kind}, state_type is {solver.state_type.__name__}")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.npz"
        checkpoint.save(checkpoint.Saved(file, state, 1, 0.0, {}), {})
        loaded = checkpoint.load(file, {}, solver.state_type).state
    require(digest(loaded) == digest(state), "the state changed on the way to the file and back")
    if not solver.finished(state):
        ours, theirs = solver.alpha(solver.step(bench.open(z), loaded)), solver.alpha(solver.step(context, state))
        require(np.array_equal(ours, theirs), "the state read back steps elsewhere")
