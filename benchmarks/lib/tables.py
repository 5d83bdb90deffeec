"""The tables of README.md, made from the CSVs of full runs in results/.

    python -m benchmarks.lib.tables

rewrites what stands in README.md between ``<!-- table NAME -->`` and ``<!-- end -->``. NAME is "files", for the list of
benchmarks, or "room/file" of a CSV. A CSV of verdicts (`claims.Verdict.flat`) becomes a line a verdict; the others have
a layout here, made from the rows where it needs them, and the rest is shown as it is.
"""

from __future__ import annotations

import ast
import csv
import math
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.lib.claims import SIGNS
from benchmarks.lib.command import RESULTS

ROOT = RESULTS.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- table (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)

Line = dict[str, str]

#: Columns of `variational_sampled_summary`: what stands over them, and what in them.
SAMPLED = {
    "n, ansatz, run": "{n}, {ansatz}, {entrant}",
    "angles": "{angles}",
    "gap: SVDD": "{gap_svdd} ({gap_floor_svdd})",
    "excess: SVDD": "{excess_svdd} ({excess_floor_svdd})",
    "excess: L2-SVM": "{excess_l2_svm} ({excess_floor_l2_svm})",
    "first guess: SVDD, L2": "{support_errors_svdd}, {support_errors_l2_svm}",
    "circuits": "{circuits}",
    "shots": "{shots}",
    "to 3 floors: SVDD, L2": "{shots_to_excess_svdd}, {shots_to_excess_l2_svm}",
    "CX": "{two_qubit_gates}",
    "wall, s": "{wall_s}",
    "classical": "{classical_share}",
}


#: Columns of `svm_peers`, of its rows.
PEERS = {
    "accuracy, %": "accuracy",
    "gap, exact kernel": "gap",
    "gap, own matrix": "own_gap",
    "circuits": "circuits",
    "shots": "shots",
    "s": "seconds",
}


def rewritten(text: str, results: Path = RESULTS) -> str:
    """README.md with all its tables made anew."""
    return BLOCK.sub(lambda block: block[1] + table(block[2], results) + block[3], text)


def table(name: str, results: Path) -> str:
    """The table of that name, as Markdown."""
    if name == "files":
        return files(results)
    path = results / f"{name}.csv"
    if not path.is_file():
        raise FileNotFoundError(f"README.md wants the table {name!r}, and there is no results/{name}.csv")
    lines = read(path)
    if name == "quantum/variational_sampled_summary":
        rows = [[cell.format_map(numbers(line)) for cell in SAMPLED.values()] for line in lines]
        return markdown(list(SAMPLED), rows)
    if name == "quantum/variational_exact_angles":
        return angles(lines)
    if name == "quantum/kernel_accuracy":
        return accuracies(lines, read(results / f"{name}_rows.csv"))
    if name == "quantum/mitigation":
        return grid(list(map(numbers, read(results / f"{name}_rows.csv"))))
    if name == "quantum/svm_peers":
        measured = map(numbers, read(results / f"{name}_rows.csv"))
        rows = [[line["case"], *(line[key] for key in PEERS.values())] for line in measured]
        return markdown(["case", *PEERS], rows)
    if lines and "verdict" in lines[0]:
        return findings(lines)
    if lines and "sense" not in lines[0]:
        return markdown(list(lines[0]), [list(line.values()) for line in lines])
    return markdown(["claim", "figure", "asked", "holds", "worst in"], [verdict(line) for line in lines])


def verdict(line: Line) -> list[str]:
    """A line of a claim's table."""
    found = numbers(line)
    unit = line["unit"] and f" {line['unit']}"
    bounds = f" [{found['low']}, {found['high']}]" if line["low"] else ""
    figure = f"{found['value']}{bounds}{unit}" if line["value"] else "not noted"
    if not line["sense"]:
        return [f"{line['what']}: {line['measure']}", figure, "shown", "", line["case"]]
    asked = f"{SIGNS[line['sense']]} {found['asked']}{unit}" + ("" if line["kind"] == "must" else f" ({line['kind']})")
    one = {"1": "yes", "0": "no"}[line["good"]] if line["cells"] == "1" else f"{line['good']} of {line['cells']}"
    if line["note"] == "over 0 cells":  # a mean of nothing is neither 0 nor a failure
        figure, one = "not measured", ""
    return [f"{line['what']}: {line['measure']}", figure, asked, one, line["case"]]


def findings(lines: Sequence[Line]) -> str:
    """A paper's table, of `benchmarks.lib.findings`; the seeds are in the CSV."""
    rows = [
        [f"{line['where']}: {line['what']}", *(line[k] for k in ("says", "gets", "verdict", "why"))] for line in lines
    ]
    return markdown(["of the paper", "paper says", "we get", "verdict", "why"], rows)


def angles(lines: Sequence[Line]) -> str:
    """Gap (excess) of a problem by angles a point."""
    ratios = sorted({line["ratio"] for line in lines}, key=float)
    problems: dict[tuple[str, ...], Line] = {}
    for line in lines:
        found = numbers(line)
        which = tuple(line[name] for name in ("n", "data", "model", "support"))
        problems.setdefault(which, {})[line["ratio"]] = f"{found['median_gap']} ({found['median_excess']})"
    rows = [[", ".join(which[:3]), which[3], *(row.get(r, "") for r in ratios)] for which, row in problems.items()]
    return markdown(["n, data, model", "support", *ratios], rows)


def accuracies(lines: Sequence[Line], rows: Sequence[Line]) -> str:
    """Mean accuracy ± standard deviation of every kernel on every data set; * where RBF's is told apart."""
    told = {line["what"] for line in lines if line["note"] and "no difference shown" not in line["note"]}
    cells: dict[str, Line] = {}
    for row in rows:
        name, kernel = row["case"].split(": ")
        figure = f"{float(row['accuracy']):.1f} ± {float(row['sd']):.1f}" + (" *" if row["case"] in told else "")
        cells.setdefault(kernel, {})[name] = figure
    sets = list(next(iter(cells.values())))
    return markdown(["kernel", *sets], [[kernel, *(found[name] for name in sets)] for kernel, found in cells.items()])


def grid(rows: Sequence[Line]) -> str:
    """Medians, with the least and largest, of cases "place: what: method": a line a place, a column a method."""
    cells: dict[str, Line] = {}
    for row in rows:
        place, method = row["case"].rsplit(": ", 1)
        spread = f" ({row['low']} … {row['high']})" if row["low"] else ""
        cells.setdefault(place, {})[method] = row["median"] + spread
    methods = list(dict.fromkeys(method for found in cells.values() for method in found))
    return markdown(
        ["case", *methods], [[place, *(found.get(m, "") for m in methods)] for place, found in cells.items()]
    )


def files(results: Path) -> str:
    """All benchmarks: what each claims, by the first line of its docstring, and how long a full run takes."""
    minutes = {line["benchmark"]: line["minutes"] for line in read(results / "minutes.csv")}
    rows = [[f"`{name}`", claim(name), f"{minutes[name]} min"] for name in benchmarks()]
    return markdown(["benchmark", "claim", "full run, about"], rows)


def benchmarks() -> list[str]:
    """Names of all benchmarks, "room/file"."""
    found = (path.relative_to(ROOT).with_suffix("") for path in ROOT.glob("*/*.py") if not path.stem.startswith("__"))
    return sorted(path.as_posix() for path in found if path.parts[0] != "lib")


def claim(name: str) -> str:
    """The first line of a benchmark's docstring."""
    text = ast.get_docstring(ast.parse((ROOT / f"{name}.py").read_text(encoding="utf-8"))) or ""
    return text.split("\n")[0].removeprefix("Claim: ")


def read(path: Path) -> list[Line]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def numbers(line: Line) -> Line:
    """The line with its numbers shortened."""
    return {name: short(value) for name, value in line.items()}


def short(text: str) -> str:
    """A number in three digits, and up to six where it takes them to tell it from 1; all else as it is."""
    try:
        value = float(text)
    except (ValueError, TypeError):
        return text
    if not math.isfinite(value):
        return "∞" if value > 0 else "none"
    if 1e3 <= abs(value) < 1e5:
        return f"{value:.0f}"
    candidates = (f"{value:.{digits}g}" for digits in (3, 4, 5, 6))
    found = next((c for c in candidates if abs(float(c) - value) <= 0.1 * abs(1 - value)), f"{value:.6g}")
    return re.sub(r"e([+-])0?(\d+)", lambda m: f"e{m[1].strip('+')}{m[2]}", found)


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> int:
    text = README.read_text(encoding="utf-8")
    README.write_text(rewritten(text), encoding="utf-8")
    print(f"{README.name}: {len(BLOCK.findall(text))} tables")
    return 0


if __name__ == "__main__":
    sys.exit(main())
