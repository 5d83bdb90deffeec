"""The line is the run's raw excess over a reference, the dashed line its shot floor; controls are grey beside it."""

import numpy as np
import pytest

from dualflow import Gram, ProblemError, QuantumRunDisplay, problems, solve

SHOTS = 500


@pytest.fixture(scope="module")
def problem():
    return problems.svdd(Gram(np.random.default_rng(0).normal(size=(6, 2)), gamma=0.5))


def run(problem, device="emulator", **options):
    options = {"shots": SHOTS, "random_state": 0, "trajectory": True, "refine": False, "max_steps": 8} | options
    return solve(problem, "variational-flow", device=device, **options)


@pytest.fixture(scope="module")
def found(problem):
    return run(problem)


@pytest.fixture
def ax():
    return pytest.importorskip("matplotlib.figure").Figure(layout="constrained").subplots()


def test_line_floor_and_controls(problem, found, ax):
    null = run(problem, "null")
    display = QuantumRunDisplay.from_solution(found, controls=[null], ax=ax)
    best = solve(problem, "cvxopt", tol=1e-12, refine=True).certificate
    x, drawn = display.line_.get_data()
    assert list(x) == list(range(found.cost.steps + 1))
    objectives = [problem.objective(problem.project(alpha)) for alpha in found.trajectory.alpha]
    np.testing.assert_allclose(drawn, (np.array(objectives) - best.objective) / abs(best.objective), rtol=1e-4)
    assert drawn[-1] == pytest.approx(
        (found.raw_certificate.objective - best.objective) / abs(best.objective), rel=1e-4
    )
    draws = [np.random.default_rng(seed).multinomial(found.cost.shots, best.alpha) for seed in range(11)]
    floor = np.median([problem.objective(count / found.cost.shots) for count in draws]) - best.objective
    # Both optima are exact to 1e-10 only, so that a draw may differ in one count of thousands.
    assert display.floor_.get_ydata()[-1] == pytest.approx(floor / abs(best.objective), rel=0.02)
    assert list(found.trajectory.shots[:3]) == [SHOTS, 2 * SHOTS, 3 * SHOTS]  # the floor follows the shots spent
    assert found.trajectory.shots[-1] == found.cost.shots
    draws = [np.random.default_rng(seed).multinomial(SHOTS, best.alpha) for seed in range(11)]
    first = np.median([problem.objective(count / SHOTS) for count in draws]) - best.objective
    assert display.floor_.get_data()[0][0] == 0
    assert display.floor_.get_ydata()[0] == pytest.approx(first / abs(best.objective), rel=0.02)
    assert list(display.controls_) == ["null"]
    assert display.controls_["null"].get_color() == "#8A8A8A"
    its_end = (null.raw_certificate.objective - best.objective) / abs(best.objective)
    assert display.controls_["null"].get_ydata()[-1] == pytest.approx(its_end, rel=1e-4)
    assert [text.get_text() for text in display.legend_.get_texts()] == [
        "variational-flow, emulator",
        "shot floor of the shots so far, a scale and no bound",
        "null",
    ]
    assert f"{found.cost.shots:,} shots: step limit" in ax.get_title()


def test_exact_distributions_have_no_floor(problem, ax):
    display = QuantumRunDisplay.from_solution(run(problem, shots=None), ax=ax)
    assert display.floor_ is None
    assert "exact distributions" in ax.get_title()


def test_a_given_reference_is_the_zero_of_the_excess(found, problem, ax):
    worse = solve(problem, "frank-wolfe", max_steps=5)
    display = QuantumRunDisplay.from_solution(found, reference=worse, ax=ax)
    f = worse.certificate.objective
    expected = np.maximum(found.trajectory.objective - f, 1e-16 * abs(f)) / abs(f)
    np.testing.assert_allclose(display.line_.get_ydata(), np.maximum(expected, 1e-16), rtol=1e-9)


def test_refusals_say_what_is_missing(found, problem):
    with pytest.raises(ProblemError, match="trajectory=True"):
        QuantumRunDisplay.from_solution(run(problem, trajectory=False))
    with pytest.raises(ProblemError, match="one of 'smo'"):
        QuantumRunDisplay.from_solution(solve(problem, "smo", trajectory=True))
    with pytest.raises(ProblemError, match=r"controls\[0\] .* found int"):
        QuantumRunDisplay.from_solution(found, controls=[3])
    other = problems.svdd(Gram([[0.0], [1.0], [2.0]], gamma=0.5))
    with pytest.raises(ProblemError, match="reference has 6 variables, this solution 3"):
        QuantumRunDisplay.from_solution(found, controls=[run(other)])


def test_a_control_with_the_states_of_the_run_is_drawn_on_it(found, problem, ax):
    display = QuantumRunDisplay.from_solution(found, controls=[run(problem, "classical-sampler")], ax=ax)
    line = display.controls_["classical-sampler"]
    assert line.get_zorder() > display.line_.get_zorder()
    assert line.get_marker() != "None"
    np.testing.assert_array_equal(line.get_ydata(), display.line_.get_ydata())
    assert line.get_label() == "classical-sampler, the same states as emulator"
