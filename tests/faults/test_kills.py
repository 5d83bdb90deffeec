"""SIGKILL at random moments: what is on the disk afterwards loads, and is a state that the work went through."""

import os
import signal
import time

import numpy as np
import pytest

from dualflow import SVC, Checkpoint, EcoSVC, Gram, IncrementalSVC, load, problems, solve
from dualflow.quantum.runs.journal import JobRecord, Journal, read_journal
from tests.faults.processes import forks

rng = np.random.default_rng(0)
Y = np.where(np.arange(40) % 2 == 0, 1.0, -1.0)
X = rng.standard_normal((40, 2)) + 0.7 * Y[:, None]
#: Each work's files are in a folder, and it goes round until it is killed; the byte tells that it has begun.
POSED = problems.svc(Gram(X, gamma=0.5), Y, C=1.0), "frank-wolfe"
LIMITS = {"tol": 1e-14, "max_steps": 100}


def run(path, callback=None):
    return solve(*POSED, checkpoint=Checkpoint(path, interval_s=0.0), callback=callback, **LIMITS)


def solving(folder, begun):
    while True:
        run(folder / "run.npz", callback=lambda progress: begun())
        os.unlink(folder / "run.npz")


def job(k):
    return JobRecord("for", "device", "circuit", 1, "0", 1, 10, k)


def journalling(folder, begun):
    journal, k = Journal(folder / "jobs.db"), 0
    while True:
        record = journal.intend(job(k), lambda spent: None)
        begun()
        record = journal.note(record, "sent", job_id=f"job {k}")
        journal.keep(record, np.array([[k, 10 - k]]))
        k += 1


def fitted(C):
    return SVC(C=float(C)).fit(X, Y)


def saving(folder, begun):
    models = [fitted(C) for C in (1, 2)]
    while True:
        for model in models:
            model.save(folder / "model.dualflow")
            begun()


def stream(kind, points):
    model = kind(C=2.0, gamma=0.5)
    for k in range(0, points, 4):
        model.partial_fit(X[k : k + 4], Y[k : k + 4], classes=[-1, 1])
    return model


def streaming(kind):
    def work(folder, begun):
        while True:
            model = kind(C=2.0, gamma=0.5)
            for k in range(0, len(X), 4):
                model.partial_fit(X[k : k + 4], Y[k : k + 4], classes=[-1, 1])
                model.save(folder / "stream.dualflow")
                begun()

    return work


def check_solving(folder):
    whole = solve(*POSED, **LIMITS)
    assert np.array_equal(run(folder / "run.npz").raw_alpha, whole.raw_alpha)


def check_journalling(folder):
    records = read_journal(folder / "jobs.db")
    journal = Journal(folder / "jobs.db")
    assert [record.seed for record in records] == list(range(len(records)))
    assert {record.state for record in records[:-1]} <= {"done"}
    for record in records[:-1]:
        assert np.array_equal(journal.result(record), [[record.seed, 10 - record.seed]])
    journal.intend(job(10**6), lambda spent: None)
    assert read_journal(folder / "jobs.db")[-1].seed == 10**6


def check_saving(folder):
    found = load(folder / "model.dualflow")
    assert np.array_equal(found.decision_function(X), fitted(found.C).decision_function(X))


def check_streaming(kind):
    def check(folder):
        found = load(folder / "stream.dualflow")
        points = len(found.solution_.problem.p) if kind is IncrementalSVC else None
        cold = [stream(kind, k) for k in ([points] if points else range(4, len(X) + 1, 4))]
        assert any(np.array_equal(found.decision_function(X), model.decision_function(X)) for model in cold)
        found.partial_fit(X[:4], Y[:4])

    return check


WORKS = {
    "solve": (solving, check_solving),
    "journal": (journalling, check_journalling),
    "model": (saving, check_saving),
    "incremental": (streaming(IncrementalSVC), check_streaming(IncrementalSVC)),
    "eco": (streaming(EcoSVC), check_streaming(EcoSVC)),
}


def child(name, folder, pipe):
    told = []

    def begun():
        if not told:
            told.append(True)
            pipe.send_bytes(b"begun")

    WORKS[name][0](folder, begun)


def killed(name, folder, after):
    """Let a work go on in a process of its own, and kill it some time after it has begun."""
    context = forks()
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(name, folder, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        assert ours.poll(60), "it did not begin"
        assert ours.recv_bytes() == b"begun"
        time.sleep(after)
        os.kill(process.pid, signal.SIGKILL)
        process.join(30)
        assert process.exitcode == -signal.SIGKILL
    finally:
        process.kill()
        process.join(30)
        ours.close()


def kill_and_check(name, folder, seed):
    # Short times mostly, so that many fall into the first write, and before it.
    after = float(np.random.default_rng(seed).exponential(0.03))
    print(f"{name}: killed {after:.4f} s after its beginning (seed {seed})")
    killed(name, folder, after)
    # Beside a journal lies its log.
    whole = [path for path in folder.iterdir() if not path.name.endswith((".part", "-wal", "-shm"))]
    assert len(whole) <= 1
    if whole:
        WORKS[name][1](folder)
    return bool(whole)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", WORKS)
def test_what_a_kill_leaves_behind_loads(name, seed, tmp_path):
    kill_and_check(name, tmp_path, seed)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("name", WORKS)
def test_what_forty_kills_leave_behind_loads(name, tmp_path):
    found = 0
    for seed in range(100, 140):
        (folder := tmp_path / str(seed)).mkdir()
        found += kill_and_check(name, folder, seed)
    assert found >= 20
