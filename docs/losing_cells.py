"""The claims of benchmarks/README.md that fail, or fail in some cells: the site shows these first."""

from __future__ import annotations

import re
from pathlib import Path

TABLES = Path(__file__).parents[1] / "benchmarks" / "README.md"
HEADER = "| benchmark | claim | figure | goal | holds | worst in |\n| --- | --- | --- | --- | --- | --- |"


def losing(text: str) -> list[str]:
    """Rows of the tables of claims whose claim fails in some cell, stretch goals included, each with its benchmark."""
    found, benchmark = [], ""
    for line in text.splitlines():
        if line.startswith("### "):
            benchmark = line[4:].strip()
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) != 5 or not benchmark:
            continue
        held = re.fullmatch(r"(\d+) of (\d+)", cells[3])
        if cells[3] == "no" or (held and int(held[1]) < int(held[2])):
            found.append(f"| `{benchmark}` | {' | '.join(cells)} |")
    return found


def table(text: str) -> str:
    """The table of all such rows."""
    return "\n".join([HEADER, *losing(text)]) + "\n"
