"""Imported by nobody but a file that names it as a device: see `targets`."""

from __future__ import annotations


def make() -> None:
    """What `device="backend:tests.fuzz.canary:make"` would call."""
