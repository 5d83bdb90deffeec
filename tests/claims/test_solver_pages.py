"""Every solver of the catalogue has its place in the docs, with all that is asked; sizes and command lines are true."""

import re
from pathlib import Path

import pytest
import typer.main

import dualflow
from dualflow.cli import app
from dualflow.solvers import SOLVERS
from dualflow.solvers.registry import solver_class

DOCS = Path(__file__).parents[2] / "docs"
QUANTUM = (DOCS / "explanation" / "quantum.md").read_text(encoding="utf-8")
#: What each of them says, by the words of its page.
SAYS = {
    "page": ("Equations.", "Cost.", "Where it loses.", "What is classical.", "References."),
    "section": ("Equations.", "Encoding.", "Read-out.", "Cost.", "Classically.", "Literature."),
}


def page_of(name):
    return DOCS / "reference" / "solvers" / f"{name}.md"


def place(name):
    """The text on a solver, and which kind of place it is; a quantum solver with both has its section here."""
    if page_of(name).exists() and not solver_class(name).quantum:
        return page_of(name).read_text(encoding="utf-8"), "page"
    found = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", QUANTUM, flags=re.DOTALL | re.MULTILINE)
    assert found, f"{name} has neither a page in docs/reference/solvers nor a section of docs/explanation/quantum.md"
    return found[1], "section"


@pytest.mark.parametrize("name", SOLVERS.targets)
def test_every_solver_has_its_place_with_all_that_is_asked(name):
    text, kind = place(name)
    assert (kind == "section") == solver_class(name).quantum
    check(name, text, kind)
    if kind == "section" and page_of(name).exists():
        check(name, page_of(name).read_text(encoding="utf-8"), "page")


def check(name, text, kind):
    for head in SAYS[kind]:
        said = re.search(rf"^\*\*{re.escape(head)}\*\*(.*?)(?=^\*\*|^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
        assert said, f"{name}: **{head}** is missing"
        assert len(said[1].split()) >= 3, f"{name}: **{head}** says nothing"
    equations = text.split("**Equations.**")[1].split("\n\n**")[0]
    assert "$" in equations or name == "qpsolvers"
    if kind == "page":
        assert text.startswith(f"# `{name}`: ")
        assert f"{{py:obj}}`~dualflow.{solver_class(name).__name__}`" in text


def test_no_page_is_of_a_solver_that_is_not_there():
    pages = {path.stem for path in (DOCS / "reference" / "solvers").glob("*.md")} - {"index"}
    assert pages <= set(SOLVERS.targets)
    assert pages >= {info.name for info in dualflow.list_solvers() if not info.quantum} & set(SOLVERS.targets)


def test_the_sizes_of_which_solver_are_the_classes_limits():
    text = (DOCS / "how-to" / "which-solver.md").read_text(encoding="utf-8").split("## By size")[1].split("\n## ")[0]
    told = {}
    for limit, names in re.findall(r"^\| (?:up to )?(\d+|any) \| (.*) \|$", text, flags=re.MULTILINE):
        told |= dict.fromkeys(re.findall(r"`([\w-]+)`", names), None if limit == "any" else int(limit))
    assert told == {name: SOLVERS.find(name).max_n for name in SOLVERS.targets}


# --- command lines ---------------------------------------------------------------------------------------

PAGES = [*sorted(DOCS.rglob("*.md")), *(DOCS.parent / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md"))]
COMMAND = re.compile(r"(?<![\w-])dualflow ((?:[a-z]+[ |])*[a-z-][^`&\n]*)")


def command_lines():
    """Every `dualflow …` of the pages: in shell blocks, and between backticks."""
    for page in PAGES:
        if "generated" in page.parts:
            continue
        text = page.read_text(encoding="utf-8")
        shell = "\n".join(re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL))
        spans = re.findall(
            r"(?<!`)`(dualflow [^`]+)`(?!`)", " ".join(re.sub(r"```.*?```", "", text, flags=re.DOTALL).split())
        )
        for line in [*COMMAND.findall(shell), *(span.removeprefix("dualflow ") for span in spans)]:
            yield page.name, line.strip()


def test_there_are_command_lines():
    assert len(set(command_lines())) >= 8


@pytest.mark.parametrize(("page", "line"), sorted(set(command_lines())))
def test_a_command_line_of_a_page_is_one(page, line):
    """Its commands exist, and so do its options; "a|b" are several."""
    command, rest = typer.main.get_command(app), line.split()
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        names, *rest = rest
        for name in names.split("|"):
            assert name in command.commands, f"{page}: dualflow {line}"
        command = command.commands[name]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in rest:
        if word.startswith("-"):
            assert word.split("=")[0] in known | {"--help"}, f"{page}: dualflow {line}"
