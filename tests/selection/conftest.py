"""Fixtures of the searches' tests."""

import numpy as np
import pytest

from dualflow.selection import _evaluation, _folds, _plan


@pytest.fixture
def one_matrix(monkeypatch):
    """All folds but the first are solved over one matrix, however long it takes."""
    monkeypatch.setattr(_evaluation, "MIN_GAIN", 0.0)
    for module in (_plan, _evaluation):
        monkeypatch.setattr(module, "MIN_FOLDS_ONE_COST", 2)
    monkeypatch.setattr(_folds, "MAX_LOSS_FRACTION", np.inf)
