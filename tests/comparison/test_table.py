"""What a comparison says first, in which order its rows stand, and that no value of it is cut at any width."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from sklearn.datasets import make_blobs

import dualflow
from dualflow import Gram, ProblemError, compare, problems
from dualflow.comparison import dry_run
from dualflow.comparison import models as models_module
from dualflow.comparison import rows as rows_module
from dualflow.report import Comparison, Row, Section
from dualflow.report.columns import QUANTUM, RESULTS, gap_text
from dualflow.report.html import HEIGHT_PX, chart, render
from dualflow.report.scores import ClassCounts, ModelScore
from dualflow.report.terminal import main_rows, renderable
from dualflow.report.verdict import constant_note, overall, solver_advice, verdict

WIDTHS = (80, 100, 120, 200)


def classical(solver: str, gap: float, seconds: float, **more) -> Row:
    more = {
        "accuracy": 0.9,
        "balanced_accuracy": 0.8,
        "refined_gap": 0.0,
        "infeasibility": 0.0,
        "classical_share": 1.0,
        "steps": 3,
    } | more
    status = "OPTIMAL" if gap <= 1e-6 else "TIME_LIMIT"
    return Row("hinge", solver, "classical", status=status, raw_gap=gap, wall_time_s=seconds, **more)


def circuits(solver: str, device: str, number: int, role: str = "quantum") -> Row:
    """A row whose figures are its own: none is part of another row's."""
    k = 10 + number
    figures = {"qubits": k, "circuits": k * 1_001_003, "depth": k * 1003, "two_qubit_gates": k * 1007}
    figures |= {"shots": k * 100_000_007, "shot_floor": k * 1.01e-5, "excess": k * 1.1e-7, "margin": float(k * 9)}
    figures["balanced_accuracy"] = k / 1100
    return Row(
        "hinge", solver, role, device, 10_000, status="DEVICE_FAILED", raw_gap=k * 1.3e-3, refined_gap=k * 1.3e-17,
        infeasibility=k * 1.3e-11, accuracy=k / 1000, support_agreement=k / 97, wall_time_s=k + 0.5,
        classical_share=k / 300, steps=k * 1_001, parameter_gap=k * 1.3e-9, note=f"remark {k}", **figures,
    )  # fmt: skip


def section(*rows: Row, name: str = "hinge") -> Section:
    return Section(name, "C-SVM", 64, "box", 1e-6, None, "no reference: a test", rows_module.ranked(list(rows), 1e-6))


def comparison(*sections: Section) -> Comparison:
    return Comparison(sections, {"tol": 1e-6}, {"dualflow": "0"})


@pytest.fixture(scope="module")
def wide() -> Comparison:
    """Rows as wide as they come."""
    names = ["hamiltonian-schrodingerisation", "variational-lotka-volterra", "a_solver_of_somebody_without_hyphens"]
    devices = ["pennylane:lightning.qubit", "control:classical-sampler", "ibm:a_machine_with_a_very_long_name"]
    return comparison(
        section(
            *(circuits(name, device, k) for k, (name, device) in enumerate(zip(names, devices, strict=True))),
            circuits("hamiltonian-descent", "emulator", 5, "emulated"),
            Row("hinge", "hamiltonian-lchs", "quantum", status="DOES NOT APPLY", reason="it takes 16 variables"),
            classical("working-set", 1e-9, 5e-4),
        )
    )


def parts(text: str) -> list[tuple[str, ...]]:
    """The blocks of a table's text: results, then resources."""
    before, after = text.split("quantum resources")
    return [before, after]


@pytest.mark.parametrize("width", WIDTHS)
def test_no_value_is_cut_at_any_width(wide, width):
    text = wide.table(width)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= width
    for part, columns, least in zip(parts(text), (RESULTS, QUANTUM), (3, 3), strict=True):
        found = re.search(r"not shown in \d+ columns: (.*?)\s\(all\s+are", part, re.S)
        missing = " ".join(found[1].split()).split(", ") if found else []
        without = [*missing, "excess band"]  # that of several seeds is in test_seeds
        shown = [column for column in columns if column.header not in without]
        assert {column.header for column in columns} >= set(missing)
        assert len(shown) >= least
        for row in wide.rows:
            if not row.ran or (columns is QUANTUM and row.device is None):
                continue
            lines = part.splitlines()
            for column in shown:
                # A value of two words may stand in two lines; a number never does.
                cell = column.cell(row)
                pieces = [cell] if any(map(str.isdigit, cell)) else cell.replace("emulated", "emu- lated").split()
                for piece in pieces:
                    beside = rf"(?<![\w.]){re.escape(piece)}(?![\w.])"
                    assert any(re.search(beside, line) for line in lines), (width, column.header, cell)
        names = part.replace("ibm:", "ibm: ").split()
        for row in wide.rows:
            wanted = row.device or row.solver
            assert columns is QUANTUM or row.device or wanted in names or wanted.split("-")[-1] in names
            assert row.device is None or row.device.split(":")[-1][:17] in names


def test_the_most_telling_columns_stay_longest(wide):
    missing = {}
    for width in (70, 80, 100, 120, 160, 200):
        results = parts(wide.table(width))[0]
        found = re.search(r"not shown in \d+ columns: (.*?)\s\(all\s+are", results, re.S)
        missing[width] = set(" ".join(found[1].split()).split(", ")) if found else set()
    for narrow, broad in zip(list(missing), list(missing)[1:], strict=False):
        assert missing[broad] <= missing[narrow]
    assert not {"raw gap", "time", "accuracy"} & missing[80]
    assert "classical" in missing[80]
    assert missing[200] == set()


def test_a_very_narrow_table_breaks_values_and_cuts_none(wide):
    text = wide.table(30)
    assert max(map(len, text.splitlines())) <= 30
    assert "…" not in text


def test_rows_within_the_tolerance_are_ranked_by_time_the_others_by_gap():
    rows = [
        classical("overshot", 1e-15, 0.3),
        classical("quick", 9e-7, 0.001),
        classical("late", 1e-2, 0.0001),
        classical("later", 1e-1, 0.00001),
    ]
    part = section(*rows)
    assert [row.solver for row in part.rows] == ["quick", "overshot", "late", "later"]
    assert [row.rank for row in part.rows] == [1, 2, 3, 4]
    assert verdict(part) == "Use quick: optimal in 1.0 ms; 1 other met tol = 1e-06 in more time."


def test_verdicts():
    alone = section(classical("smo", 1e-9, 0.002))
    assert verdict(alone) == "Use smo: optimal in 2.0 ms."
    close = section(*(classical(name, 0.0, t) for name, t in (("a", 0.003), ("b", 0.002), ("c", 0.0041))))
    assert verdict(close) == ("Use b or a: optimal in 2.0 ms to 3.0 ms; 1 other met tol = 1e-06 in more time.")
    none = section(classical("smo", 1e-3, 0.002), classical("cvxopt", 1e-2, 0.001))
    assert verdict(none) == "No solver met tol = 1e-06. The best is smo: raw gap 1.0e-03 (time limit)."
    control = circuits("flow", "null", 1, "control")
    assert verdict(section(control)) == "No verdict: no ranked row has a certified gap."
    two = section(classical("a", 0.0, 0.001), classical("b", 0.0, 0.004), name="svdd")
    other = section(classical("b", 0.0, 0.001), classical("a", 1.0, 0.004))
    assert overall(comparison(two, other)) == "Use b: optimal on all 2 problems, in 5.0 ms together."
    assert overall(comparison(two, none)) == "No single solver met tol = 1e-06 on all 2 problems."
    assert comparison(two, other).table().splitlines()[0] == overall(comparison(two, other))
    assert verdict(other) in comparison(two, other).table()


def test_the_advice_on_the_solver_is_to_name_none_if_the_default_is_fast():
    counts = ClassCounts.of([0, 1], [0, 1], ["no", "yes"])
    part = section(*(classical(name, 0.0, t) for name, t in (("a", 0.003), ("b", 0.002), ("c", 0.0041))))

    def advice(solver: str | None) -> str:
        ours = ModelScore("dualflow SVC", None, counts, 0.1, solver=solver)
        return solver_advice(replace(comparison(part), models=(ModelScore("majority (no)", counts=counts), ours)))

    assert advice("b") == "The default solver, b, was the fastest; leave `solver` out."
    assert advice("a") == "The default solver, a, was among the fastest; leave `solver` out."
    slow = "As its solver, use b or a: optimal in 2.0 ms to 3.0 ms; 1 other met tol = 1e-06 in more time."
    assert advice("c") == advice(None) == slow
    # The default did not run as a row, and its fit takes less than the named solvers.
    ours = ModelScore("dualflow SVC", None, counts, 0.001, solver="working-set")
    found = replace(comparison(part), models=(ModelScore("majority (no)", counts=counts), ours))
    assert solver_advice(found) == (
        "Of the solvers that ran, b was the fastest, in 2.0 ms; the default, working-set, took 1.0 ms: leave `solver` "
        "out."
    )
    assert solver_advice(replace(found, models=(found.models[0], replace(ours, fit_time_s=0.1)))) == slow


def test_gaps_of_rounding_are_alike():
    assert [gap_text(gap) for gap in (0.0, 3.8e-15, 9.8e-15, -1e-16, 1e-12, float("inf"))] == [
        "0", "< 1e-12", "< 1e-12", "< 1e-12", "1.0e-12", "∞",
    ]  # fmt: skip


def test_models_of_one_answer_are_named():
    constant, good = (ClassCounts.of([0, 0, 1], answer, ["no", "yes"]) for answer in ([0, 0, 0], [0, 0, 1]))
    models = [
        ModelScore("majority (no)", counts=constant),
        ModelScore("dualflow SVC", None, constant, 0.1),
        ModelScore("scikit-learn SVC", None, constant, 0.1),
        ModelScore("dualflow SVC", "balanced", good, 0.1),
    ]
    assert constant_note(models) == "dualflow SVC and scikit-learn SVC answer 'no' to every row."
    assert constant_note(models[:2]) == "dualflow SVC answers 'no' to every row."
    assert constant_note([models[0], models[3]]) is None
    found = replace(comparison(section(classical("a", 0.0, 1.0))), models=tuple(models))
    assert constant_note(models) in str(found)
    assert "answer &#39;no&#39; to every row." in render(found)


@pytest.mark.parametrize(("seconds", "runs"), [(0.2, 3), (0.6, 2), (1.5, 1)])
def test_rows_and_models_are_the_fastest_of_up_to_three_runs_within_a_second(monkeypatch, seconds, runs):
    made: list[float] = []

    def timed(*_, **__):
        made.append(seconds + 0.01 * len(made))
        return SimpleNamespace(cost=SimpleNamespace(wall_time_s=made[-1]))

    with monkeypatch.context() as patch:
        patch.setattr(rows_module, "solve", timed)
        best = rows_module.RowRunner(None, 0, 1e-6, None, None, 1).best_run(None, "smo")
    assert (len(made), best.cost.wall_time_s) == (runs, seconds)
    fits: list[str] = []
    fit = models_module._timed_fit

    def timed_fit(model, part):
        fits.append(type(model).__module__)
        fit(model, part)
        return seconds

    monkeypatch.setattr(models_module, "_timed_fit", timed_fit)
    compare(*data(), ["hinge"], ["smo"], 20, models=True)
    assert len(fits) == 2 * runs


def test_emulated_rows_are_not_recommended():
    row = circuits("flow", "emulator", 1, "emulated")
    assert verdict(section(row)).startswith("No verdict")


def test_the_accuracy_of_unfinished_rows_is_grey(tmp_path):
    found = comparison(section(classical("done", 1e-9, 1.0, accuracy=0.111), classical("cut", 1e-2, 1.0, accuracy=0.9)))
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system="standard")
    console.print(found)
    text = console.file.getvalue()
    grey = re.findall(r"\x1b\[90m([^\x1b]*)\x1b", text)
    assert [cell.strip() for cell in grey if re.fullmatch(r" *[01][.][0-9]{3} *", cell)] == ["0.900"]
    found.to_html(tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert re.search(r'class="aside">0.900<', page)
    assert not re.search(r'class="aside">0.111<', page)


def test_the_report_has_the_verdict_on_top_and_the_solver_first(wide, tmp_path):
    wide.to_html(tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text()
    assert page.index("Use working-set: optimal in 0.5 ms") < page.index("<table")
    first_cells = re.findall(r"<tr[^>]*>\s*(<t[hd][^>]*>)", page)
    assert len(first_cells) > 8
    assert all("pinned" in cell for cell in first_cells)


def test_labels_of_the_chart_never_overlap():
    rows = [classical(f"a-solver-of-name-{k}", 10.0 ** -(k % 3), 0.01 * (1 + k % 4)) for k in range(40)]
    drawn = chart(section(*rows), 1e-6)
    labelled = [mark for mark in drawn.marks if mark.label]
    assert len(drawn.marks) == 40
    assert drawn.unlabelled == 40 - len(labelled) > 0
    assert len(drawn.unlabelled_names) == drawn.unlabelled
    assert {mark.label for mark in labelled}.isdisjoint(drawn.unlabelled_names)
    page = render(comparison(section(*rows)))
    first, more = ", ".join(drawn.unlabelled_names[:12]), drawn.unlabelled - 12
    assert f"Marks without a name, which the pointer shows: {first} and {more} others." in page
    assert len(labelled) >= 5
    boxes = []
    for mark in labelled:
        width = 7.0 * len(mark.label)
        left = mark.text_x if mark.anchor == "start" else mark.text_x - width
        boxes.append((left, mark.text_y - 6, left + width, mark.text_y + 6))
        assert boxes[-1][1] >= 0
        assert boxes[-1][3] <= HEIGHT_PX
    marks = [(mark.x - 5, mark.y - 5, mark.x + 5, mark.y + 5) for mark in drawn.marks]
    for k, box in enumerate(boxes):
        for other in [*boxes[:k], *marks]:
            assert min(box[2], other[2]) <= max(box[0], other[0]) or min(box[3], other[3]) <= max(box[1], other[1])


# --- before it runs, and a problem that is posed already -------------------------------------------------------


def data() -> tuple[np.ndarray, np.ndarray]:
    return make_blobs(40, 2, centers=2, cluster_std=3.0, random_state=0)


def test_the_length_is_announced_before_the_first_row():
    said: list[str] = []
    compare(
        *data(), "hinge", ["smo", "cvxopt", "evolution-strategy"], 12, time_limit=30, announce=said.append,
        progress=lambda *_: said.append("a row"),
    )  # fmt: skip
    assert said[0] == "1 problem, 2 runs; each run takes at most 30 seconds, all together at most 60 seconds."
    assert said.index("a row") == 1
    said.clear()
    compare(*data(), "svdd", ["variational-flow"], 8, time_limit=None, shots=50, announce=said.append)
    assert said == ["1 problem, 8 runs, 8 of them on devices and their controls; there is no time "
                    "limit."]  # fmt: skip


@pytest.mark.parametrize("model", ["svr", "hinge", "one_class"])
def test_a_problem_that_is_posed_is_the_one_section(model):
    X, y = data()
    gram, signs = Gram(X), np.where(y == 1, 1.0, -1.0)
    problem = {
        "svr": lambda: problems.svr(gram, X[:, 0]),
        "hinge": lambda: problems.svc(gram, signs, C=3.0),
        "one_class": lambda: problems.one_class(gram, 0.3),
    }[model]()
    found = compare(problem, solvers=["smo", "working-set", "cvxopt"])
    (part,) = found.sections
    assert (part.problem, part.n, part.kind) == (model, problem.n, problem.kind.value)
    own = dualflow.solve(problem, "cvxopt", tol=1e-10)
    for row in part.rows:
        assert row.met(1e-6)
        assert row.accuracy is None
        assert row.raw_objective == pytest.approx(own.certificate.objective, rel=1e-5)
    assert found.settings["problem"] == repr(problem)
    assert dry_run(problem, solvers=["smo"]).rows == ()


@pytest.mark.parametrize(
    "given", [{"y": np.ones(40)}, {"C": 2.0}, {"max_n": 5}, {"problems": "svdd"}, {"X_test": np.zeros((1, 2))}]
)
def test_what_poses_a_problem_does_not_go_with_one(given):
    X, y = data()
    problem = problems.svc(Gram(X), np.where(y == 1, 1.0, -1.0))
    (name,) = given
    with pytest.raises(ProblemError, match=f"{name} must not be given with a DualProblem"):
        compare(problem, **given)
    with pytest.raises(ProblemError, match="y is missing"):
        compare(X)


def test_a_brief_section_shows_the_best_rows_and_a_control_beside_each_circuit():
    def row(solver, role, rank, device=None, gap=1e-3, shots=1000):
        return Row("hinge", solver, role, device, shots, "FINISHED", None, None, rank, gap, wall_time_s=1.0)

    fast = [row(f"fast-{k}", "classical", k + 1, gap=1e-9) for k in range(8)]
    reference = row("cvxopt", "reference", 9, gap=1e-9)
    exact = row("circuit", "quantum", 10, "aer", shots=None)
    sampled, better = row("circuit", "quantum", 11, "aer"), row("circuit", "control", None, "control:classical-sampler")
    null = row("circuit", "control", None, "null")
    every = [*fast, reference, exact, sampled, better, null]
    assert main_rows(every, 1e-6) == [*fast[:3], reference, sampled, better]
    assert main_rows(every[1:], 1e-6) == every[1:]  # few enough to show
    section = Section("hinge", "C-SVM", 64, "box", 1e-6, None, None, tuple(every))
    console = Console(file=io.StringIO(), width=100)
    console.print(renderable(Comparison((section,), {}, {}), brief=True))
    text = console.file.getvalue()
    assert "7 more rows with --all-rows, or in the report: fast-3, fast-4" in text
    assert "other devices and controls; so are circuits, shots and evidence" in " ".join(text.split())
    assert "quantum resources" not in text
    assert "fast-7" in Comparison((section,), {}, {}).table(100)
