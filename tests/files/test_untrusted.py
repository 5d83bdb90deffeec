"""Untrusted model files and checkpoints: bounds on memory, and no execution of code."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import pickle
import sys
import tracemalloc
import zipfile
from dataclasses import fields

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import dualflow
from dualflow import SVC, Gram, ProblemError, VariationalFlow, problems, solve
from dualflow.catalogue import SOLVER_CLASSES
from dualflow.driver import checkpoint
from dualflow.estimators import _persistence
from dualflow.estimators._persistence import EXTERNAL_OPTIONS, mark_unconfirmed
from dualflow.persistence import container
from dualflow.persistence.npy import array_of
from dualflow.persistence.unconfirmed import Unconfirmed
from dualflow.quantum.runs.journal import Journal
from dualflow.solvers import registry
from tests.fuzz.mutations import archive_of, members_of, sealed

X, Y = np.random.default_rng(0).normal(size=(8, 2)), np.arange(8) % 2
#: Bytes that refusing a small file may allocate: its parts, and the message.
LITTLE = 20 << 20


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model"
    SVC(random_state=0).fit(X, Y).save(path)
    return path


def forged(path, change, text=None):
    """The file with its header changed, as JSON or as text, and sealed again."""
    members = members_of(path.read_bytes())
    header = json.loads(members["header.json"])
    change(header)
    members["header.json"] = json.dumps(header).encode() if text is None else text(json.dumps(header)).encode()
    path.write_bytes(sealed(archive_of(members, container.MARK + b"0" * 64)))


def refused_for_little(read, match):
    tracemalloc.start()
    try:
        with pytest.raises(ProblemError, match=match):
            read()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < LITTLE


# --- budgets ---------------------------------------------------------------------------------------

WIDE = "<U200000000"


@pytest.mark.parametrize(
    "value",
    [
        {"$array": [WIDE, [1], ["a"]]},
        {"$array": [WIDE, [0], []]},
        {"$scalar": [WIDE, "a"]},
        {"$array": ["|S800000000", [1], [{"$bytes": "00"}]]},
        [{"$array": ["<U9000000", [1], ["a"]]}, {"$array": ["<U9000000", [1], ["a"]]}],
    ],
)
@pytest.mark.parametrize("part", ["parameters", "objects", "facts"])
def test_a_wide_text_allocates_nothing(saved, value, part):
    forged(saved, lambda header: header[part].__setitem__("callback", value))
    refused_for_little(lambda: dualflow.load(saved), "more bytes of text than are allowed")


@pytest.mark.parametrize("shape", [[1 << 40, 0], [0, 1 << 60], [-1, 0], [True], [2], ["1"], [1.0]])
def test_a_wrong_shape_allocates_nothing(saved, shape):
    value = {"$array": ["<f8", shape, [] if 0 in shape else [1.0]]}
    forged(saved, lambda header: header["parameters"].__setitem__("callback", value))
    refused_for_little(lambda: dualflow.load(saved), "an array of shape")


def test_expensive_values_are_counted_over_the_whole_file(saved):
    array = {"$array": ["<f8", [0], []]}
    many = {f"x{k}": [array] * (_persistence.MAX_TAGS // 4) for k in range(5)}
    forged(saved, lambda header: header["objects"].update(many))
    with pytest.raises(ProblemError, match="more tagged values than are allowed"):
        dualflow.load(saved)


def test_keys_that_collide_are_not_made(saved):
    pairs = [[k * (2**61 - 1), 0] for k in range(_persistence.MAX_PAIRS + 1)]  # all have the hash 0
    forged(saved, lambda header: header["parameters"].__setitem__("class_weight", {"$map": pairs}))
    with pytest.raises(ProblemError, match="more keys that are not text than are allowed"):
        dualflow.load(saved)


@pytest.mark.parametrize(
    "text", ["[" + "[]," * 3_000_000 + "[]]", "[" + "0," * 5_000_000 + "0]", '"' + "x" * (65 << 20) + '"']
)
def test_a_header_that_would_take_long_is_not_parsed(saved, text, monkeypatch):
    forged(saved, lambda header: None, lambda plain: f'{{"x": {text}, {plain[1:]}')
    with monkeypatch.context() as patch:
        patch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was parsed"))
        with pytest.raises(ProblemError, match=r"its header\.json has "):
            dualflow.load(saved)


def test_headers_too_large_to_read_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "MAX_HEADER_VALUES", 50)
    with pytest.raises(ProblemError, match=r"cannot be written: its header\.json has more than"):
        SVC(random_state=0).fit(X, Y).save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def npy(descr, shape, data=b"", by_columns=False):
    line = f"{{'descr': {descr!r}, 'fortran_order': {by_columns}, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + data


BAD_ARRAYS = [
    npy("<f8", (1 << 40,)),
    npy("<f8", (1 << 62, 4)),
    npy("<f8", (0, 1 << 60)),
    npy("<f8", (-1,), b"\0" * 8),
    npy("<f8", (2,), b"\0" * 24),
    npy("<f8", (2,), b"\0" * 8),
    npy(WIDE, (0,)),
    npy(WIDE, (1,)),
    npy("|O", (1,), b"\0" * 8),
    npy("|V8", (1,), b"\0" * 8),
    npy("<f16", (1,), b"\0" * 16),
    npy([("a", "<f8")], (1,), b"\0" * 8),
    npy(("<f8", (1 << 30,)), (1,)),
    b"\x93NUMPY\x02\x00" + b"\0" * 100,
    b"",
]


@pytest.mark.parametrize("data", BAD_ARRAYS)
def test_an_empty_array_allocates_nothing(saved, tmp_path, data):
    with pytest.raises(Exception):  # noqa: B017 - numpy raises what it likes; the files' readers name themselves
        array_of("x", data, "biufU")
    members = members_of(saved.read_bytes())
    header = json.loads(members["header.json"])
    name = next(iter(header["members"]))
    members[name] = data
    header["members"][name] = {"sha256": hashlib.sha256(data).hexdigest()}
    members["header.json"] = json.dumps(header).encode()
    saved.write_bytes(sealed(archive_of(members, container.MARK + b"0" * 64)))
    refused_for_little(lambda: dualflow.load(saved), "model")
    run, problem = tmp_path / "run", problems.svc(Gram(X), 2 * Y - 1)
    solve(problem, "smo", checkpoint=run, max_steps=2, random_state=0)
    members = members_of(run.read_bytes())
    for member in [min(set(members) - {"header.npy"}), "header.npy"]:
        run.write_bytes(archive_of(members | {member: data}))
        refused_for_little(lambda: solve(problem, "smo", checkpoint=run, random_state=0), "checkpoint")


def test_arrays_are_read_as_numpy_reads_them():
    for array in (
        np.arange(6.0).reshape(2, 3),
        np.asfortranarray(np.arange(6).reshape(2, 3)),
        np.zeros((0, 3)),
        np.array(1.5),
    ):
        stream = io.BytesIO()
        np.lib.format.write_array(stream, array, version=(1, 0))
        read = array_of("x", stream.getvalue(), "if", column_major=True)
        assert read.dtype == array.dtype
        assert read.flags.f_contiguous == array.flags.f_contiguous
        assert np.array_equal(read, array)


def test_a_checkpoint_whose_header_would_take_long_is_not_parsed(tmp_path, monkeypatch):
    run, problem = tmp_path / "run", problems.svc(Gram(X), 2 * Y - 1)
    solve(problem, "smo", checkpoint=run, max_steps=2, random_state=0)
    monkeypatch.setattr(checkpoint, "HEADER_BYTES", 100)
    with pytest.raises(ProblemError, match="its header has"):
        solve(problem, "smo", checkpoint=run, random_state=0)


def test_a_compressed_checkpoint_is_not_unpacked(tmp_path):
    run, problem = tmp_path / "run", problems.svc(Gram(X), 2 * Y - 1)
    with zipfile.ZipFile(run, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.npy", npy("|u1", (1 << 27,), bytes(1 << 27)))
    refused_for_little(lambda: solve(problem, "smo", checkpoint=run), "unpacks to more than its size")


# --- names of code and files -----------------------------------------------------------------------

CANARY = "tests.fuzz.canary"
DEVICE = f"backend:{CANARY}:make"


def quantum(**options):
    """Return a fitted model with parameters from an untrusted source."""
    model = SVC(loss="squared_hinge", solver="variational-flow", random_state=0, max_steps=2, refine=True)
    model.set_params(solver_options={"device": "null", "shots": 50}).fit(X, Y)
    return model.set_params(solver_options={"shots": 50} | options)


@pytest.fixture
def no_canary():
    sys.modules.pop(CANARY, None)
    yield lambda: CANARY not in sys.modules
    sys.modules.pop(CANARY, None)


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def as_it_is(model):
    return model


def copied(model):
    return copy.deepcopy(model)


def pickled(model):
    return pickle.loads(pickle.dumps(model))


def searched(model):
    return GridSearchCV(model, {"C": [1.0]}, cv=2, error_score="raise")


def saved_again(model):
    model.save("again")
    return dualflow.load("again")


def options_again(model):
    """Return the options of a model copied to another."""
    return SVC(loss="squared_hinge").set_params(**model.get_params())


@pytest.mark.parametrize("way", [as_it_is, clone, copied, pickled, searched, saved_again, options_again])
def test_a_device_that_a_file_names_is_not_imported(tmp_path, monkeypatch, no_canary, way):
    monkeypatch.chdir(tmp_path)
    quantum(device=DEVICE).save("model")
    model = dualflow.load("model")
    assert model.get_params()["solver_options"] == {"device": DEVICE, "shots": 50}
    model.predict(X)
    with pytest.raises(ProblemError, match=r"(?s)device='backend:tests.*read from a model file.*trusted=True"):
        way(model).fit(X, Y)
    assert no_canary()


def test_a_device_of_an_instance_is_not_imported(tmp_path, no_canary):
    model = quantum(device="null")
    model.set_params(solver=VariationalFlow(device=DEVICE, shots=50), solver_options=None).save(tmp_path / "model")
    with pytest.raises(ProblemError, match="read from a model file"):
        dualflow.load(tmp_path / "model").fit(X, Y)
    assert no_canary()


@pytest.mark.parametrize("confirm", ["set_params", "trusted"])
def test_a_device_that_was_confirmed_is(tmp_path, no_canary, confirm):
    quantum(device=DEVICE).save(tmp_path / "model")
    model = dualflow.load(tmp_path / "model", trusted=confirm == "trusted")
    if confirm == "set_params":
        model.set_params(solver_options={"device": DEVICE, "shots": 50})
    with pytest.raises(dualflow.DeviceError):  # what the canary makes is no backend
        model.fit(X, Y)
    assert not no_canary()


def test_a_journal_that_a_file_names_is_not_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    quantum(device="null", journal="jobs.db").save("model")
    model = dualflow.load("model")
    with pytest.raises(ProblemError, match=r"journal='jobs\.db' was read from a model file"):
        model.fit(X, Y)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    model.set_params(solver_options={"device": "null", "shots": 50, "journal": "jobs.db"}).fit(X, Y)
    assert (tmp_path / "jobs.db").exists()


def test_a_solver_that_is_not_ours_is_not_imported(tmp_path, no_canary, monkeypatch):
    model = SVC(random_state=0).fit(X, Y).set_params(solver="theirs")
    model.save(tmp_path / "model")
    known = registry.SOLVERS._all() | {"theirs": f"{CANARY}:make"}
    monkeypatch.setattr(type(registry.SOLVERS), "_all", lambda self: known)
    loaded = dualflow.load(tmp_path / "model")
    with pytest.raises(ProblemError, match="solver='theirs' was read from a model file"):
        loaded.fit(X, Y)
    assert no_canary()
    with pytest.raises(dualflow.SolverUnavailable):
        loaded.set_params(solver="theirs").fit(X, Y)
    assert not no_canary()


@pytest.mark.parametrize("device", ["null", "classical-sampler", "emulator"])
def test_devices_of_dualflow_need_no_confirmation(tmp_path, device):
    quantum(device=device).save(tmp_path / "model")
    loaded = dualflow.load(tmp_path / "model")
    assert type(loaded.solver_options["device"]) is str
    loaded.fit(X, Y)


@pytest.mark.parametrize("device", ["backend:<module>:<factory>", "pennylane:<device>", "pennylane:x", "nonsense"])
def test_other_devices_need_confirmation(device):
    assert type(mark_unconfirmed({"solver_options": {"device": device}})["solver_options"]["device"]) is Unconfirmed
    with pytest.raises(ProblemError):
        dualflow.quantum.devices.make_device(Unconfirmed(device))


def test_a_journal_needs_confirmation(tmp_path):
    with pytest.raises(ProblemError, match="read from a model file"):
        Journal(Unconfirmed(tmp_path / "journal"))
    assert list(tmp_path.iterdir()) == []


def test_every_option_that_names_code_or_files_is_marked():
    for name in SOLVER_CLASSES:
        for field in fields(registry.solver_class(name)):
            if any(word in str(field.type) for word in ("Path", "Device", "Callable", "Any")):
                # An ansatz without a name is not written; one from a file is one of two names.
                assert field.name in (*EXTERNAL_OPTIONS, "inner_options", "ansatz"), (name, field.name)


@pytest.mark.parametrize("name", EXTERNAL_OPTIONS)
def test_options_of_an_inner_solver_name_no_code_or_files(name):
    with pytest.raises(ProblemError, match=f"inner_options: '{name}' is an option of 'quantum-invasion' itself"):
        registry.make_solver("quantum-invasion", {"inner_options": {name: "backend:os:abort"}})


def test_a_circuit_in_a_file_is_read_in_the_format_that_is_written_alone(tmp_path):
    model = SVC(loss="squared_hinge", solver="variational-flow", random_state=0, max_steps=2)
    model.set_params(solver_options={"device": "emulator"}).fit(X, Y).save(tmp_path / "model")
    solution = dualflow.load(tmp_path / "model").solution_
    name = "final_circuit_qpy"
    assert dualflow.final_circuit(solution).num_qubits == 3
    content = bytearray(solution.extras[name].tobytes())
    assert content[:7] == b"QISKIT\x0d"
    for change in (b"QISKIT\x0b", b"QISKIT\x0a", b"\x80\x04.", b""):
        solution.extras[name] = np.frombuffer(change + bytes(content[7:]), dtype=np.uint8)
        with pytest.raises(ProblemError, match="is not QPY of version 13"):
            dualflow.final_circuit(solution)
    for end in (20, len(content) // 2):
        solution.extras[name] = np.frombuffer(bytes(content[:end]), dtype=np.uint8)
        with pytest.raises(ProblemError, match="the final circuit is damaged"):
            dualflow.final_circuit(solution)
