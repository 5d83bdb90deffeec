"""Every notebook runs from top to bottom; their own assertions are the claims."""

from pathlib import Path

import nbclient
import nbformat
import pytest
from jupyter_client.manager import KernelManager

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks():
    assert NOTEBOOKS


#: Notebooks that take 15 s to minutes; tests of the rooms check what they show on smaller data.
SLOW = {
    "carleman_divergence",
    "gradient_variance",
    "mean_field_copies",
    "pareto_front",
    "shots_noise_depth",
    "variational_flow",
}


@pytest.fixture(scope="module")
def kernel():
    """One process for all notebooks: it imports NumPy, Matplotlib and the rest once, two seconds of each otherwise."""
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    yield manager
    manager.shutdown_kernel(now=True)


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem in SLOW)) for path in NOTEBOOKS],
)
def test_notebook_runs(path, kernel):
    notebook = nbformat.read(path, as_version=4)
    # No name of the notebook before it: what one uses, it has imported.
    notebook.cells.insert(0, nbformat.v4.new_code_cell("%reset -s -f"))
    client = nbclient.NotebookClient(notebook, km=kernel, timeout=240)
    try:
        client.execute()
    finally:
        client.kc.stop_channels()
    assert any(cell.get("outputs") for cell in notebook.cells)
