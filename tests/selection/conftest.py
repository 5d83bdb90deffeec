"""Fixtures of the searches' tests."""

import numpy as np
import pytest

from dualflow.selection import _evaluation, _pace


@pytest.fixture
def one_matrix(monkeypatch):
    """All folds but the first are solved over one matrix, however long it takes."""
    monkeypatch.setattr(_evaluation, "TRIED_FROM", 0.0)
    monkeypatch.setattr(_pace, "ALLOWED", np.inf)
