"""Read-only arrays: arguments, and all arrays of a fitted model from a memory map."""

import copy
import pickle
import warnings

import joblib
import numpy as np
import pytest

import dualflow
from dualflow import (
    LDA,
    LSSVC,
    LSSVR,
    SVC,
    SVDD,
    SVR,
    CascadeSVC,
    CascadeSVDD,
    CascadeSVR,
    EcoSVC,
    EcoSVDD,
    IncrementalSVC,
    IncrementalSVDD,
    IncrementalSVR,
    NuSVC,
    NuSVR,
    OneClassSVM,
    PartitionedLinearSVC,
    PartitionedLinearSVDD,
    PartitionedLinearSVR,
    QuantileSVR,
)
from tests.combinations import covering

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(70, 3)), RNG.uniform(0.5, 2.0, 70)
Y = (X[:, 0] + 0.4 * RNG.normal(size=70) > 0).astype(int)
MORE, LABELS = RNG.normal(size=(10, 3)), np.arange(10) % 2
for array in (X, Y, W, MORE, LABELS):
    array.flags.writeable = False

CASCADES = (CascadeSVC, CascadeSVDD, CascadeSVR)
KINDS = [SVC, SVR, SVDD, OneClassSVM, LSSVC, LSSVR, LDA, *CASCADES, EcoSVC, EcoSVDD, IncrementalSVC]
PARTITIONED = (PartitionedLinearSVC, PartitionedLinearSVDD, PartitionedLinearSVR)
KINDS += [IncrementalSVDD, IncrementalSVR, NuSVC, NuSVR, QuantileSVR, *PARTITIONED]
WEIGHTED = (SVC, SVR, SVDD, OneClassSVM, LSSVC, LSSVR, *CASCADES, EcoSVC, *PARTITIONED)


def values(model):
    return (model.decision_function if hasattr(model, "decision_function") else model.predict)(MORE)


def learned(model):
    return values(model.partial_fit(MORE, LABELS))


def refitted(model):
    return values(model.fit(X, Y))


def saved(model, path):
    model.save(path / "saved")
    return values(dualflow.load(path / "saved"))


def purged(model):
    if isinstance(model, EcoSVC):
        raise AttributeError("an EcoSVC drops the points that it forgets, and has no purge")
    return values(model.forget([3, 5], purge=True))


#: Each action gets a separate model, because some change it.
DEEDS = {
    "values": lambda model, path: values(model),
    "learn": lambda model, path: learned(model),
    "forget": lambda model, path: values(model.forget(model.support_[:3])),
    "purge": lambda model, path: purged(model),
    "forget all": lambda model, path: model.forget(model.ids_).ids_,
    "save": saved,
    "fit": lambda model, path: refitted(model),
    "certificate": lambda model, path: [model.certificate_.objective, model.certificate_.relative_gap],
    "p_values": lambda model, path: model.keep_training_data().p_values(MORE),
    "leave_one_out": lambda model, path: model.leave_one_out().margins,
    "path": lambda model, path: model.path().coefficients[-1],
    "suggest": lambda model, path: model.suggest(MORE, 2),
}


def mapped(model, path):
    joblib.dump(model, path / "model.joblib")
    return joblib.load(path / "model.joblib", mmap_mode="r")


def buffered(model, path):
    """Return a model as a worker gets it by pickle protocol 5: its arrays are views of read-only bytes."""
    buffers = []
    data = pickle.dumps(model, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])


@pytest.mark.parametrize(("kind", "way"), covering(list(KINDS), [mapped, buffered], together=1))
def test_a_model_of_read_only_arrays_has_every_method(kind, way, tmp_path):
    weights = {"sample_weight": W} if kind in WEIGHTED else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kind(random_state=0) if kind in (*CASCADES, *PARTITIONED) else kind()
        model, done = model.fit(X, Y, **weights), 0
        for name, deed in DEEDS.items():
            try:
                expected = deed(copy.deepcopy(model), tmp_path)
            except (AttributeError, dualflow.ProblemError):
                continue
            if name in ("save", "p_values"):  # which ask for the training data
                getattr(model, "keep_training_data", lambda: None)()
            np.testing.assert_array_equal(deed(way(model, tmp_path), tmp_path), expected, err_msg=name)
            done += 1
    assert done >= 3


@pytest.mark.parametrize("through", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy])
@pytest.mark.parametrize("kind", [IncrementalSVC, IncrementalSVDD, IncrementalSVR])
def test_a_copied_stream_forgets_as_the_stream_does(kind, through):
    """After a pickle, its vectors once were copies, and forgotten points stayed partly in the model."""
    model = kind().fit(X, Y)
    other = through(model)
    gone = model.support_[:4]
    np.testing.assert_array_equal(values(other.forget(gone)), values(model.forget(gone)))
    assert other.certificate_.relative_gap <= 1e-6
