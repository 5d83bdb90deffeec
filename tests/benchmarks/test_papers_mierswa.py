"""Mierswa's paper: the pieces against independent ones; each rule of a verdict can fail. Its figures are made up."""

import argparse

import numpy as np
import pytest
import sklearn.svm
from scipy.optimize import minimize_scalar
from scipy.stats import f_oneway, ttest_ind_from_stats

import dualflow
from benchmarks.lib import data, mierswa_cells, mierswa_table
from benchmarks.lib.claims import write_csv
from benchmarks.lib.mierswa_cells import Cell, Figure
from benchmarks.lib.tables import read
from benchmarks.papers import mierswa


def hinge(n=40, C=1.0):
    X, y = data.load("moons", n)
    return dualflow.problems.svc(dualflow.Gram(X), y, C, fit_intercept=False)


def test_z_is_welchs_statistic():
    z = mierswa_cells.z_of(12.0, 3.0, Figure(10.0, 4.0))
    assert z == pytest.approx(ttest_ind_from_stats(12.0, 3.0, 20, 10.0, 4.0, 20, equal_var=False).statistic)
    assert mierswa_cells.z_of(10.0, 0.0, Figure(10.0, 0.0)) == 0
    assert mierswa_cells.z_of(9.0, 0.0, Figure(10.0, 0.0)) == -np.inf


def test_the_f_test_of_means_and_deviations_is_that_of_the_values():
    values = np.random.default_rng(0).normal([[10], [11], [14]], 3, (3, 20))
    figures = [Figure(group.mean(), group.std(ddof=1)) for group in values]
    assert mierswa_table.f_of(figures) == pytest.approx(f_oneway(*values).pvalue)
    assert mierswa_table.f_of([Figure(3.0, 0.0)] * 2) == 1.0
    assert mierswa_table.f_of([Figure(3.0, 0.0), Figure(4.0, 0.0)]) == 0.0


def test_the_papers_figures_are_read_from_a_file(tmp_path):
    file = tmp_path / "mierswa_table_2.csv"
    file.write_text("set,C,method,error,sd,seconds\nliver,1,EvoSVM-G,31.5,7.25,<1\ncrabs,0.1,PSO,3,1,12\n")
    found = mierswa_cells.read_paper(file)
    assert found == {("liver", 1.0, "EvoSVM-G"): Figure(31.5, 7.25, 0.5), ("crabs", 0.1, "PSO"): Figure(3.0, 1.0, 12.0)}
    file.write_text("set,C,method,error,sd\nliver,1,EvoSVM-G,31.5,7.25\n")
    assert np.isnan(mierswa_cells.read_paper(file)["liver", 1.0, "EvoSVM-G"].seconds)


def test_coordinate_descent_reaches_the_optimum():
    problem = hinge(C=0.1)
    optimum = dualflow.solve(problem, tol=1e-10).certificate.objective
    assert problem.objective(mierswa_cells.descent(problem, 200)) == pytest.approx(optimum, rel=1e-6)


def test_the_biases_are_what_they_say():
    rng = np.random.default_rng(1)
    values, y = rng.normal(size=15), np.where(rng.random(15) < 0.3, -1.0, 1.0)

    def loss(b):
        return np.maximum(0, 1 - y * (values + b)).sum()

    found = loss(mierswa_cells.hinge_bias(values, y))
    assert found == pytest.approx(min(map(loss, np.linspace(-5, 5, 2001))), abs=0.02)
    assert found <= minimize_scalar(loss, bounds=(-5, 5), method="bounded").fun + 1e-9
    # All support vectors of a separable set are on the margin: there the mean of y − f is the bias.
    X = np.array([[0.0], [1.0], [3.0], [4.0], [4.5]])
    signs = np.array([-1.0, -1, 1, 1, 1])
    model = sklearn.svm.SVC(kernel="linear", C=1e6).fit(X, signs)
    alpha = np.zeros(5)
    alpha[model.support_] = np.abs(model.dual_coef_[0])
    b = mierswa_cells.mean_bias(X @ X.T @ (alpha * signs), signs, alpha)
    assert b == pytest.approx(model.intercept_[0], abs=1e-3)
    assert mierswa_cells.mean_bias(np.zeros(3), np.array([1.0, 1, -1]), np.zeros(3)) == pytest.approx(1 / 3)


def test_the_bound_is_vapniks():
    found = Cell("any", 1.0, n=200, square=9.0, training=0.1)
    assert found.bound == pytest.approx(0.1 + ((10 * (np.log(40) + 1) + np.log(80)) / 200) ** 0.5)
    assert found.bound == found.confidence + 0.1
    found.margin = 0.5
    assert found.margin_bound == found.confidence + 0.5
    assert Cell("any", 1.0, n=200, square=1e9).bound > 1  # beyond 2n it stays where it says nothing


FOLDS = 10.0 + np.tile([-2.0, 2.0], 10)


def made(C=1.0, share=1.0, **errors):
    """Cells of all sets with 10 ± 2 % in every method and variant, but for those given."""
    names = [*mierswa_table.OURS, "b = 0", "SVC, balanced", "majority"]
    names += [f"{m}, {bias} b" for m in (*mierswa_table.EVOSVM, "PSO", "b = 0") for bias in ("mean", "hinge")]
    found = dict.fromkeys(names, FOLDS) | {name.replace("_", " "): FOLDS + more for name, more in errors.items()}
    shares = {m: np.full(20, share) for m in (*mierswa_table.EVOSVM, "PSO")}
    seconds = dict.fromkeys(mierswa_table.OURS, 1.0) | {"EvoSVM-G": 9.0, "SVC": 0.1}
    return [Cell(name, C, 100, found, shares, seconds, 3.0, 0.05) for name in mierswa_cells.GAMMAS]


def figures(misses=0, C=1.0, error=30.0):
    """Of all cells 10.5 ± 2 %, but for the first so many of EvoSVM."""
    wrong = [(name, C, m) for name in mierswa_cells.GAMMAS for m in mierswa_table.EVOSVM][:misses]
    keys = [(name, C, m) for name in mierswa_cells.GAMMAS for m in mierswa_table.METHODS]
    times = {"EvoSVM-G": 50.0, "LibSVM": 1.0}
    return {key: Figure(error if key in wrong else 10.5, 2.0, times.get(key[2], 5.0)) for key in keys}


@pytest.mark.parametrize(("misses", "verdict"), [(0, "match"), (4, "match"), (5, "mismatch")])
def test_the_evosvm_cells_of_a_c_can_fail(misses, verdict):
    (row,) = mierswa_table.evosvm_rows(made(), figures(misses))
    assert (row.verdict, row.seed) == (verdict, 0)
    assert f"{18 - misses} of 18 within" in row.gets


def test_a_miss_has_the_first_variant_that_explains_it():
    cells = made()
    cells[0].errors["EvoSVM-G, mean b"] = FOLDS + 20
    cells[0].errors["SVC, balanced"] = FOLDS + 20
    rows = list(mierswa_table.table_rows(cells, figures(2)))
    assert [row.verdict for row in rows] == ["mismatch"] + ["match"] * 5
    assert rows[0].why == "G: with b = mean of y − f; S: classes balanced"
    assert "in 4 of 6" in rows[0].gets
    (lost,) = (row.why for row in mierswa_table.table_rows(made(), figures(1)) if row.why)
    assert lost == f"G: {mierswa_table.NONE}"
    by_set = {(line["set"], line["method"]): line for line in mierswa_table.rows(cells, figures(2))}
    assert by_set["liver", "EvoSVM-G"]["why"] == "with b = mean of y − f"
    assert by_set["liver", "EvoSVM-G"]["paper_error"] == 30.0
    assert by_set["liver", "EvoSVM-H"]["why"] == ""
    assert "z" not in by_set["liver", "b = 0"]


def test_default_errors_are_counted():
    (row,) = mierswa_table.default_rows(made(0.01), figures(0, 0.01))
    assert row.verdict == "match"  # the paper's 10.5 and our 10 are both the majority's 10
    cells = made(0.01, majority=20.0, **{f"EvoSVM-{m},_mean_b": 20.0 for m in "GSH"})
    (row,) = mierswa_table.default_rows(cells, figures(18, 0.01))
    assert row.verdict == "mismatch"
    assert (row.says, row.gets) == ("the default error in 18 of 18 cells", "b = 0: 0 of 18; b = mean of y − f: 18")
    assert list(mierswa_table.default_rows(made(1.0), {})) == []


def test_f_tests_times_and_shares_can_fail():
    assert [row.verdict for row in mierswa_table.f_rows(made(), figures())] == ["match"]
    (row,) = mierswa_table.f_rows(made(), figures(1))
    assert (row.verdict, row.why) == ("mismatch", "decided: liver by its EvoSVM-G")
    assert (row.says, row.gets) == ("p < 0.05 on liver", "p < 0.05 on no set")
    assert [row.verdict for row in mierswa_table.time_rows(made(), figures())] == ["match"]
    slow = made()
    for found in slow:
        found.seconds["PSO"] = 100.0
    assert [row.verdict for row in mierswa_table.time_rows(slow, figures())] == ["mismatch"]
    assert [row.verdict for share in (1.0, 0.98) for row in mierswa_table.share_rows(made(share=share))] == [
        "match",
        "mismatch",
    ]
    assert [*mierswa_table.f_rows(made(), {}), *mierswa_table.time_rows(made(), {})] == []


def test_the_bound_can_fail_to_hold_and_to_guide():
    high, low = made(1.0), made(0.01)
    assert [row.verdict for row in mierswa.bound_rows([*high, *low])] == ["match", "match"]
    for found in high:
        found.errors = found.errors | {"b = 0": FOLDS - 5}
        found.square = 90.0
    assert [row.verdict for row in mierswa.bound_rows([*high, *low])] == ["match", "mismatch"]
    for found in high:
        found.errors = found.errors | {"b = 0": np.full(20, 100.0)}
        found.square = 0.0
    assert next(mierswa.bound_rows([*high, *low])).verdict == "mismatch"


def test_figure_4_is_told_from_other_mutations(monkeypatch):
    assert [row.verdict for row in mierswa.mutation_rows(1000)] == ["match", "match"]
    right = mierswa.mutated

    def switching(alpha, C, children, rng):
        found = right(alpha, C, children, rng)
        return np.where((found > 0) & (found != 0.5), C, found)

    def often(alpha, C, children, rng):
        return np.array([right(child, C, 1, rng)[0] for child in right(alpha, C, children, rng)])  # > 0 ↦ 0 ↦ uniform

    for wrong, verdicts in ((switching, ["match", "mismatch"]), (often, ["mismatch", "mismatch"])):
        monkeypatch.setattr(mierswa, "mutated", wrong)
        assert [row.verdict for row in mierswa.mutation_rows(1000)] == verdicts


def test_quick_needs_no_data_and_says_what_it_stands_for(tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("DUALFLOW_DATA", raising=False)
    options = argparse.Namespace(quick=True, csv=tmp_path, plot=tmp_path, data=None, paper=None, only="")
    found = mierswa.find(options)
    assert "the paper's figures were not given" in capsys.readouterr().out
    assert all("stand-in: 75 points of iris" in f.gets for f in found if f.where != "figure 4")
    assert {f.where for f in found} == {"figure 4", "table 2", "section 4", "equation 5"}
    lines = read(tmp_path / "papers" / "mierswa_rows.csv")
    assert {line["set"] for line in lines} == {"iris"}
    assert {p.name for p in tmp_path.glob("*.png")} == {"mierswa_bound.png", "mierswa_figure_4.png"}


def test_sets_that_are_not_at_hand_are_left_out_and_named(tmp_path, capsys):
    rows = "".join(f"{k},{k % 3},{k % 5},{1 if k < 52 else -1}\n" for k in range(87))
    (tmp_path / "lupus.csv").write_text("a,b,c,label\n" + rows)
    assert list(mierswa.at_hand(["liver", "lupus"], str(tmp_path))) == ["lupus"]
    said = capsys.readouterr().out
    assert "liver is not at hand, its rows are left out: no liver.csv in" in said
    assert "lupus" not in said
    (tmp_path / "lupus.csv").write_text("a,b,c,label\n1,2,3,1\n2,3,4,-1\n")
    with pytest.raises(ValueError, match="87 rows"):  # another set of that name is no missing one
        list(mierswa.at_hand(["lupus"], str(tmp_path)))
    options = argparse.Namespace(quick=False, csv=None, plot=None, data=str(tmp_path), paper=None, only="liver")
    assert {f.where for f in mierswa.find(options)} == {"figure 4"}


def test_the_table_is_drawn(tmp_path):
    from benchmarks.lib.mierswa_plots import draw_table

    draw_table([*made(), *made(0.1)], figures() | figures(C=0.1), tmp_path)
    draw_table([], figures(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["mierswa_table_2.png"]
    write_csv(tmp_path / "rows.csv", list(mierswa_table.rows(made(), figures())))
