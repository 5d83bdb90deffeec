"""Ctrl-C at a few moments of what `tests.faults.interrupts` tries at many: it is raised, and nothing is left."""

import os

import pytest

from tests.combinations import often
from tests.faults.interrupts import CASES, tried

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

#: Half a second is the promise, where a machine is not busy with other tests.
SOON_S = 5.0


@pytest.mark.parametrize("name", often(CASES, "SVC.fit", "compare"))
def test_ctrl_c_is_raised_soon_and_nothing_is_left(name):
    for outcome in tried(name, 2, longest=0.4):
        assert outcome.what == "raised"
        assert outcome.seconds < SOON_S


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "SVC refit, n_jobs",
        "SVC linear",
        "SVC linear, many rows",
        "SVR linear, many rows",
        "SVC linear, wide",
        "SVC squared hinge",
        "SVDD contamination",
        "CascadeSVC",
    ],
)
def test_ctrl_c_is_raised_soon_by_other_estimators(name):
    for outcome in tried(name, 20):
        assert outcome.what == "raised"
        assert outcome.seconds < SOON_S


@pytest.mark.parametrize("name", often(["IncrementalSVC", "EcoSVC"], "EcoSVC"))
def test_ctrl_c_leaves_a_stream_as_it_was(name):
    for outcome in tried(name, 3, longest=0.2):
        assert outcome.what == "raised"
        assert outcome.seconds < SOON_S
