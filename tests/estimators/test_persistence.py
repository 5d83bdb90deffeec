"""Saved models: equal to the bit, now and after further calls; byte-identical files; hostile files refused."""

import errno
import hashlib
import io
import json
import math
import os
import pickle
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections import deque
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_iris, make_blobs, make_classification
from sklearn.exceptions import NotFittedError

import dualflow
from dualflow import (
    LDA,
    LSSVC,
    LSSVR,
    SMO,
    SVC,
    SVDD,
    SVR,
    EcoSVC,
    EcoSVDD,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    ProblemError,
    QuantileSVR,
    Solver,
)
from dualflow.core.certificate import Certificate
from dualflow.core.gram import KernelMatrix
from dualflow.core.solution import Cost, Solution
from dualflow.estimators._base import Support
from dualflow.estimators._persistence import CLASSES, FORMAT, decode, encode
from dualflow.online.growing_problem import Stream
from dualflow.persistence import container
from tests.combinations import often

X, Y = make_classification(60, 5, n_informative=4, n_redundant=1, random_state=3)
BLOBS, BLOB_LABELS = make_blobs(60, centers=4, n_features=3, cluster_std=4.0, random_state=1)
Z = np.random.default_rng(0).normal(size=(50, 5))
K = (1 + X @ X.T) ** 2
#: Text-like points: few words each, of many; held without their zeros.
TEXT = scipy.sparse.random(60, 6000, density=0.01, format="csr", random_state=5)
TOPICS = np.arange(60) % 3


def fits(*data, **more):
    """Return the steps of a batch estimator: a fit, and another one (warm-started on request)."""
    return [lambda model: model.fit(*data, **more)] * 2


def streams(X, y=None):
    """Return the steps of a stream: three batches, the second a single point."""
    classes = {} if y is None else {"classes": np.unique(y)}
    return [
        lambda model, part=part: model.partial_fit(X[part], *([] if y is None else [y[part]]), **classes)
        for part in (slice(0, 30), slice(30, 31), slice(31, 60))
    ]


def streams_of_numbers():
    """The same for regression."""
    target = np.sin(X[:, 0]) + 0.1 * X[:, 1]
    return [
        lambda model, part=part: model.partial_fit(X[part], target[part])
        for part in (slice(0, 30), slice(30, 31), slice(31, 60))
    ]


#: Models of every class that can be saved, each with the steps of its life: functions that train it further (a
#: stream's: ``lambda model: model.partial_fit(...)``). Each is saved and loaded after every step.
LIVES = {
    "NuSVC": [
        (NuSVC(random_state=1, warm_start=True), fits(X, Y)),
        (NuSVC(nu=0.9, kernel="linear", random_state=1, class_weight="balanced"), fits(BLOBS, BLOB_LABELS)),
        (NuSVC(nu=0.4, kernel="precomputed", random_state=1), fits(K, Y, np.arange(60) % 3)),
        (NuSVC(random_state=1), fits(scipy.sparse.coo_array(X), Y)),
    ],
    "QuantileSVR": [
        (QuantileSVR(random_state=1, warm_start=True), fits(X, X[:, 0])),
        (QuantileSVR([0.2, 0.6], C=10.0, kernel="linear", random_state=1), fits(X, X[:, 0] ** 2, np.arange(60) % 3)),
    ],
    "NuSVR": [
        (NuSVR(random_state=1, warm_start=True), fits(X, X[:, 0])),
        (NuSVR(nu=0.3, C=10.0, kernel="linear", random_state=1), fits(X, X[:, 0] ** 2, np.arange(60) % 3)),
    ],
    "SVC": [
        (SVC(random_state=1, warm_start=True), fits(X, Y)),
        (SVC(C=10, solver="smo", random_state=1, warm_start=True, max_steps=400), fits(BLOBS, BLOB_LABELS)),
        (SVC(C=np.inf, kernel="poly", coef0=1.0, random_state=1), fits(X, Y)),
        (SVC(loss="squared_hinge", random_state=1, kernel="linear"), fits(X, Y, np.arange(60) % 3)),
        (SVC(loss="squared_hinge", random_state=1), fits(BLOBS, BLOB_LABELS, np.arange(60) % 3)),
        (SVC(kernel="precomputed", random_state=1), fits(K, Y)),
        (SVC(kernel="precomputed", random_state=1), fits(BLOBS @ BLOBS.T, BLOB_LABELS, np.arange(60) % 3)),
        (SVC(fit_intercept=False, refine=False, solver="gradient-flow", random_state=1), fits(X, Y)),
        (SVC(random_state=1, predict_dtype="float32", class_weight={0: 1.0, 1: 2.5}), fits(X, Y)),
        (
            SVC(
                loss="squared_hinge",
                solver="variational-flow",
                random_state=1,
                solver_options={"device": "classical-sampler", "shots": 1000, "steps": 5},
            ),
            fits(X[:8], Y[:8]),
        ),
        (SVC(random_state=1, warm_start=True), fits(scipy.sparse.coo_array(X), Y)),
        (SVC(C=10.0, random_state=1), fits(TEXT, TOPICS, np.arange(60) % 7)),
        (SVC(C=10.0, random_state=1, kernel="linear"), fits(TEXT, TOPICS == 1)),
    ],
    "SVDD": [
        (SVDD(random_state=1), fits(scipy.sparse.csc_matrix(X))),
        (SVDD(random_state=1), fits(TEXT)),
        (SVDD(random_state=1, warm_start=True), fits(X)),
        (SVDD(nu=None, kernel="linear", random_state=1, solver=SMO()), fits(X, None, np.arange(60) % 3)),
        (SVDD(kernel="precomputed", random_state=1), fits(K)),
        (SVDD(kernel="precomputed", random_state=1), fits(np.exp(-((X[:, None] - X) ** 2).sum(-1)))),
    ],
    "OneClassSVM": [
        (OneClassSVM(random_state=1, warm_start=True), fits(X)),
        (OneClassSVM(nu=0.1, kernel="linear", random_state=1), fits(TEXT, None, np.arange(60) % 3)),
        (OneClassSVM(kernel="precomputed", random_state=1), fits(K)),
        (OneClassSVM(nu=1.0, kernel="poly", coef0=1.0, random_state=1, solver=SMO()), fits(X)),
        (OneClassSVM(nu=0.3, random_state=1, max_iter=60, refine=False), fits(X[:30])),
    ],
    "SVR": [
        (SVR(C=30.0, random_state=1), fits(TEXT, np.sin(np.arange(60)), np.arange(60) % 3)),
        (SVR(random_state=1, warm_start=True), fits(X, np.sin(X[:, 0]))),
        (SVR(C=30.0, epsilon=0.0, kernel="linear", random_state=1), fits(X, X[:, 1] ** 2, np.arange(60) % 3)),
        (SVR(kernel="precomputed", random_state=1), fits(K, X[:, 1] ** 2)),
        (SVR(refine=False, solver="gradient-flow", random_state=1), fits(X, np.sin(X[:, 0]))),
    ],
    "LSSVC": [
        (LSSVC(random_state=1, warm_start=True), fits(X, Y)),
        (LSSVC(C=3.0, kernel="linear", random_state=1), fits(BLOBS, BLOB_LABELS, np.arange(60) % 3)),
        (LSSVC(fit_intercept="penalised", random_state=1, class_weight={0: 1.0, 1: 2.5}), fits(TEXT, TOPICS == 1)),
        (LSSVC(kernel="precomputed", fit_intercept=False, random_state=1), fits(K, Y)),
        (LSSVC(refine=False, solver="cvxopt", random_state=1), fits(X, Y)),
    ],
    "LSSVR": [
        (LSSVR(C=30.0, random_state=1), fits(TEXT, np.sin(np.arange(60)), np.arange(60) % 3)),
        (LSSVR(kernel="linear", random_state=1, warm_start=True), fits(X, np.sin(X[:, 0]))),
        (LSSVR(fit_intercept=False, kernel="linear", random_state=1), fits(X, X[:, 1] ** 2, np.arange(60) % 3)),
        (LSSVR(kernel="precomputed", fit_intercept="penalised", random_state=1), fits(K, X[:, 1] ** 2)),
        (LSSVR(random_state=1), fits(X, np.full(60, 0.1))),
    ],
    "LDA": [
        (LDA(random_state=1, warm_start=True), fits(X[:, :4], Y)),
        (LDA(shrinkage="auto", random_state=1), fits(BLOBS, np.array(list("abcd"))[BLOB_LABELS])),
        (LDA(priors=[0.2, 0.8], solver="cvxopt", random_state=1), fits(X[:, [0, 1, 2, 3, 0]], Y)),
    ],
    "EcoSVC": [
        (EcoSVC(C=2.0, n_init=10, reserve=4), streams(X, Y)),
        (EcoSVC(n_init=10, reserve=0), streams(BLOBS, np.array(list("abcd"))[BLOB_LABELS])),
        (EcoSVC(C=5.0, kernel="linear", n_init=10, fit_intercept=False), streams(X, Y > 0)),
    ],
    "EcoSVDD": [(EcoSVDD(nu=0.2, n_init=10), streams(X)), (EcoSVDD(nu=None, n_init=10), streams(X))],
    "IncrementalSVC": [
        (IncrementalSVC(C=2.0), [*streams(X, Y), lambda model: model.forget([3, 40, 59])]),
        (IncrementalSVC(reserve=0.5), streams(BLOBS, np.array(list("abcd"))[BLOB_LABELS])),
        (IncrementalSVC(C=5.0, kernel="linear"), [*streams(X, Y > 0), lambda model: model.forget([0], purge=True)]),
    ],
    "IncrementalSVDD": [
        (IncrementalSVDD(nu=0.2), [*streams(X), lambda model: model.forget([3, 40])]),
        (IncrementalSVDD(nu=None), streams(X)),
    ],
    "IncrementalSVR": [(IncrementalSVR(C=2.0), [*(streams_of_numbers()), lambda model: model.forget([3, 40])])],
}
EVERY_LIFE = [pytest.param(*life, id=f"{name} {k}") for name, lives in LIVES.items() for k, life in enumerate(lives)]
#: The first and the last of each class; the others are alike but for kernels and losses.
SOME_LIVES = [
    pytest.param(*life, id=f"{name} {k}", marks=() if k in (0, len(lives) - 1) else pytest.mark.slow)
    for name, lives in LIVES.items()
    for k, life in enumerate(lives)
]


def reload(model, folder):
    model.save(folder / "model.dualflow")
    return dualflow.load(folder / "model.dualflow")


# --- equality to the bit ---------------------------------------------------------------------------

#: Attributes of a Gram that are caches or counters, and made again.
_KEPT_FOR_SPEED = {"_radial", "_rows", "_full", "entries_computed"}
#: Certificates, which are compared whether they are computed already or not.
_MADE, _SAID = {"certified", "raw_certified"}, ("certificate", "raw_certificate", "status", "raw_status")


def differences(first, second, where="model", clocks=True):
    """Where two models (or parts of them) differ, types and bits included; ``clocks`` tells whether times count."""
    if type(first) is not type(second):
        yield f"{where}: {type(first)} and {type(second)}"
    elif isinstance(first, np.ndarray) and first.dtype != object:
        same = first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
        if not same:
            yield f"{where}: {first.dtype}{first.shape} {first!r} and {second.dtype}{second.shape} {second!r}"
    elif isinstance(first, (list, tuple, deque, np.ndarray)):
        if len(first) != len(second):
            yield f"{where}: lengths {len(first)} and {len(second)}"
        else:
            for k, pair in enumerate(zip(first, second, strict=True)):
                yield from differences(*pair, f"{where}[{k}]", clocks)
    elif isinstance(first, np.random.RandomState):
        states = (state.get_state(legacy=False) for state in (first, second))
        yield from differences(*states, where, clocks)
    elif isinstance(first, Certificate):  # made again of what was loaded: a hard margin's is scaled again
        size = 1e-9 * (1 + abs(first.objective))
        for f in fields(first):
            if f.name not in ("alpha", "psd"):
                ours, theirs = ([np.nan] if v is None else v for v in (getattr(first, f.name), getattr(second, f.name)))
                if not np.allclose(ours, theirs, rtol=1e-9, atol=size, equal_nan=True):
                    yield f"{where}.{f.name}: {ours!r} and {theirs!r}"
    elif isinstance(first, Cost) and not clocks:
        if first.steps != second.steps:
            yield f"{where}: {first.steps} steps and {second.steps}"
    else:
        parts = _parts(first), _parts(second)
        if parts[0] is None:
            if first != second and not (first != first and second != second):
                yield f"{where}: {first!r} and {second!r}"
        elif set(parts[0]) != set(parts[1]):
            yield f"{where}: the attributes differ in {set(parts[0]) ^ set(parts[1])}"
        else:
            for name in parts[0]:
                yield from differences(parts[0][name], parts[1][name], f"{where}.{name}", clocks)


def _parts(value):
    if isinstance(value, dict):
        return value
    if isinstance(value, Stream):  # kernel columns and near variables are kept for speed only
        arrays, facts = value.pack()
        return arrays | facts
    if isinstance(value, KernelMatrix):
        return {name: value for name, value in vars(value).items() if name not in _KEPT_FOR_SPEED}
    if isinstance(value, EcoSVC):  # the cached state is made again with the same bits
        assert value.dual_coef_.shape[1] == len(value.support_)  # computed on access
        return {name: value for name, value in vars(value).items() if name != "_standing"}
    if isinstance(value, SVC):
        assert len(value.solutions_)  # computed on access
    if isinstance(value, Support):
        return {"gram": value.gram}  # computed on access
    if isinstance(value, Solution):
        parts = {f.name: getattr(value, f.name) for f in fields(value) if f.name not in _MADE}
        return parts | {name: getattr(value, name) for name in _SAID}
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    return vars(value) if hasattr(value, "__dict__") and not callable(value) else None


def same(first, second, clocks=True):
    assert list(differences(first, second, clocks=clocks)) == []


def test_the_comparison_sees_a_last_bit():
    first, second = SVC(random_state=1).fit(X, Y), SVC(random_state=1).fit(X, Y)
    same(first, second, clocks=False)
    alpha = second.solution_.alpha.copy()
    alpha[np.flatnonzero(alpha)[0]] *= 1 + 2.0**-52
    object.__setattr__(second.solution_, "alpha", alpha)
    assert [found.partition(":")[0] for found in differences(first, second, clocks=False)] == [
        "model.solutions_[0].alpha"
    ]


def test_every_class_that_can_be_saved_is_tested():
    elsewhere = {"ConformalSVC", "ConformalSVR", "CascadeSVC"}  # in tests/conformal and tests/cascade/test_exchange.py
    assert set(LIVES) | elsewhere == set(CLASSES)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("model", "steps"), SOME_LIVES)
def test_a_model_saved_and_loaded_in_the_middle_goes_on_to_the_same_bits(model, steps, tmp_path):
    whole, model = clone(model), clone(model)
    for step in steps:
        step(whole)
    for k, step in enumerate(steps):
        step(model)
        loaded = reload(model, tmp_path)
        same(model, loaded)
        loaded.save(tmp_path / "again.dualflow")
        assert (tmp_path / "again.dualflow").read_bytes() == (tmp_path / "model.dualflow").read_bytes()
        for later in steps[k + 1 :]:
            later(loaded)
        same(whole, loaded, clocks=False)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("model", "steps"), EVERY_LIFE)
def test_predictions_are_equal_to_the_bit(model, steps, tmp_path):
    model = clone(model)
    steps[0](model)
    loaded = reload(model, tmp_path)
    width = model.n_features_in_
    new = K if width == len(K) else TEXT[::-1] if width == TEXT.shape[1] else Z[:, :width]
    if getattr(model, "_training_kernel", None) is not None:
        new = model._training_kernel
    for name in ("predict", "decision_function", "score_samples"):
        if hasattr(model, name):
            np.testing.assert_array_equal(getattr(loaded, name)(new), getattr(model, name)(new), strict=True)


def test_solutions_work_as_before(tmp_path):
    for model in (SVC(loss="squared_hinge").fit(X, Y), SVDD().fit(X)):
        mine, loaded = model.solution_, reload(model, tmp_path).solution_
        np.testing.assert_array_equal(loaded.coefficients, mine.coefficients)
        np.testing.assert_array_equal(loaded.decision_values(Z), mine.decision_values(Z))
        assert dualflow.certify(loaded.problem, loaded.alpha).relative_gap <= 1e-12
        assert str(loaded) == str(mine)


def test_equal_models_are_equal_bytes_and_unequal_ones_are_not(tmp_path):
    model = SVC(random_state=1).fit(X, Y)
    for name in "ab":
        model.save(tmp_path / name)
    model.predict(Z)
    model.solution_.decision_values(Z)
    model.save(tmp_path / "c")  # being used does not change a model
    model.set_params(C=2.0).save(tmp_path / "d")
    a, b, c, d = ((tmp_path / name).read_bytes() for name in "abcd")
    assert a == b == c != d


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["cat", "a dog"]),
        np.array([b"cat", b"dog"]),
        np.array([False, True]),
        np.array([-1, 1], dtype=np.int8),
        np.array([1.0, 2.0], dtype=np.float32),
        np.array([2**63, 2**63 + 2048], dtype=np.uint64),
        np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"),
        np.array(["cat", "žluťoučký\n\0kůň\ud800"], dtype=object),
        pd.Series(["cat", "dog"], dtype="category"),
        pd.Series(["cat", "dog"], dtype="string"),
        pd.Series([1, 2], dtype="Int64"),
    ],
    ids=lambda labels: str(labels.dtype),
)
def test_labels_keep_their_type(labels, tmp_path):
    y = labels.take(Y)
    model = SVC().fit(X, y)
    loaded = reload(model, tmp_path)
    np.testing.assert_array_equal(loaded.classes_, model.classes_, strict=True)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X), strict=True)
    assert [type(label) for label in loaded.classes_] == [type(label) for label in model.classes_]


def test_feature_names_are_kept(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d", "größe"])
    loaded = reload(SVC().fit(frame, Y), tmp_path)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c", "d", "größe"]
    loaded.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["b", "a", "c", "d", "größe"]])


# --- parameters ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        -(2**80),
        0.1,
        -0.0,
        math.inf,
        -math.inf,
        math.nan,
        "text",
        "",
        b"\0\xff",
        [1, [2.0, None]],
        (1, (2, "x")),
        {},
        {"a": 1, "b": {"c": (1,)}},
        {"$float": "inf"},
        {0: 1.0, 1: 2.0},
        {np.int64(3): 1.0, "x": 2, (1, 2): None},
        np.float32(0.1),
        np.float64(0.1),
        np.int8(-3),
        np.bool_(True),
        np.str_("ü"),
        np.uint64(2**64 - 1),
        np.array([[1.5, np.nan], [-np.inf, 0.0]]),
        np.array([], dtype=np.int32),
        np.array(["a", "bc"]),
        np.array(["a", 1, None], dtype=object),
        np.array(2.5),
    ],
    ids=repr,
)
def test_plain_values_survive_json(value):
    text = json.dumps(encode(value, "value"), allow_nan=False)
    same(decode(json.loads(text)), value)
    assert text == json.dumps(encode(decode(json.loads(text)), "value"))


def test_solvers_are_made_again_from_the_catalogue(tmp_path):
    solver = dualflow.GradientFlow(growth=7.0)
    loaded = reload(SVC(solver=solver).fit(X, Y), tmp_path)
    assert loaded.solver == solver
    assert type(loaded.solver) is dualflow.GradientFlow


def test_a_generator_continues_where_it_was(tmp_path):
    model = SVC(random_state=np.random.RandomState(5)).fit(X, Y)
    loaded = reload(model, tmp_path)
    assert loaded.fit(X, Y).solution_.provenance["seed"] == model.fit(X, Y).solution_.provenance["seed"]


@pytest.mark.parametrize(
    "change", [{"pos": -(10**9)}, {"pos": 625}, {"pos": 1.0}, {"key": np.zeros(3, np.uint32)}], ids=str
)
def test_a_generator_whose_position_is_nowhere_is_refused(change):
    value = encode(np.random.RandomState(5), "random_state")
    same(decode(value), np.random.RandomState(5))
    value["$random_state"]["state"] |= encode(change, "")
    with pytest.raises(ValueError, match="its random_state is not the state of a generator"):
        decode(value)


@dataclass(frozen=True)
class Own(SMO):
    """A solver that is not in the catalogue, whatever name it has."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (SVC(kernel=lambda A, B: A @ B.T), r"^kernel: .*'<lambda>'.*precomputed"),
        (SVDD(kernel=lambda A, B: A @ B.T), r"^kernel: .*precomputed"),
        (SVC(callback=print), r"^callback: .*'print'.*set_params\(callback=None\)"),
        (SVC(solver=Own()), r"^solver: the solver Own is not in dualflow's catalogue.*solver_options"),
        (SVC(random_state=np.random.RandomState(np.random.PCG64(1))), r"^random_state: .*give an integer"),
    ],
    ids=["kernel", "ball", "callback", "solver", "generator"],
)
def test_what_needs_pickle_is_refused_by_name(model, message, tmp_path, capsys):
    (tmp_path / "model").write_text("old")
    with pytest.raises(ProblemError, match=message):
        model.fit(X, Y).save(tmp_path / "model")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert (tmp_path / "model").read_text() == "old"


def test_a_callable_kernel_is_refused_when_the_parameter_hides_it(tmp_path):
    model = SVC(kernel=lambda A, B: A @ B.T).fit(X, Y).set_params(kernel="linear")
    with pytest.raises(ProblemError, match=r"^kernel: .*cannot be stored without pickle"):
        model.save(tmp_path / "model")


def test_a_subclass_and_an_unfitted_model_are_refused(tmp_path):
    class Mine(SVC):
        pass

    class Borrowed(SVC):
        pass

    Borrowed.__name__ = "SVC"
    for kind in (Mine, Borrowed):
        with pytest.raises(ProblemError, match="is not one of the classes that can be saved: SVC, SVDD"):
            kind().fit(X, Y).save(tmp_path / "model")
    with pytest.raises(NotFittedError):
        SVC().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


# --- writing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["os.replace", "os.fsync", "zipfile._ZipWriteFile.write"])
def test_a_full_disk_keeps_the_old_file_and_leaves_no_temporary_file(tmp_path, monkeypatch, where):
    file, model = tmp_path / "model", SVC().fit(X, Y)
    model.save(file)
    before = file.read_bytes()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(where, full)
        with pytest.raises(OSError, match="No space left"):
            model.set_params(C=2.0).save(file)
    assert file.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert dualflow.load(file).C == 1.0
    model.save(file)
    assert dualflow.load(file).C == 2.0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="limits on the size of files are POSIX's")
def test_a_disk_that_is_really_full(tmp_path):
    code = f"""
import resource, dualflow
from dualflow import SVC
model = SVC().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
model.save({str(tmp_path / "model")!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    model.set_params(C=2.0).save({str(tmp_path / "model")!r})
except OSError as error:
    print(error)
print(dualflow.load({str(tmp_path / "model")!r}).C)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert re.fullmatch(r".*File too large\n1\.0\n", done.stdout)
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_the_mode_of_a_file_follows_the_umask(tmp_path):
    (tmp_path / "plain").touch()
    SVC().fit(X, Y).save(tmp_path / "folder" / "model")
    assert (tmp_path / "folder" / "model").stat().st_mode == (tmp_path / "plain").stat().st_mode


# --- hostile files ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small():
    """A small model, and its file."""
    model = SVC(kernel="linear", random_state=1).fit([[0.0], [1.0], [2.5], [3.0]], ["a", "a", "b", "c"])
    stream = _saved(model)
    return model, stream


def _saved(model):
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        return (Path(folder) / "model").read_bytes()


@pytest.fixture
def no_sync(monkeypatch):
    """Skip fsync: thousands of files are written here."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def refused(path, content, match=None):
    path.write_bytes(content)
    with pytest.raises(ProblemError, match=match) as caught:
        dualflow.load(path)
    assert str(path) in str(caught.value)


def seal(content):
    """Return content that ends with its digest, as an attacker who knows the format would make it."""
    return content[:-64] + hashlib.sha256(content[:-64]).hexdigest().encode()


def taken_apart(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def put_together(members, **how):
    """A sealed archive of such members, its header made to fit them."""
    header = json.loads(members["header.json"])
    header["members"] = {
        name: {"sha256": hashlib.sha256(data).hexdigest()} for name, data in members.items() if name != "header.json"
    }
    members = members | {"header.json": json.dumps(header).encode()}
    return archived(members, **how)


def archived(members, compression=zipfile.ZIP_STORED):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = container.MARK + b"0" * 64
    return seal(stream.getvalue())


def rewritten(path, content, change):
    """The file with its header and arrays changed, and every checksum right."""
    path.write_bytes(content)
    header, arrays = container.read(path, 1 << 30)
    header, arrays = change(header, arrays) or (header, arrays)
    container.write(path, header, arrays)
    return path.read_bytes()


def test_such_changes_alone_are_harmless(small, tmp_path):
    model, content = small
    assert seal(content) == content
    assert rewritten(tmp_path / "m", content, lambda header, arrays: None) == content
    (tmp_path / "m").write_bytes(put_together(taken_apart(content)))
    same(dualflow.load(tmp_path / "m"), model)


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_flipped_byte_anywhere_is_refused(small, tmp_path, stride):
    _, content = small
    rng, path = np.random.default_rng(0), tmp_path / "m"
    path.write_bytes(content)
    with open(path, "r+b", buffering=0) as file:
        for position in range(0, len(content), stride):
            damaged = content[position] ^ (1 << int(rng.integers(8)))
            file.seek(position)
            file.write(bytes([damaged]))
            with pytest.raises(ProblemError, match=r"damaged|not a dualflow file"):
                dualflow.load(path)
            file.seek(position)
            file.write(content[position : position + 1])
    dualflow.load(path)


def test_flipped_bytes_under_a_new_seal_are_refused_or_make_a_sound_model(small, tmp_path):
    """The digest at the end is right, so the other checks must refuse."""
    _, content = small
    rng, path, outcomes = np.random.default_rng(0), tmp_path / "m", {"refused": 0, "sound": 0}
    for position in range(0, len(content) - 64, 23):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(seal(bytes(damaged)))
        try:
            model = dualflow.load(path)
        except ProblemError:
            outcomes["refused"] += 1
        else:
            outcomes["sound"] += 1
            assert model.n_features_in_ == 1
            assert np.isfinite(model._pair_coef).all()
    assert outcomes["refused"] > outcomes["sound"] > 0


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.7, 0.99, 0.9999])
def test_truncated_files_are_refused(small, tmp_path, share):
    what = "empty" if share == 0 else "the beginning of a longer file"
    refused(tmp_path / "m", small[1][: int(share * len(small[1]))], what)


def test_members_whose_checksum_the_header_does_not_give_are_refused(small, tmp_path):
    members = taken_apart(small[1])
    other = npy(2 * small[0].dual_coef_)
    refused(tmp_path / "m", archived(members | {"dual_coef_.npy": other}), "SHA-256 of dual_coef_.npy")
    refused(tmp_path / "m", archived(members | {"more.npy": other}), "members its header lists")
    del members["dual_coef_.npy"]
    refused(tmp_path / "m", archived(members), "members its header lists")


def test_files_with_something_before_or_behind_are_refused(small, tmp_path):
    for content in (small[1] + b"\0", b"\0" + small[1], small[1] + small[1]):
        refused(tmp_path / "m", content)
    refused(tmp_path / "m", seal(b"PK" + b"\0" * 100 + small[1]))


class Bomb:
    """Executes code when unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return (Path.touch, (self.target,))


def npy(array, **how):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asarray(array), **how)
    return stream.getvalue()


def test_pickles_are_refused_and_nothing_is_executed(small, tmp_path):
    target, path = tmp_path / "executed", tmp_path / "m"
    bomb = pickle.dumps(Bomb(target))
    objects = npy(np.array([Bomb(target)], dtype=object), version=(1, 0), allow_pickle=True)
    archive = io.BytesIO()
    np.savez(archive, classes_=np.array([Bomb(target)], dtype=object))
    refused(path, bomb, "a pickle.*never read")
    refused(path, archive.getvalue(), "zip archive .*of something else")
    members = taken_apart(small[1])
    for data in (objects, bomb):
        refused(path, put_together(members | {"support_.npy": data}), "support_.npy|magic")
    assert not target.exists()
    pickle.loads(bomb)  # the bomb does work
    assert target.exists()


def test_foreign_files_are_refused(tmp_path):
    for content in (b"x,y\n1,2\n", npy(np.arange(3.0)), b"{}", b"\x1f\x8b\x08\0" + b"x" * 100):
        refused(tmp_path / "m", content, "not a dualflow file but something that begins with '")
    with pytest.raises(ProblemError, match="is not a file"):
        dualflow.load(tmp_path)
    with pytest.raises(FileNotFoundError):
        dualflow.load(tmp_path / "none")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ProblemError, match="is not a file"):
            dualflow.load(tmp_path / "pipe")


def test_large_files_are_refused_before_they_are_read(small, tmp_path):
    (tmp_path / "m").write_bytes(small[1])
    with pytest.raises(ProblemError, match=rf"has {len(small[1])} bytes, max_bytes=1000 are allowed"):
        dualflow.load(tmp_path / "m", max_bytes=1000)
    dualflow.load(tmp_path / "m", max_bytes=len(small[1]))


@pytest.mark.parametrize("name", ["../evil.npy", "/evil.npy", "a/evil.npy", "evil.py", "evil.qpy", "C:\\e.npy"])
def test_members_of_other_names_are_refused(small, tmp_path, name):
    refused(tmp_path / "m", put_together(taken_apart(small[1]) | {name: npy(np.arange(3))}), "does not belong there")
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_bombs_are_refused(small, tmp_path):
    path, members = tmp_path / "m", taken_apart(small[1])
    zeros = npy(np.zeros(1 << 22))
    compressed = put_together(members | {"gram.X.npy": zeros}, compression=zipfile.ZIP_DEFLATED)
    assert len(compressed) < len(zeros) / 100
    refused(path, compressed, "compressed")
    # Two entries of the directory that share their bytes.
    content = bytearray(put_together(members))
    entries = [found.start() for found in re.finditer(rb"PK\x01\x02", bytes(content))]
    content[entries[2] + 42 : entries[2] + 46] = content[entries[1] + 42 : entries[1] + 46]
    refused(path, seal(bytes(content)), "overlaps")
    # A size that is not there.
    content = bytearray(put_together(members))
    for offset in (20, 24):
        struct.pack_into("<I", content, entries[-1] + offset, 1 << 31)
    refused(path, seal(bytes(content)), "longer than it is")
    # An array of a terabyte in 200 bytes, one of nothing but dimensions, one whose header is code.
    magic, plain = b"\x93NUMPY\x01\x00", "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}"
    for text in (plain.format("<f8", "(137438953472,)"), plain.format("<U0", "(99999999999,)"), "__import__('os')"):
        line = text.ljust(117) + "\n"
        data = magic + struct.pack("<H", len(line)) + line.encode() + b"\0" * 64
        refused(path, put_together(members | {"support_.npy": data}))


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b"{}", b"nonsense", b"\xff", b"[" * 200_000, b'{"format": NaN}', b"1" * 5000],
    ids=["empty", "list", "dict", "text", "bytes", "deep", "nan", "long"],
)
def test_invalid_headers_are_refused(small, tmp_path, text):
    refused(tmp_path / "m", archived(taken_apart(small[1]) | {"header.json": text}))


def test_a_later_format_says_what_to_install(small, tmp_path):
    def newer(header, arrays):
        header |= {"format": FORMAT + 1, "dualflow": "9.1"}

    content = rewritten(tmp_path / "m", small[1], newer)
    refused(tmp_path / "m", content, r"format 3, written by dualflow 9\.1.*pip install 'dualflow>=9\.1'")

    def command(header, arrays):
        header |= {"format": FORMAT + 1, "dualflow": "9.1'; rm -rf ~ '"}

    refused(tmp_path / "m", rewritten(tmp_path / "m", small[1], command), "its version is")


def test_an_earlier_format_names_its_version(small, tmp_path):
    def older(header, arrays):
        header |= {"format": 1, "dualflow": "0.1"}

    content = rewritten(tmp_path / "m", small[1], older)
    refused(
        tmp_path / "m",
        content,
        r"format 1, written by dualflow 0\.1, which stores certificates that cannot be verified",
    )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"format": "1"}, "its format is '1'"),
        ({"format": 0}, "its format is 0"),
        ({"class": "os:system"}, "class 'os:system' is not one of SVC"),
        ({"class": "KernelMachine"}, "is not one of SVC"),
        ({"class": ["SVC"]}, "no sound model"),
        ({"class": "SVDD"}, "no sound model"),
        ({"parameters": {"no_such": 1}}, "has no parameters"),
        ({"parameters": {"solver": {"$solver": ["os", {}]}}}, "not in the catalogue"),
        ({"parameters": {"solver": {"$solver": ["smo", {"no_such": 1}]}}}, "has no option 'no_such'"),
        ({"parameters": {"C": {"$eval": "1"}}}, "unknown tag"),
        ({"parameters": {"C": {"$scalar": ["O", 1]}}}, "no sound model"),
        ({"parameters": {"C": {"$array": ["<f8", [3], [1]]}}}, "no sound model"),
        ({"parameters": {"C": {"$array": ["u1", [1], [300]]}}}, "no sound model"),
        ({"parameters": 3}, "no sound model"),
        ({"features": {"n": 2, "names": None}}, "features"),
        ({"features": {"n": True, "names": None}}, "features"),
        ({"features": {"n": 1, "names": {"$array": ["O", [2], ["a", "b"]]}}}, "are not 1 names"),
        ({"objects": {"support_": {"$array": ["<f8", [1], [0.5]]}}}, "support_"),
        ({"objects": {"more": {"$array": ["<f8", [1], [0.5]]}}}, "its contents are not those"),
        ({"facts": {}}, "no sound model"),
        ({"facts": None}, "no sound model"),
    ],
    ids=str,
)
def test_contradictory_headers_are_refused(small, tmp_path, change, match):
    content = rewritten(tmp_path / "m", small[1], lambda header, arrays: header.update(change))
    refused(tmp_path / "m", content, match)


def _leaves(value, path=()):
    if isinstance(value, dict):
        for key in value:
            yield from _leaves(value[key], (*path, key))
    elif isinstance(value, list) and value:
        for k, item in enumerate(value):
            yield from _leaves(item, (*path, k))
    else:
        yield path


@pytest.mark.parametrize(
    "nonsense", ["nonsense", {"$float": "nan"}, *often([None, -7, [], {"$array": ["<f8", [2], [1.0, 2.0]]}])]
)
def test_facts_of_other_kinds_are_refused_or_make_a_sound_model(small, tmp_path, nonsense, no_sync):
    _, content = small
    path = tmp_path / "m"
    path.write_bytes(content)
    header, arrays = container.read(path, 1 << 30)
    outcomes = []
    for leaf in list(_leaves(header["facts"])):
        if leaf[0] == "solves" and leaf[1] > 0:
            continue  # the three are alike
        changed = json.loads(json.dumps(header))
        inside = changed["facts"]
        for key in leaf[:-1]:
            inside = inside[key]
        inside[leaf[-1]] = nonsense
        container.write(path, changed, arrays)
        try:
            model = dualflow.load(path)
        except ProblemError:
            outcomes.append(True)
        else:
            outcomes.append(False)
            assert np.isfinite(model.decision_function([[0.5]])).all()
    assert sum(outcomes) > len(outcomes) / 4


@pytest.mark.parametrize(
    ("model", "steps"), [LIVES["SVC"][0], *often(LIVES["SVC"][k] for k in (4, 6)), LIVES["SVDD"][1], LIVES["SVDD"][3]]
)
def test_arrays_that_do_not_go_together_are_refused(model, steps, tmp_path, no_sync):
    """Each array missing, one entry longer or shorter, of another dtype, with NaN, or an index out of range."""
    model, path = clone(model), tmp_path / "m"
    steps[0](model)
    content = _saved(model)
    path.write_bytes(content)
    header, arrays = container.read(path, 1 << 30)
    assert arrays
    passed = []
    for name, array in arrays.items():
        changes = {
            "missing": None,
            "longer": np.concatenate([array, array[:1]]),
            "shorter": array[:-1],
            "deeper": array[None],
        }
        if name != "classes_":
            changes["text"] = array.astype("U8")
        if array.dtype.kind == "f":
            changes["nan"] = np.where(np.arange(array.size).reshape(array.shape) == array.size - 1, np.nan, array)
            changes["single"] = array.astype(np.float32)
        if array.dtype.kind == "i" and not name.startswith("classes"):
            changes["below"] = np.where(np.arange(len(array)) == 0, -1, array)
        if name == "support_" or (name == "solve.rows" and model.kernel == "precomputed"):
            changes["above"] = np.where(np.arange(len(array)) == len(array) - 1, 10**9, array)
        for how, changed in changes.items():
            if changed is not None and np.array_equal(changed, array) and changed.dtype == array.dtype:
                continue
            others = {key: value for key, value in arrays.items() if key != name}
            container.write(path, header, others if changed is None else others | {name: changed})
            try:
                dualflow.load(path)
            except ProblemError:
                pass
            else:
                passed.append((name, how))
    container.write(path, header, arrays | {"more": np.zeros(3)})
    refused(path, path.read_bytes(), "its contents are not those")
    assert passed == []


def test_a_solve_that_leaves_points_of_its_classes_out_is_refused(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = SVC(gamma=1.0).fit(X, y)
    gram, rows, solutions = dualflow.Gram(X, gamma=1.0), list(model._rows), list(model.solutions_)
    model._rows, model.solutions_ = rows, solutions
    model.save(tmp_path / "m")
    dualflow.load(tmp_path / "m")
    rows[0] = rows[0][1:]
    problem = dualflow.problems.svc(gram.subset(rows[0]), np.where(y[rows[0]] == 0, 1, -1), C=1.0)
    solutions[0] = dualflow.solve(problem)
    model.save(tmp_path / "m")
    with pytest.raises(ProblemError, match="leaves points of them out"):
        dualflow.load(tmp_path / "m")


def test_dtypes_that_need_pickle_are_not_written(tmp_path):
    for array in (np.array([1j]), np.array([object()]), np.zeros(1, np.longdouble), np.zeros(1, "f4,i4")):
        with pytest.raises(ProblemError, match="cannot be stored without pickle"):
            container.write(tmp_path / "m", {}, {"a": array})
    with pytest.raises(ProblemError, match="cannot be the name"):
        container.write(tmp_path / "m", {}, {"../a": np.zeros(1)})
    assert list(tmp_path.iterdir()) == []


def test_the_format_is_a_zip_of_readable_arrays(small):
    model, content = small
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        assert names == sorted(names)
        assert {info.date_time for info in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert archive.testzip() is None
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["dual_coef_"], model.dual_coef_)
        np.testing.assert_array_equal(arrays["classes_"], model.classes_)


def test_loading_uses_no_pickle():
    for name in (
        "persistence/container",
        "persistence/files",
        "estimators/_persistence",
        "estimators/_packing",
    ):
        source = (Path(dualflow.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
        assert not re.search(r"import pickle|allow_pickle=True|joblib\.load|eval\(|exec\(", source)
    assert issubclass(Own, Solver)


@pytest.mark.parametrize(
    ("make", "targets"),
    [
        (lambda: IncrementalSVC(C=3.0), Y),
        (lambda: IncrementalSVC(C=3.0, gamma="scale"), np.array(list("ab"))[Y]),
        (lambda: IncrementalSVR(C=3.0), np.sin(X[:, 0])),
        (lambda: IncrementalSVDD(nu=0.3), None),
    ],
)
def test_what_was_forgotten_and_purged_leaves_no_trace_in_the_file(make, targets, tmp_path):
    """Learn A and r, forget r; learn A and r′ (elsewhere, of the other class), forget r′: one and the same file."""
    strangers = (X[:3] + 0.5, X[5:8] * 2.0)
    contents = []
    for k, points in enumerate(strangers):
        values = () if targets is None else (targets[[0, 1, 2]] if k == 0 else targets[[7, 8, 9]],)
        given = () if targets is None else (targets,)
        model = make().partial_fit(X[:20], *(() if targets is None else (targets[:20],)))
        model.partial_fit(points, *values).partial_fit(X[20:], *(value[20:] for value in given))
        model.forget([20, 21, 22], purge=True).save(tmp_path / "model")
        contents.append((tmp_path / "model").read_bytes())
        for row in points:
            assert row.tobytes() not in contents[-1]
    assert contents[0] == contents[1]
    assert dualflow.load(tmp_path / "model").certificate_.relative_gap <= 1e-9
