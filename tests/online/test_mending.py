"""Mending that does not come nearer is given up where somebody solves anew, and goes on where nobody does."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from dualflow import Gram, IncrementalSVC, problems
from dualflow.core.workspace import Workspace
from dualflow.online.incremental import Engine
from dualflow.online.state import PathError
from dualflow.solvers.incremental import _ProblemMatrix

X, LABELS = make_moons(60, noise=0.2, random_state=0)
Y = 2.0 * LABELS - 1


@pytest.mark.parametrize("has_rescue", [False, True])
def test_variables_that_go_to_and_fro(has_rescue, monkeypatch):
    workspace = Workspace(problems.svc(Gram(X), Y, 1.0))
    engine = Engine(_ProblemMatrix(workspace), True)
    engine.append(workspace.p, workspace.upper, workspace.e, workspace.diag())
    engine.has_rescue, drives = has_rescue, []
    monkeypatch.setattr(engine, "violators", lambda: np.array([3, 5, 8]))
    monkeypatch.setattr(engine, "_drive_near", lambda k, v, to_margin: drives.append(k))
    with pytest.raises(PathError):
        engine._mend(-1)
    assert len(drives) < 60 if has_rescue else len(drives) == 10 * engine.n + 100


def test_streams_have_a_rescue_and_their_twins_too():
    model = IncrementalSVC().partial_fit(X, LABELS)
    (stream,) = model._streams
    assert stream.engine.has_rescue
    assert stream.twin().engine.has_rescue
