"""compare(seeds=N): medians and quartiles of sampled rows, single runs of the others, error bars in every output."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from dualflow import Gram, ProblemError, compare, problems, solve
from dualflow.comparison import dry_run
from dualflow.comparison.rows import median_row, quartiles
from dualflow.core.solver import EVERY_CONVEX, Solver
from dualflow.report import Row
from dualflow.report.html import chart
from dualflow.report.html import render as to_html

SEEDS = 4
SHOTS = 200
STEPS = {"steps": 5}


def problem():
    X = np.random.default_rng(1).normal(size=(6, 2))
    return problems.svdd(Gram(X, gamma=0.5))


@dataclass(frozen=True)
class State:
    alpha: np.ndarray
    steps: int = 0


@dataclass(frozen=True)
class Drawn(Solver):
    """A feasible point by the seed, after one step."""

    name: ClassVar[str] = "drawn"
    kinds = EVERY_CONVEX
    starts: ClassVar[list[float]] = []

    def start(self, problem, rng, warm=None):
        point = rng.random(problem.n)
        if problem.n > 4:  # not while it is warmed up
            self.starts.append(point[0])
        return State(problem.project(point))

    def step(self, problem, state):
        return replace(state, steps=state.steps + 1)

    def alpha(self, state):
        return state.alpha

    def finished(self, state):
        return state.steps >= 1


@dataclass(frozen=True)
class Fixed(Drawn):
    name: ClassVar[str] = "fixed"
    stochastic: ClassVar[bool] = False
    starts: ClassVar[list[float]] = []

    def start(self, problem, rng, warm=None):
        self.starts.append(0.0)
        return State(problem.project(np.ones(problem.n)))


@dataclass(frozen=True)
class FailsOnce(Drawn):
    """Its second run fails, its fourth is interrupted."""

    name: ClassVar[str] = "fails-once"
    starts: ClassVar[list[float]] = []
    interrupts: bool = False

    def step(self, problem, state):
        seeds = len(set(self.starts))  # quick runs are repeated with the same seed
        if seeds == 2 and problem.n > 4:
            raise RuntimeError("out of luck")
        if self.interrupts and seeds == 4:
            raise KeyboardInterrupt
        return super().step(problem, state)


@pytest.fixture(scope="module")
def found():
    from dualflow import VariationalFlow

    solver = VariationalFlow(device="emulator", shots=SHOTS, steps=5)
    return compare(
        problem(), solvers=["working-set", "cvxopt", solver], seeds=SEEDS, random_state=2, tol=1e-6, time_limit=None
    )


def test_a_sampled_row_has_the_median_and_quartiles_of_its_runs(found):
    best = solve(problem(), "cvxopt", tol=1e-10, refine=True).certificate.objective
    runs = [
        solve(problem(), "variational-flow", device="emulator", shots=SHOTS, tol=1e-6, random_state=2 + k, **STEPS)
        for k in range(SEEDS)
    ]
    gaps = [run.raw_certificate.relative_gap for run in runs]
    excess = [(run.raw_certificate.objective - best) / abs(best) for run in runs]
    (row,) = (row for row in found.rows if row.role == "emulated")
    assert row.seeds == SEEDS
    assert row.raw_gap == pytest.approx(np.median(gaps), rel=1e-9)
    assert (row.gap_low, row.gap_high) == pytest.approx(tuple(np.quantile(gaps, (0.25, 0.75))), rel=1e-9)
    assert row.excess == pytest.approx(np.median(excess), rel=1e-6)
    assert (row.excess_low, row.excess_high) == pytest.approx(tuple(np.quantile(excess, (0.25, 0.75))), rel=1e-6)
    assert row.gap_low < row.raw_gap < row.gap_high
    # Its solution is a run: that with the lower of the two middle excesses.
    assert row.solution.raw_certificate.objective == pytest.approx(
        runs[int(np.argsort(excess)[1])].raw_certificate.objective, rel=1e-12
    )


def test_controls_are_repeated_and_what_draws_nothing_runs_once(found):
    seeds = {(row.solver, row.device): row.seeds for row in found.rows}
    assert seeds["working-set", None] == seeds["cvxopt", None] == 1
    assert [seeds["variational-flow", name] for name in ("null", "classical-sampler")] == [SEEDS] * 2
    assert seeds["variational-flow", "control:random"] > 1  # a run may fail, as random bits may measure nothing
    assert all(row.gap_low is None and row.excess_low is None for row in found.rows if row.seeds == 1)
    Drawn.starts.clear()
    Fixed.starts.clear()
    compare(problem(), solvers=[Drawn(), Fixed()], seeds=SEEDS)
    once = len(Fixed.starts)
    assert len(set(Drawn.starts)) == SEEDS
    Fixed.starts.clear()
    compare(problem(), solvers=[Fixed()])
    assert len(Fixed.starts) == once


def test_every_output_shows_the_band(found, tmp_path):
    (row,) = (row for row in found.rows if row.role == "emulated")
    assert f"{row.excess_low:.1e} to" in found.table(120)
    assert f"medians of {SEEDS} seeds" in found.table(200)
    page = to_html(found)
    assert "Vertical lines are quartiles over the seeds." in page
    assert f"medians of {SEEDS} seeds" in page
    assert page.count('class="bar"') == sum(row.seeds > 1 for row in found.rows)
    (mark,) = (mark for mark in chart(found.sections[0], 1e-6).marks if mark.role == "emulated")
    assert mark.high_y < mark.y < mark.low_y  # downwards in SVG
    found.to_csv(tmp_path / "rows.csv")
    with open(tmp_path / "rows.csv", newline="", encoding="utf-8") as file:
        (line,) = (line for line in csv.DictReader(file) if line["role"] == "emulated")
    assert float(line["excess_high"]) == row.excess_high
    single = compare(problem(), solvers=[Fixed()])
    assert "band" not in single.table(200)
    assert "medians" not in single.table(200)
    assert "Vertical lines" not in to_html(single)


def test_the_display_draws_error_bars(found):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    from dualflow import ComparisonDisplay

    display = ComparisonDisplay.from_comparison(found, ax=figure.subplots())
    drawn = [segment for bars in display.bars_[0] for segment in bars[2][0].get_segments()]
    rows = [row for row in found.rows if row.seeds > 1]
    expected = sorted((row.gap_low, row.gap_high) for row in rows)
    np.testing.assert_allclose(sorted((low[1], high[1]) for low, high in drawn), expected, rtol=1e-9)
    assert f"median and quartiles of {SEEDS} seeds" in display.ax_.get_title()
    refined = ComparisonDisplay.from_comparison(found, refined=True, ax=figure.subplots())
    assert refined.bars_ == [[]]


def test_runs_that_fail_are_counted_in_a_note():
    FailsOnce.starts.clear()
    (row,) = compare(problem(), solvers=[FailsOnce()], seeds=3).rows
    assert row.seeds == 2
    assert row.note == "1 of 3 runs failed: RuntimeError: out of luck"


def test_after_ctrl_c_a_row_has_the_runs_so_far():
    FailsOnce.starts.clear()
    with pytest.raises(KeyboardInterrupt) as raised:
        compare(problem(), solvers=[FailsOnce(interrupts=True)], seeds=9)
    (row,) = raised.value.comparison.rows
    assert row.ran
    assert row.seeds == 2  # the second run failed, and the fourth was cut off


def test_the_median_row_is_a_run_and_infinite_gaps_have_no_middle():
    runs = [Row("p", "s", "quantum", status="FINISHED", raw_gap=g, excess=e) for g, e in ((3.0, 1.0), (math.inf, 2.0))]
    row = median_row(runs)
    assert (row.excess, row.excess_low, row.excess_high) == (1.5, 1.25, 1.75)
    assert (row.raw_gap, row.gap_low, row.gap_high) == (math.inf, math.inf, math.inf)
    assert median_row(runs[:1]) is runs[0]
    without = median_row([replace(run, excess=None, raw_gap=None) for run in runs])
    assert (without.raw_gap, without.gap_low, without.excess_low, without.seeds) == (None, None, None, 2)
    assert np.isnan(quartiles([1.0, math.nan])).all()
    assert np.isnan(quartiles([])).all()


def test_all_runs_are_announced_and_estimated():
    said: list[str] = []
    compare(problem(), solvers=["working-set", Drawn()], seeds=3, time_limit=1.0, announce=said.append)
    assert said[0].startswith("1 problem, 4 runs;")
    plain = dry_run(problem(), solvers=["variational-flow"], devices=["emulator", "aer"], shots=SHOTS)
    several = dry_run(problem(), solvers=["variational-flow"], devices=["emulator", "aer"], shots=SHOTS, seeds=3)
    assert sum(e.circuits for e in several.estimates) == 3 * sum(e.circuits for e in plain.estimates)
    assert several.cells()[0][1] == "variational-flow, each of 3 runs"


@pytest.mark.parametrize("seeds", [0, 1.5, True, "5"])
def test_a_number_of_seeds_is_needed(seeds):
    with pytest.raises(ProblemError, match="seeds="):
        compare(problem(), solvers=["working-set"], seeds=seeds)
    with pytest.raises(ProblemError, match="seeds="):
        dry_run(problem(), solvers=["variational-flow"], seeds=seeds)
