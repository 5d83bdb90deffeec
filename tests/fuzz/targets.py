"""What is fuzzed: each target writes bytes to a file, lets dualflow read it, and raises where that is a defect.

A file ends in an answer or in a documented error, whatever is in it; never in another exception, in more memory or time
than its size explains, in code that it names, or in a change of the user's files.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp

import numpy as np
from sklearn.datasets import dump_svmlight_file
from typer.testing import CliRunner

import dualflow
from dualflow import EcoSVC, EcoSVDD, IncrementalSVC, IncrementalSVDD, IncrementalSVR, ProblemError, cli, problems
from dualflow.cli.csv_data import CsvFormat
from dualflow.cli.labels import labels_of
from dualflow.cli.reading import read_new
from dualflow.cli.table import RequestedColumns
from dualflow.cli.training_data import EncodingOptions
from dualflow.interchange import from_libsvm, from_svmlight, to_libsvm, to_svmlight
from dualflow.quantum.runs.journal import JobRecord, Journal, read_journal

from . import mutations

__all__ = ["TARGETS", "Defect", "Target"]

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(16, 2)), np.arange(16) % 2
#: A module that nobody imports, unless a file makes them.
CANARY = "tests.fuzz.canary"


class Defect(AssertionError):  # noqa: N818 - what it is, not what was raised
    """What must not happen."""


@dataclass(frozen=True)
class Target:
    """One reader.

    Parameters
    ----------
    name : str
    seeds : callable
        Files it reads without complaint, as bytes.
    mutate : callable
        A structure-aware change.
    run : callable
        Reads a file.
    """

    name: str
    seeds: Callable[[], list[bytes]]
    mutate: mutations.Mutation
    run: Callable[[Path, bytes], None]

    def __call__(self, content: bytes) -> None:
        """Raise unless the content is read, or refused as it should be."""
        folder = Path(mkdtemp(prefix="dualflow-fuzz-"))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.run(folder, content)
        except (ProblemError, dualflow.SolverMismatch) as refusal:
            _check_refusal(refusal)
        finally:
            shutil.rmtree(folder)
        if CANARY in sys.modules:
            del sys.modules[CANARY]
            raise Defect("a module was imported because a file names it")


def _check_refusal(refusal: BaseException) -> None:
    if not str(refusal).strip():
        raise Defect("a refusal without a sentence")
    cause: BaseException | None = refusal
    while cause is not None:
        if isinstance(cause, MemoryError):
            raise Defect("more memory was asked for than there is, before it was refused") from refusal
        cause = cause.__cause__ or cause.__context__


# --- models ----------------------------------------------------------------------------------------


def _models() -> list[bytes]:
    device = {"device": f"backend:{CANARY}:make", "journal": "journal.db", "shots": 100}
    quantum = dualflow.SVC(
        loss="squared_hinge", solver="variational-flow", solver_options={"device": "null", "shots": 100}
    )
    models = [
        dualflow.SVC(random_state=1).fit(X, Y),
        dualflow.SVC(C=3.0, kernel="poly", random_state=1).fit(X, np.array(list("abc"))[np.arange(16) % 3]),
        dualflow.SVC(kernel="precomputed", class_weight={0: 1.0, 1: 2.0}, random_state=1).fit(X @ X.T, Y),
        dualflow.SVDD(nu=0.5, random_state=1).fit(X),
        EcoSVC(n_init=8).partial_fit(X, Y, classes=[0, 1]),
        EcoSVDD(n_init=8).partial_fit(X),
        IncrementalSVC().partial_fit(X, Y, classes=[0, 1]),
        IncrementalSVDD().partial_fit(X),
        IncrementalSVR().partial_fit(X, X[:, 0]),
        quantum.set_params(random_state=1, max_steps=2).fit(X[:4], Y[:4]).set_params(solver_options=device),
    ]
    folder, contents = Path(mkdtemp(prefix="dualflow-fuzz-")), []
    for model in models:
        model.save(folder / "model")
        contents.append((folder / "model").read_bytes())
    shutil.rmtree(folder)
    return contents


def _run_model(folder: Path, content: bytes) -> None:
    (folder / "model").write_bytes(content)
    model = dualflow.load(folder / "model")
    if model.n_features_in_ <= 1000:  # those of a precomputed kernel may be any number
        model.predict(X[:3] if model.n_features_in_ == 2 else np.zeros((3, model.n_features_in_)))
    model.save(folder / "again")
    names = {path.name for path in folder.iterdir()}
    if hasattr(model, "solver_options") and isinstance(model.solver_options, dict) and "device" in model.solver_options:
        # Parameters of a file are as good as anybody's.
        with contextlib.suppress(dualflow.DualflowError, ValueError, TypeError, AttributeError):
            model.set_params(max_steps=1, time_limit=1.0).fit(X[:4], Y[:4])
    if {path.name for path in folder.iterdir()} != names:
        raise Defect("a file was written because a model names it")


# --- checkpoints -----------------------------------------------------------------------------------

_PROBLEM = problems.svc(dualflow.Gram(X), 2 * Y - 1, C=2.0)
#: With an option of its own the working set makes a run, which a checkpoint is of.
_SOLVERS = ("smo", "gradient-flow", dualflow.WorkingSet(hand_over=False), "frank-wolfe")


def _checkpoints() -> list[bytes]:
    folder, contents = Path(mkdtemp(prefix="dualflow-fuzz-")), []
    simplex = problems.svc(dualflow.Gram(X), 2 * Y - 1, C=2.0, loss="squared_hinge")
    for k, solver in enumerate(_SOLVERS):
        try:
            dualflow.solve(_PROBLEM, solver, checkpoint=folder / str(k), max_steps=2, random_state=0)
        except dualflow.SolverMismatch:
            dualflow.solve(simplex, solver, checkpoint=folder / str(k), max_steps=2, random_state=0)
        contents.append((folder / str(k)).read_bytes())
    shutil.rmtree(folder)
    return contents


def _run_checkpoint(folder: Path, content: bytes) -> None:
    for solver in _SOLVERS[:3]:
        (folder / "run").write_bytes(content)
        try:
            dualflow.solve(_PROBLEM, solver, checkpoint=folder / "run", max_steps=20, time_limit=1.0, random_state=0)
        except ProblemError as refusal:
            _check_refusal(refusal)


# --- journals --------------------------------------------------------------------------------------


@cache
def _journals() -> list[bytes]:
    folder = Path(mkdtemp(prefix="dualflow-fuzz-"))
    (empty, full), contents = (folder / "empty", folder / "full"), []
    Journal(empty)
    journal = Journal(full, "digest of the data")
    for k, state in enumerate(("done", "sent", "intended", "failed", "not sent")):
        shots = None if k else 100
        record = JobRecord("for", "aer", "circuit", 1, "0123", 2, shots, k, qpu_seconds=1.5, cost=0.25)
        record = journal.note(journal.intend(record, lambda spent: None), state, "said \x1b[31mred", f"job-{k}")
        if state == "done":
            journal.keep(record, np.array([[40, 60], [0, 100]]))
    del journal
    contents = [path.read_bytes() for path in (full, empty)]
    shutil.rmtree(folder)
    return contents


def _run_journal(folder: Path, content: bytes) -> None:
    path = folder / "journal"
    path.write_bytes(content)
    _check_result(CliRunner().invoke(cli.app, ["jobs", "list", str(path)]))
    if path.read_bytes() != content:
        raise Defect("a list changed the file")
    with contextlib.suppress(ProblemError):
        for record in read_journal(path):
            hash(record.content)
            _check_result(CliRunner().invoke(cli.app, ["jobs", "show", str(path), record.tag]))
    journal = Journal(path, "digest of the data")
    for record in journal.records():
        journal.find(record)
        with contextlib.suppress(ProblemError):
            journal.result(record)
    journal.spent()


# --- tables and the command line -------------------------------------------------------------------


@cache
def _tables() -> list[bytes]:
    rows = [f"{a:.3f},{b:.3f},{'up' if b > 0 else 'down'}" for a, b in X]
    gaps = [f"{'rgb'[k % 3]};{'NA' if k % 5 else b};;{k % 2}" for k, (_, b) in enumerate(X)]
    numbers = [f"{a:.3f};{b:.3f}".replace(";", ",") + f",{k % 2}" for k, (a, b) in enumerate(X)]
    return [
        "\n".join(["a,b,kind", *rows]).encode(),
        "\r\n".join(numbers).encode(),
        b"\xef\xbb\xbf" + "\n".join(['"a","b ""x""",kind', *rows, ""]).encode(),
        "\n".join(["colour;b;c;kind", *gaps]).encode(),
        gzip.compress("\n".join(["a\tb\tkind", *(row.replace(",", "\t") for row in rows)]).encode(), mtime=0),
    ]


@cache
def _points() -> list[bytes]:
    folder = Path(mkdtemp(prefix="dualflow-fuzz-"))
    for k in range(2):
        dump_svmlight_file(X * (X > 0), Y, str(folder / str(k)), zero_based=bool(k), comment="a" * k)
    contents = [(folder / str(k)).read_bytes() for k in range(2)]
    shutil.rmtree(folder)
    return contents


@cache
def _parquet() -> list[bytes]:
    import pyarrow
    import pyarrow.parquet

    columns = {"a": X[:, 0], "b": list("xyz") * 5 + [None], "c": Y > 0, "kind": [f"k{k}" for k in Y]}
    contents = []
    for compression in ("none", "snappy"):
        file = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.table(columns), file, compression=compression)
        contents.append(file.getvalue().to_pybytes())
    return contents


def _run_table(folder: Path, content: bytes, name: str = "data.csv") -> None:
    (folder / name).write_bytes(content)
    for label in (None, "kind", "1", "²"):
        for plain in (False, True):
            how = EncodingOptions() if not plain else EncodingOptions(one_hot=False, impute=False, standardise=False)
            try:
                table = read_new(folder / name, RequestedColumns(label), CsvFormat())
                (encoding, points), labels = how.encoded(table), labels_of(table)
            except ProblemError as refusal:
                if name not in str(refusal):
                    raise Defect(f"a refusal that does not name the file: {refusal}") from refusal
                continue
            finite = np.isfinite(points if isinstance(points, np.ndarray) else points.data).all()
            if not finite or points.shape != (len(labels), len(encoding.features)) or labels.dtype.kind not in "iufU":
                raise Defect("a table that is none")


def _run_points(folder: Path, content: bytes) -> None:
    _run_table(folder, content, "data.svm")


_WORDS = ["--data", "--label", "--classes", "--digits", "--problems", "--solvers", "--C", "--nu", "--kernel", "--gamma"]
_WORDS += ["--report", "--csv", "--no-report", "--overwrite", "--seed", "--tol", "--shots", "--devices", "--degree"]
_WORDS += ["data.csv", "other.csv", ".", "pipe", "link", "loop", "/dev/zero", "/dev/full", "nowhere/x", "", "-", "--"]
_WORDS += ["kind", "a", "1", "0", "-1", "nan", "inf", "1e400", "up,down", "smo", "hinge", "svdd", "rbf", "scale", "²"]
_WORDS += [
    "--class-weight",
    "--positive",
    "--scoring",
    "--search",
    "--proba",
    "--all",
    "--cv",
    "balanced",
    "up=2,down=1",
]
_WORDS += ["f1", "roc_auc", "recall"]
_WORDS += [
    "compare",
    "train",
    "predict",
    "check",
    "model",
    "--out",
    "--kind",
    "--drop",
    "--text",
    "--delimiter",
    "--no-impute",
    "--no-header",
    "--format",
    "svmlight",
    "parquet",
    "--decision",
    "--json",
    "jobs",
    "show",
    "fetch",
    "resume",
    "cancel",
    "--resend",
    "--device",
    "solvers",
    "devices",
    "circuits",
    "list",
    "--help",
    "--version",
    "null",
    "9" * 5000,
]
_WORDS += ["\x1b[2J", "\ud800"]


@cache
def _trained() -> bytes:
    """A model with the table it was trained on."""
    folder = Path(mkdtemp(prefix="dualflow-fuzz-"))
    (folder / "data.csv").write_bytes(_tables()[0])
    done = CliRunner().invoke(cli.app, ["train", str(folder / "data.csv"), "--out", str(folder / "model")])
    assert done.exit_code == 0, done.output
    content = (folder / "model").read_bytes()
    shutil.rmtree(folder)
    return content


def _run_trained(folder: Path, content: bytes) -> None:
    (folder / "model").write_bytes(content)
    (folder / "data.csv").write_bytes(_tables()[0])
    for words in (["predict", "model", "data.csv", "--decision"], ["check", "model", "data.csv"]):
        _check_result(CliRunner().invoke(cli.app, [words[0], *(str(folder / word) for word in words[1:3]), *words[3:]]))


def _command_lines() -> list[bytes]:
    lines = [
        "compare --data data.csv --solvers smo --problems hinge --no-report --csv rows.csv",
        "compare --data data.csv --label kind --classes up,down --solvers smo --problems svdd --report out.html",
        "compare --solvers smo --problems hinge --csv data.csv --no-report",
        "train data.csv --out model --cv 2 --json",
        "train data.csv --kind svdd --drop kind --nu 0.5 --decimal .",
        "predict model data.csv --decision --out rows.csv",
        "predict model data.csv --json",
        "check model data.csv",
        "jobs list other.csv",
        "jobs fetch other.csv",
        "solvers",
        "devices",
    ]
    return [line.replace(" ", "\n").encode() for line in lines]


def _words_changed(rng: Random, data: bytes) -> bytes:
    words = data.split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 3))):
        k, word = rng.randrange(len(words) + 1), rng.choice(_WORDS).encode("utf-8", "surrogatepass")
        if rng.random() < 0.5:
            words[k : k + 1] = [word]
        elif rng.random() < 0.6:
            words.insert(k, word)
        else:
            del words[k : k + 1]
    return b"\n".join(words)


def _run_command(folder: Path, content: bytes) -> None:
    words = [word.decode("utf-8", "surrogateescape").replace("\0", "") for word in content.split(b"\n")][:30]
    (folder / "data.csv").write_bytes(_tables()[0])
    (folder / "other.csv").write_bytes(b"mine\n")
    (folder / "model").write_bytes(_trained())
    (folder / "link").symlink_to("other.csv")
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "pipe")
    # Nothing slow or outside: few points, one solver, and no folder but this.
    outside = any(".." in word or (word.startswith("/") and not word.startswith("/dev/")) for word in words)
    if outside or "export" in words:
        return
    if "compare" in words:
        words += ["--max-n", "8", "--time-limit", "1", "--solvers", "smo", "--problems", "hinge"]
    elif "train" in words:
        words += ["--time-limit", "1"]
    before, here = (folder / "other.csv").read_bytes(), Path.cwd()
    os.chdir(folder)
    try:
        result = CliRunner().invoke(cli.app, words)
    finally:
        os.chdir(here)
    _check_result(result)
    if "--overwrite" not in words and (folder / "other.csv").read_bytes() != before:
        raise Defect("a file of the user's was overwritten")
    if (folder / "data.csv").read_bytes() != _tables()[0] and "--overwrite" not in words:
        raise Defect("the data were overwritten")


def _check_result(result: object) -> None:
    """Exit code 0, 1 for what is not certified, or 2 and a sentence; nothing that commands a terminal."""
    error = result.exception  # type: ignore[attr-defined]
    if error is not None and not isinstance(error, SystemExit):
        raise Defect(f"a traceback: {error!r}") from error
    if result.exit_code not in (0, 1, 2):  # type: ignore[attr-defined]
        raise Defect(f"exit code {result.exit_code}")  # type: ignore[attr-defined]
    if "Error: " in result.stderr and any(c in result.stderr for c in "\x1b\x07\x9b"):  # type: ignore[attr-defined]
        raise Defect("control characters reach the terminal")
    if any(c in result.stdout for c in "\x1b\x07\x9b"):  # type: ignore[attr-defined]
        raise Defect("control characters reach the terminal")


# --- LIBSVM's model files --------------------------------------------------------------------------


def _libsvm_models() -> list[bytes]:
    folder, contents = Path(mkdtemp(prefix="dualflow-fuzz-")), []
    three, K = np.arange(16) % 3, X @ X.T
    for model in (dualflow.SVC().fit(X, three), dualflow.SVR(kernel="poly").fit(X, X[:, 0]), dualflow.SVDD().fit(X)):
        to_libsvm(model, folder / "model")
        contents.append((folder / "model").read_bytes())
    to_libsvm(dualflow.SVC(kernel="precomputed").fit(K, Y), folder / "model")
    contents.append((folder / "model").read_bytes())
    shutil.rmtree(folder)
    return contents


def _run_libsvm(folder: Path, content: bytes) -> None:
    (folder / "model").write_bytes(content)
    model = from_libsvm(folder / "model")
    if model.n_features_in_ <= 1000 and model.predict(np.ones((2, model.n_features_in_))).shape != (2,):
        raise Defect("a prediction of another shape")
    to_libsvm(model, folder / "again")
    again = from_libsvm(folder / "again")
    if not np.array_equal(again.dual_coef_, model.dual_coef_):
        raise Defect("what was read is written otherwise")


# --- data in svmlight's format ---------------------------------------------------------------------


def _svmlight_data() -> list[bytes]:
    folder = Path(mkdtemp(prefix="dualflow-fuzz-"))
    to_svmlight(X, Y, folder / "data")
    written = (folder / "data").read_bytes()
    shutil.rmtree(folder)
    return [written, b"# a comment\n+1 qid:3 1:0.5 7:-2e3 # another\n\n-1\n0.25 2:1\n"]


def _run_svmlight(folder: Path, content: bytes) -> None:
    (folder / "data").write_bytes(content)
    points, labels = from_svmlight(folder / "data")
    if points.shape[0] != len(labels) or not (np.isfinite(points.data).all() and np.isfinite(labels).all()):
        raise Defect("data of another shape, or no numbers")
    to_svmlight(points, labels, folder / "again")
    again, _ = from_svmlight(folder / "again", points.shape[1])
    if not np.allclose(again.data, points.data[points.data != 0], rtol=1e-15, atol=0.0):
        raise Defect("what was read is written otherwise")


TARGETS = {
    target.name: target
    for target in (
        Target("model", _models, mutations.model_changed, _run_model),
        Target("checkpoint", _checkpoints, mutations.checkpoint_changed, _run_checkpoint),
        Target("journal", _journals, mutations.database_changed, _run_journal),
        Target("libsvm", _libsvm_models, mutations.flipped, _run_libsvm),
        Target("svmlight", _svmlight_data, mutations.flipped, _run_svmlight),
        Target("csv", _tables, mutations.flipped, _run_table),
        Target("points", _points, mutations.flipped, _run_points),
        Target("parquet", _parquet, mutations.flipped, _run_table),
        Target("trained", lambda: [_trained()], mutations.trained_changed, _run_trained),
        Target("cli", _command_lines, _words_changed, _run_command),
    )
}
