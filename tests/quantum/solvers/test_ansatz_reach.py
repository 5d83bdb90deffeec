"""`ansatz_reach`: the least objective over an ansatz' states, against a scan of all its angles."""

import numpy as np
import pytest
from qiskit.circuit.library import real_amplitudes
from qiskit.quantum_info import Statevector

from dualflow import Gram, SolverMismatch, ansatz_reach, problems, solve

X = np.random.default_rng(0).normal(size=(4, 2))


def ball():
    return problems.svdd(Gram(X, "rbf", gamma=0.5))


def test_the_least_objective_is_that_of_a_scan():
    problem, circuit = ball(), real_amplitudes(2, reps=0)  # two RY: product states only
    found = ansatz_reach(problem, circuit, starts=4)
    grid = np.linspace(0.0, np.pi, 41)
    scanned = [
        problem.objective(Statevector(circuit.assign_parameters([a, b])).probabilities()) for a in grid for b in grid
    ]
    # The grid's spacing h bounds what a scan misses by ½ h² times the curvature, at most 1 here.
    assert min(scanned) - 0.5 * (np.pi / 40) ** 2 <= found.objectives[0] <= min(scanned) + 1e-12
    assert found.certificate.objective == pytest.approx(found.objectives[0], abs=1e-12)
    least = solve(problem, "cvxopt").certificate.objective
    assert found.objectives[0] > least + 1e-3
    assert not found.reaches(1e-6)
    assert "no state within" in str(found)
    # A run with this ansatz ends at the same state.
    run = solve(problem, "variational-flow", device="emulator", ansatz=circuit, random_state=1, refine=False)
    assert run.raw_certificate.objective == pytest.approx(found.objectives[0], rel=1e-5)


# Those that hold every point of the simplex.
@pytest.mark.parametrize("ansatz", ["hardware-efficient", "tree"])
def test_an_ansatz_that_holds_the_optimum_reaches_it(ansatz):
    found = ansatz_reach(ball(), ansatz, starts=3)
    assert found.reaches(1e-5)
    assert found.certificate.objective == pytest.approx(solve(ball(), "cvxopt").certificate.objective, abs=1e-8)


def test_a_problem_that_the_ansatz_does_not_take():
    hinge = problems.svc(Gram(X, "rbf", gamma=0.5), [1, -1, 1, -1], C=1.0)
    with pytest.raises(SolverMismatch):
        ansatz_reach(hinge)
