"""All papers: each file in a process of its own, then one table.

    python -m benchmarks.papers --quick
    python -m benchmarks.papers --data FOLDER --csv FOLDER --plot FOLDER

Exit code 1 if a file failed; what misses its paper is a finding, not a failure.
"""

from __future__ import annotations

import argparse
import csv
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.lib.command import chosen, command_line
from benchmarks.lib.findings import VERDICTS

HERE = Path(__file__).parent


def papers() -> list[str]:
    """The files, by name."""
    return sorted(path.stem for path in HERE.glob("*.py") if not path.stem.startswith("_"))


def run(name: str, options: argparse.Namespace, folder: Path) -> tuple[str, int, float, str]:
    """A paper's file: its name, exit code, seconds and what it printed."""
    command = [sys.executable, "-m", f"benchmarks.papers.{name}", "--csv", str(folder)]
    command += ["--quick"] * options.quick
    for option in ("data", "plot"):
        if value := getattr(options, option):
            command += [f"--{option}", str(value)]
    begun = time.perf_counter()
    one = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=one, check=False)
    return name, done.returncode, time.perf_counter() - begun, done.stdout + done.stderr


def table(folder: Path) -> tuple[str, dict[str, int]]:
    """All findings as Markdown, and how many there are of each verdict."""
    lines, counts = ["| paper | where, what | paper says | we get | verdict | why |", "|" + " --- |" * 6], {}
    for path in sorted((folder / "papers").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            for line in csv.DictReader(file):
                if "verdict" not in line:
                    break  # rows beside the findings
                counts[line["verdict"]] = counts.get(line["verdict"], 0) + 1
                cells = (
                    path.stem,
                    f"{line['where']}: {line['what']}",
                    *(line[k] for k in ("says", "gets", "verdict", "why")),
                )
                lines.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(lines), counts


def extra(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes at a time")


def main() -> int:
    options = command_line(__doc__ or "", "data", "plot", "only", extra=extra)
    begun = time.perf_counter()
    names = [name for name in papers() if chosen(name, options.only)]
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(options.jobs) as pool:
        folder = options.csv or Path(scratch)
        failed = []
        for name, code, seconds, text in pool.map(lambda name: run(name, options, folder), names):
            print(f"== {name}, {seconds:.0f} s" + (f", exit code {code}" if code else ""))
            print(text, flush=True)
            failed += [name] * (code != 0)
        text, counts = table(folder)
        print(text)
    print(", ".join(f"{counts.get(verdict, 0)} {verdict}" for verdict in VERDICTS), end="; ")
    print(
        f"{len(names)} papers, {time.perf_counter() - begun:.0f} s"
        + (f"; failed: {', '.join(failed)}" if failed else "")
    )
    return int(bool(failed) or not names)


if __name__ == "__main__":
    sys.exit(main())
