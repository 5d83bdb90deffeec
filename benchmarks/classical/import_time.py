"""Claim: `import dualflow` costs no more than 1.2 × `import sklearn.svm`.

Fresh processes in turn, A B A B …, after one warm-up each; the ratio is of medians, with a 95 % bootstrap interval.
"""

import subprocess
import sys
import time
from dataclasses import asdict

from benchmarks.lib import ratios
from benchmarks.lib.claims import Rows, Verdict, conclude
from benchmarks.lib.command import command_line

TITLE = "classical/import_time"
OURS, THEIRS = "import dualflow", "import sklearn.svm"
RUNS, QUICK = 15, 5
LIMIT = 1.2


def seconds(statement: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - begun


def main() -> int:
    options = command_line(__doc__)
    times: dict[str, list[float]] = {OURS: [], THEIRS: []}
    for statement in times:
        seconds(statement)
    for _ in range(QUICK if options.quick else RUNS):
        for statement, found in times.items():
            found.append(seconds(statement))
    table = Rows(f"{TITLE}_rows", options)
    for statement, found in times.items():
        middle = ratios.median(found)
        table.add(statement, runs=len(found), median_s=middle.value, low_s=middle.low, high_s=middle.high)
    ratio = asdict(ratios.ratio(times[OURS], times[THEIRS]))
    verdict = Verdict("must", OURS, f"ratio to {THEIRS}", **ratio, sense="<=", asked=LIMIT, unit="×")
    return conclude(TITLE, [verdict], options)


if __name__ == "__main__":
    sys.exit(main())
