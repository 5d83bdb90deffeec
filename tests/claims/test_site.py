"""The pages of the site: their Python runs, all failed claims are shown, and broken links are found."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.combinations import often

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(path for path in DOCS.rglob("*.md") if "generated" not in path.parts)
#: Pages whose Python other tests run.
ELSEWHERE = {
    f"{stem}.md"
    for stem in ("estimators", "evidence", "hardware", "pose-and-solve", "quantum-devices", "quantum-kernels")
}
DOORS = ("tutorials", "how-to", "reference", "explanation")


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(path):
    text = path.read_text(encoding="utf-8")
    cells = [
        cell.replace(":tags: [hide-input]\n", "") for cell in re.findall(r"```\{code-cell\}\n(.*?)```", text, re.S)
    ]
    return re.findall(r"```(?:python|\{testcode\})\n(.*?)```", text, flags=re.DOTALL) + cells


WITH_CODE = [path for path in PAGES if blocks(path) and path.name not in ELSEWHERE]


def test_there_are_pages_with_code():
    assert len(WITH_CODE) >= 20


#: Pages whose code takes a second or more.
SLOW = ("ecology", "ecosystem", "extend", "probability")


@pytest.mark.parametrize(
    "path", often(WITH_CODE, *(path for path in WITH_CODE if path.stem not in SLOW)), ids=lambda path: path.stem
)
def test_the_python_of_a_page_runs_alone(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    names = {"__name__": "page"}
    try:
        for block in blocks(path):
            exec(compile(block, str(path), "exec"), names)
    finally:
        pyplot.close("all")


def test_every_page_is_in_a_table_of_contents():
    named = set()
    for path in PAGES:
        for block in re.findall(r"```\{toctree\}\n(.*?)```", path.read_text(encoding="utf-8"), flags=re.DOTALL):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            named |= {(path.parent / f"{line}.md").resolve() for line in lines}
    assert {path.resolve() for path in PAGES} - named == {(DOCS / "index.md").resolve()}


@pytest.mark.parametrize("door", DOORS)
def test_a_door_says_a_sentence_of_each_of_its_pages(door):
    text = (DOCS / door / "index.md").read_text(encoding="utf-8")
    [listed] = re.findall(r"```\{toctree\}\n:hidden:\n\n(.*?)```", text, flags=re.DOTALL)
    said = re.findall(r"^- \[[^]]+\]\(([^)]+)\.md\): .+\.$", text, flags=re.MULTILINE)
    assert set(listed.split()) <= set(said)
    assert {path.stem for path in (DOCS / door).glob("*.md")} - {"index"} <= set(said)


def test_links_of_all_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_what_is_lost_is_what_does_not_hold_everywhere():
    lost = loaded("losing_cells")
    table = """### room/file

| claim | figure | asked | holds | worst in |
| --- | --- | --- | --- | --- |
| won | 2 × | ≥ 1 × | yes |  |
| lost | 0.5 × | ≥ 1 × | no | a |
| all cells | 2 × | ≥ 1 × | 7 of 7 | b |
| some \\|z\\| | 0.9 × | ≥ 1 × | 6 of 7 | c |

| n | a table of something else |
| --- | --- |
| 1 | no |
"""
    assert lost.losing(table) == [
        "| `room/file` | lost | 0.5 × | ≥ 1 × | no | a |",
        "| `room/file` | some \\|z\\| | 0.9 × | ≥ 1 × | 6 of 7 | c |",
    ]
    kept = lost.losing(lost.TABLES.read_text(encoding="utf-8"))
    assert kept, "the benchmarks' tables are not read"


def test_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="#here">1</a><a href="b/c.html#there">2</a><a href="b/">3</a>'
    )
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c.html").write_text(
        '<i id="there"></i><a href="../a.html#gone">4</a><a href="https://e.org/x">5</a>'
    )
    (tmp_path / "b" / "index.html").write_text('<img src="none.png">')
    assert loaded("check_links").broken(tmp_path) == ["b/c.html: ../a.html#gone", "b/index.html: none.png"]


def test_faults_of_accessibility_are_found(tmp_path):
    head = '<title>{}</title><meta name="description" content="x">'
    (tmp_path / "a.html").write_text(
        head.format("a") + '<aside aria-label="x"></aside><p role="heading" aria-level="2"></p><img src="x" alt="y">'
        '<div class="highlight"><pre tabindex="0"></pre></div><th class="head"><p>n</p></th>'
    )
    faults = loaded("check_links").accessibility_faults
    assert faults(tmp_path) == []
    (tmp_path / "b.html").write_text(
        head.format("a").split("<meta")[0]
        + '<aside class="x"></aside><p role="heading"></p><img src="x"><summary aria-label="x">y</summary>'
        '<div class="highlight"><pre></pre></div>'
        '<div class="pst-scrollable-table-container"><th class="head"><p></p></th></div>'
    )
    found = faults(tmp_path)
    assert len(found) == 10
    assert found[0] == "a.html: the title 'a' is not its own"
    assert {line.split(": ")[0] for line in found[1:]} == {"b.html"}
    (tmp_path / "search.html").write_text("<title>Search</title>")
    assert faults(tmp_path) == found


def test_words_that_the_search_does_not_find_are_reported(tmp_path):
    pytest.importorskip("snowballstemmer")
    index = '{"docnames":["a","b"],"terms":{"slow":0,"probabl":[0,1]},"titleterms":{"imbalanc":[1]}}'
    (tmp_path / "searchindex.js").write_text(f"Search.setIndex({index})")
    searches = {"slow": "a", "probability": "b", "imbalanced": "b", "missing": "a"}
    unfound = loaded("check_links").unfound_words
    assert unfound(tmp_path, searches) == ["search.html: 'missing' does not find a"]
    assert unfound(tmp_path, {"slow": "b"}) == ["search.html: 'slow' does not find b"]
