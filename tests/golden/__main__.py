"""Write the record of this tree, or compare this tree with the record of another, on the same machine.

    python -m tests.golden --write FILE
    python -m tests.golden --against FILE

Last bits are those of a machine and its BLAS: no record is committed. Exit code 1 if a case differs.
"""

from __future__ import annotations

import argparse
import os
import pickle
import sys
import time
import warnings
from pathlib import Path

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # before numpy is imported

import numpy as np  # noqa: E402 - after the environment is set

from .cases import Facts, cases  # noqa: E402 - it imports numpy

#: Place of the relative gap among the figures of a certificate.
RELATIVE_GAP = 3


def compute(only: str) -> dict[str, Facts | str]:
    """What each case comes to; the error's text where it raises one."""
    found: dict[str, Facts | str] = {}
    for name, case in cases():
        if only not in name:
            continue
        begun = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found[name] = case()
        except Exception as error:  # an error is a result like any other
            found[name] = f"{type(error).__name__}: {error}"
        if (seconds := time.process_time() - begun) > 2.0:
            print(f"{name}: {seconds:.1f} s", file=sys.stderr)
    return found


def difference(before: Facts | str, after: Facts | str) -> str:
    """What differs between two results of a case, in words; empty where nothing does."""
    if isinstance(before, str) or isinstance(after, str):
        same = isinstance(before, str) and before == after
        return "" if same else f"{_in_short(before)} -> {_in_short(after)}"
    found = [f"only {'before' if name in before else 'after'}: {name}" for name in sorted(before.keys() ^ after.keys())]
    for name in before.keys() & after.keys():
        old, new = before[name], after[name]
        if old.shape != new.shape:
            found.append(f"{name}: shape {old.shape} -> {new.shape}")
        elif old.tobytes() != new.tobytes() and not np.array_equal(old, new, equal_nan=True):
            if name.endswith("certificate"):
                found.append(f"{name}: gap {old[RELATIVE_GAP]:.1e} -> {new[RELATIVE_GAP]:.1e}")
            else:
                size = float(np.max(np.abs(old), initial=0.0)) or 1.0
                found.append(f"{name}: {float(np.max(np.abs(old - new))) / size:.1e} of {size:.3g}")
    return "; ".join(sorted(found))


def _in_short(facts: Facts | str) -> str:
    return facts if isinstance(facts, str) else "a result"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--write", type=Path, metavar="FILE", help="where the record of this tree is written")
    way.add_argument("--against", type=Path, metavar="FILE", help="the record to compare with")
    parser.add_argument("--only", default="", metavar="TEXT", help="only cases whose names contain it")
    options = parser.parse_args()
    found = compute(options.only)
    if options.write:
        options.write.write_bytes(pickle.dumps(found))
        raised = [f"{name}: {facts}" for name, facts in found.items() if isinstance(facts, str)]
        print(f"{len(found)} cases written, {len(raised)} of which raise an error", *raised, sep="\n  ")
        return 0
    record = pickle.loads(options.against.read_bytes())
    names = [name for name in record.keys() | found.keys() if options.only in name]
    told = {name: difference(record.get(name, "no such case"), found.get(name, "no such case")) for name in names}
    differ = {name: text for name, text in sorted(told.items()) if text}
    for name, text in differ.items():
        print(f"{name}: {text}")
    print(f"{len(differ)} of {len(told)} cases differ")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
