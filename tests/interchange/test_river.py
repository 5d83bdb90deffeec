"""The adapter for river passes river's own checks, and learns what the model itself learns."""

import subprocess
import sys

import numpy as np
import pytest

from dualflow import SVC, EcoSVC, IncrementalSVC, ProblemError

MODELS = [IncrementalSVC(gamma=0.5, C=3.0), EcoSVC(gamma=0.5, C=3.0)]


def test_without_river_the_error_says_the_pip_line():
    code = """
import sys
sys.modules["river"] = None
from dualflow import IncrementalSVC
from dualflow.interchange.river import RiverClassifier
RiverClassifier(IncrementalSVC(), classes=(0, 1))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("which is not installed: pip install river")


@pytest.fixture
def adapter():
    pytest.importorskip("river", reason="river is not installed: pip install river")
    from dualflow.interchange.river import RiverClassifier

    return RiverClassifier


@pytest.mark.slow  # 5000 single points; it needs river, which the test extra does not install
@pytest.mark.parametrize("number", [0, 1])
def test_rivers_own_checks(adapter, number):
    from river import checks

    model = adapter(**list(adapter._unit_test_params())[number])
    names = [check.__name__ for check in checks.yield_checks(model)]
    assert len(names) > 20
    assert not adapter._unit_test_skips(model) & {"check_learn_one", "check_pickling", "check_emerging_features"}
    checks.check_estimator(model)


@pytest.mark.parametrize("model", MODELS, ids=["incremental", "eco"])
def test_it_learns_what_the_model_learns(adapter, model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=60) > 0, "up", "down")
    names = ("a", "b", "c")
    stream = adapter(model, classes=("down", "up"))
    rows = [dict(zip(names, row.tolist(), strict=True)) for row in X]
    assert stream.predict_one(rows[0]) is None
    for row, label in zip(rows, y.tolist(), strict=True):
        stream.learn_one(row, label)
    found = stream.fitted.decision_function(X)
    own = type(model)(gamma=0.5, C=3.0)
    for row, label in zip(X, y, strict=True):
        own.partial_fit(row[None], [label], classes=["down", "up"])
    np.testing.assert_array_equal(found, own.decision_function(X))
    if isinstance(model, IncrementalSVC):
        batch = SVC(gamma=0.5, C=3.0, tol=1e-10).fit(X, y)
        np.testing.assert_allclose(found, batch.decision_function(X), atol=1e-6)
    assert [stream.predict_one(dict(reversed(row.items()))) for row in rows] == own.predict(X).tolist()
    lacking = [{"a": row["a"], "c": row["c"], "new": 9.0} for row in rows]
    assert [stream.predict_one(row) for row in lacking] == own.predict(X * [1.0, 0.0, 1.0]).tolist()
    assert not hasattr(model, "classes_")
    assert stream.clone().predict_one(rows[0]) is None


def test_other_models_are_refused(adapter):
    with pytest.raises(ProblemError, match="model is SVC; give an IncrementalSVC or EcoSVC"):
        adapter(SVC(), classes=(0, 1))
