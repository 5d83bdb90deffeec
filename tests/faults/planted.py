"""Plants single random faults in a copy of `src` and counts how many the tests of the README's command notice.

``python -m tests.faults.planted --faults 100 --seed 0 --jobs 2`` changes one comparison, condition, number, sign or
connective at a time, runs the tests nearest to the changed file and then all that are not marked slow, up to the first
failure, and restores the file. Each result is a line of a file, so that a run that was stopped continues when it is
started again. A fault in a named limit, such as the size from which another method with equal answers is used, changes
no answer: such faults count as missed too, and the list of missed faults names the limit.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from queue import Queue
from shutil import copy2

ROOT = Path(__file__).parents[2]
#: Seconds of one run of tests after which a fault counts as noticed: it made something endless.
ENDLESS_S = 3600.0
#: What stands for each operator of `ast`, and what is put in its place.
ORDERED = {"Lt": "<|<=|>=", "LtE": "<=|<|>", "Gt": ">|>=|<=", "GtE": ">=|>|<"}
EQUAL = {"Eq": "==|!=", "NotEq": "!=|==", "Is": "is|is not", "IsNot": "is not|is"}
COMPUTED = {"Add": "+|-", "Sub": "-|+", "Mult": "*|/", "Div": "/|*"}
WORDS = {"In": "in|not in", "NotIn": "not in|in", "And": "and|or", "Or": "or|and"}
OPERATORS = ORDERED | EQUAL | COMPUTED | WORDS


@dataclass(frozen=True)
class Fault:
    """One change of one file: the bytes from `start` to `end`, which are `before`, become `after`."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str
    named: str = ""  # the module-level constant that the fault changes

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.before} → {self.after}" + f" in {self.named}" * bool(self.named)


class Places(ast.NodeVisitor):
    """All faults that can be planted in one file."""

    def __init__(self, file: str, source: bytes) -> None:
        self.file, self.source = file, source
        self.faults: list[Fault] = []
        self.named = ""
        self.starts = list(accumulate(map(len, source.splitlines(keepends=True)), initial=0))
        self.visit(ast.parse(source))

    def span(self, node: ast.AST) -> tuple[int, int]:
        first, last = self.starts[node.lineno - 1], self.starts[node.end_lineno - 1]
        return first + node.col_offset, last + node.end_col_offset

    def add(self, start: int, end: int, after: str) -> None:
        line = self.source.count(b"\n", 0, start) + 1
        self.faults.append(Fault(self.file, line, start, end, self.source[start:end].decode(), after, self.named))

    def between(self, left: ast.AST, right: ast.AST, operator: ast.AST) -> None:
        """Replace the operator that stands between two operands."""
        before, *others = OPERATORS.get(type(operator).__name__, "").split("|")
        low, high = self.span(left)[1], self.span(right)[0]
        at = self.source.find(before.encode(), low, high)
        if at >= 0 and b"#" not in self.source[low:high]:
            for after in others:
                self.add(at, at + len(before), after)

    def visit_Compare(self, node: ast.Compare) -> None:
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, operands[1:], strict=False):
            self.between(left, right, operator)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self.between(left, right, node.op)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        text = (ast.Constant, ast.JoinedStr)
        if not any(isinstance(side, text) and not _is_number(side) for side in (node.left, node.right)):
            self.between(node.left, node.right, node.op)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.USub):
            self.add(self.span(node)[0], self.span(node)[0] + 1, "+")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if _is_number(node):
            after = node.value + 1 if isinstance(node.value, int) or not node.value else 2 * node.value
            self.add(*self.span(node), repr(after))

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            start, end = self.span(node.test)
            self.add(start, end, f"(not ({self.source[start:end].decode()}))")
            self.generic_visit(node)

    visit_While = visit_IfExp = visit_If  # noqa: N815 - names of ast

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for child in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults), *node.body):
            self.visit(child)

    def visit_Assign(self, node: ast.Assign | ast.AnnAssign) -> None:
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        name = getattr(target, "id", "")
        if node.value is not None and name != "__all__":
            self.named = name if name.isupper() and not node.col_offset else ""
            self.visit(node.value)
            self.named = ""

    visit_AnnAssign = visit_Assign  # noqa: N815

    def visit_Raise(self, node: ast.Raise) -> None:
        """What is in a message is no fault of the computation."""

    visit_JoinedStr = visit_Raise  # noqa: N815


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def chosen(count: int, seed: int, folder: str = "src") -> list[Fault]:
    """`count` faults at random among all of a folder; more of them with the same seed begin with the same ones."""
    faults = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        faults += Places(path.relative_to(ROOT).as_posix(), path.read_bytes()).faults
    random.Random(seed).shuffle(faults)
    return faults[:count]


def near(file: str) -> list[str]:
    """The tests that name the module of a file, then those of its room."""
    parts = Path(file).relative_to("src").with_suffix("").parts
    module, (*package, name) = ".".join(parts).removesuffix(".__init__"), parts
    imports = (f"{module} import", f"import {module}", f"from {'.'.join(package)} import {name}")
    found = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if path.stem == f"test_{name.strip('_')}" or any(line in text for line in imports):
            found.append(path.relative_to(ROOT).as_posix())
    rooms = ["/".join(("tests", *package[1:k])) for k in range(len(package), 1, -1)]
    return found + [room for room in rooms if (ROOT / room).is_dir()]


def copied(folder: Path) -> Path:
    """A copy of the tree, with the compiled files of the package that is imported here."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            copy2(ROOT / name, folder / name)
    installed = Path(importlib.util.find_spec("dualflow").origin).parents[1]
    for path in (*installed.glob("dualflow/**/*.so"), *installed.glob("dualflow/**/*.pyd")):
        copy2(path, folder / "src" / path.relative_to(installed))
    return folder


def failed(tree: Path, tests: list[str], without: list[str]) -> str:
    """The first test that fails in a copy, or nothing."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    command += [f"--deselect={test}" for test in without]
    kept = {"cwd": tree, "env": os.environ | {"PYTHONPATH": str(tree / "src")}, "timeout": ENDLESS_S}
    try:
        run = subprocess.run(command, capture_output=True, text=True, errors="replace", **kept)
    except subprocess.TimeoutExpired:
        return "did not end"
    if run.returncode in (0, 5):  # all passed, or there are no tests
        return ""
    names = [line.split(" ", 1)[1] for line in run.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    if run.returncode == 2 and not names:
        raise KeyboardInterrupt
    return names[0].split(" - ")[0] if names else (run.stdout + run.stderr)[-200:]


def judged(fault: Fault, tree: Path, stages: list[list[str]]) -> str:
    """The test that fails because of a fault, or nothing: a test that then fails without it too is not counted."""
    path = tree / fault.file
    compiled = Path(importlib.util.cache_from_source(str(path)))
    source = path.read_bytes()
    unreliable: list[str] = []
    while True:
        try:
            path.write_bytes(source[: fault.start] + fault.after.encode() + source[fault.end :])
            compiled.unlink(missing_ok=True)
            by = next(filter(None, (failed(tree, tests, unreliable) for tests in stages)), "")
        finally:
            path.write_bytes(source)
            compiled.unlink(missing_ok=True)
        if "::" not in by or not failed(tree, [by], []):
            return by
        unreliable.append(by)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option, default in (("--faults", 100), ("--seed", 0), ("--jobs", 2)):
        parser.add_argument(option, type=int, default=default)
    parser.add_argument("--results", type=Path, help="file of results, one JSON object a line")
    parser.add_argument("--near", action="store_true", help="run the nearest tests only, and record no miss")
    arguments = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it, and tests of Ctrl-C fail
    faults = chosen(arguments.faults, arguments.seed)
    results = arguments.results or ROOT / f"planted-faults-{arguments.seed}.jsonl"
    rows = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    known = {Fault(**row["fault"]): row["by"] for row in map(json.loads, rows)}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        trees: Queue[Path] = Queue()
        for job in range(arguments.jobs):
            trees.put(copied(Path(folder) / str(job)))

        def judge(fault: Fault) -> None:
            tree, begun = trees.get(), time.monotonic()
            stages = [tests for tests in (near(fault.file), [] if arguments.near else ["tests"]) if tests]
            known[fault] = by = judged(fault, tree, stages)
            trees.put(tree)
            print(f"{'noticed' if by else 'MISSED'} {fault} ({time.monotonic() - begun:.0f} s) {by}", flush=True)
            if by or not arguments.near:
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"fault": asdict(fault), "by": by}) + "\n")

        list(pool.map(judge, [fault for fault in faults if fault not in known]))
    missed = [fault for fault in faults if not known[fault]]
    print(f"{len(faults) - len(missed)} of {len(faults)} noticed; missed:", *missed, sep="\n")


if __name__ == "__main__":
    main()
