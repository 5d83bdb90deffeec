"""A solver walked by hand takes the driver's way; the benchmarks that walk run."""

import numpy as np

from benchmarks.lib.circuit_problems import make_problem
from benchmarks.lib.stepping import Walk
from benchmarks.quantum import variational_exact, variational_sampled
from dualflow import solve
from dualflow.quantum.solvers.variational_flow import VariationalFlow


def test_a_walk_is_the_drivers_run():
    problem, solver = make_problem("moons", 8, "SVDD"), VariationalFlow("emulator", shots=500, steps=6)
    walk = Walk(problem, solver, seed=3)
    while not walk.finished:
        before = walk.state
        walk.look()
        assert walk.state is before
        walk.step()
    solution = solve(problem, solver, tol=1e-300, random_state=3, refine=False)
    assert np.array_equal(walk.alpha, solution.raw_alpha)
    assert walk.cost["shots"] == solution.cost.shots
    assert np.array_equal(walk.extras["parameter_alpha"], solution.extras["parameter_alpha"])


def test_a_walk_begins_where_it_is_told():
    problem, theta = make_problem("moons", 8, "SVDD"), np.full(7, 1.0)
    walk = Walk(problem, VariationalFlow("emulator"), theta=theta)
    assert np.array_equal(walk.state.theta, theta)


def test_a_sampled_run_is_walked_to_its_end():
    cell = variational_sampled.Cell.make(16, "moons", "SVDD")
    found = variational_sampled.run(cell, {"device": "emulator", "ansatz": "tree", "shots": 1000, "steps": 10}, 0)
    assert (found["steps"], found["circuits"], found["shots"]) == (10, 11, 11_000)
    assert 0 <= found["excess"] < 0.1


def test_the_flow_beside_the_faithful_circuits_begins_at_their_start():
    problem, start = make_problem("moons", 8, "SVDD"), np.full(8, 1 / 8)
    path = variational_exact.gradient_flow(problem, start)
    assert len(path) == 1 + variational_exact.T_END
    assert np.array_equal(path[0], start)
    values = [problem.objective(alpha) for alpha in path]
    assert (np.diff(values) < 0).all()
