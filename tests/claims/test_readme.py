"""The README's Python runs as it stands, its figures are said elsewhere, the table of solvers is its classes'."""

import importlib.util
import re
import tomllib
import xml.etree.ElementTree
from pathlib import Path

import pytest

import dualflow
from dualflow.solvers import SOLVERS

README = Path(__file__).parents[2] / "README.md"
DOCS = README.parent / "docs"


def run_blocks(path, names, count):
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == count
    for block in blocks:
        exec(compile(block, str(path), "exec"), names)


def test_the_python_of_the_readme_runs_and_prints_what_its_comments_say(capsys):
    names = {}
    run_blocks(README, names, 2)
    printed = capsys.readouterr().out.splitlines()
    blocks = "".join(re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL))
    said = re.findall(r"^(?:print\(.*\)  )?\s*# (.*)$", blocks, flags=re.MULTILINE)
    assert len(printed) == 8
    assert [comment[: len(line)] for comment, line in zip(said, printed, strict=True)] == printed
    assert names["clf"].certificate_.relative_gap <= 1e-6
    assert names["flow"].solution_.raw_certificate.relative_gap <= 1e-6
    assert names["flow"].support_.tolist() == names["clf"].support_.tolist()
    assert len(names["model"].ids_) == 58
    assert names["model"].certificate_.relative_gap <= 1e-9
    own = {row.device or row.solver: row for row in names["found"].rows}
    assert own["null"].excess > 1000 * own["aer"].excess


def test_where_the_source_is_reads_the_same_in_every_place():
    project = tomllib.loads((README.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    places = [path.read_text(encoding="utf-8") for path in (README, DOCS / "install.md")]
    for text in places:
        assert "<address" not in text
        if "urls" in project:
            assert project["urls"]["Repository"] in text
        else:
            assert "no public repository" in text
            assert "git clone" not in text


def test_the_two_commands_are_those_of_the_continuous_integration():
    text = README.read_text(encoding="utf-8")
    first, second = re.findall(r"^python3 -m venv .*$", text, flags=re.MULTILINE)
    assert first.endswith(".venv/bin/dualflow compare")
    assert second.endswith(".venv/bin/python -m pytest -n 2")
    assert len(re.findall(r"^```sh$", text, flags=re.MULTILINE)) == 2


def test_the_python_of_the_page_on_estimators_runs_alone():
    names = {}
    run_blocks(DOCS / "how-to" / "estimators.md", names, 1)
    assert names["clf"].certificate_.relative_gap <= 1e-6


def test_the_python_of_the_page_on_problems_runs_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    run_blocks(DOCS / "how-to" / "pose-and-solve.md", names, 4)
    assert names["solution"].raw_certificate.relative_gap <= 1e-6
    assert names["mended"].relative_change > 0
    assert (tmp_path / "run.npz").exists()


@pytest.mark.slow
def test_the_python_of_the_page_on_devices_runs_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    run_blocks(DOCS / "how-to" / "quantum-devices.md", names, 6)
    assert names["few"].raw_certificate.relative_gap <= 1e-3
    assert names["few"].cost.qubits == 4
    assert names["thrifty"].raw_certificate.relative_gap <= names["wish"]
    assert len(names["study"]) == 12
    assert (tmp_path / "study.pdf").stat().st_size > 1000


def test_the_python_of_the_page_on_quantum_kernels_runs_alone():
    names = {}
    run_blocks(DOCS / "how-to" / "quantum-kernels.md", names, 2)
    assert names["found"].alignment[-1] > names["found"].alignment[0]


def test_the_python_of_the_page_on_scikit_learn_runs_alone():
    names = {}
    run_blocks(DOCS / "how-to" / "from-sklearn.md", names, 2)
    assert names["model"].score(names["X"], names["y"]) > 0.9
    assert names["model"][-1].certificate_.relative_gap <= 1e-6


def test_the_python_of_the_page_on_evidence_runs_alone(capsys):
    names = {}
    run_blocks(DOCS / "explanation" / "evidence.md", names, 1)
    assert [row.margin > 5 for row in names["compared"].rows if row.role == "quantum"] == [True]
    assert min(names["report"].margins.values()) > 100
    gaps = dict(re.findall(r"^(\S+) .* gap (\S+)$", capsys.readouterr().out, flags=re.MULTILINE))
    assert max(float(gaps[name]) for name in ("aer", "classical-sampler")) <= 1e-6
    assert min(float(gaps[name]) for name in ("null", "control:random", "control:shuffled")) > 1e-2


def test_controls_of_the_page_on_evidence_are_all_there_are():
    page = (DOCS / "explanation" / "evidence.md").read_text(encoding="utf-8")
    told = re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)
    named = {info.name for info in dualflow.list_devices() if info.control}
    assert named <= set(told)


def test_the_readme_is_short():
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120


def test_the_figures_of_the_results_are_on_the_pages_it_names():
    text = README.read_text(encoding="utf-8")
    results = re.search(r"## Results\n\n(.*?)\n## ", text, flags=re.DOTALL)[1]
    pages = re.findall(r"\]\(([^)#]+\.md)(?:#[^)]*)?\)", results.partition("Details")[2].partition("By size")[0])
    assert len(pages) == 4
    told = " ".join((README.parent / page).read_text(encoding="utf-8") for page in pages)
    told = re.sub(r"[\s|]+", " ", told)
    won, lost = (table.strip().splitlines()[2:] for table in re.findall(r"(?:^\|.*\n)+", results, flags=re.MULTILINE))
    assert len(won) >= 7
    assert len(lost) >= 6
    sentences = re.search(r"^`IncrementalSVC` learns.*?\n\n", results, flags=re.DOTALL | re.MULTILINE)[0]
    for row in (*won, *lost, " ".join(sentences.split())):
        times = re.findall(
            r"(?<![\w.])\d+(?:\.\d+)?(?= (?:×|times|to|in|is))|(?<= to )\d+(?:\.\d+)?(?= (?:×|times))", row
        )
        shares = re.findall(r"\d+ of \d+", row)
        assert times or shares, row
        for figure in times:
            said = rf"(?<![\w.]){re.escape(figure)}(?!\.?\d).{{0,40}}?(×|times)"
            assert re.search(said, told), (row, figure)
        for figure in shares:
            assert figure in told, (row, figure)


def test_every_row_of_the_results_has_its_slowest_problem():
    text = README.read_text(encoding="utf-8")
    table = re.search(r"\| for \| take \| geometric mean \| slowest problem \|\n.*?\n\n", text, re.DOTALL)[0]
    slowest = [row.split("|")[4].strip() for row in table.strip().splitlines()[2:]]
    assert all(re.fullmatch(r"\d+(\.\d+)? ×", cell) for cell in slowest), slowest
    assert min(float(cell.split()[0]) for cell in slowest) < 1


def test_the_picture_is_small_leans_on_nothing_and_is_described():
    found = re.search(r"!\[([^\]]{80,})\]\(([^)]+)\)", README.read_text(encoding="utf-8"))
    path = README.parent / found[2]
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 150_000
    root = xml.etree.ElementTree.fromstring(text)
    assert root.tag.endswith("svg")
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not tags & {"script", "image", "foreignObject"}
    assert not re.findall(r'href="(?!#)', text)
    # Its titles and what is said of it are the same.
    counts = re.search(r"(\d+) points survive, (\d+) die out", text).groups()
    assert re.search(r"of (\d+) points .* (\d+) survive, (\d+) die out", found[1]).groups()[1:] == counts
    assert int(re.search(r"of (\d+) points", found[1])[1]) == sum(map(int, counts))


def test_the_picture_is_of_a_run(loaded):
    pytest.importorskip("matplotlib")
    picture = loaded("picture")
    X, y, solution = picture.run()
    figure = picture.draw(X, y, solution)
    drawn = [axes.get_title(loc="left") for axes in figure.axes]
    kept = picture.PICTURE.read_text(encoding="utf-8")
    assert drawn[0] in kept
    assert solution.certificate.relative_gap <= 1e-9
    assert solution.trajectory.gap[-1] < 1e-5
    shown = float(re.search(r"certified on the way, to (\S+?)[<\s]", kept)[1])
    assert 0.5 < solution.trajectory.gap[-1] / shown < 2


def test_links_of_the_pages_lead_somewhere():
    for page in (README, *sorted(DOCS.glob("*.md")), README.parent / "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.fixture(scope="module")
def loaded():
    """Programs of docs/, by name."""

    def load(name):
        spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


@pytest.fixture(scope="module")
def solver_table(loaded):
    return loaded("solver_table")


def test_the_table_of_solvers_is_the_one_that_is_made(solver_table):
    text = solver_table.PAGE.read_text(encoding="utf-8")
    assert solver_table.written(text) == text, "run python docs/solver_table.py"


def test_a_change_of_a_class_or_of_the_table_is_seen(solver_table, monkeypatch):
    text = solver_table.PAGE.read_text(encoding="utf-8")
    changed = text.replace("| SMO with second", "| OMS with second")
    assert changed != text
    assert solver_table.written(changed) == text
    monkeypatch.setattr(dualflow.SMO, "max_n", 7)
    assert "all with bounds; n ≤ 7 | 1e-4 |" in solver_table.written(text)
    with pytest.raises(SystemExit, match="found 0"):
        solver_table.written("no markers")


def test_the_readme_leads_to_the_table_and_counts_its_rows(solver_table):
    text = README.read_text(encoding="utf-8")
    assert f"]({solver_table.PAGE.relative_to(README.parent).as_posix()})" in text
    assert int(re.search(r"All (\d+), with limits", text)[1]) == len(SOLVERS.targets)
    quantum = sum(SOLVERS.find(name).quantum for name in SOLVERS.targets)
    assert int(re.search(r"and (\d+) other solvers by name", text)[1]) == len(SOLVERS.targets) - 1
    assert int(re.search(r"`variational-flow` and (\d+) others", text)[1]) == quantum - 1


def test_every_kind_of_solver_has_words_for_its_problems(solver_table):
    kinds = {name: SOLVERS.find(name).kinds for name in SOLVERS.targets}
    assert {name for name, of in kinds.items() if of not in solver_table.PROBLEMS} == set()


@pytest.mark.parametrize("name", ["LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", ".ci/run", ".ci/long"])
def test_the_usual_files_are_there(name):
    assert (README.parent / name).read_text(encoding="utf-8").strip()
