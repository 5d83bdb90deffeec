"""Models with a quantum kernel, written to a file and read again."""

import warnings

import numpy as np
import pytest

import dualflow
from dualflow import (
    SVC,
    SVDD,
    SVR,
    DeviceError,
    EcoSVC,
    FidelityKernel,
    IncrementalSVC,
    ProblemError,
    ProjectedKernel,
    Reuploading,
    train_kernel,
)
from dualflow.persistence import container
from dualflow.quantum.devices import make_device

RNG = np.random.default_rng(0)
X, Z = RNG.uniform(0, 1.5, (14, 2)), RNG.uniform(0, 1.5, (5, 2))
Y = (X[:, 0] > 0.7).astype(int)

EXACT = [
    lambda: FidelityKernel(),
    lambda: FidelityKernel("angle", diagonal="measured"),
    lambda: FidelityKernel(Reuploading(layers=3), n_qubits=3),
    lambda: FidelityKernel("reuploading", weights=np.linspace(0, 1, 16)),
    lambda: ProjectedKernel(gamma=2.0),
    lambda: FidelityKernel(device="pennylane:default.qubit"),
]
SAMPLED = [
    lambda: FidelityKernel(shots=200, random_state=3),
    lambda: ProjectedKernel(shots=100, random_state=4),
    lambda: FidelityKernel(device="null", shots=50),
    lambda: ProjectedKernel(device="aer", shots=50),
]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def values(model, at=Z):
    return (model.decision_function if hasattr(model, "decision_function") else model.predict)(at)


def again(model, path, **options):
    model.save(path / "model")
    return dualflow.load(path / "model", **options)


@pytest.mark.parametrize("kind", [SVC, SVR, SVDD, EcoSVC])
@pytest.mark.parametrize("number", range(len(EXACT) + len(SAMPLED)))
def test_a_loaded_model_predicts_and_learns_to_the_bit(kind, number, tmp_path):
    kernel = (EXACT + SAMPLED)[number]()
    if "pennylane" in repr(kernel):
        pytest.importorskip("pennylane")
    if "aer" in repr(kernel):
        pytest.importorskip("qiskit_aer")
    model = kind(kernel=kernel).fit(X, Y)
    other = again(model, tmp_path)
    np.testing.assert_array_equal(values(other, X), values(model, X))  # of points that are known
    np.testing.assert_array_equal(values(other), values(model))  # and of new ones, by the same seeds
    np.testing.assert_allclose(other.certificate_.objective, model.certificate_.objective, rtol=1e-12)
    assert repr(other.kernel) == repr(model.kernel)
    np.testing.assert_array_equal(values(other.fit(X[:10], Y[:10])), values(model.fit(X[:10], Y[:10])))


def test_streams_go_on_from_a_file(tmp_path):
    model = IncrementalSVC(kernel=FidelityKernel("angle")).fit(X[:9], Y[:9])
    other = again(model, tmp_path)
    np.testing.assert_array_equal(values(other.partial_fit(X[9:], Y[9:])), values(model.partial_fit(X[9:], Y[9:])))


def test_a_trained_kernel_is_saved_at_its_weights(tmp_path):
    found = train_kernel(ProjectedKernel(Reuploading(layers=1)), X, Y, steps=3, held_out=0)
    model = SVC(kernel=found.kernel).fit(X, Y)
    other = again(model, tmp_path)
    np.testing.assert_array_equal(other.kernel.weights, found.kernel.weights)
    np.testing.assert_array_equal(values(other), values(model))


def test_loading_runs_no_circuit(tmp_path, monkeypatch):
    pytest.importorskip("qiskit_aer")
    model = SVC(kernel=FidelityKernel(device="aer", shots=50)).fit(X, Y)
    wanted = values(model, X)
    model.save(tmp_path / "model")
    monkeypatch.setattr("dualflow.quantum.kernels.base.make_device", lambda name: 1 / 0)
    other = dualflow.load(tmp_path / "model")
    np.testing.assert_array_equal(values(other, X), wanted)
    with pytest.raises(ZeroDivisionError):
        values(other)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"device": lambda: make_device("null")}, r"kernel: the device 'null' was given as an object.*by its name"),
        ({"random_state": lambda: np.random.default_rng(0)}, "kernel: its random_state is a generator.*an integer"),
        ({"feature_map": lambda: _circuit()}, r"kernel: the feature map .* is a circuit or a function.*'precomputed'"),
    ],
)
def test_what_is_not_plain_is_refused_by_name(options, message, tmp_path):
    given = {name: make() for name, make in options.items()}
    model = SVC(kernel=FidelityKernel(**({"feature_map": "angle"} | given))).fit(X, Y)
    with pytest.raises(ProblemError, match=message):
        model.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def _circuit():
    library = pytest.importorskip("qiskit.circuit.library")
    return library.zz_feature_map(2)


def forged(path, change=lambda header: None, arrays=lambda arrays: None):
    """The file with other contents, sealed again."""
    header, held = container.read(path, 1 << 30)
    held = {name: np.array(array) for name, array in held.items()}
    header.pop("members", None)
    change(header)
    arrays(held)
    container.write(path, header, held)


def test_a_device_that_a_file_names_is_not_imported_until_it_is_confirmed(tmp_path):
    model = SVC(kernel=FidelityKernel("angle", device="null", shots=50)).fit(X, Y)
    wanted = values(model, X)
    model.save(tmp_path / "model")

    def change(header):
        header["parameters"]["kernel"]["$kernel"]["options"]["device"] = "backend:tests.nowhere:make"

    forged(tmp_path / "model", change)
    other = dualflow.load(tmp_path / "model")
    np.testing.assert_array_equal(values(other, X), wanted)  # all of which is in the file
    with pytest.raises(ProblemError, match=r"device='backend:tests.*read from a model file.*trusted=True"):
        values(other)
    with pytest.raises(ProblemError, match="read from a model file"):
        other.fit(Z, [0, 1, 0, 1, 0])
    with pytest.raises((DeviceError, ProblemError), match="nowhere") as caught:
        values(dualflow.load(tmp_path / "model", trusted=True))
    assert "read from a model file" not in str(caught.value)


def test_a_journal_that_a_file_names_is_not_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SVC(kernel=FidelityKernel("angle", device="null", shots=50, journal="jobs.db")).fit(X, Y).save("model")
    (tmp_path / "jobs.db").unlink()
    model = dualflow.load("model")
    with pytest.raises(ProblemError, match=r"journal='jobs\.db' was read from a model file"):
        values(model)
    assert not (tmp_path / "jobs.db").exists()
    values(dualflow.load("model", trusted=True))
    assert (tmp_path / "jobs.db").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda held: held.update({"kernel.codes": held["kernel.codes"][::-1]}),
        lambda held: held.update({"kernel.codes": held["kernel.codes"] + 99}),
        lambda held: held.update(
            {"kernel.codes": held["kernel.codes"][1:], "kernel.values": held["kernel.values"][1:]}
        ),
        lambda held: held.update({"kernel.values": held["kernel.values"] * np.nan}),
        lambda held: held.update({"kernel.values": 1.0 - held["kernel.values"]}),
        lambda held: held.update({"kernel.points": held["kernel.points"][:-1]}),
        lambda held: held.update({"kernel.points": np.zeros_like(held["kernel.points"])}),
        lambda held: held.pop("kernel.points"),
        lambda held: held.update({"kernel.more": np.zeros(3)}),
    ],
)
def test_measured_values_that_contradict_the_model_are_refused(change, tmp_path):
    SVC(kernel=FidelityKernel("angle", shots=80)).fit(X, Y).save(tmp_path / "model")
    forged(tmp_path / "model", arrays=change)
    with pytest.raises(ProblemError, match="holds no sound model"):
        dualflow.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("kind", "other"),
        ("state", None),
        ("options", {}),
    ],
)
def test_a_kernel_of_a_damaged_file_is_refused(part, value, tmp_path):
    SVC(kernel=FidelityKernel("angle", shots=80)).fit(X, Y).save(tmp_path / "model")
    forged(tmp_path / "model", lambda header: header["parameters"]["kernel"]["$kernel"].update({part: value}))
    with pytest.raises(ProblemError, match="holds no sound model"):
        dualflow.load(tmp_path / "model")


def test_a_changed_quantum_kernel_counts_at_the_next_fit(tmp_path):
    model = SVC(kernel=FidelityKernel("angle")).fit(X, Y)
    before = values(model)
    other = again(model.set_params(kernel=ProjectedKernel("zz", gamma=3.0)), tmp_path)
    np.testing.assert_array_equal(values(other), before)
    assert type(other.kernel) is ProjectedKernel
    np.testing.assert_array_equal(values(other.fit(X, Y)), values(model.fit(X, Y)))
