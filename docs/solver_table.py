"""The table of solvers, from their classes: `python docs/solver_table.py` writes it.

The page is docs/reference/solvers/index.md.

A row is a link to what is said of the solver, the first line of its class's docstring, its `kinds` in words, its
`max_n`, and what it `reaches`.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from dualflow import Kind
from dualflow.core.solver import BOUNDED, EVERY_CONVEX
from dualflow.solvers import SOLVERS, Solver
from dualflow.testing.bench import CLASS_GAP

PAGE = Path(__file__).parent / "reference" / "solvers" / "index.md"
BEGIN, END = "<!-- made by python docs/solver_table.py, from the solvers' classes -->", "<!-- end of the table -->"

#: Sets of kinds in the words of models.
PROBLEMS = {
    EVERY_CONVEX | {Kind.AFFINE, Kind.TWO_EQUALITIES}: "all",
    EVERY_CONVEX | {Kind.AFFINE}: "all with one equality or none",
    frozenset({Kind.TWO_EQUALITIES}): "two equalities: ν-SVC, ν-SVR",
    EVERY_CONVEX: "all with bounds",
    BOUNDED: "finite bounds and the simplex",
    BOUNDED - {Kind.SIMPLEX}: "finite bounds: hinge, with or without bias, soft SVDD, one-class, ε-SVR",
    frozenset({Kind.SIMPLEX}): "the simplex: squared hinge, hard SVDD",
    frozenset({Kind.BOX}): "boxes: hinge without bias, or with the bias in the kernel",
    frozenset({Kind.AFFINE}): "least squares",
}


def row(name: str, cls: type[Solver[Any, Any]]) -> str:
    """One line of the table."""
    problems = PROBLEMS.get(cls.kinds) or ", ".join(sorted(kind.value for kind in cls.kinds))
    if cls.max_n is not None:
        problems += f"; n ≤ {cls.max_n}"
    reaches = cls.reaches or f"{CLASS_GAP[cls.accuracy]:.0e}".replace("e-0", "e-")
    if not cls.reaches and "shots" in {f.name for f in fields(cls)}:
        reaches += "; with shots within 3 × the shot floor"
    page = f"{name}.md" if (PAGE.parent / f"{name}.md").exists() else f"../../explanation/quantum.md#{name}"
    return f"| [`{name}`]({page}) | {cls.summary().rstrip('.')} | {problems} | {reaches} |"


def table() -> str:
    """The whole of it: our own solvers, in the order of the catalogue."""
    rows = [row(name, SOLVERS.find(name)) for name in SOLVERS.targets]
    return "\n".join(["| name | what it does | problems | accuracy (relative gap) |", "|---|---|---|---|", *rows])


def written(text: str) -> str:
    """The page with the table as it is now."""
    pattern = f"{re.escape(BEGIN)}.*?{re.escape(END)}"
    made, count = re.subn(pattern, lambda _: f"{BEGIN}\n{table()}\n{END}", text, flags=re.DOTALL)
    if count != 1:
        raise SystemExit(f"{PAGE.name} must have one pair of the lines {BEGIN!r} and {END!r}, found {count}")
    return made


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
