"""Reports of runs with circuits: the limiting factor, the final circuit, the fidelity of the device."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from dualflow import Gram, compare, final_circuit, list_solvers, problems, solve
from dualflow.quantum.solvers.ansatz import ANSAETZE
from dualflow.report.columns import QUANTUM, limits

X = [[0.0, 0.1], [1.0, 0.3], [0.2, 2.0], [3.0, 1.0], [2.0, 2.5], [1.5, 0.7], [0.4, 1.4], [2.6, 0.2]]


def ball(kernel="rbf"):
    return problems.svdd(Gram(X, kernel, gamma=1.0) if kernel == "rbf" else Gram(X, kernel))


@pytest.mark.parametrize(("shots", "steps"), [pytest.param(10, 100, marks=pytest.mark.slow), (1000, 50), (10**8, 10)])
def test_an_average_of_steps_is_advised_to_take_more_of_them_which_helps_more_than_shots(shots, steps):
    def run(shots, steps, seed):
        options = {"shots": shots, "steps": steps, "random_state": seed}
        return solve(ball(), "hamiltonian-dilation", device="emulator", tol=1e-12, **options)

    found = run(shots, steps, 0)
    assert "Raise steps first" in found.advice
    longer, louder = (
        np.median([run(a, b, seed).certificate.gap for seed in range(5)])
        for a, b in ((shots, 4 * steps), (4 * shots, steps))
    )
    assert longer < louder


@pytest.mark.parametrize(
    ("solver", "shots", "steps", "binds"),
    [
        ("variational-flow", 1000, 10, "steps"),
        pytest.param("variational-flow", 100, 100, "shots", marks=pytest.mark.slow),
        ("variational-lotka-volterra", 1000, 10, "steps"),
        pytest.param("variational-lotka-volterra", 100, 100, "shots", marks=pytest.mark.slow),
    ],
)
def test_a_flow_is_advised_to_take_what_helps_it_more(solver, shots, steps, binds):
    """Each option is raised four times; the noise of one circuit compared with the gap predicts which helps more."""
    posed = ball() if solver == "variational-flow" else problems.svc(Gram(X, gamma=1.0), [1, -1] * 4, C=1.0)

    def run(shots, steps, seed):
        return solve(posed, solver, device="emulator", shots=shots, steps=steps, random_state=seed, tol=1e-12)

    assert f"Raise {binds} first" in run(shots, steps, 0).advice
    longer, louder = (
        np.median([run(a, b, seed).certificate.gap for seed in range(5)])
        for a, b in ((shots, 4 * steps), (4 * shots, steps))
    )
    assert (longer < louder) == (binds == "steps")


@pytest.mark.parametrize("solver", ["variational-flow", "variational-lotka-volterra"])
def test_a_flow_of_few_shots_is_advised_to_take_more(solver):
    posed = ball() if solver == "variational-flow" else problems.svc(Gram(X, gamma=1.0), [1, -1] * 4, C=1.0)
    found = solve(posed, solver, device="emulator", shots=100, steps=100, random_state=0, tol=1e-12)
    assert "Raise shots first" in found.advice


def test_a_flow_that_noise_has_nearly_stopped_is_advised_to_try_each():
    posed = problems.svc(Gram(X, gamma=1.0), [1, -1] * 4, C=1.0)
    options = {"device": "emulator", "shots": 1000, "steps": 40, "random_state": 0, "tol": 1e-9}
    found = solve(posed, "variational-lotka-volterra", **options)
    assert "bind alike" in found.advice
    assert "Raise each, steps and shots" in found.advice
    assert 0.2 < found.provenance["shot_noise"] / found.certificate.gap < 0.8


def test_advice_names_the_device_the_budget_and_the_ansatz():
    wrong = solve(ball(), "variational-flow", device="control:random", shots=2000, steps=4, random_state=0)
    assert wrong.provenance["fidelity"]["low"]
    assert "The device binds" in wrong.advice
    spent = solve(ball(), "variational-flow", device="emulator", shots=100, max_shots=350, random_state=0)
    assert spent.status.name == "BUDGET_SPENT"
    assert "budget binds" in spent.advice
    few = {"ansatz": "hardware-efficient", "layers": 0}
    ansatz = solve(ball(), "variational-flow", device="emulator", random_state=0, max_steps=300, **few)
    assert "The ansatz binds" in ansatz.advice
    assert solve(ball()).advice == ""


def test_a_state_that_never_left_uniform_weights_is_noise_dominated():
    """Exact uniform outcomes allow no step: the circuit of the state is uniform, those of its trials are not."""
    found = solve(ball(), "variational-flow", device="null", max_steps=6, random_state=0)
    assert found.status.name == "NOISE_DOMINATED"
    assert solve(ball(), "variational-flow", device="emulator", max_steps=2).status.name == "STEP_LIMIT"


@pytest.mark.parametrize("solver", ["hamiltonian-dilation", "hamiltonian-lchs", "hamiltonian-schrodingerisation"])
def test_the_final_circuit_of_a_sampled_average_says_that_it_was_not_sent(solver):
    name = "windows" if solver != "hamiltonian-dilation" else "steps"
    found = solve(ball(), solver, device="emulator", shots=1e3, random_state=0, **{name: 3})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the last circuit that was sent need not be near the average
        assert "the run did not send it" in final_circuit(found).metadata["origin"]


@pytest.mark.parametrize("shots", [None, 1000])
@pytest.mark.parametrize("ansatz", ANSAETZE)
def test_the_final_circuit_of_a_flow_says_that_the_answer_is_a_mean(ansatz, shots):
    found = solve(
        ball(), "variational-flow", device="emulator", ansatz=ansatz, shots=shots, random_state=0, max_steps=8
    )
    about = final_circuit(found).metadata
    own = found.extras["parameter_alpha"]
    distance = 0.5 * np.abs(found.raw_alpha - own).sum() / own.sum()
    assert about["distance_from_measured"] == pytest.approx(distance)
    if shots is None:
        assert "origin" not in about
        assert distance < 1e-9
    else:
        assert "the answer is the mean" in about["origin"]
        assert distance > 1e-4


def test_an_error_bar_needs_one_seed_for_each_run():
    """An int gives the same draw to all runs; None, or one generator, gives each run its own, as do folds."""

    def objectives(states):
        options = {"device": "emulator", "shots": 50, "steps": 3}
        runs = [solve(ball(), "variational-flow", random_state=state, **options) for state in states]
        return len({run.certificate.objective for run in runs})

    assert objectives([0] * 5) == 1
    assert objectives(range(5)) == objectives([None] * 5) == objectives([np.random.default_rng(0)] * 5) == 5
    for kind in (np.random.PCG64, np.random.MT19937, np.random.SFC64):
        rng = np.random.Generator(kind(5))
        assert objectives([rng] * 3) == 3
        assert objectives([np.random.Generator(kind(5)), np.random.Generator(kind(5))]) == 1
    assert any("seeds=5 gives sampled rows error bars (--seeds 5 on the command line)" in line for line in limits(1e-6))


def test_a_wide_relative_gap_stands_beside_its_two_sides():
    far = solve(problems.svc(Gram(X, "linear"), [1, -1] * 4, C=10.0), "gradient-flow", max_steps=1).certificate
    assert far.relative_gap > 0.1
    assert f"bound {far.lower_bound:.10g}" in str(far)
    assert "objective" in far.sides
    assert solve(ball()).certificate.sides == ""


def test_a_comparison_shows_the_fidelity_of_its_devices():
    y = [0, 1] * 4
    found = compare(X, y, "svdd", ["variational-flow"], devices=["emulator"], shots=200)
    (row,) = [row for row in found.rows if row.role == "emulated"]
    assert 0.9 < row.fidelity < 1.1
    (column,) = [column for column in QUANTUM if column.header == "fidelity"]
    assert column.cell(row) == f"{row.fidelity:.2f}"


@pytest.mark.parametrize("solver", [s.name for s in list_solvers() if s.quantum])
def test_provenance_reports_that_sampled_runs_have_another_method(solver):
    make = {"hhl": problems.least_squares, "variational-lotka-volterra": problems.svc}
    make |= {"hamiltonian-descent": problems.svc, "hamiltonian-adiabatic": problems.svc}
    make |= {"quantum-interior-point": problems.svc}
    gram = Gram(X, "linear") if solver == "quantum-interior-point" else Gram(X, gamma=2.0)
    problem = make[solver](gram, [-1, 1] * 4, C=1.0) if solver in make else ball()
    said = []
    for shots in (None, 99):
        if shots is not None and solver in ("hhl", "variational-dqc"):
            continue
        given = {} if shots is None else {"shots": shots}
        run = solve(problem, solver, device="emulator", max_steps=1, random_state=0, **given)
        said.append(run.provenance["method"])
        assert run.raw_summary().endswith(said[-1])
    assert len(set(said)) == len(said)
    assert all(said)


def test_a_linear_solver_s_circuits_are_compared_too():
    problem = problems.least_squares(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=1.0)
    found = solve(problem, "hhl", device="emulator")
    assert found.provenance["fidelity"]["slope"] == pytest.approx(1.0)
    assert found.provenance["fidelity"]["circuits"] == 2
