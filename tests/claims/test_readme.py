"""The README's Python runs as it stands, and its table of solvers is what their classes say."""

import importlib.util
import re
from pathlib import Path

import pytest

import dualflow
from dualflow.solvers import SOLVERS

README = Path(__file__).parents[2] / "README.md"


def run_blocks(path, names, count):
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == count
    for block in blocks:
        exec(compile(block, str(path), "exec"), names)


def test_the_python_of_the_readme_runs():
    names = {}
    run_blocks(README, names, 1)
    assert names["clf"].certificate_.relative_gap <= 1e-6
    assert names["solution"].raw_certificate.relative_gap <= 1e-6
    assert len(names["model"].ids_) == 58


def test_the_python_of_the_page_on_using_it_runs_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    run_blocks(README.parent / "docs" / "using.md", names, 8)
    assert names["clf"].certificate_.relative_gap <= 1e-6
    assert names["solution"].raw_certificate.relative_gap <= 1e-6
    assert names["model"].certificate_.relative_gap <= 1e-9
    assert len(names["model"].ids_) == 58
    assert names["few"].raw_certificate.relative_gap <= 1e-3
    assert names["few"].cost.qubits == 4
    assert names["found"].alignment[-1] > names["found"].alignment[0]
    assert (tmp_path / "run.npz").exists()


def test_the_python_of_the_page_for_those_who_come_from_scikit_learn_runs_alone():
    names = {}
    run_blocks(README.parent / "docs" / "from-sklearn.md", names, 2)
    assert names["model"].score(names["X"], names["y"]) > 0.9
    assert names["model"][-1].certificate_.relative_gap <= 1e-6


def test_the_python_of_the_page_on_evidence_runs_alone(capsys):
    names = {}
    run_blocks(README.parent / "docs" / "evidence.md", names, 1)
    assert [row.margin > 5 for row in names["compared"].rows if row.role == "quantum"] == [True]
    assert min(names["report"].margins.values()) > 100
    gaps = dict(re.findall(r"^(\S+) .* gap (\S+)$", capsys.readouterr().out, flags=re.MULTILINE))
    assert max(float(gaps[name]) for name in ("aer", "classical-sampler")) <= 1e-6
    assert min(float(gaps[name]) for name in ("null", "control:random", "control:shuffled")) > 1e-2


def test_controls_of_the_page_on_evidence_are_all_there_are():
    page = (README.parent / "docs" / "evidence.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)
    named = {info.name for info in dualflow.list_devices() if info.control}
    assert named <= set(told)


def test_the_readme_fits_two_screens():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 100


def test_links_of_the_pages_lead_somewhere():
    for page in (README, *sorted((README.parent / "docs").glob("*.md")), README.parent / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.fixture(scope="module")
def solver_table():
    spec = importlib.util.spec_from_file_location("solver_table", README.parent / "docs" / "solver_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_solvers_is_the_one_that_is_made(solver_table):
    text = README.read_text(encoding="utf-8")
    assert solver_table.written(text) == text, "run python docs/solver_table.py"


def test_a_change_of_a_class_or_of_the_table_is_seen(solver_table, monkeypatch):
    text = README.read_text(encoding="utf-8")
    assert solver_table.written(text.replace("| `smo` | SMO", "| `smo` | OMS")) == text
    monkeypatch.setattr(dualflow.SMO, "max_n", 7)
    assert "all with bounds; n ≤ 7 | 1e-4 |" in solver_table.written(text)
    with pytest.raises(SystemExit, match="found 0"):
        solver_table.written("no markers")


def test_every_kind_of_solver_has_words_for_its_problems(solver_table):
    kinds = {name: SOLVERS.find(name).kinds for name in SOLVERS.targets}
    assert {name for name, of in kinds.items() if of not in solver_table.PROBLEMS} == set()


@pytest.mark.parametrize("name", ["LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", ".ci/run", ".ci/long"])
def test_the_usual_files_are_there(name):
    assert (README.parent / name).read_text(encoding="utf-8").strip()
