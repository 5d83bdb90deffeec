"""Edited or swapped journals, and those of another format: only measured numbers are taken from them."""

import hashlib
import shutil
import sqlite3
import zlib

import numpy as np
import pytest

import dualflow
from dualflow import ProblemError
from dualflow.quantum.circuits import TreeCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.runs.job_record import COLUMNS
from dualflow.quantum.runs.journal import Journal, read_journal
from dualflow.quantum.runs.laboratory import Account, Laboratory

THETA = np.random.default_rng(2).uniform(0.2, 2.0, (2, 3))
LATER = ("sent", "failed", "given up", "not sent", "intended")


def measured(path, device="emulator"):
    """Return the results of three sampled batches and an exact one, and the number of circuits from the journal."""
    lab, account, found = (
        Laboratory(make_device(device), "run", journal=path),
        Account.opened(np.random.default_rng(5)),
        [],
    )
    for k in range(4):
        distributions, account = lab.measure(account, TreeCircuit(2), THETA + k, None if k == 3 else 1000)
        found.append(distributions)
    lab.rest()
    return np.array(found), account


def rows_of(path):
    database = sqlite3.connect(path)
    rows = database.execute("SELECT tag, result, digest, shots FROM jobs ORDER BY rowid").fetchall()
    database.close()
    return rows


def write(path, *statements):
    database = sqlite3.connect(path)
    for statement, values in statements:
        database.execute(statement, values)
    database.commit()
    database.close()


def edited(path, rng):
    """Change a journal at random; return the kind of change."""
    rows = rows_of(path)
    first, second = (rows[k] for k in rng.choice(len(rows), 2, replace=False))
    plain = np.frombuffer(zlib.decompress(first[1]), dtype="<f8" if first[3] is None else "<i8").copy()
    kind = rng.choice(["swap", "swap with digests", "counts", "numbers", "column", "seal", "delete", "truncate", "tag"])
    if kind in ("swap", "swap with digests"):
        names = "result = ?, digest = ?" if kind != "swap" else "result = ?"
        for (tag, *_), (_, result, digest, _) in ((first, second), (second, first)):
            values = (result, digest, tag) if kind != "swap" else (result, tag)
            write(path, (f"UPDATE jobs SET {names} WHERE tag = ?", values))
    elif kind in ("counts", "numbers"):
        k, j = rng.choice(len(plain), 2, replace=False)
        if kind == "counts":  # with the same sum
            plain[k], plain[j] = plain[k] + 0.5 * plain[j], plain[j] - 0.5 * plain[j]
        else:
            plain[k] = rng.choice([-3, 0, 700, 2**40])
        content = plain.astype("<f8" if first[3] is None else "<i8").tobytes()
        digests = [first[2], hashlib.sha256(content).hexdigest()]  # unchanged; and that of the result alone
        values = (zlib.compress(content), digests[rng.integers(2)], first[0])
        write(path, ("UPDATE jobs SET result = ?, digest = ? WHERE tag = ?", values))
    elif kind == "column":
        column = str(rng.choice([name for name in COLUMNS if name != "tag"]))
        value = {"circuits": 1, "qubits": 3, "shots": 999, "seed": 7, "cost": 0.5, "qpu_seconds": 9.0}.get(
            column, "other"
        )
        value = str(rng.choice(LATER)) if column == "state" else value
        write(path, (f"UPDATE jobs SET {column} = ? WHERE tag = ?", (value, first[0])))
    elif kind == "seal":
        write(
            path, ("UPDATE jobs SET seal = (SELECT seal FROM jobs WHERE tag = ?) WHERE tag = ?", (second[0], first[0]))
        )
    elif kind == "delete":
        write(path, ("DELETE FROM jobs WHERE tag = ?", (first[0],)))
    elif kind == "tag":
        write(
            path,
            ("UPDATE jobs SET tag = 'x' WHERE tag = ?", (first[0],)),
            ("UPDATE jobs SET tag = ? WHERE tag = ?", (first[0], second[0])),
            ("UPDATE jobs SET tag = ? WHERE tag = 'x'", (second[0],)),
        )
    else:
        content = path.read_bytes()
        path.write_bytes(content[: int(rng.integers(1, len(content)))])
    return kind


@pytest.mark.parametrize("edits", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_random_edits_change_no_result(tmp_path, edits):
    honest, rng = tmp_path / "honest.db", np.random.default_rng(0)
    whole, _ = measured(honest)
    refused, replayed = dict.fromkeys(["refused", "same"], 0), 0
    for _ in range(edits):
        path = tmp_path / "edited.db"
        for end in ("", "-wal", "-shm"):
            (tmp_path / f"edited.db{end}").unlink(missing_ok=True)
        shutil.copy(honest, path)
        kind = edited(path, rng)
        try:
            found, account = measured(path)
        except ProblemError:
            refused["refused"] += 1
        else:
            np.testing.assert_array_equal(found, whole, err_msg=kind)  # measured again with the same seed
            replayed += account.replayed
            refused["same"] += 1
    assert refused["refused"] > 0.6 * edits
    assert replayed < 8 * refused["same"]  # no edited result is used


FORGED = {
    "700 counts of 1000": (np.array([700, 0, 0, 0] * 2), "700 shots where 1000 were requested"),
    "a negative count": (np.array([1010, -10, 0, 0] * 2), "a negative count, -10|negative"),
}


@pytest.mark.parametrize("forged", FORGED)
def test_results_of_a_journal_are_checked_as_read_outs_are(tmp_path, forged):
    """Results are checked even if all digests are right."""
    path, (counts, message) = tmp_path / "jobs.db", FORGED[forged]
    measured(path)
    journal = Journal(path)
    journal.keep(journal.records()[0], counts.reshape(2, 4))
    with pytest.raises(ProblemError, match=f"journal .* is damaged .*({message})"):
        measured(path)


def test_exact_distributions_of_a_journal_sum_to_one(tmp_path):
    path = tmp_path / "jobs.db"
    measured(path)
    journal = Journal(path)
    journal.keep(journal.records()[3], np.full((2, 4), 0.75))
    with pytest.raises(ProblemError, match=r"is damaged .*probabilities that sum to 3"):
        measured(path)


def test_a_swap_with_digests_is_found(tmp_path):
    path = tmp_path / "jobs.db"
    measured(path)
    (a, ra, da, _), (b, rb, db, _), *_ = rows_of(path)
    for tag, result, digest in ((a, rb, db), (b, ra, da)):
        write(path, ("UPDATE jobs SET result = ?, digest = ? WHERE tag = ?", (result, digest, tag)))
    with pytest.raises(ProblemError, match="is damaged"):
        measured(path)


def test_provenance_has_the_number_of_results_from_the_file(tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 2))
    problem = dualflow.problems.svdd(dualflow.Gram(X, gamma=0.7))
    run = {"device": "emulator", "shots": 100, "steps": 3, "journal": tmp_path / "jobs.db", "tol": 1e-300}
    part = dualflow.solve(problem, "variational-flow", max_steps=1, **run)
    rest = dualflow.solve(problem, "variational-flow", **run)
    assert (part.provenance["circuits_from_journal"], rest.provenance["circuits_from_journal"]) == (0, 2)
    assert rest.cost.circuits == 4
    kernel = dualflow.FidelityKernel("angle", shots=50, journal=tmp_path / "kernel.db")
    kernel(X, X)
    again = dualflow.FidelityKernel("angle", shots=50, journal=tmp_path / "kernel.db")
    again(X, X)
    assert (kernel.circuits_from_journal, again.circuits_from_journal) == (0, kernel.circuits)


# --- journals of another format --------------------------------------------------------------------


@pytest.mark.parametrize("found", [2, 4])
def test_a_journal_of_another_format_is_refused_and_left_as_it_is(found, tmp_path):
    path = tmp_path / "jobs.db"
    measured(path)
    write(path, (f"PRAGMA user_version = {found}", ()))
    content = path.read_bytes()
    said = (
        rf"jobs\.db is a journal whose format is {found}, this version reads 3\..*not changed; give journal= the path"
    )
    for use in (measured, read_journal):
        with pytest.raises(ProblemError, match=said):
            use(path)
    assert path.read_bytes() == content
