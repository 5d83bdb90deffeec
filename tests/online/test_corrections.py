"""Tests that corrections without progress end early if the caller has a fallback, and go on otherwise."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from dualflow import Gram, IncrementalSVC, problems
from dualflow.core.workspace import Workspace
from dualflow.online.engine import Engine
from dualflow.online.state import PathError
from dualflow.solvers.incremental import _ProblemMatrix

X, LABELS = make_moons(60, noise=0.2, random_state=0)
Y = 2.0 * LABELS - 1


@pytest.mark.parametrize("has_fallback", [False, True])
def test_alternating_violators_end_with_an_error(has_fallback, monkeypatch):
    workspace = Workspace(problems.svc(Gram(X), Y, 1.0))
    engine = Engine(_ProblemMatrix(workspace), True)
    engine.append(workspace.p, workspace.upper, workspace.e, workspace.diag())
    engine.has_fallback, drives = has_fallback, []
    monkeypatch.setattr(engine, "violators", lambda: np.array([3, 5, 8]))
    monkeypatch.setattr(engine, "_move_near", lambda k, v, to_margin: drives.append(k))
    with pytest.raises(PathError):
        engine._correct_violators(-1)
    assert len(drives) < 60 if has_fallback else len(drives) == 10 * engine.n + 100


def test_streams_and_their_copies_have_a_fallback():
    model = IncrementalSVC().partial_fit(X, LABELS)
    (stream,) = model._streams
    assert stream.engine.has_fallback
    assert stream.isolated_copy().engine.has_fallback
