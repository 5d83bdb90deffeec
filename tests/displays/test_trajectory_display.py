"""What is drawn of a run: every line's data, the axes, and what is said where there is nothing to draw."""

import subprocess
import sys

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from sklearn.datasets import make_moons

from dualflow import Gram, ProblemError, SolverUnavailable, Trajectory, TrajectoryDisplay, problems, solve

QUANTITIES = ["alpha", "survivors", "objective", "gap"]


def settings():
    """All but the backend, which pyplot settles when it is looked at."""
    return {name: mpl.rcParams[name] for name in mpl.rcParams if name != "backend"}


@pytest.fixture(scope="module")
def problem():
    X, t = make_moons(16, noise=0.1, random_state=0)
    return problems.svc(Gram(X, gamma=1.0), 2.0 * t - 1, C=10.0)


@pytest.fixture(scope="module")
def solution(problem):
    return solve(problem, "lotka-volterra", trajectory=True)


def made(k=6, n=3, t=None, gap=None):
    rng = np.random.default_rng(0)
    return Trajectory(
        t=np.arange(k) * 0.5 if t is None else t,
        alpha=rng.random((k, n)),
        multiplier=np.zeros(k),
        survivors=np.full(k, n),
        objective=-np.arange(k, dtype=float),
        gap=np.geomspace(1, 1e-6, k) if gap is None else gap,
    )


def test_every_state_is_drawn(solution, problem):
    path = solution.trajectory
    display = TrajectoryDisplay.from_solution(solution, ax=Figure().subplots(2, 2))
    lines = display.lines_
    assert list(lines) == QUANTITIES
    assert display.shown_.tolist() == list(range(16))
    for i, line in enumerate(lines["alpha"]):
        np.testing.assert_array_equal(line.get_xydata(), np.column_stack([path.t, path.alpha[:, i]]))
    for name in QUANTITIES[1:]:
        (line,) = lines[name]
        np.testing.assert_array_equal(line.get_xydata(), np.column_stack([path.t, getattr(path, name)]))
    colours = [line.get_color() for line in lines["alpha"]]
    assert len(set(colours)) == 2
    assert len(set(zip(colours, problem.sigma, strict=True))) == 2  # one a class
    dotted = [line.get_linestyle() == ":" for line in lines["alpha"]]
    assert 16 - sum(dotted) == path.survivors[-1]


def test_axes_are_labelled_and_long_times_are_logarithmic(solution):
    display = TrajectoryDisplay.from_solution(solution, ax=Figure().subplots(2, 2))
    assert [ax.get_ylabel() for ax in display.axes_] == [
        "raw weight α",
        "survivors",
        "objective f(α)",
        "certified relative gap",
    ]
    assert {ax.get_xlabel() for ax in display.axes_} == {"flow time t"}
    assert {ax.get_xscale() for ax in display.axes_} == {"symlog"}
    assert display.axes_[3].get_yscale() == "log"
    texts = [text.get_text() for text in display.axes_[0].get_legend().get_texts()]
    assert texts == ["class −1", "class +1", "survives", "dies out"]
    assert "tol" in [text.get_text() for text in display.axes_[3].texts]
    assert solution.tol in [line.get_ydata()[0] for line in display.axes_[3].get_lines()]


def test_steps_are_called_steps(problem):
    path = solve(problem, "frank-wolfe", trajectory=True, max_steps=30).trajectory
    display = path.plot(ax=Figure().subplots(), quantities="gap")
    assert display.ax_.get_xlabel() == "step"
    assert display.ax_.get_xscale() == "linear"
    assert made(t=np.arange(6) * 0.5).plot(ax=Figure().subplots(), quantities="gap").ax_.get_xlabel() == "flow time t"


def test_of_many_variables_the_largest_are_drawn():
    path = made(k=5, n=3000)
    display = path.plot(ax=Figure().subplots(), quantities="alpha", max_lines=7)
    peak = path.alpha.max(axis=0)
    assert len(display.lines_["alpha"]) == 7
    assert peak[display.shown_].min() >= np.sort(peak)[-7]
    assert display.ax_.get_ylabel() == "raw weight α, largest 7 of 3000"


def test_a_gap_of_0_is_shown_and_said():
    display = made(gap=np.array([1.0, 1e-3, 0.0, 0.0, np.inf, np.nan])).plot(ax=Figure().subplots(), quantities="gap")
    (line,) = display.lines_["gap"]
    np.testing.assert_array_equal(line.get_ydata(), [1.0, 1e-3, 1e-16, 1e-16, np.nan, np.nan])
    assert display.ax_.get_ylabel() == "certified relative gap (0 as 1e-16)"


def test_where_nothing_is_certified_that_is_said():
    X, t = make_moons(16, noise=0.1, random_state=0)
    indefinite = problems.svc(Gram(X, "sigmoid", gamma=1.0, coef0=-1.0), 2.0 * t - 1, C=1.0)
    found = solve(indefinite, "smo", trajectory=True)
    assert found.certificate.gap is None
    display = TrajectoryDisplay.from_solution(found, ax=Figure().subplots(2, 2))
    assert display.lines_["gap"] == []
    assert "indefinite" in display.text_.get_text()
    assert display.axes_[3].get_yscale() == "linear"
    endless = made(gap=np.full(6, np.inf)).plot(ax=Figure().subplots(), quantities="gap")
    assert "no finite gap" in endless.text_.get_text()
    assert "indefinite" not in endless.text_.get_text()


def test_a_start_far_above_does_not_hide_the_rest():
    from dataclasses import replace

    path = replace(made(), objective=np.array([1800.0, 30.0, -20.0, -30.0, -35.0, -35.5]))
    display = path.plot(ax=Figure().subplots(), quantities="objective")
    assert display.ax_.get_yscale() == "symlog"
    assert [text.get_text() for text in display.ax_.texts] == ["−35.5"]
    assert made().plot(ax=Figure().subplots(), quantities="objective").ax_.get_yscale() == "linear"


@pytest.mark.parametrize("k", [1, 2])
def test_runs_that_ended_at_once(k):
    display = made(k=k, n=2).plot(ax=Figure().subplots(2, 2))
    assert all(line.get_marker() == "." for lines in display.lines_.values() for line in lines)
    display.figure_.draw_without_rendering()


def test_a_broken_end_is_drawn_as_far_as_it_goes():
    from dataclasses import replace

    path = replace(made(), objective=np.array([3.0, 2.0, 1.0, 1.0, np.nan, np.nan]))
    display = path.plot(ax=Figure().subplots(2, 2))
    assert not display.axes_[2].texts
    display.figure_.draw_without_rendering()


def test_subfigures_are_figures_too(problem):
    figure = Figure(layout="constrained")
    upper, lower = figure.subfigures(2, 1)
    display = TrajectoryDisplay.from_solution(solve(problem, "smo", trajectory=True), ax=upper.subplots())
    assert display.figure_ is upper
    assert not lower.axes
    figure.draw_without_rendering()


def test_an_interrupted_run_says_so(problem):
    def stop(progress):
        raise KeyboardInterrupt

    found = solve(problem, "gradient-flow", trajectory=True, callback=stop, on_interrupt="keep")
    display = TrajectoryDisplay.from_solution(found)
    try:
        assert display.title == f"gradient-flow, n = 16: interrupted ({len(found.trajectory.t) - 1} steps)"
        assert display.figure_._suptitle.get_text() == display.title
        assert len(display.lines_["gap"][0].get_xdata()) == len(found.trajectory.t)
    finally:
        pyplot.close(display.figure_)


def test_descriptions_and_regressions_have_one_colour():
    X, _ = make_moons(12, noise=0.1, random_state=0)
    for posed in (problems.svdd(Gram(X), 0.5), problems.svr(Gram(X), X[:, 0])):
        found = solve(posed, "gradient-flow", trajectory=True)
        display = TrajectoryDisplay.from_solution(found, ax=Figure().subplots(), quantities="alpha")
        assert len({line.get_color() for line in display.lines_["alpha"]}) == 1
        texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
        assert not any("class" in text for text in texts)


def test_a_quantum_run_is_drawn_by_its_steps(problem):
    X, _ = make_moons(8, noise=0.1, random_state=0)
    ball = problems.svdd(Gram(X, gamma=0.5))
    found = solve(ball, "variational-flow", device="emulator", trajectory=True, max_steps=3)
    display = TrajectoryDisplay.from_solution(found, ax=Figure().subplots(2, 2))
    assert len(display.lines_["gap"][0].get_xdata()) == found.cost.steps + 1


# --- where it goes ---------------------------------------------------------------------------------


def test_one_axes_is_divided_and_neighbours_are_left_alone(solution):
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    display = TrajectoryDisplay.from_solution(solution, ax=left)
    assert len(display.axes_) == 4
    assert display.figure_ is figure
    assert not right.lines
    assert not left.axison
    figure.draw_without_rendering()
    box = right.get_position()
    assert all(ax.get_position().x1 < box.x0 for ax in display.axes_)


def test_a_new_figure_is_one_figure_and_nothing_global_is_changed(solution):
    before, open_before = settings(), pyplot.get_fignums()
    display = TrajectoryDisplay.from_solution(solution)
    assert len(pyplot.get_fignums()) == len(open_before) + 1
    pyplot.close(display.figure_)
    TrajectoryDisplay.from_solution(solution, ax=Figure().subplots(2, 2))
    assert pyplot.get_fignums() == open_before
    assert settings() == before


def test_legends_cover_no_data(solution):
    figure = Figure(layout="constrained")
    display = TrajectoryDisplay.from_solution(solution, ax=figure.subplots(2, 2))
    figure.draw_without_rendering()
    legend = display.axes_[0].get_legend().get_window_extent()
    assert not any(legend.overlaps(ax.get_window_extent()) for ax in display.axes_)


# --- what is refused -------------------------------------------------------------------------------


def test_without_a_trajectory_it_says_how_to_keep_one(problem):
    with pytest.raises(ProblemError, match=r"trajectory=True"):
        TrajectoryDisplay.from_solution(solve(problem))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quantities": "gaps"}, "did you mean 'gap'"),
        ({"quantities": ()}, "empty"),
        ({"max_lines": 0}, "max_lines=0"),
        ({"max_lines": True}, "max_lines=True"),
        ({"ax": 3}, "found int"),
        ({"ax": Figure().subplots(1, 3)}, "3 axes, and 4 are drawn"),
        ({"ax": Figure().add_axes((0, 0, 1, 1))}, "1 axes, and 4 are drawn"),
    ],
)
def test_wrong_arguments_are_named(solution, options, words):
    with pytest.raises(ProblemError, match=words):
        solution.trajectory.plot(**options)


def test_without_matplotlib_the_pip_line_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from dualflow import Gram, SolverUnavailable, problems, solve\n"
        "found = solve(problems.svdd(Gram([[0.0], [1.0]])), 'smo', trajectory=True)\n"
        "try:\n    found.trajectory.plot()\nexcept SolverUnavailable as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert 'pip install "dualflow[plot]"' in done.stdout
    assert issubclass(SolverUnavailable, ImportError)


def test_of_many_variables_a_sample_is_drawn():
    rng = np.random.default_rng(0)
    path = made(n=6000)
    alpha = np.minimum(rng.random((6, 6000)) * 2, 1.0)  # half of them end at the upper bound
    path = Trajectory(path.t, alpha, path.multiplier, path.survivors, path.objective, path.gap)
    display = TrajectoryDisplay.from_trajectory(path, ax=Figure().subplots(2, 2))
    assert display.axes_[0].get_ylabel() == "raw weight α, sample: 40 of 6000"
    shown, final = display.shown_, alpha[-1]
    assert len(shown) == 40 == len(display.lines_["alpha"])
    assert (np.diff(shown) > 0).all()
    assert final[shown].min() == final.min()
    assert 18 <= int((final[shown] == 1.0).sum()) <= 22
