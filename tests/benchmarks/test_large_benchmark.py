"""The benchmark of many rows: what a fit in a process of its own says, and how rows are judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.classical import large

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rows")
    assert large.made(folder, "generated", [400, 600], None) == [400, 600]
    return folder


def row(entrant, n, cpu_s, tol="", threads="1", gap="1e-7", memory="900"):
    about = {"case": f"{entrant} {n}", "data_set": "adult", "n": n, "entrant": entrant, "tol": tol, "threads": threads}
    took = {"wall_s": cpu_s, "cpu_s": cpu_s, "peak_memory_mb": memory, "relative_gap": gap}
    return about | took | {"support_vectors": "9", "free": "3", "accuracy": "0.9"}


def held(rows):
    return {(one.what, one.measure): one.passed for one in large.judge(rows) if one.kind == "must"}


@pytest.mark.parametrize("entrant", ["dualflow", "SVC", "nystroem 20, LinearSVC", "nystroem 20, SGD"])
def test_a_fit_reads_its_rows_from_the_file(folder, entrant):
    found = large.once(str(folder), "generated", entrant, 600, None)
    assert found["accuracy"] > 0.8
    assert found["peak_memory_mb"] > 50
    assert (found["relative_gap"] is not None) == (entrant == "dualflow")


def test_a_fit_in_a_process_of_its_own(folder):
    what = {"folder": str(folder), "name": "generated", "entrant": "dualflow", "n": 400, "tol": 1e-3}
    line = [sys.executable, "-m", "benchmarks.classical.large", "--once", json.dumps(what)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert json.loads(done.stdout.splitlines()[-1])["relative_gap"] <= 1e-3, done.stderr


def test_the_largest_is_held_against_its_limits_and_a_cliff_is_found():
    mapped = [row("dualflow", "1000", "1", tol="0.001"), row("dualflow", "2000", "4", tol="0.001")]
    assert all(held(mapped).values())
    assert not held([mapped[0], mapped[1] | {"cpu_s": "7"}])["one process, X mapped", "growth between sizes"]
    for name, value in (("relative_gap", "2e-3"), ("peak_memory_mb", "6001"), ("wall_s", "3601")):
        assert sum(not ok for ok in held([mapped[0], mapped[1] | {name: value}]).values()) == 1


def test_adult_is_held_against_the_peer():
    ours, theirs = (
        [row(who, n, str(cpu)) for n, cpu in zip(("1000", "2000"), times, strict=True)]
        for who, times in (("dualflow", (1, 3)), ("SVC", (1, 4)))
    )
    assert list(held([*ours, *theirs]).values()) == [True, True, True]
    assert not held([*ours[:1], ours[1] | {"cpu_s": "5"}, *theirs])["adult, 1 thr", "exponent"]
    assert not held([*ours[:1], ours[1] | {"relative_gap": "1e-5"}, *theirs])["adult, 1 thr", "relative gap"]
