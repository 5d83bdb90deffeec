"""The papers: findings have reasons, the command runs every file and says which failed, the page is what is made."""

import csv
import importlib.util
import os
import re
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.lib import findings, gaussian_map, quantum_identities
from benchmarks.lib.findings import Finding
from benchmarks.papers import __main__ as papers
from benchmarks.papers import linear_svm_blog, quantum
from tests.combinations import often

ROOT = Path(__file__).resolve().parents[2]
#: Of processor time, of the whole command with --quick.
BUDGET_S = 90.0


def finding(verdict="match", why="", what="a | b"):
    return Finding("figure 1", what, "1", "2", verdict, why, seed=3)


@pytest.fixture
def page():
    spec = importlib.util.spec_from_file_location("papers_table", ROOT / "docs" / "papers_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def command(monkeypatch, capsys):
    """The command of all papers, or of one, in this process: its exit code and what it printed."""

    def command(main, *arguments):
        monkeypatch.setattr(sys, "argv", ["papers", *map(str, arguments)])
        return main(), capsys.readouterr().out

    return command


def test_a_finding_that_does_not_agree_has_its_reason():
    assert str(finding()) == "MATCH figure 1, a | b: paper 1, here 2"
    assert str(finding("mismatch", "a slip")).endswith("paper 1, here 2; a slip")
    for verdict in ("mismatch", "not reproducible"):
        with pytest.raises(ValueError, match=r"figure 1, a \| b: a .* needs its reason"):
            finding(verdict)
    with pytest.raises(ValueError, match="verdict is 'good', one of match"):
        finding("good")


def test_a_rule_decides():
    assert findings.by(True, "never") == {"verdict": "match"}
    assert findings.by(False, "for this") == {"verdict": "mismatch", "why": "for this"}
    assert findings.agree(1.0, 0.1, 1.3)
    assert not findings.agree(1.0, 0.1, 1.31)
    assert findings.agree(1.0, 0.3, 2.5, 0.4)  # of 0.5 together
    assert not findings.agree(1.0, 0.3, 2.6, 0.4)


def test_a_paper_writes_its_table_and_misses_without_failing(command, tmp_path):
    def find(options):
        return [finding(), finding("mismatch", "a slip")] if options.quick else []

    code, text = command(lambda: findings.main("papers/one", "A claim.", find), "--quick", "--csv", tmp_path)
    assert code == 0
    assert "papers/one: 1 match, 1 mismatch, 0 not reproducible" in text
    with (tmp_path / "papers" / "one.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["verdict"] for line in lines] == ["match", "mismatch"]
    assert {line["seed"] for line in lines} == {"3"}
    assert command(lambda: findings.main("papers/one", "A claim.", find))[0] == 1


#: A paper's file that says what it was given, and one that falls.
FILES = {
    "good": "import sys; from pathlib import Path; print('given', sys.argv[1:]);"
    "folder = Path(sys.argv[2], 'papers'); folder.mkdir(exist_ok=True);"
    "(folder / 'good.csv').write_text('where,what,says,gets,verdict,why,seed\\nfigure 1,a|b,1,2,mismatch,slip,0\\n');"
    "(folder / 'good_rows.csv').write_text('case,value\\na,1\\n')",
    "bad": "raise SystemExit('it fell')",
}


def of_files(monkeypatch, tmp_path, **files):
    """The command's papers are these."""
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "__main__.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(papers, "HERE", tmp_path)
    run = subprocess.run

    def instead(line, **options):
        name = line[2].rpartition(".")[2]
        assert line[:3] == [sys.executable, "-m", f"benchmarks.papers.{name}"]
        return run([sys.executable, str(tmp_path / f"{name}.py"), *line[3:]], **options)

    monkeypatch.setattr(papers.subprocess, "run", instead)


def test_all_papers_are_run_with_the_options_that_were_given(command, monkeypatch, tmp_path):
    of_files(monkeypatch, tmp_path, good=FILES["good"])
    out = tmp_path / "out"
    out.mkdir()
    code, text = command(papers.main, "--quick", "--csv", out, "--data", "sets", "--plot", out, "--jobs", "1")
    assert code == 0
    given = ["--csv", str(out), "--quick", "--data", "sets", "--plot", str(out)]
    assert f"given {given}" in text
    assert r"| good | figure 1: a\|b | 1 | 2 | mismatch | slip |" in text
    assert text.count("| good |") == 1  # rows beside the findings are no findings
    assert "0 match, 1 mismatch, 0 not reproducible; 1 papers" in text


def test_a_paper_that_falls_is_named_and_fails_the_command(command, monkeypatch, tmp_path):
    of_files(monkeypatch, tmp_path, **FILES)
    code, text = command(papers.main, "--quick")
    assert code == 1
    assert re.search(r"^== bad, \d+ s, exit code 1$", text, flags=re.MULTILINE)
    assert "it fell" in text
    assert "2 papers" in text
    assert text.rstrip().endswith("failed: bad")
    assert command(papers.main, "--quick", "--only", "good")[0] == 0
    assert command(papers.main, "--quick", "--only", "neither")[0] == 1


#: The papers whose quick run no file of tests of their own makes.
ALONE = ("linear_svm_blog", "quantum")


def without_data_or_network(folder, *more):
    """The command with --quick: names of the papers whose findings it wrote."""
    source = os.pathsep.join(path for path in sys.path if Path(path, "dualflow").is_dir())
    env = {name: value for name, value in os.environ.items() if name != "DUALFLOW_DATA"}
    nowhere = "http://127.0.0.1:9"
    env |= {"PYTHONPATH": source, "no_proxy": "", "https_proxy": nowhere, "http_proxy": nowhere}
    line = [sys.executable, "-m", "benchmarks.papers", "--quick", "--csv", str(folder), "--plot", str(folder), *more]
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=480, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(path.stem for path in (folder / "papers").glob("*.csv") if path.stem in papers.papers())


@pytest.mark.slow
@pytest.mark.parametrize("name", often(ALONE, *(name for name in ALONE if name != "quantum")))
def test_a_paper_without_data_or_network(name, tmp_path):
    assert without_data_or_network(tmp_path, "--only", name) == [name]


def test_every_other_paper_makes_its_quick_run_in_its_own_tests():
    files = {path.stem.removeprefix("test_papers_"): path for path in Path(__file__).parent.glob("test_papers_*.py")}
    quick = [name for name, path in files.items() if re.search(r"quick=True|--quick", path.read_text(encoding="utf-8"))]
    assert sorted([*quick, *ALONE]) == papers.papers()


@pytest.mark.slow
def test_every_paper_without_data_or_network_in_little_time(tmp_path):
    before = os.times()
    assert without_data_or_network(tmp_path) == papers.papers()
    after = os.times()
    took = after.children_user + after.children_system - before.children_user - before.children_system
    assert took <= BUDGET_S, f"{took:.0f} s of processor time: 45 s on two cores are what the papers have"


def test_a_missed_figure_would_be_seen():
    """The rules of the two papers here say mismatch where a number is spoilt."""
    rows = gaussian_map.truncated("moons")[:3]
    assert [f.verdict for f in linear_svm_blog.gaussian_map(rows)] == ["mismatch", "mismatch"]  # degree 2 is too few
    rows[-1] |= {"kernel_error": 1e-9, "decision_error": 1e-9, "votes_that_differ": 0}
    assert [f.verdict for f in linear_svm_blog.gaussian_map(rows)] == ["match", "match"]
    rows[-1]["error_bound"] = 1e-10
    assert [f.verdict for f in linear_svm_blog.gaussian_map(rows)] == ["mismatch", "match"]


def test_the_monomials_are_the_map():
    X = np.random.default_rng(0).normal(size=(6, 3))
    phi = gaussian_map.monomials(X, 4)
    assert phi.shape == (6, 35)  # comb(3 + 4, 3)
    squares, inner = np.sum(X**2, axis=1), X @ X.T
    series = sum(inner**k / np.prod(np.arange(1, k + 1)) for k in range(5))
    np.testing.assert_allclose(phi @ phi.T, np.exp(-0.5 * (squares[:, None] + squares)) * series, rtol=1e-12)


def row(device, margin, excess=1e-4):
    return {"device": device, "margin": margin, "excess": excess}


def test_every_control_counts_but_what_has_the_circuits_own_distributions():
    def of(name, *rows):
        return quantum.evidence(name, "exact", [row("aer", None), *rows], 3)

    sampler = row("classical-sampler", 1.0)
    assert of("variational-flow", sampler, row("null", 5.0)).verdict == "match"
    lost = of("variational-flow", sampler, row("null", 100.0), row("control:shuffled", 4.9))
    assert lost.verdict == "mismatch"
    assert lost.why == "control:shuffled " + quantum.KNOWS["control:shuffled"]
    assert of("hhl", row("null", 9.0), row("control:shuffled", 1.0)).verdict == "match"


def test_floors_and_support_are_judged_where_the_shots_are_most():
    def end(shots, floors=None, excess=1e-9, errors=0, device="emulator"):
        took = {"qubits": 3, "depth": 8, "two_qubit_gates": 4, "device": device}
        return {
            "n": 8,
            "shots_each": shots,
            "gap": 1e-8,
            "excess": excess,
            "floors": floors,
            "support_errors": errors,
        } | took

    few = [end(None), end(100, 9.0, errors=2), end(10_000, 3.0), end(10_000, 9.0, errors=1, device=quantum.NOISY)]
    gaps, floors, support = quantum.endings("variational-flow", few)
    assert {f.verdict for f in (gaps, floors, support)} == {"match"}
    assert floors.gets == "n = 8: 9, 3 (100, 10000)"
    assert support.gets == "n = 8: 0, 2, 0, 1 (exact, 100, 10000, noisy)"
    worse = [end(None, excess=2e-3), end(100, 1.0), end(10_000, 3.1, errors=1)]
    assert {f.verdict for f in quantum.endings("variational-flow", worse)} == {"mismatch"}
    assert len(list(quantum.endings("hhl", [end(None, errors=None)]))) == 1


def test_what_quantum_papers_state_is_tried():
    found = {f.what: f for f in quantum_identities.identities()}
    assert [f.verdict for f in found.values()].count("mismatch") == 3
    assert found["A = [μμᵀ − D(μ)]H on moons"].verdict == "mismatch"
    assert {f.verdict for what, f in found.items() if what.startswith("e^(−At)")} == {"match"}


def test_the_page_of_the_papers_is_what_its_program_makes(page, tmp_path):
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text) == text, "run python docs/papers_table.py"
    assert page.names() == papers.papers()
    with pytest.raises(SystemExit, match="found 0"):
        page.written("no markers")


def test_the_page_has_the_rows_there_are_and_names_what_is_not(page, tmp_path):
    name = page.names()[0]
    assert "no full run is kept" in page.section(name, tmp_path)
    options = Namespace(csv=tmp_path)
    lines = [findings.flat(finding()), findings.flat(finding("not reproducible", "f* is not said"))]
    findings.write_csv(findings.csv_path(name, options), lines)
    made = page.section(name, tmp_path)
    assert "1 match, 0 mismatch, 1 not reproducible." in made
    assert r"| figure 1: a \| b | 1 | 2 | match |  | 3 |" in made
    assert r"**not reproducible** | f\* is not said | 3 |" in made
    assert "In all: 1 match" in page.tables(tmp_path)
