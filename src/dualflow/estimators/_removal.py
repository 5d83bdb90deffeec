"""Certificates of removal: a record of points that a model has forgotten, and its verification.

The record holds ids, digests and numbers, and no data. Its own SHA-256 shows that no field was changed since; it is not
a signature: a person who changes a field can compute the digest again. Sign the file with a key where that matters.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ..exceptions import ProblemError
from ._persistence import decode, encode
from .svc import SVC
from .svdd import SVDD
from .svr import SVR

#: What the record says that it is.
KIND = "dualflow certificate of removal"
#: Version of the record's fields.
RECORD_FORMAT = 1
#: The fields of a record.
FIELDS = (
    "after", "before", "class", "dualflow", "format", "kind", "meaning", "purged", "refit", "removed", "sha256", "time",
)  # fmt: skip
#: The fields of its parts.
PARTS = {
    "removed": {"count", "ids"},
    "before": {"model", "points", "problems", "relative_gap", "objectives"},
    "after": {"model", "points", "problems", "relative_gap", "objectives"},
    "refit": {"model", "problems", "distance", "largest_value", "relative_gap"},
}
#: What to do about a record that cannot be read.
WAY_OUT = "pass the result of certificate_of_removal() or a JSON file of it, unchanged"
#: What to do about a model that is not as the record says.
SAVED_THEN = "pass the model saved right after the removal"
#: What the record shows and what it does not.
MEANING = (
    "The digests name the model's state before and after. 'after' is certified over the points that it remembers, none "
    "of which has a removed id, and 'refit' compares it with a model that was trained on these points alone, with the "
    "same kernel width; unless 'purged', a width by gamma='scale' is still the one computed with the removed points. "
    "The record does not show that other copies of the data or of the model were deleted, nor who made it: sha256 is a "
    "digest, not a signature."
)
#: Relative gap to which the refit is solved.
REFIT_TOL = 1e-9
#: Two computations of the distance or of a gap, on two machines, may differ by this much.
DISTANCE_TOL = 1e-6
#: For each stream class: the batch model to refit, and the parameters they share.
REFITS = {
    "IncrementalSVC": (SVC, ("C",)),
    "IncrementalSVR": (SVR, ("C", "epsilon")),
    "IncrementalSVDD": (SVDD, ("nu",)),
    "EcoSVC": (SVC, ("C", "fit_intercept")),
}


def model_digest(model: Any) -> str:
    """Return the SHA-256 of a model's parameters and fitted state, as a file would hold them."""
    header, arrays = model._header()
    sha256 = hashlib.sha256(_canonical({name: value for name, value in header.items() if name != "dualflow"}))
    for name in sorted(arrays):
        array = np.asarray(arrays[name], dtype=arrays[name].dtype.newbyteorder("<"), order="C")
        sha256.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha256.update(array.tobytes())
    return sha256.hexdigest()


def state_of(model: Any) -> dict[str, Any]:
    """Return the part of a record about a model: its digest, its number of points and its worst certificate."""
    certificates = model.certificates_
    gaps = [certificate.relative_gap for certificate in certificates]
    return {
        "model": model_digest(model),
        "points": len(model._remembered_ids()),
        "problems": len(gaps),
        "relative_gap": None if None in gaps or not gaps else float(max(gaps)),
        "objectives": [float(certificate.objective) for certificate in certificates],
    }


def removal_record(model: Any, before: dict[str, Any], ids: list[Any], purged: bool) -> dict[str, Any]:
    """Return the record of a removal: ``before`` is `state_of` the model before it, ``ids`` were removed."""
    record = {
        "kind": KIND,
        "format": RECORD_FORMAT,
        "dualflow": importlib.metadata.version("dualflow"),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "class": type(model).__name__,
        "removed": {"count": len(ids), "ids": encode(ids, "ids")},
        "purged": bool(purged),
        "before": before,
        "after": state_of(model),
        "refit": _refit(model),
        "meaning": MEANING,
    }
    return record | {"sha256": hashlib.sha256(_canonical(record)).hexdigest()}


def _refit(model: Any) -> dict[str, Any]:
    """Return the largest distance between the model's values at its points and those of a batch fit of these points."""
    kind, shared = REFITS[type(model).__name__]
    params, distance, size, gap, compared = model._as_fitted, 0.0, 0.0, 0.0, 0
    options = {name: getattr(params, name) for name in ("kernel", "degree", "coef0", *shared)}
    parts = model._parts()
    for k, (X, targets, weight) in enumerate(parts):
        has_weight = weight > 0
        is_too_small = (
            len(np.unique(targets[has_weight])) < 2 if kind is SVC else has_weight.sum() < (2 if kind is SVDD else 1)
        )
        if is_too_small:
            continue  # a batch fit needs two classes, or two points
        batch = kind(**options, gamma=model._gamma, tol=REFIT_TOL)
        batch.fit(X, *(() if kind is SVDD else (targets,)), sample_weight=weight)
        expected = batch.predict(X) if kind is SVR else batch.decision_function(X)
        found = model.predict(X) if kind is SVR else model._values_of_part(X, k)
        distance = max(distance, float(np.abs(found - expected).max()))
        size = max(size, float(np.abs(expected).max()))
        gap = max(gap, float(batch.certificate_.relative_gap or 0.0))
        compared += 1
    nothing = compared == 0
    return {
        "model": f"{kind.__name__} of the remembered points, kernel width {model._gamma!r}",
        "problems": compared,
        "distance": None if nothing else distance,
        "largest_value": None if nothing else size,
        "relative_gap": None if nothing else gap,
    }


def verify_removal(record: Any, after: Any = None, before: Any = None) -> tuple[str, ...]:
    """Verify a certificate of removal, and that it belongs to the models before and after.

    Parameters
    ----------
    record : dict, str or Path
        What `certificate_of_removal` returned, or a JSON file of it.
    after, before : estimator, optional
        The models after and before the removal, for example by `dualflow.load`. Of the model after it, certificate and
        distance to the refit are computed again, and none of the removed ids may be among its own.

    Returns
    -------
    tuple of str
        What was verified, one sentence each.

    Raises
    ------
    ProblemError
        A field was changed, added or left out, a model is another one, or a number is worse than the record says. The
        message names the field.

    Notes
    -----
    The record's SHA-256 is a digest, not a signature: a person who changes the record can compute
    the digest again. To show who made it, sign the file with a key. The record says nothing about other copies
    of the data, or about models and backups made before.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import IncrementalSVC, verify_removal
    >>> X = np.arange(12.0)[:, None]
    >>> model = IncrementalSVC().partial_fit(X, np.arange(12) // 6, ids=[f"customer {k}" for k in range(12)])
    >>> record = model.forget(["customer 4"], purge=True, record=True).certificate_of_removal()
    >>> record["removed"], record["after"]["points"], record["refit"]["distance"] < 1e-6
    ({'count': 1, 'ids': ['customer 4']}, 11, True)
    >>> verify_removal(record, after=model)[0]
    'the record is unchanged since it was made'
    """
    facts = _read(record)
    found = ["the record is unchanged since it was made"]
    if before is not None:
        _check_model(facts, "before", before)
        found.append("the model before the removal is the one in the record")
    if after is not None:
        _check_model(facts, "after", after)
        found.append("the model after the removal is the one in the record")
        removed, remembered = decode(facts["removed"]["ids"]), set(after._public_ids(after._remembered_ids()).tolist())
        if left := [one for one in removed if one in remembered]:
            raise ProblemError(f"removed: the model still has the points {left[:5]}; remove them with forget(ids)")
        found.append(f"none of the {len(removed)} removed ids is among its {len(remembered)} points")
        gap, stated = state_of(after)["relative_gap"], facts["after"]["relative_gap"]
        # A model that has forgotten all its points has no gap.
        if (gap is None) != (stated is None) or (gap or 0.0) > (stated or 0.0) + DISTANCE_TOL:
            raise ProblemError(f"after: the model's relative gap is {gap}, and the record says {stated}; {SAVED_THEN}")
        refit = _refit(after)
        if refit["distance"] is not None:
            stated = facts["refit"]["distance"]
            if stated is None or refit["distance"] > stated + DISTANCE_TOL * max(1.0, refit["largest_value"]):
                raise ProblemError(
                    f"refit: the distance is {refit['distance']:.3g}, and the record says {stated}; {SAVED_THEN}"
                )
            found.append(f"it differs from a refit without them by at most {refit['distance']:.1e}")
    return tuple(found)


def _read(record: Any) -> dict[str, Any]:
    """Return the fields of a record, whose digest is right."""
    if isinstance(record, (str, Path)):
        try:
            record = json.loads(Path(record).read_text(encoding="utf-8"))
        except ValueError as error:
            raise ProblemError(f"{record} is not a certificate of removal: {error}; {WAY_OUT}") from None
    if not isinstance(record, dict) or record.get("kind") != KIND:
        raise ProblemError(f"it is not a certificate of removal: its kind is not {KIND!r}; {WAY_OUT}")
    if record.get("format") != RECORD_FORMAT:
        raise ProblemError(f"format: this version reads {RECORD_FORMAT}, found {record.get('format')!r}; {WAY_OUT}")
    if other := set(FIELDS) ^ set(record):
        raise ProblemError(f"the record has other fields than it should: {sorted(map(str, other))}; {WAY_OUT}")
    try:
        digest = hashlib.sha256(_canonical({k: v for k, v in record.items() if k != "sha256"})).hexdigest()
    except (TypeError, ValueError):
        digest = ""
    if digest != record["sha256"]:
        raise ProblemError(f"sha256: a field of the record was changed since it was made; {WAY_OUT}")
    for name, fields in PARTS.items():
        if not isinstance(record[name], dict) or set(record[name]) != fields:
            raise ProblemError(
                f"{name}: it is no part of a certificate of removal, whose fields are {sorted(fields)}; {WAY_OUT}"
            )
    if not isinstance(record["removed"]["ids"], list) or len(record["removed"]["ids"]) != record["removed"]["count"]:
        raise ProblemError(f"removed: its ids are not as many as its count; {WAY_OUT}")
    return record


def _check_model(facts: dict[str, Any], when: str, model: Any) -> None:
    """Raise `ProblemError` unless a model is the one of a record."""
    if type(model).__name__ != facts["class"]:
        raise ProblemError(
            f"class: the record is of an {facts['class']}, the model {when} is {type(model).__name__}; pass its model"
        )
    if model_digest(model) != facts[when]["model"]:
        raise ProblemError(
            f"{when}: the model is not the one in the record, their digests differ; pass the one saved then"
        )


def _canonical(value: Any) -> bytes:
    """Return JSON in one form: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, allow_nan=False, separators=(",", ":")).encode()
