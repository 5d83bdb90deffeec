"""`dualflow train`, `predict` and `check`: from a table to a saved model, its predictions and its certificate."""

from __future__ import annotations

import csv
import datetime
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC, NuSVC
from typer.testing import CliRunner

import dualflow
from dualflow.cli import app
from dualflow.cli.training_table import read_model
from dualflow.persistence import container
from tests.cli.test_cli import refused, run, table, write

COMMAND = [sys.executable, "-c", "from dualflow_command import main; main()"]
QUICK = ("--solvers", "working-set,smo", "--max-n", "16", "--problems", "hinge")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def people(n: int, seed: int) -> tuple[np.ndarray, list[str]]:
    """Rows of size, age, colour and town with gaps, and their labels."""
    rng = np.random.default_rng(seed)
    rows = np.empty((n, 4), dtype=object)
    rows[:, 0], rows[:, 1] = rng.normal(170, 10, n).round(2), rng.integers(18, 80, n).astype(float)
    rows[:, 2], rows[:, 3] = rng.choice(["rot", "grün", "blau"], n), rng.choice(["Köln", "Bonn; Stadt"], n)
    clear = (rows[:, 0].astype(float) - 170) / 10 + (rows[:, 2] == "rot") + 0.3 * rng.normal(size=n)
    rows[rng.random((n, 4)) < 0.06] = None
    return rows, np.where(clear > 0.4, "ja", "nein").tolist()


def german(path: str, rows: np.ndarray, labels: list[str] | None) -> None:
    """A CSV as a German spreadsheet writes it: a BOM, semicolons, decimal commas, umlauts, gaps."""
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file, delimiter=";", lineterminator="\r\n")
        writer.writerow(["Größe", "Alter", "Farbe", "Wohnort", *(["Urteil"] if labels else [])])
        for k, row in enumerate(rows):
            cells = ["" if v is None else str(v).replace(".", ",") for v in row]
            writer.writerow([*cells, *([labels[k]] if labels else [])])


def in_scikit_learn(rows: np.ndarray, labels: list[str], new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and decision values of scikit-learn's own pipeline, for new rows."""
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = make_pipeline(
        SimpleImputer(missing_values=None, strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    figures = [np.array([[np.nan if v is None else v for v in row[:2]] for row in some], float) for some in (rows, new)]
    numbers.fit(figures[0])
    texts.fit(rows[:, 2:])
    X, Z = (
        np.hstack([numbers.transform(figure), texts.transform(some[:, 2:]).toarray()])
        for figure, some in zip(figures, (rows, new), strict=True)
    )
    model = SVC(C=3.0, tol=1e-10).fit(X, labels)
    return model.predict(Z), model.decision_function(Z)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=250, encoding="utf-8")


def test_a_new_users_way_from_a_csv_to_a_report_a_model_and_predictions(folder):
    """In seconds: the suite's time limit for one test is the five minutes it may take."""
    rows, labels = people(150, 0)
    new, _ = people(40, 1)
    new[3, 2] = "violett"
    german("daten.csv", rows, labels)
    german("neu.csv", new, None)
    # What trains and what predicts are processes of their own; the rest says the same in this one.
    mistaken = run("train", "daten.csv")
    assert mistaken.exit_code == 2
    assert mistaken.stderr.startswith("Error: daten.csv, line 2, Größe: '")
    assert mistaken.stderr.endswith("if that is a decimal comma, add --decimal ,\n")
    compared = run("compare", "daten.csv", "--decimal", ",", *QUICK)
    assert compared.exit_code == 0, compared.stderr
    assert "<!DOCTYPE html>" in (folder / "dualflow-report.html").read_text(encoding="utf-8")
    trained = command("train", "daten.csv", "--decimal", ",", "--C", "3", "--cv", "5", "--out", "urteil.dualflow")
    assert trained.returncode == 0, trained.stderr
    lines = {line[:24].strip(): line[24:].strip() for line in trained.stdout.splitlines()}
    assert (lines["points"], lines["features, encoded"], lines["classes"]) == ("150", "7", "ja, nein")
    assert lines["certified relative gap"].endswith("optimal to 1e-06")
    assert float(lines["accuracy, 5 folds"].split()[0]) > 0.7
    checked = run("check", "urteil.dualflow", "daten.csv")
    assert checked.exit_code == 0, checked.stderr
    assert "its training points" in checked.stdout
    predicted = command("predict", "urteil.dualflow", "neu.csv", "--decision", "--out", "urteile.csv")
    assert predicted.returncode == 0, predicted.stderr
    assert predicted.stderr.count("\n") == 1
    assert "Farbe: 'violett' (1)" in predicted.stderr
    with open("urteile.csv", newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    expected, decision = in_scikit_learn(rows, labels, new)
    assert [row["prediction"] for row in found] == expected.tolist()
    np.testing.assert_allclose([float(row["decision"]) for row in found], decision, atol=1e-5)


def trained(folder: Path, *words: object, data: str = "data.csv") -> dict:
    result = run("train", data, "--json", *words)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_what_is_trained_is_what_the_file_holds(folder):
    write(folder, table(60))
    facts = trained(folder, "--C", "7", "--gamma", "0.5", "--out", "m")
    assert facts["parameters"] == {"C": 7.0, "kernel": "rbf", "gamma": 0.5}
    assert facts["relative_gap"] <= 1e-6
    model, known = read_model(folder / "m")
    assert facts["support_vectors"] == len(model.support_)
    assert known.written == ("down", "up")
    assert dualflow.load("m").n_features_in_ == facts["features"] == 2  # of the points, as the encoding makes them
    result = run("predict", "m", "data.csv", "--json")
    said = json.loads(result.stdout)
    assert said["labelled"] == said["rows"] == 60
    right = [a == line.rpartition(",")[2] for a, line in zip(said["predictions"], table(60).split()[1:], strict=True)]
    assert said["accuracy"] == np.mean(right)


def test_labels_come_back_as_they_were_written(folder):
    write(folder, "a,b\n" + "".join(f"{k},{'+1' if k > 9 else '-1'}\n" for k in range(20)))
    assert trained(folder, "--C", "1000")["classes"] == ["-1", "+1"]
    assert run("predict", "model.dualflow", "data.csv").stdout.split() == ["prediction", *["-1"] * 10, *["+1"] * 10]


def test_columns_are_found_by_name_and_the_label_need_not_be_there(folder):
    write(folder, table(60))
    trained(folder)
    first = run("predict", "model.dualflow", "data.csv", "--decision").stdout
    rows = [line.split(",") for line in table(60).splitlines()]
    write(folder, "\n".join(f"{b};x;{a}" for a, b, _ in rows).replace("x", "other", 1), "turned.csv")
    result = run("predict", "model.dualflow", "turned.csv", "--decision")
    assert result.stdout == first
    assert result.stderr == "Columns that the model does not use: other.\n"
    write(folder, "a;c\n1;2\n", "lacking.csv")
    refused(run("predict", "model.dualflow", "lacking.csv"), "lacking.csv lacks column 'b'", "its first line is a, c")


def test_columns_that_the_model_does_not_use_have_their_reason(folder):
    lines = table(60).splitlines()
    rows = [f"C-{k},x,,{line}" for k, line in enumerate(lines[1:])]
    write(folder, "\n".join([f"customer,signup,nothing,{lines[0]}", *rows]) + "\n")
    assert run("train", "data.csv", "--drop", "signup").exit_code == 0
    said = "Columns that the model does not use: customer (left out in training), signup (--drop), nothing (empty in"
    for result in (run("check", "model.dualflow", "data.csv"), run("predict", "model.dualflow", "data.csv")):
        assert result.exit_code == 0
        assert result.stderr.startswith(f"{said} training).\n")
    end = "predictions: p.csv, in the order of data.csv; --id customer copies that column\n"
    assert run("predict", "model.dualflow", "data.csv", "--out", "p.csv").stdout.endswith(end)
    named = run("predict", "model.dualflow", "data.csv", "--id", "customer", "--out", "q.csv").stdout
    assert named.endswith("predictions: q.csv\n")


def test_scores_of_training_rows_are_said_to_be_so(folder):
    lines = table(60).splitlines()
    write(folder, "\n".join(lines[:41]))
    trained(folder)
    seen = run("predict", "model.dualflow", "data.csv").stderr
    assert "Scores of 40 rows with a label (training rows, which score higher than new rows):" in seen
    write(folder, "\n".join([lines[0], *lines[31:]]), "some.csv")
    some = run("predict", "model.dualflow", "some.csv").stderr
    assert "Scores of 30 rows with a label (10 of 30 rows are training rows, which score higher than" in some
    write(folder, "\n".join([lines[0], *lines[41:]]), "new.csv")
    assert "Scores of 20 rows with a label:" in run("predict", "model.dualflow", "new.csv").stderr
    run("train", "data.csv", "--label", "b", "--kind", "svr", "--drop", "kind")
    assert "on 40 rows with a label (training rows, which" in run("predict", "model.dualflow", "data.csv").stderr


def test_a_label_of_many_numbers_names_the_kind_for_numbers(folder):
    write(folder, table(60))
    refused(run("train", "data.csv", "--label", "a", "--kind", "svc"), "60 classes", "--label, or use --kind svr")
    many = "".join(f"{k},name {k}\n" for k in range(60))
    write(folder, f"a,b\n{many}", "names.csv")
    text = run("train", "names.csv", "--kind", "svc").stderr
    assert text.endswith("name the right column with --label\n")


def test_all_lacking_columns_are_named_and_no_used_one_is_suggested(folder):
    rng = np.random.default_rng(0)
    names = ["monthly_charges", "total_charges", "tenure", "calls"]
    rows = [[*(f"{v:.3f}" for v in values), "ab"[int(values[0] > 0)]] for values in rng.normal(size=(40, 4))]
    write(folder, "\n".join(",".join(row) for row in [[*names, "left"], *rows]))
    trained(folder)
    write(folder, "monthly_charges,left,call\n1,a,2\n", "new.csv")
    result = run("predict", "model.dualflow", "new.csv")
    refused(result, "lacks columns 'total_charges', 'tenure', 'calls' of", "; did you mean 'call' for 'calls'?")
    assert result.stderr.count("did you mean") == 1
    write(folder, "monthly_charges,tenure,calls,left\n1,1,2,a\n", "new.csv")
    assert "did you mean" not in run("predict", "model.dualflow", "new.csv").stderr
    write(folder, "monthly_charges,total_charge,tenure,calls\n1,1,1,2\n", "new.csv")
    refused(run("predict", "model.dualflow", "new.csv"), "lacks column 'total_charges' of", "mean 'total_charge'?")


def with_ids(ids: list[str], name: str = "customer") -> str:
    """The text of a table of as many rows, with a column of ids in its middle."""
    lines = [line.split(",") for line in table(len(ids)).splitlines()]
    return "".join(f"{a},{id},{b},{c}\n" for id, (a, b, c) in zip([name, *ids], lines, strict=True))


def test_predictions_carry_a_column_of_ids(folder):
    ids = [f"{k:05}" for k in range(40)] + ["A-1", "", "NA", "=1+1", '"Miller, Ann"', "A-1"]
    write(folder, table(len(ids)))
    trained(folder)
    write(folder, with_ids(ids), "new.csv")
    plain = run("predict", "model.dualflow", "data.csv", "--decision").stdout.splitlines()
    for column in ("customer", "2"):
        result = run("predict", "model.dualflow", "new.csv", "--id", column, "--decision")
        rows = list(csv.reader(result.stdout.splitlines()))
        assert [",".join(row[1:]) for row in rows] == plain[: len(rows)]
        assert [row[0] for row in rows] == ["customer", *ids[:-3], "'=1+1", "Miller, Ann", "A-1"]
        assert "ignored" not in result.stderr
    said = json.loads(run("predict", "model.dualflow", "new.csv", "--id", "customer", "--json").stdout)
    assert said["ids"] == [*ids[:-2], "Miller, Ann", "A-1"]
    both = run("predict", "model.dualflow", "data.csv", "--id", "a").stdout.splitlines()  # a feature, too
    assert [line.split(",")[0] for line in both] == [line.split(",")[0] for line in table(len(ids)).splitlines()]
    assert [line.split(",")[1] for line in both] == [line.split(",")[0] for line in plain[: len(both)]]


def test_a_file_of_predictions_with_ids_is_written_again_and_no_other(folder):
    write(folder, with_ids([f"c{k}" for k in range(30)]))
    trained(folder, "--drop", "customer")
    words = ("predict", "model.dualflow", "data.csv", "--id", "customer", "--out", "p.csv")
    for _ in range(2):
        assert run(*words).exit_code == 0
    assert (folder / "p.csv").read_text(encoding="utf-8").startswith("customer,prediction\nc0,")
    write(folder, "order,prediction\n1,2\n", "p.csv")
    refused(run(*words), "p.csv exists and was not written by this command")


def test_ids_that_cannot_be_written_are_one_sentence(folder):
    write(folder, with_ids([f"c{k}" for k in range(30)], "prediction"))
    trained(folder, "--drop", "prediction")
    words = ("predict", "model.dualflow", "data.csv", "--id")
    refused(run(*words, "prediction"), "--id prediction: the output has a column of this name; rename that of data.csv")
    refused(run(*words, "custmer"), "data.csv has no column 'custmer' for --id; its first line is a, prediction, b")
    dump_svmlight_file(*load_iris(return_X_y=True), "iris.svm")
    trained(folder, "--out", "sparse.dualflow", data="iris.svm")
    refused(run("predict", "sparse.dualflow", "iris.svm", "--id", "1"), "--id needs columns")
    write(folder, "".join(f"{k},{k * k % 7},{k % 2}\n" for k in range(30)))
    trained(folder, "--out", "nameless.dualflow")
    words = ("predict", "nameless.dualflow", "data.csv", "--id")
    refused(run(*words, "1"), "--id 1: where data.csv has it, the model, which was trained on columns without names")
    assert run(*words, "3").stdout.startswith("column 3,prediction\n0,")


def test_ids_of_parquet_may_be_of_any_type(folder):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=k) for k in range(30)]
    columns = {"a": list(range(5, 35)), "b": [k % 2 for k in range(30)]}
    parquet.write_table(pyarrow.table(columns), "t.parquet")
    trained(folder, data="t.parquet")
    parquet.write_table(pyarrow.table({"day": [None, *days[1:]]} | columns), "new.parquet")
    lines = run("predict", "model.dualflow", "new.parquet", "--id", "day").stdout.splitlines()
    assert [line.split(",")[0] for line in lines] == ["day", "", *map(str, days[1:])]


def test_a_table_without_header_is_read_by_places(folder):
    write(folder, table(60, header=""))
    trained(folder, "--label", "3")
    whole = run("predict", "model.dualflow", "data.csv", "--decision")
    write(folder, "\n".join(line.rpartition(",")[0] for line in table(60, header="").splitlines()), "new.csv")
    assert run("predict", "model.dualflow", "new.csv", "--decision").stdout == whole.stdout
    write(folder, "1\n2\n", "narrow.csv")
    refused(run("predict", "model.dualflow", "narrow.csv"), "narrow.csv has 1 columns", "was trained on 3")


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ("a,b\n1,2\n1,two\n", ("line 3", "b", "'two' is not a finite number")),
        ("a,b\n1,2\n1\n", ("line 3 has 1 cells",)),
        ("a,b\n1,\n", ("line 2, b", "the cell is missing")),
        ("a,b\n", ("only a header",)),
        ("", ("is empty",)),
    ],
)
def test_new_rows_that_do_not_go_with_the_model_are_one_sentence(folder, new, words):
    write(folder, table(30))
    trained(folder, "--no-impute")
    write(folder, new, "new.csv")
    refused(run("predict", "model.dualflow", "new.csv"), "new.csv", *words)


@pytest.mark.parametrize(
    ("kind", "words", "header"),
    [
        ("svr", ["--epsilon", "0.2", "--cv", "3"], "prediction"),
        ("nu-svr", ["--nu", "0.3", "--C", "2", "--cv", "3"], "prediction"),
        ("svdd", ["--nu", "0.2"], "prediction,decision"),
        ("one-class", ["--nu", "0.2"], "prediction,decision"),
    ],
)
def test_the_other_kinds(folder, kind, words, header):
    rng = np.random.default_rng(0)
    write(folder, "a\tb\n" + "".join(f"{x:.3f}\t{np.sin(x):.3f}\n" for x in rng.normal(size=50)))
    facts = trained(folder, "--kind", kind, *words)
    assert facts["kind"] == kind
    assert facts["features"] == (1 if kind.endswith("svr") else 2)
    if kind.endswith("svr"):
        assert facts["cross_validation"]["folds"] == 3
    result = run("predict", "model.dualflow", "data.csv", *(["--decision"] if "decision" in header else []))
    assert result.stdout.splitlines()[0] == header
    assert len(result.stdout.splitlines()) == 51
    checked = run("check", "model.dualflow", "data.csv", "--json")
    assert checked.exit_code == 0, checked.output
    assert json.loads(checked.stdout)["data"] is True
    if kind.endswith("svr"):
        lines = Path("data.csv").read_text().splitlines()
        Path("data.csv").write_text("\n".join([*lines[:7], lines[7].partition("\t")[0] + "\t9.5", *lines[8:], ""]))
        checked = run("check", "model.dualflow", "data.csv", "--json")
        assert json.loads(checked.stdout)["data"] is False


def test_nu_svc_is_trained_with_classes(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)).round(3)
    labels = np.where(X[:, 0] + 0.3 * rng.normal(size=60) > 0, "up", "down")
    write(folder, "a,b,kind\n" + "".join(f"{a},{b},{c}\n" for (a, b), c in zip(X, labels, strict=True)))
    facts = trained(folder, "--kind", "nu-svc", "--nu", "0.4", "--cv", "3")
    assert facts["classes"] == ["down", "up"]
    assert facts["parameters"]["nu"] == 0.4
    assert facts["cross_validation"]["mean"] > 0.8
    reference = NuSVC(nu=0.4).fit(StandardScaler().fit_transform(X), labels)
    result = run("predict", "model.dualflow", "data.csv")
    assert result.stdout.splitlines()[1:] == reference.predict(StandardScaler().fit_transform(X)).tolist()
    checked = run("check", "model.dualflow", "data.csv", "--json")
    assert json.loads(checked.stdout)["data"] is True


def test_several_classes_sparse_points_and_a_search(folder):
    X, y = load_iris(return_X_y=True)
    dump_svmlight_file(X, y, "iris.svm", zero_based=False)
    facts = trained(folder, "--search", "--kernel", "linear", data="iris.svm")
    assert facts["search"]["candidates"] == 5
    assert facts["classes"] == ["0", "1", "2"]
    result = run("predict", "model.dualflow", "iris.svm", "--decision")
    assert result.stdout.startswith("prediction,decision 0,decision 1,decision 2\n")
    for words in ((), ("--standardise",)):
        trained(folder, *words, data="iris.svm")
        checked = run("check", "model.dualflow", "iris.svm", "--json")
        assert checked.exit_code == 0, checked.output
        assert json.loads(checked.stdout)["problems"] == 3
    refused(run("predict", "model.dualflow", write(folder, table())), "line 1, ", "index:value")


def test_a_model_that_is_not_optimal_is_saved_and_says_so(folder):
    write(folder, table(60))
    result = run("train", "data.csv", "--solver", "gradient-flow", "--time-limit", "1e-9")
    assert result.exit_code == 1, result.output
    assert "NOT optimal" in result.stdout
    assert result.stderr.startswith("Warning: ")
    assert "Raise --time-limit, scale the features" in result.stderr
    result = run("check", "model.dualflow")
    assert result.exit_code == 1
    assert result.stderr == "model.dualflow: 1 of 1 problems are not certified to a gap of 1e-06\n"


def test_what_cannot_be_separated_is_a_failure_not_a_mistake(folder):
    write(folder, "a,b\n" + "".join(f"{k},{k % 2}\n" for k in range(20)))
    result = run("train", "data.csv", "--C", "inf", "--kernel", "linear")
    assert result.exit_code == 1
    assert result.stderr.startswith("Failed: C=inf: ")
    assert result.stdout == ""


def test_check_computes_the_certificate_and_believes_nothing(folder):
    write(folder, table(60))
    trained(folder)
    header, arrays = container.read(folder / "model.dualflow", 1 << 20)
    (name,) = [name for name in arrays if name.endswith("raw_alpha")]
    alpha = name.replace("raw_alpha", "alpha")
    if alpha not in arrays:
        alpha = name
    del header["members"]
    arrays[alpha] = np.zeros_like(arrays[alpha])
    container.write(folder / "worse", header, arrays)
    result = run("check", "worse")
    assert result.exit_code in (1, 2)  # no optimum any more, or a file that contradicts itself
    assert "Traceback" not in result.output


def test_check_finds_other_points_and_other_labels(folder):
    write(folder, table(60))
    trained(folder)
    lines = table(60).splitlines()
    other = "up" if lines[4].endswith("down") else "down"
    changes = {
        "line 5 is another point": [*lines[:4], lines[4].replace("0.", "7.", 1), *lines[5:]],
        "line 5 has another label": [*lines[:4], f"{lines[4].rpartition(',')[0]},{other}", *lines[5:]],
        "the table has 59 rows, the model 60 points": lines[:-1],
    }
    for words, changed in changes.items():
        write(folder, "\n".join(changed) + "\n", "other.csv")
        result = run("check", "model.dualflow", "other.csv")
        assert result.exit_code == 3, words
        assert words in " ".join(result.stdout.split()), result.stdout


def test_models_that_were_saved_in_python_are_read_too(folder):
    write(folder, table(40))
    values = [line.split(",") for line in table(40).splitlines()[1:]]
    X, y = np.array([row[:2] for row in values], float), np.array([row[2] for row in values])
    dualflow.SVC(C=3).fit(X, y).save("bare")
    result = run("predict", "bare", "data.csv", "--label", "kind")
    assert result.stdout.split()[1:] == dualflow.SVC(C=3).fit(X, y).predict(X).tolist()
    assert "Scores of 40 rows with a label" in result.stderr
    assert run("check", "bare").exit_code == 0
    stream = dualflow.IncrementalSVC().partial_fit(X, y, classes=["down", "up"])
    stream.save("stream")
    assert run("check", "stream").exit_code == 0
    refused(run("check", "stream", "data.csv", "--label", "kind"), "learns from a stream")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kind", "svm"], "--kind 'svm' must be one of svc, svr, nu-svc, nu-svr, svdd, one-class"),
        (["--nu", "0.1"], "--nu is a parameter of nu-svc, nu-svr, svdd and one-class, not of svc"),
        (["--kind", "svdd", "--C", "1"], "--C is a parameter of svc, svr and nu-svr, not of svdd"),
        (["--kind", "nu-svc", "--C", "1"], "--C is a parameter of svc, svr and nu-svr, not of nu-svc"),
        (["--kind", "svdd", "--epsilon", "1"], "--epsilon is a parameter of svr, not of svdd"),
        (["--kind", "nu-svc", "--nu", "1.5"], "nu=1.5"),
        (
            ["--kind", "nu-svc", "--search"],
            "--search is for svc and svr, not for nu-svc; compare values of --nu by --cv",
        ),
        (["--kind", "svdd", "--search"], "--search needs labels"),
        (["--kind", "svdd", "--label", "kind", "--cv", "3"], "--cv needs labels"),
        (["--search", "--time-limit", "1e-9"], "--search found no model"),
        (["--kernel", "precomputed"], "--kernel precomputed needs a kernel matrix"),
        (["--seed", "-1"], "--seed=-1"),
        (["--cv", "1"], "--cv 1 of data.csv must be from 2 to"),
        (["--kind", "svr"], "line 2: the label kind, 'down', is not a finite number"),
        (["--label", "a"], "add --kind svr"),
        (["--label", "a", "--kind", "svc"], "40 classes in 40 rows"),
        (["--C", "-1"], "C=-1.0"),
        (["--gamma", "wide"], "gamma='wide'"),
        (["--solver", "sm0"], "did you mean 'smo'"),
        (["--format", "xls"], "--format 'xls' must be one of csv, parquet, svmlight"),
        (["--delimiter", ";;"], "must be one character"),
        (["--decimal", "x"], "--decimal 'x' must be"),
        (["--time-limit", "0"], "--time-limit=0"),
        (["--drop", "a", "--drop", "b"], "single column"),
        (["--out", "data.csv"], "is the data file and would be lost"),
        (["--out", "no/where"], "does not exist"),
    ],
)
def test_bad_options_are_one_sentence(folder, words, said):
    write(folder, table())
    refused(run("train", "data.csv", *words), said)
    assert [path.name for path in folder.iterdir()] == ["data.csv"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("train", "--C", "-1"), "Error: --C=-1.0 must be"),
        (("train", "-C", "-1"), "Error: -C -1 must be"),
        (("train", "-C", "one"), "Error: --C 'one' must be a number\n"),
        (("compare", "--max-n", "abc"), "Error: --max-n 'abc' must be a whole number\n"),
        (("compare", "--max-n=1.5"), "Error: --max-n '1.5' must be a whole number\n"),
        (("train", "--gamma", "big"), "Error: --gamma='big' must be"),
        (
            ("train", "--kernel", "gauss"),
            "Error: --kernel='gauss' is not one of linear, poly, rbf, sigmoid; did you mean 'rbf'?",
        ),
        (
            ("compare", "--kernel", "gauss"),
            "Error: --kernel='gauss' is not one of linear, poly, rbf, sigmoid; did you mean 'rbf'?",
        ),
        (("compare", "--max-n", "0"), "Error: --max-n=0 must be"),
        (("compare", "--scoring", "roc"), "Error: --scoring='roc' is not one of"),
        (("compare", "--solvers", "smoo"), "Error: --solvers='smoo' is not known; did you mean 'smo'?"),
    ],
)
def test_errors_name_the_option_as_it_is_typed(folder, words, said):
    write(folder, table(30))
    command, *options = words
    result = run(command, "data.csv", *options)
    assert result.exit_code == 2
    assert result.stderr.startswith(said)


def test_files_of_others_are_not_overwritten(folder):
    write(folder, table())
    write(folder, "mine", "other")
    refused(run("train", "data.csv", "--out", "other"), "was not written by this command")
    trained(folder)
    trained(folder)  # over its own
    refused(run("predict", "model.dualflow", "data.csv", "--out", "other"), "was not written by this command")
    refused(run("predict", "model.dualflow", "data.csv", "--out", "data.csv", "--overwrite"), "would be lost")
    refused(run("predict", "model.dualflow", "data.csv", "--out", "model.dualflow", "--overwrite"), "is the model")
    for _ in range(2):
        assert run("predict", "model.dualflow", "data.csv", "--out", "p.csv").exit_code == 0
    assert (folder / "other").read_text() == "mine"


def test_text_of_others_cannot_command_a_terminal_or_a_spreadsheet(folder):
    rows = "".join(f"{k},{'=1+1' if k % 2 else chr(27) + '[2J'}\n" for k in range(20))
    write(folder, "a\x1b]0;x\x07,kind\n" + rows)
    texts = [run("train", "data.csv", "--cv", "2"), run("check", "model.dualflow"), run("train", "data.csv", "--json")]
    texts.append(run("predict", "model.dualflow", "data.csv"))
    write(folder, "b\n1\n", "b.csv")
    texts.append(run("predict", "model.dualflow", "b.csv"))
    for result in texts:
        assert not any(c in result.output for c in "\x1b\x07")
    assert {"'=1+1", r"\x1b[2J"} >= set(texts[3].stdout.split()[1:])


def test_standard_input_is_a_table(folder):
    piped = {"input": table(40), "capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([*COMMAND, "train", "-", "--json"], **piped)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["points"] == 40
    predicted = CliRunner().invoke(app, ["predict", "model.dualflow", "-"], input=table(40))
    assert predicted.stdout.count("\n") == 41


def test_the_model_file_says_what_is_wrong_with_its_table(folder):
    write(folder, table(40) + "1.0,,up\n")
    trained(folder)
    header, arrays = container.read(folder / "model.dualflow", 1 << 20)
    del header["members"]
    kept = header["table"]
    for key, value in (
        ("format", 2),
        ("columns", kept["columns"][:1]),
        ("columns", [kept["columns"][0] | {"scale": 0.0}, kept["columns"][1]]),
        ("columns", [kept["columns"][0] | {"mean": "x"}, kept["columns"][1]]),
        ("columns", [kept["columns"][0] | {"place": 10**9}, kept["columns"][1]]),
        ("columns", [kept["columns"][0]] * 2),
        ("written", ["up"]),
        ("width", None),
        ("missing", "x"),
    ):
        container.write(folder / "bad", header | {"table": kept | {key: value}}, arrays)
        refused(run("predict", "bad", "data.csv"), "bad has a damaged table description beside its model")


# --- compare ---------------------------------------------------------------------------------------


def test_compare_takes_the_same_tables(folder):
    rows, labels = people(60, 0)
    german("daten.csv", rows, labels)
    for words in (("daten.csv",), ("--data", "daten.csv")):
        result = run("compare", *words, "--decimal", ",", *QUICK, "--no-report", "--json")
        assert result.exit_code == 0, result.output
        assert {row["solver"] for row in json.loads(result.stdout)["rows"]} == {"working-set", "smo"}
    refused(run("compare", "daten.csv", "--data", "daten.csv"), "given twice")


def test_compare_has_a_time_limit_for_all_of_it(folder):
    result = run("compare", *QUICK, "--total-time-limit", "1e-9", "--csv", "rows.csv")
    assert result.exit_code == 0, result.output
    with open("rows.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["status"] for row in rows} == {"NOT RUN"}
    assert {row["reason"] for row in rows} == {"not run: the time for the whole comparison was over"}
    assert "no run begins after" in result.stderr
    refused(run("compare", *QUICK, "--total-time-limit", "0"), "--total-time-limit=0")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_ctrl_c_in_a_comparison_leaves_a_report_of_what_there_is(folder):
    code = """
import sys
from dualflow import comparison, cli
kept = comparison.rows.RowRunner.run
def run(self, row, *rest):
    if row.solver == "gradient-flow":
        sys.stderr.write("now\\n"); sys.stderr.flush()
        import time; time.sleep(60)
    return kept(self, row, *rest)
comparison.rows.RowRunner.run = run
cli.main()
"""
    words = ["compare", "--problems", "hinge", "--max-n", "16", "--csv", "rows.csv"]
    words += ["--solvers", "working-set,gradient-flow,smo"]
    with subprocess.Popen(
        [sys.executable, "-c", code, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while (line := process.stderr.readline()) and line != "now\n":
            pass
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "Interrupted; the report shows the rows that have run."
    assert "Report: dualflow-report.html" in out
    assert "The comparison was interrupted" in (folder / "dualflow-report.html").read_text(encoding="utf-8")
    with open("rows.csv", newline="", encoding="utf-8") as file:
        status = {row["solver"]: row["status"] for row in csv.DictReader(file)}
    assert status == {"working-set": "OPTIMAL", "gradient-flow": "NOT RUN", "smo": "NOT RUN"}


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX's")
def test_ctrl_c_in_a_fit_leaves_no_model(folder):
    write(folder, table(40))
    code = """
import os, signal
from dualflow_command import main
from dualflow.solvers.smo import SMO
kept = SMO.step
def step(*arguments):
    os.kill(os.getpid(), signal.SIGINT)
    return kept(*arguments)
SMO.step = step
main()
"""
    words = [sys.executable, "-c", code, "train", "data.csv", "--cv", "3", "--solver", "smo"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 130, done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines()[-1] == "Interrupted."
    assert [path.name for path in folder.iterdir()] == ["data.csv"]


def test_a_line_a_row_even_where_there_is_nothing(folder):
    write(folder, table(60))
    trained(folder)
    write(folder, "a,b,kind\n1,1,up\n,,\n-1,-1,\n", "new.csv")
    result = run("predict", "model.dualflow", "new.csv", "--decision")
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.partition(",")[0] for line in lines] == ["prediction", "up", "", "down"]
    assert lines[2] == ","
    assert "Rows without any feature get an empty prediction: 1, the first is line 3." in result.stderr
    found = json.loads(run("predict", "model.dualflow", "new.csv", "--json").stdout)
    assert (found["predictions"], found["rows"], found["labelled"]) == (["up", None, "down"], 3, 1)
    assert run("check", "model.dualflow", write(folder, table(60) + ",,\n", "more.csv")).exit_code == 0


def test_without_imputing_a_row_of_nothing_is_refused(folder):
    write(folder, table(60))
    trained(folder, "--no-impute")
    refused(
        run("predict", "model.dualflow", write(folder, "a,b\n1,1\n,\n", "new.csv")), "line 3, a: the cell is missing"
    )


def test_a_first_row_that_is_no_header_is_not_lost(folder):
    write(folder, table(60, header=""))
    trained(folder)
    for content, rows in (("n.d.,1\n2,3\n", 2), ("-,1\n2,3\n", 2), ("a,b\n2,3\n", 1)):
        write(folder, content, "new.csv")
        assert run("predict", "model.dualflow", "new.csv").stdout.count("\n") == rows + 1
    refused(run("predict", "model.dualflow", write(folder, "odd,1\n2,3\n", "new.csv")), "line 1, ", "'odd'")


def test_numbers_are_read_at_prediction_as_in_training(folder):
    write(folder, "a,b,kind\n" + "".join(f'"1,{k:03}",{k},{"up" if k > 9 else "down"}\n' for k in range(20)))
    refused(run("train", "data.csv"), '--thousands "," reads it as 1000')
    assert trained(folder, "--thousands", ",")["features"] == 2
    write(folder, 'a,b\n"1,019",19\nn.d.,19\n', "new.csv")
    result = run("predict", "model.dualflow", "new.csv")
    assert result.stdout.split() == ["prediction", "up", "up"]
    assert "Column a holds numbers; these cells are read as missing: 'n.d.' (1)." in result.stderr
    refused(
        run("predict", "model.dualflow", write(folder, "a,b\n5%,1\n", "new.csv")), "line 2, a: '5%' is not a finite"
    )


def test_models_of_before_thousands_are_read(folder):
    write(folder, table(60))
    trained(folder)
    header, arrays = container.read(folder / "model.dualflow", 1 << 20)
    del header["members"], header["table"]["thousands"]
    container.write(folder / "older", header, arrays)
    newer, older = (run("predict", name, "data.csv") for name in ("model.dualflow", "older"))
    assert older.exit_code == 0, older.stderr
    assert older.stdout == newer.stdout


# --- on a terminal -------------------------------------------------------------------------------------


def terminal(folder: Path, *words: str, columns: int = 60) -> str:
    """Return what a command prints to a terminal of this width, both streams together."""
    import pty

    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(columns), "TERM": "dumb"}
    command = [sys.executable, "-m", "dualflow", *words]
    process = subprocess.Popen(command, cwd=folder, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 1 << 16):
            seen += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    process.wait(timeout=60)
    return seen.decode().replace("\r\n", "\n")


@pytest.mark.skipif(os.name == "nt", reason="no pseudo-terminals")
def test_a_terminal_gets_ten_predictions_and_lines_of_its_width(folder):
    write(folder, table(60))
    trained(folder)
    seen = terminal(folder, "predict", "model.dualflow", "data.csv", "--decision")
    rows = re.findall(r"^(?:up|down) +-?\d+(?:\.\d+)?$", seen, re.M)
    assert len(rows) == 10
    assert all(len(row.split()[1].lstrip("-").replace(".", "").lstrip("0")) <= 4 for row in rows)
    assert "10 of 60 rows; --out predictions.csv writes all." in seen
    assert max(map(len, seen.splitlines())) <= 60
    assert run("predict", "model.dualflow", "data.csv").stdout.count("\n") == 61
    error = terminal(folder, "train", "data.csv", "--label", "nothing", "--class-weight", "balancedd")
    assert error.startswith("Error: ")
    assert error.count("\n") > 1
    assert max(map(len, error.splitlines())) <= 60


def test_a_model_that_is_replaced_is_named_with_its_time(folder):
    write(folder, table(40))
    assert "in place of" not in run("train", "data.csv").stdout
    os.utime("model.dualflow", (1e9, 1e9))
    facts = trained(folder)
    assert facts["replaced"] == f"{datetime.datetime.fromtimestamp(1e9):%Y-%m-%d %H:%M}"
    os.utime("model.dualflow", (1e9, 1e9))
    text = " ".join(run("train", "data.csv").stdout.split())
    assert f"saved as model.dualflow, in place of the model of {facts['replaced']}" in text


def test_columns_are_given_one_by_one_or_comma_separated(folder):
    lines = [line.rpartition(",") for line in table(40).splitlines()]
    rows = [f"{a},{k % 7},{k % 5},{label}" for k, (a, _, label) in enumerate(lines[1:])]
    write(folder, "a,b,c,d,kind\n" + "\n".join(rows) + "\n")
    assert trained(folder, "--drop", "c, d")["features"] == 2
    assert trained(folder, "--drop", "c", "--drop", "4")["features"] == 2
    assert trained(folder, "--text", "c,d")["features"] == 2 + 7 + 5
    refused(run("train", "data.csv", "--drop", "c,e"), "has no column 'e' for --drop")
    write(folder, 'a,b,"c,d",kind\n' + "\n".join(f"{a},{k % 7},{b}" for k, (a, _, b) in enumerate(lines[1:])) + "\n")
    assert trained(folder, "--drop", "c,d")["features"] == 2


MISTAKES = """
import sys
from dualflow.cli import app
for words in ("train nofile.csv", "compare nofile.csv", "predict nofile.dualflow nofile.csv", "check nofile.dualflow",
              "train data.csv --class-weight balancd", "compare data.csv --class-weight balancd"):
    try:
        app(words.split())
    except SystemExit as left:
        print(left.code, "sklearn" in sys.modules)
"""


def test_simple_mistakes_are_found_before_packages_are_loaded(folder):
    write(folder, table(20))
    found = subprocess.run([sys.executable, "-c", MISTAKES], capture_output=True, text=True, cwd=folder)
    assert found.stdout == "2 False\n" * 6
    files, names = found.stderr.splitlines()[:4], found.stderr.splitlines()[4:]
    assert all(re.fullmatch(r"Error: nofile\.\w+: No such file or directory", line) for line in files)
    assert len(names) == 2
    assert all("did you mean 'balanced'?" in line for line in names)


def test_gaps_that_were_filled_are_said(folder):
    lines = table(40).splitlines()
    lines[3] = "," + lines[3].partition(",")[2]
    write(folder, "\n".join(lines) + "\n")
    assert re.search(r"^gaps filled +a 1$", run("train", "data.csv").stdout, re.M)
    assert trained(folder)["gaps_filled"] == "a 1"
    write(folder, table(40))
    assert "gaps filled" not in run("train", "data.csv").stdout


def test_files_that_are_misspelt_or_swapped_are_named(folder):
    write(folder, table(60))
    trained(folder)
    refused(run("train", "dta.csv"), "dta.csv: No such file or directory; did you mean 'data.csv'?")
    for words in (("predict", "data.csv", "model.dualflow"), ("check", "data.csv", "model.dualflow")):
        refused(run(*words), "the model comes first, then the table: model.dualflow data.csv")


def test_numbers_of_a_model_are_checked_before_the_table_is_read(folder):
    write(folder, "a,kind\n2019-01-01,up\n2019-01-02,\n2019-01-03,\n")
    for words, said in (
        (("train", "data.csv", "--C", "-1"), "--C=-1.0 must be"),
        (("train", "data.csv", "--gamma", "big"), "--gamma='big' must be"),
        (("train", "data.csv", "--solver", "sm0"), "did you mean 'smo'"),
        (("compare", "data.csv", "--gamma", "-1"), "--gamma=-1.0 must be"),
    ):
        refused(run(*words), said)
    write(folder, "a,kind\n1,up\n2,\n3,\n")
    refused(run("train", "data.csv"), "line 3: the label kind is empty or missing, as in 2 of 3 rows")


def test_models_without_classes_say_what_they_make_of_their_rows(folder):
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    y = 2 * x + rng.normal(size=60)
    write(folder, "x,target\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in zip(x, y, strict=True)))
    done = run("train", "data.csv", "--kind", "svr")
    assert done.exit_code == 0, done.output
    machine = read_model(folder / "model.dualflow")[0]
    values = np.genfromtxt("data.csv", delimiter=",", skip_header=1)
    errors = values[:, 1] - machine.predict(((values[:, 0] - x.mean()) / x.std())[:, None])
    r2 = 1 - (errors**2).sum() / ((values[:, 1] - values[:, 1].mean()) ** 2).sum()
    constant = np.abs(values[:, 1] - np.median(values[:, 1])).mean()
    assert (
        f"R² {r2:.3f}, mean absolute error {np.abs(errors).mean():.4g} (always the median: {constant:.4g})"
        in done.stdout
    )
    refused(run("compare", "data.csv"), "has 60 different numbers", "dualflow train data.csv --kind svr --cv 5")
    write(folder, "x,z\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in zip(x, y, strict=True)), "points.csv")
    done = run("train", "points.csv", "--kind", "one-class", "--nu", "0.5", "--out", "one.dualflow")
    predicted = run("predict", "one.dualflow", "points.csv")
    count = predicted.stdout.splitlines().count("-1")
    assert 0 < count <= 30  # nu bounds the share
    assert f"{count} of 60 training rows are outliers" in done.stdout
    assert f"{count} of 60 rows are outliers" in predicted.stderr


def test_the_column_of_the_label_is_named(folder):
    rows = "1,2,n\n2,1,y\n3,4,n\n5,2,y\n"
    write(folder, "first,second,last\n" + rows)
    assert "label                   last\n" in run("train", "data.csv").stdout
    given = run("train", "data.csv", "--label", "first", "--kind", "svr", "--json", "--overwrite", "--drop", "last")
    assert json.loads(given.stdout)["label"] == "first"
    write(folder, rows, "bare.csv")
    assert json.loads(run("train", "bare.csv", "--json", "--out", "bare.dualflow").stdout)["label"] == "column 3"
    done = run("train", "data.csv", "--kind", "svdd", "--drop", "last", "--json", "--out", "ball.dualflow")
    assert json.loads(done.stdout)["label"] is None
