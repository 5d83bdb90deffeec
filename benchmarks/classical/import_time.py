"""Claim: `import dualflow` costs no more than 1.2 × `import sklearn.svm`.

Fresh processes in turn, A B A B …, after one warm-up each; the ratio is of medians, with a 95 % bootstrap interval.
"""

import subprocess
import sys
import time

import numpy as np

RUNS = 15
LIMIT = 1.2


def seconds(statement: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - begun


def main() -> int:
    ours, theirs = "import dualflow", "import sklearn.svm"
    for statement in (ours, theirs):
        seconds(statement)
    times = np.array([(seconds(ours), seconds(theirs)) for _ in range(RUNS)])
    rng = np.random.default_rng(0)
    draws = [np.median(times[rng.integers(0, RUNS, RUNS)], axis=0) for _ in range(2000)]
    ratios = np.array([a / b for a, b in draws])
    a, b = np.median(times, axis=0)
    low, high = np.quantile(ratios, [0.025, 0.975])
    print(f"{ours}: median {a:.3f} s   {theirs}: median {b:.3f} s   whole processes, {RUNS} runs each, in turn")
    passed = a / b <= LIMIT
    verdict = "PASS" if passed else "FAIL"
    print(f"ratio {a / b:.3f} (95 % interval {low:.3f}-{high:.3f}), limit {LIMIT}: {verdict}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
