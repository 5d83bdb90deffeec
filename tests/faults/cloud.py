"""Runs on a fake cloud, killed at random points and resumed: ``python -m tests.faults.cloud --runs 200 [--seed 0]``.

Each run has its own plan of faults, its own limits, a journal, and a checkpoint or none. Every process of it gets a
SIGKILL, after a random number of events at the cloud or after a random time, until one comes to the end. The answer
must be that of an undisturbed run to the last bit, and the bill that of the circuits asked for; where the cloud knows
no tags and a reply was lost before an id was heard, the run must stop and ask.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

import dualflow
from dualflow import Checkpoint, DeviceError, Status
from dualflow.quantum.devices import Limits
from dualflow.quantum.runs import sending
from dualflow.quantum.runs.journal import read_journal
from dualflow.testing.cloud import FakeCloud, Faults
from tests.faults.processes import forks

__all__ = ["Life", "live", "main"]

X = np.random.default_rng(0).normal(size=(6, 2))
Y = np.where(np.arange(6) % 2 == 0, 1.0, -1.0)
#: Processes of a run that are killed, at most, and that it may take: on a cloud without tags that fails at one call in
#: ten of each kind, a run of dozens of jobs stops and asks a few dozen times.
KILLED, LIVES = 30, 200
SOLVERS: dict[str, dict[str, Any]] = {
    "tree": {"shots": 250, "steps": 5},
    "hardware-efficient": {"shots": 150, "steps": 3, "ansatz": "hardware-efficient", "layers": 1},
    "mitigated": {"shots": 400, "steps": 3, "mitigation": "confusion"},
}


class Life:
    """A run: what it solves, its cloud, and its files, all of it decided by a seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        rng = np.random.default_rng(seed)
        self.seed, self.folder = seed, folder
        self.name = str(rng.choice(list(SOLVERS)))
        self.tags = bool(rng.random() < 0.7)
        self.checkpointed = bool(rng.random() < 0.5)
        circuits, shots = (None, 4, 1)[rng.integers(3)], (None, 100, 170)[rng.integers(3)]
        self.limits = Limits(circuits, None if self.name == "mitigated" else shots)
        share = rng.choice([0.0, 0.03, 0.1], size=6)
        self.faults = Faults(seed, int(rng.integers(4)), *share)

    def problem(self) -> dualflow.DualProblem:
        return dualflow.problems.svc(dualflow.Gram(X, gamma=0.7), Y, 5.0, loss="squared_hinge")

    def solve(self, cloud: FakeCloud, files: bool = True, resend: bool = False) -> dualflow.Solution:
        kept: dict[str, Any] = {"journal": self.folder / "jobs.db", "resend": resend} if files else {}
        if files and self.checkpointed:
            kept["checkpoint"] = Checkpoint(self.folder / "run.npz", interval_s=0)
        return dualflow.solve(
            self.problem(), "variational-flow", device=cloud, random_state=self.seed, **SOLVERS[self.name], **kept
        )

    def cloud(self, **more: Any) -> FakeCloud:
        return FakeCloud(self.folder / "cloud.db", self.faults, tags=self.tags, limits=self.limits, **more)


def process(life: Life, events: int, resend: bool, pipe: Any) -> None:
    """One process of a run: killed at an event of the cloud's, or from outside."""
    sending.FIRST_PAUSE_S = 0.001
    left = events

    def die(word: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    pipe.send("begun")
    try:
        solution = life.solve(life.cloud(on_event=die), resend=resend)
        ended = solution.status not in (Status.DEVICE_FAILED, Status.BUDGET_SPENT)
        pipe.send((ended, solution.raw_alpha, solution.cost.circuits, solution.provenance.get("device_error", "")))
    except DeviceError as error:  # at the start there is no state to keep
        pipe.send((False, None, 0, str(error)))


def alive(life: Life, events: int, seconds: float | None, resend: bool) -> tuple[Any, ...] | None:
    """What a process of a run says at its end, or None if it was killed."""
    context = forks()
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=process, args=(life, events, resend, theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        assert ours.poll(60), "it did not begin"
        assert ours.recv() == "begun"
        if seconds is not None and not ours.poll(seconds):
            os.kill(child.pid or 0, signal.SIGKILL)
        child.join(120)
        if child.exitcode not in (0, -signal.SIGKILL):
            raise AssertionError(f"a process of run {life.seed} ended with {child.exitcode}")
        return ours.recv() if ours.poll() else None
    except EOFError:
        return None
    finally:
        child.kill()
        child.join(30)
        ours.close()


def live(seed: int) -> Counter[str]:
    """Live through a run, and hold it to its word; counts of what happened."""
    folder = Path(mkdtemp(prefix="dualflow-cloud-"))
    try:
        return _live(Life(seed, folder))
    finally:
        shutil.rmtree(folder)


def _live(life: Life) -> Counter[str]:
    quiet = FakeCloud(life.folder / "quiet.db", limits=life.limits)
    whole = life.solve(quiet, files=False)
    asked = quiet.paid()
    rng, found, resend, allowed = np.random.default_rng([life.seed, 1]), Counter(runs=1), False, 0
    for number in range(LIVES):
        killing = number < KILLED
        by_time = killing and rng.random() < 0.4
        events = int(rng.integers(1, 40)) if killing and not by_time else -1
        told = alive(life, events, float(rng.exponential(0.08)) if by_time else None, resend)
        resend = False
        if told is None:
            found["kills"] += 1
            continue
        ended, alpha, circuits, error = told
        if ended:
            assert np.array_equal(alpha, whole.raw_alpha), "another answer"
            assert circuits == whole.cost.circuits, "another account"
            break
        found["stops"] += 1
        if "resend=True" in error:
            assert not life.tags, f"it asks although the cloud knows tags: {error}"
            doubtful = [r for r in read_journal(life.folder / "jobs.db") if r.state == "intended"]
            assert doubtful, f"it asks, and nothing is in doubt: {error}"
            found["asked"] += 1
            allowed += sum(r.circuits for r in doubtful)
            resend = True
    else:
        raise AssertionError("it never came to an end")
    paid = life.cloud().paid()
    more = paid["circuits"] - asked["circuits"]
    assert 0 <= more <= allowed, f"{paid['circuits']} circuits paid, {asked['circuits']} asked for"
    assert len(set(paid["tags"])) == len(paid["tags"]), "a job was paid twice"
    mode = (life.folder / "jobs.db").stat().st_mode & 0o777
    assert mode == 0o600, oct(mode)
    found.update({"circuits": asked["circuits"], "circuits paid again": more, "ended": 1})
    found["bit-same"] += 1
    found["without tags"] += not life.tags
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    total, broken, begun = Counter[str](), 0, time.monotonic()
    for seed in range(options.seed, options.seed + options.runs):
        try:
            total += live(seed)
        except AssertionError as error:
            broken += 1
            print(f"run {seed}: {error}", flush=True)
    print(", ".join(f"{name}: {count}" for name, count in sorted(total.items())), f"({time.monotonic() - begun:.0f} s)")
    print(f"{broken} of {options.runs} runs broke their word")
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
