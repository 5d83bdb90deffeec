"""Reports of a run: circuits dominated by noise, windows beyond the ancillas, advice for a sampled run."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

import dualflow
from dualflow import ProblemError, Status
from dualflow.solvers.registry import list_solvers, solver_class


def moons(n=8, loss="hinge"):
    X, y = make_moons(40, noise=0.2, random_state=0)
    return dualflow.problems.svc(dualflow.Gram(X[:n]), np.where(y[:n] > 0, 1.0, -1.0), 1.0, loss=loss)


@pytest.mark.parametrize("shots", [None, 4000])
def test_the_box_flow_reports_that_noise_dominates(shots):
    run = {"shots": shots, "random_state": 0}
    assert (
        dualflow.solve(moons(), "variational-lotka-volterra", device="null", **run).raw_status is Status.NOISE_DOMINATED
    )
    found = dualflow.solve(moons(), "variational-lotka-volterra", device="emulator", **run)
    assert found.raw_status is not Status.NOISE_DOMINATED


def test_quantum_solvers_run_on_aer_by_default():
    classes = [solver_class(info.name) for info in list_solvers() if info.quantum]
    fields = {cls.name: cls.__dataclass_fields__["device"].default for cls in classes}
    assert {"hamiltonian-descent", "hamiltonian-adiabatic", "variational-dqc"} < set(fields)
    assert {name: device for name, device in fields.items() if device != "aer"} == {}


@pytest.mark.parametrize("name", ["hamiltonian-schrodingerisation", "hamiltonian-lchs"])
def test_resolved_windows_stay_within_what_the_ancillas_resolve(name):
    problem = moons(loss="squared_hinge")
    free, held = (
        dualflow.solve(problem, name, device="emulator", windows=w, max_steps=30).provenance for w in (None, "resolved")
    )
    assert free["longest_window"] > 4 * free["resolved"]
    assert held["longest_window"] <= held["resolved"] * (1 + 1e-12)
    with pytest.raises(ProblemError, match=r"windows.*'resolved'"):
        solver_class(name)(windows="solved")


@pytest.mark.parametrize("shots", [2000, "adaptive"])
def test_resolved_windows_with_shots(shots):
    solver = solver_class("hamiltonian-lchs")(device="emulator", shots=shots, windows="resolved", shot_budget=30_000)
    found = dualflow.solve(moons(loss="squared_hinge"), solver, random_state=0)
    assert 0 < found.cost.shots <= 30_000
    assert found.provenance["longest_window"] <= found.provenance["resolved"] * (1 + 1e-12)


def test_a_sampled_fit_that_three_steps_leave_far_off_is_advised_to_take_more():
    X, y = make_moons(16, noise=0.2, random_state=0)
    options = {"device": "emulator", "shots": 100}
    for solver, own_options, advice in (
        ("variational-lotka-volterra", options, "The number of steps binds"),
        ("variational-lotka-volterra", {"device": "emulator"}, "The steps bind: raise max_steps"),
    ):
        model = dualflow.SVC(solver=solver, solver_options=own_options, refine=False, max_steps=3, random_state=0)
        with pytest.warns(ConvergenceWarning) as caught:
            model.fit(X, y)
        (message,) = [str(w.message) for w in caught if "relative gap" in str(w.message)]
        assert advice in message
        assert "scale the features" not in message
        assert "lower C" not in message
