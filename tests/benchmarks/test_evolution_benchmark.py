"""The benchmark of evolution's speed: its peers do what they say; and the sets of Mierswa's table are those."""

import pytest

import dualflow
from benchmarks.evolution import evolution_speed
from benchmarks.lib import data


def hinge(n=40, C=1.0):
    X, y = data.load("moons", n)
    return dualflow.problems.svc(dualflow.Gram(X), y, C, fit_intercept=False)


@pytest.mark.parametrize("mutation", evolution_speed.MUTATIONS)
def test_the_loops_evolve_as_the_solver_does(mutation):
    """No worse than the optimum, and after as many generations about as far as the solver on its way there."""
    problem = hinge()
    optimum = dualflow.solve(problem, tol=1e-9).certificate.objective
    options = {"preset": "paper", "patience": 10**9, "generations": 10**9}
    solver = dualflow.EvolutionStrategy(mutation=mutation, **options)
    lanes = [evolution_speed.ours(problem, solver)]
    lanes += [
        loop(problem.dense(), 1.0, mutation) for loop in (evolution_speed.by_individual, evolution_speed.by_variable)
    ]
    for run in lanes:
        start, end = run(1), run(200)
        assert optimum * (1 + 1e-12) <= end <= 0.3 * optimum
        assert end < start


def test_a_set_of_another_size_is_refused(tmp_path):
    rows = "".join(f"{k},{k % 3},{k % 5},{1 if k < 52 else -1}\n" for k in range(87))
    (tmp_path / "lupus.csv").write_text("a,b,c,label\n" + rows)
    X, y = data.load_mierswa("lupus", str(tmp_path))
    assert X.shape == (87, 3)
    assert X[4].tolist() == [4, 1, 4]
    assert (y[:52] == 1).all()
    assert (y[52:] == -1).all()
    (tmp_path / "lupus.csv").write_text("a,b,c,label\n" + rows[: rows.rindex("86")])
    with pytest.raises(ValueError, match="lupus: 87 rows, 3 features, 52 of class"):
        data.load_mierswa("lupus", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"no liver\.csv"):
        data.load_mierswa("liver", str(tmp_path))
