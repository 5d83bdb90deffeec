"""Every notebook runs from top to bottom; their own assertions are the claims."""

from pathlib import Path

import nbclient
import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


#: Studies whose figures take a minute each to compute.
SLOW = {"mean_field_copies", "carleman_divergence"}


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.long] * (path.stem in SLOW)) for path in NOTEBOOKS],
)
def test_notebook_runs(path):
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    assert any(cell.get("outputs") for cell in notebook.cells)
