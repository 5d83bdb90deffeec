"""A table of unequal classes, as of customers who leave: `compare`, `train`, `predict` and `check` on it."""

from __future__ import annotations

import csv
import datetime
import json
import os
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import (
    average_precision_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.svm import SVC

import dualflow
from dualflow import compare
from dualflow.cli.cells import MAX_COLUMN_TEXTS
from dualflow.cli.output import TABLE_WIDTH_CHARS
from dualflow.cli.train import search_text
from dualflow.cli.training import Steps, _edges, search_splits, searched_model
from dualflow.cli.training_table import read_model
from dualflow.exceptions import ProblemError
from dualflow.persistence import container
from dualflow.report.html import render
from dualflow.report.scores import ClassCounts, ModelScore, best_model
from dualflow.report.verdict import counts_text, models_verdict
from tests.cli.test_cli import refused, run, table, write


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def churn(path: Path | str, n: int, seed: int = 0) -> Path:
    """Write customers with text and gaps, a tenth of whom left, as CSV."""
    rng = np.random.default_rng(seed)
    tenure, charge, calls = rng.integers(1, 73, n), rng.normal(65, 30, n).clip(18, 120).round(2), rng.poisson(1.5, n)
    contract = rng.choice(["monthly", "one year", "two years"], n, p=[0.55, 0.21, 0.24])
    payment = rng.choice(["check", "transfer", "card"], n)
    risk = -0.05 * tenure + 0.02 * charge + 1.5 * (contract == "monthly") + 0.6 * calls + 0.8 * rng.normal(size=n)
    left = np.where(risk > np.quantile(risk, 0.9), "yes", "no")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["tenure", "charge", "calls", "contract", "payment", "churn"])
        gaps = rng.random((n, 5)) < 0.03
        for cells, gap, label in zip(
            zip(tenure, charge, calls, contract, payment, strict=True), gaps, left, strict=True
        ):
            writer.writerow([*("" if empty else cell for cell, empty in zip(cells, gap, strict=True)), label])
    return Path(path)


def labels_in(path: str, column: str = "churn") -> list[str]:
    with open(path, newline="", encoding="utf-8") as file:
        return [row[column] for row in csv.DictReader(file)]


# --- scores ----------------------------------------------------------------------------------------


def test_scores_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 3, 200), rng.integers(0, 3, 200)
    counts = ClassCounts.of(truth, predicted, "abc", 1)
    assert counts.table.tolist() == confusion_matrix(truth, predicted).tolist()
    assert counts.accuracy == np.mean(truth == predicted)
    assert counts.balanced_accuracy == pytest.approx(balanced_accuracy_score(truth, predicted))
    own = {"labels": [1], "average": "macro"}
    for name, score in (("recall", recall_score), ("precision", precision_score), ("f1", f1_score)):
        assert getattr(counts, name) == pytest.approx(score(truth, predicted, **own)), name
    assert counts.majority_share == np.bincount(truth).max() / 200


def test_what_a_constant_answer_scores_is_said_to_be_no_better():
    truth = np.repeat([0, 1], [90, 10])
    constant = ClassCounts.of(truth, np.zeros(100, int), ["no", "yes"])
    assert (constant.positive, constant.recall, constant.precision, constant.f1) == (1, 0.0, None, 0.0)
    assert not constant.beats_majority
    assert "NO better than always answering 'no'" in constant.warning(False)
    guess = ClassCounts.of(truth, np.random.default_rng(0).integers(0, 2, 100), ["no", "yes"])
    assert not guess.beats_majority  # above one half by chance
    assert "NO better" in guess.warning(False)  # 0.411
    little = ClassCounts.of(truth, np.where(np.arange(100) >= 98, 1, 0), ["no", "yes"])
    assert not little.beats_majority
    assert little.warning(True) == (
        "These 100 rows (10 of 'yes') cannot show that the model is better than always answering 'no' (balanced "
        f"accuracy 0.600 ± {little.error:.3f}, chance is 0.500)."
    )
    assert little.warning(False).startswith(little.warning(True))
    few = ClassCounts.of(truth, np.where(np.arange(100) >= 96, 1, 0), ["no", "yes"])
    assert few.beats_majority
    assert few.warning(False) is None  # 94 % are right, and 90 % belong to the larger class
    poor = ClassCounts.of(truth, np.where((np.arange(100) < 6) | (np.arange(100) >= 95), 1, 0), ["no", "yes"])
    assert poor.accuracy < poor.majority_share
    assert "--class-weight balanced raises" in poor.warning(False)
    assert poor.warning(True) is None


def test_the_rarest_class_that_occurs_is_the_positive_one():
    assert ClassCounts.of([0, 0, 1], [0, 0, 1], "ab").positive == 1
    assert ClassCounts.of([0, 1, 1], [0, 0, 1], "ab").positive == 0
    assert ClassCounts.of([0, 1], [0, 1], "ab").positive == 1
    assert ClassCounts.of([0, 0, 1], [0, 0, 1], "abc").positive == 1


def test_the_verdict_on_models_is_by_score_then_by_time():
    def counted(right: int) -> ClassCounts:
        truth = np.repeat([0, 1], [90, 10])
        return ClassCounts.of(truth, np.where(np.arange(100) >= 100 - right, 1, 0), ["no", "yes"])

    scores = [
        ModelScore("majority (no)", counts=counted(0)),
        ModelScore("dualflow SVC", None, counted(3), 0.1, 1e-9),
        ModelScore("dualflow SVC", "balanced", counted(9), 0.3, 1e-9),
        ModelScore("scikit-learn SVC", "balanced", counted(9), 0.2, 1e-4),
    ]
    best = best_model(scores, "balanced_accuracy")
    assert (best.model, best.class_weight) == ("scikit-learn SVC", "balanced")
    text = models_verdict(scores, "balanced_accuracy", 400)
    assert text == (
        "Use SVC with balanced class weights: balanced accuracy 0.950 ± 0.059 on 100 held-out rows (always answering "
        "'no': 0.500). Both packages fit this model to 400 rows and differ in time alone: scikit-learn SVC 200 ms, "
        "dualflow SVC 300 ms."
    )
    alone = models_verdict(scores[:3], "balanced_accuracy", 400)
    assert alone.startswith("Use dualflow SVC with balanced class weights: balanced accuracy 0.950")
    assert alone.endswith("(always answering 'no': 0.500), fitted to 400 rows in 300 ms.")
    faster = [scores[0], replace(scores[2], fit_time_s=0.1, counts=counted(8)), scores[3]]
    assert (
        "dualflow SVC with balanced class weights: balanced accuracy 0.900 ± 0.069 on 100 held-out rows (always "
        "answering 'no': 0.500), fitted to 400 rows in 100 ms; scikit-learn SVC: 0.950, 200 ms. The difference is "
        "within the standard error (0.069), so the faster fit is named."
    ) in models_verdict(faster, "balanced_accuracy", 400)
    assert "recall of 'yes' 0.900" in models_verdict(scores, "recall", 400)
    assert models_verdict(scores[:1], "accuracy", 4) == "No verdict on models: none was fitted."
    alone = ClassCounts.of([0, 0], [0, 0], ["no", "yes"])
    absent = [ModelScore("dualflow SVC", None, alone, 0.1, 0.0)]
    assert models_verdict(absent, "accuracy", 4) == (
        "No verdict on models: none of the 2 held-out rows is of class 'yes'."
    )
    none = [scores[0], ModelScore("dualflow SVC", None, counted(0), 0.1, 0.0)]
    for name in ("accuracy", "balanced_accuracy", "f1"):
        assert "no model is better than always answering 'no': " in models_verdict(none, name, 4)


# --- compare ---------------------------------------------------------------------------------------


def test_compare_answers_on_a_page_of_80_columns(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    churn("churn.csv", 500)
    result = run("compare", "churn.csv", "--time-limit", "1", "--csv", "rows.csv", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    models = {(row["model"], row["class_weight"]): row for row in found["models"]}
    assert list(models) == [
        ("majority (no)", None),
        ("dualflow SVC", None),
        ("scikit-learn SVC", None),
        ("dualflow SVC", "balanced"),
        ("scikit-learn SVC", "balanced"),
    ]
    assert {row["rows"] for row in found["models"]} == {100}  # a fifth is held out
    for weights in (None, "balanced"):
        ours, theirs = models["dualflow SVC", weights], models["scikit-learn SVC", weights]
        assert ours["confusion"] == theirs["confusion"]
        assert ours["relative_gap"] <= 1e-6
        assert 1e-9 < theirs["relative_gap"] < 1e-2  # its own tolerance is 1e-3
    assert models["dualflow SVC", "balanced"]["recall"] > models["dualflow SVC", None]["recall"]
    assert models["majority (no)", None]["accuracy"] == 0.9
    assert found["verdict"].startswith("Use SVC with balanced class weights: ")
    assert "Both packages fit this model to 400 rows and differ in time alone: " in found["verdict"]
    assert found["settings"]["table"] == "churn.csv, 500 rows"
    assert found["settings"]["training points"].startswith("400 (")
    assert {row["problem"] for row in found["rows"]} == {"hinge"}
    assert {row["role"] for row in found["rows"]} == {"classical", "reference"}
    first = next(row for row in found["rows"] if row["solver"] == "working-set")
    assert first["balanced_accuracy"] == models["dualflow SVC", "balanced"]["balanced_accuracy"]
    text = run("compare", "churn.csv", "--time-limit", "1").stdout
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("does not apply: ") == 1
    assert not re.search(r" $", text, re.M)
    finds = counts_text(ModelScore("a", counts=ClassCounts(("no", "yes"), np.array([[84, 6], [2, 8]]), 1)))
    assert finds == "Of the 10 held-out rows of 'yes' it finds 8 and misses 2; of the 90 others it takes 6 for 'yes'."
    chosen = models["dualflow SVC", "balanced"]["confusion"]
    assert f"it finds {chosen[1][1]} and misses {chosen[1][0]};" in " ".join(text.split())
    with open("churn.csv", newline="", encoding="utf-8") as file:
        gaps = sum(row["tenure"] == "" for row in csv.DictReader(file))
    assert 0 < int(re.match(r"tenure (\d+), ", found["settings"]["gaps filled"])[1]) <= gaps
    assert found["settings"]["features"] == "9, of 5 columns"  # 3 numbers, 2 columns of 3 texts
    page = (folder / "dualflow-report.html").read_text(encoding="utf-8")
    assert found["settings"]["next"] in page
    assert page.index("Comparison of models and solvers") < page.index('class="verdict">Use ') < page.index("<table")
    assert page.count("<caption>") == page.count("<table")
    heads = re.findall(r"<th\b[^>]*>", page)
    assert heads
    assert all("scope=" in head for head in heads)


def test_scores_of_the_order_are_those_of_scikit_learn(folder):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 3))
    y = np.where(X[:, 0] + rng.normal(size=150) > 1.2, "a yes", "no")  # the rarer class is the first
    parts = {"X_test": X[100:], "y_test": y[100:]}
    found = compare(X[:100], y[:100], ["hinge"], ["working-set"], 100, models=True, scoring="roc_auc", **parts)
    truth = y[100:] == "a yes"
    values = -SVC(tol=1e-9).fit(X[:100], y[:100]).decision_function(X[100:])
    majority, ours, *_ = found.models
    assert (majority.average_precision, majority.roc_auc) == (truth.mean(), 0.5)
    assert ours.average_precision == pytest.approx(average_precision_score(truth, values))
    assert ours.roc_auc == pytest.approx(roc_auc_score(truth, values))
    assert found.settings["positive class"] == "a yes"
    assert "class +1" not in found.settings
    assert re.match(r"Use SVC: ROC AUC 0\.", str(found))
    page = render(found)
    assert page.count("<dt>training points</dt>") == 1
    assert "<dt>positive class</dt><dd>a yes</dd>" in page
    churn("churn.csv", 100)
    words = ("--scoring", "average_precision", "--solvers", "working-set", "--no-report")
    assert "average precision of 'yes' 0." in " ".join(run("compare", "churn.csv", *words).stdout.split())


def test_few_rows_show_nothing_about_models():
    truth = np.repeat([0, 1], [38, 2])
    counts = [ClassCounts.of(truth, answer, ["no", "yes"]) for answer in (0 * truth, np.arange(40) == 39)]
    scores = [ModelScore("majority (no)", counts=counts[0]), ModelScore("dualflow SVC", None, counts[1], 0.1)]
    assert models_verdict(scores, "balanced_accuracy", 160) == (
        "These 40 held-out rows (2 of 'yes') cannot show that a model is better than always answering 'no': balanced "
        f"accuracy 0.750 ± {counts[1].error:.3f} against 0.500."
    )


def test_a_subsample_is_said_in_the_title(folder):
    churn("churn.csv", 400)
    result = run("compare", "churn.csv", "--max-n", "60", "--solvers", "working-set", "--no-report")
    assert result.exit_code == 0, result.output
    assert "60 of 400 rows, drawn at random" in " ".join(result.stdout.split())
    whole = run("compare", "churn.csv", "--solvers", "working-set", "--no-report").stdout
    assert "Next: dualflow train churn.csv --class-weight balanced --search --proba" in whole.splitlines()
    assert "drawn at random" not in whole
    assert "(n = 320, box with equality)" in " ".join(whole.split())


def test_options_of_classes_reach_the_comparison(folder):
    churn("churn.csv", 300)
    words = ("compare", "churn.csv", "--solvers", "working-set", "--no-report", "--json")
    found = json.loads(run(*words, "--class-weight", "yes=4,no=1", "--positive", "no").stdout)
    assert [row["class_weight"] for row in found["models"]] == [None, "yes=4, no=1", "yes=4, no=1"]
    assert {row["positive"] for row in found["models"]} == {"no"}
    assert found["settings"]["class weights"] == "yes=4, no=1"
    by_accuracy = json.loads(run(*words, "--scoring", "accuracy").stdout)
    assert by_accuracy["settings"]["class weights"] is None  # weights cost accuracy
    assert by_accuracy["verdict"].startswith(("Use ", "By accuracy no model is better than always answering 'no': 0."))
    plain = json.loads(run(*words, "--kernel", "linear", "--C", "inf").stdout)  # a hard margin has no SVC to compare
    assert plain["models"] == []


def test_all_and_quantum_add_sections(folder):
    churn("churn.csv", 120)
    words = ("--solvers", "working-set,variational-flow", "--max-n", "16", "--no-report", "--shots", "200", "--json")
    result = run("compare", "churn.csv", "--all", "--devices", "emulator", *words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert [row["problem"] for row in found["rows"] if row["solver"] == "working-set"] == [
        "hinge",
        "squared_hinge",
        "svdd",
    ]
    circuits = [row for row in found["rows"] if row["solver"] == "variational-flow"]
    assert {row["role"] for row in circuits} == {"quantum", "emulated", "control"}
    assert {row["problem"] for row in circuits if row["reason"] is None} == {"squared_hinge", "svdd"}
    assert found["models"]
    shown = run("compare", "churn.csv", "--devices", "emulator", *words[:-1]).stdout
    assert "circuits on 16 of 120 rows" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--positive", "maybe"], "--positive: data.csv has no class 'maybe'; it has down, up"),
        (["--class-weight", "maybe=2"], "--class-weight: data.csv has no class 'maybe'"),
        (["--class-weight", "up"], 'must be "balanced", or LABEL=WEIGHT with a weight above 0, such as'),
        (["--class-weight", "up=-1"], "with a weight above 0"),
        (["--class-weight", "up=1,up=2"], "names the class 'up' twice"),
        (["--class-weight", ","], "--class-weight is empty"),
        (["--scoring", "recal"], "did you mean 'recall'"),
    ],
)
def test_bad_options_of_compare_are_one_sentence(folder, words, said):
    write(folder, table())
    refused(run("compare", "data.csv", "--solvers", "smo", *words), said)
    refused(run("compare", *words), "need DATA")


def test_compare_refuses_what_contradicts_itself():
    X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]
    with pytest.raises(ProblemError, match="positive=1 needs models=True"):
        compare(X, y, "hinge", ["smo"], positive=1)
    with pytest.raises(ProblemError, match="class_weight='auto' needs models=True"):
        compare(X, y, "hinge", ["smo"], class_weight="auto")
    with pytest.raises(ProblemError, match="models need held-out rows"):
        compare(X, y, "hinge", ["smo"], models=True)
    with pytest.raises(ProblemError, match="models=True needs kernel linear or poly or rbf or sigmoid, a finite C"):
        compare(X, y, "hinge", ["smo"], models=True, C=np.inf, max_n=2)
    with pytest.raises(ProblemError, match="positive=7 is not a label of y"):
        compare(X, y, "hinge", ["smo"], models=True, max_n=2, positive=7)


def test_weights_and_dense_solvers_in_python(monkeypatch):
    monkeypatch.setattr("dualflow.comparison.main_job.MAX_DENSE_N", 20)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = (X[:, 0] > 1.0).astype(int)
    found = compare(X, y, "hinge", None, 40, models=True, class_weight="balanced", circuits=False, time_limit=1.0)
    dense = {row.solver: row for row in found.rows if row.status == "NOT RUN"}
    optional = {"qpsolvers"} if find_spec("qpsolvers") else set()
    assert set(dense) == {"cvxopt", "interior-point"} | optional
    assert "left out above 20 points" in dense["cvxopt"].reason
    assert found.sections[0].reference is None
    named = compare(X, y, "hinge", ["cvxopt", "working-set"], 40, class_weight={0: 1.0, 1: 5.0}, models=True)
    row = next(row for row in named.rows if row.solver == "cvxopt")
    assert row.ran
    # The weights are those of scikit-learn: the same boxes.
    problem = named.rows[0].solution.problem
    assert sorted(set(problem.upper.tolist())) == [1.0, 5.0]


def test_scikit_learn_is_left_out_where_it_would_take_too_long(monkeypatch):
    monkeypatch.setattr("dualflow.comparison.models.TRIAL_ROWS", 10)
    monkeypatch.setattr("dualflow.comparison.models.GROWTH_POWER", 30.0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    found = compare(X, X[:, 0] > 0, "hinge", ["working-set"], 80, models=True, time_limit=5.0)
    theirs = next(score for score in found.models if score.model == "scikit-learn SVC")
    assert theirs.counts is None
    assert theirs.reason.startswith("not fitted: by a fit to 10 rows, 80 rows take about")
    assert theirs.reason in " ".join(found.table(200).split())
    assert best_model(found.models, "accuracy").model == "dualflow SVC"


@pytest.mark.parametrize(
    ("given", "width"), [("100", 100), ("70", 70), ("wide", TABLE_WIDTH_CHARS), ("0", TABLE_WIDTH_CHARS)]
)
def test_columns_is_honoured_when_piped(folder, monkeypatch, given, width):
    monkeypatch.setenv("COLUMNS", given)
    churn("churn.csv", 120)
    lines = run("compare", "churn.csv", "--solvers", "working-set", "--no-report").stdout.splitlines()
    assert width - 12 <= max(map(len, lines)) <= width
    assert max(map(len, run("solvers").stdout.splitlines())) <= width


# --- train, predict, check -------------------------------------------------------------------------


@pytest.mark.parametrize("search", [(), pytest.param(("--search", "--search-time", "30"), marks=pytest.mark.slow)])
def test_train_predict_and_check_show_recall_and_the_confusion_matrix(folder, search):
    churn("churn.csv", 400)
    churn("new.csv", 200, seed=1)
    words = ("--class-weight", "balanced", "--proba", *search, "--cv", "3")
    trained = run("train", "churn.csv", *words)
    assert trained.exit_code == 0, trained.output
    assert not search or re.match(
        r"--search: 25 settings \(5 C × 5 gamma\), 3 folds, by balanced_accuracy; a fit takes .*all together at most "
        r"about .*; it ends after 30.0 s",
        trained.stderr,
    )
    for text in ("balanced accuracy, 3 folds", "Scores of 400 rows, each by a fold that had not seen it", "→ yes"):
        assert text in trained.stdout
    facts = json.loads(run("train", "churn.csv", *words[:3], "--json").stdout)
    assert facts["probabilities"] is True
    assert facts["parameters"]["class_weight"] == "balanced"
    checked = run("check", "model.dualflow", "churn.csv", "--json")
    assert checked.exit_code == 0, checked.output
    scores = json.loads(checked.stdout)["scores"]
    assert scores == facts["scores"]
    assert scores["positive"] == "yes"
    assert "recall of 'yes'" in run("check", "model.dualflow", "churn.csv").stdout
    predicted = run("predict", "model.dualflow", "new.csv", "--proba", "--out", "p.csv")
    assert predicted.exit_code == 0, predicted.output
    with open("p.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found, truth = [row["prediction"] for row in rows], labels_in("new.csv")
    said = json.loads(run("predict", "model.dualflow", "new.csv", "--json").stdout)["scores"]
    assert said["confusion"] == confusion_matrix(truth, found).tolist()
    assert said["recall"] == recall_score(truth, found, pos_label="yes")
    assert f"recall of 'yes' {said['recall']:.3f}, precision {said['precision']:.3f}" in predicted.stdout
    chance = np.array([[float(row["probability no"]), float(row["probability yes"])] for row in rows])
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    assert chance[np.array(truth) == "yes", 1].mean() > 2 * chance[np.array(truth) == "no", 1].mean()
    assert 0.5 < chance[:, 1].mean() / 0.1 < 2.0  # a tenth leaves, whatever the weights
    other = int((np.array(["no", "yes"])[chance.argmax(axis=1)] != np.array(found)).sum())
    assert other > 0
    assert f"The prediction of {other} of {len(rows)} rows is not the class of highest probability" in predicted.stdout


@pytest.mark.parametrize("k", [2, 3])
def test_probabilities_are_those_of_the_estimator(folder, k):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=120), [0.0, 0.8][: k - 1])
    lines = "\n".join(f"{a!r},{b!r},{label}" for (a, b), label in zip(X.tolist(), y.tolist(), strict=True))
    write(folder, f"a,b,kind\n{lines}\n")
    result = run("train", "data.csv", "--proba", "--no-standardise", "--C", "3", "--gamma", "0.5", "--seed", "4")
    assert result.exit_code == 0, result.output
    peer = dualflow.SVC(C=3, gamma=0.5, probability="sigmoid").fit(X, y)
    said = json.loads(run("predict", "model.dualflow", "data.csv", "--proba", "--json").stdout)
    found = np.array(list(said["probability"].values())).T
    assert list(said["probability"]) == [f"probability {label}" for label in range(k)]
    np.testing.assert_allclose(found, peer.predict_proba(X), atol=1e-9)


def test_weights_are_those_of_scikit_learn(folder):
    churn("churn.csv", 200)
    result = run("train", "churn.csv", "--class-weight", "yes=7.5, no=1", "--tol", "1e-9", "--json")
    assert json.loads(result.stdout)["parameters"]["class_weight"] == {"yes": 7.5, "no": 1.0}
    machine, _ = read_model(folder / "model.dualflow")
    X = machine.solutions_[0].problem.gram.X
    peer = SVC(class_weight={"yes": 7.5, "no": 1.0}, gamma=machine.solutions_[0].problem.gram.gamma, tol=1e-9)
    np.testing.assert_allclose(
        machine.decision_function(X), peer.fit(X, labels_in("churn.csv")).decision_function(X), atol=1e-5
    )


def test_a_search_tries_weights_for_unequal_classes_and_keeps_to_its_time(folder):
    churn("churn.csv", 300)
    result = run("train", "churn.csv", "--search", "--kernel", "linear", "--scoring", "f1", "--json")
    assert result.exit_code == 0, result.output
    assert "10 settings (5 C × 2 class_weight), 5 folds, by f1" in result.stderr
    found = json.loads(result.stdout)["search"]
    assert (found["scoring"], found["candidates"], found["finished"]) == ("f1", 10, 10)
    assert set(found["best"]) == {"C", "class_weight"}
    # The scores are of unseen rows: those of --cv with the same folds.
    facts, best = json.loads(result.stdout), found["best"]
    words = ("--kernel", "linear", "--C", str(best["C"]), "--scoring", "f1", "--cv", "5")
    weights = () if best["class_weight"] is None else ("--class-weight", best["class_weight"])
    again = json.loads(run("train", "churn.csv", *words, *weights, "--json").stdout)
    assert facts["scored_rows"] == "unseen"
    assert facts["scores"] == again["scores"]
    assert facts["cross_validation"] == again["cross_validation"]
    # A model whose fits of the folds would take longer than the search is scored by its training rows.
    steps = Steps(True, 4.0, False, None, 0)
    assert search_splits(None, steps, {"folds": 5, "refit_s": 1.0}) == []
    assert search_splits(None, steps, None) == []
    equal = run("train", write(folder, table(60)), "--search", "--kernel", "linear", "--json")
    assert json.loads(equal.stdout)["search"]["candidates"] == 5
    refused(run("train", "churn.csv", "--search", "--search-time", "1e-6"), "--search found no model", "--search-time")


@pytest.mark.filterwarnings("error:One or more of the test scores")
def test_settings_that_the_time_does_not_suffice_for_are_counted_without_a_warning():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")

    def scorer(model, X, y):
        return np.nan if model.C < 1 else model.score(X, y)

    table, classes = SimpleNamespace(source="data.csv"), SimpleNamespace(scoring="accuracy", scorer=scorer)
    data = SimpleNamespace(kind="svc", X=X, y=y, table=table, classes=classes)
    steps = Steps(search=True, budget_s=60.0, proba=False, cv=3, seed=0)
    _, found = searched_model(data, dualflow.SVC(kernel="linear"), steps, lambda text: None)
    assert 0 < found["finished"] < found["candidates"]


@pytest.mark.parametrize(
    ("finished", "said"),
    [
        (25, "0.9, the best of 25 settings"),
        (24, "0.9, the best of 24 of 25 settings; 1 was not reached in time"),
        (3, "0.9, the best of 3 of 25 settings; 22 were not reached in time"),
    ],
)
def test_the_settings_of_a_search_that_were_not_reached_are_counted(finished, said):
    assert search_text({"score": 0.9, "candidates": 25, "finished": finished}) == said


def test_no_better_than_the_majority_is_said(folder):
    rng = np.random.default_rng(0)
    rows = "".join(f"{x:.3f},{'yes' if k % 10 == 0 else 'no'}\n" for k, x in enumerate(rng.normal(size=200)))
    write(folder, "a,left\n" + rows)
    for words in (("train", "data.csv", "--cv", "3"), ("check", "model.dualflow", "data.csv")):
        result = run(*words)
        assert "This model is NO better than always answering 'no'" in result.stdout, words
    assert json.loads(run("train", "data.csv", "--json").stdout)["scores"]["better_than_majority"] is False


def test_several_classes_have_recall_and_precision_each(folder):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    names = np.array(["red", "green", "blue"])[np.digitize(X[:, 0], [-0.4, 0.4])]
    write(folder, "a,b,c\n" + "".join(f"{a:.4f},{b:.4f},{c}\n" for (a, b), c in zip(X, names, strict=True)))
    text = run("train", "data.csv", "--positive", "green").stdout
    assert "recall of 'green'" in text
    assert re.search(r"class\s+→ blue\s+→ green\s+→ red\s+recall\s+precision\n", text)
    assert "recall of 'green'" in run("predict", "model.dualflow", "data.csv").stderr  # the model keeps it
    assert "recall of 'red'" in run("predict", "model.dualflow", "data.csv", "--positive", "red").stderr
    refused(run("train", "data.csv", "--cv", "3", "--scoring", "f1"), "--scoring f1 needs two classes", "f1_macro")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--class-weight", "left=2"], "--class-weight: data.csv has no class 'left'"),
        (["--positive", "left"], "--positive: data.csv has no class 'left'"),
        (["--scoring", "f1"], "--scoring is the score of --search and --cv"),
        (["--cv", "3", "--scoring", "f2"], "--scoring 'f2' is no score of scikit-learn, such as accuracy"),
        (["--cv", "3", "--scoring", "neg_log_loss"], "--scoring neg_log_loss cannot score this model"),
        (["--search-time", "3"], "--search-time is the time of --search"),
        (["--search", "--search-time", "0"], "--search-time=0"),
        (["--kind", "svdd", "--proba"], "--proba needs classes, and --kind svdd has none"),
        (["--kind", "svdd", "--class-weight", "balanced"], "--class-weight needs classes"),
        (["--kind", "svdd", "--cv", "3", "--scoring", "r2"], "--scoring needs labels"),
        (["--label", "a", "--kind", "svr", "--positive", "1"], "--positive needs classes, and --kind svr has none"),
    ],
)
def test_bad_options_of_train_are_one_sentence(folder, words, said):
    write(folder, table())
    refused(run("train", "data.csv", *words), said)
    assert [path.name for path in folder.iterdir()] == ["data.csv"]


def test_a_model_without_probabilities_or_classes_says_so(folder):
    write(folder, table())
    run("train", "data.csv")
    refused(run("predict", "model.dualflow", "data.csv", "--proba"), "no calibrated probabilities", "train --proba")
    refused(run("predict", "model.dualflow", "data.csv", "--positive", "x"), "--positive: the model has no class 'x'")
    refused(run("check", "model.dualflow", "--positive", "up"), "--positive needs DATA")


def test_a_damaged_positive_class_is_refused(folder):
    write(folder, table(40))
    run("train", "data.csv", "--proba", "--positive", "down")
    header, arrays = container.read(folder / "model.dualflow", 1 << 20)
    del header["members"]
    kept = header["table"]
    assert kept["positive"] == "down"
    container.write(folder / "bad", header | {"table": kept | {"positive": "left"}}, arrays)
    refused(run("predict", "bad", "data.csv"), "bad has a damaged table description beside its model")


# --- columns that are no features ------------------------------------------------------------------


def test_all_columns_of_many_texts_and_dates_are_one_error(folder):
    n = MAX_COLUMN_TEXTS + 5
    rows = "".join(f"C{max(k, 1)},2024-01-{k % 28 + 1:02},n{k % 9},{k % 2}\n" for k in range(n))
    write(folder, "street,first order,town,left\n" + rows)
    words = (
        "2 columns are not features: street (more than 1000 different texts)",
        "first order (dates or times, such",
    )
    refused(run("train", "data.csv"), *words, '--drop street --drop "first order"')
    refused(run("compare", "data.csv"), *words)


def test_columns_of_each_unusable_kind_are_one_error(folder):
    n = MAX_COLUMN_TEXTS + 5
    rows = "".join(
        f"C{max(k, 1)};{f'{k},5'};{k if k != 7 else '12a'};{k % 28 + 1}.01.2024;{k};{k % 2}\n" for k in range(n)
    )
    write(folder, "street;fee;stay;since;size;left\n" + rows)
    words = (
        "data.csv: 4 columns are not features: street (more than 1000 different texts), fee (line 2: '0,5', '1,5', "
        "'2,5' are not finite numbers), stay (line 9: '12a' is not a finite number), since (dates or times, such as "
        "'1.01.2024'). Leave columns out with --drop street --drop stay --drop since; or correct the cells, write "
        "dates as numbers, read categories with --text. fee: if that is a decimal comma, add --decimal ,"
    )
    refused(run("train", "data.csv"), words)
    refused(run("compare", "data.csv"), words)
    result = run(
        "train", "data.csv", *(f"--drop={name}" for name in ("street", "stay", "since")), "--decimal", ",", "--json"
    )
    assert json.loads(result.stdout)["features"] == 2


def identifiers(n):
    rows = "".join(f"C{k},{10001 + 7 * k % n},{k + 3},{k % 7},{'no' if k % 3 else 'yes'}\n" for k in range(n))
    return "customer,order_id,price_index,size,left\n" + rows


@pytest.mark.parametrize("n", [40, MAX_COLUMN_TEXTS + 100])
def test_columns_that_name_the_rows_are_left_out_with_one_note(folder, n):
    write(folder, identifiers(n))
    result = run("train", "data.csv", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["features"] == 2
    words = "Columns customer, order_id are left out: each row has a different value"
    assert words in result.stderr
    assert "--keep customer --keep order_id keeps them" in result.stderr
    assert "Column price_index looks like the number of a row or a person" in result.stderr
    kept = run("train", "data.csv", "--keep", "order_id", "--drop", "customer", "--json")
    assert json.loads(kept.stdout)["features"] == 3
    assert "left out" not in kept.stderr
    assert run("predict", "model.dualflow", "data.csv").exit_code == 0


def test_compare_leaves_them_out_too_and_says_so_in_the_next_command(folder):
    write(folder, identifiers(40))
    result = run("compare", "data.csv", "--solvers", "working-set", "--no-report", "--keep", "order_id")
    assert result.exit_code == 0, result.output
    assert "Column customer is left out: each row has a different value" in result.stderr
    assert "--keep order_id" in result.stdout


def test_a_table_of_names_alone_is_refused(folder):
    write(folder, "customer,left\n" + "".join(f"C{k},{k % 2}\n" for k in range(30)))
    refused(run("train", "data.csv"), "data.csv has no feature but customer: each row has a different value", "--keep")
    assert json.loads(run("train", "data.csv", "--keep", "customer", "--json").stdout)["features"] == 30


def test_the_same_of_parquet(folder):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    n = 30
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=k) for k in range(n)]
    columns = {"who": [f"p{k}" for k in range(n)], "when": days, "also": [[k] for k in range(n)]}
    columns["x"] = list(range(5, n + 5))
    parquet.write_table(pyarrow.table(columns | {"left": [k % 2 for k in range(n)]}), "t.parquet")
    refused(
        run("train", "t.parquet"),
        "2 columns are not features: when (date32[day]), also (list<",
        "neither a number nor text)",
        "--drop when --drop also",
    )
    assert os.listdir() == ["t.parquet"]
    result = run("train", "t.parquet", "--drop", "when", "--drop", "also")
    assert result.exit_code == 0, result.output
    assert "Column who is left out: each row has a different value" in result.stderr


def test_a_search_that_ends_at_the_edge_of_its_grid_says_so(folder):
    write(folder, table(60))
    found = json.loads(run("train", "data.csv", "--search", "--kernel", "linear", "--json").stdout)["search"]
    assert _edges({"C": [0.1, 1.0, 10.0], "gamma": [1.0, 0.3, 3.0]}, {"C": 0.1, "gamma": 1.0}) == {"C": "smallest"}
    assert _edges({"C": [0.1, 1.0, 10.0], "gamma": [1.0, 0.3, 3.0]}, {"C": 1.0, "gamma": 3.0}) == {"gamma": "largest"}
    assert _edges({"C": [1.0]}, {"C": 1.0}) == {}
    assert found["edges"] == _edges({"C": [0.1, 1.0, 10.0, 100.0, 1000.0]}, found["best"])
    told = {"score": 0.9, "candidates": 5, "finished": 5, "edges": {"C": "smallest"}}
    assert search_text(told) == "0.9, the best of 5 settings; C is the smallest that it tries"


def test_a_score_is_printed_once_by_a_search_without_folds_of_its_own(folder):
    write(folder, table(60))
    assert "accuracy, 5 folds" not in run("train", "data.csv", "--search", "--kernel", "linear").stdout
    assert "accuracy, 5 folds" in run("train", "data.csv", "--search", "--kernel", "linear", "--cv", "5").stdout


def test_a_model_that_finds_few_of_the_rare_class_names_the_weights():
    truth = np.repeat([0, 1], [4452, 548])
    found = ClassCounts.of(truth, np.where(np.arange(5000) >= 4993, 1, 0), ["no", "yes"])
    assert found.beats_majority  # on so many rows
    assert found.warning(False) == "It finds 7 of the 548 rows of 'yes'; try --class-weight balanced."
    assert found.warning(True) is None
    equal = ClassCounts.of(np.repeat([0, 1], [50, 50]), np.where(np.arange(100) >= 90, 1, 0), ["no", "yes"])
    assert equal.warning(False) is None


def test_weights_and_probabilities_are_said_to_differ(folder):
    churn("churn.csv", 200)
    words = ("train", "churn.csv", "--proba", "--kernel", "linear")
    assert "predictions follow the class weights" in run(*words, "--class-weight", "balanced").stdout
    assert "predictions follow the class weights" not in run(*words).stdout


def test_rare_alarms_that_are_right_are_said():
    weak = ModelScore("a", counts=ClassCounts(("no", "yes"), np.array([[700, 300], [25, 75]]), 1))
    assert counts_text(weak).endswith("of the 1000 others it takes 300 for 'yes': 1 of 5 alarms is right.")


@pytest.fixture(scope="module")
def scores_of_samples():
    """The scores of 400 samples of 200 points of one class and 60 of the other."""
    rng, truth, scores = np.random.default_rng(0), np.repeat([0, 1], [200, 60]), []
    for _ in range(400):
        values = rng.normal(size=260) + 1.2 * truth
        areas = {"average_precision": average_precision_score(truth, values), "roc_auc": roc_auc_score(truth, values)}
        scores.append(ModelScore("a", counts=ClassCounts.of(truth, values > 0.6, "ab", 1), **areas))
    return scores


@pytest.mark.parametrize("name", ["accuracy", "recall", "precision", "f1", "average_precision", "roc_auc"])
def test_the_error_of_a_score_is_its_spread_over_samples(name, scores_of_samples):
    found = [score.score(name) for score in scores_of_samples]
    errors = [score.error(name) for score in scores_of_samples]
    # 400 draws know their standard deviation to 1 / sqrt(800) = 3.5 %: four of these. The formulas of the
    # order assume other distributions than the normal one of these values: within a third.
    ratio = np.mean(errors) / np.std(found)
    assert abs(ratio - 1) < (1 / 3 if name in ("average_precision", "roc_auc") else 4 / np.sqrt(800))


def test_the_limit_of_a_search_is_none_of_its_final_fit(folder, monkeypatch):
    churn("churn.csv", 100)
    limits = []
    fit = dualflow.SVC.fit

    def noted(self, X, y, *rest):
        limits.append((len(y), self.time_limit))
        return fit(self, X, y, *rest)

    monkeypatch.setattr(dualflow.SVC, "fit", noted)
    result = run("train", "churn.csv", "--search", "--search-time", "40", "--kernel", "linear", "--cv", "2")
    assert result.exit_code == 0, result.output
    assert [limit for n, limit in limits if n == 100][-1] is None
