"""`EcoSVC` on an endless stream: neither its memory nor the time a batch takes may grow.

    python -m tests.fuzz.soak --minutes 60

A disc within a ring: the classes do not overlap, so that the survivors of an endless stream are few, and come and go.
A line is printed now and then; exit code 1 if the traced memory of the last quarter exceeds that of the second one by
more than a tenth.
"""

from __future__ import annotations

import argparse
import gc
import resource
import sys
import time
import tracemalloc

import numpy as np
from numpy.typing import NDArray

from dualflow import EcoSVC, release_memory

#: Points a batch, and the part by which later memory may exceed earlier.
BATCH, GROWTH = 64, 0.1


def soak(seconds: float, seed: int, report_s: float = 60.0) -> tuple[int, NDArray, bool]:
    """Batches learned, most bytes traced in each hundredth of the time, and whether every state was certified."""
    rng, start, told = np.random.default_rng(seed), time.monotonic(), time.monotonic()
    model, batches, memory, sound = EcoSVC(C=1.0, gamma=0.5), 0, np.zeros(100), True
    tracemalloc.start()
    try:
        while (elapsed := time.monotonic() - start) < seconds:
            y = rng.integers(0, 2, BATCH)
            turn, radius = rng.uniform(0, 2 * np.pi, BATCH), np.sqrt(rng.uniform(0, 1, BATCH)) + 2.0 * y
            X = np.column_stack([radius * np.cos(turn), radius * np.sin(turn)])
            model.partial_fit(X, y, classes=[0, 1])
            batches += 1
            if batches % 10:
                continue
            gc.collect()  # what refers to itself waits for this, and is no leak
            release_memory()  # that the process keeps for the next fit of anybody
            part = int(100 * elapsed / seconds)
            traced = tracemalloc.get_traced_memory()[0]
            memory[part] = max(memory[part], traced)
            if batches % 50 == 0:
                sound = sound and model.certificate_.within(model.tol)
            if time.monotonic() - told > report_s:
                told = time.monotonic()
                rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                print(
                    f"{batches} batches, {len(model.survivors_)} survivors, {traced / 1e6:.2f} MB traced, "
                    f"{rss / 1024:.0f} MB at most, sound: {sound}",
                    flush=True,
                )
    finally:
        tracemalloc.stop()
    return batches, memory, sound


def grows(memory: NDArray) -> bool:
    """Whether the most of the last quarter exceeds the most of the second one."""
    return bool(memory[75:].max() > (1 + GROWTH) * memory[25:50].max())


def main(given: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(given)
    batches, memory, sound = soak(60.0 * options.minutes, options.seed)
    print(f"{batches} batches of {BATCH}, {memory.max() / 1e6:.2f} MB at most, grows: {grows(memory)}, sound: {sound}")
    return int(grows(memory) or not sound)


if __name__ == "__main__":
    sys.exit(main())
