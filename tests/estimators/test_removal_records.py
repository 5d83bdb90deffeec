"""Certificates of removal: what they say, what their verification refuses, and their files."""

import copy
import hashlib
import json

import numpy as np
import pytest

from dualflow import SVC, EcoSVC, IncrementalSVC, IncrementalSVDD, IncrementalSVR, ProblemError, verify_removal
from dualflow.estimators import _removal

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.arange(60) % 3
NAMES = [f"customer {k}" for k in range(60)]
MODELS = {
    "pairs": lambda: IncrementalSVC(C=3.0).partial_fit(X, Y, ids=NAMES),
    "numbers": lambda: IncrementalSVC(C=3.0, kernel="linear").partial_fit(X, Y > 0),
    "tube": lambda: IncrementalSVR(C=10.0).partial_fit(X, X[:, 0] ** 2),
    "ball": lambda: IncrementalSVDD().partial_fit(X),
    "stream": lambda: EcoSVC(C=3.0).partial_fit(X, Y, classes=[0, 1, 2]),
}


def removed(name, **more):
    model = MODELS[name]()
    ids = ["customer 4", "customer 40"] if name == "pairs" else [4, 40]
    return model.forget(ids, record=True, **more), ids


@pytest.mark.parametrize("name", MODELS)
def test_what_a_record_says(name, tmp_path):
    before = MODELS[name]()
    model, ids = removed(name)
    record = model.certificate_of_removal()
    (tmp_path / "record.json").write_text(json.dumps(record))
    assert record["removed"] == {"count": 2, "ids": ids}
    assert record["before"]["model"] == _removal.model_digest(before)
    assert record["before"]["points"] - record["after"]["points"] == 2
    assert record["after"]["relative_gap"] <= 1e-6
    assert record["refit"]["distance"] <= 1e-6 * record["refit"]["largest_value"]
    assert len(verify_removal(tmp_path / "record.json", model, before)) == 5
    assert len(verify_removal(record)) == 1
    assert str(float(X[4, 0])) not in json.dumps(record)
    model.partial_fit(X[:2], *(() if name == "ball" else (Y[:2],)), **({"ids": ["a", "b"]} if name == "pairs" else {}))
    with pytest.raises(ProblemError, match="before the model changes again"):
        model.certificate_of_removal()
    with pytest.raises(ProblemError, match="after: the model is not the one in the record"):
        verify_removal(record, model)


def test_the_distance_is_that_to_a_refit():
    model, _ = removed("numbers")
    rest = np.setdiff1d(np.arange(60), [4, 40])
    values = SVC(C=3.0, kernel="linear", tol=1e-9).fit(X[rest], Y[rest] > 0).decision_function(X[rest])
    expected = np.abs(values - model.decision_function(X[rest])).max()
    assert abs(model.certificate_of_removal()["refit"]["distance"] - expected) <= 1e-9


def leaves(value, path=()):
    if isinstance(value, (dict, list)) and value:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return [leaf for key, item in items for leaf in leaves(item, (*path, key))]
    return [path]


def test_a_change_of_any_field_is_detected():
    model, _ = removed("pairs")
    record = model.certificate_of_removal()
    for path in leaves(record):
        changed = copy.deepcopy(record)
        *way, last = path
        part = changed
        for key in way:
            part = part[key]
        part[last] = "other" if isinstance(part[last], str) else not part[last] if part[last] in (True, False) else 7.5
        with pytest.raises(ProblemError):
            verify_removal(changed)
    for changed in (record | {"note": 1}, {k: v for k, v in record.items() if k != "time"}, [], "no file"):
        with pytest.raises((ProblemError, OSError)):
            verify_removal(changed)


def signed(record, **changes):
    record = {k: v for k, v in (record | changes).items() if k != "sha256"}
    return record | {"sha256": _removal.hashlib.sha256(_removal._canonical(record)).hexdigest()}


def test_another_model_and_a_false_claim_are_refused():
    model, _ = removed("pairs")
    record = model.certificate_of_removal()
    with pytest.raises(ProblemError, match="class: the record is of an IncrementalSVC"):
        verify_removal(record, removed("stream")[0])
    with pytest.raises(ProblemError, match="before: the model is not the one"):
        verify_removal(record, before=model)
    # Records that somebody has changed and digested again: the models show what is false in them.
    false = signed(record, removed={"count": 1, "ids": ["customer 5"]})
    verify_removal(false)
    with pytest.raises(ProblemError, match="the model still has the points"):
        verify_removal(false, model)
    never = MODELS["pairs"]()
    with pytest.raises(ProblemError, match="the model still has the points"):
        verify_removal(signed(record, after=_removal.state_of(never)), never)


def test_a_forget_without_a_record_and_ids_that_json_cannot_hold():
    model = MODELS["pairs"]().forget("customer 3", record=True)
    assert model.certificate_of_removal()["removed"]["ids"] == ["customer 3"]
    with pytest.raises(ProblemError, match="record=True"):
        model.forget("customer 5").certificate_of_removal()
    ids = [frozenset([k]) for k in range(60)]
    odd = IncrementalSVC().partial_fit(X, Y > 0, ids=ids)
    with pytest.raises(ProblemError, match="cannot be stored without pickle"):
        odd.forget(ids[:1], record=True)
    assert len(odd.ids_) == 60


def test_all_points_removed():
    model = MODELS["numbers"]().forget(np.arange(60), record=True)
    record = model.certificate_of_removal()
    assert record["refit"]["distance"] is None
    assert record["after"]["points"] == 0
    verify_removal(record)


@pytest.mark.parametrize("name", ["numbers", "tube", "ball"])
@pytest.mark.parametrize("left", [0, 1])
def test_records_of_models_with_no_point_or_one_are_verified(name, left):
    model = MODELS[name]().forget(np.arange(60 - left), record=True)
    record = model.certificate_of_removal()
    assert record["after"]["points"] == left
    assert f"among its {left} points" in verify_removal(record, after=model)[2]


@pytest.mark.parametrize("part", ["removed", "before", "after", "refit"])
@pytest.mark.parametrize("value", [None, {}, {"count": 2, "ids": "4"}])
def test_parts_that_are_none_are_refused_whatever_the_digest(part, value):
    record = removed("numbers")[0].certificate_of_removal() | {part: value}
    del record["sha256"]
    record["sha256"] = hashlib.sha256(_removal._canonical(record)).hexdigest()
    with pytest.raises(ProblemError, match=f"^{part}: "):
        verify_removal(record)


def test_from_the_command_line(tmp_path):
    from typer.testing import CliRunner

    from dualflow.cli import app

    model, _ = removed("pairs")
    model.save(tmp_path / "model.dualflow")
    record = model.certificate_of_removal()
    (tmp_path / "record.json").write_text(json.dumps(record))
    (tmp_path / "changed.json").write_text(json.dumps(record | {"purged": True}))
    call = ["check", str(tmp_path / "model.dualflow"), "--removal"]
    good = CliRunner().invoke(app, [*call, str(tmp_path / "record.json")])
    assert good.exit_code == 0, good.output
    assert "none of the 2 removed ids" in good.output
    bad = CliRunner().invoke(app, [*call, str(tmp_path / "changed.json")])
    assert bad.exit_code != 0
    assert "a field of the record was changed" in bad.output
