"""A width of the terminal that does not depend on the caller's."""

import pytest


@pytest.fixture(autouse=True)
def _width(monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
