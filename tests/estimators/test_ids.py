"""Ids of points that are no whole numbers: text, tuples, and other hashable values."""

import pickle
import uuid

import numpy as np
import pandas as pd
import pytest

from dualflow import IncrementalSVC, IncrementalSVDD, IncrementalSVR, ProblemError, load

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = (X[:, 0] + 0.3 * RNG.normal(size=60) > 0).astype(int)
TEXT = [f"C-{k:04d}" for k in RNG.permutation(60)]


def learned(ids, y=Y, **more):
    return IncrementalSVC(C=5.0, gamma=0.7, **more).partial_fit(X, y, classes=np.unique(y), ids=ids)


@pytest.mark.parametrize(
    "kind",
    [
        list,
        np.array,
        pd.Series,
        lambda ids: np.array(ids, dtype=object),
        lambda ids: [name.encode() for name in ids],
        lambda ids: [(name, 7) for name in ids],
        lambda ids: [uuid.uuid5(uuid.NAMESPACE_DNS, name) for name in ids],
        lambda ids: [k if k % 2 else ids[k] for k in range(60)],
    ],
    ids=["list", "array", "series", "objects", "bytes", "tuples", "uuids", "mixed"],
)
@pytest.mark.parametrize("purge", [False, True])
def test_names_stand_for_numbers(kind, purge):
    names, numbers = kind(TEXT), learned(None)
    model = learned(names)
    listed = names.tolist() if hasattr(names, "tolist") else names
    assert model.ids_.tolist() == listed
    assert model.support_.tolist() == [listed[k] for k in numbers.support_]
    model.forget([listed[3], listed[40]], purge=purge)
    numbers.forget([3, 40], purge=purge)
    np.testing.assert_array_equal(model.decision_function(X), numbers.decision_function(X))
    assert model.ids_.tolist() == [listed[k] for k in numbers.ids_]
    assert model.leave_one_out().ids.tolist() == model.ids_.tolist()
    assert model.path().ids.tolist() == model.ids_.tolist()
    with pytest.raises(ProblemError, match="are not remembered"):
        model.forget([listed[3]])
    model.partial_fit(X[[3]], Y[[3]], ids=listed[3:4])  # a forgotten name may come again
    assert model.ids_.tolist()[-1] == listed[3]


def test_a_single_name_and_several_classes_and_other_models():
    three = learned(TEXT, y=np.arange(60) % 3)
    assert TEXT[7] not in three.forget(TEXT[7]).ids_.tolist()
    assert set(three.support_) <= set(TEXT)
    ball = IncrementalSVDD().partial_fit(X, ids=TEXT).forget(TEXT[:2])
    line = IncrementalSVR().partial_fit(X, X[:, 0], ids=TEXT).forget(TEXT[:2])
    for model in (ball, line):
        assert model.ids_.tolist() == TEXT[2:]


@pytest.mark.parametrize("purge", [False, True])
def test_the_names_of_forgotten_points_are_gone(purge):
    model = learned(TEXT).forget(TEXT[:5], purge=purge)
    assert TEXT[0].encode() not in pickle.dumps(model)
    assert TEXT[5].encode() in pickle.dumps(model)
    near = learned(TEXT, reserve=0.1)
    dropped = set(TEXT) - set(near.ids_)
    assert dropped
    assert next(iter(dropped)).encode() not in pickle.dumps(near)


def test_files_hold_the_names(tmp_path):
    for names in (TEXT, [(name, 1) for name in TEXT]):
        model = learned(names).forget(names[:3])
        model.save(tmp_path / "model")
        again = load(tmp_path / "model")
        assert again.ids_.tolist() == model.ids_.tolist()
        model.forget(names[9:10]), again.forget(names[9:10])
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        assert again.ids_.tolist() == model.ids_.tolist()
    assert pickle.loads(pickle.dumps(model)).ids_.tolist() == model.ids_.tolist()


def test_a_failed_call_changes_no_name():
    model = learned(TEXT)
    before = model.ids_.tolist()
    for call, words in (
        (lambda: model.partial_fit(X[:2], Y[:2], ids=["new", "new"]), "twice"),
        (lambda: model.partial_fit(X[:2], Y[:2], ids=["new", TEXT[0]]), "remembered already"),
        (lambda: model.partial_fit(X[:2], Y[:2], ids=["new"]), "1 entries for 2"),
        (lambda: model.partial_fit(X[:2], Y[:2]), "left out"),
        (lambda: model.partial_fit(X[:2], Y[:2], ids=["new", None]), "hashable"),
        (lambda: model.partial_fit(X[:2], Y[:2], ids=["new", 0.5]), "hashable"),
        (lambda: model.partial_fit(X[:2], Y[:2], ids=["new", ["b"]]), "hashable"),
        (lambda: model.partial_fit(X[:2, :1], Y[:2], ids=["b", "c"]), "features"),
        (lambda: model.forget([TEXT[0], "other"]), "other"),
        (lambda: model.forget([0]), "are not remembered"),
        (lambda: learned(None).partial_fit(X[:1], Y[:1], ids=["b"]), "have whole numbers"),
        (lambda: learned(None).forget(["b"]), "whole numbers"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
        assert model.ids_.tolist() == before
    assert model.fit(X, Y).ids_.tolist() == list(range(60))


@pytest.mark.parametrize("ids", [[2**70, 2**70 + 1], np.array([2**63, 2**63 + 1], dtype=np.uint64)])
def test_numbers_beyond_64_bits_are_refused(ids):
    with pytest.raises(ProblemError, match="too large"):
        IncrementalSVC().partial_fit([[0.0], [1.0]], [0, 1], ids=ids)


def test_a_date_of_numpy_is_found_again():
    days = np.arange(20).astype("datetime64[D]")
    model = IncrementalSVC().partial_fit(np.arange(20.0)[:, None], np.arange(20) // 10, ids=days)
    assert len(model.forget([days[3]]).ids_) == 19
