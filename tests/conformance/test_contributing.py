"""The solver that CONTRIBUTING shows how to write passes what every solver must."""

import importlib
import re
import sys
import textwrap
from pathlib import Path

import pytest

from dualflow.testing import CheckFailed, check_solver

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """The page's one block of Python, as a module."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 1
    (tmp_path / "solver_of_the_page.py").write_text(textwrap.dedent(blocks[0]), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield importlib.import_module("solver_of_the_page")
    sys.modules.pop("solver_of_the_page", None)


def test_the_solver_of_the_page_passes_every_check(shown):
    report = check_solver(shown.ProjectedGradient())
    assert report.failed == {}
    assert len(report.passed) >= 18


@pytest.mark.slow
def test_without_its_curvature_it_would_fail(shown, monkeypatch):
    def fixed(self, work, state):
        moved = work.project(state.alpha - 0.1 * state.gradient)
        return shown.ProjectedGradientState(moved, work.gradient(moved), 0.1)

    monkeypatch.setattr(shown.ProjectedGradient, "step", fixed)
    monkeypatch.setattr(shown.ProjectedGradient, "default_max_steps", 1000)
    with pytest.raises(CheckFailed, match="comes to rest"):
        check_solver(shown.ProjectedGradient())
