"""The benchmarks of evolution: their peers do what they say, and each of their musts can fail."""

import numpy as np
import pytest
from scipy.stats import ttest_ind_from_stats

import dualflow
from benchmarks.evolution import evolution_speed, mierswa_table_2
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


def test_z_is_welchs_statistic():
    z = mierswa_table_2.z_of(12.0, 3.0, (10.0, 4.0))
    assert z == pytest.approx(ttest_ind_from_stats(12.0, 3.0, 20, 10.0, 4.0, 20, equal_var=False).statistic)
    assert mierswa_table_2.z_of(10.0, 0.0, (10.0, 0.0)) == 0
    assert mierswa_table_2.z_of(9.0, 0.0, (10.0, 0.0)) == -np.inf


def cells(memetic=1.0, C=1.0):
    folds = 10.0 + np.tile([-2.0, 2.0], 10)
    errors = dict.fromkeys(mierswa_table_2.METHODS, folds)
    shares = {method: np.full(20, 0.7) for method in mierswa_table_2.EVOLVED} | {"memetic": np.full(20, memetic)}
    return [mierswa_table_2.Cell(name, C, errors, shares, 1.0) for name in mierswa_table_2.GAMMAS]


def paper(misses):
    keys = [(name, 1.0, method) for name in mierswa_table_2.GAMMAS for method in mierswa_table_2.PAPERS[:3]]
    return {key: (20.0 if k < misses else 10.5, 2.0) for k, key in enumerate(keys)}


@pytest.mark.parametrize(
    ("share", "misses", "passed"), [(1.0, 0, True), (1.0, 4, True), (1.0, 5, False), (0.9989, 0, False)]
)
def test_each_must_of_table_2_can_fail(share, misses, passed, capsys):
    assert mierswa_table_2.judge(cells(share), paper(misses)) is passed
    said = capsys.readouterr().out
    assert said.count("MISS") == misses
    assert f"{18 - misses} of 18 EvoSVM cells" in said


def test_without_the_papers_figures_nothing_passes(capsys):
    assert mierswa_table_2.judge(cells(), {}) is False
    assert "not checked, the paper's figures were not given" in capsys.readouterr().out


def test_the_papers_figures_are_read_from_a_file(tmp_path):
    file = tmp_path / "mierswa_table_2.csv"
    file.write_text("set,C,method,error,sd\nliver,1,EvoSVM-G,31.5,7.25\n")
    assert mierswa_table_2.read_paper(file) == {("liver", 1.0, "EvoSVM-G"): (31.5, 7.25)}


def test_coordinate_descent_reaches_the_optimum():
    problem = hinge(C=0.1)
    optimum = dualflow.solve(problem, tol=1e-10).certificate.objective
    assert problem.objective(mierswa_table_2.descent(problem, 200)) == pytest.approx(optimum, rel=1e-6)


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
