"""Circuits in ngspice: their paths and final states, and the effect of faulty parts and of the control."""

import contextlib

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dualflow
import dualflow.testing
from dualflow import AnalogFlow, DualProblem, Gram, Status, problems, solve
from dualflow.analog import Parts, build, simulate
from dualflow.analog.program import INSTALL, installed
from dualflow.testing.by_hand import SIX_LABELS, SIX_POINTS

pytestmark = pytest.mark.skipif(not installed(), reason=f"ngspice is not installed: {INSTALL}")


def six(model="L2-SVM"):
    gram = Gram(SIX_POINTS, "linear")
    return problems.svc(gram, SIX_LABELS, 10.0, loss="squared_hinge") if model == "L2-SVM" else problems.svdd(gram)


def moons(n=8, model="SVDD"):
    X, t = make_moons(n, noise=0.2, random_state=0)
    return problems.svdd(Gram(X)) if model == "SVDD" else problems.svc(Gram(X), 2 * t - 1, 1.0, loss=model)


def square(Q, p=(0.0, 0.0)):
    n = len(Q)
    gram = Gram.precomputed(np.asarray(Q, dtype=float))
    return DualProblem(gram, np.asarray(p, dtype=float), 0.0, np.inf, np.ones(n), 1.0)


@pytest.mark.parametrize("cells", ["multiplier", "translinear"])
@pytest.mark.parametrize("problem", [six(), six("SVDD"), moons()], ids=["six L2", "six SVDD", "moons SVDD"])
def test_ideal_parts_follow_the_gradient_flow_and_rest_at_the_optimum(problem, cells):
    same = {"time_step": 0.5, "t_end": 3.0, "trajectory": True, "tol": 1e-12}
    ours = solve(problem, "analog-flow", cells=cells, growth=1.0, **same).trajectory
    theirs = solve(problem, "gradient-flow", integrator="LSODA", **same).trajectory
    np.testing.assert_allclose(ours.t, theirs.t, rtol=1e-9)
    assert np.abs(ours.alpha - theirs.alpha).max() <= 1e-3
    moved = np.abs(theirs.alpha - theirs.alpha[0]).max()
    assert moved > 0.05  # otherwise the comparison above shows little
    np.testing.assert_allclose(ours.multiplier[1:], theirs.multiplier[1:], rtol=1e-2)
    assert solve(problem, "analog-flow", cells=cells, tol=1e-7).certificate.relative_gap <= 1e-7


def test_lotka_volterra_follows_its_own_path():
    problem = six("SVDD")
    same = {"time_step": 0.5, "t_end": 3.0, "trajectory": True, "tol": 1e-12, "tau": 0.5}
    ours = solve(problem, "analog-flow", flow="lotka-volterra", growth=1.0, **same).trajectory
    theirs = solve(problem, "lotka-volterra", integrator="LSODA", **same).trajectory
    gradient = solve(problem, "gradient-flow", integrator="LSODA", **_without(same, "tau"))
    assert np.abs(ours.alpha - theirs.alpha).max() <= 1e-3
    np.testing.assert_allclose(ours.multiplier, theirs.multiplier, atol=1e-3)
    assert np.abs(ours.alpha - gradient.trajectory.alpha).max() > 5e-3


def _without(options, name):
    return {key: value for key, value in options.items() if key != name}


@pytest.mark.parametrize("model", ["hinge", "soft SVDD"])
def test_boxes_come_to_rest_too(model):
    problem = problems.svdd(Gram(SIX_POINTS, gamma=0.3), nu=0.4) if model == "soft SVDD" else moons(model="hinge")
    for cells in ("multiplier", "translinear"):
        assert solve(problem, "analog-flow", cells=cells).certificate.relative_gap <= 1e-6


def test_the_control_fails_and_resistors_cost_what_they_cost():
    problem = moons(8)
    best = solve(problem, "working-set", tol=1e-12).certificate.objective
    excess = {}
    for name, options in {
        "ideal": {},
        "1 %": {"tolerance": 0.01},
        "0.1 %": {"tolerance": 0.001},
        "control": {"control": "shuffled"},
    }.items():
        runs = [solve(problem, "analog-flow", cells="translinear", random_state=s, **options) for s in range(2)]
        excess[name] = np.median([run.raw_certificate.objective - best for run in runs]) / abs(best)
    assert excess["ideal"] < 1e-6 < excess["0.1 %"] < excess["1 %"] < 0.05 < excess["control"]


def test_a_seed_is_a_circuit():
    problem, options = moons(), {"tolerance": 0.02, "noise": 1e-6, "max_steps": 1}
    runs = [solve(problem, "analog-flow", random_state=s, **options).raw_alpha for s in (1, 1, 2)]
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])


@pytest.mark.parametrize("cells", ["multiplier", "translinear"])
def test_amplifiers_have_their_faults(cells):
    problem = six()
    clean = solve(problem, "analog-flow", cells=cells).raw_alpha
    faulty = solve(problem, "analog-flow", cells=cells, offset=1e-3, gain_bandwidth=1e6, max_steps=3).raw_alpha
    assert 1e-6 < np.abs(faulty - clean).max() < 2e-2


def test_offsets_beyond_the_supply_give_a_bad_answer_or_an_error():
    for cells in ("multiplier", "translinear"):
        with contextlib.suppress(dualflow.DualflowError):
            found = solve(moons(), "analog-flow", cells=cells, offset=20.0, max_steps=1)
            assert np.isfinite(found.raw_alpha).all()
            assert np.abs(found.raw_alpha).max() <= 12.0 / 5.0 + 1e-6
            assert found.certificate.relative_gap > 1e-3


@pytest.mark.parametrize(
    ("problem", "alpha"),
    [
        (square([[1.0, 0.0], [0.0, 3.0]]), [0.75, 0.25]),
        (square([[1e-9, 0.0], [0.0, 3e-9]]), [0.75, 0.25]),
        (square([[1e9, 0.0], [0.0, 3e9]]), [0.75, 0.25]),
        (square([[1.0, 0.0], [0.0, 1e-6]], [0.0, 0.0]), [1e-6, 1.0]),
        (square([[0.0, 0.0], [0.0, 0.0]], [0.0, 1.0]), [0.0, 1.0]),
    ],
    ids=["zeros", "small", "large", "far apart", "no Q"],
)
def test_two_variables_of_any_scale(problem, alpha):
    for cells in ("multiplier", "translinear"):
        found = solve(problem, "analog-flow", cells=cells, tol=1e-8)
        np.testing.assert_allclose(found.alpha, alpha, atol=1e-5)


def test_a_constant_f_and_a_single_point_end_as_optimal():
    found = solve(square([[0.0, 0.0], [0.0, 0.0]]), "analog-flow")
    assert found.status is Status.OPTIMAL
    assert solve(problems.svdd(Gram([[1.0]])), "analog-flow").alpha.tolist() == [1.0]


def test_a_circuit_continues_from_its_held_voltages():
    circuit = build(six(), parts=Parts("translinear"))
    whole, first = simulate(circuit, 4e-3), simulate(circuit, 2e-3)
    second = simulate(circuit, 2e-3, first.held[-1])
    assert np.abs(second.alpha[-1] - whole.alpha[-1]).max() < 1e-4
    assert np.abs(second.alpha[0] - whole.alpha[-1]).max() > 1e-3


def test_the_solver_conforms_on_small_problems():
    report = dualflow.testing.check_solver(AnalogFlow(cells="translinear"), max_n=2)
    assert report.gaps
