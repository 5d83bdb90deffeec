"""The table of the papers, from the findings of full runs: `python docs/papers_table.py` writes it.

The page is docs/reference/papers.md.

A section is a file of benchmarks/papers: its claim, how many findings agree, and a row each of those in
benchmarks/results/papers. A paper that no full run is kept of is named, and has no rows.
"""

from __future__ import annotations

import ast
import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE, PAPERS = ROOT / "docs" / "reference" / "papers.md", ROOT / "benchmarks" / "papers"
RESULTS = ROOT / "benchmarks" / "results" / "papers"
BEGIN, END = (
    "<!-- made by python docs/papers_table.py, from benchmarks/results/papers -->",
    "<!-- end of the tables -->",
)
VERDICTS = ("match", "mismatch", "not reproducible")
HEAD = ("where, what", "paper says", "we get", "verdict", "why", "seed")


def names() -> list[str]:
    """The papers, by file."""
    return sorted(path.stem for path in PAPERS.glob("*.py") if not path.stem.startswith("_"))


def findings(name: str, results: Path = RESULTS) -> list[dict[str, str]]:
    """Those of a full run; none where none is kept."""
    path = results / f"{name}.csv"
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def counted(lines: list[dict[str, str]]) -> str:
    """How many of each verdict."""
    return ", ".join(f"{sum(line['verdict'] == verdict for line in lines)} {verdict}" for verdict in VERDICTS)


def row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"


def section(name: str, results: Path = RESULTS) -> str:
    """A paper's heading, claim and table."""
    lines = findings(name, results)
    text = ast.get_docstring(ast.parse((PAPERS / f"{name}.py").read_text(encoding="utf-8"))) or ""
    claim = text.split("\n")[0].removeprefix("Claim: ")
    said = f"## {name.replace('_', ' ')}\n\n{claim} `python -m benchmarks.papers.{name}`: "
    if not lines:
        return f"{said}no full run is kept.\n"
    table = [row(HEAD), row(("---",) * len(HEAD))]
    for found in lines:
        line = {key: re.sub(r"([|*])", r"\\\1", value) for key, value in found.items()}
        verdict = line["verdict"] if line["verdict"] == "match" else f"**{line['verdict']}**"
        what = f"{line['where']}: {line['what']}"
        table.append(row((what, line["says"], line["gets"], verdict, line["why"], line["seed"])))
    return f"{said}{counted(lines)}.\n\n" + "\n".join(table) + "\n"


def tables(results: Path = RESULTS) -> str:
    """All of it, one count first."""
    everything = [line for name in names() for line in findings(name, results)]
    return "\n".join([f"In all: {counted(everything)}.\n", *(section(name, results) for name in names())])


def written(text: str) -> str:
    """The page with its tables as they are now."""
    pattern = f"{re.escape(BEGIN)}.*?{re.escape(END)}"
    made, count = re.subn(pattern, lambda _: f"{BEGIN}\n\n{tables()}\n{END}", text, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{PAGE.name} must have one pair of the lines {BEGIN!r} and {END!r}, found {count}")
    return made


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
